/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reading a superaccumulator (superacc.h): MAU5 for any number of limbs and for more bits than in exact.h, and the
 * quotient of an average. MAU6 to MAU8 of mau.h follow, so there is one rounding, to nearest. Reading does not change
 * the superaccumulator.
 */
#ifndef FPISA_SUPERACC_READ_H
#define FPISA_SUPERACC_READ_H

#include "superacc.h"

#define FPISA_MAGNITUDE_FRACTION 4 /* digits of a quotient below the quantum */
#define FPISA_MAGNITUDE_DIGITS (FPISA_SUPERACC_MOST + 2 + FPISA_MAGNITUDE_FRACTION)

/* An exact number of quanta: a sign, and digits of 32 bits, digit 0 in units of 2^at. */
struct fpisa_magnitude {
	__u32 negative;
	int at;
	int n; /* number of digits, of which the uppermost is not zero; 0: the number is 0 */
	__u32 digit[FPISA_MAGNITUDE_DIGITS];
};

/*
 * Run MAU5, which finds carries, sign and magnitude. Skip zero limbs at both ends of the window, which are most limbs
 * of a wide window.
 */
static inline void fpisa_superacc_magnitude(const struct fpisa_superacc *a, struct fpisa_magnitude *x)
{
	int low = 0, high = a->limbs;
	__s64 carry = 0, sign;

	while (low < high && !a->limb[low])
		low++;
	while (high > low && !a->limb[high - 1])
		high--;
	for (int i = low; i < high; i++)
		carry = (carry + a->limb[i]) >> 32;
	sign = carry >> 63;
	carry = 0;
	x->n = 0;
	/* The uppermost limb has two digits, and can have a carry. */
	for (int i = low; i < high + 2; i++) {
		if (i < high)
			carry += (a->limb[i] ^ sign) - sign;
		x->digit[i - low] = (__u32)carry;
		carry >>= 32;
		if (x->digit[i - low])
			x->n = i - low + 1;
	}
	x->negative = (__u32)sign & 1;
	x->at = 32 * (a->first + low);
}

/*
 * Divide by `by`, 1 to 2^63 - 1. The quotient has at least 65 significant bits, and its lowest bit is a sticky bit for
 * the remainder. Use the result only for rounding.
 */
static inline void fpisa_magnitude_divide(struct fpisa_magnitude *x, __u64 by)
{
	unsigned __int128 rest = 0;

	if (!x->n || by == 1)
		return;
	memmove(x->digit + FPISA_MAGNITUDE_FRACTION, x->digit, x->n * sizeof(*x->digit));
	memset(x->digit, 0, FPISA_MAGNITUDE_FRACTION * sizeof(*x->digit));
	x->n += FPISA_MAGNITUDE_FRACTION;
	x->at -= 32 * FPISA_MAGNITUDE_FRACTION;
	for (int i = x->n - 1; i >= 0; i--) {
		rest = rest << 32 | x->digit[i];
		x->digit[i] = (__u32)(rest / by);
		rest %= by;
	}
	x->digit[0] |= rest != 0;
	while (!x->digit[x->n - 1])
		x->n--;
}

/*
 * Return the packed value of format `to` that is nearest to x quanta of `from`. Set OVERFLOW and INEXACT in *flags as
 * needed.
 */
static inline __u64 fpisa_magnitude_round(const struct fpisa_magnitude *x, struct fpisa_format from,
					  struct fpisa_format to, __u32 *flags)
{
	struct fpisa_lane l = {.sign = x->negative, .flags = *flags};
	int top = x->n - 1, e;
	__u32 low, rest = 0, lz;

	if (!x->n)
		return 0;
	lz = fpisa_clz32_bits(x->digit[top]);
	low = top > 1 ? x->digit[top - 2] : 0;
	for (int i = 0; i < top - 2; i++)
		rest |= x->digit[i];
	/* Take the 64 uppermost bits, and a sticky bit for all lower bits. */
	l.m = (__s64)(((__u64)x->digit[top] << 32 | (top ? x->digit[top - 1] : 0)) << lz | (__u64)low << lz >> 32);
	l.m |= (__s64)fpisa_nonzero(rest | (__u32)(low << lz));
	e = 32 * (top - 1) - (int)lz + x->at + fpisa_superacc_quantum(from) - fpisa_superacc_quantum(to) + 1;
	l.e = (__u32)e & FPISA_EXP_MASK;
	fpisa_mau6_normalise(&l, to, 0);
	fpisa_mau7_exponent(&l, to, 0);
	fpisa_mau8_assemble(&l, to, FPISA_ROUND_NEAREST);
	*flags = l.flags;
	return l.word;
}

/* Return the sticky bits of an exponent register for the specials. */
static inline __u32 fpisa_superacc_sticky(const struct fpisa_superacc *a)
{
	return (a->nan ? FPISA_EXP_NAN : 0) | (a->pinf ? FPISA_EXP_PINF : 0) | (a->ninf ? FPISA_EXP_NINF : 0);
}

/*
 * Return the sum of values of format `from`, rounded once to format `to`. With `average`, return the sum divided by
 * `rows`, which must not be 0. The flags are those of doc/numbers.md.
 */
static inline __u64 fpisa_superacc_read(const struct fpisa_superacc *a, struct fpisa_format from,
					struct fpisa_format to, int average, __u32 *flags)
{
	__u32 sticky = fpisa_superacc_sticky(a);
	struct fpisa_magnitude x;

	if (sticky)
		return fpisa_special(sticky, to, flags);
	fpisa_superacc_magnitude(a, &x);
	if (average)
		fpisa_magnitude_divide(&x, a->rows);
	return fpisa_magnitude_round(&x, from, to, flags);
}

/*
 * Largest number of terms of an expansion. The first term is finite, and each term covers at least M + 1 bits of the
 * number.
 */
#define FPISA_EXPANSION_TERMS 41

/*
 * Expand the sum into values whose exact sum is the same. Each value is the nearest to the remainder after the earlier
 * values. So the values do not overlap, and the first is the sum rounded once. A sum that is zero or special is one
 * term. Return the number of terms, or -ERANGE if the sum rounds beyond the range of the format.
 */
static inline int fpisa_superacc_expand(const struct fpisa_superacc *a, struct fpisa_format f,
					__u64 term[FPISA_EXPANSION_TERMS])
{
	union fpisa_superacc_full rest = {.space = {0}};
	__u32 sticky = fpisa_superacc_sticky(a), flags = 0;
	struct fpisa_magnitude x;
	int n = 0;

	if (sticky) {
		term[0] = fpisa_special(sticky, f, &flags);
		return 1;
	}
	memcpy(&rest, a, sizeof(*a) + a->limbs * sizeof(__s64));
	fpisa_superacc_move(&rest.acc, (struct fpisa_superacc_window){0, fpisa_superacc_most(f)});
	for (;;) {
		fpisa_superacc_magnitude(&rest.acc, &x);
		if (!x.n && n)
			return n;
		term[n] = fpisa_magnitude_round(&x, f, f, &flags);
		if (flags & FPISA_OVERFLOW)
			return -ERANGE;
		(void)fpisa_superacc_add(&rest.acc, term[n++], f, 1);
	}
}

#endif
