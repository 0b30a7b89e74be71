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

	memset(&a, 0, sizeof(a));
	a.ops = &ops;
	a.pool = 255;
	a.slots = 1024;
	asks = tells = 0;
	return &a;
}

static void say(struct agent_jobs *a, const struct fpisa_manager_message *m)
{
	assert_int_equal(fpisa_manager_check(m, FPISA_MANAGER_MANAGER), 0);
	assert_true(agent_message(a, m));
}

/*
 * Send RANKS and MAKE of job 3 for two ranks, both at this port. In a tree the job is a root, or a leaf of the root at the
 * address `root`, perhaps besides earlier jobs.
 */
static void say_make_in_tree(struct agent_jobs *a, uint64_t token, uint16_t port, bool leaves,
			     struct fpisa_address root, bool further)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_RANKS);

	m.ranks.group = GROUP;
	m.ranks.address[0] = fpisa_ipv4(htonl(0x0a000001));
	m.ranks.address[1] = fpisa_ipv4(htonl(0x0a000002));
	m.ranks.port[0] = m.ranks.port[1] = port;
	say(a, &m);
	m = fpisa_manager_message(FPISA_MANAGER_MAKE);
	m.make = (struct fpisa_manager_make){.group = GROUP,
					     .token = token,
					     .token_high = 1,
					     .index = 3,
					     .workers = 2,
					     .numbers = ~0ull,
					     .leaves = leaves,
					     .root = root,
					     .further = further,
					     .port = fpisa_is_address(&root) ? FPISA_PORT : 0};
	m.make.spec.window = 64;
	strcpy(m.make.name, "train");
	say(a, &m);
}

static void say_make(struct agent_jobs *a, uint64_t token, uint16_t port)
{
	say_make_in_tree(a, token, port, false, FPISA_NO_ADDRESS, false);
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

/* Return the number that request `i` removes, and check its token. */
static uint32_t removed(int i, uint64_t token)
{
	assert_int_equal(asked[i].what, HELPER_REMOVE);
	assert_int_equal(asked[i].remove.token, token);
	return asked[i].remove.number;
}

/*
 * Check a root and a leaf beside it. The leaf does not replace the root, also if the leaf cannot be created. If the root is
 * created again, both are removed before, and at the end of the group too.
 */
static void root_and_leaf(void **state)
{
	struct fpisa_manager_message drop = fpisa_manager_message(FPISA_MANAGER_DROP);
	const struct fpisa_address here = fpisa_ipv4(htonl(0x0a000009)), other = fpisa_ipv4(htonl(0x0a000008));
	struct agent_jobs *a = new_agent();
	const struct group_job *j = &a->group[0].record.job[3];

	(void)state;
	a->local = here;
	say_make_in_tree(a, 100, FPISA_PORT, true, FPISA_NO_ADDRESS, false);
	made(a, 5);
	say_make_in_tree(a, 100, 18101, false, here, true);
	assert_true(asked[asks - 1].make.token == 100 && fpisa_same_address(&asked[asks - 1].make.parent, &here));
	assert_true(asked[asks - 2].what == HELPER_RECORD && asked[asks - 2].record.job[3].number == 5);
	agent_made(a, &(struct manager_made){.index = 3, .id = GROUP, .err = -ENOSPC});
	assert_true(j->state == FPISA_GROUP_JOB_MADE && j->number == 5 && !j->further);
	say_make_in_tree(a, 100, FPISA_PORT, true, FPISA_NO_ADDRESS, false);
	assert_int_equal(removed(asks - 3, 100), 5);
	asks = 0;
	asked[asks++].what = HELPER_MAKE;
	asked[0].make.index = 3;
	asked[0].make.id = GROUP;
	made(a, 4);
	say_make_in_tree(a, 100, 18101, false, here, true);
	made(a, 6);
	assert_true(j->number == 4 && j->further == 1 << 6);
	drop.of.group = GROUP;
	asks = 0;
	say(a, &drop);
	assert_true(removed(0, 100) == 6 && removed(1, 100) == 4);
	/* A leaf of a root elsewhere replaces the leaf before. */
	say_make_in_tree(a, 200, 18101, false, other, false);
	made(a, 2);
	say_make_in_tree(a, 200, 18101, false, other, false);
	assert_int_equal(removed(asks - 3, 200), 2);
}

/* A leaf has a job for each of three roots. The next attempt, and the end of the group, remove all of them. */
static void leaf_of_three_roots(void **state)
{
	const struct fpisa_address root[] = {fpisa_ipv4(htonl(0x0a000007)), fpisa_ipv4(htonl(0x0a000008)),
					     fpisa_ipv4(htonl(0x0a000009))};
	struct fpisa_manager_message drop = fpisa_manager_message(FPISA_MANAGER_DROP);
	struct agent_jobs *a = new_agent();
	const struct group_job *j = &a->group[0].record.job[3];

	(void)state;
	for (uint32_t attempt = 0; attempt < 2; attempt++) {
		asks = tells = 0;
		for (uint32_t i = 0; i < 3; i++) {
			say_make_in_tree(a, 100, 18101, false, root[i], i);
			assert_int_equal(asked[asks - 1].make.further, i > 0);
			assert_true(fpisa_same_address(&asked[asks - 1].make.parent, &root[i]));
			made(a, 2 + i);
			assert_int_equal(told[tells - 1].made.number, 2 + i);
		}
		assert_true(j->state == FPISA_GROUP_JOB_MADE && j->number == 2 && j->further == (1 << 3 | 1 << 4));
		assert_true(!attempt || (removed(0, 100) == 3 && removed(1, 100) == 4 && removed(2, 100) == 2));
	}
	drop.of.group = GROUP;
	asks = 0;
	say(a, &drop);
	assert_true(removed(0, 100) == 3 && removed(1, 100) == 4 && removed(2, 100) == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asked_again_while_it_is_made), cmocka_unit_test(made_while_nobody_is_there),
		cmocka_unit_test(asked_for_what_has_ended),	cmocka_unit_test(root_and_leaf),
		cmocka_unit_test(leaf_of_three_roots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
