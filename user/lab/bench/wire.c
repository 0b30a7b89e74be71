// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verbs `fpisa bench wire` and `fpisa bench`. `bench wire` measures goodput
 * and CPU time over real links, by packet size, window, pipeline and threads, and
 * chooses the settings for a job. `bench` runs `bench arith` first. wire.h has
 * the overview.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "wire.h"

#define MAX_VECTOR (1 << 26)
/* There are enough slots for the jobs of two runs at the same time. */
#define MAX_WINDOW (FPISA_DEFAULT_SLOTS / BENCH_WIRE_THREADS / 2)

const char bench_wire_help[] =
	"  DEV                interfaces of this machine towards workers that run fpisa bench worker;\n"
	"                     default veth interfaces in namespaces that the bench creates\n"
	"  --workers N|LIST   without DEV: 2 to 16 processes, default 4; with DEV: addresses\n"
	"                     ADDR[@DEV],..., as for job add\n"
	"  --address ADDR     address of this machine, as for job add; only with DEV\n"
	"  --elements LIST    values per frame, multiples of 32 up to 832; default 256,320,832\n"
	"  --window LIST      frames in flight, powers of two up to 128; default 16,64,128\n"
	"  --pipeline LIST    fused, staged or both; default fused\n"
	"  --threads LIST     jobs at once, 1 to 4, with a thread of each worker for each;\n"
	"                     default 1,2\n"
	"  --family LIST      ipv4, ipv6 or both, without DEV; default ipv4\n"
	"  --vector N         values that each worker sums in a round; default 1048576\n"
	"  --rounds R         rounds, 1 to 1000, in each of which every setting takes its turn;\n"
	"                     default 3\n"
	"The datapath sums as fpisa load attaches it, and every sum is checked. CPU time is given per GB contributed. "
	"Over\n"
	"veth it is the time of the kernel threads that poll the aggregator's ports, and of a worker's process and "
	"the\n"
	"thread that polls its link. With DEV it is the time of the XDP programs, and each worker prints that of its\n"
	"process.\n"
	"The line \"best:\" gives options of fpisa job add: among the settings within 5% of the most goodput, those "
	"that\n"
	"take the least CPU time. The bench needs root. With DEV it loads the datapath there for its duration.\n";

const char bench_worker_help[] =
	"Serve as a worker of fpisa bench wire DEV --workers ... at ADDR. Give the same options except DEV, --workers "
	"and\n"
	"--address. The worker waits a minute for each job.\n"
	"  --elements LIST, --window LIST, --pipeline LIST, --threads LIST, --vector N,\n"
	"  --rounds R         as for fpisa bench wire\n";

static int add_to(const char *what, const char *said, struct bench_list *l, uint32_t v)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->v[i] == v)
			return refuse(BAD_USAGE, "%s: %s is given twice", what, said);
	if (l->n == MAX_SIZES)
		return refuse(BAD_USAGE, "%s: more than %d values are not supported; list fewer", what, MAX_SIZES);
	l->v[l->n++] = v;
	return 0;
}

/*
 * Parse "A,B". The numbers are from 1 to max, and must be powers of two if `powers` is set. The function changes the
 * text.
 */
static int parse_list(const char *what, char *text, uint64_t max, bool powers, struct bench_list *l)
{
	uint64_t n;
	int err;

	l->n = 0;
	for (char *rest = NULL, *at = strtok_r(text, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
		err = parse_number(what, at, 1, max, &n);
		if (err)
			return err;
		if (powers && n & (n - 1))
			return refuse(BAD_USAGE, "%s: %s is not a power of two", what, at);
		err = add_to(what, at, l, (uint32_t)n);
		if (err)
			return err;
	}
	return l->n ? 0 : refuse(BAD_USAGE, "%s: the list is empty; give at least one value", what);
}

/* Parse a list of names, "A,B". The function changes the text. */
static int parse_names(const char *what, char *text, const struct name *names, struct bench_list *l)
{
	int err, id;

	l->n = 0;
	for (char *rest = NULL, *at = strtok_r(text, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
		err = parse_name(what, at, names, &id);
		if (err)
			return err;
		err = add_to(what, at, l, (uint32_t)id);
		if (err)
			return err;
	}
	return l->n ? 0 :
		      refuse(BAD_USAGE, "%s: the list is empty; give %s, %s or both", what, names[0].name,
			     names[1].name);
}

/* Check ADDR[@DEV]. job/spec.c parses the text again after the datapath is loaded. */
static int check_worker(const char *text)
{
	const char *dev = strchr(text, '@');
	char host[ADDRESS_LEN];
	__be32 address;
	int err;

	if (strchr(text, ':'))
		return refuse(BAD_USAGE, "--workers: %s has a port, which is not supported; leave the port out", text);
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "@"), text);
	err = parse_machine_ipv4("--workers", host, &address);
	if (!err && dev && !if_nametoindex(dev + 1))
		err = refuse(-ENODEV, "%s: no such interface; see ip link", dev + 1);
	return err;
}

