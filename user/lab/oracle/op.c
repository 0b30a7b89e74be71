// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations, which compute a result from the words of an element. oracle.h documents the functions. The
 * sum in a register or long integer becomes a rational number. The operation on this number is exact, and is followed
 * by one rounding.
 */
#include <assert.h>
#include <math.h>

#include "value.h"

/* Return the position of a value in the order that min and max use. NaN is last, and the two zeros are equal. */
static int64_t order(struct fpisa_format f, uint64_t word)
{
	struct oracle_value v;
	int64_t magnitude;

	if (f.integer)
		return (int32_t)word;
	v = oracle_decode(f, word);
	if (v.nan)
		return INT64_MAX;
	magnitude = (int64_t)(word % oracle_pow2(f.ebits + f.mbits));
	return v.negative ? -magnitude : magnitude;
}

static uint64_t extreme(const struct oracle_call *c, size_t n, const uint64_t *words, uint32_t *flags)
{
	uint64_t best = words[0];
	struct oracle_value v;

	for (size_t i = 1; i < n; i++) {
		int64_t one = order(c->f, words[i]), other = order(c->f, best);

		if (c->op == FPISA_OP_MAX ? one > other : one < other)
			best = words[i];
	}
	if (c->f.integer)
		return (uint32_t)best;
	v = oracle_decode(c->f, best);
	if (v.nan) {
		*flags |= FPISA_NAN;
		return oracle_pack_nan(c->f);
	}
	if (v.inf)
		*flags |= FPISA_INF;
	return order(c->f, best) == 0 ? 0 : best;
}

/*
 * If the sum is infinite or NaN, pack the result of c. A negative factor swaps the infinities. Return false if the sum
 * is finite.
 */
static bool special(const struct oracle_call *c, bool nan, bool pinf, bool ninf, uint64_t *word, uint32_t *flags)
{
	bool swap = c->op == FPISA_OP_SCALE && c->factor < 0;

	return oracle_pack_special(c->f, nan, swap ? ninf : pinf, swap ? pinf : ninf, word, flags);
}

/*
 * Compute the result of c from n contributions. The contributions add up to `sum` x 2^p quanta, or squared quanta for a
 * norm.
 */
static uint64_t finish(const struct oracle_call *c, size_t n, mpz_t sum, int p, uint32_t *flags)
{
	uint64_t word;
	mpz_t den;

	mpz_init_set_ui(den, 1);
	oracle_ratio_shift(sum, den, p);
	oracle_ratio_apply(c, n, sum, den);
	word = oracle_round_ratio(c->f, sum, den, c->op == FPISA_OP_NORM ? 2 : 1, c->rounding, flags);
	mpz_clear(den);
	return word;
}

uint64_t oracle_op_read(const struct oracle_reg *reg, const struct oracle_call *c, size_t n, uint32_t *flags)
{
	uint64_t word;
	mpz_t sum;
	int p = reg->e - 1 - c->f.guard;

	if (c->op == FPISA_OP_SUM)
		return oracle_read(reg, c->f, c->rounding, flags);
	assert(!c->f.integer);
	if (special(c, reg->nan, reg->pinf, reg->ninf, &word, flags))
		return word;
	if (c->op == FPISA_OP_NORM)
		p += c->f.mbits; /* 2^(e - 2 bias - M + 1 - G) / 2^(2 (1 - bias - M)) */
	mpz_init_set_si(sum, reg->m);
	word = finish(c, n, sum, p, flags);
	mpz_clear(sum);
	return word;
}

static uint64_t result_exact(const struct oracle_call *c, size_t n, const uint64_t *words, uint32_t *flags)
{
	struct oracle_exact x;
	uint64_t word;
	mpz_t sum;

	assert(!c->f.integer && c->op != FPISA_OP_NORM);
	oracle_exact_init(&x, c->f);
	for (size_t i = 0; i < n; i++)
		oracle_exact_add(&x, words[i]);
	if (c->op == FPISA_OP_SUM)
		return oracle_exact_round(&x, c->rounding, flags);
	if (special(c, x.nan, x.pinf, x.ninf, &word, flags))
		return word;
	mpz_init(sum);
	oracle_exact_value(&x, sum);
	word = finish(c, n, sum, 0, flags);
	mpz_clear(sum);
	return word;
}

static uint64_t result_register(const struct oracle_call *c, size_t n, const uint64_t *words,
				struct oracle_events *events, uint32_t *flags)
{
	struct oracle_events seen = {0};
	struct oracle_reg reg;

