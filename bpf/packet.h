/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Under all steps: a frame in a program's hands, where its headers lie, and the
 * map entries that it is about. A program looks each of them up once and hands
 * them on; a global function (what ends a round: finish.h) finds them again. No pointer outlives a tail call, and `h` not even one that missed; what does is in
 * the PHV (phv.h), by which the next program finds them again.
 */
#ifndef FPISA_BPF_PACKET_H
#define FPISA_BPF_PACKET_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include "maps.h"

/* The headers of our frames: Ethernet, IPv4 without options, UDP, FPISA. */
struct headers {
	struct ethhdr *eth;
	struct iphdr *ip;
	struct udphdr *udp;
	struct fpisa_hdr *fpisa;
};

/* Find the headers in the frame; nonzero if it holds them all. */
static __always_inline int find_headers(struct xdp_md *ctx, struct headers *h)
{
	void *data = (void *)(long)ctx->data;

	h->eth = data;
	h->ip = data + FPISA_ETH_LEN;
	h->udp = data + FPISA_ETH_LEN + FPISA_IP_LEN;
	h->fpisa = data + FPISA_OFFSET;
	return data + FPISA_PAYLOAD_OFFSET <= (void *)(long)ctx->data_end;
}

/* `packet` and its parts are of one program alone: every function that takes one is inlined. */
struct packet {
	struct headers h;
	int whole;     /* the frame holds all of them */
	__u32 id;      /* the job's number; FPISA_MAX_JOBS: the frame is of no job */
	__u32 payload; /* bytes after the FPISA header */
	__u32 port;    /* the UDP port that it came to, counted from the aggregator's first */
	struct fpisa_job *job;
	struct fpisa_session *session;
	struct fpisa_counters *counters;
	struct fpisa_slot *slot; /* the version that the contribution is for; from admission() on this CPU owns it (lock.h) */
};

#endif
