/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Aggregate rows by key in memory. The rules are the same as for the datapath's table (fpisa/query/table.h), but the
 * number of keys is not limited. The master aggregates rows that the datapath passes on. A worker may aggregate rows
 * before it sends them.
 *
 * A key of doubles may have several groups with different windows of exponents. A further group has the rows, and the
 * aggregator's groups, that did not fit into the window of the earlier groups. fpisa_groups_next() adds up all groups
 * of a key.
 */
#ifndef FPISA_QUERY_GROUPS_H
#define FPISA_QUERY_GROUPS_H

#include <stdint.h>

#include "fpisa-query.h"
#include "fpisa/query/query.h"
#include "fpisa/superacc_read.h"

#define FPISA_GROUPS_RECENT 16384

struct fpisa_groups {
	struct fpisa_query_config config;
	struct fpisa_query_state state; /* state.used is the number of groups */
	struct fpisa_bucket *buckets;
	struct fpisa_query_group *group;
	/* a group for each hash of keys, or any other number; used while there are at most this many groups */
	uint32_t recent[FPISA_GROUPS_RECENT];
	uint64_t most; /* maximum size in bytes of groups in addition to the first FPISA_GROUPS_FIRST groups */
	/*
	 * Where to spill all groups if there is no memory for another group. NULL if groups cannot be spilled. Set this
	 * member after fpisa_groups_init().
	 */
	const struct fpisa_query_spill *spill;
	void *spill_arg;
	int spilled; /* groups have been spilled, so a key may have several records */
	/*
	 * bit i: values with number i + 1, the last byte of their keys, are doubles, although config.form is an integer
	 * form; set this after fpisa_groups_init()
	 */
	uint64_t doubles;
	struct fpisa_query_config of_doubles; /* key_bytes and form of these values */
	int ordered;	 /* return groups in the order of their keys' bytes; set this after fpisa_groups_init() */
	uint32_t *order; /* the groups in this order, after fpisa_groups_settle() */
	uint64_t next;	 /* index of the next group, in this order if there is one */
	int is_ahead;
	struct fpisa_query_group merged, ahead; /* the current record, and the next record */
	union fpisa_superacc_full total;	/* the sum of the current group of doubles */
};

#define FPISA_GROUPS_FIRST 256

/*
 * Set up groups for keys of 4, 8, 16 or 32 bytes and for values of `form`, which is an enum fpisa_value_form. `most` is
 * the same as in struct fpisa_groups, and 0 means no limit. Return 0, or -ENOMEM with the message set.
 */
int fpisa_groups_init(struct fpisa_groups *g, uint32_t key_bytes, uint32_t form, uint64_t most);
void fpisa_groups_free(struct fpisa_groups *g);

/* Return the configuration with the form of the values of the key. Only key_bytes and form may be used. */
static inline const struct fpisa_query_config *fpisa_groups_config(const struct fpisa_groups *g, const void *key)
{
	uint8_t number = g->doubles ? ((const uint8_t *)key)[g->config.key_bytes - 1] : 0;

	return number && number <= 64 && g->doubles >> (number - 1) & 1 ? &g->of_doubles : &g->config;
}

/* Add a row. Return 0, or with the message set -ENOMEM or the error of the spill's put(). */
int fpisa_groups_add(struct fpisa_groups *g, const struct fpisa_row *r);

/*
 * Insert a group that was read from a table. Return 0, -EEXIST if the group's key exists, or an error of
 * fpisa_groups_add(). If groups were spilled, fpisa_groups_next() returns -EEXIST instead. A key of doubles may
 * already exist, but not in another group from a table.
 */
int fpisa_groups_put(struct fpisa_groups *g, const struct fpisa_query_group *group);

/* Finish after the last row. Return 0 or an error of fpisa_groups_add(). */
int fpisa_groups_settle(struct fpisa_groups *g);

/*
 * Get the next group. Each key has one group, which is valid until the next call. Return 1, 0 if no group is left,
 * -EEXIST, or the error of the spill's take().
 */
int fpisa_groups_next(struct fpisa_groups *g, const struct fpisa_query_group **group);

/*
 * Compute the sum over all values of a group of reals or doubles. The group must be the result of the last
 * fpisa_groups_next().
 */
void fpisa_groups_sum(const struct fpisa_groups *g, const struct fpisa_query_group *group,
		      union fpisa_superacc_full *sum);

/*
 * Take terms from the sum, which add up to the sum exactly (doc/query-wire.md, section 4). The format of the terms is
 * FP32 or FP64. Return the number of terms. Call again with the same sum until the result is 0.
 */
int fpisa_group_terms(union fpisa_superacc_full *sum, struct fpisa_format f, __u64 term[FPISA_EXPANSION_TERMS]);

/*
 * Take a term of this form from a sum of integers. The term is the sum, or as much of the sum as a row can carry.
 * Return 1, or 0 if the rest of the sum is 0.
 */
int fpisa_group_term_integer(__u64 sum[3], uint32_t form, __u64 term[2]);

#endif
