/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Keep the first N of the rows that arrive. Memory is needed for about twice as many rows. */
#ifndef FPISA_QUERY_TOP_H
#define FPISA_QUERY_TOP_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/query/query.h"

/* A row in the order of the query. The row with the greatest `place` comes first, then the one with the greatest `rest`. */
struct fpisa_top_row {
	uint32_t place; /* the value's short place (order.h), or the complement if the smallest values come first */
	uint32_t worker;
	uint64_t row;	  /* the row's place at the worker */
	uint64_t rest[2]; /* all bits of a value of 8 bytes or more, the low half first */
};

struct fpisa_top {
	struct fpisa_top_row *rows;
	size_t n, limit, room;
	struct fpisa_top_row floor; /* rows below it are not among the first N */
};

/* Return `r` as a row in the order of the query. Set the member `worker` to 0. */
struct fpisa_top_row fpisa_top_row_of(const struct fpisa_row *r, uint32_t form, int ascending);

/* Return the row with its value, short place and place at the worker. NaN and zero may have other bits than before. */
struct fpisa_row fpisa_top_row_back(const struct fpisa_top_row *t, uint32_t form, int ascending);

/* Compare the values as qsort() does: a negative result means that `x` comes first, and 0 that the values are equal. */
int fpisa_top_compare(const struct fpisa_top_row *x, const struct fpisa_top_row *y);

/* Return the memory in bytes for the rows of this limit. */
uint64_t fpisa_top_bytes(size_t limit);

/* Set the message that the first `limit` rows take more than `memory` bytes. Return -E2BIG. */
int fpisa_top_too_big(uint64_t limit, uint64_t memory);

/* Return 0, or -ENOMEM with the message set. */
int fpisa_top_init(struct fpisa_top *t, size_t limit);
void fpisa_top_free(struct fpisa_top *t);

void fpisa_top_add(struct fpisa_top *t, const struct fpisa_top_row *row);

/* Sort the rows and keep the first `limit`. Equal rows are ordered by worker and row. */
void fpisa_top_settle(struct fpisa_top *t);

/* Settle, and release memory that no row uses. Do not add rows afterwards. */
void fpisa_top_end(struct fpisa_top *t);

#endif
