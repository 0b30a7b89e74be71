// SPDX-License-Identifier: GPL-2.0-only
/* Connections of ranks; conn.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "conn.h"
#include "fpisa.h"
#include "host/listen.h"
#include "lib/manager/interface.h"
#include "lib/manager/watch.h"

#define LAST_WORD_MS 2000 /* time for sending the last message */
#define BACKLOG MANAGER_WAITING
#define TURN 64	    /* maximum number of messages, or reads of discarded bytes, before other connections get a turn */
#define STRANGERS 8 /* maximum number of events of connections outside groups, between events of ranks in groups */
#define SEND_BYTES \
	(FPISA_MANAGER_SHARED * 8 * FPISA_MANAGER_BYTES) /* of the kernel's queue: 8 messages to each group */
#define ACCEPTS 16					 /* maximum number of new connections in one of these events */

/* -- sockets ---------------------------------------------------------------- */

int conns_open(struct conns_of *s, const struct manager_policy *policy, __u16 port)
{
	struct epoll_event e = {.events = EPOLLIN};
	char a[ENDPOINT_LEN];

	TAILQ_INIT(&s->all);
	TAILQ_INIT(&s->wait);
	TAILQ_INIT(&s->closing);
	TAILQ_INIT(&s->dirty);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->strangers = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0 || s->strangers < 0)
		return fail(-errno, NULL, "serve: cannot create a socket");
	s->listener = listen_tcp(policy->listen, port, BACKLOG);
	if (s->listener < 0)
		return fail(s->listener,
			    "give another port or address in [manager], or stop the program that listens there",
			    "serve: %s", listen_text(policy->listen, port, a));
	if (epoll_ctl(s->strangers, EPOLL_CTL_ADD, s->listener, &e) ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->strangers, &e))
		return fail(-errno, NULL, "serve: cannot wait for connections (epoll)");
	return 0;
}

/* -- refusals ----------------------------------------------------------------- */

/* Count a refusal and log it. */
static void note_refusal(struct conns_of *s, struct conn *c, enum fpisa_manager_reason reason, const char *text)
{
	const struct manager_caller *caller = &c->first.caller;
	const char *name = caller->place >= 0 ? s->manager->group[caller->place].record.name : NULL;

	s->manager->count.refused[reason]++;
	refusals_say(&s->refusals, s->manager->now_ms,
		     &(struct refusal){.address = caller->address,
				       .key = *caller->owner ? caller->owner : fpisa_channel_identity(c->channel),
				       .group = name,
				       .reason = reason,
				       .text = text});
}

/* Log a refusal that manager/group.c has counted, with the text of manager/group.c. */
void conn_refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text)
{
	struct conns_of *s = arg;

	refusals_say(&s->refusals, s->manager->now_ms,
		     &(struct refusal){.address = who->address, .key = who->owner, .reason = reason, .text = text});
}

/* -- connections outside groups -------------------------------------------------- */

static struct fpisa_address host_of(const struct fpisa_address *a)
{
	return fpisa_is_ipv6(a) ? fpisa_network_of(a, 64) : *a;
}

static void start_waiting(struct conns_of *s, struct conn *c)
{
	const struct fpisa_address host = host_of(&c->first.caller.address);
	struct conn_host *free = NULL, *own = NULL;

	for (int i = 0; i <= MANAGER_WAITING; i++) {
		struct conn_host *h = &s->host[i];

		if (h->n && fpisa_same_address(&h->address, &host))
			own = h;
		else if (!h->n)
			free = h;
	}
	c->host = own ?: free; /* an entry is free, because conns_accept() has made room */
	c->host->address = host;
	c->host->n++;
	s->waiting++;
	TAILQ_INSERT_TAIL(&s->wait, c, stranger_link);
}

/* End a connection's wait, because its rank has joined or left a group, or the connection was refused. */
static void stop_waiting(struct conns_of *s, struct conn *c)
{
	if (!c->host)
		return;
	c->host->n--;
	c->host = NULL;
	s->waiting--;
	TAILQ_REMOVE(&s->wait, c, stranger_link);
}

/* -- the members of a connection -------------------------------------------------- */

struct conn *conn_of(const struct manager_caller *c)
{
	return ((const struct conn_member *)c)->conn;
}

