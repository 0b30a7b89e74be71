/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Implement the functions of fpisa-query.h. master.h describes the state. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "master.h"

/* additional time after a worker's timeout, because the worker reports the timeout itself */
#define WORKER_GRACE_NS 5000000000ull
#define EVENTS 16

int fpisa_query_fail(struct fpisa_query *q, int error)
{
	if (!q->error) {
		q->error = error;
		snprintf(q->why, sizeof(q->why), "%s", fpisa_query_error());
	}
	return fpisa_fail(q->error, "%s", q->why);
}

/* -- from phase to phase -------------------------------------------------------------- */

/* Make room for rows, and inject faults. Worker and master already know each other's ports. */
static int prepare_sockets(struct fpisa_query *q)
{
	const struct fpisa_query_options *o = &q->options;
	const struct fpisa_fault_rates faults = {o->loss, o->duplicate, o->reorder, o->delay, o->corrupt};
	int rc = 0;

	if (q->member.t)
		rc = fpisa_member_prepare(&q->member, &faults, o->seed);
	for (uint32_t i = 0; !rc && i < q->n_workers; i++)
		if (q->worker[i].direct.t)
			rc = fpisa_member_prepare(&q->worker[i].direct, &faults, o->seed ^ i);
	return rc;
}

static int all_ready(const struct fpisa_query *q)
{
	for (uint32_t i = 0; i < q->n_workers; i++)
		if (!q->worker[i].ready)
			return 0;
	return 1;
}

static int all_done(const struct fpisa_query *q)
{
	for (uint32_t i = 0; i < q->n_workers; i++)
		if (!q->worker[i].done)
			return 0;
	return 1;
}

static int all_fetched(const struct fpisa_query *q)
{
	for (uint32_t i = 0; i < q->n_workers; i++)
		if (q->worker[i].fetching)
			return 0;
	return 1;
}

/* Begin the next phase if this phase is over. Repeat until a phase is not over. */
static int advance(struct fpisa_query *q)
{
	int rc = 0;

	if (q->phase == FPISA_PHASE_OPEN && all_ready(q)) {
		rc = fpisa_query_describe(q);
		if (!rc)
			rc = prepare_sockets(q);
		if (!rc)
			rc = fpisa_query_start(q);
	}
	if (!rc && q->phase == FPISA_PHASE_ROWS && all_done(q)) {
		if (q->member.t && !q->member.joining.joined)
			return 0;
		q->phase = q->member.t ? FPISA_PHASE_SEAL : FPISA_PHASE_FETCH;
	}
	if (!rc && q->phase == FPISA_PHASE_FETCH && !q->settled) {
		rc = fpisa_query_check(q);
		if (!rc)
			rc = fpisa_query_settle(q);
		q->settled = 1;
	}
	if (!rc && q->phase == FPISA_PHASE_FETCH && all_fetched(q))
		q->phase = FPISA_PHASE_DONE;
	return rc;
}

/* -- time ----------------------------------------------------------------------------- */

/*
 * Among the workers that have not finished the phase, return the worker that has been silent longest. Return NULL if
 * all workers have finished the phase.
 */
static struct fpisa_query_worker *find_late(struct fpisa_query *q)
{
	struct fpisa_query_worker *late = NULL;

	for (uint32_t i = 0; i < q->n_workers; i++) {
		struct fpisa_query_worker *w = &q->worker[i];

		if ((q->phase == FPISA_PHASE_OPEN  ? !w->ready :
		     q->phase == FPISA_PHASE_FETCH ? w->fetching :
						     !w->done) &&
		    (!late || w->heard_ns < late->heard_ns))
			late = w;
	}
	return late;
}

static int no_answer(const struct fpisa_query *q, const struct fpisa_query_worker *w)
{
	return fpisa_fail(-ETIMEDOUT,
			  "worker %s: no answer in %u ms; is fpisa query worker stopped there, or its host "
			  "down?",
			  w ? w->name : "?", q->options.timeout_ms);
}

/*
 * Fail the query if one worker has been silent for too long, even if other workers make progress. A worker is not
 * silent if its messages are unread because there is no room.
 */
static int check_silence(struct fpisa_query *q, uint64_t now)
{
	uint64_t limit = (uint64_t)q->options.timeout_ms * 1000000 + WORKER_GRACE_NS;
	struct fpisa_query_worker *w = find_late(q);
	int rc = 0;

	if (!w || now < w->heard_ns + limit)
		return 0;
	if (w->control.channel)
		rc = fpisa_query_worker_turn(q, w);
	if (!rc && w->control.channel && !fpisa_query_room(q) && fpisa_channel_unread(w->control.channel))
		w->heard_ns = now;
	return rc || now < w->heard_ns + limit ? rc : no_answer(q, w);
}

