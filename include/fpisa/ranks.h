/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sets of the ranks of a group. A group can have more ranks than a job, if it has a tree: each leaf is a job of up to
 * FPISA_MAX_WORKERS ranks, and the leaves are the ranks of the root's job. The members of one job are a __u64.
 */
#ifndef FPISA_RANKS_H
#define FPISA_RANKS_H

#include "wire.h"

#define FPISA_MAX_RANKS (FPISA_MAX_WORKERS * FPISA_MAX_WORKERS) /* ranks of a group */
#define FPISA_RANK_WORDS (FPISA_MAX_RANKS / 64)

struct fpisa_ranks {
	__u64 word[FPISA_RANK_WORDS]; /* rank r is bit r % 64 of word r / 64 */
};

#define FPISA_NO_RANKS ((struct fpisa_ranks){{0}})

/* Run the statement that follows for each rank of the set at `s`, in ascending order. */
#define FPISA_EACH_RANK(r, s) \
	for (__u32 r = fpisa_ranks_next(s, 0); r < FPISA_MAX_RANKS; r = fpisa_ranks_next(s, r + 1))

static inline int fpisa_ranks_has(const struct fpisa_ranks *s, __u32 rank)
{
	return s->word[rank / 64] >> rank % 64 & 1;
}

static inline void fpisa_ranks_add(struct fpisa_ranks *s, __u32 rank)
{
	s->word[rank / 64] |= 1ull << rank % 64;
}

static inline void fpisa_ranks_remove(struct fpisa_ranks *s, __u32 rank)
{
	s->word[rank / 64] &= ~(1ull << rank % 64);
}

static inline struct fpisa_ranks fpisa_ranks_one(__u32 rank)
{
	struct fpisa_ranks s = {{0}};

	fpisa_ranks_add(&s, rank);
	return s;
}

/* Return the set of the ranks 64 n + i for the bits i of a word. */
static inline struct fpisa_ranks fpisa_ranks_word(__u32 n, __u64 word)
{
	struct fpisa_ranks s = {{0}};

	s.word[n] = word;
	return s;
}

/* Return the set of all ranks of a group with `size` ranks, up to FPISA_MAX_RANKS. */
static inline struct fpisa_ranks fpisa_ranks_all(__u32 size)
{
	struct fpisa_ranks s = {{0}};

	for (__u32 i = 0; i < size / 64; i++)
		s.word[i] = ~0ull;
	if (size % 64)
		s.word[size / 64] = (1ull << size % 64) - 1;
	return s;
}

static inline struct fpisa_ranks fpisa_ranks_or(const struct fpisa_ranks *a, const struct fpisa_ranks *b)
{
	struct fpisa_ranks s;

	for (__u32 i = 0; i < FPISA_RANK_WORDS; i++)
		s.word[i] = a->word[i] | b->word[i];
	return s;
}

static inline struct fpisa_ranks fpisa_ranks_and(const struct fpisa_ranks *a, const struct fpisa_ranks *b)
{
	struct fpisa_ranks s;

	for (__u32 i = 0; i < FPISA_RANK_WORDS; i++)
		s.word[i] = a->word[i] & b->word[i];
	return s;
}

/* Return the ranks of `a` that are not in `b`. */
static inline struct fpisa_ranks fpisa_ranks_without(const struct fpisa_ranks *a, const struct fpisa_ranks *b)
{
	struct fpisa_ranks s;

	for (__u32 i = 0; i < FPISA_RANK_WORDS; i++)
		s.word[i] = a->word[i] & ~b->word[i];
	return s;
}

static inline int fpisa_ranks_same(const struct fpisa_ranks *a, const struct fpisa_ranks *b)
{
	return !__builtin_memcmp(a, b, sizeof(*a));
}

static inline __u32 fpisa_ranks_count(const struct fpisa_ranks *s)
{
	__u32 n = 0;

	for (__u32 i = 0; i < FPISA_RANK_WORDS; i++)
		n += (__u32)__builtin_popcountll(s->word[i]);
	return n;
}

/* Return the lowest rank of the set from `rank` on, or FPISA_MAX_RANKS if there is none. */
static inline __u32 fpisa_ranks_next(const struct fpisa_ranks *s, __u32 rank)
{
	for (__u32 i = rank / 64; i < FPISA_RANK_WORDS; i++) {
		const __u64 word = i == rank / 64 ? s->word[i] >> rank % 64 << rank % 64 : s->word[i];

		if (word)
			return 64 * i + (__u32)__builtin_ctzll(word);
	}
	return FPISA_MAX_RANKS;
}

static inline int fpisa_ranks_any(const struct fpisa_ranks *s)
{
	return fpisa_ranks_next(s, 0) < FPISA_MAX_RANKS;
}

#endif
