/* SPDX-License-Identifier: GPL-2.0-only */
/* If an aggregator sends wrong messages, the master of a query gives no answer and does not wait forever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "fpisa-query.h"
#include "fpisa.h"
#include "lib/base/checksum.h"
#include "lib/base/clock.h"
#include "query/lib/master.h"
#include "vectors.h"

#define QUERY 5
#define TIMEOUT_MS 300

static struct vectors_rng rng;
static int aggregator;
static uint16_t port;
static struct sockaddr_in member_at;
static const struct fpisa_address loopback = {.b = {[10] = 0xff, 0xff, 127, 0, 0, 1}};

static int open_aggregator(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(at);

	(void)state;
	aggregator = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (aggregator < 0 || bind(aggregator, (struct sockaddr *)&at, n) ||
	    getsockname(aggregator, (struct sockaddr *)&at, &n))
		return -1;
	port = ntohs(at.sin_port);
	return 0;
}

static int close_aggregator(void **state)
{
	(void)state;
	return close(aggregator);
}

/* Receive the next frame, if there is one. */
static int hear(struct fpisa_hdr *h)
{
	char frame[FPISA_HDR_LEN + FPISA_MAX_PAYLOAD];
	socklen_t n = sizeof(member_at);
	ssize_t got = recvfrom(aggregator, frame, sizeof(frame), MSG_DONTWAIT, (struct sockaddr *)&member_at, &n);

	if (got < (ssize_t)sizeof(*h))
		return 0;
	memcpy(h, frame, sizeof(*h));
	return 1;
}

static void say(struct fpisa_hdr *h, const void *payload, size_t bytes)
{
	char frame[FPISA_HDR_LEN + 256] __attribute__((aligned(8)));
	struct fpisa_sum sum = {0};

	h->magic = FPISA_MAGIC;
	h->version = FPISA_VERSION;
	fpisa_sum_words(&sum, h, FPISA_SUM_HDR_WORDS);
	fpisa_checksum_many(&sum, payload, bytes / 8);
	h->checksum = fpisa_sum_fold(&sum);
	memcpy(frame, h, sizeof(*h));
	if (bytes)
		memcpy(frame + sizeof(*h), payload, bytes);
	assert_int_equal(
		sendto(aggregator, frame, sizeof(*h) + bytes, 0, (struct sockaddr *)&member_at, sizeof(member_at)),
		sizeof(*h) + bytes);
}

/* -- WELCOME ------------------------------------------------------------------------ */

/* Join with this WELCOME. Return 0, or the error. */
static int join(const struct fpisa_query_welcome *welcome, struct fpisa_member *m)
{
	struct fpisa_in in[FPISA_BATCH];
	struct fpisa_hdr hello = {0}, h;
	uint8_t payload[sizeof(struct fpisa_hello)] = {0};
	int rc = 0;

	memcpy(payload, welcome, sizeof(*welcome));
	assert_int_equal(fpisa_member_open(m, &loopback, port, 0), 0);
	assert_int_equal(fpisa_member_prepare(m, &(struct fpisa_fault_rates){0}, 0), 0);
	assert_int_equal(fpisa_member_join(m, QUERY, 0), 0);
	while (!m->joining.joined && !rc) {
		int n;

		assert_int_equal(fpisa_member_turn(m, fpisa_now()), 0);
		while (hear(&hello)) {
			h = (struct fpisa_hdr){.type = FPISA_TYPE_WELCOME,
					       .job = QUERY,
					       .generation = 1,
					       .chunk = hello.chunk,
					       .aux = hello.aux};
			say(&h, payload, sizeof(payload));
		}
		n = m->t->ops->receive(m->t, in, 1000000);
		for (int i = 0; !rc && i < n; i++)
			assert_null(fpisa_member_take(m, &in[i], &rc));
	}
	fpisa_member_close(m);
	return rc;
}

