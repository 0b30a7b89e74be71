#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure the time of an all-reduce over shaped links by FPISA, Open MPI, MPICH and Gloo.

    collective.py [--workers 2,4,8] [--rates 100,1000] [--sizes BYTES,...] [--rounds R] [--only NAME,...]
                  [--topologies switch,one-port,dedicated-K,colocated,everywhere-K,racks-K,spread-K,hosts-K] [--queue BYTES] [--loss SHARE]
                  [--operations allreduce,broadcast,reduce,allgather,reduce_scatter] [--groups] [--udp-gro off]

Each worker is a network namespace. All links are connected to a bridge. Both directions of a worker's link are shaped to the
same rate by tbf, at the worker's eth0 and at the bridge's port to the worker. A topology says where the aggregator is:

    switch	in the switch, so its link is not shaped
    one-port	a host behind one port of the switch. That port is shaped to the
	workers' rate, and N vectors come in by it, so N S/rate is the bound. Outgoing
	traffic is not shaped: by multicast it is one vector.
    dedicated-K	K hosts, each behind a separate port that is shaped both ways,
	and each has its share of every vector.
    colocated	the workers' own hosts add, on the same hardware as a ring.
    everywhere-K	the workers' own hosts and K more add. Shares are those of
	`fpisa plan`.
    racks-K	K racks, each a switch with a leaf in it, and a root in the switch
	above. An uplink has a quarter of the rate of the rack's workers
	together, both ways. FPISA's sums are in mode exact. Neighbours
	are in one rack. This topology takes one number of workers, and
	no other topology beside it.
    spread-K	as racks-K, but neighbours are in different racks, as after a
	scheduler that does not know the racks. A ring then crosses the
	uplinks at each rank, and `ring_limit_s` allows for this.
    hosts-K	K hosts with N/K workers each, a leaf on each host, and a root in the
	switch. FPISA's sums are in mode exact. Neighbours are on one host. Open MPI's workers on a host share memory. The
	contender `openmpi-han`, which --only has to name, is Open MPI with its collectives of two levels. The line has the
	bytes that a host's link carried in each direction, as multiples of S. Otherwise as racks-K.

Frames that XDP sends do not pass a queue of the host. If a host adds, its frames are shaped when they enter the bridge, in
one queue with the frames of the host's network stack.

Each port of the bridge holds --queue bytes. The bridge loses --loss of all frames. Results are coalesced where they enter
the bridge (`rx-udp-gro-forwarding`), because the kernel of a worker with a NIC would coalesce them too. For TCP the kernel
always does so. `--udp-gro off` turns this off. The contenders' processes exist during the whole run and take turns over the
same links in each round. A wrong sum ends the run.

With --groups, FPISA's ranks join groups of a manager in place of static jobs, and measure one topology after the other:
switch, one-port, or colocated, whose manager is on the first worker's host. The aggregator on a rank's host then adds the
rank's part of a reduce-scatter, and the line's `limit_s` allows for this.

The output is a JSON line for each point and contender. A line has the median and quartiles of the time, the share of CPU
time that was busy, and the CPU seconds of all parties per GB of contributions. `cpu_wait` is the mean share of the sum's
time in which a rank waited for a CPU. `cpu_wait` is meaningless for ranks that poll. `starts_s` is the part of the time
that lies between the starts of the first and the last rank. `limit_s` is the shortest possible time
with an aggregator, without headers. This time is S/rate, or the bound above, or the time of `fpisa plan` for several
aggregators. `ring_limit_s` is 2(N-1)/N x S/rate, with the uplink's rate if that is lower. `byteps_s` is the shortest time of
N workers and these aggregators' hosts if every host adds (BytePS, OSDI 2020, section 4). `share` is the time that the
narrowest link needs for FPISA's frames, divided by the measured time. `faster` is the time of the fastest other contender,
divided by FPISA's time in the same round. `dropped` is the number of frames dropped at full ports of the bridge.
`retransmit_share` is the number of frames that FPISA sent again, divided by the frames of the sum. `in_vain_share` is the
number of results that answered such a frame although the rank already had the result, divided by the frames of the sum.

