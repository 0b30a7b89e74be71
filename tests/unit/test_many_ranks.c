// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the manager (user/manager) with a group of 4,096 ranks: 64 hosts with 64 ranks and an aggregator each, and the root on
 * a host without ranks. Tables simulate ranks, aggregators and the datapath. The tests count messages, because their number
 * must not grow with the square of the number of ranks.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "manager/group.h"
#include "peer.h"

#define HOSTS 64
#define RANKS FPISA_MAX_RANKS
#define TYPES 32

struct told {
	struct peer peer;
	uint32_t n[TYPES]; /* messages of each type since the last look */
	struct fpisa_manager_message last[TYPES];
	struct fpisa_ranks named; /* ranks that PENDING or GONE have named */
	struct fpisa_ranks left;
};

static struct world {
	struct manager m;
	struct manager_policy policy;
	struct told rank[RANKS], aggregator[HOSTS];
	struct manager_make make;
	uint32_t makes, sent;
	struct group_record record;
	uint64_t words;
} w;

static void send_it(void *arg, struct manager_caller *to, const struct fpisa_manager_message *msg)
{
	struct told *t = (struct told *)peer_of(to);

	(void)arg;
	peer_hears(&t->peer, msg);
	t->n[msg->type]++;
	t->last[msg->type] = *msg;
	w.sent++;
	if (msg->type == FPISA_MANAGER_LEFT)
		for (uint32_t i = 0; i < FPISA_MANAGER_PART / 64; i++)
			t->left.word[msg->left.first / 64 + i] |= msg->left.ranks[i];
	if (msg->type == FPISA_MANAGER_PENDING || msg->type == FPISA_MANAGER_GONE)
		memcpy(&t->named.word[msg->members.first / 64], msg->members.ranks, sizeof(msg->members.ranks));
}

static void make_it(void *arg, const struct manager_make *m)
{
	(void)arg;
	w.make = *m;
	w.makes++;
}

static void remove_it(void *arg, __u32 number, __u64 token)
{
	(void)arg;
	assert_true(number < FPISA_MAX_JOBS && token);
}

static void record_it(void *arg, __u32 place, const struct group_record *r)
{
	(void)arg;
	assert_true(place < GROUPS);
	if (!place)
		memcpy(&w.record, r, group_record_bytes(r));
}

static void note_aggregator(void *arg, __u32 place, const struct aggregator_record *r)
{
	(void)arg;
	assert_true(place < AGGREGATORS && r->port);
}

static void say_it(void *arg, const char *text)
{
	(void)arg;
	assert_true(*text);
}

static __u32 rate_it(void *arg, const struct group_record *r)
{
	(void)arg;
	(void)r;
	return 100000;
}

static __u64 random_it(void *arg)
{
	(void)arg;
	return ++w.words;
}

static const struct manager_ops ops = {.send = send_it,
				       .hang_up = peer_hang_up,
				       .refused = peer_refused,
				       .make = make_it,
				       .remove = remove_it,
				       .record = record_it,
				       .aggregator = note_aggregator,
				       .say = say_it,
				       .rate = rate_it,
				       .random = random_it};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void connect_from(struct told *t, uint32_t host, const char *owner)
{
	peer_connect(&t->peer, sizeof(*t), host, owner);
}

static void say(struct told *t, const struct fpisa_manager_message *msg)
{
	peer_say(&w.m, &t->peer, msg);
}

static void start_manager(void)
{
	memset(&w.m, 0, sizeof(w.m));
	w.m.policy = &w.policy;
	w.m.ops = &ops;
	w.m.aggregator_port = 18000;
	for (uint32_t i = 0; i < HOSTS; i++) {
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REGISTER);

		connect_from(&w.aggregator[i], 1 + i, "aggs");
		msg.reg = (struct fpisa_manager_register){
			.version = FPISA_VERSION, .port = 18000, .rate = 10000, .slots = 1024};
		say(&w.aggregator[i], &msg);
		assert_int_equal(w.aggregator[i].n[FPISA_MANAGER_REGISTERED], 1);
	}
}

/* Let the aggregators say that they live. */
static void beat(void)
{
	const struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_PING);

	for (uint32_t i = 0; i < HOSTS; i++)
		say(&w.aggregator[i], &msg);
}

static void begin(void)
{
	memset(&w, 0, sizeof(w));
	manager_policy_init(&w.policy);
	manager_policy_fit(&w.policy, FPISA_DEFAULT_SLOTS);
	strcpy(w.policy.aggregator_key[w.policy.aggregator_keys++], "aggs");
	w.policy.leaves = true;
	start_manager();
}

static void join_by(struct told *t, const char *name, uint32_t rank, uint32_t size, uint32_t host)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_JOIN);

	connect_from(t, host, "key");
	strcpy(msg.join.name, name);
	msg.join.rank = rank;
	msg.join.size = size;
	msg.join.rate = 10000;
	say(t, &msg);
}

