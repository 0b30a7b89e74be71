# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Load libfpisa.so.1 with ctypes. Declare the structs and functions of fpisa.h, and names for its constants."""
from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Optional, Tuple

from ._errors import LibraryMissing, error_of, ranks_of
from ._scalars import plain

FOREVER = 0xFFFFFFFF

OPERATIONS = {"sum": 1, "min": 2, "max": 3, "avg": 4, "scale": 5, "norm": 6}
MODES = {"default": 0, "fpisa": 1, "fpisa-a": 2, "fpisa64": 3, "exact": 4}
ROUNDINGS = {"default": 0, "down": 1, "nearest": 2}
FANOUTS = {"default": 0, "multicast": 1, "unicast": 2}
PIPELINES = {"default": 0, "staged": 1, "fused": 2}
OVERFLOWS = {"default": 0, "error": 1, "flag": 2}
TRANSPORTS = {"udp": 0, "xsk": 1}
TYPES = {"float32": 1, "float16": 2, "bfloat16": 3, "float64": 4, "e4m3": 5, "e5m2": 6, "int32": 7}


class Sized(ctypes.Structure):
    """A struct whose first member is the size of the struct."""

    def __init__(self, **values: object) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **values)


class Options(Sized):
    _fields_ = [("size", c_size_t), ("local_port", c_uint16), ("token", c_uint64), ("timeout_ms", c_uint32),
                ("loss", c_double), ("seed", c_uint64), ("on_chunk", c_void_p), ("arg", c_void_p),
                ("overflow", c_uint32), ("duplicate", c_double), ("reorder", c_double), ("delay", c_double),
                ("corrupt", c_double), ("transport", c_uint32), ("restore", c_uint64), ("progress", c_uint64), ("all_ranks", c_uint64)]


class InfoStruct(Sized):
    _fields_ = [("size", c_size_t),
                *((n, c_uint32) for n in "job rank workers elements window generation".split()),
                *((n, c_uint8) for n in "mode rounding format pipeline clz fanout big_endian".split()),
                *((n, c_uint64) for n in "sent received retransmits duplicates bad rtt_ns marked".split())]


class Call(Sized):
    _fields_ = [("size", c_size_t), ("send", c_void_p), ("recv", c_void_p), ("count", c_size_t), ("type", c_uint32),
                ("op", c_uint32), ("factor", c_double), ("tag", c_uint64), ("on_done", c_void_p), ("arg", c_void_p),
                ("ranks", c_void_p), ("timeout_ms", c_uint64)]


class GroupOptions(Sized):
    _fields_ = [("size", c_size_t), ("key_file", c_char_p), ("join_timeout_ms", c_uint32), ("timeout_ms", c_uint32),
                ("window", c_uint32), ("elements", c_uint16), ("mode", c_uint8), ("pipeline", c_uint8),
                ("overflow", c_uint32), ("transport", c_uint32), ("restore", c_uint64), ("rounding", c_uint8),
                ("fanout", c_uint8), ("share", c_uint8)]


class MemOptions(Sized):
    _fields_ = [("size", c_size_t), ("workers", c_uint32), ("elements", c_uint32), ("window", c_uint32),
                *((n, c_uint8) for n in "mode rounding pipeline format flags".split())]


FUNCTIONS = {
    "fpisa_connect": (c_int, c_void_p, c_char_p, c_uint32, POINTER(Options)),
    "fpisa_start": (c_int, c_void_p, POINTER(Call), c_void_p),
    "fpisa_test": (c_int, c_void_p, c_void_p, c_void_p),
    "fpisa_eventfd": (c_int, c_void_p),
    "fpisa_rejoin": (c_int, c_void_p),
    "fpisa_missing": (c_uint64, c_void_p),
    "fpisa_get_info": (c_int, c_void_p, POINTER(InfoStruct)),
    "fpisa_close": (None, c_void_p),
    "fpisa_group_join": (c_int, c_void_p, c_char_p, c_char_p, c_uint32, c_uint32, POINTER(GroupOptions)),
    "fpisa_group_start": (c_int, c_void_p, POINTER(Call), c_void_p),
    "fpisa_group_barrier_start": (c_int, c_void_p, c_void_p),
    "fpisa_group_broadcast_start": (c_int, c_void_p, c_void_p, c_size_t, c_uint32, c_void_p),
    "fpisa_group_eventfd": (c_int, c_void_p),
    "fpisa_group_missing_ranks": (c_uint32, c_void_p, c_void_p, c_uint32),
    "fpisa_group_leave": (None, c_void_p),
    "fpisa_error": (c_char_p,),
    "fpisa_mem_create": (c_int, c_void_p, POINTER(MemOptions)),
    "fpisa_mem_connect": (c_int, c_void_p, c_void_p, c_uint32, POINTER(Options)),
    "fpisa_mem_destroy": (None, c_void_p),
}


