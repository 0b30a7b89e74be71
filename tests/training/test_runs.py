# SPDX-License-Identifier: GPL-2.0-only
"""Test training runs. A second run has the same bits, each arm uses the addition that it names, and a sweep continues where it stopped."""
import argparse
import contextlib
import json
import math
import multiprocessing
import os
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="python3-torch is not installed; run make training")

import arms  # noqa: E402
import data  # noqa: E402
import errors  # noqa: E402
import plan  # noqa: E402
import rationals  # noqa: E402
import sweep as sweep_module  # noqa: E402
import train  # noqa: E402
from conftest import BUILD  # noqa: E402

PROGRAM = os.path.join(BUILD, "fpisa")
EVENTS = "rounded", "overwritten", "left_shifted", "overflowed"
SAME = "weights", "accuracy", "loss", "flags", "samples", "steps"


@pytest.fixture(scope="module")
def noise():
    return data.noise(320)


def run(noise, model="vgg", format="fp32", arm="default", seed=1):
    return train.run(plan.Settings("noise", model, format, arm, seed, 2), noise, PROGRAM)


# -- bits -----------------------------------------------------------------------

@pytest.mark.parametrize("model, format, arm", [("vgg", "fp32", "exact"), ("mobilenetv2", "fp16", "fpisa-a")])
def test_a_second_run_has_the_same_bits(noise, model, format, arm):
    first, second = (run(noise, model, format, arm) for _ in range(2))
    assert [first[k] for k in SAME] == [second[k] for k in SAME] and first["steps"] == 4
    assert run(noise, model, format, arm, seed=2)["weights"] != first["weights"]


def test_arms_differ(noise):
    """A different arm ends with different weights, and raises only the flags that its mode can raise."""
    records = {arm: run(noise, "resnet", arm=arm) for arm in plan.ARMS}
    assert len({r["weights"] for r in records.values()}) == len(plan.ARMS)
    assert not records["default"]["flags"] and not records["reversed"]["flags"]
    assert records["fpisa-a"]["flags"]["INEXACT"] == 4 and "OVERWRITE" not in records["fpisa"]["flags"]
    assert "OVERFLOW" not in records["exact"]["flags"]
    for arm in plan.MODES:
        assert [s["adds"] for s in records[arm]["samples"]] == [7 * records[arm]["parameters"]] * 2
    assert all(s["overwritten"] == s["rounded"] == 0 for s in records["exact"]["samples"])


@pytest.mark.parametrize("dtype, words, format", [
    (np.float32, np.uint32, rationals.FP32), (np.float16, np.uint16, rationals.Format("fp16", 5, 10, 32))])
def test_totals(rng, monkeypatch, dtype, words, format):
    """Each arm's sums of random gradients, in parts of several frames, equal sums in Python, and so do the counts. The Python sums are made
    by additions one by one, rounded once from the exact sum, or follow doc/numbers.md in the order of the ranks."""
    monkeypatch.setattr(arms, "ELEMENTS", 256)
    monkeypatch.setattr(arms, "WINDOW", 2)
    values = np.array([[rng.gauss(0, 1) * 2.0 ** -rng.randrange(20) for _ in range(1000)] for _ in range(8)], dtype)

    def one_by_one(column):
        total = column[0]
        for v in column[1:]:
            total = dtype(float(total) + float(v))  # binary64 holds the exact sum of two float32 values, so this rounds once
        return total

    expected = {"default": [one_by_one(c) for c in values.T], "reversed": [one_by_one(c[::-1]) for c in values.T],
                "exact": [dtype(math.fsum(map(float, c))) for c in values.T]}
    for mode, number in ("fpisa", rationals.FPISA), ("fpisa-a", rationals.FPISA_A):
        found = [rationals.element(rationals.Case(format, number, rationals.DOWN, list(map(int, c))))
                 for c in values.view(words).T]
        expected[mode] = np.array([f[0] for f in found], words).view(dtype)
        counts = errors.adds(list(values), mode, format.name, PROGRAM)
        assert [counts[k] for k in EVENTS] == [sum(f[2 + i] for f in found) for i in range(len(EVENTS))]
        assert counts["overwritten"] or (mode, dtype) != ("fpisa-a", np.float32)
    for arm, sums in expected.items():
        adder = arms.make(arm, format.name, 8)
        total, _ = adder.total(list(values))
        adder.close()
        assert total.dtype == dtype and (total == np.array(sums, dtype)).all(), arm


# -- errors -----------------------------------------------------------------------

def test_errors():
    """The errors of these values are known: zero, 2^-24 relative, a lost sum, a sum of zero."""
    gradients = [np.array([1, 1, 1e-3, 1], "f4"), np.array([1, 2.0**-24, 0, -1], "f4")]
    total = np.array([2, 1, 0, 0], "f4")
    found = errors.against_truth(gradients, total)
    assert found == {"elements": 4, "absolute": {"none": 2, "-8": 1, "-3": 1}, "relative": {"none": 1, "-8": 1, "0": 1}}
    special = errors.against_truth([np.array([6e4], "f2")] * 2, np.array([np.inf], "f2"))
    assert special["absolute"] == {"special": 1}


