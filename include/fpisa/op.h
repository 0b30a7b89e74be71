/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Operations other than the sum, and integers (doc/numbers.md):
 *
 *	norm		MAU1 squares; at read-out a root follows MAU5
 *	avg, scale	sums; at read-out a quotient or a product follows MAU5
 *	min, max	the mantissa register holds an order-preserving encoding; MAU4 compares
 *	int32		the mantissa register holds the value as its encoding; MAU4 adds the value
 *
 * The quotient, product or root of a magnitude is exact or carries a sticky bit far below the format's last one.
 * MAU6..8 process it like any other magnitude, with one rounding. Everything here works on a PHV between two units of
 * block.h, so staged and fused programs run the same functions.
 */
#ifndef FPISA_OP_H
#define FPISA_OP_H

#include "exact.h"
#include "exact64.h"

/* -- factors --------------------------------------------------------------- */

/* Work of a round's read-out in addition to rounding; see fpisa_final_of(). */
struct fpisa_final {
	__u64 factor;	/* significand, below 2^53; below 2^24 unless the format has 8 bytes */
	__s32 exponent; /* the factor is factor x 2^exponent */
	__u32 divisor;	/* divisor of avg, 1..4096 */
	__u32 op;	/* enum fpisa_op; SUM: no work; an AVG by reciprocal is SCALE */
	__u32 negative; /* the factor is negative */
};

/* Number of low fraction bits of a binary64 that are zero in a factor with 24 significant bits. */
#define FPISA_FACTOR_SPARE 29

/*
 * Return whether the factor, given as the bits of a binary64, is valid. A valid factor is finite and nonzero, and has
 * at most 24 significant bits unless the format has 8 bytes.
 */
static __always_inline int fpisa_factor_valid(__u64 bits, struct fpisa_format f)
{
	if ((bits << 1) == 0 || (bits << 1 >> 53) == 0x7ff)
		return 0;
	return f.bytes == 8 || !(bits & ((1ull << FPISA_FACTOR_SPARE) - 1));
}

/*
 * Return the work of the read-out in a round of `op` with `n` contributions. `operand` is a valid factor if op is
 * SCALE. `reciprocal` is the option of the job.
 */
static __always_inline struct fpisa_final fpisa_final_of(struct fpisa_format f, __u32 op, __u64 operand, __u32 n,
							 int reciprocal)
{
	struct fpisa_final fin = {.op = op, .divisor = n ? n : 1, .factor = 1};
	const int narrow = f.bytes != 8;

	if (op == FPISA_OP_SCALE) {
		__u32 e = (__u32)(operand >> 52) & 0x7ff;

		fin.factor = (operand & ((1ull << 52) - 1)) | (__u64)(e != 0) << 52;
		fin.exponent = (__s32)(e + (e == 0)) - 1075;
		fin.negative = operand >> 63;
		if (narrow) {
			fin.factor >>= FPISA_FACTOR_SPARE;
			fin.exponent += FPISA_FACTOR_SPARE;
		}
	} else if (op == FPISA_OP_AVG && reciprocal) {
		const int bits = narrow ? 24 : 53;
		__u32 log = 0;
		__u64 half;

		while (log < 12 && 1u << log < fin.divisor)
			log++;
		/*
		 * There are no ties to round, because a power of two cannot be half way between two multiples of n
		 * unless n is a power of two.
		 */
		/* 2^64 for 4,096 ranks of FP64 does not fit, so divide half of it. */
		half = 1ull << (bits - 2 + log);
		fin.factor = half / fin.divisor * 2 + (half % fin.divisor * 2 + fin.divisor / 2) / fin.divisor;
		fin.exponent = -(__s32)(bits - 1 + log);
		fin.op = FPISA_OP_SCALE;
	}
	return fin;
}

/* -- MAU1, norm --------------------------------------------------------------- */

/* Return the low half of a x b. Set *high to the high half. */
static __always_inline __u64 fpisa_multiply(__u64 a, __u64 b, __u64 *high)
{
	__u64 al = (__u32)a, ah = a >> 32, bl = (__u32)b, bh = b >> 32;
	__u64 mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (__u32)mid;

	*high = ah * bh + (mid >> 32) + (mid2 >> 32);
	return mid2 << 32 | (__u32)(al * bl);
}

/*
 * Square the value after MAU1. n 2^G becomes floor(n^2 2^(G - M - 1)), which has no more bits, and the exponent e
 * becomes 2 e. Set *lost to nonzero if the floor lost a bit. A special keeps exponent 1 and mantissa 0.
 */
