# SPDX-License-Identifier: GPL-2.0-only
"""The histogram of discarded magnitudes equals the oracle's in `fpisa demo`, and Python's for two workers."""
import array
import math
import struct
from collections import Counter
from fractions import Fraction

import pytest

import worker
from lab import FPISA, PIN
from refusals import refused


pytestmark = pytest.mark.families("ipv4", why="`fpisa demo` has IPv4 addresses; tests/prog has the bits, and test_ipv6.py the frames")


@pytest.mark.parametrize("form, mode, more", [
    pytest.param("fp32", "fpisa", [], marks=pytest.mark.long), ("fp32", "fpisa-a", ["--pipeline", "staged"]),
    pytest.param("bf16", "fpisa-a", ["--loss", "0.05"], marks=pytest.mark.long),
    ("fp64", "fpisa64", []), ("mxint8", "fpisa", []), ("fp16", "fpisa", ["--op", "avg", "--big-endian"])])
def test_histogram(lab, form, mode, more):
    out = lab(workers=0).demo("--workers", 6, "--vector", 5001, "--format", form, "--mode", mode, "--histogram", *more)
    assert out["histogram_agrees"] is True and out["rounded"] > 0
    assert (out["overwritten"] > 0) == ((form, mode) == ("fp32", "fpisa-a"))
    assert sum(b["adds"] for b in out["buckets"]) == out["rounded"] + out["overwritten"]
    exponents = [b["exponent"] for b in out["buckets"]]
    assert exponents == sorted(set(exponents)) and exponents[-1] < 3


def discarded(a, b):
    """Return the magnitude that the sum of two floats discards in mode fpisa. It is all bits of the float with the smaller exponent below
    the unit of the other, rounded down. The order of the two floats does not matter."""
    words = struct.unpack("<2I", struct.pack("<2f", a, b))
    exponents = [max(w >> 23 & 255, 1) for w in words]
    unit = Fraction(2) ** (max(exponents) - 150)
    return Fraction(a if exponents[0] < exponents[1] else b) % unit


def exponent(x):
    """Return floor(log2(x)) of a Fraction whose denominator is a power of two."""
    return x.numerator.bit_length() - x.denominator.bit_length()


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("pipeline", ["fused", "staged"])
def test_histogram_is_what_python_computes(lab, pipeline):
    """The histogram of a job of two workers equals Python's. bpftool reads the same from the map, where bucket b is 2^(b - 150)."""
    count, net = 3000, lab(workers=2)
    net.load()
    net.add_job(4, "--histogram", "--pipeline", pipeline)
    net.work(4, {"count": count, "kind": "random"})
    rows = [array.array("f", worker.data("random", r, count)) for r in range(2)]
    lost = [d for d in map(discarded, *rows) if d]
    expect = Counter(map(exponent, lost))
    assert len(expect) > 3 and all(math.ldexp(1, x) > 0 for x in expect)
    got = net.json("histogram", 4)
    assert got["job"] == 4 and {b["exponent"]: b["adds"] for b in got["buckets"]} == expect
    dump = net.bpftool("map", "lookup", "pinned", PIN + "/fpisa_histogram", "key", 4, 0, 0, 0)
    buckets = dump["formatted"]["value"]["bucket"]
    assert {b - 150: n for b, n in enumerate(buckets) if n} == expect
    assert sum(buckets) == net.counters(4, PIN)["rounded"]
    table = [line.split() for line in net.fpisa("histogram", 4).splitlines()]
    assert [(int(x.removeprefix("2^")), int(n)) for x, n, _ in table[1:]] == sorted(expect.items())
    assert float(table[-1][2]) == 1
    # If a job is created again, it begins with an empty histogram.
    net.fpisa("job", "del", 4)
    net.add_job(4, "--histogram")
    assert net.json("histogram", 4)["buckets"] == [] and len(net.fpisa("histogram", 4).splitlines()) == 1


def test_histogram_table(lab):
    text = lab(workers=0).agg.run(FPISA, "demo", "--workers", 3, "--vector", 3000, "--histogram")
    assert "adds that discarded bits" in text and "share up to here" in text and "PASS" in text


def test_histogram_refusals(lab):
    net = lab()
    refused(net, ["histogram", "1"], "not loaded|nothing is loaded|fpisa load")
    net.load()
    net.add_job(1)
    refused(net, ["histogram", "1"], "job 1 has no histogram; create the job with --histogram")
    refused(net, ["histogram", "2"], "job 2: no such job; see fpisa job list")
    refused(net, ["histogram"], "histogram requires one job number", 2, usage=True)
    refused(net, ["histogram", "1", "2"], "histogram requires one job number", 2, usage=True)
    refused(net, ["histogram", "64"], "job: '64' is not a number from 0 to 63", 2, usage=True)