The lines of other operations (see rank.py) have the name of the operation. These lines also have the bytes that the workers'
links carried, in each direction and in total, including headers, as multiples of S.
"""
import argparse
import contextlib
import importlib.metadata
import itertools
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from common import HEADERS, exit_on_signals, labs, numbers, own_mounts, quartiles, runnable  # noqa: E402

import mpi as mpis  # noqa: E402

RANK = os.path.join(HERE, "rank.py")
ALGORITHMS = {3: "recursive doubling", 4: "ring", 5: "segmented ring", 6: "Rabenseifner", 0: "its own choice"}
GROUP_TOPOLOGIES = "switch", "one-port", "colocated"
TOPOLOGIES = "switch", "one-port", "dedicated-K", "colocated", "everywhere-K", "racks-K", "spread-K", "hosts-K"
OPENMPI = {"openmpi": {}, "openmpi-han": {"coll_han_priority": 100}}  # contenders, with parameters of MCA
OPERATIONS = "allreduce", "broadcast", "reduce", "allgather", "reduce_scatter"
# If a sum takes the link longer than this, use Open MPI's algorithm that was fastest at a quarter of the sum's size.
QUALIFY_S = 0.15
START_S = 0.003	 # time from an order to the common start
ANSWER_S = 120
SIZES = [1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 16 << 20, 64 << 20]
LONGEST_S = 3  # maximum limit_s of the sums that are measured by default
QUEUE = 1 << 20	 # size in bytes of the queue at a port of the switch
HOST_QUEUE = 16 << 20  # size in bytes of the queue at a worker's end of the link


class Failure(Exception):
    pass


class Adder(typing.NamedTuple):
    """One of several aggregators, with its namespace, its address, its directory of pins, and the rank on its host, if any."""
    host: labs.Netns
    address: str
    pins: str
    rank: typing.Optional[int]


class Network(labs.Lab):
    """The bridge with shaped links."""

    def __init__(self, workers, mtu, aggregators=0, colocated=False, pins=None):
        super().__init__(workers=workers, mtu=mtu, bridge=True)
        self.switch = self.spaces[-1]
        self.switch.ip("addr add 10.99.1.254/24 dev br0")
        with self.switch.entered(), contextlib.suppress(FileNotFoundError):
            with open("/proc/sys/net/bridge/bridge-nf-call-iptables", "w") as f:
                f.write("0")  # a switch does not have a firewall
        self.pins, self.entries, self.leaves, self.leaf_ports, self.workers_of, self.uplinks = pins, [], [], [], [], []
        self.each = 1  # ranks of each worker's namespace
        self.adders = [self.dedicated(i, mtu) for i in range(aggregators)]
        if colocated:
            self.adders += [self.beside(r) for r in range(workers)]

    def make_racks(self, racks, mtu, spread):
        """Move the workers' ports into racks, in order, or in turn if `spread`. Results of a leaf do not leave by the rack's uplink."""
        world = len(self.worker)
        for i in range(racks):
            self.workers_of.append(range(i, world, racks) if spread else range(i * world // racks, (i + 1) * world // racks))
            self.uplinks.append(len(self.workers_of[i]) / 4)
            self.leaf_ports.append(f"l{i}")
            host, address = self.netns(), f"10.99.1.{150 + i}"
            self.switch.ip(f"link add rack{i} type bridge mcast_snooping 0 forward_delay 0 stp_state 0", f"link set rack{i} up",
                           f"link add up{i} mtu {mtu} type veth peer name down{i} mtu {mtu}",
                           f"link set up{i} master rack{i} up", f"link set down{i} master br0 up",
                           f"link add l{i} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {host.path}",
                           f"link set l{i} master rack{i} up", *(f"link set p{r} master rack{i}" for r in self.workers_of[i]))
            self.switch.run("bridge", "link", "set", "dev", f"up{i}", "mcast_flood", "off")
            host.ip(f"addr add {address}/24 dev eth0", "link set eth0 up", f"route add {labs.ADDRESS} via 10.99.1.1")
            host.gro_on("eth0")
            self.switch.gro_on(f"l{i}")
            self.leaves.append(self.loaded(Adder(host, address, f"{self.pins}/l{i}", None), "eth0"))

    def make_hosts(self, world):
        """Make each worker's namespace a host with a leaf, and with an equal part of the ranks, in order."""
        self.each = world // len(self.worker)
        for i in range(len(self.worker)):
            self.workers_of.append(range(i * self.each, (i + 1) * self.each))
            self.leaves.append(self.beside(i))

    def dedicated(self, i, mtu):
        """Add a host behind a separate port. Multicast results do not leave through this port."""
        host, address = self.netns(), f"10.99.1.{150 + i}"
        self.switch.ip(f"link add a{i} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {host.path}",
                       f"link set a{i} master br0 up")
        self.switch.run("bridge", "link", "set", "dev", f"a{i}", "mcast_flood", "off")
        host.ip(f"addr add {address}/24 dev eth0", "link set eth0 up")
        host.gro_on("eth0")
        self.switch.gro_on(f"a{i}")
        self.queue_from(f"a{i}")
        return self.loaded(Adder(host, address, f"{self.pins}/a{i}", None), "eth0")

    def beside(self, rank):
        """Add an aggregator on a worker's host. The frames of the host's own rank use `lo`."""
        self.sends(rank)
        return self.loaded(Adder(self.worker[rank], self.addresses[rank], f"{self.pins}/w{rank}", rank), "eth0", "lo", "--mode", "skb")

    def sends(self, rank):
        """Let the switch accept frames of this worker's datapath, because the worker's host is also an aggregator."""
        self.switch.gro_on(f"p{rank}")
        self.queue_from(f"p{rank}")

    def serve(self, colocated, folder):
        """Start the manager. If `colocated`, each worker's host has an aggregator, and the first also has the manager. Return the
        manager's address.
        """
        config = os.path.join(folder, "fpisa.conf")
        with open(config, "w") as f:
            f.write("[manager]\nwithout-key = yes\n")
        if not colocated:
            self.load()
            started(self.agg.spawn(labs.FPISA, "serve", config))
            return labs.ADDRESS
        for r, host in enumerate(self.worker):
            self.sends(r)
            started(host.spawn(labs.FPISA, "serve", "--manager", self.addresses[0], "--colocated", "eth0", "--pin", f"{self.pins}/w{r}",
                               config))
        return self.addresses[0]

    def queue_from(self, port):
        """Shape all frames that enter the bridge through this port, including XDP's frames, by passing them through a device."""
        self.switch.ip(f"link add from-{port} type ifb", f"link set from-{port} up")
        self.switch.run("tc", "qdisc", "add", "dev", port, "clsact")
        self.switch.run("tc", "filter", "add", "dev", port, "ingress", "protocol", "all", "u32", "match", "u32", "0", "0",
                        "action", "mirred", "egress", "redirect", "dev", f"from-{port}")
        self.entries.append(f"from-{port}")

    def loaded(self, adder, *what):
        adder.host.run(labs.FPISA, "load", *what, "--pin", adder.pins)
        return adder

    def chosen(self, at):
        """Return the aggregators of a setting and their weights."""
        if not at.several():
            return []
        plan = at.plan()
        return [(a, plan["aggregator_weight"] if a.rank is None else plan["worker_weight"])
                for a in (*self.adders[:at.aggregators()], *(a for a in self.adders if at.everywhere() and a.rank is not None
                                                             and a.rank < at.workers))
                if plan["aggregator_weight" if a.rank is None else "worker_weight"]]

    def lose(self, loss):
        """Drop this share of the frames that the bridge forwards at random. TCP segments that are coalesced are lost together."""
        self.switch.run("nft", "add table bridge loss; delete table bridge loss; add table bridge loss; add chain bridge loss forward { type filter hook forward priority 0; }; "
                        f"add rule bridge loss forward numgen random mod 100000 < {round(loss * 100000)} drop")

    def shape(self, mbit, topology="switch", queue=QUEUE):
        for r, w in enumerate(self.worker):
            tbf(w, "eth0", mbit, HOST_QUEUE)
            tbf(self.switch, f"p{r}", mbit, queue)
        for i, adder in enumerate(a for a in self.adders if a.rank is None):
            tbf(adder.host, "eth0", mbit, HOST_QUEUE)
            tbf(self.switch, f"a{i}", mbit, queue)
        for entry in self.entries:
            tbf(self.switch, entry, mbit, HOST_QUEUE)
        for i, width in enumerate(self.uplinks):
            for port in f"up{i}", f"down{i}":
                tbf(self.switch, port, mbit * width, queue)
        self.shape_uplink(mbit, topology, queue)

    def shape_uplink(self, mbit, topology, queue):
        """Shape the port of the aggregator, unless the aggregator is the switch."""
        if topology == "one-port":
            tbf(self.switch, "uplink", mbit, queue)
        else:
            self.switch.try_run("tc", "qdisc", "delete", "dev", "uplink", "root")

    def dropped(self):
        """Return the number of frames that were dropped at full ports of the bridge."""
        return sum(q["drops"] for q in json.loads(self.switch.run("tc", "-s", "-j", "qdisc", "show")) if q.get("root"))

    def carried(self, workers):
        """Return the number of bytes that these workers' links have sent and received."""
        total = [0, 0]
        for w in self.worker[:workers]:
            with w.entered(), open("/proc/thread-self/net/dev") as f:
                fields, = [line.split(":")[1].split() for line in f if line.split(":")[0].strip() == "eth0"]
            total = [total[0] + int(fields[8]), total[1] + int(fields[0])]
        return total

    def put_together(self, value):
        """Set whether results are coalesced when they enter the bridge. Return the state, `on` or `off`."""
        if not shutil.which("ethtool"):
            return "off"
        for port in "uplink", *self.leaf_ports:
            self.switch.run("ethtool", "-K", port, "rx-udp-gro-forwarding", value)
        features = dict(line.strip().split(": ", 1) for line in self.switch.run("ethtool", "-k", "uplink").splitlines()
                        if ": " in line)
        return features.get("rx-udp-gro-forwarding", "off").split()[0]

    def flood(self, workers):
        """Send multicast results only to the ports of the first `workers`."""
        for r in range(len(self.worker)):
            self.switch.run("bridge", "link", "set", "dev", f"p{r}", "mcast_flood",
                            "on" if r < workers else "off")


