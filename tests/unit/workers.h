/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranks as threads, for the tests of the library. Each rank connects, makes the calls of a plan and stores the results.
 * The main thread checks everything afterwards, because cmocka's assertions work only there.
 */
#ifndef TESTS_WORKERS_H
#define TESTS_WORKERS_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa.h"
#include "fpisa/frame.h"
#include "lab/oracle/oracle.h"
#include "lib/soft/soft.h"

#define MAX_RANKS 16

struct plan {
	uint32_t workers, elements, window;
	uint8_t ports; /* number of ports of the in-process aggregator, which has no option for them */
	uint8_t mode, rounding, pipeline;
	size_t count;
	int calls;
	int outstanding; /* number of requests started before the first wait; 0: blocking calls */
	int in_place;
	double loss, duplicate, reorder, delay, corrupt;
	uint32_t timeout_ms;
	int progress; /* use a progress thread */
};

/* Return a deadline in ms that only a deadlock should exceed. FPISA_SLOW multiplies it, for emulated processors. */
static inline uint32_t long_enough(void)
{
	const char *slow = getenv("FPISA_SLOW");

	return 20000 * (slow ? (uint32_t)strtoul(slow, NULL, 10) : 1);
}

/* Create the plan's aggregator in this process. */
static inline struct fpisa_mem *mem_of_plan(const struct plan *p)
{
	struct fpisa_mem_options o = {
		.size = sizeof(o),
		.workers = p->workers,
		.elements = p->elements,
		.window = p->window,
		.mode = p->mode,
		.rounding = p->rounding,
		.pipeline = p->pipeline,
	};
	struct fpisa_mem *m;

	if (fpisa_mem_create(&m, &o))
		fail_msg("%s", fpisa_error());
	((struct fpisa_soft *)m)->job.ports = p->ports;
	return m;
}

struct rank_result {
	int rc; /* error of the call that failed, else 0 */
	char error[512];
	uint64_t missing;
	float *send, *recv;	   /* values of all calls, one call after the other */
	struct fpisa_chunk *chunk; /* chunks of all calls, by position */
	uint32_t *flags;	   /* flags of each call */
	int call;		   /* the call in progress; with several outstanding requests, chunks are not stored */
	struct fpisa_info info;
};

struct fleet;

struct rank_thread {
	struct fleet *fleet;
	uint32_t rank;
	pthread_t thread;
	struct rank_result r;
};

struct fleet {
	struct plan plan;
	uint64_t seed;
	/* Connect one rank. The rank's thread calls this function. */
	int (*connect)(struct fpisa **f, uint32_t rank, const struct fpisa_options *o, void *arg);
	void *arg;
	struct rank_thread rank[MAX_RANKS];
};

static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Return the seed of this run: FPISA_SEED, else the clock. Print it once. */
static inline uint64_t test_seed(void)
{
	static uint64_t seed;
	const char *text = getenv("FPISA_SEED");
	struct timespec t;

	if (!seed) {
		clock_gettime(CLOCK_REALTIME, &t);
		seed = text ? strtoull(text, NULL, 0) : (uint64_t)t.tv_nsec * 1000003 + (uint64_t)t.tv_sec;
		printf("seed: FPISA_SEED=%llu\n", (unsigned long long)seed);
	}
	return seed;
}

/* Return a finite value. Exponents are near each other, so that sums round and cancel. */
static inline float test_value(uint64_t *state)
{
	uint64_t r = test_random(state);
	uint32_t word = (uint32_t)(r & 0x807fffff) | (uint32_t)(120 + (r >> 32) % 12) << 23;
	float v;

	memcpy(&v, &word, sizeof(v));
	return v;
}

static inline size_t plan_chunks(const struct plan *p)
{
	return (p->count + p->elements - 1) / p->elements;
}

static inline void keep_chunk(void *arg, const struct fpisa_chunk *c)
{
	struct rank_thread *t = arg;
	const struct plan *p = &t->fleet->plan;

	if (p->outstanding <= 1)
		t->r.chunk[(size_t)t->r.call * plan_chunks(p) + c->offset / p->elements] = *c;
}

