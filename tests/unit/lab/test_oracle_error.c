/* SPDX-License-Identifier: GPL-2.0-only */
/* Test oracle_result_error() on known cases, and on random cases against long doubles. */
#include <math.h>
#include "unit/workers.h"
#include "values/pack.h"
#include "vectors.h"

#define MOST 7

static double error_of(int op, double factor, float result, size_t n, const float *values, double *absolute,
		       bool *correct)
{
	const struct oracle_call c = {.f = FPISA_FP32, .mode = FPISA_MODE_FPISA, .op = op, .factor = factor};
	uint64_t words[MOST];

	for (size_t i = 0; i < n; i++)
		words[i] = pack_value(FPISA_FP32, (double)values[i]);
	return oracle_result_error(&c, pack_value(FPISA_FP32, (double)result), n, words, absolute, correct);
}

static void known(int op, double factor, float result, float a, float b, double ulps, double absolute)
{
	bool correct;
	double got;

	assert_true(error_of(op, factor, result, 2, (float[]){a, b}, &got, &correct) == ulps);
	assert_true(got == absolute);
	assert_true(correct == (ulps <= 0.5));
}

/*
 * Check that a neighbour of the correct result may be as near as half of the result's ulp. This happens at a tie, and
 * where ulps change.
 */
static void beside(float result, float a, float b, double ulps)
{
	bool correct;
	double got;

	assert_true(error_of(FPISA_OP_SUM, 0, result, 2, (float[]){a, b}, &got, &correct) == ulps);
	assert_false(correct);
}

static void known_cases(void **state)
{
	(void)state;
	known(FPISA_OP_SUM, 0, 1, 1, 0x1p-24f, 0.5, 0x1p-24);
	known(FPISA_OP_SUM, 0, 3, 1, 2, 0, 0);
	beside(0x1.000002p0f, 1, 0x1p-24f, 0.5);
	beside(0x1.fffffep23f, 0x1p24f, -0.375f, 0.3125);
	known(FPISA_OP_AVG, 0, 1.5f, 1, 2, 0, 0);
	known(FPISA_OP_AVG, 0, -2, 1, 2, 0x1.cp+24, 3.5);
	known(FPISA_OP_SCALE, -0.5, -1.5f, 1, 2, 0, 0);
	known(FPISA_OP_SCALE, -0.5, -1.25f, 1, 2, 0x1p21, 0.25);
	known(FPISA_OP_NORM, 0, 5, 3, -4, 0, 0);
	known(FPISA_OP_NORM, 0, 0x1.400002p2f, 3, -4, 1, 0x1p-21);
	known(FPISA_OP_NORM, 0, 0x1.4p-128f, 0x1.8p-129f, 0x1p-128f, 0, 0);
	known(FPISA_OP_NORM, 0, INFINITY, 1, -INFINITY, 0, 0);
	known(FPISA_OP_NORM, 0, 1, 1, -INFINITY, INFINITY, INFINITY);
	known(FPISA_OP_SCALE, -2, -INFINITY, 1, INFINITY, 0, 0);
	known(FPISA_OP_SCALE, -2, INFINITY, 1, INFINITY, INFINITY, INFINITY);
	known(FPISA_OP_AVG, 0, NAN, INFINITY, -INFINITY, 0, 0);
	known(FPISA_OP_AVG, 0, 0, INFINITY, -INFINITY, INFINITY, INFINITY);
}

/* Return the operation's result in a long double, whose own error is far below an ulp of a float here. */
static long double plain(int op, double factor, size_t n, const float *v)
{
	long double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += op == FPISA_OP_NORM ? (long double)v[i] * v[i] : (long double)v[i];
	return op == FPISA_OP_NORM  ? sqrtl(sum) :
	       op == FPISA_OP_AVG   ? sum / n :
	       op == FPISA_OP_SCALE ? sum * factor :
				      sum;
}

static void random_cases(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int k = 0; k < 20000; k++) {
		static const int ops[] = {FPISA_OP_SUM, FPISA_OP_AVG, FPISA_OP_SCALE, FPISA_OP_NORM};
		int op = ops[k % 4], e;
		size_t n = 1 + vectors_below(&rng, MOST);
		double factor = ldexp(1 + vectors_below(&rng, 1000), -5), absolute, ulps, want, ulp;
		float v[MOST], result;
		bool correct;
		long double x;

		for (size_t i = 0; i < n; i++)
			v[i] = ldexpf(1 + (float)vectors_below(&rng, 1 << 24), -20 - (int)vectors_below(&rng, 4));
		x = plain(op, factor, n, v);
		result = (float)x;
		frexp((double)result, &e);
		ulp = ldexp(1, e - 24);
		result += (float)(ulp * vectors_below(&rng, 3));
		want = (double)fabsl((long double)result - x);
		ulps = error_of(op, factor, result, n, v, &absolute, &correct);
		if (fabs(absolute - want) > ulp * 1e-6 || fabs(ulps - want / ulp) > 1e-6)
			fail_msg("op %d of %zu values: %.9g instead of %.20Lg: %g ulps, %g absolute", op, n,
				 (double)result, x, ulps, absolute);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_cases),
		cmocka_unit_test(random_cases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
