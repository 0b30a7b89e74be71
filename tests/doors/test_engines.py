# SPDX-License-Identifier: GPL-2.0-only
"""Follow doc/engines.md: workers on the loopback interface, a PostgreSQL with foreign tables, and each engine from PyPI"""
import ast
import os
import re
import socket
import subprocess

import pytest

import postgres
from conftest import BUILD, TOP
from foreign import FPISA, Workers, server_sql

os.environ["FPISA_QUERY_LIBRARY"] = os.path.join(BUILD, "libfpisa-query.so")
DRIVER = "/usr/share/java/postgresql.jar"


def page(name):
    with open(os.path.join(TOP, "doc", name), encoding="utf-8") as f:
        return f.read()


def blocks(section, kind="python"):
    """Return the programs of a section."""
    text = re.search(rf"^## {section}\. .*?(?=^## |\Z)", page("engines.md"), re.M | re.S)[0]
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)


def follow(program, names):
    """Run a program. Each line with a comment must have the value in the comment. Return the number of such lines."""
    said = 0
    for part in ast.parse(program).body:
        text = ast.get_source_segment(program, part)
        shown = re.match(r"  # (.*)", program.splitlines()[part.end_lineno - 1][part.end_col_offset:])
        if shown:
            assert eval(text, names) == ast.literal_eval(shown[1]), text
            said += 1
        else:
            exec(text, names)
    return said


@pytest.fixture(scope="module")
def workers():
    """Yield two workers with the table of doc/query.md, section 1."""
    w = Workers(2)
    commands = re.search(r"^mkdir -p /srv/tables\n(.*?)^fpisa query worker", page("query.md"), re.M | re.S)[1]
    for rank in range(2):
        subprocess.run(["sh", "-ec", commands.replace("/srv/tables", w.directory(rank))], check=True)
    yield w
    w.close()


@pytest.fixture(scope="module")
def server(workers):
    """Yield the address of a server on TCP with the foreign tables."""
    why = postgres.lacking()
    if why:
        pytest.skip(why)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    os.environ["PGPORT"] = str(port)
    s = postgres.Server(listen_addresses="127.0.0.1", port=port)
    try:
        s.sql(f"CREATE EXTENSION fpisa; {server_sql(workers)} IMPORT FOREIGN SCHEMA tables FROM SERVER far INTO public;")
        yield f"127.0.0.1:{port}"
    finally:
        s.close()
        del os.environ["PGPORT"]


def test_arrow(workers, tmp_path):
    for engine in "polars", "pandas", "pyarrow", "duckdb", "datafusion":
        pytest.importorskip(engine)
    program, = blocks(1)
    assert follow(program.replace("10.0.0.11,10.0.0.12", workers.addresses).replace("/etc/fpisa/query-keys", workers.key_file), {}) == 4
    command, = blocks(1, "sh")
    command = command.replace("10.0.0.11,10.0.0.12", workers.addresses).replace("/etc/fpisa/query-keys", workers.key_file)
    subprocess.run(["sh", "-ec", command], cwd=tmp_path, check=True, env={**os.environ, "PATH": os.path.dirname(FPISA) + ":" + os.environ["PATH"]})
    import polars
    assert polars.read_ipc_stream(tmp_path / "sales.arrows").sort("shop")["count"].to_list() == [4, 6]


def test_adbc(server):
    for engine in "adbc_driver_postgresql", "polars", "pandas", "pyarrow", "duckdb", "datafusion":
        pytest.importorskip(engine)
    program, = blocks(2)
    assert follow(program.replace("10.0.0.13", server), {}) == 4


def test_duckdb_extension(server):
    duckdb = pytest.importorskip("duckdb")
    text = re.search(r"^    INSTALL postgres;\n.*?\n\n", page("engines.md"), re.M | re.S)[0]
    host, port = server.split(":")
    connection = duckdb.connect()
    install, *rest = text.replace("10.0.0.13", f"{host} port={port}").split(";\n")
    try:
        connection.execute(install)
    except duckdb.Error as e:
        pytest.skip(f"DuckDB's extensions cannot be reached: {str(e).splitlines()[0]}")
    for statement in rest:
        connection.execute(statement)
    assert sorted(connection.fetchall()) == [(1, 18.979999542236328), (2, 2.0)]


def test_spark(server):
    """The page's statements give its results, and Spark's plan shows that PostgreSQL computes them."""
    pytest.importorskip("pyspark")
    if not os.path.exists(DRIVER):
        pytest.skip(f"{DRIVER} is not installed; run apt install libpostgresql-jdbc-java")
    names = {}
    try:
        assert sum(follow(program.replace("10.0.0.13", server), names) for program in blocks(3)) == 3
        plan = names["top"]._jdf.queryExecution().executedPlan().toString()
        assert "PushedTopN: ORDER BY [price DESC NULLS LAST] LIMIT 1" in plan and "shop = 2" in plan, plan
        plan = names["most"]._jdf.queryExecution().executedPlan().toString()
        assert "PushedAggregates: [MAX(price), COUNT(*)]" in plan, plan
        tables = names["spark"].sql("SELECT table_name FROM far.information_schema.tables").collect()
        assert "sales" in {row.table_name for row in tables}
    finally:
        if "spark" in names:
            names["spark"].stop()
