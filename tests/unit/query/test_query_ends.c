/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test parts of a query's worker and master: groups that grow, exact terms, the first rows, contents over TLS, and
 * incomplete answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "fpisa-query.h"
#include "fpisa.h"
#include "fpisa/query/order.h"
#include "lib/base/clock.h"
#include "query/lib/control.h"
#include "query/lib/groups.h"
#include "query/lib/master.h"
#include "query/lib/top.h"
#include "vectors.h"

static struct vectors_rng rng;

/* Return an ordinary, subnormal or largest value, and sometimes a special value. */
static uint32_t random_value(void)
{
	static const uint32_t ends[] = {0, 1, 0x007fffff, 0x7f7fffff, 0x7149f2ca, 0x3f800000, 0x7f800000, 0x7fc00001};
	uint32_t kind = vectors_below(&rng, 64), sign = vectors_below(&rng, 2) << 31;

	if (kind < 2)
		return ends[6 + kind] | sign;
	return sign | (kind < 30 ? ends[vectors_below(&rng, 6)] : (uint32_t)vectors_next(&rng) & 0x7effffff);
}

struct expected {
	union fpisa_superacc_full sum;
	uint32_t min, max;
	uint64_t count;
};

static const struct fpisa_groups reals = {.config = {.form = FPISA_FORM_REAL}};

static void check_group(const struct fpisa_query_group *g, const struct expected *x)
{
	const struct fpisa_format f = fpisa_superacc_format(FPISA_FORMAT_FP32),
				  wide = fpisa_superacc_format(FPISA_FORMAT_FP64);
	union fpisa_superacc_full sum;
	uint32_t flags = 0;

	fpisa_groups_sum(&reals, g, &sum);
	assert_true(g->count == x->count);
	assert_int_equal(g->min, x->min);
	assert_int_equal(g->max, x->max);
	assert_true(fpisa_superacc_read(&sum.acc, f, f, 0, &flags) == fpisa_superacc_read(&x->sum.acc, f, f, 0, &flags));
	assert_true(fpisa_superacc_read(&sum.acc, f, wide, 1, &flags) ==
		    fpisa_superacc_read(&x->sum.acc, f, wide, 1, &flags));
}

/* Send a group as a worker that prunes would send it. */
static void send_terms(struct fpisa_groups *to, const struct fpisa_query_group *g)
{
	__u64 term[FPISA_EXPANSION_TERMS];
	struct fpisa_row r = {.count = FPISA_ROW_NO_SUM};
	union fpisa_superacc_full sum;
	uint64_t left = g->count;
	int n, all = 0;

	memcpy(r.key, g->key, sizeof(r.key));
	r.value = fpisa_order_value(g->min);
	assert_int_equal(fpisa_groups_add(to, &r), 0);
	r.value = fpisa_order_value(g->max);
	assert_int_equal(fpisa_groups_add(to, &r), 0);
	fpisa_groups_sum(&reals, g, &sum);
	while ((n = fpisa_group_terms(&sum, fpisa_superacc_format(FPISA_FORMAT_FP32), term))) {
		for (int i = 0; i < n; i++) {
			r.value = (uint32_t)term[i];
			r.count = FPISA_ROW_NO_ORDER | (uint32_t)left;
			left = 0;
			assert_int_equal(fpisa_groups_add(to, &r), 0);
		}
		all += n;
		/* The group has at most as many terms as rows, except for an expansion at the end. */
		assert_true((uint64_t)all <= g->count + 13);
	}
}

