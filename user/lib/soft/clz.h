/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The match of MAU6 in user space, which the datapath performs in a trie. The entries are the same, and the longest
 * prefix is found by trying all of them.
 */
#ifndef FPISA_SOFT_CLZ_H
#define FPISA_SOFT_CLZ_H

#include "fpisa/mau.h"

static inline __u32 fpisa_soft_clz32_lpm(__u32 x)
{
	for (__u32 zeros = 0; zeros < 32; zeros++)
		if (x >> (31 - zeros) == 1)
			return zeros;
	return 32;
}

/* Return the leading zeros of a register of R bits, by the job's method. */
static inline __u32 fpisa_soft_clz(__u64 x, enum fpisa_clz clz, struct fpisa_format f)
{
	if (clz != FPISA_CLZ_LPM)
		return f.rbits == 32 ? fpisa_clz32_bits(x) : fpisa_clz64_bits(x);
	if (f.rbits == 32)
		return fpisa_soft_clz32_lpm((__u32)x);
	return x >> 32 ? fpisa_soft_clz32_lpm((__u32)(x >> 32)) : 32 + fpisa_soft_clz32_lpm((__u32)x);
}

#endif
