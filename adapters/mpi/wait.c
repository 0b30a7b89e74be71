// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Wait for the datapath or the manager while MPI makes progress. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include "shim.h"

/*
 * The number of polls without sleeping, about 100 us in total. Later polls sleep, which bounds the CPU time of a longer
 * wait.
 */
#define EAGER_TURNS 200
#define NAP_NS 50000

/* -- moving MPI's messages --------------------------------------------------------- */

static int query(void *state, MPI_Status *status)
{
	(void)state;
	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	return MPI_SUCCESS;
}

static int release(void *state)
{
	(void)state;
	return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
	(void)state, (void)complete;
	return MPI_SUCCESS;
}

int wait_mover(MPI_Request *mover)
{
	return PMPI_Grequest_start(query, release, cancel, NULL, mover);
}

void wait_mover_free(MPI_Request *mover)
{
	if (*mover == MPI_REQUEST_NULL)
		return;
	PMPI_Grequest_complete(*mover);
	PMPI_Wait(mover, MPI_STATUS_IGNORE);
}

/*
 * Transfer MPI's messages. Testing an incomplete request makes MPI transfer all
 * messages. MPI_Iprobe() is not sufficient, because MPICH's version only looks at
 * messages that have arrived.
 */
void wait_move(MPI_Request *mover)
{
	int done;

	PMPI_Test(mover, &done, MPI_STATUS_IGNORE);
}

static void rest(unsigned int n)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (n < EAGER_TURNS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

static void turn(MPI_Request *mover, unsigned int n)
{
	wait_move(mover);
	rest(n);
}

/* -- waiting ----------------------------------------------------------------------- */

int wait_request(MPI_Request *mover, struct fpisa_request **r)
{
	unsigned int n = 0;
	int done = 0, rc;

	while (!(rc = fpisa_test(r, &done, NULL)) && !done)
		turn(mover, n++);
	return rc;
}

int wait_mpi(MPI_Request *r, int (*given_up)(void *arg), void *arg)
{
	unsigned int n = 0;
	int done = 0;

	while (!PMPI_Test(r, &done, MPI_STATUS_IGNORE) && !done) {
		if (given_up(arg))
			return 0;
		rest(n++);
	}
	return 1;
}

struct aside {
	void (*work)(void *arg);
	void *arg;
	atomic_int done;
};

static void *run(void *arg)
{
	struct aside *a = arg;

	a->work(a->arg);
	atomic_store(&a->done, 1);
	return NULL;
}

void wait_aside(MPI_Request *mover, void (*work)(void *arg), void *arg)
{
	struct aside a = {.work = work, .arg = arg};
	sigset_t all, before;
	pthread_t thread;
	unsigned int n = 0;
	int rc;

	/* The program's own threads should handle the program's signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, &a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		work(arg);
		return;
	}
	while (!atomic_load(&a.done))
		turn(mover, n++);
	pthread_join(thread, NULL);
}
