# SPDX-License-Identifier: GPL-2.0-only
"""Every operation, integers and blocks over real packets by `fpisa demo`, and the
histogram of what adds discard."""
import array
import json
import math
import struct
from collections import Counter
from fractions import Fraction

import pytest

import worker
from lab import FPISA, PIN
from refusals import refused

FLOATS = ["fp32", "fp16", "bf16", "fp64", "e4m3", "e5m2"]
MODES = ["fpisa", "fpisa-a", "fpisa64", "exact"]
ORDERED = {"min", "max"}
FACTOR = ["--factor", "0.1"]


def long(*values):
    """A case of `make test-long`: what it pairs is paired by the others too."""
    return pytest.param(*values, marks=pytest.mark.long)


STAGED = "--pipeline staged --clz lpm"
SEEN = ("mismatches", "disagreements", "flag_mismatches", "counts_agree", "passed")


def demo(lab, *options):
    out = json.loads(lab(workers=0).agg.run(FPISA, "demo", "--json", *options))
    assert [out[k] for k in SEEN] == [0, 0, 0, True, True]
    return out


@pytest.mark.parametrize("form, mode, more", [
    ("int32", "fpisa", "--loss 0.05"), long("int32", "fpisa", STAGED), ("mxint8", "fpisa", STAGED),
    ("mxint8", "fpisa-a", "--loss 0.05"), ("mxint8", "fpisa64", STAGED), long("mxint8", "exact", "--loss 0.05")])
def test_integers_and_blocks(lab, form, mode, more):
    """5001 is no multiple of 32, and the last chunk is short."""
    out = demo(lab, "--workers", 5, "--vector", 5001, "--format", form, "--mode", mode, *more.split())
    assert (out["format"], out["mode"], out["op"]) == (form, mode, "sum")
    assert out["vector"] == (5024 if form == "mxint8" else 5001)
    assert out["max_ulp_error"] is None and out["correctly_rounded"] is None
    assert (out["rounded"] > 0) == (form == "mxint8" and mode in ("fpisa", "fpisa-a"))
    assert ("int32_shift" in out) == (form == "int32")


def test_integers_do_not_overflow(lab, tmp_path):
    """The largest shift at which no sum can: one more and three times the largest would."""
    (tmp_path / "v.f32").write_bytes(array.array("f", [1.0, -2.5, 715827882.0, 0.25] * 3).tobytes())
    out = demo(lab, "--workers", 3, "--rows", 3, "--file", tmp_path / "v.f32", "--format", "int32")
    assert out["int32_shift"] == -1 and out["overflowed"] == 0  # a float next to it is 715827904 > 2^31 / 3
    (tmp_path / "n.f32").write_bytes(array.array("f", [1.0, float("nan"), 2.0]).tobytes())
    status, said, err = lab(workers=0).agg.try_run(FPISA, "demo", "--workers", 3, "--rows", 3, "--file",
                                                   tmp_path / "n.f32", "--format", "int32")
    assert status == 1 and said == "" and "not finite" in err and len(err.splitlines()) == 1


def test_scale_of_blocks(lab, tmp_path):
    """The smallest at which all elements fit: 127 with unit 1; 127.75 would round to 128, so its unit is 2."""
    blocks = [[127.0, 0.75, 0.25] + [2.0] * 29, [127.75, 0.75, 1.25] + [2.0] * 29]
    (tmp_path / "v.f32").write_bytes(array.array("f", sum(blocks, [])).tobytes())
    out = demo(lab, "--workers", 1, "--rows", 1, "--file", tmp_path / "v.f32", "--format", "mxint8")
    assert out["vanished"] == 2  # 0.25 and the second 0.75


def test_specials_in_blocks(lab, tmp_path):
    """A block with a NaN in it is one; the others are not."""
    v = array.array("f", [1.0 + i for i in range(64)] * 2)
    v[3] = float("nan")
    (tmp_path / "v.f32").write_bytes(v.tobytes())
    demo(lab, "--workers", 2, "--rows", 2, "--file", tmp_path / "v.f32", "--format", "mxint8")


# Each operation, format and mode, and each operation and mode with either pipeline.
CALLS = [
    ("min", "int32", "fpisa", "fused"), ("min", "e4m3", "exact", "staged"), long("min", "fp64", "fpisa64", "fused"),
    long("max", "fp32", "fpisa", "staged"), ("max", "bf16", "fpisa-a", "staged"), ("max", "fp16", "fpisa", "fused"),
    ("avg", "fp32", "fpisa", "staged"), long("avg", "fp16", "fpisa64", "fused"), ("avg", "mxint8", "exact", "fused"),
    long("scale", "fp32", "exact", "fused"), ("scale", "fp64", "fpisa", "staged"),
    ("scale", "mxint8", "fpisa64", "fused"), ("norm", "fp32", "fpisa64", "staged"),
    long("norm", "fp64", "fpisa", "fused"), ("norm", "e5m2", "fpisa-a", "fused")]


