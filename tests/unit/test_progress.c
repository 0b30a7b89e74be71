/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test options.progress over the transport `mem`. Requests end without a call that waits for them. The caller is told
 * by a callback, by an eventfd, or by a wait that another thread's failure ends. test_schedules.c tests all of these at
 * the same time.
 */
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "lib/api.h"
#include "lib/handle.h"
#include "ranges.h"
#include "workers.h"

#define ELEMENTS 32
#define WINDOW 4
#define COUNT (5 * WINDOW * ELEMENTS)
#define PATIENCE_MS 20000
#define FAILURE (-EHOSTDOWN)

static struct fpisa_mem *make_mem(uint32_t workers)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o), .workers = workers, .elements = ELEMENTS, .window = WINDOW};
	struct fpisa_mem *m;

	if (fpisa_mem_create(&m, &o))
		fail_msg("%s", fpisa_error());
	return m;
}

static const struct fpisa_options with_thread = {.size = sizeof(with_thread), .timeout_ms = FPISA_FOREVER, .progress = 1};

static struct fpisa *alone(struct fpisa_mem **m, const struct fpisa_options *o)
{
	struct fpisa *f = NULL;

	*m = make_mem(1);
	if (fpisa_mem_connect(&f, *m, 0, o))
		fail_msg("%s", fpisa_error());
	return f;
}

static void two(struct joiner *j, struct fpisa_mem **m, const struct fpisa_options *o)
{
	*m = make_mem(2);
	memset(j, 0, 2 * sizeof(*j));
	join_all_with(j, 2, *m, o);
}

static void close_both(struct joiner *j, struct fpisa_mem *m)
{
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

static uint64_t now_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static int readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms);
}

/* -- the eventfd ------------------------------------------------------------ */

/* Read the eventfd until `n` requests have ended. */
static void await(int fd, eventfd_t n)
{
	while (n) {
		eventfd_t more = 0;

		if (readable(fd, PATIENCE_MS) != 1 || eventfd_read(fd, &more) || more > n)
			fail_msg("%llu of them are missing", (unsigned long long)n);
		n -= more;
	}
}

/*
 * Check that the requests of both ranks end although no call tests them, and that all results are there when the
 * descriptors report the end.
 */
static void ends_unattended(void **state)
{
	enum { CALLS = 3 };
	static float v[2][CALLS][COUNT];
	struct fpisa_request *r[2][CALLS];
	struct fpisa_mem *m;
	struct joiner j[2];
	eventfd_t none;

	(void)state;
	two(j, &m, &with_thread);
	for (int i = 0; i < 2; i++)
		assert_true(fpisa_eventfd(j[i].f) >= 0);
	for (int c = 0; c < CALLS; c++) {
		for (int i = 0; i < 2; i++) {
			v[i][c][COUNT - 1] = (float)(i + c);
			assert_int_equal(
				fpisa_allreduce_start(j[i].f, v[i][c], v[i][c], COUNT, FPISA_FLOAT32, &r[i][c]), 0);
		}
	}
	for (int i = 0; i < 2; i++) {
		await(fpisa_eventfd(j[i].f), CALLS);
		for (int c = 0; c < CALLS; c++)
			assert_true(v[i][c][COUNT - 1] == (float)(2 * c + 1));
		/* Releasing the requests adds nothing to the descriptor. */
		for (int c = 0; c < CALLS; c++)
			assert_int_equal(fpisa_wait(&r[i][c], NULL), 0);
		assert_int_equal(readable(fpisa_eventfd(j[i].f), 0), 0);
		assert_int_equal(eventfd_read(fpisa_eventfd(j[i].f), &none), -1);
	}
	close_both(j, m);
}

static void note_end(void *arg, int rc, uint32_t flags)
{
	eventfd_write(*(int *)arg, rc || flags ? 100 : 1);
}

/* Check that calls of no elements are reported, by the thread and by the descriptor. */
static void no_elements_are_told(void **state)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	const struct fpisa_call c = {
		.size = sizeof(c), .type = FPISA_FLOAT32, .op = FPISA_SUM, .on_done = note_end, .arg = &fd};
	struct fpisa_request *r;
	struct fpisa_mem *m;
	struct joiner j[2];

	(void)state;
	two(j, &m, &with_thread);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_start(j[0].f, &c, NULL), 0);
	await(fd, 2);
	assert_int_equal(fpisa_allreduce_start(j[0].f, NULL, NULL, 0, FPISA_FLOAT32, &r), 0);
	await(fpisa_eventfd(j[0].f), 1);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	close(fd);
	close_both(j, m);
}

