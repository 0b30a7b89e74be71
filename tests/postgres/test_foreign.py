# SPDX-License-Identifier: GPL-2.0-only
"""With foreign tables over workers on the loopback interface, answers to any query are correct, and errors name their source."""
import json
import math
import os
import pathlib
import re
import socket
import struct
import subprocess
import threading
import time
from fractions import Fraction

import pytest

import foreign
import foreign_random
import postgres
from foreign import fails
from lab import children
from queries import last_key

SALES = [(1, "2024-05-01", 9.99), (2, "2024-05-01", 1e30), (1, "2024-05-02", -0.5), (2, None, -1e30), (2, "2024-05-03", 1.0)]
WAYS = "SET fpisa.pruning = none;", "SET fpisa.pruning = workers;", "SET fpisa.pruning = none; SET fpisa.preaggregate = on;", \
    "SET fpisa.pushdown = off;", "SET fpisa.pruning = auto;"


@pytest.fixture
def far(far, workers):
    """Make foreign tables of all workers' tables, with `sales` and `many`."""
    workers.table("sales", ("shop int32 not null", "day date", "price real"), SALES)
    workers.table("many", ("i int32 not null", "x real not null"), [(i, float(i % 1000)) for i in range(30000)])
    far("IMPORT FOREIGN SCHEMA tables FROM SERVER far INTO public")
    return far


def plan(far, query, options=""):
    """Return the part of a plan that describes the foreign scan."""
    top = json.loads("".join(r[0] for r in far(f"EXPLAIN (FORMAT JSON{options}) {query}")))[0]["Plan"]
    while top["Node Type"] != "Foreign Scan":
        top = top["Plans"][0]
    return top


# -- answers ----------------------------------------------------------------------

def random_tables(server, workers, rng, n):
    server.sql("CREATE DATABASE far")
    try:
        server.sql(f"CREATE EXTENSION fpisa; {foreign.server_sql(workers)}", "far")
        there = type("Database", (), {"sql": staticmethod(lambda text: server.sql(text, "far"))})
        for i in range(n):
            table = foreign_random.Table(rng)
            workers.table("random", table.schema, table.rows)
            wrong = foreign_random.ask(there, table, "near", "far", "far", "random", rng.choice(WAYS), 4)
            assert not wrong, wrong[0]
    finally:
        server.sql("DROP DATABASE far WITH (FORCE)")


def test_random_tables(server, workers, rng):
    random_tables(server, workers, rng, 40)


@pytest.mark.long
def test_random_tables_long(server, workers, rng):
    random_tables(server, workers, rng, 1000)


def test_import(far, workers):
    """IMPORT FOREIGN SCHEMA imports every table of the workers, with types, NOT NULL and names, or only the tables that are named."""
    workers.table("Mixed", ("pageURL text not null", "a real", "A double not null"), [("x", 1.0, 2.0)])
    workers.table("lower", ("pageURL text not null", "n int64"), [("x", 1)])
    far("CREATE SCHEMA s; IMPORT FOREIGN SCHEMA anything FROM SERVER far INTO s")
    assert {r[0] for r in far("SELECT relname FROM pg_class WHERE relnamespace = 's'::regnamespace")} == {
        "sales", "many", "Mixed", "lower"}
    described = "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attnum > 0 AND attrelid = "
    assert far(described + "'s.\"Mixed\"'::regclass ORDER BY attnum") == [
        ("pageURL", "text", "t"), ("a", "real", "f"), ("A", "double precision", "t")]
    assert far(described + "'s.lower'::regclass ORDER BY attnum") == [("pageurl", "text", "t"), ("n", "bigint", "f")]
    assert far("SELECT pageurl, n FROM s.lower") == [("x", "1")]
    far("CREATE SCHEMA one; IMPORT FOREIGN SCHEMA x LIMIT TO (lower) FROM SERVER far INTO one;"
        "CREATE SCHEMA most; IMPORT FOREIGN SCHEMA x EXCEPT (lower) FROM SERVER far INTO most")
    assert far("SELECT relname FROM pg_class WHERE relnamespace = 'one'::regnamespace") == [("lower",)]
    assert far("SELECT count(*) FROM pg_class WHERE relnamespace = 'most'::regnamespace") == [("3",)]


