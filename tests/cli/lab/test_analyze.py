# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa analyze` prints the numbers that rational arithmetic gives, in every format and mode."""
import itertools
import math
import os
import random
import struct
import subprocess
import sys
from fractions import Fraction

import pytest

from analyze import DATA, analyze, raw, run
from rationals import (DOWN, EXACT, FPISA as FULL, FPISA64, FPISA_A, NEAREST, Case, Format,
                       finish, floor_log2)

WORKERS = 3  # small, so that random orders include all six
SEED = int(os.environ.get("FPISA_SEED") or random.randrange(2**32))
FORMATS = {"fp32": (8, 23, 32), "fp16": (5, 10, 32), "bf16": (8, 7, 32), "fp64": (11, 52, 64),
           "e4m3": (4, 3, 32, 0, True), "e5m2": (5, 2, 32)}
MODES = {"fpisa": FULL, "fpisa-a": FPISA_A, "fpisa64": FPISA64, "exact": EXACT}
ROUNDINGS = {"down": DOWN, "nearest": NEAREST}
SOURCES = ("rounding", "overwrite", "left_shift", "read_out")


# -- rational arithmetic ------------------------------------------------------

def register_format(name, mode):
    """Return the format with the register that a job of three workers has."""
    f = Format(name, *FORMATS[name])
    if mode == FPISA64:
        return Format(name, f.ebits, f.mbits, 64, 63 - (f.mbits + 1) - 2, f.finite)
    return f


class Sum:
    """The sum of one element's contributions in one order: result, events, magnitudes of discarded bits"""

    def __init__(self, name, mode, rounding, words):
        f = register_format(name, mode)
        self.lost = dict.fromkeys(SOURCES, Fraction(0))
        self.rounded = self.overwritten = self.left_shifted = self.overflowed = 0
        values = [f.value(w) for w in words]
        sticky = {s for s, _, _ in values if s}
        total = sum(v for _, _, v in values)
        if mode != EXACT:
            (_, e, total), *rest = values
            for special, incoming, v in rest:
                if not special:
                    e, total = self.add(f, mode, e, total, incoming, v)
        self.total = total
        self.result, _ = finish(Case(f, mode, rounding, words), sticky, total)
        special, _, value = f.value(self.result)
        self.finite = not special
        self.lost["read_out"] = abs(value - total)

    def add(self, f, mode, e, total, incoming, v):
        if mode == FPISA_A and incoming > e + f.headroom:
            self.overwritten += total != 0
            self.lost["overwrite"] += abs(total)
            return incoming, v
        if mode == FPISA_A:
            self.left_shifted += incoming > e
        else:
            e = max(e, incoming)
        grid = f.grid(1, e)
        a, b = math.floor(total / grid) * grid, math.floor(v / grid) * grid
        self.rounded += a != total or b != v
        self.lost["rounding"] += abs(a - total) + abs(b - v)
        limit = 2 ** (f.rbits - 1)
        held = min(max(a + b, -limit * grid), (limit - 1) * grid)
        self.overflowed += held != a + b
        self.lost["left_shift"] += abs(held - a - b)
        return e, held


def decade(x):
    d = math.floor(math.log10(x))
    while Fraction(10) ** d > x:
        d -= 1
    while Fraction(10) ** (d + 1) <= x:
        d += 1
    return d


