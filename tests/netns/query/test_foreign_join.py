# SPDX-License-Identifier: GPL-2.0-only
"""Joins of foreign tables, whose rows and groups the aggregator's filters prune, give the answers of PostgreSQL alone."""
import json
import random

import pytest

import foreign_joins
from lab import draw_seed, endpoint
from postgres import Failed

pytestmark = pytest.mark.cold  # these tests put more programs into the program array than a load does

# Each query has a kind, a number, and the options of `fpisa query add` and of the server, without the ports.
AT_AGGREGATOR = [("join", 1, {"key-bytes": 16, "filter": "bitmap", "filter-keys": 40, "filter-bytes": 4}),
                 ("join", 2, {"key-bytes": 32, "filter": "bloom", "filter-keys": 300, "filter-bytes": 16}),
                 ("join", 3, {"key-bytes": 16, "filter": "bloom", "filter-keys": 300, "filter-bytes": 8}),
                 ("table", 4, {"limit": 30, "key-bytes": 32, "filter": "bloom", "filter-keys": 300, "filter-bytes": 4}),
                 ("table", 5, {"limit": 100, "key-bytes": 32, "filter": "bitmap", "filter-keys": 40, "filter-bytes": 8}),
                 ("table", 6, {"limit": 100, "key-bytes": 32})]


@pytest.fixture
def far(master):
    """Create a server with queries that have filters, each with its own ports."""
    master.serve()
    listed, addresses = [], master.net.addresses
    for kind, number, options in AT_AGGREGATOR:
        at = [endpoint(a, 18000 + number) for a in addresses]
        master.net.fpisa("query", "add", number, "--kind", kind, "--address", master.net.address, "--workers", ",".join(at[:-1]),
                         "--master", at[-1], *(v for name, value in options.items() for v in ("--" + name, value)))
        listed.append(" ".join(map(str, [kind, number, *(v for o in options.items() for v in o)])) +
                      f" local-port {18000 + number} worker-port {18000 + number}")
    master.create_server(", ".join(listed))
    return master


def scans_of(plan):
    if plan["Node Type"] == "Foreign Scan":
        yield plan
    for below in plan.get("Plans", ()):
        yield from scans_of(below)


def explained(q, query, settings=""):
    """Return the foreign scans of the statement, which must have run."""
    rows = q.sql(f"{settings} EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query}")
    scans = list(scans_of(json.loads("".join("|".join(r) for r in rows))[0]["Plan"]))
    for s in scans:
        # A scan that was read again, or not to its end, does not know which rows were pruned.
        if s["Actual Loops"] == 1 and s.get("Rows Sent"):
            assert s["Rows Sent"] == s["Rows Pruned"] + s["Rows Absorbed"] + s["Rows Received"], s
    return scans


def random_joins(far, rounds):
    """Run joins of every kind over small tables, with and without a key that can prune, with lost frames. Return the numbers of pruned rows
    and groups."""
    rng = random.Random(draw_seed())
    pruned = {"rows": 0, "groups": 0}
    for i in range(rounds):
        tables = foreign_joins.Tables(rng)
        for name, rows in tables.rows.items():
            far.deal(name, tables.schema, rows)
        far.sql(tables.sql("far"))
        settings = rng.choice(["", "", "SET fpisa.debug_loss = 0.1;", "SET enable_hashjoin = off;", "SET enable_mergejoin = off;"])
        for query in tables.queries(8):
            near, got = (sorted(far.sql(f"SET search_path = {schema}, public; {also} {query}"))
                         for schema, also in (("near", ""), ("far", settings)))
            scans = explained(far, query, settings + "SET search_path = far, public;")
            assert got == near, (i, settings, query, scans)
            for s in scans:
                pruned["groups" if s["Remote Query"].startswith("groups") else "rows"] += s.get("Rows Pruned", 0)
    return pruned


@pytest.mark.families(spread=True)
def test_random_joins(far):
    random_joins(far, 6)


@pytest.mark.long
def test_random_joins_long(far):
    pruned = random_joins(far, 60)
    assert pruned["rows"] > 3000 and pruned["groups"] > 100, pruned


