/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The pipeline, staged and fused. chain() is the staged one: its switch runs stage
 * k, tail-calls stage k + 1 and, if that slot of the program array is empty,
 * falls through and goes on inline from the PHV as it stands. The entry
 * contains the chain from any stage on, MAU k's program contains it from k.
 *
 * Ingress half MAU0..4 (stateful), then add_done(); egress half MAU5..8
 * (stateless), then read_done() (paper, figure 2).
 */
#ifndef FPISA_BPF_STAGES_H
#define FPISA_BPF_STAGES_H

#include "units.h"
#include "exits.h"

/* The array of stage programs; fpisa.bpf.c defines and fills it. */
static __always_inline void tail_call(struct xdp_md *ctx, __u32 index);

/* -- the same work in one body ------------------------------------------ */

GLOBAL_FN int run_fused_add(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);

	if (!e || !m)
		return 0;
	if (phv->by_unit || (!phv->first && phv->checked && phv->mode != FPISA_MODE_FPISA_A)) {
		run_mau0(ctx, phv);
		run_mau1(phv);
		run_mau2(phv);
		run_mau3(phv);
		return run_mau4(phv);
	}
	EACH_BLOCK(b, phv) {
		struct words *in = payload_of(ctx, b);

		if (!in)
			break;
		if (phv->first)
			fused_set_block(in, &e->b[b], &m[b], phv->format);
		else if (FUSED_UNCOUNTED && phv->uncounted && phv->mode != FPISA_MODE_FPISA_A)
			phv->events |= fused_add_block(in, &e->b[b], &m[b], phv->format, 0);
		else if (phv->mode == FPISA_MODE_FPISA_A)
			phv->events += fused_add_a_block(in, &e->b[b], &m[b], phv->format);
		else
			phv->events += fused_add_block(in, &e->b[b], &m[b], phv->format, 1);
	}
	return 0;
}

/*
 * Is the round read out unit by unit? The trie of bits is: its look-ups cost
 * many times what one loop saves.
 */
static __always_inline int reads_by_unit(const struct fpisa_phv *phv)
{
	return phv->by_unit || phv->finish.op != FPISA_OP_SUM || phv->clz == FPISA_CLZ_LPM ||
	       (phv->clz == FPISA_CLZ_LPM_BYTE && FAMILY_LIMBS > 0);
}

GLOBAL_FN int run_read_by_unit(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	run_mau5(phv);
	run_mau6(phv);
	run_mau7(phv);
	return run_mau8(ctx, phv);
}

/* `all` is a bit for each lane of a block (lookup_read.h). */
GLOBAL_FN int run_fused_read(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 all)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	__u32 fmt;

	asm volatile("" : : "r"(all));
	if (!e || !m)
		return 0;
	fmt = phv->format | (phv->clz == FPISA_CLZ_LPM_BYTE ? READ_BYTES : 0) |
	      (phv->rounding == FPISA_ROUND_NEAREST ? READ_NEAREST : 0);
	EACH_BLOCK(b, phv) {
		struct words *out = payload_of(ctx, b);

		if (!out)
			break;
		if (phv->rounding == FPISA_ROUND_NEAREST)
			phv->flags |= read_near_block(out, &e->b[b], &m[b], fmt, all);
		else
			phv->flags |= read_down_block(out, &e->b[b], &m[b], fmt, all);
	}
	return 0;
}

/* -- what follows an add and a read-out ---------------------------------- */

/*
 * The round is not complete: give the slot back, count `v`; answer a probe.
 */
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

/* The round is complete: what its read-out does, into the PHV. */
static __always_inline void plan_read(struct fpisa_phv *phv, const struct fpisa_slot *slot,
				      const struct fpisa_job *job)
{
	phv->finish = fpisa_finish_of(fpisa_job_format(job), slot->op, slot->operand, slot->arrivals,
				      job->flags & FPISA_JOB_RECIPROCAL);
}

static __always_inline void count_events(struct fpisa_counters *c, __u64 events)
{
	c->rounded += fpisa_event_count(events, FPISA_EV_ROUNDED);
	c->overwritten += fpisa_event_count(events, FPISA_EV_OVERWRITTEN);
	c->left_shifted += fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED);
	c->overflowed += fpisa_event_count(events, FPISA_EV_OVERFLOWED);
}

/* What commit() and add_done() return when the round is complete and the pipeline goes on. */
#define COMPLETE (-1)

/*
 * The registers hold the contribution: record it under the lock. Returns
 * COMPLETE, or the action that ends this packet.
 */
static __always_inline int commit(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_counters *c;
	struct fpisa_slot *slot;
	struct fpisa_job *job;
	__u64 live;

	slot = lookup(&fpisa_slots, phv->key);
	job = lookup(&fpisa_jobs, phv->job);
	c = counters_of(phv->job);
	if (!slot || !job || !c)
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	c->elements += phv->blocks * FPISA_BLOCK;
	if (!phv->uncounted)
		count_events(c, phv->events);
	live = fpisa_read_once(&job->live);
	if (fpisa_slot_commit(slot, phv->rank, live, fpisa_event_flags(phv->events))) {
		plan_read(phv, slot, job);
		return COMPLETE;
	}
	if (fpisa_unlikely(phv->probe))
		return not_complete(ctx, phv, live, FPISA_V_accepted);
	lock_release(&slot->lock);
	add_verdict(c, FPISA_V_accepted);
	return XDP_DROP;
}

