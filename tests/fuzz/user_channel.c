/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: bytes on a connection between rank and manager, with or without TLS, split in any way
 * (user/lib/manager/channel.c). Both ends are tested. TLS's own cryptography is a stand-in (tls_fake.c).
 *
 * For any input, an accepted message is well formed. A manager that asks for a key accepts no message before the caller
 * proves a key, and names the proven key. Sent messages arrive whole, in order and once. An error is one sentence.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "check.h"
#include "fpisa.h"
#include "lib/manager/channel.h"
#include "message.h"
#include "sockets.h"
#include "tls_fake.h"

static struct input in;
static enum fpisa_manager_side side;
static struct fpisa_channel *channel;
static int tls;		       /* the other side sends records */
static uint64_t sent, arrived; /* numbers of messages sent and arrived, in order */
static struct {
	uint8_t bytes[FPISA_MANAGER_BYTES];
	size_t n, record;
	uint8_t head[3];
	size_t n_head;
} out;

static const struct fpisa_psks keys = {.n = 3,
				       .psk = {{"a", "00000001", {1, 2, 3, 4, 5}},
					       {"a", "00000002", {2, 2, 3, 4, 5}},
					       {"b", "00000001", {3, 2, 3, 4, 5}}}};

ssize_t getrandom(void *to, size_t n, unsigned int flags)
{
	(void)flags;
	memset(to, 0x5a, n);
	return (ssize_t)n;
}

/* -- output of the channel ------------------------------------------------------------ */

static void take_message(const struct fpisa_manager_message *m)
{
	CHECK(!fpisa_manager_check(m, side));
	if (m->type == FPISA_MANAGER_PING || m->type == FPISA_MANAGER_PONG)
		CHECK(m->number == ++arrived);
}

static void take_byte(uint8_t byte)
{
	out.bytes[out.n++] = byte;
	if (out.n < sizeof(out.bytes))
		return;
	take_message((const struct fpisa_manager_message *)(const void *)out.bytes);
	out.n = 0;
}

/* Take a byte of a record. A refusal may be sent unencrypted as long as TLS has sent nothing. */
static void take_record_byte(uint8_t byte)
{
	if (out.record) {
		out.record--;
		take_byte(byte);
		return;
	}
	out.head[out.n_head++] = byte;
	if (out.n_head == 1 && byte == 0x16)
		out.n_head = 0;
	if (out.n_head < 3)
		return;
	CHECK(out.head[0] == 0x17);
	out.record = out.head[1] | (size_t)out.head[2] << 8;
	out.n_head = 0;
}

void socket_sent(size_t i, const uint8_t *bytes, size_t n)
{
	CHECK(!i);
	for (size_t k = 0; k < n; k++)
		if (tls_fake.sessions)
			take_record_byte(bytes[k]);
		else
			take_byte(bytes[k]);
}

/* -- input of the channel ------------------------------------------------------------- */

static void arrive(const void *bytes, size_t n)
{
	const uint8_t head[3] = {0x17, (uint8_t)n, (uint8_t)(n >> 8)};

	if (tls)
		socket_arrive(0, head, sizeof(head));
	socket_arrive(0, bytes, n);
}

/* Deliver a message in one piece, or in two pieces. The channel runs between the pieces. */
static void arrive_message(uint8_t cut)
{
	struct fpisa_manager_message m =
		message_any(&in, side == FPISA_MANAGER_RANK ? FPISA_MANAGER_MANAGER : FPISA_MANAGER_RANK);

	if (!cut) {
		arrive(&m, sizeof(m));
		return;
	}
	arrive(&m, cut);
	arrive((const char *)&m + cut, sizeof(m) - cut);
}

static void arrive_raw(void)
{
	uint8_t bytes[256];
	size_t n = input_take(&in, bytes, input_byte(&in));

	socket_arrive(0, bytes, n);
}

