# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa_sum() and fpisa_avg() as aggregates: NULLs, specials, windows, SQL's clauses for aggregates, memory."""
import json

import pytest

from exact import DOUBLE, REAL, adversarial, literal, rounded
from postgres import Failed

TYPES = {"real": (REAL, "float4send"), "double precision": (DOUBLE, "float8send")}
LARGEST = {"real": "3.4028235e38", "double precision": "1.7976931348623157e308"}

both = pytest.mark.parametrize("sql_type", TYPES)


def values(sql_type, *literals):
    rows = ", ".join(f"({'NULL' if x is None else repr(x)}::{sql_type})" for x in literals)
    return f"(VALUES {rows}) t(x)"


@both
@pytest.mark.parametrize("literals, total, average", [
    ((None,), "", ""), ((None, "1"), "1", "1"), (("1e30", "1", "-1e30"), "1", "0.3333333333333333"),
    (("-0",), "0", "0"), (("-0", "-0"), "0", "0"), (("-1", "1"), "0", "0"), (("NaN", "1"), "NaN", "NaN"),
    (("Infinity", "1"), "Infinity", "Infinity"), (("-Infinity", "1e30"), "-Infinity", "-Infinity"),
    (("Infinity", "-Infinity"), "NaN", "NaN"), (("Infinity", "NaN"), "NaN", "NaN")])
def test_values(server, sql_type, literals, total, average):
    assert server.sql(f"SELECT fpisa_sum(x), fpisa_avg(x) FROM {values(sql_type, *literals)}") == [(total, average)]


@both
def test_no_rows(server, sql_type):
    assert server.sql(f"SELECT fpisa_sum(x) IS NULL, fpisa_avg(x) IS NULL FROM {values(sql_type, '1')} WHERE false") == [("t", "t")]
    assert server.sql(f"SELECT x, fpisa_sum(x) FROM {values(sql_type, '1')} WHERE false GROUP BY x") == []


def test_types(server):
    """The result types are those of sum() and avg()."""
    for name, sql_type in (("sum", "real"), ("sum", "double precision"), ("avg", "real"), ("avg", "double precision")):
        ours, theirs = server.sql(f"SELECT pg_typeof(fpisa_{name}(x)), pg_typeof({name}(x)) FROM {values(sql_type, '1')}")[0]
        assert ours == theirs
    assert server.sql("""SELECT fpisa_sum(i), fpisa_sum(b), fpisa_sum(n), fpisa_avg(i), pg_typeof(fpisa_sum(n))
        FROM (VALUES (1, 9007199254740993, 0.1), (2, -9007199254740992, 0.2)) t(i, b, n)""") == \
        [("3", "0", "0.30000000000000004", "1.5", "double precision")]


@both
def test_beyond_the_range(server, sql_type):
    """A sum beyond the range is an error with sum()'s code, but only if the exact sum is beyond the range. An average is never an error."""
    largest = LARGEST[sql_type]
    for function in ("sum", "fpisa_sum"):
        with pytest.raises(Failed, match="value out of range: overflow"):
            server.sql(f"SELECT {function}(x) FROM {values(sql_type, largest, largest)}")
    back, = server.sql(f"SELECT fpisa_sum(x), fpisa_avg(x) = {largest}::{sql_type} / 3 FROM "
                       f"{values(sql_type, largest, largest, '-' + largest)}")[0][:1]
    assert float(back) == float(largest)
    assert server.sql(f"SELECT fpisa_avg(x) = {largest}::{sql_type} FROM {values(sql_type, largest, largest)}") == [("t",)]
    with pytest.raises(Failed, match="22003"):
        server.sql(f"\\set VERBOSITY sqlstate\nSELECT fpisa_sum(x) FROM {values(sql_type, largest, largest)}")


@both
def test_clauses(server, sql_type):
    """DISTINCT, FILTER, ORDER BY and HAVING work together over one scan."""
    assert server.sql(f"""SELECT fpisa_sum(DISTINCT x), fpisa_sum(x) FILTER (WHERE x < 2), fpisa_sum(x ORDER BY x DESC),
        fpisa_avg(DISTINCT x ORDER BY x), fpisa_sum(x) FROM {values(sql_type, '1', '1', '2', None, '4')}
        HAVING fpisa_sum(x) = 8""") == [("7", "2", "8", "2.3333333333333335", "8")]


