# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Read arrays through the Arrow C data interface, without pyarrow. See
https://arrow.apache.org/docs/format/CDataInterface.html.
"""
from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_void_p
from typing import Any, Iterator, List, NamedTuple, Optional

FORMATS = {b"g": "float64", b"f": "float32", b"e": "float16", b"c": "int8", b"C": "uint8", b"s": "int16", b"S": "uint16",
           b"bool8": "bool", b"i": "int32", b"I": "uint32", b"l": "int64", b"L": "uint64"}


class Schema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Schema._fields_ = [("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64),
                   ("n_children", c_int64), ("children", c_void_p), ("dictionary", c_void_p),
                   ("release", CFUNCTYPE(None, POINTER(Schema))), ("private_data", c_void_p)]
ArrowArray._fields_ = [("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64),
                       ("n_children", c_int64), ("buffers", POINTER(c_void_p)), ("children", c_void_p),
                       ("dictionary", c_void_p), ("release", CFUNCTYPE(None, POINTER(ArrowArray))),
                       ("private_data", c_void_p)]
Stream._fields_ = [("get_schema", CFUNCTYPE(c_int, POINTER(Stream), POINTER(Schema))),
                   ("get_next", CFUNCTYPE(c_int, POINTER(Stream), POINTER(ArrowArray))),
                   ("get_last_error", CFUNCTYPE(c_char_p, POINTER(Stream))),
                   ("release", CFUNCTYPE(None, POINTER(Stream))), ("private_data", c_void_p)]

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]


class Piece(NamedTuple):
    """One array of a column. `keep` keeps its memory alive."""

    length: int
    offset: int
    nulls: int  # -1 if not counted
    valid: Optional[int]
    data: Optional[int]
    dictionary: Optional["Piece"]  # the data are indices of these values
    keep: Any

    def items(self, size: int) -> List[Optional[bytes]]:
        """Return the items as bytes, with None for a null. An item has `size` bytes."""
        data = ctypes.string_at((self.data or 0) + self.offset * size, self.length * size) if self.length else b""
        bits = ctypes.string_at(self.valid, (self.offset + self.length + 7) // 8) if self.valid else None
        return [data[i * size:(i + 1) * size] if bits is None or bits[at // 8] >> at % 8 & 1 else None
                for i, at in enumerate(range(self.offset, self.offset + self.length))]


class Column(NamedTuple):
    format: bytes
    dictionary: Optional[bytes]  # the format of the pieces' dictionaries
    pieces: List[Piece]


class Owner:
    """Release an array of a stream when nothing uses the array now."""

    def __init__(self, array: ArrowArray) -> None:
        self.array = array

    def __del__(self) -> None:
        if self.array.release:
            self.array.release(ctypes.byref(self.array))


def column_like(schema: Schema) -> Column:
    """Return a column without pieces."""
    return Column(format_of(schema), format_of(Schema.from_address(schema.dictionary)) if schema.dictionary else None, [])


def metadata(schema: Schema) -> Iterator[bytes]:
    """Yield keys and values alternately. The memory contains the number of pairs, followed by each string with its length in
    front.
    """
    at = schema.metadata
    for _ in range(2 * c_int32.from_address(at).value if at else 0):
        n = c_int32.from_address(at + 4).value
        yield ctypes.string_at(at + 8, n)
        at += 4 + n


def format_of(schema: Schema) -> bytes:
    """Return the Arrow format, or b"bool8" for booleans that are bytes."""
    strings = metadata(schema)
    return b"bool8" if (b"ARROW:extension:name", b"arrow.bool8") in zip(strings, strings) else bytes(schema.format)


def piece(array: ArrowArray, keep: Any) -> Piece:
    buffers = [array.buffers[i] for i in range(array.n_buffers)]
    valid, data = (buffers + [None, None])[:2]
    dictionary = piece(ArrowArray.from_address(array.dictionary), keep) if array.dictionary else None
    return Piece(array.length, array.offset, array.null_count, valid if array.null_count else None, data, dictionary, keep)


def of_stream(capsule: Any) -> Column:
    stream = Stream.from_address(_pointer(capsule, b"arrow_array_stream"))
    schema = Schema()
    if stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)):
        raise ValueError("the Arrow stream has no schema: " + (stream.get_last_error(ctypes.byref(stream)) or b"?").decode())
    try:
        column = column_like(schema)
    finally:
        schema.release(ctypes.byref(schema))
    while True:
        array = ArrowArray()
        if stream.get_next(ctypes.byref(stream), ctypes.byref(array)):
            raise ValueError("the Arrow stream ends early: " + (stream.get_last_error(ctypes.byref(stream)) or b"?").decode())
        if not array.release:
            return column
        column.pieces.append(piece(array, Owner(array)))


def column_of(x: Any) -> Optional[Column]:
    """Return x as a column, or None if x does not support the Arrow interface."""
    if hasattr(x, "__arrow_c_stream__"):
        return of_stream(x.__arrow_c_stream__())
    if hasattr(x, "__arrow_c_array__"):
        schema, array = x.__arrow_c_array__()
        column = column_like(Schema.from_address(_pointer(schema, b"arrow_schema")))
        column.pieces.append(piece(ArrowArray.from_address(_pointer(array, b"arrow_array")), (array, x)))
        return column
    return None
