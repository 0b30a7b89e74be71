// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the rate of two CPUs that work on different slots, relative to the highest rate that two CPUs of this machine
 * can reach. Each round runs contributions and a program that uses only registers, on one CPU, on the other and on
 * both. Then both CPUs work on one job. In the first case each CPU has its own slots, as with `job add --ports` and a
 * NIC that distributes frames by port. In the second case each CPU has all slots and its own ranks, as with a NIC that
 * distributes frames by source. Each thread is pinned to one CPU. Only the time inside the programs is measured.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "bench.h"
#include "cli/report.h"
#include "lib/base/clock.h"
#include "lab/testbed/frame.h"

#define SLICE_NS 5000000
#define CHUNKS (2 * BENCH_WINDOW) /* number of chunks of the common job in a slice */
/* much longer than an add takes; after this time a frame was dropped, or this thread was preempted */
#define RESEND_NS 2000000
#define RESENDS 1000

/* The work of one CPU in a slice. */
enum part {
	OWN_JOB,
	REGISTERS,
	ALL_OF_WINDOW,
	ITS_SLOTS,
	ITS_RANKS,
};

struct worker {
	struct bench_arith *a;
	int which; /* index of the CPU, 0 or 1 */
	enum part part;
	pthread_barrier_t *start;
	bool *done;		   /* [CHUNKS], whether the result was sent */
	struct bench_frame *frame; /* [CHUNKS][BENCH_WORKERS], frames of the common job */
	struct bench_source source;
	double rate; /* runs per ns of time in the program */
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

/* Send whole rounds of contributions of this CPU's job until the slice is over. */
static int contribute(struct worker *w, uint64_t end, uint64_t *runs, uint64_t *sum)
{
	struct bench_config *c = &w->a->pair[w->which];

	while (fpisa_now() < end) {
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

	f.len = frame_outer(f.data, &job, 0, BENCH_ELEMENTS * 4);
	while (fpisa_now() < end) {
		uint32_t ns, action;
		int err = bench_run(bench_best(&w->a->reference, BENCH_SPIN)->fd, &f, &ns, &action);

		if (err)
			return err;
		*sum += ns;
		++*runs;
	}
	return 0;
}

/* Return whether this CPU sends the contribution. */
static bool its_part(const struct worker *w, uint32_t at, uint32_t rank)
{
	if (w->part == ITS_RANKS)
		return rank % 2 == (uint32_t)w->which;
	return w->part == ALL_OF_WINDOW || fpisa_port_index(at % BENCH_WINDOW, BENCH_WINDOW, 2) == (uint32_t)w->which;
}

/*
 * Make the frames before the slice begins. If the CPUs made frames during the slice, they would seldom use a slot at
 * the same time.
 */
static int make_frames(struct worker *w)
{
	struct bench_config c = w->a->window;

	w->frame = calloc(CHUNKS * BENCH_WORKERS, sizeof(*w->frame));
	if (!w->frame)
		return fail(-ENOMEM, NULL, "bench: cannot store the frames");
	for (uint32_t at = 0; at < CHUNKS; at++, c.chunk++)
		for (uint32_t r = 0; r < BENCH_WORKERS; r++)
			if (its_part(w, at, r))
				bench_add_frame(&c, &w->source, r, &w->frame[at * BENCH_WORKERS + r]);
	return 0;
}

/* Send a rank's contribution to a chunk of the common job. */
static int contribute_one(struct worker *w, uint32_t at, uint32_t rank, uint64_t *runs, uint64_t *sum)
{
	uint32_t ns, action;
	int err = bench_run(w->a->entry_fd, &w->frame[at * BENCH_WORKERS + rank], &ns, &action);

	if (!err && action == XDP_REDIRECT)
		__atomic_store_n(&w->done[at], true, __ATOMIC_RELEASE);
	*sum += err ? 0 : ns;
	++*runs;
	return err;
}

/*
 * Wait for the result of a chunk. The result allows the chunk that is one window later. Send lost contributions again.
 */
static int await(struct worker *w, uint32_t at)
{
	uint64_t until = fpisa_now() + RESEND_NS, runs = 0, sum = 0;
	int err = 0;

	for (int tries = 0; !err && !__atomic_load_n(&w->done[at], __ATOMIC_ACQUIRE); sched_yield()) {
		if (fpisa_now() < until)
			continue;
		if (tries++ == RESENDS)
			return refuse(-ETIMEDOUT,
				      "bench: two CPUs: chunk %u of the common job did not end; please report this bug",
				      at);
		for (uint32_t r = 0; !err && r < BENCH_WORKERS; r++)
			if (its_part(w, at, r))
				err = contribute_one(w, at, r, &runs, &sum);
		until = fpisa_now() + RESEND_NS;
	}
	return err;
}

/*
 * Contribute in the order in which frames arrive if workers are synchronised. After a result all workers send to its
 * slot.
 */
static int contribute_window(struct worker *w, uint64_t *runs, uint64_t *sum)
{
	int err = 0;

	for (uint32_t at = 0; !err && at < CHUNKS; at++)
		for (uint32_t r = 0; !err && r < BENCH_WORKERS; r++) {
			if (!its_part(w, at, r))
				continue;
			if (at >= BENCH_WINDOW)
				err = await(w, at - BENCH_WINDOW);
			if (!err)
				err = contribute_one(w, at, r, runs, sum);
		}
	for (uint32_t at = CHUNKS - BENCH_WINDOW; !err && at < CHUNKS; at++)
		if (its_part(w, at, (uint32_t)w->which))
			err = await(w, at);
	return err;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t runs = 0, sum = 0, end;

	w->err = w->part >= ALL_OF_WINDOW ? make_frames(w) : 0;
	pthread_barrier_wait(w->start);
	end = fpisa_now() + SLICE_NS;
	w->err = w->err		      ? w->err :
		 w->part == OWN_JOB   ? contribute(w, end, &runs, &sum) :
		 w->part == REGISTERS ? spin(w, end, &runs, &sum) :
					contribute_window(w, &runs, &sum);
	w->rate = sum ? (double)runs / (double)sum : 0;
	free(w->frame);
	return NULL;
}

/* Run slices on the CPUs in the bitmap `set` at the same time. Set *rate to the sum of their rates. */
static int slices(struct bench_arith *a, enum part part, uint32_t set, double *rate)
{
	bool done[CHUNKS] = {false};
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
		w[i] = (struct worker){.a = a, .which = i, .part = part, .start = &start, .done = done};
		w[i].source.random = a->random.random + (uint64_t)i;
		CPU_ZERO(&cpus);
		CPU_SET(a->cpu[i], &cpus);
		pthread_attr_init(&attributes);
		pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
		err = -pthread_create(&thread[i], &attributes, work, &w[i]);
		pthread_attr_destroy(&attributes);
		begun |= !err << i;
	}
	/* If a thread could not be started, the other thread waits at the barrier until the process ends. */
	if (err)
		return fail(err, NULL, "bench: cannot start a thread on each CPU");
	*rate = 0;
	for (int i = 0; i < 2; i++) {
		if (!(begun >> i & 1))
			continue;
		pthread_join(thread[i], NULL);
		*rate += w[i].rate;
		err = err ?: w[i].err;
	}
	pthread_barrier_destroy(&start);
	if (part >= ALL_OF_WINDOW)
		a->window.chunk += CHUNKS;
	return err;
}

/* Measure the rate of both CPUs together, each with its part of the work, as a multiple of one CPU's rate. */
static int scaling(struct bench_arith *a, enum part one, enum part part, double *times)
{
	double alone[2] = {0}, both = 0;
	int err = slices(a, one, 1, &alone[0]);

	bench_next_chunk(&a->random);
	if (!err)
		err = slices(a, one, 2, &alone[1]);
	if (!err)
		err = slices(a, part, 3, &both);
	*times = both / ((alone[0] + alone[1]) / 2);
	return err;
}

int bench_cpus_round(struct bench_arith *a, uint64_t round)
{
	static const enum part parts[BENCH_SCALINGS][2] = {[BENCH_ADDS] = {OWN_JOB, OWN_JOB},
							   [BENCH_SPINS] = {REGISTERS, REGISTERS},
							   [BENCH_OWNED] = {ALL_OF_WINDOW, ITS_SLOTS},
							   [BENCH_SHARED] = {ALL_OF_WINDOW, ITS_RANKS}};
	int err = 0;

	for (int k = 0; !err && k < BENCH_SCALINGS; k++)
		err = scaling(a, parts[k][0], parts[k][1], &a->scaling[k][round]);
	return err;
}
