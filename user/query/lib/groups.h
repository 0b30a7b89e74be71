/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Aggregation by key in memory, by the rules of the datapath's table
 * (fpisa/query/table.h), for as many keys as come: what is left for the
 * master, and a worker that aggregates before it sends.
 */
#ifndef FPISA_QUERY_GROUPS_H
#define FPISA_QUERY_GROUPS_H

#include <stdint.h>

#include "fpisa-query.h"
#include "fpisa/query/query.h"
#include "fpisa/superacc_read.h"

struct fpisa_groups {
	struct fpisa_query_config config;
	struct fpisa_query_state state; /* state.used: groups that there are */
	struct fpisa_bucket *buckets;
	struct fpisa_query_group *group;
	uint64_t most; /* bytes that it may take beyond the first FPISA_GROUPS_FIRST groups */
	/* The destination of all groups when there is no room for another one; NULL: none. Set after fpisa_groups_init(). */
	const struct fpisa_query_spill *spill;
	void *spill_arg;
	int spilled;   /* groups have been spilled: a key may have several records */
	uint64_t next; /* group to be taken */
	int is_ahead;
	struct fpisa_query_group merged, ahead; /* what was taken last, and the record behind it */
};

#define FPISA_GROUPS_FIRST 256

/* Set up for keys of so many bytes: 4, 8, 16, 32; `most` as above, 0: any number. 0, or -ENOMEM with the message set. */
int fpisa_groups_init(struct fpisa_groups *g, uint32_t key_bytes, uint64_t most);
void fpisa_groups_free(struct fpisa_groups *g);

/* Adds a row. 0, -ENOMEM or what the spill's put() returned, with the message set. */
int fpisa_groups_add(struct fpisa_groups *g, const struct fpisa_row *r);

/* Puts in a group that was read from a table. 0, -EEXIST: its key is there (if groups are spilled, the next function says so), or as above. */
int fpisa_groups_put(struct fpisa_groups *g, const struct fpisa_query_group *group);

/* Finish after the last row. 0 or an error as above. */
int fpisa_groups_settle(struct fpisa_groups *g);

/* The next group, each key once, valid until the next call: 1; 0: none is left; -EEXIST, or what the spill's take() returned. */
int fpisa_groups_next(struct fpisa_groups *g, const struct fpisa_query_group **group);

/* A group's sum, of count values. */
void fpisa_group_sum(const struct fpisa_query_group *g, union fpisa_superacc_full *sum);

/* The terms, FP32, that add up to the sum exactly (doc/query-wire.md, section 4); call again with the same sum until it returns 0. */
int fpisa_group_terms(union fpisa_superacc_full *sum, uint32_t term[FPISA_EXPANSION_TERMS]);

#endif
