# SPDX-License-Identifier: GPL-2.0-only
"""Test Parquet files at a worker: the library that reads them, types with and without a schema, and refused values."""
import contextlib
import csv
import decimal
import fractions
import io
import math
import operator
import os
import random
import struct
import subprocess
import sys

import pytest

import parquet
from foreign import FPISA, Workers
from lab import draw_seed
from queries import rounded


@pytest.fixture
def worker():
    """Return a function that starts a worker: worker(*options, **environment)."""
    with contextlib.ExitStack() as stack:
        def make(*options, **environment):
            w = Workers(1, *options, before=("env", "-u", "FPISA_DRIVER", *(f"{k}={v}" for k, v in environment.items())))
            stack.callback(w.close)
            return w
        yield make


@pytest.fixture
def by_duckdb(worker):
    """Return a function that makes table t from the result of a statement: by_duckdb(SQL, schema)."""
    duckdb, env = parquet.engine()
    w = worker(FPISA_DRIVER=env["FPISA_DRIVER"])

    def make(sql, schema=None):
        w.clear()
        duckdb.sql(f"COPY ({sql}) TO '{w.directory(0)}/t.parquet'")
        if schema:
            put(w, "t.schema", schema)
        return w
    return make


def put(w, name, text):
    with open(os.path.join(w.directory(0), name), "w") as f:
        f.write(text)


def ask(w, *options, table="t"):
    p = subprocess.run([FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, "--prune", "none", *options],
                       capture_output=True)
    return p.returncode, p.stdout, p.stderr.decode()


def refused(w, *options):
    status, out, err = ask(w, *options)
    assert (status, out) == (1, b"") and err.count("\n") == 1, err
    return err


# -- the library --------------------------------------------------------------------

def test_no_library(worker, tmp_path):
    (tmp_path / "x.cpython-399-x.so").write_text("")
    for library, says in (("", "cannot load DuckDB, which reads and writes Parquet: libduckdb.so: cannot open shared object file"),
                          ("/none.so", "cannot load DuckDB, which reads and writes Parquet: /none.so: cannot open shared object file"),
                          ("libm.so.6", "the driver has no function duckdb_adbc_init"),
                          (tmp_path / "x.cpython-399-x.so", "x.cpython-399-x.so needs the library of its Python; run apt install libpython3-dev")):
        w = worker(FPISA_DRIVER=library, LD_LIBRARY_PATH="")
        put(w, "t.parquet", "PAR1")
        assert f"t.parquet: {says}" in refused(w).replace(f"{tmp_path}/", "")
        # CSV needs no library.
        put(w, "c.schema", "k int32\n")
        put(w, "c.csv", "k\n1\n")
        assert ask(w, table="c")[:2] == (0, b"k\n1\n")


def test_option(worker, tmp_path):
    w = worker("--driver", parquet.driver(tmp_path), FPISA_DRIVER="/none.so", ROWS=2)
    put(w, "t.parquet", "")
    assert ask(w, "--by", "k", "--value", "v")[1].splitlines()[1:] == [b"1,1,1,1,1,1", b"2,1,1,1,1,1"]


@pytest.mark.parametrize("thread, opened", [(0, 1), (1, 3)])
def test_prepared_database(worker, tmp_path, thread, opened):
    """The worker opens the database when it starts, and all scans use it. If the database has threads, each scan opens its own."""
    statements = tmp_path / "statements"
    w = worker(FPISA_DRIVER=parquet.driver(tmp_path), ROWS=1, THREAD=thread, STATEMENTS=statements)
    put(w, "t.parquet", "")
    said = statements.read_text().splitlines()
    assert said[:3] == ["threads", "async_threads", "threads"]  # DuckDB before version 2 has no async_threads
    # The first statements take more time than those of a scan.
    assert said[-1].startswith("SELECT k, sum(")
    for _ in range(2):
        assert ask(w, "--by", "k", "--value", "v")[1].splitlines()[1:] == [b"1,1,1,1,1,1"]
    assert statements.read_text().split().count("async_threads") == opened


