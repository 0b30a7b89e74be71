/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test libfpisa over the transport `mem`. Ranks are threads, and the aggregator is in the process. The tests check sums
 * against the oracle in the reported order of arrival, lengths, requests, losses, deadlines and rejoining.
 */
#include <time.h>
#include "lib/base/clock.h"
#include "ranges.h"
#include "workers.h"

static int connect_mem(struct fpisa **f, uint32_t rank, const struct fpisa_options *o, void *arg)
{
	return fpisa_mem_connect(f, arg, rank, o);
}

/* Run a plan and check its sums. Return the number of retransmissions of all ranks. */
static uint64_t sum_and_check(struct plan p)
{
	struct fpisa_mem *m = mem_of_plan(&p);
	struct fleet *fl = calloc(1, sizeof(*fl));
	uint64_t retransmits = 0, bad = 0;

	*fl = (struct fleet){.plan = p, .seed = test_seed(), .connect = connect_mem, .arg = m};
	run_fleet(fl);
	assert_all_succeeded(fl);
	if (p.outstanding > 1)
		check_whole_numbers(fl);
	else
		check_replayed(fl, p.mode ? p.mode : FPISA_MODE_FPISA, p.rounding ? p.rounding : FPISA_ROUND_DOWN);
	for (uint32_t i = 0; i < p.workers; i++) {
		assert_int_equal(fl->rank[i].r.info.rank, i);
		bad += fl->rank[i].r.info.bad;
		retransmits += fl->rank[i].r.info.retransmits;
	}
	assert_int_equal(bad != 0, p.corrupt != 0);
	free_fleet(fl);
	free(fl);
	fpisa_mem_destroy(m);
	return retransmits;
}

static void lengths(void **state)
{
	static const size_t counts[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097};

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		sum_and_check((struct plan){
			.workers = 2, .elements = 64, .window = 4, .count = counts[i], .calls = 3, .in_place = i & 1});
}

static void worker_counts(void **state)
{
	static const uint32_t workers[] = {1, 2, 3, 5, 8, 16};

	(void)state;
	for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++)
		sum_and_check((struct plan){.workers = workers[i],
					    .elements = 256,
					    .window = 8,
					    .count = 5000,
					    .calls = 2,
					    .in_place = !(i & 1)});
}

static void modes(void **state)
{
	(void)state;
	for (uint8_t mode = FPISA_MODE_FPISA; mode <= FPISA_MODE_FPISA_A; mode++)
		for (uint8_t rounding = FPISA_ROUND_DOWN; rounding <= FPISA_ROUND_NEAREST; rounding++)
			for (uint8_t pipeline = FPISA_PIPELINE_STAGED; pipeline <= FPISA_PIPELINE_FUSED; pipeline++)
				sum_and_check((struct plan){.workers = 4,
							    .elements = 832,
							    .window = 2,
							    .mode = mode,
							    .rounding = rounding,
							    .pipeline = pipeline,
							    .count = 8000,
							    .calls = 1});
}

static void outstanding_requests(void **state)
{
	static const size_t counts[] = {1, 32, 100, 1000};

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (int way = 0; way < 4; way++)
			sum_and_check((struct plan){.workers = 3,
						    .elements = 32,
						    .window = 8,
						    .count = counts[i],
						    .calls = 20,
						    .outstanding = 7,
						    .in_place = way & 1,
						    .progress = way & 2});
}

static void loss(void **state)
{
	(void)state;
	assert_true(
		sum_and_check((struct plan){
			.workers = 3, .elements = 32, .window = 16, .count = 3000, .calls = 2, .in_place = 1, .loss = 0.2}) >
		0);
	assert_true(
		sum_and_check((struct plan){
			.workers = 3, .elements = 32, .window = 16, .count = 3000, .calls = 2, .progress = 1, .loss = 0.1}) >
		0);
	assert_true(sum_and_check((struct plan){.workers = 4,
						.elements = 64,
						.window = 8,
						.count = 3000,
						.calls = 6,
						.outstanding = 3,
						.in_place = 1,
						.loss = 0.05}) > 0);
}

/* with a window of one chunk only one chunk is in flight */
/* Check late and damaged copies with small windows, so that slots are used again while copies are in flight. */
static void faults(void **state)
{
	(void)state;
	for (uint32_t window = 1; window <= 16; window *= 4)
		assert_true(sum_and_check((struct plan){.workers = 3,
							.elements = 32,
							.window = window,
							.count = 600 * window,
							.calls = 3,
							.loss = 0.05,
							.duplicate = 0.2,
							.reorder = 0.2,
							.delay = 0.1,
							.corrupt = 0.05,
							.progress = window == 4}) > 0);
}

/*
 * Check that contributions go only to the port of their slot, even if a fault delays them. A contribution at another
 * port is an error.
 */
