/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The messages between a rank of a group and the manager, over TCP, with TLS unless neither side has a key. All
 * messages have the same size and are little-endian, with addresses in network order. doc/manager.md describes their
 * meaning and their order; this file describes their form, and checks it.
 */
#ifndef FPISA_MANAGER_PROTOCOL_H
#define FPISA_MANAGER_PROTOCOL_H

#include <linux/types.h>
#include "fpisa/address.h"
#include "fpisa/ranks.h"
#include "lib/base/shards.h"

#define FPISA_MANAGER_MAGIC 0x47504d46u /* the bytes "FMPG"; a TLS connection begins with 0x16 */
#define FPISA_MANAGER_VERSION 4
#define FPISA_MANAGER_BYTES 256	     /* size of every message */
#define FPISA_MANAGER_NAME 64	     /* size of a group's name, including the terminating 0 */
#define FPISA_MANAGER_TEXT 224	     /* size of the text of a refusal, including the terminating 0 */
#define FPISA_MANAGER_EVERY ~0ull    /* number in a refusal that concerns all groups of a connection */
#define FPISA_MANAGER_SHARED 128     /* maximum number of groups of a connection, besides number 0 */
#define FPISA_MANAGER_JOBS 8	     /* maximum number of jobs of a group */
#define FPISA_MANAGER_LEAST_WINDOW 8 /* smallest window to which the manager shrinks a window */

/* Intervals and limits of time; doc/manager.md, "Time". */
#define FPISA_MANAGER_PING_MS 1000 /* interval at which a rank asks whether the manager answers */
#define FPISA_MANAGER_SILENCE_MS \
	6000 /* silence after which the manager, or a host that sends no acknowledgements, counts as dead */
#define FPISA_MANAGER_RETURN_MS 10000 /* time within which a rank reconnects after a restart of the manager */
/* silence limit if the manager's host answers, because a starting manager waits this long for an upgrade */
#define FPISA_MANAGER_ABSENT_MS 30000
#define FPISA_MANAGER_GREETING_MS 5000 /* limit from connect to JOIN or RETURN */
#define FPISA_MANAGER_MAKING_MS 30000  /* time in which the aggregator must create a job; then the job is refused */
#define FPISA_MANAGER_BEAT_MS 150      /* interval at which an aggregator sends PING */
#define FPISA_MANAGER_BEATLESS_MS 600  /* silence after which an aggregator counts as gone */

#define FPISA_MANAGER_MAKE_RANKS 8 /* maximum number of ranks in one RANKS message */
#define FPISA_MANAGER_PART 1024	   /* number of ranks in one PENDING or GONE message */
#define FPISA_MANAGER_LISTED 8	   /* maximum number of aggregators in one AGGREGATORS message */
#define FPISA_MANAGER_MADE_TEXT 192

enum fpisa_manager_type {
	/* sent by a rank */
	FPISA_MANAGER_JOIN = 1,
	FPISA_MANAGER_RETURN = 2,
	FPISA_MANAGER_ASK = 3,
	FPISA_MANAGER_BOUND = 4,
	FPISA_MANAGER_LEAVE = 5,
	FPISA_MANAGER_PING = 6,
	FPISA_MANAGER_FAILED = 7,
	FPISA_MANAGER_WAITS = 8,
	/* sent by an aggregator, which also sends PING */
	FPISA_MANAGER_REGISTER = 9,
	FPISA_MANAGER_MADE = 10,
	FPISA_MANAGER_HOLDS = 11,
	FPISA_MANAGER_ENDED = 12,
	/* sent by the manager */
	FPISA_MANAGER_PENDING = 17,
	FPISA_MANAGER_JOINED = 18,
	FPISA_MANAGER_BIND = 19,
	FPISA_MANAGER_JOB = 20,
	FPISA_MANAGER_GONE = 21,
	FPISA_MANAGER_LEFT = 22,
	FPISA_MANAGER_REFUSED = 23,
	FPISA_MANAGER_PONG = 24,
	FPISA_MANAGER_AGGREGATORS = 25,
	/* sent to an aggregator */
	FPISA_MANAGER_REGISTERED = 26,
	FPISA_MANAGER_RANKS = 27,
	FPISA_MANAGER_MAKE = 28,
	FPISA_MANAGER_DROP = 29,
};

