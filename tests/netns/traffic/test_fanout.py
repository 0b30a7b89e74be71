# SPDX-License-Identifier: GPL-2.0-only
"""Test the paths of results: to a multicast address or to each worker, native and generic, through one port or many, and with reverse-path
filters."""
import contextlib
import ctypes
import json
import shutil
import socket
import struct
import subprocess
import sys

import pytest

from lab import HERE, LIBRARY, PIN, PORT, SLOW

pytestmark = pytest.mark.families()


def lost_copies(counters, answers):
    """Count the results that workers had to request. A worker that requests a result too early gets it twice. The second copy is not a
    loss."""
    return counters["v_resent"] - sum(a["duplicates"] for a in answers)


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
@pytest.mark.parametrize("mode", ["native", "skb"])
def test_fanout(lab, mode, fanout):
    net = lab(workers=4)
    net.load("--mode", mode)
    net.add_job(1, "--fanout", fanout)
    answers = net.check_sum(1, 50000)
    c = net.counters(1, PIN)
    assert c["v_result"] == 196
    assert lost_copies(c, answers) < 49 and max(a["bad"] for a in answers) == 0
    assert c["v_fanout"] == c["v_internal"] == 0


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
@pytest.mark.parametrize("mode", ["native", "skb"])
def test_shared_port(lab, mode, fanout):
    """The datapath sends one frame for all workers behind a bridge, or one frame for each."""
    net = lab(workers=3, bridge=True)
    net.load("--mode", mode)
    net.add_job(1, "--fanout", fanout)
    sent = tx_packets(net)
    answers = net.check_sum(1, 50000)
    c = net.counters(1, PIN)
    sent = tx_packets(net) - sent
    replies = c["v_resent"] + c["v_welcome"] + c["v_status"]
    copies = 1 if fanout == "multicast" else 3
    assert c["v_result"] == 196 and lost_copies(c, answers) < 49
    assert copies * 196 <= sent - replies <= copies * 196 + 50  # allow for ARP and IGMP, or ND and MLD, frames of the stack


@pytest.mark.parametrize("elements", [32, 832])
@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_results_are_put_together(lab, fanout, elements):
    """Results have a right UDP checksum, so the kernel merges them. Sockets receive fewer datagrams than frames arrived."""
    net = lab(workers=3, mtu=3506)
    net.load()
    net.add_job(1, "--fanout", fanout, "--elements", elements)
    before = [w.udp_counters(net.ipv6) for w in net.worker]
    answers = net.check_sum(1, 600 * elements)
    after = [w.udp_counters(net.ipv6) for w in net.worker]
    assert all(b["InCsumErrors"] == a["InCsumErrors"] for b, a in zip(before, after))
    assert max(a["bad"] for a in answers) == 0
    assert min(a["InDatagrams"] - b["InDatagrams"] for b, a in zip(before, after)) < 600


@pytest.mark.skipif(not shutil.which("ethtool"), reason="ethtool is not installed")
def test_results_are_put_together_behind_a_bridge(lab):
    """Results are merged if the port through which they enter the bridge merges frames. Otherwise they arrive one by one."""
    net = lab(workers=2, bridge=True)
    net.load()
    net.add_job(1)
    came = []
    for value in "off", "on":
        net.spaces[-1].run("ethtool", "-K", "uplink", "rx-udp-gro-forwarding", value)
        before = net.worker[0].udp_counters(net.ipv6)
        net.check_sum(1, 256 * 600)
        after = net.worker[0].udp_counters(net.ipv6)
        assert after["InCsumErrors"] == before["InCsumErrors"]
        came.append(after["InDatagrams"] - before["InDatagrams"])
    assert came[1] < 600 <= came[0]


def tx_packets(net):
    return net_dev(net.agg, "p0")


def net_dev(ns, dev):
    with ns.entered(), open("/proc/thread-self/net/dev") as f:
        return next(int(line.split()[10]) for line in f if line.strip().startswith(dev + ":"))


SO_ATTACH_FILTER, ETH_P_ALL = 26, 3


def filter_unaddressed(ipv6):
    """Return a socket filter that accepts frames to 0.0.0.0 or ::."""
    ether_type, words = (0x86dd, (38, 42, 46, 50)) if ipv6 else (0x800, (30,))
    # ldh [12]; jne #TYPE, no; for each word of the address: ld [WORD]; jne #0, no; ret #64; no: ret #0
    left = [2 * len(words) + 1 - 2 * k for k in range(len(words) + 1)]
    code = [(0x28, 0, 0, 12), (0x15, 0, left[0], ether_type)]
    for k, word in enumerate(words):
        code += [(0x20, 0, 0, word), (0x15, 0, left[k + 1], 0)]
    return [*code, (6, 0, 0, 64), (6, 0, 0, 0)]


@contextlib.contextmanager
def unaddressed(spaces, ipv6=False):
    """Return a function that counts the frames to 0.0.0.0 or :: that arrived at eth0 of these namespaces."""
    code = filter_unaddressed(ipv6)
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *insn) for insn in code))
    with contextlib.ExitStack() as stack:
        seen = []
        for ns in spaces:
            with ns.entered():
                s = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
                s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                             struct.pack("HP", len(code), ctypes.addressof(text)))
                s.bind(("eth0", ETH_P_ALL))
            s.setblocking(False)
            seen.append(s)

        def count():
            n = 0
            for s in seen:
                with contextlib.suppress(BlockingIOError):
                    while s.recv(64):
                        n += 1
            return n

        yield count


