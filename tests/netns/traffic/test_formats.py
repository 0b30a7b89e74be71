# SPDX-License-Identifier: GPL-2.0-only
"""Run every format in every mode over real packets with `fpisa demo`. Check how such jobs are shown."""
import os
import re

import pytest

from lab import ADDRESS, FPISA, TOP

pytestmark = pytest.mark.families("ipv4", why="`fpisa demo` has IPv4 addresses; tests/prog has the bits, and test_ipv6.py the frames")

FORMATS = ["fp32", "fp16", "bf16", "fp64", "e4m3", "e5m2"]
MODES = ["fpisa", "fpisa-a", "fpisa64", "exact"]
PIPELINES = [("fused", "bits", 0.05), ("staged", "lpm", 0)]


def pairs():
    """Return each format with each mode, in one of the two pipelines, such that each format and each mode has both. The long suite has the
    other combinations. tests/prog/test_ops checks the bits. This test checks the path of real packets."""
    for i, form in enumerate(FORMATS):
        for k, mode in enumerate(MODES):
            for n, pipeline in enumerate(PIPELINES):
                yield pytest.param(form, mode, *pipeline, marks=[pytest.mark.long] * ((i + k + n) % 2))


@pytest.mark.parametrize("form, mode, pipeline, clz, loss", pairs())
def test_pairs(lab, form, mode, pipeline, clz, loss):
    """Use random values, because the gradients vanish in the smallest formats."""
    out = lab(workers=0).demo("--workers", 8, "--vector", 5001, "--format", form, "--mode", mode, "--pipeline", pipeline,
                              "--clz", clz, "--loss", loss)
    assert (out["format"], out["mode"]) == (form, mode)
    assert out["rounding"] == ("nearest" if mode in ("fpisa64", "exact") else "down")
    assert out["max_ulp_error"] > 0 and (mode != "exact" or out["max_ulp_error"] <= 0.5)
    assert (out["rounded"] > 0) == (mode in ("fpisa", "fpisa-a") or (form, mode) == ("fp64", "fpisa64"))


def test_exact_above_sixteen_workers(lab):
    """Above sixteen workers no order of arrival is reported. Mode exact does not need the order."""
    lab(workers=0).demo("--workers", 17, "--vector", 1000, "--mode", "exact")


def test_not_offered(lab):
    status, out, err = lab(workers=0).agg.try_run(FPISA, "demo", "--format", "fp64", "--mode", "exact", "--elements", 160)
    assert status == 1 and out == "" and "up to 128" in err and len(err.splitlines()) == 1
    status, out, err = lab(workers=0).agg.try_run(FPISA, "demo", "--format", "fp64", "--elements", 448)
    assert status == 1 and "up to 416" in err


def test_shown(lab):
    net = lab(workers=2)
    net.load()
    net.add_job(1, "--format", "bf16", "--mode", "fpisa64")
    net.add_job(2, "--format", "fp64")
    shown = net.json("job", "show", 1)
    assert (shown["format"], shown["mode"], shown["rounding"]) == ("bf16", "fpisa64", "nearest")
    assert shown["guard"] == 64 - 1 - (7 + 1) - 1 and shown["elements"] == 256
    assert f"format bf16, {shown['guard']} guard bits" in net.fpisa("job", "show", 1)
    shown = net.json("job", "show", 2)
    assert (shown["rounding"], shown["guard"], shown["elements"]) == ("down", 0, 128)
    assert "guard" not in net.fpisa("job", "show", 2)
    rows = [line.split() for line in net.fpisa("job", "list").splitlines()]
    shown = [dict(zip(rows[0], row)) for row in rows[1:]]
    assert [(j["job"], j["format"], j["mode"]) for j in shown] == [("1", "bf16", "fpisa64"), ("2", "fp64", "fpisa")]


def test_memory_of_exact(lab):
    """`job add` and `job show` print the amount of memory for the superaccumulators of fp64 that doc/numbers.md states."""
    net = lab(workers=2)
    net.load()
    command = "job", "add", 1, "--workers", ",".join(net.addresses), "--address", ADDRESS, "--format", "fp64", "--mode", "exact"
    for options, elements, window in ((), 128, 64), (("--elements", 64, "--window", 16), 64, 16):
        kb = 2 * window * elements * 65 * 8 // 1024
        assert net.fpisa(*command, *options) == f"job 1: its superaccumulators take {kb} KB\n"
        assert re.search(rf"^limbs +{kb} KB of superaccumulators$", net.fpisa("job", "show", 1), re.M)
        shown = net.json("job", "show", 1)
        assert (shown["elements"], shown["window"], shown["mode"], shown["rounding"]) == (elements, window, "exact", "nearest")
        net.fpisa("job", "del", 1)
    with open(os.path.join(TOP, "doc", "numbers.md")) as f:
        said = " ".join(f.read().split())
    assert "has 65 limbs (520 bytes), so a chunk of fp64 has at most 128 elements, the default. A job with a window of 64 takes 8.3 MB" in said
