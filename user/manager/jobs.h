/* SPDX-License-Identifier: GPL-2.0-only */
/* The jobs of a group, from the first rank's request to the job, or to its refusal */
#ifndef FPISA_MANAGER_JOBS_H
#define FPISA_MANAGER_JOBS_H

#include "group.h"

/* Handle a rank's request for the group's job of that index. */
void manager_ask(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_ask *ask);

/* Handle a rank's answer that it has bound the UDP port, or could not bind it. */
void manager_bound(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_bind *b);

/* Handle a rank that cannot continue with a job. The other ranks cannot continue either. */
void manager_failed(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_refusal *r);

/* Take the answer of the group's aggregator i. */
void manager_made_at(struct manager *m, __u32 i, const struct manager_made *made);

/* Handle aggregator i's failure to create the jobs that it was to create. */
void manager_not_made(struct manager *m, struct manager_group *g, __u32 i, const char *why);

/* Let aggregator i, which has connected to a restarted manager, create the jobs that wait for it. */
void manager_make_back(struct manager *m, struct manager_group *g, __u32 i);

/* Refuse jobs that an aggregator has not created in time. */
void manager_job_tick(struct manager *m, struct manager_group *g);

/* Refuse the jobs that wait for a rank that has left. */
void manager_job_without(struct manager *m, struct manager_group *g, __u32 rank);

/* Tell a rank that has come back about the refused jobs. */
void manager_tell_refusals(struct manager *m, struct manager_group *g, __u32 rank);

/*
 * Restore the jobs from the group's record. If the record has jobs, the group's aggregators have to confirm that they
 * hold them.
 */
void manager_restore_jobs(struct manager_group *g);

#endif
