/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The progress engine; engine.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "clock.h"
#include "engine.h"
#include "error.h"
#include "fork.h"

#define EVENTS 16

TAILQ_HEAD(items, fpisa_engine_item);

struct fpisa_engine {
	struct fpisa_fork_hook fork; /* must be the first member */
	pthread_mutex_t lock;
	pthread_cond_t ran; /* signalled when `running` has returned */
	pthread_t thread;
	int epoll, timer;
	uint64_t timer_ns; /* time at which the timer expires; FPISA_NEVER: not set */
	struct items items;
	struct fpisa_engine_item *running;
	int stop, inherited;
};

static int inside(const struct fpisa_engine *e)
{
	return pthread_equal(pthread_self(), e->thread);
}

/* Set the timer if `ns` is earlier than its current time, because the timer may expire too early, but not too late. */
static void set_timer(struct fpisa_engine *e, uint64_t ns)
{
	struct itimerspec t = {0};

	if (ns >= e->timer_ns)
		return;
	e->timer_ns = ns;
	ns = ns ? ns : 1; /* a value of 0 would disarm the timer */
	t.it_value = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	timerfd_settime(e->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void take_event(struct fpisa_engine *e, const void *what)
{
	struct fpisa_engine_item *item;
	uint64_t times;

	if (what == e) {
		if (read(e->timer, &times, sizeof(times)) == sizeof(times))
			e->timer_ns = FPISA_NEVER;
		return;
	}
	/* Check that the item still exists, because it may have been removed in the meantime. */
	TAILQ_FOREACH(item, &e->items, link)
		if (item == what)
			item->readable = 1;
}

/* Run the items that are due. An item that runs stays in the list, because fpisa_engine_remove() waits for its end. */
static void run_items(struct fpisa_engine *e)
{
	uint64_t now = fpisa_now();
	struct fpisa_engine_item *item;

	TAILQ_FOREACH(item, &e->items, link) {
		if (!item->readable && item->due_ns > now)
			continue;
		item->readable = 0;
		if (item->due_ns <= now)
			item->due_ns = FPISA_NEVER;
		e->running = item;
		pthread_mutex_unlock(&e->lock);
		item->run(item);
		/*
		 * A callback has forked, and this is the child. End this copy of the thread, because the child has no
		 * engine.
		 */
		if (e->inherited)
			pthread_exit(NULL);
		pthread_mutex_lock(&e->lock);
		e->running = NULL;
		pthread_cond_broadcast(&e->ran);
	}
}

static void *work(void *arg)
{
	struct fpisa_engine *e = arg;
	struct epoll_event event[EVENTS];
	int n;

	pthread_mutex_lock(&e->lock);
	while (!e->stop) {
		struct fpisa_engine_item *item;

		TAILQ_FOREACH(item, &e->items, link)
			set_timer(e, item->due_ns);
		pthread_mutex_unlock(&e->lock);
		n = epoll_wait(e->epoll, event, EVENTS, -1);
		pthread_mutex_lock(&e->lock);
		for (int i = 0; i < n; i++)
			take_event(e, event[i].data.ptr);
		run_items(e);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

static void close_all(struct fpisa_engine *e)
{
	if (e->epoll >= 0)
		close(e->epoll);
	if (e->timer >= 0)
		close(e->timer);
	e->epoll = e->timer = -1;
}

static void in_child(struct fpisa_fork_hook *h)
{
	struct fpisa_engine *e = (struct fpisa_engine *)h;

	e->inherited = 1;
	close_all(e);
}

static int open_all(struct fpisa_engine *e)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = e};

	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	e->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (e->epoll < 0 || e->timer < 0 || epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->timer, &event))
		return -errno;
	return 0;
}

/*
 * Start the thread with signals blocked, because signals are for the program's own threads. Do not block signals for
 * faults, which the kernel delivers to the thread that caused the fault.
 */
static int start_thread(struct fpisa_engine *e)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigset_t blocked, before;
	int rc;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&blocked, faults[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	/* Hold the lock, because the thread reads e->thread. */
	pthread_mutex_lock(&e->lock);
	rc = -pthread_create(&e->thread, NULL, work, e);
	if (!rc)
		pthread_setname_np(e->thread, "fpisa");
	pthread_mutex_unlock(&e->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

int fpisa_engine_start(struct fpisa_engine **out)
{
	struct fpisa_engine *e = calloc(1, sizeof(*e));
	int rc;

	*out = NULL;
	if (!e)
		return fpisa_fail(-ENOMEM, "not enough memory for a progress thread; " FPISA_MORE_MEMORY);
	e->epoll = e->timer = -1;
	e->timer_ns = FPISA_NEVER;
	TAILQ_INIT(&e->items);
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->ran, NULL);
	e->fork.in_child = in_child;
	rc = fpisa_fork_add(&e->fork);
	if (rc) {
		free(e);
		return rc;
	}
	fpisa_fork_hold();
	rc = open_all(e);
	fpisa_fork_release();
	if (!rc)
		rc = start_thread(e);
	if (rc) {
		e->thread = 0;
		fpisa_engine_stop(e);
		return fpisa_fail(rc, "cannot start a progress thread: %s; %s", strerror(-rc),
				  fpisa_hint(rc, "end other threads, or raise ulimit -u"));
	}
	*out = e;
	return 0;
}

void fpisa_engine_stop(struct fpisa_engine *e)
{
	if (!e)
		return;
	if (!e->inherited && e->thread) {
		pthread_mutex_lock(&e->lock);
		e->stop = 1;
		set_timer(e, 0);
		pthread_mutex_unlock(&e->lock);
		pthread_join(e->thread, NULL);
	}
	fpisa_fork_hold();
	fpisa_fork_remove(&e->fork);
	close_all(e);
	fpisa_fork_release();
	/* In a child, do not destroy the locks, because a thread of the parent may have held them at fork(). */
	if (!e->inherited) {
		pthread_cond_destroy(&e->ran);
		pthread_mutex_destroy(&e->lock);
	}
	free(e);
}

void fpisa_engine_add(struct fpisa_engine *e, struct fpisa_engine_item *item)
{
	pthread_mutex_lock(&e->lock);
	item->due_ns = FPISA_NEVER;
	item->readable = 0;
	item->fds = 0;
	TAILQ_INSERT_TAIL(&e->items, item, link);
	pthread_mutex_unlock(&e->lock);
}

static void unwatch(struct fpisa_engine *e, struct fpisa_engine_item *item)
{
	while (item->fds)
		epoll_ctl(e->epoll, EPOLL_CTL_DEL, item->fd[--item->fds], NULL);
}

void fpisa_engine_remove(struct fpisa_engine *e, struct fpisa_engine_item *item)
{
	pthread_mutex_lock(&e->lock);
	while (e->running == item)
		pthread_cond_wait(&e->ran, &e->lock);
	unwatch(e, item);
	TAILQ_REMOVE(&e->items, item, link);
	pthread_mutex_unlock(&e->lock);
}

int fpisa_engine_watch(struct fpisa_engine *e, struct fpisa_engine_item *item, const int *fd, int fds)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = item};
	int rc = 0;

	pthread_mutex_lock(&e->lock);
	unwatch(e, item);
	while (item->fds < fds && !rc) {
		rc = epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd[item->fds], &event) ? -errno : 0;
		if (!rc) {
			item->fd[item->fds] = fd[item->fds];
			item->fds++;
		}
	}
	if (rc)
		unwatch(e, item);
	pthread_mutex_unlock(&e->lock);
	return rc;
}

void fpisa_engine_due(struct fpisa_engine *e, struct fpisa_engine_item *item, uint64_t ns)
{
	pthread_mutex_lock(&e->lock);
	item->due_ns = ns;
	/* No wake-up is needed, because the engine's own thread checks the times before it sleeps. */
	if (!inside(e))
		set_timer(e, ns);
	pthread_mutex_unlock(&e->lock);
}

int fpisa_engine_inside(const struct fpisa_engine *e)
{
	return !e->inherited && inside(e);
}