static inline int make_calls(struct rank_thread *t, struct fpisa *f)
{
	const struct plan *p = &t->fleet->plan;
	struct fpisa_request *request[64] = {0};
	int rc = 0, started = 0;

	if (p->in_place)
		memcpy(t->r.recv, t->r.send, p->count * (size_t)p->calls * sizeof(float));
	for (int i = 0; i < p->calls && !rc; i++) {
		size_t at = (size_t)i * p->count;
		int done = 0;

		t->r.call = i;
		if (!p->outstanding) {
			rc = fpisa_allreduce(f, (p->in_place ? t->r.recv : t->r.send) + at, t->r.recv + at, p->count,
					     FPISA_FLOAT32, &t->r.flags[i]);
			continue;
		}
		for (; started < p->calls && started < i + p->outstanding && !rc; started++) {
			at = (size_t)started * p->count;
			rc = fpisa_allreduce_start(f, (p->in_place ? t->r.recv : t->r.send) + at, t->r.recv + at,
						   p->count, FPISA_FLOAT32, &request[started]);
		}
		while (i % 2 && !rc && !done)
			rc = fpisa_test(&request[i], &done, &t->r.flags[i]);
		if (!rc && !done)
			rc = fpisa_wait(&request[i], &t->r.flags[i]);
	}
	return rc;
}

static inline void *run_rank(void *arg)
{
	struct rank_thread *t = arg;
	const struct plan *p = &t->fleet->plan;
	struct fpisa_options o = {
		.size = sizeof(o),
		.timeout_ms = p->timeout_ms ? p->timeout_ms : long_enough(),
		.loss = p->loss,
		.duplicate = p->duplicate,
		.reorder = p->reorder,
		.delay = p->delay,
		.corrupt = p->corrupt,
		.seed = t->fleet->seed + t->rank,
		.progress = (uint64_t)p->progress,
		.on_chunk = keep_chunk,
		.arg = t,
	};
	struct fpisa *f = NULL;

	t->r.rc = t->fleet->connect(&f, t->rank, &o, t->fleet->arg);
	if (!t->r.rc)
		t->r.rc = make_calls(t, f);
	if (t->r.rc)
		snprintf(t->r.error, sizeof(t->r.error), "%s", fpisa_error());
	if (f) {
		t->r.missing = fpisa_missing(f);
		t->r.info.size = sizeof(t->r.info);
		fpisa_get_info(f, &t->r.info);
	}
	fpisa_close(f);
	return NULL;
}

/* Run the fleet's plan to its end in all ranks. */
static inline void run_fleet(struct fleet *fl)
{
	const struct plan *p = &fl->plan;
	size_t n = p->count * (size_t)p->calls;

	for (uint32_t i = 0; i < p->workers; i++) {
		struct rank_thread *t = &fl->rank[i];
		uint64_t random = fl->seed * 1000 + i;

		*t = (struct rank_thread){.fleet = fl, .rank = i};
		t->r.send = malloc(n * sizeof(float));
		t->r.recv = malloc(n * sizeof(float));
		t->r.chunk = calloc((size_t)p->calls * plan_chunks(p), sizeof(*t->r.chunk));
		t->r.flags = calloc((size_t)p->calls, sizeof(*t->r.flags));
		for (size_t k = 0; k < n; k++)
			t->r.send[k] = p->outstanding > 1 ? (float)(int)(test_random(&random) % 2001) - 1000 :
							    test_value(&random);
	}
	for (uint32_t i = 0; i < p->workers; i++)
		assert_int_equal(pthread_create(&fl->rank[i].thread, NULL, run_rank, &fl->rank[i]), 0);
	for (uint32_t i = 0; i < p->workers; i++)
		pthread_join(fl->rank[i].thread, NULL);
}

static inline void free_fleet(struct fleet *fl)
{
	for (uint32_t i = 0; i < fl->plan.workers; i++) {
		free(fl->rank[i].r.send);
		free(fl->rank[i].r.recv);
		free(fl->rank[i].r.chunk);
		free(fl->rank[i].r.flags);
	}
}

