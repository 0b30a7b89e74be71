/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Compositions of the nine units over a block of 32 elements.
 *
 * A block is what the verifier sees at a time: one bounds check, one call of
 * a global function, one loop of constant length. The fused composition runs
 * MAU0..4 (or MAU5..8) on each element with the PHV in registers; the staged
 * one runs one unit over the block and keeps the PHV in memory between the
 * units. Same functions, same order, same bits.
 *
 * Registers (paper, section 3.1): exponents and signed mantissas stand in
 * two separate arrays.
 */
#ifndef FPISA_BLOCK_H
#define FPISA_BLOCK_H

#include "mau.h"

#define FPISA_BLOCK 32 /* elements */

/* The exponent register array, one block. */
struct fpisa_exp_block {
	__u16 e[FPISA_BLOCK];
};

/* The mantissa register array, one block, R = 32. */
struct fpisa_man_block {
	__s32 m[FPISA_BLOCK];
};

/* Packed values as they lie in the frame. */
struct fpisa_word_block {
	__u32 w[FPISA_BLOCK];
} __attribute__((packed, aligned(4)));

/*
 * The PHV of one block, as the stages hand it on:
 *
 *	     e			m		     d
 *	MAU0 exponent field	fraction | sign<<31
 *	MAU1 exponent | sticky	signed mantissa
 *	MAU2 same		same		     in (low byte), st (high byte)
 *	MAU3 same		aligned mantissa     same
 *	MAU4 -			-		     -
 *	MAU5 register		magnitude	     sign<<15
 *	MAU6 same		normalised	     sign<<15 | leading zeros
 *	MAU7 packed field	same		     sign<<15 | dn
 */
struct fpisa_phv_block {
	__u16 e[FPISA_BLOCK];
	__u16 d[FPISA_BLOCK];
	__s32 m[FPISA_BLOCK];
};

#define FPISA_D_SIGN 0x8000u
#define FPISA_D_LOW 0x00ffu

/*
 * Keeps clang from unrolling: an unrolled body of masks is what old
 * verifiers call too large and what makes 6.18.44's crash.
 */
#ifdef __clang__
#define FPISA_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define FPISA_ROLLED
#endif

#define FPISA_EACH(i) FPISA_ROLLED for (int i = 0; i < FPISA_BLOCK; i++)

/* -- fused ------------------------------------------------------------- */

/* MAU0..4, first contribution: the registers take the decoded values. */
static __always_inline void fpisa_block_set(const struct fpisa_word_block *in, struct fpisa_exp_block *e,
					    struct fpisa_man_block *m, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = { .word = in->w[i] };

		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		e->e[i] = fpisa_mau2_first(&l);
		m->m[i] = (__s32)l.m;
	}
}

/* MAU0..4, further contributions. Returns the events of this block. */
static __always_inline __u64 fpisa_block_add(const struct fpisa_word_block *in, struct fpisa_exp_block *e,
					     struct fpisa_man_block *m, struct fpisa_format f,
					     enum fpisa_mode mode)
{
	__u64 events = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = { .word = in->w[i], .events = events };

		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		e->e[i] = fpisa_mau2_exponent(&l, e->e[i], f, mode);
		fpisa_mau3_align(&l, f, mode);
		m->m[i] = (__s32)fpisa_mau4_add(&l, m->m[i], f, mode);
		events = l.events;
	}
	return events;
}

/*
 * MAU5..8: registers to packed values; clz(x) is the match of MAU6. Returns
 * the result flags of this block. A macro, for the match is a map look-up in
 * one program and arithmetic in the other.
 */
#define fpisa_block_read(out, ereg, mreg, f, rounding, clz)                          \
	({                                                                           \
		__u32 __flags = 0;                                                   \
		FPISA_EACH(__i) {                                                    \
			struct fpisa_lane __l = { .m = (mreg)->m[__i], .e = (ereg)->e[__i], \
						  .flags = __flags };                \
			__u32 __lz;                                                  \
			fpisa_mau5_sign(&__l);                                       \
			__lz = clz((__u32)__l.m);                                    \
			fpisa_mau6_normalise(&__l, f, __lz);                         \
			fpisa_mau7_exponent(&__l, f, __lz);                          \
			fpisa_mau8_assemble(&__l, f, rounding);                      \
			(out)->w[__i] = (__u32)__l.word;                             \
			__flags = __l.flags;                                         \
		}                                                                    \
		__flags;                                                             \
	})

