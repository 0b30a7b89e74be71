/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * MAU0..8 over a whole frame, block by block (blocks.h). The staged programs run these functions, and so do fused
 * programs for formats and operations without a fused body (fused.h). Each unit selects its variant by the format and
 * the operation. Two further passes over a payload swap its byte order, and observe the bits that an add discards.
 */
#ifndef FPISA_BPF_UNITS_H
#define FPISA_BPF_UNITS_H

#include "blocks.h"

#define EACH_BLOCK(b, phv) for (__u32 b = 0; b < FAMILY_BLOCKS && b < (phv)->blocks; b++)

/* These are 0 at compile time if a family cannot have the property, so that its programs do not contain the code. */
#define SHARED(phv) (FAMILY_BYTES == 1 && (phv)->shared)
#define SWAPPED(phv) (FAMILY_BYTES > 1 && (phv)->swap)

static __always_inline struct fpisa_exponents *exponents_of(struct fpisa_phv *phv)
{
	return phv ? lookup(&fpisa_exponents, phv->key) : NULL;
}

/* Return block b of the payload, or NULL if the frame is too short. */
static __always_inline struct words *payload_of(struct xdp_md *ctx, __u32 b)
{
	struct words *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET + b * sizeof(*p);

	return (void *)(p + 1) <= (void *)(long)ctx->data_end ? p : NULL;
}

/* Return the elements of block b in a format with shared exponents, where the elements follow the scales. */
static __always_inline struct words *elements_of(struct xdp_md *ctx, __u32 b)
{
	_Static_assert(FAMILY_BYTES > 1 || sizeof(struct words) == FPISA_SCALES, "the scales are as long as a block");
	return payload_of(ctx, b + 1);
}

static __always_inline __u8 *scale_of(struct xdp_md *ctx, __u32 b)
{
	__u8 *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET + b;

	return (void *)(p + 1) <= (void *)(long)ctx->data_end ? p : NULL;
}

/* Return the size of the payload in bytes. */
static __always_inline __u32 payload_bytes(struct fpisa_phv *phv)
{
	return (phv->blocks + !!SHARED(phv)) * sizeof(struct words);
}

/*
 * Swap the payload between its own byte order and the host's, in place. Call this before the payload is read or after
 * it is written.
 */
GLOBAL_FN int run_swap(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	if (!phv)
		return 0;
	EACH_BLOCK(b, phv) {
		struct words *w = payload_of(ctx, b);

		if (!w)
			break;
		swap_block(w, phv->format);
	}
	return 0;
}

GLOBAL_FN int run_mx0(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	if (!phv || !p)
		return 0;
	EACH_BLOCK(b, phv) {
		struct words *in = elements_of(ctx, b);
		__u8 *scale = scale_of(ctx, b);

		if (!in || !scale)
			break;
		mx0_block(in, scale, &p[b], phv->format);
	}
	return 0;
}

GLOBAL_FN int run_mau0(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	if (!phv || !p)
		return 0;
	if (SHARED(phv))
		return run_mx0(ctx, phv);
	EACH_BLOCK(b, phv) {
		struct words *in = payload_of(ctx, b);

		if (!in)
			break;
		if (phv->encoded)
			encode_block(in, &p[b], phv->format);
		else
			fpisa_lanes_stage0(in, FPISA_PHV(&p[b]), FORMAT(phv->format));
	}
	return 0;
}

GLOBAL_FN int run_mau1(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	if (!phv || !p || phv->encoded)
		return 0;
	if (SHARED(phv)) {
		EACH_BLOCK(b, phv)
			mx1_block(&p[b], phv->format);
	} else if (phv->op == FPISA_OP_NORM) {
		EACH_BLOCK(b, phv)
			phv->events += square_block(&p[b], phv->format);
	} else {
		EACH_BLOCK(b, phv)
			if (fpisa_lanes_stage1(FPISA_PHV(&p[b]), FORMAT(phv->format)))
				mau1_block(&p[b], phv->format);
	}
	return 0;
}

GLOBAL_FN int run_mau2(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);
	struct fpisa_exponents *e = exponents_of(phv);

	if (!p || !e || phv->encoded)
		return 0;
	if (phv->first) {
		EACH_BLOCK(b, phv)
			mau2_first_block(&p[b], &e->b[b]);
	} else if (phv->mode == FPISA_MODE_FPISA_A) {
		EACH_BLOCK(b, phv)
			mau2_a_block(&p[b], &e->b[b], phv->format);
	} else {
		EACH_BLOCK(b, phv)
			stage2(FPISA_PHV(&p[b]), &e->b[b], FORMAT(phv->format));
	}
	return 0;
}

GLOBAL_FN int run_mau3(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	/* The first value of a round needs no alignment, except for the choice of a limb in a superaccumulator. */
	if (!phv || !p || phv->encoded || (phv->first && !FAMILY_LIMBS))
		return 0;
	if (phv->mode == FPISA_MODE_FPISA_A) {
		EACH_BLOCK(b, phv)
			phv->events += mau3_a_block(&p[b], phv->format);
	} else {
		EACH_BLOCK(b, phv)
			phv->events += stage3(FPISA_PHV(&p[b]), FORMAT(phv->format));
	}
	return 0;
}

