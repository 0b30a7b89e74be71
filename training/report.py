#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tables and pictures of doc/training.md, from training/records.

    report.py write		into doc/training.md, between its marks, and doc/pictures/training-*.svg: `make training-page`
    report.py show FILE	the tables of other records, to stdout

Nobody writes a figure of a run by hand (tests/tree/test_training.py). Intervals are of 95%, by Student's t over seeds;
differences are of pairs: one seed, one network, one format, another arm than default.
"""
import os
import statistics
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TOP, "bench", "report"))

import plot  # noqa: E402
from plan import ARMS, EPOCHS, FORMATS, MODES, NETWORKS, SEEDS  # noqa: E402
from sweep import read  # noqa: E402

RECORDS = os.path.join(HERE, "records", "mnist.jsonl")
COST = os.path.join(HERE, "records", "cost.jsonl")
PAGE = os.path.join(TOP, "doc", "training.md")
PICTURES = os.path.join(TOP, "doc", "pictures")
BEGIN, END = "<!-- make training-page -->\n", "<!-- end of records -->\n"
LAST = 5  # epochs of which a mean is less restless than one
COST_NAMES = {"none": "none", "fpisa": "`fpisa`", "switchml": "SwitchML-style"}
NOT_RUN = "not run yet"
EMPTY = f"1 with lines lc rgb 'white' title '{NOT_RUN}'"  # gnuplot wants something
T = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # 0.975, by number of values


# -- figures --------------------------------------------------------------------

def interval(values):
    """(mean, half of the interval), the latter None of a single value."""
    if len(values) < 2:
        return values[0], None
    return statistics.fmean(values), T[len(values)] * statistics.stdev(values) / len(values) ** 0.5


def index(records):
    """By network, format and arm: records by seed."""
    found = {}
    for r in records:
        if r["epochs"] == EPOCHS:
            found.setdefault((r["model"], r["format"], r["arm"]), {})[r["seed"]] = r
    return found


def last(record):
    return statistics.fmean(record["accuracy"][-LAST:])


def paired(found, model, format, arm, of):
    """Of each seed that has both: this arm's figure less default's."""
    ours, others = found.get((model, format, arm), {}), found.get((model, format, "default"), {})
    return [of(ours[s]) - of(others[s]) for s in sorted(ours) if s in others]


def samples(found, format, arm, model):
    return [s for r in found.get((model, format, arm), {}).values() for s in r["samples"]]


def share(samples_, of):
    """Of the elements, or adds, of samples."""
    part, whole = map(sum, zip(*map(of, samples_)))
    return 100 * part / whole if whole else 0.0


def within(kind, low, high):
    """For share(): errors of decades low..high-1, of elements; none and special are in no decade."""
    def of(s):
        counts = s[kind]
        return (sum(n for d, n in counts.items() if d not in ("none", "special") and low <= int(d) < high),
                sum(counts.values()))

    return of


def of_adds(name):
    return lambda s: (s[name], s["adds"])


# -- tables -----------------------------------------------------------------------

def table(head, rows):
    lines = ["| " + " | ".join(r) + " |" for r in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:], ""])


def with_interval(values, sign=""):
    mean, half = interval(values)
    return f"{mean:{sign}.2f}" + ("" if half is None else f" ± {half:.2f}")


def heading(found):
    runs = [r for by_seed in found.values() for r in by_seed.values()]
    wanted = len(NETWORKS) * len(FORMATS) * len(ARMS) * len(SEEDS)
    if not runs:
        return f"None of the {wanted} runs has been done yet: `make training-long`.\n"
    seeds, dates = sorted({r["seed"] for r in runs}), sorted({r["date"] for r in runs})
    machines = sorted({f"{r['machine']['cpus']} CPUs ({r['machine']['cpu']}, Linux {r['machine']['kernel']}), torch "
                       f"{r['machine']['torch']}" for r in runs})
    cpu, wall = (statistics.fmean(r[k] for r in runs) for k in ("cpu_s", "seconds"))
    text = (f"From {len(runs)} runs of {EPOCHS} epochs, of the {wanted} that `make training-long` does, "
            f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}, on "
            f"{' to '.join(sorted({dates[0], dates[-1]}))}, by {'; '.join(machines)}. A run took {cpu:.0f} s of CPU time and {wall:.0f} s, two at once")
    text += ", beside other work.\n" if wall > 1.3 * cpu else ".\n"
    missing = wanted - len(runs)
    return text + (f"\nThe other {missing} runs are {NOT_RUN}. " + (
        "Of one seed there is no interval.\n" if len(seeds) == 1 else "Intervals are of the seeds that are there.\n")
        if missing else "")


def epochs_shown():
    return sorted({1, EPOCHS, *range(5, EPOCHS, 5)})


def accuracy(found):
    rows = []
    for format in FORMATS:
        for model, name in NETWORKS.items():
            for arm in ARMS:
                by_seed = found.get((model, format, arm), {})
                cells = [with_interval([r["accuracy"][e - 1] for r in by_seed.values()]) if by_seed else NOT_RUN
                         for e in epochs_shown()]
                rows.append([name, format, f"`{arm}`" if arm in MODES else arm, str(len(by_seed)), *cells])
    return table(["network", "format", "arm", "seeds", *(f"epoch {e}" for e in epochs_shown())], rows)


def differences(found):
    rows = []
    for format in FORMATS:
        for model, name in NETWORKS.items():
            for arm in ARMS[1:]:
                cells = []
                for of in (lambda r: r["accuracy"][-1]), last:
                    values = paired(found, model, format, arm, of)
                    cells.append(with_interval(values, "+") if values else NOT_RUN)
                rows.append([name, format, f"`{arm}`" if arm in MODES else arm, str(len(values)), *cells])
    return table(["network", "format", "arm", "pairs", "last epoch", f"mean of the last {LAST}"], rows)


def percents(values):
    """The range over networks."""
    low, high = (f"{v:.3g}" for v in (min(values), max(values)))
    return f"{low}%" if low == high else f"{low} to {high}%"


def errors(found):
    rows = []
    for format in FORMATS:
        for arm in ARMS:
            of_models = [s for s in (samples(found, format, arm, m) for m in NETWORKS) if s]
            runs = [r for m in NETWORKS for r in found.get((m, format, arm), {}).values()]
            cells = [NOT_RUN] * 7
            if runs:
                cells = [percents([share(s, of_adds(n)) for s in of_models]) if arm in MODES else "-"
                         for n in ("rounded", "overwritten", "overflowed")]
                steps = sum(r["steps"] for r in runs)
                cells += [f"{100 * sum(r['flags'].get(n, 0) for r in runs) / steps:.3g}%" if arm in MODES else "-"
                          for n in ("OVERWRITE", "OVERFLOW")]
                cells += [percents([share(s, within("relative", low, 99)) for s in of_models]) for low in (-6, -3)]
            rows.append([format, f"`{arm}`" if arm in MODES else arm, *cells])
    return table(["format", "arm", "adds that rounded", "overwrote", "saturated", "steps with OVERWRITE", "with OVERFLOW",
                  "sums off by 1e-6 and more", "by 1e-3 and more"], rows)


def largest(found, arms, format=None):
    """(points, network, arm, format) of the largest mean difference of the last epochs; None of nothing."""
    all_ = [(statistics.fmean(v), NETWORKS[m], a, f) for f in FORMATS if format in (None, f) for m in NETWORKS for a in arms
            for v in [paired(found, m, f, a, last)] if v]
    return max(all_, key=lambda x: abs(x[0])) if all_ else None


def claims(found):
    """The paper's sentences beside what is here."""
    def phrase(arms, format=None):
        x = largest(found, arms, format)
        return f"{x[0]:+.2f} points ({x[1]}, {x[3]}, {x[2]})" if x else NOT_RUN

    def of_a(measure):
        values = [share(s, measure) for m in NETWORKS for s in [samples(found, "fp32", "fpisa-a", m)] if s]
        return percents(values) if values else NOT_RUN

    a = [r for m in NETWORKS for r in found.get((m, "fp32", "fpisa-a"), {}).values()]
    overflow = ""
    if a:
        overflow = f"{100 * sum(r['flags'].get('OVERFLOW', 0) for r in a) / sum(r['steps'] for r in a):.3g}% of the steps"
    lower = [statistics.fmean(values) for m in NETWORKS for values in [
        [last(r) - last(found[m, "fp32", "default"][s]) for s, r in found.get((m, "fp16", "default"), {}).items()
         if s in found.get((m, "fp32", "default"), {})]] if values]
    rows = [
        ["\"the accuracy differs by less than 0.1%\" after 40 epochs, `fpisa-a`",
         f"largest mean difference to default over networks and formats: {phrase(['fpisa-a'])}"],
        ["-", f"the null arm, default addition in reversed order: {phrase(['reversed'])}"],
        ["-", f"`fpisa`: {phrase(['fpisa'])}; `exact`: {phrase(['exact'])}"],
        ["FP16 converges more slowly, and to less",
         f"FP16 less FP32, default, by network: {min(lower):+.2f} to {max(lower):+.2f} points" if lower else NOT_RUN],
        ["more than 95% of the absolute errors of `fpisa-a` are in 1e-10 .. 1e-8",
         f"{of_a(within('absolute', -10, -8))} of the sums; {of_a(lambda s: (s['absolute'].get('none', 0), s['elements']))} "
         f"have none, {of_a(within('absolute', -8, 99))} more"],
        ["overwrites are less than 0.9% of the adds", of_a(of_adds("overwritten"))],
        ["errors of left shifts are less than 0.1% of the adds", f"saturated: {of_a(of_adds('overflowed'))}"],
        ["\"no overflow occurs\"", f"OVERFLOW in {overflow}"]]
    if not a:
        rows[4:] = [[claim, NOT_RUN] for claim, _ in rows[4:]]
    return table(["the paper", "here"], rows)


