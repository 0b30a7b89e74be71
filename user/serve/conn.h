/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections of the manager: accept, limits, messages in and out, the end of each. Those of ranks in groups have events of
 * their own in the loop. All others, and the listener, share one, by which a little is done at a time: however many
 * there are, no rank in a group waits for more than that.
 */
#ifndef FPISA_SERVE_CONN_H
#define FPISA_SERVE_CONN_H

#include <sys/queue.h>

#include "lib/manager/channel.h"
#include "manager/group.h"
#include "refusals.h"

/* One that connections come from that are in no group yet. */
struct conn_host {
	__be32 address;
	int n; /* of them; 0: a free entry */
};

struct conn {
	struct manager_caller caller; /* first */
	TAILQ_ENTRY(conn) link, dirty_link, stranger_link;
	struct conn_host *host; /* it is in no group yet; NULL: it has been in one, or was refused */
	struct fpisa_channel *channel;
	bool closing; /* in the list of those: what was said last leaves, then it ends */
	bool dirty;
	bool deaf;	/* it does not take what it is sent */
	bool member;	/* in a group, or was: its events are the loop's */
	bool broken;	/* what it sends is thrown away */
	__u64 until_ms; /* by when it must have joined, or have ended */
};

TAILQ_HEAD(conns, conn);

struct conns_of {
	struct manager *manager;
	const struct fpisa_psks *keys; /* NULL: none */
	int epoll, listener;
	int strangers; /* an epoll in that one: the listener, and whoever is in no group */
	int n, waiting, n_closing;
	struct conns all;     /* the oldest first, as in the others */
	struct conns wait;    /* are in no group yet */
	struct conns closing; /* refused, or out of their group; no more than MANAGER_WAITING */
	struct conns dirty;   /* have something to send */
	struct conn_host host[MANAGER_WAITING + 1];
	struct log refusals;
};

/* Listens on the policy's address and port; 0 or -errno, reported. epoll's data of who is in no group is NULL. */
int conns_open(struct conns_of *s, const struct manager_policy *policy, __u16 port);

void conns_strangers(struct conns_of *s);	    /* a little for who is in no group, new ones among them */
void conn_work(struct conns_of *s, struct conn *c); /* it can be read or written */
void conns_flush(struct conns_of *s);		    /* what the last events gave to send */
void conns_tick(struct conns_of *s);		    /* those whose time is over */

/* Of struct manager_ops, with the conns_of as their arg's first member. */
void conn_send(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m);
void conn_hang_up(void *arg, struct manager_caller *who);
void conn_refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text);

#endif