static void join(uint32_t rank, uint32_t size, uint32_t host)
{
	join_by(&w.rank[rank], "many", rank, size, host);
}

/* Ranks in this order are on hosts 1 to 64 in turn, so that the ranks of a leaf are not neighbours. */
static uint32_t host_of(uint32_t rank)
{
	return 1 + rank % HOSTS;
}

static void gather(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		join(r, RANKS, host_of(r));
	for (uint32_t r = 0; r < RANKS; r++)
		assert_int_equal(w.rank[r].n[FPISA_MANAGER_JOINED], 1);
}

static void ask(uint32_t index, uint8_t format, uint8_t mode)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_ASK);

		msg.ask.index = index;
		msg.ask.spec.format = format;
		msg.ask.spec.mode = mode;
		say(&w.rank[r], &msg);
	}
}

static void bind_all(void)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_BOUND);
		const struct fpisa_manager_bind *b = &w.rank[r].last[FPISA_MANAGER_BIND].bind;

		assert_int_equal(w.rank[r].n[FPISA_MANAGER_BIND], 1);
		assert_int_equal(ntohl(b->address.w[3]), PEER_NET + host_of(r));
		msg.bind.index = b->index;
		msg.bind.port = b->port;
		say(&w.rank[r], &msg);
	}
}

static struct fpisa_manager_spec spec_of(struct fpisa_manager_spec s)
{
	s.rounding = FPISA_ROUND_NEAREST;
	s.pipeline = FPISA_PIPELINE_FUSED;
	s.elements = 32;
	return s;
}

/* Let the root, and then each leaf, create the job. */
static void make_all(void)
{
	struct manager_made made = {
		.place = w.make.place, .index = w.make.index, .id = w.make.id, .number = 5, .spec = spec_of(w.make.spec)};

	assert_true(w.makes == 1 && w.make.leaves && w.make.workers == HOSTS);
	manager_made(&w.m, &made);
	for (uint32_t i = 0; i < HOSTS; i++) {
		const struct fpisa_manager_make *o = &w.aggregator[i].last[FPISA_MANAGER_MAKE].make;
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_MADE);

		assert_int_equal(w.aggregator[i].n[FPISA_MANAGER_MAKE], 1);
		assert_int_equal(w.aggregator[i].n[FPISA_MANAGER_RANKS], 64 / FPISA_MANAGER_MAKE_RANKS);
		assert_true(o->workers == 64 && o->rank == i && o->numbers == 1ull << 5);
		msg.made = (struct fpisa_manager_made){
			.group = o->group, .index = o->index, .number = 5, .spec = spec_of(o->spec)};
		say(&w.aggregator[i], &msg);
	}
}

/* Check that each rank has the job with the ranks of its host, and that the ranks of a host have different ports. */
static void check_job(void)
{
	static uint16_t port[HOSTS + 1][HOSTS];

	for (uint32_t r = 0; r < RANKS; r++) {
		const struct fpisa_manager_job *j = &w.rank[r].last[FPISA_MANAGER_JOB].job;

		assert_int_equal(w.rank[r].n[FPISA_MANAGER_JOB], 1);
		assert_true(j->leaf == 64 && j->job == 5);
		for (uint32_t i = 0; i < 64; i++)
			assert_int_equal(j->rank[i], r % HOSTS + i * HOSTS);
		port[host_of(r)][r / HOSTS] = w.rank[r].last[FPISA_MANAGER_BIND].bind.port;
		for (uint32_t k = 0; k < r / HOSTS; k++)
			assert_int_not_equal(port[host_of(r)][k], port[host_of(r)][r / HOSTS]);
	}
}

static void a_group_gets_a_job(void **state)
{
	double began;

	(void)state;
	begin();
	began = seconds();
	gather();
	print_message("%d ranks joined in %.2f s, %.1f messages a rank\n", RANKS, seconds() - began,
		      (double)w.sent / RANKS);
	assert_true(w.sent < 6 * RANKS);
	assert_true(w.record.aggregators == 1 + HOSTS && group_has_tree(&w.record));
	began = seconds();
	ask(0, FPISA_FORMAT_FP32, FPISA_MODE_EXACT);
	bind_all();
	make_all();
	check_job();
	print_message("their job took %.2f s\n", seconds() - began);
	assert_int_equal(w.record.job[0].state, FPISA_GROUP_JOB_MADE);
}

