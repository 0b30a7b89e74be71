/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A transport carries frames between a worker and an aggregator. The window above
 * knows nothing of sockets. udp.c, xsk.c and mem.c are the transports, faults.c
 * can be put before any of them, and a faster one fits behind the same functions.
 *
 * A transport may lose, duplicate and reorder frames. It hands up only
 * frames that the aggregator sent, as far as their source tells;
 * reply.c checks their contents.
 */
#ifndef FPISA_TRANSPORT_H
#define FPISA_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "fpisa/tag.h"

#define FPISA_BATCH 32 /* frames a call */
#define FPISA_TRANSPORT_FDS 2

/* A frame to send: FPISA header, scales, payload, padding, each where it lies. */
struct fpisa_out {
	struct iovec part[4];
	int parts;
	int no_gso;    /* it leaves by itself, not within a GSO batch */
	uint16_t port; /* of the aggregator's, from 0: fpisa_port_index() */
};

/* A received frame from its FPISA header on, 4-byte aligned. */
struct fpisa_in {
	const void *data;
	size_t len;
};

struct fpisa_transport;

struct fpisa_transport_ops {
	/*
	 * Sends n <= FPISA_BATCH frames. A frame that could not leave now counts
	 * as lost. Negative errno only if no repetition will help.
	 */
	int (*send)(struct fpisa_transport *t, const struct fpisa_out *out, int n);

	/*
	 * Takes up to FPISA_BATCH frames, waiting at most timeout_ns for the
	 * first. They stay valid until the next call. Returns their number.
	 */
	int (*receive)(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns);

	/*
	 * Before the HELLOs of each generation: could joined() do its part, as far as that can be told by
	 * now? 0, or -errno with the message set. NULL: it could.
	 */
	int (*may_join)(struct fpisa_transport *t);

	/*
	 * The job's parameters are known: be ready for its results. Returns how
	 * many unread frames the receiver holds without loss, at least 1, or
	 * -errno with the message set.
	 */
	int (*joined)(struct fpisa_transport *t, const struct fpisa_hello *hello);

	/*
	 * The descriptors one of which can be read when a frame may be there, at most FPISA_TRANSPORT_FDS;
	 * they change with joined() and close() alone. Returns their number, or -errno.
	 */
	int (*fds)(struct fpisa_transport *t, int *fd);

	/* When frames come that no descriptor tells of, by CLOCK_MONOTONIC; UINT64_MAX: none. NULL: never any. */
	uint64_t (*due)(const struct fpisa_transport *t);

	/* Frames for us that were lost since open because nobody had read those before them. NULL: unknown. */
	uint64_t (*drops)(struct fpisa_transport *t);

	/*
	 * In a child after fork(): lets go of what the kernel would keep for the parent's sake, and
	 * does nothing to that. Only close() follows.
	 */
	void (*disown)(struct fpisa_transport *t);

	void (*close)(struct fpisa_transport *t);
};

struct fpisa_transport {
	const struct fpisa_transport_ops *ops;
	uint64_t bad;	/* frames dropped because of their source */
	int send_error; /* the last errno that lost a frame, 0 if none did */
	int more;	/* the last receive() may have left frames, though it handed up fewer than FPISA_BATCH */
	int gso;	/* frames of a call may leave as a GSO batch, cut on the way; whether they are, join.c tries */
	int in_process; /* no path, so no queue, is between: the order in which ranks are heard is theirs alone */
	unsigned int quiet; /* bits of fds() in which the caller knows nothing to be: receive() may leave them alone */
};

static inline int fpisa_transport_may_join(struct fpisa_transport *t)
{
	return t->ops->may_join ? t->ops->may_join(t) : 0;
}

static inline uint64_t fpisa_transport_due(const struct fpisa_transport *t)
{
	return t->ops->due ? t->ops->due(t) : UINT64_MAX;
}

/* After a receive() that returned n: may frames that had come by then be there yet? */
static inline int fpisa_transport_more(const struct fpisa_transport *t, int n)
{
	return n == FPISA_BATCH || t->more;
}

static inline uint64_t fpisa_transport_drops(struct fpisa_transport *t)
{
	return t->ops->drops ? t->ops->drops(t) : 0;
}

/*
 * The transports; 0, or -errno with the message set, -EINVAL if the address
 * is a broadcast one by the routes of this host. address and port are the
 * aggregator's: address in network order, ports in host order. mem also says
 * which job its aggregator has, and with which token.
 */
struct fpisa_mem;
int fpisa_udp_open(struct fpisa_transport **t, uint32_t address, uint16_t port, uint16_t local_port);
int fpisa_xsk_open(struct fpisa_transport **t, uint32_t address, uint16_t port, uint16_t local_port);
int fpisa_mem_open(struct fpisa_transport **t, struct fpisa_mem *m, uint32_t rank, uint32_t *job,
		   struct fpisa_key *token);

/* Another udp, on the port of `first`, which several may share: all are closed together. */
int fpisa_udp_open_beside(struct fpisa_transport **t, struct fpisa_transport *first, uint32_t address, uint16_t port,
			  uint16_t local_port);

/* Open UDP or xsk, by enum fpisa_transport_name; fpisa_transport_known() tells whether `name` is one of them. */
int fpisa_transport_open(struct fpisa_transport **t, uint32_t name, uint32_t address, uint16_t port,
			 uint16_t local_port);
int fpisa_transport_known(uint32_t name);

/* The socket of a UDP transport: for xsk, which has one beneath, and for rows of a query between worker and master. */
int fpisa_udp_fd(const struct fpisa_transport *t);
void fpisa_udp_redirect(struct fpisa_transport *t, uint16_t port);	      /* from now on to, and from, that port */
int fpisa_udp_take(struct fpisa_transport *t, struct fpisa_in *in, int most); /* as receive(), without waiting */

#endif