static void groups(void **state)
{
	enum { KEYS = 3000, ROWS = 60000 };
	const struct fpisa_format f = fpisa_superacc_format(FPISA_FORMAT_FP32);
	struct expected *x = calloc(KEYS, sizeof(*x));
	struct fpisa_groups g, merged;

	(void)state;
	assert_non_null(x);
	assert_int_equal(fpisa_groups_init(&g, 16, FPISA_FORM_REAL, 0), 0);
	assert_int_equal(fpisa_groups_init(&merged, 16, FPISA_FORM_REAL, 0), 0);
	for (uint32_t k = 0; k < KEYS; k++) {
		fpisa_superacc_init(&x[k].sum.acc, sizeof(x[k].sum));
		x[k].sum.acc.limbs = (uint16_t)fpisa_superacc_most(f);
		x[k].min = ~0u;
	}
	for (int i = 0; i < ROWS; i++) {
		uint32_t k = vectors_below(&rng, KEYS), value = random_value(), place = fpisa_order_key(value);
		struct fpisa_row r = {.key = {k % 7, k}, .value = value, .count = 1};

		assert_int_equal(fpisa_groups_add(&g, &r), 0);
		assert_int_equal(fpisa_superacc_add(&x[k].sum.acc, value, f, 0), 0);
		x[k].count++;
		x[k].min = place < x[k].min ? place : x[k].min;
		x[k].max = place > x[k].max ? place : x[k].max;
	}
	for (uint32_t i = 0; i < g.state.used; i++) {
		check_group(&g.group[i], &x[g.group[i].key[1]]);
		send_terms(&merged, &g.group[i]);
	}
	assert_int_equal(merged.state.used, g.state.used);
	for (uint32_t i = 0; i < merged.state.used; i++)
		check_group(&merged.group[i], &x[merged.group[i].key[1]]);
	/* A key that is already in the table is not inserted again. */
	assert_int_equal(fpisa_groups_put(&merged, &g.group[0]), -EEXIST);
	fpisa_groups_free(&merged);
	assert_int_equal(fpisa_groups_init(&merged, 16, FPISA_FORM_REAL, 0), 0);
	for (uint32_t i = 0; i < g.state.used; i++)
		assert_int_equal(fpisa_groups_put(&merged, &g.group[i]), 0);
	for (uint32_t i = 0; i < merged.state.used; i++)
		check_group(&merged.group[i], &x[merged.group[i].key[1]]);
	fpisa_groups_free(&merged);
	fpisa_groups_free(&g);
	free(x);
}

/* Check that groups take at most the permitted memory, and that existing groups stay. */
static void memory_of_groups(void **state)
{
	(void)state;
	for (uint64_t most = 1 << 12; most <= 1 << 23; most *= 2) {
		struct fpisa_groups g;
		uint64_t n = 0, bytes;
		int rc = 0;

		assert_int_equal(fpisa_groups_init(&g, 8, FPISA_FORM_REAL, most), 0);
		while (!rc) {
			struct fpisa_row r = {.key = {n}, .count = 1};

			rc = fpisa_groups_add(&g, &r);
			n += !rc;
		}
		assert_int_equal(rc, -ENOMEM);
		assert_non_null(strstr(fpisa_error(), "keys, which do not fit options.memory ("));
		assert_int_equal(n, g.state.used);
		bytes = g.config.limit * sizeof(*g.group) + (g.config.bucket_mask + 1ull) * sizeof(*g.buckets);
		/* The first 256 groups always fit. Each group beyond them takes at most 200 bytes. */
		assert_true(n == FPISA_GROUPS_FIRST ? most < 1 << 17 : bytes <= most && n * 400 > most);
		fpisa_groups_free(&g);
	}
}

static int compare(const void *a, const void *b)
{
	const struct fpisa_top_row *x = a, *y = b;

	return x->place != y->place ? (x->place < y->place) - (x->place > y->place) :
				      (x->row > y->row) - (x->row < y->row);
}

static void first_rows(void **state)
{
	(void)state;
	for (int round = 0; round < 30; round++) {
		uint32_t n = vectors_below(&rng, 8000), limit = 1 + vectors_below(&rng, round % 2 ? 20 : 3000);
		struct fpisa_top_row *all = malloc((n + 1) * sizeof(*all));
		struct fpisa_top t;

		assert_non_null(all);
		assert_int_equal(fpisa_top_init(&t, limit), 0);
		for (uint32_t i = 0; i < n; i++) {
			all[i] = (struct fpisa_top_row){
				.place = round % 3 ? (uint32_t)vectors_next(&rng) : vectors_below(&rng, 5), .row = i};
			fpisa_top_add(&t, &all[i]);
		}
		fpisa_top_settle(&t);
		qsort(all, n, sizeof(*all), compare);
		assert_int_equal(t.n, n < limit ? n : limit);
		for (uint32_t i = 0; i < t.n; i++)
			assert_true(t.rows[i].place == all[i].place && t.rows[i].row == all[i].row);
		fpisa_top_free(&t);
		free(all);
	}
}

