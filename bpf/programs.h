/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The nine stage programs of a family, one for each unit. The object that includes this file names them fpisa_mau0..8.
 */
#ifndef FPISA_BPF_PROGRAMS_H
#define FPISA_BPF_PROGRAMS_H

#include "staged.h"

/* Run MAU k, then tail-call the next program, or its substitute. If both are missing, the round is lost. */
static __always_inline int stage(struct xdp_md *ctx, __u32 k)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	int action;

	if (!phv)
		return XDP_ABORTED;
	phv->stage = 0;
	action = run_unit(ctx, phv, k);
	if (action != GO_ON || k + 1 == FPISA_STAGES)
		return action;
	next_stage(ctx, phv, k + 1);
	hand_on(ctx, phv, FPISA_STAND_IN, k + 1);
	return lose_round(ctx, phv, FPISA_V_pipeline);
}

#define STAGE(k)                                          \
	SEC("stage") int fpisa_mau##k(struct xdp_md *ctx) \
	{                                                 \
		return stage(ctx, k);                     \
	}

STAGE(0)
STAGE(1)
STAGE(2)
STAGE(3)
STAGE(4)
STAGE(5)
STAGE(6)
STAGE(7)
STAGE(8)

#endif
