/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * VLAN tags. If a tagged frame belongs to a job with its VLAN ID, the first program removes the tag, so that all later
 * steps find the headers in their usual places. Replies and results get the tag as the last step, with priority 0.
 * Frames of other VLANs and frames with two tags pass to the stack unchanged.
 */
#ifndef FPISA_BPF_VLAN_H
#define FPISA_BPF_VLAN_H

#include "packet.h"

#define VLAN_ID 0x0fff

/* The Ethernet addresses and the VLAN tag. */
struct tagged {
	__u8 addresses[2 * ETH_ALEN];
	__be16 type, tci, inner_type;
};

static __always_inline int is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* Return whether the frame has a VLAN tag. */
static __always_inline int has_tag(struct xdp_md *ctx)
{
	struct tagged *t = (void *)(long)ctx->data;

	return (void *)(t + 1) <= (void *)(long)ctx->data_end && is_tag(t->type);
}

/* Remove the VLAN tag. Return 0, or nonzero on an error. Packet pointers become invalid. */
static __always_inline int pop_tag(struct xdp_md *ctx)
{
	struct tagged *t = (void *)(long)ctx->data;
	struct stations s;

	if ((void *)(t + 1) > (void *)(long)ctx->data_end)
		return 1;
	s = stations_of(t);
	if (bpf_xdp_adjust_head(ctx, FPISA_VLAN_LEN))
		return 1;
	t = (void *)(long)ctx->data;
	if ((void *)(t + 1) > (void *)(long)ctx->data_end)
		return 1;
	write_stations(t, &s);
	return 0;
}

#endif
