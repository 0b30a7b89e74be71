/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The arithmetic functions of include/fpisa/ that each family uses. The conditions are constants (family.h), so an
 * object contains only its own branches. Families also differ in the functions that are inlined (blocks.h), and in the
 * payloads that they exclude (units.h).
 *
 *			add, fused		add, staged	read-out, fused		read-out, staged
 *	FP32		lookup32.h		lanes.h		lookup_read.h		block.h
 *	FP64		lookup.h, wide		lanes.h		lookup_read.h		block.h
 *	other registers	lookup.h, narrow	lanes.h		lookup_read.h		block.h
 *	exact FP32	lookup32.h		exact.h		exact.h			exact.h
 *	exact FP64	lookup.h, ..64		exact64.h	exact64.h		exact64.h
 *	exact, others	lookup.h		exact.h		exact.h			exact.h
 *
 * Mode fpisa-a uses lookup32.h for FP32, lookup.h if R = 32, else block.h; staged block.h. First contributions use
 * lookup32.h for FP32 in fused, lookup.h for exact FP64, else block.h; exact.h. Operations other than the sum (op.h)
 * and shared exponents (mx.h) go unit by unit in either pipeline (phv->by_unit). Operations that add, and sums that
 * may overflow (phv->checked), use MAU4 of block.h; in mode exact they use exact.h's as well.
 */
#ifndef FPISA_BPF_FORMS_H
#define FPISA_BPF_FORMS_H

#include "family.h"
#include "lpm.h"
#include "fpisa/lanes.h"
#include "fpisa/lookup32.h"
#include "fpisa/lookup_read.h"

/* Nonzero for mode exact, which has FAMILY_LIMBS limbs for each element in place of a mantissa. */
#define EXACT (FAMILY_LIMBS > 0)
#define EXACT64 (FAMILY_LIMBS == FPISA_LIMBS64)

/* Lookup tables. An object contains only the tables that its family uses. */
static const struct fpisa_match32 by_word = FPISA_MATCH32;
static const struct fpisa_match32_a by_word_a = FPISA_MATCH32_A;
static const struct fpisa_signs by_sign = FPISA_SIGNS;
static const struct fpisa_match32_64 by_word_64 = FPISA_MATCH32_64;
static const struct fpisa_narrow narrow32 = FPISA_NARROW_32, narrow64 = FPISA_NARROW_64;
static const struct fpisa_wide wide64 = FPISA_WIDE_64;
static const struct fpisa_places places = FPISA_PLACES;
static const __u8 clz_of_window[FPISA_WINDOWS] = FPISA_CLZ_OF_WINDOWS;

/* -- leading zeros of a register ------------------------------------------ */

/* This is a macro, because in a function clang loses the bound of a magnitude of 32 bits. */
#define clz_bits(x) (FAMILY_RBITS == 32 ? (__u32)fpisa_clz32_bits(x) : (__u32)fpisa_clz64_bits(x))

/* Return the leading zeros by the trie. Match the halves of a 64-bit register separately. */
static __always_inline __u32 clz_lpm(__u64 x)
{
	if (FAMILY_RBITS == 32)
		return clz32_lpm((__u32)x);
	return x >> 32 ? clz32_lpm((__u32)(x >> 32)) : 32 + clz32_lpm((__u32)x);
}

/* -- limbs of FP64 ---------------------------------------------------------- */

#define LIMBS64(m) ((struct fpisa_limbs64_block *)(m))

GLOBAL_FN int clear_limbs(struct fpisa_limbs64_block *a, __u32 i, __u32 from, __u32 to)
{
	if (!a)
		return 0;
	fpisa_exact64_clear(a, i, from, to);
	return 0;
}

/* Run MAU0..4 of element i unit by unit (mau.h), for values that lookup.h does not handle. */
GLOBAL_FN int add_lane(const struct words *in, struct fpisa_exp_block *e, struct fpisa_limbs64_block *a, __u32 i)
{
	struct fpisa_format f = fpisa_register(FPISA_FORMAT_FP64, FPISA_MODE_EXACT, 1);

	if (!in || !e || !a || i >= FPISA_BLOCK)
		return 0;
	fpisa_exact64_add_lane(in, e, a, i, f, clear_limbs);
	return 0;
}

/* Run MAU4 of element i. */
GLOBAL_FN int add_limbs(struct fpisa_limbs64_block *a, __u32 i, __s64 m, __u32 place, __u32 before)
{
	if (!a || i >= FPISA_BLOCK)
		return 0;
	fpisa_exact64_add_limbs(a, i, m, place, before);
	return 0;
}

/* -- MAU0..4, fused -------------------------------------------------------- */

