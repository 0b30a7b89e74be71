// SPDX-License-Identifier: GPL-2.0-only
/* fpisa job add JOB */
#include <errno.h>
#include <stdio.h>

#include "cli/options.h"
#include "job/job.h"
#include "verbs.h"

int verb_job_add(int argc, char **argv)
{
	struct job_spec s = { .workers = NULL };
	struct common c = COMMON_INIT;
	struct datapath dp;
	__u32 job;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, job_add_options)) != -1)
		err = job_spec_option(&s, opt, &c);
	if (err)
		return err;
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "job add: give one job number");
	if (!s.workers)
		return refuse(BAD_USAGE, "job add: --workers is missing");
	err = job_parse_number(argv[optind], &job);
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
		err = datapath_job_add(&dp, job, &s.job, s.ifindex);
	}
	if (!err && c.json)
		err = job_print_json(&dp, job);
	if (!err && fflush(stdout))
		err = fail(-errno, NULL, "job %u is made; stdout", job);
	datapath_close(&dp);
	return err;
}