def test_counts(far):
    """The counts show how many rows a filter keeps from the master. Test first two scans of one statement at the same time, then a scan
    without a free query."""
    rows = [(k, k * 3, "2024-01-01", "a", k % 5, 1.0) for k in range(1, 31)] * 20
    few = [(k, k * 3, "2024-01-01", "b", k % 5, 2.0) for k in range(1, 31)]
    tables = foreign_joins.Tables(random.Random(1), {"big": rows, "small": few, "third": few}, not_null=True)
    for name, there in tables.rows.items():
        far.deal(name, tables.schema, there)
    far.sql(tables.sql("far"))
    path = "SET search_path = far, public;"
    big, small = explained(far, "SELECT * FROM big JOIN small USING (k) WHERE small.n = 0", path)
    assert big["Joined With"] == "small on k = k, where n int32 = 0"
    assert big["Pruned By"] == f"network: query 1 at {far.net.address}, by its bitmap of join keys"
    assert (big["Rows Sent"], big["Rows Pruned"], big["Rows Received"], big["Join Keys"]) == (600, 480, 120, 6) and "Join Filter" not in big
    assert small["Rows Received"] == 6 and "Pruned By" not in small
    groups, _ = explained(far, "SELECT * FROM (SELECT k, fpisa_sum(x), count(*) FROM big GROUP BY k) g JOIN small USING (k) WHERE small.n = 0", path)
    assert groups["Pruned By"] == f"network: query 4 at {far.net.address}, by its Bloom filter of join keys"
    assert groups["Rows Sent"] == 600 and groups["Rows Absorbed"] + groups["Rows Received"] in range(120, 181) and groups["Actual Rows"] in range(6, 10)
    # Each of two scans has its own filter.
    held = "BEGIN; DECLARE c CURSOR FOR SELECT big.x FROM big JOIN small USING (k) WHERE small.n = 0; FETCH 1 FROM c;"
    again = far.sql(f"{path} {held} EXPLAIN SELECT * FROM big JOIN small USING (k) WHERE small.n = 0")
    assert any("Pruned By: network: query 3" in r[0] for r in again), again
    far.sql("ALTER SERVER far OPTIONS (SET queries 'join 1 key-bytes 16 filter bitmap filter-bytes 4 local-port 18001 worker-port 18001')")
    again = far.sql(f"{path} {held} EXPLAIN SELECT * FROM big JOIN small USING (k) WHERE small.n = 0;"
                    "SELECT count(*) FROM big JOIN small USING (k) WHERE small.n = 0")
    assert any("Pruned By: none: query 1 is in use by another scan" in r[0] for r in again) and again[-1] == ("120",), again
    for way, why in ("none", "fpisa.pruning is none"), ("workers", "fpisa.pruning is workers, and a worker does not know the other workers' keys"):
        scans = explained(far, "SELECT * FROM big JOIN small USING (k) WHERE small.n = 0", f"{path} SET fpisa.pruning = {way};")
        assert [(s["Rows Pruned"], s["Actual Rows"]) for s in scans] == [(0, 600), (0, 6)] and scans[0]["Pruned By"] == "none: " + why


def test_no_room_for_places(far):
    """Rows that may be in the join take 8 bytes each of hash_mem, whichever worker has them. If hash_mem is exceeded, the filter is not
    used, and the answer is complete."""
    few = [(k, k * 3, "2024-01-01", "b", k % 5, 2.0) for k in range(1, 31)]
    tables = foreign_joins.Tables(random.Random(1), {"big": few * 200, "small": few, "third": few}, not_null=True)
    for name, there in tables.rows.items():
        far.deal(name, tables.schema, there)
    far.sql(tables.sql("far"))
    query = "SELECT * FROM big JOIN small USING (k) WHERE small.n = 0"
    for work_mem, room in ("64kB", False), ("1MB", True):
        path = f"SET search_path = far, public; SET hash_mem_multiplier = 1; SET work_mem = '{work_mem}';"
        big = explained(far, query.replace("n = 0", "n < 4"), path)[0]
        assert ("too large for hash_mem: the join could have more than" in big["Pruned By"]) != room and (big["Rows Pruned"] == 1200) == room, big
        assert far.sql(f"{path} SELECT count(*) FROM big JOIN small USING (k) WHERE small.n < 4") == [("4800",)]
    most = 64 * 1024 // 3 // 8
    for n in most, most + 1:
        # One worker has all rows of the join but one.
        far.deal("big", tables.schema, few[:1] + [few[0], few[3]] * (n - 1))
        path = "SET search_path = far, public; SET hash_mem_multiplier = 1; SET work_mem = '64kB';"
        big = explained(far, query.replace("n = 0", "n < 4"), path)[0]
        assert big["Rows Received"] == (n if n == most else 2 * n - 1), big
        assert big["Pruned By"].startswith("network") if n == most else f"too large for hash_mem: the join could have more than {most} rows" in big["Pruned By"], big


