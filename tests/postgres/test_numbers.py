# SPDX-License-Identifier: GPL-2.0-only
"""Groups of doubles, integers and numeric(p,s) in foreign tables are pushed down, and equal PostgreSQL's own groups to the last digit."""
import struct

import pytest

import foreign

WAYS = "SET fpisa.pruning = none;", "SET fpisa.pruning = workers;", "SET fpisa.pruning = none; SET fpisa.preaggregate = on;"
TYPES = {"decimal(15,2)": "numeric(15,2)", "decimal(38,20)": "numeric(38,20)", "decimal(5)": "numeric(5,0)", "int32": "integer",
         "int64": "bigint", "double": "double precision"}


def value(rng, kind):
    if rng.random() < 0.1:
        return None
    if kind == "double":
        x = struct.unpack("<d", rng.randbytes(8))[0] if rng.random() < 0.2 else rng.gauss(0, 1e6)
        return x if x == x and abs(x) < 1e300 else 1.5
    bits, scale = {"decimal(15,2)": (49, 2), "decimal(38,20)": (126, 20), "decimal(5)": (16, 0), "int32": (31, 0), "int64": (63, 0)}[kind]
    x = rng.choice([-1, 1]) * rng.getrandbits(rng.choice([bits, bits, 8]))
    digits = str(abs(x)).rjust(scale + 1, "0")
    return ("-" if x < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def text(x):
    return "NULL" if x is None else f"'{x!r}'" if isinstance(x, float) else f"'{x}'"


def plan(far, settings, query):
    return "\n".join(r[0] for r in far(f"{settings} EXPLAIN (VERBOSE, COSTS OFF) {query}"))


@pytest.fixture
def tables(far, workers, rng):
    """Yield (kind, rows) with a foreign table `f_N` and the same rows in PostgreSQL's table `n_N`."""
    out = {}
    for i, (kind, here) in enumerate(TYPES.items()):
        rows = [(rng.randrange(25), value(rng, kind), rng.randrange(-9, 9)) for _ in range(600)]
        workers.table(f"f_{i}", ("k int32 not null", f"v {kind}", "d decimal(9,3) not null"), rows)
        values = ", ".join(f"({k}, {text(v)}, {d})" for k, v, d in rows)
        far(f"CREATE TABLE n_{i} (k int, v {here}, d numeric(9,3)); INSERT INTO n_{i} VALUES {values}")
        out[i] = kind
    far("IMPORT FOREIGN SCHEMA tables FROM SERVER far INTO public")
    return out


def test_groups(far, tables):
    for i, kind in tables.items():
        sums = "fpisa_sum(v), fpisa_avg(v)" if kind == "double" else "sum(v), avg(v)"
        for where in "", "WHERE v < 100", "WHERE d >= -2.5 AND d <> 1":
            if where == "WHERE v < 100" and kind == "double":
                where = "WHERE v < 100::double precision"
            query = f"SELECT k, count(v), {sums}, min(v), max(v) FROM %s_{i} {where} GROUP BY k ORDER BY k"
            want = far(query % "n")
            for way in WAYS:
                assert far(way + query % "f") == want, (kind, way, where)
                assert "Remote Query: groups by k" in plan(far, way, query % "f"), plan(far, way, query % "f")
        by = f"SELECT d, count(*), max(v) FROM %s_{i} WHERE v IS NOT NULL GROUP BY d ORDER BY d"
        assert far(by % "f") == far(by % "n")


def test_types(far, tables):
    """IMPORT FOREIGN SCHEMA also imports precision and scale."""
    for i, kind in tables.items():
        said = far(f"SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'f_{i}'::regclass AND attname = 'v'")
        assert said == [[TYPES[kind]]] or said == [(TYPES[kind],)], said


def test_other_types(far, server, tables):
    """A value whose type differs between PostgreSQL and the workers would have other sums, so the statement is refused."""
    for i, here, there in (0, "numeric(15,3)", "numeric(15,2)"), (0, "double precision", "numeric(15,2)"), (3, "bigint", "integer"), \
            (4, "numeric(20,0)", "bigint"):
        far(f"ALTER FOREIGN TABLE f_{i} ALTER COLUMN v TYPE {here}")
        for way in WAYS:
            assert f'column "v" is of type {here} here, but of type {there} at the workers' in foreign.fails(
                server, f"{way} SELECT k, max(v) FROM f_{i} GROUP BY k", "far"), way


def test_other_types(far, server, tables):
    """The server rounds values to its own scale, so workers would compare other values than the statement shows."""
    for here in "numeric(15,1)", "numeric(15,3)", "numeric(16,2)":
        far(f"ALTER FOREIGN TABLE f_0 ALTER COLUMN v TYPE {here}")
        for condition in "v = 1.5", "v <> 1.5", "v IS NULL":
            assert f"f_0.csv: column v is decimal(15,2), not decimal({here[8:]}" in foreign.fails(
                server, f"SELECT k FROM f_0 WHERE {condition}", "far"), (here, condition)
        assert f'column "v" is of type {here} here, but of type numeric(15,2) at the workers' in foreign.fails(
            server, "SELECT k FROM f_0 ORDER BY v LIMIT 2", "far")
    far("ALTER FOREIGN TABLE f_0 ALTER COLUMN v TYPE numeric")
    assert far("SELECT count(*) FROM f_0 WHERE v = 1.5 OR v <> 1.5 OR v IS NULL") == far("SELECT count(*) FROM f_0")
    assert far("SELECT count(*) FROM f_0 WHERE v IS NULL") == far("SELECT count(*) FROM n_0 WHERE v IS NULL")


def test_constants(far, tables):
    """PostgreSQL evaluates a condition itself if its constant has too many digits for workers. It also computes an aggregate of a numeric
    without precision itself."""
    assert "Remote Query: groups" not in plan(far, "", "SELECT k, sum(v) FROM f_0 WHERE v < 1.005 GROUP BY k")
    assert "v decimal(15,2) < 1.5" in plan(far, "", "SELECT k, sum(v) FROM f_0 WHERE v < 1.500 GROUP BY k")
    for most in "999999999999999999", "-1e18", "0.5", "1e30":
        query = f"SELECT k, sum(v) FROM %s_1 WHERE v < {most} GROUP BY k ORDER BY k"
        assert far(query % "f") == far(query % "n"), most
        assert ("v decimal(38,20) < " in plan(far, "", query % "f")) == ("e" not in most)
    far("ALTER FOREIGN TABLE f_0 ALTER COLUMN v TYPE numeric")
    assert "values must be real, double precision, integer, bigint, numeric(p,s), date or timestamp" in plan(far, "", "SELECT k, sum(v) FROM f_0 GROUP BY k")