def test_pushed_down(far):
    """Workers send only the data that the statement needs. The counts show where rows went."""
    network = "SET fpisa.pruning = network; "
    first = plan(lambda q: far(network + q), "SELECT * FROM many ORDER BY x DESC LIMIT 10 OFFSET 2", ", ANALYZE, VERBOSE")
    assert first["Remote Query"] == "first 12 rows by x DESC NULLS FIRST" and first["Actual Rows"] == 12
    assert first["Pruned By"] == "none: the server has no query of kind topn" and first["Rows Received"] == 30000
    groups = plan(far, "SELECT x, count(*), fpisa_sum(x) + 1 FROM many GROUP BY x HAVING min(x) < 100", ", ANALYZE, VERBOSE")
    assert groups["Remote Query"] == "groups by x: count, sum, min of x" and groups["Actual Rows"] == 100
    assert plan(far, "SELECT * FROM many", ", ANALYZE")["Rows Sent"] == 30000
    cut = plan(far, "SELECT * FROM many LIMIT 1", ", ANALYZE")
    assert "Rows Sent" not in cut and cut["Counts"].startswith("only of rows received") and 1 <= cut["Rows Received"] <= 30000
    far("SET fpisa.pruning = workers; SELECT 1")
    top = [r[0] for r in far("SET fpisa.pruning = workers; EXPLAIN (ANALYZE) SELECT x FROM many ORDER BY x LIMIT 5")]
    assert any("Pruned By: workers" in r for r in top) and any("Rows Received: 15" in r for r in top)


def test_filters(far):
    """Workers count and aggregate the rows that meet a FILTER. If they cannot evaluate it, the plan says so."""
    query = "SELECT shop, count(*) FILTER (WHERE day > '2024-05-01'), max(price) FILTER (WHERE price < 5 AND day IS NOT NULL), count(price) FROM sales GROUP BY shop"
    at = plan(far, query)
    assert at["Remote Query"] == "groups by shop: count where day date > 2024-05-01; max of price where price real < 5,day date not null; count of price"
    assert sorted(far(query)) == [("1", "1", "-0.5", "2"), ("2", "1", "1", "3")]
    cannot = plan(far, "SELECT shop, count(*) FILTER (WHERE price < shop) FROM sales GROUP BY shop")
    assert cannot["Not Pushed Down"] == "workers cannot evaluate the FILTER of an aggregate"


def test_distinct(far):
    """If only distinct values are aggregated, workers send distinct rows."""
    query = "SELECT count(DISTINCT x), count(DISTINCT x) FILTER (WHERE x < 10) FROM many"
    at = plan(far, f"{query} WHERE i < 20000", ", ANALYZE")
    assert at["Remote Query"] == "distinct rows of x, where i int32 < 20000" and at["Actual Rows"] == 1000
    assert far(query) == [("1000", "10")]
    assert sorted(far("SELECT day, count(DISTINCT shop) FROM sales GROUP BY day")) == [
        ("", "1"), ("2024-05-01", "2"), ("2024-05-02", "1"), ("2024-05-03", "1")]
    beside = "SELECT day, fpisa_sum(price), count(DISTINCT shop), count(DISTINCT shop) FILTER (WHERE price > 2), count(*) FROM sales GROUP BY day"
    at = plan(far, beside)
    assert at["Remote Query"] == "groups by day: count; sum of price; count of distinct shop; count of distinct shop where price real > 2"
    assert sorted(far(beside)) == [("", "-1e+30", "1", "0", "1"), ("2024-05-01", "1e+30", "2", "2", "2"), ("2024-05-02", "-0.5", "1", "0", "1"),
                                   ("2024-05-03", "1", "1", "0", "1")]
    for other in "SELECT sum(DISTINCT i), count(*) FROM many", "SELECT count(DISTINCT x) FROM many WHERE random() < 2", "SELECT count(DISTINCT many) FROM many":
        assert plan(far, other)["Remote Query"] == "all rows"


