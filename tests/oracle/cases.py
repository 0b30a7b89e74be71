# SPDX-License-Identifier: GPL-2.0-only
"""Random cases for fractions_check.py, chosen near the points where results change"""
import math

from rationals import (AVG, DOWN, EXACT, FP32, FPISA, FPISA64, FPISA_A, MAX, MIN, NEAREST, NORM, SCALE, SUM,
                       Case, Format, Int32, MxInt8)


def spare(mbits, workers):
    """Return the guard bits of fpisa64."""
    return 64 - 1 - (mbits + 1) - math.ceil(math.log2(workers))


NARROW = {"fp16": (5, 10), "bf16": (8, 7), "e4m3": (4, 3), "e5m2": (5, 2)}

FORMATS = (
    [FP32] * 6
    + [Format("fp32", 8, 23, 64, g) for g in (0, 7, spare(23, 8))]
    + [Format("fp32", 8, 23, 32, g) for g in (1, 4)]
    + [Format(n, e, m, 32, finite=n == "e4m3") for n, (e, m) in NARROW.items()] * 2
    + [Format(n, e, m, 32, 13, n == "e4m3") for n, (e, m) in NARROW.items()]
    + [Format(n, e, m, 64, spare(m, w), n == "e4m3") for n, (e, m) in NARROW.items() for w in (1, 64)]
    + [Format("fp64", 11, 52, 64, g) for g in (0, 0, 3, 6, spare(52, 2))]
    + [Int32()] * 2
)
BLOCKS = [MxInt8(32)] * 2 + [MxInt8(64, spare(6, w)) for w in (1, 8)] + [MxInt8(32, 5)]

KINDS = "near near align align headroom saturate top subnormal uniform special edge few".split()


def random_word(rng, f, kind, middle):
    sign = rng.getrandbits(1)
    fraction = rng.choice(
        (rng.getrandbits(f.mbits), 0, 1, 2**f.mbits - 1, 2 ** (f.mbits - 1), 1 << rng.randrange(f.mbits))
    )
    exponent = middle + rng.randint(-2, 2)
    if kind == "align":
        exponent = middle + rng.randint(-f.rbits - 3, f.rbits + 3)
    elif kind == "headroom":
        exponent = middle + rng.randint(0, f.headroom + 2)
    elif kind == "saturate":
        sign, exponent = middle & 1, middle
        fraction = 2**f.mbits - 1 - rng.randrange(2)
    elif kind == "top":
        sign, exponent = middle & 1, f.top - rng.randrange(2) - (not f.finite)
    elif kind == "subnormal":
        exponent = rng.choice((0, 0, 0, 1, 2))
    elif kind == "uniform" or (kind == "special" and rng.randrange(3)):
        return rng.getrandbits(f.bits)
    elif kind == "special":
        exponent, fraction = rng.choice((0, 1, f.top, f.top)), rng.choice((0, 0, fraction, 2**f.mbits - 1))
        return sign << (f.bits - 1) | exponent << f.mbits | fraction
    elif kind == "few":
        fraction >>= max(0, f.mbits - 3)
        fraction <<= max(0, f.mbits - 3)
    exponent = min(max(exponent, 0), f.top - (not f.finite))
    return sign << (f.bits - 1) | exponent << f.mbits | fraction


def edge_words(rng, f):
    """Return x - x, then numbers that fpisa-a shifts by its whole headroom. Each number is 2^(R-2), and their sum reaches both ends of the
    register exactly."""
    low = rng.randint(1, max(1, f.top - 1 - f.headroom))
    high = min(low + f.headroom, f.top - 1)
    sign = rng.getrandbits(1) << (f.bits - 1)
    return [low << f.mbits, low << f.mbits | 1 << (f.bits - 1)] + [sign | high << f.mbits] * rng.randint(1, 4)


def pythagorean_words(rng, f):
    """Return values whose squares add up to a square, sometimes with an additional tiny value."""
    pair = rng.choice(((3, 4), (6, 8), (5, 12), (1, 0), (2, 2), (7, 0)))
    exponent = f.bias + rng.randint(-min(40, f.bias - 1), min(40, f.bias - 5))
    unit = f.tiny * 2 ** (f.mbits + exponent - 1)
    words = [f.word(n * unit) for n in pair * rng.choice((1, 1, 4)) if 0 < n < 2 ** (f.mbits + 1)]
    return words + [rng.randrange(3)] * rng.choice((0, 0, 1)) or [0]


