# SPDX-License-Identifier: GPL-2.0-only
"""Foreign frames pass to the stack. Frames of the protocol from hosts outside the job are dropped."""
import struct

import pytest

from lab import PIN, PORT

pytestmark = pytest.mark.families()


@pytest.mark.parametrize("mode", ["native", "skb"])
def test_what_is_not_ours_passes(lab, mode):
    net = lab()
    net.load("--mode", mode)
    net.add_job(1)
    # Send three frames: a frame to another port, a frame without the magic to the datapath's port, such as a socket of the stack may send,
    # and an FPISA frame to an address that no job has.
    net.echo(net.address, 0, b"hello", b"FP" + bytes(200))
    net.echo(net.address, PORT, b"hello", bytes(1000))
    net.echo(net.host(1, 1), PORT, b"FPGA", struct.pack("<2sBBBBBBI", b"FP", 2, 1, 1, 0, 0, 0, 55) + bytes(200))
    assert net.counters(64, PIN)["v_wrong_destination"] == 2
    net.check_sum(1)
    assert net.counters(64, PIN)["v_not_ours"] >= 4


def test_strangers_are_dropped(lab):
    """Frames of the protocol from hosts outside the job are dropped and counted, and do not reach the stack."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, workers=net.addresses[:2])
    p = net.start(2, 1, timeout_ms=500)
    out, err = p.communicate()
    assert "no answer in 500 ms" in out and "on the aggregator, fpisa stats shows drops" in out and p.returncode == 1
    c = net.counters(1, PIN)
    assert c["v_unknown_peer"] > 0 and c["v_welcome"] == 0
    p = net.start(0, 1, timeout_ms=500, token=1)
    assert "no answer" in p.communicate()[0]
    assert net.counters(1, PIN)["v_token"] > 0
    p = net.start(0, 40, timeout_ms=500)
    assert "no answer" in p.communicate()[0]
    assert net.counters(64, PIN)["v_no_job"] > 0
    net.check_sum(1, workers=2, ranks=[0, 1])
