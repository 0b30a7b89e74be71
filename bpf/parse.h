/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 1 of 7, from the wire to check.h: check whether a frame is an FPISA frame, find its job, and check that it is
 * whole. The checks run in this order, so that frames for other hosts pass even if they are damaged. The checks run in
 * the first program that gets the frame, which is the entry, or the program that steers frames to CPUs.
 */
#ifndef FPISA_BPF_PARSE_H
#define FPISA_BPF_PARSE_H

#include "checksum.h"
#include "ipv6.h"
#include "vlan.h"

/* Return the aggregator's first port, host order. */
static __always_inline __u16 first_port(const struct fpisa_control *control)
{
	return control->port ?: FPISA_PORT;
}

/*
 * Return the index of the frame's destination port, from the first port. For a port below the first the index wraps
 * around, so it is larger than any valid index.
 */
static __always_inline __u16 port_index(const struct fpisa_control *control, const struct udphdr *udp)
{
	return bpf_ntohs(udp->dest) - first_port(control);
}

/*
 * Return whether the IPv4 frame is an FPISA frame for a port of the aggregator, with the right magic. Refuse IP options,
 * and fragments after the first. If the frame has a VLAN tag, find_headers_after() has skipped it.
 */
static __always_inline int is_ours(struct xdp_md *ctx, const struct headers *h, const struct fpisa_control *control)
{
	void *end = (void *)(long)ctx->data_end;

	if ((void *)(h->udp + 1) > end)
		return 0;
	if (h->eth->h_proto != bpf_htons(ETH_P_IP) || *(__u8 *)h->ip != 0x45 || h->ip->protocol != IPPROTO_UDP)
		return 0;
	if ((h->ip->frag_off & bpf_htons(0x1fff)) || port_index(control, h->udp) > control->more_ports)
		return 0;
	return (void *)(&h->fpisa->magic + 1) <= end && h->fpisa->magic == FPISA_MAGIC;
}

/* Return whether a job has the address that consists of these two halves. */
GLOBAL_FN int is_address(__u64 high, __u64 low)
{
	const struct fpisa_address to = {.d = {high, low}};

#pragma clang loop unroll(disable)
	for (__u32 id = 0; id < FPISA_MAX_JOBS; id++) {
		struct fpisa_job *job = lookup(&fpisa_jobs, id);

		if (job && job->active && fpisa_is_own_address(job, &to))
			return 1;
	}
	return 0;
}

/*
 * Find the job of an FPISA frame with destination `to`. Return FPISA_V_ok, or FPISA_V_wrong_destination if the frame is for
 * another address. Set p->id and p->job, to FPISA_MAX_JOBS and NULL if the job in the frame does not exist.
 */
static __always_inline enum fpisa_verdict find_job(struct packet *p, struct fpisa_address to)
{
	struct fpisa_job *job = p->whole ? lookup(&fpisa_jobs, p->h.fpisa->job) : NULL;

	p->id = FPISA_MAX_JOBS;
	p->job = NULL;
	if (!job || !job->active)
		return is_address(to.d[0], to.d[1]) ? FPISA_V_ok : FPISA_V_wrong_destination;
	p->id = p->h.fpisa->job;
	p->job = job;
	return fpisa_is_own_address(job, &to) ? FPISA_V_ok : FPISA_V_wrong_destination;
}

/* Find the job of an IPv4 frame with `tag` bytes of VLAN tags. Return FPISA_V_ok, or the verdict with which to pass it. */
static __always_inline enum fpisa_verdict find_ipv4(struct xdp_md *ctx, const struct fpisa_control *control,
						    struct packet *p, __u32 tag)
{
	p->whole = find_headers_after(ctx, &p->h, tag);
	return is_ours(ctx, &p->h, control) ? find_job(p, fpisa_ipv4(p->h.ip->daddr)) : FPISA_V_not_ours;
}

/*
 * Find the job of an IPv6 frame in the same way. Leave frames with extension headers to the kernel, because such a frame may
 * be a fragment, or the header may need handling.
 */
static __always_inline enum fpisa_verdict find_ipv6(struct xdp_md *ctx, const struct fpisa_control *control,
						    struct packet *p, struct headers6 *h, __u32 tag)
{
	void *end = (void *)(long)ctx->data_end;
	struct fpisa_address to;

