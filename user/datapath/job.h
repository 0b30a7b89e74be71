/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts common to jobs and queries, which are both entries of fpisa_jobs. */
#ifndef FPISA_DATAPATH_JOB_H
#define FPISA_DATAPATH_JOB_H

#include "datapath.h"

/* The functions of one kind of entry. All except unload() return 0, or report an error and return a negative errno. */
struct datapath_kind {
	int (*check)(__u32 number, struct fpisa_job *j);
	/*
	 * Load the entry's programs, under the lock; load() may complete *j. unload() removes what load() has loaded;
	 * NULL: there is nothing to remove.
	 */
	int (*load)(const struct datapath *dp, __u32 number, struct fpisa_job *j);
	void (*unload)(const struct datapath *dp, __u32 number);
};

/* Do as datapath_job_add() does for an entry of this kind. */
int datapath_add(struct datapath *dp, __u32 number, struct fpisa_job *j, const __u32 *ifindex,
		 const struct datapath_kind *kind);

/* Refuse addresses and ports of members that no entry may have. */
int datapath_members_check(__u32 number, const struct fpisa_job *j);

/* Refuse a worker or the master of a query at an address of this machine. */
int datapath_refuse_own_member(__u32 query, const char *address);

/* End the entry of this number. The caller has the lock, and has called datapath_map_state(). */
int datapath_take_away(struct datapath *dp, __u32 number);

/* Return the noun for the entry in messages. */
static inline const char *datapath_noun(const struct fpisa_job *j)
{
	return fpisa_is_query(j) ? "query" : "job";
}

#endif
