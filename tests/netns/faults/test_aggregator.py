# SPDX-License-Identifier: GPL-2.0-only
"""Test faults at the aggregator under traffic: its links go down, its job is deleted, its programs are detached. A result is correct, or an
error comes in time (doc/faults.md)."""
import time

import pytest

from lab import PIN, read_all, wait_until

pytestmark = pytest.mark.families(spread=True)

ETIMEDOUT = 110
COUNT = 4_000_000


def keep_addresses(net):
    """Let interfaces of the aggregator keep their IPv6 addresses while they are down."""
    for dev in net.ports if net.ipv6 else ():
        net.agg.sysctl(f"conf/{dev}/keep_addr_on_down", 1, family="ipv6")


def running(net, job, timeout_ms=60000, ranks=(0, 1)):
    """Start workers in the middle of a long sum."""
    net.slow(25)  # the sum then takes 6 s
    start = net.counters(job, PIN)["v_result"]
    procs = [net.start(r, job, {"count": COUNT, "kind": "integers"}, timeout_ms=timeout_ms) for r in ranks]
    wait_until("frames", lambda: net.counters(job, PIN)["v_result"] > start + 200)
    return procs


def test_link_down_and_up(lab):
    """If a link at the aggregator goes down in the middle of a sum, the sum waits until the link is up, and the result is correct."""
    net = lab(workers=2)
    keep_addresses(net)
    net.load()
    net.add_job(1)
    procs = running(net, 1)
    for dev in ("p0", "p1"):
        net.agg.ip(f"link set {dev} down")
        seen = net.counters(1, PIN)["v_result"]
        time.sleep(0.5)
        assert net.counters(1, PIN)["v_result"] <= seen + 64 < -(-COUNT // 256)
        net.agg.ip(f"link set {dev} up")
        wait_until("more results", lambda: net.counters(1, PIN)["v_result"] > seen + 64)
    net.check_answers(procs, 2, COUNT)


@pytest.mark.parametrize("route", ["unreachable", "prohibit", "blackhole"])
def test_route_that_refuses(lab, route):
    """While a rank's route to the aggregator refuses its frames, they count as lost. The sum continues with the former route."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    procs = running(net, 1)
    w, to = net.worker[0], f"{net.address}/{128 if net.ipv6 else 32}"
    w.run("ip", "route", "del", to)
    w.run("ip", "route", "add", route, to)
    time.sleep(0.5)
    assert all(p.poll() is None for p in procs), [read_all(p) for p in procs]
    w.run("ip", "route", "del", route, to)
    w.run("ip", "route", "add", to, "via", net.host(1, 1))
    net.check_answers(procs, 2, COUNT)


def test_link_stays_down(lab):
    """If a link stays down, the other ranks name the rank behind it, and that rank names the aggregator. Afterwards sums work again."""
    net = lab(workers=2)
    keep_addresses(net)
    net.load()
    net.add_job(1)
    procs = running(net, 1, timeout_ms=3000)
    net.agg.ip("link set p0 down")
    answers = [read_all(p)[0][-1] for p in procs]
    assert [a["rc"] for a in answers] == [-ETIMEDOUT] * 2
    assert "the aggregator did not answer" in answers[0]["error"] or answers[0]["missing"] == 0b10
    assert "rank 0 sent nothing" in answers[1]["error"] and answers[1]["missing"] == 0b01
    assert all(a["seconds"] < 3 + 10 for a in answers)
    net.agg.ip("link set p0 up")
    net.check_sum(1, 5000)


def test_job_deleted(lab):
    """If a job is deleted under traffic, workers get no answer until the deadline. When the job is added again, the same hosts can sum."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    net.add_job(2)
    procs = running(net, 1, timeout_ms=3000)
    net.fpisa("job", "del", 1)
    for p in procs:
        answer = read_all(p)[0][-1]
        assert answer["rc"] == -ETIMEDOUT and answer["seconds"] < 3 + 10
    net.check_sum(2, 5000)
    net.add_job(1)
    net.check_sum(1, 5000)


def test_detached_and_attached(lab):
    """If the datapath is detached from an interface and attached again, only the frames in between are lost."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    procs = running(net, 1)
    for _ in range(3):
        net.fpisa("unload", "p1")
        time.sleep(0.2)
        net.fpisa("load", "p1")
    net.check_answers(procs, 2, COUNT)
