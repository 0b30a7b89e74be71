/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The manager consists of two processes. The network process has no capabilities and no access to pins. The other
 * process, the helper, opens the datapath, and receives the requests below over a SOCK_SEQPACKET pair. The helper only
 * executes requests that the policy permits, and changes only jobs and groups that a record assigns to the manager.
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
	HELPER_LOOK,	   /* answered by HELPER_LOOK, which has the groups that must end */
	HELPER_READ,	   /* read the configuration and its keys again; answered by HELPER_READ */
	HELPER_FOUND,	   /* sent at the start without a request, for each existing group */
	HELPER_READY,	   /* the last message at the start */
	HELPER_AGGREGATOR, /* no answer: the record of an aggregator that has registered, by its place */
};

/* Only the bytes that helper_request_bytes() counts are sent, because few groups have many ranks. */

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

static inline size_t helper_request_bytes(const struct helper_request *q)
{
	return offsetof(struct helper_request, record) +
	       (q->what == HELPER_RECORD ? group_record_bytes(&q->record) : sizeof(q->make));
}

_Static_assert(sizeof(struct manager_make) >= sizeof(struct manager_counts) &&
		       sizeof(struct manager_make) >= sizeof(struct aggregator_record),
	       "helper_request_bytes() has room for every request");

/* The current configuration. */
struct helper_news {
	int err;		      /* nonzero: an error, which was reported; the configuration is unchanged */
	struct manager_policy policy; /* key_file and user are not set */
	struct fpisa_psks keys;	      /* if the policy is keyed */
};

/* Of the answers, helper_answer_bytes() counts the bytes that are sent. */
struct helper_answer {
	__u32 what, place;
	union {
		struct helper_news news;
		struct manager_made made;
		__u64 kill[GROUPS]; /* ids of the groups to end, by place; 0: the group continues */
		struct group_record record;
		struct helper_ready {
			__u32 port; /* UDP port of the datapath */
			__u32 slots;
		} ready; /* properties of the datapath */
	};
};

static inline size_t helper_answer_bytes(const struct helper_answer *a)
{
	return offsetof(struct helper_answer, record) +
	       (a->what == HELPER_FOUND ? group_record_bytes(&a->record) : sizeof(a->news));
}

_Static_assert(sizeof(struct helper_news) >= sizeof(struct manager_made) &&
		       sizeof(struct helper_news) >= GROUPS * sizeof(__u64),
	       "helper_answer_bytes() has room for every answer");

struct helper {
	pid_t pid;
	int fd; /* socket to the helper; non-blocking after the start */
	struct requests requests;
};

/*
 * Start the helper for the datapath pinned in `pin`, which may be NULL, and wait until it is ready. Call found() for
 * each existing group. Return 0, or report an error and return a negative errno.
 */
int helper_start(struct helper *h, const char *pin, struct config *c, struct helper_ready *ready,
		 void (*found)(void *arg, __u32 place, const struct group_record *r), void *arg);

/* End a helper that was started and has not received a request. The helper removes everything that it has created. */
void helper_end(struct helper *h);

/*
 * Send a request without waiting. helper_turn() sends requests that the helper cannot take yet. Return 0, or -ENOMEM.
 * If the helper has ended, report this and return -EPIPE.
 */
int helper_ask(struct helper *h, const struct helper_request *q);

/*
 * Send waiting requests. Call this regularly. If the helper has taken no request for 30 s, report this and return
 * -ETIMEDOUT. Otherwise return as helper_ask() does.
 */
int helper_turn(struct helper *h);

/*
 * Read an answer. Return 1 if *a is an answer, or 0 if there is no answer now. If the helper has ended, report this and
 * return a negative errno.
 */
int helper_answer(const struct helper *h, struct helper_answer *a);

#endif