def test_exact_sums(far):
    """With fpisa.exact_sum, sum and avg of reals are exact, and workers compute them. fpisa_sum8 has more digits than fpisa_sum."""
    query = "SELECT shop, sum(price), avg(price) FROM sales GROUP BY shop"
    assert plan(far, query)["Not Pushed Down"].startswith("workers do not support this sum()")
    on = "SET fpisa.exact_sum = on; "
    assert plan(lambda q: far(on + q), query)["Remote Query"] == "groups by shop: sum, avg of price"
    assert sorted(far(on + query)) == sorted(far("SELECT shop, fpisa_sum(price), fpisa_avg(price) FROM sales GROUP BY shop"))
    assert plan(far, "SELECT shop, fpisa_sum8(price) FROM sales GROUP BY shop")["Remote Query"] == "groups by shop: sum of price"
    reals = [struct.unpack("<f", struct.pack("<f", p))[0] for shop, _, p in SALES if shop == 1]
    assert [float(x) for x, in far("SELECT fpisa_sum8(price) FROM sales WHERE shop = 1")] == [math.fsum(reals)]
    both = plan(far, "SELECT fpisa_sum8(price), fpisa_sum(price) FROM sales")
    assert both["Not Pushed Down"] == "some sums of real have type real, and others have type double precision"


def test_exact_sums_of_expressions(far, workers, rng):
    """With fpisa.exact_sum, every sum and avg of floating-point expressions over a foreign table is exact, in each place of a statement."""
    def sums(statement, *settings):
        return far("".join(f"SET {s}; " for s in ("fpisa.exact_sum = on", *settings)) + statement)

    rows = [(i % 5, rng.choice((1e17, -1e17, 0.1, -0.3)) * rng.uniform(0.5, 2), rng.uniform(-1, 1)) for i in range(3000)]
    workers.table("items", ("k int32", "a double", "b double not null"), rows)
    far("IMPORT FOREIGN SCHEMA t LIMIT TO (items) FROM SERVER far INTO public; CREATE VIEW products AS SELECT k, a * b AS p FROM items")
    products = [a * b for _, a, b in rows]
    total, by = repr(math.fsum(products)), {str(k): math.fsum(p for p, r in zip(products, rows) if r[0] == k) for k in range(5)}
    for where in ("items", "products AS items(k, p)", "(SELECT * FROM items OFFSET 0) AS items"):
        what = "p" if "(k, p)" in where else "a * b"
        assert [float(v) for v, in sums(f"SELECT sum({what}) FROM {where}")] == [float(total)]
        grouped = f"SELECT k, sum({what}) AS s FROM {where} GROUP BY k"
        assert {k: float(v) for k, v in sums(grouped + " ORDER BY s")} == by
        assert [float(v) for _, v in sums(grouped + f" HAVING sum({what}) IS NOT NULL ORDER BY sum({what})")] == sorted(by.values())
    product = float(total)
    others = ("WITH t AS MATERIALIZED (SELECT a * b AS p FROM items) SELECT sum(p) FROM t",
              "WITH t AS MATERIALIZED (SELECT a * b AS p FROM items), u AS MATERIALIZED (SELECT p FROM t) SELECT (SELECT sum(p) FROM u)",
              "WITH t AS MATERIALIZED (SELECT a * b AS p FROM items) SELECT max(s) FROM (SELECT sum(p) AS s FROM t OFFSET 0) AS v",
              "WITH t AS MATERIALIZED (SELECT a * b AS p FROM items), u AS MATERIALIZED (SELECT sum(p) AS s FROM t) SELECT s FROM u",
              "SELECT sum(p) FROM (SELECT a * b AS p FROM items WHERE k < 3 UNION ALL SELECT a * b FROM items WHERE k >= 3) AS t",
              "SELECT sum(p) FROM (SELECT k, a, b, a * b AS p FROM items WHERE k < 3 UNION SELECT k, a, b, a * b FROM items WHERE k >= 3) AS t",
              "SELECT sum(i.a * i.b) FROM items AS i JOIN (VALUES (0), (1), (2), (3), (4)) AS v(k) USING (k)",
              "SELECT DISTINCT sum(a * b) OVER () FROM items",
              "SELECT sum(p) FILTER (WHERE p IS NOT NULL) FROM products WHERE p + 1 = p + 1 GROUP BY 1 > 0 ORDER BY sum(p) DESC",
              "SELECT (SELECT sum(a * b) FROM items)")
    for statement in others:
        assert [float(v) for v, in sums(statement)] == [product], statement
    assert [float(v) for v, in sums("SELECT avg(a * b) FROM items")] == [float(sum(map(Fraction, products)) / len(products))]
    single = struct.unpack("<f", struct.pack("<f", math.fsum(struct.unpack("<f", struct.pack("<f", b))[0] for *_, b in rows)))[0]
    assert [float(v) for v, in sums("SELECT sum(b::real)::float8 FROM items")] == [single]
    assert [int(v) for v, in sums("SELECT count(*) FROM items WHERE a * b > (SELECT avg(a * b) FROM items)")] == \
        [sum(p > float(sum(map(Fraction, products)) / len(products)) for p in products)]