/* commit() for the chain, whose programs contain it many times. */
GLOBAL_FN int add_done(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	return phv ? commit(ctx, phv) : XDP_ABORTED;
}

static __always_inline void count_flags(struct fpisa_counters *c, __u32 flags)
{
	c->results_inexact += !!(flags & FPISA_INEXACT);
	c->results_overflow += !!(flags & FPISA_OVERFLOW);
	c->results_overwrite += !!(flags & FPISA_OVERWRITE);
	c->results_nan += !!(flags & FPISA_NAN);
	c->results_inf += !!(flags & FPISA_INF);
}

/*
 * The payload is the packed result: write the header, mark the round done,
 * give the slot back, send. The frame is this CPU's own, so its checksum is
 * taken after the slot is free again.
 */
GLOBAL_FN int read_done(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_counters *c;
	struct fpisa_slot *slot;
	struct fpisa_job *job;
	struct headers h;
	void *ports;
	__u32 flags, payload;
	int action;

	if (!phv)
		return XDP_ABORTED;
	slot = lookup(&fpisa_slots, phv->key);
	job = lookup(&fpisa_jobs, phv->job);
	ports = lookup(&fpisa_fanout, phv->job);
	c = counters_of(phv->job);
	if (!slot)
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	if (!job || !find_headers(ctx, &h) || !c) {
		lock_release(&slot->lock);
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	}
	flags = slot->flags | phv->flags;
	fpisa_make_result(h.fpisa, slot, job, phv->results, flags, phv->resend);
	slot->done = 1;
	lock_release(&slot->lock);

	payload = payload_bytes(phv);
	if (SWAPPED(phv))
		run_swap(ctx, phv);
	h.fpisa->checksum = (__u32)frame_sum(ctx, payload);

	if (phv->resend)
		return count_verdict(phv->job, FPISA_V_resent, to_sender(ctx, &h, phv->job, payload));
	count_flags(c, flags);
	if (!ports)
		return count_verdict(phv->job, FPISA_V_fanout, XDP_DROP);
	__builtin_memcpy(h.eth->h_source, h.eth->h_dest, ETH_ALEN);
	/* RFC 1112: the group's low 23 bits. Unicast copies are addressed at their port. */
	h.eth->h_dest[0] = 0x01;
	h.eth->h_dest[1] = 0x00;
	h.eth->h_dest[2] = 0x5e;
	h.eth->h_dest[3] = ((__u8 *)&job->group)[1] & 0x7f;
	h.eth->h_dest[4] = ((__u8 *)&job->group)[2];
	h.eth->h_dest[5] = ((__u8 *)&job->group)[3];
	address_reply(&h, job->address, job->group, job->group_port, payload);
	action = (int)bpf_redirect_map(ports, 0, BPF_F_BROADCAST);
	if (action != XDP_REDIRECT)
		return count_verdict(phv->job, FPISA_V_fanout, XDP_DROP);
	return count_verdict(phv->job, FPISA_V_result, action);
}

/* -- the chain ------------------------------------------------------------ */

/* Tail-call MAU k. Comes back only if its slot is empty, and counts that. */
static __always_inline void next_stage(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 k)
{
	struct fpisa_counters *c;

	phv->stage = k + 1;
	tail_call(ctx, phv->bank + k);
	phv->stage = 0;
	c = counters_of(phv->job);
	if (c)
		c->missed_tail_calls++;
}

#define COUNT_STAGE(phv, name)                                     \
	do {                                                       \
		struct fpisa_counters *__c = counters_of((phv)->job); \
		if (__c)                                           \
			__c->name++;                               \
	} while (0)

static __always_inline int chain(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 stage)
{
	int action;

	switch (stage) {
	case 0:
		COUNT_STAGE(phv, mau0);
		run_mau0(ctx, phv);
		next_stage(ctx, phv, 1);
		/* fallthrough */
	case 1:
		COUNT_STAGE(phv, mau1);
		run_mau1(phv);
		next_stage(ctx, phv, 2);
		/* fallthrough */
	case 2:
		COUNT_STAGE(phv, mau2);
		run_mau2(phv);
		next_stage(ctx, phv, 3);
		/* fallthrough */
	case 3:
		COUNT_STAGE(phv, mau3);
		run_mau3(phv);
		next_stage(ctx, phv, 4);
		/* fallthrough */
	case 4:
		COUNT_STAGE(phv, mau4);
		run_mau4(phv);
		action = add_done(ctx, phv);
		if (action != COMPLETE)
			return action;
		next_stage(ctx, phv, 5);
		/* fallthrough */
	case 5:
		COUNT_STAGE(phv, mau5);
		run_mau5(phv);
		next_stage(ctx, phv, 6);
		/* fallthrough */
	case 6:
		COUNT_STAGE(phv, mau6);
		run_mau6(phv);
		next_stage(ctx, phv, 7);
		/* fallthrough */
	case 7:
		COUNT_STAGE(phv, mau7);
		run_mau7(phv);
		next_stage(ctx, phv, 8);
		/* fallthrough */
	case 8:
		COUNT_STAGE(phv, mau8);
		run_mau8(ctx, phv);
		return read_done(ctx, phv);
	}
	return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
}

#endif
