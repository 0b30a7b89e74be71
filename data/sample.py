#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Sample columns of a gradient file.

	sample.py FULL.f32 OUT.f32

FULL is little-endian FP32, row-major, 8 rows (one a worker). OUT gets 4096 of
its columns in their order, the same ones for every file of that size. The
choice is Knuth's selection sampling (TAOCP 2, 3.4.2, algorithm S) over
splitmix64, spelled out here so that no library's generator can change it.
"""
import array
import sys

ROWS, COLUMNS, SEED = 8, 4096, 1
MASK = (1 << 64) - 1


def splitmix64(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def choose(total, wanted):
    """Choose `wanted` numbers of range(total), in ascending order."""
    rng = splitmix64(SEED)
    chosen = []
    for column in range(total):
        if next(rng) % (total - column) < wanted - len(chosen):
            chosen.append(column)
    return chosen


def main(full, out):
    # Copy words, not floats, so that NaN payloads and the byte order stay.
    words = array.array("I")
    assert words.itemsize == 4
    with open(full, "rb") as f:
        words.frombytes(f.read())
    total = len(words) // ROWS
    if total * ROWS != len(words) or total < COLUMNS:
        sys.exit(f"{full}: {len(words)} values are not {ROWS} rows of {COLUMNS} or more")
    columns = choose(total, COLUMNS)
    sample = array.array("I", (words[row * total + c] for row in range(ROWS) for c in columns))
    with open(out, "wb") as f:
        sample.tofile(f)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
