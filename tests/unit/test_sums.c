/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare exact sums of arrays (adapters/python/sums) with the oracle, on any values, strides, nulls, addresses and
 * splits, with each vector unit of this CPU. Results must not depend on any of these.
 */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "superaccs.h"
#include "../../adapters/python/sums/sums.h"

#define ROUNDS 400
#define LONGEST 9000

static uint64_t word_of(double x)
{
	uint64_t word;

	memcpy(&word, &x, sizeof(word));
	return word;
}

static const char *const units[] = {"avx512", "avx2", "baseline"};

/* An array that ends where its memory ends, and the oracle's sum */
struct sample {
	struct sums_array x;
	char *memory;
	__u8 *valid;
	struct fpisa_format f;
	uint64_t word[LONGEST];
	struct oracle_exact sum;
	uint64_t rows;
};

static int is_null(const struct sample *s, uint32_t i)
{
	uint64_t bit = (uint64_t)s->x.valid_offset + i;

	return s->valid && !(s->valid[bit / 8] >> bit % 8 & 1);
}

/*
 * Make a sample with few exponents, with all exponents or with exponents that change along the array, and sometimes
 * with nulls.
 */
static void make(struct sample *s, struct vectors_rng *rng)
{
	uint32_t n = vectors_below(rng, vectors_below(rng, 3) ? LONGEST : 70), kind = vectors_below(rng, 7), bytes, gap;
	uint64_t centre;

	memset(s, 0, sizeof(*s));
	s->f = of(vectors_below(rng, 2));
	bytes = s->f.bytes;
	gap = vectors_below(rng, 2) ? 0 : vectors_below(rng, 9);
	s->x = (struct sums_array){.n = n, .stride = bytes + gap, .type = bytes == 8 ? SUMS_FLOAT64 : SUMS_FLOAT32};
	s->memory = malloc(n ? (size_t)(n - 1) * (bytes + gap) + bytes : 1);
	assert_non_null(s->memory);
	if (!vectors_below(rng, 3)) {
		s->x.valid_offset = vectors_below(rng, 20);
		s->valid = malloc((n + 27) / 8);
		assert_non_null(s->valid);
		for (uint32_t i = 0; i < (n + 27) / 8; i++)
			s->valid[i] = (__u8)vectors_next(rng);
	}
	s->x.valid = s->valid;
	oracle_exact_init(&s->sum, s->f);
	centre = 1 + vectors_next(rng) % (fpisa_exp_ones(s->f) - 1);
	for (uint32_t i = 0; i < n; i++) {
		if (!vectors_below(rng, 2000))
			centre = 1 + vectors_next(rng) % (fpisa_exp_ones(s->f) - 1);
		s->word[i] = value(rng, s->f, vectors_below(rng, 40) ? kind : vectors_below(rng, 6), centre);
		memcpy(s->memory + (size_t)i * (bytes + gap), &s->word[i], bytes);
		if (is_null(s, i))
			continue;
		oracle_exact_add(&s->sum, s->word[i]);
		s->rows++;
	}
	s->x.data = s->memory;
	/* the same values, in reverse order */
	if (n && vectors_below(rng, 2) && !s->valid) {
		s->x.data += (size_t)(n - 1) * (bytes + gap);
		s->x.stride = -s->x.stride;
	}
}

static void drop(struct sample *s)
{
	free(s->memory);
	free(s->valid);
}

static void check(const struct sample *s, const union fpisa_superacc_full *a)
{
	for (uint32_t to = 0; to < 2; to++) {
		int format = to ? FPISA_FORMAT_FP64 : FPISA_FORMAT_FP32;
		uint32_t flags = 0;

		assert_int_equal(sums_read(a, format, 0), quotient(&s->sum, 1, of(to), &flags));
		if (s->rows)
			assert_int_equal(sums_read(a, format, 1), quotient(&s->sum, s->rows, of(to), &flags));
	}
	assert_int_equal(a->acc.rows, s->rows);
}

/* Check sums in one call, and in several calls whose accumulators merge. */
static void arrays(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	union fpisa_superacc_full a, b;
	static struct sample s;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		make(&s, &rng);
		for (size_t u = 0; u < 3; u++) {
			struct sums_array part = s.x;

			sums_vectors(units[u]);
			sums_init(&a);
			assert_int_equal(sums_add(&a, &s.x), 0);
			check(&s, &a);
			sums_init(&a);
			for (__s64 left = s.x.n; left; left -= part.n) {
				part.n = 1 + vectors_below(&rng, (uint32_t)left);
				sums_init(&b);
				assert_int_equal(sums_add(&b, &part), 0);
				assert_int_equal(sums_merge(&a, &b), 0);
				part.data += part.n * part.stride;
				part.valid_offset += part.n;
			}
			check(&s, &a);
		}
		drop(&s);
	}
}

