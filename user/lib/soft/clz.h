/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The matches of MAU6 that the datapath makes in tries, in user space: the
 * same entries, the longest prefix of them found by trying each.
 */
#ifndef FPISA_SOFT_CLZ_H
#define FPISA_SOFT_CLZ_H

#include "fpisa/clz.h"
#include "fpisa/mau.h"

static const __u8 fpisa_clz_of[FPISA_WINDOWS] = FPISA_CLZ_OF_WINDOWS;

static inline __u32 fpisa_soft_clz32(__u32 x, enum fpisa_clz clz)
{
	__u32 skip = 0;

	if (clz == FPISA_CLZ_LPM) {
		for (__u32 zeros = 0; zeros < 32; zeros++)
			if (x >> (31 - zeros) == 1)
				return zeros;
		return 32;
	}
	for (__u32 i = 0; i < FPISA_BYTE_PREFIXES; i++)
		if (!(x >> (32 - fpisa_byte_prefix(i))))
			skip = fpisa_byte_skip(i);
	return fpisa_clz32_window(x, skip, fpisa_clz_of);
}

/* Leading zeros of a register of R bits, by what a job asks for. */
static inline __u32 fpisa_soft_clz(__u64 x, enum fpisa_clz clz, struct fpisa_format f)
{
	__u64 w = x >> fpisa_window_at(f);

	if (clz != FPISA_CLZ_LPM && clz != FPISA_CLZ_LPM_BYTE)
		return f.rbits == 32 ? fpisa_clz32_bits(x) : fpisa_clz64_bits(x);
	if (clz == FPISA_CLZ_LPM_BYTE && w && w < FPISA_WINDOWS)
		return fpisa_clz_near((__u32)w, f, fpisa_clz_of);
	if (f.rbits == 32)
		return fpisa_soft_clz32((__u32)x, clz);
	return x >> 32 ? fpisa_soft_clz32((__u32)(x >> 32), clz) : 32 + fpisa_soft_clz32((__u32)x, clz);
}

#endif
