/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a group tells the manager, and when a silent manager ends it; link.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "handle.h"
#include "link.h"

#define MS 1000000ull
#define TURN_MS 200   /* time between two checks of the clock */
#define WAITS_MS 1000 /* a call that takes longer is reported to the manager */

static int under_lock(struct fpisa_link *l, int (*is)(const struct fpisa_link *l))
{
	int value;

	pthread_mutex_lock(&l->lock);
	value = is(l);
	pthread_mutex_unlock(&l->lock);
	return value;
}

static int is_joined(const struct fpisa_link *l)
{
	return l->joined;
}

int fpisa_link_is_joined(struct fpisa_link *l)
{
	return under_lock(l, is_joined);
}

static int is_stopping(const struct fpisa_link *l)
{
	return l->stopping;
}

int fpisa_link_is_stopping(struct fpisa_link *l)
{
	return under_lock(l, is_stopping);
}

static int wants(const struct fpisa_link *l)
{
	return !l->error && (l->joined || !l->stopping);
}

int fpisa_link_wants(struct fpisa_link *l)
{
	return under_lock(l, wants);
}

static int is_unanswered(const struct fpisa_link *l)
{
	return !l->joined && !l->told_pending && !l->error;
}

int fpisa_link_is_unanswered(struct fpisa_link *l)
{
	return under_lock(l, is_unanswered);
}

/* -- telling the manager ---------------------------------------------------------- */

/* Send a message with the link's number. Return 0, or -errno with the message set. */
static int say(const struct fpisa_link *l, const struct fpisa_manager_message *m)
{
	struct fpisa_channel *channel = l->connection->channel;
	struct fpisa_manager_message own = *m;
	int rc;

	own.number = l->number;
	rc = fpisa_channel_send(channel, &own);
	if (rc != -ENOBUFS || !fpisa_channel_open(channel))
		return rc;
	rc = fpisa_channel_flush(channel);
	return rc ? rc : fpisa_channel_send(channel, &own);
}

