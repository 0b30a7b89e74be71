/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections of masters that the worker does not serve yet. The worker's main process keeps all of them. A connection
 * must authenticate with a key within 5 s. Then it waits until a scan in progress ends, or until the worker reports
 * that there is no room. Hosts without a key share the places in this list and cannot occupy a scan.
 */
#ifndef FPISA_QUERY_NEWCOMERS_H
#define FPISA_QUERY_NEWCOMERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cli/log.h"
#include "query/lib/control.h"

#define NEWCOMERS_MOST 512  /* maximum number of connections without a key */
#define NEWCOMER_SHARES 256 /* number of shares to which hosts are assigned; an IPv6 /64 counts as one host */

enum newcomer_state {
	NEWCOMER_UNKNOWN,  /* not authenticated */
	NEWCOMER_ADMITTED, /* authenticated, waiting for a process */
	NEWCOMER_LEAVING,  /* receiving the reason why it is not served */
};

struct newcomer {
	TAILQ_ENTRY(newcomer) link;
	struct fpisa_control_channel control;
	struct fpisa_address from;
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
	int scans;		    /* maximum number of scans served at the same time */
	int unknown, known;	    /* numbers of connections without and with a key */
	uint32_t spread;	    /* random odd factor that assigns hosts to shares */
	int share[NEWCOMER_SHARES]; /* number of connections without a key in each share */
};

/* Take over an accepted connection and its descriptor. The data of its epoll events is the newcomer. */
void newcomers_add(struct newcomers *s, int fd, const struct fpisa_address *from);

/*
 * Close the oldest connection without a key from the share with the most such connections. Return false if all
 * connections are authenticated.
 */
bool newcomers_make_room(struct newcomers *s);

/* Handle a connection that is readable or writable. This may end other connections. */
void newcomer_work(struct newcomers *s, struct newcomer *n);

/* End connections whose time is over. */
void newcomers_tick(struct newcomers *s);

/* Return the first connection that waits for a process, or NULL. */
struct newcomer *newcomers_next(const struct newcomers *s);

/*
 * Send the master errno `err` and fpisa_query_error() as the reason why it is not served. The connection ends
 * afterwards.
 */
void newcomer_refuse(struct newcomers *s, struct newcomer *n, int err);

/* Forget a connection that another process now serves. */
void newcomer_forget(struct newcomers *s, struct newcomer *n);

/* Close the sockets of all connections except `n`. The process that serves `n` calls this. */
void newcomers_close_others(const struct newcomers *s, const struct newcomer *n);

#endif