static bool is_member(const struct conn_member *m)
{
	return m->caller.place >= 0 || m->caller.aggregator;
}

/* Return whether the connection belongs to a rank in a group, or to an aggregator. */
static bool is_known(const struct conn *c)
{
	const struct conn_member *m;

	TAILQ_FOREACH(m, &c->others, link)
		if (is_member(m))
			return true;
	return is_member(&c->first);
}

static void remove_member(struct conn_member *m)
{
	TAILQ_REMOVE(&m->conn->others, m, link);
	m->conn->n_others--;
	free(m);
}

static void remove_ended(struct conn *c)
{
	struct conn_member *m, *next;

	for (m = TAILQ_FIRST(&c->others); m; m = next) {
		next = TAILQ_NEXT(m, link);
		if (m->over)
			remove_member(m);
	}
}

static struct conn_member *add_member(struct conn *c, __u64 number)
{
	struct conn_member *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->caller = c->first.caller;
	m->caller.place = -1;
	m->caller.aggregator = 0;
	m->conn = c;
	m->number = c->highest = number;
	TAILQ_INSERT_TAIL(&c->others, m, link);
	c->n_others++;
	return m;
}

/* Find the member of a number. Return NULL if its group has ended, or if the number is new. */
static struct conn_member *find_member(struct conn *c, __u64 number)
{
	struct conn_member *m = TAILQ_FIRST(&c->others);

	if (!number)
		return c->first.over ? NULL : &c->first;
	while (m && (m->over || m->number != number))
		m = TAILQ_NEXT(m, link);
	return m;
}

/* End the rank of each member, because the connection has ended. */
static void lose_members(struct conns_of *s, struct conn *c, enum fpisa_manager_cause cause)
{
	struct conn_member *m;

	TAILQ_FOREACH(m, &c->others, link)
		manager_lost(s->manager, &m->caller, cause);
	manager_lost(s->manager, &c->first.caller, cause);
}

/* -- the end of a connection ----------------------------------------------------- */

static void end(struct conns_of *s, struct conn *c, enum fpisa_manager_cause cause)
{
	stop_waiting(s, c);
	lose_members(s, c, cause);
	if (c->closing) {
		TAILQ_REMOVE(&s->closing, c, stranger_link);
		s->n_closing--;
	}
	if (c->dirty)
		TAILQ_REMOVE(&s->dirty, c, dirty_link);
	TAILQ_REMOVE(&s->all, c, link);
	s->n--;
	fpisa_channel_close(c->channel);
	while (!TAILQ_EMPTY(&c->others))
		remove_member(TAILQ_FIRST(&c->others));
	free(c);
}

/* End a connection whose time for reading its last message has passed. */
static void end_closing(struct conns_of *s, struct conn *c)
{
	fpisa_channel_flush(c->channel);
	end(s, c, FPISA_MANAGER_BROKE);
}

/* Give the peer time to read its last message. If too many connections are in this state, end the oldest one. */
static void start_closing(struct conns_of *s, struct conn *c)
{
	stop_waiting(s, c);
	c->closing = true;
	c->until_ms = s->manager->now_ms + LAST_WORD_MS;
	TAILQ_INSERT_TAIL(&s->closing, c, stranger_link);
	if (s->n_closing++ >= MANAGER_CLOSING)
		end_closing(s, TAILQ_FIRST(&s->closing));
}

/*
 * Refuse bytes that are not a message, and send no further messages over this connection. Read and discard more bytes
 * for a short time, because closing a socket with unread bytes would discard the refusal.
 */
static void refuse_bad(struct conns_of *s, struct conn *c, enum fpisa_manager_reason reason, const char *text)
{
	note_refusal(s, c, reason, text);
	fpisa_channel_refuse(c->channel, reason, text);
	lose_members(s, c, FPISA_MANAGER_BROKE);
	c->broken = true;
	shutdown(fpisa_channel_fd(c->channel), SHUT_WR);
	start_closing(s, c);
}

static void refuse_silent(struct conns_of *s, struct conn *c)
{
	char text[FPISA_MANAGER_TEXT];

	snprintf(text, sizeof(text), "%s within %d s; a rank must send JOIN or RETURN first",
		 fpisa_channel_half(c->channel) ? "only half a message arrived" : "no request for a group arrived",
		 FPISA_MANAGER_GREETING_MS / 1000);
	refuse_bad(s, c, FPISA_MANAGER_R_order, text);
}

