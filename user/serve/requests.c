// SPDX-License-Identifier: GPL-2.0-only
/* Messages to a process that may be slow; requests.h has the contract. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "requests.h"

struct requests_one {
	STAILQ_ENTRY(requests_one) link;
	size_t bytes;
	char message[];
};

void requests_open(struct requests *r, int fd)
{
	r->fd = fd;
	STAILQ_INIT(&r->waiting);
}

/* Send a message. Return 1 if it was sent, 0 if the socket has no room, or -EPIPE. */
static int send_now(const struct requests *r, const void *message, size_t bytes)
{
	ssize_t n = send(r->fd, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return n == (ssize_t)bytes ? 1 : -EPIPE;
}

int requests_send(struct requests *r, const void *message, size_t bytes, __u64 now_ms)
{
	struct requests_one *one;
	int sent = STAILQ_EMPTY(&r->waiting) ? send_now(r, message, bytes) : 0;

	if (sent)
		return sent < 0 ? sent : 0;
	one = malloc(sizeof(*one) + bytes);
	if (!one)
		return -ENOMEM;
	one->bytes = bytes;
	memcpy(one->message, message, bytes);
	if (STAILQ_EMPTY(&r->waiting))
		r->moved_ms = now_ms;
	STAILQ_INSERT_TAIL(&r->waiting, one, link);
	return 0;
}

int requests_turn(struct requests *r, __u64 now_ms)
{
	struct requests_one *one;

	while ((one = STAILQ_FIRST(&r->waiting))) {
		int sent = send_now(r, one->message, one->bytes);

		if (sent < 0)
			return sent;
		if (!sent)
			return now_ms - r->moved_ms < REQUESTS_MS ? 0 : -ETIMEDOUT;
		STAILQ_REMOVE_HEAD(&r->waiting, link);
		free(one);
		r->moved_ms = now_ms;
	}
	return 0;
}
