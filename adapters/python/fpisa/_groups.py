# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Sums by keys, and results that are arrays. Results are numpy arrays if numpy is available, or else memoryviews."""
from __future__ import annotations

import ctypes
from typing import Any, List, NamedTuple, Optional, Tuple

from ._blocks import Block, Values, Whole
from ._core import SIZES, Array, check, lib
from ._formats import Format
from ._keys import numbered, numpy_or_none


class Groups(NamedTuple):
    """The keys in ascending order, and the result for each key."""

    keys: Any
    values: Any


def address(data: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(data))


def shaped(halves: List[bytearray], shape: Tuple[int, ...], f: Format) -> Any:
    """Return packed results as an array of this shape. Two halves become complex numbers."""
    numpy = numpy_or_none()
    if numpy is None:
        if len(halves) > 1 or f.name == "bfloat16":
            raise TypeError("arrays of complex numbers and of bfloat16 need numpy; install numpy")
        return memoryview(halves[0]).cast({"float64": "d", "float32": "f", "float16": "e"}[f.name], shape) if shape and \
            0 not in shape else memoryview(halves[0])
    name = f.name
    if name == "bfloat16":
        try:
            import ml_dtypes
            name = ml_dtypes.bfloat16
        except ImportError:
            name = "uint16"  # use the bits, because numpy does not have the type
    real = numpy.frombuffer(halves[0], name).reshape(shape)
    if len(halves) == 1:
        return real
    if f.name == "bfloat16":
        raise TypeError("complex numbers with bfloat16 parts are not supported; use dtype='float32'")
    out = numpy.empty(shape, numpy.complex128 if f.name == "float64" else numpy.complex64)
    # assign the parts, because 1j times an infinity gives a NaN part
    out.real, out.imag = real, numpy.frombuffer(halves[1], name).reshape(shape)
    return out


# -- rows of each group ------------------------------------------------------------


class Places:
    """The places of the rows after sorting by group."""

    def __init__(self, by: Any) -> None:
        self.keys, codes = numbered(by)
        self.rows, self.groups = len(codes), len(self.keys)
        self.place, self.start = (ctypes.c_int64 * max(1, self.rows))(), (ctypes.c_int64 * (self.groups + 1))()
        at = codes.ctypes.data if hasattr(codes, "ctypes") else codes.buffer_info()[0]
        check(lib.sums_places(at, self.rows, self.groups, self.place, self.start))

    def _blocks(self, blocks: List[Block]) -> List[Block]:
        """Return one block of values for each group."""
        runs = [run for block in blocks if 0 not in block.shape for run in block.runs()]
        if any(len(b.shape) != 1 for b in blocks) or self.rows != total(runs):
            raise ValueError(f"by has {self.rows} keys; pass as many values as keys, in one dimension")
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
            raise ValueError(f"by has {self.rows} keys, but there are {len(found)} values; pass as many values as keys")
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
            raise ValueError(f"by has {len(codes)} keys; pass as many values as keys, in one dimension")
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
        raise MemoryError(f"not enough memory for {groups} keys; sum parts of the values, or free some memory")
    out = bytearray(max(1, groups) * f.size)
    try:
        for run in runs:
            check(lib.sums_groups_add(state, run, codes))
            codes += 8 * run.n
        check(lib.sums_groups_read(state, f.number, average, address(out)))
    finally:
        lib.sums_groups_free(state)
    return out if groups else bytearray()
