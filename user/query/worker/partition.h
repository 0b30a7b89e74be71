/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of a table that a worker has: TABLE.schema in its directory, and one of TABLE.csv, TABLE.tbl and
 * TABLE.parquet. Nothing outside of the directory is ever opened, whatever a name or a link says.
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
	char file[TABLE_NAME + 16]; /* its name, for messages */
	struct schema schema;
	struct text text;
	bool ours; /* `fd` is a temporary file that only this process has */
	struct identity identity, of_schema;
};

/*
 * Finds the table's files and reads its schema. 0, or -errno with the message set: -EINVAL of a name that is none, or of a schema that
 * is not as it must be; -ENOENT: no such table.
 */
int partition_open(struct partition *p, int directory, const char *table);

/*
 * Go to the first row. The columns of a Parquet file that are `used`, by their numbers in the schema, are made CSV first, in a
 * temporary file, for which `wait` waits; other columns have no values then. 0, or -errno with the message set: -EINVAL: the file
 * is not valid; -ENOENT: there is no pyarrow for Parquet.
 */
int partition_begin(struct partition *p, const bool used[FPISA_COLUMNS_MOST], const struct parquet_wait *wait);
void partition_close(struct partition *p); /* also for a partition that is all 0, or was not opened */

/* Go back to the first row. 0 or -errno as text_header() returns. */
int partition_rewind(struct partition *p);

/* Return a number of the rows and the schema: two reads of a table with one number have read the same. */
uint64_t partition_number(const struct partition *p);

/* -ESTALE, with the message set, if somebody has written the file since it was opened. */
int partition_unchanged(struct partition *p);

/* The same at the end of the rows, and also if somebody has the file open for writing. */
int partition_whole(struct partition *p);

#endif
