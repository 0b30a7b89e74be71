// SPDX-License-Identifier: GPL-2.0-only
/* Masters that are not served yet. newcomers.h documents the functions. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/print.h"
#include "fpisa-query.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "newcomers.h"

#define NS_PER_MS 1000000ull
#define QUEUE_MS 1000	  /* longest time after the end of a scan until the scan's process makes room */
#define LAST_WORD_MS 2000 /* time for sending the last message */

/* -- places ------------------------------------------------------------------ */

static int *share_of(struct newcomers *s, const struct newcomer *n)
{
	const struct fpisa_address *a = &n->from;
	const uint32_t host = fpisa_is_ipv6(a) ? a->w[0] * s->spread ^ a->w[1] : a->w[3];

	return &s->share[(host * s->spread) >> 24];
}

static void count(struct newcomers *s, const struct newcomer *n, int by)
{
	if (n->state == NEWCOMER_UNKNOWN) {
		s->unknown += by;
		*share_of(s, n) += by;
	} else
		s->known += by;
}

static void become(struct newcomers *s, struct newcomer *n, enum newcomer_state state, uint64_t ms)
{
	count(s, n, -1);
	n->state = state;
	n->until_ns = fpisa_now() + ms * NS_PER_MS;
	count(s, n, 1);
}

static void end(struct newcomers *s, struct newcomer *n)
{
	count(s, n, -1);
	TAILQ_REMOVE(&s->all, n, link);
	/* Forked processes still have the socket, so epoll would continue to report its events. */
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, fpisa_channel_fd(n->control.channel), NULL);
	fpisa_control_close(&n->control);
	free(n);
}

bool newcomers_make_room(struct newcomers *s)
{
	struct newcomer *n, *victim = NULL;
	char a[ADDRESS_LEN];

	TAILQ_FOREACH(n, &s->all, link)
		if (n->state == NEWCOMER_UNKNOWN && (!victim || *share_of(s, n) > *share_of(s, victim)))
			victim = n;
	if (!victim)
		return false;
	log_line(s->log, fpisa_now() / NS_PER_MS,
		 "fpisa: query worker: %d connections have not shown a key, which is the limit; the oldest of %s, "
		 "which has %d, is closed",
		 s->unknown, address_text(victim->from, a), *share_of(s, victim));
	end(s, victim);
	return true;
}

/* -- one connection -------------------------------------------------------------- */

static void say_why(struct newcomers *s, const struct newcomer *n, int err)
{
	bool key = err == -EACCES;
	char a[ADDRESS_LEN];

	log_line(s->log, fpisa_now() / NS_PER_MS, "fpisa: query worker: master at %s: %s%s%s%s",
		 address_text(n->from, a), key ? "the master's key is not in the worker's file " : "",
		 key ? s->key_file : "", key ? "; " : "", fpisa_query_error());
}

static void want(struct newcomers *s, struct newcomer *n)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = n};

	if (fpisa_channel_events(n->control.channel) & POLLOUT)
		e.events |= EPOLLOUT;
	/* Do not read a waiting connection here. The process that will serve the master reads it. */
	if (n->state == NEWCOMER_ADMITTED)
		e.events = EPOLLRDHUP;
	epoll_ctl(s->epoll, EPOLL_CTL_MOD, fpisa_channel_fd(n->control.channel), &e);
}

void newcomers_add(struct newcomers *s, int fd, const struct fpisa_address *from)
{
	struct epoll_event e = {.events = EPOLLIN};
	struct newcomer *n = calloc(1, sizeof(*n));

	if (!n || fpisa_control_serve(&n->control, fd, s->keys)) {
		if (!n)
			close(fd);
		free(n);
		return;
	}
	if (s->unknown >= NEWCOMERS_MOST)
		newcomers_make_room(s);
	n->from = *from;
	n->until_ns = fpisa_now() + FPISA_MANAGER_GREETING_MS * NS_PER_MS;
	TAILQ_INSERT_TAIL(&s->all, n, link);
	count(s, n, 1);
	e.data.ptr = n;
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e))
		end(s, n);
}

