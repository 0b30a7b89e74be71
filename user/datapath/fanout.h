/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ports of jobs' results: inner maps of fpisa_fanout, one for each job number. The kernel waits for a grace period
 * whenever a map is put into an array of maps or removed from it. This takes 20 ms and more on a busy machine. So when
 * a job is deleted, its map stays at the job number without entries. The next job of this number fills the map.
 */
#ifndef FPISA_DATAPATH_FANOUT_H
#define FPISA_DATAPATH_FANOUT_H

#include "datapath.h"

/* Return how a job whose rank r is behind the port ifindex[r] can send copies. */
enum fpisa_copies fanout_copies(const struct fpisa_job *j, const __u32 *ifindex);

/*
 * Set the job's ports, and the ports of its replies. Do not wait for a grace period if the number has a map with enough
 * room.
 */
int fanout_fill(struct datapath *dp, __u32 job, const struct fpisa_job *j, const __u32 *ifindex);

/* Remove the job's ports. The map stays. */
int fanout_empty(struct datapath *dp, __u32 job);

/* Remove the ports and the map of a job, and wait until no running program can use the map. */
int fanout_remove(struct datapath *dp, __u32 job);

/*
 * Stop copies to ports that no live rank needs. `ranks` are the ranks that have just left, and `live` are the remaining
 * ranks.
 */
void fanout_shrink(struct datapath *dp, __u32 job, const struct fpisa_job *j, __u64 ranks, __u64 live);

/* Wait until all programs that run now have ended. The job must have no ports. */
int fanout_wait(struct datapath *dp, __u32 job);

/* Return whether the job has a port. */
bool fanout_any(const struct datapath *dp, __u32 job);

#endif
