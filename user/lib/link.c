/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The thread for a rank's connection to the manager; link.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "handle.h"
#include "link.h"
#include "manager/interface.h"
#include "manager/watch.h"

#define MS 1000000ull
#define TURN_MS 200	  /* time between two checks of the clock */
#define CONNECT_MS 500	  /* time limit of one attempt */
#define LAST_WORD_MS 1000 /* time limit for sending LEAVE */
#define GIVEN_UP_MS 50	  /* time limit for sending LEAVE if the group is not joined */
#define WAITS_MS 1000	  /* a call that takes longer is reported to the manager */
/* a longer time between two turns means that this process was stopped, so the manager's silence proves nothing */
#define STOPPED_MS 2000

/* -- connecting ----------------------------------------------------------------- */

static int is_stopping(struct fpisa_link *l)
{
	int stopping;

	pthread_mutex_lock(&l->lock);
	stopping = l->stopping;
	pthread_mutex_unlock(&l->lock);
	return stopping;
}

/*
 * Open the socket. A child must not keep the socket open, because the connection is a lease. So store the descriptor in
 * l->fd, where a child finds it.
 */
static int open_socket(struct fpisa_link *l)
{
	const union fpisa_sockaddr *to = &l->to[l->at];
	int rc = 0;

	fpisa_fork_hold();
	l->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd >= 0)
		fpisa_watch(l->fd);
	if (l->fd < 0 || (connect(l->fd, &to->any, fpisa_sockaddr_len(to)) && errno != EINPROGRESS))
		rc = -errno;
	fpisa_fork_release();
	return rc;
}

static void drop(struct fpisa_link *l, struct fpisa_channel **c)
{
	fpisa_fork_hold();
	if (*c)
		fpisa_channel_close(*c);
	else if (l->fd >= 0)
		close(l->fd);
	*c = NULL;
	l->fd = -1;
	fpisa_fork_release();
}

/*
 * Send the first messages of a rank. To a restarted manager, send the rank's identity, the failed jobs, and the call
 * for which the rank waits.
 */
static int greet(struct fpisa_link *l, struct fpisa_channel *c)
{
	struct fpisa_manager_message m;
	int rc;

	pthread_mutex_lock(&l->lock);
	m = fpisa_manager_message(l->joined ? FPISA_MANAGER_RETURN : FPISA_MANAGER_JOIN);
	m.join = l->join;
	rc = fpisa_channel_send(c, &m);
	l->unsent = l->joined ? 0 : l->unsent;
	for (uint32_t k = 0; !rc && l->joined && k < FPISA_MANAGER_JOBS; k++) {
		struct fpisa_link_job *j = &l->job[k];

		if (j->own) {
			m = fpisa_link_failed(l, j);
			rc = fpisa_channel_send(c, &m);
		}
		if (!fpisa_group_job_awaited(j->state))
			continue;
		j->state = FPISA_GROUP_JOB_ASKED;
		m = fpisa_manager_message(FPISA_MANAGER_ASK);
		m.ask.index = k;
		m.ask.spec = j->asked;
		rc = fpisa_channel_send(c, &m);
	}
	l->waits_told = 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* Return the rate of the interface that leads to the manager; frames use the same interface. */
static uint32_t rate_of_link(const struct fpisa_link *l)
{
	union fpisa_sockaddr at = {.any = {.sa_family = AF_UNSPEC}};
	struct fpisa_address local;
	socklen_t n = sizeof(at);

	if (getsockname(l->fd, &at.any, &n))
		return 0;
	local = fpisa_address_from(&at);
	return fpisa_interface_rate(&local);
}

/* Wait for the connection, or until the rank stops joining, which wakes this thread. */
static int await_connection(const struct fpisa_link *l)
{
	struct pollfd p[2] = {{.fd = l->fd, .events = POLLOUT}, {.fd = l->joined ? -1 : l->wake, .events = POLLIN}};

	poll(p, 2, CONNECT_MS);
	return p[0].revents ? 0 : -ETIMEDOUT;
}

/* Connect to the manager. Return 0 with a channel, or -errno with the message set. */
static int call_manager(struct fpisa_link *l, struct fpisa_channel **c)
{
	const struct fpisa_address to = fpisa_address_from(&l->to[l->at]);
	char address[FPISA_ADDRESS_LEN];
	int rc = open_socket(l), error = 0;
	socklen_t n = sizeof(error);

	if (!rc)
		rc = await_connection(l);
	if (!rc && (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &n) || error))
		rc = -(error ? error : errno);
	if (rc == -ECONNREFUSED)
		l->there_ns = fpisa_now();
	if (rc) {
		drop(l, c);
		return fpisa_fail(rc, "cannot connect%s%s: %s; %s", l->addresses > 1 ? " to " : "",
				  l->addresses > 1 ? fpisa_address_text(&to, address) : "", strerror(-rc),
				  fpisa_hint(rc, "is fpisa serve running there?"));
	}
	l->join.rate = rate_of_link(l);
	/* From now on the channel owns the socket, even after an error. */
	rc = fpisa_channel_call(c, l->fd, l->has_psk ? &l->psk : NULL);
	if (rc)
		l->fd = -1;
	return rc ? rc : greet(l, *c);
}

