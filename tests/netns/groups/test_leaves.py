# SPDX-License-Identifier: GPL-2.0-only
"""Groups with `leaves = yes` over real XDP. Two hosts have four ranks each and an aggregator, which adds up the contributions of its host.
The root is on a host of its own."""
import contextlib
import errno
import fractions
import json
import os
import random
import re
import signal
import struct
import sys
import time

import pytest

import mpi as mpis
from aggregators import Switched, pins
from bits import check_call
from groups import Groups, within
from lab import BUILD, FPISA, LIBRARY, PIN, TOP, draw_seed, end, once_within, wait_until
from rationals import EXACT
from training import outputs

EHOSTDOWN = 112
HOSTS, EACH = 2, 4
RANKS = HOSTS * EACH
MODE_EXACT = 4
PINS = f"/run/leaves-{os.getpid()}"  # a BPF filesystem for the aggregators other than the manager's
FRAME = 14 + 8 + 76  # headers: Ethernet, UDP, FPISA
CALLS = "f1", "d1", "f1000", "d777", "F4096", "D100", "f65537"
TORCH = os.path.join(BUILD, "torch")
DDP = os.path.join(TOP, "adapters", "torch", "examples", "ddp.py")
pytestmark = [pytest.mark.together, pytest.mark.families(spread=True)]
needs_torch = pytest.mark.skipif(not os.path.exists(os.path.join(TORCH, "built")), reason="build/torch is not there; make test installs what it needs")


class Site(Switched):
    """The manager and its datapath at 10.98.0.1, another aggregator without ranks at .2, and hosts with ranks from .11 on. Over IPv6
    2001:db8:98:: stands for 10.98.0."""

    def __init__(self, ipv6=False, hosts=HOSTS):
        super().__init__()
        self.subnet, self.frame = ("2001:db8:98::", FRAME + 40) if ipv6 else ("10.98.0.", FRAME + 20)
        self.address = f"{self.subnet}1"
        self.agg = self.host(self.address, "m0")
        self.other = self.host(f"{self.subnet}2", "a0")
        self.addresses = [f"{self.subnet}{11 + i}" for i in range(hosts)]
        self.worker = [self.host(address, f"w{i}") for i, address in enumerate(self.addresses)]
        for host in self.worker:
            host.ip("link set lo up")
        self.leaves = {a: (host, i, "--colocated", "eth0") for i, (a, host) in enumerate(zip(self.addresses, self.worker))}
        self.fpisa("load", "eth0")

    def bytes_of(self, i):
        """Return the bytes that host i has sent over its link."""
        return json.loads(self.worker[i].run("ip", "-j", "-s", "link", "show", "eth0"))[0]["stats64"]["tx"]["bytes"]


class Leaves(Groups):
    """The manager, and `fpisa serve` on the other hosts"""

    def __init__(self, net, folder, sections=""):
        super().__init__(net, folder, "aggregator-keys = train", "leaves = yes", sections=sections)
        self.agents = []
        self.agent_config = os.path.join(folder, "agent.conf")
        with open(self.agent_config, "w") as f:
            f.write(f"[manager]\nkey-file = {self.key}\nmanager = {net.address}\n")

    def spawn(self, host, pin, config, *options, says="aggregator "):
        """Start fpisa serve on a host, and wait until it says that it serves."""
        process = host.spawn(FPISA, "serve", *options, "--pin", pin, config)
        while not (said := process.stdout.readline()).startswith(says):
            assert said.startswith("loaded on"), said + process.stderr.read()
        return process

    def agent(self, host, pin, *options):
        """Start fpisa serve on a host, and wait until it has registered."""
        self.agents.append(self.spawn(host, f"{PINS}/{pin}", self.agent_config, *options))
        return self.agents[-1]

    def ask_for_two_roots(self):
        with open(self.config) as f:
            config = f.read()
        with open(self.config, "w") as f:
            f.write(config.replace("leaves = yes\n", "leaves = yes\nroots = 2\n"))
        assert self.read_again().startswith("configuration read again")

    def move_manager(self, spare=True):
        """Make the first host of ranks the manager, and the manager's host another aggregator, or without `spare` none."""
        hosts = self.net.worker
        for process in (*self.agents, self.manager):
            end(process)
        with open(self.agent_config, "w") as f:
            f.write(f"[manager]\nkey-file = {self.key}\nmanager = {self.net.addresses[0]}\n")
        self.manager = self.spawn(hosts[0], f"{PINS}/0", self.config, says="serving ")
        places = [(self.net.agg, PIN)] * spare + [(h, f"{PINS}/{i}") for i, h in enumerate(hosts) if i]
        self.agents = [self.spawn(host, pin, self.agent_config) for host, pin in places]

    def close(self):
        super().close()
        for agent in self.agents:
            end(agent)
        if self.manager:
            end(self.manager)