def test_files_change_between_scans(by_duckdb):
    """A scan reads the rows that the file has when the scan begins, even if neither the file's size nor its mtime shows a change."""
    w = by_duckdb("SELECT 1 AS k")
    path = os.path.join(w.directory(0), "t.parquet")
    was = os.stat(path)
    assert ask(w)[1] == b"k\n1\n"
    for replace in False, True:
        new = path + ".new"
        for value in 2, 3, 4:
            parquet.engine()[0].sql(f"COPY (SELECT {value} AS k) TO '{new}' (FORMAT parquet)")
            assert os.stat(new).st_size == was.st_size
            if replace:
                os.replace(new, path)
            else:
                with open(new, "rb") as source, open(path, "r+b") as to:
                    to.write(source.read())
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
            assert ask(w)[1] == f"k\n{value}\n".encode()
    parquet.engine()[0].sql(f"COPY (SELECT 'x' AS s, 5 AS k) TO '{path}' (FORMAT parquet)")
    assert ask(w)[1] == b"s,k\nx,5\n"


@pytest.mark.parametrize("name", ["_m.abi3.so", f"_m.cpython-3{sys.version_info.minor}-x.so"])
def test_python_module(worker, tmp_path, name):
    """A module of Python gets Python's library, whether its name has Python's version or the stable ABI."""
    python = f"libpython3.{sys.version_info.minor}.so.1.0"
    if subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({python!r})"], capture_output=True).returncode:
        pytest.skip(f"{python} is not installed")
    (tmp_path / "needs.h").write_text("extern char PyDict_Type[];\nvoid *python_needed = PyDict_Type;\n")
    w = worker(FPISA_DRIVER=parquet.driver(tmp_path, name, "-include", tmp_path / "needs.h"), ROWS=1)
    put(w, "t.parquet", "")
    assert ask(w, "--by", "k", "--value", "v")[1].splitlines()[1:] == [b"1,1,1,1,1,1"]


def test_not_parquet(by_duckdb):
    w = by_duckdb("SELECT 1 AS k")
    for text in "PAR1", "PAR1" * 100, "":
        put(w, "t.parquet", text)
        assert ": t.parquet: " in refused(w)
    # The engine does not open a file outside the worker's directory.
    os.unlink(os.path.join(w.directory(0), "t.parquet"))
    os.symlink("/etc/hostname", os.path.join(w.directory(0), "t.parquet"))
    assert "t.parquet: the path leads out of the worker's directory" in refused(w)


# -- types -------------------------------------------------------------------------

def test_without_schema(by_duckdb):
    """Each column has its own type, or is text. Nested columns are left out, as are names that a schema cannot have."""
    w = by_duckdb("SELECT 1::TINYINT a, 2::UBIGINT b, 1.5::FLOAT c, 0.1::DOUBLE d, 1.50::DECIMAL(9,2) e, DATE '2024-02-29' f, 'é' g, true h, "
                  "TIMESTAMP '2024-02-29 12:00:00' i, [1] j, {'a': 1} k, 1 \"l m\", NULL::INTEGER n, 'x'::ENUM('x') o, '\\xFF'::BLOB p")
    columns = b"a,b,c,d,e,f,g,h,i,n,o,p"
    assert ask(w)[:2] == (0, columns + b"\n1,2,1.5,0.1,1.50,2024-02-29,\xc3\xa9,true,2024-02-29 12:00:00,,x,\xff\n")
    for by, value in (("a int32", "c"), ("b", "b"), ("c real", "d"), ("d double", "e"), ("f date", "a"), ("g text", "a"), ("h text", "a")):
        assert ask(w, "--by", by, "--value", value)[0] == 0, by
    assert "the schema has no column 'j'" in refused(w, "--columns", "j")
    put(w, "c.schema", "k int32\n")
    put(w, "u.parquet", "")
    assert sorted(ask(w, table="fpisa_tables")[1].split()) == [b"c", b"name", b"t", b"u"]


