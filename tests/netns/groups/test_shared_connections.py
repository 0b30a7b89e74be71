# SPDX-License-Identifier: GPL-2.0-only
"""Test groups of a process that share its connection to the manager (options.share)."""
import os
import shutil
import signal
import struct
import time

import pytest

import job_requests
from job_requests import JOINED, LEAVE, PENDING, REFUSED
from groups import Groups
from lab import PORT, SLOW, once_within, wait_until

EACCES, EEXIST, ENOENT, ECONNRESET = 13, 17, 2, 104
pytestmark = pytest.mark.families(spread=True)


def connections(g):
    """Count the connections of ranks at the manager."""
    return len(g.net.agg.run("ss", "-Htn", "state", "established", "sport", "=", f":{PORT}").splitlines())


def right(ranks, steps, size):
    """Check the next answers of the ranks, whose sums have `size` ranks."""
    for rank in ranks:
        for _ in range(steps):
            answer = rank.line()
            assert answer["rc"] == 0 and answer.get("first", size * (size + 1) / 2) == size * (size + 1) / 2, answer


def halves(g, first, *steps, **more):
    """Let four ranks join a group, make the steps `first` of it, and join a group of two. Return the ranks, whose next steps are given as
    functions of the rank."""
    return [g.start(r, "world", r, 4, *first, {"join": f"half{r // 2}", "rank": r % 2, "size": 2}, *(step(r) for step in steps), **more)
            for r in range(4)]


def in_half(step):
    return lambda r: {"in": f"half{r // 2}", **step}


@pytest.mark.parametrize("share", (1, 0))
def test_connections(groups, share):
    """A process has one connection for all groups that share it, and otherwise one for each. Sums of all groups are right."""
    g = groups(4)
    ranks = halves(g, [{"sum": "float32"}], in_half({"sum": "float32"}), in_half({"sum": "int32"}), hold=True, share=share)
    right(ranks, 2, 4)
    right(ranks, 3, 2)
    assert connections(g) == (4 if share else 8)


def test_killed_rank(groups):
    """The death of a process is named within 1 s in each of its groups. A group without this process goes on."""
    g = groups(4)

    def killed():
        go = os.path.join(g.folder, f"go{time.monotonic()}")
        ranks = halves(g, [{"sum": "float32"}], in_half({"sum": "float32"}), lambda r: {"sum": "float32", "late": 1000 * (r == 1), "anyway": True},
                       lambda r: {"until": go}, in_half({"sum": "float32", "anyway": True}), hold=True, share=1)
        right(ranks[:1] + ranks[2:], 2, 4)
        right(ranks[:1] + ranks[2:], 2, 2)
        ranks[1].kill()
        began = time.monotonic()
        for r in 0, 2, 3:
            answer = ranks[r].line()
            assert answer["rc"] == -ECONNRESET and answer["missing"] == 1 << 1 and "rank 1 is gone: its process ended" in answer["error"], answer
            late = answer["ended"] - began
        with open(go, "w"):
            answers = [ranks[r].line() for r in (0, 2, 3)]
        assert answers[0]["rc"] == -ECONNRESET and answers[0]["missing"] == 1 << 1 and answers[0]["s"] < 1 * SLOW, answers[0]
        assert [a["rc"] for a in answers[1:]] == [0, 0], answers
        for rank in ranks:
            rank.kill()
        g.settle()
        return late

    once_within(1, killed)


@pytest.mark.parametrize("first", ("world", "half"))
def test_leaving(groups, first):
    """A group ends while another goes on over the same connection, in either order. Another group joins over it afterwards. The last group
    that is left ends the connection."""
    g = groups(4)
    of = {"world": lambda step: lambda r: step, "half": in_half}
    goes_on = of["half" if first == "world" else "world"]

    def again(step):
        return lambda r: {"in": f"again{r // 2}", **step}

    ranks = halves(g, [{"sum": "float32"}], in_half({"sum": "float32"}), of[first]({"leave": True}), goes_on({"sum": "float32"}),
                   lambda r: {"join": f"again{r // 2}", "rank": r % 2, "size": 2}, again({"sum": "float64"}), goes_on({"leave": True}),
                   again({"sum": "float64"}), lambda r: {"until": os.path.join(g.folder, "go")}, again({"leave": True}), hold=True, share=1)
    size = 2 if first == "world" else 4
    right(ranks, 2, 4)
    right(ranks, 3, 2)
    right(ranks, 2, size)
    right(ranks, 3, 2)
    assert connections(g) == 4
    names = {group["name"] for group in g.net.json("group", "list")}
    assert names == {"again0", "again1"}
    with open(os.path.join(g.folder, "go"), "w"):
        right(ranks, 1, 2)
    g.settle()


