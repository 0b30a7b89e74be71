# SPDX-License-Identifier: GPL-2.0-only
"""Test groups of the manager: sums of every type, refused ranks, dead ranks, a killed manager."""
import fcntl
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import sys
import time

import pytest

import job_requests
from groups import Groups, over_both
from lab import COMMAND_S, FPISA, PIN, PORT, SLOW, TOP, alive, children, draw_seed, end, endpoint, listener, once_within, wait_until, waiters

EACCES, EBUSY, EEXIST, EINVAL, ECONNRESET, ECONNREFUSED, ETIMEDOUT, EDQUOT, EPROTO, ESTALE, EREMOTEIO = 13, 16, 17, 22, 104, 111, 110, 122, 71, 116, 121
FOR_EVER = 10**6

pytestmark = pytest.mark.families(spread=True)


def confined(caps):
    """Return a command prefix that limits a command to these capabilities."""
    return "setpriv", "--no-new-privs", "--bounding-set=-all," + ",".join(caps)


def check_sums(ranks, hosts, *types):
    for t in types:
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == 0, answer
            assert answer["first"] == answer["last"] == hosts * (hosts + 1) / 2, (t, answer)


@over_both
def test_sums_of_every_type(groups):
    """Three hosts get four jobs without an administrator. When the last rank has left, no job is left."""
    g = groups(3)
    types = "float32", "float64", "int32"
    ranks = g.group("train", range(3), *({"sum": t, "count": 5000} for t in types), {"barrier": True}, hold=True)
    check_sums(ranks, 3, *types)
    for rank in ranks:
        assert rank.line()["rc"] == 0
    jobs = g.jobs()
    assert [j["format"] for j in jobs] == ["fp32", "fp64", "int32"]
    assert {j["fanout"] for j in jobs} == {"multicast"} and all(j["joined"] == [0, 1, 2] for j in jobs)
    for rank in ranks:
        rank.kill()
    g.empty()


def test_bridge_is_the_switch(lab, tmp_path):
    """An aggregator whose bridge has a port for each worker is the workers' switch, so the manager does not ask for more aggregators."""
    net = lab(workers=3)
    net.agg.ip("link add br9 type bridge forward_delay 0", "link set br9 up")
    for p in net.ports:
        net.agg.ip(f"addr flush dev {p}", f"link set {p} master br9")
    net.agg.ip(f"addr add {net.network(1, 1)} dev br9")
    for r, w in enumerate(net.worker):
        w.ip("addr flush dev eth0", f"addr add {net.network(1, r + 2)} dev eth0")
    net.address = net.host(1, 1)
    net.fpisa("load", "br9", "--mode", "skb")
    g = Groups(net, str(tmp_path), "without-key = yes")
    g.serve()
    check_sums(g.group("train", range(3), {"sum": "float32"}, {"leave": True}), 3, "float32")
    g.manager.send_signal(signal.SIGTERM)
    assert "times as long" not in "".join(g.manager.communicate(timeout=COMMAND_S))
    g.close()


def test_two_delete_a_job(groups):
    """If a user and the manager delete a job at the same time, the manager has nothing left to do, and serves the next group."""
    g = groups(2)
    ranks = g.group("train", range(2), {"sum": "float32"}, hold=True)
    check_sums(ranks, 2, "float32")
    pins = os.open(PIN, os.O_RDONLY)
    try:
        fcntl.flock(pins, fcntl.LOCK_EX)
        user = g.net.agg.spawn(FPISA, "job", "del", g.jobs()[0]["job"])
        wait_until("the user's wait for the lock", lambda: waiters(pins) == 1, COMMAND_S)
        for rank in ranks:
            rank.kill()
        wait_until("the manager's wait for the lock", lambda: waiters(pins) == 2, COMMAND_S)
    finally:
        os.close(pins)
    assert user.wait(COMMAND_S) == 0, user.stderr.read()
    g.empty()
    ranks = g.group("train", range(2), {"sum": "float32"}, hold=True)
    check_sums(ranks, 2, "float32")


def test_elements_of_wide_values(lab, tmp_path):
    """If a frame holds fewer float64 values than `elements` says, a chunk has as many as fit. Other types have `elements` values per
    chunk."""
    net = lab(workers=2, mtu=3506)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        types = "float32", "float64", "int32"
        ranks = g.group("train", range(2), *({"sum": t, "count": 5000} for t in types), hold=True, elements=832)
        check_sums(ranks, 2, *types)
        assert [net.json("job", "show", j["job"])["elements"] for j in g.jobs()] == [832, 416, 832]
    finally:
        g.close()


def test_no_elements(groups):
    """A call of no elements works as the first call of a type and later. A sum after it is correct."""
    g = groups(2)
    none = {"words": "", "count": 0, "type": 1, "op": 1}
    ranks = g.group("train", range(2), none, {"sum": "float32"}, none, {"sum": "float32"}, {"leave": True})
    for first in True, False:
        assert [rank.line()["rc"] for rank in ranks] == [0, 0], first
        check_sums(ranks, 2, "float32")
    g.empty()


def test_no_elements_wait_as_the_header_says(groups):
    """If the first call of a type has no elements, it waits until all ranks have made it. Later calls of no elements do not wait for any
    rank."""
    g, late = groups(2), 1
    none = {"words": "", "count": 0, "type": 1, "op": 1}

    def times():
        """Return the seconds by which the first call of rank 0 is shorter than the delay of rank 1, and those of the other calls."""
        ranks = [g.start(r, "train", r, 2, *([{"sleep": late}] * r), none, *([{"sleep": late}] * r), none, {"barrier": True}, {"leave": True})
                 for r in range(2)]
        first, then = ([rank.line()["s"] for _ in range(3)][1:] for rank in ranks)
        assert [rank.line()["rc"] for rank in ranks for _ in range(2)] == [0] * 4
        g.empty()
        return late - first[0], first[1], max(then)

    once_within((0.1 * late, 0.3 * late, 0.3 * late), times)


@over_both
def test_ranks_of_one_host(groups):
    g = groups(2, "without-key = yes")
    ranks = g.group("train", [0, 0, 1], {"sum": "float32"}, {"leave": True})
    check_sums(ranks, 3, "float32")
    assert [rank.line()["rc"] for rank in ranks] == [0, 0, 0]
    g.empty()


