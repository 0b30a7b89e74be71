/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The aggregators that ours is measured beside: servers of the same protocol
 * (doc/wire.md, by the rules of fpisa/slot.h and frame.h) that add FP32 with
 * AVX2. What they do with a frame is in server.c, how frames come and go in
 *
 *	udp.c	a UDP socket: recvmmsg, UDP_GRO, sendmmsg, UDP_SEGMENT
 *	xsk.c	AF_XDP on each link: sums are taken and sent where they lie
 *
 * A server is one thread and has no peer that adds to its slots, so it takes no lock of a slot.
 */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "fpisa/frame.h"

struct server {
	struct fpisa_job job; /* of FP32; set before server_init() */
	uint32_t number;      /* the job's */
	uint32_t next_generation;
	struct fpisa_session session;
	struct fpisa_slot *slot; /* 2W of them */
	float *sum;		 /* of each, job.elements */
	uint64_t words;		 /* of the reply, all but its checksum's: fpisa_sum_16() */
};

/* 0 or -ENOMEM. There is no counterpart: a server ends with its process. */
int server_init(struct server *s);

/*
 * Takes a frame, from its FPISA header on, *len bytes, aligned to 4, that came
 * from saddr:sport. The reply is in its place: *len bytes to the ranks *to, 0 for none.
 */
void server_frame(struct server *s, __be32 saddr, __be16 sport, void *frame, size_t *len, uint64_t *to);

/* Serve on the job's address and FPISA_PORT, and report so, until the process ends; after an error -errno. */
int server_udp(struct server *s, int control);

/* The same on these interfaces, all of whose frames of the protocol the server gets. Rank r is on dev[r]. */
int server_xsk(struct server *s, int control, char (*dev)[16]);

#endif
