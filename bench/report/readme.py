#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write the figures of speed, which are medians of several runs of run.py with their spread.

    readme.py run BUILD [--runs N] [--busy]	do N runs, 3 by default, and then the same as `take`
    readme.py take [--busy] DIR...		use existing runs, the output of run.py in each DIR
    readme.py topology [--busy] DIR		use the benchmark by topology of an existing run
    readme.py write				write the tables and pictures from bench/report/figures.json and topology.jsonl

`make bench-figures` is the first command, which runs the parts in the table three times. The figures go to
bench/report/figures.json. From this file the program writes the table in bench/README.md, its first rows in README.md, and
the picture doc/pictures/allreduce.svg. Figures are never written by hand (tests/tree/test_figures.py). Results of `make
bench BENCH=topology` go to bench/report/topology.jsonl. From this file the program writes the table in bench/README.md and
doc/pictures/topology.svg. A run during which the machine did other work is refused. With --busy the run is used
nevertheless, and the tables say so.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import textwrap

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(HERE)
sys.path.insert(0, BENCH)

import grid  # noqa: E402
import plot  # noqa: E402
import summary  # noqa: E402
from common import exit_on_signals  # noqa: E402
from contenders import NAMES  # noqa: E402

TOP = os.path.dirname(BENCH)
RECORD = os.path.join(HERE, "figures.json")
POINTS = os.path.join(HERE, "topology.jsonl")
README = os.path.join(TOP, "README.md")
PAGE = os.path.join(BENCH, "README.md")
FIRST = 4  # number of rows of the table in README.md
PICTURE = os.path.join(TOP, "doc", "pictures", "allreduce.svg")
TOPOLOGIES = os.path.join(TOP, "doc", "pictures", "topology.svg")
FIGURES = "<!-- make bench-figures -->\n", "<!-- end of figures -->\n"
GRID = '<!-- make bench BENCH="topology training-colocated" -->\n', "<!-- end of topologies -->\n"
IDLE = 0.05  # maximum share of CPU time of other processes
LARGE, SMALL, WORKERS = 16 << 20, 1 << 10, 8

# The options of `make bench BENCH=...`, a description, figures in bench/report/figures.json, and their formats.
ROWS = [
    ("allreduce", "all-reduce of 16 MB, 8 workers, 100 Mbit/s: share of a worker's link rate",
     ["collective.100.share"], "{:.2f}"),
    ("allreduce", "all-reduce of 16 MB, 8 workers, 100 Mbit/s: how many times faster than the best of Open MPI and Gloo",
     ["collective.100.faster"], "{:.2f}"),
    ("allreduce", "all-reduce of 1 KB, 8 workers, 100 Mbit/s, in ms: FPISA; Open MPI; Gloo",
     ["small.fpisa", "small.openmpi", "small.gloo"], "{:.1f}"),
    ("worker", "CPU time of a worker, relative to a SwitchML-style worker: 256; 832 values per frame",
     ["worker.udp.256", "worker.udp.832"], "{:.2f}"),
    ("worker", "CPU time of a worker over AF_XDP, relative to a SwitchML-style worker: 256; 832 values per frame",
     ["worker.xsk.256", "worker.xsk.832"], "{:.2f}"),
    ("allreduce", "all-reduce of 16 MB, 8 workers, 1 Gbit/s: share of a worker's link rate", ["collective.1000.share"], "{:.2f}"),
    ("allreduce", "all-reduce of 16 MB, 8 workers, 1 Gbit/s: how many times faster than the best of Open MPI and Gloo",
     ["collective.1000.faster"], "{:.2f}"),
    ("wire", "CPU time of the aggregator, relative to a UDP server with AVX2: 256; 832 values per frame",
     ["wire.udp-avx2.256", "wire.udp-avx2.832"], "{:.1f}"),
    ("wire", "CPU time of the aggregator, relative to an AF_XDP server with AVX2: 256; 832 values per frame",
     ["wire.xdp-avx2.256", "wire.xdp-avx2.832"], "{:.1f}"),
    ("steer", "frames that one queue of a card can take with `--cpus 0,1`, relative to without: 256; 832 values per frame",
     ["steer.256", "steer.832"], "{:.1f}"),
    ("arith", "time of an add, relative to a 32-bit integer add: `fpisa`; `fpisa` without statistics; `exact`",
     ["arith.fpisa_add_ns", "arith.fpisa_add_no_statistics_ns", "arith.exact_add_ns"], "{:.1f}"),
    ("arith", "time of a read-out, relative to a 32-bit integer add: in registers; with the paper's trie",
     ["arith.readout_bits_ns", "arith.readout_lpm32_ns"], "{:.1f}"),
    ("arith", "time of a staged add, relative to a fused add", ["arith.staged"], "{:.1f}"),
    ("arith", "rate of two CPUs, relative to one, divided by the same ratio of a register loop", ["arith.cpus"], "{:.2f}"),
]
CONTENDERS = {name: NAMES[name] for name in ("fpisa", "openmpi", "gloo")}


