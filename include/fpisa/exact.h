/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Mode `exact`, which has a superaccumulator (Kulisch's long accumulator) in place of the mantissa register.
 *
 * The superaccumulator consists of signed 64-bit limbs, 32 bits apart, so that carries can be delayed. A value is added
 * to limb (e - 1) / 32, at bit (e - 1) mod 32, so an add changes one limb and loses no bit. Limb i holds units of 2^(32
 * i + 1 - bias - M). A mantissa of M + 1 bits, shifted left by up to 31, leaves 63 - 31 - (M + 1) bits of headroom. So
 * a limb can take 2^8 adds for FP32, and 2^24 for bf16, before it could overflow. Formats with at most five exponent
 * bits need one limb, in which a value begins at bit e - 1. This limb can take 2^(63 - 29 - 11) adds for FP16.
 *
 * The order of adds does not matter, because the addition of integers is associative. The only rounding is at read-out.
 * MAU0, MAU1 and MAU6 to MAU8 are those of mau.h with a 64-bit register. This file contains MAU2 to MAU5. The exponent
 * register contains only the sticky bits. At the root of a tree with FPISA_LIMBS limbs, the other bits are a signed
 * number in units of FPISA_SPILL, which is added to the limbs (planes.h).
 */
#ifndef FPISA_EXACT_H
#define FPISA_EXACT_H

#include "block.h"

#define FPISA_LIMBS 8 /* ceil(254 / 32), for exponents of eight bits */
#define FPISA_SPILL_BITS 62
#define FPISA_SPILL (1ll << FPISA_SPILL_BITS)

/*
 * One block of superaccumulators with FPISA_LIMBS limbs. Superaccumulators with one limb use struct fpisa_man64_block.
 */
struct fpisa_limbs_block {
	__s64 limb[FPISA_BLOCK][FPISA_LIMBS];
};

/* Return the `n` limbs of element i. */
static __always_inline __s64 *fpisa_limbs_of(void *limbs, int i, int n)
{
	return (__s64 *)limbs + i * n;
}

/* Run MAU2, which finds the limb (st) and the place in the limb (in). `n`, the number of limbs, is a power of two. */
static __always_inline void fpisa_exact_mau2(struct fpisa_lane *l, int n)
{
	__u32 place = (l->e & FPISA_EXP_MASK) - 1;

	l->in = (__s32)(n == 1 ? place & 63 : place & 31);
	l->st = n == 1 ? 0 : place >> 5 & (__u32)(n - 1);
}

/* Run MAU3, which moves the incoming mantissa to its place, without loss. */
static __always_inline void fpisa_exact_mau3(struct fpisa_lane *l)
{
	l->m = (__s64)((__u64)l->m << l->in);
}

/* Run MAU4 for a first contribution, which sets the accumulator to its value. */
static __always_inline void fpisa_exact_mau4_first(const struct fpisa_lane *l, __s64 *acc, int n)
{
	for (int k = 0; k < n; k++)
		acc[k] = 0;
	acc[l->st] = l->m;
}

static __always_inline void fpisa_exact_mau4(const struct fpisa_lane *l, __s64 *acc)
{
	acc[l->st] += l->m;
}

/*
 * Run MAU5, which propagates carries, finds the sign, and stores the magnitude as m x 2^(e - bias - M). m consists of
 * the two uppermost nonzero digits of 32 bits, and a sticky bit for all lower digits. m has at least 31 significant
 * bits, or is exact. With several limbs, also multiply the magnitude by `factor`, which is below 2^24 (op.h).
 */
static __always_inline void fpisa_exact_mau5(struct fpisa_lane *l, const __s64 *acc, int n, __u64 factor)
{
	__u64 high = 0, low = 0, rest = 0, before = 0, below = 0, product = 0;
	__s64 carry = 0, sign, spilled;
	__u32 top = 0;

	if (n == 1) {
		l->m = acc[0];
		l->e |= 1;
		fpisa_mau5_sign(l);
		return;
	}
	/* The number is in units of the limb that would follow the top limb. */
	spilled = fpisa_exponent_of(l->e) * (1ll << (FPISA_SPILL_BITS - 32));
	FPISA_ROLLED
	for (int k = 0; k < FPISA_LIMBS; k++)
		carry = (carry + acc[k]) >> 32;
	sign = (carry + spilled) >> 63;
	carry = 0;
	FPISA_ROLLED
	for (int k = 0; k <= FPISA_LIMBS + 1; k++) {
		__u64 digit;

		if (k < FPISA_LIMBS)
			carry += (acc[k] ^ sign) - sign;
		else if (k == FPISA_LIMBS)
			carry += (spilled ^ sign) - sign;
		product += (__u32)carry * factor;
		digit = (__u32)product;
		carry >>= 32;
		product >>= 32;
		if (digit) {
			high = digit;
			low = before;
			rest = below;
			top = (__u32)k;
		}
		below |= before;
		before = digit;
	}
	l->sign = (__u32)sign & 1;
	l->e &= FPISA_EXP_SPECIAL;
	if (top) {
		/* Shift by one bit, because m is signed. */
		l->m = (__s64)((high << 31 | low >> 1) | ((low & 1) | fpisa_nonzero(rest)));
		l->e |= 32 * (top - 1) + 2;
	} else {
		l->m = (__s64)high;
		l->e |= 1;
	}
}

/* -- functions for a block, with n limbs for each element ---------------------------------- */

static __always_inline void fpisa_exact_set(const void *in, struct fpisa_exp_block *e, void *limbs, int n,
					    struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.word = fpisa_get_word(in, i, f)};

		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		fpisa_exact_mau2(&l, n);
		e->e[i] = (__u16)(l.e & FPISA_EXP_SPECIAL);
		fpisa_exact_mau3(&l);
		fpisa_exact_mau4_first(&l, fpisa_limbs_of(limbs, i, n), n);
	}
}

