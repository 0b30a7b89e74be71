/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages between rank and manager. See message.h for the contract. */
#include <string.h>
#include "message.h"

static void fill_rank(struct input *in, struct fpisa_manager_message *m)
{
	uint8_t a = input_byte(in), b = input_byte(in);

	switch (m->type) {
	case FPISA_MANAGER_JOIN:
	case FPISA_MANAGER_RETURN:
		m->join.name[0] = (char)('a' + (a & 1));
		m->join.size = 1 + (a >> 1) % 4;
		m->join.rank = b % m->join.size;
		m->join.group = m->join.secret = m->type == FPISA_MANAGER_RETURN ? 1 + b / 4 : 0;
		break;
	case FPISA_MANAGER_ASK:
		m->ask.index = a % 3;
		m->ask.spec.format = b % 4;
		m->ask.spec.window = b & 0x80 ? 64 : 0;
		break;
	case FPISA_MANAGER_BOUND:
		m->bind.index = a % 3;
		m->bind.port = (uint16_t)(1 + b);
		m->bind.taken = a >> 7;
		break;
	case FPISA_MANAGER_LEAVE:
		m->leave.calls = a;
		m->leave.no_results = b < a ? b : 0;
		break;
	case FPISA_MANAGER_FAILED:
		m->refusal.reason = b & 1 ? FPISA_MANAGER_R_differs : FPISA_MANAGER_R_failed;
		m->refusal.index = a % 3;
		m->refusal.text[0] = 'x';
		break;
	case FPISA_MANAGER_WAITS:
		m->waits.call = 1 + a;
		m->waits.digest = b;
		m->waits.last = b / 2;
		m->waits.index = b % FPISA_MANAGER_JOBS;
		m->waits.elements = b >> 7;
		m->waits.made = a;
		m->waits.failed = a / 2 & b;
		break;
	default:
		m->number = a;
	}
}

static void fill_manager(struct input *in, struct fpisa_manager_message *m)
{
	uint8_t a = input_byte(in);

	switch (m->type) {
	case FPISA_MANAGER_JOINED:
		m->joined.group = m->joined.secret = 1;
		m->joined.home[a % FPISA_MAX_WORKERS] = a % (FPISA_MAX_SHARDS + 1);
		break;
	case FPISA_MANAGER_PENDING:
	case FPISA_MANAGER_GONE:
		m->members.ranks[0] = 1 + a;
		m->members.cause = m->type == FPISA_MANAGER_GONE;
		break;
	case FPISA_MANAGER_BIND:
		m->bind = (struct fpisa_manager_bind){
			.index = a % 3, .port = 1 + a, .address = fpisa_ipv4(1), .aggregator = 1, .leaf = a >> 7};
		break;
	case FPISA_MANAGER_JOB:
		m->job = (struct fpisa_manager_job){
			.index = a % 3, .job = a % 8, .token = 1, .spec = {1, 1, 1, 1, 32, .window = 8}};
		break;
	case FPISA_MANAGER_LEFT:
		m->left.calls = a / 8;
		m->left.no_results = a / 8 % 2;
		m->left.ranks[0] = a % 8;
		break;
	case FPISA_MANAGER_REFUSED:
		m->refusal.reason = 1 + a % (FPISA_MANAGER_R_END - 1);
		m->refusal.index = FPISA_MANAGER_NO_JOB;
		m->refusal.text[0] = 'x';
		break;
	default:
		m->number = a;
	}
}

struct fpisa_manager_message message_any(struct input *in, enum fpisa_manager_side from)
{
	uint8_t kind = input_byte(in);
	enum fpisa_manager_type first = from == FPISA_MANAGER_RANK ? FPISA_MANAGER_JOIN : FPISA_MANAGER_PENDING;
	struct fpisa_manager_message m = fpisa_manager_message(first + kind % 8);

	if (from == FPISA_MANAGER_RANK)
		fill_rank(in, &m);
	else
		fill_manager(in, &m);
	/* A few numbers of groups, of which the first is the most frequent. */
	if (kind >= 0x80 && kind < 0xc0 && m.type != FPISA_MANAGER_PING && m.type != FPISA_MANAGER_PONG)
		m.number = kind / 8 % 4;
	for (int changes = kind >= 0xc0 ? 1 + kind % 3 : 0; changes; changes--)
		((uint8_t *)&m)[input_byte(in)] = input_byte(in);
	return m;
}
