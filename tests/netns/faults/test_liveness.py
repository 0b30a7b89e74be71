# SPDX-License-Identifier: GPL-2.0-only
"""Kill a worker in the middle of a call. Test the errors of the other ranks, and the job afterwards."""
import array
import hashlib
import json
import re
import time
import zlib

import pytest

import worker
from doctor import examine
from lab import COMMAND_S, PIN, SLOW, end, read_all, read_answers, wait_until

pytestmark = pytest.mark.families(spread=True)

ETIMEDOUT = 110
TEN_MILLION = 10**7
DEADLINE_MS = 20000
LIMIT_S = 300
AGE = r"\d+(\.\d)? (s|min)"


def slots_and_show(net, job):
    """Return the missing ranks of the open rounds, oldest first, and the same list as `job show` prints it."""
    rounds = sorted(net.json("slots", job), key=lambda r: r["chunk"])
    return [r["missing"] for r in rounds], net.json("job", "show", job)["missing"]


def all_wait_for(net, job, rank):
    """Check that every open round lacks `rank`, and that the oldest round lacks only this rank. Another rank may be missing from later
    rounds if it has fewer chunks in flight. Then it is missing from all later rounds too."""
    missing, shown = slots_and_show(net, job)
    return missing and missing[0] == shown == [rank] and all({*a} <= {*b} for a, b in zip(missing, missing[1:]))


