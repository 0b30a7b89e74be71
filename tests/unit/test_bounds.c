/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Check the error bounds of doc/numbers.md on random sums by the library's own arithmetic (lib/soft/blocks.c). The
 * oracle computes the true sum.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>
#include "fpisa/mx.h"
#include "lib/soft/blocks.h"
#include "lab/oracle/oracle.h"
#include "values/pack.h"
#include "vectors.h"

#define MOST 8
#define ROUNDS 3000
#define SLACK (1 + 1e-9) /* allows for the test's own arithmetic in doubles */

static const uint8_t formats[] = {FPISA_FORMAT_FP32, FPISA_FORMAT_FP16, FPISA_FORMAT_BF16, FPISA_FORMAT_E4M3,
				  FPISA_FORMAT_E5M2};

struct sums {
	struct fpisa_format f;
	struct fpisa_job job;
	uint32_t k, spread;
	uint64_t word[MOST][FPISA_BLOCK];
	uint64_t result[FPISA_BLOCK];
	uint32_t flags;
};

/* Fill with contributions whose exponents lie within `spread` and whose sums stay in the range. */
static void fill(struct sums *s, struct vectors_rng *rng)
{
	uint64_t room = fpisa_exp_ones(s->f) - 5;

	if (s->spread > room)
		s->spread = (uint32_t)room;
	for (int i = 0; i < FPISA_BLOCK; i++) {
		uint64_t base = 1 + vectors_next(rng) % (room - s->spread + 1);

		for (uint32_t r = 0; r < s->k; r++) {
			uint64_t bits = vectors_next(rng);
			uint64_t e = base + vectors_below(rng, s->spread + 1);

			s->word[r][i] = (bits >> 63) << (s->f.ebits + s->f.mbits) | e << s->f.mbits |
					(bits & fpisa_frac_ones(s->f));
		}
	}
}

static void run(struct sums *s, uint32_t op)
{
	static struct fpisa_exp_block e;
	static struct fpisa_limbs64_block m;
	const struct fpisa_soft_registers at = {&e, &m};
	struct fpisa_final fin = fpisa_final_of(s->f, op, 0, s->k, s->job.flags & FPISA_JOB_RECIPROCAL);
	uint64_t payload[FPISA_BLOCK];

	s->flags = 0;
	for (uint32_t r = 0; r < s->k; r++) {
		for (int i = 0; i < FPISA_BLOCK; i++)
			fpisa_put_word(payload, i, s->f, s->word[r][i]);
		s->flags |= fpisa_event_flags(fpisa_soft_add(&s->job, op, payload, at, 1, !r));
	}
	s->flags |= fpisa_soft_read(&s->job, &fin, payload, at, 1);
	for (int i = 0; i < FPISA_BLOCK; i++)
		s->result[i] = fpisa_get_word(payload, i, s->f);
}

static void choose(struct sums *s, struct vectors_rng *rng, uint8_t mode, uint8_t rounding)
{
	*s = (struct sums){.k = 2 + vectors_below(rng, MOST - 1), .spread = vectors_below(rng, 60)};
	s->job = (struct fpisa_job){.workers = s->k,
				    .format = formats[vectors_below(rng, sizeof(formats))],
				    .mode = mode,
				    .rounding = rounding,
				    .pipeline = FPISA_PIPELINE_FUSED,
				    .clz = FPISA_CLZ_BITS};
	s->f = fpisa_register(s->job.format, (enum fpisa_mode)mode, s->k);
	s->job.guard = s->f.guard;
	fill(s, rng);
}

static double ulp_of(struct fpisa_format f, uint64_t word)
{
	int e = (int)(word >> f.mbits & fpisa_exp_ones(f));

	return ldexp(1, (e ? e : 1) - format_bias(f) - f.mbits);
}

static double largest_ulp(const struct sums *s, int i)
{
	double most = 0;

	for (uint32_t r = 0; r < s->k; r++)
		most = fmax(most, ulp_of(s->f, s->word[r][i]));
	return most;
}

/* Return |result - true sum| and whether the result is above the true sum. */
static double error_of(const struct sums *s, int i, struct oracle_exact *x, int *above)
{
	uint32_t flags = 0;
	double absolute;

	oracle_exact_init(x, s->f);
	for (uint32_t r = 0; r < s->k; r++)
		oracle_exact_add(x, s->word[r][i]);
	oracle_exact_error(x, s->result[i], &absolute);
	*above = unpack_value(s->f, s->result[i]) > unpack_value(s->f, oracle_exact_round(x, FPISA_ROUND_DOWN, &flags));
	return absolute;
}

