#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The numbers contract a third time, in rational numbers, against the C oracle.

A register here is an exponent and a rational value; nothing is shifted. The
driver (driver.c, the C oracle as a filter) must agree on every result, flag,
event, register, correctly rounded sum and error. Exit status 1 if it does not.

usage: fractions_check.py DRIVER|BUILD [--cases N] [--seed S]
Given a build directory, builds the driver there first.
"""
import argparse
import math
import os
import random
import subprocess
import sys
import time
from collections import namedtuple
from fractions import Fraction

FPISA, FPISA_A = 1, 2
DOWN, NEAREST = 1, 2
OVERFLOW, INEXACT, OVERWRITE, NAN, INF = 1, 2, 4, 8, 16

Case = namedtuple("Case", "fmt mode rounding words")


class Format:
    """A format, and what follows from it."""

    def __init__(self, name, ebits, mbits, rbits, guard=0):
        self.name = name
        self.ebits, self.mbits, self.rbits, self.guard = ebits, mbits, rbits, guard
        self.bias = 2 ** (ebits - 1) - 1
        self.top = 2**ebits - 1
        self.bits = 1 + ebits + mbits
        self.headroom = rbits - 1 - (mbits + 1) - guard
        self.tiny = Fraction(2) ** (1 - self.bias - mbits)
        self.grids = [Fraction(2) ** (e - self.bias - mbits - guard) for e in range(self.top)]

    def inf(self, negative):
        return negative << (self.bits - 1) | self.top << self.mbits

    def nan(self):
        return self.inf(0) | 1 << (self.mbits - 1)

    def value(self, word):
        """(special, exponent, value): special is "nan", "+inf", "-inf" or None."""
        sign = word >> (self.bits - 1)
        exponent = word >> self.mbits & self.top
        fraction = word & (2**self.mbits - 1)
        if exponent == self.top:
            return "nan" if fraction else ("-inf" if sign else "+inf"), 1, Fraction(0)
        significand = Fraction(fraction, 2**self.mbits) + (1 if exponent else 0)
        exponent = max(exponent, 1)
        value = significand * Fraction(2) ** (exponent - self.bias)
        return None, exponent, -value if sign else value

    def pack(self, value, rounding):
        """(word, ulp, flags) of a rational."""
        size = abs(value)
        ulp = self.tiny
        if size >= 2 * self.tiny * 2**self.mbits:
            # 2^p <= size < 2^(p+1), found from the lengths of its two integers
            p = size.numerator.bit_length() - size.denominator.bit_length()
            if size < Fraction(2) ** p:
                p -= 1
            ulp = Fraction(2) ** (p - self.mbits)
        steps = math.floor(value / ulp) if rounding == DOWN else round(value / ulp)
        rounded = steps * ulp
        flags = 0 if rounded == value else INEXACT
        if rounded == 0:
            return 0, self.tiny, flags
        if abs(rounded) >= Fraction(2) ** (self.top - self.bias):
            return self.inf(rounded < 0), None, OVERFLOW | INEXACT | INF
        return self.word(rounded), self.ulp_of(abs(rounded)), flags

    def ulp_of(self, size):
        p = max(self.floor_log2(size), 1 - self.bias)
        return Fraction(2) ** (p - self.mbits)

    @staticmethod
    def floor_log2(size):
        if size.denominator == 1:
            return size.numerator.bit_length() - 1
        return size.numerator.bit_length() - size.denominator.bit_length()  # the denominator is a power of 2

    def word(self, value):
        """A representable nonzero value, packed."""
        size = abs(value)
        p = self.floor_log2(size)
        if p < 1 - self.bias:
            exponent, fraction = 0, size / self.tiny
        else:
            exponent = p + self.bias
            fraction = (size / Fraction(2) ** p - 1) * 2**self.mbits
        assert fraction.denominator == 1
        return (value < 0) << (self.bits - 1) | exponent << self.mbits | int(fraction)


FORMATS = (
    [Format("fp32", 8, 23, 32)] * 6
    + [Format("fp32 in 64 bits", 8, 23, 64, g) for g in (0, 7, 36)]
    + [Format("fp32 with guard bits", 8, 23, 32, g) for g in (1, 4)]
    + [Format("fp16", 5, 10, 32), Format("fp16 with guard bits", 5, 10, 32, 13)]
    + [Format("bf16", 8, 7, 32), Format("bf16 with guard bits", 8, 7, 32, 16)]
    + [Format("fp64", 11, 52, 64, g) for g in (0, 3, 6)]
)


def register_sum(case):
    """Run one chain: result, flags, events, register."""
    f, mode = case.fmt, case.mode
    rounded = overwritten = left_shifted = overflowed = 0
    sticky, e, v = set(), None, None
    for word in case.words:
        special, exponent, value = f.value(word)
        if special:
            sticky.add(special)
        if e is None:
            e, v = exponent, value
            continue
        if special:
            continue
        if mode == FPISA_A and exponent > e + f.headroom:
            overwritten += v != 0
            e, v = exponent, value
            continue
        if mode == FPISA_A and exponent > e:
            left_shifted += 1
        elif mode == FPISA:
            e = max(e, exponent)
        grid = f.grids[e]
        a, b = v / grid, value / grid
        rounded += a.denominator != 1 or b.denominator != 1
        total = math.floor(a) + math.floor(b)
        held = min(max(total, -(2 ** (f.rbits - 1))), 2 ** (f.rbits - 1) - 1)
        overflowed += held != total
        v = held * grid
    flags = INEXACT if rounded or overwritten or overflowed else 0
    flags |= (OVERWRITE if overwritten else 0) | (OVERFLOW if overflowed else 0)
    if "nan" in sticky or len(sticky) == 2:
        result, more = f.nan(), NAN
    elif sticky:
        result, more = f.inf("-inf" in sticky), INF
    else:
        result, _, more = f.pack(v, case.rounding)
    specials = ("nan" in sticky) + 2 * ("+inf" in sticky) + 4 * ("-inf" in sticky)
    events = rounded, overwritten, left_shifted, overflowed
    return (result, flags | more) + events + (e, int(v / f.grids[e]), specials)


def exact_sum(case, result):
    """The correctly rounded sum, and the result's error in its ulps and absolutely."""
    f = case.fmt
    values = [f.value(w) for w in case.words]
    sticky = {s for s, _, _ in values if s}
    total = sum((v for _, _, v in values), Fraction(0))
    if "nan" in sticky or len(sticky) == 2:
        nearest, ulp = f.nan(), None
    elif sticky:
        nearest, ulp = f.inf("-inf" in sticky), None
    else:
        nearest, ulp, _ = f.pack(total, NEAREST)
    special, _, value = f.value(result)
    if special or ulp is None:
        error = 0.0 if result == nearest else math.inf
        return nearest, error, error
    difference = abs(value - total)
    return nearest, real(difference / ulp), real(difference)


