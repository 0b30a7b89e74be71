/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Replies to the sender of a frame, such as STATUS and ERROR. The frame is rewritten into the reply. All frames except
 * those of the fan-out leave through this file. A reply leaves by redirect, because a veth peer that only has GRO
 * enabled does not receive XDP_TX.
 */
#ifndef FPISA_BPF_REPLY_H
#define FPISA_BPF_REPLY_H

#include "checksum.h"
#include "counters.h"
#include "ipv6.h"
#include "phv.h"
#include "vlan.h"

/* Write the fields of an IPv4 header that a received frame lacks or that differ in a reply. The field tos is complete. */
static __always_inline void address_ipv4(struct iphdr *ip, __be32 from, __be32 to, __u32 payload)
{
	ip->saddr = from;
	ip->daddr = to;
	ip->tot_len = bpf_htons((__u16)(FPISA_IP_LEN + FPISA_UDP_LEN + FPISA_HDR_LEN + payload));
	ip->frag_off = bpf_htons(0x4000);
	ip->ttl = 64;
	ip->check = 0;
	ip->check = ip_checksum(ip);
}

/*
 * Write the outer headers and all checksums of a frame of the job whose FPISA header and payload are complete. `sums`
 * is the result of frame_sum(). Permit ECN marks on the reply if the received frame permitted them. In a job without IPv4
 * addresses widen() later inserts the IPv6 header in place of the IPv4 header, of which it reads only tos.
 */
static __always_inline void address_reply(struct headers *h, const struct fpisa_job *job,
					  const struct fpisa_address *to, __be16 to_port, __u32 payload, __s64 sums)
{
	const struct fpisa_address own = fpisa_own_address(job, to);

	h->udp->source = h->udp->dest;
	h->udp->dest = to_port;
	h->udp->len = bpf_htons((__u16)(FPISA_UDP_LEN + FPISA_HDR_LEN + payload));
	h->ip->tos = h->ip->tos & FPISA_ECN_MASK ? FPISA_ECT0 : 0;
	if (job->ipv4 || fpisa_is_ipv4(&job->address))
		address_ipv4(h->ip, own.w[3], to->w[3], payload);
	set_checksums(h, fpisa_address_sum(&own) + fpisa_address_sum(to), sums);
}

/* Write the Ethernet addresses of a frame to the station `mac`, from the port `local_mac`. */
static __always_inline void address_ethernet(struct ethhdr *eth, const __u8 *mac, const __u8 *local_mac)
{
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, local_mac, ETH_ALEN);
}

/* Insert a VLAN tag with VLAN ID `id`. Return 0, or nonzero on an error. Packet pointers become invalid. */
GLOBAL_FN int push_tag(struct xdp_md *ctx, __u32 id)
{
	struct tagged *t = (void *)(long)ctx->data;
	struct stations s;

	if ((void *)(t + 1) > (void *)(long)ctx->data_end)
		return 1;
	s = stations_of(t);
	if (bpf_xdp_adjust_head(ctx, -FPISA_VLAN_LEN))
		return 1;
	t = (void *)(long)ctx->data;
	if ((void *)(t + 1) > (void *)(long)ctx->data_end)
		return 1;
	write_stations(t, &s);
	t->type = bpf_htons(ETH_P_8021Q);
	t->tci = bpf_htons((__u16)id);
	return 0;
}

/* Destinations of widen(), after the numbers of ranks */
enum {
	TO_SENDER = FPISA_MAX_WORKERS, /* to the sender of the frame */
	TO_GROUP,		       /* to the job's multicast address, or to :: in a unicast job */
	TO_RANKS,		       /* to ::, in copies for the ranks */
	TO_PARENT,		       /* to a leaf's parent */
	TO_KERNEL,		       /* from the sender to the job's address, for the kernel */
};

/* Return the address of a destination in `job`. */
static __always_inline const struct fpisa_address *destination(const struct fpisa_job *job, const struct fpisa_phv *phv,
							       __u32 to)
{
	if (to < FPISA_MAX_WORKERS)
		return &job->rank[to].addr;
	return to == TO_GROUP ? &job->group : to == TO_PARENT ? &job->parent.addr : &phv->from;
}

/*
 * Insert an IPv6 header into a narrowed frame that is otherwise complete, unless its destination has an IPv4 address.
 * Return 0, or nonzero on an error. This call invalidates packet pointers.
 */
GLOBAL_FN int widen(struct xdp_md *ctx, __u32 id, __u32 to)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_address there = {};
	struct stations s;
	__u8 class;
	__be16 len, port;
	struct headers h;
	struct headers6 wide;
	struct ethhdr *eth;

	fpisa_opaque(to);
	if (!job || !phv || !find_headers(ctx, &h))
		return 1;
	if (to != TO_RANKS)
		there = *destination(job, phv, to);
	if (job->ipv4 && fpisa_is_ipv4(&there))
		return 0;
	class = h.ip->tos;
	len = h.udp->len;
	port = h.udp->dest;
	s = stations_of(h.eth);
	if (bpf_xdp_adjust_head(ctx, -NARROWED) || !find_headers6(ctx, &wide, 0))
		return 1;
	eth = (void *)wide.ip - FPISA_ETH_LEN;
	write_stations(eth, &s);
	eth->h_proto = bpf_htons(ETH_P_IPV6);
	if (to == TO_KERNEL)
		write_ipv6(wide.ip, &there, &job->address, class, len, 0);
	else
		write_ipv6(wide.ip, &job->address, &there, class, len, fpisa_flow_label(&job->address, &there, port));
	return 0;
}

