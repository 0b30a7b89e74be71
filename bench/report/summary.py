#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print the targets with the required and measured figures, and whether they are met. run.py calls
this program.

    summary.py RESULTS.jsonl
"""
import json
import sys

import grid

LARGE = 16 << 20  # sizes from which on an all-reduce is judged


def arith(key):
    """Return a figure, which is the ratio to the integer add from the line of `arith`."""
    def measured(results):
        for line in results:
            value = line["bench"] == "arith" and line.get("ratios", {}).get(key)
            if value:
                yield "", value, line["ratios"].get(key + "_quartiles")
    return measured


def exact64(key):
    """Return a figure, which is a ratio of fused exact sums of fp64."""
    def measured(results):
        for line in results:
            if line["bench"] == "arith" and line.get("exact64"):
                yield "", line["exact64"][key], line["exact64"].get(key + "_quartiles")
    return measured


def staged(results):
    for line in results:
        if line["bench"] == "arith" and line.get("staged_add_ns") and line.get("fpisa_add_ns"):
            yield "", line["staged_add_ns"] / line["fpisa_add_ns"], None


def cpus(results):
    for line in results:
        if line["bench"] == "arith" and line.get("cpus"):
            yield "", line["cpus"]["ratio"], line["cpus"]["ratio_quartiles"]


def wire(contender, elements):
    """Return a figure, which is our CPU time at the aggregator divided by the contender's."""
    def measured(results):
        for line in results:
            if line["bench"] == "wire" and (line["contender"], line["elements"]) == (contender, elements):
                yield "", line["ratio"], line["ratio_quartiles"]
    return measured


def worker(contender):
    """Return a figure, which is the contender's CPU time at the worker divided by a SwitchML-style worker's CPU time."""
    def measured(results):
        for line in results:
            if line["bench"] == "worker" and line["contender"] == contender:
                yield f"{line['elements']} values", line["ratio"], line["ratio_quartiles"]
    return measured


def collective(key, workers=None, mbit=None):
    def measured(results):
        for line in results:
            if (line["bench"] == "collective" and line["topology"] == "switch" and key in line and line["bytes"] >= LARGE
                    and workers in (None, line["workers"]) and mbit in (None, line["rate_mbps"])):
                yield (f"N = {line['workers']}, {line['rate_mbps']} Mbit/s, {line['bytes'] >> 20} MB, CPU "
                       f"{line['cpu_busy']:.0%} busy", line[key], line.get(key + "_quartiles"))
    return measured


def large(size):
    return size >= 1 << 20


def small(size):
    return size <= 64 << 10


def mpi(results):
    """Yield the time of MPI_Allreduce of the best MPI, divided by the time of the same program with the adapter."""
    for line in results:
        if line["bench"] == "mpi" and "faster" in line and line["bytes"] >= LARGE:
            yield (f"{line['contender'][6:]}, N = {line['workers']}, {line['rate_mbps']} Mbit/s, {line['bytes'] >> 20} MB",
                   line["faster"], line["faster_quartiles"])


def training(mbit):
    """Return a figure, which is the time of a step with Gloo divided by the time with the backend. The model waits for the
    network.
    """
    def measured(results):
        for line in results:
            if (line["bench"] == "training" and line["mbit"] == mbit and line["model"] == "mlp" and line["format"] == "fp32"
                    and "gloo" in line):
                yield f"N = {line['workers']}, {line['mbit']} Mbit/s", line["gloo"], line["gloo_quartiles"]
    return measured


def forwarded(program, limit):
    """Return a figure, which is the percentage of random rows that pass on to the master in the worst round."""
    def measured(results):
        for line in results:
            if (line["bench"] == "query" and line["program"] == program and line["limit"] == limit
                    and line["values"] == "random" and not line["filter"]):
                yield f"{line['rows']} rows", 100 * line["forwarded"], None
    return measured


