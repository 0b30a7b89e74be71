/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Top-N by pruning (fpisa/query/topn.h has the rules and the reasons for them). Most frames have no row that could be
 * among the first N. One comparison for each row detects this without the lock.
 */
#include "query.h"

/* The heap of keys, with the smallest key first. User space sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} fpisa_heap SEC(".maps");

static __always_inline __u32 *fpisa_heap_at(void *heap, __u32 i)
{
	(void)heap;
	return lookup(&fpisa_heap, i);
}

#include "fpisa/query/heap.h"

/*
 * These are separate functions, so that the verifier walks the loops around them once, and not once for each path
 * through a step.
 */
GLOBAL_FN __u32 sink(__u32 i, __u32 n, __u32 key)
{
	return fpisa_heap_sink_step(NULL, i, n, key);
}

GLOBAL_FN int rise(__u32 i, __u32 key)
{
	return fpisa_heap_rise_step(NULL, i, key);
}

#define fpisa_heap_sink(heap, i, n, key) sink(i, n, key)
#define fpisa_heap_rise(heap, i, key) rise(i, key)

#include "fpisa/query/topn.h"

/*
 * Return the set of rows whose key is below `floor`. The word at *p belongs to the first of the 32 rows. The loop is
 * unrolled and has no branches, because `wide` is a constant.
 */
static __always_inline __u64 rows_below(const struct fpisa_query_config *q, void *p, __u64 floor, int wide)
{
	__u64 below = 0;

	FPISA_UNROLLED
	for (int i = 0; i < FPISA_BLOCK; i++) {
		__u64 less = fpisa_topn_key(q, *(__u32 *)p, wide) - floor;

		fpisa_opaque(less);
		less >>= 63;
		fpisa_opaque(less);
		below |= less << i;
		p += q->row_bytes;
	}
	return below;
}

/*
 * Return the set of rows whose key is at least `floor`. Bit i stands for row 32 x `block` + i. Return 0 if the frame
 * does not contain all 32 rows.
 */
GLOBAL_FN __u64 scan_block(struct xdp_md *ctx, __u32 block, __u64 floor)
{
	const struct fpisa_query_config *q = config();
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;
	__u64 below;

	if (block >= FPISA_QUERY_ROWS / FPISA_BLOCK)
		return 0;
	p += block * FPISA_BLOCK * q->row_bytes;
	if (p + FPISA_BLOCK * q->row_bytes > (void *)(long)ctx->data_end)
		return 0;
	p += fpisa_topn_at(q);
	below = fpisa_form_is_wide(q->form) ? rows_below(q, p, floor, 1) : rows_below(q, p, floor, 0);
	return below ^ 0xffffffff;
}

static __always_inline __u32 key_of(const struct fpisa_query_config *q, const void *row)
{
	return fpisa_topn_key(q, *(const __u32 *)(row + fpisa_topn_at(q)), fpisa_form_is_wide(q->form));
}

GLOBAL_FN int scan_row(struct xdp_md *ctx, __u32 i, __u64 floor)
{
	const struct fpisa_query_config *q = config();
	void *row = row_at(ctx, q, i);

	return row && key_of(q, row) >= floor;
}

/*
 * Return the set of rows whose key is at least `floor`. Bit i stands for row 64 x `half` + i. The frame has `count`
 * rows.
 */
GLOBAL_FN __u64 scan(struct xdp_md *ctx, __u32 half, __u64 floor, __u32 count)
{
	__u32 from = half * 64;
	__u64 kept = 0;

	if (half > 1)
		return 0;
	if (count >= from + 64)
		return scan_block(ctx, 2 * half, floor) | scan_block(ctx, 2 * half + 1, floor) << 32;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 64; i++) {
		__u64 bit;

		if (from + i >= count)
			break;
		bit = scan_row(ctx, from + i, floor) & 1;
		fpisa_opaque(bit);
		kept |= bit << i;
	}
	return kept;
}

GLOBAL_FN int begin(__u32 epoch)
{
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);

	if (s)
		fpisa_topn_begin(s, epoch);
	return 0;
}

/* Count row `i` of a frame by the rules. Return nonzero if the master must have the row. The caller holds the lock. */
GLOBAL_FN int count_row(struct xdp_md *ctx, __u32 i, __u32 counts)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	void *row = row_at(ctx, q, i);
	__u32 key;

	if (!row || !s)
		return 1;
	key = key_of(q, row);
	if (q->flags & FPISA_QUERY_FILTER &&
	    ask_row(ctx, i, 1, s->epoch, fpisa_filter_state(s->filter, s->epoch)) != FPISA_FILTER_YES)
		counts = 0;
	return fpisa_topn_row(s, q, NULL, key, counts);
}

