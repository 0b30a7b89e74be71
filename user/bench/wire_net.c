// SPDX-License-Identifier: GPL-2.0-only
/* The aggregator's side of `bench wire`: links, jobs, what a sum took; wire.h has the contracts. */
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
#include "testbed/lab.h"
#include "wire.h"

void bench_wire_port(char name[16], const struct bench_wire *w, uint32_t rank)
{
	snprintf(name, 16, "b%da%u", w->master, rank);
}

void bench_wire_link(char name[16], const struct bench_wire *w, uint32_t rank)
{
	snprintf(name, 16, "b%dw%u", w->master, rank);
}

/* All workers do it. Adds up what they report. */
static int together(const struct bench_wire *w, const struct bench_wire_order *o,
		    struct bench_wire_reply *sum)
{
	struct bench_wire_reply r;
	int err = 0;

	if (crew_tell(&w->crew, o, sizeof(*o)))
		return -1;
	for (uint32_t i = 0; i < w->crew.n; i++) {
		if (crew_hear(&w->crew, i, &r, sizeof(r)))
			return -1;
		if (r.error && !err)
			err = *r.message ? refuse(-1, "bench: rank %u: %s", i, r.message) : -1;
		if (sum) {
			sum->cpu_ns += r.cpu_ns;
			sum->retransmits += r.retransmits;
		}
	}
	return err;
}

/* -- the network ------------------------------------------------------------ */

static uint32_t largest(const struct bench_wire *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->elements.n; i++)
		n = w->elements.elements[i] > n ? w->elements.elements[i] : n;
	return n;
}

static int make_links(const struct bench_wire *w)
{
	uint32_t mtu = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + largest(w) * sizeof(float);
	struct lab_batch b = lab_batch_open();
	char message[256];

	mtu = mtu < 1500 ? 1500 : mtu;
	lab_batch_add(&b, "link set lo up");
	lab_batch_add(&b, "addr add " BENCH_WIRE_ADDRESS "/32 dev lo");
	for (uint32_t r = 0; r < w->workers; r++) {
		char here[16], there[16];

		bench_wire_port(here, w, r);
		bench_wire_link(there, w, r);
		lab_batch_add(&b, "link add %s mtu %u type veth peer name %s mtu %u netns %d", here, mtu,
			      there, mtu, w->crew.pid[r]);
		lab_batch_add(&b, "addr add 10.78.%u.1/24 dev %s", r, here);
		lab_batch_add(&b, "link set %s up", here);
	}
	if (lab_batch_run(&b, message, sizeof(message)))
		return refuse(-1, "bench: make links: %s", message);
	return together(w, &(struct bench_wire_order){.task = BENCH_LINK}, NULL);
}

static int load(struct bench_wire *w)
{
	const struct datapath_load how = {
		.pin = DATAPATH_PIN, .mode = DATAPATH_NATIVE, .group = DATAPATH_NO_GROUP};
	char name[CREW_MAX][16], *dev[CREW_MAX];
	int err;

	for (uint32_t r = 0; r < w->workers; r++) {
		bench_wire_port(name[r], w, r);
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

int bench_wire_open(struct bench_wire *w)
{
	static char address[CREW_MAX][ADDRESS_LEN];
	struct bench_wire_reply r;
	int err;

	w->master = getpid();
	w->aggregator = inet_addr(BENCH_WIRE_ADDRESS);
	for (uint32_t i = 0; i < w->workers; i++) {
		snprintf(address[i], sizeof(address[i]), "10.78.%u.2", i);
		w->address[i] = address[i];
	}
	w->rank = calloc(w->workers, sizeof(*w->rank));
	err = w->rank ? lab_enter("bench") : fail(-ENOMEM, NULL, "bench");
	if (!err)
		err = own_sysfs();
	for (uint32_t i = 0; !err && i < w->workers; i++) {
		w->rank[i] = (struct bench_wire_rank){w, i};
		err = crew_hire(&w->crew, bench_wire_work, &w->rank[i]);
		if (!err)
			err = crew_hear(&w->crew, i, &r, sizeof(r));
	}
	if (!err)
		err = make_links(w);
	return err ?: load(w);
}

void bench_wire_close(struct bench_wire *w)
{
	crew_dismiss(&w->crew);
	datapath_close(&w->dp);
	free(w->rank);
}

/* -- one sum ---------------------------------------------------------------- */

/* A thread's job. */
static int make_job(struct bench_wire *w, const struct bench_setting *s, uint32_t job, uint32_t thread)
{
	char workers[FPISA_MAX_WORKERS * 48];
	struct job_spec spec = {.workers = workers};
	size_t n = 0;
	int err;

	for (uint32_t r = 0; r < w->workers; r++) {
		int address = (int)strcspn(w->address[r], "@");

		n += (size_t)snprintf(workers + n, sizeof(workers) - n, "%s%.*s:%u%s", r ? "," : "", address,
				      w->address[r], FPISA_PORT + thread, w->address[r] + address);
		if (n >= sizeof(workers))
			return refuse(BAD_USAGE, "--workers: too long");
	}
	spec.job.address = w->aggregator;
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

int bench_wire_jobs(struct bench_wire *w, const struct bench_setting *s, uint32_t turn)
{
	int err = 0;

	for (uint32_t t = 0; !err && t < s->threads; t++)
		err = make_job(w, s, bench_wire_job(turn) + t, t);
	return err;
}

int bench_wire_end_jobs(struct bench_wire *w, const struct bench_setting *s, uint32_t turn)
{
	int err = 0;

	for (uint32_t t = 0; !err && t < s->threads; t++)
		err = datapath_job_del(&w->dp, bench_wire_job(turn) + t);
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
		.task = BENCH_JOIN, .threads = s->threads, .job = bench_wire_job(w->turn)};
	double bytes = (double)w->workers * (double)w->vector * sizeof(float);
	struct bench_wire_reply sum = {0};
	uint64_t wall, polled;
	int err;

	err = bench_wire_jobs(w, s, w->turn);
	if (!err)
		err = together(w, &o, NULL);
	polled = polled_ns(w);
	wall = lab_now();
	o.task = BENCH_SUM;
	if (!err)
		err = together(w, &o, &sum);
	wall = lab_now() - wall;
	polled = polled_ns(w) - polled;
	o.task = BENCH_LEAVE;
	if (!err)
		err = together(w, &o, NULL);
	if (!err)
		err = bench_wire_end_jobs(w, s, w->turn);
	s->goodput[round] = bytes * 8 / (double)wall;
	s->aggregator[round] = (double)polled / bytes;
	s->worker[round] = (double)sum.cpu_ns / bytes;
	s->retransmits += sum.retransmits;
	s->frames += w->workers * (w->vector / s->elements);
	return err;
}
