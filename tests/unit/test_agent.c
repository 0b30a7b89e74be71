// SPDX-License-Identifier: GPL-2.0-only
/* Test an aggregator's jobs for a manager on another host that is restarted while a job is created. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "serve/agent_jobs.h" /* included before cmocka's fail() */
#include "ranges.h"
#include <cmocka.h>

#define GROUP 77

/* Requests to the helper, and messages to the manager */
static struct helper_request asked[16];
static struct fpisa_manager_message told[16];
static int asks, tells;

static void ask(void *arg, const struct helper_request *q)
{
	(void)arg;
	assert_uint_in_range(asks, 0, 15);
	asked[asks++] = *q;
}

static void tell(void *arg, const struct fpisa_manager_message *m)
{
	(void)arg;
	assert_uint_in_range(tells, 0, 15);
	told[tells++] = *m;
}

static const struct agent_ops ops = {.ask = ask, .send = tell};

static struct agent_jobs *new_agent(void)
{
	static struct agent_jobs a;

	a = (struct agent_jobs){.ops = &ops, .pool = 255, .slots = 1024};
	asks = tells = 0;
	return &a;
}

static void say(struct agent_jobs *a, const struct fpisa_manager_message *m)
{
	assert_int_equal(fpisa_manager_check(m, FPISA_MANAGER_MANAGER), 0);
	assert_true(agent_message(a, m));
}

/* Send RANKS and MAKE of job 3 for two ranks, both at this port. */
static void say_make(struct agent_jobs *a, uint64_t token, uint16_t port)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_RANKS);

	m.ranks.group = GROUP;
	m.ranks.address[0] = fpisa_ipv4(htonl(0x0a000001));
	m.ranks.address[1] = fpisa_ipv4(htonl(0x0a000002));
	m.ranks.port[0] = m.ranks.port[1] = port;
	say(a, &m);
	m = fpisa_manager_message(FPISA_MANAGER_MAKE);
	m.make = (struct fpisa_manager_make){
		.group = GROUP, .token = token, .token_high = 1, .index = 3, .workers = 2, .numbers = ~0ull};
	m.make.spec.window = 64;
	strcpy(m.make.name, "train");
	say(a, &m);
}

/* Report that the helper has made the latest requested job under this number. */
static void made(struct agent_jobs *a, uint32_t number)
{
	const struct helper_request *q = &asked[asks - 1];

	assert_int_equal(q->what, HELPER_MAKE);
	agent_made(a, &(struct manager_made){
			      .place = q->place, .index = q->make.index, .id = q->make.id, .number = number});
}

/*
 * Check that the job of the first manager does not answer the request of the second manager. The job is removed, and
 * the requested job is created.
 */
static void asked_again_while_it_is_made(void **state)
{
	struct agent_jobs *a = new_agent();

	(void)state;
	say_make(a, 100, 18100);
	assert_int_equal(asked[1].make.token, 100);
	agent_disconnected(a);
	agent_tell_groups(a);
	assert_int_equal(told[0].type, FPISA_MANAGER_HOLDS);
	say_make(a, 200, 18101);
	assert_int_equal(asks, 2);
	assert_int_equal(tells, 1);
	made(a, 5);
	assert_int_equal(asks, 5);
	assert_int_equal(asked[2].what, HELPER_REMOVE);
	assert_true(asked[2].remove.number == 5 && asked[2].remove.token == 100);
	assert_int_equal(asked[3].what, HELPER_RECORD);
	assert_int_equal(asked[3].record.job[3].token, 200);
	assert_true(asked[4].make.token == 200 && asked[4].make.port[1] == 18101);
	assert_int_equal(tells, 1);
	made(a, 6);
	assert_int_equal(tells, 2);
	assert_int_equal(told[1].type, FPISA_MANAGER_MADE);
	assert_true(told[1].made.index == 3 && told[1].made.number == 6 && !told[1].made.err);
}

/*
 * Check a job that is created after the first manager has gone and before the second manager's request. The job does
 * not answer that request.
 */
static void made_while_nobody_is_there(void **state)
{
	struct agent_jobs *a = new_agent();

	(void)state;
	say_make(a, 100, 18100);
	agent_disconnected(a);
	agent_tell_groups(a);
	made(a, 5);
	assert_int_equal(tells, 1);
	say_make(a, 200, 18101);
	assert_true(asked[asks - 3].what == HELPER_REMOVE && asked[asks - 3].remove.token == 100);
	made(a, 5);
	assert_int_equal(told[1].type, FPISA_MANAGER_MADE);
}

/*
 * Check that the manager gets an error if it asks for a job of a group that the aggregator has ended before the manager
 * knew about the end.
 */
static void asked_for_what_has_ended(void **state)
{
	struct agent_jobs *a = new_agent();
	__u64 kill[GROUPS] = {GROUP};

	(void)state;
	say_make(a, 100, 18100);
	agent_killed(a, kill);
	assert_int_equal(told[0].type, FPISA_MANAGER_ENDED);
	say_make(a, 200, 18101);
	assert_int_equal(told[1].made.err, -EBUSY);
	assert_string_equal(told[1].made.text, "the group has ended at this aggregator; join again");
	made(a, 5);
	assert_int_equal(asked[asks - 2].what, HELPER_REMOVE);
	assert_int_equal(asked[asks - 1].record.id, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asked_again_while_it_is_made),
		cmocka_unit_test(made_while_nobody_is_there),
		cmocka_unit_test(asked_for_what_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
