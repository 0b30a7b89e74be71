# SPDX-License-Identifier: GPL-2.0-only
"""A manager is killed while its helper has many requests. The helper completes them, and the next manager reads the results."""
import json
import os
import signal
import struct
import time

import pytest

from groups import Groups
from job_requests import REFUSED
from lab import SLOW, children, wait_until
from test_groups import Stub

pytestmark = pytest.mark.families(spread=True)

ENOSPC, ECONNRESET, ETIMEDOUT = 28, 104, 110


def test_what_it_had_asked_for(lab, tmp_path):
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        helper, = children(g.manager.pid)
        os.kill(helper, signal.SIGSTOP)
        time.sleep(1.5 * SLOW)  # the manager first sends a request whose answer is never read
        ranks = g.group("train", range(2), {"sum": "float32", "times": 20}, {"leave": True})
        time.sleep(0.5 * SLOW)  # the ranks ask for a job
        g.kill()
        os.kill(helper, signal.SIGCONT)
        assert "groups found: 1" in g.serve()
        for rank in ranks:
            assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
        g.empty()
    finally:
        g.close()


@pytest.mark.long
def test_a_manager_that_does_not_come_back(lab, tmp_path):
    """After the manager's death, a rank that asks for a job gets an error that names the manager. A rank that already has its jobs
    continues."""
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        ranks = g.group("train", range(2), {"sum": "float32"}, {"sleep": 1}, {"sum": "float32", "times": 340, "pause": 0.1}, {"sum": "int32"})
        for rank in ranks:
            assert rank.line()["rc"] == 0
        g.kill()
        for rank in ranks:
            assert rank.line()["rc"] == 0
        killed = time.monotonic()
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == -ETIMEDOUT and answer["ended"] - killed < 12 * SLOW, answer
            assert f"{net.address}: group train: the manager has not answered for 30 s" in answer["error"], answer
    finally:
        g.close()


@pytest.fixture
def served(lab, tmp_path):
    """Yield the groups of a manager that serves two workers, without keys."""
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    g.serve()
    yield g
    g.close()


def named(served, answer):
    """Check the error of a rank that got no answer from a manager. Its call lasts about the 6 s in faults.md, not the 30 s of other errors."""
    assert answer["rc"] == -ETIMEDOUT, answer
    assert f"{served.net.address}: group train: the manager has not answered for 6 s" in answer["error"], answer
    assert answer["s"] < 15 * SLOW, answer


def test_a_manager_that_is_gone_at_the_first_job(served, tmp_path):
    gone = str(tmp_path / "gone")
    ranks = served.group("train", range(2), {"until": gone}, {"sum": "float32"}, hold=True)
    served.kill()
    open(gone, "w").close()
    for rank in ranks:
        named(served, rank.line())


def test_a_manager_that_never_answers(served):
    """While the manager is stopped, connections are accepted but not answered, and joins fail in time."""
    served.manager.send_signal(signal.SIGSTOP)
    named(served, served.start(0, "train", 0, 2, join_timeout_ms=60000).line())
    served.manager.send_signal(signal.SIGCONT)


def test_first_packets_that_are_lost(served):
    """If the first packets of a join are lost, the rank retries for as long as it would wait for an answer."""
    wall = "table inet cut { chain out { type filter hook output priority 0; tcp dport 18000 drop; }; }"
    worker = served.net.worker
    worker[0].run("nft", wall)
    ranks = [served.start(h, "train", h, 2, {"sum": "float32"}) for h in range(2)]
    time.sleep(2)
    worker[0].run("nft", "delete table inet cut")
    assert [rank.line()["rc"] for rank in ranks for _ in range(2)] == [0] * 4
    worker[0].run("nft", wall)
    named(served, served.start(0, "train", 0, 2, join_timeout_ms=60000).line())


