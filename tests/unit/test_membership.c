// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the manager's groups (user/manager), first with events in fixed orders, then in random orders. After every
 * random event the jobs of groups must agree with their ranks' connections and the limits. Tables simulate ranks and
 * datapath.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <errno.h>
#include <cmocka.h>
#include "manager/group.h"
#include "manager/remote.h"
#include "peer.h"
#include "vectors.h"

#define CALLERS 64
#define INBOX 16

/* Messages that a rank has received */
struct told {
	struct peer peer;
	int n;
	struct fpisa_manager_message inbox[INBOX]; /* the latest messages */
};

/* One datapath with one manager and the manager's callers */
struct world {
	struct manager m;
	struct group_record record[GROUPS];
	struct manager_policy policy;
	struct told of[CALLERS];
	uint64_t next_random;
	/* requests that the datapath has not handled */
	int making;
	struct manager_make make[64];
	/* existing jobs, by number */
	uint64_t token[FPISA_MAX_JOBS];
	uint32_t window[FPISA_MAX_JOBS];
	uint32_t static_slots; /* slots that static jobs hold */
	struct aggregator_record aggregator[AGGREGATORS];
	char said[512];
	uint32_t rate;	   /* rate of the datapath's own link */
	uint16_t elements; /* default number of elements in a job's frames; 0: 32 */
};

static void send_it(void *arg, struct manager_caller *to, const struct fpisa_manager_message *msg)
{
	struct told *t = (struct told *)peer_of(to);

	(void)arg;
	peer_hears(&t->peer, msg);
	t->inbox[t->n++ % INBOX] = *msg;
}

static void make_it(void *arg, const struct manager_make *m)
{
	struct world *w = arg;

	assert_true(w->making < 64);
	/* The record must be written first. After a kill, only the record leads to the job. */
	assert_int_equal(w->record[m->place].job[m->index].state, FPISA_GROUP_JOB_MAKING);
	assert_true(w->record[m->place].job[m->index].token == m->token && m->token);
	w->make[w->making++] = *m;
}

static void remove_it(void *arg, __u32 number, __u64 token)
{
	struct world *w = arg;

	assert_true(number < FPISA_MAX_JOBS && w->token[number] == token && token);
	w->token[number] = 0;
}

static void record_it(void *arg, __u32 place, const struct group_record *r)
{
	memcpy(&((struct world *)arg)->record[place], r, group_record_bytes(r));
}

static __u64 random_it(void *arg)
{
	return ++((struct world *)arg)->next_random;
}

static void note_aggregator(void *arg, __u32 place, const struct aggregator_record *r)
{
	((struct world *)arg)->aggregator[place] = *r;
}

static void say_it(void *arg, const char *text)
{
	snprintf(((struct world *)arg)->said, sizeof(((struct world *)arg)->said), "%s", text);
}

static __u32 rate_it(void *arg, const struct group_record *r)
{
	(void)r;
	return ((struct world *)arg)->rate;
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

/* Begin with an empty manager. Clear only groups that exist, because each has room for many ranks. */
static void start_manager(struct world *w)
{
	for (int i = 0; i < GROUPS; i++)
		if (w->m.group[i].record.id)
			memset(&w->m.group[i], 0, sizeof(w->m.group[i]));
	memset(&w->m, 0, offsetof(struct manager, group));
	w->m.policy = &w->policy;
	w->m.ops = &ops;
	w->m.arg = w;
	w->m.aggregator_port = 18000;
}

static void clear_record(struct group_record *r)
{
	memset(r, 0, offsetof(struct group_record, rank));
}

static struct world *new_world(void)
{
	static struct world w;

	for (int i = 0; i < GROUPS; i++)
		clear_record(&w.record[i]);
	memset(&w.policy, 0, sizeof(w) - offsetof(struct world, policy));
	manager_policy_init(&w.policy);
	manager_policy_fit(&w.policy, FPISA_DEFAULT_SLOTS);
	start_manager(&w);
	return &w;
}

/* Kill the manager and start it again. The new manager restores its state from the records. */
static void restart(struct world *w)
{
	start_manager(w);
	for (int i = 0; i < CALLERS; i++)
		w->of[i].peer.connected = 0;
	/* The datapath has completed every request, and every job that is left is recorded as made. */
	w->making = 0;
	for (int i = 0; i < GROUPS; i++) {
		if (group_gathers(&w->record[i]))
			clear_record(&w->record[i]);
		if (w->record[i].id)
			manager_restore(&w->m, (__u32)i, &w->record[i]);
	}
}

static struct told *call(struct world *w, int i, uint32_t host, const char *owner)
{
	struct told *t = &w->of[i];

	peer_connect(&t->peer, sizeof(*t), host, owner);
	return t;
}

static void say(struct world *w, struct told *t, const struct fpisa_manager_message *msg)
{
	peer_say(&w->m, &t->peer, msg);
}

static void join(struct world *w, struct told *t, const char *name, uint32_t rank, uint32_t size)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_JOIN);

	strcpy(msg.join.name, name);
	msg.join.rank = rank;
	msg.join.size = size;
	msg.join.rate = 10000;
	say(w, t, &msg);
}

static void ask_in_mode(struct world *w, struct told *t, uint32_t index, uint8_t format, uint8_t mode, uint32_t window)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_ASK);

	msg.ask.index = index;
	msg.ask.spec.format = format;
	msg.ask.spec.mode = mode;
	msg.ask.spec.window = window;
	say(w, t, &msg);
}

static void ask(struct world *w, struct told *t, uint32_t index, uint8_t format, uint32_t window)
{
	ask_in_mode(w, t, index, format, 0, window);
}

static void ask_elements(struct world *w, struct told *t, uint32_t index, uint16_t elements)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_ASK);

	msg.ask.index = index;
	msg.ask.spec.format = 1;
	msg.ask.spec.elements = elements;
	say(w, t, &msg);
}

static void bound(struct world *w, struct told *t, uint32_t index, uint16_t port, uint16_t taken)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_BOUND);

	msg.bind = (struct fpisa_manager_bind){.index = index, .port = port, .taken = taken};
	say(w, t, &msg);
}

static void cannot_because(struct world *w, struct told *t, uint32_t index, enum fpisa_manager_reason reason,
			   const char *text)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_FAILED);

	msg.refusal.reason = (__u16)reason;
	msg.refusal.index = index;
	strcpy(msg.refusal.text, text);
	say(w, t, &msg);
}

static void cannot(struct world *w, struct told *t, uint32_t index, const char *text)
{
	cannot_because(w, t, index, FPISA_MANAGER_R_failed, text);
}

static void waits(struct world *w, struct told *t, uint64_t call, uint64_t digest)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_WAITS);

	msg.waits = (struct fpisa_manager_waits){.call = call, .digest = digest, .last = call - 1, .elements = 1};
	say(w, t, &msg);
}

static void leave(struct world *w, struct told *t, uint64_t calls)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_LEAVE);

	msg.leave.calls = calls;
	say(w, t, &msg);
}

static void lose(struct world *w, struct told *t)
{
	t->peer.connected = 0;
	manager_lost(&w->m, &t->peer.caller, FPISA_MANAGER_CLOSED);
}

static const struct fpisa_manager_message *last(const struct told *t)
{
	assert_true(t->n > 0);
	return &t->inbox[(t->n - 1) % INBOX];
}

static void assert_last(const struct told *t, enum fpisa_manager_type type)
{
	assert_int_equal(last(t)->type, type);
}

static void assert_refused(const struct told *t, enum fpisa_manager_reason reason, const char *text)
{
	assert_last(t, FPISA_MANAGER_REFUSED);
	assert_int_equal(last(t)->refusal.reason, reason);
	if (!strstr(last(t)->refusal.text, text))
		fail_msg("'%s' is not in '%s'", text, last(t)->refusal.text);
}

static uint32_t slots_of(const struct world *w)
{
	uint32_t n = w->static_slots;

	for (int i = 0; i < FPISA_MAX_JOBS; i++)
		n += w->token[i] ? w->window[i] : 0;
	return n;
}

/* Let the datapath handle the oldest request. */
static void datapath_turn(struct world *w)
{
	struct manager_make o = w->make[0];
	struct manager_made made = {.place = o.place, .index = o.index, .id = o.id, .spec = o.spec};
	int number = 0;

	assert_true(w->making > 0);
	memmove(w->make, w->make + 1, (size_t)--w->making * sizeof(o));
	while (number < FPISA_MAX_JOBS && (w->token[number] || !(o.pool >> number & 1)))
		number++;
	if (number == FPISA_MAX_JOBS || slots_of(w) + o.spec.window > FPISA_DEFAULT_SLOTS) {
		made.err = -ENOSPC;
		strcpy(made.text, "no slots");
	} else {
		w->token[number] = o.token;
		w->window[number] = o.spec.window;
		made.number = (uint32_t)number;
		made.spec.format = made.spec.format ? made.spec.format : 1;
		made.spec.mode = made.spec.rounding = made.spec.pipeline = 1;
		if (!made.spec.elements)
			made.spec.elements = w->elements ? w->elements : 32;
		/* The datapath marks the record itself, because the manager may not be running. */
		if (w->record[o.place].aggregators == 1)
			w->record[o.place].job[o.index].state = FPISA_GROUP_JOB_MADE;
		if (o.further)
			w->record[o.place].job[o.index].further |= 1ull << made.number;
		else
			w->record[o.place].job[o.index].number = w->record[o.place].job[o.index].at[0] = made.number;
		w->record[o.place].job[o.index].made = made.spec;
	}
	manager_made(&w->m, &made);
}

/* Create a group of callers first .. first + size - 1, as ranks 0 .. size - 1, each on its own host. */
static void gather(struct world *w, int first, uint32_t size, const char *name, const char *owner)
{
	for (uint32_t r = 0; r < size; r++) {
		struct told *t = call(w, first + (int)r, 1 + r, owner);

		join(w, t, name, r, size);
		assert_last(t, r + 1 < size ? FPISA_MANAGER_PENDING : FPISA_MANAGER_JOINED);
	}
	for (uint32_t r = 0; r < size; r++)
		assert_last(&w->of[first + (int)r], FPISA_MANAGER_JOINED);
}

/* Let all ranks ask for the job, bind and get the job. */
static void get_job(struct world *w, int first, uint32_t size, uint32_t index, uint8_t format, uint32_t window)
{
	for (uint32_t r = 0; r < size; r++)
		ask(w, &w->of[first + (int)r], index, format, window);
	for (uint32_t r = 0; r < size; r++) {
		struct told *t = &w->of[first + (int)r];

		assert_last(t, FPISA_MANAGER_BIND);
		bound(w, t, index, last(t)->bind.port, 0);
	}
	datapath_turn(w);
	for (uint32_t r = 0; r < size; r++)
		assert_last(&w->of[first + (int)r], FPISA_MANAGER_JOB);
}

static int jobs_of(const struct world *w)
{
	int n = 0;

	for (int i = 0; i < FPISA_MAX_JOBS; i++)
		n += w->token[i] != 0;
	return n;
}

static int records_of(const struct world *w)
{
	int n = 0;

	for (int i = 0; i < GROUPS; i++)
		n += w->record[i].id != 0;
	return n;
}

/* -- fixed orders ----------------------------------------------------------- */

static void a_group_lives_and_ends(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 3, "train", "key");
	get_job(w, 0, 3, 0, 1, 0);
	get_job(w, 0, 3, 1, 4, 16);
	assert_int_equal(last(&w->of[0])->job.job, last(&w->of[2])->job.job);
	assert_int_equal(last(&w->of[0])->job.spec.window, 16);
	assert_int_equal(jobs_of(w), 2);
	leave(w, &w->of[1], 5);
	assert_true(w->of[1].peer.hung_up);
	assert_last(&w->of[0], FPISA_MANAGER_LEFT);
	assert_int_equal(last(&w->of[0])->left.ranks[0], 2);
	assert_int_equal(last(&w->of[0])->leave.calls, 5);
	leave(w, &w->of[0], 5);
	assert_int_equal(jobs_of(w), 2);
	leave(w, &w->of[2], 5);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

/* Check that ranks of the next group can join under the same name while the last ranks of a group leave. */
static void the_next_of_that_name(void **state)
{
	struct world *w = new_world();

	(void)state;
	w->policy.quota.groups = 1;
	gather(w, 0, 2, "train", "key");
	join(w, call(w, 9, 9, "key"), "train", 0, 2);
	assert_refused(&w->of[9], FPISA_MANAGER_R_name, "a group of this name exists");
	leave(w, &w->of[0], 0);
	join(w, call(w, 2, 1, "key"), "train", 0, 2);
	assert_last(&w->of[2], FPISA_MANAGER_PENDING);
	leave(w, &w->of[1], 0);
	join(w, call(w, 3, 2, "key"), "train", 1, 2);
	assert_last(&w->of[2], FPISA_MANAGER_JOINED);
	lose(w, &w->of[2]);
	assert_last(&w->of[3], FPISA_MANAGER_GONE);
	assert_int_equal(last(&w->of[3])->members.ranks[0], 1);
	gather(w, 4, 2, "train", "key");
}

static void who_may_not_join(void **state)
{
	struct world *w = new_world();

	(void)state;
	w->policy.size = 4;
	w->policy.quota.groups = 2;
	join(w, call(w, 0, 1, "key"), "train", 0, 3);
	join(w, call(w, 1, 2, "key"), "train", 0, 3);
	assert_refused(&w->of[1], FPISA_MANAGER_R_rank, "rank 0");
	join(w, call(w, 2, 3, "key"), "train", 1, 4);
	assert_refused(&w->of[2], FPISA_MANAGER_R_size, "but the other ranks with size 3");
	join(w, call(w, 3, 3, "key"), "large", 1, 5);
	assert_refused(&w->of[3], FPISA_MANAGER_R_size, "allows 4");
	join(w, call(w, 4, 4, "key"), "second", 0, 2);
	assert_last(&w->of[4], FPISA_MANAGER_PENDING);
	join(w, call(w, 5, 5, "key"), "third", 0, 2);
	assert_refused(&w->of[5], FPISA_MANAGER_R_quota, "key-groups");
	/* The names of another key are separate. */
	join(w, call(w, 6, 6, "other"), "train", 0, 3);
	assert_last(&w->of[6], FPISA_MANAGER_PENDING);
	/* If a rank stops waiting, another process may join with that rank. */
	lose(w, &w->of[0]);
	join(w, call(w, 7, 7, "key"), "train", 0, 2);
	assert_last(&w->of[7], FPISA_MANAGER_PENDING);
	assert_int_equal(records_of(w), 0);
}