@over_both
def test_unicast(groups):
    """The section [manager] keeps all results off multicast, although each rank has its own address."""
    g = groups(2, "fanout = unicast")
    ranks = g.group("train", range(2), {"sum": "float32", "count": 5000}, hold=True)
    check_sums(ranks, 2, "float32")
    assert [j["fanout"] for j in g.jobs()] == ["unicast"]


@pytest.mark.parametrize("manager, group, has", [("multicast", 2, "unicast"), ("unicast", 1, "multicast")])
def test_fanout_of_a_group(groups, manager, group, has):
    """A group's own fanout option overrides the manager's."""
    g = groups(2, f"fanout = {manager}")
    ranks = g.group("train", range(2), {"sum": "float32", "count": 5000}, hold=True, fanout=group)
    check_sums(ranks, 2, "float32")
    assert [j["fanout"] for j in g.jobs()] == [has]


@over_both
def test_port_that_is_taken(groups):
    g = groups(2, "udp-ports = 20000-20100")
    with g.net.worker[1].socket(ipv6=True) as s:
        s.bind(("::", 20000))
        ranks = g.group("train", range(2), {"sum": "float32"}, hold=True)
        check_sums(ranks, 2, "float32")
    members = g.net.json("job", "show", g.jobs()[0]["job"])["members"]
    assert [m["port"] for m in members] == [20001, 20001]


def test_who_may_not_join(groups, tmp_path):
    g = groups(2, "networks = 10.99.1.0/24,10.99.2.0/24,2001:db8:99::/48", "formats = fp32", sections="[key train]\ngroups = 1\n")
    ranks = g.group("train", range(2), hold=True)

    def refused(rc, text, *where, **options):
        answer = g.start(0, *where, **options).line()
        assert answer["rc"] == -rc and text in answer["error"], answer

    refused(EEXIST, "group train: a group of this name exists, with 2 ranks", "train", 0, 2)
    refused(EDQUOT, "key 'train' has reached its limit of 1 groups", "other", 0, 2)
    refused(EACCES, "a key is needed here", "other", 0, 2, key_file="")
    g.net.fpisa("key", "new", "train", str(tmp_path / "wrong"))
    refused(EACCES, "the manager does not accept key train:", "other", 0, 2, key_file=str(tmp_path / "wrong"))
    os.chmod(tmp_path / "wrong", 0o640)
    refused(EACCES, "chmod 600", "other", 0, 2, key_file=str(tmp_path / "wrong"))
    refused(EINVAL, "is not a group name", "a b", 0, 2)
    refused(ECONNREFUSED, "is fpisa serve running there?", "other", 0, 2, address=endpoint(g.net.address, PORT + 1))
    for rank in ranks:
        rank.kill()
    wait_until("its end", lambda: not g.net.json("group", "list"))
    g.start(0, "train", 0, 3)
    wait_until("rank 0", lambda: [r["here"] for r in g.net.json("group", "list")] == [[0]])
    refused(EEXIST, "another process has joined as rank 0", "train", 0, 3)
    refused(EINVAL, "but the other ranks with size 3", "train", 1, 2)
    refused(ETIMEDOUT, "rank 2 did not join", "train", 1, 3, join_timeout_ms=3000)


@pytest.mark.parametrize("key", ["key", "without-key = yes"])
def test_outside_of_the_networks(groups, key):
    """A host outside the networks gets an error that names the limit each time, with a key or without, whatever bytes it sends before."""
    g = groups(2, "networks = 10.99.1.0/24,2001:db8:99:1::/64", *[key] * (key != "key"))
    refused = f"{g.net.addresses[1]} is not in a network that may ask for groups; add the network to networks in [manager]"
    with g.net.worker[1].entered():
        others = [socket.create_connection((g.net.address, PORT), 10 * SLOW) for _ in range(20)]
    for i, s in enumerate(others):
        with s:
            try:
                s.sendall(b"\x16F\0G"[i % 4:][:1] * 1000)
            except OSError:
                continue  # the manager has closed the connection
            assert refused.encode() in s.recv(256)
    ranks = [g.start(1, "train", 0, 2) for _ in range(10)]
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == -EACCES, answer
        assert answer["error"].endswith(f"group train: {refused}"), answer
    wait_until("the counter", lambda: g.net.json("status")["manager"]["refusals"]["network"] >= 30)
    check_sums(g.group("train", [0, 0], {"sum": "float32"}, hold=True), 2, "float32")


def test_refusals_are_logged(groups, tmp_path):
    """A refusal is logged in one line with host, key, group and reason. In a flood a few refusals are logged and the others counted. A log
    that is not read does not stop the manager."""
    g = groups(2, "formats = fp32", "key-groups = 1")
    network, host = "2001:db8:99:" if g.net.ipv6 else "10.99.", g.net.addresses[1]

    def logged(*words):
        line = g.manager.stdout.readline()
        assert line.startswith("refused ") and all(w in line for w in words), (line, words)

    ranks = g.group("train", range(2), {"sum": "float64"}, hold=True)
    assert [rank.line()["rc"] for rank in ranks] == [-EACCES] * 2
    logged(f"refused {network}", ", key train (format): group train: the manager does not offer format fp64; add the format to formats in [manager]")
    assert g.start(1, "other", 0, 2).line()["rc"] == -EDQUOT
    logged(f"refused {host}, key train (quota): group other: key 'train' has reached its limit of 1 groups")
    assert g.start(1, "other", 0, 2, key_file="").line()["rc"] == -EACCES
    logged(f"refused {host}, without a key (key): a key is needed here")
    g.net.fpisa("key", "new", "stranger", str(tmp_path / "wrong"))
    with open(tmp_path / "wrong") as f:
        identity = f.read().rsplit(":", 1)[0]
    assert g.start(1, "other", 0, 2, key_file=str(tmp_path / "wrong")).line()["rc"] == -EACCES
    logged(f"refused {host}, key {identity} (key): ")
    flood = 2000
    with g.net.worker[0].entered():
        for _ in range(flood):
            with socket.create_connection((g.net.address, PORT), 10 * SLOW) as s:
                s.sendall(b"G")
                s.shutdown(socket.SHUT_WR)
                s.recv(1)
    wait_until("all counts", lambda: g.net.json("status")["manager"]["refusals"]["malformed"] == flood)
    time.sleep(3.5)
    assert g.start(1, "other", 0, 2).line()["rc"] == -EDQUOT
    lines = [g.manager.stdout.readline()]
    while "(quota)" not in lines[-1]:
        lines.append(g.manager.stdout.readline())
    assert len(lines) < 60 and any(re.match(r"[0-9]+ lines? (was|were) dropped; fpisa status", line) for line in lines), lines
    counted = [int(line.split()[0]) for line in lines if " dropped" in line]
    assert sum(counted) + sum("(malformed)" in line for line in lines) == flood, lines


