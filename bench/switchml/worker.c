// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an all-reduce costs a worker: CPU seconds a gigabyte of its vector,
 * over real veth links to the real datapath. Contenders take turns, run by
 * run, so that drift of the machine hits all alike.
 *
 *	udp, xsk	libfpisa, the floats as they are
 *	switchml	a SwitchML-style worker over the same udp: a maximum exponent a chunk, which
 *			makes a round trip of its own, then int32 in network byte order, and back
 *	switchml-batch	the same with as many exponents in a frame as fit: its least number of frames
 *
 * CPU time is that of the worker's process and of the kernel thread that polls its end of the link;
 * the other end has one too, so that the aggregator's work is not charged to who sends.
 *
 * One JSON line a contender: median and quartiles over the runs, and of the ratio to
 * `switchml` in the same run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "fpisa.h"
#include "fpisa/wire.h"
#include "switchml.h"
#include "testbed/measure.h"
#include "testbed/process.h"
#include "testbed/star.h"

#define MAX_RUNS 1000
#define TIMEOUT_MS 60000
#define EXPONENT_FRAME 32 /* values of a frame that carries one exponent: no frame has fewer */
#define BLOCK_CHUNKS 1024 /* that a SwitchML worker converts at a time: its data stay in the cache */
#define ADDRESS 0x0a4eff01u /* 10.78.255.1 */
#define NETWORK 0x0a4e0000u /* 10.78.RANK.1 and .2 are the ends of a worker's link */

enum job { JOB_FLOAT, JOB_XSK, JOB_INT, JOB_EXPONENT, JOB_EXPONENTS, JOBS };

struct plan {
	uint32_t workers, packet, window, runs;
	uint64_t vector, elements; /* as asked for; whole blocks */
	const char *only;
	struct star star;
};

/* One worker's process. */
struct side {
	const struct plan *plan;
	uint32_t rank;
	unsigned char task; /* under way: to set up the link, then a contender's */
	bool linked;
	pid_t napi;
	struct fpisa *f[JOBS];
	float *send, *recv;
	int32_t *exponent, *quantised; /* of one block; exponents of two, which take turns */
};

struct contender {
	const char *name;
	int (*open)(struct side *s);
	int (*sum)(struct side *s);
};

/* -- the worker ------------------------------------------------------------ */

static int open_job(struct side *s, enum job job, const struct fpisa_options *more)
{
	struct fpisa_options o = more ? *more : (struct fpisa_options){0};
	char address[32];

	o.size = sizeof(o);
	o.local_port = (uint16_t)(FPISA_PORT + job);
	o.timeout_ms = TIMEOUT_MS;
	snprintf(address, sizeof(address), "%u.%u.%u.%u", DOTTED(ADDRESS));
	return s->f[job] ? 0 : fpisa_connect(&s->f[job], address, (uint32_t)job, &o);
}

static int open_udp(struct side *s)
{
	return open_job(s, JOB_FLOAT, NULL);
}

static int sum_udp(struct side *s)
{
	return fpisa_allreduce(s->f[JOB_FLOAT], s->send, s->recv, s->plan->elements, FPISA_FLOAT32, NULL);
}

static int open_xsk(struct side *s)
{
	return open_job(s, JOB_XSK, &(struct fpisa_options){.transport = FPISA_TRANSPORT_XSK});
}

static int sum_xsk(struct side *s)
{
	return fpisa_allreduce(s->f[JOB_XSK], s->send, s->recv, s->plan->elements, FPISA_FLOAT32, NULL);
}

static int open_switchml(struct side *s)
{
	return open_job(s, JOB_INT, NULL) ?: open_job(s, JOB_EXPONENT, NULL);
}

static int open_switchml_batch(struct side *s)
{
	return open_job(s, JOB_INT, NULL) ?: open_job(s, JOB_EXPONENTS, NULL);
}

/* `stride` values of the exponents' job a chunk, the first of which is its exponent. */
static int start_exponents(struct side *s, enum job job, size_t stride, int32_t *exponent,
			   const float *values, struct fpisa_request **request)
{
	size_t packet = s->plan->packet;

	memset(exponent, 0, BLOCK_CHUNKS * stride * sizeof(*exponent));
	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		exponent[c * stride] = switchml_exponent(values + c * packet, packet);
	return fpisa_allreduce_op_start(s->f[job], exponent, exponent, BLOCK_CHUNKS * stride, FPISA_INT32,
					FPISA_MAX, 0, request);
}