def cost(lines):
    """What `make training-cost` recorded."""
    if not lines:
        return f"It is {NOT_RUN}: `make training-cost`.\n"
    m, rows = lines[0], []
    for line in lines[1:]:
        quota = f"{line['quota_percent']}% of a CPU" if line["quota_percent"] else "none"
        low, high = line["samples_per_s_quartiles"]
        value = f"{line['sum_ns_per_value']:.1f}" if line["contender"] != "none" else "-"
        rows.append([f"{line['model']}, {line['parameters']}", quota, COST_NAMES[line["contender"]],
                     f"{line['samples_per_s']:.0f} ({low:.0f} to {high:.0f})", value, f"{line['cpu_ms_per_sample']:.3f}",
                     f"{100 * line['throttled']:.0f}%"])
    line = lines[1]
    text = (f"On {m['date']}, by {m['cpus']} CPUs ({m['cpu']}, Linux {m['kernel']}), of which others had {100 * m['busy']:.0f}% "
            f"before it began; {line['workers']} workers, {line['rounds']} rounds of {line['steps']} steps: medians, and "
            "quartiles of what depends on the others.\n")
    return text + "\n" + table(["network, parameters", "quota a worker", "sums", "samples a second", "ns of CPU time a value",
                                "ms of CPU time a sample", "periods in which the quota stopped it"], rows)


