/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: workers of a query, and its aggregator, that send arbitrary bytes to the query's master
 * (user/query/lib). The input chooses a query, then the messages of several workers. Each step is an honest worker's
 * next message, the same message with changed bytes, or random bytes. Frames are chosen in the same way, and their
 * checksums are correct unless the input says otherwise.
 *
 * For any input, a row that the caller gets has the requested columns, each a value of its type, and NULL only where
 * allowed. An error message is one line.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include "check.h"
#include "channel.h"
#include "fpisa/verdict.h"
#include "lib/base/checksum.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "query/lib/master.h"

#define MOST 3	   /* maximum number of workers */
#define TURNS 4000 /* more steps than inputs of the usual length contain */
#define QUERY 5
#define CONTENT 8192

enum how { PAUSE, HONEST, CHANGED, ANY };

/* A transport that delivers frames from the input */
struct fake {
	struct fpisa_transport base;
	uint32_t worker; /* the worker whose rows the frame holds */
	_Alignas(8) uint8_t frame[FPISA_HDR_LEN + FPISA_MAX_PAYLOAD + 64];
	uint8_t *lent; /* an exact-size copy, valid until the next call */
};

struct told {
	struct fpisa_channel *channel;
	uint64_t sent, weight, sequence;
	int done;
};

static struct input in;
static struct fpisa_query *q;
static struct told told[MOST];
static struct fake direct[MOST], network;
static unsigned int columns, keys; /* requested columns, and how many of them are keys */
static uint64_t absorbed, groups;

static const struct fpisa_column table[] = {
	{"v", FPISA_COLUMN_REAL, 0, 0}, {"k", FPISA_COLUMN_INT32, 1, 0},  {"t", FPISA_COLUMN_TEXT, 0, 0},
	{"d", FPISA_COLUMN_DATE, 1, 0}, {"w", FPISA_COLUMN_DOUBLE, 0, 0}, {"l", FPISA_COLUMN_INT64, 0, 0},
};
static const char *const lists[] = {NULL, "v", "k", "t,k", "v,k,t,d,w,l", "d,d", "w,l", "k,v"};
static const unsigned int list_columns[8][6] = {{0, 1, 2, 3, 4, 5}, {0},    {1},    {2, 1},
						{0, 1, 2, 3, 4, 5}, {3, 3}, {4, 5}, {1, 0}};
static const unsigned int list_n[] = {6, 1, 1, 2, 6, 2, 2, 2};
static const char *const by_lists[] = {"k", "t", "k,d", "l,t", "w"};
static const unsigned int by_columns[5][2] = {{1}, {2}, {1, 3}, {5, 2}, {4}};
static const unsigned int by_n[] = {1, 1, 2, 2, 1};
static const struct fpisa_column values[] = {
	{"v", FPISA_COLUMN_REAL, 0, 0},
	{"v", FPISA_COLUMN_DOUBLE, 0, 0},
	{"v", FPISA_COLUMN_INT64, 0, 0},
	{"v", FPISA_COLUMN_DECIMAL, 0, 38, 3},
};
static unsigned int list, by, value;

/* -- replacements for system calls ------------------------------------------------------- */

ssize_t getrandom(void *to, size_t n, unsigned int flags)
{
	(void)flags;
	memset(to, 0x5a, n);
	return (ssize_t)n;
}

int epoll_ctl(int fd, int what, int of, struct epoll_event *e)
{
	(void)fd;
	(void)what;
	(void)of;
	(void)e;
	return 0;
}

int epoll_wait(int fd, struct epoll_event *e, int most, int timeout_ms)
{
	int n = 0;

	(void)fd;
	(void)timeout_ms;
	for (uint32_t i = 0; i < q->n_workers && n < most; i++)
		e[n++].data.ptr = &q->worker[i];
	return n;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *was)
{
	(void)fd;
	(void)flags;
	(void)at;
	(void)was;
	return 0;
}

