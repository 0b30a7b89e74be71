/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules of aggregation by key, for the program and for user space. Sums are exact (exact.h), so the order in which
 * rows arrive does not matter.
 *
 * A key keeps its group until the epoch ends. A key that found no place in the table does not find one later, because
 * the ways of a bucket are filled in order and never freed, and the number of groups only rises. The window of a group
 * of doubles does not move either. So the same rows of each copy of a frame go to the master. All rows of a key are
 * either in the table or at the master. For doubles, some rows of a key may be in the table and the others at the
 * master.
 *
 * Before including this file, define fpisa_bucket_at(table, i) and fpisa_group_at(table, i), which return NULL beyond
 * the end. Also define fpisa_group_carry(group, limb), which is fpisa_carry() or a function that calls fpisa_carry().
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

/* Begin an epoch. All buckets become empty, because their entries are of another epoch. The caller holds the lock. */
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

/* Begin an empty group, without its key. */
static __always_inline void fpisa_group_begin(const struct fpisa_query_config *q, struct fpisa_query_group *g)
{
	if (q->form == FPISA_FORM_DOUBLE)
		*g = (struct fpisa_query_group){.least = ~0ull};
	else if (fpisa_form_is_integer(q->form))
		*g = (struct fpisa_query_group){.lowest = {~0ull, ~0ull}};
	else
		*g = (struct fpisa_query_group){.min = ~0u};
}

/*
 * Return the group of a row's key. Create the group if the key is new. Return NULL if the group finds no place. The
 * caller holds the lock.
 */
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
	fpisa_group_begin(q, g);
	g->key[0] = r->key[0];
	g->key[1] = r->key[1];
	g->key[2] = r->key[2];
	g->key[3] = r->key[3];
	b->way[i & (FPISA_WAYS - 1)] = (__u64)s->epoch << 32 | (__u64)s->used << 8 | tag;
	s->used++;
	return g;
}

/*
 * Return whether the limb is outside [-2^62, 2^62). The test uses an unsigned sum, because clang drops tests for a
 * signed overflow.
 */
static __always_inline int fpisa_limb_full(__s64 limb)
{
	return ((__u64)limb + (1ull << 62)) >> 63;
}