static void check_sums(uint8_t mode, uint8_t rounding)
{
	struct vectors_rng rng = {vectors_seed()};
	struct sums s;

	for (int n = 0; n < ROUNDS; n++) {
		choose(&s, &rng, mode, rounding);
		run(&s, FPISA_OP_SUM);
		assert_false(s.flags & FPISA_OVERFLOW);
		for (int i = 0; i < FPISA_BLOCK; i++) {
			struct oracle_exact x;
			int above;
			double error = error_of(&s, i, &x, &above);
			double lost = mode == FPISA_MODE_EXACT ? 0 : (s.k - 1) * ldexp(largest_ulp(&s, i), -s.f.guard);
			double rounded = ulp_of(s.f, s.result[i]) * (rounding == FPISA_ROUND_DOWN ? 1 : 0.5);

			assert_true(error <= (lost + rounded) * SLACK);
			if (rounding == FPISA_ROUND_DOWN)
				assert_false(above);
			else if (mode == FPISA_MODE_EXACT || s.spread <= s.f.guard)
				assert_int_equal(s.result[i], oracle_exact_read(&x));
		}
	}
}

static void fpisa_down(void **state)
{
	(void)state;
	check_sums(FPISA_MODE_FPISA, FPISA_ROUND_DOWN);
}

static void fpisa_nearest(void **state)
{
	(void)state;
	check_sums(FPISA_MODE_FPISA, FPISA_ROUND_NEAREST);
}

static void fpisa64_down(void **state)
{
	(void)state;
	check_sums(FPISA_MODE_FPISA64, FPISA_ROUND_DOWN);
}

static void fpisa64_nearest(void **state)
{
	(void)state;
	check_sums(FPISA_MODE_FPISA64, FPISA_ROUND_NEAREST);
}

static void exact_nearest(void **state)
{
	(void)state;
	check_sums(FPISA_MODE_EXACT, FPISA_ROUND_NEAREST);
}

/*
 * Check that the average of an exact sum, computed with the reciprocal, has a relative error of at most 2^-24 plus one
 * rounding.
 */
static void reciprocal(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct sums s;
	int different = 0;

	(void)state;
	for (int n = 0; n < ROUNDS; n++) {
		choose(&s, &rng, FPISA_MODE_EXACT, FPISA_ROUND_NEAREST);
		s.job.flags = FPISA_JOB_RECIPROCAL;
		run(&s, FPISA_OP_AVG);
		for (int i = 0; i < FPISA_BLOCK; i++) {
			struct oracle_call call = {
				.f = s.f, .mode = FPISA_MODE_EXACT, .op = FPISA_OP_AVG, .rounding = FPISA_ROUND_NEAREST};
			uint64_t words[MOST], want;
			double got, true_average, off;

			for (uint32_t r = 0; r < s.k; r++)
				words[r] = s.word[r][i];
			want = oracle_result(&call, s.k, words, NULL, NULL);
			got = unpack_value(s.f, s.result[i]);
			true_average = unpack_value(s.f, want);
			off = fabs(got - true_average);
			different += want != s.result[i];
			assert_true(off <= (ldexp(fabs(true_average), -23) + ulp_of(s.f, want)) * SLACK);
		}
	}
	assert_true(different > 0);
}

/* Check that norm is too low by a relative error below (2k - 1) 2^(-M - G), plus one rounding. */
static void norm(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct sums s;

	(void)state;
	for (int n = 0; n < ROUNDS; n++) {
		choose(&s, &rng, n & 1 ? FPISA_MODE_FPISA : FPISA_MODE_FPISA64, FPISA_ROUND_NEAREST);
		run(&s, FPISA_OP_NORM);
		for (int i = 0; i < FPISA_BLOCK; i++) {
			long double squares = 0, truth, bound;

			for (uint32_t r = 0; r < s.k; r++) {
				long double v = unpack_value(s.f, s.word[r][i]);

				squares += v * v;
			}
			truth = sqrtl(squares);
			bound = truth * (2 * s.k - 1) * ldexpl(1, -s.f.mbits - s.f.guard) +
				0.5L * ulp_of(s.f, s.result[i]);
			if (fpisa_exp_ones(s.f) == (s.result[i] >> s.f.mbits) && !s.f.finite)
				continue; /* the sum is beyond the range */
			assert_true(fabsl(unpack_value(s.f, s.result[i]) - truth) <= bound * SLACK + truth * 1e-15L);
		}
	}
}

/* Check the example of the page, in which the second add of fpisa-a saturates and raises the flag. */
static void fpisa_a_saturates(void **state)
{
	struct sums s = {.f = FPISA_FP32,
			 .k = 2,
			 .job = {.workers = 2,
				 .format = FPISA_FORMAT_FP32,
				 .mode = FPISA_MODE_FPISA_A,
				 .rounding = FPISA_ROUND_DOWN,
				 .pipeline = FPISA_PIPELINE_FUSED}};

	(void)state;
	s.word[0][0] = pack_value(s.f, 1.0);
	s.word[1][0] = pack_value(s.f, 255.5);
	run(&s, FPISA_OP_SUM);
	assert_true(s.flags & FPISA_OVERFLOW);
	assert_true(unpack_value(s.f, s.result[0]) < 256 && unpack_value(s.f, s.result[0]) > 255.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fpisa_down),	 cmocka_unit_test(fpisa_nearest),
		cmocka_unit_test(fpisa64_down),	 cmocka_unit_test(fpisa64_nearest),
		cmocka_unit_test(exact_nearest), cmocka_unit_test(reciprocal),
		cmocka_unit_test(norm),		 cmocka_unit_test(fpisa_a_saturates),
	};

	return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
