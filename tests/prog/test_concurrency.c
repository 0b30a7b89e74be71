/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two CPUs on the same slots: threads pinned to CPUs of their own send the
 * contributions of their ranks of the same rounds at the same time, staged
 * and fused. Every round completes once, its result is what the oracle gets
 * in the order of arrival that the header reports, and no guard stays taken.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "harness.h"
#include "oracle.h"
#include "vectors.h"

#define WORKERS 8
#define ELEMENTS 64
#define WINDOW 2
#define JOB 8
#define LEAST_ROUNDS 1000 /* in fewer an emulated second CPU may not have begun */

struct shared {
	struct fpisa_job job;
	uint64_t rounds, seed;
	pthread_barrier_t barrier;
	uint32_t in[WINDOW][WORKERS][ELEMENTS]; /* of the rounds under way */
	uint64_t results, wrong, together;
	volatile uint64_t complete; /* chunks below it have their result */
};

struct thread {
	struct shared *s;
	pthread_t id;
	int number;
};

/* The result in `f` against the oracle; also whether both threads' ranks came mixed. */
static void check(struct shared *s, struct frame *f)
{
	uint32_t (*in)[ELEMENTS] = s->in[harness_hdr(f)->chunk % WINDOW];
	uint64_t order = harness_hdr(f)->aux;
	int rank_at[WORKERS], changes = 0;
	uint32_t flags = 0;

	memset(rank_at, -1, sizeof(rank_at));
	for (int r = 0; r < WORKERS; r++)
		rank_at[order >> (4 * r) & 7] = r;
	for (int i = 0; i < WORKERS; i++) {
		if (rank_at[i] < 0) {
			__sync_fetch_and_add(&s->wrong, 1);
			return;
		}
		changes += i && rank_at[i] % 2 != rank_at[i - 1] % 2;
	}
	if (changes > 1)
		__sync_fetch_and_add(&s->together, 1);
	for (uint32_t e = 0; e < ELEMENTS; e++) {
		uint64_t words[WORKERS];

		for (int i = 0; i < WORKERS; i++)
			words[i] = in[rank_at[i]][e];
		if ((uint32_t)oracle_replay(FPISA_FP32, s->job.mode, s->job.rounding, WORKERS, words, NULL, &flags) !=
		    harness_payload(f)[e])
			__sync_fetch_and_add(&s->wrong, 1);
	}
	if (harness_hdr(f)->type != FPISA_TYPE_RESULT || harness_hdr(f)->result_flags != flags || !harness_sealed(f) || harness_hdr(f)->bitmap != 0xff)
		__sync_fetch_and_add(&s->wrong, 1);
}

static void *worker(void *arg)
{
	struct thread *t = arg;
	struct shared *s = t->s;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(t->number, &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (uint64_t chunk = 0; chunk < s->rounds; chunk++) {
		/* Ranks of one parity, again and again, as workers do until they have the result. */
		if (!t->number)
			vectors_fill(s->seed, chunk, WORKERS, ELEMENTS, s->in[chunk % WINDOW][0]);
		pthread_barrier_wait(&s->barrier);
		for (int k = 0; k < WORKERS / 2 + 2 || s->complete <= chunk; k++) {
			uint32_t rank = (uint32_t)(k % (WORKERS / 2) * 2 + t->number);
			struct frame f;

			harness_add(&f, harness, &s->job, JOB, rank, chunk, ELEMENTS, s->in[chunk % WINDOW][rank]);
			harness_run(harness, &f);
			if (f.action != XDP_REDIRECT)
				continue;
			if (harness_hdr(&f)->flags != FPISA_F_RESENT)
				__sync_fetch_and_add(&s->results, 1);
			check(s, &f);
			s->complete = chunk + 1;
		}
		pthread_barrier_wait(&s->barrier);
	}
	return NULL;
}

static void two_cpus_one_slot(void **state)
{
	uint64_t rounds = getenv("FPISA_ROUNDS") ? strtoull(getenv("FPISA_ROUNDS"), NULL, 0) * 8 : 4000;

	(void)state;
	if (rounds < LEAST_ROUNDS)
		rounds = LEAST_ROUNDS;
	NEED_BPF();
	if (harness->cpus < 2) {
		print_message("skip: one CPU\n");
		skip();
	}
	for (int variant = 0; variant < 4; variant++) {
		static struct shared s;
		struct thread t[2];

		memset(&s, 0, sizeof(s));
		s.rounds = rounds;
		s.seed = vectors_seed();
		s.job = (struct fpisa_job){
			.workers = WORKERS,
			.elements = ELEMENTS,
			.window = WINDOW,
			.mode = variant & 1 ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA,
			.pipeline = variant & 2 ? FPISA_PIPELINE_STAGED : FPISA_PIPELINE_FUSED,
			.clz = variant & 2 ? FPISA_CLZ_LPM : FPISA_CLZ_BITS,
		};
		harness_job(harness, JOB, &s.job);
		uint64_t busy = harness_verdict(harness, JOB, FPISA_V_busy);

		pthread_barrier_init(&s.barrier, NULL, 2);
		for (int i = 0; i < 2; i++) {
			t[i] = (struct thread){ .s = &s, .number = i };
			assert_int_equal(pthread_create(&t[i].id, NULL, worker, &t[i]), 0);
		}
		for (int i = 0; i < 2; i++)
			pthread_join(t[i].id, NULL);
		pthread_barrier_destroy(&s.barrier);
		busy = harness_verdict(harness, JOB, FPISA_V_busy) - busy;
		print_message("%s, mode %u: %llu rounds, %llu results with both CPUs' ranks mixed, %llu busy, %llu wrong\n",
			      variant & 2 ? "staged" : "fused", s.job.mode, (unsigned long long)s.rounds,
			      (unsigned long long)s.together, (unsigned long long)busy, (unsigned long long)s.wrong);
		assert_int_equal(s.wrong, 0);
		assert_int_equal(s.results, s.rounds);
		assert_true(s.together > 0);
		for (uint32_t k = 0; k < 2 * WINDOW; k++) {
			struct fpisa_slot slot;

			harness_slot(harness, k, &slot, NULL, NULL);
			assert_int_equal(slot.guard, 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(two_cpus_one_slot) };

	return cmocka_run_group_tests_name("prog/concurrency", tests, harness_setup, harness_teardown);
}
