/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections of the manager: accepting connections, limits, messages, and the end of connections. Connections of ranks
 * in groups have their own events in the loop. All other connections and the listener share one event, and each turn
 * handles only a few of them. So a rank in a group waits only for these few, however many connections exist.
 */
#ifndef FPISA_SERVE_CONN_H
#define FPISA_SERVE_CONN_H

#include <sys/queue.h>

#include "lib/manager/channel.h"
#include "manager/group.h"
#include "refusals.h"

/* A host with connections that are not in a group yet. All addresses of an IPv6 /64 are one host. */
struct conn_host {
	struct fpisa_address address;
	int n; /* number of the host's connections that are not in a group; 0: the entry is free */
};

struct conn;

/* A rank's place in one of the groups that share a connection. */
struct conn_member {
	struct manager_caller caller; /* must be the first member */
	TAILQ_ENTRY(conn_member) link;
	struct conn *conn;
	__u64 number; /* number of the group on the connection */
	bool over;    /* the rank has left the group, or was refused; later messages of this number are ignored */
};

TAILQ_HEAD(conn_members, conn_member);

struct conn {
	struct conn_member first;   /* member of number 0, which is also the aggregator of the connection */
	struct conn_members others; /* members of other numbers */
	int n_others;
	__u64 highest; /* highest number that the connection has used; numbers are not used again */
	TAILQ_ENTRY(conn) link, dirty_link, stranger_link;
	/* host of a connection that is not in a group yet; NULL: the connection has been in a group, or was refused */
	struct conn_host *host;
	struct fpisa_channel *channel;
	bool closing; /* in the list `closing`: the connection ends after its last messages are sent */
	bool dirty;
	bool deaf;	/* the peer does not read its messages */
	bool known;	/* the connection is or was in a group, so the loop handles its events */
	bool broken;	/* all input is discarded */
	__u64 until_ms; /* deadline for joining or for the end of the connection */
};

TAILQ_HEAD(conns, conn);

struct conns_of {
	struct manager *manager;
	const struct fpisa_psks *keys; /* keys of clients; NULL: keys are not used */
	int epoll, listener;
	/* epoll descriptor within `epoll`, for the listener and for connections that are not in a group */
	int strangers;
	int n, waiting, n_closing;
	struct conns all;     /* all connections; this list and the following ones begin with the oldest */
	struct conns wait;    /* connections that are not in a group yet */
	struct conns closing; /* connections that were refused or have left their group; at most MANAGER_CLOSING */
	struct conns dirty;   /* connections with messages to send */
	struct conn_host host[MANAGER_WAITING + 1];
	struct log refusals;
};

/*
 * Listen on the address and port of the policy. Return 0, or report an error and return a negative errno. The epoll
 * data of the event for connections outside groups is NULL.
 */
int conns_open(struct conns_of *s, const struct manager_policy *policy, __u16 port);

/* Return the connection of a caller that conn.c has given to the manager. */
struct conn *conn_of(const struct manager_caller *c);

void conns_strangers(struct conns_of *s);	    /* handle a few events of connections outside groups */
void conn_work(struct conns_of *s, struct conn *c); /* handle a connection that can be read or written */
void conns_flush(struct conns_of *s);		    /* send the messages that the last events have queued */
void conns_tick(struct conns_of *s);		    /* end connections whose deadline has passed */

/* Functions for struct manager_ops. The first member of `arg` must be the struct conns_of. */
void conn_send(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m);
void conn_hang_up(void *arg, struct manager_caller *who);
void conn_refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text);

#endif