@contextlib.contextmanager
def served(net, folder, *sections):
    """Serve the site's manager and its leaves. At the end remove all of it, with the network."""
    leaves = Leaves(net, folder, *sections)
    leaves.serve()
    for place in net.leaves.values():
        leaves.agent(*place)
    try:
        yield leaves
    finally:
        leaves.close()
        for host, pin, *_ in net.leaves.values():
            host.run(FPISA, "unload", "--pin", f"{PINS}/{pin}")
        net.fpisa("unload")
        net.close()


@contextlib.contextmanager
def two_roots(site):
    """Make the other host without ranks an aggregator, and ask for trees with two roots. Yield the agent."""
    net = site.net
    net.other.run(FPISA, "load", "eth0", "--pin", f"{PINS}/other")
    site.ask_for_two_roots()
    try:
        yield site.agent(net.other, "other")
    finally:
        net.other.run(FPISA, "unload", "--pin", f"{PINS}/other")


@pytest.fixture
def site(bpffs, tmp_path, family):
    with pins(PINS), served(Site(ipv6=family == "ipv6"), str(tmp_path)) as leaves:
        yield leaves


def host_of(rank):
    """Return the host of a rank. Neighbours are on different hosts, so a rank's number at its leaf is not its number in the group."""
    return rank % HOSTS


def start(site, name, steps_of, **options):
    ranks = [site.start(host_of(r), name, r, RANKS, *steps_of(r), hold=True, **{"mode": MODE_EXACT, **options}) for r in range(RANKS)]
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0, answer
    return ranks


def random_values(rng, n):
    """Return values of float32 of many magnitudes and signs, some of which cancel."""
    return [struct.unpack("<f", struct.pack("<f", rng.uniform(-1, 1) * 2.0 ** rng.randint(-40, 40)))[0] for _ in range(n)]


def nearest(exact):
    """Return the bytes of the float32 that is nearest to a rational. If two are equally near, return the even one."""
    word, = struct.unpack("<I", struct.pack("<f", float(exact)))

    def distance(w):
        return abs(fractions.Fraction(struct.unpack("<f", struct.pack("<I", w))[0]) - exact)

    near = [w for w in (word - 1, word, word + 1) if 0 <= w < 1 << 32 and w >> 23 & 255 < 255]
    return struct.pack("<I", min(near, key=lambda w: (distance(w), w & 1)))


def all_counters(site, i, name):
    """Return a counter of host i, summed over all jobs."""
    return site.net.counters(None, f"{PINS}/{i}")[name]


def shares_of(site, name):
    group, = site.net.json("group", "show", name)
    return group["shares"]


@pytest.mark.families()
def test_bits(site):
    """The sums have the bits of aggregators without a tree, and are the exact sums. Each host sends one contribution for each chunk."""
    rng, chunks = random.Random(draw_seed()), 50
    n = 256 * chunks
    values = [random_values(rng, n) for _ in range(RANKS)]
    right = b"".join(nearest(sum(map(fractions.Fraction, column))) for column in zip(*values))
    words = [struct.pack(f"<{n}f", *v).hex() for v in values]

    def sums(name):
        ranks = start(site, name, lambda r: [{"words": words[r], "type": 1, "op": 1, "count": n}], elements=256)
        answers = [rank.line() for rank in ranks]
        assert all(a["rc"] == 0 for a in answers), answers
        shares = shares_of(site, name)
        for rank in ranks:
            rank.end()
        site.empty()
        result, = {a["result"] for a in answers}
        return bytes.fromhex(result), shares

    result, shares = sums("tree")
    assert [(s["address"], s.get("ranks")) for s in shares] == [
        (f"{site.net.subnet}{n}", ranks) for n, ranks in ((1, []), (11, [0, 2, 4, 6]), (12, [1, 3, 5, 7]))]
    assert result == right
    for i in range(HOSTS):
        assert all_counters(site, i, "v_up") == chunks
        assert all_counters(site, i, "v_down") >= chunks
    # The same file without `leaves`: the aggregators share the vector.
    with open(site.config) as f:
        text = f.read()
    with open(site.config, "w") as f:
        f.write(text.replace("leaves = yes\n", ""))
    site.read_again()
    flat, shares = sums("flat")
    assert len(shares) == 1 + HOSTS and "ranks" not in shares[0]
    assert flat == result


