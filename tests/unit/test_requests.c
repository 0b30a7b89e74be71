/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test requests over the transport `mem`, from start to end: their outcome when the handle fails, rejoins or is closed,
 * and the arguments and permitted calls of on_chunk.
 */
#include <math.h>
#include "lib/handle.h"
#include "lib/soft/soft.h"
#include "small_chunks.h"

/* -- rejoining ------------------------------------------------------------- */

/* Check that a request whose results have arrived keeps them after a rejoin. */
static void finished_before_rejoin(void **state)
{
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, NULL);
	struct fpisa_request *first, *second;
	float v[ELEMENTS] = {1, INFINITY}, w[ELEMENTS] = {2, INFINITY}, got[ELEMENTS] = {0};
	uint32_t flags = 0;
	int done;

	(void)state;
	assert_int_equal(fpisa_allreduce_start(f, v, v, ELEMENTS, FPISA_FLOAT32, &first), 0);
	assert_int_equal(fpisa_allreduce_start(f, w, got, ELEMENTS, FPISA_FLOAT32, &second), 0);
	assert_int_equal(fpisa_test(&first, &done, NULL), 0);
	assert_true(done && got[0] == 2);
	assert_int_equal(fpisa_rejoin(f), 0);
	assert_int_equal(fpisa_wait(&second, &flags), 0);
	assert_null(second);
	assert_int_equal(flags, FPISA_RESULT_INF);
	assert_int_equal(fpisa_allreduce(f, v, v, ELEMENTS, FPISA_FLOAT32, NULL), 0);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

/*
 * Check the second request in the same way while the first lacks a result, with a rejoin or with only an error. Return
 * whether the second request ended first.
 */
static int finished_early(uint64_t seed, int error)
{
	const struct fpisa_options o = {.size = sizeof(o), .loss = 0.5, .seed = seed};
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, &o);
	struct fpisa_request *first, *second;
	float v[ELEMENTS] = {1}, w[ELEMENTS] = {2};
	int done, met;

	assert_int_equal(fpisa_allreduce_start(f, v, v, ELEMENTS, FPISA_FLOAT32, &first), 0);
	assert_int_equal(fpisa_allreduce_start(f, w, w, ELEMENTS, FPISA_FLOAT32, &second), 0);
	assert_int_equal(fpisa_test(&second, &done, NULL), 0);
	met = first->left && second && !second->left;
	if (met && error)
		fpisa_poison(f, fpisa_fail(-ETIMEDOUT, "as if the deadline had passed"));
	else if (met)
		assert_int_equal(fpisa_rejoin(f), 0);
	if (met) {
		assert_int_equal(fpisa_wait(&first, NULL), error ? -ETIMEDOUT : -ECANCELED);
		assert_int_equal(fpisa_test(&second, &done, NULL), 0);
		assert_true(done && w[0] == 2);
	}
	fpisa_close(f);
	fpisa_mem_destroy(m);
	return met;
}

static void finished_out_of_order(void **state)
{
	uint64_t random = test_seed();
	int met[2] = {0};

	(void)state;
	for (int i = 0; i < 200 && (!met[0] || !met[1]); i++)
		met[i % 2] += finished_early(test_random(&random), i % 2);
	assert_true(met[0] && met[1]);
}

static struct fpisa_call call_of(float *v, size_t count, uint64_t *ranks)
{
	return (struct fpisa_call){.size = sizeof(struct fpisa_call),
				   .send = v,
				   .recv = v,
				   .count = count,
				   .type = FPISA_FLOAT32,
				   .op = FPISA_SUM,
				   .ranks = ranks};
}

/*
 * Check that a call of no elements ends when earlier calls have ended, does not wait for other ranks, and counts as a
 * call that all ranks must make.
 */
static void no_elements(void **state)
{
	struct fpisa_mem *m = make_mem(2);
	struct joiner j[2] = {0};
	struct fpisa_request *r, *none;
	static float v[ELEMENTS], w[ELEMENTS];
	uint64_t ranks = 0;
	const struct fpisa_call c = call_of(NULL, 0, &ranks);
	uint32_t flags = 1;
	int done;

	(void)state;
	join_all(j, 2, m, 1000);
	assert_int_equal(fpisa_start(j[0].f, &c, &none), 0);
	assert_int_equal(fpisa_test(&none, &done, &flags), 0);
	assert_true(done && !flags && ranks == 3);
	assert_int_equal(fpisa_allreduce(j[1].f, NULL, NULL, 0, FPISA_FLOAT32, NULL), 0);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v, v, ELEMENTS, FPISA_FLOAT32, &r), 0);
	assert_int_equal(fpisa_start(j[0].f, &c, &none), 0);
	assert_int_equal(fpisa_test(&none, &done, NULL), 0);
	assert_false(done);
	assert_int_equal(fpisa_allreduce(j[1].f, w, w, ELEMENTS, FPISA_FLOAT32, NULL), 0);
	assert_int_equal(fpisa_wait(&none, NULL), 0);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	/* Rank 1 has not made the last call of no elements. */
	assert_int_equal(fpisa_allreduce_start(j[0].f, v, v, ELEMENTS, FPISA_FLOAT32, &r), 0);
	assert_int_equal(fpisa_allreduce(j[1].f, w, w, ELEMENTS, FPISA_FLOAT32, NULL), -EPROTO);
	assert_int_equal(fpisa_wait(&r, NULL), -EPROTO);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/* -- ranks in results --------------------------------------------------------- */

