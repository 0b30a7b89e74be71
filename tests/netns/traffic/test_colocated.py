# SPDX-License-Identifier: GPL-2.0-only
"""Test workers without a separate aggregator. The host of each worker is also an aggregator, at its own address. Frames of the host's own
rank go through `lo`, with the datapath there in generic mode. Frames of other ranks arrive at eth0."""
import math
import os
import random

import lab
import pytest
from aggregators import Switched, check_shares, pins
from doctor import bad, examine, fixes, needs_ethtool
from lab import FPISA, draw_seed, endpoint, once_within, read_all, wait_until

ETIMEDOUT = 110
JOB, HOSTS = 5, 3
PORT = 18001  # the port of the ranks; no socket has the datapath's port 18000, so the stack answers frames that the datapath passes
PINS = f"/run/colocated-{os.getpid()}"  # a BPF filesystem for the tests of this file
pytestmark = [pytest.mark.together, pytest.mark.families(spread=True)]


class Colocated(Switched):
    """Hosts from 10.98.0.11 on. Over IPv6 2001:db8:98:: stands for 10.98.0."""

    def __init__(self, ipv6):
        super().__init__()
        self.ipv6 = ipv6
        self.subnet = "2001:db8:98::" if ipv6 else "10.98.0."
        self.addresses = [self.at(r + 11) for r in range(HOSTS)]
        self.workers = ",".join(endpoint(a, PORT) for a in self.addresses)
        self.worker = [self.aggregator(i) for i in range(HOSTS)]
        self.agg = self.worker[0]

    def at(self, number):
        return f"{self.subnet}{number}"

    def aggregator(self, i):
        host = self.host(self.addresses[i], f"w{i}")
        host.run(FPISA, "load", "eth0", "--mode", "skb", "--pin", f"{PINS}/{i}")
        host.run(FPISA, "load", "lo", "--mode", "skb", "--pin", f"{PINS}/{i}")
        host.run(FPISA, "job", "add", JOB, "--workers", self.workers, "--address", self.addresses[i], "--mode", "exact", "--fanout",
                 "unicast", "--pin", f"{PINS}/{i}")
        return host

    def count(self, i, name):
        return self.counters(JOB, f"{PINS}/{i}")[name]

    def begin(self, count, weights=(1,) * HOSTS, **options):
        shares = ",".join(f"{a}*{w}" for a, w in zip(self.addresses, weights))
        return [self.start(r, JOB, {"count": count, "kind": "integers"}, address=shares, local_port=PORT, **options) for r in range(HOSTS)]


@pytest.fixture(scope="module")
def net(mounts, family):
    with pins(PINS):
        colocated = Colocated(family == "ipv6")
        yield colocated
        for i, host in enumerate(colocated.worker):
            host.run(FPISA, "unload", "--pin", f"{PINS}/{i}")
        colocated.close()


def refused(net, *options, workers=None):
    status, _, err = net.agg.try_run(FPISA, "job", "add", 6, "--workers", workers or net.workers, "--address", net.addresses[0], *options, "--pin", f"{PINS}/0")
    assert status == 1
    return err


def test_lists_that_are_refused(net):
    """The port of a rank on this host differs from the datapath's port, and no multicast goes through lo."""
    assert f"another port, such as {endpoint(net.addresses[0], PORT)}" in refused(net, workers=",".join(net.addresses[:2]))
    assert "lo does not carry multicast; give --fanout unicast" in refused(net)
    other = net.at(99)
    net.agg.ip(f"addr add {other}/{64 if net.ipv6 else 24} dev eth0")
    assert f"give it a port of its own, such as {endpoint(other, PORT)}, and run fpisa load lo" in refused(net, workers=f"{other},{net.addresses[1]}")
    net.agg.ip(f"addr del {other}/{64 if net.ipv6 else 24} dev eth0")


