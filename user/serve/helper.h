/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The manager is two processes. The process that talks to the network has no capability and no pin. The other process,
 * the helper, opens the datapath, and takes the requests below over a SOCK_SEQPACKET pair. For any request, the helper
 * only does what the policy allows. It changes only jobs and groups that a record assigns to the manager.
 */
#ifndef FPISA_SERVE_HELPER_H
#define FPISA_SERVE_HELPER_H

#include "config/config.h"
#include "manager/group.h"
#include "requests.h"

enum helper_what {
	HELPER_RECORD,	   /* no answer */
	HELPER_MAKE,	   /* answered by HELPER_MAKE */
	HELPER_REMOVE,	   /* no answer */
	HELPER_COUNT,	   /* no answer */
	HELPER_LOOK,	   /* answered by HELPER_LOOK: groups that are to end */
	HELPER_READ,	   /* read the configuration and its keys again; answered by HELPER_READ */
	HELPER_FOUND,	   /* sent at the start, without a request: a group that lives */
	HELPER_READY,	   /* the last message at the start */
	HELPER_AGGREGATOR, /* no answer: the record of an aggregator that has registered, by its place */
};

struct helper_request {
	__u32 what, place;
	union {
		struct group_record record;
		struct manager_make make;
		struct manager_counts counts;
		struct aggregator_record aggregator;
		struct {
			__u64 token;
			__u32 number;
		} remove;
	};
};

/* The present configuration */
struct helper_news {
	int err;		      /* nonzero: reported, and everything is unchanged */
	bool keyed;		      /* `keys` are used */
	struct manager_policy policy; /* without key_file and user */
	struct fpisa_psks keys;
};

struct helper_answer {
	__u32 what, place;
	union {
		struct helper_news news;
		struct manager_made made;
		__u64 kill[GROUPS]; /* ids by place; 0: the group continues */
		struct group_record record;
		struct helper_ready {
			__u32 port; /* UDP */
			__u32 slots;
		} ready; /* properties of the datapath */
	};
};

struct helper {
	pid_t pid;
	int fd; /* does not block after the start */
	struct requests requests;
};

/*
 * Start the helper for the datapath pinned in `pin`, which may be NULL, and wait until it is ready. Call found() for
 * each group that lives. Return 0 or -errno, reported.
 */
int helper_start(struct helper *h, const char *pin, struct config *c, struct helper_ready *ready,
		 void (*found)(void *arg, __u32 place, const struct group_record *r), void *arg);

/* End a helper that was started and has not received a request. It removes everything that it has made. */
void helper_end(struct helper *h);

/*
 * Send a request without waiting: helper_turn() sends requests that the helper does not take yet. Return 0, -EPIPE,
 * reported, if the helper has ended, or -ENOMEM.
 */
int helper_ask(struct helper *h, const struct helper_request *q);

/*
 * Send waiting requests; call this now and then. Return -ETIMEDOUT, reported, if the helper has taken nothing for 30 s,
 * else as helper_ask().
 */
int helper_turn(struct helper *h);

/* Read an answer. Return 1 if *a is an answer, 0 if no answer waits, or -errno, reported, if the helper has ended. */
int helper_answer(const struct helper *h, struct helper_answer *a);

#endif
