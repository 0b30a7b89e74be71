/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The master's connections to workers. master.h describes the state. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/manager/watch.h"
#include "master.h"

#define FETCH_MOST 65536 /* number of rows in one request to a worker */

/* Prefix the message with the worker's name. */
static int of_worker(const struct fpisa_query_worker *w, int rc)
{
	char why[FPISA_MESSAGE_SIZE - 64];

	snprintf(why, sizeof(why), "%s", fpisa_query_error());
	return fpisa_fail(rc, "worker %s: %s", w->name, why);
}

/* Explain why the worker's connection failed, in its handshake or later. */
static int connection_failed(const struct fpisa_query *q, const struct fpisa_query_worker *w, int rc)
{
	char identity[FPISA_PSK_IDENTITY], why[FPISA_MESSAGE_SIZE / 2];

	if (rc != -EACCES || fpisa_channel_open(w->control.channel))
		return of_worker(w, rc);
	fpisa_psk_identity(&q->psk, identity);
	snprintf(why, sizeof(why), "%s", fpisa_query_error());
	if (!q->key_file)
		return fpisa_fail(
			rc,
			"worker %s refuses key %s; that line must be in the worker's key file when the worker starts; "
			"%s",
			w->name, identity, why);
	return fpisa_fail(
		rc,
		"worker %s refuses key %s, the last of the master's file %.150s; that line must be in the worker's "
		"key file when the worker starts; %s",
		w->name, identity, q->key_file, why);
}

/* -- messages to workers ------------------------------------------------------------ */

static uint32_t share(double rate)
{
	return (uint32_t)(rate * 4294967296.0);
}

static int send_open(struct fpisa_query *q, struct fpisa_query_worker *w)
{
	const struct fpisa_query_options *o = &q->options;
	struct fpisa_query_open open = {
		.kind = q->kind,
		.pruning = o->pruning,
		.preaggregate = o->preaggregate,
		.ascending = o->ascending,
		.query = o->query,
		.aggregator = q->aggregator,
		.aggregator_port = q->aggregator_port,
		.local_port = o->worker_port,
		.master_port = w->direct.t ? fpisa_member_port(&w->direct) : 0,
		.mtu = fpisa_member_mtu(fpisa_query_is_direct(q) ? &w->direct : &q->member),
		.timeout_ms = o->timeout_ms,
		.token = o->token,
		.limit = o->limit,
		.seed = o->seed + (uint64_t)(w - q->worker + 1) * 0x9e3779b97f4a7c15ull,
		.numbered = q->numbered,
		.faults = {share(o->loss), share(o->duplicate), share(o->reorder), share(o->delay), share(o->corrupt)},
	};
	const char *strings[FPISA_QUERY_STRINGS] = {
		[FPISA_STRING_TABLE] = q->table,
		[FPISA_STRING_VALUE] = q->value,
		[FPISA_STRING_BY] = q->by,
		[FPISA_STRING_COLUMNS] = q->columns,
		[FPISA_STRING_WHERE] = q->where,
		[FPISA_STRING_JOIN] = q->join,
		[FPISA_STRING_ON] = q->on,
		[FPISA_STRING_THERE] = q->there,
		[FPISA_STRING_JOIN_WHERE] = q->join_where,
	};
	size_t n = sizeof(open);
	char *content;
	int rc;

	for (int i = 0; i < FPISA_QUERY_STRINGS; i++) {
		strings[i] = strings[i] ? strings[i] : "";
		n += strlen(strings[i]) + 1;
	}
	content = malloc(n);
	if (!content)
		return fpisa_fail(-ENOMEM, "not enough memory for a message; " FPISA_MORE_MEMORY);
	memcpy(content, &open, sizeof(open));
	n = sizeof(open);
	for (int i = 0; i < FPISA_QUERY_STRINGS; i++)
		n += (size_t)(stpcpy(content + n, strings[i]) - (content + n)) + 1;
	rc = fpisa_control_send(&w->control, FPISA_CONTROL_OPEN, content, n);
	free(content);
	return rc;
}

