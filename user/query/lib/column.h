/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Columns of a table at a worker, with names, types and values as text. The key of a group contains its columns one
 * after the other (doc/query.md), in these formats:
 *
 * 	int32, date	4 bytes; a date is days since 1970-01-01
 * 	real		4 bytes, the value's place in the order of doc/query-wire.md
 * 	int64		8 bytes
 * 	timestamp	8 bytes, microseconds since 1970-01-01 00:00:00
 * 	decimal		an integer in units of the last digit, of 8 bytes up to a precision of 18, else 16 bytes
 * 	double		8 bytes, with -0 as 0, and with a single NaN
 * 	text		one byte with the length of the text, then the text
 *
 * If a column may be NULL, one more byte precedes the value. The byte is 0 for a value, and 1 for a NULL, which is
 * followed by zeros. Numbers are little-endian.
 */
#ifndef FPISA_QUERY_COLUMN_H
#define FPISA_QUERY_COLUMN_H

#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#include "fpisa-query.h"

#define FPISA_COLUMNS_MOST 64
#define FPISA_COLUMN_NAME 64 /* including the terminating 0 */
#define FPISA_QUERY_KEY_BYTES 32
#define FPISA_COLUMN_TEXT_MOST 48 /* maximum size in bytes of a number or a date as text, including the terminating 0 */
#define FPISA_COLUMN_TYPE_MOST 32

struct fpisa_column {
	char name[FPISA_COLUMN_NAME];
	uint8_t type; /* enum fpisa_column_type */
	uint8_t not_null;
	uint8_t precision,
		/*
		 * for a decimal, the number of digits, 1 to FPISA_DECIMAL_MOST, and the number of digits after the
		 * point; else 0
		 */
		scale;
};

/* A value as text, as in a file. text[len] is 0. */
struct fpisa_field {
	char *text;
	size_t len;
	int null;
};

/* Return whether the column has a valid type and, if it is a decimal, a valid precision and scale. */
int fpisa_column_valid(const struct fpisa_column *c);

/* Write the column's type as in a schema file, for example "decimal(15,2)". */
void fpisa_column_type_text(const struct fpisa_column *c, char text[FPISA_COLUMN_TYPE_MOST]);

/*
 * Return the type's name, for example "int32", or NULL if the type does not exist. fpisa_column_type_of() returns 0 if
 * no type has the name.
 */
const char *fpisa_column_type_name(unsigned int type);
unsigned int fpisa_column_type_of(const char *name);

/* Return whether the name is valid. A name consists of 1 to 63 of A-Z a-z 0-9 _, and does not start with a digit. */
int fpisa_column_name_valid(const char *name);

/*
 * Parse a decimal number, NaN or infinity, and round it once. Return 0, -EINVAL if the text is not a number, or -ERANGE
 * if the rounded value is not finite.
 */
int fpisa_parse_real(const char *text, uint32_t *bits);

/*
 * Parse the value of a column of numbers or dates. Store a real in *narrow, and a double or a 128-bit integer in wide[].
 * A date is a number of days, and a timestamp a number of microseconds. Return 0, -EINVAL or -ERANGE as above.
 */
int fpisa_value_parse(const struct fpisa_column *c, const struct fpisa_field *f, uint32_t *narrow, __u64 wide[2]);

/* Return whether this number of days since 1970-01-01 is a date in the years 1 to 9999. */
int fpisa_date_valid(int64_t days);

/* Return whether this number of microseconds since 1970-01-01 00:00:00 is in the years 1 to 9999. */
int fpisa_timestamp_valid(int64_t us);

/* Write a valid date or timestamp as text. */
void fpisa_date_text(int32_t days, char text[FPISA_COLUMN_TEXT_MOST]);
void fpisa_timestamp_text(int64_t us, char text[FPISA_COLUMN_TEXT_MOST]);

/* Return the double in the form that keys and values contain, with -0 as 0 and a single NaN. */
double fpisa_double_canonical(double x);

/* Replace the row's real by the double that equals it. */
struct fpisa_row;
void fpisa_row_widen(struct fpisa_row *r);

