// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's exact sums, and errors relative to them. oracle.h documents the
 * functions. A sum is one long integer of GMP limbs inside the struct. Only the
 * read-out allocates memory.
 */
#include <math.h>
#include <string.h>

#include "value.h"

#define LIMB_BITS 64
_Static_assert(GMP_NUMB_BITS == LIMB_BITS, "limbs are whole 64-bit words");

void oracle_exact_init(struct oracle_exact *x, struct fpisa_format f)
{
	memset(x, 0, sizeof(*x));
	x->f = f;
	x->limbs = ((1 << f.ebits) + f.mbits + 60) / LIMB_BITS + 1;
}

/* Add at any position. p + 64 bits are far below the top limb. */
void oracle_exact_accumulate(struct oracle_exact *x, bool negative, uint64_t n, int p)
{
	mp_limb_t part[2] = {n << p % LIMB_BITS, p % LIMB_BITS ? n >> (LIMB_BITS - p % LIMB_BITS) : 0};
	int at = p / LIMB_BITS;

	if (n == 0)
		return;
	if (negative)
		mpn_sub(x->sum + at, x->sum + at, x->limbs - at, part, 2);
	else
		mpn_add(x->sum + at, x->sum + at, x->limbs - at, part, 2);
}

void oracle_exact_add(struct oracle_exact *x, uint64_t word)
{
	struct oracle_value d = oracle_decode(x->f, word);

	x->nan |= d.nan;
	x->pinf |= d.inf && !d.negative;
	x->ninf |= d.inf && d.negative;
	oracle_exact_accumulate(x, d.negative, d.n, d.e - 1);
}

/* Store |x| as limbs, and let *view refer to them. Return whether x is negative. */
static bool magnitude_of(const struct oracle_exact *x, mp_limb_t *limbs, mpz_t view)
{
	bool negative = x->sum[x->limbs - 1] >> (LIMB_BITS - 1);

	if (negative)
		mpn_neg(limbs, x->sum, x->limbs);
	else
		mpn_copyi(limbs, x->sum, x->limbs);
	mpz_roinit_n(view, limbs, x->limbs);
	return negative;
}

void oracle_exact_value(const struct oracle_exact *x, mpz_t sum)
{
	mp_limb_t limbs[ORACLE_LIMBS];
	mpz_t view;

	if (magnitude_of(x, limbs, view))
		mpz_neg(sum, view);
	else
		mpz_set(sum, view);
}

/* Return q, where 2^q is the quantum of a value with this number of bits. */
static int quantum(struct fpisa_format f, size_t bits)
{
	return bits > (size_t)f.mbits + 1 ? (int)bits - f.mbits - 1 : 0;
}

uint64_t oracle_exact_round(const struct oracle_exact *x, enum fpisa_rounding rounding, uint32_t *flags)
{
	mp_limb_t limbs[ORACLE_LIMBS];
	mpz_t view, k, rest;
	bool negative, up;
	uint64_t word;
	int q;

	if (oracle_pack_special(x->f, x->nan, x->pinf, x->ninf, &word, flags))
		return word;
	negative = magnitude_of(x, limbs, view);
	if (mpz_sgn(view) == 0)
		return 0;
	q = quantum(x->f, mpz_sizeinbase(view, 2));
	mpz_inits(k, rest, NULL);
	mpz_fdiv_q_2exp(k, view, q);
	mpz_fdiv_r_2exp(rest, view, q);
	if (mpz_sgn(rest))
		*flags |= FPISA_INEXACT;
	if (rounding == FPISA_ROUND_DOWN) {
		up = negative && mpz_sgn(rest);
	} else {
		mpz_mul_2exp(rest, rest, 1);
		up = q > 0 && mpz_sizeinbase(rest, 2) == (size_t)q + 1 &&
		     (mpz_scan1(rest, 0) != (mp_bitcnt_t)q || mpz_odd_p(k));
	}
	word = oracle_pack_finite(x->f, negative, mpz_get_ui(k) + up, q, flags);
	mpz_clears(k, rest, NULL);
	return word;
}

uint64_t oracle_exact_read(const struct oracle_exact *x)
{
	uint32_t flags = 0;

	return oracle_exact_round(x, FPISA_ROUND_NEAREST, &flags);
}

double oracle_exact_error(const struct oracle_exact *x, uint64_t result, double *absolute)
{
	uint64_t nearest = oracle_exact_read(x);
	struct oracle_value r = oracle_decode(x->f, result), s = oracle_decode(x->f, nearest);
	struct oracle_exact difference = *x;
	mp_limb_t limbs[ORACLE_LIMBS];
	double fraction, error;
	mpz_t view;
	long exponent;

	if (r.nan || r.inf || s.nan || s.inf) {
		error = (r.nan && s.nan) || result == nearest ? 0 : INFINITY;
		if (absolute)
			*absolute = error;
		return error;
	}
	oracle_exact_accumulate(&difference, !r.negative, r.n, r.e - 1);
	magnitude_of(&difference, limbs, view);
	fraction = mpz_get_d_2exp(&exponent, view);
	return oracle_in_ulps(x->f, &s, fraction, exponent, absolute ? absolute : &error);
}

double oracle_ulp_error(struct fpisa_format f, uint64_t result, size_t n, const uint64_t *words, double *absolute)
{
	struct oracle_exact x;

	oracle_exact_init(&x, f);
	for (size_t i = 0; i < n; i++)
		oracle_exact_add(&x, words[i]);
	return oracle_exact_error(&x, result, absolute);
}