/* Discard input. Return false if the peer has closed the connection. */
static bool throw_away(const struct conn *c)
{
	char bytes[4096];
	ssize_t n = 1;

	for (int i = 0; n > 0 && i < TURN; i++)
		n = recv(fpisa_channel_fd(c->channel), bytes, sizeof(bytes), MSG_DONTWAIT);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* -- messages --------------------------------------------------------------- */

static void mark(struct conns_of *s, struct conn *c)
{
	if (!c->dirty)
		TAILQ_INSERT_TAIL(&s->dirty, c, dirty_link);
	c->dirty = true;
}

void conn_send(void *arg, struct manager_caller *to, const struct fpisa_manager_message *m)
{
	const struct conn_member *member = (const struct conn_member *)to;
	struct fpisa_manager_message own = *m;
	struct conns_of *s = arg;
	struct conn *c = member->conn;

	if (m->type != FPISA_MANAGER_PONG)
		own.number = member->number;
	/*
	 * An event can produce more messages than a channel holds. For example, a rank that reconnects gets a message
	 * for each rank that has left.
	 */
	if (!c->closing && fpisa_channel_send(c->channel, &own) &&
	    (fpisa_channel_flush(c->channel) || fpisa_channel_send(c->channel, &own)))
		c->deaf = true;
	mark(s, c);
}

void conn_hang_up(void *arg, struct manager_caller *who)
{
	struct conn_member *member = (struct conn_member *)who;
	struct conns_of *s = arg;
	struct conn *c = member->conn;

	member->over = true;
	if (!is_known(c))
		start_closing(s, c);
	mark(s, c);
}

static void want(struct conns_of *s, struct conn *c)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

	if (fpisa_channel_events(c->channel) & POLLOUT)
		e.events |= EPOLLOUT;
	epoll_ctl(c->known ? s->epoll : s->strangers, EPOLL_CTL_MOD, fpisa_channel_fd(c->channel), &e);
}

/* Register a connection whose rank is in a group for its own events. */
static void become_known(struct conns_of *s, struct conn *c)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

	epoll_ctl(s->strangers, EPOLL_CTL_DEL, fpisa_channel_fd(c->channel), NULL);
	c->known = true;
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fpisa_channel_fd(c->channel), &e))
		c->deaf = true; /* conns_tick() ends the connection */
}

/* Refuse one group of a connection. The other groups of the connection continue. */
static void refuse_member(struct conns_of *s, struct conn_member *member, enum fpisa_manager_reason reason,
			  const char *text)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_REFUSED);

	m.refusal.reason = (__u16)reason;
	m.refusal.index = FPISA_MANAGER_NO_JOB;
	snprintf(m.refusal.text, sizeof(m.refusal.text), "%s", text);
	s->manager->count.refused[reason]++;
	conn_refused(s, &member->conn->first.caller, reason, text);
	conn_send(s, &member->caller, &m);
}

/* Refuse a group that is one too many for its connection. */
static void refuse_one_more(struct conns_of *s, struct conn *c, __u64 number)
{
	struct conn_member member = {.conn = c, .number = number};

	c->highest = number;
	refuse_member(s, &member, FPISA_MANAGER_R_busy,
		      "the connection has too many groups; join with another connection");
}

static void outside_text(struct fpisa_address address, char text[FPISA_MANAGER_TEXT])
{
	char a[ADDRESS_LEN];

	snprintf(text, FPISA_MANAGER_TEXT,
		 "%s is not in a network that may ask for groups; add the network to networks in [manager]",
		 address_text(address, a));
}

/*
 * Refuse a message that lets a rank take part in a group, if the configuration has changed since the rank connected and no
 * longer allows its key or its host. Return whether it was refused.
 */
