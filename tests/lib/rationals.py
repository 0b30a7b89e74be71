# SPDX-License-Identifier: GPL-2.0-only
"""The contract for numbers (doc/numbers.md) in rational numbers

In this module a register is an exponent and a rational value, so nothing is shifted. fractions_check.py compares the C oracle with this
module, and tests use it for single results.
"""
import math
from collections import namedtuple
from fractions import Fraction

FPISA, FPISA_A, FPISA64, EXACT = 1, 2, 3, 4
DOWN, NEAREST = 1, 2
SUM, MIN, MAX, AVG, SCALE, NORM = 1, 2, 3, 4, 5, 6
OVERFLOW, INEXACT, OVERWRITE, NAN, INF = 1, 2, 4, 8, 16

# A word is an integer. In mxint8 it is a block (scale, 32 elements).
Case = namedtuple("Case", "fmt mode rounding words op factor reciprocal", defaults=(SUM, 1.0, False))


def floor_log2(x):
    """Return the largest p with 2^p <= x, for a positive rational x."""
    p = x.numerator.bit_length() - x.denominator.bit_length()
    return p if x >= Fraction(2) ** p else p - 1


def step_of(x, unit, rounding):
    """Return x in units, rounded. round() takes ties to even."""
    return math.floor(x / unit) if rounding == DOWN else round(x / unit)


def root_steps(square, unit, rounding):
    """Return (the root of `square` in units, rounded; whether the root is exact)."""
    target = square / (unit * unit)
    low = math.isqrt(math.floor(target))
    if rounding == NEAREST:
        middle = Fraction(2 * low + 1, 2) ** 2
        if target > middle or (target == middle and low % 2):
            return low + 1, False
    return low, low * low == target