static void a_message_out_of_its_turn(void **state)
{
	struct world *w = new_world();

	(void)state;
	ask(w, call(w, 0, 1, "key"), 0, 1, 0);
	assert_refused(&w->of[0], FPISA_MANAGER_R_order, "must come first");
	assert_true(w->of[0].peer.hung_up);
	leave(w, call(w, 1, 1, "key"), 0);
	assert_refused(&w->of[1], FPISA_MANAGER_R_order, "must come first");
	gather(w, 2, 2, "train", "key");
	join(w, &w->of[2], "other", 0, 2);
	assert_refused(&w->of[2], FPISA_MANAGER_R_order, "already belongs to a group");
	assert_last(&w->of[3], FPISA_MANAGER_GONE);
	assert_int_equal(last(&w->of[3])->members.cause, FPISA_MANAGER_BROKE);
}

/* -- several aggregators ----------------------------------------------------- */

#define AGG 40 /* number of the first caller that is an aggregator */

static struct told *register_at(struct world *w, int i, uint32_t host, const char *owner, uint32_t rate,
				uint32_t version)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REGISTER);
	struct told *t = call(w, i, host, owner);

	msg.reg = (struct fpisa_manager_register){.version = version, .port = 18000, .rate = rate, .slots = 1024};
	say(w, t, &msg);
	return t;
}

static struct world *world_with_aggregators(int n)
{
	struct world *w = new_world();

	strcpy(w->policy.aggregator_key[w->policy.aggregator_keys++], "aggs");
	w->rate = 10000;
	for (int i = 0; i < n; i++)
		assert_last(register_at(w, AGG + i, 200 + (uint32_t)i, "aggs", 10000, FPISA_VERSION),
			    FPISA_MANAGER_REGISTERED);
	return w;
}

/* Advance the clock by `ms`. All connected aggregators then send PING. */
static void later(struct world *w, uint64_t ms)
{
	struct fpisa_manager_message ping = fpisa_manager_message(FPISA_MANAGER_PING);

	w->m.now_ms += ms;
	for (int i = AGG; i < CALLERS; i++)
		if (w->of[i].peer.connected && w->of[i].peer.caller.aggregator)
			say(w, &w->of[i], &ping);
	manager_tick(&w->m);
}

static void made_there(struct world *w, struct told *t, uint32_t number, int err, const char *text)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_MADE);
	const struct fpisa_manager_make *o = &last(t)->make;

	assert_last(t, FPISA_MANAGER_MAKE);
	msg.made = (struct fpisa_manager_made){.group = o->group, .index = o->index, .number = number, .err = err};
	strcpy(msg.made.text, text);
	if (!err) {
		msg.made.spec = o->spec;
		msg.made.spec.mode = msg.made.spec.rounding = msg.made.spec.pipeline = 1;
		msg.made.spec.elements = o->spec.elements ? o->spec.elements : 32;
	}
	say(w, t, &msg);
}

/* Run the start of a job until all ranks have answered BIND. */
static void begin_job(struct world *w, int first, uint32_t size)
{
	for (uint32_t r = 0; r < size; r++)
		ask(w, &w->of[first + (int)r], 0, 1, 64);
	for (uint32_t r = 0; r < size; r++)
		bound(w, &w->of[first + (int)r], 0, last(&w->of[first + (int)r])->bind.port, 0);
	datapath_turn(w);
}

static void a_group_gets_all_that_are_there(void **state)
{
	struct world *w = world_with_aggregators(2);
	const struct fpisa_manager_message *m;

	(void)state;
	gather(w, 0, 4, "train", "key");
	m = &w->of[3].inbox[(w->of[3].n - 2) % INBOX];
	assert_int_equal(m->type, FPISA_MANAGER_AGGREGATORS);
	assert_int_equal(m->list.n, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(m->list.of[i].weight, 1);
	assert_int_equal(ntohl(m->list.of[2].address.w[3]), 0x0a000000 + 201);
	begin_job(w, 0, 4);
	/* An aggregator with less room has a smaller window. The window of the other aggregator does not change. */
	made_there(w, &w->of[AGG], 0, -ENOSPC, "no slots");
	assert_int_equal(last(&w->of[AGG])->make.spec.window, 32);
	made_there(w, &w->of[AGG], 5, 0, "");
	assert_int_equal(last(&w->of[AGG + 1])->make.spec.window, 64);
	assert_int_equal(last(&w->of[AGG + 1])->make.spec.elements, 32);
	assert_last(&w->of[0], FPISA_MANAGER_BIND);
	made_there(w, &w->of[AGG + 1], 9, 0, "");
	assert_last(&w->of[0], FPISA_MANAGER_JOB);
	assert_int_equal(last(&w->of[0])->job.others[1], 5);
	assert_int_equal(last(&w->of[0])->job.others[2], 9);
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_last(&w->of[AGG], FPISA_MANAGER_DROP);
	assert_last(&w->of[AGG + 1], FPISA_MANAGER_DROP);
}

/* Answer that the aggregator supports only `elements` elements in a frame. */
static void carries(struct world *w, struct told *t, uint16_t elements)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_MADE);
	const struct fpisa_manager_make *o = &last(t)->make;

	assert_last(t, FPISA_MANAGER_MAKE);
	msg.made = (struct fpisa_manager_made){
		.group = o->group, .index = o->index, .err = -EMSGSIZE, .number = FPISA_MANAGER_R_job};
	msg.made.spec.elements = elements;
	strcpy(msg.made.text, "too many elements");
	say(w, t, &msg);
}

/* Answer as the manager's own datapath does, with the requested elements, by default 256. */
static void own_elements(struct world *w, uint16_t asked)
{
	assert_int_equal(w->make[0].spec.elements, asked);
	datapath_turn(w);
}

/*
 * Check ranks that do not request a number of elements. They get the smallest number that an aggregator supports,
 * wherever this aggregator is in the list. An aggregator that supports fewer elements than it was asked for still
 * counts as able to create jobs.
 */
static void elements_of_the_smallest(void **state)
{
	struct world *w = world_with_aggregators(2);
	uint32_t jobs = 0;

	(void)state;
	w->elements = 256;
	gather(w, 0, 4, "train", "key");
	begin_job(w, 0, 4);
	carries(w, &w->of[AGG], 224);
	own_elements(w, 224);
	assert_int_equal(last(&w->of[AGG])->make.spec.elements, 224);
	made_there(w, &w->of[AGG], 5, 0, "");
	carries(w, &w->of[AGG + 1], 96);
	own_elements(w, 96);
	made_there(w, &w->of[AGG], 6, 0, "");
	assert_int_equal(last(&w->of[AGG + 1])->make.spec.elements, 96);
	made_there(w, &w->of[AGG + 1], 9, 0, "");
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_JOB);
		assert_int_equal(last(&w->of[r])->job.spec.elements, 96);
		assert_int_equal(last(&w->of[r])->job.others[1], 6);
	}
	for (int n = 0; n < FPISA_MAX_JOBS; n++)
		jobs += w->token[n] != 0;
	assert_int_equal(jobs, 1);
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	gather(w, 4, 2, "next", "key");
	assert_int_equal(w->of[4].inbox[(w->of[4].n - 2) % INBOX].list.n, 3);
}

/* Check that a requested number of elements stays, and that an aggregator that does not support it refuses the job. */
static void elements_that_are_given(void **state)
{
	struct world *w = world_with_aggregators(1);

	(void)state;
	gather(w, 0, 2, "train", "key");
	for (int r = 0; r < 2; r++)
		ask_elements(w, &w->of[r], 0, 256);
	for (int r = 0; r < 2; r++)
		bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
	datapath_turn(w);
	carries(w, &w->of[AGG], 224);
	assert_last(&w->of[0], FPISA_MANAGER_REFUSED);
	assert_int_equal(last(&w->of[0])->refusal.reason, FPISA_MANAGER_R_job);
}

/* Check the homes of a group's ranks in JOINED of each rank. */
static void check_homes(struct world *w, uint32_t size, const uint8_t *home)
{
	for (uint32_t r = 0; r < size; r++) {
		const struct fpisa_manager_message *m = last(&w->of[r]);

		assert_int_equal(m->type, FPISA_MANAGER_JOINED);
		for (uint32_t k = 0; k < FPISA_MAX_WORKERS; k++)
			assert_int_equal(m->joined.home[k], k < size ? home[k] : 0);
	}
}

/* A rank learns which aggregator of the list is on the host of each rank. */
static void homes_of_ranks(void **state)
{
	static const uint32_t host[] = {3, 2, 4, 3};
	struct world *w = world_with_aggregators(0);

	(void)state;
	/* The manager's datapath is on no rank's host. */
	register_at(w, AGG, 3, "aggs", 10000, FPISA_VERSION);
	register_at(w, AGG + 1, 2, "aggs", 10000, FPISA_VERSION);
	for (uint32_t r = 0; r < 4; r++)
		join(w, call(w, (int)r, host[r], "key"), "train", r, 4);
	check_homes(w, 4, (const uint8_t[]){2, 3, 0, 2});
	/* Rank 0 of the next group is on the host of the manager's datapath. */
	w = world_with_aggregators(0);
	register_at(w, AGG, 2, "aggs", 10000, FPISA_VERSION);
	for (uint32_t r = 0; r < 2; r++) {
		struct told *t = call(w, (int)r, 1 + r, "key");

		t->peer.caller.here = r == 0;
		join(w, t, "train", r, 2);
	}
	check_homes(w, 2, (const uint8_t[]){1, 2});
	/* With a single aggregator, ranks do not have homes. */
	w = world_with_aggregators(0);
	gather(w, 0, 2, "train", "key");
	check_homes(w, 2, (const uint8_t[]){0, 0});
}

static void weights_follow_rates_and_hosts(void **state)
{
	struct world *w = world_with_aggregators(1);
	const struct fpisa_manager_message *m;

	(void)state;
	register_at(w, AGG + 1, 201, "aggs", 40000, FPISA_VERSION);
	for (uint32_t r = 0; r < 16; r++) {
		struct told *t = call(w, (int)r, 1 + r, "key");

		t->peer.caller.rate = 0;
		join(w, t, "train", r, 16);
	}
	m = &w->of[0].inbox[(w->of[0].n - 2) % INBOX];
	assert_int_equal(m->list.of[2].weight, 4 * m->list.of[0].weight);
	/* The host of a rank has little of its link's 10 Gbit/s free beyond the traffic of the rank itself. */
	w = world_with_aggregators(0);
	w->rate = 20000;
	register_at(w, AGG, 1, "aggs", 10000, FPISA_VERSION);
	gather(w, 0, 4, "train", "key");
	m = &w->of[0].inbox[(w->of[0].n - 2) % INBOX];
	assert_int_equal(m->list.of[0].weight, 3 * m->list.of[1].weight);
	/*
	 * A link slower than the ranks' links together is reported. A host that has a port for each rank is not
	 * reported.
	 */
	for (uint32_t ports = 1; ports <= 4; ports += 3) {
		w = world_with_aggregators(0);
		w->rate = ports * 10000;
		gather(w, 0, 4, "train", "key");
		assert_int_equal(strstr(w->said, "let each use 25% of its own") != NULL, ports == 1);
		assert_int_equal(strstr(w->said, "or the workers' own hosts (--colocated)") != NULL, ports == 1);
	}
	/* If the ranks' hosts are aggregators already, only further hosts help. */
	w = world_with_aggregators(0);
	w->rate = 100;
	for (uint32_t i = 0; i < 4; i++)
		register_at(w, AGG + (int)i, 1 + i, "aggs", 1000, FPISA_VERSION);
	gather(w, 0, 4, "train", "key");
	assert_non_null(strstr(w->said, "register more hosts (fpisa serve --manager); see fpisa plan"));
	/* An aggregator whose share would be tiny is left out, and ranks get no list. */
	w = world_with_aggregators(0);
	w->rate = 100000;
	register_at(w, AGG, 200, "aggs", 100, FPISA_VERSION);
	gather(w, 0, 4, "train", "key");
	assert_int_equal(w->of[0].inbox[(w->of[0].n - 2) % INBOX].type, FPISA_MANAGER_PENDING);
}

/*
 * Check that ranks send only to the other aggregator if the manager's own link is so much slower that its datapath gets
 * no share.
 */
static void the_only_one_is_another(void **state)
{
	struct world *w = world_with_aggregators(1);
	const struct fpisa_manager_message *m;

	(void)state;
	w->rate = 10;
	gather(w, 0, 2, "train", "key");
	assert_int_equal(w->of[0].inbox[(w->of[0].n - 2) % INBOX].type, FPISA_MANAGER_PENDING);
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 0, 1, 64);
	for (int r = 0; r < 2; r++) {
		m = last(&w->of[r]);
		assert_last(&w->of[r], FPISA_MANAGER_BIND);
		assert_int_equal(ntohl(m->bind.address.w[3]), 0x0a000000 + 200);
		assert_int_equal(m->bind.aggregator, 18000);
		bound(w, &w->of[r], 0, m->bind.port, 0);
	}
	assert_int_equal(w->making, 0);
	made_there(w, &w->of[AGG], 5, 0, "");
	assert_int_equal(last(&w->of[1])->job.job, 5);
	/* The refusal names the aggregator, as it does with several aggregators. */
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 1, 2, 64);
	for (int r = 0; r < 2; r++)
		bound(w, &w->of[r], 1, last(&w->of[r])->bind.port, 0);
	made_there(w, &w->of[AGG], 0, -EINVAL, "the MTU of eth0 is 576");
	assert_refused(&w->of[0], FPISA_MANAGER_R_job, "aggregator 10.0.0.200: the MTU of eth0 is 576");
}

