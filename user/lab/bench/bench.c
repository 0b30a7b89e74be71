// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa bench arith` measures the kernel's time for a contribution in
 * every mode, format and pipeline, in comparison with SwitchML's integer
 * addition. bench.h has the overview.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "lab/testbed/lab.h"

#define DEFAULT_ROUNDS 25
#define DEFAULT_ROWS 8 /* rows of a raw file, as in the sample of gradients */

const char bench_arith_help[] =
	"  --rounds R         rounds, 9 to 10000, in each of which every configuration takes its\n"
	"                     turn; default 25\n"
	"  --cpus N           number of CPUs, 1 or 2; with 2, also measure two CPUs on different\n"
	"                     slots; default 2 if there are two\n"
	"  --gradients FILE   file of values, raw fp32 or .npy, on which the modes are measured too\n"
	"  --rows N           rows of a raw file, one per worker; default 8\n"
	"  --seed S           seed of the random values; default the time\n"
	"The bench runs the programs of a port by BPF_PROG_TEST_RUN, one frame per run: parser, checks, checksum, slot, "
	"pipeline,\n"
	"counters. Frames have 256 values, of fp64 in mode exact 32 to 128. Random values are fresh for every frame, "
	"with\n"
	"exponents that differ by up to 40. All figures are ns per element: the median over the rounds of each round's "
	"median,\n"
	"with quartiles. The bench needs root and does not change the machine.\n"
	"  touch_ns           reading the payload only\n"
	"  int32_add_ns       adding 32-bit integers to a row, SwitchML's arithmetic, behind a parser\n"
	"                     without checksum and protocol. touch and int32_add are the fastest of\n"
	"                     several programs by each compiler\n"
	"  empty_ns           a program that does nothing; every figure includes it\n"
	"  MODE_add_ns        a contribution of fp32 to a round of 8, neither its first nor its last,\n"
	"                     fused. staged_add_ns: mode fpisa, nine programs\n"
	"  readout_CLZ_ns     time of the last contribution of a round beyond an add, by the\n"
	"                     leading-zero count: bits, or lpm32, the paper's trie\n"
	"  frame_ns           ns per frame. known: a frame that was added before, so all work except\n"
	"                     the add; known_tagged: the same for a job with a token; known_live:\n"
	"                     known as a driver delivers it, in a page that exists, by the\n"
	"                     kernel's receive path; add_live_estimate: known_live plus the excess\n"
	"                     of fpisa_add_ns over known. No figure includes a veth's copy\n"
	"  configurations     by format, mode, pipeline, leading-zero count and workers: first\n"
	"                     contribution, add, last contribution, read-out, and a whole round\n"
	"                     of all contributions and the read-out\n"
	"  exact64            fused exact sums of fp64 over those of fp32: add_ratio, readout_ratio.\n"
	"                     set_over_add: the first contribution of fp64 over an add\n"
	"  cpus               work of 2 CPUs over that of one: contributions to different slots, a\n"
	"                     program that stays in registers (spin), and their ratio\n";

static int parse(struct bench_options *o, int argc, char **argv)
{
	enum { OPT_ROUNDS = OPT_VERB, OPT_CPUS, OPT_GRADIENTS, OPT_ROWS, OPT_SEED };
	static const struct option options[] = {COMMON_OPTIONS,
						JSON_OPTION,
						{"rounds", required_argument, NULL, OPT_ROUNDS},
						{"cpus", required_argument, NULL, OPT_CPUS},
						{"gradients", required_argument, NULL, OPT_GRADIENTS},
						{"rows", required_argument, NULL, OPT_ROWS},
						{"seed", required_argument, NULL, OPT_SEED},
						{0}};
	uint64_t number;
	int opt, err = 0;

	*o = (struct bench_options){.c = COMMON_INIT, .rounds = DEFAULT_ROUNDS, .seed = (uint64_t)time(NULL)};
	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		switch (opt) {
		case OPT_ROUNDS:
			err = parse_number("--rounds", optarg, BENCH_MIN_ROUNDS, BENCH_MAX_ROUNDS, &o->rounds);
			break;
		case OPT_CPUS:
			err = parse_number("--cpus", optarg, 1, 2, &number);
			o->cpus = (uint32_t)number;
			break;
		case OPT_GRADIENTS:
			o->gradients = optarg;
			break;
		case OPT_ROWS:
			err = parse_number("--rows", optarg, 1, 1 << 20, &number);
			o->rows = (uint32_t)number;
			break;
		case OPT_SEED:
			err = parse_number("--seed", optarg, 0, UINT64_MAX, &o->seed);
			break;
		default:
			err = common_option(&o->c, opt);
		}
	}
	if (!err && optind < argc)
		err = refuse(BAD_USAGE, "bench arith: unexpected argument '%s'; see fpisa help bench arith",
			     argv[optind]);
	if (!err && o->rows && !o->gradients)
		err = refuse(BAD_USAGE, "bench arith: --rows requires --gradients FILE");
	return err;
}

