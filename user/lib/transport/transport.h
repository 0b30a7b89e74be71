/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A transport carries frames between a worker and an aggregator. The window does not depend on sockets. udp.c, xsk.c
 * and mem.c are the transports, faults.c can wrap any of them, and a faster transport can implement the same functions.
 *
 * A transport may lose, duplicate and reorder frames. It returns only frames that the aggregator sent, as far as
 * their source tells; reply.c checks their contents.
 */
#ifndef FPISA_TRANSPORT_H
#define FPISA_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "fpisa/tag.h"

#define FPISA_BATCH 32 /* frames per call */
#define FPISA_TRANSPORT_FDS 2

/* A frame to send: FPISA header, scales, payload, padding, each at its own address. */
struct fpisa_out {
	struct iovec part[4];
	int parts;
	int no_gso;    /* the frame is sent by itself, not in a GSO batch */
	uint16_t port; /* index of the aggregator's port, from 0: fpisa_port_index() */
};

/* A received frame from its FPISA header on, 4-byte aligned. */
struct fpisa_in {
	const void *data;
	size_t len;
	int marked; /* it came with a mark of congestion (ECN CE) */
};

struct fpisa_transport;

struct fpisa_transport_ops {
	/*
	 * Send n <= FPISA_BATCH frames. A frame that cannot be sent now counts as lost. Negative errno only if
	 * repetition does not help.
	 */
	int (*send)(struct fpisa_transport *t, const struct fpisa_out *out, int n);

	/*
	 * Receive up to FPISA_BATCH frames, waiting at most timeout_ns for the first. They stay valid until the next
	 * call. Return their number.
	 */
	int (*receive)(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns);

	/*
	 * Check, before the HELLOs of each generation, whether joined() can succeed, as far as known now. Return 0, or
	 * -errno with the message set. NULL: it always can.
	 */
	int (*may_join)(struct fpisa_transport *t);

	/*
	 * Prepare for the job's results; its parameters are known now. From now on frames to a job, but not to a
	 * query, say that the path may mark them (ECN ECT(0)). Return how many unread frames the receiver
	 * holds without loss, at least 1, or -errno with the message set.
	 */
	int (*joined)(struct fpisa_transport *t, const struct fpisa_hello *hello);

	/*
	 * Store the descriptors, at most FPISA_TRANSPORT_FDS, one of which can be read when a frame may have come.
	 * They change only with joined() and close(). Return their number, or -errno.
	 */
	int (*fds)(struct fpisa_transport *t, int *fd);

	/*
	 * Return when frames come that no descriptor reports, by CLOCK_MONOTONIC; UINT64_MAX: none. NULL: there are
	 * never such frames.
	 */
	uint64_t (*due)(const struct fpisa_transport *t);

	/* Return the frames for us that were lost since open because earlier frames had not been read. NULL: unknown. */
	uint64_t (*drops)(struct fpisa_transport *t);

	/*
	 * In a child after fork(), release what would keep the parent's resources, without a change for the parent.
	 * Only close() follows.
	 */
	void (*disown)(struct fpisa_transport *t);

	void (*close)(struct fpisa_transport *t);
};

struct fpisa_transport {
	const struct fpisa_transport_ops *ops;
	uint64_t bad;	/* frames dropped because of their source */
	int send_error; /* the last errno that lost a frame, 0: none */
	int more;	/* the last receive() may have left frames, though it returned fewer than FPISA_BATCH */
	int gso; /* frames of a call may be sent as a GSO batch, which is cut later; join.c tests whether batches arrive */
	int in_process; /* there is no path and so no queue: the order in which frames arrive depends only on the ranks */
	unsigned int quiet; /* bits of fds() that the caller knows to be empty: receive() may skip them */
};

static inline int fpisa_transport_may_join(struct fpisa_transport *t)
{
	return t->ops->may_join ? t->ops->may_join(t) : 0;
}

static inline uint64_t fpisa_transport_due(const struct fpisa_transport *t)
{
	return t->ops->due ? t->ops->due(t) : UINT64_MAX;
}

/* Return whether frames may be left that had arrived before a receive() that returned n. */
static inline int fpisa_transport_more(const struct fpisa_transport *t, int n)
{
	return n == FPISA_BATCH || t->more;
}

static inline uint64_t fpisa_transport_drops(struct fpisa_transport *t)
{
	return t->ops->drops ? t->ops->drops(t) : 0;
}

/*
 * Open a transport. Return 0, or -errno with the message set: -EINVAL if the address is a broadcast address by the
 * routes of this host. address and port are the aggregator's: address in network order, ports in host order. mem also
 * returns the job and the token of its aggregator.
 */
struct fpisa_mem;
int fpisa_udp_open(struct fpisa_transport **t, uint32_t address, uint16_t port, uint16_t local_port);
int fpisa_xsk_open(struct fpisa_transport **t, uint32_t address, uint16_t port, uint16_t local_port);
int fpisa_mem_open(struct fpisa_transport **t, struct fpisa_mem *m, uint32_t rank, uint32_t *job,
		   struct fpisa_key *token);

/* Open another udp on the port of `first`, which several may share: all are closed together. */
int fpisa_udp_open_beside(struct fpisa_transport **t, struct fpisa_transport *first, uint32_t address, uint16_t port,
			  uint16_t local_port);

/* Open UDP or xsk, by enum fpisa_transport_name; fpisa_transport_known() returns whether `name` is one of them. */
int fpisa_transport_open(struct fpisa_transport **t, uint32_t name, uint32_t address, uint16_t port,
			 uint16_t local_port);
int fpisa_transport_known(uint32_t name);

/*
 * Return the socket of a UDP transport: for xsk, which uses a UDP transport too, and for rows of a query between
 * worker and master.
 */
int fpisa_udp_fd(const struct fpisa_transport *t);
void fpisa_udp_redirect(struct fpisa_transport *t, uint16_t port); /* use that port of the aggregator from now on */
int fpisa_udp_take(struct fpisa_transport *t, struct fpisa_in *in, int most); /* receive without waiting */

#endif
