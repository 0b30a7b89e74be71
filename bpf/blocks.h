/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Element loops that the verifier accepts. They are non-inlined global functions over one block of 32 elements. The
 * verifier checks each function once, however many programs and loops call it. Inlined loops exceed a million
 * instructions on 6.1 and crash the verifier of 6.18.44.
 *
 * `fmt` is the packed format (family.h).
 */
#ifndef FPISA_BPF_BLOCKS_H
#define FPISA_BPF_BLOCKS_H

#include "forms.h"

/*
 * Define a function over a block. The verifier assumes that a pointer argument of a global function may be NULL;
 * `given` is the condition that all pointers are set. The other arguments are statements that call a body for the block.
 * The function returns 0 unless one of them returns a value.
 */
#define BLOCK_FN(type, name, given, parameters, ...) \
	type name parameters                         \
	{                                            \
		if (!(given))                        \
			return 0;                    \
		__VA_ARGS__;                         \
		return 0;                            \
	}

/* clang-format 14 formats the pointer types in `parameters` as multiplications. */
/* clang-format off */

/* -- fused ------------------------------------------------------------- */

/*
 * A global function's return costs as much as three elements if the kernel guards returns. FP32's bodies of
 * fpisa/lookup32.h, which have no masks, are therefore inline in the loops over blocks. The other families use
 * functions, because the verifier rejects a program with the loops of several formats.
 */
#if FAMILY_BYTES == 4
#define FUSED_FN static __always_inline
#else
#define FUSED_FN GLOBAL_FN
#endif
#if FAMILY_BYTES == 4 && !FAMILY_LIMBS
#define FUSED_SET_FN static __always_inline
#else
#define FUSED_SET_FN GLOBAL_FN
#endif
#if FAMILY_BYTES == 4 && FAMILY_RBITS == 32
#define FUSED_A_FN static __always_inline
#else
#define FUSED_A_FN GLOBAL_FN
#endif

BLOCK_FN(FUSED_SET_FN int, fused_set_block, in && e && m,
	(const struct words *in, struct fpisa_exp_block *e, man_block *m, __u32 fmt),
	set_values(in, e, m, FORMAT(fmt)))

/* Return whether the family has its own body for adds whose events are not counted. */
#define FUSED_UNCOUNTED (FAMILY_BYTES == 4 && FAMILY_RBITS == 32)

BLOCK_FN(FUSED_FN __u64, fused_add_block, in && e && m,
	(const struct words *in, struct fpisa_exp_block *e, man_block *m, __u32 fmt, __u32 counted),
	KEEP_ARGUMENT(counted); return add_values(in, e, m, FORMAT(fmt), counted))

BLOCK_FN(FUSED_A_FN __u64, fused_add_a_block, in && e && m,
	(const struct words *in, struct fpisa_exp_block *e, man_block *m, __u32 fmt),
	return add_values_a(in, e, m, FORMAT(fmt)))

/*
 * By default FP32 is rounded down, so only the body that rounds down is inline in the loop over blocks. The verifier
 * rejects a loop with both bodies.
 */
#if FAMILY_BYTES == 4 && FAMILY_RBITS == 32
#define READ_FN static __always_inline
#else
#define READ_FN GLOBAL_FN
#endif

BLOCK_FN(READ_FN __u32, read_down_block, out && e && m,
	(struct words *out, const struct fpisa_exp_block *e, const man_block *m, __u32 fmt, __u32 all),
	KEEP_ARGUMENT(all); return read_values(out, e, m, fmt, FPISA_ROUND_DOWN, all))

BLOCK_FN(GLOBAL_FN __u32, read_near_block, out && e && m,
	(struct words *out, const struct fpisa_exp_block *e, const man_block *m, __u32 fmt, __u32 all),
	KEEP_ARGUMENT(all); return read_values(out, e, m, fmt, FPISA_ROUND_NEAREST, all))

/* -- staged ------------------------------------------------------------ */

/*
 * The stages of fpisa/lanes.h have no masks, so units.h contains them without a call for each block. If the kernel
 * guards returns (safe RET), a call takes some 10 ns, as long as a stage takes for ten elements. The functions below
 * are the remaining stages.
 */

/* Run MAU1 on a block with special values. */
BLOCK_FN(GLOBAL_FN int, mau1_block, p, (phv_block *p, __u32 fmt),
	fpisa_stage1(FPISA_PHV(p), FORMAT(fmt)))