@pytest.mark.parametrize("value, type_, says", [
    ("[1]", "text", "column x is INTEGER[], which is not converted to text; name another type in the schema"),
    ("1.5::DOUBLE", "int32", "column x is DOUBLE, which is not converted to int32"),
    ("1.5::DOUBLE", "decimal(9,2)", "column x is DOUBLE, which is not converted to decimal(9,2)"),
    ("1.5::DECIMAL(16,2)", "real", "column x is DECIMAL(16,2), which is not converted to real"),
    ("1.505", "decimal(9,2)", "column x is DECIMAL(4,3), which is not converted to decimal(9,2)"),
    ("TIMESTAMP '2024-01-01'", "date", "column x is TIMESTAMP, which is not converted to date"),
    ("'1'", "int32", "column x is VARCHAR, which is not converted to int32"),
    ("1e300::DOUBLE", "real", "Type DOUBLE with value 1e+300 can't be cast because the value is out of range"),
    ("2147483648", "int32", "Type INT64 with value 2147483648 can't be cast because the value is out of range"),
    ("100", "decimal(3,2)", "Could not cast value 100 to DECIMAL(3,2)"),
    ("NULL::INTEGER", "int32 not null", "column x is empty, but the schema declares it not null"),
    ("'a' || chr(0)", "text", "column x: a text has a zero byte"),
    ("DATE '10000-01-01'", "date", "10000-01-01' is not in the years 1 to 9999"),
])
def test_refused(by_duckdb, value, type_, says):
    w = by_duckdb(f"SELECT {value} AS x, 1 AS k", f"x {type_}\nk int32\n")
    assert f"t.parquet: {says}" in refused(w, "--columns", "x").replace("column x: '", "")
    # A column that the query does not use may have any value.
    assert ask(w, "--columns", "k")[:2] == (0, b"k\n1\n")


def test_no_column(by_duckdb):
    w = by_duckdb("SELECT 1 AS k", "k int32\nnone int32\n")
    assert "t.parquet: column none is not in the file" in refused(w)
    assert "t.parquet: column file_row_number has the engine's name for a row number; rename the column" in refused(by_duckdb("SELECT 1 AS file_row_number"))
    assert "t.parquet has no column that can be queried" in refused(by_duckdb("SELECT [1] AS x"))


def test_many_columns(by_duckdb):
    """A table does not lack columns silently."""
    def columns(n):
        return "SELECT " + ", ".join(f"{i} AS c{i}" for i in range(n))
    status, out, err = ask(by_duckdb(columns(64)))
    assert status == 0 and out.split(b"\n")[1] == ",".join(str(i) for i in range(64)).encode(), err
    assert "t.parquet has more than 64 columns; give a schema that names only the columns to query" in refused(by_duckdb(columns(65)))
    assert ask(by_duckdb(columns(65), "c64 int32\n"))[:2] == (0, b"c64\n64\n")
    # Nested columns do not count.
    assert ask(by_duckdb(columns(64) + ", [1] AS nested"))[0] == 0


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_time_zone(worker, zone):
    """An instant is the same key at all workers."""
    duckdb, env = parquet.engine()
    w = worker(FPISA_DRIVER=env["FPISA_DRIVER"], TZ=zone)
    duckdb.sql(f"COPY (SELECT TIMESTAMPTZ '2024-11-03 05:30:00+00' AS t, TIMETZ '01:02:03+02' AS c) TO '{w.directory(0)}/t.parquet'")
    assert ask(w)[:2] == (0, b"t,c\n2024-11-03 05:30:00+00,23:02:03+00\n")


def test_names_of_the_statements(by_duckdb):
    """Columns may have the names that the worker's statements use."""
    names = "place_", "order_", "p", "wanted", "read_parquet", "unnest"
    w = by_duckdb("SELECT " + ", ".join(f"{i} AS {name}" for i, name in enumerate(names)) + ", 6 AS \"the place\", 7 AS \"the order\", 2::FLOAT AS v")
    status, out, err = ask(w, "--value", "v", "--limit", "1")
    assert (status, out) == (0, ",".join((*names, "v")).encode() + b"\n0,1,2,3,4,5,2.0\n"), err


def test_never_null(by_duckdb):
    """A NULL is an error only in rows that satisfy the preceding conditions."""
    w = by_duckdb("SELECT * FROM (VALUES (1, 5), (2, NULL), (3, 7)) t(k, x)")
    for where in "x never null", "x never null,k=1", "k>1,x never null,k>2", "k never null,k>1,x never null,k>5":
        assert "t.parquet: column x is empty, but the query takes it as never NULL" in refused(w, "--where", where), where
    for where in "k<>2,x never null", "x<>0,x never null", "k never null,x not null,x never null,k never null":
        assert ask(w, "--where", where)[1] == b"k,x\n1,5\n3,7\n", where


def test_long_key(by_duckdb):
    w = by_duckdb("SELECT 'short' AS s, 1 AS k UNION ALL SELECT repeat('x', 31), 1", "s text not null\nk int32 not null\n")
    assert "t.parquet: the key needs 36 bytes (s 32, k 4), but the query's keys have 32: the limit is 32" in refused(w, "--by", "s,k")
    assert ask(w, "--by", "s")[0] == 0


