/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The messages between a rank of a group and the manager, over TCP, in TLS unless neither side has a key. All have
 * one size and are little-endian, with addresses in network order. doc/manager.md describes their meaning and their
 * order; this file describes their form, and checks it.
 */
#ifndef FPISA_MANAGER_PROTOCOL_H
#define FPISA_MANAGER_PROTOCOL_H

#include <linux/types.h>
#include "fpisa/wire.h"
#include "lib/base/shards.h"

#define FPISA_MANAGER_MAGIC 0x47504d46u /* "FMPG" as bytes; TLS begins with 0x16 */
#define FPISA_MANAGER_VERSION 2
#define FPISA_MANAGER_BYTES 256	     /* size of every message */
#define FPISA_MANAGER_NAME 64	     /* a group's name, including the terminating 0 */
#define FPISA_MANAGER_TEXT 224	     /* text of a refusal, including the terminating 0 */
#define FPISA_MANAGER_JOBS 8	     /* per group */
#define FPISA_MANAGER_LEAST_WINDOW 8 /* the manager does not shrink windows below it */

/* Intervals and limits of time; doc/manager.md, "Time". */
#define FPISA_MANAGER_PING_MS 1000 /* interval at which a rank asks whether the manager answers */
#define FPISA_MANAGER_SILENCE_MS \
	6000 /* silence after which the manager, or a host that acknowledges nothing, counts as dead */
#define FPISA_MANAGER_RETURN_MS 10000 /* time within which a rank reconnects after a restart of the manager */
#define FPISA_MANAGER_ABSENT_MS \
	30000 /* the limit if the manager's host answers: a manager that starts waits this long for an upgrade of the datapath */
#define FPISA_MANAGER_GREETING_MS 5000 /* limit from connect to JOIN or RETURN */
#define FPISA_MANAGER_MAKING_MS 30000  /* time after which a job that the datapath does not have is refused */
#define FPISA_MANAGER_BEAT_MS 150      /* interval at which an aggregator sends PING */
#define FPISA_MANAGER_BEATLESS_MS 600  /* silence after which an aggregator counts as gone */

#define FPISA_MANAGER_MAKE_RANKS 32 /* ranks of a job in one RANKS */
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

/* Reasons of a refusal by the manager: name, number, and the errno that the library returns. */
#define FPISA_MANAGER_REASONS(X)                                                             \
	X(malformed, 1, EPROTO)	     /* not a message of this protocol */                    \
	X(version, 2, EPROTO)	     /* another version of the protocol */                   \
	X(order, 3, EPROTO)	     /* not expected now */                                  \
	X(key, 4, EACCES)	     /* a key is needed, or none is known */                 \
	X(network, 5, EACCES)	     /* address outside the permitted networks */            \
	X(name, 6, EEXIST)	     /* a complete group has that name */                    \
	X(rank, 7, EEXIST)	     /* another process has that rank */                     \
	X(size, 8, EINVAL)	     /* other ranks gave another size, or it is too large */ \
	X(format, 9, EACCES)	     /* the format is not offered here */                    \
	X(mode, 10, EACCES)	     /* the mode is not offered here */                      \
	X(job, 11, EINVAL)	     /* the datapath does not support such a job */          \
	X(differs, 12, EPROTO)	     /* ranks asked for different jobs */                    \
	X(quota, 13, EDQUOT)	     /* a quota of the key is used up */                     \
	X(pool, 14, ENOSPC)	     /* no slots or job numbers are free */                  \
	X(ports, 15, EADDRINUSE)     /* no UDP port is free at all ranks */                  \
	X(gone, 16, ESTALE)	     /* ranks are dead, or have left */                      \
	X(unknown, 17, ESTALE)	     /* no such group, or not with this rank */              \
	X(busy, 18, EBUSY)	     /* too many connections */                              \
	X(datapath, 19, EIO)	     /* the aggregator could not make the job */             \
	X(failed, 20, EREMOTEIO)     /* a rank cannot continue with the job */               \
	X(aggregator, 21, EHOSTDOWN) /* an aggregator of the group is gone, or cannot register */

enum fpisa_manager_reason {
#define X(name, number, error) FPISA_MANAGER_R_##name = number,
	FPISA_MANAGER_REASONS(X)
#undef X
		FPISA_MANAGER_R_END
};

