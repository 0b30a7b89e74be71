/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Aggregation by key (fpisa/query/table.h has the rules). The rows of a frame are looked up and added under the lock of
 * the query, so only one CPU at a time processes the query.
 */
#include "query.h"

/* User space sets the number of entries of both maps. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_bucket);
} fpisa_buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_query_group);
} fpisa_groups SEC(".maps");

static __always_inline struct fpisa_bucket *fpisa_bucket_at(void *table, __u32 i)
{
	(void)table;
	return lookup(&fpisa_buckets, i);
}

static __always_inline struct fpisa_query_group *fpisa_group_at(void *table, __u32 i)
{
	(void)table;
	return lookup(&fpisa_groups, i);
}

/* Run fpisa_carry(). This is not inlined, because carries are rare and need a loop. */
GLOBAL_FN int fpisa_group_carry(struct fpisa_query_group *g, __u32 from)
{
	if (g)
		fpisa_carry(g, from);
	return 0;
}

#include "fpisa/query/table.h"

/*
 * If `asked`, find the group of row `i`. Return 1 if the group found no place in the table. Otherwise add the row if
 * `fresh`, and return 0. The caller holds the lock. Test `asked` here, because in the loop over rows the verifier would
 * follow both branches for every row.
 */
GLOBAL_FN int add_row(struct xdp_md *ctx, __u32 i, __u32 fresh, __u32 asked)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	void *p;
	struct fpisa_query_counters *c;
	struct fpisa_query_group *g;
	struct fpisa_row r;

	if (!asked)
		return 0;
	p = row_at(ctx, q, i);
	if (!p || !s)
		return 1;
	r = fpisa_row_load(p, q->key_bytes, q->form);
	g = fpisa_table_find(s, q, NULL, &r);
	if (!g)
		return 1;
	if (!fpisa_group_fits(q, g, &r)) {
		c = lookup(&fpisa_query_rows, 0);
		if (c && fresh)
			c->beyond++;
		return 1;
	}
	if (fresh)
		fpisa_group_add(q, g, &r);
	return 0;
}

/*
 * Return the rows of `rows` whose groups found no place. Bit i of `rows` stands for row 64 x `half` + i. The caller
 * holds the lock.
 */
GLOBAL_FN __u64 add_rows(struct xdp_md *ctx, __u32 half, __u64 rows, __u32 fresh)
{
	__u64 left = 0;

	if (half > 1)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 64; i++) {
		__u64 bit;

		if (!(rows >> i))
			break;
		bit = add_row(ctx, half * 64 + i, fresh, rows >> i & 1) & 1;
		fpisa_opaque(bit);
		left |= bit << i;
	}
	return left;
}

GLOBAL_FN int begin(__u32 epoch)
{
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);

	if (s)
		fpisa_table_begin(s, epoch, FPISA_QUERY_WINDOW);
	return 0;
}