/* Reasons of a refusal by the manager, with name, number, and the errno that the library returns. */
#define FPISA_MANAGER_REASONS(X)                                                                   \
	X(malformed, 1, EPROTO)	     /* the message is not one of this protocol */                 \
	X(version, 2, EPROTO)	     /* the version of the protocol differs */                     \
	X(order, 3, EPROTO)	     /* the message is not expected now */                         \
	X(key, 4, EACCES)	     /* a key is required, or the key is unknown */                \
	X(network, 5, EACCES)	     /* the address is outside the permitted networks */           \
	X(name, 6, EEXIST)	     /* a complete group has this name */                          \
	X(rank, 7, EEXIST)	     /* another process has this rank */                           \
	X(size, 8, EINVAL)	     /* other ranks gave another size, or the size is too large */ \
	X(format, 9, EACCES)	     /* the manager does not permit the format */                  \
	X(mode, 10, EACCES)	     /* the manager does not permit the mode */                    \
	X(job, 11, EINVAL)	     /* the datapath does not support such a job */                \
	X(differs, 12, EPROTO)	     /* ranks asked for different jobs */                          \
	X(quota, 13, EDQUOT)	     /* a quota of the key is used up */                           \
	X(pool, 14, ENOSPC)	     /* no slots or job numbers are free */                        \
	X(ports, 15, EADDRINUSE)     /* no UDP port is free at all ranks */                        \
	X(gone, 16, ESTALE)	     /* ranks are dead, or have left */                            \
	X(unknown, 17, ESTALE)	     /* the group does not exist, or does not have this rank */    \
	X(busy, 18, EBUSY)	     /* too many connections */                                    \
	X(datapath, 19, EIO)	     /* the aggregator could not create the job */                 \
	X(failed, 20, EREMOTEIO)     /* a rank cannot continue with the job */                     \
	X(aggregator, 21, EHOSTDOWN) /* an aggregator of the group has gone, or cannot register */

enum fpisa_manager_reason {
#define X(name, number, error) FPISA_MANAGER_R_##name = number,
	FPISA_MANAGER_REASONS(X)
#undef X
		FPISA_MANAGER_R_END
};

/* Cause of a rank's death, in GONE. */
enum fpisa_manager_cause {
	FPISA_MANAGER_CLOSED = 1, /* the connection ended, because the process ended */
	FPISA_MANAGER_SILENT = 2, /* the host sends no acknowledgements */
	FPISA_MANAGER_AWAY = 3,	  /* the rank did not reconnect to a restarted manager */
	FPISA_MANAGER_KILLED = 4, /* the administrator of the aggregator ended the group */
	FPISA_MANAGER_BROKE = 5,  /* the rank sent data that are not a message of this protocol */
	FPISA_MANAGER_CAUSE_END
};

/* Parameters of a job. 0 means the default of `fpisa job add`. The numbers are those of fpisa/format.h. */
struct fpisa_manager_spec {
	__u8 format, mode, rounding, pipeline;
	__u16 elements;
	__u8 fanout; /* fan-out of the results; 0: the setting of the manager */
	__u8 zero;
	__u32 window; /* largest window; the manager may assign a smaller one */
};

struct fpisa_manager_join {
	char name[FPISA_MANAGER_NAME];
	__u32 size, rank;
	__u64 group, secret; /* RETURN: values from JOINED; JOIN: 0 */
	__u32 rate;	     /* rate of the rank's interface in Mbit/s; 0: unknown */
	__u32 zero;
};

struct fpisa_manager_ask {
	__u32 index; /* number of the job in the group, from 0, in the order of the requests */
	__u32 zero;
	struct fpisa_manager_spec spec;
};

