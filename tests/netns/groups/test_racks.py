# SPDX-License-Identifier: GPL-2.0-only
"""Groups over two racks over real XDP. Each rack has a switch with an uplink, two hosts with two ranks each, and one aggregator: in rack A on
a host of its own, in rack B on a host with ranks. The root is outside of the racks."""
import errno
import fractions
import json
import random
import signal
import struct

import pytest

from aggregators import Switched, pins
from lab import FPISA, draw_seed, end, once_within, wait_until
from test_leaves import EHOSTDOWN, FRAME, MODE_EXACT, PINS, all_counters, errors, forever, nearest, random_values, served, shares_of, two_roots

HOSTS, RANKS = 4, 8
OTHER = "2001:db8:98::"  # stands for 10.98.0. in addresses that hosts also have
LEAVES = "a", "b"  # the racks and their aggregators
pytestmark = [pytest.mark.together, pytest.mark.families(spread=True)]


class Site(Switched):
    """The manager and its datapath at 10.98.0.1, rack A with 10.98.0.17 to .19, and rack B with .34 and .35. Over IPv6 2001:db8:98:: stands
    for 10.98.0."""

    def __init__(self, ipv6=False):
        super().__init__()
        self.subnet, self.frame = ("2001:db8:98::", FRAME + 40) if ipv6 else ("10.98.0.", FRAME + 20)
        self.address = f"{self.subnet}1"
        self.agg = self.host(self.address, "m0")
        self.other = self.host(f"{self.subnet}2", "m1")
        for rack in LEAVES:
            self.switch.ip(f"link add rack-{rack} type bridge mcast_snooping 0 forward_delay 0 stp_state 0", f"link set rack-{rack} up",
                           f"link add up-{rack} type veth peer name core-{rack}",
                           f"link set up-{rack} master rack-{rack} up", f"link set core-{rack} master br0 up")
        self.leaf_a = self.in_rack("a", 17)
        self.addresses = [f"{self.subnet}{n}" for n in (18, 19, 34, 35)]
        self.worker = [self.in_rack("a", 18), self.in_rack("a", 19), self.in_rack("b", 34), self.in_rack("b", 35)]
        for host in self.worker:
            host.ip("link set lo up")
        self.leaves = {f"{self.subnet}17": (self.leaf_a, "a"), self.addresses[2]: (self.worker[2], "b", "--colocated", "eth0")}
        self.fpisa("load", "eth0")
        self.leaf_a.run(FPISA, "load", "eth0", "--pin", f"{PINS}/a")

    def in_rack(self, rack, n):
        host = self.host(f"{self.subnet}{n}", f"h{n}")
        self.switch.ip(f"link set h{n} master rack-{rack}")
        return host

    def racks(self):
        """Return the sections of the configuration."""
        prefix = "10/124" if ":" in self.subnet else "16/28"
        return f"[rack A]\nhosts = {self.subnet}{prefix}\n[rack B]\nhosts = {','.join(self.addresses[2:])}\n"

    def add_family(self):
        """Give each host of IPv4 an IPv6 address too, each aggregator both addresses, and each rack the hosts of both families. Return the
        sections of the configuration."""
        def other(address):
            return address.replace("10.98.0.", OTHER)

        for host, address in ((self.agg, self.address), (self.leaf_a, f"{self.subnet}17"), *zip(self.worker, self.addresses)):
            host.ip(f"addr add {other(address)}/64 dev eth0 nodad")
        self.leaves = {a: (*place, "--address", f"{a},{other(a)}") for a, place in self.leaves.items()}
        b = self.addresses[2:]
        return f"[rack A]\nhosts = {self.subnet}16/28,{OTHER}10/124\n[rack B]\nhosts = {','.join([*b, *map(other, b)])}\n"

    def sent(self, port):
        """Return the bytes that the switch has sent by this port."""
        return json.loads(self.switch.run("ip", "-j", "-s", "link", "show", port))[0]["stats64"]["tx"]["bytes"]

    def up(self, rack):
        """Return the bytes that a rack has sent over its uplink."""
        return self.sent(f"up-{rack}")


