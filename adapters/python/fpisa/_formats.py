# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Describe the types of results, and round quotients and roots once, to nearest even."""
from __future__ import annotations

import math
import struct
from typing import Any, Iterable, NamedTuple


class Format(NamedTuple):
    name: str
    number: int  # a FPISA_FORMAT_* constant
    size: int
    mantissa: int  # number of bits without the implied one
    least: int  # exponent of the smallest subnormal
    most: int  # values are below 2**most

    @property
    def special(self) -> int:
        """The value of the exponent field in infinities and NaN."""
        return (1 << 8 * self.size - 1 - self.mantissa) - 1


FORMATS = {f.name: f for f in (Format("float64", 4, 8, 52, -1074, 1024), Format("float32", 1, 4, 23, -149, 128),
                               Format("float16", 2, 2, 10, -24, 16), Format("bfloat16", 3, 2, 7, -133, 128))}


def format_of(dtype: Any) -> Format:
    """Return the format for a name, a numpy dtype or a Python type."""
    name = "float64" if dtype is None or dtype is float else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or \
        str(dtype)
    name = {"f8": "float64", "f4": "float32", "f2": "float16", "double": "float64"}.get(name, name.replace("torch.", ""))
    if name not in FORMATS:
        raise TypeError(f"dtype is {dtype!r}; it must be one of {', '.join(FORMATS)}")
    return FORMATS[name]


def number(bits: int, f: Format) -> float:
    """Return the value of packed bits. Do not use the FPU, for the reason that float64() gives."""
    if f.name == "float64":
        return struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    negative, field, q = bits >> 8 * f.size - 1, bits >> f.mantissa & f.special, bits & (1 << f.mantissa) - 1
    if field == f.special:
        return math.nan if q else -math.inf if negative else math.inf
    if field or q:
        return float64(bool(negative), q + (bool(field) << f.mantissa), max(field, 1) - 1 + f.least)
    return -0.0 if negative else 0.0


def float64(negative: bool, q: int, e: int) -> float:
    """Return q * 2**e as a float64. Build its bits with integers, because ldexp() returns zero for a subnormal result if the
    thread flushes subnormals to zero.
    """
    up = min(53 - q.bit_length(), e + 1074)
    q, e = q << up if up >= 0 else q >> -up, e - up
    return struct.unpack("<d", struct.pack("<Q", (negative << 63) + (e + 1074 << 52) + q))[0]


def round_scaled(q: int, e: int, sticky: bool, f: Format) -> float:
    """Round q * 2**e. If `sticky` is set, the exact magnitude is larger by less than one unit of q. q is exact, or has at least
    2 more bits than the mantissa of f.
    """
    sign, q = (-1, -q) if q < 0 else (1, q)
    drop = max(q.bit_length() - 1 - f.mantissa, f.least - e)
    if drop > 0:
        kept, rest = q >> drop, (q & ((1 << drop) - 1)) << 1 | sticky
        kept += rest > 1 << drop or (rest == 1 << drop and kept & 1)
        q, e = kept, e + drop
    if q and q.bit_length() + e > f.most:
        return sign * math.inf
    return float64(sign < 0, q, e) if q else 0.0  # zero is always +0 (doc/numbers.md)


def round_ratio(numerator: int, denominator: int, e: int, f: Format) -> float:
    """Round numerator / denominator * 2**e. The denominator is positive."""
    sign, numerator = (-1, -numerator) if numerator < 0 else (1, numerator)
    up = max(0, f.mantissa + 3 + denominator.bit_length() - numerator.bit_length())
    q, rest = divmod(numerator << up, denominator)
    return round_scaled(sign * q, e - up, rest != 0, f)


def round_root(n: int, denominator: int, e: int, f: Format) -> float:
    """Round the square root of n / denominator * 2**e. The denominator is positive."""
    up = max(0, 2 * f.mantissa + 10 + denominator.bit_length() - n.bit_length())
    up += (e - up) % 2
    q, rest = divmod(n << up, denominator)
    root = math.isqrt(q)
    return round_scaled(root, (e - up) // 2, rest != 0 or root * root != q, f)


def bits_of(x: float, f: Format) -> int:
    """Return the bits in format f of a number that is already rounded to f. Do not use the FPU, for the reason that float64()
    gives.
    """
    bits = int.from_bytes(struct.pack("<d", x), "little")
    sign, field, q = bits >> 63 << 8 * f.size - 1, bits >> 52 & 2047, bits & (1 << 52) - 1
    if field == 2047:
        return sign + (f.special << f.mantissa) + (bool(q) << f.mantissa - 1)
    q, e = q + (bool(field) << 52), max(field, 1) - 1075
    unit = max(q.bit_length() + e - 1 - f.mantissa, f.least)
    return sign + (unit - f.least << f.mantissa) + (q >> unit - e if unit >= e else q << e - unit)


def packed(values: Iterable[float], f: Format) -> bytearray:
    """Return the bits in format f of numbers that are already rounded to f."""
    return bytearray(b"".join(bits_of(x, f).to_bytes(f.size, "little") for x in values))
