# SPDX-License-Identifier: GPL-2.0-only
"""Run every operation, integers and blocks over real packets with `fpisa demo`."""
import array

import pytest

from lab import FPISA

pytestmark = pytest.mark.families("ipv4", why="`fpisa demo` has IPv4 addresses; tests/prog has the bits, and test_ipv6.py the frames")

FLOATS = ["fp32", "fp16", "bf16", "fp64", "e4m3", "e5m2"]
MODES = ["fpisa", "fpisa-a", "fpisa64", "exact"]
ORDERED = {"min", "max"}
FACTOR = ["--factor", "0.1"]


def long(*values):
    """Mark a case of `make test-long`. Other cases contain the same pairs of choices."""
    return pytest.param(*values, marks=pytest.mark.long)


STAGED = "--pipeline staged --clz lpm"


@pytest.mark.parametrize("form, mode, more", [
    ("int32", "fpisa", "--loss 0.05"), long("int32", "fpisa", STAGED), ("mxint8", "fpisa", STAGED),
    ("mxint8", "fpisa-a", "--loss 0.05"), ("mxint8", "fpisa64", STAGED), long("mxint8", "exact", "--loss 0.05")])
def test_integers_and_blocks(lab, form, mode, more):
    """5001 values are correct, although the count is not a multiple of 32 and the last chunk is short."""
    out = lab(workers=0).demo("--workers", 5, "--vector", 5001, "--format", form, "--mode", mode, *more.split())
    assert (out["format"], out["mode"], out["op"]) == (form, mode, "sum")
    assert out["vector"] == (5024 if form == "mxint8" else 5001)
    assert out["max_ulp_error"] is None and out["correctly_rounded"] is None
    assert (out["rounded"] > 0) == (form == "mxint8" and mode in ("fpisa", "fpisa-a"))
    assert ("int32_shift" in out) == (form == "int32")


def test_integers_do_not_overflow(lab, tmp_path):
    """The shift is the largest shift without overflow. With one more bit, three times the largest value would overflow."""
    (tmp_path / "v.f32").write_bytes(array.array("f", [1.0, -2.5, 715827882.0, 0.25] * 3).tobytes())
    out = lab(workers=0).demo("--workers", 3, "--rows", 3, "--file", tmp_path / "v.f32", "--format", "int32")
    assert out["int32_shift"] == -1 and out["overflowed"] == 0  # the neighbouring float is 715827904 > 2^31 / 3
    (tmp_path / "n.f32").write_bytes(array.array("f", [1.0, float("nan"), 2.0]).tobytes())
    status, said, err = lab(workers=0).agg.try_run(FPISA, "demo", "--workers", 3, "--rows", 3, "--file",
                                                   tmp_path / "n.f32", "--format", "int32")
    assert status == 1 and said == "" and "not finite" in err and len(err.splitlines()) == 1


def test_scale_of_blocks(lab, tmp_path):
    """The scale is the smallest scale that fits all elements. 127 fits with unit 1. 127.75 would round to 128, so its unit is 2."""
    blocks = [[127.0, 0.75, 0.25] + [2.0] * 29, [127.75, 0.75, 1.25] + [2.0] * 29]
    (tmp_path / "v.f32").write_bytes(array.array("f", sum(blocks, [])).tobytes())
    out = lab(workers=0).demo("--workers", 1, "--rows", 1, "--file", tmp_path / "v.f32", "--format", "mxint8")
    assert out["vanished"] == 2  # 0.25 and the second 0.75 vanish


def test_specials_in_blocks(lab, tmp_path):
    """A block with a NaN in it is NaN. The other blocks are not."""
    v = array.array("f", [1.0 + i for i in range(64)] * 2)
    v[3] = float("nan")
    (tmp_path / "v.f32").write_bytes(v.tobytes())
    lab(workers=0).demo("--workers", 2, "--rows", 2, "--file", tmp_path / "v.f32", "--format", "mxint8")


# Choose each operation with each format and mode, and each operation and mode with either pipeline.
CALLS = [
    ("min", "int32", "fpisa", "fused"), ("min", "e4m3", "exact", "staged"), long("min", "fp64", "fpisa64", "fused"),
    long("max", "fp32", "fpisa", "staged"), ("max", "bf16", "fpisa-a", "staged"), ("max", "fp16", "fpisa", "fused"),
    ("avg", "fp32", "fpisa", "staged"), long("avg", "fp16", "fpisa64", "fused"), ("avg", "mxint8", "exact", "fused"),
    long("scale", "fp32", "exact", "fused"), ("scale", "fp64", "fpisa", "staged"),
    ("scale", "mxint8", "fpisa64", "fused"), ("norm", "fp32", "fpisa64", "staged"),
    long("norm", "fp64", "fpisa", "fused"), ("norm", "e5m2", "fpisa-a", "fused")]


