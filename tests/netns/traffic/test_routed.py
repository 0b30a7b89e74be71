# SPDX-License-Identifier: GPL-2.0-only
"""Test sums with ranks in other subnets, behind one or two routers, over one path or several, and over paths with a smaller MTU. Routers
are network namespaces."""
import contextlib
import re

import pytest

from doctor import examine, fixes
from lab import FPISA, PIN, endpoint, read_all, wait_until
from refusals import refused
from routers import reach, router

pytestmark = pytest.mark.families()
EMSGSIZE, ETIMEDOUT = 90, 110
NARROW = 1300  # below the frames of 320 elements, and at least IPv6's smallest MTU
DROP_TOO_BIG = ("add table inet f; add chain inet f out { type filter hook output priority 0; }; "
                "add rule inet f out icmp type destination-unreachable drop; add rule inet f out icmpv6 type packet-too-big drop")


def prefix(net, address):
    return f"{address}/{128 if net.ipv6 else 32}"


class Routed:
    """A lab whose last rank is behind `hops` routers. The first router has that rank's link to the aggregator. chain: the aggregator, the
    routers and the rank; the link from chain[i] to chain[i + 1] begins at d0, or p1 at the aggregator, and ends at eth0."""

    def __init__(self, lab, hops, mtu=1500):
        net = self.net = lab(workers=2, mtu=mtu)
        first = router(net.worker[1])
        self.chain = [net.agg, first] + [router(net.netns()) for _ in range(hops - 1)] + [net.netns()]
        for i in range(1, hops + 1):
            here, there = self.chain[i:i + 2]
            here.ip(f"link add d0 mtu {mtu} type veth peer name eth0 mtu {mtu} netns {there.path}",
                    f"addr add {net.network(0x60 + i, 1)} dev d0", "link set d0 up")
            there.ip(f"addr add {net.network(0x60 + i, 2)} dev eth0", "link set eth0 up")
            there.gro_on("eth0")
            here.gro_on("d0")
            reach(net, there, net.address, net.host(0x60 + i, 1))
        self.rank = net.host(0x60 + hops, 2)
        for i in range(hops):
            reach(net, self.chain[i], prefix(net, self.rank), net.host(0x60 + i, 2) if i else net.addresses[1])
        net.worker[1] = self.chain[-1]
        net.addresses[1] = self.rank

    def narrow(self, *ways):
        """Reduce the MTU of these devices, each given as (i, dev). Host 0 is the aggregator, then come the routers and the rank."""
        for i, dev in ways:
            self.chain[i].ip(f"link set {dev} mtu {NARROW}")


@pytest.fixture
def routed(lab):
    return lambda *args, **kwargs: Routed(lab, *args, **kwargs)


@pytest.mark.parametrize("hops", [1, 2])
def test_sums(routed, hops):
    """A rank behind routers sums with a rank beside the aggregator. Results are unicast without an option, and each arrives once."""
    net = routed(hops).net
    net.load()
    net.add_job(1, "--token", "5a")
    assert net.json("job", "show", 1)["fanout"] == "unicast" and net.json("job", "show", 1)["group"] is None
    net.check_sum(1, 50000, token=0x5a)
    c = net.counters(1, PIN)
    assert c["v_result"] == 196 and c["unaddressed"] == c["v_internal"] == 0
    found = examine(net.agg)
    assert {found["job 1", check]["level"] for check in ("routes", "mtu")} == {"ok"}


def test_multicast_warns(routed):
    """Multicast is used if an option asks for it. The routed rank then has to request each result."""
    net = routed(1).net
    net.load()
    add = ["job", "add", "1", "--workers", ",".join(net.addresses), "--address", net.address, "--fanout", "multicast"]
    status, _, err = net.agg.try_run(FPISA, *add)
    assert status == 0 and f"warning: job 1: worker {net.addresses[1]} is behind a router" in err, err
    net.check_sum(1, 5000)
    assert net.counters(1, PIN)["v_resent"] >= 20


@pytest.mark.families(spread=True)
def test_loss(routed):
    net = routed(2).net
    net.load()
    net.add_job(1, "--window", 16)
    answers = net.check_sum(1, 50000, loss=0.1, seed=7, timeout_ms=60000)
    assert min(a["retransmits"] for a in answers) > 0