# -- directories -------------------------------------------------------------------

@pytest.fixture
def directory(worker):
    """Return a worker, DuckDB, and a function that writes the result of a statement as a file below the worker's directory."""
    duckdb, env = parquet.engine()
    w = worker(FPISA_DRIVER=env["FPISA_DRIVER"])

    def put_file(path, sql):
        at = os.path.join(w.directory(0), path)
        os.makedirs(os.path.dirname(at), exist_ok=True)
        duckdb.sql(f"COPY ({sql}) TO '{at}' (FORMAT parquet)")
        return at
    return w, duckdb, put_file


def rows_of(w, *options):
    status, out, err = ask(w, "--timeout", "60", *options)
    assert status == 0, err
    with io.StringIO(out.decode(), newline="") as f:
        return sorted(tuple(r) for r in list(csv.reader(f))[1:])


def test_partitions(directory):
    """The rows of a directory that DuckDB has partitioned are the rows of the table, whatever the conditions."""
    w, duckdb, _ = directory
    rng = random.Random(draw_seed())
    words = [None, "DE", "a b/ü", "100%", "x=y", "it's", "2024-01-01"]
    rows = [(i, rng.randrange(8) / 2, rng.choice(words), rng.choice((None, "2024-02-29", "1999-12-31")), rng.choice((-3, 17))) for i in range(200)]
    values = ", ".join(str(r).replace("None", "NULL").replace('"it\'s"', "'it''s'") for r in rows)
    duckdb.sql(f"CREATE OR REPLACE TABLE partitions AS SELECT i, x::FLOAT AS x, s, d::DATE AS d, n FROM (VALUES {values}) t(i, x, s, d, n)")
    duckdb.sql(f"COPY partitions TO '{w.directory(0)}/t' (FORMAT parquet, PARTITION_BY (s, d, n))")
    assert ask(w, table="fpisa_tables")[1] == b"name\nt\n"
    for ours, theirs in (("", "true"), ("s='DE'", "s = 'DE'"), ("s null,n>-1", "s IS NULL AND n > -1"), ("d<2000-01-01,i>=50", "d < '2000-01-01' AND i >= 50"),
                         ("s='it''s',d not null", "s = 'it''s' AND d IS NOT NULL"), ("s>='a',x<2,n=17", "s >= 'a' AND x < 2 AND n = 17"), ("n=5", "n = 5")):
        where = ("--where", ours) if ours else ()
        want = duckdb.sql(f"SELECT i::VARCHAR, coalesce(s, ''), coalesce(d::VARCHAR, ''), n::VARCHAR FROM partitions WHERE {theirs}").fetchall()
        assert rows_of(w, "--columns", "i,s,d,n", *where) == sorted(want), ours
        want = duckdb.sql(f"SELECT n::VARCHAR, count(*)::VARCHAR, sum(x)::VARCHAR FROM partitions WHERE {theirs} GROUP BY n").fetchall()
        got = rows_of(w, "--by", "n int64", "--value", "x", *where)
        assert [(n, count, float(s)) for n, count, s, *_ in got] == sorted((n, c, float(s)) for n, c, s in want), ours
    # The first rows are fetched by the place that frames carry: the file and the row.
    top = rows_of(w, "--value", "x", "--limit", "30", "--columns", "i,x,s,n")
    by_number = {str(r[0]): r for r in rows}
    assert sorted((float(x) for _, x, _, _ in top), reverse=True) == sorted((r[1] for r in rows), reverse=True)[:30]
    assert all((float(x), s or None, int(n)) == (by_number[i][1], by_number[i][2], by_number[i][4]) for i, x, s, n in top)


def test_partitions_not_read(directory):
    """Conditions on directories decide which files are read."""
    w, _, put_file = directory
    for country in "DE", "FR":
        at = put_file(f"t/country={country}/x.parquet", "SELECT range AS k FROM range(1000)")
    with open(at, "r+b") as f:
        f.seek(4)
        f.write(b"\xff" * 200)
    assert len(rows_of(w, "--where", "country='DE',k<5")) == 5
    assert "t/" in refused(w, "--where", "country='FR',k<5")
    assert "t/" in refused(w, "--where", "k<5")


