/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Advanced operations by table lookup (paper, appendix A "Advanced FP operations"): multiplication, reciprocal,
 * logarithm, square root.
 *
 *	extract		  MAU0, MAU1, then the leading one in front (also for subnormals)
 *	match		  a table entry by the leading bits of the fraction
 *	action		  integer arithmetic on entry, fraction and exponent
 *	MAU6, MAU7, MAU8  renormalise, adjust the exponent, round and assemble
 *
 * Multiplication adds the exponents and multiplies the mantissas as integers. Small types use a table lookup, and
 * larger types use an integer multiplier. Division is multiplication by the reciprocal. The paper leaves the reciprocal
 * to the end host, but here it is also a table. Logarithm and square root are lookups in a table of fewer than 2000
 * entries, with low error (<1%). Every value of the small formats has its own entry. FP32 has more fraction bits than
 * the match uses, so FP32 is interpolated linearly towards the next entry.
 *
 * The tables are BPF array maps (bpf/lab/tables.bpf.c) that user space fills (user/lab/tables/entries.c computes the
 * entries, in integers). `fpisa tables` measures the errors.
 *
 * Formats have at most 32 bits, because tables of this size would give fp64 only the accuracy of fp32. Branches depend
 * on data only for specials and zeros.
 */
#ifndef FPISA_TABLES_H
#define FPISA_TABLES_H

#include "fpisa/mau.h"

enum fpisa_table {
	FPISA_TABLE_PRODUCT,	/* (8 + i / 8) (8 + i % 8), for significands of four bits */
	FPISA_TABLE_SQUARE,	/* floor(i^2 / 4) */
	FPISA_TABLE_RECIPROCAL, /* 2^31 / (1 + i/1024) */
	FPISA_TABLE_LOG2,	/* 2^31 log2(1 + t) / t, t as in fpisa_log2() */
	FPISA_TABLE_SQRT,	/* 2^31 sqrt(1 + i/1024), rounded up */
	FPISA_TABLES,
};

enum fpisa_function {
	FPISA_MULTIPLY,
	FPISA_RECIPROCAL,
	FPISA_LOG2,
	FPISA_SQRT,
	FPISA_FUNCTIONS,
};

/* An entry of a table. `step` is the difference to the next entry, or 0 if the table is not interpolated. */
struct fpisa_entry {
	__u32 value;
	__s32 step;
};

/* The caller's match. Return the entry of table t at index i < fpisa_table_entries(t). */
typedef struct fpisa_entry (*fpisa_look)(enum fpisa_table t, __u32 i);

/* Number of leading fraction bits that are the key of the interpolated tables. */
#define FPISA_INDEX_BITS 10
#define FPISA_NODES (1u << FPISA_INDEX_BITS)
#define FPISA_REST_BITS (32 - FPISA_INDEX_BITS)

#define FPISA_PRODUCTS 64u
#define FPISA_SQUARES (FPISA_NODES + 1)
_Static_assert(FPISA_SQUARES < 2000, "the paper's bound on a table");

static __always_inline __u32 fpisa_table_entries(enum fpisa_table t)
{
	return t == FPISA_TABLE_PRODUCT ? FPISA_PRODUCTS : t == FPISA_TABLE_SQUARE ? FPISA_SQUARES : FPISA_NODES;
}

/* Return the table for a multiplication of significands of this size, or FPISA_TABLES for the integer multiplier. */
static __always_inline enum fpisa_table fpisa_table_of(enum fpisa_function fn, struct fpisa_format f)
{
	switch (fn) {
	case FPISA_RECIPROCAL:
		return FPISA_TABLE_RECIPROCAL;
	case FPISA_LOG2:
		return FPISA_TABLE_LOG2;
	case FPISA_SQRT:
		return FPISA_TABLE_SQRT;
	default:
		return f.mbits <= 3		   ? FPISA_TABLE_PRODUCT :
		       f.mbits <= FPISA_INDEX_BITS ? FPISA_TABLE_SQUARE :
						     FPISA_TABLES;
	}
}