def two_ways(lab):
    """Make a rank with two routers, behind the aggregator's ports p1 and p2. Return the lab without the routers, and the routers."""
    net = lab(workers=3)
    routers, rank = [router(w) for w in net.worker[1:]], net.netns()
    for i, r in enumerate(routers):
        r.ip(f"link add d0 type veth peer name u{i} netns {rank.path}", f"addr add {net.network(0x70 + i, 1)} dev d0", "link set d0 up")
        rank.ip(f"addr add {net.network(0x70 + i, 2)} dev u{i}", f"link set u{i} up")
        for ns, dev in (r, "d0"), (rank, f"u{i}"):
            ns.gro_on(dev)
        reach(net, r, prefix(net, net.host(0x7f, 1)), net.host(0x70 + i, 2))
    rank.ip(f"addr add {prefix(net, net.host(0x7f, 1))} dev lo")
    rank.sysctl("conf/all/rp_filter", 0)
    for dev in "u0", "u1":
        rank.sysctl(f"conf/{dev}/rp_filter", 0)
    gateways = net.addresses[1:]
    net.worker, net.addresses = [net.worker[0], rank], [net.addresses[0], net.host(0x7f, 1)]
    return net, gateways


def received(net, dev):
    with net.agg.entered(), open("/proc/thread-self/net/dev") as f:
        return next(int(line.split()[2]) for line in f if line.strip().startswith(dev + ":"))


def test_asymmetric(lab):
    """Contributions arrive through one router, and results leave through another, to which the aggregator's route leads."""
    net, gateways = two_ways(lab)
    net.load()
    reach(net, net.agg, prefix(net, net.addresses[1]), gateways[1])
    reach(net, net.worker[1], net.address, net.host(0x70, 1), "src", net.addresses[1])
    net.add_job(1)
    before = [received(net, dev) for dev in ("p1", "p2")]
    net.check_sum(1, 50000)
    came = [received(net, dev) - b for dev, b in zip(("p1", "p2"), before)]
    assert came[0] >= 196 > came[1] and net.json("job", "show", 1)["members"][1]["dev"] == "p2"
    assert net.counters(1, PIN)["v_result"] == 196 and net.counters(1, PIN)["v_route"] == 0


def test_several_ways(lab):
    """With equal-cost routes that ports choose, the contributions of one rank arrive on both paths, and results leave on one path."""
    net, gateways = two_ways(lab)
    net.load()
    for ns, to, by, more in ((net.agg, prefix(net, net.addresses[1]), gateways, ""),
                             (net.worker[1], net.address, [net.host(0x70 + i, 1) for i in range(2)], f" src {net.addresses[1]}")):
        ns.sysctl("fib_multipath_hash_policy", 1, family="ipv6" if net.ipv6 else "ipv4")
        ns.ip(f"route replace {to}{more} " + " ".join(f"nexthop via {g}" for g in by))
    before, came = [received(net, dev) for dev in ("p1", "p2")], [0, 0]
    # The kernel may choose one way for all ports of the aggregator. With another port of the rank it chooses anew.
    for rank_port in range(18000, 18006):
        net.add_job(1, "--ports", 8, "--window", 64, workers=[endpoint(a, rank_port) for a in net.addresses])
        net.check_sum(1, 100000, local_port=rank_port)
        assert net.counters(1, PIN)["v_result"] == 391
        net.fpisa("job", "del", 1)
        came = [received(net, dev) - b for dev, b in zip(("p1", "p2"), before)]
        assert sum(came) >= 391 * (rank_port - 17999), came
        if min(came) > 20:
            break
    assert min(came) > 20, came


# -- the MTU of a path -------------------------------------------------------------


def error(net, rc=-ETIMEDOUT):
    """Let both ranks sum. Check that rank 1 fails with `rc`, and return its error."""
    procs = [net.start(r, 1, {"count": 5000, "kind": "integers"}, timeout_ms=4000) for r in range(2)]
    answer = [read_all(p)[0][-1] for p in procs][1]
    assert answer["rc"] == rc, answer
    return answer["error"]