static void ports(void **state)
{
	(void)state;
	for (uint8_t n = 1; n <= FPISA_MAX_PORTS; n *= 2)
		sum_and_check((struct plan){.workers = 3,
					    .elements = 32,
					    .window = 16,
					    .ports = n,
					    .count = 5000,
					    .calls = 2,
					    .loss = n > 2 ? 0.02 : 0,
					    .duplicate = 0.05,
					    .reorder = 0.2,
					    .delay = n > 2 ? 0.02 : 0});
}

static void smallest_window(void **state)
{
	(void)state;
	sum_and_check((struct plan){.workers = 2, .elements = 32, .window = 1, .count = 500, .calls = 2});
}

static void missing_at_join(void **state)
{
	struct plan p = {.workers = 4, .elements = 32, .window = 4};
	struct fpisa_mem *m = mem_of_plan(&p);
	struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 150};
	struct fpisa *f;

	(void)state;
	assert_int_equal(fpisa_mem_connect(&f, m, 1, &o), -ETIMEDOUT);
	assert_null(f);
	assert_non_null(strstr(fpisa_error(), "rank 0, rank 2, rank 3 did not join"));
	fpisa_mem_destroy(m);
}

/* Make one call in all n handles from one thread, with requests. */
static void sum_in_all(struct joiner *j, int n, size_t count)
{
	struct fpisa_request *r[MAX_RANKS];
	float *v = malloc((size_t)n * count * sizeof(float));

	for (size_t i = 0; i < (size_t)n * count; i++)
		v[i] = (float)(i % count);
	for (int i = 0; i < n; i++)
		assert_int_equal(fpisa_allreduce_start(j[i].f, v + (size_t)i * count, v + (size_t)i * count, count,
						       FPISA_FLOAT32, &r[i]),
				 0);
	for (int left = n; left;) {
		for (int i = 0; i < n; i++) {
			int done;

			if (!r[i])
				continue;
			assert_int_equal(fpisa_test(&r[i], &done, NULL), 0);
			left -= done;
		}
	}
	for (size_t i = 0; i < (size_t)n * count; i++)
		assert_true(v[i] == (float)(n * (int)(i % count)));
	free(v);
}

static void deadline_names_rank(void **state)
{
	struct plan p = {.workers = 3, .elements = 32, .window = 4};
	struct fpisa_mem *m = mem_of_plan(&p);
	struct joiner j[3] = {0};
	struct fpisa_request *r = NULL, *late = NULL;
	float v[200], w[200];

	(void)state;
	join_all(j, 3, m, 2000);
	sum_in_all(j, 3, 500);
	fpisa_close(j[2].f);
	j[2].f = NULL;
	for (int i = 0; i < 200; i++)
		v[i] = w[i] = 1;
	/* Rank 1 contributes but does not wait, and rank 2 is gone. */
	assert_int_equal(fpisa_allreduce_start(j[1].f, w, w, 200, FPISA_FLOAT32, &late), 0);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v, v, 200, FPISA_FLOAT32, &r), 0);
	assert_int_equal(fpisa_wait(&r, NULL), -ETIMEDOUT);
	assert_null(r);
	assert_int_equal(fpisa_missing(j[0].f), 1 << 2);
	assert_non_null(strstr(fpisa_error(), "rank 2 sent nothing for chunk 0 of call 1"));
	assert_true(v[0] == 1 && v[199] == 1);
	/* The handle returns the same error until it rejoins. */
	assert_int_equal(fpisa_allreduce(j[0].f, v, v, 10, FPISA_FLOAT32, NULL), -ETIMEDOUT);
	assert_non_null(strstr(fpisa_error(), "rank 2 sent nothing"));

	join_all(j, 3, m, 2000);
	assert_int_equal(fpisa_missing(j[0].f), 0);
	assert_int_equal(fpisa_wait(&late, NULL), -ECANCELED);
	assert_null(late);
	sum_in_all(j, 3, 500);
	for (int i = 0; i < 3; i++)
		fpisa_close(j[i].f);
	fpisa_mem_destroy(m);
}

/*
 * Check that the other ranks request one chunk from time to time while a rank is late, and do not send the window
 * again.
 */