/* Cause in GONE: how the death was found. */
enum fpisa_manager_cause {
	FPISA_MANAGER_CLOSED = 1, /* the connection ended, because the process ended */
	FPISA_MANAGER_SILENT = 2, /* the host acknowledges nothing */
	FPISA_MANAGER_AWAY = 3,	  /* the rank did not reconnect to a restarted manager */
	FPISA_MANAGER_KILLED = 4, /* by the aggregator's administrator */
	FPISA_MANAGER_BROKE = 5,  /* the rank sent data that are not a message of this protocol */
	FPISA_MANAGER_CAUSE_END
};

/* Parameters of a job; 0: the default of `fpisa job add`. Numbers are those of fpisa/format.h. */
struct fpisa_manager_spec {
	__u8 format, mode, rounding, pipeline;
	__u16 elements;
	__u8 fanout; /* 0: the manager's setting */
	__u8 zero;
	__u32 window; /* at most; the manager may assign less */
};

struct fpisa_manager_join {
	char name[FPISA_MANAGER_NAME];
	__u32 size, rank;
	__u64 group, secret; /* in RETURN, from JOINED; 0 in JOIN */
	__u32 rate;	     /* rate of the rank's link, Mbit/s; 0: unknown */
	__u32 zero;
};

struct fpisa_manager_ask {
	__u32 index; /* jobs of a group are numbered as they are asked for, from 0 */
	__u32 zero;
	struct fpisa_manager_spec spec;
};

struct fpisa_manager_bind { /* BIND, and BOUND, which has address and aggregator 0 */
	__u32 index;
	__u16 port;	  /* UDP, of this rank */
	__u16 taken;	  /* in BOUND: 1 if another socket of the host has that port */
	__be32 address;	  /* address of the aggregator, for the job's frames */
	__u16 aggregator; /* UDP port of the aggregator */
	__u16 zero;
};

struct fpisa_manager_job {
	__u32 index;
	__u32 job;			/* the job's number in frames */
	__u64 token, token_high;	/* a key of 128 bits */
	struct fpisa_manager_spec spec; /* complete */
	__u8 others[FPISA_MAX_SHARDS]; /* number of the job at the group's other aggregators, by their place from 1 on */
};

struct fpisa_manager_aggregator {
	__be32 address; /* for the job's frames */
	__u16 port;	/* UDP */
	__u16 weight;	/* 1 to 100 */
};

/* AGGREGATORS, before JOINED: the group's aggregators, if there are several, in the order that all ranks have. */
struct fpisa_manager_list {
	__u32 n; /* 2 to FPISA_MAX_SHARDS */
	__u32 zero;
	struct fpisa_manager_aggregator of[FPISA_MAX_SHARDS];
};

struct fpisa_manager_register {
	__u32 version;	/* version of frames, FPISA_VERSION */
	__be32 address; /* for frames; 0: the address of this connection */
	__u16 port;	/* UDP, of its datapath */
	__u16 zero;
	__u32 rate;  /* rate of the aggregator's link, Mbit/s; 0: unknown */
	__u32 slots; /* slots that it may assign, at least 1 */
};

struct fpisa_manager_ranks { /* before MAKE, one message for each 32 ranks */
	__u64 group;
	__u32 first; /* 0 or 32 */
	__u32 zero;
	__be32 address[FPISA_MANAGER_MAKE_RANKS];
	__u16 port[FPISA_MANAGER_MAKE_RANKS];
};

struct fpisa_manager_make {
	__u64 group;
	__u64 token, token_high;
	__u32 index, workers;
	struct fpisa_manager_spec spec; /* window not 0 */
	__u32 zero;
	char name[FPISA_MANAGER_NAME];	/* name of the group */
	char owner[FPISA_MANAGER_NAME]; /* name of the group's key; "" without */
};

struct fpisa_manager_made {
	__u64 group;
	__u32 index;
	__s32 err; /* 0; -ENOSPC: a smaller window may fit; -EMSGSIZE: spec.elements fit, if not 0; or another -errno */
	__u32 number; /* the job's number, or an error's enum fpisa_manager_reason; 0: as the error says */
	struct fpisa_manager_spec spec;	    /* complete, if err is 0; else only elements */
	char text[FPISA_MANAGER_MADE_TEXT]; /* text of an error */
};

struct fpisa_manager_group_id { /* HOLDS: the aggregator has jobs of the group; ENDED: it was ended there; DROP: it has ended */
	__u64 group;
};

struct fpisa_manager_members {
	__u64 ranks;	     /* PENDING: ranks that have joined; JOINED: ranks in the group; GONE: dead ranks */
	__u64 group, secret; /* JOINED: values for RETURN; else 0 */
	__u32 cause;	     /* GONE: enum fpisa_manager_cause; else 0 */
	__u32 zero;
};