@pytest.fixture
def site(bpffs, tmp_path, family):
    with pins(PINS):
        net = Site(ipv6=family == "ipv6")
        with served(net, str(tmp_path), net.racks()) as leaves:
            yield leaves


@pytest.fixture
def site_of_both(bpffs, tmp_path):
    with pins(PINS):
        net = Site()
        with served(net, str(tmp_path), net.add_family()) as leaves:
            yield leaves


def host_of(rank):
    return rank % HOSTS


def in_a(rank):
    return host_of(rank) < 2


def start(site, name, steps_of, ranks=range(RANKS), addresses=(None,), **options):
    """Start these ranks, which are numbered from 0 in the group. They join at these addresses of the manager, in turn."""
    running = [site.start(host_of(r), name, i, len(ranks), *steps_of(r), hold=True, address=addresses[i % len(addresses)],
                          **{"mode": MODE_EXACT, **options}) for i, r in enumerate(ranks)]
    for rank in running:
        answer = rank.line()
        assert answer["rc"] == 0, answer
    return running


def check_bits(site, chunks):
    """Sum random values, and check that each rank gets the exact sums, which are those without racks, too."""
    rng = random.Random(draw_seed())
    n = 256 * chunks
    values = [random_values(rng, n) for _ in range(RANKS)]
    right = b"".join(nearest(sum(map(fractions.Fraction, column))) for column in zip(*values))
    words = [struct.pack(f"<{n}f", *v).hex() for v in values]
    ranks = start(site, "g", lambda r: [{"words": words[r], "type": 1, "op": 1, "count": n}], elements=256)
    answers = [rank.line() for rank in ranks]
    assert all(a["rc"] == 0 and bytes.fromhex(a["result"]) == right for a in answers)


def begin(site, name):
    """Start sums, and wait until each leaf has sent some."""
    before = {leaf: all_counters(site, leaf, "v_up") for leaf in LEAVES}
    ranks = start(site, name, forever)
    wait_until("partial sums", lambda: all(all_counters(site, leaf, "v_up") > before[leaf] for leaf in LEAVES), 30)
    return ranks


@pytest.mark.families()
def test_bits(site):
    """The sums are the exact sums, which are also those without racks. Each rack sends one contribution for each chunk, and status shows
    the tree."""
    chunks, subnet = 50, site.net.subnet
    check_bits(site, chunks)
    assert [(s["address"], s["rack"], s["ranks"]) for s in shares_of(site, "g")] == [
        (f"{subnet}1", None, []), (f"{subnet}17", "A", [0, 1, 4, 5]), (f"{subnet}34", "B", [2, 3, 6, 7])]
    endpoint = (lambda n: f"[{subnet}{n}]:18000") if ":" in subnet else (lambda n: f"{subnet}{n}:18000")
    for verb in ("status",), ("group", "show", "g"):
        said = " ".join(site.net.fpisa(*verb).split())
        assert f"root {endpoint(1)} leaves {endpoint(17)} in rack A, ranks 0,1,4,5 {endpoint(34)} in rack B, ranks 2,3,6,7" in said, said
    for leaf in LEAVES:
        assert all_counters(site, leaf, "v_up") == chunks


@pytest.mark.alone
@pytest.mark.families()
def test_bytes(site):
    """A rack's uplink carries the bytes of one rank, not of four."""
    chunks = 2000
    before = {rack: site.net.up(rack) for rack in LEAVES}
    for rank in start(site, "g", lambda r: [{"sum": "float32", "count": 256 * chunks}], elements=256):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == RANKS * (RANKS + 1) / 2, answer
    for rack in LEAVES:
        sent = (site.net.up(rack) - before[rack]) / (chunks * (site.net.frame + 4 * 256))
        print(f"rack {rack} sent {sent:.2f} times the bytes of a rank")
        assert sent < 1.1