/* Convert the arrival order of a chunk to a list of ranks. Fail unless the list is a permutation. */
static inline void arrival(const struct fpisa_chunk *c, uint32_t workers, uint32_t *ranks)
{
	uint64_t seen = 0;

	assert_int_equal(c->ranks, (1ull << workers) - 1);
	for (uint32_t i = 0; i < workers; i++) {
		uint32_t at = c->order >> (4 * i) & 15;

		assert_true(at < workers);
		ranks[at] = i;
		seen |= 1ull << at;
	}
	assert_int_equal(seen, (1ull << workers) - 1);
}

/* Check every element of every rank against the oracle, in the arrival order that the chunks report. */
static inline void check_replayed(const struct fleet *fl, enum fpisa_mode mode, enum fpisa_rounding rounding)
{
	const struct plan *p = &fl->plan;
	uint32_t ranks[MAX_RANKS];

	for (int call = 0; call < p->calls; call++) {
		uint32_t flags = 0;

		for (size_t i = 0; i < p->count; i++) {
			size_t at = (size_t)call * p->count + i;
			uint64_t words[MAX_RANKS] = {0};
			uint32_t got, want;

			arrival(&fl->rank[0].r.chunk[(size_t)call * plan_chunks(p) + i / p->elements], p->workers,
				ranks);
			for (uint32_t k = 0; k < p->workers; k++)
				memcpy(&words[k], &fl->rank[ranks[k]].r.send[at], 4);
			want = (uint32_t)oracle_replay(FPISA_FP32, mode, rounding, p->workers, words, NULL, &flags);
			for (uint32_t k = 0; k < p->workers; k++) {
				memcpy(&got, &fl->rank[k].r.recv[at], 4);
				if (got != want)
					fail_msg("rank %u call %d element %zu: %08x, oracle %08x", k, call, i, got,
						 want);
			}
		}
		for (uint32_t k = 0; k < p->workers; k++)
			assert_int_equal(fl->rank[k].r.flags[call], flags);
	}
}

/* Check sums of whole numbers below 1000: every order gives the exact sum. */
static inline void check_whole_numbers(const struct fleet *fl)
{
	const struct plan *p = &fl->plan;

	for (size_t at = 0; at < p->count * (size_t)p->calls; at++) {
		float sum = 0;

		for (uint32_t k = 0; k < p->workers; k++)
			sum += fl->rank[k].r.send[at];
		for (uint32_t k = 0; k < p->workers; k++)
			if (fl->rank[k].r.recv[at] != sum)
				fail_msg("rank %u element %zu: %g, sum %g", k, at, (double)fl->rank[k].r.recv[at],
					 (double)sum);
	}
}

static inline void assert_all_succeeded(const struct fleet *fl)
{
	for (uint32_t i = 0; i < fl->plan.workers; i++)
		if (fl->rank[i].r.rc)
			fail_msg("rank %u: %d: %s", i, fl->rank[i].r.rc, fl->rank[i].r.error);
}

/*
 * Handles of several ranks in one thread. Connecting waits for all ranks, so each handle has a thread for connecting.
 */
struct joiner {
	struct fpisa_mem *m;
	struct fpisa *f;
	uint32_t rank;
	const struct fpisa_options *options;
	pthread_t thread;
	int rejoin, rc;
};

static inline void *join_one(void *arg)
{
	struct joiner *j = arg;
	j->rc = j->rejoin ? fpisa_rejoin(j->f) : fpisa_mem_connect(&j->f, j->m, j->rank, j->options);
	return NULL;
}

static inline void join_all_with(struct joiner *j, int n, struct fpisa_mem *m, const struct fpisa_options *o)
{
	for (int i = 0; i < n; i++) {
		j[i].m = m;
		j[i].rank = (uint32_t)i;
		j[i].options = o;
		j[i].rejoin = j[i].f != NULL;
		assert_int_equal(pthread_create(&j[i].thread, NULL, join_one, &j[i]), 0);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(j[i].thread, NULL);
		assert_int_equal(j[i].rc, 0);
	}
}

static inline void join_all(struct joiner *j, int n, struct fpisa_mem *m, uint32_t timeout_ms)
{
	const struct fpisa_options o = {.size = sizeof(o), .timeout_ms = timeout_ms};

	join_all_with(j, n, m, &o);
}

#endif
