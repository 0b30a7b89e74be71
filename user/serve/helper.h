/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The manager is two processes. The process that talks to the network has no
 * capability and no pin; the helper beside it opens the datapath, and takes
 * the requests below over a SOCK_SEQPACKET pair. Whatever it is asked, the helper does only what the policy
 * allows, to jobs and groups that a record assigns to the manager.
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
	HELPER_READ,	   /* the configuration and its keys again; answered by HELPER_READ */
	HELPER_FOUND,	   /* an answer without a question, at the beginning: a group that lives */
	HELPER_READY,	   /* the last of these */
	HELPER_AGGREGATOR, /* no answer: what is known of an aggregator that has registered, by its place */
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

/* The configuration as it is by now. */
struct helper_news {
	int err;		      /* nonzero: reported, and everything stays as it was */
	bool keyed;		      /* by `keys` */
	struct manager_policy policy; /* without key_file and user */
	struct fpisa_psks keys;
};

struct helper_answer {
	__u32 what, place;
	union {
		struct helper_news news;
		struct manager_made made;
		__u64 kill[GROUPS]; /* ids by place; 0: none */
		struct group_record record;
		struct helper_ready {
			__u32 port; /* UDP */
			__u32 slots;
		} ready; /* the datapath's */
	};
};

struct helper {
	pid_t pid;
	int fd; /* blocks for nothing once it has begun */
	struct requests requests;
};

/*
 * Starts it for the datapath pinned in `pin`, which may be NULL, and waits until it is there; found() of each group that
 * lives. 0 or -errno, reported.
 */
int helper_start(struct helper *h, const char *pin, struct config *c, struct helper_ready *ready,
		 void (*found)(void *arg, __u32 place, const struct group_record *r), void *arg);

/* End a helper that was started and has not been asked for anything. It leaves nothing that it has made. */
void helper_end(struct helper *h);

/* Send a request without waiting: helper_turn() sends what the helper does not take yet. -EPIPE, reported: the helper is gone; or -ENOMEM. */
int helper_ask(struct helper *h, const struct helper_request *q);

/* Send waiting requests; call it now and then. -ETIMEDOUT, reported: the helper has taken nothing for 30 s; else as helper_ask(). */
int helper_turn(struct helper *h);

/* Read an answer. 1: *a is an answer; 0: there is none; -errno, reported: the helper is gone. */
int helper_answer(const struct helper *h, struct helper_answer *a);

#endif