def real(x):
    try:
        return float(x)
    except OverflowError:
        return math.inf


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
        sign, exponent = middle & 1, f.top - 1 - rng.randrange(2)
    elif kind == "subnormal":
        exponent = rng.choice((0, 0, 0, 1, 2))
    elif kind == "uniform" or (kind == "special" and rng.randrange(3)):
        return rng.getrandbits(f.bits)
    elif kind == "special":
        exponent, fraction = rng.choice((0, 1, f.top, f.top)), rng.choice((0, 0, fraction))
        return sign << (f.bits - 1) | exponent << f.mbits | fraction
    exponent = min(max(exponent, 0), f.top - 1)
    return sign << (f.bits - 1) | exponent << f.mbits | fraction


KINDS = "near near align align headroom saturate top subnormal uniform special edge".split()


def edge_words(rng, f):
    """x - x, then numbers that fpisa-a shifts by all of its headroom: 2^(R-2) each, to both ends exactly."""
    low = rng.randint(1, max(1, f.top - 1 - f.headroom))
    high = min(low + f.headroom, f.top - 1)
    sign = rng.getrandbits(1) << (f.bits - 1)
    return [low << f.mbits, low << f.mbits | 1 << (f.bits - 1)] + [sign | high << f.mbits] * rng.randint(1, 4)