static void late_rank(void **state)
{
	struct plan p = {.workers = 2, .elements = 32, .window = 64};
	struct fpisa_mem *m = mem_of_plan(&p);
	struct joiner j[2] = {0};
	struct fpisa_request *r[2];
	struct fpisa_info info = {.size = sizeof(info)};
	struct timespec pause = {.tv_nsec = 1000000};
	static float v[2][64 * 32];
	uint64_t began;
	int done;

	(void)state;
	join_all(j, 2, m, 5000);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v[0], v[0], 64 * 32, FPISA_FLOAT32, &r[0]), 0);
	began = fpisa_now();
	for (int i = 0; i < 400; i++) {
		assert_int_equal(fpisa_test(&r[0], &done, NULL), 0);
		nanosleep(&pause, NULL);
	}
	fpisa_get_info(j[0].f, &info);
	/* After some requests one second passes between two. On a busy machine the loop takes seconds. */
	assert_uint_in_range(info.retransmits, 2, 10 + (fpisa_now() - began) / 1000000000);
	assert_int_equal(fpisa_allreduce_start(j[1].f, v[1], v[1], 64 * 32, FPISA_FLOAT32, &r[1]), 0);
	assert_int_equal(fpisa_wait(&r[1], NULL), 0);
	assert_int_equal(fpisa_wait(&r[0], NULL), 0);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

static void lengths_differ(void **state)
{
	struct plan p = {.workers = 2, .elements = 32, .window = 4};
	struct fpisa_mem *m = mem_of_plan(&p);
	struct joiner j[2] = {0};
	struct fpisa_request *r;
	float v[200] = {0}, w[200] = {0};

	(void)state;
	join_all(j, 2, m, 1000);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v, v, 200, FPISA_FLOAT32, &r), 0);
	assert_int_equal(fpisa_allreduce(j[1].f, w, w, 199, FPISA_FLOAT32, NULL), -EPROTO);
	assert_non_null(strstr(fpisa_error(), "the ranks made different calls"));
	assert_int_equal(fpisa_wait(&r, NULL), -EPROTO);
	assert_non_null(strstr(fpisa_error(), "the ranks made different calls"));
	join_all(j, 2, m, 1000);
	sum_in_all(j, 2, 300);
	fpisa_close(j[0].f);
	/* Closing the handle releases a request that the program did not wait for. */
	assert_int_equal(fpisa_allreduce_start(j[1].f, v, v, 200, FPISA_FLOAT32, &r), 0);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

static void stale(void **state)
{
	struct plan p = {.workers = 2, .elements = 32, .window = 4};
	struct fpisa_mem *m = mem_of_plan(&p);
	struct fpisa_soft *soft = (struct fpisa_soft *)m;
	struct joiner j[2] = {0};
	float v[40] = {0};

	(void)state;
	join_all(j, 2, m, 1000);
	soft->job.live = 1;
	assert_int_equal(fpisa_allreduce(j[1].f, v, v, 40, FPISA_FLOAT32, NULL), -ESTALE);
	assert_non_null(strstr(fpisa_error(), "rank 1 was removed"));
	assert_int_equal(fpisa_rejoin(j[1].f), -EACCES);
	/* The other rank continues alone. A rank that is continued later is not in its next generation. */
	assert_int_equal(fpisa_allreduce(j[0].f, v, v, 40, FPISA_FLOAT32, NULL), 0);
	soft->job.live = 3;
	join_all(j, 2, m, 1000);
	soft->job.live = 1;
	assert_int_equal(fpisa_rejoin(j[0].f), 0);
	soft->job.live = 3;
	assert_int_equal(fpisa_allreduce(j[1].f, v, v, 40, FPISA_FLOAT32, NULL), -ESTALE);
	assert_non_null(strstr(fpisa_error(), "generation"));
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/*
 * Check a worker whose job was replaced by a job of another type of the same width. The worker must join again, and
 * there is no protocol error.
 */
static void format_changed(void **state)
{
	struct fpisa_mem_options o = {.size = sizeof(o), .workers = 1, .format = FPISA_FLOAT16};
	struct fpisa_soft *soft;
	struct fpisa_mem *m;
	struct fpisa *f;
	uint16_t v[40] = {0};

	(void)state;
	assert_int_equal(fpisa_mem_create(&m, &o), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, NULL), 0);
	soft = (struct fpisa_soft *)m;
	soft->job.format = FPISA_FORMAT_BF16;
	soft->job.key.k0 ^= 1;
	memset(&soft->session, 0, sizeof(soft->session));
	assert_int_equal(fpisa_allreduce(f, v, v, 40, FPISA_FLOAT16, NULL), -ESTALE);
	assert_non_null(strstr(fpisa_error(), "the job was created again"));
	assert_int_equal(fpisa_rejoin(f), 0);
	assert_int_equal(fpisa_allreduce(f, v, v, 40, FPISA_BFLOAT16, NULL), 0);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths),
		cmocka_unit_test(worker_counts),
		cmocka_unit_test(modes),
		cmocka_unit_test(outstanding_requests),
		cmocka_unit_test(loss),
		cmocka_unit_test(faults),
		cmocka_unit_test(ports),
		cmocka_unit_test(smallest_window),
		cmocka_unit_test(missing_at_join),
		cmocka_unit_test(deadline_names_rank),
		cmocka_unit_test(late_rank),
		cmocka_unit_test(lengths_differ),
		cmocka_unit_test(stale),
		cmocka_unit_test(format_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
