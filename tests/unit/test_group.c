// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test a group of one rank, whose manager is a thread that answers as each case requires. The rank joins, gets its job,
 * and reconnects to a restarted manager. It gets errors about refusals, and about ranks that have died or left. The
 * aggregator is the server of udp_server.h.
 */
#define _GNU_SOURCE /* for accept4() */
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include "lib/manager/channel.h"
#define TOKEN 77ull /* jobs of groups have a token */
#include "udp_server.h"

#define COUNT 1000

enum trouble {
	NONE,
	REFUSES_RANK,	/* at JOIN */
	REFUSES_JOB,	/* at ASK */
	SAYS_NOTHING,	/* after JOIN */
	WAITS_FOR_RANK, /* after PENDING */
	SAYS_GONE,	/* at ASK */
	SAYS_LEFT,	/* at ASK */
	RESTARTS,	/* after JOINED: the connection ends, and RETURN is answered */
	TAKEN_PORT,	/* at ASK, first a port that another socket has, then a free port */
};

struct manager {
	enum trouble trouble;
	uint32_t size;
	struct server aggregator;
	int listener;
	uint16_t port;
	pthread_t thread;
	int stop, connections, asked, bound, taken, left;
	struct fpisa_manager_join returned;
	struct fpisa_channel *c;
};

static void say(struct manager *m, const struct fpisa_manager_message *msg)
{
	fpisa_channel_send(m->c, msg);
}

static void say_members(struct manager *m, enum fpisa_manager_type type, uint64_t ranks)
{
	struct fpisa_manager_message out = fpisa_manager_message(type);

	out.members.ranks[0] = ranks;
	out.members.cause = type == FPISA_MANAGER_GONE ? FPISA_MANAGER_CLOSED : 0;
	say(m, &out);
}

static void say_joined(struct manager *m)
{
	struct fpisa_manager_message out = fpisa_manager_message(FPISA_MANAGER_JOINED);

	out.joined = (struct fpisa_manager_joined){.group = 5, .secret = 5};
	say(m, &out);
}

static void refuse_it(struct manager *m, enum fpisa_manager_reason reason, uint32_t index, const char *text)
{
	struct fpisa_manager_message out = fpisa_manager_message(FPISA_MANAGER_REFUSED);

	out.refusal.reason = reason;
	out.refusal.index = index;
	snprintf(out.refusal.text, sizeof(out.refusal.text), "%s", text);
	say(m, &out);
}

static void take_join(struct manager *m)
{
	if (m->trouble == REFUSES_RANK)
		refuse_it(m, FPISA_MANAGER_R_rank, FPISA_MANAGER_NO_JOB, "group sums: rank 0 is another process's");
	if (m->trouble == WAITS_FOR_RANK)
		say_members(m, FPISA_MANAGER_PENDING, 1);
	if (m->trouble == REFUSES_RANK || m->trouble == SAYS_NOTHING || m->trouble == WAITS_FOR_RANK)
		return;
	say_joined(m);
}

static void say_bind(struct manager *m, uint32_t index, uint16_t port)
{
	struct fpisa_manager_message out = fpisa_manager_message(FPISA_MANAGER_BIND);

	out.bind = (struct fpisa_manager_bind){.index = index,
					       .port = port,
					       .address = fpisa_ipv4(htonl(INADDR_LOOPBACK)),
					       .aggregator = m->aggregator.port};
	say(m, &out);
}

static void take_ask(struct manager *m, const struct fpisa_manager_ask *ask)
{
	struct fpisa_manager_message left = fpisa_manager_message(FPISA_MANAGER_LEFT);
	uint16_t port = ntohs(m->aggregator.soft.job.rank[0].port);

	m->asked++;
	left.left.ranks[0] = 2;
	if (m->trouble == SAYS_GONE)
		say_members(m, FPISA_MANAGER_GONE, 2);
	if (m->trouble == SAYS_LEFT)
		say(m, &left);
	if (m->trouble == REFUSES_JOB) {
		refuse_it(m, FPISA_MANAGER_R_format, ask->index, "group sums: float32 is not offered here");
		return;
	}
	/* In case TAKEN_PORT a socket keeps the port until BOUND says that it is taken. */
	if (m->trouble != TAKEN_PORT)
		give_port(&m->aggregator, 0);
	say_bind(m, ask->index, port);
}

