/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The nine match-action units, one element at a time.
 *
 * This file defines the arithmetic. block.h composes these functions into stages and fused functions. The kernel gets
 * the same bits by other means in some places (lanes.h, lookup.h, lookup32.h, lookup_read.h; bpf/forms.h lists them),
 * and tests compare them with these functions. exact.h has superaccumulators, op.h operations other than the sum, and
 * mx.h shared exponents. Each function is the paper's unit of the same number (section 3.2, figure 2):
 *
 *	MAU0 extract	     packed value -> exponent, sign and fraction
 *	MAU1 implied one     fraction -> signed mantissa; specials become sticky bits
 *	MAU2 exponent	     compare with the stored exponent, update it
 *	MAU3 align incoming  shift the incoming mantissa
 *	MAU4 align, add	     shift the stored mantissa and add (stateful)
 *	MAU5 sign	     two's complement -> sign and magnitude
 *	MAU6 normalise	     leading zeros, leading one to its canonical place
 *	MAU7 exponent	     adjust it by the leading zeros
 *	MAU8 assemble	     round and pack
 *
 * Formats, modes and roundings are arguments. Callers pass constants, which the compiler folds. Branches depend on data
 * only in rare cases (specials, saturation, overflow).
 */
#ifndef FPISA_MAU_H
#define FPISA_MAU_H

#include "format.h"

/* The PHV of one element, in registers. */
struct fpisa_lane {
	__u64 word;   /* packed value; MAU0 reads it, MAU8 writes it */
	__u64 events; /* counts, format.h; accumulates over lanes */
	__s64 m;      /* mantissa container, sign-extended from R bits */
	__u32 e;      /* exponent container with sticky bits */
	__s32 in;     /* MAU2: right shift of the incoming mantissa; a negative value is a left shift */
	__u32 st;     /* MAU2: right shift of the stored mantissa, or FPISA_DISCARD */
	__u32 sign;   /* MAU5: 1 when the sum is negative */
	__u32 dn;     /* MAU7: extra right shift of a subnormal result */
	__u32 flags;  /* MAU8: result flags; accumulates over lanes */
};

/* Value of fpisa_lane.st if the stored mantissa is replaced and not shifted. */
#define FPISA_DISCARD 0x80u

/*
 * Number of bits that MAU6 keeps below the fraction. A round bit and a sticky bit are enough to round any value
 * correctly once.
 */
#define FPISA_ROUND_BITS 2

/*
 * Shift an R-bit mantissa right arithmetically (floor) by 0..R. Set *lost to nonzero if a nonzero bit was shifted out.
 * With R = 32, shift the value in the high word, so that the lost bits are the low word.
 */
static __always_inline __s64 fpisa_shift_right(__s64 m, __u32 by, struct fpisa_format f, __u64 *lost)
{
	if (f.rbits == 32) {
		__s64 y = (__s64)((__u64)m << 32) >> by;

		*lost = (__u32)y;
		return y >> 32;
	}
	/* Shift by 63 if `by` is 64. In this case any negative value loses bits too. */
	__u64 beyond = by >> 6;
	__u32 sh = by - (__u32)beyond;
	__s64 y = m >> sh;

	*lost = (((__u64)y << sh) ^ (__u64)m) | ((__u64)m >> 63 & beyond);
	return y;
}

/*
 * Run MAU0, which splits a packed value. The container has the sign in its top bit and the fraction in its low bits, as
 * the two fields of one PHV word in the paper.
 */
static __always_inline void fpisa_mau0_extract(struct fpisa_lane *l, struct fpisa_format f)
{
	__u64 sign = (l->word >> (f.ebits + f.mbits)) & 1;

	l->e = (__u32)((l->word >> f.mbits) & fpisa_exp_ones(f));
	l->m = (__s64)((l->word & fpisa_frac_ones(f)) | (0 - sign) << (f.rbits - 1));
}

/*
 * Run MAU1, which applies the implied one, the sign and the guard bits. Exponent 0 is treated as 1 without the implied
 * one, so subnormals are exact. A special value becomes a sticky bit with mantissa 0 and exponent 1, which changes no
 * register.
 */
static __always_inline void fpisa_mau1_implied_one(struct fpisa_lane *l, struct fpisa_format f)
{
	__u64 frac = (__u64)l->m & fpisa_frac_ones(f);
	__s64 sign = fpisa_negative(l->m);
	__u32 e = l->e;
	__u32 subnormal = (e - 1) >> 31;

	if (fpisa_unlikely(e == fpisa_exp_ones(f)) && (!f.finite || frac == fpisa_frac_ones(f))) {
		l->e = 1 | (frac ? FPISA_EXP_NAN : sign ? FPISA_EXP_NINF : FPISA_EXP_PINF);
		l->m = 0;
		return;
	}
	frac |= (__u64)(1 - subnormal) << f.mbits;
	l->e = e + subnormal;
	l->m = (__s64)((((frac ^ (__u64)sign) - (__u64)sign)) << f.guard);
}

/*
 * Run MAU2 for the first contribution of a round, which replaces the stored exponent. Return the register's new value.
 */
