// SPDX-License-Identifier: GPL-2.0-only
/*
 * A worker and one master (lib/query/control.h has what they say): a process of its own. What goes wrong is
 * told to the master in one sentence, and ends it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/report.h"
#include "fpisa.h"
#include "fpisa/verdict.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "sender.h"
#include "session.h"
#include "source.h"

#define MS 1000000ull
#define LAST_WORD_MS 2000   /* for what was said last to leave */
#define WORKING_NS (1000 * MS)
#define JOIN_GRACE_NS (2000 * MS) /* the master, who knows who is missing, is first to say so */
#define UNREAD_NS (600000 * MS)	  /* rows that go over TCP: a program may look at them for long */
#define RECORDS 32768		  /* bytes of rows in a message */
#define AHEAD (1 << 20)		  /* bytes of messages that wait to leave */

enum state { GREETING, OPENED, JOINING, REDUCING, SENDING, SCANNING, FETCHING, IDLE };

struct session {
	struct fpisa_control_channel control;
	struct sockaddr_in from;
	int directory;
	enum state state;
	struct fpisa_query_open want;
	struct fpisa_query_start start;
	struct source source;
	struct fpisa_member member;
	struct sender sender;
	uint32_t mtu;
	uint16_t port; /* UDP */
	uint64_t progress_ns, told_ns;
	size_t waiting; /* when progress was last looked for */
	uint64_t *places; /* to fetch */
	size_t n_places, next_place;
	char *records;
	size_t n_records, room;
};

static void progress(struct session *s)
{
	s->progress_ns = fpisa_now();
}

static int malformed(void)
{
	return fpisa_fail(-EPROTO, "what came is no message of this protocol");
}

/* -- what the master says ------------------------------------------------------- */

static int check_open(const struct fpisa_query_open *w)
{
	if ((w->kind != FPISA_QUERY_SCAN && w->kind != FPISA_QUERY_TOPN && w->kind != FPISA_QUERY_TABLE) ||
	    w->pruning > FPISA_PRUNING_WORKERS || w->limit > FPISA_MAX_LIMIT_TOPN || (w->kind == FPISA_QUERY_TOPN) != (w->limit > 0) ||
	    w->query >= FPISA_MAX_JOBS)
		return malformed();
	return 0;
}

static int open_socket(struct session *s)
{
	bool direct = s->want.pruning != FPISA_PRUNING_NETWORK;
	uint32_t to = direct ? s->from.sin_addr.s_addr : s->want.aggregator;
	const double unit = 4294967296.0;
	const struct fpisa_fault_rates faults = { s->want.faults[0] / unit, s->want.faults[1] / unit, s->want.faults[2] / unit,
						  s->want.faults[3] / unit, s->want.faults[4] / unit };
	uint32_t mtu = fpisa_member_mtu(to);
	int err;

	if (s->want.kind == FPISA_QUERY_SCAN)
		return 0;
	s->mtu = !mtu ? s->want.mtu : s->want.mtu && s->want.mtu < mtu ? s->want.mtu : mtu;
	err = fpisa_member_open(&s->member, to, direct ? s->want.master_port : s->want.aggregator_port,
				direct ? 0 : s->want.local_port);
	if (err)
		return err;
	s->port = fpisa_member_port(&s->member);
	return fpisa_member_prepare(&s->member, &faults, s->want.seed);
}

/* The columns, so that the master knows what keys and rows are. */
static int say_ready(struct session *s)
{
	const struct source *src = &s->source;
	struct fpisa_query_ready ready = { .keys = (__u32)src->n_keys, .columns = (__u32)src->n_columns, .port = s->port };
	char content[sizeof(ready) + 2 * FPISA_COLUMNS_MOST * sizeof(struct fpisa_column)], *to = content + sizeof(ready);

	ready.value_may_be_null = src->value >= 0 && !src->table.schema.column[src->value].not_null;
	memcpy(content, &ready, sizeof(ready));
	for (int i = 0; i < src->n_keys; i++, to += sizeof(struct fpisa_column))
		memcpy(to, &src->table.schema.column[src->key[i]], sizeof(struct fpisa_column));
	for (int i = 0; i < src->n_columns; i++, to += sizeof(struct fpisa_column))
		memcpy(to, &src->table.schema.column[src->column[i]], sizeof(struct fpisa_column));
	s->state = OPENED;
	return fpisa_control_send(&s->control, FPISA_CONTROL_READY, content, (size_t)(to - content));
}

