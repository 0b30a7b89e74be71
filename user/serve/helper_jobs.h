/* SPDX-License-Identifier: GPL-2.0-only */
/* What the helper does to jobs and records. It asks the policy and the records whether it may, whoever asks it. */
#ifndef FPISA_SERVE_HELPER_JOBS_H
#define FPISA_SERVE_HELPER_JOBS_H

#include "cli/log.h"
#include "config/config.h"
#include "manager/group.h"

struct helper_state {
	int fd; /* to the manager */
	struct config *config;
	const struct manager_policy *policy; /* of it */
	struct datapath dp;
	struct datapath_groups groups;
	bool asked;    /* for anything */
	time_t warn_s; /* until when ports towards these interfaces are not looked at again */
	__u32 warned[FPISA_MAX_WORKERS];
	int errors; /* what is reported goes to this file, and from there to the log, on stderr */
	struct log log;
};

/* 0 with the job's number and spec in *made, or -errno, reported. */
int helper_make_job(struct helper_state *w, const struct manager_make *o, struct manager_made *made);

/* Of a record; any other is left alone. 0 or -errno, reported, as of the next. */
int helper_remove_job(struct helper_state *w, __u32 number, __u64 token);

/* -EPROTO: it is no record, or does without a job of the manager's, which would be nobody's then. */
int helper_record(struct helper_state *w, __u32 place, const struct group_record *r);

/* The ids of the groups that are to end, by place, 0: none; somebody has said so, or deleted one of its jobs. */
int helper_look(const struct helper_state *w, __u64 kill[GROUPS]);

/* At the beginning: of a job whose making was interrupted nobody has heard, and the ranks of a group that gathered join again. */
int helper_clean(struct helper_state *w, __u32 place, struct group_record *r);

#endif
