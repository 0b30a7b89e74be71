# SPDX-License-Identifier: GPL-2.0-only
"""Test sums over IPv6, with multicast and unicast results, from ranks behind one port, with loss, and with a VLAN tag. Test also the frames that pass
to the stack. tests/prog/test_ipv6.c has each kind of answer and each frame that passes."""
import socket
import struct

import pytest

from doctor import examine
from lab import ADDRESS, PIN, PORT, wait_until
from refusals import refused


pytestmark = pytest.mark.families("ipv6")


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
@pytest.mark.parametrize("mode", ["native", "skb"])
def test_sums(lab, mode, fanout):
    net = lab(workers=3)
    net.load("--mode", mode)
    net.add_job(1, "--fanout", fanout)
    net.check_sum(1, 50000)
    c = net.counters(1, PIN)
    assert c["v_result"] == 196 and c["v_internal"] == c["v_fanout"] == c["v_checksum"] == 0
    job = net.json("job", "show", 1)
    assert job["address"] == net.address and job["group"] == ("ff15::ff46:5001" if fanout == "multicast" else None)
    assert f"address     [{net.address}]:{PORT}\n" in net.fpisa("job", "show", 1)


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_loss(lab, fanout):
    """Kept results, STATUS and ERROR have the right headers too: sums are correct if one frame in ten is lost in each direction."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, "--fanout", fanout, "--window", 16)
    answers = net.check_sum(1, 60000, loss=0.1, seed=7, timeout_ms=60000)
    assert min(a["retransmits"] for a in answers) > 0 and net.counters(1, PIN)["v_resent"] > 0


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_shared_port(lab, fanout):
    """Several ranks behind one port get the results, in one multicast frame or in one copy each."""
    net = lab(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--fanout", fanout)
    net.check_sum(1, 50000)
    assert net.counters(1, PIN)["unaddressed"] == 0


def test_mtu(lab):
    """The headers are 20 bytes longer than over IPv4, and job add counts them: 320 elements need an MTU of 1404."""
    net = lab(mtu=1403)
    net.load()
    add = ["job", "add", "1", "--workers", ",".join(net.addresses), "--address", net.address, "--elements", "320"]
    refused(net, add, "320 elements make a frame of 1404 bytes, but the MTU of p0 is 1403; try --elements 288")
    net.fpisa(*add[:-1], "288")
    net.check_sum(1, 20000)


def also_ipv4(net, ranks, bridge=False):
    """Give the aggregator and these workers IPv4 addresses too. Return the workers' addresses in a job in which these ranks use IPv4."""
    addresses = list(net.addresses)
    net.agg.ip(f"addr add {ADDRESS}/32 dev lo", *(["addr add 10.99.1.1/24 dev p0"] if bridge else []))
    for r in ranks:
        network = 1 if bridge else r + 1
        addresses[r] = f"10.99.{network}.{r + 2}"
        if not bridge:
            net.agg.ip(f"addr add 10.99.{network}.1/24 dev p{r}")
        net.worker[r].ip(f"addr add {addresses[r]}/24 dev eth0", f"route add {ADDRESS} via 10.99.{network}.1")
    return addresses


@pytest.mark.parametrize("loss", [0, 0.1])
@pytest.mark.parametrize("mode, bridge", [("native", False), ("skb", False), ("native", True), ("skb", True)])
def test_both_families(lab, mode, bridge, loss):
    """IPv4 ranks and IPv6 ranks sum in one job, also behind one port, whichever rank completes a round. Each sends to the address of its
    family, and gets its results from it."""
    net = lab(workers=4, bridge=bridge)
    ipv4 = (1, 2)
    addresses = also_ipv4(net, ipv4, bridge)
    net.load("--mode", mode)
    net.fpisa("job", "add", 1, "--workers", ",".join(addresses), "--address", f"{ADDRESS},{net.address}", "--window", 16)
    step = {"count": 30000, "kind": "integers"}
    procs = [net.start(r, 1, step, address=ADDRESS if r in ipv4 else None, loss=loss, timeout_ms=60000) for r in range(4)]
    answers = net.check_answers(procs, 4, 30000)
    assert not loss or all(a["retransmits"] for a in answers)
    c = net.counters(1, PIN)
    assert c["v_result"] == 118 and c["v_internal"] == c["v_fanout"] == c["v_checksum"] == c["unaddressed"] == 0
    job = net.json("job", "show", 1)
    assert (job["address"], job["fanout"], job["group"]) == (f"{net.address},{ADDRESS}", "unicast", None)
    assert f"address     [{net.address}]:{PORT} and {ADDRESS}:{PORT}\n" in net.fpisa("job", "show", 1)
    fault = [f for f in examine(net.agg).values() if f["level"] == "fault"]
    assert not fault, fault


def test_addresses_of_both_families(lab):
    """Without --address, each family has the source address of the route to its first rank."""
    net = lab(workers=3)
    addresses = also_ipv4(net, [1, 2])
    net.load()
    own = net.host(1, 1)
    for options, want in (([], f"{own},10.99.2.1"), (["--address", ADDRESS], f"{own},{ADDRESS}"),
                          (["--address", net.address], f"{net.address},10.99.2.1")):
        net.fpisa("job", "add", 1, "--workers", ",".join(addresses), *options)
        assert net.json("job", "show", 1)["address"] == want
        net.fpisa("job", "del", 1)


