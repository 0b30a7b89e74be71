#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make the tables of doc/training.md from paper/training/records.

    report.py write		write the tables between the marks of the page, and the pictures: `make training-page`
    report.py show FILE	print the tables of other records
    report.py again FILE	record the runs of FILE as second runs: `make training-again`

Figures of the page are never written by hand (tests/tree/test_training.py). figures.py defines them.
"""
import math
import os
import statistics
import sys

sys.dont_write_bytecode = True

import pictures  # noqa: E402
from figures import (LAST, final, index, interval, last, last_loss, of_adds, paired, paired_all, samples,  # noqa: E402
                     share, steps_with, within)
from pictures import NOT_RUN  # noqa: E402
from plan import ARMS, CLAIM, EPOCHS, FORMATS, MODES, NETWORKS, PLAIN, SEEDS  # noqa: E402
from sweep import KEY, key, read, twice, write as write_records  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDS, AGAIN, COST, NETWORK = (os.path.join(HERE, "records", name + ".jsonl") for name in ("mnist", "again", "cost", "network"))
PAGE = os.path.join(HERE, "..", "..", "doc", "training.md")
BEGIN, END = "<!-- make training-page -->\n", "<!-- end of records -->\n"
COST_NAMES = {"none": "none", "fpisa": "`fpisa`", "switchml": "SwitchML-style"}


# -- tables -----------------------------------------------------------------------

def table(head, rows):
    lines = ["| " + " | ".join(r) + " |" for r in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:], ""])


def with_interval(values, sign="", digits=2):
    if not values:
        return NOT_RUN
    mean, half = interval(values)
    return f"{round(mean, digits) + 0.0:{sign}.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def named(arm):
    return f"`{arm}`" if arm in MODES else arm


def spelled(numbers):
    """Return sorted numbers as text: 1 to 4, or 1, 3, 4."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def heading(found):
    runs = [r for by_seed in found.values() for r in by_seed.values()]
    wanted = len(NETWORKS) * len(FORMATS) * len(ARMS) * len(SEEDS)
    if not runs:
        return f"None of the {wanted} runs has been done yet: `make training-long`.\n"
    seeds, dates = sorted({r["seed"] for r in runs}), sorted({r["date"] for r in runs})
    machines = sorted({f"{r['machine']['cpus']} CPUs ({r['machine']['cpu']}, Linux {r['machine']['kernel']}), torch "
                       f"{r['machine']['torch']}" for r in runs})
    cpu = {name: [r["cpu_s"] for r in runs if r["model"] == m] for m, name in NETWORKS.items()}
    took = {name: f"{statistics.median(s):.0f}" for name, s in cpu.items() if s}
    text = (f"The tables are from {len(runs)} of the {wanted} runs of `make training-long`: {EPOCHS} epochs each, "
            f"seed{'s' if len(seeds) > 1 else ''} {spelled(seeds)}, {' to '.join(sorted({dates[0], dates[-1]}))}.\n"
            f"Machines: {'; '.join(machines)}.\n"
            "The next table shows the median CPU time per run in seconds, with two runs at once:\n\n") + table(took.keys(), [took.values()])
    missing = wanted - len(runs)
    return text + (f"\nThe other {missing} runs are {NOT_RUN}. " + (
        "One seed has no interval.\n" if len(seeds) == 1 else "Intervals are over the seeds that have run.\n")
        if missing else "")


def verdict(values):
    """Return the verdict about a mean difference in comparison with the paper's claim."""
    if len(values) < 2:
        return NOT_RUN if not values else "one pair has no interval"
    mean, half = interval(values)
    if abs(mean) + half < CLAIM:
        return f"below {CLAIM}"
    return f"above {CLAIM}" if abs(mean) - half > CLAIM else "not settled"


