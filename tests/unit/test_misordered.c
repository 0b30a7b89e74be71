// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranks make the same calls, each rank in its own order. Every rank gets right sums or -EPROTO within the deadline, and
 * never a sum of calls that differ. The calls differ only by their tag, or also in other arguments.
 */
#include <errno.h>
#include "fpisa/op.h"
#include "lib/request.h"
#include "ranges.h"
#include "workers.h"

enum { RANKS = 3, ELEMENTS = 32, WINDOW = 4, MOST_CALLS = 5, MOST_COUNT = 6 * ELEMENTS, SCHEDULES = 300 };

struct schedule {
	int calls, alike; /* alike: all ranks start the calls in the same order */
	int order[RANKS][MOST_CALLS];
	size_t count[MOST_CALLS];
	enum fpisa_operation op[MOST_CALLS];
	uint64_t tag[MOST_CALLS];
};

struct rank {
	struct schedule *s;
	struct fpisa *f;
	uint32_t rank;
	pthread_t thread;
	int rc[MOST_CALLS]; /* indexed by the number of the call, not by its turn */
	char error[256];
	float send[MOST_CALLS][MOST_COUNT], recv[MOST_CALLS][MOST_COUNT];
};

static float contribution(uint32_t rank, int call)
{
	return (float)((1 + call) * 100 + (int)rank);
}

static float expected(const struct schedule *s, int call)
{
	float v = contribution(0, call);

	for (uint32_t r = 1; r < RANKS; r++)
		v = s->op[call] == FPISA_SUM ? v + contribution(r, call) : contribution(r, call);
	return v;
}

static void draw(struct schedule *s, uint64_t *random)
{
	int same_length = test_random(random) % 2;

	*s = (struct schedule){.calls = 2 + (int)(test_random(random) % (MOST_CALLS - 1))};
	for (int i = 0; i < s->calls; i++) {
		s->count[i] = same_length ? MOST_COUNT / 2 : 1 + test_random(random) % MOST_COUNT;
		s->op[i] = test_random(random) % 4 ? FPISA_SUM : FPISA_MAX;
		s->tag[i] = (uint64_t)i + 1;
	}
	for (int r = 0; r < RANKS; r++) {
		for (int i = 0; i < s->calls; i++)
			s->order[r][i] = i;
		/* One order in three is the same on all ranks. */
		for (int i = s->calls - 1; i > 0 && test_random(random) % 3; i--) {
			int k = (int)(test_random(random) % (uint64_t)(i + 1)), was = s->order[r][i];

			s->order[r][i] = s->order[r][k];
			s->order[r][k] = was;
		}
	}
	s->alike = 1;
	for (int r = 1; r < RANKS; r++)
		s->alike &= !memcmp(s->order[r], s->order[0], sizeof(s->order[0]));
}

static void *start_and_wait(void *arg)
{
	struct rank *r = arg;
	const struct schedule *s = r->s;
	struct fpisa_request *request[MOST_CALLS] = {NULL};

	for (int k = 0; k < s->calls; k++) {
		int i = s->order[r->rank][k];
		struct fpisa_call c = {
			.size = sizeof(c),
			.send = r->send[i],
			.recv = r->recv[i],
			.count = s->count[i],
			.type = FPISA_FLOAT32,
			.op = s->op[i],
			.tag = s->tag[i],
		};

		for (size_t e = 0; e < s->count[i]; e++)
			r->send[i][e] = contribution(r->rank, i);
		r->rc[i] = fpisa_start(r->f, &c, &request[i]);
	}
	for (int k = 0; k < s->calls; k++) {
		int i = s->order[r->rank][k];

		if (request[i])
			r->rc[i] = fpisa_wait(&request[i], NULL);
		if (r->rc[i])
			snprintf(r->error, sizeof(r->error), "%s", fpisa_error());
	}
	return NULL;
}

static void check(const struct schedule *s, const struct rank *ranks, int number)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		const struct rank *k = &ranks[r];
		int told = 0;

		for (int i = 0; i < s->calls; i++) {
			if (k->rc[i] && k->rc[i] != -EPROTO)
				fail_msg("schedule %d, rank %u, call %d: %d: %s", number, r, i, k->rc[i], k->error);
			told |= k->rc[i] == -EPROTO;
			for (size_t e = 0; !k->rc[i] && e < s->count[i]; e++)
				if (k->recv[i][e] != expected(s, i))
					fail_msg("schedule %d, rank %u, call %d: %g instead of %g", number, r, i,
						 (double)k->recv[i][e], (double)expected(s, i));
		}
		if (told == s->alike)
			fail_msg("schedule %d, rank %u: %s", number, r,
				 told ? k->error : "calls in other orders, and no error");
	}
}

static void every_order(void **state)
{
	const struct fpisa_mem_options o = {.size = sizeof(o), .workers = RANKS, .elements = ELEMENTS, .window = WINDOW};
	static struct rank ranks[RANKS];
	struct joiner j[RANKS] = {0};
	uint64_t random = test_seed();
	struct fpisa_mem *m;
	struct schedule s;
	int alike = 0;

	(void)state;
	assert_int_equal(fpisa_mem_create(&m, &o), 0);
	join_all(j, RANKS, m, 5000);
	for (int n = 0; n < SCHEDULES; n++) {
		draw(&s, &random);
		alike += s.alike;
		for (uint32_t r = 0; r < RANKS; r++) {
			ranks[r].s = &s;
			ranks[r].f = j[r].f;
			ranks[r].rank = r;
			assert_int_equal(pthread_create(&ranks[r].thread, NULL, start_and_wait, &ranks[r]), 0);
		}
		for (uint32_t r = 0; r < RANKS; r++)
			pthread_join(ranks[r].thread, NULL);
		check(&s, ranks, n);
		if (!s.alike)
			join_all(j, RANKS, m, 5000);
	}
	assert_uint_in_range(alike, SCHEDULES / 50, SCHEDULES / 2);
	for (uint32_t r = 0; r < RANKS; r++)
		fpisa_close(j[r].f);
	fpisa_mem_destroy(m);
}

/*
 * Check that an older library refuses options that only a newer library supports, and that options that an older
 * program omits are zero.
 */
static void sizes(void **state)
{
	const struct fpisa_mem_options o = {.size = sizeof(o), .workers = 1};
	struct {
		struct fpisa_call c;
		uint64_t more;
	} newer = {.more = 1};
	struct fpisa_request *r;
	struct fpisa_mem *m;
	struct fpisa *f;
	float v = 1;

	(void)state;
	assert_int_equal(fpisa_mem_create(&m, &o), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, NULL), 0);
	newer.c = (struct fpisa_call){
		.size = sizeof(newer), .send = &v, .recv = &v, .count = 1, .type = FPISA_FLOAT32, .op = FPISA_SUM};
	assert_int_equal(fpisa_start(f, &newer.c, &r), -EINVAL);
	newer.more = 0;
	assert_int_equal(fpisa_start(f, &newer.c, &r), 0);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	newer.c.size = offsetof(struct fpisa_call, tag);
	newer.c.tag = 9;
	assert_int_equal(fpisa_start(f, &newer.c, &r), 0);
	assert_int_equal(r->digest, fpisa_digest(fpisa_digest(0, FPISA_CALL_ALLREDUCE, 1, 1, 0, 1, 0),
						 FPISA_CALL_ALLREDUCE, 1, 1, 0, 1, 0));
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	newer.c.size = 0;
	assert_int_equal(fpisa_start(f, &newer.c, &r), -EINVAL);
	assert_null(r);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_order),
		cmocka_unit_test(sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