def started(serve):
    """Wait until this `fpisa serve` is ready."""
    while not (said := serve.stdout.readline()).startswith(("serving groups", "aggregator ")):
        if not said:
            raise Failure(f"fpisa serve: {serve.stderr.read()}")


def tbf(space, dev, mbit, limit):
    space.run("tc", "qdisc", "replace", "dev", dev, "root", "tbf", "rate", f"{mbit}mbit", "burst", burst_bytes(mbit), "limit", limit)


class Setting(typing.NamedTuple):
    """The state of the links while a size is measured."""
    topology: str
    workers: int
    mbit: int

    def racks(self):
        return int(self.topology.split("-")[1]) if self.topology.startswith(("racks-", "spread-")) else 0

    def spread(self):
        return self.topology.startswith("spread-")

    def hosts(self):
        return int(self.topology.split("-")[1]) if self.topology.startswith("hosts-") else 0

    def several(self):
        return self.topology not in ("switch", "one-port") and not self.racks() and not self.hosts()

    def everywhere(self):
        return self.topology.startswith(("colocated", "everywhere-"))

    def aggregators(self):
        """Return the number of separate hosts with an aggregator. A switch counts as one host for each worker."""
        if not self.several():
            return 1 if self.topology == "one-port" else self.workers
        return int(self.topology.split("-")[1]) if "-" in self.topology else 0

    def plan(self):
        """Return the output of `fpisa plan` for a vector of 10^6 bytes."""
        out = subprocess.run([labs.FPISA, "plan", "--workers", str(self.workers), "--aggregators", str(self.aggregators()), "--rate",
                              f"{self.mbit}M", "--bytes", "1000000", "--json", *["--colocated"] * self.everywhere()],
                             check=True, stdout=subprocess.PIPE)
        return json.loads(out.stdout)

    def inflow(self):
        """Return the number of vectors that arrive over the narrowest link."""
        if self.several():
            return self.byteps() if self.everywhere() else max(1, self.workers / self.aggregators())
        return self.workers if self.topology == "one-port" else self.slower_uplink()

    def slower_uplink(self):
        """Return how many times slower an uplink is than a worker's link, or 1 if it is not slower."""
        return max(1, 4 * self.racks() / self.workers)

    def byteps(self):
        """Return this number with the best possible shares if the workers' hosts are also aggregators."""
        n, k = self.workers, self.aggregators()
        return max(1, 2 * n * (n - 1) / (n * n + k * n - 2 * k))

    def limit_s(self, size):
        return self.inflow() * size * 8 / (self.mbit * 1e6)

    def scatter_limit_s(self, size):
        """Return the shortest time of a reduce-scatter in a group, whose parts are added on the hosts of their ranks if possible."""
        return (1 - 1 / self.workers) * size * 8 / (self.mbit * 1e6) if self.everywhere() else self.limit_s(size)

    def byteps_s(self, size):
        return self.byteps() * size * 8 / (self.mbit * 1e6)

    def ring_limit_s(self, size):
        n = self.hosts() or self.workers
        return 2 * (n - 1) / n * (4 if self.spread() else self.slower_uplink()) * size * 8 / (self.mbit * 1e6)

    def described(self):
        return {"topology": self.topology, "workers": self.workers, "rate_mbps": self.mbit}


