/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The base of all steps: a frame in a program's hands, the places of its headers, and its map entries. A program
 * looks each entry up once and passes it on; a global function (at the end of a round: finish.h) finds it again. No
 * pointer survives a tail call, and `h` not even a missed one. The PHV (phv.h) does, and by it the next program finds
 * them again.
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

/* `packet` and its parts belong to one program: every function that takes one is inlined. */
struct packet {
	struct headers h;
	int whole;     /* the frame holds all headers */
	__u32 id;      /* the job's number; FPISA_MAX_JOBS: the frame belongs to no job */
	__u32 payload; /* bytes after the FPISA header */
	__u32 port;    /* the UDP port of its destination, counted from the aggregator's first */
	struct fpisa_job *job;
	struct fpisa_session *session;
	struct fpisa_counters *counters;
	struct fpisa_slot *slot; /* the version for the contribution; from admission() on this CPU owns it (lock.h) */
};

#endif