/* Waiting ranks learn at once which ranks have joined when they join, and then once a second. */
static void waiting_ranks(void **state)
{
	struct fpisa_ranks right = FPISA_NO_RANKS;

	(void)state;
	begin();
	for (uint32_t r = 0; r < RANKS; r += 3) {
		join(r, RANKS, host_of(r));
		fpisa_ranks_add(&right, r);
		assert_true(fpisa_ranks_same(&w.rank[r].named, &right));
	}
	w.m.now_ms = 1000;
	manager_tick(&w.m);
	for (uint32_t r = 0; r < RANKS; r += 3)
		assert_true(fpisa_ranks_same(&w.rank[r].named, &right));
	w.sent = 0;
	w.rank[3].peer.connected = false;
	manager_lost(&w.m, &w.rank[3].peer.caller, FPISA_MANAGER_CLOSED);
	fpisa_ranks_remove(&right, 3);
	manager_tick(&w.m);
	assert_int_equal(w.sent, 0);
	w.m.now_ms = 2000;
	manager_tick(&w.m);
	manager_tick(&w.m);
	assert_int_equal(w.sent, 4 * fpisa_ranks_count(&right));
	assert_true(fpisa_ranks_same(&w.rank[0].named, &right));
}

static void check_gone(uint32_t end, const struct fpisa_ranks *right, enum fpisa_manager_cause cause)
{
	for (uint32_t r = 0; r < end; r++) {
		assert_true(fpisa_ranks_same(&w.rank[r].named, right));
		assert_int_equal(w.rank[r].last[FPISA_MANAGER_GONE].members.cause, cause);
	}
}

static void forget_named(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		w.rank[r].named = FPISA_NO_RANKS;
}

static void deaths(void **state)
{
	struct fpisa_ranks right = fpisa_ranks_one(RANKS - 1);

	(void)state;
	begin();
	gather();
	forget_named();
	w.rank[RANKS - 1].peer.connected = false;
	manager_lost(&w.m, &w.rank[RANKS - 1].peer.caller, FPISA_MANAGER_CLOSED);
	check_gone(RANKS - 1, &right, FPISA_MANAGER_CLOSED);
	assert_true(fpisa_ranks_same(&w.record.gone, &right));
	forget_named();
	manager_kill(&w.m, 0, w.m.group[0].record.id);
	right = fpisa_ranks_all(RANKS);
	check_gone(RANKS - 1, &right, FPISA_MANAGER_KILLED);
	assert_int_equal(w.m.count.gone, RANKS);
	assert_int_equal(w.record.id, 0);
}

/* Ranks leave, half of them after one call and half after two. The others learn it in a few messages, and then they die. */
static void ends(void **state)
{
	const uint32_t leavers = RANKS - 100;
	const struct fpisa_ranks right = fpisa_ranks_all(leavers);

	(void)state;
	begin();
	gather();
	w.sent = 0;
	for (uint32_t r = 0; r < leavers; r++) {
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_LEAVE);

		msg.leave.calls = 1 + r % 2;
		say(&w.rank[r], &msg);
		assert_true(w.rank[r].peer.hung_up);
	}
	manager_tick(&w.m);
	assert_int_equal(w.sent, 100 * 2 * 4);
	assert_true(fpisa_ranks_same(&w.record.left, &right));
	for (uint32_t r = leavers; r < RANKS; r++)
		assert_true(fpisa_ranks_same(&w.rank[r].left, &right));
	w.sent = 0;
	for (uint32_t r = leavers; r < RANKS; r++)
		manager_lost(&w.m, &w.rank[r].peer.caller, FPISA_MANAGER_CLOSED);
	assert_int_equal(w.sent, 99 + HOSTS); /* GONE, and then DROP */
	assert_int_equal(w.record.id, 0);
}

/* The ranks come back to a restarted manager, except two, which the others learn. */
static void restart(void **state)
{
	static struct group_record record;
	struct fpisa_ranks right = fpisa_ranks_one(70);

	(void)state;
	begin();
	gather();
	memcpy(&record, &w.record, sizeof(record));
	start_manager();
	manager_restore(&w.m, 0, &record);
	for (uint32_t r = 0; r < RANKS; r++) {
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_RETURN);

		if (r == 70 || r == 4000)
			continue;
		connect_from(&w.rank[r], host_of(r), "key");
		strcpy(msg.join.name, "many");
		msg.join.rank = r;
		msg.join.size = RANKS;
		msg.join.group = record.id;
		msg.join.secret = record.secret;
		say(&w.rank[r], &msg);
		assert_int_equal(w.rank[r].n[FPISA_MANAGER_JOINED], 1);
	}
	w.m.now_ms = FPISA_MANAGER_RETURN_MS;
	beat();
	manager_tick(&w.m);
	fpisa_ranks_add(&right, 4000);
	check_gone(70, &right, FPISA_MANAGER_AWAY);
}

static void assert_refused(uint32_t rank, enum fpisa_manager_reason reason, const char *text)
{
	const struct fpisa_manager_refusal *r = &w.rank[rank].last[FPISA_MANAGER_REFUSED].refusal;

	assert_true(w.rank[rank].n[FPISA_MANAGER_REFUSED]);
	assert_int_equal(r->reason, reason);
	if (!strstr(r->text, text))
		fail_msg("'%s' is not in '%s'", text, r->text);
}