static int take_open(struct session *s, const __u8 *content, size_t n)
{
	const char *strings[FPISA_QUERY_STRINGS], *at = (const char *)content + sizeof(s->want), *end = (const char *)content + n;
	int err;

	if (s->state != GREETING || n < sizeof(s->want))
		return malformed();
	memcpy(&s->want, content, sizeof(s->want));
	for (int i = 0; i < FPISA_QUERY_STRINGS; i++) {
		strings[i] = at;
		at = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
		if (!at++)
			return malformed();
	}
	err = check_open(&s->want) ?: source_open(&s->source, s->directory, &s->want, strings);
	return err ?: open_socket(s) ?: say_ready(s);
}

static int take_start(struct session *s, const __u8 *content, size_t n)
{
	if (s->state == GREETING || n != sizeof(s->start))
		return malformed();
	memcpy(&s->start, content, sizeof(s->start));
	if (!fpisa_key_bytes_valid(s->start.key_bytes) && s->want.pruning != FPISA_PRUNING_NETWORK)
		return malformed();
	progress(s);
	if (s->want.kind == FPISA_QUERY_SCAN) {
		s->state = SCANNING;
		return source_begin(&s->source, s->start.key_bytes);
	}
	s->state = JOINING;
	if (s->want.pruning == FPISA_PRUNING_NETWORK)
		return fpisa_member_join(&s->member, s->want.query, s->want.token);
	fpisa_member_direct(&s->member, s->start.attempt, s->start.rank, s->start.key_bytes, s->start.cookie);
	return 0;
}

static int take_fetch(struct session *s, const __u8 *content, size_t n)
{
	if (s->state != IDLE || n % 8)
		return malformed();
	free(s->places);
	s->places = malloc(n + 1);
	if (!s->places)
		return fpisa_fail(-ENOMEM, "no memory for rows");
	memcpy(s->places, content, n);
	s->n_places = n / 8;
	s->next_place = 0;
	s->state = FETCHING;
	progress(s);
	return 0;
}

static int listen_to_master(struct session *s)
{
	const __u8 *content;
	__u16 type;
	size_t n;
	int rc;

	while ((rc = fpisa_control_work(&s->control, &type, &content, &n)) > 0) {
		rc = type == FPISA_CONTROL_OPEN	 ? take_open(s, content, n) :
		     type == FPISA_CONTROL_START ? take_start(s, content, n) :
						   take_fetch(s, content, n);
		if (rc)
			break;
	}
	return rc;
}

/* -- rows -------------------------------------------------------------------------- */

static int say_done(struct session *s)
{
	const struct source *src = &s->source;
	size_t nulls = src->n_null_rows * sizeof(*src->null_rows);
	struct fpisa_query_done done = {
		.attempt = s->start.attempt,
		.rank = s->want.kind == FPISA_QUERY_SCAN ? s->start.rank : s->member.rank,
		.rows = src->read,
		.nulls = src->nulls,
		.sent = s->want.kind == FPISA_QUERY_SCAN ? src->given : s->sender.sent,
		.weight = s->sender.weight,
		.frames = s->sender.last,
		.repeated = s->sender.repeated,
	};
	char *content = malloc(sizeof(done) + nulls);
	int err;

	if (!content)
		return fpisa_fail(-ENOMEM, "no memory for a message");
	memcpy(content, &done, sizeof(done));
	if (nulls)
		memcpy(content + sizeof(done), src->null_rows, nulls);
	err = fpisa_control_send(&s->control, FPISA_CONTROL_DONE, content, sizeof(done) + nulls);
	free(content);
	s->state = IDLE;
	return err;
}

/* Its epoch is over: the master begins another attempt, of all workers. */
static int say_lost(struct session *s)
{
	s->state = OPENED;
	return fpisa_control_send(&s->control, FPISA_CONTROL_LOST, &s->start.attempt, sizeof(s->start.attempt));
}

static int take_frame(struct session *s, const struct fpisa_hdr *h, uint64_t now)
{
	if (s->state != SENDING)
		return 0;
	if (h->type == FPISA_TYPE_ACK && sender_acked(&s->sender, h->chunk, now))
		progress(s);
	if (h->type != FPISA_TYPE_ERROR || h->reason == FPISA_V_port)
		return 0;
	if (h->reason == FPISA_V_generation || h->reason == FPISA_V_secret)
		return say_lost(s);
	return fpisa_fail(-EPROTO, "query %u: the aggregator refused a frame: %s", s->want.query, fpisa_reason(h->reason));
}

static int receive(struct session *s)
{
	struct fpisa_in in[FPISA_BATCH];
	int rc = 0, n;

	do {
		uint64_t now = fpisa_now();

		n = s->member.t->ops->receive(s->member.t, in, 0);
		if (n < 0)
			return fpisa_fail(n, "receive: %s", strerror(-n));
		for (int i = 0; !rc && i < n; i++) {
			const struct fpisa_hdr *h = fpisa_member_take(&s->member, &in[i], &rc);

			if (h && !rc)
				rc = take_frame(s, h, now);
		}
	} while (!rc && n == FPISA_BATCH);
	return rc;
}

