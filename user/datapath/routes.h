/* SPDX-License-Identifier: GPL-2.0-only */
/* What lets the datapath find routes to the ranks of jobs. */
#ifndef FPISA_DATAPATH_ROUTES_H
#define FPISA_DATAPATH_ROUTES_H

#include "datapath.h"

/* Lets it, as long as the datapath is there; reports. */
int routes_assert(__u32 job, const struct fpisa_job *j);

/*
 * Takes back what only this job needed, which is no longer active (dp NULL: what it needed); what any job did whose
 * map is pinned in `dir`.
 */
void routes_release(const struct datapath *dp, const struct fpisa_job *j);
void routes_release_all(const char *dir);

#endif