/* -- ranks of both families -------------------------------------------------- */

static struct fpisa_address ipv6(uint8_t host)
{
	return (struct fpisa_address){.b = {0x20, 0x01, [15] = host}};
}

/* Register an aggregator by two addresses. */
static struct told *register_both(struct world *w, int i, uint32_t host, struct fpisa_address first,
				  struct fpisa_address other)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REGISTER);
	struct told *t = call(w, i, host, "aggs");

	msg.reg = (struct fpisa_manager_register){
		.version = FPISA_VERSION, .address = first, .other = other, .port = 18000, .rate = 10000, .slots = 1024};
	say(w, t, &msg);
	return t;
}

/* Let ranks join. Those in `six` have IPv6 addresses. */
static void gather_both(struct world *w, const char *name, uint32_t size, uint64_t six)
{
	for (uint32_t r = 0; r < size; r++) {
		struct told *t = call(w, (int)r, 1 + r, "key");

		if (six >> r & 1) {
			t->peer.caller.address = ipv6((uint8_t)(1 + r));
			t->peer.caller.local = ipv6(0xfe);
		}
		join(w, t, name, r, size);
	}
	for (uint32_t r = 0; r < size; r++)
		assert_last(&w->of[r], FPISA_MANAGER_JOINED);
}

static void assert_address(struct fpisa_address is, struct fpisa_address want)
{
	assert_memory_equal(&is, &want, sizeof(is));
}

/* Check the list of aggregators that a rank got: the manager's own, and that of host 200. */
static void check_list(const struct told *t, bool six)
{
	const struct fpisa_manager_message *m = &t->inbox[(t->n - 2) % INBOX];

	assert_int_equal(m->type, FPISA_MANAGER_AGGREGATORS);
	assert_int_equal(m->list.n, 2);
	assert_address(m->list.of[0].address, six ? ipv6(0xfe) : fpisa_ipv4(htonl(0x0a0000fe)));
	assert_address(m->list.of[1].address, six ? ipv6(200) : fpisa_ipv4(htonl(0x0a000000 + 200)));
}

/*
 * Check groups of both families, of IPv4 and of IPv6, whichever address an aggregator registers first. Each rank gets
 * the addresses of its family. An aggregator that has only one of the ranks' families gets no share.
 */
static void groups_of_both_families(void **state)
{
	static const uint64_t six[] = {0x5, 0xa, 0x0, 0xf};

	(void)state;
	for (int k = 0; k < 8; k++) {
		struct world *w = world_with_aggregators(0);
		const uint64_t of = six[k / 2];
		const struct fpisa_address v4 = fpisa_ipv4(htonl(0x0a000000 + 200));
		const struct manager_make *o;

		w->policy.leaves = true;
		assert_last(register_both(w, AGG, 200, k % 2 ? v4 : ipv6(200), k % 2 ? ipv6(200) : v4),
			    FPISA_MANAGER_REGISTERED);
		/* The other aggregator lacks a family of every group but one. */
		if (of)
			register_at(w, AGG + 1, 201, "aggs", 10000, FPISA_VERSION);
		else
			register_both(w, AGG + 1, 201, ipv6(201), FPISA_NO_ADDRESS);
		gather_both(w, "train", 4, of);
		for (int r = 0; r < 4; r++)
			check_list(&w->of[r], of >> r & 1);
		for (uint32_t r = 0; r < 4; r++)
			ask(w, &w->of[r], 0, 1, 64);
		for (int r = 0; r < 4; r++) {
			assert_last(&w->of[r], FPISA_MANAGER_BIND);
			assert_address(last(&w->of[r])->bind.address,
				       of >> r & 1 ? ipv6(0xfe) : fpisa_ipv4(htonl(0x0a0000fe)));
			bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
		}
		o = &w->make[0];
		assert_address(o->local, of & 1 ? ipv6(0xfe) : fpisa_ipv4(htonl(0x0a0000fe)));
		assert_address(o->other, of == 0x5 ? fpisa_ipv4(htonl(0x0a0000fe)) :
					 of == 0xa ? ipv6(0xfe) :
						     FPISA_NO_ADDRESS);
		datapath_turn(w);
		made_there(w, &w->of[AGG], 5, 0, "");
		for (int r = 0; r < 4; r++)
			assert_last(&w->of[r], FPISA_MANAGER_JOB);
		lose(w, &w->of[AGG]);
		for (int r = 0; r < 4; r++)
			assert_refused(&w->of[r], FPISA_MANAGER_R_aggregator,
				       of & 1 ? "aggregator 2001::c8 is gone" : "aggregator 10.0.0.200 is gone");
	}
}

/* Two aggregators cannot have one address. An aggregator that is gone loses its place to one that has its address. */
static void two_addresses_of_an_aggregator(void **state)
{
	const struct fpisa_address v4 = fpisa_ipv4(htonl(0x0a000000 + 200));
	struct world *w = world_with_aggregators(0);

	(void)state;
	assert_last(register_both(w, AGG, 200, ipv6(200), v4), FPISA_MANAGER_REGISTERED);
	assert_refused(register_both(w, AGG + 1, 201, v4, FPISA_NO_ADDRESS), FPISA_MANAGER_R_aggregator,
		       "host 10.0.0.200 has registered the same address");
	assert_refused(register_both(w, AGG + 1, 201, ipv6(201), v4), FPISA_MANAGER_R_aggregator,
		       "host 10.0.0.200 has registered the same address");
	assert_refused(register_both(w, AGG + 1, 200, v4, ipv6(200)), FPISA_MANAGER_R_busy, "another fpisa serve");
	assert_refused(register_both(w, AGG + 1, 201, ipv6(201), fpisa_ipv4(htonl(0x7f000001))),
		       FPISA_MANAGER_R_aggregator, "ranks of other hosts cannot reach this address");
	lose(w, &w->of[AGG]);
	/* The two addresses now belong to two aggregators, and then to one. */
	assert_last(register_both(w, AGG + 1, 201, v4, FPISA_NO_ADDRESS), FPISA_MANAGER_REGISTERED);
	assert_last(register_both(w, AGG + 2, 202, ipv6(200), FPISA_NO_ADDRESS), FPISA_MANAGER_REGISTERED);
	lose(w, &w->of[AGG + 1]);
	lose(w, &w->of[AGG + 2]);
	assert_last(register_both(w, AGG + 3, 203, ipv6(200), v4), FPISA_MANAGER_REGISTERED);
	for (int i = 0; i < AGGREGATORS; i++)
		if (i != 1)
			assert_int_equal(w->aggregator[i].port, 0);
	assert_address(w->aggregator[1].host, fpisa_ipv4(htonl(0x0a000000 + 203)));
}

/* -- trees ---------------------------------------------------------------- */

/* Return a world in which hosts 1 and 2 have aggregators, and the manager's host has no ranks. */
static struct world *world_with_leaves(void)
{
	struct world *w = new_world();

	strcpy(w->policy.aggregator_key[w->policy.aggregator_keys++], "aggs");
	w->policy.leaves = true;
	w->rate = 10000;
	for (int i = 0; i < 2; i++)
		register_at(w, AGG + i, 1 + (uint32_t)i, "aggs", 10000, FPISA_VERSION);
	return w;
}

/* Create a group of four ranks on hosts 1 and 2, in turn. */
static void gather_on_two_hosts(struct world *w, const char *name)
{
	for (uint32_t r = 0; r < 4; r++)
		join(w, call(w, (int)r, 1 + r % 2, "key"), name, r, 4);
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_JOINED);
		/* The ranks get no list of aggregators. */
		if (w->of[r].n > 1)
			assert_int_equal(w->of[r].inbox[w->of[r].n - 2].type, FPISA_MANAGER_PENDING);
	}
}

/* Let the four ranks ask for a job and bind. BIND names the aggregator of each rank's host, or the manager's own. */
static void bind_on_two_hosts(struct world *w, uint32_t index, uint8_t mode, bool own)
{
	for (int r = 0; r < 4; r++)
		ask_in_mode(w, &w->of[r], index, 1, mode, 64);
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_BIND);
		assert_int_equal(ntohl(last(&w->of[r])->bind.address.w[3]), 0x0a000000 + (own ? 0xfe : 1 + r % 2));
		bound(w, &w->of[r], index, last(&w->of[r])->bind.port, 0);
	}
}

/* Check the request for the job of leaf `i`, as the root has it, and return it. */
static const struct fpisa_manager_make *make_of_leaf(struct world *w, int i, uint32_t number, uint32_t window)
{
	const struct told *t = &w->of[AGG + i];
	const struct fpisa_manager_ranks *ranks = &t->inbox[(t->n - 2) % INBOX].ranks;
	const struct fpisa_manager_make *o = &last(t)->make;

	assert_last(t, FPISA_MANAGER_MAKE);
	assert_true(o->workers == 2 && o->rank == i && !o->leaves && o->port == 18000);
	assert_int_equal(ntohl(o->root.w[3]), 0x0a0000fe);
	assert_true(o->numbers == 1ull << number && o->spec.window == window);
	for (int k = 0; k < 2; k++)
		assert_int_equal(ntohl(ranks->address[k].w[3]), 0x0a000000 + 1 + i);
	assert_true(ranks->port[0] && ranks->port[0] != ranks->port[1] && !ranks->port[2]);
	return o;
}

static void a_tree_of_two_hosts(void **state)
{
	struct world *w = world_with_leaves();

	(void)state;
	gather_on_two_hosts(w, "train");
	bind_on_two_hosts(w, 0, FPISA_MODE_EXACT, false);
	assert_true(w->make[0].leaves && w->make[0].workers == 2 && w->make[0].port[1] == 18000);
	assert_int_equal(ntohl(w->make[0].address[1].w[3]), 0x0a000000 + 2);
	datapath_turn(w);
	for (int i = 0; i < 2; i++) {
		make_of_leaf(w, i, 0, 64);
		made_there(w, &w->of[AGG + i], 0, 0, "");
	}
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_JOB);
		assert_true(last(&w->of[r])->job.job == 0 && last(&w->of[r])->job.leaf == 2);
		assert_true(last(&w->of[r])->job.rank[0] == r % 2 && last(&w->of[r])->job.rank[1] == 2 + r % 2);
	}
	/* A job in another mode is at the root alone. */
	bind_on_two_hosts(w, 1, FPISA_MODE_FPISA, true);
	assert_true(!w->make[0].leaves && w->make[0].workers == 4);
	datapath_turn(w);
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_JOB);
		assert_true(last(&w->of[r])->job.job == 1 && !last(&w->of[r])->job.leaf);
	}
	assert_last(&w->of[AGG], FPISA_MANAGER_MAKE);
	/* The death of a leaf ends the group. */
	lose(w, &w->of[AGG + 1]);
	assert_refused(&w->of[0], FPISA_MANAGER_R_aggregator, "aggregator 10.0.0.2 is gone");
}

/* A leaf uses the number for another job, then it has fewer slots. The root has no job left over. */
static void a_tree_is_made_again(void **state)
{
	struct world *w = world_with_leaves();

	(void)state;
	gather_on_two_hosts(w, "train");
	bind_on_two_hosts(w, 0, FPISA_MODE_EXACT, false);
	datapath_turn(w);
	made_there(w, &w->of[AGG], 0, 0, "");
	make_of_leaf(w, 1, 0, 64);
	made_there(w, &w->of[AGG + 1], FPISA_MANAGER_R_pool, -ENOENT, "in use");
	assert_int_equal(jobs_of(w), 0);
	assert_true(w->make[0].pool == ~1ull);
	datapath_turn(w);
	make_of_leaf(w, 0, 1, 64);
	made_there(w, &w->of[AGG], 1, 0, "");
	made_there(w, &w->of[AGG + 1], 0, -ENOSPC, "no slots");
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(w->make[0].spec.window, 32);
	datapath_turn(w);
	make_of_leaf(w, 0, 1, 32);
	made_there(w, &w->of[AGG], 1, 0, "");
	make_of_leaf(w, 1, 1, 32);
	made_there(w, &w->of[AGG + 1], 1, 0, "");
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_JOB);
		assert_int_equal(last(&w->of[r])->job.job, 1);
		assert_int_equal(last(&w->of[r])->job.spec.window, 32);
	}
	assert_int_equal(jobs_of(w), 1);
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
	assert_last(&w->of[AGG], FPISA_MANAGER_DROP);
	assert_last(&w->of[AGG + 1], FPISA_MANAGER_DROP);
}

/* A leaf that creates the job with a smaller window than the root makes the manager recreate the job. */
static void windows_of_a_tree(void **state)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_MADE);
	struct world *w = world_with_leaves();
	const struct fpisa_manager_make *o;

	(void)state;
	gather_on_two_hosts(w, "train");
	bind_on_two_hosts(w, 0, FPISA_MODE_EXACT, false);
	datapath_turn(w);
	o = make_of_leaf(w, 0, 0, 64);
	msg.made = (struct fpisa_manager_made){.group = o->group, .spec = o->spec};
	msg.made.spec.window = 16;
	say(w, &w->of[AGG], &msg);
	assert_int_equal(w->make[0].spec.window, 16);
	datapath_turn(w);
	make_of_leaf(w, 0, 0, 16);
}

/*
 * The manager's own datapath is a leaf, and the root is on another host. A job that is not a tree is at the root alone, so
 * the group ends without a request to remove the job here.
 */