def test_refused(groups):
    """A refused group leaves the other groups of the connection as they are."""
    g = groups(2)
    other = g.start(1, "taken", 0, 1, {"sum": "float32"}, hold=True)
    assert [other.line()["rc"] for _ in range(2)] == [0, 0]
    rank = g.start(0, "own", 0, 1, {"sum": "float32"}, {"join": "taken", "rank": 0, "size": 1, "anyway": True}, {"sum": "float32"},
                   {"join": "third", "rank": 0, "size": 1}, {"in": "third", "sum": "int32"}, hold=True, share=1)
    answers = [rank.line() for _ in range(6)]
    assert [a["rc"] for a in answers] == [0, 0, -EEXIST, 0, 0, 0], answers
    assert "group taken: a group of this name exists" in answers[2]["error"]
    assert connections(g) == 2


@pytest.fixture
def own_key(groups, tmp_path):
    """Yield groups of one worker, a file with a copy of the manager's key, and start(), which starts a rank that makes steps in group
    "first", then waits for pass_on(), then tries to join "second" and makes the steps of the arguments."""
    g = groups(1)
    own, go = str(tmp_path / "own"), str(tmp_path / "go")
    shutil.copy(g.key, own)

    def start(share, *steps):
        rank = g.start(0, "first", 0, 1, {"sum": "float32"}, {"until": go}, {"join": "second", "rank": 0, "size": 1, "anyway": True}, *steps,
                       hold=True, share=share, key_file=own)
        assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
        return rank

    def pass_on():
        with open(go, "w"):
            pass

    return g, own, start, pass_on


def new_key(g, name):
    """Replace the manager's keys by a new key."""
    os.unlink(g.key)
    g.net.fpisa("key", "new", name, g.key)
    assert g.read_again() == "configuration read again; keys: 1\n"


@pytest.mark.parametrize("share", (1, 0))
def test_a_key_is_removed(own_key, tmp_path, share):
    """A rank whose key the manager no longer has cannot join another group, over a new connection or over the one that it has. Its group
    goes on. When the manager has the key again, the rank can join."""
    g, own, start, pass_on = own_key
    again = str(tmp_path / "again")
    rank = start(share, {"sum": "int32"}, {"until": again}, {"join": "third", "rank": 0, "size": 1}, {"in": "third", "sum": "float32"})
    new_key(g, "train")
    pass_on()
    answer = rank.line()
    with open(own) as f:
        identity = f.read().rsplit(":", 1)[0]
    assert answer["rc"] == -EACCES and f"the manager does not accept key {identity}" in answer["error"], answer
    assert rank.line()["rc"] == 0
    assert [group["name"] for group in g.net.json("group", "list")] == ["first"]
    assert connections(g) == 1
    shutil.copy(own, g.key)
    assert g.read_again() == "configuration read again; keys: 1\n"
    with open(again, "w"):
        assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
    assert connections(g) == (1 if share else 2)


@pytest.mark.parametrize("share", (1, 0))
def test_a_network_is_removed(own_key, share):
    """A rank whose host `networks` no longer contains cannot join another group, over a new connection or over the one that it has. Its
    group goes on."""
    g, _, start, pass_on = own_key
    rank = start(share, {"sum": "float32"})
    with open(g.config, "a") as f:
        f.write("networks = 192.0.2.0/24\n")
    assert g.read_again() == "configuration read again; keys: 1\n"
    pass_on()
    answers = [rank.line() for _ in range(2)]
    assert [a["rc"] for a in answers] == [-EACCES, 0] and "is not in a network that may ask for groups" in answers[0]["error"], answers
    assert [group["name"] for group in g.net.json("group", "list")] == ["first"]


@pytest.mark.parametrize("share", (1, 0))
def test_a_key_is_replaced(own_key, share):
    """A group that a rank joins after its key file has changed belongs to the new key. The next group of the same key shares its connection."""
    g, own, start, pass_on = own_key
    rank = start(share, {"in": "second", "sum": "float32"}, {"join": "third", "rank": 0, "size": 1}, {"sum": "float32"})
    new_key(g, "other")
    shutil.copy(g.key, own)
    pass_on()
    answers = [rank.line() for _ in range(4)]
    assert [a["rc"] for a in answers] == [0] * 4, answers
    assert {group["name"]: group["key"] for group in g.net.json("group", "list")} == {"first": "train", "second": "other", "third": "other"}
    assert connections(g) == (2 if share else 3)


