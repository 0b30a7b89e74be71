#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check the contract for numbers a third time, in rational numbers, against the C oracle.

rationals.py holds the contract, cases.py the cases. The driver (driver.c, the C oracle as a filter) must agree on every result, flag,
event, register, correctly rounded sum and error. Otherwise the exit status is 1.

usage: fractions_check.py DRIVER|BUILD [--cases N] [--seed S] [--exact FORMAT]

Given a build directory, build the driver there first. --exact: cases of mode exact in one format, as fp64.
"""
import argparse
import glob
import math
import os
import random
import subprocess
import sys
import time
from collections import defaultdict

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import rationals  # noqa: E402
from cases import random_case, random_exact  # noqa: E402
from rationals import (AVG, INEXACT, INF, MAX, MIN, NAN, NEAREST, NORM, OVERFLOW, OVERWRITE,  # noqa: E402
                       SCALE, SUM)

OPS = {SUM: "sum", MIN: "min", MAX: "max", AVG: "avg", SCALE: "scale", NORM: "norm"}
TURNS = 5
AT_ONCE = 100000
FLOATS = ("fp32", "fp16", "bf16", "fp64", "e4m3", "e5m2")


def wanted_flags(name, op):
    """Return the flags that the cases of a format and an operation must raise together. Without one of these flags the cases would test too
    little."""
    infinite = 0 if name in ("e4m3", "mxint8") else INF
    if name == "int32":
        return OVERFLOW | INEXACT if op == SUM else 0
    return NAN | infinite if op in (MIN, MAX) else OVERFLOW | INEXACT | OVERWRITE | NAN | infinite


WANTED = {(name, op): wanted_flags(name, op) for name in FLOATS for op in OPS}
WANTED.update({("int32", op): wanted_flags("int32", op) for op in (SUM, MIN, MAX)})
WANTED.update({("mxint8", op): wanted_flags("mxint8", op) for op in (SUM, AVG, SCALE)})


def exact_sum(case, result):
    """Return the correctly rounded sum, and the error of the result in the result's ulps and in absolute terms."""
    f = case.fmt
    values = [f.value(w) for w in case.words]
    sticky = {s for s, _, _ in values if s}
    total = sum(v for _, _, v in values)
    if sticky:
        nearest, ulp = rationals.finish(case._replace(op=SUM), sticky, total)[0], None
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
        # The oracle truncates bits where a float rounds, so a value just below 2^1024 becomes the largest float.
        return sys.float_info.max if x < 1 << 1024 else math.inf


def hex_of(f, word):
    if f.shared:
        return bytes([word[0]] + [k & 255 for k in word[1]]).hex()
    return "%x" % word


def line_of(c):
    f = c.fmt
    head = (f.ebits, f.mbits, f.rbits, f.guard, int(f.finite), int(f.integer), int(f.shared))
    head += (c.mode, c.rounding, c.op, float(c.factor).hex(), int(c.reciprocal), len(c.words))
    return " ".join(map(str, head)) + " " + " ".join(hex_of(f, w) for w in c.words) + "\n"


def near(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-14, abs_tol=1e-320)


def agree(case, answer):
    """Return whether the driver's line agrees with the rational numbers, and the line of the rational numbers."""
    got = answer.split()
    f = case.fmt
    mine = rationals.block(case) if f.shared else rationals.element(case)
    same = got[0] == hex_of(f, mine[0]) and int(got[1], 16) == mine[1]
    same = same and tuple(map(int, got[2:7])) == mine[2:7]
    if f.shared:
        return same and tuple(map(int, got[7:])) == mine[7], mine
    same = same and tuple(map(int, got[7:9])) == mine[7:]
    if not f.integer:
        nearest, ulps, absolute = exact_sum(case, mine[0])
        same = same and nearest == int(got[9], 16)
        same = same and near(ulps, float(got[10])) and near(absolute, float(got[11]))
        mine += (nearest, ulps, absolute)
    return same, mine


def build_driver(folder):
    """Build the driver with sanitizers. Return its path."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    driver = os.path.join(os.path.abspath(folder), "tests", "oracle", "driver")
    os.makedirs(os.path.dirname(driver), exist_ok=True)
    argv = [os.environ.get("CC", "gcc"), "-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"]
    argv += ["-fno-sanitize-recover=all", "-Iinclude", "-Iuser", "tests/oracle/driver.c"]
    argv += sorted(glob.glob("user/lab/oracle/*.c", root_dir=top))
    subprocess.run(argv + ["-lgmp", "-lm", "-o", driver], cwd=top, check=True)
    return driver


class Seen:
    """The flags of the cases so far, and the number of disagreements"""

    def __init__(self):
        self.raised = defaultdict(int)
        self.events = self.cases = self.bad = 0

    def add(self, case, answer):
        ok, mine = agree(case, answer)
        self.raised[case.fmt.name, case.op] |= mine[1]
        self.events |= sum((mine[2 + i] > 0) << i for i in range(4))
        self.cases += 1
        self.bad += not ok
        if not ok and self.bad <= 10:
            name = "%s of %s" % (OPS[case.op], case.fmt.name)
            print("%s: %s  rationals %s\n  oracle %s" % (name, line_of(case), mine, answer))

    def too_little(self):
        """Return sentences about the flags and events that no case reached."""
        for (name, op), flags in WANTED.items():
            if self.raised[name, op] != flags:
                yield "%s of %s raised flags 0x%x, not 0x%x" % (OPS[op], name, self.raised[name, op], flags)
        if self.events != 15:
            yield "all cases together raised events 0x%x, not 0xf" % self.events


def ask(driver, cases):
    """Return the driver's answer to each case."""
    lines = "".join(map(line_of, cases))
    answers = subprocess.run([driver], input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    if len(answers) != len(cases):
        sys.exit("fractions_check: %d answers for %d cases" % (len(answers), len(cases)))
    return answers


def main():
    p = argparse.ArgumentParser(description="check the C oracle against rational arithmetic")
    p.add_argument("driver", help="tests/oracle/driver.c, built, or a build directory")
    p.add_argument("--cases", type=int, default=100000)
    p.add_argument("--seed", type=int, default=int(os.environ.get("FPISA_SEED") or time.time_ns()))
    p.add_argument("--exact", metavar="FORMAT", choices=FLOATS, help="only mode exact, in this format")
    args = p.parse_args()
    driver = build_driver(args.driver) if os.path.isdir(args.driver) else os.path.abspath(args.driver)
    print("fractions_check: FPISA_SEED=%d" % args.seed, flush=True)
    rng = random.Random(args.seed)
    seen = Seen()
    # A rare event may be missing by chance, so run as many cases again, several times if necessary.
    for _ in range(TURNS):
        for first in range(0, args.cases, AT_ONCE):
            cases = [random_exact(rng, args.exact) if args.exact else random_case(rng) for _ in range(min(AT_ONCE, args.cases - first))]
            for case, answer in zip(cases, ask(driver, cases)):
                seen.add(case, answer)
        lacking = [] if args.exact else list(seen.too_little())
        if seen.bad or not lacking:
            break
    for sentence in lacking:
        print("fractions_check: %s" % sentence)
    print("fractions_check: %d cases, %d differ" % (seen.cases, seen.bad))
    return 1 if seen.bad or lacking else 0


if __name__ == "__main__":
    sys.exit(main())