/* -- the thread ------------------------------------------------------------------ */

static int send_queue(struct fpisa_link *l, struct fpisa_channel *c)
{
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	for (int i = 0; !rc && i < l->unsent; i++)
		rc = fpisa_channel_send(c, &l->queue[i]);
	l->unsent = 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/*
 * Return the time of the oldest unanswered request for a job, or 0 if there is none. Only the manager can answer such a
 * request.
 */
static uint64_t waits_for_job(const struct fpisa_link *l)
{
	uint64_t since = 0;

	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		const struct fpisa_link_job *j = &l->job[k];

		if (fpisa_group_job_awaited(j->state) && (!since || j->asked_ns < since))
			since = j->asked_ns;
	}
	return since;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Return the time of the last answer from an aggregator with a job of this group. Either its datapath answers, or its
 * host by refusing connections. Return 0 if no job exists.
 */
static uint64_t heard_host(const struct fpisa_link *l)
{
	uint64_t heard = 0;

	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (l->job[k].state == FPISA_GROUP_JOB_MADE)
			heard = later(later(heard, l->there_ns),
				      __atomic_load_n(&l->job[k].handle->heard_ns, __ATOMIC_RELAXED));
	return heard;
}

/* Return whether `limit` has passed since `since`. Other threads may have set `since` later than `now`. */
static int over(uint64_t now, uint64_t since, uint64_t limit)
{
	return now > since + limit;
}

/* Fail the group if the manager stays silent while this rank waits to join or for a job. */
static void check_manager(struct fpisa_link *l, uint64_t now)
{
	const uint64_t asked = l->joined ? waits_for_job(l) : l->heard_ns,
		       heard = later(later(l->heard_ns, heard_host(l)), asked);
	const int absent = over(now, l->heard_ns, FPISA_MANAGER_ABSENT_MS * MS);
	char sentence[FPISA_MESSAGE_SIZE];

	if (!asked || (!absent && !over(now, heard, FPISA_MANAGER_SILENCE_MS * MS)))
		return;
	snprintf(sentence, sizeof(sentence),
		 "%s: the manager has not answered for %d s%s; is fpisa serve running there?", l->peer,
		 (absent ? FPISA_MANAGER_ABSENT_MS : FPISA_MANAGER_SILENCE_MS) / 1000,
		 l->joined ? ", and a call waits for its job" : "");
	fpisa_link_fail(l, -ETIMEDOUT, &FPISA_NO_RANKS, sentence);
}

/*
 * Fail the group if the manager has been silent for FPISA_MANAGER_ABSENT_MS and a call has waited as long for a result. A silent manager
 * cannot report a dead rank, so dead ranks cannot be distinguished from ranks that compute.
 */
static void check_abandoned(struct fpisa_link *l, uint64_t now)
{
	const uint64_t limit = FPISA_MANAGER_ABSENT_MS * MS;
	char names[160], sentence[FPISA_MESSAGE_SIZE];
	struct fpisa_standing s;

	for (int k = 0; k < FPISA_MANAGER_JOBS && over(now, l->heard_ns, limit); k++) {
		if (!l->job[k].handle)
			continue;
		fpisa_handle_standing(l->job[k].handle, &s);
		if (s.error || !s.stuck_ns || !over(now, s.stuck_ns, limit))
			continue;
		snprintf(sentence, sizeof(sentence),
			 "%s: the manager has not answered for %d s and could not report a dead rank, and a call has waited "
			 "as long for %s; is fpisa serve running there?",
			 l->peer, FPISA_MANAGER_ABSENT_MS / 1000,
			 fpisa_ranks_any(&s.missing) ? fpisa_rank_names(names, sizeof(names), &s.missing) :
						       "the aggregator");
		fpisa_link_fail(l, -ETIMEDOUT, &s.missing, sentence);
	}
}

/* Fail the group if neither the manager nor the aggregator answers while a call waits. */
static void check_silence(struct fpisa_link *l)
{
	uint64_t now, limit = FPISA_MANAGER_SILENCE_MS * MS;
	char sentence[FPISA_MESSAGE_SIZE];

	pthread_mutex_lock(&l->lock);
	now = fpisa_now();
	if (over(now, l->looked_ns, STOPPED_MS * MS))
		l->heard_ns = now;
	l->looked_ns = now;
	fpisa_link_check_left(l);
	check_manager(l, now);
	check_abandoned(l, now);
	for (int k = 0; k < FPISA_MANAGER_JOBS && over(now, l->heard_ns, limit); k++) {
		struct fpisa *f = l->job[k].state == FPISA_GROUP_JOB_MADE ? l->job[k].handle : NULL;
		uint64_t waiting = f ? __atomic_load_n(&f->waiting_ns, __ATOMIC_RELAXED) : 0;

		if (!waiting || !over(now, waiting, limit) ||
		    !over(now, __atomic_load_n(&f->heard_ns, __ATOMIC_RELAXED), limit))
			continue;
		snprintf(sentence, sizeof(sentence),
			 "%s: neither the manager nor the aggregator has answered for %d s; is that host up?", l->peer,
			 FPISA_MANAGER_SILENCE_MS / 1000);
		fpisa_link_fail(l, -ETIMEDOUT, &FPISA_NO_RANKS, sentence);
	}
	pthread_mutex_unlock(&l->lock);
}

/*
 * Report to the manager which jobs have failed at this rank. Otherwise the other ranks would wait for this rank. The
 * caller holds the lock.
 */
static void tell_failures(struct fpisa_link *l)
{
	struct fpisa_standing s;

	for (int k = 0; k < FPISA_MANAGER_JOBS && !l->error; k++) {
		struct fpisa_link_job *j = &l->job[k];

		if (!j->handle || j->error)
			continue;
		fpisa_handle_standing(j->handle, &s);
		if (s.error)
			fpisa_link_job_failed(l, j, s.error, s.message);
	}
}

/*
 * Report the oldest call of this rank to the manager if the call takes long. The manager compares this call with those
 * of other ranks. The caller holds the lock.
 */
static void tell_waits(struct fpisa_link *l)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_WAITS);
	const uint64_t now = fpisa_now();
	struct fpisa_standing s;

	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		if (!l->job[k].handle)
			continue;
		fpisa_handle_standing(l->job[k].handle, &s);
		if (s.number && (!m.waits.call || s.number < m.waits.call))
			m.waits = (struct fpisa_manager_waits){s.number, s.tag};
	}
	if (m.waits.call != l->waits.call) {
		l->waits = m.waits;
		l->waits_ns = now;
		l->waits_told = 0;
	} else if (m.waits.call && !l->waits_told && over(now, l->waits_ns, WAITS_MS * MS)) {
		fpisa_link_send(l, &m);
		l->waits_told = 1;
	}
}

