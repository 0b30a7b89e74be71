# SPDX-License-Identifier: GPL-2.0-only
"""A PostgreSQL at the master, if it can run here"""
import pytest

import postgres
from far import Far


@pytest.fixture
def possible():
    why = postgres.lacking()
    if why:
        pytest.skip(why)


@pytest.fixture
def master(possible, lab, tmp_path):
    """Yield a master of two workers, which serve nothing yet."""
    net = lab(workers=3)
    net.load()
    q = Far(net, str(tmp_path))
    yield q
    q.close()