/* Check that a request that ended before fpisa_eventfd() counts, and that a blocking call never counts. */
static void counts_from_before(void **state)
{
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, &with_thread);
	struct fpisa_request *r[2];
	static float v[3][COUNT];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_allreduce_start(f, v[i], v[i], COUNT, FPISA_FLOAT32, &r[i]), 0);
	assert_int_equal(fpisa_wait(&r[0], NULL), 0);
	assert_int_equal(fpisa_allreduce(f, v[2], v[2], COUNT, FPISA_FLOAT32, NULL), 0);
	await(fpisa_eventfd(f), 1);
	assert_int_equal(readable(fpisa_eventfd(f), 0), 0);
	assert_int_equal(fpisa_wait(&r[1], NULL), 0);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

/* -- the callback ------------------------------------------------------------- */

struct chain {
	struct fpisa *f;
	float v[COUNT];
	int left, refused, fd, rc;
	pthread_t thread;
	char error[256];
};

static void next_of_chain(void *arg, int rc, uint32_t flags);

static int start_next(struct chain *c)
{
	const struct fpisa_call call = {.size = sizeof(call),
					.send = c->v,
					.recv = c->v,
					.count = COUNT,
					.type = FPISA_FLOAT32,
					.op = FPISA_SCALE,
					.factor = 2,
					.on_done = next_of_chain,
					.arg = c};

	return fpisa_start(c->f, &call, NULL);
}

static void count_refusal(struct chain *c, int rc)
{
	c->refused += rc == -EBUSY && strstr(fpisa_error(), "a callback must not wait") != NULL;
}

/* Make every call inside the callback. Calls that would wait are refused. Others get an answer. */
static void use_inside(struct chain *c)
{
	struct fpisa_info info = {.size = sizeof(info)};
	struct fpisa_request *r;
	float one = 1;
	int done = 0;

	count_refusal(c, fpisa_allreduce(c->f, &one, &one, 1, FPISA_FLOAT32, NULL));
	count_refusal(c, fpisa_rejoin(c->f));
	fpisa_close(c->f);
	c->rc |= fpisa_get_info(c->f, &info);
	c->rc |= fpisa_allreduce_start(c->f, &one, &one, 1, FPISA_FLOAT32, &r);
	count_refusal(c, fpisa_wait(&r, NULL));
	while (!done && !c->rc)
		c->rc = fpisa_test(&r, &done, NULL);
}

static void next_of_chain(void *arg, int rc, uint32_t flags)
{
	struct chain *c = arg;

	(void)flags;
	c->rc |= rc;
	c->thread = pthread_self();
	if (rc)
		snprintf(c->error, sizeof(c->error), "%s", fpisa_error());
	if (!c->rc && c->left--) {
		use_inside(c);
		c->rc |= start_next(c);
		return;
	}
	eventfd_write(c->fd, 1);
}

static void callbacks_chain(void **state)
{
	struct chain c = {.left = 5, .fd = eventfd(0, 0), .v = {1}};
	struct fpisa_mem *m;

	(void)state;
	c.f = alone(&m, &with_thread);
	assert_int_equal(start_next(&c), 0);
	await(c.fd, 1);
	assert_int_equal(c.rc, 0);
	assert_int_equal(c.refused, 3 * 5);
	assert_true(c.v[0] == 64);
	assert_false(pthread_equal(c.thread, pthread_self()));
	fpisa_close(c.f);
	fpisa_mem_destroy(m);
	close(c.fd);
}

/* Check that a callback gets the error of an overflow, and that a callback is refused without a thread. */
static void callback_is_told(void **state)
{
	struct chain c = {.fd = eventfd(0, 0), .v = {0x1p127f}};
	struct fpisa_mem *m;

	(void)state;
	c.f = alone(&m, &with_thread);
	assert_int_equal(start_next(&c), 0);
	await(c.fd, 1);
	assert_int_equal(c.rc, -ERANGE);
	assert_non_null(strstr(c.error, "overflowed"));
	fpisa_close(c.f);
	fpisa_mem_destroy(m);
	c.f = alone(&m, NULL);
	assert_int_equal(start_next(&c), -EINVAL);
	assert_non_null(strstr(fpisa_error(), "options.progress"));
	assert_int_equal(fpisa_eventfd(c.f), -EINVAL);
	fpisa_close(c.f);
	fpisa_mem_destroy(m);
	close(c.fd);
}

/* -- failure reported by another thread ----------------------------------------- */

struct waiter {
	struct fpisa *f;
	struct fpisa_request *r;
	int (*what)(struct waiter *w);
	int rc;
	char error[256];
	uint64_t ended_ms;
	pthread_t thread;
};