@pytest.mark.parametrize("op, form, mode, pipeline", CALLS)
def test_operations(lab, op, form, mode, pipeline):
    """Seven workers, for whom 1/n is no power of two."""
    out = demo(lab, "--workers", 7, "--vector", 3001, "--op", op, "--format", form, "--mode", mode,
               *(STAGED.split() if pipeline == "staged" else []),
               *(FACTOR if op == "scale" else []))
    assert out["op"] == op
    floats = form in FLOATS and op not in ORDERED
    assert (out["max_ulp_error"] is not None) == floats
    if floats and (mode == "exact" or (mode, op) == ("fpisa64", "avg")):
        assert out["correctly_rounded"] == 1 and 0 < out["max_ulp_error"] <= 0.5


def test_averages_by_reciprocal(lab):
    """The paper's way misrounds; division does not. Same sums."""
    exact = demo(lab, *"--workers 7 --vector 20000 --op avg --mode exact --format fp32".split())
    rough = demo(lab, *"--workers 7 --vector 20000 --op avg --mode exact --format fp32 --reciprocal".split())
    assert exact["correctly_rounded"] == 1 and rough["reciprocal"]
    assert 0.2 < rough["correctly_rounded"] < 0.8 and rough["max_ulp_error"] > 0.5


@pytest.mark.parametrize("form, mode, more", [
    ("fp16", "fpisa-a", ["--op", "avg"]), long("fp64", "fpisa64", ["--op", "norm"]),
    ("int32", "fpisa", ["--op", "max"]), ("fp32", "exact", ["--pipeline", "staged", "--loss", "0.05"])])
def test_big_endian(lab, form, mode, more):
    """The same results as a little-endian job's, to the bit, and so the same error."""
    options = ["--workers", 3, "--vector", 3001, "--format", form, "--mode", mode, *more]
    out = demo(lab, *options, "--big-endian")
    assert out["big_endian"] is True
    if mode == "exact":
        assert out["max_abs_error"] == demo(lab, *options)["max_abs_error"]


def test_order_does_not_matter(lab):
    """Above 16 workers no order is reported; min and max need none."""
    for op in ORDERED:
        assert demo(lab, "--workers", 17, "--vector", 1000, "--op", op)["mismatches"] == 0


@pytest.mark.parametrize("form, mode, more", [
    long("fp32", "fpisa", []), ("fp32", "fpisa-a", ["--pipeline", "staged"]), long("bf16", "fpisa-a", ["--loss", "0.05"]),
    ("fp64", "fpisa64", []), ("mxint8", "fpisa", []), ("fp16", "fpisa", ["--op", "avg", "--big-endian"])])
def test_histogram(lab, form, mode, more):
    out = demo(lab, "--workers", 6, "--vector", 5001, "--format", form, "--mode", mode, "--histogram", *more)
    assert out["histogram_agrees"] is True and out["rounded"] > 0
    assert (out["overwritten"] > 0) == ((form, mode) == ("fp32", "fpisa-a"))
    assert sum(b["adds"] for b in out["buckets"]) == out["rounded"] + out["overwritten"]
    exponents = [b["exponent"] for b in out["buckets"]]
    assert exponents == sorted(set(exponents)) and exponents[-1] < 3


def discarded(a, b):
    """What the sum of two floats discards in mode fpisa: of the one with the smaller exponent all below the other's
    unit, by floor. The order of the two does not matter."""
    words = struct.unpack("<2I", struct.pack("<2f", a, b))
    exponents = [max(w >> 23 & 255, 1) for w in words]
    unit = Fraction(2) ** (max(exponents) - 150)
    return Fraction(a if exponents[0] < exponents[1] else b) % unit


def exponent(x):
    """floor(log2(x)) of a Fraction whose denominator is a power of two."""
    return x.numerator.bit_length() - x.denominator.bit_length()


