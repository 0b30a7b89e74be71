// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registers of the oracle. oracle.h documents the functions. Shifts are
 * floor divisions by powers of two in 128 bits. Sums are saturated after the
 * addition. The methods differ from those of mau.h on purpose.
 */
#include "value.h"

typedef __int128 wide;
typedef unsigned __int128 uwide;

/* Return floor(m / 2^d). Set *lost if the quotient is inexact. */
static int64_t floor_shift(int64_t m, int d, bool *lost)
{
	wide divisor, quotient;

	if (d > 64)
		d = 64; /* |m| <= 2^63, so from this shift on the quotient is 0 or -1 and inexact */
	divisor = (wide)1 << d;
	quotient = m / divisor;
	*lost = m % divisor != 0;
	if (*lost && m < 0)
		quotient--;
	return (int64_t)quotient;
}

static void note_special(struct oracle_reg *reg, const struct oracle_entry *in)
{
	reg->nan |= in->nan;
	reg->pinf |= in->pinf;
	reg->ninf |= in->ninf;
}

/* Return the square of n in the doubled range, floor(n^2 x 2^(G - M - 1)). Set *lost if the square is inexact. */
static int64_t square_mantissa(struct fpisa_format f, uint64_t n, bool *lost)
{
	int shift = f.guard - f.mbits - 1;
	uwide square = (uwide)n * n; /* below 2^(2M+2) */

	*lost = shift < 0 && square % ((uwide)1 << -shift) != 0;
	return (int64_t)(shift < 0 ? square >> -shift : square << shift);
}

/* Return the register that a packed value is converted to, or its square for a norm. */
static struct oracle_entry enter(struct fpisa_format f, int op, uint64_t word)
{
	struct oracle_entry in = {.e = 1};
	struct oracle_value v;

	if (f.integer)
		return (struct oracle_entry){.m = (int32_t)word};
	v = oracle_decode(f, word);
	if (v.nan || v.inf) {
		in.nan = v.nan;
		in.ninf = v.inf && v.negative && op != FPISA_OP_NORM;
		in.pinf = v.inf && !in.ninf;
	} else if (op == FPISA_OP_NORM) {
		in.e = 2 * v.e;
		in.m = square_mantissa(f, v.n, &in.lost);
	} else {
		in.e = v.e;
		in.m = (int64_t)(v.n * oracle_pow2(f.guard));
		if (v.negative)
			in.m = -in.m;
	}
	return in;
}

void oracle_take(struct oracle_reg *reg, const struct oracle_entry *in)
{
	*reg = (struct oracle_reg){.e = in->e, .m = in->m};
	note_special(reg, in);
}

/* Add m to reg->m, and saturate the sum to R bits. */
static void add_saturated(struct oracle_reg *reg, struct fpisa_format f, int64_t m, struct oracle_events *events)
{
	wide limit = (wide)1 << (f.rbits - 1);
	wide sum = (wide)reg->m + m;

	if (sum > limit - 1) {
		sum = limit - 1;
		events->overflowed++;
	} else if (sum < -limit) {
		sum = -limit;
		events->overflowed++;
	}
	reg->m = (int64_t)sum;
}

static void add_fpisa(struct oracle_reg *reg, struct fpisa_format f, const struct oracle_entry *in,
		      struct oracle_events *events)
{
	int64_t m = in->m;
	bool lost;

	if (in->e > reg->e) {
		reg->m = floor_shift(reg->m, in->e - reg->e, &lost);
		reg->e = in->e;
	} else {
		m = floor_shift(m, reg->e - in->e, &lost);
	}
	events->rounded += lost + in->lost;
	add_saturated(reg, f, m, events);
}

static void add_fpisa_a(struct oracle_reg *reg, struct fpisa_format f, const struct oracle_entry *in,
			struct oracle_events *events)
{
	int headroom = f.rbits - 1 - (f.mbits + 1) - f.guard;
	bool lost = false, replaced = in->e > reg->e + headroom;
	int64_t m = in->m;