int fpisa_link_greet(struct fpisa_link *l)
{
	struct fpisa_manager_message m;
	int rc;

	pthread_mutex_lock(&l->lock);
	m = fpisa_manager_message(l->joined ? FPISA_MANAGER_RETURN : FPISA_MANAGER_JOIN);
	m.join = l->join;
	m.join.rate = l->connection->rate;
	rc = say(l, &m);
	l->unsent = l->joined ? 0 : l->unsent;
	for (uint32_t k = 0; !rc && l->joined && k < FPISA_MANAGER_JOBS; k++) {
		struct fpisa_link_job *j = &l->job[k];

		if (j->error) {
			m = fpisa_link_failed(l, j);
			rc = say(l, &m);
		}
		if (!fpisa_group_job_awaited(j->state))
			continue;
		j->state = FPISA_GROUP_JOB_ASKED;
		m = fpisa_manager_message(FPISA_MANAGER_ASK);
		m.ask.index = k;
		m.ask.spec = j->asked;
		rc = say(l, &m);
	}
	l->waits_told = 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/*
 * Send the queue. Keep the messages for which the channel has no room, because the manager does not read, and return
 * -ENOBUFS.
 */
static int send_queue(struct fpisa_link *l)
{
	int rc = 0, sent = 0;

	pthread_mutex_lock(&l->lock);
	while (!rc && sent < l->unsent) {
		rc = say(l, &l->queue[sent]);
		sent += !rc;
	}
	l->unsent -= sent;
	memmove(l->queue, l->queue + sent, (size_t)l->unsent * sizeof(l->queue[0]));
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
			heard = later(later(heard, l->connection->there_ns),
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
	/* A group that joins over a silent connection waits as long as over a new one. */
	const uint64_t last = later(l->connection->heard_ns, l->since_ns), asked = l->joined ? waits_for_job(l) : last,
		       heard = later(later(last, heard_host(l)), asked);
	const int absent = over(now, last, FPISA_MANAGER_ABSENT_MS * MS);
	char sentence[FPISA_MESSAGE_SIZE];

	if (!asked || (!absent && !over(now, heard, FPISA_MANAGER_SILENCE_MS * MS)))
		return;
	snprintf(sentence, sizeof(sentence),
		 "%s: the manager has not answered for %d s%s%s; is fpisa serve running there?", l->peer,
		 (absent ? FPISA_MANAGER_ABSENT_MS : FPISA_MANAGER_SILENCE_MS) / 1000,
		 l->joined ? ", and a call waits for its job" : "",
		 l->connection->unreachable ? ": No route to host" : "");
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

	for (int k = 0; k < FPISA_MANAGER_JOBS && over(now, l->connection->heard_ns, limit); k++) {
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
static void check_both(struct fpisa_link *l, uint64_t now)
{
	const uint64_t limit = FPISA_MANAGER_SILENCE_MS * MS;
	char sentence[FPISA_MESSAGE_SIZE];

	for (int k = 0; k < FPISA_MANAGER_JOBS && over(now, l->connection->heard_ns, limit); k++) {
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
}

void fpisa_link_check(struct fpisa_link *l, uint64_t now)
{
	pthread_mutex_lock(&l->lock);
	fpisa_link_check_left(l);
	check_manager(l, now);
	check_abandoned(l, now);
	check_both(l, now);
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
 * Write into WAITS the last call with results, and the jobs that exist or have failed. Write this after the oldest call, so
 * that it covers all calls before that one. The caller holds the lock.
 */
static void add_ended(const struct fpisa_link *l, struct fpisa_manager_waits *w)
{
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		const struct fpisa_link_job *j = &l->job[k];
		struct fpisa_standing s = {0};

		if (j->handle)
			fpisa_handle_standing(j->handle, &s);
		w->last = later(w->last, s.last_whole);
		w->made |= (__u8)((j->state == FPISA_GROUP_JOB_MADE) << k);
		w->failed |= (__u8)((j->error || s.error) << k);
	}
}

/*
 * Report the oldest call of this rank to the manager if the call takes long. The manager compares this call with those
 * of other ranks. Wait until the queue has been sent, so that it has at most one such message. The caller holds the lock.
 */
static void tell_waits(struct fpisa_link *l)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_WAITS);
	const uint64_t now = fpisa_now();
	struct fpisa_standing s;
	const int index = fpisa_link_oldest(l, &s);

	if (s.number != l->waits) {
		l->waits = s.number;
		l->waits_ns = now;
		l->waits_told = 0;
	} else if (s.number && !l->waits_told && !l->unsent && over(now, l->waits_ns, WAITS_MS * MS)) {
		m.waits = (struct fpisa_manager_waits){
			.call = s.number, .digest = s.tag, .index = (__u8)index, .elements = s.count != 0};
		add_ended(l, &m.waits);
		fpisa_link_send(l, &m);
		l->waits_told = 1;
	}
}

int fpisa_link_tell(struct fpisa_link *l)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	if (l->joined && !l->error) {
		tell_failures(l);
		fpisa_link_check_barriers(l);
		tell_waits(l);
	}
	pthread_mutex_unlock(&l->lock);
	rc = send_queue(l);
	return rc == -ENOBUFS ? 0 : rc;
}

void fpisa_link_lost(struct fpisa_link *l, int rc, const char *why)
{
	pthread_mutex_lock(&l->lock);
	if (!l->joined || rc == -EACCES || rc == -EPROTO || rc == -ENOENT) {
		fpisa_fail(rc, "%s", why);
		fpisa_link_fail_so(l, rc);
	}
	pthread_mutex_unlock(&l->lock);
}

/* Return how many of the first `calls` calls, from the last one back, ended without results. The caller holds the lock. */
static uint32_t no_results(const struct fpisa_link *l, uint64_t calls)
{
	struct fpisa_manager_waits w = {0};

	add_ended(l, &w);
	if (w.last >= calls)
		return 0;
	return calls - w.last < UINT32_MAX ? (uint32_t)(calls - w.last) : UINT32_MAX;
}

/*
 * Send LEAVE, even after a join that has failed here, because the manager may have the JOIN. Do not queue the message,
 * because fpisa_link_greet() drops the queue of an ended connection.
 */
static int send_leave(struct fpisa_link *l)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_LEAVE);
	int rc;

	pthread_mutex_lock(&l->lock);
	m.leave.calls = fpisa_link_completed(l);
	m.leave.no_results = no_results(l, m.leave.calls);
	rc = say(l, &m);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int fpisa_link_leave(struct fpisa_link *l)
{
	int rc = send_queue(l);

	return rc ? rc : send_leave(l);
}

/* -- the group's threads ----------------------------------------------------------- */

static void in_child(struct fpisa_fork_hook *h)
{
	struct fpisa_link *l = (struct fpisa_link *)h;

	l->inherited = 1;
	if (l->events >= 0)
		close(l->events);
	l->events = -1;
}

int fpisa_link_init(struct fpisa_link *l)
{
	pthread_condattr_t a;
	int rc;

	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &a);
	pthread_condattr_destroy(&a);
	l->events = -1;
	l->fork.in_child = in_child;
	rc = fpisa_fork_add(&l->fork);
	if (rc)
		l->fork.in_child = NULL;
	return rc;
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
		pthread_mutex_unlock(&l->lock);
	}
}

void fpisa_link_free(struct fpisa_link *l)
{
	fpisa_fork_hold();
	if (l->fork.in_child)
		fpisa_fork_remove(&l->fork);
	if (l->events >= 0)
		close(l->events);
	fpisa_fork_release();
}
