/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 5 of 7, from admission.h to finish.h: the paper's pipeline (figure 2), MAU0..4 on the
 * way in (stateful), MAU5..8 on the way out (stateless), fused or staged.
 *
 * Fused, one body does a half. Staged, each unit is a program, which ends in the tail call of the next
 * (programs.h). Where that is missing, which is counted, one program stands in for it that contains
 * the whole chain: the entry or, of a further family, admission. It goes on from the PHV as it stands.
 */
#ifndef FPISA_BPF_PIPELINE_H
#define FPISA_BPF_PIPELINE_H

#include "finish.h"
#include "units.h"

/* The array of stage programs; fpisa.bpf.c defines and fills it. */
static __always_inline void tail_call(struct xdp_md *ctx, __u32 index);

/* -- fused --------------------------------------------------------------- */

/*
 * A fused body stands in a loop over blocks, and a verifier walks it once an iteration. So a call of it
 * does a group of blocks, half of the largest frame; 416 elements are one group.
 */
#define GROUP (FPISA_MAX_BLOCKS / 2)

#define EACH_GROUP(from, phv)                           \
	_Pragma("clang loop unroll(disable)")           \
	for (__u32 from = 0; from < FPISA_MAX_BLOCKS && from < (phv)->blocks; from += GROUP)

/*
 * Blocks b of the group that begins at `from`, each at *words. One index for all that a block has,
 * hidden: else clang makes pointers of it, which have no bound.
 */
#define EACH_OF_GROUP(b, phv, from, words)                                           \
	for (__u32 __i = 0, b; __i < GROUP && ({                                     \
		     b = (from) + __i;                                               \
		     fpisa_opaque(b);                                                \
		     b < FPISA_MAX_BLOCKS && b < (phv)->blocks;                      \
	     }) && ((words) = payload_of(ctx, b));                                   \
	     __i++)

GLOBAL_FN int run_fused_add(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 from)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	struct words *in;
	__u64 events = 0;

	if (!e || !m || from >= FPISA_MAX_BLOCKS)
		return 0;
	if (phv->first) {
		EACH_OF_GROUP(b, phv, from, in)
			fused_set_block(in, &e->b[b], &m[b], phv->format);
	} else if (phv->mode == FPISA_MODE_FPISA_A) {
		EACH_OF_GROUP(b, phv, from, in)
			events += fused_add_a_block(in, &e->b[b], &m[b], phv->format);
	} else if (FUSED_UNCOUNTED && phv->uncounted) {
		EACH_OF_GROUP(b, phv, from, in)
			events |= fused_add_block(in, &e->b[b], &m[b], phv->format, 0);
		phv->events |= events;
		return 0;
	} else {
		EACH_OF_GROUP(b, phv, from, in)
			events += fused_add_block(in, &e->b[b], &m[b], phv->format, 1);
	}
	phv->events += events;
	return 0;
}

/* Is the contribution added unit by unit? Where no fused body does its format or operation, or a sum may overflow. */
static __always_inline int adds_by_unit(const struct fpisa_phv *phv)
{
	return phv->by_unit || (phv->checked && phv->mode != FPISA_MODE_FPISA_A);
}

GLOBAL_FN int run_add_by_unit(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	run_mau0(ctx, phv);
	run_mau1(phv);
	run_mau2(phv);
	run_mau3(phv);
	return run_mau4(phv);
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
GLOBAL_FN int run_fused_read(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 from, __u32 all)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	struct words *out;
	__u32 fmt, flags = 0;

	asm volatile("" : : "r"(all));
	if (!e || !m || from >= FPISA_MAX_BLOCKS)
		return 0;
	fmt = phv->format | (phv->clz == FPISA_CLZ_LPM_BYTE ? READ_BYTES : 0);
	if (phv->rounding == FPISA_ROUND_NEAREST) {
		EACH_OF_GROUP(b, phv, from, out)
			flags |= read_near_block(out, &e->b[b], &m[b], fmt | READ_NEAREST, all);
	} else {
		EACH_OF_GROUP(b, phv, from, out)
			flags |= read_down_block(out, &e->b[b], &m[b], fmt, all);
	}
	phv->flags |= flags;
	return 0;
}

/* -- staged -------------------------------------------------------------- */

/* commit() of a packet that came by tail calls. */
GLOBAL_FN int commit_stage(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct packet p;

	if (!phv)
		return XDP_ABORTED;
	if (!find_packet(ctx, phv, &p))
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	return commit(ctx, phv, &p);
}

/* MAU k, and what follows the half that it ends. GO_ON, or the action that ends this packet. */
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
	return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
}

/* Tail-call the program at `index` of the packet's bank, to run MAU k. Comes back only if there is none. */
static __always_inline void hand_on(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 index, __u32 k)
{
	phv->stage = k + 1;
	tail_call(ctx, phv->bank + index);
	phv->stage = 0;
}

/* The same of MAU k's own program; that it is missing is counted. */
static __always_inline void next_stage(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 k)
{
	struct fpisa_counters *c;

	hand_on(ctx, phv, k, k);
	c = counters_of(phv->job);
	if (c)
		c->missed_tail_calls++;
}

/* MAU k and, as far as their programs are missing, all after it: of programs that stand in for others. */
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
	return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
}

/* -- from admission ------------------------------------------------------ */

/* MAU0..4, then what becomes of the contribution. */
static __always_inline int add_contribution(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	/* Returns only if MAU0's program is missing: then this program does the half, fused. */
	if (phv->pipeline == FPISA_PIPELINE_STAGED)
		next_stage(ctx, phv, 0);
	p->counters->fused++;
	if (adds_by_unit(phv))
		run_add_by_unit(ctx, phv);
	else
		EACH_GROUP(from, phv)
			run_fused_add(ctx, phv, from);
	return commit(ctx, phv, p);
}

/* MAU5..8, then the result leaves. */
static __always_inline int read_out(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	/* Returns only if MAU5's program is missing, as above. */
	if (phv->pipeline == FPISA_PIPELINE_STAGED)
		next_stage(ctx, phv, 5);
	p->counters->fused_reads++;
	if (reads_by_unit(phv))
		run_read_by_unit(ctx, phv);
	else
		EACH_GROUP(from, phv)
			run_fused_read(ctx, phv, from, ~0u);
	return finish(ctx, phv);
}

#endif
