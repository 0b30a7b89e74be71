/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts common to jobs and queries: both are entries of fpisa_jobs, and share its numbers. */
#ifndef FPISA_DATAPATH_JOB_H
#define FPISA_DATAPATH_JOB_H

#include "datapath.h"

/* The functions of one kind of entry. All but unload() return 0 or -errno, reported. */
struct datapath_kind {
	int (*check)(__u32 number, struct fpisa_job *j);
	/* Loads the entry's programs, under the lock; may complete *j. unload() removes what load() has loaded; NULL: it stays. */
	int (*load)(const struct datapath *dp, __u32 number, struct fpisa_job *j);
	void (*unload)(const struct datapath *dp, __u32 number);
};

/* Like datapath_job_add(), for an entry of this kind. */
int datapath_add(struct datapath *dp, __u32 number, struct fpisa_job *j, const __u32 *ifindex,
		 const struct datapath_kind *kind);

/* Refuses addresses and ports of members that no entry may have. */
int datapath_members_check(__u32 number, const struct fpisa_job *j);

/* Ends what is there of that number; the caller has the lock, and has called datapath_map_state(). */
int datapath_take_away(struct datapath *dp, __u32 number);

#endif
