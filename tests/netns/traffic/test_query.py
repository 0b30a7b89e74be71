# SPDX-License-Identifier: GPL-2.0-only
"""Queries over real packets, by clients that were written from doc/query-wire.md; and the verbs around them."""
import os
import re
import struct
import sys

import pytest

from lab import ADDRESS, FPISA, PIN, TOP, read_all

sys.path.insert(0, os.path.join(TOP, "tests", "interop"))
import independent_query as query  # noqa: E402

CLIENT = os.path.join(TOP, "tests", "interop", "independent_query.py")
ROWS, KEYS, LOSS = 2000, 60, 0.1
DEADLINE_S = 200

pytestmark = pytest.mark.cold  # the program array has more than a load leaves there


def make(net, *options, number=5):
    workers = ",".join(net.addresses[:-1])
    return net.fpisa("query", "add", number, "--workers", workers, "--master", net.addresses[-1], "--address", ADDRESS, *options)


def run(net, number=5):
    """What the master says, and each worker's rows."""
    clients = [net.worker[r].spawn(sys.executable, "-B", CLIENT, ADDRESS, number, "worker", "--seed", r, "--rows", ROWS, "--keys",
                                   KEYS, "--loss", LOSS, "--timeout", DEADLINE_S) for r in range(2)]
    master = net.worker[2].spawn(sys.executable, "-B", CLIENT, ADDRESS, number, "master", "--loss", LOSS, "--timeout", DEADLINE_S)
    ends = [read_all(p, DEADLINE_S + 20) for p in (master, *clients)]
    assert [status for _, status, _ in ends] == [0, 0, 0], [err for _, _, err in ends]
    return ends[0][0][0], [r for seed in range(2) for r in query.rows(seed, ROWS, KEYS)]


def grouped(rows):
    groups = {}
    for key, bits in rows:
        g = groups.setdefault(key, [0, 2**32 - 1, 0, 0, 0])
        g[0] += 1
        g[1], g[2] = min(g[1], query.place(bits)), max(g[2], query.place(bits))
        g[3] += 0 if query.special(bits) else query.units(bits)
        g[4] |= query.special(bits)
    return [[key, *g] for key, g in sorted(groups.items())]


@pytest.mark.parametrize("limit", [KEYS, KEYS // 2])
def test_table(lab, limit):
    """Room for every group, and for half of them: the rest is the master's, and no row is lost or there twice."""
    net = lab(workers=3)
    net.load()
    make(net, "--kind", "table", "--limit", limit)
    said, rows = run(net)
    assert said["answer"] == grouped(rows)
    shown = net.json("query", "show", 5)
    assert (shown["groups"], shown["sealed"], shown["joined"]) == (limit, True, [0, 1, 2])
    assert shown["rows"]["residue"] == said["received"]
    assert shown["rows"]["absorbed"] + said["received"] == len(rows)
    assert f"{limit} groups, sealed" in net.fpisa("query", "show", 5)
    net.fpisa("query", "del", 5)


@pytest.mark.parametrize("options", [(), ("--ascending",), ("--ties",)])
def test_topn(lab, options):
    net = lab(workers=3)
    net.load()
    make(net, "--kind", "topn", "--limit", 500, *options)
    said, rows = run(net)
    assert said["answer"] == sorted((query.place(v) for _, v in rows), reverse="--ascending" not in options)[:500]
    shown = net.json("query", "show", 5)
    assert shown["rows"]["pruned"] > len(rows) / 2
    # Of the rows that were counted, which are not all where frames came again: not before the last of the answer.
    value, = struct.unpack("<f", struct.pack("<I", query.value(said["answer"][-1])))
    threshold = shown["threshold"]
    assert threshold >= value if "--ascending" in options else threshold <= value
    assert f"row 500 of those counted is {threshold:.9g}" in net.fpisa("query", "show", 5)
    net.fpisa("query", "del", 5)


def test_verbs(lab):
    """A query and a job beside each other; neither is the other. What is gone leaves nothing."""
    net = lab(workers=3)
    net.load()
    make(net, "--kind", "table", "--limit", 10, "--token", "c0ffee")
    assert {p for p in os.listdir(PIN) if p.startswith("fpisa_query")} == {"fpisa_query_state_5", "fpisa_query_rows_5"}
    net.add_job(1)
    assert [j["job"] for j in net.json("job", "list")] == [1]
    assert [(q["query"], q["kind"], q["limit"], q["workers"]) for q in net.json("query", "list")] == [(5, "table", 10, 2)]
    assert re.search(r"^    5  table        10          4        2       0$", net.fpisa("query", "list"), re.M)
    for argv, says in ((("job", "show", 5), "job 5: is a query; see fpisa query show 5"),
                       (("job", "del", 5), "job 5: is a query"),
                       (("query", "show", 1), "query 1: no such query; see fpisa query list"),
                       (("query", "del", 1), "query 1: no such query")):
        status, out, err = net.agg.try_run(FPISA, *argv)
        assert status == 1 and not out and says in err, err
    for options, says in ((("--kind", "topn"), "--limit is missing"),
                          (("--kind", "topn", "--limit", 70000), "limit 70000; 1 to 65536 is possible"),
                          (("--kind", "table", "--limit", 9, "--ties"), "a table has no order"),
                          (("--kind", "table", "--limit", 9, "--key-bytes", 12), "keys of 12 bytes; 4, 8, 16 and 32"),
                          (("--kind", "sum", "--limit", 9), "'sum' is not topn or table")):
        status, out, err = net.agg.try_run(FPISA, "query", "add", 6, "--workers", net.addresses[0], "--master", net.addresses[1],
                                           "--address", ADDRESS, *options)
        assert status and not out and says in err, err
    status, _, err = net.agg.try_run(FPISA, "query", "add", 1, "--workers", net.addresses[0], "--master", net.addresses[1],
                                     "--address", ADDRESS, "--kind", "topn", "--limit", 1)
    assert status == 1 and "job 1: exists already; fpisa job del 1" in err
    net.check_sum(1)
    net.fpisa("upgrade")
    assert net.json("query", "list")[0]["query"] == 5
    net.fpisa("query", "del", 5)
    net.fpisa("job", "del", 1)
    assert net.json("query", "list") == [] and not [p for p in os.listdir(PIN) if p.startswith("fpisa_query")]
    net.fpisa("unload")
    assert not os.path.exists(PIN)
