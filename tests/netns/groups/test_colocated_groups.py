# SPDX-License-Identifier: GPL-2.0-only
"""Four hosts work without another machine. Each host runs `fpisa serve` with the same file, and has a rank of each group."""
import errno
import json
import os
import re
import signal

import pytest
from aggregators import Switched, check_shares, pins
from doctor import bad, examine
from groups import MEMBER, Rank
from lab import FPISA, LIBRARY, PIN, TOP, end, endpoint, wait_until

HOSTS, COUNT = 4, 400 * 256
PINS = f"/run/colocated-{os.getpid()}"
pytestmark = pytest.mark.families(spread=True)
SUM = {"sum": "float32", "count": COUNT}


class Hosts(Switched):
    """Hosts from 10.98.0.11 on. The first host is the manager. Over IPv6 2001:db8:98:: stands for 10.98.0."""

    def __init__(self, folder, ipv6=False):
        super().__init__()
        self.ipv6 = ipv6
        self.subnet, self.bits = ("2001:db8:98::", 64) if ipv6 else ("10.98.0.", 24)
        self.address = f"{self.subnet}11"
        self.folder, self.ranks = folder, []
        self.worker = [self.host(f"{self.subnet}{i + 11}", f"w{i}") for i in range(HOSTS)]
        self.agg, self.agents = self.worker[0], [None] * HOSTS
        self.key, self.config = os.path.join(folder, "keys"), os.path.join(folder, "fpisa.conf")
        self.fpisa("key", "new", "train", self.key)
        with open(self.config, "w") as f:
            f.write(f"[manager]\nkey-file = {self.key}\naggregator-keys = train\nmanager = {self.address}\ncolocated = eth0\n")
        for host in self.worker:
            host.ip("link set lo up")

    def place(self, i):
        """Return the address of host i as it stands before a port."""
        address = f"{self.subnet}{i + 11}"
        return f"[{address}]" if ":" in address else address

    def pin(self, i):
        return f"{PINS}/{i}" if i else PIN

    def serve(self, i, *before):
        """Start fpisa serve on host i through the command `before`. Return its first line of output."""
        self.agents[i] = self.worker[i].spawn(*before, FPISA, "serve", "--pin", self.pin(i), self.config)
        return self.agents[i].stdout.readline()

    def refused(self, i, *options):
        status, _, err = self.worker[i].try_run(FPISA, "serve", "--pin", self.pin(i), *options, self.config)
        assert status == 1
        return err

    def start(self, *steps):
        """Start a rank of one group on each host."""
        plan = json.dumps({"options": {"key_file": self.key, "join_timeout_ms": 20000}, "steps": steps, "hold": True})
        ranks = [Rank(w.spawn("/usr/bin/python3", "-B", MEMBER, LIBRARY, self.address, "g", r, HOSTS, plan)) for r, w in enumerate(self.worker)]
        self.ranks += ranks
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == 0, answer
        return ranks

    def chunks(self):
        return [sum(self.counters(job, self.pin(i)).get("v_result", 0) for job in range(2)) for i in range(HOSTS)]

    def traffic(self):
        """Return the bytes that each host has received, and has sent, through eth0."""
        links = [json.loads(w.run("ip", "-j", "-s", "link", "show", "eth0"))[0]["stats64"] for w in self.worker]
        return [link[way]["bytes"] for link in links for way in ("rx", "tx")]

    def registered(self):
        return {a["address"] for a in self.json("status")["manager"]["aggregators"] if not a["gone"]}

    def lo(self):
        """Return the first host's settings of lo that jobs change."""
        names = ["ipv6/conf/lo/forwarding"] if self.ipv6 else ["ipv4/conf/lo/forwarding", "ipv4/conf/lo/accept_local"]
        return set(self.agg.run("cat", *(f"/proc/sys/net/{name}" for name in names)).split())

    def close(self):
        for rank in self.ranks:
            rank.end()
        for i, agent in enumerate(self.agents):
            if agent:
                end(agent)
                self.worker[i].run(FPISA, "unload", "--pin", self.pin(i))
        super().close()


