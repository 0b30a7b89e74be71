// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of sums at an aggregator: CPU seconds per gigabyte of contributions,
 * and goodput, over real veth links with the same workers for each contender:
 *
 *	fpisa		our datapath: native XDP, fused
 *	udp-avx2	a server on a UDP socket that adds with AVX2 (udp.c)
 *	xdp-avx2	a server on AF_XDP sockets that adds with AVX2 (xsk.c)
 *
 * CPU time is the time of the server's process and of the kernel threads that
 * poll the aggregator's ends of the links. Without threaded NAPI that work would
 * be charged to whatever process runs. The workers' ends have separate threads.
 * A veth passes GSO batches (UDP_SEGMENT) as one, which a wire does not do. The
 * workers' ends cut them, so that every contender gets frames. `--gso` leaves them.
 *
 * Contenders take turns, run by run, so that drift affects all of them alike.
 * Each sum is checked, element by element, before its figures count (worker.c).
 * One JSON line per contender and packet size: quartiles over the runs, and
 * quartiles of the ratio, ours : the contender, in the same run.
 *
 * A separate process measures each packet size in namespaces without names, and
 * all processes die with their parent: nothing outlives a run, however it ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "fpisa/wire.h"
#include "lib/base/clock.h"
#include "contenders.h"

#define MAX_RUNS 1000
#define MAX_WINDOW 256

/* -- figures ------------------------------------------------------------------------- */

struct figures {
	double cpu[MAX_RUNS], polled[MAX_RUNS], served[MAX_RUNS], ratio[MAX_RUNS], gbit[MAX_RUNS];
	uint64_t retransmits;
};

static int run_contender(const struct wire *w, enum contender c, struct figures *g, uint32_t run)
{
	const struct plan *p = &w->plan;
	double bytes = (double)p->workers * (double)p->elements * sizeof(float);
	struct order o = {.task = TASK_CLEAR, .contender = c};
	uint64_t polled, served, wall;
	struct report sum = {0};

	if (wire_order(w, &o, NULL))
		return -1;
	polled = wire_polled_ns(w, c);
	served = wire_served_ns(w, c);
	wall = fpisa_now();
	o.task = TASK_SUM;
	if (wire_order(w, &o, &sum))
		return -1;
	wall = fpisa_now() - wall;
	polled = wire_polled_ns(w, c) - polled;
	served = wire_served_ns(w, c) - served;
	o.task = TASK_CHECK;
	if (wire_order(w, &o, NULL))
		return -1;
	g->polled[run] = (double)polled / bytes;
	g->served[run] = (double)served / bytes;
	g->cpu[run] = g->polled[run] + g->served[run];
	g->gbit[run] = bytes * 8 / (double)wall;
	g->retransmits += sum.retransmits;
	return 0;
}

static void print_figures(const struct wire *w, enum contender c, struct figures *g)
{
	const struct plan *p = &w->plan;
	double frames = (double)p->elements / p->packet * p->workers * p->runs;

	printf("{\"bench\": \"wire\", \"contender\": \"%s\", \"workers\": %u, "
	       "\"elements\": %u, "
	       "\"window\": %u, \"gso\": %s, \"loss\": %g, \"vector\": %llu, \"runs\": %u, "
	       "\"goodput_gbit\": %.4f",
	       wire_contender[c], p->workers, p->packet, p->window, p->gso ? "true" : "false", p->loss,
	       (unsigned long long)p->elements, p->runs, quartile(g->gbit, p->runs, 2));
	print_quartiles("cpu_s_per_gb", g->cpu, p->runs);
	print_quartiles("napi_s_per_gb", g->polled, p->runs);
	print_quartiles("process_s_per_gb", g->served, p->runs);
	printf(", \"ratio\": %.4f, \"ratio_quartiles\": [%.4f, %.4f], \"retransmit_share\": %.6f}\n",
	       quartile(g->ratio, p->runs, 2), quartile(g->ratio, p->runs, 1), quartile(g->ratio, p->runs, 3),
	       (double)g->retransmits / frames);
}

