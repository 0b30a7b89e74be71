# SPDX-License-Identifier: GPL-2.0-only
"""Test arrays of every type, operation and shape over `mem`: exact sums, and arguments that are refused."""
import functools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import fpisa

TYPES = ["float32", "float16", "float64", "bfloat16", "e4m3", "e5m2", "int32"]
SHAPES = [(), (1,), (257,), (3, 0), (3, 5, 7), (64, 128)]
BITS = {"bfloat16": "uint16", "e4m3": "uint8", "e5m2": "uint8"}
WORKERS = 2
SMALL = {"bfloat16": (127, 7), "e4m3": (7, 3), "e5m2": (15, 2)}  # bias and fraction bits of the formats that numpy lacks


def encode(values, type_):
    """Return numbers as arrays of a type. Fail if a number is not exact in the type."""
    values = np.asarray(values)  # numpy turns arrays without dimensions into scalars
    if type_ not in SMALL:
        out = np.array(values, type_)
        assert (out == values).all()
        return out
    bias, fraction = SMALL[type_]

    def bits(v):
        sign = math.copysign(1, v) < 0
        m, e = math.frexp(abs(v))
        if not v:
            return sign << (7 if BITS[type_] == "uint8" else 15)
        scaled = (2 * m - 1) * 2**fraction
        assert scaled == int(scaled) and e - 1 + bias > 0, v
        return sign << (7 if BITS[type_] == "uint8" else 15) | (e - 1 + bias) << fraction | int(scaled)

    return np.array([bits(v) for v in values.ravel().tolist()], BITS[type_]).reshape(values.shape)


def pair(rank, op, type_, shape):
    """Return whole numbers whose results are exact. For the norm they are 3 and 4, except in eight-bit types, which do not hold the sum of
    their squares."""
    norm = ((4, -4, 0), (0, 0, -4)) if BITS.get(type_) == "uint8" else ((3, -3), (4, 4, -4))
    choices = (norm if op == "norm" else ((1, -2, 2), (2, -1, 1, -2, 0)))[rank]
    return np.array([choices[i % len(choices)] for i in range(math.prod(shape))], float).reshape(shape)


def expected(op, a, b):
    return {"sum": a + b, "min": np.minimum(a, b), "max": np.maximum(a, b), "avg": (a + b) / 2, "scale": 4 * (a + b),
            "norm": np.sqrt(a * a + b * b)}[op]


OPERATIONS = [(t, op) for t in TYPES for op in ("sum", "min", "max", "avg", "scale", "norm")
              if t != "int32" or op in ("sum", "min", "max")]


@pytest.mark.parametrize("type_,op", OPERATIONS)
def test_every_type_and_operation(type_, op):
    """Every type and operation works with every shape, in place and not, bit for bit."""
    def rank_of(handle):
        for shape in SHAPES:
            a, b = pair(0, op, type_, shape), pair(1, op, type_, shape)
            want = encode(expected(op, a, b), type_)
            mine = encode((a, b)[handle.rank], type_)
            kept = mine.copy()
            more = {"factor": 4.0, "type": type_ if type_ in BITS else None}
            out, flags = handle.allreduce(mine, op, **more)
            assert out.shape == shape and out.dtype == mine.dtype and (mine == kept).all() and out is not mine
            place = np.zeros_like(mine)
            assert handle.allreduce(mine, op, out=place, **more).array is place and (mine == kept).all()
            assert handle.allreduce(mine, op, out=mine, **more).array is mine
            for got in out, place, mine:
                assert ((got == want) | (magnitude(got) + magnitude(want) == 0)).all(), (shape, got, want)
            assert flags == fpisa.Flags(0), (flags, shape)

    with fpisa.Mem(WORKERS, type_) as mem:
        mem.run(rank_of)


def magnitude(array):
    """Return the array without the sign of zeros."""
    return array & 0x7FFF if array.dtype == np.uint16 else array & 0x7F if array.dtype == np.uint8 else abs(array)


@pytest.mark.parametrize("name,type_", [("bfloat16", "bfloat16"), ("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2")])
def test_types_of_ml_dtypes(name, type_):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    dtype = getattr(ml_dtypes, name)
    with fpisa.Mem(WORKERS, type_) as mem:
        for out, _ in mem.run(lambda h: h.allreduce(np.full(100, 1.5 - h.rank, dtype))):
            assert out.dtype == dtype and (out.astype(float) == 2).all()


@pytest.mark.parametrize("seed", range(20))
def test_random_integers(seed, rng):
    """With lengths around those of frames and windows and any number of ranks, sums of int32 are numpy's sums."""
    workers, count = rng.randrange(1, 6), rng.choice([1, 255, 256, 257, rng.randrange(1, 40000)])
    draw = np.random.default_rng(rng.getrandbits(32))
    arrays = draw.integers(-10**8, 10**8, (workers, count), "int32")
    with fpisa.Mem(workers, "int32", window=rng.choice([1, 8, 64])) as mem:
        for out, _ in mem.run(lambda h: h.allreduce(arrays[h.rank])):
            assert (out == arrays.sum(0)).all()


