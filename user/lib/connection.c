/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The thread for a connection to the manager; connection.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "connection.h"
#include "fpisa.h"
#include "link.h"
#include "manager/interface.h"
#include "manager/watch.h"

#define MS 1000000ull
#define TURN_MS 200	  /* time between two checks of the clock */
#define CONNECT_MS 500	  /* time limit of one attempt */
#define LAST_WORD_MS 1000 /* time limit for sending LEAVE */
#define GIVEN_UP_MS 50	  /* time limit for sending LEAVE if the group is not joined */
/* a longer time between two turns means that this process was stopped, so the manager's silence proves nothing */
#define STOPPED_MS 2000

/* -- links ------------------------------------------------------------------------ */

/* Return the link after `l`, or the first link for NULL. Other threads may add links in the meantime. */
static struct fpisa_link *next_link(struct fpisa_connection *c, const struct fpisa_link *l)
{
	struct fpisa_link *next;

	pthread_mutex_lock(&c->lock);
	next = l ? TAILQ_NEXT(l, listed) : TAILQ_FIRST(&c->links);
	pthread_mutex_unlock(&c->lock);
	return next;
}

#define EACH_LINK(l, c) for (struct fpisa_link * (l) = next_link(c, NULL); l; (l) = next_link(c, l))

static int any(struct fpisa_connection *c, int (*is)(struct fpisa_link *l))
{
	EACH_LINK(l, c)
		if (is(l))
			return 1;
	return 0;
}

static int awaits_greeting(struct fpisa_link *l)
{
	return !l->greeted && fpisa_link_wants(l);
}

/* Send the first messages of links that are new, or whose connection is new, in the order of the links' numbers. */
static int greet(struct fpisa_connection *c)
{
	int rc = 0;

	EACH_LINK(l, c) {
		if (!awaits_greeting(l))
			continue;
		if (rc || fpisa_channel_room(c->channel) < FPISA_LINK_GREETING)
			break;
		rc = fpisa_link_greet(l);
		l->greeted = 1;
	}
	return rc;
}

/* -- connecting ----------------------------------------------------------------- */

/*
 * Open the socket. A child must not keep the socket open, because the connection is a lease. So store the descriptor in
 * c->fd, where a child finds it.
 */
static int open_socket(struct fpisa_connection *c)
{
	const union fpisa_sockaddr *to = &c->to[c->at];
	int rc = 0;

	fpisa_fork_hold();
	c->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd >= 0)
		fpisa_watch(c->fd);
	if (c->fd < 0 || (connect(c->fd, &to->any, fpisa_sockaddr_len(to)) && errno != EINPROGRESS))
		rc = -errno;
	fpisa_fork_release();
	return rc;
}

static void drop(struct fpisa_connection *c)
{
	fpisa_fork_hold();
	if (c->channel)
		fpisa_channel_close(c->channel);
	else if (c->fd >= 0)
		close(c->fd);
	c->channel = NULL;
	c->fd = -1;
	fpisa_fork_release();
	EACH_LINK(l, c)
		l->greeted = l->leave_sent = 0;
}

static uint32_t rate_of(int fd)
{
	union fpisa_sockaddr at = {.any = {.sa_family = AF_UNSPEC}};
	struct fpisa_address local;
	socklen_t n = sizeof(at);

	if (getsockname(fd, &at.any, &n))
		return 0;
	local = fpisa_address_from(&at);
	return fpisa_interface_rate(&local);
}

/* Wait for the connection, or until the first link stops joining, which wakes this thread. */
static int await_connection(struct fpisa_connection *c)
{
	const int wake = any(c, fpisa_link_is_joined) ? -1 : c->wake;
	struct pollfd p[2] = {{.fd = c->fd, .events = POLLOUT}, {.fd = wake, .events = POLLIN}};

	poll(p, 2, CONNECT_MS);
	return p[0].revents ? 0 : -ETIMEDOUT;
}

