/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The units MAU0..8 over a payload: fused, block by block with the PHV in
 * registers; staged, one unit over all blocks before the next, with the PHV
 * in memory, as the nine programs do. Modes and roundings are constants in
 * every loop, so that the compiler folds them.
 */
#include "soft_blocks.h"

#define EACH_BLOCK for (uint32_t b = 0; b < blocks; b++)

uint64_t fpisa_soft_add_fused(const struct fpisa_word_block *in, struct fpisa_soft_registers *r,
			      uint32_t blocks, enum fpisa_mode mode, int first)
{
	uint64_t events = 0;

	if (first) {
		EACH_BLOCK
			fpisa_block_set(&in[b], &r->e[b], &r->m[b], FPISA_FP32);
	} else if (mode == FPISA_MODE_FPISA_A) {
		EACH_BLOCK
			events += fpisa_block_add(&in[b], &r->e[b], &r->m[b], FPISA_FP32, FPISA_MODE_FPISA_A);
	} else {
		EACH_BLOCK
			events += fpisa_block_add(&in[b], &r->e[b], &r->m[b], FPISA_FP32, FPISA_MODE_FPISA);
	}
	return events;
}

uint32_t fpisa_soft_read_fused(struct fpisa_word_block *out, const struct fpisa_soft_registers *r,
			       uint32_t blocks, enum fpisa_rounding rounding)
{
	uint32_t flags = 0;

	if (rounding == FPISA_ROUND_NEAREST) {
		EACH_BLOCK
			flags |= fpisa_block_read(&out[b], &r->e[b], &r->m[b], FPISA_FP32,
						  FPISA_ROUND_NEAREST, fpisa_clz32_bits);
	} else {
		EACH_BLOCK
			flags |= fpisa_block_read(&out[b], &r->e[b], &r->m[b], FPISA_FP32, FPISA_ROUND_DOWN,
						  fpisa_clz32_bits);
	}
	return flags;
}

static __always_inline uint64_t staged_add(struct fpisa_phv_block *p, struct fpisa_soft_registers *r,
					   uint32_t blocks, enum fpisa_mode mode)
{
	uint64_t events = 0;

	EACH_BLOCK
		fpisa_stage2(FPISA_PHV(&p[b]), &r->e[b], FPISA_FP32, mode);
	EACH_BLOCK
		events += fpisa_stage3(FPISA_PHV(&p[b]), FPISA_FP32, mode);
	EACH_BLOCK
		events += fpisa_stage4(FPISA_PHV(&p[b]), &r->m[b], FPISA_FP32, mode);
	return events;
}

uint64_t fpisa_soft_add_staged(const struct fpisa_word_block *in, struct fpisa_soft_registers *r,
			       uint32_t blocks, enum fpisa_mode mode, int first)
{
	struct fpisa_phv_block p[FPISA_MAX_BLOCKS];

	EACH_BLOCK
		fpisa_stage0(&in[b], FPISA_PHV(&p[b]), FPISA_FP32);
	EACH_BLOCK
		fpisa_stage1(FPISA_PHV(&p[b]), FPISA_FP32);
	if (first) {
		EACH_BLOCK
			fpisa_stage2_first(FPISA_PHV(&p[b]), &r->e[b]);
		EACH_BLOCK
			fpisa_stage4_first(FPISA_PHV(&p[b]), &r->m[b], FPISA_FP32);
		return 0;
	}
	if (mode == FPISA_MODE_FPISA_A)
		return staged_add(p, r, blocks, FPISA_MODE_FPISA_A);
	return staged_add(p, r, blocks, FPISA_MODE_FPISA);
}

uint32_t fpisa_soft_read_staged(struct fpisa_word_block *out, const struct fpisa_soft_registers *r,
				uint32_t blocks, enum fpisa_rounding rounding)
{
	struct fpisa_phv_block p[FPISA_MAX_BLOCKS];
	uint32_t flags = 0;

	EACH_BLOCK
		fpisa_stage5(&r->e[b], &r->m[b], FPISA_PHV(&p[b]), FPISA_FP32);
	EACH_BLOCK
		fpisa_stage6(FPISA_PHV(&p[b]), FPISA_FP32, fpisa_clz32_bits);
	EACH_BLOCK
		fpisa_stage7(FPISA_PHV(&p[b]), FPISA_FP32);
	if (rounding == FPISA_ROUND_NEAREST) {
		EACH_BLOCK
			flags |= fpisa_stage8(FPISA_PHV(&p[b]), &out[b], FPISA_FP32, FPISA_ROUND_NEAREST);
	} else {
		EACH_BLOCK
			flags |= fpisa_stage8(FPISA_PHV(&p[b]), &out[b], FPISA_FP32, FPISA_ROUND_DOWN);
	}
	return flags;
}
