# SPDX-License-Identifier: GPL-2.0-only
"""With `--prune workers`, DuckDB adds reals by key in integers, and finds the first rows. Answers are those of rows that the worker reads."""
import math
import os
import subprocess

import pytest

import parquet
from foreign import FPISA, Workers
from queries import HARD
from seeds import rng  # noqa: F401

ROWS = 33000  # a table with fewer rows is read row by row
# For each kind of values, a function of the random numbers and the row's number. DuckDB adds some of them, and the worker the others.
VALUES = {
    "cents": lambda rng, i: f"{rng.randrange(-10**6, 10**6) / 4!r}",
    "shares": lambda rng, i: f"{rng.randrange(2**24) / 2**24!r}",
    "uniform": lambda rng, i: f"{rng.uniform(-1, 1)!r}",
    "wide": lambda rng, i: f"{rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30)!r}",
    "tiny": lambda rng, i: f"{rng.randrange(-9, 9) * 2.0 ** -149!r}",
    "huge": lambda rng, i: f"{rng.uniform(0.5, 1) * 3.4e38!r}",
    "large": lambda rng, i: f"{rng.randrange(2**24) * 2.0 ** 70!r}",
    "zeros": lambda rng, i: rng.choice(("0.0", "-0.0")),
    "hard": lambda rng, i: repr(rng.choice(HARD)),
    "late": lambda rng, i: "nan" if i == ROWS - 1 else "1.5",
    "small": lambda rng, i: "1e-9" if i == 7 else "1.5",
}


@pytest.fixture(scope="module")
def worker():
    duckdb, env = parquet.engine()
    w = Workers(1, before=("env", "FPISA_DRIVER=" + env["FPISA_DRIVER"]))
    yield duckdb, w
    w.close()


def make(worker, rows, schema="k text\nd double\nx real not null\ni int64 not null\n"):
    """Make table t from texts of rows, with two files, whose second has one row."""
    duckdb, w = worker
    w.clear()
    os.mkdir(w.directory(0) + "/t")
    with open(w.directory(0) + "/t.schema", "w") as f:
        f.write(schema)
    for name, part in (("a", rows[:-1]), ("b", rows[-1:])):
        with open(w.directory(0) + "/rows.csv", "w") as f:
            f.writelines(",".join(row) + "\n" for row in part)
        duckdb.sql(f"COPY (SELECT * FROM read_csv('{w.directory(0)}/rows.csv', header = false, columns = {{'k': 'VARCHAR', 'd': 'DOUBLE', "
                   f"'x': 'FLOAT', 'i': 'BIGINT'}})) TO '{w.directory(0)}/t/{name}.parquet' (ROW_GROUP_SIZE 2048)")
        os.unlink(w.directory(0) + "/rows.csv")


def ask(worker, prune, *options):
    w = worker[1]
    p = subprocess.run([FPISA, "query", "run", "t", "--workers", w.addresses, "--key", w.key_file, "--prune", prune, *options], capture_output=True, text=True)
    return sorted(p.stdout.splitlines()) if not p.returncode else p.stderr


@pytest.mark.parametrize("kind", VALUES)
def test_sums(worker, kind, rng):  # noqa: F811
    rows = [(rng.choice(("a", "b", "", "Ω")) if rng.random() < 0.9 else f"key {i}", rng.choice(("0.0", "-0.0", "nan", "1", "")),
             VALUES[kind](rng, i), str(i)) for i in range(ROWS)]
    make(worker, rows)
    for options in (("--by", "k,d"), ("--total",), ("--by", "k", "--where", "i>30000"), ("--total", "--where", "i<0"), ("--by", "k", "--double-sums")):
        answers = [ask(worker, prune, "--value", "x", *options) for prune in ("workers", "none")]
        assert answers[0] == answers[1] and isinstance(answers[0], list), (options, answers)
    # Rows with equal values may be different ones.
    for options in (("--limit", "100"), ("--limit", "100", "--ascending"), ("--limit", "50000"), ("--limit", "7", "--where", "i>32990")):
        answers = [ask(worker, prune, "--value", "x", "--columns", "x", *options) for prune in ("workers", "none")]
        assert [0 if float(x) == 0 else x for x in answers[0][:-1]] == [0 if float(x) == 0 else x for x in answers[1][:-1]], (options, answers)


def test_exact(worker, rng):  # noqa: F811
    """DuckDB's integers have up to 93 bits. 6,000 values near 2^61 units, with all 24 bits of a real, and small ones beside them."""
    values = [float(2**24 - 1 - i) * 2.0 ** (37 if i % 2 else 0) for i in range(ROWS)]
    make(worker, [("a", "1", repr(x), str(i)) for i, x in enumerate(values)])
    total, = (row for row in ask(worker, "workers", "--by", "k", "--value", "x", "--double-sums") if row.startswith("a,"))
    assert float(total.split(",")[2]) == math.fsum(values)


@pytest.mark.parametrize("options", [("--by", "k"), ("--total",), ("--limit", "1"), ("--limit", "1", "--ascending")])
def test_null(worker, options):
    """A NULL in a column that is not null is an error, wherever the rows are added."""
    make(worker, [("a", "1", "" if i == 3 else "1.5", str(i)) for i in range(ROWS)])
    for prune in "workers", "none":
        assert "column x is empty, but the schema declares it not null" in ask(worker, prune, "--value", "x", *options)


def test_may_be_null(worker):
    """The numbers of NULLs are exact."""
    make(worker, [("a", "1", "" if i % 3 else "1.5", str(i)) for i in range(ROWS)], "k text\nd double\nx real\ni int64\n")
    for options in ("--by", "k"), ("--limit", "50"), ("--limit", "50", "--nulls-first"):
        assert ask(worker, "workers", "--value", "x", *options) == ask(worker, "none", "--value", "x", *options)


def test_statements(tmp_path):
    """The worker first asks for groups, and for rows if the driver has no groups."""
    said = tmp_path / "statements"
    w = Workers(1, before=("env", "FPISA_DRIVER=" + parquet.driver(tmp_path), f"ROWS={ROWS}", f"STATEMENTS={said}"))
    try:
        with open(w.directory(0) + "/t.schema", "w") as f:
            f.write("k int32 not null\nv real not null\n")
        open(w.directory(0) + "/t.parquet", "w").close()
        assert ask((None, w), "workers", "--by", "k", "--value", "v")[:2] == ["1,1,1,1,1,1", "10,1,1,1,1,1"]
        assert ask((None, w), "workers", "--value", "v", "--limit", "5", "--columns", "v")
    finally:
        w.close()
    statements = said.read_text()
    assert statements.index("GROUP BY") < statements.rindex("SELECT CAST") and "ORDER BY 2 DESC NULLS FIRST LIMIT 5" in statements


@pytest.mark.parametrize("bad", [0, ROWS // 2, ROWS - 1])
@pytest.mark.parametrize("value", ["1e-9", "nan", "3e38"])
def test_one_of_many_groups(worker, bad, value):
    """If one group of many has a value that does not fit, the worker adds all rows itself. No group has gone to the master before."""
    make(worker, [(f"key {i}", "1", value if i == bad else "1.5", str(i)) for i in range(ROWS)])
    answers = [ask(worker, prune, "--by", "i", "--value", "x") for prune in ("workers", "none")]
    assert answers[0] == answers[1] and len(answers[0]) == ROWS + 1, answers[0][:200]