/* Measure one run more than requested: the first run opens handles and warms up. */
static int measure(const struct wire *w)
{
	static struct figures figures[CONTENDERS];

	memset(figures, 0, sizeof(figures));
	for (uint32_t run = 0; run <= w->plan.runs; run++) {
		struct order fill = {.task = TASK_FILL, .run = run};
		uint32_t at = run ? run - 1 : 0;

		if (wire_order(w, &fill, NULL))
			return -1;
		for (uint32_t k = 0; k < CONTENDERS; k++) {
			enum contender c = (k + run) % CONTENDERS;

			if (run_contender(w, c, &figures[c], at))
				return -1;
		}
		for (enum contender c = 0; c < CONTENDERS; c++) {
			figures[c].ratio[at] = figures[FPISA_XDP].cpu[at] / figures[c].cpu[at];
			figures[c].retransmits *= run > 0;
		}
	}
	for (enum contender c = 0; c < CONTENDERS; c++)
		print_figures(w, c, &figures[c]);
	return 0;
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Measure one packet size, in a separate process. */
static void measure_size(void *arg, int control)
{
	struct wire *w = arg;
	struct plan *p = &w->plan;
	size_t vectors = p->workers * p->elements * sizeof(float);
	int rc;

	p->send = shared(vectors);
	p->recv = shared(vectors);
	p->order = shared(p->workers * (p->elements / p->packet) * sizeof(*p->order));
	rc = p->send && p->recv && p->order ? wire_set_up(w) : fail(-ENOMEM, NULL, "memory for vectors");
	if (!rc)
		rc = measure(w);
	fflush(stdout);
	processes_kill(&w->workers);
	processes_kill(&w->servers);
	if (!rc)
		process_report(control, &(struct report){0});
	_exit(rc ? 1 : 0);
}

/* -- options -------------------------------------------------------------------------- */

static const char usage[] = "usage: wire [--workers 2..16] [--elements N,...] [--vector N] [--window W] [--runs N]\n"
			    "            [--seed N] [--gso]\n"
			    "            [--loss SHARE]\n"
			    "  --elements  of a packet: multiples of 32 up to 832; default 256,832\n"
			    "  --gso       leave whole what workers send by UDP_SEGMENT; no wire does\n"
			    "  --loss      workers lose, repeat and reorder as many of their frames, each way, 0..0.9\n"
			    "  --vector    elements that each worker contributes a run; default 4194304\n";

struct options {
	struct wire *w;
	uint64_t vector;
	struct sizes sizes;
};

static int parse(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'}, {"elements", 1, NULL, 'e'},
						{"vector", 1, NULL, 'v'},  {"window", 1, NULL, 'W'},
						{"runs", 1, NULL, 'r'},	   {"seed", 1, NULL, 's'},
						{"gso", 0, NULL, 'G'},	   {"loss", 1, NULL, 'l'},
						{"help", 0, NULL, 'h'},	   {0}};
	struct plan *p = &o->w->plan;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t n = 0;
		int rc = 0;

		switch (opt) {
		case 'w':
			rc = parse_number("--workers", optarg, 2, PROCESSES_MAX, &n);
			p->workers = (uint32_t)n;
			break;
		case 'e':
			rc = parse_sizes(&o->sizes, optarg);
			break;
		case 'v':
			rc = parse_number("--vector", optarg, 1, 1 << 26, &o->vector);
			break;
		case 'W':
			rc = parse_number("--window", optarg, 1, MAX_WINDOW, &n);
			p->window = (uint32_t)n;
			break;
		case 'r':
			rc = parse_number("--runs", optarg, 1, MAX_RUNS, &n);
			p->runs = (uint32_t)n;
			break;
		case 's':
			rc = parse_number("--seed", optarg, 0, UINT64_MAX, &p->seed);
			break;
		case 'l':
			rc = parse_share("--loss", optarg, &p->loss);
			break;
		case 'G':
			p->gso = 1;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			rc = -1;
		}
		if (rc) {
			fputs(usage, stderr);
			return -1;
		}
	}
	return end_of_options(argc, argv, p->window, usage);
}

int main(int argc, char **argv)
{
	static struct wire w = {.plan = {.workers = 4, .window = 64, .runs = 9}};
	struct options o = {.w = &w, .vector = 1 << 22, .sizes = DEFAULT_SIZES};
	int rc = 0;

	w.plan.seed = fpisa_clock_ns(CLOCK_REALTIME);
	if (parse(&o, argc, argv))
		return 2;
	fpisa_path(w.fpisa, sizeof(w.fpisa), argv[0]);
	fprintf(stderr, "wire: --seed %llu repeats the random data\n", (unsigned long long)w.plan.seed);
	for (uint32_t i = 0; i < o.sizes.n && !rc; i++) {
		w.plan.packet = o.sizes.elements[i];
		w.plan.elements = (o.vector + w.plan.packet - 1) / w.plan.packet * w.plan.packet;
		rc = process_run(measure_size, &w);
	}
	return rc ? 1 : 0;
}
