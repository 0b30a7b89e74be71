// SPDX-License-Identifier: GPL-2.0-only
/*
 * The aggregator's side of `bench wire`. This includes links, jobs and the time of a sum. wire.h documents the
 * functions.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "fpisa/wire.h"
#include "job/job.h"
#include "lib/base/address.h"
#include "lib/base/clock.h"
#include "lab/testbed/lab.h"
#include "wire.h"

static int order(const struct bench_wire *w, const struct bench_wire_order *o, struct report *sum)
{
	return processes_order(&w->processes, "bench", o, sizeof(*o), sum);
}

/* -- the network ------------------------------------------------------------ */

static uint32_t largest(const struct bench_wire *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->elements.n; i++)
		n = w->elements.elements[i] > n ? w->elements.elements[i] : n;
	return n;
}

static int load(struct bench_wire *w)
{
	const struct datapath_load how = {.pin = DATAPATH_PIN, .mode = DATAPATH_NATIVE, .group = DATAPATH_NO_GROUP};
	char name[PROCESSES_MAX][IF_NAMESIZE], *dev[PROCESSES_MAX];
	int err;

	for (uint32_t r = 0; r < w->workers; r++) {
		star_port(name[r], &w->star, r);
		dev[r] = name[r];
	}
	err = datapath_load(&how, dev, (int)w->workers);
	if (!err)
		err = datapath_open(&w->dp, DATAPATH_PIN);
	for (uint32_t r = 0; !err && r < w->workers; r++) {
		w->napi[r] = napi_thread(name[r]);
		err = w->napi[r] < 0 ? -1 : 0;
	}
	return err;
}

/* Give the links names that are unique on the machine, because the threads that poll the links are found by name. */
static void lay_out(struct bench_wire *w)
{
	w->star = (struct star){.address = BENCH_WIRE_ADDRESS,
				.network = BENCH_WIRE_NETWORK,
				.mtu = star_mtu(largest(w) * sizeof(float)) + FPISA_IPV6_LEN - FPISA_IP_LEN,
				.ipv6 = true};
	snprintf(w->star.port, sizeof(w->star.port), "b%da", getpid());
	snprintf(w->star.peer, sizeof(w->star.peer), "b%dw", getpid());
}

int bench_wire_open(struct bench_wire *w)
{
	int err;

	lay_out(w);
	err = lab_enter("bench");
	if (!err)
		err = enter_sysfs();
	for (uint32_t i = 0; !err && i < w->workers; i++)
		err = processes_spawn(&w->processes, bench_wire_work, &(struct bench_wire_rank){w, i});
	if (!err)
		err = star_make(&w->star, w->processes.process, w->workers);
	if (!err)
		err = order(w, &(struct bench_wire_order){.task = BENCH_LINK}, NULL);
	return err ?: load(w);
}

void bench_wire_close(struct bench_wire *w)
{
	processes_kill(&w->processes);
	datapath_close(&w->dp);
}

/* -- one sum ---------------------------------------------------------------- */

#define WORKER_LEN (FPISA_ENDPOINT_LEN + IF_NAMESIZE)

/* Write the rank as --workers of job add has it. */
static const char *worker_text(const struct bench_wire *w, const struct bench_setting *s, uint32_t rank, uint32_t port,
			       char text[WORKER_LEN])
{
	const uint32_t host = star_worker_address(&w->star, rank);
	const struct fpisa_address a = s->family == 6 ? star_ipv6(host) : fpisa_ipv4(htonl(host));
	int n;

	if (!w->devs)
		return fpisa_endpoint_text(&a, (uint16_t)port, text);
	n = (int)strcspn(w->address[rank], "@");
	snprintf(text, WORKER_LEN, "%.*s:%u%s", n, w->address[rank], port, w->address[rank] + n);
	return text;
}

/* Create a thread's job. */
static int make_job(struct bench_wire *w, const struct bench_setting *s, uint32_t job, uint32_t thread)
{
	char workers[FPISA_MAX_WORKERS * WORKER_LEN], worker[WORKER_LEN];
	struct job_spec spec = {.workers = workers};
	size_t n = 0;
	int err;

	for (uint32_t r = 0; r < w->workers; r++) {
		n += (size_t)snprintf(workers + n, sizeof(workers) - n, "%s%s", r ? "," : "",
				      worker_text(w, s, r, FPISA_PORT + thread, worker));
		if (n >= sizeof(workers))
			return refuse(BAD_USAGE, "--workers: the list is too long; shorten the names of interfaces");
	}
	if (!w->devs)
		spec.job.address = bench_wire_address(s->family);
	else if (w->aggregator)
		spec.job.address = fpisa_ipv4(w->aggregator);
	spec.job.elements = s->elements;
	spec.job.window = s->window;
	spec.job.pipeline = s->pipeline;
	err = job_spec_complete(&spec, job);
	if (!err)
		err = job_spec_resolve(&spec, job);
	if (!err)
		job_spec_warn(&spec, &w->dp, job);
	return err ?: datapath_job_add(&w->dp, job, &spec.job, spec.ifindex);
}

int bench_wire_jobs(struct bench_wire *w, const struct bench_setting *s, uint32_t run)
{
	int err = 0;

	for (uint32_t t = 0; !err && t < s->threads; t++)
		err = make_job(w, s, bench_wire_job(run) + t, t);
	return err;
}

int bench_wire_end_jobs(struct bench_wire *w, const struct bench_setting *s, uint32_t run)
{
	int err = 0;

	for (uint32_t t = 0; !err && t < s->threads; t++)
		err = datapath_job_del(&w->dp, bench_wire_job(run) + t);
	return err;
}

static uint64_t polled_ns(const struct bench_wire *w)
{
	uint64_t ns = 0;

	for (uint32_t r = 0; r < w->workers; r++)
		ns += task_ns(w->napi[r]);
	return ns;
}

int bench_wire_round(struct bench_wire *w, struct bench_setting *s, uint64_t round)
{
	struct bench_wire_order o = {
		.task = BENCH_JOIN, .threads = s->threads, .job = bench_wire_job(w->run), .family = s->family};
	double bytes = (double)w->workers * (double)w->vector * sizeof(float);
	struct report sum = {0};
	uint64_t wall, polled;
	int err;

	err = bench_wire_jobs(w, s, w->run);
	if (!err)
		err = order(w, &o, NULL);
	polled = polled_ns(w);
	wall = fpisa_now();
	o.task = BENCH_SUM;
	if (!err)
		err = order(w, &o, &sum);
	wall = fpisa_now() - wall;
	polled = polled_ns(w) - polled;
	o.task = BENCH_LEAVE;
	if (!err)
		err = order(w, &o, NULL);
	if (!err)
		err = bench_wire_end_jobs(w, s, w->run);
	s->goodput[round] = bytes * 8 / (double)wall;
	s->aggregator[round] = (double)polled / bytes;
	s->worker[round] = (double)sum.cpu_ns / bytes;
	s->retransmits += sum.retransmits;
	s->frames += w->workers * (w->vector / s->elements);
	return err;
}