	p->whole = find_headers6(ctx, h, tag);
	if ((void *)(h->udp + 1) > end || *(__u8 *)h->ip >> 4 != 6)
		return FPISA_V_not_ours;
	to = address_of(&h->ip->daddr);
	if (is_extension(h->ip->nexthdr))
		return is_address(to.d[0], to.d[1]) ? FPISA_V_extension : FPISA_V_not_ours;
	if (h->ip->nexthdr != IPPROTO_UDP || port_index(control, h->udp) > control->more_ports)
		return FPISA_V_not_ours;
	if ((void *)(&h->fpisa->magic + 1) > end || h->fpisa->magic != FPISA_MAGIC)
		return FPISA_V_not_ours;
	p->h.fpisa = h->fpisa;
	return find_job(p, to);
}

/* Find p->h.fpisa and the job of a frame of either family. Return FPISA_V_ok, or the verdict with which to pass it. */
static __always_inline enum fpisa_verdict find_frame(struct xdp_md *ctx, const struct fpisa_control *control,
						     struct packet *p, __u32 tag)
{
	struct headers6 h;

	return is_ipv6(ctx, tag) ? find_ipv6(ctx, control, p, &h, tag) : find_ipv4(ctx, control, p, tag);
}

/*
 * Find the headers and the job of a frame with a VLAN tag. Return FPISA_V_ok if the frame belongs to a job with that
 * VLAN ID, or the verdict with which to pass the frame.
 */
static __always_inline enum fpisa_verdict find_tagged(struct xdp_md *ctx, const struct fpisa_control *control,
						      struct packet *p)
{
	struct tagged *t = (void *)(long)ctx->data;
	enum fpisa_verdict v;
	__u32 id;

	p->id = FPISA_MAX_JOBS;
	if ((void *)(t + 1) > (void *)(long)ctx->data_end)
		return FPISA_V_not_ours;
	if (t->type == bpf_htons(ETH_P_8021AD) || is_tag(t->inner_type))
		return FPISA_V_qinq;
	id = bpf_ntohs(t->tci) & VLAN_ID;
	v = find_frame(ctx, control, p, FPISA_VLAN_LEN);
	if (v != FPISA_V_ok)
		return v;
	return p->job && p->job->vlan == id ? FPISA_V_ok : FPISA_V_vlan;
}

/* Return whether frames of the job may come without a VLAN tag. */
static __always_inline int may_be_bare(const struct fpisa_job *job)
{
	return !job || !job->vlan || job->stripped;
}

/*
 * Find the headers and the job of a frame without a VLAN tag. Return FPISA_V_ok, or the verdict with which to pass the
 * frame.
 */
static __always_inline enum fpisa_verdict find_bare(struct xdp_md *ctx, const struct fpisa_control *control,
						    struct packet *p)
{
	enum fpisa_verdict v;

	p->id = FPISA_MAX_JOBS;
	v = find_frame(ctx, control, p, 0);
	if (v != FPISA_V_ok)
		return v;
	return may_be_bare(p->job) ? FPISA_V_ok : FPISA_V_vlan;
}

/* Check that an FPISA frame is whole. An IPv6 frame has already been narrowed. Set p->payload and p->port. */
static __always_inline enum fpisa_verdict parse(struct xdp_md *ctx, const struct fpisa_control *control,
						struct packet *p)
{
	const struct headers *h = &p->h;
	__u32 ip_len = bpf_ntohs(h->ip->tot_len), udp_len = bpf_ntohs(h->udp->len);

	if (h->ip->frag_off & bpf_htons(0x2000))
		return FPISA_V_fragment;
	if (!p->ipv6 && ip_checksum(h->ip))
		return FPISA_V_ip_checksum;
	if (!p->whole || ip_len != FPISA_IP_LEN + udp_len || udp_len < FPISA_UDP_LEN + FPISA_HDR_LEN ||
	    FPISA_ETH_LEN + ip_len > ctx->data_end - ctx->data)
		return FPISA_V_truncated;
	p->payload = udp_len - FPISA_UDP_LEN - FPISA_HDR_LEN;
	p->port = port_index(control, h->udp);
	return FPISA_V_ok;
}

#endif
