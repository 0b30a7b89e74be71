// SPDX-License-Identifier: GPL-2.0-only
/*
 * What two CPUs do that work on different slots, against what the machine
 * gives two CPUs at all: contributions and, in the same round, a program that
 * stays in registers; each on one CPU, on the other, on both. A thread is
 * pinned to its CPU; only the time inside the program counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "bench.h"
#include "lab.h"

#define SLICE_NS 5000000

struct worker {
	struct bench_arith *a;
	int which; /* of the two CPUs */
	bool spin;
	pthread_barrier_t *start;
	struct bench_source source;
	double rate; /* runs a second of program time */
	int err;
};

int bench_cpus(int cpu[2])
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &set))
			cpu[n++] = i;
	return n;
}

/* Contributions of this CPU's job until the slice is over; whole rounds. */
static int contribute(struct worker *w, uint64_t end, uint64_t *runs, uint64_t *sum)
{
	struct bench_config *c = &w->a->pair[w->which];

	while (lab_now() < end) {
		for (uint32_t r = 0; r < c->workers; r++) {
			uint32_t ns;
			int err = bench_contribute(w->a, c, &w->source, r, &ns);

			if (err)
				return err;
			*sum += ns;
			++*runs;
		}
		c->chunk++;
	}
	return 0;
}

static int spin(const struct worker *w, uint64_t end, uint64_t *runs, uint64_t *sum)
{
	static const struct fpisa_job job;
	struct bench_frame f;

	bench_frame(&f, &job, 0, 0, BENCH_ELEMENTS * 4);
	while (lab_now() < end) {
		uint32_t ns, action;
		int err = bench_run(bench_best(&w->a->reference, BENCH_SPIN)->fd, &f, &ns, &action);

		if (err)
			return err;
		*sum += ns;
		++*runs;
	}
	return 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t runs = 0, sum = 0, end;

	pthread_barrier_wait(w->start);
	end = lab_now() + SLICE_NS;
	w->err = w->spin ? spin(w, end, &runs, &sum) : contribute(w, end, &runs, &sum);
	w->rate = sum ? (double)runs / (double)sum : 0;
	return NULL;
}

/* Runs slices on the CPUs of `set`, a bitmap of the two, at once; *rate is the sum of theirs. */
static int slices(struct bench_arith *a, bool on_registers, uint32_t set, double *rate)
{
	struct worker w[2];
	pthread_t thread[2];
	pthread_barrier_t start;
	uint32_t begun = 0;
	int err = -pthread_barrier_init(&start, NULL, (unsigned int)__builtin_popcount(set));

	for (int i = 0; !err && i < 2; i++) {
		pthread_attr_t attributes;
		cpu_set_t cpus;

		if (!(set >> i & 1))
			continue;
		w[i] = (struct worker){.a = a, .which = i, .spin = on_registers, .start = &start};
		w[i].source.random = a->random.random + (uint64_t)i;
		CPU_ZERO(&cpus);
		CPU_SET(a->cpu[i], &cpus);
		pthread_attr_init(&attributes);
		pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
		err = -pthread_create(&thread[i], &attributes, work, &w[i]);
		pthread_attr_destroy(&attributes);
		begun |= !err << i;
	}
	/* One that waits at the barrier for a thread that could not be made ends with the process. */
	if (err)
		return fail(err, NULL, "bench: a thread a CPU");
	*rate = 0;
	for (int i = 0; i < 2; i++) {
		if (!(begun >> i & 1))
			continue;
		pthread_join(thread[i], NULL);
		*rate += w[i].rate;
		err = err ?: w[i].err;
	}
	pthread_barrier_destroy(&start);
	return err;
}

int bench_cpus_round(struct bench_arith *a, uint64_t round)
{
	for (int kind = 0; kind < 2; kind++) {
		double alone[2] = {0}, both = 0;
		int err = slices(a, kind, 1, &alone[0]);

		bench_next_chunk(&a->random);
		if (!err)
			err = slices(a, kind, 2, &alone[1]);
		if (!err)
			err = slices(a, kind, 3, &both);
		if (err)
			return err;
		a->scaling[kind][round] = both / ((alone[0] + alone[1]) / 2);
	}
	return 0;
}
