# SPDX-License-Identifier: GPL-2.0-only
"""Queries over a join return every row of the join. All other rows are rows that the filter may let pass."""
import json
import os
import random
import signal

import pytest

import queries
from lab import children, draw_seed
from queries import Queries, read_whole, stopped_in_time

# cold: these tests put more programs into the program array than a load does
pytestmark = [pytest.mark.cold, pytest.mark.families(spread=True)]

KEYS = 1000
JOIN = "--join", "small", "--on", "k=key"
FAULTS = "drop=0.2,duplicate=0.1,reorder=0.1,delay=0.05,corrupt=0.05"
BIG = "k int64", "d date not null", "v real not null", "s text not null"
SMALL = "key int64 not null", "size int32"


@pytest.fixture
def asked(lab, tmp_path):
    net = lab(workers=3, mtu=640)
    net.load()
    q = Queries(net, str(tmp_path))
    yield q
    q.close()


def add(q, kind, number, *options):
    limit = ("--limit", 40) if kind == "table" else ()
    q.net.fpisa("query", "add", number, "--kind", kind, *limit, "--workers", ",".join(q.net.addresses[:-1]), "--master",
                q.net.addresses[-1], "--address", q.net.address, *options)


def spread(q, name, schema, rows):
    return [r for w in range(2) for r in q.table(w, rows[w::2], schema, name=name)]


def big_rows(rng, n, keys):
    return [(rng.choice([rng.randrange(keys), None]) if rng.random() < 0.1 else rng.randrange(keys),
             rng.choice(["1970-01-01", "2024-02-29"]), rng.uniform(-9, 9), rng.choice(["", "a b", "c"])) for _ in range(n)]


def test_random_joins(asked):
    """Check that the answer contains every row of the join, with bitmaps, Bloom filters and lost frames. Every extra row must be one that
    the filter may let pass."""
    rng = random.Random(draw_seed())
    q = asked
    spread(q, "big", BIG, [])
    spread(q, "small", SMALL, [])
    q.serve()
    add(q, "join", 1, "--key-bytes", 16, "--filter", "bitmap", "--filter-keys", KEYS, "--filter-bytes", 8)
    add(q, "join", 2, "--key-bytes", 32, "--filter", "bloom", "--filter-keys", KEYS, "--filter-bytes", 16)
    # The bitmap covers at most 8 keys. Other keys lie beyond the bitmap, so their rows pass.
    add(q, "join", 3, "--key-bytes", 16, "--filter", "bitmap", "--filter-keys", 1, "--filter-bytes", 8)
    pruned = 0
    for i in range(8):
        many, few, of = rng.choice([0, 300, 2000]), rng.choice([0, 5, 400]), range(-5, KEYS + 9)
        number, size = rng.choice([1, 2, 3]), rng.choice([None, 1])
        if i == 0:  # most rows are pruned with any seed
            many, few, of, number, size = 2000, 5, range(KEYS), 1, None
        rows = spread(q, "big", BIG, big_rows(rng, many, KEYS + 200))
        other = spread(q, "small", SMALL, [(rng.choice(of), rng.choice([1, 2, None])) for _ in range(few)])
        keys = {k for k, s in other if size is None or s == size}
        more = ("--where", "s<>''") if rng.random() < 0.5 else ()
        print("round", i, "query", number, "rows", len(rows), "keys", len(keys), more)
        got, counts = q.run(*JOIN, *(("--join-where", f"size={size}") if size else ()), *more,
                            *(("--debug-faults", f"{FAULTS},seed={i + 1}") if i % 2 else ()), table="big", number=number)
        about = [r for r in rows if not more or r[3]]
        want = sorted(repr(r) for r in about if r[0] in keys)
        came = sorted(repr((r[0], r[1], queries.real(r[2]), r[3])) for r in got)
        left = sorted(map(repr, about))
        for r in came:
            left.remove(r)
        for r in want:
            came.remove(r)
        assert counts["filtered"] and counts["restarts"] == 0
        assert counts["sent"] == sum(r[0] is not None for r in about) and counts["received"] == len(got)
        if number == 1 and all(0 <= k < 1024 for k in keys):
            assert not came
        elif number == 2:
            assert len(came) <= 20 + len(about) / 50, len(came)
        pruned += counts["pruned"]
    assert pruned > 100


