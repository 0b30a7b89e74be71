/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The first N of rows that arrive in any order, in memory for about twice as many */
#ifndef FPISA_QUERY_TOP_H
#define FPISA_QUERY_TOP_H

#include <stddef.h>
#include <stdint.h>

struct fpisa_top_row {
	uint32_t place; /* in the order of the query: the greatest is the first */
	uint32_t worker;
	uint64_t row; /* the row's place at the worker */
};

struct fpisa_top {
	struct fpisa_top_row *rows;
	size_t n, limit, room;
	uint32_t floor; /* rows below it are not among the first N */
};

/* Return how many bytes the rows of such a limit take. */
uint64_t fpisa_top_bytes(size_t limit);

/* Return -E2BIG, with the message set: the first `limit` rows take more than `memory` bytes. */
int fpisa_top_too_big(uint64_t limit, uint64_t memory);

/* Return 0, or -ENOMEM with the message set. */
int fpisa_top_init(struct fpisa_top *t, size_t limit);
void fpisa_top_free(struct fpisa_top *t);

void fpisa_top_add(struct fpisa_top *t, const struct fpisa_top_row *row);

/* Sort the rows and keep the first `limit`. Equal rows are ordered by worker and row. */
void fpisa_top_settle(struct fpisa_top *t);

/* Settle, and give back the memory that no row uses. No rows are added afterwards. */
void fpisa_top_end(struct fpisa_top *t);

#endif
