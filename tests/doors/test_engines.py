# SPDX-License-Identifier: GPL-2.0-only
"""Follow doc/engines.md: workers on the loopback interface, a PostgreSQL with foreign tables, and each engine from PyPI"""
import ast
import collections
import os
import re
import random
import shutil
import socket
import subprocess
import sys
from fractions import Fraction

import pytest

import postgres
from conftest import BUILD, TOP
from foreign import FPISA, Workers, server_sql
from queries import double_sum, real
from seeds import draw_seed

os.environ["FPISA_QUERY_LIBRARY"] = os.path.join(BUILD, "libfpisa-query.so")
DRIVER = "/usr/share/java/postgresql.jar"
ROWS = [(1, 18.979999542236328), (2, 2.0)]


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
def jvm():
    """Return a function that ends Spark's JVM, if there is one, because only a JVM that starts with jars has their classes."""
    pyspark = pytest.importorskip("pyspark")

    def end():
        gateway = pyspark.SparkContext._gateway
        if gateway:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
            pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = None
    yield end
    end()


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
def database(workers):
    """Yield a server on TCP with the foreign tables. PGPORT is its port."""
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
        yield s
    finally:
        s.close()
        del os.environ["PGPORT"]


@pytest.fixture(scope="module")
def server(database):
    """Return the server's address."""
    return f"127.0.0.1:{os.environ['PGPORT']}"


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
    program, _ = blocks(2)
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
    assert sorted(connection.fetchall()) == ROWS


def apart(name):
    """Return an environment for programs that use the packages of tests/doors/run.py in this folder."""
    place = os.path.join(BUILD, "doors", name)
    if not os.path.isdir(place):
        pytest.skip(f"PyPI has no packages of {name} for this machine")
    return {**os.environ, "PYTHONPATH": place}


