// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa demo: a whole aggregator with its workers on one machine, on real
 * packets, and every bit of the result checked. demo.h has the cast.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "demo.h"
#include "lab.h"

#define GROUP (0xef465000u + DEMO_JOB) /* 239.70.80.JOB */

const char demo_help[] =
	"  --workers N        1 to 64, each a process in its own network namespace; default 4\n"
	"  --file F           values to sum, raw FP32 or .npy, one row a worker, converted to\n"
	"                     the format; default the sample in data/gradients of epoch 20\n"
	"  --rows R           rows of the file; default 8, or as a .npy of two dimensions says\n"
	"  --elements N       random values instead of a file, N a worker\n"
	"  --mode MODE        fpisa (default), fpisa-a, fpisa64 or exact\n"
	"  --rounding R       down (the paper's) or nearest (default of fpisa64 and exact)\n"
	"  --pipeline P       fused (default) or staged; same bits\n"
	"  --clz C            bits (default) or lpm; same bits\n"
	"  --format F         fp32 (default), fp16, bf16, fp64, e4m3, e5m2\n"
	"  --fanout F         multicast (default) or unicast\n"
	"  --packet N         values a frame, a multiple of 32 up to 832; default 256;\n"
	"                     of fp64 up to 416, default 128\n"
	"  --window N         frames a worker has under way, a power of two; default 64\n"
	"  --xdp native|skb   default native\n"
	"  --drop P           share of frames that each worker loses, both ways; 0 to 0.9;\n"
	"                     --loss is the same\n"
	"  --duplicate P, --reorder P, --delay P, --corrupt P\n"
	"                     that come twice, after others of the next millisecond, 1 to\n"
	"                     256 ms late, or with 1 to 8 bits flipped\n"
	"  --seed S           of random values and faults; default 1\n"
	"  --timeout S        to join, and to sum; default 60 seconds\n"
	"  --json             one object; see below\n"
	"seconds runs from when all have joined until the last worker is done; goodput_gbps\n"
	"is one worker's, bits of its values / seconds. mismatches, by replaying each result's\n"
	"order of arrival, is null above 16 workers, for which no order is reported, unless\n"
	"the mode is exact, in which it does not matter.\n"
	"max_ulp_error is null where just one of a result and its exact sum is finite.\n"
	"Needs root. Nothing of it outlives it, on whatever signal.\n";

enum {
	OPT_WORKERS = OPT_VERB,
	OPT_FILE,
	OPT_ROWS,
	OPT_ELEMENTS,
	OPT_MODE,
	OPT_ROUNDING,
	OPT_PIPELINE,
	OPT_CLZ,
	OPT_FORMAT,
	OPT_FANOUT,
	OPT_PACKET,
	OPT_WINDOW,
	OPT_XDP,
	OPT_DROP,
	OPT_DUPLICATE,
	OPT_REORDER,
	OPT_DELAY,
	OPT_CORRUPT,
	OPT_SEED,
	OPT_TIMEOUT,
};

static const struct option options[] = {
	{"workers", required_argument, NULL, OPT_WORKERS},
	{"file", required_argument, NULL, OPT_FILE},
	{"rows", required_argument, NULL, OPT_ROWS},
	{"elements", required_argument, NULL, OPT_ELEMENTS},
	{"mode", required_argument, NULL, OPT_MODE},
	{"rounding", required_argument, NULL, OPT_ROUNDING},
	{"pipeline", required_argument, NULL, OPT_PIPELINE},
	{"clz", required_argument, NULL, OPT_CLZ},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"fanout", required_argument, NULL, OPT_FANOUT},
	{"packet", required_argument, NULL, OPT_PACKET},
	{"window", required_argument, NULL, OPT_WINDOW},
	{"xdp", required_argument, NULL, OPT_XDP},
	{"drop", required_argument, NULL, OPT_DROP},
	{"loss", required_argument, NULL, OPT_DROP},
	{"duplicate", required_argument, NULL, OPT_DUPLICATE},
	{"reorder", required_argument, NULL, OPT_REORDER},
	{"delay", required_argument, NULL, OPT_DELAY},
	{"corrupt", required_argument, NULL, OPT_CORRUPT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"verbose", no_argument, NULL, OPT_VERBOSE},
	JSON_OPTION,
	{0},
};

static int parse_u32(const char *what, uint64_t min, uint64_t max, uint32_t *out)
{
	uint64_t number;
	int err = parse_number(what, optarg, min, max, &number);

	*out = number;
	return err;
}

