/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A rank's connection to the manager. Its thread keeps the connection, hears what happens to the other ranks, and
 * reconnects to a manager that was restarted. It gets the ports and jobs for the group's handles, and ends handles
 * that cannot go on. It tells the manager which of them have failed here, and which call this rank waits for, so that
 * no other rank waits for ever. doc/manager.md has the rules.
 *
 * The connection is not an item of the group's engine, whose thread calls on_done, for as long as the program likes.
 * Meanwhile other ranks wait for this rank's BOUND, and calls that other threads wait for must fail when a rank is
 * gone. To share the engine, callbacks would need a thread of their own, so there would be as many threads as now.
 */
#ifndef FPISA_LINK_H
#define FPISA_LINK_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include "address.h"
#include "aggregators.h"
#include "base/error.h"
#include "base/fork.h"
#include "manager/channel.h"

struct fpisa;

struct fpisa_link_job {
	enum fpisa_group_job state;
	struct fpisa_manager_spec asked;
	uint64_t asked_ns;    /* when the job was asked for */
	struct fpisa *handle; /* to be failed with the group; NULL: none yet */
	int error; /* why no rank uses the job any more: a refusal, which may be heard before this rank asks, or... */
	int own;   /* ...a failure of this rank, which the manager is told */
	int told;  /* a call has ended with that error */
	char sentence[FPISA_MESSAGE_SIZE];
};

struct fpisa_link {
	struct fpisa_fork_hook fork; /* first */
	int inherited;
	struct sockaddr_in to[FPISA_HOST_ADDRESSES];
	int addresses; /* in `to` */
	char peer[96]; /* "HOST: group NAME", the begin of messages */
	struct fpisa_manager_join join;
	struct fpisa_psk psk;
	int has_psk;
	char key_file[192];
	pthread_t thread;
	int fd;	    /* the connection's socket, -1: none */
	int wake;   /* eventfd: messages to send, or the thread is to end */
	int events; /* descriptor of fpisa_group_eventfd(); -1: not created */
	/*
	 * Used by the thread only: when the host last said that no manager listens there, and when the thread last
	 * looked for silent hosts.
	 */
	uint64_t there_ns, looked_ns;
	/* The same: the oldest call that has not ended, since when it is the oldest, and whether the manager knows it. */
	struct fpisa_manager_waits waits;
	uint64_t waits_ns;
	int waits_told;
	int at;	    /* index in `to` of the address that is tried now, or has answered */
	int silent; /* an address tried before has not answered */

	pthread_mutex_t lock; /* lock of all members that follow */
	pthread_cond_t changed;
	int started, joined, stopping;
	uint64_t pending; /* ranks that have joined, before all have */
	uint32_t shards;  /* number of aggregators of the group; 0: one, which BIND names */
	struct fpisa_aggregator aggregator[FPISA_MAX_SHARDS];
	int error; /* the group's error */
	uint64_t missing;
	char sentence[FPISA_MESSAGE_SIZE];
	uint64_t left;	       /* ranks that have left */
	uint64_t calls_of[64]; /* calls that those ranks had completed */
	uint64_t calls;	       /* number of calls started here */
	uint64_t digest;       /* digest of those calls */
	uint64_t failed_barrier; /* number of the first barrier that could not begin because its job had failed; 0: none */
	int barriers;		 /* barriers may be in progress */
	int heard;		 /* the manager has answered at least once */
	uint64_t heard_ns;	 /* time of its last answer, or when the thread began */
	int unsent;		 /* messages of the queue */
	struct fpisa_manager_message queue[3 * FPISA_MANAGER_JOBS + 1]; /* ASK, BOUND, FAILED of each; WAITS */
	struct fpisa_link_job job[FPISA_MANAGER_JOBS];
};

/*
 * Start the thread. The struct is zeroed, with to, addresses, peer, join, psk and has_psk set. 0, or -errno with the
 * message set.
 */
int fpisa_link_start(struct fpisa_link *l);

/* Wait until all ranks have joined, timeout_ns at most. 0, or -errno with the message set. */
int fpisa_link_wait_joined(struct fpisa_link *l, uint64_t timeout_ns);

/*
 * Wait on `changed` for a moment, under the lock. Return 1 if the clock, which was initialised with timeout_ns, has
 * reached it, else 0.
 */
int fpisa_link_wait(struct fpisa_link *l, struct fpisa_clock *clock, uint64_t timeout_ns);

/* Report how many calls were completed, if the group is complete, and end the thread. In a child only free memory. */
void fpisa_link_stop(struct fpisa_link *l);

/* -- hear.c ---------------------------------------------------------------------- */

/* Take in a message of the manager. */
void fpisa_link_hear(struct fpisa_link *l, const struct fpisa_manager_message *m);

/* Fail the group and its handles, under the lock; only the first reason counts. _so(): with the thread's message. */
void fpisa_link_fail(struct fpisa_link *l, int error, uint64_t missing, const char *sentence);
void fpisa_link_fail_so(struct fpisa_link *l, int error);

/* Return the group's error with its message, 0 if there is none. Not under the lock. */
int fpisa_link_error(struct fpisa_link *l);

/*
 * Return the number of completed calls, under the lock, as the following functions. All calls up to it have ended
 * with all of their results, or by an error that all ranks hear of. The end of a barrier need not be known to all:
 * ranks that hear of a job's failure at different times run it in different jobs.
 */
uint64_t fpisa_link_completed(const struct fpisa_link *l);

/* Check before another call begins: -ECONNRESET with the message if the call cannot end because a rank has left. */
int fpisa_link_call(struct fpisa_link *l);

/* Fail the group if a rank that has left blocks calls in progress, once all calls that can end have ended. */
void fpisa_link_check_left(struct fpisa_link *l);

/* Queue a message and wake the thread. */
void fpisa_link_send(struct fpisa_link *l, const struct fpisa_manager_message *m);

/* Record that this rank cannot go on with that job, and let the manager tell the other ranks. */
void fpisa_link_job_failed(struct fpisa_link *l, struct fpisa_link_job *j, int error, const char *sentence);

/*
 * End all jobs of the group because a barrier has failed. A barrier concerns all jobs: other ranks, which may hear of
 * a job's failure sooner or later than this rank, may wait for it in another job. So this rank goes on with no job
 * and tells the others, and the group has that error. The second function looks for a barrier that has begun and
 * failed; fpisa_link.barriers says whether there may be one.
 */
void fpisa_link_barrier_failed(struct fpisa_link *l, int error, uint64_t missing, const char *sentence);
void fpisa_link_check_barriers(struct fpisa_link *l);

/* Return the message that reports the job's failure to the manager. */
struct fpisa_manager_message fpisa_link_failed(const struct fpisa_link *l, const struct fpisa_link_job *j);

#endif