/*
 * Count the rows of `kept`. Return those that the master must have. Bit i of `kept` stands for row 64 x `half` + i. The
 * caller holds the lock.
 */
GLOBAL_FN __u64 count_rows(struct xdp_md *ctx, __u32 half, __u64 kept, __u32 counts)
{
	__u64 left = 0;

	if (half > 1)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 n = 0; n < 64 && kept; n++, kept &= kept - 1) {
		__u32 i = lowest_row(kept);
		__u64 bit = count_row(ctx, half * 64 + i, counts) & 1;

		fpisa_opaque(bit);
		left |= bit << i;
	}
	return left;
}

/*
 * Return the smallest key to keep. Read `bar` and then `high`, in this order, without the lock. While `high` is below
 * the sequence number of the frame, no copy of the frame has been counted. So a row of the frame that is not above this
 * bar cannot be among the rows that determine a later bar.
 */
static __always_inline __u64 floor_of(struct fpisa_query_state *s, const struct fpisa_query_config *q,
				      const struct fpisa_hdr *h)
{
	__u64 bar, high;

	if (fpisa_read_once(&s->epoch) != h->generation)
		return 0;
	bar = fpisa_read_once(&s->bar);
	/* This is a full barrier, so no later load precedes the load above. */
	__sync_fetch_and_add(&s->barrier, 0);
	high = fpisa_read_once(&s->window[h->rank & (FPISA_MAX_WORKERS - 1)].high);
	return fpisa_topn_floor(q, bar, h->chunk > high);
}

GLOBAL_FN int rows(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_counters *c = lookup(&fpisa_query_rows, 0);
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	__u32 count, epoch, rank, counts, filtered = 0;
	__u64 low, high, sequence, floor;
	int last, kept, v, state = 0;
	struct headers h;

	if (!s || !c || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	count = h.fpisa->count;
	epoch = h.fpisa->generation;
	rank = h.fpisa->rank;
	sequence = h.fpisa->chunk;
	last = h.fpisa->flags & FPISA_F_LAST;
	if (!sequence)
		return refuse(ctx, q->job, FPISA_V_sequence);
	if (q->flags & FPISA_QUERY_FILTER) {
		state = use_filter(epoch);
		if (state < 0)
			return refuse(ctx, q->job, -state);
		if (!find_headers(ctx, &h))
			return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	}
	floor = floor_of(s, q, h.fpisa);
	low = scan(ctx, 0, floor, count);
	high = scan(ctx, 1, floor, count);
	if (q->flags & FPISA_QUERY_FILTER) {
		filtered = __builtin_popcountll(low) + __builtin_popcountll(high);
		low = ask_rows(ctx, 0, low, epoch, state);
		high = ask_rows(ctx, 1, high, epoch, state);
		filtered -= __builtin_popcountll(low) + __builtin_popcountll(high);
	}
	/*
	 * Without the lock, a frame may keep rows that could be dropped. The only effect is more work for the master.
	 */
	if (low | high) {
		v = take_state(q, s, epoch);
		if (v == FPISA_V_ok) {
			counts = (__u32)fpisa_topn_counts(s, rank, sequence);
			low = count_rows(ctx, 0, low, counts);
			high = count_rows(ctx, 1, high, counts);
			lock_release(&s->lock);
		} else if (v != FPISA_V_busy) {
			return refuse(ctx, q->job, v);
		}
	}
	kept = __builtin_popcountll(low) + __builtin_popcountll(high);
	c->rows += count;
	c->filtered += filtered;
	c->pruned += count - kept - filtered;
	c->forwarded += kept;
	return answer(ctx, low, high, last);
}

/* Answer SEAL with the certificate T. The last row of the master's result must not be below T. */
GLOBAL_FN int seal(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	struct headers h;

	if (!s || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	fpisa_make_sealed(h.fpisa, 0, s->epoch == h.fpisa->generation ? fpisa_read_once(&s->bar) : 0);
	return bare_to_sender(ctx, q->job, FPISA_V_status);
}

/* This is never called, because topn has no groups and the checks refuse READ. */
GLOBAL_FN int read_groups(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();

	return !ctx ? XDP_DROP : count_verdict(q->job, FPISA_V_internal, XDP_DROP);
}

SEC("stage")
int fpisa_topn(struct xdp_md *ctx)
{
	return query(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