static void a_tree_with_the_manager_as_a_leaf(void **state)
{
	struct world *w = world_with_leaves();

	(void)state;
	for (uint32_t r = 0; r < 4; r++) {
		struct told *t = call(w, (int)r, r % 2 ? 1 : 0xfe, "key");

		t->peer.caller.here = !(r % 2);
		join(w, t, "train", r, 4);
	}
	for (uint32_t index = 0; index < 2; index++) {
		const bool tree = index;

		for (int r = 0; r < 4; r++)
			ask_in_mode(w, &w->of[r], index, 1, tree ? FPISA_MODE_EXACT : FPISA_MODE_FPISA, 64);
		for (int r = 0; r < 4; r++)
			bound(w, &w->of[r], index, last(&w->of[r])->bind.port, 0);
		made_there(w, &w->of[AGG + 1], 5, 0, "");
		if (tree) {
			datapath_turn(w);
			made_there(w, &w->of[AGG], 5, 0, "");
		}
		assert_int_equal(w->making, 0);
		assert_last(&w->of[0], FPISA_MANAGER_JOB);
		assert_int_equal(manager_has_job(&w->record[0], index, 18000), tree);
	}
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

/* Let ranks 0 and 2 of the manager's host and ranks 1 and 3 of host 1 join a group and ask for an exact job. */
static void gather_here_and_there(struct world *w)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct told *t = call(w, (int)r, r % 2 ? 1 : 0xfe, "key");

		t->peer.caller.here = !(r % 2);
		join(w, t, "train", r, 4);
	}
	for (int r = 0; r < 4; r++)
		ask_in_mode(w, &w->of[r], 0, 1, FPISA_MODE_EXACT, 64);
}

/* Make a group of the manager's host, with ranks 0 and 2, and of host 1, whose aggregator has this rate. All ranks bind. */
static struct world *world_without_a_spare_host(uint32_t rate)
{
	struct world *w = new_world();

	strcpy(w->policy.aggregator_key[w->policy.aggregator_keys++], "aggs");
	w->policy.leaves = true;
	w->rate = 10000;
	register_at(w, AGG, 1, "aggs", rate, FPISA_VERSION);
	gather_here_and_there(w);
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_BIND);
		assert_int_equal(ntohl(last(&w->of[r])->bind.address.w[3]), 0x0a000000 + (r % 2 ? 1 : 0xfe));
		bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
	}
	return w;
}

/* Check that the ranks of the manager's host and of host 1 got these numbers. */
static void assert_numbers(struct world *w, uint32_t own, uint32_t other)
{
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_JOB);
		assert_int_equal(last(&w->of[r])->job.job, r % 2 ? other : own);
		assert_int_equal(last(&w->of[r])->job.leaf, 2);
		assert_true(last(&w->of[r])->job.rank[0] == r % 2 && last(&w->of[r])->job.rank[1] == 2 + r % 2);
	}
}

/* The root is on the datapath of the manager, where a leaf has another number. Both end with the group. */
static void a_root_beside_a_leaf(void **state)
{
	struct world *w = world_without_a_spare_host(10000);
	const struct fpisa_manager_make *o;

	(void)state;
	assert_true(w->make[0].leaves && w->make[0].workers == 2 && w->make[0].pool == ~0ull);
	assert_int_equal(ntohl(w->make[0].address[0].w[3]), 0x0a0000fe);
	datapath_turn(w);
	assert_true(!w->make[0].leaves && w->make[0].workers == 2 && !w->make[0].parent_rank);
	assert_int_equal(ntohl(w->make[0].parent.w[3]), 0x0a0000fe);
	assert_true(w->make[0].pool == ~1ull);
	datapath_turn(w);
	o = &last(&w->of[AGG])->make;
	assert_last(&w->of[AGG], FPISA_MANAGER_MAKE);
	assert_true(o->rank == 1 && o->numbers == 1 && ntohl(o->root.w[3]) == 0x0a0000fe);
	made_there(w, &w->of[AGG], 0, -ENOSPC, "no slots");
	/* The window does not fit, so both jobs here are created again. */
	assert_int_equal(jobs_of(w), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w->make[0].spec.window, 32);
		datapath_turn(w);
	}
	made_there(w, &w->of[AGG], 0, 0, "");
	assert_numbers(w, 1, 0);
	assert_true(w->record[0].job[0].number == 0 && w->record[0].job[0].further == 2);
	assert_int_equal(jobs_of(w), 2);
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

/* The root is on a faster host of ranks, whose agent creates the root and then a leaf beside it. */
static void a_root_beside_a_leaf_of_an_agent(void **state)
{
	struct world *w = world_without_a_spare_host(20000);
	const struct fpisa_manager_make *o = &last(&w->of[AGG])->make;

	(void)state;
	assert_last(&w->of[AGG], FPISA_MANAGER_MAKE);
	assert_true(o->leaves && o->numbers == ~0ull);
	made_there(w, &w->of[AGG], 5, 0, "");
	assert_true(w->make[0].pool == 1ull << 5);
	datapath_turn(w);
	o = &last(&w->of[AGG])->make;
	assert_true(!o->leaves && o->rank == 1 && o->numbers == ~(1ull << 5) && ntohl(o->root.w[3]) == 0x0a000001);
	made_there(w, &w->of[AGG], 7, 0, "");
	assert_numbers(w, 5, 7);
	assert_int_equal(jobs_of(w), 1);
	lose(w, &w->of[AGG]);
	assert_refused(&w->of[0], FPISA_MANAGER_R_aggregator, "aggregator 10.0.0.1 is gone");
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
}

/* The aggregator that is root and leaf dies while it creates the leaf. The group ends. */
static void a_root_that_dies_as_a_leaf(void **state)
{
	struct world *w = world_without_a_spare_host(20000);

	(void)state;
	made_there(w, &w->of[AGG], 5, 0, "");
	datapath_turn(w);
	assert_last(&w->of[AGG], FPISA_MANAGER_MAKE);
	lose(w, &w->of[AGG]);
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

/* Return a world with leaves on hosts 1 and 2, and two roots: the manager's host, and a slower one, host 3. */
static struct world *world_with_roots(void)
{
	struct world *w = world_with_leaves();

	w->policy.roots = 2;
	register_at(w, AGG + 2, 3, "aggs", 5000, FPISA_VERSION);
	for (uint32_t r = 0; r < 4; r++)
		join(w, call(w, (int)r, 1 + r % 2, "key"), "train", r, 4);
	return w;
}

/* Check the request for the job of leaf `i` below this root of world_with_roots(), and answer it. */
static void make_below(struct world *w, int i, int root, uint32_t number)
{
	const struct fpisa_manager_make *o = &last(&w->of[AGG + i])->make;

	assert_last(&w->of[AGG + i], FPISA_MANAGER_MAKE);
	assert_true(o->workers == 2 && o->rank == i && !o->leaves && o->further == (uint64_t)root);
	assert_int_equal(ntohl(o->root.w[3]), root ? 0x0a000003 : 0x0a0000fe);
	assert_int_equal(o->numbers, 1ull << number);
	made_there(w, &w->of[AGG + i], number, 0, "");
}

/* The second root does not get the number of the first. A leaf has no room, so all is created again with another window. */
static void a_tree_with_two_roots(void **state)
{
	struct world *w = world_with_roots();
	const struct fpisa_manager_make *o;
	const struct fpisa_manager_list *list = &w->of[3].inbox[w->of[3].n - 2].list;

	(void)state;
	assert_int_equal(w->of[3].inbox[w->of[3].n - 2].type, FPISA_MANAGER_AGGREGATORS);
	assert_true(list->n == 2 && list->of[0].weight == 1 && list->of[1].weight == 1);
	assert_int_equal(ntohl(list->of[1].address.w[3]), 0x0a000003);
	bind_on_two_hosts(w, 0, FPISA_MODE_EXACT, false);
	assert_true(last(&w->of[0])->bind.leaf == 1);
	for (int attempt = 0; attempt < 2; attempt++) {
		assert_true(w->making == 1 && w->make[0].leaves && w->make[0].workers == 2 && !w->make[0].further);
		datapath_turn(w);
		o = &last(&w->of[AGG + 2])->make;
		assert_last(&w->of[AGG + 2], FPISA_MANAGER_MAKE);
		assert_true(o->leaves && o->workers == 2 && o->numbers == ~1ull && !o->further);
		made_there(w, &w->of[AGG + 2], 5, 0, "");
		make_below(w, 0, 0, 0);
		make_below(w, 0, 1, 5);
		make_below(w, 1, 0, 0);
		if (!attempt)
			made_there(w, &w->of[AGG + 1], 0, -ENOSPC, "no slots");
	}
	for (int r = 0; r < 4; r++)
		assert_last(&w->of[r], FPISA_MANAGER_BIND);
	make_below(w, 1, 1, 5);
	for (int r = 0; r < 4; r++) {
		const struct fpisa_manager_job *j = &last(&w->of[r])->job;

		assert_last(&w->of[r], FPISA_MANAGER_JOB);
		assert_true(!j->job && j->others[1] == 5 && !j->others[2] && j->leaf == 2 && j->spec.window == 32);
	}
	assert_int_equal(jobs_of(w), 1);
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
	for (int i = 0; i < 3; i++)
		assert_last(&w->of[AGG + i], FPISA_MANAGER_DROP);
}

/* The job of a group that is killed meanwhile is not created at the aggregators that remain, so the group ends at once. */
static void a_tree_that_is_killed(void **state)
{
	struct world *w = world_with_roots();

	(void)state;
	bind_on_two_hosts(w, 0, FPISA_MODE_EXACT, false);
	datapath_turn(w);
	manager_kill(&w->m, 0, w->m.group[0].record.id);
	assert_int_equal(records_of(w), 1);
	made_there(w, &w->of[AGG + 2], 5, 0, "");
	for (int i = 0; i < 3; i++)
		assert_last(&w->of[AGG + i], FPISA_MANAGER_DROP);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

/* A number of the second root that a leaf uses for another job is not tried again. */
static void a_number_of_the_second_root(void **state)
{
	struct world *w = world_with_roots();

	(void)state;
	bind_on_two_hosts(w, 0, FPISA_MODE_EXACT, false);
	datapath_turn(w);
	made_there(w, &w->of[AGG + 2], 5, 0, "");
	make_below(w, 0, 0, 0);
	made_there(w, &w->of[AGG], FPISA_MANAGER_R_pool, -ENOENT, "in use");
	assert_true(w->make[0].pool == ~(1ull << 5));
	datapath_turn(w);
	assert_true(last(&w->of[AGG + 2])->make.numbers == ~(1ull | 1ull << 5));
	/* The second root does not have another number. */
	made_there(w, &w->of[AGG + 2], FPISA_MANAGER_R_pool, -ENOENT, "all in use");
	assert_refused(&w->of[0], FPISA_MANAGER_R_pool, "aggregator 10.0.0.3: all in use");
}

/* Jobs that are not trees are at both roots, which share each vector. The death of either root ends the group. */
static void jobs_at_two_roots(void **state)
{
	struct world *w = world_with_roots();

	(void)state;
	bind_on_two_hosts(w, 0, FPISA_MODE_FPISA, true);
	assert_true(!last(&w->of[0])->bind.leaf && !w->make[0].leaves && w->make[0].workers == 4);
	datapath_turn(w);
	assert_true(last(&w->of[AGG + 2])->make.numbers == ~0ull && last(&w->of[AGG + 2])->make.workers == 4);
	made_there(w, &w->of[AGG + 2], 7, 0, "");
	for (int r = 0; r < 4; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_JOB);
		assert_true(!last(&w->of[r])->job.job && last(&w->of[r])->job.others[1] == 7 &&
			    !last(&w->of[r])->job.leaf);
	}
	restart(w);
	assert_true(w->m.group[0].unheld[0] && w->m.group[0].unheld[1] && !w->m.group[0].unheld[2]);
	w = world_with_roots();
	lose(w, &w->of[AGG + 2]);
	assert_refused(&w->of[0], FPISA_MANAGER_R_aggregator, "aggregator 10.0.0.3 is gone");
	/* The next group has one root, and the manager says so. */
	for (uint32_t r = 0; r < 4; r++)
		join(w, call(w, 4 + (int)r, 1 + r % 2, "key"), "next", r, 4);
	assert_int_equal(w->of[6].inbox[w->of[6].n - 2].type, FPISA_MANAGER_PENDING);
	assert_non_null(
		strstr(w->said, "group next: its tree has 1 of 2 roots; run fpisa serve --manager on more hosts"));
}

/* The manager's own datapath is a leaf of two roots on other hosts. All of its jobs end with the group. */
static void a_leaf_of_two_roots_here(void **state)
{
	struct world *w = new_world();

	(void)state;
	strcpy(w->policy.aggregator_key[w->policy.aggregator_keys++], "aggs");
	w->policy.leaves = true;
	w->policy.roots = 2;
	w->rate = 10000;
	for (int i = 0; i < 3; i++)
		register_at(w, AGG + i, 1 + (uint32_t)i, "aggs", 10000, FPISA_VERSION);
	gather_here_and_there(w);
	for (int r = 0; r < 4; r++)
		bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
	made_there(w, &w->of[AGG + 1], 5, 0, "");
	made_there(w, &w->of[AGG + 2], 6, 0, "");
	datapath_turn(w);
	assert_true(w->make[0].further && w->make[0].pool == 1ull << 6);
	datapath_turn(w);
	made_there(w, &w->of[AGG], 5, 0, "");
	made_there(w, &w->of[AGG], 0, -ENOSPC, "no slots");
	/* Both jobs here were removed. */
	assert_int_equal(jobs_of(w), 0);
	made_there(w, &w->of[AGG + 1], 5, 0, "");
	made_there(w, &w->of[AGG + 2], 6, 0, "");
	datapath_turn(w);
	datapath_turn(w);
	made_there(w, &w->of[AGG], 5, 0, "");
	made_there(w, &w->of[AGG], 6, 0, "");
	assert_last(&w->of[0], FPISA_MANAGER_JOB);
	assert_true(w->record[0].job[0].number == 5 && w->record[0].job[0].further == 1 << 6);
	assert_int_equal(jobs_of(w), 2);
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
}

/* Without the key `leaves` the same group gets several aggregators. */
static void no_tree(void **state)
{
	struct world *w = world_with_leaves();

	(void)state;
	w->policy.leaves = false;
	for (uint32_t r = 0; r < 4; r++)
		join(w, call(w, (int)r, 1 + r % 2, "key"), "train", r, 4);
	assert_int_equal(w->of[3].inbox[w->of[3].n - 2].type, FPISA_MANAGER_AGGREGATORS);
}

/*
 * Return a world with rack A, hosts 0 to 15, and rack B, 2001:db8::/64 and hosts 16 to 31. Each rack has an aggregator on
 * a host without ranks.
 */
static struct world *world_with_racks(void)
{
	struct world *w = new_world();

	strcpy(w->policy.aggregator_key[w->policy.aggregator_keys++], "aggs");
	w->policy.leaves = true;
	w->rate = 20000;
	assert_int_equal(manager_rack_add(&w->policy, "A"), 0);
	assert_int_equal(manager_rack_hosts(&w->policy, "10.0.0.0/28"), 0);
	assert_int_equal(manager_rack_add(&w->policy, "B"), 0);
	assert_int_equal(manager_rack_hosts(&w->policy, "2001:db8::/64,10.0.0.16/28"), 0);
	for (uint32_t i = 0; i < 2; i++)
		register_at(w, AGG + (int)i, 15 + 16 * i, "aggs", 10000, FPISA_VERSION);
	return w;
}

/* Return the record of a new group whose ranks are on these four hosts. */
static const struct group_record *gather_on(struct world *w, const uint32_t *host, const char *name)
{
	static int next;

	for (uint32_t r = 0; r < 4; r++)
		join(w, call(w, next++ % AGG, host[r], "key"), name, r, 4);
	for (int i = 0; i < GROUPS; i++)
		if (!strcmp(w->m.group[i].record.name, name))
			return &w->m.group[i].record;
	fail();
	return NULL;
}

static uint32_t host_of_aggregator(const struct group_record *r, int i)
{
	return ntohl(r->aggregator[i].address.w[3]) & 0xff;
}

static void a_tree_of_two_racks(void **state)
{
	struct world *w = world_with_racks();
	const struct group_record *r = gather_on(w, (const uint32_t[]){1, 17, 18, 2}, "across");

	(void)state;
	assert_true(r->aggregators == 3 && !r->elsewhere);
	assert_true(host_of_aggregator(r, 0) == 0xfe && host_of_aggregator(r, 1) == 15 && host_of_aggregator(r, 2) == 31);
	assert_true(!*r->rack[0] && !strcmp(r->rack[1], "A") && !strcmp(r->rack[2], "B"));
	assert_true(r->rank[0].leaf == 1 && r->rank[1].leaf == 2 && r->rank[2].leaf == 2 && r->rank[3].leaf == 1);
	/* Two ranks are on a host without rack and without an aggregator. */
	r = gather_on(w, (const uint32_t[]){1, 2, 40, 40}, "outside");
	assert_true(r->aggregators == 3 && !group_has_tree(r));
	assert_non_null(strstr(
		w->said, "group outside: no tree: rank 2 at 10.0.0.40 has no aggregator in its rack, or on its host"));
	/* The manager's host is in a rack, too. */
	w = world_with_racks();
	assert_int_equal(manager_rack_hosts(&w->policy, "10.0.0.254"), 0);
	r = gather_on(w, (const uint32_t[]){1, 17, 18, 2}, "no-root");
	assert_true(!group_has_tree(r));
	assert_non_null(strstr(w->said, "group no-root: no tree: no aggregator can be its root"));
	w = world_with_racks();
	w->rate = 0; /* the manager does not compare the rates of links that it does not know */
	gather_both(w, "both", 4, 0xa);
	assert_non_null(strstr(w->said, "group both: no tree: its ranks have addresses of both families"));
}

/* A group within one rack has only aggregators of its rack. Each of the rack's hosts is then a site. */
static void a_group_in_one_rack(void **state)
{
	struct world *w = world_with_racks();
	const struct group_record *r = gather_on(w, (const uint32_t[]){1, 2, 3, 4}, "shares");

	(void)state;
	assert_true(r->aggregators == 1 && r->elsewhere && !group_has_tree(r));
	assert_true(host_of_aggregator(r, 0) == 15 && !strcmp(r->rack[0], "A"));
	register_at(w, AGG + 2, 1, "aggs", 10000, FPISA_VERSION);
	register_at(w, AGG + 3, 2, "aggs", 10000, FPISA_VERSION);
	r = gather_on(w, (const uint32_t[]){1, 1, 2, 2}, "tree");
	assert_true(r->aggregators == 3 && r->elsewhere);
	assert_true(host_of_aggregator(r, 0) == 15 && host_of_aggregator(r, 1) == 1 && host_of_aggregator(r, 2) == 2);
	assert_true(r->rank[0].leaf == 1 && r->rank[1].leaf == 1 && r->rank[2].leaf == 2 && r->rank[3].leaf == 2);
	/* If the rack has no aggregator, the group uses the others. */
	for (int i = 0; i < 4; i++)
		lose(w, &w->of[AGG + i]);
	r = gather_on(w, (const uint32_t[]){1, 2, 3, 4}, "else");
	assert_true(r->aggregators == 1 && host_of_aggregator(r, 0) == 0xfe && !r->elsewhere);
}

/* After a restart, leaves without a job of the group need not have kept one. */
static void a_tree_after_a_restart(void **state)
{
	struct world *w = world_with_leaves();

	(void)state;
	gather_on_two_hosts(w, "train");
	bind_on_two_hosts(w, 0, FPISA_MODE_FPISA, true);
	datapath_turn(w);
	restart(w);
	assert_true(w->m.group[0].unheld[0] && !w->m.group[0].unheld[1]);
	assert_int_equal(w->m.group[0].record.rank[1].leaf, 2);
}

static void who_may_not_register(void **state)
{
	struct world *w = world_with_aggregators(1);

	(void)state;
	assert_refused(register_at(w, AGG + 1, 201, "key", 10000, FPISA_VERSION), FPISA_MANAGER_R_key,
		       "key key may not register");
	assert_refused(register_at(w, AGG + 1, 201, "", 10000, FPISA_VERSION), FPISA_MANAGER_R_key,
		       "without a key may not register");
	assert_refused(register_at(w, AGG + 1, 201, "aggs", 10000, FPISA_VERSION - 1), FPISA_MANAGER_R_aggregator,
		       "10.0.0.201: its frames have version");
	/* Use an address of another host. */
	{
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REGISTER);
		struct told *t = call(w, AGG + 1, 201, "aggs");

		msg.reg = (struct fpisa_manager_register){.version = FPISA_VERSION,
							  .address = fpisa_ipv4(htonl(0x0a000000 + 200)),
							  .port = 18000,
							  .slots = 1};
		say(w, t, &msg);
		assert_refused(t, FPISA_MANAGER_R_aggregator,
			       "10.0.0.200: host 10.0.0.200 has registered the same address");
	}
	/* Try addresses that no machine has. */
	for (int i = 0; i < 4; i++) {
		static const uint32_t none[] = {0x7f000001, 0xe0010101, 0xffffffff, 0x00000001};
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REGISTER);
		struct told *t = call(w, AGG + 1, 201, "aggs");

		msg.reg = (struct fpisa_manager_register){
			.version = FPISA_VERSION, .address = fpisa_ipv4(htonl(none[i])), .port = 18000, .slots = 1};
		say(w, t, &msg);
		assert_refused(t, FPISA_MANAGER_R_aggregator, "ranks of other hosts cannot reach this address");
	}
	assert_false(w->of[AGG].peer.hung_up);
	/*
	 * The same host registers again, while its first connection lives, and after this connection was silent for a
	 * while.
	 */
	assert_refused(register_at(w, AGG + 2, 200, "aggs", 10000, FPISA_VERSION), FPISA_MANAGER_R_busy,
		       "10.0.0.200: another fpisa serve of this host has registered the same address");
	assert_false(w->of[AGG].peer.hung_up);
	for (int i = 0; i < 3; i++) {
		w->m.now_ms += 250;
		manager_tick(&w->m);
	}
	assert_true(w->of[AGG].peer.hung_up);
	assert_last(register_at(w, AGG + 2, 200, "aggs", 10000, FPISA_VERSION), FPISA_MANAGER_REGISTERED);
	register_at(w, 1, 5, "key", 0, FPISA_VERSION);
	leave(w, &w->of[AGG + 2], 0);
	assert_refused(&w->of[AGG + 2], FPISA_MANAGER_R_order, "must come first");
}