static int start_integers(struct side *s, const int32_t *exponent, size_t stride, const float *values,
			  int32_t *out, struct fpisa_request **request)
{
	size_t packet = s->plan->packet;

	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		switchml_quantise(out + c * packet, values + c * packet, packet,
				  switchml_scale(exponent[c * stride], s->plan->workers));
	return fpisa_allreduce_start(s->f[JOB_INT], out, out, BLOCK_CHUNKS * packet, FPISA_INT32, request);
}

static void take_integers(const struct side *s, const int32_t *exponent, size_t stride, const int32_t *in,
			  float *values)
{
	size_t packet = s->plan->packet;

	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		switchml_dequantise(values + c * packet, in + c * packet, packet,
				    switchml_scale(exponent[c * stride], s->plan->workers));
}

/* Block k's exponents are under way while block k - 1 comes in and is converted. */
static int sum_blocks(struct side *s, enum job job, size_t stride)
{
	size_t block = (size_t)BLOCK_CHUNKS * s->plan->packet, blocks = s->plan->elements / block;
	struct fpisa_request *maximum, *sum;
	int rc = 0;

	for (size_t k = 0; k <= blocks && !rc; k++) {
		int32_t *exponent = s->exponent + (k & 1) * BLOCK_CHUNKS * EXPONENT_FRAME;
		int32_t *before = s->exponent + (~k & 1) * BLOCK_CHUNKS * EXPONENT_FRAME;

		if (k < blocks)
			rc = start_exponents(s, job, stride, exponent, s->send + k * block, &maximum);
		if (k && !rc)
			rc = fpisa_wait(&sum, NULL);
		if (k && !rc)
			take_integers(s, before, stride, s->quantised + (~k & 1) * block,
				      s->recv + (k - 1) * block);
		if (k < blocks && !rc)
			rc = fpisa_wait(&maximum, NULL);
		if (k < blocks && !rc)
			rc = start_integers(s, exponent, stride, s->send + k * block,
					    s->quantised + (k & 1) * block, &sum);
	}
	return rc;
}

static int sum_switchml(struct side *s)
{
	return sum_blocks(s, JOB_EXPONENT, EXPONENT_FRAME);
}

static int sum_switchml_batch(struct side *s)
{
	return sum_blocks(s, JOB_EXPONENTS, 1);
}

static const struct contender contenders[] = {
	{"switchml", open_switchml, sum_switchml},
	{"switchml-batch", open_switchml_batch, sum_switchml_batch},
	{"udp", open_udp, sum_udp},
	{"xsk", open_xsk, sum_xsk},
};

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static int set_up_link(struct side *s, struct report *r)
{
	char dev[IF_NAMESIZE];
	int err = star_join(&s->plan->star, s->rank, r->message, sizeof(r->message));

	star_peer(dev, &s->plan->star, s->rank);
	s->napi = err ? 0 : napi_thread(dev);
	s->linked = true;
	return err ?: s->napi < 0 ? s->napi : 0;
}

static int check(const struct side *s)
{
	for (uint64_t i = 0; i < s->plan->elements; i++) {
		/* An int32 that holds the sum has a rounding of at most half a unit each. */
		if (!(fabsf(s->recv[i] - whole_sum(s->plan->workers, i)) <= (float)s->plan->workers * 0x1p-16f))
			return -1;
	}
	return 0;
}

static uint64_t retransmits(const struct side *s)
{
	struct fpisa_info info = {.size = sizeof(info)};
	uint64_t n = 0;

	for (int j = 0; j < JOBS; j++)
		if (s->f[j] && !fpisa_get_info(s->f[j], &info))
			n += info.retransmits;
	return n;
}