static __always_inline __u16 fpisa_mau2_first(struct fpisa_lane *l)
{
	l->in = 0;
	l->st = FPISA_DISCARD;
	return (__u16)l->e;
}

/*
 * Run MAU2, which compares the exponents, updates the stored exponent, and decides which mantissa is shifted and by how
 * much. Return the new value of the register, whose sticky bits are never cleared.
 *
 * fpisa:   d > 0 shifts the stored mantissa right by d, d < 0 the incoming
 *	    one by -d; the register takes the larger exponent.
 * fpisa-a: 0 < d <= headroom shifts the incoming mantissa left and keeps the
 *	    register; a larger d replaces both registers (section 4.4).
 */
static __always_inline __u16 fpisa_mau2_exponent(struct fpisa_lane *l, __u16 reg, struct fpisa_format f,
						 enum fpisa_mode mode)
{
	__s64 d = (__s64)(l->e & FPISA_EXP_MASK) - (reg & FPISA_EXP_MASK);
	__s64 up = fpisa_positive(d);
	__s64 right = fpisa_min(up - d, f.rbits);

	if (mode == FPISA_MODE_FPISA_A) {
		__s64 over = fpisa_negative(fpisa_headroom(f) - d);

		l->in = (__s32)(right - (up & ~over));
		l->st = (__u32)over & FPISA_DISCARD;
		return (__u16)((reg + (up & over)) | (l->e & FPISA_EXP_SPECIAL));
	}
	l->in = (__s32)right;
	l->st = (__u32)fpisa_min(up, f.rbits);
	return (__u16)((reg + up) | (l->e & FPISA_EXP_SPECIAL));
}

/* Run MAU3, which aligns the incoming mantissa. A left shift (fpisa-a) is exact. */
static __always_inline void fpisa_mau3_align(struct fpisa_lane *l, struct fpisa_format f, enum fpisa_mode mode)
{
	__s64 right = mode == FPISA_MODE_FPISA_A ? fpisa_positive(l->in) : l->in;
	__u64 lost;

	l->m = fpisa_shift_right(l->m, (__u32)right, f, &lost);
	l->events += fpisa_nonzero(lost) << FPISA_EV_ROUNDED;
	if (mode == FPISA_MODE_FPISA_A) {
		__u64 left = (__u64)(right - l->in);

		l->m = (__s64)((__u64)l->m << left);
		l->events += fpisa_nonzero(left) << FPISA_EV_LEFT_SHIFTED;
	}
}

/* Return the sum of two R-bit mantissas, saturated to [-2^(R-1), 2^(R-1) - 1]. */
static __always_inline __s64 fpisa_saturating_add(__s64 a, __s64 b, struct fpisa_format f, __u64 *events)
{
	__s64 sum = (__s64)((__u64)a + (__u64)b);
	__s64 wrapped;

	if (f.rbits == 32)
		wrapped = (sum + (1ll << 31)) >> 32;
	else
		wrapped = fpisa_negative((a ^ sum) & (b ^ sum));
	if (fpisa_unlikely(wrapped)) {
		__s64 top = (__s64)((1ull << (f.rbits - 1)) - 1);

		*events += 1ull << FPISA_EV_OVERFLOWED;
		sum = (f.rbits == 32 ? sum : a) < 0 ? -top - 1 : top;
	}
	return sum;
}

/* Return the aligned stored mantissa of MAU4. */
static __always_inline __s64 fpisa_mau4_align(struct fpisa_lane *l, __s64 reg, struct fpisa_format f,
					      enum fpisa_mode mode)
{
	if (mode == FPISA_MODE_FPISA_A) {
		__s64 discard = -(__s64)(l->st >> 7);
		__u64 old = (__u64)(reg & discard);

		old = f.rbits == 32 ? (__u32)old : old >> 1 | (old & 1);
		l->events += fpisa_nonzero(old) << FPISA_EV_OVERWRITTEN;
		reg &= ~discard;
	} else {
		__u64 lost;

		reg = fpisa_shift_right(reg, l->st, f, &lost);
		l->events += fpisa_nonzero(lost) << FPISA_EV_ROUNDED;
	}
	return reg;
}

/*
 * Run MAU4, which aligns the stored mantissa and adds. This is the paper's shift-and-add on one register. Return the
 * new value of the register.
 */
static __always_inline __s64 fpisa_mau4_add(struct fpisa_lane *l, __s64 reg, struct fpisa_format f, enum fpisa_mode mode)
{
	return fpisa_saturating_add(fpisa_mau4_align(l, reg, f, mode), l->m, f, &l->events);
}

/* Run MAU5, which finds sign and magnitude of the sum. The magnitude may be 2^(R-1). */
static __always_inline void fpisa_mau5_sign(struct fpisa_lane *l)
{
	__s64 s = fpisa_negative(l->m);

	l->sign = (__u32)s & 1;
	l->m = (__s64)(((__u64)l->m ^ (__u64)s) - (__u64)s);
}

/*
 * Return the leading zeros of a 32-bit value, 0..32, by binary search without branches. This is the match of MAU6 for
 * jobs with method `bits` (enum fpisa_clz).
 */