/* Open a transport in place of user/lib/transport/udp.c, which is not linked. */
int fpisa_udp_open_beside(struct fpisa_transport **t, struct fpisa_transport *first,
			  const struct fpisa_address *address, uint16_t port, uint16_t local_port)
{
	(void)first;
	return fpisa_udp_open(t, address, port, local_port);
}

int fpisa_udp_open(struct fpisa_transport **t, const struct fpisa_address *address, uint16_t port, uint16_t local_port)
{
	(void)t;
	(void)address;
	(void)port;
	(void)local_port;
	return fpisa_fail(-EIO, "this test has no sockets");
}

int fpisa_udp_fd(const struct fpisa_transport *t)
{
	(void)t;
	return -1;
}

int fpisa_udp_take(struct fpisa_transport *t, struct fpisa_in *frames, int most)
{
	(void)t;
	(void)frames;
	(void)most;
	return 0;
}

void fpisa_udp_redirect(struct fpisa_transport *t, uint16_t port)
{
	(void)t;
	CHECK(port);
}

/* -- changes ------------------------------------------------------------------------------- */

/* Change, delete or insert bytes. Return the new length. */
static size_t change(uint8_t *bytes, size_t n, size_t most)
{
	for (int changes = 1 + input_byte(&in) % 4; changes; changes--) {
		uint8_t kind = input_byte(&in);
		size_t at = input_byte(&in) | (size_t)(kind & 7) << 8;

		if (kind & 0x80) {
			n = at < most ? at : most;
		} else if (n) {
			uint64_t word = 0;
			size_t width = 1u << (kind >> 4 & 3);

			at %= n;
			input_take(&in, &word, width);
			memcpy(bytes + at, &word, width < n - at ? width : n - at);
		}
	}
	return n;
}

/* -- messages of an honest worker -------------------------------------------------------------- */

static size_t put_text(uint8_t *to, const char *text)
{
	uint32_t len = text ? (uint32_t)strlen(text) : FPISA_QUERY_NULL;

	memcpy(to, &len, sizeof(len));
	if (text)
		memcpy(to + sizeof(len), text, len);
	return sizeof(len) + (text ? len : 0);
}

static const char *any_value(const struct fpisa_column *c)
{
	static const char *const texts[][4] = {
		[FPISA_COLUMN_REAL] = {"1.5", "-1e30", "nan", ".5"},
		[FPISA_COLUMN_DOUBLE] = {"2", "1e-310", "-inf", "+7."},
		[FPISA_COLUMN_INT32] = {"1", "-2147483648", "007", "+9"},
		[FPISA_COLUMN_INT64] = {"5", "9223372036854775807", "-1", "0"},
		[FPISA_COLUMN_TEXT] = {"", "x", "a, b", "longer than a key of 32 bytes may be"},
		[FPISA_COLUMN_DATE] = {"1998-12-31", "0001-01-01", "2024-02-29", "9999-12-31"},
		[FPISA_COLUMN_DECIMAL] = {"0", "-99999999999999999999999999999999999.999", "1.5", "+.001"},
	};
	uint8_t which = input_byte(&in);

	return which & 0x80 && !c->not_null ? NULL : texts[c->type][which & 3];
}

/* Return column `i` of the answer. The column of the value has the value's type. */
static const struct fpisa_column *column_at(unsigned int i)
{
	const unsigned int at = keys ? by_columns[by][i] : list_columns[list][i];

	return !keys && !at ? &values[value] : &table[at];
}

static size_t records(uint8_t *to, size_t rows)
{
	size_t n = 0;

	for (size_t r = 0; r < rows; r++)
		for (unsigned int i = 0; i < columns; i++)
			n += put_text(to + n, any_value(column_at(i)));
	return n;
}

static size_t ready(uint8_t *to)
{
	struct fpisa_query_ready r = {.keys = keys, .columns = columns, .values = q->value != NULL, .port = 9};
	size_t n = sizeof(r);

	memcpy(to, &r, sizeof(r));
	for (unsigned int i = 0; i < keys + columns; i++, n += sizeof(table[0]))
		memcpy(to + n, column_at(i), sizeof(table[0]));
	memcpy(to + n, &values[value], sizeof(values[0]));
	return n + r.values * sizeof(values[0]);
}