static void run_contender(struct side *s, const struct contender *c, struct report *r)
{
	uint64_t cpu, wall, sent_again;

	r->error = c->open(s);
	if (r->error)
		goto out;
	memset(s->recv, 0, s->plan->elements * sizeof(*s->recv));
	sent_again = retransmits(s);
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = own_cpu_ns(s->napi);
	r->error = c->sum(s);
	r->cpu_ns = own_cpu_ns(s->napi) - cpu;
	r->wall_ns = clock_ns(CLOCK_MONOTONIC) - wall;
	r->retransmits = retransmits(s) - sent_again;
	if (!r->error && check(s)) {
		r->error = -EBADMSG;
		snprintf(r->message, sizeof(r->message), "wrong sum");
		return;
	}
out:
	if (r->error)
		snprintf(r->message, sizeof(r->message), "%s", fpisa_error());
}

/* The first order is to set up the link, each further one a contender's number. */
static void carry_out(void *arg, struct report *r)
{
	struct side *s = arg;

	if (s->linked)
		run_contender(s, &contenders[s->task], r);
	else
		r->error = set_up_link(s, r);
}

static void work(void *arg, int control)
{
	struct side *s = arg;
	size_t block = (size_t)BLOCK_CHUNKS * s->plan->packet;

	s->send = malloc(s->plan->elements * sizeof(*s->send));
	s->recv = malloc(s->plan->elements * sizeof(*s->recv));
	s->exponent = malloc(2 * sizeof(*s->exponent) * BLOCK_CHUNKS * EXPONENT_FRAME);
	s->quantised = malloc(2 * sizeof(*s->quantised) * block);
	if (!s->send || !s->recv || !s->exponent || !s->quantised || own_network())
		return;
	for (uint64_t i = 0; i < s->plan->elements; i++)
		s->send[i] = whole_number(s->rank, i);
	process_serve(control, &s->task, sizeof(s->task), carry_out, s);
}

/* -- the aggregator ---------------------------------------------------------- */

struct bench {
	struct plan plan;
	struct processes workers;
	char fpisa[288]; /* the command */
};

static int order(const struct bench *c, unsigned char what, struct report *total)
{
	*total = (struct report){0};
	return processes_order(&c->workers, "worker", &what, sizeof(what), total);
}

static int add_jobs(const struct bench *c)
{
	static const char *const format[JOBS] = {[JOB_FLOAT] = "fp32",
						 [JOB_XSK] = "fp32",
						 [JOB_INT] = "int32 --big-endian",
						 [JOB_EXPONENT] = "int32",
						 [JOB_EXPONENTS] = "int32"};
	char workers[512];
	int rc = 0;

	for (int j = 0; j < JOBS && !rc; j++) {
		size_t used = 0;

		for (uint32_t r = 0; r < c->plan.workers; r++)
			used += (size_t)snprintf(workers + used, sizeof(workers) - used, "%s%u.%u.%u.%u:%d",
						 r ? "," : "", DOTTED(star_worker_address(&c->plan.star, r)), FPISA_PORT + j);
		rc = run_fpisa(c->fpisa,
			       "job add %d --workers %s --address %u.%u.%u.%u --elements %u --window %u --format %s",
			       j, workers, DOTTED(ADDRESS), j == JOB_EXPONENT ? EXPONENT_FRAME : c->plan.packet,
			       c->plan.window, format[j]);
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

	*star = (struct star){
		.address = ADDRESS, .network = NETWORK, .mtu = star_mtu(c->plan.packet * sizeof(float))};
	snprintf(star->port, sizeof(star->port), "b%da", getpid());
	snprintf(star->peer, sizeof(star->peer), "b%dw", getpid());
	rc = lab_enter("bench") ?: own_sysfs();
	for (uint32_t i = 0; i < c->plan.workers && !rc; i++)
		rc = processes_spawn(&c->workers, work, &(struct side){.plan = &c->plan, .rank = i});
	for (uint32_t i = 0; i < c->plan.workers; i++) {
		star_port(dev, star, i);
		used += (size_t)snprintf(devs + used, sizeof(devs) - used, " %s", dev);
	}
	rc = rc ?: star_make(star, c->workers.process, c->plan.workers)
			   ?: order(c, 0, &r) ?: run_fpisa(c->fpisa, "load%s", devs) ?: add_jobs(c);
	for (uint32_t i = 0; i < c->plan.workers && !rc; i++) {
		star_port(dev, star, i);
		rc = napi_thread(dev) < 0 ? -1 : 0;
	}
	return rc;
}

/* -- figures ------------------------------------------------------------------ */

struct figures {
	double cpu[MAX_RUNS], ratio[MAX_RUNS], gbps[MAX_RUNS], resent[MAX_RUNS];
};

static void print_figures(const struct plan *p, const struct contender *c, struct figures *g)
{
	uint32_t n = p->runs;

	printf("{\"bench\": \"worker\", \"contender\": \"%s\", \"workers\": %u, \"elements\": %u, "
	       "\"window\": %u, "
	       "\"vector\": %llu, \"runs\": %u, \"goodput_gbit\": %.4f",
	       c->name, p->workers, p->packet, p->window, (unsigned long long)p->elements, n,
	       quartile(g->gbps, n, 2));
	print_quartiles("cpu_s_per_gb", g->cpu, n);
	if (!isnan(g->ratio[0]))
		printf(", \"ratio\": %.4f, \"ratio_quartiles\": [%.4f, %.4f]", quartile(g->ratio, n, 2),
		       quartile(g->ratio, n, 1), quartile(g->ratio, n, 3));
	printf(", \"retransmit_share\": %.6f}\n", quartile(g->resent, n, 2));
}

static int chosen(const char *only, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == len && !strncmp(at, name, len))
			return 1;
	return !only;
}

