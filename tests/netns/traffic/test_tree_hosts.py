# SPDX-License-Identifier: GPL-2.0-only
"""Eight hosts of eight ranks over real XDP. Each host is a leaf: its ranks send through `lo` to the datapath on their own host, and the host's
link carries one partial sum and one result for each chunk."""
import array
import hashlib
import json
import os
import sys

import pytest
import worker
from aggregators import Switched, pins
from lab import FPISA, read_answers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench"))
import trees  # noqa: E402

JOB, HOSTS, RANKS = 5, 8, 8
COUNT, ELEMENTS = 64000, 256
BYTES = 2  # size of a sum of eight numbers of up to 1001; the part is as long as the result
PINS = "/run/tree-hosts"  # a BPF filesystem for the tests of this file; the usual one belongs to a single test
ROOT = "10.98.0.1"
pytestmark = [pytest.mark.together, pytest.mark.long]


class Hosts(Switched):
    """The root is 10.98.0.1, host h is 10.98.0.(2 + h)."""

    def __init__(self):
        super().__init__()
        self.root = self.agg = self.host(ROOT, "root")
        self.hosts = [self.host(f"10.98.0.{2 + h}", f"h{h}") for h in range(HOSTS)]
        self.worker = [host for host in self.hosts for _ in range(RANKS)]
        self.fpisa_at(self.root, 0, "load", "eth0")
        leaves = ",".join(f"10.98.0.{2 + h}" for h in range(HOSTS))
        self.fpisa_at(self.root, 0, "job", "add", JOB, "--leaves", "--workers", leaves, "--address", ROOT, "--mode", "exact")
        for h, host in enumerate(self.hosts):
            here = f"10.98.0.{2 + h}"
            for dev in "eth0", "lo":
                self.fpisa_at(host, h + 1, "load", dev, "--mode", "skb")
            ranks = ",".join(f"{here}:{18001 + r}" for r in range(RANKS))
            self.fpisa_at(host, h + 1, "job", "add", JOB, "--parent", f"{ROOT}/{h}", "--workers", ranks, "--address", here, "--mode", "exact",
                          "--fanout", "unicast")

    def fpisa_at(self, host, i, *argv):
        return host.run(FPISA, *argv, "--pin", f"{PINS}/{i}")

    def link(self, h):
        """Return the bytes that a host has sent and received over its link."""
        counted = json.loads(self.hosts[h].run("ip", "-j", "-s", "link", "show", "eth0"))[0]["stats64"]
        return counted["tx"]["bytes"], counted["rx"]["bytes"]


@pytest.fixture(scope="module")
def net(mounts):
    with pins(PINS):
        hosts = Hosts()
        yield hosts
        hosts.fpisa_at(hosts.root, 0, "unload")
        for h, host in enumerate(hosts.hosts):
            hosts.fpisa_at(host, h + 1, "unload")
        hosts.close()


def test_bytes(net):
    """All 64 ranks have the exact sum. A host's link carries the bytes that bench/trees.py calculates for one rank, not for eight."""
    before = [net.link(h) for h in range(HOSTS)]
    step = {"count": COUNT, "kind": "integers"}
    procs = [net.start(i, JOB, step, address=f"10.98.0.{2 + i // RANKS}", local_port=18001 + i % RANKS, timeout_ms=60000)
             for i in range(HOSTS * RANKS)]
    answers = [read_answers(p, 180)[-1] for p in procs]
    period = (HOSTS * sum(worker.integer(r, i) for r in range(RANKS)) for i in range(worker.PERIOD))
    right = worker.repeat(array.array("f", period).tobytes(), COUNT)
    assert {a["digest"] for a in answers} == {hashlib.sha256(right).hexdigest()}
    chunks = COUNT // ELEMENTS
    for h in range(HOSTS):
        counted = net.counters(JOB, f"{PINS}/{h + 1}")
        parts = (counted["v_up"] + counted["v_up_next"]) / chunks
        sent, received = (now - was for now, was in zip(net.link(h), before[h]))
        up, down = trees.uplink(chunks, ELEMENTS, parts, BYTES)
        rank = chunks * trees.frame(4 * ELEMENTS)
        print(f"host {h}: {parts:.2f} parts, sent {sent / rank:.2f}, received {received / rank:.2f} times one rank's bytes")
        assert counted["v_up"] == chunks and parts == 1
        assert sent < 1.1 * rank and received < 1.1 * rank
        assert up < sent < 1.1 * up and down < received < 1.1 * down, (h, parts, sent, received)
