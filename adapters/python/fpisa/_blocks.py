# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""The values to sum, as strided blocks of memory for arrays of sums.h, or as the total of a column of decimals."""
from __future__ import annotations

import ctypes
import itertools
import struct
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

from ._core import SIZES, TYPES, Array

HALVES = {"complex128": "float64", "complex64": "float32"}


class Block(NamedTuple):
    """A strided array, or the real or imaginary half of a complex array."""

    type: str
    address: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    valid: Optional[int] = None
    valid_offset: int = 0
    keep: Any = None

    def runs(self) -> Iterator[Array]:
        """Yield the values as one-dimensional arrays."""
        shape, strides = merged(self.shape, self.strides)
        inner = max(range(len(shape)), key=lambda i: shape[i])
        outer = [i for i in range(len(shape)) if i != inner]
        for at in itertools.product(*(range(shape[i]) for i in outer)):
            address = self.address + sum(k * strides[i] for k, i in zip(at, outer))
            yield Array(address, shape[inner], strides[inner], self.valid, self.valid_offset, TYPES[self.type])


class Whole(NamedTuple):
    """The sum of decimals, or of integers beyond 64 bits, in units of 10**-scale."""

    total: int
    scale: int
    rows: int
    integers: bool
    items: Callable[[], List[Optional[int]]]  # returns the value of each row, with None for a null


class Values(NamedTuple):
    """A column or an array. Complex numbers have imaginary blocks in addition to the real blocks."""

    blocks: List[Block]
    imaginary: List[Block]
    integers: bool
    whole: Optional[Whole] = None  # used instead of the blocks

    def items(self) -> Optional[Tuple[List[Optional[int]], int]]:
        """Return the values of the rows in units of 10**-scale, with None for a null, and the scale.

        Return None if the values are neither integers nor decimals.
        """
        if self.whole is not None:
            return self.whole.items(), self.whole.scale
        if not self.integers:
            return None
        return [item for b in self.blocks if 0 not in b.shape for run in b.runs() for item in integers(b.type, run)], 0

    def need_blocks(self, what: str) -> None:
        if self.whole:
            raise TypeError(f"{what} supports neither decimals nor integers beyond 64 bits; cast them to float64")


def integers(type_: str, run: Array) -> Iterator[Optional[int]]:
    """Yield the integers, with None for a null."""
    code = {"float64": "<d", "bool": "?", "int8": "b", "uint8": "B", "int16": "<h", "uint16": "<H", "int32": "<i", "uint32": "<I", "int64": "<q", "uint64": "<Q"}[type_]
    for i in range(run.n):
        bit = run.valid_offset + i
        if run.valid and not ctypes.string_at(run.valid + bit // 8, 1)[0] >> bit % 8 & 1:
            yield None
        else:
            yield int(struct.unpack(code, ctypes.string_at(run.data + i * run.stride, SIZES[type_]))[0])


def merged(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> Tuple[List[int], List[int]]:
    """Merge dimensions, and return the new shape and strides. The shape has at least one dimension."""
    out: List[Tuple[int, int]] = []
    for n, stride in sorted(zip(shape, strides), key=lambda d: -abs(d[1])):
        if n == 1:
            continue
        if out and out[-1][1] == n * stride:
            out[-1] = (out[-1][0] * n, stride)
        else:
            out.append((n, stride))
    if not out:
        return [1], [0]
    return [n for n, _ in out], [s for _, s in out]


def is_integer(type_: str) -> bool:
    return "int" in type_ or type_ == "bool"


def strides_of(shape: Tuple[int, ...], size: int) -> Tuple[int, ...]:
    out = [size]
    for n in reversed(shape[1:]):
        out.append(out[-1] * n)
    return tuple(reversed(out))[:len(shape)] if shape else ()


def split(type_: str, address: int, shape: Tuple[int, ...], strides: Tuple[int, ...], keep: Any) -> Values:
    half = HALVES.get(type_)
    if half:
        return Values([Block(half, address, shape, strides, keep=keep)],
                      [Block(half, address + SIZES[half], shape, strides, keep=keep)], False)
    if type_ not in TYPES:
        raise TypeError(f"values have type {type_}; exact sums take {', '.join(TYPES)}, complex64 and complex128")
    return Values([Block(type_, address, shape, strides, keep=keep)], [], is_integer(type_))


def with_nulls(v: Values, valid: bytes) -> Values:
    """Return `v` with Arrow's validity bitmap `valid`, in which a 0 bit marks a null. `v` is an array in C order."""
    memory = ctypes.create_string_buffer(valid)

    def mark(blocks: List[Block]) -> List[Block]:
        return [b._replace(valid=ctypes.addressof(memory), keep=(b.keep, memory)) for b in blocks]

    return v._replace(blocks=mark(v.blocks), imaginary=mark(v.imaginary))
