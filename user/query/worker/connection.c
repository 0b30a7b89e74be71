// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process that serves one master. query/lib/control.h describes the messages. The process reports an error to the
 * master in one sentence, and then ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/address.h"
#include "lib/base/error.h"
#include "serving.h"
#include "connection.h"

#define WORKING_NS (WORKING_MS * MS)
/* additional time, so that the master can report first, because it knows the missing members */
#define JOIN_GRACE_NS (2000 * MS)
#define UNREAD_NS (600000 * MS) /* limit for rows over TCP, which a program may leave unread for a long time */

/* -- time -------------------------------------------------------------------------------- */

static int late(const struct session *s)
{
	char a[FPISA_ADDRESS_LEN];

	fpisa_address_text(s->want.pruning == FPISA_PRUNING_NETWORK ? &s->want.aggregator : &s->from, a);
	if (s->state == GREETING)
		return fpisa_fail(-ETIMEDOUT,
				  "the master has not sent a request in %d s, so the connection is closed; run the "
				  "query again",
				  FPISA_MANAGER_GREETING_MS / 1000);
	if (s->state == SCANNING || s->state == FETCHING)
		return fpisa_fail(-ETIMEDOUT,
				  "the master has stopped reading the rows, so the connection is closed; is its "
				  "process stopped?");
	if (s->state == JOINING)
		return fpisa_fail(-ETIMEDOUT, "query %u: %s %s in %u ms", s->want.query,
				  s->member.joining.heard_ns ? "not all members joined at the aggregator" :
							       "no answer from the aggregator",
				  a, s->want.timeout_ms);
	if (s->state == KEYING)
		return fpisa_fail(
			-ETIMEDOUT,
			"query %u: the join's keys were not acknowledged in %u ms by %s; is the path MTU below %u?",
			s->want.query, s->want.timeout_ms, a, s->mtu);
	return fpisa_fail(
		-ETIMEDOUT,
		"query %u: frame %llu of %u rows was not acknowledged in %u ms by %s%s; is the path MTU below %u?",
		s->want.query, (unsigned long long)s->sender.low, s->sender.a_frame, s->want.timeout_ms, a,
		s->want.pruning == FPISA_PRUNING_NETWORK ? ", or the master behind it" : "", s->mtu);
}

/*
 * Return how long the state may last without progress. 0 means no limit, so only the end of the connection ends the
 * state.
 */
static uint64_t patience(const struct session *s)
{
	switch (s->state) {
	case GREETING:
		return FPISA_MANAGER_GREETING_MS * MS;
	case JOINING:
		return s->want.timeout_ms * MS + JOIN_GRACE_NS;
	case KEYING:
	case SENDING:
		return s->want.timeout_ms * MS;
	case SCANNING:
	case FETCHING:
		return UNREAD_NS;
	default:
		return 0;
	}
}

static int check_time(struct session *s, uint64_t now)
{
	size_t waiting = fpisa_control_waiting(&s->control);

	if ((s->state == SCANNING || s->state == FETCHING) && waiting != s->waiting)
		progress(s);
	s->waiting = waiting;
	if (patience(s) && now > s->progress_ns + patience(s))
		return late(s);
	if (s->state < KEYING || s->state > SCANNING || now < s->told_ns + WORKING_NS || s->progress_ns < s->told_ns)
		return 0;
	s->told_ns = now;
	return fpisa_control_send(&s->control, FPISA_CONTROL_WORKING, &s->missing, s->waits ? sizeof(s->missing) : 0);
}

static int timeout_ms(const struct session *s, uint64_t now)
{
	uint64_t due = now + 500 * MS, at = UINT64_MAX;

	if (s->state == REDUCING ||
	    ((s->state == SCANNING || s->state == FETCHING) && fpisa_control_waiting(&s->control) < AHEAD))
		return 0;
	if (s->member.t)
		at = fpisa_member_due(&s->member);
	due = at < due ? at : due;
	if (s->state == SENDING || s->state == KEYING)
		at = sender_due(&s->sender);
	due = at < due ? at : due;
	return due <= now ? 0 : (int)((due - now + MS - 1) / MS);
}

/* -- the loop --------------------------------------------------------------------------- */

static int wait_for_more(struct session *s)
{
	struct pollfd p[1 + FPISA_TRANSPORT_FDS] = {
		{.fd = fpisa_channel_fd(s->control.channel), .events = fpisa_channel_events(s->control.channel)}};
	int fds[FPISA_TRANSPORT_FDS], n = s->member.t ? s->member.t->ops->fds(s->member.t, fds) : 0;

	for (int i = 0; i < n; i++)
		p[1 + i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	if (poll(p, (nfds_t)(1 + (n > 0 ? n : 0)), timeout_ms(s, fpisa_now())) < 0 && errno != EINTR)
		return fpisa_fail(-errno, "cannot poll: %s", fpisa_why(-errno));
	return 0;
}

static int turn(struct session *s)
{
	int err = wait_for_more(s) ?: session_listen(s);

	if (!err && s->member.t)
		err = session_receive(s);
	if (!err && s->state == JOINING)
		err = fpisa_member_turn(&s->member, fpisa_now());
	if (!err && s->state == JOINING && s->member.joining.joined)
		err = session_begin_rows(s);
	if (!err && s->state == REDUCING)
		err = session_reduce(s);
	if (!err && (s->state == SENDING || s->state == KEYING))
		err = sender_turn(&s->sender, fpisa_now());
	if (s->sender.later && (s->state == SENDING || s->state == KEYING))
		progress(s);
	if (!err && s->state == KEYING && sender_done(&s->sender))
		err = session_end_keys(s);
	if (!err && s->state == SENDING && sender_done(&s->sender))
		err = session_say_done(s);
	if (!err && s->state == SCANNING)
		err = session_scan(s);
	if (!err && s->state == FETCHING)
		err = session_fetch(s);
	return err ?: check_time(s, fpisa_now()) ?: fpisa_control_flush(&s->control);
}

static void say_why(const struct session *s, int log)
{
	char line[FPISA_MESSAGE_SIZE + 64], a[FPISA_ADDRESS_LEN];
	int n = snprintf(line, sizeof(line), "query worker: master at %s: %s", fpisa_address_text(&s->from, a),
			 fpisa_query_error());

	/* The process that reads the log prints the line. If that process has ended, the line is lost. */
	if (write(log, line, (size_t)n) != n)
		return;
}

void session_run(const struct fpisa_control_channel *control, const struct fpisa_address *from, int directory, int log)
{
	struct session *s = calloc(1, sizeof(*s));
	int err = 0;

	if (!s)
		return;
	s->control = *control;
	s->from = *from;
	s->directory = directory;
	progress(s);
	while (!err)
		err = turn(s);
	/* A master may disconnect at any time, for example when it has its answer. */
	if (err != -ECONNRESET) {
		say_why(s, log);
		session_say_failed(s, err);
	}
	fpisa_control_close(&s->control);
	fpisa_member_close(&s->member);
	sender_end(&s->sender);
	source_close(&s->source);
	source_close(&s->other);
	free(s->places);
	free(s->records);
	free(s);
}
