// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle; see oracle.h. Decoding goes by plain `if`s, shifts are floor
 * divisions by powers of two in 128 bits, sums are saturated after the fact,
 * and packing counts in quanta of the smallest subnormal: on purpose nothing
 * here is done the way mau.h does it.
 */
#include "oracle.h"

#include <math.h>
#include <string.h>

typedef __int128 wide;
typedef unsigned __int128 uwide;

/* A packed value taken apart. Finite: sign, and n x 2^(e - 1) smallest subnormals. */
struct decoded {
	bool nan, inf, negative;
	uint64_t n;
	int e; /* biased exponent, 1 for subnormals */
};

static uint64_t pow2(int p)
{
	return (uint64_t)1 << p;
}

static struct decoded decode(struct fpisa_format f, uint64_t word)
{
	uint64_t field = word / pow2(f.mbits) % pow2(f.ebits);
	uint64_t fraction = word % pow2(f.mbits);
	struct decoded d = {.negative = word / pow2(f.mbits) / pow2(f.ebits) % 2, .e = 1};

	if (f.finite && field == pow2(f.ebits) - 1 && fraction == pow2(f.mbits) - 1) {
		d.nan = true;
	} else if (!f.finite && field == pow2(f.ebits) - 1) {
		d.nan = fraction != 0;
		d.inf = fraction == 0;
	} else if (field == 0) {
		d.n = fraction;
	} else {
		d.n = fraction + pow2(f.mbits);
		d.e = (int)field;
	}
	return d;
}

/* What lies beyond the largest finite value; a format without infinities has its NaN there. */
static uint64_t pack_infinity(struct fpisa_format f, bool negative)
{
	if (f.finite)
		return pow2(f.ebits + f.mbits) - 1;
	uint64_t word = (pow2(f.ebits) - 1) * pow2(f.mbits);

	return negative ? word + pow2(f.ebits + f.mbits) : word;
}

static uint64_t pack_nan(struct fpisa_format f)
{
	return f.finite ? pack_infinity(f, false) : pack_infinity(f, false) + pow2(f.mbits - 1);
}

/* The special that a sum has become, if any. */
static bool pack_special(struct fpisa_format f, bool nan, bool pinf, bool ninf, uint64_t *word)
{
	if (nan || (pinf && ninf))
		*word = pack_nan(f);
	else if (pinf || ninf)
		*word = pack_infinity(f, ninf);
	else
		return false;
	return true;
}

/* k x 2^q smallest subnormals, k <= 2^(M+1), and k >= 2^M unless q is 0. */
static uint64_t pack_finite(struct fpisa_format f, bool negative, uint64_t k, int q)
{
	uint64_t field = 0;

	if (k == 0)
		return 0;
	if (k == pow2(f.mbits + 1)) {
		k = pow2(f.mbits);
		q++;
	}
	if (k >= pow2(f.mbits)) {
		k -= pow2(f.mbits);
		field = (uint64_t)q + 1;
	}
	if (field * pow2(f.mbits) + k >= pack_infinity(f, false))
		return pack_infinity(f, negative);
	return k + field * pow2(f.mbits) + (negative ? pow2(f.ebits + f.mbits) : 0);
}

/* floor(m / 2^d); *lost says whether that was not exact. */
static int64_t floor_shift(int64_t m, int d, bool *lost)
{
	wide divisor, quotient;

	if (d > 64)
		d = 64; /* |m| <= 2^63: from here on the quotient is 0 or -1 and inexact */
	divisor = (wide)1 << d;
	quotient = m / divisor;
	*lost = m % divisor != 0;
	if (*lost && m < 0)
		quotient--;
	return (int64_t)quotient;
}

static void note_special(struct oracle_reg *reg, const struct decoded *d)
{
	if (d->nan)
		reg->nan = true;
	if (d->inf && d->negative)
		reg->ninf = true;
	if (d->inf && !d->negative)
		reg->pinf = true;
}

/* The R-bit mantissa of a finite value, guard bits included. */
static int64_t mantissa(struct fpisa_format f, const struct decoded *d)
{
	int64_t m = (int64_t)(d->n * pow2(f.guard));

	return d->negative ? -m : m;
}

