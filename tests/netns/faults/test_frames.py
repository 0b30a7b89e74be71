# SPDX-License-Identifier: GPL-2.0-only
"""Sums are still right if frames are lost, duplicated, reordered, late or damaged, with one fault at a time (doc/faults.md). `fpisa soak`
mixes the faults."""
import pytest

from lab import PIN
from worker import XSK

SHARES = [("drop", 0.2), ("duplicate", 0.5), ("reorder", 0.5), ("delay", 0.3), ("corrupt", 0.2)]


@pytest.mark.families("ipv4", why="`fpisa demo` has IPv4 addresses; test_asked_by_the_job has each fault over both")
@pytest.mark.parametrize("fault, share, pipeline", [
    pytest.param(*f, p, marks=[pytest.mark.long] * ((i + k) % 2))
    for i, f in enumerate(SHARES) for k, p in enumerate(("fused", "staged"))])
def test_frames(lab, fault, share, pipeline):
    """Sums are correct with each fault at a rate far above the rates of real networks. Windows are small, so slots are reused while copies
    are in flight."""
    out = lab(workers=0).demo("--workers", 3, "--vector", 5000, "--elements", 64, "--window", 4, "--pipeline", pipeline,
                              "--" + fault, share)
    assert fault == "reorder" or out["retransmits"] + out["duplicates"] > 0


FAULTS = {"drop": 0.05, "duplicate": 0.1, "reorder": 0.25, "delay": 0.05, "corrupt": 0.05}


@pytest.mark.families()
@pytest.mark.parametrize("transport", [0, XSK], ids=["udp", "xsk"])
def test_asked_by_the_job(lab, transport):
    """With --debug-faults the workers' library injects faults while the job has that option, and the sums are still right."""
    net = lab(workers=2)
    net.load()
    net.add_job(1, "--window", 16, "--debug-faults", ",".join(f"{k}={v}" for k, v in FAULTS.items()) + ",seed=7")
    shown = net.json("job", "show", 1)["debug_faults"]
    assert shown.pop("seed") == 7 and shown == pytest.approx(FAULTS, abs=2**-16)
    assert "debug       workers inject drop 0.05, duplicate 0.1, reorder 0.25, delay 0.05, corrupt 0.05, seed 7\n" \
        in net.fpisa("job", "show", 1)
    for a in net.check_sum(1, 100000, timeout_ms=60000, transport=transport):
        assert a["retransmits"] > 10 and a["duplicates"] > 10 and a["bad"] > 0
    seen = net.counters(1, PIN)
    assert seen["v_checksum"] > 5 and seen["v_resent"] + seen["v_duplicate"] > 10
    net.fpisa("job", "del", 1)
    net.add_job(1)
    assert net.json("job", "show", 1)["debug_faults"] is None and "debug " not in net.fpisa("job", "show", 1)
    for a in net.check_sum(1, 100000, transport=transport):
        assert a["bad"] == 0
    assert net.counters(1, PIN)["v_checksum"] == 0


@pytest.mark.families()
@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_loss(lab, fanout):
    """If one frame in ten is lost in each direction, frames are retransmitted and added once."""
    net = lab(workers=4)
    net.load()
    net.add_job(1, "--fanout", fanout)
    answers = net.check_sum(1, 123457, loss=0.1, seed=7, timeout_ms=60000)
    c = net.counters(1, PIN)
    chunks = -(-123457 // 256)
    assert c["v_result"] == chunks and c["v_accepted"] == 3 * chunks and c["elements"] == 4 * 123488
    assert min(a["retransmits"] for a in answers) > 0 and c["v_resent"] > 0
    assert c["retransmissions"] > 0