static size_t done(uint8_t *to, uint32_t worker)
{
	struct told *t = &told[worker];
	uint64_t nulls = q->kind == FPISA_QUERY_TOPN ? input_byte(&in) % 3 : 0, place = 7;
	struct fpisa_query_done d = {.attempt = q->attempt,
				     .rank = worker,
				     .rows = t->sent + nulls,
				     .nulls = nulls,
				     .sent = t->sent,
				     .weight = t->weight,
				     .frames = t->sequence,
				     .filter = q->join ? FPISA_FILTER_OPEN : 0};
	size_t n = sizeof(d);

	memcpy(to, &d, sizeof(d));
	for (; nulls && n / 8 < sizeof(d) / 8 + q->options.limit; nulls--, n += sizeof(place))
		memcpy(to + n, &place, sizeof(place));
	t->done = 1;
	return n;
}

/* Make the next message of an honest conversation. Return its type, or 0 if the conversation is over. */
static uint16_t honest(uint32_t worker, uint8_t *to, size_t *n)
{
	struct fpisa_query_worker *w = &q->worker[worker];
	struct told *t = &told[worker];
	uint8_t which = input_byte(&in);
	uint32_t number = q->attempt;

	*n = 0;
	if (which >= 0xf0) {
		memcpy(to, &number, *n = sizeof(number));
		return FPISA_CONTROL_LOST;
	}
	if (which >= 0xe0) {
		*n = 4 + (size_t)sprintf((char *)to + 4, "t.csv:1: no\n\033[2Jvalue") + 1;
		memcpy(to, &(int32_t){-22}, 4);
		return FPISA_CONTROL_FAILED;
	}
	if (which >= 0xd0) {
		memset(to, 1, *n = which & 1 ? 8 : 0);
		return FPISA_CONTROL_WORKING;
	}
	if (!w->ready) {
		*n = ready(to);
		return FPISA_CONTROL_READY;
	}
	if (q->kind == FPISA_QUERY_SCAN && !t->done && which & 1) {
		size_t rows = which >> 1 & 3;

		t->sent += rows;
		*n = records(to, rows);
		return FPISA_CONTROL_RECORDS;
	}
	if (q->phase >= FPISA_PHASE_ROWS && !t->done) {
		*n = done(to, worker);
		return FPISA_CONTROL_DONE;
	}
	if (w->fetching) {
		size_t rows = 1 + (which >> 1 & 3);

		*n = records(to, rows < w->asked - w->fetched ? rows : w->asked - w->fetched);
		return FPISA_CONTROL_RECORDS;
	}
	return 0;
}

static uint32_t worker_of(const struct fpisa_channel *c)
{
	for (uint32_t i = 0; i < q->n_workers; i++)
		if (q->worker[i].control.channel == c)
			return i;
	abort();
}

int channel_next(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	static uint8_t content[CONTENT];
	uint8_t how = input_byte(&in);
	uint16_t type;
	size_t n;

	if (!in.left)
		return fpisa_fail(-ECONNRESET, "the connection ended");
	switch (how % 4) {
	case PAUSE:
		/* Pretend that time has passed. */
		if (how >= 0xf8)
			q->worker[worker_of(c)].heard_ns -= 60000000000ull;
		else if (how >= 0xf0)
			q->progress_ns -= 60000000000ull;
		return 0;
	case ANY:
		if (how >= 0xf0) {
			/* a single message without a content */
			memset(m, 0, sizeof(*m));
			m->magic = FPISA_CONTROL_MAGIC;
			m->version = FPISA_CONTROL_VERSION;
			m->type = input_byte(&in);
			input_take(&in, &m->number, 4);
			input_take(&in, m->body, 16);
			return 1;
		}
		type = FPISA_CONTROL_READY + input_byte(&in) % 6;
		n = input_take(&in, content, input_byte(&in));
		return channel_content(c, m, type, content, n);
	}
	type = honest(worker_of(c), content, &n);
	if (!type)
		return 0;
	if (how % 4 == CHANGED)
		n = change(content, n, sizeof(content));
	return channel_content(c, m, type, content, n);
}

