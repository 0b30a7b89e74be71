/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: a rank's connection to the manager with several groups (user/lib/connection.c, link.c, messages.c),
 * over stand-ins for sockets, TLS and time. The input is a list of steps: the manager sends a message or any bytes,
 * accepts or refuses connections, or closes one; time passes; or a program joins, leaves and uses a group. Steps of
 * programs also happen where the connection's thread takes a lock, which is where other threads can run.
 *
 * For any input, a message changes only its group. A complete group fails only for a message to it, its own failure,
 * the manager's silence, or a connection that is refused. A group that is not complete fails also if the connection
 * ends, unless the end of another group caused it. Over each connection, a group's first message is JOIN or RETURN, in
 * the order of the groups' numbers, and a group that leaves in time says so. If the manager stays silent, all groups
 * that wait for it fail. In the end no group, thread or socket is left.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include "check.h"
#include "handles.h"
#include "lib/link.h"
#include "lib/manager/interface.h"
#include "message.h"
#include "sockets.h"
#include "tls_fake.h"

#define GROUPS (HANDLES / FPISA_MANAGER_JOBS)
#define RANKS 4
#define ADDRESSES 3
#define WAKE (SOCKET_EPOLL + 2)
#define MS 1000000ull
#define SPINS 1000	  /* turns of the thread without a step or time */
#define LAST_WORD_MS 1000 /* as in connection.c */
#define GIVEN_UP_MS 50
#define END_MS 4000 /* for each group, longest time from leaving to the end */

enum reach { ACCEPTS, REFUSES, SILENT, REFUSES_LATE, UNREACHABLE, NO_SOCKET, REACH_END };
enum phase { STEPS, QUIET, LEAVING };

static struct group {
	struct fpisa_link *link, before; /* before: as it was before the manager's last message */
	struct fake_handle handle_before[FPISA_MANAGER_JOBS];
	int stopped, removed, failed;
	uint64_t stopped_ns, patience_ms;
	int stopped_socket; /* number of the connection at that time; 0: none, or it has not answered yet */
	int greeted, left;  /* numbers of the connections over which JOIN or RETURN, and LEAVE were sent */
	int asked_socket;   /* number of the connection over which ASK was sent */
	unsigned int asked; /* for these jobs */
	unsigned int told;  /* bits of the types of messages to this group */
	int told_socket;    /* number of the connection over which the last message to the group came */
	int own_failure;    /* a handle has failed */
} group[GROUPS];

static struct {
	struct input in;
	enum phase phase;
	uint64_t now, until, heard_ns;
	int spins;
	struct fpisa_connection *connection;
	size_t users;
	void *(*run)(void *);
	void *arg;
	int runs, stepping, no_thread;
	int awake;			     /* value of the connection's eventfd */
	enum reach reach[ADDRESSES], now_to; /* now_to: of the connection in progress */
	size_t addresses;
	uint8_t hello;			/* what the manager answers to a handshake */
	int socket;			/* number of the present connection, from 1 */
	int answered;			/* the manager has sent a message over it */
	int parted;			/* a group has left over it */
	uint64_t last_number;		/* last number of a group that was greeted over it */
	int ended, broke, broke_socket; /* connections that have ended, the last error of one, and its number */
	int heard;			/* a message is being handled */
	struct fpisa_manager_message message;
	uint8_t what, which, locks; /* a step at this number of locks from now on */
} s;
static __thread int held; /* locks */

static const struct fpisa_psk key = {"a", "00000001", {1, 2, 3, 4, 5}};
static int keyed;
static int quiet; /* before the groups leave, the manager is silent; if above 1, the aggregators answer */

/* -- checks ------------------------------------------------------------------------------------ */

static int is_over(uint64_t since, uint64_t ms)
{
	return s.now > since + ms * MS;
}

/* Return whether the group may have this error. */
static int has_reason(const struct group *g)
{
	const struct fpisa_link *l = g->link;
	const unsigned int ends = 1u << FPISA_MANAGER_GONE | 1u << FPISA_MANAGER_LEFT | 1u << FPISA_MANAGER_REFUSED;

	if (l->error == -ETIMEDOUT && is_over(s.heard_ns, FPISA_MANAGER_SILENCE_MS))
		return 1;
	/* -EMFILE: fake_bind_error */
	if (g->told & ends || g->own_failure || l->error == -EMFILE ||
	    (l->error == s.broke && (s.broke == -EPROTO || s.broke == -EACCES)))
		return 1;
	/* The end of a connection over which another group has left does not end a group that waits for an answer. */
	if (l->error == -ECONNRESET && s.parted && g->told_socket != s.socket && !g->told)
		return 0;
	return !l->joined && s.ended;
}

