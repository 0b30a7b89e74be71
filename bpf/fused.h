/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The pipeline in one program. Each half of the pipeline is one loop body, over all blocks of the frame. blocks.h
 * contains the bodies. The table in forms.h chooses among fpisa/lookup32.h (FP32), lookup.h, lookup_read.h and block.h.
 * If no body supports a format or an operation, its units run one after the other, each over all blocks.
 */
#ifndef FPISA_BPF_FUSED_H
#define FPISA_BPF_FUSED_H

#include "units.h"

/*
 * Number of blocks that one call handles. A fused body is inline in a loop over blocks, and the verifier walks the body
 * once for each iteration. So a call handles at most half of the largest frame, which is 416 elements.
 */
#define GROUP (FAMILY_BLOCKS / 2)

#define EACH_GROUP(from, phv)                                                                                    \
	_Pragma("clang loop unroll(disable)") for (__u32 from = 0; from < FAMILY_BLOCKS && from < (phv)->blocks; \
						   from += GROUP)

/*
 * Run the loop for (b = from; b < from + GROUP && b < blocks of the frame; b++), with `words` at block b of the
 * payload. The separate count __i and the one opaque index for all parts of a block are for the verifier. Without them
 * clang turns the index into pointers, for which the verifier finds no bound.
 */
#define EACH_OF_GROUP(b, phv, from, words)                                    \
	for (__u32 __i = 0, b; __i < GROUP && ({                              \
				       b = (from) + __i;                      \
				       fpisa_opaque(b);                       \
				       b < FAMILY_BLOCKS &&b < (phv)->blocks; \
			       }) &&                                          \
			       ((words) = payload_of(ctx, b));                \
	     __i++)

GLOBAL_FN int run_fused_add(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 from)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	struct words *in;
	__u64 events = 0;

	if (!e || !m || from >= FAMILY_BLOCKS)
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

/*
 * Return whether the contribution is added unit by unit, because no fused body supports its format or operation, or
 * because a sum may overflow.
 */
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

/* Run MAU0..4 over the frame. */
static __always_inline void fused_add(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	if (adds_by_unit(phv))
		run_add_by_unit(ctx, phv);
	else
		EACH_GROUP(from, phv)
			run_fused_add(ctx, phv, from);
}

/*
 * Return whether the round is read out unit by unit. With the trie this is always the case, because the lookups cost
 * far more than a fused loop saves.
 */
static __always_inline int reads_by_unit(const struct fpisa_phv *phv)
{
	return phv->by_unit || phv->final.op != FPISA_OP_SUM || phv->clz == FPISA_CLZ_LPM;
}

GLOBAL_FN int run_read_by_unit(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	run_mau5(phv);
	run_mau6(phv);
	run_mau7(phv);
	return run_mau8(ctx, phv);
}

/* Run MAU5..8 over GROUP blocks. `all` has a bit for each lane of a block (lookup_read.h). */
GLOBAL_FN int run_fused_read(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 from, __u32 all)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	struct words *out;
	__u32 flags = 0;

	KEEP_ARGUMENT(all);
	if (!e || !m || from >= FAMILY_BLOCKS)
		return 0;
	if (phv->rounding == FPISA_ROUND_NEAREST) {
		EACH_OF_GROUP(b, phv, from, out)
			flags |= read_near_block(out, &e->b[b], &m[b], phv->format | READ_NEAREST, all);
	} else {
		EACH_OF_GROUP(b, phv, from, out)
			flags |= read_down_block(out, &e->b[b], &m[b], phv->format, all);
	}
	phv->flags |= flags;
	return 0;
}

/* Run MAU5..8 over the frame. */
static __always_inline void fused_read(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	if (reads_by_unit(phv))
		run_read_by_unit(ctx, phv);
	else
		EACH_GROUP(from, phv)
			run_fused_read(ctx, phv, from, ~0u);
}

#endif
