# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa analyze`: every number of it by rational arithmetic, in every format and
mode; the files it reads and refuses; its pictures."""
import itertools
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from fractions import Fraction

import pytest

from lab import FPISA, TOP
from rationals import (DOWN, EXACT, FPISA as FULL, FPISA64, FPISA_A, NEAREST, Case, Format,
                       finish, floor_log2)

DATA = os.path.join(TOP, "data", "gradients")
WORKERS = 3  # few enough that random orders meet all six
SEED = int(os.environ.get("FPISA_SEED") or random.randrange(2**32))
FORMATS = {"fp32": (8, 23, 32), "fp16": (5, 10, 32), "bf16": (8, 7, 32), "fp64": (11, 52, 64),
           "e4m3": (4, 3, 32, 0, True), "e5m2": (5, 2, 32)}
MODES = {"fpisa": FULL, "fpisa-a": FPISA_A, "fpisa64": FPISA64, "exact": EXACT}
ROUNDINGS = {"down": DOWN, "nearest": NEAREST}
SOURCES = ("rounding", "overwrite", "left_shift", "read_out")


def run(*argv, **options):
    return subprocess.run([FPISA, "analyze", *map(str, argv)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=300, **options)


def analyze(*argv):
    p = run("--json", *argv)
    assert p.returncode == 0 and p.stderr == "", p
    return json.loads(p.stdout)


def refused(says, *argv, status=1, **options):
    p = run(*argv, **options)
    assert p.returncode == status and p.stdout == "", p
    lines = p.stderr.splitlines()
    assert len(lines) == (2 if status == 2 else 1) and lines[0].startswith("fpisa: ") and says in lines[0], p.stderr


# -- rational arithmetic ------------------------------------------------------

def register_format(name, mode):
    """As a job of three workers has it."""
    f = Format(name, *FORMATS[name])
    if mode == FPISA64:
        return Format(name, f.ebits, f.mbits, 64, 63 - (f.mbits + 1) - 2, f.finite)
    return f


class Sum:
    """One element's contributions in one order: result, events, magnitudes of what was lost."""

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
    """Rows of floats: an element has a size of its own, workers differ by up to 2^spread."""
    rows = [[], [], []]
    for _ in range(n):
        size, spread = rng.uniform(-scale, 0), rng.choice((3, 12, 34))
        for row in rows:
            x = rng.choice((0, 1, 1, -1)) * rng.uniform(1, 2) * 2.0 ** (size - rng.uniform(0, spread))
            row.append(struct.unpack("<f", struct.pack("<f", x))[0])
    # 128 and more small ones after a left shift: what makes fpisa-a saturate.
    for row, x in zip(rows, (1.0, 255.5, 255.5)):
        row[0] = x
    return rows


def raw(values, code="f"):
    return struct.pack(f"<{len(values)}{code}", *values)


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
        assert [m["mode"] for m in got["modes"]] == [m for m in MODES if (m, name) != ("exact", "fp64")]
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
    """One table by one command, and what the two best modes promise."""
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
    """The file is what its script makes; fpisa64 is not exact on it, exact is, and few sums of fpisa are right."""
    data = os.path.join(DATA, "..")
    subprocess.run([sys.executable, "-B", os.path.join(data, "heavy_tailed.py"), tmp_path / "h"], check=True)
    with open(os.path.join(data, "heavy_tailed.f32"), "rb") as f:
        assert (tmp_path / "h").read_bytes() == f.read()
    modes = {m["mode"]: m for m in analyze("--workers", 8, "--orders", 20, tmp_path / "h")["inputs"][0]["modes"]}
    assert modes["exact"]["correctly_rounded"] == 4096 and modes["exact"]["depend_on_order"] == 0
    assert 4000 < modes["fpisa64"]["correctly_rounded"] < 4096 and modes["fpisa64"]["max_ulp_error"] > 1
    assert modes["fpisa"]["correctly_rounded"] < 410


