# SPDX-License-Identifier: GPL-2.0-only
"""Test the Python package over the network: the page's example, types, a rank that dies, a static job."""
import os
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from groups import Groups
from lab import LIBRARY, SLOW, TOP, wait_until

pytestmark = pytest.mark.families(spread=True)

PACKAGE = os.path.join(TOP, "adapters", "python")
SUMS = """
import select, sys, numpy, fpisa
with fpisa.Group(sys.argv[1], "types", int(sys.argv[2]), 3) as g:
    for t in "float32", "float64", "int32":
        out, flags = g.allreduce(numpy.full(5000, g.rank + 1, t))
        assert out.dtype == t and (out == 6).all() and flags == 0, (out, flags)
    requests = [g.start(numpy.full(1000, i + g.rank, "float32"), tag=i) for i in range(20)]
    assert all((r.wait().array == 3 * i + 3).all() for i, r in enumerate(requests))
    request = g.start(numpy.ones(5000, "float32"))
    assert select.select([g], [], [], 30)[0] and (request.wait().array == 3).all()
    words = numpy.array([1 << 31, 0x7f800001, 1], "uint32").repeat(1000)
    words.flags.writeable = g.rank != 1
    for root, a in (1, words if g.rank == 1 else words * 0), (2, numpy.full((3, 5), g.rank == 2)), (0, numpy.empty(0)):
        assert g.broadcast(a, root) is a
        assert (a == words).all() if root == 1 else a.all()
    for wrong in [1], numpy.ones((4, 4)).T[1:], numpy.array([g]):
        try:
            g.broadcast(wrong)
        except (TypeError, ValueError):
            continue
        raise AssertionError(wrong)
    g.barrier()
    print("right", flush=True)
    try:
        while True:
            g.allreduce(numpy.ones(1000, "float32"))
    except fpisa.RankLost as e:
        print(e.ranks, e)
"""
STATIC = """
import sys, numpy, fpisa
with fpisa.Handle(sys.argv[1], int(sys.argv[2])) as h:
    out, flags = h.allreduce(numpy.full(5000, h.rank + 1.0, "float32"))
    assert (out == 3).all() and h.info.workers == h.size == 2, (out, h.info)
    print("right")
"""

TAKEN_OUT = """
import sys, numpy, fpisa
with fpisa.Handle(sys.argv[1], int(sys.argv[2]), all_ranks=sys.argv[3] == "1") as h:
    def add():
        request = h.start(numpy.ones(5000, "float32"))
        return request.wait(), request.ranks
    (out, flags), ranks = add()
    assert (out == 3).all() and flags == 0 and ranks == (0, 1, 2), (out, flags, ranks)
    print("all", flush=True)
    sys.stdin.readline()
    try:
        (out, flags), ranks = add()
        assert (out == 2).all() and flags == fpisa.Flags.FEWER_RANKS, (out, flags)
        print("fewer", ranks)
    except fpisa.RankLost as e:
        print("lost", e.ranks)
"""


WAITS = """
import sys, fpisa
try:
    fpisa.Group(sys.argv[1], "waits", int(sys.argv[2]), 4, join_timeout=float(sys.argv[3]))
except fpisa.TimedOut as e:
    print(e.ranks, e)
"""

BARRIER = """
import sys, threading, time, numpy, fpisa
with fpisa.Group(sys.argv[1], "barrier", int(sys.argv[2]), 2) as g:
    g.allreduce(numpy.ones(10, "float32"))
    if g.rank == 0:
        g.start(numpy.ones(10, "float32")).wait()
        other = g.start(numpy.ones(10, "float32"))
        tested = []
        def test():
            print("tests", flush=True)
            time.sleep(0.3)
            tested.append(other.test())
            print("tested", flush=True)
        threading.Thread(target=test, daemon=True).start()
        try:
            g.barrier()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    else:
        g.allreduce(numpy.ones(10, "float32"))
        print("tests", flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def net(lab):
    """Yield net(workers), which creates a Lab with a datapath."""
    def make(workers):
        made = lab(workers=workers)
        made.load()
        return made

    return make


def python(worker, *argv, **options):
    """Return a function that runs a user's program on a worker."""
    return worker.spawn(sys.executable, "-B", *argv, env={**os.environ, "PYTHONPATH": PACKAGE, "FPISA_LIBRARY": LIBRARY}, **options)


