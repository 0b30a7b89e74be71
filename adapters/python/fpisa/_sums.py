# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Exact sums of arrays and columns, rounded once: fpisa.sum, mean, dot, norm2, var and Accumulator (doc/sums.md)."""
from __future__ import annotations

import builtins
import decimal
import operator
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, Iterable, List, Optional, Tuple, Union

from . import _groups
from ._blocks import Block, Values, Whole
from ._core import DOT_SCALE, TYPES, Array, Exact, State, axes, check, lib
from ._formats import Format, format_of, number, round_ratio, round_root, round_scaled
from ._values import values

SPLIT = 1 << 16  # values that are worth a thread


def _parts(array: Array, threads: int) -> Iterable[Array]:
    """The array in as many pieces as there are threads, at most."""
    step = max(SPLIT, -(-array.n // threads))
    for at in range(0, array.n, step):
        yield Array(array.data + at * array.stride, min(step, array.n - at), array.stride, array.valid,
                    array.valid_offset + at, array.type)


def _alone(array: Array) -> State:
    state = State()
    state.add(array)
    return state


def _state(blocks: List[Block], threads: int = 1) -> State:
    """The exact sum of all blocks."""
    state = State()
    runs = (run for block in blocks if 0 not in block.shape for run in block.runs())
    if threads == 1:
        for run in runs:
            state.add(run)
        return state
    with ThreadPoolExecutor(threads) as pool:
        for part in pool.map(_alone, (part for run in runs for part in _parts(run, threads))):
            state.merge(part)
    return state


def _read(state: State, f: Format, average: bool = False) -> float:
    return number(state.read(f.number, average), f)


def _pair(v: Values, one: Any) -> Any:
    """What `one` makes of the blocks: a number, or of complex values both halves' as one."""
    return complex(one(v.blocks), one(v.imaginary)) if v.imaginary else one(v.blocks)


def _integer(state: State) -> int:
    x = state.exact()
    return x.m << x.e


def _whole(x: Whole, dtype: Any, average: bool) -> Any:
    if dtype is None and not average:
        return x.total if x.integers else decimal.Decimal(decimal.Decimal(x.total).as_tuple()._replace(exponent=-x.scale))
    by = x.rows if average else 1
    return round_ratio(x.total * 10 ** max(0, -x.scale), by * 10 ** max(0, x.scale), 0, format_of(dtype)) if by else float("nan")


FLOATS = {"d": TYPES["float64"], "f": TYPES["float32"], "e": TYPES["float16"]}


def _once(x: Any, average: bool) -> Optional[float]:
    """The sum of an array of numpy that needs nothing else, without what others cost a call; None for any other."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(x) is not numpy.ndarray or x.ndim != 1:
        return None
    type_ = FLOATS.get(x.dtype.char) if x.dtype.isnative else None
    if type_ is None:
        return None
    result: float = lib.sums_once(x.__array_interface__["data"][0], x.shape[0], x.strides[0], type_, average)
    return result


def _reduce(x: Any, by: Any, axis: Any, dtype: Any, threads: int, average: bool) -> Any:
    if threads < 1:
        raise ValueError(f"threads is {threads}; it must be 1 or more")
    if by is axis is dtype is None and threads == 1:
        once = _once(x, average)
        if once is not None:
            return once
    v = values(x)
    if by is not None:
        if axis is not None:
            raise ValueError("by and axis exclude each other")
        return _groups.reduce(v, by, format_of(dtype), average)
    f = format_of(dtype)
    if axis is not None:
        return _along(v, axis, f, average)
    if v.whole is not None:
        return _whole(v.whole, dtype, average)
    if v.integers and dtype is None and not average:
        return _integer(_state(v.blocks, threads))
    return _pair(v, lambda blocks: _read(_state(blocks, threads), f, average))


def sum(x: Any, *, by: Any = None, axis: Union[None, int, Tuple[int, ...]] = None, dtype: Any = None, threads: int = 1) -> Any:
    """The exact sum, rounded once to dtype (float64 by default). Of integers and decimals it is exact without dtype.

    by: keys, as many as values; returns Groups(keys, values). axis: as numpy's. With either, sums of integers are rounded to dtype
    too. Nulls are left out, NaN is not.
    """
    return _reduce(x, by, axis, dtype, threads, False)


def mean(x: Any, *, by: Any = None, axis: Union[None, int, Tuple[int, ...]] = None, dtype: Any = None, threads: int = 1) -> Any:
    """The exact sum over the number of values, rounded once. NaN of no values."""
    return _reduce(x, by, axis, dtype, threads, True)


# -- axes ----------------------------------------------------------------------


def _along(v: Values, axis: Any, f: Format, average: bool) -> Any:
    v.need_blocks("axis")
    if len(v.blocks) != 1 or v.blocks[0].valid:
        raise TypeError("axis is for arrays of one piece and without nulls")
    ndim = len(v.blocks[0].shape)
    gone = [a + ndim if a < 0 else a for a in (map(operator.index, axis) if hasattr(axis, "__iter__") else (operator.index(axis),))]
    if any(not 0 <= a < ndim for a in gone) or len(set(gone)) != len(gone):
        raise ValueError(f"axis is {axis!r}; the array has {ndim} dimensions")
    stay = [a for a in range(ndim) if a not in gone]
    shape = tuple(v.blocks[0].shape[a] for a in stay)
    halves = [_along_block(b, stay, sorted(gone, key=lambda a: -abs(b.strides[a])), f, average) for b in v.blocks + v.imaginary]
    return _groups.shaped(halves, shape, f)


def _along_block(b: Block, stay: List[int], gone: List[int], f: Format, average: bool) -> bytearray:
    def pick(which: List[int]) -> Any:
        return axes([b.shape[a] for a in which], [b.strides[a] for a in which])

    n = 1
    for a in stay:
        n *= b.shape[a]
    out = bytearray(n * f.size)
    if n:
        check(lib.sums_axis(b.address, TYPES[b.type], pick(stay), pick(gone), f.number, average,
                            _groups.address(out)))
    return out


# -- products ------------------------------------------------------------------


def _times(x: List[Block], y: List[Block]) -> Exact:
    """The exact dot product."""
    state = State(3)
    runs = [[run for block in side if 0 not in block.shape for run in block.runs()] for side in (x, y)]
    if [b.shape for b in x] != [b.shape for b in y] and builtins.sum(r.n for r in runs[0]) != builtins.sum(r.n for r in runs[1]):
        raise ValueError("x and y have different numbers of values")
    for a, b in _aligned(*runs):
        check(lib.sums_dot(state.at, a, b))
    parts = [state.exact(i) for i in range(3)]
    low = min(p.e - scale for p, scale in zip(parts, (0, DOT_SCALE, -DOT_SCALE)))
    m = builtins.sum(p.m << p.e - scale - low for p, scale in zip(parts, (0, DOT_SCALE, -DOT_SCALE)))
    return Exact(m, low, *parts[0][2:])


def _cut(a: Array, at: int, n: int) -> Array:
    return Array(a.data + at * a.stride, n, a.stride, a.valid, a.valid_offset + at, a.type)


def _aligned(x: List[Array], y: List[Array]) -> Iterable[Tuple[Array, Array]]:
    """Pairs of runs of the same length: chunks of columns need not agree."""
    i = j = at = beside = 0
    while i < len(x) and j < len(y):
        n = min(x[i].n - at, y[j].n - beside)
        if n:
            yield _cut(x[i], at, n), _cut(y[j], beside, n)
        at, beside = at + n, beside + n
        if at == x[i].n:
            i, at = i + 1, 0
        if beside == y[j].n:
            j, beside = j + 1, 0


def _combine(terms: List[Tuple[int, Exact]]) -> Exact:
    low = min(t.e for _, t in terms)
    counts = [builtins.sum(c) for c in zip(*(t[3:] if sign > 0 else (t.nan, t.ninf, t.pinf) for sign, t in terms))]
    return Exact(builtins.sum(sign * t.m << t.e - low for sign, t in terms), low, terms[0][1].rows, *counts)


def _round(x: Exact, f: Format) -> float:
    special = x.special()
    return round_scaled(x.m, x.e, False, f) if special is None else special


def _flat(v: Values, what: str) -> None:
    v.need_blocks(what)
    if any(len(b.shape) > 1 for b in v.blocks):
        raise ValueError(f"{what} is of one dimension; pass x.ravel()")


def dot(x: Any, y: Any, *, dtype: Any = None) -> Any:
    """The exact sum of the products, rounded once; of complex numbers without conjugation, as numpy.dot()."""
    a, b, f = values(x), values(y), format_of(dtype)
    _flat(a, "dot")
    _flat(b, "dot")
    if not a.imaginary and not b.imaginary:
        return _round(_times(a.blocks, b.blocks), f)
    terms = [(a.blocks, b.blocks, 1, 0), (a.imaginary, b.imaginary, -1, 0), (a.blocks, b.imaginary, 1, 1),
             (a.imaginary, b.blocks, 1, 1)]
    halves = [[(sign, _times(p, q)) for p, q, sign, half in terms if p and q and half == which] for which in (0, 1)]
    return complex(*(_round(_combine(h), f) for h in halves))


def _squares(v: Values) -> Exact:
    return _combine([(1, _times(b, b)) for b in (v.blocks, v.imaginary) if b or b is v.blocks])


def norm2(x: Any, *, dtype: Any = None) -> float:
    """The root of the exact sum of squares, rounded once. It neither overflows nor underflows on the way."""
    v = values(x)
    _flat(v, "norm2")
    squares = _squares(v)
    special = squares.special()
    return round_root(squares.m, squares.e, format_of(dtype)) if special is None else special


def var(x: Any, *, ddof: float = 0, dtype: Any = None) -> float:
    """The variance as a rational number, rounded once: (n sum(x^2) - sum(x)^2) / (n (n - ddof)). NaN if n <= ddof."""
    v, f = values(x), format_of(dtype)
    _flat(v, "var")
    squares = _squares(v)
    sums = [_state(b).exact() for b in (v.blocks, v.imaginary) if b or b is v.blocks]
    n = sums[0].rows
    if n <= ddof or any(s.special() is not None for s in sums):
        return float("nan")
    low = min(squares.e, *(2 * s.e for s in sums))
    m = n * (squares.m << squares.e - low) - builtins.sum(s.m ** 2 << 2 * s.e - low for s in sums)
    left = n - Fraction(ddof)
    return round_ratio(m * left.denominator, n * left.numerator, low, f)


# -- accumulators ---------------------------------------------------------------


class Accumulator:
    """An exact sum that grows, merges and travels. Any thread may use it; adds of arrays run beside each other.

    Equal sums of as many values are equal bytes, whatever the order was (doc/partial.md).
    """

    __slots__ = ("_state", "_lock")

    def __init__(self, x: Any = None) -> None:
        self._state, self._lock = State(), threading.Lock()
        if x is not None:
            self.add(x)

    def add(self, x: Any) -> "Accumulator":
        """Adds a number, an array or a column. Nulls are left out."""
        v = values(x)
        v.need_blocks("an accumulator")
        if v.imaginary:
            raise TypeError("an accumulator takes real numbers; use two for complex ones")
        state = _state(v.blocks)
        with self._lock:
            self._state.merge(state)
        return self

    def merge(self, other: Union["Accumulator", bytes, bytearray, memoryview]) -> "Accumulator":
        """Adds what another has; without rounding, so the order of merges does not matter."""
        state = State()
        state.parse(other if isinstance(other, (bytes, bytearray, memoryview)) else other.to_bytes())
        with self._lock:
            self._state.merge(state)
        return self

    def value(self, dtype: Any = None) -> float:
        """The sum, rounded once."""
        with self._lock:
            return _read(self._state, format_of(dtype))

    def mean(self, dtype: Any = None) -> float:
        with self._lock:
            return _read(self._state, format_of(dtype), True)

    @property
    def count(self) -> int:
        """How many values, NaN and infinities too."""
        return int.from_bytes(self.to_bytes()[8:16], "little")

    def to_bytes(self) -> bytes:
        with self._lock:
            return self._state.write()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Accumulator":
        """ValueError if it is none."""
        made = cls()
        made._state.parse(data)
        return made

    def __reduce__(self) -> Any:
        return type(self).from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, Accumulator) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<fpisa.Accumulator {self.value()!r} of {self.count} values>"


def merged(parts: Iterable[Any]) -> Accumulator:
    """One accumulator of many, or of their bytes. None is left out."""
    total = Accumulator()
    for part in parts:
        if part is not None:
            total.merge(part)
    return total