static int parse_option(struct demo_options *o, struct common *c, int opt)
{
	int id = 0, err;

	switch (opt) {
	case OPT_WORKERS:
		return parse_u32("--workers", 1, FPISA_MAX_WORKERS, &o->workers);
	case OPT_FILE:
		if (!*optarg)
			return refuse(BAD_USAGE, "--file: name is empty");
		o->file = optarg;
		return 0;
	case OPT_ROWS:
		return parse_u32("--rows", 1, 1 << 20, &o->rows);
	case OPT_ELEMENTS:
		return parse_number("--elements", optarg, 1, 1ull << 32, &o->elements);
	case OPT_MODE:
		return parse_name("--mode", optarg, mode_names, &o->mode);
	case OPT_ROUNDING:
		return parse_name("--rounding", optarg, rounding_names, &o->rounding);
	case OPT_PIPELINE:
		return parse_name("--pipeline", optarg, pipeline_names, &o->pipeline);
	case OPT_CLZ:
		return parse_name("--clz", optarg, clz_names, &o->clz);
	case OPT_FORMAT:
		return parse_name("--format", optarg, format_names, &o->format);
	case OPT_FANOUT:
		return parse_name("--fanout", optarg, fanout_names, &o->fanout);
	case OPT_PACKET:
		err = parse_u32("--packet", FPISA_BLOCK, FPISA_MAX_ELEMENTS, &o->packet);
		if (!err && o->packet % FPISA_BLOCK)
			err = refuse(BAD_USAGE, "--packet: %u is not a multiple of %d", o->packet,
				     FPISA_BLOCK);
		return err;
	case OPT_WINDOW:
		err = parse_u32("--window", 1, FPISA_MAX_SLOTS / 2, &o->window);
		if (!err && o->window & (o->window - 1))
			err = refuse(BAD_USAGE, "--window: %u is not a power of two", o->window);
		return err;
	case OPT_XDP:
		err = parse_name("--xdp", optarg, xdp_mode_names, &id);
		if (!err && id == DATAPATH_OFFLOAD)
			err = refuse(BAD_USAGE, "--xdp: veth has no offload; native or skb");
		o->xdp = id;
		return err;
	case OPT_DROP:
		return parse_share("--drop", optarg, &o->drop);
	case OPT_DUPLICATE:
		return parse_share("--duplicate", optarg, &o->duplicate);
	case OPT_REORDER:
		return parse_share("--reorder", optarg, &o->reorder);
	case OPT_DELAY:
		return parse_share("--delay", optarg, &o->delay);
	case OPT_CORRUPT:
		return parse_share("--corrupt", optarg, &o->corrupt);
	case OPT_SEED:
		return parse_number("--seed", optarg, 0, ~0ull, &o->seed);
	case OPT_TIMEOUT:
		return parse_u32("--timeout", 1, 4000000, &o->timeout_s);
	}
	return common_option(c, opt);
}