static int wait_for_request(struct waiter *w)
{
	return fpisa_wait(&w->r, NULL);
}

static int join_again(struct waiter *w)
{
	return fpisa_rejoin(w->f);
}

static void *run_waiter(void *arg)
{
	struct waiter *w = arg;

	w->rc = w->what(w);
	snprintf(w->error, sizeof(w->error), "%s", fpisa_error());
	w->ended_ms = now_ms(CLOCK_MONOTONIC);
	return NULL;
}

static void begin(struct waiter *w, struct fpisa *f, int (*what)(struct waiter *w))
{
	w->f = f;
	w->what = what;
	assert_int_equal(pthread_create(&w->thread, NULL, run_waiter, w), 0);
}

static void fail_now(struct fpisa *f)
{
	assert_int_equal(fpisa_handle_fail(f, FAILURE, &(struct fpisa_ranks){{1 << 1}}, "rank 1 is dead"), 0);
}

/* Wait until `n` threads are inside a waiting function of the handle. */
static void await_callers(struct fpisa *f, int n)
{
	for (int callers = -1, tries = 0; callers != n; tries++) {
		if (tries == PATIENCE_MS)
			fail_msg("%d threads wait, not %d", callers, n);
		pause_ms(1);
		fpisa_lock(&f->shared.lock);
		callers = f->shared.callers;
		fpisa_unlock(&f->shared.lock);
	}
}

/* Check that fail_now() ended the wait soon after `since`, which a busy machine may delay. */
static void assert_failed(struct waiter *w, uint64_t since)
{
	pthread_join(w->thread, NULL);
	assert_int_equal(w->rc, FAILURE);
	assert_string_equal(w->error, "rank 1 is dead");
	assert_uint_in_range(w->ended_ms - since, 0, PATIENCE_MS / 2);
}

/*
 * Check that a failure ends four requests: two for which threads wait, one with a callback, and one with neither. The
 * other rank never joins.
 */
static void failed_from_outside(void **state)
{
	const struct fpisa_options o = {.size = sizeof(o), .timeout_ms = FPISA_FOREVER, .progress = 1, .restore = 1};
	struct chain c = {.fd = eventfd(0, 0)};
	static float v[3][COUNT];
	struct fpisa_request *idle;
	struct waiter w[2] = {0};
	struct fpisa_mem *m;
	struct joiner j[2];
	uint64_t since;
	int fd;

	(void)state;
	two(j, &m, &o);
	fd = fpisa_eventfd(j[0].f);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_allreduce_start(j[0].f, v[i], v[i], COUNT, FPISA_FLOAT32, &w[i].r), 0);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v[2], v[2], COUNT, FPISA_FLOAT32, &idle), 0);
	c.f = j[0].f;
	assert_int_equal(start_next(&c), 0);
	begin(&w[0], j[0].f, wait_for_request);
	begin(&w[1], j[0].f, wait_for_request);
	await_callers(j[0].f, 2);
	since = now_ms(CLOCK_MONOTONIC);
	fail_now(j[0].f);
	assert_failed(&w[0], since);
	assert_failed(&w[1], since);
	await(fd, 3);
	await(c.fd, 1);
	assert_int_equal(c.rc, FAILURE);
	assert_string_equal(c.error, "rank 1 is dead");
	assert_int_equal(fpisa_missing(j[0].f), 1 << 1);
	assert_int_equal(fpisa_allreduce(j[0].f, v[0], v[0], COUNT, FPISA_FLOAT32, NULL), FAILURE);
	assert_int_equal(fpisa_wait(&idle, NULL), FAILURE);
	assert_null(idle);
	/* Calls work again after both ranks have joined again. */
	join_all_with(j, 2, m, &o);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_allreduce_start(j[i].f, v[i], v[i], COUNT, FPISA_FLOAT32, &w[i].r), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_wait(&w[i].r, NULL), 0);
	close_both(j, m);
	close(c.fd);
}

