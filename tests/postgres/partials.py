# SPDX-License-Identifier: GPL-2.0-only
"""Partials written only from doc/partial.md, in rational numbers. The module writes and reads their bytes, and makes expansions."""
import math
import struct
from fractions import Fraction

from exact import CODES, value_of
from rationals import NEAREST

HEAD, COUNTS = struct.Struct("<2sBBhHQ"), struct.Struct("<3Q")


def write(values):
    """Return the bytes of these floats."""
    special = [sum(map(math.isnan, values)), values.count(math.inf), values.count(-math.inf)]
    total = sum((Fraction(v) for v in values if math.isfinite(v)), Fraction(0))
    magnitude, exponent = abs(total.numerator), 1 - total.denominator.bit_length()
    while magnitude and not magnitude % 2:
        magnitude, exponent = magnitude // 2, exponent + 1
    flags = (total < 0) | any(special) << 1
    return HEAD.pack(b"FS", 1, flags, exponent if magnitude else 0, 0, len(values)) + \
        (COUNTS.pack(*special) if any(special) else b"") + magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "little")


def read(data):
    """Return (rows, counts of specials, sum of the other values) of the bytes of a partial of binary64. Return None if the bytes are not a
    partial."""
    if len(data) < HEAD.size:
        return None
    magic, version, flags, exponent, zero, rows = HEAD.unpack_from(data)
    special, rest = (0, 0, 0), data[HEAD.size:]
    if magic != b"FS" or version != 1 or flags > 3 or zero or rows >> 63:
        return None
    if flags & 2:
        if len(rest) < COUNTS.size:
            return None
        special, rest = COUNTS.unpack_from(rest), rest[COUNTS.size:]
    total = int.from_bytes(rest, "little") * Fraction(2) ** exponent
    if len(rest) > 272 or sum(special) > rows or (total * 2**1074).denominator != 1:
        return None
    if total >= (rows - sum(special)) * Fraction(2) ** 1024 and (total or rows < sum(special)):
        return None
    return rows, special, -total if flags & 1 else total


def expansion(f, values):
    """Return the terms of finite floats of format f, or None beyond the range of f."""
    left, terms = sum(map(Fraction, values), Fraction(0)), []
    while left or not terms:
        word = f.pack(left, NEAREST)[0]
        if word & ~(1 << (f.bits - 1)) >= f.beyond:
            return None
        terms.append(value_of(f, word))
        left -= Fraction(terms[-1])
    return terms


def hexadecimal(f, value):
    """Return the value in the form of float4send() or float8send()."""
    return struct.pack(CODES[f.name][0], value).hex()
