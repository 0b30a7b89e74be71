/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stages MAU0 to MAU4 for BPF, without masks in [-1, 0]. The results have the same bits as those of the staged
 * functions of block.h, which user space runs.
 *
 * BPF has no conditional move, so the minima and maxima of MAU2 are either branches on unpredictable exponents or some
 * twenty instructions of masks for each element. Here a register of 64 bits holds the exponents of four lanes, and one
 * subtraction compares all four. The result of a comparison is in the top bit of the lane, which no exponent reaches.
 */
#ifndef FPISA_LANES_H
#define FPISA_LANES_H

#include "block.h"

#define FPISA_LANES 4 /* lanes of 16 bits in a register */

/* Return a register with x in every lane. */
#define FPISA_EVERY(x) ((x)*0x0001000100010001ull)

/*
 * Iterate over the lanes of a block, two registers at a time. Unlike the loops of block.h, the loop has no masks, which
 * would be expensive for the verifier.
 */
#ifdef __clang__
#define FPISA_BY_LANES(i) _Pragma("clang loop unroll_count(2)") for (int i = 0; i < FPISA_BLOCK; i += FPISA_LANES)
#else
#define FPISA_BY_LANES(i) for (int i = 0; i < FPISA_BLOCK; i += FPISA_LANES)
#endif

#define FPISA_EACH_LANE(k) FPISA_UNROLLED for (int k = 0; k < FPISA_LANES; k++)

#define FPISA_LANE_TOP FPISA_EVERY(0x8000ull)

/* Return 0x7fff in each lane whose top bit is set in x, else 0. */
static __always_inline __u64 fpisa_lanes_of_tops(__u64 x)
{
	x &= FPISA_LANE_TOP;
	return x - (x >> 15);
}

/* Return the minimum of `limit` and each lane of x, which is below 2^15. */
static __always_inline __u64 fpisa_lanes_min(__u64 x, __u64 limit)
{
	__u64 less = (FPISA_LANE_TOP | FPISA_EVERY(limit)) - x;

	return FPISA_EVERY(limit) - (less & fpisa_lanes_of_tops(less));
}

/* Run MAU0. */
static __always_inline void fpisa_lanes_stage0(const void *in, struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_BY_LANES(i)
	{
		__u64 e = 0;

		FPISA_EACH_LANE(k) {
			struct fpisa_lane l = {.word = fpisa_get_word(in, i + k, f)};

			fpisa_mau0_extract(&l, f);
			e |= (__u64)l.e << 16 * k;
			fpisa_put_man(p.m, i + k, f, l.m);
		}
		fpisa_store64(p.e + i, e);
	}
}

/*
 * Run MAU1 of a block without special values. Return 0. If the block has a special value, leave the block unchanged and
 * return 1. The caller then uses the function of block.h.
 */
static __always_inline int fpisa_lanes_stage1(struct fpisa_phv_ref p, struct fpisa_format f)
{
	const __u64 ones = fpisa_exp_ones(f);
	__u64 next = 0;

	FPISA_BY_LANES(i)
	next |= fpisa_load64(p.e + i) + FPISA_EVERY(1);
	if (fpisa_unlikely(next & FPISA_EVERY(ones + 1)))
		return 1;
	FPISA_BY_LANES(i)
	{
		__u64 e = fpisa_load64(p.e + i);
		__u64 normal = (e + FPISA_EVERY(ones)) >> f.ebits & FPISA_EVERY(1);

		fpisa_store64(p.e + i, e + FPISA_EVERY(1) - normal);
		FPISA_EACH_LANE(k) {
			__u64 one = (normal >> 16 * k & 1) << f.mbits;

			if (f.rbits == 32) {
				__s32 m = ((const __s32 *)p.m)[i + k], sign = m;

				fpisa_opaque(sign);
				sign >>= 31;
				m = (m & (__s32)fpisa_frac_ones(f)) | (__s32)one;
				((__s32 *)p.m)[i + k] = (__s32)((__u32)((m ^ sign) - sign) << f.guard);
			} else {
				__s64 m = ((const __s64 *)p.m)[i + k], sign = m;

				fpisa_opaque(sign);
				sign >>= 63;
				m = (m & (__s64)fpisa_frac_ones(f)) | (__s64)one;
				((__s64 *)p.m)[i + k] = (__s64)((__u64)((m ^ sign) - sign) << f.guard);
			}
		}
	}
	return 0;
}

/* Run MAU2 of mode fpisa. */
static __always_inline void fpisa_lanes_stage2(struct fpisa_phv_ref p, struct fpisa_exp_block *e, struct fpisa_format f)
{
	FPISA_BY_LANES(i)
	{
		__u64 in = fpisa_load64(p.e + i), reg = fpisa_load64(e->e + i);
		/* in - reg + 2^15 */
		__u64 d = (FPISA_LANE_TOP | (in & FPISA_EVERY(FPISA_EXP_MASK))) - (reg & FPISA_EVERY(FPISA_EXP_MASK));
		__u64 larger = fpisa_lanes_of_tops(d), up = d & larger;
		__u64 by = fpisa_lanes_min(up + ((FPISA_LANE_TOP | up) - d), f.rbits), st = by & larger;

		fpisa_store64(e->e + i, (reg + up) | (in & FPISA_EVERY(FPISA_EXP_SPECIAL)));
		fpisa_store64(p.d + i, (by ^ st) | st << 8);
	}
}

/* Run MAU3 of mode fpisa. Return the events. */
static __always_inline __u64 fpisa_lanes_stage3(struct fpisa_phv_ref p, struct fpisa_format f)
{
	__u64 events = 0;

	FPISA_BY_LANES(i)
	{
		FPISA_EACH_LANE(k) {
			struct fpisa_lane l = {.m = fpisa_get_man(p.m, i + k, f),
					       .in = ((const __u8 *)p.d)[2 * (i + k)],
					       .events = events};

			fpisa_mau3_align(&l, f, FPISA_MODE_FPISA);
			fpisa_put_man(p.m, i + k, f, l.m);
			events = l.events;
		}
	}
	return events;
}

/* Run MAU4 of mode fpisa. The caller has checked fpisa_bounded(), so no sum can saturate. Return the events. */
static __always_inline __u64 fpisa_lanes_stage4(struct fpisa_phv_ref p, void *m, struct fpisa_format f)
{
	__u64 events = 0;

	FPISA_BY_LANES(i)
	{
		FPISA_EACH_LANE(k) {
			struct fpisa_lane l = {.st = ((const __u8 *)p.d)[2 * (i + k) + 1], .events = events};
			__s64 reg = fpisa_mau4_align(&l, fpisa_get_man(m, i + k, f), f, FPISA_MODE_FPISA);

			fpisa_put_man(m, i + k, f, reg + fpisa_get_man(p.m, i + k, f));
			events = l.events;
		}
	}
	return events;
}

#endif
