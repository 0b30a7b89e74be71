/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group's part of a connection to the manager (connection.h). The thread of the connection receives news about the
 * other ranks, and the ports and jobs for the handles of the group, and ends handles that cannot continue. The thread
 * also reports to the manager which handles have failed at this rank, and for which call this rank waits, so that no
 * other rank waits forever. doc/manager.md has the rules.
 */
#ifndef FPISA_LINK_H
#define FPISA_LINK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include "aggregators.h"
#include "base/error.h"
#include "base/fork.h"
#include "connection.h"

#define FPISA_LINK_GREETING (1 + 2 * FPISA_MANAGER_JOBS) /* maximum number of messages of fpisa_link_greet() */

struct fpisa;
struct fpisa_standing;

struct fpisa_link_job {
	enum fpisa_group_job state;
	struct fpisa_manager_spec asked;
	uint64_t asked_ns;    /* time of the request for the job */
	struct fpisa *handle; /* handle of the job, which fails with the group; NULL: none yet */
	int error; /* error of a refusal for all ranks; a refusal may arrive before this rank asks for the job */
	int told;  /* a call has returned this error */
	int alike; /* the manager has refused the job before it was made; the ranks continue without it */
	char sentence[FPISA_MESSAGE_SIZE];
};

struct fpisa_link {
	struct fpisa_fork_hook fork; /* must be the first member */
	int inherited;
	struct fpisa_connection *connection;
	/* These members belong to connection.c. The first three are under the connection's lock. */
	TAILQ_ENTRY(fpisa_link) listed;
	int is_listed;
	uint64_t number;   /* number of the group on the connection */
	uint64_t since_ns; /* time since which the group has the connection */
	int greeted;	   /* JOIN or RETURN has been sent over the present connection */
	int leave_sent;	   /* LEAVE has been sent over it */
	int last_call;	   /* the last attempt to connect began after the link was to be removed */
	uint64_t leave_ns; /* time until which LEAVE may be sent; 0: the link is not being stopped */
	/* The prefix of messages, "HOST: group NAME" */
	char peer[FPISA_ENDPOINT_LEN + FPISA_MANAGER_NAME + 16];
	struct fpisa_manager_join join;
	int events; /* descriptor of fpisa_group_eventfd(); -1: not created */
	/*
	 * The number of the oldest call that has not ended, the time since which it is the oldest, and whether the manager has
	 * been informed. Only the thread uses these members.
	 */
	uint64_t waits;
	uint64_t waits_ns;
	int waits_told;

	pthread_mutex_t lock; /* lock for all members that follow */
	pthread_cond_t changed;
	int started, joined, stopping;
	int told_pending;	    /* the manager has said which ranks have joined, while other ranks have not */
	struct fpisa_ranks pending; /* these ranks */
	struct fpisa_ranks gone;    /* dead ranks of a death that is not completely known yet */
	uint32_t shards;	    /* number of aggregators of the group; 0: a single aggregator, which BIND names */
	struct fpisa_aggregator aggregator[FPISA_MAX_SHARDS];
	uint8_t home[FPISA_MAX_WORKERS]; /* aggregator on the host of each rank, from 1; 0: none */
	int error;			 /* error of the group */
	struct fpisa_ranks missing;
	char sentence[FPISA_MESSAGE_SIZE];
	struct fpisa_ranks left;	    /* ranks that have left */
	uint64_t calls_of[FPISA_MAX_RANKS]; /* number of calls that each of these ranks had completed */
	uint64_t whole_of[FPISA_MAX_RANKS]; /* number of the last of these calls that had ended with results; 0: none */
	uint64_t calls;			    /* number of calls started at this rank */
	uint64_t digest;		    /* digest of these calls */
	uint64_t failed_barrier;	    /* first barrier that could not begin because its job had failed; 0: none */
	int barriers;			    /* barriers may be in progress */
	int unsent;			    /* number of messages in the queue */
	/* room for ASK, BOUND and FAILED of each job, and for WAITS */
	struct fpisa_manager_message queue[3 * FPISA_MANAGER_JOBS + 1];
	struct fpisa_link_job job[FPISA_MANAGER_JOBS];
};

/*
 * Prepare a link for its connection. The struct must be zero except for connection, peer and join. Return 0, or -errno
 * with the message set.
 */
int fpisa_link_init(struct fpisa_link *l);

/*
 * Wait until all ranks have joined, for at most timeout_ns, of which spent_ns have passed. Return 0, or -errno with the
 * message set.
 */
int fpisa_link_wait_joined(struct fpisa_link *l, uint64_t timeout_ns, uint64_t spent_ns);