def test_replaced_meanwhile(far):
    """The statement fails if its scan reads other files of a table than the scan that made the filter's keys. Otherwise rows that join only
    with the new files would be missing."""
    few = [(k, k * 3, "2024-01-01", "b", k % 5, 2.0) for k in range(1, 31)]
    tables = foreign_joins.Tables(random.Random(1), {"big": few * 20, "small": few, "third": few}, not_null=True)
    for name, there in tables.rows.items():
        far.deal(name, tables.schema, there)
    far.sql(tables.sql("far"))
    folder = far.directory(0)
    path = "SET search_path = far, public; " + "".join(f"SET enable_{way} = off; " for way in ("hashjoin", "mergejoin", "material", "hashagg", "sort"))
    query = "SELECT big.k FROM big WHERE EXISTS (SELECT 1 FROM small WHERE small.k = big.k AND small.n = 0)"
    assert explained(far, query, path)[0].get("Joined With"), far.sql(f"{path} EXPLAIN {query}")
    for change in (f"cp {folder}/small.csv {folder}/new && mv {folder}/new {folder}/small.csv",
                   f"cp {folder}/small.schema {folder}/new && mv {folder}/new {folder}/small.schema",
                   f"touch {folder}/third.csv {folder}/third.schema"):
        held = f"{path} BEGIN; DECLARE c CURSOR FOR {query}; FETCH 1 FROM c;\n\\! {change}\nMOVE ALL FROM c; COMMIT"
        if "small" in change:
            with pytest.raises(Failed, match='table "small" was written or replaced at a worker while the statement read it; ask again'):
                far.sql(held)
        else:
            far.sql(held)


def test_types(far):
    """If a filter would compare keys that are equal in PostgreSQL but have different types at the workers, the statement fails."""
    far.deal("big", ["d int32 not null", "n int32 not null", "x real"], [(20240101, i, 1.0) for i in range(10)] + [(20240102, 1, 2.0)] * 10)
    far.deal("small", ["d int32 not null", "n int32 not null", "x real"], [(240101, 0, 1.0), (240102, 1, 2.0), (240102, 1, 3.0)])
    for name, rows in ("big", 1000000), ("small", 10):
        far.sql(f"CREATE FOREIGN TABLE {name} (d date NOT NULL, n integer NOT NULL, x real) SERVER far OPTIONS (rows '{rows}')")
    of_rows = "SELECT count(*) FROM big JOIN small USING (d) WHERE small.n = 0"
    of_groups = "SELECT count(*) FROM (SELECT d, max(x) FROM big GROUP BY d) g JOIN small USING (d) WHERE small.n = 0"
    assert far.sql("SET fpisa.pruning = none;" + of_rows) == [("10",)]
    for query in of_rows, of_groups, "SELECT n FROM big WHERE d IN (SELECT d FROM small WHERE n = 0)":
        with pytest.raises(Failed, match="(big|small).csv: column d is int32, not date"):
            far.sql(query)
    # If only one table has another type, the error names this table.
    far.deal("small", ["d date not null", "n int32 not null", "x real"], [("2024-01-01", 0, 1.0)])
    with pytest.raises(Failed, match="big.csv: column d is int32, not date"):
        far.sql(of_rows)
    far.deal("small", ["d int32 not null", "n int32 not null", "x real"], [(20240101, 0, 1.0)])
    for name in "big", "small":
        far.sql(f"ALTER FOREIGN TABLE {name} ALTER COLUMN d TYPE integer")
    assert far.sql(of_rows) == [("10",)] and far.sql(of_groups) == [("1",)]
    assert all(s["Pruned By"].startswith("network") for q in (of_rows, of_groups) for s in explained(far, q) if "Joined With" in s)
