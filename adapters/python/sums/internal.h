/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Declarations that the files of this directory share. The library does not export them. */
#ifndef SUMS_INTERNAL_H
#define SUMS_INTERNAL_H

#ifndef __x86_64__
#include <fenv.h>
#endif
#include <stddef.h>
#include <stdlib.h>

#include "kernel.h"

const struct sums_kernels *sums_kernels(void);

/* -- bits -------------------------------------------------------------------------- */

#define SUMS_INFINITE 2047u /* the exponent field of infinities and NaN */

static __always_inline __u64 sums_bits(double x)
{
	__u64 bits;

	__builtin_memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static __always_inline __u32 sums_exponent(__u64 bits)
{
	return bits >> 52 & SUMS_INFINITE;
}

/* Return the mantissa in units of 2^(max(exponent, 1) - 1075), including the implied one. */
static __always_inline __u64 sums_mantissa(__u64 bits)
{
	return (bits & ((1ull << 52) - 1)) | (__u64)(sums_exponent(bits) != 0) << 52;
}

/* -- the thread's floating-point environment ---------------------------------------- */

#ifdef __x86_64__
/*
 * Save only the MXCSR register, which is sufficient for doubles. fesetenv() would take as long as adding a hundred
 * values.
 */
typedef unsigned int sums_environment;

static __always_inline sums_environment sums_environment_default(void)
{
	const sums_environment had = __builtin_ia32_stmxcsr();

	__builtin_ia32_ldmxcsr(0x1f80);
	return had;
}

static __always_inline void sums_environment_restore(sums_environment env)
{
	__builtin_ia32_ldmxcsr(env);
}
#else
typedef fenv_t sums_environment;

static __always_inline sums_environment sums_environment_default(void)
{
	sums_environment had;

	(void)fegetenv(&had);
	(void)fesetenv(FE_DFL_ENV);
	return had;
}

static __always_inline void sums_environment_restore(sums_environment env)
{
	(void)fesetenv(&env);
}
#endif

/* -- accumulators ------------------------------------------------------------------ */

static __always_inline struct fpisa_format sums_format(void)
{
	return fpisa_superacc_format(FPISA_FORMAT_FP64);
}

/* Add v * 2^exponent to the limbs. The exponent must be at least -1074, and the result must be in range. */
void sums_add_scaled(union fpisa_superacc_full *a, __int128 v, int exponent);

static inline void sums_add_double(union fpisa_superacc_full *a, double x)
{
	(void)fpisa_superacc_add(&a->acc, sums_bits(x), sums_format(), 0);
}

/* Store the value of `a` at `out` in the format FPISA_FORMAT_*, little-endian. Return the number of bytes written. */
__u32 sums_store(const union fpisa_superacc_full *a, int format, int average, void *out);

/* -- bins -------------------------------------------------------------------------- */

/*
 * One sum for each sign and exponent (after Neal's large superaccumulator). Bins add values whose magnitudes differ too
 * much for lanes. The sum of mantissas is in `fresh`, until it might overflow. Then its upper and lower 32 bits are
 * added to `high` and `low`. Only the bins from `least` to `most` are in use, and other bins are not even cleared.
 */
#define SUMS_BINS 4096
#define SUMS_FRESH (1u << 11)	    /* number of adds before `fresh` may overflow */
#define SUMS_BINS_ADDS (1ull << 31) /* number of adds before `low` or `high` may overflow */

struct sums_bins {
	__u64 adds;    /* number of adds since the last drain */
	__u32 waiting; /* number of adds that are still in `fresh` */
	__u32 least, most;
	__u64 nan, pinf, ninf;
	__u64 fresh[SUMS_BINS], low[SUMS_BINS], high[SUMS_BINS];
};

/* Allocate bins. Release them with free(). Return NULL if there is no memory. */
struct sums_bins *sums_bins_new(void);
/* Add n values. n is at most SUMS_FRESH. */
void sums_bins_add(struct sums_bins *b, const struct sums_kernels *k, const double *x, size_t n);
/* Add the contents of the bins to `a`, including the counts of infinities and NaN, and clear the bins. */
void sums_bins_drain(struct sums_bins *b, union fpisa_superacc_full *a);

/* -- runs --------------------------------------------------------------------------- */

/*
 * A run adds values to an accumulator. Call sums_run_begin(), then the functions that add, any number of times, and then
 * sums_run_end().
 */
struct sums_run {
	union fpisa_superacc_full *a;
	const struct sums_kernels *kernels;
	struct sums_bins *bins; /* NULL before the first use, or if there is no memory */
	struct sums_window w;
	int open;      /* whether `w` has a value of k */
	__u32 refused; /* number of refused batches */
	__u32 skip;    /* number of pieces that go to bins without trying lanes */
	__u32 penalty; /* number of pieces to skip after the next piece that lanes refuse */
};

void sums_run_begin(struct sums_run *r, union fpisa_superacc_full *a);
void sums_run_add64(struct sums_run *r, const double *x, size_t n);
void sums_run_add32(struct sums_run *r, const float *x, size_t n);
void sums_run_end(struct sums_run *r);

/* -- arrays -------------------------------------------------------------------------- */

#define SUMS_BLOCK 512 /* number of values that are converted together */

/*
 * Write each value as one double, and nulls as 0. Return the number of values that are not null. 64-bit integers are
 * not supported.
 */
size_t sums_fetch_all(const struct sums_array *x, __s64 at, size_t n, double *out);
__u32 sums_type_size(int type);
/*
 * Split x so that its values are half[0] + 2^32 half[1]. The halves do not contain 64-bit integers. Return the number
 * of halves, 1 or 2.
 */
#define SUMS_HALF 0x1p32
int sums_halves(const struct sums_array *x, struct sums_array half[2]);

/*
 * Add the values of x to a run in the fastest way for the array's layout. Return the number of values that are not
 * null.
 */
__u64 sums_run_array(struct sums_run *r, const struct sums_array *x);

static inline int sums_is_valid(const struct sums_array *x, __s64 i)
{
	__u64 bit = (__u64)(x->valid_offset + i);

	return !x->valid || (x->valid[bit >> 3] >> (bit & 7) & 1);
}

#endif
