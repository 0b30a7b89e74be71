/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The match of MAU6 when a job asks for `lpm-byte`: leading zeros by as few
 * look-ups in a trie as the count allows. The paper's trie (figure 5) has an
 * entry a bit and is walked a node a bit. This one has an entry a byte, and a
 * table counts inside. Sums have their leading one near that of the format's
 * mantissa, so the table is asked there first and the trie, whose look-up
 * costs ten times as much, only for what lies elsewhere: sums that cancelled
 * four bits or more, zero, superaccumulators of mode exact.
 */
#ifndef FPISA_CLZ_H
#define FPISA_CLZ_H

#include "format.h"

/* A window is what the table counts the leading zeros of. */
#define FPISA_WINDOW 12 /* bits: 64 workers add 6, cancelled bits are 4, 1 for rounding */
#define FPISA_WINDOWS (1 << FPISA_WINDOW)

#define FPISA_CLZ_OF_WINDOWS                                                                                          \
	{                                                                                                             \
		12, 11, 10, 10, [4 ... 7] = 9, [8 ... 15] = 8, [16 ... 31] = 7, [32 ... 63] = 6, [64 ... 127] = 5,    \
				       [128 ... 255] = 4, [256 ... 511] = 3, [512 ... 1023] = 2, [1024 ... 2047] = 1, \
				       [2048 ... 4095] = 0                                                            \
	}

/*
 * The trie by bytes over 32 bits: entry i has a prefix of 8 (i + 1) zeros and
 * says how many of them to skip, so that the window that follows has the
 * leading one, or is the last and may be zero. No match: none.
 */
#define FPISA_BYTE_PREFIXES 3

static __always_inline __u32 fpisa_byte_prefix(__u32 i)
{
	return 8 * (i + 1);
}

static __always_inline __u32 fpisa_byte_skip(__u32 i)
{
	return i + 1 < FPISA_BYTE_PREFIXES ? 8 * (i + 1) : 32 - FPISA_WINDOW;
}

/* Leading zeros of x, 0..32, of which the match skips `skip`. */
static __always_inline __u32 fpisa_clz32_window(__u32 x, __u32 skip, const __u8 *clz_of)
{
	return skip + clz_of[x << (skip & 31) >> (32 - FPISA_WINDOW)];
}

/* The lowest bit of the window around a format's leading one. */
static __always_inline __u32 fpisa_window_at(struct fpisa_format f)
{
	__u32 one = f.mbits + f.guard;

	return one > 4 ? one - 4 : 0;
}

/* Leading zeros of a register of R bits whose window around the leading one is `w`, not zero. */
static __always_inline __u32 fpisa_clz_near(__u32 w, struct fpisa_format f, const __u8 *clz_of)
{
	/* Else clang drops the mask, and 6.1's verifier does not see the caller's bound. */
	fpisa_opaque(w);
	return clz_of[w & (FPISA_WINDOWS - 1)] + f.rbits - FPISA_WINDOW - fpisa_window_at(f);
}

#endif
