// SPDX-License-Identifier: GPL-2.0-only
/* fpisa stats [JOB]: the counters (counters.c) as sentences. JSON keys are their names in bpftool's dump. */
#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "counters.h"
#include "job/job.h"
#include "lib/base/clock.h"
#include "prometheus.h"
#include "verbs.h"

struct sample {
	__u64 value[ALL_COUNTERS];
	__u32 cpus; /* number of CPUs to which frames of all jobs are steered */
	struct datapath_cpu cpu[FPISA_STEER_CPUS];
	double when; /* seconds of the monotonic clock */
};

static const char steered_text[] = "frames steered to this CPU",
		  left_text[] = "of them wait in its queue, or were dropped because it was full";

static int take(const struct datapath *dp, int job, struct sample *s)
{
	__u32 first = job < 0 ? 0 : job, last = job < 0 ? FPISA_MAX_JOBS : job;
	struct fpisa_counters c;
	int err;

	memset(s, 0, sizeof(*s));
	s->cpus = job < 0 ? dp->steering.cpus : 0;
	err = s->cpus ? datapath_steered(dp, s->cpu) : 0;
	if (err)
		return err;
	for (__u32 key = first; key <= last; key++) {
		err = datapath_counters(dp, key, &c);
		if (err)
			return err;
		for (size_t i = 0; i < ALL_COUNTERS; i++)
			s->value[i] += counter_get(&c, i);
	}
	s->when = fpisa_now() * 1e-9;
	return 0;
}

static double rate_of(const struct sample *now, const struct sample *before, __u64 n, __u64 was)
{
	/* A recreated job counts from zero. */
	return n < was || now->when <= before->when ? 0 : (n - was) / (now->when - before->when);
}

static double rate(const struct sample *now, const struct sample *before, size_t i)
{
	return rate_of(now, before, now->value[i], before->value[i]);
}

static __u64 drops(const struct sample *s)
{
	__u64 n = 0;

	for (__u32 i = 0; i < FPISA_VERDICT_COUNT; i++)
		n += fpisa_is_drop(i) ? s->value[COUNTERS + i] : 0;
	return n;
}

/* -- text -------------------------------------------------------------- */

static void print_row(const char *name, const char *text, const struct sample *now, const struct sample *before,
		      size_t i)
{
	int column = printf("%-18s %15llu", name, (unsigned long long)now->value[i]);

	if (before)
		column += printf(" %12.0f", rate(now, before, i));
	column += printf("  ");
	print_wrapped(column, text);
}

static void print_steering(const struct sample *now, const struct sample *before)
{
	puts("\nsteering");
	for (__u32 i = 0; i < now->cpus; i++) {
		const struct datapath_cpu *c = &now->cpu[i];
		int column = printf("cpu %-14u %15llu", c->cpu, (unsigned long long)c->sent);

		if (before)
			column += printf(" %12.0f", rate_of(now, before, c->sent, before->cpu[i].sent));
		column += printf("  ");
		print_wrapped(column, steered_text);
		if (c->left)
			print_wrapped(printf("%-18s %15llu%s  ", "", (unsigned long long)c->left,
					     before ? "             " : ""),
				      left_text);
	}
}

static void print_text(int job, const struct sample *now, const struct sample *before)
{
	if (job < 0)
		printf("%-18s %15s%s\n", "latest jobs", "total", before ? "   per second" : "");
	else
		printf("job %-14d %15s%s\n", job, "total", before ? "   per second" : "");
	for (size_t i = 0; i < COUNTERS; i++)
		print_row(counters[i].name, counters[i].text, now, before, i);
	puts("\noutcomes of frames");
	for (__u32 i = 0; i < FPISA_VERDICT_COUNT; i++)
		if (!fpisa_is_drop(i))
			print_row(verdicts[i].name + 2, verdicts[i].text, now, before, COUNTERS + i);
	if (now->cpus)
		print_steering(now, before);
	if (!drops(now)) {
		puts("\nno drops");
		return;
	}
	puts("\ndrops");
	for (__u32 i = 0; i < FPISA_VERDICT_COUNT; i++)
		if (fpisa_is_drop(i) && now->value[COUNTERS + i])
			print_row(verdicts[i].name + 2, verdicts[i].text, now, before, COUNTERS + i);
}