/*
 * Check that a rank is told that a sum covers different ranks in different chunks if rank 1 is removed after its first
 * chunk.
 */
static void shrink_inside_a_call(void **state)
{
	enum { COUNT = 3 * WINDOW * ELEMENTS };
	struct fpisa_mem *m = make_mem(2);
	struct fpisa_soft *soft = (struct fpisa_soft *)m;
	struct joiner j[2] = {0};
	static float v[COUNT], w[COUNT];
	uint64_t ranks[3] = {0};
	const struct fpisa_call c[2] = {call_of(v, COUNT, &ranks[0]), call_of(w, COUNT, &ranks[1])};
	struct fpisa_request *r, *late;
	uint32_t flags = 0;

	(void)state;
	join_all(j, 2, m, 5000);
	assert_int_equal(fpisa_start(j[1].f, &c[1], &late), 0);
	assert_int_equal(fpisa_start(j[0].f, &c[0], &r), 0);
	__atomic_store_n(&soft->job.live, 1, __ATOMIC_RELAXED);
	assert_int_equal(fpisa_wait(&r, &flags), 0);
	assert_int_equal(flags, FPISA_RESULT_MIXED_RANKS | FPISA_RESULT_FEWER_RANKS);
	assert_int_equal(ranks[0], 1);
	/* The next call sums only the remaining ranks. */
	assert_int_equal(fpisa_allreduce(j[0].f, v, v, COUNT, FPISA_FLOAT32, &flags), 0);
	assert_int_equal(flags, FPISA_RESULT_FEWER_RANKS);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/*
 * Check that with options.all_ranks a result without a rank is an error that names the rank, and that the array does
 * not change.
 */
static void all_ranks_or_none(void **state)
{
	enum { COUNT = 3 * WINDOW * ELEMENTS };
	const struct fpisa_options o = {.size = sizeof(o), .progress = 1, .all_ranks = 1};
	struct fpisa_mem *m = make_mem(2);
	struct fpisa_soft *soft = (struct fpisa_soft *)m;
	struct joiner j[2] = {0};
	struct fpisa_request *r[2];
	static float v[COUNT], w[COUNT];
	uint64_t ranks[2] = {0};
	const struct fpisa_call c[2] = {call_of(v, COUNT, &ranks[0]), call_of(w, COUNT, &ranks[1])};
	uint32_t flags;

	(void)state;
	join_all_with(j, 2, m, &o);
	for (int k = 0; k < 2; k++)
		assert_int_equal(fpisa_start(j[k].f, &c[k], &r[k]), 0);
	assert_int_equal(fpisa_wait(&r[0], &flags), 0);
	assert_int_equal(flags, 0);
	assert_int_equal(ranks[0], 3);
	assert_int_equal(fpisa_wait(&r[1], &flags), 0);
	__atomic_store_n(&soft->job.live, 1, __ATOMIC_RELAXED);
	v[0] = 5;
	assert_int_equal(fpisa_allreduce(j[0].f, v, w, COUNT, FPISA_FLOAT32, NULL), -ECONNRESET);
	assert_non_null(strstr(fpisa_error(), "lacks rank 1, which fpisa job shrink removed from the job"));
	assert_int_equal(fpisa_missing(j[0].f), 2);
	for (int i = 0; i < COUNT; i++)
		assert_true(w[i] == 0);
	assert_int_equal(fpisa_allreduce(j[0].f, v, v, COUNT, FPISA_FLOAT32, NULL), -ECONNRESET);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/* -- on_chunk ----------------------------------------------------------------- */

/* Calls of on_chunk on its own handle, and their results */
struct caller {
	struct fpisa *f;
	struct fpisa_request **request;
	void (*call)(struct caller *c);
	int chunks, refused;
	struct fpisa_request *of[8];
	uint32_t number[8];
};

static void expect_refusal(struct caller *c, int rc)
{
	c->refused += rc == -EBUSY && strstr(fpisa_error(), "on_chunk") != NULL;
}

static void start_inside(struct caller *c)
{
	static float v[ELEMENTS];
	struct fpisa_request *r = (void *)v;

	expect_refusal(c, fpisa_allreduce_start(c->f, v, v, ELEMENTS, FPISA_FLOAT32, &r));
	c->refused -= r != NULL;
}

static void reduce_inside(struct caller *c)
{
	static float v[ELEMENTS];

	expect_refusal(c, fpisa_allreduce(c->f, v, v, ELEMENTS, FPISA_FLOAT32, NULL));
}

static void test_inside(struct caller *c)
{
	int done = 1;

	expect_refusal(c, fpisa_test(c->request, &done, NULL));
	c->refused -= done;
}

static void wait_inside(struct caller *c)
{
	expect_refusal(c, fpisa_wait(c->request, NULL));
}

static void rejoin_inside(struct caller *c)
{
	expect_refusal(c, fpisa_rejoin(c->f));
}

static void close_inside(struct caller *c)
{
	fpisa_close(c->f);
	expect_refusal(c, -EBUSY);
}

/* Call functions that only read. They are allowed. */
static void ask_inside(struct caller *c)
{
	struct fpisa_info info = {.size = sizeof(info)};

	c->refused += !fpisa_get_info(c->f, &info) && !fpisa_missing(c->f);
}

static void call_inside(void *arg, const struct fpisa_chunk *chunk)
{
	struct caller *c = arg;

	c->of[c->chunks] = chunk->request;
	c->number[c->chunks++] = chunk->call;
	c->call(c);
}

static void calls_from_on_chunk(void **state)
{
	static void (*const calls[])(struct caller *) = {
		start_inside, reduce_inside, test_inside, wait_inside, rejoin_inside, close_inside, ask_inside,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct caller c = {.call = calls[i]};
		const struct fpisa_options o = {.size = sizeof(o), .on_chunk = call_inside, .arg = &c};
		struct fpisa_mem *m;
		struct fpisa_request *r;
		float v[2 * ELEMENTS] = {3};

		c.f = alone(&m, &o);
		c.request = &r;
		assert_int_equal(fpisa_allreduce_start(c.f, v, v, 2 * ELEMENTS, FPISA_FLOAT32, &r), 0);
		assert_int_equal(fpisa_wait(&r, NULL), 0);
		assert_int_equal(c.chunks, 2);
		assert_int_equal(c.refused, 2);
		assert_true(v[0] == 3);
		fpisa_close(c.f);
		fpisa_mem_destroy(m);
	}
}

/* Call a function on another rank's handle. It is allowed. */
static void other_inside(struct caller *c)
{
	float v[1] = {7};

	c->refused += !fpisa_allreduce(c->f, v, v, 1, FPISA_FLOAT32, NULL);
}

static void other_handle_from_on_chunk(void **state)
{
	struct caller c = {.call = other_inside};
	const struct fpisa_options o = {.size = sizeof(o), .on_chunk = call_inside, .arg = &c};
	struct fpisa_mem *m, *other;
	struct fpisa *f = alone(&m, &o);
	float v[ELEMENTS] = {3};

	(void)state;
	c.f = alone(&other, NULL);
	assert_int_equal(fpisa_allreduce(f, v, v, ELEMENTS, FPISA_FLOAT32, NULL), 0);
	assert_int_equal(c.refused, 1);
	fpisa_close(f);
	fpisa_close(c.f);
	fpisa_mem_destroy(m);
	fpisa_mem_destroy(other);
}

static void no_call(struct caller *c)
{
	(void)c;
}

/* Check that a chunk names its request, and the number of its call as messages give it. */
static void chunk_names_its_call(void **state)
{
	struct caller c = {.call = no_call};
	const struct fpisa_options o = {.size = sizeof(o), .on_chunk = call_inside, .arg = &c};
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, &o);
	struct fpisa_request *r[2], *started[2];
	float v[ELEMENTS] = {1}, w[ELEMENTS] = {2};

	(void)state;
	for (uint32_t generation = 0; generation < 2; generation++) {
		c.chunks = 0;
		for (int i = 0; i < 2; i++) {
			assert_int_equal(fpisa_allreduce_start(f, i ? w : v, i ? w : v, ELEMENTS, FPISA_FLOAT32, &r[i]),
					 0);
			started[i] = r[i];
		}
		assert_int_equal(fpisa_wait(&r[1], NULL), 0);
		assert_int_equal(fpisa_wait(&r[0], NULL), 0);
		assert_int_equal(c.chunks, 2);
		for (uint32_t i = 0; i < 2; i++) {
			assert_ptr_equal(c.of[i], started[i]);
			assert_int_equal(c.number[i], i);
		}
		assert_int_equal(fpisa_rejoin(f), 0);
	}
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finished_before_rejoin),
		cmocka_unit_test(finished_out_of_order),
		cmocka_unit_test(no_elements),
		cmocka_unit_test(shrink_inside_a_call),
		cmocka_unit_test(all_ranks_or_none),
		cmocka_unit_test(calls_from_on_chunk),
		cmocka_unit_test(other_handle_from_on_chunk),
		cmocka_unit_test(chunk_names_its_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
