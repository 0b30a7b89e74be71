/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A query in user space. It treats rows as the aggregator does, by the rules that the datapath runs
 * (fpisa/query/topn.h, table.h, filter.h), but without frames.
 */
#ifndef FPISA_SOFT_QUERY_H
#define FPISA_SOFT_QUERY_H

#include "fpisa/query/query.h"
#include "fpisa/verdict.h"

struct fpisa_soft_query {
	struct fpisa_query_config config;
	unsigned int kind; /* enum fpisa_job_kind */
	__u32 width;	   /* width of a worker's window, up to FPISA_QUERY_WINDOW */
	struct fpisa_query_state state;
	__u32 *heap;			   /* topn: config.limit keys */
	struct fpisa_bucket *buckets;	   /* table: config.bucket_mask + 1 */
	struct fpisa_query_group *groups;  /* table: config.limit */
	struct fpisa_filter_block *filter; /* with a filter: config.filter_mask + 1 */
};

/* Allocate the state; config, kind and width must be set. Return 0, or -ENOMEM, and then nothing has to be freed. */
int fpisa_soft_query_init(struct fpisa_soft_query *q);
void fpisa_soft_query_free(struct fpisa_soft_query *q);

/*
 * Take the frame `sequence` of worker `rank` in `epoch`: `count` rows, as in frames. Set keep[i] to whether the master
 * must have row i. Return FPISA_V_rows_taken, FPISA_V_rows_passed, or the verdict of a drop.
 */
enum fpisa_verdict fpisa_soft_query_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence,
					 const void *rows, __u32 count, __u8 *keep);

/*
 * Take the frame of keys of worker `rank`: `count` join keys, as in frames. `last` marks the rank's last frame. Set
 * *missing to the workers whose keys are missing, and *state to enum fpisa_filter_state. Return FPISA_V_keys_taken, or
 * the verdict of a drop.
 */
enum fpisa_verdict fpisa_soft_query_keys(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, const void *keys,
					 __u32 count, int last, __u64 *missing, __u32 *state);

/*
 * Return the workers that lack frames up to last[rank], or have sent further frames. If the result is 0, the table is
 * sealed.
 */
__u64 fpisa_soft_query_seal(struct fpisa_soft_query *q, __u32 epoch, const __u64 *last);

#endif
