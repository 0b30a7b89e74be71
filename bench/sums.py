#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compare exact sums in Python with other sums.

The output is a JSON line for each measurement, with the CPU time of one thread in ns per element.

    sums.py [--sizes N,...] [--rounds R] [--elements N]

Installed engines take part: numpy, math.fsum, xsum (Neal), DuckDB's sum, fsum and kahan_sum. `make doors` installs all of them
into BUILD/doors, whose interpreter then runs this program. If FPISA_REPROBLAS names a shared object with
reproBLAS_dsum(), this function takes part too. The data are `uniform` (0 to 1), `signed` (normal), `wide` (normal times
2^-100 to 2^100) and `cancelling`. The values of `cancelling` are normal, and the sum of their magnitudes is the condition
number times their sum. BUILD/bench/gather measures the cost of memory accesses alone for sums by keys.

    sums.py --table RESULTS.jsonl      # the tables of bench/README.md
"""
import argparse
import ctypes
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
DOORS = os.path.join(BUILD, "doors", "bin", "python3")
GROUPS = (1, 100, 1000000)
CONDITIONS = (1e8, 1e16, 1e20, 1e32)
SLOW = 1000000  # maximum number of elements for engines that make a Python object for each element


def enter():
    """Continue in the interpreter that has the engines, if it is installed. Find the package fpisa of this tree."""
    if os.path.exists(DOORS) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.join(BUILD, "doors")):
        os.execv(DOORS, [DOORS, "-B", *sys.argv])
    os.environ["FPISA_SUMS"] = os.path.join(BUILD, "python", "libsums.so")
    sys.path.insert(0, os.path.join(TOP, "adapters", "python"))


def engines():
    """Return {name: (function of an array, maximum number of elements)}."""
    import numpy
    import fpisa
    found = {"fpisa.sum": (fpisa.sum, None), "numpy.sum": (numpy.sum, None), "math.fsum": (math.fsum, SLOW)}
    try:
        import xsum

        def large(x):
            state = xsum.xsum_large_accumulator()
            xsum.xsum_init(state)
            xsum.xsum_add(state, x)
            return xsum.xsum_round(state)
        found["xsum large"] = (large, None)
    except ImportError:
        pass
    if os.environ.get("FPISA_REPROBLAS"):
        dsum = ctypes.CDLL(os.environ["FPISA_REPROBLAS"]).reproBLAS_dsum
        dsum.restype, dsum.argtypes = ctypes.c_double, [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        found["ReproBLAS"] = (lambda x: dsum(len(x), x.ctypes.data, 1), None)
    try:
        import duckdb
        import pyarrow
        for name in "sum", "fsum", "kahan_sum":
            def ask(x, name=name):
                t = pyarrow.table({"x": x})  # noqa: F841
                return duckdb.sql(f"SELECT {name}(x) FROM t").fetchall()[0][0]
            found["duckdb " + name] = (ask, None)
        duckdb.execute("SET threads = 1")
    except ImportError:
        pass
    return found


def make(kind, n, rng, condition=1e20):
    import numpy
    if kind == "uniform":
        return rng.random(n)
    x = rng.standard_normal(n)
    if kind == "wide":
        return numpy.ldexp(x, rng.integers(-100, 100, n))
    if kind == "cancelling":
        x[n // 2:] = -x[:n - n // 2]
        x[0], x[n // 2] = numpy.abs(x).sum() / condition, 0
    return x


def measure(call, x, rounds):
    """Return the CPU time in ns per element as median and minimum."""
    repeat, taken = max(1, 100000 // len(x)), []
    call(x)
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(repeat):
            call(x)
        taken.append((time.process_time() - began) / repeat / len(x) * 1e9)
    return round(statistics.median(taken), 3), round(min(taken), 3)


def compare(args, x, **labels):
    """Measure every engine on the same array."""
    for name, (call, most) in engines().items():
        if most is None or len(x) <= most:
            median, least = measure(call, x, args.rounds)
            yield {"call": name, "n": len(x), **labels, "ns": median, "least": least}


def arrays(args, rng):
    for n in args.sizes:
        for kind in ("uniform", "signed", "wide") if n <= 1000000 else ("uniform", "signed"):
            yield from compare(args, make(kind, n, rng), data=kind)
    for condition in CONDITIONS:
        n = min(1000000, max(args.sizes))
        yield from compare(args, make("cancelling", n, rng, condition), data="cancelling", condition=condition)


def by_groups(args, rng):
    import numpy
    import fpisa
    x = rng.standard_normal(args.elements)
    for groups in GROUPS:
        codes = rng.integers(0, groups, len(x))
        calls = {"fpisa keys": lambda x: fpisa._groups._sums(runs(x), codes.ctypes.data, groups, fpisa._formats.FORMATS["float64"], False),
                 "fpisa.sum by=": lambda x: fpisa.sum(x, by=codes), "numpy.bincount": lambda x: numpy.bincount(codes, x, groups)}
        for name, call in calls.items():
            median, least = measure(call, x, args.rounds)
            yield {"call": name, "n": len(x), "groups": groups, "data": "signed", "ns": median, "least": least}
        bare = json.loads(subprocess.run([os.path.join(BUILD, "bench", "gather"), str(len(x)), str(groups), str(args.rounds)], check=True,
                                         stdout=subprocess.PIPE).stdout)
        for name, ns in bare.items():
            yield {"call": "memory, " + name, "n": len(x), "groups": groups, "data": "random", "ns": ns, "least": ns}


def runs(x):
    from fpisa import _values
    return [run for block in _values.values(x).blocks for run in block.runs()]


def table(lines, rows, columns):
    """Return a Markdown table with a row for each of `rows` and a column for each call. Missing figures are `-`."""
    found = {(row, x["call"]): x["ns"] for x in lines for row in [rows(x)] if row}
    calls = [c for c in dict.fromkeys(call for _, call in found) if columns(c)]
    out = ["| values | " + " | ".join(calls) + " |", "|---" * (len(calls) + 1) + "|"]
    for row in dict.fromkeys(row for row, _ in found):
        cells = (found.get((row, c)) for c in calls)
        out.append(f"| {row} | " + " | ".join("-" if v is None else f"{v:.0f}" if v >= 10 else f"{v:.2g}" for v in cells) + " |")
    return "\n".join(out)


def tables(results):
    """Return the tables of bench/README.md, or nothing if there are no results of this part."""
    lines = [x for x in results if x["bench"] == "sums"]
    if not lines:
        return ""

    def what(x):
        condition = f", condition number {x['condition']:.0e}" if "condition" in x else ""
        return None if "groups" in x else f"{x['n']:,}, {x['data']}{condition}"

    return "\n".join(["CPU time of one thread in ns per element of float64:", "", table(lines, what, lambda c: True), "", "By keys:", "",
                      table(lines, lambda x: f"{x['n']:,}, keys: {x['groups']:,}" if "groups" in x else None, lambda c: True), ""])


def main():
    p = argparse.ArgumentParser(prog="sums", description=__doc__.splitlines()[0])
    p.add_argument("--sizes", type=lambda s: [int(n) for n in s.split(",")], default=[1000, 1000000, 100000000])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--elements", type=int, default=10000000, help="elements of a measurement by keys")
    p.add_argument("--table", metavar="RESULTS.jsonl", help="print the tables of bench/README.md of an earlier run's results")
    args = p.parse_args()
    if args.table:
        with open(args.table) as f:
            print(tables([json.loads(line) for line in f]), end="")
        return
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, frame: sys.exit(128 + number))
    enter()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import numpy
    rng = numpy.random.default_rng(42)
    for part in arrays, by_groups:
        for line in part(args, rng):
            print(json.dumps({"bench": "sums", **line}), flush=True)


if __name__ == "__main__":
    main()