def size(net):
    return 1404 if net.ipv6 else 1384


def narrowed(routed, *ways, hops=2):
    r = routed(hops)
    r.net.load()
    r.net.add_job(1, "--elements", 320)
    r.narrow(*ways)
    return r


def test_results_too_big(routed):
    """A router drops results. Its ICMP messages are counted, and `job show` and doctor name the rank and the MTU. Doctor's command
    recreates the job with smaller frames."""
    net = narrowed(routed, (1, "d0")).net
    assert f"no packet of the job's {size(net)} bytes has arrived yet, so check fpisa stats there for drops such as vlan, then the MTU of the path" in error(net)
    assert net.counters(1, PIN)["v_path_mtu"] > 0
    assert [m["path_mtu"] for m in net.json("job", "show", 1)["members"]] == [None, NARROW]
    assert re.search(rf" ago, path MTU {NARROW}$", net.fpisa("job", "show", 1), re.M)
    says = f"routers drop results to ranks 1, because packets of {size(net)} bytes are larger than the path's MTU of {NARROW}"
    assert "--elements 288" in fixes(net.agg, (), "job 1", "path", says=says)
    net.check_sum(1, 5000)


def test_contributions_too_big(routed):
    """A router drops contributions, and reports this to the rank's kernel. The rank's error names the MTU and the largest chunk."""
    net = narrowed(routed, (2, "eth0")).net
    assert f"the MTU of the path to it is {NARROW}, but the job's packets have {size(net)} bytes; add the job with --elements 288" in error(net)
    assert net.counters(1, PIN)["v_path_mtu"] == 0


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("way", [(1, "d0"), (2, "eth0")], ids=["results", "contributions"])
def test_no_message(routed, way):
    """If a firewall drops the ICMP messages, the rank's error still says what to check."""
    r = narrowed(routed, way)
    for ns in r.chain[1:]:
        ns.run("nft", DROP_TOO_BIG)
    assert f"no packet of the job's {size(r.net)} bytes has arrived yet, so check fpisa stats there for drops such as vlan, then the MTU of the path" in error(r.net)
    assert r.net.counters(1, PIN)["v_path_mtu"] == 0


def test_own_link(routed):
    """The kernel refuses a packet that is larger than the MTU of the rank's own interface."""
    net = narrowed(routed, (2, "eth0"), (2, "d0"), (3, "eth0")).net
    assert "a chunk of 320 elements makes a packet larger than the MTU; create the job with fewer elements" in error(net, -EMSGSIZE)


def test_route_with_mtu(routed):
    """`job add` compares its frames with the MTU of each route."""
    net = routed(1).net
    net.load()
    reach(net, net.agg, prefix(net, net.addresses[1]), net.host(2, 3), "mtu", str(NARROW))
    add = ["job", "add", "1", "--workers", ",".join(net.addresses), "--address", net.address, "--elements"]
    refused(net, [*add, "320"], f"320 elements make a frame of {size(net)} bytes, but the MTU of the route to {net.addresses[1]} is {NARROW}; "
            "try --elements 288")
    net.fpisa(*add, "288")
    net.check_sum(1, 5000)


def learns(net, sender):
    """Send a large datagram to the routed rank. Return whether the aggregator's kernel knows the MTU of the path."""
    with contextlib.suppress(OSError):  # the kernel refuses the datagram once it knows the MTU
        sender.sendto(bytes(NARROW + 50), (net.addresses[1], 9))
    return f"mtu {NARROW}" in net.agg.run("ip", "route", "get", net.addresses[1], "from", net.address)


def test_learned_mtu(routed):
    """If the aggregator's kernel has learned the MTU, as it does from TCP, `job add` only warns, because any host can forge the message."""
    r = routed(2)
    net = r.net
    net.load()
    r.narrow((1, "d0"))
    with net.agg.socket(net.ipv6) as s:
        s.bind((net.address, 0))
        wait_until("the learned MTU", lambda: learns(net, s))
    status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", ",".join(net.addresses), "--address", net.address,
                                     "--elements", 320)
    assert status == 0 and f"a router has reported MTU {NARROW} on the path to worker {net.addresses[1]}" in err, err