/*
 * Wait on `changed` for a moment, under the lock. Return 1 if the clock, which was initialised with timeout_ns, has
 * reached its timeout, else 0.
 */
int fpisa_link_wait(struct fpisa_link *l, struct fpisa_clock *clock, uint64_t timeout_ns);

/*
 * Let the connection remove the link. If the group is complete, the link first reports the number of completed calls to
 * the manager.
 */
void fpisa_link_stop(struct fpisa_link *l);

/* Free what a link has when no connection has it. */
void fpisa_link_free(struct fpisa_link *l);

/* -- for the thread of the connection --------------------------------------------- */

/*
 * Send the first messages of a rank. To a restarted manager, send the rank's identity, the failed jobs, and the call
 * for which the rank waits. This function and the next two return 0, or -errno with the message set.
 */
int fpisa_link_greet(struct fpisa_link *l);

/* Send news of this rank to the manager. */
int fpisa_link_tell(struct fpisa_link *l);

/* Send the last messages of the rank. -ENOBUFS means that there is no room yet, because the manager does not read. */
int fpisa_link_leave(struct fpisa_link *l);

/*
 * Handle the end of the connection with error `rc`, whose message is `why`. Fail the group if not all ranks have joined
 * yet. Later, fail the group only if the manager refuses it.
 */
void fpisa_link_lost(struct fpisa_link *l, int rc, const char *why);

/* Fail the group if the manager, or the manager and the aggregator, have been silent for too long. */
void fpisa_link_check(struct fpisa_link *l, uint64_t now);

int fpisa_link_is_joined(struct fpisa_link *l);	    /* return whether all ranks have joined */
int fpisa_link_is_stopping(struct fpisa_link *l);   /* return whether the link is to be removed */
int fpisa_link_wants(struct fpisa_link *l);	    /* return whether the link needs a connection */
int fpisa_link_is_unanswered(struct fpisa_link *l); /* return whether the manager has not answered the rank's JOIN */

/* -- messages.c ------------------------------------------------------------------ */

/* Handle a message of the manager. */
void fpisa_link_hear(struct fpisa_link *l, const struct fpisa_manager_message *m);

/*
 * Fail the group and its handles. Only the first reason counts. fpisa_link_fail_so() uses the message of the thread, and
 * names no ranks. The caller holds the lock.
 */
void fpisa_link_fail(struct fpisa_link *l, int error, const struct fpisa_ranks *missing, const char *sentence);
void fpisa_link_fail_so(struct fpisa_link *l, int error);

/*
 * Return the error of the group and set its message, or return 0 if there is none. Do not call this function under the
 * lock.
 */
int fpisa_link_error(struct fpisa_link *l);

/*
 * Return the number of completed calls. Call this and the following functions under the lock. All calls up to that
 * number have ended with all of their results, or with an error that all ranks get. A barrier may end differently at
 * other ranks, because ranks that learn of a job's failure at different times run the barrier in different jobs.
 */
uint64_t fpisa_link_completed(const struct fpisa_link *l);

/*
 * Check whether another call may begin. Return 0, or -ECONNRESET with the message set if the call cannot end because a
 * rank has left.
 */
int fpisa_link_call(struct fpisa_link *l);

/*
 * Set *s to the standing of the handle that has the group's oldest request without all of its results, and return the
 * index of its job. s->number is 0 if there is no such request.
 */
int fpisa_link_oldest(const struct fpisa_link *l, struct fpisa_standing *s);

/* Fail the group if a rank that has left blocks calls in progress, once all calls that can end have ended. */
void fpisa_link_check_left(struct fpisa_link *l);

/* Queue a message and wake the thread. */
void fpisa_link_send(struct fpisa_link *l, const struct fpisa_manager_message *m);

/* Record that this rank cannot continue with this job, and let the manager inform the other ranks. */
void fpisa_link_job_failed(struct fpisa_link *l, struct fpisa_link_job *j, int error, const char *sentence);

/*
 * End all jobs of the group because a barrier has failed. A barrier concerns all jobs, because other ranks, which may
 * learn of a job's failure at another time, may wait for the barrier in another job. So this rank ends all jobs,
 * informs the other ranks, and fails the group with this error. The second function looks for a barrier that has begun
 * and failed. fpisa_link.barriers says whether such a barrier is possible.
 */
void fpisa_link_barrier_failed(struct fpisa_link *l, int error, const struct fpisa_ranks *missing, const char *sentence);
void fpisa_link_check_barriers(struct fpisa_link *l);

/* Return the message that reports the job's failure to the manager. */
struct fpisa_manager_message fpisa_link_failed(const struct fpisa_link *l, const struct fpisa_link_job *j);

#endif
