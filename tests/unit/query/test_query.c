/* SPDX-License-Identifier: GPL-2.0-only */
/* Compare each rule of queries with its simplest implementation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa/query/check.h"
#include "fpisa/query/order.h"
#include "fpisa/query/window.h"
#include "query/soft/query.h"
#include "vectors.h"

static struct vectors_rng rng;

#define SEQUENCES 400

/*
 * Return the rule's answer from the set of all taken numbers. A number may be taken if no missing number would then lie
 * `width` or more below the highest number.
 */
static int expected(const bool *taken, uint64_t high, uint64_t sequence, uint32_t width)
{
	if (!sequence)
		return -FPISA_V_sequence;
	if (sequence <= high)
		return !taken[sequence];
	for (uint64_t s = 1; s + width <= sequence; s++)
		if (!taken[s])
			return -FPISA_V_sequence;
	return 1;
}

static void windows(void **state)
{
	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint32_t width = round % 4 ? 1 + vectors_below(&rng, FPISA_QUERY_WINDOW) : FPISA_QUERY_WINDOW;
		struct fpisa_query_window w = fpisa_query_window_empty(width);
		bool taken[SEQUENCES] = {false};
		uint64_t high = 0, low = 1;

		for (int i = 0; i < 600; i++) {
			uint64_t s = low + vectors_below(&rng, width + 4) -
				     (vectors_below(&rng, 4) ? 0 : vectors_below(&rng, low + 1));
			int want;

			if (s >= SEQUENCES)
				continue;
			want = expected(taken, high, s, width);
			assert_int_equal(fpisa_query_window_fresh(&w, s, width), want);
			/* A worker that follows the rule is never refused. */
			if (s && s < low + width)
				assert_true(want >= 0);
			if (want <= 0)
				continue;
			fpisa_query_window_take(&w, s, width);
			taken[s] = true;
			high = s > high ? s : high;
			while (low < SEQUENCES && taken[low])
				low++;
			assert_int_equal(fpisa_query_window_full(&w, high, width), low == high + 1);
			assert_false(fpisa_query_window_full(&w, high + 1, width));
		}
	}
}

static int by_sql(float a, float b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return (a > b) - (a < b);
}

static void order(void **state)
{
	static const uint32_t ends[] = {0, 1, 0x7fffff, 0x800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fffffff};
	float f[2];

	(void)state;
	for (int i = 0; i < 2000000; i++) {
		uint32_t bits[2], key[2], back;

		for (int k = 0; k < 2; k++) {
			bits[k] = vectors_below(&rng, 4) ? (uint32_t)vectors_next(&rng) :
							   ends[vectors_below(&rng, 8)] | vectors_below(&rng, 2) << 31;
			memcpy(&f[k], &bits[k], sizeof(f[k]));
			key[k] = fpisa_order_key(bits[k]);
			back = fpisa_order_value(key[k]);
			assert_int_equal(fpisa_order_key(back), key[k]);
			if (!isnan(f[k]) && f[k] != 0)
				assert_int_equal(back, bits[k]);
		}
		assert_int_equal(by_sql(f[0], f[1]), (key[0] > key[1]) - (key[0] < key[1]));
	}
}