def load(soname: str, variable: str, functions: Dict[str, Any], package: str, since: str) -> ctypes.CDLL:
    """Return the library that the environment variable names, or the library of the wheel, or the system's library. Calls into
    the library release the interpreter's lock.
    """
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), soname)
    path = os.environ.get(variable) or (inside if os.path.exists(inside) else soname)
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        raise LibraryMissing(f"{e}; install the package {package}, or set {variable} to the path of the library") from None
    for name, (result, *arguments) in functions.items():
        try:
            function = getattr(lib, name)
        except AttributeError:
            raise LibraryMissing(f"{path} has no {name}(): the library is older than {since}; install version {since} or later") from None
        function.restype, function.argtypes = result, arguments
    return lib


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    return load("libfpisa.so.1", "FPISA_LIBRARY", FUNCTIONS, "libfpisa1", "0.3.0")


def check(rc: int) -> None:
    """Raise the exception for a return code of the library, with this thread's last error message."""
    if rc:
        raise error_of(rc, library().fpisa_error().decode(errors="replace"), ())


def check_join(rc: int) -> None:
    """Raise the exception for a return code of a function that joins, with the missing ranks."""
    if rc:
        raise error_of(rc, library().fpisa_error().decode(errors="replace"), group_missing(None))


def missing(handle: Any) -> Tuple[int, ...]:
    """Return the ranks that the last error of a handle names."""
    return ranks_of(library().fpisa_missing(handle))


def group_missing(group: Any) -> Tuple[int, ...]:
    """Return the ranks that the last error of a group names. None stands for this thread's last attempt to join or connect."""
    n = library().fpisa_group_missing_ranks(group, None, 0)
    ranks = (c_uint32 * n)()
    library().fpisa_group_missing_ranks(group, ranks, n)
    return tuple(ranks)


def number_of(names: Dict[str, int], name: str, what: str) -> int:
    """Return the number of a name. Raise ValueError for an unknown name."""
    try:
        return names[name]
    except (KeyError, TypeError):
        raise ValueError(f"{what} is {name!r}; it must be one of {', '.join(names)}") from None


def name_of(names: Dict[str, int], number: int) -> str:
    return next((name for name, n in names.items() if n == number), str(number))


def real(value: Any, what: str) -> float:
    """Return a number as a float, as ctypes would convert it. Raise ValueError if a float cannot represent the number."""
    value = plain(value)
    if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{what} is {value!r}; it must be a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is beyond the range of a float") from None


def text(value: Optional[str], what: str) -> Optional[bytes]:
    """Return a name as bytes, or None for None. Raise ValueError for a zero byte, because the library would stop at that byte."""
    if value is None:
        return None
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{what} is {value!r}; it must be a str")
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError(f"{what} is {value!r}; it must not contain a zero byte")
    return encoded


def milliseconds(seconds: Optional[float], what: str, none: int) -> int:
    """Convert a deadline from seconds to milliseconds. Return `none` if there is no deadline."""
    if seconds is None:
        return none
    seconds = real(seconds, what)
    if not 0 < seconds < FOREVER / 1000:
        raise ValueError(f"{what} is {seconds!r}; it must be a positive number of seconds below {FOREVER / 1000:.0f}, or None")
    return max(1, round(seconds * 1000))


def in_range(value: int, bits: int, what: str) -> int:
    """Return the value if it fits into `bits` bits. Raise ValueError otherwise, because ctypes would drop the upper bits."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is {value!r}; it must be a whole number")
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{what} is {value}; it must be in 0..{(1 << bits) - 1}")
    return int(value)
