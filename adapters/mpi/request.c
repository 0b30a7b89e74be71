// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Nonblocking calls in the datapath. The MPI request is a generalized request, so every MPI_Wait and MPI_Test function
 * accepts it, in every language. The library's thread marks a request as complete. A thread that is inside MPI reports
 * the completion to MPI, so any level of MPI_Init_thread() is sufficient.
 *
 * In Open MPI, a callback of the progress engine looks for marked requests. In MPICH, the request's own functions do
 * so. These functions are an extension of MPICH, which its MPI-IO uses too.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shim.h"

struct served {
	LIST_ENTRY(served) link;
	MPI_Request request;
	struct comm *comm;
	MPI_Comm handle; /* MPI_COMM_NULL after the communicator was freed */
	struct scatter scatter;
	atomic_int done;
	int rc, told;
	char error[TEXT];
};

static LIST_HEAD(served_list, served) under_way = LIST_HEAD_INITIALIZER(under_way);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static atomic_uint ended;				 /* requests that are complete, but still in the list */
#ifndef OPEN_MPI
static MPI_Request mover = MPI_REQUEST_NULL; /* for the thread that waits within MPI, one thread at a time */
#endif

static struct served *take_ended(void)
{
	struct served *s = NULL;

	if (!atomic_load(&ended))
		return NULL;
	pthread_mutex_lock(&lock);
	LIST_FOREACH(s, &under_way, link)
		if (atomic_load(&s->done)) {
			LIST_REMOVE(s, link);
			atomic_fetch_sub(&ended, 1);
			break;
		}
	pthread_mutex_unlock(&lock);
	return s;
}

int request_complete_ended(void)
{
	struct served *s;
	int n = 0;

	for (; (s = take_ended()); n++) {
		MPI_Request r = s->request;
		struct comm *m = s->comm;

		if (s->rc)
			comm_say(m, s->error);
		PMPI_Grequest_complete(r); /* from here on another thread may free the request */
		comm_put(m);
	}
	return n;
}

/* -- functions that MPI calls ---------------------------------------------------------- */

/* Return the request's error. If any generalized request fails, MPI calls the error handler of MPI_COMM_WORLD. */
static int query(void *state, MPI_Status *status)
{
	struct served *s = state;
	int code = s->rc ? comm_error_code(s->error) : MPI_SUCCESS;

	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	if (s->rc && !s->told && s->handle != MPI_COMM_NULL && s->handle != MPI_COMM_WORLD)
		PMPI_Comm_call_errhandler(s->handle, code);
	s->told = 1;
	return code;
}

static int release(void *state)
{
	free(state);
	return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
	(void)state, (void)complete;
	return MPI_SUCCESS;
}

#ifdef OPEN_MPI
/*
 * Register with the progress engine. mpi.h does not declare these functions.
 * They have existed since Open MPI 1.0, and Open MPI's own components use them.
 */
static int can_start(void)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	static int found = -1;
	int (*add)(int (*callback)(void));

	pthread_mutex_lock(&once);
	if (found < 0) {
		*(void **)&add = dlsym(RTLD_DEFAULT, "opal_progress_register");
		found = add && !add(request_complete_ended);
	}
	pthread_mutex_unlock(&once);
	return found;
}

static int start(struct served *s)
{
	return PMPI_Grequest_start(query, release, cancel, s, &s->request);
}
#else
static int can_start(void)
{
	int good;

	pthread_mutex_lock(&lock);
	good = mover != MPI_REQUEST_NULL || !wait_mover(&mover);
	pthread_mutex_unlock(&lock);
	return good;
}

/* Poll for completion, because MPI_Wait() calls nothing else until the request is complete. */
static int look(void *state, MPI_Status *status)
{
	struct served *s = state;

	(void)status;
	request_complete_ended();
	if (!atomic_load(&s->done))
		wait_move(&mover);
	return MPI_SUCCESS;
}

static int wait_for(int count, void **states, double timeout, MPI_Status *status)
{
	(void)timeout;
	for (int i = 0; i < count; i++) {
		struct served *s = states[i];

		while (!atomic_load(&s->done))
			look(s, status);
	}
	request_complete_ended();
	return MPI_SUCCESS;
}

static int start(struct served *s)
{
	return PMPIX_Grequest_start(query, release, cancel, look, wait_for, s, &s->request);
}
#endif

/* -- for the entries ------------------------------------------------------------------ */

static void finish(struct served *s, int rc, const char *error)
{
	scatter_end(&s->scatter, rc);
	s->rc = rc;
	if (rc)
		snprintf(s->error, sizeof(s->error), "%s", error);
	atomic_fetch_add(&ended, 1);
	atomic_store(&s->done, 1);
}

static void on_done(void *arg, int rc, uint32_t flags)
{
	(void)flags;
	finish(arg, rc, fpisa_error());
}

static int start_call(const struct served *s, const struct fpisa_call *call)
{
	return s->scatter.counts ? service_start_scatter(s->comm->service, call, s->scatter.counts, NULL) :
				   service_start(s->comm->service, call, NULL);
}

int request_start(struct comm *m, MPI_Comm c, const struct fpisa_call *what, const struct scatter *scatter,
		  MPI_Request *r)
{
	struct fpisa_call call = *what;
	struct served *s;
	int rc;

	if (!can_start())
		return REQUEST_NOT_HERE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return comm_no_memory(m, c);
	s->comm = m;
	s->handle = c;
	rc = start(s);
	if (rc) {
		free(s);
		return comm_no_request(m, c, rc);
	}
	*r = s->request;
	if (scatter)
		s->scatter = *scatter;
	comm_get(m);
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&under_way, s, link);
	pthread_mutex_unlock(&lock);
	call.on_done = on_done;
	call.arg = s;
	rc = start_call(s, &call);
	if (rc)
		finish(s, rc, service_error());
	return MPI_SUCCESS;
}

static int is_under_way(MPI_Request r)
{
	struct served *s;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(s, &under_way, link)
		if (s->request == r && !atomic_load(&s->done))
			break;
	pthread_mutex_unlock(&lock);
	return s != NULL;
}

void request_await(int count, const MPI_Request r[])
{
	for (int i = 0; i < count; i++)
		while (is_under_way(r[i])) {
			int flag;

			PMPI_Request_get_status(r[i], &flag, MPI_STATUS_IGNORE);
		}
	request_complete_ended();
}

void request_forget(const struct comm *m)
{
	struct served *s;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(s, &under_way, link)
		if (s->comm == m)
			s->handle = MPI_COMM_NULL;
	pthread_mutex_unlock(&lock);
}

void request_end(void)
{
#ifndef OPEN_MPI
	wait_mover_free(&mover);
#endif
}
