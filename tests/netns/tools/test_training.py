# SPDX-License-Identifier: GPL-2.0-only
"""Training through XDP (training/network.py): eight processes, each with a replica, and the bits of transport `mem`."""
import json
import os
import subprocess
import sys

import pytest

from lab import BUILD, LIBRARY, TOP

torch = pytest.importorskip("torch", reason="python3-torch is not installed; `make training` installs it")

os.environ["FPISA_LIBRARY"] = LIBRARY
sys.path[:0] = [os.path.join(TOP, part) for part in ("training", "adapters/python", "bench")]

import network  # noqa: E402
import plan  # noqa: E402

STEPS, DATA = 2, "noise:320"


def test_exact_has_the_bits_of_mem(lab, tmp_path):
    net = lab(workers=8)
    net.load()
    settings = plan.Settings("noise", "vgg", "fp32", "exact", 1, 1)
    found = network.compare(net, settings, STEPS, DATA, str(tmp_path))
    assert found["ranks_agree"] and found["same_bits_as_mem"], found
    assert found["workers"] == 8 and found["steps"] == STEPS and "INEXACT" in found["flags"]


def test_program(tmp_path):
    """As its user runs it: a line a run."""
    out = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, "-B",
                          os.path.join(TOP, "training", "network.py"), BUILD, "--steps", "1", "--models", "mobilenetv2",
                          "--formats", "fp16", "--data", DATA], check=True, capture_output=True, text=True).stdout
    line = json.loads(out)
    assert line["same_bits_as_mem"] and (line["model"], line["arm"], line["steps"]) == ("mobilenetv2", "exact", 1)


def test_cost(tmp_path):
    """Every contender under a quota that stops it; what is recorded is what is printed."""
    library, record = os.path.join(BUILD, "bench", "libquantise.so"), tmp_path / "cost.jsonl"
    if not os.path.exists(library):
        pytest.skip(f"{library} is not there; make test-build")
    p = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, "-B",
                        os.path.join(TOP, "training", "cost.py"), BUILD, "--models", "vgg", "--quotas", "0,10", "--rounds", "1",
                        "--steps", "3", "--data", DATA, "--record", record], capture_output=True, text=True)
    if "cgroup" in p.stderr:
        pytest.skip(f"no group for a quota can be made: {p.stderr.strip().splitlines()[-1]}")
    assert p.returncode == 0, p.stderr
    lines = [json.loads(line) for line in p.stdout.splitlines()][1:]
    assert record.read_text() == p.stdout
    expected = [(q, c) for q in (0, 10) for c in ("none", "fpisa", "switchml")]
    assert [(x["quota_percent"], x["contender"]) for x in lines] == expected
    assert all(x["throttled"] == 0 for x in lines[:3]) and any(x["throttled"] > 0 for x in lines[3:])
    assert all(x["sum_ns_per_value"] > 1 and x["samples_per_s"] > 0 for x in lines if x["contender"] != "none")
