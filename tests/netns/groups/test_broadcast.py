# SPDX-License-Identifier: GPL-2.0-only
"""Broadcasts deliver the bytes of one rank to all ranks unchanged. Ranks that disagree about root or length get an error."""
import random

import pytest

from groups import over_both
from lab import draw_seed

pytestmark = pytest.mark.families(spread=True)

EINVAL, EPROTO, EACCES, ECONNRESET, ETIMEDOUT, EREMOTEIO = 22, 71, 13, 104, 110, 121
RANKS = 3
FOR_EVER = 10**6


@over_both
def test_bits_of_any_size(groups):
    """From each root, with any length, in a blocking call or a request, all ranks get the root's bits, including NaN, -0 and subnormals."""
    rng = random.Random(draw_seed())
    sizes = [0, 1, 2, 3, 4, 5, 31, 127, 128, 129, 3327, 3328, 3329, *(rng.randrange(20000) for _ in range(20)), 1000001, 0]
    g = groups(RANKS, "without-key = yes", "formats = fp32,int32")
    # Modes for floats do not apply to a broadcast.
    for options in {}, {"mode": 2, "elements": 64, "window": 8, "restore": 1}:
        steps = ({"sum": "float32"}, {"broadcast": sizes, "seed": rng.randrange(1000), **({"tag": 1} if options else {})}, {"sum": "int32"},
                 {"leave": True})
        for rank in g.group("train", range(RANKS), *steps, **options):
            answers = [rank.line() for _ in steps]
            assert all(a["rc"] == 0 for a in answers), answers
            assert answers[1]["calls"] == len(sizes) and answers[1]["wrong"] == 0, answers
            assert answers[2]["first"] == 6
        g.empty()


@pytest.mark.parametrize("one, others, says", [
    ({"broadcast": [9], "root": 1}, {"broadcast": [9], "root": 2}, "a broadcast of 9 bytes by rank "),
    ({"broadcast": [10], "root": 1}, {"broadcast": [9], "root": 1}, " bytes by rank 1"),
    ({"broadcast": [0], "root": 0}, {"broadcast": [1], "root": 0}, " bytes by rank 0"),
    ({"broadcast": [40000], "root": 0}, {"broadcast": [70000], "root": 0}, " bytes by rank 0"),
    ({"broadcast": [9], "root": 1, "tag": 7}, {"broadcast": [9], "root": 1, "tag": 8}, "a broadcast of 9 bytes by rank 1"),
    ({"broadcast": [9], "root": 1, "tag": 7}, {"broadcast": [9], "root": 1}, "a broadcast of 9 bytes by rank 1"),
    ({"sum": "int32", "count": 2}, {"broadcast": [8], "root": 0}, "the ranks made different calls"),
])
def test_ranks_that_do_not_agree(groups, one, others, says):
    """If ranks disagree, all ranks get an error."""
    g = groups(RANKS, "without-key = yes")
    ranks = [g.start(r, "train", r, RANKS, {"sum": "int32"}, others if r else one, hold=True) for r in range(RANKS)]
    for rank in ranks:
        assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
        answer = rank.line()
        assert answer["rc"] == -EPROTO and "the ranks made different calls" in answer["error"], answer
    assert says in answer["error"]


def test_what_is_refused(groups):
    g = groups(RANKS, "without-key = yes", "formats = fp32")
    for rank in g.group("train", range(RANKS), {"broadcast": [5], "root": RANKS}, hold=True):
        answer = rank.line()
        assert answer["rc"] == -EINVAL and "root is 3; it must be below 3, the number of ranks" in answer["error"]
        rank.kill()
    g.empty()
    for rank in g.group("train", range(RANKS), {"broadcast": [5]}, hold=True):
        answer = rank.line()
        assert answer["rc"] == -EACCES and "the manager does not offer format int32" in answer["error"]


def test_a_deadline_of_one_call(groups):
    """The deadline of a call replaces that of the group."""
    g = groups(RANKS, "without-key = yes", "formats = fp32,int32")
    ranks = [g.start(r, "train", r, RANKS, {"broadcast": [4]}, *([] if r == 2 else [{"broadcast": [9], "root": 1, "tag": 7, "timeout_ms": 300}]),
                     hold=True) for r in range(RANKS)]
    for rank in ranks:
        assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
    answers = [rank.line() for rank in ranks[:2]]
    assert all("rank 2 sent nothing for chunk 0 of call 1 in 300 ms" in a["error"] for a in answers), answers
    # A rank may first hear of the other's deadline.
    assert (-ETIMEDOUT, 4) in [(a["rc"], a["missing"]) for a in answers] and {a["rc"] for a in answers} <= {-ETIMEDOUT, -EREMOTEIO}, answers
    for rank in ranks:
        rank.kill()
    g.empty()


def test_a_root_that_dies(groups):
    g = groups(RANKS, "without-key = yes")
    ranks = g.group("train", range(RANKS), {"broadcast": [100]}, {"broadcast": [30000], "times": FOR_EVER, "root": 1}, hold=True)
    for rank in ranks:
        assert rank.line()["rc"] == 0
    ranks[1].kill()
    for r in 0, 2:
        answer = ranks[r].line()
        assert answer["rc"] == -ECONNRESET and answer["missing"] == 2, answer
        ranks[r].kill()
    g.empty()