def test_groups(asked):
    """Rows with other keys are dropped before they make groups, and are counted."""
    rng = random.Random(draw_seed())
    q = asked
    schema = "k int32 not null", "j int32 not null", "v real"
    rows = spread(q, "big", schema, [(rng.randrange(500), rng.randrange(3), rng.choice([None, 1e30, -1e30, 1.0, 0.5])) for _ in range(6000)])
    keys = set(rng.sample(range(500), 60))
    spread(q, "small", ("key int32 not null",), [(k,) for k in keys])
    q.serve()
    add(q, "table", 5, "--key-bytes", 8, "--filter", "bitmap", "--filter-keys", 500, "--filter-bytes", 4)
    join = *JOIN, "--by", "k,j", "--value", "v"
    for faults in (), ("--debug-faults", FAULTS + ",seed=7"):
        _, _, err = q.master.try_run(*q.argv(*join, *faults, table="big"))
        said = json.loads(q.master.run(*q.argv("--json", *join, *faults, table="big")))
        counts = said["counts"]
        want = queries.groups_of([((k, j), v) for k, j, v in rows if k in keys])
        got = {(r[0], r[1]): (r[2], *map(queries.number, r[3:6]), queries.number(r[6], double=True)) for r in said["rows"]}
        assert got.keys() == want.keys() and all(all(map(queries.same, got[k], want[k])) for k in want)
        assert counts["sent"] == counts["pruned"] + counts["absorbed"] + counts["received"] == 6000
        assert counts["values_sent"] == counts["values_pruned"] + counts["values_absorbed"] + counts["values_received"]
        assert counts["values_pruned"] == sum(v is not None and k not in keys for k, _, v in rows) == counts["pruned"]
        assert counts["keys"] == 60 and "join keys: 60\n" in err
    # Use the same query without a join. Then no keys are sent, and all rows pass the filter.
    _, counts = q.run("--by", "k,j", "--value", "v", table="big")
    assert counts["values_pruned"] == 0 and not counts["filtered"]


def test_lost_state(asked):
    """If the query is recreated while keys or rows are in flight, the run begins again with the keys."""
    rng = random.Random(draw_seed())
    q = asked
    rows = spread(q, "big", BIG, big_rows(rng, 20000, KEYS))
    keys = set(rng.sample(range(KEYS), 100))
    spread(q, "small", SMALL, [(k, 1) for k in list(keys) * 40])
    q.serve()
    options = "--key-bytes", 16, "--filter", "bitmap", "--filter-keys", KEYS, "--filter-bytes", 8
    for counter, least in ("keys", 500), ("rows", 2000):
        add(q, "join", 5, *options)
        p = stopped_in_time(lambda: q.master.spawn(*q.argv("--json", *JOIN, "--debug-faults", "drop=0.3,seed=1", table="big")),
                            lambda counter=counter: q.net.json("query", "show", 5)["rows"][counter], least)
        q.remove()
        add(q, "join", 5, *options)
        answer, status, err = read_whole(p)
        assert status == 0, err
        assert sorted(r[0] for r in answer["rows"]) == sorted(r[0] for r in rows if r[0] in keys)
        assert answer["counts"]["restarts"] > 0 and answer["counts"]["filtered"] and answer["counts"]["pruned"] > 10000
        q.remove()


def keying(q, slow, *options):
    """Return the stopped process of a join whose keys are in flight. Worker `slow` has most of the keys."""
    for w in range(2):
        q.table(w, [(k, "2024-02-29", 1.0, "x") for k in range(100)], BIG, name="big")
        q.table(w, [(k % KEYS, 1) for k in range(200000 if w == slow else 10)], SMALL, name="small")
    return stopped_in_time(lambda: q.master.spawn(*q.argv("--json", *JOIN, "--debug-faults", "drop=0.2,seed=1", *options, table="big")),
                           lambda: q.net.json("query", "show", 5)["rows"]["keys"], 1000)


