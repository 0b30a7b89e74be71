#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure how a job and TCP flows share a port of a switch.

    fair.py [--topologies one-port,dedicated-K,colocated] [--workers N,...] [--flows N,...] [--control cubic,reno,bbr]
            [--rates MBIT,...] [--queues BYTES,...] [--seconds S] [--late] [--table]

The network is that of collective.py, with the link of every host shaped in both directions. Each TCP flow comes from a
separate host and goes to the first aggregator, so its frames meet those of all ranks in the queue of the aggregator's port.
The ranks sum one long vector, with a window of 256. --late starts the ranks when the flows have filled the queue; otherwise both start together.

The output is a JSON line for each case. `ratio` is the bytes of a rank at the port, divided by the mean bytes of a flow, both
with headers and without frames that were sent again. A ratio of 1 is fair. The first third of the time does not count.
`port_share` is the share of the port that both took together. `series` has the ratio of each second.
--table prints the table of bench/README.md instead.
"""
import argparse
import contextlib
import itertools
import json
import os
import socket
import statistics
import sys
import threading
import time
import typing

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import collective  # noqa: E402
from collective import HEADERS, Setting, exit_on_signals, labs, numbers  # noqa: E402

MTU, WINDOW, JOB = 1500, 256, 1
SEGMENT = MTU - 20 - 20 - 12  # bytes of a TCP segment's values, after the headers with timestamps
TCP_PORT = 5001
PINS = labs.BPFFS + "/hosts"
FILLED_S = 4  # time after which a flow has filled the queue


class Flow:
    """A TCP flow from a separate host to an aggregator. `got` counts the bytes that have arrived."""

    def __init__(self, net, number, to, control):
        self.got, self.ended = 0, threading.Event()
        with to.host.entered():
            listener = socket.create_server((to.address, TCP_PORT + number))
        with net.sources[number].entered():
            self.out = socket.socket()
        self.out.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        self.out.connect(listener.getsockname())
        self.into, _ = listener.accept()
        listener.close()
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.send, self.receive)]
        for t in self.threads:
            t.start()

    def send(self):
        with contextlib.suppress(OSError):
            while not self.ended.is_set():
                self.out.send(bytes(1 << 16))

    def receive(self):
        with contextlib.suppress(OSError):
            while n := len(self.into.recv(1 << 18)):
                self.got += n

    def carried(self):
        """Return the bytes that the flow's segments took on the wire."""
        return self.got * (MTU + 14) // SEGMENT

    def end(self):
        self.ended.set()
        for s in (self.out, self.into):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for t in self.threads:
            t.join()
        self.out.close()
        self.into.close()


class Network(collective.Network):
    """The network of collective.py, with hosts that send over TCP."""

    def __init__(self, workers, at, sources, pins):
        super().__init__(workers, MTU, at.aggregators() if at.several() else 0, at.everywhere(), pins)
        self.at, self.sources = at, [self.source(i) for i in range(sources)]
        self.elements = (MTU - (HEADERS - 14)) // 128 * 32
        self.first = self.adders[0] if self.adders else collective.Adder(self.agg, labs.ADDRESS, labs.PIN, None)
        self.load()
        self.add()

    def source(self, i):
        host = self.netns()
        self.switch.ip(f"link add t{i} type veth peer name eth0 netns {host.path}", f"link set t{i} master br0 up")
        host.ip(f"addr add 10.99.1.{200 + i}/24 dev eth0", "link set eth0 up", f"route add {labs.ADDRESS} via 10.99.1.1")
        return host

    def shape(self, mbit, topology="switch", queue=collective.QUEUE):
        super().shape(mbit, topology, queue)
        for i, host in enumerate(self.sources):
            collective.tbf(host, "eth0", mbit, collective.HOST_QUEUE)
            collective.tbf(self.switch, f"t{i}", mbit, queue)

    def add(self):
        port, options = labs.PORT + 1, ("--elements", self.elements, "--window", WINDOW)
        self.to = labs.ADDRESS
        if not self.adders:
            self.add_job(JOB, *options, workers=[f"{a}:{port}" for a in self.addresses])
        for a, _ in self.chosen(self.at):
            a.host.run(labs.FPISA, "job", "add", JOB, *options, "--workers", ",".join(f"{w}:{port}" for w in self.addresses),
                       "--address", a.address, "--fanout", "multicast" if a.rank is None else "unicast", "--pin", a.pins)
        if self.adders:
            self.to = ",".join(f"{a.address}*{w}" for a, w in self.chosen(self.at))

    def begin(self, count):
        return [self.start(r, JOB, {"count": count, "kind": "integers", "in_place": True}, address=self.to, local_port=labs.PORT + 1,
                           timeout_ms=10**6) for r in range(len(self.worker))]

    def summed(self):
        """Return how many bytes of a rank the first aggregator has added, including headers."""
        dump = json.loads(self.first.host.run("bpftool", "-j", "map", "dump", "pinned", f"{self.first.pins}/fpisa_counters"))
        chunks = sum(v["value"]["v_result"] for e in dump if e["formatted"]["key"] == JOB for v in e["formatted"]["values"])
        return chunks * (self.elements * 4 + HEADERS)