	oracle_op_set(&reg, c, words[0], &seen);
	for (size_t i = 1; i < n; i++)
		oracle_op_add(&reg, c, words[i], &seen);
	*flags |= oracle_event_flags(&seen);
	if (events)
		oracle_events_add(events, &seen);
	return oracle_op_read(&reg, c, n, flags);
}

uint64_t oracle_result(const struct oracle_call *c, size_t n, const uint64_t *words, struct oracle_events *events,
		       uint32_t *flags)
{
	uint32_t unused = 0;

	if (!flags)
		flags = &unused;
	if (c->op == FPISA_OP_MIN || c->op == FPISA_OP_MAX)
		return extreme(c, n, words, flags);
	if (c->mode == FPISA_MODE_EXACT)
		return result_exact(c, n, words, flags);
	return result_register(c, n, words, events, flags);
}

uint64_t oracle_replay(struct fpisa_format f, enum fpisa_mode mode, enum fpisa_rounding rounding, size_t n,
		       const uint64_t *words, struct oracle_events *events, uint32_t *flags)
{
	struct oracle_call c = {.f = f, .mode = mode, .rounding = rounding, .op = FPISA_OP_SUM};

	return oracle_result(&c, n, words, events, flags);
}

/* Add the squares of the finite words to the sum, in squared quanta. */
static void add_squares(struct fpisa_format f, size_t n, const uint64_t *words, mpz_t sum)
{
	mpz_t square;

	mpz_init(square);
	for (size_t i = 0; i < n; i++) {
		struct oracle_value v = oracle_decode(f, words[i]);

		mpz_set_ui(square, v.n);
		mpz_mul(square, square, square);
		mpz_mul_2exp(square, square, 2 * (v.e - 1));
		mpz_add(sum, sum, square);
	}
	mpz_clear(square);
}

/* Set num / den to the unrounded result of c in quanta. Return the nearest packed value. */
static uint64_t unrounded(const struct oracle_call *c, size_t n, const uint64_t *words, mpz_t num, mpz_t den)
{
	const bool root = c->op == FPISA_OP_NORM;
	uint32_t unused = 0;
	struct oracle_exact x;
	uint64_t word;
	mpz_t top, bottom;

	oracle_exact_init(&x, c->f);
	for (size_t i = 0; i < n; i++)
		oracle_exact_add(&x, words[i]);
	/* A square does not have a sign. */
	if (special(c, x.nan, x.pinf || (root && x.ninf), x.ninf && !root, &word, &unused))
		return word;
	mpz_set_ui(den, 1);
	if (root)
		add_squares(c->f, n, words, num);
	else
		oracle_exact_value(&x, num);
	oracle_ratio_apply(c, n, num, den);
	mpz_init_set(top, num);
	mpz_init_set(bottom, den);
	word = oracle_round_ratio(c->f, top, bottom, root ? 2 : 1, FPISA_ROUND_NEAREST, &unused);
	if (root) {
		mpz_mul_2exp(num, num, 2 * 64);
		mpz_sqrt(num, num);
		mpz_mul_2exp(den, den, 64);
	}
	mpz_clears(top, bottom, NULL);
	return word;
}

uint64_t oracle_result_nearest(const struct oracle_call *c, size_t n, const uint64_t *words)
{
	uint64_t word;
	mpz_t num, den;

	mpz_inits(num, den, NULL);
	word = unrounded(c, n, words, num, den);
	mpz_clears(num, den, NULL);
	return word;
}

double oracle_result_error(const struct oracle_call *c, uint64_t result, size_t n, const uint64_t *words,
			   double *absolute, bool *correct)
{
	struct oracle_value r = oracle_decode(c->f, result), s;
	long top, bottom;
	mpz_t num, den, got;
	uint64_t nearest;
	double error;

	assert(!c->f.integer && !c->f.shared && c->op != FPISA_OP_MIN && c->op != FPISA_OP_MAX);
	mpz_inits(num, den, got, NULL);
	nearest = unrounded(c, n, words, num, den);
	s = oracle_decode(c->f, nearest);
	*correct = result == nearest;
	if (r.nan || r.inf || s.nan || s.inf) {
		*absolute = (r.nan && s.nan) || result == nearest ? 0 : INFINITY;
		mpz_clears(num, den, got, NULL);
		return *absolute;
	}
	mpz_set_ui(got, r.n);
	mpz_mul_2exp(got, got, r.e - 1);
	mpz_mul(got, got, den);
	if (r.negative)
		mpz_neg(got, got);
	mpz_sub(num, num, got);
	error = fabs(mpz_get_d_2exp(&top, num));
	error /= mpz_get_d_2exp(&bottom, den);
	mpz_clears(num, den, got, NULL);
	return oracle_in_ulps(c->f, &s, error, top - bottom, absolute);
}
