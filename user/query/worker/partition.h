/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of a table that a worker has. The files are TABLE.schema in the worker's directory, and one of TABLE.csv,
 * TABLE.tbl, TABLE.parquet and a directory TABLE of Parquet files. Parquet does not need a schema. A table of
 * --databases has its rows in another database (database.h).
 */
#ifndef FPISA_QUERY_PARTITION_H
#define FPISA_QUERY_PARTITION_H

#include <stdbool.h>

#include "files.h"
#include "identity.h"
#include "parquet.h"
#include "text.h"

struct partition {
	struct files files; /* one file, or the Parquet files of a directory */
	enum { ROWS_CSV, ROWS_TBL, ROWS_PARQUET } kind;
	char file[TABLE_NAME + 16]; /* name of the file or directory for messages */
	struct schema schema;
	struct text text;
	struct parquet parquet;	       /* used instead of `text` if the file is Parquet */
	bool used[FPISA_COLUMNS_MOST]; /* the query uses the files' values of the column */
	bool ours;		       /* the rows are not in files that others can write */
	uint64_t number;	       /* of the rows of another database, which no other scan has */
	struct identity of_schema;
};

/*
 * Find the table's files and read the schema. Return 0, or -errno with the message set. The error is -EINVAL if the
 * name or the schema is not valid. The error is -ENOENT if the table does not exist, or if the table is Parquet and
 * DuckDB is not installed.
 */
int partition_open(struct partition *p, int directory, const char *table);

/*
 * Go to the first row. Columns that are not in `used` have no values in Parquet, and are not checked in other files. If
 * `used` is NULL, all columns are used. Return 0, or -EINVAL with the message set if the file is not valid.
 */
int partition_begin(struct partition *p, const bool used[FPISA_COLUMNS_MOST]);
void partition_close(struct partition *p); /* the partition may be all 0 or not opened */

/* Go back to the first row of a text. The result is the same as for text_header(). */
int partition_rewind(struct partition *p);

/*
 * Return a number that identifies the rows and the schema. Two reads of a table with equal numbers have read the same
 * bytes.
 */
uint64_t partition_number(const struct partition *p);

/* Return -ESTALE, with the message set, if a file was written after it was opened, else 0. */
int partition_unchanged(struct partition *p);

/* Check one of the files in the same way, each file in turn. */
int partition_check(struct partition *p);

/* Check all files after the last row. In addition, return -ESTALE if a process has a file open for writing. */
int partition_whole(struct partition *p);

#endif
