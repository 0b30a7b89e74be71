/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The jobs of an aggregator for a manager on another host. The functions handle each message of the manager and each
 * answer of the helper, and send the resulting requests through struct agent_ops, in order.
 */
#ifndef FPISA_SERVE_AGENT_JOBS_H
#define FPISA_SERVE_AGENT_JOBS_H

#include "helper.h"

struct agent_ops {
	void (*ask)(void *arg, const struct helper_request *q);
	void (*send)(void *arg, const struct fpisa_manager_message *m);
};

struct agent_group {
	struct group_record record; /* record of the group; id 0: the entry is free */
	__u32 making;		    /* bitmap of the indexes of jobs that the helper is creating */
	__u32 further;		    /* bitmap of those that are besides earlier jobs of their index */
	/* bitmap of jobs whose manager has disconnected and does not expect an answer */
	__u32 unheard;
	bool over; /* the manager has dropped the group while a job is being created */
	struct fpisa_address address[FPISA_MAX_WORKERS]; /* addresses of the ranks from RANKS, for the next MAKE */
	__u16 port[FPISA_MAX_WORKERS];
	/* job to create after the earlier job of the same index; workers 0: none */
	struct manager_make next[FPISA_MANAGER_JOBS];
	__u64 token_high[FPISA_MANAGER_JOBS]; /* of these jobs */
};

/* The state of the agent. Zero the structure, then set ops, arg, local, other, pool and slots. */
struct agent_jobs {
	const struct agent_ops *ops;
	void *arg;
	struct fpisa_address local,
		other; /* addresses of this datapath for frames; `other` is ::, or has the other family */
	__u64 pool;    /* bitmap of the job numbers that the manager may use */
	__u32 slots;   /* slots that the manager may use, which also limits the window */
	struct agent_group group[GROUPS];
};

/* Remove a group of an earlier agent, because no manager knows the group now. */
void agent_left_over(struct agent_jobs *a, __u32 place, const struct group_record *r);

/* Handle RANKS, MAKE or DROP. Return false if the message has another type. */
bool agent_message(struct agent_jobs *a, const struct fpisa_manager_message *m);

void agent_made(struct agent_jobs *a, const struct manager_made *made);

/* Handle the end of the connection to the manager. */
void agent_disconnected(struct agent_jobs *a);

/* Handle the ids, by place, of groups that a user of this host has ended. */
void agent_killed(struct agent_jobs *a, const __u64 kill[GROUPS]);

/* Tell the manager, after registering, which groups have jobs here. The manager may have been restarted. */
void agent_tell_groups(struct agent_jobs *a);

#endif
