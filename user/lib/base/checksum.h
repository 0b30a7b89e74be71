/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The checksum of fpisa/wire.h over many words, four at a time. Word i is added to lane i mod 4, and the lanes are
 * combined at the end. The code uses the compiler's generic vectors, so it runs on any machine. checksum.c selects the
 * widest vectors of the machine.
 */
#ifndef FPISA_CHECKSUM_H
#define FPISA_CHECKSUM_H

#include <stddef.h>
#include "fpisa/wire.h"

#define FPISA_CHECKSUM_LANES 4

typedef __u64 fpisa_checksum_words __attribute__((vector_size(8 * FPISA_CHECKSUM_LANES)));

struct fpisa_checksum_lanes {
	fpisa_checksum_words a_lo, a_hi, b_lo, b_hi;
};

/* Add the next word of each lane. */
static __always_inline void fpisa_checksum_take(struct fpisa_checksum_lanes *l, const fpisa_checksum_words *w)
{
	l->a_lo += *w & 0xffffffff;
	l->b_lo += l->a_lo;
	l->a_hi += *w >> 32;
	l->b_hi += l->a_hi;
}

/*
 * Combine the lanes. Word i of n = 4m is in lane k = i mod 4, where it counts m - (i - k) / 4 times in b. The word has
 * to count n - i times, which is four times the count in the lane, minus k.
 */
static __always_inline void fpisa_checksum_join(struct fpisa_sum *s, const struct fpisa_checksum_lanes *l, __u64 n)
{
	s->b_lo += s->a_lo * n;
	s->b_hi += s->a_hi * n;
	for (int k = 0; k < FPISA_CHECKSUM_LANES; k++) {
		s->a_lo += l->a_lo[k];
		s->b_lo += FPISA_CHECKSUM_LANES * l->b_lo[k] - (__u64)k * l->a_lo[k];
		s->a_hi += l->a_hi[k];
		s->b_hi += FPISA_CHECKSUM_LANES * l->b_hi[k] - (__u64)k * l->a_hi[k];
	}
}

/* Add words as fpisa_sum_words() does. */
void fpisa_checksum_many(struct fpisa_sum *s, const void *p, size_t words);

#endif
