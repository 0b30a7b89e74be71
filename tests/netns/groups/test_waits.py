# SPDX-License-Identifier: GPL-2.0-only
"""Every wait has a limit, and no call blocks for other ranks before the program waits for it (doc/faults.md, "What ends each wait")."""
import random
import shutil
import time

import pytest

from groups import Groups, within
from lab import SLOW, draw_seed, once_within

pytestmark = pytest.mark.families(spread=True)

EMFILE, EBUSY, EPROTO, ECONNRESET, ETIMEDOUT, EREMOTEIO = 24, 16, 71, 104, 110, 121
FOR_EVER = 10**6
TOLD_S = 15 * SLOW  # half the time after which a rank that is not told anything gives up


@pytest.fixture
def served(lab, tmp_path):
    """Yield the groups of a manager that serves three workers, without keys."""
    net = lab(workers=3)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    g.serve()
    yield g
    g.close()


def start(g, *steps, name="train", **options):
    """Start two ranks, each with its own steps, and wait until both have joined."""
    ranks = [g.start(r, name, r, 2, *steps[r], **{k: v[r] for k, v in options.items()}) for r in range(2)]
    for rank in ranks:
        assert rank.line()["rc"] == 0
    return ranks


def test_a_call_that_has_failed_is_told(served, tmp_path):
    """Each rank has its own deadlines. After its deadline a rank stays or leaves, and the others do not wait for it."""
    small, large = {"sum": "float32"}, {"sum": "float32", "count": 300000, "anyway": True}
    for leaves in (False, True):
        failed = tmp_path / f"failed{leaves}"
        ranks = start(served, [small, {**large, **within(2000)}, *[{"leave": True}] * leaves, {"sleep": 60}],
                      [small, {"until": str(failed)}, large, small], name=f"leaves{leaves}")
        assert [rank.line()["rc"] for rank in ranks] == [0, 0]
        answer = ranks[0].line()
        assert answer["rc"] == -ETIMEDOUT and "rank 1 sent nothing" in answer["error"], answer
        failed.touch()
        for _ in range(2):
            answer = ranks[1].line()
            if answer["rc"] == -ECONNRESET:
                assert leaves and "rank 0 has left" in answer["error"], answer
            else:
                assert answer["rc"] == -EREMOTEIO and "rank 0 cannot continue: " in answer["error"], answer
                assert "rank 1 sent nothing for chunk 0" in answer["error"] and answer["missing"] == 1, answer
            assert answer["s"] < TOLD_S, answer
        for rank in ranks:
            rank.kill()


def test_types_in_another_order(served):
    """The manager detects ranks that wait in different jobs, after both have used both types."""
    both = {"sum": "float32"}, {"sum": "int32"}
    ranks = start(served, [*both, {"sum": "float32", "anyway": True}, {"sleep": 60}], [*both, {"sum": "int32", "anyway": True}, {"sleep": 60}])
    for rank in ranks:
        assert [rank.line()["rc"] for _ in both] == [0, 0]
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == -EPROTO and answer["missing"] == 3 and answer["s"] < TOLD_S, answer
        assert "call 3 of rank " in answer["error"] and "whatever their types" in answer["error"], answer


def test_types_in_another_order_at_once(served):
    """If ranks make calls of different types, all calls end with -EPROTO, whichever job a rank waits for."""
    both = {"sum": "float32"}, {"sum": "int32"}
    ranks = start(served, *[[*both, {"queue": types, "anyway": True}, {"sleep": 60}] for types in (["float32", "int32"], ["int32", "float32"])])
    for rank in ranks:
        assert [rank.line()["rc"] for _ in both] == [0, 0]
    for rank in ranks:
        answer = rank.line()
        assert answer["rcs"] == [-EPROTO, -EPROTO], answer