/* Return the bits of the real next to a double. */
uint32_t fpisa_double_narrow(uint64_t bits);

/* Return the enum fpisa_value_form that takes the fewest bytes for the column's values, or 0 if they have no form. */
uint32_t fpisa_column_form(const struct fpisa_column *c);

/*
 * Return the form that takes the fewest bytes for values of both forms, or 0 if there is none. 0 stands for no values.
 */
uint32_t fpisa_form_of_both(uint32_t a, uint32_t b);

/*
 * Return whether the column is *, which stands for the rows of a table. Its aggregate is the number of rows, so it has
 * no values and no form.
 */
static inline int fpisa_column_is_rows(const struct fpisa_column *c)
{
	return c->name[0] == '*';
}

/* Return whether the column has floating-point numbers. */
static inline int fpisa_column_is_float(const struct fpisa_column *c)
{
	return c->type == FPISA_COLUMN_REAL || c->type == FPISA_COLUMN_DOUBLE;
}

/* The column *. */
extern const struct fpisa_column fpisa_column_rows;

#define FPISA_COUNT_DISTINCT "count(distinct "

/*
 * An entry of a list of values: "COLUMN", "COLUMN TYPE", "count(distinct COLUMN)", "count(distinct COLUMN TYPE)" or "*",
 * and then possibly " filter (CONDITIONS)". The entry's aggregates are of the rows that meet the conditions
 * (condition.h).
 */
struct fpisa_value_entry {
	const char *text, *filter; /* `text` is the column; `filter` is the conditions, or NULL */
	size_t len;		   /* bytes of the column and the type */
	size_t name;		   /* bytes of the column */
	size_t filter_len;
	int distinct; /* count the distinct values of the column */
};

/*
 * Take the next entry of the list, and move *list behind it. Return 1, 0 at the end of the list, or -EINVAL if a
 * parenthesis or a quote is not closed, if text follows the conditions or the parenthesis of a column, or if a comma
 * ends the list.
 */
int fpisa_value_next(const char **list, struct fpisa_value_entry *e);

/* Return whether rows of a query with this form can contain values of the column. */
int fpisa_column_fits(const struct fpisa_column *c, uint32_t form);

/*
 * Return 1 if the text has the format of a value of the column's type, else 0. Numbers may still be out of range for a
 * real or double. Texts must not contain a 0.
 */
int fpisa_text_valid(const struct fpisa_column *c, const char *text, size_t len);

/* Check that the field is a value of the column's type, or NULL. Return 0, -EINVAL or -ERANGE. */
int fpisa_field_check(const struct fpisa_column *c, const struct fpisa_field *f);

/* Return the minimum and the maximum size in bytes of the column in a key. */
size_t fpisa_key_least(const struct fpisa_column *c);
size_t fpisa_key_most(const struct fpisa_column *c);

/*
 * Append a value to a key that has `used` bytes and may have at most `most` bytes. Return the new number of bytes,
 * -EINVAL or -ERANGE as above, or -ENOSPC if the key has no room.
 */
int fpisa_key_put(uint8_t key[FPISA_QUERY_KEY_BYTES], size_t used, size_t most, const struct fpisa_column *c,
		  const struct fpisa_field *f);

/*
 * Read the column's value at byte `at` of a key as text. For NULL, set the text to "" and *null to 1. `size` is the
 * size of `text`, at least FPISA_COLUMN_TEXT_MOST + FPISA_QUERY_KEY_BYTES. Return the number of bytes up to the end of
 * the value, or -EINVAL if the key does not contain a value of this column.
 */
int fpisa_key_take(const uint8_t key[FPISA_QUERY_KEY_BYTES], size_t at, size_t most, const struct fpisa_column *c,
		   char *text, size_t size, int *null);

/*
 * Write the number as text, with 9 digits for a real and 17 for a double. Special values are "NaN", "Infinity" and
 * "-Infinity".
 */
void fpisa_real_text(uint32_t bits, char text[FPISA_COLUMN_TEXT_MOST]);
void fpisa_double_text(uint64_t bits, char text[FPISA_COLUMN_TEXT_MOST]);

#endif