def caveats(found):
    """Return remarks that are not in the answer's table. Return nothing if there is no interval."""
    pooled = {(f, a): v for f in FORMATS for a in ARMS[1:] for v in [paired_all(found, f, a, last)] if len(v) > 1}
    single = {(f, a, m): v for f in FORMATS for a in ARMS[1:] for m in NETWORKS for v in [paired(found, m, f, a, last)]
              if len(v) > 1}
    if not pooled:
        return ""

    def settled(of):
        return f"{sum(verdict(v) != 'not settled' for v in of.values())} of {len(of)}"

    def without_0(of):
        return [f"{key[0]} {named(key[1])}" for key, (mean, half) in ((k, interval(v)) for k, v in of.items()) if abs(mean) > half]

    def farthest(of, null):
        ends = [abs(mean) + half for key, (mean, half) in ((k, interval(v)) for k, v in of.items()) if (key[1] == "reversed") == null]
        return f"{math.ceil(round(100 * max(ends), 6)) / 100:.2f}" if ends else NOT_RUN

    out = without_0(pooled)
    return (
        f"- These runs settle whether a difference to default is below the paper's {CLAIM} in {settled(pooled)} means of the four "
        f"networks, and in\n  {settled(single)} means of single networks.\n"
        f"- The ends of the intervals \"minus default\" are within {farthest(pooled, False)} points of 0 for the modes, and within "
        f"{farthest(pooled, True)} for the null arm. For\n  single networks they are within {farthest(single, False)} and {farthest(single, True)}.\n"
        f"- {len(out)} of these {len(pooled)} intervals {'excludes' if len(out) == 1 else 'exclude'} 0{' (' + ', '.join(out) + ')' if out else ''}, "
        f"and so do {len(without_0(single))} of {len(single)} intervals of single networks (mean of the last {LAST}).\n  By chance alone, one "
        "interval in twenty excludes 0." + (" The interval of reversed also excludes 0 by chance, because the additions of this arm are neither "
                                           "more\n  nor less accurate.\n"
                                     if any(name.endswith("reversed") for name in out) else "\n") +
        "- An interval that contains 0 does not show that two arms are equal, only that these runs cannot tell the arms apart. All arms are compared "
        "with the\n  same runs of default, so their differences are correlated. The same holds for the differences to reversed, the null arm.\n")


def answer(found):
    """Return the answer to the question at the top of the page."""
    rows = []
    for format in FORMATS:
        for arm in ARMS[1:]:
            row = [format, named(arm)]
            for base in PLAIN:
                values = paired_all(found, format, arm, last, base)
                row += [with_interval(values, "+"), verdict(values)] if arm != base else ["-", "-"]
            rows.append(row)
    runs = [r for by_seed in found.values() for r in by_seed.values()]
    right = statistics.fmean(map(last, runs)) / 100
    return table(["format", "arm", "minus default", f"against {CLAIM}", "minus reversed", f"against {CLAIM}"], rows) + (
        f"\nThe cells are points of accuracy, as the mean of the last {LAST} epochs and of the four networks. A pair is a seed. On this page ± is half of\n"
        f"a 95% interval over seeds. \"Below {CLAIM}\" means that the whole interval is below, \"not settled\" that the interval contains {CLAIM} or -{CLAIM}.\n\n"
        f"{caveats(found)}"
        "- Intervals are over seeds. All runs hold out the same 1,000 images. Other images would move an accuracy of "
        f"{100 * right:.1f}% by\n  {100 * (right * (1 - right) / 1000) ** 0.5:.2f} points (standard deviation), by nearly the same amount in "
        "all arms.\n" + ("- Accuracy on MNIST is near its ceiling here, so it is a weak test of harm. The loss on held-out images, further down, is "
                         "finer.\n" if runs[0]["data"] == "mnist" else ""))


def epochs_shown():
    return sorted({1, EPOCHS, *range(5, EPOCHS, 5)})


def accuracy(found):
    rows = []
    for format in FORMATS:
        for model, name in NETWORKS.items():
            for arm in ARMS:
                by_seed = found.get((model, format, arm), {})
                cells = [with_interval([r["accuracy"][e - 1] for r in by_seed.values()]) for e in epochs_shown()]
                rows.append([name, format, named(arm), str(len(by_seed)), *cells])
    return table(["network", "format", "arm", "seeds", *(f"epoch {e}" for e in epochs_shown())], rows)