class Run(typing.NamedTuple):
    """The figures of one sum."""
    seconds: float  # time from the first rank's start to the last rank's end
    busy: float	 # share of all CPUs' time that was busy
    again: int	# number of contributions that the ranks sent again
    unasked: int  # number of results that ranks already had, so they had sent again needlessly
    cpu_s: float  # CPU time of all parties in seconds
    waited: float  # share of the time in which a rank could have run but did not have a CPU
    dropped: int = 0  # number of frames that were dropped at full ports of the bridge
    carried: typing.Sequence[int] = (0, 0)  # number of bytes that the links of all hosts sent and received
    starts_s: float = 0  # time from the first rank's start to the last rank's start


class Contender:
    """The ranks of one contender. Each rank has a socket."""

    def __init__(self, name, ranks):
        self.name, self.ranks = name, ranks

    def order(self, workers, **order):
        for r in range(workers):
            self.ranks[r].write(json.dumps({"workers": workers, **order}) + "\n")
            self.ranks[r].flush()
        answers = []
        for r in range(workers):
            try:
                line = self.ranks[r].readline()
            except TimeoutError:
                raise Failure(f"{self.name}: rank {r}: no answer in {ANSWER_S} s; is another program using the CPUs?") from None
            answers.append(json.loads(line) if line else {"error": "ended"})
            if "error" in answers[-1]:
                raise Failure(f"{self.name}: rank {r}: {answers[-1]['error']}")
        return answers

    def run(self, operation, at, count, algorithm):
        """Run one sum."""
        workers, topology = at.workers, at.topology
        self.order(workers, do="prepare", operation=operation, count=count)
        before = cpu_times()
        answers = self.order(workers, do="run", operation=operation, count=count, algorithm=algorithm, side=f"{topology}/{workers}",
                             at_ns=time.monotonic_ns() + int(START_S * max(1, workers / 8) * 1e9))
        busy = [b - a for a, b in zip(before, cpu_times())]
        if not all(a["right"] for a in answers):
            raise Failure(f"{self.name}: {workers} workers, {count} values: wrong sum; please report this bug")
        starts = [a["start_ns"] for a in answers]
        took = max(a["end_ns"] for a in answers) - min(starts)
        return Run(took / 1e9, busy[0] / max(1, sum(busy)), sum(a.get("retransmits", 0) for a in answers),
                   sum(a.get("duplicates", 0) for a in answers), busy[0] / os.sysconf("SC_CLK_TCK"),
                   sum(a["waited_ns"] for a in answers) / workers / took, starts_s=(max(starts) - min(starts)) / 1e9)