@pytest.mark.alone
@pytest.mark.families()
def test_no_spare_host(site):
    """Each rack has a leaf on a host with ranks, and the manager is on one of these hosts. One leaf is the root. Each uplink carries one vector."""
    net, chunks = site.net, 2000
    for process in (*site.agents, site.manager):
        end(process)
    with open(site.agent_config, "w") as f:
        f.write(f"[manager]\nkey-file = {site.key}\nmanager = {net.addresses[2]}\n")
    site.manager = site.spawn(net.worker[2], f"{PINS}/b", site.config, says="serving ")
    site.agents = [site.spawn(net.worker[0], f"{PINS}/a0", site.agent_config, "--colocated", "eth0")]
    try:
        before = {rack: net.up(rack) for rack in LEAVES}
        for rank in start(site, "g", lambda r: [{"sum": "float32", "count": 256 * chunks}], addresses=[net.addresses[2]], elements=256):
            answer = rank.line()
            assert answer["rc"] == 0 and answer["first"] == RANKS * (RANKS + 1) / 2, answer
        for rack in LEAVES:
            sent = (net.up(rack) - before[rack]) / (chunks * (net.frame + 4 * 256))
            print(f"rack {rack} sent {sent:.2f} times the bytes of a rank")
            assert 0.9 < sent < 1.1
        group, = json.loads(net.worker[2].run(FPISA, "group", "show", "g", "--json", "--pin", f"{PINS}/b"))
        assert [(s["address"], s["rack"], s["ranks"]) for s in group["shares"][1:]] == [
            (net.addresses[0], "A", [0, 1, 4, 5]), (net.addresses[2], "B", [2, 3, 6, 7])]
        assert group["shares"][0]["address"] in (net.addresses[0], net.addresses[2]) and not group["shares"][0]["ranks"]
    finally:
        net.worker[0].run(FPISA, "unload", "--pin", f"{PINS}/a0")


@pytest.mark.alone
@pytest.mark.families()
def test_two_roots(site):
    """With two roots, the link of each carries half of the bytes that the link of one root carries, and sums have the same bits. Status shows
    both roots."""
    net, chunks, subnet = site.net, 2000, site.net.subnet

    def to(ports, name):
        before = [net.sent(port) for port in ports]
        for rank in start(site, name, lambda r: [{"sum": "float32", "count": 256 * chunks}], elements=256):
            answer = rank.line()
            assert answer["rc"] == 0 and answer["first"] == answer["last"] == RANKS * (RANKS + 1) / 2, answer
        return [(net.sent(port) - then) / (chunks * (net.frame + 4 * 256)) for port, then in zip(ports, before)]

    one, = to(["m0"], "one")
    with two_roots(site):
        each = to(["m0", "m1"], "two")
        print(f"vectors to one root {one:.2f}, to each of two {each[0]:.2f}, {each[1]:.2f}")
        assert 1.9 < one < 2.2 and all(0.9 < root < 1.1 for root in each)
        check_bits(site, 51)
        assert [(s["address"], s["weight"], s["rack"], s["ranks"]) for s in shares_of(site, "g")] == [
            (f"{subnet}1", 1, None, []), (f"{subnet}2", 1, None, []), (f"{subnet}17", 1, "A", [0, 1, 4, 5]), (f"{subnet}34", 1, "B", [2, 3, 6, 7])]
        endpoint = (lambda n: f"[{subnet}{n}]:18000") if ":" in subnet else (lambda n: f"{subnet}{n}:18000")
        said = " ".join(net.fpisa("group", "show", "g").split())
        assert f"roots {endpoint(1)} {endpoint(2)} leaves {endpoint(17)} in rack A, ranks 0,1,4,5 {endpoint(34)} in rack B" in said, said