@pytest.mark.long
def test_a_host_that_is_gone_at_a_later_job(served, tmp_path):
    """If the manager's host is gone when a rank asks for a later job, neither the manager nor the datapath answers, and the call fails."""
    gone = str(tmp_path / "gone")
    ranks = served.group("train", range(2), {"sum": "float32"}, {"until": gone}, {"sum": "int32"}, hold=True)
    for rank in ranks:
        assert rank.line()["rc"] == 0
    served.net.worker[0].run("nft", "table inet cut { chain in { type filter hook input priority 0; policy drop; }; "
                             "chain out { type filter hook output priority 0; policy drop; }; }")
    open(gone, "w").close()
    named(served, ranks[0].line())


@pytest.mark.long
def test_a_rank_that_was_stopped(served):
    """Time in which a rank was stopped does not count as silence, so the rank continues to wait for its first job."""
    ranks = [served.start(h, "train", h, 2, *steps, {"sum": "float32"}) for h, steps in enumerate(((), ({"sleep": 9},)))]
    assert [rank.line()["rc"] for rank in ranks] == [0, 0]
    time.sleep(0.3)
    ranks[0].kill(signal.SIGSTOP)
    time.sleep(7)
    ranks[0].kill(signal.SIGCONT)
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0, answer


@pytest.mark.parametrize("lost", [False, True])
def test_a_rank_that_leaves_while_it_comes_back(served, tmp_path, lost):
    """If a rank leaves while its connection waits for the link-layer address of the next hop or has failed, the error of the other ranks says
    that it has left, not that it died."""
    leave, worker = str(tmp_path / "leave"), served.net.worker[0]
    ranks = [served.start(0, "train", 0, 2, {"sum": "float32"}, {"until": leave}, {"leave": True}, {"sleep": 60}),
             served.start(1, "train", 1, 2, {"sum": "float32"}, {"sum": "float32"})]
    assert [rank.line()["rc"] for rank in ranks for _ in range(2)] == [0] * 4
    hop = served.net.host(1, 1)
    gateway, = json.loads(worker.run("ip", "-j", "neigh", "show", "to", hop, "dev", "eth0"))
    worker.run("nft", "table netdev cut { chain in { type filter hook ingress device eth0 priority 0; ether type arp drop; "
               "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } drop; }; }")
    served.kill()
    worker.ip(f"neigh del {hop} dev eth0")
    served.serve()

    def connecting():
        return worker.run("ss", "-Htn", "state", "syn-sent")

    wait_until("the end of the call that began before", lambda: not connecting())
    first = wait_until("the next call", connecting)
    open(leave, "w").close()
    if lost:
        wait_until("another call", lambda: connecting() not in ("", first))
    else:
        time.sleep(0.1)
    worker.ip(f"neigh replace {hop} lladdr {gateway['lladdr']} dev eth0")
    assert ranks[0].line()["rc"] == 0
    answer = ranks[1].line()
    assert answer["rc"] == -ECONNRESET and "rank 0 has left the group after 1 calls" in answer["error"], answer


def test_a_refusal_that_not_all_ranks_have_heard(lab, tmp_path):
    """A manager is killed when it has refused a job to one rank and not yet to the other, which asks the next manager again. The first
    rank does not ask again, and its report ends the other rank's wait."""
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes", "jobs = 5")
    try:
        g.serve()
        holder = g.start(1, "holder", 0, 1, {"sum": "float32"}, hold=True)
        assert [holder.line()["rc"] for _ in range(2)] == [0, 0]
        one, other = Stub(g, "train", 0, 2), g.start(1, "train", 1, 2, {"sum": "float32", "anyway": True}, {"sleep": 60})
        joined = struct.unpack_from("<QQ", one.hear(one.JOINED))
        ask = struct.pack("<IIBBBBHBBI", 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
        one.say(one.ASK, ask)
        answers = [other.line() for _ in range(2)]
        assert [a["rc"] for a in answers] == [0, -ENOSPC], answers
        g.kill()
        one.socket.close()
        g.serve()
        one.begin(one.RETURN, *joined)
        one.say(one.ASK, ask)
        one.socket.settimeout(20 * SLOW)
        assert b"rank 1 cannot continue: " in one.hear(REFUSED)
    finally:
        g.close()
