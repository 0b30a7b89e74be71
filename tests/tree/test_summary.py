# SPDX-License-Identifier: GPL-2.0-only
"""In the table of targets, each figure is in its own row, and is met or missed on the right side of the bound."""

import summary


def verdicts(results):
    """Return (target, measured, verdict, where) of each measured figure."""
    return [(r[0], r[2], r[4], r[5]) for r in summary.rows(results) if r[4] != "not measured"]


def arith(**ratios):
    return {"bench": "arith", "ratios": ratios}


def test_at_most():
    assert verdicts([arith(fpisa_add_ns=4.7)])[0][1:3] == ("4.70", "met")
    assert verdicts([arith(fpisa_add_ns=4.71)])[0][1:3] == ("4.71", "missed")


def test_exact64():
    """Exact sums of fp64 are judged by the sums of fp32 in the same run."""
    found = verdicts([{**arith(), "exact64": {"add_ratio": 1.8, "readout_ratio": 2.51, "set_over_add": 1.0}}])
    assert [f[1:3] for f in found] == [("1.80", "met"), ("2.51", "missed"), ("1.00", "met")]


def test_staged_is_judged_by_fused():
    line = {**arith(), "staged_add_ns": 9.0, "fpisa_add_ns": 4.0}
    assert verdicts([line]) == [("staged add : fused add", "2.25", "missed", "")]


def test_contenders():
    """Frames of 256 and of 832 values have different bounds."""
    line = {"bench": "wire", "elements": 832, "ratio_quartiles": [0.3, 0.5]}
    found = verdicts([{**line, "contender": "fpisa", "ratio": 1}, {**line, "contender": "udp-avx2", "ratio": 1.6},
                      {**line, "contender": "udp-avx2", "elements": 256, "ratio": 1.6}, {**line, "contender": "xdp-avx2", "ratio": 1.4}])
    assert [(f[1], f[2]) for f in found] == [("1.60", "missed"), ("1.60", "met"), ("1.40", "missed")]


def test_all_reduce():
    """The target applies from 16 MB on, and against other contenders only at N = 8."""
    def line(workers, size, mbit=100):
        return {"bench": "collective", "contender": "fpisa", "topology": "switch", "workers": workers, "rate_mbps": mbit, "bytes": size,
                "cpu_busy": 0.5, "share": 0.96, "faster": 1.5}

    found = verdicts([line(2, 16 << 20), line(8, 16 << 20), line(8, 4 << 20), line(8, 16 << 20, 1000)])
    assert [(f[0].split(",")[0], f[1], f[2]) for f in found] == [
        ("all-reduce", "0.96", "met"), ("all-reduce", "0.96", "met"), ("all-reduce", "0.96", "met"),
        ("all-reduce", "1.50", "missed"), ("all-reduce", "1.50", "met")]
    assert found[3][3].startswith("N = 8, 100 Mbit/s, 16 MB")


def test_by_topology():
    """The summary covers N = 8 and a network without loss, by size, MTU and queue, except rates that the CPUs cannot reach."""
    def point(size, faster, seconds, topology="dedicated-8", **unusual):
        ours = {"faster": faster, "faster_quartiles": [faster, faster], "seconds": seconds, "waited": 0, "share": seconds, "bound_s": 1,
                "limit_s": 1 + (topology == "one-port"), "share_quartiles": [seconds, seconds]}
        return {"bench": "topology", "workers": 8, "mtu": 3506, "rate_mbps": 20, "queue_bytes": 1 << 20, "loss": 0, "bytes": size,
                "ours": {topology: ours}, **unusual}

    found = verdicts([point(1 << 20, 1.6, 1), point(4 << 20, 1.59, 2), point(64 << 10, 9, 9), point(1 << 20, 9, 9, workers=4),
                      point(1 << 20, 9, 9, rate_mbps=1000), point(1 << 20, 9, 1.11, queue_bytes=128 << 10), point(1 << 20, 9, 1.3, loss=0.01),
                      point(1 << 20, 0.95, 3, "colocated", mtu=1500), point(64 << 10, 1.99, 3, "colocated"),
                      point(1 << 20, 1.25, 0.94, "everywhere-4"), point(1 << 20, 9, 0.1, "one-port")])
    assert [(f[0].split(",")[0], *f[1:]) for f in found] == [
        ("N = 8", "1.60", "met", "N = 8, 20 Mbit/s, 1 MB"), ("N = 8", "1.59", "missed", "N = 8, 20 Mbit/s, 4 MB"),
        ("N = 8", "1.25", "met", "N = 8, 20 Mbit/s, 1 MB"), ("N = 8", "0.95", "met", "N = 8, 20 Mbit/s, 1 MB, MTU 1500"),
        ("N = 8", "1.99", "missed", "N = 8, 20 Mbit/s, 64 KB"),
        ("time of 1 MB with a queue of 128 KB : with 1 MB", "1.11", "missed", "N = 8, 20 Mbit/s, 1 MB, queue 128 KB, dedicated-8"),
        ("time of 1 MB with 1% loss : without", "1.30", "met", "N = 8, 20 Mbit/s, 1 MB, loss 1%, dedicated-8"),
        ("share of BytePS's bound", "1.00", "met", "N = 8, 20 Mbit/s, 1 MB, dedicated-8"),
        ("share of BytePS's bound", "3.00", "met", "N = 8, 20 Mbit/s, 1 MB, MTU 1500, colocated"),
        ("share of BytePS's bound", "0.94", "missed", "N = 8, 20 Mbit/s, 1 MB, everywhere-4")]