def test_no_manager_at_that_port(groups):
    """If a server closes connections without a message, the error says that it is not a manager."""
    g = groups(1)
    with g.net.agg.entered():
        other = listener(g.net.address, PORT + 1)
    with other:
        rank = g.start(0, "train", 0, 1, address=endpoint(g.net.address, PORT + 1))
        other.accept()[0].close()
        answer = rank.line()
    assert answer["rc"] == -ECONNRESET and "before any answer; is fpisa serve running there?" in answer["error"], answer


def test_formats_that_are_not_given(groups):
    g = groups(2, "formats = fp32", sections="[key train]\njobs = 1\nslots = 32\n")
    ranks = g.group("train", range(2), {"sum": "float32"}, {"sum": "float64"}, hold=True)
    check_sums(ranks, 2, "float32")
    assert [j["window"] for j in g.jobs()] == [32]
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == -EACCES and "the manager does not offer format fp64" in answer["error"]
    ranks = [g.start(h, "orders", h, 2, {"sum": ("float32", "float64")[h]}, hold=True) for h in range(2)]
    for rank in ranks:
        assert rank.line()["rc"] == 0
        assert rank.line()["rc"] in (-EPROTO, -EACCES)


@pytest.mark.parametrize("leaves", [True, False])
def test_who_is_late_hears_why_too(groups, tmp_path, leaves):
    """A late rank gets the reason too. It asks for a job after the other ranks were refused the job and have left or died. If its call is a
    different one, its error names the ranks that are gone."""
    g, summed, gone = groups(3, "formats = fp32,int32"), str(tmp_path / "summed"), str(tmp_path / "gone")
    refused = {"sum": "float32"}, {"until": summed}, {"sum": "float64", "anyway": True}, *[{"leave": True}] * leaves
    ranks = [g.start(h, "train", h, 3, *refused) for h in range(2)]
    late = g.start(2, "train", 2, 3, {"sum": "float32"}, {"until": gone}, *[{"sum": "float64", "anyway": True}] * 2)
    assert [late.line()["rc"] for _ in range(2)] == [0, 0]
    open(summed, "w").close()
    for rank in ranks:
        assert [rank.line()["rc"] for _ in range(3)] == [0, 0, -EACCES]
        rank.process.wait(COMMAND_S)
    wait_until("their end", lambda: [group["here"] for group in g.net.json("group", "list")] == [[2]])
    open(gone, "w").close()
    answers = [late.line() for _ in range(2)]
    assert [a["rc"] for a in answers] == [-EACCES, -ECONNRESET], answers
    assert answers[0]["error"].endswith("group train: the manager does not offer format fp64; add the format to formats in [manager]"), answers
    assert ("has left the group after 2 calls" if leaves else "gone: ") in answers[1]["error"], answers


@over_both
def test_a_killed_rank_is_named(groups):
    """All ranks name a killed rank within a second, whether they sum or wait. Afterwards the next group of that name works."""
    g = groups(3)

    def kill(victim):
        ranks = g.group("train", range(3), {"sum": "float32", "count": 20000, "times": FOR_EVER}, hold=True)
        time.sleep(0.5 * SLOW)
        killed = time.monotonic()
        ranks.pop(victim).kill()
        answers = [rank.line() for rank in ranks]
        for rank, answer in zip(ranks, answers):
            assert answer["rc"] == -ECONNRESET and answer["missing"] == 1 << victim, answer
            assert f"rank {victim} is gone: its process ended" in answer["error"]
            rank.kill()
        return max(a["ended"] for a in answers) - killed

    for victim in range(3):
        once_within(1, lambda: kill(victim))
    g.empty()


@pytest.mark.parametrize("turns", [8, pytest.param(100, marks=pytest.mark.long)])
def test_killed_at_random_moments(groups, turns):
    """If ranks are killed while they join, call or leave, the calls of the other ranks succeed or name the rank within a second, and the
    next group of that name works. No job, slot, pin or descriptor is left."""
    g, rng = groups(3), random.Random(draw_seed())
    check_sums(g.group("train", range(3), {"sum": "float32"}, {"leave": True}), 3, "float32")
    before = g.settle()

    def kill(victim, times, after_s):
        """Kill the rank. Return the seconds until all other ranks have named it."""
        steps = {"sum": "float32", "times": times}, {"leave": True}
        ranks = [g.start(h, "train", h, 3, *steps, join_timeout_ms=3000) for h in range(3)]
        time.sleep(after_s)
        killed = named = time.monotonic()
        ranks[victim].kill()
        for r, rank in enumerate(ranks):
            while r != victim:
                answer = rank.line()
                if answer["rc"] == 0 and "calls" not in answer and "pid" not in answer:
                    break  # the rank has already left
                if answer["rc"] == -ECONNRESET:
                    assert f"rank {victim} " in answer["error"], answer
                    assert "pid" in answer or answer["missing"] == 1 << victim  # after a failed join there is no group whose error could name the rank
                    named = max(named, answer["ended"])
                if answer["rc"]:
                    assert answer["rc"] in (-ECONNRESET, -ETIMEDOUT), answer  # this is the error of a join
                    break
            rank.end()
        g.ranks.clear()
        g.empty()
        return named - killed

    for turn in range(turns):
        times, after_s = rng.randrange(1, 200), rng.random() * 1.5
        once_within(1, lambda: kill(turn % 3, times, after_s))
    assert g.settle() == before
    check_sums(g.group("train", range(3), {"sum": "float32"}, hold=True), 3, "float32")


