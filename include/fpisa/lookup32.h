/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The functions of lookup.h for FP32 alone. The format is a constant, so sign and exponent field of the incoming word
 * are also an index. The table has a factor for each index. In modes fpisa and fpisa-a the factor combines sign and
 * shift of the incoming mantissa. In mode exact the factor combines the sign and the place in a limb.
 */
#ifndef FPISA_LOOKUP32_H
#define FPISA_LOOKUP32_H

#include "lookup.h"

#define FPISA_TABLE4(X, i) X(i), X((i) + 1), X((i) + 2), X((i) + 3)
#define FPISA_TABLE16(X, i) \
	FPISA_TABLE4(X, i), FPISA_TABLE4(X, (i) + 4), FPISA_TABLE4(X, (i) + 8), FPISA_TABLE4(X, (i) + 12)
#define FPISA_TABLE64(X, i) \
	FPISA_TABLE16(X, i), FPISA_TABLE16(X, (i) + 16), FPISA_TABLE16(X, (i) + 32), FPISA_TABLE16(X, (i) + 48)
#define FPISA_TABLE256(X, i) \
	FPISA_TABLE64(X, i), FPISA_TABLE64(X, (i) + 64), FPISA_TABLE64(X, (i) + 128), FPISA_TABLE64(X, (i) + 192)
#define FPISA_TABLE512(X) FPISA_TABLE256(X, 0), FPISA_TABLE256(X, 256)
#define FPISA_TABLE1024(X) FPISA_TABLE512(X), FPISA_TABLE256(X, 512), FPISA_TABLE256(X, 768)

/* The exponent minus one, and the word minus fraction and implied one, by index i (sign and exponent field). */
#define FPISA_HEAD_E(i) (((i)&255) ? ((i)&255) - 1 : 0)
#define FPISA_HEAD_WORD(i) ((__u32)((i) >> 8) << 31 | (__u32)FPISA_HEAD_E(i) << 23)
#define FPISA_HEAD_SPECIAL 0xffff

/*
 * Iterate over a block, eight elements at a time. words[k] is a value of the block, exps[k] its exponent register, and
 * k also indexes `regs`. After eight elements the pointers advance, `regs` by `step`. Each iteration hides the pointers
 * from clang once, so each pointer stays in a register.
 */
#define FPISA_EACH_WORD(k, words, exps, regs, step)                                           \
	FPISA_ROLLED                                                                          \
	for (int __i = 0; __i < FPISA_BLOCK; __i += 8, words += 8, exps += 8, regs += (step)) \
		FPISA_UNROLLED                                                                \
	for (int k = ({                                                                       \
		     fpisa_opaque(words);                                                     \
		     fpisa_opaque(exps);                                                      \
		     fpisa_opaque(regs);                                                      \
		     0;                                                                       \
	     });                                                                              \
	     k < 8; k++)

/* Set the sticky bit of a special value, which adds nothing else. */
static __always_inline void fpisa_stick(__u16 *reg, __u32 word)
{
	*reg |= (__u16)(word << 9 ? FPISA_EXP_NAN : word >> 31 ? FPISA_EXP_NINF : FPISA_EXP_PINF);
}

/* -- mode fpisa, R = 32 ---------------------------------------------------- */

struct fpisa_head {
	__u32 word;
	__u16 at; /* exponent, plus FPISA_SIGN for a negative value; FPISA_HEAD_SPECIAL for a special */
	__u16 pad;
};

#define FPISA_SIGN 512
#define FPISA_HEAD(i)                                                                                        \
	{                                                                                                    \
		.word = FPISA_HEAD_WORD(i),                                                                  \
		.at = ((i)&255) == 255 ? FPISA_HEAD_SPECIAL : FPISA_HEAD_E(i) + 1 + ((i) >> 8) * FPISA_SIGN, \
	}

/*
 * Entries by `at` minus the stored exponent, modulo 1024. The lower nine bits are the difference d, and the bit above
 * them is the sign, inverted if d < 0.
 */
struct fpisa_move {
	__s64 factor; /* factor that moves the incoming magnitude to its place in the high word of a register */
	__u8 stored;  /* right shift of the stored mantissa */
	__u8 raise;   /* increase of the stored exponent */
	__u8 pad[6];
};

#define FPISA_MOVE_D(i) (((i)&255) - ((i)&256))
#define FPISA_MOVE_UP(i) ((i)&256 ? 0 : (i)&255)
#define FPISA_MOVE_FACTOR(i) ((__s64)1 << (FPISA_MOVE_D(i) > 0 ? 32 : FPISA_MOVE_D(i) < -32 ? 0 : 32 + FPISA_MOVE_D(i)))
#define FPISA_MOVE(i)                                                                                  \
	{                                                                                              \
		.factor = ((i) >> 8 & 1) == ((i) >> 9) ? FPISA_MOVE_FACTOR(i) : -FPISA_MOVE_FACTOR(i), \
		.stored = FPISA_MOVE_UP(i) > 32 ? 32 : FPISA_MOVE_UP(i), .raise = FPISA_MOVE_UP(i),    \
	}

