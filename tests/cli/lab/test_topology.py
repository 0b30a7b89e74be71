# SPDX-License-Identifier: GPL-2.0-only
"""Test bench/collective/topology.py: its grid, and the results that it keeps from an unfinished run."""
import itertools
import json
import os
import sys

import pytest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path[:0] = [os.path.join(TOP, "bench", "collective")]

import topology  # noqa: E402
from collective import Setting  # noqa: E402


@pytest.mark.parametrize("quick", (False, True))
def test_grid(quick):
    """No point or stage occurs twice, and each stage has only valid parameters."""
    points = topology.grid(quick)
    assert len(set(points)) == len(points)
    stages = [key for key, _ in itertools.groupby(points, lambda p: (p.workers, p.mtu))]
    assert len(set(stages)) == len(stages)
    for p in points:
        for at in map(p.at, p.topologies):
            assert not at.several() or at.aggregators() + at.workers * at.everywhere() <= 16
            assert at.aggregators() <= at.workers


def test_axes():
    """The grid has all points that the benchmark must show."""
    points = topology.grid(False)
    assert {p.workers for p in points} == {2, 4, 8, 16} and {p.loss for p in points} == {0, 0.001, 0.01}
    assert {1 << 10, 4 << 20, 16 << 20} <= {p.bytes for p in points} and max(p.rate_mbps for p in points) == 1000
    assert {p.queue_bytes for p in points} == {128 << 10, 1 << 20} and {p.mtu for p in points} == {1500, 3506}
    eight = {t for p in points if p.workers == 8 for t in p.topologies}
    assert eight == {"switch", "one-port", "colocated", "everywhere-1", "everywhere-2", "everywhere-4", "dedicated-8"}


@pytest.mark.parametrize("name, vectors", [
    ("switch", 1), ("dedicated-8", 1), ("everywhere-4", 112 / 88), ("everywhere-1", 112 / 70), ("colocated", 1.75), ("one-port", 112 / 70)])
def test_bound(name, vectors):
    """The bound is BytePS's bound for 8 workers: 2 x 8 x 7 / (64 + 8k - 2k) times S/rate."""
    assert Setting(name, 8, 8).byteps_s(1000000) == pytest.approx(vectors)


def line(point):
    return {**point._asdict(), "ours": {}, "others": {}}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return a function that makes the stored results of a given build and contenders."""
    def make(build, names=("fpisa", "gloo")):
        monkeypatch.setattr(topology, "built", lambda: build)
        return topology.Kept(str(tmp_path / "kept.jsonl"), list(names))

    return make


def test_kept(kept, tmp_path):
    """Points of the same build and contenders are kept. Points of others are measured again."""
    first, second = topology.grid(False)[:2]
    kept("a").add(line(first))
    again = kept("a")
    assert again.lines == {first: json.loads(json.dumps(line(first)))}
    again.add(line(second))
    assert set(kept("a").lines) == {first, second}
    assert kept("a", ("fpisa",)).lines == {} and kept("a").lines == {}
    kept("b").add(line(first))
    assert kept("a").lines == {}
    kept("a").add(line(second))
    kept("a").done([first])
    assert set(kept("a").lines) == {second}
    kept("a").done([second])
    assert os.listdir(tmp_path) == []


def test_kept_in_the_middle_of_a_line(kept, tmp_path):
    """A truncated last line does not keep the next run from using the earlier points."""
    first = topology.grid(False)[0]
    kept("a").add(line(first))
    with open(tmp_path / "kept.jsonl", "a") as f:
        f.write('{"workers": 8, "mt')
    assert set(kept("a").lines) == {first}
