/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run two CPUs on the same slots. Threads pinned to different CPUs send the contributions of their ranks to the same
 * rounds at the same time, staged and fused. Every round completes once, its result is the oracle's result in the order
 * of arrival that the header reports, and no lock stays taken.
 *
 * The same holds while a third thread empties slots of the program array, so that tail calls miss halfway. It also
 * holds if the third thread keeps locks for longer than a packet waits. Frames are then dropped as busy, and the rounds
 * complete.
 *
 * FPISA_ROUNDS=N runs 8 N rounds of each variant. `make stress` runs a million. FPISA_VARIANT=staged runs only the
 * variant of that name.
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
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "harness.h"
#include "lab/oracle/oracle.h"
#include "vectors.h"

#define WORKERS 8
#define ELEMENTS 64
#define WINDOW 2
#define JOB 8
#define LEAST_ROUNDS 1000  /* with fewer rounds a second emulated CPU may not have begun */
#define AWAKE_SPINS 100000 /* number of spins in which a thread waits for the other to leave the barrier too */

enum disturbance { NONE, HOLES, LOCKS };

static const struct variant {
	const char *name;
	uint8_t mode, pipeline, clz;
	enum disturbance by;
} variants[] = {
	{"fused", FPISA_MODE_FPISA, FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS, NONE},
	{"fused, fpisa-a", FPISA_MODE_FPISA_A, FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS, NONE},
	{"staged", FPISA_MODE_FPISA, FPISA_PIPELINE_STAGED, FPISA_CLZ_LPM, NONE},
	{"staged, fpisa-a", FPISA_MODE_FPISA_A, FPISA_PIPELINE_STAGED, FPISA_CLZ_LPM, NONE},
	{"staged, tail calls missed", FPISA_MODE_FPISA, FPISA_PIPELINE_STAGED, FPISA_CLZ_BITS, HOLES},
	{"fused, locks held", FPISA_MODE_FPISA, FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS, LOCKS},
	{"staged, locks held", FPISA_MODE_FPISA, FPISA_PIPELINE_STAGED, FPISA_CLZ_BITS, LOCKS},
};

struct shared {
	struct fpisa_job job;
	uint64_t rounds, seed;
	pthread_barrier_t barrier;
	uint32_t in[WINDOW][WORKERS][ELEMENTS]; /* contributions to the open rounds */
	uint64_t results, wrong, together;
	volatile uint64_t complete; /* all earlier chunks have their results */
	uint64_t awake;		    /* number of times that threads left the barrier, over all rounds */
	volatile bool over;
};

struct thread {
	struct shared *s;
	pthread_t id;
	int number;
};

/*
 * Check the result in `f` against the oracle. Count the rounds in which contributions of both threads arrived
 * interleaved.
 */
static void check(struct shared *s, struct frame *f)
{
	uint32_t(*in)[ELEMENTS] = s->in[harness_hdr(f)->chunk % WINDOW];
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
	if (changes > 1 && harness_hdr(f)->flags != FPISA_F_RESENT)
		__sync_fetch_and_add(&s->together, 1);
	for (uint32_t e = 0; e < ELEMENTS; e++) {
		uint64_t words[WORKERS];

		for (int i = 0; i < WORKERS; i++)
			words[i] = in[rank_at[i]][e];
		if ((uint32_t)oracle_replay(FPISA_FP32, s->job.mode, s->job.rounding, WORKERS, words, NULL, &flags) !=
		    harness_payload(f)[e])
			__sync_fetch_and_add(&s->wrong, 1);
	}
	if (harness_hdr(f)->type != FPISA_TYPE_RESULT || harness_hdr(f)->result_flags != flags ||
	    !harness_checksums_right(f) || harness_hdr(f)->bitmap != 0xff)
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
		/* Send repeatedly for ranks of one parity, as workers do until they have the result. */
		if (!t->number)
			vectors_fill(s->seed, chunk, WORKERS, ELEMENTS, s->in[chunk % WINDOW][0]);
		pthread_barrier_wait(&s->barrier);
		/* Without this wait, the first thread to leave would have finished before the other wakes up. */
		__sync_fetch_and_add(&s->awake, 1);
		for (int i = 0; i < AWAKE_SPINS && *(volatile uint64_t *)&s->awake < 2 * (chunk + 1); i++)
			;
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

/* Empty slots of the program array one after the other, and fill them again. */
static void *make_holes(void *arg)
{
	struct shared *s = arg;

	for (int k = 0; !s->over; k++) {
		harness_hole(harness, 0, k % FPISA_STAGES);
		usleep(200);
		harness_stages(harness, HARNESS_PROGRAMS);
		usleep(50);
	}
	return NULL;
}

/* Hold locks of the job's versions for longer than a packet waits. */
static void *hold_locks(void *arg)
{
	size_t size = sizeof(struct fpisa_slot) * 2 * FPISA_DEFAULT_SLOTS;
	struct shared *s = arg;
	struct fpisa_slot *slot =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(harness->skel->maps.fpisa_slots), 0);

	if (slot == MAP_FAILED)
		return "map fpisa_slots";
	for (int k = 0; !s->over; k++) {
		__u64 *lock = &slot[k % (2 * WINDOW)].lock;

		if (!__sync_bool_compare_and_swap(lock, 0, 1))
			continue;
		usleep(1000);
		__sync_lock_test_and_set(lock, 0);
		usleep(500);
	}
	munmap(slot, size);
	return NULL;
}

