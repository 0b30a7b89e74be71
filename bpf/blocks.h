/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Element loops as the verifier likes them: non-inlined global functions
 * over one block of 32 elements. Each is verified once, however many
 * programs and loops call it; inlined, the same loops exceed a million
 * instructions on 6.1 and crash the verifier of 6.18.44.
 *
 * Global functions take pointers to memory of known size, which may be NULL
 * as far as the verifier knows. `fmt` is the packed format (family.h).
 */
#ifndef FPISA_BPF_BLOCKS_H
#define FPISA_BPF_BLOCKS_H

#include "family.h"
#include "fpisa/lanes.h"
#include "fpisa/lookup32.h"
#include "fpisa/lookup_read.h"

/* A look-up visits a node for each leading zero: the four that a sum of few values has in its headroom are skipped. */
static __always_inline __u32 clz32_lpm(__u32 x)
{
	__u32 skip = 4 & (__u32)(fpisa_any(x >> 28) - 1);
	struct fpisa_lpm_key key = { .prefixlen = 32, .addr = bpf_htonl(x << skip) };
	__u32 *lz = bpf_map_lookup_elem(&fpisa_lpm, &key);

	return lz ? *lz + skip : 32;
}

static const __u8 clz_of[FPISA_WINDOWS] = FPISA_CLZ_OF_WINDOWS;

GLOBAL_FN __u32 clz32_bytes(__u32 x)
{
	struct fpisa_lpm_key key = { .prefixlen = 32, .addr = bpf_htonl(x) };
	__u32 *skip = bpf_map_lookup_elem(&fpisa_lpm_byte, &key);

	return fpisa_clz32_window(x, skip ? *skip : 0, clz_of);
}

#if FAMILY_RBITS == 32
#define clz_lpm(x) clz32_lpm((__u32)(x))
#define clz_bytes(x) clz32_bytes((__u32)(x))
#define clz_bits(x) fpisa_clz32_bits(x)
#else
/* A register of 64 bits is matched by halves. */
static __always_inline __u32 clz_lpm(__u64 x)
{
	return x >> 32 ? clz32_lpm((__u32)(x >> 32)) : 32 + clz32_lpm((__u32)x);
}

static __always_inline __u32 clz_bytes(__u64 x)
{
	return x >> 32 ? clz32_bytes((__u32)(x >> 32)) : 32 + clz32_bytes((__u32)x);
}
#define clz_bits(x) fpisa_clz64_bits(x)
#endif

/* `lpm-byte`: the table where sums are, else the trie. */
static __always_inline __u32 clz_near(__u64 x, struct fpisa_format f)
{
	__u64 w = x >> fpisa_window_at(f);

	return fpisa_likely(w && w < FPISA_WINDOWS) ? fpisa_clz_near((__u32)w, f, clz_of) : clz_bytes(x);
}

#define clz_byte(x) clz_near(x, f)

/* What a family composes: registers of one mantissa, or superaccumulators. */
#if FAMILY_LIMBS
#if FAMILY_LIMBS == 8
struct accumulator {
	__s64 limb[FPISA_LIMBS];
};

GLOBAL_FN int collapse(struct fpisa_lane *l, const struct accumulator *acc, __u64 factor)
{
	if (!l || !acc)
		return 0;
	fpisa_exact_mau5(l, acc->limb, FPISA_LIMBS, factor);
	return 0;
}