	if (replaced) {
		if (reg->m != 0)
			events->overwritten++;
		reg->e = in->e;
		reg->m = m;
	} else if (in->e > reg->e) {
		m *= (int64_t)oracle_pow2(in->e - reg->e);
		events->left_shifted++;
	} else {
		m = floor_shift(m, reg->e - in->e, &lost);
	}
	events->rounded += lost + in->lost;
	if (!replaced)
		add_saturated(reg, f, m, events);
}

void oracle_add_entry(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode,
		      const struct oracle_entry *in, struct oracle_events *events)
{
	if (in->nan || in->pinf || in->ninf)
		note_special(reg, in);
	else if (f.integer)
		add_saturated(reg, f, in->m, events);
	else if (mode == FPISA_MODE_FPISA_A)
		add_fpisa_a(reg, f, in, events);
	else
		add_fpisa(reg, f, in, events);
}

void oracle_op_set(struct oracle_reg *reg, const struct oracle_call *c, uint64_t word, struct oracle_events *events)
{
	struct oracle_entry in = enter(c->f, c->op, word);

	oracle_take(reg, &in);
	events->rounded += in.lost;
}

void oracle_op_add(struct oracle_reg *reg, const struct oracle_call *c, uint64_t word, struct oracle_events *events)
{
	struct oracle_entry in = enter(c->f, c->op, word);

	oracle_add_entry(reg, c->f, c->mode, &in, events);
}

void oracle_set(struct oracle_reg *reg, struct fpisa_format f, uint64_t word)
{
	struct oracle_entry in = enter(f, FPISA_OP_SUM, word);

	oracle_take(reg, &in);
}

void oracle_add(struct oracle_reg *reg, struct fpisa_format f, enum fpisa_mode mode, uint64_t word,
		struct oracle_events *events)
{
	struct oracle_entry in = enter(f, FPISA_OP_SUM, word);

	oracle_add_entry(reg, f, mode, &in, events);
}

static int bit_length(uint64_t x)
{
	int n = 0;

	for (; x; x /= 2)
		n++;
	return n;
}

uint64_t oracle_read(const struct oracle_reg *reg, struct fpisa_format f, enum fpisa_rounding rounding, uint32_t *flags)
{
	bool negative = reg->m < 0, up = false;
	uint64_t magnitude = negative ? -(uint64_t)reg->m : (uint64_t)reg->m;
	uint64_t word;
	int p = reg->e - 1 - f.guard; /* the value is magnitude x 2^p smallest subnormals */
	int q;			      /* the result is a multiple of 2^q */
	uwide k, rest = 0, unit = 1;

	if (f.integer)
		return (uint32_t)reg->m;
	if (oracle_pack_special(f, reg->nan, reg->pinf, reg->ninf, &word, flags))
		return word;
	q = bit_length(magnitude) + p - (f.mbits + 1);
	if (q < 0)
		q = 0;
	if (magnitude == 0) {
		k = 0;
	} else if (p >= q) {
		k = (uwide)magnitude << (p - q);
	} else {
		unit = (uwide)1 << (q - p); /* q - p <= G + 1 or R - M, so the result is below 2^65 */
		k = magnitude / unit;
		rest = magnitude % unit;
	}
	if (rounding == FPISA_ROUND_DOWN)
		up = negative && rest != 0;
	else
		up = 2 * rest > unit || (2 * rest == unit && k % 2 == 1);
	if (rest != 0)
		*flags |= FPISA_INEXACT;
	return oracle_pack_finite(f, negative, (uint64_t)k + up, q, flags);
}

uint32_t oracle_event_flags(const struct oracle_events *events)
{
	uint32_t flags = 0;

	if (events->rounded || events->overwritten || events->overflowed)
		flags |= FPISA_INEXACT;
	if (events->overwritten)
		flags |= FPISA_OVERWRITE;
	if (events->overflowed)
		flags |= FPISA_OVERFLOW;
	return flags;
}

void oracle_events_add(struct oracle_events *events, const struct oracle_events *more)
{
	events->rounded += more->rounded;
	events->overwritten += more->overwritten;
	events->left_shifted += more->left_shifted;
	events->overflowed += more->overflowed;
}
