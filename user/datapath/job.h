/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts common to jobs and queries, which are entries of fpisa_jobs and share its numbers */
#ifndef FPISA_DATAPATH_JOB_H
#define FPISA_DATAPATH_JOB_H

#include "datapath.h"

/* The functions of one kind of entry. All but unload() return 0 or -errno, reported. */
struct datapath_kind {
	int (*check)(__u32 number, struct fpisa_job *j);
	/*
	 * Load the entry's programs, under the lock; *j may be completed. unload() removes what load() has loaded;
	 * NULL: nothing is removed.
	 */
	int (*load)(const struct datapath *dp, __u32 number, struct fpisa_job *j);
	void (*unload)(const struct datapath *dp, __u32 number);
};

/* Call datapath_job_add() for an entry of this kind. */
int datapath_add(struct datapath *dp, __u32 number, struct fpisa_job *j, const __u32 *ifindex,
		 const struct datapath_kind *kind);

/* Refuse addresses and ports of members that no entry may have. */
int datapath_members_check(__u32 number, const struct fpisa_job *j);

/* End the entry of that number. The caller has the lock, and has called datapath_map_state(). */
int datapath_take_away(struct datapath *dp, __u32 number);

/* Return the name that messages use for it. */
static inline const char *datapath_noun(const struct fpisa_job *j)
{
	return fpisa_is_query(j) ? "query" : "job";
}

#endif
