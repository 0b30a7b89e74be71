/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Mode `exact` of FP64: a superaccumulator over exponents of eleven bits.
 *
 * As in exact.h, limbs are signed, have 64 bits, and are 32 bits apart. A mantissa of 53 bits, shifted left by up to
 * 31, has 84 bits, so an add changes two limbs. The low 32 bits are added to limb (e - 1) / 32. The bits above them, at
 * most 52 and a sign, are added to the next limb (Neal, "Fast exact summation using small and large
 * superaccumulators"). Values need 65 limbs. The 66th digit of a sum is a carry, which the read-out computes. A limb
 * can take 2^11 contributions before it could overflow.
 *
 * The exponent register keeps the range of limbs in use and the sticky bits. Limbs outside that range contain values of
 * an earlier round. So a first contribution writes two limbs and clears none. A later contribution clears the limbs
 * that it adds to the range. A read-out reads only the limbs of the range. Zeros and specials do not change the range.
 *
 * The limbs number k of all elements of a block are adjacent, so neighbouring elements of similar magnitude share cache
 * lines. MAU0, MAU1 and MAU6 to MAU8 are those of mau.h. This file contains MAU2, MAU4 and MAU5. MAU3 does nothing,
 * because its result would not fit into a word of the PHV.
 *
 * A block takes 16,640 bytes, so chunks have 128 elements at most (FPISA_MAX_EXACT64_BLOCKS).
 */
#ifndef FPISA_EXACT64_H
#define FPISA_EXACT64_H

#include "block.h"

#define FPISA_LIMBS64 65 /* the last value begins in limb (2046 - 1) / 32 and reaches into the next limb */

/* One block of superaccumulators. */
struct fpisa_limbs64_block {
	__s64 limb[FPISA_LIMBS64][FPISA_BLOCK];
};

/*
 * The range of limbs in use, in an exponent register. Bits 6 to 12 are the number of the lowest limb in which a value
 * began. Bits 0 to 5 are the distance from the lowest to the highest limb in which a value began. The limb after the
 * highest is in use too.
 */
#define FPISA_RANGE_NONE 127u /* lowest limb if no limb is in use */

static __always_inline __u32 fpisa_range_first(__u32 e)
{
	return e >> 6 & 127;
}

static __always_inline __u32 fpisa_range_more(__u32 e)
{
	return e & 63;
}

/* Return the number of limbs in use. */
static __always_inline __u32 fpisa_range_limbs(__u32 e)
{
	return fpisa_range_first(e) == FPISA_RANGE_NONE ? 0 : fpisa_range_more(e) + 2;
}

/* Run MAU2, which finds the limb in which the value begins (st), and the place in that limb (in). */
static __always_inline void fpisa_exact64_place(struct fpisa_lane *l)
{
	__u32 place = (l->e & FPISA_EXP_MASK) - 1;

	l->in = (__s32)(place & 31);
	l->st = place >> 5 & 63;
}

/* Run MAU2 for a first contribution. Return the register's new value. */
static __always_inline __u16 fpisa_exact64_mau2_first(struct fpisa_lane *l)
{
	fpisa_exact64_place(l);
	return (__u16)((l->e & FPISA_EXP_SPECIAL) | (l->m ? l->st : FPISA_RANGE_NONE) << 6);
}

/* Run MAU2. Return the register with a range that includes the limbs of the value. */
static __always_inline __u16 fpisa_exact64_mau2(struct fpisa_lane *l, __u16 reg)
{
	__u32 sticky = (reg | l->e) & FPISA_EXP_SPECIAL, first = fpisa_range_first(reg);
	__u32 last = first + fpisa_range_more(reg);

	fpisa_exact64_place(l);
	if (!l->m)
		return (__u16)(reg | sticky);
	if (first == FPISA_RANGE_NONE)
		first = last = l->st;
	first = l->st < first ? l->st : first;
	last = l->st > last ? l->st : last;
	return (__u16)(sticky | first << 6 | (last - first));
}

/* Run MAU4 for a first contribution, which sets two limbs to the value. A zero sets no limbs. */
static __always_inline void fpisa_exact64_mau4_first(const struct fpisa_lane *l, struct fpisa_limbs64_block *a, int i)
{
	if (!l->m)
		return;
	a->limb[l->st][i] = (__u32)((__u64)l->m << l->in);
	a->limb[l->st + 1][i] = l->m >> (32 - l->in);
}

/*
 * Clear limbs from..to - 1 of element i. In this file, indices are hidden from clang, which would otherwise turn them
 * into pointers without a bound.
 */
static __always_inline void fpisa_exact64_clear(struct fpisa_limbs64_block *a, __u32 i, __u32 from, __u32 to)
{
	FPISA_ROLLED
	for (__u32 n = 0; n < FPISA_LIMBS64; n++) {
		__u64 k = from + n;

		fpisa_opaque(k);
		if (k >= to || k >= FPISA_LIMBS64)
			break;
		a->limb[k][i & (FPISA_BLOCK - 1)] = 0;
	}
}

/*
 * Run MAU4. Clear the limbs that the value adds to the previous range, `before`, and then add the value. `clear` is
 * fpisa_exact64_clear() or a function that calls fpisa_exact64_clear(), because the verifier rejects 32 inlined copies
 * of its loop.
 */
#define fpisa_exact64_mau4(l, a, i, before, clear)                               \
	({                                                                       \
		const __u32 __st = (l)->st, __first = fpisa_range_first(before); \
		const __u32 __end = __first + fpisa_range_limbs(before);         \
                                                                                 \
		if ((l)->m) {                                                    \
			if (__first == FPISA_RANGE_NONE)                         \
				clear(a, i, __st, __st + 2);                     \
			else if (__st < __first)                                 \
				clear(a, i, __st, __first);                      \
			else if (__st + 2 > __end)                               \
				clear(a, i, __end, __st + 2);                    \
			(a)->limb[__st][i] += (__u32)((__u64)(l)->m << (l)->in); \
			(a)->limb[__st + 1][i] += (l)->m >> (32 - (l)->in);      \
		}                                                                \
	})

/* Run MAU4 for an element of a PHV. MAU2 has left `m`, `place` and `before` in the PHV. */
static __always_inline void fpisa_exact64_add_limbs(struct fpisa_limbs64_block *a, __u32 i, __s64 m, __u32 place,
						    __u32 before)
{
	struct fpisa_lane l = {.m = m, .in = (__s32)(place & 31), .st = place >> 8 & 63};

	fpisa_exact64_mau4(&l, a, i, before, fpisa_exact64_clear);
}

/*
 * A number that is built from digits of 32 bits, the lowest digit first. The struct keeps the uppermost nonzero digit,
 * the two digits below it, and whether any lower digit is nonzero.
 */
struct fpisa_digits {
	__u64 high, low, lower, rest, before, before2, below;
	/* part of the product of the digits so far and the factor that is above these digits; below 2^54 */
	__u64 product;
	__u32 top; /* number of the digit `high` */
};

/*
 * Take the next digit, multiplied by a factor below 2^53. Test the digit after the move. If the verifier knew that a
 * digit is zero, it would also know the results, and would walk the rest of the program for each set of zero digits.
 */
static __always_inline void fpisa_next_digit(struct fpisa_digits *d, __u64 digit, __u32 at, __u64 factor)
{
	__u64 there;

	if (factor != 1) {
		__u64 low = digit * (__u32)factor, sum = d->product + (__u32)low;

		d->product = (sum >> 32) + (low >> 32) + digit * (factor >> 32);
		digit = (__u32)sum;
	}
	there = digit << 1;
	fpisa_opaque(there);
	if (there) {
		d->high = digit;
		d->low = d->before;
		d->lower = d->before2;
		d->rest = d->below;
		d->top = at;
	}
	d->below |= d->before2;
	d->before2 = d->before;
	d->before = digit;
}

/* Return all ones if the sum of the limbs in range `e` is negative, else zero. */
static __always_inline __s64 fpisa_exact64_sign(const struct fpisa_limbs64_block *a, __u32 i, __u32 e)
{
	const __u32 first = fpisa_range_first(e), limbs = fpisa_range_limbs(e);
	__s64 carry = 0;

	FPISA_ROLLED
	for (__u32 k = 0; k < FPISA_LIMBS64; k++) {
		__u64 at = first + k;

		fpisa_opaque(at);
		if (k >= limbs || at >= FPISA_LIMBS64)
			break;
		carry = (carry + a->limb[at][i & (FPISA_BLOCK - 1)]) >> 32;
	}
	return carry >> 63;
}

/* The part of a magnitude below the m of MAU5 */
struct fpisa_below {
	__u32 digit; /* the 32 bits below m */
	__u64 rest;  /* nonzero if bits below these are nonzero */
};

/*
 * Run MAU5 as fpisa_exact64_mau5() does, but store the bits below m in *below, in place of a sticky bit.
 */
static __always_inline void fpisa_exact64_top(struct fpisa_lane *l, const struct fpisa_limbs64_block *a, __u32 i,
					      __u64 factor, struct fpisa_below *below)
{
	/*
	 * Read the range twice. Otherwise the verifier would know after the first loop how often the second loop
	 * repeats, and would walk the second loop for each number of repetitions.
	 */
	const __s64 sign = fpisa_exact64_sign(a, i, l->e);
	const __u32 e = fpisa_read_once(&l->e), first = fpisa_range_first(e), limbs = fpisa_range_limbs(e);
	struct fpisa_digits d = {0};
	__s64 carry = 0;
	__u32 lz;

	FPISA_ROLLED
	for (__u32 k = 0; k < FPISA_LIMBS64; k++) {
		__u64 at = first + k;

		fpisa_opaque(at);
		if (k >= limbs || at >= FPISA_LIMBS64)
			break;
		carry += (a->limb[at][i & (FPISA_BLOCK - 1)] ^ sign) - sign;
		fpisa_next_digit(&d, (__u32)carry, (__u32)at, factor);
		carry >>= 32;
	}
	fpisa_next_digit(&d, (__u32)carry, first + limbs, factor);
	if (factor != 1) {
		fpisa_next_digit(&d, 0, first + limbs + 1, factor);
		fpisa_next_digit(&d, 0, first + limbs + 2, factor);
	}
	l->sign = (__u32)sign & 1;
	lz = fpisa_clz32_bits(d.high) & 31;
	l->m = (__s64)((d.high << 32 | d.low) << lz | d.lower << lz >> 32);
	l->e = (e & FPISA_EXP_SPECIAL) | ((32 * (d.top - 1) + 1 - lz) & FPISA_EXP_MASK);
	*below = (struct fpisa_below){.digit = (__u32)(d.lower << lz), .rest = d.rest};
}

/*
 * Run MAU5, which propagates carries, finds the sign, and stores the magnitude as m x 2^(e - bias - M). m consists of
 * the 64 uppermost bits, and a sticky bit for all lower bits. Two digits alone could have only 33 bits, but 53 bits are
 * needed, and 8 more for a quotient. So align three digits by the leading zeros of the first; MAU6 then shifts nothing.
 * Also multiply the magnitude by `factor`, which is below 2^53 (op.h).
 */
static __always_inline void fpisa_exact64_mau5(struct fpisa_lane *l, const struct fpisa_limbs64_block *a, __u32 i,
					       __u64 factor)
{
	struct fpisa_below below;

	fpisa_exact64_top(l, a, i, factor, &below);
	l->m |= (__s64)fpisa_nonzero(below.rest | below.digit);
}

/* -- functions for a block ------------------------------------------------------------- */

static __always_inline void fpisa_exact64_set(const void *in, struct fpisa_exp_block *e, struct fpisa_limbs64_block *a,
					      struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.word = fpisa_get_word(in, i, f)};

		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		e->e[i] = fpisa_exact64_mau2_first(&l);
		fpisa_exact64_mau4_first(&l, a, i);
	}
}

