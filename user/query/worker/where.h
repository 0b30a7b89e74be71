/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of a table that a query selects: "COLUMN OP VALUE,...", all of which have to hold, with the operators <, <=, =, <>, >=, > and a value
 * as in files, in single quotes ('' for one) if it has a comma, blanks or quotes; or "COLUMN null", "COLUMN not null". "COLUMN never null" holds for all rows: a NULL
 * in a row for which the conditions before it hold is an error. A type
 * may follow the column, which has to be of that type. As in SQL a comparison with NULL holds for no row, NaN is greater than all other values, reals are compared as doubles, and texts by
 * their bytes.
 */
#ifndef FPISA_QUERY_WHERE_H
#define FPISA_QUERY_WHERE_H

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
	int64_t integer; /* the value, of int32, int64, date */
	double real;	 /* of real, double */
	const char *text;
	size_t len;
};

struct where {
	int n;
	struct where_term term[WHERE_TERMS];
	char *texts;
};

/* 0, or -errno with the message set, which names `file`. */
int where_parse(struct where *w, const struct schema *schema, const char *text, const char *file);
void where_free(struct where *w);

/* Does the row that `t` has given hold all? 1, 0, or -errno with the message set: a field is not a value of that column's type, or
 * NULL where it is never. */
int where_holds(const struct where *w, const struct text *t, const struct fpisa_field *field);

#endif
