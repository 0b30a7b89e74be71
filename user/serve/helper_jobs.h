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
	const struct manager_policy *policy; /* policy of `config` */
	struct datapath dp;
	struct datapath_groups groups;
	bool asked;    /* the first request has arrived */
	time_t warn_s; /* time until which the ports towards these interfaces are not checked again */
	__u32 warned[FPISA_MAX_WORKERS];
	int errors; /* file for reported errors, which are then written to the log on stderr */
	struct log log;
};

/*
 * Create a job. Return 0 with the number and spec of the job in *made, or report an error and return a negative errno.
 */
int helper_make_job(struct helper_state *w, const struct manager_make *o, struct manager_made *made);

/* Remove a job that is in a record. Refuse other jobs. Return 0, or report an error and return a negative errno. */
int helper_remove_job(struct helper_state *w, __u32 number, __u64 token);

/*
 * Write a record. Return 0, or report an error and return a negative errno. The error is -EPROTO if the record is
 * invalid, or if it lacks a job of the manager, which would then have no owner.
 */
int helper_record(struct helper_state *w, __u32 place, const struct group_record *r);

/*
 * Find the ids of the groups that must end, by place; 0 if the group continues. A group must end if a user has
 * requested this, or has deleted a job of the group.
 */
int helper_look(const struct helper_state *w, __u64 kill[GROUPS]);

/*
 * Clean up a record at the start. Remove jobs whose creation was interrupted, because no rank knows them. Remove
 * incomplete groups, because their ranks join again.
 */
int helper_clean(struct helper_state *w, __u32 place, struct group_record *r);

#endif
