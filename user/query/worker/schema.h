/* SPDX-License-Identifier: GPL-2.0-only */
/* The columns of a table from the file TABLE.schema. Each line is `NAME TYPE [not null]`. # begins a comment. */
#ifndef FPISA_QUERY_SCHEMA_H
#define FPISA_QUERY_SCHEMA_H

#include "query/lib/column.h"

#define SCHEMA_BYTES 65536 /* maximum size of the file in bytes */

struct schema {
	int n;
	struct fpisa_column column[FPISA_COLUMNS_MOST];
};

/*
 * Parse the contents of the file, which must end with a 0 and are changed. `name` is for messages. Return 0, or -EINVAL
 * with the message set.
 */
int schema_parse(struct schema *s, char *text, const char *name);

/*
 * Parse a type as in a schema, such as "decimal(15,2)". Clear the other members of *c. Return whether this is
 * a type.
 */
int schema_type_parse(struct fpisa_column *c, const char *type);

/* Return the number of the column, or -1 if there is no such column. */
int schema_find(const struct schema *s, const char *column);

/*
 * Find the column of the text "NAME" or "NAME TYPE", which has `len` bytes. Return the column's number. Return -EINVAL
 * with the message set if the column does not exist or has another type. The message names `file`.
 */
int schema_find_typed(const struct schema *s, const char *text, size_t len, const char *file);

#define TABLE_NAME 64 /* including the terminating 0 */

/* Return whether this is a valid name of a table. A valid name cannot refer to another directory. */
int table_name_valid(const char *table);

#endif
