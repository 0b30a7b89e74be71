// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run CPUs that apply the rules of slot.h at the same time, without a lock of the session. Some break generations, and
 * one admits a contribution while the next generation begins. The test tries every order of their accesses to shared
 * data. Each CPU is a coroutine that stops before each access, and a schedule chooses the next CPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <cmocka.h>

#include "fpisa/base.h"

static void before_access(void);

#undef fpisa_read_once
#define fpisa_read_once(p) (before_access(), *(p))
#define __sync_fetch_and_add(p, n) (before_access(), __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST))
#define __sync_val_compare_and_swap(p, old, new) (before_access(), swap_if(p, old, new))

static __u64 swap_if(__u64 *p, __u64 old, __u64 new)
{
	__atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return old;
}

#include "contribution.h"

enum { MAX_CPUS = 4, MAX_STEPS = 32, STACK = 1 << 16 };

/*
 * A CPU that breaks `generation`, or admits a contribution to a stored result. The CPU begins while this generation
 * runs.
 */
struct cpu {
	__u32 generation;
	enum fpisa_verdict why; /* reason of the break; 0: the CPU admits a contribution */
	int step;		/* result of the admission */
	__u64 results;
	bool over;
	ucontext_t context;
	char stack[STACK];
};

static struct cpu cpus[MAX_CPUS];
static int cpu_count;
static struct cpu *running;
static ucontext_t scheduler, start;
static struct fpisa_session session;

static void before_access(void)
{
	swapcontext(&running->context, &scheduler);
}

static __u64 results_of(__u32 generation)
{
	return 1000 + generation;
}

static void run_cpu(void)
{
	struct cpu *c = running;

	if (c->why) {
		fpisa_break(&session, c->generation, c->why);
	} else {
		struct fpisa_slot slot = {.generation = c->generation,
					  .chunk = 6,
					  .digest = 1000,
					  .call = 2,
					  .count = 64,
					  .op = FPISA_OP_SUM,
					  .done = 1};
		struct fpisa_job job = a_job();
		struct fpisa_hdr h = an_add();
		struct fpisa_claim claim;

		h.generation = c->generation;
		claim = fpisa_claim_of(&h, &job);
		c->step = fpisa_admit(&session, &slot, &claim, 7, &c->results);
	}
	c->over = true;
}

/* Run CPU c until just before its next access. */
static void go_on(struct cpu *c)
{
	running = c;
	swapcontext(&scheduler, &c->context);
}

static void begin(struct cpu *c)
{
	c->over = false;
	c->context = start;
	c->context.uc_stack.ss_sp = c->stack;
	c->context.uc_stack.ss_size = sizeof(c->stack);
	c->context.uc_link = &scheduler;
	makecontext(&c->context, run_cpu, 0);
	go_on(c);
}

static void begin_all(void)
{
	session = (struct fpisa_session){.generation = 1, .results = results_of(1)};
	for (int i = 0; i < cpu_count; i++)
		begin(&cpus[i]);
}

/*
 * Take choice `k`. Either a CPU that has not finished, and whose generation has begun, makes one access, or the next of
 * `last` generations begins. Return false if choice `k` does not exist.
 */
static bool choose(int k, __u32 last)
{
	for (struct cpu *c = cpus; c < cpus + cpu_count; c++) {
		if (c->over || c->generation > session.generation || k--)
			continue;
		go_on(c);
		return true;
	}
	if (k || session.generation == last)
		return false;
	session.generation++;
	session.results = results_of(session.generation);
	return true;
}

/* Check that a broken generation stays broken, for the same reason, while it runs. */
static void check_mark(__u64 before, __u32 generation)
{
	if ((__u32)before == generation && session.generation == generation)
		assert_int_equal(session.broken, before);
}

/* Run every schedule, in lexical order, and call `check` at the end of each. Return the number of schedules. */
static long every_order(__u32 last, void (*check)(void))
{
	int schedule[MAX_STEPS + 1] = {0}, n;
	long orders = 0;

	for (;;) {
		begin_all();
		for (n = 0; n < MAX_STEPS; n++) {
			__u64 before = session.broken;
			__u32 generation = session.generation;

			if (!choose(schedule[n], last))
				break;
			check_mark(before, generation);
		}
		assert_true(n < MAX_STEPS);
		if (schedule[n]) {
			/* This choice does not exist, so the previous choice was the last at this point. */
			schedule[n] = 0;
			if (!n)
				return orders;
			schedule[n - 1]++;
			continue;
		}
		orders++;
		check();
		schedule[n - 1]++;
	}
}

static void a_cpu(__u32 generation, enum fpisa_verdict why)
{
	assert_true(cpu_count < MAX_CPUS);
	cpus[cpu_count].generation = generation;
	cpus[cpu_count++].why = why;
}

/* Check that the last generation still runs and is broken, for the reason of one of its own CPUs. */
static void check_broken(void)
{
	enum fpisa_verdict why = (enum fpisa_verdict)(session.broken >> 32);

	assert_int_equal((__u32)session.broken, session.generation);
	for (struct cpu *c = cpus; c < cpus + cpu_count; c++)
		if (c->generation == session.generation && c->why == why)
			return;
	fail_msg("generation %u is broken for reason %d", session.generation, why);
}

/*
 * Check one or two CPUs that are late when a generation ends, together with two CPUs of the next generation. No mark is
 * lost or replaced.
 */
static void test_breaks(void **state)
{
	static const __u32 of[][MAX_CPUS] = {{1}, {1, 1}, {1, 2}, {1, 1, 2}, {1, 2, 2}, {1, 2, 3}};

	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		__u32 last = 0;

		cpu_count = 0;
		for (int k = 0; k < MAX_CPUS && of[i][k]; k++) {
			a_cpu(of[i][k], k & 1 ? FPISA_V_pipeline : FPISA_V_mismatch);
			last = of[i][k];
		}
		print_message("%d CPUs, %u generations: %ld orders\n", cpu_count, last, every_order(last, check_broken));
	}
}

/* Check that an answer goes to a rank of the generation whose secret the answer has. */
static void check_results(void)
{
	assert_true(cpus[0].step == FPISA_STEP_RESEND || cpus[0].step == -FPISA_V_generation);
	if (cpus[0].step == FPISA_STEP_RESEND)
		assert_int_equal(cpus[0].results, results_of(1));
}

static void test_results(void **state)
{
	(void)state;
	cpu_count = 0;
	a_cpu(1, 0);
	print_message("a kept result: %ld orders\n", every_order(3, check_results));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_breaks),
		cmocka_unit_test(test_results),
	};

	getcontext(&start);

	return cmocka_run_group_tests(tests, NULL, NULL);
}
