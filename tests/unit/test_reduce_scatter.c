/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test reduce-scatters with random parts: the ranks that each frame names as keepers, the aggregators of the chunks, and
 * the bits of all parts while frames are lost, by one aggregator or several.
 */
#include "lib/api.h"
#include "lib/handle.h"
#include "workers.h"

#define MOST 5
#define SHARDS 3
#define ELEMENTS 64

static uint64_t seed;

/* Draw the end of each rank's part. Some parts have no elements. Return the number of elements. */
static uint64_t draw_ends(uint64_t *end, uint32_t ranks)
{
	uint64_t count = 0;

	for (uint32_t r = 0; r < ranks; r++)
		end[r] = count += test_random(&seed) % 3 ? test_random(&seed) % 200 : 0;
	return count;
}

/* Return whether a group's rank keeps one of the elements from `from` on, below `to`. */
static bool has_any(const uint64_t *end, uint32_t rank, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		if (i >= (rank ? end[rank - 1] : 0) && i < end[rank])
			return true;
	return false;
}

/*
 * Check each chunk of a call in a job that has the group's ranks `here`, in this order. Its keepers are the ranks from the
 * first to the last of the group that keep one of its elements.
 */
static void check_keepers(const struct fpisa_request *r, uint64_t here)
{
	for (uint64_t offset = 0; offset < r->count; offset += ELEMENTS) {
		const uint64_t to = offset + fpisa_request_elements(r, offset);
		const uint16_t keepers = fpisa_request_keepers(r, offset);
		uint32_t first = FPISA_MAX_WORKERS, last = 0, rank = 0, keep = 0;

		for (uint32_t g = 0; g < FPISA_MAX_WORKERS; g++) {
			if (!has_any(r->parts->end, g, offset, to))
				continue;
			first = first < g ? first : g;
			last = g;
		}
		for (uint32_t g = 0; g < FPISA_MAX_WORKERS; g++) {
			if (!(here >> g & 1))
				continue;
			assert_int_equal(fpisa_keeps(keepers, rank++), g >= first && g <= last);
			keep += g >= first && g <= last;
		}
		assert_int_equal(!keepers, keep == rank);
	}
}

static void keepers_of_chunks(void **state)
{
	(void)state;
	seed = test_seed();
	for (int i = 0; i < 400; i++) {
		struct fpisa f = {.format = FPISA_FP32, .hello.elements = ELEMENTS};
		struct fpisa_parts parts = {{0}};
		struct fpisa_request r = {.f = &f, .parts = &parts};
		const uint32_t ranks = 1 + (uint32_t)(test_random(&seed) % FPISA_MAX_WORKERS);
		const uint64_t all = ~0ull >> (64 - ranks), some = test_random(&seed) & all;
		uint64_t here;

		r.count = draw_ends(parts.end, ranks);
		here = i % 2 ? some ? some : 1 : all;
		f.leaf = (struct fpisa_leaf_ranks){.size = i % 2 ? 64 : 0};
		for (uint64_t left = here; left; left &= left - 1)
			f.leaf.rank[f.leaf.n++] = (uint16_t)__builtin_ctzll(left);
		f.hello.workers = (uint16_t)__builtin_popcountll(here);
		check_keepers(&r, here);
		r.parts = NULL;
		if (r.count)
			assert_int_equal(fpisa_request_keepers(&r, 0), 0);
	}
}

/* -- aggregators of chunks -------------------------------------------------------- */

/* Draw homes of which some are 0. */
static void draw_homes(struct fpisa_layout *l, uint32_t ranks)
{
	uint8_t home[FPISA_MAX_WORKERS];

	for (uint32_t r = 0; r < ranks; r++)
		home[r] = (uint8_t)(test_random(&seed) % (l->shards + 1));
	fpisa_layout_set_homes(l, home, ranks);
}

static uint32_t keeper_of(const uint64_t *end, uint64_t position)
{
	uint32_t rank = 0;

	while (end[rank] <= position)
		rank++;
	return rank;
}

/*
 * Check that each chunk number stands for one chunk, and that each aggregator has as many chunks of the ranks on its host
 * as it has numbers, or as these ranks keep.
 */
static void check_spread(const struct fpisa_layout *l, uint64_t first, const uint64_t *end, uint32_t ranks)
{
	uint64_t numbers[FPISA_MAX_SHARDS] = {0}, wanted[FPISA_MAX_SHARDS] = {0}, at_home[FPISA_MAX_SHARDS] = {0};
	const uint64_t n = end[ranks - 1];
	char *seen = calloc(n + 1, 1);
	struct fpisa_spread s;

	fpisa_spread_init(&s, l, first, end, ranks);
	for (uint64_t i = 0; i < n; i++) {
		const uint32_t shard = fpisa_layout_owner(l, first + i), keeper = keeper_of(end, i);
		const uint64_t position = fpisa_spread_position(&s, shard, fpisa_layout_own(l, shard, first + i));

		assert_true(position < n && !seen[position]);
		seen[position] = 1;
		numbers[shard]++;
		at_home[shard] += l->home[keeper_of(end, position)] == shard + 1;
		if (l->home[keeper])
			wanted[l->home[keeper] - 1]++;
	}
	for (uint32_t i = 0; i < l->shards; i++)
		assert_int_equal(at_home[i], wanted[i] < numbers[i] ? wanted[i] : numbers[i]);
	free(seen);
}

