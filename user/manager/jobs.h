/* SPDX-License-Identifier: GPL-2.0-only */
/* The jobs of a group: what asks for one does, from the first rank's to the job, or to why there is none. */
#ifndef FPISA_MANAGER_JOBS_H
#define FPISA_MANAGER_JOBS_H

#include "group.h"

/* A rank asks for the group's job of that index. */
void manager_ask(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_ask *ask);

/* It has, or could not have, the UDP port. */
void manager_bound(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_bind *b);

/* It cannot go on with a job: then nobody can. */
void manager_failed(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_refusal *r);

/* The answer of the group's aggregator i. */
void manager_made_at(struct manager *m, __u32 i, const struct manager_made *made);

/* What it was to make it will not. */
void manager_not_made(struct manager *m, struct manager_group *g, __u32 i, const char *why);

/* It has come to a manager that was started again: it makes the jobs that wait for it. */
void manager_make_back(struct manager *m, struct manager_group *g, __u32 i);

/* Jobs that the datapath has not made in time are refused. */
void manager_job_tick(struct manager *m, struct manager_group *g);

/* It has left: what waits for it never comes. */
void manager_job_without(struct manager *m, struct manager_group *g, __u32 rank);

/* It is back, and hears of those that were refused. */
void manager_tell_refusals(struct manager *m, struct manager_group *g, __u32 rank);

/* As the record has them; if there are any, its aggregators are to say that they hold them. */
void manager_restore_jobs(struct manager_group *g);

#endif
