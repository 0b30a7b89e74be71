# SPDX-License-Identifier: GPL-2.0-only
"""Test workers whose rows are in PostgreSQL: types, conditions, and the commands of doc/query.md."""
import decimal
import os
import re
import subprocess

import pytest

import adbc
import parquet
from foreign import FPISA, Workers, server_sql
from postgres import TOP

SCHEMA = """i int32
l int64
r real
d double
n decimal(12,3)
s text
y date
m timestamp
"""
COLUMNS = "i int, l bigint, r real, d double precision, n numeric, s text, y date, m timestamp"
VALUES = {
    "i": ["-1", "0", "7", "2147483647"],
    "l": ["-5", "9007199254740993", "9007199254740992"],
    "r": ["0.1", "-2.5", "NaN", "Infinity"],
    "d": ["0.1", "1e300", "NaN", "-Infinity", "2"],
    "n": ["1.5", "10.25", "-0.001", "123456789.125"],
    "s": ["a", "B", "it's", "back\\slash", "é", ""],
    "y": ["2024-02-29", "1999-12-31", "2030-01-01"],
    "m": ["2024-02-29 12:00:00", "2024-02-29 12:00:00.5", "1999-12-31 23:59:59.999999"],
}


def line(server, table, database):
    return f"{table} {adbc.driver('postgresql')} postgresql://postgres@/{database}?host={server.home}\n"


@pytest.fixture
def shop(server, tmp_path):
    """Return a function that starts a worker with tables of the database shop, and returns ask(TABLE, *options)."""
    server.sql("CREATE DATABASE shop")
    with adbc.workers(tmp_path) as make:
        yield lambda *tables, database="shop", **schemas: make("".join(line(server, t, database) for t in tables), **schemas)
    server.sql("DROP DATABASE shop WITH (FORCE)")


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def draw_row(rng):
    return ", ".join("NULL" if rng.random() < 0.1 else quoted(rng.choice(values)) for values in VALUES.values())


def draw_term(rng):
    """Return a condition for --where and for PostgreSQL, which compares texts by their bytes and reals as doubles."""
    column, values = rng.choice(list(VALUES.items()))
    if rng.random() < 0.2:
        negative = rng.choice(["null", "not null"])
        return f"{column} {negative}", f"{column} IS {negative}"
    operator, value = rng.choice(["<", "<=", "=", "<>", ">=", ">"]), rng.choice(values)
    left = {"s": 's COLLATE "C"', "r": "r::float8"}.get(column, column)
    typed = {"r": "::float8", "d": "::float8", "n": "::numeric"}.get(column, "")
    return f"{column}{operator}{quoted(value)}", f"{left} {operator} {quoted(value)}{typed}"


def test_conditions(server, shop, rng):
    """Rows that meet random conditions are those of PostgreSQL."""
    server.sql(f"CREATE TABLE t ({COLUMNS}); " + "".join(f"INSERT INTO t VALUES ({draw_row(rng)}); " for _ in range(200)), "shop")
    ask = shop("t", t=SCHEMA)
    found = 0
    for _ in range(60):
        terms = [draw_term(rng) for _ in range(rng.randint(1, 2))]
        right = server.sql(f"SELECT count(*), count(i), sum(i) FROM t WHERE {' AND '.join(sql for _, sql in terms)}", "shop")[0]
        answer = ask("t", "--total", "--value", "i,n", "--where", ",".join(where for where, _ in terms))
        count, of_i, total = answer[0].split(",")[:3]
        assert (count, of_i, total) == right, (terms, answer, right)
        found += int(count) > 0
    assert found > 10


def test_statement(server, shop):
    """PostgreSQL receives one statement with the columns that the query uses. DuckDB evaluates the conditions."""
    server.sql(f"CREATE TABLE t ({COLUMNS}); INSERT INTO t SELECT g, g, g, g, g, chr(97 + g % 26), '2024-01-01'::date + g FROM generate_series(1, 100) g; "
               "ALTER DATABASE shop SET log_statement = 'all'", "shop")
    ask = shop("t", t=SCHEMA)
    assert ask("t", "--columns", "i", "--where", "l>=90,r>95.5,y<=2024-04-09,n<99,s>'a',i not null") == ["96", "97", "98"]
    with open(server.home + "/log") as f:
        assert [line for line in f.read().splitlines() if ' FROM "t"' in line and "1 = 0" not in line and '"i", "l", "r", "n", "s", "y"' not in line] == []


@pytest.mark.parametrize("of, schema, values", [
    ("double precision", "real", ["0.50000000001", "16777217"]), ("bigint", "double", ["9007199254740993"]), ("numeric", "real", ["0.50000000001"]),
    ("numeric", "decimal(9,2)", ["1.10"])])
def test_conditions_on_converted_values(server, shop, of, schema, values):
    """A condition is evaluated on the value that the query sees, which is rounded once."""
    server.sql(f"CREATE TABLE t (x {of}); " + "".join(f"INSERT INTO t VALUES ({v}); " for v in values), "shop")
    ask = shop("t", t=f"x {schema}\n")
    for row in ask("t"):
        for operator in "=", "<=", ">=":
            assert row in ask("t", "--where", f"x{operator}{row}"), (row, operator)


