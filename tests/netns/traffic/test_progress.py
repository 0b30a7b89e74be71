# SPDX-License-Identifier: GPL-2.0-only
"""Test options.progress on real packets. Computing between start and wait delays neither the rank nor the others.

If only one of several rounds must meet the limit, each round measures its own sum, because other work may take the CPUs for a while."""
import hashlib

import pytest

import worker
from lab import read_answers

pytestmark = [pytest.mark.alone, pytest.mark.families(spread=True)]

RANKS = 4
COUNT = 1 << 20  # 4 MB
COMPUTE_S = 0.5
ROUNDS = 3
PROGRESS = {"progress": 1}
EXPECTED = hashlib.sha256(worker.exact_sum("integers", RANKS, COUNT)).hexdigest()


def together(net, steps, **options):
    """Run one process for each rank, whose steps begin with a sum that synchronizes them. Return the last answer of each rank."""
    first = {"count": 1, "kind": "integers"}
    procs = [net.start(r, 7, first, *s, **options) for r, s in enumerate(steps)]
    answers = [read_answers(p)[-1] for p in procs]
    for a in answers:
        assert a["rc"] == 0, a["error"]
        assert a["digest"] == EXPECTED
    return answers


@pytest.fixture
def net(lab):
    net = lab(workers=RANKS)
    net.load()
    net.add_job(7)
    return net


BLOCKING = [{"count": COUNT, "kind": "integers"}]


def computing(seconds):
    return [{"count": COUNT, "kind": "integers", "compute": seconds}]


def seconds_of_a_sum(net, **options):
    """Measure a sum while no rank computes."""
    return max(a["seconds"] for a in together(net, [BLOCKING] * RANKS, **options))


@pytest.mark.parametrize("transport", [worker.UDP, worker.XSK], ids=["udp", "xsk"])
def test_computing_hides_the_sum(net, transport):
    """A wait after computing returns at once. Four ranks that compute share the CPUs with four threads that sum. If other programs use the
    CPUs too, both the sum and the computation take longer."""
    def waits():
        plain = seconds_of_a_sum(net, transport=transport)
        seconds = max(COMPUTE_S, 4 * plain)
        answers = together(net, [computing(seconds)] * RANKS, transport=transport, **PROGRESS)
        waited = [round(a["waited"] * 1000, 1) for a in answers]
        print(f"a sum takes {plain:.3f} s; after {seconds:.3f} s of computing waited, ms:", waited)
        return max(waited)
    assert any(waits() < 20 for _ in range(ROUNDS))


def test_without_it_nothing_is_hidden(net):
    """Without options.progress the sum is computed while all ranks wait. This is the reference for the test above."""
    def share():
        plain = seconds_of_a_sum(net)
        answers = together(net, [computing(COMPUTE_S)] * RANKS)
        waited = [round(a["waited"] * 1000, 1) for a in answers]
        print(f"a sum takes {plain:.3f} s; waited, ms:", waited)
        return min(waited) / (plain * 1000)
    assert any(share() > 1 / 3 for _ in range(ROUNDS))


def test_a_rank_that_computes_delays_nobody(net):
    """The blocking calls of the other ranks do not take longer because the rank computes."""
    def share():
        seconds = max(4 * COMPUTE_S, 8 * seconds_of_a_sum(net))
        answers = together(net, [BLOCKING] * (RANKS - 1) + [computing(seconds)], **PROGRESS)
        return max(a["seconds"] for a in answers[:-1]) / seconds
    assert any(share() < 1 / 2 for _ in range(ROUNDS))


def test_a_late_rank_delays_the_others_by_no_more(net):
    def as_late():
        plain = seconds_of_a_sum(net, **PROGRESS)
        answers = together(net, [BLOCKING] * (RANKS - 1) + [[{"sleep": COMPUTE_S}, *BLOCKING]], **PROGRESS)
        seconds = [round(a["seconds"], 3) for a in answers[:-1]]
        print(f"a sum takes {plain:.3f} s; with a rank late by {COMPUTE_S} s:", seconds)
        return COMPUTE_S * 0.9 < min(seconds) and max(seconds) < COMPUTE_S + max(2 * plain, 0.2)
    assert any(as_late() for _ in range(ROUNDS))
