/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Take frames from datagrams, for udp.c. The kernel may merge datagrams of the same sender and size (UDP_GRO). A merged
 * datagram takes the kernel and the library only a fraction of the time for separate datagrams. A merged datagram can
 * contain more frames than one receive() returns. The next receive() returns the remaining frames.
 */
#ifndef FPISA_DATAGRAMS_H
#define FPISA_DATAGRAMS_H

#include <sys/socket.h>
#include "lib/base/address.h"
#include "transport.h"

/* Control messages with the size of merged datagrams (UDP_GRO), and with the field tos (IP_RECVTOS) or the traffic class (IPV6_RECVTCLASS). */
union fpisa_datagram_control {
	char space[2 * CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

struct fpisa_datagrams {
	int n, next;   /* number of datagrams of the last receive, and index of the datagram with the next frame */
	size_t offset; /* offset of the next frame */
	union fpisa_sockaddr from[FPISA_BATCH];
	struct iovec iov[FPISA_BATCH];
	struct mmsghdr msg[FPISA_BATCH];
	union fpisa_datagram_control control[FPISA_BATCH];
	unsigned char *buffer;
};

/* Initialise a struct that is zero. Return 0, or -ENOMEM. */
int fpisa_datagrams_init(struct fpisa_datagrams *d);
void fpisa_datagrams_free(struct fpisa_datagrams *d);

/* Return whether frames of the last receive have not been returned yet. */
int fpisa_datagrams_left(const struct fpisa_datagrams *d);

/*
 * Receive 1 to `most` <= FPISA_BATCH datagrams without waiting. Call this when no frames are left. Return 0, or a
 * negative errno.
 */
int fpisa_datagrams_look(struct fpisa_datagrams *d, int fd, int most);

/*
 * Store up to `most` frames from `source` in *in, and return their number. Count frames of other senders, and data that
 * cannot be frames, in *bad. The frames are valid until the next receive.
 */
int fpisa_datagrams_frames(struct fpisa_datagrams *d, struct fpisa_in *in, int most, const union fpisa_sockaddr *source,
			   uint64_t *bad);

#endif