struct fpisa_manager_leave { /* LEAVE, and LEFT */
	__u64 calls;	     /* number of calls that the rank has completed in this group */
	__u32 rank;	     /* rank in LEFT; 0 in LEAVE */
	__u32 zero;
};

struct fpisa_manager_waits { /* a rank has waited for the oldest of its calls for a second */
	__u64 call;	     /* number of the call in the group, from 1 */
	__u64 digest;	     /* digest of the group's calls up to it */
};

#define FPISA_MANAGER_NO_JOB 0xffffffffu

struct fpisa_manager_refusal { /* REFUSED; and FAILED, whose reason is `failed`, for the job `index` */
	__u32 reason;	       /* enum fpisa_manager_reason */
	__u32 index;	       /* index of the job, or FPISA_MANAGER_NO_JOB */
	__u64 ranks;	       /* ranks that the refusal concerns, or 0 */
	char text[FPISA_MANAGER_TEXT];
};

struct fpisa_manager_message {
	__u32 magic;
	__u16 version;
	__u16 type;
	__u64 number; /* PING: any; PONG: that of its PING; else 0 */
	union {
		struct fpisa_manager_join join; /* JOIN, RETURN */
		struct fpisa_manager_ask ask;
		struct fpisa_manager_bind bind; /* BIND, BOUND */
		struct fpisa_manager_job job;
		struct fpisa_manager_members members; /* PENDING, JOINED, GONE */
		struct fpisa_manager_leave leave;     /* LEAVE, LEFT */
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
 * State of a group's job, at each rank (struct fpisa_link_job), at the manager (struct manager_group_job) and in the
 * record that is kept with the datapath (struct group_job). The record has only the first three states. Their numbers
 * do not change, because a record outlives the program that wrote it.
 *
 *	from		to	at a rank				at the manager
 *	NONE		ASKED	its first call of a type sends ASK	the first rank's ASK
 *	ASKED		BINDING	it has opened the port of BIND		all ranks have asked alike: BIND
 *	BINDING		ASKED	another BIND, another connection	BOUND says that a port is taken: BIND again
 *	BINDING		MAKING						all ports are open: recorded, and the helper is asked
 *	MAKING		MADE						all aggregators have it: JOB
 *	BINDING		MADE	JOB: the handle joins
 *	any but NONE	REFUSED	REFUSED is heard; or FAILED is sent	the job cannot be created, or differs; MAKING and
 *									MADE stay, with a reason, until the group ends
 *
 * The driver that moves the requests held by a handle until then is a separate state, guarded by the handle's lock
 * and not the link's: enum fpisa_driver in lib/shared.h.
 */
enum fpisa_group_job {
	FPISA_GROUP_JOB_NONE,
	FPISA_GROUP_JOB_MAKING, /* the job may or may not exist */
	FPISA_GROUP_JOB_MADE,
	FPISA_GROUP_JOB_BINDING,
	FPISA_GROUP_JOB_ASKED,
	FPISA_GROUP_JOB_REFUSED,
};

/* Return whether a rank has asked for the job and got no answer yet. */
static inline int fpisa_group_job_awaited(enum fpisa_group_job state)
{
	return state == FPISA_GROUP_JOB_ASKED || state == FPISA_GROUP_JOB_BINDING;
}

/* Return whether the job's ranks have ports, for the manager. */
static inline int fpisa_group_job_has_ports(enum fpisa_group_job state)
{
	return state >= FPISA_GROUP_JOB_MAKING && state <= FPISA_GROUP_JOB_BINDING;
}

enum fpisa_manager_side { FPISA_MANAGER_RANK, FPISA_MANAGER_MANAGER };

/*
 * Return 0, or the reason why `from` may not send this message: malformed or version. Does not check the order of
 * messages.
 */
enum fpisa_manager_reason fpisa_manager_check(const struct fpisa_manager_message *m, enum fpisa_manager_side from);

/* Return whether it consists of 1 to 63 of A-Z a-z 0-9 . _ : @ + -, followed only by 0. */
int fpisa_manager_name_valid(const char name[FPISA_MANAGER_NAME]);

/* Return a message of the type, with an empty body. */
struct fpisa_manager_message fpisa_manager_message(enum fpisa_manager_type type);

/* Return the errno of a refusal, negative; -EPROTO for a reason that is not known here. */
int fpisa_manager_error(__u32 reason);

/* Return the cause as text: "its process ended" and the like. */
const char *fpisa_manager_cause_text(__u32 cause);

/* Return the bitmap of all of `size` ranks. */
static inline __u64 fpisa_manager_all(__u32 size)
{
	return size >= 64 ? ~0ull : (1ull << size) - 1;
}

#endif
