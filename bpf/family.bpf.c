/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The programs of one further family: its admission and its nine stages, compiled
 * once for each lane width and register (-DFAMILY_BYTES, -DFAMILY_RBITS, for
 * mode exact -DFAMILY_LIMBS). They share every map with fpisa.o; user space loads them
 * when a job needs them and puts them into the program array.
 */
#include "admission.h"
#include "programs.h"

SHARED_STAGES;

static __always_inline void tail_call(struct xdp_md *ctx, __u32 index)
{
	bpf_tail_call(ctx, &fpisa_stages, index);
}

/* Admission, called from the entry with the PHV filled; or in place of a stage that is missing. */
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
