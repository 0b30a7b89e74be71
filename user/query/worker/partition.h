/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of a table that a worker has: TABLE.schema in its directory, and one of TABLE.csv, TABLE.tbl and
 * TABLE.parquet. Parquet needs no schema. No name or link can make the worker open a file outside of the directory.
 */
#ifndef FPISA_QUERY_PARTITION_H
#define FPISA_QUERY_PARTITION_H

#include <stdbool.h>

#include "identity.h"
#include "parquet.h"
#include "text.h"

struct partition {
	int fd;
	enum { ROWS_CSV, ROWS_TBL, ROWS_PARQUET } kind;
	char file[TABLE_NAME + 16]; /* file name, for messages */
	struct schema schema;
	struct text text;
	struct parquet parquet; /* instead of `text`, if the file is Parquet */
	bool ours;		/* `fd` is a temporary file that only this process has */
	struct identity identity, of_schema;
};

/*
 * Find the table's files and read its schema. Return 0, or -errno with the message set: -EINVAL if the name or the
 * schema is not valid, -ENOENT if the table does not exist, or is Parquet and DuckDB does not.
 */
int partition_open(struct partition *p, int directory, const char *table);

/*
 * Go to the first row. Columns that are not `used` (NULL: all are) have no values in Parquet then, and are not checked in
 * other files. Return 0, or -EINVAL with the message set if the file is not valid.
 */
int partition_begin(struct partition *p, const bool used[FPISA_COLUMNS_MOST]);
void partition_close(struct partition *p); /* the partition may be all 0 or not opened */

/* Go back to the first row of a text. Return 0 or -errno as text_header(). */
int partition_rewind(struct partition *p);

/* Return a number of the rows and the schema. Two reads of a table with equal numbers have read the same bytes. */
uint64_t partition_number(const struct partition *p);

/* Return -ESTALE, with the message set, if the file was written after it was opened, else 0. */
int partition_unchanged(struct partition *p);

/* Do the same at the end of the rows. Also return -ESTALE if a process has the file open for writing. */
int partition_whole(struct partition *p);

#endif
