#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make values whose sums in a register lose much.

	heavy_tailed.py OUT.f32 [SIGMA [COLUMNS]]

OUT is little-endian FP32, row-major, 8 rows (one a worker) of COLUMNS, 4096.
Every value is of either sign and min(1, exp(SIGMA x)) with x of a normal
distribution: half of them are +-1, so that many sums cancel, and what then is
left may be anything down to exp(-4 SIGMA). SIGMA is 16.

Reproducible to the bit: splitmix64, and decimal arithmetic where a library's
exp() could differ from another's; x is the sum of 12 uniform numbers less 6.
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
