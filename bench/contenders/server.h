/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The aggregators for comparison with ours: servers of the same protocol
 * (doc/wire.md, by the rules of fpisa/slot.h and frame.h) that add FP32 with
 * AVX2. server.c processes frames, and these files receive and send them:
 *
 *	udp.c	a UDP socket: recvmmsg, UDP_GRO, sendmmsg, UDP_SEGMENT
 *	xsk.c	AF_XDP on each link: sums are added and sent in place
 *
 * A server is one thread without concurrent adds to its slots, so it does not lock slots.
 */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "fpisa/frame.h"

struct server {
	struct fpisa_job job; /* job of FP32; set before server_init() */
	uint32_t number;      /* number of the job */
	uint32_t next_generation;
	struct fpisa_session session;
	struct fpisa_slot *slot; /* [2W] */
	float *sum;		 /* [2W][job.elements] */
	uint64_t words;		 /* sum of the reply's words except its checksum: fpisa_sum_16() */
};

/* Initialise a server. Return 0 or -ENOMEM. A server ends with its process. */
int server_init(struct server *s);

/*
 * Process a frame of *len bytes from its FPISA header on, aligned to 4, that came
 * from saddr:sport. Replace it by the reply: *len bytes to the ranks *to, 0 for no reply.
 */
void server_frame(struct server *s, __be32 saddr, __be16 sport, void *frame, size_t *len, uint64_t *to);

/* Serve on the job's address and FPISA_PORT until the process ends, and report the start. Return -errno after an error. */
int server_udp(struct server *s, int control);

/* Serve on these interfaces, whose frames of the protocol all go to the server. Rank r is on dev[r]. */
int server_xsk(struct server *s, int control, char (*dev)[16]);

#endif