def test_exact_sums_of_prepared_statements(far):
    """A prepared statement and a function, whose plans are kept, follow a change of fpisa.exact_sum."""
    explain = "EXPLAIN (VERBOSE) EXECUTE p;"
    rows = far("SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT sum(x) FROM many;"
               f"{explain} SET fpisa.exact_sum = on; {explain} RESET fpisa.exact_sum; {explain}")
    functions = [f for r in rows for f in re.findall(r"Output: .*?(fpisa_sum|sum)\(", r[0])]
    assert functions == ["sum", "fpisa_sum", "sum"], rows


def test_whole_tables(far, server):
    """A statement that reads all rows says why, or fails if fpisa.whole_table is refuse."""
    query, end = "SELECT fpisa_sum(price + 1) FROM sales", "; SELECT 1 / 0"
    said = fails(server, query + end, "far")
    assert 'NOTICE:  the statement reads all rows of foreign table "sales": the argument of an aggregate is not a plain column' in said
    for quiet in "SET fpisa.whole_table = allow; " + query, "SELECT * FROM sales", query + " WHERE shop = 1", "SELECT count(*) FROM sales":
        assert "NOTICE" not in fails(server, quiet + end, "far")
    refuse = "SET fpisa.whole_table = refuse; "
    for whole in query, "SELECT * FROM sales":
        assert 'the statement reads all rows of foreign table "sales"' in fails(server, refuse + whole, "far")
    assert far(refuse + "SELECT count(*) FROM sales WHERE shop = 1") == [("2",)]


def test_automatic_pruning(far):
    """By default, workers prune the first rows, and decide whether to add rows by key."""
    first = plan(far, "SELECT * FROM many ORDER BY x LIMIT 5", ", ANALYZE")
    assert first["Pruned By"] == "workers" and first["Rows Received"] == 15
    query = "SELECT x, count(*) FROM many GROUP BY x"
    groups = plan(far, query, ", ANALYZE")
    assert groups["Pruned By"] == "workers: the server has no query of kind table" and groups["Rows Received"] == 3000
    assert groups["Plan At Workers"] == "each worker adds its rows by key, and sends the sums directly"
    assert plan(far, query)["Plan At Workers"] == "each worker decides whether to add its rows by key"
    none = "SET fpisa.pruning = none; "
    assert "Plan At Workers" not in plan(lambda q: far(none + q), query, ", ANALYZE")


def test_parameters(far):
    """The custom plan of a prepared statement has the limit. The generic plan does not, and its answer is still right."""
    prepare = "PREPARE p(int) AS SELECT x FROM many ORDER BY x DESC LIMIT $1;"
    for mode, said in (("force_custom_plan", "Remote Query: first 3 rows"), ("force_generic_plan", "Not Pushed Down: LIMIT and OFFSET")):
        rows = far(f"SET plan_cache_mode = {mode}; {prepare} EXPLAIN EXECUTE p(3); EXECUTE p(3); EXECUTE p(3)")
        assert any(said in r[0] for r in rows) and rows[-6:] == [("999",)] * 6
    # A new plan is made when the server's options change.
    rows = far(f"{prepare} EXECUTE p(1); ALTER SERVER far OPTIONS (ADD timeout '5'); EXECUTE p(1)")
    assert rows == [("999",)] * 2