/* Add one element. `clear` is as in fpisa_exact64_mau4(). */
#define fpisa_exact64_add_lane(in, e, a, i, f, clear)                       \
	({                                                                  \
		struct fpisa_lane __l = {.word = fpisa_get_word(in, i, f)}; \
		const __u16 __before = (e)->e[i];                           \
                                                                            \
		fpisa_mau0_extract(&__l, f);                                \
		fpisa_mau1_implied_one(&__l, f);                            \
		(e)->e[i] = fpisa_exact64_mau2(&__l, __before);             \
		fpisa_exact64_mau4(&__l, a, i, __before, clear);            \
	})

static __always_inline void fpisa_exact64_add(const void *in, struct fpisa_exp_block *e, struct fpisa_limbs64_block *a,
					      struct fpisa_format f)
{
	FPISA_EACH(i)
		fpisa_exact64_add_lane(in, e, a, i, f, fpisa_exact64_clear);
}

/*
 * Read out as fpisa_exact_read() does. collapse(lane, limbs, i, factor) is fpisa_exact64_mau5() or a function that
 * calls fpisa_exact64_mau5().
 */
#define fpisa_exact64_read(out, ereg, a, f, rounding, clz, collapse)                     \
	({                                                                               \
		__u32 __flags = 0;                                                       \
		FPISA_EACH(__i) {                                                        \
			struct fpisa_lane __l = {.e = (ereg)->e[__i], .flags = __flags}; \
			collapse(&__l, a, (__u32)__i, 1);                                \
			fpisa_lane_read(out, __i, &__l, f, rounding, clz);               \
			__flags = __l.flags;                                             \
		}                                                                        \
		__flags;                                                                 \
	})

