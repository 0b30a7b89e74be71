// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packed values, and the rounding of rational numbers. value.h documents the
 * functions. Values are decoded with plain `if` statements and packed by counting
 * quanta. A value between two packed values is rounded by comparing exact
 * products, without guard or sticky bits.
 */
#include "value.h"

#include <math.h>

struct oracle_value oracle_decode(struct fpisa_format f, uint64_t word)
{
	uint64_t field = word / oracle_pow2(f.mbits) % oracle_pow2(f.ebits);
	uint64_t fraction = word % oracle_pow2(f.mbits);
	struct oracle_value d = {.negative = word / oracle_pow2(f.mbits) / oracle_pow2(f.ebits) % 2, .e = 1};

	if (f.finite && field == oracle_pow2(f.ebits) - 1 && fraction == oracle_pow2(f.mbits) - 1) {
		d.nan = true;
	} else if (!f.finite && field == oracle_pow2(f.ebits) - 1) {
		d.nan = fraction != 0;
		d.inf = fraction == 0;
	} else if (field == 0) {
		d.n = fraction;
	} else {
		d.n = fraction + oracle_pow2(f.mbits);
		d.e = (int)field;
	}
	return d;
}

uint64_t oracle_pack_infinity(struct fpisa_format f, bool negative)
{
	if (f.finite)
		return oracle_pow2(f.ebits + f.mbits) - 1;
	uint64_t word = (oracle_pow2(f.ebits) - 1) * oracle_pow2(f.mbits);

	return negative ? word + oracle_pow2(f.ebits + f.mbits) : word;
}

uint64_t oracle_pack_nan(struct fpisa_format f)
{
	return f.finite ? oracle_pack_infinity(f, false) : oracle_pack_infinity(f, false) + oracle_pow2(f.mbits - 1);
}

bool oracle_pack_special(struct fpisa_format f, bool nan, bool pinf, bool ninf, uint64_t *word, uint32_t *flags)
{
	if (nan || (pinf && ninf)) {
		*word = oracle_pack_nan(f);
		*flags |= FPISA_NAN;
		return true;
	}
	if (pinf || ninf) {
		*word = oracle_pack_infinity(f, ninf);
		*flags |= FPISA_INF;
		return true;
	}
	return false;
}

uint64_t oracle_pack_finite(struct fpisa_format f, bool negative, uint64_t k, int q, uint32_t *flags)
{
	uint64_t field = 0;

	if (k == 0)
		return 0;
	if (k == oracle_pow2(f.mbits + 1)) {
		k = oracle_pow2(f.mbits);
		q++;
	}
	if (k >= oracle_pow2(f.mbits)) {
		k -= oracle_pow2(f.mbits);
		field = (uint64_t)q + 1;
	}
	if (field * oracle_pow2(f.mbits) + k >= oracle_pack_infinity(f, false)) {
		*flags |= FPISA_OVERFLOW | FPISA_INEXACT | (f.finite ? FPISA_NAN : FPISA_INF);
		return oracle_pack_infinity(f, negative);
	}
	return k + field * oracle_pow2(f.mbits) + (negative ? oracle_pow2(f.ebits + f.mbits) : 0);
}

bool oracle_round_quotient(mpz_t k, const mpz_t num, const mpz_t den, enum fpisa_rounding rounding)
{
	mpz_t rest;
	bool exact;
	int half;

	mpz_init(rest);
	mpz_fdiv_qr(k, rest, num, den); /* 0 <= rest < den */
	exact = mpz_sgn(rest) == 0;
	mpz_mul_2exp(rest, rest, 1);
	half = mpz_cmp(rest, den);
	if (rounding == FPISA_ROUND_NEAREST && (half > 0 || (half == 0 && mpz_odd_p(k))))
		mpz_add_ui(k, k, 1);
	mpz_clear(rest);
	return exact;
}