static __always_inline void fpisa_square(struct fpisa_lane *l, struct fpisa_format f, __u64 *lost)
{
	__s64 sign = fpisa_negative(l->m);
	__u64 n = (((__u64)l->m ^ (__u64)sign) - (__u64)sign) >> f.guard;
	__s32 down = f.mbits + 1 - f.guard;
	__u32 special = (l->e & FPISA_EXP_SPECIAL) != 0;
	__u64 high = 0, low;

	low = f.bytes == 8 ? fpisa_multiply(n, n, &high) : n * n;
	*lost = 0;
	if (down > 0) {
		__u64 fallen = low << (64 - down);

		*lost = fallen >> 1 | (fallen & 1);
		low = low >> down | high << (64 - down);
	} else {
		low <<= -down;
	}
	l->m = (__s64)low;
	l->e = ((l->e & FPISA_EXP_MASK) * 2 - special) | (l->e & (FPISA_EXP_NAN | FPISA_EXP_PINF)) |
	       (l->e & FPISA_EXP_NINF) >> 1;
}

_Static_assert(FPISA_EXP_NINF >> 1 == FPISA_EXP_PINF, "the square of -Inf is +Inf");

/* -- operations after MAU5 ------------------------------------------------------------------ */

/*
 * Fit the magnitude high:low x 2^(e - bias - M - G) into a register of R bits. Keep its R uppermost bits, with all
 * lower bits as a sticky bit.
 */
static __always_inline void fpisa_fit(struct fpisa_lane *l, __u64 high, __u64 low, __s64 e, struct fpisa_format f)
{
	__u64 empty = fpisa_nonzero(high >> 1 | (high & 1)) - 1;
	__u64 top, rest;
	__u32 lz;

	high |= low & empty;
	low &= ~empty;
	lz = fpisa_clz64_bits(high);
	top = high << (lz & 63) | low >> 1 >> (63 - (lz & 63));
	rest = low << (lz & 63);
	e += 64 - (__s64)(empty & 64) - lz;
	if (f.rbits == 32) {
		rest = rest >> 32 | (__u32)rest | top << 32;
		top >>= 32;
		e += 32;
	}
	l->m = (__s64)(top | fpisa_nonzero(rest >> 1 | (rest & 1)));
	l->e = (__u32)(e & FPISA_EXP_MASK) | (l->e & FPISA_EXP_SPECIAL);
}

/*
 * Compute m / d x 2^-shift, with two digits of 32 bits below the integer quotient, and the remainder as a sticky bit.
 */
static __always_inline void fpisa_quotient(struct fpisa_lane *l, struct fpisa_below below, __u64 d, __u32 shift,
					   struct fpisa_format f)
{
	__u64 m = (__u64)l->m, q, digit, low;

	q = m / d;
	m = (m - q * d) << 32 | below.digit;
	digit = m / d;
	low = digit << 32;
	m = (m - digit * d) << 32;
	digit = m / d;
	low |= digit | fpisa_nonzero((m - digit * d) | below.rest);
	fpisa_fit(l, q, low, fpisa_exponent_of(l->e) - 64 - (__s64)shift, f);
}

static __always_inline void fpisa_divide(struct fpisa_lane *l, const struct fpisa_final *fin, struct fpisa_format f)
{
	fpisa_quotient(l, (struct fpisa_below){.rest = 0}, fin->divisor, 0, f);
}

/*
 * Averages of more ranks, in a tree. A quotient by d needs log2(d) bits more than the format has. MAU5 keeps enough bits
 * for d up to 64 in the worst case, in which the uppermost digit of the sum is 1. So run MAU5 with a factor, a power of
 * two that moves the uppermost bit to the top of its digit. Superaccumulators of one limb are never shortened.
 */
#define FPISA_MOST_DIVIDED 64

static __always_inline int fpisa_divides_wide(const struct fpisa_final *fin)
{
	return fin->op == FPISA_OP_AVG && fin->divisor > FPISA_MOST_DIVIDED;
}