def test_training_colocated():
    """The summary has a line for each model, only from runs with FPISA."""
    def line(model, contender, gloo):
        return {"bench": "training-colocated", "model": model, "mbit": 50, "workers": 4, "contender": contender,
                **({"gloo": gloo, "gloo_quartiles": [gloo, gloo]} if contender == "fpisa" else {})}

    found = verdicts([line("mlp", "fpisa", 1.0), line("mlp", "gloo", 9), line("cnn", "fpisa", 0.99)])
    assert [f[1:] for f in found] == [("1.00", "met", "mlp, N = 4, 50 Mbit/s"), ("0.99", "missed", "cnn, N = 4, 50 Mbit/s")]


def test_training():
    """The summary has the backend, the model that waits for the network, and only float32."""
    def line(contender, model, format, mbit, gloo):
        return {"bench": "training", "contender": contender, "model": model, "format": format, "mbit": mbit, "workers": 4,
                **({"gloo": gloo, "gloo_quartiles": [gloo, gloo]} if contender == "fpisa" else {})}

    found = verdicts([line("fpisa", "mlp", "fp32", 50, 1.34), line("gloo", "mlp", "fp32", 50, 9), line("fpisa", "cnn", "fp32", 50, 9),
                      line("fpisa", "mlp", "fp16", 200, 9), line("fpisa", "mlp", "fp32", 200, 1.25), line("fpisa", "mlp", "fp32", 1000, 1)])
    assert [f[1:] for f in found] == [("1.34", "missed", "N = 4, 50 Mbit/s"), ("1.25", "met", "N = 4, 200 Mbit/s"),
                                      ("1.00", "met", "N = 4, 1000 Mbit/s")]


def test_sums():
    """The summary has only sums of type real, over the whole table and by 1,000 groups."""
    def line(aggregate, groups, workers, ratio):
        return {"bench": "sum", "aggregate": aggregate, "groups": groups, "workers": workers, "ratio": ratio,
                "ratio_quartiles": [ratio, ratio]}

    found = verdicts([line("sum(real)", 1, 0, 9), line("fpisa_sum(float8)", 1, 0, 9), line("fpisa_sum(real)", 1000000, 0, 9),
                      line("fpisa_sum(real)", 1, 0, 1.5), line("fpisa_sum(real)", 1000, 2, 1.6)])
    assert [f[1:] for f in found] == [("1.50", "met", "no parallel workers"), ("1.60", "missed", "2 parallel workers")]


def test_merge():
    """The summary has the aggregator's merge, for 32 workers and 100,000 groups."""
    def line(contender, workers, groups, ratio):
        return {"bench": "merge", "contender": contender, "workers": workers, "groups": groups, "ratio": ratio, "ratio_quartiles": [ratio] * 2}

    found = verdicts([line("user", 32, 100000, 0.1), line("fpisa", 8, 100000, 0.1), line("fpisa", 32, 100000, 0.21), line("fpisa", 32, 100000, 0.19)])
    assert [f[1:] for f in found] == [("0.21", "missed", "32 workers"), ("0.19", "met", "32 workers")]


def test_nothing_measured():
    rows = list(summary.rows([]))
    assert len(rows) == len(summary.TARGETS) and all(r[4] == "not measured" for r in rows)