def differences(found):
    rows = []
    for format in FORMATS:
        for model, name in (*NETWORKS.items(), (None, "all four")):
            for arm in ARMS[1:]:
                values = [paired(found, model, format, arm, of) if model else paired_all(found, format, arm, of)
                          for of in (final, last, last_loss)]
                rows.append([name, format, named(arm), str(len(values[0])),
                             *(with_interval(v, "+", digits) for v, digits in zip(values, (2, 2, 4)))])
    return table(["network", "format", "arm", "pairs", "last epoch", f"mean of the last {LAST}", f"loss, mean of the last {LAST}"],
                 rows)


def percents(values):
    """Return the range over networks."""
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
                cells += [f"{steps_with(runs, n):.3g}%" if arm in MODES else "-" for n in ("OVERWRITE", "OVERFLOW")]
                cells += [percents([share(s, within("relative", low)) for s in of_models]) for low in (-6, -3)]
            rows.append([format, named(arm), *cells])
    return table(["format", "arm", "adds that rounded", "overwrote", "saturated", "steps with OVERWRITE", "with OVERFLOW",
                  "sums off by 1e-6 and more", "by 1e-3 and more"], rows)


BAND = within("absolute", -10, -8)
BEYOND = within("absolute", -8)


def of_sample(values):
    """Return the median of the runs' shares, with the lowest and the highest."""
    if not values:
        return NOT_RUN
    return f"{statistics.median(values):.3g}" + (f" ({min(values):.3g} to {max(values):.3g})" if len(values) > 1 else "")


def phases(found):
    """Return the losses of `fpisa-a` by network and epoch, compared with the errors of default addition."""
    rows = []
    for model, name in NETWORKS.items():
        for epoch in sorted({s["epoch"] for a in ARMS for s in samples(found, "fp32", a, model)}):
            ours, theirs = (samples(found, "fp32", a, model, epoch) for a in ("fpisa-a", "default"))
            rows.append([name, str(epoch), *(of_sample([share([s], of) for s in ours]) for of in (
                of_adds("overwritten"), of_adds("overflowed"), BAND, BEYOND)), *(
                    of_sample([share([s], of) for s in theirs]) for of in (BAND, BEYOND))])
    return table(["network", "epoch", "overwrote", "saturated", "errors in 1e-10 .. 1e-8", "larger", "default: in 1e-10 .. 1e-8",
                  "larger"], rows)


def claims(found):
    """Return the paper's statements and our results."""
    def of_a(of, arm="fpisa-a", epoch=None, middle=lambda s, of: share(s, of)):
        values = {m: middle(s, of) for m in NETWORKS for s in [samples(found, "fp32", arm, m, epoch)] if s}
        vgg, others = ([v for m, v in values.items() if (m == "vgg") == is_vgg] for is_vgg in (True, False))
        return "; ".join(f"{name} {percents(v)}" for name, v in (("VGG", vgg), ("others", others)) if v) or NOT_RUN

    def median(samples_, of):
        return statistics.median(share([s], of) for s in samples_)

    def more_than(limit, of):
        steps = [share([s], of) for m in NETWORKS for s in samples(found, "fp32", "fpisa-a", m)]
        return f"; more in {sum(v > limit for v in steps)} of the {len(steps)} sampled steps, at most {max(steps):.3g}%" if steps else ""

    a = [r for m in NETWORKS for r in found.get((m, "fp32", "fpisa-a"), {}).values()]
    overflow = f"OVERFLOW in {steps_with(a, 'OVERFLOW'):.3g}% of the steps" if a else NOT_RUN
    of_a_all = "; ".join(f"{f} {with_interval(paired_all(found, f, 'fpisa-a', last), '+')}" for f in FORMATS)
    epochs = [(f"epoch {e}", lambda r, e=e: r["accuracy"][e - 1]) for e in (1, 5)] + [(f"the last {LAST}", last)]
    slower = "; ".join(f"{name} {with_interval(paired_all(found, 'fp16', 'default', of, base_format='fp32'), '+')}" for name, of in epochs)
    looked_at = sorted({s["epoch"] for m in NETWORKS for s in samples(found, "fp32", "fpisa-a", m)})
    overwritten, saturated = of_adds("overwritten"), of_adds("overflowed")
    return table(["the paper", "here"], [
        ["accuracy differs by less than 0.1% after 40 epochs, `fpisa-a`", f"{of_a_all} points, all networks (section \"The answer\")"],
        ["slower convergence of FP16, and a lower final accuracy", f"FP16 minus FP32, default, points, all networks: {slower}"],
        ["more than 95% of the errors of `fpisa-a` are in 1e-10 .. 1e-8 (VGG19)",
         f"{of_a(BAND)}. Default addition: {of_a(BAND, 'default')}"],
        ["overwrites are less than 0.9% of the adds", of_a(overwritten) + more_than(0.9, overwritten)],
        ["errors of left shifts are less than 0.1% of the adds", f"saturated: {of_a(saturated)}{more_than(0.1, saturated)}"],
        ["\"no overflow occurs\"", overflow],
        ["errors are distributed alike in early, middle and final epochs", "1e-8 and more, medians of runs: " + ". ".join(
            f"Epoch {e}: {of_a(BEYOND, epoch=e, middle=median)}" for e in looked_at) if looked_at else NOT_RUN]]) + (
        "\nThe paper measures errors against additions in the format. This page measures them against the sum in binary64, so default addition "
        "also has\nerrors. The share of errors in that band depends mostly on the size of the gradients. A left shift does not discard bits here, "
        "but it may fill the register.\nThe paper counts on seven spare bits for 128 adds. A value that was shifted by seven leaves no spare bits, and the next "
        "value of its size saturates\n([numbers.md](numbers.md), \"How far a result can be from the truth\"). The rows about left shifts and overflow "
        "therefore show saturated adds.\n")