/* Take a number of processes or the addresses of machines. `text` is NULL if --workers is not given. */
static int take_workers(struct bench_wire *w, char *text)
{
	uint64_t number;
	int err;

	if (!w->devs) {
		if (w->aggregator)
			return refuse(BAD_USAGE, "--address requires DEV; name the interfaces towards the workers");
		err = text ? parse_number("--workers", text, 2, PROCESSES_MAX, &number) : 0;
		w->workers = text && !err ? (uint32_t)number : w->workers;
		return err;
	}
	w->workers = 0;
	for (char *rest = NULL, *at = strtok_r(text ?: "", ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
		err = check_worker(at);
		if (err)
			return err;
		if (w->workers == FPISA_MAX_WORKERS)
			return refuse(BAD_USAGE, "--workers: more than %d workers are not supported; list fewer",
				      FPISA_MAX_WORKERS);
		w->address[w->workers++] = at;
	}
	return w->workers ?
		       0 :
		       refuse(BAD_USAGE, "bench: DEV requires --workers ADDR[@DEV],..., the addresses of the workers");
}

/* Parse the options. The operand of `bench worker` is an address, and `bench worker` does not accept --workers. */
static int parse(struct bench_wire *w, int argc, char **argv, bool worker)
{
	enum {
		OPT_WORKERS = OPT_VERB,
		OPT_ELEMENTS,
		OPT_WINDOW,
		OPT_PIPELINE,
		OPT_FAMILY,
		OPT_THREADS,
		OPT_VECTOR,
		OPT_ROUNDS,
		OPT_ADDRESS,
	};
	static const struct option options[] = {COMMON_OPTIONS,
						JSON_OPTION,
						{"workers", required_argument, NULL, OPT_WORKERS},
						{"elements", required_argument, NULL, OPT_ELEMENTS},
						{"window", required_argument, NULL, OPT_WINDOW},
						{"pipeline", required_argument, NULL, OPT_PIPELINE},
						{"family", required_argument, NULL, OPT_FAMILY},
						{"threads", required_argument, NULL, OPT_THREADS},
						{"vector", required_argument, NULL, OPT_VECTOR},
						{"rounds", required_argument, NULL, OPT_ROUNDS},
						{"address", required_argument, NULL, OPT_ADDRESS},
						{0}};
	__u32 ifindex[DATAPATH_MAX_INTERFACES];
	char *workers = NULL;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		switch (opt) {
		case OPT_WORKERS:
			workers = optarg;
			break;
		case OPT_ADDRESS:
			err = parse_machine_ipv4("--address", optarg, &w->aggregator);
			break;
		case OPT_ELEMENTS:
			err = parse_sizes(&w->elements, optarg) ? BAD_USAGE : 0;
			break;
		case OPT_WINDOW:
			err = parse_list("--window", optarg, MAX_WINDOW, true, &w->window);
			break;
		case OPT_PIPELINE:
			err = parse_names("--pipeline", optarg, pipeline_names, &w->pipeline);
			break;
		case OPT_FAMILY:
			err = parse_names("--family", optarg, bench_families, &w->family);
			break;
		case OPT_THREADS:
			err = parse_list("--threads", optarg, BENCH_WIRE_THREADS, false, &w->threads);
			break;
		case OPT_VECTOR:
			err = parse_number("--vector", optarg, FPISA_MAX_ELEMENTS, MAX_VECTOR, &w->vector);
			break;
		case OPT_ROUNDS:
			err = parse_number("--rounds", optarg, 1, 1000, &w->rounds);
			break;
		default:
			err = common_option(&w->c, opt);
		}
	}
	w->dev = argv + optind;
	w->devs = argc - optind;
	if (!err && worker && (workers || w->aggregator))
		err = refuse(
			BAD_USAGE,
			"bench worker does not support --workers and --address; give these options to fpisa bench wire");
	if (!err && (worker || w->devs) && (w->family.n > 1 || w->family.v[0] == 6))
		err = refuse(BAD_USAGE, "--family: give it without DEV; with DEV the frames use IPv4");
	if (err || worker)
		return err;
	return find_interfaces(w->dev, w->devs, ifindex) ?: take_workers(w, workers);
}

static int add_setting(struct bench_wire *w, struct bench_setting s)
{
	s.goodput = calloc(w->rounds, sizeof(double));
	s.aggregator = calloc(w->rounds, sizeof(double));
	s.worker = calloc(w->rounds, sizeof(double));
	w->setting[w->settings++] = s;
	return s.goodput && s.aggregator && s.worker ? 0 : fail(-ENOMEM, NULL, "bench: cannot store the measurements");
}

