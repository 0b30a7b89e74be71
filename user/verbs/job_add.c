// SPDX-License-Identifier: GPL-2.0-only
/* fpisa job add JOB */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "cli/print.h"
#include "job/job.h"
#include "verbs.h"

void job_add_help(void)
{
	job_print_help(0);
}

int verb_job_add(int argc, char **argv)
{
	static const struct option common[] = {COMMON_OPTIONS, JSON_OPTION, {0}};
	struct option options[JOB_OPTIONS_MAX + sizeof(common) / sizeof(common[0])];
	struct job_spec s = {.workers = NULL};
	struct common c = COMMON_INIT;
	struct datapath dp;
	__u32 job;
	int opt, err = 0;

	memcpy(job_options(options, 0), common, sizeof(common));
	while (!err && (opt = next_option(argc, argv, options)) != -1)
		err = opt >= OPT_JOB ? job_option(&s, opt, optarg) : common_option(&c, opt);
	if (err)
		return err;
	err = job_operand("job add", argc, argv, &job);
	if (!err && !s.workers)
		err = refuse(BAD_USAGE, "job add: --workers is missing; list the workers' addresses");
	if (!err)
		err = job_spec_complete(&s, job);
	if (!err)
		err = datapath_job_check(job, &s.job);
	if (err)
		return err;
	err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = job_spec_resolve(&s, job);
	if (!err) {
		job_spec_warn(&s, &dp, job);
		job_spec_warn_links(&s, job);
		err = datapath_job_add(&dp, job, &s.job, s.ifindex);
	}
	if (!err && c.json)
		err = job_print_json(&dp, job);
	else if (!err && s.job.format == FPISA_FORMAT_FP64 && datapath_job_limbs(&s.job))
		printf("job %u: its superaccumulators take %llu KB\n", job,
		       (unsigned long long)datapath_job_limbs(&s.job) / 1024);
	if (!err)
		err = flush_stdout("job %u is created; cannot write to stdout", job);
	datapath_close(&dp);
	return err;
}