@pytest.mark.parametrize("op, form, mode, pipeline", CALLS)
def test_operations(lab, op, form, mode, pipeline):
    """Every operation is correct for seven workers, where 1/n is not a power of two."""
    out = lab(workers=0).demo("--workers", 7, "--vector", 3001, "--op", op, "--format", form, "--mode", mode,
               *(STAGED.split() if pipeline == "staged" else []),
               *(FACTOR if op == "scale" else []))
    assert out["op"] == op
    floats = form in FLOATS and op not in ORDERED
    assert (out["max_ulp_error"] is not None) == floats
    if floats and (mode == "exact" or (mode, op) == ("fpisa64", "avg")):
        assert out["correctly_rounded"] == 1 and 0 < out["max_ulp_error"] <= 0.5


def test_averages_by_reciprocal(lab):
    """With the paper's reciprocal some averages are rounded wrong. With division no average is rounded wrong. The sums are the same."""
    exact = lab(workers=0).demo(*"--workers 7 --vector 20000 --op avg --mode exact --format fp32".split())
    rough = lab(workers=0).demo(*"--workers 7 --vector 20000 --op avg --mode exact --format fp32 --reciprocal".split())
    assert exact["correctly_rounded"] == 1 and rough["reciprocal"]
    assert 0.2 < rough["correctly_rounded"] < 0.8 and rough["max_ulp_error"] > 0.5


@pytest.mark.parametrize("form, mode, more", [
    ("fp16", "fpisa-a", ["--op", "avg"]), long("fp64", "fpisa64", ["--op", "norm"]),
    ("int32", "fpisa", ["--op", "max"]), ("fp32", "exact", ["--pipeline", "staged", "--loss", "0.05"])])
def test_big_endian(lab, form, mode, more):
    """A big-endian job has the same results as a little-endian job, bit for bit, and the same error."""
    options = ["--workers", 3, "--vector", 3001, "--format", form, "--mode", mode, *more]
    out = lab(workers=0).demo(*options, "--big-endian")
    assert out["big_endian"] is True
    if mode == "exact":
        assert out["max_abs_error"] == lab(workers=0).demo(*options)["max_abs_error"]


def test_order_does_not_matter(lab):
    """Above 16 workers no order of arrival is reported. min and max do not need the order."""
    for op in ORDERED:
        assert lab(workers=0).demo("--workers", 17, "--vector", 1000, "--op", op)["mismatches"] == 0


def test_refusals(lab):
    """An unknown option is refused in one line that names it. After options that conflict, the usage is printed too."""
    net = lab(workers=0)
    offered = [(op, f, m) for f in FLOATS + ["mxint8"] for m in MODES for op in ("min", "max", "norm")
               if f == "mxint8" or (op == "norm" and m == "exact")]
    offered += [(op, "int32", "fpisa") for op in ("avg", "scale", "norm")]
    for op, form, mode in offered:
        status, out, err = net.agg.try_run(FPISA, "demo", "--op", op, "--format", form, "--mode", mode,
                                           *(FACTOR if op == "scale" else []))
        assert (status, out, err) == (1, "", f"fpisa: --op: {op} of {form} in mode {mode} is not supported; choose another --op or --mode (doc/numbers.md)\n")
    for options, says in (
            ("--format int32 --mode fpisa64", "int32 does not have modes; leave --mode out"),
            ("--format int32 --mode exact", "int32 does not have modes; leave --mode out"),
            ("--format e4m3 --big-endian", "leave --big-endian out"),
            ("--format mxint8 --big-endian", "leave --big-endian out"),
            ("--format int32 --histogram", "leave --histogram out"),
            ("--mode exact --histogram", "leave --histogram out")):
        status, out, err = net.agg.try_run(FPISA, "demo", *options.split())
        assert (status, out) == (1, "") and says in err and len(err.splitlines()) == 1, err
    for options, says in (
            ("--op scale", "--factor is missing"), ("--factor 2", "--factor requires --op scale"),
            ("--op scale --factor 0", "finite number other than zero"), ("--op scale --factor x", "'x'"),
            ("--op scale --factor inf", "'inf'"), ("--op scale --factor nan", "'nan'"),
            ("--op scale --factor 1e300", "range of a float"), ("--op scale --factor 1e-300", "range of a float"),
            ("--reciprocal", "--reciprocal requires --op avg"), ("--op min --histogram", "--histogram requires"),
            ("--op norm --histogram", "--histogram requires"), ("--op mean", "'mean'")):
        status, out, err = net.agg.try_run(FPISA, "demo", *options.split())
        assert (status, out) == (2, "") and says in err.splitlines()[0], err