static bool refuse_now(struct conns_of *s, struct conn_member *member, const struct fpisa_manager_message *m)
{
	char text[FPISA_MANAGER_TEXT];
	bool key;

	if ((m->type != FPISA_MANAGER_JOIN && m->type != FPISA_MANAGER_RETURN) || is_member(member))
		return false;
	key = fpisa_channel_key_removed(member->conn->channel);
	if (!key && manager_network_allowed(s->manager->policy, &member->caller.address))
		return false;
	if (key)
		snprintf(text, sizeof(text),
			 "the manager does not accept key %s; add its line to the manager's key file",
			 fpisa_channel_identity(member->conn->channel));
	else
		outside_text(member->caller.address, text);
	refuse_member(s, member, key ? FPISA_MANAGER_R_key : FPISA_MANAGER_R_network, text);
	conn_hang_up(s, &member->caller);
	return true;
}

/*
 * Find the member that a message is for. A message with a new number begins a member. Return NULL if the message is for
 * a group that has ended, which the rank did not know yet, or if the message has been refused.
 */
static struct conn_member *member_of(struct conns_of *s, struct conn *c, const struct fpisa_manager_message *m)
{
	const __u64 number = m->type == FPISA_MANAGER_PING ? 0 : m->number;
	struct conn_member *member = m->type == FPISA_MANAGER_PING ? &c->first : find_member(c, number);

	if (member || number <= c->highest)
		return member;
	if (c->n_others == FPISA_MANAGER_SHARED) {
		refuse_one_more(s, c, number);
		return NULL;
	}
	member = add_member(c, number);
	if (!member)
		c->deaf = true; /* conns_tick() ends the connection */
	return member;
}

static void take(struct conns_of *s, struct conn *c, const struct fpisa_manager_message *m)
{
	struct conn_member *member;

	if (!*c->first.caller.owner)
		snprintf(c->first.caller.owner, sizeof(c->first.caller.owner), "%s", fpisa_channel_name(c->channel));
	member = member_of(s, c, m);
	if (!member)
		return;
	if (m->type == FPISA_MANAGER_JOIN)
		member->caller.here = fpisa_address_is_here(&member->caller.address);
	if (!refuse_now(s, member, m))
		manager_message(s->manager, &member->caller, m);
	remove_ended(c);
	if (!is_known(c))
		return;
	if (!c->known)
		become_known(s, c);
	stop_waiting(s, c);
}

void conn_work(struct conns_of *s, struct conn *c)
{
	struct fpisa_manager_message m;
	int rc = 1;

	if (c->broken) {
		if (!throw_away(c))
			end(s, c, FPISA_MANAGER_BROKE);
		return;
	}
	remove_ended(c);
	for (int i = 0; rc > 0 && i < TURN; i++) {
		rc = fpisa_channel_work(c->channel, &m);
		if (rc > 0 && !c->closing)
			take(s, c, &m);
	}
	/* Continue, because no event reports data that TLS has already decrypted. */
	if (rc > 0)
		mark(s, c);
	if ((rc == -EPROTO || rc == -EACCES) && !c->closing) {
		refuse_bad(s, c,
			   rc == -EACCES			   ? FPISA_MANAGER_R_key :
			   fpisa_channel_other_version(c->channel) ? FPISA_MANAGER_R_version :
								     FPISA_MANAGER_R_malformed,
			   fpisa_error());
		return;
	}
	if (rc == -ECONNRESET && c->host && fpisa_channel_half(c->channel)) {
		refuse_bad(s, c, FPISA_MANAGER_R_malformed, "only half a message arrived");
		return;
	}
	if (rc < 0) {
		end(s, c, rc == -ETIMEDOUT ? FPISA_MANAGER_SILENT : FPISA_MANAGER_CLOSED);
		return;
	}
	if (c->closing && fpisa_channel_flushed(c->channel))
		shutdown(fpisa_channel_fd(c->channel), SHUT_WR);
	want(s, c);
}

void conns_flush(struct conns_of *s)
{
	struct conn *c;
	int n = 0;

	TAILQ_FOREACH(c, &s->dirty, dirty_link)
		n++;
	while (n-- && (c = TAILQ_FIRST(&s->dirty))) {
		TAILQ_REMOVE(&s->dirty, c, dirty_link);
		c->dirty = false;
		conn_work(s, c);
	}
}

