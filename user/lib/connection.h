/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A connection to the manager, which one group or several groups of a process use. A thread keeps the connection, sends
 * and receives the messages of its groups, and reconnects to a restarted manager. Each group has a link (link.h) with a
 * number, which its messages carry. The end of the connection is the death of this process in all of these groups.
 *
 * The connection is not an item of the groups' engines, because an engine's thread runs on_done, which may take any
 * time. If that thread also ran the connection, a callback of 4 s would delay the group's next job and the report of a
 * death by 4 s. With a separate thread the job exists within 2 s and the death is reported within 1 s
 * (test_a_death_while_a_callback_runs). To share the engine, callbacks would need a separate thread and queue. The
 * number of threads would be the same, and each callback would take 1.3 us more.
 */
#ifndef FPISA_CONNECTION_H
#define FPISA_CONNECTION_H

#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include "address.h"
#include "base/error.h"
#include "base/fork.h"
#include "manager/channel.h"

struct fpisa_link;

struct fpisa_connection {
	struct fpisa_fork_hook fork; /* must be the first member */
	int inherited;
	/* These members change only under fpisa_fork_hold(), so that they are right in a child. */
	TAILQ_ENTRY(fpisa_connection) listed; /* in the list of shared connections */
	int shared;
	int users;
	union fpisa_sockaddr to[FPISA_HOST_ADDRESSES];
	int addresses; /* number of addresses in `to` */
	char host[FPISA_ENDPOINT_LEN];
	struct fpisa_psk psk;
	int has_psk;
	char key_file[192];
	pthread_t thread;
	int fd;	  /* socket of the connection, or -1 */
	int wake; /* eventfd that wakes the thread to send messages or to end */
	/* Only the thread uses the following members. */
	struct fpisa_channel *channel; /* NULL: not connected */
	uint64_t there_ns;	       /* time of the last connection that the host refused */
	uint64_t looked_ns;	       /* time of the last check for silent hosts */
	uint64_t ping_ns;	       /* time of the next PING */
	int at;			       /* index in `to` of the address that is being tried, or has answered */
	int silent;		       /* an address has been tried and has not answered */
	int unreachable;	       /* an attempt since the last connection has ended with EHOSTUNREACH */
	int heard;	   /* the manager has answered; 0 again when the thread connects and no group is complete */
	int parted;	   /* a group has ended over the present connection */
	uint64_t heard_ns; /* time of the manager's last answer, or of the start of the thread */
	uint32_t rate;	   /* rate of the interface that leads to the manager; frames use the same interface */

	pthread_mutex_t lock; /* lock for all members that follow; take it before the lock of a link */
	pthread_cond_t changed;
	TAILQ_HEAD(fpisa_links, fpisa_link) links; /* in the order of their numbers; only the thread removes links */
	uint64_t numbers;			   /* number of the next link */
	int runs;				   /* the thread serves the links */
	int started;				   /* there is a thread to wait for */
};

/*
 * Read the last key of the key file, if there is one. If `shares` is set, find a shared connection of this process to
 * the host with the same file and key. If there is none, prepare one, and look up the name of the host for at most
 * limit_ns. Return 0, or -errno with the message set.
 */
int fpisa_connection_get(struct fpisa_connection **c, const char *host, const char *key_file, int shares,
			 uint64_t limit_ns);

/* Add a link, and start the thread unless it runs. Return 0, or -errno with the message set. */
int fpisa_connection_add(struct fpisa_connection *c, struct fpisa_link *l);

/* Wait until the last messages of a link have been sent, and remove the link. The thread ends with its last link. */
void fpisa_connection_remove(struct fpisa_connection *c, struct fpisa_link *l);

/* End the use of a connection. The last user frees it. In a child, only free memory. */
void fpisa_connection_put(struct fpisa_connection *c);

/* Wake the thread, which has messages to send. */
static inline void fpisa_connection_wake(const struct fpisa_connection *c)
{
	eventfd_write(c->wake, 1);
}

#endif