static int check_role(const struct session *s)
{
	if (s->member.kind != s->want.kind)
		return fpisa_fail(-EINVAL, "query %u at the aggregator is of another kind", s->want.query);
	if (s->member.rank == s->member.members - 1)
		return fpisa_fail(-EINVAL, "query %u lists this host and port as its master", s->want.query);
	return 0;
}

static int begin_rows(struct session *s)
{
	int err = s->want.pruning == FPISA_PRUNING_NETWORK ? check_role(s) : 0;

	progress(s);
	s->state = REDUCING;
	return err ?: source_begin(&s->source, s->member.key_bytes);
}

static int reduce(struct session *s)
{
	int rc = source_reduce(&s->source);

	progress(s);
	if (rc)
		return rc < 0 ? rc : 0;
	s->state = SENDING;
	return sender_begin(&s->sender, &s->member, (struct sender_rows){ source_next, &s->source }, s->mtu);
}

static int send_records(struct session *s, bool all)
{
	int err = 0;

	if (s->n_records >= RECORDS || (all && s->n_records)) {
		err = fpisa_control_send(&s->control, FPISA_CONTROL_RECORDS, s->records, s->n_records);
		s->n_records = 0;
	}
	return err;
}

static int scan(struct session *s)
{
	int rc = 1, err = 0;

	while (!err && rc > 0 && fpisa_control_waiting(&s->control) < AHEAD) {
		rc = source_record(&s->source, &s->records, &s->n_records, &s->room);
		err = rc < 0 ? rc : send_records(s, !rc);
		if (rc == SOURCE_LATER) {
			progress(s);
			break;
		}
	}
	return err ?: rc ? err : say_done(s);
}

static int fetch(struct session *s)
{
	int rc, err = 0;

	while (!err && s->next_place < s->n_places && fpisa_control_waiting(&s->control) < AHEAD) {
		rc = source_record_at(&s->source, s->places[s->next_place++], &s->records, &s->n_records, &s->room);
		if (!rc)
			rc = fpisa_fail(-EINVAL, "a row is asked for that is not there");
		err = rc < 0 ? rc : send_records(s, false);
	}
	if (!err && s->next_place == s->n_places) {
		s->state = IDLE;
		err = send_records(s, true);
	}
	return err;
}

/* -- time -------------------------------------------------------------------------------- */

static int late(const struct session *s)
{
	char a[INET_ADDRSTRLEN];
	uint32_t to = s->want.pruning == FPISA_PRUNING_NETWORK ? s->want.aggregator : s->from.sin_addr.s_addr;

	inet_ntop(AF_INET, &to, a, sizeof(a));
	if (s->state == GREETING)
		return fpisa_fail(-ETIMEDOUT, "it has asked for nothing in %d s", FPISA_MANAGER_GREETING_MS / 1000);
	if (s->state == SCANNING || s->state == FETCHING)
		return fpisa_fail(-ETIMEDOUT, "the master does not read its rows");
	if (s->state == JOINING)
		return fpisa_fail(-ETIMEDOUT, "query %u: %s %s in %u ms", s->want.query,
				  s->member.heard ? "not all members joined at the aggregator" : "no answer of the aggregator",
				  a, s->want.timeout_ms);
	return fpisa_fail(-ETIMEDOUT,
			  "query %u: frame %llu of %u rows was not acknowledged in %u ms by %s%s; is an MTU on the way below %u?",
			  s->want.query, (unsigned long long)s->sender.low, s->sender.a_frame, s->want.timeout_ms, a,
			  s->want.pruning == FPISA_PRUNING_NETWORK ? ", or the master behind it" : "", s->mtu);
}