def test_cursors_and_rescans(far):
    """Cursors and rescans give right answers when they are stopped in the middle, read again, open at the same time, or nested."""
    rows = far("""BEGIN; DECLARE a CURSOR FOR SELECT i FROM many; DECLARE b CURSOR FOR SELECT x FROM many ORDER BY x LIMIT 3;
DECLARE c SCROLL CURSOR FOR SELECT shop, max(price) FROM sales GROUP BY shop ORDER BY 1; FETCH 2 FROM a; FETCH 1 FROM b; FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c; SELECT count(*) FROM many; FETCH 1 FROM a; FETCH ALL FROM b; CLOSE a; COMMIT""")
    assert len({r[0] for r in rows[:2] + rows[7:8]}) == 3
    del rows[7], rows[:2]
    assert rows == [("0",), ("1", "9.99"), ("2", "1e+30"), ("1", "9.99"), ("30000",), ("0",), ("0",)]
    nested = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;"
    query = "SELECT count(*), sum(n) FROM generate_series(1, 3) g, LATERAL (SELECT count(*) AS n FROM many WHERE i % 3 = g - 1) s"
    assert far(nested + query) == [("3", "30000")]
    assert far(nested + "SELECT count(*) FROM sales a, sales b, (SELECT shop, max(price) m FROM sales GROUP BY 1) c "
               "WHERE a.shop = b.shop AND a.shop = c.shop") == [("13",)]
    assert far("SELECT (SELECT max(x) FROM (SELECT x FROM many ORDER BY x LIMIT 7) s), count(*) FROM sales") == [("0", "5")]


def test_memory_of_rescans(far):
    """The inner side of a loop takes no more memory at its end than at its beginning."""
    far("CREATE FUNCTION used(int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT sum(used_bytes) FROM "
        "pg_get_backend_memory_contexts() WHERE name IN ('ExecutorState', 'fpisa query')); END $$")
    for query in ("SELECT count(*) FROM sales WHERE shop = g % 3", "SELECT count(*) FROM (SELECT shop, max(price) FROM sales GROUP BY shop OFFSET g % 2) s"):
        rows = far(f"SET enable_material = off; SELECT used(g), ({query}) FROM generate_series(1, 30) g")
        assert int(rows[-1][0]) - int(rows[4][0]) < 1000, rows


def test_early_end(far, workers):
    """After a statement that stops early, workers serve the next statement. A pause is not a fault."""
    for _ in range(3):
        assert far("SELECT count(*) FROM (SELECT i FROM many LIMIT 1) s") == [("1",)]
    far("ALTER SERVER far OPTIONS (ADD timeout '1')")
    assert far("BEGIN; DECLARE a CURSOR FOR SELECT i FROM many; MOVE 5 IN a; SELECT 'paused' FROM pg_sleep(2.5); MOVE ALL IN a; "
               "SELECT count(*) FROM many; COMMIT") == [("paused",), ("30000",)]


def test_infinities(far, workers):
    workers.table("endless", ("k int32 not null", "x real"), [(1, float("inf")), (1, 1.0), (2, None), (3, float("-inf")), (3, float("inf"))])
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (endless) FROM SERVER far INTO public")
    for more, also in (("", [(), (), ()]), (", max(x), count(x)", [("Infinity", "2"), ("", "0"), ("Infinity", "2")])):
        assert sorted(far(f"SELECT k, fpisa_sum(x){more} FROM endless GROUP BY k")) == [
            (k, total, *rest) for k, total, rest in zip("123", ("Infinity", "", "NaN"), also)]
    assert sorted(far("SELECT k, count(x) FROM endless GROUP BY k")) == [("1", "2"), ("2", "0"), ("3", "2")]


def test_sums_beyond_the_range(far, workers):
    workers.table("huge", ("k int32 not null", "x real not null"), [(1, 3e38)] * 4 + [(2, 1.0)])
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (huge) FROM SERVER far INTO public")
    for query in ("SELECT k, fpisa_sum(x) FROM huge GROUP BY k", "SELECT k, max(x), fpisa_sum(x) FROM huge GROUP BY k",
                  "SELECT fpisa_sum(x) FROM huge"):
        with pytest.raises(postgres.Failed, match="value out of range: overflow"):
            far(query)
    assert sorted(far("SELECT k, fpisa_avg(x) FROM huge GROUP BY k")) == [("1", "3.0000000054977558e+38"), ("2", "1")]


# -- errors -------------------------------------------------------------------------

