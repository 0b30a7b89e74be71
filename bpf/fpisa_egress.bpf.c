/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Copies for the ranks: this program runs on each copy of a result as it leaves through the job's device map, and addresses
 * the copy. The program is in a separate object, because bpftool cannot load a device-map program together with the
 * programs of fpisa.o.
 *
 * All copies for one port are equal, so the program cannot read the rank from a copy. But the copies of one result
 * follow each other on one CPU. So the first copy goes to the first rank behind the port, and the next copy to the next
 * rank.
 *
 * All frames that leave through the aggregator's ports pass this program. The kernel runs the program of the first
 * queued frame on all frames that it queues for a device (bq_enqueue()). If the first frame had no program, the copies
 * behind it would not be addressed. Frames that are not copies pass unchanged, even if another host sent them, because
 * only a copy has destination 0.0.0.0 or ::.
 *
 * A rank that was removed from the job gets no copy. All other ranks have sent HELLO, because the round is complete. The
 * copy for a rank that does not keep the result loses its payload.
 */
#include "checksum.h"
#include "counters.h"
#include "ipv6.h"
#include "vlan.h"

/* The headers of a frame of either family; `ip` or `ip6` is NULL. */
struct outer {
	struct iphdr *ip;
	struct ipv6hdr *ip6;
	struct udphdr *udp;
	struct fpisa_hdr *fpisa;
};

/* Find the headers after `tag` bytes of VLAN tags. Return nonzero if the frame contains them all. */
static __always_inline int find_after(struct xdp_md *ctx, struct outer *o, __u32 tag)
{
	struct headers6 wide;
	struct headers h;

	if (is_ipv6(ctx, tag)) {
		if (!find_headers6(ctx, &wide, tag))
			return 0;
		*o = (struct outer){NULL, wide.ip, wide.udp, wide.fpisa};
		return 1;
	}
	if (!find_headers_after(ctx, &h, tag))
		return 0;
	*o = (struct outer){h.eth->h_proto == bpf_htons(ETH_P_IP) ? h.ip : NULL, NULL, h.udp, h.fpisa};
	return 1;
}

/* Find the headers of a frame with or without a VLAN tag. */
static __always_inline int find_outer(struct xdp_md *ctx, struct outer *o)
{
	return has_tag(ctx) ? find_after(ctx, o, FPISA_VLAN_LEN) : find_after(ctx, o, 0);
}

/* Return the first live rank of job `id` behind `port` from `rank` on, or FPISA_MAX_WORKERS if there is none. */
GLOBAL_FN int rank_behind(__u32 id, __u32 port, __u32 rank)
{
	struct fpisa_job *job = bpf_map_lookup_elem(&fpisa_jobs, &id);

	for (; job && rank < FPISA_MAX_WORKERS; rank++) {
		__u32 key = id * FPISA_MAX_WORKERS + rank;
		struct fpisa_peer *peer = bpf_map_lookup_elem(&fpisa_peers, &key);

		if (peer && peer->ifindex == port && (job->live >> rank & 1))
			return (int)rank;
	}
	return FPISA_MAX_WORKERS;
}

/*
 * Return the rank that gets the next copy of this result at `port`, or FPISA_MAX_WORKERS if no live rank is behind the
 * port. After the last rank begin with the first again, because a leaf fans a result out each time that its parent
 * sends it.
 */
GLOBAL_FN int next_rank(struct xdp_md *ctx, __u32 port)
{
	__u32 index = port % FPISA_CURSORS, id, rank, from = 0;
	struct fpisa_cursor *cursor;
	struct outer h;

	cursor = bpf_map_lookup_elem(&fpisa_cursors, &index);
	if (!cursor || !find_outer(ctx, &h))
		return FPISA_MAX_WORKERS;
	id = h.fpisa->job;
	if (cursor->port == port && cursor->job == id && cursor->generation == h.fpisa->generation &&
	    cursor->chunk == h.fpisa->chunk)
		from = cursor->next;
	rank = (__u32)rank_behind(id, port, from);
	if (rank >= FPISA_MAX_WORKERS && from)
		rank = (__u32)rank_behind(id, port, 0);
	cursor->port = port;
	cursor->job = id;
	cursor->generation = h.fpisa->generation;
	cursor->chunk = h.fpisa->chunk;
	cursor->next = rank + 1;
	return rank;
}