@pytest.mark.alone
@pytest.mark.families()
def test_bytes(site):
    """A host's link carries the bytes of one rank, not of four."""
    chunks = 2000
    before = [site.net.bytes_of(i) for i in range(HOSTS)]
    for rank in start(site, "g", lambda r: [{"sum": "float32", "count": 256 * chunks}], elements=256):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == RANKS * (RANKS + 1) / 2, answer
    for i in range(HOSTS):
        sent = (site.net.bytes_of(i) - before[i]) / (chunks * (site.net.frame + 4 * 256))
        print(f"host {i} sent {sent:.2f} times the bytes of a rank")
        assert sent < 1.1


def test_other_modes(site):
    """Jobs in other modes, and broadcasts, are at the root alone."""
    ranks = start(site, "g", lambda r: [{"sum": "float32", "count": 10000}, {"sum": "int32", "count": 10000},
                                        {"broadcast": [1, 5000], "times": 2, "seed": 1}], mode=0)
    for rank in ranks:
        answers = [rank.line() for _ in range(3)]
        assert all(a["rc"] == 0 for a in answers), answers
        assert answers[0]["first"] == answers[1]["first"] == RANKS * (RANKS + 1) / 2 and not answers[2]["wrong"]
    assert not any(all_counters(site, i, "v_up") for i in range(HOSTS))


def test_manager_on_a_host_of_ranks(site):
    """The manager's own datapath may be a leaf. A job that is not a tree is at the root alone, and the group continues."""
    site.move_manager()
    step = [{"sum": "float32", "count": 10000}, {"sum": "int32", "count": 10000}]
    for mode in (0, MODE_EXACT):
        ranks = start(site, f"g{mode}", lambda r: [*step, {"sleep": 2}, *step], mode=mode, address=site.net.addresses[0])
        for rank in ranks:
            answers = [rank.line() for _ in range(4)]
            assert all(a["rc"] == 0 and a["first"] == RANKS * (RANKS + 1) / 2 for a in answers), answers
    assert all_counters(site, 0, "v_up") == all_counters(site, 1, "v_up") > 0


def jobs_at(site, i):
    """Return the numbers of the jobs of host i."""
    return [j["job"] for j in json.loads(site.net.worker[i].run(FPISA, "job", "list", "--json", "--pin", f"{PINS}/{i}"))]


@pytest.mark.families()
@pytest.mark.parametrize("root", (0, 1), ids=("manager", "agent"))
def test_no_spare_host(site, root):
    """A leaf is also the root, on the manager's host or on another host. Each host's link carries the bytes of one rank."""
    chunks = 2000
    site.move_manager(spare=False)
    if root:
        end(site.agents[0])
        site.agents = [site.spawn(site.net.worker[1], f"{PINS}/1", site.agent_config, "--rate", "100G")]
    before = [site.net.bytes_of(i) for i in range(HOSTS)]
    ranks = start(site, "g", lambda r: [{"sum": "float32", "count": 256 * chunks}], elements=256, address=site.net.addresses[0])
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == RANKS * (RANKS + 1) / 2, answer
    for i in range(HOSTS):
        sent = (site.net.bytes_of(i) - before[i]) / (chunks * (site.net.frame + 4 * 256))
        print(f"host {i} sent {sent:.2f} times the bytes of a rank")
        assert sent < 1.1 and all_counters(site, i, "v_up") == chunks
    shares = json.loads(site.net.worker[0].run(FPISA, "group", "show", "g", "--json", "--pin", f"{PINS}/0"))[0]["shares"]
    assert [(s["address"], s["ranks"]) for s in shares] == [(site.net.addresses[root], []), (site.net.addresses[0], [0, 2, 4, 6]),
                                                            (site.net.addresses[1], [1, 3, 5, 7])]
    assert len(jobs_at(site, root)) == 2 and len(jobs_at(site, 1 - root)) == 1
    for rank in ranks:
        rank.end()
    wait_until("the end of all jobs", lambda: not any(jobs_at(site, i) for i in range(HOSTS)))


@pytest.mark.families()
def test_doubles(site):
    """The root makes the results of doubles in the frames of the leaves, which are long enough. Sums do not wait for retransmissions."""
    for rank in start(site, "g", lambda r: [{"check": "float64", "times": 100, "seed": 5}]):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["calls"] == 100 and not answer["wrong"], answer
    assert not site.net.counters(0, PIN)["v_no_room"]


