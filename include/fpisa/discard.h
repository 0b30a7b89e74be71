/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The bits that an add discards, which give the error distribution of the paper (section 5.2.1). The datapath measures
 * these bits during the add. An observer reads a block's PHV after MAU1 and its registers before MAU2, and does not
 * change them.
 *
 * A right shift discards the low bits of the shifted mantissa. The discarded amount is not negative, because the shift
 * rounds down. An overwrite discards the stored magnitude. A magnitude in [2^x, 2^(x+1)) counts in the bucket x + bias
 * + M + G. Saturation does not lose single bits, so only the counter `overflowed` counts saturation. The rounding of a
 * read-out is not counted. Squares are not counted, because their exponents differ.
 */
#ifndef FPISA_DISCARD_H
#define FPISA_DISCARD_H

#include "block.h"

#define FPISA_BUCKETS 2112 /* number of buckets for FP64, with exponents 1..2046 and 63 bits */

/* Buckets of one job, shared by all CPUs; bucket 0 stays empty. */
struct fpisa_histogram {
	__u64 bucket[FPISA_BUCKETS];
};

/* Return the bucket of the low `by` bits of m with exponent e, or 0 if these bits are zero. */
static __always_inline __u32 fpisa_discard_bucket(__s64 m, __u32 e, __u32 by)
{
	__u64 low = (__u64)m & ((1ull << (by < 63 ? by : 63)) - 1);
	__u32 bits = 64 - fpisa_clz64_bits(low);

	/* The floor of a small negative number is -1, so the shift discards 2^by - |m|. */
	if (by > 63 && m < 0)
		bits = by;
	return bits ? e + bits - 1 : 0;
}

/*
 * Return the bucket to count for one element. e and m are exponent and mantissa of the contribution, and reg_e and
 * reg_m are those of the registers.
 */
static __always_inline __u32 fpisa_discarded(__u32 e, __s64 m, __u32 reg_e, __s64 reg_m, struct fpisa_format f,
					     enum fpisa_mode mode)
{
	__s32 d;

	e &= FPISA_EXP_MASK;
	reg_e &= FPISA_EXP_MASK;
	d = (__s32)e - (__s32)reg_e;
	if (d <= 0)
		return fpisa_discard_bucket(m, e, (__u32)-d);
	if (mode != FPISA_MODE_FPISA_A)
		return fpisa_discard_bucket(reg_m, reg_e, (__u32)d);
	if (d <= fpisa_headroom(f) || !reg_m)
		return 0;
	return reg_e + 63 - fpisa_clz64_bits((__u64)(reg_m < 0 ? -reg_m : reg_m));
}

#endif
