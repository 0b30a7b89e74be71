/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections of masters that are not served yet, all in the worker's own process. A connection has 5 s to show a key; then it
 * waits for one of the scans that are served at once to end, or is told that there is no room. A host without a key only has
 * places here, which are shared out by host, and none among the scans.
 */
#ifndef FPISA_QUERY_NEWCOMERS_H
#define FPISA_QUERY_NEWCOMERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cli/log.h"
#include "query/lib/control.h"

#define NEWCOMERS_MOST 512  /* without a key, at once */
#define NEWCOMER_SHARES 256 /* into which hosts are spread */

enum newcomer_state {
	NEWCOMER_UNKNOWN,  /* it has shown no key */
	NEWCOMER_ADMITTED, /* it has, and waits for a process */
	NEWCOMER_LEAVING,  /* it hears why it is not served */
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
	TAILQ_HEAD(newcomer_list, newcomer) all; /* the oldest first */
	const struct fpisa_psks *keys;
	const char *key_file;
	struct log *log;
	int epoll;
	int scans;		    /* served at once */
	int unknown, known;	    /* how many there are */
	uint32_t spread;	    /* odd and random */
	int share[NEWCOMER_SHARES]; /* of the unknown ones */
};

/* A connection that was accepted: the descriptor is theirs from now on. Its events have the newcomer as data. */
void newcomers_add(struct newcomers *s, int fd, const struct sockaddr_in *from);

/* The oldest without a key, of the hosts that have most, gives way; false: there is none. */
bool newcomers_make_room(struct newcomers *s);

/* Handle a connection that can be read or written. This may end other connections. */
void newcomer_work(struct newcomers *s, struct newcomer *n);

/* End connections whose time is over. */
void newcomers_tick(struct newcomers *s);

/* The first that waits for a process, or NULL. */
struct newcomer *newcomers_next(const struct newcomers *s);

/* Tell the master why it is not served: fpisa_query_error(), of this errno. The connection ends by itself. */
void newcomer_refuse(struct newcomers *s, struct newcomer *n, int err);

/* Forget a connection that another process has from now on. */
void newcomer_forget(struct newcomers *s, struct newcomer *n);

/* Close, in that process, the sockets of all connections but this one. */
void newcomers_close_others(const struct newcomers *s, const struct newcomer *n);

#endif