/* Return whether the message is for the group. */
static int is_for(const struct fpisa_manager_message *m, const struct group *g)
{
	return g->link->is_listed && m->type != FPISA_MANAGER_PONG &&
	       (m->number == g->link->number || m->number == FPISA_MANAGER_EVERY);
}

static void check_groups(void)
{
	for (struct group *g = group; g < group + GROUPS; g++) {
		if (!g->link)
			continue;
		check_line(g->link->sentence, sizeof(g->link->sentence));
		CHECK(g->failed == g->link->error || (!g->failed && has_reason(g)));
		g->failed = g->link->error;
	}
}

/* Remember the groups before the thread handles a message. */
static void note_message(const struct fpisa_manager_message *m)
{
	s.message = *m;
	s.heard = 1;
	s.answered = 1;
	s.heard_ns = s.now;
	for (struct group *g = group; g < group + GROUPS; g++) {
		if (!g->link)
			continue;
		memcpy(&g->before, g->link, sizeof(g->before));
		memcpy(g->handle_before, &fake_handle[(g - group) * FPISA_MANAGER_JOBS], sizeof(g->handle_before));
		if (is_for(m, g)) {
			g->told |= 1u << m->type;
			g->told_socket = s.socket;
		}
	}
}

/* Check that the last message has changed only its group, unless another thread has run since. */
static void check_message(void)
{
	for (struct group *g = group; s.heard && g < group + GROUPS; g++) {
		const struct fpisa_manager_message *m = &s.message;

		if (!g->link)
			continue;
		if (!is_for(m, g)) {
			CHECK(!memcmp(&g->before, g->link, sizeof(g->before)));
			CHECK(!memcmp(g->handle_before, &fake_handle[(g - group) * FPISA_MANAGER_JOBS],
				      sizeof(g->handle_before)));
		} else if (!g->stopped && g->greeted == s.socket) {
			CHECK(m->type != FPISA_MANAGER_JOINED || g->link->joined);
			CHECK(m->type != FPISA_MANAGER_GONE || !m->members.cause || g->link->error);
		}
	}
	s.heard = 0;
}

/*
 * Check that a group which the thread removes has sent LEAVE if the manager believes that the rank is in it, and has had
 * time to read.
 */
static void check_removed(struct group *g)
{
	const unsigned int ends = 1u << FPISA_MANAGER_GONE | 1u << FPISA_MANAGER_REFUSED;
	const int could = g->stopped_socket && g->stopped_socket == s.socket && g->greeted == s.socket;

	if (!g->link || g->link->is_listed || g->removed)
		return;
	g->removed = 1;
	CHECK(g->stopped);
	CHECK(!could || g->left == s.socket || g->told & ends || s.broke_socket == s.socket ||
	      is_over(g->stopped_ns, g->patience_ms - 1));
}

/* -- programs -------------------------------------------------------------------------------------- */

static void free_group(struct group *g)
{
	fpisa_connection_put(g->link->connection);
	fpisa_link_free(g->link);
	free(g->link);
	g->link = NULL;
	if (!--s.users)
		s.connection = NULL;
}

/* Free a group that the thread has removed. The last user of the connection waits for the end of the thread. */
static void free_removed(struct group *g)
{
	if (!g->link || g->link->is_listed)
		return;
	fpisa_connection_remove(g->link->connection, g->link);
	if (s.users > 1 || !s.runs)
		free_group(g);
}

static void join(struct group *g)
{
	struct fpisa_link *l = calloc(1, sizeof(*l));
	int rc;

	CHECK(l && !fpisa_connection_get(&l->connection, "manager", keyed ? "key" : "", 1, 1));
	CHECK(!s.connection || s.connection == l->connection);
	*g = (struct group){.link = l};
	for (size_t k = 0; k < FPISA_MANAGER_JOBS; k++)
		fake_handle_new((size_t)(g - group) * FPISA_MANAGER_JOBS + k);
	s.connection = l->connection;
	s.users++;
	l->join.size = RANKS;
	strcpy(l->join.name, "g");
	strcpy(l->peer, "manager: group g");
	CHECK(!fpisa_link_init(l));
	rc = fpisa_connection_add(l->connection, l);
	l->started = !rc;
	CHECK(!rc == !s.no_thread || s.runs);
	if (rc)
		free_group(g);
}

