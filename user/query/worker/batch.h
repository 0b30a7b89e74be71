/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows of Arrow batches. Keys and values are filled in column by column, for a slice of rows at a time. Keys and values
 * have the same bits that column.h defines for values as text.
 */
#ifndef FPISA_QUERY_BATCH_H
#define FPISA_QUERY_BATCH_H

#include <stdbool.h>

#include "adbc.h"
#include "columns.h"

#define BATCH_SLICE 256

struct batch {
	struct ArrowArray rows; /* release is NULL if there is no batch */
	int64_t at;		/* index of the next row */
	int n, next;		/* number of rows in the slice, and index of the slice's next row */
	struct fpisa_row row[BATCH_SLICE];
	uint8_t used[BATCH_SLICE];  /* bytes in the row's key so far */
	uint8_t group[BATCH_SLICE]; /* bytes of these before a value whose distinct values are counted */
	/* the value is NULL, or a field of the join key is NULL, so that the row is not in the join */
	bool null[BATCH_SLICE];
	int64_t place[BATCH_SLICE];
};

/*
 * Check that the engine's columns are the `n` given columns, after a place if `place` is set. Return 0, or -EPROTO with
 * the message set.
 */
int batch_accepts(const struct ArrowSchema *given, const struct fpisa_column *const *column, int n, bool place,
		  const char *name);

void batch_release(struct batch *b); /* the batch may be all 0 */

/* Set the message for a NULL in a column that must not have NULLs. Return -EINVAL. */
int batch_refuse_null(const struct fpisa_column *c, const char *name);

/* Begin the next slice, whose rows have empty keys and count 1. Return false if the batch has no more rows. */
bool batch_slice(struct batch *b);

/* Take the places of the slice's rows from column `i` of the batch. */
void batch_places(struct batch *b, int i);

/*
 * Append column `i` of the batch, which is column *c of a table, to the keys of the slice. Return 0 or -EINVAL with the
 * message set. If a key exceeds `most` bytes, set *row to its row and return -ENOSPC without a message. If `join` is
 * set, mark a row with a NULL in null[] instead of extending its key.
 */
int batch_key(struct batch *b, int i, const struct fpisa_column *c, uint32_t most, bool join, const char *name,
	      int *row);

/*
 * Set byte `at` of the slice's keys to the number of a value, and begin with the first of the rows again. The rows have
 * no value yet. Rows with number 0 only count. They come first, and the keys of other numbers begin as theirs.
 */
void batch_number(struct batch *b, uint32_t at, int number);

/* Set the values of the slice, in this form, an enum fpisa_value_form. Return 0, or -EINVAL with the message set. */
int batch_value(struct batch *b, int i, const struct fpisa_column *c, uint32_t form, const char *name);

/* number of rows of a group: terms of its sum, its smallest and its largest value */
#define BATCH_TERMS 4
#define BATCH_STEPS (BATCH_TERMS + 2)

/*
 * Let the rows of the slice be those of step `step` for their groups, whose columns begin at column `i`. Rows of the
 * first step also have the counts. null[] marks rows that are not necessary.
 */
void batch_group(struct batch *b, int i, int step, uint32_t form);

/* Let the rows of the slice only count. Rows whose column `i` is NULL do not count. */
void batch_count(struct batch *b, int i);

/*
 * Let the rows of the slice only count, and append column `i` to their keys, as batch_key() does with `join` set.
 */
int batch_distinct(struct batch *b, int i, const struct fpisa_column *c, uint32_t most, const char *name, int *row);

/* Return the text in row `at` of column `i`, which has *len bytes, or NULL for a NULL. */
const char *batch_text(const struct batch *b, int i, int64_t at, size_t *len);

#endif
