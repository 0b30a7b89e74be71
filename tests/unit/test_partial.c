/* SPDX-License-Identifier: GPL-2.0-only */
/* Test partials (partial.h). Written bytes follow doc/partial.md, and any received bytes are handled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "superaccs.h"

#define ROUNDS 2000
#define HOSTILE 100000

/* Check that the bytes depend only on the values, and that reading them gives the written sum. */
static void check_bytes(const struct fpisa_superacc *a, const struct oracle_exact *x, struct fpisa_format f,
			uint8_t *first, uint32_t *first_size)
{
	uint8_t bytes[FPISA_PARTIAL_MOST], again[FPISA_PARTIAL_MOST];
	uint32_t size = fpisa_partial_write(a, f, bytes);
	union fpisa_superacc_full read;
	uint8_t *exact = malloc(size);
	const char *why;

	assert_non_null(exact);
	memcpy(exact, bytes, size);
	if (!*first_size) {
		memcpy(first, bytes, size);
		*first_size = size;
	}
	assert_int_equal(size, *first_size);
	assert_memory_equal(bytes, first, size);
	assert_int_equal(fpisa_partial_read(exact, size, f, &read, &why), 0);
	check_read(&read.acc, x, a->rows, f);
	assert_int_equal(fpisa_partial_write(&read.acc, f, again), size);
	assert_memory_equal(again, bytes, size);
	/* The limbs of FP64 hold the sums of FP32. */
	assert_int_equal(fpisa_partial_read(exact, size, of(1), &read, &why), 0);
	assert_int_equal(fpisa_partial_write(&read.acc, of(1), again), size);
	assert_memory_equal(again, bytes, size);
	fpisa_superacc_narrow(&read.acc);
	assert_int_equal(fpisa_partial_write(&read.acc, of(1), again), size);
	assert_memory_equal(again, bytes, size);
	free(exact);
}

static void orders(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static struct values v;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t bytes[FPISA_PARTIAL_MOST];
		struct oracle_exact x;
		uint32_t size = 0;

		choose(&v, &rng);
		oracle_of(&x, &v);
		for (int order = 0; order < 2; order++) {
			struct fpisa_superacc *a = by_merges(&v, &rng);

			check_bytes(a, &x, v.f, bytes, &size);
			free(a);
			shuffle(&v, &rng);
		}
	}
}

/*
 * Check merged partials with the largest number of rows. The limbs hold their sum, and the count refuses one row more.
 */
static void as_many_as_there_may_be(void **state)
{
	(void)state;
	for (uint32_t which = 0; which < 2; which++) {
		struct fpisa_format f = of(which);
		struct fpisa_superacc *a = fresh();
		uint8_t bytes[FPISA_PARTIAL_MOST];
		union fpisa_superacc_full read;
		uint32_t size, flags = 0;
		const char *why;

		add(&a, fpisa_beyond(f) - 1, f, 0);
		for (int doubled = 0; doubled < 62; doubled++) {
			size = fpisa_partial_write(a, f, bytes);
			assert_int_equal(fpisa_partial_read(bytes, size, f, &read, &why), 0);
			assert_int_equal(merge(&a, &read.acc, f), 0);
		}
		assert_int_equal(a->rows, 1ull << 62);
		assert_int_equal(fpisa_superacc_read(a, f, f, 1, &flags), fpisa_beyond(f) - 1);
		size = fpisa_partial_write(a, f, bytes);
		assert_int_equal(fpisa_partial_read(bytes, size, f, &read, &why), 0);
		assert_int_equal(merge(&a, &read.acc, f), -ERANGE);
		read.acc.rows--;
		assert_int_equal(merge(&a, &read.acc, f), 0);
		assert_int_equal(a->rows, (1ull << 63) - 1);
		/* One row less than the sum needs is refused. */
		bytes[8]--;
		for (int i = 9; i < 16; i++)
			bytes[i] = 0xff;
		bytes[15] = 0x1f;
		assert_int_equal(fpisa_partial_read(bytes, size, f, &read, &why), -ERANGE);
		free(a);
	}
}

