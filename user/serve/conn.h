/* SPDX-License-Identifier: GPL-2.0-only */
/* Connections of the manager: accept, limits, messages in and out, the end of each. */
#ifndef FPISA_SERVE_CONN_H
#define FPISA_SERVE_CONN_H

#include <sys/queue.h>

#include "lib/manager/channel.h"
#include "manager/group.h"
#include "refusals.h"

struct conn {
	struct manager_caller caller; /* first */
	TAILQ_ENTRY(conn) link, dirty_link;
	struct fpisa_channel *channel;
	bool closing; /* what was said last leaves, then it ends */
	bool dirty;
	bool deaf; /* it does not take what it is sent */
	bool broken; /* it hears why; what it sends is thrown away */
	__u64 until_ms; /* by when it must have joined, or have ended */
};

TAILQ_HEAD(conns, conn);

struct conns_of {
	struct manager *manager;
	const struct fpisa_psks *keys; /* NULL: none */
	int epoll, listener;
	int n, waiting;
	struct conns all;   /* the oldest first */
	struct conns dirty; /* have something to send */
	struct refusals refusals;
};

/* Listens on the policy's address and port; 0 or -errno, reported. epoll's data of the listener is NULL. */
int conns_open(struct conns_of *s, const struct manager_policy *policy, __u16 port);

void conns_accept(struct conns_of *s);
void conn_work(struct conns_of *s, struct conn *c); /* it can be read or written */
void conns_flush(struct conns_of *s);		     /* what the last events gave to send */
void conns_tick(struct conns_of *s);		     /* those whose time is over */

/* Of struct manager_ops, with the conns_of as their arg's first member. */
void conn_send(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m);
void conn_hang_up(void *arg, struct manager_caller *who);
void conn_refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text);

#endif