def test_duckdb_extension_of_pypi(server, tmp_path):
    """The program runs with its own version of DuckDB, and PostgreSQL asks the workers for sums and conditions."""
    env = apart("extension")
    _, program = blocks(2)
    host, port = server.split(":")
    with open(tmp_path / "program.py", "w") as f:
        f.write(program.replace("10.0.0.13", f"{host} port={port}"))
    here = os.path.dirname(os.path.abspath(__file__))
    follower = f"import sys; sys.path.insert(0, {here!r}); import conftest, test_engines; print(test_engines.follow(open('program.py').read(), {{}}))"
    said = subprocess.run([sys.executable, "-B", "-c", follower], cwd=tmp_path, env={**env, "HOME": str(tmp_path)}, capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout == "2\n", said.stderr


def test_dbt(database, server, tmp_path):
    env = apart("dbt")
    host, port = server.split(":")
    text = re.search(r"^## 5\. .*", page("engines.md"), re.M | re.S)[0].replace("10.0.0.13, port: 5432", f"{host}, port: {port}")
    files = re.findall(r"^```(?:yaml|sql)\n(?:#|--) (\S+)\n(.*?)^```", text, re.M | re.S)
    assert [name for name, _ in files] == ["profiles.yml", "dbt_project.yml", "models/sums.sql"]
    (tmp_path / "models").mkdir()
    for name, content in files:
        (tmp_path / name).write_text(content)
    p = subprocess.run([sys.executable, "-B", "-c", "from dbt.cli.main import cli; cli()", "run"], cwd=tmp_path, capture_output=True, text=True,
                       env={**env, "DBT_PROFILES_DIR": str(tmp_path), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "HOME": str(tmp_path)})
    assert p.returncode == 0, p.stdout + p.stderr
    assert database.sql("SELECT shop, sum, days FROM reports.sums ORDER BY shop") == [("1", "18.98", "2"), ("2", "2", "2")]


def test_spark(server, jvm):
    """The page's statements give its results, and Spark's plan shows that PostgreSQL computes them."""
    if not os.path.exists(DRIVER):
        pytest.skip(f"{DRIVER} is not installed; run apt install libpostgresql-jdbc-java")
    jvm()
    names = {}
    try:
        assert sum(follow(program.replace("10.0.0.13", server), names) for program in blocks(3)) == 3
        plan = names["top"]._jdf.queryExecution().executedPlan().toString()
        assert "PushedTopN: ORDER BY [price DESC NULLS LAST] LIMIT 1" in plan and "shop = 2" in plan, plan
        plan = names["means"]._jdf.queryExecution().executedPlan().toString()
        assert "PushedAggregates: [AVG(price), COUNT(*)]" in plan, plan
        tables = names["spark"].sql("SELECT table_name FROM far.information_schema.tables").collect()
        assert "sales" in {row.table_name for row in tables}
    finally:
        if "spark" in names:
            names["spark"].stop()


# -- Spark's catalog ------------------------------------------------------------------

@pytest.fixture(scope="module")
def catalog(workers, jvm):
    """Yield a session of Spark with the page's catalog, and the names of the page's program."""
    pyspark = pytest.importorskip("pyspark")
    if not shutil.which("javac"):
        pytest.skip("no javac: apt install default-jdk-headless")
    jars = os.path.join(os.path.dirname(pyspark.__file__), "jars")
    subprocess.run(["make", "-s", "-C", TOP, f"B={BUILD}", "spark", f"SPARK_JARS={jars}"], check=True, stdout=sys.stderr)
    rng = random.Random(draw_seed())
    rows = [(rng.randrange(7), rng.choice((None, rng.uniform(-1, 1) * 10.0 ** rng.randint(-12, 12))), rng.choice((None, "", "a", "b'c", "x,y", "\u00fc")),
             rng.randrange(-2 ** 31, 2 ** 31), f"20{rng.randrange(10, 30)}-02-03", real(rng.uniform(-1, 1) * 10.0 ** rng.randint(-6, 6))) for _ in range(20000)]
    workers.table("t", ["k int32 not null", "x double", "s text", "i int32 not null", "day date", "r real not null"],
                  [(k, x, f'"{s}"' if s == "x,y" else s, i, day, r) for k, x, s, i, day, r in rows])
    names = {}
    program, = blocks(4)
    for old, new in (("10.0.0.11,10.0.0.12", workers.addresses), ("/etc/fpisa/query-keys", workers.key_file), ("build/spark", f"{BUILD}/spark"),
                     ("['sales']", "['sales', 't']"), (".getOrCreate()", f'.config("spark.sql.catalog.workers.command", {FPISA!r}).getOrCreate()')):
        assert old in program
        program = program.replace(old, new)
    exec("from pyspark.sql import SparkSession", names)
    jvm()
    try:
        with pytest.MonkeyPatch.context() as m:
            m.setenv("LC_ALL", "C")  # as in a container
            assert follow(program, names) == 2
        yield names["spark"], rows
    finally:
        if "spark" in names:
            names["spark"].stop()


def asked(frame):
    """Return the options with which Spark's plan asks the workers."""
    return re.findall(r"fpisa query run [^\n]*", frame._jdf.queryExecution().executedPlan().toString())


def test_catalog_aggregates(catalog):
    spark, rows = catalog
    of = {k: [x for key, x, *_ in rows if key == k and x is not None] for k in range(7)}
    got = spark.sql("SELECT k, sum(x), avg(x), min(x), max(x), count(x) FROM workers.t GROUP BY k")
    assert {k: tuple(r) for k, *r in got.collect()} == {k: (*double_sum(xs), min(xs), max(xs), len(xs)) for k, xs in of.items()}
    assert len(asked(got)) == 1 and "--by k --value x --double-sums --prune workers" in asked(got)[0], asked(got)
    got = spark.sql("SELECT sum(r), sum(x), min(day) FROM workers.t WHERE k <> 3")  # Spark's sum of reals is a double
    reals, doubles = [r[5] for r in rows if r[0] != 3], [r[1] for r in rows if r[0] != 3 and r[1] is not None]
    assert tuple(got.collect()[0])[:2] == (double_sum(reals)[0], double_sum(doubles)[0]) and "--total --value r,x,day" in asked(got)[0]
    got = spark.sql("SELECT sum(i), avg(i), count(*), min(day) FROM workers.t WHERE day >= DATE '2015-01-01' AND k <> 3")
    chosen = [r for r in rows if r[4] >= "2015-01-01" and r[0] != 3]
    total, mean, n, first = got.collect()[0]
    assert (total, n, str(first)) == (sum(r[3] for r in chosen), len(chosen), min(r[4] for r in chosen))
    assert mean == pytest.approx(total / n, rel=1e-15) and "--total --value i,day" in asked(got)[0]
    got = spark.sql("SELECT k, sum(x) FROM workers.t GROUP BY k ORDER BY k DESC LIMIT 2")
    assert [tuple(r) for r in got.collect()] == [(k, double_sum(of[k])[0]) for k in (6, 5)] and "--limit" not in asked(got)[0]


def test_catalog_texts(catalog, workers):
    """The workers add rows by texts if text-bytes promises that the key has room. Otherwise Spark does, with the same result."""
    spark, _ = catalog
    rows = [(s, t, k, 2 * k + 1) for s in (None, "", "s" * 14) for t in ("a", "\u00fc" * 7) for k in (-1, 2)]
    workers.table("texts", ["s text", "t text not null", "k int64 not null", "x int64 not null"],
                  [('""' if s == "" else s, t, k, x) for s, t, k, x in rows])
    common = {option: spark.conf.get(f"spark.sql.catalog.workers.{option}") for option in ("workers", "key", "command")}
    for limit, room in ((None, {"k"}), (14, {"k", "s", "t", "s,t", "t,k"}), (15, {"k", "s", "t", "t,k"}), (30, {"k", "t"}), (31, {"k"})):
        name = f"texts{limit or ''}"
        options = common if limit is None else {**common, "text-bytes": limit}
        for option, value in {"": "io.fpisa.spark.Catalog", **{f".{o}": v for o, v in options.items()}}.items():
            spark.conf.set(f"spark.sql.catalog.{name}{option}", str(value))
        for keys in "k", "s", "t", "s,t", "t,k", "s,t,k":
            at = ["stk".index(key) for key in keys.split(",")]
            want = collections.Counter()
            for row in rows:
                want[tuple(row[i] for i in at)] += row[3]
            got = spark.sql(f"SELECT {keys}, sum(x) FROM {name}.texts GROUP BY {keys}")
            assert {tuple(r)[:-1]: r[-1] for r in got.collect()} == dict(want), (limit, keys)
            assert ("--by" in asked(got)[0]) == (keys in room), (limit, keys, asked(got))


def test_query_6(catalog, workers, database):
    """The statement of section 6 gives the exact sum of decimals, and the functions that the page names give it for doubles."""
    spark, _ = catalog
    statement = re.search(r"^    SELECT sum\(l_extendedprice.*?\n\n", page("engines.md"), re.M | re.S)[0].strip()
    rng = random.Random(draw_seed())
    rows = [(f"{rng.choice((90000, 901))}.{rng.randrange(100):02}", f"0.{rng.randrange(3, 10):02}", f"{rng.randrange(1, 51)}.00",
             f"199{rng.randrange(3, 6)}-{rng.choice(('01-01', '06-30', '12-31'))}") for _ in range(5000)]
    chosen = [(price, discount) for price, discount, quantity, day in rows
              if day[:4] == "1994" and 0.05 <= float(discount) <= 0.07 and float(quantity) < 24]
    exact = sum(Fraction(price) * Fraction(discount) for price, discount in chosen)
    rounded = float(sum(Fraction(float(price) * float(discount)) for price, discount in chosen))
    for table, number in ("lineitem", "decimal(15,2)"), ("lineitem_double", "double"):
        workers.table(table, [f"{column} {number}" for column in ("l_extendedprice", "l_discount", "l_quantity")] + ["l_shipdate date"], rows)
    database.sql("IMPORT FOREIGN SCHEMA tables LIMIT TO (lineitem, lineitem_double) FROM SERVER far INTO public;")
    got = spark.sql(statement.replace("FROM lineitem", "FROM workers.lineitem"))
    assert Fraction(got.collect()[0].revenue) == Fraction(database.sql(statement)[0][0]) == exact
    assert "l_discount>=0.05,l_discount<=0.07,l_quantity<24" in asked(got)[0] and "--columns l_extendedprice,l_discount " in asked(got)[0]
    spark._jvm.io.fpisa.spark.Functions.register(spark._jsparkSession)
    doubles = statement.replace("FROM lineitem", "FROM {}lineitem_double")
    assert spark.sql(doubles.format("workers.").replace("sum(", "fpisa_exact_sum(")).collect()[0].revenue == rounded
    for exact in doubles.replace("sum(", "fpisa_sum("), "SET fpisa.exact_sum = on; " + doubles:
        assert float(database.sql(exact.format(""))[0][0]) == rounded


def test_catalog_rows(catalog):
    """Conditions, columns and first rows reach the workers. Spark joins and computes the rest, with a partition for each worker."""
    spark, rows = catalog
    got = spark.sql("SELECT x, s FROM workers.t WHERE s = \"b'c\" OR x IS NULL")
    assert sorted(map(str, map(tuple, got.collect()))) == sorted(str((x, s)) for _, x, s, *_ in rows if s == "b'c" or x is None)
    for condition, holds in (("s = \"b'c\"", lambda r: r[2] == "b'c"), ("s = 'x,y' AND i < 0", lambda r: r[2] == "x,y" and r[3] < 0), ("0.5 < x", lambda r: r[1] and r[1] > 0.5),
                             ("s IS NULL", lambda r: r[2] is None), ("s = ''", lambda r: r[2] == "")):
        got = spark.sql(f"SELECT k, i FROM workers.t WHERE {condition}")
        assert sorted(map(tuple, got.collect())) == sorted((r[0], r[3]) for r in rows if holds(r)), condition
        assert "--where" in asked(got)[0] and "--columns k,i" in asked(got)[0] and not re.search(r"\bFilter\b", got._jdf.queryExecution().executedPlan().toString())
        assert got.rdd.getNumPartitions() == 2
    # The argument of a program has only ASCII in this locale.
    assert spark.sql("SELECT i FROM workers.t WHERE s = '\u00fc'").count() == sum(r[2] == "\u00fc" for r in rows)
    got = spark.sql("SELECT x FROM workers.t ORDER BY x DESC LIMIT 9")
    assert [r.x for r in got.collect()] == sorted((r[1] for r in rows if r[1] is not None), reverse=True)[:9]
    assert "--value x --limit 9" in asked(got)[0]
    got = spark.sql("SELECT count(*) FROM workers.t a JOIN workers.t b ON a.i = b.i WHERE a.k = 1 AND b.k = 2")
    there = [r[3] for r in rows if r[0] == 2]
    assert got.collect()[0][0] == sum(there.count(r[3]) for r in rows if r[0] == 1)
    assert spark.sql("SELECT s, count(i) FROM workers.t GROUP BY s").count() == 6  # texts as keys stay with Spark


def test_catalog_errors(catalog):
    spark, _ = catalog
    with pytest.raises(Exception, match="none"):
        spark.sql("SELECT * FROM workers.none").collect()
    for option, value in ("", "io.fpisa.spark.Catalog"), (".workers", "127.0.0.1"), (".key", "/none"), (".timeout", "0"), (".command", FPISA):
        spark.conf.set("spark.sql.catalog.wrong" + option, value)
    with pytest.raises(Exception, match="fpisa: --timeout"):
        spark.sql("SHOW TABLES IN wrong").collect()