/* -- frames ---------------------------------------------------------------------------------- */

/* Read each byte, so that sanitizers check it. */
static int fake_send(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	static uint8_t copy[FPISA_HDR_LEN + FPISA_MAX_PAYLOAD];

	(void)t;
	for (int i = 0; i < n; i++)
		for (int p = 0; p < out[i].parts; p++)
			memcpy(copy, out[i].part[p].iov_base, out[i].part[p].iov_len);
	return 0;
}

static size_t rows(struct fpisa_hdr *h, uint8_t *payload, uint32_t worker, const struct fpisa_member *m)
{
	const uint32_t count = 1 + input_byte(&in) % 4, key_bytes = m->key_bytes,
		       bytes = fpisa_row_bytes(key_bytes, m->form),
		       wide = !fpisa_form_is_wide(m->form) ? 4 : bytes - key_bytes - 8;

	h->type = FPISA_TYPE_ROWS;
	h->rank = (uint16_t)worker;
	h->count = (uint16_t)count;
	h->chunk = ++told[worker].sequence;
	memset(payload, 0, fpisa_query_payload(count, bytes));
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *p = payload + i * bytes;

		p[0] = input_byte(&in);
		input_take(&in, p + key_bytes, wide);
		if (key_bytes > 4)
			p[key_bytes + wide] = 1;
		told[worker].sent++;
		told[worker].weight++;
	}
	return fpisa_query_payload(count, bytes);
}

static size_t welcome(struct fpisa_hdr *h, uint8_t *payload)
{
	struct fpisa_query_welcome p = {.members = (uint16_t)(q->n_workers + 1),
					.rank = (uint16_t)q->n_workers,
					.kind = q->kind,
					.key_bytes = 16,
					.format =
						q->value ? (uint8_t)fpisa_column_form(&values[value]) : FPISA_FORM_REAL,
					.limit = q->kind == FPISA_QUERY_JOIN ? 0 : 100};

	if (q->join) {
		p.flags = FPISA_QUERY_BITMAP;
		p.filter_bytes = 8;
	}
	p.flags |= q->options.ascending ? FPISA_QUERY_ASCENDING : 0;
	h->type = FPISA_TYPE_WELCOME;
	h->chunk = q->member.incarnation.nonce;
	h->aux = q->member.incarnation.number;
	memset(payload, 0, sizeof(struct fpisa_hello));
	memcpy(payload, &p, sizeof(p));
	return sizeof(struct fpisa_hello);
}

static size_t group(struct fpisa_hdr *h, uint8_t *payload)
{
	struct fpisa_query_group g = {.count = 1};

	h->type = FPISA_TYPE_GROUPS;
	h->chunk = q->read_at[0];
	h->count = 1;
	if (fpisa_form_is_integer(q->member.form))
		g.lowest[0] = g.lowest[1] = ~0ull;
	else if (q->member.form == FPISA_FORM_DOUBLE)
		g.least = ~0ull;
	else
		g.min = ~0u;
	if (q->member.form == FPISA_FORM_DOUBLE)
		g.window = input_byte(&in) % (FPISA_WIDE_WINDOWS + 2);
	g.key[0] = 1000 + q->read_left;
	input_take(&in, g.limb, input_byte(&in) % 24);
	memcpy(payload, &g, sizeof(g));
	return sizeof(g);
}