static void leave(struct group *g)
{
	g->stopped = 1;
	g->stopped_ns = s.now;
	g->patience_ms = g->link->joined ? LAST_WORD_MS : GIVEN_UP_MS;
	g->stopped_socket = s.answered && fake_socket[0].open ? s.socket : 0;
	fpisa_link_stop(g->link);
	fpisa_connection_wake(g->link->connection);
}

static void ask(struct fpisa_link *l, uint32_t index, struct fpisa *f)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_ASK);
	struct fpisa_link_job *j = &l->job[index];

	if (!l->joined || j->state != FPISA_GROUP_JOB_NONE || j->error || l->error)
		return;
	j->handle = f;
	j->state = FPISA_GROUP_JOB_ASKED;
	j->asked_ns = s.now;
	j->asked.format = 1;
	m.ask.index = index;
	m.ask.spec = j->asked;
	fpisa_link_send(l, &m);
}

static void begin_call(struct fpisa_link *l, const struct fpisa_link_job *j, int is_barrier)
{
	struct fake_handle *h = (struct fake_handle *)j->handle;

	if (!h || h->number || j->error || l->error || fpisa_link_call(l))
		return;
	h->number = ++l->calls;
	h->barrier = is_barrier ? h->number : 0;
	h->f.waiting_ns = s.now;
	l->barriers |= is_barrier;
}

static void end_call(struct fake_handle *h)
{
	h->whole = h->number ? h->number : h->whole;
	h->number = h->barrier = h->f.waiting_ns = 0;
	h->f.heard_ns = s.now;
}

static void program_step(uint8_t what, uint8_t which)
{
	struct group *g = &group[which % GROUPS];
	const uint32_t index = which / GROUPS % 3;
	struct fake_handle *h = &fake_handle[(g - group) * FPISA_MANAGER_JOBS + index];
	struct fpisa_link *l = g->link;

	free_removed(g);
	if (!g->link || g->stopped) {
		if (!g->link && !(what & 1))
			join(g);
		return;
	}
	pthread_mutex_lock(&l->lock);
	switch (what % 8) {
	case 1:
	case 2:
		ask(l, index, &h->f);
		break;
	case 3:
	case 4:
		begin_call(l, &l->job[index], which & 0x80);
		break;
	case 5:
		end_call(h);
		break;
	case 6:
		if (l->job[index].handle && !h->error) {
			h->error = which & 0x80 ? -EPROTO : -EIO;
			g->own_failure = 1;
		}
		break;
	case 7:
		fake_bind_error = which & 0x80 ? -EADDRINUSE : which & 0x40 ? -EMFILE : 0;
		break;
	}
	pthread_mutex_unlock(&l->lock);
	if (!(what % 8))
		leave(g);
}

/* -- the manager ------------------------------------------------------------------------------------- */

static void arrive(const void *bytes, size_t n)
{
	const uint8_t head[3] = {0x17, (uint8_t)n, (uint8_t)(n >> 8)};

	if (keyed)
		socket_arrive(0, head, sizeof(head));
	socket_arrive(0, bytes, n);
}

static void arrive_message(uint8_t which)
{
	struct fpisa_manager_message m = message_any(&s.in, FPISA_MANAGER_MANAGER);
	const struct fpisa_link *l = group[which % GROUPS].link;

	if (m.type != FPISA_MANAGER_PONG)
		m.number = which >= 0xf0 ? FPISA_MANAGER_EVERY : which >= 0xe0 || !l ? which : l->number;
	if (m.type == FPISA_MANAGER_REFUSED && which & 0x40)
		m.refusal.index = which / GROUPS % 3;
	arrive(&m, sizeof(m));
}

static void arrive_handshake(void)
{
	const uint8_t head[2] = {0x16, s.hello};

	if (keyed)
		socket_arrive(0, head, sizeof(head));
}

static void arrive_raw(uint8_t n)
{
	uint8_t bytes[256];

	socket_arrive(0, bytes, input_take(&s.in, bytes, n));
}

