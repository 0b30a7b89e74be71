/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 5 of 7, from admission.h to finish.h: the paper's pipeline (figure 2), fused (fused.h) or staged (staged.h).
 * MAU0..4 add a contribution (stateful), and MAU5..8 read out the result (stateless).
 */
#ifndef FPISA_BPF_PIPELINE_H
#define FPISA_BPF_PIPELINE_H

#include "finish.h"
#include "fused.h"
#include "staged.h"

/* Run MAU0..4, then record the contribution. */
static __always_inline int add_contribution(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	/* next_stage() returns only if the program of MAU0 is missing. This program then runs the fused half. */
	if (phv->pipeline == FPISA_PIPELINE_STAGED)
		next_stage(ctx, phv, 0);
	p->counters->fused++;
	fused_add(ctx, phv);
	return commit(ctx, phv, p);
}

/* Run MAU5..8, then send the result. */
static __always_inline int read_out(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	/* next_stage() returns only if the program of MAU5 is missing. */
	if (phv->pipeline == FPISA_PIPELINE_STAGED)
		next_stage(ctx, phv, 5);
	p->counters->fused_reads++;
	fused_read(ctx, phv);
	return finish(ctx, phv);
}

#endif
