/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadlines count only time in which the library could run, and still end calls. The tests run over the transport
 * `udp`, against the aggregator of udp_server.h.
 */
#include <signal.h>
#include <sys/wait.h>
#include "lib/handle.h"
#include "lib/link.h"
#include "ranges.h"
#include "udp_server.h"

#define MS 1000000

/* more results in one window than a turn handles */
#define WINDOW 128
#define ELEMENTS 32
#define COUNT ((WINDOW + 4) * ELEMENTS) /* few results, so that an average shows the round trip of the first result */

static const struct plan one_worker = {.workers = 1, .elements = ELEMENTS, .window = WINDOW};
static float values[COUNT];

static void pause_ms(long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS};

	nanosleep(&t, NULL);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / MS;
}

static int connect_one(struct server *s, uint32_t timeout_ms, struct fpisa **f)
{
	struct fpisa_options o = {.size = sizeof(o),
				  .token = TOKEN,
				  .local_port = ntohs(s->soft.job.rank[0].port),
				  .timeout_ms = timeout_ms};
	char address[32];

	give_port(s, 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", s->port);
	return fpisa_connect(f, address, JOB, &o);
}

/*
 * Join, then set the timeout of calls. The join has a longer timeout, because other work may delay the server's thread.
 */
static struct fpisa *joined(struct server *s, uint32_t timeout_ms)
{
	struct fpisa *f = NULL;

	start_server(s, &one_worker);
	run_server(s);
	if (connect_one(s, 10000, &f))
		fail_msg("%s", fpisa_error());
	f->timeout_ns = timeout_ms * (uint64_t)MS;
	fpisa_clock_init(&f->clock, f->timeout_ns, fpisa_now());
	return f;
}

static struct fpisa_request *started(struct fpisa *f)
{
	struct fpisa_request *r = NULL;

	for (size_t i = 0; i < COUNT; i++)
		values[i] = 1;
	if (fpisa_allreduce_start(f, values, values, COUNT, FPISA_FLOAT32, &r))
		fail_msg("%s", fpisa_error());
	return r;
}

/* Check a start, one test, computing for longer than the deadline, and a wait. All results have arrived by then. */
static void computing_before_wait(void **state)
{
	struct server s = {0};
	struct fpisa *f = joined(&s, 500);
	struct fpisa_request *r = started(f);
	struct fpisa_info info = {.size = sizeof(info)};
	int done = 0, rc;

	(void)state;
	assert_int_equal(fpisa_test(&r, &done, NULL), 0);
	assert_false(done);
	pause_ms(1000);
	rc = fpisa_wait(&r, NULL);
	if (rc)
		fail_msg("%d: %s", rc, fpisa_error());
	/* A result that stayed unread meanwhile gives no sample of the round trip. */
	fpisa_get_info(f, &info);
	assert_uint_in_range(info.rtt_ns, 0, 300 * MS);
	fpisa_close(f);
	stop_server(&s);
}

/* Join, then sum, and write a byte before each of the two. Return 0 on success. */
static int child(struct server *s, int says, int hears)
{
	struct fpisa *f = NULL;
	struct fpisa_request *r;
	char byte = 0;
	int rc = write(says, &byte, 1) == 1 ? connect_one(s, 1000, &f) : -1;

	if (!rc && read(hears, &byte, 1) == 1 && write(says, &byte, 1) == 1) {
		r = started(f);
		rc = fpisa_wait(&r, NULL);
	}
	if (rc)
		fprintf(stderr, "%s\n", fpisa_error());
	fpisa_close(f);
	return rc ? 1 : 0;
}

/*
 * Stop the process in its call. The call then takes longer than its deadline, but for most of that time the process is
 * stopped.
 */
static void stop_for_long(pid_t pid, int hears)
{
	char byte;

	if (read(hears, &byte, 1) != 1)
		return;
	pause_ms(100);
	kill(pid, SIGSTOP);
	pause_ms(1200);
	kill(pid, SIGCONT);
	pause_ms(80); /* longer than the longest pause between two HELLOs */
}

static void stopped_process(void **state)
{
	struct server s = {0};
	int up[2], down[2], status = -1;
	char byte = 0;
	pid_t pid;

	(void)state;
	start_server(&s, &one_worker);
	give_port(&s, 0);
	assert_int_equal(pipe(up) | pipe(down), 0);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(down[1]);
		_exit(child(&s, up[1], down[0]));
	}
	close(up[1]);
	stop_for_long(pid, up[0]);
	run_server(&s);
	/* Stop the server as soon as the child has joined. */
	while (!__atomic_load_n(&s.soft.session.generation, __ATOMIC_ACQUIRE) && !waitpid(pid, &status, WNOHANG))
		pause_ms(1);
	pause_server(&s);
	if (status == -1) {
		assert_int_equal(write(down[1], &byte, 1), 1);
		stop_for_long(pid, up[0]);
		run_server(&s);
		waitpid(pid, &status, 0);
		pause_server(&s);
	}
	run_server(&s);
	stop_server(&s);
	close(up[0]);
	close(down[0]);
	close(down[1]);
	assert_int_equal(status, 0);
}