/* -- first rows by values of 8 bytes or more -------------------------------------- */

static double double_of(const struct fpisa_row *r)
{
	double x;

	memcpy(&x, r->wide, sizeof(x));
	return x;
}

static __int128 integer_of(const struct fpisa_row *r)
{
	return (__int128)((unsigned __int128)r->wide[1] << 64 | r->wide[0]);
}

/* Compare in SQL's order. Return a number below, equal to or above zero. */
static int compare_values(const struct fpisa_row *a, const struct fpisa_row *b, uint32_t form)
{
	double x = double_of(a), y = double_of(b);

	if (form != FPISA_FORM_DOUBLE)
		return (integer_of(a) > integer_of(b)) - (integer_of(a) < integer_of(b));
	if (isnan(x) || isnan(y))
		return isnan(x) - isnan(y);
	return (x > y) - (x < y);
}

/* Make a row with a value of any magnitude. Some values differ in their last bits only, and some are equal. */
static struct fpisa_row wide_row(uint32_t form, uint64_t row)
{
	static const double hard[] = {
		0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN, 5e-324, -5e-324, 1.7976931348623157e308};
	static const __int128 ends[] = {0, -1, INT64_MAX, INT64_MIN};
	const uint32_t kind = vectors_below(&rng, 4);
	__int128 n = (__int128)((unsigned __int128)vectors_next(&rng) << 64 | vectors_next(&rng)) >>
		     vectors_below(&rng, 127);
	struct fpisa_row r = {.key = {row}, .count = 1};
	double x;

	n = kind == 0 ? ends[vectors_below(&rng, 4)] : kind == 1 ? ((__int128)1 << 40) + n % 50 : n;
	n = form == FPISA_FORM_INT64 ? (int64_t)n : n;
	r.wide[0] = (uint64_t)n;
	r.wide[1] = (uint64_t)(n >> 64);
	if (form != FPISA_FORM_DOUBLE)
		return r;
	x = kind == 0 ? hard[vectors_below(&rng, 9)] : kind == 1 ? 1e9 + (double)(n % 50) * 0x1p-20 : 0;
	r.wide[1] = 0;
	if (kind < 2)
		memcpy(r.wide, &x, sizeof(x));
	else
		r.wide[0] = vectors_next(&rng);
	return r;
}

static const uint32_t forms[] = {FPISA_FORM_DOUBLE, FPISA_FORM_INT64, FPISA_FORM_INT128};

/* The short place rises with the value. If a short place is exact, values with this short place are equal. */
static void short_places(void **state)
{
	uint32_t exact = 0;

	(void)state;
	for (int i = 0; i < 300000; i++) {
		const uint32_t form = forms[i % 3];
		const struct fpisa_row a = wide_row(form, 0), b = wide_row(form, 0);
		const uint32_t x = fpisa_short_place(&a, form), y = fpisa_short_place(&b, form);
		const int order = compare_values(&a, &b, form);

		assert_true(order < 0 ? x <= y : order > 0 ? x >= y : x == y);
		assert_int_equal(fpisa_short_is_exact(form, x), fpisa_short_is_exact(form, ~x));
		if (form == FPISA_FORM_DOUBLE)
			continue;
		assert_int_equal(fpisa_short_is_exact(form, x),
				 integer_of(&a) >= -(1 << 25) && integer_of(&a) < 1 << 25);
		assert_true(order == 0 || x != y || !fpisa_short_is_exact(form, x));
		exact += fpisa_short_is_exact(form, x) != 0;
	}
	assert_true(exact);
}

static uint32_t sorted_form;
static int sorted_ascending;

static int compare_wide(const void *a, const void *b)
{
	const struct fpisa_row *x = a, *y = b;
	int order = compare_values(y, x, sorted_form) * (sorted_ascending ? -1 : 1);

	return order ? order : (x->key[0] > y->key[0]) - (x->key[0] < y->key[0]);
}

