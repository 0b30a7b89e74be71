# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Load the compiled sums (adapters/python/sums/sums.h) with ctypes, from libsums.so next to this file or from the library that
FPISA_SUMS names.

Because this module uses ctypes rather than an extension module, one libsums.so works with every version of Python, and the build
does not need Python's headers. Each call releases the GIL, but once() releases it only for large arrays.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, Iterator, NamedTuple, Optional

# enum sums_type.
TYPES = {"float64": 0, "float32": 1, "float16": 2, "bfloat16": 3, "int8": 4, "uint8": 5, "int16": 6, "uint16": 7,
         "int32": 8, "uint32": 9, "bool": 10, "int64": 11, "uint64": 12}
SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2,
         "int32": 4, "uint32": 4, "bool": 1, "int64": 8, "uint64": 8}
MOST_BYTES = 312  # size of a partial in bytes
DOT_SCALE = 1200


class Array(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("n", c_int64), ("stride", c_int64), ("valid", c_void_p), ("valid_offset", c_int64),
                ("type", c_int32)]


class Axes(ctypes.Structure):
    _fields_ = [("ndim", c_int32), ("shape", POINTER(c_int64)), ("stride", POINTER(c_int64))]


def axes(shape: Any, strides: Any) -> Axes:
    n = len(shape)
    return Axes(n, (c_int64 * n)(*shape), (c_int64 * n)(*strides))


lib = ctypes.CDLL(os.environ.get("FPISA_SUMS") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsums.so"))
for _name, _result, *_arguments in (
        ("sums_size", c_uint64),
        ("sums_init", None, c_void_p),
        ("sums_add", c_int, c_void_p, POINTER(Array)),
        ("sums_merge", c_int, c_void_p, c_void_p),
        ("sums_read", c_uint64, c_void_p, c_int, c_int),
        ("sums_write", c_uint32, c_void_p, c_void_p),
        ("sums_parse", c_int, c_void_p, c_void_p, c_uint64, POINTER(c_char_p)),
        ("sums_dot", c_int, c_void_p, POINTER(Array), POINTER(Array)),
        ("sums_axis", c_int, c_void_p, c_int, POINTER(Axes), POINTER(Axes), c_int, c_int, c_void_p),
        ("sums_groups_new", c_void_p, c_int64, c_int),
        ("sums_groups_free", None, c_void_p),
        ("sums_groups_add", c_int, c_void_p, POINTER(Array), c_void_p),
        ("sums_groups_read", c_int, c_void_p, c_int, c_int, c_void_p),
        ("sums_groups_get", c_int, c_void_p, c_int64, c_void_p),
        ("sums_places", c_int, c_void_p, c_int64, c_int64, c_void_p, c_void_p),
        ("sums_arrange", c_int, POINTER(Array), c_void_p, c_void_p, c_void_p),
        ("sums_decimals", c_int64, c_void_p, c_int, c_int64, c_void_p, c_int64, c_void_p),
        ("sums_number", c_int64, c_void_p, c_int64, c_void_p, c_void_p),
        ("sums_number_near", c_int64, c_void_p, c_int64, c_int64, c_uint32, c_void_p, c_void_p),
        ("sums_enter", None, c_void_p),
        ("sums_leave", None, c_void_p),
        ("sums_vectors", c_char_p, c_char_p)):
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = _result, _arguments
SIZE = lib.sums_size()


class Python(ctypes.Structure):
    """The struct sums_python for this interpreter."""

    _fields_ = [(name, c_void_p) for name in ("PyObject_GetBuffer", "PyBuffer_Release", "PyEval_SaveThread", "PyEval_RestoreThread")]

    def __init__(self) -> None:
        super().__init__(*(ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p) for name, _ in self._fields_))


once = ctypes.PYFUNCTYPE(c_double, ctypes.py_object, c_int, c_void_p)(("sums_once", lib))
PYTHON = Python()
PYTHON_AT = ctypes.addressof(PYTHON)


class Exact(NamedTuple):
    """An unrounded sum. The finite values add up to m * 2**e, and the other members are counts."""

    m: int
    e: int
    rows: int
    nan: int
    pinf: int
    ninf: int

    def special(self) -> Optional[float]:
        """Return the sum if it is NaN or an infinity, or else None."""
        if self.nan or (self.pinf and self.ninf):
            return float("nan")
        return float("inf") if self.pinf else float("-inf") if self.ninf else None


@contextlib.contextmanager
def exactly() -> Iterator[None]:
    """Make this thread compare and convert floats by IEEE 754, even if it normally flushes subnormals to zero."""
    had = ctypes.create_string_buffer(64)  # SUMS_ENVIRONMENT_BYTES
    lib.sums_enter(had)
    try:
        yield
    finally:
        lib.sums_leave(had)


def check(rc: int) -> None:
    if rc:
        raise MemoryError("not enough memory for the sum; free some memory") if rc == -12 else \
            OverflowError("there are more than 2^63 - 1 values") if rc == -34 else ValueError(os.strerror(-rc))


class State:
    """Accumulators in memory. A dot product uses three accumulators, and other sums use one."""

    def __init__(self, count: int = 1) -> None:
        self.memory = ctypes.create_string_buffer(SIZE * count)
        self.at = ctypes.addressof(self.memory)
        for i in range(count):
            lib.sums_init(self.at + SIZE * i)

    def add(self, array: Array) -> None:
        check(lib.sums_add(self.at, array))

    def merge(self, other: "State") -> None:
        check(lib.sums_merge(self.at, other.at))

    def read(self, number: int, average: bool = False) -> int:
        return lib.sums_read(self.at, number, average)

    def write(self, which: int = 0) -> bytes:
        out = ctypes.create_string_buffer(MOST_BYTES)
        size = lib.sums_write(self.at + SIZE * which, out)
        return out.raw[:size]

    def parse(self, data: Any) -> None:
        """Read a partial from any object that is a buffer of bytes."""
        why, data = c_char_p(), bytes(data)
        if lib.sums_parse(self.at, data, len(data), ctypes.byref(why)):
            raise ValueError(f"the bytes are not a partial sum: {why.value.decode()}; doc/partial.md has the format")

    def exact(self, which: int = 0) -> Exact:
        data = self.write(which)
        counts, at = (0, 0, 0), 16
        if data[3] & 2:
            counts, at = tuple(int.from_bytes(data[i:i + 8], "little") for i in (16, 24, 32)), 40
        m = int.from_bytes(data[at:], "little")
        return Exact(-m if data[3] & 1 else m, int.from_bytes(data[4:6], "little", signed=True),
                     int.from_bytes(data[8:16], "little"), *counts)


def vectors(limit: Optional[str] = None) -> str:
    """Return the vector unit in use: avx512, avx2 or baseline. For tests, `limit` is the widest unit to use. The unit does not
    change the bits of results.
    """
    return lib.sums_vectors(limit.encode() if limit else None).decode()
