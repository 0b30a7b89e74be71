/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Jobs that an aggregator has for another host's manager. The functions handle each message of the manager, and each
 * answer of the helper. They send the resulting requests through struct agent_ops, in this order.
 */
#ifndef FPISA_SERVE_AGENT_JOBS_H
#define FPISA_SERVE_AGENT_JOBS_H

#include "helper.h"

struct agent_ops {
	void (*ask)(void *arg, const struct helper_request *q);
	void (*send)(void *arg, const struct fpisa_manager_message *m);
};

struct agent_group {
	struct group_record record;	   /* id 0: the entry is free */
	__u32 making;			   /* bitmap of the indexes of jobs that the helper was told to make */
	__u32 unheard;			   /* bitmap of jobs whose manager has disconnected and waits for no answer */
	bool over;			   /* the manager has dropped the group meanwhile */
	__be32 address[FPISA_MAX_WORKERS]; /* from RANKS, for the next MAKE */
	__u16 port[FPISA_MAX_WORKERS];
	struct group_job next[FPISA_MANAGER_JOBS]; /* begins when the earlier job of the index is made; state 0: none waits */
};

/* Zero the structure, then set ops, arg, local, pool and slots. */
struct agent_jobs {
	const struct agent_ops *ops;
	void *arg;
	__be32 local; /* address of this datapath for frames */
	__u64 pool;   /* bitmap of the job numbers that it may give away */
	__u32 slots;  /* slots that it may give away; no window is larger */
	struct agent_group group[GROUPS];
};

/* Remove a group that an earlier agent left. No manager knows it any more. */
void agent_left_over(struct agent_jobs *a, __u32 place, const struct group_record *r);

/* Handle RANKS, MAKE or DROP. Return false if the message has another type. */
bool agent_message(struct agent_jobs *a, const struct fpisa_manager_message *m);

void agent_made(struct agent_jobs *a, const struct manager_made *made);

/* Handle the end of the connection. */
void agent_disconnected(struct agent_jobs *a);

/* Handle the ids, by place, of groups that a user of this host has ended. */
void agent_killed(struct agent_jobs *a, const __u64 kill[GROUPS]);

/* Tell the manager, after registering, which groups have jobs here. The manager may have been restarted. */
void agent_tell_groups(struct agent_jobs *a);

#endif
