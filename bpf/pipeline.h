/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 5 of 7, from admission.h to finish.h: the paper's pipeline (figure 2), MAU0..4 on the way in (stateful),
 * MAU5..8 on the way out (stateless), fused (fused.h) or staged (staged.h).
 */
#ifndef FPISA_BPF_PIPELINE_H
#define FPISA_BPF_PIPELINE_H

#include "finish.h"
#include "fused.h"
#include "staged.h"

/* Run MAU0..4, then record the contribution. */
static __always_inline int add_contribution(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	/* next_stage() returns only if MAU0's program is missing: then this program does the half, fused. */
	if (phv->pipeline == FPISA_PIPELINE_STAGED)
		next_stage(ctx, phv, 0);
	p->counters->fused++;
	fused_add(ctx, phv);
	return commit(ctx, phv, p);
}

/* Run MAU5..8, then send the result. */
static __always_inline int read_out(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	/* As above, for MAU5's program. */
	if (phv->pipeline == FPISA_PIPELINE_STAGED)
		next_stage(ctx, phv, 5);
	p->counters->fused_reads++;
	fused_read(ctx, phv);
	return finish(ctx, phv);
}

#endif
