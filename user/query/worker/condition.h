/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The conditions on rows that a query selects, written as "COLUMN OP VALUE,...". All conditions must hold. The
 * operators are <, <=, =, <>, >= and >. A value has the same format as in files. A value with a comma, blanks or quotes
 * must be in single quotes, and a quote is doubled. Other conditions are "COLUMN null" and "COLUMN not null". "COLUMN
 * never null" holds for all rows, but a NULL in the column is an error if the preceding conditions hold for the row.
 *
 * A type may follow the name of a column, and then the column must have this type. As in SQL, a comparison with NULL
 * never holds. NaN is greater than all other values. Reals are compared as doubles, and texts by their bytes.
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
	__int128 integer; /* value of an int32, int64 or date, or of a decimal in units of its last digit */
	double real;	  /* value of a real or double */
	const char *text;
	size_t len;
};

struct where {
	int n;
	struct where_term term[WHERE_TERMS + 1]; /* with room for a condition that the caller adds */
	char *texts;
};

/* Parse conditions. `file` is for messages. Return 0, or -errno with the message set. */
int where_parse(struct where *w, const struct schema *schema, const char *text, const char *file);
void where_free(struct where *w);

/*
 * Return 1 if all conditions hold for the last row of `t`, else 0. Return -errno with the message set if a field is not
 * a value of its column's type, or is NULL in a column that is never null.
 */
int where_holds(const struct where *w, const struct text *t, const struct fpisa_field *field);

#endif
