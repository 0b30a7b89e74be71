/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A transport carries frames between a worker and an aggregator. The window does not depend on sockets. udp.c, xsk.c
 * and mem.c are the transports, faults.c can wrap any of them, and a faster transport can implement the same functions.
 *
 * A transport may lose, duplicate and reorder frames. It returns only frames whose source is the aggregator. reply.c
 * checks the contents of the frames.
 */
#ifndef FPISA_TRANSPORT_H
#define FPISA_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "fpisa/address.h"
#include "fpisa/tag.h"

#define FPISA_BATCH 32 /* maximum number of frames per call */
#define FPISA_TRANSPORT_FDS 2

/* A frame to send: FPISA header, scales, payload and padding, each at a separate address. */
struct fpisa_out {
	struct iovec part[4];
	int parts;
	int no_gso;    /* the frame is sent separately and not in a GSO batch */
	uint16_t port; /* index of the aggregator's port, from 0; see fpisa_port_index() */
};

/* A received frame from its FPISA header on. The frame is 4-byte aligned. */
struct fpisa_in {
	const void *data;
	size_t len;
	int marked; /* the frame had a congestion mark (ECN CE) */
};

struct fpisa_transport;

struct fpisa_transport_ops {
	/*
	 * Send n <= FPISA_BATCH frames. A frame that cannot be sent now counts as lost. Return 0, or a negative errno
	 * if sending the frame again would not help.
	 */
	int (*send)(struct fpisa_transport *t, const struct fpisa_out *out, int n);

	/*
	 * Receive up to FPISA_BATCH frames, waiting at most timeout_ns for the first. Return the number of frames. The
	 * frames are valid until the next call.
	 */
	int (*receive)(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns);

	/*
	 * Check whether joined() can succeed, as far as is known. This is called before the HELLOs of each generation.
	 * Return 0, or a negative errno with the message set. NULL: joined() can always succeed.
	 */
	int (*may_join)(struct fpisa_transport *t);

	/*
	 * Prepare for the results of the job, whose parameters are known now. From now on, frames to a job, but not to
	 * a query, permit congestion marks (ECN ECT(0)). Return the number of unread frames that the receiver can hold
	 * without loss, at least 1, or a negative errno with the message set.
	 */
	int (*joined)(struct fpisa_transport *t, const struct fpisa_hello *hello);

	/*
	 * Store at most FPISA_TRANSPORT_FDS descriptors, and return their number, or a negative errno. One of the
	 * descriptors is readable when a frame may have arrived. The descriptors change only by joined() and close().
	 */
	int (*fds)(struct fpisa_transport *t, int *fd);

	/*
	 * Return the time, by CLOCK_MONOTONIC, at which to look next for frames that no descriptor reports, or
	 * UINT64_MAX if there are no such frames. NULL: there are never such frames.
	 */
	uint64_t (*due)(const struct fpisa_transport *t);

	/*
	 * Return the number of frames for this transport that were lost since it was opened because earlier frames had
	 * not been read. NULL: the number is unknown.
	 */
	uint64_t (*drops)(struct fpisa_transport *t);

	/*
	 * Return the MTU of the path to the aggregator, as the kernel knows it by its routes and by ICMP messages, or 0 if
	 * it is unknown. Set *headers to the bytes of a packet before the FPISA header. Any host can forge ICMP messages,
	 * so this MTU is only good for the text of an error. NULL: there is no path.
	 */
	unsigned int (*path_mtu)(const struct fpisa_transport *t, unsigned int *headers);

	/*
	 * In a child after fork(), release all resources that the child shares with its parent, without an effect on
	 * the parent. Only close() may follow.
	 */
	void (*disown)(struct fpisa_transport *t);

	void (*close)(struct fpisa_transport *t);
};

struct fpisa_transport {
	const struct fpisa_transport_ops *ops;
	uint64_t bad;	/* number of frames dropped because of their source */
	int send_error; /* last errno for which a frame was lost; 0: none */
	int more;	/* the last receive() may have left frames, although it returned fewer than FPISA_BATCH */
	int gso;	/* frames of a call may be sent as a GSO batch; join.c tests whether batches arrive */
	int in_process; /* there is no network path and no queue, so the order of arrival depends only on the ranks */
	unsigned int quiet; /* set of descriptors of fds() without a frame, which receive() may skip */
};

static inline int fpisa_transport_may_join(struct fpisa_transport *t)
{
	return t->ops->may_join ? t->ops->may_join(t) : 0;
}

static inline uint64_t fpisa_transport_due(const struct fpisa_transport *t)
{
	return t->ops->due ? t->ops->due(t) : UINT64_MAX;
}

/* Return whether there may be unread frames that arrived before a receive() that returned n. */
static inline int fpisa_transport_more(const struct fpisa_transport *t, int n)
{
	return n == FPISA_BATCH || t->more;
}

static inline uint64_t fpisa_transport_drops(struct fpisa_transport *t)
{
	return t->ops->drops ? t->ops->drops(t) : 0;
}

static inline unsigned int fpisa_transport_path_mtu(const struct fpisa_transport *t, unsigned int *headers)
{
	return t->ops->path_mtu ? t->ops->path_mtu(t, headers) : 0;
}

/*
 * Open a transport. Return 0, or a negative errno with the message set, which is -EINVAL if the address is a broadcast
 * address by the routes of this host. address and port are those of the aggregator. Ports are in
 * host order. fpisa_mem_open() also returns the job and the token of its aggregator.
 */
struct fpisa_mem;
int fpisa_udp_open(struct fpisa_transport **t, const struct fpisa_address *address, uint16_t port, uint16_t local_port);
int fpisa_xsk_open(struct fpisa_transport **t, const struct fpisa_address *address, uint16_t port, uint16_t local_port);
int fpisa_mem_open(struct fpisa_transport **t, struct fpisa_mem *m, uint32_t rank, uint32_t *job,
		   struct fpisa_key *token);

/* Open another UDP transport that shares the port of `first`. All transports of a port must be closed together. */
int fpisa_udp_open_beside(struct fpisa_transport **t, struct fpisa_transport *first,
			  const struct fpisa_address *address, uint16_t port, uint16_t local_port);

/* Open transport UDP or xsk, by enum fpisa_transport_name. fpisa_transport_known() returns whether `name` is valid. */
int fpisa_transport_open(struct fpisa_transport **t, uint32_t name, const struct fpisa_address *address, uint16_t port,
			 uint16_t local_port);
int fpisa_transport_known(uint32_t name);

/*
 * Return the socket of a UDP transport. xsk uses this for its own UDP transport, and queries use it for rows between
 * worker and master.
 */
int fpisa_udp_fd(const struct fpisa_transport *t);
void fpisa_udp_redirect(struct fpisa_transport *t, uint16_t port); /* use this port of the aggregator from now on */
int fpisa_udp_take(struct fpisa_transport *t, struct fpisa_in *in, int most); /* receive without waiting */

#endif
