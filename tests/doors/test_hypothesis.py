# SPDX-License-Identifier: GPL-2.0-only
"""Doubles from hypothesis, in any split and order, have the sums of rational arithmetic."""
import math
from fractions import Fraction

import numpy
import pytest

import fpisa

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

finite = st.floats(allow_nan=False, allow_infinity=False)
columns = st.lists(finite, max_size=200)


def nearest(x):
    try:
        return x.numerator / x.denominator  # Python rounds to nearest even
    except OverflowError:
        return math.inf if x > 0 else -math.inf


@settings(max_examples=400, deadline=None)
@given(columns, st.integers(1, 40), st.randoms())
def test_sum(xs, repeat, random):
    xs = xs * repeat
    total = sum(map(Fraction, xs), Fraction(0))
    assert fpisa.sum(numpy.array(xs)) == nearest(total)
    random.shuffle(xs)
    at = random.randrange(len(xs) + 1)
    merged = fpisa.merged([fpisa.Accumulator(xs[at:]), fpisa.Accumulator(xs[:at]).to_bytes()])
    assert merged.value() == nearest(total) and merged == fpisa.Accumulator(numpy.array(xs))
    assert not xs or fpisa.mean(xs) == nearest(total / len(xs))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(finite, finite), max_size=60))
def test_products(pairs):
    x, y = (numpy.array([p[i] for p in pairs]) for i in (0, 1))
    assert fpisa.dot(x, y) == nearest(sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), finite), max_size=80), st.sampled_from(["avx512", "avx2", "baseline"]), st.randoms())
def test_groups(rows, unit, random):
    members = {k: [Fraction(x) for key, x in rows if key == k] for k, _ in rows}
    random.shuffle(rows)
    before = fpisa.vectors()
    fpisa.vectors(unit)
    try:
        got = fpisa.sum(numpy.array([x for _, x in rows]), by=numpy.array([k for k, _ in rows], int))
        var = fpisa.var([x for _, x in rows], by=[k for k, _ in rows])
    finally:
        fpisa.vectors(before)
    assert dict(zip(got.keys, got.values)) == {k: nearest(sum(xs)) for k, xs in members.items()}
    assert dict(zip(var.keys, var.values)) == {k: nearest(sum(x * x for x in xs) / len(xs) - (sum(xs) / len(xs)) ** 2) for k, xs in members.items()}


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=340))
def test_bytes(data):
    """Random bytes either parse as a partial, which is written back in its shortest form, or raise ValueError."""
    for given_bytes in data, b"FS\1\0" + data:
        try:
            a = fpisa.Accumulator.from_bytes(given_bytes)
        except ValueError:
            continue
        assert fpisa.Accumulator.from_bytes(a.to_bytes()) == a
