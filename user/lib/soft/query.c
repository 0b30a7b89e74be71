// SPDX-License-Identifier: GPL-2.0-only
/* A query in user space; query.h has the contracts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query.h"

static inline __u32 *fpisa_heap_at(void *heap, __u32 i)
{
	struct fpisa_soft_query *q = (struct fpisa_soft_query *)heap;

	return i < q->config.limit ? &q->heap[i] : NULL;
}

#include "fpisa/query/heap.h"

#define fpisa_heap_sink fpisa_heap_sink_step
#define fpisa_heap_rise fpisa_heap_rise_step

static inline struct fpisa_bucket *fpisa_bucket_at(void *table, __u32 i)
{
	struct fpisa_soft_query *q = (struct fpisa_soft_query *)table;

	return i <= q->config.bucket_mask ? &q->buckets[i] : NULL;
}

static inline struct fpisa_group *fpisa_group_at(void *table, __u32 i)
{
	struct fpisa_soft_query *q = (struct fpisa_soft_query *)table;

	return i < q->config.limit ? &q->groups[i] : NULL;
}

static inline void fpisa_group_carry(struct fpisa_group *g, __u32 from)
{
	fpisa_carry(g, from);
}

#include "fpisa/query/table.h"
#include "fpisa/query/topn.h"

int fpisa_soft_query_init(struct fpisa_soft_query *q)
{
	q->state = (struct fpisa_query_state){ 0 };
	q->heap = NULL;
	q->buckets = NULL;
	q->groups = NULL;
	if (q->kind == FPISA_QUERY_TOPN) {
		q->heap = (__u32 *)calloc(q->config.limit, sizeof(*q->heap));
		return q->heap ? 0 : -ENOMEM;
	}
	q->buckets = (struct fpisa_bucket *)calloc(q->config.bucket_mask + 1, sizeof(*q->buckets));
	q->groups = (struct fpisa_group *)calloc(q->config.limit, sizeof(*q->groups));
	if (q->buckets && q->groups)
		return 0;
	fpisa_soft_query_free(q);
	return -ENOMEM;
}

void fpisa_soft_query_free(struct fpisa_soft_query *q)
{
	free(q->heap);
	free(q->buckets);
	free(q->groups);
	q->heap = NULL;
	q->buckets = NULL;
	q->groups = NULL;
}

static __u32 key_at(const struct fpisa_soft_query *q, const char *rows, __u32 i)
{
	return fpisa_topn_key(&q->config, fpisa_load32(rows + (size_t)i * q->config.row_bytes + q->config.key_bytes));
}

/* As the program: a frame that has nothing for the heap leaves no trace. */
static int topn_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence, const char *rows, __u32 count,
		     __u8 *keep)
{
	const struct fpisa_query_window *w = &q->state.window[rank & (FPISA_MAX_WORKERS - 1)];
	int counts, kept = 0;
	__u64 floor = 0;

	if (!sequence)
		return -FPISA_V_sequence;
	if (q->state.epoch == epoch)
		floor = fpisa_topn_floor(&q->config, q->state.bar, sequence > w->high);
	for (__u32 i = 0; i < count; i++) {
		keep[i] = key_at(q, rows, i) >= floor;
		kept += keep[i];
	}
	if (!kept)
		return 0;
	if (q->state.epoch != epoch)
		fpisa_topn_begin(&q->state, epoch);
	counts = fpisa_topn_counts(&q->state, rank, sequence);
	for (__u32 i = 0; i < count; i++) {
		if (!keep[i] || fpisa_topn_row(&q->state, &q->config, q, key_at(q, rows, i), counts))
			continue;
		keep[i] = 0;
		kept--;
	}
	return kept;
}

static int table_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence, const char *rows, __u32 count,
		      __u8 *keep)
{
	int fresh, kept = 0;

	if (q->state.epoch != epoch)
		fpisa_table_begin(&q->state, epoch, q->width);
	fresh = fpisa_table_fresh(&q->state, rank, sequence, q->width);
	if (fresh < 0)
		return fresh;
	for (__u32 i = 0; i < count; i++) {
		struct fpisa_row r = fpisa_row_load(rows + (size_t)i * q->config.row_bytes, q->config.key_bytes);
		struct fpisa_group *g = fpisa_table_find(&q->state, &q->config, q, &r);

		keep[i] = !g;
		kept += !g;
		if (g && fresh)
			fpisa_group_add(g, &r);
	}
	if (fresh)
		fpisa_query_window_take(&q->state.window[rank & (FPISA_MAX_WORKERS - 1)], sequence, q->width);
	return kept;
}

enum fpisa_verdict fpisa_soft_query_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence,
					 const void *rows, __u32 count, __u8 *keep)
{
	int kept = q->kind == FPISA_QUERY_TOPN ?
			   topn_rows(q, epoch, rank, sequence, (const char *)rows, count, keep) :
			   table_rows(q, epoch, rank, sequence, (const char *)rows, count, keep);

	if (kept < 0)
		return (enum fpisa_verdict)-kept;
	return kept ? FPISA_V_rows_passed : FPISA_V_rows_taken;
}

__u64 fpisa_soft_query_seal(struct fpisa_soft_query *q, __u32 epoch, const __u64 *last)
{
	__u64 missing = 0;

	if (q->state.epoch != epoch)
		fpisa_table_begin(&q->state, epoch, q->width);
	for (__u32 r = 0; r < q->config.master; r++)
		if (!fpisa_query_window_full(&q->state.window[r], last[r], q->width))
			missing |= 1ull << r;
	q->state.sealed |= !missing;
	return missing;
}