/* Check which sender may send which frame, and the length of the frame. */
static void frames(void **state)
{
	struct fpisa_job j = {.workers = 3, .format = FPISA_FORMAT_FP32, .query = {.limit = 9, .key_bytes = 4}};
	struct fpisa_query_config q;
	const struct {
		__u8 type, rank, kind;
		__u16 count;
		__u32 slot, payload;
		enum fpisa_verdict want;
	} cases[] = {
		{FPISA_TYPE_ROWS, 0, 17, 128, 0, 1024, FPISA_V_ok},
		{FPISA_TYPE_ROWS, 1, 17, 5, 0, 64, FPISA_V_ok},
		{FPISA_TYPE_ROWS, 1, 17, 0, 0, 0, FPISA_V_ok},
		{FPISA_TYPE_ROWS, 1, 17, 5, 0, 40, FPISA_V_length},
		{FPISA_TYPE_ROWS, 1, 17, 129, 0, 1056, FPISA_V_length},
		{FPISA_TYPE_ROWS, 2, 17, 5, 0, 64, FPISA_V_type},
		{FPISA_TYPE_SEAL, 2, 17, 2, 0, 32, FPISA_V_ok},
		{FPISA_TYPE_SEAL, 2, 17, 2, 0, 64, FPISA_V_length},
		{FPISA_TYPE_SEAL, 0, 17, 2, 0, 32, FPISA_V_type},
		{FPISA_TYPE_READ, 2, 17, 3, 0, 384, FPISA_V_ok},
		{FPISA_TYPE_READ, 2, 17, 27, 0, 3456, FPISA_V_length},
		{FPISA_TYPE_READ, 2, 16, 3, 0, 384, FPISA_V_type},
		{FPISA_TYPE_READ, 1, 17, 3, 0, 384, FPISA_V_type},
		{FPISA_TYPE_ACK, 2, 17, 0, 1, 0, FPISA_V_ok},
		{FPISA_TYPE_ACK, 2, 17, 0, 2, 0, FPISA_V_rank},
		{FPISA_TYPE_ACK, 2, 17, 0, 1, 32, FPISA_V_length},
		{FPISA_TYPE_ACK, 0, 17, 0, 1, 0, FPISA_V_type},
		{FPISA_TYPE_GROUPS, 2, 17, 0, 0, 0, FPISA_V_type},
		{FPISA_TYPE_STATUS, 2, 17, 0, 0, 0, FPISA_V_type},
		{FPISA_TYPE_KEYS, 0, 17, 5, 0, 32, FPISA_V_ok},
		{FPISA_TYPE_KEYS, 0, 18, 0, 0, 0, FPISA_V_ok},
		{FPISA_TYPE_KEYS, 0, 17, 5, 0, 64, FPISA_V_length},
		{FPISA_TYPE_KEYS, 0, 17, 129, 0, 544, FPISA_V_length},
		{FPISA_TYPE_KEYS, 2, 17, 5, 0, 32, FPISA_V_type},
		{FPISA_TYPE_KEYS_ACK, 0, 17, 0, 0, 0, FPISA_V_type},
	};

	(void)state;
	j.query.flags = FPISA_QUERY_BITMAP;
	j.query.filter_bytes = 4;
	fpisa_query_of(&j, 5, &q);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fpisa_hdr h = {.type = cases[i].type,
				      .rank = cases[i].rank,
				      .count = cases[i].count,
				      .slot = cases[i].slot,
				      .format = FPISA_FORMAT_FP32};

		j.kind = cases[i].kind;
		if (fpisa_check_query(&h, cases[i].payload, &j, &q) != cases[i].want)
			fail_msg("case %zu: %d", i, fpisa_check_query(&h, cases[i].payload, &j, &q));
		h.format = FPISA_FORMAT_FP16;
		assert_int_not_equal(fpisa_check_query(&h, cases[i].payload, &j, &q), FPISA_V_ok);
	}
	/* A query without a filter accepts keys from no member. */
	q.flags = 0;
	assert_int_equal(
		fpisa_check_query(&(struct fpisa_hdr){.type = FPISA_TYPE_KEYS, .format = FPISA_FORMAT_FP32}, 0, &j, &q),
		FPISA_V_type);
}