static void welcomes(void **state)
{
	static const struct fpisa_query_welcome good = {.members = 3,
							.rank = 2,
							.kind = FPISA_QUERY_TOPN,
							.key_bytes = 8,
							.format = FPISA_FORMAT_FP32,
							.limit = 100};
	struct fpisa_member m;

	(void)state;
	assert_int_equal(join(&good, &m), 0);
	assert_int_equal(m.limit, 100);
	assert_int_equal(m.members, 3);
	for (int i = 0; i < 3000; i++) {
		static const uint32_t limits[] = {0, 1, 65536, 65537, 1u << 24, (1u << 24) + 1, UINT32_MAX};
		struct fpisa_query_welcome w = {.members = (uint16_t)vectors_below(&rng, i % 3 ? 70 : 65536),
						.kind = (uint8_t)(15 + vectors_below(&rng, 5)),
						.key_bytes = (uint8_t)(1 << vectors_below(&rng, 7)),
						.format = FPISA_FORMAT_FP32,
						.flags = (uint8_t)vectors_below(&rng, 16),
						.filter_bytes = (uint8_t)(1 << vectors_below(&rng, 7)),
						.limit = limits[vectors_below(&rng, 7)]};

		w.rank = (uint16_t)vectors_below(&rng, w.members + 2u);
		if (join(&w, &m)) {
			assert_string_equal(fpisa_error(),
					    "query 5 does not exist at the aggregator; there, see fpisa query list");
			continue;
		}
		assert_true(m.members >= 2 && m.members <= FPISA_MAX_WORKERS && m.rank < m.members);
		assert_true(m.kind >= FPISA_QUERY_TOPN && m.kind <= FPISA_QUERY_JOIN &&
			    fpisa_key_bytes_valid(m.key_bytes));
		assert_true(m.limit <= (m.kind == FPISA_QUERY_TOPN ? FPISA_MAX_LIMIT_TOPN : FPISA_MAX_LIMIT_TABLE));
		assert_true(m.kind == FPISA_QUERY_JOIN || m.limit);
		assert_true(!m.filter_bytes || (fpisa_key_bytes_valid(m.filter_bytes) && m.filter_bytes <= m.key_bytes));
	}
}

/* -- SEAL ----------------------------------------------------------------------------- */

/* Return a master with one worker, which has reported that all of its rows are acknowledged. */
static struct fpisa_query *master(uint8_t kind)
{
	struct fpisa_query *q = calloc(1, sizeof(*q));

	q->kind = kind;
	q->options = (struct fpisa_query_options){.query = QUERY, .timeout_ms = TIMEOUT_MS};
	q->aggregator = loopback;
	q->poll = epoll_create1(EPOLL_CLOEXEC);
	q->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	q->n_workers = 1;
	q->worker[0].fd = -1;
	q->worker[0].done = 1;
	assert_int_equal(fpisa_query_reset(q), 0);
	q->progress_ns = fpisa_now();
	return q;
}

static void never_sealed(void **state)
{
	struct fpisa_query *q = master(FPISA_QUERY_TABLE);
	uint64_t begun = fpisa_now();
	int rc = 0;

	(void)state;
	assert_int_equal(fpisa_member_open(&q->member, &loopback, port, 0), 0);
	assert_int_equal(fpisa_member_prepare(&q->member, &(struct fpisa_fault_rates){0}, 0), 0);
	fpisa_member_direct(&q->member, 1, 1, 8, FPISA_FORM_REAL, 77);
	q->phase = FPISA_PHASE_SEAL;
	while (!rc && fpisa_now() < begun + 30000000000ull) {
		struct fpisa_hdr h;

		rc = fpisa_query_work(q, 5);
		while (hear(&h)) {
			h = (struct fpisa_hdr){.type = FPISA_TYPE_STATUS, .generation = 1, .secret = 77, .bitmap = 1};
			say(&h, NULL, 0);
		}
	}
	assert_int_equal(rc, -EILSEQ);
	assert_non_null(strstr(fpisa_error(), "the aggregator did not receive exactly the frames that rank 0 sent"));
	fpisa_query_close(q);
}

/* -- counts --------------------------------------------------------------------------- */

