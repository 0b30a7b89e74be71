/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Exact sums as planes of digits, in which a leaf of a tree sends the sum of its ranks to its parent (doc/protocol.md,
 * section 11).
 *
 * A leaf propagates the carries of its superaccumulators, so that each limb holds one digit, a signed number of 32
 * bits. Plane p of a chunk consists of digit p of each element, which stands for digit x 2^(32 p) units of the first
 * limb. With n limbs there are n + 1 planes, because the part of the top limb above its 32 bits is a plane too. The
 * parent adds a digit to limb p in the same way as a value, so its sum has the same bits as one sum over all workers. A
 * plane of zeros is not sent.
 *
 * Digits are balanced, -2^31 to 2^31 - 1, so a small negative sum has zeros in its upper planes. The sticky bits of
 * specials are a separate plane.
 *
 * A limb of exact.h is below 2^61 after the adds of 64 ranks. A parent adds 64 digits below 2^31 to a limb. In FP32 the
 * sum of 4,096 values may need 66 bits of the top limb. So units of FPISA_SPILL are moved from the top limb to the
 * exponent register, beside the sticky bits, and fpisa_exact_mau5() adds these units again. In the other formats the
 * sum of 4,096 values fits.
 */
#ifndef FPISA_PLANES_H
#define FPISA_PLANES_H

#include "exact.h"
#include "exact64.h"

#define FPISA_PLANE_SPECIALS 127 /* the plane of sticky bits */
#define FPISA_DIGIT_BYTES 4u	 /* size of an element in a frame with a plane */
#define FPISA_MOST_PLANES (FPISA_LIMBS64 + 2)

/* A set of planes. */
struct fpisa_planes {
	__u64 low, high; /* bits for planes 0 to 63, and for planes 64 to 127 */
};

static __always_inline void fpisa_planes_add(struct fpisa_planes *set, __u32 plane)
{
	if (plane < 64)
		set->low |= 1ull << plane;
	else
		set->high |= 1ull << (plane & 63);
}

static __always_inline int fpisa_planes_has(const struct fpisa_planes *set, __u32 plane)
{
	return (plane < 64 ? set->low : set->high) >> (plane & 63) & 1;
}

/* Return the number of planes of the set. */
static __always_inline __u32 fpisa_planes_count(const struct fpisa_planes *set)
{
	__u32 n = 0;

	FPISA_ROLLED
	for (__u32 plane = 0; plane < 64; plane++)
		n += (set->low >> plane & 1) + (set->high >> plane & 1);
	return n;
}

/* Return the first plane of the set from `plane` on, or a number above FPISA_PLANE_SPECIALS if no plane follows. */
static __always_inline __u32 fpisa_planes_next(const struct fpisa_planes *set, __u32 plane)
{
	while (plane <= FPISA_PLANE_SPECIALS && !fpisa_planes_has(set, plane))
		plane++;
	return plane;
}

/* Return whether sums with `limbs` limbs for each element have this plane. */
static __always_inline int fpisa_plane_valid(__u32 plane, __u32 limbs)
{
	return plane <= limbs || plane == FPISA_PLANE_SPECIALS;
}

/* Return the digit at the bottom of a limb, and set *above to the rest, which belongs to the next limb. */
static __always_inline __s32 fpisa_low_digit(__s64 limb, __s64 *above)
{
	__s32 digit = (__s32)(__u32)(__u64)limb;

	*above = (limb - digit) >> 32;
	return digit;
}

/* -- limbs of exact.h ---------------------------------------------------------- */

/* Propagate carries until all limbs below the top limb are digits. The value of the accumulator does not change. */
static __always_inline void fpisa_exact_carry(__s64 *acc, int n)
{
	__s64 carry = 0;

	FPISA_ROLLED
	for (int k = 0; k < n - 1; k++)
		acc[k] = fpisa_low_digit(acc[k] + carry, &carry);
	acc[n - 1] += carry;
}

/*
 * Return the index of the limb of a plane below `n`, which is the number of limbs and a power of two. For other planes,
 * return any index below `n`. The masked value is opaque, because clang would otherwise drop the mask, and the verifier
 * of 6.1 would find no bound.
 */
static __always_inline __u64 fpisa_limb_of(__u32 plane, int n)
{
	__u64 at = plane;

	fpisa_opaque(at);
	return at & (__u64)(n - 1);
}

/* Return a digit of an accumulator after fpisa_exact_carry(). */
static __always_inline __s32 fpisa_exact_digit(const __s64 *acc, int n, __u32 plane)
{
	__s64 above;
	__s32 digit = fpisa_low_digit(acc[fpisa_limb_of(plane < (__u32)n ? plane : (__u32)n - 1, n)], &above);

	return plane < (__u32)n ? digit : (__s32)above;
}

