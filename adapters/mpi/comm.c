// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Communicators. A communicator's record is an attribute of the communicator. So MPI deletes the record when a program
 * in any language frees the communicator. Requests in progress keep the record until they end.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shim.h"

/* protects the list; MPI may hold its own lock when it calls the callbacks that take this lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(comm_list, comm) comms = LIST_HEAD_INITIALIZER(comms);
/* protects the variables below; callbacks do not take this lock */
static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static int record_key = MPI_KEYVAL_INVALID, end_key = MPI_KEYVAL_INVALID;
static int error_code = MPI_ERR_OTHER;

/* -- records --------------------------------------------------------------------- */

void comm_get(struct comm *m)
{
	pthread_mutex_lock(&lock);
	m->users++;
	pthread_mutex_unlock(&lock);
}

static void let_go(struct comm *m)
{
	service_leave(m->service);
	m->service = NULL;
	m->state = SERVICE_MPI;
	wait_mover_free(&m->mover);
}

void comm_put(struct comm *m)
{
	int last;

	pthread_mutex_lock(&lock);
	last = !--m->users;
	if (last)
		LIST_REMOVE(m, link);
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	let_go(m);
	levels_free(&m->levels);
	free(m);
}

static int forget(MPI_Comm c, int key, void *value, void *extra)
{
	(void)c, (void)key, (void)extra;
	request_forget(value);
	comm_put(value);
	return MPI_SUCCESS;
}

/*
 * Leave all services. MPI_Finalize() deletes the attributes of MPI_COMM_SELF
 * first, and may not delete those of other communicators.
 */
static int end(MPI_Comm c, int key, void *value, void *extra)
{
	struct comm *m;

	(void)c, (void)key, (void)value, (void)extra;
	pthread_mutex_lock(&lock);
	LIST_FOREACH(m, &comms, link)
		let_go(m);
	pthread_mutex_unlock(&lock);
	report_print();
	request_end();
	return MPI_SUCCESS;
}

int comm_prepare(void)
{
	int code, begun = 0, rc = 0;

	pthread_mutex_lock(&once);
	if (record_key != MPI_KEYVAL_INVALID)
		goto out;
	/*
	 * A program that uses only MPI sessions does not have MPI_COMM_SELF, whose attributes would report the end of
	 * MPI.
	 */
	PMPI_Initialized(&begun);
	if (!begun) {
		rc = -EINVAL;
		goto out;
	}
	if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &end_key, NULL) ||
	    PMPI_Comm_set_attr(MPI_COMM_SELF, end_key, &comms) ||
	    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &record_key, NULL))
		rc = -ENOMEM;
	/* Add an error class for which MPI_Error_string() returns this adapter's text. */
	if (!PMPI_Add_error_class(&code))
		error_code = code;
out:
	pthread_mutex_unlock(&once);
	return rc;
}

static struct comm *make(MPI_Comm c)
{
	struct comm *m = calloc(1, sizeof(*m));
	int n;

	if (!m)
		return NULL;
	m->users = 1;
	m->levels.host = MPI_COMM_NULL;
	PMPI_Comm_rank(c, &m->rank);
	PMPI_Comm_size(c, &m->size);
	PMPI_Comm_get_name(c, m->name, &n);
	if (!m->name[0])
		strcpy(m->name, "a communicator");
	if (wait_mover(&m->mover) || PMPI_Comm_set_attr(c, record_key, m)) {
		free(m);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&comms, m, link);
	pthread_mutex_unlock(&lock);
	return m;
}

/*
 * Return the record, if it exists. A communicator is in only one collective call at a time, so only one thread uses the
 * record.
 */
static struct comm *find(MPI_Comm c)
{
	struct comm *m = NULL;
	int found = 0;

	return PMPI_Comm_get_attr(c, record_key, &m, &found) || !found ? NULL : m;
}

static struct comm *record_of(MPI_Comm c)
{
	struct comm *m;

	if (comm_prepare())
		return NULL;
	m = find(c);
	return m ? m : make(c);
}

int comm_has_agreed(const struct comm *m)
{
	return m->state == SERVICE_MPI || m->state == SERVICE_FPISA;
}

struct comm *comm_of(MPI_Comm c, int waits)
{
	struct comm *m = record_of(c);

	if (m && !comm_has_agreed(m) && waits)
		m->state = agree(m, c);
	return m;
}

struct comm *comm_find(MPI_Comm c)
{
	int any;

	pthread_mutex_lock(&once);
	any = record_key != MPI_KEYVAL_INVALID;
	pthread_mutex_unlock(&once);
	return any && c != MPI_COMM_NULL ? find(c) : NULL;
}

void comm_agree_on_requests(MPI_Comm c)
{
	struct comm *m = comm_find(c);

	if (m)
		agree_on_requests(m, c);
}

/* -- calls ------------------------------------------------------------------------- */

int comm_error_code(const char *error)
{
	char text[MPI_MAX_ERROR_STRING];
	int code;

	snprintf(text, sizeof(text), "fpisa: %.200s", error);
	pthread_mutex_lock(&once);
	code = error_code;
	if (code != MPI_ERR_OTHER)
		PMPI_Add_error_string(code, text);
	pthread_mutex_unlock(&once);
	return code;
}

void comm_say(const struct comm *m, const char *error)
{
	fprintf(stderr, "fpisa: %s, rank %d of %d: %s\n", m->name, m->rank, m->size, error);
}

/* Report an error. Parts of the array may already contain results, so MPI cannot repeat the call. */
static int fail(const struct comm *m, MPI_Comm c, const char *error)
{
	int code = comm_error_code(error);

	comm_say(m, error);
	PMPI_Comm_call_errhandler(c, code);
	return code;
}

int comm_no_memory(const struct comm *m, MPI_Comm c)
{
	return fail(m, c,
		    "not enough memory for a call that the other ranks make; give the process more "
		    "memory, or reduce fewer values at a time");
}

int comm_no_request(const struct comm *m, MPI_Comm c, int rc)
{
	char why[MPI_MAX_ERROR_STRING] = "?", error[MPI_MAX_ERROR_STRING + 64];
	int n;

	PMPI_Error_string(rc, why, &n);
	snprintf(error, sizeof(error), "MPI cannot create a request for a call that the other ranks make: %s", why);
	return fail(m, c, error);
}

int comm_allreduce(struct comm *m, MPI_Comm c, const struct fpisa_call *call)
{
	struct fpisa_request *r;
	int rc = service_start(m->service, call, &r);

	if (!rc)
		rc = wait_request(&m->mover, &r);
	return rc ? fail(m, c, service_error()) : MPI_SUCCESS;
}

int comm_reduce_scatter(struct comm *m, MPI_Comm c, const struct fpisa_call *call, const size_t *counts)
{
	struct fpisa_request *r;
	int rc = service_start_scatter(m->service, call, counts, &r);

	if (!rc)
		rc = wait_request(&m->mover, &r);
	return rc ? fail(m, c, service_error()) : MPI_SUCCESS;
}

int comm_allreduce_levels(struct comm *m, MPI_Comm c, const struct fpisa_call *call, int count, MPI_Datatype t,
			  MPI_Op op)
{
	char error[TEXT];
	int rc = levels_allreduce(m, call, count, t, op, error);

	return rc || !error[0] ? rc : fail(m, c, error);
}