struct fpisa_match32 {
	struct fpisa_head head[512];
	struct fpisa_move move[1024];
};

#define FPISA_MATCH32                                                                         \
	{                                                                                     \
		.head = {FPISA_TABLE512(FPISA_HEAD)}, .move = { FPISA_TABLE1024(FPISA_MOVE) } \
	}

/* Add as fpisa_look_add() does. Without `counted`, return only whether there was an event. */
static __always_inline __u64 fpisa_look_add32(const void *in, struct fpisa_exp_block *e, __u32 *m,
					      const struct fpisa_match32 *t, int counted)
{
	const __u32 *words = in;
	__u16 *exps = e->e;
	__u64 rounded = 0, lost = 0;

	fpisa_opaque(t);
	FPISA_EACH_WORD(k, words, exps, m, 8) {
		__u64 word = words[k], old;
		const struct fpisa_head *head = fpisa_offset(t, (word >> 23) * sizeof(*head));
		const struct fpisa_match32 *move;
		__u64 at = head->at, reg;

		if (fpisa_unlikely(at == FPISA_HEAD_SPECIAL)) {
			fpisa_stick(&exps[k], (__u32)word);
			continue;
		}
		word -= head->word;
		reg = exps[k];
		move = fpisa_offset(t, ((at - reg) & 1023) * sizeof(struct fpisa_move));
		exps[k] = (__u16)(reg + move->move[0].raise);
		word *= (__u64)move->move[0].factor;
		old = (__u64)((__s64)((__u64)m[k] << 32) >> move->move[0].stored);
		fpisa_add_to(word, old);
		/* One of the two shifts is 0, so the lower half has the bits that the other shift lost. */
		if (counted)
			fpisa_add_to(rounded, fpisa_nonzero(fpisa_low(word)));
		else
			fpisa_or_to(lost, word);
		m[k] = (__u32)(word >> 32);
	}
	if (!counted)
		rounded = fpisa_nonzero((__u32)lost);
	return rounded << FPISA_EV_ROUNDED;
}

/* -- first contributions, and the modes other than fpisa ---------------------- */

/* An entry like struct fpisa_head, in which the sign is a separate factor. */
struct fpisa_signed {
	__s64 sign;
	__u32 word;
	__u16 e; /* exponent; FPISA_HEAD_SPECIAL for a special */
	__u16 pad;
};

#define FPISA_SIGNED(i)                                                           \
	{                                                                         \
		.sign = (i) >> 8 ? -1 : 1, .word = FPISA_HEAD_WORD(i),            \
		.e = ((i)&255) == 255 ? FPISA_HEAD_SPECIAL : FPISA_HEAD_E(i) + 1, \
	}

struct fpisa_signs {
	struct fpisa_signed of[512];
};

#define FPISA_SIGNS                                  \
	{                                            \
		{                                    \
			FPISA_TABLE512(FPISA_SIGNED) \
		}                                    \
	}

/* Set registers of 32 or 64 bits as fpisa_block_set() does. */
static __always_inline void fpisa_look_set32(const void *in, struct fpisa_exp_block *e, void *m, struct fpisa_format f,
					     const struct fpisa_signs *t)
{
	const __u32 *words = in;
	__u16 *exps = e->e;
	char *mans = m;

	fpisa_opaque(t);
	FPISA_EACH_WORD(k, words, exps, mans, 8 * (f.rbits / 8)) {
		__u64 word = words[k];
		const struct fpisa_signed *head = fpisa_offset(t, (word >> 23) * sizeof(*head));
		__u64 exp = head->e;

		if (fpisa_unlikely(exp == FPISA_HEAD_SPECIAL)) {
			exps[k] = 1;
			fpisa_stick(&exps[k], (__u32)word);
			fpisa_put_man(mans, k, f, 0);
			continue;
		}
		exps[k] = (__u16)exp;
		word -= head->word;
		word *= (__u64)head->sign;
		fpisa_put_man(mans, k, f, (__s64)(word << f.guard));
	}
}

/*
 * Entry of mode fpisa-a. Unlike struct fpisa_move, a larger exponent shifts the incoming magnitude left within the
 * headroom, and replaces the register beyond the headroom.
 */
struct fpisa_move_a {
	__s64 factor;
	__u32 gone;  /* mask of the stored mantissa's bits to discard, which is all ones or 0 */
	__u32 count; /* increase of the stored exponent; FPISA_A_LEFT if the incoming magnitude is shifted left */
};