def expected_mode(name, mode, rounding, columns):
    f = Format(name, *FORMATS[name])
    out = dict.fromkeys("correctly_rounded depend_on_order special rounded overwritten left_shifted overflowed "
                        "without_error".split(), 0)
    ulps, absolutes, decades, lost = [], [0], {}, dict.fromkeys(SOURCES, Fraction(0))
    for words in columns:
        right = Sum(name, EXACT, NEAREST, words)
        sums = [Sum(name, mode, rounding, list(order)) for order in itertools.permutations(words)]
        s = sums[0]
        out["correctly_rounded"] += s.result == right.result
        out["depend_on_order"] += len({t.result for t in sums}) > 1
        for key in "rounded overwritten left_shifted overflowed".split():
            out[key] += getattr(s, key)
        if not s.finite or not right.finite:
            out["without_error" if s.result == right.result else "special"] += 1
            if s.result == right.result:
                ulps.append(0)
            continue
        error = abs(f.value(s.result)[2] - right.total)
        ulps.append(error / f.ulp_of(abs(f.value(right.result)[2])))
        absolutes.append(error)
        out["without_error"] += error == 0
        if error:
            decades[decade(error)] = decades.get(decade(error), 0) + 1
        for key in SOURCES:
            lost[key] += s.lost[key]
    out["max_ulp_error"], out["mean_ulp_error"] = max(ulps), sum(ulps) / len(ulps)
    out["max_abs_error"] = max(absolutes)
    return out, decades, lost


def check_mode(got, name, columns):
    mode, rounding = MODES[got["mode"]], ROUNDINGS[got["rounding"]]
    want, decades, lost = expected_mode(name, mode, rounding, columns)
    for key, value in want.items():
        assert got[key] == pytest.approx(float(value), rel=1e-8, abs=0), (got["mode"], key)
    assert {b["log10"]: b["elements"] for b in got["error_by_decade"]} == decades
    for key in SOURCES:
        assert got["error_by_source"][key] == pytest.approx(float(lost[key]), rel=1e-8, abs=0), (got["mode"], key)
    assert got["adds"] == len(columns) * (WORKERS - 1)


def check_ratios(got, f, columns):
    octaves = {}
    for words in columns:
        values = [f.value(w) for w in words]
        if all(not special and v for special, _, v in values):
            size = [abs(v) for _, _, v in values]
            k = floor_log2(max(size) / min(size))
            octaves[k] = octaves.get(k, 0) + 1
    assert {b["log2"]: b["elements"] for b in got["ratio_by_octave"]} == octaves
    assert got["elements_without_zero"] == sum(octaves.values())
    assert got["ratio_below_128"] == sum(n for k, n in octaves.items() if k < 7)


def gradients_like(rng, n, scale):
    """Return rows of floats. Each element has its own magnitude, and the workers' values differ by up to 2^spread."""
    rows = [[], [], []]
    for _ in range(n):
        size, spread = rng.uniform(-scale, 0), rng.choice((3, 12, 34))
        for row in rows:
            x = rng.choice((0, 1, 1, -1)) * rng.uniform(1, 2) * 2.0 ** (size - rng.uniform(0, spread))
            row.append(struct.unpack("<f", struct.pack("<f", x))[0])
    # 128 and more small values after a left shift make fpisa-a saturate.
    for row, x in zip(rows, (1.0, 255.5, 255.5)):
        row[0] = x
    return rows


@pytest.mark.parametrize("name", FORMATS)
def test_every_number(tmp_path, name):
    print(f"FPISA_SEED={SEED}")
    rng, f = random.Random(f"{SEED} {name}"), Format(name, *FORMATS[name])
    rows = gradients_like(rng, 150, 20 if f.ebits == 8 or f.ebits == 11 else 4)
    inf, nan = math.inf, math.nan
    top = 3.0e38 if f.ebits == 8 or f.ebits == 11 else float(f.largest)
    for column in ((nan, 1, 2), (inf, 1, -1), (inf, -inf, 0), (top, top, 1), (-top, -top, top), (0, 0, 0)):
        for row, x in zip(rows, column):
            row.append(struct.unpack("<f", struct.pack("<f", x))[0])
    (tmp_path / "v.f32").write_bytes(raw(sum(rows, [])))

    def word(x):
        if x != x:
            return f.nan()
        return f.inf(x < 0) if abs(x) == inf else f.pack(Fraction(x), NEAREST)[0]

    columns = list(zip(*[[word(x) for x in row] for row in rows]))
    for rounding in ((), ("--rounding", "nearest")):
        out = analyze(tmp_path / "v.f32", "--workers", WORKERS, "--format", name, "--orders", 200, *rounding)
        got = out["inputs"][0]
        assert [m["mode"] for m in got["modes"]] == list(MODES)
        assert [got["workers"], got["elements"]] == [WORKERS, len(columns)]
        assert got["zero_values"] == sum(x == 0 for row in rows for x in row)
        assert got["vanished_values"] == sum(x != 0 and word(x) % 2 ** (f.bits - 1) == 0 for row in rows for x in row)
        check_ratios(got, f, columns)
        for mode in got["modes"]:
            check_mode(mode, name, columns)
            if mode["mode"] == "fpisa-a" and name in ("fp32", "fp64"):
                assert mode["overwritten"] and mode["left_shifted"] and (mode["overflowed"] or name == "fp64")


