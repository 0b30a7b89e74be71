/* SPDX-License-Identifier: GPL-2.0-only */
/* The helper's work on jobs and records. Every request is checked against the policy and the records. */
#ifndef FPISA_SERVE_HELPER_JOBS_H
#define FPISA_SERVE_HELPER_JOBS_H

#include "cli/log.h"
#include "config/config.h"
#include "manager/group.h"

struct helper_state {
	int fd; /* socket to the manager */
	struct config *config;
	const struct manager_policy *policy; /* part of `config` */
	struct datapath dp;
	struct datapath_groups groups;
	bool asked;    /* a request has arrived */
	time_t warn_s; /* time before which ports towards these interfaces are not checked again */
	__u32 warned[FPISA_MAX_WORKERS];
	int errors; /* file that takes reported errors, which then go to the log, on stderr */
	struct log log;
};

/* Create a job. Return 0 with the job's number and spec in *made, or -errno, reported. */
int helper_make_job(struct helper_state *w, const struct manager_make *o, struct manager_made *made);

/* Remove a job that is in a record, and no other job. Return 0 or -errno, reported, as the next function does. */
int helper_remove_job(struct helper_state *w, __u32 number, __u64 token);

/*
 * Write a record. Return -EPROTO if the record is not valid, or lacks a job of the manager, which would then have no
 * owner.
 */
int helper_record(struct helper_state *w, __u32 place, const struct group_record *r);

/*
 * Find the ids of the groups that are to end, by place; 0 if the group continues. A group is to end if a user has said
 * so, or has deleted a job of the group.
 */
int helper_look(const struct helper_state *w, __u64 kill[GROUPS]);

/*
 * Clean up a record at the start. No rank knows a job whose making was interrupted. The ranks of an incomplete group
 * join again.
 */
int helper_clean(struct helper_state *w, __u32 place, struct group_record *r);

#endif
