/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test filters of join keys: frames of keys and their answers, and the states in which a filter is used or all rows
 * pass. Then compare random rows behind a filter with user space, bit for bit, and with a plain set of the keys. A row
 * whose key is in the set is never pruned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "query/soft/query.h"
#include "queries.h"
#include "query_oracle.h"
#include "vectors.h"

#define JOB 5
#define WORKERS 2
#define BLOCKS 4 /* number of blocks of a filter, each with 256 bits or at least 16 keys */
#define ROW_MAX 40

static struct query q;
static struct vectors_rng rng;

static void open_query(unsigned int kind, uint32_t filter, uint32_t limit)
{
	q = (struct query){.config = {.job = JOB,
				      .key_bytes = 4,
				      .limit = limit,
				      .flags = filter,
				      .filter_bytes = filter ? 4 : 0,
				      .filter_mask = filter ? BLOCKS - 1 : 0,
				      .seed = vectors_next(&rng)}};
	query_open(&q, harness, kind, WORKERS);
}

static void send_keys(struct frame *f, uint32_t rank, uint64_t sequence, uint32_t count, const uint32_t *keys, bool last)
{
	query_keys(f, &q, rank, sequence, count, keys, last);
	harness_run(harness, f);
	assert_int_equal(f->action, XDP_REDIRECT);
	assert_true(harness_checksums_right(f));
}

/*
 * Check the answer to keys. The keys are taken, the keys of the workers in `missing` have not arrived, and the filter
 * is in this state.
 */
static void expect_keys(struct frame *f, uint64_t missing, uint32_t state)
{
	assert_int_equal(harness_hdr(f)->type, FPISA_TYPE_KEYS_ACK);
	assert_int_equal(harness_hdr(f)->bitmap, missing);
	assert_int_equal(harness_hdr(f)->aux, state);
	assert_int_equal(harness_hdr(f)->count, 0);
	assert_int_equal(harness_hdr(f)->flags, 0);
	assert_int_equal(f->len, FPISA_PAYLOAD_OFFSET);
	assert_int_equal(harness_hdr(f)->secret, fpisa_cookie(&q.job.key, harness_hdr(f)->rank, HARNESS_INCARNATION));
}

/* Send a row with value 1 for each of `count` keys. Return the number of rows that pass on to the master. */
static uint32_t send_rows(uint32_t rank, uint64_t sequence, uint32_t count, const uint32_t *keys)
{
	uint8_t packed[FPISA_QUERY_ROWS * 8], *to = packed;
	struct frame f;

	for (uint32_t i = 0; i < count; i++) {
		const uint64_t key[FPISA_KEY_WORDS] = {keys[i]};

		to = query_pack(to, &q.config, key, 1, 1);
	}
	query_rows(&f, &q, rank, sequence, count, packed, false);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_REDIRECT);
	assert_true(harness_checksums_right(&f));
	assert_true(harness_hdr(&f)->type == FPISA_TYPE_ROWS || harness_hdr(&f)->type == FPISA_TYPE_ACK);
	return harness_hdr(&f)->type == FPISA_TYPE_ROWS ? harness_hdr(&f)->count : 0;
}

