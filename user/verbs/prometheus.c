// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prometheus' text exposition format 0.0.4. Metrics, help texts and label values are the same as in stats.c.
 *
 * A job is shown while it exists, and as long as its number has counts: a scraper must not miss the last counts of a
 * deleted job. Frames that belong to no job have job="none".
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "counters.h"
#include "group_view.h"
#include "job/job.h"
#include "prometheus.h"

static const struct {
	const char *name, *text;
} gauges[] =
	{
		{"fpisa_job_workers", "ranks of the job"},
		{"fpisa_job_live_workers", "ranks that a round waits for"},
		{"fpisa_job_joined_workers", "live ranks that have joined"},
},
  steered[] = {
	  {"fpisa_steered_frames_total", "frames handed to the CPU that owns their slot"},
	  {"fpisa_steered_taken_total",
	   "frames that this CPU took; the others wait, or were dropped because its queue was full"},
};

#define GAUGES (sizeof(gauges) / sizeof(gauges[0]))

struct row {
	char job[12]; /* value of the label */
	bool active;
	__u64 gauge[GAUGES]; /* gauges of an active job */
	struct fpisa_counters c;
};

static bool counted(const struct fpisa_counters *c)
{
	static const struct fpisa_counters none;

	return memcmp(c, &none, sizeof(none));
}

static int read_row(const struct datapath *dp, __u32 key, struct row *r)
{
	struct fpisa_session s;
	struct fpisa_job j;
	int err;

	memset(r, 0, sizeof(*r));
	err = datapath_counters(dp, key, &r->c);
	if (err || key == FPISA_MAX_JOBS) {
		strcpy(r->job, "none");
		return err;
	}
	snprintf(r->job, sizeof(r->job), "%u", key);
	j = dp->jobs[key];
	r->active = j.active;
	if (!r->active)
		return 0;
	err = datapath_session(dp, key, &s);
	r->gauge[0] = j.workers;
	r->gauge[1] = __builtin_popcountll(j.live);
	r->gauge[2] = __builtin_popcountll(job_joined(&j, &s));
	return err;
}

/* Read the rows worth showing, at most FPISA_MAX_JOBS + 1. Return how many, or -errno. */
static int read_rows(const struct datapath *dp, int job, struct row *rows)
{
	__u32 first = job < 0 ? 0 : job, last = job < 0 ? FPISA_MAX_JOBS : job;
	int n = 0;

	for (__u32 key = first; key <= last; key++) {
		int err = read_row(dp, key, &rows[n]);

		if (err)
			return err;
		n += rows[n].active || key == FPISA_MAX_JOBS || counted(&rows[n].c);
	}
	return n;
}

static void head(FILE *f, const char *name, const char *type, const char *text)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, text, name, type);
}

static void sample(FILE *f, const char *name, const struct row *r, const char *label, const char *value, __u64 n)
{
	fprintf(f, "%s{job=\"%s\"", name, r->job);
	if (label)
		fprintf(f, ",%s=\"%s\"", label, value);
	fprintf(f, "} %llu\n", (unsigned long long)n);
}

static void steering(FILE *f, const struct datapath_cpu *cpu, __u32 n)
{
	for (int k = 0; n && k < 2; k++) {
		head(f, steered[k].name, "counter", steered[k].text);
		for (__u32 i = 0; i < n; i++)
			fprintf(f, "%s{cpu=\"%u\"} %llu\n", steered[k].name, cpu[i].cpu,
				(unsigned long long)(k ? cpu[i].taken : cpu[i].sent));
	}
}

/* Print the verdicts that are drops, or the others: one metric, with a label value for each verdict. */
static void frames(FILE *f, bool drops, const struct row *rows, int n)
{
	const char *name = drops ? "fpisa_drops_total" : "fpisa_frames_total";

	head(f, name, "counter",
	     drops ? "frames of the protocol that were dropped, by reason" : "frames that were not dropped, by outcome");
	for (int i = 0; i < n; i++)
		for (__u32 v = 0; v < FPISA_VERDICT_COUNT; v++)
			if (fpisa_is_drop(v) == drops)
				sample(f, name, &rows[i], drops ? "reason" : "outcome", verdicts[v].name + strlen("v_"),
				       counter_get(&rows[i].c, COUNTERS + v));
}

