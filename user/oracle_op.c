// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations, from the words of an element to its result; see
 * oracle.h. A sum in a register or in a long integer becomes a rational, what
 * the operation does to it is exact, and one rounding ends it.
 */
#include <assert.h>

#include "oracle_value.h"

/* Where a value stands in the order of min and max: NaN is the last, the zeros are one. */
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

/* The special that c makes of a special sum: a negative factor turns infinities round. */
static bool special(const struct oracle_call *c, bool nan, bool pinf, bool ninf, uint64_t *word,
		    uint32_t *flags)
{
	bool turn = c->op == FPISA_OP_SCALE && c->factor < 0;

	return oracle_pack_special(c->f, nan, turn ? ninf : pinf, turn ? pinf : ninf, word, flags);
}

/* sum x 2^p quanta, for norm squared quanta, of n contributions: c's result. */
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

uint64_t oracle_result(const struct oracle_call *c, size_t n, const uint64_t *words,
		       struct oracle_events *events, uint32_t *flags)
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
