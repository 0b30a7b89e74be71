/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages to a process that may be slow, over a socket of messages: who sends them does not wait. What the socket has no
 * room for is kept here, in its order, and leaves later; a process that takes none of it for REQUESTS_MS is stuck.
 */
#ifndef FPISA_SERVE_REQUESTS_H
#define FPISA_SERVE_REQUESTS_H

#include <linux/types.h>
#include <stddef.h>
#include <sys/queue.h>

#define REQUESTS_MS 30000

struct requests {
	int fd;
	__u64 moved_ms; /* when the first of those that wait last became the first */
	STAILQ_HEAD(requests_list, requests_one) waiting;
};

void requests_open(struct requests *r, int fd);

/* 0, or -errno: -ENOMEM, or what the socket says of a process that is gone. */
int requests_send(struct requests *r, const void *message, size_t bytes, __u64 now_ms);

/* Sends what waits and has room. 0, -ETIMEDOUT: the process is stuck; or -errno as requests_send(). */
int requests_turn(struct requests *r, __u64 now_ms);

#endif
