# SPDX-License-Identifier: GPL-2.0-only
"""Test exact sums (doc/sums.md) against rational numbers, with any type, shape, stride, chunk, null, order, thread and vector unit.

The oracle is Python's fractions and its own rounding of a quotient, without code of the package.
"""
import array
import ctypes
import itertools
import math
import os
import pickle
import platform
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import fpisa
from conftest import TOP
from fpisa import _arrow, _formats

FLOATS = {"float64": (52, -1074, 1024), "float32": (23, -149, 128), "float16": (10, -24, 16), "bfloat16": (7, -133, 128)}
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
UNITS = ["avx512", "avx2", "baseline"]


def rounded(x, dtype="float64"):
    """Return the value nearest to a Fraction, with ties to even, by trying its neighbours."""
    mantissa, least, most = FLOATS[dtype]
    if not x:
        return 0.0
    e = max(math.floor(math.log2(abs(x.numerator)) - math.log2(x.denominator)) - mantissa - 2, least)
    while abs(x) / Fraction(2) ** e >= 1 << (mantissa + 1):
        e += 1
    n, rest = divmod(x / Fraction(2) ** e, 1)
    n += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n % 2)
    return (math.inf if x > 0 else -math.inf) if abs(n) * Fraction(2) ** e >= Fraction(2) ** most else float(n * Fraction(2) ** e)


def exact(values):
    return sum(map(Fraction, values), Fraction(0))


def wide(rng, n, dtype="float64"):
    """Return values of one of several kinds: close to each other, with any exponents, cancelling, or few with gaps between their
    exponents."""
    kind = rng.integers(5)
    x = rng.standard_normal(n)
    if kind == 1:
        x *= 2.0 ** rng.integers(-60, 60, n)
    if kind == 2:
        x = np.ldexp(x, rng.integers(-1060, 1010, n))
    if kind == 3 and n > 1:
        x[n // 2:] = -x[:n - n // 2][::-1]
        x[0] += 2.0 ** -40
    if kind == 4:
        x[rng.integers(0, n + 1, n) == 0] = 0
        x[::97] *= 2.0 ** -200
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
        x[~np.isfinite(x)] = 1
    return x


@pytest.fixture
def rng(rng):
    return np.random.default_rng(rng.getrandbits(64))


@pytest.fixture(params=UNITS)
def unit(request):
    before = fpisa.vectors()
    fpisa.vectors(request.param)
    yield request.param
    fpisa.vectors(before)


def test_sums(unit, rng):
    for n in [0, 1, 2, 7, 31, 32, 33, 100, 1000, 2049, 5000] + [int(rng.integers(1, 9000)) for _ in range(8)]:
        for dtype in "float64", "float32", "float16":
            x = wide(rng, n, dtype)
            total = exact(x.tolist())
            for to in FLOATS:
                assert fpisa.sum(x, dtype=to) == rounded(total, to), (n, dtype, to)
            assert n == 0 or fpisa.mean(x) == rounded(total / n), (n, dtype)


def test_spreading_exponents(unit, rng):
    """If each block of 2000 values has more exponents than the earlier blocks, or fewer, no call reads state that an earlier call left in
    memory."""
    for _ in range(4):
        x = np.ldexp(rng.standard_normal(8000), np.concatenate([rng.integers(-w, w, 2000) for w in (40, 200, 500, 1000)]))
        assert fpisa.sum(x) == math.fsum(x) == fpisa.sum(x[::-1].copy()) and fpisa.sum(x[2000:3000]) == math.fsum(x[2000:3000])
        nothing = np.r_[x, 2.0 ** -1040, -rng.permutation(x)]
        assert fpisa.sum(nothing) == 2.0 ** -1040 == fpisa.sum(nothing[::-1].copy())


def test_integers(unit, rng):
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, 3000, dtype=dtype, endpoint=True)
        total = sum(x.tolist())
        assert fpisa.sum(x) == total and type(fpisa.sum(x)) is int
        assert fpisa.sum(x[::-3], dtype="float32") == rounded(Fraction(sum(x[::-3].tolist())), "float32")
        assert fpisa.mean(x) == rounded(Fraction(total, 3000))
    assert fpisa.sum(np.ones(9, bool)) == 9


def test_every_half(rng):
    """Every finite float16 and bfloat16, alone and in any order, has the value of its bits."""
    bits = rng.permutation(1 << 16).astype("uint16")
    for name, exponent in ("float16", 0x7c00), ("bfloat16", 0x7f80):
        finite = bits[bits & exponent != exponent]
        half = finite.astype("uint32") << 16
        x = finite.view("float16").astype("float64") if name == "float16" else half.view("float32").astype("float64")
        for low in range(0, len(x), 97):
            part = finite[low:low + 97]
            state = fpisa._core.State()
            state.add(fpisa._core.Array(part.ctypes.data, len(part), 2, None, 0, fpisa._core.TYPES[name]))
            assert _formats.number(state.read(4), _formats.FORMATS["float64"]) == rounded(exact(x[low:low + 97].tolist()))


def test_many_groups(unit, rng):
    """With more groups than a cache holds and more values than blocks hold, each group's sum is that of math.fsum, in any order."""
    n, groups = (2_700_000 if unit == "avx512" else 40_000), 140_000
    codes, x = rng.integers(0, groups, n), rng.standard_normal(n)
    x[::1001] *= 2.0 ** rng.integers(-300, 300, len(x[::1001]))
    keys = codes * 3 - 7
    got = fpisa.sum(x, by=keys)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(groups + 1))
    present = np.flatnonzero(np.diff(ends))
    assert got.keys.tolist() == (present * 3 - 7).tolist()
    for at in rng.integers(0, len(present), 3000):
        values = x[order[ends[present[at]]:ends[present[at] + 1]]]
        assert got.values[at] == math.fsum(values.tolist())
    shuffled = rng.permutation(n)
    assert fpisa.sum(x[shuffled], by=keys[shuffled]).values.tobytes() == got.values.tobytes()
    means = fpisa.mean(x[shuffled], by=keys[shuffled]).values
    at = int(rng.integers(0, len(present)))
    values = x[order[ends[present[at]]:ends[present[at] + 1]]].tolist()
    assert means[at] == rounded(exact(values) / len(values))
    with pytest.raises(OverflowError):  # one group number is too large
        state = fpisa._core.lib.sums_groups_new(groups, False)
        try:
            wrong = np.full(3, groups)
            fpisa._core.check(fpisa._core.lib.sums_groups_add(state, fpisa._core.Array(x.ctypes.data, 3, 8, None, 0, 0), wrong.ctypes.data))
        finally:
            fpisa._core.lib.sums_groups_free(state)


