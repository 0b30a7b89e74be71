/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions that the parts of the oracle share. The functions decode and pack
 * values, and round a rational number or a square root once. Finite values are
 * in units of quanta. A quantum is the format's smallest subnormal, 2^(1 - bias
 * - M).
 */
#ifndef ORACLE_VALUE_H
#define ORACLE_VALUE_H

#include "oracle.h"

/* A decoded value. A finite value has a sign, and a magnitude of n x 2^(e - 1) quanta. */
struct oracle_value {
	bool nan, inf, negative;
	uint64_t n;
	int e; /* biased exponent; 1 for subnormals, infinities and NaN */
};

/*
 * The value that is added to a register, which is m x 2^(e - bias - M - G), or the square in the doubled range for a
 * norm.
 */
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

/* Return the value that follows the largest finite value. A format without infinities has its NaN there. */
uint64_t oracle_pack_infinity(struct fpisa_format f, bool negative);
uint64_t oracle_pack_nan(struct fpisa_format f);

/* Pack the result if it is infinite or NaN, and OR its flag into *flags. Return false if the result is finite. */
bool oracle_pack_special(struct fpisa_format f, bool nan, bool pinf, bool ninf, uint64_t *word, uint32_t *flags);

/*
 * Return k x 2^q quanta as a packed value. k <= 2^(M+1), and k >= 2^M unless q is 0.
 * Return infinity with its flags if the value is out of range. No product of a sum
 * and a factor reaches q = 2^(64 - M) - 2.
 */
uint64_t oracle_pack_finite(struct fpisa_format f, bool negative, uint64_t k, int q, uint32_t *flags);

/*
 * Set k to the integer nearest to num / den, or to the floor if `down` is set. den
 * must be positive, and k must not be num or den. Return whether the quotient is
 * exact.
 */
bool oracle_round_quotient(mpz_t k, const mpz_t num, const mpz_t den, enum fpisa_rounding rounding);

/*
 * Return num / den quanta as a packed value, rounded once. den must be positive. If
 * the degree is 2, the value is the root of num / den squared quanta, and num must
 * not be negative. The function overwrites num and den.
 */
uint64_t oracle_round_ratio(struct fpisa_format f, mpz_t num, mpz_t den, int degree, enum fpisa_rounding rounding,
			    uint32_t *flags);

/* Set the registers to an entry, or add an entry, as oracle_set() and oracle_add() do. */
void oracle_take(struct oracle_reg *reg, const struct oracle_entry *in);
void oracle_add_entry(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode,
		      const struct oracle_entry *in, struct oracle_events *events);

/*
 * Return the error of fraction x 2^p quanta in ulps of the correct result `nearest`. Set *absolute to the error as a
 * number.
 */
double oracle_in_ulps(struct fpisa_format f, const struct oracle_value *nearest, double fraction, long p,
		      double *absolute);

/* Multiply num / den by 2^p. p may be negative. */
void oracle_ratio_shift(mpz_t num, mpz_t den, int p);

/* Apply the operation of c to num / den, which is the sum of n contributions. Leave out the root and the rounding. */
void oracle_ratio_apply(const struct oracle_call *c, size_t n, mpz_t num, mpz_t den);

#endif
