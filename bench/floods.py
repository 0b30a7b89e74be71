#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure how floods of connections without a key at `fpisa query worker` affect a master. The table of doc/query.md has the
results.

A worker, a master and a flooding host each have a network namespace. tests/netns/groups/flood.c makes connections as fast as
one process can. The master repeats a query whose 2,000 rows it adds up itself. The program prints a line of JSON for each
flood, or with --table the rows of the page. The program removes all of its objects at the end, and needs root.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import common  # noqa: E402

import lab  # noqa: E402
from queries import Queries  # noqa: E402

SOURCE = os.path.join(lab.HERE, "..", "netns", "groups", "flood.c")
PORT = 18001  # TCP port of a worker
ROWS = 2000
# For each flood a description, the message of each connection, and the number of flooding processes. None means no flood.
FLOODS = [("no flood", None, 0), ("that say nothing", "", 1), ("that send a byte of garbage", "G", 1),
          ("that begin a handshake and stop", "\x16\x03\x01\x02\x01", 1), ("that send garbage, by three processes", "G", 3)]


def accepted(host):
    """Return the number of connections that the host's kernel has accepted."""
    with host.entered(), open("/proc/thread-self/net/snmp") as f:
        names, values = [line.split()[1:] for line in f if line.startswith("Tcp:")]
    return int(dict(zip(names, values))["PassiveOpens"])


def ask(q, rows):
    """Run the query. Return its time in seconds, or None if the query failed, and whether the answer was right."""
    began = time.monotonic()
    status, out, _ = q.master.try_run(*q.argv("--json", "--prune", "none", "--by", "k", "--value", "v", workers=q.net.addresses[0], network=False))
    took = time.monotonic() - began
    return (None, True) if status else (took, sum(r[1] for r in json.loads(out)["rows"]) == rows)


def measure(net, q, flood, name, says, processes, times):
    flooders = [net.worker[1].spawn(flood, net.addresses[0], PORT, says) for _ in range(processes)]
    try:
        time.sleep(1 if flooders else 0)
        before, began = accepted(net.worker[0]), time.monotonic()
        asked = [ask(q, ROWS) for _ in range(times)]
        rate = (accepted(net.worker[0]) - before - times) / (time.monotonic() - began)
    finally:
        for p in flooders:
            lab.end(p)
    took = sorted(s for s, _ in asked if s is not None)
    return {"connections": name, "a_second": round(max(rate, 0)), "queries": times, "failed": sum(s is None for s, _ in asked),
            "wrong": sum(not right for _, right in asked), "median_s": round(statistics.median(took), 3) if took else None,
            "most_s": round(took[-1], 3) if took else None, "load": round(os.getloadavg()[0], 1)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--times", type=int, default=40, help="queries during each flood")
    p.add_argument("--table", action="store_true", help="print rows of the page instead of JSON")
    o = p.parse_args()
    common.own_mounts()
    with tempfile.TemporaryDirectory() as folder:
        flood = os.path.join(folder, "flood")
        subprocess.run(["gcc", "-O1", "-o", flood, SOURCE], check=True)
        net = lab.Lab(workers=3)
        try:
            q = Queries(net, folder)
            q.table(0, [(i % 50, i / 7) for i in range(ROWS)])
            q.serve([0])
            for kind in FLOODS:
                said = measure(net, q, flood, *kind, o.times)
                print("| {connections} | {a_second} | {median_s} s | {most_s} s | {failed} of {queries} |".format(**said) if o.table else
                      json.dumps(said), flush=True)
            q.close()
        finally:
            net.close()


if __name__ == "__main__":
    main()