/* Check that each group has the bits of the sum of its own values. */
static void groups(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static __s64 code[LONGEST];
	static struct sample s;

	(void)state;
	for (int round = 0; round < ROUNDS / 4; round++) {
		int64_t n = 1 + vectors_below(&rng, vectors_below(&rng, 2) ? 4 : 500);
		struct sums_groups *g = sums_groups_new(n, 1);
		uint64_t *out = malloc((size_t)n * 8), *average = malloc((size_t)n * 8);

		assert_true(g && out && average);
		make(&s, &rng);
		for (__s64 i = 0; i < s.x.n; i++)
			code[i] = (__s64)vectors_below(&rng, (uint32_t)n + 1) - 1;
		if (s.x.stride < 0) {
			s.x.data = s.memory;
			s.x.stride = -s.x.stride;
		}
		assert_int_equal(sums_groups_add(g, &s.x, code), 0);
		assert_int_equal(sums_groups_read(g, FPISA_FORMAT_FP64, 0, out), 0);
		assert_int_equal(sums_groups_read(g, FPISA_FORMAT_FP64, 1, average), 0);
		for (int64_t k = 0; k < n; k++) {
			union fpisa_superacc_full a;
			uint64_t rows = 0;
			uint32_t flags = 0;

			oracle_exact_init(&s.sum, s.f);
			for (uint32_t i = 0; i < s.x.n; i++) {
				if (code[i] == k && !is_null(&s, i)) {
					oracle_exact_add(&s.sum, s.word[i]);
					rows++;
				}
			}
			s.rows = rows;
			assert_int_equal(out[k], quotient(&s.sum, 1, of(1), &flags));
			if (rows)
				assert_int_equal(average[k], quotient(&s.sum, rows, of(1), &flags));
			sums_init(&a);
			assert_int_equal(sums_groups_get(g, k, &a), 0);
			check(&s, &a);
		}
		code[0] = n;
		assert_int_equal(sums_groups_add(g, &s.x, code), s.x.n && !is_null(&s, 0) ? -ERANGE : 0);
		sums_groups_free(g);
		free(out);
		free(average);
		drop(&s);
	}
}

/*
 * Check more groups than a cache holds and more values than blocks hold, then the same values by the positions of their
 * groups.
 */
#define MANY 140000
#define VALUES 3000000
static void many_groups(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct sums_groups *g = sums_groups_new(MANY, 0);
	double *x = malloc(VALUES * sizeof(*x)), *arranged = malloc(VALUES * sizeof(*x));
	__s64 *code = malloc(VALUES * sizeof(*code)), *place = malloc(VALUES * sizeof(*place));
	__s64 *start = malloc((MANY + 1) * sizeof(*start));
	__u8 *valid = calloc(VALUES / 8 + 1, 1), *nulls = malloc(VALUES / 8 + 1);
	struct sums_array all = {(const char *)x, VALUES, 8, nulls, 0, SUMS_FLOAT64};
	union fpisa_superacc_full a, b;

	(void)state;
	assert_true(g && x && arranged && code && place && start && valid && nulls);
	memset(nulls, 0xff, VALUES / 8 + 1);
	sums_vectors(units[vectors_below(&rng, 3)]);
	for (__s64 i = 0; i < VALUES; i++) {
		x[i] = ldexp((double)(__s64)vectors_next(&rng),
			     vectors_below(&rng, 1000) ? -63 : (int)vectors_below(&rng, 600) - 300);
		code[i] = (__s64)vectors_below(&rng, MANY + 1) - 1;
		if (!vectors_below(&rng, 100))
			nulls[i >> 3] &= (__u8) ~(1u << (i & 7));
	}
	assert_int_equal(sums_groups_add(g, &all, code), 0);
	assert_int_equal(sums_places(code, VALUES, MANY, place, start), 0);
	assert_int_equal(sums_arrange(&all, place, arranged, valid), 0);
	for (int i = 0; i < 2000; i++) {
		const __s64 k = i < 2 ? i * (MANY - 1) : (__s64)vectors_below(&rng, MANY);
		const struct sums_array part = {
			(const char *)(arranged + start[k]), start[k + 1] - start[k], 8, valid, start[k], SUMS_FLOAT64};

		sums_init(&a);
		sums_init(&b);
		assert_int_equal(sums_groups_get(g, k, &a), 0);
		assert_int_equal(sums_add(&b, &part), 0);
		assert_int_equal(sums_read(&a, FPISA_FORMAT_FP64, 0), sums_read(&b, FPISA_FORMAT_FP64, 0));
	}
	code[7] = MANY;
	assert_int_equal(sums_places(code, VALUES, MANY, place, start), -ERANGE);
	sums_groups_free(g);
	free(x);
	free(arranged);
	free(code);
	free(place);
	free(start);
	free(valid);
	free(nulls);
}

