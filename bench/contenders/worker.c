// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of an all-reduce at a worker with the real datapath, in CPU seconds per gigabyte of the worker's
 * vector.
 *
 * CPU time is the time of the worker's process and of the kernel thread that polls its end of the link. The
 * aggregator's end has a thread too, so that the aggregator's work is not charged to the sender.
 *
 * The ratio is that of the contender to `switchml`. Contenders with a progress thread or tags also have ratios of CPU
 * time and of time to the same contender without them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker.h"

static int add_jobs(struct bench *b)
{
	static const char *const format[JOBS] = {[JOB_FLOAT] = "--format fp32",
						 [JOB_XSK] = "--format fp32",
						 [JOB_INT] = "--format int32 --big-endian",
						 [JOB_EXPONENT] = "--format int32",
						 [JOB_TAGS] = "--format fp32 --token " BENCH_TOKEN};
	int rc = 0;

	for (int j = 0; j < JOBS && !rc; j++)
		rc = network_add_job(b, j, j == JOB_EXPONENT ? EXPONENT_FRAME : b->plan.packet, format[j]);
	return rc;
}

/* -- figures ------------------------------------------------------------------ */

struct figures {
	double cpu[MAX_RUNS], ratio[MAX_RUNS], gbit[MAX_RUNS], resent[MAX_RUNS], us[MAX_RUNS];
	/* ratios of contenders with tags or a progress thread to the same contender without */
	double more_cpu[MAX_RUNS], more_time[MAX_RUNS];
};

/* Return the contender that differs only in tags or options.progress. */
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

static void print_figures(const struct bench *b, enum contender c, struct figures *g)
{
	const struct plan *p = &b->plan;
	uint32_t n = p->runs;

	print_contender(b, c, g->gbit);
	print_quartiles("cpu_s_per_gb", g->cpu, n);
	if (!isnan(g->ratio[0]))
		print_ratio(g->ratio, n);
	if (p->calls > 1)
		print_quartiles("call_us", g->us, n);
	if (without[c] && chosen(p, without[c])) {
		print_quartiles("cpu_ratio_to_without", g->more_cpu, n);
		print_quartiles("time_ratio_to_without", g->more_time, n);
	}
	printf(", \"retransmit_share\": %.6f}\n", quartile(g->resent, n, 2));
}

static int measure(const struct bench *b)
{
	static struct figures figures[CONTENDERS];
	const struct plan *p = &b->plan;
	double bytes = (double)p->elements * sizeof(float), frames = (double)p->elements / p->packet * p->workers;

	/* The first run opens handles and warms up. */
	for (uint32_t run = 0; run <= p->runs; run++) {
		double against = NAN;

		for (enum contender k = SWITCHML; k < CONTENDERS; k++) {
			struct order o = {.task = TASK_SUM, .contender = k};
			struct figures *g = &figures[k];
			struct report r = {0};

			if (!chosen(p, k))
				continue;
			if (network_order(b, &o, &r))
				return -1;
			if (!run)
				continue;
			g->cpu[run - 1] = (double)r.cpu_ns / p->workers / bytes;
			against = k == SWITCHML ? g->cpu[run - 1] : against;
			g->ratio[run - 1] = g->cpu[run - 1] / against;
			g->gbit[run - 1] = bytes * 8 / (double)r.wall_ns;
			g->resent[run - 1] = (double)r.retransmits / frames;
			g->us[run - 1] = (double)r.wall_ns / 1e3 / (double)p->calls;
			g->more_cpu[run - 1] = g->cpu[run - 1] / figures[without[k]].cpu[run - 1];
			g->more_time[run - 1] = g->us[run - 1] / figures[without[k]].us[run - 1];
		}
	}
	for (enum contender k = SWITCHML; k < CONTENDERS; k++)
		if (chosen(p, k))
			print_figures(b, k, &figures[k]);
	return 0;
}

const struct measurement measure_worker = {
	.name = "worker",
	.usage = "usage: contenders worker [--workers 1..16] [--elements N,...] [--vector N] [--window W] [--runs N]\n"
		 "              [--only NAME,...] [--calls N] [--progress]\n"
		 "  --elements  of a packet: multiples of 32 up to 832; default 256,832\n"
		 "  --vector    elements, rounded up to whole blocks of 1024 packets; default 2097152\n"
		 "  --only      of the contenders: switchml, udp, xsk, udp-tags\n"
		 "  --calls     in which udp and xsk sum a vector: a power of two up to 1024; default 1\n"
		 "  --progress  udp and xsk with a progress thread too, and what that costs\n",
	.options = "wevWrocph",
	.stars = 1,
	.most_window = 128,
	.standard = {.workers = 2, .vector = 1 << 21, .runs = 9, .window = 64, .calls = 1},
	.chunks = BLOCK_CHUNKS,
	.work = worker_work,
	.poll = napi_thread,
	.serve = add_jobs,
	.measure = measure,
};
