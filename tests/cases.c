/* SPDX-License-Identifier: GPL-2.0-only */
/* Combinations and their rounds. See cases.h. */
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/names.h"

const char *cases_format(uint8_t format)
{
	return name_of(format_names, format);
}

const char *cases_name(const struct cases_call *c, char *buf)
{
	snprintf(buf, 32, "%s %s", name_of(mode_names, c->mode), name_of(op_names, c->op));
	return buf;
}

/*
 * Return whether the mode offers the operation. The answer comes from the table in doc/numbers.md, not from the
 * header's functions.
 */
static bool offered(uint8_t format, uint8_t mode, uint8_t op)
{
	bool ordered = op == FPISA_OP_MIN || op == FPISA_OP_MAX;

	if (format == FPISA_FORMAT_INT32)
		return mode == FPISA_MODE_FPISA && (op == FPISA_OP_SUM || ordered);
	if (format == FPISA_FORMAT_MXINT8)
		return !ordered && op != FPISA_OP_NORM;
	if (mode == FPISA_MODE_EXACT)
		return op != FPISA_OP_NORM;
	return true;
}

bool cases_combination(uint8_t format, unsigned int index, struct cases_call *c)
{
	for (uint8_t mode = FPISA_MODE_FPISA; mode <= FPISA_MODE_EXACT; mode++) {
		for (uint8_t op = FPISA_OP_SUM; op <= FPISA_OP_NORM; op++) {
			if (!offered(format, mode, op) || index--)
				continue;
			*c = (struct cases_call){.format = format, .mode = mode, .op = op};
			return true;
		}
	}
	return false;
}

static double random_factor(struct vectors_rng *rng, uint8_t format)
{
	double sign = vectors_below(rng, 3) ? 1 : -1;
	double x = 1 + (double)(vectors_next(rng) >> 11) / 0x1p53;

	switch (vectors_below(rng, 4)) {
	case 0:
		x = ldexp(1, (int)vectors_below(rng, 40) - 20);
		break;
	case 1:
		x = 1.0 / (1 + vectors_below(rng, 64));
		break;
	case 2:
		x = ldexp(x, (int)vectors_below(rng, 240) - 120);
		break;
	}
	return sign * (format == FPISA_FORMAT_FP64 ? x : (double)(float)x);
}

void cases_choose(struct vectors_rng *rng, struct cases_call *c)
{
	c->rounding = vectors_below(rng, 2) ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN;
	c->workers = 1 + vectors_below(rng, CASES_WORKERS);
	c->reciprocal = c->op == FPISA_OP_AVG && !vectors_below(rng, 3);
	c->factor = random_factor(rng, c->format);
}

struct oracle_call cases_oracle(const struct cases_call *c)
{
	return (struct oracle_call){
		.f = fpisa_register(c->format, (enum fpisa_mode)c->mode, c->workers),
		.mode = (enum fpisa_mode)c->mode,
		.rounding = (enum fpisa_rounding)c->rounding,
		.op = c->op,
		.factor = c->factor,
		.reciprocal = c->reciprocal,
	};
}

/* -- contributions --------------------------------------------------------------- */

/*
 * Make the values of one element. Their exponents are near each other, far apart or at the ends of the range. Some
 * values have few bits set, some are subnormal, some cancel, some have random bits.
 */
static void float_column(struct vectors_rng *rng, struct fpisa_format f, uint32_t workers, uint64_t *out)
{
	uint64_t ones = fpisa_exp_ones(f), base = vectors_next(rng) % (ones + 1);
	uint32_t kind = vectors_below(rng, 8), spread = kind == 0 ? 4 : kind == 1 ? 40 : 1;

	for (uint32_t r = 0; r < workers; r++) {
		uint64_t bits = vectors_next(rng), e, frac = bits & fpisa_frac_ones(f);

		if (kind == 2)
			e = vectors_below(rng, 2) ? ones - vectors_below(rng, 3) : vectors_below(rng, 3);
		else if (kind == 3)
			e = bits >> 52 & ones;
		else if (kind == 5)
			e = 0;
		else
			e = (base + vectors_below(rng, spread)) % (ones + 1);
		if (kind == 4)
			frac = fpisa_frac_ones(f) & ~(bits >> 60);
		else if (kind == 6)
			frac = bits >> 62 << (f.mbits > 2 ? f.mbits - 2 : 0) & fpisa_frac_ones(f);
		out[r] = (bits >> 63) << (f.ebits + f.mbits) | e << f.mbits | frac;
		if (kind == 7 && r)
			out[r] = out[r - 1] ^ 1ull << (f.ebits + f.mbits) ^ !vectors_below(rng, 4);
		if (!vectors_below(rng, 24))
			out[r] = vectors_below(rng, 2) ? 0 : 1ull << (f.ebits + f.mbits);
	}
}

/* Return an infinity or a NaN, of either sign. */
static uint64_t special_word(struct vectors_rng *rng, struct fpisa_format f)
{
	uint64_t bits = vectors_next(rng), word = fpisa_beyond(f);

	if (!(bits & 3))
		word |= 1 + (bits >> 2) % fpisa_frac_ones(f);
	return word | (bits >> 63) << (f.ebits + f.mbits);
}