/* Report the members that have not joined. */
static int not_joined(const struct fpisa_query *q)
{
	char names[256], at[FPISA_ADDRESS_LEN];

	/* The aggregator may have stopped after it answered. */
	if (q->member.joining.heard_ns + (uint64_t)q->options.timeout_ms * 500000 < fpisa_now())
		return fpisa_fail(
			-ETIMEDOUT,
			"query %u: the aggregator at %s has not answered for %u ms; check the route and the "
			"token. There, fpisa stats shows drops, and fpisa query list must show this host with UDP port "
			"%u as the master",
			q->options.query, fpisa_address_text(&q->aggregator, at), q->options.timeout_ms,
			q->options.local_port);
	return fpisa_fail(
		-ETIMEDOUT,
		"query %u: %s of the aggregator's list did not join in %u ms; list each of them with address and port",
		q->options.query,
		fpisa_rank_names(names, sizeof(names), &(struct fpisa_ranks){{q->member.joining.missing}}),
		q->options.timeout_ms);
}

static int check_time(struct fpisa_query *q, uint64_t now)
{
	uint64_t limit = (uint64_t)q->options.timeout_ms * 1000000;
	char names[256], at[FPISA_ADDRESS_LEN];

	if (q->phase == FPISA_PHASE_DONE)
		return 0;
	/* Do not count the time during which the caller does not take the rows that have arrived. */
	if (!fpisa_query_room(q))
		q->progress_ns = now;
	if (now < q->progress_ns + limit)
		return check_silence(q, now);
	if (q->phase == FPISA_PHASE_ROWS && q->member.t && !q->member.joining.joined)
		return not_joined(q);
	if (q->phase == FPISA_PHASE_SEAL && q->unsealed)
		return fpisa_fail(-EILSEQ,
				  "query %u: the aggregator did not receive exactly the frames that %s sent; please "
				  "report this bug",
				  q->options.query,
				  fpisa_rank_names(names, sizeof(names), &(struct fpisa_ranks){{q->unsealed}}));
	if (q->phase == FPISA_PHASE_SEAL || q->phase == FPISA_PHASE_READ)
		return fpisa_fail(-ETIMEDOUT,
				  "query %u: the aggregator at %s has not answered for %u ms after all rows were sent; "
				  "there, see fpisa query show %u",
				  q->options.query, fpisa_address_text(&q->aggregator, at), q->options.timeout_ms,
				  q->options.query);
	if (q->phase == FPISA_PHASE_ROWS && now < q->progress_ns + limit + WORKER_GRACE_NS)
		return 0;
	return no_answer(q, find_late(q));
}

/* Return when there is work to do next. */
static uint64_t next_time(const struct fpisa_query *q)
{
	uint64_t due = fpisa_query_due(q), late = q->progress_ns + (uint64_t)q->options.timeout_ms * 1000000;

	if (late < fpisa_now())
		late = fpisa_now() + 100000000;
	return due < late ? due : late;
}

