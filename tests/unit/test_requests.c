/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life of requests over the transport `mem`: what becomes of them when
 * the handle fails, rejoins or is closed, and what on_chunk is told and may do.
 */
#include <math.h>
#include "lib/handle.h"
#include "lib/soft/soft.h"
#include "workers.h"

#define ELEMENTS 32
#define WINDOW 4

static struct fpisa_mem *make_mem(uint32_t workers)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o), .workers = workers, .elements = ELEMENTS, .window = WINDOW};
	struct fpisa_mem *m;

	if (fpisa_mem_create(&m, &o))
		fail_msg("%s", fpisa_error());
	return m;
}

static struct fpisa *alone(struct fpisa_mem **m, const struct fpisa_options *o)
{
	struct fpisa *f = NULL;

	*m = make_mem(1);
	if (fpisa_mem_connect(&f, *m, 0, o))
		fail_msg("%s", fpisa_error());
	return f;
}

/* -- rejoining ------------------------------------------------------------- */

/* A request whose results are here has them after a rejoin too. */
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

/* The same where the request before it lacks a result; with a rejoin, and with an error alone. */
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

/* -- what results say --------------------------------------------------------- */

/* Rank 1 contributes to the first chunk and is taken out: whoever waits learns that the sum is of two kinds. */
static void shrink_inside_a_call(void **state)
{
	enum { COUNT = 3 * WINDOW * ELEMENTS };
	struct fpisa_mem *m = make_mem(2);
	struct fpisa_soft *soft = (struct fpisa_soft *)m;
	struct joiner j[2] = {0};
	struct fpisa_request *r, *late;
	static float v[COUNT], w[COUNT];
	uint32_t flags = 0;

	(void)state;
	join_all(j, 2, m, 5000);
	assert_int_equal(fpisa_allreduce_start(j[1].f, w, w, COUNT, FPISA_FLOAT32, &late), 0);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v, v, COUNT, FPISA_FLOAT32, &r), 0);
	__atomic_store_n(&soft->job.live, 1, __ATOMIC_RELAXED);
	assert_int_equal(fpisa_wait(&r, &flags), 0);
	assert_int_equal(flags, FPISA_RESULT_MIXED_RANKS);
	/* All of the next is over the ranks that are left. */
	assert_int_equal(fpisa_allreduce(j[0].f, v, v, COUNT, FPISA_FLOAT32, &flags), 0);
	assert_int_equal(flags, 0);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/* -- on_chunk ----------------------------------------------------------------- */

/* What on_chunk does with its own handle, and what came of it. */
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

/* What only reads is allowed. */
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

/* A handle of another rank is another handle. */
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

/* A chunk names its request, and the number that messages give its call. */
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
			assert_int_equal(fpisa_allreduce_start(f, i ? w : v, i ? w : v, ELEMENTS, FPISA_FLOAT32,
							       &r[i]),
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

/* -- options.restore -------------------------------------------------------------- */

#define LONG (3 * WINDOW * ELEMENTS)

static const struct fpisa_options keeping = {.size = sizeof(keeping), .timeout_ms = 100, .restore = 1};

static struct fpisa *join_keeping(struct joiner *j, struct fpisa_mem *m)
{
	join_all_with(j, 2, m, &keeping);
	return j[0].f;
}

static void fill(float *v, size_t n, float plus)
{
	for (size_t i = 0; i < n; i++)
		v[i] = (float)i + plus;
}

static void assert_filled(const float *v, size_t n, float plus)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] != (float)i + plus)
			fail_msg("element %zu: %g instead of %g", i, (double)v[i], (double)i + (double)plus);
}

/* Results of the first window come to both ranks, then rank 1 does nothing: a retry in place gives right sums. */
static void retried_in_place(void **state)
{
	struct fpisa_mem *m = make_mem(2);
	struct joiner j[2] = {0};
	struct fpisa_request *r[2];
	static float v[2][LONG];
	int done, changed = 0;

	(void)state;
	join_keeping(j, m);
	for (int i = 1; i >= 0; i--) {
		fill(v[i], LONG, (float)(i + 1));
		assert_int_equal(fpisa_allreduce_start(j[i].f, v[i], v[i], LONG, FPISA_FLOAT32, &r[i]), 0);
	}
	assert_int_equal(fpisa_test(&r[1], &done, NULL), 0);
	for (size_t i = 0; i < LONG; i++)
		changed += v[1][i] != (float)i + 2;
	assert_int_equal(changed, WINDOW * ELEMENTS);
	/* Rank 1 has sent the second window, but not the third. */
	assert_int_equal(fpisa_wait(&r[0], NULL), -ETIMEDOUT);
	assert_filled(v[0], LONG, 1);
	join_keeping(j, m);
	assert_filled(v[1], LONG, 2);
	assert_int_equal(fpisa_wait(&r[1], NULL), -ECANCELED);
	assert_filled(v[1], LONG, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_allreduce_start(j[i].f, v[i], v[i], LONG, FPISA_FLOAT32, &r[i]), 0);
	for (int left = 2; left;) {
		for (int i = 0; i < 2; i++) {
			if (!r[i])
				continue;
			assert_int_equal(fpisa_test(&r[i], &done, NULL), 0);
			left -= done;
		}
	}
	for (size_t i = 0; i < LONG; i++)
		assert_true(v[0][i] == (float)(2 * i + 3) && v[1][i] == v[0][i]);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/* Of requests in a row what is done stays, the others' arrays are as before when the handle has failed. */
static void restored_in_a_row(void **state)
{
	struct fpisa_mem *m = make_mem(2);
	struct joiner j[2] = {0};
	struct fpisa_request *r[3], *other;
	static float v[3][LONG], w[LONG];

	(void)state;
	join_keeping(j, m);
	for (int i = 0; i < 3; i++)
		fill(v[i], LONG, (float)i);
	fill(w, LONG, 0);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v[0], v[0], ELEMENTS, FPISA_FLOAT32, &r[0]), 0);
	for (int i = 1; i < 3; i++)
		assert_int_equal(fpisa_allreduce_start(j[0].f, v[i], v[i], LONG, FPISA_FLOAT32, &r[i]), 0);
	assert_int_equal(fpisa_allreduce_start(j[1].f, w, w, ELEMENTS, FPISA_FLOAT32, &other), 0);
	assert_int_equal(fpisa_wait(&other, NULL), 0);
	assert_int_equal(fpisa_allreduce_start(j[1].f, w, w, LONG, FPISA_FLOAT32, &other), 0);
	assert_int_equal(fpisa_wait(&r[1], NULL), -ETIMEDOUT);
	/* All at once, not when each is waited for. */
	assert_filled(v[1], LONG, 1);
	assert_filled(v[2], LONG, 2);
	assert_int_equal(fpisa_wait(&r[0], NULL), 0);
	for (size_t i = 0; i < ELEMENTS; i++)
		assert_true(v[0][i] == (float)(2 * i));
	assert_int_equal(fpisa_wait(&r[2], NULL), -ETIMEDOUT);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/* Any format, any length, results in any order; the end is an error, a rejoin or a close. */