static int parse(struct demo_options *o, int argc, char **argv)
{
	struct common c = {.pin = NULL};
	struct fpisa_format f;
	int opt, err = 0;

	*o = (struct demo_options){
		.seed = 1,
		.workers = 4,
		.window = FPISA_DEFAULT_WINDOW,
		.timeout_s = 60,
		.mode = FPISA_MODE_FPISA,
		.pipeline = FPISA_PIPELINE_FUSED,
		.clz = FPISA_CLZ_BITS,
		.format = FPISA_FORMAT_FP32,
		.fanout = FPISA_FANOUT_MULTICAST,
		.xdp = DATAPATH_NATIVE,
	};
	while (!err && (opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		err = parse_option(o, &c, opt);
	if (err)
		return err;
	f = fpisa_format_of(o->format);
	o->packet = o->packet ?: fpisa_default_elements(f);
	if (!o->rounding)
		o->rounding = fpisa_default_rounding(o->mode);
	if (optind < argc)
		return refuse(BAD_USAGE, "demo: '%s' is not an option", argv[optind]);
	if (o->packet > fpisa_max_elements(f))
		return refuse(BAD_USAGE, "--packet: %u values of %s are too many; at most %u", o->packet,
			      name_of(format_names, o->format), fpisa_max_elements(f));
	if (o->elements && (o->file || o->rows))
		return refuse(BAD_USAGE,
			      "--elements: makes random values, so --file and --rows do not go with it");
	if (!o->elements && !o->file)
		o->file = "";
	o->json = c.json;
	return 0;
}

/* -- cleaning up -------------------------------------------------------- */

static struct demo *running;

/*
 * An interrupt ends the workers and then this process, and with them their
 * namespaces, links, pins and programs. Only what a handler may call is
 * called, so it may come at any time. The shell's exit code of the signal.
 */
static void on_signal(int sig)
{
	static const char text[] = "\nfpisa: demo: interrupted, everything is removed\n";
	ssize_t ignored;

	demo_dismiss(running);
	ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	_exit(128 + sig);
}

static void catch_signals(struct demo *d)
{
	struct sigaction sa = {.sa_handler = on_signal}, before;

	running = d;
	sigaddset(&sa.sa_mask, SIGINT);
	sigaddset(&sa.sa_mask, SIGTERM);
	sigaddset(&sa.sa_mask, SIGHUP);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* Under nohup it is ignored, and stays so. */
	if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &sa, NULL);
}

/* -- the demo ------------------------------------------------------------ */

static int load(const struct demo_options *o)
{
	const struct datapath_load how = {.pin = DATAPATH_PIN, .mode = o->xdp, .group = DATAPATH_NO_GROUP};
	char names[FPISA_MAX_WORKERS][IF_NAMESIZE], *devs[FPISA_MAX_WORKERS];

	for (uint32_t r = 0; r < o->workers; r++) {
		snprintf(names[r], sizeof(names[r]), DEMO_PORT_NAME, r);
		devs[r] = names[r];
	}
	return datapath_load(&how, devs, o->workers);
}

static int add_job(struct demo *d)
{
	const struct demo_options *o = &d->o;
	struct fpisa_job j = {
		.workers = o->workers,
		.address = htonl(DEMO_ADDRESS),
		.elements = o->packet,
		.window = o->window,
		.format = o->format,
		.mode = o->mode,
		.rounding = o->rounding,
		.pipeline = o->pipeline,
		.clz = o->clz,
		.fanout = o->fanout,
	};
	__u32 ifindex[FPISA_MAX_WORKERS];

	if (o->fanout == FPISA_FANOUT_MULTICAST) {
		j.group = htonl(GROUP);
		j.group_port = htons(FPISA_PORT);
	}
	for (uint32_t r = 0; r < o->workers; r++) {
		char name[IF_NAMESIZE];

		snprintf(name, sizeof(name), DEMO_PORT_NAME, r);
		ifindex[r] = if_nametoindex(name);
		j.rank[r].addr = htonl(DEMO_NETWORK | r << 8 | 2);
		j.rank[r].port = htons(FPISA_PORT);
	}
	return datapath_job_add(&d->dp, DEMO_JOB, &j, ifindex);
}

static int prepare(struct demo *d)
{
	int err;

	demo_step("making network namespaces");
	err = lab_enter("demo");
	if (!err)
		err = demo_hire(d);
	if (!err)
		err = demo_await(d, DEMO_READY, NULL);
	if (!err)
		err = demo_aggregator_links(d);
	if (!err)
		err = demo_release(d);
	if (!err)
		err = demo_await(d, DEMO_LINKED, NULL);
	if (err)
		return err;
	demo_step("loading the datapath");
	err = load(&d->o);
	if (!err)
		err = datapath_open(&d->dp, DATAPATH_PIN);
	if (!err)
		err = add_job(d);
	return err;
}

static int sum(struct demo *d)
{
	int err;

	demo_step("joining");
	err = demo_release(d);
	if (!err)
		err = demo_await(d, DEMO_JOINED, NULL);
	if (err)
		return err;
	d->start_ns = lab_now();
	err = demo_release(d);
	if (!err)
		err = demo_await(d, DEMO_DONE, demo_progress);
	return err;
}

int verb_demo(int argc, char **argv)
{
	static struct demo d;
	struct fpisa_counters counters;
	struct demo_check k;
	int err, verdict;

	err = parse(&d.o, argc, argv);
	if (err)
		return err;
	d.parent = getpid();
	d.dp.lock = -1;
	catch_signals(&d);
	err = demo_data(&d);
	if (!err)
		err = prepare(&d);
	if (!err)
		err = sum(&d);
	if (!err)
		err = datapath_counters(&d.dp, DEMO_JOB, &counters);
	if (!err) {
		demo_step("checking");
		verdict = demo_check(&d, &counters, &k);
		demo_progress_end();
		err = demo_report(&d, &counters, &k) ?: verdict;
	}
	demo_progress_end();
	demo_dismiss(&d);
	datapath_close(&d.dp);
	return err;
}
