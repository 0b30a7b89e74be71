/* SPDX-License-Identifier: GPL-2.0-only */
/* A channel whose other side is libFuzzer's input. See channel.h for the contracts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "channel.h"
#include "lib/base/error.h"

static int open_channel(struct fpisa_channel **c, int fd, enum fpisa_manager_side from)
{
	*c = calloc(1, sizeof(**c));
	if (!*c)
		abort();
	(*c)->fd = fd;
	(*c)->from = from;
	(*c)->check = fpisa_manager_check;
	return 0;
}

int fpisa_channel_serve(struct fpisa_channel **c, int fd, const struct fpisa_psks *keys, int plain)
{
	(void)keys;
	(void)plain;
	return open_channel(c, fd, FPISA_MANAGER_RANK);
}

int fpisa_channel_call(struct fpisa_channel **c, int fd, const struct fpisa_psk *psk)
{
	(void)psk;
	return open_channel(c, fd, FPISA_MANAGER_MANAGER);
}

void fpisa_channel_speak(struct fpisa_channel *c, fpisa_channel_check *check)
{
	c->check = check;
}

int fpisa_channel_fd(const struct fpisa_channel *c)
{
	return c->fd;
}

short fpisa_channel_events(const struct fpisa_channel *c)
{
	(void)c;
	return 1; /* POLLIN */
}

int fpisa_channel_open(const struct fpisa_channel *c)
{
	(void)c;
	return 1;
}

const char *fpisa_channel_name(const struct fpisa_channel *c)
{
	(void)c;
	return "";
}

int fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m)
{
	if (c->check(m, c->from == FPISA_MANAGER_RANK ? FPISA_MANAGER_MANAGER : FPISA_MANAGER_RANK))
		abort();
	return 0;
}

int fpisa_channel_flush(struct fpisa_channel *c)
{
	(void)c;
	return 0;
}

/*
 * Report that no input is unread, because untaken bytes have not arrived yet. The caller then names the silent worker.
 */
int fpisa_channel_unread(const struct fpisa_channel *c)
{
	(void)c;
	return 0;
}

int fpisa_channel_room(const struct fpisa_channel *c)
{
	(void)c;
	return FPISA_CHANNEL_QUEUE;
}

int fpisa_channel_flushed(const struct fpisa_channel *c)
{
	(void)c;
	return 1;
}

void fpisa_channel_close(struct fpisa_channel *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	free(c->content);
	free(c);
}

static void piece(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	size_t n = c->n - c->at < sizeof(m->body) ? c->n - c->at : sizeof(m->body);

	memset(m, 0, sizeof(*m));
	m->magic = FPISA_CONTROL_MAGIC;
	m->version = FPISA_CONTROL_VERSION;
	m->type = c->type;
	m->number = c->n - c->at;
	if (n)
		memcpy(m->body, c->content + c->at, n);
	c->at += n;
}

int channel_content(struct fpisa_channel *c, struct fpisa_manager_message *m, uint16_t type, const void *content,
		    size_t n)
{
	free(c->content);
	c->content = malloc(n + 1);
	if (!c->content)
		abort();
	if (n)
		memcpy(c->content, content, n);
	c->type = type;
	c->at = 0;
	c->n = n;
	piece(c, m);
	return 1;
}

int fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	int rc = 1;

	if (c->at < c->n)
		piece(c, m);
	else
		rc = channel_next(c, m);
	return rc == 1 && c->check(m, c->from) ? fpisa_fail(-EPROTO, "malformed") : rc;
}
