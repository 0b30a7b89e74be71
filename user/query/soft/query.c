// SPDX-License-Identifier: GPL-2.0-only
/* A query in user space. query.h documents the functions. */
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

static inline struct fpisa_query_group *fpisa_group_at(void *table, __u32 i)
{
	struct fpisa_soft_query *q = (struct fpisa_soft_query *)table;

	return i < q->config.limit ? &q->groups[i] : NULL;
}

static inline void fpisa_group_carry(struct fpisa_query_group *g, __u32 from)
{
	fpisa_carry(g, from);
}

static inline struct fpisa_filter_block *fpisa_filter_at(void *filter, __u32 i)
{
	struct fpisa_soft_query *q = (struct fpisa_soft_query *)filter;

	return i <= q->config.filter_mask ? &q->filter[i] : NULL;
}

#include "fpisa/query/table.h"
#include "fpisa/query/topn.h"

static int allocate(struct fpisa_soft_query *q)
{
	if (q->config.flags & FPISA_QUERY_FILTER) {
		q->filter = (struct fpisa_filter_block *)calloc((size_t)q->config.filter_mask + 1, sizeof(*q->filter));
		if (!q->filter)
			return -ENOMEM;
	}
	if (q->kind == FPISA_QUERY_TOPN) {
		q->heap = (__u32 *)calloc(q->config.limit, sizeof(*q->heap));
		return q->heap ? 0 : -ENOMEM;
	}
	if (q->kind == FPISA_QUERY_JOIN)
		return 0;
	q->buckets = (struct fpisa_bucket *)calloc((size_t)q->config.bucket_mask + 1, sizeof(*q->buckets));
	q->groups = (struct fpisa_query_group *)calloc(q->config.limit, sizeof(*q->groups));
	return q->buckets && q->groups ? 0 : -ENOMEM;
}

int fpisa_soft_query_init(struct fpisa_soft_query *q)
{
	int err;

	q->state = (struct fpisa_query_state){0};
	q->heap = NULL;
	q->buckets = NULL;
	q->groups = NULL;
	q->filter = NULL;
	err = allocate(q);
	if (err)
		fpisa_soft_query_free(q);
	return err;
}

void fpisa_soft_query_free(struct fpisa_soft_query *q)
{
	free(q->heap);
	free(q->buckets);
	free(q->groups);
	free(q->filter);
	q->filter = NULL;
	q->heap = NULL;
	q->buckets = NULL;
	q->groups = NULL;
}

/* Begin a new epoch if the frame's epoch differs from the last epoch. */
static void begin(struct fpisa_soft_query *q, __u32 epoch)
{
	if (q->state.epoch == epoch)
		return;
	if (q->kind == FPISA_QUERY_TOPN)
		fpisa_topn_begin(&q->state, epoch);
	else if (q->kind == FPISA_QUERY_TABLE)
		fpisa_table_begin(&q->state, epoch, q->width);
	else
		fpisa_filter_begin(&q->state);
	q->state.epoch = epoch;
}

static __u32 key_at(const struct fpisa_soft_query *q, const char *rows, __u32 i)
{
	return fpisa_topn_key(&q->config,
			      fpisa_load32(rows + (size_t)i * q->config.row_bytes + fpisa_topn_at(&q->config)),
			      fpisa_form_is_wide(q->config.form));
}

/* Fix the filter for this epoch, because rows have arrived. Return the state of the filter. */
static __u32 use_filter(struct fpisa_soft_query *q, __u32 epoch)
{
	if (!(q->config.flags & FPISA_QUERY_FILTER))
		return FPISA_FILTER_OPEN;
	begin(q, epoch);
	fpisa_filter_use(&q->state, &q->config);
	return fpisa_filter_state(q->state.filter, epoch);
}

/* Look up the join key of row `i` in the filter. */
static enum fpisa_filter_answer ask(struct fpisa_soft_query *q, __u32 epoch, __u32 state, const char *rows, __u32 i)
{
	struct fpisa_row r = fpisa_row_load(rows + (size_t)i * q->config.row_bytes, q->config.key_bytes, q->config.form);

	if (!(q->config.flags & FPISA_QUERY_FILTER))
		return FPISA_FILTER_YES;
	fpisa_join_key(r.key, q->config.filter_bytes);
	return fpisa_filter_ask(&q->config, q, epoch, state, r.key);
}

