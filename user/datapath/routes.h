/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings of `lo` and neighbour entries that the datapath needs to find routes to the ranks of jobs. */
#ifndef FPISA_DATAPATH_ROUTES_H
#define FPISA_DATAPATH_ROUTES_H

#include "datapath.h"

/*
 * Create the neighbour entries of the job and switch on the settings of `lo` that the job needs. Both last as long as
 * the datapath exists. If the kernel refuses a neighbour, print only a warning.
 */
int routes_assert(const struct datapath *dp, __u32 job, const struct fpisa_job *j);

/* Return the interface of the kernel's route to a rank of a job with a VLAN ID, or 0 if its port was given. */
__u32 routes_vlan_device(const struct fpisa_job *j, __u32 rank);

/*
 * routes_release() removes the neighbour entries that only this job needed, in the network namespace in which the job
 * was created. The job may be active or not. routes_release_all() is for a datapath that is no longer on any interface.
 * routes_release_all() removes the entries of all jobs pinned in `dir`, in every namespace, and switches off the
 * settings of `lo` that jobs had switched on. Both functions warn of entries that cannot be removed.
 */
void routes_release(const struct datapath *dp, __u32 job);
void routes_release_all(const char *dir);

#endif