static void manager_step(uint8_t what, uint8_t which)
{
	struct fake_socket *f = &fake_socket[0];

	if (what % 8 == 3)
		s.reach[which / REACH_END % ADDRESSES] = which % REACH_END;
	if (what % 8 == 6)
		s.hello = which;
	if (!f->open)
		return;
	switch (what % 8) {
	case 4:
		f->ended = 1;
		f->error = which & 1 ? ECONNRESET : which & 2 ? ETIMEDOUT : 0;
		break;
	case 5:
		f->room = which * 32u;
		break;
	case 6:
		arrive_handshake();
		break;
	case 7:
		arrive_raw(which);
		break;
	case 3:
		break;
	default:
		arrive_message(which);
	}
}

/* -- steps ------------------------------------------------------------------------------------------- */

static void start_phase(enum phase phase)
{
	s.phase = phase;
	s.locks = 0;
	s.until = s.now + (phase == QUIET ? FPISA_MANAGER_ABSENT_MS + 10000 : END_MS * GROUPS) * MS;
	for (int i = 0; phase == QUIET && i < ADDRESSES; i++)
		s.reach[i] = SILENT;
	for (struct group *g = group; phase == LEAVING && g < group + GROUPS; g++)
		if (g->link && !g->stopped)
			leave(g);
}

/* Check that groups which wait for the manager have failed. */
static void end_quiet(void)
{
	for (const struct group *g = group; g < group + GROUPS; g++) {
		int awaits = g->link && !g->link->joined;

		for (int k = 0; g->link && k < FPISA_MANAGER_JOBS; k++)
			awaits |= fpisa_group_job_awaited(g->link->job[k].state);
		CHECK(!awaits || g->stopped || g->link->error);
	}
	start_phase(LEAVING);
}

/* Return how many ms pass by this step. */
static unsigned int step(void)
{
	uint8_t what = input_byte(&s.in), which = input_byte(&s.in);

	s.spins = 0;
	s.heard = 0;
	if (what >= 0xe0) {
		s.what = input_byte(&s.in);
		s.which = which;
		s.locks = 1 + what % 0x20;
	} else if (what >= 0xc0) {
		return which < 0x80 ? which * 8 : (which - 0x7f) * 100u;
	} else if (what >= 0x60) {
		manager_step(what, which);
	} else if (what >= 0x58) {
		s.no_thread = which & 1;
	} else {
		program_step(what, which);
	}
	return 0;
}

/* Let steps happen at a call of poll(). Return whether the call returns. */
static int poll_step(int ms)
{
	unsigned int past = 0;

	if (s.phase == STEPS && !s.in.left)
		start_phase(quiet ? QUIET : LEAVING);
	else if (s.phase == QUIET && (ms < 0 || s.now >= s.until))
		end_quiet();
	else if (s.phase == STEPS)
		past = step();
	else
		past = ms > 0 ? (unsigned int)ms : 0;
	CHECK(s.phase != LEAVING || s.now < s.until);
	s.now += past * MS;
	for (size_t i = 0; i < HANDLES && s.phase == QUIET && quiet > 1; i++)
		fake_handle[i].f.heard_ns = s.now;
	s.spins = past ? 0 : s.spins;
	return past || !ms;
}

static short events_of(int fd, short wanted)
{
	const struct fake_socket *f = &fake_socket[0];

	if (fd == WAKE)
		return s.awake ? POLLIN : 0;
	CHECK(fd == SOCKET_FD && f->open);
	if (s.now_to != ACCEPTS)
		return s.now_to == REFUSES_LATE ? POLLOUT | POLLERR : 0;
	return (short)((wanted & POLLIN && (f->at < f->n || f->ended) ? POLLIN : 0) |
		       (wanted & POLLOUT && f->room ? POLLOUT : 0) | (f->error ? POLLERR : 0));
}

/* -- stand-ins ----------------------------------------------------------------------------------------- */