@both
def test_moving_windows(server, sql_type, rng):
    """In moving window frames, with NULLs and specials, each result is the exact sum of the frame."""
    f, send = TYPES[sql_type]
    rows = [rng.choice((None, float("nan"), float("inf"), float("-inf"))) if rng.random() < 0.05 else x
            for x in adversarial(f, 1500, rng)]
    copied = "".join(f"{i}\t{literal(x)}\n" for i, x in enumerate(rows))
    before, after = rng.randrange(1, 40), rng.randrange(0, 10)
    found = server.sql(f"""CREATE TEMP TABLE w (i int, x {sql_type});
COPY w FROM stdin;
{copied}\\.
SELECT encode({send}(fpisa_sum(x) OVER f), 'hex'), encode(float8send(fpisa_avg(x) OVER f), 'hex'),
    encode({send}(fpisa_sum(x) OVER g), 'hex') FROM w
    WINDOW f AS (ORDER BY i ROWS BETWEEN {before} PRECEDING AND {after} FOLLOWING),
    g AS (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY i;""")
    assert len(found) == len(rows)
    for i, got in enumerate(found):
        frame = [x for x in rows[max(0, i - before):i + after + 1] if x is not None]
        pair = [x for x in rows[max(0, i - 1):i + 1] if x is not None]
        assert got == (rounded(f, frame) or "", rounded(f, frame, DOUBLE, True) or "", rounded(f, pair) or ""), i


def test_windows_take_back(server):
    """In a frame over half of the rows, rows that leave are subtracted. Adding each frame again would need 10^8 additions."""
    def seconds(frame):
        plans = [server.sql(f"SELECT plan_of('SELECT fpisa_sum(x) OVER (ORDER BY i ROWS {frame} PRECEDING) FROM w', ', ANALYZE')")
                 for _ in range(3)]
        return min(json.loads("|".join(plan[0]))[0]["Execution Time"] / 1e3 for plan in plans)

    server.sql("CREATE TABLE w AS SELECT i, random()::real x FROM generate_series(1, 20000) i")
    try:
        assert seconds(10000) < 20 * seconds("UNBOUNDED")
    finally:
        server.sql("DROP TABLE w")


def test_many_rows(server):
    """Sums are correct with more rows of one sign than a limb, or a window of limbs, holds without carries. They are correct again when
    these rows leave."""
    assert server.sql(f"""SELECT fpisa_sum(0.1::real), fpisa_avg({LARGEST['real']}::real)::real FROM generate_series(1, 1000000);
SELECT fpisa_avg({LARGEST['double precision']}) = {LARGEST['double precision']} FROM generate_series(1, 300000);
SELECT fpisa_sum(x::real) FROM (SELECT {LARGEST['real']}::real * s x FROM generate_series(1, 200000), (VALUES (1), (-1)) s(s)
    UNION ALL SELECT 1e-45::real) t""") == [("100000", LARGEST["real"].replace("e", "e+")), ("t",), ("1e-45",)]


@pytest.mark.parametrize("sql_type, most", [("real", 160), ("double precision", 160)])
def test_memory_of_groups(server, sql_type, most):
    """A group of a hash aggregate takes few bytes if its values have similar sizes."""
    def peak(function):
        plan = server.sql(f"""SET work_mem = '1GB'; SET max_parallel_workers_per_gather = 0; SET enable_sort = off;
SELECT plan_of('SELECT {function}(x) FROM groups GROUP BY g', ', ANALYZE')""")
        node = json.loads("|".join(plan[0]))[0]["Plan"]
        assert node["Strategy"] == "Hashed" and node["HashAgg Batches"] == 1
        return node["Peak Memory Usage"] * 1024 / 100000

    server.sql(f"CREATE TABLE groups AS SELECT i % 100000 g, (random() * 1000)::{sql_type} x FROM generate_series(1, 400000) i; "
               "ANALYZE groups")
    try:
        assert peak("fpisa_sum") < peak("sum") + most
    finally:
        server.sql("DROP TABLE groups")