/* How long the state may last without progress; 0: for ever, for the connection is there. */
static uint64_t patience(const struct session *s)
{
	switch (s->state) {
	case GREETING:
		return FPISA_MANAGER_GREETING_MS * MS;
	case JOINING:
		return s->want.timeout_ms * MS + JOIN_GRACE_NS;
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
	if (s->state < REDUCING || s->state > SCANNING || now < s->told_ns + WORKING_NS || s->progress_ns < s->told_ns)
		return 0;
	s->told_ns = now;
	return fpisa_control_send(&s->control, FPISA_CONTROL_WORKING, NULL, 0);
}

static int timeout_ms(const struct session *s, uint64_t now)
{
	uint64_t due = now + 500 * MS, at = UINT64_MAX;

	if (s->state == REDUCING || ((s->state == SCANNING || s->state == FETCHING) && fpisa_control_waiting(&s->control) < AHEAD))
		return 0;
	if (s->member.t)
		at = fpisa_member_due(&s->member);
	due = at < due ? at : due;
	if (s->state == SENDING)
		at = sender_due(&s->sender);
	due = at < due ? at : due;
	return due <= now ? 0 : (int)((due - now + MS - 1) / MS);
}

/* -- the loop --------------------------------------------------------------------------- */

static int wait_for_more(struct session *s)
{
	struct pollfd p[1 + FPISA_TRANSPORT_FDS] = { { .fd = fpisa_channel_fd(s->control.channel),
						       .events = fpisa_channel_events(s->control.channel) } };
	int fds[FPISA_TRANSPORT_FDS], n = s->member.t ? s->member.t->ops->fds(s->member.t, fds) : 0;

	for (int i = 0; i < n; i++)
		p[1 + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	if (poll(p, (nfds_t)(1 + (n > 0 ? n : 0)), timeout_ms(s, fpisa_now())) < 0 && errno != EINTR)
		return fpisa_fail(-errno, "poll: %s", strerror(errno));
	return 0;
}

static int turn(struct session *s)
{
	int err = wait_for_more(s) ?: listen_to_master(s);

	if (!err && s->member.t)
		err = receive(s);
	if (!err && s->state == JOINING)
		err = fpisa_member_turn(&s->member, fpisa_now());
	if (!err && s->state == JOINING && s->member.joined)
		err = begin_rows(s);
	if (!err && s->state == REDUCING)
		err = reduce(s);
	if (!err && s->state == SENDING)
		err = sender_turn(&s->sender, fpisa_now());
	if (s->sender.later)
		progress(s);
	if (!err && s->state == SENDING && sender_done(&s->sender))
		err = say_done(s);
	if (!err && s->state == SCANNING)
		err = scan(s);
	if (!err && s->state == FETCHING)
		err = fetch(s);
	return err ?: check_time(s, fpisa_now()) ?: fpisa_control_flush(&s->control);
}

/* In one sentence; then it is read no more. */
static void say_failed(struct session *s, int error)
{
	struct pollfd p = { .fd = fpisa_channel_fd(s->control.channel), .events = POLLOUT };
	char content[4 + FPISA_MESSAGE_SIZE], bytes[4096];
	uint64_t until = fpisa_now() + LAST_WORD_MS * MS;
	int32_t number = error;
	const __u8 *ignored;
	__u16 type;
	size_t n;

	memcpy(content, &number, sizeof(number));
	n = sizeof(number) + (size_t)snprintf(content + sizeof(number), sizeof(content) - sizeof(number), "%s", fpisa_error()) + 1;
	if (!fpisa_channel_open(s->control.channel) || fpisa_control_send(&s->control, FPISA_CONTROL_FAILED, content, n))
		return;
	while (fpisa_now() < until && fpisa_control_work(&s->control, &type, &ignored, &n) >= 0 &&
	       (fpisa_control_waiting(&s->control) || !fpisa_channel_flushed(s->control.channel)))
		poll(&p, 1, 10);
	/* A socket that is closed over unread bytes would take it back. */
	shutdown(p.fd, SHUT_WR);
	p.events = POLLIN;
	while (fpisa_now() < until && poll(&p, 1, 100) >= 0 && recv(p.fd, bytes, sizeof(bytes), MSG_DONTWAIT) != 0)
		;
}

/* A host that is gone is found by probes. */
static void watch(int fd)
{
	static const int options[][3] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },   { IPPROTO_TCP, TCP_KEEPIDLE, 1 }, { IPPROTO_TCP, TCP_KEEPINTVL, 1 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 }, { IPPROTO_TCP, TCP_NODELAY, 1 },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i][0], options[i][1], &options[i][2], sizeof(int));
}

void session_run(int fd, const struct sockaddr_in *from, const struct fpisa_psks *keys, int directory)
{
	struct session *s = calloc(1, sizeof(*s));
	char a[INET_ADDRSTRLEN];
	int err;

	inet_ntop(AF_INET, &from->sin_addr, a, sizeof(a));
	watch(fd);
	if (!s || fpisa_control_serve(&s->control, fd, keys)) {
		refuse(-ENOMEM, "query worker: master at %s: no memory", a);
		free(s);
		return;
	}
	s->from = *from;
	s->directory = directory;
	progress(s);
	do
		err = turn(s);
	while (!err);
	/* A master may go whenever it has what it wants, or wants no more. */
	if (err != -ECONNRESET) {
		char why[FPISA_MESSAGE_SIZE];

		snprintf(why, sizeof(why), "%s", fpisa_error());
		say_failed(s, err);
		refuse(err, "query worker: master at %s: %s", a, why);
	}
	fpisa_control_close(&s->control);
	fpisa_member_close(&s->member);
	sender_end(&s->sender);
	source_close(&s->source);
	free(s->places);
	free(s->records);
	free(s);
}
