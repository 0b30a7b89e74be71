# SPDX-License-Identifier: GPL-2.0-only
"""Programs that others wrote and Debian built, preloaded: the answers are right, and the sums went to the aggregator."""
import os
import re
import shutil

import pytest

import mpi as mpis
from lab import ADDRESS, SLOW, end

pytestmark = pytest.mark.long
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 4
LONGEST_S = 1200 * SLOW


def run(c, *program, preload=True, env=(), **more):
    """On all ranks: stdout, stderr, frames that the host sent."""
    argv, own = mpis.command(c.mpi, RANKS, c.folder, *program, preload=preload, FPISA_MANAGER=ADDRESS, FPISA_MIN_BYTES=0,
                             **dict(env))
    before = c.sent()
    p = c.host.spawn(*argv, env=own, cwd=c.folder, **more)
    try:
        out, err = p.communicate(timeout=LONGEST_S)
    finally:
        end(p)
    assert p.returncode == 0, f"status {p.returncode}\n{out[-3000:]}{err[-3000:]}"
    assert not [x for x in err.splitlines() if x.startswith("fpisa: ") and "are MPI's" in x and "of 1 ranks" not in x], err
    return out, err, c.sent() - before


def program(name, package):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed: the package {package}; make test-long installs it")
    return shutil.which(name)


@pytest.fixture
def openmpi(cluster, request):
    """Debian builds these for Open MPI."""
    if "openmpi" not in request.node.name:
        pytest.skip("Debian builds this for Open MPI alone")
    return cluster()


def numbers(text):
    return [[float(x) for x in line.split()] for line in text]


def test_lammps(openmpi):
    lmp, source = program("lmp", "lammps"), os.path.join(HERE, "melt.lammps")
    tables = []
    for preload in (False, True):
        out, _, sent = run(openmpi, lmp, "-in", source, "-log", "none", preload=preload)
        rows = re.findall(r"^ +\d+(?: +[-+.e\d]+){5} *$", out, re.M)
        assert len(rows) == 21, out
        tables.append((numbers(rows), sent))
    (plain, few), (ours, many) = tables
    worst = max(abs(a - b) / max(abs(a), 1e-300) for p, o in zip(plain, ours) for a, b in zip(p, o))
    differ = sum(p != o for p, o in zip(plain, ours))
    print(f"lammps: {many} frames, {few} without; {differ} of 21 rows differ, by {worst:.1e} at most")
    assert worst < 1e-12
    assert many - few > 100 * RANKS
