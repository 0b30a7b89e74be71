/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The base of all steps: a frame in a program's hands, the places of its headers, and its map entries. A program
 * looks each entry up once and passes it on; a global function (at the end of a round: finish.h) finds it again.
 * Pointers do not survive a tail call, and `h` does not survive a missed one either. The PHV (phv.h) does, and from it
 * the next program finds them again.
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

/*
 * Find the headers in a frame that has `tag` bytes of VLAN tags; nonzero if it holds them all. With a tag only h_proto
 * of h->eth is in its place.
 */
static __always_inline int find_headers_after(struct xdp_md *ctx, struct headers *h, __u32 tag)
{
	void *data = (void *)(long)ctx->data + tag;

	h->eth = data;
	h->ip = data + FPISA_ETH_LEN;
	h->udp = data + FPISA_ETH_LEN + FPISA_IP_LEN;
	h->fpisa = data + FPISA_OFFSET;
	return data + FPISA_PAYLOAD_OFFSET <= (void *)(long)ctx->data_end;
}

/* Find the headers in a frame without a tag. */
static __always_inline int find_headers(struct xdp_md *ctx, struct headers *h)
{
	return find_headers_after(ctx, h, 0);
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
