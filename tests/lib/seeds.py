# SPDX-License-Identifier: GPL-2.0-only
"""Random numbers for a test, with a seed to repeat them"""
import os
import random
import time

import pytest


def draw_seed():
    """Return FPISA_SEED if it is set, else a random seed. Print it, so that a run can be repeated."""
    seed = int(os.environ.get("FPISA_SEED") or time.time_ns() % 10**9)
    print(f"FPISA_SEED={seed}")
    return seed


@pytest.fixture
def rng():
    return random.Random(draw_seed())