/* Note for which links this attempt to connect is the last. */
static void note_last_calls(struct fpisa_connection *c)
{
	EACH_LINK(l, c)
		l->last_call = fpisa_link_is_stopping(l);
}

/* Connect to the manager. Return 0 with a channel, or -errno with the message set. */
static int call_manager(struct fpisa_connection *c)
{
	const struct fpisa_address to = fpisa_address_from(&c->to[c->at]);
	char address[FPISA_ADDRESS_LEN];
	int rc, error = 0;
	socklen_t n = sizeof(error);

	c->parted = 0;
	c->heard &= any(c, fpisa_link_is_joined); /* without such a link, connect as the first time */
	note_last_calls(c);
	rc = open_socket(c);
	if (!rc)
		rc = await_connection(c);
	if (!rc && (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n) || error))
		rc = -(error ? error : errno);
	if (rc == -ECONNREFUSED)
		c->there_ns = fpisa_now();
	c->unreachable = rc && (c->unreachable || rc == -EHOSTUNREACH);
	if (rc)
		return fpisa_fail(rc, "cannot connect%s%s: %s; %s", c->addresses > 1 ? " to " : "",
				  c->addresses > 1 ? fpisa_address_text(&to, address) : "", strerror(-rc),
				  fpisa_hint(rc, "is fpisa serve running there?"));
	c->rate = rate_of(c->fd);
	/* From now on the channel owns the socket, even after an error. */
	rc = fpisa_channel_call(&c->channel, c->fd, c->has_psk ? &c->psk : NULL);
	if (rc)
		c->fd = -1;
	return rc ? rc : greet(c);
}

static void key_refused(const struct fpisa_connection *c)
{
	char identity[FPISA_PSK_IDENTITY];

	fpisa_psk_identity(&c->psk, identity);
	fpisa_fail(-EACCES, "the manager does not accept key %s of %s; add this line to the manager's key file",
		   identity, c->key_file);
}

/*
 * Select the host's next address to try, as long as no manager has answered. Return whether there is an address to try.
 * Addresses that did not answer are tried again, because packets may be lost; fpisa_link_check() has the deadline.
 * EHOSTUNREACH means that a neighbour did not answer, such as a host whose link has just come up.
 */
static int try_next(struct fpisa_connection *c, int rc)
{
	int again;

	if (c->heard)
		return 0;
	c->silent |= rc == -ETIMEDOUT || rc == -EHOSTUNREACH;
	c->at = (c->at + 1) % c->addresses;
	again = c->at || c->silent;
	if (!c->at)
		c->silent = 0;
	return again;
}

/*
 * Return whether the link's JOIN may have crossed the end of the connection's last other group, for which the manager
 * closes the connection. The link then sends JOIN over another connection.
 */
static int was_crossed(const struct fpisa_connection *c, struct fpisa_link *l, int rc)
{
	return rc == -ECONNRESET && c->parted && fpisa_link_is_unanswered(l);
}

/* Handle the end of the connection. */
static void connection_ended(struct fpisa_connection *c, int rc)
{
	char why[FPISA_MESSAGE_SIZE];

	if (rc == -EACCES && c->has_psk)
		key_refused(c);
	if (rc == -ECONNRESET && !c->heard)
		fpisa_fail(rc, "the connection ended before any answer; is fpisa serve running there?");
	snprintf(why, sizeof(why), "%s", fpisa_error());
	if (!try_next(c, rc))
		EACH_LINK(l, c)
			if (!was_crossed(c, l, rc))
				fpisa_link_lost(l, rc, why);
}

/* -- the thread ------------------------------------------------------------------ */

/* Send PING, unless the manager has not read what was sent before: the queue is for the groups' messages. */
static void ping(struct fpisa_connection *c)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_PING);
	uint64_t now = fpisa_now();

	if (now < c->ping_ns || !fpisa_channel_open(c->channel) || !fpisa_channel_flushed(c->channel) ||
	    fpisa_channel_send(c->channel, &m))
		return;
	c->ping_ns = now + FPISA_MANAGER_PING_MS * MS;
}

