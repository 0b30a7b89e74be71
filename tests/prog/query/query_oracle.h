/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The groups of rows, computed independently of the code under test, with sums of rationals and comparisons of floats
 */
#ifndef QUERY_ORACLE_H
#define QUERY_ORACLE_H

#include <gmp.h>
#include <stdbool.h>
#include <stdint.h>
#include "fpisa/query/query.h"

#define ORACLE_GROUPS 4096

/* Results of one key. `sum` is the sum of finite values, in units of 2^-149. */
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

/*
 * Merge *g, an entry of the aggregator's table, into the oracle's group `key`, because two parts of a query may each
 * hold a share of one group.
 */
void query_oracle_merge(struct query_oracle *o, uint32_t key, const struct fpisa_query_group *g);

/* Return whether the groups are equal. If not, print the difference on stderr. */
bool query_oracle_equal(const struct query_oracle *a, const struct query_oracle *b);

/* Compare in SQL's order, in which -0 equals +0 and NaN comes last. Return a number below, equal to or above zero. */
int query_order(float a, float b);

/* Return a value of distribution `kind`, 0 .. QUERY_VALUES - 1. */
#define QUERY_VALUES 8
float query_value(uint64_t random, uint32_t kind, uint32_t i);

#endif