class Format:
    """A format in a register, with the quantities that follow from the two"""

    integer = shared = False

    def __init__(self, name, ebits, mbits, rbits, guard=0, finite=False):
        self.name, self.finite = name, finite
        self.ebits, self.mbits, self.rbits, self.guard = ebits, mbits, rbits, guard
        self.bias = 2 ** (ebits - 1) - 1
        self.top = 2**ebits - 1
        self.bits = 1 + ebits + mbits
        self.headroom = rbits - 1 - (mbits + 1) - guard
        self.tiny = Fraction(2) ** (1 - self.bias - mbits)
        self.beyond = 2 ** (self.bits - 1) - 1 if finite else self.top << mbits
        self.largest = self.value(self.beyond - 1)[2]
        self.grids = {}

    def inf(self, negative):
        return self.beyond if self.finite else negative << (self.bits - 1) | self.beyond

    def nan(self):
        return self.beyond if self.finite else self.beyond | 1 << (self.mbits - 1)

    def grid(self, op, e):
        """Return the unit of the mantissa in a register."""
        if (op, e) not in self.grids:
            power = e - self.bias - self.mbits - self.guard
            if op == NORM:
                power = e - 2 * self.bias - self.mbits + 1 - self.guard
            self.grids[op, e] = Fraction(2) ** power
        return self.grids[op, e]

    def value(self, word):
        """Return (special, exponent, value). special is "nan", "+inf", "-inf" or None."""
        sign = word >> (self.bits - 1)
        exponent = word >> self.mbits & self.top
        fraction = word & (2**self.mbits - 1)
        if word & (2 ** (self.bits - 1) - 1) >= self.beyond:
            return "nan" if fraction else ("-inf" if sign else "+inf"), 1, Fraction(0)
        significand = Fraction(fraction, 2**self.mbits) + (1 if exponent else 0)
        exponent = max(exponent, 1)
        value = significand * Fraction(2) ** (exponent - self.bias)
        return None, exponent, -value if sign else value

    def ulp_of(self, size):
        return max(Fraction(2) ** (floor_log2(size) - self.mbits), self.tiny) if size else self.tiny

    def packed(self, rounded, exact):
        """Return (word, ulp, flags) of a rounded value."""
        flags = 0 if exact else INEXACT
        if abs(rounded) > self.largest:
            return self.inf(rounded < 0), None, OVERFLOW | INEXACT | (NAN if self.finite else INF)
        return (self.word(rounded) if rounded else 0), self.ulp_of(abs(rounded)), flags

    def pack(self, value, rounding):
        """Return (word, ulp, flags) of a rational."""
        ulp = self.ulp_of(abs(value))
        rounded = step_of(value, ulp, rounding) * ulp
        return self.packed(rounded, rounded == value)

    def pack_root(self, square, rounding):
        """Return (word, ulp, flags) of the root of a rational."""
        ulp = self.tiny
        if square:
            ulp = max(ulp, Fraction(2) ** (floor_log2(square) // 2 - self.mbits))
        steps, exact = root_steps(square, ulp, rounding)
        return self.packed(steps * ulp, exact)

    def word(self, value):
        """Return a representable nonzero value, packed."""
        size = abs(value)
        p = floor_log2(size)
        if p < 1 - self.bias:
            exponent, fraction = 0, size / self.tiny
        else:
            exponent = p + self.bias
            fraction = (size / Fraction(2) ** p - 1) * 2**self.mbits
        assert fraction.denominator == 1
        return (value < 0) << (self.bits - 1) | exponent << self.mbits | int(fraction)


class Int32:
    """Signed integers. Their register has no exponent."""

    name, integer, shared, finite = "int32", True, False, False
    ebits, mbits, rbits, guard, bits = 0, 31, 32, 0, 32

    @staticmethod
    def signed(word):
        return word - 2**32 if word >> 31 else word


class MxInt8(Format):
    """Blocks of 32 elements that share a scale. The exponent, with its bias of 128, is 1 + scale."""

    shared = True

    def __init__(self, rbits, guard=0):
        super().__init__("mxint8", 8, 6, rbits, guard)
        self.bias = 128

    def lanes(self, block):
        """Return (special, exponent, value) of each element."""
        scale, elements = block
        if scale == 255:
            return [("nan", 1, Fraction(0))] * 32
        unit = Fraction(2) ** (scale - 127 - 6)
        return [(None, scale + 1 if any(elements) else 1, k * unit) for k in elements]

    @staticmethod
    def pack_block(values, rounding):
        """Return (block, flags) of 32 rationals."""
        largest = max(map(abs, values))
        least = max(0, floor_log2(largest) + 127 - 4) if largest else 0  # the largest element is then at least 2^10 units
        for scale in range(least, 255):
            unit = Fraction(2) ** (scale - 127 - 6)
            steps = [step_of(v, unit, rounding) for v in values]
            if max(map(abs, steps)) <= 127:
                exact = all(k * unit == v for k, v in zip(steps, values))
                return (scale, steps), 0 if exact else INEXACT
        return (255, [0] * 32), NAN | OVERFLOW | INEXACT


FP32 = Format("fp32", 8, 23, 32)


class Register:
    """The register of one element during a case's contributions"""

    def __init__(self, case):
        self.f, self.mode, self.op = case.fmt, case.mode, case.op
        self.rounded = self.overwritten = self.left_shifted = self.overflowed = 0
        self.sticky, self.e, self.v = set(), None, None

    def contribute(self, special, exponent, value):
        lost = False
        if special:
            self.sticky.add("+inf" if self.op == NORM and special == "-inf" else special)
        elif self.op == NORM:
            exponent *= 2
            grid = self.f.grid(NORM, exponent)
            square = value * value
            value = math.floor(square / grid) * grid
            lost = square != value
        if self.e is None:
            self.e, self.v = exponent, value
            self.rounded += lost
        elif not special:
            self.add(exponent, value, lost)

    def add(self, exponent, value, lost):
        f = self.f
        if self.mode == FPISA_A and exponent > self.e + f.headroom:
            self.overwritten += self.v != 0
            self.rounded += lost
            self.e, self.v = exponent, value
            return
        if self.mode == FPISA_A and exponent > self.e:
            self.left_shifted += 1
        elif self.mode != FPISA_A:
            self.e = max(self.e, exponent)
        grid = f.grid(self.op, self.e)
        a, b = self.v / grid, value / grid
        self.rounded += lost + (a.denominator != 1 or b.denominator != 1)
        total = math.floor(a) + math.floor(b)
        held = min(max(total, -(2 ** (f.rbits - 1))), 2 ** (f.rbits - 1) - 1)
        self.overflowed += held != total
        self.v = held * grid

    def mantissa(self):
        return int(self.v / self.f.grid(self.op, self.e))

    def specials(self):
        return ("nan" in self.sticky) + 2 * ("+inf" in self.sticky) + 4 * ("-inf" in self.sticky)

    def events(self):
        return self.rounded, self.overwritten, self.left_shifted, self.overflowed


def event_flags(events):
    rounded, overwritten, _, overflowed = events
    flags = INEXACT if rounded or overwritten or overflowed else 0
    return flags | (OVERWRITE if overwritten else 0) | (OVERFLOW if overflowed else 0)


def reciprocal(n, bits):
    """Return the value nearest to 1/n with `bits` significant bits."""
    x = Fraction(1, n)
    unit = Fraction(2) ** (floor_log2(x) - bits + 1)
    return round(x / unit) * unit


def operate(case, total):
    """Return the operation's result for the sum, before root and rounding."""
    if case.op == AVG and case.reciprocal:
        return total * reciprocal(len(case.words), 53 if case.fmt.name == "fp64" else 24)
    if case.op == AVG:
        return total / len(case.words)
    return total * Fraction(case.factor) if case.op == SCALE else total


def finish(case, sticky, total):
    """Return (result, flags) of a sum and of the specials among its contributions."""
    f = case.fmt
    if "nan" in sticky or len(sticky) == 2:
        return f.nan(), NAN
    if sticky:
        return f.inf(("-inf" in sticky) != (case.op == SCALE and case.factor < 0)), INF
    pack = f.pack_root if case.op == NORM else f.pack
    result, _, flags = pack(operate(case, total), case.rounding)
    return result, flags


def extreme(case):
    """Return the result and flags of min and max."""
    f = case.fmt
    best = min if case.op == MIN else max
    if f.integer:
        return best(case.words, key=f.signed), 0

    def key(word):
        special, _, value = f.value(word)
        return (2, 0) if special == "nan" else ({"-inf": 0, "+inf": 1.5}.get(special, 1), value)

    word = best(case.words, key=key)
    special, _, value = f.value(word)
    if special:
        return (f.nan(), NAN) if special == "nan" else (word, INF)
    return word if value else 0, 0


def integer_sum(case):
    """Return result, flags, events and register of an int32 sum."""
    total = overflowed = 0
    for word in case.words:
        exact = total + case.fmt.signed(word)
        total = min(max(exact, -(2**31)), 2**31 - 1)
        overflowed += exact != total
    return (total % 2**32, event_flags((0, 0, 0, overflowed)), 0, 0, 0, overflowed, 0, total, 0)


def element(case):
    """Run one element. Return result, flags, four event counts, and register (exponent, mantissa, specials; 0 without a register)."""
    if case.op in (MIN, MAX):
        return extreme(case) + (0,) * 7
    if case.fmt.integer:
        return integer_sum(case)
    values = [case.fmt.value(w) for w in case.words]
    if case.mode == EXACT:
        return finish(case, {s for s, _, _ in values if s}, sum(v for _, _, v in values)) + (0,) * 7
    r = Register(case)
    for value in values:
        r.contribute(*value)
    result, flags = finish(case, r.sticky, r.v)
    return (result, flags | event_flags(r.events())) + r.events() + (r.e, r.mantissa(), r.specials())


def block(case):
    """Run one block. Return result, flags, four event counts, the exponent and the lanes' mantissas. In mode exact the exponent is 0 and
    there are no mantissas."""
    lanes = list(zip(*map(case.fmt.lanes, case.words)))
    nan = any(special for special, _, _ in lanes[0])
    if case.mode == EXACT:
        events, register, totals = (0,) * 4, (0, ()), [sum(v for _, _, v in lane) for lane in lanes]
    else:
        rows = [Register(case) for _ in lanes]
        for r, lane in zip(rows, lanes):
            for value in lane:
                r.contribute(*value)
        events = tuple(map(sum, zip(*(r.events() for r in rows))))
        assert len({r.e for r in rows}) == 1
        register, totals = (rows[0].e, tuple(r.mantissa() for r in rows)), [r.v for r in rows]
    if nan:
        result, flags = (255, [0] * 32), NAN
    else:
        result, flags = case.fmt.pack_block([operate(case, t) for t in totals], case.rounding)
    return (result, flags | event_flags(events)) + events + register