/* The first rows are those of a sort by all bits, and have the values that the rows had. */
static void first_wide_rows(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		const uint32_t n = vectors_below(&rng, 6000), limit = 1 + vectors_below(&rng, round % 2 ? 20 : 2000);
		struct fpisa_row *all = malloc((n + 1) * sizeof(*all));
		struct fpisa_top t;

		sorted_form = forms[round % 3];
		sorted_ascending = round % 2;
		assert_non_null(all);
		assert_int_equal(fpisa_top_init(&t, limit), 0);
		for (uint32_t i = 0; i < n; i++) {
			struct fpisa_top_row row;

			all[i] = wide_row(sorted_form, i);
			row = fpisa_top_row_of(&all[i], sorted_form, sorted_ascending);
			fpisa_top_add(&t, &row);
		}
		fpisa_top_settle(&t);
		qsort(all, n, sizeof(*all), compare_wide);
		assert_int_equal(t.n, n < limit ? n : limit);
		for (uint32_t i = 0; i < t.n; i++) {
			const struct fpisa_row back = fpisa_top_row_back(&t.rows[i], sorted_form, sorted_ascending);

			assert_int_equal(back.key[0], all[i].key[0]);
			assert_int_equal(compare_values(&back, &all[i], sorted_form), 0);
			assert_int_equal(back.value, fpisa_short_place(&all[i], sorted_form));
		}
		fpisa_top_free(&t);
		free(all);
	}
}

/*
 * Check that the number of rows that workers sent equals the number of absorbed and received rows. One row more is an
 * error. One row less is an error unless rows are pruned.
 */
static void counts_agree(void **state)
{
	static const struct {
		uint8_t kind, pruning;
	} way[] = {
		{FPISA_QUERY_SCAN, FPISA_PRUNING_NONE},	   {FPISA_QUERY_TOPN, FPISA_PRUNING_WORKERS},
		{FPISA_QUERY_TABLE, FPISA_PRUNING_NONE},   {FPISA_QUERY_TABLE, FPISA_PRUNING_NETWORK},
		{FPISA_QUERY_TOPN, FPISA_PRUNING_NETWORK},
	};

	(void)state;
	for (int i = 0; i < 4000; i++) {
		struct fpisa_query *q = calloc(1, sizeof(*q));
		int kind = i % 5, off = (int)vectors_below(&rng, 3) - 1;

		assert_non_null(q);
		q->kind = way[kind].kind;
		q->options.pruning = way[kind].pruning;
		q->n_workers = 1 + vectors_below(&rng, 5);
		for (uint32_t w = 0; w < q->n_workers; w++) {
			struct fpisa_query_done *said = &q->worker[w].said;

			said->sent = 1 + vectors_below(&rng, 1000);
			said->weight = said->sent * (1 + vectors_below(&rng, 3));
			q->received += said->sent;
			q->weight += said->weight;
		}
		if (kind == 3) {
			q->absorbed = vectors_below(&rng, (uint32_t)q->weight);
			q->weight -= q->absorbed;
			q->received = vectors_below(&rng, (uint32_t)q->received + 1);
		}
		*(q->kind == FPISA_QUERY_TABLE ? &q->weight : &q->received) += (uint64_t)off;
		assert_int_equal(fpisa_query_check(q), off > 0 || (off && kind != 4) ? -EILSEQ : 0);
		free(q);
	}
}

/* Check that the aggregator's Nth row is among the master's rows, or that rows are missing. */
static void certificate(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		struct fpisa_query *q = calloc(1, sizeof(*q));
		uint32_t limit = 1 + vectors_below(&rng, 50), n = vectors_below(&rng, 100), equal = i % 3 == 0;
		uint64_t bar;

		assert_non_null(q);
		q->member.limit = limit;
		assert_int_equal(fpisa_top_init(&q->top, limit), 0);
		for (uint32_t row = 0; row < n; row++) {
			const struct fpisa_top_row r = {
				.place = equal ? vectors_below(&rng, 3) : (uint32_t)vectors_next(&rng), .row = row};

			fpisa_top_add(&q->top, &r);
		}
		fpisa_top_settle(&q->top);
		bar = n < limit ? 1 + vectors_below(&rng, 10) : (uint64_t)q->top.rows[limit - 1].place + 2;
		assert_int_equal(fpisa_query_certify(q, bar), -EILSEQ);
		assert_int_equal(q->certified, 0);
		assert_int_equal(fpisa_query_certify(q, n < limit ? 0 : bar - 1), 0);
		assert_int_equal(q->certified, 1);
		fpisa_top_free(&q->top);
		free(q);
	}
}

