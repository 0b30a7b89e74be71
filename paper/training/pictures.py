# SPDX-License-Identifier: GPL-2.0-only
"""Draw the pictures of doc/training.md with gnuplot."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "bench", "report"))

import plot  # noqa: E402
from figures import LAST, index, interval, last, paired, samples  # noqa: E402
from plan import ARMS, CLAIM, EPOCHS, FORMATS, NETWORKS  # noqa: E402

PICTURES = os.path.join(TOP, "doc", "pictures")
NOT_RUN = "not run yet"
EMPTY = f"1 with lines lc rgb 'white' title '{NOT_RUN}'"  # gnuplot needs a plot
LOWEST = 80  # lower end of the pictures of accuracy in per cent


def panels(title, columns, rows, of):
    """Return a script of panels. of(i, j) returns the lines of gnuplot for a panel."""
    return "\n".join([f"set multiplot layout {rows},{columns} title {plot.quoted(title)}",
                      *(of(i, j) for i in range(rows) for j in range(columns)), "unset multiplot"])


def draw_accuracy(found, format):
    def panel(i, j):
        model = list(NETWORKS)[2 * i + j]
        data, plots = [], []
        for k, arm in enumerate(ARMS):
            by_seed = found.get((model, format, arm))
            if not by_seed:
                continue
            rows = []
            for e in range(EPOCHS):
                mean, half = interval([r["accuracy"][e] for r in by_seed.values()])
                rows.append((e + 1 + (k - 2) * 0.1, mean, half or 0))
            data.append(plot.block(f"a{i}{j}{k}", rows))
            color = plot.COLORS[k]
            plots += [f"$a{i}{j}{k} using 1:($2-$3):(0):(2*$3) with vectors nohead lc rgb '{color}' notitle",
                      f"$a{i}{j}{k} using 1:2 with lines lw 1.5 lc rgb '{color}' title {plot.quoted(arm)}"]
        return "\n".join([*data, f"set title {plot.quoted(NETWORKS[model])}", "set xlabel 'epoch'", "set ylabel '% right'",
                          "set grid", "set key bottom right", f"set xrange [0.5:{EPOCHS + 0.5}]", f"set yrange [{LOWEST}:100]",
                          "plot " + ", ".join(plots or [EMPTY])])

    return (1000, 760), panels(f"Accuracy by epoch, {format}", 2, 2, panel)


def draw_differences(found):
    arms = ARMS[1:]

    def panel(i, j):
        data, plots, top = [], [], 0.2
        for k, arm in enumerate(arms):
            rows = []
            for m, model in enumerate(NETWORKS):
                values = paired(found, model, FORMATS[j], arm, last)
                if values:
                    mean, half = interval(values)
                    rows.append((m + (k - 1.5) * 0.18, mean, half or 0))
                    top = max(top, 1.1 * (abs(mean) + (half or 0)))
            if rows:
                data.append(plot.block(f"d{j}{k}", rows))
                plots.append(f"$d{j}{k} using 1:2:3 with yerrorbars pt 7 lw 1.5 lc rgb '{plot.COLORS[k + 1]}' "
                             f"title {plot.quoted(arm)}")
        tics = ", ".join(f"{plot.quoted(n)} {m}" for m, n in enumerate(NETWORKS.values()))
        return "\n".join([*data, f"set title {plot.quoted(FORMATS[j])}", f"set xtics ({tics})", "set grid ytics",
                          f"set xrange [-0.6:{len(NETWORKS) - 0.4}]", "set ylabel 'points'",
                          "set key below", f"set yrange [{-top}:{top}]",
                          "plot 0 with lines lc rgb 'black' notitle, " +
                          "".join(f"{at} with lines lc rgb 'black' dt 2 notitle, " for at in (CLAIM, -CLAIM)) +
                          ", ".join(plots or [EMPTY])])

    title = f"Accuracy less default's, mean of the last {LAST} epochs (dashed: the paper's {CLAIM})"
    return (1100, 420), panels(title, 2, 1, panel)


def draw_errors(found):
    def panel(i, j):
        data, plots = [], []
        for k, arm in enumerate(ARMS):
            counts = {}
            for m in NETWORKS:
                for s in samples(found, FORMATS[j], arm, m):
                    for d, n in s["relative"].items():
                        counts[d] = counts.get(d, 0) + n
            decades = sorted(int(d) for d in counts if d not in ("none", "special"))
            if not decades:
                continue
            whole = sum(counts.values())
            data.append(plot.block(f"e{j}{k}", [(d, 100 * counts.get(str(d), 0) / whole or "NaN")
                                                for d in range(decades[0], decades[-1] + 1)]))
            plots.append(f"$e{j}{k} using 1:2 with linespoints lw 1.5 pt {5 + 2 * (k % 2)} ps 0.6 "
                         f"lc rgb '{plot.COLORS[k]}' title {plot.quoted(arm)}")
        return "\n".join([*data, f"set title {plot.quoted(FORMATS[j])}", "set xlabel 'relative error, power of ten'",
                          "set ylabel '% of the sums'", "set logscale y", "set yrange [1e-4:100]", "set format y '%g'",
                          "set grid", "set key top right", "plot " + ", ".join(plots or [EMPTY])])

    return (1100, 420), panels("Relative errors of the sums of gradients, all networks", 2, 1, panel)


def draw(records):
    """Draw all pictures that have data. Return whether gnuplot succeeded."""
    found, good = index(records), plot.there()
    if not found:
        return good
    for name, picture in (("fp32", draw_accuracy(found, "fp32")), ("fp16", draw_accuracy(found, "fp16")),
                          ("differences", draw_differences(found)), ("errors", draw_errors(found))) if good else ():
        good &= plot.draw_one(os.path.join(PICTURES, f"training-{name}.svg"), "svg", *picture)
    return good
