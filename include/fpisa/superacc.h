/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A superaccumulator for any number of FP32 or FP64 values, in user space. The values are added one at a time, for
 * example from the rows of a table. The limbs are those of exact.h, with carry passes, and only limbs that the values
 * need exist.
 *
 * Limb i holds units of 2^(32 i) quanta; a quantum is the format's smallest subnormal, 2^(1 - bias - M). MAU0 to MAU4
 * are those of mau.h and exact.h. But a mantissa of FP64, shifted left by up to 31, has 84 bits and is added to two
 * limbs, with the low 32 bits in the first limb (Neal, "Fast exact summation using small and large superaccumulators",
 * 2015). An add changes a limb by less than 2^55. After FPISA_SUPERACC_ADDS adds, a carry pass moves the bits above bit
 * 31 of each limb into the next limb, so no limb ever reaches 2^63.
 *
 * Only a window of limbs is stored, which has three limbs at first. If a value does not fit into the window, the add
 * returns -ENOSPC and the sum does not change. fpisa_superacc_window() returns the window that the value needs, which
 * is wider only if the current width is not enough. fpisa_superacc_move() moves the sum into the new window, in memory
 * that the caller has enlarged. Values can be subtracted again, because nothing was rounded.
 *
 * A sum can have up to 2^63 - 1 values. Then |sum| < 2^63 x 2^(exp_ones + M - 1) quanta, which fits into
 * fpisa_superacc_most() limbs.
 */
#ifndef FPISA_SUPERACC_H
#define FPISA_SUPERACC_H

#include <errno.h>
#include <string.h>

#include "exact.h"

#define FPISA_SUPERACC_ADDS 128	       /* maximum number of adds between two carry passes */
#define FPISA_SUPERACC_LEAST 3	       /* number of limbs for which there is always memory */
#define FPISA_SUPERACC_MOST 68	       /* largest number of limbs, which FP64 needs */
#define FPISA_SUPERACC_TOP (1ll << 60) /* the uppermost limb is below this after a carry pass */

/* A limb holds the adds between two passes, in addition to the values that remain after a pass and a merge. */
_Static_assert(FPISA_SUPERACC_ADDS *(1ull << 55) + 2 * FPISA_SUPERACC_TOP < 1ull << 63, "limbs do not overflow");

struct fpisa_superacc {
	__u64 rows;	       /* number of values of any kind, at most 2^63 - 1 */
	__u64 nan, pinf, ninf; /* number of special values */
	__u16 first;	       /* number of the lowest limb of the window */
	__u16 limbs;	       /* number of limbs in the window; 0 while all values are zero */
	__u32 waiting;	       /* adds since the last carry pass */
	__s64 limb[];
};

/* A superaccumulator with memory for all limbs of either format. */
union fpisa_superacc_full {
	struct fpisa_superacc acc;
	__u64 space[sizeof(struct fpisa_superacc) / 8 + FPISA_SUPERACC_MOST];
};

struct fpisa_superacc_window {
	__u32 first, limbs;
};

/* Return FPISA_FORMAT_FP32 or FPISA_FORMAT_FP64 in the form that the functions below take. */
static __always_inline struct fpisa_format fpisa_superacc_format(__u8 id)
{
	struct fpisa_format f = fpisa_format_of(id);

	f.rbits = 64;
	return f;
}

/* Return the number of limbs in which a value can begin, which is 8 for FP32 and 64 for FP64. */
static __always_inline int fpisa_superacc_places(struct fpisa_format f)
{
	return 1 << (f.ebits - 5);
}

/* Return whether values of the format can reach into the next limb. */
static __always_inline __u32 fpisa_superacc_wide(struct fpisa_format f)
{
	return f.mbits + 1 + 31 > 62;
}

/* Return the bits of the largest finite value in quanta. */
static __always_inline __u32 fpisa_superacc_bits(struct fpisa_format f)
{
	return (__u32)fpisa_exp_ones(f) + f.mbits - 1;
}

/* Return the number of limbs of the largest sum, which is 11 for FP32 and 68 for FP64. */
static __always_inline __u32 fpisa_superacc_most(struct fpisa_format f)
{
	return (fpisa_superacc_bits(f) + 63 + 31) / 32;
}