/* Check that only a query with a filter may lack rows. */
static void missing_rows(void **state)
{
	static const struct {
		uint8_t kind, join;
		uint32_t filter;
		int may;
	} cases[] = {
		{FPISA_QUERY_JOIN, 1, FPISA_FILTER_WHOLE, 1},	 {FPISA_QUERY_JOIN, 1, FPISA_FILTER_BUILDING, 1},
		{FPISA_QUERY_JOIN, 1, FPISA_FILTER_OPEN, 0},	 {FPISA_QUERY_TABLE, 1, FPISA_FILTER_BEYOND, 1},
		{FPISA_QUERY_TABLE, 1, FPISA_FILTER_OPEN, 0},	 {FPISA_QUERY_TABLE, 0, FPISA_FILTER_BUILDING, 0},
		{FPISA_QUERY_TOPN, 0, FPISA_FILTER_BUILDING, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fpisa_query *q = master(cases[i].kind);

		q->phase = FPISA_PHASE_FETCH;
		q->join = cases[i].join ? strdup("t") : NULL;
		q->worker[0].said = (struct fpisa_query_done){.sent = 10, .weight = 10, .filter = cases[i].filter};
		q->received = q->weight = 10;
		assert_int_equal(fpisa_query_check(q), 0);
		q->received = q->weight = 9;
		assert_int_equal(fpisa_query_check(q), cases[i].may ? 0 : -EILSEQ);
		q->received = q->weight = 11;
		assert_int_equal(fpisa_query_check(q), -EILSEQ);
		fpisa_query_close(q);
	}
}

/*
 * Check that a silent worker that must still send is named although others make progress, and that a worker that has
 * sent everything may be silent.
 */
static void silent_worker(void **state)
{
	static const enum fpisa_query_phase phases[] = {FPISA_PHASE_OPEN, FPISA_PHASE_ROWS, FPISA_PHASE_FETCH};
	const uint64_t limit = TIMEOUT_MS * 1000000ull + 5000000000ull;

	(void)state;
	for (int i = 0; i < 3 * 2 * 2; i++) {
		struct fpisa_query *q = master(FPISA_QUERY_SCAN);
		int owes = i / 3 % 2, late = i / 6;
		struct fpisa_query_worker *w = &q->worker[1];

		q->n_workers = 2;
		q->phase = phases[i % 3];
		q->settled = 1;
		q->worker[0] = (struct fpisa_query_worker){.fd = -1, .fetching = 1, .heard_ns = fpisa_now()};
		*w = (struct fpisa_query_worker){.name = "w", .fd = -1, .ready = !owes, .done = !owes, .fetching = owes};
		w->heard_ns = fpisa_now() - (late ? limit : limit - 500000000);
		assert_int_equal(fpisa_query_work(q, 0), owes && late ? -ETIMEDOUT : 0);
		if (owes && late)
			assert_non_null(strstr(fpisa_error(), "worker w: no answer in 300 ms; "));
		fpisa_query_close(q);
	}
}

/* Give a worker a connection, and return the worker's end of it. A row has one text column that may be NULL. */
static int connect_worker(struct fpisa_query_worker *w)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fpisa_control_call(&w->control, pair[0], NULL), 0);
	w->columns = calloc(1, sizeof(*w->columns));
	w->is.columns = 1;
	return pair[1];
}

/*
 * If the caller has too little room for a row, a silent worker is still named. A worker that waits for room, or for a
 * message of the master, is not named.
 */
static void silent_beside_others(void **state)
{
	enum { NOTHING, UNREAD, UNSENT, CASES };
	const struct fpisa_manager_message row = {0};

	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct fpisa_query *q = master(FPISA_QUERY_SCAN);
		struct fpisa_query_worker *w = &q->worker[1];
		int far = connect_worker(w);

		q->n_workers = 2;
		q->phase = FPISA_PHASE_ROWS;
		q->options.memory = q->stream_n = 1;
		strcpy(w->name, "w");
		w->fd = -1;
		w->heard_ns = fpisa_now() - TIMEOUT_MS * 1000000ull - 5000000000ull;
		if (i == UNREAD)
			assert_int_equal(write(far, &row, sizeof(row)), sizeof(row));
		if (i == UNSENT)
			assert_int_equal(fpisa_control_send(&w->control, FPISA_CONTROL_FETCH, &row, 8), 0);
		assert_int_equal(fpisa_query_work(q, 0), i == NOTHING ? -ETIMEDOUT : 1);
		if (i == NOTHING)
			assert_non_null(strstr(fpisa_error(), "worker w: no answer in 300 ms; "));
		else
			assert_true(w->heard_ns + 5000000000ull > fpisa_now());
		close(far);
		fpisa_query_close(q);
	}
}

