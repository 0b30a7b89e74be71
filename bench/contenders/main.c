// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the CPU time of sums at the aggregator or at a worker, for FPISA and for other contenders:
 *
 * 	contenders wire|worker [OPTION...]
 *
 * The output is a JSON line for each packet size and contender. A line has quartiles over the runs, and quartiles of
 * the ratio to another contender in the same run. contenders.h has an overview of the files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "fpisa/wire.h"
#include "lib/base/clock.h"
#include "contenders.h"

const char *const contender_name[CONTENDERS] = {
	/*
	 * Our datapath with native XDP and the fused pipeline, and servers on a UDP socket and on AF_XDP sockets that
	 * add with AVX2.
	 */
	[FPISA_XDP] = "fpisa",
	[UDP_AVX2] = "udp-avx2",
	[XDP_AVX2] = "xdp-avx2",
	/*
	 * A SwitchML worker finds a maximum exponent for each chunk in a separate round trip. Then it sends int32 in
	 * network byte order over udp, and converts the sums back. libfpisa sends the floats as they are. The
	 * contenders with libfpisa use two transports, a job with a token, whose frames have tags instead of checksums,
	 * and options.progress.
	 */
	[SWITCHML] = "switchml",
	[UDP] = "udp",
	[XSK] = "xsk",
	[UDP_TAGS] = "udp-tags",
	[UDP_PROGRESS] = "udp-progress",
	[XSK_PROGRESS] = "xsk-progress",
};

void print_quartiles(const char *name, double *v, uint32_t n)
{
	printf(", \"%s\": {\"median\": %.4f, \"q1\": %.4f, \"q3\": %.4f}", name, quartile(v, n, 2), quartile(v, n, 1),
	       quartile(v, n, 3));
}

void print_ratio(double *ratio, uint32_t n)
{
	printf(", \"ratio\": %.4f, \"ratio_quartiles\": [%.4f, %.4f]", quartile(ratio, n, 2), quartile(ratio, n, 1),
	       quartile(ratio, n, 3));
}

void print_contender(const struct bench *b, enum contender c, double *gbit)
{
	const struct plan *p = &b->plan;

	printf("{\"bench\": \"%s\", \"contender\": \"%s\", \"workers\": %u, \"elements\": %u, \"window\": %u, "
	       "\"vector\": %llu, \"runs\": %u, \"goodput_gbit\": %.4f",
	       b->what->name, contender_name[c], p->workers, p->packet, p->window, (unsigned long long)p->elements,
	       p->runs, quartile(gbit, p->runs, 2));
}

/* Measure one packet size, in a separate process. */
static void measure_size(void *arg, int control)
{
	struct bench *b = arg;
	int rc = b->what->prepare ? b->what->prepare(b) : 0;

	rc = rc ?: network_make(b) ?: b->what->measure(b);
	fflush(stdout);
	processes_kill(&b->workers);
	processes_kill(&b->servers);
	if (!rc)
		process_report(control, &(struct report){0});
	_exit(rc ? 1 : 0);
}

static int parse_option(struct bench *b, struct sizes *sizes, const struct option *option, char *text)
{
	struct plan *p = &b->plan;
	uint64_t n = 0;
	int rc = 0;

	if (!strchr(b->what->options, option->val))
		return refuse(-1, "contenders %s: --%s is not supported; see the usage", b->what->name, option->name);
	switch (option->val) {
	case 'w':
		rc = parse_number("--workers", text, b->what->stars > 1 ? 2 : 1, PROCESSES_MAX, &n);
		p->workers = (uint32_t)n;
		break;
	case 'e':
		rc = parse_sizes(sizes, text);
		break;
	case 'v':
		rc = parse_number("--vector", text, 1, 1 << 30, &p->vector);
		break;
	case 'W':
		rc = parse_number("--window", text, 1, b->what->most_window, &n);
		p->window = (uint32_t)n;
		if (!rc && n & (n - 1))
			rc = refuse(-1, "--window is not a power of two");
		break;
	case 'r':
		rc = parse_number("--runs", text, 1, MAX_RUNS, &n);
		p->runs = (uint32_t)n;
		break;
	case 's':
		rc = parse_number("--seed", text, 0, UINT64_MAX, &p->seed);
		break;
	case 'l':
		rc = parse_share("--loss", text, &p->loss);
		break;
	case 'G':
		p->gso = 1;
		break;
	case 'o':
		p->only = text;
		break;
	case 'c':
		rc = parse_number("--calls", text, 1, BLOCK_CHUNKS, &p->calls);
		if (!rc && p->calls & (p->calls - 1))
			rc = refuse(-1, "--calls is not a power of two");
		break;
	case 'p':
		p->progress = 1;
		break;
	case 'h':
		fputs(b->what->usage, stdout);
		exit(0);
	}
	return rc;
}

static int parse(struct bench *b, struct sizes *sizes, int argc, char **argv)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'},
						{"elements", 1, NULL, 'e'},
						{"vector", 1, NULL, 'v'},
						{"window", 1, NULL, 'W'},
						{"runs", 1, NULL, 'r'},
						{"seed", 1, NULL, 's'},
						{"gso", 0, NULL, 'G'},
						{"loss", 1, NULL, 'l'},
						{"only", 1, NULL, 'o'},
						{"calls", 1, NULL, 'c'},
						{"progress", 0, NULL, 'p'},
						{"help", 0, NULL, 'h'},
						{0}};
	int opt, at = 0;

	while ((opt = getopt_long(argc, argv, "", options, &at)) != -1)
		if (opt == '?' || parse_option(b, sizes, &options[at], optarg)) {
			fputs(b->what->usage, stderr);
			return -1;
		}
	return optind < argc ? refuse(-1, "unexpected argument '%s'\n%s", argv[optind], b->what->usage) : 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "", *slash = strrchr(argv[0], '/');
	struct sizes sizes = {2, {256, FPISA_MAX_ELEMENTS}};
	static struct bench b;
	uint64_t block;
	int rc = 0;

	b.what = !strcmp(name, measure_wire.name) ? &measure_wire : &measure_worker;
	if (strcmp(name, b.what->name))
		return refuse(2, "usage: contenders wire|worker [OPTION...]; see contenders wire --help");
	b.plan = b.what->standard;
	b.plan.seed = fpisa_clock_ns(CLOCK_REALTIME);
	if (parse(&b, &sizes, argc - 1, argv + 1))
		return 2;
	snprintf(b.fpisa, sizeof(b.fpisa), "%.*s/../fpisa", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
	if (strchr(b.what->options, 's'))
		fprintf(stderr, "contenders: --seed %llu repeats the random data\n", (unsigned long long)b.plan.seed);
	for (uint32_t i = 0; i < sizes.n && !rc; i++) {
		b.plan.packet = sizes.elements[i];
		block = (uint64_t)b.what->chunks * b.plan.packet;
		b.plan.elements = (b.plan.vector + block - 1) / block * block;
		rc = process_run(measure_size, &b);
	}
	return rc ? 1 : 0;
}
