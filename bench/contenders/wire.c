// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of sums at an aggregator, in CPU seconds per gigabyte of contributions, and the goodput. Our
 * datapath, and servers that add with AVX2 (udp.c, xsk.c), have the same workers.
 *
 * CPU time is the time of the server's process and of the kernel threads that poll the aggregator's ends of the links.
 * Without threaded NAPI that work would be charged to whatever process runs. The workers' ends have separate threads.
 * Unlike a wire, a veth passes a GSO batch (UDP_SEGMENT) as one packet. The workers' ends segment batches, so that
 * every contender gets single frames. With `--gso` they do not.
 *
 * Each sum is checked element by element before its figures are used (wire_worker.c). The ratio is that of our figure
 * to the contender's figure.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/report.h"
#include "contenders.h"
#include "fpisa/wire.h"
#include "lib/base/clock.h"
#include "server.h"

#define GROUP_OF(number) (0xef465000u + (number)) /* 239.70.80.NUMBER, as set by `fpisa job add` */

/* -- the servers ------------------------------------------------------------------------ */

struct aggregator {
	const struct plan *plan;
	enum contender c;
};

static void serve(void *arg, int control)
{
	const struct aggregator *a = arg;
	const struct plan *p = a->plan;
	const struct star *star = &p->star[a->c];
	const int multicast = a->c == XDP_AVX2;
	char dev[PROCESSES_MAX][IF_NAMESIZE];
	struct server s = {.number = a->c};
	int rc;

	s.job = (struct fpisa_job){
		.active = 1,
		.workers = p->workers,
		.live = ~0ull >> (64 - p->workers),
		.address = fpisa_ipv4(htonl(star->address)),
		.group = multicast ? fpisa_ipv4(htonl(GROUP_OF(a->c))) : FPISA_NO_ADDRESS,
		.group_port = htons((uint16_t)(FPISA_PORT + a->c)),
		.elements = (uint16_t)p->packet,
		.window = p->window,
		.format = FPISA_FORMAT_FP32,
		.mode = FPISA_MODE_FPISA,
		.rounding = FPISA_ROUND_NEAREST,
		.fanout = multicast ? FPISA_FANOUT_MULTICAST : FPISA_FANOUT_UNICAST,
	};
	for (uint32_t r = 0; r < p->workers; r++) {
		s.job.rank[r] = (struct fpisa_rank){.addr = fpisa_ipv4(htonl(star_worker_address(star, r))),
						    .port = htons((uint16_t)(FPISA_PORT + a->c))};
		star_port(dev[r], star, r);
	}
	rc = server_init(&s);
	if (!rc)
		rc = multicast ? server_xsk(&s, control, dev) : server_udp(&s, control);
	fprintf(stderr, "wire: %s: %s\n", contender_name[a->c], strerror(-rc));
}

static int start_servers(struct bench *b)
{
	int rc = network_add_job(b, 0, b->plan.packet, "");

	for (enum contender c = UDP_AVX2; c < STARS && !rc; c++)
		rc = processes_spawn(&b->servers, serve, &(struct aggregator){&b->plan, c});
	return rc;
}

/* CPU time of the threads that poll the links of a contender's aggregator, and of the contender's process. */
static uint64_t polled_ns(const struct bench *b, enum contender c)
{
	uint64_t ns = 0;

	for (uint32_t r = 0; r < b->plan.workers; r++)
		ns += task_ns(b->napi[c][r]);
	return ns;
}

static uint64_t served_ns(const struct bench *b, enum contender c)
{
	return c == FPISA_XDP ? 0 : task_ns(b->servers.process[c - UDP_AVX2].pid);
}

/* -- figures ------------------------------------------------------------------------- */

struct figures {
	double cpu[MAX_RUNS], polled[MAX_RUNS], served[MAX_RUNS], ratio[MAX_RUNS], gbit[MAX_RUNS];
	uint64_t retransmits;
};

