/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Path MTUs. If a result is larger than the MTU of a link on its path, the router before this link drops the result and
 * answers with an ICMP message that quotes it (RFC 792 and 1191, RFC 4443). This machine has no socket for the results,
 * so the kernel ignores the message. The datapath counts it, stores the MTU with the rank, and passes the message to the
 * kernel. Nothing else depends on the stored MTU, because any host can forge such a message.
 */
#ifndef FPISA_BPF_PATH_MTU_H
#define FPISA_BPF_PATH_MTU_H

#include "counters.h"
#include "parse.h"

/* The message "fragmentation needed" from its IP header on, up to the quoted UDP header */
struct too_big {
	struct iphdr ip;
	__u8 type, code;
	__be16 checksum, unused, mtu;
	struct iphdr quoted;
	struct udphdr udp;
};

/* The message "packet too big" of IPv6 */
struct too_big6 {
	struct ipv6hdr ip;
	__u8 type, code;
	__be16 checksum;
	__be32 mtu;
	struct ipv6hdr quoted;
	struct udphdr udp;
};

#define UNREACHABLE 3
#define FRAGMENTATION_NEEDED 4
#define PACKET_TOO_BIG 2

/* A frame that a router has dropped, and the MTU that the router reports */
struct dropped {
	struct fpisa_address from, to;
	const struct fpisa_hdr *fpisa;
	__be16 port; /* destination */
	__u32 mtu;
};

/* Read the message at `ip`. Return 0 if the packet is not such a message. */
static __always_inline int read_too_big(const struct too_big *m, const void *end, struct dropped *d)
{
	if ((const void *)(m + 1) > end || *(const __u8 *)&m->ip != 0x45 || m->ip.protocol != IPPROTO_ICMP ||
	    m->type != UNREACHABLE || m->code != FRAGMENTATION_NEEDED || *(const __u8 *)&m->quoted != 0x45 ||
	    m->quoted.protocol != IPPROTO_UDP)
		return 0;
	d->from = fpisa_ipv4(m->quoted.saddr);
	d->to = fpisa_ipv4(m->quoted.daddr);
	d->fpisa = (const void *)(m + 1);
	d->port = m->udp.dest;
	d->mtu = bpf_ntohs(m->mtu);
	return 1;
}

static __always_inline int read_too_big6(const struct too_big6 *m, const void *end, struct dropped *d)
{
	if ((const void *)(m + 1) > end || m->ip.version != 6 || m->ip.nexthdr != IPPROTO_ICMPV6 ||
	    m->type != PACKET_TOO_BIG || m->quoted.nexthdr != IPPROTO_UDP)
		return 0;
	d->from = address_of(&m->quoted.saddr);
	d->to = address_of(&m->quoted.daddr);
	d->fpisa = (const void *)(m + 1);
	d->port = m->udp.dest;
	d->mtu = bpf_ntohl(m->mtu);
	return 1;
}

/*
 * Store the MTU with the rank to which the dropped frame went, unless a smaller MTU is stored. Return nonzero if there is
 * no such rank.
 */
static __always_inline int store_path_mtu(__u32 id, const struct fpisa_job *job, const struct dropped *d)
{
	int unknown = 1;

#pragma clang loop unroll(disable)
	for (__u32 r = 0; r < FPISA_MAX_WORKERS; r++) {
		struct fpisa_peer *peer = lookup(&fpisa_peers, id * FPISA_MAX_WORKERS + r);

		if (!peer || r >= job->workers || job->rank[r].port != d->port ||
		    !fpisa_same_address(&job->rank[r].addr, &d->to))
			continue;
		unknown = 0;
		if (!peer->path_mtu || d->mtu < peer->path_mtu)
			peer->path_mtu = d->mtu;
	}
	return unknown;
}

/*
 * Count a frame that is not of the protocol, and pass it to the kernel. If it is an ICMP message that a frame to a rank
 * was too big, store the MTU.
 */
GLOBAL_FN int pass_foreign(struct xdp_md *ctx)
{
	void *ip = (void *)(long)ctx->data + FPISA_ETH_LEN, *end = (void *)(long)ctx->data_end;
	struct fpisa_job *job;
	struct dropped d;
	__u32 id;

	if (has_tag(ctx))
		ip += FPISA_VLAN_LEN;
	if (!read_too_big(ip, end, &d) && !read_too_big6(ip, end, &d))
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_not_ours, XDP_PASS);
	if ((const void *)(&d.fpisa->job + 1) > end || d.fpisa->magic != FPISA_MAGIC)
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_not_ours, XDP_PASS);
	id = d.fpisa->job;
	job = lookup(&fpisa_jobs, id);
	if (!job || !job->active || !fpisa_is_own_address(job, &d.from) || store_path_mtu(id, job, &d))
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_not_ours, XDP_PASS);
	return count_verdict(id, FPISA_V_path_mtu, XDP_PASS);
}

/* Count the verdict `v`, with which a frame passes to the kernel. */
static __always_inline int pass(struct xdp_md *ctx, __u32 id, enum fpisa_verdict v)
{
	return v == FPISA_V_not_ours ? pass_foreign(ctx) : count_verdict(id, v, XDP_PASS);
}

#endif