# -- the figures of one run --------------------------------------------------------

def collective(results):
    at = {(x["rate_mbps"], x["bytes"], x["contender"]): x for x in results
          if x["bench"] == "collective" and (x["topology"], x["workers"]) == ("switch", WORKERS)}
    for (rate, size, name), x in at.items():
        if (rate, size) == (100, SMALL):
            yield f"small.{name}", x["seconds"] * 1e3
        if size != LARGE or name not in CONTENDERS:
            continue
        # The link's time for our frames, divided by the time of each contender.
        ours = at[rate, size, "fpisa"]
        yield f"allreduce.{rate}.{name}", ours["share"] * ours["seconds"] / x["seconds"]
        if name == "fpisa":
            yield f"collective.{rate}.share", x["share"]
            if "faster" in x:
                yield f"collective.{rate}.faster", x["faster"]


def ratios(results):
    for x in results:
        if x["bench"] == "worker" and x["contender"] in ("udp", "xsk"):
            yield f"worker.{x['contender']}.{x['elements']}", x["ratio"]
        elif x["bench"] == "wire":
            yield f"wire.{x['contender']}.{x['elements']}", x["ratio"]
        elif x["bench"] == "steer" and x.get("cpus"):
            yield f"steer.{x['elements']}", x["relief"]
        elif x["bench"] == "arith":
            yield from ((f"arith.{k}", v) for k, v in x["ratios"].items() if isinstance(v, (int, float)))
            yield "arith.staged", x["staged_add_ns"] / x["fpisa_add_ns"]
            if x.get("cpus"):
                yield "arith.cpus", x["cpus"]["ratio"]


def figures_of(results):
    wanted = {key for _, _, keys, _ in ROWS for key in keys}
    found = {**dict(collective(results)), **dict(ratios(results))}
    lacks = sorted(wanted - set(found))
    if lacks:
        sys.exit(f"readme.py: the run lacks {', '.join(lacks)}; run make bench, which runs all parts and installs the programs that they need")
    return {k: round(v, 4) for k, v in found.items() if k in wanted or k.startswith("allreduce.")}


# -- the record ----------------------------------------------------------------------

def read_lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def write_lines(path, lines):
    with open(path, "w") as f:
        f.write("".join(json.dumps(x) + "\n" for x in lines))


def read_run(folder, busy, only=None):
    """Return the machine and the results of a run, of all parts or of these parts. Refuse a run that may not be used."""
    results = read_lines(os.path.join(folder, "results.jsonl"))
    if results[0]["quick"]:
        sys.exit(f"readme.py: {folder} is a quick run, whose figures are not valid; run without --quick")
    parts = [x for x in results if x["bench"] == "part" and (not only or x["part"] in only)]
    if not parts:
        sys.exit(f"readme.py: {folder}: no part has ended; run make bench BENCH=\"{' '.join(only or ['all'])}\"")
    machine = {k: results[0][k] for k in ("cpu", "cpus", "kernel", "date")}
    machine["kernel"] = machine["kernel"].split("-")[0]
    machine.update(busy=max(x["busy"] for x in parts), seconds=round(sum(x["seconds"] for x in parts)))
    if machine["busy"] > IDLE and not busy:
        sys.exit(f"readme.py: {folder}: other processes used {machine['busy']:.0%} of the CPUs; run it on an idle machine, or accept it with --busy")
    return machine, results


def take_topology(folder, busy):
    machine, results = read_run(folder, busy, ("topology", "training-colocated"))
    write_lines(POINTS, [{"bench": "machine", **machine}, *grid.points(results), *grid.trained(results)])
    write()


def take(folders, busy):
    runs = [(machine, figures_of(results)) for machine, results in (read_run(folder, busy) for folder in folders)]
    keys = list(runs[0][1])
    record = {"runs": [m for m, _ in runs], "figures": {k: [f[k] for _, f in runs if k in f] for k in keys}}
    with open(RECORD, "w") as f:
        json.dump(record, f, indent="\t")
        f.write("\n")
    write()


def load():
    with open(RECORD) as f:
        return json.load(f)


# -- the tables ------------------------------------------------------------------------

def written(value, form):
    return f"{value:.0f}" if value >= 10 else form.format(value)


def spread(values, form):
    low, high = written(min(values), form), written(max(values), form)
    return low if low == high else f"{low} to {high}"


