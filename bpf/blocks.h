/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Element loops as the verifier likes them: non-inlined global functions
 * over one block of 32 elements. Each is verified once, however many
 * programs and loops call it; inlined, the same loops exceed a million
 * instructions on 6.1 and crash the verifier of 6.18.44.
 *
 * Global functions take pointers to memory of known size, which may be NULL
 * as far as the verifier knows. All work on FP32; another register width is
 * another set of these.
 */
#ifndef FPISA_BPF_BLOCKS_H
#define FPISA_BPF_BLOCKS_H

#include "maps.h"


GLOBAL_FN int sum_block(const struct fpisa_word_block *in, struct fpisa_sum *sum)
{
	if (!in || !sum)
		return 0;
	fpisa_sum_words(sum, in, FPISA_BLOCK / 2);
	return 0;
}

static __always_inline __u32 clz_lpm(__u32 x)
{
	struct fpisa_lpm_key key = { .prefixlen = 32, .addr = bpf_htonl(x) };
	__u32 *lz = bpf_map_lookup_elem(&fpisa_lpm, &key);

	return lz ? *lz : 32;
}

/* -- fused ------------------------------------------------------------- */

GLOBAL_FN int fused_set_block(const struct fpisa_word_block *in, struct fpisa_exp_block *e,
			     struct fpisa_man_block *m)
{
	if (!in || !e || !m)
		return 0;
	fpisa_block_set(in, e, m, FPISA_FP32);
	return 0;
}

GLOBAL_FN __u64 fused_add_block(const struct fpisa_word_block *in, struct fpisa_exp_block *e,
			       struct fpisa_man_block *m)
{
	if (!in || !e || !m)
		return 0;
	return fpisa_block_add(in, e, m, FPISA_FP32, FPISA_MODE_FPISA);
}

GLOBAL_FN __u64 fused_add_a_block(const struct fpisa_word_block *in, struct fpisa_exp_block *e,
				 struct fpisa_man_block *m)
{
	if (!in || !e || !m)
		return 0;
	return fpisa_block_add(in, e, m, FPISA_FP32, FPISA_MODE_FPISA_A);
}

#define READ_BLOCK(name, rounding, clz)                                                             \
	GLOBAL_FN __u32 name(struct fpisa_word_block *out, const struct fpisa_exp_block *e,          \
			    const struct fpisa_man_block *m)                                        \
	{                                                                                           \
		if (!out || !e || !m)                                                               \
			return 0;                                                                   \
		return fpisa_block_read(out, e, m, FPISA_FP32, rounding, clz);                      \
	}

READ_BLOCK(read_down_bits_block, FPISA_ROUND_DOWN, fpisa_clz32_bits)
READ_BLOCK(read_down_lpm_block, FPISA_ROUND_DOWN, clz_lpm)
READ_BLOCK(read_near_bits_block, FPISA_ROUND_NEAREST, fpisa_clz32_bits)
READ_BLOCK(read_near_lpm_block, FPISA_ROUND_NEAREST, clz_lpm)

/* -- staged ------------------------------------------------------------ */

GLOBAL_FN int mau0_block(const struct fpisa_word_block *in, struct fpisa_phv_block *p)
{
	if (!in || !p)
		return 0;
	fpisa_stage0(in, FPISA_PHV(p), FPISA_FP32);
	return 0;
}

GLOBAL_FN int mau1_block(struct fpisa_phv_block *p)
{
	if (!p)
		return 0;
	fpisa_stage1(FPISA_PHV(p), FPISA_FP32);
	return 0;
}

GLOBAL_FN int mau2_first_block(struct fpisa_phv_block *p, struct fpisa_exp_block *e)
{
	if (!p || !e)
		return 0;
	fpisa_stage2_first(FPISA_PHV(p), e);
	return 0;
}

GLOBAL_FN int mau2_block(struct fpisa_phv_block *p, struct fpisa_exp_block *e)
{
	if (!p || !e)
		return 0;
	fpisa_stage2(FPISA_PHV(p), e, FPISA_FP32, FPISA_MODE_FPISA);
	return 0;
}

GLOBAL_FN int mau2_a_block(struct fpisa_phv_block *p, struct fpisa_exp_block *e)
{
	if (!p || !e)
		return 0;
	fpisa_stage2(FPISA_PHV(p), e, FPISA_FP32, FPISA_MODE_FPISA_A);
	return 0;
}

GLOBAL_FN __u64 mau3_block(struct fpisa_phv_block *p)
{
	if (!p)
		return 0;
	return fpisa_stage3(FPISA_PHV(p), FPISA_FP32, FPISA_MODE_FPISA);
}

GLOBAL_FN __u64 mau3_a_block(struct fpisa_phv_block *p)
{
	if (!p)
		return 0;
	return fpisa_stage3(FPISA_PHV(p), FPISA_FP32, FPISA_MODE_FPISA_A);
}

GLOBAL_FN int mau4_first_block(struct fpisa_phv_block *p, struct fpisa_man_block *m)
{
	if (!p || !m)
		return 0;
	fpisa_stage4_first(FPISA_PHV(p), m, FPISA_FP32);
	return 0;
}

GLOBAL_FN __u64 mau4_block(struct fpisa_phv_block *p, struct fpisa_man_block *m)
{
	if (!p || !m)
		return 0;
	return fpisa_stage4(FPISA_PHV(p), m, FPISA_FP32, FPISA_MODE_FPISA);
}

GLOBAL_FN __u64 mau4_a_block(struct fpisa_phv_block *p, struct fpisa_man_block *m)
{
	if (!p || !m)
		return 0;
	return fpisa_stage4(FPISA_PHV(p), m, FPISA_FP32, FPISA_MODE_FPISA_A);
}

GLOBAL_FN int mau5_block(const struct fpisa_exp_block *e, const struct fpisa_man_block *m,
			struct fpisa_phv_block *p)
{
	if (!e || !m || !p)
		return 0;
	fpisa_stage5(e, m, FPISA_PHV(p), FPISA_FP32);
	return 0;
}

GLOBAL_FN int mau6_bits_block(struct fpisa_phv_block *p)
{
	if (!p)
		return 0;
	fpisa_stage6(FPISA_PHV(p), FPISA_FP32, fpisa_clz32_bits);
	return 0;
}

GLOBAL_FN int mau6_lpm_block(struct fpisa_phv_block *p)
{
	if (!p)
		return 0;
	fpisa_stage6(FPISA_PHV(p), FPISA_FP32, clz_lpm);
	return 0;
}

GLOBAL_FN int mau7_block(struct fpisa_phv_block *p)
{
	if (!p)
		return 0;
	fpisa_stage7(FPISA_PHV(p), FPISA_FP32);
	return 0;
}

GLOBAL_FN __u32 mau8_down_block(struct fpisa_phv_block *p, struct fpisa_word_block *out)
{
	if (!p || !out)
		return 0;
	return fpisa_stage8(FPISA_PHV(p), out, FPISA_FP32, FPISA_ROUND_DOWN);
}

GLOBAL_FN __u32 mau8_near_block(struct fpisa_phv_block *p, struct fpisa_word_block *out)
{
	if (!p || !out)
		return 0;
	return fpisa_stage8(FPISA_PHV(p), out, FPISA_FP32, FPISA_ROUND_NEAREST);
}

#endif