static void print(FILE *f, const struct row *rows, int n)
{
	for (__u32 k = 0; k < COUNTERS; k++) {
		char name[64];

		snprintf(name, sizeof(name), "fpisa_%s_total", counters[k].name);
		head(f, name, "counter", counters[k].text);
		for (int i = 0; i < n; i++)
			sample(f, name, &rows[i], NULL, NULL, counter_get(&rows[i].c, k));
	}
	frames(f, false, rows, n);
	frames(f, true, rows, n);
	for (size_t k = 0; k < GAUGES; k++) {
		head(f, gauges[k].name, "gauge", gauges[k].text);
		for (int i = 0; i < n; i++)
			if (rows[i].active)
				sample(f, gauges[k].name, &rows[i], NULL, NULL, rows[i].gauge[k]);
	}
}

static void managed(FILE *f, const struct manager_view *v)
{
	const struct {
		const char *name, *type, *text;
		__u64 value;
	} rows[] = {
		{"fpisa_manager_up", "gauge", "1 while a manager of groups runs", v->pid != 0},
		{"fpisa_manager_groups", "gauge", "groups whose ranks have all joined", v->now_groups},
		{"fpisa_manager_ranks", "gauge", "ranks of groups that are connected", v->now_ranks},
		{"fpisa_manager_jobs", "gauge", "jobs of groups", v->now_jobs},
		{"fpisa_manager_groups_made_total", "counter", "groups that became complete", v->counts.groups},
		{"fpisa_manager_jobs_made_total", "counter", "jobs created for groups", v->counts.jobs},
		{"fpisa_manager_ranks_gone_total", "counter", "ranks of groups that ended without leaving",
		 v->counts.gone},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		head(f, rows[i].name, rows[i].type, rows[i].text);
		fprintf(f, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
	}
	head(f, "fpisa_manager_refusals_total", "counter", "joins and jobs of groups that were refused, by reason");
	for (__u32 k = 0; k < FPISA_MANAGER_R_END; k++)
		if (manager_reason_name(k))
			fprintf(f, "%s{reason=\"%s\"} %llu\n", "fpisa_manager_refusals_total", manager_reason_name(k),
				(unsigned long long)v->counts.refused[k]);
}

/* Write a file. Signals wait, so that no partial file stays behind. */
static int write_file(const char *file, const char *text, size_t len)
{
	char path[PATH_MAX];
	sigset_t set, before;
	struct stat st;
	int fd, err = 0;

	/* A device or a pipe would be replaced. */
	if (!stat(file, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return refuse(-EINVAL,
			      "%s is not a regular file, and would be replaced; name a regular file, or give --prometheus "
			      "alone to print",
			      file);

	if (snprintf(path, sizeof(path), "%s.XXXXXX", file) >= PATH_MAX)
		return fail(-ENAMETOOLONG, NULL, "%s", file);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &before);
	fd = mkstemp(path);
	err = fd < 0 ? -errno : 0;
	errno = ENOSPC; /* for a short write */
	if (!err && (write(fd, text, len) != (ssize_t)len || fchmod(fd, 0644)))
		err = -errno;
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	if (!err && rename(path, file))
		err = -errno;
	if (err && fd >= 0)
		unlink(path);
	if (err)
		fail(err, NULL, "%s", file);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}

int prometheus_write(struct datapath *dp, int job, const char *file)
{
	__u32 cpus = job < 0 ? dp->steering.cpus : 0;
	struct row *rows = calloc(FPISA_MAX_JOBS + 1, sizeof(*rows));
	struct datapath_cpu cpu[FPISA_STEER_CPUS];
	struct manager_view v = {.any = false};
	char *text = NULL;
	size_t len = 0;
	FILE *f = NULL;
	int err, n;

	if (!rows)
		return fail(-ENOMEM, NULL, "stats: cannot store the counters");
	n = read_rows(dp, job, rows);
	err = n < 0 ? n : 0;
	if (!err && cpus)
		err = datapath_steered(dp, cpu);
	if (!err && job < 0)
		err = manager_view_open(dp, &v);
	if (err)
		goto out;
	f = open_memstream(&text, &len);
	if (f) {
		print(f, rows, n);
		steering(f, cpu, cpus);
		if (v.any)
			managed(f, &v);
	}
	if (!f || fclose(f)) {
		err = fail(-errno, NULL, "stats: cannot format the metrics");
		goto out;
	}
	if (file) {
		err = write_file(file, text, len);
	} else {
		fputs(text, stdout);
		err = flush_stdout("stdout");
	}
out:
	manager_view_close(&v);
	free(text);
	free(rows);
	return err;
}