def cost(lines):
    """Return the results of `make training-cost`."""
    if not lines:
        return f"It is {NOT_RUN}: `make training-cost`.\n"
    m, rows = lines[0], []
    for line in lines[1:]:
        quota = f"{line['quota_percent']}% of a CPU" if line["quota_percent"] else "none"
        low, high = line["samples_per_s_quartiles"]
        value = f"{line['sum_ns_per_value']:.1f}" if line["contender"] != "none" else "-"
        ratios = [f"{line[k]:.2f} ({line[k + '_quartiles'][0]:.2f} to {line[k + '_quartiles'][1]:.2f})" if k in line else "-"
                  for k in ("sum_to_switchml", "samples_to_switchml")]
        rows.append([f"{line['model']}, {line['parameters']}", quota, COST_NAMES[line["contender"]], value, ratios[0],
                     f"{line['samples_per_s']:.0f} ({low:.0f} to {high:.0f})", ratios[1], f"{line['cpu_ms_per_sample']:.3f}",
                     f"{100 * line['throttled']:.0f}%"])
    line = lines[1]
    text = (f"The figures were measured on {m['date']} on {m['cpus']} CPUs ({m['cpu']}, Linux {m['kernel']}). Before the run, other processes used "
            f"{100 * m['busy']:.0f}%\nof these CPUs. There were {line['workers']} workers and {line['rounds']} rounds of {line['steps']} steps. Figures are "
            "medians. Samples per second and ratios have quartiles.\nRatios are within a round.\n")
    best = max((line["samples_to_switchml"] for line in lines if "samples_to_switchml" in line), default=None)
    if best is not None:
        text += f"The paper's \"up to 85.9%\" is a ratio of samples per second of 1.859; the largest median here is {best:.2f}.\n"
    return text + "\n" + table(["network, parameters", "quota per worker", "sums", "ns of CPU time per value", "ratio to SwitchML-style",
                                "samples per second", "ratio to SwitchML-style", "ms of CPU time per sample",
                                "periods in which the quota stopped the worker"], rows)


def network(lines):
    """Return the results of `make training-network`."""
    if not lines:
        return f"It is {NOT_RUN}: `make training-network`.\n"
    m = lines[0]
    rows = [[NETWORKS[r["model"]], r["format"], f"`{r['arm']}`", str(r["workers"]), str(r["steps"]),
             *("yes" if r[k] else "no" for k in ("ranks_agree", "same_bits_as_mem"))] for r in lines[1:]]
    return (f"These results were measured on {m['date']} on {m['cpus']} CPUs ({m['cpu']}, Linux {m['kernel']}).\n\n" + table(
        ["network", "format", "arm", "ranks", "steps", "all ranks have the same bits", "the bits of `mem`"], rows))