/* Run stage 2. Set the exponent in the PHV to the previous range, for MAU4. */
static __always_inline void fpisa_exact64_stage2(struct fpisa_phv_ref p, struct fpisa_exp_block *e,
						 struct fpisa_format f, int first)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i], .m = fpisa_get_man(p.m, i, f)};

		p.e[i] = e->e[i];
		e->e[i] = first ? fpisa_exact64_mau2_first(&l) : fpisa_exact64_mau2(&l, p.e[i]);
		p.d[i] = (__u16)(l.in | l.st << 8);
	}
}

/*
 * clang-format is off, because version 14 moves the end of a loop in a macro. `add` is fpisa_exact64_add_limbs() or a
 * function that calls fpisa_exact64_add_limbs(), because the verifier rejects 32 inlined copies of its branches.
 */
/* clang-format off */
#define fpisa_exact64_stage4(p, a, f, first, add)                       \
	({                                                              \
		FPISA_EACH(__i) {                                       \
			const __s64 __m = fpisa_get_man((p).m, __i, f); \
			const __u16 __d = (p).d[__i];                   \
			struct fpisa_lane __l = {                       \
				.m = __m,                               \
				.in = __d & 31,                         \
				.st = __d >> 8 & 63,                    \
			};                                              \
                                                                        \
			if (first)                                      \
				fpisa_exact64_mau4_first(&__l, a, __i); \
			else                                            \
				add(a, (__u32)__i, __m, __d, (p).e[__i]); \
		}                                                       \
	})

#define fpisa_exact64_stage5(ereg, a, p, f, factor, collapse)           \
	({                                                              \
		FPISA_EACH(__i) {                                       \
			struct fpisa_lane __l = {.e = (ereg)->e[__i]};  \
                                                                        \
			collapse(&__l, a, (__u32)__i, factor);          \
			(p).e[__i] = (__u16)__l.e;                      \
			fpisa_put_man((p).m, __i, f, __l.m);            \
			(p).d[__i] = (__u16)(__l.sign << 15);           \
		}                                                       \
	})
/* clang-format on */

#endif
