# SPDX-License-Identifier: GPL-2.0-only
"""Jobs with several ports: every contribution goes to the port of its slot, whatever happens to it on its way."""
import contextlib
import itertools
import socket
import struct

import pytest

from lab import ADDRESS, PIN, PORT, wait_until
from worker import XSK

ETH_P_ALL, PACKET_OUTGOING, SO_RCVBUFFORCE = 3, 4, 33  # a bridge takes its ports' frames before others see them
ADD, HEADER, BLOCK = 3, 76, 128
ELEMENTS, WINDOW, PORTS = 32, 16, 4


@contextlib.contextmanager
def captured(net):
    """Packet sockets where the workers' links enter the switch: behind every transport, before the aggregator."""
    sockets = []
    with net.spaces[-1].entered():
        for dev in ("p0", "p1"):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 128 << 20)
            s.bind((dev, ETH_P_ALL))
            s.setblocking(False)
            sockets.append(s)
    yield sockets
    for s in sockets:
        s.close()


def contributions(sockets):
    """(port, slot, version) of each ADD; a burst that nobody has cut yet is one packet of many."""
    for s in sockets:
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, (_, _, kind, *_) = s.recvfrom(1 << 17)
                if kind == PACKET_OUTGOING or packet[12:15] != b"\x08\x00\x45" or packet[23] != socket.IPPROTO_UDP:
                    continue
                port, length = struct.unpack_from(">HH", packet, 36)
                payload = packet[42:34 + length]
                while len(payload) >= HEADER and payload[:2] == b"FP" and payload[3] == ADD:
                    word, count = struct.unpack_from("<IxxH", payload, 16)
                    yield port, word >> 1, word & 1
                    payload = payload[HEADER + 4 * count:]


def expect_own_ports(sockets):
    """Each slot's were all at its port, and all slots, versions and ports were there. How many."""
    seen = list(contributions(sockets))
    assert set(seen) == {(PORT + slot // 4 % PORTS, slot, v) for slot, v in itertools.product(range(WINDOW), (0, 1))}
    return len(seen)


@pytest.mark.parametrize("faults", ["", "drop=0.05,duplicate=0.1,reorder=0.2,delay=0.02"], ids=["clean", "faults"])
@pytest.mark.parametrize("transport", [0, XSK], ids=["udp", "xsk"])
def test_every_frame(lab, transport, faults):
    net = lab(workers=2, bridge=True)
    net.load()
    net.add_job(1, "--elements", ELEMENTS, "--window", WINDOW, "--ports", PORTS,
                *(("--debug-faults", faults) if faults else ()))
    assert net.json("job", "show", 1)["ports"] == PORTS
    assert f"address     {ADDRESS}:{PORT} to {PORT + 3}, slots by port\n" in net.fpisa("job", "show", 1)
    count = 20000 if faults else 60000
    with captured(net) as sockets:
        answers = net.check_sum(1, count, timeout_ms=60000, transport=transport)
        n = expect_own_ports(sockets)
    assert n >= 2 * -(-count // ELEMENTS)
    assert not faults or sum(a["retransmits"] for a in answers) > 10
    assert net.counters(1, PIN)["v_port"] == 0


def test_shrink(lab):
    """A rank that is there and gives nothing is taken out; open rounds, of every port, go on."""
    net = lab(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--elements", ELEMENTS, "--window", WINDOW, "--ports", PORTS)
    idle = net.start(2, 1, {"sleep": 60})
    procs = [net.start(r, 1, {"count": 20000, "kind": "integers"}, timeout_ms=60000) for r in (0, 1)]
    wait_until("open rounds", lambda: net.counters(1, PIN)["v_absorbed"] >= 2 * WINDOW)
    net.fpisa("job", "shrink", 1, 2)
    net.check_answers(procs, 2, 20000)
    assert idle.poll() is None and net.counters(1, PIN)["v_port"] == 0


def arrives(net, receiver, port, data):
    """Does a datagram of worker 0 come out at the aggregator's socket?"""
    with net.worker[0].socket() as s:
        s.bind(("", PORT + 1000))
        s.sendto(data, (ADDRESS, port))
        s.sendto(b"end", (ADDRESS, port))
    heard = receiver.recv(100)
    return heard == data and receiver.recv(100) == b"end"


def test_ports_of_others(lab):
    """The ports behind the first are looked at while a job has them; what does not say FP there passes."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    with contextlib.ExitStack() as stack:
        receiver = {}
        for k in (1, 3, 4):
            receiver[k] = stack.enter_context(net.agg.socket())
            receiver[k].bind(("", PORT + k))
            receiver[k].settimeout(10)
        for k in receiver:
            assert arrives(net, receiver[k], PORT + k, b"FP and more")
        net.add_job(2, "--ports", PORTS)
        net.add_job(3, "--ports", 2)
        assert [arrives(net, receiver[k], PORT + k, b"FP and more") for k in receiver] == [False, False, True]
        assert all(arrives(net, receiver[k], PORT + k, b"PF and more") for k in receiver)
        net.fpisa("job", "del", 2)
        assert [arrives(net, receiver[k], PORT + k, b"FP and more") for k in receiver] == [False, True, True]
        net.fpisa("job", "del", 3)
        assert all(arrives(net, receiver[k], PORT + k, b"FP and more") for k in receiver)