def test_directory_files(directory, tmp_path):
    """Columns come by their names, other files are left out, and errors name the file."""
    w, _, put_file = directory
    put_file("t/deep/er/b.parquet", "SELECT 2::BIGINT AS k, 'b' AS s")
    put_file("t/a.parquet", "SELECT 1::INT AS k")
    for left_out in "t/_temporary/c.parquet", "t/.c.parquet", "t/c.parquet.tmp":
        put_file(left_out, "SELECT 3 AS k")
    assert ask(w)[1] == b"k,s\n1,\n2,b\n"
    put(w, "t.schema", "s text\nk real not null\n")
    assert ask(w)[1] == b"s,k\n,1.0\nb,2.0\n"
    put(w, "t.csv", "s,k\n")
    assert "t.csv and t/ both exist; keep one of them" in refused(w)
    os.unlink(f"{w.directory(0)}/t.csv")
    with open(f"{w.directory(0)}/t/a.parquet", "ab"):
        assert "t/a.parquet is open for writing" in refused(w)
    put(w, "t/z.parquet", "PAR1")
    assert "t/z.parquet: " in refused(w)
    os.rename(f"{w.directory(0)}/t/z.parquet", f"{w.directory(0)}/t/_z")
    os.makedirs(f"{w.directory(0)}/t/n=1")
    os.rename(f"{w.directory(0)}/t/deep/er/b.parquet", f"{w.directory(0)}/t/n=1/b.parquet")
    assert "t/n=1/b.parquet: its directories NAME=VALUE have other names than those of t/a.parquet" in refused(w)
    os.rename(f"{w.directory(0)}/t/n=1", tmp_path / "n")
    os.symlink(tmp_path / "n", f"{w.directory(0)}/t/out")
    assert "t/out: the path leads out of the worker's directory" in refused(w)


def test_directory_beside_column(directory):
    """If files have a column of a directory's name, the directory's value is used."""
    w, _, put_file = directory
    put_file("t/n=1/a.parquet", "SELECT 7 AS n, 'a' AS s")
    put_file("t/n=2/a.parquet", "SELECT 8 AS N, 'b' AS s")
    assert rows_of(w, "--columns", "n,s") == [("1", "a"), ("2", "b")]
    assert rows_of(w, "--columns", "n,s", "--where", "n=2") == [("2", "b")]
    put_file("t/n=2/b.parquet", "SELECT 1 AS File_Index")
    assert "t/: column File_Index has the engine's name for a row number; rename the column" in refused(w)


def test_directory_of_unlike_files(directory):
    """A column has the type of all files, and is NULL where a file lacks it, whichever files a query reads."""
    w, _, put_file = directory
    rng = random.Random(draw_seed())
    types = {"n": ("INTEGER", "BIGINT"), "x": ("FLOAT", "DOUBLE"), "c": ("DECIMAL(4,1)", "DECIMAL(9,3)"), "s": ("INTEGER", "VARCHAR"),
             "t": ("DATE", "TIMESTAMP"), "d": ("INTEGER", "VARCHAR")}
    texts = {"n": "{}", "x": "{}.5", "c": "{}.500", "s": "{}", "t": "2024-01-{:02} 00:00:00", "d": "{}"}
    rows = []
    for d in range(6):
        has = {c: t[d] if d < 2 else rng.choice(t) for c, t in types.items() if d < 2 or rng.random() < 0.6}
        numbers = [rng.randrange(1, 29) for _ in range(3)]
        values = {c: [texts[c].format(i) for i in numbers] for c in has}
        put_file(f"t/d={d}/a.parquet", "SELECT " + ", ".join((f"{d}::FLOAT AS v", *(f"unnest({values[c]})::{t} AS {c}" for c, t in has.items()))
                                                             if has else (f"{d}::FLOAT AS v, unnest([1, 2, 3])",)))
        rows += [(f"{d}.0", *(values[c][i] if c in has else "" for c in "nxcst"), str(d)) for i in range(3)]
    assert rows_of(w, "--columns", "v,n,x,c,s,t,d") == sorted(rows)
    for d in range(6):
        assert rows_of(w, "--columns", "v,n,x,c,s,t,d", "--where", f"d={d}") == sorted(r for r in rows if r[-1] == str(d)), d
        name, at = rng.choice([("n", 1), ("x", 2), ("s", 4)])
        limit = {"n": "15", "x": "15", "s": "'15'"}[name]
        want = [r for r in rows if r[-1] >= str(d) and r[at] and (r[at] > "15" if name == "s" else float(r[at]) > 15)]
        assert rows_of(w, "--columns", "v,n,x,c,s,t,d", "--where", f"d>={d},{name}>{limit}") == sorted(want), (d, name)
    # The first rows are all in one file.
    for order, d in ((), 5), (("--ascending",), 0):
        assert rows_of(w, "--value", "v", "--limit", "3", "--columns", "v,n,x,c,s,t,d", *order) == sorted(r for r in rows if r[-1] == str(d))
    assert rows_of(w, "--columns", "v", "--where", "d>9") == []