def test_what_fpisa64_loses(tmp_path):
    """2^30 - 2^30 + 1e-9 + 0: right in exact alone, in whatever order the large ones come first."""
    (tmp_path / "v").write_bytes(raw([2.0**30, -2.0**30, 1e-9, 0]))
    one, = analyze("--workers", 4, tmp_path / "v")["inputs"]
    assert {m["mode"]: m["correctly_rounded"] for m in one["modes"]} == {"fpisa": 0, "fpisa-a": 0, "fpisa64": 0, "exact": 1}


def test_seed_and_orders(tmp_path):
    """The same seed gives the same; no orders, no figure."""
    path = os.path.join(DATA, "epoch20.f32")
    argv = ("--workers", 8, "--orders", 1, "--mode", "fpisa", path)
    by_order = [analyze(*argv, "--seed", s)["inputs"][0]["modes"][0]["depend_on_order"] for s in (1, 1, 2)]
    assert by_order[0] == by_order[1] != by_order[2]
    out = analyze("--workers", 8, "--orders", 0, "--mode", "exact,fpisa", path)
    assert [m["mode"] for m in out["inputs"][0]["modes"]] == ["fpisa", "exact"]
    assert out["inputs"][0]["modes"][0]["depend_on_order"] is None


# -- files ------------------------------------------------------------------------

def npy(data, descr="'<f4'", shape="(3, 4)", fortran="False", version=1, header=None):
    text = header or f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


