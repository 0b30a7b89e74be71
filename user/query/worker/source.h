/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows that a worker sends for a query, which are the rows of the table, or the result of pruning or aggregation by
 * the worker.
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
	uint32_t form;			  /* enum fpisa_value_form of the values */
	struct where where;
	uint64_t read;	     /* number of rows that were read from a text */
	uint64_t nulls;	     /* number of selected rows whose value is NULL; 0 if there are several values */
	uint64_t given;	     /* number of selected rows that were returned as records in sequence */
	bool over;	     /* whether the table has been read to the end */
	uint64_t *null_rows; /* places of the first rows whose value is NULL, at most as many as the query's limit */
	size_t n_null_rows, room;
	bool reduces; /* whether the worker prunes or aggregates rows */
	bool adapts;  /* whether the worker stops to aggregate if the rows have too many keys */
	bool stopped; /* whether it has stopped, so that the remaining rows follow the aggregated ones */
	uint64_t reduced;
	/* the rows and keys at the last count of keys, and the number of rows for the next count */
	uint64_t counted_rows, counted_keys, count_at;
	struct reduction reduction;
	/*
	 * for several values: the fields of the last row of a text, its key, the key's bytes without zeros, and how many
	 * of the row's values follow
	 */
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	struct fpisa_row row;
	uint32_t row_key;
	int values_left;
	struct columnar columnar; /* the rows of a table that DuckDB reads */
};

/*
 * Open the table of a checked OPEN with these strings, and find the table's columns. Return 0, or -errno with the
 * message set if the table does not exist, lacks columns, or has other types.
 */
int source_open(struct source *s, int directory, const struct fpisa_query_open *want,
		const char *const strings[FPISA_QUERY_STRINGS]);
void source_close(struct source *s); /* the source may be all 0 */

/*
 * Open the other table of a join to read the join keys. The strings have been checked, and `s` is the queried table.
 * Return 0, or -errno as above.
 */
int source_open_other(struct source *other, const struct source *s, int directory,
		      const char *const strings[FPISA_QUERY_STRINGS]);

/*
 * Begin at the first row. Keys have `key_bytes` bytes, join keys have `filter_bytes` bytes, and values have the form
 * `form`. If `filter_bytes` is 0, there are no join keys. In a join of rows, each row's place follows the join key if
 * there is room. Return 0, or -errno with the message set.
 */
int source_begin(struct source *s, uint32_t key_bytes, uint32_t filter_bytes, uint32_t form);

/*
 * Read some rows of a source that reduces rows. Return 1 if more rows are left, 0 if not, or -errno with the message
 * set.
 */
int source_reduce(struct source *s);

/*
 * The result of source_next() and source_record() when they have read many rows without finding a row that the query
 * selects.
 */
#define SOURCE_LATER SENDER_LATER

/* Return the number of rows of the table, after all rows that the query selects were returned. */
uint64_t source_read(const struct source *s);

/* Return an enum fpisa_query_way. */
unsigned int source_way(const struct source *s);

/* Return the next row. This is a next() of struct sender_rows, and `arg` is the source. */
int source_next(void *arg, struct fpisa_row *row);

/* Prepare for reading the records of the rows at these places, in this order. Return 0 or -errno. */
int source_seek(struct source *s, const uint64_t *places, size_t n);

/*
 * Append the record of a row (control.h, RECORDS). source_record_at() appends the row at the next of the places, and
 * source_record() appends the next row. Return 1, SOURCE_LATER or -errno. source_record() also returns 0 at the end.
 */
int source_record_at(struct source *s, uint64_t place, char **to, size_t *used, size_t *room);
int source_record(struct source *s, char **to, size_t *used, size_t *room);

#endif