def machine(last, busy):
    state, others = ("an otherwise idle machine", "") if busy <= IDLE else ("a busy machine", f"; other processes took {busy:.0%} of them")
    return f"on {state} with {last['cpus']} CPUs ({last['cpu']}, Linux {last['kernel']}{others})"


def heading(runs):
    last, minutes = runs[-1], statistics.median(r["seconds"] for r in runs) / 60
    count = f"{len(runs)} runs" if len(runs) > 1 else "one run"
    where = machine(last, max(r["busy"] for r in runs))
    when = f"on {last['date'][:10]}, {minutes:.0f} minutes each"
    yield from textwrap.wrap(
        f"These are medians of {count} of `make bench-figures` {when}, {where}. The spread runs from the lowest run to the highest. "
        "Each relative figure compares two measurements of the same round.", 140, break_on_hyphens=False)


def table(record, rows):
    """Return the text between the marks for the table's first `rows` rows."""
    runs, figures = record["runs"], record["figures"]
    lines = ["", *heading(runs), "", "| `make bench BENCH=...` | figure | median | spread |", "|---|---|---|---|"]
    for part, what, keys, form in ROWS[:rows]:
        medians = "; ".join(written(statistics.median(figures[k]), form) for k in keys)
        spreads = "; ".join(spread(figures[k], form) for k in keys) if len(runs) > 1 else "-"
        lines.append(f"| `{part}` | {what} | {medians} | {spreads} |")
    return "\n".join(lines) + "\n\n"


def topologies(lines):
    """Return the tables of the benchmark by topology, preceded by a description of the machine."""
    m, counts = lines[0], sorted({x["rounds"] for x in lines[1:]})
    heading = f"These are medians of {', '.join(map(str, counts[:-1]))} or {counts[-1]} rounds of " \
        f'`make bench BENCH="topology training-colocated"` on {m["date"][:10]}, {machine(m, m["busy"])}.'
    return "\n".join(["", textwrap.fill(heading, 140, break_on_hyphens=False), "", grid.tables(lines),
                      "The next table has the targets:", "", summary.measured(lines), ""])


def shown(page, marks):
    """Return the text between the marks."""
    return page.split(marks[0])[1].split(marks[1])[0]


def tables(record, lines):
    """Return the pages that have a table, with the marks and the text of each page."""
    return ((README, FIGURES, table(record, FIRST)), (PAGE, FIGURES, table(record, len(ROWS))), (PAGE, GRID, topologies(lines)))


def draw(record, path):
    figures = record["figures"]
    names = [n for n in CONTENDERS if f"allreduce.100.{n}" in figures]
    groups = {"links of 100 Mbit/s": 100, "links of 1 Gbit/s": 1000}

    def value(group, name):
        v = figures.get(f"allreduce.{groups[group]}.{name}")
        return v and (statistics.median(v), min(v), max(v))

    size, script = plot.bars("share of what the link carries", "All-reduce of 16 MB by 8 workers", list(groups), names, value,
                             CONTENDERS)
    return plot.there() and plot.draw_one(path, "svg", (700, 360), script)


def write():
    record, lines = load(), read_lines(POINTS)
    for page, (begin, end), rows in tables(record, lines):
        with open(page) as f:
            text = f.read()
        with open(page, "w") as f:
            f.write(begin.join([text.split(begin)[0], rows + end + text.split(end)[1]]))
    os.makedirs(os.path.dirname(PICTURE), exist_ok=True)
    if not draw(record, PICTURE) or not plot.draw_one(TOPOLOGIES, "svg", *plot.topology(lines)):
        sys.exit(1)


def main():
    p = argparse.ArgumentParser(prog="bench/report/readme.py", description=__doc__.splitlines()[0])
    verbs = p.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("build", metavar="BUILD")
    run.add_argument("--runs", type=int, default=3)
    run.add_argument("--busy", action="store_true")
    taken = verbs.add_parser("take")
    taken.add_argument("folders", metavar="DIR", nargs="+")
    taken.add_argument("--busy", action="store_true")
    one = verbs.add_parser("topology")
    one.add_argument("folder", metavar="DIR")
    one.add_argument("--busy", action="store_true")
    verbs.add_parser("write")
    args = p.parse_args()
    if args.verb == "write":
        return write()
    if args.verb == "topology":
        return take_topology(args.folder, args.busy)
    if args.verb == "run":
        args.folders = [os.path.join(args.build, "bench", f"run{i + 1}") for i in range(args.runs)]
        exit_on_signals()
        for folder in args.folders:
            subprocess.run([sys.executable, "-B", os.path.join(BENCH, "run.py"), "--out", folder, args.build,
                            *dict.fromkeys(part for part, *_ in ROWS)], check=True)
    return take(args.folders, args.busy)


if __name__ == "__main__":
    sys.exit(main())
