// SPDX-License-Identifier: GPL-2.0-only
/* fpisa job show JOB */
#include "cli/options.h"
#include "job/job.h"
#include "verbs.h"

int verb_job_show(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct datapath dp;
	__u32 job;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	err = job_operand("job show", argc, argv, &job);
	if (!err)
		err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = c.json ? job_print_json(&dp, job) : job_print_text(&dp, job);
	datapath_close(&dp);
	return err;
}
