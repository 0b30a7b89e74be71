/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Columns whose values are in the names of directories, as Hive and Spark write them: t/country=DE/day=2024-05-01/x.parquet.
 * All files of a table have the same columns. A % and two hexadecimal digits stand for a byte.
 */
#ifndef FPISA_QUERY_HIVE_H
#define FPISA_QUERY_HIVE_H

#include <stdio.h>

#include "files.h"
#include "fpisa-query.h"
#include "query/lib/column.h"

#define HIVE_MOST 16

struct hive {
	int n;
	char name[HIVE_MOST][FPISA_COLUMN_NAME];
	/* BIGINT, DATE or BLOB in the engine's words, whichever has room for all values; "NULL" in quotes if all are NULL */
	const char *type[HIVE_MOST];
};

/* Find the columns of the files. Return 0, or -EINVAL with the message set. */
int hive_find(struct hive *h, const struct files *files);

/* Return the column of this name, or -1. As in SQL, upper and lower case letters are equal. */
int hive_column(const struct hive *h, const char *name);

/* Write the value of column `i` of a file, whose path is given, as SQL. */
void hive_put(FILE *f, const struct hive *h, int i, const char *path);

#endif
