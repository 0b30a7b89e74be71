# SPDX-License-Identifier: GPL-2.0-only
"""Unchanged programs of MPI and PyTorch run over a group with three aggregators on different links. The bits are the same, and each
aggregator adds its share."""
import json
import os
import re
import sys

import pytest

import mpi as mpis
from lab import BUILD, LIBRARY, TOP
from test_registration import site  # noqa: F401
from training import outputs

RANKS = 3
SOURCES = os.path.join(TOP, "tests", "mpi")
TORCH = os.path.join(BUILD, "torch")
EXAMPLE = os.path.join(TOP, "adapters", "torch", "examples", "ddp.py")
WEIGHTS = 1, 4, 1


@pytest.fixture
def weighted(site):  # noqa: F811
    """Give the first registered aggregator a link with four times the rate."""
    site.register(0, "--rate", "40G")
    site.register(1, "--rate", "10G")
    return site


def check_parts(net, before):
    chunks = [b - a for a, b in zip(before, net.results())]
    assert sum(chunks) > 1000
    for chunk, weight in zip(chunks, WEIGHTS):
        assert chunk / sum(chunks) == pytest.approx(weight / sum(WEIGHTS), rel=0.05), chunks


@pytest.mark.families()
@pytest.mark.parametrize("mpi", ["openmpi", pytest.param("mpich", marks=pytest.mark.long)])
def test_mpi(weighted, mpi, tmp_path):
    """In a sweep over types and counts every value is correct. Additions with rounding would give the sweep's doubles a different sum in
    each order."""
    why = mpis.lacking(mpi)
    if why:
        pytest.skip(why)
    net, folder = weighted.net, str(tmp_path)
    env = {"FPISA_MANAGER": net.address, "FPISA_KEY": weighted.key, "FPISA_MIN_BYTES": 0}
    before = net.results()
    out, err = mpis.run(net.worker[0], mpi, RANKS, folder, mpis.compiled(mpi, os.path.join(SOURCES, "sweep.c"), folder), **env)
    assert json.loads(out)["checked"] > 800 and "fpisa: " not in err, err
    check_parts(net, before)
    out, err = mpis.run(net.worker[0], mpi, 4, folder, mpis.compiled(mpi, os.path.join(SOURCES, "doubles.c"), folder), FPISA_MODE="exact", **env)
    answer = json.loads(out)
    assert answer["right"] == answer["of"] > 500 and "fpisa: " not in err, (out, err)


def train(site):  # noqa: F811
    """Return the digest of the weights, after checking that all ranks have the same."""
    net = site.net
    env = {**os.environ, "PYTHONPATH": TORCH, "FPISA_LIBRARY": LIBRARY, "FPISA_MANAGER": net.address, "FPISA_KEY": site.key, "WORLD_SIZE": str(RANKS),
           "MASTER_ADDR": f"{net.subnet}11", "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    ranks = [w.spawn(sys.executable, "-B", EXAMPLE, "--steps", 8, "--mode", "exact", env={**env, "RANK": str(r)}) for r, w in enumerate(net.worker)]
    digests = {re.search(r"rank \d: loss \S+ -> \S+, weights (\w+)", out)[1] for out in outputs(ranks)}
    assert len(digests) == 1
    site.empty()
    return digests


@pytest.mark.families()
@pytest.mark.long
@pytest.mark.skipif(not os.path.exists(os.path.join(TORCH, "built")), reason="build/torch is not there; make test installs what it needs")
def test_torch(weighted):
    """A training run has the same weights, bit for bit, as over the manager's aggregator alone."""
    before = weighted.net.results()
    several = train(weighted)
    check_parts(weighted.net, before)
    for agent in weighted.agents.values():
        agent.terminate()
        agent.wait(20)
    before = weighted.net.results()
    assert train(weighted) == several
    assert [a == b for a, b in zip(before, weighted.net.results())] == [False, True, True]
