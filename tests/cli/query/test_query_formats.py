# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa query run --format arrow` and `parquet`: PyArrow and DuckDB read the values that the table has, with their types."""
import datetime
import decimal
import fractions
import json
import math
import os
import random
import socket
import struct
import subprocess

import pytest

import parquet
from foreign import FPISA, Workers
from queries import double_sum, exact_sum, real
from seeds import draw_seed
from terminal import OnTerminal

SCHEMA = {"r": "real", "d": "double", "i": "int32", "l": "int64", "s": "text", "y": "date", "m": "decimal(9,2)", "w": "decimal(38,10)",
          "t": "timestamp", "k": "int32 not null"}
TYPES = {"r": "float", "d": "double", "i": "int32", "l": "int64", "s": "string", "y": "date32[day]", "m": "decimal128(9, 2)",
         "w": "decimal128(38, 10)", "t": "timestamp[us]", "k": "int32"}
IN_DUCKDB = {"r": "FLOAT", "d": "DOUBLE", "i": "INTEGER", "l": "BIGINT", "s": "VARCHAR", "y": "DATE", "m": "DECIMAL(9,2)",
             "w": "DECIMAL(38,10)", "t": "TIMESTAMP", "k": "INTEGER"}
TEXTS = ["", "a", 'a "b", c', "line\nline", "Ω" * 300, "NULL", " "]
ROWS = 20000  # several batches


def draw(rng, column):
    """Return a random value of the column, as PyArrow returns it."""
    if column == "k":
        return rng.randrange(5)
    if rng.random() < 0.1:
        return None
    if column in "rd":
        x = rng.choice((0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 0.1, rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30)))
        return real(x) if column == "r" else x
    if column in "il":
        bits = 32 if column == "i" else 64
        return rng.choice((-2 ** (bits - 1), 2 ** (bits - 1) - 1, 0, rng.randrange(-99, 99)))
    if column == "s":
        return rng.choice(TEXTS)
    if column == "y":
        return rng.choice((datetime.date.min, datetime.date.max, datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)))
    if column == "t":
        return rng.choice((datetime.datetime.min, datetime.datetime.max, datetime.datetime(1969, 12, 31, 23, 59, 59, 500000)))
    digits, scale = (9, 2) if column == "m" else (38, 10)
    return decimal.Decimal((rng.randrange(2), tuple(map(int, str(rng.randrange(10 ** rng.randrange(1, digits + 1))))), -scale))


def in_file(value):
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return format(value, "f") if isinstance(value, decimal.Decimal) else value


def same(a, b):
    """Return whether two values are equal, with their signs. NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    return a == b


@pytest.fixture(scope="module")
def table():
    """Yield a worker with table t, and the table's rows."""
    rng, w = random.Random(draw_seed()), Workers(1)
    rows = [{c: draw(rng, c) for c in SCHEMA} for _ in range(ROWS)]
    w.table("t", [f"{c} {type_}" for c, type_ in SCHEMA.items()], [tuple(in_file(v) for v in row.values()) for row in rows])
    yield w, rows
    w.close()


def ask(w, form, *options, env=None, table="t"):
    p = subprocess.run([FPISA, "query", "run", table, "--workers", w.addresses, "--key", w.key_file, "--prune", "none", "--format", form,
                        *options], capture_output=True, env=env)
    return p.returncode, p.stdout, p.stderr.decode()


def answer(w, *options):
    """Return ({name: type}, rows) of the answer."""
    status, out, err = ask(w, "arrow", *options)
    assert status == 0, err
    schema, rows = parquet.arrow_table(out, "arrow")
    return {name: type_ for name, type_, _ in schema}, rows


def check_rows(got, rows):
    assert len(got) == len(rows)
    for a, b in zip(got, rows):
        assert all(map(same, a.values(), b.values())), (a, b)


def test_arrow_rows(table):
    w, rows = table
    status, out, err = ask(w, "arrow")
    assert status == 0, err
    schema, got = parquet.arrow_table(out, "arrow")
    assert schema == [(c, TYPES[c], c != "k") for c in SCHEMA]
    check_rows(got, rows)