@pytest.mark.early
@pytest.mark.long
def test_killed_in_ten_million(lab):
    """The calls of the other seven ranks return by the deadline, and each error names the killed rank. Afterwards a new job and the old job
    sum right."""
    net = lab(workers=8, mtu=3506)
    net.load()
    net.add_job(1, "--elements", 832)
    net.slow(100)
    chunks = -(-TEN_MILLION // 832)
    step = {"count": TEN_MILLION, "kind": "integers"}
    procs = [net.start(r, 1, step, timeout_ms=DEADLINE_MS) for r in range(8)]
    wait_until("the middle", lambda: net.counters(1, PIN)["v_result"] > chunks // 8, LIMIT_S)
    procs[5].kill()
    wait_until("rounds without rank 5", lambda: all_wait_for(net, 1, 5))
    assert net.counters(1, PIN)["v_result"] < chunks
    text = net.fpisa("job", "show", 1)
    assert "waiting     for ranks 5 in chunk " in text
    for r, p in enumerate(procs):
        if r == 5:
            end(p)
            continue
        answers, status, _ = read_all(p, LIMIT_S)
        assert status == 1 and answers[-1]["rc"] == -ETIMEDOUT and answers[-1]["missing"] == 1 << 5
        assert ": rank 5 sent nothing" in answers[-1]["error"]
        assert DEADLINE_MS / 1000 <= answers[-1]["seconds"] < DEADLINE_MS / 1000 + 10
    net.add_job(2)
    net.check_sum(2, 123457, timeout_ms=60000)
    net.check_sum(1, 123457, timeout_ms=60000)
    assert slots_and_show(net, 1) == ([], [])


def test_since_when_a_rank_is_silent(lab):
    """`job show` and `slots` distinguish a killed rank from ranks that wait for it, and from a rank that never joined. Frames with a wrong
    token do not count as frames of the rank."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, "--token", "5a")

    def silence():
        return [m["silent_s"] for m in net.json("job", "show", 1)["members"]]
    assert silence() == [None] * 3
    assert re.search(r"missing +never$", net.fpisa("job", "show", 1), re.M)
    net.slow(5)
    step = {"count": 1_000_000, "kind": "integers"}
    procs = [net.start(r, 1, step, timeout_ms=round(60000 * SLOW), token=0x5a) for r in range(3)]
    wait_until("frames", lambda: net.counters(1, PIN)["v_result"] > 400, LIMIT_S)
    wait_until("frames of all ranks", lambda: all(s < 2 * SLOW for s in silence()))
    procs[1].kill()
    end(procs[1])
    killed = time.monotonic()
    wait_until("the end of its frames in the queue", lambda: json.loads(net.worker[1].run("tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))[0]["backlog"] == 0)
    drained = time.monotonic()
    wait_until("rounds without rank 1", lambda: all_wait_for(net, 1, 1))
    other = net.start(1, 1, timeout_ms=5000, token=0x5b)
    other.wait(timeout=COMMAND_S)
    since = time.monotonic() - drained
    now, later = silence(), time.monotonic() - killed
    assert since - 0.5 < now[1] < later + 2 * SLOW and now[0] < since - 0.5 and now[2] < since - 0.5, (since, now)
    rounds = net.json("slots", 1)
    silent = [dict(zip(r["missing"], r["silent_s"])) for r in rounds]
    assert all_wait_for(net, 1, 1) and all(r.pop(1) >= now[1] for r in silent)
    assert all(s < since - 0.5 for r in silent for s in r.values()), (since, silent)
    assert re.search(rf"  1; rank 1 silent for {AGE}$", net.fpisa("slots", 1), re.M)
    f = examine(net.agg)["job 1", "members"]
    assert f["level"] == "warn" and f["fix"] == "fpisa job shrink 1 1" and re.fullmatch(
        rf"chunk \d+ waits for ranks 1; rank 1 silent for {AGE}: start all ranks again, or continue without these ranks", f["text"]), f
    text = net.fpisa("job", "show", 1)
    assert re.search(rf"^waiting     for ranks 1 in chunk \d+; rank 1 silent for {AGE}$", text, re.M)
    assert re.search(rf"joined +{AGE} ago$", text, re.M)
    net.fpisa("job", "del", 1)
    net.add_job(1)
    assert silence() == [None] * 3
    for p in procs:
        end(p)


def test_shrink_in_a_call(lab):
    """The call that waits for the dead rank succeeds without it, and the call's results name the ranks that contributed."""
    count = 1_000_000
    net = lab(workers=3)
    net.load()
    net.add_job(1)
    net.slow(10)
    chunks = -(-count // 256)
    step = {"count": count, "kind": "integers"}
    more = {"count": 5000, "kind": "integers"}
    # Read rank 0 first, because it prints the most, so that no rank waits for a full pipe.
    procs = [net.start(0, 1, {**step, "values": True}, more, order=True, timeout_ms=60000)]
    procs += [net.start(r, 1, step, more, timeout_ms=60000) for r in (1, 2)]
    wait_until("frames", lambda: net.counters(1, PIN)["v_result"] > chunks // 8, LIMIT_S)
    procs[1].kill()
    wait_until("rounds without rank 1", lambda: slots_and_show(net, 1)[1] == [1])
    assert net.fpisa("job", "shrink", 1, 1) == "job 1 continues with ranks 0,2\n"
    answers = [read_answers(procs[r], LIMIT_S) for r in (0, 2)]
    end(procs[1])
    assert answers[0][1]["digest"] == answers[1][1]["digest"]
    with_all = {c[0]: c[3] for c in answers[0][1]["chunks"]}
    assert len(with_all) == chunks and set(with_all.values()) == {0b111, 0b101}
    got = array.array("f", zlib.decompress(bytes.fromhex(answers[0][1]["values"])))
    parts = [array.array("f", worker.data("integers", r, count)) for r in range(3)]
    for offset, ranks in with_all.items():
        for i in range(offset, min(offset + 256, count), 7):
            assert got[i] == sum(parts[r][i] for r in range(3) if ranks >> r & 1)
    # A later call sums the values of the two remaining ranks.
    assert [[step["flags"] for step in a[1:]] for a in answers] == [[worker.MIXED_RANKS | worker.FEWER_RANKS, worker.FEWER_RANKS]] * 2
    assert {c[3] for c in answers[0][2]["chunks"]} == {0b101}
    expect = array.array("f", [worker.integer(0, i) + worker.integer(2, i) for i in range(worker.PERIOD)])
    expect = worker.repeat(expect.tobytes(), 5000)
    assert {a[2]["digest"] for a in answers} == {hashlib.sha256(expect).hexdigest()}
    shown = net.json("job", "show", 1)
    assert shown["live"] == [0, 2] and shown["missing"] == []
