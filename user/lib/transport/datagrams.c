/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Splitting of datagrams into frames; datagrams.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include "datagrams.h"
#include "fpisa/wire.h"

/* Largest size of a datagram, even after UDP_GRO. */
#define BUFFER_SIZE 65536

/*
 * Distance between buffers. The additional page and cache lines prevent the first frames of all buffers from sharing
 * cache sets.
 */
#define BUFFER_STRIDE (BUFFER_SIZE + 4096 + 256)

/* The size of every frame is a multiple of this, so later frames of a datagram are aligned. */
#define FRAME_UNIT sizeof(uint32_t)

int fpisa_datagrams_init(struct fpisa_datagrams *d)
{
	d->buffer = aligned_alloc(64, (size_t)FPISA_BATCH * BUFFER_STRIDE);
	if (!d->buffer)
		return -ENOMEM;
	for (int i = 0; i < FPISA_BATCH; i++) {
		d->iov[i] = (struct iovec){d->buffer + (size_t)i * BUFFER_STRIDE, BUFFER_SIZE};
		d->msg[i].msg_hdr = (struct msghdr){
			.msg_name = &d->from[i], .msg_iov = &d->iov[i], .msg_iovlen = 1, .msg_control = &d->control[i]};
	}
	return 0;
}

void fpisa_datagrams_free(struct fpisa_datagrams *d)
{
	free(d->buffer);
}

int fpisa_datagrams_left(const struct fpisa_datagrams *d)
{
	return d->next < d->n;
}

int fpisa_datagrams_look(struct fpisa_datagrams *d, int fd, int most)
{
	int n;

	for (int i = 0; i < most; i++) {
		d->msg[i].msg_hdr.msg_namelen = sizeof(d->from[i]);
		d->msg[i].msg_hdr.msg_controllen = sizeof(d->control[i]);
	}
	n = recvmmsg(fd, d->msg, (unsigned int)most, MSG_DONTWAIT, NULL);
	if (n < 0)
		return -errno;
	d->n = n;
	d->next = 0;
	d->offset = 0;
	return n;
}

/*
 * Copy the control message of datagram i to *value, which has `size` bytes. Do not change *value if the datagram has no
 * such message.
 */
static void control(struct fpisa_datagrams *d, int i, int level, int type, void *value, size_t size)
{
	struct msghdr *msg = &d->msg[i].msg_hdr;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level == level && c->cmsg_type == type)
			memcpy(value, CMSG_DATA(c), size);
}

/* Return the size of the datagrams that the kernel merged into datagram i, or the size of datagram i itself. */
static size_t segment_size(struct fpisa_datagrams *d, int i)
{
	int size = 0;

	control(d, i, SOL_UDP, UDP_GRO, &size, sizeof(size));
	return size > 0 ? (size_t)size : d->msg[i].msg_len;
}

/* Return whether datagram i has a congestion mark. The kernel does not merge marked datagrams with unmarked ones. */
static int is_marked(struct fpisa_datagrams *d, int i)
{
	uint8_t tos = 0;
	int class = 0;

	control(d, i, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	control(d, i, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof(class));
	return FPISA_IS_CE(tos) || FPISA_IS_CE(class);
}

int fpisa_datagrams_frames(struct fpisa_datagrams *d, struct fpisa_in *in, int most, const union fpisa_sockaddr *source,
			   uint64_t *bad)
{
	int good = 0;

	for (; d->next < d->n; d->next++, d->offset = 0) {
		int i = d->next;
		size_t size = d->msg[i].msg_len, segment = segment_size(d, i);
		int marked = is_marked(d, i);

		if (!fpisa_same_sockaddr(&d->from[i], source) || (segment < size && segment % FRAME_UNIT)) {
			*bad += segment ? (size + segment - 1) / segment : 1;
			continue;
		}
		do {
			size_t left = size - d->offset;

			if (good == most)
				return good;
			in[good].data = (const unsigned char *)d->iov[i].iov_base + d->offset;
			in[good].len = left < segment ? left : segment;
			in[good].marked = marked;
			d->offset += in[good++].len;
		} while (d->offset < size);
	}
	return good;
}
