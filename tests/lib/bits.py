# SPDX-License-Identifier: GPL-2.0-only
"""Check the values and sums that the ranks of tests/mpi/bits.c, or of its Fortran versions, write for each call."""
import itertools
import struct

from rationals import FPISA64, NEAREST, Case, Format, element

SAMPLE = 12  # elements of each call that the oracle computes


def is_wide(call):
    """Return whether a call adds doubles or complex doubles."""
    return call[0] in "dDzZ"


def numbers_of(call):
    """Return how many real numbers the array of a call has."""
    return int(call[1:]) * (2 if call[0] in "cCzZ" else 1)


def allowed(words, wide, mode):
    """Return the set of results that the oracle gives for the words. In mode fpisa64 each order of arrival may give a different result."""
    e, m = (11, 52) if wide else (8, 23)
    guard = 63 - (m + 1) - 2 if mode == FPISA64 else 0
    orders = itertools.permutations(words) if mode == FPISA64 else [words]
    return {element(Case(Format("fp64" if wide else "fp32", e, m, 64, guard), mode, NEAREST, list(order)))[0] for order in orders}


def read_words(file, n, wide):
    return struct.unpack(f"<{n}{'Q' if wide else 'I'}", file.read(n * (8 if wide else 4)))


def check_call(files, call, mode, rng):
    """Check that all ranks have the same bits of one call, and that a sample has the oracle's bits."""
    wide, n = is_wide(call), numbers_of(call)
    roots = range(len(files)) if call[0].islower() else [int(call[1:]) % len(files)]
    values, sums = [], []
    for r, f in enumerate(files):
        values.append(read_words(f, n, wide))
        if r in roots:
            sums.append(read_words(f, n, wide))
    assert all(s == sums[0] for s in sums), call
    for i in {0, n - 1, *(rng.randrange(n) for _ in range(SAMPLE))}:
        words = [v[i] for v in values]
        assert sums[0][i] in allowed(words, wide, mode), (call, i, [hex(w) for w in words], hex(sums[0][i]))
