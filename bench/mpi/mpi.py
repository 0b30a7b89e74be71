#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""MPI_Allreduce of an unchanged program: preloaded, next to the best algorithm of Open MPI and of MPICH.

    mpi.py [--mpi NAME,...] [--workers N] [--rate MBIT] [--sizes BYTES,...] [--rounds R] [--seconds S]

Each rank is a network namespace on a bridge, and its link is shaped both ways as in
collective/. Every round runs allreduce.c under each MPI, once preloaded and once per
algorithm that the MPI offers, with all sizes in one run of mpirun. Rounds after the
first leave out algorithms that took more than twice the time of their MPI's best at every size. MPICH uses only
TCP, because it would find that these hosts share memory.

One JSON line per size and contender: seconds of a blocking call, and the rest of MPI_Iallreduce after computing for as
long as a blocking call takes. The figures are medians and quartiles over the rounds of the output of allreduce.c. An
MPI's figure is that of the algorithm with the best median. `faster` is the best MPI's time over ours with the same
MPI's program. The last line has crossover_bytes: the size from which on ours was never slower, by each MPI's program,
or null.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "collective")]

from common import exit_on_signals, labs, numbers, own_mounts, quartiles  # noqa: E402

import mpi as mpis  # noqa: E402
from collective import Network  # noqa: E402
from groups import Groups  # noqa: E402

SIZES = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20]
LONGEST_S = 300
END_S = 5
ALGORITHMS = {
    "openmpi": {name: {"OMPI_MCA_coll_tuned_use_dynamic_rules": 1, "OMPI_MCA_coll_tuned_allreduce_algorithm": n}
                for n, name in ((0, "its own choice"), (3, "recursive doubling"), (4, "ring"), (5, "segmented ring"),
                                (6, "Rabenseifner"))},
    "mpich": {name: {"MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": 0, "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": value}
              for value, name in (("auto", "its own choice"), ("recursive_doubling", "recursive doubling"),
                                  ("reduce_scatter_allgather", "Rabenseifner"))},
}
OURS = "preloaded"


class Failure(Exception):
    pass


class Bench:
    def __init__(self, args, folder, stack):
        self.args, self.folder = args, folder
        self.net = Network(args.workers, args.mtu)
        stack.callback(self.net.close)
        self.net.load()
        self.net.shape(args.rate)
        self.groups = Groups(self.net, folder, "without-key = yes")
        self.groups.serve()
        stack.callback(self.groups.close)
        self.hosts = mpis.Hosts(self.net, folder)
        self.programs = {m: mpis.compiled(m, os.path.join(HERE, "allreduce.c"), folder) for m in args.mpi}

    def run(self, mpi, algorithm):
        """Run mpirun once. Return {bytes: (seconds, exposed)}."""
        env = {"FPISA_MANAGER": labs.ADDRESS, "FPISA_MIN_BYTES": 0} if algorithm == OURS else ALGORITHMS[mpi][algorithm]
        argv, own = mpis.command(mpi, self.args.workers, self.folder, self.programs[mpi], self.args.seconds,
                                 *self.args.sizes, preload=algorithm == OURS, hosts=self.hosts, **env)
        p = self.hosts.space.spawn(*argv, env=own)
        latest, lines, err, status = threading.Timer(LONGEST_S, p.terminate), [], "", 0
        latest.start()
        try:
            while len(lines) < len(self.args.sizes) and (line := p.stdout.readline()):
                lines += [json.loads(line)] if line.startswith("{") else []
            _, err = p.communicate(timeout=END_S)
            status = p.returncode
        except subprocess.TimeoutExpired:
            pass  # MPICH's MPI_Finalize over TCP does not always return, preloaded or not
        finally:
            latest.cancel()
            labs.end(p)
        if status or "fpisa: " in err or len(lines) < len(self.args.sizes):
            raise Failure(f"{mpi}, {algorithm}: status {status}, {len(lines)} sizes\n{err}")
        print(f"mpi: {mpi}, {algorithm}: {lines}", file=sys.stderr, flush=True)
        return {x["bytes"]: (x["seconds"], x["exposed_s"]) for x in lines}

    def all(self):
        rounds, order = [], [(m, a) for m in self.args.mpi for a in (OURS, *ALGORITHMS[m])]
        for n in range(self.args.rounds):
            rounds.append({who: self.run(*who) for who in (order[::-1] if n % 2 else order)})
            order = order if n else [who for who in order if worth_it(rounds[0], *who)]
        return [{who: r[who] for who in order} for r in rounds]


def worth_it(results, mpi, algorithm):
    """Return whether to go on with ours, or with an algorithm that takes at most twice the time of its MPI's best at some size."""
    best = {size: min(t[size][0] for (m, a), t in results.items() if m == mpi and a != OURS)
            for size in results[mpi, algorithm]}
    return algorithm == OURS or any(seconds <= 2 * best[size] for size, (seconds, _) in results[mpi, algorithm].items())


def figures(rounds, who, size, k):
    return [r[who][size][k] for r in rounds]


def report(args, rounds):
    slower = {m: 0 for m in args.mpi}	# the largest size at which ours is slower
    for size in args.sizes:
        best = {m: min((a for who, a in rounds[0] if who == m and a != OURS),
                       key=lambda a: statistics.median(figures(rounds, (m, a), size, 0)))
                for m in args.mpi}
        for mpi in args.mpi:
            for algorithm in (OURS, best[mpi]):
                ours = algorithm == OURS
                line = {"bench": "mpi", "contender": ("fpisa-" if ours else "") + mpi, "workers": args.workers,
                        "rate_mbps": args.rate, "bytes": size, "rounds": args.rounds}
                if not ours:
                    line["algorithm"] = algorithm
                for name, k in (("seconds", 0), ("exposed_s", 1)):
                    values = figures(rounds, (mpi, algorithm), size, k)
                    line[name] = round(statistics.median(values), 7)
                    line[name + "_quartiles"] = [round(q, 7) for q in quartiles(values)]
                if ours:
                    faster = [min(r[m, best[m]][size][0] for m in args.mpi) / r[mpi, OURS][size][0] for r in rounds]
                    line["faster"] = round(statistics.median(faster), 3)
                    line["faster_quartiles"] = [round(q, 3) for q in quartiles(faster)]
                    if line["faster"] < 1:
                        slower[mpi] = size
                print(json.dumps(line), flush=True)
    after = {m: next((s for s in args.sizes if s > slower[m]), None) for m in args.mpi}
    print(json.dumps({"bench": "mpi", "crossover_bytes": after, "workers": args.workers, "rate_mbps": args.rate}))


def main():
    p = argparse.ArgumentParser(prog="mpi", description=__doc__.splitlines()[0])
    p.add_argument("--mpi", type=lambda text: text.split(","), default=mpis.MPIS, help="openmpi, mpich or both")
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--rate", type=int, default=200, help="Mbit/s")
    p.add_argument("--sizes", type=numbers, default=SIZES, help="bytes")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.3, help="for a size and way of calling, in a run")
    p.add_argument("--mtu", type=int, default=3506)
    args = p.parse_args()
    exit_on_signals()
    for m in args.mpi:
        why = mpis.lacking(m)
        if why:
            sys.exit(f"mpi: {why}")
    own_mounts()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        try:
            report(args, Bench(args, folder, stack).all())
        except Failure as e:
            print(f"mpi: {e}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
