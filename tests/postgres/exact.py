# SPDX-License-Identifier: GPL-2.0-only
"""Compute the expected results of fpisa_sum() and fpisa_avg() in rational numbers (tests/lib/rationals.py), and make values to sum."""
import math
import struct
from fractions import Fraction

from rationals import NEAREST, Format

REAL, DOUBLE = Format("fp32", 8, 23, 64), Format("fp64", 11, 52, 64)
CODES = {"fp32": (">f", ">I", 8), "fp64": (">d", ">Q", 16)}


def bits(f, value):
    """Return a float as the packed value of format f."""
    real, integer, _ = CODES[f.name]
    return struct.unpack(integer, struct.pack(real, value))[0]


def value_of(f, word):
    """Return the float of a packed value. Python's floats hold every value of either format."""
    real, integer, _ = CODES[f.name]
    return struct.unpack(real, struct.pack(integer, word))[0]


def rounded(f, values, to=None, average=False):
    """Return the packed sum or average of floats of format f, rounded to format `to`, as hexadecimal. Return None for SQL's NULL."""
    to = to or f
    if not values:
        return None
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        word = to.nan()
    elif math.inf in values or -math.inf in values:
        word = to.inf(-math.inf in values)
    else:
        quanta = sum(int(Fraction(v) / f.tiny) for v in values)
        word = to.pack(quanta * f.tiny / (len(values) if average else 1), NEAREST)[0]
    return f"{word:0{CODES[to.name][2]}x}"


def literal(value):
    """Return the text of a float that COPY and SQL read without loss. None gives NULL."""
    if value is None:
        return "\\N"
    return "NaN" if math.isnan(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, repr(value))


def adversarial(f, n, rng):
    """Return floats of format f whose sum() depends on the order: cancellation, ties, subnormals. No sum() of them overflows."""
    large = 1e30 if f is REAL else 1e290
    tiny = value_of(f, 1)
    ulp = 2.0 ** -f.mbits
    found = []
    while len(found) < n:
        kind = rng.randrange(6)
        if kind == 0:
            found += [large, 1.0, -large]
        elif kind == 1:  # half way between two neighbours, or near it
            found += [1.0, ulp / 2, rng.choice((0.0, tiny, -tiny))]
        elif kind == 2:
            found.append(value_of(f, rng.randrange(1, 1 << f.mbits) | rng.getrandbits(1) << (f.bits - 1)))
        elif kind == 3:
            x = rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 30)
            found += [x, -x] if rng.random() < 0.9 else [x]
        elif kind == 4:
            found.append(rng.choice((0.0, -0.0, 1.0, -1.0)))
        else:
            found.append(rng.uniform(0, 100))
    rng.shuffle(found)
    return [value_of(f, bits(f, x)) for x in found[:n]]
