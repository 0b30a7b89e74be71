// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa analyze` sums the values that workers would send in each mode, without sending them. No privileges
 * are needed. analyze.h has the overview.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze.h"
#include "cli/names.h"
#include "cli/options.h"
#include "cli/report.h"

#define DEFAULT_ORDERS 100

#define MODES FPISA_MODE_NAMES(FPISA_NAME, ", ")

const char analyze_help[] =
	"  FILE...            files of raw values, or .npy of f2, f4 or f8\n"
	"  --workers N        rows of each file, one per worker, 1 to 64; default the first dimension\n"
	"                     of a .npy [workers, elements], else one row per file, and each\n"
	"                     file is a worker\n"
	"  --raw F            format of raw files: fp32 (default), fp16, bf16, fp64, e4m3,\n"
	"                     e5m2; little-endian\n"
	"  --format F         format of the sums, to which values are rounded to nearest; default fp32\n"
	"  --mode LIST        " MODES "; default all that support the format\n"
	"  --rounding R       down or nearest; default as for a job: nearest for fpisa64 and exact,\n"
	"                     down for the others\n"
	"  --orders R         random orders tried for each element; default 100\n"
	"  --seed S           seed of the orders; default 1\n"
	"  --plot PREFIX      draw PREFIX-ratio, -error and -source as .svg and .png, with gnuplot\n"
	"  --json             print one object\n"
	"An error is the distance from the exact sum in ulps of the correctly rounded sum, which itself is off by at "
	"most\n"
	"0.5. fpisa demo uses the same measure.\n"
	"  correct            sums that are correctly rounded\n"
	"  by order           sums whose bits depend on the order of addition\n"
	"  rounded            adds that lost bits to a right shift\n"
	"  overwritten        adds that discarded a mantissa\n"
	"  left-shifted       adds that shifted the incoming mantissa left\n"
	"  overflowed         adds that saturated\n"
	"  max/min            ratio of the workers' magnitudes of one element, if none is zero\n"
	"The sources of an error are right shifts (rounding), overwrites, saturation (left shift: no register "
	"saturates\n"
	"without one) and the last rounding (read-out). An element with an infinity or a NaN among its values does "
	"not have an\n"
	"error if the result is that of the exact sum. Otherwise it counts as one that left or entered the range, as "
	"does\n"
	"an overflow.\n";

enum {
	OPT_WORKERS = OPT_VERB,
	OPT_RAW,
	OPT_FORMAT,
	OPT_MODE,
	OPT_ROUNDING,
	OPT_ORDERS,
	OPT_SEED,
	OPT_PLOT,
};

static const struct option options[] = {
	{"workers", required_argument, NULL, OPT_WORKERS},
	{"raw", required_argument, NULL, OPT_RAW},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"mode", required_argument, NULL, OPT_MODE},
	{"rounding", required_argument, NULL, OPT_ROUNDING},
	{"orders", required_argument, NULL, OPT_ORDERS},
	{"seed", required_argument, NULL, OPT_SEED},
	{"plot", required_argument, NULL, OPT_PLOT},
	COMMON_OPTIONS,
	JSON_OPTION,
	{0},
};

/* -- options --------------------------------------------------------------- */

static int parse_modes(struct analyze_options *o, char *list)
{
	char *save = NULL, *word = strtok_r(list, ",", &save);
	int id, err;

	if (!word)
		return refuse(BAD_USAGE, "--mode: the list is empty; name at least one mode");
	for (; word; word = strtok_r(NULL, ",", &save)) {
		err = parse_name("--mode", word, mode_names, &id);
		if (err)
			return err;
		o->modes[id] = true;
	}
	return 0;
}

/* Parse the name of a floating-point format. The figures are not defined for other formats. */
static int parse_format(const char *what, int *format)
{
	struct fpisa_format f;
	int err = parse_name(what, optarg, format_names, format);

	if (err)
		return err;
	f = fpisa_format_of(*format);
	if (f.integer || f.shared)
		return refuse(BAD_USAGE,
			      "%s: values of %s do not have their own exponents; give a floating-point "
			      "format",
			      what, optarg);
	return 0;
}

static int parse_option(struct analyze_options *o, struct common *c, int opt)
{
	uint64_t number;
	int err;

	switch (opt) {
	case OPT_WORKERS:
		err = parse_number("--workers", optarg, 1, FPISA_MAX_WORKERS, &number);
		o->workers = number;
		return err;
	case OPT_RAW:
		return parse_format("--raw", &o->raw);
	case OPT_FORMAT:
		return parse_format("--format", &o->format);
	case OPT_MODE:
		return parse_modes(o, optarg);
	case OPT_ROUNDING:
		return parse_name("--rounding", optarg, rounding_names, &o->rounding);
	case OPT_ORDERS:
		return parse_number("--orders", optarg, 0, 1000000000, &o->orders);
	case OPT_SEED:
		return parse_number("--seed", optarg, 0, ~0ull, &o->seed);
	case OPT_PLOT:
		if (!*optarg)
			return refuse(BAD_USAGE, "--plot: the prefix is empty; give a path such as out/sums");
		o->plot = optarg;
		return 0;
	}
	return common_option(c, opt);
}

/* Choose the requested modes, or all modes that support the format. */
static int choose_modes(struct analyze_options *o)
{
	bool asked = false;

	for (int mode = 1; mode < FPISA_MODE_END; mode++)
		asked |= o->modes[mode];
	for (int mode = 1; mode < FPISA_MODE_END; mode++) {
		struct fpisa_format f = fpisa_register(o->format, mode, 1);
		bool exists = fpisa_family(f, mode) < FPISA_FAMILIES;

		if (!asked)
			o->modes[mode] = exists;
		else if (o->modes[mode] && !exists)
			return refuse(BAD_USAGE, "--mode: %s is not available in %s; leave that mode out",
				      name_of(mode_names, mode), name_of(format_names, o->format));
	}
	return 0;
}

