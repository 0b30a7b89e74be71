/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Aggregation by key: the rules, for the program and for user space. Sums are exact (exact.h), so the order in which
 * rows come does not matter.
 *
 * A key that has a group keeps it until the epoch ends, and a key that found no place finds none later. A bucket's
 * ways fill in their order and are never given back, and the number of groups only rises. So each copy of a frame
 * leaves the same rows over, and each key is wholly in the table or wholly at the master.
 *
 * Define these before including this file: fpisa_bucket_at(table, i) and fpisa_group_at(table, i), which return NULL
 * beyond the end; fpisa_group_carry(group, limb), which is fpisa_carry() or a call of it.
 */
#ifndef FPISA_QUERY_TABLE_H
#define FPISA_QUERY_TABLE_H

#include "filter.h"
#include "order.h"
#include "window.h"

static __always_inline int fpisa_key_equal(const struct fpisa_query_config *q, const __u64 *a, const __u64 *b)
{
	if (a[0] != b[0] || (q->key_bytes > 8 && a[1] != b[1]))
		return 0;
	return q->key_bytes <= 16 || (a[2] == b[2] && a[3] == b[3]);
}

/* Begin an epoch: buckets are empty, because they name another epoch. The caller holds the lock. */
static __always_inline void fpisa_table_begin(struct fpisa_query_state *s, __u32 epoch, __u32 width)
{
	s->used = 0;
	s->sealed = 0;
	fpisa_filter_begin(s);
	FPISA_ROLLED
	for (__u32 i = 0; i < FPISA_MAX_WORKERS; i++)
		s->window[i] = fpisa_query_window_empty(width);
	s->epoch = epoch;
}

/* Return the group of a row's key, created if it is new and finds a place; else NULL. The caller holds the lock. */
static __always_inline struct fpisa_query_group *fpisa_table_find(struct fpisa_query_state *s,
								  const struct fpisa_query_config *q, void *table,
								  const struct fpisa_row *r)
{
	__u64 hash = fpisa_hash_key(q->seed, r->key, q->key_bytes), tag = hash >> 56;
	struct fpisa_bucket *b = fpisa_bucket_at(table, (__u32)(hash >> 16) & q->bucket_mask);
	struct fpisa_query_group *g;
	__u32 i;

	if (!b)
		return NULL;
	FPISA_ROLLED
	for (i = 0; i < FPISA_WAYS; i++) {
		__u64 way = b->way[i & (FPISA_WAYS - 1)];

		if (way >> 32 != s->epoch)
			break;
		if ((way & 0xff) != tag)
			continue;
		g = fpisa_group_at(table, (__u32)way >> 8);
		if (g && fpisa_key_equal(q, g->key, r->key))
			return g;
	}
	if (i == FPISA_WAYS || s->used >= q->limit)
		return NULL;
	g = fpisa_group_at(table, s->used);
	if (!g)
		return NULL;
	*g = (struct fpisa_query_group){.min = ~0u};
	g->key[0] = r->key[0];
	g->key[1] = r->key[1];
	g->key[2] = r->key[2];
	g->key[3] = r->key[3];
	b->way[i & (FPISA_WAYS - 1)] = (__u64)s->epoch << 32 | (__u64)s->used << 8 | tag;
	s->used++;
	return g;
}

/* Is the limb outside [-2^62, 2^62)? The test uses an unsigned sum, because clang drops tests for a signed overflow. */
static __always_inline int fpisa_limb_full(__s64 limb)
{
	return ((__u64)limb + (1ull << 62)) >> 63;
}

/* Add the row's value to its group. The caller holds the lock. */
static __always_inline void fpisa_group_add(struct fpisa_query_group *g, const struct fpisa_row *r)
{
	struct fpisa_format f = fpisa_format_of(FPISA_FORMAT_FP32);
	struct fpisa_lane l = {.word = r->value};
	__u32 key = fpisa_order_key(r->value);
	__s64 sum;

	g->count += r->count & FPISA_ROW_COUNT;
	if (!(r->count & FPISA_ROW_NO_ORDER)) {
		if (key < g->min)
			g->min = key;
		if (key > g->max)
			g->max = key;
	}
	if (r->count & FPISA_ROW_NO_SUM)
		return;
	f.rbits = 64;
	fpisa_mau0_extract(&l, f);
	fpisa_mau1_implied_one(&l, f);
	if (fpisa_unlikely(l.e & FPISA_EXP_SPECIAL)) {
		g->specials |= l.e & FPISA_EXP_NAN  ? FPISA_GROUP_NAN :
			       l.e & FPISA_EXP_PINF ? FPISA_GROUP_PINF :
						      FPISA_GROUP_NINF;
		return;
	}
	fpisa_exact_mau2(&l, FPISA_LIMBS);
	fpisa_exact_mau3(&l);
	l.st &= FPISA_LIMBS - 1;
	sum = g->limb[l.st] + l.m;
	g->limb[l.st] = sum;
	if (fpisa_unlikely(fpisa_limb_full(sum)))
		fpisa_group_carry(g, l.st);
}

/*
 * May a frame's rows be added? 1: yes, 0: they have been, or a negative verdict. The caller holds the lock, and takes
 * the number once all rows are in.
 */
static __always_inline int fpisa_table_fresh(const struct fpisa_query_state *s, __u32 rank, __u64 sequence, __u32 width)
{
	int fresh = fpisa_query_window_fresh(&s->window[rank & (FPISA_MAX_WORKERS - 1)], sequence, width);

	return fresh > 0 && s->sealed ? -FPISA_V_sealed : fresh;
}

#endif
