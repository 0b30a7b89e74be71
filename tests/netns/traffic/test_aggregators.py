# SPDX-License-Identifier: GPL-2.0-only
"""Test a job over three aggregators, each in its own namespace behind a switch, over real XDP: the sums, the shares, and the outcome of a
call when an aggregator disappears, starts again or removes a rank."""
import hashlib
import random

import pytest
import worker
from aggregators import Switched, check_shares, loaded
from lab import FPISA, draw_seed, endpoint, once_within, read_all, read_answers, wait_until

ETIMEDOUT, ESTALE, EPROTO = 110, 116, 71
JOB, WORKERS, AGGREGATORS = 5, 3, 3
COUNT = 5_000_000  # a sum of 10 s at 20 Mbit/s
PINS = "/run/aggregators"  # a BPF filesystem for the tests of this file, because the usual one belongs to a single test
pytestmark = [pytest.mark.together, pytest.mark.families(spread=True)]


class Several(Switched):
    """Aggregators 10.98.0.1 to .3, and workers from 10.98.0.11 on. Over IPv6 2001:db8:98:: stands for 10.98.0."""

    def __init__(self, ipv6):
        super().__init__()
        self.subnet = "2001:db8:98::" if ipv6 else "10.98.0."
        self.addresses = [f"{self.subnet}{i + 1}" for i in range(AGGREGATORS)]
        self.two = ",".join(self.addresses[:2])  # for tests of faults of one aggregator
        self.aggregators = [self.host(a, f"a{i}") for i, a in enumerate(self.addresses)]
        self.agg = self.aggregators[0]
        self.worker = [self.host(f"{self.subnet}{r + 11}", f"w{r}") for r in range(WORKERS)]
        for i in range(AGGREGATORS):
            self.fpisa_at(i, "load", "eth0")

    def fpisa_at(self, i, *argv):
        return self.aggregators[i].run(FPISA, *argv, "--pin", f"{PINS}/a{i}")

    def job(self, i, *options):
        workers = ",".join(endpoint(f"{self.subnet}{r + 11}", 18000) for r in range(WORKERS))
        self.fpisa_at(i, "job", "add", JOB, "--workers", workers, "--address", self.addresses[i], "--mode", "exact", *options)

    def results(self, i):
        return self.counters(JOB, f"{PINS}/a{i}")["v_result"]

    def begin(self, count=COUNT, shares=None, **options):
        step = {"count": count, "kind": "integers"}
        return [self.start(r, JOB, step, address=shares or self.two, **options) for r in range(WORKERS)]

    def under_way(self, **options):
        """Start workers in the middle of a long sum."""
        before = [self.results(0), self.results(1)]
        self.slow_down()
        procs = self.begin(**options)
        wait_until("frames", lambda: all(self.results(i) > before[i] + 100 for i in range(2)))
        return procs


def drawn_shares(net, rng):
    """Return the weights of all aggregators, and the list of aggregators in the form that a worker takes."""
    weights = [rng.randint(1, 9) for _ in range(AGGREGATORS)]
    return weights, ",".join(f"{a}*{w}" for a, w in zip(net.addresses, weights))


@pytest.fixture(scope="module")
def net(mounts, family):
    with loaded(PINS, lambda: Several(family == "ipv6"), AGGREGATORS) as several:
        yield several


@pytest.fixture
def jobs(net):
    for i in range(AGGREGATORS):
        net.job(i)
    yield net
    for i in range(AGGREGATORS):
        net.fpisa_at(i, "job", "del", JOB)


@pytest.mark.parametrize("loss", (0, 0.02))
def test_sum(jobs, loss):
    """The sum has the right bits, and each aggregator has its share of the chunks."""
    rng = random.Random(draw_seed())
    weights, shares = drawn_shares(jobs, rng)
    count = rng.randint(20000, 200000)
    before = [jobs.results(i) for i in range(AGGREGATORS)]
    procs = jobs.begin(count, shares, loss=loss)
    jobs.check_answers(procs, WORKERS, count)
    chunks = [jobs.results(i) - before[i] for i in range(AGGREGATORS)]
    check_shares(chunks, weights, count)


