/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer: what a worker and the master of a query say to each other (user/lib/query/control.c), and what either makes of it:
 * user/lib/query/workers.c, answer.c, or user/query. The stand-in of a channel has the other side's messages from the input: bit 0 of the
 * first byte says which side that is, bits 1 and 2 which question. A message is a type, the length of its content, 2 bytes, and that; of
 * a type with the upper bit set the length is one of the content's, 4 bytes, and 16 bytes of body follow, as they are.
 * A master is told no row beyond those that it asked for; a worker opens nothing outside of its directory.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/query/master.h"
#include "query/session.h"

#define WORKERS 2
#define TURNS 200 /* more than any input has messages that are taken */

struct fpisa_channel {
	int fd;
};

static const uint8_t *input;
static size_t left;
static uint8_t content[65536];
static size_t at, n; /* of a content that is on its way */
static uint16_t type;
static fpisa_channel_check *check;
static enum fpisa_manager_side from;
static int pause_next, directory, null;

/* -- the channel -------------------------------------------------------------------- */

static int open_channel(struct fpisa_channel **c, int fd)
{
	*c = malloc(sizeof(**c));
	(*c)->fd = fd;
	return 0;
}

int fpisa_channel_serve(struct fpisa_channel **c, int fd, const struct fpisa_psks *keys, int plain)
{
	(void)keys;
	(void)plain;
	return open_channel(c, fd);
}

int fpisa_channel_call(struct fpisa_channel **c, int fd, const struct fpisa_psk *psk)
{
	(void)psk;
	return open_channel(c, fd);
}

void fpisa_channel_speak(struct fpisa_channel *c, fpisa_channel_check *of)
{
	(void)c;
	check = of;
}

int fpisa_channel_fd(const struct fpisa_channel *c)
{
	return c->fd;
}

short fpisa_channel_events(const struct fpisa_channel *c)
{
	(void)c;
	return 1; /* POLLIN */
}

int fpisa_channel_open(const struct fpisa_channel *c)
{
	(void)c;
	return 1;
}

const char *fpisa_channel_name(const struct fpisa_channel *c)
{
	(void)c;
	return "";
}

/* What is said has a form that the other side takes. */
int fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m)
{
	(void)c;
	if (check && check(m, from == FPISA_MANAGER_RANK ? FPISA_MANAGER_MANAGER : FPISA_MANAGER_RANK))
		abort();
	return 0;
}

int fpisa_channel_flush(struct fpisa_channel *c)
{
	(void)c;
	return 0;
}

int fpisa_channel_flushed(const struct fpisa_channel *c)
{
	(void)c;
	return 1;
}

void fpisa_channel_close(struct fpisa_channel *c)
{
	if (c)
		close(c->fd);
	free(c);
}

static size_t take(void *to, size_t most)
{
	most = most < left ? most : left;
	memcpy(to, input, most);
	input += most;
	left -= most;
	return most;
}

/* Frames leave for this machine alone. */
static void keep_here(void)
{
	const __be32 here = htonl(INADDR_LOOPBACK);

	if (type == FPISA_CONTROL_OPEN && n >= sizeof(struct fpisa_query_open))
		memcpy(content + offsetof(struct fpisa_query_open, aggregator), &here, sizeof(here));
}

int fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	uint8_t kind;
	uint16_t length = 0;
	uint32_t number = 0;

	(void)c;
	memset(m, 0, sizeof(*m));
	m->magic = FPISA_CONTROL_MAGIC;
	m->version = FPISA_CONTROL_VERSION;
	if (at == n) {
		/* A turn between two, so that what was asked for is begun. */
		if (pause_next) {
			pause_next = 0;
			return 0;
		}
		pause_next = 1;
		if (!take(&kind, 1))
			return fpisa_fail(-ECONNRESET, "the connection ended");
		m->type = type = kind & 0x7f;
		if (kind & 0x80) {
			take(&number, sizeof(number));
			m->number = number;
			take(m->body, 16);
			return check(m, from) ? fpisa_fail(-EPROTO, "malformed") : 1;
		}
		take(&length, sizeof(length));
		n = take(content, length);
		at = 0;
		keep_here();
	}
	m->type = type;
	m->number = n - at;
	memcpy(m->body, content + at, n - at < sizeof(m->body) ? n - at : sizeof(m->body));
	at += n - at < sizeof(m->body) ? n - at : sizeof(m->body);
	return check(m, from) ? fpisa_fail(-EPROTO, "malformed") : 1;
}