/* Round the root of num / den for num >= 0, like oracle_round_quotient(). */
static bool round_root(mpz_t k, const mpz_t num, const mpz_t den, enum fpisa_rounding rounding)
{
	mpz_t square, middle;
	bool exact;
	int half;

	mpz_inits(square, middle, NULL);
	mpz_tdiv_q(square, num, den);
	mpz_sqrt(k, square);
	mpz_mul(square, k, k);
	mpz_mul(square, square, den);
	exact = mpz_cmp(square, num) == 0;

	/* compare the root with k + 1/2 by comparing 4 num / den with (2k + 1)^2 */
	mpz_mul_2exp(middle, k, 1);
	mpz_add_ui(middle, middle, 1);
	mpz_mul(middle, middle, middle);
	mpz_mul(middle, middle, den);
	mpz_mul_2exp(square, num, 2);
	half = mpz_cmp(square, middle);
	if (rounding == FPISA_ROUND_NEAREST && (half > 0 || (half == 0 && mpz_odd_p(k))))
		mpz_add_ui(k, k, 1);
	mpz_clears(square, middle, NULL);
	return exact;
}

/* Return the largest p with 2^p <= |num / den|. num must not be 0. */
static int floor_log2(const mpz_t num, const mpz_t den)
{
	int p = (int)mpz_sizeinbase(num, 2) - (int)mpz_sizeinbase(den, 2);
	mpz_t scaled;
	bool less;

	mpz_init(scaled);
	if (p >= 0) {
		mpz_mul_2exp(scaled, den, p);
		less = mpz_cmpabs(num, scaled) < 0;
	} else {
		mpz_mul_2exp(scaled, num, -p);
		less = mpz_cmpabs(scaled, den) < 0;
	}
	mpz_clear(scaled);
	return less ? p - 1 : p;
}

uint64_t oracle_round_ratio(struct fpisa_format f, mpz_t num, mpz_t den, int degree, enum fpisa_rounding rounding,
			    uint32_t *flags)
{
	bool negative = mpz_sgn(num) < 0, exact;
	uint64_t word;
	int p, q;
	mpz_t k;

	if (mpz_sgn(num) == 0)
		return 0;
	p = floor_log2(num, den);
	if (degree == 2)
		p = p >= 0 ? p / 2 : -1;
	q = p > f.mbits ? p - f.mbits : 0;
	mpz_mul_2exp(den, den, degree * q);
	mpz_init(k);
	exact = degree == 2 ? round_root(k, num, den, rounding) : oracle_round_quotient(k, num, den, rounding);
	if (!exact)
		*flags |= FPISA_INEXACT;
	word = oracle_pack_finite(f, negative, mpz_get_ui(k), q, flags); /* the magnitude of k */
	mpz_clear(k);
	return word;
}

double oracle_in_ulps(struct fpisa_format f, const struct oracle_value *nearest, double fraction, long p,
		      double *absolute)
{
	*absolute = ldexp(fraction, (int)p + 2 - (1 << (f.ebits - 1)) - f.mbits);
	return ldexp(fraction, (int)p - (nearest->e - 1));
}

void oracle_ratio_shift(mpz_t num, mpz_t den, int p)
{
	if (p >= 0)
		mpz_mul_2exp(num, num, p);
	else
		mpz_mul_2exp(den, den, -p);
}

/* Multiply num / den by the value nearest to 1 / n with `bits` significant bits. */
static void apply_reciprocal(mpz_t num, mpz_t den, size_t n, int bits)
{
	mpz_t one, by, r;
	int p;

	mpz_inits(one, by, r, NULL);
	mpz_set_ui(one, 1);
	mpz_set_ui(by, n);
	p = bits - 1 - floor_log2(one, by);
	mpz_mul_2exp(one, one, p); /* 2^(bits - 1) <= one / n < 2^bits */
	oracle_round_quotient(r, one, by, FPISA_ROUND_NEAREST);
	mpz_mul(num, num, r);
	oracle_ratio_shift(num, den, -p);
	mpz_clears(one, by, r, NULL);
}

static void apply_factor(mpz_t num, mpz_t den, double factor)
{
	int p;
	long m = (long)ldexp(frexp(factor, &p), 53);

	mpz_mul_si(num, num, m);
	oracle_ratio_shift(num, den, p - 53);
}

void oracle_ratio_apply(const struct oracle_call *c, size_t n, mpz_t num, mpz_t den)
{
	if (c->op == FPISA_OP_SCALE)
		apply_factor(num, den, c->factor);
	else if (c->op == FPISA_OP_AVG && c->reciprocal)
		apply_reciprocal(num, den, n, c->f.mbits == 52 ? 53 : 24);
	else if (c->op == FPISA_OP_AVG)
		mpz_mul_ui(den, den, n);
}
