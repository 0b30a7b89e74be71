# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for engines from PyPI, used with the package of these sources. tests/doors/run.py makes their environment."""
import math
import os
import sys

import pytest

sys.dont_write_bytecode = True
TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
os.environ["FPISA_SUMS"] = os.path.join(BUILD, "python", "libsums.so")
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.path.join(TOP, "adapters", "python")  # for processes that the engines start
sys.path[:0] = [os.path.join(TOP, part) for part in ("adapters/python", "tests/lib")]

from seeds import rng  # noqa: E402, F401


class Data:
    """Return keys, values whose sums depend on the order, with some nulls, and the right results."""

    def __init__(self, rng):
        self.rows = [(rng.choice("abcde"), None if rng.random() < 0.01 else rng.uniform(-1, 1) * 10.0 ** rng.randint(-12, 12))
                     for _ in range(20000)]
        self.keys, self.values = zip(*self.rows)
        of = {k: [x for key, x in self.rows if key == k and x is not None] for k in "abcde"}
        self.sums = {k: math.fsum(xs) for k, xs in of.items()}
        self.total = math.fsum(x for x in self.values if x is not None)
        self.count = sum(x is not None for x in self.values)


@pytest.fixture
def data(rng):  # noqa: F811
    return Data(rng)
