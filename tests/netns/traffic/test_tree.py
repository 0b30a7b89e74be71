# SPDX-License-Identifier: GPL-2.0-only
"""Test a tree over real XDP. Each aggregator and rank is in its own namespace behind a switch. The sums have the bits of a single
aggregator's sum, under loss, after restarts of ranks, leaves and the root, and without a removed rank."""
import array
import hashlib
import math

import pytest
import worker
from aggregators import Switched, loaded
from doctor import examine
from lab import FPISA, draw_seed, end, endpoint, read_all, read_answers, wait_until
from routers import reach, router

JOB, LEAVES, RANKS = 5, 2, 3
COUNT = 20000
LONG = 5_000_000  # a sum of 10 s at 20 Mbit/s
PINS = "/run/trees"  # a BPF filesystem for the tests of this file; the usual one belongs to a single test
pytestmark = [pytest.mark.together, pytest.mark.families(spread=True)]


class Tree(Switched):
    """The root is host 1, leaf l is host 2 + l, rank r of leaf l is host 10 + RANKS l + r of one network."""

    def __init__(self, ipv6):
        super().__init__()
        self.ipv6 = ipv6
        self.root = self.agg = self.host(self.at(1), "root")
        self.leaf = [self.host(self.at(2 + i), f"leaf{i}") for i in range(LEAVES)]
        self.worker = [self.host(self.at(10 + i), f"w{i}") for i in range(LEAVES * RANKS)]
        for i in range(LEAVES + 1):
            self.fpisa_at(i, "load", "eth0")

    def at(self, number):
        return f"2001:db8:98::{number:x}" if self.ipv6 else f"10.98.0.{number}"

    def fpisa_at(self, i, *argv):
        """Run fpisa at the root if i is 0, else at leaf i - 1."""
        return (self.leaf[i - 1] if i else self.root).run(FPISA, *argv, "--pin", f"{PINS}/{i}")

    def job(self, i, *options):
        if i:
            workers = ",".join(self.at(10 + RANKS * (i - 1) + r) for r in range(RANKS))
            options = "--parent", f"{self.at(1)}/{i - 1}", "--address", self.at(1 + i), *options
        else:
            workers = ",".join(self.at(2 + leaf) for leaf in range(LEAVES))
            options = "--leaves", "--address", self.at(1), *options
        if self.token:
            options = "--token", f"{self.token['token']:x}", *options
        self.fpisa_at(i, "job", "add", JOB, "--workers", workers, "--mode", "exact", *options)

    def again(self, i, *options):
        self.fpisa_at(i, "job", "del", JOB)
        self.job(i, *options)

    def count(self, i, name):
        return self.counters(JOB, f"{PINS}/{i}")[name]

    def begin_rank(self, rank, seed, *more, count=COUNT, kind="random", **options):
        step = {"count": count, "kind": kind, "seed": seed + rank // RANKS}
        return self.start(rank, JOB, step, *more, address=self.at(2 + rank // RANKS), **self.token,
                          **options)

    def begin(self, seed, ranks=range(LEAVES * RANKS), **options):
        return [self.begin_rank(r, seed, **options) for r in ranks]


def digest_of(seed, ranks=range(LEAVES * RANKS), count=COUNT):
    """Return the digest of the correctly rounded sums. A double holds each sum exactly."""
    values = (array.array("f", worker.data("random", r % RANKS, count, seed + r // RANKS)) for r in ranks)
    return hashlib.sha256(array.array("f", map(math.fsum, zip(*values))).tobytes()).hexdigest()


def check(procs, seed, **options):
    answers = [read_answers(p)[-1] for p in procs]
    assert [a["digest"] for a in answers] == [digest_of(seed, **options)] * len(procs), answers
    return answers


@pytest.fixture(scope="module")
def net(mounts, family):
    with loaded(PINS, lambda: Tree(family == "ipv6"), LEAVES + 1) as tree:
        yield tree


@pytest.fixture(params=[None], ids=["open"])
def jobs(net, request):
    """Yield the network with a job at each aggregator; the parameter is its token."""
    net.token = {"token": request.param} if request.param else {}
    for i in range(LEAVES + 1):
        net.job(i)
    yield net
    for i in range(LEAVES + 1):
        net.fpisa_at(i, "job", "del", JOB)


over_both = pytest.mark.families()
tokens = pytest.mark.parametrize("jobs", [None, 0x1122334455667788], ids=["open", "token"], indirect=True)


@over_both
@tokens
@pytest.mark.parametrize("loss", (0, 0.02))
def test_sum(jobs, loss):
    """All ranks of both leaves get the bits of a single aggregator's sum, and a leaf sends one partial sum for each chunk."""
    seed = draw_seed()
    check(jobs.begin(seed, loss=loss), seed)
    chunks = -(-COUNT // 256)
    for i in range(1, LEAVES + 1):
        assert jobs.count(i, "v_up") == chunks
        assert loss or jobs.count(i, "v_down") >= chunks
    assert jobs.count(0, "v_result") == chunks


@pytest.mark.parametrize("loss", (0, 0.02))
def test_doubles(jobs, loss):
    """Sums of doubles over a tree are correctly rounded. A chunk has 3 to 9 planes, each in a frame that may be lost."""
    seed, count = draw_seed(), 2000
    for i in range(LEAVES + 1):
        jobs.again(i, "--format", "fp64")
    step = {"count": count, "kind": worker.DOUBLES, "seed": seed}
    procs = [jobs.start(r, JOB, step, address=jobs.at(2 + r // RANKS), loss=loss, **jobs.token) for r in range(LEAVES * RANKS)]
    want = array.array("d", map(math.fsum, zip(*(worker.doubles(r % RANKS, count, seed) for r in range(LEAVES * RANKS)))))
    answers = [read_answers(p)[-1] for p in procs]
    assert [a["digest"] for a in answers] == [hashlib.sha256(want.tobytes()).hexdigest()] * len(procs), answers


@over_both
def test_unicast_again(jobs):
    """A leaf that addresses its results to each rank delivers the result of one chunk as often as a rank asks for it."""
    seed = draw_seed()
    for i in range(1, LEAVES + 1):
        jobs.again(i, "--fanout", "unicast")
    procs = jobs.begin(seed, count=256, loss=0.4, timeout_ms=20000)
    check(procs, seed, count=256)
    assert sum(jobs.count(i, "v_down") for i in range(1, LEAVES + 1)) > 2 * LEAVES
    assert all(jobs.count(i, "unaddressed") == 0 for i in range(1, LEAVES + 1))


def test_another_rank(jobs):
    """If a leaf's job states another rank than the root's job, the leaf does not join, and a counter gives the reason."""
    jobs.fpisa_at(1, "job", "del", JOB)
    jobs.fpisa_at(1, "job", "add", JOB, "--workers", jobs.at(10), "--mode", "exact", "--parent", f"{jobs.at(1)}/1", "--address",
                  jobs.at(2))
    answers, status, _ = read_all(jobs.begin(0, ranks=[0], timeout_ms=1500)[0])
    assert status and answers[-1]["rc"] == -110, answers
    assert jobs.count(1, "v_unlike") > 0


@over_both
def test_route_changes(jobs):
    """The kernel keeps the link-layer address of the root. If the route changes to a next hop without a known address, a counter shows
    this."""
    seed, leaf = draw_seed(), jobs.leaf[0]
    assert "managed" in leaf.run("ip", "neigh", "show", jobs.at(1))
    leaf.ip(f"route add {jobs.at(1)} via {jobs.at(99)}")
    answers, status, _ = read_all(jobs.begin(seed, ranks=range(RANKS), timeout_ms=1500)[0])
    leaf.ip(f"route del {jobs.at(1)}")
    assert status and answers[-1]["rc"] == -110, answers
    assert jobs.count(1, "v_unresolved_parent") > 0 and jobs.count(1, "v_no_parent") == 0
    check(jobs.begin(seed), seed)


@over_both
def test_root_behind_a_router(jobs):
    """A leaf does not know the MTUs behind a router. Its frames are not longer than those of the job, also if the leaf's link has room."""
    seed, way, leaf = draw_seed(), router(jobs.host(jobs.at(98), "way")), jobs.leaf[0]
    way.sysctl("conf/all/send_redirects", 0)
    way.ip(f"route replace {jobs.at(1)} dev eth0 mtu lock 1300")
    leaf.ip(f"neigh replace {jobs.at(98)} lladdr {way.mac('eth0').hex(':')} dev eth0")
    reach(jobs, leaf, jobs.at(1), jobs.at(98))
    try:
        check(jobs.begin(seed, timeout_ms=20000), seed)
    finally:
        leaf.ip(f"route del {jobs.at(1)}")
    chunks = -(-COUNT // 256)
    assert jobs.count(1, "v_up") == chunks and jobs.count(1, "v_up_next") >= chunks


def test_many_calls(jobs):
    """After all ranks have started again, a sum has the bits of the new values. A rank that starts alone waits, and its error names what is
    missing."""
    for _ in range(3):
        seed = draw_seed()
        check(jobs.begin(seed), seed)
    alone = jobs.begin(0, ranks=[0], timeout_ms=1500)[0]
    answers, status, _ = read_all(alone)
    assert status and answers[-1]["rc"] == -110, answers


@over_both
def test_rank_restarts(jobs):
    """If a rank is killed in a sum, the calls of all ranks end. After the rank has started again, all ranks join and sum."""
    seed = draw_seed()
    jobs.slow_down()
    procs = jobs.begin(seed, count=LONG, kind="integers", timeout_ms=3000)
    wait_until("partial sums", lambda: jobs.count(1, "v_up") > 50)
    end(procs[1])
    answers = [read_all(p)[0][-1] for p in procs[:1] + procs[2:]]
    jobs.at_full_rate()
    assert all(a["rc"] for a in answers), answers
    check(jobs.begin(seed), seed)


@pytest.mark.parametrize("which", (0, 1), ids=("root", "leaf"))
def test_aggregator_restarts(jobs, which):
    """If the job of the root or of a leaf is created again in a sum, no rank gets a wrong sum, and then all ranks join again."""
    seed = draw_seed()
    before = jobs.count(1, "v_up")
    jobs.slow_down()
    procs = jobs.begin(seed, count=LONG, kind="integers", timeout_ms=3000)
    wait_until("partial sums", lambda: jobs.count(1, "v_up") > before + 50)
    jobs.again(which)
    answers = [read_all(p)[0][-1] for p in procs]
    jobs.at_full_rate()
    assert all(a["rc"] for a in answers), answers
    check(jobs.begin(seed), seed)


@over_both
def test_removed_rank(jobs):
    """After a rank of a leaf is removed, the other ranks sum without it. After a leaf is removed at the root, the ranks of the other leaf
    sum alone."""
    seed = draw_seed()
    jobs.fpisa_at(1, "job", "shrink", JOB, "1")
    left = [r for r in range(LEAVES * RANKS) if r != 1]
    check(jobs.begin(seed, ranks=left), seed, ranks=left)
    jobs.fpisa_at(0, "job", "shrink", JOB, "1")
    left = [r for r in left if r < RANKS]
    check(jobs.begin(seed, ranks=left), seed, ranks=left)


@over_both
def test_show(jobs):
    """`job show` at a leaf prints the parent, and the leaf's rank there. At the root it says that the ranks are leaves."""
    assert f"parent      {endpoint(jobs.at(1), 18000)}/0" in jobs.fpisa_at(1, "job", "show", JOB)
    assert "ranks are leaves" in jobs.fpisa_at(0, "job", "show", JOB)


@over_both
def test_doctor(jobs):
    """Doctor names the parent of a leaf, and detects a missing route to it."""
    def found():
        return examine(jobs.leaf[0], "--pin", f"{PINS}/1")[f"job {JOB}", "parent"]

    assert found()["level"] == "ok" and f"{endpoint(jobs.at(1), 18000)}/0" in found()["text"]
    jobs.leaf[0].ip(f"route add unreachable {jobs.at(1)}")
    try:
        assert found()["level"] == "fault" and f"no route to the parent, {endpoint(jobs.at(1), 18000)}/0" in found()["text"]
    finally:
        jobs.leaf[0].ip(f"route del unreachable {jobs.at(1)}")