def by_cpu(pairs):
    found = {}
    for second, first in pairs:
        found.setdefault((first["machine"]["cpu"], second["machine"]["cpu"]), []).append((second, first))
    return sorted(found.items())


def again(lines, records):
    """Return the results of `make training-again`."""
    pairs = twice(lines, records)
    if not pairs:
        return f"It is {NOT_RUN}: `make training`, then `make training-again`.\n"
    rows = [[*cpus, spelled(sorted({r["seed"] for r, _ in of})), max(r["date"] for r, _ in of), str(len(of)),
             str(sum(second["weights"] == first["weights"] for second, first in of))] for cpus, of in by_cpu(pairs)]
    return ("Some of the runs above were repeated. The table shows how many repeated runs have parameters with the same SHA-256.\n\n" +
            table(["first on", "again on", "seeds", "date", "runs", "the same bits"], rows))


def of_runs(records, picture=lambda text, name: ""):
    found = index(records)
    if not found:
        return "\n" + heading(found)
    return "\n".join([
        "", heading(found),
        "## The answer\n", answer(found),
        "## Accuracy by epoch\n", "Accuracy is the percentage of the 1,000 held-out images.\n",
        picture(f"Accuracy by epoch, FP32, from {pictures.LOWEST}%", "fp32") + picture(f"Accuracy by epoch, FP16, from {pictures.LOWEST}%", "fp16") +
        accuracy(found),
        "## Differences to default addition\n", "Differences are in points of accuracy, between pairs. One image is 0.1 points. The loss is the mean cross entropy of the held-out images.\n",
        picture("Differences to default addition", "differences") + differences(found),
        "## What the sums lost\n",
        "The samples are the middle steps of the first, the middle and the last epoch, over all runs. Ranges are from the lowest to the highest "
        "network.\nShares of steps are over all steps. Relative errors are those of sums that are not zero.\n",
        picture("Relative errors of the gradients' sums", "errors") + errors(found),
        "For `fpisa-a` in FP32, this table shows absolute errors of all sums by network and epoch, in per cent. A cell contains the median run and the range:\n",
        phases(found),
        "## Compared with the paper\n", claims(found)])


def text(records, cost_lines, network_lines=(), again_lines=()):
    return "\n".join([of_runs(records, lambda text, name: f"![{text}](pictures/training-{name}.svg)\n\n"),
                      "## The same runs again\n", again(again_lines, records),
                      "## Over XDP and over `mem`\n", network(network_lines),
                      "## What a sum costs a worker\n", cost(cost_lines), ""])


# -- the page ----------------------------------------------------------------------------

def shown(page):
    return page.split(BEGIN)[1].split(END)[0]


def write():
    records = read(RECORDS)
    with open(PAGE) as f:
        page = f.read()
    page = BEGIN.join([page.split(BEGIN)[0], text(records, *map(read, (COST, NETWORK, AGAIN))) + END + page.split(END)[1]])
    with open(PAGE + ".new", "w") as f:
        f.write(page)
    os.replace(PAGE + ".new", PAGE)
    drawn = pictures.draw(records)
    print(f"wrote {os.path.relpath(PAGE)}" + (" and its pictures" if drawn else ""))
    return 0 if drawn else 1


def record_again(path):
    """Record second runs. The records of a CPU replace earlier records of the same CPU."""
    new = [{f: r[f] for f in (*KEY, "weights", "date", "machine")} for r, _ in twice(read(path), read(RECORDS))]
    if not new:
        sys.exit(f"report.py: {path} has no second run of a run in {os.path.relpath(RECORDS)}; run make training, which does 40 runs")
    done = {(key(r), r["machine"]["cpu"]) for r in new}
    write_records(AGAIN, [r for r in read(AGAIN) if (key(r), r["machine"]["cpu"]) not in done] + new)
    print(f"wrote {os.path.relpath(AGAIN)}: {len(new)} runs")
    return 0


def main():
    try:
        if sys.argv[1:] == ["write"]:
            return write()
        if sys.argv[1:2] == ["again"] and len(sys.argv) == 3:
            return record_again(sys.argv[2])
        if sys.argv[1:2] == ["show"] and len(sys.argv) == 3:
            print(of_runs(read(sys.argv[2])))
            return 0
    except ValueError as e:
        sys.exit(f"report.py: {e}")
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
