# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa plan` prints shares and times that match a linear program solved by bisection, and refuses invalid arguments."""
import collections
import fractions
import json
import random
import subprocess

import pytest
from lab import FPISA, draw_seed


def plan(*argv):
    out = subprocess.run([FPISA, "plan", *map(str, argv), "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)


def feasible(t, n, k, b, r, colocated):
    """Return whether all sums of a one-bit vector can be done in t seconds. The largest shares that the links allow must then add up to
    one."""
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
        assert 1 < p["ms"] / bound < 1.25, (p, bound)  # the rest is headers
        check_weights(p)


def check_weights(p):
    """Check whole-number weights up to 100. Their ratio is within 2% of the ratio of the shares, or as near as possible. A share that is
    too small has weight zero."""
    shares, weights = [[p[f"{who}_{what}"] for who in ("aggregator", "worker")] for what in ("share", "weight")]
    least = 0.005 * max(shares)
    assert all(0 <= w <= 100 and (w > 0) == (s >= least) or abs(s - least) < 1e-8 for w, s in zip(weights, shares)), p  # the output has few digits
    if all(weights):
        off = [abs(a / b / (shares[0] / shares[1]) - 1) for a, b in (weights, *((a, b) for a in range(1, 101) for b in range(1, 101)))]
        assert off[0] < 0.02 + 1e-6 or off[0] == pytest.approx(min(off)), p


@pytest.mark.parametrize("cluster, bound", [
    ("--workers 8 --aggregators 1 --rate 1G", "the aggregators' links"), ("--workers 8 --aggregators 8 --rate 1G", "each worker's own link"),
    ("--workers 8 --aggregators 1 --rate 1G --aggregator-rate 10G", "each worker's own link"),
    ("--workers 8 --aggregators 2 --rate 1G --colocated", "the links of all hosts"), ("--workers 8 --aggregators 8 --rate 1G --colocated", "each worker's"),
])
def test_bound(cluster, bound):
    out = subprocess.run([FPISA, "plan", *cluster.split()], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert out.splitlines()[-1].startswith(f"bound by {bound}"), out


def test_byteps():
    """n colocated workers and k dedicated aggregators with equal links meet BytePS's bound. Without the latter, the workers meet a ring's bound."""
    for n, k in (8, 4), (8, 0), (8, 8), (4, 2), (3, 1):
        p = plan("--workers", n, "--aggregators", k, "--rate", "10G", "--colocated")
        ratio = p["ring_ms"] / (2 * (n - 1) / n) / p["ms"]
        assert ratio == pytest.approx((n * n + k * n - 2 * k) / (2 * n * (n - 1)) / HEADERS, rel=0.01)


def busiest(n, racks, roots, worker, aggregator, uplink):
    """Return the seconds in which each link carries its bits for one bit of the vector. All results go to one host at a time."""
    bits = collections.Counter()
    for w in range(n):
        rack = w % racks
        bits["sent", f"worker {w}"] += 1
        bits["received", f"leaf {rack}"] += 1
        bits["received", f"worker {w}"] += 1
        bits["sent", f"leaf {rack}"] += 1
    for rack in range(racks):
        for link in f"leaf {rack}", f"uplink {rack}":
            bits["sent", link] += 1
            bits["received", link] += 1
        for root in range(roots):
            bits["received", f"root {root}"] += fractions.Fraction(1, roots)
            bits["sent", f"root {root}"] += fractions.Fraction(1, roots)
    rates = {"worker": worker, "leaf": aggregator, "root": aggregator, "uplink": uplink}
    return max(n / rates[link.split()[0]] for (_, link), n in bits.items())


def test_racks():
    rng = random.Random(draw_seed())
    bounds = collections.Counter()
    for _ in range(60):
        racks = rng.randint(2, 15) if rng.randrange(4) else rng.randint(16, 64)
        n = rng.randint(racks, 64 if rng.randrange(4) and racks < 64 else 64 * racks)
        b, r, u = (rng.choice((20, 100, 1000, 25000)) for _ in range(3))
        roots = rng.choice((0, 1, 2, 4, 16))  # 0: not given
        p = plan("--workers", n, "--racks", racks, *(("--roots", roots) if roots else ()), "--rate", f"{b}M", "--aggregator-rate", f"{r}M", "--uplink", f"{u}M", "--bytes", 1000000)
        assert (p["racks"], p["rack_workers"], p["roots"]) == (racks, -(-n // racks), roots or 1)
        assert p["ms"] / HEADERS == pytest.approx(busiest(n, racks, roots or 1, b, r, u) * 8e3, rel=1e-4)
        assert p["ring_ms"] == pytest.approx(2 * (n - 1) / n * 8e3 / min(b, u), rel=1e-4)
        bounds[p["bound"].split("'")[0]] += 1
    assert set(bounds) == {"each worker", "the leaves", "the racks", "the roots"}, bounds


HEADERS = plan("--workers", 2, "--aggregators", 16, "--rate", "1G", "--bytes", 1000000)["ms"] / 8.0


@pytest.mark.parametrize("argv, says", (
    (["--workers", "8", "--rate", "10G"], "--aggregators is missing"),
    (["--workers", "8", "--aggregators", "4"], "--rate"),
    (["--workers", "1", "--aggregators", "4", "--rate", "10G"], "--workers"),
    (["--workers", "8", "--aggregators", "17", "--rate", "10G"], "--aggregators"),
    (["--workers", "16", "--aggregators", "1", "--colocated", "--rate", "10G"], "at most 16"),
    (["--workers", "8", "--aggregators", "1", "--rate", "10"], "not a link's rate"),
    (["--workers", "8", "--aggregators", "1", "--rate", "-1G"], "not a link's rate"),
    (["--workers", "8", "--aggregators", "1", "--rate", "nanG"], "not a link's rate"),
    (["--workers", "8", "--aggregators", "1", "--rate", "1G", "more"], "more"),
    (["--workers", "8", "--racks", "2", "--rate", "1G"], "give both, such as --racks 2 --uplink 10G"),
    (["--workers", "8", "--roots", "2", "--rate", "1G"], "give both, such as --racks 2 --uplink 10G"),
    (["--workers", "8", "--racks", "2", "--uplink", "1G", "--roots", "17", "--rate", "1G"], "--roots: '17' is not a number from 1 to 16"),
    (["--workers", "8", "--uplink", "2G", "--rate", "1G"], "give both, such as --racks 2 --uplink 10G"),
    (["--workers", "8", "--racks", "2", "--uplink", "1G", "--rate", "1G", "--aggregators", "2"], "leave --aggregators and --colocated out"),
    (["--workers", "129", "--racks", "2", "--uplink", "1G", "--rate", "1G"], "a rack has up to 64 workers"),
    (["--workers", "65", "--aggregators", "2", "--rate", "1G"], "65 workers need a tree"),
    (["--workers", "2", "--racks", "3", "--uplink", "1G", "--rate", "1G"], "give fewer --racks"),
    (["--workers", "80", "--racks", "65", "--uplink", "1G", "--rate", "1G"], "--racks: '65' is not a number from 2 to 64"),
))
def test_refused(argv, says):
    p = subprocess.run([FPISA, "plan", *argv], stderr=subprocess.PIPE, text=True)
    assert p.returncode == 2 and says in p.stderr, p
