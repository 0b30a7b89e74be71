/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare mode exact of FP64 in user space, fused and staged, with the oracle's integers. There are 2 to 64 ranks,
 * values over the whole range, and registers that hold the remains of earlier rounds.
 *
 * Check every order of four values, and the published properties of exact sums (xsum) and of reproducible sums
 * (ReproBLAS). FPISA_CASES is the number of elements of random values, 20000 by default.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/oracle/oracle.h"
#include "lib/soft/blocks.h"
#include "vectors.h"

#define RANKS 64
#define SIGN (1ull << 63)
#define INF (2047ull << 52)
#define MAX (INF - 1)
#define FRACTION ((1ull << 52) - 1)

typedef uint64_t lanes[FPISA_BLOCK];

/* Registers that are never cleared, so a round begins with the remains of the last round */
static struct fpisa_exp_block exponents;
static struct fpisa_limbs64_block limbs;

static uint64_t bits_of(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* Sum `ranks` contributions of a block. Return the flags. */
static uint32_t sum(const lanes *in, uint32_t ranks, uint8_t pipeline, uint8_t rounding, lanes out)
{
	const struct fpisa_soft_registers at = {&exponents, &limbs};
	const struct fpisa_job j = {.workers = ranks,
				    .format = FPISA_FORMAT_FP64,
				    .mode = FPISA_MODE_EXACT,
				    .rounding = rounding,
				    .pipeline = pipeline,
				    .clz = FPISA_CLZ_BITS};
	const struct fpisa_final fin = fpisa_final_of(fpisa_job_format(&j), FPISA_OP_SUM, 0, ranks, 0);

	for (uint32_t r = 0; r < ranks; r++) {
		lanes copy;

		memcpy(copy, in[r], sizeof(copy));
		assert_int_equal(fpisa_soft_add(&j, FPISA_OP_SUM, copy, at, 1, !r), 0);
	}
	return fpisa_soft_read(&j, &fin, out, at, 1);
}

/* Check that both pipelines give the oracle's bits in both roundings. */
static void check(const lanes *in, uint32_t ranks)
{
	for (uint8_t rounding = FPISA_ROUND_DOWN; rounding <= FPISA_ROUND_NEAREST; rounding++) {
		uint32_t want_flags = 0;
		lanes want, got;

		for (int i = 0; i < FPISA_BLOCK; i++) {
			struct oracle_exact x;

			oracle_exact_init(&x, fpisa_format_of(FPISA_FORMAT_FP64));
			for (uint32_t r = 0; r < ranks; r++)
				oracle_exact_add(&x, in[r][i]);
			want[i] = oracle_exact_round(&x, (enum fpisa_rounding)rounding, &want_flags);
		}
		for (uint8_t pipeline = FPISA_PIPELINE_STAGED; pipeline <= FPISA_PIPELINE_FUSED; pipeline++) {
			assert_int_equal(sum(in, ranks, pipeline, rounding, got), want_flags);
			for (int i = 0; i < FPISA_BLOCK; i++)
				if (got[i] != want[i])
					fail_msg("%u ranks, rounding %u, pipeline %u, element %d: %llx, oracle %llx",
						 ranks, rounding, pipeline, i, (unsigned long long)got[i],
						 (unsigned long long)want[i]);
		}
	}
}

/* Return a word of a kind: 0 any bits, 1 subnormals, 2 the ends of the range, 3 near `middle`, 4 zeros, 5 specials. */
static uint64_t word_of(struct vectors_rng *rng, uint32_t kind, uint32_t middle)
{
	uint64_t bits = vectors_next(rng), sign = bits & SIGN, fraction = bits & FRACTION;

	switch (kind) {
	case 0:
		return (bits >> 52 & 2047) == 2047 ? sign | fraction : bits;
	case 1:
		return sign | fraction >> vectors_below(rng, 52);
	case 2:
		return sign | (vectors_below(rng, 2) ? MAX - vectors_below(rng, 3) : 1 + vectors_below(rng, 3));
	case 3:
		return sign | (uint64_t)((middle + vectors_below(rng, 70)) % 2047) << 52 | fraction;
	case 4:
		return sign;
	default:
		return sign | INF | (vectors_below(rng, 2) ? fraction | 1 : 0);
	}
}

/*
 * Fill `in` with values. Each element has a kind. A few elements contain a special. Often two values cancel, except for
 * the last bit.
 */
static void fill(struct vectors_rng *rng, lanes *in, uint32_t ranks)
{
	for (int i = 0; i < FPISA_BLOCK; i++) {
		uint32_t kind = vectors_below(rng, 5), middle = vectors_below(rng, 2047);
		uint32_t special = vectors_below(rng, 16) ? RANKS : vectors_below(rng, ranks);

		for (uint32_t r = 0; r < ranks; r++) {
			in[r][i] = word_of(rng, r == special ? 5 : kind == 4 ? vectors_below(rng, 5) : kind, middle);
			if (r && r != special && !vectors_below(rng, 3))
				in[r][i] = in[vectors_below(rng, r)][i] ^ SIGN ^ !vectors_below(rng, 8);
		}
	}
}

static void random_values(void **state)
{
	const char *cases = getenv("FPISA_CASES");
	uint64_t n = cases ? strtoull(cases, NULL, 0) : 20000;
	struct vectors_rng rng = {vectors_seed()};
	static lanes in[RANKS];

	(void)state;
	for (uint64_t i = 0; i < n; i += FPISA_BLOCK) {
		uint32_t ranks = 2 + vectors_below(&rng, RANKS - 1);

		fill(&rng, in, ranks);
		check(in, ranks);
	}
}

/* Check that the 24 orders of four values, one in each element, give one sum. */
static void every_order(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	lanes in[4] = {{0}};

	(void)state;
	for (int n = 0; n < 500; n++) {
		uint64_t four[4];
		lanes out;

		for (int k = 0; k < 4; k++)
			four[k] = word_of(&rng, vectors_below(&rng, 5), 1000);
		if (n == 0)
			memcpy(four, (uint64_t[]){bits_of(0x1p1023), bits_of(-0x1p1023), bits_of(0x1p-1074), SIGN}, 32);
		for (int order = 0; order < 24; order++) {
			int place[4] = {0, 1, 2, 3};

			for (int i = 3, left = order; i > 0; left /= i + 1, i--) {
				int j = left % (i + 1), swap = place[i];

				place[i] = place[j];
				place[j] = swap;
			}
			for (int k = 0; k < 4; k++)
				in[k][order] = four[place[k]];
		}
		check((const lanes *)in, 4);
		sum((const lanes *)in, 4, FPISA_PIPELINE_FUSED, FPISA_ROUND_NEAREST, out);
		for (int order = 1; order < 24; order++)
			assert_int_equal(out[order], out[0]);
		if (n == 0)
			assert_int_equal(out[0], 1);
	}
}

/* Return element 0 of a sum of `n` values, and check all elements. The other elements are 0. */
static uint64_t one_sum(const double *v, uint32_t n)
{
	static lanes in[RANKS];
	lanes out;

	memset(in, 0, sizeof(in));
	for (uint32_t r = 0; r < n; r++)
		in[r][0] = bits_of(v[r]);
	check((const lanes *)in, n);
	sum((const lanes *)in, n, FPISA_PIPELINE_FUSED, FPISA_ROUND_NEAREST, out);
	return out[0];
}

#define SUM_IS(want, ...)                                                                                          \
	assert_int_equal(one_sum((const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
			 bits_of(want))

/*
 * Check the properties that Neal publishes for xsum. A sum is the exact sum rounded once, even if a part of it is
 * beyond the range, at ties, with subnormals and with values that cancel.
 */
static void xsum(void **state)
{
	(void)state;
	SUM_IS(0.0, 0.0, -0.0);
	SUM_IS(0.0, -0.0, -0.0);
	SUM_IS(0x1p1023, 0x1.fffffffffffffp1023, 0x1p1023, -0x1.fffffffffffffp1023);
	SUM_IS(INFINITY, 0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023);
	SUM_IS(0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, 0x1p969);
	SUM_IS(INFINITY, 0x1.fffffffffffffp1023, 0x1p970);
	SUM_IS(0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, 0x1p970, -0x1p-1074);
	SUM_IS(1.0, 1.0, 0x1p-53);
	SUM_IS(0x1.0000000000001p0, 1.0, 0x1p-53, 0x1p-1074);
	SUM_IS(0x1.0000000000002p0, 0x1.0000000000001p0, 0x1p-53);
	SUM_IS(0x1.0000000000001p0, 0x1.0000000000001p0, 0x1p-53, -0x1p-1074);
	SUM_IS(0x1p-1022, 0x0.fffffffffffffp-1022, 0x1p-1074);
	SUM_IS(0x1p-1074, 0x1p-1022, -0x0.fffffffffffffp-1022);
	SUM_IS(-0x1p-1074, 1e308, 0x1p-1074, -1e308, -0x1p-1073);
	SUM_IS(2.0, 1e100, 1.0, -1e100, 1.0);
	SUM_IS(INFINITY, INFINITY, -0x1.fffffffffffffp1023);
	SUM_IS(NAN, INFINITY, -INFINITY, 1.0);
}

/*
 * Check the properties that ReproBLAS publishes. Sums of a sine over whole periods, of an alternating series, and of a
 * ramp with its negative have the same bits in any order and split. Values and their negatives add up to zero.
 */
static void reproblas(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	double v[RANKS];

	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		uint64_t first = 0;

		for (int n = 0; n < RANKS; n++)
			v[n] = kind == 0 ? sin(2 * M_PI * n / RANKS) :
			       kind == 1 ? (n % 2 ? -1.0 : 1.0) / (n + 1) :
					   (n % 2 ? -1 : 1) * ldexp(1 + n / 2, n / 2 * 30 - 900);
		for (int order = 0; order < 100; order++) {
			uint64_t got = one_sum(v, RANKS);

			first = order ? first : got;
			assert_int_equal(got, first);
			for (uint32_t i = RANKS - 1; i > 0; i--) {
				uint32_t j = vectors_below(&rng, i + 1);
				double swap = v[i];

				v[i] = v[j];
				v[j] = swap;
			}
		}
		assert_true(kind < 2 || !first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_values),
		cmocka_unit_test(every_order),
		cmocka_unit_test(xsum),
		cmocka_unit_test(reproblas),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
