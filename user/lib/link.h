/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A rank's connection to the manager: a thread that keeps it, hears what
 * happens to the others, comes back to a manager that was restarted, gets the
 * group's handles their ports and jobs, and ends them when they cannot go on.
 * It tells the manager which of them have failed here, and which call this
 * rank waits for, so that no other rank waits for ever. doc/manager.md has the rules.
 *
 * The connection is not an item of the group's engine, whose thread calls on_done, for as long as the program likes. Meanwhile
 * other ranks wait for this one's BOUND, and calls that other threads wait for must fail when a rank is gone. To share
 * the engine, callbacks would need a thread of their own, so there would be as many threads as now.
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
	uint64_t asked_ns;    /* when */
	struct fpisa *handle; /* to be failed with the group; NULL: none yet */
	int error; /* no rank has the job, or uses it any more: by a refusal, which may be heard before this rank asks, or... */
	int own;  /* ...because this rank could not go on with it, which the manager is told */
	int told; /* a call has ended with that error */
	char sentence[FPISA_MESSAGE_SIZE];
};

struct fpisa_link {
	struct fpisa_fork_hook fork; /* first */
	int inherited;
	struct sockaddr_in to[FPISA_HOST_ADDRESSES];
	int addresses; /* in `to` */
	char peer[96]; /* "HOST: group NAME", before what is said */
	struct fpisa_manager_join join;
	struct fpisa_psk psk;
	int has_psk;
	char key_file[192];
	pthread_t thread;
	int fd;	    /* of the connection, -1: none */
	int wake;   /* eventfd: there is something to send, or the end has come */
	int events; /* fpisa_group_eventfd()'s, -1: nobody has asked for it */
	/* Used by the thread only: when the host last said that no manager listens there, and when the thread last looked for silent hosts. */
	uint64_t there_ns, looked_ns;
	/* The same: the oldest call that has not ended, since when it is that, whether the manager knows it. */
	struct fpisa_manager_waits waits;
	uint64_t waits_ns;
	int waits_told;
	int at;	    /* which of `to` is tried now, or has answered */
	int silent; /* one of those tried before it has not answered */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t changed;
	int started, joined, stopping;
	uint64_t pending; /* ranks that have joined, before all have */
	uint32_t shards;  /* aggregators of the group; 0: one, which BIND names */
	struct fpisa_aggregator aggregator[FPISA_MAX_SHARDS];
	int error; /* of the group */
	uint64_t missing;
	char sentence[FPISA_MESSAGE_SIZE];
	uint64_t left;		 /* ranks */
	uint64_t calls_of[64];	 /* that those had completed */
	uint64_t calls;		 /* that have been started here */
	uint64_t digest;	 /* of them */
	uint64_t failed_barrier; /* the first one that could not begin, as its job had failed; 0: none */
	int barriers;		 /* some may be under way */
	int heard;		 /* the manager, ever */
	uint64_t heard_ns;	 /* the last time, or when the thread began */
	int unsent;		 /* messages of the queue */
	struct fpisa_manager_message queue[3 * FPISA_MANAGER_JOBS + 1]; /* ASK, BOUND, FAILED of each; WAITS */
	struct fpisa_link_job job[FPISA_MANAGER_JOBS];
};

/* Zeroed, with to, addresses, peer, join, psk and has_psk set. 0, or -errno with the message set. */
int fpisa_link_start(struct fpisa_link *l);

/* Waits until all ranks have joined, timeout_ns at most. 0, or -errno with the message set. */
int fpisa_link_wait_joined(struct fpisa_link *l, uint64_t timeout_ns);

/* Waits on `changed` for a moment, under the lock. 1: the clock, which was initialised with timeout_ns, has reached it; 0: it has not. */
int fpisa_link_wait(struct fpisa_link *l, struct fpisa_clock *clock, uint64_t timeout_ns);

/* Says how many calls were completed, if the group is complete, and ends the thread. In a child nothing but memory. */
void fpisa_link_stop(struct fpisa_link *l);

/* -- hear.c ---------------------------------------------------------------------- */

/* The manager has said this. */
void fpisa_link_hear(struct fpisa_link *l, const struct fpisa_manager_message *m);

/* Under the lock: the group has failed, and its handles with it; the first reason counts. _so(): with the thread's message. */
void fpisa_link_fail(struct fpisa_link *l, int error, uint64_t missing, const char *sentence);
void fpisa_link_fail_so(struct fpisa_link *l, int error);

/* The group's error with its message, 0 if there is none. Not under the lock. */
int fpisa_link_error(struct fpisa_link *l);

/*
 * Under the lock, as what follows: calls of which all before have ended with all of their results, or by an error that all ranks hear of. That
 * of a barrier need not be: ranks that hear of a job's failure at different times run it in different jobs.
 */
uint64_t fpisa_link_completed(const struct fpisa_link *l);

/* Another call is about to begin. If it cannot end, as a rank has left, -ECONNRESET with the message. */
int fpisa_link_call(struct fpisa_link *l);

/* So the group fails that calls are under way which cannot end, and none any more that can. */
void fpisa_link_check_left(struct fpisa_link *l);

/* Sends. */
void fpisa_link_send(struct fpisa_link *l, const struct fpisa_manager_message *m);

/* This rank cannot go on with that job: the manager tells the others. */
void fpisa_link_job_failed(struct fpisa_link *l, struct fpisa_link_job *j, int error, const char *sentence);

/*
 * A barrier is of all jobs: other ranks, which have heard of a job's failure sooner or later than this one, may wait in it in another job.
 * So when one has failed this rank goes on with none, says so to the others, and the group has that error. The second function
 * looks for one that has begun and failed, which fpisa_link.barriers says there may be.
 */
void fpisa_link_barrier_failed(struct fpisa_link *l, int error, uint64_t missing, const char *sentence);
void fpisa_link_check_barriers(struct fpisa_link *l);

/* The message that tells the manager so. */
struct fpisa_manager_message fpisa_link_failed(const struct fpisa_link *l, const struct fpisa_link_job *j);

#endif