BLOCK_FN(GLOBAL_FN int, mau2_first_block, p && e, (phv_block *p, struct fpisa_exp_block *e),
	stage2_first(FPISA_PHV(p), e))

BLOCK_FN(GLOBAL_FN int, mau2_a_block, p && e, (phv_block *p, struct fpisa_exp_block *e, __u32 fmt),
	stage2_a(FPISA_PHV(p), e, FORMAT(fmt)))

BLOCK_FN(GLOBAL_FN __u64, mau3_a_block, p, (phv_block *p, __u32 fmt),
	return stage3_a(FPISA_PHV(p), FORMAT(fmt)))

BLOCK_FN(GLOBAL_FN int, mau4_first_block, p && m, (phv_block *p, man_block *m, __u32 fmt),
	stage4_first(FPISA_PHV(p), m, FORMAT(fmt)))

BLOCK_FN(GLOBAL_FN __u64, mau4_checked_block, p && m, (phv_block *p, man_block *m, __u32 fmt),
	return stage4_checked(FPISA_PHV(p), m, FORMAT(fmt)))

BLOCK_FN(GLOBAL_FN __u64, mau4_a_block, p && m, (phv_block *p, man_block *m, __u32 fmt),
	return stage4_a(FPISA_PHV(p), m, FORMAT(fmt)))

BLOCK_FN(GLOBAL_FN int, mau5_block, e && m && p,
	(const struct fpisa_exp_block *e, const man_block *m, phv_block *p, __u32 fmt, __u64 factor),
	KEEP_ARGUMENT(factor); stage5(e, m, FPISA_PHV(p), FORMAT(fmt), factor))

BLOCK_FN(GLOBAL_FN int, mau6_bits_block, p, (phv_block *p, __u32 fmt),
	fpisa_stage6(FPISA_PHV(p), FORMAT(fmt), clz_bits))

BLOCK_FN(GLOBAL_FN int, mau6_lpm_block, p, (phv_block *p, __u32 fmt),
	fpisa_stage6(FPISA_PHV(p), FORMAT(fmt), clz_lpm))

BLOCK_FN(GLOBAL_FN int, mau7_block, p, (phv_block *p, __u32 fmt),
	fpisa_stage7(FPISA_PHV(p), FORMAT(fmt)))

BLOCK_FN(GLOBAL_FN __u32, mau8_down_block, p && out, (phv_block *p, struct words *out, __u32 fmt),
	return fpisa_stage8(FPISA_PHV(p), out, FORMAT(fmt), FPISA_ROUND_DOWN))

BLOCK_FN(GLOBAL_FN __u32, mau8_near_block, p && out, (phv_block *p, struct words *out, __u32 fmt),
	return fpisa_stage8(FPISA_PHV(p), out, FORMAT(fmt), FPISA_ROUND_NEAREST))

/* -- operations other than the sum (fpisa/op.h) ---------------------------- */

BLOCK_FN(GLOBAL_FN __u64, square_block, p, (phv_block *p, __u32 fmt),
	return fpisa_stage1_square(FPISA_PHV(p), FORMAT(fmt)))

/* Finish one lane. This is a function, because the verifier rejects the root's loop inside the loop over lanes. */
BLOCK_FN(GLOBAL_FN int, final_lane, l && fin, (struct fpisa_lane *l, const struct fpisa_final *fin, __u32 fmt),
	fpisa_finalise(l, fin, FAMILY_LIMBS > 1, FORMAT(fmt)))

GLOBAL_FN int final_block(phv_block *p, const struct fpisa_final *fin, __u32 fmt)
{
	struct fpisa_format f = FORMAT(fmt);

	if (!p || !fin)
		return 0;
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p->e[i], .m = fpisa_get_magnitude(p->m, i, f), .sign = p->d[i] >> 15};

		final_lane(&l, fin, fmt);
		p->e[i] = (__u16)l.e;
		fpisa_put_man(p->m, i, f, l.m);
		p->d[i] = (__u16)(l.sign << 15);
	}
	return 0;
}

/*
 * Run MAU5 and the division of one lane. This is a function for the same reason. `how` is the format, and the divisor
 * above it: the kernel 6.1 allows the programs of a call 512 bytes of stack in all.
 */
GLOBAL_FN int average_lane(struct fpisa_lane *l, const man_block *m, __u32 i, __u64 how)
{
	KEEP_ARGUMENT(how);
	if (!l || !m || i >= FPISA_BLOCK)
		return 0;
	average(l, m, i, how >> 32, FORMAT(how));
	return 0;
}

