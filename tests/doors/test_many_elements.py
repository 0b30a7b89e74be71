# SPDX-License-Identifier: GPL-2.0-only
"""The sum of a hundred million random elements has the same bits for any type, shape, address, chunks, order, threads and vector unit.
Samples are checked with rational numbers and math.fsum. FPISA_ELEMENTS sets the number of elements."""
import math
import os
from fractions import Fraction

import numpy as np
import pyarrow as pa

import fpisa

ELEMENTS = int(os.environ.get("FPISA_ELEMENTS", 100_000_000))
TYPES = ["float64"] * 6 + ["float32"] * 4 + ["float16"] * 2 + ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
UNITS = ["avx512", "avx2", "baseline"]


def make(rng, n, dtype):
    """Make values of three kinds: values close to each other, values with many exponents, and values that cancel."""
    if dtype[0] in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    x, kind = rng.standard_normal(n), rng.integers(5)
    if kind == 1:
        x = np.ldexp(x, rng.integers(-100, 100, n))
    if kind == 2:
        x = np.ldexp(x, rng.integers(-1060, 1000, n))
    if kind == 3:
        x[n // 2:] = -x[:n - n // 2]
    if kind == 4:
        x[rng.integers(0, 2, n) == 0] = 0
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
        x[~np.isfinite(x)] = 1
    return x


def elsewhere(rng, x):
    """Yield copies of the values at an unaligned address, with different strides, and in reverse."""
    gap, shift = int(rng.integers(0, 9)), int(rng.integers(0, 8))
    step = x.itemsize + gap
    memory = np.zeros(len(x) * step + shift + 64, "uint8")
    view = np.ndarray(len(x), x.dtype, memory, shift, (step,))
    view[:] = x
    return view[::-1] if rng.integers(2) else view


def chunked(rng, x):
    at = np.sort(rng.integers(0, len(x) + 1, int(rng.integers(0, 9)))).tolist()
    return pa.chunked_array([pa.array(x[low:high]) for low, high in zip([0, *at], [*at, len(x)])])


def merged(rng, x):
    parts = [fpisa.Accumulator(p).to_bytes() for p in np.array_split(x, int(rng.integers(1, 12)))]
    return fpisa.merged(parts[i] for i in rng.permutation(len(parts)))


def shaped(x):
    """Return the values in two dimensions, transposed."""
    side = max(1, math.isqrt(len(x)))
    whole = len(x) // side * side
    return fpisa.Accumulator(x[:whole].reshape(-1, side).T).merge(fpisa.Accumulator(x[whole:]))


def check_sample(rng, x):
    low = int(rng.integers(0, len(x)))
    part = x[low:low + 3000]
    total = sum(map(Fraction, part.tolist()))
    got = fpisa.Accumulator(part)
    assert _exact(got) == total
    if x.dtype.kind == "f" and len(x) < 200_000 and np.abs(x).max() < (1e290 if x.itemsize == 8 else np.inf):
        assert fpisa.sum(x) == math.fsum(x.tolist())


def _exact(a):
    """Return the exact value from the bytes, which have the form of doc/partial.md."""
    data = a.to_bytes()
    m, e = int.from_bytes(data[16:], "little"), int.from_bytes(data[4:6], "little", signed=True)
    return Fraction(-m if data[3] & 1 else m) * Fraction(2) ** e


def check_groups(rng, x):
    groups = int(rng.choice([1, 7, 1000, 200_000]))
    keys = rng.integers(0, groups, len(x))
    want = fpisa.sum(x, by=keys)
    order = rng.permutation(len(x))
    again = fpisa.sum(x[order], by=keys[order])
    assert again.keys.tolist() == want.keys.tolist() and again.values.tobytes() == want.values.tobytes()
    for at in rng.integers(0, len(want.keys), 3):
        assert want.values[at] == fpisa.sum(x[keys == want.keys[at]], dtype="float64")


def test_elements(rng):
    rng = np.random.default_rng(rng.getrandbits(64))
    done = rounds = 0
    before = fpisa.vectors()
    try:
        while done < ELEMENTS:
            x = make(rng, int(2 ** rng.uniform(0, 22.5)), str(rng.choice(TYPES)))
            fpisa.vectors(str(rng.choice(UNITS)))
            want = fpisa.Accumulator(x).to_bytes()
            bits = np.float64(fpisa.sum(x, dtype="float64")).tobytes()
            assert np.float64(fpisa.Accumulator.from_bytes(want).value()).tobytes() == bits
            for unit in UNITS:
                fpisa.vectors(unit)
                assert fpisa.Accumulator(elsewhere(rng, x)).to_bytes() == want, (unit, len(x), x.dtype)
            for other in rng.permutation(x), chunked(rng, x):
                assert fpisa.Accumulator(other).to_bytes() == want, (len(x), x.dtype)
            assert merged(rng, x).to_bytes() == want == shaped(x).to_bytes()
            assert np.float64(fpisa.sum(x, dtype="float64", threads=int(rng.integers(2, 6)))).tobytes() == bits
            check_sample(rng, x)
            check_groups(rng, x)
            done, rounds = done + len(x), rounds + 1
    finally:
        fpisa.vectors(before)
        print(f"{done} elements in {rounds} arrays")
