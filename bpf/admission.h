/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Admission to a family's pipeline: a contribution that has passed every
 * stateless check takes its slot, the protocol's rules say what to do with it,
 * the pipeline does it. The entry contains family 0's and tail-calls the others'.
 */
#ifndef FPISA_BPF_ADMISSION_H
#define FPISA_BPF_ADMISSION_H

#include "stages.h"

/*
 * An ADD that passed every stateless check: take the slot, apply the rules.
 * Returns the step to take with the slot owned, or a negative verdict with
 * the slot given back.
 */
static __always_inline int take_slot(struct xdp_md *ctx, struct fpisa_phv *phv, struct fpisa_job *job)
{
	struct fpisa_session *session;
	struct fpisa_claim claim;
	struct fpisa_slot *slot;
	struct headers h;
	int step;

	if (!find_headers(ctx, &h))
		return -FPISA_V_internal;
	session = lookup(&fpisa_sessions, phv->job);
	slot = lookup(&fpisa_slots, phv->key);
	if (!session || !slot)
		return -FPISA_V_internal;
	claim = fpisa_claim_of(h.fpisa, job);
	if (!lock_take(&slot->lock))
		return -FPISA_V_busy;
	step = fpisa_admit(session, slot, &claim, fpisa_read_once(&job->live));
	phv->results = session->results;
	if (step < 0)
		lock_release(&slot->lock);
	else if (step == FPISA_STEP_ADD)
		phv->checked = !fpisa_bounded(fpisa_job_format(job), slot->arrivals);
	else if (step == FPISA_STEP_FINISH || step == FPISA_STEP_RESEND)
		plan_read(phv, slot, job);
	return step;
}

/* The PHV holds what the frame and the job say; step by step into the pipeline. */
static __always_inline int admission(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_job *job = lookup(&fpisa_jobs, phv->job);
	struct fpisa_counters *c = counters_of(phv->job);
	int step, action;

	if (!job || !c)
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	step = take_slot(ctx, phv, job);
	if (step < 0)
		return refuse(ctx, phv->job, -step);
	if (SWAPPED(phv))
		run_swap(ctx, phv);
	if (step == FPISA_STEP_ADD && !FAMILY_LIMBS && (job->flags & FPISA_JOB_HISTOGRAM) && !phv->encoded &&
	    phv->op != FPISA_OP_NORM)
		run_observer(ctx, phv);

	switch (step) {
	case FPISA_STEP_WAIT:
		return not_complete(ctx, phv, fpisa_read_once(&job->live), FPISA_V_duplicate);
	case FPISA_STEP_RESEND:
		phv->resend = 1;
		/* fallthrough */
	case FPISA_STEP_FINISH:
		break;
	default:
		phv->first = step == FPISA_STEP_SET;
		if (phv->pipeline == FPISA_PIPELINE_STAGED)
			next_stage(ctx, phv, 0);
		c->fused++;
		run_fused_add(ctx, phv);
		action = commit(ctx, phv);
		if (action != COMPLETE)
			return action;
	}
	if (phv->pipeline == FPISA_PIPELINE_STAGED)
		next_stage(ctx, phv, 5);
	c->fused_reads++;
	if (reads_by_unit(phv))
		run_read_by_unit(ctx, phv);
	else
		run_fused_read(ctx, phv, ~0u);
	return read_done(ctx, phv);
}

#endif