static int pair(struct fpisa_control_channel *worker, struct fpisa_control_channel *master,
		const struct fpisa_psks *keys, const struct fpisa_psk *psk)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(fpisa_control_serve(worker, fd[0], keys), 0);
	return fpisa_control_call(master, fd[1], psk);
}

/* The READY of a worker with one column */
static const struct __attribute__((packed)) {
	struct fpisa_query_ready is;
	struct fpisa_column column;
} ready = {{.columns = 1}, {.type = FPISA_COLUMN_INT32, .name = "k"}};

/* Create a query for all rows, with the workers' ends of its connections. */
static struct fpisa_query *scan(struct fpisa_control_channel *end, uint32_t workers)
{
	static struct fpisa_psks keys = {.n = 1, .psk = {{.name = "n", .id = "00000001", .secret = "s"}}};
	struct fpisa_query *q = calloc(1, sizeof(*q));
	struct epoll_event timer = {.events = EPOLLIN, .data.ptr = &q->timer};

	q->kind = FPISA_QUERY_SCAN;
	q->table = strdup("t");
	q->options = (struct fpisa_query_options){.pruning = FPISA_PRUNING_NONE, .timeout_ms = 100000};
	q->poll = epoll_create1(EPOLL_CLOEXEC);
	q->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	assert_int_equal(epoll_ctl(q->poll, EPOLL_CTL_ADD, q->timer, &timer), 0);
	q->progress_ns = fpisa_now();
	q->n_workers = workers;
	for (uint32_t i = 0; i < workers; i++) {
		struct fpisa_query_worker *w = &q->worker[i];
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = w};

		w->fd = -1;
		w->heard_ns = q->progress_ns;
		if (pair(&end[i], &w->control, &keys, &keys.psk[0]))
			skip(); /* built without GnuTLS */
		assert_int_equal(epoll_ctl(q->poll, EPOLL_CTL_ADD, fpisa_channel_fd(w->control.channel), &e), 0);
	}
	return q;
}

/*
 * Check that messages to workers are sent in the same turn, or make the next turn begin at once, so that no message
 * waits for a timer.
 */
static void nothing_waits_unsent(void **state)
{
	enum { WORKERS = 40 }; /* more workers than one turn handles, so that some wait for the next turn */
	static struct fpisa_control_channel end[WORKERS];
	struct fpisa_query *q = scan(end, WORKERS);
	int started = 0;

	(void)state;
	for (int turn = 0, said = 0; started < WORKERS; turn++) {
		struct pollfd p = {.fd = q->poll, .events = POLLIN};
		int waits = 0, open = 0;

		assert_true(turn < 1000);
		assert_int_equal(fpisa_query_work(q, 0), 0);
		for (int i = 0; i < WORKERS; i++)
			waits += fpisa_channel_open(q->worker[i].control.channel) &&
				 fpisa_control_waiting(&q->worker[i].control);
		if (waits)
			assert_int_equal(poll(&p, 1, 0), 1);
		for (int i = 0; i < WORKERS; i++) {
			const __u8 *got;
			__u16 type;
			size_t n;
			int rc = fpisa_control_work(&end[i], &type, &got, &n);

			assert_true(rc >= 0);
			started += rc && type == FPISA_CONTROL_START;
			open += fpisa_channel_open(end[i].channel);
		}
		for (int i = 0; !said && open == WORKERS && i < WORKERS; i++)
			assert_int_equal(fpisa_control_send(&end[i], FPISA_CONTROL_READY, &ready, sizeof(ready)) ?:
						 fpisa_control_flush(&end[i]),
					 0);
		said = open == WORKERS;
	}
	fpisa_query_close(q);
	for (int i = 0; i < WORKERS; i++)
		fpisa_control_close(&end[i]);
}