@pytest.mark.parametrize("slow", [pytest.param(0, marks=pytest.mark.long), 1])
def test_worker_goes_while_keys_come(asked, slow):
    """If a worker stops or dies while others wait for its keys, the error names the worker. The next query has the answer."""
    q = asked
    q.serve()
    filter_ = "--key-bytes", 16, "--filter", "bitmap", "--filter-keys", KEYS, "--filter-bytes", 8
    add(q, "join", 5, *filter_)
    name = f"worker {q.net.addresses[slow]}:18001: "
    p = keying(q, slow, "--timeout", 2)
    session, = children(q.workers[slow].pid)
    os.kill(session, signal.SIGSTOP)
    _, status, err = read_whole(p)
    os.kill(session, signal.SIGKILL)
    assert status == 1 and name + "no answer in 2000 ms" in err, err
    p = keying(q, slow)
    os.kill(*children(q.workers[slow].pid), signal.SIGKILL)
    _, status, err = read_whole(p)
    assert status == 1 and name + "the peer closed the connection" in err, err
    # All keys are sent once, and then sent again into another filter. Most keys lie beyond the end of the new filter.
    p = keying(q, slow)
    q.remove()
    add(q, "join", 5, *filter_[:5], 1, *filter_[6:])
    answer, status, err = read_whole(p)
    assert status == 0 and answer["counts"]["restarts"] > 0, err
    assert sorted(r[0] for r in answer["rows"]) == sorted(2 * list(range(100)))
    # the query is removed and not recreated
    p = keying(q, slow, "--timeout", 2)
    q.remove()
    _, status, err = read_whole(p)
    assert status == 1 and "query 5: " in err and q.net.address in err, err


def test_keys_at_borders(asked):
    """Joins are correct with keys at the ends of a bitmap, of its words and of its blocks, with negative numbers, NULL and an empty
    table."""
    q = asked
    at = [0, 1, 31, 32, 255, 256, KEYS, 1023, 1024, -1, -2, 2 ** 31 - 1, -2 ** 31, None]
    for kind, size in ("int32", 4), ("int64", 8):
        big = [(k, 1.0) for k in at]
        add(q, "join", 5, "--key-bytes", 16, "--filter", "bitmap", "--filter-keys", 1024, "--filter-bytes", size)
        for keys in [[]] + [[k] for k in at] + [[255, None, -1]]:
            for w in range(2):
                q.table(w, big, (f"k {kind}", "v real"), name="big")
                q.table(w, [(k,) for k in keys] if w else [], (f"key {kind}",), name="small")
            if not q.workers:
                q.serve()
            got, counts = q.run("--join", "small", "--on", "k=key", table="big")
            there = {k for k in keys if k is not None}
            beyond = {k for k in at if k is not None and not 0 <= k < 1024}
            want = there | (beyond if there & beyond else set())
            assert sorted(r[0] for r in got) == sorted(2 * list(want)) and counts["filtered"], keys
        q.remove()


def test_refusals(asked):
    q = asked
    for w in range(2):
        q.table(w, [(1, "2024-02-29", 1.0, "x")], BIG, name="big")
        q.table(w, [(1, 1)], SMALL, name="small")
        q.table(w, [("2024-02-29",)], ("day date",), name="days")
    q.serve()
    add(q, "join", 1, "--key-bytes", 16, "--filter", "bitmap", "--filter-keys", 9, "--filter-bytes", 4)
    add(q, "join", 2, "--key-bytes", 8, "--filter", "bitmap", "--filter-keys", 9)
    add(q, "table", 3, "--key-bytes", 32, "--filter", "bloom", "--filter-keys", 9, "--filter-bytes", 8)
    add(q, "table", 4, "--key-bytes", 32)
    on, groups = ("--join", "small", "--on"), ("--by", "k,d", "--value", "v")
    for options, number, says in (
            ((*on, "k=key"), 1, "big.csv: the join's key takes 8 bytes, but the query's filter has --filter-bytes 4"),
            ((*on, "k=key"), 2, "query 2 has keys of 8 bytes; join keys of 8 with places of rows need --key-bytes 16"),
            ((*on, "k=key"), 3, "query 3 at the aggregator has kind "),
            (("--join", "days", "--on", "d=day", "--by", "d", "--value", "v"), 4, "query 4 has no filter of join keys at the aggregator"),
            ((*on, "k=key", *groups), 3, "big.csv: column k may be NULL; in a join, name only columns in --by that are not null"),
            ((*on, "d=key", *groups), 3, "big.csv: column d is in the join's key; name this column first in --by"),
            ((*on, "k=size"), 1, "big.csv: column k is int64, and small.csv: size is int32; columns of a join must have the same type"),
            ((*on, "s=key"), 1, "big.csv: column s is text, which join keys do not support; join by numbers or dates"),
            ((*on, "k=none"), 1, "small.csv: the schema has no column 'none'"),
            (("--join", "none", "--on", "k=key"), 1, "table none does not exist on this worker"),
            ((*on, "k"), 1, "'k' is not \"a=b,c=d\"")):
        said = q.fails(*options, table="big", number=number)
        assert says in said and said.count("\n") == 1, said