def test_arrow_aggregates(table):
    """Sums of reals and doubles are the exact sums rounded once, and sums of decimals and integers are exact."""
    w, rows = table
    for column, type_ in (("r", "float"), ("d", "double"), ("i", "decimal128(38, 0)"), ("l", "decimal128(38, 0)"), ("m", "decimal128(38, 2)")):
        finite = ("--where", f"{column}>-1e31,{column}<1e31") if column in "rd" else ()
        types, got = answer(w, "--by", "k", "--value", column, *finite)
        assert list(types.values()) == ["int32", "int64", type_, TYPES[column], TYPES[column], "double"]
        assert len(got) == 5
        for row in got:
            values = [r[column] for r in rows if r["k"] == row["k"] and r[column] is not None and (not finite or abs(r[column]) < 1e31)]
            exact = sum(map(fractions.Fraction, values))
            total, average = (exact_sum if column == "r" else double_sum)(values) if finite else (exact, float(exact / len(values)))
            assert row["count"] == len(values) and fractions.Fraction(row["sum"]) == total and row["max"] == max(values), (column, row)
            assert row["avg"] == average if finite else math.isclose(row["avg"], average, rel_tol=1e-15), (column, row, average)


def test_arrow_without_rows(table):
    """An answer without rows has its columns. --having selects rows in every format. A sum of dates is NULL."""
    w, rows = table
    assert answer(w, "--where", "k>9") == (TYPES, [])
    counts = {k: sum(r["k"] == k and r["y"] is not None for r in rows) for k in range(5)}
    middle = sorted(counts.values())[2]
    _, got = answer(w, "--by", "k", "--value", "y", "--having", f"count>{middle}")
    assert {r["k"]: r["count"] for r in got} == {k: n for k, n in counts.items() if n > middle}
    assert all((r["sum"], r["max"], r["avg"]) == (None, datetime.date.max, None) for r in got)


def test_parquet(table, tmp_path):
    """DuckDB writes the file, on a pipe and in a file, and PyArrow reads the same rows."""
    w, rows = table
    duckdb, env = parquet.engine()
    status, out, err = ask(w, "parquet", env=env)
    assert status == 0, err
    schema, got = parquet.arrow_table(out, "parquet")
    assert {name: type_ for name, type_, _ in schema} == TYPES
    check_rows(got, rows)
    with open(tmp_path / "t.parquet", "wb") as f:
        subprocess.run([FPISA, "query", "run", "t", "--workers", w.addresses, "--key", w.key_file, "--prune", "none", "--format", "parquet"],
                       stdout=f, check=True, env=env, stderr=subprocess.DEVNULL)
    described = duckdb.sql(f"DESCRIBE SELECT * FROM '{tmp_path}/t.parquet'").fetchall()
    assert {name: type_ for name, type_, *_ in described} == IN_DUCKDB
    sums = duckdb.sql(f"SELECT sum(m), count(*) FROM '{tmp_path}/t.parquet'").fetchall()
    assert sums == [(sum(r["m"] for r in rows if r["m"] is not None), ROWS)]


def test_parquet_names(table):
    """DuckDB adds a number to the name of a second column of a name, in upper or lower case, as the page says."""
    w, _ = table
    w.table("twice", ["sum int32 not null", "x real", "X real"], [(1, 1.0, 2.0)])
    for options, names in ((), ["sum", "x", "X_1"]), (("--by", "sum", "--value", "x"), ["sum", "count", "sum_1", "min", "max", "avg"]):
        status, out, err = ask(w, "parquet", *options, table="twice", env=parquet.engine()[1])
        assert status == 0 and [name for name, *_ in parquet.arrow_table(out, "parquet")[0]] == names, err


def test_parquet_error(table):
    """A query that fails after many rows does not write a file with those rows."""
    w, _ = table
    with open(os.path.join(w.directory(0), "long.schema"), "w") as f:
        f.write("k int32\n")
    with open(os.path.join(w.directory(0), "long.csv"), "w") as f:
        f.write("k\n" + "1\n" * 3000000 + "bad\n")
    status, out, err = ask(w, "parquet", table="long", env=parquet.engine()[1])
    assert (status, out) == (1, b"") and "long.csv:3000002: column k: 'bad' is not a valid int32" in err, err


