# SPDX-License-Identifier: GPL-2.0-only
"""One fault at a time (doc/faults.md): a result is right, or there is an error in time. `fpisa soak` mixes them."""
import json
import time

import pytest

from lab import FPISA, PIN, read_all, wait_until
from worker import XSK

ETIMEDOUT = 110
COUNT = 2_000_000


SHARES = [("drop", 0.2), ("duplicate", 0.5), ("reorder", 0.5), ("delay", 0.3), ("corrupt", 0.2)]


@pytest.mark.parametrize("fault, share, pipeline", [
    pytest.param(*f, p, marks=[pytest.mark.long] * ((i + k) % 2))
    for i, f in enumerate(SHARES) for k, p in enumerate(("fused", "staged"))])
def test_frames(lab, fault, share, pipeline):
    """Each at a rate that no network has; small windows, so that slots go round while copies are under way."""
    net = lab(workers=0)
    out = json.loads(net.agg.run(FPISA, "demo", "--json", "--workers", 3, "--vector", 5000, "--elements", 64,
                                 "--window", 4, "--pipeline", pipeline, "--" + fault, share))
    assert out["passed"] and out["mismatches"] == out["flag_mismatches"] == 0 and out["counts_agree"]
    assert fault == "reorder" or out["retransmits"] + out["duplicates"] > 0


FAULTS = {"drop": 0.05, "duplicate": 0.1, "reorder": 0.25, "delay": 0.05, "corrupt": 0.05}


@pytest.mark.parametrize("transport", [0, XSK], ids=["udp", "xsk"])
def test_asked_by_the_job(lab, transport):
    """--debug-faults: the workers' library does it, as long as the job says so; the sums are right all the same."""
    net = lab(workers=2)
    net.load()
    net.add_job(1, "--window", 16, "--debug-faults", ",".join(f"{k}={v}" for k, v in FAULTS.items()) + ",seed=7")
    shown = net.json("job", "show", 1)["debug_faults"]
    assert shown.pop("seed") == 7 and shown == pytest.approx(FAULTS, abs=2**-16)
    assert "debug       workers inject drop 0.05, duplicate 0.1, reorder 0.25, delay 0.05, corrupt 0.05, seed 7\n" \
        in net.fpisa("job", "show", 1)
    for a in net.check_sum(1, 100000, timeout_ms=60000, transport=transport):
        assert a["retransmits"] > 10 and a["duplicates"] > 10 and a["bad"] > 5
    seen = net.counters(1, PIN)
    assert seen["v_checksum"] > 5 and seen["v_resent"] + seen["v_duplicate"] > 10
    net.fpisa("job", "del", 1)
    net.add_job(1)
    assert net.json("job", "show", 1)["debug_faults"] is None and "debug " not in net.fpisa("job", "show", 1)
    for a in net.check_sum(1, 100000, transport=transport):
        assert a["bad"] == 0
    assert net.counters(1, PIN)["v_checksum"] == 0


def running(net, job, timeout_ms=60000, ranks=(0, 1)):
    """Workers in the middle of a long sum."""
    net.slow(25)  # 3 s
    start = net.counters(job, PIN)["v_result"]
    procs = [net.start(r, job, {"count": COUNT, "kind": "integers"}, timeout_ms=timeout_ms) for r in ranks]
    wait_until("frames", lambda: net.counters(job, PIN)["v_result"] > start + 200)
    return procs


def test_link_down_and_up(lab):
    """At the aggregator, in the middle of a sum: it waits, and ends right."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    procs = running(net, 1)
    for dev in ("p0", "p1"):
        net.agg.ip(f"link set {dev} down")
        seen = net.counters(1, PIN)["v_result"]
        time.sleep(0.5)
        assert net.counters(1, PIN)["v_result"] <= seen + 64 < -(-COUNT // 256)
        net.agg.ip(f"link set {dev} up")
        wait_until("more results", lambda: net.counters(1, PIN)["v_result"] > seen + 64, 30)
    net.check_answers(procs, 2, COUNT)


def test_link_stays_down(lab):
    """The rank behind it is missing to the others, the aggregator to itself; afterwards all is as before."""
    net = lab(workers=2)
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
    """Under traffic: silence until the deadline; made anew, it works with the same workers' hosts."""
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
    """The datapath leaves an interface and comes back: frames are lost meanwhile, nothing else."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    procs = running(net, 1)
    for _ in range(3):
        net.fpisa("unload", "p1")
        time.sleep(0.2)
        net.fpisa("load", "p1")
    net.check_answers(procs, 2, COUNT)
