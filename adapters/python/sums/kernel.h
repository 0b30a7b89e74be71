/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Add doubles that lie within about 35 powers of two of each other, with vector instructions.
 *
 * A lane consists of two doubles a and b. Each is 1.5 * 2^k plus a sum of values, so its unit in the last place stays
 * 2^(k - 52). k is smaller for b, whose unit is 2^-46 units of a. x + a rounds x to the unit of a. The rest is exact
 * (Demmel and Hida 2004; Rump 2008) and is added to b in the same way. If b leaves no rest, the value was added
 * exactly, because a and b cannot reach the next power of two within SUMS_FLUSH adds. A batch with a value that is too
 * large, that is not finite or that leaves a rest is not added. The caller adds such a batch by other means.
 *
 * The bits of a, minus the bits of 1.5 * 2^k, are the sum in a, as an integer in units of a. A flush collects these
 * integers. Neither a nor b grows by more than 2^51 units before a flush. b grows by exactly 2^51 units if each value
 * leaves half a unit of a.
 */
#ifndef SUMS_KERNEL_H
#define SUMS_KERNEL_H

#include "sums.h"

#define SUMS_VECTORS 4	 /* number of vectors in a batch */
#define SUMS_WIDEST 8	 /* maximum number of doubles in a vector */
#define SUMS_FLUSH 64	 /* number of batches between flushes; its log2 is 6 */
#define SUMS_FLUSHES 512 /* number of flushes between drains */

/* Exponents relative to k of a. */
#define SUMS_BOUND (-1 - 6) /* values are below 2^(k + SUMS_BOUND) */
#define SUMS_UNIT_A (-52)
#define SUMS_UNIT_B (-52 - 46)
#define SUMS_LEAST_K (-1074 + 98) /* with this k the unit of b is the smallest double */
#define SUMS_MOST_K 1022

_Static_assert(1 << 6 == SUMS_FLUSH, "SUMS_BOUND and SUMS_UNIT_B have its logarithm");
_Static_assert(SUMS_VECTORS *SUMS_FLUSHES < 1 << (63 - 51), "sums of flushes do not overflow");

/* The sums in lanes while k does not change. */
struct sums_window {
	int k;
	__u32 groups;			      /* number of batches since the last flush */
	__u32 flushes;			      /* number of flushes since the last drain */
	__s64 a[SUMS_WIDEST], b[SUMS_WIDEST]; /* in units of a and of b, respectively */
};

/*
 * Add batches from the beginning of the n values x. Stop when fewer values than a batch are left, when a batch is
 * refused, or when the window must be drained. Return the number of values that were added.
 */
typedef size_t sums_kernel64(struct sums_window *w, const double *x, size_t n);
typedef size_t sums_kernel32(struct sums_window *w, const float *x, size_t n);

/*
 * Split values for sums by groups (groups.c). A value in units of 2^(low - 1075) is limb[1] * 2^SUMS_LIMB + limb[0],
 * and each limb has the value's sign. Both limbs are 0 for a zero, and for a value whose exponent field is not in
 * low..low + SUMS_RANGE. Return whether there is a value of the latter kind. low + SUMS_RANGE must be below the
 * exponent field of infinities. `limb` must have room for whole vectors of the widest kind.
 */
#define SUMS_RANGE 34
#define SUMS_LIMB 44
typedef __s64 sums_cell __attribute__((vector_size(16)));
typedef int sums_kernel_limbs(const double *x, size_t n, int low, sums_cell *limb);

/* The smallest and the largest exponent field of some values. */
struct sums_extent {
	__u32 least, most;
};
typedef struct sums_extent sums_kernel_extent(const double *x, size_t n);

struct sums_kernels {
	const char *name;
	__u32 group; /* number of values in a batch */
	sums_kernel64 *add64;
	sums_kernel32 *add32;
	sums_kernel_limbs *limbs;
	sums_kernel_extent *extent;
	void (*products)(const double *x, const double *y, double *p, double *e, size_t n);
};

extern const struct sums_kernels sums_baseline, sums_avx2, sums_avx512;

#endif
