# SPDX-License-Identifier: GPL-2.0-only
"""Hosts of several ranks over real XDP. Each host is a leaf: its ranks send through `lo` to the datapath on their own host, and the host's
link carries one partial sum and one result for each chunk. The root is on a host of its own, or on that of a leaf."""
import array
import hashlib
import json
import os
import sys

import pytest
import worker
from aggregators import Switched, pins
from doctor import examine
from lab import FPISA, read_answers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench"))
import trees  # noqa: E402

JOB, BESIDE = 5, 6
COUNT, ELEMENTS = 64000, 256
BYTES = 2  # size of a sum of eight numbers of up to 1001; the part is as long as the result
PINS = "/run/tree-hosts"  # a BPF filesystem for the tests of this file; the usual one belongs to a single test
pytestmark = pytest.mark.together


class Hosts(Switched):
    """Host h is 10.98.0.(2 + h), and its leaf is job JOB. The root is 10.98.0.1. Without a spare host, the root is host 0, whose leaf is then
    job BESIDE."""

    def __init__(self, hosts, ranks, spare=True, ipv6=False):
        super().__init__()
        self.ranks, self.ipv6, self.token = ranks, ipv6, {}
        self.hosts = [self.host(self.at(2 + h), f"h{h}") for h in range(hosts)]
        self.worker = [host for host in self.hosts for _ in range(ranks)]
        self.leaf = [JOB if spare or h else BESIDE for h in range(hosts)]
        self.places = [(self.host(self.at(1), "root") if spare else self.hosts[0], 0 if spare else 1),
                       *((host, h + 1) for h, host in enumerate(self.hosts))]
        self.root = self.at(1 if spare else 2)
        self.agg = self.places[0][0]
        if spare:
            self.fpisa_at(0, "load", "eth0")
        for h in range(hosts):
            for dev in "eth0", "lo":
                self.fpisa_at(h + 1, "load", dev, "--mode", "skb")

    def at(self, number):
        return f"2001:db8:98::{number:x}" if self.ipv6 else f"10.98.0.{number}"

    def fpisa_at(self, place, *argv):
        """Run fpisa at the root if place is 0, else at host place - 1."""
        host, pin = self.places[place]
        return host.run(FPISA, *argv, "--pin", f"{PINS}/{pin}")

    def add_root(self):
        self.add(0, JOB, "--leaves", "--workers", ",".join(self.at(2 + h) for h in range(len(self.hosts))), "--address", self.root)

    def add_leaf(self, h):
        ranks = ",".join(f"[{self.at(2 + h)}]:{18001 + r}" if self.ipv6 else f"{self.at(2 + h)}:{18001 + r}" for r in range(self.ranks))
        beside = f"/{JOB}" if self.leaf[h] != JOB else ""
        self.add(h + 1, self.leaf[h], "--parent", f"{self.root}/{h}{beside}", "--workers", ranks, "--address", self.at(2 + h), "--fanout", "unicast")

    def add(self, place, job, *options):
        if self.token:
            options = "--token", f"{self.token['token']:x}", *options
        self.fpisa_at(place, "job", "add", job, *options, "--mode", "exact")

    def add_jobs(self):
        self.add_root()
        for h in range(len(self.hosts)):
            self.add_leaf(h)

    def delete_jobs(self):
        for place, job in ((0, JOB), *enumerate(self.leaf, 1)):
            self.fpisa_at(place, "job", "del", job)

    def sum(self, count=COUNT, **options):
        """Check that all ranks have the exact sum."""
        procs = [self.start(i, self.leaf[i // self.ranks], {"count": count, "kind": "integers"}, address=self.at(2 + i // self.ranks),
                            local_port=18001 + i % self.ranks, timeout_ms=60000, **self.token, **options) for i in range(len(self.worker))]
        answers = [read_answers(p, 180)[-1] for p in procs]
        period = (len(self.hosts) * sum(worker.integer(r, i) for r in range(self.ranks)) for i in range(worker.PERIOD))
        right = worker.repeat(array.array("f", period).tobytes(), count)
        assert {a["digest"] for a in answers} == {hashlib.sha256(right).hexdigest()}, answers

    def count(self, h, name):
        """Return a counter of a host's leaf."""
        return self.counters(self.leaf[h], f"{PINS}/{h + 1}")[name]

    def link(self, h):
        """Return the bytes that a host has sent and received over its link."""
        counted = json.loads(self.hosts[h].run("ip", "-j", "-s", "link", "show", "eth0"))[0]["stats64"]
        return counted["tx"]["bytes"], counted["rx"]["bytes"]

    def close(self):
        for place in range(self.places[0][1], len(self.places)):
            self.fpisa_at(place, "unload")
        super().close()


@pytest.fixture(scope="module")
def net(mounts, family):
    with pins(PINS):
        hosts = Hosts(8, 8, ipv6=family == "ipv6")
        hosts.add_jobs()
        yield hosts
        hosts.close()


@pytest.fixture(params=[(False, None), (False, 0x1122334455667788), (True, None)], ids=["ipv4", "token", "ipv6"])
def alone(mounts, request):
    """Yield three hosts of two ranks without a spare host."""
    ipv6, token = request.param
    with pins(PINS):
        hosts = Hosts(3, 2, spare=False, ipv6=ipv6)
        hosts.token = {"token": token} if token else {}
        hosts.add_jobs()
        yield hosts
        hosts.close()


@pytest.mark.long
@pytest.mark.families()
def test_bytes(net):
    """All 64 ranks have the exact sum. A host's link carries the bytes that bench/trees.py calculates for one rank, not for eight."""
    before = [net.link(h) for h in range(len(net.hosts))]
    net.sum()
    chunks = COUNT // ELEMENTS
    for h in range(len(net.hosts)):
        parts = (net.count(h, "v_up") + net.count(h, "v_up_next")) / chunks
        sent, received = (now - was for now, was in zip(net.link(h), before[h]))
        up, down = trees.uplink(chunks, ELEMENTS, parts, BYTES)
        rank = chunks * trees.frame(4 * ELEMENTS)
        print(f"host {h}: {parts:.2f} parts, sent {sent / rank:.2f}, received {received / rank:.2f} times one rank's bytes")
        assert net.count(h, "v_up") == chunks and parts == 1
        assert sent < 1.1 * rank and received < 1.1 * rank
        assert abs(sent / up - 1) < 0.1 and abs(received / down - 1) < 0.1


@pytest.mark.parametrize("loss", (0, 0.02))
def test_no_spare_host(alone, loss):
    """The root is on the host of a leaf, whose frames to the root do not use a link. All ranks have the exact sum."""
    before, chunks = [alone.link(h) for h in range(3)], COUNT // ELEMENTS
    alone.sum(loss=loss)
    for h in range(3):
        assert alone.count(h, "v_up") == chunks and alone.count(h, "v_down") >= (0 if loss else chunks)
    assert alone.counters(JOB, f"{PINS}/1")["v_result"] == chunks
    rank = chunks * (trees.frame(4 * ELEMENTS) + 20 * alone.ipv6)
    for h, vectors in enumerate((2, 1, 1)):
        sent, received = (now - was for now, was in zip(alone.link(h), before[h]))
        assert loss or (sent < 1.1 * vectors * rank and received < 1.1 * vectors * rank)


def test_created_again(alone):
    """A leaf finds its root on the same host, whichever of the two is created first, and also if the leaf gets another number."""
    alone.sum()
    alone.fpisa_at(0, "job", "del", JOB)
    alone.add_root()
    alone.sum()
    for number in BESIDE, BESIDE + 1:
        alone.fpisa_at(1, "job", "del", alone.leaf[0])
        alone.leaf[0] = number
        alone.add_leaf(0)
        alone.sum()


def test_shown(alone):
    """`job show` at a leaf names the number of its root on this host. Doctor has no fault, and a second leaf is refused."""
    root = f"[{alone.root}]:18000/0/{JOB}" if alone.ipv6 else f"{alone.root}:18000/0/{JOB}"
    assert f"parent      {root}, the last numbers are rank and job there" in alone.fpisa_at(1, "job", "show", BESIDE)
    found = examine(alone.hosts[0], "--pin", f"{PINS}/1")[f"job {BESIDE}", "parent"]
    assert found["level"] == "ok" and f"{root}, behind lo" in found["text"]
    status, _, err = alone.hosts[0].try_run(FPISA, "job", "add", BESIDE + 1, "--parent", f"{alone.root}/0/{JOB}", "--workers", alone.at(3),
                                            "--address", alone.at(2), "--mode", "exact", "--pin", f"{PINS}/1")
    assert status == 1 and f"job {BESIDE} is already the leaf of job {JOB} on this machine" in err
