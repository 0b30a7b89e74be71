# SPDX-License-Identifier: GPL-2.0-only
"""Run groups over several aggregators for a long time, while aggregators are killed and started again, and ranks on aggregators' hosts are
killed. No result is wrong, no rank hangs, and each death is named."""
import collections
import json
import random
import re
import select
import signal
import time

import pytest

from groups import MEMBER, Rank
from lab import FPISA, LIBRARY, SLOW, draw_seed, end, wait_until
import test_leaves as leaves
import test_racks as racks
from test_colocated_groups import HOSTS, hosts  # noqa: F401
from test_leaves import site as tree  # noqa: F401
from test_racks import site as two_racks  # noqa: F401
from test_registration import OTHERS, WORKERS, site  # noqa: F401

HANG_S = 30 * SLOW
# These errors end a call or a join when an aggregator or a rank dies. All ranks then leave and join again.
ALLOWED = [r"aggregator (10\.98\.0\.|2001:db8:98::)\d+ is gone: (its process ended|its host does not answer|it was restarted)",
           r"aggregator (10\.98\.0\.|2001:db8:98::)\d+:",
           r"rank \d is gone: its process ended", r"rank \d has left the group", r"a group of this name exists", r"another process has joined as rank \d",
           r"rank \d did not join", r"ranks? [\d, -]+ did not join",
           r"rank \d(, rank \d)* (is|are) gone: the group was ended at the aggregator"]


def plan(key, steps, mode=0, **more):
    return json.dumps({"options": {"key_file": key, "join_timeout_ms": 20000, "mode": mode}, "steps": steps, "again": 10**6, **more})


