/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 7 of 7, from finish.h to the wire. Send the result to all ranks, in the frame of the contribution that completed
 * the round. Send a kept result to the rank that requested it. The egress program of a port addresses unicast copies
 * (fpisa_egress.bpf.c).
 */
#ifndef FPISA_BPF_FANOUT_H
#define FPISA_BPF_FANOUT_H

#include "reply.h"
#include "units.h"

static __always_inline void count_flags(struct fpisa_counters *c, __u32 flags)
{
	c->results_inexact += !!(flags & FPISA_INEXACT);
	c->results_overflow += !!(flags & FPISA_OVERFLOW);
	c->results_overwrite += !!(flags & FPISA_OVERWRITE);
	c->results_nan += !!(flags & FPISA_NAN);
	c->results_inf += !!(flags & FPISA_INF);
}

/* Return whether job `id` has a port besides its first. */
GLOBAL_FN int has_further_port(__u32 id)
{
	void *ports = lookup(&fpisa_fanout, id);

	if (!ports)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 1; i < FPISA_MAX_WORKERS; i++)
		if (lookup(ports, i))
			return 1;
	return 0;
}

/* Write the Ethernet address of the job's multicast address. */
static __always_inline void address_group(struct ethhdr *eth, const struct fpisa_address *group)
{
	__u8 *to = eth->h_dest;

	if (fpisa_is_ipv6(group)) {
		/* The MAC address contains the last four bytes of the multicast address (RFC 2464). */
		to[0] = to[1] = 0x33;
		__builtin_memcpy(to + 2, &group->w[3], sizeof(group->w[3]));
		return;
	}
	/* The MAC address contains the low 23 bits of the multicast address (RFC 1112). */
	to[0] = 0x01;
	to[1] = 0x00;
	to[2] = 0x5e;
	to[3] = group->b[13] & 0x7f;
	to[4] = group->b[14];
	to[5] = group->b[15];
}

/*
 * Send the result to every port of the job through the job's device map, and count `v`. A unicast job has no multicast
 * address. So its copies have destination 0.0.0.0 or ::, and the egress program recognises them by this address. A
 * multicast job sends such copies too if only some ranks keep the result.
 */
static __always_inline int fan_out(struct xdp_md *ctx, struct packet *p, __u32 payload, __s64 sums, __u32 v)
{
	const int copies = p->job->copies && fpisa_names_keepers(p->h.fpisa->rank);
	const __u64 flags = !copies && p->job->copies == FPISA_COPIES_ONE_PORT ? 0 : BPF_F_BROADCAST;
	void *ports = lookup(&fpisa_fanout, p->id);
	struct fpisa_address to = {};
	struct ethhdr *eth = p->h.eth;

	/* The kernel removes a deleted device from the map, and reports success for a broadcast to an empty map. */
	if (!ports || (!lookup(ports, 0) && !has_further_port(p->id)))
		return count_verdict(p->id, FPISA_V_fanout, XDP_DROP);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	address_group(eth, &p->job->group);
	if (!copies)
		to = p->job->group;
	address_reply(&p->h, p->job, &to, p->job->group_port, payload, sums);
	if (put_on(ctx, p->id, p->job, copies ? TO_RANKS : TO_GROUP) ||
	    bpf_redirect_map(ports, 0, flags) != XDP_REDIRECT)
		return count_verdict(p->id, FPISA_V_fanout, XDP_DROP);
	return count_verdict(p->id, v, XDP_REDIRECT);
}

/* Send a result with a complete header and a complete payload in host order. `flags` are the result's flags. */
static __always_inline int send_result(struct xdp_md *ctx, struct fpisa_phv *phv, struct packet *p, __u32 flags)
{
	__u32 payload = payload_bytes(phv);
	__s64 sums;

	if (phv->resend && !fpisa_keeps(p->h.fpisa->rank, phv->rank)) {
		fpisa_make_bare_result(p->h.fpisa);
		return bare_to_sender(ctx, p->id, FPISA_V_resent);
	}
	if (SWAPPED(phv))
		run_swap(ctx, phv);
	sums = seal_frame(ctx, p->h.fpisa, p->job, &p->session->results_key, p->id, payload);
	if (phv->resend)
		return count_verdict(p->id, FPISA_V_resent, to_sender(ctx, &p->h, p->id, payload, sums));
	count_flags(p->counters, flags);
	return fan_out(ctx, p, payload, sums, FPISA_V_result);
}

#endif