static void building(void **state)
{
	static const uint32_t some[] = {3, 255, 256, 1023}, rows[] = {3, 4, 255, 256, 257, 1023, 1024, 4000000000u},
			      beyond[] = {5000};
	struct frame f;

	(void)state;
	NEED_BPF();
	for (unsigned int kind = FPISA_QUERY_TOPN; kind <= FPISA_QUERY_JOIN; kind++) {
		struct fpisa_query_counters c;

		open_query(kind, FPISA_QUERY_BITMAP, kind == FPISA_QUERY_JOIN ? 0 : 100);
		send_keys(&f, 0, 1, 2, some, false);
		expect_keys(&f, 3, FPISA_FILTER_BUILDING);
		send_keys(&f, 0, 2, 1, some + 2, true);
		expect_keys(&f, 2, FPISA_FILTER_BUILDING);
		send_keys(&f, 1, 1, 1, some + 3, true);
		expect_keys(&f, 0, FPISA_FILTER_BUILDING);
		/* The same frame again gives the same answer. */
		send_keys(&f, 0, 1, 2, some, false);
		expect_keys(&f, 0, FPISA_FILTER_BUILDING);
		for (uint64_t s = 1; s < 3; s++)
			assert_int_equal(send_rows(0, s, 8, rows), kind == FPISA_QUERY_TABLE ? 0 : 4);
		c = query_counters(&q);
		assert_int_equal(c.filtered, 8);
		assert_int_equal(c.keys, 6);
		send_keys(&f, 1, 1, 1, some + 3, true);
		expect_keys(&f, 0, FPISA_FILTER_WHOLE);
		send_keys(&f, 1, 2, 1, rows + 1, false);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
		assert_int_equal(harness_hdr(&f)->reason, FPISA_V_keys_late);
		send_keys(&f, 1, 2, 1, beyond, false);
		assert_int_equal(harness_hdr(&f)->reason, FPISA_V_keys_late);
		/*
		 * Another epoch has another filter. Worker 1 has sent no keys for the new filter, so all rows pass
		 * until the worker's keys end.
		 */
		query_join(&q);
		send_keys(&f, 0, 1, 1, some, true);
		expect_keys(&f, 2, FPISA_FILTER_BUILDING);
		assert_int_equal(send_rows(0, 1, 8, rows), kind == FPISA_QUERY_TABLE ? 0 : 8);
		send_keys(&f, 1, 1, 1, some, true);
		expect_keys(&f, 0, FPISA_FILTER_OPEN);
		assert_int_equal(send_rows(0, 2, 8, rows), kind == FPISA_QUERY_TABLE ? 0 : 8);
		assert_int_equal(query_counters(&q).filtered, 8);
		/* The first keys are no longer in the filter. If keys lie beyond the bitmap, their rows pass. */
		query_join(&q);
		send_keys(&f, 0, 1, 1, beyond, true);
		expect_keys(&f, 2, FPISA_FILTER_BUILDING);
		send_keys(&f, 1, 1, 0, NULL, true);
		expect_keys(&f, 0, FPISA_FILTER_BUILDING);
		assert_int_equal(send_rows(0, 1, 8, rows), kind == FPISA_QUERY_TABLE ? 0 : 2);
		assert_int_equal(query_counters(&q).filtered, 8 + 6);
		send_keys(&f, 0, 1, 1, beyond, true);
		expect_keys(&f, 0, FPISA_FILTER_BEYOND);
		if (kind == FPISA_QUERY_TOPN)
			assert_int_equal(query_state(&q).used, 0);
		query_close(&q);
	}
}

/* Check that a Top-N counts only rows that are certainly in the join. */
static void certain(void **state)
{
	static const uint32_t key[] = {7}, other[] = {8};
	const uint64_t none[WORKERS] = {0};
	struct frame f;

	(void)state;
	NEED_BPF();
	open_query(FPISA_QUERY_TOPN, FPISA_QUERY_BITMAP, 1);
	send_keys(&f, 0, 1, 1, key, true);
	send_keys(&f, 1, 1, 0, NULL, true);
	assert_int_equal(send_rows(0, 1, 1, other), 0);
	assert_int_equal(query_state(&q).bar, 0);
	assert_int_equal(send_rows(0, 2, 1, key), 1);
	assert_int_equal(query_state(&q).used, 1);
	query_join(&q);
	assert_int_equal(send_rows(0, 1, 1, key), 1);
	assert_int_equal(query_state(&q).used, 0);
	query_seal(&f, &q, none);
	harness_run(harness, &f);
	assert_int_equal(harness_hdr(&f)->aux, 0);
	query_close(&q);
}

static void refused(void **state)
{
	static const uint32_t keys[FPISA_QUERY_ROWS + 1] = {1};
	struct fpisa_query_state before, after;
	struct frame f;
	uint64_t n;

	(void)state;
	NEED_BPF();
	open_query(FPISA_QUERY_TABLE, 0, 100);
	n = harness_verdict(harness, JOB, FPISA_V_type);
	query_keys(&f, &q, 0, 1, 1, keys, false);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_type), n + 1);
	query_close(&q);
	open_query(FPISA_QUERY_JOIN, FPISA_QUERY_BLOOM, 0);
	before = query_state(&q);
	for (int i = 0; i < 3; i++) {
		enum fpisa_verdict v = i == 2 ? FPISA_V_length : FPISA_V_type;

		n = harness_verdict(harness, JOB, v);
		query_keys(&f, &q, i ? 0 : WORKERS, 1, i == 2 ? FPISA_QUERY_ROWS + 1 : 1, keys, true);
		if (i == 1)
			harness_hdr(&f)->type = FPISA_TYPE_KEYS_ACK;
		harness_set_checksums(&f);
		harness_run(harness, &f);
		assert_int_equal(f.action, XDP_DROP);
		assert_int_equal(harness_verdict(harness, JOB, v), n + 1);
	}
	after = query_state(&q);
	assert_memory_equal(&before, &after, sizeof(before));
	/* Send a row without a sequence number. */
	query_rows(&f, &q, 0, 0, 0, NULL, false);
	harness_run(harness, &f);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_sequence);
	query_close(&q);
}