static void mappable_slots(struct bpf_object *o)
{
	struct bpf_map *m = bpf_object__find_map_by_name(o, "fpisa_slots");

	if (m)
		bpf_map__set_map_flags(m, bpf_map__map_flags(m) | BPF_F_MMAPABLE);
}

static void run(struct shared *s, const struct variant *v)
{
	static void *(*const disturb[])(void *) = {[HOLES] = make_holes, [LOCKS] = hold_locks};
	void *trouble = NULL;
	pthread_t third;
	struct thread t[2];

	pthread_barrier_init(&s->barrier, NULL, 2);
	if (v->by != NONE)
		assert_int_equal(pthread_create(&third, NULL, disturb[v->by], s), 0);
	for (int i = 0; i < 2; i++) {
		t[i] = (struct thread){.s = s, .number = i};
		assert_int_equal(pthread_create(&t[i].id, NULL, worker, &t[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i].id, NULL);
	s->over = true;
	if (v->by != NONE)
		pthread_join(third, &trouble);
	assert_null(trouble);
	pthread_barrier_destroy(&s->barrier);
}

static void check_variant(const struct variant *v, uint64_t rounds)
{
	static struct shared s;
	struct fpisa_counters before, after;

	memset(&s, 0, sizeof(s));
	s.rounds = rounds;
	s.seed = vectors_seed();
	s.job = (struct fpisa_job){.workers = WORKERS,
				   .elements = ELEMENTS,
				   .window = WINDOW,
				   .mode = v->mode,
				   .pipeline = v->pipeline,
				   .clz = v->clz};
	harness_job(harness, JOB, &s.job);
	before = harness_counters(harness, JOB);
	run(&s, v);
	harness_stages(harness, HARNESS_PROGRAMS);
	after = harness_counters(harness, JOB);
	print_message("%s: %llu rounds on 2 CPUs, both in %.1f%% of them, %llu busy, %llu tail calls missed, "
		      "mismatches %llu\n",
		      v->name, (unsigned long long)s.rounds, 100.0 * (double)s.together / (double)s.rounds,
		      (unsigned long long)(after.v_busy - before.v_busy),
		      (unsigned long long)(after.missed_tail_calls - before.missed_tail_calls),
		      (unsigned long long)s.wrong);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.results, s.rounds);
	assert_true(s.together > 0);
	if (v->by == HOLES)
		assert_true(after.missed_tail_calls > before.missed_tail_calls);
	if (v->by == LOCKS)
		assert_true(after.v_busy > before.v_busy);
	for (uint32_t k = 0; k < 2 * WINDOW; k++) {
		struct fpisa_slot slot;

		harness_slot(harness, k, &slot, NULL, NULL);
		assert_int_equal(slot.lock, 0);
	}
}

static void two_cpus_one_slot(void **state)
{
	uint64_t rounds = getenv("FPISA_ROUNDS") ? strtoull(getenv("FPISA_ROUNDS"), NULL, 0) * 8 : 4000;
	const char *only = getenv("FPISA_VARIANT");
	int ran = 0;

	(void)state;
	if (rounds < LEAST_ROUNDS)
		rounds = LEAST_ROUNDS;
	NEED_BPF();
	if (harness->cpus < 2) {
		print_message("skip: one CPU\n");
		skip();
	}
	for (size_t k = 0; k < sizeof(variants) / sizeof(variants[0]); k++) {
		if (only && strcmp(only, variants[k].name))
			continue;
		check_variant(&variants[k], rounds);
		ran++;
	}
	assert_int_not_equal(ran, 0);
}

static int setup(void **state)
{
	harness_prepare = mappable_slots;
	return harness_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(two_cpus_one_slot)};

	return cmocka_run_group_tests_name("prog/concurrency", tests, setup, harness_teardown);
}
