// SPDX-License-Identifier: GPL-2.0-only
/* The messages between a worker and one master. query/lib/control.h describes their formats. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "lib/base/error.h"
#include "serving.h"

#define LAST_WORD_MS 2000 /* time for sending the last message */
#define PORT_NS (2000 * MS)

static int malformed(void)
{
	return fpisa_fail(-EPROTO, "the received data is not a message of this protocol; check the address and port");
}

/* -- messages of the master ------------------------------------------------------ */

static int check_open(const struct fpisa_query_open *w)
{
	if ((w->kind != FPISA_QUERY_SCAN && (w->kind < FPISA_QUERY_TOPN || w->kind > FPISA_QUERY_JOIN)) ||
	    w->pruning > FPISA_PRUNING_WORKERS || w->limit > FPISA_MAX_LIMIT_TOPN ||
	    (w->kind == FPISA_QUERY_TOPN) != (w->limit > 0) || w->query >= FPISA_MAX_JOBS ||
	    w->numbered > (w->kind == FPISA_QUERY_TABLE))
		return malformed();
	return 0;
}

/*
 * Open the member's socket. The process that served the previous master may still use the port until it ends, so retry
 * for a while.
 */
static int open_member(struct session *s, const struct fpisa_address *to, uint16_t to_port, uint16_t port)
{
	const struct timespec pause = {.tv_nsec = 10 * MS};
	uint64_t until = fpisa_now() + PORT_NS;
	int err;

	while ((err = fpisa_member_open(&s->member, to, to_port, port)) == -EADDRINUSE && fpisa_now() < until)
		nanosleep(&pause, NULL);
	if (err != -EADDRINUSE)
		return err;
	return fpisa_fail(err,
			  "UDP port %u is in use by another query or program; two queries at once need two ports "
			  "(--worker-port)",
			  port);
}

static int open_socket(struct session *s)
{
	bool direct = s->want.pruning != FPISA_PRUNING_NETWORK;
	const double unit = 4294967296.0;
	const struct fpisa_fault_rates faults = {s->want.faults[0] / unit, s->want.faults[1] / unit,
						 s->want.faults[2] / unit, s->want.faults[3] / unit,
						 s->want.faults[4] / unit};
	uint32_t mtu;
	int err;

	if (s->want.kind == FPISA_QUERY_SCAN)
		return 0;
	err = direct ? open_member(s, &s->from, s->want.master_port, 0) :
		       open_member(s, &s->want.aggregator, s->want.aggregator_port, s->want.local_port);
	if (err)
		return err;
	mtu = fpisa_member_mtu(&s->member);
	s->mtu = !mtu ? s->want.mtu : s->want.mtu && s->want.mtu < mtu ? s->want.mtu : mtu;
	s->port = fpisa_member_port(&s->member);
	return fpisa_member_prepare(&s->member, &faults, s->want.seed);
}

static char *put_columns(char *to, const struct source *src, const int *column, int n)
{
	for (int i = 0; i < n; i++)
		to = mempcpy(to, &src->table.schema.column[column[i]], sizeof(struct fpisa_column));
	return to;
}

/* Send the columns. The master chooses the form of keys and rows from them. */
static int say_ready(struct session *s)
{
	const struct source *src = &s->source;
	const struct columns *of = &src->columns;
	struct fpisa_query_ready ready = {.keys = (__u32)of->n_keys,
					  .columns = (__u32)of->n_columns,
					  .values = (__u32)of->n_values,
					  .port = s->port};
	char content[sizeof(ready) + 3 * FPISA_COLUMNS_MOST * sizeof(struct fpisa_column)],
		*to = content + sizeof(ready);

	ready.file = partition_number(&src->table);
	ready.joined_file = partition_number(&s->other.table);
	memcpy(content, &ready, sizeof(ready));
	to = put_columns(to, src, of->key, of->n_keys);
	to = put_columns(to, src, of->column, of->n_columns);
	for (int i = 0; i < of->n_values; i++)
		to = mempcpy(to, columns_value(of, i), sizeof(struct fpisa_column));
	s->state = OPENED;
	return fpisa_control_send(&s->control, FPISA_CONTROL_READY, content, (size_t)(to - content));
}

static int take_open(struct session *s, const __u8 *content, size_t n)
{
	const char *strings[FPISA_QUERY_STRINGS], *at = (const char *)content + sizeof(s->want),
						  *end = (const char *)content + n;
	bool join;
	int err;

	if (s->state != GREETING || n < sizeof(s->want))
		return malformed();
	memcpy(&s->want, content, sizeof(s->want));
	for (int i = 0; i < FPISA_QUERY_STRINGS; i++) {
		strings[i] = at;
		at = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
		if (!at)
			return malformed();
		at++;
	}
	join = *strings[FPISA_STRING_JOIN];
	if (join ? s->want.pruning != FPISA_PRUNING_NETWORK || s->want.preaggregate : s->want.kind == FPISA_QUERY_JOIN)
		return malformed();
	err = check_open(&s->want) ?: source_open(&s->source, s->directory, &s->want, strings);
	if (!err && join)
		err = source_open_other(&s->other, &s->source, s->directory, strings);
	return err ?: open_socket(s) ?: say_ready(s);
}