static int open_file(struct bench_arith *a)
{
	struct gradients *g = &a->file;
	int err;

	if (!a->o.gradients)
		return 0;
	err = gradients_open(g, a->o.gradients, FPISA_FP32);
	if (!err)
		err = gradients_split(g, a->o.rows ?: g->rows ?: DEFAULT_ROWS, "--rows");
	if (!err && g->elements < BENCH_ELEMENTS)
		err = refuse(-EINVAL, "%s: its rows have %llu values, but a frame takes %d; give longer rows", g->path,
			     (unsigned long long)g->elements, BENCH_ELEMENTS);
	a->stored = (struct bench_source){.random = a->o.seed, .file = g};
	return err;
}

/* Choose the number of CPUs to measure. */
static int choose_cpus(struct bench_arith *a)
{
	int there = bench_cpus(a->cpu);

	if (a->o.cpus == 2 && there < 2)
		return refuse(-EINVAL, "--cpus: this process may use only one CPU; give --cpus 1");
	if (!a->o.cpus)
		a->o.cpus = there < 2 ? 1 : 2;
	for (int i = 0; a->o.cpus == 2 && i < BENCH_SCALINGS; i++) {
		a->scaling[i] = calloc(a->o.rounds, sizeof(double));
		if (!a->scaling[i])
			return fail(-ENOMEM, NULL, "bench: cannot store the measurements");
	}
	return 0;
}

static int measure(struct bench_arith *a)
{
	int err = 0;

	for (int i = 0; i < BENCH_KNOWN; i++) {
		a->known[i] = calloc(a->o.rounds, sizeof(double));
		if (!a->known[i])
			return fail(-ENOMEM, NULL, "bench: cannot store the measurements");
	}
	for (uint64_t round = 0; !err && round < a->o.rounds; round++) {
		progress_share("bench arith", round, a->o.rounds);
		err = bench_reference_round(&a->reference, &a->random, round);
		if (!err)
			err = bench_datapath_round(a, round);
		if (!err)
			err = bench_known_round(a, round);
		if (!err && a->o.cpus == 2)
			err = bench_cpus_round(a, round);
	}
	progress_end();
	bench_reference_choose(&a->reference, a->o.rounds);
	return err;
}

static struct bench_arith arith = {.entry_fd = -1, .dp = {.lock = -1}};

static int run(struct bench_arith *a)
{
	int err;

	a->random.random = a->o.seed;
	err = open_file(a);
	if (!err)
		err = choose_cpus(a);
	if (!err)
		err = lab_enter("bench");
	if (!err)
		err = bench_reference_open(&a->reference, &a->random, a->o.rounds);
	progress_step("bench arith: loading the datapath");
	if (!err)
		err = bench_datapath_open(a);
	return err ?: measure(a);
}

static void release(struct bench_arith *a)
{
	bench_datapath_close(a);
	bench_reference_close(&a->reference);
	gradients_close(&a->file);
	for (int i = 0; i < BENCH_SCALINGS; i++)
		free(a->scaling[i]);
	for (int i = 0; i < BENCH_KNOWN; i++)
		free(a->known[i]);
}

int verb_bench_arith(int argc, char **argv)
{
	int err;

	err = parse(&arith.o, argc, argv);
	if (err)
		return err;
	err = run(&arith);
	if (!err && arith.o.c.json)
		err = print_json(bench_arith_json(&arith), true);
	else if (!err)
		bench_arith_text(&arith);
	release(&arith);
	return err;
}

int bench_arith_default(struct json_object *into)
{
	int err;

	arith.o = (struct bench_options){.rounds = BENCH_MIN_ROUNDS, .seed = (uint64_t)time(NULL)};
	err = run(&arith);
	if (!err && into)
		json_object_object_add(into, "arith", bench_arith_json(&arith));
	else if (!err)
		bench_arith_text(&arith);
	release(&arith);
	return err;
}
