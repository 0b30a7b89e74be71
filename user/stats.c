// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa stats [JOB]: the counters as sentences, all from the lists in
 * fpisa/verdict.h. JSON keys are the counters' names in bpftool's dump.
 */
#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "datapath.h"

static const struct {
	const char *name, *text;
} counters[] = {
#define X(name, text) { #name, text },
	FPISA_COUNTERS(X)
#undef X
};

static const struct {
	const char *name, *text;
	enum fpisa_verdict_class class;
} verdicts[] = {
#define X(name, class, text) { "v_" #name, text, FPISA_CLASS_##class },
	FPISA_VERDICTS(X)
#undef X
};

#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

_Static_assert(sizeof(struct fpisa_counters) == (COUNTERS + FPISA_VERDICT_COUNT) * sizeof(__u64),
	       "struct fpisa_counters is the two lists, in order");

/* struct fpisa_counters as an array: counters[], then verdicts[]. */
struct sample {
	__u64 value[COUNTERS + FPISA_VERDICT_COUNT];
	double when; /* seconds of the monotonic clock */
};

static int take(const struct datapath *dp, int job, struct sample *s)
{
	__u32 first = job < 0 ? 0 : job, last = job < 0 ? FPISA_MAX_JOBS : job;
	struct fpisa_counters c;
	struct timespec now;

	memset(s, 0, sizeof(*s));
	for (__u32 key = first; key <= last; key++) {
		int err = datapath_counters(dp, key, &c);

		if (err)
			return err;
		for (size_t i = 0; i < COUNTERS + FPISA_VERDICT_COUNT; i++)
			s->value[i] += ((const __u64 *)&c)[i];
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	s->when = now.tv_sec + now.tv_nsec * 1e-9;
	return 0;
}

static double rate(const struct sample *now, const struct sample *before, size_t i)
{
	/* A job that was made anew counts from zero. */
	if (now->value[i] < before->value[i] || now->when <= before->when)
		return 0;
	return (now->value[i] - before->value[i]) / (now->when - before->when);
}

static __u64 drops(const struct sample *s)
{
	__u64 n = 0;

	for (size_t i = FPISA_V_FIRST_DROP; i < FPISA_VERDICT_COUNT; i++)
		n += s->value[COUNTERS + i];
	return n;
}

/* -- text -------------------------------------------------------------- */

static void print_row(const char *name, const char *text, const struct sample *now,
		      const struct sample *before, size_t i)
{
	int column = printf("%-18s %15llu", name, (unsigned long long)now->value[i]);

	if (before)
		column += printf(" %12.0f", rate(now, before, i));
	column += printf("  ");
	print_wrapped(column, text);
}

static void print_text(int job, const struct sample *now, const struct sample *before)
{
	if (job < 0)
		printf("%-18s %15s%s\n", "all jobs", "total", before ? "   per second" : "");
	else
		printf("job %-14d %15s%s\n", job, "total", before ? "   per second" : "");
	for (size_t i = 0; i < COUNTERS; i++)
		print_row(counters[i].name, counters[i].text, now, before, i);
	puts("\nwhat became of the frames");
	for (size_t i = 0; i < FPISA_V_FIRST_DROP; i++)
		print_row(verdicts[i].name + 2, verdicts[i].text, now, before, COUNTERS + i);
	if (!drops(now)) {
		puts("\nno drops");
		return;
	}
	puts("\ndrops");
	for (size_t i = FPISA_V_FIRST_DROP; i < FPISA_VERDICT_COUNT; i++)
		if (now->value[COUNTERS + i])
			print_row(verdicts[i].name + 2, verdicts[i].text, now, before, COUNTERS + i);
}

/* -- JSON -------------------------------------------------------------- */

static const char *key_of(size_t i)
{
	return i < COUNTERS ? counters[i].name : verdicts[i - COUNTERS].name;
}

static int print_stats_json(int job, const struct sample *now, const struct sample *before, bool one_line)
{
	struct json_object *o = json_object_new_object(), *rates = json_object_new_object();

	json_object_object_add(o, "job", job < 0 ? NULL : json_object_new_int(job));
	for (size_t i = 0; i < COUNTERS + FPISA_VERDICT_COUNT; i++)
		json_add_number(o, key_of(i), now->value[i]);
	json_add_number(o, "drops", drops(now));
	if (!before) {
		json_object_put(rates);
		return print_json(o, one_line);
	}
	for (size_t i = 0; i < COUNTERS + FPISA_VERDICT_COUNT; i++)
		json_object_object_add(rates, key_of(i), json_object_new_double(rate(now, before, i)));
	json_object_object_add(o, "seconds", json_object_new_double(now->when - before->when));
	json_object_object_add(o, "per_second", rates);
	return print_json(o, one_line);
}

/* -- the verb ----------------------------------------------------------- */

static int parse_seconds(const char *s, double *seconds)
{
	char *end;

	*seconds = strtod(s, &end);
	if (!isdigit((unsigned char)*s) || *end || !(*seconds >= 0.05 && *seconds <= 86400))
		return refuse(BAD_USAGE, "--watch: '%s' is not a number of seconds from 0.05 to 86400", s);
	return 0;
}

static int watch(const struct datapath *dp, int job, double seconds, bool json)
{
	struct sample before, now;
	int err;

	err = take(dp, job, &before);
	while (!err) {
		usleep(seconds * 1e6);
		err = take(dp, job, &now);
		if (err)
			break;
		if (!json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[J", stdout);
		if (json)
			err = print_stats_json(job, &now, &before, true);
		else
			print_text(job, &now, &before);
		if (!json && !isatty(STDOUT_FILENO))
			puts("");
		if (fflush(stdout))
			err = fail(-errno, NULL, "stdout");
		before = now;
	}
	return err;
}

enum { OPT_WATCH = OPT_VERB };

int verb_stats(int argc, char **argv)
{
	static const struct option options[] = {
		{ "watch", optional_argument, NULL, OPT_WATCH }, COMMON_OPTIONS, JSON_OPTION, { 0 }
	};
	struct common c = COMMON_INIT;
	struct datapath dp;
	struct fpisa_job j;
	struct sample now;
	double seconds = 0;
	uint64_t number = 0;
	int opt, job = -1, err = 0;

	while (!err && (opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt != OPT_WATCH) {
			err = common_option(&c, opt);
			continue;
		}
		seconds = 1;
		/* getopt takes an optional argument only after '='. */
		if (!optarg && optind < argc && isdigit((unsigned char)*argv[optind]))
			optarg = argv[optind++];
		if (optarg)
			err = parse_seconds(optarg, &seconds);
	}
	if (err)
		return err;
	if (argc - optind > 1)
		return refuse(BAD_USAGE, "stats: one job, or none for all");
	if (optind < argc) {
		err = parse_number("job", argv[optind], 0, FPISA_MAX_JOBS - 1, &number);
		job = number;
	}
	if (err)
		return err;
	err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	if (job >= 0)
		err = datapath_job(&dp, job, &j);
	if (!err && seconds > 0)
		err = watch(&dp, job, seconds, c.json);
	else if (!err)
		err = take(&dp, job, &now);
	if (!err && c.json)
		err = print_stats_json(job, &now, NULL, false);
	else if (!err)
		print_text(job, &now, NULL);
	datapath_close(&dp);
	return err;
}
