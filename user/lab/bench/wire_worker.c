// SPDX-License-Identifier: GPL-2.0-only
/*
 * A worker of `bench wire`. The worker is either a process in a separate
 * network namespace that takes orders, or `bench worker` on another machine,
 * which runs the sweep over the settings itself. Each job has a thread with a
 * handle, which sums a share of the vector.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "fpisa.h"
#include "lib/base/clock.h"
#include "wire.h"

#define TIMEOUT_MS 60000

struct side;

struct thread {
	struct side *s;
	uint32_t number;
	pthread_t id;
	struct fpisa *f;
	int error;
	char message[200];
};

struct side {
	const struct bench_wire *w;
	const char *address;		      /* of the aggregator */
	char veth[ADDRESS_LEN];		      /* the address over veth */
	struct bench_wire_order order;	      /* the current order */
	uint32_t rank, workers, threads, job; /* `job` is the number of the first thread's job */
	pid_t napi;			      /* the thread that polls the link; 0 if its CPU time is not counted */
	float *send, *recv;
	struct thread thread[BENCH_WIRE_THREADS];
};

static int set_up(struct side *s, struct report *r)
{
	char dev[IF_NAMESIZE];
	int err = star_join(&s->w->star, s->rank, r->message, sizeof(r->message));

	if (err)
		return err;
	star_peer(dev, &s->w->star, s->rank);
	s->napi = napi_thread(dev);
	return s->napi < 0 ? s->napi : 0;
}

static int fill(struct side *s)
{
	s->send = malloc(s->w->vector * sizeof(*s->send));
	s->recv = malloc(s->w->vector * sizeof(*s->recv));
	if (!s->send || !s->recv)
		return -ENOMEM;
	for (uint64_t i = 0; i < s->w->vector; i++)
		s->send[i] = whole_number(s->rank, i);
	return 0;
}

uint64_t bench_wire_share(const struct bench_wire *w, uint32_t threads, uint32_t thread, uint64_t *from)
{
	*from = w->vector * thread / threads;
	return w->vector * (thread + 1) / threads - *from;
}

/* Return the number of values in the sum that is not measured. This sum fills routes, buffers and round-trip times. */
uint64_t bench_wire_warm(uint64_t share, uint32_t window, uint32_t elements)
{
	uint64_t some = (uint64_t)window * elements * 4;

	return share < some ? share : some;
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
		.size = sizeof(o), .local_port = FPISA_PORT + t->number, .timeout_ms = TIMEOUT_MS};

	t->error = fpisa_connect(&t->f, t->s->address, t->s->job + t->number, &o);
	keep_error(t);
	return NULL;
}

static void *warm_up(void *arg)
{
	struct thread *t = arg;
	struct fpisa_info info = {.size = sizeof(info)};
	uint64_t from, count = bench_wire_share(t->s->w, t->s->threads, t->number, &from);

	t->error = fpisa_get_info(t->f, &info);
	count = bench_wire_warm(count, info.window, info.elements);
	if (!t->error)
		t->error = fpisa_allreduce(t->f, t->s->send + from, t->s->recv + from, count, FPISA_FLOAT32, NULL);
	keep_error(t);
	return NULL;
}

static void *sum(void *arg)
{
	struct thread *t = arg;
	uint64_t from, count = bench_wire_share(t->s->w, t->s->threads, t->number, &from);

	t->error = fpisa_allreduce(t->f, t->s->send + from, t->s->recv + from, count, FPISA_FLOAT32, NULL);
	keep_error(t);
	return NULL;
}