class Case(typing.NamedTuple):
    """The links and the flows of a measurement."""
    topology: str
    workers: int
    flows: int
    control: str
    rate_mbps: int
    queue_bytes: int

    def at(self):
        return Setting(self.topology, self.workers, self.rate_mbps)

    def count(self, seconds):
        """Return more values than the ranks can sum in that time."""
        aggregators = max(1, self.at().aggregators()) if self.at().several() else 1
        return int(1.5 * seconds * self.rate_mbps * 1e6 / 32 * aggregators / self.workers) + 10**6


def rates(samples):
    """Return the bytes of a rank and of a flow between two samples."""
    return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(samples, samples[1:])]


def watch(net, flows, seconds):
    """Return the bytes of a rank, the mean of the flows, and the time, about once a second."""
    began, samples = time.monotonic(), []
    while not samples or samples[-1][2] < began + seconds:
        time.sleep(0.7)
        samples.append((net.summed(), statistics.mean(f.carried() for f in flows), time.monotonic()))
    return samples


def measure(net, case, seconds, late):
    """Return the line of a case."""
    net.shape(case.rate_mbps, case.topology, case.queue_bytes)
    with contextlib.ExitStack() as stack:
        ranks = [] if late else net.begin(case.count(seconds))
        for p in ranks:
            p.stdout.readline()
        flows = [Flow(net, i, net.first, case.control) for i in range(case.flows)]
        for flow in flows:
            stack.callback(flow.end)
        if late:
            time.sleep(FILLED_S)
            ranks = net.begin(case.count(seconds))
        for p in ranks:
            stack.callback(labs.end, p)
        samples = watch(net, flows, seconds)
    return {**case._asdict(), "late": late, **figures(case, samples)}


def figures(case, samples):
    """Return the ratio and the share of the port for the last two thirds of the samples."""
    last = samples[len(samples) // 3:]
    ours, flow = (last[-1][i] - last[0][i] for i in (0, 1))
    total = (case.workers * ours + case.flows * flow) * 8 / (last[-1][2] - last[0][2]) / 1e6
    return {"ratio": round(ours / max(1, flow), 3), "port_share": round(total / case.rate_mbps, 3),
            "series": [round(a / max(1, b), 2) for a, b in rates(samples)]}


def cases(args):
    return [Case(*c) for c in itertools.product(args.topologies, args.workers, args.flows, args.control, args.rates, args.queues)]


def run(case, args):
    labs.mount(b"bpf", labs.BPFFS, b"bpf")
    os.mkdir(PINS)
    net = Network(case.workers, case.at(), case.flows, PINS)
    try:
        return measure(net, case, args.seconds, args.late)
    finally:
        net.close()
        labs.unmount(labs.BPFFS)


def row(x):
    return (f"| {x['topology']} | {x['workers']} | {x['flows']} {x['control']} | {x['rate_mbps']} Mbit/s | {x['queue_bytes'] >> 10} KB | "
            f"{x['ratio']:.2f} | {x['port_share']:.2f} |")


def main():
    p = argparse.ArgumentParser(prog="fair", description=__doc__.splitlines()[0])
    p.add_argument("--topologies", default="one-port,dedicated-4", type=lambda s: s.split(","))
    p.add_argument("--workers", default="4", type=numbers)
    p.add_argument("--flows", default="1,4", type=numbers)
    p.add_argument("--control", default="cubic", type=lambda s: s.split(","))
    p.add_argument("--rates", default="20", type=numbers)
    p.add_argument("--queues", default=f"{128 << 10},{1 << 20}", type=numbers)
    p.add_argument("--seconds", type=int, default=30)
    p.add_argument("--late", action="store_true", help="the flows fill the queue before the ranks start")
    p.add_argument("--table", action="store_true", help="print a table")
    args = p.parse_args()
    exit_on_signals()
    labs.own_mounts()
    if args.table:
        print("| topology | ranks | TCP flows | link | queue | bytes of a rank : a flow | share of the port in use |\n|---|---|---|---|---|---|---|")
    for case in cases(args):
        line = run(case, args)
        print(row(line) if args.table else json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
