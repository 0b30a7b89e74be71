# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa plan`: shares and times against a linear program's answer by bisection, and what is refused."""
import json
import random
import subprocess

import pytest
from lab import FPISA, draw_seed


def plan(*argv):
    out = subprocess.run([FPISA, "plan", *map(str, argv), "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)


def feasible(t, n, k, b, r, colocated):
    """Can all be done in t s, of a vector of one bit? By each link's bits alone: the largest share that it allows."""
    if t * b < 1:
        return False
    dedicated = t * r / n
    own = (1 / n if n == 2 else min(1, (t * b - 1) / (n - 2))) if colocated else 0
    return k * dedicated + n * own >= 1


def least(*cluster):
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if feasible(middle, *cluster) else (middle, high)
    return high


def test_random():
    rng = random.Random(draw_seed())
    for _ in range(60):
        colocated = rng.random() < 0.5
        n = rng.randint(2, 12)
        k = rng.randint(0, 16 - n) if colocated else rng.randint(1, 16)
        b, r = rng.choice((20, 100, 1000, 25000)), rng.choice((20, 100, 1000, 100000))
        p = plan("--workers", n, "--aggregators", k, "--rate", f"{b}M", "--aggregator-rate", f"{r}M", "--bytes", 1000000,
                 *["--colocated"] * colocated)
        assert abs(k * p["aggregator_share"] + n * p["worker_share"] - 1) < 1e-6, p
        bits = 8e6 * 1.0
        assert p["ring_ms"] == pytest.approx(2 * (n - 1) / n * bits / b / 1e3, rel=1e-6)
        bound = least(n, k, b * 1e6, r * 1e6, colocated) * bits * 1e3
        assert 1 < p["ms"] / bound < 1.25, (p, bound)  # headers
        assert all(0 <= p[w] <= 100 for w in ("aggregator_weight", "worker_weight"))


def test_byteps():
    """n workers and k hosts of equal links: BytePS's bound, and a ring's where there are none."""
    for n, k in (8, 4), (8, 0), (8, 8), (4, 2), (3, 1):
        p = plan("--workers", n, "--aggregators", k, "--rate", "10G", "--colocated")
        ratio = p["ring_ms"] / (2 * (n - 1) / n) / p["ms"]
        assert ratio == pytest.approx((n * n + k * n - 2 * k) / (2 * n * (n - 1)) / HEADERS, rel=0.01)


HEADERS = plan("--workers", 2, "--aggregators", 16, "--rate", "1G", "--bytes", 1000000)["ms"] / 8.0


@pytest.mark.parametrize("argv, says", (
    (["--workers", "8", "--rate", "10G"], "nobody adds"),
    (["--workers", "8", "--aggregators", "4"], "--rate"),
    (["--workers", "1", "--aggregators", "4", "--rate", "10G"], "--workers"),
    (["--workers", "8", "--aggregators", "17", "--rate", "10G"], "--aggregators"),
    (["--workers", "16", "--aggregators", "1", "--colocated", "--rate", "10G"], "at most 16"),
    (["--workers", "8", "--aggregators", "1", "--rate", "10"], "not a link's rate"),
    (["--workers", "8", "--aggregators", "1", "--rate", "-1G"], "not a link's rate"),
    (["--workers", "8", "--aggregators", "1", "--rate", "nanG"], "not a link's rate"),
    (["--workers", "8", "--aggregators", "1", "--rate", "1G", "more"], "more"),
))
def test_refused(argv, says):
    p = subprocess.run([FPISA, "plan", *argv], stderr=subprocess.PIPE, text=True)
    assert p.returncode == 2 and says in p.stderr, p
