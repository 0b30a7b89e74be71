# SPDX-License-Identifier: GPL-2.0-only
"""Test sums over IPv6, by multicast and unicast, from ranks behind one port, with loss, and with a VLAN tag. Test also the frames that pass
to the stack. tests/prog/test_ipv6.c has each kind of answer and each frame that passes."""
import socket
import struct

import pytest

from lab import PIN, PORT, wait_until
from refusals import refused


@pytest.fixture
def lab6(lab):
    def make(**kwargs):
        return lab(ipv6=True, **kwargs)
    return make


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
@pytest.mark.parametrize("mode", ["native", "skb"])
def test_sums(lab6, mode, fanout):
    net = lab6(workers=3)
    net.load("--mode", mode)
    net.add_job(1, "--fanout", fanout)
    net.check_sum(1, 50000)
    c = net.counters(1, PIN)
    assert c["v_result"] == 196 and c["v_internal"] == c["v_fanout"] == c["v_checksum"] == 0
    job = net.json("job", "show", 1)
    assert job["address"] == net.address and job["group"] == ("ff15::ff46:5001" if fanout == "multicast" else None)
    assert f"address     [{net.address}]:{PORT}\n" in net.fpisa("job", "show", 1)


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_loss(lab6, fanout):
    """Kept results, STATUS and ERROR have the right headers too: sums are correct if one frame in ten is lost in each direction."""
    net = lab6(workers=3)
    net.load()
    net.add_job(1, "--fanout", fanout, "--window", 16)
    answers = net.check_sum(1, 60000, loss=0.1, seed=7, timeout_ms=60000)
    assert min(a["retransmits"] for a in answers) > 0 and net.counters(1, PIN)["v_resent"] > 0


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_shared_port(lab6, fanout):
    """Several ranks behind one port get the results, by one multicast frame or one copy each."""
    net = lab6(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--fanout", fanout)
    net.check_sum(1, 50000)
    assert net.counters(1, PIN)["unaddressed"] == 0


def test_mtu(lab6):
    """The headers are 20 bytes longer than over IPv4, and job add counts them: 320 elements need an MTU of 1404."""
    net = lab6(mtu=1403)
    net.load()
    add = ["job", "add", "1", "--workers", ",".join(net.addresses), "--address", net.address, "--elements", "320"]
    refused(net, add, "320 elements make a frame of 1404 bytes, but the MTU of p0 is 1403; try --elements 288")
    net.fpisa(*add[:-1], "288")
    net.check_sum(1, 20000)


def test_cpus(lab6):
    """Steering finds the slot behind the IPv6 header."""
    net = lab6()
    net.load("--cpus", "0")
    net.add_job(1)
    net.check_sum(1, 50000)
    assert net.counters(1, PIN)["v_result"] == 196


@pytest.mark.parametrize("workers, more, text, status", [
    ("2001:db8::2,10.0.0.2", [], "rank 0 has address 2001:db8::2 and rank 1 10.0.0.2; use IPv4 for all or IPv6 for all", 1),
    ("2001:db8::2,2001:db8::3", ["--address", "10.0.0.1"], "--address is 10.0.0.1; use IPv4 for both or IPv6 for both", 1),
    ("2001:db8::2,2001:db8::3", ["--group", "239.1.2.3"], "--group is 239.1.2.3; use IPv4 for both or IPv6 for both", 1),
    ("2001:db8::2,2001:db8::3", ["--group", "ff11::1"], "ff11::1 does not leave this machine", 2),
    ("fe80::2,fe80::3", [], "fe80::2 is a link-local address", 2),
    ("[2001:db8::2:5", [], r"'\[2001:db8::2:5' is not an address with a port", 2),
    ("::ffff:10.0.0.2", [], "'::ffff:10.0.0.2' is not an IPv4 or IPv6 address", 2),
])
def test_refused(lab6, workers, more, text, status):
    """A job does not mix address families, and link-local addresses are refused."""
    net = lab6()
    net.load()
    refused(net, ["job", "add", "1", "--workers", workers, *more], text, status=status, usage=status == 2)


def test_queries_refused(lab6):
    net = lab6()
    net.load()
    refused(net, ["query", "add", "1", "--kind", "topn", "--limit", "5", "--workers", net.addresses[0], "--master", net.addresses[1]],
            "queries support IPv4 only")


def test_extension_headers_pass(lab6):
    """A datagram for the job behind an extension header reaches the stack's own socket, and is counted."""
    net = lab6()
    net.load()
    net.add_job(1)
    with net.agg.entered():
        server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        server.bind(("::", PORT))
        server.settimeout(5)
    with net.worker[0].entered():
        client = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with server, client:
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, struct.pack("BBBB4x", 0, 0, 1, 4))
        client.sendto(b"FP" + bytes(100), (net.address, PORT))
        assert server.recv(2000) == b"FP" + bytes(100)
    wait_until("the counter", lambda: net.counters(64, PIN)["v_extension"] == 1)


@pytest.mark.cold
def test_forwarding_of_lo(lab6):
    """The first job switches IPv6 forwarding on for lo, where the datapath asks for routes, and unload switches it off again."""
    net = lab6()

    def forwarding():
        return net.agg.run("cat", "/proc/sys/net/ipv6/conf/lo/forwarding").strip()

    net.load()
    net.agg.sysctl("conf/lo/forwarding", 0, family="ipv6")
    net.add_job(1)
    assert forwarding() == "1"
    net.check_sum(1, 1000)
    net.fpisa("unload")
    assert forwarding() == "0"