static int measure(struct bench *c)
{
	static struct figures figures[CONTENDERS];
	const struct plan *p = &c->plan;
	double bytes = (double)p->elements * sizeof(float),
	       frames = (double)p->elements / p->packet * p->workers;
	struct report r;

	/* The first run opens handles and warms up. */
	for (uint32_t run = 0; run <= p->runs; run++) {
		double against = NAN;

		for (size_t k = 0; k < CONTENDERS; k++) {
			struct figures *g = &figures[k];

			if (!chosen(p->only, contenders[k].name))
				continue;
			if (order(c, (unsigned char)k, &r))
				return -1;
			if (!run)
				continue;
			g->cpu[run - 1] = (double)r.cpu_ns / p->workers / bytes;
			against = k ? against : g->cpu[run - 1];
			g->ratio[run - 1] = g->cpu[run - 1] / against;
			g->gbps[run - 1] = bytes * 8 / (double)r.wall_ns;
			g->resent[run - 1] = (double)r.retransmits / frames;
		}
	}
	for (size_t k = 0; k < CONTENDERS; k++)
		if (chosen(p->only, contenders[k].name))
			print_figures(p, &contenders[k], &figures[k]);
	return 0;
}

/* -- options -------------------------------------------------------------------- */

static const char usage[] =
	"usage: worker [--workers 1..16] [--elements N,...] [--vector N] [--window W] [--runs N] [--only "
	"NAME,...]\n"
	"  --elements  of a packet: multiples of 32 up to 832; default 256,832\n"
	"  --vector    elements, rounded up to whole blocks of 1024 packets; default 2097152\n"
	"  --only      of the contenders: switchml, switchml-batch, udp, xsk\n";

static int parse(struct plan *p, struct sizes *sizes, int argc, char **argv)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'}, {"elements", 1, NULL, 'e'},
						{"vector", 1, NULL, 'v'},  {"window", 1, NULL, 'W'},
						{"runs", 1, NULL, 'r'},	   {"only", 1, NULL, 'o'},
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
	if (optind < argc)
		return refuse(-1, "%s: not an option\n%s", argv[optind], usage);
	return p->window & (p->window - 1) ? refuse(-1, "--window: not a power of two") : 0;
}

/* In a process of its own. */
static void measure_size(void *arg, int control)
{
	struct bench *c = arg;
	int rc = set_up(c) ?: measure(c);

	fflush(stdout);
	processes_terminate(&c->workers);
	if (!rc)
		process_report(control, &(struct report){0});
	_exit(rc ? 1 : 0);
}

int main(int argc, char **argv)
{
	static struct bench c = {.plan = {.workers = 2, .vector = 1 << 21, .runs = 9, .window = 64}};
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
