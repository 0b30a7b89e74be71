# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Convert values that can be summed to arrays of sums.h. Numpy arrays, objects with numpy's array interface, Arrow columns,
buffers and Python numbers are supported.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, List, Optional, Tuple

from . import _arrow
from ._blocks import HALVES, Block, Values, Whole, is_integer, split, strides_of, with_nulls
from ._core import SIZES, lib
from ._numbers import of_numbers, validity
from ._scalars import of_host

BUFFERS = {"d": "float64", "f": "float32", "e": "float16", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16",
           "i": "int32", "I": "uint32", "l": "int64", "L": "uint64", "q": "int64", "Q": "uint64", "?": "bool",
           "Zd": "complex128", "Zf": "complex64"}
BITS = [bytes(byte >> i & 1 for i in range(8)) for byte in range(256)]
MOST_DECIMALS = 1 << 30  # maximum number of decimals in a call
KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


class View(ctypes.Structure):
    """The struct Py_buffer. A memoryview does not give the address of its memory."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_ssize_t)), ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]

    def __init__(self, x: Any, flags: int = 0x1C) -> None:
        """Get the buffer of `x`. The default flags accept any format, shape and strides, and read-only memory. Flags of 0
        accept only contiguous bytes.
        """
        super().__init__()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(self), flags)

    def __del__(self) -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self))


def memory(x: Any, interface: Dict[str, Any], shape: Tuple[int, ...], strides: Tuple[int, ...], size: int) -> Tuple[int, Any]:
    """
    Return the address of the first element, and an object that keeps the memory alive. The interface's `data` is an address
    or a buffer. If `data` is missing, x itself is the buffer. A buffer may have an offset, and must contain all elements.
    """
    data = interface.get("data")
    if isinstance(data, tuple):
        return data[0], x
    view, offset = View(x if data is None else data, 0), interface.get("offset", 0)
    ends = [(n - 1) * step for n, step in zip(shape, strides)]
    if 0 not in shape and not 0 <= offset + sum(min(e, 0) for e in ends) <= offset + sum(max(e, 0) for e in ends) + size <= view.len:
        raise ValueError(f"values lie outside their buffer of {view.len} bytes: shape {shape}, strides {strides}, offset {offset}")
    return (view.buf or 0) + offset, (x, view)


def of_interface(x: Any) -> Values:
    """Return the values of an object with __array_interface__, such as a numpy array or a CuPy array on the host."""
    interface = x.__array_interface__
    name = getattr(getattr(x, "dtype", None), "name", None)
    order, kind, size = interface["typestr"][0], interface["typestr"][1], interface["typestr"][2:]
    if kind == "O":
        return of_numbers(x.ravel().tolist(), x.shape)
    if order == ">":
        raise TypeError("values are big-endian; pass x.astype(x.dtype.newbyteorder('<'))")
    if name != "bfloat16" and kind != "b" and kind not in KINDS:
        raise TypeError(f"values have type {name or interface['typestr']}; they must be numbers")
    if interface.get("mask") is not None:
        raise TypeError("values have a mask in __array_interface__; pass a numpy.ma.MaskedArray")
    size = int(size)
    type_ = "bfloat16" if name == "bfloat16" else "bool" if kind == "b" else KINDS[kind] + str(8 * size)
    shape = tuple(interface["shape"])
    strides = tuple(interface.get("strides") or strides_of(shape, size))
    at, keep = memory(x, interface, shape, strides, size)
    return split(type_, at, shape, strides, (keep, interface))


def of_buffer(x: Any) -> Values:
    view = View(x)
    code = (view.format or b"B").decode().lstrip("@=<")
    type_ = BUFFERS.get({"l": "i", "L": "I"}.get(code, code) if view.itemsize == 4 else code)
    if not type_ or view.itemsize != (2 * SIZES[HALVES[type_]] if type_ in HALVES else SIZES[type_]):
        raise TypeError(f"the buffer has format {code!r} with {view.itemsize} bytes per value; it must have one of the formats {' '.join(BUFFERS)}, little-endian")
    shape = tuple(view.shape[:view.ndim]) if view.ndim else ()
    # ctypes may leave the strides empty
    strides = tuple(view.strides[:view.ndim]) if view.strides else strides_of(shape, view.itemsize)
    return split(type_, view.buf or 0, shape, strides, view)


def decimals(column: _arrow.Column) -> Values:
    """Return decimals of 32 to 256 bits as integers in units of a power of ten."""
    parts = column.format.split(b":")[1].split(b",")
    scale, bits = int(parts[1]), int(parts[2]) if len(parts) > 2 else 128
    total = rows = 0
    for p in column.pieces:
        for at in range(p.offset, p.offset + p.length, MOST_DECIMALS):
            digits = (ctypes.c_int64 * (bits // 32))()
            found = lib.sums_decimals((p.data or 0) + at * (bits // 8), bits, min(MOST_DECIMALS, p.offset + p.length - at), p.valid, at, digits)
            if found < 0:
                raise TypeError(f"decimals have {bits} bits; they must have 32, 64, 128 or 256")
            rows += found
            total += sum(digit << 32 * i for i, digit in enumerate(digits))

    def units() -> List[Optional[int]]:
        return [None if item is None else int.from_bytes(item, "little", signed=True) for p in column.pieces for item in p.items(bits // 8)]

    return Values([], [], False, Whole(total, scale, rows, False, units))


def of_bits(p: _arrow.Piece) -> Block:
    """Return booleans that are bits as bytes."""
    first, end = p.offset // 8, (p.offset + p.length + 7) // 8
    data = ctypes.string_at(p.data + first, end - first) if p.data else b""
    made = ctypes.create_string_buffer(b"".join(map(BITS.__getitem__, data)))
    return Block("uint8", ctypes.addressof(made) + p.offset % 8, (p.length,), (1,), p.valid, p.offset, (p.keep, made))


def decoded(p: _arrow.Piece, index: str, type_: str) -> Block:
    """Look up the values of dictionary indices. The result is null if the index or its value is null."""
    values = p.dictionary.items(SIZES[type_])  # type: ignore[union-attr]
    indices = (None if i is None else int.from_bytes(i, "little", signed=index[0] == "i") for i in p.items(SIZES[index]))
    found = [None if i is None else values[i] for i in indices]
    made = ctypes.create_string_buffer(b"".join(x or bytes(SIZES[type_]) for x in found))
    valid = ctypes.create_string_buffer(validity(found))
    return Block(type_, ctypes.addressof(made), (p.length,), (SIZES[type_],), ctypes.addressof(valid), 0, (made, valid))


def of_arrow(column: _arrow.Column) -> Values:
    format_ = column.format if column.dictionary is None else column.dictionary
    type_ = _arrow.FORMATS.get(format_)
    if column.dictionary is not None and type_:
        return Values([decoded(p, _arrow.FORMATS[column.format], type_) for p in column.pieces], [], is_integer(type_))
    if column.dictionary is None and format_.startswith(b"d:"):
        return decimals(column)
    if column.dictionary is None and format_ == b"b":
        return Values([of_bits(p) for p in column.pieces], [], True)
    if not type_:
        what = "a column" if column.dictionary is None else "a dictionary"
        raise TypeError(f"{what} with Arrow's format {format_.decode()!r} cannot be summed; cast it to a numeric type first")
    size = SIZES[type_]
    return Values([Block(type_, (p.data or 0) + p.offset * size, (p.length,), (size,), p.valid, p.offset, p.keep)
                   for p in column.pieces], [], is_integer(type_))


def of_masked(numpy: Any, x: Any) -> Values:
    """Return the values of a masked numpy array, with nulls for masked elements."""
    mask = numpy.ma.getmaskarray(x)
    if x.dtype.kind == "O":
        return of_numbers(numpy.where(mask, None, x.data).ravel().tolist(), x.shape)
    v = of_interface(numpy.asarray(x.data, order="C"))
    return with_nulls(v, numpy.packbits(~mask.ravel(), bitorder="little").tobytes()) if mask.any() else v


def values(x: Any) -> Values:
    """Return the values of any supported object. Raise TypeError for objects without numbers."""
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(x, numpy.ndarray):
        return of_masked(numpy, x) if isinstance(x, numpy.ma.MaskedArray) else of_interface(x)
    if isinstance(x, (str, bytes)):
        raise TypeError(f"values are {type(x).__name__}; they must be numbers")
    if isinstance(x, (int, float, complex)):
        return of_numbers([x])
    if isinstance(x, (list, tuple)):
        return of_numbers(x)
    if str(getattr(x, "dtype", "")).startswith("torch."):
        return of_torch(x)
    if numpy and isinstance(getattr(x, "dtype", None), numpy.dtype) and hasattr(x, "to_numpy"):
        return of_interface(x.to_numpy())  # in pandas arrays NaN stays NaN, and is not a null
    column = _arrow.column_of(x)
    if column is not None:
        return of_arrow(column)
    if hasattr(x, "__array_interface__"):
        return of_interface(x)
    try:
        memoryview(x)
    except TypeError:
        if not hasattr(x, "__iter__"):
            raise TypeError(f"{type(x).__name__} is not an array of numbers") from None
        return of_numbers(x)
    return of_buffer(x)


def of_torch(x: Any) -> Values:
    """Return the values of a tensor on the CPU."""
    x = of_host(x)
    if str(x.dtype) == "torch.bfloat16":
        import torch
        bits = x.view(torch.int16).numpy()
        interface = bits.__array_interface__
        return split("bfloat16", interface["data"][0], bits.shape, bits.strides, bits)
    return of_interface(x.numpy())
