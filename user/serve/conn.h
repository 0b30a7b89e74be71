/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections of the manager: accept, limits, messages in and out, the end of each connection. Connections of ranks in
 * groups have their own events in the loop. All others, and the listener, share one event, which handles a few at a
 * time. So no rank in a group waits for more than these few, however many connections exist.
 */
#ifndef FPISA_SERVE_CONN_H
#define FPISA_SERVE_CONN_H

#include <sys/queue.h>

#include "lib/manager/channel.h"
#include "manager/group.h"
#include "refusals.h"

/* A host with connections that are not in a group yet */
struct conn_host {
	__be32 address;
	int n; /* the host's connections that are not in a group; 0: the entry is free */
};

struct conn {
	struct manager_caller caller; /* first */
	TAILQ_ENTRY(conn) link, dirty_link, stranger_link;
	struct conn_host *host; /* host of a connection that is not in a group yet; NULL: it has been in a group, or was refused */
	struct fpisa_channel *channel;
	bool closing; /* in the list of closing connections: its last messages are sent, then it ends */
	bool dirty;
	bool deaf;	/* the peer does not read its messages */
	bool member;	/* in a group, now or before: the loop handles its events */
	bool broken;	/* input is discarded */
	__u64 until_ms; /* deadline for it to join or to end */
};

TAILQ_HEAD(conns, conn);

struct conns_of {
	struct manager *manager;
	const struct fpisa_psks *keys; /* NULL: keys are not used */
	int epoll, listener;
	int strangers; /* epoll within `epoll`: the listener, and connections that are not in a group */
	int n, waiting, n_closing;
	struct conns all;     /* oldest first, as in the other lists */
	struct conns wait;    /* not in a group yet */
	struct conns closing; /* refused, or out of their group; at most MANAGER_WAITING */
	struct conns dirty;   /* have messages to send */
	struct conn_host host[MANAGER_WAITING + 1];
	struct log refusals;
};

/*
 * Listen on the policy's address and port. Return 0 or -errno, reported. The epoll data of connections outside groups is
 * NULL.
 */
int conns_open(struct conns_of *s, const struct manager_policy *policy, __u16 port);

void conns_strangers(struct conns_of *s); /* handle a few events of connections outside groups, including new connections */
void conn_work(struct conns_of *s, struct conn *c); /* handle a connection that can be read or written */
void conns_flush(struct conns_of *s);		    /* send messages that the last events queued */
void conns_tick(struct conns_of *s);		    /* end connections whose time is over */

/* Members of struct manager_ops, for an arg whose first member is the conns_of. */
void conn_send(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m);
void conn_hang_up(void *arg, struct manager_caller *who);
void conn_refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text);

#endif