/*
 * Counts of the events of a block's adds, in one register. 32 adds count at most 32 of each event. The field `raises`
 * is not read:
 *
 *  63          40 39         30 29       24 23        16 15           0
 * +--------------+-------------+-----------+------------+--------------+
 * |  overflowed  | overwritten |  rounded  |    left    |    raises    |
 * |              |    0..32    |   0..32   |   0..32    |  0..32 * 254 |
 * +--------------+-------------+-----------+------------+--------------+
 *
 * If x is below 2^32 and not 0, the upper 32 bits of -x are ones. The upper n bits of -x, added to the register, count
 * one in the field at bit n and subtract one at bit 0. The subtracted ones of two events, at most 64, are added again
 * before the fields are read.
 */
#define FPISA_A_LEFT 16
#define FPISA_A_ROUNDED 24
#define FPISA_A_OVERWRITTEN 30
#define FPISA_A_OVERFLOWED 40
#define FPISA_A_BIAS 64

#define fpisa_ones(minus, at) ((minus) >> (64 - (at)))

static __always_inline __u64 fpisa_events_a(__u64 counts)
{
	counts += FPISA_A_BIAS;
	return (counts >> FPISA_A_ROUNDED & 63) << FPISA_EV_ROUNDED |
	       (counts >> FPISA_A_OVERWRITTEN & 63) << FPISA_EV_OVERWRITTEN |
	       (counts >> FPISA_A_LEFT & 63) << FPISA_EV_LEFT_SHIFTED |
	       (counts >> FPISA_A_OVERFLOWED) << FPISA_EV_OVERFLOWED;
}

/*
 * Return the lower 32 bits plus 2^31, modulo 2^32. In BPF this is a 32-bit operation, whose constant is part of the
 * instruction.
 */
static __always_inline __u64 fpisa_flip(__u64 x)
{
#ifdef __bpf__
	__u32 low;

	asm volatile("%0 ^= -2147483648" : "=w"(low) : "0"((__u32)x));
	return low;
#else
	return (__u32)x ^ 0x80000000u;
#endif
}

#define FPISA_HEADROOM32 7 /* 31 bits minus the 24 bits of a magnitude */
#define FPISA_MOVE_A_OVER(i) (FPISA_MOVE_UP(i) > FPISA_HEADROOM32)
#define FPISA_MOVE_A_FACTOR(i) \
	((__s64)1 << (FPISA_MOVE_A_OVER(i) ? 32 : FPISA_MOVE_D(i) < -32 ? 0 : 32 + FPISA_MOVE_D(i)))
#define FPISA_MOVE_A(i)                                                                                    \
	{                                                                                                  \
		.factor = ((i) >> 8 & 1) == ((i) >> 9) ? FPISA_MOVE_A_FACTOR(i) : -FPISA_MOVE_A_FACTOR(i), \
		.gone = FPISA_MOVE_A_OVER(i) ? ~0u : 0,                                                    \
		.count = FPISA_MOVE_A_OVER(i) ? FPISA_MOVE_UP(i) :                                         \
			 FPISA_MOVE_UP(i)     ? 1u << FPISA_A_LEFT :                                       \
						0,                                                             \
	}

struct fpisa_match32_a {
	struct fpisa_head head[512];
	struct fpisa_move_a move[1024];
};

#define FPISA_MATCH32_A                                                                         \
	{                                                                                       \
		.head = {FPISA_TABLE512(FPISA_HEAD)}, .move = { FPISA_TABLE1024(FPISA_MOVE_A) } \
	}

/* Add as fpisa_look_add_a() does. */
static __always_inline __u64 fpisa_look_add32_a(const void *in, struct fpisa_exp_block *e, __u32 *m,
						const struct fpisa_match32_a *t)
{
	const __u32 *words = in;
	__u16 *exps = e->e;
	__u64 counts = 0;

	fpisa_opaque(t);
	FPISA_EACH_WORD(k, words, exps, m, 8) {
		__u64 word = words[k], lost, gone, count, sum;
		const struct fpisa_head *head = fpisa_offset(t, (word >> 23) * sizeof(*head));
		const struct fpisa_match32_a *move;
		__u64 at = head->at, reg;

		if (fpisa_unlikely(at == FPISA_HEAD_SPECIAL)) {
			fpisa_stick(&exps[k], (__u32)word);
			continue;
		}
		word -= head->word;
		reg = exps[k];
		move = fpisa_offset(t, ((at - reg) & 1023) * sizeof(struct fpisa_move_a));
		count = move->move[0].count;
		fpisa_add_to(reg, count);
		exps[k] = (__u16)reg;
		fpisa_add_to(counts, count);
		word *= (__u64)move->move[0].factor;
		lost = 0 - fpisa_low(word);
		fpisa_opaque(lost);
		fpisa_add_to(counts, fpisa_ones(lost, FPISA_A_ROUNDED));
		sum = m[k];
		gone = move->move[0].gone;
		gone = 0 - (gone & sum);
		fpisa_opaque(gone);
		fpisa_add_to(sum, gone);
		fpisa_add_to(counts, fpisa_ones(gone, FPISA_A_OVERWRITTEN));
		/* Add 2^31. The sum saturates unless the result fits into 32 bits. */
		sum = fpisa_flip(sum);
		word = (__u64)((__s64)word >> 32);
		fpisa_add_to(sum, word);
		if (fpisa_unlikely(sum >> 32)) {
			counts += 1ull << FPISA_A_OVERFLOWED;
			sum = (__u64) ~((__s64)sum >> 63);
		}
		m[k] = (__u32)sum ^ 0x80000000u;
	}
	return fpisa_events_a(counts);
}