struct fpisa_manager_bind { /* BIND and BOUND; in BOUND, address, aggregator and leaf are 0 */
	__u32 index;
	__u16 port;		      /* UDP port of this rank */
	__u16 taken;		      /* BOUND: 1 if another socket of the host has the port */
	struct fpisa_address address; /* address of the aggregator for the job's frames */
	__u16 aggregator;	      /* UDP port of the aggregator */
	__u16 leaf; /* 1: the aggregator is the rank's leaf, which has a job for each root; 0: the first of the group's list */
	__u16 zero[2];
};

struct fpisa_manager_job {
	__u32 index;
	__u32 job;			/* number of the job in frames */
	__u64 token, token_high;	/* a 128-bit key */
	struct fpisa_manager_spec spec; /* parameters of the job, without defaults */
	/* numbers of the job at the other aggregators of the group, from the second aggregator on */
	__u8 others[FPISA_MAX_SHARDS];
	__u32 leaf;		       /* in a tree: number of ranks of the group that have this leaf; else 0 */
	__u16 rank[FPISA_MAX_WORKERS]; /* these ranks, ascending, which are the job's ranks in this order; then 0 */
};

struct fpisa_manager_aggregator {
	struct fpisa_address address; /* address for the job's frames */
	__u16 port;		      /* UDP port */
	__u16 weight;		      /* weight of the aggregator, 1 to 100 */
	__u32 zero;
};

/*
 * AGGREGATORS, which the manager sends before JOINED if a group has several aggregators, one message for each 8. All ranks
 * get the same order.
 */
struct fpisa_manager_list {
	__u32 n;     /* number of aggregators, 2 to FPISA_MAX_SHARDS */
	__u32 first; /* first aggregator of this message: 0 or 8 */
	struct fpisa_manager_aggregator of[FPISA_MANAGER_LISTED];
};

struct fpisa_manager_register {
	__u32 version;		      /* version of frames, FPISA_VERSION */
	__u32 rate;		      /* rate of the aggregator's interface in Mbit/s; 0: unknown */
	struct fpisa_address address; /* address for frames; ::: the address of this connection */
	__u16 port;		      /* UDP port of the aggregator's datapath */
	__u16 zero;
	__u32 slots;		    /* number of slots that the manager may use, at least 1 */
	struct fpisa_address other; /* address for frames of the other family, if `address` is given; ::: none */
};

struct fpisa_manager_ranks { /* RANKS, sent before MAKE, one message for each 8 ranks */
	__u64 group;
	__u32 first; /* first rank of this message, a multiple of 8 */
	__u32 zero;
	struct fpisa_address address[FPISA_MANAGER_MAKE_RANKS];
	__u16 port[FPISA_MANAGER_MAKE_RANKS];
};

struct fpisa_manager_make {
	__u64 group;
	__u64 token, token_high;
	__u32 index, workers;
	struct fpisa_manager_spec spec; /* parameters of the job; the window is not 0 */
	__u8 leaves;			/* 1: the job is the root of a tree, and its ranks are leaves */
	__u8 rank;			/* of a leaf: its rank at the root */
	__u16 port;			/* of a leaf: UDP port of the root; else 0 */
	struct fpisa_address root;	/* of a leaf: address of the root; else ::: */
	__u64 numbers;			/* bitmap of the numbers that the job may get */
	char name[FPISA_MANAGER_NAME];	/* name of the group */
	char owner[FPISA_MANAGER_NAME]; /* name of the group's key; "": no key */
	__u64 further; /* 1: the job of a leaf is besides the group's earlier jobs of this index; 0: it replaces them */
};

struct fpisa_manager_made {
	__u64 group;
	__u32 index;
	/* 0, or a negative errno; -ENOSPC: a smaller window may fit; -EMSGSIZE: spec.elements, if not 0, fit */
	__s32 err;
	__u32 number;			/* number of the job, or after an error an enum fpisa_manager_reason, or 0 */
	struct fpisa_manager_spec spec; /* parameters of the job, or after an error only the elements */
	char text[FPISA_MANAGER_MADE_TEXT]; /* message after an error */
};