/* An operand. Its value is (1 + frac / 2^32) x 2^exp, unless the operand is zero or special. */
struct fpisa_operand {
	__u32 frac;
	__s32 exp;
	__u32 sign;
	__u32 zero;   /* nonzero for +-0 and for a special */
	__u32 sticky; /* FPISA_EXP_NAN, _PINF or _NINF, else 0 */
};

static __always_inline __s32 fpisa_bias(struct fpisa_format f)
{
	return (__s32)(fpisa_exp_ones(f) >> 1);
}

static __always_inline struct fpisa_operand fpisa_operand_of(__u64 word, struct fpisa_format f)
{
	struct fpisa_lane l = {.word = word};
	struct fpisa_operand x;
	__u32 lz;

	f.guard = 0;
	fpisa_mau0_extract(&l, f);
	fpisa_mau1_implied_one(&l, f);
	fpisa_mau5_sign(&l);
	lz = fpisa_clz32_bits((__u64)l.m);
	x.frac = (__u32)((__u64)l.m << (lz + 1));
	x.exp = (__s32)(l.e & FPISA_EXP_MASK) - fpisa_bias(f) - f.mbits + 31 - (__s32)lz;
	x.sign = (__u32)(word >> (f.ebits + f.mbits)) & 1;
	x.zero = 1 - (__u32)fpisa_nonzero((__u64)l.m);
	x.sticky = l.e & FPISA_EXP_SPECIAL;
	return x;
}

/*
 * G of a result before it is packed, which has the form m x 2^(e - bias - M - G) of the registers. Exponents of results
 * can be below zero, which the container cannot hold, so MAU7 subtracts this offset. The smallest product of two FP32
 * subnormals has e = 2 x -149 - 61 + 150.
 */
#define FPISA_RESULT_GUARD 224
_Static_assert(FPISA_RESULT_GUARD >= 2 * 149 + 61 - (127 + 23), "no negative exponent");

static __always_inline struct fpisa_format fpisa_result_format(struct fpisa_format f)
{
	f.rbits = 64;
	f.guard = FPISA_RESULT_GUARD;
	return f;
}

/* Store the result m x 2^lsb, 0 <= m < 2^63. */
static __always_inline void fpisa_result(struct fpisa_lane *l, __u64 m, __s32 lsb, __u32 sign, struct fpisa_format f)
{
	l->m = (__s64)m;
	l->e = (__u32)(lsb + fpisa_bias(f) + f.mbits + FPISA_RESULT_GUARD);
	l->sign = sign;
}

/* Store a zero (sticky 0) or a special result. In a format without infinities, store NaN for an infinity. */
static __always_inline void fpisa_result_special(struct fpisa_lane *l, __u32 sticky, __u32 sign, struct fpisa_format f)
{
	l->m = 0;
	l->e = sticky && f.finite ? FPISA_EXP_NAN : sticky;
	l->sign = sign;
}

static __always_inline __u32 fpisa_infinity(__u32 sign)
{
	return sign ? FPISA_EXP_NINF : FPISA_EXP_PINF;
}

static __always_inline __u32 fpisa_abs(__s64 x)
{
	__s64 sign = fpisa_negative(x);

	return (__u32)((x ^ sign) - sign);
}

/* Return the table value between two entries, with 22 more bits than an entry. */
static __always_inline __u64 fpisa_between(struct fpisa_entry at, __u32 frac)
{
	__s64 rest = frac & ((1u << FPISA_REST_BITS) - 1);

	return ((__u64)at.value << FPISA_REST_BITS) + (__u64)(at.step * rest);
}

/*
 * Multiply l->word by `other`. The product is exact, and only MAU8 rounds. For significands of up to four bits, the
 * table entry is the product. Significands of up to 11 bits are 1536 + x and 1536 + y with x, y in -512..511, and x y
 * is a difference of quarter squares,
 *	floor((x + y)^2 / 4) - floor((x - y)^2 / 4)
 * (the terms have the same parity, so both floors discard the same amount). This takes two matches in one table of 1025
 * entries in place of 2^20 products. Larger significands use the multiplier. 0 x Inf is NaN, and the sign is the
 * product of the signs.
 */