static void tell(struct fpisa_link *l)
{
	pthread_mutex_lock(&l->lock);
	if (l->joined && !l->error) {
		tell_failures(l);
		fpisa_link_check_barriers(l);
		tell_waits(l);
	}
	pthread_mutex_unlock(&l->lock);
}

static void ping(struct fpisa_channel *c, uint64_t *next_ns)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_PING);
	uint64_t now = fpisa_now();

	if (now < *next_ns || !fpisa_channel_open(c) || fpisa_channel_send(c, &m))
		return;
	*next_ns = now + FPISA_MANAGER_PING_MS * MS;
}

/* Run one turn of a connection. Return 0, or -errno with the message set if the connection has ended. */
static int turn(struct fpisa_link *l, struct fpisa_channel *c, uint64_t *ping_ns)
{
	struct fpisa_manager_message m;
	struct pollfd p[2] = {{.fd = l->wake, .events = POLLIN}, {.fd = l->fd}};
	eventfd_t n;
	int rc;

	ping(c, ping_ns);
	tell(l);
	rc = send_queue(l, c);
	while (!rc && (rc = fpisa_channel_work(c, &m)) > 0) {
		fpisa_link_hear(l, &m);
		rc = 0;
	}
	if (rc)
		return rc;
	p[1].events = fpisa_channel_events(c);
	poll(p, 2, TURN_MS);
	if (p[0].revents)
		eventfd_read(l->wake, &n);
	check_silence(l);
	return 0;
}