def test_cpus(lab):
    """Steering finds the slot behind the IPv6 header."""
    net = lab()
    net.load("--cpus", "0")
    net.add_job(1)
    net.check_sum(1, 50000)
    assert net.counters(1, PIN)["v_result"] == 196


@pytest.mark.parametrize("workers, more, text, status", [
    ("2001:db8::2,10.0.0.2", ["--fanout", "multicast"], "rank 0 has address 2001:db8::2 and rank 1 has 10.0.0.2, but multicast results have one "
                                                        "family; use IPv4 for all or IPv6 for all", 1),
    ("2001:db8::2,10.0.0.2", ["--mode", "exact", "--leaves"], "but a tree's ranks have one family; use IPv4 for all or IPv6 for all", 1),
    ("2001:db8::2,10.0.0.2", ["--address", "10.0.0.1,10.0.0.9"], "10.0.0.1 and 10.0.0.9 have the same family; give one address, or one of", 2),
    ("10.0.0.2,10.0.0.3", ["--address", "10.0.0.1,2001:db8::1"], "--address has two addresses; give one", 1),
    ("2001:db8::2,2001:db8::3", ["--address", "10.0.0.1"], "--address is 10.0.0.1; use IPv4 for both or IPv6 for both", 1),
    ("2001:db8::2,2001:db8::3", ["--group", "239.1.2.3"], "--group is 239.1.2.3; use IPv4 for both or IPv6 for both", 1),
    ("2001:db8::2,2001:db8::3", ["--group", "ff11::1"], "ff11::1 does not leave this machine", 2),
    ("2001:db8::2,2001:db8::3", ["--mode", "exact", "--parent", "10.0.0.1/0"], "--parent is 10.0.0.1; use IPv4 for both or IPv6 for both", 1),
    ("10.0.0.2,10.0.0.3", ["--mode", "exact", "--parent", "fd77::9/0"], "--parent is fd77::9; use IPv4 for both or IPv6 for both", 1),
    ("10.0.0.2,10.0.0.3", ["--mode", "exact", "--parent", "[fd77::9]:18001/0"], "--parent is fd77::9; use IPv4 for both", 1),
    ("10.0.0.2,10.0.0.3", ["--mode", "exact", "--parent", "[fd77::9/0"], r"'\[fd77::9' is not an address with a port; write ", 2),
    ("fe80::2,fe80::3", [], "fe80::2 is a link-local address, which is valid on one link only; give a global or a unique local", 2),
    ("fe80::2%eth0,fe80::3%eth0", [], "fe80::2%eth0 is a link-local address, which is valid on one link only", 2),
    ("2001:db8::2:18001,2001:db8::3", [], r"'2001:db8::2:18001' is not an address with a port; write \[2001:db8::1\]:18001", 2),
    ("10.0.0.2,10.0.0.3", ["--mode", "exact", "--parent", "fd77::9:18001/0"], r"'fd77::9:18001' is not an address with a port; write ", 2),
    ("[2001:db8::2:5", [], r"'\[2001:db8::2:5' is not an address with a port", 2),
    ("::ffff:10.0.0.2", [], "'::ffff:10.0.0.2' is not an IPv4 or IPv6 address", 2),
])
def test_refused(lab, workers, more, text, status):
    """Only unicast jobs mix address families, and link-local addresses are refused."""
    net = lab()
    net.load()
    refused(net, ["job", "add", "1", "--workers", workers, *more], text, status=status, usage=status == 2)


def test_queries_refused(lab):
    net = lab()
    net.load()
    refused(net, ["query", "add", "1", "--kind", "topn", "--limit", "5", "--workers", net.addresses[0], "--master", "10.0.0.2"],
            "but a query's members have one family; use IPv4 for all or IPv6 for all")
    for where, says in (("fe80::1%eth0", "'fe80::1%eth0' is a link-local address, which is valid on one link only"),
                        ("[2001:db8::1]:0", "'\\[2001:db8::1\\]:0' is not an address with an optional port"),
                        ("[2001:db8::1", "'\\[2001:db8::1' is not an address with an optional port")):
        for option in "--workers", "--aggregator":
            given = {"--workers": net.addresses[0], "--aggregator": net.address, option: where}
            refused(net, ["query", "run", "t", "--query", "1", "--by", "k", "--key", "/dev/null", *(w for o in given.items() for w in o)], says)
    refused(net, ["query", "worker", "/", "--key", "k", "--listen", "fe80::1%eth0"], "is a link-local address", status=2, usage=True)


def test_extension_headers_pass(lab):
    """A datagram for the job behind an extension header reaches the stack's own socket, and is counted."""
    net = lab()
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
def test_forwarding_of_lo(lab):
    """The first job switches IPv6 forwarding on for lo, where the datapath asks for routes, and unload switches it off again."""
    net = lab()

    def forwarding():
        return net.agg.run("cat", "/proc/sys/net/ipv6/conf/lo/forwarding").strip()

    net.load()
    net.agg.sysctl("conf/lo/forwarding", 0, family="ipv6")
    net.add_job(1)
    assert forwarding() == "1"
    net.check_sum(1, 1000)
    net.fpisa("unload")
    assert forwarding() == "0"
