# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Sums by keys, and results that are arrays: numpy arrays if numpy is loaded, else memoryviews."""
from __future__ import annotations

import array
import ctypes
import math
import numbers
import sys
from typing import Any, List, NamedTuple, Optional, Sequence, Set, Tuple

from ._blocks import Block, Values, Whole
from ._core import SIZES, Array, check, lib
from ._formats import Format


NEAR = 1 << 16  # integers in so small a range, or in a range as small as their number, are numbered without a hash table


class Groups(NamedTuple):
    """The keys in ascending order, and the result of each."""

    keys: Any
    values: Any


def address(data: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(data))


def _numpy() -> Any:
    try:
        import numpy
        return numpy
    except ImportError:
        return None


def shaped(halves: List[bytearray], shape: Tuple[int, ...], f: Format) -> Any:
    """Return packed results as an array of that shape; two halves are complex numbers."""
    numpy = _numpy()
    if numpy is None:
        if len(halves) > 1 or f.name == "bfloat16":
            raise TypeError("arrays of complex numbers and of bfloat16 need numpy")
        return memoryview(halves[0]).cast({"float64": "d", "float32": "f", "float16": "e"}[f.name], shape) if shape and \
            0 not in shape else memoryview(halves[0])
    name = f.name
    if name == "bfloat16":
        try:
            import ml_dtypes
            name = ml_dtypes.bfloat16
        except ImportError:
            name = "uint16"  # the bits
    real = numpy.frombuffer(halves[0], name).reshape(shape)
    if len(halves) == 1:
        return real
    if f.name == "bfloat16":
        raise TypeError("complex numbers of bfloat16 do not exist; use dtype='float32'")
    out = numpy.empty(shape, numpy.complex128 if f.name == "float64" else numpy.complex64)
    out.real, out.imag = real, numpy.frombuffer(halves[1], name).reshape(shape)  # 1j times an infinity has a NaN
    return out


# -- keys -----------------------------------------------------------------------


def _of_integers(numpy: Any, keys: Any) -> Tuple[Any, Any]:
    """Number the groups of 64-bit integer keys."""
    codes, least, most = numpy.empty(len(keys), "int64"), int(keys.min()), int(keys.max())
    near = most - least < max(NEAR, 2 * len(keys)) and most - least < 1 << 31
    found = numpy.empty(most - least + 1 if near else len(keys), "int64")  # first place of each, if they are not near
    n = lib.sums_number_near(keys.ctypes.data, len(keys), ctypes.c_int64(least).value, len(found), codes.ctypes.data, found.ctypes.data) \
        if near else lib.sums_number(keys.ctypes.data, len(keys), codes.ctypes.data, found.ctypes.data)
    if n < 0:
        raise MemoryError("no memory for the keys")
    if near:
        return found[:n].view(keys.dtype), keys.view("int64") if least == 0 and n == len(found) else codes
    found = keys[found[:n]]
    order = numpy.argsort(found, kind="stable")
    rank = numpy.empty(n, "int64")
    rank[order] = numpy.arange(n)
    return found[order], rank[codes]


def _by_numpy(numpy: Any, keys: Any) -> Tuple[Any, Any]:
    """Number integers by the compiled table, and others by numpy. A masked key and NaT do not have a group."""
    if keys.ndim != 1:
        raise ValueError(f"by has {keys.ndim} dimensions; it must have one")
    if isinstance(keys, numpy.ma.MaskedArray):
        return _by_some(numpy, keys.data, ~numpy.ma.getmaskarray(keys))
    if keys.dtype.kind in "mM" and numpy.isnat(keys).any():
        return _by_some(numpy, keys, ~numpy.isnat(keys))
    if keys.dtype.kind in "iub" and keys.dtype.itemsize <= 8 and len(keys):
        found, codes = _of_integers(numpy, numpy.require(keys, "uint64" if keys.dtype == "uint64" else "int64", "CA"))
        return found.astype(keys.dtype), codes
    found, codes = numpy.unique(keys, return_inverse=True)
    return found, numpy.ascontiguousarray(codes.reshape(-1), "int64")


def _by_some(numpy: Any, keys: Any, seen: Any) -> Tuple[Any, Any]:
    """Number the keys in `seen`; the others do not have a group."""
    codes = numpy.full(len(keys), -1, "int64")
    found, codes[seen] = _by_numpy(numpy, keys[seen])
    return found, codes


def _check_types(types: Set[type]) -> None:
    """Raise TypeError for keys that are compared by identity: equal keys would not be in one group."""
    numpy = sys.modules.get("numpy")
    for t in types:
        if (t.__hash__ is object.__hash__ and t.__eq__ is object.__eq__) or \
                (hasattr(t, "__array__") and not (numpy and issubclass(t, numpy.generic))):
            raise TypeError(f"a key is of {t.__name__}, whose equal ones do not have one hash; pass numbers, strings or the like")


def _by_table(keys: Sequence[Any]) -> Tuple[Any, Any]:
    """Number keys that are hashed by value, in order if possible. A null does not have a group, and NaN is last, as in numpy."""
    pandas = sys.modules.get("pandas")
    missing = pandas.NA if pandas else None  # not even unequal to itself
    _check_types(set(map(type, keys)) - {type(missing), type(None)})
    keys = [None if k is missing else k if k == k else math.nan if isinstance(k, numbers.Number) else None for k in keys]
    found = list(dict.fromkeys(k for k in keys if k is not None and k is not math.nan))
    try:
        found.sort()
    except TypeError:
        pass  # keep the order of appearance
    if any(k is math.nan for k in keys):
        found.append(math.nan)
    number = {k: i for i, k in enumerate(found)}
    return found, array.array("q", (-1 if k is None else number[k] for k in keys))