VALUES = [1.5, -2, 0, 3, 0.25, 7, 1e-3, -1, 2, 2, 65504, 5]
FLOATS = raw(VALUES)
EXACT_VALUES = [struct.unpack("<f", FLOATS[4 * i:4 * i + 4])[0] for i in range(12)]
COLUMNS = [EXACT_VALUES[4 * (k % 3) + k // 3] for k in range(12)]


@pytest.mark.parametrize("data, options", [
    (npy(FLOATS), ()),
    (npy(FLOATS, version=2), ()),
    (npy(FLOATS, version=3), ("--workers", 3)),
    (npy(FLOATS, shape="(12,)"), ("--workers", 3)),
    (npy(FLOATS, shape="(3L, 4L)"), ()),
    (npy(raw(EXACT_VALUES, "d"), "'<f8'"), ()),
    (npy(struct.pack(">12f", *VALUES), "'>f4'"), ()),
    (npy(struct.pack(">12d", *EXACT_VALUES), "'>f8'"), ()),
    (npy(raw(COLUMNS), fortran="True"), ()),
    (npy(FLOATS, header='{"shape":(3,4),"descr":"<f4","fortran_order":False}'), ()),
    (FLOATS, ("--workers", 3)),
    (raw(EXACT_VALUES, "d"), ("--workers", 3, "--raw", "fp64")),
], ids=str)
def test_files_of_one_content(tmp_path, data, options):
    (tmp_path / "a.f32").write_bytes(FLOATS)
    (tmp_path / "b").write_bytes(data)
    want = analyze("--workers", 3, "--mode", "fpisa", tmp_path / "a.f32")
    got = analyze(*options, "--mode", "fpisa", tmp_path / "b")
    for out in (want, got):
        del out["inputs"][0]["files"]
    assert got == want and got["inputs"][0]["elements"] == 4 and got["inputs"][0]["zero_values"] == 1


def test_halves_and_a_file_a_worker(tmp_path):
    """f2, either byte order; rows in files of their own, of different types."""
    halves = [1.5, -2, 0, 3, 0.25, 7, 6e-8, -1, 2, 2, 65504, 5]
    wide = [struct.unpack("<e", struct.pack("<e", x))[0] for x in halves]
    (tmp_path / "w").write_bytes(npy(raw(wide, "d"), "'<f8'"))
    (tmp_path / "h").write_bytes(npy(raw(halves, "e"), "'<f2'"))
    (tmp_path / "s").write_bytes(npy(struct.pack(">12e", *halves), "'>f2'"))
    (tmp_path / "0").write_bytes(raw(wide[:4]))
    (tmp_path / "1").write_bytes(npy(raw(halves[4:8], "e"), "'<f2'", "(4,)"))
    (tmp_path / "2").write_bytes(npy(raw(wide[8:], "d"), "'<f8'", "(4,)"))
    out = [analyze("--format", "fp16", *[tmp_path / n for n in names]) for names in ("w", "h", "s", "012")]
    assert out[3]["inputs"][0]["files"] == [str(tmp_path / n) for n in "012"]
    for one in out:
        assert len(one["inputs"]) == 1
        del one["inputs"][0]["files"]
    assert out[0] == out[1] == out[2] == out[3] and out[0]["inputs"][0]["workers"] == 3


BAD = [
    (b"", "is empty"),
    (FLOATS[:-1], "47 bytes are not raw values of 4 bytes"),
    (FLOATS[:-4], "11 values of 4 bytes are not 3 rows of equal length; give --workers N"),
    (npy(FLOATS, shape="(4, 3)"), "has 4 rows, not 3; give --workers 4"),
    (npy(FLOATS[:-4]), "44 bytes of values follow its header, its shape needs 48; copy the whole file"),
    (npy(FLOATS + b"more"), "52 bytes of values follow its header, its shape needs 48; save"),
    (npy(FLOATS, shape="(3, 2, 2)"), "its array has 3 dimensions; save it as [workers, elements]"),
    (npy(FLOATS[:4], shape="()"), "its array has 0 dimensions"),
    (npy(b"", shape="(3, 0)"), "holds no values"),
    (npy(FLOATS, shape=f"({2**63}, 4)"), "its shape is larger than any memory"),
    (npy(FLOATS, shape=f"({2**64}, 4)"), "its .npy header is garbled"),
    (npy(FLOATS, descr="'<i4'"), "its values are <i4, not f2, f4 or f8; save a.astype('<f4')"),
    (npy(FLOATS, descr="[('a', '<f4')]"), "its values are a record"),
    (npy(FLOATS, descr="'=f4'"), "its values are =f4"),
    (npy(FLOATS, descr="'<f\n'"), "its .npy header is garbled"),
    (npy(FLOATS, fortran="Maybe"), "its .npy header is garbled; save it with numpy.save()"),
    (npy(FLOATS, shape="(3, -4)"), "its .npy header is garbled"),
    (npy(FLOATS, shape="(3 4)"), "its .npy header is garbled"),
    (npy(FLOATS, header="{'descr': '<f4', 'shape': (3, 4)}"), "its .npy header is garbled"),
    (npy(FLOATS, header="{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}"), "is garbled"),
    (npy(FLOATS, header="{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} x"), "is garbled"),
    (npy(FLOATS, header="{'descr': '<f4"), "its values are"),
    (npy(FLOATS, version=4), "is .npy of version 4.0"),
    (npy(FLOATS)[:30], "its .npy header is cut off; copy the whole file"),
    (npy(FLOATS)[:7], "its .npy header is cut off"),
    (b"\x93NUMPY\2\0\xff\xff\xff\xff", "its .npy header is cut off"),
    (b"PK\3\4" + FLOATS, "is a zip archive (.npz, .pt)"),
]


@pytest.mark.parametrize("data, says", BAD, ids=[says for _, says in BAD])
def test_bad_files(tmp_path, data, says):
    (tmp_path / "bad").write_bytes(data)
    refused(f"{tmp_path}/bad: ", "--workers", 3, tmp_path / "bad")
    refused(says, "--workers", 3, tmp_path / "bad")


def test_bad_sets_of_files(tmp_path):
    for name, data in (("a", FLOATS), ("b", FLOATS[:16]), ("c.npy", npy(FLOATS)), ("d.npy", FLOATS),
                       ("many", npy(raw([1] * 65), shape="(65, 1)"))):
        (tmp_path / name).write_bytes(data)
    refused("does not say how many rows it has; give --workers N, or a file a worker", tmp_path / "a")
    refused("b: holds 4 values, ", tmp_path / "a", tmp_path / "b")
    refused("c.npy: has 3 rows, not 1", tmp_path / "a", tmp_path / "c.npy")
    refused("a: does not say how many rows it has, as ", tmp_path / "c.npy", tmp_path / "a")
    refused("d.npy: does not begin as a .npy file does", tmp_path / "d.npy")
    refused("many: has 65 rows, more than 64 workers", tmp_path / "many")
    refused("a: is one of 65 workers, more than 64", *[tmp_path / "a"] * 65)
    refused("nothere: No such file", tmp_path / "nothere")
    refused("is not a regular file", tmp_path)
    refused("is not a regular file", "/dev/zero")


def test_bad_usage(tmp_path):
    for says, *argv in (("name at least one file",),
                        ("--workers: '65' is not a number from 1 to 64", "--workers", 65),
                        ("--mode: 'fpisb' is not", "--mode", "fpisa,fpisb"),
                        ("--mode: the list is empty", "--mode", ","),
                        ("--mode: there is no exact of fp64", "--mode", "exact", "--format", "fp64", "x"),
                        ("--format: 'fp24' is not", "--format", "fp24"),
                        ("--raw: 'f4' is not", "--raw", "f4"),
                        ("--rounding: 'up' is not", "--rounding", "up"),
                        ("--orders: '-1' is not a number", "--orders", -1),
                        ("--plot: the prefix is empty", "--plot", "")):
        refused(says, *argv, status=2)


# -- pictures ------------------------------------------------------------------------

def png_size(data):
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and data.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", data[16:24])


needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed; make deps")


@needs_gnuplot
@pytest.mark.parametrize("options", [(), ("--mode", "exact", "--orders", 0)], ids=str)
def test_pictures(tmp_path, options):
    """Well-formed, with the names of files and modes in them as they are, whatever these are."""
    names = ["it's_$(a) \"b\".f32", "x^{2}.f32"]
    for k, name in enumerate(names):
        with open(os.path.join(DATA, "epoch20.f32"), "rb") as f:
            (tmp_path / name).write_bytes(f.read(8 * 4 * 50) if k else raw([1.0] * 64))
    prefix = tmp_path / "it's"
    p = run("--workers", 8, "--plot", prefix, *options, *[tmp_path / n for n in names])
    assert p.returncode == 0 and p.stderr == "", p
    pictures = sorted(n for n in os.listdir(tmp_path) if n not in names)
    assert pictures == sorted(f"it's-{k}.{e}" for k in ("ratio", "error", "source") for e in ("svg", "png"))
    for k in ("ratio", "error", "source"):
        assert png_size((tmp_path / f"it's-{k}.png").read_bytes()) == (960, 360)
        text = "".join(ET.parse(tmp_path / f"it's-{k}.svg").getroot().itertext())
        for name in names:
            assert name in text
        assert k == "ratio" or "exact" in text


@needs_gnuplot
def test_no_pictures(tmp_path):
    (tmp_path / "a").write_bytes(FLOATS)
    argv = ("--workers", 3, tmp_path / "a", "--plot")
    refused("gnuplot: No such file or directory; install gnuplot-nox", *argv, tmp_path / "p",
            env={**os.environ, "PATH": str(tmp_path)})
    refused("/no/: No such file or directory; give --plot a directory that can be written", *argv, tmp_path / "no" / "p")
    (tmp_path / "p-ratio.svg").mkdir()
    p = run(*argv, tmp_path / "p")
    assert p.returncode == 1 and p.stdout == "" and p.stderr.splitlines()[-1].startswith("fpisa: gnuplot: failed")