@pytest.fixture
def hosts(bpffs, tmp_path, family):
    with pins(PINS):
        net = Hosts(str(tmp_path), ipv6=family == "ipv6")
        try:
            yield net
        finally:
            net.close()


@pytest.mark.families()
def test_four_hosts(hosts):
    """All hosts have the same configuration file, which names the manager. Each host adds a quarter of each call."""
    for i in range(HOSTS):
        assert hosts.serve(i) == f"loaded on eth0 and lo in generic mode; fpisa unload --pin {hosts.pin(i)} removes it\n"
        said = hosts.agents[i].stdout.readline()
        assert said.startswith(f"aggregator {hosts.place(i)}:" if i else "serving groups"), said
    assert len(hosts.registered()) == HOSTS - 1
    ranks = hosts.start(SUM, SUM, SUM)
    for rank in ranks:
        answers = [rank.line() for _ in range(3)]
        assert all(a["rc"] == 0 and a["first"] == 10 for a in answers), answers
    chunks = hosts.chunks()
    check_shares(chunks, [1] * HOSTS, 3 * COUNT)
    resent = [sum(hosts.counters(job, hosts.pin(i)).get("v_resent", 0) for job in range(2)) for i in range(HOSTS)]
    assert sum(resent) < sum(chunks) / 2, resent  # a rank that misses all results asks for each
    for rank in ranks:
        rank.end()
    # After a restart, `fpisa serve` uses the datapath that is already loaded.
    wait_until("the end of the group", lambda: not hosts.json("group", "list"))
    end(hosts.agents[3])
    assert hosts.serve(3).startswith(f"aggregator {hosts.place(3)}:")
    for i in (0, 3):
        found = examine(hosts.worker[i], "--config", hosts.config, "--pin", hosts.pin(i))
        assert not [f for (subject, _), f in bad(found).items() if subject == "manager"], found


LONG = 4 * COUNT  # values of a long reduce-scatter
HEADERS = 14 + 20 + 8 + 76  # bytes of a frame before its payload, over IPv4


def serve_all(hosts, but=()):
    """Start fpisa serve on all hosts except those in `but`."""
    for i in range(HOSTS):
        if i not in but:
            assert hosts.serve(i).startswith("loaded on eth0 and lo")
    wait_until("all aggregators", lambda: len(hosts.registered()) == HOSTS - 1 - len(but))


def measure(hosts, times):
    """Make reduce-scatters one by one. Return the bytes that each host received and sent in each, in which no value was wrong."""
    ranks = hosts.start({"sum": "float32"}, *(s for i in range(times) for s in ({"until": f"{hosts.folder}/{i}"}, {"parts": LONG})))
    assert [rank.line()["rc"] for rank in ranks] == [0] * HOSTS
    measured = []
    for i in range(times):
        before = hosts.traffic()
        open(f"{hosts.folder}/{i}", "w").close()
        answers = [rank.line() for rank in ranks]
        assert all(a["rc"] == 0 and a["wrong"] == 0 for a in answers), answers
        measured.append([b - a for a, b in zip(before, hosts.traffic())])
    return measured


def test_reduce_scatter(hosts):
    """The aggregator on a rank's host adds the rank's part, so no result crosses a link. In each direction, a link carries the contributions
    of a ring, (N-1)/N of the vector, and headers. A frame that is sent again counts too, so the best of three calls counts."""
    serve_all(hosts)
    headers, chunks = HEADERS + 20 * hosts.ipv6, LONG / 256
    own = (HOSTS - 1) / HOSTS
    ring = own * (4 * LONG + 2 * headers * chunks)  # a header for each contribution, and for each result without payload
    measured = measure(hosts, 3)
    for call in measured:
        print("a host received or sent", ", ".join(f"{x / (4 * LONG):.3f}" for x in call), f"of the vector; {ring / 4 / LONG:.3f} expected")
    assert min(max(call) for call in measured) < 1.02 * ring + 20000, (measured, ring)