def test_a_child_holds_no_lease(groups):
    g = groups(2)

    def kill():
        ranks = g.group("train", range(2), {"sum": "float32"}, {"fork": True},
                        {"sum": "float32", "times": FOR_EVER, "pause": 0.01}, hold=True)
        check_sums(ranks, 2, "float32")
        wait_until("a child", lambda: children(ranks[0].process.pid))
        child = children(ranks[0].process.pid)[0]
        killed = time.monotonic()
        ranks[0].kill()
        answer = ranks[1].line()
        os.kill(child, signal.SIGKILL)
        ranks[1].kill()
        assert answer["rc"] == -ECONNRESET and answer["missing"] == 1, answer
        return answer["ended"] - killed

    once_within(1, kill)


@over_both
def test_a_host_that_vanishes(groups):
    """If a host vanishes, the other ranks get an error within 6 s."""
    g = groups(2)

    def cut_off():
        ranks = g.group("train", range(2), {"sum": "float32"}, {"sum": "float32", "times": FOR_EVER, "pause": 0.01}, hold=True)
        check_sums(ranks, 2, "float32")
        time.sleep(0.5)
        cut = time.monotonic()
        g.net.worker[0].run("nft", "table inet cut { chain in { type filter hook input priority 0; policy drop; }; "
                            "chain out { type filter hook output priority 0; policy drop; }; }")
        others, own = ranks[1].line(), ranks[0].line()
        assert others["rc"] == -ECONNRESET and others["missing"] == 1 and "its host does not answer" in others["error"]
        assert own["rc"] == -ETIMEDOUT and "neither the manager nor the aggregator has answered" in own["error"]
        assert g.net.address in own["error"]
        ranks[1].kill()
        g.empty()
        ranks[0].kill()
        g.net.worker[0].run("nft", "delete table inet cut")
        return others["ended"] - cut

    once_within(6, cut_off)


def test_calls_without_requests(groups):
    """A caller that uses on_done has no request. The caller learns about a vanished host although none of its threads waits in the
    library."""
    g = groups(2)

    def cut_off():
        ranks = g.group("train", range(2), {"told": 20}, {"told": FOR_EVER}, hold=True)
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == 0 and answer["calls"] == 20 and answer["first"] == 3, answer
        time.sleep(0.5)
        cut = time.monotonic()
        g.net.worker[0].run("nft", "table inet cut { chain in { type filter hook input priority 0; policy drop; }; "
                            "chain out { type filter hook output priority 0; policy drop; }; }")
        others, own = ranks[1].line(), ranks[0].line()
        assert others["rc"] == -ECONNRESET and "its host does not answer" in others["error"] and others["calls"] > 0, others
        assert own["rc"] == -ETIMEDOUT and "neither the manager nor the aggregator has answered for 6 s" in own["error"], own
        ranks[1].kill()
        g.empty()
        ranks[0].kill()
        g.net.worker[0].run("nft", "delete table inet cut")
        return own["ended"] - cut

    once_within(8, cut_off)


def test_threads_and_an_eventfd(groups):
    """Several threads start calls, each of its own type. One descriptor reports the ends of all calls, for existing and for new jobs."""
    g = groups(2)
    ranks = g.group("train", range(2), {"sum": "float32"}, {"threads": ["float32", "float64", "int32"], "times": 40}, {"sum": "float64"}, hold=True)
    check_sums(ranks, 2, "float32")
    for rank in ranks:
        answer = rank.line()
        assert (answer["rc"], answer["told"], answer["done"], answer["wrong"], answer["same"]) == (0, 120, 120, 0, True), answer
    check_sums(ranks, 2, "float64")


def test_calls_within_a_callback(groups):
    """Calls that do not wait are allowed in a callback, and so is the first call of a type."""
    g = groups(2)
    ranks = g.group("train", range(2), {"sum": "float32"}, {"within": "float64"}, {"sum": "float64"}, hold=True)
    check_sums(ranks, 2, "float32")
    for rank in ranks:
        answer = rank.line()
        assert answer["rcs"] == [0, -EBUSY, -EBUSY, 0] and answer["first"] == answer["last"] == 3, answer
    check_sums(ranks, 2, "float64")
    assert [j["format"] for j in g.jobs()] == ["fp32", "fp64"]


def test_a_death_while_a_callback_runs(groups):
    """A callback that takes seconds delays neither the report of a death nor the group's next job, because the manager's connection has its
    own thread (user/lib/link.h)."""
    g = groups(2)

    def kill():
        ranks = g.group("train", range(2), {"sum": "float32"}, {"callback": 40 * SLOW}, {"sum": "int32", "times": FOR_EVER, "pause": 0.01},
                        hold=True)
        check_sums(ranks, 2, "float32")
        assert [rank.line()["rc"] for rank in ranks] == [0, 0]
        wait_until("the second job", lambda: len(g.jobs()) == 2, 20)
        killed = time.monotonic()
        ranks[0].kill()
        answer = ranks[1].line()
        ranks[1].kill()
        assert answer["rc"] == -ECONNRESET and answer["missing"] == 1, answer
        return answer["ended"] - killed

    once_within(1, kill)


def test_slow_is_not_dead(groups):
    g = groups(2)
    slow = g.start(0, "train", 0, 2, {"sleep": 10}, {"sum": "float32"})
    fast = g.start(1, "train", 1, 2, {"sum": "float32"})
    answers = [[r.line(), r.line()] for r in (slow, fast)]
    assert all(a["rc"] == 0 for pair in answers for a in pair) and answers[1][1]["s"] > 7


@over_both
def test_who_leaves_early_is_named(groups):
    g = groups(2)
    one = g.start(0, "train", 0, 2, {"sum": "float32"}, {"leave": True}, hold=True)
    other = g.start(1, "train", 1, 2, {"sum": "float32"}, {"sleep": 1}, {"sum": "float32"})
    assert [one.line()["rc"] for _ in range(3)] == [0, 0, 0]
    assert [other.line()["rc"] for _ in range(2)] == [0, 0]
    answer = other.line()
    assert answer["rc"] == -ECONNRESET and "rank 0 has left the group after 1 calls" in answer["error"]


