// SPDX-License-Identifier: GPL-2.0-only
/* fpisa job shrink JOB RANK... */
#include <json-c/json.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/print.h"
#include "job/job.h"
#include "verbs.h"

int verb_job_shrink(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct json_object *o;
	char text[RANKS_LEN];
	struct datapath dp;
	__u64 ranks = 0, live;
	uint64_t rank;
	__u32 job;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	if (argc - optind < 2 || argc - optind > FPISA_MAX_WORKERS + 1)
		return refuse(BAD_USAGE, "job shrink requires a job number and ranks");
	err = job_parse_number(argv[optind], &job);
	for (int i = optind + 1; !err && i < argc; i++) {
		err = parse_number("rank", argv[i], 0, FPISA_MAX_WORKERS - 1, &rank);
		ranks |= 1ull << (rank & 63);
	}
	if (!err)
		err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = datapath_job_shrink(&dp, job, ranks, &live);
	datapath_close(&dp);
	if (err)
		return err;
	note_done("job shrink");
	if (!c.json) {
		printf("job %u continues with ranks %s\n", job, ranks_text(live, text));
		return 0;
	}
	o = json_done("job shrink");
	json_add_number(o, "job", job);
	json_object_object_add(o, "live", ranks_json(live));
	return print_json(o, false);
}