int fpisa_query_call(struct fpisa_query *q, struct fpisa_query_worker *w)
{
	const union fpisa_sockaddr to = fpisa_sockaddr_of(&w->at, w->port);
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = w};

	w->heard_ns = fpisa_now();
	w->fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (w->fd < 0)
		return fpisa_fail(-errno, "%s", fpisa_why(-errno));
	fpisa_watch(w->fd);
	if (connect(w->fd, &to.any, fpisa_sockaddr_len(&to)) && errno != EINPROGRESS)
		return fpisa_fail(-errno, "worker %s: %s", w->name, fpisa_why(-errno));
	return epoll_ctl(q->poll, EPOLL_CTL_ADD, w->fd, &e) ? fpisa_fail(-errno, "%s", fpisa_why(-errno)) : 0;
}

/* Refuse a worker on this host that is to open this master's UDP port. `to` is the worker's end of the connection. */
static int check_port(const struct fpisa_query *q, const struct fpisa_query_worker *w, const union fpisa_sockaddr *to)
{
	const struct fpisa_query_options *o = &q->options;
	struct fpisa_address here, there = fpisa_address_from(to);
	union fpisa_sockaddr own;
	socklen_t n = sizeof(own);

	if (!q->member.t || o->worker_port != o->local_port || getsockname(w->fd, &own.any, &n))
		return 0;
	here = fpisa_address_from(&own);
	if (!fpisa_same_address(&here, &there))
		return 0;
	return fpisa_fail(-EADDRINUSE,
			  "worker %s is on the master's host, so it needs another UDP port than the master's %u; give "
			  "--local-port, and the same port in fpisa query add --master",
			  w->name, o->local_port);
}

/* Check whether the connection is established. If it is, give the socket to the channel. */
static int connected(struct fpisa_query *q, struct fpisa_query_worker *w)
{
	union fpisa_sockaddr to;
	socklen_t n = sizeof(int), m = sizeof(to);
	int error = 0, fd = w->fd, rc;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) || error)
		return fpisa_fail(-(error ? error : errno),
				  "worker %s: cannot connect: %s; is fpisa query worker running there?", w->name,
				  strerror(error ? error : errno));
	if (getpeername(fd, &to.any, &m))
		return 0;
	rc = check_port(q, w, &to);
	if (rc)
		return rc;
	w->fd = -1;
	rc = fpisa_control_call(&w->control, fd, &q->psk);
	return rc ? of_worker(w, rc) : send_open(q, w);
}

static void forget(struct fpisa_query_worker *w)
{
	w->heard_ns = fpisa_now();
	w->done = 0;
	w->n_nulls = 0;
}

int fpisa_query_start(struct fpisa_query *q)
{
	struct fpisa_query_start start = {.attempt = ++q->attempt, .key_bytes = q->key_bytes, .form = q->form};
	int rc = fpisa_query_reset(q);

	if (!rc && getrandom(&q->cookie, sizeof(q->cookie), 0) != sizeof(q->cookie))
		rc = fpisa_fail(-EIO, "cannot get random numbers: %s; allow this process to call getrandom()",
				strerror(errno));
	start.cookie = q->cookie;
	if (!rc && q->kind != FPISA_QUERY_SCAN && !fpisa_query_is_direct(q))
		rc = fpisa_member_join(&q->member, q->options.query, q->options.token);
	for (uint32_t i = 0; !rc && i < q->n_workers; i++) {
		struct fpisa_query_worker *w = &q->worker[i];

		forget(w);
		start.rank = i;
		if (w->direct.t)
			fpisa_member_direct(&w->direct, q->attempt, i, q->key_bytes, q->form, q->cookie);
		rc = fpisa_control_send(&w->control, FPISA_CONTROL_START, &start, sizeof(start));
	}
	q->phase = FPISA_PHASE_ROWS;
	return rc;
}