static int parse(struct analyze_options *o, int argc, char **argv)
{
	struct common c = COMMON_INIT;
	int opt, err = 0;

	*o = (struct analyze_options){
		.format = FPISA_FORMAT_FP32,
		.raw = FPISA_FORMAT_FP32,
		.orders = DEFAULT_ORDERS,
		.seed = 1,
	};
	while (!err && (opt = next_option(argc, argv, options)) != -1)
		err = parse_option(o, &c, opt);
	if (!err)
		err = choose_modes(o);
	if (!err && optind == argc)
		err = refuse(BAD_USAGE, "analyze requires at least one file of values");
	o->json = c.json;
	return err;
}

/* -- inputs ---------------------------------------------------------------- */

/* Name the inputs without the directories that they have in common. */
static void name_inputs(struct analyze_input *in, uint32_t n)
{
	const char *first = in[0].files[0].path;
	size_t common = 0;

	for (size_t k = 0; first[k]; k++) {
		bool same = first[k] == '/';

		for (uint32_t i = 1; same && i < n; i++)
			same = !strncmp(in[i].files[0].path, first, k + 1);
		if (same)
			common = k + 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		const char *path = in[i].files[0].path + common;

		if (in[i].file_count > 1)
			snprintf(in[i].name, sizeof(in[i].name), "%s+%u", path, in[i].file_count - 1);
		else
			snprintf(in[i].name, sizeof(in[i].name), "%s", path);
	}
}

/* Combine files with one row each into one input. */
static int join_files(struct gradients *files, uint32_t n, struct analyze_input *in)
{
	if (n == 1)
		return refuse(-EINVAL,
			      "%s does not say how many rows it has; give --workers N, or a file for each worker",
			      files[0].path);
	if (n > FPISA_MAX_WORKERS)
		return refuse(-EINVAL,
			      "%s is one of %u files, each for one worker, but at most %u workers are supported; give "
			      "--workers N if each file has N rows",
			      files[0].path, n, FPISA_MAX_WORKERS);
	*in = (struct analyze_input){.files = files, .file_count = n, .workers = n};
	for (uint32_t i = 0; i < n; i++) {
		int err = gradients_split(&files[i], 1, "--workers");

		if (err)
			return err;
		if (files[i].elements != files[0].elements)
			return refuse(-EINVAL,
				      "%s has %llu values, but %s has %llu; files with one worker each must have the same "
				      "number of values",
				      files[i].path, (unsigned long long)files[i].elements, files[0].path,
				      (unsigned long long)files[0].elements);
	}
	in->elements = files[0].elements;
	return 0;
}

/* Make a separate input of each file. */
static int split_files(const struct analyze_options *o, struct gradients *files, uint32_t n, struct analyze_input *in)
{
	for (uint32_t i = 0; i < n; i++) {
		struct gradients *g = &files[i];
		int err;

		if (!o->workers && !g->rows)
			return refuse(-EINVAL, "%s does not say how many rows it has, but %s does; give --workers N",
				      g->path, files[0].path);
		err = gradients_split(g, o->workers ?: g->rows, "--workers");
		if (err)
			return err;
		if (g->rows > FPISA_MAX_WORKERS)
			return refuse(-EINVAL, "%s has %u rows, more than %u workers; save it as [workers, elements]",
				      g->path, g->rows, FPISA_MAX_WORKERS);
		in[i] = (struct analyze_input){.files = g, .file_count = 1, .workers = g->rows, .elements = g->elements};
	}
	return 0;
}

static int open_files(const struct analyze_options *o, char **path, struct gradients *files, uint32_t n,
		      struct analyze_input *in, uint32_t *inputs)
{
	bool join;
	int err;

	for (uint32_t i = 0; i < n; i++) {
		err = gradients_open(&files[i], path[i], fpisa_format_of(o->raw));
		if (err)
			return err;
	}
	join = !o->workers && !files[0].rows;
	*inputs = join ? 1 : n;
	err = join ? join_files(files, n, in) : split_files(o, files, n, in);
	if (!err)
		name_inputs(in, *inputs);
	return err;
}

int verb_analyze(int argc, char **argv)
{
	struct analyze_figures *figures = NULL;
	struct gradients *files = NULL;
	struct analyze_input *in = NULL;
	uint32_t n, inputs = 0;
	struct analyze_options o;
	int err;

	err = parse(&o, argc, argv);
	if (err)
		return err;
	n = argc - optind;
	files = calloc(n, sizeof(*files));
	in = calloc(n, sizeof(*in));
	figures = calloc(n, sizeof(*figures));
	if (!files || !in || !figures) {
		err = fail(-ENOMEM, NULL, "analyze: cannot store %zu files", (size_t)n);
		goto out;
	}
	err = open_files(&o, argv + optind, files, n, in, &inputs);
	if (!err && o.plot)
		err = analyze_plot_check(&o);
	if (err)
		goto out;
	for (uint32_t i = 0; i < inputs; i++)
		analyze_sum(&o, &in[i], &figures[i]);
	if (o.plot)
		err = analyze_plot(&o, in, figures, inputs);
	if (!err && o.json)
		err = analyze_json(&o, in, figures, inputs);
	else if (!err)
		analyze_report(&o, in, figures, inputs);
out:
	for (uint32_t i = 0; files && i < n; i++)
		gradients_close(&files[i]);
	free(files);
	free(in);
	free(figures);
	return err;
}
