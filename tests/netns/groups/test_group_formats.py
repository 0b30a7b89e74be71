# SPDX-License-Identifier: GPL-2.0-only
"""Compare groups' sums of small formats and of blocks, and operations with a factor or a root, with rational numbers (doc/numbers.md). A
result equals the sum in some order of arrival, and is the same on all ranks."""
import itertools
import random

import pytest

from groups import Groups
from lab import draw_seed
from rationals import DOWN, EXACT, FP32, FPISA, NEAREST, NORM, SCALE, SUM, Case, Format, MxInt8, block, element

pytestmark = pytest.mark.families(spread=True)

RANKS, COUNT = 3, 96
FLAG = 2  # FPISA_OVERFLOW_FLAG; an overflowed value is also a result
FACTORS = 1.0, 0.375, -3.0
E4M3, E5M2 = Format("e4m3", 4, 3, 32, finite=True), Format("e5m2", 5, 2, 32)
TYPES = [(1, FP32, 4), (5, E4M3, 1), (6, E5M2, 1), (8, MxInt8(32), 1)]


@pytest.fixture
def groups(lab, tmp_path):
    net = lab(workers=RANKS)
    net.load()
    g = Groups(net, str(tmp_path))
    g.serve()
    yield g
    g.close()


def draw(rng, f):
    """Return COUNT values: floats from random words or with nearby exponents, or COUNT / 32 blocks."""
    if f.shared:
        return [(rng.randrange(118, 126), [rng.randint(-127, 127) for _ in range(32)]) for _ in range(COUNT // 32)]
    if f.name == "fp32":
        return [rng.getrandbits(1) << 31 | rng.randrange(120, 134) << 23 | rng.getrandbits(23) for _ in range(COUNT)]
    return [rng.getrandbits(8) for _ in range(COUNT)]


def pack(f, size, values):
    if f.shared:
        return b"".join(bytes(k & 255 for k in lanes) for _, lanes in values) + bytes(scale for scale, _ in values)
    return b"".join(v.to_bytes(size, "little") for v in values)


def unpack(f, size, data):
    if f.shared:
        lanes = [int.from_bytes(data[i:i + 1], "little", signed=True) for i in range(COUNT)]
        return [(data[COUNT + b], lanes[32 * b:32 * b + 32]) for b in range(COUNT // 32)]
    return [int.from_bytes(data[i:i + size], "little") for i in range(0, size * COUNT, size)]


@pytest.mark.parametrize("mode, rounding", [(FPISA, DOWN), (FPISA, NEAREST), (EXACT, NEAREST)])
def test_results(groups, mode, rounding):
    rng = random.Random(draw_seed())
    calls = [(number, f, size, op, rng.choice(FACTORS) if op == SCALE else 1.0, [draw(rng, f) for _ in range(RANKS)])
             for number, f, size in TYPES for op in (SUM, SCALE, NORM) if op != NORM or not (f.shared or mode == EXACT)]
    steps = [[{"words": pack(f, size, inputs[r]).hex(), "type": number, "op": op, "count": COUNT, "factor": factor}
              for number, f, size, op, factor, inputs in calls] for r in range(RANKS)]
    ranks = [groups.start(r, "formats", r, RANKS, *steps[r], {"leave": True}, mode=mode, overflow=FLAG,
                          rounding=rounding if mode == FPISA else 0) for r in range(RANKS)]
    assert [rank.line()["rc"] for rank in ranks] == [0] * RANKS
    for number, f, size, op, factor, inputs in calls:
        answers = [rank.line() for rank in ranks]
        assert [a["rc"] for a in answers] == [0] * RANKS, (f.name, op, answers)
        assert len({(a["result"], a["flags"]) for a in answers}) == 1, (f.name, op, answers)
        run = block if f.shared else element
        for i, got in enumerate(unpack(f, size, bytes.fromhex(answers[0]["result"]))):
            words = [inputs[r][i] for r in range(RANKS)]
            right = [run(Case(f, mode, rounding, order, op, factor))[0] for order in itertools.permutations(words)]
            assert got in right, (f.name, op, factor, i, words, got, right)
    assert [rank.line()["rc"] for rank in ranks] == [0] * RANKS
    groups.empty()


def test_operations_that_are_none(groups):
    """Invalid operations are refused. A refused call does not count, and the next call is correct."""
    wrong = [(8, NORM, 32, 1.0), (7, SCALE, 1, 2.0), (7, NORM, 1, 1.0), (8, SUM, 31, 1.0), (1, SCALE, 1, 0.0)]
    for number, op, count, factor in wrong:
        step = {"words": "00" * 128, "type": number, "op": op, "count": count, "factor": factor}
        ranks = groups.group("wrong", range(RANKS), step, hold=True)
        answers = [rank.line() for rank in ranks]
        assert [a["rc"] for a in answers] == [-22] * RANKS, answers
        assert all("is not supported" in a["error"] or "share a scale" in a["error"] or "factor is 0" in a["error"] for a in answers)
        for rank in ranks:
            rank.kill()
        groups.empty()