def test_reduce_scatter_without_an_aggregator(hosts):
    """A rank without an aggregator on its host gets its part from the other hosts, and the other ranks' parts do not cross a link."""
    serve_all(hosts, but=(3,))
    headers, chunks, share = HEADERS + 20 * hosts.ipv6, LONG / 256, LONG / 3
    measured = measure(hosts, 3)
    came = [min(call[2 * i] for call in measured) for i in range(HOSTS)]
    print("the hosts received", ", ".join(f"{x / (4 * LONG):.3f}" for x in came), "of the vector")
    for x in came[:3]:
        assert x < 1.02 * (4 * 3 * share + headers * (3 * share / 256 + chunks)) + 20000, (came, measured)
    assert came[3] < 1.02 * (4 * LONG / HOSTS + headers * chunks) + 20000, (came, measured)


def test_lossy_reduce_scatter(hosts):
    """Results with and without payload are lost, and arrive later."""
    serve_all(hosts)
    for host in hosts.worker:
        host.run("nft", "add table inet loss; add chain inet loss input { type filter hook input priority 0; }; "
                 "add rule inet loss input udp sport 18000 numgen random mod 100 < 5 drop")
    for rank in hosts.start({"parts": LONG, "times": 3}):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["wrong"] == 0 and answer["calls"] == 3, answer
    assert sum(hosts.counters(job, hosts.pin(i)).get("v_resent", 0) for i in range(HOSTS) for job in range(2)) > 20


def test_dead_rank_of_a_reduce_scatter(hosts):
    """When a rank dies, the reduce-scatters of the others end with an error that names it."""
    serve_all(hosts)
    ranks = hosts.start({"parts": LONG, "times": 10**6})
    wait_until("some results", lambda: sum(hosts.chunks()) > 100)
    ranks[2].kill(signal.SIGKILL)
    for rank in ranks[:2] + ranks[3:]:
        answer = rank.line()
        assert answer["rc"] == -errno.ECONNRESET and "rank 2" in answer["error"], answer


def test_unit(hosts):
    """After a boot the manager's unit is sufficient. With the unit's capabilities, `fpisa serve` loads the datapath once the interface is
    up, and uses it after a restart. A stop with `fpisa unload` restores the settings of lo."""
    with open(os.path.join(TOP, "user", "system", "fpisa-manager.service.in")) as f:
        unit = dict(re.findall(r"^(\w+)=(.*)", f.read(), re.M))
    assert "network-online.target" in unit["After"].split() and unit["Restart"] == "on-failure" and unit["StartLimitIntervalSec"] == "0"
    caps = [c.lower().removeprefix("cap_") for c in unit["CapabilityBoundingSet"].split()]
    confined = "setpriv", "--no-new-privs", "--bounding-set=-all," + ",".join("+" + c for c in caps)
    before = hosts.lo()
    hosts.agg.sysctl("conf/eth0/keep_addr_on_down", 1, family="ipv6")
    hosts.agg.ip("link set eth0 down")
    assert "eth0 is down; run ip link set eth0 up" in hosts.refused(0)
    hosts.agg.ip("link set eth0 up")
    for i in range(HOSTS):
        assert hosts.serve(i, *confined).startswith("loaded on eth0 and lo")
    wait_until("all aggregators", lambda: len(hosts.registered()) == HOSTS - 1)
    for rank in hosts.start(SUM):
        assert rank.line()["first"] == 10
        rank.end()
    assert hosts.lo() == {"1"}
    end(hosts.agents[0])
    assert hosts.serve(0, *confined).startswith("serving groups")
    end(hosts.agents[0])
    hosts.agg.run(FPISA, "unload")
    assert hosts.lo() == before == {"0"}
    assert hosts.serve(0, *confined).startswith("loaded on eth0 and lo")


def test_late_address_of_the_manager(hosts):
    """If the first host gets its address after the start, `fpisa serve` ends with an error, so that its unit starts it again as the manager. If
    the manager's host loses its address, doctor does not take the record of another host for its own."""
    first, other = (f"{hosts.subnet}{n}/{hosts.bits} dev eth0" for n in (11, 99))
    hosts.agg.ip(f"addr del {first}", f"addr add {other}")
    assert hosts.serve(0).startswith("loaded on eth0 and lo")
    assert "keeps trying" in hosts.agents[0].stderr.readline()
    hosts.agg.ip(f"addr add {first}")
    err = hosts.agents[0].communicate(timeout=20)[1]
    assert f"manager {hosts.address}: this address now belongs to this host, so this host is the manager; start fpisa serve again" in err
    assert hosts.agents[0].returncode == 1
    assert hosts.serve(0).startswith("serving groups")
    hosts.serve(1)
    wait_until("the aggregator", lambda: hosts.registered() == {f"{hosts.subnet}12"})
    hosts.agg.ip(f"addr del {first}")
    found = examine(hosts.agg, "--config", hosts.config)["manager", "registered"]
    assert found["level"] == "fault" and "is not registered" in found["text"], found