void oracle_set(struct oracle_reg *reg, struct fpisa_format f, uint64_t word)
{
	struct decoded d = decode(f, word);

	*reg = (struct oracle_reg){.e = d.e, .m = mantissa(f, &d)};
	note_special(reg, &d);
}

/* reg->m + m, held to R bits. */
static void add_saturated(struct oracle_reg *reg, struct fpisa_format f, int64_t m,
			  struct oracle_events *events)
{
	wide limit = (wide)1 << (f.rbits - 1);
	wide sum = (wide)reg->m + m;

	if (sum > limit - 1) {
		sum = limit - 1;
		events->overflowed++;
	} else if (sum < -limit) {
		sum = -limit;
		events->overflowed++;
	}
	reg->m = (int64_t)sum;
}

static void add_fpisa(struct oracle_reg *reg, struct fpisa_format f, const struct decoded *d,
		      struct oracle_events *events)
{
	int64_t m = mantissa(f, d);
	bool lost;

	if (d->e > reg->e) {
		reg->m = floor_shift(reg->m, d->e - reg->e, &lost);
		reg->e = d->e;
	} else {
		m = floor_shift(m, reg->e - d->e, &lost);
	}
	if (lost)
		events->rounded++;
	add_saturated(reg, f, m, events);
}

static void add_fpisa_a(struct oracle_reg *reg, struct fpisa_format f, const struct decoded *d,
			struct oracle_events *events)
{
	int headroom = f.rbits - 1 - (f.mbits + 1) - f.guard;
	int64_t m = mantissa(f, d);
	bool lost;

	if (d->e > reg->e + headroom) {
		if (reg->m != 0)
			events->overwritten++;
		reg->e = d->e;
		reg->m = m;
		return;
	}
	if (d->e > reg->e) {
		m *= (int64_t)pow2(d->e - reg->e);
		events->left_shifted++;
	} else {
		m = floor_shift(m, reg->e - d->e, &lost);
		if (lost)
			events->rounded++;
	}
	add_saturated(reg, f, m, events);
}

void oracle_add(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode, uint64_t word,
		struct oracle_events *events)
{
	struct decoded d = decode(f, word);

	if (d.nan || d.inf)
		note_special(reg, &d);
	else if (mode == FPISA_MODE_FPISA_A)
		add_fpisa_a(reg, f, &d, events);
	else
		add_fpisa(reg, f, &d, events);
}

static int bit_length(uint64_t x)
{
	int n = 0;

	for (; x; x /= 2)
		n++;
	return n;
}

uint64_t oracle_read(const struct oracle_reg *reg, struct fpisa_format f, enum fpisa_rounding rounding,
		     uint32_t *flags)
{
	bool negative = reg->m < 0, up = false;
	uint64_t magnitude = negative ? -(uint64_t)reg->m : (uint64_t)reg->m;
	uint64_t word;
	int p = reg->e - 1 - f.guard; /* the value is magnitude x 2^p smallest subnormals */
	int q;			      /* the result is a multiple of 2^q */
	uwide k, rest = 0, unit = 1;

	if (pack_special(f, reg->nan, reg->pinf, reg->ninf, &word)) {
		*flags |= word == pack_nan(f) ? FPISA_NAN : FPISA_INF;
		return word;
	}
	q = bit_length(magnitude) + p - (f.mbits + 1);
	if (q < 0)
		q = 0;
	if (magnitude == 0) {
		k = 0;
	} else if (p >= q) {
		k = (uwide)magnitude << (p - q);
	} else {
		unit = (uwide)1 << (q - p); /* q - p <= G + 1 or R - M: below 2^65 */
		k = magnitude / unit;
		rest = magnitude % unit;
	}
	if (rounding == FPISA_ROUND_DOWN)
		up = negative && rest != 0;
	else
		up = 2 * rest > unit || (2 * rest == unit && k % 2 == 1);
	if (rest != 0)
		*flags |= FPISA_INEXACT;
	word = pack_finite(f, negative, (uint64_t)k + up, q);
	if (word == pack_infinity(f, negative))
		*flags |= FPISA_OVERFLOW | FPISA_INEXACT | (f.finite ? FPISA_NAN : FPISA_INF);
	return word;
}

