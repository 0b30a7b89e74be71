// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa bench arith: what a contribution costs the kernel, in every mode,
 * format and pipeline, beside the integer addition that SwitchML makes do
 * with. bench.h has the overview.
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
#define DEFAULT_ROWS 8 /* of a raw file, as the sample of gradients has */

const char bench_arith_help[] =
	"  --rounds R         rounds, in each of which all configurations take their turn;\n"
	"                     9 to 10000, default 25\n"
	"  --cpus N           1 or 2: also what two CPUs do on different slots; default 2\n"
	"                     where there are two\n"
	"  --gradients FILE   the modes once more on values of a file: raw fp32, or .npy\n"
	"  --rows N           rows of a raw file, one a worker; default 8\n"
	"  --seed S           of the random values; by default the time\n"
	"The programs that a port runs, by BPF_PROG_TEST_RUN, one frame a run: parser,\n"
	"checks, checksum, slot, pipeline, counters. Frames of 256 values; random ones,\n"
	"fresh for every frame, have exponents that differ by up to 40. All figures are ns\n"
	"an element, medians over the rounds of each round's median, with quartiles.\n"
	"Nothing of the machine is changed; it needs root.\n"
	"  touch_ns           reading the payload, no more\n"
	"  int32_add_ns       adding 32-bit integers to a row, SwitchML's arithmetic, behind\n"
	"                     a parser alone: no checksum, no protocol. Of touch and of this\n"
	"                     there are several programs by each compiler; the fastest counts\n"
	"  empty_ns           a program that does nothing: every figure holds as much\n"
	"  MODE_add_ns        a contribution of fp32 to a round of 8 that is neither its first\n"
	"                     nor its last; fused. staged_add_ns: mode fpisa, nine programs\n"
	"  readout_CLZ_ns     what the last contribution of a round takes beyond an add, by\n"
	"                     the leading-zero count: bits, or lpm32, the paper's trie\n"
	"  frame_ns           ns a frame: known, one that was taken before, so all but the\n"
	"                     add; known_tagged, the same of a job with a token;\n"
	"                     known_live, as a driver hands the first over, in a page\n"
	"                     that is there, by the kernel's way in and out; add_live_estimate,\n"
	"                     what an add would take so: known_live and what fpisa_add_ns has\n"
	"                     beyond known. A veth's copy is in none of them\n"
	"  configurations     of each, by format, mode, pipeline, leading-zero count and\n"
	"                     workers: first contribution, add, last one, read-out, and a\n"
	"                     whole round: all contributions of all workers and the read-out\n"
	"  cpus               programs' work of 2 CPUs over that of one: contributions to\n"
	"                     different slots, a program that stays in registers (spin),\n"
	"                     and the first over the second\n";

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
		err = refuse(BAD_USAGE, "bench arith: what is '%s'?", argv[optind]);
	if (!err && o->rows && !o->gradients)
		err = refuse(BAD_USAGE, "--rows: of a file; give --gradients FILE too");
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
		err = refuse(-EINVAL, "%s: rows of %llu values; a frame takes %d", g->path,
			     (unsigned long long)g->elements, BENCH_ELEMENTS);
	a->stored = (struct bench_source){.random = a->o.seed, .file = g};
	return err;
}

/* How many CPUs to measure. */
static int choose_cpus(struct bench_arith *a)
{
	int there = bench_cpus(a->cpu);

	if (a->o.cpus == 2 && there < 2)
		return refuse(-EINVAL, "--cpus: this process may use one CPU alone");
	if (!a->o.cpus)
		a->o.cpus = there < 2 ? 1 : 2;
	for (int i = 0; a->o.cpus == 2 && i < BENCH_SCALINGS; i++) {
		a->scaling[i] = calloc(a->o.rounds, sizeof(double));
		if (!a->scaling[i])
			return fail(-ENOMEM, NULL, "bench");
	}
	return 0;
}

static int measure(struct bench_arith *a)
{
	int err = 0;

	for (int i = 0; i < BENCH_KNOWN; i++) {
		a->known[i] = calloc(a->o.rounds, sizeof(double));
		if (!a->known[i])
			return fail(-ENOMEM, NULL, "bench");
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
