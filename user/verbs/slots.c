// SPDX-License-Identifier: GPL-2.0-only
/* fpisa slots [JOB]: rounds in progress, and the ranks that they wait for */
#include <json-c/json.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "job/job.h"
#include "verbs.h"

static int silences_json(const struct datapath *dp, __u32 job, __u64 ranks, struct json_object *row)
{
	struct json_object *a = json_object_new_array();
	int err = 0;

	json_object_object_add(row, "silent_s", a);
	for (__u32 r = 0; !err && r < FPISA_MAX_WORKERS; r++) {
		double s;

		if (!(ranks >> r & 1))
			continue;
		err = job_silence(dp, job, r, &s);
		json_object_array_add(a, json_double(s));
	}
	return err;
}

static int print_row(const struct datapath *dp, __u32 job, const struct fpisa_job *j, __u32 i,
		     const struct fpisa_slot *s, struct json_object *rows)
{
	char ranks[RANKS_LEN], silence[SILENCE_LEN], text[RANKS_LEN + SILENCE_LEN];
	__u64 missing = j->live & ~s->bitmap;
	struct json_object *e;
	int err;

	if (!rows) {
		err = job_silence_text(dp, job, missing, silence);
		if (err)
			return err;
		printf("%3u  %4u  %7u  %12llu  %4d of %-4d  ", job, i / 2, i % 2, (unsigned long long)s->chunk,
		       __builtin_popcountll(s->bitmap & j->live), __builtin_popcountll(j->live));
		snprintf(text, sizeof(text), "%s%s", ranks_text(missing, ranks), silence);
		print_wrapped(45, text);
		return 0;
	}
	e = json_object_new_object();
	json_add_number(e, "job", job);
	json_add_number(e, "slot", i / 2);
	json_add_number(e, "version", i % 2);
	json_add_number(e, "chunk", s->chunk);
	json_add_number(e, "arrived", __builtin_popcountll(s->bitmap & j->live));
	json_add_number(e, "of", __builtin_popcountll(j->live));
	json_object_object_add(e, "missing", ranks_json(missing));
	json_object_array_add(rows, e);
	return silences_json(dp, job, missing, e);
}

static int print_job(const struct datapath *dp, __u32 job, struct json_object *rows)
{
	const struct fpisa_job j = dp->jobs[job];
	struct fpisa_session session;
	struct fpisa_slot s;
	int err;

	err = datapath_session(dp, job, &session);
	for (__u32 i = 0; !err && i < 2 * j.window; i++) {
		err = datapath_slot(dp, j.slot_base + i, &s);
		if (!err && job_round_open(&s, session.generation))
			err = print_row(dp, job, &j, i, &s, rows);
	}
	return err;
}

int verb_slots(int argc, char **argv)
{
	__u32 first = 0, last = FPISA_MAX_JOBS - 1;
	struct common c = COMMON_INIT;
	struct json_object *rows;
	struct fpisa_job j;
	struct datapath dp;
	int err = 0;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	if (argc - optind > 1)
		return refuse(BAD_USAGE, "slots: more than one job number; give one, or none for all jobs");
	if (optind < argc)
		err = job_parse_number(argv[optind], &first);
	if (err)
		return err;
	err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	if (optind < argc) {
		last = first;
		err = datapath_job(&dp, first, &j);
		if (err)
			goto out;
	}
	rows = c.json ? json_object_new_array() : NULL;
	if (!rows)
		printf("%3s  %4s  %7s  %12s  %-12s  %s\n", "job", "slot", "version", "chunk", "arrived",
		       "missing ranks");
	for (__u32 i = first; !err && i <= last; i++)
		if (dp.jobs[i].active && !fpisa_is_query(&dp.jobs[i]))
			err = print_job(&dp, i, rows);
	if (err)
		json_object_put(rows);
	else if (rows)
		err = print_json(rows, false);
out:
	datapath_close(&dp);
	return err;
}