/* A host whose address is link-local is refused, and accepted once it has a global address. */
static void a_link_local_address(void **state)
{
	const struct fpisa_address link_local = {.b = {0xfe, 0x80, [15] = 9}};
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REGISTER);
	struct world *w = world_with_aggregators(0);
	struct told *t = call(w, AGG, 200, "aggs");

	(void)state;
	msg.reg = (struct fpisa_manager_register){.version = FPISA_VERSION, .port = 18000, .slots = 1024};
	t->peer.caller.address = link_local;
	say(w, t, &msg);
	assert_refused(t, FPISA_MANAGER_R_busy, "this host's address fe80::9 is link-local; wait until");
	t = call(w, AGG, 200, "aggs");
	msg.reg.address = link_local;
	say(w, t, &msg);
	assert_refused(t, FPISA_MANAGER_R_aggregator, "ranks of other hosts cannot reach this address");
	t = call(w, 0, 1, "key");
	t->peer.caller.address = link_local;
	join(w, t, "train", 0, 1);
	assert_refused(t, FPISA_MANAGER_R_busy, "this host's address fe80::9 is link-local; wait until");
	assert_int_equal(w->record[0].id, 0);
	assert_last(register_at(w, AGG, 200, "aggs", 10000, FPISA_VERSION), FPISA_MANAGER_REGISTERED);
}

static void an_aggregator_dies(void **state)
{
	for (int how = 0; how < 5; how++) {
		struct world *w = world_with_aggregators(2);
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_ENDED);
		const int made = how && how < 4;

		(void)state;
		gather(w, 0, 4, "train", "key");
		begin_job(w, 0, 4);
		if (made)
			made_there(w, &w->of[AGG], 5, 0, "");
		if (how < 2)
			lose(w, &w->of[AGG]); /* lose the aggregator while a job is created (0) or afterwards (1) */
		if (how == 2 || how == 4) {   /* the aggregator ends the group, while a job is created or afterwards */
			msg.of.group = w->record[0].id;
			say(w, &w->of[AGG], &msg);
		}
		for (int i = 0; how == 3 && i < 6; i++) {
			struct fpisa_manager_message ping = fpisa_manager_message(FPISA_MANAGER_PING);

			w->m.now_ms += 150;
			say(w, &w->of[AGG + 1], &ping);
			manager_tick(&w->m);
		}
		for (int r = 0; r < 4; r++) {
			int found = 0;

			for (int i = 0; i < w->of[r].n && i < INBOX; i++) {
				const struct fpisa_manager_message *m = &w->of[r].inbox[i];

				found |= m->type == FPISA_MANAGER_REFUSED && m->refusal.index == FPISA_MANAGER_NO_JOB &&
					 m->refusal.reason == FPISA_MANAGER_R_aggregator &&
					 strstr(m->refusal.text, "aggregator 10.0.0.200 is gone") != NULL;
			}
			assert_true(found);
		}
		assert_int_equal(w->aggregator[0].gone != 0, how != 2 && how != 4);
		/* The next group uses the other aggregators. The first group's jobs end with the group. */
		for (int r = 0; r < 4; r++)
			leave(w, &w->of[r], 0);
		if (how == 3) /* the last message is a PONG */
			continue;
		if (made)
			made_there(w, &w->of[AGG + 1], 7, 0, "");
		assert_last(&w->of[AGG + 1], FPISA_MANAGER_DROP);
		assert_int_equal(slots_of(w), 0);
		assert_int_equal(records_of(w), 0);
	}
}

static void a_job_that_one_cannot_make(void **state)
{
	struct world *w = world_with_aggregators(2);

	(void)state;
	gather(w, 0, 4, "train", "key");
	begin_job(w, 0, 4);
	made_there(w, &w->of[AGG], 0, -EINVAL, "the MTU of eth0 is 576");
	assert_refused(&w->of[0], FPISA_MANAGER_R_job, "aggregator 10.0.0.200: the MTU of eth0 is 576");
	for (int r = 0; r < 4; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(slots_of(w), 0);
	assert_last(&w->of[AGG], FPISA_MANAGER_DROP);
	/* The next group works without the aggregator. After a while the manager tries the aggregator again. */
	for (uint32_t n = 2; n <= 3; n++) {
		const struct fpisa_manager_message *m;

		gather(w, 4 * (int)n, 4, n == 2 ? "soon" : "later", "key");
		m = &w->of[4 * n].inbox[(w->of[4 * n].n - 2) % INBOX];
		assert_int_equal(m->type, FPISA_MANAGER_AGGREGATORS);
		assert_int_equal(m->list.n, n);
		w->m.now_ms += 5000;
	}
}

static void return_both(struct world *w)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_RETURN);

	strcpy(msg.join.name, "train");
	msg.join.size = 2;
	msg.join.group = w->record[0].id;
	msg.join.secret = w->record[0].secret;
	for (msg.join.rank = 0; msg.join.rank < 2; msg.join.rank++)
		say(w, call(w, (int)msg.join.rank, 1 + msg.join.rank, "key"), &msg);
}

static void a_manager_waits_for_its_aggregators(void **state)
{
	struct world *w = world_with_aggregators(1);

	(void)state;
	gather(w, 0, 2, "train", "key");
	begin_job(w, 0, 2);
	made_there(w, &w->of[AGG], 5, 0, "");
	/*
	 * In the three cases the aggregator still has the group, was restarted and has lost the group, or does not
	 * reconnect.
	 */
	for (int how = 0; how < 3; how++) {
		struct fpisa_manager_message holds = fpisa_manager_message(FPISA_MANAGER_HOLDS);

		restart(w);
		return_both(w);
		holds.of.group = w->record[0].id;
		if (how < 2)
			register_at(w, AGG, 200, "aggs", 10000, FPISA_VERSION);
		if (!how)
			say(w, &w->of[AGG], &holds);
		later(w, FPISA_MANAGER_RETURN_MS + 1);
		if (!how)
			assert_last(&w->of[0], FPISA_MANAGER_JOINED);
		else
			assert_refused(&w->of[0], FPISA_MANAGER_R_aggregator,
				       how == 1 ? "10.0.0.200 is gone: it was restarted" :
						  "10.0.0.200 is gone: it did not come back");
	}
}

