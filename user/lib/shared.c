/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A handle that threads share; shared.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "handle.h"
#include "shared.h"

#define DEAF_NS 10000000ull

int fpisa_shared_init(struct fpisa *f, struct fpisa_engine *e)
{
	struct fpisa_shared *s = &f->shared;
	int rc = 0;

	s->own = !e;
	if (!e)
		rc = fpisa_engine_start(&e);
	if (rc)
		return rc;
	s->engine = e;
	s->lock = FPISA_LOCK_INIT;
	pthread_cond_init(&s->changed, NULL);
	s->events = -1;
	fpisa_engine_add(e, &s->item);
	fpisa_fork_hold();
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fpisa_fork_release();
	if (s->wake < 0)
		return fpisa_fail(-errno, "cannot create an eventfd for the handle: %s", fpisa_why(-errno));
	return fpisa_shared_descriptors(f);
}

static void close_events(struct fpisa_shared *s)
{
	if (s->wake >= 0)
		close(s->wake);
	if (s->events >= 0)
		close(s->events);
	s->wake = s->events = -1;
}

void fpisa_shared_disown(struct fpisa_shared *s)
{
	if (s->engine)
		close_events(s);
}

void fpisa_shared_free(struct fpisa *f)
{
	struct fpisa_shared *s = &f->shared;

	if (!s->engine)
		return;
	if (!f->inherited) {
		fpisa_engine_remove(s->engine, &s->item);
		pthread_cond_destroy(&s->changed);
	}
	fpisa_fork_hold();
	close_events(s);
	fpisa_fork_release();
	if (s->own)
		fpisa_engine_stop(s->engine);
}

int fpisa_shared_descriptors(struct fpisa *f)
{
	struct fpisa_shared *shared = &f->shared;

	if (!shared->engine && f->layout.shards == 1)
		return 0;
	shared->fds = 0;
	FPISA_EACH_SHARD(s, f) {
		s->fds = s->t ? s->t->ops->fds(s->t, shared->fd + shared->fds) : 0;
		if (s->fds < 0)
			return fpisa_fail(s->fds, "%s: job %u: cannot get a descriptor to wait on: %s", s->peer, s->job,
					  fpisa_why(s->fds));
		shared->fds += s->fds;
	}
	return 0;
}

/* Return the number of ended requests that their owners have not released. */
static unsigned int told(const struct fpisa_requests *list)
{
	const struct fpisa_request *r;
	unsigned int n = 0;

	TAILQ_FOREACH(r, list, link)
		n += r->told && !r->blocking;
	return n;
}

int fpisa_shared_events(struct fpisa *f)
{
	struct fpisa_shared *s = &f->shared;

	if (s->events < 0) {
		fpisa_fork_hold();
		s->events = eventfd(told(&f->requests) + told(&f->given_up), EFD_CLOEXEC | EFD_NONBLOCK);
		fpisa_fork_release();
	}
	return s->events >= 0 ? s->events :
				fpisa_fail(-errno, "cannot create an eventfd for requests: %s", fpisa_why(-errno));
}

int fpisa_shared_events_with(struct fpisa *f, int fd)
{
	struct fpisa_shared *s = &f->shared;
	unsigned int before;

	fpisa_lock(&s->lock);
	before = told(&f->requests) + told(&f->given_up);
	fpisa_fork_hold();
	s->events = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	fpisa_fork_release();
	if (s->events >= 0 && before)
		eventfd_write(s->events, before);
	fpisa_unlock(&s->lock);
	return s->events >= 0 ? 0 : fpisa_fail(-errno, "cannot create an eventfd for requests: %s", fpisa_why(-errno));
}

void fpisa_shared_wake(struct fpisa_shared *s)
{
	pthread_cond_broadcast(&s->changed);
	if (s->driver != FPISA_DRIVER_SLEEPER)
		return;
	eventfd_write(s->wake, 1);
	s->driver = FPISA_DRIVER_CALLER;
}

static int poll_for(struct pollfd *p, int fds, uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	return ppoll(p, (nfds_t)fds, &ts, NULL);
}

/* Set `quiet` of each transport to the set of its descriptors without a frame. */
static void note_quiet(struct fpisa *f, const struct pollfd *p)
{
	FPISA_EACH_SHARD(s, f) {
		s->t->quiet = 0;
		for (int i = 0; i < s->fds; i++, p++)
			if (!p->revents)
				s->t->quiet |= 1u << i;
	}
}

/*
 * Sleep until a frame may have arrived, or another thread wakes this thread. Polling one more descriptor takes 4% of
 * the CPU time of a call of one chunk, so do not poll the wake descriptor while frames are likely to arrive.
 */
