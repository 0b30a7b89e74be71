# SPDX-License-Identifier: GPL-2.0-only
"""Test firewalls and address translation between ranks and aggregator, and the networks that Docker and podman set up. Each test shows that
sums work, or which error a rank gets. The rules are for nftables, and containers are network namespaces. doc/deploy.md, section 2, has a
table of them."""
import json
import shutil
import sys

import pytest

from lab import HERE, LIBRARY, PIN, WORKER, read_all
from routers import reach, router

pytestmark = [pytest.mark.families(), pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")]
CHAIN = "add table inet f; add chain inet f c {{ type filter hook {hook} priority 0; policy {policy}; }}; "
DROP_PORT = "add rule inet f c udp {end} 18000 drop"
STATEFUL = CHAIN.format(hook="input", policy="drop") + "add rule inet f c ct state established accept; " \
    "add rule inet f c icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept"
CHUNKS = 20
STEP = {"count": 256 * CHUNKS, "kind": "integers"}
NO_CAPABILITY = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def loaded(lab, *options, workers=2):
    net = lab(workers=workers)
    net.load()
    net.add_job(1, *options)
    return net


def error(net, rank=0, **options):
    """Let a rank join, which fails. Return its error."""
    answers, status, _ = read_all(net.start(rank, 1, timeout_ms=700, **options))
    assert status == 1 and answers[-1]["rc"], answers
    return answers[-1]["error"]


# -- firewalls -----------------------------------------------------------------


def test_at_the_aggregator(lab):
    """XDP takes the frames before the firewall and before conntrack."""
    net = loaded(lab)
    net.agg.run("nft", CHAIN.format(hook="input", policy="accept") + DROP_PORT.format(end="dport"))
    net.check_sum(1, STEP["count"])


@pytest.mark.parametrize("fanout", ["unicast", "multicast"])
def test_stateful_at_the_worker(lab, fanout):
    """A rule that accepts only answers passes unicast results. It drops multicast results, so each result has to be requested."""
    net = loaded(lab, "--fanout", fanout)
    for w in net.worker:
        w.run("nft", STATEFUL)
    answers = net.check_sum(1, STEP["count"])
    requested = net.counters(1, PIN)["v_resent"] - sum(a["duplicates"] for a in answers)
    assert requested >= CHUNKS if fanout == "multicast" else requested < 5


def test_answers_dropped_at_the_worker(lab):
    net = loaded(lab)
    net.worker[0].run("nft", CHAIN.format(hook="input", policy="accept") + DROP_PORT.format(end="sport"))
    assert "no answer in 700 ms; on the aggregator, fpisa stats shows drops" in error(net) and "firewalls" in error(net)
    c = net.counters(1, PIN)
    assert c["v_challenge"] > 0 and c["v_welcome"] == 0


def test_requests_dropped_at_the_worker(lab):
    net = loaded(lab)
    net.worker[0].run("nft", CHAIN.format(hook="output", policy="accept") + DROP_PORT.format(end="dport"))
    assert "(last send: Operation not permitted)" in error(net)
    assert net.counters(1, PIN)["packets"] == 0


# -- routers with address translation --------------------------------------------


class Node:
    """A host with containers, as Docker and podman connect them: the bridge docker0, a veth pair for each container, and rules that
    translate the source address of outgoing packets. `masquerade` has the options of that rule."""

    def __init__(self, net, host, containers, masquerade=""):
        self.net, self.host = net, router(host)
        self.prefix = "2001:db8:17::" if net.ipv6 else "172.17.0."
        self.bits = 64 if net.ipv6 else 16
        host.ip("link add docker0 type bridge mcast_snooping 0 forward_delay 0",
                f"addr add {self.prefix}1/{self.bits} dev docker0", "link set docker0 up")
        self.container = [self.join(net.netns(), n) for n in range(containers)]
        family = "ip6" if net.ipv6 else "ip"
        host.run("nft", f"add table {family} nat; add chain {family} nat post {{ type nat hook postrouting priority srcnat; }}; "
                 f"add rule {family} nat post {family} saddr {self.prefix}0/{self.bits} oifname != docker0 masquerade {masquerade}; "
                 f"add table {family} filter; add chain {family} filter forward {{ type filter hook forward priority 0; policy drop; }}; "
                 f"add rule {family} filter forward ct state established,related accept; "
                 f"add rule {family} filter forward iifname docker0 accept")

    def join(self, ns, n, dev="eth0"):
        """Connect the namespace of container `n` to the bridge."""
        self.host.ip(f"link add v{n} type veth peer name {dev} netns {ns.path}", f"link set v{n} master docker0", f"link set v{n} up")
        ns.ip(f"addr add {self.prefix}{n + 2}/{self.bits} dev {dev}", f"link set {dev} up")
        reach(self.net, ns, "default", f"{self.prefix}1")
        self.host.gro_on(f"v{n}")
        ns.gro_on(dev)
        return ns


@pytest.fixture
def contained(lab):
    """Yield contained(masquerade=""), which creates a lab whose ranks 1 and 2 are in containers of one host, and rank 0 is a host."""
    def make(masquerade=""):
        net = lab(workers=2)
        net.load()
        node = Node(net, net.worker[1], 2, masquerade)
        net.worker[1:] = node.container
        return net
    return make


def add_translated(net):
    """Create the job with the addresses and ports that the aggregator sees."""
    host = f"[{net.addresses[1]}]" if net.ipv6 else net.addresses[1]
    net.add_job(1, workers=[net.addresses[0], f"{host}:18000", f"{host}:18001"])


def start_contained(net, *steps):
    """Start rank 0, and ranks 1 and 2 in their containers, without any capability."""
    plan = [json.dumps({"options": {"local_port": port, "timeout_ms": 20000}, "steps": steps}) for port in (18000, 18000, 18001)]
    return [ns.spawn(*NO_CAPABILITY * bool(r), sys.executable, "-B", "-c", UNPRIVILEGED, HERE, WORKER, LIBRARY, net.address, 1, plan[r])
            for r, ns in enumerate(net.worker)]


# The program cannot become another user without a capability, so it stays root without privileges.
UNPRIVILEGED = """
import sys
sys.path.insert(0, sys.argv[1])
import worker
worker.become_nobody = lambda: None
sys.argv[:2] = []
sys.exit(worker.main())
"""


def test_translated_ranks(contained):
    """Ranks behind a translated address sum if the job lists the translated address and ports. Results are unicast."""
    net = contained()
    add_translated(net)
    assert net.json("job", "show", 1)["fanout"] == "unicast"
    net.check_answers(start_contained(net, STEP), 3, STEP["count"])
    c = net.counters(1, PIN)
    assert c["v_result"] == CHUNKS and c["v_unknown_peer"] == 0


def test_a_translation_that_expires(contained):
    """If conntrack forgets a rank that pauses, the rank's next contribution recreates the translation."""
    net = contained()
    for name in "nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream":
        net.spaces[2].sysctl(name, 1, family="netfilter")
    add_translated(net)
    net.check_answers(start_contained(net, STEP, {"sleep": 3}, STEP), 3, STEP["count"])


@pytest.mark.parametrize("masquerade, listed", [("", "own"), ("random", "translated")])
def test_unknown_translation(contained, masquerade, listed):
    """If the aggregator sees another address or port than the job lists, it counts the HELLOs, and the error says what to check."""
    net = contained(masquerade)
    if listed == "own":
        own = "2001:db8:17::2" if net.ipv6 else "172.17.0.2"
        net.add_job(1, "--fanout", "unicast", workers=[f"{net.addresses[0]}@p0", f"{own}@p1"])
    else:
        add_translated(net)
    said = error(net, 1)
    assert "the job lists this host's address with UDP port 18000" in said and "on the aggregator, fpisa stats shows drops" in said
    assert net.counters(1, PIN)["v_unknown_peer"] > 0


def test_published_aggregator(lab):
    """An aggregator in a container, whose port the host publishes, serves ranks that know only the host's address."""
    net = lab(workers=0)
    host = net.netns()
    node = Node(net, host, 0)
    node.join(net.agg, 0, dev="p9")
    inside, public = f"{node.prefix}2", net.host(0xff, 1)
    family, target = ("ip6", f"[{inside}]") if net.ipv6 else ("ip", inside)
    host.ip(f"addr add {public}/{128 if net.ipv6 else 32} dev lo")
    host.run("nft", f"add chain {family} nat pre {{ type nat hook prerouting priority dstnat; }}; "
             f"add rule {family} nat pre {family} daddr {public} udp dport 18000 dnat to {target}:18000; "
             f"insert rule {family} filter forward oifname docker0 udp dport 18000 accept")
    for r in range(2):
        w = net.netns()
        host.ip(f"link add w{r} type veth peer name eth0 netns {w.path}", f"addr add {net.network(0x40 + r, 1)} dev w{r}", f"link set w{r} up")
        w.ip(f"addr add {net.network(0x40 + r, 2)} dev eth0", "link set eth0 up")
        reach(net, w, public, net.host(0x40 + r, 1))
        net.worker.append(w)
    net.ports, net.address = ["p9"], inside
    net.load()
    net.add_job(1, workers=[net.host(0x40 + r, 2) for r in range(2)])
    net.check_sum(1, STEP["count"], address=public)
    assert net.counters(1, PIN)["v_result"] == CHUNKS


def test_dropped_on_the_way(lab):
    """If a router drops all frames to the port, a rank gets the same error as for a host that does not exist."""
    net = lab(workers=2)
    net.load()
    node = Node(net, net.worker[1], 1)
    node.host.run("nft", CHAIN.format(hook="forward", policy="accept") + DROP_PORT.format(end="dport"))
    net.add_job(1)
    net.worker[1] = node.container[0]
    assert "firewalls" in error(net, 1) and net.counters(1, PIN)["packets"] == 0
