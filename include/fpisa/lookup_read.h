/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * MAU5..8 of a sum in one body, for BPF: the same bits and flags as the units
 * of mau.h one after the other (block.h), which user space and the staged
 * programs run.
 *
 * A sum has its leading one near that of the format's mantissa, so a table
 * finds it there (match.h) and a lane moves left, once, never right: the
 * fraction stands above what is to be rounded away. One comparison of the
 * packed value finds all that is rare, subnormal results, those beyond the
 * range and specials; these lanes, and those whose leading one the table does
 * not see, go through the units.
 */
#ifndef FPISA_LOOKUP_READ_H
#define FPISA_LOOKUP_READ_H

#include "lookup.h"
#include "match.h"

/* What a lane holds in its upper bits: the register, 64 - R bits up. */
static __always_inline __s64 fpisa_get_high(const void *m, int i, struct fpisa_format f)
{
	return f.rbits == 32 ? (__s64)((__u64)((const __u32 *)m)[i] << 32) : ((const __s64 *)m)[i];
}

/* Bits below the fraction while a leading one stands at bit 62; what they hold is rounded away. */
static __always_inline __u32 fpisa_bits_below(struct fpisa_format f)
{
	return 62 - f.mbits;
}

/*
 * Pack the register `high` of exponent `e` into *word; *lost collects the
 * bits below. Returns 0, and leaves both alone, for a lane that is the units'.
 */
static __always_inline int fpisa_look_pack(__s64 high, __u64 e, struct fpisa_format f, enum fpisa_rounding rounding,
					   const __u8 *clz_of, __u64 *word, __u64 *lost)
{
	const __u32 below = fpisa_bits_below(f), at = fpisa_window_at(f);
	const __u64 least = (1ull << f.mbits) + 1; /* normal, and no power of two that a subnormal may round to */
	__s64 sign = fpisa_negative(high);
	/* Of a negative power of two this is one less; its one then moves a bit further and counts as a carry. */
	__u64 u = (__u64)high ^ (__u64)sign, w = u >> (64 - f.rbits + at), left, m, x;

	/* Two tests: of one that clang makes of both 6.1 learns no bound. */
	if (fpisa_unlikely(w >= FPISA_WINDOWS))
		return 0;
	fpisa_opaque(w);
	if (fpisa_unlikely(!w)) {
		if (high || (e & FPISA_EXP_SPECIAL))
			return 0;
		*word = 0;
		return 1;
	}
	/* Of narrower formats the last comparison sees the sticky bits. */
	if (f.bytes == 8 && fpisa_unlikely(e & FPISA_EXP_SPECIAL))
		return 0;
	left = clz_of[w] + f.rbits - FPISA_WINDOW - at - 1;
	if (rounding == FPISA_ROUND_NEAREST) {
		m = (u - (__u64)sign) << left;
		x = (m + (1ull << (below - 1)) - 1 + (m >> below & 1)) >> below;
	} else {
		m = (__u64)high << left;
		x = ((__u64)((__s64)m >> below) ^ (__u64)sign) - (__u64)sign;
	}
	/* The leading one of the fraction is one of the exponent (MAU7, MAU8). */
	x += ((e - left + f.rbits - 3 - f.mbits - f.guard) << f.mbits) - least;
	fpisa_opaque(x);
	if (fpisa_unlikely(x >= fpisa_beyond(f) - least))
		return 0;
	*lost |= m;
	*word = (x + least) | (__u64)sign << (f.ebits + f.mbits);
	return 1;
}

/*
 * As fpisa_block_read(), of sums. units(lanes) does MAU5..8 of the lanes whose
 * bit is set and returns their flags. `all` is a bit for each lane, which a
 * verifier must not know: else it tells all sets of lanes apart.
 */
#define fpisa_look_read(out, ereg, mreg, f, rounding, clz_of, all, units)                               \
	({                                                                                              \
		__u32 __left = ~(all), __flags;                                                         \
		__u64 __lost = 0, __word;                                                               \
		FPISA_UNROLLED                                                                          \
		for (int __i = 0; __i < FPISA_BLOCK; __i++) {                                           \
			if (fpisa_look_pack(fpisa_get_high(mreg, __i, f), (ereg)->e[__i], f, rounding,  \
					    clz_of, &__word, &__lost))                                  \
				fpisa_put_word(out, __i, f, __word);                                    \
			else                                                                            \
				__left |= (all) & 1u << __i;                                            \
		}                                                                                       \
		__flags = __left ? units(__left) : 0;                                                   \
		__lost << (64 - fpisa_bits_below(f)) ? __flags | FPISA_INEXACT : __flags;               \
	})

#endif