# -- the sample -----------------------------------------------------------------

def test_sample_of_real_gradients():
    """One command prints one table, and the two best modes are as exact as the page says."""
    files = [os.path.join(DATA, f"epoch{e}.f32") for e in ("01", "20", "40")]
    for one in analyze("--workers", 8, *files)["inputs"]:
        modes = {m["mode"]: m for m in one["modes"]}
        assert one["elements"] == 4096
        for name in ("fpisa64", "exact"):
            assert modes[name]["correctly_rounded"] == 4096 and 0.49 < modes[name]["max_ulp_error"] <= 0.5
        assert modes["exact"]["depend_on_order"] == 0 < modes["fpisa"]["depend_on_order"]
        assert modes["fpisa-a"]["overwritten"] and modes["fpisa-a"]["overflowed"]
    p = run("--workers", 8, *files)
    rows = [line.split() for line in p.stdout.splitlines() if line.startswith("epoch")]
    exact = [r for r in rows if r[1:3] == ["exact", "nearest"]]
    assert [r[:1] + r[5:7] for r in exact] == [[f"epoch{e}.f32", "100%", "0"] for e in ("01", "20", "40")]


def test_heavy_tailed_values(tmp_path):
    """The committed file equals its script's output. Its sums are exact in mode exact but not in fpisa64, and few of fpisa's sums are
    right."""
    data = os.path.join(DATA, "..")
    subprocess.run([sys.executable, "-B", os.path.join(data, "heavy_tailed.py"), tmp_path / "h"], check=True)
    with open(os.path.join(data, "heavy_tailed.f32"), "rb") as f:
        assert (tmp_path / "h").read_bytes() == f.read()
    modes = {m["mode"]: m for m in analyze("--workers", 8, "--orders", 20, tmp_path / "h")["inputs"][0]["modes"]}
    assert modes["exact"]["correctly_rounded"] == 4096 and modes["exact"]["depend_on_order"] == 0
    assert 4000 < modes["fpisa64"]["correctly_rounded"] < 4096 and modes["fpisa64"]["max_ulp_error"] > 1
    assert modes["fpisa"]["correctly_rounded"] < 410


def test_what_fpisa64_loses(tmp_path):
    """Only mode exact sums 2^30 - 2^30 + 1e-9 + 0 right in every order."""
    (tmp_path / "v").write_bytes(raw([2.0**30, -2.0**30, 1e-9, 0]))
    one, = analyze("--workers", 4, tmp_path / "v")["inputs"]
    assert {m["mode"]: m["correctly_rounded"] for m in one["modes"]} == {"fpisa": 0, "fpisa-a": 0, "fpisa64": 0, "exact": 1}


def test_seed_and_orders(tmp_path):
    """The same seed gives the same output. Without orders, no figure for orders is printed."""
    path = os.path.join(DATA, "epoch20.f32")
    argv = ("--workers", 8, "--orders", 1, "--mode", "fpisa", path)
    by_order = [analyze(*argv, "--seed", s)["inputs"][0]["modes"][0]["depend_on_order"] for s in (1, 1, 2)]
    assert by_order[0] == by_order[1] != by_order[2]
    out = analyze("--workers", 8, "--orders", 0, "--mode", "exact,fpisa", path)
    assert [m["mode"] for m in out["inputs"][0]["modes"]] == ["fpisa", "exact"]
    assert out["inputs"][0]["modes"][0]["depend_on_order"] is None
