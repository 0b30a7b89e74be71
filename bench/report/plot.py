#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draw pictures of results as SVG and PNG with gnuplot. run.py calls this program.

    plot.py RESULTS.jsonl FOLDER

arith		ns per element, a point for each add and read-out
round		a whole round over the number of workers
wire, worker	CPU seconds per gigabyte, a bar for each contender
collective	time of an all-reduce over its size, with the limits as lines
topology	how many times faster than the fastest other contender, by the place of the aggregators
relative	the same in units of the link's time for the values
mpi		time of MPI_Allreduce over its size, and the part of MPI_Iallreduce that computing does not hide
training-mlp, training-cnn  ms per training step, a point for each contender
sum		ns per row of PostgreSQL's aggregates and ours
sums		ns per element of fpisa.sum and others: by size, groups, condition number
"""
import json
import os
import shutil
import subprocess
import sys

import grid
from contenders import NAMES

CHART_SIZES = 64 << 10, 1 << 20  # sizes in the chart by topology
COLORS = ["#1b6ca8", "#d1495b", "#3a9d6e", "#8d6cab", "#e0a030", "#606060"]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def lines_of(text):
    """Return a gnuplot string. In the string a line end is a single character."""
    return '"' + text.replace("\n", "\\n") + '"'


def block(name, rows):
    """Return a named data block of gnuplot."""
    return "\n".join([f"${name} << EOD", *(" ".join(map(str, row)) for row in rows), "EOD"])


def bars(ylabel, title, groups, series, value, names=None, least=None):
    """Return a chart of clustered bars: one cluster per group, and in it one bar per series, labelled with its value. If `least`
    is set, the axis is logarithmic and starts there. The length of a bar would be meaningless on such an axis, so points
    replace the bars.
    """
    width = 0.8 / len(series)
    data, plots, top = [], [], 0
    for i, s in enumerate(series):
        rows = [(g + (i - (len(series) - 1) / 2) * width, v, lo, hi)
                for g, group in enumerate(groups) if (found := value(group, s)) for v, lo, hi in [found]]
        if not rows:
            continue
        top = max(top, *(row[3] for row in rows))
        data.append(block(f"s{i}", rows))
        title_of = f"title {quoted((names or {}).get(s, s))}" if len(series) > 1 else "notitle"
        color = COLORS[i % len(COLORS)]
        shape = f"2 with points pt 7 ps 1.4 lc rgb '{color}'" if least else \
            f"2:({width * 0.92}) with boxes fs solid 0.85 lc rgb '{color}'"
        plots += [f"$s{i} using 1:{shape} {title_of}",
                  f"$s{i} using 1:3:(0):($4-$3) with vectors nohead lw 2 lc rgb 'black' notitle",
                  f"$s{i} using 1:4:(sprintf($2 < 1000 ? '%.3g' : '%.0f', $2)) with labels offset 0,0.7 font ',10' notitle"]
    scale = f"set logscale y\nset yrange [{least}:{top * 1.8}]" if least else f"set yrange [0:{top * 1.18 or 1}]"
    tics = ", ".join(f"{lines_of(g)} {i}" for i, g in enumerate(groups))
    return (900, 480), "\n".join([
        *data, f"set title {quoted(title)}", f"set ylabel {quoted(ylabel)}", f"set xtics ({tics})",
        "set grid ytics", f"set xrange [-0.6:{len(groups) - 0.4}]", scale,
        "set bmargin 6",
        "set key at graph 0.5,-0.17 center top horizontal", "plot " + ", ".join(plots)])


def arith(results):
    line = next((x for x in results if x["bench"] == "arith"), None)
    if not line:
        return None
    names = [("touch_ns", "touch"), ("int32_add_ns", "int32\nadd"), ("fpisa_add_ns", "fpisa\nadd"),
             ("fpisa_add_no_statistics_ns", "without\nstatistics"),
             ("fpisa_a_add_ns", "fpisa-a\nadd"), ("fpisa64_add_ns", "fpisa64\nadd"),
             ("exact_add_ns", "exact\nadd"), ("staged_add_ns", "fpisa add\nstaged"),
             ("readout_bits_ns", "read-out\nbits"),
             ("readout_lpm32_ns", "read-out\n32-entry trie")]
    keys = {label: key for key, label in names if line.get(key)}

    def value(label, _):
        key = keys[label]
        return (line[key], *line["quartiles"].get(key, (line[key], line[key])))

    # A trie takes far longer than the others.
    _, script = bars("ns an element", f"One frame of {line['elements']} fp32 values in the kernel", list(keys), ["all"],
                     value, least=0.1)
    return (1100, 500), script


def rounds(results):
    line = next((x for x in results if x["bench"] == "arith"), None)
    series = {}
    for c in (line or {}).get("configurations", []):
        if c["values"] == "random" and c["format"] == "fp32" and c["clz"] == "bits" and c.get("round_ns"):
            series.setdefault((c["mode"], c["pipeline"]), []).append((c["workers"], c["round_ns"]))
    if not series:
        return None
    modes = list(dict.fromkeys(mode for mode, _ in series))
    data, plots = [], []
    for i, ((mode, pipeline), rows) in enumerate(series.items()):
        data.append(block(f"r{i}", sorted(rows)))
        dash = 2 if pipeline == "staged" else 1
        plots.append(f"$r{i} using 1:2 with linespoints lw 2 dt {dash} pt {5 + 2 * (dash - 1)} "
                     f"lc rgb '{COLORS[modes.index(mode)]}' title {quoted(mode + ', ' + pipeline)}")
    return (800, 520), "\n".join([
        *data, "set title 'A whole round: N contributions and the read-out, fp32'", "set logscale xy 2",
        "set xlabel 'workers'", "set ylabel 'ns an element'", "set grid", "set xrange [1.7:38]",
        "set xtics (2, 4, 8, 16, 32)", "set key outside right", "plot " + ", ".join(plots)])


def cpu(results, part, title):
    lines = [x for x in results if x["bench"] == part]
    if not lines:
        return None

    def group(x):
        return f"{x['elements']} values a frame"

    found = {(group(x), x["contender"]): x["cpu_s_per_gb"] for x in lines}

    def value(g, s):
        v = found.get((g, s))
        return v and (v["median"], v["q1"], v["q3"])

    return bars("CPU seconds a gigabyte", title, list(dict.fromkeys(group(x) for x in lines)),
                list(dict.fromkeys(x["contender"] for x in lines)), value)


def collective(results, topology, relative):
    """Return a panel for each combination of rate and number of workers."""
    lines = [x for x in results if x["bench"] == "collective" and x["topology"] == topology]
    if not lines:
        return None
    workers = sorted({x["workers"] for x in lines})
    rates = sorted({x["rate_mbps"] for x in lines})
    contenders = list(dict.fromkeys(x["contender"] for x in lines))
    out = ["set logscale xy", "set grid", "set xlabel 'size'",
           "set xtics ('1 KB' 1024, '16 KB' 16384, '256 KB' 262144, '4 MB' 4194304, '64 MB' 67108864)",
           f"set xrange [{min(x['bytes'] for x in lines) / 1.5}:{max(x['bytes'] for x in lines) * 1.5}]",
           "set ytics (0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500)" if relative else "set format y '10^{%T}'",
           f"set multiplot layout {len(rates)},{len(workers)}"]
    for rate in rates:
        for n in workers:
            panel, plots = [x for x in lines if x["rate_mbps"] == rate and x["workers"] == n], []
            limits = sorted({(x["bytes"], x["limit_s"], x["ring_limit_s"]) for x in panel})
            out.append(block("limit", [(size, 1, ring / one) if relative else (size, one, ring)
                                       for size, one, ring in limits]))
            for i, c in enumerate(contenders):
                rows = [(x["bytes"], *(t / (x["limit_s"] if relative else 1)
                                       for t in (x["seconds"], *x["seconds_quartiles"])))
                        for x in sorted(panel, key=lambda x: x["bytes"]) if x["contender"] == c]
                out.append(block(f"c{i}", rows))
                style = f"pt {5 + 2 * i} ps 0.8 lc rgb '{COLORS[i]}'"
                plots += [f"$c{i} using 1:2 with linespoints lw 2 {style} title {quoted(NAMES[c])}",
                          f"$c{i} using 1:3:(0):($4-$3) with vectors nohead lc rgb '{COLORS[i]}' notitle"]
            plots += ["$limit using 1:2 with lines dt 3 lw 2 lc rgb 'black' title 'limit of an aggregator'",
                      "$limit using 1:3 with lines dt 2 lw 1.5 lc rgb '#707070' title 'limit of a ring'"]
            times = [row["seconds_quartiles"][1] / (row["limit_s"] if relative else 1) for row in panel]
            out += [f"set title 'N = {n}, {rate} Mbit/s'",
                    "set ylabel " + ("'time over S/rate'" if relative else "'seconds'"),
                    "set key " + ("top right" if relative else "top left") + " font ',10' samplen 2",
                    f"set yrange [0.5:{max(times) * 4}]" if relative else f"set yrange [*:{max(times) * 100}]",
                    "plot " + ", ".join(plots)]
    return (480 * len(workers), 400 * len(rates)), "\n".join([*out, "unset multiplot"])


def topology(results):
    """Return a cluster for each topology with a bar for each size, at N = 8. The last bar is the limit of the links at the
    largest size.
    """
    found = {x["bytes"]: x for x in grid.points(results) if x["rate_mbps"] == grid.HEADLINE_MBPS and x["bytes"] in CHART_SIZES
             and x["others"] and all(x[k] == v for k, v in grid.HEADLINE.items())}
    if not found:
        return None
    names = {"switch": "the switch\nadds", **{k: f"{k} hosts\nmore" for k in (8, 4, 2)}, 1: "1 host\nmore",
             0: "workers'\nhosts alone", "one-port": "1 host\nalone"}
    cells = {(names[grid.hosts(t)], n): (o["faster"], *o["faster_quartiles"]) for n, x in found.items() for t, o in x["ours"].items()}
    largest = found[max(found)]
    best = min(o["seconds"] for o in largest["others"].values())
    cells.update({(names[grid.hosts(t)], 0): (best / o["bound_s"],) * 3 for t, o in largest["ours"].items()})
    groups = [name for name in names.values() if any((name, n) in cells for n in found)]
    _, script = bars("times as fast", "All-reduce by 8 workers, over the fastest of Gloo, Open MPI and MPICH", groups, [*sorted(found), 0],
                     lambda name, n: cells.get((name, n)),
                     {**{n: f"FPISA, {grid.size(n)}" for n in found}, 0: f"what the links allow, {grid.size(max(found))}"})
    return (900, 380), script + ", 1 with lines dt 2 lw 1.5 lc rgb '#606060' notitle"


def mpi(results):
    """Return a panel for blocking calls, and another for calls with computing in between."""
    lines = [x for x in results if x["bench"] == "mpi" and "contender" in x]
    if not lines:
        return None
    out = ["set logscale xy", "set grid", "set xlabel 'bytes'", "set format y '10^{%T}'", "set ylabel 'seconds'",
           "set key top left font ',10' samplen 2", "set multiplot layout 1,2"]
    for key, title in ("seconds", "MPI\\_Allreduce"), ("exposed_s", "MPI\\_Iallreduce, not hidden by computing"):
        plots = []
        for i, c in enumerate(("fpisa-openmpi", "fpisa-mpich", "openmpi", "mpich")):
            # The exposed time may be zero, so the axis ends at 100 ns.
            rows = [(x["bytes"], max(x[key], 1e-7)) for x in lines if x["contender"] == c]
            out.append(block(f"{key}{i}", rows))
            plots.append(f"${key}{i} using 1:2 with linespoints lw 2 pt {5 + 2 * i} lc rgb '{COLORS[i]}' title {quoted(NAMES[c])}")
        out += [f"set title '{title}, N = {lines[0]['workers']}, {lines[0]['rate_mbps']} Mbit/s'", "plot " + ", ".join(plots)]
    return (1000, 440), "\n".join([*out, "unset multiplot"])


def training(results, model, title):
    lines = [x for x in results if x["bench"] == "training" and x["model"] == model]
    if not lines:
        return None

    def group(x):
        return f"{x['mbit']} Mbit/s\n{x['format']}"

    found = {(group(x), x["contender"]): (x["step_ms"], *x["quartiles"]) for x in lines}
    _, script = bars("ms a step", title, list(dict.fromkeys(map(group, lines))),
                     list(dict.fromkeys(x["contender"] for x in lines)), lambda g, s: found.get((g, s)),
                     {**NAMES, "fpisa": "FPISA, backend"}, least=10)
    return (1300, 520), script


def sums(results):
    lines = [x for x in results if x["bench"] == "sum"]
    if not lines:
        return None

    def group(x):
        return (f"{x['groups']} groups" if x["groups"] > 1 else "whole table") + f"\n{x['workers'] or 'no'} workers"

    found = {(group(x), x["aggregate"]): (x["ns_per_row"], *x["ns_per_row_quartiles"]) for x in lines}
    _, script = bars("ns a row", "Sums in PostgreSQL", list(dict.fromkeys(map(group, lines))),
                     list(dict.fromkeys(x["aggregate"] for x in lines)), lambda g, s: found.get((g, s)),
                     {x["aggregate"]: x["aggregate"].replace("_", "\\_") for x in lines}, least=10)
    return (1300, 520), script


def exact(results):
    """Return panels for sizes, for groups and for condition numbers."""
    lines = [x for x in results if x["bench"] == "sums"]
    if not lines:
        return None
    panels = [("elements, uniform", "n", [x for x in lines if x["data"] == "uniform"]),
              ("groups", "groups", [x for x in lines if "groups" in x]),
              ("condition number", "condition", [x for x in lines if "condition" in x])]
    calls = list(dict.fromkeys(x["call"] for x in lines))
    out = ["set logscale xy", "set grid", "set ylabel 'ns an element'", "set format x '10^{%T}'", "set yrange [0.2:2000]",
           "set key top right font ',9' samplen 2", "set multiplot layout 1,3"]
    for i, (title, key, panel) in enumerate(panels):
        plots = []
        for c in dict.fromkeys(x["call"] for x in panel):
            at = calls.index(c)
            out.append(block(f"e{i}x{at}", sorted((x[key], x["ns"]) for x in panel if x["call"] == c)))
            plots.append(f"$e{i}x{at} using 1:2 with linespoints lw 2 dt {1 + at // len(COLORS)} pt {5 + at} lc rgb '{COLORS[at % len(COLORS)]}' "
                         f"title {quoted(c.replace('_', chr(92) + '_'))}")
        low, high = (f(x[key] for x in panel) for f in (min, max))
        out += [f"set xrange [{low / 2}:{high * 2}]", f"set xlabel {quoted(title)}", "plot " + ", ".join(plots)]
    return (1500, 480), "\n".join([*out, "unset multiplot"])


def pictures(results):
    yield "arith", arith(results)
    yield "round", rounds(results)
    yield "wire", cpu(results, "wire", "CPU time at the aggregator")
    yield "worker", cpu(results, "worker", "CPU time at a worker")
    yield "collective", collective(results, "switch", False)
    yield "collective-one-port", collective(results, "one-port", False)
    yield "topology", topology(results)
    yield "mpi", mpi(results)
    yield "training-mlp", training(results, "mlp", "A training step that waits for the network: 1.1 million parameters, 4 ranks")
    yield "training-cnn", training(results, "cnn", "A training step that computes: 56 thousand parameters, 4 ranks")
    yield "sum", sums(results)
    yield "sums", exact(results)
    yield "relative", collective([x for x in results if x.get("bytes", 0) >= 1 << 16], "switch", True)


def there():
    """Return whether gnuplot exists. Report if it does not."""
    if not shutil.which("gnuplot"):
        print("bench: plots: gnuplot is not installed; install gnuplot-nox", file=sys.stderr)
    return bool(shutil.which("gnuplot"))


def draw_one(path, kind, size, script):
    """Draw a picture. Return whether gnuplot succeeded."""
    head = (f"set terminal {'pngcairo' if kind == 'png' else kind} size {size[0]},{size[1]} background rgb 'white' "
            f"font 'sans,11'\nset output {quoted(path)}\n"
            "set encoding utf8\nset border 3\nset tics nomirror\n")
    p = subprocess.run(["gnuplot"], input=head + script + "\n", text=True, capture_output=True)
    if p.returncode or p.stderr.strip():
        print(f"bench: {os.path.basename(path)}: gnuplot: {p.stderr.strip()}", file=sys.stderr)
        return False
    return True


def draw(results, folder):
    """Draw all pictures that the results allow. Return whether gnuplot succeeded."""
    good = there()
    for name, picture in pictures(results) if good else ():
        for kind in ("svg", "png") if picture else ():
            good &= draw_one(os.path.join(folder, f"{name}.{kind}"), kind, *picture)
    return good


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        sys.exit(0 if draw([json.loads(line) for line in f], sys.argv[2]) else 1)