static __always_inline __u32 fpisa_clz32_bits(__u64 x)
{
	__u64 v = x;
	__u32 n = 0, up;

	up = (__u32)(-fpisa_negative((__s64)v - 0x10000)) << 4;
	v <<= up, n += up;
	up = (__u32)(-fpisa_negative((__s64)v - 0x1000000)) << 3;
	v <<= up, n += up;
	up = (__u32)(-fpisa_negative((__s64)v - 0x10000000)) << 2;
	v <<= up, n += up;
	up = (__u32)(-fpisa_negative((__s64)v - 0x40000000)) << 1;
	v <<= up, n += up;
	return n + ((0x12u >> ((v >> 30) * 4)) & 3);
}

/* Return the leading zeros of a 64-bit value, 0..64. */
static __always_inline __u32 fpisa_clz64_bits(__u64 x)
{
	__u64 low = 1 - fpisa_nonzero(x >> 32);

	return fpisa_clz32_bits((x << (low << 5)) >> 32) + (__u32)(low << 5);
}

/*
 * Run MAU6, which moves the leading one to bit M + 2. `lz` is the number of leading zeros from the match, 0..R. Bits
 * that are shifted out at the right become a sticky bit. Zero stays zero.
 */
static __always_inline void fpisa_mau6_normalise(struct fpisa_lane *l, struct fpisa_format f, __u32 lz)
{
	const int drop = f.rbits - 1 - f.mbits - FPISA_ROUND_BITS;
	__u64 top = (__u64)l->m << (f.rbits == 64 ? lz & 63 : lz);

	l->m = (__s64)(top >> drop | fpisa_nonzero(top & ((1ull << drop) - 1)));
}

/* Return the exponent of a container without its sticky bits. An operation (op.h) can make the exponent negative. */
static __always_inline __s64 fpisa_exponent_of(__u32 e)
{
	return (__s64)((__u64)e << 51) >> 51;
}

/*
 * Run MAU7, which computes the exponent of the leading one as max(E, 1) - 1, the field to pack without the implied one.
 * Below the normal range, the mantissa is shifted right by dn and the field is 0.
 */
static __always_inline void fpisa_mau7_exponent(struct fpisa_lane *l, struct fpisa_format f, __u32 lz)
{
	__s64 e = fpisa_exponent_of(l->e) + f.rbits - 1 - (__s64)lz - f.mbits - f.guard;
	__s64 below = fpisa_positive(1 - e);

	l->dn = (__u32)fpisa_min(below, f.mbits + FPISA_ROUND_BITS + 1);
	l->e = (__u32)(e + below - 1) | (l->e & FPISA_EXP_SPECIAL);
}

/* Return the packed special for the sticky bits; +Inf and -Inf together give NaN. */
static __always_inline __u64 fpisa_special(__u32 sticky, struct fpisa_format f, __u32 *flags)
{
	__u64 beyond = fpisa_beyond(f);

	if ((sticky & FPISA_EXP_NAN) || (sticky & FPISA_EXP_SPECIAL) == (FPISA_EXP_PINF | FPISA_EXP_NINF)) {
		*flags |= FPISA_NAN;
		return beyond | 1ull << (f.mbits - 1);
	}
	*flags |= FPISA_INF;
	return beyond | (__u64)((sticky & FPISA_EXP_NINF) != 0) << (f.ebits + f.mbits);
}

/*
 * Run MAU8, which rounds once and assembles the result. Rounding down adds one to the magnitude of a negative value
 * that lost bits. Rounding to nearest breaks ties to even. A carry propagates into the exponent. With either rounding,
 * values beyond the range become the signed infinity, or NaN in a format without infinities. Every zero is +0.
 */
static __always_inline void fpisa_mau8_assemble(struct fpisa_lane *l, struct fpisa_format f,
						enum fpisa_rounding rounding)
{
	const __u64 beyond = fpisa_beyond(f);
	__u32 shift = FPISA_ROUND_BITS + l->dn;
	__u64 x = (__u64)l->m, ulp = 1ull << shift, up;

	if (fpisa_unlikely(l->e & FPISA_EXP_SPECIAL)) {
		l->word = fpisa_special(l->e, f, &l->flags);
		return;
	}
	if (rounding == FPISA_ROUND_NEAREST)
		up = (ulp >> 1) - 1 + ((x >> shift) & 1);
	else
		up = (0 - (__u64)l->sign) & (ulp - 1);
	l->flags |= (__u32)(fpisa_nonzero(x & (ulp - 1)) * FPISA_INEXACT);

	__u64 word = (((__u64)l->e << f.mbits) + ((x + up) >> shift)) & (0 - fpisa_nonzero(x));

	if (fpisa_unlikely(word >= beyond)) {
		word = beyond;
		l->flags |= FPISA_OVERFLOW | FPISA_INEXACT | (f.finite ? FPISA_NAN : FPISA_INF);
		if (f.finite)
			l->sign = 0;
	}
	/* A register with guard bits, a quotient or a product can round to zero. This zero has no sign either. */
	__u64 sign = l->sign & fpisa_nonzero(word);

	l->word = word | sign << (f.ebits + f.mbits);
}

#endif