@pytest.mark.parametrize("a, b, type_, says", [
    ("1::DECIMAL(38,0)", "0.4::DECIMAL(38,30)", "", "b.parquet: column x is DECIMAL(38,30), which does not convert exactly to DECIMAL(38,0)"),
    ("16777217::BIGINT", "0::FLOAT", "double", "a.parquet: column x is BIGINT, which does not convert exactly to FLOAT"),
    ("16777217::BIGINT", "0::FLOAT", "", ["16777216.0", "0.0"]),
    ("9007199254740993", "0::DOUBLE", "real", "a.parquet: column x is BIGINT, which does not convert exactly to DOUBLE"),
    ("9007199254740993", "0::DOUBLE", "text", "a.parquet: column x is BIGINT, which does not convert exactly to DOUBLE"),
    ("9007199254740993", "0::DOUBLE", "double", ["9007199254740992.0", "0.0"]),
    ("16777217::INTEGER", "0::DOUBLE", "text", ["16777217.0", "0.0"]),
    ("1.5::DECIMAL(9,2)", "0::DOUBLE", "", "a.parquet: column x is DECIMAL(9,2), which does not convert exactly to DOUBLE"),
    ("'a'", "'b'::BLOB", "", "column x is"),
    ("1::UBIGINT", "-1::BIGINT", "", ["1", "-1"]),
    ("1::INTEGER", "0.25::DECIMAL(4,2)", "", ["1.00", "0.25"]),
])
def test_directory_of_two_types(directory, a, b, type_, says):
    w, _, put_file = directory
    put_file("t/d=1/a.parquet", f"SELECT {a} AS x")
    put_file("t/d=1/copy.parquet", f"SELECT {a} AS x WHERE false")
    put_file("t/d=2/b.parquet", f"SELECT {b} AS x")
    if type_:
        put(w, "t.schema", f"x {type_}\nd int32\n")
    for d in (0, 1) if isinstance(says, list) else ():
        assert rows_of(w, "--columns", "x", "--where", f"d={d + 1}") == [(says[d],)]
    if isinstance(says, str):
        err = refused(w, "--timeout", "60", "--columns", "x", "--where", "d=1")
        assert says in err and "the common type of the table's files; store the column with one type in all files" in err, err
    assert len(rows_of(w, "--columns", "d")) == 2


def test_directory_names(directory):
    """Names that other programs write, and names that the statements use."""
    w, _, put_file = directory
    put_file("t/2024.parquet/n=__HIVE_DEFAULT_PARTITION__/a.parquet", 'SELECT 1 AS k, 2 AS "the index", 3 AS "the file"')
    put_file("t/2025.parquet/n=__HIVE_DEFAULT_PARTITION__/a.parquet", "SELECT 2 AS k")
    for type_ in "int64", "date", "text", "real":
        put(w, "t.schema", f"k int32\nn {type_}\n")
        assert rows_of(w, "--columns", "k,n") == [("1", ""), ("2", "")]
        assert rows_of(w, "--columns", "k", "--where", "n null,k>1") == [("2",)]
    w.clear()
    put_file("t/n=%ff/a.parquet", "SELECT 1 AS k")
    assert ask(w, "--columns", "k")[:2] == (0, b"k\n1\n")
    assert ask(w)[:2] == (0, b"k,n\n1,\xff\n")
    w.clear()
    put_file("t/a=1/A=x/f.parquet", "SELECT 1 AS k")
    assert "t/a=1/A=x/f.parquet: two directories name column A; rename one" in refused(w)
    w.clear()
    put_file("t/file_index=3/f.parquet", "SELECT 1 AS k")
    assert "t/: column file_index has the engine's name for a row number; rename the column" in refused(w)


# -- values ------------------------------------------------------------------------

def near_half(rng):
    """Return the midpoint of two neighbouring reals as a double, or a double next to the midpoint."""
    middle = (rng.randrange(1 << 23, 1 << 24) * 2 + 1) * 2.0 ** rng.randrange(-60, 60)
    return rng.choice((-1, 1)) * middle * rng.choice((1, 1 + 2.0 ** -52, 1 - 2.0 ** -52))