/* -- a terminal ---------------------------------------------------------- */

struct screen {
	int rows, columns;
	int used, hidden; /* lines shown, and lines for which there was no room */
};

static struct screen screen_start(void)
{
	struct winsize w = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
	fputs("\033[H", stdout);
	return (struct screen){.rows = w.ws_row ?: 24, .columns = w.ws_col ?: 80};
}

/* Print a row of the screen, cut between words if it is too long. The last row is for the note. */
__attribute__((format(printf, 2, 3))) static void screen_line(struct screen *s, const char *fmt, ...)
{
	char line[256];
	int n, width = s->columns - 1;
	va_list ap;

	if (s->used >= s->rows - 1) {
		s->hidden++;
		return;
	}
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > width) {
		for (n = width > 3 ? width - 3 : 0; n && line[n] != ' '; n--)
			;
		strcpy(line + n, n ? "..." : "");
	}
	printf("%s\033[K\n", line);
	s->used++;
}

static void screen_row(struct screen *s, const char *name, const char *text, const struct sample *now,
		       const struct sample *before, size_t i)
{
	char per_second[32] = "";

	if (!now->value[i])
		return;
	if (before)
		snprintf(per_second, sizeof(per_second), "%.0f", rate(now, before, i));
	screen_line(s, "%-18s %15llu %12s  %s", name, (unsigned long long)now->value[i], per_second, text);
}

/* Print the most important rows first, because the lowest rows are the first to find no room. */
static void print_screen(int job, const struct sample *now, const struct sample *before)
{
	struct screen s = screen_start();
	char title[32] = "latest jobs";

	if (job >= 0)
		snprintf(title, sizeof(title), "job %d", job);
	screen_line(&s, "%-18s %15s %12s", title, "total", "per second");
	for (int drop = 0; drop < 2; drop++) {
		if (drop)
			screen_line(&s, "%s", drops(now) ? "drops" : "no drops");
		for (__u32 i = 0; i < FPISA_VERDICT_COUNT; i++)
			if (fpisa_is_drop(i) == drop)
				screen_row(&s, verdicts[i].name + 2, verdicts[i].text, now, before, COUNTERS + i);
	}
	for (__u32 i = 0; i < now->cpus; i++)
		screen_line(&s, "steered to cpu %-3u %15llu %12.0f  frames, of which %llu wait or were dropped",
			    now->cpu[i].cpu, (unsigned long long)now->cpu[i].sent,
			    before ? rate_of(now, before, now->cpu[i].sent, before->cpu[i].sent) : 0,
			    (unsigned long long)now->cpu[i].left);
	screen_line(&s, "%s", "");
	for (size_t i = 0; i < COUNTERS; i++)
		screen_row(&s, counters[i].name, counters[i].text, now, before, i);
	fputs("\033[J", stdout);
	if (s.hidden)
		printf("%.*s", s.columns - 1, "more rows than fit here: fpisa stats");
}

/* -- JSON -------------------------------------------------------------- */

static const char *key_of(size_t i)
{
	return i < COUNTERS ? counters[i].name : verdicts[i - COUNTERS].name;
}

static struct json_object *steering_json(const struct sample *s)
{
	struct json_object *a = json_object_new_array();

	for (__u32 i = 0; i < s->cpus; i++) {
		struct json_object *o = json_object_new_object();

		json_add_number(o, "cpu", s->cpu[i].cpu);
		json_add_number(o, "sent", s->cpu[i].sent);
		json_add_number(o, "taken", s->cpu[i].taken);
		json_add_number(o, "left", s->cpu[i].left);
		json_object_array_add(a, o);
	}
	return a;
}