/* Return the binary exponent of a quantum, which is -149 for FP32 and -1074 for FP64. */
static __always_inline int fpisa_superacc_quantum(struct fpisa_format f)
{
	return 2 - (1 << (f.ebits - 1)) - f.mbits;
}

/* Return the size in bytes of a superaccumulator whose window has `limbs` limbs. */
static __always_inline __u64 fpisa_superacc_size(__u32 limbs)
{
	if (limbs < FPISA_SUPERACC_LEAST)
		limbs = FPISA_SUPERACC_LEAST;
	return sizeof(struct fpisa_superacc) + limbs * sizeof(__s64);
}

/* Initialise an empty superaccumulator in `bytes` bytes of memory, at least fpisa_superacc_size(0). */
static inline void fpisa_superacc_init(struct fpisa_superacc *a, __u64 bytes)
{
	memset(a, 0, bytes);
}

static inline int fpisa_superacc_high(const struct fpisa_superacc *a)
{
	return a->limbs && (a->limb[a->limbs - 1] >= FPISA_SUPERACC_TOP || a->limb[a->limbs - 1] <= -FPISA_SUPERACC_TOP);
}

/*
 * Run a carry pass. Return 0, or -ENOSPC if the window needs another limb on top. In this case the sum does not change.
 */
static inline int fpisa_superacc_carry(struct fpisa_superacc *a)
{
	__s64 carry = 0;

	for (int i = 0; i + 1 < a->limbs; i++) {
		carry += a->limb[i];
		a->limb[i] = (__u32)carry;
		carry >>= 32;
	}
	if (a->limbs)
		a->limb[a->limbs - 1] += carry;
	if (fpisa_superacc_high(a))
		return -ENOSPC;
	a->waiting = 0;
	return 0;
}

/*
 * Remove limbs that the value does not need from both ends of the window, so that copies and merges do not use these
 * limbs. Merge the uppermost limb into the limb below if the result is below FPISA_SUPERACC_TOP / 2, so that the new
 * uppermost limb does not overflow soon.
 */
static inline void fpisa_superacc_narrow(struct fpisa_superacc *a)
{
	const __s64 fits = FPISA_SUPERACC_TOP >> 33;
	__u32 skip = 0;

	(void)fpisa_superacc_carry(a);
	for (; a->limbs > 1; a->limbs--) {
		__s64 *top = a->limb + a->limbs - 1;

		if (*top >= fits || *top <= -fits)
			break;
		top[-1] += *top * (1ll << 32);
	}
	while (skip < a->limbs && !a->limb[skip])
		skip++;
	memmove(a->limb, a->limb + skip, (a->limbs - skip) * sizeof(__s64));
	a->first = (__u16)(a->first + skip);
	a->limbs = (__u16)(a->limbs - skip);
}

/* Count zeros and specials. d is 1 or -1. */
static inline void fpisa_superacc_count(struct fpisa_superacc *a, __u32 sticky, __u64 d)
{
	a->rows += d;
	a->nan += sticky & FPISA_EXP_NAN ? d : 0;
	a->pinf += sticky & FPISA_EXP_PINF ? d : 0;
	a->ninf += sticky & FPISA_EXP_NINF ? d : 0;
}

/*
 * Add a packed value, or with `back` subtract a value that was added before. Return 0, or -ENOSPC if the value does not
 * fit into the window. fpisa_superacc_reach() returns the window that the value needs.
 */
static __always_inline int fpisa_superacc_add(struct fpisa_superacc *a, __u64 word, struct fpisa_format f, int back)
{
	const __u32 wide = fpisa_superacc_wide(f);
	struct fpisa_lane l = {.word = word};

	fpisa_mau0_extract(&l, f);
	fpisa_mau1_implied_one(&l, f);
	if (fpisa_unlikely(!l.m)) {
		fpisa_superacc_count(a, l.e, back ? -1ull : 1);
		return 0;
	}
	fpisa_exact_mau2(&l, fpisa_superacc_places(f));
	l.st -= a->first;
	if (fpisa_unlikely(l.st >= a->limbs || (wide && l.st + 1 == a->limbs)))
		return -ENOSPC;
	if (fpisa_unlikely(a->waiting >= FPISA_SUPERACC_ADDS) && fpisa_superacc_carry(a))
		return -ENOSPC;
	if (back)
		l.m = -l.m;
	if (wide) {
		a->limb[l.st + 1] += l.m >> (32 - l.in);
		l.m = (__u32)((__u64)l.m << l.in);
	} else {
		fpisa_exact_mau3(&l);
	}
	fpisa_exact_mau4(&l, a->limb);
	a->waiting++;
	a->rows += back ? -1ull : 1;
	return 0;
}

