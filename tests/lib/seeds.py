# SPDX-License-Identifier: GPL-2.0-only
"""Random numbers of a test, which can be drawn again."""
import os
import random
import time

import pytest


def draw_seed():
    """FPISA_SEED if it is set; said, so that a run can be repeated."""
    seed = int(os.environ.get("FPISA_SEED") or time.time_ns() % 10**9)
    print(f"FPISA_SEED={seed}")
    return seed


@pytest.fixture
def rng():
    return random.Random(draw_seed())