/* Like the BPF program, keep no trace of a frame that has no row for the heap. */
static int topn_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence, const char *rows, __u32 count,
		     __u8 *keep)
{
	const struct fpisa_query_window *w = &q->state.window[rank & (FPISA_MAX_WORKERS - 1)];
	int counts, kept = 0;
	__u64 floor = 0;
	__u32 state;

	if (!sequence)
		return -FPISA_V_sequence;
	state = use_filter(q, epoch);
	if (q->state.epoch == epoch)
		floor = fpisa_topn_floor(&q->config, q->state.bar, sequence > w->high);
	for (__u32 i = 0; i < count; i++) {
		keep[i] = key_at(q, rows, i) >= floor && ask(q, epoch, state, rows, i) != FPISA_FILTER_NO;
		kept += keep[i];
	}
	if (!kept)
		return 0;
	begin(q, epoch);
	counts = fpisa_topn_counts(&q->state, rank, sequence);
	for (__u32 i = 0; i < count; i++) {
		int sure = ask(q, epoch, state, rows, i) == FPISA_FILTER_YES;

		if (!keep[i] || fpisa_topn_row(&q->state, &q->config, q, key_at(q, rows, i), counts && sure))
			continue;
		keep[i] = 0;
		kept--;
	}
	return kept;
}

static int table_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence, const char *rows,
		      __u32 count, __u8 *keep)
{
	int fresh, kept = 0;
	__u32 state;

	begin(q, epoch);
	fresh = fpisa_table_fresh(&q->state, rank, sequence, q->width);
	if (fresh < 0)
		return fresh;
	state = use_filter(q, epoch);
	for (__u32 i = 0; i < count; i++) {
		struct fpisa_row r =
			fpisa_row_load(rows + (size_t)i * q->config.row_bytes, q->config.key_bytes, q->config.form);
		struct fpisa_query_group *g;

		keep[i] = 0;
		if (ask(q, epoch, state, rows, i) == FPISA_FILTER_NO)
			continue;
		g = fpisa_table_find(&q->state, &q->config, q, &r);
		keep[i] = !g || !fpisa_group_fits(&q->config, g, &r);
		kept += keep[i];
		if (!keep[i] && fresh)
			fpisa_group_add(&q->config, g, &r);
	}
	if (fresh)
		fpisa_query_window_take(&q->state.window[rank & (FPISA_MAX_WORKERS - 1)], sequence, q->width);
	return kept;
}

static int join_rows(struct fpisa_soft_query *q, __u32 epoch, __u64 sequence, const char *rows, __u32 count, __u8 *keep)
{
	__u32 state;
	int kept = 0;

	if (!sequence)
		return -FPISA_V_sequence;
	state = use_filter(q, epoch);
	for (__u32 i = 0; i < count; i++) {
		keep[i] = ask(q, epoch, state, rows, i) != FPISA_FILTER_NO;
		kept += keep[i];
	}
	return kept;
}

enum fpisa_verdict fpisa_soft_query_rows(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, __u64 sequence,
					 const void *rows, __u32 count, __u8 *keep)
{
	const char *p = (const char *)rows;
	int kept = q->kind == FPISA_QUERY_TOPN ? topn_rows(q, epoch, rank, sequence, p, count, keep) :
		   q->kind == FPISA_QUERY_JOIN ? join_rows(q, epoch, sequence, p, count, keep) :
						 table_rows(q, epoch, rank, sequence, p, count, keep);

	if (kept < 0)
		return (enum fpisa_verdict) - kept;
	return kept ? FPISA_V_rows_passed : FPISA_V_rows_taken;
}

enum fpisa_verdict fpisa_soft_query_keys(struct fpisa_soft_query *q, __u32 epoch, __u32 rank, const void *keys,
					 __u32 count, int last, __u64 *missing, __u32 *state)
{
	__u64 key[FPISA_KEY_WORDS];
	int in = 1;

	begin(q, epoch);
	for (__u32 i = 0; in && i < count; i++) {
		fpisa_join_key_load(key, (const char *)keys + (size_t)i * q->config.filter_bytes,
				    q->config.filter_bytes);
		in = fpisa_filter_add(&q->state, &q->config, q, key);
	}
	if (in && last)
		fpisa_filter_built(&q->state, rank);
	*missing = fpisa_filter_missing(&q->state, &q->config);
	*state = fpisa_filter_state(q->state.filter, epoch);
	return in ? FPISA_V_keys_taken : FPISA_V_keys_late;
}

__u64 fpisa_soft_query_seal(struct fpisa_soft_query *q, __u32 epoch, const __u64 *last)
{
	__u64 missing = 0;

	begin(q, epoch);
	for (__u32 r = 0; r < q->config.master; r++)
		if (!fpisa_query_window_full(&q->state.window[r], last[r], q->width))
			missing |= 1ull << r;
	q->state.sealed |= !missing;
	return missing;
}
