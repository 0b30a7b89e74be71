/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The groups of rows, computed independently of the code under test: sums of rationals, floats compared as floats
 */
#ifndef QUERY_ORACLE_H
#define QUERY_ORACLE_H

#include <gmp.h>
#include <stdbool.h>
#include <stdint.h>
#include "fpisa/query/query.h"

#define ORACLE_GROUPS 4096

/* Results of one key; sum is of finite values, in units of 2^-149 */
struct oracle_group {
	bool nan, pinf, ninf, any;
	uint64_t count;
	float min, max;
	mpz_t sum;
};

struct query_oracle {
	struct oracle_group g[ORACLE_GROUPS];
};

void query_oracle_init(struct query_oracle *o);
void query_oracle_clear(struct query_oracle *o);
void query_oracle_free(struct query_oracle *o);

/* Add a row to group `key`, which is below ORACLE_GROUPS. */
void query_oracle_row(struct query_oracle *o, uint32_t key, float value, uint32_t count);

/* Merge all of *g, as the table has it, into the oracle's group `key`: two parts of a query make one group. */
void query_oracle_merge(struct query_oracle *o, uint32_t key, const struct fpisa_query_group *g);

/* Return whether they are equal. If not, print the difference on stderr. */
bool query_oracle_equal(const struct query_oracle *a, const struct query_oracle *b);

/* Compare in SQL's order. Return a number below, equal to or above zero; -0 equals +0, NaN comes last. */
int query_order(float a, float b);

/* Return a value of distribution `kind`, 0 .. QUERY_VALUES - 1. */
#define QUERY_VALUES 8
float query_value(uint64_t random, uint32_t kind, uint32_t i);

#endif
