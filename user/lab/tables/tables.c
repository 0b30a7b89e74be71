// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa tables` measures the errors of multiplication, reciprocal,
 * logarithm and square root, and compares the kernel's bits with those of user
 * space (appendix A of the paper, and include/fpisa/lab/tables.h).
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "datapath/log.h"
#include "lib/base/clock.h"
#include "tables.h"
#include "values/pack.h"

#define DEFAULT_SAMPLES 100000000
#define LIMIT 0.01 /* the limit in the paper, which calls an error below 1% low */
#define KERNEL_RUNS 40

const char tables_help[] =
	"  --samples N  random inputs of fp32 for each function; default 100000000\n"
	"  --seed S     seed of the random inputs; default the time\n"
	"Formats of 8 and 16 bits are tried with all inputs. Products of 8 bits are tried with all pairs. Products of\n"
	"16 bits are tried with all pairs of significands, which decide the relative error of normal results, and "
	"with\n"
	"2^20 random pairs of words.\n"
	"  error        worst relative error of the value before it is packed; below 1%\n"
	"  packed       worst relative error after rounding to the format; below 1%, or half\n"
	"               an ulp if the format's own rounding costs more (e4m3 1/17, e5m2 1/9).\n"
	"               Only normal results count: subnormal ones have fewer bits\n"
	"  ulp          worst error of packed results in units of the last place, subnormal\n"
	"               results included; 0.5 is the nearest value\n"
	"  nearest      share of results that are the nearest value to the exact one\n"
	"  wrong        results of the wrong kind (zero, infinity, NaN) or sign\n"
	"As root, the verb also compares random results of the kernel with those of user space. The exit status is 1 "
	"if a\n"
	"limit is missed, or a result is wrong or differs.\n";

static const struct name function_names[] = {
	{FPISA_MULTIPLY, "multiply"}, {FPISA_RECIPROCAL, "reciprocal"}, {FPISA_LOG2, "log2"}, {FPISA_SQRT, "sqrt"}, {0}};

static const enum fpisa_format_id formats[] = {FPISA_FORMAT_E4M3, FPISA_FORMAT_E5M2, FPISA_FORMAT_BF16,
					       FPISA_FORMAT_FP16, FPISA_FORMAT_FP32};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

struct kernel_check {
	uint64_t compared, differ;
	int err; /* the reason why the kernel was not compared */
};

struct options {
	struct common c;
	uint64_t samples, seed;
};

static int parse(struct options *o, int argc, char **argv)
{
	enum { OPT_SAMPLES = OPT_VERB, OPT_SEED };
	static const struct option options[] = {COMMON_OPTIONS,
						JSON_OPTION,
						{"samples", required_argument, NULL, OPT_SAMPLES},
						{"seed", required_argument, NULL, OPT_SEED},
						{0}};
	int opt, err = 0;

	*o = (struct options){.c = COMMON_INIT, .samples = DEFAULT_SAMPLES};
	o->seed = fpisa_clock_ns(CLOCK_REALTIME);
	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		if (opt == OPT_SAMPLES)
			err = parse_number("--samples", optarg, 1, 1ull << 40, &o->samples);
		else if (opt == OPT_SEED)
			err = parse_number("--seed", optarg, 0, UINT64_MAX, &o->seed);
		else
			err = common_option(&o->c, opt);
	}
	if (!err && optind < argc)
		err = refuse(BAD_USAGE, "tables: unexpected argument '%s'; see fpisa help tables", argv[optind]);
	return err;
}

/* -- the kernel ----------------------------------------------------------- */

static int compare_run(const struct fpisa_tables_bpf *k, enum fpisa_function fn, enum fpisa_format_id id, uint64_t seed,
		       uint64_t index, struct kernel_check *check)
{
	struct fpisa_run kernel = {.function = fn,
				   .format = id,
				   .rounding = FPISA_ROUND_NEAREST,
				   .count = FPISA_RUN_ITEMS},
			 user;
	int err;

	for (uint32_t i = 0; i < kernel.count; i++)
		tables_random(fn, fpisa_format_of(id), seed, index * FPISA_RUN_ITEMS + i, &kernel.item[i].a,
			      &kernel.item[i].b);
	user = kernel;
	tables_user_run(&user);
	err = tables_kernel_run(k, &kernel);
	if (err)
		return err;
	for (uint32_t i = 0; i < kernel.count; i++)
		check->differ += memcmp(&kernel.item[i], &user.item[i], sizeof(user.item[i])) != 0;
	check->compared += kernel.count;
	return 0;
}

static int compare_kernel(uint64_t seed, struct kernel_check *check)
{
	struct fpisa_tables_bpf *k;
	int err;

	memset(check, 0, sizeof(*check));
	log_start();
	err = tables_kernel_open(&k);
	if (err == -EPERM || err == -EACCES) {
		check->err = err;
		return 0;
	}
	if (err)
		return refuse(err, "tables: cannot load the program: %s; --verbose shows the verifier's log",
			      reason(err));
	for (int fn = 0; !err && fn < FPISA_FUNCTIONS; fn++)
		for (size_t i = 0; !err && i < FORMATS; i++)
			for (uint64_t run = 0; !err && run < KERNEL_RUNS; run++)
				err = compare_run(k, fn, formats[i], seed, run, check);
	tables_kernel_close(k);
	return err ? fail(err, NULL, "tables: cannot run the kernel's program") : 0;
}

/* -- output --------------------------------------------------------------- */

static const char *table_name(enum fpisa_table t)
{
	static const char *const names[] = {"products",	   "quarter squares", "reciprocals",
					    "log2(1+t)/t", "roots",	      "none"};

	return names[t];
}

static uint32_t entries(enum fpisa_table t)
{
	return t == FPISA_TABLES ? 0 : fpisa_table_entries(t);
}