static __always_inline void fpisa_exact_add(const void *in, struct fpisa_exp_block *e, void *limbs, int n,
					    struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.word = fpisa_get_word(in, i, f)};

		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		fpisa_exact_mau2(&l, n);
		if (fpisa_unlikely(l.e & FPISA_EXP_SPECIAL))
			e->e[i] |= (__u16)(l.e & FPISA_EXP_SPECIAL);
		fpisa_exact_mau3(&l);
		fpisa_exact_mau4(&l, fpisa_limbs_of(limbs, i, n));
	}
}

/*
 * Read out as fpisa_block_read() does. collapse(lane, acc, n, factor) is fpisa_exact_mau5() or a function that calls
 * fpisa_exact_mau5(), because the verifier rejects 32 inlined copies of its loops.
 */
#define fpisa_exact_read(out, ereg, limbs, n, f, rounding, clz, collapse)                \
	({                                                                               \
		__u32 __flags = 0;                                                       \
		FPISA_EACH(__i) {                                                        \
			struct fpisa_lane __l = {.e = (ereg)->e[__i], .flags = __flags}; \
			collapse(&__l, fpisa_limbs_of((void *)(limbs), __i, n), n, 1);   \
			fpisa_lane_read(out, __i, &__l, f, rounding, clz);               \
			__flags = __l.flags;                                             \
		}                                                                        \
		__flags;                                                                 \
	})

/* Run stages 2 to 5. Stages 0, 1 and 6 to 8 are those of block.h. */
static __always_inline void fpisa_exact_stage2(struct fpisa_phv_ref p, struct fpisa_exp_block *e, int n, int first)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i]};

		fpisa_exact_mau2(&l, n);
		e->e[i] = (__u16)((first ? 0 : e->e[i]) | (l.e & FPISA_EXP_SPECIAL));
		p.d[i] = (__u16)(l.in | l.st << 8);
	}
}

static __always_inline void fpisa_exact_stage3(struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.m = fpisa_get_man(p.m, i, f), .in = p.d[i] & FPISA_D_LOW};

		fpisa_exact_mau3(&l);
		fpisa_put_man(p.m, i, f, l.m);
	}
}

static __always_inline void fpisa_exact_stage4(struct fpisa_phv_ref p, void *limbs, int n, struct fpisa_format f,
					       int first)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.m = fpisa_get_man(p.m, i, f), .st = p.d[i] >> 8 & (FPISA_LIMBS - 1)};

		if (n == 1)
			l.st = 0;
		if (first)
			fpisa_exact_mau4_first(&l, fpisa_limbs_of(limbs, i, n), n);
		else
			fpisa_exact_mau4(&l, fpisa_limbs_of(limbs, i, n));
	}
}

#define fpisa_exact_stage5(ereg, limbs, n, p, f, factor, collapse)                          \
	({                                                                               \
		FPISA_EACH(__i) {                                                        \
			struct fpisa_lane __l = { .e = (ereg)->e[__i] };                 \
			collapse(&__l, fpisa_limbs_of((void *)(limbs), __i, n), n, factor); \
			(p).e[__i] = (__u16)__l.e;                                       \
			fpisa_put_man((p).m, __i, f, __l.m);                             \
			(p).d[__i] = (__u16)(__l.sign << 15);                               \
	}                                                                                   \
	})

#endif
