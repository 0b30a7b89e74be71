// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prometheus' text exposition format 0.0.4. Metrics, help texts and label
 * values come from the lists in fpisa/verdict.h, as those of stats.c do.
 *
 * A job shows while it exists, and as long as its number has counts: a
 * scraper must not miss the last of a job that was deleted. Frames that
 * belong to no job are job="none".
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"
#include "job/job.h"
#include "prometheus.h"

struct row {
	char job[12]; /* value of the label */
	bool active;
	int workers, live, joined;
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
	r->workers = j.workers;
	r->live = __builtin_popcountll(j.live);
	r->joined = __builtin_popcountll(job_joined(&j, &s));
	return err;
}

/* Rows worth showing, at most FPISA_MAX_JOBS + 1; how many, or -errno. */
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

static void sample(FILE *f, const char *name, const struct row *r, const char *label, const char *value,
		   __u64 n)
{
	fprintf(f, "%s{job=\"%s\"", name, r->job);
	if (label)
		fprintf(f, ",%s=\"%s\"", label, value);
	fprintf(f, "} %llu\n", (unsigned long long)n);
}

static void counter(FILE *f, const char *name, const char *text, size_t offset, const struct row *rows, int n)
{
	head(f, name, "counter", text);
	for (int i = 0; i < n; i++)
		sample(f, name, &rows[i], NULL, NULL, *(const __u64 *)((const char *)&rows[i].c + offset));
}

/* The verdicts that are drops, or the others: one metric, a label's value each. */
static void verdicts(FILE *f, const char *name, const char *label, bool drops, const struct row *r)
{
	static const struct {
		const char *name;
		bool drop;
		size_t offset;
	} all[] = {
#define X(name, class, text)                                                                                 \
	{ #name, FPISA_CLASS_##class == FPISA_CLASS_DROP, offsetof(struct fpisa_counters, v_##name) },
		FPISA_VERDICTS(X)
#undef X
	};

	for (size_t i = 0; i < FPISA_VERDICT_COUNT; i++)
		if (all[i].drop == drops)
			sample(f, name, r, label, all[i].name,
			       *(const __u64 *)((const char *)&r->c + all[i].offset));
}

static void gauges(FILE *f, const struct row *rows, int n)
{
	static const struct {
		const char *name, *text;
		size_t offset;
	} all[] = {
		{ "fpisa_job_workers", "ranks of the job", offsetof(struct row, workers) },
		{ "fpisa_job_live_workers", "ranks that a round waits for", offsetof(struct row, live) },
		{ "fpisa_job_joined_workers", "live ranks that have joined", offsetof(struct row, joined) },
	};

	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
		head(f, all[k].name, "gauge", all[k].text);
		for (int i = 0; i < n; i++)
			if (rows[i].active)
				sample(f, all[k].name, &rows[i], NULL, NULL,
				       *(const int *)((const char *)&rows[i] + all[k].offset));
	}
}

static void steering(FILE *f, const struct datapath_cpu *cpu, __u32 n)
{
	static const struct {
		const char *name, *text;
		size_t offset;
	} all[] = {
		{ "fpisa_steered_frames_total", "frames handed to the CPU that owns their slot",
		  offsetof(struct datapath_cpu, sent) },
		{ "fpisa_steered_taken_total", "of those, taken there; others wait, or were dropped by its full queue",
		  offsetof(struct datapath_cpu, taken) },
	};

	for (size_t k = 0; n && k < sizeof(all) / sizeof(all[0]); k++) {
		head(f, all[k].name, "counter", all[k].text);
		for (__u32 i = 0; i < n; i++)
			fprintf(f, "%s{cpu=\"%u\"} %llu\n", all[k].name, cpu[i].cpu,
				*(const unsigned long long *)((const char *)&cpu[i] + all[k].offset));
	}
}

static void print(FILE *f, const struct row *rows, int n)
{
#define X(name, text)                                                                                        \
	counter(f, "fpisa_" #name "_total", text, offsetof(struct fpisa_counters, name), rows, n);
	FPISA_COUNTERS(X)
#undef X
	head(f, "fpisa_frames_total", "counter", "frames that were not dropped, by what became of them");
	for (int i = 0; i < n; i++)
		verdicts(f, "fpisa_frames_total", "outcome", false, &rows[i]);
	head(f, "fpisa_drops_total", "counter", "frames of the protocol that were dropped, by reason");
	for (int i = 0; i < n; i++)
		verdicts(f, "fpisa_drops_total", "reason", true, &rows[i]);
	gauges(f, rows, n);
}

/* Signals wait, so that no half of a file stays behind. */
static int write_file(const char *file, const char *text, size_t len)
{
	char path[PATH_MAX];
	sigset_t set, before;
	struct stat st;
	int fd, err = 0;

	/* A device or a pipe would be gone. */
	if (!stat(file, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return refuse(-EINVAL, "%s: is no regular file, and would be replaced; --prometheus alone prints", file);

	if (snprintf(path, sizeof(path), "%s.XXXXXX", file) >= PATH_MAX)
		return fail(-ENAMETOOLONG, NULL, "%s", file);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &before);
	fd = mkstemp(path);
	if (fd < 0) {
		err = fail(-errno, NULL, "%s", file);
		goto out;
	}
	while (!err && len) {
		ssize_t n = write(fd, text, len);

		if (n < 0) {
			err = -errno;
			break;
		}
		text += n;
		len -= n;
	}
	if (!err && fchmod(fd, 0644))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(path, file))
		err = -errno;
	if (err) {
		fail(err, NULL, "%s", file);
		unlink(path);
	}
out:
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}

int prometheus_write(const struct datapath *dp, int job, const char *file)
{
	__u32 cpus = job < 0 ? dp->steering.cpus : 0;
	struct row *rows = calloc(FPISA_MAX_JOBS + 1, sizeof(*rows));
	struct datapath_cpu cpu[FPISA_STEER_CPUS];
	char *text = NULL;
	size_t len = 0;
	FILE *f = NULL;
	int err, n;

	if (!rows)
		return fail(-ENOMEM, NULL, "stats");
	n = read_rows(dp, job, rows);
	err = n < 0 ? n : 0;
	if (!err && cpus)
		err = datapath_steered(dp, cpu);
	if (err)
		goto out;
	f = open_memstream(&text, &len);
	if (f) {
		print(f, rows, n);
		steering(f, cpu, cpus);
	}
	if (!f || fclose(f)) {
		err = fail(-errno, NULL, "stats");
		goto out;
	}
	if (file)
		err = write_file(file, text, len);
	else if (fwrite(text, 1, len, stdout) != len)
		err = fail(-errno, NULL, "stdout");
out:
	free(text);
	free(rows);
	return err;
}
