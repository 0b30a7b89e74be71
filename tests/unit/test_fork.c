/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test handles in a process that forks. A child cannot use the parent's handles. It keeps no port, gets an error when
 * it uses a handle, and does not disturb the parent when it closes a handle.
 */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "ranges.h"
#include "udp_server.h"

#define ELEMENTS 32
#define WINDOW 4
#define LONG (4 * WINDOW * ELEMENTS)
#define PATIENCE_S 20 /* time that a child may take before SIGALRM ends it */

static const struct plan one_worker = {.workers = 1, .elements = ELEMENTS, .window = WINDOW};

static struct fpisa *connect_one(struct server *s, const struct fpisa_options *more)
{
	struct fpisa_options o = *more;
	struct fpisa *f = NULL;
	char address[32];

	o.size = sizeof(o);
	o.token = TOKEN;
	o.local_port = ntohs(s->soft.job.rank[0].port);
	give_port(s, 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", s->port);
	if (fpisa_connect(&f, address, JOB, &o))
		fail_msg("%s", fpisa_error());
	return f;
}

static struct fpisa *joined(struct server *s, const struct fpisa_options *o)
{
	start_server(s, &one_worker);
	run_server(s);
	return connect_one(s, o);
}

/* Fork a child that calls `run` and exits with its result, which is 0 on success. Return the child's pid. */
static pid_t in_child(int (*run)(void *arg), void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(PATIENCE_S);
		_exit(run(arg));
	}
	return pid;
}

static void assert_well(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static int is_refused(int rc)
{
	return rc == -ECHILD && strstr(fpisa_error(), "belongs to the process that created it");
}

/* -- the port -------------------------------------------------------------- */

static int until_told(void *arg)
{
	char byte;

	return read(*(int *)arg, &byte, 1) == 1 ? 0 : 1;
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void port_is_free(void **state)
{
	const struct fpisa_options none = {0}, faulty = {.duplicate = 0.1};
	const struct fpisa_options *options[] = {&none, &faulty};
	float v[ELEMENTS] = {1};
	char byte = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct server s = {0};
		struct fpisa *f = joined(&s, options[i]);
		int told[2];
		pid_t pid;

		assert_int_equal(pipe(told), 0);
		pid = in_child(until_told, &told[0]);
		fpisa_close(f);
		f = connect_one(&s, &none);
		assert_int_equal(fpisa_allreduce(f, v, v, ELEMENTS, FPISA_FLOAT32, NULL), 0);
		assert_int_equal(write(told[1], &byte, 1), 1);
		assert_well(pid);
		fpisa_close(f);
		stop_server(&s);
		close(told[0]);
		close(told[1]);
	}
}

/* Check that the call ends by its deadline while a child might release the port, although another handle has it. */
static void port_is_taken(void **state)
{
	struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 100};
	struct server s = {0};
	struct fpisa *f = joined(&s, &(struct fpisa_options){0}), *g;
	char address[32];
	uint64_t before;

	(void)state;
	o.local_port = ntohs(s.soft.job.rank[0].port);
	snprintf(address, sizeof(address), "127.0.0.1:%u", s.port);
	assert_well(in_child(nothing, NULL));
	before = now_ns();
	assert_int_equal(fpisa_connect(&g, address, JOB, &o), -EADDRINUSE);
	assert_uint_in_range(now_ns() - before, 0, PATIENCE_S / 2 * 1000000000ull);
	fpisa_close(f);
	stop_server(&s);
}

/* -- use and close in the child ------------------------------------------------ */

struct under_way {
	struct fpisa *f;
	struct fpisa_request *r;
	float *v;
};

/* Return whether LeakSanitizer finds leaks. Return 0 in a build without LeakSanitizer. */
static int leaks(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __lsan_do_recoverable_leak_check();
#else
	return 0;
#endif
}

static int use(void *arg)
{
	struct under_way *u = arg;
	struct fpisa_request *more = NULL;
	struct fpisa_info info = {.size = sizeof(info)};
	float v[ELEMENTS] = {0};
	int done;

	if (!is_refused(fpisa_allreduce(u->f, v, v, ELEMENTS, FPISA_FLOAT32, NULL)) ||
	    !is_refused(fpisa_allreduce_start(u->f, v, v, ELEMENTS, FPISA_FLOAT32, &more)) || more ||
	    !is_refused(fpisa_test(&u->r, &done, NULL)) || done || !is_refused(fpisa_wait(&u->r, NULL)) ||
	    !is_refused(fpisa_rejoin(u->f)) || !is_refused(fpisa_get_info(u->f, &info)) || fpisa_missing(u->f))
		return 1;
	fpisa_close(u->f);
	u->f = NULL;
	return leaks() ? 2 : 0;
}