static __always_inline void fpisa_multiply(struct fpisa_lane *l, __u64 other, struct fpisa_format f, fpisa_look look)
{
	struct fpisa_operand a = fpisa_operand_of(l->word, f), b = fpisa_operand_of(other, f);
	__u32 sign = a.sign ^ b.sign, sticky;
	__s32 scale;
	__u64 m;

	if (fpisa_unlikely(a.zero | b.zero)) {
		sticky = a.sticky | b.sticky;
		if ((a.zero && !a.sticky) || (b.zero && !b.sticky))
			sticky = sticky ? FPISA_EXP_NAN : 0;
		else if (!(sticky & FPISA_EXP_NAN))
			sticky = fpisa_infinity(sign);
		fpisa_result_special(l, sticky, sign, f);
		return;
	}
	switch (fpisa_table_of(FPISA_MULTIPLY, f)) {
	case FPISA_TABLE_PRODUCT:
		m = look(FPISA_TABLE_PRODUCT, a.frac >> 29 << 3 | b.frac >> 29).value;
		scale = 2 * 3;
		break;
	case FPISA_TABLE_SQUARE: {
		__s64 x = (__s64)(a.frac >> FPISA_REST_BITS) - 512, y = (__s64)(b.frac >> FPISA_REST_BITS) - 512;
		__u32 sum = fpisa_abs(x + y), difference = fpisa_abs(x - y);

		m = 1536 * 1536 + (__u64)(1536 * (x + y)) + look(FPISA_TABLE_SQUARE, sum).value -
		    look(FPISA_TABLE_SQUARE, difference).value;
		scale = 2 * FPISA_INDEX_BITS;
		break;
	}
	default:
		m = (1ull << 31 | a.frac >> 1) * (1ull << 31 | b.frac >> 1) >> 1;
		scale = 2 * 31 - 1;
	}
	fpisa_result(l, m, a.exp + b.exp - scale, sign, f);
}

/* Compute 1 / l->word. 1 / +-0 is +-Inf, and 1 / +-Inf is +-0. */
static __always_inline void fpisa_reciprocal(struct fpisa_lane *l, struct fpisa_format f, fpisa_look look)
{
	struct fpisa_operand a = fpisa_operand_of(l->word, f);

	if (fpisa_unlikely(a.zero)) {
		__u32 sticky = a.sticky & FPISA_EXP_NAN;

		fpisa_result_special(l, a.sticky ? sticky : fpisa_infinity(a.sign), a.sign, f);
		return;
	}
	fpisa_result(l, fpisa_between(look(FPISA_TABLE_RECIPROCAL, a.frac >> FPISA_REST_BITS), a.frac), -53 - a.exp,
		     a.sign, f);
}

/*
 * Compute log2 of l->word. The paper has "the integer logarithm of the mantissa", but near 1 the logarithm approaches
 * zero, so the relative error of such a table would be unbounded. So write the operand as 2^e (1 + t) with t in
 * -1/4..1/2, and halve significands from 1.5 on. Then log2 = e + t g(t), where the table has g(t) = log2(1 + t) / t,
 * which falls from 1.66 to 1.17 and is flat near t = 0. If e is 0, the relative error is that of g. Otherwise |log2| is
 * at least 1 - log2(1.5) = 0.41. log2 of +-0 is -Inf, and log2 of a negative number is NaN.
 */