uint32_t oracle_event_flags(const struct oracle_events *events)
{
	uint32_t flags = 0;

	if (events->rounded || events->overwritten || events->overflowed)
		flags |= FPISA_INEXACT;
	if (events->overwritten)
		flags |= FPISA_OVERWRITE;
	if (events->overflowed)
		flags |= FPISA_OVERFLOW;
	return flags;
}

uint64_t oracle_replay(struct fpisa_format f, enum fpisa_mode mode, enum fpisa_rounding rounding, size_t n,
		       const uint64_t *words, struct oracle_events *events, uint32_t *flags)
{
	struct oracle_events seen = {0};
	struct oracle_exact exact;
	struct oracle_reg reg;
	uint32_t raised = 0;
	uint64_t word;

	if (mode == FPISA_MODE_EXACT) {
		oracle_exact_init(&exact, f);
		for (size_t i = 0; i < n; i++)
			oracle_exact_add(&exact, words[i]);
		word = oracle_exact_round(&exact, rounding, &raised);
		if (flags)
			*flags |= raised;
		return word;
	}
	oracle_set(&reg, f, words[0]);
	for (size_t i = 1; i < n; i++)
		oracle_add(&reg, f, mode, words[i], &seen);
	raised = oracle_event_flags(&seen);
	word = oracle_read(&reg, f, rounding, &raised);
	if (flags)
		*flags |= raised;
	if (events) {
		events->rounded += seen.rounded;
		events->overwritten += seen.overwritten;
		events->left_shifted += seen.left_shifted;
		events->overflowed += seen.overflowed;
	}
	return word;
}

/* -- exact sums -------------------------------------------------------- */

#define LIMB_BITS 64
_Static_assert(GMP_NUMB_BITS == LIMB_BITS, "limbs are whole 64-bit words");

void oracle_exact_init(struct oracle_exact *x, struct fpisa_format f)
{
	memset(x, 0, sizeof(*x));
	x->f = f;
	x->limbs = ((1 << f.ebits) + f.mbits + 60) / LIMB_BITS + 1;
}

/* x += n x 2^p, or -=; p + 64 bits lie well below the top limb. */
static void accumulate(struct oracle_exact *x, bool negative, uint64_t n, int p)
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
	struct decoded d = decode(x->f, word);

	x->nan |= d.nan;
	x->pinf |= d.inf && !d.negative;
	x->ninf |= d.inf && d.negative;
	accumulate(x, d.negative, d.n, d.e - 1);
}

/* |x| as limbs; *view borrows them. Returns whether x is negative. */
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

/* The quantum of a value of that many bits is 2^q. */
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

	if (pack_special(x->f, x->nan, x->pinf, x->ninf, &word)) {
		*flags |= word == pack_nan(x->f) ? FPISA_NAN : FPISA_INF;
		return word;
	}
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
	word = pack_finite(x->f, negative, mpz_get_ui(k) + up, q);
	if (word == pack_infinity(x->f, negative))
		*flags |= FPISA_OVERFLOW | FPISA_INEXACT | (x->f.finite ? FPISA_NAN : FPISA_INF);
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
	struct decoded r = decode(x->f, result), s = decode(x->f, nearest);
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
	accumulate(&difference, !r.negative, r.n, r.e - 1);
	magnitude_of(&difference, limbs, view);
	fraction = mpz_get_d_2exp(&exponent, view);
	if (absolute)
		*absolute = ldexp(fraction, (int)exponent + 2 - (1 << (x->f.ebits - 1)) - x->f.mbits);
	return ldexp(fraction, (int)exponent - (s.e - 1));
}

double oracle_ulp_error(struct fpisa_format f, uint64_t result, size_t n, const uint64_t *words,
			double *absolute)
{
	struct oracle_exact x;

	oracle_exact_init(&x, f);
	for (size_t i = 0; i < n; i++)
		oracle_exact_add(&x, words[i]);
	return oracle_exact_error(&x, result, absolute);
}
