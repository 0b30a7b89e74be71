#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compare MPI_Allreduce through the preloaded adapter with the best algorithms of Open MPI and MPICH.

    mpi.py [--doubles [--reproblas DIR]] [--mpi NAME,...] [--workers N] [--rate MBIT] [--sizes BYTES,...] [--rounds R] [--seconds S]

Each rank is a network namespace on a bridge, whose link is shaped in both directions as in collective/. Every round runs
allreduce.c under each MPI, once with the adapter and once for each algorithm of the MPI. One run of mpirun measures all
sizes. Rounds after the first skip algorithms that took more than twice the time of the best algorithm of the same MPI at
every size. MPICH uses only TCP, because otherwise it would detect that these hosts share memory.

The output is a JSON line for each size and contender. A line has the time of a blocking call, and the part of MPI_Iallreduce
that computing of the same length does not hide. The figures are medians and quartiles over the rounds of the output of
allreduce.c. The figure of an MPI is that of the algorithm with the best median.

With --doubles, doubles are summed instead of floats, and the adapter uses mode exact. In this case same.c also runs on 2, 3,
4 and 8 ranks of one host with each algorithm, and with several assignments of the same values to ranks. A line has the
number of different results, which is 1 if the bits depend neither on the algorithm nor on the assignment.

--reproblas, or the variable REPROBLAS, names a folder with the sources of ReproBLAS. Then each MPI also sums with the
reduction operator of ReproBLAS, with each algorithm.

