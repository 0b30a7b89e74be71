/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * MAU0..4 of a further contribution in one function, for BPF. The results have the same bits as those of the separate
 * units of mau.h, which user space (block.h) and the staged programs (lanes.h, block.h) run.
 *
 * BPF has no conditional move, so the minima and maxima of MAU2 are either branches on unpredictable exponents or some
 * twenty instructions of masks. Here the difference of the exponents is looked up in a table, as a switch would do, and
 * the action data are the shift distances. Only one of the two mantissas is shifted. So one 64-bit sum has the result
 * in its high word, and the lost bits of the shifted mantissa in its low word.
 *
 * In mode fpisa the caller ensures that there are no more adds than fpisa_headroom() allows, so no sum can saturate.
 */
#ifndef FPISA_LOOKUP_H
#define FPISA_LOOKUP_H

#include "exact.h"
#include "exact64.h"

#define FPISA_UP4(x) (x), (x) + 1, (x) + 2, (x) + 3
#define FPISA_UP16(x) FPISA_UP4(x), FPISA_UP4((x) + 4), FPISA_UP4((x) + 8), FPISA_UP4((x) + 12)
#define FPISA_UP64(x) FPISA_UP16(x), FPISA_UP16((x) + 16), FPISA_UP16((x) + 32), FPISA_UP16((x) + 48)
#define FPISA_DOWN4(x) (x), (x)-1, (x)-2, (x)-3
#define FPISA_DOWN16(x) FPISA_DOWN4(x), FPISA_DOWN4((x)-4), FPISA_DOWN4((x)-8), FPISA_DOWN4((x)-12)

/*
 * Iterate two elements at a time. Unlike the loops of block.h, the loop has no masks, which would be expensive for the
 * verifier.
 */
#ifdef __clang__
#define FPISA_BY_TWO(i) _Pragma("clang loop unroll_count(2)") for (int i = 0; i < FPISA_BLOCK; i++)
#define FPISA_BY_FOUR(i) _Pragma("clang loop unroll_count(4)") for (int i = 0; i < FPISA_BLOCK; i++)
#else
#define FPISA_BY_TWO(i) FPISA_EACH(i)
#define FPISA_BY_FOUR(i) FPISA_EACH(i)
#endif

/*
 * Number of entries, which is twice the number of a format's exponents. So each difference of exponents, modulo the
 * number of entries, has its own entry.
 */
#define FPISA_NARROW 512 /* exponents of eight bits or fewer */
#define FPISA_WIDE 4096	 /* exponents of eleven bits */

/*
 * Decisions of MAU2, by the incoming exponent minus the stored exponent. Shift distances end at R for R = 32, and at 63
 * for R = 64, where only the sign of a bounded mantissa is left.
 */
struct fpisa_narrow {
	__u8 stored[FPISA_NARROW];   /* right shift of the stored mantissa */
	__u8 incoming[FPISA_NARROW]; /* right shift of the incoming mantissa */
	__u8 raise[FPISA_NARROW];    /* increase of the stored exponent */
};

struct fpisa_wide {
	__u8 stored[FPISA_WIDE];
	__u8 incoming[FPISA_WIDE];
};

#define FPISA_NARROW_32                                                                                        \
	{                                                                                                      \
		.stored = {FPISA_UP16(0), FPISA_UP16(16), [32 ... 255] = 32}, .incoming = {[256 ... 480] = 32, \
											   FPISA_DOWN16(31),   \
											   FPISA_DOWN4(15),    \
											   FPISA_DOWN4(11),    \
											   FPISA_DOWN4(7),     \
											   3,                  \
											   2,                  \
											   1},                 \
		.raise = {FPISA_UP64(0), FPISA_UP64(64), FPISA_UP64(128), FPISA_UP64(192)},                    \
	}

#define FPISA_NARROW_64                                                                     \
	{                                                                                   \
		.stored = {FPISA_UP64(0), [64 ... 255] = 63},                               \
		.incoming = {[256 ... 448] = 63,                                            \
			     FPISA_DOWN16(63),                                              \
			     FPISA_DOWN16(47),                                              \
			     FPISA_DOWN16(31),                                              \
			     FPISA_DOWN4(15),                                               \
			     FPISA_DOWN4(11),                                               \
			     FPISA_DOWN4(7),                                                \
			     3,                                                             \
			     2,                                                             \
			     1},                                                            \
		.raise = {FPISA_UP64(0), FPISA_UP64(64), FPISA_UP64(128), FPISA_UP64(192)}, \
	}

