/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The programs of one further family, which are its admission and its nine stages. This file is compiled once for each
 * lane width and register (-DFAMILY_BYTES, -DFAMILY_RBITS, for mode exact -DFAMILY_LIMBS). The programs share every map
 * with fpisa.o. User space loads a family when a job needs it, and puts its programs into the program array.
 */
#include "admission.h"
#include "programs.h"
#if TREES
#include "tree.h"
#endif

SHARED_STAGES;

static __always_inline void tail_call(struct xdp_md *ctx, __u32 index)
{
	bpf_tail_call(ctx, &fpisa_stages, index);
}

/* Run admission, which the entry calls once it has filled the PHV. This program also replaces missing stages. */
SEC("stage")
int fpisa_admission(struct xdp_md *ctx)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct packet p;
	__u32 stage;

	if (!phv)
		return XDP_ABORTED;
	stage = phv->stage;
	phv->stage = 0;
	if (stage)
		return chain(ctx, phv, stage - 1);
	if (!find_packet(ctx, phv, &p))
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	return admission(ctx, phv, &p);
}

char _license[] SEC("license") = "Dual BSD/GPL";