@pytest.mark.parametrize("options", [(), ("--cpus", "0"), ("--mode", "skb")])
def test_replies_among_copies(lab, options):
    """A port sends stored results, answers to probes and copies in one batch, and every copy is addressed."""
    net = lab(workers=3)
    net.load(*options)
    net.add_job(1, "--fanout", "unicast", "--debug-faults", "drop=0.05,seed=3")
    with unaddressed(net.worker, net.ipv6) as count:
        net.check_sum(1, 200000)
        c = net.counters(1, PIN)
        assert c["v_resent"] > 50 and c["v_result"] == 782
        assert count() == 0 and c["unaddressed"] == 0


def with_port(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@pytest.mark.parametrize("first", ["unicast", "multicast"])
def test_jobs_share_a_port(lab, first):
    """Through one port, unicast copies of one job follow results of another job, which go to a multicast address."""
    net = lab(workers=3, bridge=True)
    net.load()
    for job, fanout in enumerate([first] + [f for f in ("unicast", "multicast") if f != first]):
        net.add_job(job, "--fanout", fanout, workers=[with_port(a, PORT + job) for a in net.addresses])
    steps = [{"count": 500000, "kind": "integers"}] * 4
    with unaddressed(net.worker, net.ipv6) as count:
        procs = [[net.start(r, job, *steps, local_port=PORT + job, timeout_ms=int(60000 * SLOW))
                  for r in range(3)] for job in (0, 1)]
        for p in procs:
            net.check_answers(p, 3, 500000)
        assert count() == 0
        assert net.counters(0, PIN)["unaddressed"] == net.counters(1, PIN)["unaddressed"] == 0


# The worker joins again on request, and ends on request.
AGAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import worker
w = worker.Worker(sys.argv[2])
worker.become_nobody()
w.connect(sys.argv[3], int(sys.argv[4]), {})
w.allreduce(5000, "integers")
sys.stdin.readline()
w.answer(w.lib.fpisa_rejoin(w.handle))
w.allreduce(5000, "integers")
sys.stdin.readline()
"""


def members(ns, ipv6):
    """Return the interfaces with the job's multicast address, from /proc/net/igmp or igmp6."""
    if ipv6:
        with ns.entered(), open("/proc/thread-self/net/igmp6") as f:
            return {(line.split()[1], line.split()[2]) for line in f if line.split()[2].startswith("ff15")}
    with ns.entered(), open("/proc/thread-self/net/igmp") as f:
        lines = [line.split() for line in f][1:]
    heads = [i for i, words in enumerate(lines) if words[0].isdigit()]
    return {(lines[a][1], words[0]) for a, b in zip(heads, heads[1:] + [len(lines)]) for words in lines[a + 1:b]} - \
        {(lines[a][1], "010000E0") for a in heads}


def put_into_bridge(net, w):
    """Move eth0's address, and its MAC, to br0."""
    address = net.network(1, 2)
    mac = ":".join(f"{byte:02x}" for byte in w.mac("eth0"))
    w.ip(f"link add br0 address {mac} type bridge mcast_snooping 0 forward_delay 0 stp_state 0", "link set eth0 master br0",
         f"addr del {address} dev eth0", f"addr add {address} dev br0", "link set br0 up", f"route replace {net.address} via {net.host(1, 1)} dev br0")


@pytest.mark.parametrize("changed", ["interface", "fanout"])
def test_a_rejoin_joins_the_multicast_address_again(lab, changed):
    """A rejoin joins the multicast address at the interface that now leads to the aggregator. If the job no longer has a multicast address,
    the rejoin leaves the old one."""
    net = lab(workers=2)
    net.load()
    net.add_job(1, "--fanout", "multicast")
    w = net.worker[0]
    procs = [n.spawn(sys.executable, "-B", "-c", AGAIN, HERE, LIBRARY, net.address, 1, stdin=subprocess.PIPE) for n in net.worker]
    for p in procs:
        assert [json.loads(p.stdout.readline())["rc"] for _ in range(2)] == [0, 0]
    (dev, address), = members(w, net.ipv6)
    assert dev == "eth0"
    if changed == "interface":
        put_into_bridge(net, w)
    else:
        net.fpisa("job", "del", 1)
        net.add_job(1, "--fanout", "unicast")
    before = net.counters(1, PIN)["v_resent"]
    for p in procs:
        p.stdin.write("join\n")
        p.stdin.flush()
    answers = [[json.loads(p.stdout.readline()) for _ in range(2)] for p in procs]
    assert all(a["rc"] == 0 for answer in answers for a in answer), answers
    assert members(w, net.ipv6) == ({("br0", address)} if changed == "interface" else set())
    assert net.counters(1, PIN)["v_resent"] - before - sum(a["duplicates"] for _, a in answers) < 5


@pytest.mark.families("ipv4", why="IPv6 has no rp_filter")
@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
@pytest.mark.parametrize("rp_filter", [0, 1, 2])
def test_rp_filter(lab, rp_filter, fanout):
    net = lab(workers=3, rp_filter=rp_filter)
    net.load()
    net.add_job(1, "--fanout", fanout)
    answers = net.check_sum(1, 5000)
    assert lost_copies(net.counters(1, PIN), answers) < 5


def test_workers_on_one_machine(lab):
    """With unicast, two processes at one address are distinguished by their UDP ports."""
    net = lab(workers=2)
    net.load()
    a, b = net.addresses
    net.add_job(1, workers=[with_port(a, 18000), with_port(a, 18001), with_port(b, 18000)])
    assert net.json("job", "show", "1")["fanout"] == "unicast"
    step = {"count": 5000, "kind": "integers"}
    procs = [net.start(0, 1, step), net.start(0, 1, step, local_port=18001), net.start(1, 1, step)]
    answers = net.check_answers(procs, 3, 5000)
    c = net.counters(1, PIN)
    assert c["v_result"] == 20 and lost_copies(c, answers) < 5