`faster` is the time of the best MPI, divided by the time with the adapter in a program of the same MPI. The last line has
crossover_bytes for the programs of each MPI. crossover_bytes is the size from which on the adapter was never slower, or
null.
"""
import argparse
import contextlib
import glob
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
SAME_RANKS = 2, 3, 4, 8
MAPPINGS = 6
ALGORITHMS = {
    "openmpi": {name: {"OMPI_MCA_coll_tuned_use_dynamic_rules": 1, "OMPI_MCA_coll_tuned_allreduce_algorithm": n}
                for n, name in ((0, "its own choice"), (3, "recursive doubling"), (4, "ring"), (5, "segmented ring"),
                                (6, "Rabenseifner"))},
    "mpich": {name: {"MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": 0, "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": value}
              for value, name in (("auto", "its own choice"), ("recursive_doubling", "recursive doubling"),
                                  ("reduce_scatter_allgather", "Rabenseifner"))},
}
OURS, REPROBLAS = "preloaded", "ReproBLAS, "


def kind(algorithm):
    return algorithm if algorithm == OURS else REPROBLAS if algorithm.startswith(REPROBLAS) else ""


def algorithms(args, mpi, of):
    """Return the algorithms of a kind."""
    return [OURS] if of == OURS else [of + name for name in ALGORITHMS[mpi] if not of or args.reproblas]


# The prefix of a contender's name for each kind.
CONTENDERS = {OURS: "fpisa-", "": "", REPROBLAS: "reproblas-"}


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
        self.reproblas = {m: self.library(m) for m in args.mpi if args.reproblas}

    def library(self, mpi):
        """Compile reproblas.c with the sources of ReproBLAS. Return the path of the library."""
        path, source = os.path.join(self.folder, f"reproblas.{mpi}.so"), self.args.reproblas
        parts = [*glob.glob(f"{source}/src/binned/*.c"), f"{source}/src/binnedMPI/DOUBLE_BINNED.c", "-x", "c",
                 f"{source}/src/binnedMPI/DBDBADD.ccog"]
        p = subprocess.run([f"mpicc.{mpi}", "-O2", "-w", "-shared", "-fPIC", f"-I{source}/include", os.path.join(HERE, "reproblas.c"),
                            *parts, "-o", path, "-lm"], text=True, capture_output=True)
        if p.returncode:
            raise Failure(f"{source}: cannot build ReproBLAS's library for {mpi}\n{p.stderr}")
        return path

    def preload(self, mpi, algorithm):
        return self.reproblas[mpi] if kind(algorithm) == REPROBLAS else algorithm == OURS

    def env(self, mpi, algorithm):
        if algorithm != OURS:
            return ALGORITHMS[mpi][algorithm.removeprefix(REPROBLAS)]
        return {"FPISA_MANAGER": labs.ADDRESS, "FPISA_MIN_BYTES": 0, **({"FPISA_MODE": "exact"} if self.args.doubles else {})}

    def results(self, mpi, ranks, algorithm):
        """Return the results of same.c, one result for each mapping."""
        program = mpis.compiled(mpi, os.path.join(HERE, "same.c"), self.folder)
        out, err = mpis.run(self.net.worker[0], mpi, ranks, self.folder, program, *range(MAPPINGS),
                            preload=self.preload(mpi, algorithm), **self.env(mpi, algorithm))
        if "fpisa: " in err:
            raise Failure(f"{mpi}, {algorithm}: {err}")
        return out.split()

    def bits(self):
        """Print the number of different results of the same values over mappings and algorithms."""
        for mpi in self.args.mpi:
            for ranks in SAME_RANKS:
                for of, prefix in CONTENDERS.items():
                    names = algorithms(self.args, mpi, of)
                    results = [r for a in names for r in self.results(mpi, ranks, a)]
                    if names:
                        print(json.dumps({"bench": self.args.bench, "contender": prefix + mpi, "ranks": ranks, "mappings": MAPPINGS,
                                          "algorithms": len(names), "different": len(set(results))}), flush=True)

    def run(self, mpi, algorithm):
        """Run mpirun once. Return {bytes: (seconds, exposed)}."""
        argv, own = mpis.command(mpi, self.args.workers, self.folder, self.programs[mpi], "double" if self.args.doubles else "float",
                                 self.args.seconds, *self.args.sizes, preload=self.preload(mpi, algorithm), hosts=self.hosts,
                                 **self.env(mpi, algorithm))
        p = self.hosts.space.spawn(*argv, env=own)
        latest, lines, err, status = threading.Timer(LONGEST_S, p.terminate), [], "", 0
        latest.start()
        try:
            while len(lines) < len(self.args.sizes) and (line := p.stdout.readline()):
                lines += [json.loads(line)] if line.startswith("{") else []
            _, err = p.communicate(timeout=END_S)
            status = p.returncode
        except subprocess.TimeoutExpired:
            pass  # MPICH's MPI_Finalize over TCP does not always return, with or without the preloaded adapter
        finally:
            latest.cancel()
            labs.end(p)
        if status or "fpisa: " in err or len(lines) < len(self.args.sizes):
            raise Failure(f"{mpi}, {algorithm}: status {status}, {len(lines)} sizes\n{err}")
        print(f"mpi: {mpi}, {algorithm}: {lines}", file=sys.stderr, flush=True)
        return {x["bytes"]: (x["seconds"], x["exposed_s"]) for x in lines}

    def all(self):
        rounds, order = [], [(m, a) for m in self.args.mpi for of in CONTENDERS for a in algorithms(self.args, m, of)]
        for n in range(self.args.rounds):
            rounds.append({who: self.run(*who) for who in (order[::-1] if n % 2 else order)})
            order = order if n else [who for who in order if worth_it(rounds[0], *who)]
        return [{who: r[who] for who in order} for r in rounds]


def worth_it(results, mpi, algorithm):
    """Return whether to continue with an algorithm. At some size it must take at most twice the time of the best algorithm of
    the same kind and MPI.
    """
    best = {size: min(t[size][0] for (m, a), t in results.items() if m == mpi and kind(a) == kind(algorithm))
            for size in results[mpi, algorithm]}
    return any(seconds <= 2 * best[size] for size, (seconds, _) in results[mpi, algorithm].items())


def figures(rounds, who, size, k):
    return [r[who][size][k] for r in rounds]


def report(args, rounds):
    slower = {m: 0 for m in args.mpi}	# the largest size at which the adapter is slower
    for size in args.sizes:
        best = {(m, of): min((a for who, a in rounds[0] if who == m and kind(a) == of),
                             key=lambda a: statistics.median(figures(rounds, (m, a), size, 0)))
                for m in args.mpi for of in CONTENDERS if algorithms(args, m, of)}
        for (mpi, of), algorithm in best.items():
            ours = of == OURS
            line = {"bench": args.bench, "contender": CONTENDERS[of] + mpi, "workers": args.workers,
                    "type": "double" if args.doubles else "float", "rate_mbps": args.rate, "bytes": size, "rounds": args.rounds}
            if not ours:
                line["algorithm"] = algorithm.removeprefix(REPROBLAS)
            # With ReproBLAS, MPI itself performs MPI_Iallreduce.
            for name, k in (("seconds", 0), ("exposed_s", 1))[:1 if of == REPROBLAS else 2]:
                values = figures(rounds, (mpi, algorithm), size, k)
                line[name] = round(statistics.median(values), 7)
                line[name + "_quartiles"] = [round(q, 7) for q in quartiles(values)]
            if ours:
                faster = [min(r[m, best[m, ""]][size][0] for m in args.mpi) / r[mpi, OURS][size][0] for r in rounds]
                line["faster"] = round(statistics.median(faster), 3)
                line["faster_quartiles"] = [round(q, 3) for q in quartiles(faster)]
                if line["faster"] < 1:
                    slower[mpi] = size
            print(json.dumps(line), flush=True)
    after = {m: next((s for s in args.sizes if s > slower[m]), None) for m in args.mpi}
    print(json.dumps({"bench": args.bench, "crossover_bytes": after, "workers": args.workers, "rate_mbps": args.rate}))


def main():
    p = argparse.ArgumentParser(prog="mpi", description=__doc__.splitlines()[0])
    p.add_argument("--doubles", action="store_true", help="doubles, in mode exact, and whether their bits are the same")
    p.add_argument("--reproblas", default=os.environ.get("REPROBLAS"), help="sources of ReproBLAS, whose operator then sums doubles too")
    p.add_argument("--mpi", type=lambda text: text.split(","), default=mpis.MPIS, help="openmpi, mpich or both")
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--rate", type=int, default=200, help="Mbit/s")
    p.add_argument("--sizes", type=numbers, default=SIZES, help="bytes")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.3, help="for a size and way of calling, in a run")
    p.add_argument("--mtu", type=int, default=3506)
    args = p.parse_args()
    args.bench = "mpi-exact" if args.doubles else "mpi"
    args.reproblas = args.doubles and args.reproblas
    exit_on_signals()
    for m in args.mpi:
        why = mpis.lacking(m)
        if why:
            sys.exit(f"mpi: {why}")
    own_mounts()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        try:
            bench = Bench(args, folder, stack)
            report(args, bench.all())
            if args.doubles:
                bench.bits()
        except Failure as e:
            print(f"mpi: {e}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