/* Check that a failure ends a join, both the first and a later one, if the other rank does not join. */
static void join_fails_from_outside(void **state)
{
	struct fpisa_mem *m = make_mem(2);
	struct fpisa *f;
	float v = 1;

	(void)state;
	assert_int_equal(fpisa_mem_open_handle(&f, m, 0, &with_thread, NULL), 0);
	assert_int_equal(fpisa_allreduce(f, &v, &v, 1, FPISA_FLOAT32, NULL), -ENOTCONN);
	for (int i = 0; i < 2; i++) {
		struct waiter w = {0};
		uint64_t since;

		begin(&w, f, join_again);
		await_callers(f, 1);
		/* While the join waits, other calls are refused. */
		assert_int_equal(fpisa_allreduce(f, &v, &v, 1, FPISA_FLOAT32, NULL), -EBUSY);
		since = now_ms(CLOCK_MONOTONIC);
		fail_now(f);
		assert_failed(&w, since);
		assert_int_equal(fpisa_allreduce(f, &v, &v, 1, FPISA_FLOAT32, NULL), FAILURE);
	}
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

/* Check that a rejoin cancels a request for which another thread waits. */
static void rejoin_beside_a_wait(void **state)
{
	struct waiter w = {0}, other = {0};
	static float v[COUNT];
	struct fpisa_mem *m;
	struct joiner j[2];

	(void)state;
	two(j, &m, &with_thread);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v, v, COUNT, FPISA_FLOAT32, &w.r), 0);
	begin(&w, j[0].f, wait_for_request);
	await_callers(j[0].f, 1);
	begin(&other, j[1].f, join_again);
	assert_int_equal(fpisa_rejoin(j[0].f), 0);
	pthread_join(w.thread, NULL);
	pthread_join(other.thread, NULL);
	assert_int_equal(w.rc, -ECANCELED);
	assert_int_equal(other.rc, 0);
	close_both(j, m);
}

/* Check that closing the handle ends a waiting request. Its callback has been called by then. */
static void closed_beside_a_wait(void **state)
{
	struct chain c = {.fd = eventfd(0, EFD_NONBLOCK)};
	struct waiter w = {0};
	static float v[COUNT];
	struct fpisa_mem *m;
	struct joiner j[2];
	eventfd_t called = 0;

	(void)state;
	two(j, &m, &with_thread);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v, v, COUNT, FPISA_FLOAT32, &w.r), 0);
	c.f = j[0].f;
	assert_int_equal(start_next(&c), 0);
	begin(&w, j[0].f, wait_for_request);
	await_callers(j[0].f, 1);
	fpisa_close(j[0].f);
	assert_int_equal(eventfd_read(c.fd, &called), 0);
	assert_int_equal(c.rc, -ECANCELED);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.rc, -ECANCELED);
	assert_non_null(strstr(w.error, "was closed"));
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
	close(c.fd);
}

/* -- deadlines and idle threads ----------------------------------------------------- */

/* Check that a deadline ends a request although no thread waits, and that the error names the missing rank. */
static void deadline_unattended(void **state)
{
	const struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 300, .progress = 1};
	struct fpisa_request *r, *late;
	static float v[2][COUNT];
	struct fpisa_mem *m;
	struct joiner j[2];

	(void)state;
	two(j, &m, &o);
	fpisa_close(j[1].f);
	j[1].f = NULL;
	assert_int_equal(fpisa_allreduce_start(j[0].f, v[0], v[0], COUNT, FPISA_FLOAT32, &r), 0);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v[1], v[1], COUNT, FPISA_FLOAT32, &late), 0);
	await(fpisa_eventfd(j[0].f), 2);
	assert_int_equal(fpisa_wait(&r, NULL), -ETIMEDOUT);
	assert_non_null(strstr(fpisa_error(), "rank 1 sent nothing for chunk 0 of call 0"));
	assert_int_equal(fpisa_missing(j[0].f), 1 << 1);
	assert_int_equal(fpisa_wait(&late, NULL), -ETIMEDOUT);
	close_both(j, m);
}

/*
 * Check that a call's own deadline replaces the deadline of the handle, whether shorter or longer. An invalid deadline
 * is refused.
 */
static void deadline_of_a_call(void **state)
{
	const struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 400, .progress = 1};
	static float v[2][COUNT];
	struct fpisa_call c = {
		.size = sizeof(c), .send = v[0], .recv = v[0], .count = COUNT, .type = FPISA_FLOAT32, .op = FPISA_SUM};
	const uint32_t ms[] = {100, 900};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fpisa_request *r;
		struct fpisa_mem *m;
		struct joiner j[2];
		char said[32];
		uint64_t began;

		two(j, &m, &o);
		c.timeout_ms = FPISA_FOREVER + 1ull;
		assert_int_equal(fpisa_start(j[0].f, &c, &r), -EINVAL);
		assert_non_null(strstr(fpisa_error(), "timeout_ms is 4294967296"));
		c.timeout_ms = ms[i];
		began = fpisa_now();
		assert_int_equal(fpisa_start(j[0].f, &c, &r), 0);
		assert_int_equal(fpisa_wait(&r, NULL), -ETIMEDOUT);
		assert_true(fpisa_now() - began >= ms[i] * 1000000ull);
		snprintf(said, sizeof(said), " of call 0 in %u ms", ms[i]);
		assert_non_null(strstr(fpisa_error(), said));
		close_both(j, m);
	}
}