@pytest.mark.families()
@pytest.mark.long
def test_other_modes_at_two_roots(site):
    """Jobs that are not trees are spread over both roots. A reduce-scatter of a tree gives each rank its part."""
    with two_roots(site):
        before = [site.net.sent(port) for port in ("m0", "m1")]
        for rank in start(site, "g", lambda r: [{"sum": "float32", "count": 256 * 500}], mode=0, elements=256):
            answer = rank.line()
            assert answer["rc"] == 0 and answer["first"] == answer["last"] == RANKS * (RANKS + 1) / 2, answer
        for port, then in zip(("m0", "m1"), before):
            assert 3.8 < (site.net.sent(port) - then) / (500 * (site.net.frame + 4 * 256)) < 4.4
        for rank in start(site, "h", lambda r: [{"parts": RANKS * 256 * 50, "times": 3}], elements=256):
            answer = rank.line()
            assert answer["rc"] == 0 and answer["wrong"] == 0 and answer["calls"] == 3, answer


@pytest.mark.families()
def test_reduce_scatter(site):
    """Each rank gets its part. The leaves get the whole sum, because each has ranks of different parts."""
    for rank in start(site, "g", lambda r: [{"parts": RANKS * 256 * 50, "times": 3}], elements=256):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["wrong"] == 0 and answer["calls"] == 3, answer


def test_one_rack(site):
    """The sums of a group within one rack do not use its uplink."""
    chunks = 1000
    before = site.net.up("a")
    ranks = [r for r in range(RANKS) if in_a(r)]
    for rank in start(site, "g", lambda r: [{"sum": "float32", "count": 256 * chunks}], ranks, elements=256):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == sum(range(1, len(ranks) + 1)), answer
    share, = shares_of(site, "g")
    assert (share["address"], share["rack"]) == (f"{site.net.subnet}17", "A")
    said = " ".join(site.net.fpisa("group", "show", "g").split())
    job, = json.loads(site.net.leaf_a.run(FPISA, "job", "list", "--json", "--pin", f"{PINS}/a"))
    assert f"{site.net.subnet}17" in said.split("shares ")[1].split()[0] and "in rack A, weight " in said, said
    assert f"window 64; on the first host of its shares, run fpisa job show {job['job']} " in said, said
    assert site.net.up("a") - before < chunks * 256


def test_both_families(site_of_both):
    """Racks have hosts of both families. A group of either family gets their tree. A group of both has right sums without a tree, and the
    manager says why."""
    site, chunks = site_of_both, 50
    four, six = site.net.address, f"{OTHER}1"
    for name, addresses, root in (("four", [four], four), ("six", [six], six), ("both", [four, six], None)):
        ranks = start(site, name, lambda r: [{"sum": "float32", "count": 256 * chunks}], addresses=addresses, elements=256)
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == 0 and answer["first"] == answer["last"] == RANKS * (RANKS + 1) / 2, answer
        shown = shares_of(site, name)
        if root:
            subnet = root[:-1]
            assert [(s["address"], s["rack"]) for s in shown] == [(root, None), (f"{subnet}17", "A"), (f"{subnet}34", "B")], shown
        else:
            assert [s["address"] for s in shown] == [four, f"{site.net.subnet}17", f"{site.net.subnet}34"], shown
        assert [all_counters(site, leaf, "v_up") for leaf in LEAVES] == [chunks if root else 0] * len(LEAVES)
        for rank in ranks:
            rank.end()
        site.empty()
    site.manager.terminate()
    assert "group both: no tree: its ranks have addresses of both families; " in site.manager.communicate(timeout=60)[0]


@pytest.mark.alone
def test_rank_killed(site):
    """The ranks of both racks name a dead rank within a second."""
    def kill():
        ranks = begin(site, "g")
        ranks[3].kill()
        took = errors(ranks[:3] + ranks[4:], -errno.ECONNRESET, "rank 3 is gone: its process ended")
        for rank in ranks:
            rank.end()
        wait_until("the end of the group", lambda: not site.net.json("group", "list"), 15)
        return took

    once_within(1, kill)


