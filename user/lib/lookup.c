/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The lookup of a name with a timeout; lookup.h has the contract. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "lookup.h"

#define MOST 16 /* maximum number of lookups in the process, including abandoned lookups; each lookup is a thread */

static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
static atomic_int lookups;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int hooked;

struct lookup {
	char host[256];
	int fd; /* eventfd that signals the end of the lookup */
	int rc; /* result of getaddrinfo(), valid after its end */
	struct addrinfo *found;
	atomic_int ended;
	atomic_int left; /* set by the thread and by its waiter; the second of them frees the struct */
};

static void leave(struct lookup *l)
{
	if (!atomic_exchange(&l->left, 1))
		return;
	if (l->found)
		freeaddrinfo(l->found);
	close(l->fd);
	free(l);
	atomic_fetch_sub(&lookups, 1);
}

static void *run(void *arg)
{
	struct lookup *l = arg;

	l->rc = getaddrinfo(l->host, NULL, &hints, &l->found);
	atomic_store(&l->ended, 1);
	eventfd_write(l->fd, 1);
	leave(l);
	return NULL;
}

/* Start the lookup's thread. Block signals in the thread, because they are for the program's own threads. */
static int start(struct lookup *l)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		pthread_detach(thread);
	return -rc;
}

/* Reset the count in a child, because the threads of the parent do not exist there. */
static void in_child(struct fpisa_fork_hook *h)
{
	(void)h;
	atomic_store(&lookups, 0);
}

static void add_hook(void)
{
	static struct fpisa_fork_hook hook = {.in_child = in_child};

	hooked = fpisa_fork_add(&hook);
}

/* Count a new lookup. Fail if MOST lookups are in progress. */
static int count_in(const char *host)
{
	pthread_once(&once, add_hook);
	if (hooked)
		return fpisa_fail(hooked, "not enough memory to look up '%s'; " FPISA_MORE_MEMORY, host);
	if (atomic_fetch_add(&lookups, 1) < MOST)
		return 0;
	atomic_fetch_sub(&lookups, 1);
	return fpisa_fail(
		-EAGAIN,
		"'%s' cannot be looked up: %d lookups still wait for name servers; try again, or pass an address", host,
		MOST);
}

static int begin(const char *host, struct lookup **out)
{
	struct lookup *l;
	int rc = count_in(host);

	if (rc)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l) {
		atomic_fetch_sub(&lookups, 1);
		return fpisa_fail(-ENOMEM, "not enough memory to look up '%s'; " FPISA_MORE_MEMORY, host);
	}
	snprintf(l->host, sizeof(l->host), "%s", host);
	l->fd = eventfd(0, EFD_CLOEXEC);
	rc = l->fd < 0 ? -errno : start(l);
	if (rc) {
		l->left = 1;
		leave(l);
		return fpisa_fail(rc, "'%s' cannot be looked up: %s", host, fpisa_why(rc));
	}
	*out = l;
	return 0;
}

static void await(const struct lookup *l, uint64_t timeout_ns)
{
	const uint64_t until = fpisa_now() + timeout_ns;
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	for (uint64_t now; !atomic_load(&l->ended) && (now = fpisa_now()) < until;)
		poll(&p, 1, (int)((until - now) / 1000000 + 1));
}

static int outcome(int rc, const char *host)
{
	if (!rc)
		return 0;
	return fpisa_fail(rc == EAI_AGAIN ? -EAGAIN : -EINVAL,
			  "'%s' is not a known host: %s; check the name, or pass an address", host, gai_strerror(rc));
}

int fpisa_lookup(const char *host, uint64_t timeout_ns, struct addrinfo **found)
{
	struct addrinfo numeric = hints;
	struct lookup *l = NULL;
	int rc;

	numeric.ai_flags = AI_NUMERICHOST;
	if (!getaddrinfo(host, NULL, &numeric, found))
		return 0;
	rc = begin(host, &l);
	if (rc)
		return rc;
	await(l, timeout_ns);
	if (!atomic_load(&l->ended)) {
		rc = fpisa_fail(
			-ETIMEDOUT,
			"'%s' was not looked up in %llu ms: no name server has answered; see /etc/resolv.conf, or give an "
			"address",
			host, (unsigned long long)(timeout_ns / 1000000));
	} else {
		rc = outcome(l->rc, host);
		*found = rc ? NULL : l->found;
		l->found = NULL;
	}
	leave(l);
	return rc;
}
