/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The base of all steps: the frame, the places of its headers, and its map entries. A program looks up each entry once
 * and passes the pointer on. Global functions, such as those of finish.h, look up the entry again. Pointers do not
 * survive a tail call, and `h` does not survive a failed tail call either. The PHV (phv.h) survives, and the next
 * program finds the headers and entries again from the PHV.
 */
#ifndef FPISA_BPF_PACKET_H
#define FPISA_BPF_PACKET_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include "maps.h"

/* The headers of an FPISA frame: Ethernet, IPv4 without options, UDP, FPISA. ipv6.h narrows an IPv6 frame to these headers. */
struct headers {
	struct ethhdr *eth;
	struct iphdr *ip;
	struct udphdr *udp;
	struct fpisa_hdr *fpisa;
};

/*
 * Find the headers in a frame that has `tag` bytes of VLAN tags. Return nonzero if the frame contains them all. With a
 * tag, only the member h_proto of h->eth is valid.
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

/* The two Ethernet addresses of a frame, in words that are aligned if the IP header is. */
struct stations {
	__u32 middle[2];
	__u16 first, last;
};

static __always_inline struct stations stations_of(const void *eth)
{
	return (struct stations){.first = *(const __u16 *)eth,
				 .middle = {*(const __u32 *)(eth + 2), *(const __u32 *)(eth + 6)},
				 .last = *(const __u16 *)(eth + 10)};
}

static __always_inline void write_stations(void *eth, const struct stations *s)
{
	*(__u16 *)eth = s->first;
	*(__u32 *)(eth + 2) = s->middle[0];
	*(__u32 *)(eth + 6) = s->middle[1];
	*(__u16 *)(eth + 10) = s->last;
}

/* Each `packet` belongs to one program, because every function that takes a `packet` is inlined. */
struct packet {
	struct headers h;
	int whole;     /* the frame contains all headers */
	int ipv6;      /* the frame was an IPv6 frame, and has been narrowed (ipv6.h) */
	__u32 id;      /* the job's number; FPISA_MAX_JOBS: the frame belongs to no job */
	__u32 payload; /* bytes after the FPISA header */
	__u32 port;    /* index of the destination UDP port, from the aggregator's first port */
	struct fpisa_job *job;
	struct fpisa_session *session;
	struct fpisa_counters *counters;
	/* the slot version of the contribution; this CPU owns it from admission() on (lock.h) */
	struct fpisa_slot *slot;
};

/*
 * Return whether the worker's device is the loopback device, which has no Ethernet address. A frame for it that
 * came in through another device gets a multicast address. If the address changed to the loopback device's own,
 * loopback_xmit() would leave the packet type as it is, which is "for another host".
 */
static __always_inline int is_loopback(const struct fpisa_peer *peer)
{
	return !(*(const __u32 *)peer->mac | *(const __u16 *)(peer->mac + 4));
}

#endif
