#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Create values whose sums lose many bits in a register.

	heavy_tailed.py OUT.f32 [SIGMA [COLUMNS]]

OUT holds little-endian FP32 values, row-major, in 8 rows of COLUMNS values.
Each row belongs to one worker. COLUMNS is 4096 by default, SIGMA 16.

A value is min(1, exp(SIGMA x)) with a random sign. x is normally distributed.
Half of the values are 1 or -1, so many sums cancel. The remainder of such a
sum can be as small as exp(-4 SIGMA).

The file is reproducible to the bit. The generator is splitmix64, x is the sum
of 12 uniform numbers minus 6, and exp() uses decimal arithmetic, because
exp() differs between libraries.
"""
import array
import decimal
import sys

from sample import MASK, splitmix64

ROWS, COLUMNS, SIGMA, SEED = 8, 4096, 16, 1


def value(rng, sigma):
    normal = sum(next(rng) for _ in range(12)) - 6 * (MASK + 1)
    if normal >= 0:
        x = 1.0
    else:
        x = float((sigma * decimal.Decimal(normal) / (MASK + 1)).exp())
    return x if next(rng) & 1 else -x


def main(out, sigma=SIGMA, columns=COLUMNS):
    decimal.getcontext().prec = 30
    rng = splitmix64(SEED)
    values = array.array("f", (value(rng, decimal.Decimal(sigma)) for _ in range(ROWS * int(columns))))
    if sys.byteorder == "big":
        values.byteswap()
    with open(out, "wb") as f:
        values.tofile(f)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