#define COLLAPSE(l, acc, n, factor) collapse(l, (struct accumulator *)(acc), factor)
#else
#define COLLAPSE fpisa_exact_mau5
#endif
#define SET(in, e, m, f) fpisa_exact_set(in, e, m, FAMILY_LIMBS, f)
#if FAMILY_LIMBS == 8 && FAMILY_BYTES == 4
static const struct fpisa_places places = FPISA_PLACES;
#define ADD(in, e, m, f, counted) ((void)(f), (void)(counted), fpisa_look_exact32(in, e, m, &places), 0)
#else
#define ADD(in, e, m, f, counted) ((void)(counted), fpisa_look_exact(in, e, m, FAMILY_LIMBS, f), 0)
#endif
#define ADD_A(in, e, m, f) ADD(in, e, m, f, 1)
#define READ(out, e, m, f, rounding) fpisa_exact_read(out, e, m, FAMILY_LIMBS, f, rounding, clz_bits, COLLAPSE)
#define STAGE2_FIRST(p, e) fpisa_exact_stage2(p, e, FAMILY_LIMBS, 1)
#define STAGE2(p, e, f) ((void)(f), fpisa_exact_stage2(p, e, FAMILY_LIMBS, 0))
#define STAGE2_A STAGE2
#define STAGE3(p, f) (fpisa_exact_stage3(p, f), 0)
#define STAGE3_A STAGE3
#define STAGE4_FIRST(p, m, f) fpisa_exact_stage4(p, m, FAMILY_LIMBS, f, 1)
#define STAGE4(p, m, f) (fpisa_exact_stage4(p, m, FAMILY_LIMBS, f, 0), 0)
#define STAGE4_CHECKED STAGE4
#define STAGE4_A STAGE4
#define STAGE5(e, m, p, f, factor) fpisa_exact_stage5(e, m, FAMILY_LIMBS, p, f, factor, COLLAPSE)
#else
#define SET fpisa_block_set
#if FAMILY_BYTES == 8
static const struct fpisa_wide by_exponents = FPISA_WIDE_64;
#define ADD(in, e, m, f, counted) ((void)(counted), fpisa_look_add_wide(in, e, (m)->m, f, &by_exponents))
#else
static const struct fpisa_narrow by_exponents =
#if FAMILY_RBITS == 32
	FPISA_NARROW_32;
#else
	FPISA_NARROW_64;
#endif
#if FAMILY_BYTES == 4 && FAMILY_RBITS == 32
static const struct fpisa_match32 by_word = FPISA_MATCH32;
#define ADD(in, e, m, f, counted) ((void)(f), fpisa_look_add32(in, e, (__u32 *)(m)->m, &by_word, counted))
#else
#define ADD(in, e, m, f, counted) ((void)(counted), fpisa_look_add(in, e, (m)->m, f, &by_exponents))
#endif
#endif
#if FAMILY_RBITS == 32
#define ADD_A(in, e, m, f) fpisa_look_add_a(in, e, (__u32 *)(m)->m, f, &by_exponents)
#else
#define ADD_A(in, e, m, f) fpisa_block_add(in, e, m, f, FPISA_MODE_FPISA_A)
#endif
#define UNITS(lanes) read_lanes(out, e, m, fmt, lanes)
#define READ(out, e, regs, f, rounding) fpisa_look_read(out, e, (regs)->m, f, rounding, clz_of, all, UNITS)
#define STAGE2_FIRST fpisa_stage2_first
#define STAGE2 fpisa_lanes_stage2
#define STAGE2_A(p, e, f) fpisa_stage2(p, e, f, FPISA_MODE_FPISA_A)
#define STAGE3 fpisa_lanes_stage3
#define STAGE3_A(p, f) fpisa_stage3(p, f, FPISA_MODE_FPISA_A)
#define STAGE4_FIRST fpisa_stage4_first
#define STAGE4 fpisa_lanes_stage4
#define STAGE4_CHECKED(p, m, f) fpisa_stage4(p, m, f, FPISA_MODE_FPISA)
#define STAGE4_A(p, m, f) fpisa_stage4(p, m, f, FPISA_MODE_FPISA_A)
#define STAGE5(e, m, p, f, factor) fpisa_stage5(e, m, p, f)
#endif

/* -- fused ------------------------------------------------------------- */

GLOBAL_FN int fused_set_block(const struct words *in, struct fpisa_exp_block *e, man_block *m, __u32 fmt)
{
	if (!in || !e || !m)
		return 0;
	SET(in, e, m, FORMAT(fmt));
	return 0;
}

/*
 * A global function's return costs as much as three elements where the kernel
 * guards returns. FP32's bodies, which have no masks, stand in the loops over
 * blocks; several formats in one program are more than a verifier takes.
 */
#if FAMILY_BYTES == 4 && (FAMILY_RBITS == 32 || FAMILY_LIMBS)
#define FUSED_FN static __always_inline
#else
#define FUSED_FN GLOBAL_FN
#endif

/* Has the family a body of its own for adds whose events are not counted? */
#define FUSED_UNCOUNTED (FAMILY_BYTES == 4 && FAMILY_RBITS == 32)

