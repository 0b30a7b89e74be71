/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The order of values in queries, as unsigned integers. This is the order of SQL, where -0 equals +0, and NaNs equal each
 * other and are greater than all other values.
 */
#ifndef FPISA_QUERY_ORDER_H
#define FPISA_QUERY_ORDER_H

#include "query.h"

#define FPISA_ORDER_NAN 0xffffffffu
#define FPISA_ORDER_ZERO 0x80000000u

/* Return bit 63 of x, without a branch, and without a value that a verifier knows to be 0 or -1. */
static __always_inline __u32 fpisa_top_bit(__u64 x)
{
	fpisa_opaque(x);
	x >>= 63;
	fpisa_opaque(x);
	return (__u32)x;
}

static __always_inline __u32 fpisa_order_key(__u32 word)
{
	__u64 magnitude = (__u32)(word << 1);
	__u32 flip = 0 - fpisa_top_bit((__u64)word << 32), nan, zero = fpisa_top_bit(magnitude - 1), keep, key;

	fpisa_opaque(flip);
	flip >>= 1;
	fpisa_opaque(flip);
	key = word ^ FPISA_ORDER_ZERO ^ flip;
	nan = 0 - fpisa_top_bit(0xff000000ull - magnitude);
	fpisa_opaque(nan);
	keep = zero - 1;
	fpisa_opaque(keep);
	key |= nan;
	key &= keep;
	return key | zero << 31;
}

/* Return the value that has this key. For the keys of zeros and NaNs, return +0 and a quiet NaN. */
static __always_inline __u32 fpisa_order_value(__u32 key)
{
	if (key == FPISA_ORDER_NAN)
		return 0x7fc00000;
	return key & FPISA_ORDER_ZERO ? key ^ FPISA_ORDER_ZERO : ~key;
}

#define FPISA_ORDER64_NAN (~0ull)
#define FPISA_ORDER64_ZERO (1ull << 63)

/* Return the key of an FP64 value. */
static __always_inline __u64 fpisa_order_key64(__u64 word)
{
	__u64 magnitude = word << 1;

	if (magnitude > 0x7ffull << 53)
		return FPISA_ORDER64_NAN;
	if (!magnitude)
		return FPISA_ORDER64_ZERO;
	return word >> 63 ? ~word : word | FPISA_ORDER64_ZERO;
}

static __always_inline __u64 fpisa_order_value64(__u64 key)
{
	if (key == FPISA_ORDER64_NAN)
		return 0x7ff8ull << 48;
	return key & FPISA_ORDER64_ZERO ? key ^ FPISA_ORDER64_ZERO : ~key;
}

/* -- short places --------------------------------------------------------------- */

/*
 * The short place of a value has 32 bits, and rises with the value. Different values of 8 bytes or more may have equal
 * short places. Integers from -2^25 to 2^25 - 1 have short places of their own.
 */
#define FPISA_SHORT_BITS 25

/* Return the short place of a 128-bit integer. Keep the length and the upper FPISA_SHORT_BITS bits of its magnitude. */
static __always_inline __u32 fpisa_short_integer(const __u64 wide[2])
{
	__u64 sign = 0 - (wide[1] >> 63), high = wide[1] ^ sign, low = wide[0] ^ sign;
	__u32 bits = high ? 128 - (__u32)__builtin_clzll(high) : 64 - (__u32)__builtin_clzll(low | 1), shift;

	shift = bits > FPISA_SHORT_BITS ? bits - FPISA_SHORT_BITS : 0;
	if (shift >= 64)
		low = high >> (shift - 64);
	else if (shift)
		low = low >> shift | high << (64 - shift);
	return (FPISA_ORDER_ZERO + (shift << (FPISA_SHORT_BITS - 1)) + (__u32)low) ^ (__u32)sign;
}

/* Return the short place of the row's value. For a real, this is its place. */
static __always_inline __u32 fpisa_short_place(const struct fpisa_row *r, __u32 form)
{
	if (fpisa_form_is_integer(form))
		return fpisa_short_integer(r->wide);
	return form == FPISA_FORM_DOUBLE ? (__u32)(fpisa_order_key64(r->wide[0]) >> 32) : fpisa_order_key(r->value);
}

/* Return whether only one value has this short place, or a short place that is its complement. */
static __always_inline int fpisa_short_is_exact(__u32 form, __u32 place)
{
	if (!fpisa_form_is_wide(form))
		return 1;
	return fpisa_form_is_integer(form) &&
	       place - (FPISA_ORDER_ZERO - (1u << FPISA_SHORT_BITS)) < 2u << FPISA_SHORT_BITS;
}

#endif
