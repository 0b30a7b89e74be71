#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure the time of an all-reduce for different places of the aggregators. All links are shaped.

    topology.py [--quick] [--keep FILE] [--only NAME,...]

The topologies and contenders are those of collective.py. A point of the grid is a vector size with a number of workers, a
rate, a queue, an MTU and a loss. In each round of a point FPISA sums once with each topology. The other contenders do not
use an aggregator and sum once, so all sums of a round take place close together. The grid does not contain all combinations.
Its rows are

    all sizes at N = 8, for which there are targets, with every topology; the largest size not with one port, which takes
    N S/rate;
    N = 2, 4 and 16 at three sizes, at rates that the CPUs of a small machine can carry;
    100 Mbit/s for 16 MB, which takes a minute per round, and for the time of steps if links are fast;
    1 Gbit/s, where the CPUs are the limit;
    a queue of 128 KB at each port, an MTU of 1500, and loss, for the sizes and topologies for which they matter.

K hosts add in addition to the workers' hosts with `everywhere-K`. Only separate hosts add with `dedicated-N`.

The output is a JSON line for each point. `ours` has the results by topology and `others` by contender, with the fields of
collective.py. --keep saves the points in FILE as they are measured. If a run with the same build is started again after an
interruption, it takes the saved points from FILE. The file is removed at the end of a complete run.
"""
import argparse
import contextlib
import hashlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import typing

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import collective  # noqa: E402
from collective import QUEUE, Setting, exit_on_signals, labs, own_mounts, quartiles  # noqa: E402

KB, MB = 1 << 10, 1 << 20
SHALLOW = 128 * KB
JUMBO, ETHERNET = 3506, 1500
WINDOW = 64
OURS = "fpisa"


class Point(typing.NamedTuple):
    """A vector size with the parameters of a network."""
    workers: int
    mtu: int
    rate_mbps: int
    queue_bytes: int
    loss: float
    bytes: int
    rounds: int
    topologies: tuple

    def at(self, topology="switch"):
        return Setting(topology, self.workers, self.rate_mbps)


def points(workers, rate, sizes, topologies, rounds=3, mtu=JUMBO, queue=QUEUE, loss=0):
    return [Point(workers, mtu, rate, queue, loss, size, rounds, tuple(topologies.split())) for size in sizes]


def grid(quick):
    """Return the points, ordered by stage."""
    if quick:
        return [*points(2, 20, (KB, 64 * KB), "switch one-port everywhere-1 dedicated-2 colocated", 1),
                *points(2, 20, (64 * KB,), "switch colocated", 1, queue=SHALLOW, loss=0.01)]
    hosts, few = "dedicated-8 everywhere-4 everywhere-2 everywhere-1", "dedicated-8 everywhere-4 colocated"
    return [*points(8, 20, (KB, 8 * KB, 64 * KB, MB), f"switch {hosts} colocated one-port", 5),
            *points(8, 20, (4 * MB,), f"switch {hosts} colocated", 5),
            *points(8, 100, (KB, 64 * KB, 16 * MB), f"switch {few}"),
            *points(8, 1000, (KB, MB, 16 * MB), f"switch {few} one-port"),
            *points(8, 20, (64 * KB, MB), f"switch {few} one-port", 5, queue=SHALLOW),
            *(p for loss in (0.001, 0.01) for p in points(8, 20, (64 * KB, MB), "switch dedicated-8 colocated", 5, loss=loss)),
            *points(8, 20, (KB, 64 * KB, MB, 4 * MB), "switch dedicated-8 everywhere-4 colocated", 5, mtu=ETHERNET),
            *points(2, 50, (KB, 64 * KB, 4 * MB), "switch dedicated-2 everywhere-1 colocated one-port"),
            *points(4, 20, (KB, 64 * KB, 4 * MB), "switch dedicated-4 everywhere-2 everywhere-1 colocated one-port"),
            *points(16, 10, (KB, 64 * KB), "switch dedicated-8 colocated one-port"),
            *points(16, 10, (MB,), "switch dedicated-8 colocated")]


class Bench:
    """A stage, which has the points with one number of workers and one MTU."""

    def __init__(self, stage, contenders):
        self.stage = stage
        self.ours, = (c for c in contenders if c.name == OURS)
        self.others = [c for c in contenders if c is not self.ours]
        self.chooser = collective.Bench(stage, contenders, None)

    def lay(self, point):
        """Set up the links of the point."""
        net = self.stage.net
        net.flood(point.workers)
        net.shape(point.rate_mbps, "switch", point.queue_bytes)
        net.lose(point.loss)

    def run(self, contender, at, point, algorithm=0):
        self.stage.net.shape_uplink(point.rate_mbps, at.topology, point.queue_bytes)
        return self.chooser.measured(contender, at, point.bytes, algorithm)

    def point(self, point):
        self.lay(point)
        chosen = {c: self.chooser.algorithm(c, point.at(), point.bytes) for c in self.others}
        turns = [(self.ours, t) for t in point.topologies] + [(c, "switch") for c in self.others]
        rounds = []
        for i in range(point.rounds):
            turn = i % len(turns)
            rounds.append({key(c, t): self.run(c, point.at(t), point, chosen.get(c, 0)) for c, t in turns[turn:] + turns[:turn]})
        return {**point._asdict(), "ring_s": point.at().ring_limit_s(point.bytes),
                "ours": {t: self.of_ours(point, t, rounds) for t in point.topologies},
                "others": {c.name: self.of_other(c, chosen[c], rounds) for c in self.others}}

    def of_ours(self, point, topology, rounds):
        at, runs = point.at(topology), [r[topology] for r in rounds]
        out = {**times(runs), "bound_s": round(at.byteps_s(point.bytes), 7), "limit_s": round(at.limit_s(point.bytes), 7),
               **collective.link_shares(at, point.bytes, self.stage.elements, runs)}
        if self.others:
            out.update(collective.faster([(r[topology].seconds, min(r[c.name].seconds for c in self.others)) for r in rounds]))
        return out

    @staticmethod
    def of_other(contender, algorithm, rounds):
        out = times([r[contender.name] for r in rounds])
        return {**out, "algorithm": collective.ALGORITHMS[algorithm]} if contender.name == "openmpi" else out


def key(contender, topology):
    """Return the name of a run within a round."""
    return topology if contender.name == OURS else contender.name


def times(runs):
    seconds = [r.seconds for r in runs]
    return {"seconds": round(statistics.median(seconds), 7), "seconds_quartiles": [round(q, 7) for q in quartiles(seconds)],
            **{name: round(statistics.median(getattr(r, name) for r in runs), 3) for name in ("busy", "waited", "dropped")}}


class Kept:
    """The saved lines of an interrupted run. The lines are used only if that run had the same build and the same contenders."""

    def __init__(self, path, names):
        self.path, self.lines = path, {}
        self.head = json.dumps({"build": built(), "contenders": names}) if path else None
        if path:
            self.read()

    def read(self):
        with contextlib.suppress(FileNotFoundError), open(self.path) as f:
            if f.readline().strip() == self.head:
                self.lines = {identity(x): x for x in (json.loads(text) for text in f if text.endswith("\n"))}
        self.write()

    def write(self):
        with open(self.path, "w") as f:
            f.write("".join(line + "\n" for line in (self.head, *map(json.dumps, self.lines.values()))))

    def add(self, line):
        if self.path:
            with open(self.path, "a") as f:
                f.write(json.dumps(line) + "\n")

    def done(self, points):
        """Remove these points, but keep points of another grid, because a run with --quick may have come between."""
        self.lines = {point: x for point, x in self.lines.items() if point not in points}
        if self.lines:
            self.write()
        elif self.path:
            os.remove(self.path)


def identity(line):
    """Return the point of a line."""
    return Point(**{**{name: line[name] for name in Point._fields}, "topologies": tuple(line["topologies"])})


def built():
    """Return the versions of the measured library and datapath."""
    total = hashlib.sha256()
    for path in labs.LIBRARY, labs.OBJECT:
        with open(path, "rb") as f:
            total.update(f.read())
    return total.hexdigest()


def measure(workers, mtu, wanted, names, keep):
    """Measure the points of one stage. Save and print each line immediately."""
    args = argparse.Namespace(workers=[workers], mtu=mtu, window=WINDOW, udp_gro="on", groups=False,
                              topologies=list(dict.fromkeys(t for p in wanted for t in p.topologies)))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stage = collective.Stage(args, folder)
        stack.callback(stage.close)
        bench = Bench(stage, stage.open(names))
        for point in wanted:
            line = bench.point(point)
            keep(line)
            print(json.dumps(line), flush=True)
        stage.net.fpisa("unload")  # the next stage has different pins


def main():
    p = argparse.ArgumentParser(prog="topology", description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="two workers, one round")
    p.add_argument("--keep", metavar="FILE", help="file in which an interrupted run keeps its points for the next run")
    p.add_argument("--only", default=",".join((OURS, "gloo", "openmpi", "mpich")), help="FPISA and these")
    args = p.parse_args()
    names = collective.installed(args.only)
    if OURS not in names:
        p.error(f"--only: without {OURS} there is nothing to compare; add it")
    exit_on_signals()
    own_mounts()
    kept = Kept(args.keep, names)
    wanted = grid(args.quick)
    for line in (kept.lines[point] for point in wanted if point in kept.lines):
        print(json.dumps(line), flush=True)
    missing = [point for point in wanted if point not in kept.lines]
    try:
        for (workers, mtu), stage in itertools.groupby(missing, lambda point: (point.workers, point.mtu)):
            measure(workers, mtu, list(stage), names, kept.add)
    except collective.Failure as e:
        print(f"topology: {e}", file=sys.stderr)
        return 1
    kept.done(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
