# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Exact sums of arrays and columns, rounded once (doc/sums.md). Defines fpisa.sum, mean, dot, norm2, var and Accumulator."""
from __future__ import annotations

import builtins
import decimal
import itertools
import numbers
import operator
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, Callable, Iterable, List, Optional, Tuple, Union

from . import _groups
from ._blocks import Block, Values, Whole
from ._core import DOT_SCALE, PYTHON_AT, TYPES, Array, Exact, State, axes, check, lib, once
from ._formats import Format, format_of, number, packed, round_ratio, round_root, round_scaled
from ._numbers import exact_float, plain
from ._values import values

SPLIT = 1 << 16  # number of values that makes another thread worthwhile
NAN = float("nan")
ONE = 1  # the default of `threads`, compared by identity


def _parts(array: Array, threads: int) -> Iterable[Array]:
    """Yield the array in pieces. There are at most as many pieces as threads."""
    step = max(SPLIT, -(-array.n // threads))
    for at in range(0, array.n, step):
        yield Array(array.data + at * array.stride, min(step, array.n - at), array.stride, array.valid,
                    array.valid_offset + at, array.type)


def _alone(array: Array) -> State:
    state = State()
    state.add(array)
    return state


def _state(blocks: List[Block], threads: int = 1) -> State:
    """Return the exact sum of all blocks."""
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
    """Apply `one` to the blocks. Return a number, or a complex number if there are imaginary blocks."""
    return complex(one(v.blocks), one(v.imaginary)) if v.imaginary else one(v.blocks)


def _integer(state: State) -> int:
    x = state.exact()
    return x.m << x.e


def _whole_exactly(x: Whole) -> Any:
    return x.total if x.integers else decimal.Decimal(decimal.Decimal(x.total).as_tuple()._replace(exponent=-x.scale))


def _ratio(scale: int) -> Tuple[int, int]:
    """Return 10**-scale as a numerator and a denominator."""
    return 10 ** max(0, -scale), 10 ** max(0, scale)


def _whole(x: Any, f: Format, average: bool) -> float:
    up, down = _ratio(x.scale)
    if average and not x.rows:
        return float("nan")
    return round_ratio(x.total * up, (x.rows if average else 1) * down, 0, f)


def _once(x: Any, average: bool) -> float:
    """Return the sum of a plain numpy array without the overhead of the general code. Return NaN if the general code is needed."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(x) is not numpy.ndarray or x.dtype.char not in "dfe":
        return NAN
    result: float = once(x, average, PYTHON_AT)
    return result


def _reduce(x: Any, by: Any, axis: Any, dtype: Any, threads: int, average: bool) -> Any:
    if by is axis is dtype is None and threads is ONE:
        result = _once(x, average)
        if result == result:
            return result
    threads = operator.index(threads)
    if threads < 1:
        raise ValueError(f"threads is {threads}; it must be 1 or more")
    v, f = values(x), format_of(dtype)
    if by is not None:
        if axis is not None:
            raise ValueError("by and axis exclude each other; pass one of them")
        if v.whole is not None:
            return _each(lambda one: _whole(one.whole, f, average), [v], by, None, f)
        return _groups.reduce(v, by, f, average)
    if axis is not None:
        return _along(v, axis, f, average)
    if v.whole is not None:
        return _whole_exactly(v.whole) if dtype is None and not average else _whole(v.whole, f, average)
    if v.integers and dtype is None and not average:
        return _integer(_state(v.blocks, threads))
    return _pair(v, lambda blocks: _read(_state(blocks, threads), f, average))


def sum(x: Any, *, by: Any = None, axis: Union[None, int, Tuple[int, ...]] = None, dtype: Any = None, threads: int = ONE) -> Any:
    """Return the exact sum, rounded once to dtype (float64 by default). Sums of integers and decimals are exact without dtype.

    `by` is one key for each value, and the result is Groups(keys, values). `axis` has the same meaning as in numpy. With
    `by` or `axis`, sums of integers are also rounded to dtype. Nulls are skipped, but NaN is not.
    """
    return _reduce(x, by, axis, dtype, threads, False)


def mean(x: Any, *, by: Any = None, axis: Union[None, int, Tuple[int, ...]] = None, dtype: Any = None, threads: int = ONE) -> Any:
    """Return the exact sum divided by the number of values, rounded once. Return NaN if there are no values."""
    return _reduce(x, by, axis, dtype, threads, True)


# -- axes ----------------------------------------------------------------------


def _axes_of(v: Values, axis: Any) -> Tuple[List[int], List[int]]:
    """Return the remaining axes and the summed axes."""
    v.need_blocks("axis")
    if len(v.blocks) != 1 or v.blocks[0].valid:
        raise TypeError("axis requires an array with one chunk and no nulls; combine the chunks, or fill the nulls")
    ndim = len(v.blocks[0].shape)
    gone = [a + ndim if a < 0 else a for a in (map(operator.index, axis) if hasattr(axis, "__iter__") else (operator.index(axis),))]
    for i, a in enumerate(gone):
        if not 0 <= a < ndim:
            raise ValueError(f"axis {a if a >= 0 else a - ndim} is out of range: the array has {ndim} dimensions")
        if a in gone[:i]:
            raise ValueError(f"axis {a} is given twice")
    return [a for a in range(ndim) if a not in gone], gone


def _slices(v: Values, axis: Any) -> Tuple[Tuple[int, ...], List[Values]]:
    """Return the shape of the remaining axes, and the values along the summed axes at each place."""
    stay, gone = _axes_of(v, axis)

    def cut(b: Block) -> List[Block]:
        shape, strides = tuple(b.shape[a] for a in gone), tuple(b.strides[a] for a in gone)
        return [b._replace(address=b.address + builtins.sum(i * b.strides[a] for i, a in zip(at, stay)), shape=shape, strides=strides)
                for at in itertools.product(*(range(b.shape[a]) for a in stay))]

    halves = [cut(b) for b in v.blocks + v.imaginary]
    return tuple(v.blocks[0].shape[a] for a in stay), [Values([parts[0]], list(parts[1:]), v.integers) for parts in zip(*halves)]


def _each(one: Callable[..., Any], vs: List[Values], by: Any, axis: Any, f: Format) -> Any:
    """Apply `one` to all values, to the values of each group, or along an axis."""
    if by is not None and axis is not None:
        raise ValueError("by and axis exclude each other; pass one of them")
    if by is None and axis is None:
        return one(*vs)
    keys, shape = None, ()
    if by is not None:
        places = _groups.Places(by)
        keys, shape, parts = places.keys, (places.groups,), [places.arrange(v) for v in vs]
    else:
        shapes, parts = zip(*(_slices(v, axis) for v in vs))
        if len(set(shapes)) != 1:
            raise ValueError(f"x and y have different shapes: {' and '.join(map(str, shapes))}, without the axis")
        shape = shapes[0]
    results = [one(*these) for these in zip(*parts)]
    halves = [results] if not any(v.imaginary for v in vs) or not any(isinstance(r, complex) for r in results) else \
        [[r.real for r in results], [r.imag for r in results]]
    array = _groups.shaped([packed(half, f) for half in halves], shape, f)
    return array if by is None else _groups.Groups(keys, array)


def _along(v: Values, axis: Any, f: Format, average: bool) -> Any:
    stay, gone = _axes_of(v, axis)
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
    """Return the exact dot product."""
    state = State(3)
    runs = [[run for block in side if 0 not in block.shape for run in block.runs()] for side in (x, y)]
    counts = [builtins.sum(run.n for run in side) for side in runs]
    if [b.shape for b in x] != [b.shape for b in y] and counts[0] != counts[1]:
        raise ValueError(f"x and y have different numbers of values: {counts[0]} and {counts[1]}")
    for a, b in _aligned(*runs):
        check(lib.sums_dot(state.at, a, b))
    parts = [state.exact(i) for i in range(3)]
    low = min(p.e - scale for p, scale in zip(parts, (0, DOT_SCALE, -DOT_SCALE)))
    m = builtins.sum(p.m << p.e - scale - low for p, scale in zip(parts, (0, DOT_SCALE, -DOT_SCALE)))
    return Exact(m, low, *parts[0][2:])


def _cut(a: Array, at: int, n: int) -> Array:
    return Array(a.data + at * a.stride, n, a.stride, a.valid, a.valid_offset + at, a.type)


def _aligned(x: List[Array], y: List[Array]) -> Iterable[Tuple[Array, Array]]:
    """Yield pairs of runs of the same length, because the chunks of columns may differ."""
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
    if any(len(b.shape) > 1 for b in v.blocks):
        raise ValueError(f"{what} takes one dimension, or an axis; pass x.ravel() or axis=")


def _dot_items(x: Tuple[List[Optional[int]], int], y: Tuple[List[Optional[int]], int], f: Format) -> float:
    if len(x[0]) != len(y[0]):
        raise ValueError(f"x and y have different numbers of values: {len(x[0])} and {len(y[0])}")
    up, down = _ratio(x[1] + y[1])
    return round_ratio(up * builtins.sum(p * q for p, q in zip(x[0], y[0]) if p is not None and q is not None), down, 0, f)


def _dot(a: Values, b: Values, f: Format) -> Any:
    if a.whole is not None or b.whole is not None:
        items = a.items(), b.items()
        if items[0] is not None and items[1] is not None:
            return _dot_items(items[0], items[1], f)
    for v in a, b:
        v.need_blocks("dot with floats")
        _flat(v, "dot")
    if not a.imaginary and not b.imaginary:
        return _round(_times(a.blocks, b.blocks), f)
    terms = [(a.blocks, b.blocks, 1, 0), (a.imaginary, b.imaginary, -1, 0), (a.blocks, b.imaginary, 1, 1),
             (a.imaginary, b.blocks, 1, 1)]
    halves = [[(sign, _times(p, q)) for p, q, sign, half in terms if p and q and half == which] for which in (0, 1)]
    return complex(*(_round(_combine(h), f) for h in halves))


def dot(x: Any, y: Any, *, by: Any = None, axis: Optional[int] = None, dtype: Any = None) -> Any:
    """Return the exact sum of products, rounded once. As in numpy.dot(), complex numbers are not conjugated.

    `by` has the same meaning as in sum(), and so has `axis`, which may be only one axis.
    """
    f = format_of(dtype)
    axis = axis if axis is None else operator.index(axis)
    return _each(lambda a, b: _dot(a, b, f), [values(x), values(y)], by, axis, f)


def _squares(v: Values) -> Exact:
    return _combine([(1, _times(b, b)) for b in (v.blocks, v.imaginary) if b or b is v.blocks])


def _units_squared(x: Whole) -> int:
    return builtins.sum(i * i for i in x.items() if i is not None)


def _norm2(v: Values, f: Format) -> float:
    if v.whole is not None:
        up, down = _ratio(2 * v.whole.scale)
        return round_root(_units_squared(v.whole) * up, down, 0, f)
    squares = _squares(v)
    special = squares.special()
    return round_root(squares.m, 1, squares.e, f) if special is None else special


def norm2(x: Any, *, by: Any = None, axis: Union[None, int, Tuple[int, ...]] = None, dtype: Any = None) -> Any:
    """Return the root of the exact sum of squares, rounded once. Intermediate results neither overflow nor underflow.

    `by` and `axis` have the same meaning as in sum().
    """
    v, f = values(x), format_of(dtype)
    if axis is None:
        _flat(v, "norm2")
    return _each(lambda one: _norm2(one, f), [v], by, axis, f)


def _degrees(ddof: Any) -> Fraction:
    """Return ddof as a quotient of Python integers, which cannot overflow."""
    ddof = plain(ddof)
    try:
        exact = Fraction(ddof if isinstance(ddof, (numbers.Rational, decimal.Decimal)) else exact_float(ddof))
    except (ValueError, OverflowError):
        raise ValueError(f"ddof is {ddof!r}; it must be a finite number") from None
    return Fraction(int(exact.numerator), int(exact.denominator))


def _var(v: Values, ddof: Fraction, f: Format) -> float:
    if v.whole is not None:
        n, (up, down), low = v.whole.rows, _ratio(2 * v.whole.scale), 0
        m = (n * _units_squared(v.whole) - v.whole.total ** 2) * up
    else:
        squares, down = _squares(v), 1
        sums = [_state(b).exact() for b in (v.blocks, v.imaginary) if b or b is v.blocks]
        n = sums[0].rows
        if any(s.special() is not None for s in sums):
            return float("nan")
        low = min(squares.e, *(2 * s.e for s in sums))
        m = n * (squares.m << squares.e - low) - builtins.sum(s.m ** 2 << 2 * s.e - low for s in sums)
    left = n - ddof
    return round_ratio(m * left.denominator, n * left.numerator * down, low, f) if left > 0 and n else float("nan")


def var(x: Any, *, ddof: float = 0, by: Any = None, axis: Union[None, int, Tuple[int, ...]] = None, dtype: Any = None) -> Any:
    """Return the exact variance, rounded once. The variance is (n sum(x^2) - sum(x)^2) / (n (n - ddof)), or NaN if n <= ddof.

    `by` and `axis` have the same meaning as in sum().
    """
    v, f, exact = values(x), format_of(dtype), _degrees(ddof)
    if axis is None:
        _flat(v, "var")
    return _each(lambda one: _var(one, exact, f), [v], by, axis, f)


# -- accumulators ---------------------------------------------------------------


class Accumulator:
    """An exact sum that can be extended, merged and sent. Any thread may use an accumulator, and threads can add arrays in
    parallel.

    Accumulators with the same sum and the same number of values have the same bytes, in whatever order values were added
    (doc/partial.md).
    """

    __slots__ = ("_state", "_lock")

    def __init__(self, x: Any = None) -> None:
        self._state, self._lock = State(), threading.Lock()
        if x is not None:
            self.add(x)

    def add(self, x: Any) -> "Accumulator":
        """Add a number, an array or a column. Nulls are skipped."""
        v = values(x)
        v.need_blocks("an accumulator")
        if v.imaginary:
            raise TypeError("an accumulator takes real numbers; use two accumulators for complex numbers")
        state = _state(v.blocks)
        with self._lock:
            self._state.merge(state)
        return self

    def merge(self, other: Union["Accumulator", bytes, bytearray, memoryview]) -> "Accumulator":
        """Add another accumulator, or the bytes of an accumulator. The order of merges does not matter, because a merge does
        not round.
        """
        state = State()
        state.parse(other if isinstance(other, (bytes, bytearray, memoryview)) else other.to_bytes())
        with self._lock:
            self._state.merge(state)
        return self

    def value(self, dtype: Any = None) -> float:
        """Return the sum, rounded once."""
        with self._lock:
            return _read(self._state, format_of(dtype))

    def mean(self, dtype: Any = None) -> float:
        with self._lock:
            return _read(self._state, format_of(dtype), True)

    @property
    def count(self) -> int:
        """Return the number of values, including NaN and infinities."""
        return int.from_bytes(self.to_bytes()[8:16], "little")

    def to_bytes(self) -> bytes:
        with self._lock:
            return self._state.write()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Accumulator":
        """Return the accumulator that a partial describes. Raise ValueError if the bytes are not a partial."""
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
    """Merge accumulators, or bytes of accumulators, into one accumulator. None is skipped."""
    total = Accumulator()
    for part in parts:
        if part is not None:
            total.merge(part)
    return total
