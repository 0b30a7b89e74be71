# SPDX-License-Identifier: GPL-2.0-only
"""Test every call of doc/sums.md with every kind of values that it names, whole, by keys and along axes, against rational numbers.

A kind makes an object and returns its numbers: a Fraction, a pair of Fractions (complex), or None (null). The oracle is Python's fractions
and test_sums.rounded(), without code of the package.
"""
import array
import ctypes
import math
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import fpisa
from test_sums import FLOATS, INTEGERS, Column, rounded, wide

ARROW = {"float64": b"g", "float32": b"f", "float16": b"e", "int8": b"c", "uint8": b"C", "int16": b"s", "uint16": b"S", "int32": b"i",
         "uint32": b"I", "int64": b"l", "uint64": b"L"}
BUFFERS = {"d": "float64", "f": "float32", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "q": "int64",
           "Q": "uint64"}


def numbers(rng, n, dtype):
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    if dtype.startswith("complex"):
        half = {"complex64": "float32", "complex128": "float64"}[dtype]
        return (wide(rng, n, half) + 1j * wide(rng, n, half).astype(half)).astype(dtype)
    return wide(rng, n, dtype)


def fractions(x):
    return [(Fraction(v.real), Fraction(v.imag)) if isinstance(v, complex) else Fraction(v) for v in x.tolist()]


def of_numpy(dtype, view):
    def make(rng, n):
        x = view(numbers(rng, 3 * n, dtype))[:n]
        return x, fractions(x)
    return make


class Interface:
    """An object that has only __array_interface__"""

    def __init__(self, x):
        self.keep, self.__array_interface__ = x, x.__array_interface__


def of_interface(rng, n):
    x = numbers(rng, n, "float32")
    return Interface(x), fractions(x)


class Buffer(bytearray):
    """An interface without data, so that the object's own memory is the data"""


def of_interface_in_a_buffer(whose):
    """Return every second value, in reverse, of a buffer that begins with other values. The data are bytes, as Pillow's images have
    them."""
    def make(rng, n):
        x = numbers(rng, 2 * n + 3, "float32")
        made = {"typestr": "<f4", "shape": (n,), "strides": (-8,), "offset": 4 * (2 * n + 1), "version": 3}
        if whose == "own":
            v = Buffer(x.tobytes())
        else:
            v = Interface(x)
            made["data"] = x.tobytes() if whose == "bytes" else memoryview(x.tobytes())
        v.__array_interface__ = made
        return v, fractions(x[2 * n + 1:1:-2][:n])
    return make


def of_scalars(*types):
    """Return numpy's scalars, and arrays of one value of either byte order, in a list."""
    def make(rng, n):
        of = [str(rng.choice(types)) for _ in range(n)]
        x = [numbers(rng, 1, t)[0] for t in of]
        held = [fractions(np.array([v]))[0] for v in x]
        return [np.array(v, np.dtype(t).newbyteorder(">")) if rng.integers(3) == 0 else v for v, t in zip(x, of)], held
    return make


def of_buffer(code):
    def make(rng, n):
        x = numbers(rng, n, BUFFERS[code])
        return memoryview(array.array(code, x.tolist())), fractions(x)
    return make


def of_ctypes(rng, n):
    x = numbers(rng, n, "float64")
    return (ctypes.c_double * n)(*x), fractions(x)


def of_masked(dtype):
    def make(rng, n):
        x, off = numbers(rng, n, dtype), rng.integers(0, 3, n) == 0
        return np.ma.array(x, mask=off), [None if m else v for v, m in zip(fractions(x), off)]
    return make


