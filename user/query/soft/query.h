/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A query in user space. Rows are treated as in the aggregator, by the same rules as in the
 * datapath (fpisa/query/topn.h, table.h, filter.h), but there are no frames.
 */
#ifndef FPISA_SOFT_QUERY_H
#define FPISA_SOFT_QUERY_H

#include "fpisa/query/query.h"
#include "fpisa/verdict.h"

struct fpisa_soft_query {
	struct fpisa_query_config config;
	unsigned int kind; /* enum fpisa_job_kind */
	__u32 width;	   /* width of a worker's window, at most FPISA_QUERY_WINDOW */
	struct fpisa_query_state state;
	__u32 *heap;			   /* config.limit keys, used for first rows */
	struct fpisa_bucket *buckets;	   /* config.bucket_mask + 1 buckets, used for tables */
	struct fpisa_query_group *groups;  /* config.limit groups, used for tables */
	struct fpisa_filter_block *filter; /* config.filter_mask + 1 blocks, used if there is a filter */
};

/*
 * Allocate the state. The caller must have set config, kind and width. Return 0, or -ENOMEM without anything to free.
 */
int fpisa_soft_query_init(struct fpisa_soft_query *q);
void fpisa_soft_query_free(struct fpisa_soft_query *q);

/*
 * Take frame `sequence` of worker `rank` in `epoch`, which has `count` rows. Set keep[i] if the master must have row i.
 * Return FPISA_V_rows_taken, FPISA_V_rows_passed, or the verdict that the frame is dropped.
 */
enum fpisa_verdict fpisa_soft_query_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence,
					 const void *rows, __u32 count, __u8 *keep);

/*
 * Take a frame of worker `rank` with `count` join keys. `last` marks the last frame of the rank. Set *missing to the
 * workers whose keys are missing, and *state to an enum fpisa_filter_state. Return FPISA_V_keys_taken, or the verdict
 * that the frame is dropped.
 */
enum fpisa_verdict fpisa_soft_query_keys(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, const void *keys,
					 __u32 count, int last, __u64 *missing, __u32 *state);

/*
 * Return the workers that lack frames up to last[rank], or that have sent frames beyond last[rank]. If there are none,
 * the table is sealed.
 */
__u64 fpisa_soft_query_seal(struct fpisa_soft_query *q, __u32 epoch, const __u64 *last);

#endif