/* Check that no CPU time is used without requests, or while another rank is late. */
static void sleeps_when_idle(void **state)
{
	struct fpisa_request *r[2];
	static float v[2][COUNT];
	struct fpisa_mem *m;
	struct joiner j[2];
	uint64_t before;

	(void)state;
	two(j, &m, &with_thread);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 2; k++) {
			assert_int_equal(fpisa_allreduce_start(j[k].f, v[k], v[k], COUNT, FPISA_FLOAT32, &r[k]), 0);
			if (i && !k) {
				before = now_ms(CLOCK_PROCESS_CPUTIME_ID);
				pause_ms(500);
				assert_uint_in_range(now_ms(CLOCK_PROCESS_CPUTIME_ID) - before, 0, 50);
			}
		}
		for (int k = 0; k < 2; k++)
			assert_int_equal(fpisa_wait(&r[k], NULL), 0);
		before = now_ms(CLOCK_PROCESS_CPUTIME_ID);
		pause_ms(500);
		assert_uint_in_range(now_ms(CLOCK_PROCESS_CPUTIME_ID) - before, 0, 50);
	}
	close_both(j, m);
}

/* Check that only this thread receives signals. */
static void signals_are_ours(void **state)
{
	struct fpisa_mem *m;
	struct fpisa *f;
	sigset_t set, before, pending;
	int taken;

	(void)state;
	f = alone(&m, &with_thread);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	kill(getpid(), SIGUSR1);
	pause_ms(50);
	assert_int_equal(sigpending(&pending), 0);
	assert_true(sigismember(&pending, SIGUSR1));
	assert_int_equal(sigwait(&set, &taken), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

/* -- one engine for several handles ---------------------------------------------------- */

static void one_engine(void **state)
{
	enum { HANDLES = 3 };
	struct fpisa_engine *e;
	struct fpisa_mem *m[HANDLES];
	struct chain c[HANDLES] = {0};

	(void)state;
	assert_int_equal(fpisa_engine_start(&e), 0);
	for (int i = 0; i < HANDLES; i++) {
		m[i] = make_mem(1);
		c[i].fd = eventfd(0, 0);
		c[i].v[0] = 1;
		c[i].left = i;
		assert_int_equal(fpisa_mem_open_handle(&c[i].f, m[i], 0, NULL, e), 0);
		assert_int_equal(fpisa_rejoin(c[i].f), 0);
	}
	for (int i = 0; i < HANDLES; i++)
		assert_int_equal(start_next(&c[i]), 0);
	for (int i = 0; i < HANDLES; i++) {
		await(c[i].fd, 1);
		assert_true(c[i].v[0] == (float)(2 << i));
		assert_true(pthread_equal(c[i].thread, c[0].thread));
	}
	/* If one handle is closed, the others continue. */
	fpisa_close(c[1].f);
	assert_int_equal(start_next(&c[2]), 0);
	await(c[2].fd, 1);
	fpisa_close(c[0].f);
	fpisa_close(c[2].f);
	fpisa_engine_stop(e);
	for (int i = 0; i < HANDLES; i++) {
		fpisa_mem_destroy(m[i]);
		close(c[i].fd);
	}
}

/* Check that an engine that lacks one of its two descriptors names the limit of descriptors. */
static void engine_without_descriptors(void **state)
{
	struct rlimit before, few;
	struct fpisa_engine *e;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (rlim_t left = 0; left < 2; left++) {
		const int next = eventfd(0, 0);

		close(next);
		few = before;
		few.rlim_cur = (rlim_t)next + left;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		assert_int_equal(fpisa_engine_start(&e), -EMFILE);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_string_equal(fpisa_error(),
				    "cannot start a progress thread: Too many open files; raise the process's limit of "
				    "open files (ulimit -n)");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_unattended),
		cmocka_unit_test(counts_from_before),
		cmocka_unit_test(no_elements_are_told),
		cmocka_unit_test(callbacks_chain),
		cmocka_unit_test(callback_is_told),
		cmocka_unit_test(failed_from_outside),
		cmocka_unit_test(join_fails_from_outside),
		cmocka_unit_test(rejoin_beside_a_wait),
		cmocka_unit_test(closed_beside_a_wait),
		cmocka_unit_test(deadline_unattended),
		cmocka_unit_test(deadline_of_a_call),
		cmocka_unit_test(sleeps_when_idle),
		cmocka_unit_test(signals_are_ours),
		cmocka_unit_test(one_engine),
		cmocka_unit_test(engine_without_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
