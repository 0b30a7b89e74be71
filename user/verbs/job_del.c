// SPDX-License-Identifier: GPL-2.0-only
/* fpisa job del JOB */
#include "cli/options.h"
#include "cli/print.h"
#include "job/job.h"
#include "verbs.h"

int verb_job_del(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct json_object *o;
	struct datapath dp;
	__u32 job;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	err = job_operand("job del", argc, argv, &job);
	if (!err)
		err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = datapath_job_del(&dp, job);
	datapath_close(&dp);
	if (err || !c.json)
		return err;
	o = json_done("job del");
	json_add_number(o, "job", job);
	return print_json(o, false);
}
