/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Columns of a table at a worker: names, types, values as text, and the keys of groups, in which columns stand one
 * after the other (doc/query.md):
 *
 * 	int32, date	4 bytes; a date is days since 1970-01-01
 * 	real		4 bytes, the value's place in the order of doc/query-wire.md
 * 	int64		8 bytes
 * 	decimal		8 bytes up to a precision of 18, else 16: an integer, of units of the last digit
 * 	double		8 bytes, -0 as 0, one NaN
 * 	text		a byte with the text's length, then the bytes
 *
 * A column that may be NULL has a byte before it: 0, or 1 and then zeros. Numbers are little-endian.
 */
#ifndef FPISA_QUERY_COLUMN_H
#define FPISA_QUERY_COLUMN_H

#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>

#define FPISA_COLUMNS_MOST 64
#define FPISA_COLUMN_NAME 64 /* with the 0 after the name */
#define FPISA_QUERY_KEY_BYTES 32
#define FPISA_COLUMN_TEXT_MOST 48 /* bytes of a number or a date as text, with the 0 */
#define FPISA_COLUMN_TYPE_MOST 32

struct fpisa_column {
	char name[FPISA_COLUMN_NAME];
	uint8_t type; /* enum fpisa_column_type */
	uint8_t not_null;
	uint8_t precision,
		scale; /* of a decimal: 1 to FPISA_DECIMAL_MOST digits, `scale` of them after the point; else 0 */
};

/* A value as it stands in a file: `text` ends with a 0 at [len]. */
struct fpisa_field {
	char *text;
	size_t len;
	int null;
};

/* Return whether the column has a type, and as a decimal a valid precision and scale. */
int fpisa_column_valid(const struct fpisa_column *c);

/* Write the column's type as in a schema, for example "decimal(15,2)". */
void fpisa_column_type_text(const struct fpisa_column *c, char text[FPISA_COLUMN_TYPE_MOST]);

/* Return the type's name, for example "int32", or NULL if there is no such type. _of() returns 0 if no type has the name. */
const char *fpisa_column_type_name(unsigned int type);
unsigned int fpisa_column_type_of(const char *name);

/* Return whether the name is valid: 1 to 63 of A-Z a-z 0-9 _, where the first is not a digit. */
int fpisa_column_name_valid(const char *name);

/*
 * Parse a decimal number, NaN or infinity, rounded once, into its bits. Return 0, -EINVAL if the text is not a number,
 * or -ERANGE if its value is not finite.
 */
int fpisa_parse_real(const char *text, uint32_t *bits);

/*
 * Parse the value of a column of numbers: a real into *narrow, a double or an integer of 128 bits into wide[].
 * Return 0, -EINVAL or -ERANGE as above.
 */
int fpisa_value_parse(const struct fpisa_column *c, const struct fpisa_field *f, uint32_t *narrow, __u64 wide[2]);

/* Return whether these days since 1970-01-01 are a date of the years 1 to 9999. */
int fpisa_date_valid(int32_t days);

/* Return the double as keys and values have it: -0 as 0, one NaN. */
double fpisa_double_canonical(double x);

/* Return the form, enum fpisa_value_form, with the fewest bytes that such values have in rows; 0: they have none. */
uint32_t fpisa_column_form(const struct fpisa_column *c);

/* Return whether values of the column can be in rows of a query of that form. */
int fpisa_column_fits(const struct fpisa_column *c, uint32_t form);

/*
 * Return 1 if the text has the form of a value of the column's type, else 0. Numbers may be out of a real's or double's
 * range; texts have no 0.
 */
int fpisa_text_valid(const struct fpisa_column *c, const char *text, size_t len);

/* Check that the field is a value of the column's type, or NULL. Return 0, -EINVAL or -ERANGE. */
int fpisa_field_check(const struct fpisa_column *c, const struct fpisa_field *f);

/* Return the least and the most bytes of keys of that column. */
size_t fpisa_key_least(const struct fpisa_column *c);
size_t fpisa_key_most(const struct fpisa_column *c);

/*
 * Append a value to a key that has `used` bytes, and may have at most `most`. Return the new number of bytes, -EINVAL
 * or -ERANGE as above, or -ENOSPC if the key has no room.
 */
int fpisa_key_put(uint8_t key[FPISA_QUERY_KEY_BYTES], size_t used, size_t most, const struct fpisa_column *c,
		  const struct fpisa_field *f);

/*
 * Take the column's value from byte `at` of a key as text; for NULL, set the text to "" and *null to 1. `text` has
 * `size` bytes, at least FPISA_COLUMN_TEXT_MOST + FPISA_QUERY_KEY_BYTES. Return the bytes up to the value's end, or
 * -EINVAL if the key does not hold a value of this column.
 */
int fpisa_key_take(const uint8_t key[FPISA_QUERY_KEY_BYTES], size_t at, size_t most, const struct fpisa_column *c,
		   char *text, size_t size, int *null);

/* Write the number as text: nine digits, or 17 for a double; "NaN", "Infinity", "-Infinity". */
void fpisa_real_text(uint32_t bits, char text[FPISA_COLUMN_TEXT_MOST]);
void fpisa_double_text(uint64_t bits, char text[FPISA_COLUMN_TEXT_MOST]);

#endif