/*
 * Check that a restarted manager creates a job when its aggregator comes back, and refuses the job if the aggregator is
 * not back within the limit.
 */
static void a_job_waits_for_its_aggregator(void **state)
{
	(void)state;
	for (int comes = 0; comes < 2; comes++) {
		struct world *w = world_with_aggregators(1);

		gather(w, 0, 2, "train", "key");
		restart(w);
		return_both(w);
		begin_job(w, 0, 2);
		assert_last(&w->of[0], FPISA_MANAGER_BIND);
		later(w, FPISA_MANAGER_RETURN_MS - 1);
		assert_last(&w->of[0], FPISA_MANAGER_BIND);
		if (comes) {
			register_at(w, AGG, 200, "aggs", 10000, FPISA_VERSION);
			made_there(w, &w->of[AGG], 5, 0, "");
			assert_last(&w->of[0], FPISA_MANAGER_JOB);
			assert_int_equal(last(&w->of[0])->job.others[1], 5);
		}
		later(w, 1);
		if (!comes)
			assert_refused(&w->of[0], FPISA_MANAGER_R_datapath, "10.0.0.200: it did not come back");
		for (int r = 0; r < 2; r++)
			leave(w, &w->of[r], 0);
		assert_int_equal(slots_of(w), 0);
		assert_int_equal(records_of(w), 0);
	}
}

/* Check a job that one aggregator made and the other could not make. A rank gets the error from the next manager. */
static void refused_half_way_and_restarted(void **state)
{
	struct world *w = world_with_aggregators(1);

	(void)state;
	gather(w, 0, 2, "train", "key");
	begin_job(w, 0, 2);
	made_there(w, &w->of[AGG], 0, -EINVAL, "the MTU of eth0 is 576");
	restart(w);
	register_at(w, AGG, 200, "aggs", 10000, FPISA_VERSION);
	return_both(w);
	ask(w, &w->of[1], 0, 1, 64);
	assert_refused(&w->of[1], FPISA_MANAGER_R_job, "job 0 was refused before the manager was restarted");
	for (int r = 0; r < 2; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(slots_of(w), 0);
}

/* Check that a group without a job does not end when its aggregator restarts. */
static void nothing_was_held(void **state)
{
	struct world *w = world_with_aggregators(1);

	(void)state;
	gather(w, 0, 2, "train", "key");
	restart(w);
	return_both(w);
	register_at(w, AGG, 200, "aggs", 10000, FPISA_VERSION);
	later(w, FPISA_MANAGER_RETURN_MS + 1);
	assert_last(&w->of[0], FPISA_MANAGER_JOINED);
}

static void different_jobs(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 3, "train", "key");
	ask(w, &w->of[0], 0, 1, 0);
	ask(w, &w->of[1], 0, 4, 0);
	for (int i = 0; i < 2; i++)
		assert_refused(&w->of[i], FPISA_MANAGER_R_differs, "rank 1 asks for a different job");
	assert_refused(&w->of[2], FPISA_MANAGER_R_differs, "rank 1 asks for a different job");
	ask(w, &w->of[2], 0, 1, 0);
	assert_refused(&w->of[2], FPISA_MANAGER_R_differs, "rank 1 asks for a different job");
	/* The group continues, and its next job is a new attempt. */
	get_job(w, 0, 3, 1, 1, 0);
}

/*
 * Check that another request for the same index does not change the agreed job, while the job is created and
 * afterwards.
 */
static void another_job_of_the_same_index(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 2, "train", "key");
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 0, 1, 0);
	for (int r = 0; r < 2; r++)
		bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
	ask(w, &w->of[1], 0, 4, 0);
	assert_refused(&w->of[1], FPISA_MANAGER_R_differs, "is not the job that this rank asks for");
	datapath_turn(w);
	assert_last(&w->of[0], FPISA_MANAGER_JOB);
	assert_last(&w->of[1], FPISA_MANAGER_JOB);
	ask(w, &w->of[1], 0, 4, 0);
	assert_refused(&w->of[1], FPISA_MANAGER_R_differs, "is not the job that this rank asks for");
	assert_last(&w->of[0], FPISA_MANAGER_JOB);
	assert_int_equal(jobs_of(w), 1);
	for (int r = 0; r < 2; r++)
		leave(w, &w->of[r], 0);
	assert_int_equal(jobs_of(w), 0);
}

static void limits(void **state)
{
	struct world *w = new_world();

	(void)state;
	w->policy.slots = 100;
	w->policy.formats = 1u << 1;
	w->policy.modes = 1u << 1;
	gather(w, 0, 2, "a", "key");
	for (int r = 0; r < 2; r++) {
		ask(w, &w->of[r], 0, 4, 0);
		assert_refused(&w->of[r], FPISA_MANAGER_R_format, "fp64");
	}
	get_job(w, 0, 2, 1, 1, 0);
	assert_int_equal(last(&w->of[0])->job.spec.window, 16); /* a quarter of 100 */
	w->policy.slots = 28;
	get_job(w, 0, 2, 2, 1, 0);
	assert_int_equal(last(&w->of[0])->job.spec.window, 8); /* of the 12 slots that are left */
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 3, 1, 0);
	for (int r = 0; r < 2; r++)
		assert_refused(&w->of[r], FPISA_MANAGER_R_pool, "24 of its 28 slots");
	get_job(w, 0, 2, 4, 1, 4); /* a rank that asks for a smaller window gets the smaller window */
	leave(w, &w->of[0], 0);
	leave(w, &w->of[1], 0);
	w->policy.slots = FPISA_DEFAULT_SLOTS;
	w->policy.quota = (struct manager_quota){.groups = 64, .jobs = 1, .slots = 40};
	gather(w, 0, 2, "a", "key");
	get_job(w, 0, 2, 0, 1, 0);
	assert_int_equal(last(&w->of[0])->job.spec.window, 32);
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 1, 1, 0);
	assert_refused(&w->of[1], FPISA_MANAGER_R_quota, "key-jobs");
	/* Another key has its own quota. */
	gather(w, 4, 2, "a", "other");
	get_job(w, 4, 2, 0, 1, 0);
	w->policy.jobs = 3;
	gather(w, 8, 2, "a", "third");
	for (int r = 8; r < 10; r++)
		ask(w, &w->of[r], 0, 1, 0);
	assert_refused(&w->of[9], FPISA_MANAGER_R_pool, "its 2 job numbers");
}

/* Check that groups can use all job numbers, and that the first jobs have full windows. */
static void shares(void **state)
{
	uint32_t given = 0, full = 0;

	(void)state;
	for (uint32_t job = 0; job < FPISA_MAX_JOBS; job++) {
		uint32_t window = manager_window(64, FPISA_DEFAULT_SLOTS - given, FPISA_MAX_JOBS - 1 - job);

		assert_true(window >= FPISA_MANAGER_LEAST_WINDOW);
		full += window == 64;
		given += window;
	}
	assert_true(full >= 9 && given <= FPISA_DEFAULT_SLOTS);
	/* Windows are powers of two, at most a quarter of the free slots, and at most the requested window. */
	for (uint32_t free = 0; free <= FPISA_DEFAULT_SLOTS; free++)
		for (uint32_t others = 0; others < FPISA_MAX_JOBS; others++)
			for (uint32_t wanted = 1; wanted <= 1024; wanted *= 2) {
				uint32_t window = manager_window(wanted, free, others);
				uint32_t least =
					wanted < FPISA_MANAGER_LEAST_WINDOW ? wanted : FPISA_MANAGER_LEAST_WINDOW;

				assert_true(window <= wanted && window <= free && !(window & (window - 1)));
				assert_true(window >= least || (!window && free < least));
				assert_true(!others || window <= free / 4 || window == least);
				assert_true(window <= least || window + others * FPISA_MANAGER_LEAST_WINDOW <= free ||
					    least + others * FPISA_MANAGER_LEAST_WINDOW > free);
			}
	assert_int_equal(manager_window(64, 40, 0), 32);
}

/*
 * Create a group of one rank, caller `at`, and ask for its first job in mode exact. Return the window, or 0 if the job
 * was refused.
 */
static uint32_t exact_window(struct world *w, int at, const char *name, uint8_t format)
{
	struct told *t = &w->of[at];

	gather(w, at, 1, name, "key");
	ask_in_mode(w, t, 0, format, FPISA_MODE_EXACT, 64);
	if (last(t)->type == FPISA_MANAGER_REFUSED)
		return 0;
	bound(w, t, 0, last(t)->bind.port, 0);
	datapath_turn(w);
	assert_last(t, FPISA_MANAGER_JOB);
	return last(t)->job.spec.window;
}

/*
 * Check that windows of mode exact share the quarter of the slots that have superaccumulators, and that the refusal
 * names this limit.
 */
static void exact_shares(void **state)
{
	struct world *w = new_world();
	char name[FPISA_MANAGER_NAME] = {0};
	uint32_t given = 0, window, groups = 0;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	for (;; groups++) {
		name[0] = (char)('a' + groups);
		window = exact_window(w, (int)groups, name, groups % 2 ? FPISA_FORMAT_FP64 : FPISA_FORMAT_FP32);
		if (!window)
			break;
		given += window;
	}
	assert_true(groups >= 12 && given == FPISA_DEFAULT_SLOTS / FPISA_EXACT_SHARE);
	assert_refused(&w->of[groups], FPISA_MANAGER_R_pool,
		       "256 of the 256 slots for mode exact, which leaves too few for a window of 8; load with a "
		       "larger --slots");
	/* Jobs of E4M3 use the same registers as in other modes. */
	assert_int_equal(exact_window(w, (int)groups + 1, "e4m3", FPISA_FORMAT_E4M3), 64);
}

/* Check that the text from the datapath fits after the longest names. */
static void a_long_refusal(void **state)
{
	static const char text[] = "job 63: window 8 needs 16 of 32768 slot entries of mode exact, 32768 are taken; "
				   "load with --slots greater than 65536";
	struct world *w = world_with_aggregators(2);
	char name[FPISA_MANAGER_NAME] = {0};

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	gather(w, 0, 2, name, "key");
	begin_job(w, 0, 2);
	for (int i = 0; i < 4; i++)
		made_there(w, &w->of[AGG], 0, -ENOSPC, text);
	assert_refused(&w->of[0], FPISA_MANAGER_R_pool, text);
}

/* Check a refusal caused by the slots of static jobs, which only the datapath knows. */
static void the_datapath_is_full(void **state)
{
	struct world *w = new_world();

	(void)state;
	w->static_slots = FPISA_DEFAULT_SLOTS - 20;
	gather(w, 0, 2, "a", "key");
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 0, 1, 0);
	for (int r = 0; r < 2; r++)
		bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
	while (w->making)
		datapath_turn(w);
	assert_last(&w->of[1], FPISA_MANAGER_JOB);
	assert_int_equal(last(&w->of[1])->job.spec.window, 16);
	w->static_slots = FPISA_DEFAULT_SLOTS - 20;
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 1, 1, 0);
	for (int r = 0; r < 2; r++)
		bound(w, &w->of[r], 1, last(&w->of[r])->bind.port, 0);
	while (w->making)
		datapath_turn(w);
	assert_refused(&w->of[0], FPISA_MANAGER_R_pool, "no slots");
	assert_int_equal(w->m.group[0].record.job[1].state, FPISA_GROUP_JOB_NONE);
	assert_int_equal(w->record[0].job[1].state, FPISA_GROUP_JOB_NONE);
}

static void ports(void **state)
{
	struct world *w = new_world();
	uint16_t first;

	(void)state;
	w->policy.udp_first = 20000;
	w->policy.udp_last = 20003;
	gather(w, 0, 3, "hosts", "key");
	for (int r = 0; r < 3; r++)
		ask(w, &w->of[r], 0, 1, 0);
	for (int r = 0; r < 3; r++)
		assert_int_equal(last(&w->of[r])->bind.port, 20000); /* multicast needs one port for all ranks */
	bound(w, &w->of[1], 0, 20000, 0);
	bound(w, &w->of[0], 0, 20000, 1);
	for (int r = 0; r < 3; r++)
		assert_int_equal(last(&w->of[r])->bind.port, 20001);
	bound(w, &w->of[2], 0, 20000, 0); /* a late answer to the first try */
	for (int r = 0; r < 3; r++)
		bound(w, &w->of[r], 0, 20001, 0);
	assert_int_equal(w->making, 1);
	datapath_turn(w);
	/* all ranks are on one host */
	for (int r = 0; r < 3; r++)
		join(w, call(w, 4 + r, 1, "key"), "host", (uint32_t)r, 3);
	for (int r = 4; r < 7; r++)
		ask(w, &w->of[r], 0, 1, 0);
	first = last(&w->of[4])->bind.port;
	assert_int_equal(first, 20000);
	assert_int_equal(last(&w->of[5])->bind.port, 20002);
	assert_int_equal(last(&w->of[6])->bind.port, 20003);
	bound(w, &w->of[6], 0, 20003, 1);
	assert_refused(&w->of[4], FPISA_MANAGER_R_ports, "20000 to 20003");
}

/* Check that no port is tried after the last allowed number. */
static void the_last_port(void **state)
{
	struct world *w = new_world();

	(void)state;
	w->policy.udp_first = w->policy.udp_last = 65535;
	gather(w, 0, 1, "last", "key");
	ask(w, &w->of[0], 0, 1, 0);
	assert_int_equal(last(&w->of[0])->bind.port, 65535);
	bound(w, &w->of[0], 0, 65535, 1);
	assert_refused(&w->of[0], FPISA_MANAGER_R_ports, "65535 to 65535");
}

#define MANY_GROUPS 7 /* each group has 8 jobs of 64 ranks */
#define MOST_MS 200   /* CPU time, with sanitizers; searching all ports for each job took 900 ms without them */

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/*
 * Check that the manager quickly finds the next ports if all ranks are on one host, because other callers wait
 * meanwhile.
 */
