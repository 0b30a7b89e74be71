/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules of top-N by pruning, for the program and for user space.
 *
 * A heap contains the N largest keys of the rows counted so far. The smallest of these keys is T, which only rises.
 * Each row is counted at most once, because a frame is counted only if its sequence number is above those of all
 * counted frames of its worker. Rows that are counted are sent on. From other copies of a frame, only rows that are not
 * below T are sent on, for these reasons:
 *
 *	The N rows that determine the last T were sent on when they were counted. They are
 *	never pruned from a later copy, because none is below T. So the master has them once
 *	it has a copy of each frame, and nothing below them matters.
 *
 * A row equal to T may be pruned from the frame that is counted, because it is not among those rows. A row equal to T
 * is never pruned from another copy, because the row may be among those rows.
 *
 * Keys have 32 bits. The key of a value of 8 bytes or more is made from its short place (order.h), which the worker
 * writes into the row. If other values may have the same short place as T, rows equal to T always pass, because they may
 * be greater than the rows that determine T.
 *
 * With a filter (filter.h) a row is counted only if its key is certain to be in the join. Otherwise rows that are not
 * in the answer could determine T.
 *
 * Before including this file, define fpisa_heap_at(heap, i), which returns the place of key i of the heap, or NULL
 * beyond the end. Also define fpisa_heap_sink() and fpisa_heap_rise(), which are the steps in heap.h or functions that
 * call the steps.
 */
#ifndef FPISA_QUERY_TOPN_H
#define FPISA_QUERY_TOPN_H

#include "filter.h"
#include "order.h"
#include "window.h"

#define FPISA_HEAP_DEPTH 17 /* number of levels of a heap of FPISA_MAX_LIMIT_TOPN keys */

_Static_assert(1 << (FPISA_HEAP_DEPTH - 1) == FPISA_MAX_LIMIT_TOPN, "the deepest heap");

/* Return the offset in a row of the word that gives the row's key: the value, if it is a real, or its short place. */
static __always_inline __u32 fpisa_topn_at(const struct fpisa_query_config *q)
{
	return fpisa_form_is_wide(q->form) ? q->row_bytes - (__u32)sizeof(__u32) : q->key_bytes;
}

/*
 * Return the place of a row in the order of the query, from this word. `wide` is nonzero if the word is a short place.
 * Rows with the largest keys come first.
 */
static __always_inline __u32 fpisa_topn_key(const struct fpisa_query_config *q, __u32 word, int wide)
{
	__u32 flip = q->flags & FPISA_QUERY_ASCENDING ? ~0u : 0;

	return (wide ? word : fpisa_order_key(word)) ^ flip;
}

/* Return whether rows that equal T pass, even if they are counted. */
static __always_inline int fpisa_topn_ties(const struct fpisa_query_config *q, __u64 bar)
{
	return q->flags & FPISA_QUERY_TIES || !fpisa_short_is_exact(q->form, (__u32)(bar - 1));
}

/* Return the smallest key that a frame keeps. `counts` is nonzero if this copy of the frame is counted. */
static __always_inline __u64 fpisa_topn_floor(const struct fpisa_query_config *q, __u64 bar, int counts)
{
	return !bar || (counts && !fpisa_topn_ties(q, bar)) ? bar : bar - 1;
}

/* Begin an epoch, in which no rows are counted yet. The caller holds the lock. */
static __always_inline void fpisa_topn_begin(struct fpisa_query_state *s, __u32 epoch)
{
	s->bar = 0;
	s->used = 0;
	fpisa_filter_begin(s);
	FPISA_ROLLED
	for (__u32 i = 0; i < FPISA_MAX_WORKERS; i++)
		s->window[i].high = 0;
	s->epoch = epoch;
}

/*
 * Return whether to count this copy of a frame. If so, other copies of it and earlier frames are not counted later. The
 * caller holds the lock.
 */
static __always_inline int fpisa_topn_counts(struct fpisa_query_state *s, __u32 rank, __u64 sequence)
{
	struct fpisa_query_window *w = &s->window[rank & (FPISA_MAX_WORKERS - 1)];

	if (sequence <= w->high)
		return 0;
	w->high = sequence;
	return 1;
}

/* Replace the smallest key of a heap of n keys. */
static __always_inline void fpisa_heap_replace(void *heap, __u32 n, __u32 key)
{
	__u32 i = 0, next, *at;

	FPISA_ROLLED
	for (int level = 0; level < FPISA_HEAP_DEPTH; level++) {
		next = fpisa_heap_sink(heap, i, n, key);
		if (!next)
			break;
		i = next;
	}
	at = fpisa_heap_at(heap, i);
	if (at)
		*at = key;
}

/* Append a key after the heap's n keys. */
static __always_inline void fpisa_heap_push(void *heap, __u32 n, __u32 key)
{
	__u32 i = n, *at;

	FPISA_ROLLED
	for (int level = 0; level < FPISA_HEAP_DEPTH; level++) {
		if (!fpisa_heap_rise(heap, i, key))
			break;
		i = (i - 1) / 2;
	}
	at = fpisa_heap_at(heap, i);
	if (at)
		*at = key;
}

/*
 * Take one row of a frame for which fpisa_topn_counts() returned `counts`. Return nonzero if the master must have the
 * row. The caller holds the lock.
 */
static __always_inline int fpisa_topn_row(struct fpisa_query_state *s, const struct fpisa_query_config *q, void *heap,
					  __u32 key, int counts)
{
	__u32 *least;

	if (key < fpisa_topn_floor(q, s->bar, counts))
		return 0;
	/* If ties pass, so does a row that equals T. */
	if (!counts || key < s->bar)
		return 1;
	if (s->used < q->limit) {
		fpisa_heap_push(heap, s->used, key);
		s->used++;
	} else {
		fpisa_heap_replace(heap, s->used, key);
	}
	least = fpisa_heap_at(heap, 0);
	if (s->used >= q->limit && least)
		s->bar = (__u64)*least + 1;
	return 1;
}

#endif