@pytest.mark.parametrize("type_, last", [("date", "2024-12-31"), ("timestamp", "2024-12-31 00:00:00")])
@pytest.mark.parametrize("infinity", ["infinity", "-infinity"])
def test_infinity(server, shop, type_, last, infinity):
    """A day that no query can have is an error, also if no row meets the condition."""
    server.sql(f"CREATE TABLE t (y {type_}); INSERT INTO t VALUES ('{last}'), (NULL)", "shop")
    ask = shop("t")
    assert ask("t", "--where", "y>2024-01-01") == [last]
    server.sql(f"INSERT INTO t VALUES ('{infinity}')", "shop")
    for where in (), ("--where", "y>2024-01-01"), ("--where", "y<2024-01-01"):
        assert "t: column y: " in ask("t", *where) and "is not a day in the years 1 to 9999" in ask("t", *where)
        assert not where or "is not a day in the years 1 to 9999" in ask("t", "--total", *where)


def test_types(server, shop):
    """Without a schema, the columns have PostgreSQL's types. numeric needs a schema, and is exact or refused."""
    server.sql("CREATE TABLE u (b boolean, i smallint, d double precision, n numeric(30,10), z timestamptz, a int[]); "
               "INSERT INTO u VALUES (true, 3, 0.1, 1.25, '2024-05-01 12:00+02', '{1}'), (NULL, NULL, NULL, NULL, NULL, NULL)", "shop")
    ask = shop("u", "exact", "short")
    assert ask("u") == ["true,3,0.1,1.2500000000,2024-05-01 10:00:00+00", ",,,,"]
    server.sql("CREATE VIEW exact AS SELECT n FROM u; CREATE VIEW short AS SELECT n FROM u", "shop")
    ask = shop("exact", "short", exact="n decimal(38,10)\n", short="n decimal(9,1)\n")
    total = ask("exact", "--total", "--value", "n")[0].split(",")
    assert decimal.Decimal(total[1 if len(total) == 5 else 2]) == decimal.Decimal("1.25")
    assert "short: column n: '1.2500000000' is not a decimal(9,1)" in ask("short")


def test_errors(server, shop):
    """An error while the database sends rows is an error of the query too."""
    server.sql("CREATE TABLE t (i int); CREATE TABLE one AS SELECT 1 AS i; CREATE VIEW bad AS SELECT 1 / (i - 1) AS i FROM one", "shop")
    ask = shop("absent", "bad")
    for table, says in ("absent", 'relation "absent" does not exist'), ("bad", "division by zero"):
        said = ask(table)
        assert f": {table}: " in said and says in said and said.count("\n") == 1, said
    nowhere = shop("t", database="nowhere")("t")
    assert 't: [libpq] Failed to connect: ' in nowhere and 'database "nowhere" does not exist' in nowhere, nowhere


def test_foreign_tables(server, tmp_path):
    """PostgreSQL imports the table of another PostgreSQL from its worker, and queries it."""
    server.sql("CREATE DATABASE shop")
    server.sql("CREATE TABLE t AS SELECT g AS i, g % 3 AS k FROM generate_series(1, 100) g", "shop")
    server.sql("CREATE DATABASE far")
    (tmp_path / "databases").write_text(line(server, "t", "shop"))
    w = Workers(1, "--databases", str(tmp_path / "databases"), before=("env", "FPISA_DRIVER=" + parquet.engine()[1]["FPISA_DRIVER"]))
    try:
        server.sql(f"CREATE EXTENSION fpisa; {server_sql(w)} CREATE SCHEMA f; IMPORT FOREIGN SCHEMA public FROM SERVER far INTO f", "far")
        for query, rows in (("SELECT k, count(*), sum(i) FROM f.t GROUP BY k ORDER BY k", [("0", "33", "1683"), ("1", "34", "1717"), ("2", "33", "1650")]),
                            ("SELECT count(*) FROM f.t a JOIN f.t b USING (i)", [("100",)]),
                            ("SELECT i FROM f.t WHERE i > 98 OR i = 3 ORDER BY i", [("3",), ("99",), ("100",)])):
            assert server.sql(query, "far") == rows, query
    finally:
        w.close()
        server.sql("DROP DATABASE far WITH (FORCE)")
        server.sql("DROP DATABASE shop WITH (FORCE)")


def test_page(server, shop, tmp_path):
    """Run the page's commands with this server, and with the driver where the tests have it."""
    with open(os.path.join(TOP, "doc", "query.md")) as f:
        venv, echo, serve = re.search(r"^    (python3 -m venv /opt/adbc .*)\n    (echo sales .*)\n    (fpisa query worker .*)\n", f.read(), re.M).groups()
    assert venv.endswith("pip install adbc-driver-postgresql")
    server.sql("CREATE TABLE sales AS SELECT g % 2 AS shop, g AS price FROM generate_series(1, 10) g", "shop")
    adbc.driver("postgresql")
    for name, here in (("/opt/adbc/lib/python3*/site-packages", adbc.PLACE), ("postgresql://reader@db/shop", f"'postgresql://postgres@/shop?host={server.home}'"),
                       ("/etc/fpisa", str(tmp_path))):
        echo = echo.replace(name, here)
    subprocess.run(["sh", "-c", echo], check=True)
    options = serve.split(" --key ")[1].split()[1:]
    assert options == ["--databases", "/etc/fpisa/databases"]
    w = Workers(1, options[0], str(tmp_path / "databases"), before=("env", "FPISA_DRIVER=" + parquet.engine()[1]["FPISA_DRIVER"]))
    try:
        p = subprocess.run([FPISA, "query", "run", "sales", "--workers", w.addresses, "--key", w.key_file, "--by", "shop", "--value", "price"],
                           capture_output=True, text=True)
    finally:
        w.close()
    assert [row.split(",")[:5] for row in sorted(p.stdout.splitlines()[1:])] == [["0", "5", "30", "2", "10"], ["1", "5", "25", "1", "9"]], p.stderr
