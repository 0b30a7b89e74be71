/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test a handle that threads share, with random calls. The threads of a rank start calls in one order and choose at
 * random how to end them: by wait, test, callback or eventfd, at once or later. Sometimes another thread fails all
 * handles. Every request ends once, with its sum or with the failure.
 */
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "lib/handle.h"
#include "workers.h"

#define RANKS 2
#define THREADS 3
#define CALLS 24
#define MOST 700 /* maximum number of elements */
#define FAILURE (-EHOSTDOWN)

enum how { WAIT, TEST, CALLBACK, POLL, LATER, HOWS };

struct world;

struct call {
	struct world *w;
	float v[MOST];
	size_t count;
	int thread; /* the thread that starts the call */
	enum how how;
	struct fpisa_request *r;
	int ended; /* number of times that the call ended */
	int rc;
};

struct rank {
	struct fpisa *f;
	struct call call[CALLS];
	int started, events;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

struct world {
	struct fpisa_mem *m;
	struct rank rank[RANKS];
	uint32_t ranks;
	int fails;
};

struct actor {
	struct world *w;
	struct rank *rank;
	int thread;
	uint64_t random;
	pthread_t id;
};

static void end(struct call *c, int rc)
{
	c->rc = rc;
	__atomic_fetch_add(&c->ended, 1, __ATOMIC_RELEASE);
}

static void on_done(void *arg, int rc, uint32_t flags)
{
	(void)flags;
	end(arg, rc);
}

static int start(struct rank *k, struct call *c, uint64_t tag)
{
	struct fpisa_call call = {.size = sizeof(call),
				  .send = c->v,
				  .recv = c->v,
				  .count = c->count,
				  .type = FPISA_FLOAT32,
				  .op = FPISA_SUM,
				  .tag = tag,
				  .on_done = c->how == CALLBACK ? on_done : NULL,
				  .arg = c};

	return fpisa_start(k->f, &call, c->how == CALLBACK ? NULL : &c->r);
}

static void test_until_done(struct call *c, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int done = 0, rc = 0;

	while (!done && !rc) {
		/* Several threads share the events, so poll with a timeout. */
		if (fd >= 0)
			poll(&p, 1, 1);
		else
			sched_yield();
		rc = fpisa_test(&c->r, &done, NULL);
	}
	end(c, rc);
}

/* Begin call `i`. Calls begin in order, whichever thread makes them. */
static int begin(struct actor *a, int i)
{
	struct rank *k = a->rank;
	int rc;

	pthread_mutex_lock(&k->lock);
	while (k->started < i)
		pthread_cond_wait(&k->changed, &k->lock);
	rc = start(k, &k->call[i], (uint64_t)i);
	k->started++;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
	return rc;
}

static void *act(void *arg)
{
	struct actor *a = arg;
	struct call *later[CALLS];
	int n = 0;

	for (int i = 0; i < CALLS; i++) {
		struct call *c = &a->rank->call[i];
		int rc;

		if (c->thread != a->thread)
			continue;
		if (test_random(&a->random) % 4 == 0)
			usleep(test_random(&a->random) % 300);
		rc = begin(a, i);
		if (rc)
			end(c, rc);
		else if (c->how == WAIT)
			end(c, fpisa_wait(&c->r, NULL));
		else if (c->how == TEST || c->how == POLL)
			test_until_done(c, c->how == POLL ? a->rank->events : -1);
		else if (c->how == LATER)
			later[n++] = c;
	}
	/* Sometimes wait for the last call first. */
	for (int i = 0; i < n; i++) {
		struct call *c = later[a->random & 1 ? n - 1 - i : i];

		end(c, fpisa_wait(&c->r, NULL));
	}
	return NULL;
}

static void disturb(struct world *w, uint64_t *random)
{
	if (!w->fails)
		return;
	usleep(test_random(random) % 3000);
	for (uint32_t i = 0; i < w->ranks; i++)
		assert_int_equal(fpisa_handle_fail(w->rank[i].f, FAILURE, &(struct fpisa_ranks){{2}}, "rank 1 is dead"),
				 0);
}

static void check(const struct world *w)
{
	for (uint32_t i = 0; i < w->ranks; i++) {
		for (int n = 0; n < CALLS; n++) {
			const struct call *c = &w->rank[i].call[n];

			if (c->ended != 1)
				fail_msg("rank %u call %d has ended %d times", i, n, c->ended);
			if (c->rc && (c->rc != FAILURE || !w->fails))
				fail_msg("rank %u call %d: %d", i, n, c->rc);
			for (size_t e = 0; e < c->count && !c->rc; e++)
				if (c->v[e] != (float)(w->ranks * ((size_t)n + e % 100)))
					fail_msg("rank %u call %d element %zu: %g", i, n, e, (double)c->v[e]);
		}
	}
}

static void prepare(struct world *w, uint64_t *random)
{
	size_t count[CALLS];

	for (int n = 0; n < CALLS; n++)
		count[n] = 1 + test_random(random) % (n % 3 ? 40 : MOST);
	for (uint32_t i = 0; i < w->ranks; i++) {
		struct rank *k = &w->rank[i];

		k->started = 0;
		for (int n = 0; n < CALLS; n++) {
			struct call *c = &k->call[n];

			*c = (struct call){.w = w, .count = count[n], .thread = (int)(test_random(random) % THREADS)};
			c->how = (enum how)(test_random(random) % HOWS);
			for (size_t e = 0; e < c->count; e++)
				c->v[e] = (float)((size_t)n + e % 100);
		}
	}
}

static void run(struct world *w, uint64_t *random)
{
	struct actor actor[RANKS][THREADS];

	prepare(w, random);
	for (uint32_t i = 0; i < w->ranks; i++) {
		for (int t = 0; t < THREADS; t++) {
			actor[i][t] = (struct actor){w, &w->rank[i], t, test_random(random), 0};
			assert_int_equal(pthread_create(&actor[i][t].id, NULL, act, &actor[i][t]), 0);
		}
	}
	disturb(w, random);
	for (uint32_t i = 0; i < w->ranks; i++)
		for (int t = 0; t < THREADS; t++)
			pthread_join(actor[i][t].id, NULL);
	/* Callbacks may still be called. */
	for (uint32_t i = 0; i < w->ranks; i++)
		for (int n = 0; n < CALLS; n++)
			for (int ms = 0; ms < 20000 && !__atomic_load_n(&w->rank[i].call[n].ended, __ATOMIC_ACQUIRE);
			     ms++)
				usleep(1000);
	check(w);
}

static void a_world(uint64_t *random)
{
	const struct fpisa_mem_options mo = {.size = sizeof(mo),
					     .workers = 1 + (uint32_t)(test_random(random) % RANKS),
					     .elements = 32,
					     .window = 1u << test_random(random) % 4};
	const struct fpisa_options o = {.size = sizeof(o),
					.timeout_ms = FPISA_FOREVER,
					.progress = 1,
					.restore = test_random(random) & 1,
					.loss = test_random(random) % 3 ? 0 : 0.02,
					.reorder = test_random(random) % 3 ? 0 : 0.02,
					.seed = test_random(random)};
	struct world *w = calloc(1, sizeof(*w));
	struct joiner j[RANKS] = {0};

	w->ranks = mo.workers;
	assert_int_equal(fpisa_mem_create(&w->m, &mo), 0);
	for (int round = 0; round < 3; round++) {
		join_all_with(j, (int)w->ranks, w->m, &o);
		for (uint32_t i = 0; i < w->ranks; i++) {
			w->rank[i].f = j[i].f;
			w->rank[i].events = fpisa_eventfd(j[i].f);
			if (!round) {
				pthread_mutex_init(&w->rank[i].lock, NULL);
				pthread_cond_init(&w->rank[i].changed, NULL);
			}
		}
		w->fails = test_random(random) & 1;
		run(w, random);
	}
	for (uint32_t i = 0; i < w->ranks; i++)
		fpisa_close(j[i].f);
	fpisa_mem_destroy(w->m);
	free(w);
}

static void worlds(void **state)
{
	uint64_t random = test_seed();

	(void)state;
	for (int i = 0; i < 30; i++)
		a_world(&random);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worlds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