def of_arrow(dtype):
    def make(rng, n):
        x, valid, offset = numbers(rng, n + 3, dtype), rng.integers(0, 3, n + 3) > 0, min(3, (n + 3) // 2)
        column = Column(np.packbits(x, bitorder="little") if dtype == "bool" else x, valid, offset, b"b" if dtype == "bool" else ARROW[dtype])
        return column, [v if seen else None for v, seen in zip(fractions(x), valid)][offset:]
    return make


def of_dictionary(rng, n):
    values, at, valid = numbers(rng, 6, "float64"), rng.integers(0, 4, n).astype("int8"), rng.integers(0, 3, n) > 0
    held = [Fraction(values[2 + i]) if ok and i != 2 else None for i, ok in zip(at, valid)]  # the third value of class Column is null
    return Column(at, valid, 0, b"c", dictionary=(values, b"g")), held


def of_decimals(bits, scale):
    def make(rng, n):
        most, words = min(bits - 1, 250), bits // 8
        x = [int.from_bytes(rng.bytes(words), "little", signed=True) >> int(rng.integers(0, most)) for _ in range(n)]
        memory, valid = np.frombuffer(b"".join(v.to_bytes(words, "little", signed=True) for v in x), "uint8"), rng.integers(0, 3, n) > 0
        format_ = f"d:{bits // 4},{scale}" + (f",{bits}" if bits != 128 else "")
        return Column(memory, valid, min(1, n // 2), format_.encode()), [Fraction(v) / Fraction(10) ** scale if ok else None
                                                                         for v, ok in zip(x, valid)][min(1, n // 2):]
    return make


def of_list(one):
    def make(rng, n):
        items = [None if rng.integers(4) == 0 and n > 1 else one(rng) for _ in range(n - 1)] + [one(rng)]
        return items, [None if v is None else (Fraction(v.real), Fraction(v.imag)) if isinstance(v, complex) else Fraction(v) for v in items]
    return make


KINDS = {
    **{f"numpy {d}": of_numpy(d, lambda x: x) for d in [*INTEGERS, "bool", "float16", "float32", "float64", "complex64", "complex128"]},
    "numpy reversed": of_numpy("float64", lambda x: x[::-1]), "numpy strided": of_numpy("float32", lambda x: x[::3]),
    "numpy complex strided": of_numpy("complex128", lambda x: x[::-2]),
    **{f"__array_interface__ in {w}": of_interface_in_a_buffer(w) for w in ("bytes", "memoryview", "own")},
    "list of numpy's integers": of_scalars("int64", "uint32", "int8"), "list of numpy's floats": of_scalars("float16", "float32", "float64"),
    "list of numpy's complex": of_scalars("complex64", "complex128"),
    "__array_interface__": of_interface, "ctypes": of_ctypes,
    **{f"buffer {c}": of_buffer(c) for c in BUFFERS},
    **{f"masked {d}": of_masked(d) for d in ("float64", "int64", "complex128")},
    **{f"arrow {d}": of_arrow(d) for d in [*ARROW, "bool"]}, "arrow dictionary": of_dictionary,
    **{f"arrow decimal{b}, scale {s}": of_decimals(b, s) for b, s in ((32, 2), (64, 3), (128, 2), (128, -3), (256, 40))},
    "list of floats": of_list(lambda rng: float(rng.standard_normal())),
    "list of integers": of_list(lambda rng: int(rng.integers(-9, 9)) << int(rng.integers(0, 50))),
    "list of huge integers": of_list(lambda rng: (int(rng.integers(0, 9)) << int(rng.integers(1, 200))) + (1 << 70) + 1),
    "list of Decimals": of_list(lambda rng: Decimal(int(rng.integers(-10 ** 9, 10 ** 9))).scaleb(int(rng.integers(-12, 12)))),
    "list of complex": of_list(lambda rng: complex(*rng.standard_normal(2))),
}


class Halves(Interface):
    """bfloat16 as in ml_dtypes, but without its axes and operators"""

    dtype = types.SimpleNamespace(name="bfloat16")

    def reshape(self, *shape):
        return Halves(self.keep.reshape(shape))


def of_bfloat16(rng, n):
    bits = wide(rng, n, "float32").view("uint32") >> 16
    return Halves(bits.astype("uint16")), fractions((bits << 16).view("float32"))


KINDS["bfloat16 by its bits"] = of_bfloat16
try:
    import ml_dtypes
    KINDS["bfloat16"] = lambda rng, n: (lambda x: (x, fractions(x.astype("float64"))))(wide(rng, n, "float32").astype(ml_dtypes.bfloat16))
except ImportError:
    pass


def added(values):
    """Return the exact sum, a Fraction or a pair of Fractions."""
    there = [v for v in values if v is not None]
    if any(isinstance(v, tuple) for v in there):
        return tuple(sum(v[i] for v in there) for i in (0, 1))
    return sum(there, Fraction(0))


def nearest(x, dtype="float64"):
    return complex(rounded(x[0], dtype), rounded(x[1], dtype)) if isinstance(x, tuple) else rounded(x, dtype)


def size(v):
    return v[0] ** 2 + v[1] ** 2 if isinstance(v, tuple) else v ** 2


def product(a, b):
    if a is None or b is None:
        return None
    return (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]) if isinstance(a, tuple) else a * b


def average(values, dtype="float64"):
    n, total = sum(v is not None for v in values), added(values)
    if not n:
        return math.nan
    return nearest(tuple(t / n for t in total) if isinstance(total, tuple) else total / n, dtype)


def variance(values, ddof):
    there = [v if isinstance(v, tuple) else (v, 0) for v in values if v is not None]
    n = len(there)
    if n <= ddof:
        return math.nan
    return rounded((n * sum(map(size, there)) - sum(sum(v[i] for v in there) ** 2 for i in (0, 1))) / (n * (n - Fraction(ddof))))


def root(values):
    """Return the double nearest to the root. The squares of the midpoints to its neighbours enclose the sum of squares."""
    total = sum((size(v) for v in values if v is not None), Fraction(0))
    if not total:
        return 0.0
    up = max(0, 140 - total.numerator.bit_length() + total.denominator.bit_length())
    up += up % 2
    whole = math.isqrt((total.numerator << up) // total.denominator)
    return rounded(Fraction(2 * whole + (Fraction(whole ** 2, 2 ** up) != total), 2) / 2 ** (up // 2))


def same(got, want):
    if want != want:
        return got != got
    if isinstance(want, complex) or isinstance(got, complex):
        return same(complex(got).real, complex(want).real) and same(complex(got).imag, complex(want).imag)
    return got == want


CALLS = {
    "sum": (fpisa.sum, lambda v, w: nearest(added(v))),
    "mean": (fpisa.mean, lambda v, w: average(v)),
    "norm2": (fpisa.norm2, lambda v, w: root(v)),
    "var": (fpisa.var, lambda v, w: variance(v, 0)),
    "dot": (fpisa.dot, lambda v, w: nearest(added(list(map(product, v, w))))),
}


@pytest.fixture
def rng(rng):
    return np.random.default_rng(rng.getrandbits(64))


@pytest.mark.parametrize("kind", KINDS)
def test_kind(rng, kind):
    for n in 1, int(rng.integers(2, 40)):
        (x, held), (y, other) = KINDS[kind](rng, n), KINDS[kind](rng, n)
        for name, (call, want) in CALLS.items():
            arguments = (x, y) if name == "dot" else (x,)
            got = call(*arguments)
            assert got == added(held) if type(got) in (int, Decimal) else same(got, want(held, other)), (name, n)
            keys = rng.integers(0, 4, len(held))
            got = call(*arguments, by=keys)
            assert list(got.keys) == sorted(set(keys.tolist()))
            for k, value in zip(got.keys, got.values):
                member = [i for i in range(len(held)) if keys[i] == k]
                assert same(value, want([held[i] for i in member], [other[i] for i in member])), (name, n, k)
        total = added(held)
        got = fpisa.sum(x)
        assert got == total if type(got) in (int, Decimal) else same(got, nearest(total))
        assert type(got) is (int if " int" in kind or "uint" in kind or "bool" in kind or kind.endswith("integers") or kind[:7] == "buffer "
                             and kind[7] not in "df" else Decimal if "ecimal" in kind else complex if "complex" in kind else float)
        for dtype in FLOATS:
            assert same(fpisa.sum(x, dtype=dtype), nearest(total, dtype)) and same(fpisa.mean(x, dtype=dtype), average(held, dtype)), dtype
            value = fpisa.var(x, ddof=0, dtype=dtype)
            assert not math.isfinite(value) or value == rounded(Fraction(value), dtype)
        if "ecimal" in kind or "complex" in kind or "huge" in kind:
            with pytest.raises(TypeError):
                fpisa.Accumulator(x)
        else:
            a = fpisa.Accumulator(x)
            assert a.count == sum(v is not None for v in held) and same(a.value(), nearest(total))
            assert a.merge(fpisa.Accumulator(y).to_bytes()).value() == nearest(added(held + other))


@pytest.mark.parametrize("kind", [k for k in KINDS if (k.split()[0] in ("numpy", "bfloat16") or k == "__array_interface__") and "strided" not in k])
def test_axis(rng, kind):
    x, held = KINDS[kind](rng, 60)
    y, other = KINDS[kind](rng, 60)
    if kind.startswith("__"):
        x, y = (Interface(v.keep.reshape(5, 12)) for v in (x, y))
    else:
        x, y = x.reshape(5, 12), y.reshape(5, 12)
    for axis, members in ((0, [range(i, 60, 12) for i in range(12)]), (-1, [range(i * 12, i * 12 + 12) for i in range(5)]), ((0, 1), [range(60)])):
        for name, (call, want) in CALLS.items():
            if name == "dot" and axis == (0, 1):
                continue
            got = np.ravel(call(*((x, y) if name == "dot" else (x,)), axis=axis)).tolist()
            assert len(got) == len(members)
            for value, these in zip(got, members):
                assert same(value, want([held[i] for i in these], [other[i] for i in these])), (name, axis)


@pytest.mark.parametrize("value, error, says", [
    (np.array([1, 2], "float32"), TypeError, "array with shape"), (np.array([], "float32"), TypeError, "array with shape"),
    (np.timedelta64(3, "s"), TypeError, "must be numbers"), (np.str_("1"), TypeError, "must be numbers"),
    (np.int64(2 ** 53 + 1), OverflowError, "not a float64"), (np.uint64(2 ** 64 - 1), OverflowError, "not a float64"),
    (np.longdouble(2) ** 63 + 1, OverflowError, "not a float64"),
])
def test_values_of_a_list_that_are_refused(value, error, says):
    for values in [0.5, value], np.array([0.5, value], object) if value.shape == () else [value, None]:
        for call in fpisa.sum, fpisa.mean, fpisa.var, fpisa.norm2, fpisa.Accumulator, lambda v: fpisa.dot(v, v):
            with pytest.raises(error, match=says):
                call(values)


def test_integers_of_both_signs_in_a_list():
    """A list of numpy integers that neither int64 nor uint64 can hold together is summed right."""
    values, rest = [np.uint64(2 ** 63 + 1), np.int64(1 - 2 ** 63)], np.uint64(2 ** 64 - 1)
    for x in values, np.array(values, object):
        assert fpisa.sum(x) == 2 and fpisa.mean(x) == 1
    assert fpisa.sum([rest, -1]) == 2 ** 64 - 2 and fpisa.sum([rest, np.int8(-1)]) == 2 ** 64 - 2


def test_masked_values_in_a_list():
    assert fpisa.sum(list(np.ma.array([1., 2., 3.], mask=[0, 1, 0]))) == 4


def test_values_outside_their_buffer():
    x = Interface(np.zeros(1))
    for offset, strides in (1, (8,)), (-1, (8,)), (0, (-8,)), (0, (16,)):
        x.__array_interface__ = {"typestr": "<f8", "shape": (4,), "strides": strides, "offset": offset, "data": bytes(32), "version": 3}
        with pytest.raises(ValueError, match="outside their buffer"):
            fpisa.sum(x)
    x.__array_interface__ = {"typestr": "<f8", "shape": (4,), "data": bytes(32), "mask": np.zeros(4), "version": 3}
    with pytest.raises(TypeError, match="mask"):
        fpisa.sum(x)


def test_refusals():
    x = np.zeros((2, 3))
    for call in fpisa.sum, fpisa.mean, fpisa.norm2, fpisa.var, lambda v, **k: fpisa.dot(v, v, **k):
        with pytest.raises(ValueError, match="exclude"):
            call(x[0], by=[1, 2, 3], axis=0)
        with pytest.raises(ValueError, match="axis"):
            call(x, axis=2)
        with pytest.raises(ValueError, match="keys"):
            call([1.0, 2.0], by=[1])
        with pytest.raises(TypeError, match="dtype"):
            call([1.0], dtype="int32")
        with pytest.raises(TypeError, match="cast"):
            call([Decimal(1)], axis=0)
    with pytest.raises(ValueError, match="shapes"):
        fpisa.dot(x, x.T, axis=0)
    with pytest.raises(TypeError, match="cast"):
        fpisa.dot([Decimal(1)], [1.0])
    assert fpisa.dot([Decimal("0.5"), 2 ** 70, 1], np.array([2, 4, 3], "int8")) == 2.0 ** 72 + 4
    assert fpisa.dot(np.ma.array([7, 1], "uint64", mask=[1, 0]), [2 ** 70 + 1, 2 ** 70]) == 2.0 ** 70
    with pytest.raises(ValueError, match="different numbers"):
        fpisa.dot([Decimal(1)], [Decimal(1)] * 2)
