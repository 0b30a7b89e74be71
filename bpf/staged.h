/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The pipeline as in the paper. Each unit is a program (programs.h), which ends with a tail call of the next unit. If
 * the next program is missing, a program that contains the whole chain replaces it, and a counter is raised. The
 * replacement is the entry or, in a further family, admission. The replacement continues from the current PHV.
 */
#ifndef FPISA_BPF_STAGED_H
#define FPISA_BPF_STAGED_H

#include "finish.h"
#include "units.h"

/* Tail-call through fpisa_stages. Each object (fpisa.bpf.c, family.bpf.c) defines this function. */
static __always_inline void tail_call(struct xdp_md *ctx, __u32 index);

/* Run commit() for a packet that arrived through tail calls. */
GLOBAL_FN int commit_stage(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct packet p;

	if (!phv)
		return XDP_ABORTED;
	if (!find_packet(ctx, phv, &p))
		return lose_round(ctx, phv, FPISA_V_internal);
	return commit(ctx, phv, &p);
}

/*
 * Run MAU k. If the unit is the last of its half, also run the steps that follow the half. Return GO_ON, or the action
 * that ends this packet.
 */
static __always_inline int run_unit(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 k)
{
	struct fpisa_counters *c = counters_of(phv->job);

	if (c && k < FPISA_STAGES)
		(&c->mau0)[k]++;
	switch (k) {
	case 0:
		run_mau0(ctx, phv);
		return GO_ON;
	case 1:
		run_mau1(phv);
		return GO_ON;
	case 2:
		run_mau2(phv);
		return GO_ON;
	case 3:
		run_mau3(phv);
		return GO_ON;
	case 4:
		run_mau4(phv);
		return commit_stage(ctx, phv);
	case 5:
		run_mau5(phv);
		return GO_ON;
	case 6:
		run_mau6(phv);
		return GO_ON;
	case 7:
		run_mau7(phv);
		return GO_ON;
	case 8:
		run_mau8(ctx, phv);
		return finish(ctx, phv);
	}
	return lose_round(ctx, phv, FPISA_V_internal);
}

/*
 * Tail-call the program at `index` of the packet's bank, which then runs MAU k. Return only if the program is missing.
 */
static __always_inline void hand_on(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 index, __u32 k)
{
	phv->stage = k + 1;
	tail_call(ctx, phv->bank + index);
	phv->stage = 0;
}

/* Tail-call the program of MAU k. If the program is missing, count this and return. */
static __always_inline void next_stage(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 k)
{
	struct fpisa_counters *c;

	hand_on(ctx, phv, k, k);
	c = counters_of(phv->job);
	if (c)
		c->missed_tail_calls++;
}

/* Run MAU k in place of its missing program, and then all later units up to the first whose program exists. */
static __always_inline int chain(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 k)
{
	switch (k) {
#define STAGE(k)                                     \
	case k: {                                    \
		int action = run_unit(ctx, phv, k);  \
                                                     \
		if (action != GO_ON)                 \
			return action;               \
		if (k + 1 < FPISA_STAGES)            \
			next_stage(ctx, phv, k + 1); \
	}                                            \
		/* fallthrough */
		STAGE(0)
		STAGE(1)
		STAGE(2)
		STAGE(3)
		STAGE(4)
		STAGE(5)
		STAGE(6)
		STAGE(7)
		STAGE(8)
#undef STAGE
	}
	return lose_round(ctx, phv, FPISA_V_internal);
}

#endif