@pytest.mark.alone
def test_leaf_killed(site):
    """All ranks name the dead leaf of a rack within a second. The next group has no tree until the rack has an aggregator again."""
    ranks = begin(site, "g")
    site.agents[0].send_signal(signal.SIGKILL)
    assert errors(ranks, -EHOSTDOWN, f"aggregator {site.net.subnet}17 is gone: its process ended") < 1
    for rank in ranks:
        rank.end()
    ranks = start(site, "h", lambda r: [{"sum": "float32", "count": 10000}])
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == RANKS * (RANKS + 1) / 2, answer
    assert [s["rack"] for s in shares_of(site, "h")] == [None, "B"]
    for rank in ranks:
        rank.end()
    site.agent(site.net.leaf_a, "a")
    begin(site, "i")
    assert [s["rack"] for s in shares_of(site, "i")] == [None, "A", "B"]


@pytest.mark.alone
def test_root_killed(site):
    """All ranks name a dead root outside of the racks within a second."""
    site.net.other.run(FPISA, "load", "eth0", "--pin", f"{PINS}/other")
    root = site.agent(site.net.other, "other", "--rate", "100G")
    try:
        ranks = begin(site, "g")
        root.send_signal(signal.SIGKILL)
        assert errors(ranks, -EHOSTDOWN, f"aggregator {site.net.subnet}2 is gone: its process ended") < 1
        for rank in ranks:
            rank.end()
        begin(site, "h")
        assert shares_of(site, "h")[0]["address"] == f"{site.net.subnet}1"
    finally:
        site.net.other.run(FPISA, "unload", "--pin", f"{PINS}/other")


@pytest.mark.alone
@pytest.mark.families()
def test_one_of_two_roots_killed(site):
    """All ranks name a dead root within a second. The next group has the other root, and the manager says so. Later groups have two again."""
    with two_roots(site) as agent:
        ranks = begin(site, "g")
        agent.send_signal(signal.SIGKILL)
        assert errors(ranks, -EHOSTDOWN, f"aggregator {site.net.subnet}2 is gone: its process ended") < 1
        for rank in ranks:
            rank.end()
        ranks = begin(site, "h")
        assert [s["rack"] for s in shares_of(site, "h")] == [None, "A", "B"]
        assert site.said().startswith(f"group g: aggregator {site.net.subnet}2 is gone")
        assert site.said().startswith("group h: its tree has 1 of 2 roots; run fpisa serve --manager on more hosts")
        for rank in ranks:
            rank.end()
        site.empty()
        site.agent(site.net.other, "other")
        begin(site, "i")
        assert [s["rack"] for s in shares_of(site, "i")] == [None, None, "A", "B"]


@pytest.mark.alone
def test_killed_with_two_roots(site):
    """The ranks name a dead rank, and a dead leaf of two roots, within a second. A leaf has a job for each root. If one of them is deleted there,
    the group ends."""
    leaf, pin = site.net.leaf_a, ("--pin", f"{PINS}/a")
    with two_roots(site):
        ranks = begin(site, "g")
        ranks[3].kill()
        assert errors(ranks[:3] + ranks[4:], -errno.ECONNRESET, "rank 3 is gone: its process ended") < 1
        for rank in ranks:
            rank.end()
        ranks = begin(site, "h")
        _, second = [j["job"] for j in json.loads(leaf.run(FPISA, "job", "list", "--json", *pin))]
        leaf.run(FPISA, "job", "del", second, *pin)
        errors(ranks, -EHOSTDOWN, f"aggregator {site.net.subnet}17 is gone: the group was ended at the aggregator")
        for rank in ranks:
            rank.end()
        ranks = begin(site, "i")
        site.agents[0].send_signal(signal.SIGKILL)
        assert errors(ranks, -EHOSTDOWN, f"aggregator {site.net.subnet}17 is gone: its process ended") < 1
