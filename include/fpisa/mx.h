/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Block floating point (OCP MXINT8). 32 elements of eight bits share a scale of eight bits. Scale 255 is NaN. As with
 * the replicated exponent register of the paper, every lane has the exponent of the block, so MAU2 makes the same
 * decision in all lanes. MAU2 to MAU6 are the same as for other formats. This file contains MAU0, MAU1, MAU7 and MAU8,
 * over a block.
 *
 * Scale s is exponent s + 1 with bias 128, so that the smallest exponent is 1 as elsewhere.
 */
#ifndef FPISA_MX_H
#define FPISA_MX_H

#include "op.h"

#define FPISA_MX_NAN 0xff /* scale of a block of NaN */
#define FPISA_MX_MAX 127  /* largest magnitude of an element in a result */

/* Run stage 0. The scale becomes the exponent field, and the element becomes the mantissa. */
static __always_inline void fpisa_mx_stage0(const void *in, __u8 scale, struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		p.e[i] = scale;
		fpisa_put_man(p.m, i, f, ((const __s8 *)in)[i]);
	}
}

/*
 * Run stage 1. A block of zeros gets the smallest exponent, whatever its scale, so that the block does not shift other
 * contributions.
 */
static __always_inline void fpisa_mx_stage1(struct fpisa_phv_ref p, struct fpisa_format f)
{
	__u16 e = p.e[0] + 1;
	__s64 any = 0, keep = -1;

	FPISA_EACH(i)
		any |= fpisa_get_man(p.m, i, f);
	if (p.e[0] == FPISA_MX_NAN) {
		e = 1 | FPISA_EXP_NAN;
		keep = 0;
	} else if (!any) {
		e = 1;
	}
	FPISA_EACH(i) {
		p.e[i] = e;
		fpisa_put_man(p.m, i, f, (__s64)((__u64)(fpisa_get_man(p.m, i, f) & keep) << f.guard));
	}
}

/* Run stage 7, which computes the exponent of the leading one without limiting it to a range. */
static __always_inline void fpisa_mx_stage7(struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		__s64 e = fpisa_exponent_of(p.e[i]) + f.rbits - 1 - (p.d[i] & FPISA_D_LOW) - f.mbits - f.guard;

		p.e[i] = (__u16)((e & FPISA_EXP_MASK) | (p.e[i] & FPISA_EXP_SPECIAL));
	}
}

/* Round the elements to scale s. Return the largest magnitude. Set *lost to nonzero if a rounding lost a bit. */
static __always_inline __u32 fpisa_mx_round(struct fpisa_phv_ref p, __u8 *out, __s64 s, struct fpisa_format f,
					    enum fpisa_rounding rounding, __u32 *lost)
{
	__u32 largest = 0, fallen = 0;

	FPISA_EACH(i) {
		/* The value has M + 3 bits, of which two are below the fraction. A zero may have any exponent. */
		__s64 down = fpisa_positive(s + 1 - fpisa_exponent_of(p.e[i]));
		__u32 shift = (__u32)fpisa_min(down, f.mbits + 2) + FPISA_ROUND_BITS;
		__u32 x = (__u32)fpisa_get_magnitude(p.m, i, f), ulp = 1u << shift, up, k;
		__u32 negative = p.d[i] >> 15;

		if (rounding == FPISA_ROUND_NEAREST)
			up = (ulp >> 1) - 1 + (x >> shift & 1);
		else
			up = (0 - negative) & (ulp - 1);
		k = (x + up) >> shift;
		fallen |= x & (ulp - 1);
		if (k > largest)
			largest = k;
		out[i] = (__u8)((k ^ (0 - negative)) + negative);
	}
	*lost = fallen;
	return largest;
}

/*
 * Run stage 8 with the smallest scale at which every rounded element fits. With this scale the largest magnitude is in
 * 64..128. If it rounds to 128, use the next scale. Return the result flags.
 */
static __always_inline __u32 fpisa_mx_stage8(struct fpisa_phv_ref p, __u8 *out, __u8 *scale, struct fpisa_format f,
					     enum fpisa_rounding rounding)
{
	__u32 flags = 0, sticky = 0, lost = 0;
	__s64 top = 1;

	FPISA_EACH(i) {
		__s64 e = fpisa_get_magnitude(p.m, i, f) ? fpisa_exponent_of(p.e[i]) : 1;

		sticky |= p.e[i];
		top += fpisa_positive(e - top);
	}
	if (fpisa_mx_round(p, out, top - 1, f, rounding, &lost) > FPISA_MX_MAX)
		fpisa_mx_round(p, out, top++, f, rounding, &lost);
	if (sticky & FPISA_EXP_SPECIAL)
		flags = FPISA_NAN;
	else if (top - 1 >= FPISA_MX_NAN)
		flags = FPISA_OVERFLOW | FPISA_INEXACT | FPISA_NAN;
	else if (lost)
		flags = FPISA_INEXACT;
	*scale = (__u8)(top - 1);
	if (flags & FPISA_NAN) {
		*scale = FPISA_MX_NAN;
		FPISA_EACH(i)
			out[i] = 0;
	}
	return flags;
}

#endif
