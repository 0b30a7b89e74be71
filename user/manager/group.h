/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The manager's groups: their ranks, their jobs, and the effect of each event. The caller provides time, random
 * numbers, sockets and the datapath. Requests leave through struct manager_ops, in their order. doc/manager.md has the
 * rules.
 */
#ifndef FPISA_MANAGER_GROUP_H
#define FPISA_MANAGER_GROUP_H

#include "datapath/groups.h"
#include "policy.h"

/*
 * Ranks that all large groups together may have, which are those of more than FPISA_MAX_WORKERS ranks. As many may stay in
 * large groups that have ended for others.
 */
#define MANAGER_LARGE FPISA_MAX_RANKS

/*
 * Maximum number of connections at a time: those of ranks of small and of large groups, those of aggregators, those that
 * are not in a group yet, and refused connections. The process has 64 other descriptors.
 */
#define MANAGER_CONNECTIONS \
	(GROUPS * FPISA_MAX_WORKERS + 2 * MANAGER_LARGE + AGGREGATORS + MANAGER_WAITING + MANAGER_CLOSING)
#define MANAGER_DESCRIPTORS (MANAGER_CONNECTIONS + 64)

/*
 * A rank's place on a connection, or an aggregator. It belongs to the caller of these functions, and stays until
 * manager_lost() or hang_up().
 */
struct manager_caller {
	struct fpisa_address address, local; /* the connection's peer, and our address to which it connected */
	char owner[FPISA_PSK_NAME];	     /* name of its key; "" without a key */
	bool here; /* the address is this host's: the rank runs on the host of this datapath */
	int place; /* place of its group; -1: not in a group */
	__u32 rank;
	__u32 rate;	  /* rate of its link as the rank says, Mbit/s; 0: unknown */
	__u32 aggregator; /* place of the aggregator that it has registered, from 1; 0: not an aggregator */
};

/* A job that the datapath is to make; manager_made() gets the answer. */
struct manager_make {
	__u32 place, index;
	__u64 id;     /* id of the group */
	__u64 pool;   /* bitmap of the numbers that the job may get */
	__u32 leaves; /* nonzero: the job is the root of a tree, and its workers are the leaves */
	/* of a leaf: address and UDP port of its parent, and the leaf's rank there */
	struct fpisa_address parent;
	__u16 parent_port;
	__u32 parent_rank;
	__u32 further; /* nonzero: besides the datapath's earlier jobs of this index; otherwise in their place */
	__u64 token;
	struct fpisa_address local, other; /* addresses of the datapath; `other` is ::, or has the other family */
	__u32 workers;
	struct fpisa_manager_spec spec; /* complete, with a window that is not 0 */
	struct fpisa_address address[FPISA_MAX_WORKERS];
	__u16 port[FPISA_MAX_WORKERS];
};

struct manager_made {
	__u32 place, index;
	__u64 id;
	int err; /* 0; -ENOSPC: a smaller window may fit; -EMSGSIZE: spec.elements fit, if not 0; or another -errno */
	__u32 reason;			/* the error's enum fpisa_manager_reason; 0: as the error says */
	__u32 number;			/* the job's number */
	struct fpisa_manager_spec spec; /* complete, unless err is set */
	char text[FPISA_MANAGER_TEXT];	/* text of an error */
};

struct manager_ops {
	void (*send)(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m);
	/*
	 * The caller's rank has left its group or was refused. If no other caller of the connection is in a group, end the
	 * connection after its messages have been sent.
	 */
	void (*hang_up)(void *arg, struct manager_caller *who);
	/* Log that this connection was refused. If a job is refused, the connection belongs to any of its ranks. */
	void (*refused)(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text);
	/* The caller carries out the next three requests in their order, after the current call has returned. */
	void (*make)(void *arg, const struct manager_make *m);
	void (*remove)(void *arg, __u32 number, __u64 token);
	void (*record)(void *arg, __u32 place, const struct group_record *r); /* id 0: forget the record */
	/* Store the record of a registered aggregator, at each change. */
	void (*aggregator)(void *arg, __u32 place, const struct aggregator_record *r);
	void (*say)(void *arg, const char *text); /* write to a log */
	__u64 (*random)(void *arg);		  /* return a number that is not 0 and cannot be guessed */
	/* Return the rate of this datapath's links towards the group's ranks together, Mbit/s, or 0 if unknown. */
	__u32 (*rate)(void *arg, const struct group_record *r);
};

