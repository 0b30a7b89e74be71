/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 6 of 7, from pipeline.h to fanout.h: the last step that uses the slot. After MAU4, record the contribution and
 * end the packet, unless it completes the round. After MAU8, finish the round. Both paths release the slot's lock.
 */
#ifndef FPISA_BPF_FINISH_H
#define FPISA_BPF_FINISH_H

#include "fanout.h"
#include "lock.h"

/*
 * Return value of a step if the packet continues with the next step. Otherwise a step returns the XDP action that ends
 * the packet.
 */
#define GO_ON (-1)

/* Release the slot and count `v`, because the round is not complete. If the sender asked for a STATUS, send it. */
GLOBAL_FN int not_complete(struct xdp_md *ctx, struct fpisa_phv *phv, __u64 live, __u32 v)
{
	struct fpisa_slot *slot;
	struct headers h;

	if (!phv)
		return XDP_ABORTED;
	slot = lookup(&fpisa_slots, phv->key);
	if (!slot)
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	if (!phv->probe || !find_headers(ctx, &h)) {
		lock_release(&slot->lock);
		return count_verdict(phv->job, v, XDP_DROP);
	}
	fpisa_make_status(h.fpisa, slot, live);
	lock_release(&slot->lock);
	count_verdict(phv->job, v, 0);
	return bare_to_sender(ctx, phv->job, FPISA_V_status);
}

/* Store the work of the round's read-out in the PHV. */
static __always_inline void plan_read(struct fpisa_phv *phv, const struct packet *p)
{
	phv->final = fpisa_final_of(fpisa_job_format(p->job), p->slot->op, p->slot->operand, p->slot->arrivals,
				    p->job->flags & FPISA_JOB_RECIPROCAL);
}

static __always_inline void count_events(struct fpisa_counters *c, __u64 events)
{
	c->rounded += fpisa_event_count(events, FPISA_EV_ROUNDED);
	c->overwritten += fpisa_event_count(events, FPISA_EV_OVERWRITTEN);
	c->left_shifted += fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED);
	c->overflowed += fpisa_event_count(events, FPISA_EV_OVERFLOWED);
}

/*
 * Record the contribution, whose values the registers hold. The caller holds the slot's lock. Return GO_ON if the
 * contribution completes the round.
 */
static __always_inline int commit(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	__u64 live = fpisa_read_once(&p->job->live);

	p->counters->elements += phv->blocks * FPISA_BLOCK;
	if (!phv->uncounted)
		count_events(p->counters, phv->events);
	if (fpisa_slot_commit(p->slot, phv->rank, live, fpisa_event_flags(phv->events) | phv->marked)) {
		plan_read(phv, p);
		return GO_ON;
	}
	if (fpisa_unlikely(phv->probe))
		return not_complete(ctx, phv, live, FPISA_V_accepted);
	lock_release(&p->slot->lock);
	add_verdict(p->counters, FPISA_V_accepted);
	return XDP_DROP;
}

/*
 * Break the generation because the pipeline cannot continue. Either the program of the next unit and its substitute are
 * missing, or a map entry is missing, which cannot happen. The registers may hold half a contribution, so the round
 * gives no sum, and all ranks of the generation get an ERROR. Count the frame as verdict `why`.
 */
GLOBAL_FN int lose_round(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 why)
{
	struct fpisa_session *session;
	struct fpisa_slot *slot;

	if (!phv)
		return XDP_ABORTED;
	slot = lookup(&fpisa_slots, phv->key);
	session = lookup(&fpisa_sessions, phv->job);
	/*
	 * Each stage contains this function and therefore uses fpisa_jobs. `fpisa status` and `fpisa unload` recognise
	 * FPISA programs on a device by this map.
	 */
	if (!slot || !session || !lookup(&fpisa_jobs, phv->job)) {
		if (slot)
			lock_release(&slot->lock);
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	}
	fpisa_break(session, slot->generation, FPISA_V_pipeline);
	lock_release(&slot->lock);
	return refuse(ctx, phv->job, why);
}

#if TREES
static __always_inline int values_up(struct xdp_md *ctx, struct fpisa_phv *phv, struct packet *p);

/* Turn the header of a part into the header of the result. */
static __always_inline void make_root_result(const struct fpisa_phv *phv, const struct packet *p, __u32 flags)
{
	struct fpisa_partials *x = lookup(&fpisa_partials, phv->key);

	if (x)
		fpisa_make_root_result(p->h.fpisa, p->slot, x, p->job, phv->results, flags, phv->resend);
}
#endif

/* Return the leaves from which a parent's slot has some of the parts of a partial sum, but not all. */
static __always_inline __u64 sending(const struct fpisa_job *job, __u32 key)
{
#if TREES
	struct fpisa_partials *x = lookup(&fpisa_partials, key);

	if (x && job->flags & FPISA_JOB_LEAVES)
		return x->torn;
#else
	(void)job;
	(void)key;
#endif
	return 0;
}

/* Store in the result which contributions to the previous chunk were lost. */
static __always_inline void tell_lost(struct packet *p)
{
	__u32 key = p->job->slot_base + fpisa_slot_of(p->h.fpisa->chunk - 1, p->job->window);
	struct fpisa_slot *before = lookup(&fpisa_slots, key);

	if (before && fpisa_tell_lost(p->h.fpisa, p->job, before, fpisa_read_once(&p->job->live) & ~sending(p->job, key)))
		p->counters->told_lost++;
}

/*
 * Finish the round, whose packed result is in the payload. Turn the header into the header of the result, and release
 * the slot. Find the packet again, even if admission found it in the same program. Kernels from 6.13 on invalidate
 * packet pointers at a tail call, even if the tail call fails.
 */
GLOBAL_FN int finish(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct packet p;
	__u32 flags;

	if (!phv)
		return XDP_ABORTED;
	if (!find_packet(ctx, phv, &p)) {
		if (p.slot)
			lock_release(&p.slot->lock);
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	}
	flags = p.slot->flags | phv->flags;
#if TREES
	if (p.job->flags & FPISA_JOB_LEAF)
		return values_up(ctx, phv, &p);
	if (p.job->flags & FPISA_JOB_LEAVES)
		make_root_result(phv, &p, flags);
	else
#endif
		fpisa_make_result(p.h.fpisa, p.slot, p.job, phv->results, flags, phv->resend);
	p.slot->done = 1;
	lock_release(&p.slot->lock);
	if (!phv->resend)
		tell_lost(&p);
	/* Send the frame after the slot is released, because no other CPU uses the frame. */
	return send_result(ctx, phv, &p, flags);
}

#endif
