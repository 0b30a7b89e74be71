#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run all measurements one after the other, and write JSON lines, plots and the summary of the targets.

    run.py [--quick] [--out DIR] BUILD [arith|endian|query|pruning|wire|steer|worker|collective|allreduce|topology|mpi|mpi-exact|training|training-colocated|training-exact|training-large|sum|sums|reproducible|merge|engines...]

The program writes results.jsonl, pictures (report/plot.py) and summary.txt (report/summary.py) into BUILD/bench or DIR, and
prints the summary. The first line of results.jsonl describes the machine. The line after each part has the duration of the part, and how
busy other processes were before it. Files of an earlier run are removed first, so that all files come from one run. But
topology continues where it was interrupted. --quick only shows that all parts work, and its figures are meaningless. If a
part fails, the other parts still run, and the exit status is 1.
"""
import argparse
import ctypes
import datetime
import glob
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "report"), HERE]

import engines  # noqa: E402
import grid  # noqa: E402
import plot  # noqa: E402
import reproducible  # noqa: E402
import summary  # noqa: E402
import sums  # noqa: E402
from common import exit_on_signals  # noqa: E402

PR_SET_PDEATHSIG = 1

# The command of a part, and the options that --quick adds.
PARTS = {
    "arith": ("{build}/fpisa bench arith --json", "--rounds 9 --cpus 1"),
    "endian": ("{build}/bench/endian", "--rounds 1"),
    "query": ("{build}/bench/query", "--rounds 1 --rows 100000"),
    "pruning": (f"{sys.executable} -B {HERE}/pruning.py", "--workers 2 --rows 20000 --rounds 1"),
    "wire": ("{build}/bench/contenders wire", "--runs 1 --workers 2 --vector 100000"),
    "steer": (f"{sys.executable} -B {HERE}/steer.py", "--rounds 1 --elements 64 --values 20000"),
    "worker": ("{build}/bench/contenders worker", "--runs 1 --vector 100000"),
    "collective": (f"{sys.executable} -B {HERE}/collective/collective.py --topologies switch,one-port",
                   "--rounds 1 --workers 2 --rates 100 --sizes 1024,65536"),
    "allreduce": (f"{sys.executable} -B {HERE}/collective/collective.py --topologies switch --workers 8 --sizes 1024,16777216",
                  "--rounds 1 --workers 2 --rates 100 --sizes 1024,65536"),
    "topology": (f"{sys.executable} -B {HERE}/collective/topology.py --keep {{folder}}/topology-kept.jsonl", "--quick"),
    "mpi": (f"{sys.executable} -B {HERE}/mpi/mpi.py", "--rounds 1 --workers 2 --sizes 8,65536 --seconds 0.1"),
    "mpi-exact": (f"{sys.executable} -B {HERE}/mpi/mpi.py --doubles", "--rounds 1 --workers 2 --sizes 8,65536 --seconds 0.1"),
    "training": (f"{sys.executable} -B {HERE}/training/training.py",
                 "--rounds 1 --steps 1 --workers 2 --rates 1000 --models mlp --formats fp32"),
    "training-colocated": (f"{sys.executable} -B {HERE}/training/training.py --topologies colocated --rates 50,200 --formats fp32 --only fpisa,gloo",
                           "--rounds 1 --steps 1 --workers 2 --rates 1000 --models mlp"),
    "training-exact": (f"{sys.executable} -B {HERE}/training/training.py --topologies switch,colocated --rates 100 --models mlp-10m --formats fp32 "
                       "--only fpisa,fpisa-exact,gloo --rounds 7 --steps 1", "--rounds 1 --workers 2 --rates 1000 --models mlp"),
    "training-large": (f"{sys.executable} -B {HERE}/training/training.py --topologies switch,colocated --rates 1000,100 --models mlp-10m,mlp-100m "
                       "--formats fp32 --only fpisa,fpisa-exact,gloo --rounds 3 --steps 1", "--rounds 1 --workers 2 --rates 1000 --models mlp"),
    "sum": (f"{sys.executable} -B {HERE}/sum.py", "--rounds 1 --rows 100000"),
    "sums": (f"{sys.executable} -B {HERE}/sums.py", "--rounds 1 --sizes 1000,100000 --elements 100000"),
    "reproducible": (f"{sys.executable} -B {HERE}/reproducible.py", "--runs 3 --rows 100000 --partitions 1,4"),
    "merge": (f"{sys.executable} -B {HERE}/merge.py", "--rounds 1 --cases 2:1000"),
    "engines": (f"{sys.executable} -B {HERE}/engines.py", "--rows 20000 --scale 0.01 --workers 2 --rates 1000 --runs 1"),
}


def machine():
    with open("/proc/cpuinfo") as f:
        models = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    now = datetime.datetime.now().astimezone()
    return {"bench": "machine", "cpu": models[0] if models else platform.machine(), "cpus": os.cpu_count(),
            "kernel": platform.release(), "date": now.isoformat(timespec="seconds")}


def busy(seconds):
    """Return the share of CPU time that is not idle. If none of our processes runs, this is the share of other processes."""
    def ticks():
        with open("/proc/stat") as f:
            t = list(map(int, f.readline().split()[1:9]))
        return t[3] + t[4], sum(t)

    idle, total = ticks()
    time.sleep(seconds)
    now_idle, now_total = ticks()
    return round(1 - (now_idle - idle) / max(1, now_total - total), 3)


def measure(name, command, build, keep, look_s):
    """Run one part. Pass its results, and the share of CPU time that other processes had before, to keep(). Return whether the
    part succeeded.
    """
    others = busy(look_s)
    began = time.monotonic()
    try:
        p = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "FPISA_BUILD": build},
                             preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM))
    except OSError as e:
        print(f"bench: {name}: {e.filename}: {e.strerror}; run make", file=sys.stderr)
        return False
    try:
        for line in p.stdout:
            keep({"bench": name, **json.loads(line)})
        status = p.wait()
    except BaseException:
        p.terminate()
        p.wait()
        raise
    how = "" if status == 0 else f", status {status}"
    keep({"bench": "part", "part": name, "seconds": round(time.monotonic() - began, 1), "busy": others})
    print(f"bench: {name}: {time.monotonic() - began:.0f} s{how}", file=sys.stderr, flush=True)
    return status == 0


def main():
    p = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="run only enough to show that everything works")
    p.add_argument("--out", metavar="DIR")
    p.add_argument("build", metavar="BUILD")
    p.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS) + "; by default all")
    args = p.parse_args()
    unknown = [name for name in args.parts if name not in PARTS]
    if unknown:
        p.error(f"{unknown[0]}: no such part; the parts are {', '.join(PARTS)}")
    if os.geteuid():
        p.error("network namespaces and XDP require root; run as root")
    exit_on_signals()
    build = os.path.abspath(args.build)
    folder = args.out or os.path.join(build, "bench")
    os.makedirs(folder, exist_ok=True)
    for kind in ("*.svg", "*.png", "results.jsonl", "summary.txt"):
        for old in glob.glob(os.path.join(glob.escape(folder), kind)):
            os.remove(old)
    results, good = [], True
    with open(os.path.join(folder, "results.jsonl"), "w") as out:
        def keep(line):
            results.append(line)
            out.write(json.dumps(line) + "\n")
            out.flush()

        keep({**machine(), "quick": args.quick})
        for name in args.parts or PARTS:
            command, quick = PARTS[name]
            command = command.format(build=shlex.quote(build), folder=shlex.quote(folder)) + (" " + quick if args.quick else "")
            good &= measure(name, command, build, keep, 0.1 if args.quick else 2)
    good &= plot.draw(results, folder)
    text = summary.table(results) + sums.tables(results) + reproducible.tables(results) + engines.tables(results) + grid.tables(results)
    with open(os.path.join(folder, "summary.txt"), "w") as out:
        out.write(text)
    print(text, end="")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