static __always_inline void set_values(const struct words *in, struct fpisa_exp_block *e, man_block *m,
				       struct fpisa_format f)
{
	if (EXACT64)
		fpisa_look_set64(in, e, LIMBS64(m), add_lane);
	else if (EXACT)
		fpisa_exact_set(in, e, m, FAMILY_LIMBS, f);
	else if (FAMILY_BYTES == 4)
		fpisa_look_set32(in, e, m, f, FAMILY_RBITS == 32 ? &by_sign : &by_word_64.head);
	else
		fpisa_block_set(in, e, m, f);
}

/* Add the values. Return the events. Without `counted`, FP32 returns at most one event. */
static __always_inline __u64 add_values(const struct words *in, struct fpisa_exp_block *e, man_block *m,
					struct fpisa_format f, __u32 counted)
{
	if (EXACT64)
		fpisa_look_add64(in, e, LIMBS64(m), add_lane);
	else if (EXACT && FAMILY_BYTES == 4)
		fpisa_look_exact32(in, e, (void *)m, &places);
	else if (EXACT)
		fpisa_look_exact(in, e, m, FAMILY_LIMBS, f);
	else if (FAMILY_BYTES == 8)
		return fpisa_look_add_wide(in, e, m, f, &wide64);
	else if (FAMILY_BYTES == 4 && FAMILY_RBITS == 32)
		return fpisa_look_add32(in, e, (void *)m, &by_word, counted);
	else if (FAMILY_BYTES == 4)
		return fpisa_look_add32_64(in, e, (void *)m, f, &by_word_64);
	else
		return fpisa_look_add(in, e, m, f, FAMILY_RBITS == 32 ? &narrow32 : &narrow64);
	return 0;
}

static __always_inline __u64 add_values_a(const struct words *in, struct fpisa_exp_block *e, man_block *m,
					  struct fpisa_format f)
{
	if (EXACT)
		return add_values(in, e, m, f, 1);
	if (FAMILY_BYTES == 4 && FAMILY_RBITS == 32)
		return fpisa_look_add32_a(in, e, (void *)m, &by_word_a);
	if (FAMILY_RBITS == 32)
		return fpisa_look_add_a(in, e, (void *)m, f, &narrow32);
	return fpisa_block_add(in, e, m, f, FPISA_MODE_FPISA_A);
}

/* -- MAU2..5, staged; MAU0, 1, 6, 7 and 8 are the same in all families ------ */

static __always_inline void stage2_first(struct fpisa_phv_ref p, struct fpisa_exp_block *e)
{
	if (EXACT64)
		fpisa_exact64_stage2(p, e, fpisa_register(FPISA_FORMAT_FP64, FPISA_MODE_EXACT, 1), 1);
	else if (EXACT)
		fpisa_exact_stage2(p, e, FAMILY_LIMBS, 1);
	else
		fpisa_stage2_first(p, e);
}

static __always_inline void stage2(struct fpisa_phv_ref p, struct fpisa_exp_block *e, struct fpisa_format f)
{
	if (EXACT64)
		fpisa_exact64_stage2(p, e, f, 0);
	else if (EXACT)
		fpisa_exact_stage2(p, e, FAMILY_LIMBS, 0);
	else
		fpisa_lanes_stage2(p, e, f);
}

static __always_inline void stage2_a(struct fpisa_phv_ref p, struct fpisa_exp_block *e, struct fpisa_format f)
{
	if (EXACT)
		stage2(p, e, f);
	else
		fpisa_stage2(p, e, f, FPISA_MODE_FPISA_A);
}

/* Run stage 3. Return its events. */
static __always_inline __u64 stage3(struct fpisa_phv_ref p, struct fpisa_format f)
{
	if (!EXACT)
		return fpisa_lanes_stage3(p, f);
	if (!EXACT64)
		fpisa_exact_stage3(p, f);
	return 0;
}

static __always_inline __u64 stage3_a(struct fpisa_phv_ref p, struct fpisa_format f)
{
	return EXACT ? stage3(p, f) : fpisa_stage3(p, f, FPISA_MODE_FPISA_A);
}

static __always_inline void stage4_first(struct fpisa_phv_ref p, man_block *m, struct fpisa_format f)
{
	if (EXACT64)
		fpisa_exact64_stage4(p, LIMBS64(m), f, 1, add_limbs);
	else if (EXACT)
		fpisa_exact_stage4(p, m, FAMILY_LIMBS, f, 1);
	else
		fpisa_stage4_first(p, m, f);
}

static __always_inline __u64 stage4(struct fpisa_phv_ref p, man_block *m, struct fpisa_format f)
{
	if (!EXACT)
		return fpisa_lanes_stage4(p, m, f);
	if (EXACT64)
		fpisa_exact64_stage4(p, LIMBS64(m), f, 0, add_limbs);
	else
		fpisa_exact_stage4(p, m, FAMILY_LIMBS, f, 0);
	return 0;
}

static __always_inline __u64 stage4_checked(struct fpisa_phv_ref p, man_block *m, struct fpisa_format f)
{
	return EXACT ? stage4(p, m, f) : fpisa_stage4(p, m, f, FPISA_MODE_FPISA);
}