static void take_bound(struct manager *m, const struct fpisa_manager_bind *bound)
{
	struct fpisa_manager_message out = fpisa_manager_message(FPISA_MANAGER_JOB);
	const struct fpisa_job *j = &m->aggregator.soft.job;

	m->bound++;
	m->taken += bound->taken;
	if (bound->taken) {
		give_port(&m->aggregator, 0);
		say_bind(m, bound->index, ntohs(j->rank[0].port));
		return;
	}
	out.job = (struct fpisa_manager_job){
		.index = bound->index,
		.job = JOB,
		.token = TOKEN,
		.spec = {.format = j->format,
			 .mode = j->mode,
			 .rounding = j->rounding,
			 .pipeline = j->pipeline,
			 .elements = j->elements,
			 .fanout = j->fanout,
			 .window = j->window},
	};
	say(m, &out);
}

/* Handle one message. Return nonzero if the connection has ended. */
static int take(struct manager *m, const struct fpisa_manager_message *in)
{
	struct fpisa_manager_message pong = fpisa_manager_message(FPISA_MANAGER_PONG);

	switch (in->type) {
	case FPISA_MANAGER_JOIN:
		take_join(m);
		return m->trouble == RESTARTS;
	case FPISA_MANAGER_RETURN:
		m->returned = in->join;
		say_joined(m);
		return 0;
	case FPISA_MANAGER_ASK:
		take_ask(m, &in->ask);
		return 0;
	case FPISA_MANAGER_BOUND:
		take_bound(m, &in->bind);
		return 0;
	case FPISA_MANAGER_PING:
		pong.number = in->number;
		say(m, &pong);
		return 0;
	case FPISA_MANAGER_LEAVE:
		m->left++;
		return 1;
	default:
		return 0;
	}
}

static void serve_rank(struct manager *m)
{
	struct fpisa_manager_message in;
	int over = 0;

	while (!over && !__atomic_load_n(&m->stop, __ATOMIC_RELAXED)) {
		struct pollfd p = {.fd = fpisa_channel_fd(m->c), .events = fpisa_channel_events(m->c)};
		int rc;

		poll(&p, 1, 20);
		while (!over && (rc = fpisa_channel_work(m->c, &in)) > 0)
			over = take(m, &in);
		over |= rc < 0;
		fpisa_channel_flush(m->c);
	}
	fpisa_channel_close(m->c);
}

static void *manage(void *arg)
{
	struct manager *m = arg;

	while (!__atomic_load_n(&m->stop, __ATOMIC_RELAXED)) {
		struct pollfd p = {.fd = m->listener, .events = POLLIN};
		int fd = poll(&p, 1, 20) > 0 ? accept4(m->listener, NULL, NULL, SOCK_NONBLOCK) : -1;

		if (fd < 0)
			continue;
		m->connections++;
		if (!fpisa_channel_serve(&m->c, fd, NULL, 1))
			serve_rank(m);
	}
	return NULL;
}

static void start(struct manager *m, enum trouble trouble, uint32_t size)
{
	const struct plan plan = {.workers = 1, .elements = 64, .window = 4};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);

	*m = (struct manager){.trouble = trouble, .size = size};
	start_server(&m->aggregator, &plan);
	run_server(&m->aggregator);
	m->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(m->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(m->listener, 4), 0);
	getsockname(m->listener, (struct sockaddr *)&a, &n);
	m->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&m->thread, NULL, manage, m), 0);
}

