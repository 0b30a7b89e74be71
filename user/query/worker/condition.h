/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of a table that a query selects: "COLUMN OP VALUE,...". All conditions have to hold. The operators are <,
 * <=, =, <>, >=, >. A value is written as in files, in single quotes ('' for a quote) if it has a comma, blanks or
 * quotes. Other conditions are "COLUMN null" and "COLUMN not null". "COLUMN never null" holds for all rows. But a NULL
 * there, in a row for which the conditions before it hold, is an error.
 *
 * A type may follow the column, which must have that type. As in SQL, a comparison with NULL holds for no row. NaN is
 * greater than all other values. Reals are compared as doubles, and texts by their bytes.
 */
#ifndef FPISA_QUERY_CONDITION_H
#define FPISA_QUERY_CONDITION_H

#include <stdint.h>

#include "text.h"

#define WHERE_TERMS 16

enum where_operator {
	WHERE_LESS,
	WHERE_LESS_EQUAL,
	WHERE_EQUAL,
	WHERE_OTHER,
	WHERE_GREATER_EQUAL,
	WHERE_GREATER,
	WHERE_NULL,
	WHERE_NOT_NULL,
	WHERE_NEVER_NULL
};

struct where_term {
	int column;
	enum where_operator is;
	__int128 integer; /* value of int32, int64, date; of a decimal, in units of its last digit */
	double real;	  /* value of real, double */
	const char *text;
	size_t len;
};

struct where {
	int n;
	struct where_term term[WHERE_TERMS];
	char *texts;
};

/* Parse conditions. Return 0, or -errno with the message set, which names `file`. */
int where_parse(struct where *w, const struct schema *schema, const char *text, const char *file);
void where_free(struct where *w);

/*
 * Return 1 if all conditions hold for the row that `t` has given, else 0. Return -errno with the message set if a field
 * is invalid: not a value of its column's type, or NULL in a column that is never null.
 */
int where_holds(const struct where *w, const struct text *t, const struct fpisa_field *field);

#endif
