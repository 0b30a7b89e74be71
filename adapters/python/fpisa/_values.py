# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""What can be summed, as arrays of sums.h: numpy and whatever has its interface, Arrow columns, buffers, Python's numbers."""
from __future__ import annotations

import array
import ctypes
import decimal
import itertools
import numbers
import sys
from fractions import Fraction
from typing import Any, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from . import _arrow
from ._core import SIZES, TYPES, Array

BUFFERS = {"d": "float64", "f": "float32", "e": "float16", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16",
           "i": "int32", "I": "uint32", "l": "int64", "L": "uint64", "q": "int64", "Q": "uint64", "?": "uint8",
           "Zd": "complex128", "Zf": "complex64"}
BITS = [bytes(byte >> i & 1 for i in range(8)) for byte in range(256)]
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


class Whole(NamedTuple):
    """The sum of decimals, or of integers beyond 64 bits, in units of 10**-scale."""

    total: int
    scale: int
    rows: int
    integers: bool


class Values(NamedTuple):
    """A column or an array. Complex numbers have imaginary blocks beside the real ones."""

    blocks: List[Block]
    imaginary: List[Block]
    integers: bool
    whole: Optional[Whole] = None  # there are no blocks then

    def need_blocks(self, what: str) -> None:
        if self.whole:
            raise TypeError(f"{what} is not for decimals, nor for integers beyond 64 bits; cast them to float64")


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


def with_nulls(v: Values, valid: bytes) -> Values:
    """An array in C order, with Arrow's bitmap for it."""
    memory = ctypes.create_string_buffer(valid)

    def mark(blocks: List[Block]) -> List[Block]:
        return [b._replace(valid=ctypes.addressof(memory), keep=(b.keep, memory)) for b in blocks]

    return v._replace(blocks=mark(v.blocks), imaginary=mark(v.imaginary))


def of_interface(x: Any) -> Values:
    """numpy's, CuPy's on the host, and others' __array_interface__."""
    interface = x.__array_interface__
    name = getattr(getattr(x, "dtype", None), "name", None)
    order, kind, size = interface["typestr"][0], interface["typestr"][1], interface["typestr"][2:]
    if kind == "O":
        return of_numbers(x.ravel().tolist(), x.shape)
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
    type_ = BUFFERS.get({"l": "i", "L": "I"}.get(code, code) if view.itemsize == 4 else code)
    if not type_ or view.itemsize != (2 * SIZES[HALVES[type_]] if type_ in HALVES else SIZES[type_]):
        raise TypeError(f"a buffer of format {code!r}, of {view.itemsize} bytes; it must be one of {' '.join(BUFFERS)}, little-endian")
    shape = tuple(view.shape[:view.ndim]) if view.ndim else ()
    strides = tuple(view.strides[:view.ndim]) if view.strides else strides_of(shape, view.itemsize)  # ctypes leaves them out
    return split(type_, view.buf or 0, shape, strides, view)