int fpisa_query_restart(struct fpisa_query *q)
{
	q->lost = 0;
	if (q->phase > FPISA_PHASE_READ)
		return 0;
	if (++q->restarts > FPISA_QUERY_RESTARTS)
		return fpisa_fail(-ESTALE,
				  "query %u: the aggregator has lost the query's state %d times; there, run fpisa query "
				  "show %u, and check whether another query uses this number",
				  q->options.query, FPISA_QUERY_RESTARTS, q->options.query);
	return fpisa_query_start(q);
}

/* Request the next rows of a worker, if the worker has more rows. */
static int fetch_more(struct fpisa_query_worker *w)
{
	size_t n = w->n_rows - w->asked < FETCH_MOST ? w->n_rows - w->asked : FETCH_MOST, from = w->asked;

	w->fetching = n > 0;
	w->heard_ns = fpisa_now();
	w->asked += n;
	return n ? fpisa_control_send(&w->control, FPISA_CONTROL_FETCH, w->rows + from, n * sizeof(*w->rows)) : 0;
}

int fpisa_query_fetch(struct fpisa_query *q)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < q->n_workers; i++)
		rc = fetch_more(&q->worker[i]);
	return rc;
}

/* -- turns -------------------------------------------------------------------------- */

void fpisa_query_worker_watch(struct fpisa_query *q, struct fpisa_query_worker *w)
{
	struct epoll_event e = {.events = 0, .data.ptr = w};

	if (fpisa_query_room(q))
		e.events = EPOLLIN;
	else
		q->paused = 1;
	if (fpisa_channel_events(w->control.channel) & POLLOUT ||
	    (fpisa_channel_open(w->control.channel) && fpisa_control_waiting(&w->control)))
		e.events |= EPOLLOUT;
	epoll_ctl(q->poll, EPOLL_CTL_MOD, fpisa_channel_fd(w->control.channel), &e);
}

/* Send the requests that were postponed when there was no room. Afterwards a worker can answer. */
static int send_waiting(struct fpisa_query_worker *w)
{
	struct fpisa_control_channel *c = &w->control;
	int rc;

	if (!fpisa_control_waiting(c) && fpisa_channel_flushed(c->channel))
		return 0;
	rc = fpisa_control_flush(c);
	rc = rc ? rc : fpisa_channel_flush(c->channel);
	if (!rc && !fpisa_control_waiting(c) && fpisa_channel_flushed(c->channel))
		w->heard_ns = fpisa_now();
	return rc;
}

int fpisa_query_worker_turn(struct fpisa_query *q, struct fpisa_query_worker *w)
{
	const uint8_t *content;
	uint16_t type;
	size_t n;
	int rc = 0;

	if (!w->control.channel) {
		rc = connected(q, w);
		if (rc || !w->control.channel)
			return rc;
	}
	/* Rows wait at the workers until the caller takes them. */
	while (fpisa_query_room(q)) {
		rc = fpisa_control_work(&w->control, &type, &content, &n);
		if (rc <= 0)
			break;
		w->heard_ns = fpisa_now();
		/* A worker that waits for other workers says so, and this message does not count as progress. */
		q->progress_ns = type == FPISA_CONTROL_WORKING && n ? q->progress_ns : w->heard_ns;
		rc = fpisa_query_take(q, w, type, content, n);
		if (!rc && w->fetching && w->fetched == w->asked)
			rc = fetch_more(w);
		if (!fpisa_query_room(q))
			q->next_reader = (uint32_t)(w - q->worker + 1) % q->n_workers;
		if (rc)
			break;
	}
	if (rc >= 0)
		rc = send_waiting(w);
	if (rc < 0)
		return connection_failed(q, w, rc);
	fpisa_query_worker_watch(q, w);
	return 0;
}

void fpisa_query_worker_close(struct fpisa_query_worker *w)
{
	if (w->control.channel)
		fpisa_control_close(&w->control);
	else if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	fpisa_member_close(&w->direct);
	free(w->columns);
	free(w->nulls);
	free(w->rows);
	free(w->records);
}