/* Jobs that cannot have a tree are refused, and the group continues. */
static void other_jobs(void **state)
{
	(void)state;
	begin();
	gather();
	ask(0, FPISA_FORMAT_FP32, FPISA_MODE_FPISA);
	assert_refused(RANKS - 1, FPISA_MANAGER_R_mode, "a job of 4096 ranks needs mode exact");
	ask(1, FPISA_FORMAT_INT32, 0);
	ask(2, FPISA_FORMAT_FP16, FPISA_MODE_EXACT);
	assert_int_equal(w.rank[0].n[FPISA_MANAGER_BIND], 2);
}

static void refused_groups(void **state)
{
	(void)state;
	begin();
	w.policy.leaves = false;
	join(0, 65, 1);
	assert_refused(0, FPISA_MANAGER_R_size, "without a tree a group has up to 64; set leaves = yes");
	join(0, 64, 1);
	assert_int_equal(w.rank[0].n[FPISA_MANAGER_PENDING], 1);
	begin();
	for (uint32_t r = 0; r < 65; r++)
		join(r, 65, 1);
	for (uint32_t r = 0; r < 65; r++)
		assert_refused(r, FPISA_MANAGER_R_size,
			       "rank 64 at 10.0.0.1 has no aggregator in its rack, or on its host, with fewer than 64");
	assert_int_equal(w.rank[0].n[FPISA_MANAGER_JOINED], 0);
	for (uint32_t r = 0; r < 65; r++)
		manager_lost(&w.m, &w.rank[r].peer.caller, FPISA_MANAGER_CLOSED);
	assert_int_equal(w.m.group[0].record.id, 0);
	begin();
	for (uint32_t r = 0; r < 66; r++)
		join(r, 66, r == 65 ? 100 : 1 + r % 2);
	assert_refused(0, FPISA_MANAGER_R_size, "rank 65 at 10.0.0.100 has no aggregator");
	begin();
	join(0, 80, 1);
	join(70, 81, 1);
	assert_refused(70, FPISA_MANAGER_R_size, "rank 70 joined with size 81");
	join(0, 80, 1);
	assert_refused(0, FPISA_MANAGER_R_rank, "another process has joined as rank 0");
}

/* Have these ranks of a group joined, and lose the first. */
static void gather_and_lose(struct told *t, const char *name, uint32_t size)
{
	for (uint32_t r = 0; r < size; r++)
		join_by(&t[r], name, r, size, host_of(r));
	assert_int_equal(t[0].n[FPISA_MANAGER_JOINED], 1);
	t[0].peer.connected = false;
	manager_lost(&w.m, &t[0].peer.caller, FPISA_MANAGER_CLOSED);
}

/* Large groups share the places of 4,096 ranks, and do not take those of small groups. */
static void places(void **state)
{
	static struct told few[65];

	(void)state;
	begin();
	join_by(&w.rank[0], "a", 0, 3000, 1);
	join_by(&w.rank[1], "b", 0, 1097, 1);
	assert_refused(1, FPISA_MANAGER_R_pool,
		       "groups of more than 64 ranks have at most 4096 ranks together, and others have 3000");
	join_by(&w.rank[1], "b", 0, 1096, 1);
	join_by(&w.rank[2], "c", 0, 64, 1);
	assert_int_equal(w.rank[1].n[FPISA_MANAGER_PENDING] && w.rank[2].n[FPISA_MANAGER_PENDING], 1);
	/* Groups that have ended for some ranks do not count, until as many ranks stay in them. */
	begin();
	gather_and_lose(w.rank, "many", RANKS);
	gather_and_lose(few, "few", 65);
	join_by(&few[0], "many", 0, RANKS, 1);
	assert_int_equal(few[0].last[FPISA_MANAGER_REFUSED].refusal.reason, FPISA_MANAGER_R_pool);
	assert_non_null(strstr(few[0].last[FPISA_MANAGER_REFUSED].refusal.text,
			       "4159 ranks of large groups are still connected"));
	for (uint32_t r = 1; r < 65; r++)
		manager_lost(&w.m, &few[r].peer.caller, FPISA_MANAGER_CLOSED);
	join_by(&few[0], "many", 0, RANKS, 1);
	assert_true(few[0].n[FPISA_MANAGER_PENDING]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_gets_a_job),
		cmocka_unit_test(waiting_ranks),
		cmocka_unit_test(deaths),
		cmocka_unit_test(restart),
		cmocka_unit_test(other_jobs),
		cmocka_unit_test(refused_groups),
		cmocka_unit_test(places),
		cmocka_unit_test(ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
