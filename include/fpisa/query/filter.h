/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules of filters for join keys, for the programs and for user space.
 *
 * Workers send the join keys of the small table first, and then the rows of the big table. A row whose key is not in
 * the filter has no partner, and is pruned. A bitmap has a bit for each key from 0 on. A Bloom filter (split into
 * blocks, as in Parquet) sets one of 32 bits in each of the eight words of a block for a key. The filter contains every
 * key, and has a few false positives.
 *
 * A key may be inserted any number of times, and stays until the epoch ends. A worker sends its last frame of keys only
 * when all its other frames of keys are acknowledged, so their keys are inserted. So when the last frame of each worker
 * has arrived, all keys are inserted. The state of the filter is fixed when the first rows of an epoch arrive. If all
 * keys are inserted at that time, the filter is complete and does not change. If not, all rows pass until the epoch
 * ends. So a row whose key a worker has sent is never pruned, and the same rows are pruned from each copy of a frame. A
 * filter that has been lost does not prune.
 *
 * Define fpisa_filter_at(filter, i) before including this file. It must return NULL beyond the end of the filter.
 */
#ifndef FPISA_QUERY_FILTER_H
#define FPISA_QUERY_FILTER_H

#include "hash.h"

/* Answers to whether the key of a row is in the join. Bit 0 is set if the key may be in the join. */
enum fpisa_filter_answer {
	FPISA_FILTER_NO = 0,
	FPISA_FILTER_MAYBE = 1,
	FPISA_FILTER_YES = 3,
};

/* Cut a row's key to the join key, with zeros after it. */
static __always_inline void fpisa_join_key(__u64 key[FPISA_KEY_WORDS], __u32 bytes)
{
	if (bytes == 4)
		key[0] = (__u32)key[0];
	if (bytes <= 8)
		key[1] = 0;
	if (bytes <= 16) {
		key[2] = 0;
		key[3] = 0;
	}
}

/* Load the join key at *p, as in KEYS. */
static __always_inline void fpisa_join_key_load(__u64 key[FPISA_KEY_WORDS], const void *p, __u32 bytes)
{
	key[0] = bytes == 4 ? fpisa_load32(p) : fpisa_load64(p);
	key[1] = bytes > 8 ? fpisa_load64((const char *)p + 8) : 0;
	key[2] = bytes > 16 ? fpisa_load64((const char *)p + 16) : 0;
	key[3] = bytes > 16 ? fpisa_load64((const char *)p + 24) : 0;
}

/* Fix the state of the filter when the first rows arrive. The caller holds the lock. */
static __always_inline void fpisa_filter_use(struct fpisa_query_state *s, const struct fpisa_query_config *q)
{
	__u32 state = fpisa_filter_missing(s, q) ? FPISA_FILTER_OPEN :
		      s->beyond			 ? FPISA_FILTER_BEYOND :
						   FPISA_FILTER_WHOLE;

	if (fpisa_filter_state(s->filter, s->epoch) == FPISA_FILTER_BUILDING)
		s->filter = (__u64)s->epoch << 32 | state;
}

/* Record that a worker's last keys are inserted. The caller holds the lock. */
static __always_inline void fpisa_filter_built(struct fpisa_query_state *s, __u32 rank)
{
	if (fpisa_filter_state(s->filter, s->epoch) == FPISA_FILTER_BUILDING)
		s->built |= 1ull << (rank & (FPISA_MAX_WORKERS - 1));
}

/*
 * Return the place of a key, which is the number of its block and, in a Bloom filter, five bits for each word. The
 * block may be beyond the end of the filter.
 */
static __always_inline __u64 fpisa_filter_place(const struct fpisa_query_config *q, const __u64 key[FPISA_KEY_WORDS],
						__u64 *bits)
{
	__u64 hash;

	if (q->flags & FPISA_QUERY_BITMAP) {
		*bits = key[0];
		return key[0] / FPISA_FILTER_BLOCK_KEYS;
	}
	/* The seed is inverted, because the hash must differ from the hash that the table uses. */
	hash = fpisa_hash_key(~q->seed, key, q->filter_bytes);
	*bits = hash;
	return hash >> (5 * FPISA_FILTER_WORDS) & q->filter_mask;
}

/* Return whether the key is in the block. With `put`, insert the key. */
static __always_inline int fpisa_filter_block_has(const struct fpisa_query_config *q, struct fpisa_filter_block *b,
						  __u32 epoch, __u64 bits, int put)
{
	__u64 *word = &b->word[bits >> 5 & (FPISA_FILTER_WORDS - 1)];
	int has = 1;

	if (q->flags & FPISA_QUERY_BITMAP) {
		__u64 bit = 1ull << (bits & 31), was = *word >> 32 == epoch ? *word : (__u64)epoch << 32;

		if (put)
			*word = was | bit;
		return put || (was & bit);
	}
	FPISA_ROLLED
	for (__u32 i = 0; i < FPISA_FILTER_WORDS; i++) {
		__u64 bit = 1ull << (bits & 31), was;

		word = &b->word[i & (FPISA_FILTER_WORDS - 1)];
		was = *word >> 32 == epoch ? *word : (__u64)epoch << 32;
		if (put)
			*word = was | bit;
		else if (!(was & bit))
			has = 0;
		bits >>= 5;
	}
	return has;
}

/*
 * Insert a key into the filter. Return nonzero if the key is in the filter, or if its rows pass without a filter.
 * Return 0 if the filter is in use without the key. The caller holds the lock.
 */
static __always_inline int fpisa_filter_add(struct fpisa_query_state *s, const struct fpisa_query_config *q,
					    void *filter, const __u64 key[FPISA_KEY_WORDS])
{
	__u32 state = fpisa_filter_state(s->filter, s->epoch);
	struct fpisa_filter_block *b;
	__u64 block, bits;

	if (state == FPISA_FILTER_OPEN)
		return 1;
	block = fpisa_filter_place(q, key, &bits);
	if (block > q->filter_mask) {
		if (state == FPISA_FILTER_BUILDING)
			s->beyond = 1;
		return state != FPISA_FILTER_WHOLE;
	}
	b = fpisa_filter_at(filter, (__u32)block);
	return b && fpisa_filter_block_has(q, b, s->epoch, bits, state == FPISA_FILTER_BUILDING);
}

/*
 * Return whether a row's join key is in the filter. `state` is the state of the filter in the epoch of the row. No lock
 * is needed.
 */
static __always_inline enum fpisa_filter_answer fpisa_filter_ask(const struct fpisa_query_config *q, void *filter,
								 __u32 epoch, __u32 state,
								 const __u64 key[FPISA_KEY_WORDS])
{
	struct fpisa_filter_block *b;
	__u64 block, bits;

	if (state == FPISA_FILTER_OPEN || state == FPISA_FILTER_BUILDING)
		return FPISA_FILTER_MAYBE;
	block = fpisa_filter_place(q, key, &bits);
	if (block > q->filter_mask)
		return state == FPISA_FILTER_BEYOND ? FPISA_FILTER_MAYBE : FPISA_FILTER_NO;
	b = fpisa_filter_at(filter, (__u32)block);
	if (!b)
		return FPISA_FILTER_MAYBE;
	if (!fpisa_filter_block_has(q, b, epoch, bits, 0))
		return FPISA_FILTER_NO;
	return q->flags & FPISA_QUERY_BITMAP ? FPISA_FILTER_YES : FPISA_FILTER_MAYBE;
}

#endif