static __always_inline void fpisa_log2(struct fpisa_lane *l, struct fpisa_format f, fpisa_look look)
{
	struct fpisa_operand a = fpisa_operand_of(l->word, f);
	__u32 half = a.frac >> 31;
	__s64 e = a.exp + (__s32)half, t, g, sum, sign;

	if (fpisa_unlikely(a.zero | a.sign)) {
		__u32 sticky = a.sign || (a.sticky & FPISA_EXP_NAN) ? FPISA_EXP_NAN : FPISA_EXP_PINF;

		fpisa_result_special(l, a.zero && !a.sticky ? FPISA_EXP_NINF : sticky, 0, f);
		return;
	}
	/* t is scaled by 2^32, and g by 2^31. A fraction has at most 31 bits, so halving it loses no bit. */
	t = ((__s64)a.frac - ((__s64)half << 32)) >> half;
	g = (__s64)(fpisa_between(look(FPISA_TABLE_LOG2, a.frac >> FPISA_REST_BITS), a.frac) >> FPISA_REST_BITS);
	/* t g is scaled by 2^63, and the sum with e by 2^53. The sum is at least 2^29 if e is 0. */
	sum = (__s64)((__u64)e << 53) + (t * g >> 10);
	sign = fpisa_negative(sum);
	fpisa_result(l, (__u64)((sum ^ sign) - sign), -53, (__u32)sign & 1, f);
}

/* 1 and sqrt(2), both scaled by 2^30. sqrt(2) is rounded up. */
#define FPISA_SQRT1 (1ull << 30)
#define FPISA_SQRT2 1518500250ull
_Static_assert(FPISA_SQRT2 *FPISA_SQRT2 > 1ull << 61 && (FPISA_SQRT2 - 1) * (FPISA_SQRT2 - 1) < 1ull << 61,
	       "the root of 2, rounded up");

/*
 * Compute the square root of l->word. The result is the root of the significand, times sqrt(2) if the exponent is odd,
 * with half the exponent. The root of -0 is -0; the root of a negative number is NaN.
 */
static __always_inline void fpisa_sqrt(struct fpisa_lane *l, struct fpisa_format f, fpisa_look look)
{
	struct fpisa_operand a = fpisa_operand_of(l->word, f);
	__u64 odd = (__u64)a.exp & 1, root;

	if (fpisa_unlikely(a.zero | a.sign)) {
		__u32 below = a.sign && (a.sticky || !a.zero);

		fpisa_result_special(l, below ? FPISA_EXP_NAN : a.sticky, a.sign, f);
		return;
	}
	root = fpisa_between(look(FPISA_TABLE_SQRT, a.frac >> FPISA_REST_BITS), a.frac) >> FPISA_REST_BITS;
	root *= FPISA_SQRT1 + ((FPISA_SQRT2 - FPISA_SQRT1) & (0 - odd));
	fpisa_result(l, root, (a.exp >> 1) - 61, 0, f);
}

/* Run one of the four functions, by number. Only multiplication uses `other`. */
static __always_inline void fpisa_apply(struct fpisa_lane *l, enum fpisa_function fn, __u64 other,
					struct fpisa_format f, fpisa_look look)
{
	switch (fn) {
	case FPISA_MULTIPLY:
		fpisa_multiply(l, other, f, look);
		break;
	case FPISA_RECIPROCAL:
		fpisa_reciprocal(l, f, look);
		break;
	case FPISA_LOG2:
		fpisa_log2(l, f, look);
		break;
	default:
		fpisa_sqrt(l, f, look);
	}
}

/*
 * Pack the result in the lane into l->word and l->flags. A zero keeps its sign here, as in IEEE 754. INEXACT refers to
 * this rounding, not to the error of the table.
 */
static __always_inline void fpisa_pack_result(struct fpisa_lane *l, struct fpisa_format f, enum fpisa_rounding rounding)
{
	struct fpisa_format r = fpisa_result_format(f);
	__u32 lz = fpisa_clz64_bits((__u64)l->m);

	fpisa_mau6_normalise(l, r, lz);
	fpisa_mau7_exponent(l, r, lz);
	fpisa_mau8_assemble(l, r, rounding);
	l->word |= (l->sign & (1 - fpisa_nonzero(l->word))) << (f.ebits + f.mbits);
}

#endif