/* Check that a full Bloom filter contains all of its keys, in sequence or not, and matches few other keys. */
static void bloom(void **state)
{
	(void)state;
	for (uint32_t shift = 0; shift <= 40; shift += 20) {
		struct fpisa_soft_query q = {.kind = FPISA_QUERY_JOIN,
					     .config = {.master = 1,
							.key_bytes = 8,
							.row_bytes = 16,
							.flags = FPISA_QUERY_BLOOM,
							.filter_bytes = 8,
							.filter_mask = 1023,
							.seed = vectors_next(&rng)}};
		enum { KEYS = 1024 * FPISA_FILTER_BLOOM_KEYS, OTHERS = 200000 };
		uint32_t passed = 0, filter;
		__u64 missing;
		uint8_t keep;

		assert_int_equal(fpisa_soft_query_init(&q), 0);
		for (uint64_t i = 0; i < KEYS; i++) {
			uint64_t key = i << shift;

			assert_int_equal(fpisa_soft_query_keys(&q, 1, 0, &key, 1, i == KEYS - 1, &missing, &filter),
					 FPISA_V_keys_taken);
		}
		assert_int_equal(missing, 0);
		for (uint64_t i = 0; i < KEYS + OTHERS; i++) {
			uint64_t row[2] = {i << shift, 1ull << 32};

			fpisa_soft_query_rows(&q, 1, 0, i + 1, row, 1, &keep);
			if (i < KEYS)
				assert_true(keep);
			else
				passed += keep;
		}
		/* One in a thousand is expected, which is 200 of 200,000 random keys, plus or minus 45. */
		if (passed > 350)
			fail_msg("%u of %u keys << %u that are not in it pass", passed, OTHERS, shift);
		fpisa_soft_query_free(&q);
	}
}

/* Check that a row is pruned exactly if it is not among the first N of the rows so far. */
static void heap(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		struct fpisa_soft_query q = {
			.kind = FPISA_QUERY_TOPN,
			.config = {.key_bytes = 4, .row_bytes = 8, .limit = 1 + vectors_below(&rng, 60)}};
		uint32_t best[64], n = 0;

		assert_int_equal(fpisa_soft_query_init(&q), 0);
		for (uint64_t s = 1; s <= 400; s++) {
			float value = (float)(int32_t)vectors_below(&rng, round % 2 ? 50 : 1 << 20);
			uint32_t row[2] = {(uint32_t)s}, place;
			uint8_t keep;

			memcpy(&row[1], &value, sizeof(value));
			fpisa_soft_query_rows(&q, 1, 0, s, row, 1, &keep);
			/* best[] is in descending order. */
			place = n;
			while (place && best[place - 1] < (uint32_t)value)
				place--;
			assert_int_equal(keep, place < q.config.limit);
			if (place == q.config.limit)
				continue;
			n += n < q.config.limit;
			memmove(&best[place + 1], &best[place], (n - place - 1) * sizeof(*best));
			best[place] = (uint32_t)value;
		}
		fpisa_soft_query_free(&q);
	}
}

/*
 * Check keys that form a sequence in any of their bits. Of 100,000 keys two or three find their bucket full, as with
 * random keys.
 */
static void spread(void **state)
{
	enum { KEYS = 100000, BUCKETS = 65536 };

	(void)state;
	for (uint32_t shift = 0; shift <= 40; shift += 8) {
		struct fpisa_soft_query q = {.kind = FPISA_QUERY_TABLE,
					     .width = FPISA_QUERY_WINDOW,
					     .config = {.key_bytes = 8,
							.row_bytes = 16,
							.limit = KEYS,
							.bucket_mask = BUCKETS - 1,
							.seed = vectors_next(&rng)}};
		uint32_t left = 0;

		assert_int_equal(fpisa_soft_query_init(&q), 0);
		for (uint64_t i = 0; i < KEYS; i++) {
			uint64_t row[2] = {i << shift, 1ull << 32};
			uint8_t keep;

			fpisa_soft_query_rows(&q, 1, 0, i + 1, row, 1, &keep);
			left += keep;
		}
		if (left > 30)
			fail_msg("%u of the keys i << %u find their bucket full", left, shift);
		fpisa_soft_query_free(&q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows), cmocka_unit_test(order),  cmocka_unit_test(frames),
		cmocka_unit_test(heap),	   cmocka_unit_test(spread), cmocka_unit_test(bloom),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