static void sleep_unlocked(struct fpisa *f, uint64_t ns)
{
	struct fpisa_shared *s = &f->shared;
	uint64_t deaf = ns < DEAF_NS ? ns : DEAF_NS;
	struct pollfd p[FPISA_SHARED_FDS + 1];
	eventfd_t times;
	int fds = s->fds;

	for (int i = 0; i < fds; i++)
		p[i] = (struct pollfd){.fd = s->fd[i], .events = POLLIN};
	p[fds] = (struct pollfd){.fd = s->wake, .events = POLLIN};
	if (!s->engine || !ns) {
		poll_for(p, fds, ns);
		note_quiet(f, p);
		return;
	}
	s->driver = FPISA_DRIVER_SLEEPER;
	fpisa_unlock(&s->lock);
	if (!poll_for(p, fds, deaf) && ns > deaf)
		poll_for(p, fds + 1, ns - deaf);
	fpisa_lock(&s->lock);
	s->driver = FPISA_DRIVER_CALLER;
	if (p[fds].revents)
		eventfd_read(s->wake, &times);
	note_quiet(f, p);
}

uint64_t fpisa_frames_due(const struct fpisa *f)
{
	uint64_t at = FPISA_NEVER, due;

	FPISA_EACH_SHARD(s, f) {
		due = fpisa_transport_due(s->t);
		if (due < at)
			at = due;
	}
	return at;
}

/* Sleep for `ns`, or until the time at which a transport has frames that no descriptor reports. */
static void sleep_for(struct fpisa *f, uint64_t ns)
{
	struct fpisa_shared *s = &f->shared;
	uint64_t now = fpisa_now(), due = fpisa_frames_due(f);

	s->until_ns = now + ns;
	if (due < s->until_ns)
		s->until_ns = due > now ? due : now;
	sleep_unlocked(f, s->until_ns - now);
}

uint64_t fpisa_await(struct fpisa *f, uint64_t timeout_ns)
{
	if (f->layout.shards == 1)
		return timeout_ns;
	sleep_for(f, fpisa_more(f) ? 0 : timeout_ns);
	return 0;
}

int fpisa_is_quiet(const struct fpisa_shard *s)
{
	const struct fpisa_transport *t = s->t;

	return s->f->layout.shards > 1 && t->quiet == (1u << s->fds) - 1 && !fpisa_transport_more(t, s->taken) &&
	       fpisa_transport_due(t) > fpisa_now();
}

int fpisa_receive(struct fpisa_shard *s, struct fpisa_in *in, uint64_t timeout_ns)
{
	struct fpisa *f = s->f;
	int n;

	if (!f->shared.engine || !timeout_ns)
		return s->t->ops->receive(s->t, in, timeout_ns);
	/* The sleep polls all descriptors, so the first is enough here. */
	s->t->quiet = ~1u;
	n = s->t->ops->receive(s->t, in, 0);
	if (!n) {
		sleep_for(f, timeout_ns);
		n = f->inherited ? 0 : s->t->ops->receive(s->t, in, 0);
	}
	s->t->quiet = 0;
	return n;
}

int fpisa_shared_watch(struct fpisa_shared *s, uint64_t ns)
{
	int rc = s->driver == FPISA_DRIVER_ENGINE ? 0 : fpisa_engine_watch(s->engine, &s->item, s->fd, s->fds);

	if (rc)
		return fpisa_fail(rc, "cannot watch the handle's descriptors: %s", fpisa_why(rc));
	if (s->driver == FPISA_DRIVER_NONE)
		s->driver = FPISA_DRIVER_ENGINE;
	s->until_ns = ns;
	fpisa_engine_due(s->engine, &s->item, ns);
	return 0;
}

static void unwatch(struct fpisa_shared *s)
{
	fpisa_engine_watch(s->engine, &s->item, NULL, 0);
}

void fpisa_shared_unwatch(struct fpisa_shared *s)
{
	if (s->driver != FPISA_DRIVER_ENGINE && !fpisa_is_held(s))
		return;
	unwatch(s);
	if (s->driver == FPISA_DRIVER_ENGINE)
		s->driver = FPISA_DRIVER_NONE;
}

void fpisa_shared_hold(struct fpisa_shared *s, enum fpisa_driver driver)
{
	unwatch(s);
	s->driver = driver;
}

void fpisa_shared_drive(struct fpisa_shared *s)
{
	while (fpisa_is_driven(s))
		fpisa_lock_wait(&s->lock, &s->changed);
	if (s->driver == FPISA_DRIVER_ENGINE)
		unwatch(s);
	s->driver = FPISA_DRIVER_CALLER;
}

void fpisa_shared_stop_driving(struct fpisa_shared *s)
{
	if (fpisa_is_held(s))
		unwatch(s);
	s->driver = FPISA_DRIVER_NONE;
	pthread_cond_broadcast(&s->changed);
}