def test_import_of_a_bad_table(far, server, workers):
    """The error about a bad table names the table, and says how to import the others. A worker that is not running gives a different
    error."""
    workers.table("bad", ("i int32 not null",), [(1,)])
    with open(os.path.join(workers.directory(1), "bad.schema"), "w") as f:
        f.write("i int32 perhaps\n")
    far("CREATE SCHEMA s")
    said = fails(server, "IMPORT FOREIGN SCHEMA x FROM SERVER far INTO s", "far")
    assert "bad" in said.split("HINT:")[0] and "HINT:  To import the others, use EXCEPT (bad)." in said, said
    assert "HINT" not in fails(server, "IMPORT FOREIGN SCHEMA x LIMIT TO (bad) FROM SERVER far INTO s", "far")
    workers.kill(1)
    try:
        said = fails(server, "IMPORT FOREIGN SCHEMA x FROM SERVER far INTO s", "far")
        assert "Connection refused" in said and "HINT" not in said
    finally:
        workers.serve(1)
    far("IMPORT FOREIGN SCHEMA x EXCEPT (bad) FROM SERVER far INTO s")
    assert far("SELECT count(*) FROM s.sales") == [("5",)]


def test_dead_worker(far, server, workers):
    """A worker that is not running is named in the error, and so is a worker that ends in the middle of a query. Afterwards queries work
    again."""
    name = f"127.0.0.1:{workers.ports[1]}"
    workers.kill(1)
    try:
        for query in "SELECT * FROM many", "SELECT x FROM many ORDER BY x LIMIT 1", "SELECT x, count(*) FROM many GROUP BY x":
            assert f"worker {name}: cannot connect: Connection refused" in fails(server, query, "far")
        # A failed statement leaves no table or schema.
        assert far("DO $$ BEGIN FOR i IN 1..40 LOOP BEGIN PERFORM count(*) FROM sales; EXCEPTION WHEN connection_failure THEN NULL; END; "
                   "END LOOP; END $$; SELECT count(*) < 60 FROM pg_ls_dir('/proc/self/fd')") == [("t",)]
    finally:
        workers.serve(1)
    wide = [(i, "x" * 1000) for i in range(60000)]
    workers.table("wide", ("i int32 not null", "t text not null"), wide)
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (wide) FROM SERVER far INTO public")
    psql = subprocess.Popen([postgres.where("bindir") + "/psql", "-XqAt", "-d", "far"], env=server.env(), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    psql.stdin.write("BEGIN; DECLARE a CURSOR FOR SELECT * FROM wide; MOVE 1 IN a; SELECT 'begun';\n")
    psql.stdin.flush()
    assert psql.stdout.readline() == "begun\n"
    for pid in children(workers.processes[1].pid):
        os.kill(pid, 9)
    said = psql.communicate("MOVE ALL IN a;\n")[1]
    assert f"worker {name}: " in said and "TLS" not in said, said
    assert far("SELECT count(*) FROM sales") == [("5",)]


def test_cancel(far, server, workers):
    """A statement can be cancelled, even while a worker is silent."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        far(f"CREATE SERVER silent FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1:{silent.getsockname()[1]}', timeout '100');"
            f"CREATE USER MAPPING FOR CURRENT_USER SERVER silent OPTIONS (key '{workers.key}');"
            "CREATE FOREIGN TABLE s (i int) SERVER silent")
        begun = time.monotonic()
        assert "canceling statement due to statement timeout" in fails(server, "SET statement_timeout = 300; SELECT * FROM s", "far")
        assert time.monotonic() - begun < 30
        far("ALTER SERVER silent OPTIONS (SET timeout '1')")
        assert f"worker 127.0.0.1:{silent.getsockname()[1]}: no answer in 1000 ms" in fails(server, "SELECT * FROM s", "far")


def test_refusals(far, server, workers):
    """A difference between the local table and the workers' tables is refused. The error names the difference and the remedy."""
    far("""CREATE FOREIGN TABLE none (i int) SERVER far; CREATE FOREIGN TABLE other (z int) SERVER far OPTIONS (table_name 'sales');
CREATE FOREIGN TABLE wide (shop bigint NOT NULL, price real) SERVER far OPTIONS (table_name 'sales');
CREATE FOREIGN TABLE odd (shop integer NOT NULL, day text) SERVER far OPTIONS (table_name 'sales');
CREATE FOREIGN TABLE strict (day date, price real NOT NULL) SERVER far OPTIONS (table_name 'sales');
CREATE FOREIGN TABLE text (shop text OPTIONS (bytes '5') NOT NULL, price numeric) SERVER far OPTIONS (table_name 'sales')""")
    assert "table none does not exist on this worker" in fails(server, "SELECT * FROM none", "far")
    assert "the schema has no column 'z'" in fails(server, "SELECT * FROM other", "far")
    assert 'column "shop" is of type bigint here, but of type integer at the workers' in fails(
        server, "SELECT shop, max(price) FROM wide GROUP BY shop", "far")
    assert far("SELECT shop, sum(price) FROM text GROUP BY shop ORDER BY shop") == [("1", "9.49"), ("2", "1.0")]
    assert "t.csv: column shop is int32, not int64".replace("t.csv", "sales.csv") in fails(server, "SELECT * FROM wide WHERE shop = 1", "far")
    for query in "SELECT shop FROM odd WHERE day IS NULL", "SELECT shop, count(*) FROM odd WHERE day IS NOT NULL GROUP BY shop":
        assert "sales.csv: column day is date, not text" in fails(server, WAYS[0] + query, "far")
    assert far("SELECT shop FROM wide WHERE shop IN (1, 7) AND shop IS DISTINCT FROM 7") == far("SELECT shop FROM sales WHERE shop = 1")
    workers.table("sales", ("shop int32 not null", "day date", "price real"), [*SALES, (3, "2024-05-01", None)])
    assert 'column "price" is declared NOT NULL, but has NULLs at the workers: 1' in fails(
        server, "SELECT day, count(*), max(price) FROM strict GROUP BY day", "far")


def test_not_null(far, server, workers):
    """If a column is NOT NULL in PostgreSQL but has NULLs at the workers, the statement fails. Rows whose NULLs are not read are
    counted."""
    rows = [(1, 1, "2024-01-01", 1.0), (1, None, None, None), (2, 1, "2024-01-02", 2.0)]
    queries = ["SELECT k, count(d) FROM t GROUP BY k", "SELECT k, count(x) FROM t GROUP BY k", "SELECT g, count(g), count(d), max(x) FROM t GROUP BY g",
               "SELECT k FROM t GROUP BY k HAVING count(d) > 1", "SELECT count(d) FROM t", "SELECT k, g, count(*) FROM t GROUP BY k, g",
               "SELECT x FROM t ORDER BY x DESC NULLS FIRST LIMIT 1", "SELECT min(x) FROM t GROUP BY k", "SELECT DISTINCT d FROM t"]
    workers.table("t", ("k int32 not null", "g int32 not null", "d date not null", "x real not null"), rows[::2])
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (t) FROM SERVER far INTO public")
    far("".join(f"{way} {'; '.join(queries)};" for way in WAYS))
    workers.table("t", ("k int32", "g int32", "d date", "x real"), rows)
    for i, query in enumerate(queries):
        said = fails(server, WAYS[i % len(WAYS)] + query, "far") + fails(server, WAYS[0] + query, "far")
        assert said.count("is declared NOT NULL, but ") + said.count("is empty, but the query takes it as never NULL") == 2, said
    query = "SELECT k, count(d) FROM t WHERE d IS NOT NULL GROUP BY k ORDER BY k"
    # A planner may drop a condition that is implied by the declaration of the column.
    if any("d date not null" in r[0] for r in far(f"{WAYS[0]}EXPLAIN (COSTS OFF) {query}")):
        assert far(WAYS[0] + query) == [("1", "1"), ("2", "1")]
    else:
        assert "is empty, but the query takes it as never NULL" in fails(server, WAYS[0] + query, "far")


def test_encodings(far, server, workers):
    """Conditions of a database in another encoding than UTF-8 work, and so do errors that quote invalid text."""
    workers.table("words", ("i int32 not null", "t text"), [(1, "é"), (2, "a"), (3, "éa")])
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        server.sql(f"CREATE EXTENSION fpisa; {foreign.server_sql(workers)} IMPORT FOREIGN SCHEMA x LIMIT TO (words) FROM SERVER far INTO public",
                   "latin")
        rows = server.sql("SET client_encoding = 'UTF8'; EXPLAIN (COSTS OFF) SELECT i FROM words WHERE t = 'é'; "
                          "SELECT i FROM words WHERE t = 'é'; SELECT t FROM words WHERE t <> 'é' ORDER BY i", "latin")
        assert rows[1:] == [("  Remote Query: all rows, where t text = 'é'",), ("1",), ("a",), ("éa",)]
    finally:
        server.sql("DROP DATABASE latin WITH (FORCE)")
    far("IMPORT FOREIGN SCHEMA x LIMIT TO (words) FROM SERVER far INTO public")
    for rank in range(3):
        (pathlib.Path(workers.directory(rank)) / "words.csv").write_bytes(b"i,t\n\xff,a\n")
    assert "words.csv:2: column i: '?' is not a valid int32" in fails(server, "SET client_encoding = 'LATIN1'; SELECT * FROM words", "far")


def test_keys(far, server, workers):
    """Users without a mapping or with a wrong key get an error, and only a superuser may name a key file."""
    other = pathlib.Path(server.home) / "other-keys"
    subprocess.run([foreign.FPISA, "key", "new", "queries", str(other)], check=True, stdout=subprocess.DEVNULL)
    key = last_key(other)
    os.chown(other, *([postgres.user()["user"], postgres.user()["group"]] if not os.geteuid() else (-1, -1)))
    far("CREATE ROLE somebody; GRANT USAGE ON FOREIGN SERVER far TO somebody; GRANT SELECT ON sales TO somebody; "
        "GRANT USAGE ON FOREIGN DATA WRAPPER fpisa TO somebody; GRANT CREATE ON DATABASE far TO somebody")
    try:
        be = "SET ROLE somebody; "
        assert "user mapping not found" in fails(server, be + "SELECT * FROM sales", "far")
        far(be + f"CREATE USER MAPPING FOR somebody SERVER far OPTIONS (key '{key}')")
        said = fails(server, be + "SELECT * FROM sales", "far")
        assert f"refuses key {key.rsplit(':', 1)[0]}; that line must be in the worker's key file" in said and "no key in common" in said
        far(be + f"ALTER USER MAPPING FOR somebody SERVER far OPTIONS (SET key '{workers.key}')")
        assert far(be + "SELECT count(*) FROM sales") == [("5",)]
        assert far(be + "SELECT umoptions FROM pg_user_mappings WHERE usename = 'postgres'") == [("",)]
        assert 'permission denied to set option "key_file"' in fails(
            server, be + "ALTER USER MAPPING FOR somebody SERVER far OPTIONS (ADD key_file '/etc/passwd')", "far")
        assert 'permission denied to set option "workers"' in fails(
            server, be + "CREATE SERVER own FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1')", "far")
        assert "permission denied to set parameter" in fails(server, be + "SELECT count(*) FROM sales; SET fpisa.debug_loss = 0.1", "far")
        far(f"ALTER USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (DROP key, ADD key_file '{other}')")
        assert "no key in common" in fails(server, "SELECT * FROM sales", "far")
    finally:
        server.sql("REASSIGN OWNED BY somebody TO postgres; DROP OWNED BY somebody", "far")
        server.sql("DROP ROLE somebody")


def test_many_sessions(far):
    """Eight sessions at the same time each get their own answer."""
    wrong = []

    def ask(n):
        for _ in range(3):
            rows = far(f"SET fpisa.pruning = workers; SELECT x FROM many ORDER BY x DESC LIMIT {n}; SELECT count(*) FROM many WHERE x < {n};"
                       f"SELECT x, count(*) FROM many GROUP BY x HAVING max(x) < {n}")
            if rows[:n] != [("999",)] * n or rows[n] != (str(30 * n),) or len(rows) != 2 * n + 1:
                wrong.append(rows)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_descriptors_are_counted(workers):
    """Each scan takes two descriptors for each worker, and reserves three from the server's share for foreign descriptors. The scan returns
    them however it ends."""
    workers.clear()
    workers.table("many", ("i int32 not null", "x real not null"), [(i, 1.0) for i in range(30000)])
    server = postgres.Server(max_files_per_process=100)
    try:
        server.sql(f"CREATE EXTENSION fpisa; {foreign.server_sql(workers)} IMPORT FOREIGN SCHEMA tables FROM SERVER far INTO public")
        held = "SET fpisa.pruning = none; BEGIN; " + "".join(f"DECLARE c{i} CURSOR FOR SELECT * FROM many; MOVE 1 IN c{i}; " for i in range(4))
        assert "too few file descriptors are left for a query with 3 workers, which needs up to 9" in fails(server, held)
        over = "DO $$ BEGIN PERFORM 1 / (i - 5) FROM many; EXCEPTION WHEN division_by_zero THEN NULL; END $$;"
        assert server.sql(f"SET fpisa.pruning = none; {over * 5} SELECT count(*) FROM many") == [("30000",)]
    finally:
        server.close()
