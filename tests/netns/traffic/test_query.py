# SPDX-License-Identifier: GPL-2.0-only
"""Test queries over real packets with clients written from doc/query-wire.md, and the verbs for queries."""
import os
import re
import struct
import sys

import pytest

from lab import FPISA, PIN, TOP, endpoint, read_all

sys.path.insert(0, os.path.join(TOP, "tests", "interop"))
import independent_query as query  # noqa: E402

CLIENT = os.path.join(TOP, "tests", "interop", "independent_query.py")
ROWS, KEYS, LOSS = 2000, 60, 0.1
DEADLINE_S = 200

# cold: these tests put more programs into the program array than a load does
pytestmark = [pytest.mark.cold, pytest.mark.families(spread=True)]


def make(net, *options, number=5):
    workers = ",".join(net.addresses[:-1])
    return net.fpisa("query", "add", number, "--workers", workers, "--master", net.addresses[-1], "--address", net.address, *options)


def run(net, number=5, join=1, token="0"):
    """Return the output of the master, and the rows of each worker."""
    same = ("--join", join, "--loss", LOSS, "--timeout", DEADLINE_S, "--token", token)
    clients = [net.worker[r].spawn(sys.executable, "-B", CLIENT, net.address, number, "worker", "--seed", r, "--rows", ROWS, "--keys",
                                   KEYS, *same) for r in range(2)]
    master = net.worker[2].spawn(sys.executable, "-B", CLIENT, net.address, number, "master", *same)
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