def test_adds():
    """A small value before a value beyond the headroom is overwritten. Equal values are not overwritten."""
    gradients = [np.array(v, "f4") for v in ([1e-6, 1], [1, 1])]
    assert errors.adds(gradients, "fpisa-a", "fp32", PROGRAM) == \
        {"adds": 2, "rounded": 0, "overwritten": 1, "left_shifted": 0, "overflowed": 0}
    assert errors.adds(gradients, "exact", "fp32", PROGRAM)["overwritten"] == 0


# -- a sweep -------------------------------------------------------------------------

def test_sweep_goes_on(sweep, tmp_path):
    """A run that is recorded, even in another file, is not done again. A truncated line does not count as a run."""
    first, second = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    assert "2 runs, 0 of them are in" in sweep(first, "--arms", "default,exact", "--processes", "2")
    with open(first) as f:
        whole = f.read()
    with open(first, "w") as f:
        f.write(whole.splitlines(True)[0] + whole.splitlines()[1][:50])
    assert "2 runs, 1 of them are in" in sweep(first, "--arms", "default,exact", "--minutes", "0.0001")
    said = sweep(first, "--arms", "default,exact", "--processes", "2")
    assert "training: 2/2 vgg" in said and "1 runs in" in said
    with open(first) as f:
        again = [json.loads(line) for line in f]
    assert sorted(r["weights"] for r in again) == sorted(json.loads(line)["weights"] for line in whole.splitlines())
    said = sweep(second, "--arms", "default,exact", "--also", first, "--compare", first)
    assert "2 runs, 2 of them are in" in said and "the same bits" not in said  # both sweeps name the same runs
    with open(second) as f:
        assert len(f.readlines()) == 2
    said = sweep(str(tmp_path / "c.jsonl"), "--arms", "default", "--compare", first)
    assert f"of 1 runs that {first} has too 1 ended with the same bits" in said


def test_records_are_one_sweep_s(tmp_path):
    """A second sweep gets an error about the first sweep. If a line is broken, the error names it."""
    path = tmp_path / "r.jsonl"
    one = sweep_module.Records(str(path))
    with pytest.raises(SystemExit, match="another sweep is writing .*r.jsonl; wait"):
        sweep_module.Records(str(path))
    del one
    path.write_text("{}\n{\n{}\n")
    with pytest.raises(SystemExit, match=r"r\.jsonl:2: .*remove the line"):
        sweep_module.read(str(path))


def test_a_process_dies(tmp_path, monkeypatch, capsys):
    """If a process dies before it has received its order, the other process continues, and the sweep says which runs are left."""
    started = []

    def start(args, pipes):
        ours, theirs = multiprocessing.Pipe()
        dies = not started

        def process():
            theirs.send(None)
            with contextlib.suppress(EOFError):
                while not dies:
                    settings = plan.Settings(*theirs.recv())
                    theirs.send({"experiment": plan.EXPERIMENT, **settings._asdict(), "accuracy": [0.0], "seconds": 0.0})
            theirs.close()

        started.append(threading.Thread(target=process, daemon=True))
        started[-1].exitcode = -9
        pipes[ours] = started[-1]
        started[-1].start()
        if dies:
            started[-1].join()

    monkeypatch.setattr(sweep_module, "start", start)
    todo = [plan.Settings("noise", "vgg", "fp32", arm, 1, 1) for arm in ("default", "exact", "fpisa")]
    records = sweep_module.Records(str(tmp_path / "r"))
    assert not sweep_module.sweep(argparse.Namespace(minutes=None, processes=2), todo, records)
    said = capsys.readouterr()
    assert "a process ended with status -9" in said.err and "2 runs in" in said.out and "1 left" in said.out
    assert len(records.all) == 2


def test_sweep_ends_where_a_process_comes_late(tmp_path, monkeypatch):
    """Do not replace the first process if it has finished all runs before the second process becomes ready."""
    ended, started = threading.Event(), []

    def start(args, pipes):
        ours, theirs = multiprocessing.Pipe()
        late = bool(started)

        def process():
            if late:
                ended.wait()
            theirs.send(None)
            with contextlib.suppress(EOFError):
                while True:
                    settings = plan.Settings(*theirs.recv())
                    theirs.send({"experiment": plan.EXPERIMENT, **settings._asdict(), "accuracy": [0.0], "seconds": 0.0})
            ended.set()

        assert len(started) < 2
        started.append(threading.Thread(target=process, daemon=True))
        pipes[ours] = started[-1]
        started[-1].start()

    monkeypatch.setattr(sweep_module, "start", start)
    todo = [plan.Settings("noise", "vgg", "fp32", arm, 1, 1) for arm in ("default", "exact")]
    assert sweep_module.sweep(argparse.Namespace(minutes=None, processes=2), todo,
                              sweep_module.Records(str(tmp_path / "r")))
    assert len(started) == 2


def test_sweep_refuses(sweep, tmp_path):
    assert "there is no data_batch_1" in sweep(str(tmp_path / "r"), "--data", f"cifar10:{tmp_path}", status=1)
    (tmp_path / "data_batch_1").write_bytes(b"")
    assert "data_batch_1 is not a CIFAR-10 file (EOFError" in sweep(str(tmp_path / "r"), "--data", f"cifar10:{tmp_path}", status=1)
    for seeds in ("11", "2-1", "0-3"):
        assert f"{seeds} is not a seed or a range of seeds; the seeds are 1 to 10" in sweep(str(tmp_path / "r"), "--seeds", seeds, status=2)
    assert "gloo is not known; choose from default, reversed" in sweep(str(tmp_path / "r"), "--arms", "gloo", status=2)
