#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure how much faster `fpisa query run` is when rows are pruned on the way to the master.

    pruning.py [--workers N] [--mbit RATE] [--rows N] [--rounds R]

Each worker has a table of random rows as CSV. Rows of 16 bytes cross links with rate RATE from the workers, and a link with
the same rate to the master. Each round runs two queries with every way of pruning. The first returns the first 250 rows. The
second returns sum, min, max and count of 521 groups. Each round also runs the queries without pruning over links that are
not shaped. This gives the time of the master if no link delays it. All answers to a query must be the same. The output is a
JSON line for each query, with times of the whole command in seconds:

    network      the aggregator prunes
    none         all rows go directly to the master
    by_workers   each worker prunes its own rows
    unshaped     the same as none, without shaping
    speedup      none / network in the same round; its bound is the minimum of N and none / unshaped; its share of the bound

speedup_by_workers is none / by_workers.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from common import exit_on_signals, labs, own_mounts, quartiles  # noqa: E402

import queries  # noqa: E402

GROUPS, FIRST = 521, 250
BURST = "tbf rate {}mbit burst 32kb latency 1s"
QUESTIONS = {"topn": ("--value", "v", "--limit", FIRST), "groups": ("--by", "k", "--value", "v")}
NUMBER = {"topn": 6, "groups": 5}
WAYS = {"network": (), "none": ("--prune", "none"), "by_workers": ("--prune", "workers"), "unshaped": ("--prune", "none")}


class Stage:
    """Workers, the aggregator and a master. The master's link is shaped at its far end, because XDP's frames do not pass the
    queue of a port.
    """

    def __init__(self, args, folder):
        self.args = args
        self.net = net = labs.Lab(workers=args.workers + 1)
        self.queries = queries.Queries(net, folder)
        self.switch = net.netns()
        port = net.ports[-1]
        net.agg.ip(f"link set {port} netns {self.switch.path}")
        self.switch.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0",
                       f"link add side type veth peer name {port}-m netns {net.agg.path}",
                       f"link set {port} master br0", "link set side master br0", f"link set {port} up", "link set side up", "link set br0 up")
        for dev in port, "side":
            self.switch.gro_on(dev)
        net.agg.ip(f"link set {port}-m name {port}", f"addr add 10.99.{args.workers + 1}.1/24 dev {port}", f"link set {port} up")
        net.load()
        self.shaped = [(w, "eth0") for w in net.worker[:-1]] + [(self.switch, port)]
        for rank in range(args.workers):
            self.table(rank)
        self.queries.serve()
        self.queries.add("table", GROUPS, "--key-bytes", 8, number=NUMBER["groups"])
        self.queries.add("topn", FIRST, "--key-bytes", 8, number=NUMBER["topn"])

    def table(self, rank):
        rng = random.Random(rank)
        draw = rng.random
        lines = ["k,v\n", *(f"{int(draw() * GROUPS)},{draw():.9f}\n" for _ in range(self.args.rows))]
        os.makedirs(self.queries.directory(rank))
        with open(os.path.join(self.queries.directory(rank), "t.schema"), "w") as f:
            f.write("k int32 not null\nv real\n")
        with open(os.path.join(self.queries.directory(rank), "t.csv"), "w") as f:
            f.writelines(lines)

    def shape(self, on):
        for space, dev in self.shaped:
            space.try_run("tc", "qdisc", "del", "dev", dev, "root")
            if on:
                space.run("tc", "qdisc", "add", "dev", dev, "root", *BURST.format(self.args.mbit).split())

    def ask(self, question, way):
        """Run a query. Return its time in seconds and its answer."""
        self.shape(way != "unshaped")
        argv = self.queries.argv("--json", *QUESTIONS[question], *WAYS[way], number=NUMBER[question])
        began = time.monotonic()
        status, out, err = self.net.worker[-1].try_run(*argv)
        took = time.monotonic() - began
        if status:
            sys.exit(f"pruning: {question}, {way}: {err.strip()}")
        said = json.loads(out)
        counts = said["counts"]
        if counts["table"] != self.args.rows * self.args.workers:
            sys.exit(f"pruning: {question}, {way}: the counts are wrong: {counts}; please report this bug")
        # Rows with the same value as the last row may differ.
        return took, counts, sorted(r[1] for r in said["rows"]) if question == "topn" else sorted(said["rows"])


def compare(stage, question):
    args, found = stage.args, {way: [] for way in WAYS}
    answers, received = [], {}
    for i in range(args.rounds):
        for way in list(WAYS)[:: -1 if i % 2 else 1]:
            took, counts, answer = stage.ask(question, way)
            found[way].append(took)
            received[way] = counts["received"]
            answers.append(answer)
    if any(a != answers[0] for a in answers):
        sys.exit(f"pruning: {question}: answers differ; please report this bug")
    line = {"bench": "pruning", "question": question, "workers": args.workers, "mbit": args.mbit, "rows": args.rows * args.workers,
            "rounds": args.rounds, "received": received}
    n = range(args.rounds)
    found["speedup"] = [found["none"][i] / found["network"][i] for i in n]
    found["speedup_by_workers"] = [found["none"][i] / found["by_workers"][i] for i in n]
    found["bound"] = [min(args.workers, found["none"][i] / found["unshaped"][i]) for i in n]
    found["share"] = [found["speedup"][i] / found["bound"][i] for i in n]
    for name, values in found.items():
        line[name] = round(statistics.median(values), 3)
        line[name + "_quartiles"] = [round(q, 3) for q in quartiles(values)]
    print(json.dumps(line), flush=True)


def main():
    p = argparse.ArgumentParser(prog="bench/pruning.py", description=__doc__.splitlines()[0])
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--mbit", type=int, default=100)
    p.add_argument("--rows", type=int, default=1500000, help="rows of each worker")
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    if min(args.workers, args.mbit, args.rows, args.rounds) < 1:
        p.error("--workers, --mbit, --rows and --rounds must be at least 1")
    if os.geteuid():
        p.error("network namespaces and XDP require root; run as root")
    exit_on_signals()
    own_mounts()
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(args, folder)
        try:
            for question in QUESTIONS:
                compare(stage, question)
        finally:
            stage.queries.close()
            stage.net.close()


if __name__ == "__main__":
    main()