/* Set the timer to a nonzero time of CLOCK_MONOTONIC. 0 would disarm the timer. */
static void set_timer_at(const struct fpisa_query *q, uint64_t at)
{
	struct itimerspec t = {.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};

	timerfd_settime(q->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void set_timer(const struct fpisa_query *q)
{
	uint64_t at = next_time(q);

	set_timer_at(q, at ? at : 1);
}

/* -- the functions ----------------------------------------------------------------------- */

static int start(struct fpisa_query *q, const struct fpisa_query_options *options)
{
	struct epoll_event timer = {.events = EPOLLIN, .data.ptr = &q->timer};
	int rc = fpisa_query_take_options(q, options);

	if (rc)
		return rc;
	q->poll = epoll_create1(EPOLL_CLOEXEC);
	q->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (q->poll < 0 || q->timer < 0 || epoll_ctl(q->poll, EPOLL_CTL_ADD, q->timer, &timer))
		return fpisa_fail(-errno, "%s", fpisa_why(-errno));
	q->progress_ns = fpisa_now();
	rc = fpisa_query_open_sockets(q);
	for (uint32_t i = 0; !rc && i < q->n_workers; i++)
		rc = fpisa_query_call(q, &q->worker[i]);
	set_timer(q);
	return rc;
}

int fpisa_query_open(struct fpisa_query **out, const struct fpisa_query_options *options)
{
	struct fpisa_query *q;
	int rc = fpisa_given(out, "the pointer for the query");

	if (rc)
		return rc;
	*out = NULL;
	rc = fpisa_given(options, "options");
	q = rc ? NULL : calloc(1, sizeof(*q));
	if (!q)
		return rc ? rc : fpisa_fail(-ENOMEM, "not enough memory for a query; " FPISA_MORE_MEMORY);
	q->poll = q->timer = -1;
	rc = start(q, options);
	if (rc)
		fpisa_query_close(q);
	else
		*out = q;
	return rc;
}

/* Return whether this worker's rows share a buffer with other workers' rows. Workers take turns to fill the buffer. */
static int takes_turns(const struct fpisa_query *q, const struct fpisa_query_worker *w)
{
	return fpisa_query_streams(q) && w->control.channel;
}

/*
 * Send the messages that this turn has queued, and take rows for which there is room, starting with the worker whose
 * turn it is.
 */
static int turn_workers(struct fpisa_query *q)
{
	uint32_t first = q->next_reader;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < q->n_workers; i++) {
		struct fpisa_query_worker *w = &q->worker[(first + i) % q->n_workers];

		if (takes_turns(q, w) || (w->control.channel && fpisa_control_waiting(&w->control)))
			rc = fpisa_query_worker_turn(q, w);
	}
	return rc;
}

/* Run one turn. Handle the events of all descriptors first, and then the work that is due. */
static int turn(struct fpisa_query *q, int timeout_ms)
{
	struct epoll_event e[EVENTS];
	uint64_t expired;
	int rc = 0, n = epoll_wait(q->poll, e, EVENTS, timeout_ms);

	for (int i = 0; !rc && i < n; i++) {
		struct fpisa_query_worker *w = e[i].data.ptr;

		if (w >= q->worker && w < q->worker + q->n_workers && !takes_turns(q, w))
			rc = fpisa_query_worker_turn(q, w);
		else if (e[i].data.ptr == &q->timer && read(q->timer, &expired, sizeof(expired)) < 0)
			continue;
	}
	if (!rc)
		rc = fpisa_query_frames(q, fpisa_now());
	if (!rc && q->lost)
		rc = fpisa_query_restart(q);
	if (!rc)
		rc = advance(q);
	if (!rc)
		rc = turn_workers(q);
	if (!rc)
		rc = advance(q);
	/* Wake the next turn when the socket can take the messages that were queued above. */
	for (uint32_t i = 0; !rc && i < q->n_workers; i++)
		if (q->worker[i].control.channel && fpisa_control_waiting(&q->worker[i].control))
			fpisa_query_worker_watch(q, &q->worker[i]);
	if (!rc)
		rc = check_time(q, fpisa_now());
	set_timer(q);
	return rc;
}

static int can_take(const struct fpisa_query *q)
{
	return q->phase == FPISA_PHASE_DONE ? 2 : q->stream_at < q->stream_n;
}

int fpisa_query_work(struct fpisa_query *q, int timeout_ms)
{
	uint64_t until = fpisa_now() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000 : 0), now;
	int rc = fpisa_given(q, "the query"), left = 0;

	if (rc)
		return rc;
	if (q->error)
		return fpisa_query_fail(q, q->error);
	while (q->phase != FPISA_PHASE_DONE) {
		rc = turn(q, left);
		if (rc)
			return fpisa_query_fail(q, rc);
		now = fpisa_now();
		if (can_take(q) || !timeout_ms || (timeout_ms > 0 && now >= until))
			break;
		left = timeout_ms < 0 ? 1000 : (int)((until - now) / 1000000) + 1;
	}
	return can_take(q);
}

int fpisa_query_fd(const struct fpisa_query *q)
{
	int rc = fpisa_given(q, "the query");

	return rc ? rc : q->poll;
}

uint32_t fpisa_query_columns(const struct fpisa_query *q, const struct fpisa_query_column **columns)
{
	if (columns)
		*columns = q ? q->out : NULL;
	return q && q->out ? q->n_out : 0;
}

int fpisa_query_next(struct fpisa_query *q, const char *const **row)
{
	int rc = fpisa_given(q, "the query");

	if (!rc)
		rc = fpisa_given(row, "the place for the row");
	if (rc)
		return rc;
	if (q->error)
		return fpisa_query_fail(q, q->error);
	rc = can_take(q) ? fpisa_query_row(q) : 0;
	*row = q->text;
	/* Make the descriptor readable, because there is room again for rows that wait at the workers. */
	if (q->paused && fpisa_query_room(q)) {
		q->paused = 0;
		set_timer_at(q, 1);
	}
	return rc < 0 ? fpisa_query_fail(q, rc) : rc;
}

void fpisa_query_close(struct fpisa_query *q)
{
	if (!q)
		return;
	for (uint32_t i = 0; i < q->n_workers; i++)
		fpisa_query_worker_close(&q->worker[i]);
	fpisa_member_close(&q->member);
	fpisa_groups_free(&q->groups);
	fpisa_top_free(&q->top);
	fpisa_query_forget_places(q);
	if (q->poll >= 0)
		close(q->poll);
	if (q->timer >= 0)
		close(q->timer);
	explicit_bzero(&q->psk, sizeof(q->psk));
	free(q->table);
	free(q->value);
	free(q->by);
	free(q->columns);
	free(q->where);
	free(q->key_file);
	free(q->join);
	free(q->on);
	free(q->there);
	free(q->join_where);
	free(q->out);
	free(q->names);
	free(q->text);
	free(q->space);
	free(q->stream);
	free(q);
}
