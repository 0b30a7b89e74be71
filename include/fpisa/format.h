/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Number formats, modes and roundings: the parameters of the arithmetic.
 *
 * A format is (E exponent bits, M fraction bits). A stored value is
 *
 *	m x 2^(e - bias - M - G)
 *
 * where e is the biased exponent and m is a two's-complement integer of R bits, of which the lowest G bits are guard
 * bits (paper, section 3.1 "Representing FP in PISA"). The bias cancels out of sums, so it does not appear in the code.
 * In mode exact m is wider and is stored in limbs (exact.h). Integers have only m (op.h). Elements that share a scale
 * have the same exponent (mx.h).
 */
#ifndef FPISA_FORMAT_H
#define FPISA_FORMAT_H

#include "base.h"

/* Numbers of formats on the wire and in job configurations. Do not change these numbers. */
enum fpisa_format_id {
	FPISA_FORMAT_FP32 = 1,
	FPISA_FORMAT_FP16 = 2,
	FPISA_FORMAT_BF16 = 3,
	FPISA_FORMAT_FP64 = 4,
	FPISA_FORMAT_E4M3 = 5,	 /* OCP FP8: no infinities, one NaN code for each sign */
	FPISA_FORMAT_E5M2 = 6,	 /* OCP FP8 */
	FPISA_FORMAT_INT32 = 7,	 /* fixed point, as in SwitchML */
	FPISA_FORMAT_MXINT8 = 8, /* OCP MX: 32 elements share a scale */
	FPISA_FORMAT_END,
};

enum fpisa_mode {
	FPISA_MODE_FPISA = 1,	/* the smaller exponent's mantissa is shifted right */
	FPISA_MODE_FPISA_A = 2, /* the stored mantissa is never shifted (section 4.4) */
	FPISA_MODE_FPISA64 = 3, /* like fpisa, in a 64-bit register whose spare bits are guard bits */
	FPISA_MODE_EXACT = 4,	/* a superaccumulator; the order of adds does not change the bits (exact.h) */
	FPISA_MODE_END,
};

enum fpisa_rounding {
	FPISA_ROUND_DOWN = 1,	 /* toward minus infinity, as in the paper */
	FPISA_ROUND_NEAREST = 2, /* ties to even */
};

/* Operations; doc/numbers.md describes their results. */
enum fpisa_op {
	FPISA_OP_SUM = 1,
	FPISA_OP_MIN = 2,
	FPISA_OP_MAX = 3,
	FPISA_OP_AVG = 4,   /* the sum divided by the number of contributions */
	FPISA_OP_SCALE = 5, /* the sum times a factor */
	FPISA_OP_NORM = 6,  /* root of the sum of squares */
	FPISA_OP_END,
};

enum fpisa_pipeline {
	FPISA_PIPELINE_STAGED = 1, /* nine programs that are chained by tail calls */
	FPISA_PIPELINE_FUSED = 2,  /* the same functions in one loop */
};

enum fpisa_clz {
	FPISA_CLZ_LPM = 1, /* the paper's trie, with one entry for each bit (figure 5) */
	/* binary search; fused programs use it only if the table does not contain the leading one (lookup_read.h) */
	FPISA_CLZ_BITS = 2,
};

enum fpisa_fanout {
	FPISA_FANOUT_MULTICAST = 1, /* one copy for each port, to the job's multicast address */
	FPISA_FANOUT_UNICAST = 2,   /* one copy for each worker */
};

struct fpisa_format {
	__u8 ebits;   /* E: 2..11; 0 for integers */
	__u8 mbits;   /* M: 1..52; 31 for integers */
	__u8 rbits;   /* R: 32 or 64, the mantissa register */
	__u8 guard;   /* G: 0..R - 2 - M */
	__u8 bytes;   /* bytes of a packed value on the wire: 1, 2, 4 or 8 */
	__u8 finite;  /* 1: no infinities, and only the code of all ones is NaN (e4m3) */
	__u8 integer; /* 1: two's complement, no exponent (int32) */
	__u8 shared;  /* 1: one exponent for a block of elements (mxint8) */
};

#define FPISA_FP32 ((struct fpisa_format){.ebits = 8, .mbits = 23, .rbits = 32, .guard = 0, .bytes = 4})

/*
 * The exponent register holds the biased exponent and three sticky bits. Every special value that arrives sets its
 * sticky bit.
 */
#define FPISA_EXP_MASK 0x1fffu
#define FPISA_EXP_NAN 0x2000u
#define FPISA_EXP_PINF 0x4000u
#define FPISA_EXP_NINF 0x8000u
#define FPISA_EXP_SPECIAL (FPISA_EXP_NAN | FPISA_EXP_PINF | FPISA_EXP_NINF)

/* Flags of a result, in result_flags of the header, and in a slot while its round is not complete. */
#define FPISA_OVERFLOW 0x01u  /* a register saturated, or the result left the format's range */
#define FPISA_INEXACT 0x02u   /* some nonzero bit was lost */
#define FPISA_OVERWRITE 0x04u /* a nonzero mantissa was discarded (fpisa-a) */
#define FPISA_NAN 0x08u	      /* some element is NaN */
#define FPISA_INF 0x10u	      /* some element is infinite */

/*
 * Counts of the events of one contribution's elements, as four 16-bit fields of a register. No field overflows, because
 * a frame has fewer than 2^16 elements (asserted in wire.h).
 */
#define FPISA_EV_ROUNDED 0	 /* adds that lost a nonzero bit to a shift */
#define FPISA_EV_OVERWRITTEN 16	 /* adds that discarded a nonzero mantissa */
#define FPISA_EV_LEFT_SHIFTED 32 /* adds whose incoming mantissa moved left */
#define FPISA_EV_OVERFLOWED 48	 /* adds that saturated */

