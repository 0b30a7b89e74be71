/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle: a second implementation of the numbers contract, written from its
 * text and not from mau.h, with plain integers and GMP. Tests compare every
 * executor with it, and `fpisa demo` every element of its results.
 *
 * Words are packed values, low bits first, whatever the width of the format.
 * A format has E <= 11, M <= 52, R <= 64. The bias is 2^(E-1) - 1.
 *
 * Packed values and roundings are in value.c, registers in oracle.c,
 * exact sums in exact.c, operations in op.c, blocks with a
 * shared exponent in mx.c.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <gmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fpisa/format.h"

/* One element's registers: m x 2^(e - bias - M - G), and the specials that have been added. */
struct oracle_reg {
	int e;
	bool nan, pinf, ninf;
	int64_t m;
};

/* Numbers of adds with each event. */
struct oracle_events {
	uint64_t rounded;      /* a nonzero bit was lost to a shift */
	uint64_t overwritten;  /* a nonzero stored mantissa was discarded */
	uint64_t left_shifted; /* the incoming mantissa moved left */
	uint64_t overflowed;   /* the register saturated */
};

void oracle_events_add(struct oracle_events *events, const struct oracle_events *more);

/* Set the registers to the first contribution. */
void oracle_set(struct oracle_reg *reg, struct fpisa_format f, uint64_t word);

/* Add a further contribution, and its events to *events. */
void oracle_add(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode, uint64_t word,
		struct oracle_events *events);

/* Return the registers as a packed value. OR FPISA_OVERFLOW and other flags into *flags. */
uint64_t oracle_read(const struct oracle_reg *reg, struct fpisa_format f, enum fpisa_rounding rounding, uint32_t *flags);

/* Return the result flags of the events. */
uint32_t oracle_event_flags(const struct oracle_events *events);

/* The requested operation; .f has the register of the mode. The contract says which combinations exist. */
struct oracle_call {
	struct fpisa_format f;
	enum fpisa_mode mode;
	enum fpisa_rounding rounding;
	int op;		 /* enum fpisa_op */
	double factor;	 /* for scale: finite, not 0 */
	bool reciprocal; /* avg multiplies by 1/n rounded to 24 bits, 53 for fp64 */
};

/*
 * Do the same steps for all operations on a sum, which min and max are not, in the
 * modes with a register. A register of int32 has the integer in m, and e is 0.
 */
void oracle_op_set(struct oracle_reg *reg, const struct oracle_call *c, uint64_t word, struct oracle_events *events);
void oracle_op_add(struct oracle_reg *reg, const struct oracle_call *c, uint64_t word, struct oracle_events *events);
uint64_t oracle_op_read(const struct oracle_reg *reg, const struct oracle_call *c, size_t n, uint32_t *flags);

/*
 * Return the result of one element from n >= 1 words in the order of arrival. Add
 * events to *events, and OR flags of adds and read-out into *flags. Either pointer
 * may be NULL.
 */
uint64_t oracle_result(const struct oracle_call *c, size_t n, const uint64_t *words, struct oracle_events *events,
		       uint32_t *flags);

/* Return the sum of one element, like oracle_result(). */
uint64_t oracle_replay(struct fpisa_format f, enum fpisa_mode mode, enum fpisa_rounding rounding, size_t n,
		       const uint64_t *words, struct oracle_events *events, uint32_t *flags);

/*
 * Return the error of a result in ulps: |result - exact result of c| in units of the last place of the nearest value, as
 * oracle_exact_error() does for sums. Supports floats and all operations except min and max. The
 * root of a norm is computed to 2^-64 of the smallest subnormal. Set *correct to
 * whether the result is the nearest value.
 */
double oracle_result_error(const struct oracle_call *c, uint64_t result, size_t n, const uint64_t *words,
			   double *absolute, bool *correct);

/* Return the value nearest to the exact result of c. */
uint64_t oracle_result_nearest(const struct oracle_call *c, size_t n, const uint64_t *words);

/* A block of mxint8 in memory: 32 elements k x 2^(scale - 127 - 6), or NaN if the scale is 255. */
#define ORACLE_MX_LANES 32

struct oracle_mx {
	uint8_t scale;
	int8_t k[ORACLE_MX_LANES];
};

/* Compute the result of a block, like oracle_result(), for sum, avg and scale. Events count each element. */
void oracle_result_mx(const struct oracle_call *c, size_t n, const struct oracle_mx *blocks, struct oracle_mx *out,
		      struct oracle_events *events, uint32_t *flags);

/* Set, add to and read the registers of a block, lane by lane, in the modes with registers. */
void oracle_mx_set(struct oracle_reg reg[ORACLE_MX_LANES], const struct oracle_call *c, const struct oracle_mx *block);
void oracle_mx_add(struct oracle_reg reg[ORACLE_MX_LANES], const struct oracle_call *c, const struct oracle_mx *block,
		   struct oracle_events *events);
void oracle_mx_read(const struct oracle_reg reg[ORACLE_MX_LANES], const struct oracle_call *c, size_t n,
		    struct oracle_mx *out, uint32_t *flags);

/*
 * An exact sum of up to 2^60 values: an integer in two's complement, in units
 * of the format's smallest subnormal, with 2^E + M + 60 bits.
 */
#define ORACLE_LIMBS ((2048 + 52 + 60) / 64 + 1)

struct oracle_exact {
	struct fpisa_format f;
	bool nan, pinf, ninf;
	int limbs;
	mp_limb_t sum[ORACLE_LIMBS];
};

void oracle_exact_init(struct oracle_exact *x, struct fpisa_format f);
void oracle_exact_add(struct oracle_exact *x, uint64_t word);

/* Add n x 2^p smallest subnormals to x, or subtract them if negative; 0 <= p < 2^E. */
void oracle_exact_accumulate(struct oracle_exact *x, bool negative, uint64_t n, int p);

/* Set *sum, which is initialised, to the sum in smallest subnormals. */
void oracle_exact_value(const struct oracle_exact *x, mpz_t sum);

/* Return the sum, rounded once. Every zero is +0. OR flags of the read-out into *flags. */
uint64_t oracle_exact_round(const struct oracle_exact *x, enum fpisa_rounding rounding, uint32_t *flags);

/* Return the packed value nearest to the sum, ties to even. */
uint64_t oracle_exact_read(const struct oracle_exact *x);

/*
 * Return |result - sum| in ulps of oracle_exact_read(x), which analyze and demo call
 * an error in ulps. A correctly rounded result has at most 1/2. The smallest
 * subnormal is the ulp of zero. Equal infinities and any two NaNs differ by 0. If
 * only one is special, or the infinities differ, the error is INFINITY. Set
 * *absolute to the same difference as a number, unless absolute is NULL.
 */
double oracle_exact_error(const struct oracle_exact *x, uint64_t result, double *absolute);

/* Return the error of the result against the exact sum of n words, like oracle_exact_error(). */
double oracle_ulp_error(struct fpisa_format f, uint64_t result, size_t n, const uint64_t *words, double *absolute);

#endif
