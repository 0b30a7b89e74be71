/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Declarations that the files of this directory share; none is visible outside the library. */
#ifndef SUMS_INNER_H
#define SUMS_INNER_H

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

/* The mantissa with its implied one; its unit is 2^(max(exponent, 1) - 1075). */
static __always_inline __u64 sums_mantissa(__u64 bits)
{
	return (bits & ((1ull << 52) - 1)) | (__u64)(sums_exponent(bits) != 0) << 52;
}

/* -- the thread's floating-point environment ---------------------------------------- */

#ifdef __x86_64__
/* The MXCSR register: doubles use nothing else, and fesetenv() takes as long as a hundred values. */
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

/* Adds v * 2^exponent to the limbs alone; the exponent is not below -1074, and the result in range. */
void sums_add_scaled(union fpisa_superacc_full *a, __int128 v, int exponent);

static inline void sums_add_double(union fpisa_superacc_full *a, double x)
{
	(void)fpisa_superacc_add(&a->acc, sums_bits(x), sums_format(), 0);
}

/* The bits of a in a FPISA_FORMAT_*, at `out`, little-endian. Returns their bytes. */
__u32 sums_store(const union fpisa_superacc_full *a, int format, int average, void *out);

/* -- bins -------------------------------------------------------------------------- */

/*
 * A sum for each sign and exponent (after Neal's large superaccumulator): values of any magnitudes, for which lanes
 * are too narrow. Mantissas add up in `fresh` while they cannot overflow, then go to two halves, each with 32 of
 * their bits. Only bins of exponents from least to most are in use; the others are not even cleared.
 */
#define SUMS_BINS 4096
#define SUMS_FRESH (1u << 11)	    /* adds until `fresh` may overflow */
#define SUMS_BINS_ADDS (1ull << 31) /* until a half may overflow */

struct sums_bins {
	__u64 adds;    /* since the last drain */
	__u32 waiting; /* of these in `fresh` */
	__u32 least, most;
	__u64 nan, pinf, ninf;
	__u64 fresh[SUMS_BINS], low[SUMS_BINS], high[SUMS_BINS];
};

/* NULL: no memory. free() ends them. */
struct sums_bins *sums_bins_new(void);
/* n is SUMS_FRESH at most. */
void sums_bins_add(struct sums_bins *b, const struct sums_kernels *k, const double *x, size_t n);
/* Adds what bins have to a, counts of specials too, and clears them. */
void sums_bins_drain(struct sums_bins *b, union fpisa_superacc_full *a);

/* -- runs --------------------------------------------------------------------------- */

/* Values on their way into an accumulator: begin, any number of adds, end. */
struct sums_run {
	union fpisa_superacc_full *a;
	const struct sums_kernels *kernels;
	struct sums_bins *bins; /* NULL before the first use, and without memory */
	struct sums_window w;
	int open;      /* does w have a k? */
	__u32 refused; /* groups */
	__u32 skip;    /* pieces that go to bins at once */
	__u32 penalty; /* how many the next bad piece makes that */
};

void sums_run_begin(struct sums_run *r, union fpisa_superacc_full *a);
void sums_run_add64(struct sums_run *r, const double *x, size_t n);
void sums_run_add32(struct sums_run *r, const float *x, size_t n);
void sums_run_end(struct sums_run *r);

/* -- arrays -------------------------------------------------------------------------- */

#define SUMS_BLOCK 512 /* values that are converted at once */

/* Write each value as one double, nulls as 0. Return how many are not null. Not for 64-bit integers. */
size_t sums_fetch_all(const struct sums_array *x, __s64 at, size_t n, double *out);
__u32 sums_type_size(int type);
/* x as half[0] + 2^32 half[1], neither of 64-bit integers. Returns how many there are: 1, or 2. */
#define SUMS_HALF 0x1p32
int sums_halves(const struct sums_array *x, struct sums_array half[2]);

/* The values of x into a run, in the way that is fastest for its layout. Returns how many were no nulls. */
__u64 sums_run_array(struct sums_run *r, const struct sums_array *x);

static inline int sums_is_valid(const struct sums_array *x, __s64 i)
{
	__u64 bit = (__u64)(x->valid_offset + i);

	return !x->valid || (x->valid[bit >> 3] >> (bit & 7) & 1);
}

#endif