/*
 * Check that a program that only tests from time to time gets the error about a silent aggregator after timeout_ms, or
 * a few turns later.
 */
static void deadline_of_polling(void **state)
{
	static const long pauses_ms[] = {0, 1, 20};

	(void)state;
	for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
		struct server s = {0};
		struct fpisa *f = joined(&s, 100);
		struct fpisa_request *r;
		uint64_t start;
		int rc = 0, done = 0, turns = 0;

		pause_server(&s);
		r = started(f);
		for (start = now_ms(); !rc && now_ms() < start + 10000; turns++) {
			rc = fpisa_test(&r, &done, NULL);
			pause_ms(pauses_ms[i]);
		}
		assert_int_equal(rc, -ETIMEDOUT);
		assert_true(now_ms() - start >= 100);
		if (pauses_ms[i] == 20)
			assert_uint_in_range(turns, 10, 100);
		run_server(&s);
		fpisa_close(f);
		stop_server(&s);
	}
}

/* an endless stream of frames, which must not delay a deadline */
struct flood {
	int fd, stop;
	struct sockaddr_in to;
	pthread_t thread;
};

static void *flood(void *arg)
{
	struct flood *x = arg;
	const char junk[64] = "";

	while (!__atomic_load_n(&x->stop, __ATOMIC_ACQUIRE))
		sendto(x->fd, junk, sizeof(junk), 0, (struct sockaddr *)&x->to, sizeof(x->to));
	return NULL;
}

static void deadline_under_a_flood(void **state)
{
	struct server s = {0};
	struct fpisa *f = joined(&s, 100);
	struct flood x = {.fd = s.fd,
			  .to = {.sin_family = AF_INET,
				 .sin_port = s.soft.job.rank[0].port,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	struct fpisa_info info = {.size = sizeof(info)};
	struct fpisa_request *r;
	uint64_t start;

	(void)state;
	pause_server(&s);
	assert_int_equal(pthread_create(&x.thread, NULL, flood, &x), 0);
	start = now_ms();
	r = started(f);
	assert_int_equal(fpisa_wait(&r, NULL), -ETIMEDOUT);
	assert_true(now_ms() - start < 5000);
	__atomic_store_n(&x.stop, 1, __ATOMIC_RELEASE);
	pthread_join(x.thread, NULL);
	fpisa_get_info(f, &info);
	assert_true(info.bad > 100);
	fpisa_close(f);
	run_server(&s);
	stop_server(&s);
}

/* A group that joins when a byte can be read. */
struct heard {
	struct fpisa_link link;
	int fd;
};

/*
 * Replace the thread of a group's connection, which needs a moment for messages that arrived while the process was
 * stopped.
 */
static void *hear_joined(void *arg)
{
	struct heard *h = arg;
	struct fpisa_link *l = &h->link;
	char byte;

	if (read(h->fd, &byte, 1) != 1)
		return NULL;
	pause_ms(20);
	pthread_mutex_lock(&l->lock);
	l->joined = 1;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int join(int hears)
{
	struct heard h = {.link = {.lock = PTHREAD_MUTEX_INITIALIZER, .peer = "manager"}, .fd = hears};
	pthread_condattr_t a;
	pthread_t thread;
	int rc;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&h.link.changed, &a);
	pthread_create(&thread, NULL, hear_joined, &h);
	rc = fpisa_link_wait_joined(&h.link, 1000ull * MS, 0);
	if (rc)
		fprintf(stderr, "%s\n", fpisa_error());
	return rc ? 1 : 0;
}

/* Check a rank that is stopped while all ranks join, for longer than it would have waited. */
static void stopped_while_it_joins(void **state)
{
	int pair[2], status = -1;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pair), 0);
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(join(pair[0]));
	pause_ms(100);
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_int_equal(write(pair[1], "", 1), 1);
	pause_ms(1200);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_process),	  cmocka_unit_test(stopped_while_it_joins),
		cmocka_unit_test(computing_before_wait),  cmocka_unit_test(deadline_of_polling),
		cmocka_unit_test(deadline_under_a_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