def cancelling(rng, n, most):
    """Return four numbers for each of `n` elements, in random order. The two largest cancel, and the others are near 1."""
    rows = []
    for _ in range(n):
        big = math.ldexp(rng.uniform(1, 2), rng.randrange(30, most))
        rows.append(rng.sample([big, -big, rng.uniform(-2, 2), rng.uniform(-2, 2)], 4))
    return np.array(rows).T


@pytest.mark.parametrize("pipeline", ["fused", "staged"])
@pytest.mark.parametrize("dtype,part", [("float32", "float32"), ("float64", "float64"), ("complex64", "float32"), ("complex128", "float64")])
def test_exact(dtype, part, pipeline, rng):
    """In mode exact, sums, averages and multiples are correctly rounded, for each part of a number. The order of the ranks does not
    matter."""
    whole = np.empty((4, 500), dtype)
    # numpy rounds the parts once here. Afterwards two of the four numbers are exact in float64, and so is the sum of the other two.
    whole.view(part)[:] = cancelling(rng, whole.view(part).shape[1], 120 if part == "float32" else 1000)
    ranks = [whole[list(order)] for order in ((0, 1, 2, 3), (2, 3, 1, 0), (1, 0, 3, 2))]
    right = np.array([math.fsum(column) for column in whole.view(part).T.tolist()])
    want = {"sum": right, "avg": right / 4, "scale": right * 8}

    def rank_of(handle):
        return [handle.allreduce(rows[handle.rank], op, factor=8.0)[0] for rows in ranks for op in want]

    with fpisa.Mem(4, part, mode="exact", pipeline=pipeline) as mem:
        for results in mem.run(rank_of):
            for out, op in zip(results, 3 * list(want)):
                assert out.dtype == dtype and (out.view(part) == want[op].astype(part)).all(), op


@pytest.mark.parametrize("type_", ["float32", "float64"])
def test_exact_has_no_norm(type_):
    with fpisa.Mem(WORKERS, type_, mode="exact") as mem:
        for message in mem.run(lambda h: refused(fpisa.InvalidCall, h.allreduce, np.ones(3, type_), "norm")):
            assert message.endswith(f"norm of {type_} in mode exact is not supported; choose another operation or mode (doc/numbers.md)")


def test_big_endian():
    with fpisa.Mem(WORKERS, big_endian=True) as mem:
        for out, _ in mem.run(lambda h: h.allreduce(np.arange(10, dtype=">f4"))):
            assert out.dtype == ">f4" and (out == 2 * np.arange(10)).all()
        for message in mem.run(lambda h: refused(TypeError, h.allreduce, np.ones(3, "<f4"))):
            assert "array is little-endian, but the job is not" in message


def refused(kind, function, *args, **more):
    with pytest.raises(kind) as e:
        function(*args, **more)
    return str(e.value)


def test_flags():
    """Each flag is raised at its value. An overflow also raises the exception, with all results."""
    def flags_of(value, h):
        return h.allreduce(np.array([1, value], "float32")).flags

    with fpisa.Mem(WORKERS) as mem:
        for value, flag in (math.nan, fpisa.Flags.NAN), (math.inf, fpisa.Flags.INF):
            assert mem.run(functools.partial(flags_of, value)) == [flag] * WORKERS
        assert mem.run(lambda h: flags_of((1, 2**-60)[h.rank], h)) == [fpisa.Flags.INEXACT] * WORKERS
        assert mem.run(lambda h: flags_of(3e38, h), overflow="flag")[0] & fpisa.Flags.OVERFLOW

        def overflows(h):
            with pytest.raises(fpisa.Overflow, match="an element of the sum overflowed") as e:
                flags_of(3e38, h)
            assert e.value.result.array[0] == 2 and e.value.result.flags & fpisa.Flags.OVERFLOW
            return h.allreduce(np.ones(5, "float32")).array[4]

        assert mem.run(overflows) == [2, 2]


def read_only():
    array = np.ones(4, "float32")
    array.flags.writeable = False
    return array