static void chunks_go_home(void **state)
{
	(void)state;
	seed = test_seed();
	for (int i = 0; i < 300; i++) {
		const uint32_t shards = 2 + (uint32_t)(test_random(&seed) % (FPISA_MAX_SHARDS - 1)),
			       ranks = 1 + (uint32_t)(test_random(&seed) % FPISA_MAX_WORKERS);
		uint32_t weight[FPISA_MAX_SHARDS];
		uint64_t end[FPISA_MAX_WORKERS];
		struct fpisa_layout l;

		for (uint32_t k = 0; k < shards; k++)
			weight[k] = 1 + (uint32_t)(test_random(&seed) % (i % 2 ? 1 : FPISA_MAX_WEIGHT));
		assert_int_equal(fpisa_layout_init(&l, shards, weight), 0);
		draw_homes(&l, ranks);
		draw_ends(end, ranks);
		check_spread(&l, test_random(&seed) % 1000, end, ranks);
		fpisa_layout_free(&l);
	}
}

/* Ranks whose homes differ get `mismatch`, because each sends other elements with a number. */
static void homes_are_in_the_digest(void **state)
{
	static const uint32_t weight[] = {1, 1};
	static const uint8_t none[2], some[] = {1, 0}, others[] = {0, 1};
	uint64_t digest[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fpisa_layout l;

		assert_int_equal(fpisa_layout_init(&l, 2, weight), 0);
		digest[i] = l.digest;
		fpisa_layout_set_homes(&l, i == 0 ? none : i == 1 ? some : others, 2);
		assert_int_equal(l.digest == digest[i], i == 0);
		digest[i] = l.digest;
		fpisa_layout_free(&l);
	}
	assert_true(digest[0] != digest[1] && digest[0] != digest[2] && digest[1] != digest[2]);
}

/* -- sums ------------------------------------------------------------------------- */

struct call {
	uint32_t ranks, shards;
	int in_place, blocks;
	uint64_t count, end[MOST];
	uint8_t home[MOST];
};

struct member {
	const struct call *call;
	struct fpisa_mem *const *m;
	uint64_t seed;
	uint32_t rank;
	float *sum, *part; /* the sum of all elements, and this rank's part by the reduce-scatter */
	int rc;
	char error[256];
};

static float value(uint32_t rank, uint64_t i)
{
	return (float)((int)((rank * 7919 + i * 104729) % 4096) - 2048);
}

static int scatter(struct fpisa *f, const struct member *t, float *send)
{
	const struct call *c = t->call;
	const uint64_t first = t->rank ? c->end[t->rank - 1] : 0;
	float *to = c->in_place ? send + first : t->part;
	struct fpisa_call call = fpisa_call_of(send, to, c->count, FPISA_FLOAT32, FPISA_SUM, 1);
	struct fpisa_request *r = NULL;
	size_t counts[MOST];
	int rc;

	for (uint32_t k = 0; k < c->ranks; k++)
		counts[k] = c->end[k] - (k ? c->end[k - 1] : 0);
	if (c->blocks)
		return fpisa_reduce_scatter(f, send, to, c->count, counts, FPISA_FLOAT32, FPISA_SUM, 1, NULL);
	rc = fpisa_reduce_scatter_start(f, &call, counts, &r);
	return rc ? rc : fpisa_wait(&r, NULL);
}

static void *member(void *arg)
{
	struct member *t = arg;
	const struct call *c = t->call;
	const struct fpisa_options o = {
		.size = sizeof(o), .loss = 0.05, .seed = t->seed + t->rank, .overflow = FPISA_OVERFLOW_FLAG};
	const uint64_t first = t->rank ? c->end[t->rank - 1] : 0;
	const uint32_t weight[SHARDS] = {1, 2, 1};
	float *send = calloc(c->count + 1, sizeof(*send));
	struct fpisa *f = NULL;

	for (uint64_t i = 0; i < c->count; i++)
		send[i] = value(t->rank, i);
	t->rc = fpisa_mem_connect_shards(&f, t->m, weight, c->shards, t->rank, &o);
	if (!t->rc)
		fpisa_layout_set_homes(&f->layout, c->home, c->shards > 1 ? c->ranks : 0);
	if (!t->rc)
		t->rc = fpisa_allreduce(f, send, t->sum, c->count, FPISA_FLOAT32, NULL);
	if (!t->rc)
		t->rc = scatter(f, t, send);
	if (c->in_place)
		memcpy(t->part, send + first, (c->end[t->rank] - first) * sizeof(*send));
	snprintf(t->error, sizeof(t->error), "%s", fpisa_error());
	fpisa_close(f);
	free(send);
	return NULL;
}