def pruned(question):
    """Return a figure, which is the time of a query without pruning divided by the time with pruning, as a share of the
    possible gain.
    """
    def measured(results):
        for line in results:
            if line["bench"] == "pruning" and line["question"] == question:
                yield (f"{line['workers']} workers, {line['mbit']} Mbit/s: {line['speedup']} of {line['bound']}", line["share"],
                       line["share_quartiles"])
    return measured


def sums(aggregate, groups):
    """Return a figure, which is the time of a query with our aggregate divided by the time with sum(float8)."""
    def measured(results):
        for line in results:
            if line["bench"] == "sum" and line["aggregate"] == aggregate and line["groups"] == groups:
                yield f"{line['workers'] or 'no'} parallel workers", line["ratio"], line["ratio_quartiles"]
    return measured


def merged(workers, groups):
    """Return a figure, which is our CPU time at the master with the aggregator divided by postgres_fdw's CPU time."""
    def measured(results):
        for line in results:
            if line["bench"] == "merge" and line["contender"] == "fpisa" and (line["workers"], line["groups"]) == (workers, groups):
                yield f"{workers} workers", line["ratio"], line["ratio_quartiles"]
    return measured


# Each target has a figure, its bound, whether the bound is a minimum or a maximum, and the source of the figure.
TARGETS = [
    ("fused fpisa fp32 add : integer add", 4.7, "most", arith("fpisa_add_ns")),
    ("fused fpisa fp32 add without statistics : integer add", 4.0, "most", arith("fpisa_add_no_statistics_ns")),
    ("fused exact fp32 add : integer add", 3.0, "most", arith("exact_add_ns")),
    ("fused fpisa64 fp32 add : integer add", 5.0, "most", arith("fpisa64_add_ns")),
    ("fused fpisa-a fp32 add : integer add", 6.5, "most", arith("fpisa_a_add_ns")),
    ("fused exact add, fp64 : fp32", 1.8, "most", exact64("add_ratio")),
    ("read-out of exact, fp64 : fp32", 2.5, "most", exact64("readout_ratio")),
    ("fused exact of fp64, first contribution : add", 1.0, "most", exact64("set_over_add")),
    ("staged add : fused add", 2.0, "most", staged),
    ("read-out by bits : integer add", 6, "most", arith("readout_bits_ns")),
    ("read-out by the 32-entry trie : integer add", 100, "most", arith("readout_lpm32_ns")),
    ("Top-250, percent of rows that pass on", 0.1, "most", forwarded("topn", 250)),
    ("table of 521 groups, percent of rows that pass on", 0.02, "most", forwarded("table", 521)),
    ("table of 100,000 groups, percent of rows that pass on", 4, "most", forwarded("table", 100000)),
    ("Top-250 pruned on its way, share of the possible", 0.9, "least", pruned("topn")),
    ("521 groups added on their way, share of the possible", 0.9, "least", pruned("groups")),
    ("aggregator CPU, ours : UDP with AVX2, 256 values", 1.4, "most", wire("udp-avx2", 256)),
    ("aggregator CPU, ours : UDP with AVX2, 832 values", 1.6, "most", wire("udp-avx2", 832)),
    ("aggregator CPU, ours : AF_XDP with AVX2, 256 values", 1.0, "most", wire("xdp-avx2", 256)),
    ("aggregator CPU, ours : AF_XDP with AVX2, 832 values", 1.3, "most", wire("xdp-avx2", 832)),
    ("worker CPU, ours by udp : SwitchML-style", 0.48, "most", worker("udp")),
    ("worker CPU, ours by xsk : SwitchML-style", 0.5, "most", worker("xsk")),
    ("all-reduce, share of what the link carries", 0.95, "least", collective("share")),
    ("all-reduce, faster than the best of MPI, Gloo", 1.6, "least", collective("faster", 8, 100)),
    ("all-reduce, faster than the best, on a link that two CPUs cannot quite fill", 1.5, "least", collective("faster", 8, 1000)),
    ("N = 8, 8 additional hosts: times faster than the best of the others, 1 MB and more", 1.6, "least", grid.faster("dedicated-8", large)),
    ("N = 8, 4 additional hosts: times faster than the best of the others, 1 MB and more", 1.25, "least", grid.faster("everywhere-4", large)),
    ("N = 8, the workers' hosts alone: times faster than the best of the others, 1 MB and more", 1.0, "least", grid.faster("colocated", large)),
    ("N = 8, the workers' hosts alone, MTU of 1500: times faster than the best of the others, 1 MB and more", 0.95, "least",
     grid.faster("colocated", large, mtu=1500)),
    ("N = 8, the workers' hosts alone: times faster than the best of the others, up to 64 KB", 2, "least", grid.faster("colocated", small)),
    ("time of 1 MB with a queue of 128 KB : with 1 MB", 1.1, "most", grid.slower("colocated", queue_bytes=128 << 10)),
    ("time of 1 MB with a queue of 128 KB : with 1 MB, 8 additional hosts", 1.1, "most", grid.slower("dedicated-8", queue_bytes=128 << 10)),
    ("time of 1 MB with 1% loss : without", 1.3, "most", grid.slower("colocated", loss=0.01)),
    ("time of 1 MB with 1% loss : without, 8 additional hosts", 1.3, "most", grid.slower("dedicated-8", loss=0.01)),
    ("share of BytePS's bound, headers counted, 1 MB and more", 0.95, "least", grid.of_bound),
    ("MPI_Allreduce, faster than the best of both MPIs", 1.4, "least", mpi),
    ("training step, Gloo : FPISA, 50 Mbit/s", 1.35, "least", training(50)),
    ("training step, Gloo : FPISA, 200 Mbit/s", 1.25, "least", training(200)),
    ("training step, Gloo : FPISA, 1000 Mbit/s", 0.95, "least", training(1000)),
    ("training step, the workers' hosts alone add, Gloo : FPISA", 1.0, "least", grid.steps),
    ("fpisa_sum(real) : sum(float8), whole table", 1.5, "most", sums("fpisa_sum(real)", 1)),
    ("fpisa_sum(real) : sum(float8), 1000 groups", 1.5, "most", sums("fpisa_sum(real)", 1000)),
    ("100,000 groups merged, master CPU, ours : postgres_fdw", 0.2, "most", merged(32, 100000)),
    ("2 CPUs : 1 CPU, over a register spin", 0.95, "least", cpus),
]


