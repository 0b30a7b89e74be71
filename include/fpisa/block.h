/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Compositions of the nine units over a block of 32 elements.
 *
 * A frame is processed block by block, with one bounds check and one loop of constant length for each block. The fused
 * composition runs MAU0..4 (or MAU5..8) on each element with the PHV in registers. The staged composition runs one unit
 * over the block and keeps the PHV in memory between the units. Both run the same functions in the same order, so the
 * bits are equal. bpf/forms.h decides which of these functions, or which substitutes, the kernel's programs run.
 *
 * Registers (paper, section 3.1): exponents and signed mantissas are in two separate arrays.
 */
#ifndef FPISA_BLOCK_H
#define FPISA_BLOCK_H

#include "mau.h"

#define FPISA_BLOCK 32 /* elements */

/* The exponent register array, one block. */
struct fpisa_exp_block {
	__u16 e[FPISA_BLOCK];
};

/* The mantissa register array, one block, for R = 32 and for R = 64. */
struct fpisa_man_block {
	__s32 m[FPISA_BLOCK];
};

struct fpisa_man64_block {
	__s64 m[FPISA_BLOCK];
};

/* Packed 32-bit values in the layout of a frame. */
struct fpisa_word_block {
	__u32 w[FPISA_BLOCK];
} __attribute__((packed, aligned(4)));

/*
 * The PHV of one block, which each stage passes to the next stage:
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

struct fpisa_phv64_block {
	__u16 e[FPISA_BLOCK];
	__u16 d[FPISA_BLOCK];
	__s64 m[FPISA_BLOCK];
};

/* Pointers to the PHV of a block with either register width, for the stages below. */
struct fpisa_phv_ref {
	__u16 *e;
	__u16 *d;
	void *m;
};

#define FPISA_PHV(p) ((struct fpisa_phv_ref){(p)->e, (p)->d, (p)->m})

#define FPISA_D_SIGN 0x8000u
#define FPISA_D_LOW 0x00ffu

#define FPISA_EACH(i) FPISA_ROLLED for (int i = 0; i < FPISA_BLOCK; i++)

/*
 * Access lanes of 1, 2, 4 or 8 bytes and registers of 32 or 64 bits. The format determines the widths, which are
 * constants at each call.
 */
static __always_inline __u64 fpisa_get_word(const void *in, int i, struct fpisa_format f)
{
	switch (f.bytes) {
	case 1:
		return ((const __u8 *)in)[i];
	case 2:
		return ((const __u16 *)in)[i];
	case 4:
		return ((const __u32 *)in)[i];
	default:
		return fpisa_load64((const char *)in + 8 * i);
	}
}

static __always_inline void fpisa_put_word(void *out, int i, struct fpisa_format f, __u64 word)
{
	switch (f.bytes) {
	case 1:
		((__u8 *)out)[i] = (__u8)word;
		break;
	case 2:
		((__u16 *)out)[i] = (__u16)word;
		break;
	case 4:
		((__u32 *)out)[i] = (__u32)word;
		break;
	default:
		fpisa_store64((char *)out + 8 * i, word);
	}
}

/* Swap the byte order of a block in place. */
static __always_inline void fpisa_swap_block(void *words, struct fpisa_format f)
{
	FPISA_EACH(i) {
		__u64 w = fpisa_get_word(words, i, f);

		fpisa_put_word(words, i, f,
			       f.bytes == 2 ? __builtin_bswap16((__u16)w) :
			       f.bytes == 4 ? __builtin_bswap32((__u32)w) :
					      __builtin_bswap64(w));
	}
}

static __always_inline __s64 fpisa_get_man(const void *m, int i, struct fpisa_format f)
{
	return f.rbits == 32 ? ((const __s32 *)m)[i] : ((const __s64 *)m)[i];
}

/* Return a magnitude. Do not extend the sign, because a magnitude may be 2^31 in a register of 32 bits. */
static __always_inline __s64 fpisa_get_magnitude(const void *m, int i, struct fpisa_format f)
{
	return f.rbits == 32 ? (__s64)((const __u32 *)m)[i] : ((const __s64 *)m)[i];
}

static __always_inline void fpisa_put_man(void *m, int i, struct fpisa_format f, __s64 v)
{
	if (f.rbits == 32)
		((__s32 *)m)[i] = (__s32)v;
	else
		((__s64 *)m)[i] = v;
}

/* -- fused ------------------------------------------------------------- */

/* Run MAU0..4 for a first contribution, whose decoded values overwrite the registers. */
static __always_inline void fpisa_block_set(const void *in, struct fpisa_exp_block *e, void *m, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.word = fpisa_get_word(in, i, f)};

		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		e->e[i] = fpisa_mau2_first(&l);
		fpisa_put_man(m, i, f, l.m);
	}
}

/* Run MAU0..4 for a further contribution. Return the events of this block. */
static __always_inline __u64 fpisa_block_add(const void *in, struct fpisa_exp_block *e, void *m, struct fpisa_format f,
					     enum fpisa_mode mode)
{
	__u64 events = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = {.word = fpisa_get_word(in, i, f), .events = events};

		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		e->e[i] = fpisa_mau2_exponent(&l, e->e[i], f, mode);
		fpisa_mau3_align(&l, f, mode);
		fpisa_put_man(m, i, f, fpisa_mau4_add(&l, fpisa_get_man(m, i, f), f, mode));
		events = l.events;
	}
	return events;
}

/*
 * Run MAU6..8, which compute element i of `out` from the magnitude of a lane. clz(x) is the match of MAU6. This is a
 * macro, because the match is a map lookup in some programs and arithmetic in others.
 */
