/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * After fork(), for example in a data loader, a child cannot use the handles of its parent. The child closes the
 * sockets of the handles at once, so that it does not occupy their ports, and the handles refuse calls. exec() and
 * posix_spawn() need no special handling, because descriptors are closed on exec.
 *
 * The lock is held while sockets are opened or closed, and during fork(). So the child finds a consistent state,
 * whatever other threads are doing. fork() returns before the child has closed its copies of the sockets. Until then, a
 * port may still be in use, so opening a port is repeated for SETTLING_NS (open_transport() in api.c).
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include "clock.h"
#include "error.h"
#include "fork.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static TAILQ_HEAD(hooks, fpisa_fork_hook) hooks = TAILQ_HEAD_INITIALIZER(hooks);
static int registered = -EAGAIN;
static uint64_t forked_ns; /* time of the last fork; 0: never */

/* A child that has not run within this time after fork() is assumed to be stopped. */
#define SETTLING_NS 2000000000ull

void fpisa_fork_hold(void)
{
	pthread_mutex_lock(&lock);
}

void fpisa_fork_release(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_parent(void)
{
	forked_ns = fpisa_now();
	pthread_mutex_unlock(&lock);
}

int fpisa_fork_settling(void)
{
	int settling;

	pthread_mutex_lock(&lock);
	settling = forked_ns && fpisa_now() < forked_ns + SETTLING_NS;
	pthread_mutex_unlock(&lock);
	return settling;
}

static void in_child(void)
{
	struct fpisa_fork_hook *h;

	TAILQ_FOREACH(h, &hooks, link)
		h->in_child(h);
	pthread_mutex_unlock(&lock);
}

static void add_handlers(void)
{
	registered = -pthread_atfork(fpisa_fork_hold, in_parent, in_child);
}

int fpisa_fork_add(struct fpisa_fork_hook *h)
{
	pthread_once(&once, add_handlers);
	if (registered)
		return fpisa_fail(registered, "not enough memory to register for fork(); " FPISA_MORE_MEMORY);
	fpisa_fork_hold();
	TAILQ_INSERT_TAIL(&hooks, h, link);
	fpisa_fork_release();
	return 0;
}

void fpisa_fork_remove(struct fpisa_fork_hook *h)
{
	TAILQ_REMOVE(&hooks, h, link);
}
