# SPDX-License-Identifier: GPL-2.0-only
"""Test how long a group's sums delay a rank that computes meanwhile, and how long a late rank delays the others. The best of several rounds
counts, because other work on the machine can only add time."""
import pytest

from groups import Groups
from lab import SLOW

pytestmark = [pytest.mark.alone, pytest.mark.families(spread=True)]

RANKS = 4
COUNT = 1 << 20	 # 4 MB
ROUNDS = 3
COMPUTE_S = 0.5


@pytest.fixture
def groups(lab, tmp_path):
    net = lab(workers=RANKS)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        yield g
    finally:
        g.close()


def rounds(g, steps):
    """Return each rank's answers to its step, by round. Each round is a barrier and the step. The first round is a warm-up."""
    plan = [[*[{"barrier": True}, s] * (ROUNDS + 1), {"leave": True}] for s in steps]
    ranks = [g.start(r, "time", r, RANKS, *p) for r, p in enumerate(plan)]
    answers = []
    for rank in ranks:
        lines = [rank.line() for _ in range(2 + 2 * (ROUNDS + 1))]
        assert all(a["rc"] == 0 for a in lines), lines
        assert all(a["first"] == a["last"] == RANKS * (RANKS + 1) / 2 for a in lines[2:-1:2])
        answers.append(lines[4:-1:2])
    return list(zip(*answers))


BLOCKING = {"sum": "float32", "count": COUNT}


def seconds_of_sums(g):
    """Return the time of the slowest rank in each round, in seconds."""
    return [max(a["s"] for a in r) for r in rounds(g, [BLOCKING] * RANKS)]


def test_computing_hides_the_sum(groups):
    """A wait after computing returns at once. Four ranks that compute share this machine's CPUs with their sums. Each try measures its own
    sums, because the machine may be slower by then."""
    def is_hidden():
        plain = min(seconds_of_sums(groups))
        seconds = max(COMPUTE_S, 4 * plain)
        found = rounds(groups, [{**BLOCKING, "compute": seconds}] * RANKS)
        waited = [round(1000 * max(a["waited"] for a in r), 1) for r in found]
        print(f"a sum takes {plain:.3f} s; after {seconds:.3f} s of computing waited, ms, the last rank by rounds: {waited}")
        return min(waited) < 20 * SLOW
    assert any(is_hidden() for _ in range(3))


def test_a_late_rank_delays_the_others_by_no_more(groups):
    """A late rank delays the others by no more than its own delay. The time of sums depends on other load, so the test compares it with the
    slowest other sum, and tries three times."""
    def as_late():
        plain = max(seconds_of_sums(groups))
        found = rounds(groups, [BLOCKING] * (RANKS - 1) + [{**BLOCKING, "late": COMPUTE_S}])
        seconds = [round(max(a["s"] for a in r[:-1]), 3) for r in found]
        print(f"a sum takes up to {plain:.3f} s; with a rank late by {COMPUTE_S} s the others', by rounds: {seconds}")
        return COMPUTE_S * 0.9 < min(seconds) < COMPUTE_S + max(plain, 0.1) * SLOW
    assert any(as_late() for _ in range(3))
