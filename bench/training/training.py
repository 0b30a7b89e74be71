#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure the time of a training step with DistributedDataParallel over shaped links.

    training.py [--rates 50,200,1000] [--models mlp,cnn] [--formats fp32,fp16] [--rounds R] [--steps K] [--only NAME,...]
                [--topologies switch,colocated]

The network is the same as in ../collective. Each rank is in a namespace, and all links are connected to a bridge and shaped
in both directions, except for the aggregator's link. With `colocated` there is no separate aggregator. Each worker's host
adds, and the first host runs the manager. Results are coalesced where they enter the bridge (`udp_gro`). Contenders are in
the same processes, each with a copy of the model, and train in turns:

fpisa       the process group of adapters/torch
fpisa-exact the same in mode exact; runs only if --only names it
fpisa-hook  the communication hook of adapters/python
gloo        PyTorch's own
openmpi     MPI_Allreduce in a hook, by the algorithm that is fastest at the rate for the largest bucket; without float16
switchml    like a SwitchML worker; FPISA sums exponents, and then int32 that C code quantises; float32 only

The output is a JSON line for each point, with medians per step. `step_ms` is the time from the first rank's start to the
last rank's end, `cpu_ms` the CPU time of a rank's process, and `all_cpu_ms` the CPU time of the whole machine, which has all
ranks, the aggregators and the kernel's share. For fpisa and fpisa-exact, `gloo` is Gloo's time divided
by ours in the same round. For fpisa-exact, `fpisa` is its time divided by that of fpisa in the same round.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "collective")]

from collective import ALGORITHMS, Failure, Network, cpu_times, mpi_agent, mpi_command  # noqa: E402
from common import HEADERS, exit_on_signals, labs, numbers, own_mounts, quartiles, runnable  # noqa: E402

RANK = os.path.join(HERE, "rank.py")
ANSWER_S, START_S = 300, 300
CONTENDERS = ["fpisa", "fpisa-hook", "gloo", "openmpi", "switchml"]
HALF = ["fpisa", "fpisa-exact", "fpisa-hook", "gloo"]  # contenders that can sum float16
TRIALS = 2
LARGEST = {"mlp": 1 << 20, "mlp-10m": 3125 * 3125, "mlp-100m": 9963 * 9963, "cnn": 56 << 10}  # number of values in the largest bucket
PASSED = ["GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS", "FPISA_MANAGER", "FPISA_LIBRARY", "PYTHONPATH"]  # variables that mpirun passes to ranks


def missing(name):
    """Return the name of a contender's missing dependency, or None."""
    if name == "openmpi":
        if not shutil.which("mpirun"):
            return "openmpi-bin"
        if not importlib.util.find_spec("mpi4py"):
            return "python3-mpi4py"
    return None


class Stage:
    """The network, the aggregator, its manager, and the ranks."""

    def __init__(self, args, topology, names, folder):
        self.args, self.topology, self.names, self.folder = args, topology, names, folder
        self.pins = os.path.join(folder, "pins")  # a BPF filesystem for pins of several aggregators
        os.mkdir(self.pins)
        labs.mount(b"bpf", self.pins, b"bpf")
        self.net = Network(args.workers, args.mtu, pins=self.pins)
        self.udp_gro = self.net.put_together("on")
        self.ranks = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(folder, "control"))
        self.listener.listen(64)
        self.listener.settimeout(0.5)

    def open(self):
        """Start the ranks before links are shaped. Then creating the models and training them once takes little time."""
        self.net.flood(self.args.workers)
        manager = self.net.serve(self.topology == "colocated", self.folder)
        points = {f: [n for n in self.names if f == "fp32" or n in HALF] for f in self.args.formats}
        plan = {"world": self.args.workers, "contenders": self.names, "models": self.args.models, "points": points,
                "elements": (self.args.mtu - (HEADERS - 14)) // 128 * 32, "algorithms": list(ALGORITHMS),
                "meeting": f"tcp://{self.net.addresses[0]}:29500", "rank": 0,
                "quantise": os.path.join(labs.BUILD, "bench", "libquantise.so")}
        env = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "FPISA_MANAGER": manager,
               "FPISA_LIBRARY": labs.LIBRARY, "PYTHONPATH": os.path.join(labs.BUILD, "torch")}
        command = [sys.executable, "-B", RANK, self.listener.getsockname()]
        with open(os.path.join(self.folder, "log"), "w+") as log:
            files = {"stdout": log, "stderr": log, "env": env}
            if "openmpi" in self.names:
                agent = mpi_agent(self.net, self.folder)
                started = [self.net.switch.spawn(*mpi_command(self.net, self.folder, agent, PASSED), *command,
                                                 json.dumps(plan), **files)]
            else:
                started = [w.spawn(*command, json.dumps({**plan, "rank": r}), **files)
                           for r, w in enumerate(self.net.worker)]
            try:
                self.muster(started)
            except Failure as e:
                log.seek(0)
                raise Failure(f"{e}\n{log.read()}") from None

    def muster(self, started):
        """Wait until every rank has connected and is ready."""
        ranks, deadline = {}, time.monotonic() + START_S
        while len(ranks) < self.args.workers:
            try:
                control = self.listener.accept()[0]
            except TimeoutError:
                if time.monotonic() > deadline or any(p.poll() is not None for p in started):
                    raise Failure(f"only {len(ranks)} of {self.args.workers} ranks started; see the messages above") from None
                continue
            control.settimeout(ANSWER_S)
            lines = control.makefile("rw")
            ranks[json.loads(lines.readline())["rank"]] = lines
        self.ranks = [ranks[r] for r in range(self.args.workers)]
        self.answers()

    def answers(self):
        found = []
        for r, rank in enumerate(self.ranks):
            try:
                line = rank.readline()
            except TimeoutError:
                raise Failure(f"rank {r}: no answer in {ANSWER_S} s; is another program using the CPUs?") from None
            found.append(json.loads(line) if line else {"error": "ended"})
            if "error" in found[-1]:
                raise Failure(f"rank {r}: {found[-1]['error']}")
        return found

    def order(self, **order):
        """Give an order to all ranks. Return the seconds from the first rank's start to the last rank's end, and the answers of
        all ranks.
        """
        for rank in self.ranks:
            rank.write(json.dumps(order) + "\n")
            rank.flush()
        answers = self.answers()
        return (max(a["end_ns"] for a in answers) - min(a["start_ns"] for a in answers)) / 1e9, answers

    def train(self, name, model, format, steps):
        """Return the time per step, the CPU time of a rank per step, and that of the machine, in seconds."""
        before = cpu_times()[0]
        seconds, answers = self.order(do="train", contender=name, model=model, format=format, steps=steps)
        used = (cpu_times()[0] - before) / os.sysconf("SC_CLK_TCK")
        if len({a["first"] for a in answers}) != 1:
            raise Failure(f"{name}, {model}, {format}: ranks have different weights; please report this bug")
        return seconds / steps, statistics.mean(a["cpu_s"] for a in answers) / steps, used / steps

    def choose(self, model):
        """Choose the algorithm of Open MPI that is fastest for the largest bucket."""
        times = {a: min(self.order(do="algorithm", number=a, count=LARGEST[model])[0] for _ in range(TRIALS)) for a in ALGORITHMS}
        best = min(times, key=times.get)
        self.order(do="algorithm", number=best, count=0)
        return ALGORITHMS[best]

    def close(self):
        self.net.close()
        self.listener.close()
        labs.unmount(self.pins)