def test_port_of_the_manager(hosts):
    """The manager listens at the port in `manager`, and the other hosts connect to this port. A different `port` is refused."""
    with open(hosts.config) as f:
        text = f.read()
    with open(hosts.config, "w") as f:
        f.write(text.replace(hosts.address, endpoint(hosts.address, 19000)) + "port = 18500\n")
    assert f"look for the manager at port 19000; write manager = {endpoint(hosts.address, 18500)}" in hosts.refused(0)
    with open(hosts.config, "w") as f:
        f.write(text.replace(hosts.address, endpoint(hosts.address, 19000)))
    for i in range(2):
        assert hosts.serve(i).startswith("loaded on eth0")
        said = hosts.agents[i].stdout.readline()
        assert said.startswith(f"aggregator {hosts.place(1)}:18000 of" if i else "serving groups at *:19000;"), said
    found = examine(hosts.worker[0], "--config", hosts.config, "--pin", hosts.pin(0))
    assert found["manager", "port"]["text"] == "the manager listens at TCP *:19000"


@pytest.mark.families("ipv4", why="the configuration is refused before an address is used")
def test_what_is_missing(hosts):
    """Each missing part is reported with its remedy, nothing stays loaded, and the remedy is sufficient."""
    assert "eth7: no such interface; set colocated to an interface of this host (ip -br link)" in hosts.refused(0, "--colocated", "eth7")
    with open(hosts.config) as f:
        text = f.read()
    used = hosts.agg.spawn("/usr/bin/python3", "-c", "import socket, time; s = socket.create_server(('0.0.0.0', 18000)); print(1, flush=True); time.sleep(99)")
    assert used.stdout.readline() == "1\n"
    for manager, line, says in ((hosts.address, "user = nosuchuser", "user 'nosuchuser' does not exist"), (hosts.address, "key-file = /none", "/none: No such file"),
                                (hosts.address, "listen = 10.1.2.3", "10.1.2.3"), (hosts.address, "listen = 0.0.0.0", "ddress already in use"),
                                ("10.98.0.99", "address = 10.1.2.3", "10.1.2.3 is not an address of this host"),
                                ("10.98.0.99", "user = nosuchuser", "user 'nosuchuser' does not exist"),
                                ("10.98.0.99", "key-file = /none", "/none: No such file")):
        with open(hosts.config, "w") as f:
            f.write("".join(t + "\n" for t in text.replace(hosts.address, manager).splitlines() if t.split()[0] != line.split()[0]) + line + "\n")
        status, out, err = hosts.agg.try_run(FPISA, "serve", "--pin", hosts.pin(0), hosts.config)
        assert status == 1 and says in err and ("loaded on" in out) == ("taken off eth0 and lo again" in out) == ("listen" in line), (line, out, err)
        assert "xdp" not in hosts.agg.run("ip", "link") and not os.path.exists(hosts.pin(0)), line
    end(used)
    with open(hosts.config, "w") as f:
        f.write(text)
    hosts.agg.ip("link set lo down")
    assert "lo is down; run ip link set lo up, through which this host's ranks send" in hosts.refused(0)
    hosts.agg.ip("link set lo up")
    hosts.fpisa("load", "eth0")
    assert "eth0: the datapath is in native mode, which cannot send to this host's own ranks through lo; run ip link set dev eth0 xdpdrv off, and start" in hosts.refused(0)
    hosts.agg.ip("link set dev eth0 xdpdrv off")
    hosts.fpisa("load", "eth0", "--mode", "skb")
    assert hosts.serve(0) == f"loaded on lo in generic mode; fpisa unload --pin {PIN} removes it\n"