/* Return whether the frame is a copy without a destination. */
static __always_inline int is_copy(const struct outer *h)
{
	if (h->ip6) {
		struct fpisa_address to = address_of(&h->ip6->daddr);

		if (h->ip6->nexthdr != IPPROTO_UDP || fpisa_is_address(&to))
			return 0;
	} else if (!h->ip || *(__u8 *)h->ip != 0x45 || h->ip->protocol != IPPROTO_UDP || h->ip->daddr) {
		return 0;
	}
	return h->fpisa->magic == FPISA_MAGIC && h->fpisa->type == FPISA_TYPE_RESULT;
}

/* Count a copy for which no rank is left, and drop it. */
static __always_inline int unaddressed(__u32 id)
{
	struct fpisa_counters *c = counters_of(id);

	if (c)
		c->unaddressed++;
	return XDP_DROP;
}

/* 0 modulo 65535, and greater than an address's sum */
#define ZERO (0xffffull << 20)

/*
 * Replace the IPv6 header after `tag` bytes of VLAN tags by an IPv4 header without addresses. In a job with ranks of both
 * families, all copies are made with an IPv6 header. Return 0, or nonzero on an error. Packet pointers become invalid.
 */
static __always_inline int narrow_after(struct xdp_md *ctx, __u32 tag)
{
	__u8 front[2 * ETH_ALEN + FPISA_VLAN_LEN];
	struct headers6 wide;
	struct headers h;
	__u8 class;
	__u16 len;

	if (!find_headers6(ctx, &wide, tag))
		return 1;
	class = class_of(wide.ip);
	len = bpf_ntohs(wide.ip->payload_len) + FPISA_IP_LEN;
	__builtin_memcpy(front, (void *)(long)ctx->data, 2 * ETH_ALEN + tag);
	if (bpf_xdp_adjust_head(ctx, NARROWED) || !find_headers_after(ctx, &h, tag))
		return 1;
	__builtin_memcpy((void *)(long)ctx->data, front, 2 * ETH_ALEN + tag);
	h.eth->h_proto = bpf_htons(ETH_P_IP);
	*h.ip = (struct iphdr){.version = 4,
			       .ihl = 5,
			       .tos = class,
			       .tot_len = bpf_htons(len),
			       .frag_off = bpf_htons(0x4000),
			       .ttl = 64,
			       .protocol = IPPROTO_UDP};
	return 0;
}

/* Narrow a copy for an IPv4 rank of a job with ranks of both families. Return 0, or nonzero on an error. */
GLOBAL_FN int narrow_copy(struct xdp_md *ctx)
{
	return has_tag(ctx) ? narrow_after(ctx, FPISA_VLAN_LEN) : narrow_after(ctx, 0);
}

/* Write the checksum or the tag of a result without payload. Return checksums_of() for it. */
static __always_inline __s64 seal_bare(struct fpisa_hdr *h, const struct fpisa_job *job,
				       const struct fpisa_session *session, const struct fpisa_nh_key *nh)
{
	struct fpisa_sum sum = {};

	if (job->keyed) {
		struct fpisa_nh s = fpisa_nh_header(h, nh->w);

		h->secret = fpisa_tag(&session->results_key, h->chunk, &s, nh->w + FPISA_NH_PAYLOAD);
	}
	sum_header(h, &sum);
	return job->keyed ? without_checksum(checksums_of(&sum)) : checksums_of(&sum);
}

/*
 * Turn the copy into a result without payload, of the same addresses. Return 0, or nonzero on an error. Packet pointers
 * become invalid.
 */