def float_words(rng, f, op):
    kind = rng.choice(KINDS)
    if op == NORM and rng.randrange(4) == 0:
        return pythagorean_words(rng, f)
    if op in (MIN, MAX) and rng.randrange(6) == 0:  # all NaN, because min is NaN only then, or all infinite
        special = rng.choice((f.nan(), f.inf(0)))
        return [special | rng.getrandbits(1) << (f.bits - 1) for _ in range(rng.randint(1, 3))]
    if kind == "edge":
        return edge_words(rng, f)
    middle = rng.randrange(f.top)
    words = [random_word(rng, f, kind, middle) for _ in range(rng.randint(1, rng.choice((3, 9, 16))))]
    if kind == "saturate":
        words *= rng.choice((1, 1, 2 ** min(f.headroom, 7) // 8 + 1))
    elif op != NORM and rng.randrange(4) == 0:  # cancel the earlier values
        words += [w ^ 1 << (f.bits - 1) for w in words[: rng.randint(1, 16)]]
        words = words[-16:]
    return words


def integer_words(rng):
    ends = (0, 1, 2**31 - 1, 2**31, 2**32 - 1)
    wide = rng.choice((4, 20, 30, 32))
    return [
        rng.choice((rng.getrandbits(wide), -rng.getrandbits(wide) % 2**32, rng.choice(ends)))
        for _ in range(rng.randint(1, 9))
    ]


def random_block(rng, kind, middle):
    scale = middle + rng.randint(-2, 2)
    if kind == "align":
        scale = middle + rng.randint(-35, 35)
    elif kind == "headroom":
        scale = middle + rng.randint(0, 26)
    elif kind == "same":
        scale = middle
    scale = min(max(scale, 0), 254)
    if rng.randrange(30) == 0:
        scale = 255
    if rng.randrange(20) == 0:
        return scale, [0] * 32
    low, high = rng.choice(((-128, 127), (-128, 127), (-3, 3), (0, 127), (-128, 0), (120, 127), (-128, -120)))
    density = rng.choice((1, 1, 0.1))
    return scale, [rng.randint(low, high) if rng.random() < density else 0 for _ in range(32)]


def blocks(rng):
    kind = rng.choice(("near", "same", "align", "headroom"))
    middle = rng.choice((rng.randrange(255), rng.randrange(255), 0, 254))
    words = [random_block(rng, kind, middle) for _ in range(rng.randint(1, 9))]
    if rng.randrange(6) == 0:
        words += [(scale, [max(-127, min(-k, 127)) for k in elements]) for scale, elements in words[:4]]
    return words


def random_factor(rng, f):
    """Return a factor of at most 24 significant bits, or 53 for fp64. The factor lies between 1 and far beyond both ends of the format."""
    most = 53 if f.name == "fp64" else 24
    digits = rng.choice((1, 2, 3, most, most))
    mantissa = rng.choice((1, 3, 2**digits - 1, 2 ** (digits - 1) + 1, rng.getrandbits(digits) or 1))
    power = rng.choice(
        (0, 1, -1, rng.randint(-9, 9), rng.randint(-f.bias, f.bias), rng.randint(-1050, 970), -1074, 1023)
    )
    power = max(-1074, min(power - mantissa.bit_length() + 1, 1023 - mantissa.bit_length()))
    return rng.choice((1, 1, -1)) * math.ldexp(mantissa, power)


def random_exact(rng, name):
    """Return a case of mode exact, in a format other than int32 and mxint8."""
    f = rng.choice([f for f in FORMATS if f.name == name])
    op = rng.choice((SUM, SUM, SUM, AVG, SCALE))
    words = [w for _ in range(rng.choice((1, 1, 1, 4))) for w in float_words(rng, f, op)][:64]
    return Case(f, EXACT, rng.choice((DOWN, NEAREST)), words, op, random_factor(rng, f) if op == SCALE else 1.0,
                op == AVG and rng.randrange(3) == 0)


def random_case(rng):
    shared = rng.randrange(25) == 0
    f = rng.choice(BLOCKS if shared else FORMATS)
    modes = (FPISA, FPISA, FPISA_A, FPISA_A, FPISA64, EXACT)
    ops = (SUM, AVG, SCALE) if shared else (SUM, SUM, SUM, AVG, AVG, SCALE, SCALE, NORM, MIN, MAX)
    if f.integer:
        modes, ops = (FPISA, FPISA_A), (SUM, SUM, MIN, MAX)
    op, mode = rng.choice(ops), rng.choice(modes)
    if mode == EXACT and op == NORM:
        mode = FPISA64
    words = blocks(rng) if shared else integer_words(rng) if f.integer else float_words(rng, f, op)
    factor = random_factor(rng, f) if op == SCALE else 1.0
    return Case(f, mode, rng.choice((DOWN, NEAREST)), words, op, factor, op == AVG and rng.randrange(3) == 0)
