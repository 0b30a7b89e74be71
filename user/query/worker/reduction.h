/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reduce rows in the worker before they are sent. A worker either prunes rows to the first N, or aggregates rows by
 * key.
 */
#ifndef FPISA_QUERY_REDUCTION_H
#define FPISA_QUERY_REDUCTION_H

#include <stdbool.h>

#include "query/lib/control.h"
#include "query/lib/groups.h"
#include "query/lib/top.h"

struct reduction {
	bool table;	/* aggregates by key; else prunes to the first N */
	bool ascending; /* the first N are those with the smallest values */
	bool valued;	/* whether groups have a value in addition to their count */
	uint32_t form;	/* enum fpisa_value_form of the values; groups.doubles names those with another form */
	struct fpisa_groups groups;
	struct fpisa_top top;
	uint64_t next; /* index of the next row to send */
	/* The part of the current group that has not been sent. */
	const struct fpisa_query_group *group;
	/* the sum of reals or doubles; nothing is left if sum.acc.rows is 0 */
	union fpisa_superacc_full sum;
	__u64 integers[3];				  /* the sum of integers */
	struct fpisa_row term[FPISA_EXPANSION_TERMS + 2]; /* the keys are not set */
	int n_terms, next_term;
	uint64_t count_left;
};

/*
 * Set up an empty reduction. `doubles` is as in struct fpisa_groups. Return 0, or -ENOMEM with the message set.
 */
int reduction_begin(struct reduction *r, const struct fpisa_query_open *want, bool valued, uint32_t key_bytes,
		    uint32_t form, uint64_t doubles);
void reduction_end(struct reduction *r); /* the reduction may be all 0 */

/* Add a row. Return 0, or -ENOMEM with the message set. */
int reduction_add(struct reduction *r, const struct fpisa_row *row);

/* Finish after the last row. Afterwards the reduced rows can be read. */
void reduction_settle(struct reduction *r);

/* Take the next row to send. Return 1, or 0 if no row is left. */
int reduction_next(struct reduction *r, struct fpisa_row *row);

#endif
