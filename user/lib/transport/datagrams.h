/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Take frames from datagrams, for udp.c. The kernel may merge datagrams of one sender and one size into one (UDP_GRO),
 * which costs the kernel and the library a fraction of the time for the single datagrams. A merged datagram can hold
 * more frames than one receive() returns; the rest stays for the next.
 */
#ifndef FPISA_DATAGRAMS_H
#define FPISA_DATAGRAMS_H

#include <netinet/in.h>
#include <sys/socket.h>
#include "transport.h"

/* The size of merged datagrams (UDP_GRO), and the field tos (IP_RECVTOS). */
union fpisa_datagram_control {
	char space[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint8_t))];
	struct cmsghdr align;
};

struct fpisa_datagrams {
	int n, next;   /* datagrams of the last receive; the datagram with the next frame */
	size_t offset; /* offset of the next frame */
	struct sockaddr_in from[FPISA_BATCH];
	struct iovec iov[FPISA_BATCH];
	struct mmsghdr msg[FPISA_BATCH];
	union fpisa_datagram_control control[FPISA_BATCH];
	unsigned char *buffer;
};

/* Set up a struct that is zero. Return 0, or -ENOMEM. */
int fpisa_datagrams_init(struct fpisa_datagrams *d);
void fpisa_datagrams_free(struct fpisa_datagrams *d);

/* Return whether frames of the last receive are left. */
int fpisa_datagrams_left(const struct fpisa_datagrams *d);

/* Receive datagrams, without waiting, when no frames are left: 1 to `most` <= FPISA_BATCH. Return -errno on error. */
int fpisa_datagrams_look(struct fpisa_datagrams *d, int fd, int most);

/*
 * Return up to `most` frames that `source` sent. Frames of other senders, and data that cannot be frames, are counted
 * in *bad. The frames are valid until the next receive. Return their number.
 */
int fpisa_datagrams_frames(struct fpisa_datagrams *d, struct fpisa_in *in, int most, const struct sockaddr_in *source,
			   uint64_t *bad);

#endif
