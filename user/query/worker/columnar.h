/* SPDX-License-Identifier: GPL-2.0-only */
/* The rows of a table that DuckDB reads for a query, as rows in frames or as records. */
#ifndef FPISA_QUERY_COLUMNAR_H
#define FPISA_QUERY_COLUMNAR_H

#include <stdbool.h>

#include "batch.h"
#include "columns.h"
#include "condition.h"
#include "scan.h"

struct columnar {
	struct partition *table;
	const struct columns *columns;
	const int *key;	 /* columns of the key or of the join key */
	int n_keys;	 /* the columns of the values follow those of the key */
	uint32_t most;	 /* maximum size in bytes of the key */
	uint32_t form;	 /* enum fpisa_value_form of the values */
	int values_left; /* how many of several values of the slice's rows follow */
	bool skips_null; /* a row of the slice whose value is NULL is not a row of the query */
	bool grouped;	 /* the statement's rows are groups */
	bool join, place, as_text;
	struct parquet_wanted want; /* the statement, whose columns and conditions of values follow */
	int column[2 * FPISA_COLUMNS_MOST];
	const struct where *filter[2 * FPISA_COLUMNS_MOST];
	/* types of the statement's columns, without the place */
	const struct fpisa_column *type[2 * FPISA_COLUMNS_MOST + PARQUET_GROUP];
	int n;
	struct scan *scan;
	struct batch batch;
};

/* The contents of rows in frames. */
struct columnar_rows {
	int kind;	/* enum fpisa_job_kind; rows of queries other than tables also have a place */
	uint32_t most;	/* bytes of the key or of the join key */
	uint32_t form;	/* enum fpisa_value_form of the values */
	uint64_t limit; /* only the first rows by the value, or 0 for all rows */
	bool ascending;
	bool grouped; /* the engine may add rows by key */
};

/*
 * Begin to read the rows that `where` selects, for frames. If the query has several values, each row of the table gives
 * a row that only counts, and a row for each value. Return 0, or -errno with the message set.
 */
int columnar_begin(struct columnar *b, struct partition *table, const struct columns *c, const struct where *where,
		   struct columnar_rows rows);

/*
 * Begin to read records. columnar_begin_records() reads the rows that `where` selects. columnar_begin_at() reads the
 * rows at the `n` places, in this order. Return 0, or -errno with the message set.
 */
int columnar_begin_records(struct columnar *b, struct partition *table, const struct columns *c,
			   const struct where *where);
int columnar_begin_at(struct columnar *b, struct partition *table, const struct columns *c, const uint64_t *places,
		      size_t n);

/* End reading. *b may be all 0. Return false if the process must end, as scan_end_now() does. */
bool columnar_end(struct columnar *b);

/* Make a row ready for columnar_row(). Return 1, 0 at the end, SCAN_LATER, or -errno with the message set. */
int columnar_rows(struct columnar *b);

/* Return whether a row is ready, without reading. */
static inline bool columnar_ready(const struct columnar *b)
{
	return b->batch.next < b->batch.n && !(b->skips_null && b->batch.null[b->batch.next]);
}

/*
 * Return the next row, which is valid until the next columnar_rows() and may be changed. Set its place if the rows have
 * places. Set *null if the value or a part of the join key is NULL. A row must be ready.
 */
static inline struct fpisa_row *columnar_row(struct columnar *b, uint64_t *place, bool *null)
{
	int i = b->batch.next++;

	*place = (uint64_t)b->batch.place[i];
	*null = b->batch.null[i];
	return &b->batch.row[i];
}

/* Append the next record. The result is the same as for columnar_rows(). */
int columnar_record(struct columnar *b, char **to, size_t *used, size_t *room);

#endif
