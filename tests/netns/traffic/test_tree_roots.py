# SPDX-License-Identifier: GPL-2.0-only
"""Test a tree with several roots over real XDP. Each leaf has a job for each root, and the ranks spread the chunks over the jobs of their leaf. The
sums have the bits of a single aggregator's sum, also under loss, after a restart of a root, and without a removed rank."""
import random

import pytest
from aggregators import check_shares, loaded
from lab import FPISA, draw_seed, endpoint, once_within, read_all, read_answers, wait_until
from test_tree import COUNT, JOB, LEAVES, LONG, RANKS, Tree, check

OTHER = 9  # the job of the second root
PINS = "/run/trees"  # as in test_tree.py
PLACES = LEAVES + 2
TWO = (0, 1, JOB), (LEAVES + 1, 90, OTHER)  # the place, the number of the host, and the job of each root
TIMED = 1 << 20
pytestmark = [pytest.mark.together, pytest.mark.families(spread=True)]


class Roots(Tree):
    """A tree as in test_tree.py with another root, host 90. Place LEAVES + 1 is the other root."""

    def __init__(self, ipv6):
        super().__init__(ipv6)
        self.token = {}
        self.other = self.host(self.at(90), "other")
        self.fpisa_at(LEAVES + 1, "load", "eth0")

    def fpisa_at(self, i, *argv):
        host = self.other if i > LEAVES else self.leaf[i - 1] if i else self.root
        return host.run(FPISA, *argv, "--pin", f"{PINS}/{i}")

    def add_jobs(self, *options, roots=TWO):
        """Add the jobs of these roots with these options."""
        leaves = ",".join(self.at(2 + leaf) for leaf in range(LEAVES))
        for place, number, job in roots:
            self.fpisa_at(place, "job", "add", job, "--leaves", "--workers", leaves, "--address", self.at(number), "--mode", "exact", *self.tagged(), *options)
            for leaf in range(LEAVES):
                ranks = ",".join(endpoint(self.at(10 + RANKS * leaf + r), 18000) for r in range(RANKS))
                self.fpisa_at(leaf + 1, "job", "add", job, "--parent", f"{self.at(number)}/{leaf}", "--address", self.at(2 + leaf), "--workers", ranks,
                              "--mode", "exact", *self.tagged(), *options)

    def tagged(self):
        return ("--token", f"{self.token['token']:x}") if self.token else ()

    def delete_jobs(self, roots=TWO):
        for root, _, job in roots:
            for place in root, *range(1, LEAVES + 1):
                self.fpisa_at(place, "job", "del", job)

    def results(self, roots=TWO):
        """Return the rounds that each root has completed."""
        return [self.counters(job, f"{PINS}/{place}")["v_result"] for place, _, job in roots]

    def begin_rank(self, rank, seed, *more, count=COUNT, kind="random", weights=(1, 1), roots=TWO, **options):
        """Start a rank whose chunks have these weights, or, without weights, all go to the first root."""
        leaf = self.at(2 + rank // RANKS)
        shares = ",".join(f"{leaf}/{job}*{weight}" for (_, _, job), weight in zip(roots, weights)) if weights else leaf
        step = {"count": count, "kind": kind, "seed": seed + rank // RANKS}
        return self.start(rank, JOB, step, *more, address=shares, **self.token, **options)

    def seconds(self, weights):
        """Return the time of a sum whose partial sums are as long as contributions."""
        answers = [read_answers(p)[-1] for p in self.begin(0, count=TIMED, kind="integers", weights=weights, timeout_ms=60000)]
        took = max(a["seconds"] for a in answers)
        print(f"weights {weights}: {took:.2f} s")
        assert len({a["digest"] for a in answers}) == 1, answers
        return took


@pytest.fixture(scope="module")
def net(mounts, family):
    with loaded(PINS, lambda: Roots(family == "ipv6"), PLACES) as roots:
        yield roots


@pytest.fixture(params=[()], ids=["default"])
def jobs(net, request):
    """Yield the network with the jobs of both roots; the parameter has options of the jobs."""
    net.add_jobs(*request.param)
    yield net
    net.delete_jobs()


@pytest.mark.families()
@pytest.mark.parametrize("loss", (0, 0.02))
@pytest.mark.parametrize("jobs", [(), ("--fanout", "unicast")], ids=["multicast", "unicast"], indirect=True)
def test_sum(jobs, loss):
    """All ranks get the bits of a single aggregator's sum. Each root completes its share of the chunks, for which each leaf sends a partial
    sum. The results of the two roots never go to the wrong job."""
    seed = draw_seed()
    weights = random.Random(seed).sample(range(1, 6), 2)
    procs = jobs.begin(seed, loss=loss, weights=weights)
    answers = check(procs, seed)
    check_shares(jobs.results(), weights, COUNT)
    for place in range(1, LEAVES + 1):
        assert [jobs.counters(job, f"{PINS}/{place}")["v_up"] for job in (JOB, OTHER)] == jobs.results()
    assert all(a["bad"] == 0 for a in answers), answers


@pytest.mark.parametrize("number", (4, 16))
def test_many_roots(net, number):
    """A job with up to 16 roots has the bits of a single aggregator's sum, also under loss. The roots are jobs on two hosts."""
    seed = draw_seed()
    rng = random.Random(seed)
    roots = [(*TWO[i % 2][:2], 20 + i) for i in range(number)]
    weights = [rng.randint(1, 3) for _ in roots]
    net.add_jobs("--window", 8, roots=roots)
    check(net.begin(seed, loss=0.02, weights=weights, roots=roots), seed)
    check_shares(net.results(roots), weights, COUNT)
    net.delete_jobs(roots)


@pytest.mark.alone
@pytest.mark.parametrize("jobs", [("--fanout", "unicast")], ids=["unicast"], indirect=True)
def test_time(jobs):
    """If the links of the roots bound a sum, it takes half as long with two roots as with one. The switch would
    also send multicast results to the roots."""
    shape = "root", "tbf", "rate", "20mbit", "burst", "32kb", "latency", "1s"
    for port in "root", "other":
        jobs.switch.run("tc", "qdisc", "replace", "dev", port, *shape)
    try:
        once_within(0.65, lambda: jobs.seconds((1, 1)) / jobs.seconds(None))
    finally:
        for port in "root", "other":
            jobs.switch.run("tc", "qdisc", "del", "dev", port, "root")


def test_token(net):
    """Both trees of a job have its token."""
    seed = draw_seed()
    net.token = {"token": 0x1122334455667788}
    net.add_jobs()
    check(net.begin(seed), seed)
    net.delete_jobs()
    net.token = {}


def test_root_restarts(jobs):
    """If the job of one root is created again in a sum, the call fails at all ranks. Then all ranks join again at both roots."""
    seed, before = draw_seed(), jobs.results()
    jobs.slow_down()
    procs = jobs.begin(seed, count=LONG, kind="integers", timeout_ms=3000)
    wait_until("results of both roots", lambda: all(now > then + 50 for now, then in zip(jobs.results(), before)))
    jobs.delete_jobs()
    jobs.add_jobs()
    answers = [read_all(p)[0][-1] for p in procs]
    jobs.at_full_rate()
    assert all(a["rc"] for a in answers), answers
    check(jobs.begin(seed), seed)


def test_root_is_gone(jobs):
    """If one root is gone, no call completes, and the error names the job whose chunks have no answer."""
    jobs.fpisa_at(LEAVES + 1, "job", "del", OTHER)
    try:
        answer = read_all(jobs.begin(0, timeout_ms=1500)[0])[0][-1]
        assert answer["rc"] == -110 and f": job {OTHER}: " in answer["error"], answer
    finally:
        leaves = ",".join(jobs.at(2 + leaf) for leaf in range(LEAVES))
        jobs.fpisa_at(LEAVES + 1, "job", "add", OTHER, "--leaves", "--workers", leaves, "--address", jobs.at(90), "--mode", "exact")


def test_removed_rank(jobs):
    """A rank that is removed from both jobs of its leaf is missing in the sums of both roots."""
    seed = draw_seed()
    for job in JOB, OTHER:
        jobs.fpisa_at(1, "job", "shrink", job, "1")
    left = [r for r in range(LEAVES * RANKS) if r != 1]
    check(jobs.begin(seed, ranks=left), seed, ranks=left)
