/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of queries as a shared object for queries.py. Each call unpacks a state from numbers, gives a frame to the
 * user-space aggregator (include/fpisa/query/topn.h, table.h and filter.h), and packs the resulting state. Values are
 * small integers, and a frame has few rows. A filter is a bitmap of one block, and only the block's first word is used.
 */
#include "query/soft/query.c"

#define WORKERS 2
#define GROUPS 4
#define ROWS 2

struct packed {
	__u64 epoch, used, sealed, bar;
	__u64 high[WORKERS], taken[WORKERS];
	__u64 filter, built, beyond, word;
	__u64 held[GROUPS]; /* topn: the heap; table: the keys */
};

static struct fpisa_filter_block block;

static void unpack(struct fpisa_soft_query *q, const struct packed *p)
{
	q->state.epoch = (__u32)p->epoch;
	q->state.used = (__u32)p->used;
	q->state.sealed = (__u32)p->sealed;
	q->state.bar = p->bar;
	q->state.filter = p->filter;
	q->state.built = p->built;
	q->state.beyond = (__u32)p->beyond;
	block.word[0] = p->word;
	q->filter = &block;
	for (int w = 0; w < WORKERS; w++)
		q->state.window[w] = (struct fpisa_query_window){.high = p->high[w], .taken = p->taken[w]};
}

static void pack(struct packed *p, const struct fpisa_soft_query *q)
{
	p->epoch = q->state.epoch;
	p->used = q->state.used;
	p->sealed = q->state.sealed;
	p->bar = q->state.bar;
	p->filter = q->state.filter;
	p->built = q->state.built;
	p->beyond = q->state.beyond;
	p->word = block.word[0];
	for (int w = 0; w < WORKERS; w++) {
		p->high[w] = q->state.window[w].high;
		p->taken[w] = q->state.window[w].taken;
	}
}

static void pack_rows(__u8 *rows, const struct fpisa_query_config *c, const __u32 *keys, const __u32 *values, __u32 n)
{
	for (__u32 i = 0; i < n; i++) {
		float value = (float)values[i];

		memcpy(rows + i * c->row_bytes, &keys[i], sizeof(keys[i]));
		memcpy(rows + i * c->row_bytes + c->key_bytes, &value, sizeof(value));
	}
}

static struct fpisa_query_config config(__u32 limit, __u32 flags)
{
	return (struct fpisa_query_config){
		.master = WORKERS, .key_bytes = 4, .row_bytes = 8, .limit = limit, .flags = flags, .filter_bytes = 4};
}

/*
 * Take one frame of `n` rows. Fill keep[] and, for a table, added[], the number of rows added to each group. Return 0,
 * or the negated verdict of a drop.
 */
int query_rows(struct packed *p, __u32 kind, __u32 limit, __u32 flags, __u32 width, __u32 epoch, __u32 rank,
	       __u64 sequence, const __u32 *keys, const __u32 *values, __u32 n, __u8 *keep, __u32 *added)
{
	__u32 heap[GROUPS];
	struct fpisa_bucket bucket = {{0}};
	struct fpisa_query_group groups[GROUPS] = {0};
	struct fpisa_soft_query q = {.kind = kind, .width = width, .heap = heap, .buckets = &bucket, .groups = groups};
	enum fpisa_verdict v;
	__u8 rows[ROWS * 8];

	q.config = config(limit, flags);
	unpack(&q, p);
	for (__u32 i = 0; i < p->used; i++) {
		const __u64 key[FPISA_KEY_WORDS] = {p->held[i]};

		heap[i] = (__u32)p->held[i];
		groups[i].key[0] = p->held[i];
		bucket.way[i] = p->epoch << 32 | i << 8 | fpisa_hash_key(q.config.seed, key, 4) >> 56;
	}
	pack_rows(rows, &q.config, keys, values, n);
	v = fpisa_soft_query_rows(&q, epoch, rank, sequence, rows, n, keep);
	pack(p, &q);
	for (__u32 i = 0; i < GROUPS; i++) {
		p->held[i] = i >= q.state.used ? 0 : kind == FPISA_QUERY_TOPN ? heap[i] : groups[i].key[0];
		added[i] = (__u32)groups[i].count;
	}
	return v == FPISA_V_rows_taken || v == FPISA_V_rows_passed ? 0 : -(int)v;
}

/* Take one frame of `n` keys. Return 0, or the negated verdict of a drop. *state is as in KEYS_ACK. */
int query_keys(struct packed *p, __u32 kind, __u32 flags, __u32 width, __u32 epoch, __u32 rank, const __u32 *keys,
	       __u32 n, int last, __u64 *missing, __u32 *state)
{
	struct fpisa_soft_query q = {.kind = kind, .width = width, .config = config(0, flags)};
	enum fpisa_verdict v;

	unpack(&q, p);
	v = fpisa_soft_query_keys(&q, epoch, rank, keys, n, last, missing, state);
	pack(p, &q);
	for (__u32 i = 0; i < GROUPS; i++)
		if (i >= q.state.used)
			p->held[i] = 0;
	return v == FPISA_V_keys_taken ? 0 : -(int)v;
}

/* Deliver SEAL with one `last` for both workers. Return the workers that lack rows, as bits. */
__u64 query_seal(struct packed *p, __u32 width, __u32 epoch, __u64 last, __u32 workers)
{
	struct fpisa_soft_query q = {.kind = FPISA_QUERY_TABLE, .width = width, .config = {.master = workers}};
	const __u64 lasts[WORKERS] = {last, last};
	__u64 missing;

	unpack(&q, p);
	missing = fpisa_soft_query_seal(&q, epoch, lasts);
	pack(p, &q);
	return missing;
}

/*
 * Return the floor that a program keeps after it has read `bar`. `counts` says that the frame has a higher number than
 * all counted frames.
 */
__u64 query_floor(__u64 bar, int counts)
{
	struct fpisa_query_config c = {0};

	return fpisa_topn_floor(&c, bar, counts);
}

__u32 query_key(__u32 value)
{
	struct fpisa_query_config c = {0};
	float f = (float)value;
	__u32 bits;

	memcpy(&bits, &f, sizeof(bits));
	return fpisa_topn_key(&c, bits, 0);
}