def test_a_barrier_after_different_calls(served):
    """A barrier in a job that different calls have ended ends the group on all ranks, and every later call gets the barrier's error."""
    ranks = start(served, *[[{"sum": "float32"}, {"sum": "float32", "count": count, "anyway": True}, {"sleep": 1},
                             {"barrier": True, "anyway": True}, {"sum": "float64", "anyway": True}, {"sleep": 60}]
                            for count in (10, 20)])
    for rank in ranks:
        answers = [rank.line() for _ in range(4)]
        assert [a["rc"] for a in answers] == [0, -EPROTO, -EPROTO, -EPROTO], answers
        assert answers[2]["error"] == answers[3]["error"], answers


def test_a_rank_without_descriptors(served):
    """If a rank cannot open its port of a job, the other ranks get the reason. The group continues with its other jobs."""
    steps = {"sum": "float32"}, {"sum": "int32", "anyway": True}, {"sum": "float32"}
    for free in range(3):
        ranks = start(served, [steps[0], {"descriptors": free}, *steps[1:], {"sleep": 60}], [*steps, {"sleep": 60}], name=f"few{free}")
        answers = [[rank.line() for _ in steps] for rank in ranks]
        rcs = [[a["rc"] for a in answer] for answer in answers]
        if free < 2:
            assert rcs == [[0, -EMFILE, 0], [0, -EREMOTEIO, 0]], answers
            assert "rank 0 cannot continue: " in answers[1][1]["error"] and "Too many open files" in answers[1][1]["error"], answers
        for rank in ranks:
            rank.kill()


def test_types_over_af_xdp(served):
    """The first type of a group gets the queue of the interface, and the other types use UDP."""
    steps = {"sum": "float32"}, {"sum": "int32"}, {"broadcast": [1000]}, {"sum": "float64"}, {"sum": "float32"}
    for rank in start(served, steps, steps, transport=(1, 1)):
        for _ in steps:
            answer = rank.line()
            assert answer["rc"] == 0 and answer.get("wrong", 0) == 0 and answer.get("first", 3) == 3, answer


def test_a_queue_that_another_has(served):
    """If AF_XDP is not available on one rank, all ranks get an error that names the rank and the reason, and continue with another type."""
    other = served.start(0, "other", 0, 1, {"sum": "float32"}, hold=True, transport=1)
    assert [other.line()["rc"] for _ in range(2)] == [0, 0]
    steps = {"sum": "float32", "anyway": True}, {"sum": "int32"}
    answers = [[rank.line() for _ in steps] for rank in start(served, steps, steps, transport=(1, 0))]
    assert [[a["rc"] for a in answer] for answer in answers] == [[-EBUSY, 0], [-EREMOTEIO, 0]], answers
    assert "rank 0 cannot continue: " in answers[1][0]["error"] and "AF_XDP" in answers[1][0]["error"], answers


def test_a_first_call_returns_at_once(served):
    """Calls of three types return at once, and their requests wait for the other rank. When the other rank joins, the calls are sent in
    order."""
    types = ["float32", "float64", "int32", "float32", "int32"]

    def times():
        """Return the time of the starts, and how much shorter than the other rank's delay the wait was."""
        ranks = start(served, [{"queue": types}, {"barrier": True}, {"leave": True}],
                      [{"sleep": 2}, {"queue": types}, {"barrier": True}, {"leave": True}])
        answers = [rank.line() for rank in ranks]
        for answer in answers:
            assert answer["rcs"] == [0] * 5 and answer["wrong"] == 0, answer
        assert [rank.line()["rc"] for rank in ranks for _ in range(2)] == [0] * 4
        served.empty()
        return max(answer["started"] for answer in answers), 2 - answers[0]["s"]

    once_within((1, 0.5), times)


def test_the_deadline_of_a_first_call(served):
    """A first call that the other rank never makes ends at its deadline. A later call of another type has its own deadline."""
    def times():
        ranks = start(served, [{"queue": ["float32", "float32"]}], [{"sleep": 3}, {"sum": "float32"}], timeout_ms=(1000, 0))
        first = ranks[0].line()
        assert first["rcs"] == [-ETIMEDOUT] * 2 and "no job in 1000 ms" in first["errors"][0] and first["s"] > 0.9, first
        answer = ranks[1].line()
        assert answer["rc"] in (-EREMOTEIO, -ECONNRESET), answer
        served.empty()
        return first["started"], first["s"]

    once_within((0.5, 2), times)