def verdict(value, bound, kind):
    return "met" if (value <= bound if kind == "most" else value >= bound) else "missed"


def rows(results):
    for what, bound, kind, measured in TARGETS:
        found = list(measured(results))
        asked = ("<= " if kind == "most" else ">= ") + f"{bound:g}"
        if not found:
            yield what, asked, "-", "", "not measured", ""
        for where, value, quartiles in found:
            spread = f"{quartiles[0]:.2f} .. {quartiles[1]:.2f}" if quartiles else ""
            yield what, asked, f"{value:.2f}", spread, verdict(value, bound, kind), where


def table(results):
    """Return the table as text, preceded by a description of the machine."""
    m = next((line for line in results if line["bench"] == "machine"), None)
    out = []
    if m:
        out.append(f"{m['cpu']}, {m['cpus']} CPUs, Linux {m['kernel']}, {m['date']}")
        if m["quick"]:
            out.append("a quick run, whose figures are not valid")
    lines = [("target", "required", "measured", "quartiles", "", "where"), *rows(results)]
    widths = [max(len(row[i]) for row in lines) for i in range(5)]
    out += ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths)), row[5]]).rstrip() for row in lines]
    return "\n".join(out) + "\n"


def measured(results):
    """Return rows of the measured targets, for a page."""
    out = ["| target | required | measured | quartiles | verdict | where |", "|---|---|---|---|---|---|"]
    return "\n".join([*out, *(f"| {' | '.join(row)} |" for row in rows(results) if row[4] != "not measured")]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        print(table([json.loads(line) for line in f]), end="")