FUSED_FN __u64 fused_add_block(const struct words *in, struct fpisa_exp_block *e, man_block *m, __u32 fmt,
			       __u32 counted)
{
	asm volatile("" : : "r"(counted));
	if (!in || !e || !m)
		return 0;
	return ADD(in, e, m, FORMAT(fmt), counted);
}

GLOBAL_FN __u64 fused_add_a_block(const struct words *in, struct fpisa_exp_block *e, man_block *m, __u32 fmt)
{
	if (!in || !e || !m)
		return 0;
	return ADD_A(in, e, m, FORMAT(fmt));
}

/* Beside the format in `fmt`: round to nearest; ask the trie of bytes, not registers, for leading zeros. */
#define READ_NEAREST 0x40000000u
#define READ_BYTES 0x80000000u

#if !FAMILY_LIMBS
/* Lane i by the units, as staged programs do it. Returns its flags. */
GLOBAL_FN __u32 read_lane(struct words *out, const struct fpisa_exp_block *e, const man_block *m, __u32 fmt, __u32 i)
{
	struct fpisa_format f = FORMAT(fmt);
	struct fpisa_lane l = {};
	__u32 lz;

	if (!out || !e || !m || i >= FPISA_BLOCK)
		return 0;
	l.m = fpisa_get_man(m->m, i, f);
	l.e = e->e[i];
	fpisa_mau5_sign(&l);
	lz = fmt & READ_BYTES ? clz_byte((__u64)l.m) : clz_bits((__u64)l.m);
	fpisa_mau6_normalise(&l, f, lz);
	fpisa_mau7_exponent(&l, f, lz);
	if (fmt & READ_NEAREST)
		fpisa_mau8_assemble(&l, f, FPISA_ROUND_NEAREST);
	else
		fpisa_mau8_assemble(&l, f, FPISA_ROUND_DOWN);
	fpisa_put_word(out, i, f, l.word);
	return l.flags;
}

GLOBAL_FN __u32 read_lanes(struct words *out, const struct fpisa_exp_block *e, const man_block *m, __u32 fmt,
			   __u32 lanes)
{
	__u32 flags = 0;

	FPISA_EACH(i) {
		if (lanes >> i & 1)
			flags |= read_lane(out, e, m, fmt, i);
	}
	return flags;
}
#endif

/* By default FP32 is rounded down, so that body stands in the loop over blocks; both are more than a verifier takes. */
#if FAMILY_BYTES == 4 && FAMILY_RBITS == 32
#define READ_FN static __always_inline
#else
#define READ_FN GLOBAL_FN
#endif

/* `all` is a bit for each lane, as lookup_read.h wants them. */
READ_FN __u32 read_down_block(struct words *out, const struct fpisa_exp_block *e, const man_block *m, __u32 fmt,
			      __u32 all)
{
	struct fpisa_format f = FORMAT(fmt);

	asm volatile("" : : "r"(all));
	if (!out || !e || !m)
		return 0;
	return READ(out, e, m, f, FPISA_ROUND_DOWN);
}

GLOBAL_FN __u32 read_near_block(struct words *out, const struct fpisa_exp_block *e, const man_block *m, __u32 fmt,
				__u32 all)
{
	struct fpisa_format f = FORMAT(fmt);

	asm volatile("" : : "r"(all));
	if (!out || !e || !m)
		return 0;
	return READ(out, e, m, f, FPISA_ROUND_NEAREST);
}

/* -- staged ------------------------------------------------------------ */

/*
 * Stages of fpisa/lanes.h have no masks and stand in units.h without a call a
 * block: where the kernel guards returns (safe RET), a call is some 10 ns, as
 * long as a stage takes for ten elements. Here is what they leave over.
 */

/* A block with special values. */
GLOBAL_FN int mau1_block(phv_block *p, __u32 fmt)
{
	if (!p)
		return 0;
	fpisa_stage1(FPISA_PHV(p), FORMAT(fmt));
	return 0;
}

GLOBAL_FN int mau2_first_block(phv_block *p, struct fpisa_exp_block *e)
{
	if (!p || !e)
		return 0;
	STAGE2_FIRST(FPISA_PHV(p), e);
	return 0;
}

GLOBAL_FN int mau2_a_block(phv_block *p, struct fpisa_exp_block *e, __u32 fmt)
{
	if (!p || !e)
		return 0;
	STAGE2_A(FPISA_PHV(p), e, FORMAT(fmt));
	return 0;
}