GLOBAL_FN int run_mau4_encoded(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);
	man_block *m = mantissas_of(phv);

	if (!p || !m)
		return 0;
	if (phv->first) {
		EACH_BLOCK(b, phv)
			first_encoded_block(&p[b], &m[b], phv->format);
	} else {
		EACH_BLOCK(b, phv)
			phv->events += combine_block(&p[b], &m[b], phv->format, phv->op);
	}
	return 0;
}

GLOBAL_FN int run_mau4(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);
	man_block *m = mantissas_of(phv);

	if (!p || !m)
		return 0;
	if (phv->encoded)
		return run_mau4_encoded(phv);
	if (phv->first) {
		EACH_BLOCK(b, phv)
			mau4_first_block(&p[b], &m[b], phv->format);
	} else if (phv->mode == FPISA_MODE_FPISA_A) {
		EACH_BLOCK(b, phv)
			phv->events += mau4_a_block(&p[b], &m[b], phv->format);
	} else if (phv->checked || phv->by_unit) {
		EACH_BLOCK(b, phv)
			phv->events += mau4_checked_block(&p[b], &m[b], phv->format);
	} else {
		EACH_BLOCK(b, phv)
			phv->events += stage4(FPISA_PHV(&p[b]), &m[b], FORMAT(phv->format));
	}
	return 0;
}

GLOBAL_FN int run_mau5(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);

	if (!p || !e || !m)
		return 0;
	if (phv->encoded) {
		EACH_BLOCK(b, phv)
			load_encoded_block(&m[b], &p[b], phv->format);
		return 0;
	}
	if (FAMILY_LIMBS > 1 && fpisa_divides_wide(&phv->final)) {
		EACH_BLOCK(b, phv)
			average_block(&e->b[b], &m[b], &p[b], (__u64)phv->final.divisor << 32 | (__u32)phv->format);
		return 0;
	}
	EACH_BLOCK(b, phv) {
		mau5_block(&e->b[b], &m[b], &p[b], phv->format, phv->final.factor);
		if (phv->final.op != FPISA_OP_SUM)
			final_block(&p[b], &phv->final, phv->format);
	}
	return 0;
}

GLOBAL_FN int run_mau6(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	if (!phv || !p || phv->encoded)
		return 0;
	if (phv->clz == FPISA_CLZ_LPM) {
		EACH_BLOCK(b, phv)
			mau6_lpm_block(&p[b], phv->format);
	} else {
		EACH_BLOCK(b, phv)
			mau6_bits_block(&p[b], phv->format);
	}
	return 0;
}

GLOBAL_FN int run_mau7(struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	if (!phv || !p || phv->encoded)
		return 0;
	EACH_BLOCK(b, phv) {
		if (SHARED(phv))
			mx7_block(&p[b], phv->format);
		else
			mau7_block(&p[b], phv->format);
	}
	return 0;
}

GLOBAL_FN int run_mx8(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	if (!phv || !p)
		return 0;
	for (__u32 b = 0; b < FPISA_SCALES; b++) {
		__u8 *scale = scale_of(ctx, b);

		if (!scale)
			break;
		*scale = 0;
	}
	EACH_BLOCK(b, phv) {
		struct words *out = elements_of(ctx, b);
		__u8 *scale = scale_of(ctx, b);

		if (!out || !scale)
			break;
		if (phv->rounding == FPISA_ROUND_NEAREST)
			phv->flags |= mx8_near_block(&p[b], out, scale, phv->format);
		else
			phv->flags |= mx8_down_block(&p[b], out, scale, phv->format);
	}
	return 0;
}

GLOBAL_FN int run_mau8(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	phv_block *p = blocks_of(phv);

	if (!phv || !p)
		return 0;
	if (SHARED(phv))
		return run_mx8(ctx, phv);
	EACH_BLOCK(b, phv) {
		struct words *out = payload_of(ctx, b);

		if (!out)
			break;
		if (phv->encoded)
			phv->flags |= decode_block(&p[b], out, phv->format);
		else if (phv->rounding == FPISA_ROUND_NEAREST)
			phv->flags |= mau8_near_block(&p[b], out, phv->format);
		else
			phv->flags |= mau8_down_block(&p[b], out, phv->format);
	}
	return 0;
}

/*
 * Record the magnitudes that the add will discard. Run this before the pipeline. MAU0 and MAU1 fill the PHV for this
 * pass, and the pipeline fills it again.
 */
GLOBAL_FN int run_observer(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_exponents *e = exponents_of(phv);
	phv_block *p = blocks_of(phv);
	man_block *m = mantissas_of(phv);
	struct fpisa_histogram *h;
	__u32 fmt;
	__u64 events;

	if (!p || !e || !m)
		return 0;
	h = lookup(&fpisa_histogram, phv->job);
	if (!h)
		return 0;
	fmt = phv->format | (phv->mode == FPISA_MODE_FPISA_A ? DISCARD_A : 0);
	events = phv->events;
	run_mau0(ctx, phv);
	run_mau1(phv);
	phv->events = events;
	EACH_BLOCK(b, phv)
		discard_block(&p[b], &e->b[b], &m[b], h, fmt);
	return 0;
}

#endif