static void key_refused(struct fpisa_link *l)
{
	char identity[FPISA_PSK_IDENTITY];

	fpisa_psk_identity(&l->psk, identity);
	fpisa_fail(-EACCES, "the manager does not accept key %s of %s; add this line to the manager's key file",
		   identity, l->key_file);
}

/*
 * Select the host's next address to try, as long as no manager has answered. Return whether there is an address to try.
 * Addresses that did not answer are tried again, because packets may be lost; check_manager() has the deadline.
 */
static int try_next(struct fpisa_link *l, int rc)
{
	int again;

	if (l->heard)
		return 0;
	l->silent |= rc == -ETIMEDOUT;
	l->at = (l->at + 1) % l->addresses;
	again = l->at || l->silent;
	if (!l->at)
		l->silent = 0;
	return again;
}

/*
 * Handle the end of the connection. Fail the group if not all ranks have joined yet. Later, fail the group only if the
 * manager refuses it.
 */
static void connection_ended(struct fpisa_link *l, int rc)
{
	if (rc == -EACCES && l->has_psk)
		key_refused(l);
	pthread_mutex_lock(&l->lock);
	if (rc == -ECONNRESET && !l->heard)
		fpisa_fail(rc, "the connection ended before any answer; is fpisa serve running there?");
	if (!try_next(l, rc) && (!l->joined || rc == -EACCES || rc == -EPROTO || rc == -ENOENT))
		fpisa_link_fail_so(l, rc);
	pthread_mutex_unlock(&l->lock);
}

/* Send LEAVE. Do not queue the message, because greet() drops the queue of an ended connection. */
static int send_leave(struct fpisa_link *l, struct fpisa_channel *c)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_LEAVE);
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	m.leave.calls = fpisa_link_completed(l);
	if (!l->error || l->joined)
		rc = fpisa_channel_send(c, &m);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/*
 * Send LEAVE. A rank whose join has failed has used up its time, so wait only briefly, and do not wait for a manager
 * that has never answered.
 */
static void last_word(struct fpisa_link *l, struct fpisa_channel *c)
{
	const uint64_t until = fpisa_now() + (l->joined ? LAST_WORD_MS : GIVEN_UP_MS) * MS;
	struct fpisa_manager_message m;
	struct pollfd p = {.fd = l->fd, .events = POLLIN};
	uint64_t now;

	if (!l->heard || send_queue(l, c) || send_leave(l, c))
		return;
	/* The manager closes the connection when it has received LEAVE. */
	while ((now = fpisa_now()) < until && fpisa_channel_work(c, &m) >= 0)
		poll(&p, 1, (int)((until - now) / MS) + 1);
}

static int may_return(struct fpisa_link *l)
{
	int may;

	pthread_mutex_lock(&l->lock);
	may = l->joined && !l->error;
	pthread_mutex_unlock(&l->lock);
	return may;
}

static void *run(void *arg)
{
	struct fpisa_link *l = arg;
	struct fpisa_channel *c = NULL;
	uint64_t ping_ns = 0;
	int rc;

	while (!is_stopping(l)) {
		rc = c ? turn(l, c, &ping_ns) : call_manager(l, &c);
		if (!rc)
			continue;
		drop(l, &c);
		connection_ended(l, rc);
		pthread_mutex_lock(&l->lock);
		rc = l->error;
		pthread_mutex_unlock(&l->lock);
		check_silence(l);
		if (!is_stopping(l))
			poll(&(struct pollfd){.fd = l->wake, .events = POLLIN}, 1, TURN_MS);
		if (!rc)
			continue;
		/* Do not connect again. Wait until the owner of the group stops this thread. */
		while (!is_stopping(l)) {
			eventfd_t n;

			poll(&(struct pollfd){.fd = l->wake, .events = POLLIN}, 1, -1);
			eventfd_read(l->wake, &n);
		}
	}
	/*
	 * A rank that leaves between two connections opens a new connection to send LEAVE. Otherwise the manager would
	 * report the rank as dead.
	 */
	if (c || (may_return(l) && !call_manager(l, &c)))
		last_word(l, c);
	drop(l, &c);
	return NULL;
}

