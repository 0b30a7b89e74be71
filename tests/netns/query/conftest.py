# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for queries: workers with their master, and PostgreSQL on the master's host if it can run on this machine"""
import pytest

import postgres
from foreign_lab import Far
from lab import MTU
from queries import Queries


@pytest.fixture
def asked(lab, tmp_path):
    """Yield asked(workers), which creates a Lab with a datapath, a host for each worker, and a host for the master."""
    made = []

    def make(workers, mtu=MTU):
        net = lab(workers=workers + 1, mtu=mtu)
        net.load()
        made.append(Queries(net, str(tmp_path)))
        return made[-1]

    yield make
    for q in made:
        q.close()


@pytest.fixture
def possible():
    why = postgres.lacking()
    if why:
        pytest.skip(why)


@pytest.fixture
def master(possible, lab, tmp_path):
    """Yield a master of two workers, which have no tables yet."""
    net = lab(workers=3)
    net.load()
    q = Far(net, str(tmp_path))
    yield q
    q.close()
