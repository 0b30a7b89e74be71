/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings with which the datapath finds routes to the ranks of jobs */
#ifndef FPISA_DATAPATH_ROUTES_H
#define FPISA_DATAPATH_ROUTES_H

#include "datapath.h"

/* Set them, as long as the datapath exists; report errors. Warn of a neighbour that the kernel does not take. */
int routes_assert(__u32 job, const struct fpisa_job *j);

/*
 * Take back what only this job needed, in the network namespace in which it was made. The job need not be active after
 * that. routes_release_all() takes back what any job pinned in `dir` needed, in every namespace. Warn of what cannot be
 * taken back.
 */
void routes_release(const struct datapath *dp, __u32 job);
void routes_release_all(const char *dir);

#endif
