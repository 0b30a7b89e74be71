/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The first N of rows that come in any order, in memory for about twice as many. */
#ifndef FPISA_QUERY_TOP_H
#define FPISA_QUERY_TOP_H

#include <stddef.h>
#include <stdint.h>

struct fpisa_top_row {
	uint32_t place; /* in the order of the query: the greatest is the first */
	uint32_t worker;
	uint64_t row; /* its place at the worker */
};

struct fpisa_top {
	struct fpisa_top_row *rows;
	size_t n, limit, room;
	uint32_t floor; /* what is below it is not among them */
};

/* What rows of so many take. */
uint64_t fpisa_top_bytes(size_t limit);

/* -E2BIG, with the message set: so many rows take more than so many bytes. */
int fpisa_top_too_big(uint64_t limit, uint64_t memory);

/* 0, or -ENOMEM with the message set. */
int fpisa_top_init(struct fpisa_top *t, size_t limit);
void fpisa_top_free(struct fpisa_top *t);

void fpisa_top_add(struct fpisa_top *t, const struct fpisa_top_row *row);

/* Rows are the first `limit`, or all, from now on, in order; of equal ones by worker and row. */
void fpisa_top_settle(struct fpisa_top *t);

/* The same, and no more rows are added: what has no row goes back. */
void fpisa_top_end(struct fpisa_top *t);

#endif
