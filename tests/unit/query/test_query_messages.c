/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Check messages of workers against the request. Each wrong message is refused with a sentence that names the fault,
 * and the corresponding right message is accepted. libFuzzer tests messages in all states (tests/fuzz/user_master.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa-query.h"
#include "fpisa.h"
#include "lib/base/checksum.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "query/lib/master.h"
#include "vectors.h"

#define NOBODY "the received data is not a message of this protocol; check the address and port"
#define COLUMNS_DIFFER "the worker sent columns other than those requested; run one release on all hosts"

/* -- a master without connections -------------------------------------------------------- */

static struct fpisa_query *ask(uint8_t kind, const char *value, const char *by, const char *columns)
{
	struct fpisa_query *q = calloc(1, sizeof(*q));

	assert_non_null(q);
	q->kind = kind;
	q->options.pruning = FPISA_PRUNING_NONE;
	q->options.limit = kind == FPISA_QUERY_TOPN ? 4 : 0;
	q->options.timeout_ms = 10000;
	q->table = strdup("t");
	q->value = value ? strdup(value) : NULL;
	q->by = by ? strdup(by) : NULL;
	q->columns = columns ? strdup(columns) : NULL;
	q->poll = q->timer = -1;
	q->n_workers = 2;
	q->worker[0].fd = q->worker[1].fd = -1;
	q->attempt = 1;
	assert_int_equal(fpisa_query_reset(q), 0);
	return q;
}

static int hear(struct fpisa_query *q, uint16_t type, const void *content, size_t n)
{
	/* One byte follows a content, as in control.c. */
	uint8_t *copy = calloc(1, n + 1);
	int rc;

	assert_non_null(copy);
	if (n)
		memcpy(copy, content, n);
	rc = fpisa_query_take(q, &q->worker[0], type, copy, n);
	free(copy);
	return rc;
}

/* -- READY ----------------------------------------------------------------------------------- */

struct ready {
	struct fpisa_query_ready is;
	struct fpisa_column column[FPISA_COLUMNS_MOST + 2];
};

static int hear_ready(struct fpisa_query *q, const struct ready *r, size_t n_columns)
{
	return hear(q, FPISA_CONTROL_READY, r, sizeof(r->is) + n_columns * sizeof(r->column[0]));
}

#define REAL FPISA_COLUMN_REAL
#define INT FPISA_COLUMN_INT32
#define DECIMAL FPISA_COLUMN_DECIMAL
#define TEXT FPISA_COLUMN_TEXT

static void ready(void **state)
{
	static const struct {
		uint8_t kind;
		const char *value, *by, *columns;
		struct ready said;
		size_t n;
		const char *why; /* the expected error; NULL: the message is accepted */
	} cases[] = {
		{FPISA_QUERY_SCAN, NULL, NULL, "a,b", {{.columns = 2}, {{"a", INT, 1, 0}, {"b", TEXT, 0, 0}}}, 2, NULL},
		{FPISA_QUERY_SCAN, NULL, NULL, "a,a", {{.columns = 2}, {{"a", INT, 1, 0}, {"a", INT, 1, 0}}}, 2, NULL},
		{FPISA_QUERY_SCAN, NULL, NULL, NULL, {{.columns = 2}, {{"x", INT, 1, 0}, {"y", REAL, 1, 0}}}, 2, NULL},
		{FPISA_QUERY_SCAN, NULL, NULL, "a,b", {{.columns = 1}, {{"a", INT, 1, 0}}}, 1, COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN, NULL, NULL, "a", {{.columns = 2}, {{"a", INT, 1, 0}, {"b", INT, 1, 0}}}, 2, COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN,
		 NULL,
		 NULL,
		 "a,b",
		 {{.columns = 2}, {{"b", INT, 1, 0}, {"a", INT, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN, NULL, NULL, "ab", {{.columns = 1}, {{"a", INT, 1, 0}}}, 1, COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN,
		 NULL,
		 NULL,
		 NULL,
		 {{.columns = 2}, {{"x", INT, 1, 0}, {"x", REAL, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN, NULL, NULL, NULL, {{.columns = 0}, {{"x", INT, 1, 0}}}, 0, COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN,
		 NULL,
		 NULL,
		 "a",
		 {{.keys = 1, .columns = 1}, {{"a", INT, 1, 0}, {"a", INT, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN,
		 NULL,
		 NULL,
		 "a",
		 {{.columns = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", REAL, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_SCAN, NULL, NULL, "a", {{.columns = 1}, {{"a", 7, 1, 0}}}, 1, NOBODY},
		{FPISA_QUERY_SCAN, NULL, NULL, "a", {{.columns = 1}, {{"a", INT, 2, 0}}}, 1, NOBODY},
		{FPISA_QUERY_SCAN, NULL, NULL, "a", {{.columns = 1}, {{"a", INT, 1, 0}}}, 2, NOBODY},
		{FPISA_QUERY_SCAN,
		 NULL,
		 NULL,
		 "a",
		 {{.columns = 0x80000001u, .keys = 0x80000000u}, {{"a", INT, 1, 0}}},
		 1,
		 NOBODY},
		{FPISA_QUERY_TOPN,
		 "v",
		 NULL,
		 "a,v",
		 {{.columns = 2, .values = 1}, {{"a", INT, 1, 0}, {"v", REAL, 0, 0}, {"v", REAL, 0, 0}}},
		 3,
		 NULL},
		{FPISA_QUERY_TOPN,
		 "v",
		 NULL,
		 "a",
		 {{.columns = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", FPISA_COLUMN_DOUBLE, 1, 0}}},
		 2,
		 NULL},
		{FPISA_QUERY_TOPN,
		 "v",
		 NULL,
		 "v",
		 {{.columns = 1, .values = 1}, {{"v", DECIMAL, 1, 9, 2}, {"v", DECIMAL, 1, 9, 2}}},
		 2,
		 NULL},
		{FPISA_QUERY_TOPN,
		 "v",
		 NULL,
		 "v",
		 {{.columns = 1, .values = 1}, {{"v", DECIMAL, 1, 9, 3}, {"v", DECIMAL, 1, 9, 2}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_TOPN,
		 "v",
		 NULL,
		 "a",
		 {{.columns = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", TEXT, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_TOPN,
		 "v",
		 NULL,
		 "a,v",
		 {{.columns = 2, .values = 1}, {{"a", INT, 1, 0}, {"v", REAL, 0, 0}, {"v", REAL, 1, 0}}},
		 3,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_TOPN, "v", NULL, "v", {{.columns = 1}, {{"v", TEXT, 1, 0}}}, 1, COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE,
		 "v",
		 "a,b",
		 NULL,
		 {{.keys = 2, .values = 1}, {{"a", INT, 1, 0}, {"b", TEXT, 0, 0}, {"v", REAL, 1, 0}}},
		 3,
		 NULL},
		{FPISA_QUERY_TABLE,
		 "v",
		 "a",
		 NULL,
		 {{.keys = 1, .values = 1}, {{"a", DECIMAL, 1, 15, 2}, {"v", DECIMAL, 1, 38, 38}}},
		 2,
		 NULL},
		{FPISA_QUERY_TABLE,
		 "v",
		 "a",
		 NULL,
		 {{.keys = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", DECIMAL, 1, 39, 0}}},
		 2,
		 NOBODY},
		{FPISA_QUERY_TABLE,
		 "v",
		 "a",
		 NULL,
		 {{.keys = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", DECIMAL, 1, 2, 3}}},
		 2,
		 NOBODY},
		{FPISA_QUERY_TABLE,
		 "v",
		 "a",
		 NULL,
		 {{.keys = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", TEXT, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE,
		 NULL,
		 "a",
		 NULL,
		 {{.keys = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", REAL, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE,
		 "v,w",
		 "a",
		 NULL,
		 {{.keys = 1, .values = 2}, {{"a", INT, 1, 0}, {"v", REAL, 1, 0}, {"w", INT, 0, 0}}},
		 3,
		 NULL},
		{FPISA_QUERY_TABLE,
		 "v,w",
		 "a",
		 NULL,
		 {{.keys = 1, .values = 2}, {{"a", INT, 1, 0}, {"w", REAL, 1, 0}, {"v", REAL, 1, 0}}},
		 3,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE, "v", "a", NULL, {{.keys = 1, .values = 0xffffffffu}, {{"a", INT, 1, 0}}}, 0, NOBODY},
		{FPISA_QUERY_TABLE, NULL, "a", NULL, {{.keys = 1}, {{"a", DECIMAL, 1, 0}}}, 1, NOBODY},
		{FPISA_QUERY_TABLE, NULL, "a", NULL, {{.keys = 1}, {{"a", INT, 1, 5}}}, 1, NOBODY},
		{FPISA_QUERY_TABLE, "v", "a,b", NULL, {{.keys = 1}, {{"a", INT, 1, 0}}}, 1, COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE, "v", "a", NULL, {{.keys = 0}, {{"a", INT, 1, 0}}}, 0, COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE, "v", NULL, NULL, {{.values = 1}, {{"v", REAL, 1, 0}}}, 1, NULL},
		{FPISA_QUERY_TABLE, NULL, NULL, NULL, {{.keys = 1}, {{"a", INT, 1, 0}}}, 1, COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE,
		 NULL,
		 "a",
		 NULL,
		 {{.keys = 1, .columns = 1}, {{"a", INT, 1, 0}, {"b", INT, 1, 0}}},
		 2,
		 COLUMNS_DIFFER},
		{FPISA_QUERY_TABLE,
		 NULL,
		 "a",
		 NULL,
		 {{.keys = 1, .values = 1}, {{"a", INT, 1, 0}, {"v", REAL, 0, 0}}},
		 2,
		 COLUMNS_DIFFER},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fpisa_query *q = ask(cases[i].kind, cases[i].value, cases[i].by, cases[i].columns);
		int rc = hear_ready(q, &cases[i].said, cases[i].n);

		if (rc != (cases[i].why ? -EPROTO : 0) || (cases[i].why && strcmp(fpisa_error(), cases[i].why)))
			fail_msg("case %zu: %d, %s", i, rc, fpisa_error());
		/* A second READY is refused. */
		if (!rc)
			assert_int_equal(hear_ready(q, &cases[i].said, cases[i].n), -EPROTO);
		fpisa_query_close(q);
	}
}

/* -- RECORDS ------------------------------------------------------------------------------------ */

/* Write a record of up to three columns. "-" is NULL. Return the length of the record. */
static size_t put_record(uint8_t *to, const char *const *text, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t len = strcmp(text[i], "-") ? (uint32_t)strlen(text[i]) : FPISA_QUERY_NULL;

		memcpy(to + at, &len, sizeof(len));
		at += sizeof(len);
		if (len != FPISA_QUERY_NULL) {
			memcpy(to + at, text[i], len);
			at += len;
		}
	}
	return at;
}

static struct fpisa_query *scan(const struct fpisa_column *c, uint32_t n)
{
	struct fpisa_query *q = ask(FPISA_QUERY_SCAN, NULL, NULL, NULL);
	struct ready r = {{.columns = n}, {{{0}, 0, 0, 0}}};

	memcpy(r.column, c, n * sizeof(*c));
	assert_int_equal(hear_ready(q, &r, n), 0);
	q->worker[1].columns = calloc(n, sizeof(*c));
	memcpy(q->worker[1].columns, c, n * sizeof(*c));
	q->worker[1].is = q->worker[0].is;
	assert_int_equal(fpisa_query_describe(q), 0);
	q->phase = FPISA_PHASE_ROWS;
	return q;
}

static void values(void **state)
{
	static const struct {
		uint8_t type;
		const char *taken[12], *refused[16];
	} cases[] = {
		{FPISA_COLUMN_INT32,
		 {"0", "-2147483648", "2147483647", "+7", "007"},
		 {"2147483648", "-2147483649", "", "-", "1.0", "1e3", " 1", "1,\"x\":2", "99999999999999999999"}},
		{FPISA_COLUMN_INT64,
		 {"9223372036854775807", "-9223372036854775808"},
		 {"9223372036854775808", "-9223372036854775809", "0x10", "a"}},
		{FPISA_COLUMN_REAL,
		 {"1.5", "-.5", "1.", "1e400", "nan", "NaN", "-inf", "Infinity", "+2E-3"},
		 {"", ".", "e5", "1e", "1e+", "1,5", "0x1p3", "nan(1)", "infin", "1 ", "--1", "1.5]", "null"}},
		{FPISA_COLUMN_DOUBLE, {"17", "1e-400"}, {"1;", "true"}},
		{FPISA_COLUMN_DATE,
		 {"1998-12-31", "2024-02-29", "0001-01-01", "9999-12-31"},
		 {"2023-02-29", "0000-01-01", "1998-13-01", "1998-1-01", "1998-01-32", "1998/01/01", "98-01-01",
		  "1998-01-011"}},
		{FPISA_COLUMN_TIMESTAMP,
		 {"1998-12-31 23:59:59", "2024-02-29T00:00:00.5", "0001-01-01", "9999-12-31 00:00:00.999999"},
		 {"1998-12-31 24:00:00", "1998-12-31 00:60:00", "1998-12-31 00:00:60", "1998-12-31 ",
		  "1998-12-31 00:00", "1998-12-31 00:00:00.", "1998-12-31 00:00:00.1234567", "1998-12-31 0x:00:00",
		  "2023-02-29 00:00:00", "1998-12-31 00:00:00,5", "1998-12-31 00:00:00Z", ""}},
		{FPISA_COLUMN_TEXT, {"", "a, b", "\"'\\", "\xff"}, {NULL}},
	};
	uint8_t record[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fpisa_column c = {"x", cases[i].type, 1, 0};
		struct fpisa_query *q = scan(&c, 1);
		uint32_t len;

		for (int k = 0; k < 12 && cases[i].taken[k]; k++)
			if (hear(q, FPISA_CONTROL_RECORDS, record, put_record(record, &cases[i].taken[k], 1)))
				fail_msg("type %u, '%s': %s", cases[i].type, cases[i].taken[k], fpisa_error());
		for (int k = 0; k < 16 && cases[i].refused[k]; k++) {
			/* the bytes of the text "-" */
			len = (uint32_t)strlen(cases[i].refused[k]);
			memcpy(record, &len, sizeof(len));
			memcpy(record + sizeof(len), cases[i].refused[k], len);
			if (hear(q, FPISA_CONTROL_RECORDS, record, sizeof(len) + len) != -EPROTO)
				fail_msg("type %u takes '%s'", cases[i].type, cases[i].refused[k]);
		}
		/* Send NULL in a column that is not null, and a text with a byte 0. */
		len = FPISA_QUERY_NULL;
		assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, &len, sizeof(len)), -EPROTO);
		assert_non_null(strstr(fpisa_error(), "a row has NULL in column 'x "));
		len = 2;
		memcpy(record, &len, sizeof(len));
		memcpy(record + sizeof(len), "1", 2);
		assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, record, sizeof(len) + len), -EPROTO);
		fpisa_query_close(q);
	}
}

static void records(void **state)
{
	static const struct fpisa_column c[] = {{"a", INT, 1, 0}, {"b", TEXT, 0, 0}};
	static const char *const row[] = {"1", "-"}, *const other[] = {"-", "1"};
	struct fpisa_query *q = scan(c, 2);
	struct fpisa_query_done done = {.attempt = 1, .rows = 1, .sent = 1};
	uint8_t bytes[64];
	size_t n = put_record(bytes, row, 2);

	(void)state;
	assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, bytes, n), 0);
	/* Send half a row, half a length, and a length beyond the end. */
	assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, bytes, 5), -EPROTO);
	assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, bytes, n - 1), -EPROTO);
	assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, bytes, 4), -EPROTO);
	assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, bytes, put_record(bytes, other, 2)), -EPROTO);
	/* Send DONE with a wrong number of rows, then with the right number. */
	done.sent = 2;
	assert_int_equal(hear(q, FPISA_CONTROL_DONE, &done, sizeof(done)), -EILSEQ);
	done.sent = 1;
	assert_int_equal(hear(q, FPISA_CONTROL_DONE, &done, sizeof(done)), 0);
	assert_int_equal(hear(q, FPISA_CONTROL_RECORDS, bytes, put_record(bytes, row, 2)), -EPROTO);
	fpisa_query_close(q);
}

/* -- other messages ----------------------------------------------------------------------------- */

static void done(void **state)
{
	static const struct {
		const char *what;
		struct fpisa_query_done said;
		size_t places;
	} lies[] = {
		{"another's rank", {.attempt = 1, .rank = 1}, 0},
		{"no rank", {.attempt = 1, .rank = 7}, 0},
		{"a filter", {.attempt = 1, .filter = 1}, 0},
		{"join keys", {.attempt = 1, .keys = 1}, 0},
		{"more NULLs than rows", {.attempt = 1, .rows = 1, .nulls = 2}, 0},
		{"places of more NULLs than there are", {.attempt = 1, .rows = 9, .nulls = 1}, 2},
		{"places of more NULLs than were asked for", {.attempt = 1, .rows = 9, .nulls = 9}, 5},
	};
	struct {
		struct fpisa_query_done said;
		uint64_t place[8];
	} content = {{0}, {0}};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct fpisa_query *q = ask(FPISA_QUERY_TOPN, "v", NULL, "a");

		q->phase = FPISA_PHASE_ROWS;
		q->worker[0].is.values = 1;
		q->worker[0].columns = calloc(1, sizeof(*q->worker[0].columns));
		content.said = lies[i].said;
		if (hear(q, FPISA_CONTROL_DONE, &content, sizeof(content.said) + 8 * lies[i].places) != -EPROTO)
			fail_msg("it may say %s", lies[i].what);
		content.said = (struct fpisa_query_done){.attempt = 1, .rows = 9, .nulls = 5};
		assert_int_equal(hear(q, FPISA_CONTROL_DONE, &content, sizeof(content.said) + 8 * 4), 0);
		fpisa_query_close(q);
	}
}

/* -- rows ------------------------------------------------------------------------------------ */

static int frames_given;
static struct fpisa_hdr *given;
static struct {
	struct fpisa_hdr h;
	uint8_t row[FPISA_QUERY_PAD]; /* not aligned to 8 bytes */
} frame;

static int fake_send(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	(void)t;
	(void)out;
	(void)n;
	return 0;
}

static int fake_receive(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns)
{
	(void)t;
	(void)timeout_ns;
	if (!given)
		return 0;
	*in = (struct fpisa_in){given, sizeof(frame)};
	given = NULL;
	frames_given++;
	return 1;
}

static void fake_close(struct fpisa_transport *t)
{
	(void)t;
}

static int give_row(struct fpisa_query *q, uint64_t sequence, uint64_t place)
{
	struct fpisa_sum sum = {0};

	frame.h = (struct fpisa_hdr){.magic = FPISA_MAGIC,
				     .version = FPISA_VERSION,
				     .type = FPISA_TYPE_ROWS,
				     .generation = 1,
				     .secret = 77,
				     .count = 1,
				     .chunk = sequence};
	memcpy(frame.row, &place, sizeof(place));
	memcpy(frame.row + 8, &(uint64_t){1ull << 32 | 0x3f800000}, 8);
	fpisa_sum_words(&sum, &frame.h, FPISA_SUM_HDR_WORDS);
	fpisa_checksum_many(&sum, frame.row, FPISA_QUERY_PAD / 8);
	frame.h.checksum = fpisa_sum_fold(&sum);
	given = &frame.h;
	return fpisa_query_frames(q, fpisa_now());
}

static const struct fpisa_transport_ops ops = {.send = fake_send, .receive = fake_receive, .close = fake_close};

/*
 * Check that settled rows do not change. After DONE, new rows of a worker are refused, and repeated rows are
 * acknowledged.
 */
static void settled(void **state)
{
	struct fpisa_transport t = {.ops = &ops};
	struct fpisa_query *q = ask(FPISA_QUERY_TOPN, "v", NULL, "a");
	struct fpisa_query_done said = {.attempt = 1, .rows = 1, .sent = 1};

	(void)state;
	q->phase = FPISA_PHASE_ROWS;
	q->n_workers = 1;
	q->worker[0].direct.t = &t;
	fpisa_member_direct(&q->worker[0].direct, 1, 0, 8, FPISA_FORM_REAL, 77);
	assert_int_equal(give_row(q, 1, 5), 0);
	assert_int_equal(give_row(q, 1, 5), 0);
	assert_int_equal(q->received, 1);
	assert_int_equal(hear(q, FPISA_CONTROL_DONE, &said, sizeof(said)), 0);
	for (uint64_t i = 2; i < 9; i++)
		assert_int_equal(give_row(q, i, i), 0);
	assert_int_equal(frames_given, 9);
	assert_int_equal(q->received, 1);
	assert_int_equal(q->top.n, 1);
	fpisa_query_close(q);
}

/*
 * Check that the positions of a join's rows use all available room, but not more, whichever workers the rows come from.
 */
static void places(void **state)
{
	struct fpisa_transport t = {.ops = &ops};
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int round = 0; round < 50; round++) {
		uint32_t n = 1 + vectors_below(&rng, FPISA_QUERY_WORKERS), busy = 1 + vectors_below(&rng, n), from;
		uint64_t most = 1 + vectors_below(&rng, 3000), sequence[FPISA_QUERY_WORKERS] = {0}, i;
		struct fpisa_query *q = ask(FPISA_QUERY_JOIN, NULL, NULL, "a");
		size_t held;
		int rc = 0;

		q->n_workers = n;
		q->phase = FPISA_PHASE_ROWS;
		q->options.memory = 16 * most;
		for (i = 0; i < n; i++) {
			q->worker[i].fd = -1;
			fpisa_member_direct(&q->worker[i].direct, 1, (uint16_t)i, 8, FPISA_FORM_REAL, 77);
		}
		assert_int_equal(fpisa_query_reset(q), 0);
		for (i = 0; !rc; i++) {
			from = vectors_below(&rng, 8) ? vectors_below(&rng, busy) : vectors_below(&rng, n);
			q->worker[from].direct.t = &t;
			rc = give_row(q, ++sequence[from], i);
			q->worker[from].direct.t = NULL;
			held = 0;
			for (uint32_t w = 0; w < n; w++)
				held += q->places[w].room;
			assert_true(held <= most);
		}
		assert_int_equal(rc, -E2BIG);
		assert_int_equal(i, most + 1);
		for (held = 0, from = 0; from < n; from++) {
			held += q->places[from].n;
			for (i = 1; i < q->places[from].n; i++)
				assert_true(q->places[from].place[i - 1] < q->places[from].place[i]);
		}
		assert_int_equal(held, most);
		fpisa_query_close(q);
	}
}

static void lost(void **state)
{
	static const uint32_t attempt = 1;
	struct fpisa_query *q = ask(FPISA_QUERY_SCAN, NULL, NULL, NULL);

	/* Without this check, rows that the caller has taken would be sent again. */
	(void)state;
	q->phase = FPISA_PHASE_ROWS;
	assert_int_equal(hear(q, FPISA_CONTROL_LOST, &attempt, sizeof(attempt)), -EPROTO);
	fpisa_query_close(q);
	q = ask(FPISA_QUERY_TABLE, NULL, "a", NULL);
	q->phase = FPISA_PHASE_ROWS;
	assert_int_equal(hear(q, FPISA_CONTROL_LOST, &attempt, sizeof(attempt)), -EPROTO);
	assert_int_equal(hear(q, FPISA_CONTROL_WORKING, "", 1), -EPROTO);
	assert_int_equal(hear(q, FPISA_CONTROL_WORKING, NULL, 0), 0);
	assert_int_equal(hear(q, FPISA_CONTROL_OPEN, NULL, 0), -EPROTO);
	fpisa_query_close(q);
}

static void failed(void **state)
{
	static const char said[] = "\xea\xff\xff\xff"
				   "t.csv:1:\n\033[2Jno\x7f value";
	struct fpisa_query *q = ask(FPISA_QUERY_SCAN, NULL, NULL, NULL);

	(void)state;
	assert_int_equal(hear(q, FPISA_CONTROL_FAILED, said, sizeof(said)), -22);
	assert_string_equal(fpisa_error(), "t.csv:1:??[2Jno? value");
	/* Send an error without its final 0, without a sentence, and without an errno. */
	assert_int_equal(hear(q, FPISA_CONTROL_FAILED, said, 7), -22);
	assert_string_equal(fpisa_error(), "t.c");
	assert_int_equal(hear(q, FPISA_CONTROL_FAILED, said, 4), -EPROTO);
	assert_int_equal(hear(q, FPISA_CONTROL_FAILED, "\1\0\0\0x", 6), -EPROTO);
	fpisa_query_close(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ready), cmocka_unit_test(values),  cmocka_unit_test(records),
		cmocka_unit_test(done),	 cmocka_unit_test(settled), cmocka_unit_test(places),
		cmocka_unit_test(lost),	 cmocka_unit_test(failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