/* -- the group's threads ----------------------------------------------------------- */

static void in_child(struct fpisa_fork_hook *h)
{
	struct fpisa_link *l = (struct fpisa_link *)h;

	l->inherited = 1;
	if (l->fd >= 0)
		close(l->fd);
	close(l->wake);
	if (l->events >= 0)
		close(l->events);
	l->fd = l->wake = l->events = -1;
}

int fpisa_link_start(struct fpisa_link *l)
{
	pthread_condattr_t a;
	sigset_t all, before;
	int rc;

	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &a);
	pthread_condattr_destroy(&a);
	l->fd = -1;
	l->heard_ns = l->looked_ns = fpisa_now();
	fpisa_fork_hold();
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fpisa_fork_release();
	if (l->wake < 0)
		return fpisa_fail(-errno, "%s: cannot create an eventfd: %s", l->peer, fpisa_why(-errno));
	l->fork.in_child = in_child;
	rc = fpisa_fork_add(&l->fork);
	if (rc)
		return rc;
	/* Block signals, because they are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&l->thread, NULL, run, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	l->started = !rc;
	return rc ? fpisa_fail(-rc, "%s: cannot start a thread: %s; end other threads, or raise ulimit -u", l->peer,
			       strerror(rc)) :
		    0;
}

int fpisa_link_wait(struct fpisa_link *l, struct fpisa_clock *clock, uint64_t timeout_ns)
{
	const uint64_t left = timeout_ns - clock->ns, turn = left < TURN_MS * MS ? left : TURN_MS * MS,
		       until = fpisa_now() + turn;

	pthread_cond_timedwait(
		&l->changed, &l->lock,
		&(struct timespec){.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)});
	fpisa_clock_tick(clock, fpisa_now(), turn);
	return clock->ns >= timeout_ns;
}

/* Set the message and the missing ranks of a join that has used up its time. Return -ETIMEDOUT. */
static int join_late(struct fpisa_link *l, uint64_t timeout_ns)
{
	const struct fpisa_ranks all = fpisa_ranks_all(l->join.size);
	const unsigned long long ms = timeout_ns / MS;
	char names[160];

	if (!l->told_pending)
		return fpisa_fail(-ETIMEDOUT, "%s: the manager did not answer in %llu ms; is fpisa serve running there?",
				  l->peer, ms);
	l->missing = fpisa_ranks_without(&all, &l->pending);
	return fpisa_fail(-ETIMEDOUT, "%s: %s did not join in %llu ms; start the missing ranks", l->peer,
			  fpisa_rank_names(names, sizeof(names), &l->missing), ms);
}

int fpisa_link_wait_joined(struct fpisa_link *l, uint64_t timeout_ns, uint64_t spent_ns)
{
	struct fpisa_clock clock;
	int rc = 0;

	fpisa_clock_init(&clock, timeout_ns, fpisa_now());
	clock.ns = spent_ns < timeout_ns ? spent_ns : timeout_ns;
	pthread_mutex_lock(&l->lock);
	while (!l->joined && !l->error && !rc)
		rc = fpisa_link_wait(l, &clock, timeout_ns);
	rc = l->joined || l->error ? 0 : join_late(l, timeout_ns);
	pthread_mutex_unlock(&l->lock);
	return rc ? rc : fpisa_link_error(l);
}

void fpisa_link_stop(struct fpisa_link *l)
{
	if (l->started && !l->inherited) {
		pthread_mutex_lock(&l->lock);
		tell_failures(l);
		l->stopping = 1;
		eventfd_write(l->wake, 1);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->thread, NULL);
	}
	fpisa_fork_hold();
	if (l->fork.in_child)
		fpisa_fork_remove(&l->fork);
	if (l->wake >= 0)
		close(l->wake);
	if (l->events >= 0)
		close(l->events);
	fpisa_fork_release();
	explicit_bzero(&l->psk, sizeof(l->psk));
}
