# SPDX-License-Identifier: GPL-2.0-only
"""Four hosts and no other machine: each runs `fpisa serve` with the same file, and has a rank of each group"""
import json
import os

import pytest
from aggregators import Switched, check_shares, pins
from doctor import bad, examine
from groups import MEMBER, Rank
from lab import FPISA, LIBRARY, PIN, end, wait_until

HOSTS, COUNT = 4, 400 * 256
PINS = f"/run/colocated-{os.getpid()}"
FIRST = "10.98.0.11"
SUM = {"sum": "float32", "count": COUNT}


class Hosts(Switched):
    """Hosts from 10.98.0.11 on; the first is the manager"""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.ranks = folder, []
        self.worker = [self.host(f"10.98.0.{i + 11}", f"w{i}") for i in range(HOSTS)]
        self.agg, self.agents = self.worker[0], [None] * HOSTS
        self.key, self.config = os.path.join(folder, "keys"), os.path.join(folder, "fpisa.conf")
        self.fpisa("key", "new", "train", self.key)
        with open(self.config, "w") as f:
            f.write(f"[manager]\nkey-file = {self.key}\naggregator-keys = train\nmanager = {FIRST}\ncolocated = eth0\n")
        for host in self.worker:
            host.ip("link set lo up")

    def pin(self, i):
        return f"{PINS}/{i}" if i else PIN

    def serve(self, i):
        """Start fpisa serve on host i; return its first line of output."""
        self.agents[i] = self.worker[i].spawn(FPISA, "serve", "--pin", self.pin(i), self.config)
        return self.agents[i].stdout.readline()

    def refused(self, i, *options):
        status, _, err = self.worker[i].try_run(FPISA, "serve", "--pin", self.pin(i), *options, self.config)
        assert status == 1
        return err

    def start(self, *steps):
        """Start a rank of one group on each host."""
        plan = json.dumps({"options": {"key_file": self.key, "join_timeout_ms": 20000}, "steps": steps, "hold": True})
        ranks = [Rank(w.spawn("/usr/bin/python3", "-B", MEMBER, LIBRARY, FIRST, "g", r, HOSTS, plan)) for r, w in enumerate(self.worker)]
        self.ranks += ranks
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == 0, answer
        return ranks

    def chunks(self):
        return [sum(self.counters(job, self.pin(i)).get("v_result", 0) for job in range(2)) for i in range(HOSTS)]

    def registered(self):
        return {a["address"] for a in self.json("status")["manager"]["aggregators"] if not a["gone"]}

    def close(self):
        for rank in self.ranks:
            rank.end()
        for i, agent in enumerate(self.agents):
            if agent:
                end(agent)
                self.worker[i].run(FPISA, "unload", "--pin", self.pin(i))
        super().close()


@pytest.fixture
def hosts(bpffs, tmp_path):
    with pins(PINS):
        net = Hosts(str(tmp_path))
        try:
            yield net
        finally:
            net.close()


def test_four_hosts(hosts):
    """All hosts have one file, which names the manager. Each adds a quarter of each call."""
    for i in range(HOSTS):
        assert hosts.serve(i) == f"loaded on eth0 and lo in generic mode; fpisa unload --pin {hosts.pin(i)} takes it off\n"
        said = hosts.agents[i].stdout.readline()
        assert said.startswith("serving groups" if not i else f"aggregator 10.98.0.{i + 11}:"), said
    assert len(hosts.registered()) == HOSTS - 1
    ranks = hosts.start(SUM, SUM, SUM)
    for rank in ranks:
        answers = [rank.line() for _ in range(3)]
        assert all(a["rc"] == 0 and a["first"] == 10 for a in answers), answers
    chunks = hosts.chunks()
    check_shares(chunks, [1] * HOSTS, 3 * COUNT)
    resent = [sum(hosts.counters(job, hosts.pin(i)).get("v_resent", 0) for job in range(2)) for i in range(HOSTS)]
    assert sum(resent) < sum(chunks) / 10, resent
    for rank in ranks:
        rank.end()
    # The next start finds the loaded datapath.
    wait_until("the end of the group", lambda: not hosts.json("group", "list"), 10)
    end(hosts.agents[3])
    assert hosts.serve(3).startswith("aggregator 10.98.0.14:")
    for i in (0, 3):
        found = examine(hosts.worker[i], "--config", hosts.config, "--pin", hosts.pin(i))
        assert not [f for (subject, _), f in bad(found).items() if subject == "manager"], found


def test_port_of_the_manager(hosts):
    """The file names it with its host: there it listens, and there the others find it. A `port` beside it is the same, or refused."""
    with open(hosts.config) as f:
        text = f.read()
    with open(hosts.config, "w") as f:
        f.write(text.replace(FIRST, FIRST + ":19000") + "port = 18500\n")
    assert f"look for the manager at port 19000; write manager = {FIRST}:18500" in hosts.refused(0)
    with open(hosts.config, "w") as f:
        f.write(text.replace(FIRST, FIRST + ":19000"))
    for i in range(2):
        assert hosts.serve(i).startswith("loaded on eth0")
        said = hosts.agents[i].stdout.readline()
        assert said.startswith("aggregator 10.98.0.12:18000 of" if i else "serving groups at 0.0.0.0:19000;"), said
    found = examine(hosts.worker[0], "--config", hosts.config, "--pin", hosts.pin(0))
    assert found["manager", "port"]["text"] == "listens at TCP 0.0.0.0:19000"


def test_what_is_missing(hosts):
    """Each missing part is reported with its remedy, nothing is left loaded, and the remedy suffices."""
    assert "eth7: no such interface; ip -br link lists them (colocated)" in hosts.refused(0, "--colocated", "eth7")
    hosts.agg.ip("link set lo down")
    assert "lo: is down; ip link set lo up, by which this host's ranks send" in hosts.refused(0)
    hosts.agg.ip("link set lo up")
    hosts.fpisa("load", "eth0")
    assert "eth0: the datapath is in native mode, which cannot send to this host's own ranks by lo; fpisa unload eth0" in hosts.refused(0)
    hosts.fpisa("unload", "eth0")
    hosts.fpisa("load", "eth0", "--mode", "skb")
    assert hosts.serve(0) == f"loaded on lo in generic mode; fpisa unload --pin {PIN} takes it off\n"