@pytest.mark.parametrize("late", [0, 1])
@over_both
def test_who_leaves_is_named_in_calls_of_another_type(groups, late):
    """A rank has left before the first call of a type. Every rank gets the same error, also a rank that makes that call after the other."""
    g = groups(3, "formats = fp32,int32,fp64")
    one = g.start(2, "train", 2, 3, {"sum": "float32"}, {"sleep": 0.5}, {"leave": True}, hold=True)
    others = [g.start(r, "train", r, 3, {"sum": "float32"}, *[{"sleep": 1}] * (r * late), {"sum": "int32", "anyway": True}, {"sum": "float64"}, hold=True)
              for r in range(2)]
    assert [one.line()["rc"] for _ in range(3)] == [0, 0, 0]
    for other in others:
        answers = [other.line() for _ in range(4)]
        assert [a["rc"] for a in answers] == [0, 0, -ECONNRESET, -ECONNRESET], answers
        assert all("rank 2 has left the group" in a["error"] and a["missing"] == 1 << 2 for a in answers[2:]), answers


class Stub:
    """A rank that is written only from doc/manager.md, without a key, and makes no sum"""
    JOIN, RETURN, ASK, BOUND, LEAVE, PING, JOINED, BIND, JOB, LEFT, PONG = 1, 2, 3, 4, 5, 6, 18, 19, 20, 22, 24

    def __init__(self, g, name, rank, size):
        self.net, self.place = g.net, (name.encode(), size, rank)
        self.begin(self.JOIN, 0, 0)

    def begin(self, kind, group, secret):
        worker = self.net.worker
        with worker[self.place[2] % len(worker)].entered():
            self.socket = socket.create_connection((self.net.address, PORT), 10 * SLOW)
        self.say(kind, struct.pack("<64sIIQQ", *self.place, group, secret))

    def say(self, kind, body):
        self.socket.sendall(job_requests.message(kind, body))

    def hear(self, kind):
        """Return the body of the next message of that kind. Skip other messages."""
        while True:
            m = b""
            while len(m) < 256:
                more = self.socket.recv(256 - len(m))
                assert more, "the manager has closed it"
                m += more
            if struct.unpack_from("<H", m, 6)[0] == kind:
                return m[16:]


def test_who_leaves_instead_of_joining_a_job(groups):
    """If a rank asks for a job, receives it and leaves, ranks that wait for it in that call get an error and do not wait forever."""
    g = groups(2, "without-key = yes")
    other = g.start(1, "train", 1, 2, {"sum": "float32"})
    one = Stub(g, "train", 0, 2)
    one.hear(one.JOINED)
    one.say(one.ASK, struct.pack("<IIBBBBHBBI", 0, 0, 1, 0, 0, 0, 0, 0, 0, 0))
    port, = struct.unpack_from("<H", one.hear(one.BIND), 4)
    one.say(one.BOUND, struct.pack("<IHH", 0, port, 0))
    one.hear(one.JOB)
    time.sleep(0.3)
    one.say(one.LEAVE, struct.pack("<QQ", 0, 0))
    assert other.line()["rc"] == 0
    answer = other.line()
    assert answer["rc"] == -ECONNRESET and "rank 0 has left the group after 0 calls" in answer["error"]
    one.socket.close()


def test_much_to_hear_at_its_return(groups):
    """If 60 of 64 ranks have left when the manager is restarted, a rank that reconnects is told about each of them, and stays in the
    group."""
    g = groups(1, "without-key = yes")
    ranks = [Stub(g, "train", r, 64) for r in range(64)]
    joined = [struct.unpack_from("<QQ", s.hear(s.JOINED)) for s in ranks]
    for s in ranks[4:]:
        s.say(s.LEAVE, struct.pack("<QII", s.place[2], s.place[2] % 3, 0))
    wait_until("60 to have left", lambda: [len(x["left"]) for x in g.net.json("group", "list")] == [60])
    g.kill()
    g.serve()
    for s, names in zip(ranks[:4], joined):
        s.socket.close()
        s.begin(s.RETURN, *names)
        left = [struct.unpack_from("<QIIQ", s.hear(s.LEFT)) for _ in range(60)]
        assert left == [(r, 0, r % 3, 1 << r) for r in range(4, 64)]
    time.sleep(1)
    for s in ranks[:4]:
        s.say(s.PING, b"")
        s.hear(s.PONG)
        s.socket.close()


@over_both
@pytest.mark.early
@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_manager_that_is_killed(groups, times):
    """Sums continue while the manager is dead. When a new manager runs, ranks reconnect, and a rank that dies afterwards is named at
    once."""
    g = groups(3)

    def kill():
        ranks = g.group("train", range(3), {"sum": "float32", "times": 35 * times, "pause": 0.05 * SLOW}, {"sum": "int32"},
                        {"sum": "float32", "times": FOR_EVER, "pause": 0.01}, hold=True)
        for _ in range(times):
            time.sleep(0.7 * SLOW)
            g.kill()
            time.sleep(0.3 * SLOW)
            assert "groups found: 1" in g.serve()
        for rank in ranks:
            for _ in range(2):
                answer = rank.line()
                assert answer["rc"] == 0, answer
        time.sleep(1 * SLOW)
        killed = time.monotonic()
        ranks[1].kill()
        answers = [ranks[r].line() for r in (0, 2)]
        assert all(a["rc"] == -ECONNRESET and a["missing"] == 2 for a in answers), answers
        for r in 0, 2:
            ranks[r].kill()
        g.empty()
        return max(a["ended"] for a in answers) - killed

    once_within(1, kill)