GLOBAL_FN __u64 mau3_a_block(phv_block *p, __u32 fmt)
{
	if (!p)
		return 0;
	return STAGE3_A(FPISA_PHV(p), FORMAT(fmt));
}

GLOBAL_FN int mau4_first_block(phv_block *p, man_block *m, __u32 fmt)
{
	if (!p || !m)
		return 0;
	STAGE4_FIRST(FPISA_PHV(p), m, FORMAT(fmt));
	return 0;
}

GLOBAL_FN __u64 mau4_checked_block(phv_block *p, man_block *m, __u32 fmt)
{
	if (!p || !m)
		return 0;
	return STAGE4_CHECKED(FPISA_PHV(p), m, FORMAT(fmt));
}

GLOBAL_FN __u64 mau4_a_block(phv_block *p, man_block *m, __u32 fmt)
{
	if (!p || !m)
		return 0;
	return STAGE4_A(FPISA_PHV(p), m, FORMAT(fmt));
}

/* `factor` is what a superaccumulator multiplies by on the way; other registers leave that to finish_block(). */
GLOBAL_FN int mau5_block(const struct fpisa_exp_block *e, const man_block *m, phv_block *p, __u32 fmt,
			 __u64 factor)
{
	asm volatile("" : : "r"(factor));
	if (!e || !m || !p)
		return 0;
	STAGE5(e, m, FPISA_PHV(p), FORMAT(fmt), factor);
	return 0;
}

GLOBAL_FN int mau6_bits_block(phv_block *p, __u32 fmt)
{
	struct fpisa_format f = FORMAT(fmt);

	if (!p)
		return 0;
	fpisa_stage6(FPISA_PHV(p), f, clz_bits);
	return 0;
}

GLOBAL_FN int mau6_lpm_block(phv_block *p, __u32 fmt)
{
	struct fpisa_format f = FORMAT(fmt);

	if (!p)
		return 0;
	fpisa_stage6(FPISA_PHV(p), f, clz_lpm);
	return 0;
}

GLOBAL_FN int mau6_byte_block(phv_block *p, __u32 fmt)
{
	struct fpisa_format f = FORMAT(fmt);

	if (!p)
		return 0;
	fpisa_stage6(FPISA_PHV(p), f, clz_byte);
	return 0;
}

GLOBAL_FN int mau7_block(phv_block *p, __u32 fmt)
{
	if (!p)
		return 0;
	fpisa_stage7(FPISA_PHV(p), FORMAT(fmt));
	return 0;
}

GLOBAL_FN __u32 mau8_down_block(phv_block *p, struct words *out, __u32 fmt)
{
	if (!p || !out)
		return 0;
	return fpisa_stage8(FPISA_PHV(p), out, FORMAT(fmt), FPISA_ROUND_DOWN);
}

GLOBAL_FN __u32 mau8_near_block(phv_block *p, struct words *out, __u32 fmt)
{
	if (!p || !out)
		return 0;
	return fpisa_stage8(FPISA_PHV(p), out, FORMAT(fmt), FPISA_ROUND_NEAREST);
}

/* -- operations other than the sum (fpisa/op.h) ---------------------------- */

GLOBAL_FN __u64 square_block(phv_block *p, __u32 fmt)
{
	if (!p)
		return 0;
	return fpisa_stage1_square(FPISA_PHV(p), FORMAT(fmt));
}

/* A lane at a time: the root's loop within that of the lanes is more than a verifier takes. */
GLOBAL_FN int finish_lane(struct fpisa_lane *l, const struct fpisa_finish *fin, __u32 fmt)
{
	if (!l || !fin)
		return 0;
	fpisa_finish(l, fin, FAMILY_LIMBS == FPISA_LIMBS, FORMAT(fmt));
	return 0;
}

GLOBAL_FN int finish_block(phv_block *p, const struct fpisa_finish *fin, __u32 fmt)
{
	struct fpisa_format f = FORMAT(fmt);

	if (!p || !fin)
		return 0;
	FPISA_EACH(i) {
		struct fpisa_lane l = { .e = p->e[i], .m = fpisa_get_magnitude(p->m, i, f), .sign = p->d[i] >> 15 };

		finish_lane(&l, fin, fmt);
		p->e[i] = (__u16)l.e;
		fpisa_put_man(p->m, i, f, l.m);
		p->d[i] = (__u16)(l.sign << 15);
	}
	return 0;
}