@pytest.mark.parametrize("limit, token", [(KEYS, "0"), pytest.param(KEYS // 2, "0", marks=pytest.mark.long), (KEYS // 2, "c0ffee")])
def test_table(lab, limit, token):
    """With room for every group or for half of them no row is lost or counted twice, because the master adds the other groups. With a
    token, frames have tags."""
    net = lab(workers=3)
    net.load()
    make(net, "--kind", "table", "--limit", limit, *(("--token", token) if token != "0" else ()))
    said, rows = run(net, token=token)
    assert said["answer"] == grouped(rows)
    shown = net.json("query", "show", 5)
    assert (shown["sealed"], shown["joined"]) == (True, [0, 1, 2])
    # The hash has a new seed each time. Occasionally it gives one bucket more keys than the bucket has ways.
    assert limit - 3 <= shown["groups"] <= limit
    assert (shown["groups"] == KEYS) == (said["received"] == 0)
    assert shown["rows"]["residue"] == said["received"]
    assert shown["rows"]["absorbed"] + said["received"] == len(rows)
    assert f"{shown['groups']} keys, sealed" in net.fpisa("query", "show", 5)
    net.fpisa("query", "del", 5)


@pytest.mark.parametrize("options", [(), pytest.param(("--ascending",), marks=pytest.mark.long), ("--ties",)])
def test_topn(lab, options):
    net = lab(workers=3)
    net.load()
    make(net, "--kind", "topn", "--limit", 500, *options)
    said, rows = run(net)
    assert said["answer"] == sorted((query.place(v) for _, v in rows), reverse="--ascending" not in options)[:500]
    shown = net.json("query", "show", 5)
    assert shown["rows"]["pruned"] > len(rows) / 2
    # No counted row sorts after the last row of the answer. If frames were sent again, not all rows are counted.
    value, = struct.unpack("<f", struct.pack("<I", query.value(said["answer"][-1])))
    threshold = shown["threshold"]
    assert threshold >= value if "--ascending" in options else threshold <= value
    assert f"row 500 of those counted is {threshold:.9g}" in net.fpisa("query", "show", 5)
    net.fpisa("query", "del", 5)


@pytest.mark.parametrize("kind, options", [("join", ()), pytest.param("table", ("--limit", 5), marks=pytest.mark.long), pytest.param("topn", ("--limit", 300), marks=pytest.mark.long)])
def test_filter(lab, kind, options):
    """The small table has every fourth key. If these keys are sent first, the aggregator prunes rows outside the join."""
    net = lab(workers=3)
    net.load()
    make(net, "--kind", kind, "--filter", "bitmap", "--filter-keys", KEYS, *options)
    shown = net.json("query", "show", 5)
    assert (shown["filter"], shown["filter_bytes"], shown["filter_keys"]) == ("bitmap", 4, 256)
    assert (shown["filter_state"], shown["filter_missing"]) == ("building", [0, 1])
    said, rows = run(net, join=4)
    mine = [r for r in rows if not r[0] % 4]
    shown = net.json("query", "show", 5)
    assert (shown["filter_state"], shown["filter_missing"]) == ("whole", [])
    assert "filter: bitmap of 256 join keys of 4 bytes, in use" in net.fpisa("query", "show", 5)
    assert shown["rows"]["keys"] >= KEYS / 4
    if kind == "join":
        assert said["answer"] == sorted(list(r) for r in mine) and said["received"] == len(mine)
        assert shown["rows"]["filtered"] >= len(rows) - len(mine)
    elif kind == "table":
        assert said["answer"] == grouped(mine)
        assert shown["rows"]["filtered"] == len(rows) - len(mine)
        assert shown["rows"]["filtered"] + shown["rows"]["absorbed"] + said["received"] == len(rows)
    else:
        assert said["answer"] == sorted((query.place(v) for _, v in mine), reverse=True)[:300]
    net.fpisa("query", "del", 5)


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1")
def test_cpus(lab):
    """Answers are correct if `load --cpus` passes frames to other CPUs than the receiving CPU."""
    net = lab(workers=3)
    net.load("--cpus", "0,1")
    make(net, "--kind", "table", "--limit", KEYS // 2, "--filter", "bloom", "--filter-keys", KEYS)
    said, rows = run(net, join=2)
    assert said["answer"] == grouped([r for r in rows if not r[0] % 2])
    assert sum(row["sent"] for row in net.json("stats")["steering"]) >= len(rows) / query.FRAME_ROWS
    shown = net.json("query", "show", 5)
    assert shown["rows"]["filtered"] + shown["rows"]["absorbed"] + shown["rows"]["residue"] == len(rows)
    net.fpisa("query", "del", 5)


def test_mtu_towards_the_master(lab):
    net = lab(workers=3)
    net.load()
    argv = ("query", "add", 5, "--workers", ",".join(net.addresses[:2]), "--master", net.addresses[2], "--address", net.address,
            "--kind", "topn", "--limit", 1)
    _, _, err = net.agg.try_run(FPISA, *argv)
    assert "MTU" not in err
    net.fpisa("query", "del", 5)
    net.agg.ip("link set p2 mtu 1400")
    status, _, err = net.agg.try_run(FPISA, *argv)
    assert not status and re.search(r"query 5: p2, towards the master, has MTU 1400, and p0, .*; at both ends, run ip link set dev p2 mtu ", err), err
    net.fpisa("query", "del", 5)


def test_no_room_for_places(lab):
    """Keys that a master of `fpisa query run` would refuse are valid for other programs, but give a warning."""
    net = lab()
    net.load()
    bitmap = "--kind", "join", "--filter", "bitmap", "--filter-keys", 9
    for options, need in (((*bitmap, "--key-bytes", 8, "--filter-bytes", 4), 16), ((*bitmap, "--key-bytes", 8), 16), (bitmap, 16),
                          ((*bitmap, "--key-bytes", 16, "--filter-bytes", 8), None), ((*bitmap, "--key-bytes", 32, "--filter-bytes", 8), None),
                          (("--kind", "join", "--filter", "bloom", "--filter-keys", 9, "--key-bytes", 16), 32),
                          (("--kind", "topn", "--limit", 9), 8), (("--kind", "topn", "--limit", 9, "--key-bytes", 8), None),
                          (("--kind", "table", "--limit", 9), None)):
        status, _, err = net.agg.try_run(FPISA, "query", "add", 5, "--workers", net.addresses[0], "--master", net.addresses[1],
                                         "--address", net.address, *options)
        net.fpisa("query", "del", 5)
        assert not status and ("room for places" in err) == bool(need), (options, err)
        assert not need or err.endswith(f"so fpisa query run and PostgreSQL refuse this query; give --key-bytes {need}\n"), (options, err)


def test_verbs(lab):
    """A query and a job that run at the same time do not affect each other. Removed objects leave no state."""
    net = lab(workers=3)
    net.load()
    make(net, "--kind", "table", "--limit", 10, "--token", "c0ffee")
    assert {p for p in os.listdir(PIN) if p.startswith("fpisa_query")} == {"fpisa_query_state_5", "fpisa_query_rows_5"}
    net.add_job(1)
    assert [j["job"] for j in net.json("job", "list")] == [1]
    assert [(q["query"], q["kind"], q["limit"], q["workers"]) for q in net.json("query", "list")] == [(5, "table", 10, 2)]
    assert re.search(r"^    5  table        10          4        2       0$", net.fpisa("query", "list"), re.M)
    for argv, says in ((("job", "show", 5), "job 5 is a query; see fpisa query show 5"),
                       (("job", "del", 5), "job 5 is a query"),
                       (("query", "show", 1), "query 1 is a job; see fpisa job show 1"),
                       (("query", "del", 1), "query 1 is a job"),
                       (("query", "show", 2), "query 2: no such query; see fpisa query list")):
        status, out, err = net.agg.try_run(FPISA, *argv)
        assert status == 1 and not out and says in err, err
    for options, says in ((("--kind", "topn"), "--limit is missing"),
                          (("--kind", "topn", "--limit", 70000), "limit 70000 is not supported; give 1 to 65536"),
                          (("--kind", "table", "--limit", 9, "--ties"), "a table has no order"),
                          (("--kind", "table", "--limit", 9, "--key-bytes", 12), "keys of 12 bytes are not supported; give --key-bytes 4, 8, 16 or 32"),
                          (("--kind", "sum", "--limit", 9), "'sum' is not topn or table or join"),
                          (("--kind", "table", "--limit", 9, "--values", "half"), "'half' is not real or double or int64 or int128"),
                          (("--kind", "join", "--filter", "bitmap", "--filter-keys", 9, "--values", "double"),
                           "--values other than real requires --kind table or topn"),
                          (("--kind", "table", "--limit", 9, "--key-bytes", 4, "--values", "int64"), "requires --key-bytes 8 or more"),
                          (("--kind", "join"), "a join needs a filter"),
                          (("--kind", "join", "--filter", "bitmap"), "--filter-keys is missing"),
                          (("--kind", "join", "--filter-keys", 9), "--filter is missing"),
                          (("--kind", "join", "--limit", 9, "--filter", "bloom", "--filter-keys", 9), "leave --limit out"),
                          (("--kind", "topn", "--limit", 9, "--filter", "bloom", "--filter-keys", 9), "try --filter bitmap"),
                          (("--kind", "join", "--filter", "bitmap", "--filter-keys", 2**28 + 1), "at most 268435456 keys"),
                          (("--kind", "join", "--filter", "bloom", "--filter-keys", 9, "--filter-bytes", 8), "up to the key's 4")):
        status, out, err = net.agg.try_run(FPISA, "query", "add", 6, "--workers", net.addresses[0], "--master", net.addresses[1],
                                           "--address", net.address, *options)
        assert status and not out and says in err, err
    stranger = "2001:db8::9" if net.ipv6 else "192.0.2.9"
    for address, says in ((net.address, f"query 6: ranks 0 and 1 both have address {endpoint(net.addresses[0], 18000)}"),
                          (stranger, f"query 6: {stranger} is not an address of this machine")):
        status, _, err = net.agg.try_run(FPISA, "query", "add", 6, "--workers", net.addresses[0], "--master",
                                         net.addresses[address != net.address], "--address", address, "--kind", "topn", "--limit", 1)
        assert status == 1 and says in err, err
    own = endpoint(net.address, 18001)
    for master in ((net.address,), (own,), (own, "--address", net.address), (own + "@lo", "--address", net.address), (own + "@lo",)):
        status, _, err = net.agg.try_run(FPISA, "query", "add", 6, "--workers", net.addresses[0], "--kind", "topn", "--limit", 1,
                                         "--master", *master)
        assert status == 1 and f"query 6: {net.address} is an address of this machine, but the workers and the master are on " \
            "other machines than the aggregator" in err, (master, err)
    status, _, err = net.agg.try_run(FPISA, "query", "add", 1, "--workers", net.addresses[0], "--master", net.addresses[1],
                                     "--address", net.address, "--kind", "topn", "--limit", 1)
    assert status == 1 and "query 1: a job has this number, and jobs and queries share the numbers 0 to 63; take another number, " \
        "or run fpisa job del 1" in err
    for kind, number, says in (("job", 5, "job 5: a query has this number, and jobs and queries share the numbers 0 to 63"),
                               ("query", 5, "query 5 already exists; run fpisa query del 5, or take another number")):
        options = ("--kind", "topn", "--limit", 1, "--master", net.addresses[1]) if kind == "query" else ()
        status, _, err = net.agg.try_run(FPISA, kind, "add", number, "--workers", net.addresses[0], "--address", net.address, *options)
        assert status == 1 and says in err, err
    net.check_sum(1)
    net.fpisa("upgrade")
    assert net.json("query", "list")[0]["query"] == 5
    net.fpisa("query", "del", 5)
    net.fpisa("job", "del", 1)
    assert net.json("query", "list") == [] and not [p for p in os.listdir(PIN) if p.startswith("fpisa_query")]
    net.fpisa("unload")
    assert not os.path.exists(PIN)