/*
 * HOLDS: the aggregator has jobs of the group; ENDED: the group was ended at the aggregator; DROP: the group has ended
 */
struct fpisa_manager_group_id {
	__u64 group;
};

struct fpisa_manager_joined {
	__u64 group, secret; /* values to send in RETURN */
	/*
	 * If the group has several aggregators: place in their list, from 1, of the aggregator on the host of each of its
	 * ranks; 0: none. An answer to RETURN may have other places, which do not count.
	 */
	__u8 home[FPISA_MAX_WORKERS];
};

/* PENDING and GONE concern up to FPISA_MANAGER_PART ranks. Several such messages describe a larger group. */
struct fpisa_manager_members {
	__u64 zero[2];
	__u32 cause; /* GONE: enum fpisa_manager_cause, or 0 if more of the dead ranks follow; else 0 */
	__u32 first; /* first rank of `ranks`, a multiple of FPISA_MANAGER_PART */
	/* PENDING: those of the ranks that have joined; GONE: those of the dead ranks */
	__u64 ranks[FPISA_MANAGER_PART / 64];
};

struct fpisa_manager_leave {
	__u64 calls;	  /* number of calls that the rank has completed in this group */
	__u32 no_results; /* how many of them, from the last one back, ended without results; at most `calls` */
	__u32 zero;
};

struct fpisa_manager_left {
	__u64 calls;	  /* number of calls that each of these ranks had completed */
	__u32 first;	  /* first rank of `ranks`, a multiple of FPISA_MANAGER_PART */
	__u32 no_results; /* as in LEAVE */
	__u64 ranks[FPISA_MANAGER_PART / 64];
};

struct fpisa_manager_waits { /* WAITS: a rank has waited for its oldest call for a second */
	__u64 call;	     /* number of the call in the group, from 1 */
	__u64 digest;	     /* digest of the group's calls up to this call */
	__u64 last;	     /* number of the last call that got all of its results; 0: none */
	__u8 index;	     /* index of the call's job */
	__u8 elements;	     /* 1: the call has elements */
	__u8 made, failed;   /* bitmaps of the jobs that exist, and of the jobs that have failed, at the rank */
	__u32 zero;
};

#define FPISA_MANAGER_NO_JOB 0xffffffffu

struct fpisa_manager_refusal { /* REFUSED and FAILED; FAILED has reason `failed` or `differs`, and concerns the job `index` */
	__u16 reason;	       /* enum fpisa_manager_reason */
	__u16 first;	       /* first rank of `ranks`, a multiple of 64 */
	__u32 index;	       /* index of the job, or FPISA_MANAGER_NO_JOB */
	__u64 ranks;	       /* the first 64 ranks that the refusal names, as a bitmap from `first` on, or 0 */
	char text[FPISA_MANAGER_TEXT];
};

struct fpisa_manager_message {
	__u32 magic;
	__u16 version;
	__u16 type;
	/*
	 * PING: any number; PONG: the number of the PING; messages of aggregators and to them: 0. All other messages concern
	 * the group that has this number on the connection, and FPISA_MANAGER_EVERY means all groups of the connection.
	 */
	__u64 number;
	union {
		struct fpisa_manager_join join; /* JOIN, RETURN */
		struct fpisa_manager_ask ask;
		struct fpisa_manager_bind bind; /* BIND, BOUND */
		struct fpisa_manager_job job;
		struct fpisa_manager_joined joined;
		struct fpisa_manager_members members; /* PENDING, GONE */
		struct fpisa_manager_leave leave;
		struct fpisa_manager_left left;
		struct fpisa_manager_refusal refusal; /* REFUSED, FAILED */
		struct fpisa_manager_waits waits;
		struct fpisa_manager_list list;	   /* AGGREGATORS */
		struct fpisa_manager_register reg; /* REGISTER */
		struct fpisa_manager_ranks ranks;
		struct fpisa_manager_make make;
		struct fpisa_manager_made made;
		struct fpisa_manager_group_id of; /* HOLDS, ENDED, DROP */
		__u8 body[FPISA_MANAGER_BYTES - 16];
	};
};

