/* SPDX-License-Identifier: GPL-2.0-only */
/* What lets the datapath find routes to the ranks of jobs. */
#ifndef FPISA_DATAPATH_ROUTES_H
#define FPISA_DATAPATH_ROUTES_H

#include "datapath.h"

/* Lets it, as long as the datapath is there; reports. A neighbour that the kernel does not take is warned of. */
int routes_assert(__u32 job, const struct fpisa_job *j);

/*
 * Takes back what only this job needed, in the network namespace that it was made in; after that it may be no longer
 * active. What any job did that is pinned in `dir`, in every namespace. What cannot be is warned of.
 */
void routes_release(const struct datapath *dp, __u32 job);
void routes_release_all(const char *dir);

#endif