def test_rank_that_does_not_call(site):
    """At the deadline, the ranks of a missing rank's leaf name it by its number in the group. The other ranks learn the number from them."""
    late, step = 5, {"sum": "float32", "count": 1000}
    ranks = [site.start(host_of(r), "g", r, RANKS, step, *[{**step, **(within(5000) if host_of(r) == host_of(late) else {})}] * (r != late),
                        hold=True, mode=MODE_EXACT) for r in range(RANKS)]
    for rank in ranks:
        for _ in range(2):  # the join and the first sum
            answer = rank.line()
            assert answer["rc"] == 0, answer
    for r, rank in enumerate(ranks):
        answer = rank.line() if r != late else None
        if answer:
            assert answer["rc"] and f"rank {late} sent nothing" in answer["error"], (r, answer)
            assert host_of(r) != host_of(late) or answer["missing"] & 1 << late, (r, answer)


def test_ranks_that_make_different_calls(site):
    """All ranks of both leaves get -EPROTO: a rank that finds the difference, and a rank that hears of it from another."""
    ranks = start(site, "g", lambda r: [{"sum": "float32"}, {"sum": "float32", "count": 500 if r == 5 else 1000}])
    for rank in ranks:
        assert rank.line()["rc"] == 0
    errors(ranks, -errno.EPROTO, "the ranks made different calls")


def forever(rank):
    return [{"sum": "float32", "count": 20000, "times": 100000}]


def begin(site, name, **options):
    """Start sums, and wait until each leaf has sent some."""
    before = [all_counters(site, i, "v_up") for i in range(HOSTS)]
    ranks = start(site, name, forever, **options)
    wait_until("partial sums", lambda: all(all_counters(site, i, "v_up") > before[i] for i in range(HOSTS)))
    return ranks


def errors(ranks, error, says):
    """Return the seconds in which these ranks have ended with this error."""
    began = time.monotonic()
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == error and says in answer["error"], answer
    return time.monotonic() - began


@pytest.mark.alone
def test_rank_killed(site):
    """All other ranks name a dead rank within a second, those of its leaf and those of the other leaf."""
    def kill():
        ranks = begin(site, "g")
        ranks[3].kill()
        took = errors(ranks[:3] + ranks[4:], -errno.ECONNRESET, "rank 3 is gone: its process ended")
        for rank in ranks:
            rank.end()
        wait_until("the end of the group", lambda: not site.net.json("group", "list"))
        return took

    once_within(1, kill)


@pytest.mark.families()
@pytest.mark.alone
def test_leaf_killed(site):
    """All ranks name a dead leaf within a second. The next group does not have a tree, because a host lacks its aggregator."""
    def kill():
        if site.agents[1].poll() is not None:
            end(site.agents[1])
            site.agents[1] = site.agent(site.net.worker[1], 1, "--colocated", "eth0")
        ranks = begin(site, "g")
        site.agents[1].send_signal(signal.SIGKILL)
        took = errors(ranks, -EHOSTDOWN, f"aggregator {site.net.subnet}12 is gone: its process ended")
        for rank in ranks:
            rank.end()
        wait_until("the end of the group", lambda: not site.net.json("group", "list"))
        return took

    once_within(1, kill)
    ranks = start(site, "h", lambda r: [{"sum": "float32", "count": 10000}])
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == RANKS * (RANKS + 1) / 2, answer
    assert [s["address"] for s in shares_of(site, "h")] == [f"{site.net.subnet}{n}" for n in (1, 11)]


@pytest.mark.alone
def test_root_killed(site):
    """The fastest aggregator without ranks is the root. All ranks name it within a second if it dies, and the next group has another root."""
    site.net.other.run(FPISA, "load", "eth0", "--pin", f"{PINS}/other")

    def kill():
        root = site.agent(site.net.other, "other", "--rate", "100G")
        ranks = begin(site, "g")
        assert shares_of(site, "g")[0]["address"] == f"{site.net.subnet}2"
        root.send_signal(signal.SIGKILL)
        took = errors(ranks, -EHOSTDOWN, f"aggregator {site.net.subnet}2 is gone: its process ended")
        for rank in ranks:
            rank.end()
        wait_until("the end of the group", lambda: not site.net.json("group", "list"))
        return took

    try:
        once_within(1, kill)
        begin(site, "h")
        assert shares_of(site, "h")[0]["address"] == f"{site.net.subnet}1"
    finally:
        site.net.other.run(FPISA, "unload", "--pin", f"{PINS}/other")