/* Check that the parts are those of the all-reduce. */
static void run(const struct call *c)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o), .workers = c->ranks, .window = 4, .elements = ELEMENTS, .format = FPISA_FLOAT32};
	struct member t[MOST] = {{0}};
	struct fpisa_mem *m[SHARDS] = {0};
	pthread_t thread[MOST];

	for (uint32_t i = 0; i < c->shards; i++)
		assert_int_equal(fpisa_mem_create(&m[i], &o), 0);
	for (uint32_t r = 0; r < c->ranks; r++) {
		t[r] = (struct member){.call = c, .m = m, .seed = seed, .rank = r};
		t[r].sum = calloc(c->count + 1, sizeof(float));
		t[r].part = calloc(c->count + 1, sizeof(float));
		assert_int_equal(pthread_create(&thread[r], NULL, member, &t[r]), 0);
	}
	for (uint32_t r = 0; r < c->ranks; r++)
		pthread_join(thread[r], NULL);
	for (uint32_t r = 0; r < c->ranks; r++) {
		const uint64_t first = r ? c->end[r - 1] : 0;

		if (t[r].rc)
			fail_msg("rank %u: %d: %s", r, t[r].rc, t[r].error);
		assert_memory_equal(t[r].part, t[r].sum + first, (c->end[r] - first) * sizeof(float));
		free(t[r].sum);
		free(t[r].part);
	}
	for (uint32_t i = 0; i < c->shards; i++)
		fpisa_mem_destroy(m[i]);
}

static void parts_of_sums(void **state)
{
	(void)state;
	seed = test_seed();
	for (int i = 0; i < 60; i++) {
		struct call c = {.ranks = 1 + (uint32_t)(test_random(&seed) % MOST),
				 .shards = 1 + (uint32_t)(test_random(&seed) % SHARDS),
				 .in_place = i % 2,
				 .blocks = i % 3 == 0};

		c.count = draw_ends(c.end, c.ranks);
		for (uint32_t r = 0; i % 4 && r < c.ranks; r++)
			c.home[r] = (uint8_t)(test_random(&seed) % (c.shards + 1));
		run(&c);
	}
}

/* A rank of two that joins two aggregators. */
struct joining {
	struct fpisa_mem *const *m;
	uint32_t rank;
	struct fpisa *f;
};

static void *join_two(void *arg)
{
	static const struct fpisa_options keeping = {.size = sizeof(keeping), .timeout_ms = 300, .restore = 1};
	static const uint32_t weight[] = {1, 1};
	static const uint8_t home[] = {2, 1};
	struct joining *j = arg;

	assert_int_equal(fpisa_mem_connect_shards(&j->f, j->m, weight, 2, j->rank, &keeping), 0);
	fpisa_layout_set_homes(&j->f->layout, home, 2);
	return NULL;
}

/* A failed call in place restores the elements whose results had arrived, and no others. */
static void restored(void **state)
{
	const struct fpisa_mem_options o = {.size = sizeof(o), .workers = 2, .window = 4, .elements = ELEMENTS};
	const uint64_t count = 2048, half = count / 2;
	static float v[2][2048];
	struct fpisa_mem *m[2];
	struct joining j[2] = {{.m = m}, {.m = m, .rank = 1}};
	struct fpisa_request *r[2];
	pthread_t thread;
	int done, changed = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_mem_create(&m[i], &o), 0);
	assert_int_equal(pthread_create(&thread, NULL, join_two, &j[1]), 0);
	join_two(&j[0]);
	pthread_join(thread, NULL);
	for (uint32_t i = 2; i-- > 0;) {
		const struct fpisa_call c = fpisa_call_of(v[i], v[i] + i * half, count, FPISA_FLOAT32, FPISA_SUM, 1);

		for (uint64_t k = 0; k < count; k++)
			v[i][k] = value(i, k) + 5000;
		assert_int_equal(fpisa_reduce_scatter_start(j[i].f, &c, NULL, &r[i]), 0);
	}
	assert_int_equal(fpisa_test(&r[1], &done, NULL), 0);
	for (uint64_t k = half; k < count; k++)
		changed += v[1][k] != value(1, k) + 5000;
	assert_true(changed >= ELEMENTS && (uint64_t)changed < half);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fpisa_wait(&r[i], NULL), -ETIMEDOUT);
		for (uint64_t k = 0; k < count; k++)
			assert_true(v[i][k] == value((uint32_t)i, k) + 5000);
	}
	for (int i = 0; i < 2; i++)
		fpisa_close(j[i].f);
	for (int i = 0; i < 2; i++)
		fpisa_mem_destroy(m[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keepers_of_chunks),
		cmocka_unit_test(chunks_go_home),
		cmocka_unit_test(homes_are_in_the_digest),
		cmocka_unit_test(parts_of_sums),
		cmocka_unit_test(restored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
