/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare superaccumulators (superacc.h, superacc_read.h) with the oracle: sums in any order and any tree of merges,
 * subtracted values, averages, expansions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "ranges.h"
#include "superaccs.h"

#define ROUNDS 4000

/*
 * Check that the terms add up to the sum, that the first term is the rounded sum, and that each term is at most half an
 * ulp of the previous term.
 */
static void check_expansion(const struct fpisa_superacc *a, const struct oracle_exact *x, struct fpisa_format f)
{
	uint64_t nearest = oracle_exact_read(x);
	__u64 term[FPISA_EXPANSION_TERMS];
	struct oracle_exact again;
	int n = fpisa_superacc_expand(a, f, term);

	if (n < 0) {
		assert_int_equal(n, -ERANGE);
		assert_int_equal(nearest << (64 - f.ebits - f.mbits), fpisa_beyond(f) << (64 - f.ebits - f.mbits));
		return;
	}
	assert_uint_in_range(n, 1, FPISA_EXPANSION_TERMS);
	assert_int_equal(term[0], nearest);
	oracle_exact_init(&again, f);
	for (int i = 0; i < n; i++) {
		oracle_exact_add(&again, term[i]);
		if (i) {
			struct oracle_value v = oracle_decode(f, term[i]), above = oracle_decode(f, term[i - 1]);

			/* Check n 2^(e - 1) <= 2^(above.e - 2), both in quanta. */
			assert_true(v.n && above.e > v.e);
			assert_true(above.e - v.e > 60 || v.n <= 1ull << (above.e - v.e - 1));
		}
	}
	assert_int_equal(again.nan | again.pinf | again.ninf, x->nan | x->pinf | x->ninf);
	if (!(x->nan | x->pinf | x->ninf))
		assert_memory_equal(again.sum, x->sum, sizeof(x->sum));
}

static void sums(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static struct values v;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct oracle_exact x;

		choose(&v, &rng);
		oracle_of(&x, &v);
		for (int order = 0; order < 3; order++) {
			struct fpisa_superacc *a = order == 2 ? by_merges(&v, &rng) : fresh();

			for (uint32_t i = 0; i < v.n && order < 2; i++)
				add(&a, v.word[i], v.f, 0);
			check_read(a, &x, v.n, v.f);
			check_expansion(a, &x, v.f);
			free(a);
			shuffle(&v, &rng);
		}
	}
}

/* Check a moving window of a table. Values that leave the window are subtracted, in any order. */
static void windows(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static struct values v, in;

	(void)state;
	for (int round = 0; round < ROUNDS / 20; round++) {
		struct fpisa_superacc *a = fresh();
		uint32_t from = 0, to = 0;

		choose(&v, &rng);
		while (from < v.n) {
			struct oracle_exact x;

			if (to < v.n && (to == from || vectors_below(&rng, 2)))
				add(&a, v.word[to++], v.f, 0);
			else
				add(&a, v.word[from++], v.f, 1);
			in = (struct values){.f = v.f, .n = to - from};
			memcpy(in.word, v.word + from, in.n * sizeof(*in.word));
			oracle_of(&x, &in);
			if (v.n < 20 || !vectors_below(&rng, 50) || from == v.n)
				check_read(a, &x, in.n, v.f);
		}
		assert_int_equal(a->nan | a->pinf | a->ninf, 0);
		free(a);
	}
}

/*
 * Check that values within 30 powers of two take the smallest amount of memory, wherever the first value lies, even with
 * subtracted values and merges.
 */
static void few_exponents(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static struct values v;

	(void)state;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct fpisa_superacc *a = fresh(), *b = fresh();
		uint64_t top, sign, *word = v.word;
		struct oracle_exact x;

		v.f = of(vectors_below(&rng, 2));
		v.n = 1 + vectors_below(&rng, MOST);
		top = 31 + vectors_next(&rng) % (fpisa_exp_ones(v.f) - 31);
		for (uint32_t i = 0; i < v.n; i++, word++) {
			sign = round & vectors_below(&rng, 2);
			*word = value(&rng, v.f, 5, top - vectors_below(&rng, 31)) ^ sign << (v.f.ebits + v.f.mbits);
			add(i & 1 ? &b : &a, *word, v.f, 0);
			if (!vectors_below(&rng, 4)) {
				add(&a, *word, v.f, 0);
				add(&a, *word, v.f, 1);
			}
			assert_true(a->limbs <= FPISA_SUPERACC_LEAST && b->limbs <= FPISA_SUPERACC_LEAST);
		}
		fpisa_superacc_narrow(b);
		assert_int_equal(merge(&a, b, v.f), 0);
		assert_true(a->limbs <= FPISA_SUPERACC_LEAST);
		oracle_of(&x, &v);
		check_read(a, &x, v.n, v.f);
		free(a);
		free(b);
	}
}

