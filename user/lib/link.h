/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A rank's connection to the manager: a thread that keeps it, hears what
 * happens to the others, comes back to a manager that was restarted, and ends
 * the group's handles when they cannot go on. Who uses the group waits for what
 * it has heard. doc/manager.md has the rules.
 */
#ifndef FPISA_LINK_H
#define FPISA_LINK_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include "address.h"
#include "base/error.h"
#include "base/fork.h"
#include "manager/channel.h"

struct fpisa;

enum fpisa_link_job_state {
	FPISA_LINK_JOB_NONE,
	FPISA_LINK_JOB_ASKED,
	FPISA_LINK_JOB_BIND,	/* bind is to be answered */
	FPISA_LINK_JOB_BOUND,	/* it has been */
	FPISA_LINK_JOB_GIVEN,	/* job */
	FPISA_LINK_JOB_REFUSED, /* error and sentence */
};

struct fpisa_link_job {
	enum fpisa_link_job_state state;
	struct fpisa_manager_spec asked;
	uint64_t asked_ns; /* when */
	struct fpisa_manager_bind bind;
	struct fpisa_manager_job job;
	struct fpisa *handle; /* to be failed with the group; NULL: none yet */
	int error;	      /* of a refusal, which may be heard before this rank asks */
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
	int fd;	  /* of the connection, -1: none */
	int wake; /* eventfd: there is something to send, or the end has come */
	int events; /* fpisa_group_eventfd()'s, -1: nobody has asked for it */
	/* Of the thread alone: when its host has said that no manager listens there, when it looked who is silent. */
	uint64_t there_ns, looked_ns;
	int at;	    /* which of `to` is tried now, or has answered */
	int silent; /* one of those tried before it has not answered */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t changed;
	int started, joined, stopping;
	uint64_t pending; /* ranks that have joined, before all have */
	int error;	  /* of the group */
	uint64_t missing;
	char sentence[FPISA_MESSAGE_SIZE];
	uint64_t left; /* ranks */
	uint64_t calls_of[64]; /* that those had completed */
	uint64_t calls;	       /* that have been started here */
	int heard;	       /* the manager, ever */
	uint64_t heard_ns;     /* the last time, or when the thread began */
	int unsent;	       /* messages of the queue */
	struct fpisa_manager_message queue[2 * FPISA_MANAGER_JOBS + 2];
	struct fpisa_link_job job[FPISA_MANAGER_JOBS];
};

/* Zeroed, with to, addresses, peer, join, psk and has_psk set. 0, or -errno with the message set. */
int fpisa_link_start(struct fpisa_link *l);

/* Waits until all ranks have joined, timeout_ns at most. 0, or -errno with the message set. */
int fpisa_link_wait_joined(struct fpisa_link *l, uint64_t timeout_ns);

/* Sends; under the lock, as the next. */
void fpisa_link_send(struct fpisa_link *l, const struct fpisa_manager_message *m);

/* Waits until a job is in another state than this, or the group has failed. */
void fpisa_link_wait_job(struct fpisa_link *l, const struct fpisa_link_job *j, enum fpisa_link_job_state state);

/* Says how many calls were completed, if the group is complete, and ends the thread. In a child nothing but memory. */
void fpisa_link_stop(struct fpisa_link *l, uint64_t calls);

/* -- hear.c ---------------------------------------------------------------------- */

/* The manager has said this. */
void fpisa_link_hear(struct fpisa_link *l, const struct fpisa_manager_message *m);

/* Under the lock: the group has failed, and its handles with it; the first reason counts. _so(): with the thread's message. */
void fpisa_link_fail(struct fpisa_link *l, int error, uint64_t missing, const char *sentence);
void fpisa_link_fail_so(struct fpisa_link *l, int error);

/* The group's error with its message, 0 if there is none. Not under the lock. */
int fpisa_link_error(struct fpisa_link *l);

/* A call begins, of which `calls` were before; if it cannot end, as a rank has left, the group fails. One that comes to nothing has not been. */
void fpisa_link_call(struct fpisa_link *l);
void fpisa_link_call_failed(struct fpisa_link *l);

#endif
