/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 4 of 7, from phv.h to pipeline.h: take the slot of a contribution that has passed every check (lock.h), and
 * apply the protocol's rules (fpisa/slot.h) to it. The entry contains family 0's admission and tail-calls that of the
 * other families.
 */
#ifndef FPISA_BPF_ADMISSION_H
#define FPISA_BPF_ADMISSION_H

#include "lock.h"
#include "pipeline.h"

/*
 * Prepare the payload for the steps that add it. Swap the payload to host order, and record the discarded bits if the
 * job requires this (units.h, family.h).
 */
static __always_inline void prepare_payload(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	if (SWAPPED(phv))
		run_swap(ctx, phv);
	if (!phv->first && !FAMILY_LIMBS && (p->job->flags & FPISA_JOB_HISTOGRAM) && !phv->encoded &&
	    phv->op != FPISA_OP_NORM)
		run_observer(ctx, phv);
}

/* The round is complete. Read it out, or in a leaf send its partial sum to the parent (tree.h). */
static __always_inline int complete(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	if (!TREES || phv->encoded || !(p->job->flags & FPISA_JOB_LEAF))
		return read_out(ctx, phv, p);
	tail_call(ctx, phv->bank + FPISA_UP);
	return lose_round(ctx, phv, FPISA_V_family);
}

/* Admit a contribution to the pipeline, or end the packet; return an XDP action. */
static __always_inline int admission(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	struct fpisa_slot *slot = p->slot;
	struct fpisa_claim claim = fpisa_claim_of(p->h.fpisa, p->job);
	__u64 live;
	int step;

	/*
	 * Refuse the frame, because a unit without registers would silently do nothing. An exact job that the CLI did
	 * not create may have slots beyond the registers of its family.
	 */
	if (!slot || !exponents_of(phv) || !mantissas_of(phv))
		return count_verdict(p->id, FPISA_V_internal, XDP_DROP);
	if (!lock_take(&slot->lock))
		return count_verdict(p->id, FPISA_V_busy, XDP_DROP);
	live = fpisa_read_once(&p->job->live);
	step = fpisa_admit(p->session, slot, &claim, live, &phv->results);
	if (step < 0) {
		lock_release(&slot->lock);
		return refuse(ctx, p->id, -step);
	}
	if (step == FPISA_STEP_WAIT)
		return not_complete(ctx, phv, live, FPISA_V_duplicate);
	if (step == FPISA_STEP_SET || step == FPISA_STEP_ADD) {
		int action;

		phv->first = step == FPISA_STEP_SET;
		phv->checked = !phv->first && !fpisa_bounded(fpisa_job_format(p->job), slot->arrivals);
		prepare_payload(ctx, phv, p);
		action = add_contribution(ctx, phv, p);
		if (action != GO_ON)
			return action;
	} else {
		/* For RESEND and FINISH the registers hold the whole result. */
		phv->resend = step == FPISA_STEP_RESEND;
		plan_read(phv, p);
	}
	return complete(ctx, phv, p);
}

#endif