/* Send all messages of a worker with 500 rows after START. */
static void say_rows(struct fpisa_control_channel *end)
{
	struct fpisa_query_done done = {.attempt = 1, .rows = 500, .sent = 500, .weight = 500};

	for (uint32_t i = 0; i < 500; i++) {
		char record[16];
		uint32_t len = (uint32_t)snprintf(record + sizeof(len), sizeof(record) - sizeof(len), "%u", i);

		memcpy(record, &len, sizeof(len));
		assert_int_equal(fpisa_control_send(end, FPISA_CONTROL_RECORDS, record, sizeof(len) + len), 0);
	}
	assert_int_equal(fpisa_control_send(end, FPISA_CONTROL_DONE, &done, sizeof(done)), 0);
}

/* Run both ends of the connection until the worker gets START. */
static void begin(struct fpisa_query *q, struct fpisa_control_channel *end)
{
	const __u8 *got;
	__u16 type = 0;
	int said = 0;
	size_t n;

	for (int turn = 0; type != FPISA_CONTROL_START; turn++) {
		assert_true(turn < 1000);
		assert_int_equal(fpisa_query_work(q, 0), 0);
		assert_true(fpisa_control_work(end, &type, &got, &n) >= 0);
		if (said || !fpisa_channel_open(end->channel))
			continue;
		said = 1;
		assert_int_equal(fpisa_control_send(end, FPISA_CONTROL_READY, &ready, sizeof(ready)) ?:
					 fpisa_control_flush(end),
				 0);
	}
}

/*
 * Check that a caller who only polls the descriptor gets all rows without waiting for a timer, although the worker has
 * sent more than memory holds.
 */
static void rows_beyond_memory(void **state)
{
	struct fpisa_control_channel end;
	struct fpisa_query *q = scan(&end, 1);
	struct pollfd p = {.fd = q->poll, .events = POLLIN};
	const char *const *row;
	const __u8 *got;
	uint64_t n = 0;
	size_t bytes;
	__u16 type;
	int rc = 0;

	(void)state;
	q->options.memory = 100;
	begin(q, &end);
	say_rows(&end);
	while (rc != 2) {
		assert_int_equal(fpisa_control_work(&end, &type, &got, &bytes), 0);
		assert_int_equal(poll(&p, 1, 20000), 1);
		rc = fpisa_query_work(q, 0);
		assert_true(rc >= 0);
		for (; fpisa_query_next(q, &row) > 0; n++)
			assert_int_equal(strtoull(row[0], NULL, 10), n);
	}
	assert_int_equal(n, 500);
	fpisa_query_close(q);
	fpisa_control_close(&end);
}

/* Return three groups of a sort, one row each, then an error. */
static int take_three(void *arg, void *record, size_t size)
{
	struct fpisa_query_group group = {.count = 1};
	uint32_t *taken = arg;

	assert_int_equal(size, sizeof(group));
	group.key[0] = ++*taken;
	memcpy(record, &group, size);
	return *taken > 3 ? -EIO : 1;
}

static void forget_nothing(void *arg)
{
	(void)arg;
}

/* Check that an incomplete answer ends with the error, at each later call too. */
static void spill_fails(void **state)
{
	static const struct fpisa_query_spill spill = {.take = take_three, .forget = forget_nothing};
	struct fpisa_query *q = calloc(1, sizeof(*q));
	const char *const *row;
	uint32_t taken = 0;

	(void)state;
	q->kind = FPISA_QUERY_TABLE;
	q->poll = q->timer = q->worker[0].fd = -1;
	q->n_workers = 1;
	q->worker[0].is.keys = 1;
	q->worker[0].columns = calloc(1, sizeof(*q->worker[0].columns));
	q->worker[0].columns[0] = (struct fpisa_column){.type = FPISA_COLUMN_INT32, .not_null = 1, .name = "k"};
	q->options = (struct fpisa_query_options){.spill = &spill, .spill_arg = &taken};
	q->by = strdup("k");
	assert_int_equal(fpisa_query_describe(q), 0);
	assert_int_equal(fpisa_groups_init(&q->groups, 4, FPISA_FORM_REAL, 0), 0);
	q->groups.spill = &spill;
	q->groups.spill_arg = &taken;
	q->groups.spilled = 1;
	assert_int_equal(fpisa_query_settle(q), 0);
	q->phase = FPISA_PHASE_DONE;
	assert_int_equal(fpisa_query_work(q, 0), 2);
	assert_int_equal(fpisa_query_next(q, &row), 1);
	assert_int_equal(fpisa_query_next(q, &row), 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fpisa_query_next(q, &row), -EIO);
		assert_string_equal(fpisa_query_error(),
				    "cannot write the keys that do not fit options.memory: Input/output error");
		assert_int_equal(fpisa_query_work(q, 0), -EIO);
	}
	fpisa_query_close(q);
}

