// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's blocks with a shared exponent (mxint8). oracle.h documents the
 * functions. Each lane has a separate register or exact sum. The read-out
 * combines the lanes and finds a scale that fits all of them.
 */
#include <assert.h>

#include "value.h"

#define LANES ORACLE_MX_LANES
#define SCALE_NAN 255
#define K_MAX 127

/* Return the biased exponent of a block's lanes. A block of zeros has the smallest exponent. */
static int exponent_of(const struct oracle_mx *block)
{
	for (int i = 0; i < LANES; i++)
		if (block->k[i])
			return block->scale + 1;
	return 1;
}

static struct oracle_entry enter(struct fpisa_format f, const struct oracle_mx *block, int lane)
{
	if (block->scale == SCALE_NAN)
		return (struct oracle_entry){.nan = true, .e = 1};
	return (struct oracle_entry){.e = exponent_of(block), .m = block->k[lane] * (int64_t)oracle_pow2(f.guard)};
}

void oracle_mx_set(struct oracle_reg reg[LANES], const struct oracle_call *c, const struct oracle_mx *block)
{
	for (int i = 0; i < LANES; i++) {
		struct oracle_entry in = enter(c->f, block, i);

		oracle_take(&reg[i], &in);
	}
}

void oracle_mx_add(struct oracle_reg reg[LANES], const struct oracle_call *c, const struct oracle_mx *block,
		   struct oracle_events *events)
{
	for (int i = 0; i < LANES; i++) {
		struct oracle_entry in = enter(c->f, block, i);

		oracle_add_entry(&reg[i], c->f, c->mode, &in, events);
	}
}

/* Round sum[i] / den x 2^scale. Return false if a lane does not fit. */
static bool round_at(const mpz_t sum[LANES], const mpz_t den, int scale, enum fpisa_rounding rounding,
		     struct oracle_mx *out, bool *exact)
{
	bool fits = true;
	mpz_t unit, k;

	mpz_inits(unit, k, NULL);
	mpz_mul_2exp(unit, den, scale);
	*exact = true;
	for (int i = 0; i < LANES && fits; i++) {
		*exact &= oracle_round_quotient(k, sum[i], unit, rounding);
		fits = mpz_cmpabs_ui(k, K_MAX) <= 0;
		out->k[i] = (int8_t)mpz_get_si(k);
	}
	out->scale = (uint8_t)scale;
	mpz_clears(unit, k, NULL);
	return fits;
}

/* Pack the elements sum[i] / den, in units of 2^(-127 - 6), as a block. */
static void pack_block(const mpz_t sum[LANES], const mpz_t den, enum fpisa_rounding rounding, struct oracle_mx *out,
		       uint32_t *flags)
{
	size_t longest = 0;
	bool exact;
	int scale;

	for (int i = 0; i < LANES; i++)
		if (mpz_sgn(sum[i]) && mpz_sizeinbase(sum[i], 2) > longest)
			longest = mpz_sizeinbase(sum[i], 2);
	/* With a smaller scale, an element above 2^(longest - 1) / 2^(size of den) would be beyond 128. */
	scale = (int)longest - (int)mpz_sizeinbase(den, 2) - 7;
	if (scale < 0)
		scale = 0;
	for (; scale < SCALE_NAN; scale++) {
		if (!round_at(sum, den, scale, rounding, out, &exact))
			continue;
		if (!exact)
			*flags |= FPISA_INEXACT;
		return;
	}
	*out = (struct oracle_mx){.scale = SCALE_NAN};
	*flags |= FPISA_NAN | FPISA_OVERFLOW | FPISA_INEXACT;
}

/* Compute the result of c from n contributions. sum[i] x 2^p units is the sum of lane i. */
static void finish(const struct oracle_call *c, size_t n, mpz_t sum[LANES], int p, struct oracle_mx *out,
		   uint32_t *flags)
{
	mpz_t num, den;

	mpz_init_set_ui(num, 1);
	mpz_init_set_ui(den, 1);
	oracle_ratio_shift(num, den, p);
	oracle_ratio_apply(c, n, num, den);
	for (int i = 0; i < LANES; i++)
		mpz_mul(sum[i], sum[i], num);
	pack_block((const mpz_t *)sum, den, c->rounding, out, flags);
	mpz_clears(num, den, NULL);
}

static void pack_special(struct oracle_mx *out, uint32_t *flags)
{
	*out = (struct oracle_mx){.scale = SCALE_NAN};
	*flags |= FPISA_NAN;
}

void oracle_mx_read(const struct oracle_reg reg[LANES], const struct oracle_call *c, size_t n, struct oracle_mx *out,
		    uint32_t *flags)
{
	mpz_t sum[LANES];

	for (int i = 0; i < LANES; i++) {
		if (reg[i].nan) {
			pack_special(out, flags);
			return;
		}
		assert(reg[i].e == reg[0].e);
	}
	for (int i = 0; i < LANES; i++)
		mpz_init_set_si(sum[i], reg[i].m);
	finish(c, n, sum, reg[0].e - 1 - c->f.guard, out, flags);
	for (int i = 0; i < LANES; i++)
		mpz_clear(sum[i]);
}

static void result_exact(const struct oracle_call *c, size_t n, const struct oracle_mx *blocks, struct oracle_mx *out,
			 uint32_t *flags)
{
	struct oracle_exact x[LANES];
	mpz_t sum[LANES];
	bool nan = false;

	for (size_t b = 0; b < n; b++)
		nan |= blocks[b].scale == SCALE_NAN;
	if (nan) {
		pack_special(out, flags);
		return;
	}
	for (int i = 0; i < LANES; i++) {
		oracle_exact_init(&x[i], c->f);
		for (size_t b = 0; b < n; b++) {
			int k = blocks[b].k[i];

			oracle_exact_accumulate(&x[i], k < 0, (uint64_t)(k < 0 ? -k : k), blocks[b].scale);
		}
		mpz_init(sum[i]);
		oracle_exact_value(&x[i], sum[i]);
	}
	finish(c, n, sum, 0, out, flags);
	for (int i = 0; i < LANES; i++)
		mpz_clear(sum[i]);
}

void oracle_result_mx(const struct oracle_call *c, size_t n, const struct oracle_mx *blocks, struct oracle_mx *out,
		      struct oracle_events *events, uint32_t *flags)
{
	struct oracle_reg reg[LANES];
	struct oracle_events seen = {0};
	uint32_t unused = 0;

	assert(c->f.shared);
	if (!flags)
		flags = &unused;
	if (c->mode == FPISA_MODE_EXACT) {
		result_exact(c, n, blocks, out, flags);
		return;
	}
	oracle_mx_set(reg, c, &blocks[0]);
	for (size_t b = 1; b < n; b++)
		oracle_mx_add(reg, c, &blocks[b], &seen);
	*flags |= oracle_event_flags(&seen);
	if (events)
		oracle_events_add(events, &seen);
	oracle_mx_read(reg, c, n, out, flags);
}
