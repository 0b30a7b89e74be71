/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle: the numbers contract once more, written from its text and not
 * from mau.h, with plain integers and GMP. Tests hold every executor to it;
 * `fpisa demo` checks every element of its results against it.
 *
 * Words are packed values, low bits first, whatever the width of the format.
 * A format has E <= 11, M <= 52, R <= 64; the bias is 2^(E-1) - 1.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <gmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fpisa/format.h"

/* One element's registers: m x 2^(e - bias - M - G), and what specials have been seen. */
struct oracle_reg {
	int e;
	bool nan, pinf, ninf;
	int64_t m;
};

/* Adds to which this happened. */
struct oracle_events {
	uint64_t rounded;      /* a nonzero bit was lost to a shift */
	uint64_t overwritten;  /* a nonzero stored mantissa was discarded */
	uint64_t left_shifted; /* the incoming mantissa moved left */
	uint64_t overflowed;   /* the register saturated */
};

/* First contribution: the registers take its value. */
void oracle_set(struct oracle_reg *reg, struct fpisa_format f, uint64_t word);

/* Further contributions; *events is added to. */
void oracle_add(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode, uint64_t word,
		struct oracle_events *events);

/* Registers to a packed value; FPISA_OVERFLOW and the like are ORed into *flags. */
uint64_t oracle_read(const struct oracle_reg *reg, struct fpisa_format f, enum fpisa_rounding rounding,
		     uint32_t *flags);

/* The result flags that events stand for. */
uint32_t oracle_event_flags(const struct oracle_events *events);

/*
 * One element from beginning to end: n >= 1 words in the order of arrival.
 * Events are added to *events, flags (of adds and read-out) ORed into *flags;
 * both may be NULL.
 */
uint64_t oracle_replay(struct fpisa_format f, enum fpisa_mode mode, enum fpisa_rounding rounding, size_t n,
		       const uint64_t *words, struct oracle_events *events, uint32_t *flags);

/*
 * An exact sum of up to 2^60 values: an integer in two's complement, in units
 * of the format's smallest subnormal. 2^E + M + 60 bits.
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

/* The sum rounded once; every zero is +0. Flags of the read-out are ORed into *flags. */
uint64_t oracle_exact_round(const struct oracle_exact *x, enum fpisa_rounding rounding, uint32_t *flags);

/* The packed value nearest to the sum, ties to even. */
uint64_t oracle_exact_read(const struct oracle_exact *x);

/*
 * |result - sum| in ulps of oracle_exact_read(x); the smallest subnormal is
 * the ulp of zero. Equal infinities and any two NaNs differ by 0; where just
 * one is special, or the infinities differ, the error is INFINITY. The same
 * difference as a number in *absolute, which may be NULL.
 */
double oracle_exact_error(const struct oracle_exact *x, uint64_t result, double *absolute);

/* The same for n words at once. */
double oracle_ulp_error(struct fpisa_format f, uint64_t result, size_t n, const uint64_t *words,
			double *absolute);

#endif