GLOBAL_FN int cut_copy(struct xdp_md *ctx, __u32 id)
{
	const __be16 len = bpf_htons(FPISA_UDP_LEN + FPISA_HDR_LEN);
	struct fpisa_session *session = bpf_map_lookup_elem(&fpisa_sessions, &id);
	struct fpisa_nh_key *nh = bpf_map_lookup_elem(&fpisa_nh_keys, &id);
	struct fpisa_job *job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	struct outer h;
	__s64 sums;
	long extra;

	if (!session || !nh || !job || !find_outer(ctx, &h))
		return 1;
	fpisa_make_bare_result(h.fpisa);
	sums = seal_bare(h.fpisa, job, session, nh);
	h.fpisa->checksum = (__u32)sums;
	h.udp->len = len;
	h.udp->check = fold_udp_checksum(((__u64)sums >> 32) + (__u32)sums + fpisa_address_sum(&job->address) +
					 h.udp->source + h.udp->dest + 2 * (__u32)len + bpf_htons(IPPROTO_UDP));
	if (h.ip6)
		h.ip6->payload_len = len;
	else if (h.ip)
		h.ip->tot_len = bpf_htons(FPISA_IP_LEN + FPISA_UDP_LEN + FPISA_HDR_LEN);
	extra = (long)ctx->data_end - (long)(h.fpisa + 1);
	fpisa_opaque(extra); /* as in bare_to_sender() */
	return extra > 0 && bpf_xdp_adjust_tail(ctx, -(int)extra);
}

/*
 * Address the copy, whose destination is 0. Update the UDP checksum, which is still that of the original, by equation 3 of
 * RFC 1624. The original has the source `job->address`.
 */
static __always_inline void address_copy(struct outer *h, const struct fpisa_job *job, const struct fpisa_rank *to)
{
	const struct fpisa_address own = fpisa_own_address(job, &to->addr);

	/* Do not add a checksum to a frame without one, which comes from a datapath whose upgrade is in progress. */
	if (h->udp->check)
		h->udp->check = fold_udp_checksum((__u16)~h->udp->check + (__u16)~h->udp->dest + to->port +
						  fpisa_address_sum(&to->addr) + fpisa_address_sum(&own) + ZERO -
						  fpisa_address_sum(&job->address));
	h->udp->dest = to->port;
	if (h->ip6) {
		write_ipv6(h->ip6, &job->address, &to->addr, class_of(h->ip6), h->udp->len,
			   fpisa_flow_label(&job->address, &to->addr, to->port));
		return;
	}
	if (!h->ip)
		return;
	h->ip->saddr = own.w[3];
	h->ip->daddr = to->addr.w[3];
	h->ip->check = 0;
	h->ip->check = ip_checksum(h->ip);
}

SEC("xdp/devmap")
int fpisa_egress(struct xdp_md *ctx)
{
	struct fpisa_peer *peer;
	struct fpisa_job *job;
	struct ethhdr *eth;
	struct outer h;
	__u32 id, key, rank;
	__u16 keepers;

	if (!find_outer(ctx, &h) || !is_copy(&h))
		return XDP_PASS;
	id = h.fpisa->job;
	keepers = h.fpisa->rank;
	job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	if (!job || (job->fanout != FPISA_FANOUT_UNICAST && !fpisa_names_keepers(keepers)))
		return unaddressed(id);
	rank = next_rank(ctx, ctx->egress_ifindex);
	fpisa_opaque(rank);
	if (rank >= FPISA_MAX_WORKERS || (!fpisa_keeps(keepers, rank) && cut_copy(ctx, id)))
		return unaddressed(id);
	key = id * FPISA_MAX_WORKERS + rank;
	peer = bpf_map_lookup_elem(&fpisa_peers, &key);
	if (!peer || (job->ipv4 && fpisa_is_ipv4(&job->rank[rank].addr) && narrow_copy(ctx)) || !find_outer(ctx, &h))
		return unaddressed(id);
	eth = (void *)(long)ctx->data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return unaddressed(id);
	if (!is_loopback(peer))
		__builtin_memcpy(eth->h_dest, peer->mac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, peer->local_mac, ETH_ALEN);
	address_copy(&h, job, &job->rank[rank]);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
