/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Aggregators with which ours is compared. These are servers of the same protocol
 * (doc/wire.md), which follow the rules of fpisa/slot.h and frame.h, and add FP32 with
 * AVX2. server.c processes frames, and these files receive and send them:
 *
 * 	udp.c	a UDP socket, with recvmmsg, UDP_GRO, sendmmsg and UDP_SEGMENT
 * 	xsk.c	AF_XDP sockets on each link; sums are added and sent in place
 *
 * A server has one thread, so adds to its slots are not concurrent, and it does not lock
 * slots.
 */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "fpisa/frame.h"

struct server {
	struct fpisa_job job; /* job with format FP32; set before server_init() */
	uint32_t number;      /* job number */
	uint32_t next_generation;
	struct fpisa_session session;
	struct fpisa_slot *slot; /* [2W] */
	float *sum;		 /* [2W][job.elements] */
	uint64_t words;		 /* fpisa_sum_16() of the reply's words except its checksum */
};

/* Initialise a server. Return 0 or -ENOMEM. A server ends with its process. */
int server_init(struct server *s);

/*
 * Process a frame that came from this address and port. *len is its length from the FPISA header
 * on, which is aligned to 4 bytes. Replace the frame by the reply, and set *len to the
 * reply's length and *to to its ranks. *to is 0 if there is no reply.
 */
void server_frame(struct server *s, const struct fpisa_address *from, __be16 sport, void *frame, size_t *len,
		  uint64_t *to);

/* Report the start, and serve on the job's address and FPISA_PORT until the process ends. Return -errno on failure. */
int server_udp(struct server *s, int control);

/* Serve on these interfaces, on which the server gets all frames of the protocol. Rank r is on dev[r]. */
int server_xsk(struct server *s, int control, char (*dev)[16]);

#endif