static int add_settings(struct bench_wire *w)
{
	uint32_t all = w->elements.n * w->window.n * w->pipeline.n * w->threads.n * w->family.n;
	int err = 0;

	if (all > BENCH_WIRE_SETTINGS)
		return refuse(BAD_USAGE,
			      "bench: these lists give %u settings, but at most %d are supported; shorten a list", all,
			      BENCH_WIRE_SETTINGS);
	for (uint32_t i = 0; !err && i < all; i++) {
		uint32_t k = i;
		struct bench_setting s = {0};

		s.family = w->family.v[k % w->family.n];
		k /= w->family.n;
		s.window = w->window.v[k % w->window.n];
		k /= w->window.n;
		s.elements = w->elements.elements[k % w->elements.n];
		k /= w->elements.n;
		s.threads = w->threads.v[k % w->threads.n];
		k /= w->threads.n;
		s.pipeline = w->pipeline.v[k];
		err = add_setting(w, s);
	}
	return err;
}

static int sweep(struct bench_wire *w)
{
	int err = w->devs ? bench_nic_open(w) : bench_wire_open(w);

	for (uint64_t round = 0; !err && round < w->rounds; round++)
		for (uint32_t i = 0; !err && i < w->settings; i++, w->run++) {
			progress_share("bench wire", w->run, w->rounds * w->settings);
			err = w->devs ? bench_nic_round(w, &w->setting[i], round) :
					bench_wire_round(w, &w->setting[i], round);
		}
	progress_end();
	if (w->devs)
		bench_nic_close(w);
	else
		bench_wire_close(w);
	if (!err)
		bench_wire_choose(w);
	return err;
}

static struct bench_wire wire = {
	.workers = 4,
	.rounds = 3,
	.vector = 1 << 20,
	.elements = {3, {256, 320, FPISA_MAX_ELEMENTS}},
	.window = {3, {16, 64, 128}},
	.threads = {2, {1, 2}},
	.pipeline = {1, {FPISA_PIPELINE_FUSED}},
	.family = {1, {4}},
	.dp = {.lock = -1},
	.entry_fd = -1,
	.stats_fd = -1,
};

static void release(struct bench_wire *w)
{
	for (uint32_t i = 0; i < w->settings; i++) {
		free(w->setting[i].goodput);
		free(w->setting[i].aggregator);
		free(w->setting[i].worker);
	}
}

static int prepare(int argc, char **argv, bool worker)
{
	int err = parse(&wire, argc, argv, worker);

	return err ?: add_settings(&wire);
}

/* Finish a verb whose only result is the wire table. */
static int finish(int err)
{
	if (!err && wire.c.json)
		err = print_json(bench_wire_json(&wire), true);
	else if (!err)
		bench_wire_text(&wire);
	release(&wire);
	return err;
}

int verb_bench_wire(int argc, char **argv)
{
	int err;

	wire.c = (struct common)COMMON_INIT;
	err = prepare(argc, argv, false);
	if (!err)
		err = sweep(&wire);
	return finish(err);
}

int verb_bench(int argc, char **argv)
{
	struct json_object *both = NULL;
	int err;

	/* The word after `bench` may be a misspelt verb. */
	if (argc > 1 && *argv[1] != '-' && !if_nametoindex(argv[1]))
		return refuse(-ENODEV,
			      "%s is neither arith, wire, worker nor an interface; see ip link and fpisa help bench",
			      argv[1]);
	wire.c = (struct common)COMMON_INIT;
	err = prepare(argc, argv, false);
	if (!err && wire.c.json)
		both = json_object_new_object();
	if (!err)
		err = bench_arith_default(both);
	if (!err && !both)
		putchar('\n');
	if (!err)
		err = sweep(&wire);
	if (!err && both) {
		json_object_object_add(both, "wire", bench_wire_json(&wire));
		err = print_json(both, true);
		both = NULL;
	} else if (!err) {
		bench_wire_text(&wire);
	}
	json_object_put(both);
	release(&wire);
	return err;
}

int verb_bench_worker(int argc, char **argv)
{
	__be32 address;
	int err;

	wire.c = (struct common)COMMON_INIT;
	err = prepare(argc, argv, true);
	if (!err)
		err = wire.devs == 1 ? parse_ipv4("bench worker", wire.dev[0], &address) :
				       refuse(BAD_USAGE, "bench worker requires the aggregator's address");
	if (!err)
		err = bench_worker_sweep(&wire, wire.dev[0]);
	if (!err)
		bench_wire_choose(&wire);
	return finish(err);
}
