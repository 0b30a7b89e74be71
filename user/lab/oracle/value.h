/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions that the oracle's parts share: decoding and packing of values, and
 * the single rounding of a rational number or of a square root. Finite values
 * are counted in quanta, the format's smallest subnormal: 2^(1 - bias - M).
 */
#ifndef ORACLE_VALUE_H
#define ORACLE_VALUE_H

#include "oracle.h"

/* A decoded value. If finite: a sign, and n x 2^(e - 1) quanta. */
struct oracle_value {
	bool nan, inf, negative;
	uint64_t n;
	int e; /* biased exponent, 1 for subnormals and specials */
};

/* The value that enters a register: m x 2^(e - bias - M - G), or for norm its square in the doubled range. */
struct oracle_entry {
	bool nan, pinf, ninf;
	bool lost; /* the square was rounded */
	int e;
	int64_t m;
};

static inline uint64_t oracle_pow2(int p)
{
	return (uint64_t)1 << p;
}

struct oracle_value oracle_decode(struct fpisa_format f, uint64_t word);

/* Return the value beyond the largest finite value. A format without infinities has its NaN there. */
uint64_t oracle_pack_infinity(struct fpisa_format f, bool negative);
uint64_t oracle_pack_nan(struct fpisa_format f);

/* Pack the special that a result has become, and OR its flag into *flags. Return false for a finite result. */
bool oracle_pack_special(struct fpisa_format f, bool nan, bool pinf, bool ninf, uint64_t *word, uint32_t *flags);

/*
 * Return k x 2^q quanta, packed; k <= 2^(M+1), and k >= 2^M unless q is 0. No product
 * of a sum and a factor reaches q = 2^(64 - M) - 2. Return infinity beyond the
 * range, with its flags.
 */
uint64_t oracle_pack_finite(struct fpisa_format f, bool negative, uint64_t k, int q, uint32_t *flags);

/*
 * Set k to the integer nearest to num / den, den > 0, or to the floor (down). Return
 * whether the quotient is exact. k must not be one of the arguments.
 */
bool oracle_round_quotient(mpz_t k, const mpz_t num, const mpz_t den, enum fpisa_rounding rounding);

/*
 * Return num / den quanta, den > 0, rounded once and packed. With degree 2 the value
 * is the root of num / den squared quanta, num >= 0. Overwrites num and den.
 */
uint64_t oracle_round_ratio(struct fpisa_format f, mpz_t num, mpz_t den, int degree, enum fpisa_rounding rounding,
			    uint32_t *flags);

/* Set the registers to an entry, or add an entry; see oracle_set and oracle_add. */
void oracle_take(struct oracle_reg *reg, const struct oracle_entry *in);
void oracle_add_entry(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode,
		      const struct oracle_entry *in, struct oracle_events *events);

/* Return an error of fraction x 2^p quanta in ulps of the correct result `nearest`. Set *absolute to it as a number. */
double oracle_in_ulps(struct fpisa_format f, const struct oracle_value *nearest, double fraction, long p,
		      double *absolute);

/* Multiply num / den by 2^p, p of either sign. */
void oracle_ratio_shift(mpz_t num, mpz_t den, int p);

/* Apply c's operation, before the root and the rounding, to num / den, the sum of n contributions. */
void oracle_ratio_apply(const struct oracle_call *c, size_t n, mpz_t num, mpz_t den);

#endif