/* Return the limit. For any function, half an ulp is the smallest bound on the error of a packed result. */
static double packed_limit(struct fpisa_format f)
{
	double half = 1 / (ldexp(1, f.mbits + 1) + 1);

	return half > LIMIT ? half * (1 + 1e-12) : LIMIT;
}

static bool within(struct fpisa_format f, const struct tables_errors *e)
{
	return e->value.error < LIMIT && e->packed.error < packed_limit(f) && !e->wrong;
}

static const char *where(char buf[32], enum fpisa_function fn, struct fpisa_format f, const struct tables_worst *w)
{
	int digits = 2 * f.bytes;

	if (w->error == 0)
		return "-";
	if (fn == FPISA_MULTIPLY)
		snprintf(buf, 32, "%0*x,%0*x", digits, w->a, digits, w->b);
	else
		snprintf(buf, 32, "%0*x", digits, w->a);
	return buf;
}

static int print_row(enum fpisa_function fn, enum fpisa_format_id id, const struct tables_errors *e)
{
	const struct fpisa_format f = fpisa_format_of(id);
	enum fpisa_table t = fpisa_table_of(fn, f);
	char at[32];

	printf("%-10s %-6s %-15s %7u %10llu  %-8.2e %-17s  %-8.2e %6.3f %8.4f%% %5llu\n", name_of(function_names, fn),
	       name_of(format_names, id), table_name(t), entries(t), (unsigned long long)e->inputs, e->value.error,
	       where(at, fn, f, &e->value), e->packed.error, e->ulps.error,
	       e->finite ? 100.0 * (double)e->nearest / (double)e->finite : 100.0, (unsigned long long)e->wrong);
	return flush_stdout("stdout");
}

static struct json_object *worst_json(enum fpisa_function fn, struct fpisa_format f, const struct tables_worst *w)
{
	struct json_object *o = json_object_new_object();
	char at[32];

	json_object_object_add(o, "error", json_object_new_double(w->error));
	json_add_string(o, "at", w->error == 0 ? NULL : where(at, fn, f, w));
	return o;
}

static struct json_object *row_json(enum fpisa_function fn, enum fpisa_format_id id, const struct tables_errors *e)
{
	const struct fpisa_format f = fpisa_format_of(id);
	enum fpisa_table t = fpisa_table_of(fn, f);
	struct json_object *o = json_object_new_object();

	json_add_string(o, "function", name_of(function_names, fn));
	json_add_string(o, "format", name_of(format_names, id));
	json_add_string(o, "table", t == FPISA_TABLES ? NULL : table_name(t));
	json_add_number(o, "entries", entries(t));
	json_add_number(o, "inputs", e->inputs);
	json_object_object_add(o, "relative", worst_json(fn, f, &e->value));
	json_object_object_add(o, "packed_relative", worst_json(fn, f, &e->packed));
	json_object_object_add(o, "packed_ulp", worst_json(fn, f, &e->ulps));
	json_add_number(o, "finite", e->finite);
	json_add_number(o, "nearest", e->nearest);
	json_add_number(o, "wrong", e->wrong);
	return o;
}

static struct json_object *kernel_json(const struct kernel_check *check)
{
	struct json_object *o;

	if (check->err)
		return NULL;
	o = json_object_new_object();
	json_add_number(o, "compared", check->compared);
	json_add_number(o, "differ", check->differ);
	return o;
}

static void print_end(double worst, const struct options *o, const struct kernel_check *check)
{
	printf("worst relative error %.2e (limit 1%%), seed %llu\n", worst, (unsigned long long)o->seed);
	if (check->err)
		printf("kernel: not compared: %s; run as root\n", strerror(-check->err));
	else
		printf("kernel: %llu results compared with user space, %llu differ\n",
		       (unsigned long long)check->compared, (unsigned long long)check->differ);
}

int verb_tables(int argc, char **argv)
{
	struct json_object *rows = NULL, *top;
	struct kernel_check check;
	struct options o;
	double worst = 0;
	bool good = true;
	int err;

	err = parse(&o, argc, argv);
	if (err)
		return err;
	tables_fill();
	err = compare_kernel(o.seed, &check);
	if (err)
		return err;
	if (o.c.json)
		rows = json_object_new_array();
	else
		printf("%-10s %-6s %-15s %7s %10s  %-8s %-17s  %-8s %6s %9s %5s\n", "function", "format", "table",
		       "entries", "inputs", "error", "at", "packed", "ulp", "nearest", "wrong");
	for (int fn = 0; fn < FPISA_FUNCTIONS; fn++)
		for (size_t i = 0; i < FORMATS; i++) {
			struct tables_errors e;

			err = tables_measure(fn, formats[i], o.samples, o.seed, &e);
			if (err) {
				json_object_put(rows);
				return fail(err, NULL, "tables: cannot start a thread");
			}
			worst = fmax(worst, e.value.error);
			good = good && within(fpisa_format_of(formats[i]), &e);
			if (rows)
				json_object_array_add(rows, row_json(fn, formats[i], &e));
			else if ((err = print_row(fn, formats[i], &e)))
				return err;
		}
	if (rows) {
		top = json_object_new_object();
		json_add_number(top, "seed", o.seed);
		json_object_object_add(top, "limit", json_object_new_double(LIMIT));
		json_object_object_add(top, "worst", json_object_new_double(worst));
		json_object_object_add(top, "kernel", kernel_json(&check));
		json_object_object_add(top, "functions", rows);
		err = print_json(top, false);
	} else {
		print_end(worst, &o, &check);
	}
	if (!err && (!good || check.differ))
		err = refuse(-ERANGE, "tables: an error exceeds its limit, or results are wrong or differ; see above");
	return err;
}