/* Check that any bytes give an error, or a partial that is written again and reads back the same. */
static void hostile(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	uint32_t taken = 0, refused[3] = {0};

	(void)state;
	for (int round = 0; round < HOSTILE; round++) {
		uint8_t bytes[FPISA_PARTIAL_MOST + 8], again[FPISA_PARTIAL_MOST], *exact;
		struct fpisa_format f = of(vectors_below(&rng, 2));
		union fpisa_superacc_full read, twice;
		struct fpisa_superacc *a = fresh();
		uint32_t size, flags = 0;
		const char *why;
		int rc;

		for (uint32_t n = vectors_below(&rng, 4); n; n--)
			add(&a, value(&rng, f, vectors_below(&rng, 7), 1 + vectors_below(&rng, 200)), f, 0);
		size = fpisa_partial_write(a, f, bytes);
		for (uint32_t n = vectors_below(&rng, 4); n; n--)
			bytes[vectors_below(&rng, size)] ^= (uint8_t)(1u << vectors_below(&rng, 8));
		if (!vectors_below(&rng, 3))
			size = vectors_below(&rng, size + 1);
		if (!vectors_below(&rng, 10))
			for (uint32_t i = 4 * vectors_below(&rng, 2); i < sizeof(bytes); i++)
				bytes[i] = (uint8_t)vectors_next(&rng);
		if (!vectors_below(&rng, 10))
			size = vectors_below(&rng, sizeof(bytes) + 1);
		exact = malloc(size + !size);
		assert_non_null(exact);
		memcpy(exact, bytes, size);
		rc = fpisa_partial_read(exact, size, f, &read, &why);
		if (rc) {
			refused[rc == -EINVAL ? 0 : rc == -EPROTONOSUPPORT ? 1 : 2]++;
			assert_true(rc == -EINVAL || rc == -EPROTONOSUPPORT || rc == -ERANGE);
		} else {
			taken++;
			size = fpisa_partial_write(&read.acc, f, again);
			assert_int_equal(fpisa_partial_read(again, size, f, &twice, &why), 0);
			if (read.acc.rows)
				assert_int_equal(fpisa_superacc_read(&read.acc, f, f, 1, &flags),
						 fpisa_superacc_read(&twice.acc, f, f, 1, &flags));
			assert_true(merge(&a, &read.acc, f) <= 0);
			fpisa_partial_write(a, f, again);
		}
		free(exact);
		free(a);
	}
	assert_true(taken > HOSTILE / 10 && refused[0] > HOSTILE / 100 && refused[1] > HOSTILE / 1000 &&
		    refused[2] > HOSTILE / 1000);
}

/*
 * Check that counts above the number of rows are refused, even if their sum exceeds 2^64, and that other counts are
 * accepted.
 */
static void counts(void **state)
{
	const uint64_t most = INT64_MAX;
	const uint64_t of_each[][4] = {
		{most, most, most, most}, {most, 1, most, 0}, {2, 1, 1, 1}, {2, UINT64_MAX, 1, 1},
		{most, most, 0, 0},	  {3, 1, 1, 1},	      {2, 1, 0, 1}};

	(void)state;
	for (uint32_t i = 0; i < sizeof(of_each) / sizeof(*of_each); i++) {
		uint8_t bytes[40] = {'F', 'S', 1, 2};
		union fpisa_superacc_full read;
		const char *why;

		memcpy(bytes + 8, of_each[i], sizeof(of_each[i]));
		assert_int_equal(fpisa_partial_read(bytes, sizeof(bytes), of(1), &read, &why), i < 4 ? -ERANGE : 0);
	}
}

/* Check the bytes that doc/partial.md shows. */
static void known(void **state)
{
	static const uint8_t bytes[] = {'F', 'S', 1, 1, 0xff, 0xff, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3};
	static const struct {
		uint8_t at, byte;
		int rc;
	} bad[] = {{0, 'f', -EINVAL},	{2, 2, -EPROTONOSUPPORT}, {3, 4, -EINVAL},    {6, 1, -EINVAL},
		   {15, 0x80, -ERANGE}, {5, 0x10, -ERANGE},	  {5, 0xf0, -ERANGE}, {8, 0, -ERANGE}};
	uint8_t out[FPISA_PARTIAL_MOST];
	union fpisa_superacc_full read;
	struct fpisa_superacc *a = fresh();
	const char *why;

	(void)state;
	add(&a, 0x3f800000, of(0), 0); /* 1, -2.5 */
	add(&a, 0xc0200000, of(0), 0);
	assert_int_equal(fpisa_partial_write(a, of(0), out), sizeof(bytes));
	assert_memory_equal(out, bytes, sizeof(bytes));
	for (uint32_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		memcpy(out, bytes, sizeof(bytes));
		out[bad[i].at] = bad[i].byte;
		assert_int_equal(fpisa_partial_read(out, sizeof(bytes), of(0), &read, &why), bad[i].rc);
	}
	for (uint32_t size = 0; size < 16; size++)
		assert_int_equal(fpisa_partial_read(bytes, size, of(0), &read, &why), -EINVAL);
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known),   cmocka_unit_test(counts),
		cmocka_unit_test(orders),  cmocka_unit_test(as_many_as_there_may_be),
		cmocka_unit_test(hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
