// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test multiplication, reciprocal, logarithm and square root by tables. The reference for the small formats does not
 * use packing. It lists all finite values of a format in order, and searches for the value nearest to the exact result.
 * A long double holds this result to 64 bits, and products exactly. FP32 products are compared with those of the
 * machine. The other functions of FP32 are compared with the error bound of interpolation.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "lab/tables/tables.h"
#include "unit/ranges.h"
#include "vectors.h"

static const struct small {
	const char *name;
	enum fpisa_format_id id;
	int ebits, mbits, bias;
	uint32_t words, largest, infinity; /* infinity 0: the format has no infinity */
	uint32_t nan;
} smalls[] = {
	{"e4m3", FPISA_FORMAT_E4M3, 4, 3, 7, 0x100, 0x7e, 0, 0x7f},
	{"e5m2", FPISA_FORMAT_E5M2, 5, 2, 15, 0x100, 0x7b, 0x7c, 0x7e},
	{"bf16", FPISA_FORMAT_BF16, 8, 7, 127, 0x10000, 0x7f7f, 0x7f80, 0x7fc0},
	{"fp16", FPISA_FORMAT_FP16, 5, 10, 15, 0x10000, 0x7bff, 0x7c00, 0x7e00},
};

#define SMALLS ((int)(sizeof(smalls) / sizeof(smalls[0])))

/* The magnitudes of the format under test in the order of their words, then one value beyond the range */
static long double value[0x8000];

static void list_values(const struct small *s)
{
	for (uint32_t w = 0; w <= s->largest + 1; w++) {
		int e = (int)(w >> s->mbits);
		long double fraction = ldexpl((long double)(w & ((1u << s->mbits) - 1)), -s->mbits);

		value[w] = e ? ldexpl(1 + fraction, e - s->bias) : ldexpl(fraction, 1 - s->bias);
	}
}

static uint32_t sign_bit(const struct small *s)
{
	return s->words / 2;
}

static long double value_of(const struct small *s, uint32_t word)
{
	uint32_t magnitude = word & (sign_bit(s) - 1);
	long double v = magnitude <= s->largest ? value[magnitude] : magnitude == s->infinity ? INFINITY : NAN;

	return word & sign_bit(s) ? -v : v;
}

/* Return the reference result. FPISA_ROUND_DOWN rounds toward minus infinity. */
static uint32_t reference(const struct small *s, long double exact, enum fpisa_rounding rounding)
{
	uint32_t sign = signbit(exact) ? sign_bit(s) : 0, low = 0, high = s->largest + 1;
	uint32_t beyond = s->infinity ? s->infinity | sign : s->nan;
	long double x = fabsl(exact);

	if (isnan(exact))
		return s->nan;
	if (isinf(exact))
		return beyond;
	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (value[middle] <= x)
			low = middle;
		else
			high = middle;
	}
	if (x >= value[s->largest + 1])
		return beyond;
	if (rounding == FPISA_ROUND_DOWN)
		low += sign && x > value[low];
	else if (x - value[low] != value[low + 1] - x)
		low += x - value[low] > value[low + 1] - x;
	else
		low += low & 1;
	return low > s->largest ? beyond : low | sign;
}

static long double exact_result(enum fpisa_function fn, long double a, long double b)
{
	switch (fn) {
	case FPISA_MULTIPLY:
		return a * b;
	case FPISA_RECIPROCAL:
		return 1 / a;
	case FPISA_LOG2:
		return log2l(a);
	default:
		return sqrtl(a);
	}
}

static uint64_t apply(enum fpisa_function fn, enum fpisa_format_id id, enum fpisa_rounding rounding, uint64_t a,
		      uint64_t b, uint32_t *flags)
{
	const struct fpisa_format f = fpisa_format_of(id);
	struct fpisa_lane l = {.word = a};

	fpisa_apply(&l, fn, b, f, tables_look);
	fpisa_pack_result(&l, f, rounding);
	if (flags)
		*flags = l.flags;
	return l.word;
}

static void check(const struct small *s, enum fpisa_function fn, enum fpisa_rounding rounding, uint32_t a, uint32_t b)
{
	uint64_t got = apply(fn, s->id, rounding, a, b, NULL);
	uint64_t want = reference(s, exact_result(fn, value_of(s, a), value_of(s, b)), rounding);

	if (got != want)
		fail_msg("%s function %d of %x, %x rounding %d: got %llx, exact %llx", s->name, (int)fn, a, b,
			 (int)rounding, (unsigned long long)got, (unsigned long long)want);
}

/* Check that every input of every small format gives the correctly rounded result. */
static void unary_all(void **state)
{
	(void)state;
	for (int i = 0; i < SMALLS; i++) {
		list_values(&smalls[i]);
		for (int fn = FPISA_RECIPROCAL; fn < FPISA_FUNCTIONS; fn++)
			for (uint32_t a = 0; a < smalls[i].words; a++)
				check(&smalls[i], fn, FPISA_ROUND_NEAREST, a, 0);
	}
}