void conns_tick(struct conns_of *s)
{
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&s->all); c; c = next) {
		if (!c->deaf && c->host && s->manager->now_ms >= c->until_ms)
			refuse_silent(s, c); /* this may end another connection */
		next = TAILQ_NEXT(c, link);
		if (c->deaf || (c->closing && s->manager->now_ms >= c->until_ms))
			end(s, c, FPISA_MANAGER_SILENT);
	}
}

/* -- new connections -------------------------------------------------------------- */

/*
 * Find the host with the most connections that have not asked for a group, and end its oldest connection. So a host
 * that opens many silent connections only loses its own connections.
 */
static void make_room(struct conns_of *s)
{
	static const char text[] = "too many connections that have not asked for a group; try again";
	const struct conn_host *most = s->host;
	struct conn *victim;

	for (const struct conn_host *h = s->host; h <= s->host + MANAGER_WAITING; h++)
		if (h->n > most->n)
			most = h;
	TAILQ_FOREACH(victim, &s->wait, stranger_link)
		if (victim->host == most)
			break;
	if (!victim)
		return;
	note_refusal(s, victim, FPISA_MANAGER_R_busy, text);
	fpisa_channel_refuse(victim->channel, FPISA_MANAGER_R_busy, text);
	end(s, victim, FPISA_MANAGER_SILENT);
}

/*
 * Free a descriptor, so that connections without a group do not exclude others if the limit of descriptors is low.
 * First end connections that have received their answer.
 */
static void make_descriptor(struct conns_of *s)
{
	if (!TAILQ_EMPTY(&s->closing))
		end_closing(s, TAILQ_FIRST(&s->closing));
	else
		make_room(s);
}

static void add(struct conns_of *s, int fd, struct fpisa_address address, struct fpisa_address local)
{
	struct epoll_event e = {.events = EPOLLIN};
	struct conn *c = calloc(1, sizeof(*c));

	if (!c || fpisa_channel_serve(&c->channel, fd, s->keys, s->manager->policy->without_key)) {
		if (!c)
			close(fd);
		free(c);
		return;
	}
	c->first.caller = (struct manager_caller){.address = address, .local = local, .place = -1};
	c->first.conn = c;
	TAILQ_INIT(&c->others);
	c->until_ms = s->manager->now_ms + FPISA_MANAGER_GREETING_MS;
	e.data.ptr = c;
	TAILQ_INSERT_TAIL(&s->all, c, link);
	s->n++;
	start_waiting(s, c);
	if (epoll_ctl(s->strangers, EPOLL_CTL_ADD, fd, &e))
		end(s, c, FPISA_MANAGER_CLOSED);
}

/* Refuse a peer that may not connect. Send only one message, read no bytes, and keep no state. */
static void turn_away(struct conns_of *s, int fd, struct fpisa_address address)
{
	char text[FPISA_MANAGER_TEXT];

	s->manager->count.refused[FPISA_MANAGER_R_network]++;
	outside_text(address, text);
	conn_refused(s, &(struct manager_caller){.address = address}, FPISA_MANAGER_R_network, text);
	fpisa_channel_turn_away(fd, FPISA_MANAGER_R_network, text);
}

static void conns_accept(struct conns_of *s)
{
	for (int i = 0; i < ACCEPTS; i++) {
		static const int bytes = SEND_BYTES;
		union fpisa_sockaddr from, to;
		socklen_t n = sizeof(from), m = sizeof(to);
		struct fpisa_address address;
		int fd = accept4(s->listener, &from.any, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
				make_descriptor(s);
			return;
		}
		address = fpisa_address_from(&from);
		if (!manager_network_allowed(s->manager->policy, &address)) {
			turn_away(s, fd, address);
			continue;
		}
		if (getsockname(fd, &to.any, &m)) {
			close(fd);
			continue;
		}
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
		fpisa_watch(fd);
		if (s->waiting >= MANAGER_WAITING || s->n >= MANAGER_CONNECTIONS)
			make_room(s);
		add(s, fd, address, fpisa_address_from(&to));
	}
}

void conns_strangers(struct conns_of *s)
{
	struct epoll_event e;

	/* Take one event at a time, because an event may end other connections with pending events. */
	for (int i = 0; i < STRANGERS && epoll_wait(s->strangers, &e, 1, 0) > 0; i++) {
		if (e.data.ptr)
			conn_work(s, e.data.ptr);
		else
			conns_accept(s);
	}
}
