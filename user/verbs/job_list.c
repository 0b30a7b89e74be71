// SPDX-License-Identifier: GPL-2.0-only
/* fpisa job list */
#include <json-c/json.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/print.h"
#include "job/job.h"
#include "verbs.h"

static int list_text(const struct datapath *dp)
{
	int err = 0;

	printf("job ");
	job_print_columns(NULL);
	puts("  live  joined");
	for (__u32 i = 0; !err && i < FPISA_MAX_JOBS; i++) {
		const struct fpisa_job j = dp->jobs[i];
		struct fpisa_session s;

		if (!j.active || fpisa_is_query(&j))
			continue;
		err = datapath_session(dp, i, &s);
		if (err)
			break;
		printf("%3u ", i);
		job_print_columns(&j);
		printf("  %4d  %6d\n", __builtin_popcountll(j.live), __builtin_popcountll(job_joined(&j, &s)));
	}
	return err;
}

static int list_json(const struct datapath *dp)
{
	struct json_object *a = json_object_new_array();

	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++) {
		const struct fpisa_job j = dp->jobs[i];
		struct json_object *e;
		struct fpisa_session s;
		int err;

		if (!j.active || fpisa_is_query(&j))
			continue;
		err = datapath_session(dp, i, &s);
		if (err) {
			json_object_put(a);
			return err;
		}
		e = json_object_new_object();
		json_add_number(e, "job", i);
		job_parameters_json(e, &j, JOB_IN_LIST);
		json_object_object_add(e, "live", ranks_json(j.live));
		json_object_object_add(e, "joined", ranks_json(job_joined(&j, &s)));
		json_add_number(e, "generation", s.generation);
		json_object_array_add(a, e);
	}
	return print_json(a, false);
}

int verb_job_list(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct datapath dp;
	int err;

	if (common_options(&c, argc, argv) || no_operands("job list", argc, argv))
		return BAD_USAGE;
	err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = c.json ? list_json(&dp) : list_text(&dp);
	datapath_close(&dp);
	return err;
}
