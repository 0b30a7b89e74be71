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
	char file[TABLE_NAME + 16]; /* its name, for messages */
	struct schema schema;
	struct text text;
	bool ours; /* `fd` is a temporary file that nobody else has */
	struct identity identity;
};

/*
 * Opens the table and stands before its first row; a Parquet file is made CSV first, in a temporary file, for which `wait` waits. 0, or
 * -errno with the message set: -EINVAL of a name that is none, or of files that are not as they must be; -ENOENT: no such table, or
 * no pyarrow for Parquet.
 */
int partition_open(struct partition *p, int directory, const char *table, const struct parquet_wait *wait);
void partition_close(struct partition *p); /* also of one that is all 0, or was not opened */

/* Before the first row again. 0 or -errno as of text_header(). */
int partition_rewind(struct partition *p);

/* -ESTALE, with the message set, if somebody has written the file since it was opened. */
int partition_unchanged(struct partition *p);

/* The same at the end of the rows, and also if somebody has the file open for writing. */
int partition_whole(struct partition *p);

#endif
