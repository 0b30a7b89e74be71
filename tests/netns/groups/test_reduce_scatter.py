# SPDX-License-Identifier: GPL-2.0-only
"""A reduce-scatter gives each rank its part of a sum of the whole array. The sum equals that of rational numbers (doc/numbers.md) in some
order of arrival. Parts are equal, unequal or all for one rank, in place or not. A rank receives its part and headers."""
import itertools
import json
import random
import signal

import pytest

from lab import PIN, draw_seed, wait_until
from rationals import AVG, DOWN, EXACT, FP32, FPISA, MAX, NEAREST, NORM, SCALE, SUM, Case, Format, MxInt8, block, element

pytestmark = pytest.mark.families(spread=True)

RANKS = 3
EINVAL, EPROTO, ECONNRESET = 22, 71, 104
FLAG = 2  # FPISA_OVERFLOW_FLAG; an overflowed value is also a result
TYPES = [(1, FP32, 4), (4, Format("fp64", 11, 52, 64), 8), (5, Format("e4m3", 4, 3, 32, finite=True), 1), (8, MxInt8(32), 1)]


def draw(rng, f, size, count):
    """Return values: floats with nearby exponents, or blocks."""
    if f.shared:
        return [(rng.randrange(118, 126), [rng.randint(-127, 127) for _ in range(32)]) for _ in range(count // 32)]
    if size == 1:
        return [rng.getrandbits(8) for _ in range(count)]
    mantissa, bias = (23, 127) if size == 4 else (52, 1023)
    return [rng.getrandbits(1) << 8 * size - 1 | rng.randrange(bias - 7, bias + 7) << mantissa | rng.getrandbits(mantissa)
            for _ in range(count)]


def pack(f, size, values):
    if f.shared:
        return b"".join(bytes(k & 255 for k in lanes) for _, lanes in values) + bytes(scale for scale, _ in values)
    return b"".join(v.to_bytes(size, "little") for v in values)


def unpack(f, size, data):
    if not f.shared:
        return [int.from_bytes(data[i:i + size], "little") for i in range(0, len(data), size)]
    count = len(data) // 33 * 32
    lanes = [int.from_bytes(data[i:i + 1], "little", signed=True) for i in range(count)]
    return [(data[count + b], lanes[32 * b:32 * b + 32]) for b in range(count // 32)]


def draw_counts(rng, unit):
    """Return the sizes of the ranks' parts in elements: equal, random, or all for one rank."""
    kind = rng.randrange(3)
    if kind == 0:
        return [unit * rng.randrange(1, 50)] * RANKS
    return [0 if kind == 2 and r else unit * rng.randrange(90) for r in rng.sample(range(RANKS), RANKS)]


def draw_case(rng, mode):
    number, f, size = rng.choice(TYPES)
    op = rng.choice([SUM, SUM, AVG, SCALE] + [MAX] * (not f.shared) + [NORM] * (mode != EXACT and not f.shared))
    counts = draw_counts(rng, 32 if f.shared else 1)
    return {"number": number, "f": f, "size": size, "op": op, "factor": 0.375 if op == SCALE else 1.0, "counts": counts,
            "null": len(set(counts)) == 1 and rng.random() < 0.5, "place": not f.shared and rng.random() < 0.5, "start": rng.random() < 0.5,
            "inputs": [draw(rng, f, size, sum(counts)) for _ in range(RANKS)]}


def step(case, rank):
    return {"scatter": pack(case["f"], case["size"], case["inputs"][rank]).hex(), "type": case["number"], "op": case["op"],
            "factor": case["factor"], "counts": case["counts"], **{k: case[k] for k in ("null", "place", "start")}}


def judge(case, mode, rounding, answers, rng):
    f, size, inputs, at = case["f"], case["size"], case["inputs"], 0
    run, unit = (block, 32) if f.shared else (element, 1)
    for r, (answer, count) in enumerate(zip(answers, case["counts"])):
        got, sent = unpack(f, size, bytes.fromhex(answer["result"])), unpack(f, size, bytes.fromhex(answer["sent"]))
        assert len(got) == count // unit
        for i in {at + rng.randrange(len(got)) for _ in range(8)} | {at, at + len(got) - 1} if got else ():
            words, value = [x[i] for x in inputs], got[i - at]
            orders = [words] if mode == EXACT else itertools.permutations(words)
            right = [run(Case(f, mode, rounding, list(order), case["op"], case["factor"]))[0] for order in orders]
            assert value in right, (f.name, case["op"], r, i, words, value, right)
        own = slice(at, at + len(got))
        assert sent[own] == (got if case["place"] else inputs[r][own])
        assert sent[:own.start] + sent[own.stop:] == inputs[r][:own.start] + inputs[r][own.stop:]
        at += len(got)


@pytest.mark.parametrize("mode, rounding, options", [
    (FPISA, DOWN, {"elements": 32, "window": 4, "pipeline": 1}), (FPISA, NEAREST, {"pipeline": 2}),
    (EXACT, NEAREST, {"elements": 64, "restore": 1}), (EXACT, NEAREST, {})])
def test_results(groups, mode, rounding, options):
    rng = random.Random(draw_seed())
    cases = [draw_case(rng, mode) for _ in range(16)]
    g = groups(RANKS, "without-key = yes", "formats = fp32,fp64,e4m3,mxint8")
    ranks = [g.start(r, "scatter", r, RANKS, *(step(c, r) for c in cases), {"leave": True}, mode=mode, overflow=FLAG,
                     rounding=rounding if mode == FPISA else 0, **options) for r in range(RANKS)]
    assert [rank.line()["rc"] for rank in ranks] == [0] * RANKS
    for case in cases:
        answers = [rank.line() for rank in ranks]
        assert [a["rc"] for a in answers] == [0] * RANKS, (case, answers)
        judge(case, mode, rounding, answers, rng)
    g.empty()


FLOATS = {"scatter": "00" * 24, "type": 1, "op": SUM}


@pytest.mark.parametrize("wrong, says", [
    ({"counts": [1, 2, 4]}, "the parts have more than the call's 6 elements"),
    ({"counts": [1, 2, 2]}, "the parts have 1 fewer than the call's 6 elements"),
    ({"counts": [1, 1, 2], "count": 4, "null": True}, "count is 4, not a multiple of the 3 ranks; pass the size of each part in counts"),
    ({"counts": [2, 2, 2], "place": 1}, "recv must be this rank's part of send, or must not overlap it"),
    ({"scatter": "00" * 66, "type": 8, "count": 64, "counts": [16, 16, 32]}, "the part of rank 0 is not a multiple of the 32 elements that share"),
])
def test_refused(groups, wrong, says):
    """A refused call does not count, and the next call is correct."""
    g = groups(RANKS, "without-key = yes", "formats = fp32,mxint8")
    right = {**FLOATS, "counts": [2, 2, 2]}
    for rank in g.group("wrong", range(RANKS), {**FLOATS, "count": 6, **wrong, "anyway": True}, right, {"leave": True}):
        answer = rank.line()
        assert answer["rc"] == -EINVAL and says in answer["error"], answer
        assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
    g.empty()


@pytest.mark.parametrize("other", [{**FLOATS, "counts": [2, 1, 3]}, {"words": "00" * 24, "type": 1, "op": SUM, "count": 6}])
def test_ranks_that_do_not_agree(groups, other):
    """If ranks have different counts, or one makes an all-reduce of the same array, all ranks get an error."""
    g = groups(RANKS, "without-key = yes")
    ranks = [g.start(r, "train", r, RANKS, {"sum": "float32"}, {**FLOATS, "counts": [2, 2, 2]} if r else other, hold=True)
             for r in range(RANKS)]
    for rank in ranks:
        assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
        answer = rank.line()
        assert answer["rc"] == -EPROTO and "the ranks made different calls" in answer["error"], answer


WHOLE = 4 * 3 * 256 * 400  # bytes of the array of the tests below
HEADERS = 14 + 20 + 8 + 76  # bytes of a result without payload, over IPv4


def received(net):
    return [json.loads(w.run("ip", "-j", "-s", "link", "show", "eth0"))[0]["stats64"]["rx"]["bytes"] for w in net.worker]


def results(net, name="v_result"):
    return sum(net.counters(job, PIN).get(name, 0) for job in range(4))


@pytest.mark.parametrize("fanout, bridge", [("unicast", False), ("unicast", True), ("multicast", False), ("multicast", True)])
def test_bytes(groups, fanout, bridge):
    """A rank receives its part of the sum, and a header for each other chunk, whether the aggregator reaches the ranks by one port or
    several. An all-reduce before and after it brings the whole sum."""
    g = groups(RANKS, "without-key = yes", f"fanout = {fanout}", bridge=bridge)
    ranks = g.group("g", range(RANKS), {"sum": "float32", "count": WHOLE // 4}, {"until": f"{g.folder}/scatter"},
                    {"parts": WHOLE // 4, "times": 2}, {"until": f"{g.folder}/sum"}, {"sum": "float32", "count": WHOLE // 4},
                    hold=True)
    bytes_of, chunks, expected = [], [], RANKS * (RANKS + 1) / 2
    for step in "sum", "scatter", "sum":
        before, chunk = received(g.net), results(g.net)
        if bytes_of:
            open(f"{g.folder}/{step}", "w").close()
        answers = [rank.line() for rank in ranks]
        assert all(a["rc"] == 0 and (a["wrong"] == 0 if step == "scatter" else a["last"] == expected) for a in answers), answers
        bytes_of.append([b - a for a, b in zip(before, received(g.net))])
        chunks.append(results(g.net) - chunk)
    headers = HEADERS + 20 * (":" in g.net.address)
    again = results(g.net, "v_resent")
    for r in range(RANKS):
        whole, part = bytes_of[2][r], bytes_of[1][r] / 2
        print(f"rank {r} received {whole} bytes in an all-reduce, {part} in a reduce-scatter, of {chunks[2]} chunks")
        assert whole > WHOLE
        assert part < WHOLE / RANKS + 1.1 * headers * chunks[2] + 40000, (part, whole, again)


@pytest.mark.parametrize("fanout", ["unicast", "multicast"])
def test_loss(groups, fanout):
    """Results with and without payload are lost, and arrive later."""
    g = groups(RANKS, "without-key = yes", f"fanout = {fanout}")
    for w in g.net.worker:
        w.run("nft", "add table inet loss; add chain inet loss input { type filter hook input priority 0; }; "
              "add rule inet loss input udp sport 18000 numgen random mod 100 < 5 drop")
    for rank in g.group("g", range(RANKS), {"parts": WHOLE // 4, "times": 3}, {"leave": True}):
        answer = rank.line()
        assert answer["rc"] == 0 and answer["wrong"] == 0 and answer["calls"] == 3, answer
    assert results(g.net, "v_resent") > 20
    g.empty()


def test_dead_rank(groups):
    """When a rank dies, the reduce-scatters of the others end with an error that names it."""
    g = groups(RANKS, "without-key = yes")
    ranks = g.group("g", range(RANKS), {"parts": WHOLE // 4, "times": 10**6})
    wait_until("some results", lambda: results(g.net) > 100)
    ranks[1].kill(signal.SIGKILL)
    for rank in ranks[:1] + ranks[2:]:
        answer = rank.line()
        assert answer["rc"] == -ECONNRESET and "rank 1" in answer["error"], answer
