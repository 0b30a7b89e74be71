/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Frames out of datagrams, for udp.c. The kernel may put datagrams of one sender
 * and one size together to one (UDP_GRO), which costs it and us a fraction of as
 * many single ones. Such a one can hold more frames than a receive() hands up;
 * what is left stays for the next.
 */
#ifndef FPISA_DATAGRAMS_H
#define FPISA_DATAGRAMS_H

#include <netinet/in.h>
#include <sys/socket.h>
#include "transport.h"

union fpisa_datagram_control {
	char space[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

struct fpisa_datagrams {
	int n, next;   /* how many the last look took; the one that the next frame is in */
	size_t offset; /* of that frame */
	struct sockaddr_in from[FPISA_BATCH];
	struct iovec iov[FPISA_BATCH];
	struct mmsghdr msg[FPISA_BATCH];
	union fpisa_datagram_control control[FPISA_BATCH];
	unsigned char *buffer;
};

/* Set up a struct that is zero. 0 or -ENOMEM. */
int fpisa_datagrams_init(struct fpisa_datagrams *d);
void fpisa_datagrams_free(struct fpisa_datagrams *d);

/* Are frames left that the last look took? */
int fpisa_datagrams_left(const struct fpisa_datagrams *d);

/* Looks for datagrams, without waiting, when no frames are left: takes 1 to `most` <= FPISA_BATCH, or -errno. */
int fpisa_datagrams_look(struct fpisa_datagrams *d, int fd, int most);

/*
 * Hands up to `most` frames up, of those that `source` sent; others, and what cannot be frames, are counted
 * in *bad. They are valid until the next look. Returns their number.
 */
int fpisa_datagrams_frames(struct fpisa_datagrams *d, struct fpisa_in *in, int most, const struct sockaddr_in *source,
			   uint64_t *bad);

#endif
