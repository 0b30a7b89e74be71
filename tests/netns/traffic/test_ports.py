# SPDX-License-Identifier: GPL-2.0-only
"""In jobs with several ports, every contribution goes to the port of its slot, with every kind of fault in the network."""
import contextlib
import ctypes
import itertools
import os
import socket
import struct

import pytest

from lab import BPFFS, PIN, PORT, libc, must, wait_until
from worker import XSK

ETH_P_ALL, PACKET_OUTGOING, SO_RCVBUFFORCE = 3, 4, 33  # ETH_P_ALL, because a bridge takes its ports' frames before other handlers see them
ADD, HEADER = 3, 76
ELEMENTS, WINDOW, PORTS = 32, 16, 4


@contextlib.contextmanager
def captured(net):
    """Open packet sockets where the workers' links enter the switch, which is behind every transport and before the aggregator."""
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


def udp_header(packet):
    """Return the offset of the frame's UDP header, or None."""
    for start, protocol, udp in (b"\x08\x00\x45", 23, 34), (b"\x86\xdd\x60", 20, 54):
        if packet[12:15] == start and packet[protocol] == socket.IPPROTO_UDP:
            return udp
    return None


def contributions(sockets):
    """Return (port, slot, version) of each ADD. A burst that is not yet split is one packet with many ADDs."""
    for s in sockets:
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, (_, _, kind, *_) = s.recvfrom(1 << 17)
                udp = udp_header(packet)
                if kind == PACKET_OUTGOING or not udp:
                    continue
                port, length = struct.unpack_from(">HH", packet, udp + 2)
                payload = packet[udp + 8:udp + length]
                while len(payload) >= HEADER and payload[:2] == b"FP" and payload[3] == ADD:
                    word, count = struct.unpack_from("<IxxH", payload, 16)
                    yield port, word >> 1, word & 1
                    payload = payload[HEADER + 4 * count:]


