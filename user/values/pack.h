/* SPDX-License-Identifier: GPL-2.0-only */
/* Conversion between packed values of any format and the machine's own numbers, for input and display but not for sums */
#ifndef FPISA_PACK_H
#define FPISA_PACK_H

#include <math.h>
#include <stdint.h>

#include "fpisa/format.h"

static inline int format_bias(struct fpisa_format f)
{
	return (1 << (f.ebits - 1)) - 1;
}

/*
 * Return the packed value nearest to v, ties to even, rounded once. Beyond the range, return the infinity, or the NaN
 * of a format that has no infinity.
 */
static inline uint64_t pack_value(struct fpisa_format f, double v)
{
	uint64_t sign = (uint64_t)(signbit(v) != 0) << (f.ebits + f.mbits), word = fpisa_beyond(f);
	int e;

	if (isnan(v))
		return word | 1ull << (f.mbits - 1);
	if (v == 0)
		return sign;
	if (!isinf(v)) {
		frexp(v, &e);
		e += format_bias(f) - 1;
		if (e < 1)
			e = 1;
		/* Count in units of the last place; the implied bit, and a carry, run into the exponent. */
		word = (uint64_t)nearbyint(ldexp(fabs(v), f.mbits + format_bias(f) - e));
		word += (uint64_t)(e - 1) << f.mbits;
	}
	if (word < fpisa_beyond(f))
		return word | sign;
	return f.finite ? fpisa_beyond(f) : fpisa_beyond(f) | sign;
}

/* Return the value, which is exact: every format fits a double. */
static inline double unpack_value(struct fpisa_format f, uint64_t word)
{
	uint64_t magnitude = word & ((1ull << (f.ebits + f.mbits)) - 1), m = magnitude & fpisa_frac_ones(f);
	int e = (int)(magnitude >> f.mbits);
	double v;

	if (magnitude >= fpisa_beyond(f))
		v = f.finite || m ? NAN : INFINITY;
	else
		v = ldexp((double)(e ? m | 1ull << f.mbits : m), (e ? e : 1) - format_bias(f) - f.mbits);
	return word >> (f.ebits + f.mbits) & 1 ? -v : v;
}

#endif
