# SPDX-License-Identifier: GPL-2.0-only
"""Clients written only from doc/wire.md support every format, and recompute every operation bit for bit."""
import sys

import pytest

from lab import INDEPENDENT_CLIENT, read_all

COUNT = 320
SUMS, ORDERS, ROOT = "sum,avg,scale", "min,max", "norm"


@pytest.mark.families()
def test_every_format_and_operation(lab):
    """Every operation is correct, even if a rank was removed. avg divides by the number of remaining ranks, and the guard bits are still
    those for all ranks."""
    net = lab(workers=3)
    net.load()
    for job, (lost, ops, *options) in enumerate([
            ([], f"{SUMS},{ORDERS},{ROOT}", "--format", "fp32", "--reciprocal", "--big-endian"),
            ([2], f"{SUMS},{ORDERS},{ROOT}", "--format", "fp16", "--mode", "fpisa64"),
            ([1], f"{SUMS},{ORDERS}", "--format", "bf16", "--mode", "exact", "--reciprocal"),
            ([], f"{SUMS},{ORDERS},{ROOT}", "--format", "fp64", "--mode", "fpisa64", "--big-endian"),
            ([], f"{SUMS},{ORDERS},{ROOT}", "--format", "e4m3", "--mode", "fpisa-a", "--rounding", "nearest"),
            ([0], f"{SUMS},{ORDERS},{ROOT}", "--format", "e5m2", "--mode", "fpisa64", "--rounding", "down"),
            ([], f"sum,{ORDERS}", "--format", "int32"),
            ([2], SUMS, "--format", "mxint8", "--mode", "fpisa64")], 1):
        net.add_job(job, "--elements", "128", "--window", "8", *options)
        for rank in lost:
            net.fpisa("job", "shrink", job, rank)
        clients = [net.worker[r].spawn(sys.executable, "-B", INDEPENDENT_CLIENT, net.address, job, "--count", COUNT, "--op", ops,
                                       "--factor", "-0.3125", "--seeds", f"a{job},b{job},c{job}", "--timeout", "50")
                   for r in range(3) if r not in lost]
        for p in clients:
            said, status, err = read_all(p)
            assert status == 0, (options, err)
            assert [s["op"] for s in said] == ops.split(",") and {s["workers"] for s in said} == {3}
            assert [(s["op"], s["wrong"], s["count"]) for s in said if s["wrong"] or s["count"] != COUNT] == [], options


@pytest.mark.families()
@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
@pytest.mark.parametrize("token", [None, "beef"], ids=["checksum", "token"])
def test_results_that_some_ranks_keep(lab, fanout, token):
    """A rank gets the results that it keeps, and a header for the others. Each fifth chunk is kept by no rank, and each fifth by all."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, "--elements", "128", "--window", "8", "--fanout", fanout, *(["--token", token] if token else []))
    chunks = 20
    clients = [w.spawn(sys.executable, "-B", INDEPENDENT_CLIENT, net.address, 1, "--count", 128 * chunks, "--keepers", "--seeds", "a,b,c",
                       *(["--token", token] if token else []), "--timeout", "50") for w in net.worker]
    for p in clients:
        (said,), status, err = read_all(p)
        assert status == 0, err
        assert said["wrong"] == 0 and said["bare"] == chunks * 3 // 5, said