def ratio(name, ratios):
    return {name: round(statistics.median(ratios), 3), f"{name}_quartiles": [round(q, 3) for q in quartiles(ratios)]}


def measure(stage, args, mbit, model, format, algorithm):
    """Measure all rounds of one point. Print a line for each contender."""
    names = [n for n in stage.names if format == "fp32" or n in HALF]
    for n in names:
        stage.train(n, model, format, 1)
    rounds = []
    for i in range(args.rounds):
        turn = i % len(names)
        rounds.append({n: stage.train(n, model, format, args.steps) for n in names[turn:] + names[:turn]})
    for n in names:
        times = [1e3 * r[n][0] for r in rounds]
        line = {"model": model, "format": format, "mbit": mbit, "topology": stage.topology, "contender": n, "workers": args.workers,
                "rounds": args.rounds, "step_ms": round(statistics.median(times), 3),
                "quartiles": [round(q, 3) for q in quartiles(times)],
                "cpu_ms": round(1e3 * statistics.median(r[n][1] for r in rounds), 3),
                "all_cpu_ms": round(1e3 * statistics.median(r[n][2] for r in rounds), 3)}
        if n == "openmpi":
            line["algorithm"] = algorithm
        if n.startswith("fpisa"):
            line["udp_gro"] = stage.udp_gro
        if n in ("fpisa", "fpisa-exact") and "gloo" in names:
            line.update(ratio("gloo", [r["gloo"][0] / r[n][0] for r in rounds]))
        if n == "fpisa-exact" and "fpisa" in names:
            line.update(ratio("fpisa", [r[n][0] / r["fpisa"][0] for r in rounds]))
        print(json.dumps(line), flush=True)


def measure_topology(args, topology, names):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stage = Stage(args, topology, names, folder)
        stack.callback(stage.close)
        stage.open()
        for mbit in args.rates:
            stage.net.shape(mbit)
            for model in args.models:
                algorithm = stage.choose(model) if "openmpi" in stage.names else None
                for format in args.formats:
                    measure(stage, args, mbit, model, format, algorithm)


def main():
    p = argparse.ArgumentParser(prog="training", description=__doc__.splitlines()[0])
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--rates", type=numbers, default=[50, 200, 1000], help="Mbit/s")
    p.add_argument("--models", type=lambda s: s.split(","), default=["mlp", "cnn"])
    p.add_argument("--formats", type=lambda s: s.split(","), default=["fp32", "fp16"])
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--steps", type=int, default=2, help="of a turn")
    p.add_argument("--topologies", type=lambda s: s.split(","), default=["switch"], help="where the aggregators are: switch, colocated")
    p.add_argument("--only", default=",".join(CONTENDERS))
    p.add_argument("--mtu", type=int, default=3506)
    args = p.parse_args()
    if not os.path.exists(os.path.join(labs.BUILD, "torch", "built")):
        print("training: build/torch does not exist; run make torch", file=sys.stderr)
        return 1
    exit_on_signals()
    own_mounts()
    names = runnable("training", args.only, missing)
    try:
        for topology in args.topologies:
            measure_topology(args, topology, names)
    except Failure as e:
        print(f"training: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
