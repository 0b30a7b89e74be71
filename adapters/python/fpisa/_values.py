# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""What can be summed, as arrays of sums.h: numpy and whatever has its interface, Arrow columns, buffers, Python's numbers."""
from __future__ import annotations

import array
import ctypes
import itertools
import sys
from typing import Any, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from . import _arrow
from ._core import SIZES, TYPES, Array

BUFFERS = {"d": "float64", "f": "float32", "e": "float16", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16",
           "i": "int32", "I": "uint32", "l": "int64", "L": "uint64", "q": "int64", "Q": "uint64", "?": "uint8",
           "Zd": "complex128", "Zf": "complex64"}
KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "uint"}
HALVES = {"complex128": "float64", "complex64": "float32"}


class Block(NamedTuple):
    """A strided array; of complex numbers one of its halves."""

    type: str
    address: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    valid: Optional[int] = None
    valid_offset: int = 0
    keep: Any = None

    def runs(self) -> Iterator[Array]:
        """Its values as arrays of one dimension."""
        shape, strides = merged(self.shape, self.strides)
        inner = max(range(len(shape)), key=lambda i: shape[i])
        outer = [i for i in range(len(shape)) if i != inner]
        for at in itertools.product(*(range(shape[i]) for i in outer)):
            address = self.address + sum(k * strides[i] for k, i in zip(at, outer))
            yield Array(address, shape[inner], strides[inner], self.valid, self.valid_offset, TYPES[self.type])


class Values(NamedTuple):
    """A column or an array. Complex numbers have imaginary blocks beside the real ones."""

    blocks: List[Block]
    imaginary: List[Block]
    integers: bool
    scale: Optional[int] = None  # of decimals: the blocks are None, and `whole` has their sum
    whole: Tuple[int, int] = (0, 0)  # sum in units of 10**-scale, rows


def merged(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> Tuple[List[int], List[int]]:
    """The same values in as few dimensions as it takes, at least one."""
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
        raise TypeError(f"values are of {type_}; exact sums are of {', '.join(TYPES)}, complex64 and complex128")
    return Values([Block(type_, address, shape, strides, keep=keep)], [], "int" in type_)


def of_interface(x: Any) -> Values:
    """numpy's, CuPy's on the host, and others' __array_interface__."""
    interface = x.__array_interface__
    name = getattr(getattr(x, "dtype", None), "name", None)
    order, kind, size = interface["typestr"][0], interface["typestr"][1], interface["typestr"][2:]
    if kind == "O":
        return of_numbers(x.ravel().tolist())
    if order == ">":
        raise TypeError("values are big-endian; pass x.astype(x.dtype.newbyteorder('<'))")
    if name != "bfloat16" and kind not in KINDS:
        raise TypeError(f"values are of {name or interface['typestr']}; they must be numbers")
    size = int(size)
    type_ = "bfloat16" if name == "bfloat16" else "uint8" if kind == "b" else KINDS[kind] + str(8 * size)
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or strides_of(shape, size)
    return split(type_, interface["data"][0], shape, tuple(strides), (x, interface))


class View(ctypes.Structure):
    """Py_buffer. memoryview does not tell where its memory is."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_ssize_t)), ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]

    def __init__(self, x: Any) -> None:
        super().__init__()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(self), 0x1C)  # format, shape and strides, read-only or not

    def __del__(self) -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self))


def of_buffer(x: Any) -> Values:
    view = View(x)
    code = (view.format or b"B").decode().lstrip("@=<")
    if code not in BUFFERS:
        raise TypeError(f"a buffer of format {code!r}; it must be one of {' '.join(BUFFERS)}, little-endian")
    return split(BUFFERS[code], view.buf or 0, tuple(view.shape[:view.ndim]), tuple(view.strides[:view.ndim]), view)


def decimals(pieces: List[_arrow.Piece]) -> Values:
    """decimal128 and decimal256 add up as integers: exactly, and slowly."""
    parts = pieces[0].format.split(b":")[1].split(b",")
    scale, size = int(parts[1]), int(parts[2]) // 8 if len(parts) > 2 else 16
    total = rows = 0
    for p in pieces:
        data = ctypes.string_at((p.data or 0) + p.offset * size, p.length * size) if p.length else b""
        bits = ctypes.string_at(p.valid, (p.offset + p.length + 7) // 8) if p.valid else None
        for i in range(p.length):
            at = p.offset + i
            if bits is None or bits[at // 8] >> at % 8 & 1:
                total += int.from_bytes(data[i * size:(i + 1) * size], "little", signed=True)
                rows += 1
    return Values([], [], False, scale, (total, rows))


def of_arrow(pieces: List[_arrow.Piece]) -> Values:
    if pieces and pieces[0].format.startswith(b"d:"):
        return decimals(pieces)
    blocks = []
    for p in pieces:
        type_ = _arrow.FORMATS.get(p.format)
        if not type_:
            raise TypeError(f"an Arrow column of format {p.format.decode()!r}; cast it to a number first")
        size = SIZES[type_]
        blocks.append(Block(type_, (p.data or 0) + p.offset * size, (p.length,), (size,), p.valid, p.offset, p.keep))
    return Values(blocks, [], bool(blocks) and "int" in blocks[0].type)


def exact_float(x: Any) -> float:
    value = float(x)
    if isinstance(x, int) and int(value) != x:
        raise OverflowError(f"{x} beside floats: it is not a float64; sum integers apart from floats")
    return value


def of_numbers(numbers: Iterable[Any]) -> Values:
    """Python's numbers, one by one. None is a null."""
    items = [x for x in numbers if x is not None]
    if any(isinstance(x, complex) for x in items):
        made = array.array("d", itertools.chain.from_iterable((z.real, z.imag) for z in map(complex, items)))
        return split("complex128", made.buffer_info()[0], (len(items),), (16,), made)
    whole = bool(items) and all(isinstance(x, int) and -1 << 63 <= x < 1 << 63 for x in items)
    made = array.array("q", items) if whole else array.array("d", map(exact_float, items))
    return split("int64" if whole else "float64", made.buffer_info()[0], (len(made),), (8,), made)


def with_mask(x: Any) -> Any:
    """A masked array of numpy without what it hides."""
    numpy = sys.modules["numpy"]
    return x.compressed() if isinstance(x, numpy.ma.MaskedArray) else x


def values(x: Any) -> Values:
    """Any of them. TypeError for what has no numbers."""
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(x, numpy.ndarray):
        return of_interface(with_mask(x))
    if isinstance(x, (str, bytes)):
        raise TypeError(f"values are {type(x).__name__}; they must be numbers")
    if isinstance(x, (int, float, complex)):
        return of_numbers([x])
    if isinstance(x, (list, tuple)):
        return of_numbers(x)
    if str(getattr(x, "dtype", "")).startswith("torch."):
        return of_torch(x)
    if numpy and isinstance(getattr(x, "dtype", None), numpy.dtype) and hasattr(x, "to_numpy"):
        return of_interface(x.to_numpy())  # of pandas: NaN stays NaN
    pieces = _arrow.pieces(x)
    if pieces is not None:
        return of_arrow(pieces)
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
    """A tensor on the CPU."""
    x = x.detach()
    if str(x.dtype) == "torch.bfloat16":
        import torch
        bits = x.view(torch.int16).numpy()
        interface = bits.__array_interface__
        return split("bfloat16", interface["data"][0], bits.shape, bits.strides, bits)
    return of_interface(x.numpy())
