// SPDX-License-Identifier: GPL-2.0-only
/*
 * A worker of `bench wire`: a process in a network namespace of its own. A
 * thread a job: each has a handle and sums its share of the vector.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_wire.h"
#include "fpisa.h"
#include "lab.h"

#define TIMEOUT_MS 60000

struct side;

struct thread {
	struct side *s;
	uint32_t job;
	pthread_t id;
	struct fpisa *f;
	int error;
	char message[200];
};

struct side {
	const struct bench_wire *w;
	uint32_t rank, threads;
	pid_t napi;
	float *send, *recv;
	struct thread thread[BENCH_WIRE_THREADS];
};

/* What a rank contributes: whole numbers, so that sums are exact in any order. */
static float value(uint32_t rank, uint64_t i)
{
	return (float)((int)((i * 7919 + rank * 104729) % 2003) - 1001);
}

static int set_up(struct side *s)
{
	struct lab_batch b = lab_batch_open();
	char message[256], dev[16];

	bench_wire_link(dev, s->w, s->rank);
	lab_batch_add(&b, "addr add 10.78.%u.2/24 dev %s", s->rank, dev);
	lab_batch_add(&b, "link set %s up", dev);
	lab_batch_add(&b, "route add " BENCH_WIRE_ADDRESS " via 10.78.%u.1", s->rank);
	if (lab_batch_run(&b, message, sizeof(message)))
		return refuse(-1, "bench: rank %u: %s", s->rank, message);
	if (lab_gro_on(dev))
		return die(dev);
	s->napi = napi_thread(dev);
	if (s->napi < 0)
		return -1;
	s->send = malloc(s->w->vector * sizeof(*s->send));
	s->recv = malloc(s->w->vector * sizeof(*s->recv));
	if (!s->send || !s->recv)
		return die("memory for vectors");
	for (uint64_t i = 0; i < s->w->vector; i++)
		s->send[i] = value(s->rank, i);
	return 0;
}

/* A thread's share of the vector, *count values from the returned one on. */
static uint64_t share(const struct thread *t, uint64_t *count)
{
	uint64_t all = t->s->w->vector, from = all * t->job / t->s->threads;

	*count = all * (t->job + 1) / t->s->threads - from;
	return from;
}

static void keep_error(struct thread *t)
{
	if (t->error)
		snprintf(t->message, sizeof(t->message), "%s", fpisa_error());
}

static void *join(void *arg)
{
	struct thread *t = arg;
	const struct fpisa_options o = {
		.size = sizeof(o), .local_port = FPISA_PORT + t->job, .timeout_ms = TIMEOUT_MS};
	struct fpisa_info info = {.size = sizeof(info)};
	uint64_t count, from = share(t, &count);

	t->error = fpisa_connect(&t->f, BENCH_WIRE_ADDRESS, t->job, &o);
	if (!t->error)
		t->error = fpisa_get_info(t->f, &info);
	/* The first rounds settle routes, buffers and round-trip times. */
	if (count > (uint64_t)info.window * info.elements * 4)
		count = (uint64_t)info.window * info.elements * 4;
	if (!t->error)
		t->error = fpisa_allreduce(t->f, t->s->send + from, t->s->recv + from, count, FPISA_FLOAT32,
					   NULL);
	keep_error(t);
	return NULL;
}

static void *sum(void *arg)
{
	struct thread *t = arg;
	uint64_t count, from = share(t, &count);

	t->error = fpisa_allreduce(t->f, t->s->send + from, t->s->recv + from, count, FPISA_FLOAT32, NULL);
	keep_error(t);
	return NULL;
}

/* All threads do it at once. */
static int together(struct side *s, void *(*work)(void *), struct bench_wire_reply *r)
{
	uint32_t begun = 0;
	int err = 0;

	while (begun < s->threads && !err) {
		struct thread *t = &s->thread[begun];

		err = pthread_create(&t->id, NULL, work, t);
		begun += !err;
	}
	if (err)
		snprintf(r->message, sizeof(r->message), "start a thread: %s", strerror(err));
	for (uint32_t i = 0; i < begun; i++) {
		pthread_join(s->thread[i].id, NULL);
		if (!err && s->thread[i].error) {
			err = s->thread[i].error;
			snprintf(r->message, sizeof(r->message), "%s", s->thread[i].message);
		}
	}
	return err;
}

static uint64_t retransmits(const struct side *s)
{
	struct fpisa_info info = {.size = sizeof(info)};
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->threads; i++)
		n += fpisa_get_info(s->thread[i].f, &info) ? 0 : info.retransmits;
	return n;
}

static int check(const struct side *s, struct bench_wire_reply *r)
{
	for (uint64_t i = 0; i < s->w->vector; i++) {
		float want = 0;

		for (uint32_t rank = 0; rank < s->w->workers; rank++)
			want += value(rank, i);
		if (s->recv[i] != want) {
			snprintf(r->message, sizeof(r->message), "element %llu: wrong sum",
				 (unsigned long long)i);
			return -EBADMSG;
		}
	}
	return 0;
}

static int measure(struct side *s, struct bench_wire_reply *r)
{
	uint64_t again = retransmits(s), cpu;
	int err;

	memset(s->recv, 0xff, s->w->vector * sizeof(*s->recv));
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + task_ns(s->napi);
	err = together(s, sum, r);
	r->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + task_ns(s->napi) - cpu;
	r->retransmits = retransmits(s) - again;
	return err;
}

static void leave(struct side *s)
{
	for (uint32_t i = 0; i < s->threads; i++)
		fpisa_close(s->thread[i].f);
	memset(s->thread, 0, sizeof(s->thread));
}

static void obey(struct side *s, const struct bench_wire_order *o, struct bench_wire_reply *r)
{
	*r = (struct bench_wire_reply){0};
	switch (o->task) {
	case BENCH_LINK:
		r->error = set_up(s);
		break;
	case BENCH_JOIN:
		s->threads = o->threads;
		for (uint32_t i = 0; i < s->threads; i++)
			s->thread[i] = (struct thread){.s = s, .job = i};
		r->error = together(s, join, r);
		break;
	case BENCH_SUM:
		r->error = measure(s, r);
		break;
	case BENCH_LEAVE:
		r->error = check(s, r);
		leave(s);
		break;
	}
}

void bench_wire_work(void *arg, int control)
{
	const struct bench_wire_rank *rank = arg;
	struct side s = {.w = rank->w, .rank = rank->rank};
	struct bench_wire_reply r = {0};
	struct bench_wire_order o;

	if (unshare(CLONE_NEWNET | CLONE_NEWNS) || own_sysfs())
		_exit(1);
	while (send(control, &r, sizeof(r), 0) > 0 && recv(control, &o, sizeof(o), 0) == sizeof(o))
		obey(&s, &o, &r);
	_exit(0);
}