int poll(struct pollfd *p, nfds_t n, int ms)
{
	int ready = 0, returns = 0;

	CHECK(s.runs && !held && ++s.spins < SPINS);
	check_message();
	check_groups();
	while (!ready && !returns) {
		s.stepping++;
		returns = poll_step(ms);
		for (struct group *g = group; g < group + GROUPS; g++)
			free_removed(g);
		s.stepping--;
		for (nfds_t i = 0; i < n; i++) {
			p[i].revents = p[i].fd < 0 ? 0 : events_of(p[i].fd, p[i].events);
			ready += p[i].revents != 0;
		}
	}
	return ready;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, t);
	*t = (struct timespec){.tv_sec = (time_t)(s.now / 1000000000), .tv_nsec = (long)(s.now % 1000000000)};
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	if (s.runs && !held && !s.stepping && s.locks && !--s.locks) {
		s.stepping++;
		s.heard = 0;
		program_step(s.what, s.which);
		s.stepping--;
	}
	held++;
	return __real_pthread_mutex_lock(m);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	for (struct group *g = group; s.runs && m == &s.connection->lock && g < group + GROUPS; g++)
		check_removed(g);
	held--;
	return __real_pthread_mutex_unlock(m);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
	if (!s.connection || arg != s.connection)
		return __real_pthread_create(t, a, run, arg);
	CHECK(!s.runs && !s.run);
	if (s.no_thread)
		return EAGAIN;
	memset(t, 0, sizeof(*t));
	s.run = run;
	s.arg = arg;
	s.heard_ns = s.now;
	return 0;
}

int __wrap_pthread_join(pthread_t t, void **result);
int __real_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result)
{
	if (t)
		return __real_pthread_join(t, result);
	CHECK(!s.runs && !s.run);
	return 0;
}

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
	CHECK(family == AF_INET && type & SOCK_NONBLOCK && type & SOCK_CLOEXEC && !protocol && !fake_socket[0].open);
	if (s.reach[0] == NO_SOCKET) {
		s.ended++;
		errno = EMFILE;
		return -1;
	}
	s.socket++;
	s.answered = s.parted = 0;
	s.last_number = 0;
	socket_open(0);
	fake_socket[0].room = 65536;
	return SOCKET_FD;
}

int connect(int fd, const struct sockaddr *to, socklen_t n)
{
	const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)to;

	CHECK(fd == SOCKET_FD && fake_socket[0].open && n == sizeof(*a));
	s.now_to = s.reach[ntohl(a->sin_addr.s_addr) % ADDRESSES];
	if (s.now_to == ACCEPTS)
		arrive_handshake();
	else
		s.ended++;
	errno = s.now_to == REFUSES ? ECONNREFUSED : s.now_to == UNREACHABLE ? ENETUNREACH : EINPROGRESS;
	return -1;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *n)
{
	const int error = s.now_to == REFUSES_LATE ? ECONNREFUSED : 0;

	CHECK(fd == SOCKET_FD && level == SOL_SOCKET && name == SO_ERROR && *n == sizeof(error));
	memcpy(value, &error, sizeof(error));
	return 0;
}

int eventfd(unsigned int value, int flags)
{
	CHECK(!value && flags == (EFD_CLOEXEC | EFD_NONBLOCK));
	s.awake = 0;
	return WAKE;
}

int eventfd_write(int fd, eventfd_t n)
{
	CHECK(fd == WAKE);
	s.awake |= n != 0;
	return 0;
}

int eventfd_read(int fd, eventfd_t *n)
{
	CHECK(fd == WAKE);
	*n = (eventfd_t)s.awake;
	s.awake = 0;
	return 0;
}

ssize_t getrandom(void *to, size_t n, unsigned int flags)
{
	(void)flags;
	memset(to, 0x5a, n);
	return (ssize_t)n;
}

uint32_t fpisa_interface_rate(const struct fpisa_address *address)
{
	return fpisa_is_ipv4(address) ? 1000 : 0;
}

int __wrap_fpisa_find_host(const char *text, uint64_t limit_ns, union fpisa_sockaddr to[FPISA_HOST_ADDRESSES]);
int __wrap_fpisa_find_host(const char *text, uint64_t limit_ns, union fpisa_sockaddr to[FPISA_HOST_ADDRESSES])
{
	CHECK(*text && limit_ns);
	memset(to, 0, s.addresses * sizeof(*to));
	for (size_t i = 0; i < s.addresses; i++) {
		to[i].v4.sin_family = AF_INET;
		to[i].v4.sin_port = htons(1);
		to[i].v4.sin_addr.s_addr = htonl((uint32_t)(ADDRESSES + i));
	}
	return (int)s.addresses;
}