def test_who_dies_or_leaves_while_a_first_call_waits(served):
    for how, says in (({"leave": True}, "rank 1 has left"), (None, "rank 1 is gone")):
        ranks = start(served, [{"queue": ["float32"]}], [{"sleep": 1}, *[how] * (how is not None)], name=f"w{how is None}")
        answer = ranks[0].line()
        assert answer["rcs"] == [-ECONNRESET] and says in answer["errors"][0] and answer["s"] < TOLD_S, answer


def test_the_manager_is_gone_then_a_rank(served):
    """Sums continue without the manager. A death is not reported meanwhile, but a call that gets no result for 30 s ends."""
    ranks = served.group("train", range(2), {"sum": "float32"}, {"sum": "float32", "times": FOR_EVER, "pause": 0.01})
    assert [rank.line()["rc"] for rank in ranks] == [0, 0]
    served.kill()
    time.sleep(1)
    killed = time.monotonic()
    ranks[1].kill()
    answer = ranks[0].line()
    assert answer["rc"] == -ETIMEDOUT and answer["missing"] == 2 and 20 < answer["ended"] - killed < 45 * SLOW, answer
    assert "the manager has not answered for 30 s" in answer["error"] and "rank 1" in answer["error"], answer


@pytest.mark.long
@pytest.mark.parametrize("command", [("xdp", "off"), ("unload",)])
def test_a_datapath_that_is_taken_off_a_port(served, command):
    """If the datapath is detached from a port, the manager is still connected, so no rank counts as gone. The rank behind the port gets no
    answer. Its call fails, and so does the call of the other rank."""
    ranks = served.group("train", range(2), {"sum": "float32"}, {"sum": "float32", "times": FOR_EVER, "pause": 0.01}, hold=True)
    assert [rank.line()["rc"] for rank in ranks] == [0, 0]
    time.sleep(0.5)
    if command == ("unload",):
        served.net.fpisa("unload", "p0")
    else:
        served.net.agg.run("ip", "link", "set", "dev", "p0", *command)
    answers = [rank.line() for rank in ranks]
    assert answers[0]["rc"] == -ETIMEDOUT and "the aggregator did not answer in 30000 ms" in answers[0]["error"], answers
    assert answers[1]["rc"] == -EREMOTEIO and "rank 0 cannot continue: " in answers[1]["error"], answers
    assert all(25 < answer["s"] < 45 * SLOW for answer in answers), answers


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
def test_calls_that_who_left_had_completed(served, tmp_path):
    """If the result of one rank is lost, and the other rank has received its result and leaves, the call succeeds. The next call, which is
    also in progress, fails."""
    cut = str(tmp_path / "cut")
    one = served.start(0, "train", 0, 2, {"sum": "float32"}, {"until": cut}, {"sleep": 0.5}, {"sum": "float32"}, {"leave": True}, {"sleep": 60})
    other = served.start(1, "train", 1, 2, {"sum": "float32"}, {"until": cut}, {"queue": ["float32", "float32"], "anyway": True},
                         {"sum": "float32"}, hold=True)
    assert [rank.line()["rc"] for rank in (one, other) for _ in range(2)] == [0] * 4
    served.net.worker[1].run("nft", "table inet cut { chain in { type filter hook input priority 0; udp sport 18000 drop; }; }")
    open(cut, "w").close()
    assert [one.line()["rc"] for _ in range(2)] == [0, 0]
    time.sleep(0.5)
    served.net.worker[1].run("nft", "delete table inet cut")
    answer = other.line()
    assert answer["rcs"] == [0, -ECONNRESET] and not answer["wrong"], answer
    assert "rank 0 has left the group after 2 calls" in answer["errors"][1] and answer["missing"] == 1, answer
    assert other.line()["rc"] == -ECONNRESET


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
def test_a_call_that_begins_when_a_rank_has_left(served, tmp_path):
    """A call that begins after a rank has left is refused. The previous call, whose result was lost, succeeds."""
    cut = str(tmp_path / "cut")
    one = served.start(0, "train", 0, 2, {"sum": "float32"}, {"until": cut}, {"sum": "float32"}, {"leave": True}, {"sleep": 60})
    other = served.start(1, "train", 1, 2, {"sum": "float32"}, {"until": cut}, {"queue": ["float32", "float32"], "pause": 1.2}, hold=True)
    assert [rank.line()["rc"] for rank in (one, other) for _ in range(2)] == [0] * 4
    served.net.worker[1].run("nft", "table inet cut { chain in { type filter hook input priority 0; udp sport 18000 drop; }; }")
    open(cut, "w").close()
    assert [one.line()["rc"] for _ in range(2)] == [0, 0]
    time.sleep(1.5)
    served.net.worker[1].run("nft", "delete table inet cut")
    answer = other.line()
    assert answer["rcs"] == [0, -ECONNRESET] and not answer["wrong"], answer