def decimals(column: _arrow.Column) -> Values:
    """decimal128 and decimal256 add up as integers: exactly, and slowly."""
    parts = column.format.split(b":")[1].split(b",")
    scale, size = int(parts[1]), int(parts[2]) // 8 if len(parts) > 2 else 16
    total = rows = 0
    for p in column.pieces:
        data = ctypes.string_at((p.data or 0) + p.offset * size, p.length * size) if p.length else b""
        bits = ctypes.string_at(p.valid, (p.offset + p.length + 7) // 8) if p.valid else None
        for i in range(p.length):
            at = p.offset + i
            if bits is None or bits[at // 8] >> at % 8 & 1:
                total += int.from_bytes(data[i * size:(i + 1) * size], "little", signed=True)
                rows += 1
    return Values([], [], False, Whole(total, scale, rows, False))


def of_bits(p: _arrow.Piece) -> Block:
    """Booleans, each as a byte."""
    first, end = p.offset // 8, (p.offset + p.length + 7) // 8
    data = ctypes.string_at(p.data + first, end - first) if p.data else b""
    made = ctypes.create_string_buffer(b"".join(map(BITS.__getitem__, data)))
    return Block("uint8", ctypes.addressof(made) + p.offset % 8, (p.length,), (1,), p.valid, p.offset, (p.keep, made))


def of_arrow(column: _arrow.Column) -> Values:
    if column.format.startswith(b"d:"):
        return decimals(column)
    if column.format == b"b":
        return Values([of_bits(p) for p in column.pieces], [], True)
    type_ = _arrow.FORMATS.get(column.format)
    if not type_:
        raise TypeError(f"an Arrow column of format {column.format.decode()!r}; cast it to a number first")
    size = SIZES[type_]
    return Values([Block(type_, (p.data or 0) + p.offset * size, (p.length,), (size,), p.valid, p.offset, p.keep)
                   for p in column.pieces], [], "int" in type_)


# -- Python's numbers -----------------------------------------------------------


def exact_float(x: Any) -> float:
    if isinstance(x, (str, bytes)):
        raise TypeError(f"a value is {x!r}; values must be numbers")
    value = float(x)
    if value != x and x == x:
        raise OverflowError(f"{x} is not a float64; sum integers and decimals apart from floats")
    return value


def of_floats(items: List[Any], types: Set[type]) -> array.array:
    return array.array("d", items if types <= {float} else map(exact_float, items))


def of_complex(items: List[Any]) -> array.array:
    halves = ((x.real, x.imag) if isinstance(x, numbers.Complex) else (x, 0) for x in items)
    return array.array("d", map(exact_float, itertools.chain.from_iterable(halves)))


def of_integers(items: List[Any]) -> Tuple[str, array.array]:
    """OverflowError if neither of the types has all of them."""
    for type_, code in ("int64", "q"), ("uint64", "Q"):
        try:
            return type_, array.array(code, items)
        except OverflowError:
            pass
    return "float64", array.array("d", map(exact_float, items))


def of_decimals(items: List[Any]) -> Values:
    """Decimals, with integers among them or not."""
    if not all(isinstance(x, numbers.Integral) or x.is_finite() for x in items):
        raise TypeError("a Decimal is not finite; cast the values to float64")
    scale = max(0 if isinstance(x, numbers.Integral) else -x.as_tuple().exponent for x in items)
    return Values([], [], False, Whole(int(sum(map(Fraction, items)) * Fraction(10) ** scale), scale, len(items), False))


def validity(items: List[Any]) -> bytes:
    """Arrow's bitmap: a bit for each, 0 for None."""
    digits = b"".join(b"0" if x is None else b"1" for x in reversed(items))
    return int(digits, 2).to_bytes(len(items) // 8 + 1, "little")


def of_numbers(these: Iterable[Any], shape: Optional[Tuple[int, ...]] = None) -> Values:
    """Python's numbers, one by one. None is a null."""
    items = list(these)
    there = [x for x in items if x is not None]
    types = set(map(type, there))
    integers = bool(types) and all(issubclass(t, numbers.Integral) for t in types)
    if decimal.Decimal in types and all(issubclass(t, (decimal.Decimal, numbers.Integral)) for t in types):
        return of_decimals(there)
    made_of = items if len(there) == len(items) else [0 if x is None else x for x in items]
    if any(issubclass(t, numbers.Complex) and not issubclass(t, numbers.Real) for t in types):
        type_, made = "complex128", of_complex(made_of)
    elif integers:
        try:
            type_, made = of_integers(made_of)
        except OverflowError:
            return Values([], [], True, Whole(sum(map(int, there)), 0, len(there), True))
    else:
        type_, made = "float64", of_floats(made_of, types)
    shape = (len(items),) if shape is None else shape
    v = split(type_, made.buffer_info()[0], shape, strides_of(shape, 16 if type_ == "complex128" else 8), made)._replace(integers=integers)
    return v if made_of is items else with_nulls(v, validity(items))


# -- any of them -----------------------------------------------------------------


def of_masked(numpy: Any, x: Any) -> Values:
    """A masked array of numpy: what it hides is null."""
    mask = numpy.ma.getmaskarray(x)
    if x.dtype.kind == "O":
        return of_numbers(numpy.where(mask, None, x.data).ravel().tolist(), x.shape)
    v = of_interface(numpy.asarray(x.data, order="C"))
    return with_nulls(v, numpy.packbits(~mask.ravel(), bitorder="little").tobytes()) if mask.any() else v


def values(x: Any) -> Values:
    """Any of them. TypeError for what has no numbers."""
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
        return of_interface(x.to_numpy())  # of pandas: NaN stays NaN
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
    """A tensor on the CPU."""
    x = x.detach()
    if str(x.dtype) == "torch.bfloat16":
        import torch
        bits = x.view(torch.int16).numpy()
        interface = bits.__array_interface__
        return split("bfloat16", interface["data"][0], bits.shape, bits.strides, bits)
    return of_interface(x.numpy())
