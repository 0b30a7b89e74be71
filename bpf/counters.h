/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Count the verdict of a frame. Only this file turns a verdict into a counter. */
#ifndef FPISA_BPF_COUNTERS_H
#define FPISA_BPF_COUNTERS_H

#include "maps.h"

/*
 * Return the counters of job `id`. For FPISA_MAX_JOBS and above, return the counters of frames that belong to no job.
 */
static __always_inline struct fpisa_counters *counters_of(__u32 id)
{
	return lookup(&fpisa_counters, id < FPISA_MAX_JOBS ? id : FPISA_MAX_JOBS);
}

static __always_inline void add_verdict(struct fpisa_counters *c, __u32 v)
{
	if (v < FPISA_VERDICT_COUNT)
		(&c->v_not_ours)[v]++;
}

/* Count the verdict `v` for job `id` and return `action`. */
GLOBAL_FN int count_verdict(__u32 id, __u32 v, int action)
{
	struct fpisa_counters *c = counters_of(id);

	if (c)
		add_verdict(c, v);
	return action;
}

#endif