def test_keys_are_changed_under_a_group(groups, tmp_path):
    """The new key is added to the old key, then the old key is removed. A file with an error changes no setting. Sums are not disturbed."""
    g = groups(2)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")

    def change_and_kill():
        shutil.copy(g.key, old)
        ranks = g.group("train", range(2), {"sum": "float32", "times": FOR_EVER, "pause": 0.01}, hold=True)
        g.net.fpisa("key", "new", "train", g.key)
        with open(g.key) as f:
            both = f.readlines()
        for name, lines in (new, both[1:]), (g.key, both):
            with open(name, "w") as f:
                f.writelines(lines)
            os.chmod(name, 0o600)
        answer = g.start(0, "early", 0, 1, key_file=new).line()
        assert answer["rc"] == -EACCES and "does not accept key train:" in answer["error"]
        assert g.read_again() == "configuration read again; keys: 2\n"
        mixed = [g.start(h, "mixed", h, 2, {"sum": "float32"}, {"leave": True}, key_file=(old, new)[h]) for h in range(2)]
        for rank in mixed:
            assert [rank.line()["rc"] for _ in range(3)] == [0, 0, 0]
        shutil.copy(new, g.key)
        assert g.read_again() == "configuration read again; keys: 1\n"
        answer = g.start(0, "late", 0, 1, key_file=old).line()
        assert answer["rc"] == -EACCES and "does not accept key train:" in answer["error"]
        assert g.start(0, "late", 0, 1, {"leave": True}, key_file=new).line()["rc"] == 0
        # The name still belongs to the first group, so a rank with the other key is refused.
        answer = g.start(0, "train", 0, 2, key_file=new).line()
        assert answer["rc"] == -EEXIST
        # Each sum gives at least one result.
        job, = (j["job"] for j in g.jobs())
        so_far = g.net.counters(job, PIN)["v_result"]
        wait_until("sums after the changes", lambda: g.net.counters(job, PIN)["v_result"] > so_far + 10)
        killed = time.monotonic()
        ranks[0].kill()
        answer = ranks[1].line()
        assert answer["rc"] == -ECONNRESET and answer["missing"] == 1 and answer["calls"] > 0, answer
        ranks[1].kill()
        g.empty()
        return answer["ended"] - killed

    once_within(1, change_and_kill)


@over_both
def test_configuration_is_read_again(groups):
    """Formats, quotas and networks change when the configuration is read again. After an error all settings stay the same."""
    g = groups(2, sections="[key train]\ngroups = 1\n")
    with open(g.config) as f:
        text = f.read()

    def becomes(text):
        with open(g.config, "w") as f:
            f.write(text)
        g.manager.send_signal(signal.SIGHUP)

    ranks = g.group("train", range(2), {"sum": "float32", "times": FOR_EVER, "pause": 0.01}, hold=True)
    assert g.start(0, "other", 0, 2).line()["rc"] == -EDQUOT
    becomes(text.replace("groups = 1", "groups = 2").replace("[manager]", "[manager]\nformats = fp64"))
    assert g.said() == "configuration read again; keys: 1\n"
    others = g.group("other", range(2), {"sum": "float64"}, {"sum": "float32"}, hold=True)
    check_sums(others, 2, "float64")
    for rank in others:
        assert rank.line()["rc"] == -EACCES

    def goes_on(says):
        assert select.select([g.manager.stderr], [], [], COMMAND_S)[0], f"no answer to SIGHUP: {says}"
        said = [g.manager.stderr.readline()]
        while "continues with the previous configuration" not in said[-1]:
            said.append(g.manager.stderr.readline())
        assert any(says in line and g.config in line for line in said), said

    for wrong, says in (("frob = 1", "frob"), ("key-file = /nowhere\n[nothing]", "nothing")):
        becomes(text.replace("[manager]", f"[manager]\n{wrong}"))
        goes_on(says)
    # The pipe has no writer. The helper, which creates all jobs, does not wait for a writer.
    os.unlink(g.config)
    os.mkfifo(g.config)
    g.manager.send_signal(signal.SIGHUP)
    goes_on("is a pipe")
    os.unlink(g.config)
    assert g.start(0, "third", 0, 2).line()["rc"] == -EDQUOT
    becomes(text.replace("[manager]", "[manager]\nnetworks = 10.77.0.0/16"))
    assert g.said() == "configuration read again; keys: 1\n"
    assert g.start(0, "fourth", 0, 2).line()["rc"] < 0
    for rank in [*ranks, *others]:
        assert rank.process.poll() is None
        rank.kill()
    g.empty()


@over_both
def test_who_does_not_come_back(groups):
    g = groups(2)
    ranks = g.group("train", range(2), {"sum": "float32", "times": FOR_EVER, "pause": 0.01}, hold=True)
    g.kill()
    ranks[0].kill()
    g.serve()
    answer = ranks[1].line()
    assert answer["rc"] == -ECONNRESET and answer["missing"] == 1, answer
    assert "did not come back after the manager had been restarted" in answer["error"]


@pytest.mark.long
def test_one_manager_a_datapath(groups, tmp_path):
    """A second manager on a datapath waits for the first manager, then gives up and names the first manager's process."""
    g = groups(1)
    with open(tmp_path / "other.conf", "w") as f:
        f.write(f"[manager]\nwithout-key = yes\nport = {PORT + 1}\n")
    status, _, err = g.net.agg.try_run(FPISA, "serve", tmp_path / "other.conf")
    helper, = children(g.manager.pid)
    assert status == 1 and f"process {helper} is a manager of this datapath already; end that process, " in err
    assert f"process {helper} still serves this datapath; waiting up to 19 s for it to end" in err


@over_both
def test_verbs(groups):
    """The verbs list groups with their jobs, and end a group."""
    g = groups(2)
    assert g.net.json("group", "list") == []
    ranks = g.group("train", range(2), {"sum": "float32"}, {"sum": "float32", "times": FOR_EVER}, hold=True)
    check_sums(ranks, 2, "float32")
    job = g.jobs()[0]["job"]
    row = g.net.json("group", "list")[0]
    assert (row["name"], row["key"], row["size"], row["here"], row["jobs"]) == ("train", "train", 2, [0, 1], [job])
    assert row["left"] == row["gone"] == [] and 0 <= row["lives_s"] < 60 * SLOW
    assert g.net.json("group", "show", "train")[0]["members"] == g.net.addresses
    assert f"fpisa job show {job}" in g.net.fpisa("group", "show", "train")
    assert g.net.fpisa("group", "list").splitlines()[1].startswith("train ")
    status, _, err = g.net.agg.try_run(FPISA, "group", "kill", "other")
    assert status == 1 and "no such group" in err
    g.net.fpisa("group", "kill", "train")
    assert g.net.json("group", "list") == [] == g.jobs()
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == -ECONNRESET and answer["missing"] == 3 and "ended at the aggregator" in answer["error"]