/* Let the links look for silent hosts. */
static void check_silence(struct fpisa_connection *c)
{
	const uint64_t now = fpisa_now();

	if (now > c->looked_ns + STOPPED_MS * MS)
		c->heard_ns = now;
	c->looked_ns = now;
	EACH_LINK(l, c)
		fpisa_link_check(l, now);
}

static void hear(struct fpisa_connection *c, const struct fpisa_manager_message *m)
{
	c->heard = 1;
	c->heard_ns = fpisa_now();
	if (m->type == FPISA_MANAGER_PONG)
		return;
	EACH_LINK(l, c)
		if (m->number == l->number || m->number == FPISA_MANAGER_EVERY) {
			fpisa_link_hear(l, m);
			c->parted |= !fpisa_link_wants(l);
		}
}

/* Wait until another thread wakes this thread, the connection has news, or `ms` have passed. */
static void rest(struct fpisa_connection *c, int ms)
{
	struct pollfd p[2] = {{.fd = c->wake, .events = POLLIN}, {.fd = -1}};
	eventfd_t n;

	if (c->channel)
		p[1] = (struct pollfd){.fd = c->fd, .events = fpisa_channel_events(c->channel)};
	poll(p, 2, ms);
	if (p[0].revents)
		eventfd_read(c->wake, &n);
}

/* Run one turn of a connection. Return 0, or -errno with the message set if the connection has ended. */
static int turn(struct fpisa_connection *c)
{
	struct fpisa_manager_message m;
	int rc, soon;

	ping(c);
	rc = greet(c);
	EACH_LINK(l, c)
		if (!rc && l->greeted)
			rc = fpisa_link_tell(l);
	while (!rc && (rc = fpisa_channel_work(c->channel, &m)) > 0) {
		hear(c, &m);
		rc = 0;
	}
	if (rc)
		return rc;
	soon = fpisa_channel_flushed(c->channel) && any(c, awaits_greeting);
	rest(c, soon ? 0 : TURN_MS);
	check_silence(c);
	return 0;
}

/* Wait until the manager closes the connection, because it has received the last LEAVE. */
static void hear_out(struct fpisa_connection *c, uint64_t until)
{
	struct fpisa_manager_message m;
	struct pollfd p = {.fd = c->fd};
	uint64_t now;
	int rc;

	while ((now = fpisa_now()) < until && (rc = fpisa_channel_work(c->channel, &m)) >= 0) {
		c->heard_ns = rc ? now : c->heard_ns;
		p.events = fpisa_channel_events(c->channel);
		poll(&p, 1, (int)((until - now) / MS) + 1);
	}
}

/* Return whether no other link uses the present connection. Links that have not been greeted can use the next one. */
static int is_alone(struct fpisa_connection *c, const struct fpisa_link *l)
{
	EACH_LINK(other, c)
		if (other != l && other->greeted)
			return 0;
	return 1;
}

/*
 * Send the last messages of a link that is being stopped. A rank whose join has failed has used up its time, so wait only
 * briefly, and do not wait for a manager that has never answered. A rank that leaves between two connections opens a new
 * connection to send LEAVE, because the manager would otherwise report the rank as dead. `failed` says that an attempt to
 * connect has failed. Return whether the link can be removed.
 */