static void end_manager(struct manager *m)
{
	__atomic_store_n(&m->stop, 1, __ATOMIC_RELAXED);
	pthread_join(m->thread, NULL);
	close(m->listener);
	stop_server(&m->aggregator);
}

static int join_with(struct manager *m, struct fpisa_group **g, int restore)
{
	const struct fpisa_group_options o = {
		.size = sizeof(o), .join_timeout_ms = 1500, .timeout_ms = 5000, .restore = restore};
	char host[32];

	snprintf(host, sizeof(host), "127.0.0.1:%u", m->port);
	return fpisa_group_join(g, host, "sums", 0, m->size, &o);
}

static int join(struct manager *m, struct fpisa_group **g)
{
	return join_with(m, g, 0);
}

/* Check that a sum of one rank equals its own array, and that a barrier uses the group's job. */
static void check_calls(struct fpisa_group *g)
{
	float v[COUNT], sum[COUNT];
	uint32_t flags = 0;

	for (int i = 0; i < COUNT; i++)
		v[i] = (float)(i - 500);
	if (fpisa_group_allreduce(g, v, sum, COUNT, FPISA_FLOAT32, FPISA_SUM, 0, &flags))
		fail_msg("%s", fpisa_error());
	assert_memory_equal(sum, v, sizeof(v));
	if (fpisa_group_barrier(g))
		fail_msg("%s", fpisa_error());
}

static void sums(void **state)
{
	static const enum trouble troubles[] = {NONE, TAKEN_PORT, RESTARTS};

	(void)state;
	for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
		struct fpisa_group *g;
		struct manager m;

		start(&m, troubles[i], 1);
		if (join(&m, &g))
			fail_msg("%s", fpisa_error());
		check_calls(g);
		assert_int_equal(fpisa_group_missing(g), 0);
		fpisa_group_leave(g);
		end_manager(&m);
		assert_int_equal(m.asked, 1);
		assert_int_equal(m.taken, troubles[i] == TAKEN_PORT);
		assert_int_equal(m.bound, 1 + m.taken);
		assert_int_equal(m.left, 1);
		assert_int_equal(m.connections, 1 + (troubles[i] == RESTARTS));
		if (troubles[i] == RESTARTS) {
			assert_string_equal(m.returned.name, "sums");
			assert_true(m.returned.group == 5 && m.returned.secret == 5);
		}
	}
}

/*
 * A fault of a manager, and the resulting error of a join or call: its code, its sentence with the manager's port, and
 * the missing ranks
 */
struct failure {
	enum trouble trouble;
	int rc;
	uint64_t missing;
	const char *says;
};

static void check_sentence(const struct failure *c, const struct manager *m)
{
	char want[128];

	snprintf(want, sizeof(want), c->says, m->port);
	assert_string_equal(fpisa_error(), want);
}

