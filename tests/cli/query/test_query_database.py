# SPDX-License-Identifier: GPL-2.0-only
"""Test tables of other databases at a worker: SQLite, the file of --databases, and errors. tests/postgres/test_database.py has PostgreSQL."""
import sqlite3
import subprocess

import pytest

import adbc
from foreign import FPISA

SCHEMA = "shop int32 not null\nday date\nprice double\nname text\n"
ROWS = [(1, "2024-05-01", 9.99, "a"), (2, "2024-05-01", 1e30, "b"), (1, "2024-05-02", -0.5, None), (2, None, -1e30, "it's"), (2, "2024-05-03", 1.0, "")]


@pytest.fixture
def worker(tmp_path):
    with adbc.workers(tmp_path) as make:
        yield make


@pytest.fixture
def database(tmp_path):
    """Return (the driver's library, the URI of a database with the table sales)."""
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE sales (shop INTEGER, day TEXT, price REAL, name TEXT)")
        db.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", ROWS)
    db.close()
    return adbc.driver("sqlite"), f"file:{tmp_path}/shop.db"


def test_sqlite(worker, database):
    driver, uri = database
    ask = worker(f"# a comment\n\nt {driver} {uri} main.sales\nuntyped {driver} {uri} sales\n", t=SCHEMA)
    assert ask("t") == ["1,2024-05-01,9.99,a", "2,2024-05-01,1e+30,b", "1,2024-05-02,-0.5,", "2,,-1e+30,it's", '2,2024-05-03,1.0,""']
    assert ask("t", "--by", "shop", "--value", "price") == ["1,2,9.4900000000000002,-0.5,9.9900000000000002,4.7450000000000001",
                                                            "2,3,1,-1e+30,1e+30,0.33333333333333331"]
    assert ask("t", "--total") == ["5"]
    for way in "none", "workers":
        assert ask("t", "--value", "price", "--limit", "2", "--prune", way) == ["2,2024-05-01,1e+30,b", "1,2024-05-01,9.99,a"]
        # The rows of a database do not go to the filter of --where only.
        assert ask("t", "--value", "price", "--limit", "9", "--where", "day>2024-05-01,name not null", "--prune", way) == ['2,2024-05-03,1.0,""']
    assert ask("t", "--by", "day", "--where", "name='it''s'") == [",1"]
    assert ask("untyped", "--by", "shop") == ["1,2", "2,3"]
    assert "untyped: column day is VARCHAR, which is not converted to int64; name another type in the schema" in ask("untyped")
    assert ask("fpisa_tables", "--columns", "name") == ["untyped", "t"]


def fill(uri, table, column, values):
    with sqlite3.connect(uri.removeprefix("file:")) as db:
        db.execute(f"CREATE TABLE {table} ({column})")
        db.executemany(f"INSERT INTO {table} VALUES (?)", [(v,) for v in values])
    db.close()


@pytest.mark.parametrize("price", ["real", "double", "decimal(9,2)"])
def test_texts_as_numbers(worker, database, price):
    """SQLite compares a text with a number by other rules than DuckDB, so DuckDB evaluates the conditions."""
    driver, uri = database
    fill(uri, "texts", "price TEXT", ["9.5", "10", None])
    fill(uri, "odd", "price TEXT", ["9.5", "ten"])
    ask = worker(f"texts {driver} {uri}\nodd {driver} {uri}\n", texts=f"price {price}\n", odd=f"price {price}\n")
    assert [float(v) for v in ask("texts", "--where", "price>=9")] == [9.5, 10]
    assert [float(v) for v in ask("texts", "--where", "price=10")] == [10]
    assert "odd: " in ask("odd") and "ten" in ask("odd")


def test_dates(worker, database):
    """Texts are compared as dates. A column without dates has NULLs, whatever type the driver gives it."""
    driver, uri = database
    fill(uri, "days", "day TEXT", ["2024-05-01 12:00:00", "2024-5-3", "2024-05-02"])
    fill(uri, "none", "day TEXT", [None, None])
    fill(uri, "empty", "day TEXT", [])
    fill(uri, "numbers", "day", [None, 20240501])
    tables = ("days", "none", "empty", "numbers")
    ask = worker("".join(f"{t} {driver} {uri}\n" for t in tables), **{t: "day date\n" for t in tables})
    assert ask("days") == ask("days", "--where", "day>=2024-04-01,day<2024-10-01") == ["2024-05-01", "2024-05-03", "2024-05-02"]
    assert ask("days", "--where", "day=2024-05-01") == ask("days", "--where", "day<=2024-05-01") == ["2024-05-01"]
    assert ask("days", "--where", "day=2030-01-01") == ask("empty") == ask("none", "--where", "day=2024-05-01") == []
    assert ask("none") == ask("none", "--where", "day null") == ["", ""]
    assert "column day: 20240501 is not a day in the years 1 to 9999" in ask("numbers")


def test_errors(worker, database, tmp_path):
    driver, uri = database
    ask = worker(f"missing /none.so {uri}\nother libm.so.6 {uri}\nnowhere {driver} file:{tmp_path}/none/shop.db\nabsent {driver} {uri}\n"
                 f"columns {driver} {uri} sales\nplace {driver} {uri}\n", columns="shop int32\nowner text\n")
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE place (rowid INTEGER)")
    db.close()
    for table, says in (("missing", "missing: cannot load the ADBC driver: /none.so: cannot open shared object file: No such file or directory; "
                                    "correct the file of --databases"),
                        ("other", "other: libm.so.6 has no function AdbcDriverInit, so it is not an ADBC driver"),
                        ("nowhere", f"nowhere: failed to open 'file:{tmp_path}/none/shop.db': "),
                        ("absent", "absent: [SQLite] Failed to prepare query: no such table: absent"),
                        ("columns", "columns: "),
                        ("place", "place: column rowid has the engine's name for a row number; rename the column")):
        said = ask(table)
        assert said.startswith("fpisa: query run: worker 127.0.0.1:") and says in said and said.count("\n") == 1, said


def test_bad_file(tmp_path):
    path = tmp_path / "databases"
    for lines, says in ((None, "cannot open: No such file or directory"), ("\n\na /x.so\n", ":3: a line is NAME DRIVER URI [TABLE]"),
                        ("a x y z more\n", ":1: a line is NAME DRIVER URI [TABLE]"), ("a/b x y\n", ":1: 'a/b' is not a table name; use letters"),
                        ("a x y\nb x y\na x y\n", ":3: table a is given twice; remove one of the lines")):
        if lines is not None:
            path.write_text(lines)
        p = subprocess.run([FPISA, "query", "worker", tmp_path, "--key", "none", "--databases", path], capture_output=True, text=True)
        assert p.returncode == 1 and f"fpisa: query worker: --databases: {path}" in p.stderr and says in p.stderr, p.stderr