@pytest.mark.alone
def test_root_on_a_leafs_host_killed(site):
    """All ranks name within a second an aggregator that is both root and leaf. After it has started again, the next group has the same tree."""
    site.move_manager(spare=False)
    end(site.agents[0])

    def kill():
        agent = site.spawn(site.net.worker[1], f"{PINS}/1", site.agent_config, "--rate", "100G")
        site.agents = [agent]
        ranks = begin(site, "g", address=site.net.addresses[0])
        assert len(jobs_at(site, 1)) == 2
        agent.kill()
        took = errors(ranks, -EHOSTDOWN, f"aggregator {site.net.addresses[1]} is gone: its process ended")
        for rank in ranks:
            rank.end()
        end(agent)
        wait_until("the end of the group", lambda: not jobs_at(site, 0))
        return took

    once_within(1, kill)
    kill()


def test_number_in_use(site):
    """The jobs of a tree have one number. If a leaf uses the number for another job, the manager takes another number."""
    host = site.net.worker[1]
    host.run(FPISA, "job", "add", "0", "--workers", f"{site.net.subnet}1", "--address", f"{site.net.subnet}12", "--pin", f"{PINS}/1")
    ranks = start(site, "g", lambda r: [{"sum": "float32", "count": 10000}])
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == RANKS * (RANKS + 1) / 2, answer
    assert [j["job"] for j in site.jobs()] == [1]
    assert all_counters(site, 0, "v_up") == all_counters(site, 1, "v_up") > 0


@pytest.mark.families("ipv4", why="test_frontends.py runs mpirun over both")
@pytest.mark.parametrize("each", (EACH, pytest.param(8, marks=pytest.mark.long)))
def test_mpi(site, tmp_path, each):
    """An unchanged program of MPI on two hosts of four or eight ranks gets the exact sums, and each host sends one contribution for each chunk."""
    why = mpis.lacking("openmpi")
    if why:
        pytest.skip(why)
    folder, seed = str(tmp_path), draw_seed()
    rng, hosts = random.Random(seed), mpis.Hosts(site.net, folder, each)
    program = mpis.compiled("openmpi", os.path.join(TOP, "tests", "mpi", "bits.c"), folder)
    path = os.path.join(folder, "bits")
    _, err = mpis.run(hosts.space, "openmpi", HOSTS * each, folder, program, path, seed, *CALLS, hosts=hosts, FPISA_MANAGER=site.net.address,
                      FPISA_KEY=site.key, FPISA_MIN_BYTES=0, FPISA_MODE="exact")
    assert "fpisa: " not in err, err
    files = [open(f"{path}.{r}", "rb") for r in range(HOSTS * each)]
    for call in CALLS:
        check_call(files, call, EXACT, rng)
    assert not any(f.read() for f in files)
    ups = [all_counters(site, i, "v_up") for i in range(HOSTS)]
    assert ups[0] == ups[1] > 100, ups
    assert sum(site.net.counters(job, PIN).get("v_result", 0) for job in range(4)) == ups[0]


def run_torch(site, folder, each):
    """Train by torchrun with `each` processes on each host of ranks. Return what each torchrun printed."""
    env = {**os.environ, "PYTHONPATH": TORCH, "FPISA_LIBRARY": LIBRARY, "FPISA_MANAGER": site.net.address, "FPISA_KEY": site.key,
           "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    hosts = site.net.worker
    return outputs([host.spawn(sys.executable, "-B", "-m", "torch.distributed.run", f"--log_dir={folder}/{i}", "-r", "1", "-t", "1",
                               f"--nnodes={len(hosts)}", f"--nproc_per_node={each}", f"--node_rank={i}",
                               f"--master_addr={site.net.addresses[0]}", DDP, "--steps", 2, "--mode", "exact", env=env)
                    for i, host in enumerate(hosts)])


@needs_torch
@pytest.mark.families("ipv4", why="test_frontends.py runs PyTorch over both")
@pytest.mark.long
def test_torch(site, tmp_path):
    """torchrun with four processes on each of two hosts trains an unchanged program. All processes have the same weights."""
    outs = run_torch(site, tmp_path, EACH)
    weights = re.findall(r"rank \d: loss \S+ -> \S+, weights (\w+)", "".join(outs))
    assert len(weights) == RANKS and len(set(weights)) == 1, outs
    ups = [all_counters(site, i, "v_up") for i in range(HOSTS)]
    assert ups[0] == ups[1] > 100, ups