class Watched:
    """Ranks whose answers are read as they arrive. The class counts errors by kind, and recomputed calls."""

    def __init__(self):
        self.ranks, self.heard, self.errors = [], [], collections.Counter()
        self.calls = self.wrong = 0
        self.joins = []

    def add(self, rank):
        self.ranks.append(rank)
        self.heard.append(time.monotonic())
        self.joins.append(0)

    def replace(self, r, rank):
        self.ranks[r].end()
        self.ranks[r], self.heard[r] = rank, time.monotonic()

    def take(self, r, answer):
        self.heard[r] = time.monotonic()
        self.calls += answer.get("calls", 0)
        self.wrong += answer.get("wrong", 0)
        self.joins[r] += "gnutls" in answer and not answer["rc"]
        if answer["rc"]:
            said = next((a for a in ALLOWED if re.search(a, answer["error"])), None)
            assert said, answer
            self.errors[said] += 1

    def listen(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            pipes = {rank.process.stdout.fileno(): r for r, rank in enumerate(self.ranks)}
            for fd in select.select(list(pipes), [], [], left)[0]:
                for answer in self.ranks[pipes[fd]].lines():
                    self.take(pipes[fd], answer)
            silent = [r for r, heard in enumerate(self.heard) if time.monotonic() > heard + HANG_S]
            assert not silent, (silent, self.errors)
        assert not self.wrong

    def until(self, what, condition):
        began = time.monotonic()
        while not condition():
            assert time.monotonic() < began + HANG_S, (what, self.errors)
            self.listen(0.02)


def shares(net):
    """Return the addresses of the aggregators in the group's generation, but not of an earlier one whose job is still being created."""
    return [a["address"] for g in net.json("group", "list") if g["name"] == "soak" and not g["left"] and not g["gone"] for a in g["shares"]]


def used(net):
    """Return the numbers of the other aggregators in the group's generation."""
    there = shares(net)
    return [i for i in range(OTHERS) if f"{net.subnet}{i + 2}" in there]


def next_generation(w, net, joins, aggregator=None):
    """Wait until all ranks have joined again since `joins`. If the aggregator that ended is not in the generation that makes sums now, its end
    was not noticed there: the record from which it was chosen was older than this generation."""
    def other():
        there = aggregator and shares(net)
        return there and aggregator not in there and w.calls > calls

    calls = w.calls
    w.until("the next generation", lambda: all(a > b for a, b in zip(w.joins, joins)) or other())


def report(**figures):
    print(json.dumps(figures))


@pytest.mark.parametrize("seconds, family", [(3, "ipv6"), pytest.param(600, "ipv4", marks=pytest.mark.long)], indirect=["family"])
def test_aggregators(site, seconds):  # noqa: F811
    """Two registered aggregators of three are killed, ended or cut off, and return. The group continues with the present aggregators."""
    rng = random.Random(draw_seed())
    for i in range(OTHERS):
        site.register(i)
    net, w, happened = site.net, Watched(), collections.Counter()
    steps = [{"check": kind, "times": 200, "seed": rng.randrange(3000)} for kind in ("float32", "float64", "int32", "float16")] * 500
    for r in range(WORKERS):
        rank = net.worker[r].spawn(*site.member, net.address, "soak", r, WORKERS, plan(site.key, steps), env=site.env)
        w.add(Rank(rank))
        site.ranks.append(w.ranks[-1])
    w.until("results of all aggregators", lambda: all(net.results()))
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        joins = list(w.joins)
        w.until("all have joined", lambda: all(w.joins))
        w.listen(rng.random() * 2)
        there = used(net)
        i, how = rng.choice(there) if there else 0, rng.choice(("killed", "killed", "ended", "cut off")) if there else "group kill"
        happened[how] += 1
        if how == "group kill":  # aggregators that came back are in the next generation
            net.fpisa("group", "kill", "soak")
        elif how == "cut off":
            net.switch.ip(f"link set a{i} down")
            w.listen(0.7 + rng.random())
            net.switch.ip(f"link set a{i} up")
        else:
            site.agents[i].send_signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
            site.agents[i].wait(20)
            end(site.agents[i])
            w.listen(rng.random() * 1.5)
            site.register(i)
        w.until("that all are back", lambda: len(net.registered()) == OTHERS)
        next_generation(w, net, joins, f"{net.subnet}{i + 2}" if there else None)
    w.listen(1)
    # The last generation has all aggregators that were present when it began. The next generation has all three.
    chunks = net.results()
    report(seconds=round(time.monotonic() - began), calls=w.calls, wrong=w.wrong, generations=min(w.joins), happened=happened, errors=w.errors, chunks=chunks)
    assert all(chunks) and w.calls > 100 * seconds
    for rank in w.ranks:
        rank.end()
    site.empty()
    wait_until("no jobs there", lambda: all(not net.at(i, "job", "list").strip().splitlines()[1:] for i in range(OTHERS)))


@pytest.mark.parametrize("seconds, family", [(0, "ipv4"), pytest.param(600, "ipv6", marks=pytest.mark.long)], indirect=["family"])
def test_ranks_of_aggregators(hosts, seconds):  # noqa: F811
    """Four hosts work without another machine. Each round kills one rank, in turn, in a call. Every second round also kills an aggregator,
    which is started again. All ranks join again."""
    rng = random.Random(draw_seed())
    for i in range(HOSTS):
        hosts.serve(i)
        hosts.agents[i].stdout.readline()
    steps = [{"check": kind, "times": 40, "seed": rng.randrange(3000)} for kind in ("float32", "float64")] * 1000
    w, killed, ended, n, began = Watched(), [0] * HOSTS, [0] * HOSTS, 0, time.monotonic()

    def start(r):
        return Rank(hosts.worker[r].spawn("/usr/bin/python3", "-B", MEMBER, LIBRARY, hosts.address, "g", r, HOSTS, plan(hosts.key, steps)))

    def restart(i):
        hosts.agents[i].send_signal(signal.SIGKILL)
        hosts.agents[i].wait(20)
        end(hosts.agents[i])
        ended[i] += 1
        assert hosts.serve(i).startswith("aggregator ")

    for r in range(HOSTS):
        w.add(start(r))
        hosts.ranks.append(w.ranks[-1])
    w.until("all have joined", lambda: all(w.joins))
    while n < HOSTS or time.monotonic() < began + seconds:
        calls, victim = w.calls, n % HOSTS
        w.until("sums", lambda before=calls: w.calls > before)
        w.listen(rng.random() / 10)
        joins = list(w.joins)
        w.ranks[victim].kill()
        killed[victim] += 1
        if n % 2:
            restart(rng.randrange(1, HOSTS))  # host 0 is the manager
        w.replace(victim, start(victim))
        hosts.ranks.append(w.ranks[victim])
        w.until("that all are back", lambda: len(hosts.registered()) == HOSTS - 1)
        next_generation(w, hosts, joins)
        n += 1
    w.until("sums", lambda before=w.calls: w.calls > before)
    report(seconds=round(time.monotonic() - began), rounds=n, killed=killed, ended=ended, calls=w.calls, wrong=w.wrong,
           generations=min(w.joins), errors=w.errors, chunks=hosts.chunks())
    assert min(w.joins) > n and min(killed) >= n // HOSTS and sum(ended) == n // 2


def kill_in_tree(site, module, seconds):  # noqa: F811
    """Kill ranks, leaves and a root of a group's tree. Each starts again. The group continues, with a tree if all are alive. Only
    aggregators in the group's generation are killed, because the death of another one does not end the generation."""
    rng, net, w, happened = random.Random(draw_seed()), site.net, Watched(), collections.Counter()
    steps = [{"check": kind, "times": 50, "seed": rng.randrange(3000)} for kind in ("float32", "float64", "int32", "float16")] * 500
    root = f"{net.subnet}2"
    places = {**net.leaves, root: (net.other, "other", "--rate", "100G")}
    net.other.run(FPISA, "load", "eth0", "--pin", f"{leaves.PINS}/other")
    agents = {**dict(zip(net.leaves, site.agents)), root: site.agent(*places[root])}

    def begin(r):
        argv = net.address, "soak", r, module.RANKS, plan(site.key, steps, leaves.MODE_EXACT)
        site.ranks.append(Rank(net.worker[module.host_of(r)].spawn(*site.member, *argv, env=site.env)))
        return site.ranks[-1]

    for r in range(module.RANKS):
        w.add(begin(r))
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        w.until("all have joined", lambda: all(w.joins))
        joins = list(w.joins)
        w.listen(rng.random() * 2)
        there = shares(net)
        victim = rng.choice(("rank", *(p for p in places if p in there)))
        happened[victim] += 1
        if victim == "rank":
            r = rng.randrange(module.RANKS)
            w.ranks[r].kill()
            w.replace(r, begin(r))
        else:
            agents[victim].kill()
            agents[victim].wait(20)
            end(agents[victim])
            w.listen(rng.random() * 1.5)
            agents[victim] = site.agent(*places[victim])
        next_generation(w, net, joins, None if victim == "rank" else victim)
    net.fpisa("group", "kill", "soak")  # the next generation has a tree
    w.until("partial sums", lambda: all(leaves.all_counters(site, pin, "v_up") for _, pin, *_ in net.leaves.values()))
    report(seconds=round(time.monotonic() - began), calls=w.calls, wrong=w.wrong, generations=min(w.joins), happened=happened, errors=w.errors)
    assert w.calls > 10 * seconds
    for rank in w.ranks:
        rank.end()
    site.empty()
    wait_until("no jobs there", lambda: all(not host.run(FPISA, "job", "list", "--pin", f"{leaves.PINS}/{pin}").strip().splitlines()[1:]
                                            for host, pin, *_ in places.values()))
    net.other.run(FPISA, "unload", "--pin", f"{leaves.PINS}/other")


@pytest.mark.long
@pytest.mark.parametrize("seconds, family", [(600, "ipv6")], indirect=["family"])
def test_trees(tree, seconds):  # noqa: F811
    kill_in_tree(tree, leaves, seconds)


@pytest.mark.long
@pytest.mark.parametrize("seconds, roots, family", [(600, 1, "ipv4"), (600, 2, "ipv6")], indirect=["family"])
def test_racks(two_racks, seconds, roots):  # noqa: F811
    """Kill leaves of racks: one on a host of its own, and one on a host with ranks. With two roots, the manager's datapath is the other root."""
    if roots == 2:
        two_racks.ask_for_two_roots()
    kill_in_tree(two_racks, racks, seconds)