static int let_go(struct fpisa_connection *c, struct fpisa_link *l, int failed)
{
	const uint64_t now = fpisa_now();
	int rc;

	if (!c->channel)
		return (failed && l->last_call) || !fpisa_link_wants(l);
	if (!l->leave_ns)
		l->leave_ns = now + (fpisa_link_is_joined(l) ? LAST_WORD_MS : GIVEN_UP_MS) * MS;
	if (now >= l->leave_ns || (l->greeted ? !c->heard : !fpisa_link_wants(l)))
		return 1;
	if (!l->greeted)
		return 0;
	rc = l->leave_sent ? 0 : fpisa_link_leave(l);
	if (rc)
		return rc != -ENOBUFS;
	l->leave_sent = c->parted = 1;
	if (is_alone(c, l)) {
		hear_out(c, l->leave_ns);
		drop(c);
		return 1;
	}
	return fpisa_channel_open(c->channel) && !fpisa_channel_flush(c->channel) && fpisa_channel_flushed(c->channel);
}

static void remove_stopping(struct fpisa_connection *c, int failed)
{
	struct fpisa_link *next;

	for (struct fpisa_link *l = next_link(c, NULL); l; l = next) {
		next = next_link(c, l);
		if (!fpisa_link_is_stopping(l) || !let_go(c, l, failed))
			continue;
		pthread_mutex_lock(&c->lock);
		TAILQ_REMOVE(&c->links, l, listed);
		l->is_listed = 0;
		pthread_cond_broadcast(&c->changed);
		pthread_mutex_unlock(&c->lock);
	}
}

/* Return whether the thread has links to serve. If it has none, the next link gets another thread. */
static int goes_on(struct fpisa_connection *c)
{
	int runs;

	if (!next_link(c, NULL))
		drop(c);
	pthread_mutex_lock(&c->lock);
	runs = c->runs = !TAILQ_EMPTY(&c->links);
	pthread_mutex_unlock(&c->lock);
	return runs;
}

static void *run(void *arg)
{
	struct fpisa_connection *c = arg;

	while (goes_on(c)) {
		const int calls = !c->channel && any(c, fpisa_link_wants);
		int rc = 0;

		if (c->channel)
			rc = turn(c);
		else if (calls)
			rc = call_manager(c);
		else
			rest(c, any(c, fpisa_link_is_stopping) ? 0 : -1);
		if (rc) {
			drop(c);
			connection_ended(c, rc);
			check_silence(c);
		}
		remove_stopping(c, rc && calls);
		if (rc && next_link(c, NULL) && !any(c, fpisa_link_is_stopping))
			rest(c, TURN_MS);
	}
	return NULL;
}

/* -- the groups' threads ----------------------------------------------------------- */

static TAILQ_HEAD(connections, fpisa_connection) shared = TAILQ_HEAD_INITIALIZER(shared); /* under fpisa_fork_hold() */

static void in_child(struct fpisa_fork_hook *h)
{
	struct fpisa_connection *c = (struct fpisa_connection *)h;

	c->inherited = 1;
	if (c->fd >= 0)
		close(c->fd);
	if (c->wake >= 0)
		close(c->wake);
	c->fd = c->wake = -1;
}

/* Find a connection under the key with room for another group. */
static struct fpisa_connection *find_shared(const char *host, const char *key_file, const struct fpisa_psk *psk)
{
	struct fpisa_connection *c;

	fpisa_fork_hold();
	TAILQ_FOREACH(c, &shared, listed)
		if (!c->inherited && c->users < FPISA_MANAGER_SHARED && !strcmp(c->host, host) &&
		    !strcmp(c->key_file, key_file) && fpisa_psk_same(&c->psk, psk))
			break;
	if (c)
		c->users++;
	fpisa_fork_release();
	return c;
}

static int open_wake(struct fpisa_connection *c)
{
	fpisa_fork_hold();
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fpisa_fork_release();
	return c->wake < 0 ? fpisa_fail(-errno, "%s: cannot create an eventfd: %s", c->host, fpisa_why(-errno)) : 0;
}