/* Let all threads do the work at the same time. */
static int together(struct side *s, void *(*work)(void *), struct report *r)
{
	uint32_t begun = 0;
	int err = 0;

	while (begun < s->threads && !err) {
		struct thread *t = &s->thread[begun];

		err = pthread_create(&t->id, NULL, work, t);
		begun += !err;
	}
	if (err)
		snprintf(r->message, sizeof(r->message),
			 "cannot start a thread: %s; end other threads, or raise ulimit -u", strerror(err));
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

static int check(const struct side *s, struct report *r)
{
	for (uint64_t i = 0; i < s->w->vector; i++) {
		if (s->recv[i] != whole_sum(s->workers, i)) {
			snprintf(r->message, sizeof(r->message), "element %llu: wrong sum; please report this bug",
				 (unsigned long long)i);
			return -EBADMSG;
		}
	}
	return 0;
}

static int measure(struct side *s, struct report *r)
{
	uint64_t again = retransmits(s), cpu;
	int err;

	memset(s->recv, 0xff, s->w->vector * sizeof(*s->recv));
	cpu = own_cpu_ns(s->napi);
	err = together(s, sum, r);
	r->cpu_ns = own_cpu_ns(s->napi) - cpu;
	r->retransmits = retransmits(s) - again;
	return err;
}

static void leave(struct side *s)
{
	for (uint32_t i = 0; i < s->threads; i++)
		fpisa_close(s->thread[i].f);
	memset(s->thread, 0, sizeof(s->thread));
}

/* Join the jobs, starting with number `job`. The first time, get the rank from the aggregator's answer. */
static int begin(struct side *s, uint32_t job, uint32_t threads, struct report *r)
{
	struct fpisa_info info = {.size = sizeof(info)};
	int err;

	s->job = job;
	s->threads = threads;
	for (uint32_t i = 0; i < threads; i++)
		s->thread[i] = (struct thread){.s = s, .number = i};
	err = together(s, join, r);
	if (!err && !s->send) {
		err = fpisa_get_info(s->thread[0].f, &info);
		s->rank = info.rank;
		s->workers = info.workers;
		err = err ?: fill(s);
		if (err)
			snprintf(r->message, sizeof(r->message),
				 "not enough memory for vectors; try a smaller --vector");
	}
	return err ?: together(s, warm_up, r);
}

static void carry_out(void *arg, struct report *r)
{
	struct side *s = arg;

	switch (s->order.task) {
	case BENCH_LINK:
		r->error = set_up(s, r);
		break;
	case BENCH_JOIN:
		address_text(bench_wire_address(s->order.family), s->veth);
		r->error = begin(s, s->order.job, s->order.threads, r);
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

	s.address = s.veth;

	if (!enter_network())
		process_serve(control, &s.order, sizeof(s.order), carry_out, &s);
}

/* Check that the joined job has the setting for which the figures are printed. */
static int same_setting(const struct side *s, const struct bench_setting *setting, struct report *r)
{
	struct fpisa_info info = {.size = sizeof(info)};
	int err = fpisa_get_info(s->thread[0].f, &info);

	if (!err && info.elements == setting->elements && info.window == setting->window &&
	    info.pipeline == setting->pipeline)
		return 0;
	snprintf(r->message, sizeof(r->message),
		 "the aggregator's job is %s, with %u elements and window %u, but this worker expects %s, %u and %u; "
		 "give both sides the same options",
		 name_of(pipeline_names, info.pipeline), info.elements, info.window,
		 name_of(pipeline_names, setting->pipeline), setting->elements, setting->window);
	return err ?: -EPROTO;
}

static int worker_round(struct side *s, struct bench_setting *setting, uint64_t round)
{
	double bytes = (double)s->w->vector * sizeof(float);
	struct report r = {0};
	uint64_t wall = 0;
	int err = begin(s, bench_wire_job(s->w->run), setting->threads, &r);

	if (!err)
		err = same_setting(s, setting, &r);
	if (!err) {
		wall = fpisa_now();
		err = measure(s, &r);
		wall = fpisa_now() - wall;
	}
	if (!err)
		err = check(s, &r);
	leave(s);
	if (err)
		return refuse(err, "bench: %s", r.message);
	setting->goodput[round] = bytes * s->workers * 8 / (double)wall;
	setting->worker[round] = (double)r.cpu_ns / bytes;
	setting->retransmits += r.retransmits;
	setting->frames += s->w->vector / setting->elements;
	return 0;
}

int bench_worker_sweep(struct bench_wire *w, const char *address)
{
	struct side s = {.w = w, .address = address};
	int err = 0;

	for (uint64_t round = 0; !err && round < w->rounds; round++)
		for (uint32_t i = 0; !err && i < w->settings; i++, w->run++) {
			progress_share("bench worker", w->run, w->rounds * w->settings);
			err = worker_round(&s, &w->setting[i], round);
		}
	progress_end();
	w->workers = s.workers;
	free(s.send);
	free(s.recv);
	return err;
}
