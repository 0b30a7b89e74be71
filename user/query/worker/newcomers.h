/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections of masters that the worker does not serve yet. The worker's own process keeps them all. A connection must
 * show a key within 5 s. It then waits until a scan that is served ends, or is told that no room is left. Hosts without
 * a key share the places in this list, and cannot take a scan.
 */
#ifndef FPISA_QUERY_NEWCOMERS_H
#define FPISA_QUERY_NEWCOMERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cli/log.h"
#include "query/lib/control.h"

#define NEWCOMERS_MOST 512  /* most connections without a key at once */
#define NEWCOMER_SHARES 256 /* number of shares over which hosts are spread */

enum newcomer_state {
	NEWCOMER_UNKNOWN,  /* has shown no key */
	NEWCOMER_ADMITTED, /* has shown a key, and waits for a process */
	NEWCOMER_LEAVING,  /* is being told why it is not served */
};

struct newcomer {
	TAILQ_ENTRY(newcomer) link;
	struct fpisa_control_channel control;
	struct sockaddr_in from;
	enum newcomer_state state;
	uint64_t until_ns;
	bool shut;
};

struct newcomers {
	TAILQ_HEAD(newcomer_list, newcomer) all; /* oldest first */
	const struct fpisa_psks *keys;
	const char *key_file;
	struct log *log;
	int epoll;
	int scans;		    /* most scans served at once */
	int unknown, known;	    /* number of connections without and with a key */
	uint32_t spread;	    /* factor that spreads hosts: odd and random */
	int share[NEWCOMER_SHARES]; /* connections of each share without a key */
};

/* Take over an accepted connection and its descriptor. Its epoll events have the newcomer as data. */
void newcomers_add(struct newcomers *s, int fd, const struct sockaddr_in *from);

/* Close the oldest connection without a key, among the hosts that have the most. Return false if all have shown a key. */
bool newcomers_make_room(struct newcomers *s);

/* Handle a connection that can be read or written. This may end other connections. */
void newcomer_work(struct newcomers *s, struct newcomer *n);

/* End connections whose time is over. */
void newcomers_tick(struct newcomers *s);

/* Return the first connection that waits for a process, or NULL. */
struct newcomer *newcomers_next(const struct newcomers *s);

/*
 * Send the master the reason why it is not served: fpisa_query_error(), with this errno. The connection then ends by
 * itself.
 */
void newcomer_refuse(struct newcomers *s, struct newcomer *n, int err);

/* Forget a connection that another process serves from now on. */
void newcomer_forget(struct newcomers *s, struct newcomer *n);

/* Close the sockets of all connections but `n`, in the process that serves `n`. */
void newcomers_close_others(const struct newcomers *s, const struct newcomer *n);

#endif