/* Check that contents of any length arrive whole and in order, in both directions at once. */
static void contents(void **state)
{
	enum { MOST = 100000, CONTENTS = 60 };
	static struct fpisa_psks keys = {.n = 1, .psk = {{.name = "n", .id = "00000001", .secret = "s"}}};
	struct fpisa_psk other = keys.psk[0];
	struct fpisa_control_channel end[2];
	static unsigned char sent[CONTENTS][MOST];
	size_t size[CONTENTS];
	int got[2] = {0}, rc = 0;
	const __u8 *content;
	__u16 type;
	size_t n;

	(void)state;
	if (pair(&end[0], &end[1], &keys, &keys.psk[0]))
		skip(); /* built without GnuTLS */
	for (int i = 0; i < CONTENTS; i++) {
		size[i] = i % 3 ? vectors_below(&rng, i % 2 ? 500 : MOST) :
				  (size_t)vectors_below(&rng, 3) * FPISA_CONTROL_BODY;
		for (size_t k = 0; k < size[i]; k++)
			sent[i][k] = (unsigned char)vectors_next(&rng);
		assert_int_equal(fpisa_control_send(&end[0], FPISA_CONTROL_RECORDS, sent[i], size[i]), 0);
		assert_int_equal(fpisa_control_send(&end[1], FPISA_CONTROL_FETCH, sent[i], size[i]), 0);
	}
	for (int turn = 0; got[0] + got[1] < 2 * CONTENTS; turn++) {
		int i = turn % 2;

		assert_true(turn < 1000000);
		rc = fpisa_control_work(&end[i], &type, &content, &n);
		assert_true(rc >= 0);
		if (!rc)
			continue;
		assert_int_equal(type, i ? FPISA_CONTROL_RECORDS : FPISA_CONTROL_FETCH);
		assert_int_equal(n, size[got[i]]);
		assert_memory_equal(content, sent[got[i]], n);
		got[i]++;
	}
	assert_int_equal(fpisa_control_waiting(&end[0]), 0);
	/* Send the worker's message about a master. */
	assert_int_equal(fpisa_control_send(&end[1], FPISA_CONTROL_DONE, sent[0], 8), 0);
	while (!(rc = fpisa_control_work(&end[0], &type, &content, &n)))
		assert_true(fpisa_control_work(&end[1], &type, &content, &n) >= 0);
	assert_int_equal(rc, -EPROTO);
	fpisa_control_close(&end[0]);
	fpisa_control_close(&end[1]);

	/* Use another key. */
	other.secret[0] ^= 1;
	assert_int_equal(pair(&end[0], &end[1], &keys, &other), 0);
	for (rc = 0; !rc;) {
		rc = fpisa_control_work(&end[0], &type, &content, &n);
		if (!rc)
			rc = fpisa_control_work(&end[1], &type, &content, &n);
	}
	assert_int_equal(rc, -EACCES);
	fpisa_control_close(&end[0]);
	fpisa_control_close(&end[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(memory_of_groups),
		cmocka_unit_test(first_rows),
		cmocka_unit_test(short_places),
		cmocka_unit_test(first_wide_rows),
		cmocka_unit_test(counts_agree),
		cmocka_unit_test(certificate),
		cmocka_unit_test(contents),
		cmocka_unit_test(nothing_waits_unsent),
		cmocka_unit_test(rows_beyond_memory),
		cmocka_unit_test(spill_fails),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