/* Check the use of a handle in a child while an in-place call is partly done, in memory that parent and child share. */
static void use_in_child(void **state)
{
	const struct fpisa_options o = {.restore = 1};
	struct server s = {0};
	struct under_way u = {.f = joined(&s, &o)};
	float seen[LONG];
	int done = 0;

	(void)state;
	u.v = mmap(NULL, sizeof(seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(u.v != MAP_FAILED);
	for (int i = 0; i < LONG; i++)
		u.v[i] = 1;
	assert_int_equal(fpisa_allreduce_op_start(u.f, u.v, u.v, LONG, FPISA_FLOAT32, FPISA_SCALE, 2, &u.r), 0);
	while (u.v[0] == 1 && !done)
		assert_int_equal(fpisa_test(&u.r, &done, NULL), 0);
	assert_false(done);
	memcpy(seen, u.v, sizeof(seen));
	assert_well(in_child(use, &u));
	assert_memory_equal(seen, u.v, sizeof(seen));
	assert_int_equal(fpisa_wait(&u.r, NULL), 0);
	assert_int_equal(fpisa_allreduce(u.f, u.v, u.v, LONG, FPISA_FLOAT32, NULL), 0);
	fpisa_close(u.f);
	stop_server(&s);
	munmap(u.v, sizeof(seen));
}

/* -- fork during a call --------------------------------------------------------- */

static pid_t forked;
static int close_at_once;

static void fork_once(void *arg, const struct fpisa_chunk *c)
{
	struct fpisa **f = arg;

	(void)c;
	if (!forked) {
		fflush(NULL);
		forked = fork();
		if (!forked) {
			alarm(PATIENCE_S);
			if (close_at_once)
				fpisa_close(*f);
		}
	}
}

/* The child is inside the call, too. */
static void check_fork_from_on_chunk(void)
{
	struct fpisa *f = NULL;
	const struct fpisa_options o = {.on_chunk = fork_once, .arg = &f};
	struct server s = {0};
	static float v[LONG];
	pid_t parent = getpid();
	int rc;

	f = joined(&s, &o);
	forked = 0;
	rc = fpisa_allreduce(f, v, v, LONG, FPISA_FLOAT32, NULL);
	if (getpid() != parent) {
		rc = is_refused(rc) ? 0 : 1;
		fpisa_close(f);
		_exit(rc);
	}
	assert_int_equal(rc, 0);
	assert_well(forked);
	fpisa_close(f);
	stop_server(&s);
}

static void fork_from_on_chunk(void **state)
{
	(void)state;
	for (close_at_once = 0; close_at_once < 2; close_at_once++)
		check_fork_from_on_chunk();
}

struct summing {
	struct fpisa *f;
	int stop, rc, sums;
	pthread_t thread;
};

static void *sum(void *arg)
{
	struct summing *x = arg;
	float v[LONG] = {0};

	while (!__atomic_load_n(&x->stop, __ATOMIC_ACQUIRE) && !x->rc) {
		x->rc = fpisa_allreduce(x->f, v, v, LONG, FPISA_FLOAT32, NULL);
		__atomic_fetch_add(&x->sums, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int close_it(void *arg)
{
	struct summing *x = arg;
	float v = 1;
	int refused = is_refused(fpisa_allreduce(x->f, &v, &v, 1, FPISA_FLOAT32, NULL));

	fpisa_close(x->f);
	return refused ? 0 : 1;
}

/* Check that the child does not read a handle if another thread of the parent was inside a call at the fork. */
static void check_fork_beside_a_call(const struct fpisa_options *o)
{
	struct server s = {0};
	struct summing x = {.f = joined(&s, o)};

	assert_int_equal(pthread_create(&x.thread, NULL, sum, &x), 0);
	for (int i = 0; i < 20; i++)
		assert_well(in_child(close_it, &x));
	__atomic_store_n(&x.stop, 1, __ATOMIC_RELEASE);
	pthread_join(x.thread, NULL);
	assert_int_equal(x.rc, 0);
	assert_true(x.sums > 0);
	fpisa_close(x.f);
	stop_server(&s);
}

static void fork_beside_a_call(void **state)
{
	(void)state;
	check_fork_beside_a_call(&(struct fpisa_options){0});
	check_fork_beside_a_call(&(struct fpisa_options){.progress = 1});
}

/* -- a progress thread ------------------------------------------------------------ */

static int use_without_thread(void *arg)
{
	struct under_way *u = arg;

	return is_refused(fpisa_eventfd(u->f)) ? use(u) : 3;
}

/*
 * Check that a request in progress for which no thread waits continues in the parent, and that the child cannot use it.
 */
static void thread_stays_behind(void **state)
{
	const struct fpisa_options o = {.progress = 1};
	struct server s = {0};
	struct under_way u = {.f = joined(&s, &o)};
	struct pollfd p = {.events = POLLIN};
	float v[LONG] = {1};

	(void)state;
	p.fd = fpisa_eventfd(u.f);
	assert_true(p.fd >= 0);
	pause_server(&s);
	assert_int_equal(fpisa_allreduce_op_start(u.f, v, v, LONG, FPISA_FLOAT32, FPISA_SCALE, 2, &u.r), 0);
	assert_well(in_child(use_without_thread, &u));
	run_server(&s);
	assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
	assert_int_equal(fpisa_wait(&u.r, NULL), 0);
	assert_true(v[0] == 2);
	fpisa_close(u.f);
	stop_server(&s);
}

struct forker {
	struct fpisa *f;
	pid_t child;
	int done;
};

static void fork_and_end(void *arg, int rc, uint32_t flags)
{
	struct forker *x = arg;
	float v = 1;

	(void)flags;
	x->child = rc ? -1 : fork();
	if (!x->child)
		_exit(is_refused(fpisa_allreduce(x->f, &v, &v, 1, FPISA_FLOAT32, NULL)) ? 0 : 1);
	__atomic_store_n(&x->done, 1, __ATOMIC_RELEASE);
}

static void fork_from_on_done(void **state)
{
	const struct fpisa_options o = {.progress = 1};
	struct server s = {0};
	struct forker x = {.f = joined(&s, &o)};
	float v[ELEMENTS] = {1};
	const struct fpisa_call call = {.size = sizeof(call),
					.send = v,
					.recv = v,
					.count = ELEMENTS,
					.type = FPISA_FLOAT32,
					.op = FPISA_SUM,
					.on_done = fork_and_end,
					.arg = &x};

	(void)state;
	fflush(NULL);
	assert_int_equal(fpisa_start(x.f, &call, NULL), 0);
	for (int ms = 0; ms < PATIENCE_S * 1000 && !__atomic_load_n(&x.done, __ATOMIC_ACQUIRE); ms++)
		usleep(1000);
	assert_true(x.child > 0);
	assert_well(x.child);
	assert_int_equal(fpisa_allreduce(x.f, v, v, ELEMENTS, FPISA_FLOAT32, NULL), 0);
	fpisa_close(x.f);
	stop_server(&s);
}

/* -- an aggregator in the process ------------------------------------------------ */

struct both {
	struct fpisa_mem *m;
	struct summing waits, idle;
};

static int destroy(void *arg)
{
	struct both *b = arg;
	struct fpisa *f = NULL;
	int bad = close_it(&b->waits) | close_it(&b->idle) | !is_refused(fpisa_mem_connect(&f, b->m, 0, NULL));

	fpisa_mem_destroy(b->m);
	return bad;
}

/* Check a rank that forks while the other rank waits for it. */
static void check_mem_in_child(uint64_t progress)
{
	const struct fpisa_options with = {.size = sizeof(with), .timeout_ms = 20000, .progress = progress};
	const struct fpisa_mem_options o = {.size = sizeof(o), .workers = 2, .elements = ELEMENTS, .window = WINDOW};
	struct both b = {0};
	struct joiner j[2] = {0};
	static float v[LONG];

	assert_int_equal(fpisa_mem_create(&b.m, &o), 0);
	join_all_with(j, 2, b.m, &with);
	b.waits.f = j[0].f;
	b.idle.f = j[1].f;
	assert_int_equal(pthread_create(&b.waits.thread, NULL, sum, &b.waits), 0);
	usleep(20000);
	assert_well(in_child(destroy, &b));
	__atomic_store_n(&b.waits.stop, 1, __ATOMIC_RELEASE);
	assert_int_equal(fpisa_allreduce(j[1].f, v, v, LONG, FPISA_FLOAT32, NULL), 0);
	pthread_join(b.waits.thread, NULL);
	assert_int_equal(b.waits.rc, 0);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(b.m);
}

static void mem_in_child(void **state)
{
	(void)state;
	check_mem_in_child(0);
	check_mem_in_child(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(port_is_free),	       cmocka_unit_test(port_is_taken),
		cmocka_unit_test(use_in_child),	       cmocka_unit_test(fork_from_on_chunk),
		cmocka_unit_test(fork_beside_a_call),  cmocka_unit_test(mem_in_child),
		cmocka_unit_test(thread_stays_behind), cmocka_unit_test(fork_from_on_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