/*
 * Send the last message, and read and discard what the peer sends. Closing a socket with unread bytes would discard the
 * message.
 */
static int see_off(struct newcomer *n)
{
	const __u8 *content;
	__u16 type;
	size_t size;
	int rc;

	do
		rc = fpisa_control_work(&n->control, &type, &content, &size);
	while (rc > 0);
	if (!rc && !n->shut && !fpisa_control_waiting(&n->control) && fpisa_channel_flushed(n->control.channel)) {
		n->shut = true;
		shutdown(fpisa_channel_fd(n->control.channel), SHUT_WR);
	}
	return rc;
}

static void refuse_busy(struct newcomers *s, struct newcomer *n)
{
	newcomer_refuse(s, n,
			fpisa_fail(-EBUSY,
				   "the worker serves %d scans already; try again, or start the worker with --scans N",
				   s->scans));
}

/*
 * Admit an authenticated connection. Up to `scans` connections may wait. Tell further connections immediately that the
 * limit is reached.
 */
static void admit(struct newcomers *s, struct newcomer *n)
{
	bool busy = s->known >= s->scans;

	if (s->known >= s->scans + NEWCOMERS_MOST) {
		end(s, n);
		return;
	}
	become(s, n, NEWCOMER_ADMITTED, QUEUE_MS);
	if (busy)
		refuse_busy(s, n);
	else
		want(s, n);
}

void newcomer_work(struct newcomers *s, struct newcomer *n)
{
	int rc = n->state == NEWCOMER_UNKNOWN ? fpisa_channel_greet(n->control.channel) :
		 n->state == NEWCOMER_LEAVING ? see_off(n) :
						-ECONNRESET;

	if (rc && n->state == NEWCOMER_UNKNOWN && rc != -ECONNRESET)
		say_why(s, n, rc);
	if (rc)
		end(s, n);
	else if (n->state == NEWCOMER_UNKNOWN && fpisa_channel_open(n->control.channel))
		admit(s, n);
	else
		want(s, n);
}

void newcomer_refuse(struct newcomers *s, struct newcomer *n, int err)
{
	char content[4 + FPISA_MESSAGE_SIZE];
	size_t length = strlen(fpisa_query_error()) + 1;
	int32_t number = err;

	say_why(s, n, err);
	memcpy(content, &number, sizeof(number));
	memcpy(content + sizeof(number), fpisa_query_error(), length);
	become(s, n, NEWCOMER_LEAVING, LAST_WORD_MS);
	if (fpisa_control_send(&n->control, FPISA_CONTROL_FAILED, content, sizeof(number) + length))
		end(s, n);
	else
		newcomer_work(s, n);
}

/* -- all connections -------------------------------------------------------------- */

void newcomers_tick(struct newcomers *s)
{
	uint64_t now = fpisa_now();
	struct newcomer *n, *next;

	for (n = TAILQ_FIRST(&s->all); n; n = next) {
		next = TAILQ_NEXT(n, link);
		if (now < n->until_ns)
			continue;
		if (n->state == NEWCOMER_ADMITTED) {
			refuse_busy(s, n);
			continue;
		}
		if (n->state == NEWCOMER_UNKNOWN)
			say_why(s, n,
				fpisa_fail(-ETIMEDOUT,
					   "the master has not shown a key in %d s, so the connection is closed; run the query "
					   "again",
					   FPISA_MANAGER_GREETING_MS / 1000));
		end(s, n);
	}
}

struct newcomer *newcomers_next(const struct newcomers *s)
{
	struct newcomer *n;

	TAILQ_FOREACH(n, &s->all, link)
		if (n->state == NEWCOMER_ADMITTED)
			return n;
	return NULL;
}

void newcomer_forget(struct newcomers *s, struct newcomer *n)
{
	fpisa_channel_forget(n->control.channel);
	end(s, n);
}

void newcomers_close_others(const struct newcomers *s, const struct newcomer *n)
{
	const struct newcomer *other;

	TAILQ_FOREACH(other, &s->all, link)
		if (other != n)
			close(fpisa_channel_fd(other->control.channel));
}
