# SPDX-License-Identifier: GPL-2.0-only
"""Test each engine of doc/sums.md, installed from PyPI: groups and totals equal those of math.fsum, and partials merge in all other
engines."""
import ast
import os
import re
import shutil
import subprocess
import sys

import pytest

import fpisa
from conftest import BUILD, TOP


def frame(data):
    import pandas
    return pandas.DataFrame({"k": data.keys, "x": pandas.Series(data.values, dtype="float64")})


def table(data):
    import pyarrow
    return pyarrow.table({"k": list(data.keys), "x": pyarrow.array(data.values, pyarrow.float64())})


def partial_of(data):
    return fpisa.Accumulator([x for x in data.values if x is not None]).to_bytes()


def programs():
    with open(os.path.join(TOP, "doc", "sums.md")) as f:
        found = re.findall(r"^```python\n(.*?)^```", f.read(), re.M | re.S)
    return [p for p in found if "import fpisa." in p]


def follow(program):
    """Run a program from the page. Each line must print the value in the line's comment."""
    names, said = {}, 0
    for line in program.splitlines():
        code, _, comment = line.partition("  # ")
        if comment and comment[0] in "[{0123456789":
            assert eval(code, names) == ast.literal_eval(comment), line
            said += 1
        else:
            exec(line, names)
    assert said, program


@pytest.mark.parametrize("program", [p for p in programs() if "pyspark" not in p], ids=lambda p: re.search(r"import fpisa\.(\w+)", p)[1])
def test_page(program):
    """Each program of doc/sums.md runs unchanged."""
    pytest.importorskip(re.search(r"import (\w+)", program)[1])
    follow(program)


def test_numpy():
    """The tests of tests/python pass with the newest numpy, and with ml_dtypes, which Debian does not have."""
    pytest.importorskip("ml_dtypes")
    files = [os.path.join(TOP, "tests", "python", f"test_{name}.py") for name in ("sums", "inputs")]
    subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files], check=True)


def test_pandas(data):
    pytest.importorskip("pandas")
    import fpisa.pandas  # noqa: F401
    df = frame(data)
    assert df.x.fpisa.sum() == data.total
    for keys in df.k, df.k.to_numpy(), df.k.tolist():
        assert df.x.fpisa.sum(by=keys).to_dict() == data.sums
    assert df.groupby("k").x.agg(lambda s: s.fpisa.sum()).to_dict() == data.sums
    assert df.x.fpisa.partial() == partial_of(data)
    groups = df.groupby("k").x
    assert groups.fpisa.sum().to_dict() == data.sums and list(groups.fpisa.sum().index) == list(groups.sum().index)
    assert groups.fpisa.mean().to_dict() == {k: fpisa.mean(x.dropna().to_numpy()) for k, x in groups}
    assert groups.fpisa.var().to_dict() == {k: fpisa.var(x.dropna().to_numpy(), ddof=1) for k, x in groups}
    assert fpisa.merged(groups.fpisa.partial()).to_bytes() == partial_of(data)
    few = frame(data).assign(k=["b", None, "a"] * 6666 + ["empty", "b"])
    few.loc[few.k == "empty", "x"] = None
    got = few.groupby("k", sort=False).x.fpisa.sum()
    assert list(got.index) == ["b", "a", "empty"] and got["empty"] == 0 and few.groupby("k").x.fpisa.mean().isna().tolist() == [False, False, True]
    shuffled = df.sample(frac=1, random_state=1)
    assert shuffled.x.fpisa.sum(by=shuffled.k).to_dict() == data.sums and shuffled.x.fpisa.sum(by=df.k).to_dict() == data.sums


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("sort", [False, True])
def test_pandas_categories(observed, sort):
    """Each group has the sum of its own rows, at the position that pandas gives the group, even if some groups have no rows."""
    pandas = pytest.importorskip("pandas")
    import fpisa.pandas  # noqa: F401
    df = pandas.DataFrame({"k": pandas.Categorical(list("cacab"), categories=list("zabdc")), "j": pandas.Categorical([2, 3, 1, 2, 2], categories=[3, 1, 4, 2]),
                           "n": [1.0, None, 1.0, 2.0, 2.0], "x": [1.0, 2.0, 4.0, 8.0, None]})
    for keys in "k", ["k", "j"], ["j", "n"], ["n", "k"]:
        for dropna in False, True:
            groups = df.groupby(keys, observed=observed, sort=sort, dropna=dropna).x
            for got, want in ((groups.fpisa.sum(), groups.sum()), (groups.fpisa.mean(), groups.mean()), (groups.fpisa.var(), groups.var())):
                pandas.testing.assert_series_equal(got, want)