/* Run MAU5 and the division of an element of FPISA_LIMBS limbs. `collapse` is as in fpisa_exact_read(). */
#define fpisa_exact_average(l, acc, d, f, collapse)                                \
	({                                                                         \
		const __u32 __e = (l)->e;                                          \
		__u32 __shift;                                                     \
                                                                                   \
		collapse(l, acc, FPISA_LIMBS, 1);                                  \
		__shift = (fpisa_clz64_bits((__u64)(l)->m) - 1) & 31;              \
		(l)->e = __e;                                                      \
		collapse(l, acc, FPISA_LIMBS, 1ull << __shift);                    \
		fpisa_quotient(l, (struct fpisa_below){.rest = 0}, d, __shift, f); \
	})

/* The same for FP64. `top` is fpisa_exact64_top() or a function that calls it. */
#define fpisa_exact64_average(l, a, i, d, f, top)          \
	({                                                 \
		const __u32 __e = (l)->e;                  \
		struct fpisa_below __below;                \
		__u32 __shift;                             \
                                                           \
		top(l, a, i, 1, &__below);                 \
		__shift = (1 - (l)->e) & 31;               \
		(l)->e = __e;                              \
		top(l, a, i, 1ull << __shift, &__below);   \
		fpisa_quotient(l, __below, d, __shift, f); \
	})

/* Multiply by the factor. A negative factor also negates infinities. */
static __always_inline void fpisa_product(struct fpisa_lane *l, __u64 factor, const struct fpisa_final *fin,
					  struct fpisa_format f)
{
	__u64 high, low = fpisa_multiply((__u64)l->m, factor, &high);
	__u32 infinities = l->e & (FPISA_EXP_PINF | FPISA_EXP_NINF);

	fpisa_fit(l, high, low, fpisa_exponent_of(l->e) + fin->exponent, f);
	l->sign ^= fin->negative;
	if (fin->negative)
		l->e ^= infinities ^ ((infinities << 1 | infinities >> 1) & (FPISA_EXP_PINF | FPISA_EXP_NINF));
}

/*
 * Compute the root of m 2^(e - 2 bias - M + 1 - G), bit by bit, with the remainder as a sticky bit. Two bits more than
 * those of the format would be enough; this computes 32 bits, or 58 for a format of 8 bytes.
 */
static __always_inline void fpisa_root(struct fpisa_lane *l, struct fpisa_format f)
{
	const int bits = f.bytes == 8 ? 58 : 32;
	__u32 lz = fpisa_clz64_bits((__u64)l->m);
	__s64 e = fpisa_exponent_of(l->e) + 1 - f.mbits - f.guard - lz - 64;
	__u64 high = (__u64)l->m << (lz & 63), low, root = 0, rest = 0;
	__u32 odd = (__u32)e & 1;

	/* The operand is now high:low x 2^e, where e is even. */
	low = (high & odd) << 63;
	high >>= odd;
	e += odd;
	FPISA_ROLLED
	for (int i = 0; i < bits; i++) {
		__u64 trial = root << 2 | 1, enough;

		rest = rest << 2 | high >> 62;
		high = high << 2 | low >> 62;
		low <<= 2;
		enough = ~(__u64)fpisa_negative((__s64)(rest - trial));
		fpisa_opaque(enough);
		rest -= trial & enough;
		root = root << 1 | (enough & 1);
	}
	rest |= high >> 1 | (high & 1);
	root <<= 64 - bits;
	fpisa_fit(l, root | fpisa_nonzero(rest), 0, (e >> 1) + f.mbits + f.guard - 64, f);
}

/*
 * Apply the operation to the magnitude after MAU5. `multiplied` is nonzero if the superaccumulator has applied the
 * factor already, digit by digit (exact.h).
 */
static __always_inline void fpisa_finalise(struct fpisa_lane *l, const struct fpisa_final *fin, int multiplied,
					   struct fpisa_format f)
{
	switch (fin->op) {
	case FPISA_OP_AVG:
		fpisa_divide(l, fin, f);
		break;
	case FPISA_OP_SCALE:
		fpisa_product(l, multiplied ? 1 : fin->factor, fin, f);
		break;
	case FPISA_OP_NORM:
		fpisa_root(l, f);
		break;
	}
}

/* -- order-preserving encoding ---------------------------------------------------- */

/*
 * Return the encoding, minus 2^(w-1), of a packed value of w bits. The encodings have the order of the numbers. The
 * encoding of NaN is the greatest, and that of both zeros is 0. An integer is its own encoding.
 */