/* -- random rows ------------------------------------------------------------------ */

#define UNIVERSE 3000
#define FRAMES 40

static bool in_join[UNIVERSE];
static uint64_t asked, let_pass; /* rows without a key in the filter, and how many of them passed */

/* Spread join key k over its bytes. The following bytes of a row's key come from `part`. */
static void key_words(uint64_t words[FPISA_KEY_WORDS], uint32_t k, uint32_t part)
{
	const struct fpisa_query_config *c = &q.config;
	bool bitmap = c->flags & FPISA_QUERY_BITMAP;

	memset(words, 0, FPISA_KEY_WORDS * sizeof(*words));
	for (uint32_t i = c->filter_bytes; i < c->key_bytes; i += 4)
		((uint32_t *)words)[i / 4] = part * 0x9e3779b9u;
	if (c->filter_bytes == 4)
		((uint32_t *)words)[0] = bitmap ? k : k * 0x9e3779b9u;
	else
		words[c->filter_bytes / 8 - 1] = bitmap ? k : (k + 1) * 0x9e3779b97f4a7c15ull;
}

/* Send the even keys below `keys`, in frames of both workers. The frames with the last keys come last. */
static void fill(struct fpisa_soft_query *soft, uint32_t keys)
{
	uint8_t packed[FPISA_QUERY_ROWS * 32];
	uint64_t words[FPISA_KEY_WORDS];
	uint32_t k = 0, count, state, most = (FPISA_MAX_PAYLOAD - 31) / q.config.filter_bytes;
	struct frame f;
	__u64 missing;

	most = most > FPISA_QUERY_ROWS ? FPISA_QUERY_ROWS : most;
	memset(in_join, 0, sizeof(in_join));
	for (uint64_t s = 1; k < keys || s < 3; s++) {
		bool last = k + 2 * most >= keys;

		for (count = 0; count < most && k < keys; k += 2) {
			key_words(words, k, 0);
			memcpy(packed + count++ * q.config.filter_bytes, words, q.config.filter_bytes);
			in_join[k] = true;
		}
		for (uint32_t w = 0; w < WORKERS; w++) {
			query_keys(&f, &q, w, s, count, packed, last);
			harness_run(harness, &f);
			assert_int_equal(fpisa_soft_query_keys(soft, q.epoch, w, packed, count, last, &missing, &state),
					 FPISA_V_keys_taken);
			expect_keys(&f, missing, state);
		}
	}
	assert_int_equal(missing, 0);
}

static void check_kept(const uint8_t *keep, const uint32_t *key, uint32_t count, bool all)
{
	for (uint32_t i = 0; i < count; i++) {
		if (all && in_join[key[i]])
			assert_true(keep[i]);
		if (keep[i] && q.config.flags & FPISA_QUERY_BITMAP)
			assert_true(in_join[key[i]]);
		if (!in_join[key[i]] && all && q.config.flags & FPISA_QUERY_BLOOM) {
			asked++;
			let_pass += keep[i];
		}
	}
}