#define fpisa_lane_read(out, i, l, f, rounding, clz)  \
	({                                            \
		__u32 __lz = clz((__u64)(l)->m);      \
		fpisa_mau6_normalise(l, f, __lz);     \
		fpisa_mau7_exponent(l, f, __lz);      \
		fpisa_mau8_assemble(l, f, rounding);  \
		fpisa_put_word(out, i, f, (l)->word); \
	})

/* Run MAU5..8, which turn registers into packed values. Return the result flags of this block. */
#define fpisa_block_read(out, ereg, mreg, f, rounding, clz)                                               \
	({                                                                                                \
		__u32 __flags = 0;                                                                        \
		FPISA_EACH(__i) {                                                                         \
			struct fpisa_lane __l = {                                                         \
				.m = fpisa_get_man(mreg, __i, f), .e = (ereg)->e[__i], .flags = __flags}; \
			fpisa_mau5_sign(&__l);                                                            \
			fpisa_lane_read(out, __i, &__l, f, rounding, clz);                                \
			__flags = __l.flags;                                                              \
		}                                                                                         \
		__flags;                                                                                  \
	})

/* -- staged ------------------------------------------------------------ */

static __always_inline void fpisa_stage0(const void *in, struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.word = fpisa_get_word(in, i, f)};

		fpisa_mau0_extract(&l, f);
		p.e[i] = (__u16)l.e;
		fpisa_put_man(p.m, i, f, l.m);
	}
}

static __always_inline void fpisa_stage1(struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i], .m = fpisa_get_man(p.m, i, f)};

		fpisa_mau1_implied_one(&l, f);
		p.e[i] = (__u16)l.e;
		fpisa_put_man(p.m, i, f, l.m);
	}
}

static __always_inline void fpisa_stage2_first(struct fpisa_phv_ref p, struct fpisa_exp_block *e)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i]};

		e->e[i] = fpisa_mau2_first(&l);
		p.d[i] = (__u16)(l.st << 8);
	}
}

static __always_inline void fpisa_stage2(struct fpisa_phv_ref p, struct fpisa_exp_block *e, struct fpisa_format f,
					 enum fpisa_mode mode)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i]};

		e->e[i] = fpisa_mau2_exponent(&l, e->e[i], f, mode);
		p.d[i] = (__u16)((__u8)l.in | l.st << 8);
	}
}

static __always_inline __u64 fpisa_stage3(struct fpisa_phv_ref p, struct fpisa_format f, enum fpisa_mode mode)
{
	__u64 events = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = {.m = fpisa_get_man(p.m, i, f), .in = (__s8)p.d[i], .events = events};

		fpisa_mau3_align(&l, f, mode);
		fpisa_put_man(p.m, i, f, l.m);
		events = l.events;
	}
	return events;
}

static __always_inline void fpisa_stage4_first(struct fpisa_phv_ref p, void *m, struct fpisa_format f)
{
	FPISA_EACH(i)
		fpisa_put_man(m, i, f, fpisa_get_man(p.m, i, f));
}

static __always_inline __u64 fpisa_stage4(struct fpisa_phv_ref p, void *m, struct fpisa_format f, enum fpisa_mode mode)
{
	__u64 events = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = {.m = fpisa_get_man(p.m, i, f), .st = p.d[i] >> 8, .events = events};

		fpisa_put_man(m, i, f, fpisa_mau4_add(&l, fpisa_get_man(m, i, f), f, mode));
		events = l.events;
	}
	return events;
}

static __always_inline void fpisa_stage5(const struct fpisa_exp_block *e, const void *m, struct fpisa_phv_ref p,
					 struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.m = fpisa_get_man(m, i, f)};

		fpisa_mau5_sign(&l);
		p.e[i] = e->e[i];
		fpisa_put_man(p.m, i, f, l.m);
		p.d[i] = (__u16)(l.sign << 15);
	}
}

/* Run stage 6. clz(x) is the match, as in fpisa_block_read(). */
#define fpisa_stage6(p, f, clz)                                                              \
	({                                                                                   \
		FPISA_EACH(__i) {                                                            \
			struct fpisa_lane __l = { .m = fpisa_get_magnitude((p).m, __i, f) }; \
			__u32 __lz = clz((__u64)__l.m);                                      \
			fpisa_mau6_normalise(&__l, f, __lz);                                 \
			fpisa_put_man((p).m, __i, f, __l.m);                                 \
			(p).d[__i] |= (__u16)__lz;                                           \
	}                                                                                    \
	})

static __always_inline void fpisa_stage7(struct fpisa_phv_ref p, struct fpisa_format f)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = p.e[i]};

		fpisa_mau7_exponent(&l, f, p.d[i] & FPISA_D_LOW);
		p.e[i] = (__u16)l.e;
		p.d[i] = (__u16)((p.d[i] & FPISA_D_SIGN) | l.dn);
	}
}

static __always_inline __u32 fpisa_stage8(struct fpisa_phv_ref p, void *out, struct fpisa_format f,
					  enum fpisa_rounding rounding)
{
	__u32 flags = 0;

	FPISA_EACH(i) {
		struct fpisa_lane l = {.m = fpisa_get_magnitude(p.m, i, f),
				       .e = p.e[i],
				       .sign = p.d[i] >> 15,
				       .dn = p.d[i] & FPISA_D_LOW,
				       .flags = flags};

		fpisa_mau8_assemble(&l, f, rounding);
		fpisa_put_word(out, i, f, l.word);
		flags = l.flags;
	}
	return flags;
}

#endif
