/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A table of leading zeros. The leading one of a sum is near the leading one of the format's mantissa, so the read-out
 * (lookup_read.h) looks up a window of the register at that place. The leading one is outside the window for sums that
 * cancelled four bits or more, for zero, and for superaccumulators of mode exact.
 */
#ifndef FPISA_CLZ_H
#define FPISA_CLZ_H

#include "format.h"

/* A window is the part of a register whose leading zeros the table counts. */
#define FPISA_WINDOW 12 /* bits: 6 for 64 workers, 4 for cancelled bits, 1 for rounding */
#define FPISA_WINDOWS (1 << FPISA_WINDOW)

#define FPISA_CLZ_OF_WINDOWS                                                                                          \
	{                                                                                                             \
		12, 11, 10, 10, [4 ... 7] = 9, [8 ... 15] = 8, [16 ... 31] = 7, [32 ... 63] = 6, [64 ... 127] = 5,    \
				       [128 ... 255] = 4, [256 ... 511] = 3, [512 ... 1023] = 2, [1024 ... 2047] = 1, \
				       [2048 ... 4095] = 0                                                            \
	}

/* Return the lowest bit of the window around a format's leading one. */
static __always_inline __u32 fpisa_window_at(struct fpisa_format f)
{
	__u32 one = f.mbits + f.guard;

	return one > 4 ? one - 4 : 0;
}

#endif