/* Add a digit to an accumulator of `n` limbs, a power of two, whose exponent register is *e. */
static __always_inline void fpisa_exact_add_digit(__s64 *acc, __u16 *e, int n, __u32 plane, __s32 digit)
{
	__s64 top;
	__u32 spills;

	if (plane < (__u32)n) {
		acc[fpisa_limb_of(plane, n)] += digit;
		return;
	}
	top = acc[n - 1] + (__s64)digit * (1ll << 32);
	if (n == FPISA_LIMBS && (top >= FPISA_SPILL / 2 || top <= -FPISA_SPILL / 2)) {
		spills = *e + (top < 0 ? FPISA_EXP_MASK : 1);
		*e = (__u16)((*e & FPISA_EXP_SPECIAL) | (spills & FPISA_EXP_MASK));
		top -= top < 0 ? -FPISA_SPILL : FPISA_SPILL;
	}
	acc[n - 1] = top;
}

/* -- limbs of exact64.h -------------------------------------------------------- */

/*
 * Propagate carries as fpisa_exact_carry() does, in the limbs in use. A carry out of the last limb extends the range by
 * one limb.
 */
static __always_inline void fpisa_exact64_carry(struct fpisa_limbs64_block *a, __u32 i, __u16 *e)
{
	const __u32 first = fpisa_range_first(*e), limbs = fpisa_range_limbs(*e), end = first + limbs;
	__s64 carry = 0;

	if (!limbs)
		return;
	FPISA_ROLLED
	for (__u32 k = 0; k < FPISA_LIMBS64; k++) {
		__u64 at = first + k;

		fpisa_opaque(at);
		if (k >= limbs || at >= FPISA_LIMBS64 - 1)
			break;
		a->limb[at][i & (FPISA_BLOCK - 1)] = fpisa_low_digit(a->limb[at][i & (FPISA_BLOCK - 1)] + carry, &carry);
	}
	if (end == FPISA_LIMBS64) {
		a->limb[FPISA_LIMBS64 - 1][i & (FPISA_BLOCK - 1)] += carry;
	} else if (carry && end < FPISA_LIMBS64) {
		a->limb[end][i & (FPISA_BLOCK - 1)] = carry;
		*e += 1;
	}
}

/* Return a digit of an accumulator after fpisa_exact64_carry(), or 0 outside of the limbs in use. */
static __always_inline __s32 fpisa_exact64_digit(const struct fpisa_limbs64_block *a, __u32 i, __u16 e, __u32 plane)
{
	__u64 at = plane < FPISA_LIMBS64 ? plane : FPISA_LIMBS64 - 1;
	__s64 above;
	__s32 digit;

	fpisa_opaque(at);
	if (at < fpisa_range_first(e) || at >= fpisa_range_first(e) + fpisa_range_limbs(e) || at >= FPISA_LIMBS64)
		return 0;
	digit = fpisa_low_digit(a->limb[at][i & (FPISA_BLOCK - 1)], &above);
	return plane < FPISA_LIMBS64 ? digit : (__s32)above;
}

/* Add a digit as a value that begins in limb `plane`, or in the last limb in which a value can begin. */
static __always_inline void fpisa_exact64_add_digit(struct fpisa_limbs64_block *a, __u32 i, __u16 *e, __u32 plane,
						    __s32 digit)
{
	const __u32 last = FPISA_LIMBS64 - 2, begin = plane < last ? plane : last;
	struct fpisa_lane l = {.e = 32 * begin + 1, .m = plane > last ? (__s64)digit * (1ll << 32) : digit};
	const __u16 before = *e;

	*e = fpisa_exact64_mau2(&l, before);
	fpisa_opaque(l.st);
	l.st &= 63;
	fpisa_exact64_mau4(&l, a, i, before, fpisa_exact64_clear);
	if (plane > last + 1)
		a->limb[last + 1][i & (FPISA_BLOCK - 1)] += (__s64)digit * (1ll << 32) - digit;
}

/* -- sticky bits ------------------------------------------------------------------ */

#define FPISA_STICKY_SHIFT 13 /* right shift that turns the sticky bits of the register into a digit */

_Static_assert(FPISA_EXP_SPECIAL >> FPISA_STICKY_SHIFT == 7, "three sticky bits at the top of the register");

static __always_inline __s32 fpisa_sticky_digit(__u16 e)
{
	return (e & FPISA_EXP_SPECIAL) >> FPISA_STICKY_SHIFT;
}

static __always_inline __u16 fpisa_sticky_add(__u16 e, __s32 digit)
{
	return (__u16)(e | (((__u32)digit << FPISA_STICKY_SHIFT) & FPISA_EXP_SPECIAL));
}

#endif