CUT_TCP = "table inet cut { chain in { type filter hook input priority 0; tcp sport 18000 drop; }; " \
          "chain out { type filter hook output priority 0; tcp dport 18000 drop; }; }"


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
@pytest.mark.parametrize("then", [{"leave": True}, {"sum": "float64", "anyway": True}, {"sleep": 60}])
def test_a_barrier_in_two_jobs(served, tmp_path, then):
    """Rank 0 does not learn in time that rank 1 cannot continue with float32, so its barrier uses that job and fails. Rank 2 waits in
    another job's barrier, and gets the error whatever rank 0 does next."""
    sums, meet = str(tmp_path / "sums"), str(tmp_path / "meet")
    both, last = ({"sum": "float32"}, {"sum": "float64"}, {"until": sums}), {"sum": "float32", "anyway": True}
    barrier = {"until": meet}, {"barrier": True, "anyway": True}
    ranks = [served.start(0, "train", 0, 3, *both, last, *barrier, then, {"sleep": 60}),
             served.start(1, "train", 1, 3, *both, {**last, **within(2000)}, {"sleep": 60}),
             served.start(2, "train", 2, 3, *both, last, *barrier, timeout_ms=int(30000 * SLOW))]
    assert [rank.line()["rc"] for rank in ranks for _ in range(3)] == [0] * 9
    served.net.worker[0].run("nft", CUT_TCP)
    served.net.worker[1].run("nft", "table inet cut { chain in { type filter hook input priority 0; udp sport 18000 drop; }; }")
    open(sums, "w").close()
    assert [rank.line()["rc"] for rank in ranks] == [0, -ETIMEDOUT, 0]
    time.sleep(1 * SLOW)  # rank 2 gets the error
    open(meet, "w").close()
    time.sleep(0.3 * SLOW)
    served.net.worker[0].run("nft", "delete table inet cut")
    answer = ranks[0].line()
    assert answer["rc"] == -EREMOTEIO and "rank 1 cannot continue: " in answer["error"], answer
    if "sum" in then:
        again = ranks[0].line()
        assert (again["rc"], again["error"]) == (-EREMOTEIO, answer["error"]), again
    answer = ranks[2].line()
    assert answer["rc"] == -EREMOTEIO and answer["missing"] == 1 and answer["s"] < TOLD_S, answer
    assert "rank 0 cannot continue: the rank's barrier failed: " in answer["error"] and "rank 1 cannot continue: " in answer["error"], answer


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
def test_a_first_call_of_a_rank_that_computes(served):
    """The first call of a rank waits for its job while the other rank computes, for longer than the silence limit. The limit begins only
    with the job. The first answers of the job are lost."""
    served.net.worker[0].run("nft", "table inet cut { chain in { type filter hook input priority 0; udp sport 18000 drop; }; }")
    ranks = start(served, [{"sum": "float32"}], [{"sleep": 33}, {"sum": "float32"}])
    time.sleep(36)
    served.net.worker[0].run("nft", "delete table inet cut")
    answers = [rank.line() for rank in ranks]
    assert [answer["rc"] for answer in answers] == [0, 0] and answers[0]["s"] > 30, answers