/* Check that roots of squares are exact in both roundings, because the entries for roots are rounded up. */
static void sqrt_down(void **state)
{
	(void)state;
	for (int i = 0; i < SMALLS; i++) {
		list_values(&smalls[i]);
		for (uint32_t a = 0; a < smalls[i].words; a++)
			check(&smalls[i], FPISA_SQRT, FPISA_ROUND_DOWN, a, 0);
	}
}

static void multiply_8_bits(void **state)
{
	(void)state;
	for (int i = 0; i < SMALLS; i++) {
		if (smalls[i].words > 0x100)
			continue;
		list_values(&smalls[i]);
		for (uint32_t a = 0; a < 0x100; a++)
			for (uint32_t b = 0; b < 0x100; b++) {
				check(&smalls[i], FPISA_MULTIPLY, FPISA_ROUND_NEAREST, a, b);
				check(&smalls[i], FPISA_MULTIPLY, FPISA_ROUND_DOWN, a, b);
			}
	}
}

/*
 * Check all pairs of significands. The exponents change with the significands, so some results are subnormal, and both
 * signs occur.
 */
static void multiply_16_bits(void **state)
{
	struct vectors_rng rng;

	(void)state;
	rng.state = vectors_seed();
	for (int i = 0; i < SMALLS; i++) {
		const struct small *s = &smalls[i];
		uint32_t fractions = 1u << s->mbits;

		if (s->words == 0x100)
			continue;
		list_values(s);
		for (uint32_t x = 0; x < fractions; x++)
			for (uint32_t y = 0; y < fractions; y++) {
				uint32_t a = (vectors_next(&rng) & (s->words - 1) & ~(fractions - 1)) | x;
				uint32_t b = (vectors_next(&rng) & (s->words - 1) & ~(fractions - 1)) | y;

				check(s, FPISA_MULTIPLY, FPISA_ROUND_NEAREST, a, b);
				check(s, FPISA_MULTIPLY, FPISA_ROUND_DOWN, a, b);
			}
	}
}

static float single(uint32_t word)
{
	float v;

	memcpy(&v, &word, sizeof(v));
	return v;
}

static uint32_t word_of(float v)
{
	uint32_t word;

	memcpy(&word, &v, sizeof(word));
	return isnan(v) ? 0x7fc00000 : word;
}

static void fp32_multiply(void **state)
{
	struct vectors_rng rng;
	uint32_t words[64];

	(void)state;
	rng.state = vectors_seed();
	for (uint64_t k = 0; k < 20000; k++) {
		vectors_fill(rng.state, k, 2, 32, words);
		for (int i = 0; i < 32; i++) {
			uint32_t a = words[i], b = words[32 + i], want, got;

			/* Include products that are subnormal, and smaller products. */
			if (i % 4 == 0)
				b = (b & 0x807fffff) | ((127 - (a >> 23 & 0xff) + (uint32_t)k % 40) & 0xff) << 23;
			want = word_of(single(a) * single(b));
			got = (uint32_t)apply(FPISA_MULTIPLY, FPISA_FORMAT_FP32, FPISA_ROUND_NEAREST, a, b, NULL);
			if (got != want)
				fail_msg("%08x x %08x: got %08x, the machine's %08x", a, b, got, want);
		}
	}
}

/*
 * Check that errors stay below the bound of linear interpolation over 2^-10, (2^-20 / 8) max |f''| / f. The bound is
 * 2^-22 for 1/x at 1, 2^-25 for the root at 1, and 2^-23.6 for the factor of log2 at 1. Packing adds half an ulp,
 * 2^-24.
 */
static void fp32_errors(void **state)
{
	static const double bound[FPISA_FUNCTIONS] = {
		[FPISA_RECIPROCAL] = 0x1p-22 + 0x1p-24 + 0x1p-29,
		[FPISA_LOG2] = 0x1.5p-24 + 0x1p-24 + 0x1p-29,
		[FPISA_SQRT] = 0x1p-25 + 0x1p-24 + 0x1p-29,
	};
	struct vectors_rng rng;

	(void)state;
	rng.state = vectors_seed();
	for (int k = 0; k < 3000000; k++) {
		enum fpisa_function fn = FPISA_RECIPROCAL + k % 3;
		uint64_t bits = vectors_next(&rng);
		uint32_t a = (uint32_t)bits & (fn == FPISA_RECIPROCAL ? ~0u : ~0u >> 1), got;
		long double exact;

		if (fn == FPISA_LOG2 && bits >> 63)
			a = 0x3f800000 + ((bits >> 62 & 1 ? 1 : -1) * (int32_t)((a & 0x7fffff) >> (bits >> 40) % 24));
		exact = exact_result(fn, single(a), 0);
		got = (uint32_t)apply(fn, FPISA_FORMAT_FP32, FPISA_ROUND_NEAREST, a, 0, NULL);
		if (!isfinite(exact) || exact == 0 || fabsl(exact) > 0x1.fffffep127L) {
			if (got != word_of((float)exact))
				fail_msg("function %d of %08x: got %08x, exact %La", (int)fn, a, got, exact);
		} else if (fabsl(single(got) - exact) > bound[fn] * fmaxl(fabsl(exact), 0x1p-126L)) {
			fail_msg("function %d of %08x: got %08x, exact %La, error %Lg", (int)fn, a, got, exact,
				 fabsl(single(got) / exact - 1));
		}
	}
}

