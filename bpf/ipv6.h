/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * IPv6 frames. The entry narrows the IPv6 frames of jobs: it cuts off the first 20 bytes, and writes the Ethernet header and
 * an IPv4 header, with only the fields that later steps read, before the UDP header. So all steps find the UDP header, the
 * FPISA header and the payload in the same places. The PHV keeps the addresses. Replies and results get their IPv6 header
 * last, before the VLAN tag.
 */
#ifndef FPISA_BPF_IPV6_H
#define FPISA_BPF_IPV6_H

#include "packet.h"

#define NARROWED (FPISA_IPV6_LEN - FPISA_IP_LEN)

/* The headers of a frame over IPv6 without extension headers. */
struct headers6 {
	struct ipv6hdr *ip;
	struct udphdr *udp;
	struct fpisa_hdr *fpisa;
};

/* Find the headers after `tag` bytes of VLAN tags. Return nonzero if the frame contains them all. */
static __always_inline int find_headers6(struct xdp_md *ctx, struct headers6 *h, __u32 tag)
{
	void *data = (void *)(long)ctx->data + tag;

	h->ip = data + FPISA_ETH_LEN;
	h->udp = data + FPISA_ETH_LEN + FPISA_IPV6_LEN;
	h->fpisa = data + FPISA_OFFSET + NARROWED;
	return data + FPISA_PAYLOAD_OFFSET + NARROWED <= (void *)(long)ctx->data_end;
}

/* Return whether the frame has an IPv6 header after `tag` bytes of VLAN tags. */
static __always_inline int is_ipv6(struct xdp_md *ctx, __u32 tag)
{
	struct ethhdr *eth = (void *)(long)ctx->data + tag;

	return (void *)(eth + 1) <= (void *)(long)ctx->data_end && eth->h_proto == bpf_htons(ETH_P_IPV6);
}

/* Return whether an extension header, or a fragment's, follows the IPv6 header (RFC 8200; IANA's list). */
static __always_inline int is_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT || next == IPPROTO_ESP ||
	       next == IPPROTO_AH || next == IPPROTO_DSTOPTS || next == IPPROTO_MH || next == 139 || next == 140;
}

/* Return the traffic class, which corresponds to IPv4's tos. */
static __always_inline __u8 class_of(const struct ipv6hdr *ip)
{
	return (__u8)(bpf_ntohs(*(const __be16 *)ip) >> 4);
}

static __always_inline struct fpisa_address address_of(const struct in6_addr *a)
{
	struct fpisa_address to;

	__builtin_memcpy(&to, a, sizeof(to));
	return to;
}

/* Narrow the frame, whose headers are *h. Return 0, or nonzero on an error. Packet pointers become invalid. */
static __always_inline int cut_ipv6(struct xdp_md *ctx, const struct headers6 *h)
{
	__u32 len = bpf_ntohs(h->ip->payload_len) + FPISA_IP_LEN;
	struct ethhdr *eth = (void *)h->ip - FPISA_ETH_LEN;
	struct stations s = stations_of(eth);
	__u8 class = class_of(h->ip);
	struct iphdr *ip;

	if (bpf_xdp_adjust_head(ctx, NARROWED))
		return 1;
	eth = (void *)(long)ctx->data;
	ip = (void *)(eth + 1);
	if ((void *)(ip + 1) > (void *)(long)ctx->data_end)
		return 1;
	write_stations(eth, &s);
	eth->h_proto = bpf_htons(ETH_P_IP);
	*(__u8 *)ip = 0x45;
	ip->tos = class;
	/* Our frames are not longer than IPv4 allows, and their length is never 0. */
	ip->tot_len = bpf_htons(len > 0xffff ? 0 : (__u16)len);
	ip->frag_off = 0;
	ip->protocol = IPPROTO_UDP;
	return 0;
}

/* Write an IPv6 header, without next headers, for a UDP datagram of `len` bytes. */
static __always_inline void write_ipv6(struct ipv6hdr *ip, const struct fpisa_address *from,
				       const struct fpisa_address *to, __u8 class, __be16 len, __u32 label)
{
	*(__be32 *)ip = bpf_htonl(6u << 28 | (__u32) class << 20 | label);
	ip->payload_len = len;
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = 64;
	__builtin_memcpy(&ip->saddr, from, sizeof(*from));
	__builtin_memcpy(&ip->daddr, to, sizeof(*to));
}

#endif