static int print_stats_json(int job, const struct sample *now, const struct sample *before, bool one_line)
{
	struct json_object *o = json_object_new_object(), *rates = json_object_new_object();

	json_object_object_add(o, "job", job < 0 ? NULL : json_object_new_int(job));
	for (size_t i = 0; i < ALL_COUNTERS; i++)
		json_add_number(o, key_of(i), now->value[i]);
	json_add_number(o, "drops", drops(now));
	if (now->cpus)
		json_object_object_add(o, "steering", steering_json(now));
	if (!before) {
		json_object_put(rates);
		return print_json(o, one_line);
	}
	for (size_t i = 0; i < ALL_COUNTERS; i++)
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

struct request {
	int job;	/* -1: all jobs */
	double seconds; /* seconds of --watch, else 0 */
	bool json, prometheus;
	const char *file; /* file of --prometheus, else NULL */
};

static int print_once(struct datapath *dp, const struct request *r)
{
	struct sample now;
	int err;

	if (r->prometheus)
		return prometheus_write(dp, r->job, r->file);
	err = take(dp, r->job, &now);
	if (err)
		return err;
	if (r->json)
		return print_stats_json(r->job, &now, NULL, false);
	print_text(r->job, &now, NULL);
	return 0;
}

static int watch_file(struct datapath *dp, const struct request *r)
{
	int err;

	while (!(err = prometheus_write(dp, r->job, r->file))) {
		usleep(r->seconds * 1e6);
		datapath_refresh(dp);
	}
	return err;
}

static int watch(struct datapath *dp, const struct request *r)
{
	bool terminal = !r->json && isatty(STDOUT_FILENO);
	struct sample before, now;
	int err;

	err = take(dp, r->job, &before);
	if (!err && terminal) {
		print_screen(r->job, &before, NULL);
		err = flush_stdout("stdout");
	}
	while (!err) {
		usleep(r->seconds * 1e6);
		datapath_refresh(dp);
		err = take(dp, r->job, &now);
		if (err)
			break;
		if (r->json) {
			err = print_stats_json(r->job, &now, &before, true);
		} else if (terminal) {
			print_screen(r->job, &now, &before);
		} else {
			print_text(r->job, &now, &before);
			puts("");
		}
		err = err ?: flush_stdout("stdout");
		before = now;
	}
	return err;
}

enum { OPT_WATCH = OPT_VERB, OPT_PROMETHEUS };

static int parse_options(int argc, char **argv, struct common *c, struct request *r)
{
	static const struct option options[] = {{"watch", optional_argument, NULL, OPT_WATCH},
						{"prometheus", optional_argument, NULL, OPT_PROMETHEUS},
						COMMON_OPTIONS,
						JSON_OPTION,
						{0}};
	__u32 job;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		if (opt == OPT_PROMETHEUS) {
			r->prometheus = true;
			r->file = optarg;
		} else if (opt == OPT_WATCH) {
			r->seconds = 1;
			/* getopt takes an optional argument only after '='. */
			if (!optarg && optind < argc && isdigit((unsigned char)*argv[optind]))
				optarg = argv[optind++];
			if (optarg)
				err = parse_seconds(optarg, &r->seconds);
		} else {
			err = common_option(c, opt);
		}
	}
	if (err)
		return err;
	r->json = c->json;
	if (r->prometheus && r->json)
		return refuse(BAD_USAGE, "stats: --json and --prometheus exclude each other; leave one out");
	if (r->prometheus && r->seconds > 0 && !r->file)
		return refuse(
			BAD_USAGE,
			"stats: --watch with --prometheus requires a file; give --prometheus=FILE, which is rewritten each time");
	if (r->file && !*r->file)
		return refuse(BAD_USAGE, "--prometheus=: the file name is empty; name a file");
	if (argc - optind > 1)
		return refuse(BAD_USAGE, "stats: more than one job number; give one, or none for all jobs");
	if (optind == argc)
		return 0;
	err = job_parse_number(argv[optind], &job);
	r->job = job;
	return err;
}

int verb_stats(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct request r = {.job = -1};
	struct datapath dp;
	struct fpisa_job j;
	int err;

	err = parse_options(argc, argv, &c, &r);
	if (!err)
		err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	if (r.job >= 0)
		err = datapath_job(&dp, r.job, &j);
	if (!err)
		err = r.seconds <= 0 ? print_once(&dp, &r) : r.prometheus ? watch_file(&dp, &r) : watch(&dp, &r);
	datapath_close(&dp);
	return err;
}