@pytest.fixture
def doubles(net):
    """Yield the network, with a job of doubles in mode exact on each aggregator."""
    for i in range(AGGREGATORS):
        net.job(i, "--format", "fp64")
    yield net
    for i in range(AGGREGATORS):
        net.fpisa_at(i, "job", "del", JOB)


@pytest.mark.parametrize("loss", (0, 0.02))
def test_doubles(doubles, loss):
    """Exact sums of doubles are correctly rounded, over one aggregator and over three with weights."""
    seed = draw_seed()
    rng = random.Random(seed)
    weights, shares = drawn_shares(doubles, rng)
    count = rng.randint(5000, 30000)
    step = {"count": count, "kind": worker.DOUBLES, "seed": seed}
    right = hashlib.sha256(worker.rounded_sum(WORKERS, count, seed)).hexdigest()
    for address in doubles.addresses[0], shares:
        before = [doubles.results(i) for i in range(AGGREGATORS)]
        procs = [doubles.start(r, JOB, step, address=address, loss=loss) for r in range(WORKERS)]
        answers = [read_answers(p)[-1] for p in procs]
        assert [a["digest"] for a in answers] == [right] * WORKERS, (address, count)
    chunks = [doubles.results(i) - before[i] for i in range(AGGREGATORS)]
    check_shares(chunks, weights, count, 128)


@pytest.mark.alone
def test_nothing_in_vain(jobs):
    """Without a loss, the retransmission timer sends almost no frame again."""
    once_within(0.001, lambda: jobs.sent_again(1 << 18, shares=",".join(jobs.addresses)))


def test_one_goes(jobs):
    """If an aggregator disappears in the middle of a sum, the call ends in time on all ranks and names the aggregator. When the aggregator
    is back, sums work again."""
    procs = jobs.under_way(timeout_ms=3000)
    jobs.switch.ip("link set a1 down")
    answers = [read_all(p)[0][-1] for p in procs]
    jobs.switch.ip("link set a1 up")
    jobs.at_full_rate()
    assert [a["rc"] for a in answers] == [-ETIMEDOUT] * WORKERS
    assert all(a["error"].startswith(f"{jobs.addresses[1]}: job 5: the aggregator did not answer ") for a in answers), answers
    assert all(a["seconds"] < 13 for a in answers)
    jobs.check_answers(jobs.begin(50000), WORKERS, 50000)


def test_one_begins_anew(jobs):
    """If the job of one aggregator is recreated in the middle of a sum, no rank gets a sum from the new job. Then all ranks join again."""
    procs = jobs.under_way(timeout_ms=3000)
    jobs.fpisa_at(1, "job", "del", JOB)
    jobs.job(1)
    answers = [read_all(p)[0][-1] for p in procs]
    jobs.at_full_rate()
    assert all(a["rc"] in (-ESTALE, -ETIMEDOUT) and a["error"].startswith(f"{jobs.addresses[1]}: job 5:") for a in answers), answers
    jobs.check_answers(jobs.begin(50000), WORKERS, 50000)


def test_one_shrinks(jobs):
    """A rank that is removed at one aggregator gets an error that says so. The error of the other ranks names the removed rank."""
    procs = jobs.under_way(timeout_ms=3000)
    jobs.fpisa_at(0, "job", "shrink", JOB, 2)
    answers = [read_all(p)[0][-1] for p in procs]
    jobs.at_full_rate()
    assert answers[2]["rc"] == -ESTALE and f"{jobs.addresses[0]}: job 5: rank 2 was removed" in answers[2]["error"]
    for a in answers[:2]:
        assert a["rc"] == -ETIMEDOUT and "rank 2 sent nothing" in a["error"] and a["missing"] == 0b100


def test_other_shares(jobs):
    """If one rank has different weights, all ranks get an error, and none gets a sum."""
    step = {"count": 50000, "kind": "integers"}
    lists = [jobs.two] * 2 + [f"{jobs.addresses[0]}*2,{jobs.addresses[1]}"]
    procs = [jobs.start(r, JOB, step, address=a) for r, a in enumerate(lists)]
    for p in procs:
        answer = read_all(p)[0][-1]
        assert answer["rc"] == -EPROTO and "one list of aggregators with the same weights" in answer["error"]