@pytest.mark.parametrize("span", [3, 70_000, 1 << 40])
def test_integer_keys(rng, span):
    """Keys come back unchanged and in ascending order, whether close together or not, with either sign and any width."""
    for dtype in INTEGERS + ["bool"]:
        info = np.iinfo(dtype) if dtype != "bool" else None
        low = int(info.min) if info and rng.integers(2) else 0
        high = min(low + span, int(info.max) if info else 1)
        keys = rng.integers(low, high, 500, dtype=dtype, endpoint=True)
        if rng.integers(2) and info:
            keys = np.r_[keys, info.max].astype(dtype)
        x = rng.standard_normal(len(keys))
        got = fpisa.sum(x, by=keys)
        assert got.keys.dtype == keys.dtype and got.keys.tolist() == np.unique(keys).tolist()
        assert got.values.tolist() == [math.fsum(x[keys == k]) for k in np.unique(keys)]


def test_orders_splits_and_threads(rng):
    """Any order, split and number of threads gives the same bits, and the same bytes of partials."""
    for _ in range(12):
        x = wide(rng, int(rng.integers(2, 200000)))
        want = fpisa.Accumulator(x).to_bytes()
        assert fpisa.Accumulator(rng.permutation(x)).to_bytes() == want
        at = np.sort(rng.integers(0, len(x), 9))
        parts = [fpisa.Accumulator(p) for p in np.split(x, at)]
        random.Random(int(at[0])).shuffle(parts)
        while len(parts) > 1:
            parts.append(parts.pop().merge(parts.pop(0)))
        assert parts[0].to_bytes() == want and parts[0] == fpisa.Accumulator.from_bytes(want)
        assert len({struct.pack("d", fpisa.sum(x, threads=t)) for t in (1, 2, 5)}) == 1
        shared = fpisa.Accumulator()
        threads = [threading.Thread(target=shared.add, args=(p,)) for p in np.split(x, at)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert shared.to_bytes() == want
    assert fpisa.Accumulator(x).value() == rounded(exact(x.tolist()))


def test_shapes(rng):
    """Views with any strides, and sums along axes, are correct."""
    x = np.asarray(rng.standard_normal((7, 6, 5, 8)) * 2.0 ** rng.integers(-90, 90, (7, 6, 5, 8)))
    for view in x, x.T, x[::2, ::-1, 1:, ::3], x.transpose(2, 0, 3, 1), np.broadcast_to(x[0, 0, 0], (3, 8)), x[:0], x[2, 1, 1, 3:4]:
        assert fpisa.sum(view) == rounded(exact(view.ravel().tolist()))
        for n in range(view.ndim + 1):
            for axis in itertools.combinations(range(view.ndim), n):
                moved = np.moveaxis(view, axis, range(n)).reshape(
                    (-1 if view.size else 0,) + tuple(s for i, s in enumerate(view.shape) if i not in axis))
                want = np.empty(moved.shape[1:])
                for at in np.ndindex(*want.shape):
                    want[at] = rounded(exact(moved[(slice(None), *at)].tolist()))
                got = fpisa.sum(view, axis=tuple(map(np.int64, axis)) if n != 1 else np.int64(axis[0]))
                assert got.shape == want.shape and got.tobytes() == want.tobytes(), (view.shape, axis)
    assert fpisa.mean(x, axis=-1, dtype="float32").dtype == np.float32
    assert fpisa.sum(x[0, 0] + 1j * x[0, 1], axis=0)[3] == complex(*(rounded(exact(x[0, i, :, 3].tolist())) for i in (0, 1)))


def test_products(unit, rng):
    for n in [0, 1, 5, 600, 1500]:
        x, y = wide(rng, n), wide(rng, n)
        squares = exact(Fraction(a) ** 2 for a in x.tolist())
        assert fpisa.dot(x, y) == rounded(exact(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist())))
        root = fpisa.norm2(x)
        below, above = math.nextafter(root, 0), math.nextafter(root, math.inf)
        assert root == 0 == squares or (Fraction(root) + Fraction(below)) ** 2 / 4 <= squares and \
            (above == math.inf or squares <= (Fraction(root) + Fraction(above)) ** 2 / 4)
        if n > 1:
            total = exact(x.tolist())
            for ddof in 0, 1:
                want = rounded((n * squares - total ** 2) / (n * (n - ddof)))
                assert fpisa.var(x, ddof=ddof) == want == fpisa.var(x, ddof=float(ddof))
            assert fpisa.var(x, ddof=0.5) == rounded((n * squares - total ** 2) / (n * (n - Fraction(1, 2))))
    for low in range(-560, -460, 7):  # products near the size below which their second halves lose bits
        x, y = np.ldexp(rng.standard_normal((2, 300)), low)
        x, y = np.r_[x, -(x * y)], np.r_[y, np.ones(300)]  # the sum consists only of the second halves
        assert fpisa.dot(x, y) == rounded(exact(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist())))
    x, y = wide(rng, 1500), wide(rng, 1500)
    i = rng.integers(-1 << 63, 1 << 63, 40)
    assert fpisa.dot(i, x[:40]) == rounded(exact(Fraction(a) * Fraction(b) for a, b in zip(i.tolist(), x[:40].tolist())))
    assert fpisa.dot(i, i) == rounded(exact(a * a for a in i.tolist()))
    z, w = (x[:500] + 1j * y[:500]), (y[:500] - 1j * x[500:1000])
    pairs = [tuple(map(Fraction, (a.real, a.imag, b.real, b.imag))) for a, b in zip(z.tolist(), w.tolist())]
    assert fpisa.dot(z, w) == complex(rounded(sum(a * c - b * d for a, b, c, d in pairs)), rounded(sum(a * d + b * c for a, b, c, d in pairs)))
    assert math.isnan(fpisa.var([1.0])) is False and math.isnan(fpisa.var([])) and fpisa.norm2([3e-200, 4e-200]) == 5e-200
    assert fpisa.dot([5e-324] * 3, [5e-324] * 3) == 0 and fpisa.dot([1e308, -1e308], [1e308, 1e308]) == 0