@over_both
def test_a_group_that_gathers(groups):
    """The list shows the present and the missing ranks, until all ranks have joined or left, or their manager is gone."""
    g = groups(3)

    def shown(here, missing):
        rows = g.net.json("group", "list")
        return [(r["name"], r["here"], r["missing"], r["jobs"]) for r in rows] == [("train", here, missing, [])]

    first = g.start(1, "train", 1, 3, hold=True)
    wait_until("the first rank", lambda: shown([1], [0, 2]))
    assert g.net.fpisa("group", "list").splitlines()[1].endswith(", waits for 0,2")
    shows = g.net.fpisa("group", "show", "train")
    assert "gathers     " in shows and "   2  -                has not joined" in shows and f"   1  {g.net.addresses[1]:15}  here" in shows
    assert g.net.json("group", "show", "train")[0]["members"] == [None, g.net.addresses[1], None]
    status = g.net.fpisa("status")
    assert "; groups: 0, ranks: 0, jobs: 0" in status and " train, key train: size 3, joined ranks 1, waits for ranks 0,2\n" in status
    second = g.start(2, "train", 2, 3, hold=True)
    wait_until("the second", lambda: shown([1, 2], [0]))
    first.kill()
    wait_until("its end", lambda: shown([2], [0, 1]))
    assert g.net.json("group", "kill", "train") == {"done": "group kill", "group": "train", "groups": 1}
    assert g.net.json("group", "list") == [] and "ended at the aggregator" in second.line()["error"]
    third = g.start(0, "train", 0, 2)
    wait_until("the next of that name", lambda: shown([0], [1]))
    g.kill()
    assert third.line()["rc"] == -ECONNRESET
    wait_until("nobody", lambda: g.net.json("group", "list") == [])
    assert "groups found: 0" in g.serve() and g.net.json("group", "list") == []
    ranks = g.group("train", range(3), hold=True)
    wait_until("all", lambda: shown([0, 1, 2], []))
    for rank in ranks:
        rank.kill()


@over_both
def test_status_and_metrics(groups):
    """Status and metrics show the groups and events, even after managers were killed and when no manager runs."""
    g = groups(2, "key-groups = 1", "formats = fp32")

    def metrics():
        """Return the metrics, by name or by name and reason."""
        lines = [m.rsplit(" ", 1) for m in g.net.fpisa("stats", "--prometheus").splitlines() if m.startswith("fpisa_manager_")]
        return {name.removeprefix("fpisa_manager_"): int(value) for name, value in lines}

    ranks = g.group("train", range(2), {"sum": "float32"}, {"sum": "float64"}, hold=True)
    check_sums(ranks, 2, "float32")
    assert [rank.line()["rc"] for rank in ranks] == [-EACCES] * 2
    assert g.start(0, "other", 0, 2).line()["rc"] == -EDQUOT
    assert g.start(0, "other", 0, 2, key_file="").line()["rc"] == -EACCES
    wait_until("all counts", lambda: metrics()['refusals_total{reason="key"}'] == 1)
    job, status, m = g.jobs()[0]["job"], g.net.json("status")["manager"], metrics()
    assert status["pid"] == children(g.manager.pid)[0]
    (now,), (listed,) = status["groups"], g.net.json("group", "list")
    assert now == {**listed, "lives_s": now["lives_s"]} and 0 <= now["lives_s"] <= listed["lives_s"]
    assert (status["groups_made"], status["jobs_made"], status["ranks_gone"]) == (1, 1, 0)
    assert {r: n for r, n in status["refusals"].items() if n} == {"format": 1, "quota": 1, "key": 1}
    assert (m["up"], m["groups"], m["ranks"], m["jobs"]) == (1, 1, 2, 1)
    assert (m["groups_made_total"], m["jobs_made_total"], m["ranks_gone_total"]) == (1, 1, 0)
    assert all(m[f'refusals_total{{reason="{r}"}}'] == n for r, n in status["refusals"].items())
    text = g.net.fpisa("status")
    assert f"manager     process {status['pid']}; groups: 1, ranks: 2, jobs: 1\n" in text
    assert f" train, key train: size 2, joined ranks 0,1, job numbers {job}\n" in text
    g.kill()
    wait_until("the end of the helper", lambda: g.net.json("status")["manager"]["pid"] is None)
    assert metrics() == {**m, "up": 0} and "manager     not running any longer" in g.net.fpisa("status")
    g.serve()
    time.sleep(1 * SLOW)  # let the ranks reconnect
    ranks[0].kill()
    wait_until("a rank gone", lambda: metrics()["ranks_gone_total"] == 1)
    ranks[1].kill()
    g.empty()
    # The status also has the last counts of a manager that a signal ends.
    g.group("train", range(2), {"leave": True})
    wait_until("its end", lambda: not g.net.json("group", "list"))
    assert g.start(0, "other", 0, 2, key_file="").line()["rc"] == -EACCES
    g.kill(signal.SIGTERM)
    wait_until("the end of the helper", lambda: metrics()["up"] == 0)
    m = metrics()
    assert (m["groups_made_total"], m["jobs_made_total"], m["ranks_gone_total"]) == (2, 1, 2)
    assert m['refusals_total{reason="key"}'] == 2 and m["groups"] == m["ranks"] == m["jobs"] == 0


def test_a_job_that_is_deleted(groups):
    """If a job of a group is deleted by hand, the group ends too."""
    g = groups(2)
    ranks = g.group("train", range(2), {"sum": "float32"}, {"sum": "float32", "times": FOR_EVER}, hold=True)
    check_sums(ranks, 2, "float32")
    g.net.fpisa("job", "del", g.jobs()[0]["job"])
    assert [rank.line()["rc"] for rank in ranks] == [-ECONNRESET] * 2
    wait_until("its end", lambda: not g.net.json("group", "list"))


@over_both
def test_a_job_that_is_shrunk(groups):
    """`job shrink` refuses the job of a group. If another tool removes a rank, no rank gets a sum of fewer ranks."""
    g = groups(3)
    ranks = g.group("train", range(3), {"sum": "float32"}, {"sleep": 1 * SLOW}, {"sum": "float32", "times": FOR_EVER, "pause": 0.01},
                    hold=True)
    check_sums(ranks, 3, "float32")
    job = g.jobs()[0]["job"]
    shrink = FPISA, "job", "shrink", job, 2
    status, _, said = g.net.agg.try_run(*shrink)
    assert status == 1 and f"job {job} belongs to group train" in said and "fpisa group kill train" in said, said
    assert g.jobs()[0]["live"] == [0, 1, 2]
    os.rename(f"{PIN}/fpisa_groups", f"{PIN}/aside")  # simulate an older program, which does not check for groups
    g.net.agg.run(*shrink)
    os.rename(f"{PIN}/aside", f"{PIN}/fpisa_groups")
    for rank in ranks[:2]:
        answer = rank.line()
        assert answer["rc"] in (-ECONNRESET, -EREMOTEIO) and answer["missing"] == 1 << 2 and answer["first"] in (0, 6), answer
        assert "rank 2" in answer["error"] and "removed from the job" in answer["error"], answer
    assert ranks[2].line()["rc"] in (-ESTALE, -EREMOTEIO)


