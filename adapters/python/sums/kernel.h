/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Adding doubles that lie within about 35 powers of two of each other, by vectors.
 *
 * A lane is two doubles a and b. Each is 1.5 * 2^k plus the values it has taken, so that its unit in the last
 * place stays 2^(k - 52). x + a rounds x to that unit. The rest is exact (Demmel and Hida 2004; Rump 2008) and
 * goes to b in the same way, whose unit is 2^-46 of a's. If nothing is left then, the value was added exactly:
 * a and b are sums of multiples of their unit that cannot reach the next power of two within SUMS_FLUSH adds. If
 * a value is too large, is not finite, or leaves a rest, its batch of vectors is not added, and the caller gets
 * the batch back.
 *
 * The bits of a less the bits of 1.5 * 2^k are the sum that a has taken, in units of its last place. These are
 * integers, which sums_flush() collects. Neither a nor b takes more than 2^51 units before a flush. b takes
 * exactly as many if each value leaves half a unit of a.
 */
#ifndef SUMS_KERNEL_H
#define SUMS_KERNEL_H

#include "sums.h"

#define SUMS_VECTORS 4	 /* vectors in a batch */
#define SUMS_WIDEST 8	 /* doubles in a vector, at most */
#define SUMS_FLUSH 64	 /* batches between flushes: log2 is 6 */
#define SUMS_FLUSHES 512 /* flushes between drains */

/* The exponents, all relative to k of a. */
#define SUMS_BOUND (-1 - 6) /* values are below 2^(k + this) */
#define SUMS_UNIT_A (-52)
#define SUMS_UNIT_B (-52 - 46)
#define SUMS_LEAST_K (-1074 + 98) /* b's unit is a double */
#define SUMS_MOST_K 1022

_Static_assert(1 << 6 == SUMS_FLUSH, "SUMS_BOUND and SUMS_UNIT_B have its logarithm");
_Static_assert(SUMS_VECTORS *SUMS_FLUSHES < 1 << (63 - 51), "sums of flushes do not overflow");

/* The sums in lanes, while k stays. */
struct sums_window {
	int k;
	__u32 groups;			      /* batches since the last flush */
	__u32 flushes;			      /* flushes since the last drain */
	__s64 a[SUMS_WIDEST], b[SUMS_WIDEST]; /* in units of a and of b */
};

/*
 * Add batches from the beginning of x, n values, until fewer values than a batch are left, a batch is refused, or the
 * window must be drained. Return how many values were added.
 */
typedef size_t sums_kernel64(struct sums_window *w, const double *x, size_t n);
typedef size_t sums_kernel32(struct sums_window *w, const float *x, size_t n);

/*
 * Split values for sums by groups (groups.c). A value in units of 2^(low - 1075) is limb[1] * 2^SUMS_LIMB + limb[0],
 * and each limb has the value's sign. A zero has two limbs of 0, and so has a value whose exponent field is not from low
 * to low + SUMS_RANGE. Return whether such a value exists. low + SUMS_RANGE is below the field of infinities. `limb` has
 * room for whole vectors of the widest kind.
 */
#define SUMS_RANGE 34
#define SUMS_LIMB 44
typedef __s64 sums_cell __attribute__((vector_size(16)));
typedef int sums_kernel_limbs(const double *x, size_t n, int low, sums_cell *limb);

/* The least and the greatest exponent field of some values. */
struct sums_extent {
	__u32 least, most;
};
typedef struct sums_extent sums_kernel_extent(const double *x, size_t n);

struct sums_kernels {
	const char *name;
	__u32 group; /* values in a batch */
	sums_kernel64 *add64;
	sums_kernel32 *add32;
	sums_kernel_limbs *limbs;
	sums_kernel_extent *extent;
	void (*products)(const double *x, const double *y, double *p, double *e, size_t n);
};

extern const struct sums_kernels sums_baseline, sums_avx2, sums_avx512;

#endif