static void int_column(struct vectors_rng *rng, uint32_t workers, uint64_t *out)
{
	uint32_t kind = vectors_below(rng, 3);

	for (uint32_t r = 0; r < workers; r++) {
		uint32_t bits = (uint32_t)vectors_next(rng);

		out[r] = kind == 0 ? bits :
			 kind == 1 ? (uint32_t)((int32_t)bits >> 16) :
				     (bits & 1 ? 0x7fffff00u : 0x80000000u) + (bits >> 24);
	}
}

static void mx_column(struct vectors_rng *rng, uint32_t workers, struct oracle_mx *out)
{
	uint32_t base = vectors_below(rng, 256), spread = vectors_below(rng, 2) ? 4 : 30, kind = vectors_below(rng, 6);

	for (uint32_t r = 0; r < workers; r++) {
		uint32_t scale = base + vectors_below(rng, spread);

		if (scale > 254)
			scale = 254;
		if (!vectors_below(rng, 64))
			scale = 255;
		out[r].scale = (uint8_t)scale;
		for (int i = 0; i < ORACLE_MX_LANES; i++) {
			int8_t k = (int8_t)vectors_next(rng);

			if (kind == 0)
				k = vectors_below(rng, 8) ? 0 : k;
			else if (kind == 1)
				k = (int8_t)(k < 0 ? -128 + (k & 1) : 127);
			else if (kind == 2)
				k /= 16;
			out[r].k[i] = k;
		}
		if (!vectors_below(rng, 16))
			memset(out[r].k, 0, sizeof(out[r].k));
	}
}

/* -- rounds ------------------------------------------------------------------------ */

static void expect(const struct cases_call *c, struct cases_round *r, uint32_t i, const uint64_t *words)
{
	struct oracle_call call = cases_oracle(c);
	uint64_t want;

	for (uint32_t k = 0; k < c->workers; k++)
		memcpy(&r->in[k][i * call.f.bytes], &words[k], call.f.bytes);
	want = oracle_result(&call, c->workers, words, &r->events, &r->flags);
	memcpy(&r->want[i * call.f.bytes], &want, call.f.bytes);
}

static void expect_mx(const struct cases_call *c, struct cases_round *r, uint32_t b, const struct oracle_mx *blocks)
{
	struct oracle_call call = cases_oracle(c);
	struct oracle_mx want;

	for (uint32_t k = 0; k < c->workers; k++) {
		r->in[k][b] = blocks[k].scale;
		memcpy(&r->in[k][FPISA_SCALES + b * ORACLE_MX_LANES], blocks[k].k, ORACLE_MX_LANES);
	}
	oracle_result_mx(&call, c->workers, blocks, &want, &r->events, &r->flags);
	r->want[b] = want.scale;
	memcpy(&r->want[FPISA_SCALES + b * ORACLE_MX_LANES], want.k, ORACLE_MX_LANES);
}

static void start(struct cases_round *r, uint32_t elements)
{
	memset(r, 0, sizeof(*r));
	r->elements = elements;
}

/* Fill element `i` of every contribution, or its block if the format shares an exponent. */
static void random_column(struct vectors_rng *rng, const struct cases_call *c, uint32_t i, bool special,
			  struct cases_round *r)
{
	struct fpisa_format f = fpisa_format_of(c->format);
	struct oracle_mx blocks[CASES_WORKERS];
	uint64_t words[CASES_WORKERS];

	if (f.shared) {
		mx_column(rng, c->workers, blocks);
		if (special)
			blocks[vectors_below(rng, c->workers)].scale = 255;
		expect_mx(c, r, i / ORACLE_MX_LANES, blocks);
		return;
	}
	if (f.integer)
		int_column(rng, c->workers, words);
	else
		float_column(rng, f, c->workers, words);
	if (special && !f.integer)
		words[vectors_below(rng, c->workers)] = special_word(rng, f);
	expect(c, r, i, words);
}

void cases_random(struct vectors_rng *rng, const struct cases_call *c, uint32_t elements, struct cases_round *r)
{
	struct fpisa_format f = fpisa_format_of(c->format);

	start(r, elements);
	for (uint32_t i = 0; i < elements; i += f.shared ? ORACLE_MX_LANES : 1)
		random_column(rng, c, i, false, r);
}

void cases_sparse(struct vectors_rng *rng, const struct cases_call *c, uint32_t elements, struct cases_round *r)
{
	start(r, elements);
	random_column(rng, c, vectors_below(rng, elements), vectors_below(rng, 2), r);
}

#define FRACTIONS 3

static uint64_t set_size(struct fpisa_format f)
{
	return f.bytes == 1 ? 256 : (2ull << f.ebits) * FRACTIONS;
}

static uint64_t set_word(struct fpisa_format f, uint64_t i)
{
	const uint64_t fractions[FRACTIONS] = {0, fpisa_frac_ones(f), (0x2aull << f.mbits >> 6) + 1};

	return f.bytes == 1 ? i : i / FRACTIONS << f.mbits | fractions[i % FRACTIONS];
}

uint64_t cases_pairs(uint8_t format)
{
	struct fpisa_format f = fpisa_format_of(format);

	return set_size(f) * set_size(f);
}

void cases_pair_round(const struct cases_call *c, uint64_t first, uint32_t elements, struct cases_round *r)
{
	struct fpisa_format f = fpisa_format_of(c->format);
	uint64_t n = set_size(f);

	start(r, elements);
	for (uint32_t i = 0; i < elements; i++) {
		uint64_t pair = (first + i) % (n * n);
		uint64_t words[CASES_WORKERS] = {set_word(f, pair / n), set_word(f, pair % n)};

		expect(c, r, i, words);
	}
}