/* Check enough of the largest values to outgrow windows. When all values are subtracted, the sum is empty. */
static void many(void **state)
{
	(void)state;
	for (uint32_t which = 0; which < 2; which++) {
		struct fpisa_format f = of(which);
		const uint64_t largest = fpisa_beyond(f) - 1, n = 3000000;
		struct fpisa_superacc *a = fresh();
		uint32_t flags = 0;

		add(&a, 1, f, 0);
		for (uint64_t i = 0; i < n; i++)
			add(&a, largest, f, 0);
		assert_int_equal(fpisa_superacc_read(a, f, f, 0, &flags), fpisa_beyond(f));
		assert_int_equal(flags, FPISA_OVERFLOW | FPISA_INEXACT | FPISA_INF);
		assert_int_equal(a->limbs, fpisa_superacc_most(f));
		for (uint64_t i = 0; i < n; i++)
			add(&a, largest, f, 1);
		flags = 0;
		assert_int_equal(fpisa_superacc_read(a, f, f, 0, &flags), 1);
		assert_int_equal(flags, 0);
		free(a);
	}
}

/* Add n times the value to x. */
static void oracle_times(struct oracle_exact *x, uint64_t word, uint64_t n)
{
	struct oracle_value d = oracle_decode(x->f, word);

	for (int bit = 0; bit < 62; bit++)
		if (n >> bit & 1)
			oracle_exact_accumulate(x, d.negative, d.n, d.e - 1 + bit);
}

/* Check that a window grows in time for the largest mantissas in its uppermost limb, by adds and by merges. */
static void on_top(void **state)
{
	const uint32_t adds = 5000, parts = 40, each = 31;

	(void)state;
	for (uint32_t which = 0; which < 2; which++) {
		struct fpisa_format f = of(which);

		for (uint64_t e = 96; e < 250; e++) {
			uint64_t word = 1ull << (f.ebits + f.mbits) | e << f.mbits | fpisa_frac_ones(f);
			uint64_t below = (e - 32) << f.mbits;
			struct fpisa_superacc *a = fresh();
			struct oracle_exact x;

			oracle_exact_init(&x, f);
			oracle_times(&x, below, 1);
			oracle_times(&x, word, adds);
			add(&a, below, f, 0);
			for (uint32_t i = 0; i < adds; i++)
				add(&a, word, f, 0);
			check_read(a, &x, adds + 1, f);
			free(a);

			/* Each part is merged with the previous part, and no part has carried since. */
			a = fresh();
			for (uint32_t part = 0; part < parts; part++) {
				struct fpisa_superacc *b = fresh();

				add(&b, below, f, 0);
				for (uint32_t i = 0; i < each; i++)
					add(&b, word, f, 0);
				assert_int_equal(merge(&b, a, f), 0);
				free(a);
				a = b;
			}
			oracle_exact_init(&x, f);
			oracle_times(&x, below, parts);
			oracle_times(&x, word, parts * each);
			check_read(a, &x, parts * (each + 1), f);
			free(a);
		}
	}
}

/* Check that merges carry the uppermost limb even if no value is added. */
static void doubled(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct fpisa_format f = of(vectors_below(&rng, 2));
		uint64_t word = value(&rng, f, 5, 40 + vectors_below(&rng, 150)), n = 1;
		struct fpisa_superacc *a = fresh();

		for (; n <= 120; n++)
			add(&a, word, f, 0);
		for (n--; n < 1ull << 50; n *= 2) {
			struct fpisa_superacc *b = malloc(fpisa_superacc_size(a->limbs));
			struct oracle_exact x;

			assert_non_null(b);
			memcpy(b, a, fpisa_superacc_size(a->limbs));
			assert_int_equal(merge(&a, b, f), 0);
			oracle_exact_init(&x, f);
			oracle_times(&x, word, 2 * n);
			check_read(a, &x, 2 * n, f);
			free(b);
		}
		free(a);
	}
}

/*
 * Check 2^-149 over 2^62 - 512, which is 2^-211 (1 + 2^-53 + 2^-106 + ...). Only the remainder shows that this is not a
 * tie.
 */
static void nearly_a_tie(void **state)
{
	uint8_t bytes[17] = {'F', 'S', 1, 0, 0x6b, 0xff, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 1};
	union fpisa_superacc_full read;
	uint32_t flags = 0;
	const char *why;

	(void)state;
	assert_int_equal(fpisa_partial_read(bytes, sizeof(bytes), of(0), &read, &why), 0);
	assert_int_equal(fpisa_superacc_read(&read.acc, of(0), of(1), 1, &flags), (1023ull - 211) << 52 | 1);
	assert_int_equal(flags, FPISA_INEXACT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearly_a_tie),	 cmocka_unit_test(sums), cmocka_unit_test(windows),
		cmocka_unit_test(few_exponents), cmocka_unit_test(many), cmocka_unit_test(on_top),
		cmocka_unit_test(doubled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
