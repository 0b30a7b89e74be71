/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 2 of 7, from parse.h to phv.h: is this a contribution that the job takes,
 * from the rank that it says, whole? Nothing of a slot has been read yet. The
 * rules are fpisa/frame.h's.
 */
#ifndef FPISA_BPF_CHECK_H
#define FPISA_BPF_CHECK_H

#include "checksum.h"

/* ok, or the verdict with which to refuse the ADD. */
static __always_inline enum fpisa_verdict check(struct xdp_md *ctx, const struct packet *p)
{
	const struct headers *h = &p->h;
	enum fpisa_verdict v;

	v = fpisa_check_add(h->fpisa, p->payload, p->job, p->session, h->ip->saddr, h->udp->source);
	if (v == FPISA_V_ok)
		v = fpisa_check_port(h->fpisa, p->job, p->port);
	/* What a member is told needs a frame that is whole. */
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return v;
	return is_checksum(frame_sum(ctx, p->payload), h->fpisa->checksum) ? v : FPISA_V_checksum;
}

/* Rank `rank` of job `id` is alive. The tick is a load where programs are compiled, the clock a call. */
static __always_inline void mark_seen(__u32 id, __u32 rank)
{
	struct fpisa_last_seen *seen =
		lookup(&fpisa_last_seen, id * FPISA_MAX_WORKERS + (rank & (FPISA_MAX_WORKERS - 1)));
	__u64 tick = bpf_jiffies64();

	if (!seen || seen->tick == tick)
		return;
	seen->tick = tick;
	seen->ns = bpf_ktime_get_ns();
}

#endif
