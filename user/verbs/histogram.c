// SPDX-License-Identifier: GPL-2.0-only
/* fpisa histogram JOB: the values that the adds of a job discarded */
#include <errno.h>
#include <json-c/json.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "job/job.h"
#include "verbs.h"

static int print_buckets_json(__u32 job, const struct fpisa_histogram *h, const struct fpisa_job *j)
{
	struct json_object *o = json_object_new_object();

	json_add_number(o, "job", job);
	json_object_object_add(o, "buckets", job_histogram_json(h, j));
	return print_json(o, false);
}

int verb_histogram(int argc, char **argv)
{
	static struct fpisa_histogram h;
	struct common c = COMMON_INIT;
	struct datapath dp;
	struct fpisa_job j;
	__u32 job;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	err = job_operand("histogram", argc, argv, &job);
	if (!err)
		err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = datapath_job(&dp, job, &j);
	if (!err && !(j.flags & FPISA_JOB_HISTOGRAM))
		err = refuse(-EINVAL, "job %u has no histogram; create the job with --histogram", job);
	if (!err)
		err = datapath_histogram(&dp, job, &h);
	if (!err && c.json)
		err = print_buckets_json(job, &h, &j);
	else if (!err)
		job_print_histogram(&h, &j);
	datapath_close(&dp);
	return err;
}
