# SPDX-License-Identifier: GPL-2.0-only
"""Test aggregators that register with the manager of another host, behind one switch and over real XDP. Groups get shares of all present
aggregators. The death of an aggregator ends its groups with an error that names it, and the next group uses the others."""
import errno
import json
import os
import re
import select
import signal
import time

import pytest
from aggregators import Switched, pins
from doctor import examine, needs_ethtool
from groups import Groups
from lab import FPISA, PIN, children, end, endpoint, once_within, wait_until

EHOSTDOWN = 112
WORKERS, OTHERS = 3, 2
pytestmark = pytest.mark.families(spread=True)
PINS = f"/run/registered-{os.getpid()}"  # a BPF filesystem for the other aggregators
COUNT = 100_000
FRAME_BITS = 8 * 1142  # bits of a frame on the wire


class Site(Switched):
    """The manager and an aggregator at 10.98.0.1, more aggregators at .2 and .3, and workers from .11 on. Over IPv6 2001:db8:98:: stands
    for 10.98.0."""

    def __init__(self, ipv6=False):
        super().__init__()
        self.ipv6 = ipv6
        self.subnet, self.bits = ("2001:db8:98::", 64) if ipv6 else ("10.98.0.", 24)
        self.address = f"{self.subnet}1"
        self.agg = self.host(self.address, "m0")
        self.other = [self.host(f"{self.subnet}{i + 2}", f"a{i}") for i in range(OTHERS)]
        self.worker = [self.host(f"{self.subnet}{r + 11}", f"w{r}") for r in range(WORKERS)]
        self.fpisa("load", "eth0")
        for i in range(OTHERS):
            self.at(i, "load", "eth0")

    def at(self, i, *argv):
        return self.other[i].run(FPISA, *argv, "--pin", f"{PINS}/{i}")

    def registered(self):
        """Return the present aggregators from `fpisa status`, by address."""
        return {a["address"]: a for a in self.json("status")["manager"]["aggregators"] if not a["gone"]}

    def results(self):
        """Return the number of chunks that each aggregator has summed, over all jobs."""
        return [sum(self.counters(job, pin).get("v_result", 0) for job in range(2)) for pin in (PIN, *(f"{PINS}/{i}" for i in range(OTHERS)))]


class Several(Groups):
    """A manager, and agents that register with it"""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.agents = {}

    def register(self, i, *options, key="aggs", lines=(), wait=True):
        config = os.path.join(self.folder, f"agent{i}.conf")
        with open(config, "w") as f:
            f.write("\n".join(["[manager]", f"key-file = {os.path.join(self.folder, key)}", *lines]) + "\n")
        agent = self.net.other[i].spawn(FPISA, "serve", "--manager", self.net.address, *options, "--pin", f"{PINS}/{i}", config)
        self.agents[i] = agent
        if wait:
            said = agent.stdout.readline()
            name = f"{self.net.subnet}{i + 2}"
            assert said.startswith(f"aggregator [{name}]:" if ":" in name else f"aggregator {name}:"), said + agent.stderr.read()
        return agent

    def close(self):
        super().close()
        for agent in self.agents.values():
            end(agent)