def test_without_its_helper(groups, tmp_path):
    """Without its helper the manager ends with an error, and the next manager finds the group."""
    g, leave = groups(2), str(tmp_path / "leave")
    ranks = g.group("train", range(2), {"sum": "float32", "times": 40, "pause": 0.1 * SLOW}, {"until": leave}, {"leave": True})
    wait_until("its record", lambda: g.net.json("group", "list"))
    os.kill(children(g.manager.pid)[0], signal.SIGKILL)
    assert g.manager.wait(COMMAND_S) == 1 and "the process that creates jobs is gone" in g.manager.stderr.read()
    end(g.manager)
    assert "groups found: 1" in g.serve()
    open(leave, "w").close()
    assert [rank.line()["rc"] for rank in ranks for _ in range(2)] == [0] * 4
    g.empty()


def test_it_dies_with_who_started_it(groups):
    """With PR_SET_PDEATHSIG the manager and its helper die with the manager's parent, even if the parent was killed. They die although they
    run as other users."""
    g = groups(1, serve=False)
    parent = ("import ctypes, subprocess, sys, time\n"
              "p = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9))\n"
              "time.sleep(60)")
    g.serve(sys.executable, "-c", parent)
    manager, = children(g.manager.pid)
    helper, = children(manager)
    g.kill()
    wait_until("the end of both", lambda: not alive(manager) and not alive(helper))


def test_unit_has_the_capabilities_it_needs(groups):
    """The capabilities of the unit are sufficient with pins of another Unix group. The manager creates a job and a group, another user
    runs its network process, and the manager reports that it is ready."""
    with open(os.path.join(TOP, "user", "system", "fpisa-manager.service.in")) as f:
        unit = dict(line.split("=", 1) for line in f.read().splitlines() if re.match(r"\w+=", line))
    assert unit["ExecStart"] == "@SBINDIR@/fpisa serve" and unit["Type"] == "notify"
    caps = ["+" + c.lower().removeprefix("cap_") for c in unit["CapabilityBoundingSet"].split()]
    g = groups(2, serve=False, load=("--group", "64321"))
    # Each missing capability makes the manager fail, so the test detects it.
    for without in caps:
        status, _, err = g.net.agg.try_run(*confined(c for c in caps if c != without), FPISA, "serve", g.config)
        assert status == 1, (without, err)
    with g.net.agg.entered():
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ready:
        ready.bind("\0notify")
        ready.settimeout(10 * SLOW)
        g.serve("env", "NOTIFY_SOCKET=@notify", *confined(caps))
        assert ready.recv(100) == b"READY=1"
    assert os.stat(os.path.join(PIN, "fpisa_groups")).st_gid == 64321
    # The maps of another family also belong to the Unix group of the pins.
    check_sums(g.group("train", range(2), {"sum": "float32"}, {"sum": "float64"}, hold=True), 2, "float32", "float64")


def test_hostile_connections(groups):
    """Silent connections, garbage and half a message do not disturb a group."""
    g = groups(2)
    ranks = g.group("train", range(2), {"sum": "float32", "times": 50, "pause": 0.05}, {"leave": True})
    with g.net.worker[0].entered():
        silent = [socket.create_connection((g.net.address, PORT)) for _ in range(100)]
        for first in b"\x16", job_requests.message(job_requests.JOIN)[:8], b"\x00":
            with socket.create_connection((g.net.address, PORT)) as s:
                try:
                    s.sendall(first + os.urandom(1000000))
                except OSError:
                    pass
        with socket.create_connection((g.net.address, PORT)) as s:
            s.sendall(job_requests.message(job_requests.JOIN) + bytes(5000))
            assert b"a key is needed here" in s.recv(256, socket.MSG_WAITALL)
        with socket.create_connection((g.net.address, PORT)) as half:
            half.sendall(job_requests.message(job_requests.JOIN)[:6])
    more = g.group("second", range(2), {"sum": "float32"}, hold=True)
    check_sums(more, 2, "float32")
    assert [rank.line()["rc"] for rank in ranks for _ in range(2)] == [0] * 4
    deadline = time.monotonic() + 10 * SLOW
    for s in silent:
        s.settimeout(max(0.1, deadline - time.monotonic()))
        assert b"no request for a group arrived" in s.recv(256, socket.MSG_WAITALL) and s.recv(1) == b""
        s.close()
    assert g.manager.poll() is None


def test_who_talks_to_the_network_may_nothing(groups):
    g = groups(1)
    with open(f"/proc/{g.manager.pid}/status") as f:
        status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 and status["NoNewPrivs"].strip() == "1"
    assert "0" not in status["Uid"].split()
    held = [os.readlink(f"/proc/{g.manager.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{g.manager.pid}/fd")]
    assert not [h for h in held if "bpf" in h]
    helper = children(g.manager.pid)[0]
    g.kill(signal.SIGTERM)
    wait_until("the end of the helper", lambda: not os.path.exists(f"/proc/{helper}"))


def test_descriptors_of_the_helper(groups):
    """Before the helper serves, it says how many descriptors it needs, and raises its limit as far as allowed."""
    g = groups(2, serve=False)
    status, out, err = g.net.agg.try_run("prlimit", "--nofile=159:159", FPISA, "serve", g.config)
    assert status == 1 and out == "" and "fpisa: serve: the process that creates jobs needs 160 descriptors, but its limit is 159; run ulimit -n 160" in err
    g.serve("prlimit", "--nofile=100:160")
    for job, kind in enumerate(("float32", "float64", "int32")):
        ranks = g.group(f"train-{job}", range(2), {"sum": kind, "count": 5000}, {"leave": True})
        assert all(rank.line()["rc"] == 0 for rank in ranks)
    g.settle()