def test_pandas_null_keys():
    """Neither pandas.NA nor NaT belongs to a group, in an array of pandas or in a list."""
    pandas = pytest.importorskip("pandas")
    dates = [pandas.Timestamp(1), pandas.NaT, pandas.Timestamp(1)]
    for by in pandas.array([1, None, 1], dtype="Int64"), [1, pandas.NA, 1], dates, pandas.array(dates), pandas.array(["a", None, "a"], dtype="string"):
        got = fpisa.sum([1.0, 2.0, 4.0], by=by)
        assert len(got.keys) == 1 and got.values.tolist() == [5], by


def test_polars(data):
    pl = pytest.importorskip("polars")
    import fpisa.polars  # noqa: F401
    df = pl.DataFrame({"k": data.keys, "x": data.values}, schema={"k": pl.String, "x": pl.Float64})
    assert df.select(pl.col("x").fpisa.sum()).item() == data.total
    assert dict(df.group_by("k").agg(pl.col("x").fpisa.sum()).rows()) == data.sums
    parts = df.lazy().group_by("k").agg(pl.col("x").fpisa.partial()).collect()
    assert parts.select(pl.col("x").fpisa.merge()).item() == partial_of(data)
    assert dict(parts.with_columns(pl.col("x").fpisa.value()).rows()) == data.sums


def test_pyarrow(data):
    pytest.importorskip("pyarrow")
    import pyarrow.compute as pc

    import fpisa.arrow
    fpisa.arrow.register()
    t = table(data)
    assert pc.call_function("fpisa_sum", [t["x"].combine_chunks()]).as_py() == data.total == fpisa.sum(t["x"])
    got = t.group_by("k").aggregate([("x", "fpisa_sum"), ("x", "fpisa_partial")])
    assert dict(zip(got["k"].to_pylist(), got["x_fpisa_sum"].to_pylist())) == data.sums
    assert fpisa.merged(got["x_fpisa_partial"].to_pylist()).to_bytes() == partial_of(data)


def test_duckdb(data):
    duckdb = pytest.importorskip("duckdb")
    import fpisa.duckdb
    t = table(data)  # noqa: F841
    con = fpisa.duckdb.register(fpisa.duckdb.register(duckdb.connect()))
    con.execute("SET threads = 2; CREATE TABLE t AS SELECT * FROM t")
    assert con.execute("SELECT fpisa_sum(x), fpisa_mean(x) FROM t").fetchone() == (data.total, fpisa.mean(t["x"]))
    assert dict(con.execute("SELECT k, fpisa_sum(x) FROM t GROUP BY k").fetchall()) == data.sums
    merged, value = con.execute("SELECT fpisa_merge(p), fpisa_value(fpisa_merge(p)) FROM (SELECT fpisa_partial(x) p FROM t GROUP BY k)").fetchone()
    assert merged == partial_of(data) and value == data.total


def test_datafusion(data):
    datafusion = pytest.importorskip("datafusion")
    import fpisa.datafusion
    context = fpisa.datafusion.register(datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(4)))
    context.register_record_batches("t", [table(data).to_batches(max_chunksize=1000)])

    def rows(query):
        return [tuple(row.values()) for batch in context.sql(query).collect() for row in batch.to_pylist()]

    assert rows("SELECT fpisa_sum(x) FROM t") == [(data.total,)]
    assert dict(rows("SELECT k, fpisa_sum(x) FROM t GROUP BY k")) == data.sums
    assert fpisa.merged(p for p, in rows("SELECT fpisa_partial(x) FROM t GROUP BY k")).to_bytes() == partial_of(data)


def test_dask(data):
    dask = pytest.importorskip("dask")
    import dask.bag
    import dask.dataframe

    import fpisa.dask
    df = dask.dataframe.from_pandas(frame(data).dropna(), npartitions=23)
    assert fpisa.dask.sum(df.x).compute() == data.total
    assert fpisa.dask.accumulator(dask.bag.from_sequence([x for x in data.values if x is not None], npartitions=5)).compute().to_bytes() == \
        partial_of(data)


def test_ray(data):
    ray = pytest.importorskip("ray")
    import numpy

    import fpisa.ray
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {
        name: os.environ[name] for name in ("PYTHONPATH", "FPISA_SUMS")}})
    try:
        blocks = numpy.array_split(numpy.array([x for x in data.values if x is not None]), 19)
        assert ray.get(fpisa.ray.accumulator([ray.put(b) for b in blocks])).to_bytes() == partial_of(data)
    finally:
        ray.shutdown()


