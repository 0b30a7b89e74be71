# SPDX-License-Identifier: GPL-2.0-only
"""Train through XDP (paper/training/network.py) with eight processes, each with a replica. The bits are those of transport `mem`."""
import json
import os
import subprocess
import sys

import pytest

from lab import BUILD, LIBRARY, TOP, children, wait_until

torch = pytest.importorskip("torch", reason="python3-torch is not installed; run make training")

os.environ["FPISA_LIBRARY"] = LIBRARY
sys.path[:0] = [os.path.join(TOP, part) for part in ("paper/training", "adapters/python", "bench")]

import network  # noqa: E402
import plan  # noqa: E402
from quota import V1, V2  # noqa: E402

STEPS, DATA = 2, "noise:320"


def test_exact_has_the_bits_of_mem(lab, tmp_path):
    net = lab(workers=8)
    net.load()
    settings = plan.Settings("noise", "vgg", "fp32", "exact", 1, 1)
    found = network.compare(net, settings, STEPS, DATA, str(tmp_path))
    assert found["ranks_agree"] and found["same_bits_as_mem"], found
    assert found["workers"] == 8 and found["steps"] == STEPS and "INEXACT" in found["flags"]


@pytest.mark.long
def test_program(tmp_path):
    """The program prints a line for the machine and a line for each run. The records equal the output."""
    record = tmp_path / "network.jsonl"
    out = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, "-B",
                          os.path.join(TOP, "paper", "training", "network.py"), BUILD, "--steps", "1", "--models", "mobilenetv2",
                          "--formats", "fp16", "--data", DATA, "--record", record], check=True, capture_output=True,
                         text=True).stdout
    assert record.read_text() == out
    machine, line = map(json.loads, out.splitlines())
    assert machine["cpus"] and machine["date"]
    assert line["same_bits_as_mem"] and (line["model"], line["arm"], line["steps"]) == ("mobilenetv2", "exact", 1)


COST = ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", os.path.join(TOP, "paper", "training", "cost.py"), BUILD,
        "--models", "vgg", "--quotas", "0,10", "--steps", "3", "--data", DATA]


@pytest.fixture
def quantise():
    library = os.path.join(BUILD, "bench", "libquantise.so")
    if not os.path.exists(library):
        pytest.skip(f"{library} is not there; make test-build")


@pytest.mark.long
def test_cost(quantise, tmp_path):
    """Every contender runs under a quota that throttles it. The records equal the output."""
    record = tmp_path / "cost.jsonl"
    p = subprocess.run([*COST, "--rounds", "1", "--record", record], capture_output=True, text=True)
    if "cgroup" in p.stderr:
        pytest.skip(f"no group for a quota can be made: {p.stderr.strip().splitlines()[-1]}")
    assert p.returncode == 0, p.stderr
    lines = [json.loads(line) for line in p.stdout.splitlines()][1:]
    assert record.read_text() == p.stdout
    expected = [(q, c) for q in (0, 10) for c in ("none", "fpisa", "switchml")]
    assert [(x["quota_percent"], x["contender"]) for x in lines] == expected
    assert all(x["throttled"] == 0 for x in lines[:3]) and any(x["throttled"] > 0 for x in lines[3:])
    assert all(x["sum_ns_per_value"] > 1 and x["samples_per_s"] > 0 for x in lines if x["contender"] != "none")
    assert all(x["sum_to_switchml"] > 0 and x["samples_to_switchml"] > 0 for x in lines if x["contender"] == "fpisa")


@pytest.mark.long
def test_cost_is_stopped(quantise):
    """If the program that measures cost is stopped, its control groups are removed too."""
    with subprocess.Popen([*COST, "--rounds", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as p:
        def groups():
            return [g for pid in children(p.pid) for v in (V1, V2) for g in [os.path.join(v, f"fpisa-training-{pid}")]
                    if os.path.exists(g)]

        try:
            made = wait_until("groups", lambda: g if len(g := groups()) == 2 else p.poll(), 60)
        finally:
            p.terminate()
        said = p.stderr.read()
    if "cgroup" in said:
        pytest.skip(f"no group for a quota can be made: {said.strip().splitlines()[-1]}")
    assert len(made) == 2 and not any(map(os.path.exists, made))