static void many_ports(void **state)
{
	struct world *w = new_world();
	uint16_t next = 1024;
	double since;

	(void)state;
	w->policy.udp_first = next;
	w->policy.udp_last = 65535;
	for (int i = 1; i <= MANY_GROUPS; i++) {
		struct manager_group *g = &w->m.group[i];

		g->record.id = (__u64)i;
		g->record.size = FPISA_MAX_WORKERS;
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
			g->job[k].state = FPISA_GROUP_JOB_MADE;
		for (int r = 0; r < FPISA_MAX_WORKERS; r++) {
			g->record.rank[r].address = fpisa_ipv4(htonl(0x0a000001));
			for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
				g->record.rank[r].port[k] = next++;
		}
	}
	for (int r = 0; r < FPISA_MAX_WORKERS; r++)
		join(w, call(w, r, 1, "key"), "many", (uint32_t)r, FPISA_MAX_WORKERS);
	for (int r = 0; r < FPISA_MAX_WORKERS - 1; r++)
		ask(w, &w->of[r], 0, 1, 0);
	since = cpu_ms();
	ask(w, &w->of[FPISA_MAX_WORKERS - 1], 0, 1, 0);
	assert_true(cpu_ms() - since < MOST_MS);
	for (int r = 0; r < FPISA_MAX_WORKERS; r++)
		assert_int_equal(last(&w->of[r])->bind.port, next + r);
}

static void come_back(struct world *w, struct told *t, uint32_t host, const struct fpisa_manager_message *joined,
		      uint32_t rank, uint32_t size, const char *name)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_RETURN);
	struct fpisa_manager_message kept = *joined;

	call(w, (int)(t - w->of), host, "key");
	strcpy(msg.join.name, name);
	msg.join.rank = rank;
	msg.join.size = size;
	msg.join.group = kept.joined.group;
	msg.join.secret = kept.joined.secret;
	say(w, t, &msg);
}

static void a_manager_is_restarted(void **state)
{
	struct world *w = new_world();
	struct fpisa_manager_message joined;
	uint64_t token;

	(void)state;
	gather(w, 0, 3, "train", "key");
	joined = *last(&w->of[0]);
	get_job(w, 0, 3, 0, 1, 0);
	token = last(&w->of[0])->job.token;
	restart(w);
	w->m.now_ms = 9999;
	manager_tick(&w->m);
	for (int r = 0; r < 2; r++) {
		come_back(w, &w->of[r], 1 + (uint32_t)r, &joined, (uint32_t)r, 3, "train");
		assert_last(&w->of[r], FPISA_MANAGER_JOINED);
		assert_true(last(&w->of[r])->joined.group == joined.joined.group);
	}
	/* Rank 1 asks again for the messages that it missed. */
	ask(w, &w->of[1], 0, 1, 0);
	assert_last(&w->of[1], FPISA_MANAGER_BIND);
	bound(w, &w->of[1], 0, last(&w->of[1])->bind.port, 0);
	assert_last(&w->of[1], FPISA_MANAGER_JOB);
	assert_int_equal(last(&w->of[1])->job.token, token);
	assert_int_equal(w->making, 0);
	/* Try a wrong secret, then another address. */
	joined.joined.secret++;
	come_back(w, &w->of[5], 3, &joined, 2, 3, "train");
	assert_refused(&w->of[5], FPISA_MANAGER_R_unknown, "the group no longer exists");
	joined.joined.secret--;
	come_back(w, &w->of[5], 4, &joined, 2, 3, "train");
	assert_refused(&w->of[5], FPISA_MANAGER_R_unknown, "the group no longer exists");
	w->m.now_ms = 10000;
	manager_tick(&w->m);
	assert_last(&w->of[0], FPISA_MANAGER_GONE);
	assert_int_equal(last(&w->of[0])->members.ranks[0], 4);
	assert_int_equal(last(&w->of[0])->members.cause, FPISA_MANAGER_AWAY);
	come_back(w, &w->of[2], 3, &joined, 2, 3, "train");
	assert_refused(&w->of[2], FPISA_MANAGER_R_gone, "rank 2 was given up");
	lose(w, &w->of[0]);
	lose(w, &w->of[1]);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
	restart(w);
	come_back(w, &w->of[2], 3, &joined, 2, 3, "train");
	assert_refused(&w->of[2], FPISA_MANAGER_R_unknown, "the group no longer exists");
}

/*
 * Check that a rank that has not asked gets the reason why the first rank's request was refused, although the first
 * rank was disconnected meanwhile.
 */
static void refused_before_it_asks(void **state)
{
	struct world *w = new_world();
	struct fpisa_manager_message joined;
	const struct fpisa_manager_message *m;

	(void)state;
	w->policy.formats = 1u << 1;
	gather(w, 0, 3, "train", "key");
	joined = *last(&w->of[1]);
	ask(w, &w->of[0], 0, 4, 0);
	for (int i = 0; i < 3; i++)
		assert_refused(&w->of[i], FPISA_MANAGER_R_format, "fp64");
	assert_int_equal(w->m.count.refused[FPISA_MANAGER_R_format], 1);
	leave(w, &w->of[0], 0);
	come_back(w, &w->of[5], 2, &joined, 1, 3, "train");
	assert_int_equal(w->of[5].n, 3);
	m = w->of[5].inbox;
	assert_true(m[0].type == FPISA_MANAGER_JOINED && m[1].type == FPISA_MANAGER_REFUSED &&
		    m[2].type == FPISA_MANAGER_LEFT);
	assert_true(m[1].refusal.index == 0 && m[1].refusal.reason == FPISA_MANAGER_R_format);
}

/* Check that a rank learns of each rank that has left how many of its last calls ended without results, also when it reconnects. */
static void calls_without_results(void **state)
{
	const uint32_t without[] = {0, 2, 0};
	struct world *w = new_world();
	struct fpisa_manager_message joined;

	(void)state;
	gather(w, 0, 4, "train", "key");
	joined = *last(&w->of[3]);
	for (int i = 0; i < 3; i++) {
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_LEAVE);

		msg.leave.calls = 5;
		msg.leave.no_results = without[i];
		say(w, &w->of[i], &msg);
		assert_last(&w->of[3], FPISA_MANAGER_LEFT);
		assert_int_equal(last(&w->of[3])->left.ranks[0], 1 << i);
		assert_int_equal(last(&w->of[3])->left.no_results, without[i]);
	}
	come_back(w, &w->of[5], 4, &joined, 3, 4, "train");
	assert_int_equal(w->of[5].n, 3);
	for (int i = 1; i < 3; i++) {
		const struct fpisa_manager_left *left = &w->of[5].inbox[i].left;

		assert_int_equal(w->of[5].inbox[i].type, FPISA_MANAGER_LEFT);
		assert_true(left->calls == 5 && left->no_results == without[i - 1] && left->ranks[0] == (i == 1 ? 5 : 2));
	}
}

/* Check that one key cannot occupy all places with groups that half of their ranks have left. */
static void groups_that_do_not_end(void **state)
{
	struct world *w = new_world();
	int made = 0;

	(void)state;
	w->policy.quota.groups = 2;
	for (int i = 0; i + 2 <= CALLERS - 2; i += 2) {
		join(w, call(w, i, 1, "key"), "train", 0, 2);
		if (w->of[i].peer.hung_up) {
			assert_refused(&w->of[i], FPISA_MANAGER_R_quota, "4 groups that still have live ranks");
			continue;
		}
		made++;
		join(w, call(w, i + 1, 2, "key"), "train", 1, 2);
		leave(w, &w->of[i], 0);
	}
	assert_int_equal(made, 4);
	gather(w, CALLERS - 2, 2, "train", "other");
	/* One group has ended, so the next group may begin. */
	leave(w, &w->of[1], 0);
	gather(w, 8, 2, "train", "key");
}

/*
 * Check that a rank that reconnects before the manager notices the end of its old connection replaces that connection.
 */
static void a_second_connection(void **state)
{
	struct world *w = new_world();
	struct fpisa_manager_message joined;

	(void)state;
	gather(w, 0, 2, "train", "key");
	joined = *last(&w->of[0]);
	come_back(w, &w->of[5], 1, &joined, 0, 2, "train");
	assert_last(&w->of[5], FPISA_MANAGER_JOINED);
	assert_true(w->of[0].peer.hung_up);
	lose(w, &w->of[0]);
	assert_last(&w->of[1], FPISA_MANAGER_JOINED);
	leave(w, &w->of[1], 3);
	assert_last(&w->of[5], FPISA_MANAGER_LEFT);
	come_back(w, &w->of[6], 1, &joined, 0, 2, "train");
	assert_last(&w->of[6], FPISA_MANAGER_LEFT);
	assert_int_equal(last(&w->of[6])->leave.calls, 3);
}

static void it_dies_while_its_job_is_made(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 2, "train", "key");
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 0, 1, 0);
	for (int r = 0; r < 2; r++)
		bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
	lose(w, &w->of[0]);
	lose(w, &w->of[1]);
	assert_int_equal(records_of(w), 1); /* a restarted manager would find the job through this record */
	datapath_turn(w);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

static void who_left_is_not_waited_for(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 3, "train", "key");
	ask(w, &w->of[0], 0, 1, 0);
	leave(w, &w->of[1], 0);
	assert_refused(&w->of[0], FPISA_MANAGER_R_gone, "rank 1 has left");
	assert_int_equal(last(&w->of[0])->refusal.ranks, 2);
	ask(w, &w->of[2], 0, 1, 0);
	assert_refused(&w->of[2], FPISA_MANAGER_R_gone, "rank 1 has left");
	assert_int_equal(w->m.count.refused[FPISA_MANAGER_R_gone], 1); /* once per job, however many ranks ask */
	ask(w, &w->of[2], 1, 1, 0);
	assert_refused(&w->of[2], FPISA_MANAGER_R_gone, "rank 1 has left");
	assert_int_equal(w->m.count.refused[FPISA_MANAGER_R_gone], 2);
	assert_int_equal(w->m.count.gone, 0);
}

/*
 * Check that all ranks get the reason why a rank cannot continue, before its job is created, while it is created, and
 * afterwards. Each rank gets the reason once, and again when it asks.
 */
static void a_rank_cannot_go_on(void **state)
{
	struct world *w = new_world();
	struct fpisa_manager_message joined;

	(void)state;
	gather(w, 0, 3, "train", "key");
	joined = *last(&w->of[2]);
	ask(w, &w->of[0], 0, 1, 0);
	cannot(w, &w->of[1], 0, "no descriptor");
	for (int r = 0; r < 3; r++) {
		assert_refused(&w->of[r], FPISA_MANAGER_R_failed, "rank 1 cannot continue: no descriptor");
		assert_int_equal(last(&w->of[r])->refusal.ranks, 2);
	}
	for (int r = 0; r < 3; r++)
		ask(w, &w->of[r], 1, 1, 0);
	for (int r = 0; r < 3; r++)
		bound(w, &w->of[r], 1, last(&w->of[r])->bind.port, 0);
	assert_int_equal(w->making, 1);
	cannot(w, &w->of[2], 1, "its deadline has passed");
	cannot(w, &w->of[0], 1, "its deadline has passed, too");
	assert_refused(&w->of[0], FPISA_MANAGER_R_failed, "rank 2 cannot continue");
	assert_int_equal(last(&w->of[0])->refusal.index, 1);
	datapath_turn(w);
	assert_refused(&w->of[0], FPISA_MANAGER_R_failed, "rank 2 cannot continue");
	assert_int_equal(jobs_of(w), 1);
	get_job(w, 0, 3, 2, 1, 0);
	cannot_because(w, &w->of[0], 2, FPISA_MANAGER_R_differs, "the calls differ");
	for (int r = 0; r < 3; r++)
		assert_refused(&w->of[r], FPISA_MANAGER_R_differs, "rank 0 cannot continue: the calls differ");
	assert_int_equal(w->m.count.refused[FPISA_MANAGER_R_failed], 2);
	/* The rank gets all three reasons when it reconnects. */
	come_back(w, &w->of[5], 3, &joined, 2, 3, "train");
	assert_int_equal(w->of[5].n, 4);
	for (int r = 0; r < 2; r++)
		leave(w, &w->of[r], 0);
	leave(w, &w->of[5], 0);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

/*
 * Check that no rank waits forever if the helper is stuck. A job that the helper creates later is deleted with the
 * group.
 */
static void a_job_that_is_not_made(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 2, "train", "key");
	for (int r = 0; r < 2; r++)
		ask(w, &w->of[r], 0, 1, 0);
	for (int r = 0; r < 2; r++)
		bound(w, &w->of[r], 0, last(&w->of[r])->bind.port, 0);
	w->m.now_ms += FPISA_MANAGER_MAKING_MS - 1;
	manager_tick(&w->m);
	assert_last(&w->of[0], FPISA_MANAGER_BIND);
	w->m.now_ms++;
	manager_tick(&w->m);
	for (int r = 0; r < 2; r++)
		assert_refused(&w->of[r], FPISA_MANAGER_R_datapath, "did not create the job within 30 s");
	manager_tick(&w->m);
	assert_int_equal(w->m.count.refused[FPISA_MANAGER_R_datapath], 1);
	for (int r = 0; r < 2; r++)
		lose(w, &w->of[r]);
	datapath_turn(w);
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
}

/* Check ranks that wait for each other, each in a call that the other ranks have not made. */
static void ranks_make_different_calls(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 3, "train", "key");
	waits(w, &w->of[0], 4, 1000);
	waits(w, &w->of[1], 3, 999);
	waits(w, &w->of[1], 4, 1000);
	assert_last(&w->of[0], FPISA_MANAGER_JOINED);
	waits(w, &w->of[2], 4, 1001);
	for (int r = 0; r < 3; r++) {
		assert_refused(&w->of[r], FPISA_MANAGER_R_differs, "call 4 of rank 2 differs from that of rank 0");
		assert_int_equal(last(&w->of[r])->refusal.index, FPISA_MANAGER_NO_JOB);
		assert_int_equal(last(&w->of[r])->refusal.ranks, 5);
	}
}