@pytest.fixture(scope="module")
def spark():
    pyspark = pytest.importorskip("pyspark")
    if not shutil.which("java"):
        pytest.skip("no java: apt install default-jre-headless")
    jar = os.path.join(BUILD, "spark", "fpisa-spark.jar")
    if shutil.which("javac"):
        subprocess.run(["make", "-C", TOP, f"B={BUILD}", "spark", "SPARK_JARS=" + os.path.join(os.path.dirname(pyspark.__file__), "jars")], check=True)
    from pyspark.sql import SparkSession
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config(
        "spark.jars", jar if os.path.exists(jar) else "").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def view(spark, data):
    spark.createDataFrame([(k, x) for k, x in data.rows], "k string, x double").repartition(7).createOrReplaceTempView("t")


def test_spark_without_session():
    """The module can be imported before a session exists, and then registers with the session."""
    pytest.importorskip("pyspark")
    subprocess.run([sys.executable, "-B", "-c", "import fpisa.spark"], check=True)


def test_spark(spark, data):
    import fpisa.spark
    fpisa.spark.register(spark)
    view(spark, data)
    assert dict(tuple(r) for r in spark.sql("SELECT k, fpisa_sum(x) FROM t GROUP BY k").collect()) == data.sums
    parts = spark.sql("SELECT fpisa_merge(p) FROM (SELECT fpisa_partial(x) p FROM t GROUP BY k)").collect()
    assert bytes(parts[0][0]) == partial_of(data)


def test_spark_jvm(spark, data):
    """The Aggregators of adapters/spark give the right sums without Python."""
    if not shutil.which("javac"):
        pytest.skip("no javac: apt install default-jdk-headless")
    program, = [p for p in programs() if "pyspark" in p]
    follow(program)
    view(spark, data)
    spark._jvm.io.fpisa.spark.Functions.register(spark._jsparkSession)
    assert dict(tuple(r) for r in spark.sql("SELECT k, fpisa_exact_sum(x) FROM t GROUP BY k").collect()) == data.sums
    assert spark.sql("SELECT fpisa_exact_sum(x) FROM t").collect()[0][0] == data.total
    parts = [bytes(r[0]) for r in spark.sql("SELECT fpisa_exact_partial(x) FROM t GROUP BY k").collect()]
    assert fpisa.merged(parts).to_bytes() == partial_of(data)
    assert bytes(spark.sql("SELECT fpisa_exact_partial(x) FROM t").collect()[0][0]) == partial_of(data)


def test_across(spark, data):
    """Partials made in Spark, Polars and pandas merge in DuckDB to the same bytes as one sum of all values."""
    import duckdb
    import polars as pl
    import pyarrow

    import fpisa.duckdb
    import fpisa.pandas  # noqa: F401
    import fpisa.polars  # noqa: F401
    import fpisa.spark
    third = len(data.rows) // 3
    rows = [data.rows[:third], data.rows[third:2 * third], data.rows[2 * third:]]
    fpisa.spark.register(spark)
    spark.createDataFrame(rows[0], "k string, x double").createOrReplaceTempView("part")
    made = [bytes(r[0]) for r in spark.sql("SELECT fpisa_partial(x) FROM part GROUP BY k").collect()]
    values = pl.DataFrame({"x": [x for _, x in rows[1]]}, schema={"x": pl.Float64})
    made.append(values.select(pl.col("x").fpisa.partial()).item())
    made.append(frame(data).x[2 * third:].fpisa.partial())
    parts = pyarrow.table({"p": pyarrow.array(made, pyarrow.binary())})  # noqa: F841
    got, = fpisa.duckdb.register(duckdb.connect()).execute("SELECT fpisa_merge(p) FROM parts").fetchone()
    assert got == partial_of(data)
    merged_by_postgres(made, data)


def merged_by_postgres(parts, data):
    """Merge the parts with fpisa_merge() of adapters/postgres, if the adapter is built."""
    import postgres
    if postgres.lacking():
        return
    server = postgres.Server()
    try:
        values = ", ".join(f"('\\x{p.hex()}'::bytea)" for p in parts)
        (merged, total), = server.sql("CREATE EXTENSION fpisa; SELECT fpisa_merge(p), fpisa_partial_sum(fpisa_merge(p)) "
                                      f"FROM (VALUES {values}) t(p)")
        assert merged == "\\x" + partial_of(data).hex() and float(total) == data.total
    finally:
        server.close()