@pytest.fixture
def site(bpffs, tmp_path, family):
    with pins(PINS):
        net = Site(ipv6=family == "ipv6")
        several = Several(net, str(tmp_path), "aggregator-keys = aggs")
        net.fpisa("key", "new", "aggs", several.key)
        # The agents' file has only the agents' key. The workers' file has both keys, and a rank uses the last key.
        with open(several.key) as f:
            lines = f.read().splitlines()
        for name, line in zip(("train", "aggs"), lines):
            path = os.path.join(str(tmp_path), name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write(line + "\n")
        several.manager_keys, several.key = several.key, os.path.join(str(tmp_path), "train")
        several.serve()
        yield several
        several.close()
        if several.manager:
            end(several.manager)
        for i in range(OTHERS):
            net.at(i, "unload")
        net.fpisa("unload")
        net.close()


def sums(site, name, times=3, count=COUNT, **more):
    return site.group(name, range(WORKERS), {"sum": "float32", "count": count, "times": times}, **more)


def sums_over_all(site, **more):
    """Register the other aggregators, and begin sums in a group over all aggregators."""
    for i in range(OTHERS):
        site.register(i)
    return sums_over_three(site, **more)


def sums_over_three(site, **more):
    """Begin sums in a group over all aggregators, and wait until each has added some."""
    before = site.net.results()
    ranks = sums(site, "g", times=100000, **more)
    wait_until("results", lambda: all(now and now != was for now, was in zip(site.net.results(), before)))
    return ranks


def sum_with_shares(site, name):
    """Sum in a group. Return the group's aggregators."""
    ranks = sums(site, name, hold=True)
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == 6, answer
    shares, = [g["shares"] for g in site.net.json("group", "list") if g["name"] == name]
    for rank in ranks:
        rank.end()
    return [a["address"] for a in shares]


@pytest.mark.families()
def test_shares(site):
    """Each of three aggregators adds a third, without a change to the program, and keeps no state afterwards."""
    for i in range(OTHERS):
        site.register(i)
    assert set(site.net.registered()) == {f"{site.net.subnet}{n}" for n in (2, 3)}
    before = site.net.results()
    for rank in sums(site, "g"):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == 6, answer
    site.empty()
    chunks = [b - a for a, b in zip(before, site.net.results())]
    assert all(abs(c - sum(chunks) / 3) < 3 for c in chunks), chunks
    wait_until("no jobs at the others", lambda: all(not site.net.at(i, "job", "list").strip().splitlines()[1:] for i in range(OTHERS)))


def test_configuration_is_read_again(site):
    """If the aggregator's key and rate change, groups continue, and the manager's option --rate still overrides the aggregator's file. A
    restarted manager that lacks the old key gets the new key from the agent."""
    site.kill()
    site.manager = site.net.agg.spawn(FPISA, "serve", "--rate", "1G", site.config)
    site.said()
    agent = site.register(0, lines=("rate = 10G",))
    ranks = sums(site, "g", times=200, pause=0.01)
    keys, config = (os.path.join(site.folder, name) for name in ("aggs", "agent0.conf"))
    with open(keys) as f:
        old = f.read()
    site.net.fpisa("key", "new", "aggs", site.manager_keys)
    with open(site.manager_keys) as f:
        text = f.read().replace(old, "")
    with open(site.manager_keys, "w") as f:
        f.write(text)
    with open(keys, "w") as f:
        f.write(text.splitlines()[-1] + "\n")
    with open(config) as f:
        text = f.read()
    with open(config, "w") as f:
        f.write(text.replace("10G", "1G"))
    site.manager.send_signal(signal.SIGHUP)
    assert any(line.startswith("configuration read again") for line in iter(site.manager.stdout.readline, ""))
    agent.send_signal(signal.SIGHUP)
    wait_until("the other rate", lambda: site.net.registered()[f"{site.net.subnet}2"]["mbits"] == 1000)
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == 6, answer
    site.empty()
    held = sums(site, "h", hold=True)
    shares, = [g["shares"] for g in site.net.json("group", "list") if g["name"] == "h"]
    assert len(shares) == 2 and len({a["weight"] for a in shares}) == 1, shares
    for rank in held:
        rank.line()
        rank.end()
    site.kill()
    site.serve()
    wait_until("back by the new key", site.net.registered)
    with open(config, "w") as f:
        f.write(text.replace("[manager]", f"[manager]\naddress = {site.net.subnet}99"))
    agent.send_signal(signal.SIGHUP)
    assert any("is not an address of this host" in line for line in iter(agent.stderr.readline, "")) and site.net.registered()
    site.net.other[0].ip(f"addr add {site.net.subnet}99/{site.net.bits} dev eth0")
    agent.send_signal(signal.SIGHUP)
    wait_until("the other address", lambda: list(site.net.registered()) == [f"{site.net.subnet}99"])
    # Read the error, and the report that no setting has changed.
    with open(config, "w") as f:
        f.write(text.replace("[manager]", "[manager]\nnosuch = 1"))
    agent.send_signal(signal.SIGHUP)
    assert any("continues with the previous configuration" in line for line in iter(agent.stderr.readline, ""))
    assert list(site.net.registered()) == [f"{site.net.subnet}99"]


def test_limits_of_its_own(site):
    """A group that the aggregator's own file does not allow is refused. The error names the limit, the aggregator and the key."""
    for lines, rc, says in ((("formats = fp64",), -errno.EACCES, "the manager does not offer format fp32; add the format to formats in [manager]"),
                            ((f"networks = {site.net.subnet}11/{128 if site.net.ipv6 else 32}",), -errno.EACCES,
                             f"{site.net.subnet}12 is not in a network that may ask for groups; add the network to networks in [manager]"),
                            (("size = 2",), -errno.EINVAL, "the group has 3 ranks, but the manager allows 2; raise size in [manager]")):
        site.register(0, lines=lines)
        for rank in sums(site, f"g{rc}", anyway=True):
            answer = rank.line()
            assert answer["rc"] == rc and answer["error"].endswith(f"aggregator {site.net.subnet}2: {says}"), answer
        site.empty()
        end(site.agents[0])
        wait_until("its end", lambda: not site.net.registered())


def named(ranks, says, since):
    """Return the seconds in which all ranks have ended with an error that names an aggregator."""
    answers = [rank.line() for rank in ranks]
    for answer in answers:
        assert answer["rc"] == -EHOSTDOWN and f"aggregator {says}" in answer["error"], answer
    for rank in ranks:
        rank.end()
    return max(answer["ended"] for answer in answers) - since


@pytest.mark.families()
def test_one_dies(site):
    """If an aggregator is killed in the middle of a call, all ranks get an error that names it within a second, and the next group uses the
    others. If its agent starts again, it gets its share again."""
    site.register(0)

    def kill():
        site.register(1)
        ranks, killed = sums_over_three(site), time.monotonic()
        site.agents[1].send_signal(signal.SIGKILL)
        took = named(ranks, f"{site.net.subnet}3 is gone: its process ended", killed)
        end(site.agents[1])
        assert set(site.net.registered()) == {f"{site.net.subnet}2"}
        assert sum_with_shares(site, "g") == [f"{site.net.subnet}{n}" for n in (1, 2)]
        site.empty()
        return took

    once_within(1, kill)
    site.register(1)
    assert sum_with_shares(site, "h") == [f"{site.net.subnet}{n}" for n in (1, 2, 3)]


def test_one_is_unloaded(site):
    """If the datapath of an aggregator is gone, its agent ends, and its groups get an error that names it."""
    def unload():
        site.register(0)
        ranks = sums(site, "g", times=100000)
        wait_until("frames", lambda: all(site.net.results()[:2]))
        site.net.at(0, "unload")
        try:
            took = named(ranks, f"{site.net.subnet}2 is gone: its process ended", time.monotonic())
            assert "the datapath was unloaded meanwhile" in refused(site.agents[0])
        finally:
            site.net.at(0, "load", "eth0")
        site.empty()
        return took

    once_within(2, unload)


def test_one_is_silent(site):
    """If an aggregator's host vanishes without closing a connection, it is still named within a second."""
    site.register(0)

    def cut_off():
        ranks = sums(site, "g", times=100000)
        wait_until("frames", lambda: all(site.net.results()[:2]))
        site.net.switch.ip("link set a0 down")
        took = named(ranks, f"{site.net.subnet}2 is gone: its host does not answer", time.monotonic())
        site.net.switch.ip("link set a0 up")
        wait_until("that it is back", lambda: f"{site.net.subnet}2" in site.net.registered())
        site.empty()
        return took

    once_within(1.2, cut_off)
    # No rank ends before all ranks have their sums. Otherwise the other ranks would get an error about the missing rank.
    ranks = sums(site, "g", hold=True)
    for rank in ranks:
        assert rank.line()["rc"] == 0
    for rank in ranks:
        rank.end()
    site.empty()
    wait_until("no jobs there", lambda: not site.net.at(0, "job", "list").strip().splitlines()[1:])


def test_manager_begins_anew(site):
    """If the manager is killed and restarted under a call, aggregators and ranks reconnect, and the sum continues."""
    site.register(0)
    ranks = [site.start(r, "g", r, WORKERS, {"sum": "float32", "count": 1000, "times": 200, "pause": 0.02}) for r in range(WORKERS)]
    for rank in ranks:
        assert rank.line()["rc"] == 0
    wait_until("frames", lambda: all(site.net.results()[:2]))
    site.kill()
    site.serve()
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["calls"] == 200, answer
    site.empty()
    wait_until("no jobs there", lambda: not site.net.at(0, "job", "list").strip().splitlines()[1:])


def test_asks_while_the_manager_begins_anew(site):
    """If the first call of a type is made while the manager is down, its job waits for the aggregator, which reconnects later than the
    ranks."""
    site.register(0)

    def ask():
        go = os.path.join(site.folder, f"go{time.monotonic_ns()}")
        ranks = site.group("g", range(WORKERS), {"sum": "float32"}, {"until": go}, {"sum": "int32"}, {"leave": True})
        assert [rank.line()["rc"] for rank in ranks] == [0] * WORKERS
        site.kill()
        open(go, "w").close()
        time.sleep(0.1)
        site.serve()
        answers = [rank.line() for rank in ranks]
        assert all(answer["rc"] == 0 for answer in answers), answers
        site.empty()
        return max(answer["s"] for answer in answers)

    once_within(3, ask)
    assert len(site.net.registered()) == 1


@pytest.mark.long
def test_asks_while_an_earlier_one_is_made(site):
    """If a manager restarts while the aggregator creates a job, the manager asks for the job again. Only one job is created."""
    agent = site.register(0)
    helper, = children(agent.pid)
    os.kill(helper, signal.SIGSTOP)
    try:
        ranks = sums(site, "g", hold=True)
        time.sleep(0.5)
        site.kill()
        ranks[0].kill(signal.SIGSTOP)  # this rank reconnects a second later than the aggregator
        site.serve()
        time.sleep(1)
        ranks[0].kill(signal.SIGCONT)
        time.sleep(1)
    finally:
        os.kill(helper, signal.SIGCONT)
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == 6, answer
    assert len([job for job in site.net.at(0, "job", "list").splitlines()[1:] if job.strip()]) == 1


def stand_still(processes, seconds, again=0.05):
    """Stop the processes, then continue them. The first process continues slightly before the others."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    for process in processes:
        process.send_signal(signal.SIGCONT)
        time.sleep(again)


def test_a_manager_that_stood_still(site):
    """Missing PINGs do not make the manager declare an aggregator dead if the manager itself could not run meanwhile, alone or together
    with the aggregators."""
    ranks = sums_over_all(site, count=1000)
    for i in range(6):
        stand_still([site.manager, *(site.agents.values() if i % 2 else ())], 0.56)
        time.sleep(0.1 + 0.037 * i)
    assert not any(select.select([rank.process.stdout], [], [], 0)[0] for rank in ranks)
    assert len(site.net.registered()) == OTHERS


def test_a_manager_that_is_silent(site):
    """If a manager whose host answers says nothing for 6 s, an agent connects again, and registers when the manager continues."""
    agent, began = site.register(0), time.monotonic()
    site.manager.send_signal(signal.SIGSTOP)
    try:
        wait_until("the end of the registration", lambda: "not registered" in site.net.at(0, "status"), 30)
        assert time.monotonic() - began > 5
    finally:
        site.manager.send_signal(signal.SIGCONT)
    assert agent.stdout.readline().startswith("aggregator ")
    assert len(site.net.registered()) == 1
    assert agent.stderr.readline().endswith("no answer; fpisa serve keeps trying\n")


@pytest.mark.long
def test_a_manager_that_stood_still_for_long(site):
    """After a stop longer than all limits of manager and agents, some agents must reconnect as after a restart, and others get no
    answer."""
    ranks = sums_over_all(site, count=1000)
    stand_still([site.manager, *site.agents.values()], 8)
    time.sleep(1)
    site.kill()
    for rank in ranks:
        rank.kill(signal.SIGSTOP)
    site.serve()
    stand_still([site.manager, *(rank.process for rank in ranks), *site.agents.values()], 12)
    time.sleep(1)
    assert not any(select.select([rank.process.stdout], [], [], 0)[0] for rank in ranks)
    assert len(site.net.registered()) == OTHERS


def test_less_memory(site):
    """An aggregator that may assign only 8 slots adds its share with a smaller window."""
    site.register(0, lines=("slots = 8",))
    assert sum_with_shares(site, "g") == [site.net.address, f"{site.net.subnet}2"]


def elements_of(site, name, **options):
    """Sum in a group. Return the ranks' answers, and the number of elements in a frame of each aggregator's job."""
    ranks = sums(site, name, hold=True, anyway=True, **options)
    answers = [rank.line() for rank in ranks]
    jobs = [site.net.json("job", "list")] + [json.loads(site.net.at(i, "job", "list", "--json")) for i in range(OTHERS)]
    elements = [site.net.json("job", "show", job["job"])["elements"] for job in jobs[0]]
    elements += [json.loads(site.net.at(i, "job", "show", job["job"], "--json"))["elements"] for i in range(OTHERS) for job in jobs[1 + i]]
    for rank in ranks:
        rank.end()
    site.empty()
    return answers, elements


@pytest.mark.families("ipv4", why="the MTUs are below IPv6's smallest")
def test_small_mtu(site):
    """If no rank states the elements of a chunk, the most restrictive aggregator of the group decides. If a rank states more than some
    aggregator allows, it gets an error that says how many are allowed."""
    def right(name, elements):
        answers, got = elements_of(site, name)
        assert [(a["rc"], a["first"]) for a in answers] == [(0, 6)] * WORKERS and got == [elements] * 3, (answers, got)

    for i in range(OTHERS):
        site.register(i)
    right("all", 256)
    for host, mtu, elements in ((site.net.other[0], 1000, 224), (site.net.other[1], 600, 96), (site.net.agg, 400, 64)):
        host.ip(f"link set eth0 mtu {mtu}")
        right(f"mtu{mtu}", elements)
    site.net.agg.ip("link set eth0 mtu 1500")
    answers, _ = elements_of(site, "given", elements=128)
    for answer in answers:
        assert answer["rc"] == -errno.EINVAL, answer
        assert answer["error"].endswith("aggregator 10.98.0.3: 128 elements make a frame larger than the MTU of its ports; ask for 96 elements "
                                        "or fewer"), answer


def refused(agent):
    """Return the agent's stderr up to its end."""
    _, err = agent.communicate(timeout=20)
    assert agent.returncode != 0
    return err


def test_who_is_refused(site):
    """A key that may not register, and an unknown key, both get an error that says so. An agent that ends without an error is removed."""
    assert "key train may not register aggregators, which see the values of all groups; add the aggregator's key to aggregator-keys" in \
        refused(site.register(0, key="train", wait=False))
    site.net.fpisa("key", "new", "aggs", os.path.join(site.folder, "unknown"))
    assert f"manager {site.net.subnet}1 does not accept the last key of" in refused(site.register(0, key="unknown", wait=False))
    first = site.register(0)
    first.send_signal(signal.SIGTERM)
    assert first.wait(20) == 0
    wait_until("that it is gone", lambda: not site.net.registered())


@pytest.mark.long
def test_reachable_by_some(site):
    """A rank that cannot reach an aggregator gets an error that names the aggregator. The other ranks get the same sentence."""
    site.register(0)
    site.net.worker[2].ip(f"route add blackhole {site.net.subnet}2/{128 if site.net.ipv6 else 32}")
    ranks = sums(site, "g", hold=True)
    answers = [rank.line() for rank in ranks]
    assert all(a["rc"] < 0 and f"{site.net.subnet}2" in a["error"] for a in answers), answers
    assert all("rank 2" in a["error"] for a in answers[:2]), answers


def test_rates(site):
    """If two aggregators state rates of 40 and 10 Gbit/s, the first gets a larger share. The manager does not check the rates."""
    site.register(0, "--rate", "40G")
    site.register(1, "--rate", "10G")
    ranks = sums(site, "g", hold=True)
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == 6, answer
    shares, = [g["shares"] for g in site.net.json("group", "list")]
    assert [(a["address"], a["weight"]) for a in shares] == [(site.net.address, 1), (f"{site.net.subnet}2", 4), (f"{site.net.subnet}3", 1)]


def test_a_rate_that_lies(site):
    """If an aggregator states 40 Gbit/s, but its port carries 10 Mbit/s with a short queue, sums are correct and the ranks' windows adapt.
    A call takes little longer than the port needs for its share, and the port drops few frames."""
    site.register(0, "--rate", "40G")
    site.register(1, "--rate", "10G")
    site.net.switch.run("tc", "qdisc", "replace", "dev", "a0", "root", "tbf", "rate", "10mbit", "burst", 5000, "limit", 128 << 10)

    def dropped():
        return int(re.search(r"dropped (\d+)", site.net.switch.run("tc", "-s", "qdisc", "show", "dev", "a0"))[1])

    frames = WORKERS * COUNT / 256 * 4 / 6
    least_s, calls, before = frames * FRAME_BITS / 10e6, [], dropped()
    ranks = site.group("g", range(WORKERS), *[{"sum": "float32", "count": COUNT, "times": 1}] * 5, hold=True)
    for _ in range(5):
        answers = [rank.line() for rank in ranks]
        assert all(a["rc"] == 0 and a["first"] == a["last"] == 6 for a in answers), answers
        calls.append((max(a["s"] for a in answers) / least_s, (dropped() - before) / frames))
        before = dropped()
    shares, = [g["shares"] for g in site.net.json("group", "list")]
    assert [a["weight"] for a in shares] == [1, 4, 1]
    assert min(calls)[0] < 1.5 and min(share for _, share in calls) < 0.1, calls


def test_only_another(site):
    """If the manager runs on rank 0's host, whose link has less room than the link of a faster aggregator, the faster aggregator does all
    sums."""
    site.net.worker[0] = site.net.agg
    site.register(0, "--rate", "40G")
    before = site.net.results()
    assert sum_with_shares(site, "g") == [f"{site.net.subnet}2"]
    chunks = [b - a for a, b in zip(before, site.net.results())]
    assert chunks[1] > 0 and not chunks[0] and not chunks[2], chunks


@pytest.mark.long
def test_both_begin_anew(site):
    """If manager and aggregator both restart, the aggregator's jobs are gone. All ranks get an error that names it when the time to
    reconnect is over."""
    site.register(0)
    ranks = [site.start(r, "g", r, WORKERS, {"sum": "float32", "count": 1000, "times": 100000, "pause": 0.02}) for r in range(WORKERS)]
    for rank in ranks:
        assert rank.line()["rc"] == 0
    wait_until("frames", lambda: all(site.net.results()[:2]))
    site.kill()
    site.agents[0].kill()
    site.agents[0].wait()
    end(site.agents[0])
    site.serve()
    site.register(0)
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == -EHOSTDOWN and f"aggregator {site.net.subnet}2 is gone: it was restarted" in answer["error"], answer
        rank.end()
    assert sum_with_shares(site, "h") == [site.net.address, f"{site.net.subnet}2"]


def test_two_of_one_address(site):
    """The agent of a second datapath on an aggregator's host gets an error, waits, and does not disturb any group. When the first agent has
    ended, the second replaces it."""
    first = site.register(0)
    ranks = sums(site, "g", times=100000)
    wait_until("frames", lambda: all(site.net.results()[:2]))
    host, pin = site.net.other[0], f"{PINS}/second"
    host.ip("link add d0 type veth peer name d1", "link set d0 up", "link set d1 up")
    host.run(FPISA, "load", "--mode", "skb", "d0", "--pin", pin)
    second = host.spawn(FPISA, "serve", "--manager", site.net.address, "--pin", pin, os.path.join(site.folder, "agent0.conf"))
    try:
        said = second.stderr.readline()
        assert "another fpisa serve of this host has registered the same address" in said and "fpisa serve keeps trying" in said, said
        time.sleep(1)
        assert first.poll() is None and set(site.net.registered()) == {f"{site.net.subnet}2"}
        assert not any(select.select([rank.process.stdout], [], [], 0)[0] for rank in ranks)
        end(first)
        assert second.stdout.readline().startswith(f"aggregator {endpoint(site.net.subnet + '2', '')}")
    finally:
        end(second)
        host.run(FPISA, "unload", "d0", "--pin", pin)


def test_two_managers(site):
    """An aggregator that has a manager does not register with another manager. The second agent names the process that serves the datapath,
    and the groups of the first manager continue."""
    first, config = site.register(0), os.path.join(site.folder, "second.conf")
    with open(config, "w") as f:
        f.write(f"[manager]\nkey-file = {site.manager_keys}\naggregator-keys = aggs\n")
    second = site.net.other[1].spawn(FPISA, "serve", "--pin", f"{PINS}/1", config)
    try:
        assert second.stdout.readline().startswith("serving groups")
        ranks = sums(site, "g", times=100000)
        wait_until("frames", lambda: all(site.net.results()[:2]))
        agent = site.net.other[0].spawn(FPISA, "serve", "--manager", f"{site.net.subnet}3", "--pin", f"{PINS}/0", os.path.join(site.folder, "agent0.conf"))
        try:
            assert re.search(rf"{PINS}/0: process \d+ still serves this datapath; waiting up to \d+ s for it to end", agent.stderr.readline())
        finally:
            end(agent)
        status = json.loads(site.net.at(1, "status", "--json"))
        assert first.poll() is None and not status["manager"]["aggregators"] and set(site.net.registered()) == {f"{site.net.subnet}2"}
        assert not any(select.select([rank.process.stdout], [], [], 0)[0] for rank in ranks)
    finally:
        end(second)


@needs_ethtool
def test_doctor(site):
    """On an aggregator's host, doctor does not require a listener or connections of ranks, but checks whether the aggregator has
    registered."""
    site.register(0)
    argv = "--pin", f"{PINS}/0", "--config", os.path.join(site.folder, "agent0.conf")
    there = endpoint(f"{site.net.subnet}2", 18000)

    def found():
        return {check: f for (subject, check), f in examine(site.net.other[0], *argv).items() if subject == "manager"}

    checks = found()
    assert {c: f["level"] for c, f in checks.items()} == dict.fromkeys(("keys", "user", "process", "registered", "pool"), "ok"), checks
    assert checks["registered"]["text"] == f"registered as aggregator {there} with the manager at the host of its --manager"
    with open(argv[-1], "a") as f:
        f.write(f"manager = {site.net.subnet}1\n[key train]\ngroups = 1\n")
    checks = found()
    assert {c: f["level"] for c, f in checks.items()} == dict.fromkeys(("keys", "user", "process", "registered", "pool"), "ok"), checks
    assert checks["registered"]["text"] == f"registered as aggregator {there} with the manager at {site.net.address}"
    assert re.search(rf"^aggregator  of another host's manager: process \d+, registered as {re.escape(there)}; groups: 0, ranks: 0, jobs: 0$",
                     site.net.at(0, "status"), re.M)
    shown, = json.loads(site.net.at(0, "status", "--json"))["manager"]["aggregators"]
    assert (shown["address"], shown["host"], shown["key"], shown["mbits"]) == (f"{site.net.subnet}2", f"{site.net.subnet}2", "aggs", 10000)
    site.kill()
    wait_until("that it is not registered any more", lambda: found()["registered"]["level"] == "fault")
    assert ", not registered; groups: 0," in site.net.at(0, "status")
    with open(argv[-1]) as f:
        text = f.read()
    with open(argv[-1], "w") as f:
        f.write(text.replace(f"manager = {site.net.subnet}1\n", ""))
    assert found()["registered"]["text"].startswith("this aggregator is not registered with the manager at the host of its --manager") and "port" not in found()
    with open(argv[-1], "w") as f:
        f.write(text)
    site.serve()
    wait_until("that it is again", lambda: found()["registered"]["level"] == "ok")
    end(site.agents[0])
    checks = found()
    assert checks["process"]["level"] == "fault" and "no group gets a share here" in checks["process"]["text"]
    os.unlink(os.path.join(site.folder, "aggs"))
    keys = found()["keys"]
    assert keys["level"] == "fault" and "copy a line of the manager's key file into this file" in keys["text"] and not keys["fix"]


@pytest.mark.families("ipv4", why="broadcast addresses are IPv4's; test_wrong_addresses has one of IPv6")
def test_wrong_address(site):
    """If the address does not belong to this host, the agent ends, and no group is disturbed."""
    for address in ("127.0.0.1", "224.1.1.1", "255.255.255.255"):
        assert f"{address} is not the address of a host" in refused(site.register(0, "--address", address, wait=False))
    for address in ("10.98.0.255", "10.98.0.11", "10.98.0.3"):
        assert f"{address} is not an address of this host" in refused(site.register(0, "--address", address, wait=False))


@pytest.mark.families("ipv4", why="ip_nonlocal_bind is IPv4's setting; the rate belongs to the interface")
def test_hosts_and_rates(site):
    """Only addresses of interfaces count as addresses of this host, even if a socket may be bound to others. An unknown rate is reported as
    missing."""
    for i in range(OTHERS):
        site.register(i)
    site.net.agg.run("sysctl", "-w", "net.ipv4.ip_nonlocal_bind=1")
    ranks = sums(site, "g", hold=True)
    for rank in ranks:
        assert rank.line()["rc"] == 0
    shares, = [g["shares"] for g in site.net.json("group", "list")]
    assert [a["weight"] for a in shares] == [1, 1, 1]
    site.net.other[0].ip("link add d0 type bridge", "addr add 10.98.1.2/32 dev d0", "addr add 10.98.1.3/32 dev lo", "link set d0 up", "link set lo up")
    for address, rate in (("10.98.1.2", 0), ("10.98.1.3", 10000)):
        end(site.agents[0])
        site.register(0, "--address", address, wait=False).stdout.readline()
        assert site.net.registered()[address]["mbits"] == rate


def test_without_a_key(site):
    """A manager with a key file refuses an aggregator without a key, also after it has read its configuration again."""
    site.kill()
    with open(site.config) as f:
        text = f.read().replace("aggregator-keys = aggs", "without-key = yes")
    with open(site.config, "w") as f:
        f.write(text)
    site.serve()
    config = os.path.join(site.folder, "agent.conf")
    with open(config, "w") as f:
        f.write("[manager]\nwithout-key = yes\n")
    for again in False, True:
        if again:
            site.read_again()
        agent = site.net.other[0].spawn(FPISA, "serve", "--manager", site.net.address, "--pin", f"{PINS}/0", config)
        try:
            assert select.select([agent.stderr], [], [], 10)[0] and "aggregator-keys" in agent.stderr.readline() and not site.net.registered()
        finally:
            end(agent)


@pytest.mark.families("ipv4", why="the hosts have IPv6 addresses too")
def test_other_family(site):
    """Groups over IPv4 do not use an aggregator that registered with its IPv6 address."""
    for i, host in enumerate((site.net.agg, *site.net.other)):
        host.ip(f"addr add 2001:db8:98::{i + 1}/64 dev eth0 nodad")
    site.net.address = "2001:db8:98::1"
    site.register(0, wait=False)
    wait_until("the aggregator", lambda: list(site.net.registered()) == ["2001:db8:98::2"])
    site.net.address = "10.98.0.1"
    site.register(1)
    assert sum_with_shares(site, "g") == ["10.98.0.1", "10.98.0.3"]


def shares_of(site, name, address):
    """Sum in a group whose ranks have joined at these addresses of the manager, in turn. Return the group's aggregators and its address."""
    ranks = [site.start(r, name, r, WORKERS, {"sum": "float32", "count": COUNT, "times": 3}, hold=True, address=address[r % len(address)])
             for r in range(WORKERS)]
    for rank in (*ranks, *ranks):
        answer = rank.line()
        assert answer["rc"] == 0 and answer.get("first", 6) == answer.get("last", 6) == 6, answer
    shares, = [g["shares"] for g in site.net.json("group", "list") if g["name"] == name]
    shown = re.search("^address +(.*)$", site.net.fpisa("group", "show", name), re.M)[1]
    jobs = {job["address"] for job in (site.net.json("job", "show", j["job"]) for j in site.jobs())}
    for rank in ranks:
        rank.end()
    site.empty()
    return [a["address"] for a in shares], shown, jobs


@pytest.mark.families("ipv4", why="the hosts have IPv6 addresses too")
@pytest.mark.parametrize("first", ["IPv4", "IPv6"])
def test_ranks_of_both_families(site, first):
    """An aggregator that registers an address of each family gets shares of groups of both families, and of groups of either. An aggregator
    with one address gets shares of groups of its own family. A group of both families has unicast results."""
    for i, host in enumerate((site.net.agg, *site.net.other)):
        host.ip(f"addr add 2001:db8:98::{i + 1}/64 dev eth0 nodad")
    for r, host in enumerate(site.net.worker):
        host.ip(f"addr add 2001:db8:98::{r + 11}/64 dev eth0 nodad")
    two = ["10.98.0.2", "2001:db8:98::2"]
    site.register(0, "--address", ",".join(two if first == "IPv4" else two[::-1]), wait=False)
    wait_until("the aggregator", site.net.registered, 10)
    site.register(1)
    four, six = "10.98.0.1", "2001:db8:98::1"
    assert shares_of(site, "both", [four, six]) == ([four, "10.98.0.2"], f"{four} and {six}", {f"{six},{four}"})
    assert shares_of(site, "back", [six, four]) == ([six, "2001:db8:98::2"], f"{six} and {four}", {f"{six},{four}"})
    assert shares_of(site, "four", [four]) == ([four, "10.98.0.2", "10.98.0.3"], four, {four})
    assert shares_of(site, "six", [six]) == ([six, "2001:db8:98::2"], six, {six})
    said = site.net.fpisa("status")
    assert f"{two[0]}:18000" in said and f"[{two[1]}]:18000" in said and " and " in said, said


@pytest.mark.families("ipv4", why="the lists have addresses of both families")
def test_wrong_addresses(site):
    """Two addresses of one family are refused, and an address that this host does not have."""
    for address, says in (("10.98.0.2,10.98.0.9", "10.98.0.2 and 10.98.0.9 have the same family; give one address, or one of each family"),
                          ("10.98.0.2,2001:db8:98::9", "2001:db8:98::9 is not an address of this host"),
                          ("10.98.0.2,", "--address: '' is not an")):
        assert says in refused(site.register(0, "--address", address, wait=False)), address


def make_tentative(host, address):
    """Add the address again, and let duplicate address detection last for a minute."""
    host.ip(f"addr del {address}/64 dev eth0")
    for name, value in (("accept_dad", 1), ("dad_transmits", 60)):
        host.sysctl(f"conf/eth0/{name}", value, family="ipv6")
    host.ip(f"addr add {address}/64 dev eth0")


@pytest.mark.families("ipv6")
def test_tentative_address(site):
    """While the only global address of a host is tentative, the host connects from its link-local address. The manager refuses its rank with
    the reason, and its aggregator until the address can be used."""
    make_tentative(site.net.worker[0], f"{site.net.subnet}11")
    answer = site.start(0, "g", 0, 1, {"sum": "float32"}).line()
    assert answer["rc"] == -errno.EBUSY and re.search("this host's address fe80::.* is link-local; wait until", answer["error"]), answer
    host, address = site.net.other[0], f"{site.net.subnet}2"
    make_tentative(host, address)
    agent = site.register(0, wait=False)
    assert re.search("this host's address fe80::.* is link-local; .*; fpisa serve keeps trying", agent.stderr.readline())
    assert not site.net.registered()
    host.ip(f"addr del {address}/64 dev eth0", f"addr add {address}/64 dev eth0 nodad")
    wait_until("the aggregator", lambda: list(site.net.registered()) == [address])


def test_doctor_names_aggregators_that_are_gone(site):
    """On the manager's host, doctor warns of aggregators that are gone."""
    def found():
        return examine(site.net.agg, "--config", site.config).get(("manager", "aggregators"))

    for i in range(OTHERS):
        site.register(i)
    assert not found()
    end(site.agents[0])
    wait_until("its end", lambda: len(site.net.registered()) == 1)
    warning = found()
    assert warning["level"] == "warn" and f"aggregators that are gone: {endpoint(f'{site.net.subnet}2', 18000)}; start fpisa serve" in warning["text"], warning
