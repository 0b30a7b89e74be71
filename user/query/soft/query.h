/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A query in user space: what the aggregator does with rows, by the rules that the
 * datapath runs (fpisa/query/topn.h, table.h, filter.h), without frames.
 */
#ifndef FPISA_SOFT_QUERY_H
#define FPISA_SOFT_QUERY_H

#include "fpisa/query/query.h"
#include "fpisa/verdict.h"

struct fpisa_soft_query {
	struct fpisa_query_config config;
	unsigned int kind; /* enum fpisa_job_kind */
	__u32 width;	   /* of a worker's window, up to FPISA_QUERY_WINDOW */
	struct fpisa_query_state state;
	__u32 *heap;			   /* topn: config.limit keys */
	struct fpisa_bucket *buckets;	   /* table: config.bucket_mask + 1 */
	struct fpisa_query_group *groups;  /* table: config.limit */
	struct fpisa_filter_block *filter; /* with one: config.filter_mask + 1 */
};

/* config, kind and width are set. 0 or -ENOMEM, and then nothing is to be freed. */
int fpisa_soft_query_init(struct fpisa_soft_query *q);
void fpisa_soft_query_free(struct fpisa_soft_query *q);

/*
 * The frame `sequence` of worker `rank` in `epoch`: `count` rows as frames have them.
 * keep[i] is set to whether the master must have row i. FPISA_V_rows_taken, FPISA_V_rows_passed, or
 * the verdict of a drop.
 */
enum fpisa_verdict fpisa_soft_query_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence,
					 const void *rows, __u32 count, __u8 *keep);

/*
 * Take the frame of keys of worker `rank`: `count` join keys as in frames; `last`: the rank's last frame. FPISA_V_keys_taken, or
 * the verdict of a drop. *missing is set to the workers whose keys are missing, *state to enum fpisa_filter_state.
 */
enum fpisa_verdict fpisa_soft_query_keys(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, const void *keys,
					 __u32 count, int last, __u64 *missing, __u32 *state);

/* Return the workers that lack frames up to last[rank], or have sent beyond; 0: the table is sealed. */
__u64 fpisa_soft_query_seal(struct fpisa_soft_query *q, __u32 epoch, const __u64 *last);

#endif