def test_example(net, tmp_path):
    g = Groups(net(3), str(tmp_path), "without-key = yes")
    g.serve()
    ranks = [python(w, os.path.join(PACKAGE, "examples", "regression.py"), g.net.address, "train", r, 3)
             for r, w in enumerate(g.net.worker)]
    for r, rank in enumerate(ranks):
        out, err = rank.communicate(timeout=60 * SLOW)
        said = re.fullmatch(rf"rank {r}: ranks agree: True, distance from the truth ([0-9.]+)\n", out)
        assert rank.returncode == 0 and said and float(said[1]) < 0.9, out + err
    g.empty()


def test_types_and_a_rank_that_dies(net, tmp_path):
    g = Groups(net(3), str(tmp_path), "without-key = yes")
    g.serve()
    ranks = [python(w, "-c", SUMS, g.net.address, r) for r, w in enumerate(g.net.worker)]
    for rank in ranks:
        assert rank.stdout.readline() == "right\n", rank.stderr.read()
    time.sleep(0.3)
    ranks[1].send_signal(signal.SIGKILL)
    for r in 0, 2:
        out, err = ranks[r].communicate(timeout=60 * SLOW)
        assert out.startswith("(1,) ") and "rank 1 is gone: its process ended" in out, out + err


def test_ranks_that_do_not_join(net, tmp_path):
    """The exception names the missing ranks. If no manager answers, the exception names no ranks."""
    g = Groups(net(3), str(tmp_path), "without-key = yes")
    g.serve()
    python(g.net.worker[2], "-c", WAITS, g.net.address, 2, 60 * SLOW)
    wait_until("rank 2", lambda: [group["here"] for group in g.net.json("group", "list")] == [[2]])
    out, err = python(g.net.worker[0], "-c", WAITS, g.net.address, 0, 4 * SLOW).communicate(timeout=60 * SLOW)
    assert out.startswith("(1, 3) ") and "rank 1, rank 3 did not join in" in out, out + err
    g.manager.send_signal(signal.SIGSTOP)
    out, err = python(g.net.worker[0], "-c", WAITS, g.net.address, 0, 0.5).communicate(timeout=60 * SLOW)
    g.manager.send_signal(signal.SIGCONT)
    assert out.startswith("() ") and "the manager did not answer" in out, out + err


def test_ranks_taken_out(net):
    """A static job returns the flag and the ranks in the sum. If all ranks are required, it raises an error that names the missing
    ranks."""
    n = net(3)
    n.add_job(1)
    ranks = [python(w, "-c", TAKEN_OUT, n.address, 1, r, stdin=subprocess.PIPE) for r, w in enumerate(n.worker)]
    for rank in ranks:
        assert rank.stdout.readline() == "all\n", rank.stderr.read()
    n.fpisa("job", "shrink", 1, 2)
    for rank in ranks:
        rank.stdin.write("go on\n")
        rank.stdin.flush()
    said = [rank.communicate(timeout=60 * SLOW) for rank in ranks]
    assert [out for out, _ in said] == ["fewer (0, 1)\n", "lost (2,)\n", ""] and "rank 2 was removed" in said[2][1], said


def test_static_job(net):
    n = net(2)
    n.add_job(1)
    ranks = [python(w, "-c", STATIC, n.address, 1) for w in n.worker]
    for rank in ranks:
        out, err = rank.communicate(timeout=60 * SLOW)
        assert out == "right\n", err


def test_a_barrier_that_waits(net, tmp_path):
    """During a barrier another thread can test a request, and a signal ends the barrier."""
    g = Groups(net(2), str(tmp_path), "without-key = yes")
    g.serve()
    ranks = [python(w, "-c", BARRIER, g.net.address, r, stdin=subprocess.PIPE) for r, w in enumerate(g.net.worker)]
    assert [rank.stdout.readline() for rank in ranks] == ["tests\n"] * 2
    assert select.select([ranks[0].stdout], [], [], 20 * SLOW)[0] and ranks[0].stdout.readline() == "tested\n"
    ranks[0].send_signal(signal.SIGINT)
    assert select.select([ranks[0].stdout], [], [], 20 * SLOW)[0] and ranks[0].stdout.readline() == "interrupted\n"
    for rank in ranks:
        rank.communicate("go\n", timeout=60 * SLOW)