/*
 * Return a window for limbs lo to hi and the limbs that the sum needs. The width stays the same or becomes a larger
 * power of two. This narrows `a`, so call fpisa_superacc_move() next.
 */
static inline struct fpisa_superacc_window fpisa_superacc_window(struct fpisa_superacc *a, __u32 lo, __u32 hi,
								 struct fpisa_format f)
{
	const __u32 most = fpisa_superacc_most(f), had = a->limbs;
	__u32 width = FPISA_SUPERACC_LEAST, spare;

	fpisa_superacc_narrow(a);
	if (a->limbs) {
		__u32 top = a->first + a->limbs - 1u + (fpisa_superacc_high(a) != 0);

		lo = lo < a->first ? lo : a->first;
		hi = hi > top ? hi : top;
	}
	/* Choose the width so that sizes are powers of two: 64, 128, 256 or 512 bytes. */
	while (width < hi - lo + 1 || width < had)
		width = 2 * width + 5;
	if (width > most)
		width = most;
	spare = (width - (hi - lo + 1)) / 2;
	lo = lo > spare ? lo - spare : 0;
	return (struct fpisa_superacc_window){lo < most - width ? lo : most - width, width};
}

/* Return the window for adding a value that is neither zero nor special. */
static inline struct fpisa_superacc_window fpisa_superacc_reach(struct fpisa_superacc *a, __u64 word,
								struct fpisa_format f)
{
	__u32 e = (__u32)(word >> f.mbits & fpisa_exp_ones(f)), at = (e - (e != 0)) >> 5;

	return fpisa_superacc_window(a, at, at + fpisa_superacc_wide(f), f);
}

/* Move the sum into a window that contains the current window. The memory must have the size of the new window. */
static inline void fpisa_superacc_move(struct fpisa_superacc *a, struct fpisa_superacc_window w)
{
	__u32 up = a->limbs ? a->first - w.first : 0;

	memmove(a->limb + up, a->limb, a->limbs * sizeof(__s64));
	memset(a->limb, 0, up * sizeof(__s64));
	memset(a->limb + up + a->limbs, 0, (w.limbs - up - a->limbs) * sizeof(__s64));
	a->first = (__u16)w.first;
	a->limbs = (__u16)w.limbs;
}

/* Return the number of limbs of `a` to which `b` adds. A high uppermost limb counts as two digits. */
static inline __u32 fpisa_superacc_extent(const struct fpisa_superacc *b)
{
	return b->limbs + (fpisa_superacc_high(b) != 0);
}

/*
 * Add all values of `b` to `a`. Return 0, or -ENOSPC if `a` needs the window that fpisa_superacc_cover() returns, or
 * -ERANGE if there would be more than 2^63 - 1 values. An error does not change the value of `a`.
 */
static inline int fpisa_superacc_merge(struct fpisa_superacc *a, const struct fpisa_superacc *b)
{
	__u32 extent = fpisa_superacc_extent(b);
	__s64 carry = 0, *limb;

	if ((a->rows + b->rows) >> 63)
		return -ERANGE;
	if (b->limbs) {
		if (!a->limbs || b->first < a->first || b->first + extent > (__u32)a->first + a->limbs)
			return -ENOSPC;
		if (fpisa_superacc_carry(a))
			return -ENOSPC;
		limb = a->limb + (b->first - a->first);
		for (__u32 i = 0; i + 1 < extent; i++) {
			carry += b->limb[i];
			limb[i] += (__u32)carry;
			carry >>= 32;
		}
		limb[extent - 1] += carry + (extent == b->limbs ? b->limb[extent - 1] : 0);
	}
	a->rows += b->rows;
	a->nan += b->nan;
	a->pinf += b->pinf;
	a->ninf += b->ninf;
	return 0;
}

static inline struct fpisa_superacc_window fpisa_superacc_cover(struct fpisa_superacc *a,
								const struct fpisa_superacc *b, struct fpisa_format f)
{
	return fpisa_superacc_window(a, b->first, b->first + fpisa_superacc_extent(b) - 1, f);
}

#endif
