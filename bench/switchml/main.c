// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cost of an all-reduce at a worker: CPU seconds per gigabyte of its vector,
 * over real veth links to the real datapath. Contenders take turns, run by run,
 * so that drift of the machine affects all of them alike.
 *
 *	udp, xsk	libfpisa, the floats as they are
 *	udp-tags	udp with a job with a token: its frames have tags instead of the checksum
 *	switchml	a SwitchML-style worker over the same udp: a maximum exponent per chunk, which
 *			makes a separate round trip, then int32 in network byte order, and back
 *	udp-progress, xsk-progress	udp and xsk with options.progress
 *
 * CPU time is the time of the worker's process and of the kernel thread that polls its end of the link.
 * The other end has a thread too, so that the aggregator's work is not charged to the sender.
 *
 * One JSON line per contender: median and quartiles over the runs, and of the ratio to `switchml` in the
 * same run. Contenders with a progress thread or tags also have ratios of CPU time and of time to the
 * contender without.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "fpisa/wire.h"
#include "worker.h"

#define MAX_RUNS 1000

struct bench {
	struct plan plan;
	struct processes workers;
	char fpisa[288]; /* path of the command */
};

static int order(const struct bench *c, enum contender what, struct report *total)
{
	*total = (struct report){0};
	return processes_order(&c->workers, "worker", &what, sizeof(what), total);
}

static int add_jobs(const struct bench *c)
{
	static const char *const format[JOBS] = {
		[JOB_FLOAT] = "fp32", [JOB_XSK] = "fp32", [JOB_INT] = "int32 --big-endian", [JOB_EXPONENT] = "int32", [JOB_TAGS] = "fp32"};
	char token[32];
	char workers[512];
	int rc = 0;

	for (int j = 0; j < JOBS && !rc; j++) {
		size_t used = 0;

		for (uint32_t r = 0; r < c->plan.workers; r++)
			used += (size_t)snprintf(workers + used, sizeof(workers) - used, "%s%u.%u.%u.%u:%d",
						 r ? "," : "", DOTTED(star_worker_address(&c->plan.star, r)),
						 FPISA_PORT + j);
		snprintf(token, sizeof(token), " --token %llx", BENCH_TOKEN);
		rc = run_fpisa(c->fpisa,
			       "job add %d --workers %s --address %u.%u.%u.%u --elements %u --window %u --format %s%s",
			       j, workers, DOTTED(ADDRESS), j == JOB_EXPONENT ? EXPONENT_FRAME : c->plan.packet,
			       c->plan.window, format[j], j == JOB_TAGS ? token : "");
	}
	return rc;
}

static int set_up(struct bench *c)
{
	struct star *star = &c->plan.star;
	char dev[IF_NAMESIZE], devs[512];
	struct report r;
	size_t used = 0;
	int rc;

	*star = (struct star){.address = ADDRESS, .network = NETWORK, .mtu = star_mtu(c->plan.packet * sizeof(float))};
	snprintf(star->port, sizeof(star->port), "b%da", getpid());
	snprintf(star->peer, sizeof(star->peer), "b%dw", getpid());
	rc = lab_enter("bench") ?: enter_sysfs();
	for (uint32_t i = 0; i < c->plan.workers && !rc; i++)
		rc = processes_spawn(&c->workers, worker_work, &(struct worker_rank){&c->plan, i});
	for (uint32_t i = 0; i < c->plan.workers; i++) {
		star_port(dev, star, i);
		used += (size_t)snprintf(devs + used, sizeof(devs) - used, " %s", dev);
	}
	rc = rc								  ?:
		     star_make(star, c->workers.process, c->plan.workers) ?:
		     order(c, 0, &r)					  ?:
		     run_fpisa(c->fpisa, "load%s", devs)		  ?:
									    add_jobs(c);
	for (uint32_t i = 0; i < c->plan.workers && !rc; i++) {
		star_port(dev, star, i);
		rc = napi_thread(dev) < 0 ? -1 : 0;
	}
	return rc;
}

/* -- figures ------------------------------------------------------------------ */

struct figures {
	double cpu[MAX_RUNS], ratio[MAX_RUNS], gbps[MAX_RUNS], resent[MAX_RUNS], us[MAX_RUNS];
	double more_cpu[MAX_RUNS], more_time[MAX_RUNS]; /* ratios with tags or a progress thread to without */
};

/* The contender that differs only in tags or options.progress. */
static const enum contender without[CONTENDERS] = {[UDP_TAGS] = UDP, [UDP_PROGRESS] = UDP, [XSK_PROGRESS] = XSK};

static int chosen(const struct plan *p, enum contender c)
{
	const char *only = p->only, *name = contender_name[c];
	size_t len = strlen(name);

	if (c == UDP_PROGRESS || c == XSK_PROGRESS)
		return p->progress && chosen(p, without[c]);
	for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == len && !strncmp(at, name, len))
			return 1;
	return !only;
}