@pytest.mark.parametrize("pipeline", ["fused", "staged"])
def test_histogram_is_what_python_computes(lab, pipeline):
    """Of two workers; and bpftool reads the same from the map, a bucket b being 2^(b - 150)."""
    count, net = 3000, lab(workers=2)
    net.load()
    net.add_job(4, "--histogram", "--pipeline", pipeline)
    net.work(4, {"count": count, "kind": "random"})
    rows = [array.array("f", worker.data("random", r, count)) for r in range(2)]
    lost = [d for d in map(discarded, *rows) if d]
    expect = Counter(map(exponent, lost))
    assert len(expect) > 3 and all(math.ldexp(1, x) > 0 for x in expect)
    got = net.json("histogram", 4)
    assert got["job"] == 4 and {b["exponent"]: b["adds"] for b in got["buckets"]} == expect
    dump = net.bpftool("map", "lookup", "pinned", PIN + "/fpisa_histogram", "key", 4, 0, 0, 0)
    buckets = dump["formatted"]["value"]["bucket"]
    assert {b - 150: n for b, n in enumerate(buckets) if n} == expect
    assert sum(buckets) == net.counters(4, PIN)["rounded"]
    table = [line.split() for line in net.fpisa("histogram", 4).splitlines()]
    assert [(int(x.removeprefix("2^")), int(n)) for x, n, _ in table[1:]] == sorted(expect.items())
    assert float(table[-1][2]) == 1
    # A job made anew begins with an empty one.
    net.fpisa("job", "del", 4)
    net.add_job(4, "--histogram")
    assert net.json("histogram", 4)["buckets"] == [] and len(net.fpisa("histogram", 4).splitlines()) == 1


def test_histogram_table(lab):
    text = lab(workers=0).agg.run(FPISA, "demo", "--workers", 3, "--vector", 3000, "--histogram")
    assert "adds that discarded something" in text and "share up to here" in text and "PASS" in text


def test_refusals(lab):
    """What is not offered: one line that names it. What does not go together: the usage besides."""
    net = lab(workers=0)
    offered = [(op, f, m) for f in FLOATS + ["mxint8"] for m in MODES for op in ("min", "max", "norm")
               if (f == "mxint8" or (op == "norm" and m == "exact")) and (f, m) != ("fp64", "exact")]
    offered += [(op, "int32", "fpisa") for op in ("avg", "scale", "norm")]
    for op, form, mode in offered:
        status, out, err = net.agg.try_run(FPISA, "demo", "--op", op, "--format", form, "--mode", mode,
                                           *(FACTOR if op == "scale" else []))
        assert (status, out, err) == (1, "", f"fpisa: --op: {op} of {form} in mode {mode} is not offered\n")
    for options, says in (
            ("--format int32 --mode fpisa64", "integers have no modes; leave --mode out"),
            ("--format int32 --mode exact", "integers have no modes; leave --mode out"),
            ("--format fp64 --mode exact", "try --mode fpisa64"),
            ("--format e4m3 --big-endian", "leave --big-endian out"),
            ("--format mxint8 --big-endian", "leave --big-endian out"),
            ("--format int32 --histogram", "leave --histogram out"),
            ("--mode exact --histogram", "leave --histogram out")):
        status, out, err = net.agg.try_run(FPISA, "demo", *options.split())
        assert (status, out) == (1, "") and says in err and len(err.splitlines()) == 1, err
    for options, says in (
            ("--op scale", "--factor is missing"), ("--factor 2", "--factor: goes with --op scale"),
            ("--op scale --factor 0", "finite number other than zero"), ("--op scale --factor x", "'x'"),
            ("--op scale --factor inf", "'inf'"), ("--op scale --factor nan", "'nan'"),
            ("--op scale --factor 1e300", "range of a float"), ("--op scale --factor 1e-300", "range of a float"),
            ("--reciprocal", "--reciprocal: goes with --op avg"), ("--op min --histogram", "--histogram: goes with"),
            ("--op norm --histogram", "--histogram: goes with"), ("--op mean", "'mean'")):
        status, out, err = net.agg.try_run(FPISA, "demo", *options.split())
        assert (status, out) == (2, "") and says in err.splitlines()[0], err


def test_histogram_refusals(lab):
    net = lab()
    refused(net, ["histogram", "1"], "not loaded|nothing is loaded|fpisa load")
    net.load()
    net.add_job(1)
    refused(net, ["histogram", "1"], "job 1: keeps no histogram; make it with --histogram")
    refused(net, ["histogram", "2"], "job 2: no such job; see fpisa job list")
    refused(net, ["histogram"], "histogram: give one job number", 2, usage=True)
    refused(net, ["histogram", "1", "2"], "histogram: give one job number", 2, usage=True)
    refused(net, ["histogram", "64"], "job: '64' is not a number from 0 to 63", 2, usage=True)