static __always_inline __s64 fpisa_order_encode(__u64 word, struct fpisa_format f)
{
	const int w = f.ebits + f.mbits + 1;
	const __u64 ones = (1ull << (w - 1)) - 1;
	__u64 mag = word & ones, beyond = fpisa_beyond(f);

	if (f.integer)
		return (__s32)word;
	if (fpisa_unlikely(f.finite ? mag == beyond : mag > beyond))
		return (__s64)ones;
	if (!(word >> (w - 1)) || !mag)
		return (__s64)mag;
	return -(__s64)mag - 1;
}

/* Return the packed value of an encoding. Set FPISA_NAN or FPISA_INF in *flags if the value is NaN or infinite. */
static __always_inline __u64 fpisa_order_decode(__s64 code, struct fpisa_format f, __u32 *flags)
{
	const int w = f.ebits + f.mbits + 1;
	const __u64 ones = (1ull << (w - 1)) - 1;
	__u64 beyond = fpisa_beyond(f);

	if (f.integer)
		return (__u32)code;
	if (fpisa_unlikely((__u64)code == ones)) {
		*flags |= FPISA_NAN;
		return beyond | 1ull << (f.mbits - 1);
	}
	if (fpisa_unlikely(!f.finite && ((__u64)code == beyond || (__u64)~code == beyond)))
		*flags |= FPISA_INF;
	return code < 0 ? ~(__u64)code | (ones + 1) : (__u64)code;
}

/* Return whether `op` on this format keeps an encoding in the mantissa register, instead of a mantissa. */
static __always_inline int fpisa_encoded(struct fpisa_format f, __u32 op)
{
	return f.integer || op == FPISA_OP_MIN || op == FPISA_OP_MAX;
}

/* Return the register after MAU4 on encodings. A sum is a sum of integers. */
static __always_inline __s64 fpisa_combine(__s64 reg, __s64 code, __u32 op, __u64 *events)
{
	if (op == FPISA_OP_SUM)
		return fpisa_saturating_add(reg, code, fpisa_format_of(FPISA_FORMAT_INT32), events);
	return (op == FPISA_OP_MAX) == (code > reg) ? code : reg;
}

/* -- functions for a block -------------------------------------------------------------------- */

/* Run stage 1 of a norm. Return its events. */
static __always_inline __u64 fpisa_stage1_square(struct fpisa_phv_ref p, struct fpisa_format f)
{
	__u64 events = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i], .m = fpisa_get_man(p.m, i, f)};
		__u64 lost;

		fpisa_mau1_implied_one(&l, f);
		fpisa_square(&l, f, &lost);
		p.e[i] = (__u16)l.e;
		fpisa_put_man(p.m, i, f, l.m);
		events += fpisa_nonzero(lost) << FPISA_EV_ROUNDED;
	}
	return events;
}

/* Apply the final operation after stage 5. */
static __always_inline void fpisa_stage5_final(struct fpisa_phv_ref p, const struct fpisa_final *fin, int multiplied,
					       struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i], .m = fpisa_get_magnitude(p.m, i, f), .sign = p.d[i] >> 15};

		fpisa_finalise(&l, fin, multiplied, f);
		p.e[i] = (__u16)l.e;
		fpisa_put_man(p.m, i, f, l.m);
		p.d[i] = (__u16)(l.sign << 15);
	}
}

/*
 * The stages for encodings replace stages 0, 4 (for further contributions), 5 and 8. Stages 1 to 3, 6 and 7 do nothing.
 */
static __always_inline void fpisa_stage0_encode(const void *in, struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i)
		fpisa_put_man(p.m, i, f, fpisa_order_encode(fpisa_get_word(in, i, f), f));
}

static __always_inline __u64 fpisa_stage4_combine(struct fpisa_phv_ref p, void *m, struct fpisa_format f, __u32 op)
{
	__u64 events = 0;

	FPISA_EACH(i)
		fpisa_put_man(m, i, f, fpisa_combine(fpisa_get_man(m, i, f), fpisa_get_man(p.m, i, f), op, &events));
	return events;
}

static __always_inline void fpisa_stage5_encoded(const void *m, struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i)
		fpisa_put_man(p.m, i, f, fpisa_get_man(m, i, f));
}

static __always_inline __u32 fpisa_stage8_decode(struct fpisa_phv_ref p, void *out, struct fpisa_format f)
{
	__u32 flags = 0;

	FPISA_EACH(i)
		fpisa_put_word(out, i, f, fpisa_order_decode(fpisa_get_man(p.m, i, f), f, &flags));
	return flags;
}

#endif