/* -- staged ------------------------------------------------------------ */

static __always_inline void fpisa_stage0(const struct fpisa_word_block *in, struct fpisa_phv_block *p,
					 struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = { .word = in->w[i] };

		fpisa_mau0_extract(&l, f);
		p->e[i] = (__u16)l.e;
		p->m[i] = (__s32)l.m;
	}
}

static __always_inline void fpisa_stage1(struct fpisa_phv_block *p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = { .e = p->e[i], .m = p->m[i] };

		fpisa_mau1_implied_one(&l, f);
		p->e[i] = (__u16)l.e;
		p->m[i] = (__s32)l.m;
	}
}

static __always_inline void fpisa_stage2_first(struct fpisa_phv_block *p, struct fpisa_exp_block *e)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = { .e = p->e[i] };

		e->e[i] = fpisa_mau2_first(&l);
		p->d[i] = (__u16)(l.st << 8);
	}
}

static __always_inline void fpisa_stage2(struct fpisa_phv_block *p, struct fpisa_exp_block *e,
					 struct fpisa_format f, enum fpisa_mode mode)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = { .e = p->e[i] };

		e->e[i] = fpisa_mau2_exponent(&l, e->e[i], f, mode);
		p->d[i] = (__u16)((__u8)l.in | l.st << 8);
	}
}

static __always_inline __u64 fpisa_stage3(struct fpisa_phv_block *p, struct fpisa_format f, enum fpisa_mode mode)
{
	__u64 events = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = { .m = p->m[i], .in = (__s8)p->d[i], .events = events };

		fpisa_mau3_align(&l, f, mode);
		p->m[i] = (__s32)l.m;
		events = l.events;
	}
	return events;
}

static __always_inline void fpisa_stage4_first(const struct fpisa_phv_block *p, struct fpisa_man_block *m)
{
	FPISA_EACH(i)
		m->m[i] = p->m[i];
}

static __always_inline __u64 fpisa_stage4(const struct fpisa_phv_block *p, struct fpisa_man_block *m,
					  struct fpisa_format f, enum fpisa_mode mode)
{
	__u64 events = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = { .m = p->m[i], .st = p->d[i] >> 8, .events = events };

		m->m[i] = (__s32)fpisa_mau4_add(&l, m->m[i], f, mode);
		events = l.events;
	}
	return events;
}

static __always_inline void fpisa_stage5(const struct fpisa_exp_block *e, const struct fpisa_man_block *m,
					 struct fpisa_phv_block *p)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = { .m = m->m[i] };

		fpisa_mau5_sign(&l);
		p->e[i] = e->e[i];
		p->m[i] = (__s32)l.m;
		p->d[i] = (__u16)(l.sign << 15);
	}
}

/* As fpisa_block_read: clz(x) is the match. */
#define fpisa_stage6(p, f, clz)                                                   \
	({                                                                        \
		FPISA_EACH(__i) {                                                 \
			struct fpisa_lane __l = { .m = (__u32)(p)->m[__i] };      \
			__u32 __lz = clz((__u32)__l.m);                           \
			fpisa_mau6_normalise(&__l, f, __lz);                      \
			(p)->m[__i] = (__s32)__l.m;                               \
			(p)->d[__i] |= (__u16)__lz;                               \
		}                                                                 \
	})

static __always_inline void fpisa_stage7(struct fpisa_phv_block *p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = { .e = p->e[i] };

		fpisa_mau7_exponent(&l, f, p->d[i] & FPISA_D_LOW);
		p->e[i] = (__u16)l.e;
		p->d[i] = (__u16)((p->d[i] & FPISA_D_SIGN) | l.dn);
	}
}

static __always_inline __u32 fpisa_stage8(const struct fpisa_phv_block *p, struct fpisa_word_block *out,
					  struct fpisa_format f, enum fpisa_rounding rounding)
{
	__u32 flags = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = { .m = (__u32)p->m[i], .e = p->e[i], .sign = p->d[i] >> 15,
					.dn = p->d[i] & FPISA_D_LOW, .flags = flags };

		fpisa_mau8_assemble(&l, f, rounding);
		out->w[i] = (__u32)l.word;
		flags = l.flags;
	}
	return flags;
}

#endif
