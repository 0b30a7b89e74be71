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
from lab import FPISA, draw_seed, once_within, read_all, wait_until

ETIMEDOUT = 110
JOB, HOSTS = 5, 3
PORT = 18001  # the port of the ranks; no socket has the datapath's port 18000, so the stack answers frames that the datapath passes
WORKERS = ",".join(f"10.98.0.{r + 11}:{PORT}" for r in range(HOSTS))
PINS = f"/run/colocated-{os.getpid()}"  # a BPF filesystem for the tests of this file
pytestmark = pytest.mark.together


class Colocated(Switched):
    """Hosts from 10.98.0.11 on"""

    def __init__(self):
        super().__init__()
        self.worker = [self.aggregator(i) for i in range(HOSTS)]
        self.agg = self.worker[0]

    def aggregator(self, i):
        host = self.host(f"10.98.0.{i + 11}", f"w{i}")
        host.run(FPISA, "load", "eth0", "--mode", "skb", "--pin", f"{PINS}/{i}")
        host.run(FPISA, "load", "lo", "--mode", "skb", "--pin", f"{PINS}/{i}")
        host.run(FPISA, "job", "add", JOB, "--workers", WORKERS, "--address", f"10.98.0.{i + 11}", "--mode", "exact", "--fanout",
                 "unicast", "--pin", f"{PINS}/{i}")
        return host

    def count(self, i, name):
        return self.counters(JOB, f"{PINS}/{i}")[name]

    def begin(self, count, weights=(1,) * HOSTS, **options):
        shares = ",".join(f"10.98.0.{i + 11}*{w}" for i, w in enumerate(weights))
        return [self.start(r, JOB, {"count": count, "kind": "integers"}, address=shares, local_port=PORT, **options) for r in range(HOSTS)]


@pytest.fixture(scope="module")
def net(mounts):
    with pins(PINS):
        colocated = Colocated()
        yield colocated
        for i, host in enumerate(colocated.worker):
            host.run(FPISA, "unload", "--pin", f"{PINS}/{i}")
        colocated.close()


def refused(net, *options, workers=WORKERS):
    status, _, err = net.agg.try_run(FPISA, "job", "add", 6, "--workers", workers, "--address", "10.98.0.11", *options, "--pin", f"{PINS}/0")
    assert status == 1
    return err


def test_lists_that_are_refused(net):
    """The port of a rank on this host differs from the datapath's port, and no multicast goes through lo."""
    assert "another port, such as 10.98.0.11:18001" in refused(net, workers="10.98.0.11,10.98.0.12")
    assert "lo does not carry multicast; give --fanout unicast" in refused(net)
    net.agg.ip("addr add 10.98.0.99/24 dev eth0")
    assert "give it a port of its own, such as 10.98.0.99:18001, and run fpisa load lo" in refused(net, workers="10.98.0.99,10.98.0.12")
    net.agg.ip("addr del 10.98.0.99/24 dev eth0")


@needs_ethtool
def test_doctor(net):
    """Doctor finds no fault for a rank on this host. If a part is removed, doctor finds it, and the printed command restores it."""
    argv = ["--pin", f"{PINS}/0"]
    found = examine(net.agg, *argv)
    assert not [f for (subject, check), f in bad(found).items() if subject == f"job {JOB}" or check == "xdp"]
    assert found["eth0", "xdp"]["text"] in ("in the stack, as needed on a host whose own ranks send through lo", "the datapath is attached, skb")
    way = examine(net.agg, "--worker", "10.98.0.11")["lo", "route"]
    assert way["level"] == "ok" and "an aggregator for its own rank too: the datapath is on lo" in way["text"]
    net.agg.run("sysctl", "-qw", "net.ipv4.conf.lo.accept_local=0")
    fixes(net.agg, argv, f"job {JOB}", "local", "warn", "asks for each again")
    net.agg.run(FPISA, "unload", "eth0", *argv)
    net.agg.run(FPISA, "load", "eth0", *argv)
    fix = examine(net.agg, *argv)[f"job {JOB}", "native"]["fix"]
    assert fix == "fpisa unload eth0 && fpisa load eth0 --mode skb"
    assert "misses results; run " + fix in net.agg.try_run(FPISA, "job", "add", 6, "--workers", WORKERS, "--address", "10.98.0.11", "--fanout", "unicast",
                                                       *argv)[2]
    net.agg.run(FPISA, "job", "del", 6, *argv)
    for command in fix.split(" && "):
        net.agg.run(*command.replace("fpisa", FPISA).split(), *argv)


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
    forger.ip("addr add 10.98.0.11/32 dev lo")
    try:
        p = forger.spawn("/usr/bin/python3", "-B", lab.WORKER, lab.LIBRARY, "10.98.0.11", JOB, '{"options": {"timeout_ms": 700}, "steps": []}')
        assert read_all(p)[0][-1]["rc"] == -ETIMEDOUT
    finally:
        forger.ip("addr del 10.98.0.11/32 dev lo")
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
        assert a["missing"] == 0b100 or a["error"].startswith("10.98.0.13: job 5: the aggregator did not answer"), a
    net.check_answers(net.begin(50000), HOSTS, 50000)