def expect_own_ports(sockets):
    """Check that all frames of each slot were at the slot's port, and that all slots, versions and ports occurred. Return the count."""
    seen = list(contributions(sockets))
    assert set(seen) == {(PORT + slot // 4 % PORTS, slot, v) for slot, v in itertools.product(range(WINDOW), (0, 1))}
    return len(seen)


@pytest.mark.families()
@pytest.mark.parametrize("faults", ["", "drop=0.05,duplicate=0.1,reorder=0.2,delay=0.02"], ids=["clean", "faults"])
@pytest.mark.parametrize("transport", [0, XSK], ids=["udp", "xsk"])
def test_every_frame(lab, transport, faults):
    net = lab(workers=2, bridge=True)
    net.load()
    net.add_job(1, "--elements", ELEMENTS, "--window", WINDOW, "--ports", PORTS,
                *(("--debug-faults", faults) if faults else ()))
    assert net.json("job", "show", 1)["ports"] == PORTS
    shown = f"[{net.address}]" if net.ipv6 else net.address
    assert f"address     {shown}:{PORT} to {PORT + 3}, slots by port\n" in net.fpisa("job", "show", 1)
    count = 20000 if faults else 60000
    with captured(net) as sockets:
        answers = net.check_sum(1, count, timeout_ms=60000, transport=transport)
        n = expect_own_ports(sockets)
    assert n >= 2 * -(-count // ELEMENTS)
    assert not faults or sum(a["retransmits"] for a in answers) > 10
    assert net.counters(1, PIN)["v_port"] == 0


@pytest.mark.families()
def test_shrink(lab):
    """If a rank that has joined but does not contribute is removed, open rounds of every port continue."""
    net = lab(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--elements", ELEMENTS, "--window", WINDOW, "--ports", PORTS)
    idle = net.start(2, 1, {"sleep": 60})
    wait_until("the idle rank has joined", lambda: net.json("job", "show", 1)["joined"] == [2])
    procs = [net.start(r, 1, {"count": 20000, "kind": "integers"}, timeout_ms=60000) for r in (0, 1)]
    wait_until("open rounds", lambda: net.counters(1, PIN)["v_accepted"] >= 2 * WINDOW)
    net.fpisa("job", "shrink", 1, 2)
    net.check_answers(procs, 2, 20000)
    assert idle.poll() is None and net.counters(1, PIN)["v_port"] == 0


def arrives(net, receiver, port, data):
    """Return whether a datagram of worker 0 reaches the aggregator's socket."""
    with net.worker[0].socket(net.ipv6) as s:
        s.bind(("", PORT + 1000))
        s.sendto(data, (net.address, port))
        s.sendto(b"end", (net.address, port))
    heard = receiver.recv(100)
    return heard == data and receiver.recv(100) == b"end"


@pytest.mark.families(spread=True)
def test_ports_of_others(lab):
    """The datapath handles further ports while a job has them. Other frames to these ports pass."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    with contextlib.ExitStack() as stack:
        receiver = {}
        for k in (1, 3, 4):
            receiver[k] = stack.enter_context(net.agg.socket(net.ipv6))
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


# -- a card of two queues ----------------------------------------------------------

BPF_PROG_LOAD, BPF_OBJ_PIN, SCHED_CLS = 5, 6, 3
SYS_BPF = {"x86_64": 321, "aarch64": 280}
# Bytes of the frame, over IPv4 and over IPv6, that hold the last byte of the source address and of the port.
LAST_OF_SOURCE, LAST_OF_PORT = (29, 37), (37, 57)
QUEUE_MAPPING = 12  # in struct __sk_buff


def bpf(command, attr):
    nr = SYS_BPF[os.uname().machine]
    fd = libc.syscall(nr, command, attr, len(attr))
    must(fd < 0, f"bpf({command})")
    return fd


def pin_spreader(path, byte):
    """Pin a classifier that chooses one of two queues by the lowest bit of a byte of the frame."""
    def insn(code, dst, src, off, imm):
        return struct.pack("<BBhi", code, src << 4 | dst, off, imm)

    code = b"".join((insn(0xbf, 6, 1, 0, 0), insn(0x30, 0, 0, 0, byte), insn(0x57, 0, 0, 0, 1),
                     insn(0x07, 0, 0, 0, 1),  # skb->queue_mapping counts queues from 1
                     insn(0x63, 6, 0, QUEUE_MAPPING, 0), insn(0xb7, 0, 0, 0, 0), insn(0x95, 0, 0, 0, 0)))
    held = [ctypes.create_string_buffer(b) for b in (code, b"GPL", path.encode())]
    at = [ctypes.addressof(b) for b in held]
    fd = bpf(BPF_PROG_LOAD, struct.pack("=IIQQ", SCHED_CLS, len(code) // 8, at[0], at[1]) + bytes(96))
    bpf(BPF_OBJ_PIN, struct.pack("=QI", at[2], fd) + bytes(4))
    os.close(fd)


def spread_by(net, byte):
    """Let the classifier choose the aggregator's queues at the switch, as a card does with its rules."""
    switch, path = net.spaces[-1], BPFFS + "/spreader"
    pin_spreader(path, byte[net.ipv6])
    switch.try_run("tc", "filter", "del", "dev", "uplink", "egress")
    switch.run("tc", "filter", "add", "dev", "uplink", "egress", "bpf", "da", "object-pinned", path)
    os.unlink(path)


def two_queues(net):
    """Recreate the aggregator's link with two receive queues that two kernel threads on two CPUs poll. Return the CPUs."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    switch, dev = net.spaces[-1], f"s{os.getpid()}"[:8]  # the name is unique, because the kernel threads are found by it
    switch.ip("link del uplink", f"link add uplink numtxqueues 2 numrxqueues 1 type veth peer name {dev} numtxqueues 2 "
              f"numrxqueues 2 netns {net.agg.path}", "link set uplink master br0", "link set uplink up")
    net.agg.ip(f"addr add {net.network(1, 1)} dev {dev}", f"link set {dev} up")
    switch.gro_on("uplink")
    switch.run("tc", "qdisc", "add", "dev", "uplink", "clsact")
    net.ports = [dev]
    net.load()
    net.agg.run("unshare", "-m", "sh", "-ec", f"mount -t sysfs x /sys; echo 1 > /sys/class/net/{dev}/threaded")
    threads = []
    for p in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{int(p)}/comm") as f:
            threads += [int(p)] if f.read().startswith(f"napi/{dev}-") else []
    assert len(threads) == 2
    for pid, cpu in zip(threads, cpus):
        os.sched_setaffinity(pid, {cpu})
    return cpus


def added(net, job):
    """Return {CPU: (contributions that it added, HELLOs that it answered)}, without idle CPUs."""
    dump = net.bpftool("map", "dump", "pinned", PIN + "/fpisa_counters")
    rows = [(v["cpu"], v["value"]) for e in dump if e["formatted"]["key"] == job for v in e["formatted"]["values"]]
    return {cpu: (c["v_accepted"] + c["v_result"], c["v_welcome"]) for cpu, c in rows if c["packets"]}


@pytest.mark.families(spread=True)
def test_one_cpu_a_slot(lab):
    """If queues are chosen by destination port, the frames of each slot arrive on one CPU. If queues are chosen by source, they arrive on
    two CPUs."""
    net = lab(workers=2, bridge=True)
    cpus = two_queues(net)
    window, chunks = 32, 2 * 32 * 20 + 11
    first = sum(c % window // 8 % 2 == 0 for c in range(chunks))
    for job, (byte, ports) in enumerate([(LAST_OF_PORT, 2), (LAST_OF_PORT, 1), (LAST_OF_SOURCE, 2)]):
        spread_by(net, byte)
        net.add_job(job, "--elements", ELEMENTS, "--window", window, "--ports", ports)
        net.check_sum(job, chunks * ELEMENTS, timeout_ms=60000)
        seen = added(net, job)
        if byte == LAST_OF_SOURCE:  # each CPU has frames of one rank for every slot, and may wait for the lock that the other CPU holds
            assert [seen[c][0] for c in cpus] == [chunks, chunks] and set(seen) == set(cpus)
            continue
        assert net.counters(job, PIN)["v_busy"] == 0
        if ports == 1:
            assert [n for n, _ in seen.values()] == [2 * chunks]
        else:  # a HELLO goes to the first port
            assert sorted(seen) == cpus and sorted(seen.values(), key=lambda v: v[1])[0] == (2 * (chunks - first), 0)
            assert sum(n for n, _ in seen.values()) == 2 * chunks


@pytest.mark.families(spread=True)
def test_through_a_cpu_map(lab):
    """With load --cpus, exactly the frames to the job's ports are passed on, and the same frames are refused afterwards."""
    net = lab(workers=2)
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    net.load("--cpus", cpus)
    net.add_job(1, "--elements", ELEMENTS, "--window", WINDOW, "--ports", PORTS)
    net.check_sum(1, 20000, timeout_ms=60000)
    assert net.counters(1, PIN)["v_port"] == 0
    with net.agg.socket(net.ipv6) as receiver:
        receiver.bind(("", PORT + PORTS))
        receiver.settimeout(10)
        assert arrives(net, receiver, PORT + PORTS, b"FP and more")