def numbered(by: Any) -> Tuple[Any, Any]:
    """Return (keys, index of each row's key)."""
    numpy = sys.modules.get("numpy")
    pandas = sys.modules.get("pandas")
    if pandas and isinstance(by, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
        codes, keys = pandas.factorize(by, sort=True)
        return keys, codes.astype("int64")
    if numpy and isinstance(by, numpy.ndarray) and by.dtype.kind not in "OT":  # T: strings that may be null
        return _by_numpy(numpy, by)
    if numpy and isinstance(by, numpy.ma.MaskedArray):
        by = numpy.where(numpy.ma.getmaskarray(by), None, by.data)
    if hasattr(by, "to_pylist"):
        return _by_arrow(by)
    if hasattr(by, "to_arrow"):  # Polars
        return _by_arrow(by.to_arrow())
    numpy = _numpy()
    if numpy and not isinstance(by, numpy.ndarray) and (hasattr(by, "__array_interface__") or hasattr(by, "__array__")):
        return numbered(numpy.asarray(by))  # a tensor, or another library's array
    return _by_table(by.tolist() if hasattr(by, "tolist") else list(by))


def _by_arrow(by: Any) -> Tuple[Any, Any]:
    """Number a column of pyarrow, or of another library with to_pylist()."""
    numpy, pyarrow = _numpy(), sys.modules.get("pyarrow")
    if numpy and pyarrow and isinstance(by, (pyarrow.Array, pyarrow.ChunkedArray)) and pyarrow.types.is_integer(by.type) and not by.null_count:
        return _by_numpy(numpy, by.to_numpy())
    return _by_table(by.to_pylist())


# -- rows of each group ------------------------------------------------------------


class Places:
    """The places of rows sorted by their groups."""

    def __init__(self, by: Any) -> None:
        self.keys, codes = numbered(by)
        self.rows, self.groups = len(codes), len(self.keys)
        self.place, self.start = (ctypes.c_int64 * max(1, self.rows))(), (ctypes.c_int64 * (self.groups + 1))()
        at = codes.ctypes.data if hasattr(codes, "ctypes") else codes.buffer_info()[0]
        check(lib.sums_places(at, self.rows, self.groups, self.place, self.start))

    def _blocks(self, blocks: List[Block]) -> List[Block]:
        """Return one block for each group."""
        runs = [run for block in blocks if 0 not in block.shape for run in block.runs()]
        if any(len(b.shape) != 1 for b in blocks) or self.rows != total(runs):
            raise ValueError(f"by has {self.rows} keys; the values must be as many, in one dimension")
        type_ = blocks[0].type if blocks else "float64"
        size, place = SIZES[type_], ctypes.addressof(self.place)
        memory, valid = ctypes.create_string_buffer(size * self.rows + 1), ctypes.create_string_buffer(self.rows // 8 + 1)
        for run in runs:
            check(lib.sums_arrange(run, place, memory, valid))
            place += 8 * run.n
        return [Block(type_, ctypes.addressof(memory) + low * size, (high - low,), (size,), ctypes.addressof(valid), low, (memory, valid))
                for low, high in zip(self.start, self.start[1:])]

    def _whole(self, x: Whole) -> List[Values]:
        items: List[List[Optional[int]]] = [[] for _ in range(self.groups)]
        found = x.items()
        if len(found) != self.rows:
            raise ValueError(f"by has {self.rows} keys; the values must be as many")
        order = sorted((p, i) for i, p in enumerate(self.place[:self.rows]) if p >= 0)
        for k, (low, high) in enumerate(zip(self.start, self.start[1:])):
            items[k] = [found[i] for _, i in order[low:high]]
        return [Values([], [], x.integers, x._replace(total=sum(i for i in of if i is not None), rows=len(of) - of.count(None),
                                                      items=lambda of=of: of)) for of in items]

    def arrange(self, v: Values) -> List[Values]:
        """Return the values of each group."""
        if v.whole is not None:
            return self._whole(v.whole)
        real = self._blocks(v.blocks)
        imaginary = self._blocks(v.imaginary) if v.imaginary else []
        return [Values([b], imaginary[k:k + 1], v.integers) for k, b in enumerate(real)]


# -- sums -------------------------------------------------------------------------


def reduce(v: Values, by: Any, f: Format, average: bool) -> Groups:
    keys, codes = numbered(by)
    at = codes.ctypes.data if hasattr(codes, "ctypes") else codes.buffer_info()[0]
    halves = []
    for blocks in (v.blocks, v.imaginary) if v.imaginary else (v.blocks,):
        runs = [run for block in blocks if 0 not in block.shape for run in block.runs()]
        if any(len(b.shape) != 1 for b in blocks) or len(codes) != total(runs):
            raise ValueError(f"by has {len(codes)} keys; the values must be as many, in one dimension")
        halves.append(_sums(runs, at, len(keys), f, average))
    return Groups(keys, shaped(halves, (len(keys),), f))


def total(runs: List[Array]) -> int:
    n = 0
    for run in runs:
        n += run.n
    return n


def _sums(runs: List[Array], codes: int, groups: int, f: Format, average: bool) -> bytearray:
    state: Optional[int] = lib.sums_groups_new(groups, average)
    if not state:
        raise MemoryError(f"no memory for {groups} groups")
    out = bytearray(max(1, groups) * f.size)
    try:
        for run in runs:
            check(lib.sums_groups_add(state, run, codes))
            codes += 8 * run.n
        check(lib.sums_groups_read(state, f.number, average, address(out)))
    finally:
        lib.sums_groups_free(state)
    return out if groups else bytearray()