def gloo_has(operation):
    """Return whether PyTorch's Gloo has the operation. It has reduce_scatter from 2.8 on."""
    return operation != "reduce_scatter" or tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) >= (2, 8)


def cpu_times():
    """Return the busy and the idle ticks of all CPUs."""
    with open("/proc/stat") as f:
        ticks = list(map(int, f.readline().split()[1:9]))
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, idle


class Stage:
    """The network, the aggregator, and the contenders' ranks."""

    transport = labs.worker.UDP  # transport of FPISA's workers

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.world = max(args.workers)
        several = [at for at in (Setting(t, 2, 1) for t in args.topologies) if at.several() and not args.groups]
        self.pins = os.path.join(folder, "pins")  # a BPF filesystem for pins of several aggregators
        os.mkdir(self.pins)
        labs.mount(b"bpf", self.pins, b"bpf")
        first = Setting(args.topologies[0], self.world, 1)
        self.net = Network(first.hosts() or self.world, args.mtu, max([t.aggregators() for t in several], default=0),
                           any(t.everywhere() for t in several), self.pins)
        if first.racks():
            self.net.make_racks(first.racks(), args.mtu, first.spread())
        if first.hosts():
            self.net.make_hosts(self.world)
        self.udp_gro = self.net.put_together(args.udp_gro)
        self.elements = (args.mtu - (HEADERS - 14)) // 128 * 32
        self.jobs, self.manager = {}, None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(folder, "control"))
        self.listener.listen(64)
        self.listener.settimeout(0.5)

    def open(self, contenders):
        if self.args.groups:
            self.open_groups()
        else:
            self.open_jobs()
        return [self.contender(name) for name in contenders]

    def open_groups(self):
        topology, = self.args.topologies
        self.manager = self.net.serve(topology == "colocated", self.folder)
        self.jobs = {f"{topology}/{n}": {"workers": n} for n in self.args.workers}

    def open_jobs(self):
        self.net.load()
        for job, (topology, n) in enumerate(itertools.product(self.args.topologies, self.args.workers)):
            at = Setting(topology, n, 1000)
            add = self.several if at.several() else self.tree if at.racks() or at.hosts() else self.single
            self.jobs[f"{topology}/{n}"] = add(job, at)

    def options(self):
        return "--elements", self.elements, "--window", self.args.window

    def single(self, job, at):
        port = labs.PORT + 1 + job
        self.net.add_job(job, *self.options(), workers=[f"{a}:{port}" for a in self.net.addresses[:at.workers]])
        return {"job": job, "workers": at.workers, "ports": [port] * at.workers, "addresses": [labs.ADDRESS] * at.workers}

    def tree(self, job, at):
        """Add the root's job and those of the leaves."""
        options = (*self.options(), "--mode", "exact")
        port = [labs.PORT + 1 + job + r % self.net.each for r in range(at.workers)]
        address = {r: leaf.address for leaf, workers in zip(self.net.leaves, self.net.workers_of) for r in workers}
        self.net.add_job(job, *options, "--leaves", workers=[leaf.address for leaf in self.net.leaves])
        for i, (leaf, workers) in enumerate(zip(self.net.leaves, self.net.workers_of)):
            leaf.host.run(labs.FPISA, "job", "add", job, *options, "--parent", f"{labs.ADDRESS}/{i}", "--workers",
                          ",".join(f"{self.net.addresses[r // self.net.each]}:{port[r]}" for r in workers), "--address", leaf.address,
                          *(("--fanout", "unicast") if at.hosts() else ()), "--pin", leaf.pins)
        return {"job": job, "workers": at.workers, "ports": port,
                "addresses": [address[r] for r in range(at.workers)]}

    def several(self, job, at):
        """Add the same job at each aggregator. The ranks use one port for all aggregators, which differs from the datapath's
        own port.
        """
        port, chosen = labs.PORT + 1 + job, self.net.chosen(at)
        workers = ",".join(f"{w}:{port}" for w in self.net.addresses[:at.workers])
        for a, _ in chosen:
            a.host.run(labs.FPISA, "job", "add", job, *self.options(), "--workers", workers, "--address", a.address,
                       "--fanout", "multicast" if a.rank is None else "unicast", "--pin", a.pins)
        return {"job": job, "workers": at.workers, "ports": [port] * at.workers,
                "addresses": [",".join(f"{a.address}*{w}" for a, w in chosen)] * at.workers}

    def contender(self, name):
        """Start the ranks and wait until each rank has connected."""
        plan = {"world": self.world, "workers": self.args.workers, "jobs": self.jobs, "library": labs.LIBRARY,
                "meeting": f"tcp://{self.net.addresses[0]}:29500", "algorithms": list(ALGORITHMS), "transport": self.transport,
                "manager": self.manager, "elements": self.elements, "window": self.args.window}
        command = [sys.executable, "-B", RANK, name, self.listener.getsockname()]
        log = open(os.path.join(self.folder, name), "w+")
        files = {"stdout": log, "stderr": log}
        if name in OPENMPI:
            started = [self.mpirun([*command, json.dumps(plan)], files, OPENMPI[name])]
        elif name == "mpich":
            argv, env = mpis.command(name, self.world, self.folder, *command, json.dumps(plan), preload=False,
                                     hosts=mpis.Hosts(self.net, self.folder, self.net.each))
            started = [self.net.switch.spawn(*argv, env=env, **files)]
        else:
            env = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}
            started = [w.spawn(*command, json.dumps({**plan, "rank": r}), env=env, **files)
                       for r, w in enumerate(self.net.worker[r // self.net.each] for r in range(self.world))]
        try:
            return Contender(name, self.muster(started))
        except Failure as e:
            log.seek(0)
            raise Failure(f"{name}: {e}\n{log.read()}") from None

    def muster(self, started):
        """Return the sockets of all ranks after each rank has connected."""
        ranks, deadline = {}, time.monotonic() + ANSWER_S
        while len(ranks) < self.world:
            try:
                control = self.listener.accept()[0]
            except TimeoutError:
                if time.monotonic() > deadline or any(p.poll() is not None for p in started):
                    raise Failure(f"only {len(ranks)} of {self.world} ranks started; see the messages above") from None
                continue
            control.settimeout(ANSWER_S)
            lines = control.makefile("rw")
            ranks[json.loads(lines.readline())["rank"]] = lines
        return ranks

    def mpirun(self, command, files, mca):
        argv = mpi_command(self.net, self.folder, mpi_agent(self.net, self.folder), each=self.net.each, **mca)
        return self.net.switch.spawn(*argv, *command, **files)

    def close(self):
        self.net.close()
        self.listener.close()
        labs.unmount(self.pins)


def mpi_agent(net, folder):
    """Write a remote shell for mpirun that runs in the switch's namespace and enters a worker's namespace."""
    agent = os.path.join(folder, "openmpi-agent")
    with open(agent, "w") as f:
        f.write("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
        for r, (address, w) in enumerate(zip(net.addresses, net.worker)):
            f.write(f"{address}) exec nsenter --net={w.path} "
                    f'unshare --uts sh -c "hostname w{r}; $*" ;;\n')
        f.write("esac\nexit 1\n")
    os.chmod(agent, 0o700)
    return agent


def mpi_command(net, folder, agent, env=(), each=1, **more):
    """Return mpirun and its options for `each` ranks per worker, with these environment variables and further parameters of MCA."""
    mca = {"plm_rsh_agent": agent, "plm_rsh_no_tree_spawn": 1, "oob_tcp_if_include": "10.99.1.0/24",
           "btl_tcp_if_include": "10.99.1.0/24", "btl": "tcp,self" if each == 1 else "tcp,vader,self", "pml": "ob1",
           "coll_tuned_use_dynamic_rules": 1, "mpi_yield_when_idle": 1, "orte_tmpdir_base": folder, **more}
    return ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "--map-by", "node" if each == 1 else "slot", "--host",
            ",".join(f"{a}:{each}" for a in net.addresses), "-np", each * len(net.addresses), *(x for k, v in mca.items() for x in ("--mca", k, v)),
            *(x for name in env for x in ("-x", name))]


class Bench:
    def __init__(self, stage, contenders, args):
        self.stage, self.contenders, self.args = stage, contenders, args
        self.best = {}	# (setting, bytes): Open MPI's algorithm

    def algorithm(self, contender, at, size):
        """Return Open MPI's fastest algorithm for this point, or for the largest smaller size for which algorithms are tried."""
        if contender.name != "openmpi":
            return 0
        while size * 8 / (at.mbit * 1e6) > QUALIFY_S:
            size //= 4
        key = at, size
        if key not in self.best:
            times = {a: min(contender.run("allreduce", at, size // 4, a).seconds for _ in range(2)) for a in ALGORITHMS}
            self.best[key] = min(times, key=times.get)
        return self.best[key]

    def point(self, at, size):
        """Measure all rounds of one point. Print a line for each contender."""
        chosen = {c: self.algorithm(c, at, size) for c in self.contenders}
        rounds = []
        for i in range(self.args.rounds):
            turn = i % len(self.contenders)
            rounds.append({c: self.measured(c, at, size, chosen[c]) for c in self.contenders[turn:] + self.contenders[:turn]})
        for c in self.contenders:
            self.report(c, chosen[c], at, size, rounds)

    def measured(self, contender, at, size, algorithm):
        """Measure a run, and the frames that the ports dropped during the run."""
        before, carried = self.stage.net.dropped(), self.stage.net.carried(at.workers)
        run = contender.run("allreduce", at, size // 4, algorithm)
        return run._replace(dropped=self.stage.net.dropped() - before,
                            carried=[b - a for a, b in zip(carried, self.stage.net.carried(at.workers))])

    def other_point(self, operation, at, size):
        """Measure a point of another operation. Open MPI chooses its algorithm. Skip contenders without the operation."""
        contenders = [c for c in self.contenders if c.name != "mpich" and (c.name != "gloo" or gloo_has(operation))]
        count = size // 4 // at.workers * at.workers
        limit_s = at.scatter_limit_s if operation == "reduce_scatter" and self.args.groups else at.limit_s
        rounds = []
        for i in range(self.args.rounds):
            rounds.append({})
            for c in contenders[i % len(contenders):] + contenders[:i % len(contenders)]:
                before = self.stage.net.carried(at.workers)
                seconds = c.run(operation, at, count, 0).seconds
                rounds[-1][c] = seconds, [(b - a) / (4 * count) for a, b in zip(before, self.stage.net.carried(at.workers))]
        for c in contenders:
            seconds = [r[c][0] for r in rounds]
            line = {"bench": "collective", "operation": operation, "contender": c.name, **at.described(),
                    "bytes": 4 * count, "rounds": len(rounds), "seconds": round(statistics.median(seconds), 7),
                    "seconds_quartiles": [round(q, 7) for q in quartiles(seconds)],
                    "limit_s": limit_s(4 * count), "mtu": self.args.mtu, "groups": self.args.groups}
            for way, name in enumerate(("sent", "received")):
                line[name] = round(statistics.median(r[c][1][way] for r in rounds), 2)
            others = [o for o in contenders if o is not c]
            if c.name == "fpisa" and others:
                line["faster"] = round(statistics.median(min(r[o][0] for o in others) / r[c][0] for r in rounds), 3)
            print(json.dumps(line), flush=True)

    def report(self, contender, algorithm, at, size, rounds):
        seconds = [r[contender].seconds for r in rounds]
        median, (low, high) = statistics.median(seconds), quartiles(seconds)
        line = {"bench": "collective", "contender": contender.name, **at.described(),
                "queue_bytes": self.args.queue, "loss": self.args.loss, "bytes": size, "rounds": len(rounds), "seconds": round(median, 7),
                "seconds_quartiles": [round(low, 7), round(high, 7)],
                "starts_s": round(statistics.median(r[contender].starts_s for r in rounds), 7), "limit_s": at.limit_s(size),
                "ring_limit_s": at.ring_limit_s(size), "byteps_s": at.byteps_s(size),
                "cpu_busy": round(statistics.median(r[contender].busy for r in rounds), 3),
                "cpu_wait": round(statistics.median(r[contender].waited for r in rounds), 3),
                "cpu_s_per_gb": round(statistics.median(r[contender].cpu_s for r in rounds) / (size * at.workers) * 1e9, 3),
                "dropped": statistics.median(r[contender].dropped for r in rounds), "mtu": self.args.mtu}
        if contender.name == "openmpi":
            line["algorithm"] = ALGORITHMS[algorithm]
        if at.hosts():
            line.update({way: round(statistics.median(r[contender].carried[i] for r in rounds) / (at.hosts() * size), 3)
                         for i, way in enumerate(("sent", "received"))})
        if contender.name == "fpisa":
            line.update(self.ours(contender, at, size, rounds))
        print(json.dumps(line), flush=True)

    def ours(self, contender, at, size, rounds):
        """Return the figures that only the line of FPISA has."""
        out = {**link_shares(at, size, self.stage.elements, [r[contender] for r in rounds]),
               "elements_a_frame": self.stage.elements, "window": self.args.window, "udp_gro": self.stage.udp_gro}
        others = [c for c in self.contenders if c is not contender]
        if others:
            out.update(faster([(r[contender].seconds, min(r[c].seconds for c in others)) for r in rounds]))
        return out


def link_shares(at, size, elements, runs):
    """For FPISA's runs, return the share of time that the narrowest link needs for their frames, and the share of useless
    frames.
    """
    frames = -(-size // 4 // elements)
    needed = at.limit_s(max(0, size + frames * HEADERS - burst_bytes(at.mbit) / at.inflow()))
    shares = [needed / run.seconds for run in runs]

    def share_of(figure):
        return round(statistics.median(getattr(run, figure) for run in runs) / max(1, frames * at.workers), 5)

    return {"share": round(statistics.median(shares), 4), "share_quartiles": [round(q, 4) for q in quartiles(shares)],
            "retransmit_share": share_of("again"), "in_vain_share": share_of("unasked")}


def faster(pairs):
    """Compare pairs of times, one pair for each round. A pair has FPISA's time and the best time of the other contenders."""
    ratios = [other / ours for ours, other in pairs]
    return {"faster": round(statistics.median(ratios), 3), "faster_quartiles": [round(q, 3) for q in quartiles(ratios)]}


def burst_bytes(mbit):
    """Return the size of the bucket, which is the largest TCP segment at 1 Gbit/s, and half as large at lower rates. `share`
    allows for it.
    """
    return 65536 if mbit >= 1000 else 32768


def missing(name):
    """Return the name of a contender's missing dependency, or None."""
    name = "openmpi" if name in OPENMPI else name
    launcher = {"openmpi": ("mpirun.openmpi", "openmpi-bin"), "mpich": ("mpirun.mpich", "mpich")}.get(name)
    if launcher and not shutil.which(launcher[0]):
        return launcher[1]
    needs = {"fpisa": "numpy", "gloo": "torch", "openmpi": "mpi4py", "mpich": "numpy"}[name]
    with contextlib.suppress(ImportError, ValueError):
        import importlib.util
        if importlib.util.find_spec(needs):
            return None
    return "python3-" + needs


def installed(only):
    """Return the contenders that can run here and that `only`, a comma-separated list, names."""
    return runnable("collective", only, missing)


def measure(args, names, operations):
    """Measure all points over one network."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stage = Stage(args, folder)
        stack.callback(stage.close)
        bench = Bench(stage, stage.open(names), args)
        if args.loss:
            stage.net.lose(args.loss)
        for at in itertools.starmap(Setting, itertools.product(args.topologies, args.workers, args.rates)):
            stage.net.flood(at.workers)
            stage.net.shape(at.mbit, at.topology, args.queue)
            for size in args.sizes or [s for s in SIZES if at.limit_s(s) < LONGEST_S]:
                for operation in operations:
                    if operation == "allreduce":
                        bench.point(at, size)
                    else:
                        bench.other_point(operation, at, size)


def main():
    p = argparse.ArgumentParser(prog="collective", description=__doc__.splitlines()[0])
    p.add_argument("--workers", type=numbers, default=[2, 4, 8])
    p.add_argument("--rates", type=numbers, default=[100, 1000], help="Mbit/s")
    p.add_argument("--sizes", type=numbers, help="bytes; by default those that need at most 3 s")
    p.add_argument("--topologies", default="switch", help=", ".join(TOPOLOGIES))
    p.add_argument("--queue", type=int, default=QUEUE, help="bytes that a port of the switch holds")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--loss", type=float, default=0, help="share of the frames that a port of the switch loses")
    p.add_argument("--only", default="fpisa,openmpi,mpich,gloo")
    p.add_argument("--operations", default="allreduce")
    p.add_argument("--groups", action="store_true", help="FPISA's ranks join groups of a manager")
    p.add_argument("--mtu", type=int, default=3506)
    p.add_argument("--window", type=int, default=64)
    p.add_argument("--udp-gro", choices=["on", "off"], default="on", help="merge results at the bridge")
    args = p.parse_args()
    operations, args.topologies = args.operations.split(","), args.topologies.split(",")
    for option, given, known in (("operations", operations, OPERATIONS),
                                 ("topologies", [re.sub(r"-\d+$", "-K", t) for t in args.topologies], TOPOLOGIES)):
        if set(given) - set(known):
            p.error(f"--{option}: '{(set(given) - set(known)).pop()}' is not one of {', '.join(known)}")
    trees = [t.split("-")[0] for t in args.topologies if t.startswith(("racks-", "spread-", "hosts-"))]
    if trees and (len(args.topologies) > 1 or len(args.workers) > 1):
        p.error(f"--topologies: {trees[0]}-K takes one number of workers, and no other topology; run the others apart")
    if "hosts" in trees and args.workers[0] % Setting(args.topologies[0], 0, 0).hosts():
        p.error("--workers: each host has the same number of workers; give a multiple of the number of hosts")
    if args.groups and set(args.topologies) - set(GROUP_TOPOLOGIES):
        p.error(f"--groups: the topologies of groups are {', '.join(GROUP_TOPOLOGIES)}")
    names = installed(args.only)
    exit_on_signals()
    own_mounts()
    try:
        for topologies in [[t] for t in args.topologies] if args.groups else [args.topologies]:
            measure(argparse.Namespace(**{**vars(args), "topologies": topologies}), names, operations)
    except Failure as e:
        print(f"collective: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