/* Make the frame that an honest worker or aggregator sends now. Return the size of its payload in bytes. */
static size_t frame(struct fake *t, struct fpisa_hdr *h, uint8_t *payload)
{
	struct fpisa_member *m = t == &network ? &q->member : &q->worker[t->worker].direct;
	uint8_t which = input_byte(&in);

	*h = (struct fpisa_hdr){.magic = FPISA_MAGIC,
				.version = FPISA_VERSION,
				.job = m->query,
				.secret = m->joining.cookie,
				.generation = m->epoch};
	if (t != &network)
		return rows(h, payload, t->worker, m);
	if (!m->joining.joined) {
		h->generation = 1;
		return welcome(h, payload);
	}
	if (which >= 0xf0) {
		h->type = FPISA_TYPE_ERROR;
		h->reason = input_byte(&in);
		return 0;
	}
	if (q->phase < FPISA_PHASE_SEAL) {
		if (which & 1) {
			/* The aggregator has added the row. */
			absorbed++;
			groups++;
			told[which % q->n_workers].sent++;
			told[which % q->n_workers].weight++;
			h->type = FPISA_TYPE_ACK;
			return 0;
		}
		return rows(h, payload, which % q->n_workers, m);
	}
	if (q->phase == FPISA_PHASE_READ && !(which & 1))
		return group(h, payload);
	h->type = FPISA_TYPE_STATUS;
	h->aux = q->kind == FPISA_QUERY_TABLE ? groups : 0;
	return 0;
}

static void set_checksum(uint8_t *bytes, size_t len)
{
	struct fpisa_hdr *h = (struct fpisa_hdr *)bytes;
	struct fpisa_sum sum = {0};

	if (len < sizeof(*h))
		return;
	fpisa_sum_words(&sum, h, FPISA_SUM_HDR_WORDS);
	fpisa_checksum_many(&sum, h + 1, (len - sizeof(*h)) / 8);
	h->checksum = fpisa_sum_fold(&sum);
}

static int fake_receive(struct fpisa_transport *base, struct fpisa_in *out, uint64_t timeout_ns)
{
	struct fake *t = (struct fake *)base;
	uint8_t how;
	size_t n;

	(void)timeout_ns;
	free(t->lent);
	t->lent = NULL;
	how = input_byte(&in);
	if (how % 4 == PAUSE || !in.left)
		return 0;
	if (how % 4 == ANY)
		n = input_take(&in, t->frame, input_byte(&in));
	else
		n = FPISA_HDR_LEN + frame(t, (struct fpisa_hdr *)t->frame, t->frame + FPISA_HDR_LEN);
	if (how % 4 == CHANGED)
		n = change(t->frame, n, sizeof(t->frame));
	if (how < 0xf0)
		set_checksum(t->frame, n);
	t->lent = malloc(n + 1);
	CHECK(t->lent);
	memcpy(t->lent, t->frame, n);
	*out = (struct fpisa_in){t->lent, n};
	return 1;
}

static int fake_joined(struct fpisa_transport *t, const struct fpisa_hello *hello)
{
	(void)t;
	(void)hello;
	return 256;
}

static void fake_close(struct fpisa_transport *t)
{
	free(((struct fake *)t)->lent);
	((struct fake *)t)->lent = NULL;
}

static const struct fpisa_transport_ops ops = {
	.send = fake_send,
	.receive = fake_receive,
	.joined = fake_joined,
	.close = fake_close,
};

/* -- the master ------------------------------------------------------------------------------ */

static void choose(uint8_t question, uint8_t more)
{
	static const uint8_t kinds[] = {FPISA_QUERY_SCAN, FPISA_QUERY_TOPN, FPISA_QUERY_TABLE, FPISA_QUERY_JOIN};
	struct fpisa_query_options *o = &q->options;
	int grouped;

	q->kind = kinds[question & 3];
	grouped = q->kind == FPISA_QUERY_TABLE;
	list = more & 7;
	by = (more & 7) % 5;
	value = grouped ? (question >> 4 & 1) | (more >> 2 & 2) : q->kind == FPISA_QUERY_TOPN ? more >> 6 : 0;
	columns = grouped ? 0 : list_n[list];
	keys = grouped ? by_n[by] : 0;
	o->pruning = q->kind == FPISA_QUERY_SCAN		 ? FPISA_PRUNING_NONE :
		     q->kind == FPISA_QUERY_JOIN || question & 4 ? FPISA_PRUNING_NETWORK :
								   FPISA_PRUNING_NONE;
	o->limit = q->kind == FPISA_QUERY_TOPN ? 1 + (more >> 3 & 7) : 0;
	o->ascending = o->limit && question & 8;
	o->nulls_first = o->limit && question & 16;
	o->aggregates = grouped ? more >> 4 : 0;
	o->timeout_ms = 10000;
	o->query = QUERY;
	q->table = strdup("t");
	q->value = o->limit || (grouped && question & 8) ? strdup("v") : NULL;
	q->by = grouped ? strdup(by_lists[by]) : NULL;
	q->columns = !grouped && lists[list] ? strdup(lists[list]) : NULL;
	q->join = q->kind == FPISA_QUERY_JOIN ? strdup("s") : NULL;
	q->n_workers = 1 + (question >> 5) % MOST;
}

