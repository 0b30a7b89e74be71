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

#endif