/* -- the two sides ------------------------------------------------------------------- */

/* Readable for ever, and never more than that. */
static int ended_socket(void)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd))
		abort();
	close(fd[1]);
	return fd[0];
}

static void worker(void)
{
	const struct sockaddr_in master = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	struct fpisa_control_channel control;

	from = FPISA_MANAGER_RANK;
	if (fpisa_control_serve(&control, ended_socket(), NULL))
		abort();
	session_run(&control, &master, directory, null);
}

/* As if rows of a join had come: their places. */
static void give_places(struct fpisa_query *q)
{
	static const uint64_t places[] = {9, 4};

	for (uint32_t i = 0; i < q->n_workers; i++) {
		q->places[i] = (struct fpisa_query_places){.place = malloc(sizeof(places)), .n = 2, .room = 2};
		memcpy(q->places[i].place, places, sizeof(places));
		q->received += 2;
	}
}

static void master(unsigned int question)
{
	static const uint8_t kinds[] = {FPISA_QUERY_SCAN, FPISA_QUERY_TABLE, FPISA_QUERY_TOPN, FPISA_QUERY_JOIN};
	struct fpisa_query *q = calloc(1, sizeof(*q));
	const char *const *row;
	int rc;

	from = FPISA_MANAGER_MANAGER;
	q->table = strdup("t");
	q->by = question == 1 ? strdup("k") : NULL;
	q->value = question == 1 || question == 2 ? strdup("v") : NULL;
	q->join = question == 3 ? strdup("s") : NULL;
	q->kind = kinds[question];
	q->options = (struct fpisa_query_options){.limit = question == 2 ? 3 : 0, .timeout_ms = 10000};
	q->options.pruning = q->join ? FPISA_PRUNING_NETWORK : FPISA_PRUNING_NONE;
	q->poll = epoll_create1(EPOLL_CLOEXEC);
	q->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	q->progress_ns = fpisa_now();
	q->n_workers = WORKERS;
	for (int i = 0; i < WORKERS; i++) {
		struct fpisa_query_worker *w = &q->worker[i];
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = w};
		int fd = ended_socket();

		w->fd = -1;
		w->at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		snprintf(w->name, sizeof(w->name), "worker %d", i);
		if (fpisa_control_call(&w->control, fd, NULL) || epoll_ctl(q->poll, EPOLL_CTL_ADD, fd, &e))
			abort();
	}
	/* A join has no aggregator here. */
	rc = q->join ? 0 : fpisa_query_open_sockets(q);
	for (int i = 0; rc >= 0 && i < TURNS; i++) {
		rc = fpisa_query_work(q, 0);
		if (q->join && q->phase == FPISA_PHASE_ROWS && !q->received)
			give_places(q);
		while (rc > 0 && fpisa_query_next(q, &row) > 0)
			for (uint32_t k = 0; k < q->n_out; k++)
				if (row[k] && strlen(row[k]) > sizeof(content))
					abort();
		for (int w = 0; w < WORKERS; w++)
			if (q->worker[w].fetched > q->worker[w].n_rows)
				abort();
	}
	fpisa_query_close(q);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_file(const char *name, const char *text)
{
	int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

/* A table in a directory beside the program. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[4096];

	(void)argc;
	snprintf(path, sizeof(path), "%s.tables", **argv);
	mkdir(path, 0700);
	directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (directory < 0 || null < 0)
		abort();
	write_file("t.schema", "k int32 not null\nv real\n");
	write_file("t.csv", "k,v\n1,2.5\n2,\n1,-1e30\n3,nan\n");
	write_file("s.schema", "n int32\nm double\n");
	write_file("s.csv", "n,m\n1,1\n,2\n");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	input = data + 1;
	left = size - 1;
	at = n = 0;
	pause_next = 0;
	if (*data & 1)
		worker();
	else
		master(*data >> 1 & 3);
	return 0;
}