static void restored_array(uint64_t *random)
{
	static const uint8_t formats[] = {FPISA_FORMAT_FP32, FPISA_FORMAT_FP64, FPISA_FORMAT_BF16,
					  FPISA_FORMAT_E4M3, FPISA_FORMAT_MXINT8};
	const struct fpisa_mem_options mo = {.size = sizeof(mo),
					     .workers = 1,
					     .elements = ELEMENTS * (1 + (uint32_t)(test_random(random) % 3)),
					     .window = WINDOW,
					     .format = formats[test_random(random) % sizeof(formats)],
					     .mode = FPISA_MODE_FPISA};
	const struct fpisa_options o = {
		.size = sizeof(o), .restore = 1, .loss = 0.3, .seed = test_random(random), .overflow = FPISA_OVERFLOW_FLAG};
	const struct fpisa_format format = fpisa_format_of(mo.format);
	size_t count = ELEMENTS * (1 + test_random(random) % 40), size = count * format.bytes + (format.shared ? count / ELEMENTS : 0);
	unsigned char *v = malloc(size), *before = malloc(size);
	struct fpisa_request *r;
	struct fpisa_mem *m;
	struct fpisa *f;
	int done = 0, end = (int)(test_random(random) % 3);

	for (size_t i = 0; i < size; i++)
		before[i] = v[i] = (unsigned char)test_random(random);
	assert_int_equal(fpisa_mem_create(&m, &mo), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), 0);
	assert_int_equal(fpisa_allreduce_start(f, v, v, count, (enum fpisa_dtype)mo.format, &r), 0);
	for (uint64_t turns = test_random(random) % 12; turns && !done; turns--)
		assert_int_equal(fpisa_test(&r, &done, NULL), 0);
	if (!done && end == 0)
		fpisa_poison(f, fpisa_fail(-ETIMEDOUT, "as if the deadline had passed"));
	else if (end == 1)
		assert_int_equal(fpisa_rejoin(f), 0);
	if (end < 2 && !done)
		assert_true(fpisa_wait(&r, NULL) < 0 || (done = 1));
	fpisa_close(f);
	if (!done && memcmp(v, before, size))
		fail_msg("format %u, %zu elements, end %d: the array is not as before", mo.format, count, end);
	fpisa_mem_destroy(m);
	free(v);
	free(before);
}

static void restored_arrays(void **state)
{
	uint64_t random = test_seed();

	(void)state;
	for (int i = 0; i < 300; i++)
		restored_array(&random);
}

/* Nothing is kept of separate arrays; what overflowed is delivered; who knows no such option has none. */
static void not_restored(void **state)
{
	struct fpisa_options o = {.size = sizeof(o), .restore = 1};
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, &o);
	struct fpisa_request *r;
	float v[ELEMENTS] = {1}, w[ELEMENTS] = {2};

	(void)state;
	assert_int_equal(fpisa_allreduce_start(f, v, w, ELEMENTS, FPISA_FLOAT32, &r), 0);
	assert_null(r->kept);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	assert_true(v[0] == 1 && w[0] == 1);
	v[0] = 0x1p127f;
	assert_int_equal(fpisa_allreduce_op(f, v, v, ELEMENTS, FPISA_FLOAT32, FPISA_SCALE, 4, NULL), -ERANGE);
	assert_true(v[0] != 0x1p127f);
	fpisa_close(f);
	o.size = offsetof(struct fpisa_options, restore);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), 0);
	assert_int_equal(fpisa_allreduce_start(f, v, v, ELEMENTS, FPISA_FLOAT32, &r), 0);
	assert_null(r->kept);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finished_before_rejoin),
		cmocka_unit_test(finished_out_of_order),
		cmocka_unit_test(shrink_inside_a_call),
		cmocka_unit_test(calls_from_on_chunk),
		cmocka_unit_test(other_handle_from_on_chunk),
		cmocka_unit_test(chunk_names_its_call),
		cmocka_unit_test(retried_in_place),
		cmocka_unit_test(restored_in_a_row),
		cmocka_unit_test(restored_arrays),
		cmocka_unit_test(not_restored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