int __wrap_fpisa_psk_last(struct fpisa_psk *psk, const char *file);
int __wrap_fpisa_psk_last(struct fpisa_psk *psk, const char *file)
{
	CHECK(*file);
	*psk = key;
	return 0;
}

/* tests/fuzz/user_channel.c checks bytes. */
void socket_sent(size_t i, const uint8_t *bytes, size_t n)
{
	(void)bytes;
	CHECK(!i && n);
}

/* Note that the connection has ended. */
static int note_end(int rc)
{
	if (rc < 0) {
		s.ended++;
		s.broke = rc;
		s.broke_socket = s.socket;
	}
	return rc;
}

/* Check that the rank closes a connection that groups use only after its end. */
void __wrap_fpisa_channel_close(struct fpisa_channel *c);
void __real_fpisa_channel_close(struct fpisa_channel *c);
void __wrap_fpisa_channel_close(struct fpisa_channel *c)
{
	for (const struct group *g = group; g < group + GROUPS; g++)
		CHECK(s.broke_socket == s.socket || !g->link || !g->link->is_listed || g->greeted != s.socket ||
		      g->left == s.socket || g->link->error);
	__real_fpisa_channel_close(c);
}

int __wrap_fpisa_channel_flush(struct fpisa_channel *c);
int __real_fpisa_channel_flush(struct fpisa_channel *c);
int __wrap_fpisa_channel_flush(struct fpisa_channel *c)
{
	return note_end(__real_fpisa_channel_flush(c));
}

int __wrap_fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m);
int __real_fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m);
int __wrap_fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	int rc;

	check_message();
	check_groups();
	rc = __real_fpisa_channel_work(c, m);
	if (rc > 0)
		note_message(m);
	return note_end(rc);
}

/* Check a message to the manager. */
int __wrap_fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m);
int __real_fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m);
int __wrap_fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m)
{
	const int first = m->type == FPISA_MANAGER_JOIN || m->type == FPISA_MANAGER_RETURN;
	struct group *g = group;
	int rc;

	CHECK(!fpisa_manager_check(m, FPISA_MANAGER_RANK));
	/* The queue is for the messages of groups. */
	CHECK(m->type != FPISA_MANAGER_PING || fpisa_channel_flushed(c));
	rc = __real_fpisa_channel_send(c, m);
	if (rc || m->type == FPISA_MANAGER_PING)
		return rc;
	while (g < group + GROUPS && !(g->link && g->link->is_listed && g->link->number == m->number))
		g++;
	CHECK(g < group + GROUPS && first == (g->greeted != s.socket));
	if (first) {
		CHECK(g->link->joined == (m->type == FPISA_MANAGER_RETURN) && m->number + 1 > s.last_number);
		s.last_number = m->number + 1;
		g->greeted = s.socket;
		g->asked = 0;
	}
	if (m->type == FPISA_MANAGER_ASK) {
		CHECK(!(g->asked >> m->ask.index & 1));
		g->asked |= 1u << m->ask.index;
	}
	if (m->type == FPISA_MANAGER_LEAVE) {
		CHECK(g->stopped && g->left != s.socket);
		g->left = s.socket;
		s.parted = 1;
	}
	return 0;
}

/* -- the target ------------------------------------------------------------------------------------------ */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_thread(void)
{
	void *(*run)(void *) = s.run;

	s.runs = 1;
	s.run = NULL;
	run(s.arg);
	s.runs = 0;
	CHECK(!fake_socket[0].open && !held);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how;

	held = 0;
	memset(&s, 0, sizeof(s));
	memset(group, 0, sizeof(group));
	s.in = (struct input){data, size};
	how = input_byte(&s.in);
	s.now = 1000000000;
	s.addresses = 1 + how / 4 % ADDRESSES;
	keyed = how & 1;
	quiet = how >> 6;
	fake_bind_error = 0;
	tls_fake = (struct tls_fake){.known = {key.secret}, .n_known = 1};
	sockets_reset();
	while (s.in.left) {
		(void)step();
		if (s.run)
			run_thread();
	}
	for (struct group *g = group; g < group + GROUPS; g++) {
		free_removed(g);
		CHECK(!g->link);
	}
	CHECK(!s.connection && !tls_fake.sessions);
	return 0;
}
