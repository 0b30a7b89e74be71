/* SPDX-License-Identifier: GPL-2.0-only */
/* Printing of jobs, for the job verbs. */
#ifndef FPISA_USER_JOB_H
#define FPISA_USER_JOB_H

#include "datapath.h"

/* `job show --json` of an active job; job_show.c. */
int job_print_json(const struct datapath *dp, __u32 job);
int job_print_text(const struct datapath *dp, __u32 job);

/* Ranks that are in the job's current generation. */
__u64 job_joined(const struct fpisa_job *j, const struct fpisa_session *s);

/* Is the entry a round of generation `generation` that is not complete? */
static inline bool job_round_open(const struct fpisa_slot *s, __u32 generation)
{
	return generation && s->generation == generation && s->bitmap && !s->done;
}

/*
 * Live ranks that have not contributed to the oldest open round, whose chunk
 * it is; 0 if no round is open. What `slots` shows of the lowest chunk, and
 * what a worker names whose deadline passes.
 */
int job_missing(const struct datapath *dp, __u32 job, __u64 *missing, __u64 *chunk);

#endif