/* Encodings ask for the format at run time: int32 is family 0's too. */
GLOBAL_FN int encode_block(const struct words *in, phv_block *p, __u32 fmt)
{
	if (!in || !p)
		return 0;
	fpisa_stage0_encode(in, FPISA_PHV(p), unpack_format(fmt));
	return 0;
}

GLOBAL_FN int first_encoded_block(phv_block *p, man_block *m, __u32 fmt)
{
	if (!p || !m)
		return 0;
	fpisa_stage4_first(FPISA_PHV(p), m, unpack_format(fmt));
	return 0;
}

GLOBAL_FN __u64 combine_block(phv_block *p, man_block *m, __u32 fmt, __u32 op)
{
	if (!p || !m)
		return 0;
	return fpisa_stage4_combine(FPISA_PHV(p), m, unpack_format(fmt), op);
}

GLOBAL_FN int load_encoded_block(const man_block *m, phv_block *p, __u32 fmt)
{
	if (!m || !p)
		return 0;
	fpisa_stage5_encoded(m, FPISA_PHV(p), unpack_format(fmt));
	return 0;
}

GLOBAL_FN __u32 decode_block(phv_block *p, struct words *out, __u32 fmt)
{
	if (!p || !out)
		return 0;
	return fpisa_stage8_decode(FPISA_PHV(p), out, unpack_format(fmt));
}

GLOBAL_FN int swap_block(struct words *w, __u32 fmt)
{
	if (!w)
		return 0;
	fpisa_swap_block(w, unpack_format(fmt));
	return 0;
}

/* -- shared exponents (fpisa/mx.h) ------------------------------------------ */

GLOBAL_FN int mx0_block(const struct words *in, const __u8 *scale, phv_block *p, __u32 fmt)
{
	if (!in || !scale || !p)
		return 0;
	fpisa_mx_stage0(in, *scale, FPISA_PHV(p), unpack_format(fmt));
	return 0;
}

GLOBAL_FN int mx1_block(phv_block *p, __u32 fmt)
{
	if (!p)
		return 0;
	fpisa_mx_stage1(FPISA_PHV(p), unpack_format(fmt));
	return 0;
}

GLOBAL_FN int mx7_block(phv_block *p, __u32 fmt)
{
	if (!p)
		return 0;
	fpisa_mx_stage7(FPISA_PHV(p), unpack_format(fmt));
	return 0;
}

GLOBAL_FN __u32 mx8_down_block(phv_block *p, struct words *out, __u8 *scale, __u32 fmt)
{
	if (!p || !out || !scale)
		return 0;
	return fpisa_mx_stage8(FPISA_PHV(p), out->w, scale, unpack_format(fmt), FPISA_ROUND_DOWN);
}

GLOBAL_FN __u32 mx8_near_block(phv_block *p, struct words *out, __u8 *scale, __u32 fmt)
{
	if (!p || !out || !scale)
		return 0;
	return fpisa_mx_stage8(FPISA_PHV(p), out->w, scale, unpack_format(fmt), FPISA_ROUND_NEAREST);
}

/* -- what an add discards (fpisa/discard.h) ---------------------------------- */

/* `fmt` says fpisa-a by one bit more. */
#define DISCARD_A 0x80000000u

GLOBAL_FN int discard_block(const phv_block *p, const struct fpisa_exp_block *e, const man_block *m,
			    struct fpisa_histogram *h, __u32 fmt)
{
	enum fpisa_mode mode = fmt & DISCARD_A ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA;
	struct fpisa_format f = FORMAT(fmt);

	if (!p || !e || !m || !h)
		return 0;
	FPISA_EACH(i) {
		__u32 at = fpisa_discarded(p->e[i], fpisa_get_man(p->m, i, f), e->e[i], fpisa_get_man(m, i, f), f,
					   mode);

		/* Else clang makes one test of both, of a copy of `at` less one: 6.1 then knows no bound of `at`. */
		if (!at)
			continue;
		fpisa_opaque(at);
		if (at < FPISA_BUCKETS)
			__sync_fetch_and_add(&h->bucket[at], 1);
	}
	return 0;
}

#endif
