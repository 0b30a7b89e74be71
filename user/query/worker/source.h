/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows that a worker sends for a query: the rows of its table, or the rows that remain after it has pruned or added
 * them up.
 */
#ifndef FPISA_QUERY_SOURCE_H
#define FPISA_QUERY_SOURCE_H

#include <stdbool.h>

#include "columns.h"
#include "partition.h"
#include "reduction.h"
#include "sender.h"
#include "where.h"

struct source {
	struct partition table;
	struct fpisa_query_open want;
	struct columns columns;
	uint32_t key_bytes, filter_bytes; /* bytes of the query's keys and of the filter's keys */
	struct where where;
	uint64_t read;	     /* rows of the table */
	uint64_t nulls;	     /* rows that the query selects whose value is NULL */
	uint64_t given;	     /* rows that the query selects that were given as records, in sequence */
	bool over;	     /* the table is read to its end */
	uint64_t *null_rows; /* places of the first rows whose value is NULL, up to the limit */
	size_t n_null_rows, room;
	bool reduces; /* the worker prunes or adds up rows */
	struct reduction reduction;
};

/*
 * Open the table of a checked OPEN with these strings, and find its columns; `wait` is as in partition_begin(). Return
 * 0, or -errno with the message set if the table does not exist, lacks the columns, or has other types.
 */
int source_open(struct source *s, int directory, const struct fpisa_query_open *want,
		const char *const strings[FPISA_QUERY_STRINGS], const struct parquet_wait *wait);
void source_close(struct source *s); /* also for a source that is all 0 */

/*
 * Open the other table of a join of checked strings, for its join keys; `s` is the queried table. Return 0, or -errno
 * as above.
 */
int source_open_other(struct source *other, const struct source *s, int directory,
		      const char *const strings[FPISA_QUERY_STRINGS], const struct parquet_wait *wait);

/*
 * Begin at the first row, with keys and join keys of so many bytes; 0 means no join keys. In a join of rows, each row's
 * place follows its join key if there is room. Return 0, or -errno with the message set.
 */
int source_begin(struct source *s, uint32_t key_bytes, uint32_t filter_bytes);

/*
 * Read some rows of a source that reduces rows. Return 1 as long as rows are left, else 0, or -errno with the message
 * set.
 */
int source_reduce(struct source *s);

/* The result of source_next() and source_record() if they have read many rows and the query selects none of these */
#define SOURCE_LATER SENDER_LATER

/* Return the next row, as next() of struct sender_rows, with the source as arg. */
int source_next(void *arg, struct fpisa_row *row);

/*
 * Append the record of the row at that place, or of the next row (control.h, RECORDS). Return 1 or -errno; for the next
 * row also 0 at the end, and SOURCE_LATER.
 */
int source_record_at(struct source *s, uint64_t place, char **to, size_t *used, size_t *room);
int source_record(struct source *s, char **to, size_t *used, size_t *room);

#endif
