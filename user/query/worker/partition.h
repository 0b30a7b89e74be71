/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of a table that a worker has: TABLE.schema in its directory, and one of TABLE.csv, TABLE.tbl and
 * TABLE.parquet. No name or link can make the worker open a file outside of the directory.
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
	bool ours; /* `fd` is a temporary file that only this process has */
	struct identity identity, of_schema;
};

/*
 * Find the table's files and read its schema. Return 0, or -errno with the message set: -EINVAL if the name or the
 * schema is not valid, -ENOENT if the table does not exist.
 */
int partition_open(struct partition *p, int directory, const char *table);

/*
 * Go to the first row. If the file is Parquet, first write the `used` columns as CSV to a temporary file; `wait` waits
 * for this. The index into `used` is the column's number in the schema. Other columns have no values then. Return 0, or
 * -errno with the message set: -EINVAL if the file is not valid, -ENOENT if pyarrow is not installed.
 */
int partition_begin(struct partition *p, const bool used[FPISA_COLUMNS_MOST], const struct parquet_wait *wait);
void partition_close(struct partition *p); /* also for a partition that is all 0, or was not opened */

/* Go back to the first row. Return 0 or -errno as text_header(). */
int partition_rewind(struct partition *p);

/* Return a number of the rows and the schema. Two reads of a table with equal numbers have read the same bytes. */
uint64_t partition_number(const struct partition *p);

/* Return -ESTALE, with the message set, if the file was written after it was opened, else 0. */
int partition_unchanged(struct partition *p);

/* Do the same at the end of the rows. Also return -ESTALE if a process has the file open for writing. */
int partition_whole(struct partition *p);

#endif
