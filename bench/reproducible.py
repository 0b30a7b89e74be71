#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Count the different sums of one column that engines return for the same rows.

    reproducible.py [--rows N] [--runs R] [--partitions 1,2,4,8,16,32] [--only ENGINE,...]

The rows are those of uservisits (doc/query-data.md), as Parquet files, one for each partition. Each engine runs the sum of
adRevenue, without keys and by languageCode, R times for each number of partitions. The column is read as double, from its nine
digits, and as real. The engines are those in BUILD/doors, which `make doors` installs:

    spark	two executors of one core, a task for each file
    duckdb	a thread for each file
    polars	as many threads as CPUs
    postgresql	a process for each partition, over a table
    fpisa_sum	the same in PostgreSQL with the aggregate fpisa_sum() (doc/postgres.md)
    fpisa.sum	the package for Python (doc/sums.md); partials of the files are merged in random order

The output is a JSON line for each engine and type. `sums` has the number of different sums for each number of partitions,
and `all` over all runs. `keys_differ` is the number of keys with several sums. An engine that is missing is left out, and the
reason is on stderr.

    reproducible.py --table RESULTS.jsonl      # the table of doc/sums.md
"""
import argparse
import contextlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import common  # noqa: E402
import sums  # noqa: E402

import lab  # noqa: E402
import postgres  # noqa: E402

TYPES = {"double": "d", "real": "r"}


class Missing(Exception):
    """The reason why an engine cannot run here"""


class Rows:
    """The rows as a table of Arrow, as files[n], the paths of n Parquet files, and as a CSV file."""

    def __init__(self, folder, rows, partitions):
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
        subprocess.run([lab.FPISA, "query", "data", folder, "--visits", str(rows), "--workers", "1"], check=True, stdout=subprocess.DEVNULL)
        wanted = pyarrow.csv.ConvertOptions(include_columns=["languageCode", "adRevenue"],
                                            column_types={"languageCode": "string", "adRevenue": "double"})
        read = pyarrow.csv.read_csv(os.path.join(folder, "0", "uservisits.csv"), convert_options=wanted)
        x = read["adRevenue"]
        self.table = pyarrow.table({"k": read["languageCode"], "d": x, "r": x.cast("float")})
        self.csv = os.path.join(folder, "rows.csv")
        pyarrow.csv.write_csv(self.table, self.csv)
        self.files = {}
        for n in partitions:
            self.files[n] = [os.path.join(folder, f"{n}-{i}.parquet") for i in range(n)]
            for i, path in enumerate(self.files[n]):
                first, end = i * rows // n, (i + 1) * rows // n
                pyarrow.parquet.write_table(self.table.slice(first, end - first), path, row_group_size=100000)


# -- engines -----------------------------------------------------------------------
# A context of each engine gives its version and a function of a number of partitions, a column and whether the sum is by key. The
# function returns {key: sum}. The key of a sum without keys is None.

def question(column, keyed, aggregate="sum"):
    return f"SELECT k, {aggregate}({column}) AS s FROM t GROUP BY k" if keyed else f"SELECT NULL AS k, {aggregate}({column}) AS s FROM t"


@contextlib.contextmanager
def spark(rows):
    if not shutil.which("java"):
        raise Missing("java is not installed; run apt install default-jre-headless")
    import pyspark
    from pyspark.sql import SparkSession
    home = os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    whole = str(1 << 30)  # a file is neither split nor put together with another one
    session = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").config(
        "spark.ui.showConsoleProgress", "false").config(
        "spark.sql.files.maxPartitionBytes", whole).config("spark.sql.files.openCostInBytes", whole).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")

    def ask(n, column, keyed):
        session.read.parquet(*rows.files[n]).createOrReplaceTempView("t")
        return dict(map(tuple, session.sql(question(column, keyed)).collect()))

    try:
        yield pyspark.__version__, ask
    finally:
        session.stop()
        shutil.rmtree(os.path.join(home, "work"), ignore_errors=True)  # the executors' logs


@contextlib.contextmanager
def duckdb(rows):
    import duckdb
    db = duckdb.connect()

    def ask(n, column, keyed):
        db.execute(f"SET threads = {n}; CREATE OR REPLACE VIEW t AS SELECT * FROM read_parquet({rows.files[n]!r})")
        return dict(db.execute(question(column, keyed)).fetchall())

    yield duckdb.__version__, ask


@contextlib.contextmanager
def polars(rows):
    import polars

    def ask(n, column, keyed):
        return dict(polars.SQLContext(t=polars.scan_parquet(rows.files[n])).execute(question(column, keyed), eager=True).rows())

    yield polars.__version__, ask


@contextlib.contextmanager
def postgresql(rows, aggregate="sum"):
    if postgres.lacking():
        raise Missing(postgres.lacking())
    most = max(rows.files)
    server = postgres.Server(jit="off", max_worker_processes=str(most), max_parallel_workers=str(most), parallel_setup_cost="0",
                             parallel_tuple_cost="0")

    def ask(n, column, keyed):
        found = server.sql(f"ALTER TABLE t SET (parallel_workers = {n - 1}); SET max_parallel_workers_per_gather = {n - 1}; "
                           + question(column, keyed, aggregate))
        return {k or None: float(s) for k, s in found}

    try:
        server.sql(f"CREATE EXTENSION fpisa; CREATE UNLOGGED TABLE t (k text, d double precision, r real); "
                   f"COPY t FROM '{rows.csv}' (FORMAT csv, HEADER); ANALYZE t")
        yield server.sql("SHOW server_version")[0][0].split()[0], ask
    finally:
        server.close()


def fpisa_sum(rows):
    return postgresql(rows, "fpisa_sum")


@contextlib.contextmanager
def fpisa_python(rows):
    import fpisa
    import pyarrow
    import pyarrow.parquet

    def ask(n, column, keyed):
        tables = [pyarrow.parquet.read_table(path, columns=["k", column]) for path in rows.files[n]]
        random.shuffle(tables)
        if keyed:
            table = pyarrow.concat_tables(tables)
            return dict(zip(*fpisa.sum(table[column], by=table["k"])))
        return {None: fpisa.merged([fpisa.Accumulator(t[column]).to_bytes() for t in tables]).value()}

    yield "", ask


ENGINES = {"spark": spark, "duckdb": duckdb, "polars": polars, "postgresql": postgresql, "fpisa_sum": fpisa_sum, "fpisa.sum": fpisa_python}


# -- counts ------------------------------------------------------------------------

def count(ask, column, partitions, runs):
    """Return the different sums of all rows for each number of partitions, and the different sums of each key."""
    totals, by_key = {}, {}
    for n in partitions:
        totals[n] = set()
        for _ in range(runs):
            totals[n].add(ask(n, column, False)[None])
            for key, value in ask(n, column, True).items():
                by_key.setdefault(key, set()).add(value)
    return totals, by_key


def measure(args, rows, name):
    """Yield a line for each type of the column."""
    with ENGINES[name](rows) as (version, ask):
        for kind, column in TYPES.items():
            totals, by_key = count(ask, column, args.partitions, args.runs)
            together = set().union(*totals.values())
            exact = math.fsum(rows.table[column].to_pylist())
            yield {"engine": name, "version": version, "type": kind, "rows": args.rows, "runs": args.runs,
                   "sums": {n: len(values) for n, values in totals.items()}, "all": len(together), "keys": len(by_key),
                   "keys_differ": sum(len(values) > 1 for values in by_key.values()), "least": min(together), "greatest": max(together), "exact": exact}


def tables(results):
    """Return the tables of doc/sums.md, or nothing if there are no results of this part."""
    out = []
    for kind in TYPES:
        lines = [x for x in results if x["bench"] == "reproducible" and x["type"] == kind]
        if lines:
            partitions = [int(n) for n in lines[0]["sums"]]
            out += [f"Different sums of {lines[0]['rows']:,} values of type {kind}, {lines[0]['runs']} runs for each number of partitions, exact "
                    f"{lines[0]['exact']!r}:", "", f"| engine | {' | '.join(map(str, partitions))} | all | keys with several sums | least | greatest |",
                    "|---" * (len(partitions) + 5) + "|"]
            out += [f"| {x['engine']} {x['version']}".rstrip() + f" | {' | '.join(map(str, x['sums'].values()))} | {x['all']} | "
                    f"{x['keys_differ']} of {x['keys']} | {x['least']!r} | {x['greatest']!r} |" for x in lines] + [""]
    return "\n".join([*out, ""]) if out else ""


def main():
    p = argparse.ArgumentParser(prog="reproducible", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=3000000)
    p.add_argument("--runs", type=int, default=10)
    p.add_argument("--partitions", type=common.numbers, default=[1, 2, 4, 8, 16, 32])
    p.add_argument("--only", default=",".join(ENGINES), help="engines, separated by commas; default all")
    p.add_argument("--table", metavar="RESULTS.jsonl", help="print the table of doc/sums.md of an earlier run's results")
    args = p.parse_args()
    if args.table:
        with open(args.table) as f:
            print(tables([json.loads(line) for line in f]), end="")
        return
    if not set(args.only.split(",")) <= set(ENGINES):
        p.error(f"--only: the engines are {', '.join(ENGINES)}")
    common.exit_on_signals()
    sums.enter()
    with tempfile.TemporaryDirectory(prefix="fpisa-reproducible-") as folder:
        os.chmod(folder, 0o755)  # PostgreSQL's server also reads the files
        try:
            rows = Rows(folder, args.rows, args.partitions)
        except ImportError as e:
            sys.exit(f"reproducible: {e.name} is not installed in {sums.BUILD}/doors; run make doors")
        for name in args.only.split(","):
            try:
                for line in measure(args, rows, name):
                    print(json.dumps({"bench": "reproducible", **line}), flush=True)
            except (ImportError, Missing) as e:
                print(f"reproducible: {name}: left out: {e}", file=sys.stderr)


if __name__ == "__main__":
    main()
