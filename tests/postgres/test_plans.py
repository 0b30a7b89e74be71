# SPDX-License-Identifier: GPL-2.0-only
"""For one table, random plans, worker counts and row orders give one result, the exact sum rounded."""
import json
from collections import defaultdict

import pytest

from exact import DOUBLE, REAL, adversarial, literal, rounded

ROWS, GROUPS = 12000, 40
RESULTS = """encode(float4send(fpisa_sum(x)), 'hex'), encode(float8send(fpisa_sum(y)), 'hex'),
    encode(float8send(fpisa_avg(x)), 'hex'), encode(float8send(fpisa_avg(y)), 'hex'), sum(x), sum(y)"""
# Each source gives the same rows in a different order, from a different plan node.
SOURCES = ("plain", "shuffled", "parts", "(SELECT * FROM plain ORDER BY random()) r",
           "(SELECT * FROM shuffled WHERE g % 2 = 0 UNION ALL SELECT * FROM plain WHERE g % 2 = 1) u",
           "plain JOIN keys USING (g)", "(SELECT * FROM shuffled ORDER BY i) o")
SETTINGS = {"max_parallel_workers_per_gather": (0, 1, 2, 3, 4, 7), "enable_hashagg": ("on", "off"),
            "enable_seqscan": ("on", "on", "off"), "enable_partitionwise_aggregate": ("on", "off"),
            "enable_hashjoin": ("on", "off"), "enable_mergejoin": ("on", "off"), "enable_gathermerge": ("on", "off"),
            "enable_parallel_append": ("on", "off"), "enable_incremental_sort": ("on", "off"),
            "parallel_leader_participation": ("on", "off"), "work_mem": ("64kB", "4MB"), "jit": ("off",) * 9 + ("on",)}
ALWAYS = "SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET parallel_setup_cost = 0; " \
         "SET parallel_tuple_cost = 0; SET jit_above_cost = 0; "


@pytest.fixture(scope="module")
def tables(server):
    """Create the tables. Return the rows as (g, x, y), with NULLs among them."""
    import random
    rng = random.Random(20)
    rows = [(rng.randrange(GROUPS), x if rng.random() < 0.99 else None, y if rng.random() < 0.99 else None)
            for x, y in zip(adversarial(REAL, ROWS, rng), adversarial(DOUBLE, ROWS, rng))]
    copied = "".join(f"{i}\t{g}\t{literal(x)}\t{literal(y)}\n" for i, (g, x, y) in enumerate(rows))
    columns = "(i int, g int, x real, y double precision)"
    server.sql(f"""CREATE TABLE plain {columns};
COPY plain FROM stdin;
{copied}\\.
CREATE TABLE shuffled AS SELECT * FROM plain ORDER BY random();
CREATE INDEX ON shuffled (i);
CREATE INDEX ON plain (g, y);
CREATE TABLE parts {columns} PARTITION BY HASH (g);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO parts SELECT * FROM shuffled;
CREATE TABLE keys AS SELECT g FROM generate_series(0, {GROUPS - 1}) g;
ANALYZE;""")
    yield rows
    server.sql("DROP TABLE plain, shuffled, parts, keys")


def wanted(rows):
    """Return {group: the four results}. The key None is the whole table."""
    columns = defaultdict(lambda: ([], []))
    for g, x, y in rows:
        for key in (g, None):
            for column, value in zip(columns[key], (x, y)):
                if value is not None:
                    column.append(value)
    return {g: (rounded(REAL, x), rounded(DOUBLE, y), rounded(REAL, x, DOUBLE, True), rounded(DOUBLE, y, average=True))
            for g, (x, y) in columns.items()}


def nodes(plan):
    """Return the nodes of a plan."""
    yield plan["Node Type"] + "".join(" " + plan[k] for k in ("Strategy", "Partial Mode") if k in plan)
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def check(server, rows, rng, plans):
    want = wanted(rows)
    seen, others, shapes = set(), defaultdict(set), set()
    for _ in range(plans):
        choice = {name: rng.choice(values) for name, values in SETTINGS.items()}
        source = rng.choice(SOURCES)
        grouping = rng.choice(("", " GROUP BY g", " GROUP BY ROLLUP (g)"))
        key = "g" if grouping else "NULL"
        query = f"SELECT {key}, {RESULTS} FROM {source}{grouping}"
        settings = ALWAYS + "".join(f"SET {name} = '{value}'; " for name, value in choice.items())
        *found, plan = server.sql(f"{settings}\n{query};\nSELECT plan_of($${query}$$)")
        shapes.add(tuple(nodes(json.loads("|".join(plan))[0]["Plan"])))
        assert len(found) == {"": 1, " GROUP BY g": GROUPS}.get(grouping, GROUPS + 1)
        for g, *results, real, double in found:
            g = int(g) if g else None
            assert tuple(results) == want[g], (choice, query)
            if g is None:
                seen.add(tuple(results))
                others["sum(real)"].add(real)
                others["sum(float8)"].add(double)
    told = ", ".join(f"{name} {len(values)}" for name, values in others.items())
    print(f"{plans} runs, {len(shapes)} shapes of plan; distinct results over the whole table: fpisa {len(seen)}, {told}")
    assert len(seen) == 1 and all(len(values) > 1 for values in others.values())
    assert len(shapes) > 20 and any("Partial" in node for shape in shapes for node in shape)


def test_hundred_plans(server, tables, rng):
    check(server, tables, rng, 100)


@pytest.mark.long
def test_thousand_plans(server, tables, rng):
    check(server, tables, rng, 1000)
