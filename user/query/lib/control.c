/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Send and receive contents of any length over a channel. control.h documents the functions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control.h"
#include "lib/base/error.h"

#define KEPT (256u << 10) /* bytes of the buffer that are kept for the next content */

static enum fpisa_manager_reason check(const struct fpisa_manager_message *m, enum fpisa_manager_side from)
{
	int of_worker = m->type >= FPISA_CONTROL_READY;

	if (m->magic != FPISA_CONTROL_MAGIC)
		return FPISA_MANAGER_R_malformed;
	if (m->version != FPISA_CONTROL_VERSION)
		return FPISA_MANAGER_R_version;
	if (!m->type || m->type > FPISA_CONTROL_FAILED || (!of_worker && m->type > FPISA_CONTROL_FETCH) ||
	    of_worker != (from == FPISA_MANAGER_MANAGER) || m->number > FPISA_CONTROL_MOST)
		return FPISA_MANAGER_R_malformed;
	return 0;
}

int fpisa_control_serve(struct fpisa_control_channel *c, int fd, const struct fpisa_psks *keys)
{
	int rc;

	*c = (struct fpisa_control_channel){0};
	rc = fpisa_channel_serve(&c->channel, fd, keys, 0);
	if (!rc)
		fpisa_channel_speak(c->channel, check);
	return rc;
}

int fpisa_control_call(struct fpisa_control_channel *c, int fd, const struct fpisa_psk *psk)
{
	int rc;

	*c = (struct fpisa_control_channel){0};
	rc = fpisa_channel_call(&c->channel, fd, psk);
	if (!rc)
		fpisa_channel_speak(c->channel, check);
	return rc;
}

void fpisa_control_close(struct fpisa_control_channel *c)
{
	fpisa_channel_close(c->channel);
	free(c->out);
	free(c->in);
	*c = (struct fpisa_control_channel){0};
}

/* Make room for at least `n` bytes after the first `used` bytes. */
static int make_room(__u8 **bytes, size_t *room, size_t used, size_t n)
{
	size_t want = *room ? *room : 4096;
	__u8 *more;

	while (want < used + n)
		want *= 2;
	if (want == *room)
		return 0;
	more = realloc(*bytes, want);
	if (!more)
		return fpisa_fail(-ENOMEM, "not enough memory for messages; " FPISA_MORE_MEMORY);
	*bytes = more;
	*room = want;
	return 0;
}

int fpisa_control_send(struct fpisa_control_channel *c, __u16 type, const void *content, size_t n)
{
	struct fpisa_manager_message m = {.magic = FPISA_CONTROL_MAGIC, .version = FPISA_CONTROL_VERSION, .type = type};
	size_t messages = n / FPISA_CONTROL_BODY + (n % FPISA_CONTROL_BODY || !n), piece;
	const __u8 *from = content;
	int rc;

	if (c->out_at == c->out_n)
		c->out_at = c->out_n = 0;
	rc = make_room(&c->out, &c->out_room, c->out_n, messages * sizeof(m));
	for (; !rc && messages; messages--) {
		piece = n < FPISA_CONTROL_BODY ? n : FPISA_CONTROL_BODY;
		m.number = n;
		memset(m.body, 0, sizeof(m.body));
		if (piece) {
			memcpy(m.body, from, piece);
			from += piece;
		}
		memcpy(c->out + c->out_n, &m, sizeof(m));
		c->out_n += sizeof(m);
		n -= piece;
	}
	return rc;
}

int fpisa_control_flush(struct fpisa_control_channel *c)
{
	struct fpisa_manager_message m;
	int rc = 0;

	if (!fpisa_channel_open(c->channel))
		return 0;
	while (!rc && c->out_at < c->out_n && fpisa_channel_flushed(c->channel)) {
		for (int i = 0; !rc && i < FPISA_CHANNEL_QUEUE && c->out_at < c->out_n; i++) {
			memcpy(&m, c->out + c->out_at, sizeof(m));
			c->out_at += sizeof(m);
			rc = fpisa_channel_send(c->channel, &m);
		}
		rc = rc ? rc : fpisa_channel_flush(c->channel);
	}
	return rc;
}

/* Append a message to the content. Return 1 if the content is complete, 0 if it is not, or -errno. */
static int take(struct fpisa_control_channel *c, const struct fpisa_manager_message *m)
{
	size_t piece = m->number < FPISA_CONTROL_BODY ? (size_t)m->number : FPISA_CONTROL_BODY;
	int rc;

	if (c->in_type ? c->in_type != m->type || c->in_left != m->number : 0)
		return fpisa_fail(-EPROTO,
				  "the received data is not a message of this protocol; check the address and port");
	if (!c->in_type) {
		c->in_n = 0;
		if (c->in_room > KEPT) {
			free(c->in);
			c->in = NULL;
			c->in_room = 0;
		}
	}
	/* Make room for one more byte, so that a string at the end can be terminated. */
	rc = make_room(&c->in, &c->in_room, c->in_n, piece + 1);
	if (rc)
		return rc;
	memcpy(c->in + c->in_n, m->body, piece);
	c->in_n += piece;
	c->in[c->in_n] = 0;
	c->in_left = m->number - piece;
	c->in_type = c->in_left ? m->type : 0;
	return !c->in_left;
}

int fpisa_control_work(struct fpisa_control_channel *c, __u16 *type, const __u8 **content, size_t *n)
{
	struct fpisa_manager_message m;
	int rc = fpisa_control_flush(c);

	while (!rc) {
		rc = fpisa_channel_work(c->channel, &m);
		if (rc <= 0)
			break;
		rc = take(c, &m);
		if (rc <= 0)
			continue;
		*type = m.type;
		*content = c->in;
		*n = c->in_n;
		return 1;
	}
	/* The handshake may have been completed in this call. */
	return rc ? rc : fpisa_control_flush(c);
}

size_t fpisa_control_waiting(const struct fpisa_control_channel *c)
{
	return c->out_n - c->out_at;
}