/* Workers get the room for rows in turn, even if the caller makes little room at a time. */
static void room_in_turn(void **state)
{
	struct fpisa_query *q = master(FPISA_QUERY_SCAN);
	struct fpisa_manager_message m = {.magic = FPISA_CONTROL_MAGIC,
					  .version = FPISA_CONTROL_VERSION,
					  .type = FPISA_CONTROL_RECORDS,
					  .number = sizeof(uint32_t)};
	const uint32_t null = FPISA_QUERY_NULL;
	int far[3];

	(void)state;
	q->n_workers = 3;
	q->phase = FPISA_PHASE_ROWS;
	q->options.memory = 1;
	memcpy(m.body, &null, sizeof(null));
	for (int i = 0; i < 3; i++) {
		q->worker[i].fd = -1;
		q->worker[i].done = 0;
		q->worker[i].heard_ns = fpisa_now();
		far[i] = connect_worker(&q->worker[i]);
		for (int k = 0; k < 4; k++)
			assert_int_equal(write(far[i], &m, sizeof(m)), sizeof(m));
	}
	for (size_t k = 0; k < 12; k++) {
		q->stream_at = q->stream_n;
		assert_int_equal(fpisa_query_work(q, 0), 1);
		assert_int_equal(q->worker[k % 3].fetched, k / 3 + 1);
	}
	for (int i = 0; i < 3; i++)
		close(far[i]);
	fpisa_query_close(q);
}

/* A worker of an older or a newer version is named, with the remedy, whatever its message contains. */
static void other_version(void **state)
{
	(void)state;
	for (int by = -1; by <= 1; by += 2) {
		struct fpisa_query *q = master(FPISA_QUERY_SCAN);
		struct fpisa_query_worker *w = &q->worker[0];
		const struct fpisa_manager_message m = {.magic = FPISA_CONTROL_MAGIC,
							.version = (__u16)(FPISA_CONTROL_VERSION + by),
							.type = FPISA_CONTROL_READY};
		int far = connect_worker(w);

		q->phase = FPISA_PHASE_ROWS;
		q->options.memory = 1;
		strcpy(w->name, "w");
		w->done = 0;
		w->heard_ns = fpisa_now();
		assert_int_equal(write(far, &m, sizeof(m)), sizeof(m));
		assert_int_equal(fpisa_query_work(q, 0), -EPROTO);
		assert_non_null(strstr(fpisa_error(), "worker w: "));
		assert_non_null(strstr(fpisa_error(), "another version of the protocol"));
		close(far);
		fpisa_query_close(q);
	}
}

/* Check that the text "" is sent. A missing text would mean a column without a name. */
static void empty_texts(void **state)
{
	static const struct {
		const char *name;
		size_t at;
	} texts[] = {{"value", offsetof(struct fpisa_query_options, value)},
		     {"by", offsetof(struct fpisa_query_options, by)},
		     {"columns", offsetof(struct fpisa_query_options, columns)},
		     {"where", offsetof(struct fpisa_query_options, where)},
		     {"join", offsetof(struct fpisa_query_options, join)},
		     {"on", offsetof(struct fpisa_query_options, on)},
		     {"join_where", offsetof(struct fpisa_query_options, join_where)}};
	const char *empty = "";

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct fpisa_query_options o = {.size = sizeof(o), .workers = "127.0.0.1", .table = "t"};
		struct fpisa_query *q = NULL;
		char said[64];

		memcpy((char *)&o + texts[i].at, &empty, sizeof(empty));
		assert_int_equal(fpisa_query_open(&q, &o), -EINVAL);
		snprintf(said, sizeof(said), "options.%s is empty", texts[i].name);
		assert_non_null(strstr(fpisa_error(), said));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(welcomes),	cmocka_unit_test(never_sealed),	 cmocka_unit_test(missing_rows),
		cmocka_unit_test(empty_texts),	cmocka_unit_test(silent_worker), cmocka_unit_test(silent_beside_others),
		cmocka_unit_test(room_in_turn), cmocka_unit_test(other_version),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, open_aggregator, close_aggregator);
}