#define FPISA_WIDE_64                                          \
	{                                                      \
		.stored = {FPISA_UP64(0), [64 ... 2047] = 63}, \
		.incoming = {[2048 ... 4032] = 63,             \
			     FPISA_DOWN16(63),                 \
			     FPISA_DOWN16(47),                 \
			     FPISA_DOWN16(31),                 \
			     FPISA_DOWN4(15),                  \
			     FPISA_DOWN4(11),                  \
			     FPISA_DOWN4(7),                   \
			     3,                                \
			     2,                                \
			     1},                               \
	}

/* A decoded value. */
struct fpisa_value {
	__s64 m; /* signed mantissa, shifted left by `at` bits */
	__u64 e; /* exponent minus one */
};

/* Run MAU0 and MAU1. A special value is decoded as zero, and its sticky bit is set in the exponent register *reg. */
static __always_inline struct fpisa_value fpisa_decode(__u64 word, __u16 *reg, struct fpisa_format f, __u32 at)
{
	__u64 e = word >> f.mbits & fpisa_exp_ones(f), frac = word & fpisa_frac_ones(f), normal, m;
	__s64 sign = (__s64)(word << (63 - f.ebits - f.mbits));
	struct fpisa_value v;

	normal = e + fpisa_exp_ones(f);
	fpisa_opaque(normal);
	normal >>= f.ebits;
	fpisa_opaque(sign);
	sign >>= 63;
	m = (frac | normal << f.mbits) << at;
	v.m = (__s64)((m ^ (__u64)sign) - (__u64)sign);
	v.e = e - normal;
	if (fpisa_unlikely(e == fpisa_exp_ones(f)) && (!f.finite || frac == fpisa_frac_ones(f))) {
		*reg |= (__u16)(frac ? FPISA_EXP_NAN : sign ? FPISA_EXP_NINF : FPISA_EXP_PINF);
		v.m = 0;
		v.e = 0;
	}
	return v;
}

/* Run MAU3 and MAU4 of mode fpisa on R = 32. Each mantissa is in the high word, and one of the shifts is 0. */
static __always_inline __u64 fpisa_sum32(__u32 *reg, __s64 m, __u32 stored, __u32 incoming)
{
	__u64 sum = (__u64)((__s64)((__u64)*reg << 32) >> stored) + (__u64)(m >> incoming);

	*reg = (__u32)(sum >> 32);
	return fpisa_nonzero((__u32)sum);
}

/*
 * Run MAU3 and MAU4 of mode fpisa on R = 64. To detect lost bits, undo both shifts and compare the sum with the
 * original sum. At least one of the two shifts has lost nothing, so the difference is negative or 0.
 */
static __always_inline __u64 fpisa_sum64(__s64 *reg, __s64 m, __u32 stored, __u32 incoming)
{
	__u64 both = (__u64)*reg, sum;
	__s64 a = *reg;

	fpisa_add_to(both, m);
	a >>= stored;
	m >>= incoming;
	fpisa_opaque(a);
	fpisa_opaque(m);
	sum = (__u64)a;
	fpisa_add_to(sum, m);
	*reg = (__s64)sum;
	sum = (__u64)a << stored;
	m = (__s64)((__u64)m << incoming);
	fpisa_add_to(sum, m);
	sum -= both;
	fpisa_opaque(sum);
	return sum >> 63;
}