/* Let the connection be found, if it is shared, and be told of fork(). */
static int enlist(struct fpisa_connection *c)
{
	int rc;

	c->fork.in_child = in_child;
	rc = fpisa_fork_add(&c->fork);
	if (rc) {
		c->fork.in_child = NULL;
		return rc;
	}
	if (!c->shared)
		return 0;
	fpisa_fork_hold();
	TAILQ_INSERT_TAIL(&shared, c, listed);
	fpisa_fork_release();
	return 0;
}

/* Prepare a connection. Return 0, or -errno with the message set. */
static int new_connection(struct fpisa_connection **out, const char *host, const char *key_file,
			  const struct fpisa_psk *psk, int shares, uint64_t limit_ns)
{
	struct fpisa_connection *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fpisa_fail(-ENOMEM, "not enough memory for a connection; " FPISA_MORE_MEMORY);
	c->fd = c->wake = -1;
	c->users = 1;
	TAILQ_INIT(&c->links);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	snprintf(c->host, sizeof(c->host), "%s", host);
	snprintf(c->key_file, sizeof(c->key_file), "%s", key_file);
	c->psk = *psk;
	c->has_psk = *key_file != 0;
	/* A text that does not fit is not shared, because another text might begin with the same characters. */
	shares &= strlen(host) < sizeof(c->host) && strlen(key_file) < sizeof(c->key_file);
	c->addresses = fpisa_find_host(host, limit_ns, c->to);
	rc = c->addresses < 0 ? c->addresses : open_wake(c);
	if (!rc) {
		c->shared = shares;
		rc = enlist(c);
		c->shared &= !rc;
	}
	if (rc)
		fpisa_connection_put(c);
	else
		*out = c;
	return rc;
}

int fpisa_connection_get(struct fpisa_connection **out, const char *host, const char *key_file, int shares,
			 uint64_t limit_ns)
{
	struct fpisa_psk psk = {0};
	int rc = *key_file ? fpisa_psk_last(&psk, key_file) : 0;

	*out = NULL;
	if (!rc && shares)
		*out = find_shared(host, key_file, &psk);
	if (!rc && !*out)
		rc = new_connection(out, host, key_file, &psk, shares, limit_ns);
	explicit_bzero(&psk, sizeof(psk));
	return rc;
}

static int start(struct fpisa_connection *c)
{
	sigset_t all, before;
	int rc;

	if (c->started)
		pthread_join(c->thread, NULL);
	c->heard_ns = c->looked_ns = fpisa_now();
	/* Block signals, because they are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&c->thread, NULL, run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	c->started = !rc;
	return rc ? fpisa_fail(-rc, "%s: cannot start a thread: %s; end other threads, or raise ulimit -u", c->host,
			       strerror(rc)) :
		    0;
}

int fpisa_connection_add(struct fpisa_connection *c, struct fpisa_link *l)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	l->number = c->numbers++;
	l->since_ns = fpisa_now();
	TAILQ_INSERT_TAIL(&c->links, l, listed);
	l->is_listed = 1;
	if (c->runs)
		fpisa_connection_wake(c);
	else
		rc = start(c);
	c->runs = !rc;
	if (rc)
		TAILQ_REMOVE(&c->links, l, listed);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void fpisa_connection_remove(struct fpisa_connection *c, struct fpisa_link *l)
{
	if (c->inherited)
		return;
	pthread_mutex_lock(&c->lock);
	fpisa_connection_wake(c);
	while (l->is_listed)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

void fpisa_connection_put(struct fpisa_connection *c)
{
	int last;

	fpisa_fork_hold();
	last = !--c->users;
	if (last && c->shared)
		TAILQ_REMOVE(&shared, c, listed);
	fpisa_fork_release();
	if (!last)
		return;
	if (c->started && !c->inherited)
		pthread_join(c->thread, NULL);
	fpisa_fork_hold();
	if (c->fork.in_child)
		fpisa_fork_remove(&c->fork);
	if (c->wake >= 0)
		close(c->wake);
	fpisa_fork_release();
	explicit_bzero(&c->psk, sizeof(c->psk));
	free(c);
}