@pytest.mark.parametrize("share", (1, 0))
def test_a_key_file_disappears(own_key, share):
    """Without its key file, a rank cannot join another group. The error names the file."""
    g, own, start, pass_on = own_key
    rank = start(share, {"sum": "int32"})
    os.unlink(own)
    pass_on()
    answers = [rank.line() for _ in range(2)]
    assert [a["rc"] for a in answers] == [-ENOENT, 0] and f"{own}: No such file or directory; create a key file" in answers[0]["error"], answers
    assert connections(g) == 1


@pytest.mark.parametrize("threads,taken", ((2, False), (8, False), (8, True)))
def test_joins_while_the_last_group_ends(groups, threads, taken):
    """Threads join and leave groups of their own over one connection, and every join succeeds, although the connection's last group often
    leaves at that time. With `taken`, the manager often refuses the last group."""
    g = groups(2)
    other = g.start(1, "taken", 0, 1, hold=True)
    assert other.line()["rc"] == 0
    storm = {"storm": 400 // threads, "threads": threads, **({"taken": "taken"} if taken else {})}
    rank = g.start(0, "own", 0, 1, {"leave": True}, storm, hold=True, share=1)
    assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
    answer = rank.line()
    assert answer["errors"] == [], (len(answer["errors"]), set(answer["errors"]))
    assert {group["name"] for group in g.net.json("group", "list")} == {"taken"}


def test_restart(groups):
    """After a restart of the manager, all groups of the connection return, and get jobs for further types."""
    g = groups(4)
    go = os.path.join(g.folder, "go")
    ranks = halves(g, [{"sum": "float32"}], in_half({"sum": "float32"}), lambda r: {"until": go}, in_half({"sum": "float64"}),
                   in_half({"sum": "float32"}), hold=True, share=1)
    right(ranks, 2, 4)
    right(ranks, 2, 2)
    g.kill()
    g.serve()
    wait_until("the ranks to return", lambda: connections(g) == 4)
    with open(go, "w"):
        right(ranks, 2, 2)
    assert connections(g) == 4
    for rank in ranks:
        rank.kill()
    g.settle()


def test_join_while_the_manager_is_silent(groups, tmp_path):
    """A join over a connection that has been silent for nearly 6 s waits as long for the manager as another join."""
    g, go = groups(2), tmp_path / "go"
    ranks = [g.start(r, "first", r, 2, {"sum": "float32"}, {"until": str(go)}, {"join": "second", "rank": r, "size": 2}, {"in": "second", "sum": "float32"},
                     hold=True, share=1) for r in range(2)]
    right(ranks, 2, 2)
    g.manager.send_signal(signal.SIGSTOP)
    time.sleep(5)
    go.touch()
    time.sleep(2.5)
    g.manager.send_signal(signal.SIGCONT)
    right(ranks, 2, 2)
    assert connections(g) == 2


def test_more_groups_than_a_connection_has(groups):
    """With 192 ranks in one process, of three groups, the process opens another connection, and all ranks join. Threads that join at once may
    open several."""
    g = groups(1)
    rank = g.start(0, "own", 0, 1, {"crowd": 192}, hold=True, share=1)
    assert rank.line()["rc"] == 0
    answer = rank.line()
    assert answer["rc"] == 0 and answer["errors"] == [""], answer
    assert 1 < connections(g) < 20


@pytest.fixture
def without_key(lab, tmp_path):
    """Yield a connection to a manager without keys, whose rank 0 of 64 ranks of group crowd0 has asked to join."""
    net = lab(workers=1)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    g.serve()
    yield job_requests.Rank(net.worker[0], "crowd0", 0, 64, net.address)
    g.close()


def test_the_limit_of_a_connection(without_key):
    """A connection has 128 groups besides number 0. The next one is refused, and the others continue. When one has left, another joins."""
    c, joined = without_key, set()

    def answer(number, kinds):
        """Read messages until one of these kinds with this number. Return its kind and its body. Note which numbers have joined."""
        while True:
            m = c.next()
            kind, of = struct.unpack_from("<HQ", m, 6)
            joined.update([of] * (kind == JOINED))
            if of == number and kind in kinds:
                return kind, m[16:]

    def join(number, rank):
        c.join(f"crowd{rank // 64}", rank % 64, 64, number)
        return answer(number, (PENDING, JOINED, REFUSED))

    assert REFUSED not in [join(i, i)[0] for i in range(1, 129)]
    kind, body = join(129, 129)
    assert kind == REFUSED and body[16:].rstrip(b"\0").decode() == "the connection has too many groups; join with another connection"
    assert joined == set(range(128))
    for i in range(63):
        c.say(LEAVE, bytes(16), 64 + i)
        assert join(130 + i, 129 + i)[0] != REFUSED
    assert joined >= {128, 192}