def test_specials():
    nan, inf = math.nan, math.inf
    for x, want in ([nan, 1], nan), ([inf, 1], inf), ([-inf, 1e308], -inf), ([inf, -inf], nan), ([-0.0, -0.0], 0.0), ([1e308] * 2, inf):
        for n in 1, 40:
            got = [fpisa.sum(np.array(x * n)), fpisa.sum(np.array(x * n, "f4")) if abs(x[1]) < 1e38 else want, fpisa.dot(x, [1.0] * 2)]
            assert all(g == want or (math.isnan(g) and math.isnan(want)) for g in got), (x, got)
    assert math.isnan(fpisa.mean([])) and fpisa.sum([]) == 0 and math.copysign(1, fpisa.sum([-0.0])) == 1
    assert math.isnan(fpisa.dot([inf], [0.0])) and fpisa.dot([inf], [-2.0]) == -inf


def test_integers_times_specials(rng):
    """If one side is an array or list of integers, products with infinities are correct even if one half of an integer is 0."""
    integers = [0, 1, -1, 2 ** 32, -2 ** 32, 2 ** 32 + 1, -2 ** 33, 2 ** 63 - 1, -2 ** 63, 2 ** 31] + rng.integers(-1 << 63, 1 << 63, 9).tolist()
    floats = [0.0, 1.0, -1e300, 1.7e308, 5e-324, math.inf, -math.inf, math.nan]
    for i in integers:
        for f in floats:
            if math.isfinite(f):
                want = rounded(Fraction(i) * Fraction(f))
            else:
                want = math.nan if not i or math.isnan(f) else math.copysign(math.inf, f) * (1 if i > 0 else -1)
            for type_ in ("int64", "uint64") if i >= 0 else ("int64",):
                x, y = np.array([i], type_), np.array([f])
                for got in fpisa.dot(x, y), fpisa.dot(y, x), fpisa.dot([i], [f]), fpisa.dot([f], [i]):
                    assert struct.pack("d", got) == struct.pack("d", want) or math.isnan(got) and math.isnan(want), (i, f, got)
    for type_ in "int64", "uint64":
        info = np.iinfo(type_)
        x, y = rng.integers(info.min, info.max, 1000, type_, endpoint=True), wide(rng, 1000)
        want = rounded(exact(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist())))
        assert fpisa.dot(x, y) == want == fpisa.dot(y, x) == fpisa.dot(x.tolist(), y.tolist())
        y[700] = math.inf
        assert fpisa.dot(x, y) == (math.inf if x[700] > 0 else -math.inf) == fpisa.dot(y, x)


def test_complex_specials():
    """An infinite half of a complex number does not affect the other half."""
    x = np.array([[complex(1, math.inf)], [complex(2, 1)]])
    for got in fpisa.sum(x, axis=0)[0], fpisa.sum(x.ravel(), by=[5, 5]).values[0], fpisa.sum(x):
        assert got == complex(3, math.inf)
    assert fpisa.sum(x.astype("complex64"), axis=1, dtype="float32").dtype == np.complex64
    assert fpisa.sum(np.array([[1 + 1.7e308j]] * 2), axis=0)[0] == complex(2, math.inf)


def test_ties_of_a_long_run(unit):
    """Each value leaves half a unit of the upper lane, as much as the lower lane ever takes."""
    x = np.full(5 * 10 ** 6, 2.0 ** -42, "f4")
    x[0] = 1
    want = rounded(1 + (len(x) - 1) * Fraction(1, 2 ** 42))
    assert fpisa.sum(x) == want == fpisa.sum(x[::-1]) == fpisa.sum(x, threads=4) == fpisa.sum(x.astype("f8"))
    assert fpisa.sum(-x) == -want


def test_groups_beyond_the_range():
    """The sum is correct even if the spilled part of a cell is beyond 2^1024."""
    n = 1 << 19
    x = np.r_[np.full(n, 1.7e308), np.full(n, -1.7e308)]
    assert fpisa.sum(x, by=np.zeros(2 * n, int)).values.tolist() == [0]
    assert fpisa.sum(x[:n + 1], by=np.zeros(n + 1, int)).values.tolist() == [math.inf]


def test_keys(rng):
    """A masked key and None belong to no group. NaN belongs to the last group."""
    nan = math.nan
    for dtype in int, float, object:
        by = np.ma.array(np.array([7, 7, 8, 9], dtype), mask=[0, 1, 0, 1])
        got = fpisa.sum([1.0, 2, 3, 4], by=by)
        assert list(got.keys) == [7, 8] and got.values.tolist() == [1, 3] and not isinstance(got.keys, np.ma.MaskedArray)
    for by in [3.0, nan, 1.0, float("nan"), None], np.array([3.0, nan, 1.0, nan, 5.0]):
        got = fpisa.sum([1.0, 2, 4, 8, 16], by=by)
        assert list(got.keys)[:2] == [1, 3] and math.isnan(got.keys[-1]) and got.values.tolist()[:2] == [4, 1] and got.values[-1] == 10
    assert list(fpisa.sum([1, 2], by=[(nan,), "a"]).keys)[1] == "a"


def test_null_keys():
    """NaT and a masked key belong to no group, nor does a masked NaT."""
    x, dates = [1.0, 2.0, 4.0, 8.0], np.array(["2020-01-02", "NaT", "NaT", "2020-01-01"], "M8[D]")
    for by in dates, np.ma.array(dates, mask=[0, 1, 0, 0]), list(dates), dates.astype(object):
        got = fpisa.sum(x, by=by)
        assert len(got.keys) == 2 and got.values.tolist() == [8, 1], by
        assert fpisa.norm2(x, by=by).values.tolist() == [8, 1]
    spans = dates - dates[0]
    for by in spans, np.ma.array(spans, mask=[0, 1, 0, 0]), list(spans), spans.astype(object), [*spans[:2], np.ma.masked, spans[3]], \
            [2, None, np.ma.masked, 1], list(np.ma.array([2, 3, 4, 1], mask=[0, 1, 1, 0])):
        got = fpisa.sum(x, by=by)
        assert len(got.keys) == 2 and got.values.tolist() == [8, 1], by


UNITS = {"W": 7 * 86400 * 10 ** 6, "D": 86400 * 10 ** 6, "h": 3600 * 10 ** 6, "m": 60 * 10 ** 6, "s": 10 ** 6, "ms": 1000, "us": 1}


