/* SPDX-License-Identifier: GPL-2.0-only */
/* The helper's work on jobs and records. Every request is checked against the policy and the records. */
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

/* Remove a job that is in a record, and no other. 0 or -errno, reported, as by the next function. */
int helper_remove_job(struct helper_state *w, __u32 number, __u64 token);

/* Write a record. -EPROTO: the record is not valid, or lacks one of the manager's jobs, which would have no owner then. */
int helper_record(struct helper_state *w, __u32 place, const struct group_record *r);

/* Find the ids of the groups that are to end, by place, 0: none: somebody has said so, or deleted one of the group's jobs. */
int helper_look(const struct helper_state *w, __u64 kill[GROUPS]);

/* Clean up a record at the start: no rank has heard of a job whose making was interrupted, and the ranks of an incomplete group join again. */
int helper_clean(struct helper_state *w, __u32 place, struct group_record *r);

#endif
