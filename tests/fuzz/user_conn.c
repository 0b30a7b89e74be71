/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: connections of the manager (user/serve/conn.c) with the groups behind them, over stand-ins for
 * sockets and TLS (sockets.c, tls_fake.c). The input is a list of steps: a host connects, bytes or messages come, a
 * side closes or stops reading, or time passes.
 *
 * For any input, the manager sends whole messages. A caller that does not join in time is disconnected. A caller from a
 * host outside the policy's networks, or with an unknown key, is not in a group. In the end no connection or group is
 * left.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include "check.h"
#include "manager.h"
#include "message.h"
#include "serve/conn.h"
#include "sockets.h"
#include "tls_fake.h"

#define TURNS 64
#define PLACES 4 /* more than the policy's limit on groups */

/* The state of user/serve/serve.c */
static struct {
	struct conns_of conns;
	struct manager manager;
	__u64 randoms;
} s;
static struct input in;
static struct manager_make made[GROUPS * FPISA_MANAGER_JOBS];
static int making, jobs;
static size_t said[SOCKETS]; /* bytes of an incomplete message */
static uint8_t saying[SOCKETS][FPISA_MANAGER_BYTES];

static const struct fpisa_psks keys = {.n = 2,
				       .psk = {{"a", "00000001", {1, 2, 3, 4, 5}}, {"b", "00000001", {3, 2, 3, 4, 5}}}};

/* -- stand-ins --------------------------------------------------------------------------- */

ssize_t getrandom(void *to, size_t n, unsigned int flags)
{
	(void)flags;
	memset(to, 0x5a, n);
	return (ssize_t)n;
}

void log_line(struct log *l, uint64_t now_ms, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	(void)l;
	(void)now_ms;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	CHECK(*line && !strchr(line, '\n'));
}

static void make_it(void *arg, const struct manager_make *o)
{
	(void)arg;
	CHECK(making < GROUPS * FPISA_MANAGER_JOBS);
	for (__u32 r = 0; r < o->workers; r++)
		CHECK(manager_network_allowed(s.manager.policy, &o->address[r]));
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
	CHECK(place < PLACES && r->size <= FPISA_MAX_RANKS);
	CHECK(!r->id || s.manager.policy->without_key || *r->owner);
}

static __u64 random_it(void *arg)
{
	(void)arg;
	return ++s.randoms;
}

static void datapath_turn(uint8_t how)
{
	struct manager_made answer = {.err = how & 1 ? 0 :
					     how & 2 ? -ENOSPC :
						       -EIO,
				      .spec = {1, 1, 1, 1, 32, .window = 8},
				      .text = "no"};

	if (!making)
		return;
	making--;
	answer.place = made[making].place;
	answer.index = made[making].index;
	answer.id = made[making].id;
	answer.spec.window = made[making].spec.window;
	jobs += !answer.err;
	manager_made(&s.manager, &answer);
}

/* -- output of the manager ------------------------------------------------------------------- */

/* Check messages that are sent unencrypted. With TLS, tests/fuzz/user_channel.c checks the order of records. */
void socket_sent(size_t i, const uint8_t *bytes, size_t n)
{
	if (tls_fake.n_known)
		return;
	for (size_t k = 0; k < n; k++) {
		saying[i][said[i]++] = bytes[k];
		if (said[i] < FPISA_MANAGER_BYTES)
			continue;
		said[i] = 0;
		CHECK(!fpisa_manager_check((const void *)saying[i], FPISA_MANAGER_MANAGER));
	}
}

/* -- steps --------------------------------------------------------------------------------------- */

static void host_connects(size_t i, uint8_t which)
{
	struct fake_socket *f = &fake_socket[i];

	if (f->open || f->waits)
		return;
	socket_open(i);
	*f = (struct fake_socket){.waits = 1, .address = htonl(0x0a000010u + which % 6), .room = 16 * 1024};
	said[i] = 0;
	if (tls_fake.n_known && which & 0x80) {
		static const uint8_t head[] = {0x16, 10, 'a', ':', '0', '0', '0', '0', '0', '0', '0', '1'};

		socket_arrive(i, head, sizeof(head));
		socket_arrive(i, keys.psk[0].secret, TLS_FAKE_SECRET);
	}
}

static void arrive(size_t i, const void *bytes, size_t n)
{
	const uint8_t head[3] = {0x17, (uint8_t)n, (uint8_t)(n >> 8)};

	if (tls_fake.n_known)
		socket_arrive(i, head, sizeof(head));
	socket_arrive(i, bytes, n);
}

static void arrive_raw(size_t i)
{
	uint8_t bytes[256];
	size_t n = input_take(&in, bytes, input_byte(&in));

	socket_arrive(i, bytes, n);
}

static void arrive_message(size_t i)
{
	struct fpisa_manager_message m = message_any(&in, FPISA_MANAGER_RANK);

	arrive(i, &m, sizeof(m));
}