/* Run mode fpisa over a block with exponents of at most eight bits. Return the events. */
static __always_inline __u64 fpisa_look_add(const void *in, struct fpisa_exp_block *e, void *m, struct fpisa_format f,
					    const struct fpisa_narrow *t)
{
	__u64 rounded = 0;

	FPISA_BY_TWO(i)
	{
		struct fpisa_value v = fpisa_decode(fpisa_get_word(in, i, f), &e->e[i], f, f.rbits == 32 ? 32 : f.guard);
		__u16 reg = e->e[i];
		__u32 d = (__u32)(v.e + 1 - reg) & (FPISA_NARROW - 1);

		e->e[i] = (__u16)(reg + t->raise[d]);
		if (f.rbits == 32)
			rounded += fpisa_sum32((__u32 *)m + i, v.m, t->stored[d], t->incoming[d]);
		else
			rounded += fpisa_sum64((__s64 *)m + i, v.m, t->stored[d], t->incoming[d]);
	}
	return rounded << FPISA_EV_ROUNDED;
}

/* Run mode fpisa over a block with exponents of up to eleven bits, R = 64. */
static __always_inline __u64 fpisa_look_add_wide(const void *in, struct fpisa_exp_block *e, void *m,
						 struct fpisa_format f, const struct fpisa_wide *t)
{
	__u64 rounded = 0;

	FPISA_BY_TWO(i)
	{
		struct fpisa_value v = fpisa_decode(fpisa_get_word(in, i, f), &e->e[i], f, f.guard);
		__u16 reg = e->e[i];
		__s64 up = (__s64)v.e + 1 - (reg & FPISA_EXP_MASK);
		__u32 d = (__u32)up & (FPISA_WIDE - 1);

		e->e[i] = (__u16)(reg + fpisa_positive(up));
		rounded += fpisa_sum64((__s64 *)m + i, v.m, t->stored[d], t->incoming[d]);
	}
	return rounded << FPISA_EV_ROUNDED;
}

/*
 * Run mode fpisa-a on R = 32. A larger exponent shifts the incoming mantissa left if the difference is within the
 * headroom, and otherwise discards the stored mantissa. A sum may saturate.
 */
static __always_inline __u64 fpisa_look_add_a(const void *in, struct fpisa_exp_block *e, __u32 *m,
					      struct fpisa_format f, const struct fpisa_narrow *t)
{
	__u64 events = 0;

	FPISA_BY_TWO(i)
	{
		struct fpisa_value v = fpisa_decode(fpisa_get_word(in, i, f), &e->e[i], f, 32);
		__u16 reg = e->e[i];
		__s64 up = (__s64)v.e + 1 - (reg & FPISA_EXP_MASK);
		__u32 d = (__u32)up & (FPISA_NARROW - 1);
		__u64 over = (__u64)fpisa_negative(fpisa_headroom(f) - up), raise = t->raise[d], left = raise & ~over;
		__u64 old = (__u64)m[i] << 32, gone = old & over, sum;
		__s64 add = (__s64)((__u64)v.m << left) >> t->incoming[d];

		e->e[i] = (__u16)(reg + (raise & over));
		old ^= gone;
		sum = old + (__u64)add;
		events += fpisa_nonzero((__u32)sum) + (fpisa_nonzero(gone >> 32) << FPISA_EV_OVERWRITTEN) +
			  (fpisa_nonzero(left) << FPISA_EV_LEFT_SHIFTED);
		if (fpisa_unlikely((__s64)((old ^ sum) & ((__u64)add ^ sum)) < 0)) {
			events += 1ull << FPISA_EV_OVERFLOWED;
			sum = (__u64)((__s64)old >> 63) ^ 0x7fffffffffffffffull;
		}
		m[i] = (__u32)(sum >> 32);
	}
	return events;
}

/* Run mode exact over a block of superaccumulators of `n` limbs. */
static __always_inline void fpisa_look_exact(const void *in, struct fpisa_exp_block *e, void *limbs, int n,
					     struct fpisa_format f)
{
	FPISA_BY_TWO(i)
	{
		struct fpisa_value v = fpisa_decode(fpisa_get_word(in, i, f), &e->e[i], f, 0);
		__s64 *acc = fpisa_limbs_of(limbs, i, n);

		if (n == 1)
			acc[0] += (__s64)((__u64)v.m << (v.e & 63));
		else
			acc[v.e >> 5 & (FPISA_LIMBS - 1)] += (__s64)((__u64)v.m << (v.e & 31));
	}
}

/* -- mode exact of FP64 (exact64.h) ------------------------------------------- */