/* Check joins that fail. */
static void not_joined(void **state)
{
	static const struct failure cases[] = {
		{REFUSES_RANK, -EEXIST, 0, "127.0.0.1:%u: group sums: rank 0 is another process's"},
		{SAYS_NOTHING, -ETIMEDOUT, 0,
		 "127.0.0.1:%u: group sums: the manager did not answer in 1500 ms; is fpisa serve running there?"},
		{WAITS_FOR_RANK, -ETIMEDOUT, 2,
		 "127.0.0.1:%u: group sums: rank 1 did not join in 1500 ms; start the missing ranks"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fpisa_group *g;
		struct manager m;

		start(&m, cases[i].trouble, 2);
		assert_int_equal(join(&m, &g), cases[i].rc);
		check_sentence(&cases[i], &m);
		assert_int_equal(fpisa_group_missing(NULL), cases[i].missing);
		assert_null(g);
		end_manager(&m);
	}
}

/*
 * Check that a first in-place call with too many chunks is refused alone, before a job exists, and that the next call
 * is summed.
 */
static void too_long(void **state)
{
	const size_t n = ((1ull << 26) + 1) * 64, size = n * sizeof(float);
	float *v = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct fpisa_group *g;
	struct manager m;

	(void)state;
	assert_ptr_not_equal(v, MAP_FAILED);
	start(&m, NONE, 1);
	if (join(&m, &g))
		fail_msg("%s", fpisa_error());
	assert_int_equal(fpisa_group_allreduce(g, v, v, n, FPISA_FLOAT32, FPISA_SUM, 0, NULL), -ENOMEM);
	check_calls(g);
	fpisa_group_leave(g);
	end_manager(&m);
	munmap(v, size);
}

/*
 * Check a first call of a type that cannot complete, because its job is refused, or a rank has died or left. An array
 * in place keeps its values, with options.restore and without.
 */
static void call_that_fails(const struct failure *c, int restore)
{
	float v[COUNT], before[COUNT];
	struct fpisa_group *g;
	struct manager m;
	uint32_t flags;

	for (int i = 0; i < COUNT; i++)
		before[i] = v[i] = (float)i + 1;
	start(&m, c->trouble, 2);
	if (join_with(&m, &g, restore))
		fail_msg("%s", fpisa_error());
	assert_int_equal(fpisa_group_allreduce(g, v, v, COUNT, FPISA_FLOAT32, FPISA_SUM, 0, &flags), c->rc);
	check_sentence(c, &m);
	assert_int_equal(fpisa_group_missing(g), c->missing);
	assert_memory_equal(v, before, sizeof(v));
	fpisa_group_leave(g);
	end_manager(&m);
}

static void calls_that_fail(void **state)
{
	static const struct failure cases[] = {
		{REFUSES_JOB, -EACCES, 0, "127.0.0.1:%u: group sums: float32 is not offered here"},
		{SAYS_GONE, -ECONNRESET, 2,
		 "127.0.0.1:%u: group sums: rank 1 is gone: its process ended; join again when all ranks run"},
		{SAYS_LEFT, -ECONNRESET, 2,
		 "127.0.0.1:%u: group sums: rank 1 has left the group after 0 calls; make the same calls at all ranks"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int restore = 0; restore < 2; restore++)
			call_that_fails(&cases[i], restore);
}

/* Check arguments that are refused before a connection is opened. */
static void arguments(void **state)
{
	struct fpisa_group_options o = {.size = sizeof(o)};
	struct fpisa_group *g;

	(void)state;
	assert_int_equal(fpisa_group_join(NULL, "127.0.0.1", "a", 0, 1, NULL), -EINVAL);
	assert_int_equal(fpisa_group_join(&g, "127.0.0.1", "a b", 0, 1, NULL), -EINVAL);
	assert_int_equal(fpisa_group_join(&g, "127.0.0.1", "a", 1, 1, NULL), -EINVAL);
	assert_int_equal(fpisa_group_join(&g, "127.0.0.1", "a", 0, FPISA_MAX_RANKS + 1, NULL), -EINVAL);
	for (uint32_t w = 1; w <= 4096; w++) {
		o.window = w;
		if (w & (w - 1) || w > FPISA_MAX_WINDOW) {
			assert_int_equal(fpisa_group_join(&g, "127.0.0.1", "a", 1, 1, &o), -EINVAL);
			assert_non_null(strstr(fpisa_error(), "options.window"));
		}
	}
	o.window = 0;
	for (o.elements = 1; o.elements < 1000; o.elements++) {
		if (o.elements % FPISA_BLOCK == 0 && o.elements <= FPISA_MAX_ELEMENTS)
			continue;
		assert_int_equal(fpisa_group_join(&g, "127.0.0.1", "a", 1, 1, &o), -EINVAL);
		assert_non_null(strstr(fpisa_error(), "options.elements"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments),	   cmocka_unit_test(sums),     cmocka_unit_test(not_joined),
		cmocka_unit_test(calls_that_fail), cmocka_unit_test(too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