@needs_ethtool
def test_doctor(net):
    """Doctor finds no fault for a rank on this host. If a part is removed, doctor finds it, and the printed command restores it."""
    argv = ["--pin", f"{PINS}/0"]
    found = examine(net.agg, *argv)
    assert not [f for (subject, check), f in bad(found).items() if subject == f"job {JOB}" or check == "xdp"]
    assert found["eth0", "xdp"]["text"] in ("in the stack, as needed on a host whose own ranks send through lo", "the datapath is attached, skb")
    way = examine(net.agg, "--worker", net.addresses[0])["lo", "route"]
    assert way["level"] == "ok" and "an aggregator for its own rank too: the datapath is on lo" in way["text"]
    if not net.ipv6:
        net.agg.run("sysctl", "-qw", "net.ipv4.conf.lo.accept_local=0")
        fixes(net.agg, argv, f"job {JOB}", "local", "warn", "asks for each again")
    net.agg.run(FPISA, "unload", "eth0", *argv)
    net.agg.run(FPISA, "load", "eth0", *argv)
    command = "ip link set dev eth0 xdpdrv off && fpisa load eth0 --mode skb"
    assert f"misses results; run {command}\n" in net.agg.try_run(FPISA, "job", "add", 6, "--workers", net.workers, "--address", net.addresses[0], "--fanout", "unicast",
                                                       *argv)[2]
    net.agg.run(FPISA, "job", "del", 6, *argv)
    assert fixes(net.agg, argv, f"job {JOB}", "native", "warn") == " ".join([command, *argv])


@pytest.mark.parametrize("loss", (0, 0.02))
def test_sum(net, loss):
    """Each host adds its share, including the values of its own rank. No frame is refused, and the rank of a host gets its results without
    requesting them."""
    rng = random.Random(draw_seed())
    weights = [rng.randint(1, 9) for _ in range(HOSTS)]
    count = rng.randint(20000, 200000)

    def requested():
        """Sum. Return the share of the results that a rank requested."""
        before, resent = ([net.count(i, name) for i in range(HOSTS)] for name in ("v_result", "v_resent"))
        net.check_answers(net.begin(count, weights, loss=loss), HOSTS, count)
        chunks = [net.count(i, "v_result") - before[i] for i in range(HOSTS)]
        check_shares(chunks, weights, count)
        return sum(net.count(i, "v_resent") - n for i, n in enumerate(resent)) / sum(chunks)

    if loss:
        net.check_answers(net.begin(count, weights), HOSTS, count)  # only a rank that loses no frames on purpose sends batches
    once_within(math.inf if loss else 0.1, requested)
    assert all(net.count(i, "v_unknown_peer") == 0 for i in range(HOSTS))
    # The trial batch of each host's own rank stays whole on lo. This is not a drop.
    assert all(net.count(i, "v_length") == 0 < net.count(i, "v_uncut") for i in range(HOSTS))


@pytest.mark.alone
def test_nothing_in_vain(net):
    """Without a loss, the retransmission timer sends almost no frame again."""
    once_within(0.001, lambda: net.sent_again(1 << 18))


def test_stranger(net):
    """Another host that forges the address of this host's rank lacks the rank's cookie. So its HELLO changes nothing, and later sums are
    right."""
    forger = net.worker[1]
    forged = f"{net.addresses[0]}/{128 if net.ipv6 else 32}"
    forger.ip(f"addr add {forged} dev lo")
    try:
        p = forger.spawn("/usr/bin/python3", "-B", lab.WORKER, lab.LIBRARY, net.addresses[0], JOB, '{"options": {"timeout_ms": 700}, "steps": []}')
        assert read_all(p)[0][-1]["rc"] == -ETIMEDOUT
    finally:
        forger.ip(f"addr del {forged} dev lo")
    net.check_answers(net.begin(50000), HOSTS, 50000)


def test_host_dies(net):
    """If a host disappears, with its rank and its aggregator, the calls of the other ranks end in time and name one of the two."""
    net.slow_down()
    before = [net.count(i, "v_result") for i in range(HOSTS)]
    procs = net.begin(5_000_000, timeout_ms=3000)
    wait_until("frames", lambda: all(net.count(i, "v_result") > before[i] + 50 for i in range(HOSTS)))
    net.switch.ip("link set w2 down")
    answers = [read_all(p)[0][-1] for p in procs]
    net.switch.ip("link set w2 up")
    net.at_full_rate()
    for a in answers[:2]:
        assert a["rc"] == -ETIMEDOUT and a["seconds"] < 13
        assert a["missing"] == 0b100 or a["error"].startswith(f"{net.addresses[2]}: job 5: the aggregator did not answer"), a
    net.check_answers(net.begin(50000), HOSTS, 50000)