enum manager_rank { RANK_ABSENT, RANK_HERE, RANK_AWAY, RANK_LEFT, RANK_GONE };

struct manager_group_job {
	enum fpisa_group_job state;
	struct fpisa_ranks asked, bound; /* ranks that have asked for the job, and that have bound their port */
	__u32 window;			 /* window of the current attempt */
	__u16 elements;	 /* in a frame, if the ranks did not give them and an aggregator has a small MTU; else 0 */
	__u32 halved;	 /* halvings of the window at the current aggregator, which had no room */
	__u64 used;	 /* numbers that the jobs of a tree cannot have, because a leaf uses them for another job */
	int tries;	 /* attempts to find free ports */
	__u32 next_port; /* first port that has not been tried */
	__u64 making_ms; /* when the manager began to create the job */
	__u32 at;	 /* number of steps that are done, each of which is a job at the aggregator manager_at() */
	bool there[GROUP_AGGREGATORS];	  /* aggregators that have created the job */
	enum fpisa_manager_reason reason; /* why the job is refused to all ranks; 0: it is not refused */
	struct fpisa_ranks ranks;	  /* ranks that the refusal names */
	char text[FPISA_MANAGER_TEXT];
};

struct manager_group {
	struct group_record record; /* id 0: the entry is free */
	bool whole;		    /* all ranks have joined */
	__u64 away_ms;		    /* deadline of ranks that are away */
	__u64 back_ms;		    /* deadline of aggregators after a restart; 0: the group does not wait */
	/* aggregators that have not yet confirmed, after the restart, that they hold the jobs */
	bool unheld[GROUP_AGGREGATORS];
	__u8 home[FPISA_MAX_WORKERS]; /* as in fpisa_manager_joined; all 0 after a restart */
	/*
	 * The ranks and the record of a large group learn of some changes later, in manager_tick(). Otherwise the number of
	 * messages would grow with the square of the number of ranks.
	 */
	bool untold;			   /* not all ranks know which ranks have joined */
	__u64 told_ms;			   /* when they learnt it last */
	struct fpisa_ranks leaving;	   /* ranks that have left, which the others do not know yet */
	bool unrecorded;		   /* the record lacks ranks that have left or died */
	bool differs;			   /* ranks have made different calls, which all connected ranks know */
	struct fpisa_manager_refusal over; /* why all further calls fail; reason 0: the group lives */
	enum manager_rank state[FPISA_MAX_RANKS];
	struct manager_caller *caller[FPISA_MAX_RANKS];
	struct fpisa_manager_waits waits[FPISA_MAX_RANKS]; /* call that each rank waits for, as it last said */
	struct manager_group_job job[FPISA_MANAGER_JOBS];
};

struct manager_aggregator {
	struct aggregator_record record;
	struct manager_caller *caller; /* NULL: the aggregator is gone */
	__u64 heard_ms;
	__u64 not_before_ms; /* the aggregator gets no group until then */
};

/* Zero the structure, then set policy, ops, arg and aggregator_port. */
struct manager {
	const struct manager_policy *policy;
	const struct manager_ops *ops;
	void *arg;
	__u16 aggregator_port;	     /* UDP */
	__u64 now_ms, wall_s;	     /* set before each event: process_time_ms(); seconds since 1970 */
	struct manager_counts count; /* counts of events; the caller may reset them to 0 */
	struct manager_aggregator aggregator[AGGREGATORS];
	struct manager_group group[GROUPS];
};

/* Restore a group from its record; its ranks are away. Call this before any other event. */
void manager_restore(struct manager *m, __u32 place, const struct group_record *r);

/* Handle a well-formed message of a rank. */
void manager_message(struct manager *m, struct manager_caller *from, const struct fpisa_manager_message *msg);

/* Handle the end of a connection. hang_up() is not called for it afterwards. */
void manager_lost(struct manager *m, struct manager_caller *who, enum fpisa_manager_cause cause);

void manager_made(struct manager *m, const struct manager_made *made);

/* End the group of this id. */
void manager_kill(struct manager *m, __u32 place, __u64 id);

/* Handle the passing of time. */
void manager_tick(struct manager *m);

/*
 * Record the groups whose ranks are still joining, for readers of the records. Do not call this at each change: ranks
 * that come and go would keep the helper busy.
 */
void manager_record_gathering(struct manager *m);

/* Return the groups, jobs and slots that a key has; `owner` NULL: all keys. */
struct manager_quota manager_used(const struct manager *m, const char *owner);

#endif