def random_case(rng):
    f = rng.choice(FORMATS)
    kind = rng.choice(KINDS)
    if kind == "edge":
        return Case(f, rng.choice((FPISA, FPISA_A)), rng.choice((DOWN, NEAREST)), edge_words(rng, f))
    middle = rng.randrange(f.top)
    words = [random_word(rng, f, kind, middle) for _ in range(rng.randint(1, 16))]
    if kind == "saturate":
        words *= rng.choice((1, 1, 2 ** min(f.headroom, 7) // 8 + 1))
    elif rng.randrange(4) == 0:  # cancel what is there
        words += [w ^ 1 << (f.bits - 1) for w in words[: rng.randint(1, 16)]]
        words = words[-16:]
    return Case(f, rng.choice((FPISA, FPISA_A)), rng.choice((DOWN, NEAREST)), words)


def line_of(c):
    f = c.fmt
    head = (f.ebits, f.mbits, f.rbits, f.guard, c.mode, c.rounding, len(c.words))
    return " ".join(map(str, head)) + " " + " ".join("%x" % w for w in c.words) + "\n"


def near(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-14, abs_tol=1e-320)


def agree(case, answer):
    """Whether the driver's line says what the rationals say; what they say."""
    got = answer.split()
    mine = register_sum(case)
    theirs = (int(got[0], 16), int(got[1], 16)) + tuple(int(x) for x in got[2:9])
    nearest, ulps, absolute = exact_sum(case, mine[0])
    errors = near(ulps, float(got[10])) and near(absolute, float(got[11]))
    return mine == theirs and nearest == int(got[9], 16) and errors, mine + (nearest, ulps, absolute)


def build_driver(folder):
    """Build the driver under the sanitizers; its path."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    driver = os.path.join(os.path.abspath(folder), "tests", "oracle", "driver")
    os.makedirs(os.path.dirname(driver), exist_ok=True)
    argv = [os.environ.get("CC", "gcc"), "-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"]
    argv += ["-fno-sanitize-recover=all", "-Iinclude", "-Iuser", "tests/oracle/driver.c", "user/oracle.c"]
    subprocess.run(argv + ["-lgmp", "-lm", "-o", driver], cwd=top, check=True)
    return driver


def main():
    p = argparse.ArgumentParser(description="check the C oracle against rational arithmetic")
    p.add_argument("driver", help="tests/oracle/driver.c, built, or a build directory")
    p.add_argument("--cases", type=int, default=100000)
    p.add_argument("--seed", type=int, default=int(os.environ.get("FPISA_SEED") or time.time_ns()))
    args = p.parse_args()
    driver = build_driver(args.driver) if os.path.isdir(args.driver) else os.path.abspath(args.driver)
    print("fractions_check: FPISA_SEED=%d" % args.seed, flush=True)
    rng = random.Random(args.seed)
    cases = [random_case(rng) for _ in range(args.cases)]
    lines = "".join(map(line_of, cases))
    answers = subprocess.run([driver], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    answers = answers.stdout.splitlines()
    if len(answers) != len(cases):
        print("fractions_check: %d answers for %d cases" % (len(answers), len(cases)))
        return 1
    bad = raised = events = 0
    for case, answer in zip(cases, answers):
        ok, mine = agree(case, answer)
        raised |= mine[1]
        events |= sum((mine[2 + i] > 0) << i for i in range(4))
        if not ok:
            bad += 1
            if bad <= 10:
                print("%s: %s  rationals %s\n  oracle %s" % (case.fmt.name, line_of(case), mine, answer))
    if raised != 31 or events != 15:
        print("fractions_check: these cases raise flags 0x%x and events 0x%x only" % (raised, events))
        bad += 1
    print("fractions_check: %d cases, %d differ" % (len(cases), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
