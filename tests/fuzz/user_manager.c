/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: messages of ranks to the manager (user/lib/manager/protocol.c), and the actions of its groups
 * (user/manager). The input is a sequence of events, each a byte for the caller and the kind, and bytes of a message.
 * The manager never assigns more than the policy allows, and sends only valid messages.
 */
#include <stdlib.h>
#include <string.h>
#include "check.h"
#include "manager.h"

#define CALLERS 8

static struct manager m;
static struct manager_caller caller[CALLERS];
static int hung_up[CALLERS], jobs;
static struct manager_make made[GROUPS * FPISA_MANAGER_JOBS];
static int making;

static void send_it(void *arg, struct manager_caller *to, const struct fpisa_manager_message *msg)
{
	(void)arg;
	CHECK(to >= caller && to < caller + CALLERS && !hung_up[to - caller]);
	CHECK(!fpisa_manager_check(msg, FPISA_MANAGER_MANAGER));
}

static void hang_up(void *arg, struct manager_caller *who)
{
	(void)arg;
	CHECK(who->place == -1);
	hung_up[who - caller] = 1;
}

static void refused(void *arg, const struct manager_caller *who, enum fpisa_manager_reason reason, const char *text)
{
	(void)arg;
	CHECK(who >= caller && who < caller + CALLERS && reason && *text && strlen(text) < FPISA_MANAGER_TEXT);
}

static void make_it(void *arg, const struct manager_make *o)
{
	(void)arg;
	CHECK(making < GROUPS * FPISA_MANAGER_JOBS && o->workers && o->workers <= m.policy->size && o->token);
	made[making++] = *o;
}

static void remove_it(void *arg, __u32 number, __u64 token)
{
	(void)arg;
	CHECK(token && number < FPISA_MAX_JOBS && jobs > 0);
	jobs--;
}

static void record_it(void *arg, __u32 place, const struct group_record *r)
{
	(void)arg;
	CHECK(place < GROUPS && r->size <= FPISA_MAX_RANKS);
}

static __u64 random_it(void *arg)
{
	return ++*(__u64 *)arg;
}

static void datapath_turn(int err)
{
	struct manager_made answer = {.err = err, .spec = {1, 1, 1, 1, 32, .window = 8}, .text = "no"};

	if (!making)
		return;
	making--;
	answer.place = made[making].place;
	answer.index = made[making].index;
	answer.id = made[making].id;
	answer.spec.window = made[making].spec.window;
	jobs += !err;
	manager_made(&m, &answer);
}

static void event(unsigned char kind, const unsigned char *bytes)
{
	struct manager_caller *c = &caller[kind % CALLERS];
	struct fpisa_manager_message msg;

	switch (kind / CALLERS % 8) {
	case 0:
		manager_lost(&m, c, FPISA_MANAGER_CLOSED);
		hung_up[c - caller] = 0;
		break;
	case 1:
		datapath_turn(kind & 1 ? 0 : kind & 2 ? -28 : -5);
		break;
	case 2:
		m.now_ms += kind * 100u;
		manager_tick(&m);
		break;
	default:
		memcpy(&msg, bytes, sizeof(msg));
		msg.magic = FPISA_MANAGER_MAGIC;
		msg.version = FPISA_MANAGER_VERSION;
		if (!hung_up[c - caller] && !fpisa_manager_check(&msg, FPISA_MANAGER_RANK))
			manager_message(&m, c, &msg);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct manager_ops ops = {.send = send_it,
					       .hang_up = hang_up,
					       .refused = refused,
					       .make = make_it,
					       .remove = remove_it,
					       .record = record_it,
					       .aggregator = note_aggregator,
					       .say = say,
					       .rate = rate,
					       .random = random_it};
	static const char name[] = "g";
	struct manager_policy policy;
	__u64 randoms = 0;

	manager_policy_init(&policy);
	policy.quota = (struct manager_quota){.groups = 3, .jobs = 4, .slots = 100};
	policy.slots = 150;
	policy.leaves = size && *data & 1;
	/* The groups of the last input have ended, which clears them. */
	memset(&m, 0, offsetof(struct manager, group));
	m.policy = &policy;
	m.ops = &ops;
	m.arg = &randoms;
	m.aggregator_port = 18000;
	making = jobs = 0;
	for (int i = 0; i < CALLERS; i++) {
		caller[i] = (struct manager_caller){
			.address = fpisa_ipv4(1u + (unsigned int)i / 2), .local = fpisa_ipv4(9), .place = -1};
		hung_up[i] = 0;
	}
	while (size) {
		unsigned char bytes[FPISA_MANAGER_BYTES] = {0};
		size_t n = size - 1 < 80 ? size - 1 : 80;
		struct manager_quota used;

		/* The header's constants and the name are not taken from the input. */
		memcpy(bytes + 6, data + 1, n > 2 ? 2 : n);
		if (bytes[6] == FPISA_MANAGER_JOIN || bytes[6] == FPISA_MANAGER_RETURN) {
			memcpy(bytes + 16, name, sizeof(name));
			if (n > 2)
				memcpy(bytes + 16 + FPISA_MANAGER_NAME, data + 3, n - 2 < 24 ? n - 2 : 24);
			n = n < 26 ? n : 26;
		} else if (n > 2) {
			memcpy(bytes + 16, data + 3, n - 2 < 24 ? n - 2 : 24);
			n = n < 26 ? n : 26;
		}
		event(*data, bytes);
		used = manager_used(&m, NULL);
		CHECK(used.jobs <= 4 && used.slots <= 100);
		data += n + 1;
		size -= n + 1;
	}
	for (int i = 0; i < CALLERS; i++)
		manager_lost(&m, &caller[i], FPISA_MANAGER_CLOSED);
	while (making)
		datapath_turn(-5);
	CHECK(!jobs);
	for (int i = 0; i < GROUPS; i++)
		CHECK(!m.group[i].record.id);
	return 0;
}
