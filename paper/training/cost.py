#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure the cost of a sum at a worker that trains, as CPU time per value and as samples per second with a CPU quota.

    cost.py BUILD [--models mlp,vgg] [--workers 2] [--quotas 0,50,25] [--rounds 5] [--steps 20] [--data mnist] [--record FILE]

Workers are processes in network namespaces, the aggregator is in XDP, and all share this machine's CPUs. Links are veths
without shaping. NAPI is threaded at both ends of each link, so that the aggregator's work is not charged to a worker. A
quota limits the process of a worker, in per cent of a CPU. 0 means no quota. The contenders none, fpisa and switchml
(cost_rank.py) take turns in each round. The output is a line of JSON for each network, quota and contender, with medians and
quartiles over rounds. `throttled` is the share of periods in which the quota stopped a worker. This share is 0 if other
processes' work hides the quota. The program needs root.
"""
import argparse
import contextlib
import datetime
import json
import os
import signal
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(TOP, part) for part in ("bench", "bench/report")]

import data as images  # noqa: E402
import replica  # noqa: E402
from plan import NETWORKS  # noqa: E402
from quota import Quota  # noqa: E402
from sweep import machine, words, write  # noqa: E402

CONTENDERS = "none", "fpisa", "switchml"
CHUNK = 256  # number of values in a frame, and number of values with a common exponent
JOBS = [(1, ["--mode", "fpisa"]), (2, ["--format", "int32", "--big-endian"]), (3, ["--format", "int32"])]


class Ranks:
    """Workers that load and join together, and then take orders."""

    def __init__(self, net, model, args):
        from lab import ADDRESS, LIBRARY, PORT
        jobs = [(job, PORT + i) for i, (job, _) in enumerate(JOBS)]
        plan = json.dumps({"model": model, "workers": len(net.worker), "data": args.data, "chunk": CHUNK, "jobs": jobs,
                           "downloads": os.path.join(args.build, "training"),
                           "library": os.path.join(args.build, "bench", "libquantise.so")})
        self.processes = [w.spawn(sys.executable, "-B", os.path.join(HERE, "cost_rank.py"), ADDRESS, r, plan,
                                  stdin=subprocess.PIPE, env={**os.environ, "FPISA_LIBRARY": LIBRARY})
                          for r, w in enumerate(net.worker)]
        self.parameters = self.answers()[0]["parameters"]

    def answers(self):
        lines = [p.stdout.readline() for p in self.processes]
        ended = [f"worker {r} ended: {p.stderr.read().strip()}" for r, (p, line) in enumerate(zip(self.processes, lines)) if not line]
        if ended:
            raise RuntimeError("\n".join(ended))
        return [json.loads(line) for line in lines]

    def order(self, **order):
        for p in self.processes:
            with contextlib.suppress(BrokenPipeError):  # answers() reports the reason
                p.stdin.write(json.dumps(order) + "\n")
                p.stdin.flush()
        return self.answers()

    def close(self):
        from lab import end
        for p in self.processes:
            with contextlib.suppress(BrokenPipeError):
                p.stdin.close()
            end(p)


def thread_napi(net):
    for space, dev in [*((net.agg, p) for p in net.ports), *((w, "eth0") for w in net.worker)]:
        space.run("unshare", "-m", "sh", "-ec", f"mount -t sysfs x /sys; echo 1 > /sys/class/net/{dev}/threaded")


def one_round(ranks, quotas, contender, steps):
    """Combine the figures of all ranks and return them."""
    before = [q.periods() for q in quotas]
    said = ranks.order(contender=contender, steps=steps)
    after = [q.periods() for q in quotas]
    samples, values = steps * len(said) * replica.BATCH, steps * len(said) * ranks.parameters
    periods, stopped = (sum(b[i] - a[i] for a, b in zip(before, after)) for i in (0, 1))
    return {"samples_per_s": samples * 1e9 / (max(a["ended_ns"] for a in said) - min(a["began_ns"] for a in said)),
            "sum_ns_per_value": sum(a["sum_s"] for a in said) * 1e9 / values,
            "cpu_ms_per_sample": sum(a["sum_s"] + a["gradient_s"] for a in said) * 1e3 / samples,
            "throttled": stopped / periods if periods else 0.0}


def measure(net, model, args):
    """Measure all quotas and contenders for one network."""
    from common import quartiles
    with contextlib.ExitStack() as stack:
        ranks = Ranks(net, model, args)
        quotas = []
        stack.callback(lambda: [q.close() for q in quotas])
        stack.callback(ranks.close)
        for p in ranks.processes:
            quotas.append(Quota(p.pid))
        for percent in args.quotas:
            for q in quotas:
                q.set(percent)
            rounds = {c: [] for c in CONTENDERS}
            for _ in range(args.rounds):
                for c in CONTENDERS:
                    rounds[c].append(one_round(ranks, quotas, c, args.steps))
            for c in CONTENDERS:
                line = {"model": model, "parameters": ranks.parameters, "workers": len(net.worker), "quota_percent": percent,
                        "contender": c, "rounds": args.rounds, "steps": args.steps}
                figures = {key: [r[key] for r in rounds[c]] for key in rounds[c][0]}
                if c == "fpisa":
                    figures.update({name: [a[key] / b[key] for a, b in zip(rounds[c], rounds["switchml"])] for name, key in (
                        ("sum_to_switchml", "sum_ns_per_value"), ("samples_to_switchml", "samples_per_s"))})
                for key, values in figures.items():
                    line[key] = round(statistics.median(values), 4)
                    line[key + "_quartiles"] = [round(v, 4) for v in quartiles(values)]
                yield line


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    p = argparse.ArgumentParser(prog="paper/training/cost.py", description=__doc__.splitlines()[0])
    p.add_argument("build", metavar="BUILD", type=os.path.abspath)
    p.add_argument("--models", type=words(("mlp", *NETWORKS)), default=["mlp", "vgg"])
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--quotas", type=numbers, default=[0, 50, 25])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--data", default="mnist")
    p.add_argument("--record", metavar="FILE", help="file to which the lines are also written, in place of its contents")
    args = p.parse_args()
    if os.geteuid():
        p.error("network namespaces and XDP require root; run as root")
    os.environ["FPISA_BUILD"] = args.build
    from common import labs, own_mounts
    from run import busy
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # remove the groups of quotas
    own_mounts()
    # before the namespaces are entered, because only here there is a route
    images.load(args.data, os.path.join(args.build, "training"))
    lines = [{**machine(), "date": datetime.date.today().isoformat(), "busy": busy(2), "command": " ".join(sys.argv[2:])}]
    net = labs.Lab(args.workers)
    try:
        net.load()
        thread_napi(net)
        for i, (job, options) in enumerate(JOBS):
            net.add_job(job, *options, "--elements", CHUNK, workers=[f"{a}:{labs.PORT + i}" for a in net.addresses])
        print(json.dumps(lines[0]), flush=True)
        for model in args.models:
            for line in measure(net, model, args):
                lines.append(line)
                print(json.dumps(line), flush=True)
    finally:
        net.close()
    if args.record:
        write(args.record, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
