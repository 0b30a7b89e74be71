/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * MAU5..8 of a sum in one function, for BPF. The results have the same bits and flags as those of the separate units of
 * mau.h, which user space and the staged programs run (block.h).
 *
 * The leading one of a sum is near the leading one of the format's mantissa, so a table (clz.h) finds the leading one.
 * A lane is then shifted left once and never right, which puts the fraction above the bits to be rounded away. One
 * comparison of the packed value detects the rare results, which are subnormal results, results beyond the range and
 * specials. The units handle the rare lanes, and lanes whose leading one the table does not find.
 */
#ifndef FPISA_LOOKUP_READ_H
#define FPISA_LOOKUP_READ_H

#include "clz.h"
#include "lookup.h"

/* Return the register of a lane, shifted left by 64 - R bits. */
static __always_inline __s64 fpisa_get_high(const void *m, int i, struct fpisa_format f)
{
	return f.rbits == 32 ? (__s64)((__u64)((const __u32 *)m)[i] << 32) : ((const __s64 *)m)[i];
}

/* Return the number of bits below the fraction when the leading one is at bit 62. These bits are rounded away. */
static __always_inline __u32 fpisa_bits_below(struct fpisa_format f)
{
	return 62 - f.mbits;
}

/*
 * Add `bit` of the eight lanes from lane `from` on to `rare` if the bit is set in `all`. The bits are computed here,
 * because they are rarely needed.
 */
#define fpisa_rare_lane(rare, all, bit, from)        \
	({                                           \
		__u32 __lane = all;                  \
		fpisa_opaque(__lane);                \
		__lane = (__lane & (bit)) << (from); \
		fpisa_or_to(rare, __lane);           \
	})

/*
 * Pack the lanes of a block, with mantissas `regs` and exponents `e`, into `out`. Collect the bits below the fractions
 * in *lost. Return the set of lanes that need the units and are not packed. `all` has a bit for each lane. The verifier
 * must not know the value of `all`, because it would then walk all sets of lanes.
 */
static __always_inline __u32 fpisa_look_pack(void *out, const struct fpisa_exp_block *e, const void *regs,
					     struct fpisa_format f, enum fpisa_rounding rounding, const __u8 *clz_of,
					     __u32 all, __u64 *lost)
{
	const __u32 below = fpisa_bits_below(f), at = fpisa_window_at(f);
	const __u64 least = (1ull << f.mbits) + 1; /* smallest normal result that cannot be a rounded subnormal */
	__u64 half = (1ull << (below - 1)) - 1, gone = 0;
	__u32 rare = ~all;
	const __u16 *exps = e->e;

	fpisa_opaque(clz_of);
	fpisa_opaque(half);
	FPISA_ROLLED
	for (int from = 0; from < FPISA_BLOCK; from += 8) {
		fpisa_opaque(out);
		fpisa_opaque(exps);
		fpisa_opaque(regs);
		FPISA_UNROLLED
		for (int i = 0; i < 8; i++) {
			__s64 high = fpisa_get_high(regs, i, f), sign;
			__u64 w, x, left, exp;

			fpisa_opaque(high);
			sign = high;
			fpisa_opaque(sign);
			sign >>= 63;
			fpisa_opaque(sign);
			/*
			 * For a negative power of two the result is too small by one. The leading one of the result is
			 * then shifted one bit further and counts as a carry.
			 */
			x = (__u64)high ^ (__u64)sign;
			w = x >> (64 - f.rbits + at);
			/* Test twice. Otherwise clang merges the tests, and the verifier of 6.1 finds no bound. */
			if (fpisa_unlikely(w >= FPISA_WINDOWS)) {
				fpisa_rare_lane(rare, all, 1u << i, from);
				continue;
			}
			fpisa_opaque(w);
			exp = exps[i];
			if (fpisa_unlikely(!w)) {
				if (high || (exp & FPISA_EXP_SPECIAL))
					fpisa_rare_lane(rare, all, 1u << i, from);
				else
					fpisa_put_word(out, i, f, 0);
				continue;
			}
			/* For narrower formats the last comparison detects the sticky bits. */
			if (f.bytes == 8 && fpisa_unlikely(exp & FPISA_EXP_SPECIAL)) {
				fpisa_rare_lane(rare, all, 1u << i, from);
				continue;
			}
			left = *(const __u8 *)fpisa_offset(clz_of, w) + f.rbits - FPISA_WINDOW - at - 1;
			if (rounding == FPISA_ROUND_NEAREST) {
				x = (x - (__u64)sign) << left;
				fpisa_or_to(gone, x);
				x = (x + half + (x >> below & 1)) >> below;
			} else {
				x = (__u64)high << left;
				fpisa_or_to(gone, x);
				x = ((__u64)((__s64)x >> below) ^ (__u64)sign) - (__u64)sign;
			}
			/* The leading one of the fraction adds one to the exponent (MAU7, MAU8). */
			x += ((exp - left + f.rbits - 3 - f.mbits - f.guard) << f.mbits) - least;
			fpisa_opaque(x);
			if (fpisa_unlikely(x >= fpisa_beyond(f) - least)) {
				fpisa_rare_lane(rare, all, 1u << i, from);
				continue;
			}
			fpisa_put_word(out, i, f, (x + least) | (__u64)sign << (f.ebits + f.mbits));
		}
		out += 8 * f.bytes;
		exps += 8;
		regs += f.rbits;
	}
	*lost = gone;
	return rare;
}

/*
 * Read sums out as fpisa_block_read() does. units(lanes) runs MAU5..8 of the lanes whose bit is set and returns their
 * flags. The lost bits are collected before a lane's sticky bits are checked. So if there are specials, the units
 * determine again whether any other lane was rounded.
 */
#define fpisa_look_read(out, ereg, mreg, f, rounding, clz_of, all, units)                           \
	({                                                                                          \
		__u64 __lost;                                                                       \
		__u32 __rare = fpisa_look_pack(out, ereg, mreg, f, rounding, clz_of, all, &__lost), \
		      __flags = __rare ? units(__rare) : 0;                                         \
		if (__lost << (64 - fpisa_bits_below(f)))                                           \
			__flags |= __flags & (FPISA_NAN | FPISA_INF) ? units(all) : FPISA_INEXACT;  \
		__flags;                                                                            \
	})

#endif