def test_times_of_several_units(rng):
    """numpy's times in a list are one key if they are equal, although their hashes differ with the unit."""
    for make in np.datetime64, np.timedelta64:
        n = 200
        at, units = rng.integers(-3, 4, n) * 12 * 3600 * 10 ** 6, rng.choice(list(UNITS), n)
        keys = [make(int(a) // UNITS[u], u) for a, u in zip(at, units)]
        exact = [int(a) // UNITS[u] * UNITS[u] for a, u in zip(at, units)]
        x = rng.standard_normal(n)
        got = fpisa.sum(x, by=keys)
        assert isinstance(got.keys, list) and [k.astype("int64") * UNITS[np.datetime_data(k.dtype)[0]] for k in got.keys] == sorted(set(exact))
        assert got.values.tolist() == [math.fsum(v for v, e in zip(x, exact) if e == k) for k in sorted(set(exact))]
        missing = fpisa.sum([1.0, 2.0, 4.0, 8.0], by=[None, keys[0], make("NaT"), keys[0]])
        assert missing.keys == keys[:1] and missing.values.tolist() == [10]
    assert fpisa.sum([1.0, 2.0], by=[np.timedelta64(1, "Y"), np.timedelta64(12, "M")]).values.tolist() == [3]
    for wrong, error in (([np.timedelta64(1, "Y"), np.timedelta64(1, "D")], TypeError), ([np.datetime64(0, "s"), 1], TypeError),
                         ([np.datetime64("9999-01-01"), np.datetime64(1, "ns")], OverflowError)):
        with pytest.raises(error):
            fpisa.sum([1.0, 2.0], by=wrong)


def test_keys_that_are_records(rng):
    """Records are one key if all fields are equal. A NaN, NaT or None in a field equals another one in the same field, and 0 equals -0."""
    nan, n = math.nan, 300
    fields = [("a", ">i4"), ("b", "f4", 2), ("c", "U2"), ("d", "M8[s]"), ("e", "O"), ("f", [("g", "f2")])]
    kinds = [1, 2], [(nan, 0.0), (nan, -0.0), (0.0, nan), (1.0, 2.0)], ["", "x"], ["NaT", "2020-01-01"], [None, "o"], [(nan,), (1.0,)]
    picks = [rng.integers(0, len(k), n) for k in kinds]
    records = np.array([tuple(k[p[i]] for k, p in zip(kinds, picks)) for i in range(n)], fields)
    same = [tuple(0 if f == 1 and p[i] == 1 else int(p[i]) for f, p in enumerate(picks)) for i in range(n)]
    x = rng.standard_normal(n)
    got = fpisa.sum(x, by=records)
    assert got.keys.dtype == records.dtype and len(got.keys) == len(set(same))
    first = [same[[r.tobytes() for r in records].index(k.tobytes())] for k in got.keys]
    assert len(set(first)) == len(first)
    assert got.values.tolist() == [math.fsum(v for v, s in zip(x, same) if s == k) for k in first]
    few = np.array([(nan, 1), (nan, 1), (2.0, 1), (nan, 0)], "f8,i8")
    got = fpisa.sum([1.0, 2.0, 4.0, 8.0], by=few)
    assert got.values.tolist() == [4, 8, 3] and got.keys[0] == few[2]
    hidden = np.ma.array(few, mask=[(0, 0), (0, 1), (0, 0), (1, 1)])
    assert fpisa.sum([1.0, 2.0, 4.0, 8.0], by=hidden).values.tolist() == [4, 1]
    assert len(fpisa.sum([], by=few[:0]).keys) == 0


def test_keys_that_do_not_equal_themselves():
    """A key that does not equal itself, and is not a null or NaN, is refused, not left out."""
    class Never:
        def __eq__(self, other):
            return False

        def __hash__(self):
            return 1

    with pytest.raises(TypeError, match="does not equal itself"):
        fpisa.sum([1.0, 2.0], by=[Never(), Never()])


def test_keys_of_either_byte_order():
    for dtype in [d for d in INTEGERS if d[-1] != "8"] + ["float16", "float32", "float64", "M8[s]", "m8[s]", "U3"]:
        for order in "<>":
            high = np.iinfo(dtype).max if dtype in INTEGERS else 5
            got = fpisa.sum([1.0, 2.0, 4.0], by=np.array([high, 1, high], dtype).astype(np.dtype(dtype).newbyteorder(order)))
            assert got.keys.tolist() == np.array([1, high], dtype).tolist() and got.values.tolist() == [2, 5], (dtype, order)


def test_booleans_that_are_neither_0_nor_1():
    """Any byte except 0 is true, as in numpy and memoryview. This holds for values and keys, in each call."""
    n = 40
    raw = bytes(i * 37 % 256 if i % 3 else 0 for i in range(n))
    truth = [float(b != 0) for b in raw]
    views = np.frombuffer(raw, "?"), np.arange(n, dtype="u1").view("?"), np.repeat(np.frombuffer(raw, "u1"), 2).view("?")[::2], memoryview(raw).cast("?")
    for x in views:
        held = [float(v) for v in x.tolist()]
        assert fpisa.sum(x) == sum(held) and fpisa.mean(x) == sum(held) / n and fpisa.dot(x, x) == sum(held) and fpisa.norm2(x) == sum(held) ** 0.5
        assert fpisa.Accumulator(x).value() == sum(held) and fpisa.sum(x, axis=0) == sum(held)
        assert fpisa.sum(x, by=[7] * n).values.tolist() == fpisa.dot(x, x, by=[7] * n).values.tolist() == [sum(held)]
        assert fpisa.dot(x, [2 ** 70] * n) == sum(held) * 2.0 ** 70
        got = fpisa.sum([2.0 ** i for i in range(n)], by=x)
        assert list(got.keys) == [False, True] and got.values.tolist()[1] == sum(2.0 ** i for i in range(n) if held[i])
    hidden = np.ma.array(views[0], mask=[1] + [0] * (n - 1))
    assert fpisa.sum(hidden) == sum(truth[1:]) and list(fpisa.sum(truth, by=hidden).keys) == [False, True]


class Tensor:
    """Objects that compare by identity and store their values elsewhere, as torch's tensors do"""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return np.array(self.x, dtype)

    def __iter__(self):
        return map(Tensor, self.x)

    def __eq__(self, other):
        return Tensor(self.x == other.x)

    def __hash__(self):
        return id(self)


def test_keys_are_values():
    """As keys, arrays of other libraries are compared by their values. Objects without values are refused."""
    torch = sys.modules.get("torch")
    for by in [Tensor([7, 7, 8]), np.frombuffer(b"-" + np.array([7, 7, 8]).tobytes(), "u1")[1:].view("i8")] + ([torch.tensor([7, 7, 8])] if torch else []):
        for call in fpisa.sum, fpisa.norm2:
            got = call([3.0, 0.0, 4.0], by=by)
            assert list(got.keys) == [7, 8] and got.values.tolist() == [3, 4]

    class Listed:
        def to_pylist(self):
            return [7, None, 7]

    assert fpisa.sum([1.0, 2.0, 4.0], by=Listed()) == fpisa._groups.Groups([7], [5])
    for by in list(Tensor([7, 7, 8])), [object(), object(), object()]:
        with pytest.raises(TypeError, match="a key has type (Tensor|object)"):
            fpisa.sum([1.0, 2.0, 4.0], by=by)
    with pytest.raises(ValueError, match="2 dimensions"):
        fpisa.sum([1.0, 2.0, 4.0], by=Tensor([[7, 7, 8]]))


def test_misaligned(rng):
    """Values may lie at any address."""
    for dtype in "float64", "float32", "complex128", "int64":
        x = rng.integers(-9, 9, 3000).astype(dtype)
        there = np.frombuffer(b"-" + x.tobytes(), "u1")[1:].view(dtype)
        assert not there.flags.aligned and fpisa.sum(there) == x.sum() and fpisa.sum(there, by=np.zeros(3000, int)).values[0] == x.sum()
        assert fpisa.sum(there, axis=0) == x.sum() and fpisa.dot(there, x) == np.dot(x, x)


def test_arguments_of_numpy(rng):
    """An integer of numpy counts as an integer of Python."""
    x = rng.standard_normal(200_000)
    some = x[:50]
    for one in np.int64(1), np.uint8(1), np.float32(1), np.float64(1), Fraction(1), Decimal(1), True:
        assert fpisa.var(some, ddof=one) == fpisa.var(some, ddof=1) == fpisa.var(some, by=[1] * 50, ddof=one).values[0]
    assert fpisa.sum(x, threads=np.int64(2)) == fpisa.sum(x)
    for wrong in math.nan, math.inf, Decimal("NaN"):
        with pytest.raises(ValueError, match="ddof"):
            fpisa.var(some, ddof=wrong)


def test_bits_of_results(rng):
    """Each bit pattern of the small types has the value that numpy gives it, and converts back."""
    bits = np.arange(1 << 16)
    wide32 = rng.integers(0, 1 << 32, 4000) & rng.choice([0xffffffff, 0x807fffff], 4000)  # half of the values are subnormal
    for name, these, kind in ("float16", bits, "u2 f2"), ("bfloat16", bits, "u4 f4"), ("float32", wide32, "u4 f4"):
        with np.errstate(invalid="ignore"):
            want = (these << (16 if name == "bfloat16" else 0)).astype(kind[:2]).view(kind[3:]).astype("f8")
        f = _formats.FORMATS[name]
        for b, x in zip(these.tolist(), want.tolist()):
            got = _formats.number(b, f)
            assert struct.pack("d", got) == struct.pack("d", x) or math.isnan(got) and math.isnan(x), (name, b)
            assert _formats.bits_of(x, f) == b or math.isnan(x), (name, b)


def test_crafted_keys(rng):
    """Grouping is fast even with keys that would collide in a hash table with known constants."""
    mask, n = (1 << 64) - 1, 60000
    back = [pow(c, -1, 1 << 64) for c in (0xd6e8feb86659fd93, 0x9e3779b97f4a7c15)]
    crafted = []
    for i in range(n):
        h = i * back[0] & mask
        crafted.append((h ^ h >> 32) * back[1] & mask)
    seconds = []
    for keys in np.array(crafted, "uint64"), rng.integers(0, 1 << 64, n, "uint64"):
        began = time.process_time()
        assert len(fpisa.sum(np.ones(n), by=keys).keys) == n
        seconds.append(time.process_time() - began)
    assert seconds[0] < 10 * seconds[1] + 0.5


def test_groups(unit, rng):
    for n, groups in (0, 3), (1, 1), (5000, 7), (5000, 3000), (20000, 2):
        for dtype in "float64", "float32":
            x, by = wide(rng, n, dtype), rng.integers(-groups, groups, n) * 1000003
            members = {k: x[by == k].tolist() for k in np.unique(by).tolist()}
            got, means = fpisa.sum(x, by=by), fpisa.mean(x, by=by)
            assert got.keys.tolist() == sorted(members) == means.keys.tolist()
            assert got.values.tolist() == [rounded(exact(members[k])) for k in sorted(members)]
            assert means.values.tolist() == [rounded(exact(m) / len(m)) for _, m in sorted(members.items())]
    x = np.r_[np.ones(600), np.full(700000, np.nextafter(16, 0))]  # values of one sign, as large as values of the first block's unit may be
    for by in np.zeros(len(x), int), np.arange(len(x)) % 300 // 299:
        got = fpisa.sum(x, by=by).values
        assert got.tolist() == [rounded(int((by[:600] == k).sum()) + int((by[600:] == k).sum()) * Fraction(x[-1])) for k in range(len(got))]
    x, by = rng.integers(-1 << 63, 1 << 63, 900), rng.integers(0, 5, 900)
    assert fpisa.sum(x, by=by).values.tolist() == [rounded(Fraction(sum(x[by == k].tolist()))) for k in range(5)]
    assert fpisa.mean(x, by=by).values.tolist() == [rounded(Fraction(sum(x[by == k].tolist()), int((by == k).sum()))) for k in range(5)]
    assert fpisa.sum([1.5, 2, 4], by=["b", None, "a"]) == fpisa._groups.Groups(["a", "b"], pytest.approx([4, 1.5]))
    assert fpisa.sum(np.array([1, 2j, 3]), by=np.array([1, 0, 1])).values.tolist() == [2j, 4]


class Column:
    """An Arrow column as a program in any language would export it, in two chunks, without a call of pyarrow"""

    def __init__(self, x, valid, offset=0, format_=b"g", chunks=2, dictionary=None):
        self.x, self.valid, self.offset, self.released = x, np.packbits(valid, bitorder="little"), offset, 0
        self.n, self.format, self.chunks, self.dictionary = len(valid), format_, chunks, dictionary

    def fill(self, stream, out):
        half = self.n // 2
        low, high = (self.offset, half) if self.calls == 0 else (half, self.n)
        out = out.contents
        if self.calls < self.chunks:
            buffers = (ctypes.c_void_p * 2)(self.valid.ctypes.data, self.x.ctypes.data)
            self.keep.append(buffers)
            out.length, out.offset, out.null_count, out.n_buffers = high - low, low, -1, 2
            out.buffers, out.release = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p)), self.free
            if self.dictionary:  # the first two values of `indices` are before its offset, and the third value after it is null
                values, most = self.dictionary[0], np.array([0x2f], "uint8")
                inner = (ctypes.c_void_p * 2)(most.ctypes.data, values.ctypes.data)
                self.keep += [most, inner, _arrow.ArrowArray(4, 1, 2, 2, 0, ctypes.cast(inner, ctypes.POINTER(ctypes.c_void_p)))]
                out.dictionary = ctypes.addressof(self.keep[-1])
        self.calls += 1
        return 0

    def schema(self, stream, out):
        out.contents.format, out.contents.release = self.format, type(out.contents.release)(lambda s: None)
        if self.dictionary:
            self.keep.append(_arrow.Schema(self.dictionary[1]))
            out.contents.dictionary = ctypes.addressof(self.keep[-1])
        self.keep.append(out.contents.release)
        return 0

    def release(self, p):
        self.released += 1

    def __arrow_c_stream__(self, requested=None):
        self.calls, self.keep = 0, []
        fields = dict(_arrow.Stream._fields_)
        self.free = dict(_arrow.ArrowArray._fields_)["release"](self.release)
        self.stream = _arrow.Stream(fields["get_schema"](self.schema), fields["get_next"](self.fill))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def test_arrow(rng):
    """Chunks, offsets and nulls are read right, and each chunk is released once."""
    for n in 1, 10, 3001:
        x, valid, offset = wide(rng, n), rng.integers(0, 2, n).astype(bool), min(3, n // 2)
        column, seen = Column(x, valid, offset), valid & (np.arange(n) >= offset)
        assert fpisa.sum(column) == rounded(exact(x[seen].tolist()))
        assert fpisa.Accumulator(column).count == seen.sum()
        assert column.released == 4  # four chunks, in two sums


def test_arrow_types(rng):
    """Booleans are bits, decimals may have a negative scale, a column without chunks has the sum of its type, and indices are not
    values."""
    for n in 1, 9, 1000:
        x, valid = rng.integers(0, 2, n).astype(bool), rng.integers(0, 2, n).astype(bool)
        seen = valid & (np.arange(n) >= min(3, n // 2))
        got = fpisa.sum(Column(np.packbits(x, bitorder="little"), valid, min(3, n // 2), b"b"))
        assert got == (x & seen).sum() and type(got) is int
    hundreds = np.array([1, 0, 2, 0], "int64")
    decimals = Column(hundreds, [True, True], format_=b"d:5,-2")
    assert fpisa.sum(decimals) == 300 and fpisa.mean(decimals) == 150 and fpisa.sum(decimals, dtype="float32") == 300
    for format_, want in (b"l", int), (b"d:5,2", Decimal), (b"g", float), (b"b", int):
        got = fpisa.sum(Column(hundreds, [True], format_=format_, chunks=0))
        assert got == 0 and type(got) is want
    for index, format_ in ("int8", b"c"), ("uint16", b"S"), ("int64", b"l"):
        at, valid = rng.integers(0, 4, 200).astype(index), rng.integers(0, 2, 200).astype(bool)
        for values, value in (np.array([9, 9, 1e100, 0.5, 9, -1e100]), b"g"), (np.array([9, 9, -3, 1 << 62, 9, 5]), b"l"):
            want = exact(values[2 + at][valid & (at != 2)].tolist())
            got = fpisa.sum(Column(at, valid, 0, format_, dictionary=(values, value)))
            assert got == (rounded(want) if value == b"g" else want)
    with pytest.raises(TypeError, match="a dictionary with Arrow's format 'u' cannot be summed"):
        fpisa.sum(Column(hundreds, [True, True], format_=b"l", dictionary=(hundreds, b"u")))
    assert fpisa.var(decimals) == 2500


def test_nulls_keep_their_place(rng):
    """A masked value or None on either side of a product leaves out the row, and sums along an axis keep the shape."""
    x, y, by = rng.integers(-9, 9, (3, 50)) * 1.0
    off, gone = rng.integers(0, 2, (2, 50)).astype(bool)
    seen = ~off & ~gone
    for one, two in ((np.ma.array(x, mask=off), np.ma.array(y, mask=gone)),
                     ([None if m else v for v, m in zip(x.tolist(), off)], [None if m else v for v, m in zip(y.tolist(), gone)]),
                     (np.ma.array(x.astype(object), mask=off), np.where(gone, None, y.astype(object)))):
        assert fpisa.dot(one, two) == (x * y)[seen].sum() and fpisa.sum(one) == x[~off].sum() and fpisa.mean(one) == rounded(
            Fraction(x[~off].sum()) / int((~off).sum()))
        assert fpisa.norm2(one) == math.sqrt((x * x)[~off].sum()) and fpisa.Accumulator(two).count == (~gone).sum()
        groups = fpisa.sum(one, by=by)
        assert groups.keys.tolist() == np.unique(by).tolist()
        assert groups.values.tolist() == [x[(by == k) & ~off].sum() for k in groups.keys]
    z = np.ma.array(x + 1j * y, mask=off)
    assert fpisa.sum(z) == z.sum() and fpisa.sum(np.ma.array(x.reshape(5, 10).T, mask=off.reshape(5, 10).T)) == x[~off].sum()
    table = np.ma.array([[1.0, 2], [3, 4]], mask=[[1, 0], [0, 0]])
    for refused in lambda: fpisa.sum(table, axis=0), lambda: fpisa.sum(np.array([[None, 2], [3, 4]]), axis=0):
        with pytest.raises(TypeError, match="nulls"):
            refused()
    for refused in lambda: fpisa.sum(table, by=[1, 2, 1, 2]), lambda: fpisa.dot(table, table):
        with pytest.raises(ValueError, match="dimension"):
            refused()
    assert fpisa.sum(np.ma.array([[1.0, 2], [3, 4]]), axis=0).tolist() == [4, 6] == fpisa.sum(np.array([[1, 2], [3, 4]], object), axis=0).tolist()


def test_numbers_are_exact():
    """The sum of a list of numbers of Python and numpy is exact, or the call is refused."""
    big = 2 ** 53 + 1
    for x in [2 ** 63, 1], [2 ** 64 - 1, 1], [np.int64(big)], [np.uint64(2 ** 64 - 1), 1], [2 ** 63 + 1, -5], [10 ** 400, 1], [True, big], [-1, 2 ** 70, None]:
        got, want = fpisa.sum(x), sum(int(v) for v in x if v is not None)
        assert got == want and type(got) is int, x
    assert fpisa.mean([2 ** 63 + 1, -5]) == rounded(Fraction(2 ** 63 - 4, 2)) and fpisa.dot([2 ** 70, 1], [1.0, 2.0]) == 2.0 ** 70 + 2
    parts = [Decimal("0.1")] * 10 + [Decimal("1E+2"), 3, None]
    assert fpisa.sum(parts) == 104 and type(fpisa.sum(parts)) is Decimal and fpisa.sum(np.array(parts, object), dtype="float32") == 104
    assert fpisa.mean([Decimal("0.1"), Decimal("0.2")]) == 0.15 and fpisa.sum([Decimal("1E+2"), 3]) == 103
    assert str(fpisa.sum([Decimal("1E+2")])) == "1E+2" and str(fpisa.sum([Decimal("-1E-9999"), 0])) == "-1E-9999"
    assert fpisa.sum([Decimal("1E+9000"), Decimal("1E-9000")]) > Decimal("1E+9000")  # as integers, the operands have more digits than str() of an int accepts
    with pytest.raises(OverflowError, match="exponent"):
        fpisa.sum([Decimal("1E+999999999")])
    assert fpisa.sum([np.float32(0.5), Fraction(1, 4), np.complex64(1j)]) == 0.75 + 1j and math.isnan(fpisa.sum([math.nan, 1]))
    for x in [1j, big], [0.5, big], [0.5, Decimal("0.1")], [Fraction(1, 3)], [np.longdouble(1) + np.finfo(np.longdouble).eps]:
        with pytest.raises(OverflowError, match="not a float64"):
            fpisa.sum(x)
    for x in ["1", "2"], [1.0, b"2"], [Decimal("NaN")]:
        with pytest.raises(TypeError):
            fpisa.sum(x)
    for call in lambda x: fpisa.sum(x, axis=0), lambda x: fpisa.dot(x, [1.0, 2.0]), fpisa.Accumulator:
        with pytest.raises(TypeError, match="cast"):
            call([2 ** 63 + 1, -1])


def test_buffers():
    """The sum handles arrays of ctypes, which report no strides, and formats whose size is not the machine's."""
    assert fpisa.sum((ctypes.c_double * 3)(1, 2, 3)) == 6 and fpisa.sum(ctypes.c_double(2.5)) == 2.5
    assert fpisa.sum(((ctypes.c_float * 2) * 3)((1, 2), (3, 4), (5, 6)), axis=0).tolist() == [9, 12]
    for type_ in ctypes.c_long, ctypes.c_int, ctypes.c_ubyte, ctypes.c_short, ctypes.c_ulonglong:
        assert fpisa.sum((type_ * 3)(1, 2, 3)) == 6

    class Packed(ctypes.Structure):  # its format is 'B', whatever its size
        _pack_, _fields_ = 1, [("x", ctypes.c_int32)]

    for refused in (Packed * 2)(), (ctypes.c_char * 2)(), (ctypes.c_double.__ctype_be__ * 2)():
        with pytest.raises(TypeError, match="format"):
            fpisa.sum(refused)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the place of MXCSR in fenv_t")
def test_flushing_thread():
    """A thread that flushes subnormals to zero gets the same bits."""
    m, env = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)()
    least = np.float32(1e-45), np.float16(6e-8)
    units = {name: np.array([3 * 2.0 ** FLOATS[name][1]]) for name in ("float32", "float16", "bfloat16")}
    m.fegetenv(env)
    before, env[7] = env[7], env[7] | 0x8040
    m.fesetenv(env)
    try:
        flushed = float("5e-324") * float("1")
        got = [fpisa.dot([1e-200], [-1e-120]), fpisa.norm2([3e-320, 4e-320]), fpisa.sum([1e-320, 2e-320]), fpisa.var([1e-160, 2e-160]),
               fpisa.sum([2e-320], by=[1]).values[0], fpisa.sum(np.full((1, 2), 1e-320), axis=1)[0]]
        bits = [struct.pack("d", x) for x in got]
        small = {name: [struct.pack("d", v) for v in (fpisa.sum(x, dtype=name), fpisa.mean(-x, dtype=name), fpisa.Accumulator(x).value(name))]
                 for name, x in units.items()}
        pair = np.repeat(units["float32"], 2)
        packed = [bytes(getattr(r, "values", r)) for k in (dict(by=[1, 1]), dict(axis=0)) for r in (
            fpisa.sum(pair, dtype="float32", **k), fpisa.mean(pair, dtype="float32", **k), fpisa.norm2(pair, dtype="float32", **k),
            fpisa.dot(pair, np.ones(2), dtype="float32", **k), fpisa.var(np.array([0, 2.0 ** -73]), dtype="float32", **k))]
        scalars = [struct.pack("d", fpisa.sum([v])) for v in least]
    finally:
        env[7] = before
        m.fesetenv(env)
    assert flushed == 0
    assert bits == [struct.pack("d", x) for x in (-1e-320, 5e-320, 3e-320, 2.5e-321, 2e-320, 2e-320)]
    for name, got in small.items():
        assert got == [struct.pack("d", x) for x in (units[name][0], -units[name][0], units[name][0])], name
    assert packed == [struct.pack("<I", n) for n in (6, 3, 4, 6, 2)] * 2
    assert scalars == [struct.pack("d", x) for x in (2.0 ** -149, 2.0 ** -24)]



def test_other_inputs():
    values = [1.5, -2.25, 1e100, -1e100]
    for x in (values, tuple(values), iter(values), array.array("d", values), memoryview(array.array("d", values)),
              memoryview(np.array(values).tobytes()).cast("d"), np.ma.array(values + [7], mask=[0, 0, 0, 0, 1])):
        assert fpisa.sum(x) == -0.75
    assert fpisa.sum(b"\x01\x02"[:0] and None or array.array("h", [-3, 5])) == 2
    assert fpisa.sum([1, 2, 1 << 62]) == (1 << 62) + 3 and fpisa.sum([1, None, 2.5]) == 3.5
    assert fpisa.sum([1 + 2j, 1]) == 2 + 2j


@pytest.mark.parametrize("call, error", [
    (lambda: fpisa.sum("abc"), TypeError), (lambda: fpisa.sum(3j, by=[1, 2]), ValueError), (lambda: fpisa.sum([1.0], dtype="int8"), TypeError),
    (lambda: fpisa.sum(np.zeros(3), axis=1), ValueError), (lambda: fpisa.sum(np.zeros(3), axis=0, by=[1, 2, 3]), ValueError),
    (lambda: fpisa.dot([1.0], [1.0, 2.0]), ValueError), (lambda: fpisa.sum([2.5, 2 ** 60 + 1]), OverflowError),
    (lambda: fpisa.sum(np.zeros(3, ">f8")), TypeError), (lambda: fpisa.sum(np.zeros(3, "M8[s]")), TypeError),
    (lambda: fpisa.sum([1.0], threads=0), ValueError), (lambda: fpisa.Accumulator.from_bytes(b"FS"), ValueError),
    (lambda: fpisa.Accumulator([1j]), TypeError), (lambda: fpisa.sum(object()), TypeError), (lambda: fpisa.sum([1.0], axis="0"), TypeError),
    (lambda: fpisa.sum(np.zeros(3, complex), axis=(), dtype="bfloat16"), TypeError)])
def test_refusals(call, error):
    with pytest.raises(error):
        call()


def test_pickle_and_bytes():
    a = fpisa.Accumulator([1, -2.5])
    assert a.to_bytes().hex(" ") == "46 53 01 01 ff ff 00 00 02 00 00 00 00 00 00 00 03"  # the example of doc/partial.md
    b = pickle.loads(pickle.dumps(a))
    assert b == a and b.merge(a).value() == -3 and b.count == 4 and a.mean() == -0.75 and "-1.5" in repr(a)
    for kind in bytes, bytearray, memoryview:
        assert fpisa.Accumulator().merge(kind(a.to_bytes())) == a == fpisa.Accumulator.from_bytes(kind(a.to_bytes()))


def test_without_numpy():
    """The code for sums does not import numpy. Results that are arrays are then memoryviews."""
    program = """if True:
        import sys
        sys.modules["numpy"] = None
        import array, fpisa
        assert fpisa.sum(array.array("d", [1e100, 1, -1e100])) == 1
        x = memoryview(array.array("d", range(6))).cast("B").cast("d", (2, 3))
        assert fpisa.sum(x, axis=0).tolist() == [3, 5, 7] and fpisa.sum([1.0, 2, 4], by=[7, 5, 7]).values.tolist() == [2, 5]
        assert fpisa.norm2([3, 4]) == 5"""
    subprocess.run([sys.executable, "-B", "-c", program], check=True, cwd=f"{TOP}/adapters/python")


@pytest.mark.parametrize("call", [fpisa.sum, lambda x: fpisa.Accumulator(x).value(), lambda x: fpisa.sum(x, by=np.zeros(len(x), int)).values[0],
                                  lambda x: fpisa.dot(x, x)], ids=["sum", "accumulator", "groups", "dot"])
def test_two_at_once(call):
    """While a call sums many values, calls of another thread begin and end, because neither Python's lock nor a lock of the library is
    held."""
    many, few = np.ones(10_000_000), np.full(20_000, 0.5)
    began, over, during = threading.Event(), threading.Event(), []

    def others():
        began.wait()
        while not over.is_set():
            during.append((call(few), fpisa.sum(few[:100])))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # a thread then continues until it releases the lock
    try:
        t = threading.Thread(target=others)
        t.start()
        began.set()
        for _ in range(30):  # the thread may have to wait for a CPU
            before, got, after = len(during), call(many), len(during)
            if after - before > 2:
                break
        over.set()
        t.join()
    finally:
        sys.setswitchinterval(interval)
    assert got == len(many) and set(during) == {(call(few), 50.0)} and after - before > 2


@pytest.mark.skipif(not shutil.which("objdump"), reason="binutils are not installed; make test installs them")
def test_no_global_state():
    """The library's only variable is the chosen kernel, and all threads choose the same kernel. All other variables belong to the
    compiler."""
    table = subprocess.run(["objdump", "-t", os.environ["FPISA_SUMS"]], check=True, text=True, capture_output=True).stdout
    names = {line.split()[-1] for line in table.splitlines() if re.search(r" \.(data|bss|tdata|tbss)\s", line)}
    assert {n for n in names if not re.match(r"\.|__|completed", n)} == {"chosen"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="vector units of x86-64")
def test_dispatch(tmp_path):
    """The widest vector unit of the CPU is chosen, and each unit gives the same bytes, on this CPU and on emulated CPUs without AVX-512 and
    AVX2."""
    program = """if True:
        import sys
        sys.modules["numpy"] = None
        import array, fpisa
        x = array.array("d", ((i * 2654435761 % 1000003 - 500000) * 2.0 ** (i % 30 - 15) for i in range(999)))
        print(fpisa.vectors(), fpisa.Accumulator(x).to_bytes().hex(), fpisa.sum(x, by=[i % 7 for i in range(999)]).values.tolist(), fpisa.dot(x, x))"""
    with open("/proc/cpuinfo") as f:
        flags = set(re.search(r"^flags\s*: (.*)$", f.read(), re.M)[1].split())
    own = "avx512" if {"avx512f", "avx512dq"} <= flags else "avx2" if {"avx2", "fma"} <= flags else "baseline"
    cpus = {own: []}
    if shutil.which("qemu-x86_64"):
        cpus.update(avx2=["qemu-x86_64", "-cpu", "Haswell"], baseline=["qemu-x86_64", "-cpu", "Nehalem"])
    said = {}
    for want, emulator in cpus.items():
        p = subprocess.run([*emulator, os.path.realpath(sys.executable), "-B", "-c", program], text=True, capture_output=True, cwd=f"{TOP}/adapters/python")
        unit, said[want] = p.stdout.split(" ", 1)
        assert unit == want, p
    assert len(set(said.values())) == 1 and len(said) == (3 if own == "avx512" and len(cpus) > 1 else len(cpus))


def test_page():
    """The examples of doc/sums.md that need no other package run, and print the output that the page shows."""
    with open(f"{TOP}/doc/sums.md") as f:
        text = f.read()
    for program in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        compile(program, "doc/sums.md", "exec")
        if not re.search("pandas|polars|duckdb|pyarrow|datafusion|dask|pyspark|ray", program):
            names = {}
            for line in re.findall(r".*\n", program):
                said = re.fullmatch(r"(\S.*?)  +# (.*)\n", line)
                if said and not re.match(r"\w+ = |import|from", line):
                    assert repr(eval(said[1], names)) == said[2], line
                else:
                    exec(line, names)