static int run_contender(const struct bench *b, enum contender c, struct figures *g, uint32_t run)
{
	const struct plan *p = &b->plan;
	double bytes = (double)p->workers * (double)p->elements * sizeof(float);
	struct order o = {.task = TASK_CLEAR, .contender = c};
	uint64_t polled, served, wall;
	struct report sum = {0};

	if (network_order(b, &o, NULL))
		return -1;
	polled = polled_ns(b, c);
	served = served_ns(b, c);
	wall = fpisa_now();
	o.task = TASK_SUM;
	if (network_order(b, &o, &sum))
		return -1;
	wall = fpisa_now() - wall;
	polled = polled_ns(b, c) - polled;
	served = served_ns(b, c) - served;
	o.task = TASK_CHECK;
	if (network_order(b, &o, NULL))
		return -1;
	g->polled[run] = (double)polled / bytes;
	g->served[run] = (double)served / bytes;
	g->cpu[run] = g->polled[run] + g->served[run];
	g->gbit[run] = bytes * 8 / (double)wall;
	g->retransmits += sum.retransmits;
	return 0;
}

static void print_figures(const struct bench *b, enum contender c, struct figures *g)
{
	const struct plan *p = &b->plan;
	double frames = (double)p->elements / p->packet * p->workers * p->runs;

	print_contender(b, c, g->gbit);
	printf(", \"gso\": %s, \"loss\": %g", p->gso ? "true" : "false", p->loss);
	print_quartiles("cpu_s_per_gb", g->cpu, p->runs);
	print_quartiles("napi_s_per_gb", g->polled, p->runs);
	print_quartiles("process_s_per_gb", g->served, p->runs);
	print_ratio(g->ratio, p->runs);
	printf(", \"retransmit_share\": %.6f}\n", (double)g->retransmits / frames);
}

/* Measure one run more than requested, because the first run opens handles and warms up. */
static int measure(const struct bench *b)
{
	static struct figures figures[STARS];

	for (uint32_t run = 0; run <= b->plan.runs; run++) {
		struct order fill = {.task = TASK_FILL, .run = run};
		uint32_t at = run ? run - 1 : 0;

		if (network_order(b, &fill, NULL))
			return -1;
		for (uint32_t k = 0; k < STARS; k++) {
			enum contender c = (k + run) % STARS;

			if (run_contender(b, c, &figures[c], at))
				return -1;
		}
		for (enum contender c = 0; c < STARS; c++) {
			figures[c].ratio[at] = figures[FPISA_XDP].cpu[at] / figures[c].cpu[at];
			figures[c].retransmits *= run > 0;
		}
	}
	for (enum contender c = 0; c < STARS; c++)
		print_figures(b, c, &figures[c]);
	return 0;
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int prepare(struct bench *b)
{
	struct plan *p = &b->plan;
	size_t vectors = p->workers * p->elements * sizeof(float);

	p->send = shared(vectors);
	p->recv = shared(vectors);
	p->order = shared(p->workers * (p->elements / p->packet) * sizeof(*p->order));
	return p->send && p->recv && p->order ? 0 : fail(-ENOMEM, NULL, "cannot allocate memory for vectors");
}

const struct measurement measure_wire = {
	.name = "wire",
	.usage = "usage: contenders wire [--workers 2..16] [--elements N,...] [--vector N] [--window W] [--runs N]\n"
		 "            [--seed N] [--gso] [--loss SHARE]\n"
		 "  --elements  of a packet: multiples of 32 up to 832; default 256,832\n"
		 "  --gso       leave whole what workers send by UDP_SEGMENT; no wire does\n"
		 "  --loss      workers lose, repeat and reorder as many of their frames, each way, 0..0.9\n"
		 "  --vector    elements that each worker contributes in a run; default 4194304\n",
	.options = "wevWrsGlh",
	.stars = STARS,
	.most_window = 256,
	.standard = {.workers = 4, .vector = 1 << 22, .window = 64, .runs = 9},
	.chunks = 1,
	.work = wire_work,
	.poll = wire_poll,
	.prepare = prepare,
	.serve = start_servers,
	.measure = measure,
};
