/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings of `lo` and neighbour entries with which the datapath finds routes to the ranks of jobs */
#ifndef FPISA_DATAPATH_ROUTES_H
#define FPISA_DATAPATH_ROUTES_H

#include "datapath.h"

/*
 * Create the neighbour entries of the job and switch on the settings of `lo` that it needs. They last as long as the
 * datapath exists. Report errors. Warn of a neighbour that the kernel refuses. Return 0 or -errno.
 */
int routes_assert(const struct datapath *dp, __u32 job, const struct fpisa_job *j);

/* Return the interface of the kernel's route to a rank of a job with a VLAN ID, or 0 if its port was given. */
__u32 routes_vlan_device(const struct fpisa_job *j, __u32 rank);

/*
 * Remove the neighbour entries that only this job needed, in the network namespace in which it was made. The job need
 * not be active any longer. routes_release_all() removes the entries of all jobs pinned in `dir`, in every namespace,
 * and switches settings of `lo` off that a job had switched on, when the datapath is on no interface. Warn of what
 * cannot be removed.
 */
void routes_release(const struct datapath *dp, __u32 job);
void routes_release_all(const char *dir);

#endif
