/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle is a second implementation of the numbers contract
 * (doc/numbers.md). The oracle was written from the text of the contract, and
 * not from mau.h, with plain integers and GMP. Tests compare every executor
 * with the oracle, and `fpisa demo` compares every element of its results.
 *
 * Words are packed values in the low bits, whatever the width of the format. In
 * every format E <= 11, M <= 52 and R <= 64. The bias is 2^(E-1) - 1.
 *
 * value.c has the packed values and the rounding, oracle.c the registers,
 * exact.c the exact sums, op.c the operations, and mx.c the blocks with a
 * shared exponent.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <gmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fpisa/format.h"

/*
 * The registers of one element. Their value is m x 2^(e - bias - M - G). The flags record NaNs and infinities that were
 * added.
 */
struct oracle_reg {
	int e;
	bool nan, pinf, ninf;
	int64_t m;
};

/* Numbers of adds that had each event. */
struct oracle_events {
	uint64_t rounded;      /* a shift dropped a nonzero bit */
	uint64_t overwritten;  /* a nonzero stored mantissa was discarded */
	uint64_t left_shifted; /* the incoming mantissa was shifted left */
	uint64_t overflowed;   /* the register saturated */
};

void oracle_events_add(struct oracle_events *events, const struct oracle_events *more);

/* Set the registers to the first contribution. */
void oracle_set(struct oracle_reg *reg, struct fpisa_format f, uint64_t word);

/* Add a further contribution, and add its events to *events. */
void oracle_add(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode, uint64_t word,
		struct oracle_events *events);

/* Return the registers as a packed value. OR FPISA_OVERFLOW and other flags into *flags. */
uint64_t oracle_read(const struct oracle_reg *reg, struct fpisa_format f, enum fpisa_rounding rounding, uint32_t *flags);

/* Return the result flags of the events. */
uint32_t oracle_event_flags(const struct oracle_events *events);

/* The requested operation. `f` includes the register of the mode. The contract lists the valid combinations. */
struct oracle_call {
	struct fpisa_format f;
	enum fpisa_mode mode;
	enum fpisa_rounding rounding;
	int op;		 /* enum fpisa_op */
	double factor;	 /* for scale; finite and not 0 */
	bool reciprocal; /* avg multiplies by 1/n, rounded to 24 bits, or to 53 bits for fp64 */
};

/*
 * The steps of a sum in a register, for all operations except min and max. For
 * int32 the register's m is the integer and e is 0.
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
 * Return the error of a result in ulps, which is |result - exact result of c| in units of the last place of the nearest
 * value. For sums this equals oracle_exact_error(). All floating-point formats and all operations except min and max
 * are supported. The root of a norm is computed to 2^-64 of the smallest subnormal. Set *correct to whether the result
 * is the nearest value.
 */
double oracle_result_error(const struct oracle_call *c, uint64_t result, size_t n, const uint64_t *words,
			   double *absolute, bool *correct);

/* Return the value nearest to the exact result of c. */
uint64_t oracle_result_nearest(const struct oracle_call *c, size_t n, const uint64_t *words);

/* A block of mxint8 in memory. Its 32 elements are k x 2^(scale - 127 - 6), or NaN if the scale is 255. */
#define ORACLE_MX_LANES 32

struct oracle_mx {
	uint8_t scale;
	int8_t k[ORACLE_MX_LANES];
};

/* Compute the result of a block, like oracle_result(), for sum, avg and scale. Each element counts as one event. */
void oracle_result_mx(const struct oracle_call *c, size_t n, const struct oracle_mx *blocks, struct oracle_mx *out,
		      struct oracle_events *events, uint32_t *flags);

/* Set, add to and read the registers of a block, lane by lane, in the modes with registers. */
void oracle_mx_set(struct oracle_reg reg[ORACLE_MX_LANES], const struct oracle_call *c, const struct oracle_mx *block);
void oracle_mx_add(struct oracle_reg reg[ORACLE_MX_LANES], const struct oracle_call *c, const struct oracle_mx *block,
		   struct oracle_events *events);
void oracle_mx_read(const struct oracle_reg reg[ORACLE_MX_LANES], const struct oracle_call *c, size_t n,
		    struct oracle_mx *out, uint32_t *flags);

/*
 * An exact sum of up to 2^60 values, as an integer in two's complement with 2^E
 * + M + 60 bits, in units of the format's smallest subnormal.
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

/* Add n x 2^p smallest subnormals to x, or subtract them if `negative` is set. 0 <= p < 2^E. */
void oracle_exact_accumulate(struct oracle_exact *x, bool negative, uint64_t n, int p);

/* Set *sum to the sum in smallest subnormals. The caller must have initialised *sum. */
void oracle_exact_value(const struct oracle_exact *x, mpz_t sum);

/* Return the sum, rounded once. Zeros are always +0. OR flags of the read-out into *flags. */
uint64_t oracle_exact_round(const struct oracle_exact *x, enum fpisa_rounding rounding, uint32_t *flags);

/* Return the packed value nearest to the sum, ties to even. */
uint64_t oracle_exact_read(const struct oracle_exact *x);

/*
 * Return |result - sum| in ulps of oracle_exact_read(x). `fpisa analyze` and `fpisa
 * demo` call this an error in ulps. The error of a correctly rounded result is at
 * most 1/2. The ulp of zero is the smallest subnormal. Equal infinities and any two
 * NaNs differ by 0. If only the result or only the sum is finite, or if their
 * infinities differ, the error is INFINITY. If `absolute` is not NULL, set *absolute
 * to the same difference as a number.
 */
double oracle_exact_error(const struct oracle_exact *x, uint64_t result, double *absolute);

/* Return the error of the result against the exact sum of n words, like oracle_exact_error(). */
double oracle_ulp_error(struct fpisa_format f, uint64_t result, size_t n, const uint64_t *words, double *absolute);

#endif