static void set_up(void)
{
	q->poll = q->timer = -1;
	q->progress_ns = fpisa_now();
	q->read_batch = 26;
	for (uint32_t i = 0; i < q->n_workers; i++) {
		struct fpisa_query_worker *w = &q->worker[i];

		told[i] = (struct told){0};
		w->fd = -1;
		w->heard_ns = q->progress_ns;
		w->name[0] = (char)('a' + i);
		CHECK(!fpisa_control_call(&w->control, -1, NULL));
		if (q->kind == FPISA_QUERY_SCAN || !fpisa_query_is_direct(q))
			continue;
		direct[i].base.ops = &ops;
		direct[i].worker = i;
		w->direct.t = &direct[i].base;
	}
	if (q->kind != FPISA_QUERY_SCAN && !fpisa_query_is_direct(q)) {
		network.base.ops = &ops;
		q->member.t = &network.base;
	}
	absorbed = groups = 0;
}

static void check_row(const char *const *row)
{
	const struct fpisa_query_column *c;
	uint32_t n = fpisa_query_columns(q, &c), asked = keys ? keys + (q->value ? 5 : 1) : columns;

	CHECK(n == asked);
	for (uint32_t i = 0; i < n; i++) {
		struct fpisa_column as = {.type = (uint8_t)c[i].type, .not_null = (uint8_t)c[i].not_null};
		const char *name = keys ? table[by_columns[by][i % keys]].name : table[list_columns[list][i]].name;

		/* All columns of a table have the names that the worker gave. */
		CHECK((!keys && !q->columns) || (keys && i >= keys) || !strcmp(c[i].name, name));
		/*
		 * A sum of integers has any number of digits, and `as` lacks the precision of a decimal. A count and the
		 * extremes are printed as the aggregator sends them.
		 */
		CHECK(!row[i] ? !c[i].not_null :
		      (keys && i >= keys && values[value].type >= FPISA_COLUMN_INT64) || as.type == FPISA_COLUMN_DECIMAL ?
				strspn(row[i], "+-.0123456789") == strlen(row[i]) :
				fpisa_text_valid(&as, row[i], strlen(row[i])) || (keys && i == keys));
	}
}

static void check_error(void)
{
	for (const char *p = fpisa_query_error(); *p; p++)
		CHECK((unsigned char)*p >= ' ' && *p != 127);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const *row;
	uint64_t given = 0;
	int rc = 0, some;
	uint8_t question;

	in = (struct input){data, size};
	q = calloc(1, sizeof(*q));
	CHECK(q);
	question = input_byte(&in);
	choose(question, input_byte(&in));
	set_up();
	for (int i = 0; rc >= 0 && rc < 2 && i < TURNS; i++) {
		rc = fpisa_query_work(q, 0);
		some = 1;
		while (rc > 0 && (some = fpisa_query_next(q, &row)) > 0) {
			check_row(row);
			given++;
		}
		rc = some < 0 ? some : rc;
		for (uint32_t w = 0; w < q->n_workers; w++)
			CHECK(q->kind == FPISA_QUERY_SCAN || q->worker[w].fetched <= q->worker[w].n_rows);
	}
	CHECK(!q->options.limit || given <= q->options.limit);
	if (rc < 0)
		check_error();
	fpisa_query_close(q);
	return 0;
}
