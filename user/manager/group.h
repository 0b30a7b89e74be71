/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The manager's groups: who is in them, which jobs they have, what each event
 * does. Time, random numbers, sockets and the datapath are the caller's: what
 * is to be done leaves through struct manager_ops, in that order. The rules are
 * doc/manager.md's.
 */
#ifndef FPISA_MANAGER_GROUP_H
#define FPISA_MANAGER_GROUP_H

#include "datapath/groups.h"
#include "policy.h"

/* Connections at a time: of ranks, in no group yet, and refused; and what a process has open besides. */
#define MANAGER_CONNECTIONS (GROUPS * FPISA_MAX_WORKERS + AGGREGATORS + 2 * MANAGER_WAITING)
#define MANAGER_DESCRIPTORS (MANAGER_CONNECTIONS + 64)

/* A connection that makes requests. It belongs to the caller of these functions, and stays until manager_lost(). */
struct manager_caller {
	__be32 address, local;	    /* the connection's peer, and our address to which it connected */
	char owner[FPISA_PSK_NAME]; /* name of its key, "" without */
	bool here;		    /* its address is this host's: its rank runs beside this datapath */
	int place;		    /* of its group; -1: in none */
	__u32 rank;
	__u32 rate;	  /* of its link as it says, Mbit/s; 0: unknown */
	__u32 aggregator; /* place of the aggregator that it has registered, from 1; 0: none */
};

/* A job that the datapath is to have; manager_made() has the answer. */
struct manager_make {
	__u32 place, index;
	__u64 id;   /* of the group */
	__u64 pool; /* numbers that it may get */
	__u64 token;
	__be32 local;
	__u32 workers;
	struct fpisa_manager_spec spec; /* window not 0 */
	__be32 address[FPISA_MAX_WORKERS];
	__u16 port[FPISA_MAX_WORKERS];
};

struct manager_made {
	__u32 place, index;
	__u64 id;
	int err;			/* 0; -ENOSPC: a smaller window may fit; or another -errno */
	__u32 number;			/* of the job */
	struct fpisa_manager_spec spec; /* complete */
	char text[FPISA_MANAGER_TEXT];	/* of an error */
};

struct manager_ops {
	void (*send)(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m);
	/* The connection ends when its messages have been sent; its rank is in no group any more. */
	void (*hang_up)(void *arg, struct manager_caller *who);
	/* Log that this connection was refused; for a job, which is refused to all ranks, one of them. */
	void (*refused)(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text);
	/* The next three are carried out in their order, and later than this call. */
	void (*make)(void *arg, const struct manager_make *m);
	void (*remove)(void *arg, __u32 number, __u64 token);
	void (*record)(void *arg, __u32 place, const struct group_record *r); /* id 0: forget it */
	/* The record of a registered aggregator, at each change. */
	void (*aggregator)(void *arg, __u32 place, const struct aggregator_record *r);
	void (*say)(void *arg, const char *text); /* for a log */
	__u64 (*random)(void *arg);		  /* not 0, and not to be guessed */
	/* Rate of this datapath's links towards the group's ranks together, Mbit/s; 0: unknown. */
	__u32 (*rate)(void *arg, const struct group_record *r);
};

enum manager_rank { RANK_ABSENT, RANK_HERE, RANK_AWAY, RANK_LEFT, RANK_GONE };

struct manager_group_job {
	enum fpisa_group_job state;
	__u64 asked, bound;		  /* halvings of the window, after aggregators that had no room */
	__u32 window;			  /* that is tried */
	__u32 halved;			  /* how often, where the aggregator that makes it has no room */
	int tries;			  /* of ports */
	__u32 next_port;		  /* when the making began */
	__u64 making_ms;		  /* index of the aggregator that makes it; one makes it after the other */
	__u32 at;			  /* which of the group's aggregators makes it: one after the other */
	__u32 there;			  /* aggregators that have made it, a bit each */
	enum fpisa_manager_reason reason; /* why no rank gets it, or may use it any more; all ranks are told; 0: none */
	__u64 ranks;
	char text[FPISA_MANAGER_TEXT];
};

struct manager_group {
	struct group_record record; /* id 0: none */
	bool whole;		    /* all ranks have been there */
	__u64 away_ms;		    /* until when ranks that are away are waited for */
	__u64 back_ms;		    /* until when aggregators are waited for after a restart; 0: they are not */
	__u32 unheld; /* aggregators that have not confirmed since then that they hold the group's jobs, a bit each */
	struct fpisa_manager_refusal over; /* why no call ends well any more, as all ranks were told; reason 0: the group lives */
	enum manager_rank state[FPISA_MAX_WORKERS];
	struct manager_caller *caller[FPISA_MAX_WORKERS];
	struct fpisa_manager_waits waits[FPISA_MAX_WORKERS]; /* the call that each rank waits for, as it last said */
	struct manager_group_job job[FPISA_MANAGER_JOBS];
};

struct manager_aggregator {
	struct aggregator_record record;
	struct manager_caller *caller; /* NULL: it is gone */
	__u64 heard_ms;
	__u64 not_before_ms; /* no group gets it until then */
};

/* Zeroed, then policy, ops, arg and aggregator_port set. */
struct manager {
	const struct manager_policy *policy;
	const struct manager_ops *ops;
	void *arg;
	__u16 aggregator_port; /* UDP */
	__u64 now_ms, wall_s; /* set before each event: a clock of time in which others were heard, seconds since 1970 */
	struct manager_counts count; /* of what has happened; the caller may set it back to 0 */
	struct manager_aggregator aggregator[AGGREGATORS];
	struct manager_group group[GROUPS];
};

/* Restore a group from its record; its ranks are away. Call this before any other event. */
void manager_restore(struct manager *m, __u32 place, const struct group_record *r);

/* Handle a well-formed message of a rank. */
void manager_message(struct manager *m, struct manager_caller *from, const struct fpisa_manager_message *msg);

/* Handle the end of a connection; hang_up() is not called for it any more. */
void manager_lost(struct manager *m, struct manager_caller *who, enum fpisa_manager_cause cause);

void manager_made(struct manager *m, const struct manager_made *made);

/* A group of this id is to end. */
void manager_kill(struct manager *m, __u32 place, __u64 id);

/* Time has passed. */
void manager_tick(struct manager *m);

/* Record the groups that gather, for readers of the records. Do not call it at each change, lest ranks that come and go make work for the helper. */
void manager_record_gathering(struct manager *m);

/* Return the slots and jobs that groups of a key have; `owner` NULL: all groups. */
struct manager_quota manager_used(const struct manager *m, const char *owner);

#endif
