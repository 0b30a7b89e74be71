/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The filter of a query (fpisa/query/filter.h has the rules). Frames of keys fill the filter, and the keys of rows are
 * looked up in it. The verifier removes this code from a program whose query has no filter.
 */
#ifndef FPISA_BPF_QUERY_FILTER_H
#define FPISA_BPF_QUERY_FILTER_H

/* User space sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_filter_block);
} fpisa_filter SEC(".maps");

static __always_inline struct fpisa_filter_block *fpisa_filter_at(void *filter, __u32 i)
{
	(void)filter;
	return lookup(&fpisa_filter, i);
}

#include "fpisa/query/filter.h"

/* Begin an epoch. Each kind of query defines this function. The caller holds the lock. */
GLOBAL_FN int begin(__u32 epoch);

/* Take the lock if the state belongs to this epoch. Otherwise return a verdict, without the lock. */
static __always_inline int take_state(const struct fpisa_query_config *q, struct fpisa_query_state *s, __u32 epoch)
{
	if (!lock_take(&s->lock))
		return FPISA_V_busy;
	if (!epoch_runs(q, epoch)) {
		lock_release(&s->lock);
		return FPISA_V_generation;
	}
	if (s->epoch != epoch)
		begin(epoch);
	return FPISA_V_ok;
}

/* -- rows -------------------------------------------------------------------- */

/* Return the enum fpisa_filter_answer for row `i` if `asked` is set, otherwise FPISA_FILTER_MAYBE. */
GLOBAL_FN int ask_row(struct xdp_md *ctx, __u32 i, __u32 asked, __u32 epoch, __u32 state)
{
	const struct fpisa_query_config *q = config();
	void *p;
	struct fpisa_row r;

	if (!asked)
		return FPISA_FILTER_MAYBE;
	p = row_at(ctx, q, i);
	if (!p)
		return FPISA_FILTER_MAYBE;
	r = fpisa_row_load(p, q->key_bytes, q->form);
	fpisa_join_key(r.key, q->filter_bytes);
	return fpisa_filter_ask(q, NULL, epoch, state, r.key);
}

/* Return the rows of `kept` whose key may be in the join. Bit i of `kept` stands for row 64 x `half` + i. */
GLOBAL_FN __u64 ask_rows(struct xdp_md *ctx, __u32 half, __u64 kept, __u32 epoch, __u32 state)
{
	__u64 in = 0;

	if (half > 1)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 64; i++) {
		__u64 may;

		if (!(kept >> i))
			break;
		may = ask_row(ctx, half * 64 + i, kept >> i & 1, epoch, state) & FPISA_FILTER_MAYBE;
		fpisa_opaque(may);
		in |= may << i;
	}
	return kept & in;
}

/*
 * Return the state of the filter for rows of this epoch, enum fpisa_filter_state, or a negated verdict. Take the lock
 * only for the first rows of the epoch.
 */
GLOBAL_FN int use_filter(__u32 epoch)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	__u32 state;
	int v;

	if (!s)
		return -FPISA_V_internal;
	state = fpisa_filter_state(fpisa_read_once(&s->filter), epoch);
	if (state == FPISA_FILTER_BUILDING) {
		v = take_state(q, s, epoch);
		if (v != FPISA_V_ok)
			return -v;
		fpisa_filter_use(s, q);
		state = fpisa_filter_state(s->filter, epoch);
		lock_release(&s->lock);
	}
	/* This is a full barrier, so the filter is read only after the check that it is whole. */
	__sync_fetch_and_add(&s->barrier, 0);
	return (int)(state & 3);
}

/* -- keys -------------------------------------------------------------------- */

/* Add key `i` of the frame. Return 0 if the filter is already in use and lacks the key. The caller holds the lock. */
GLOBAL_FN int add_key(struct xdp_md *ctx, __u32 i)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;
	__u64 key[FPISA_KEY_WORDS];

	if (!s || !(q->flags & FPISA_QUERY_FILTER) || i >= FPISA_QUERY_ROWS)
		return 0;
	/* The verifier needs this; see row_at(). */
	fpisa_opaque(i);
	i &= FPISA_QUERY_ROWS - 1;
	p += i * q->filter_bytes;
	if (p + q->filter_bytes > (void *)(long)ctx->data_end)
		return 0;
	fpisa_join_key_load(key, p, q->filter_bytes);
	return fpisa_filter_add(s, q, NULL, key);
}

/* Add all `count` keys. Return whether all of them are in the filter. The caller holds the lock. */
GLOBAL_FN int add_keys(struct xdp_md *ctx, __u32 count)
{
	int in = 1;

	if (!ctx)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < FPISA_QUERY_ROWS; i++) {
		if (i >= count)
			break;
		if (!add_key(ctx, i)) {
			in = 0;
			break;
		}
	}
	return in;
}

GLOBAL_FN int keys(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_counters *c = lookup(&fpisa_query_rows, 0);
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	__u32 count, epoch, rank, state;
	struct headers h;
	__u64 missing;
	int last, in, v;

	if (!s || !c || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	count = h.fpisa->count;
	epoch = h.fpisa->generation;
	rank = h.fpisa->rank;
	last = h.fpisa->flags & FPISA_F_LAST;
	v = take_state(q, s, epoch);
	if (v != FPISA_V_ok)
		return refuse(ctx, q->job, v);
	in = add_keys(ctx, count);
	/*
	 * The worker sends its last frame when the keys of all its other frames are in the filter, so now all of its
	 * keys are.
	 */
	if (in && last)
		fpisa_filter_built(s, rank);
	missing = fpisa_filter_missing(s, q);
	state = fpisa_filter_state(s->filter, epoch);
	lock_release(&s->lock);
	if (!in)
		return refuse(ctx, q->job, FPISA_V_keys_late);
	c->keys += count;
	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	fpisa_make_keys_ack(h.fpisa, missing, state);
	return bare_to_sender(ctx, q->job, FPISA_V_keys_taken);
}

#endif