static __always_inline __u32 fpisa_event_count(__u64 events, int which)
{
	return (events >> which) & 0xffff;
}

/* Return the result flags for the events of an add. A left shift loses no bit, so it sets no flag. */
static __always_inline __u32 fpisa_event_flags(__u64 events)
{
	__u32 flags = 0;

	if (fpisa_event_count(events, FPISA_EV_ROUNDED))
		flags |= FPISA_INEXACT;
	if (fpisa_event_count(events, FPISA_EV_OVERWRITTEN))
		flags |= FPISA_INEXACT | FPISA_OVERWRITE;
	if (fpisa_event_count(events, FPISA_EV_OVERFLOWED))
		flags |= FPISA_INEXACT | FPISA_OVERFLOW;
	return flags;
}

/*
 * Return the number of free bits above the mantissa. 2^headroom adds of the largest mantissa fit (section 3.3
 * "Overflow" has 7 bits and 128 adds for FP32).
 */
static __always_inline int fpisa_headroom(struct fpisa_format f)
{
	return f.rbits - 1 - (f.mbits + 1) - f.guard;
}

/*
 * Return whether a register after `adds` adds cannot overflow when one more contribution is added, in a mode that
 * shifts right.
 */
static __always_inline int fpisa_bounded(struct fpisa_format f, __u32 adds)
{
	return adds < 1ull << (fpisa_headroom(f) & 63);
}

static __always_inline __u64 fpisa_exp_ones(struct fpisa_format f)
{
	return (1ull << f.ebits) - 1;
}

static __always_inline __u64 fpisa_frac_ones(struct fpisa_format f)
{
	return (1ull << f.mbits) - 1;
}

/* Return the smallest packed magnitude that is not finite. This is infinity, or NaN in a format without infinities. */
static __always_inline __u64 fpisa_beyond(struct fpisa_format f)
{
	return fpisa_exp_ones(f) << f.mbits | (f.finite ? fpisa_frac_ones(f) : 0);
}

/*
 * Return a format by number, with its natural register and without guard bits. If the number is unknown, .bytes is 0.
 */
static __always_inline struct fpisa_format fpisa_format_of(__u8 id)
{
	switch (id) {
	case FPISA_FORMAT_FP32:
		return FPISA_FP32;
	case FPISA_FORMAT_FP16:
		return (struct fpisa_format){.ebits = 5, .mbits = 10, .rbits = 32, .bytes = 2};
	case FPISA_FORMAT_BF16:
		return (struct fpisa_format){.ebits = 8, .mbits = 7, .rbits = 32, .bytes = 2};
	case FPISA_FORMAT_FP64:
		return (struct fpisa_format){.ebits = 11, .mbits = 52, .rbits = 64, .bytes = 8};
	case FPISA_FORMAT_E4M3:
		return (struct fpisa_format){.ebits = 4, .mbits = 3, .rbits = 32, .bytes = 1, .finite = 1};
	case FPISA_FORMAT_E5M2:
		return (struct fpisa_format){.ebits = 5, .mbits = 2, .rbits = 32, .bytes = 1};
	case FPISA_FORMAT_INT32:
		return (struct fpisa_format){.mbits = 31, .rbits = 32, .bytes = 4, .integer = 1};
	case FPISA_FORMAT_MXINT8:
		return (struct fpisa_format){.ebits = 8, .mbits = 6, .rbits = 32, .bytes = 1, .shared = 1};
	default:
		return (struct fpisa_format){0};
	}
}

/*
 * Return the format with the register of a job. Mode fpisa64 uses 64 bits, of which ceil(log2 N) are headroom for N
 * workers and the spare bits are guard bits. Mode exact uses a register of 64 bits for the read-out.
 */
static __always_inline struct fpisa_format fpisa_register(__u8 id, enum fpisa_mode mode, __u32 workers)
{
	struct fpisa_format f = fpisa_format_of(id);
	__u8 log = 0;

	if (mode == FPISA_MODE_EXACT)
		f.rbits = 64;
	if (mode != FPISA_MODE_FPISA64 || !f.bytes)
		return f;
	while (log < 6 && 1u << log < workers)
		log++;
	f.rbits = 64;
	f.guard = (__u8)(f.rbits - 1 - (f.mbits + 1) - log);
	return f;
}

/* Return whether the format supports the mode. Integers support only the first mode. */
static __always_inline int fpisa_mode_offered(struct fpisa_format f, enum fpisa_mode mode)
{
	if (!f.bytes || mode < FPISA_MODE_FPISA || mode >= FPISA_MODE_END)
		return 0;
	if (f.integer)
		return mode == FPISA_MODE_FPISA;
	return 1;
}

/* Return whether a job of this format and mode supports the operation. */
static __always_inline int fpisa_op_offered(struct fpisa_format f, enum fpisa_mode mode, __u32 op)
{
	switch (op) {
	case FPISA_OP_SUM:
		return 1;
	case FPISA_OP_MIN:
	case FPISA_OP_MAX:
		return !f.shared;
	case FPISA_OP_AVG:
	case FPISA_OP_SCALE:
		return !f.integer;
	case FPISA_OP_NORM:
		return !f.integer && !f.shared && mode != FPISA_MODE_EXACT;
	}
	return 0;
}

/* Return the default rounding of a job. Modes that keep more bits than a result has round to nearest by default. */
static __always_inline enum fpisa_rounding fpisa_default_rounding(enum fpisa_mode mode)
{
	return mode == FPISA_MODE_FPISA64 || mode == FPISA_MODE_EXACT ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN;
}

#endif
