/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ports of jobs' results: inner maps of fpisa_fanout, one a job number. The kernel waits for a grace period whenever a map
 * is put into an array of maps or taken out of it, 20 ms and more on a busy machine. A map therefore stays at its number when
 * its job is deleted, without entries, and the next job of that number fills it.
 */
#ifndef FPISA_DATAPATH_FANOUT_H
#define FPISA_DATAPATH_FANOUT_H

#include "datapath.h"

/* Gives the job its ports, and those of its replies. Waits for no grace period if the number has a map with enough room. */
int fanout_fill(struct datapath *dp, __u32 job, const struct fpisa_job *j, const __u32 *ifindex);

/* The job has no ports any more; its map stays. */
int fanout_empty(struct datapath *dp, __u32 job);

/* Take the map away too, and wait until no program that runs now can use it. */
int fanout_remove(struct datapath *dp, __u32 job);

/* Stop copies to ports that no live rank needs. `ranks`: the ranks that have just left, `live`: the ranks that stay. */
void fanout_shrink(struct datapath *dp, __u32 job, const struct fpisa_job *j, __u64 ranks, __u64 live);

/* Wait until all programs that run now are done. The job has no ports. */
int fanout_wait(struct datapath *dp, __u32 job);

/* Return whether the job has a port. */
bool fanout_any(const struct datapath *dp, __u32 job);

#endif
