/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages to a process that may be slow, over a datagram socket without waiting. Messages that do not fit into the
 * socket are stored and sent later in order. A process that takes no message for REQUESTS_MS is considered stuck.
 */
#ifndef FPISA_SERVE_REQUESTS_H
#define FPISA_SERVE_REQUESTS_H

#include <linux/types.h>
#include <stddef.h>
#include <sys/queue.h>

#define REQUESTS_MS 30000

struct requests {
	int fd;
	__u64 moved_ms; /* time at which the first waiting message became the first */
	STAILQ_HEAD(requests_list, requests_one) waiting;
};

void requests_open(struct requests *r, int fd);

/* Send a message. Return 0, -ENOMEM, or the error of the socket if the process has ended. */
int requests_send(struct requests *r, const void *message, size_t bytes, __u64 now_ms);

/*
 * Send waiting messages as far as the socket has room. Return 0, -ETIMEDOUT if the process is stuck, or an error as
 * requests_send() does.
 */
int requests_turn(struct requests *r, __u64 now_ms);

#endif
