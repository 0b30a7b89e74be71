# SPDX-License-Identifier: GPL-2.0-only
"""The package of these sources, over the library that was built of them."""
import os
import random
import sys
import time

import pytest

sys.dont_write_bytecode = True
TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
os.environ["FPISA_LIBRARY"] = os.path.join(BUILD, "libfpisa.so")
sys.path.insert(0, os.path.join(TOP, "adapters", "python"))


@pytest.fixture
def rng():
    seed = int(os.environ.get("FPISA_SEED") or time.time_ns())
    print(f"FPISA_SEED={seed}")
    return random.Random(seed)