/* Check ranks that wait in calls of different numbers, because a rank's call had no elements. */
static void a_rank_makes_a_call_without_elements(void **state)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_WAITS);
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 3, "train", "key");
	msg.waits =
		(struct fpisa_manager_waits){.call = 6, .last = 4, .index = 1, .elements = 1, .made = 3, .failed = 1};
	say(w, &w->of[1], &msg);
	waits(w, &w->of[0], 5, 1000);
	assert_last(&w->of[0], FPISA_MANAGER_JOINED);
	msg.waits.failed = 0;
	say(w, &w->of[1], &msg);
	for (int r = 0; r < 3; r++) {
		assert_refused(&w->of[r], FPISA_MANAGER_R_differs, "call 5 of rank 1 differs from that of rank 0");
		assert_int_equal(last(&w->of[r])->refusal.ranks, 3);
	}
}

/* Ranks of a group of more than eight hear of newcomers once a second, so that messages do not grow with their square. */
static void many_ranks_wait(void **state)
{
	struct world *w = new_world();

	(void)state;
	for (uint32_t r = 0; r < 9; r++)
		join(w, call(w, (int)r, r, "key"), "train", r, 16);
	for (int r = 0; r < 9; r++)
		assert_int_equal(w->of[r].n, 1);
	later(w, 1001);
	for (int r = 0; r < 9; r++) {
		assert_int_equal(w->of[r].n, 2);
		assert_last(&w->of[r], FPISA_MANAGER_PENDING);
		assert_int_equal(last(&w->of[r])->members.ranks[0], 0x1ff);
	}
}

static void killed_by_the_administrator(void **state)
{
	struct world *w = new_world();

	(void)state;
	gather(w, 0, 2, "train", "key");
	get_job(w, 0, 2, 0, 1, 0);
	manager_kill(&w->m, 0, w->m.group[0].record.id + 1);
	assert_last(&w->of[0], FPISA_MANAGER_JOB);
	manager_kill(&w->m, 0, w->m.group[0].record.id);
	for (int r = 0; r < 2; r++) {
		assert_last(&w->of[r], FPISA_MANAGER_GONE);
		assert_int_equal(last(&w->of[r])->members.ranks[0], 3);
		assert_true(w->of[r].peer.hung_up);
	}
	assert_int_equal(jobs_of(w), 0);
	assert_int_equal(records_of(w), 0);
	assert_int_equal(w->m.count.groups, 1);
	assert_int_equal(w->m.count.jobs, 1);
	assert_int_equal(w->m.count.gone, 2);
}

/*
 * Check that the present ranks of an incomplete group are recorded, and that the record is removed when all ranks have
 * left or the group is complete.
 */
static void gathering_is_recorded(void **state)
{
	struct world *w = new_world();
	const struct group_record *r = &w->record[0];

	(void)state;
	w->m.wall_s = 100;
	join(w, call(w, 1, 1, "key"), "train", 1, 3);
	assert_int_equal(records_of(w), 0);
	manager_record_gathering(&w->m);
	assert_true(r->id && group_gathers(r) && r->joined.word[0] == 2 && r->since == 100 && !r->secret);
	join(w, call(w, 2, 2, "key"), "train", 2, 3);
	lose(w, &w->of[1]);
	manager_record_gathering(&w->m);
	assert_true(group_gathers(r) && r->joined.word[0] == 4);
	join(w, call(w, 1, 1, "key"), "train", 1, 3);
	w->m.wall_s = 200;
	join(w, call(w, 0, 3, "key"), "train", 0, 3);
	assert_true(!group_gathers(r) && r->joined.word[0] == 7 && r->since == 200 && r->secret);
	for (int i = 0; i < 3; i++)
		leave(w, &w->of[i], 0);
	join(w, call(w, 4, 1, "key"), "other", 0, 2);
	manager_record_gathering(&w->m);
	assert_int_equal(records_of(w), 1);
	manager_kill(&w->m, 0, r->id);
	assert_last(&w->of[4], FPISA_MANAGER_GONE);
	assert_int_equal(records_of(w), 0);
	join(w, call(w, 5, 1, "key"), "other", 0, 2);
	manager_record_gathering(&w->m);
	lose(w, &w->of[5]);
	assert_int_equal(records_of(w), 0);
}

/* -- random orders ---------------------------------------------------------- */

/* Check that the record equals the group, except for jobs that are only requested. */
static void assert_recorded(const struct manager_group *g, const struct group_record *record)
{
	static struct group_record a, b;

	memcpy(&a, &g->record, group_record_bytes(&g->record));
	memcpy(&b, record, group_record_bytes(record));
	assert_int_equal(a.size, b.size);
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		assert_int_equal(a.job[k].state, b.job[k].state);
		if (a.job[k].state != FPISA_GROUP_JOB_NONE)
			continue;
		a.job[k] = b.job[k] = (struct group_job){0};
		for (uint32_t r = 0; r < a.size; r++)
			a.rank[r].port[k] = b.rank[r].port[k] = 0;
	}
	assert_memory_equal(&a, &b, group_record_bytes(&a));
}

/* Check all conditions that must hold after every event. */
static void check(struct world *w)
{
	struct manager_quota used = manager_used(&w->m, NULL), own = manager_used(&w->m, "key");
	uint64_t tokens[FPISA_MAX_JOBS];
	int known = 0, making = 0;

	assert_true(used.slots <= w->policy.slots && own.jobs <= w->policy.quota.jobs &&
		    own.slots <= w->policy.quota.slots);
	for (int i = 0; i < GROUPS; i++) {
		struct manager_group *g = &w->m.group[i];

		for (uint32_t r = 0; g->record.id && r < g->record.size; r++) {
			assert_int_equal(g->state[r] == RANK_HERE, g->caller[r] != NULL);
			if (g->caller[r]) {
				assert_true(peer_of(g->caller[r])->connected && !peer_of(g->caller[r])->hung_up);
				assert_true(g->caller[r]->place == i && g->caller[r]->rank == r);
			}
		}
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
			making += g->job[k].state == FPISA_GROUP_JOB_MAKING;
			if (g->job[k].state == FPISA_GROUP_JOB_MADE) {
				assert_true(w->token[g->record.job[k].number] == g->record.job[k].token);
				tokens[known++] = g->record.job[k].token;
			}
		}
		/* A restarted manager must find the record. */
		if (g->whole)
			assert_recorded(g, &w->record[i]);
		else if (w->record[i].id)
			assert_true(w->record[i].id == g->record.id && group_gathers(&w->record[i]));
	}
	assert_int_equal(making, w->making);
	assert_int_equal(known, jobs_of(w));
	for (int i = 0; i < known; i++)
		for (int k = 0; k < i; k++)
			assert_true(tokens[i] != tokens[k]);
	/* A caller whose connection the manager has closed is not in a group. */
	for (int i = 0; i < CALLERS; i++)
		assert_true(!w->of[i].peer.hung_up || w->of[i].peer.caller.place < 0);
}

static void random_event(struct world *w, struct vectors_rng *rng)
{
	static const char *const names[] = {"a", "b", "c"};
	int i = (int)vectors_below(rng, CALLERS);
	struct told *t = &w->of[i];
	uint32_t index = vectors_below(rng, 3);

	if (t->peer.hung_up && t->peer.connected) {
		lose(w, t);
		return;
	}
	if (!t->peer.connected) {
		call(w, i, 1 + vectors_below(rng, 3), vectors_below(rng, 4) ? "key" : "other");
		join(w, t, names[vectors_below(rng, 3)], vectors_below(rng, 3), 3);
		return;
	}
	switch (vectors_below(rng, 13)) {
	case 0:
		lose(w, t);
		return;
	case 1:
		if (t->peer.caller.place >= 0)
			leave(w, t, vectors_below(rng, 5));
		return;
	case 2:
	case 3:
	case 4:
	case 5:
		if (t->peer.caller.place >= 0 && w->m.group[t->peer.caller.place].whole)
			ask(w, t, index, (uint8_t)(vectors_below(rng, 20) ? 1 : 2), 0);
		return;
	case 6:
		if (w->making)
			datapath_turn(w);
		return;
	case 12:
		if (t->peer.caller.place < 0 || !w->m.group[t->peer.caller.place].whole || vectors_below(rng, 4))
			return;
		if (vectors_below(rng, 2))
			cannot(w, t, index, "no descriptor");
		else
			waits(w, t, 1 + index, 1);
		return;
	case 7:
		w->m.now_ms += vectors_below(rng, 3000);
		manager_tick(&w->m);
		return;
	case 8:
		manager_record_gathering(&w->m);
		if (!vectors_below(rng, 40))
			manager_kill(&w->m, vectors_below(rng, 3), w->m.group[0].record.id);
		return;
	default:
		/* The caller answers the last message if the message requires an answer. */
		if (t->n && last(t)->type == FPISA_MANAGER_BIND && t->peer.caller.place >= 0)
			bound(w, t, last(t)->bind.index, last(t)->bind.port, !vectors_below(rng, 6));
	}
}

/*
 * Kill the manager at a random moment. A pending request may or may not have reached the datapath. Jobs that are not
 * recorded as created are deleted.
 */
static void random_restart(struct world *w)
{
	for (int i = 0; i < FPISA_MAX_JOBS; i++) {
		int recorded = 0;

		for (int g = 0; g < GROUPS; g++)
			for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
				recorded |= w->record[g].job[k].state == FPISA_GROUP_JOB_MADE &&
					    w->record[g].job[k].token == w->token[i];
		if (!recorded)
			w->token[i] = 0;
	}
	for (int g = 0; g < GROUPS; g++)
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
			if (w->record[g].job[k].state == FPISA_GROUP_JOB_MAKING)
				memset(&w->record[g].job[k], 0, sizeof(w->record[g].job[k]));
	restart(w);
}

static void random_orders(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct world *w = new_world();

		w->policy.quota = (struct manager_quota){.groups = 3, .jobs = 4, .slots = 200};
		w->policy.slots = 300;
		for (int event = 0; event < 400; event++) {
			random_event(w, &rng);
			if (!vectors_below(&rng, 150))
				random_restart(w);
			check(w);
		}
		/* In the end no caller is connected, and no group or job is left. */
		for (int i = 0; i < CALLERS; i++)
			if (w->of[i].peer.connected)
				lose(w, &w->of[i]);
		w->m.now_ms += FPISA_MANAGER_RETURN_MS;
		manager_tick(&w->m);
		while (w->making)
			datapath_turn(w);
		assert_int_equal(jobs_of(w), 0);
		assert_int_equal(records_of(w), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_lives_and_ends),
		cmocka_unit_test(the_next_of_that_name),
		cmocka_unit_test(who_may_not_join),
		cmocka_unit_test(a_message_out_of_its_turn),
		cmocka_unit_test(a_group_gets_all_that_are_there),
		cmocka_unit_test(elements_of_the_smallest),
		cmocka_unit_test(elements_that_are_given),
		cmocka_unit_test(weights_follow_rates_and_hosts),
		cmocka_unit_test(homes_of_ranks),
		cmocka_unit_test(the_only_one_is_another),
		cmocka_unit_test(groups_of_both_families),
		cmocka_unit_test(two_addresses_of_an_aggregator),
		cmocka_unit_test(a_tree_of_two_hosts),
		cmocka_unit_test(a_tree_is_made_again),
		cmocka_unit_test(windows_of_a_tree),
		cmocka_unit_test(a_tree_with_the_manager_as_a_leaf),
		cmocka_unit_test(no_tree),
		cmocka_unit_test(a_root_beside_a_leaf),
		cmocka_unit_test(a_root_beside_a_leaf_of_an_agent),
		cmocka_unit_test(a_root_that_dies_as_a_leaf),
		cmocka_unit_test(a_tree_with_two_roots),
		cmocka_unit_test(a_tree_that_is_killed),
		cmocka_unit_test(a_number_of_the_second_root),
		cmocka_unit_test(jobs_at_two_roots),
		cmocka_unit_test(a_leaf_of_two_roots_here),
		cmocka_unit_test(a_tree_of_two_racks),
		cmocka_unit_test(a_group_in_one_rack),
		cmocka_unit_test(a_tree_after_a_restart),
		cmocka_unit_test(who_may_not_register),
		cmocka_unit_test(a_link_local_address),
		cmocka_unit_test(an_aggregator_dies),
		cmocka_unit_test(a_job_that_one_cannot_make),
		cmocka_unit_test(a_manager_waits_for_its_aggregators),
		cmocka_unit_test(a_job_waits_for_its_aggregator),
		cmocka_unit_test(refused_half_way_and_restarted),
		cmocka_unit_test(nothing_was_held),
		cmocka_unit_test(different_jobs),
		cmocka_unit_test(refused_before_it_asks),
		cmocka_unit_test(calls_without_results),
		cmocka_unit_test(groups_that_do_not_end),
		cmocka_unit_test(another_job_of_the_same_index),
		cmocka_unit_test(limits),
		cmocka_unit_test(shares),
		cmocka_unit_test(exact_shares),
		cmocka_unit_test(a_long_refusal),
		cmocka_unit_test(the_datapath_is_full),
		cmocka_unit_test(ports),
		cmocka_unit_test(the_last_port),
		cmocka_unit_test(many_ports),
		cmocka_unit_test(a_manager_is_restarted),
		cmocka_unit_test(a_second_connection),
		cmocka_unit_test(it_dies_while_its_job_is_made),
		cmocka_unit_test(who_left_is_not_waited_for),
		cmocka_unit_test(a_rank_cannot_go_on),
		cmocka_unit_test(a_job_that_is_not_made),
		cmocka_unit_test(ranks_make_different_calls),
		cmocka_unit_test(a_rank_makes_a_call_without_elements),
		cmocka_unit_test(many_ranks_wait),
		cmocka_unit_test(killed_by_the_administrator),
		cmocka_unit_test(gathering_is_recorded),
		cmocka_unit_test(random_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
