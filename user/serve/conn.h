/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections of the manager: accept, limits, messages in and out, the end of each. Connections of ranks in groups have events of
 * their own in the loop. All others, and the listener, share one event, which handles a few at a time: however many
 * there are, no rank in a group waits for more than that.
 */
#ifndef FPISA_SERVE_CONN_H
#define FPISA_SERVE_CONN_H

#include <sys/queue.h>

#include "lib/manager/channel.h"
#include "manager/group.h"
#include "refusals.h"

/* A host with connections that are in no group yet. */
struct conn_host {
	__be32 address;
	int n; /* its connections in no group; 0: a free entry */
};

struct conn {
	struct manager_caller caller; /* first */
	TAILQ_ENTRY(conn) link, dirty_link, stranger_link;
	struct conn_host *host; /* host of a connection in no group yet; NULL: it has been in a group, or was refused */
	struct fpisa_channel *channel;
	bool closing; /* in the list of closing connections: its last messages leave, then it ends */
	bool dirty;
	bool deaf;	/* it does not read its messages */
	bool member;	/* in a group, now or before: its events are the loop's */
	bool broken;	/* its input is discarded */
	__u64 until_ms; /* by when it must have joined, or have ended */
};

TAILQ_HEAD(conns, conn);

struct conns_of {
	struct manager *manager;
	const struct fpisa_psks *keys; /* NULL: none */
	int epoll, listener;
	int strangers; /* an epoll within `epoll`: the listener, and connections in no group */
	int n, waiting, n_closing;
	struct conns all;     /* from the oldest on, as in the other lists */
	struct conns wait;    /* in no group yet */
	struct conns closing; /* refused, or out of their group; no more than MANAGER_WAITING */
	struct conns dirty;   /* have something to send */
	struct conn_host host[MANAGER_WAITING + 1];
	struct log refusals;
};

/* Listen on the policy's address and port; 0 or -errno, reported. The epoll data of connections in no group is NULL. */
int conns_open(struct conns_of *s, const struct manager_policy *policy, __u16 port);

void conns_strangers(struct conns_of *s); /* handle a few events of connections in no group, new connections among them */
void conn_work(struct conns_of *s, struct conn *c); /* handle one that can be read or written */
void conns_flush(struct conns_of *s);		    /* send what the last events queued */
void conns_tick(struct conns_of *s);		    /* end connections whose time is over */

/* Members of struct manager_ops, for an arg whose first member is the conns_of. */
void conn_send(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m);
void conn_hang_up(void *arg, struct manager_caller *who);
void conn_refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text);

#endif