def text(records, cost_lines):
    found, costs = index(records), "## What a sum costs a worker\n\n" + cost(cost_lines)
    if not found:
        return "\n".join(["", heading(found), costs, ""])
    return "\n".join([
        "", heading(found),
        "## Accuracy by epoch\n", "Per cent of the 1,000 images held out.\n",
        "![Accuracy by epoch, FP32](pictures/training-fp32.svg)\n",
        "![Accuracy by epoch, FP16](pictures/training-fp16.svg)\n",
        accuracy(found),
        "## Differences to default addition\n", "Points of a per cent, in pairs; an image is 0.1.\n",
        "![Differences to default addition](pictures/training-differences.svg)\n", differences(found),
        "## What the sums lost\n",
        "Of the step in the middle of the first, the middle and the last epoch, from the lowest to the highest network; "
        "steps are all. Relative errors are of sums that are not zero.\n",
        "![Relative errors of the gradients' sums](pictures/training-errors.svg)\n", errors(found),
        "## Beside the paper\n", claims(found), costs]) + "\n"


# -- pictures ------------------------------------------------------------------------

def panels(title, columns, rows, of):
    """of(i, j): lines of gnuplot for a panel."""
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
                          "set grid", "set key bottom right", f"set xrange [0.5:{EPOCHS + 0.5}]", "set yrange [80:100]",
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
                          "set arrow 1 from graph 0,first 0 to graph 1,first 0 nohead lc rgb 'black'",
                          "set arrow 2 from graph 0,first 0.1 to graph 1,first 0.1 nohead dt 3",
                          "set arrow 3 from graph 0,first -0.1 to graph 1,first -0.1 nohead dt 3",
                          "plot " + ", ".join(plots or [EMPTY])])

    title = f"Accuracy less default's, mean of the last {LAST} epochs (dotted: the paper's 0.1)"
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
    """Whether gnuplot drew them all, if there is anything to draw."""
    found, good = index(records), plot.there()
    if not found:
        return good
    for name, picture in (("fp32", draw_accuracy(found, "fp32")), ("fp16", draw_accuracy(found, "fp16")),
                          ("differences", draw_differences(found)), ("errors", draw_errors(found))) if good else ():
        good &= plot.draw_one(os.path.join(PICTURES, f"training-{name}.svg"), "svg", *picture)
    return good


# -- the page ----------------------------------------------------------------------------

def shown(page):
    return page.split(BEGIN)[1].split(END)[0]


def write():
    records = read(RECORDS)
    with open(PAGE) as f:
        page = f.read()
    with open(PAGE, "w") as f:
        f.write(BEGIN.join([page.split(BEGIN)[0], text(records, read(COST)) + END + page.split(END)[1]]))
    return 0 if draw(records) else 1


def main():
    if sys.argv[1:] == ["write"]:
        return write()
    if sys.argv[1:2] == ["show"] and len(sys.argv) == 3:
        print(text(read(sys.argv[2]), []))
        return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
