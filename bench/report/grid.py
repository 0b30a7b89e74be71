#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make the tables of the benchmark by topology (collective/topology.py) and of the training on workers' hosts, and compute the
figures of the targets.

    grid.py RESULTS.jsonl      # prints the tables
"""
import json
import math
import sys

from contenders import NAMES

OTHERS = {name: NAMES[name] for name in ("gloo", "openmpi", "mpich")}
COLUMNS = {"switch": "switch", 8: "k = 8", 4: "k = 4", 2: "k = 2", 1: "k = 1", 0: "k = 0", "one-port": "one port"}
HELD_UP = 0.1  # if ranks waited for a CPU for at least this share of the time, the row measures the CPUs
USUAL = {"queue_bytes": 1 << 20, "mtu": 3506, "loss": 0}  # defaults of the network, which rows do not mention
HEADLINE = {"workers": 8, **USUAL}
HEADLINE_MBPS = 20


def points(results):
    return [x for x in results if x["bench"] == "topology"]


def trained(results):
    return [x for x in results if x["bench"] == "training-colocated"]


def hosts(topology):
    """Return the key of COLUMNS."""
    if topology in COLUMNS:
        return topology
    return 0 if topology == "colocated" else int(topology.split("-")[1])


def size(n):
    return f"{n >> 20} MB" if n >= 1 << 20 else f"{n >> 10} KB"


def rate(mbps):
    return f"{mbps} Mbit/s" if mbps < 1000 else f"{mbps / 1000:g} Gbit/s"


def label(x):
    """Return a row's workers, link and size, and the unusual properties of its network."""
    unusual = {"queue_bytes": lambda q: f"queue {size(q)}", "mtu": lambda m: f"MTU {m}", "loss": lambda share: f"loss {100 * share:g}%"}
    return ", ".join([f"{x['workers']}", rate(x["rate_mbps"]), size(x["bytes"]),
                      *(text(x[name]) for name, text in unusual.items() if x[name] != USUAL[name])])


def figure(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(lines, named, ours, others):
    """Return a table with a row for each point and a column for each topology. If `others` has contenders, add a column for
    each.
    """
    names = OTHERS if others else {}
    out = [f"| {named} | {' | '.join([*COLUMNS.values(), *names.values()])} |", "|---" * (1 + len(COLUMNS) + len(names)) + "|"]
    for x in lines:
        cells = {hosts(t): ours(o) for t, o in x["ours"].items()}
        out.append(f"| {' | '.join([label(x), *(cells.get(c, '') for c in COLUMNS), *(others(x, name) for name in names)])} |")
    return "\n".join(out) + "\n"


def time(o):
    return f"{figure(o['seconds'] * 1e3)}{'*' * (o['waited'] > HELD_UP)} ({figure(o['bound_s'] * 1e3)})"


def times_faster(o):
    return f"{o['faster']:.2f}{'*' * (o['waited'] > HELD_UP)}" if "faster" in o else ""


def other_time(x, name):
    return figure(x["others"][name]["seconds"] * 1e3) if name in x["others"] else ""


def tables(results):
    """Return all tables as text, or nothing if there are no results of that benchmark."""
    lines, steps = points(results), training(trained(results))
    if not lines:
        return steps
    return "\n".join(["Time of an all-reduce in ms, with the bound in brackets:", "",
                      table(lines, "workers, links, size", time, other_time),
                      "The table shows how many times faster FPISA is than the fastest of the others, in the same rounds:", "",
                      table(lines, "workers, links, size", times_faster, None), *([steps] if steps else [])])


def training(lines):
    if not lines:
        return ""
    out = ["Time of a training step in ms where the workers' hosts alone add, and how many times faster than Gloo's:", "",
           "| model, workers, links | FPISA | Gloo | times faster |", "|---|---|---|---|"]
    found = {(x["model"], x["mbit"], x["contender"]): x for x in lines}
    for (model, mbit, name), x in found.items():
        if name == "fpisa" and "gloo" in x:
            low, high = x["gloo_quartiles"]
            out.append(f"| `{model}`, {x['workers']}, {rate(mbit)} | {figure(x['step_ms'])} | {figure(found[model, mbit, 'gloo']['step_ms'])} "
                       f"| {x['gloo']:.2f} ({low:.2f} to {high:.2f}) |")
    return "\n".join(out) + "\n"


# -- figures of targets, each (place, value, quartiles) for a point ---------------------------------

def rows(results, topology, **which):
    """Yield (point, ours) for HEADLINE, with the changes in `which`."""
    wanted = {**HEADLINE, **which}
    for x in points(results):
        if all(value(x[name]) if callable(value) else x[name] == value for name, value in wanted.items()) and topology in x["ours"]:
            yield x, x["ours"][topology]


def faster(topology, sizes, **which):
    """Return a figure that tells how many times faster than the best other contender FPISA is. `sizes` tests a number of bytes."""
    def measured(results):
        for x, o in rows(results, topology, bytes=sizes, **which):
            if "faster" in o and x["rate_mbps"] < 1000:
                yield where(x, o), o["faster"], o["faster_quartiles"]
    return measured


def of_bound(results):
    """Return FPISA's share of the bound of BytePS, including headers. The share is the minimum over points where links are the
    limit, of each topology that could reach the bound.
    """
    least = {}
    for x in points(results):
        for t, o in x["ours"].items():
            if (x["bytes"] >= 1 << 20 and x["loss"] == 0 and x["rate_mbps"] < 1000 and abs(o["bound_s"] - o["limit_s"]) < 1e-6
                    and o["share"] < least.get(t, (x, {"share": math.inf}))[1]["share"]):
                least[t] = x, o
    for t, (x, o) in least.items():
        yield f"{where(x, o)}, {t}", o["share"], o["share_quartiles"]


def slower(topology, **which):
    """Return a figure, which is the time for 1 MB divided by the time in the usual network."""
    def measured(results):
        base = {x["bytes"]: o["seconds"] for x, o in rows(results, topology, bytes=1 << 20, rate_mbps=HEADLINE_MBPS)}
        for x, o in rows(results, topology, bytes=1 << 20, rate_mbps=HEADLINE_MBPS, **which):
            if x["bytes"] in base:
                yield f"{where(x, o)}, {topology}", o["seconds"] / base[x["bytes"]], None
    return measured


def steps(results):
    """Yield the time of a training step of Gloo, divided by the time of ours."""
    for x in trained(results):
        if "gloo" in x:
            yield f"{x['model']}, N = {x['workers']}, {rate(x['mbit'])}", x["gloo"], x["gloo_quartiles"]


def where(x, o):
    return f"N = {label(x)}" + f", a rank waited {o['waited']:.0%} for a CPU" * (o["waited"] > HELD_UP)


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        print(tables([json.loads(line) for line in f]), end="")