/* Check integers of each width against sums of their digits with carries, and against __int128 if they fit. */
static void decimals(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	__u8 valid[40];

	(void)state;
	for (int bits = 32; bits <= 256; bits *= 2) {
		__s64 digits[8] = {0}, rows = 0;
		__u32 x[300 * 8];
		__int128 sum = 0, got = 0;

		for (int i = 0; i < 40; i++)
			valid[i] = (__u8)vectors_next(&rng);
		for (int i = 0; i < 300; i++) {
			const __int128 v = (__int128)(__s64)vectors_next(&rng) >> (bits == 32 ? 32 : 0);

			for (int j = 0; j < bits / 32; j++)
				x[i * (bits / 32) + j] = (__u32)(j < 4 ? v >> 32 * j : v >> 127);
			if (valid[(i + 5) / 8] >> (i + 5) % 8 & 1) {
				sum += v;
				rows++;
			}
		}
		assert_int_equal(sums_decimals(x, bits, 300, valid, 5, digits), rows);
		for (int j = bits / 32 - 1; j >= 0; j--)
			got = (__int128)((unsigned __int128)got << 32) + digits[j];
		assert_true(got == sum);
	}
	assert_int_equal(sums_decimals(valid, 16, 1, NULL, 0, NULL), -EINVAL);
}

/* Check that the caller's rounding mode has no effect and is preserved. */
static void environment(void **state)
{
	const double x[40] = {0x1p60, 1, 0x1p-60, -0x1p60, 0.1};
	const struct sums_array array = {(const char *)x, 40, 8, NULL, 0, SUMS_FLOAT64};
	union fpisa_superacc_full a, b;

	(void)state;
	sums_init(&a);
	sums_init(&b);
	assert_int_equal(sums_add(&a, &array), 0);
	fesetround(FE_UPWARD);
	assert_int_equal(sums_add(&b, &array), 0);
	assert_int_equal(fegetround(), FE_UPWARD);
	fesetround(FE_TONEAREST);
	assert_int_equal(sums_read(&a, FPISA_FORMAT_FP64, 0), sums_read(&b, FPISA_FORMAT_FP64, 0));
}

/*
 * Check sums of 64-bit integers, including negative integers, which are added in two halves. Check that their product
 * with an infinity is not NaN. A half may be 0, and 0 times an infinity is NaN.
 */
static void integers(void **state)
{
	const __s64 n[] = {INT64_MIN, -1, 1ll << 32, 5, INT64_MIN};
	const double y[] = {0x1p-100, -0x1p900, 0, 0x1p900, -HUGE_VAL};
	const double sum = -0x1p64 + 0x1p32 + 4, product = 6 * 0x1p900, infinite = HUGE_VAL;
	const struct sums_array ints = {(const char *)n, 5, 8, NULL, 0, SUMS_INT64};
	const struct sums_array doubles = {(const char *)y, 5, 8, NULL, 0, SUMS_FLOAT64};
	union fpisa_superacc_full a, three[3];

	(void)state;
	sums_init(&a);
	assert_int_equal(sums_add(&a, &ints), 0);
	assert_int_equal(sums_read(&a, FPISA_FORMAT_FP64, 0), word_of(sum));
	for (__s64 k = 4; k <= 5; k++) {
		struct sums_array x = doubles, z = ints;

		x.n = z.n = k;
		for (int swapped = 0; swapped < 2; swapped++) {
			for (int i = 0; i < 3; i++)
				sums_init(&three[i]);
			assert_int_equal(sums_dot(three, swapped ? &z : &x, swapped ? &x : &z), 0);
			assert_int_equal(sums_read(three, FPISA_FORMAT_FP64, 0), word_of(k == 5 ? infinite : product));
		}
	}
}

static void refusals(void **state)
{
	union fpisa_superacc_full a, three[3];
	struct sums_array x = {"", 0, 8, NULL, 0, SUMS_TYPES}, y = {"", 1, 8, NULL, 0, SUMS_FLOAT64};

	(void)state;
	sums_init(&a);
	assert_int_equal(sums_add(&a, &x), -EINVAL);
	x.type = SUMS_FLOAT64;
	assert_int_equal(sums_dot(three, &x, &y), -EINVAL);
	x.n = -1;
	assert_int_equal(sums_add(&a, &x), -EINVAL);
	a.acc.rows = ~0ull >> 1;
	assert_int_equal(sums_add(&a, &y), -ERANGE);
	assert_null(sums_groups_new(-1, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays),   cmocka_unit_test(groups),	cmocka_unit_test(environment),
		cmocka_unit_test(integers), cmocka_unit_test(refusals), cmocka_unit_test(many_groups),
		cmocka_unit_test(decimals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