GLOBAL_FN int average_block(const struct fpisa_exp_block *e, const man_block *m, phv_block *p, __u64 how)
{
	if (!e || !m || !p)
		return 0;
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = e->e[i]};

		average_lane(&l, m, (__u32)i, how);
		p->e[i] = (__u16)l.e;
		fpisa_put_man(p->m, i, (struct fpisa_format){.rbits = FAMILY_RBITS}, l.m);
		p->d[i] = (__u16)(l.sign << 15);
	}
	return 0;
}

/* Encodings read the format at run time, because family 0 also serves int32. */
BLOCK_FN(GLOBAL_FN int, encode_block, in && p, (const struct words *in, phv_block *p, __u32 fmt),
	fpisa_stage0_encode(in, FPISA_PHV(p), unpack_format(fmt)))

BLOCK_FN(GLOBAL_FN int, first_encoded_block, p && m, (phv_block *p, man_block *m, __u32 fmt),
	fpisa_stage4_first(FPISA_PHV(p), m, unpack_format(fmt)))

BLOCK_FN(GLOBAL_FN __u64, combine_block, p && m, (phv_block *p, man_block *m, __u32 fmt, __u32 op),
	return fpisa_stage4_combine(FPISA_PHV(p), m, unpack_format(fmt), op))

BLOCK_FN(GLOBAL_FN int, load_encoded_block, m && p, (const man_block *m, phv_block *p, __u32 fmt),
	fpisa_stage5_encoded(m, FPISA_PHV(p), unpack_format(fmt)))

BLOCK_FN(GLOBAL_FN __u32, decode_block, p && out, (phv_block *p, struct words *out, __u32 fmt),
	return fpisa_stage8_decode(FPISA_PHV(p), out, unpack_format(fmt)))

BLOCK_FN(GLOBAL_FN int, swap_block, w, (struct words *w, __u32 fmt),
	fpisa_swap_block(w, unpack_format(fmt)))

/* -- shared exponents (fpisa/mx.h) ------------------------------------------ */

BLOCK_FN(GLOBAL_FN int, mx0_block, in && scale && p,
	(const struct words *in, const __u8 *scale, phv_block *p, __u32 fmt),
	fpisa_mx_stage0(in, *scale, FPISA_PHV(p), unpack_format(fmt)))

BLOCK_FN(GLOBAL_FN int, mx1_block, p, (phv_block *p, __u32 fmt),
	fpisa_mx_stage1(FPISA_PHV(p), unpack_format(fmt)))

BLOCK_FN(GLOBAL_FN int, mx7_block, p, (phv_block *p, __u32 fmt),
	fpisa_mx_stage7(FPISA_PHV(p), unpack_format(fmt)))

BLOCK_FN(GLOBAL_FN __u32, mx8_down_block, p && out && scale,
	(phv_block *p, struct words *out, __u8 *scale, __u32 fmt),
	return fpisa_mx_stage8(FPISA_PHV(p), out->w, scale, unpack_format(fmt), FPISA_ROUND_DOWN))

BLOCK_FN(GLOBAL_FN __u32, mx8_near_block, p && out && scale,
	(phv_block *p, struct words *out, __u8 *scale, __u32 fmt),
	return fpisa_mx_stage8(FPISA_PHV(p), out->w, scale, unpack_format(fmt), FPISA_ROUND_NEAREST))

/* clang-format on */

/* -- bits that an add discards (fpisa/discard.h) ---------------------------------- */

/* Bit of `fmt` for mode fpisa-a. */
#define DISCARD_A 0x80000000u

GLOBAL_FN int discard_block(const phv_block *p, const struct fpisa_exp_block *e, const man_block *m,
			    struct fpisa_histogram *h, __u32 fmt)
{
	enum fpisa_mode mode = fmt & DISCARD_A ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA;
	struct fpisa_format f = FORMAT(fmt);

	if (!p || !e || !m || !h)
		return 0;
	FPISA_EACH(i) {
		__u32 at = fpisa_discarded(p->e[i], fpisa_get_man(p->m, i, f), e->e[i], fpisa_get_man(m, i, f), f, mode);

		/*
		 * Hide `at` from clang. Otherwise clang merges the two tests into one test of `at` - 1, and the
		 * verifier of 6.1 finds no bound for `at`.
		 */
		if (!at)
			continue;
		fpisa_opaque(at);
		if (at < FPISA_BUCKETS)
			__sync_fetch_and_add(&h->bucket[at], 1);
	}
	return 0;
}

#endif
