/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Columns of a table at a worker: names, types, values as text, and the keys
 * of groups, in which columns stand one after the other (doc/query.md):
 *
 *	int32, date	4 bytes; a date is days since 1970-01-01
 *	real		4 bytes, its place in the order of doc/query-wire.md
 *	int64		8 bytes
 *	double		8 bytes, -0 as 0, one NaN
 *	text		a byte that says how long it is, then the bytes
 *
 * A column that may be NULL has a byte before it: 0, or 1 and then zeros.
 * Numbers are little-endian.
 */
#ifndef FPISA_QUERY_COLUMN_H
#define FPISA_QUERY_COLUMN_H

#include <stddef.h>
#include <stdint.h>

#define FPISA_COLUMNS_MOST 64
#define FPISA_COLUMN_NAME 64 /* with the 0 behind it */
#define FPISA_QUERY_KEY_BYTES 32
#define FPISA_COLUMN_TEXT_MOST 32 /* of a number or a date as text, with the 0 */

struct fpisa_column {
	char name[FPISA_COLUMN_NAME];
	uint8_t type; /* enum fpisa_column_type */
	uint8_t not_null;
	uint16_t zero;
};

/* A value as it stands in a file: `text` ends with a 0 at [len]. */
struct fpisa_field {
	char *text;
	size_t len;
	int null;
};

/* Return the type's name, as "int32"; NULL: there is no such type. _of() returns 0 if no type has that name. */
const char *fpisa_column_type_name(unsigned int type);
unsigned int fpisa_column_type_of(const char *name);

/* 1 to 63 of A-Z a-z 0-9 _, no digit first */
int fpisa_column_name_valid(const char *name);

/* The bits of a decimal number, NaN or infinity, rounded once. 0, -EINVAL: it is none, -ERANGE: it has no finite value. */
int fpisa_parse_real(const char *text, uint32_t *bits);

/* Return whether the text has the form of a value of the column's type: 1 or 0. Numbers may be out of a real's or double's range; texts have no 0. */
int fpisa_text_valid(const struct fpisa_column *c, const char *text, size_t len);

/* Check that the field is a value of the column's type; NULL is one. 0, -EINVAL or -ERANGE. */
int fpisa_field_check(const struct fpisa_column *c, const struct fpisa_field *f);

/* Bytes of keys of that column: the least and the most. */
size_t fpisa_key_least(const struct fpisa_column *c);
size_t fpisa_key_most(const struct fpisa_column *c);

/*
 * Appends a value to a key that has `used` bytes, of at most `most`. Returns the bytes that it has then, or
 * -EINVAL, -ERANGE as above, -ENOSPC: it has no room.
 */
int fpisa_key_put(uint8_t key[FPISA_QUERY_KEY_BYTES], size_t used, size_t most, const struct fpisa_column *c,
		  const struct fpisa_field *f);

/*
 * Take the column's value from byte `at` of a key as text, "" and *null for NULL; `text` has `size` bytes, at least
 * FPISA_COLUMN_TEXT_MOST + FPISA_QUERY_KEY_BYTES. Return the bytes up to its end, or -EINVAL: the key is not one of this column.
 */
int fpisa_key_take(const uint8_t key[FPISA_QUERY_KEY_BYTES], size_t at, size_t most, const struct fpisa_column *c,
		   char *text, size_t size, int *null);

/* Nine digits, or 17; "NaN", "Infinity", "-Infinity". */
void fpisa_real_text(uint32_t bits, char text[FPISA_COLUMN_TEXT_MOST]);
void fpisa_double_text(uint64_t bits, char text[FPISA_COLUMN_TEXT_MOST]);

#endif