static void fp32_specials(void **state)
{
	static const struct {
		enum fpisa_function fn;
		uint32_t a, b, want, flags;
	} cases[] = {
		{FPISA_MULTIPLY, 0x7f800000, 0x80000000, 0x7fc00000, FPISA_NAN},
		{FPISA_MULTIPLY, 0x00000000, 0xff800000, 0x7fc00000, FPISA_NAN},
		{FPISA_MULTIPLY, 0x7f800000, 0xbf800000, 0xff800000, FPISA_INF},
		{FPISA_MULTIPLY, 0xff812345, 0x3f800000, 0x7fc00000, FPISA_NAN},
		{FPISA_MULTIPLY, 0x80000000, 0x3f800000, 0x80000000, 0},
		{FPISA_MULTIPLY, 0x80000001, 0x00000001, 0x80000000, FPISA_INEXACT},
		{FPISA_MULTIPLY, 0x7f7fffff, 0x7f7fffff, 0x7f800000, FPISA_OVERFLOW | FPISA_INEXACT | FPISA_INF},
		{FPISA_MULTIPLY, 0x40000000, 0xc0400000, 0xc0c00000, 0},
		{FPISA_RECIPROCAL, 0x00000000, 0, 0x7f800000, FPISA_INF},
		{FPISA_RECIPROCAL, 0x80000000, 0, 0xff800000, FPISA_INF},
		{FPISA_RECIPROCAL, 0xff800000, 0, 0x80000000, 0},
		{FPISA_RECIPROCAL, 0x7fc00000, 0, 0x7fc00000, FPISA_NAN},
		{FPISA_RECIPROCAL, 0x00000001, 0, 0x7f800000, FPISA_OVERFLOW | FPISA_INEXACT | FPISA_INF},
		{FPISA_RECIPROCAL, 0x7f000000, 0, 0x00400000, 0},
		{FPISA_LOG2, 0x00000000, 0, 0xff800000, FPISA_INF},
		{FPISA_LOG2, 0x80000000, 0, 0xff800000, FPISA_INF},
		{FPISA_LOG2, 0x7f800000, 0, 0x7f800000, FPISA_INF},
		{FPISA_LOG2, 0xff800000, 0, 0x7fc00000, FPISA_NAN},
		{FPISA_LOG2, 0x80000001, 0, 0x7fc00000, FPISA_NAN},
		{FPISA_LOG2, 0x3f800000, 0, 0x00000000, 0},
		{FPISA_LOG2, 0x00000001, 0, 0xc3150000, 0},
		{FPISA_SQRT, 0x80000000, 0, 0x80000000, 0},
		{FPISA_SQRT, 0x7f800000, 0, 0x7f800000, FPISA_INF},
		{FPISA_SQRT, 0xff800000, 0, 0x7fc00000, FPISA_NAN},
		{FPISA_SQRT, 0xbf800000, 0, 0x7fc00000, FPISA_NAN},
		{FPISA_SQRT, 0x40800000, 0, 0x40000000, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t flags, got = (uint32_t)apply(cases[i].fn, FPISA_FORMAT_FP32, FPISA_ROUND_NEAREST, cases[i].a,
						      cases[i].b, &flags);

		if (got != cases[i].want || flags != cases[i].flags)
			fail_msg("case %zu: got %08x, flags %x", i, got, flags);
	}
}

/*
 * Check entries against long double. Reciprocals are within half a unit, logarithms within a little more, and roots are
 * rounded up.
 */
static void entries_exact(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < FPISA_NODES; i++) {
		long double x = 1 + i / 1024.0L, t = i < 512 ? x - 1 : x / 2 - 1;
		long double log = i ? log2l(1 + t) / t : 1 / logl(2);
		long double root = tables_entry[FPISA_TABLE_SQRT][i].value - 0x1p31L * sqrtl(x);

		assert_true(fabsl(tables_entry[FPISA_TABLE_RECIPROCAL][i].value - 0x1p31L / x) <= 0.5L);
		assert_true(fabsl(tables_entry[FPISA_TABLE_LOG2][i].value - 0x1p31L * log) <= 0.5L + 0x1p-20L);
		assert_true(root >= 0 && root < 1);
	}
	for (int t = 0; t < FPISA_TABLES; t++)
		assert_uint_in_range(fpisa_table_entries(t), 1, 1999);
}

static int setup(void **state)
{
	(void)state;
	tables_fill();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_exact),   cmocka_unit_test(unary_all),	       cmocka_unit_test(sqrt_down),
		cmocka_unit_test(multiply_8_bits), cmocka_unit_test(multiply_16_bits), cmocka_unit_test(fp32_multiply),
		cmocka_unit_test(fp32_errors),	   cmocka_unit_test(fp32_specials),
	};

	return cmocka_run_group_tests_name("unit/tables", tests, setup, NULL);
}