static void print_figures(const struct plan *p, enum contender c, struct figures *g)
{
	uint32_t n = p->runs;

	printf("{\"bench\": \"worker\", \"contender\": \"%s\", \"workers\": %u, \"elements\": %u, "
	       "\"window\": %u, "
	       "\"vector\": %llu, \"runs\": %u, \"goodput_gbit\": %.4f",
	       contender_name[c], p->workers, p->packet, p->window, (unsigned long long)p->elements, n,
	       quartile(g->gbps, n, 2));
	print_quartiles("cpu_s_per_gb", g->cpu, n);
	if (!isnan(g->ratio[0]))
		printf(", \"ratio\": %.4f, \"ratio_quartiles\": [%.4f, %.4f]", quartile(g->ratio, n, 2),
		       quartile(g->ratio, n, 1), quartile(g->ratio, n, 3));
	if (p->calls > 1)
		print_quartiles("call_us", g->us, n);
	if (without[c] && chosen(p, without[c])) {
		print_quartiles("cpu_ratio_to_without", g->more_cpu, n);
		print_quartiles("time_ratio_to_without", g->more_time, n);
	}
	printf(", \"retransmit_share\": %.6f}\n", quartile(g->resent, n, 2));
}

static int measure(struct bench *c)
{
	static struct figures figures[CONTENDERS];
	const struct plan *p = &c->plan;
	double bytes = (double)p->elements * sizeof(float), frames = (double)p->elements / p->packet * p->workers;
	struct report r;

	/* The first run opens handles and warms up. */
	for (uint32_t run = 0; run <= p->runs; run++) {
		double against = NAN;

		for (enum contender k = 0; k < CONTENDERS; k++) {
			struct figures *g = &figures[k];

			if (!chosen(p, k))
				continue;
			if (order(c, k, &r))
				return -1;
			if (!run)
				continue;
			g->cpu[run - 1] = (double)r.cpu_ns / p->workers / bytes;
			against = k ? against : g->cpu[run - 1];
			g->ratio[run - 1] = g->cpu[run - 1] / against;
			g->gbps[run - 1] = bytes * 8 / (double)r.wall_ns;
			g->resent[run - 1] = (double)r.retransmits / frames;
			g->us[run - 1] = (double)r.wall_ns / 1e3 / (double)p->calls;
			g->more_cpu[run - 1] = g->cpu[run - 1] / figures[without[k]].cpu[run - 1];
			g->more_time[run - 1] = g->us[run - 1] / figures[without[k]].us[run - 1];
		}
	}
	for (enum contender k = 0; k < CONTENDERS; k++)
		if (chosen(p, k))
			print_figures(p, k, &figures[k]);
	return 0;
}

/* -- options -------------------------------------------------------------------- */

static const char usage[] =
	"usage: worker [--workers 1..16] [--elements N,...] [--vector N] [--window W] [--runs N] [--only "
	"NAME,...]\n"
	"              [--calls N] [--progress]\n"
	"  --elements  of a packet: multiples of 32 up to 832; default 256,832\n"
	"  --vector    elements, rounded up to whole blocks of 1024 packets; default 2097152\n"
	"  --only      of the contenders: switchml, udp, xsk, udp-tags\n"
	"  --calls     in which udp and xsk sum a vector: a power of two up to 1024; default 1\n"
	"  --progress  udp and xsk with a progress thread too, and what that costs\n";

static int parse(struct plan *p, struct sizes *sizes, int argc, char **argv)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'}, {"elements", 1, NULL, 'e'},
						{"vector", 1, NULL, 'v'},  {"window", 1, NULL, 'W'},
						{"runs", 1, NULL, 'r'},	   {"only", 1, NULL, 'o'},
						{"calls", 1, NULL, 'c'},   {"progress", 0, NULL, 'p'},
						{"help", 0, NULL, 'h'},	   {0}};
	uint64_t n;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		int rc = 0;

		switch (opt) {
		case 'w':
			rc = parse_number("--workers", optarg, 1, PROCESSES_MAX, &n);
			p->workers = (uint32_t)n;
			break;
		case 'e':
			rc = parse_sizes(sizes, optarg);
			break;
		case 'v':
			rc = parse_number("--vector", optarg, 1, 1 << 30, &p->vector);
			break;
		case 'W':
			rc = parse_number("--window", optarg, 1, 128, &n);
			p->window = (uint32_t)n;
			break;
		case 'r':
			rc = parse_number("--runs", optarg, 1, MAX_RUNS, &n);
			p->runs = (uint32_t)n;
			break;
		case 'o':
			p->only = optarg;
			break;
		case 'c':
			rc = parse_number("--calls", optarg, 1, BLOCK_CHUNKS, &p->calls);
			break;
		case 'p':
			p->progress = 1;
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
	if (p->calls & (p->calls - 1))
		return refuse(-1, "--calls: not a power of two");
	return end_of_options(argc, argv, p->window, usage);
}

/* Measure one packet size, in a separate process. */
static void measure_size(void *arg, int control)
{
	struct bench *c = arg;
	int rc = set_up(c) ?: measure(c);

	fflush(stdout);
	processes_kill(&c->workers);
	if (!rc)
		process_report(control, &(struct report){0});
	_exit(rc ? 1 : 0);
}

int main(int argc, char **argv)
{
	static struct bench c = {.plan = {.workers = 2, .vector = 1 << 21, .runs = 9, .window = 64, .calls = 1}};
	struct sizes sizes = DEFAULT_SIZES;
	struct plan *p = &c.plan;
	uint64_t block;
	int rc = 0;

	if (parse(p, &sizes, argc, argv))
		return 2;
	fpisa_path(c.fpisa, sizeof(c.fpisa), argv[0]);
	for (uint32_t i = 0; i < sizes.n && !rc; i++) {
		p->packet = sizes.elements[i];
		block = (uint64_t)BLOCK_CHUNKS * p->packet;
		p->elements = (p->vector + block - 1) / block * block;
		rc = process_run(measure_size, &c);
	}
	return rc ? 1 : 0;
}