@pytest.mark.parametrize("form", ["csv", "json", "arrow", "parquet"])
def test_places(table, tmp_path, form):
    """The answer goes to a socket, and to the end of a file, as it goes to a pipe."""
    w, rows = table
    env = parquet.engine()[1] if form == "parquet" else None
    argv = [FPISA, "query", "run", "t", "--workers", w.addresses, "--key", w.key_file, "--prune", "none", "--columns", "k", "--format", form]
    path = tmp_path / "end"
    path.write_bytes(b"before")
    with open(path, "ab") as f:
        subprocess.run(argv, stdout=f, check=True, env=env, stderr=subprocess.DEVNULL)
    here, there = socket.socketpair()
    with here, there, subprocess.Popen(argv, stdout=there, env=env, stderr=subprocess.PIPE) as p:
        there.close()
        got = b"".join(iter(lambda: here.recv(1 << 16), b""))
        assert p.wait() == 0, p.stderr.read()
    for data in got, path.read_bytes().removeprefix(b"before"):
        said = parquet.arrow_table(data, form)[1] if form in ("arrow", "parquet") else None
        found = [r["k"] for r in said] if said is not None else [r[0] for r in json.loads(data)["rows"]] if form == "json" else list(map(int, data.split()[1:]))
        assert found == [r["k"] for r in rows]
    with open("/dev/full", "wb") as f:
        p = subprocess.run(argv, stdout=f, env=env, stderr=subprocess.PIPE, text=True)
    assert (p.returncode, p.stderr) == (1, "fpisa: query run: cannot write to stdout: No space left on device\n")


def test_name_that_is_not_utf8(table):
    """The name of a column may contain a condition, and so any bytes. CSV takes them."""
    w, _ = table
    options = "--by", "k", "--value", b"r,* filter (s<>'\xff')"
    status, out, _ = ask(w, "csv", *options)
    assert status == 0 and b"count(*) filter (s<>'\xff')" in out.splitlines()[0]
    for form, of in ("json", "JSON"), ("arrow", "Arrow"):
        status, out, err = ask(w, form, *options)
        assert status == 1 and not out and f"not UTF-8, which {of} requires" in err, (form, out, err)


@pytest.mark.parametrize("value", ["r", "r filter (i>0)", "* filter (i>0)", ["r filter (i>0)"], ["r", "d filter (i>0,k<3)"]])
def test_python(table, value):
    """fpisa.query() takes the values that --value takes, one or several."""
    w, _ = table
    program = """
import fpisa, json, pickle, sys
sys.stdout.buffer.write(pickle.dumps(fpisa.query("t", sys.argv[1], key_file=sys.argv[2], by="k", value=json.loads(sys.argv[3])).to_pylist()))"""
    env = {"PYTHONPATH": f"{parquet.TOP}/adapters/python", "FPISA_QUERY_LIBRARY": f"{parquet.BUILD}/libfpisa-query.so"}
    got = parquet.with_pyarrow(program, w.addresses, w.key_file, json.dumps(value), env=env)
    want = answer(w, "--by", "k", "--value", value if isinstance(value, str) else ",".join(value))[1]
    assert sorted(map(str, got)) == sorted(map(str, want))


def test_refusals(table):
    w, _ = table
    w.table("long", ["k int32 not null", "v decimal(38)"], [(1, "9" * 38), (1, "1")])
    status, out, err = ask(w, "arrow", "--by", "k", "--value", "v", table="long")
    assert status == 1 and "column sum: 1" + "0" * 38 + " has more digits than a decimal(38,0), Arrow's type of the column; choose another" in err
    w.table("bytes", ["s text"], [])
    with open(f"{w.directory(0)}/bytes.csv", "ab") as f:
        f.write(b"\xff\n")
    status, out, err = ask(w, "arrow", table="bytes")
    assert status == 1 and err == "fpisa: query run: column s: a text is not UTF-8, which Arrow requires; choose another format\n"
    status, out, err = ask(w, "xml")
    assert status == 2 and "--format: 'xml' is not csv or json or arrow or parquet" in err, err
    status, out, err = ask(w, "parquet", env={"FPISA_DRIVER": "/none.so"})
    assert status == 1 and "DuckDB, which reads and writes Parquet: /none.so" in err and "FPISA_DRIVER" in err, err
    t = OnTerminal([FPISA, "query", "run", "t", "--workers", w.addresses, "--key", w.key_file, "--prune", "none", "--format", "arrow"], stdout=None)
    assert t.wait()[0] == 2 and "--format arrow is not text; redirect stdout to a file or a program" in t.said


def test_csv_and_json(table):
    """--json is --format json, and CSV is the default."""
    w, _ = table
    options = "--by", "k"
    for form, same_as in (("json", ["--json"]), ("csv", [])):
        p = subprocess.run([FPISA, "query", "run", "t", "--workers", w.addresses, "--key", w.key_file, "--prune", "none", *options, *same_as],
                           capture_output=True, text=True)
        status, out, err = ask(w, form, *options)
        assert (status, p.returncode) == (0, 0), err
        assert sorted(out.decode().split('"counts"')[0].splitlines()) == sorted(p.stdout.split('"counts"')[0].splitlines())