static void pass(__u64 ms)
{
	s.manager.now_ms += ms;
	manager_tick(&s.manager);
	conns_tick(&s.conns);
	manager_record_gathering(&s.manager);
}

static void step(void)
{
	uint8_t kind = input_byte(&in), of = input_byte(&in);
	size_t i = of % SOCKETS;

	switch (kind % 8) {
	case 0:
		host_connects(i, kind);
		break;
	case 1:
	case 2:
		arrive_message(i);
		break;
	case 3:
		arrive_raw(i);
		break;
	case 4:
		fake_socket[i].ended = 1;
		fake_socket[i].error = kind & 0x80 ? ECONNRESET : kind & 0x40 ? ETIMEDOUT : 0;
		break;
	case 5:
		fake_socket[i].room = kind & 0x80 ? 0 : 16 * 1024;
		break;
	case 6:
		datapath_turn(of);
		break;
	default:
		pass(of * 100ull);
	}
}

/* Run the loop of user/serve/serve.c as long as there is work. */
static void serve(void)
{
	struct epoll_event e;

	for (int i = 0; i < TURNS; i++) {
		int waits = 0;

		conns_flush(&s.conns);
		if (epoll_wait(s.conns.epoll, &e, 1, 0) > 0 && e.data.ptr) {
			conn_work(&s.conns, e.data.ptr);
			continue;
		}
		for (size_t k = 0; k < SOCKETS; k++)
			waits |= fake_socket[k].waits || (fake_socket[k].epoll == s.conns.strangers && socket_ready(k));
		if (!waits)
			break;
		conns_strangers(&s.conns);
	}
}

static int connected(void)
{
	int n = 0;

	for (size_t i = 0; i < SOCKETS; i++)
		n += fake_socket[i].open;
	return n;
}

static int is_in_a_group(const struct conn *c)
{
	const struct conn_member *m;
	int n = c->first.caller.place >= 0;

	TAILQ_FOREACH(m, &c->others, link)
		n += m->caller.place >= 0;
	return n > 0;
}

/* Let the deadlines pass. Only connections in a group may then be open. */
static void check_time(void)
{
	struct conn *c;

	for (int i = 0; i < 3; i++) {
		pass(FPISA_MANAGER_GREETING_MS);
		serve();
	}
	TAILQ_FOREACH(c, &s.conns.all, link)
		CHECK(is_in_a_group(c));
	CHECK(!s.conns.waiting && !s.conns.n_closing);
}

static void end_all(void)
{
	for (size_t i = 0; i < SOCKETS; i++)
		fake_socket[i].ended = fake_socket[i].open;
	for (int i = 0; i < 8 && s.conns.n; i++)
		serve();
	CHECK(!s.conns.n && !connected() && !tls_fake.sessions);
	while (making)
		datapath_turn(0);
	for (int i = 0; i < 3; i++)
		pass(FPISA_MANAGER_ABSENT_MS);
	CHECK(!jobs);
	for (int i = 0; i < PLACES; i++)
		CHECK(!s.manager.group[i].record.id);
}

static void begin(struct manager_policy *policy, uint8_t how)
{
	static const struct manager_ops ops = {.send = conn_send,
					       .hang_up = conn_hang_up,
					       .refused = conn_refused,
					       .make = make_it,
					       .remove = remove_it,
					       .record = record_it,
					       .aggregator = note_aggregator,
					       .say = say,
					       .rate = rate,
					       .random = random_it};

	manager_policy_init(policy);
	policy->quota = (struct manager_quota){.groups = 3, .jobs = 4, .slots = 100};
	policy->slots = 150;
	policy->without_key = !(how & 1);
	if (how & 2) {
		policy->networks = 1;
		policy->network[0].address = fpisa_ipv4(htonl(0x0a000010));
		policy->network[0].bits = 96 + 30;
	}
	/* The groups of the last input have ended, which clears them. */
	memset(&s.conns, 0, sizeof(s.conns));
	memset(&s.manager, 0, offsetof(struct manager, group));
	s.randoms = 0;
	s.manager.policy = policy;
	s.manager.ops = &ops;
	s.manager.arg = &s;
	s.manager.aggregator_port = 18000;
	s.conns.manager = &s.manager;
	s.conns.keys = how & 1 ? &keys : NULL;
	tls_fake = (struct tls_fake){.known = {keys.psk[0].secret}, .n_known = how & 1};
	making = jobs = 0;
	sockets_reset();
	CHECK(!conns_open(&s.conns, policy, 18000));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct manager_policy policy;

	in = (struct input){data, size};
	begin(&policy, input_byte(&in));
	while (in.left) {
		step();
		serve();
		CHECK(s.conns.n == connected());
	}
	check_time();
	end_all();
	return 0;
}
