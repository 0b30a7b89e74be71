/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows of Arrow batches. Columns become keys and values column by column, for a slice of rows at a time, with the bits
 * that column.h defines for the same values as text.
 */
#ifndef FPISA_QUERY_BATCH_H
#define FPISA_QUERY_BATCH_H

#include <stdbool.h>

#include "adbc.h"
#include "columns.h"

#define BATCH_SLICE 2048

struct batch {
	struct ArrowArray rows; /* release is NULL: none */
	int64_t at;		/* the next row */
	int n, next;		/* rows of the slice, and the next that is taken */
	struct fpisa_row row[BATCH_SLICE];
	uint8_t used[BATCH_SLICE]; /* bytes of the row's key so far */
	bool null[BATCH_SLICE];	   /* the value is NULL; or a field of the join key, so that the row does not join */
	int64_t place[BATCH_SLICE];
};

/* Return 0 if the engine's columns are the `n` columns, behind a place if there is one; else -EPROTO, the message set. */
int batch_accepts(const struct ArrowSchema *given, const struct fpisa_column *const *column, int n, bool place,
		  const char *name);

void batch_release(struct batch *b); /* the batch may be all 0 */

/* Set the message for a NULL in a column that is not null. Return -EINVAL. */
int batch_refuse_null(const struct fpisa_column *c, const char *name);

/* Begin the next slice: rows without keys, of count 1. Return whether there is one. */
bool batch_slice(struct batch *b);

/* Take the places of the slice's rows from column `i` of the batch. */
void batch_places(struct batch *b, int i);

/*
 * Append column `i` of the batch, which is column *c of a table, to the keys of the slice. Return 0, or -ENOSPC without a
 * message, *row the row whose key has no room in `most` bytes; or -EINVAL, the message set. A NULL in a join key only sets
 * null[].
 */
int batch_key(struct batch *b, int i, const struct fpisa_column *c, uint32_t most, bool join, const char *name,
	      int *row);

/* Set the values of the slice. Return 0, or -EINVAL with the message set. */
int batch_value(struct batch *b, int i, const struct fpisa_column *c, const char *name);

/* Return the text in row `at` of column `i`, *len bytes; NULL if it is NULL. */
const char *batch_text(const struct batch *b, int i, int64_t at, size_t *len);

#endif