static __always_inline void fpisa_group_add_real(struct fpisa_query_group *g, const struct fpisa_row *r)
{
	struct fpisa_format f = fpisa_format_of(FPISA_FORMAT_FP32);
	struct fpisa_lane l = {.word = r->value};
	__u32 key = fpisa_order_key(r->value);
	__s64 sum;

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

/* -- doubles ------------------------------------------------------------------ */

#define FPISA_WIDE_EXPONENT(word) ((__u32)((word) >> 52) & 0x7ff)

/* Return whether the double is neither 0 nor special. Only such a value needs limbs. */
static __always_inline int fpisa_wide_counts(__u64 word)
{
	return word << 1 && FPISA_WIDE_EXPONENT(word) != 0x7ff;
}

/* Return the bit at which the double's mantissa begins, counted from 2^-1074. */
static __always_inline __u32 fpisa_wide_shift(__u64 word)
{
	__u32 e = FPISA_WIDE_EXPONENT(word);

	return e ? e - 1 : 0;
}

/*
 * Return whether the row's group has limbs for its value. Also return true for a group without a window, because the
 * row will set the window.
 */
static __always_inline int fpisa_group_fits(const struct fpisa_query_config *q, const struct fpisa_query_group *g,
					    const struct fpisa_row *r)
{
	if (q->form != FPISA_FORM_DOUBLE || !g->window || r->count & FPISA_ROW_NO_SUM || !fpisa_wide_counts(r->wide[0]))
		return 1;
	return (fpisa_wide_shift(r->wide[0]) >> 5) + 1 - g->window < FPISA_WIDE_PLACES;
}

static __always_inline __u32 fpisa_wide_special(__u64 word)
{
	return word << 12 ? FPISA_GROUP_NAN : word >> 63 ? FPISA_GROUP_NINF : FPISA_GROUP_PINF;
}

/*
 * Set the window so that the value begins in its middle limb, or in a lower limb if the window would begin below limb
 * 0.
 */
static __always_inline void fpisa_group_anchor(struct fpisa_query_group *g, __u32 place)
{
	g->window = 1 + (place < FPISA_WIDE_PLACES / 2 ? 0 : place - FPISA_WIDE_PLACES / 2);
}

/* Add to a limb of the group. `at` must be within the window. */
static __always_inline void fpisa_wide_limb(struct fpisa_query_group *g, __u32 at, __s64 m)
{
	__s64 sum;

	/* The verifier needs this bound. */
	fpisa_opaque(at);
	at &= 15;
	if (at >= FPISA_GROUP_LIMBS)
		return;
	sum = g->limb[at] + m;
	g->limb[at] = sum;
	if (fpisa_unlikely(fpisa_limb_full(sum)) && at < FPISA_GROUP_LIMBS - 1)
		fpisa_group_carry(g, at);
}

/*
 * Add a double. The mantissa, shifted left by `in`, has 84 bits. The low 32 bits are added to one limb, and the other
 * bits to the next limb.
 */
static __always_inline void fpisa_group_add_double(struct fpisa_query_group *g, const struct fpisa_row *r)
{
	__u64 word = r->wide[0], key = fpisa_order_key64(word);
	__u32 shift = fpisa_wide_shift(word), in = shift & 31, at;
	__s64 m = (__s64)((word & ((1ull << 52) - 1)) | (__u64)(FPISA_WIDE_EXPONENT(word) != 0) << 52);

	if (!(r->count & FPISA_ROW_NO_ORDER)) {
		if (key < g->least)
			g->least = key;
		if (key > g->most)
			g->most = key;
	}
	if (r->count & FPISA_ROW_NO_SUM)
		return;
	if (!fpisa_wide_counts(word)) {
		g->specials |= word << 1 ? fpisa_wide_special(word) : 0;
		return;
	}
	if (!g->window)
		fpisa_group_anchor(g, shift >> 5);
	at = FPISA_WIDE_FIRST + (shift >> 5) + 1 - g->window;
	if (word >> 63)
		m = -m;
	fpisa_wide_limb(g, at + 1, m >> (32 - in));
	fpisa_wide_limb(g, at, (__s64)((__u64)m << in & 0xffffffff));
}

/* -- integers ----------------------------------------------------------------- */

static __always_inline void fpisa_group_add_integer(struct fpisa_query_group *g, const struct fpisa_row *r)
{
	const __u64 key[2] = {r->wide[0], r->wide[1] ^ 1ull << 63};
	__u64 low, high, carry;

	if (!(r->count & FPISA_ROW_NO_ORDER)) {
		if (fpisa_below128(key, g->lowest)) {
			g->lowest[0] = key[0];
			g->lowest[1] = key[1];
		}
		if (fpisa_below128(g->highest, key)) {
			g->highest[0] = key[0];
			g->highest[1] = key[1];
		}
	}
	if (r->count & FPISA_ROW_NO_SUM)
		return;
	low = g->sum[0] + r->wide[0];
	carry = low < r->wide[0];
	high = g->sum[1] + r->wide[1];
	g->sum[2] += (high < r->wide[1]) + (__u64)((__s64)r->wide[1] >> 63);
	g->sum[0] = low;
	g->sum[1] = high + carry;
	g->sum[2] += g->sum[1] < carry;
}

/* Add the value of the row to its group, which must have limbs for the value. The caller holds the lock. */
static __always_inline void fpisa_group_add(const struct fpisa_query_config *q, struct fpisa_query_group *g,
					    const struct fpisa_row *r)
{
	g->count += r->count & FPISA_ROW_COUNT;
	if (q->form == FPISA_FORM_DOUBLE)
		fpisa_group_add_double(g, r);
	else if (fpisa_form_is_integer(q->form))
		fpisa_group_add_integer(g, r);
	else
		fpisa_group_add_real(g, r);
}

/*
 * Return 1 if the rows of a frame have to be added, 0 if they have been added before, or a negated verdict. The caller
 * holds the lock, and records the sequence number after all rows have been added.
 */
static __always_inline int fpisa_table_fresh(const struct fpisa_query_state *s, __u32 rank, __u64 sequence, __u32 width)
{
	int fresh = fpisa_query_window_fresh(&s->window[rank & (FPISA_MAX_WORKERS - 1)], sequence, width);

	return fresh > 0 && s->sealed ? -FPISA_V_sealed : fresh;
}

#endif
