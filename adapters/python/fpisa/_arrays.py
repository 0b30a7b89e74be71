# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Check the arrays of a call, and describe its results."""
from __future__ import annotations

import enum
import sys
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from ._library import TYPES, number_of

Array = Any  # np.ndarray of one of the types below


class Flags(enum.IntFlag):
    """Properties of a result. The flags are the union over all values of a call."""

    OVERFLOW = 0x01
    "A register saturated, or a value left the format's range."
    INEXACT = 0x02
    "Some nonzero bit was lost."
    OVERWRITE = 0x04
    "A stored mantissa was discarded (mode fpisa-a)."
    NAN = 0x08
    INF = 0x10
    MIXED_RANKS = 0x100
    "A rank was removed from the job, and some values lack it."
    FEWER_RANKS = 0x200
    "Some values, or all, are without a rank of the job. `ranks` of the Request says which have all."


class Result(NamedTuple):
    """The result of an all-reduce, as in `sums, flags = group.allreduce(values)`."""

    array: Array
    flags: Flags


# The library's type for each numpy type. ml_dtypes provides the last three types. A complex number counts as two values.
NAMES = {"float32": "float32", "float16": "float16", "float64": "float64", "int32": "int32", "complex64": "float32",
         "complex128": "float64", "bfloat16": "bfloat16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
COMPLEX_OPS = ("sum", "avg", "scale")  # these operations act on the real and the imaginary parts
# part of a complex call's tag, which differs from the tag of a real call with as many numbers
COMPLEX = int.from_bytes(b"complex", "little")
BITS = {"bfloat16": np.uint16, "e4m3": np.uint8, "e5m2": np.uint8}  # types that can hold the bits without ml_dtypes


def type_of(array: Array, given: Optional[str]) -> int:
    """Return the number of the type in libfpisa. Raise TypeError for values that the library does not sum."""
    if given is None:
        name = NAMES.get(array.dtype.name)
        if name is None:
            raise TypeError(f"the array has dtype {array.dtype}; it must have one of {', '.join(NAMES)}")
        return TYPES[name]
    number = number_of(TYPES, given, "type")
    if NAMES.get(array.dtype.name) != given and BITS.get(given) != array.dtype.type:
        raise TypeError(f"the array has dtype {array.dtype} and type is {given!r}; pass the bits of bfloat16 as uint16, and those of e4m3 and e5m2 as uint8")
    return number


def check_array(array: Array, what: str, big_endian: bool) -> None:
    """Check that the array's values are contiguous in memory, in the job's byte order."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{what} has type {type(array).__name__}; it must be a numpy.ndarray")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{what} is masked, but sums do not support masks; pass array.filled()")
    if not array.flags.c_contiguous:
        raise ValueError(f"{what} is not C-contiguous; pass numpy.ascontiguousarray() of it")
    order = array.dtype.byteorder
    is_big = order == ">" or (order == "=" and sys.byteorder == "big")
    if array.itemsize > 1 and is_big != big_endian:
        raise TypeError(f"{what} is {'big' if is_big else 'little'}-endian, but the job is not; pass "
                        "array.astype(array.dtype.newbyteorder())")
    if not array.flags.aligned:
        raise ValueError(f"{what} is not aligned; pass a copy of it")


def count_of(array: Array, op: str) -> int:
    """Return the number of values for libfpisa. Raise ValueError if complex numbers do not support the operation."""
    if array.dtype.kind != "c":
        return int(array.size)
    if op not in COMPLEX_OPS:
        raise ValueError(f"op is {op!r}; for complex numbers it must be one of {', '.join(COMPLEX_OPS)}")
    return 2 * int(array.size)


def check_memory(array: Array, write: bool) -> None:
    """Check that the array is contiguous, and that its bytes have the same meaning in other processes."""
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"array has type {type(array).__name__}; it must be a numpy.ndarray without a mask")
    if array.dtype.hasobject:
        raise TypeError("array holds Python objects, which other processes cannot use; pass an array of numbers")
    if not array.flags.c_contiguous:
        raise ValueError("array is not C-contiguous; pass numpy.ascontiguousarray() of it")
    if write and not array.flags.writeable:
        raise ValueError("array is read-only, but root's values must be written to it; pass a copy")


def prepare(array: Array, out: Optional[Array], given: Optional[str], big_endian: bool) -> Tuple[Array, int]:
    """Return the array for the results and the type of the values."""
    check_array(array, "array", big_endian)
    number = type_of(array, given)
    if out is None:
        return np.empty(array.shape, array.dtype), number
    if out is not array:
        check_array(out, "out", big_endian)
        if out.dtype != array.dtype or out.shape != array.shape:
            raise ValueError(f"out has shape {out.shape} and dtype {out.dtype}; like array, it must have shape {array.shape} and dtype {array.dtype}")
    if not out.flags.writeable:
        raise ValueError("out is read-only; pass an array that results can be written to")
    return out, number