/* A normal value after MAU0, MAU1 and MAU3, split into the parts for its two limbs. */
struct fpisa_split {
	__u32 limb; /* number of the lower limb */
	__s64 low, high;
};

/* Return whether the value is normal: not zero, subnormal or special. */
static __always_inline int fpisa_is_normal64(__u64 word)
{
	return (word >> 52 & 2047) - 1 < 2046;
}

static __always_inline struct fpisa_split fpisa_split64(__u64 word)
{
	__u64 place = (word >> 52 & 2047) - 1, m = (word & ((1ull << 52) - 1)) | 1ull << 52;
	__s64 sign = (__s64)word;
	struct fpisa_split v;

	fpisa_opaque(place);
	v.limb = place >> 5 & 63;
	fpisa_opaque(sign);
	sign >>= 63;
	m = (m ^ (__u64)sign) - (__u64)sign;
	place &= 31;
	v.high = (__s64)m >> (32 - place);
	v.low = (__s64)fpisa_low(m << place);
	return v;
}

/* Return limb k of element i. */
static __always_inline __s64 *fpisa_limb64(struct fpisa_limbs64_block *a, int i, __u64 k)
{
	return (__s64 *)fpisa_offset(&a->limb[0][i], k * sizeof(a->limb[0]));
}

/*
 * Set the first contribution. In this macro and in fpisa_look_add64(), zeros are skipped, and units(in, e, limbs, i)
 * handles one element that is neither zero nor normal.
 */
#define fpisa_look_set64(in, ereg, limbs, units)                                       \
	({                                                                           \
		FPISA_BY_FOUR(__i)                                                   \
		{                                                                    \
			__u64 __w = fpisa_load64((const char *)(in) + 8 * __i);      \
                                                                                     \
			if (fpisa_likely(fpisa_is_normal64(__w))) {                  \
				struct fpisa_split __v = fpisa_split64(__w);         \
				__s64 *__limb = fpisa_limb64(limbs, __i, __v.limb);  \
                                                                                     \
				(ereg)->e[__i] = (__u16)(__v.limb << 6);             \
				__limb[0] = __v.low;                                 \
				__limb[FPISA_BLOCK] = __v.high;                      \
			} else {                                                     \
				(ereg)->e[__i] = FPISA_RANGE_NONE << 6;              \
				if (__w << 1)                                        \
					units(in, ereg, limbs, __i);                 \
			}                                                              \
	}                                                                              \
	})

/*
 * Add a further contribution. Most values begin in a limb of the range or next to the range, so that at most one more
 * limb is used. units() also handles the other values.
 */
#define fpisa_look_add64(in, ereg, limbs, units)                                               \
	({                                                                                   \
		FPISA_BY_FOUR(__i)                                                           \
		{                                                                            \
			__u64 __w = fpisa_load64((const char *)(in) + 8 * __i);              \
			__u32 __e = (ereg)->e[__i], __more = fpisa_range_more(__e), __at;    \
			struct fpisa_split __v;                                              \
			__s64 *__limb;                                                       \
                                                                                             \
			if (fpisa_unlikely(!fpisa_is_normal64(__w))) {                       \
				if (__w << 1)                                                \
					units(in, ereg, limbs, __i);                         \
				continue;                                                    \
			}                                                                    \
			__v = fpisa_split64(__w);                                            \
			__limb = fpisa_limb64(limbs, __i, __v.limb);                         \
			__at = __v.limb - (__e >> 6);                                        \
			if (fpisa_likely(__at <= __more)) {                                  \
				__limb[0] += __v.low;                                        \
				__limb[FPISA_BLOCK] += __v.high;                             \
			} else if (__at == __more + 1) {                                     \
				__limb[0] += __v.low;                                        \
				__limb[FPISA_BLOCK] = __v.high;                              \
				(ereg)->e[__i] = (__u16)(__e + 1);                           \
			} else if (__at == -1u) {                                            \
				__limb[0] = __v.low;                                         \
				__limb[FPISA_BLOCK] += __v.high;                             \
				(ereg)->e[__i] = (__u16)(__e + 1 - (1 << 6));                \
			} else {                                                             \
				units(in, ereg, limbs, __i);                                 \
			}                                                                      \
	}                                                                                      \
	})

#endif