static void one_query(unsigned int kind, uint32_t filter, uint32_t key_bytes, uint32_t filter_bytes, uint32_t values)
{
	struct fpisa_soft_query soft = {.kind = kind, .width = FPISA_QUERY_WINDOW};
	uint32_t key[FPISA_QUERY_ROWS], most, n = 0, keys = UNIVERSE / (1 + vectors_below(&rng, 3));
	uint8_t packed[FPISA_QUERY_ROWS * ROW_MAX], keep[FPISA_QUERY_ROWS];
	uint64_t words[FPISA_KEY_WORDS];
	struct frame f;

	q = (struct query){.config = {.job = JOB,
				      .key_bytes = key_bytes,
				      .limit = kind == FPISA_QUERY_JOIN ? 0 : 1 + vectors_below(&rng, 600),
				      .flags = filter,
				      .filter_bytes = filter_bytes,
				      .filter_mask = filter == FPISA_QUERY_BITMAP ? 15 : 127,
				      .seed = vectors_next(&rng)}};
	query_open(&q, harness, kind, WORKERS);
	soft.config = q.config;
	assert_int_equal(fpisa_soft_query_init(&soft), 0);
	fill(&soft, keys);
	most = (FPISA_MAX_PAYLOAD - 31) / q.config.row_bytes;
	most = most > FPISA_QUERY_ROWS ? FPISA_QUERY_ROWS : most;
	for (uint64_t s = 1; s <= FRAMES; s++) {
		uint32_t count = vectors_below(&rng, 4) ? most : vectors_below(&rng, most + 1), k = 0;
		uint8_t *to = packed;

		for (uint32_t i = 0; i < count; i++) {
			key[i] = vectors_below(&rng, UNIVERSE);
			key_words(words, key[i], vectors_below(&rng, 5));
			to = query_pack(to, &q.config, words, query_value(vectors_next(&rng), values, n++), 1);
		}
		/* Send each frame twice. */
		for (int copy = 0; copy < 2; copy++) {
			enum fpisa_verdict v = fpisa_soft_query_rows(&soft, q.epoch, 1, s, packed, count, keep);

			query_rows(&f, &q, 1, s, count, packed, false);
			harness_run(harness, &f);
			assert_int_equal(f.action, XDP_REDIRECT);
			assert_true(harness_checksums_right(&f));
			if (v == FPISA_V_rows_taken) {
				assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ACK);
				memset(keep, 0, sizeof(keep));
			} else {
				const uint8_t *out = f.data + FPISA_PAYLOAD_OFFSET;

				assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ROWS);
				for (k = 0; k < count; k++) {
					if (!keep[k])
						continue;
					assert_memory_equal(out, packed + k * q.config.row_bytes, q.config.row_bytes);
					out += q.config.row_bytes;
				}
				assert_int_equal(out - f.data - FPISA_PAYLOAD_OFFSET,
						 harness_hdr(&f)->count * q.config.row_bytes);
			}
			check_kept(keep, key, count, kind == FPISA_QUERY_JOIN);
		}
	}
	if (kind == FPISA_QUERY_TABLE)
		for (uint32_t i = 0; i < soft.state.used; i++) {
			struct fpisa_query_group g = query_group(&q, i);

			assert_memory_equal(&g, &soft.groups[i], sizeof(g));
		}
	assert_int_equal(query_state(&q).bar, soft.state.bar);
	assert_int_equal(query_state(&q).used, soft.state.used);
	fpisa_soft_query_free(&soft);
	query_close(&q);
}

static void random_rows(void **state)
{
	static const uint8_t bytes[][2] = {{4, 4}, {8, 4}, {8, 8}, {16, 8}, {16, 16}, {32, 4}, {32, 16}, {32, 32}};

	(void)state;
	NEED_BPF();
	asked = let_pass = 0;
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		uint32_t values = vectors_below(&rng, QUERY_VALUES);

		for (unsigned int kind = FPISA_QUERY_TOPN; kind <= FPISA_QUERY_JOIN; kind++)
			if (bytes[i][1] <= 8)
				one_query(kind, FPISA_QUERY_BITMAP, bytes[i][0], bytes[i][1], values);
		one_query(FPISA_QUERY_TABLE, FPISA_QUERY_BLOOM, bytes[i][0], bytes[i][1], values);
		one_query(FPISA_QUERY_JOIN, FPISA_QUERY_BLOOM, bytes[i][0], bytes[i][1], values);
	}
	/* At most 1500 keys in 128 blocks give at least 21 bits per key. */
	print_message("of %llu rows that do not join %.3f%% pass a Bloom filter\n", (unsigned long long)asked,
		      100 * (double)let_pass / (double)asked);
	assert_true((double)let_pass < 0.002 * (double)asked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(building),
		cmocka_unit_test(certain),
		cmocka_unit_test(refused),
		cmocka_unit_test(random_rows),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