static int take_start(struct session *s, const __u8 *content, size_t n)
{
	if (s->state == GREETING || n != sizeof(s->start))
		return malformed();
	memcpy(&s->start, content, sizeof(s->start));
	if (s->want.pruning != FPISA_PRUNING_NETWORK &&
	    (!fpisa_key_bytes_valid(s->start.key_bytes) || !fpisa_form_valid(s->start.form)))
		return malformed();
	progress(s);
	if (s->want.kind == FPISA_QUERY_SCAN) {
		s->state = SCANNING;
		return source_begin(&s->source, s->start.key_bytes, 0, s->start.form);
	}
	s->state = JOINING;
	if (s->want.pruning == FPISA_PRUNING_NETWORK)
		return fpisa_member_join(&s->member, s->want.query, s->want.token);
	fpisa_member_direct(&s->member, s->start.attempt, s->start.rank, s->start.key_bytes, s->start.form,
			    s->start.cookie);
	return 0;
}

static int take_fetch(struct session *s, const __u8 *content, size_t n)
{
	if (s->state != IDLE || n % 8)
		return malformed();
	free(s->places);
	s->places = malloc(n + 1);
	if (!s->places)
		return fpisa_fail(-ENOMEM, "not enough memory for rows; " FPISA_MORE_MEMORY);
	memcpy(s->places, content, n);
	s->n_places = n / 8;
	s->next_place = 0;
	s->state = FETCHING;
	progress(s);
	return source_seek(&s->source, s->places, s->n_places);
}

int session_listen(struct session *s)
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

/* -- messages to the master ------------------------------------------------------ */

int session_say_done(struct session *s)
{
	const struct source *src = &s->source;
	size_t nulls = src->n_null_rows * sizeof(*src->null_rows);
	struct fpisa_query_done done = {
		.attempt = s->start.attempt,
		.rank = s->want.kind == FPISA_QUERY_SCAN ? s->start.rank : s->member.rank,
		.rows = source_read(src),
		.nulls = src->nulls,
		.sent = s->want.kind == FPISA_QUERY_SCAN ? src->given : s->sender.sent,
		.weight = s->sender.weight,
		.frames = s->sender.last,
		.repeated = s->sender.repeated,
		.keys = s->keys,
		.filter = s->filter,
		.way = source_way(src),
	};
	char *content = malloc(sizeof(done) + nulls);
	int err;

	if (!content)
		return fpisa_fail(-ENOMEM, "not enough memory for a message; " FPISA_MORE_MEMORY);
	memcpy(content, &done, sizeof(done));
	if (nulls)
		memcpy(content + sizeof(done), src->null_rows, nulls);
	err = fpisa_control_send(&s->control, FPISA_CONTROL_DONE, content, sizeof(done) + nulls);
	free(content);
	s->state = IDLE;
	return err;
}

/* Report that the epoch is over. The master begins another attempt with all workers. */
int session_say_lost(struct session *s)
{
	s->state = OPENED;
	return fpisa_control_send(&s->control, FPISA_CONTROL_LOST, &s->start.attempt, sizeof(s->start.attempt));
}

/* Report the failure in one sentence. The process does not read messages of the master afterwards. */
void session_say_failed(struct session *s, int error)
{
	struct pollfd p = {.fd = fpisa_channel_fd(s->control.channel), .events = POLLOUT};
	char content[4 + FPISA_MESSAGE_SIZE], bytes[4096];
	uint64_t until = fpisa_now() + LAST_WORD_MS * MS;
	int32_t number = error;
	const __u8 *ignored;
	__u16 type;
	size_t n;

	memcpy(content, &number, sizeof(number));
	n = sizeof(number) +
	    (size_t)snprintf(content + sizeof(number), sizeof(content) - sizeof(number), "%s", fpisa_query_error()) + 1;
	if (!fpisa_channel_open(s->control.channel) || fpisa_control_send(&s->control, FPISA_CONTROL_FAILED, content, n))
		return;
	while (fpisa_now() < until && fpisa_control_work(&s->control, &type, &ignored, &n) >= 0 &&
	       (fpisa_control_waiting(&s->control) || !fpisa_channel_flushed(s->control.channel)))
		poll(&p, 1, 10);
	/* Closing a socket with unread bytes would discard the message. */
	shutdown(p.fd, SHUT_WR);
	p.events = POLLIN;
	while (fpisa_now() < until && poll(&p, 1, 100) >= 0 && recv(p.fd, bytes, sizeof(bytes), MSG_DONTWAIT) != 0)
		;
}