struct fpisa_match32_64 {
	struct fpisa_signs head;
	struct fpisa_narrow move;
};

#define FPISA_MOVE64(table) __builtin_offsetof(struct fpisa_match32_64, move.table)
#define FPISA_MATCH32_64                                     \
	{                                                    \
		.head = FPISA_SIGNS, .move = FPISA_NARROW_64 \
	}

/* Add as fpisa_look_add() does with R = 64. */
static __always_inline __u64 fpisa_look_add32_64(const void *in, struct fpisa_exp_block *e, __s64 *m,
						 struct fpisa_format f, const struct fpisa_match32_64 *t)
{
	const __u32 *words = in;
	__u16 *exps = e->e;
	__u64 rounded = 0;

	fpisa_opaque(t);
	FPISA_EACH_WORD(k, words, exps, m, 8) {
		__u64 word = words[k];
		const struct fpisa_signed *head = fpisa_offset(t, (word >> 23) * sizeof(*head));
		const __u8 *move; /* entry in each table of shift distances */
		__u64 at = head->e, reg;

		if (fpisa_unlikely(at == FPISA_HEAD_SPECIAL)) {
			fpisa_stick(&exps[k], (__u32)word);
			continue;
		}
		reg = exps[k];
		move = fpisa_offset(t, (at - reg) & (FPISA_NARROW - 1));
		exps[k] = (__u16)(reg + move[FPISA_MOVE64(raise)]);
		word -= head->word;
		word *= (__u64)head->sign;
		word <<= f.guard;
		fpisa_add_to(rounded,
			     fpisa_sum64(&m[k], (__s64)word, move[FPISA_MOVE64(stored)], move[FPISA_MOVE64(incoming)]));
	}
	return rounded << FPISA_EV_ROUNDED;
}

/* -- mode exact ------------------------------------------------------------- */

struct fpisa_place {
	__s64 factor; /* factor that combines the sign and the place in the limb */
	__u32 word;
	__u32 limb; /* offset of the limb in a superaccumulator, in bytes; FPISA_HEAD_SPECIAL for a special */
};

#define FPISA_PLACE(i)                                                                                           \
	{                                                                                                        \
		.factor = ((i) >> 8 ? -1ll : 1ll) * (1ll << (FPISA_HEAD_E(i) & 31)), .word = FPISA_HEAD_WORD(i), \
		.limb = ((i)&255) == 255 ? FPISA_HEAD_SPECIAL : (FPISA_HEAD_E(i) >> 5) * 8,                      \
	}

struct fpisa_places {
	struct fpisa_place of[512];
};

#define FPISA_PLACES                                \
	{                                           \
		{                                   \
			FPISA_TABLE512(FPISA_PLACE) \
		}                                   \
	}

/* Add as fpisa_look_exact() does with FPISA_LIMBS limbs. */
static __always_inline void fpisa_look_exact32(const void *in, struct fpisa_exp_block *e,
					       struct fpisa_limbs_block *limbs, const struct fpisa_places *t)
{
	__s64(*acc)[FPISA_LIMBS] = limbs->limb;
	const __u32 *words = in;
	__u16 *exps = e->e;

	fpisa_opaque(t);
	FPISA_EACH_WORD(k, words, exps, acc, 8) {
		__u64 word = words[k], at;
		const struct fpisa_place *place = fpisa_offset(t, (word >> 23) * sizeof(*place));
		__s64 *limb;

		at = place->limb;
		if (fpisa_unlikely(at == FPISA_HEAD_SPECIAL)) {
			fpisa_stick(&exps[k], (__u32)word);
			continue;
		}
		word -= place->word;
		word *= (__u64)place->factor;
		limb = (__s64 *)fpisa_offset(acc, at & (sizeof(*acc) - sizeof(**acc)));
		limb[k * FPISA_LIMBS] += (__s64)word;
	}
}

#endif