# Calls without elements, which return without any other rank.
EMPTY = {"words": "", "type": 1, "op": 1, "count": 0}, {"scatter": "", "type": 1, "op": 1, "counts": [0, 0]}


def test_a_call_that_a_rank_that_left_made_without_elements(served):
    """If a rank's last calls have no elements and it leaves, the same calls succeed at a late rank. Where the late rank's call has elements,
    the call ends with -EPROTO, although no frame of the other rank belongs to it."""
    rng = random.Random(draw_seed())
    full = {"sum": "float32"}, {"sum": "int32"}, {"barrier": True}, {"scatter": "00" * 24, "type": 1, "op": 1, "counts": [3, 3]}
    for case in range(6):
        before = [{"sum": "float32"}, *rng.choices([*full, *EMPTY], k=rng.randrange(4))]
        last = rng.choices(EMPTY, k=rng.randrange(1, 4))
        differs = rng.randrange(len(last)) if case % 2 else len(last)
        late = [*before, *last[:differs], *[{**rng.choice(full), "anyway": True}] * (differs < len(last))]
        print(case, before, last, late)
        one = served.start(0, f"case{case}", 0, 2, *before, *last, {"leave": True})
        other = served.start(1, f"case{case}", 1, 2, *before[:1], {"sleep": rng.choice([0, 1])}, *late[1:], {"leave": True})
        assert [one.line()["rc"] for _ in range(2 + len(before) + len(last))] == [0] * (2 + len(before) + len(last))
        answers = [other.line() for _ in range(1 + len(late))]
        if differs < len(last):
            answer = answers.pop()
            assert answer["rc"] == -EPROTO and answer["missing"] == 1 and answer["s"] < TOLD_S, answer
            assert f"call {len(late)} of this rank differs from that of rank 0, which has left the group" in answer["error"], answer
        assert [a["rc"] for a in answers] == [0] * len(answers), answers
        for rank in (one, other):
            rank.kill()


def test_a_call_without_elements_then_another_type(served):
    """One rank makes a call without elements where the others wait in theirs, and then waits itself, in a call of another type or for a job
    that the others do not need. All ranks get -EPROTO, although their numbers of calls differ."""
    rng = random.Random(draw_seed())
    types = ["float32", "int32", "float64"]

    def full(name):
        return {"sum": name, "anyway": True}

    def empty(name):
        return {"queue": [name], "count": 0, "anyway": True}

    def random_case():
        both = [full(t) for t in types[:2]] + [rng.choice([full, empty])(rng.choice(types[:2])) for _ in range(rng.randrange(4))]
        last = rng.sample(types[:2], 2)
        return both, [empty(rng.choice(types[:2])) for _ in range(rng.randrange(1, 4))] + [full(last[0])], [full(last[1])]

    f, i, d = types
    cases = [([full(f), full(i)], [empty(f), full(i)], [full(f)]), ([full(f)], [empty(i)], [empty(f), full(f)]), *[random_case() for _ in range(4)]]
    for case, (both, different, others) in enumerate(cases):
        size, odd = rng.randrange(2, 4), rng.randrange(2)
        print(case, size, odd, both, different, others)
        ranks = [served.start(r, f"case{case}", r, size, *both, *(different if r == odd else others), {"sleep": 60}) for r in range(size)]
        for r, rank in enumerate(ranks):
            answers = [rank.line() for _ in range(1 + len(both) + len(different if r == odd else others))]
            assert [a["rc"] for a in answers[:-1]] == [0] * (len(answers) - 1), answers
            answer = answers[-1]
            assert answer["rc"] == -EPROTO and answer["missing"] >> odd & 1 and answer["s"] < TOLD_S, answer
            assert f"call {len(both) + 1} of rank " in answer["error"], answer
        for rank in ranks:
            rank.kill()
