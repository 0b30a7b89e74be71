/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test reduce-scatters with random parts: the ranks that each frame names as keepers, and the bits of all parts while
 * frames are lost, by one aggregator or two.
 */
#include "lib/api.h"
#include "lib/handle.h"
#include "workers.h"

#define MOST 5
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

/* -- sums ------------------------------------------------------------------------- */

struct call {
	uint32_t ranks, shards;
	int in_place, blocks;
	uint64_t count, end[MOST];
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
	const uint32_t weight[] = {1, 2};
	float *send = calloc(c->count + 1, sizeof(*send));
	struct fpisa *f = NULL;

	for (uint64_t i = 0; i < c->count; i++)
		send[i] = value(t->rank, i);
	t->rc = fpisa_mem_connect_shards(&f, t->m, weight, c->shards, t->rank, &o);
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
	struct fpisa_mem *m[2] = {0};
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
				 .shards = 1 + (uint32_t)(test_random(&seed) % 2),
				 .in_place = i % 2,
				 .blocks = i % 3 == 0};

		c.count = draw_ends(c.end, c.ranks);
		run(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keepers_of_chunks),
		cmocka_unit_test(parts_of_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
