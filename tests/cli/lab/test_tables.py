# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa tables` prints every function in every format, within the function's limits, with the kernel's bits."""
import json
import os
import subprocess

import pytest

from lab import FPISA


def tables(*argv):
    return subprocess.run([FPISA, "tables", *argv], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report():
    done = tables("--samples", "20000", "--seed", "7", "--json")
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


def test_errors(report):
    rows = {(r["function"], r["format"]): r for r in report["functions"]}
    assert len(rows) == len(report["functions"]) == 4 * 5
    for (function, form), row in rows.items():
        assert row["relative"]["error"] < 0.01 and row["entries"] < 2000 and row["wrong"] == 0
        inputs = {"fp32": 20000, "e4m3": 1 << 8, "e5m2": 1 << 8}.get(form, 1 << 16)
        if function != "multiply":
            assert row["inputs"] == inputs
        if form != "fp32":
            assert row["nearest"] == row["finite"] > 0 and row["packed_ulp"]["error"] <= 0.5
    assert rows["multiply", "e4m3"]["inputs"] == 1 << 16
    assert rows["multiply", "fp16"]["inputs"] > 1 << 20
    assert rows["multiply", "fp32"]["table"] is None


def test_kernel(report):
    if report["kernel"] is None:
        assert os.geteuid() != 0
        pytest.skip("loading BPF programs needs root")
    assert report["kernel"]["compared"] > 0 and report["kernel"]["differ"] == 0


def test_same_seed_same_report():
    assert tables("--samples", "5000", "--seed", "9").stdout == tables("--samples", "5000", "--seed", "9").stdout


def test_refuses():
    for argv, says in ((["--samples", "0"], "not a number"), (["--seed", "x"], "not a number"), (["9"], "unexpected argument '9'")):
        done = tables(*argv)
        assert done.returncode == 2 and not done.stdout and says in done.stderr.splitlines()[0]