def test_rounded_once(by_duckdb):
    """Numbers of each type are rounded once, from the file's value to the schema's type."""
    rng = random.Random(draw_seed())
    given = {"DOUBLE": [repr(near_half(rng)) for _ in range(200)],
             "FLOAT": [repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-44, 38)) for _ in range(200)],
             "BIGINT": [str((rng.randrange(1 << 23, 1 << 24) * 2 + 1 << rng.randrange(1, 38)) + rng.choice((-1, 0, 1))) for _ in range(200)],
             "DECIMAL(15,8)": [f"{near_half(rng) % 1e6:.8f}" for _ in range(200)],
             "DECIMAL(38,28)": [f"{1 + (rng.randrange(1 << 23) * 2 + 1) * 2.0 ** -24:.25f}{rng.choice(('000', '001'))}" for _ in range(200)],
             "DECIMAL(38,20)": [f"{rng.randrange(10 ** 18)}.{rng.randrange(10 ** 20):020}" for _ in range(200)]}
    columns = [(type_, to, f"c{i}_{to}") for i, type_ in enumerate(given) for to in ("real", "double") if to == "double" or "(38" not in type_]
    w = by_duckdb("SELECT " + ", ".join(f"unnest([{', '.join(repr(t) for t in given[type_])}]::{type_}[]) AS {name}" for type_, _, name in columns),
                  "".join(f"{name} {to}\n" for _, to, name in columns))
    for type_, to, name in columns:
        digits, least = (24, -149) if to == "real" else (53, -1074)
        exact = [fractions.Fraction(float(t) if type_ == "DOUBLE" else decimal.Decimal(t)) for t in given[type_]]
        exact = [rounded(x, 24, -149) for x in exact] if type_ == "FLOAT" else exact
        want = [rounded(x, digits, least) for x in exact]
        status, out, err = ask(w, "--columns", name)
        assert status == 0, err
        got = [rounded(fractions.Fraction(decimal.Decimal(t)), digits, least) for t in out.decode().split()[1:]]
        assert got == want, (name, [(a, b) for a, b in zip(got, want) if a != b][:3])
        # A condition compares the value that was read.
        limit = rng.choice(want)
        status, out, err = ask(w, "--columns", name, "--where", f"{name}>={float(limit)!r}")
        assert status == 0 and len(out.split()) - 1 == sum(x >= limit for x in want), err


COMPARISONS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, "<>": operator.ne, ">=": operator.ge, ">": operator.gt}


def nan_last(x):
    return (1, 0) if math.isnan(x) else (0, x)


@pytest.mark.parametrize("type_, code", [("FLOAT", "<f"), ("DOUBLE", "<d")])
def test_nan_beside_statistics(directory, type_, code):
    """NaN is equal to itself and greater than all other values, though the file's statistics leave NaN out, as those of pyarrow do."""
    w, duckdb, _ = directory
    rng = random.Random(draw_seed())
    at, mark = os.path.join(w.directory(0), "t.parquet"), 1.2001953125
    for others in [1.0, 1.0], [rng.uniform(-8, 1), rng.uniform(2, 8)]:
        values = [*others, *rng.choices([mark, *others], k=rng.randrange(9)), mark]
        rows = ", ".join(f"({k}, {x!r})" for k, x in enumerate(values))
        duckdb.sql(f"COPY (SELECT k, x::{type_} AS x FROM (VALUES {rows}) t(k, x)) TO '{at}' (FORMAT parquet, COMPRESSION uncompressed)")
        with open(at, "rb") as f:
            file = f.read()
        assert struct.pack(code, mark) in file
        with open(at, "wb") as f:
            f.write(file.replace(struct.pack(code, mark), struct.pack(code, math.nan)))
        values = [math.nan if x == mark else struct.unpack(code, struct.pack(code, x))[0] for x in values]
        for sign, holds in COMPARISONS.items():
            for limit in math.nan, rng.choice((*values, 100.0, -100.0)):
                want = [(str(k),) for k, x in enumerate(values) if holds(nan_last(x), nan_last(limit))]
                assert rows_of(w, "--columns", "k", "--where", f"x{sign}{limit!r}".replace("nan", "NaN")) == sorted(want), (sign, limit)
