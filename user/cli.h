/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the verbs of the CLI share: errors, strict parsing, names of the
 * parameters, output. main.c holds the table of verbs; one file a verb.
 *
 * A verb gets argv from its own last word on and returns 0, -errno after it
 * has reported the error, or BAD_USAGE, upon which main() adds the verb's
 * usage line. Only main() makes exit codes of these: 0, 1 and 2.
 */
#ifndef FPISA_CLI_H
#define FPISA_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <linux/types.h>

#define BAD_USAGE 1

int verb_load(int argc, char **argv);
int verb_unload(int argc, char **argv);
int verb_upgrade(int argc, char **argv);
int verb_status(int argc, char **argv);
int verb_job_add(int argc, char **argv);
int verb_job_list(int argc, char **argv);
int verb_job_show(int argc, char **argv);
int verb_job_del(int argc, char **argv);
int verb_job_shrink(int argc, char **argv);
int verb_config_check(int argc, char **argv);
int verb_config_apply(int argc, char **argv);
int verb_stats(int argc, char **argv);
int verb_slots(int argc, char **argv);
int verb_resources(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_histogram(int argc, char **argv);
int verb_demo(int argc, char **argv);
int verb_soak(int argc, char **argv);
int verb_analyze(int argc, char **argv);
int verb_tables(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_bench_arith(int argc, char **argv);
int verb_bench_wire(int argc, char **argv);
int verb_bench_worker(int argc, char **argv);

extern const char soak_help[];
extern const char demo_help[], analyze_help[], tables_help[], bench_arith_help[], bench_wire_help[], bench_worker_help[];

/* -- errors ------------------------------------------------------------ */

/* "fpisa: MESSAGE: strerror; HINT" on stderr; hint may be NULL. Returns err, a negative errno. */
__attribute__((format(printf, 3, 4))) int fail(int err, const char *hint, const char *fmt, ...);

/* "fpisa: MESSAGE" on stderr, for errors that say it all themselves. Returns err. */
__attribute__((format(printf, 2, 3))) int refuse(int err, const char *fmt, ...);

/* From here on messages begin with a place, FILE:LINE, which must stay; NULL: no more. */
void report_at(const char *place);

/* From here on what cause() returns, unless that is NULL, is reported in the place of any error: it led to it. */
void report_cause(const char *(*cause)(void));

/* The same with "warning: ". */
__attribute__((format(printf, 1, 2))) void warning(const char *fmt, ...);

/* -- options ----------------------------------------------------------- */

/* Options that every verb takes. */
struct common {
	const char *pin; /* --pin, else $FPISA_PIN, else NULL */
	bool json;
};

enum {
	OPT_PIN = 0x100,
	OPT_JSON,
	OPT_VERBOSE,
	OPT_VERB, /* first of a verb's own options */
};

#define COMMON_OPTIONS                                                                         \
	{ "pin", required_argument, NULL, OPT_PIN }, { "verbose", no_argument, NULL, OPT_VERBOSE }
#define JSON_OPTION { "json", no_argument, NULL, OPT_JSON }

#define COMMON_INIT { .pin = default_pin() }
const char *default_pin(void);

/* getopt_long(), but '?', reported, for an option that is given twice or whose name is cut short. */
int next_option(int argc, char **argv, const struct option *options);

/* Takes a common option, or '?' after next_option() has complained. 0 or BAD_USAGE. */
int common_option(struct common *c, int opt);

/* next_option() of a verb that takes --json and no option of its own. Leaves optind at the operands. */
int common_options(struct common *c, int argc, char **argv);

/* Whole string, decimal, min..max; else says so of `what` and returns BAD_USAGE. */
int parse_number(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out);

/* A share of frames, for fault injection: 0 to 0.9. */
int parse_share(const char *what, const char *s, double *out);

/* 1 to 16 hexadecimal digits, an optional 0x before them. */
int parse_hex(const char *what, const char *s, uint64_t *out);

/* "0,2-5", each once, at most `max` of them, in this order. */
int parse_cpus(const char *what, const char *s, __u32 *cpu, __u32 max, __u32 *n);

/* Dotted quad. */
int parse_address(const char *what, const char *s, __be32 *out);

/* The same of a machine that others can reach: no group, broadcast or loopback. */
int parse_machine(const char *what, const char *s, __be32 *out);

/* -- names of the parameters -------------------------------------------- */

struct name {
	int id;
	const char *name;
};

extern const struct name mode_names[], rounding_names[], pipeline_names[], clz_names[], format_names[],
	fanout_names[], op_names[], xdp_mode_names[], transport_names[];
extern const struct name attach_mode_names[]; /* of those, what load offers */

const char *name_of(const struct name *names, int id);
int parse_name(const char *what, const char *s, const struct name *names, int *id);

/* -- output ------------------------------------------------------------ */

#define ADDRESS_LEN 16
#define RANKS_LEN 256
#define CPUS_LEN 512

/* "10.0.0.1" */
const char *address_text(__be32 addr, char buf[ADDRESS_LEN]);

/* "0,2-5" of a bitmap of ranks, "-" of none. */
const char *ranks_text(uint64_t ranks, char buf[RANKS_LEN]);

/* "0,1" */
const char *cpus_text(const __u32 *cpu, __u32 n, char buf[CPUS_LEN]);

/* Prints `text` from column `column` on, wrapped before column 80, and ends the line. */
void print_wrapped(int column, const char *text);

/* Prints and releases a JSON value: one line, or indented. */
struct json_object;
int print_json(struct json_object *o, bool one_line);

/* Members of a JSON object; a string may be NULL. */
void json_add_string(struct json_object *o, const char *key, const char *value);
void json_add_number(struct json_object *o, const char *key, uint64_t value);

/* Nine digits; null for what JSON has no number for. */
struct json_object *json_double(double x);
void json_add_double(struct json_object *o, const char *key, double x);

/* JSON array of the ranks in a bitmap. */
struct json_object *ranks_json(uint64_t ranks);

#endif
