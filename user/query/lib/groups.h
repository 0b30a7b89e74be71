/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Aggregation by key in memory, by the rules of the datapath's table (fpisa/query/table.h), for any number of keys. The
 * master aggregates rows that the datapath passes on; a worker may aggregate before it sends.
 *
 * A key of doubles may have several groups, each with another window: the rows and the aggregator's groups that did not
 * fit into the window of those before. fpisa_groups_next() adds them up.
 */
#ifndef FPISA_QUERY_GROUPS_H
#define FPISA_QUERY_GROUPS_H

#include <stdint.h>

#include "fpisa-query.h"
#include "fpisa/query/query.h"
#include "fpisa/superacc_read.h"

struct fpisa_groups {
	struct fpisa_query_config config;
	struct fpisa_query_state state; /* state.used: the number of groups */
	struct fpisa_bucket *buckets;
	struct fpisa_query_group *group;
	uint64_t most; /* bytes that groups may take beyond the first FPISA_GROUPS_FIRST groups */
	/*
	 * The destination of all groups if memory has no room for another; NULL if they cannot be spilled. Set after
	 * fpisa_groups_init().
	 */
	const struct fpisa_query_spill *spill;
	void *spill_arg;
	int spilled;   /* groups have been spilled: a key may have several records */
	uint64_t next; /* group to be taken */
	int is_ahead;
	struct fpisa_query_group merged, ahead; /* the record that was taken last, and the next record */
	union fpisa_superacc_full total;	/* doubles: the sum of the group that was taken last */
};

#define FPISA_GROUPS_FIRST 256

/*
 * Set up groups for keys of 4, 8, 16 or 32 bytes and values of `form`, enum fpisa_value_form. `most` is as above; 0 means
 * any number. Return 0, or -ENOMEM with the message set.
 */
int fpisa_groups_init(struct fpisa_groups *g, uint32_t key_bytes, uint32_t form, uint64_t most);
void fpisa_groups_free(struct fpisa_groups *g);

/* Add a row. Return 0, -ENOMEM or the result of the spill's put(), with the message set. */
int fpisa_groups_add(struct fpisa_groups *g, const struct fpisa_row *r);

/*
 * Put in a group that was read from a table. Return 0, -EEXIST if its key exists, or as above. If groups are spilled,
 * fpisa_groups_next() returns -EEXIST instead. A key of doubles may exist, but not in another group from a table.
 */
int fpisa_groups_put(struct fpisa_groups *g, const struct fpisa_query_group *group);

/* Finish after the last row. Return 0 or an error as above. */
int fpisa_groups_settle(struct fpisa_groups *g);

/*
 * Take the next group, each key once, valid until the next call. Return 1, 0 if no group is left, -EEXIST, or the
 * result of the spill's take().
 */
int fpisa_groups_next(struct fpisa_groups *g, const struct fpisa_query_group **group);

/* Compute the sum of the group of reals or doubles that was taken last, over count values. */
void fpisa_groups_sum(const struct fpisa_groups *g, const struct fpisa_query_group *group,
		      union fpisa_superacc_full *sum);

/*
 * Return the number of terms, which add up to the sum exactly (doc/query-wire.md, section 4): FP32 or FP64, as the
 * format says. Call again with the same sum until it returns 0.
 */
int fpisa_group_terms(union fpisa_superacc_full *sum, struct fpisa_format f, __u64 term[FPISA_EXPANSION_TERMS]);

/*
 * Take a term of that form from a sum of integers: the sum, or as much of it as a row can carry. Return 1, or 0 if
 * nothing is left of it.
 */
int fpisa_group_term_integer(__u64 sum[3], uint32_t form, __u64 term[2]);

#endif