GLOBAL_FN int rows(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_counters *c = lookup(&fpisa_query_rows, 0);
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	__u32 count, epoch, rank, state, left, asked;
	__u64 low, high, sequence;
	struct headers h;
	int last, fresh, v;

	if (!s || !c || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	count = h.fpisa->count;
	rank = h.fpisa->rank & (FPISA_MAX_WORKERS - 1);
	sequence = h.fpisa->chunk;
	last = h.fpisa->flags & FPISA_F_LAST;
	epoch = h.fpisa->generation;
	v = take_state(q, s, epoch);
	if (v != FPISA_V_ok)
		return refuse(ctx, q->job, v);
	fresh = fpisa_table_fresh(s, rank, sequence, FPISA_QUERY_WINDOW);
	if (fresh < 0) {
		lock_release(&s->lock);
		return refuse(ctx, q->job, -fresh);
	}
	low = rows_of(0, count);
	high = rows_of(1, count);
	if (q->flags & FPISA_QUERY_FILTER) {
		fpisa_filter_use(s, q);
		state = fpisa_filter_state(s->filter, epoch);
		low = ask_rows(ctx, 0, low, epoch, state);
		high = ask_rows(ctx, 1, high, epoch, state);
	}
	asked = (__u32)(__builtin_popcountll(low) + __builtin_popcountll(high));
	low = add_rows(ctx, 0, low, fresh);
	high = add_rows(ctx, 1, high, fresh);
	/*
	 * Take the sequence number only now, because another CPU that finds it taken assumes that all rows have been
	 * added.
	 */
	if (fresh)
		fpisa_query_window_take(&s->window[rank], sequence, FPISA_QUERY_WINDOW);
	lock_release(&s->lock);
	left = (__u32)(__builtin_popcountll(low) + __builtin_popcountll(high));
	c->rows += count;
	c->forwarded += left;
	if (fresh) {
		c->filtered += count - asked;
		c->absorbed += asked - left;
		c->residue += left;
	} else {
		c->repeated += count;
	}
	return answer(ctx, low, high, last);
}

/*
 * Return nonzero if worker `r` lacks frames up to the number in SEAL, or has sent frames beyond it. The caller holds
 * the lock.
 */
GLOBAL_FN int lacks(struct xdp_md *ctx, __u32 r)
{
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;

	if (!s || r >= FPISA_MAX_WORKERS)
		return 1;
	p += r * sizeof(__le64);
	if (p + sizeof(__le64) > (void *)(long)ctx->data_end)
		return 1;
	return !fpisa_query_window_full(&s->window[r], *(__u64 *)p, FPISA_QUERY_WINDOW);
}

/* Return the workers that lack frames, or have sent frames beyond their numbers in SEAL. */
GLOBAL_FN __u64 find_missing(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	__u64 missing = 0;

	if (!ctx)
		return ~0ull;
#pragma clang loop unroll(disable)
	for (__u32 r = 0; r < FPISA_MAX_WORKERS; r++) {
		__u64 bit;

		if (r >= q->master)
			break;
		bit = lacks(ctx, r) & 1;
		fpisa_opaque(bit);
		missing |= bit << r;
	}
	return missing;
}

GLOBAL_FN int seal(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	struct headers h;
	__u64 missing;
	__u32 used;
	int v;

	if (!s || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	v = take_state(q, s, h.fpisa->generation);
	if (v != FPISA_V_ok)
		return refuse(ctx, q->job, v);
	missing = find_missing(ctx);
	if (!missing)
		s->sealed = 1;
	used = s->used;
	lock_release(&s->lock);
	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	fpisa_make_sealed(h.fpisa, missing, used);
	return bare_to_sender(ctx, q->job, FPISA_V_status);
}

/* Write group `number` to place `i` of the payload. */
GLOBAL_FN int put_group(struct xdp_md *ctx, __u32 i, __u32 number)
{
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;
	struct fpisa_query_group *g = lookup(&fpisa_groups, number);

	if (!g || i >= FPISA_MAX_PAYLOAD / sizeof(*g))
		return 0;
	p += i * sizeof(*g);
	if (p + sizeof(*g) > (void *)(long)ctx->data_end)
		return 0;
	__builtin_memcpy(p, g, sizeof(*g));
	return 1;
}

/* Write groups from number `first` on into the payload, at most `count`. Return the number of groups written. */
GLOBAL_FN int put_groups(struct xdp_md *ctx, __u32 first, __u32 count, __u32 used)
{
	__u32 n = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < FPISA_MAX_PAYLOAD / sizeof(struct fpisa_query_group); i++) {
		if (i >= count || first + i >= used)
			break;
		if (!put_group(ctx, i, first + i))
			break;
		n++;
	}
	return n;
}

/* Answer READ. A sealed table does not change, so reading it needs no lock. */
GLOBAL_FN int read_groups(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);
	struct headers h;
	__u32 n, payload;
	__s64 sums;
	int action;

	if (!s || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	if (s->epoch != h.fpisa->generation || !fpisa_read_once(&s->sealed))
		return refuse(ctx, q->job, FPISA_V_unsealed);
	n = h.fpisa->chunk < s->used ? put_groups(ctx, (__u32)h.fpisa->chunk, h.fpisa->count, s->used) : 0;
	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	fpisa_opaque(n);
	n &= 31;
	payload = n * sizeof(struct fpisa_query_group);
	fpisa_make_groups(h.fpisa, n, s->used);
	sums = seal_for(ctx, q->master, payload);
	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	cut(ctx, payload);
	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	action = to_sender(ctx, &h, q->job, payload, sums);
	return count_verdict(q->job, FPISA_V_groups, action);
}

SEC("stage")
int fpisa_table(struct xdp_md *ctx)
{
	return query(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