ONES = np.ones(4, "float32")
SHIFTED = np.zeros(17, "uint8")[1:].view("float32")
EIGHT = np.ones(8, "float32")
CASES = [
    (TypeError, "array has type list; it must be a numpy.ndarray", ([1.0],), {}),
    (TypeError, "the array has dtype clongdouble; it must have one of float32" if np.dtype("clongdouble").name == "clongdouble"
     else "the array has dtype complex256; it must have one of float32", (np.ones(4, "clongdouble"),), {}),
    (ValueError, "op is 'max'; for complex numbers it must be one of sum, avg, scale", (np.ones(4, "complex64"), "max"), {}),
    (TypeError, "the array has dtype int64", (np.ones(4, "int64"),), {}),
    (TypeError, "the array has dtype uint16;", (np.ones(4, "uint16"),), {}),
    (TypeError, "the array has dtype uint8 and type is 'bfloat16'", (np.ones(4, "uint8"),), {"type": "bfloat16"}),
    (ValueError, "type is 'float31'; it must be one of float32", (ONES,), {"type": "float31"}),
    (TypeError, "array is big-endian, but the job is not", (np.ones(4, ">f4"),), {}),
    (TypeError, "array is masked", (np.ma.ones(4, "float32"),), {}),
    (ValueError, "array is not C-contiguous", (np.ones((4, 4), "float32").T,), {}),
    (ValueError, "array is not C-contiguous", (np.ones(8, "float32")[::2],), {}),
    (ValueError, "array is not aligned", (SHIFTED,), {}),
    (ValueError, "out is read-only", (ONES,), {"out": read_only()}),
    (ValueError, "out is read-only", (array := read_only(),), {"out": array}),
    (ValueError, "out has shape (3,) and dtype float32; like array, it must have shape (4,) and dtype float32", (ONES,), {"out": np.ones(3, "float32")}),
    (ValueError, "out has shape (4,) and dtype float64", (ONES,), {"out": np.ones(4)}),
    (TypeError, "out has type list", (ONES,), {"out": [1.0]}),
    (ValueError, "out is not C-contiguous", (ONES,), {"out": np.ones(8, "float32")[::2]}),
    (ValueError, "op is 'mean'; it must be one of sum, min", (ONES, "mean"), {}),
    (ValueError, "tag is -1", (ONES,), {"tag": -1}),
    (TypeError, "tag is 1.5", (ONES,), {"tag": 1.5}),
    (fpisa.InvalidCall, "the values are float64, but the job's are float32", (np.ones(4),), {}),
    (fpisa.InvalidCall, "factor", (ONES, "scale"), {"factor": 0.0}),
    (fpisa.InvalidCall, "send and recv overlap", (EIGHT[:4],), {"out": EIGHT[2:6]}),
]


def test_what_no_call_can_have():
    """Invalid arguments are refused on one rank without a message to the other rank, and the next sum is correct."""
    def rank_of(handle):
        if handle.rank == 0:
            for kind, message, args, more in CASES:
                assert message in refused(kind, handle.allreduce, *args, **more)
        return handle.allreduce(ONES).array

    with fpisa.Mem(WORKERS) as mem:
        assert all((out == 2).all() for out in mem.run(rank_of))


@pytest.mark.parametrize("message,options", [
    ("mode is 'fast'; it must be one of default, fpisa,", {"mode": "fast"}),
    ("type is 'float128'", {"type": "float128"}),
    ("workers", {"workers": 0}),
    ("65 workers with 256 elements are not supported; give at most 64", {"workers": 65}),
    ("window is -1", {"window": -1}),
])
def test_what_no_aggregator_has(message, options):
    assert message in refused(ValueError, fpisa.Mem, **{"workers": 2, **options})


NO_NUMBERS = 10 ** 400, -10 ** 400, Decimal("NaN"), Decimal("Infinity"), "1", b"1", 1j, [1], object()
OPTIONS = {"timeout": 1, "loss": 1, "duplicate": 1, "reorder": 1, "delay": 1, "corrupt": 1, "seed": 1}


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: f"{v!r:.12}")
def test_numbers_that_c_does_not_have(value):
    """A number that does not fit into its C type gives a TypeError or ValueError, and nothing is sent."""
    def wrong(call, *args, **more):
        with pytest.raises((TypeError, ValueError)):
            call(*args, **more)

    for name in "workers", "elements", "window":
        wrong(fpisa.Mem, **{"workers": 2, name: value})
    for name in "rank", "size", "join_timeout", "timeout", "window", "elements":
        wrong(fpisa.Group, "127.0.0.1:1", "name", **{"rank": 0, "size": 1, "key_file": "", name: value})
    for name in "job", "local_port", "token", *OPTIONS:
        wrong(fpisa.Handle, "127.0.0.1:1", **{"job": 0, name: value})
    with fpisa.Mem(1) as mem:
        wrong(mem.connect, value)
        for name in OPTIONS:
            wrong(mem.connect, 0, **{name: value})
        with mem.connect(0) as handle:
            wrong(handle.start, ONES, "scale", factor=value)
            wrong(handle.start, ONES, tag=value)
            assert (handle.allreduce(ONES).array == 1).all()


@pytest.mark.parametrize("value", ["a\0b", "\0", 5, 1.5, ["a"]], ids=repr)
def test_names_that_c_does_not_have(value):
    """A name with a zero byte is refused. The byte would cut the name, so that another host, group or file would be used."""
    for name in "host", "name", "key_file":
        with pytest.raises((TypeError, ValueError), match=f"{name} is|expected str"):
            fpisa.Group(**{"host": "127.0.0.1:1", "name": "a", "rank": 0, "size": 1, "key_file": "", name: value})
    with pytest.raises((TypeError, ValueError), match="address is"):
        fpisa.Handle(value, 0)


def test_factors_of_every_kind():
    """A factor may be a number of any type that converts to a float without loss."""
    kinds = 2, 2.0, True + 1, Fraction(2), Decimal(2), np.float32(2), np.int8(2), np.array(2.0), np.longdouble(2)
    with fpisa.Mem(1) as mem, mem.connect(0) as handle:
        for factor in kinds:
            assert (handle.allreduce(ONES, "scale", factor=factor).array == 2).all(), factor