static __always_inline __u64 stage4_a(struct fpisa_phv_ref p, man_block *m, struct fpisa_format f)
{
	return EXACT ? stage4(p, m, f) : fpisa_stage4(p, m, f, FPISA_MODE_FPISA_A);
}

struct accumulator {
	__s64 limb[FPISA_LIMBS];
};

/* Run MAU5 of one element of eight limbs. This is a function, because the verifier rejects 32 inlined copies. */
GLOBAL_FN int collapse(struct fpisa_lane *l, const struct accumulator *acc, __u64 factor)
{
	if (!l || !acc)
		return 0;
	fpisa_exact_mau5(l, acc->limb, FPISA_LIMBS, factor);
	return 0;
}

static __always_inline void collapse_lane(struct fpisa_lane *l, const __s64 *acc, int n, __u64 factor)
{
	if (n == FPISA_LIMBS)
		collapse(l, (const struct accumulator *)acc, factor);
	else
		fpisa_exact_mau5(l, acc, n, factor);
}

/*
 * Run MAU5 of element i of FP64's limbs. This is a function, because the verifier rejects a loop over the range inside
 * the loop over lanes.
 */
GLOBAL_FN int collapse64(struct fpisa_lane *l, const struct fpisa_limbs64_block *a, __u32 i, __u64 factor)
{
	if (!l || !a)
		return 0;
	if (factor == 1)
		fpisa_exact64_mau5(l, a, i, 1);
	else
		fpisa_exact64_mau5(l, a, i, factor);
	return 0;
}

/* Run fpisa_exact64_top() of element i of FP64's limbs, as collapse64() runs MAU5. */
GLOBAL_FN int top64(struct fpisa_lane *l, const struct fpisa_limbs64_block *a, __u32 i, __u64 factor,
		    struct fpisa_below *below)
{
	if (!l || !a || !below)
		return 0;
	fpisa_exact64_top(l, a, i, factor, below);
	return 0;
}

/* Run MAU5 and the division of an element for an average (op.h), in families of several limbs. */
static __always_inline void average(struct fpisa_lane *l, const man_block *m, __u32 i, __u64 d, struct fpisa_format f)
{
	if (EXACT64)
		fpisa_exact64_average(l, LIMBS64(m), i, d, f, top64);
	else if (FAMILY_LIMBS == FPISA_LIMBS)
		fpisa_exact_average(l, fpisa_limbs_of((void *)m, (int)i, FPISA_LIMBS), d, f, collapse_lane);
}

/* Run stage 5. For a superaccumulator, also multiply by `factor`. For other registers, final_block() multiplies. */
static __always_inline void stage5(const struct fpisa_exp_block *e, const man_block *m, struct fpisa_phv_ref p,
				   struct fpisa_format f, __u64 factor)
{
	if (EXACT64)
		fpisa_exact64_stage5(e, LIMBS64(m), p, f, factor, collapse64);
	else if (EXACT)
		fpisa_exact_stage5(e, m, FAMILY_LIMBS, p, f, factor, collapse_lane);
	else
		fpisa_stage5(e, m, p, f);
}

/* -- MAU5..8, fused -------------------------------------------------------- */

/* Bit of `fmt`, besides the format, that selects rounding to nearest. */
#define READ_NEAREST 0x40000000u

/* Read out lane i of the registers unit by unit, as staged programs do. Return the lane's flags. */
GLOBAL_FN __u32 read_lane(struct words *out, const struct fpisa_exp_block *e, const man_block *m, __u32 fmt, __u32 i)
{
	struct fpisa_format f = FORMAT(fmt);
	struct fpisa_lane l = {};
	__u32 lz;

	if (!out || !e || !m || i >= FPISA_BLOCK)
		return 0;
	l.m = fpisa_get_man(m, i, f);
	l.e = e->e[i];
	fpisa_mau5_sign(&l);
	lz = clz_bits((__u64)l.m);
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

/* Read out a block. `all` has a bit for each lane, as in lookup_read.h. Return the result flags. */
static __always_inline __u32 read_values(struct words *out, const struct fpisa_exp_block *e, const man_block *m,
					 __u32 fmt, enum fpisa_rounding rounding, __u32 all)
{
	struct fpisa_format f = FORMAT(fmt);

#define UNITS(lanes) read_lanes(out, e, m, fmt, lanes)
	if (!EXACT)
		return fpisa_look_read(out, e, m, f, rounding, clz_of_window, all, UNITS);
#undef UNITS
	if (EXACT64)
		return fpisa_exact64_read(out, e, LIMBS64(m), f, rounding, clz_bits, collapse64);
	return fpisa_exact_read(out, e, m, FAMILY_LIMBS, f, rounding, clz_bits, collapse_lane);
}

#endif
