/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows that a worker sends for a query: those of its table as they are, or what is left of
 * them when it has pruned or added them up by itself.
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
	uint32_t key_bytes, filter_bytes; /* of the query */
	struct where where;
	uint64_t read;	     /* rows of the table */
	uint64_t nulls;	     /* of the rows that the query selects, those whose value is NULL */
	uint64_t given;	     /* of these rows, those given as records, one after the other */
	bool over;	     /* the table is read to its end */
	uint64_t *null_rows; /* places of the first of them, up to the limit */
	size_t n_null_rows, room;
	bool reduces; /* the worker prunes or adds up by itself: */
	struct reduction reduction;
};

/*
 * Open the table of a checked OPEN, whose strings are `strings`, and find its columns; `wait` as in partition_open(). 0, or -errno with the message set:
 * there is no such table, or it lacks the columns, or they have other types.
 */
int source_open(struct source *s, int directory, const struct fpisa_query_open *want,
		const char *const strings[FPISA_QUERY_STRINGS], const struct parquet_wait *wait);
void source_close(struct source *s); /* also for a source that is all 0 */

/* Open the other table of a join of checked strings, for its join keys; `s` is the table that is asked for. 0, or -errno as above. */
int source_open_other(struct source *other, const struct source *s, int directory,
		      const char *const strings[FPISA_QUERY_STRINGS], const struct parquet_wait *wait);

/*
 * Begin at the first row, with keys of so many bytes, and join keys, 0: none. In a join of rows each row's place follows its join
 * key, if there is room. 0, or -errno with the message set.
 */
int source_begin(struct source *s, uint32_t key_bytes, uint32_t filter_bytes);

/* Read some rows of a source that reduces by itself: 1 as long as there are more; else 0, or -errno with the message set. */
int source_reduce(struct source *s);

/* The result of source_next() and source_record() if they have read much, and found no row that the query selects. */
#define SOURCE_LATER SENDER_LATER

/* The next() of struct sender_rows, with the source as its arg. */
int source_next(void *arg, struct fpisa_row *row);

/* Appends the record of the row at that place (control.h, RECORDS): 1, or -errno; of the next row: also 0, there is none, and SOURCE_LATER. */
int source_record_at(struct source *s, uint64_t place, char **to, size_t *used, size_t *room);
int source_record(struct source *s, char **to, size_t *used, size_t *room);

#endif
