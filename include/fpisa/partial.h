/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A partial is an exact sum and its counts, as bytes that one program or machine sends to another, which merges them
 * without any rounding. doc/partial.md describes every byte. The written bytes depend only on the values, so equal sums
 * have equal bytes. The reader also accepts a partial that is not in the shortest form.
 */
#ifndef FPISA_PARTIAL_H
#define FPISA_PARTIAL_H

#include "superacc_read.h"

#define FPISA_PARTIAL_VERSION 1
#define FPISA_PARTIAL_NEGATIVE 0x01 /* the magnitude is negative */
#define FPISA_PARTIAL_SPECIALS 0x02 /* three counts follow, of NaN, +Inf and -Inf */

struct fpisa_partial {
	__u8 magic[2]; /* "FS" */
	__u8 version;
	__u8 flags;
	__s16 exponent; /* bit 0 of the magnitude is 2^exponent */
	__u16 zero;
	__u64 rows;
};

_Static_assert(sizeof(struct fpisa_partial) == 16, "no padding");

#define FPISA_PARTIAL_COUNTS 24	    /* bytes of the three counts */
#define FPISA_PARTIAL_MAGNITUDE 272 /* maximum size in bytes of the magnitude, for 2161 bits */
#define FPISA_PARTIAL_MOST (sizeof(struct fpisa_partial) + FPISA_PARTIAL_COUNTS + FPISA_PARTIAL_MAGNITUDE)

/* Return bits `at` to `at` + 7 of x. */
static inline __u8 fpisa_magnitude_byte(const struct fpisa_magnitude *x, int at)
{
	int i = at >> 5;
	__u64 two = x->digit[i] | (__u64)(i + 1 < x->n ? x->digit[i + 1] : 0) << 32;

	return (__u8)(two >> (at & 31));
}

/* Write `a` as a partial. Return the number of bytes. */
static inline __u32 fpisa_partial_write(const struct fpisa_superacc *a, struct fpisa_format f,
					__u8 out[FPISA_PARTIAL_MOST])
{
	struct fpisa_partial head = {{'F', 'S'}, FPISA_PARTIAL_VERSION, 0, 0, 0, a->rows};
	const __u64 counts[3] = {a->nan, a->pinf, a->ninf};
	__u32 size = sizeof(head);
	struct fpisa_magnitude x;
	int low = 0, bits;

	fpisa_superacc_magnitude(a, &x);
	if (a->nan | a->pinf | a->ninf) {
		head.flags |= FPISA_PARTIAL_SPECIALS;
		memcpy(out + size, counts, sizeof(counts));
		size += sizeof(counts);
	}
	if (x.n) {
		while (!(x.digit[low >> 5] >> (low & 31) & 1))
			low += x.digit[low >> 5] ? 1 : 32;
		bits = 32 * x.n - (int)fpisa_clz32_bits(x.digit[x.n - 1]);
		head.flags |= x.negative ? FPISA_PARTIAL_NEGATIVE : 0;
		head.exponent = (__s16)(x.at + low + fpisa_superacc_quantum(f));
		for (int at = low; at < bits; at += 8)
			out[size++] = fpisa_magnitude_byte(&x, at);
	}
	memcpy(out, &head, sizeof(head));
	return size;
}

/*
 * Add the magnitude, whose bit 0 is bit `at` in quanta, to limbs that are zero. Return 0, or -ERANGE if a bit does not
 * fit into the limbs.
 */
static inline int fpisa_partial_place(struct fpisa_superacc *a, const __u8 *magnitude, __u32 bytes, int at)
{
	for (__u32 i = 0; i < bytes; i++, at += 8) {
		__u32 byte = magnitude[i];
		int place = at;

		if (!byte)
			continue;
		/* Bits below the quantum are allowed if they are zero. */
		for (; place < 0; place++, byte >>= 1)
			if ((byte & 1) || place < -7)
				return -ERANGE;
		if (place >> 5 >= a->limbs)
			return -ERANGE;
		a->limb[place >> 5] += (__s64)((__u64)byte << (place & 31));
	}
	return fpisa_superacc_carry(a) || a->limb[a->limbs - 1] >> 32 ? -ERANGE : 0;
}

/* Return whether `a`, which is not negative and has a window of all limbs, can be the sum of `values` finite values. */
static inline int fpisa_partial_bounded(const struct fpisa_superacc *a, struct fpisa_format f, __u64 values)
{
	const __u32 bits = fpisa_superacc_bits(f);
	const __s64 *limb = a->limb + (bits >> 5);
	unsigned __int128 above = limb[0] | (unsigned __int128)limb[1] << 32 | (unsigned __int128)limb[2] << 64;

	/* The sum must be less than `values` times 2^bits quanta, and zero if there are no values. */
	if (values)
		return above >> (bits & 31) < values;
	for (int i = 0; i < a->limbs; i++)
		if (a->limb[i])
			return 0;
	return 1;
}

/*
 * Read `size` arbitrary bytes as a partial into limbs that can hold any value of format f. Return 0, or a negative
 * errno with the end of a sentence in *why. The error is -EINVAL if the bytes are not a partial, -EPROTONOSUPPORT for
 * another version, and -ERANGE if values of f cannot have this sum.
 */
static inline int fpisa_partial_read(const void *bytes, __u64 size, struct fpisa_format f,
				     union fpisa_superacc_full *out, const char **why)
{
	const __u8 *in = bytes;
	struct fpisa_superacc *a = &out->acc;
	struct fpisa_partial head;
	__u64 counts[3] = {0}, finite;

	*why = "it is cut short";
	if (size < sizeof(head))
		return -EINVAL;
	memcpy(&head, in, sizeof(head));
	in += sizeof(head);
	size -= sizeof(head);
	*why = "it does not begin with FS";
	if (head.magic[0] != 'F' || head.magic[1] != 'S')
		return -EINVAL;
	*why = "its version is not 1";
	if (head.version != FPISA_PARTIAL_VERSION)
		return -EPROTONOSUPPORT;
	*why = "it has flags that version 1 does not know";
	if ((head.flags & ~(FPISA_PARTIAL_NEGATIVE | FPISA_PARTIAL_SPECIALS)) || head.zero)
		return -EINVAL;
	if (head.flags & FPISA_PARTIAL_SPECIALS) {
		*why = "it is cut short";
		if (size < sizeof(counts))
			return -EINVAL;
		memcpy(counts, in, sizeof(counts));
		in += sizeof(counts);
		size -= sizeof(counts);
	}
	*why = "its magnitude is too long";
	if (size > FPISA_PARTIAL_MAGNITUDE)
		return -EINVAL;
	*why = "its counts contradict each other";
	finite = head.rows;
	for (int i = 0; i < 3; finite -= counts[i++])
		if (head.rows >> 63 || counts[i] > finite)
			return -ERANGE;
	*why = "that many values of this type cannot have that sum";
	fpisa_superacc_init(a, sizeof(*out));
	a->limbs = (__u16)fpisa_superacc_most(f);
	if (fpisa_partial_place(a, in, (__u32)size, head.exponent - fpisa_superacc_quantum(f)) ||
	    !fpisa_partial_bounded(a, f, finite))
		return -ERANGE;
	if (head.flags & FPISA_PARTIAL_NEGATIVE)
		for (int i = 0; i < a->limbs; i++)
			a->limb[i] = -a->limb[i];
	a->rows = head.rows;
	a->nan = counts[0];
	a->pinf = counts[1];
	a->ninf = counts[2];
	return 0;
}

#endif
