// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server on one UDP socket. One call of recvmmsg returns messages of up to 64
 * KB. Each message contains frames that GRO or the sender combined, and the
 * server processes them one by one. One call of sendmmsg sends the results, with
 * as many frames per rank and message as UDP_SEGMENT allows. The results are
 * sent from the buffers that received the frames.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"
#include "lab/testbed/process.h"

#define MESSAGES 16
#define MESSAGE_SIZE 65536
#define GSO_FRAMES 64 /* value of UDP_MAX_SEGMENTS in older kernels */
#define GSO_SIZE 65507
#define SOCKET_BUFFER (16 << 20)

union control {
	char space[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/* Frames of one size for the same ranks, sent as one message to each rank. */
struct gso_batch {
	struct iovec part[GSO_FRAMES];
	size_t frames, size;
	uint64_t to;
};

struct udp {
	struct server *s;
	int fd;
	unsigned char *buffer;
	struct sockaddr_in from[MESSAGES];
	struct iovec iov[MESSAGES];
	union control control[MESSAGES];
	struct mmsghdr msg[MESSAGES];
	struct gso_batch batch;
};

static int open_socket(struct udp *u)
{
	struct sockaddr_in local = {
		.sin_family = AF_INET, .sin_port = htons(FPISA_PORT), .sin_addr.s_addr = u->s->job.address.w[3]};
	int on = 1, size = SOCKET_BUFFER;

	u->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (u->fd < 0 || bind(u->fd, (struct sockaddr *)&local, sizeof(local)) ||
	    setsockopt(u->fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) ||
	    setsockopt(u->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(u->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		return -errno;
	return 0;
}

static void address_rank(const struct server *s, uint32_t r, struct sockaddr_in *a)
{
	*a = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = s->job.rank[r].port, .sin_addr.s_addr = s->job.rank[r].addr.w[3]};
}

/* Send the batch. A frame that cannot be sent now is lost, which the protocol allows. */
static void send_batch(struct udp *u)
{
	struct mmsghdr msg[FPISA_MAX_WORKERS] = {0};
	struct sockaddr_in to[FPISA_MAX_WORKERS];
	union control control = {{0}};
	struct gso_batch *b = &u->batch;
	uint16_t size = (uint16_t)b->size;
	unsigned int n = 0, sent = 0;
	int rc;

	control.align =
		(struct cmsghdr){.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof(size))};
	memcpy(CMSG_DATA(&control.align), &size, sizeof(size));
	for (uint32_t r = 0; r < u->s->job.workers; r++) {
		if (!(b->to >> r & 1))
			continue;
		address_rank(u->s, r, &to[n]);
		msg[n].msg_hdr = (struct msghdr){.msg_name = &to[n],
						 .msg_namelen = sizeof(to[n]),
						 .msg_iov = b->part,
						 .msg_iovlen = b->frames,
						 .msg_control = b->frames > 1 ? &control : NULL,
						 .msg_controllen = b->frames > 1 ? CMSG_SPACE(sizeof(size)) : 0};
		n++;
	}
	while (sent < n) {
		rc = sendmmsg(u->fd, msg + sent, n - sent, 0);
		sent += rc > 0 ? (unsigned int)rc : 1;
	}
	b->frames = 0;
}

static void queue_reply(struct udp *u, void *frame, size_t size, uint64_t to)
{
	struct gso_batch *b = &u->batch;

	if (b->frames && (b->frames == GSO_FRAMES || b->size != size || b->to != to || (b->frames + 1) * size > GSO_SIZE))
		send_batch(u);
	b->size = size;
	b->to = to;
	b->part[b->frames++] = (struct iovec){frame, size};
}

/* Return the size of the datagrams in a message. */
static size_t segment_size(struct msghdr *msg, size_t size)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		int segment;

		if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&segment, CMSG_DATA(c), sizeof(segment));
		return segment > 0 ? (size_t)segment : size;
	}
	return size;
}

static void take_message(struct udp *u, int i)
{
	size_t size = u->msg[i].msg_len, segment = segment_size(&u->msg[i].msg_hdr, size), len;
	unsigned char *p = u->iov[i].iov_base;
	const struct fpisa_address from = fpisa_ipv4(u->from[i].sin_addr.s_addr);
	uint64_t to;

	/* Process frames in place. */
	if (segment % sizeof(uint32_t))
		return;
	for (; size; p += segment, size -= segment) {
		segment = segment < size ? segment : size;
		len = segment;
		server_frame(u->s, &from, u->from[i].sin_port, p, &len, &to);
		if (to)
			queue_reply(u, p, len, to);
	}
}

static int serve(struct udp *u)
{
	int n;

	for (;;) {
		for (int i = 0; i < MESSAGES; i++)
			u->msg[i].msg_hdr = (struct msghdr){.msg_name = &u->from[i],
							    .msg_namelen = sizeof(u->from[i]),
							    .msg_iov = &u->iov[i],
							    .msg_iovlen = 1,
							    .msg_control = &u->control[i],
							    .msg_controllen = sizeof(u->control[i])};
		n = recvmmsg(u->fd, u->msg, MESSAGES, MSG_WAITFORONE, NULL);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			take_message(u, i);
		if (u->batch.frames)
			send_batch(u);
	}
}

int server_udp(struct server *s, int control)
{
	struct udp *u = calloc(1, sizeof(*u));
	int rc = -ENOMEM;

	if (!u)
		return rc;
	u->s = s;
	u->fd = -1;
	u->buffer = aligned_alloc(64, (size_t)MESSAGES * MESSAGE_SIZE);
	if (!u->buffer)
		goto out;
	for (int i = 0; i < MESSAGES; i++)
		u->iov[i] = (struct iovec){u->buffer + (size_t)i * MESSAGE_SIZE, MESSAGE_SIZE};
	rc = open_socket(u) ?: process_report(control, &(struct report){0}) ?: serve(u);
out:
	if (u->fd >= 0)
		close(u->fd);
	free(u->buffer);
	free(u);
	return rc;
}