_Static_assert(sizeof(struct fpisa_manager_message) == FPISA_MANAGER_BYTES, "messages are of one size");

/*
 * State of a group's job at each rank (struct fpisa_link_job), at the manager (struct manager_group_job), and in the
 * record with the datapath (struct group_job). The record has only the first three states. Their numbers do not change,
 * because a record outlives the program that wrote it.
 *
 *	from		to	at a rank				at the manager
 *	NONE		ASKED	the first call of a type sends ASK	the first rank has sent ASK
 *	ASKED		BINDING	it has opened the port of BIND		all ranks have sent the same ASK: send BIND
 *	BINDING		ASKED	another BIND, or another connection	BOUND says that a port is taken: send BIND again
 *	BINDING		MAKING						all ports are open: write the record, ask the helper
 *	MAKING		MADE						all aggregators have the job: send JOB
 *	BINDING		MADE	JOB: the handle joins
 *	any but NONE	REFUSED	REFUSED came, or FAILED was sent	the job cannot be created, or differs; MAKING and
 *									MADE stay, with a reason, until the group ends
 *
 * Until the state is MADE, the handle holds requests. Its driver is a separate state, enum fpisa_driver in
 * lib/shared.h, under the lock of the handle and not of the link.
 */
enum fpisa_group_job {
	FPISA_GROUP_JOB_NONE,
	FPISA_GROUP_JOB_MAKING, /* the job may or may not exist */
	FPISA_GROUP_JOB_MADE,
	FPISA_GROUP_JOB_BINDING,
	FPISA_GROUP_JOB_ASKED,
	FPISA_GROUP_JOB_REFUSED,
};

/* Return whether a rank has asked for the job and has not received an answer yet. */
static inline int fpisa_group_job_awaited(enum fpisa_group_job state)
{
	return state == FPISA_GROUP_JOB_ASKED || state == FPISA_GROUP_JOB_BINDING;
}

/* Return whether the ranks of the job have ports. Only the manager uses this. */
static inline int fpisa_group_job_has_ports(enum fpisa_group_job state)
{
	return state >= FPISA_GROUP_JOB_MAKING && state <= FPISA_GROUP_JOB_BINDING;
}

enum fpisa_manager_side { FPISA_MANAGER_RANK, FPISA_MANAGER_MANAGER };

/*
 * Check the form of a message that `from` has sent, but not the order of messages. Return 0, or the reason `malformed`
 * or `version`.
 */
enum fpisa_manager_reason fpisa_manager_check(const struct fpisa_manager_message *m, enum fpisa_manager_side from);

/* Return whether the name consists of 1 to 63 characters of A-Z a-z 0-9 . _ : @ + -, followed only by 0. */
int fpisa_manager_name_valid(const char name[FPISA_MANAGER_NAME]);

/* Return a message of the type, with an empty body. */
struct fpisa_manager_message fpisa_manager_message(enum fpisa_manager_type type);

/* Return the negative errno for the reason of a refusal, or -EPROTO for an unknown reason. */
int fpisa_manager_error(__u32 reason);

/* Return the cause as text: "its process ended" and the like. */
const char *fpisa_manager_cause_text(__u32 cause);

/* Set the ranks that a refusal names. */
static inline void fpisa_manager_name_ranks(struct fpisa_manager_refusal *r, const struct fpisa_ranks *ranks)
{
	const __u32 lowest = fpisa_ranks_next(ranks, 0);

	r->first = lowest < FPISA_MAX_RANKS ? (__u16)(lowest / 64 * 64) : 0;
	r->ranks = ranks->word[r->first / 64];
}

#endif
