/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Jobs that an aggregator has for another host's manager: handle each message of the manager, and each answer of the helper. The resulting
 * requests leave through struct agent_ops, in their order.
 */
#ifndef FPISA_SERVE_AGENT_JOBS_H
#define FPISA_SERVE_AGENT_JOBS_H

#include "helper.h"

struct agent_ops {
	void (*ask)(void *arg, const struct helper_request *q);
	void (*send)(void *arg, const struct fpisa_manager_message *m);
};

struct agent_group {
	struct group_record record; /* id 0: none */
	__u32 making;		    /* indexes of jobs that the helper has been asked for, a bit each */
	__u32 unheard; /* jobs whose manager is not connected any more and waits for no answer, a bit each */
	bool over;     /* the manager has dropped it meanwhile */
	__be32 address[FPISA_MAX_WORKERS]; /* of RANKS, for the next MAKE */
	__u16 port[FPISA_MAX_WORKERS];
	struct group_job next[FPISA_MANAGER_JOBS]; /* for when an earlier one of the index is made; state 0: none */
};

/* Zeroed, then ops, arg, local, pool and slots set. */
struct agent_jobs {
	const struct agent_ops *ops;
	void *arg;
	__be32 local; /* address of this datapath for frames */
	__u64 pool;   /* numbers of jobs that it may give away */
	__u32 slots;  /* the same of slots; no window is larger */
	struct agent_group group[GROUPS];
};

/* Remove a group that an earlier agent left: no manager knows it any more. */
void agent_left_over(struct agent_jobs *a, __u32 place, const struct group_record *r);

/* Handle RANKS, MAKE or DROP; false: another message. */
bool agent_message(struct agent_jobs *a, const struct fpisa_manager_message *m);

void agent_made(struct agent_jobs *a, const struct manager_made *made);

/* The connection has ended. */
void agent_disconnected(struct agent_jobs *a);

/* Ids by place of groups that somebody here has ended. */
void agent_killed(struct agent_jobs *a, const __u64 kill[GROUPS]);

/* Registered, perhaps with a manager that has begun anew: it hears which groups have jobs here. */
void agent_tell_groups(struct agent_jobs *a);

#endif