/* Insert the IPv6 header and the VLAN tag that the job's frames have. Return 0, or nonzero on an error. */
static __always_inline int put_on(struct xdp_md *ctx, __u32 id, const struct fpisa_job *job, __u32 to)
{
	if (!fpisa_is_ipv4(&job->address) && widen(ctx, id, to))
		return 1;
	return job->vlan && push_tag(ctx, job->vlan);
}

/*
 * Send the frame through `port`, by the port's entry of fpisa_replies, which has the egress program. A job that the CLI
 * did not create has no entry, so its replies leave without the program. Unicast copies of other jobs that are queued
 * behind such a reply may then leave without the program too. `to` is the destination, as for widen(). Packet pointers
 * become invalid.
 */
static __always_inline int through(struct xdp_md *ctx, __u32 job, __u32 port, __u32 to)
{
	struct fpisa_job *j = lookup(&fpisa_jobs, job);
	void *ports = lookup(&fpisa_replies, job);

	if (j && put_on(ctx, job, j, to))
		return XDP_DROP;
	if (ports && bpf_redirect_map(ports, port, 0) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return (int)bpf_redirect(port, 0);
}

/* Send the frame back to its sender. FPISA header and payload must be complete. */
static __always_inline int to_sender(struct xdp_md *ctx, struct headers *h, __u32 job, __u32 payload, __s64 sums)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct fpisa_job *j = lookup(&fpisa_jobs, job);
	__u8 mac[ETH_ALEN];

	if (!phv || !j)
		return XDP_DROP;
	__builtin_memcpy(mac, h->eth->h_dest, ETH_ALEN);
	__builtin_memcpy(h->eth->h_dest, h->eth->h_source, ETH_ALEN);
	__builtin_memcpy(h->eth->h_source, mac, ETH_ALEN);
	address_reply(h, j, &phv->from, h->udp->source, payload, sums);
	return through(ctx, job, ctx->ingress_ifindex, TO_SENDER);
}

/*
 * Write the tag of a frame without payload. Do not use frame_tag(), so that programs that send no payload do not contain
 * that function.
 */
GLOBAL_FN int tag_bare(struct xdp_md *ctx, __u32 id)
{
	struct fpisa_nh_key *nh = lookup(&fpisa_nh_keys, id);
	struct fpisa_session *session = lookup(&fpisa_sessions, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_nh s;
	struct fpisa_key key;
	struct headers h;

	if (!nh || !job || !session || !find_headers(ctx, &h))
		return 0;
	key = fpisa_reply_key(job, session, h.fpisa);
	h.fpisa->checksum = 0;
	s = fpisa_nh_header(h.fpisa, nh->w);
	h.fpisa->secret = fpisa_tag(&key, h.fpisa->chunk, &s, nh->w + FPISA_NH_PAYLOAD);
	return 0;
}

/* Cut off the payload and send the header as a reply, which is a STATUS, an ERROR or a RESULT. */
GLOBAL_FN int bare_to_sender(struct xdp_md *ctx, __u32 job, __u32 v)
{
	struct fpisa_job *j = lookup(&fpisa_jobs, job);
	struct headers h;
	struct fpisa_sum sum = {};
	int action, keyed;
	long extra;

	if (!j)
		return count_verdict(job, FPISA_V_internal, XDP_DROP);
	keyed = j->keyed;
	if (keyed)
		tag_bare(ctx, job);
	if (!find_headers(ctx, &h))
		return count_verdict(job, FPISA_V_internal, XDP_DROP);
	sum_header(h.fpisa, &sum);
	/* The VLAN tag is inserted later. Hide the length from clang, which would otherwise spill half of a pointer. */
	extra = (long)ctx->data_end - (long)ctx->data;
	fpisa_opaque(extra);
	extra -= FPISA_PAYLOAD_OFFSET;
	action = to_sender(ctx, &h, job, 0, keyed ? without_checksum(checksums_of(&sum)) : checksums_of(&sum));
	if (extra > 0)
		bpf_xdp_adjust_tail(ctx, -(int)extra);
	return count_verdict(job, v, action);
}

/* Drop a member's frame. Send the member an ERROR if this verdict is reported to members. */
GLOBAL_FN int refuse(struct xdp_md *ctx, __u32 job, __u32 v)
{
	struct headers h;

	if (!find_headers(ctx, &h) || !fpisa_reported(v))
		return count_verdict(job, v, XDP_DROP);
	fpisa_make_error(h.fpisa, v);
	return bare_to_sender(ctx, job, v);
}

#endif