/* Make the handshake of a peer that has one of the keys, or only claims to have it. */
static void arrive_handshake(uint8_t which)
{
	const struct fpisa_psk *psk = &keys.psk[which % 3];
	char identity[FPISA_PSK_IDENTITY];
	uint8_t head[2] = {0x16, 0};

	if (side == FPISA_MANAGER_RANK) {
		socket_arrive(0, head, sizeof(head));
		return;
	}
	fpisa_psk_identity(psk, identity);
	head[1] = (uint8_t)strlen(identity);
	socket_arrive(0, head, sizeof(head));
	socket_arrive(0, identity, head[1]);
	socket_arrive(0, keys.psk[which / 3 % 3].secret, TLS_FAKE_SECRET);
}

/* -- steps --------------------------------------------------------------------------------- */

/* Return 0, or the error that ended the connection. */
static int check(int rc)
{
	const char *text = fpisa_error();

	if (rc >= 0)
		return 0;
	CHECK(*text && !strchr(text, '\n'));
	return rc;
}

static int work(int plain)
{
	struct fpisa_manager_message m;
	int rc;

	while ((rc = fpisa_channel_work(channel, &m)) > 0) {
		const char *name = fpisa_channel_name(channel);

		CHECK(!fpisa_manager_check(&m, side == FPISA_MANAGER_RANK ? FPISA_MANAGER_MANAGER : FPISA_MANAGER_RANK));
		CHECK(side == FPISA_MANAGER_RANK || plain || tls_fake.proven);
		/* No peer has the third key. */
		CHECK(!*name == !tls_fake.proven && (!*name || !strcmp(name, "a")));
		CHECK(fpisa_channel_open(channel));
	}
	return check(rc);
}

static int say(void)
{
	struct fpisa_manager_message m =
		fpisa_manager_message(side == FPISA_MANAGER_RANK ? FPISA_MANAGER_PING : FPISA_MANAGER_PONG);

	m.number = sent + 1;
	if (!fpisa_channel_open(channel) || fpisa_channel_send(channel, &m))
		return 0;
	sent++;
	return 0;
}

static int step(uint8_t kind, int plain)
{
	switch (kind % 8) {
	case 0:
		arrive_raw();
		break;
	case 1:
		arrive_message(kind & 0x40 ? input_byte(&in) : 0);
		break;
	case 2:
		arrive_handshake(kind / 8);
		break;
	case 3:
		fake_socket[0].room = (size_t)input_byte(&in) * 8;
		return 0;
	case 4:
		return say();
	case 5:
		return check(fpisa_channel_flush(channel));
	case 6:
		return check(fpisa_channel_greet(channel));
	default:
		fake_socket[0].ended = kind & 8;
		fake_socket[0].error = kind & 16 ? ECONNRESET : kind & 32 ? ETIMEDOUT : 0;
	}
	return work(plain);
}

static void end(int rc)
{
	if (side == FPISA_MANAGER_MANAGER && (rc == -EPROTO || rc == -EACCES || !rc))
		fpisa_channel_refuse(channel, FPISA_MANAGER_R_order, "no");
	(void)fpisa_channel_other_version(channel);
	fpisa_channel_close(channel);
	CHECK(!tls_fake.sessions && !fake_socket[0].open);
	CHECK(arrived <= sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how;
	int rc = 0, keyed, plain;

	in = (struct input){data, size};
	how = input_byte(&in);
	keyed = how & 2;
	plain = !keyed || how & 4;
	tls = keyed && how & 8;
	side = how & 1 ? FPISA_MANAGER_RANK : FPISA_MANAGER_MANAGER;
	sent = arrived = 0;
	memset(&out, 0, sizeof(out));
	tls_fake = (struct tls_fake){.known = {keys.psk[0].secret, keys.psk[1].secret}, .n_known = 2};
	sockets_reset();
	socket_open(0);
	fake_socket[0].room = 4096;
	CHECK(!(side == FPISA_MANAGER_RANK ? fpisa_channel_call(&channel, SOCKET_FD, keyed ? &keys.psk[0] : NULL) :
					     fpisa_channel_serve(&channel, SOCKET_FD, keyed ? &keys : NULL, plain)));
	while (!rc && in.left)
		rc = step(input_byte(&in), plain);
	end(rc);
	return 0;
}
