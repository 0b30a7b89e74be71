/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows that a worker sends for a query: the rows of its table, or the rows that remain after it has pruned or added
 * them up.
 */
#ifndef FPISA_QUERY_SOURCE_H
#define FPISA_QUERY_SOURCE_H

#include <stdbool.h>

#include "columnar.h"
#include "columns.h"
#include "partition.h"
#include "reduction.h"
#include "sender.h"
#include "condition.h"

struct source {
	struct partition table;
	struct fpisa_query_open want;
	struct columns columns;
	uint32_t key_bytes, filter_bytes; /* bytes of the query's keys and of the filter's keys */
	uint32_t form;			  /* of values: enum fpisa_value_form */
	struct where where;
	uint64_t read;	     /* rows of the table */
	uint64_t nulls;	     /* rows that the query selects whose value is NULL */
	uint64_t given;	     /* rows that the query selects that were given as records, in sequence */
	bool over;	     /* the table is read to its end */
	uint64_t *null_rows; /* places of the first rows whose value is NULL, up to the limit */
	size_t n_null_rows, room;
	bool reduces; /* the worker prunes or adds up rows */
	struct reduction reduction;
	struct columnar columnar; /* the rows of a table that DuckDB reads */
};

/*
 * Open the table of a checked OPEN with these strings, and find its columns. Return 0, or -errno with the message set if the table does not exist, lacks the columns, or has other types.
 */
int source_open(struct source *s, int directory, const struct fpisa_query_open *want,
		const char *const strings[FPISA_QUERY_STRINGS]);
void source_close(struct source *s); /* the source may be all 0 */

/*
 * Open the other table of a join of checked strings, for its join keys; `s` is the queried table. Return 0, or -errno
 * as above.
 */
int source_open_other(struct source *other, const struct source *s, int directory,
		      const char *const strings[FPISA_QUERY_STRINGS]);

/*
 * Begin at the first row, with keys of `key_bytes`, join keys of `filter_bytes` (0: no join keys) and values of `form`. In a join of rows, each row's
 * place follows its join key if there is room. Return 0, or -errno with the message set.
 */
int source_begin(struct source *s, uint32_t key_bytes, uint32_t filter_bytes, uint32_t form);

/*
 * Read some rows of a source that reduces rows. Return 1 as long as rows are left, else 0, or -errno with the message
 * set.
 */
int source_reduce(struct source *s);

/* The result of source_next() and source_record() if they have read many rows, none of which the query selects */
#define SOURCE_LATER SENDER_LATER

/* Return the next row, as next() of struct sender_rows, with the source as arg. */
int source_next(void *arg, struct fpisa_row *row);

/* Prepare for records of the rows at these places, in this order, up to the next call. Return 0 or -errno. */
int source_seek(struct source *s, const uint64_t *places, size_t n);

/*
 * Append the record of the row at the next of these places, or of the next row (control.h, RECORDS). Return 1,
 * SOURCE_LATER or -errno; for the next row also 0 at the end.
 */
int source_record_at(struct source *s, uint64_t place, char **to, size_t *used, size_t *room);
int source_record(struct source *s, char **to, size_t *used, size_t *room);

#endif
