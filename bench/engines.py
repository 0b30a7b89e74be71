#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure CPU time, time and bytes of queries in Spark, DuckDB, PostgreSQL and here, over the same rows at the same workers.

    engines.py [--rows N] [--scale S] [--workers 2,4] [--rates 100,1000,0] [--runs R] [--only SYSTEM,...]

The queries are those of query_demo.py, and TPC-H 1 and 6. The network is also that of query_demo.py. A rate limits each link, in
Mbit/s, and 0 does not. Each worker has a part of each table as a Parquet file. The systems run one after the other:

    query	`fpisa query run`, for the queries that it can express; DuckDB of BUILD/doors reads the Parquet files
    postgres	at the master, foreign tables of the wrapper (doc/fdw.md), and of postgres_fdw over a server at each worker,
    	which has loaded the rows before
    duckdb	a process at the master, which reads the files of all workers without a network
    spark	standalone: the master and the driver at the master, and an executor of one core at each worker

Spark and DuckDB come from BUILD/doors, which `make doors` installs. A missing system is left out, and the reason is on stderr.
The output is a JSON line for each way and query. `cpu_s` is the CPU time of all processes, `seconds` the time, and `bytes` what
the master's host received, each the median of R runs. `first_cpu_s` and `first_s` are those of the run before. All answers
are compared.

    engines.py --tables RESULTS.jsonl      # the tables of bench/README.md
"""
import argparse
import contextlib
import glob
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import common  # noqa: E402
import duckdb_query  # noqa: E402
import query_demo as demo  # noqa: E402

import lab  # noqa: E402
import postgres  # noqa: E402

DOORS = os.path.join(lab.BUILD, "doors")
PYTHON = os.path.join(DOORS, "bin", "python3")
# Bounds between two of the column's values, so that l_discount has the same rows as real and as decimal.
Q6 = """SELECT fpisa_sum(l_extendedprice * l_discount) FROM {0}.lineitem WHERE l_shipdate >= date '1994-01-01'
    AND l_shipdate < date '1995-01-01' AND l_discount > 0.045 AND l_discount < 0.075 AND l_quantity < 24"""
Q1 = """SELECT l_returnflag, l_linestatus, fpisa_sum(l_quantity), fpisa_sum(l_extendedprice), fpisa_sum(l_extendedprice * (1 - l_discount)),
    fpisa_sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), fpisa_avg(l_quantity), fpisa_avg(l_extendedprice), fpisa_avg(l_discount), count(*)
    FROM {0}.lineitem WHERE l_shipdate <= date '1998-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus"""
QUERIES = {**{name: text for name, (_, text) in demo.QUERIES.items() if name != "tpch_q20"}, "tpch_q1": Q1, "tpch_q6": Q6}
# The queries of `fpisa query run`: its query at the aggregator, its options, and the columns of the answer.
COMMANDS = {
    "top_n": (1, ("--value", "adRevenue", "--limit", 250, "--columns", "adRevenue"), ("adRevenue",)),
    "group_by_having": (2, ("--by", "userAgent", "--value", "adRevenue", "--having", "max>0.5"), ("userAgent", "max", "min")),
    "group_by_sum": (2, ("--by", "languageCode", "--value", "adRevenue"), ("languageCode", "sum")),
}
PREAGGREGATE = "SET fpisa.preaggregate = on;"
WRAPPER = {"network": demo.WAYS["on"], "network, preaggregate": demo.WAYS["on"] + PREAGGREGATE, "workers": demo.WAYS["workers"]}
START_S = 120
NEAR = 1e-3  # PostgreSQL's sum(real) adds reals, and rounds each time

# Answer each line of stdin, a statement, by a line with the rows.
ANSWERING = """
import json, sys
{0}
for line in sys.stdin:
    rows = answer(json.loads(line))
    print(json.dumps([["" if v is None else str(v) for v in row] for row in rows]), flush=True)
"""
IN_DUCKDB = """import duckdb
db = duckdb.connect()
db.execute("SET enable_progress_bar = false")
answer = lambda statement: db.execute(statement).fetchall()"""
IN_SPARK = """from pyspark.sql import SparkSession
session = SparkSession.builder.master("spark://" + sys.argv[1] + ":7077").config("spark.ui.enabled", "false").config(
    "spark.driver.host", sys.argv[1]).config("spark.driver.bindAddress", sys.argv[1]).config("spark.executor.memory", "1g").config(
    "spark.sql.shuffle.partitions", "4").getOrCreate()
answer = lambda statement: session.sql(statement).collect()"""


class Missing(Exception):
    """The reason why a system cannot run here"""


class Cpu:
    """A control group of this process and of all processes that it starts, which counts their CPU time"""

    def __init__(self):
        self.old = os.path.exists("/sys/fs/cgroup/cpuacct/cpuacct.usage")  # version 1
        self.root = "/sys/fs/cgroup/cpuacct" if self.old else "/sys/fs/cgroup"
        self.place = f"{self.root}/fpisa-bench-{os.getpid()}"
        os.mkdir(self.place)
        self.enter(self.place)

    def enter(self, place):
        with open(place + "/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))

    def seconds(self):
        with open(self.place + ("/cpuacct.usage" if self.old else "/cpu.stat")) as f:
            said = f.read().split()
        return int(said[0]) / 1e9 if self.old else int(said[said.index("usage_usec") + 1]) / 1e6

    def alone(self):
        with open(self.place + "/cgroup.procs") as f:
            return f.read().split() == [str(os.getpid())]

    def close(self):
        lab.wait_until("the end of all processes", self.alone, timeout_s=60)
        self.enter(self.root)
        os.rmdir(self.place)


class Case:
    """A network, the workers' files in CSV and in Parquet, and the workers of queries"""

    def __init__(self, args, folder, workers, mbit):
        self.args = argparse.Namespace(rows=args.rows, scale=args.scale, workers=workers, mbit=mbit, seed=1)
        self.folder = os.path.join(folder, str(workers))
        self.parquet = os.path.join(self.folder, "parquet")
        self.tables = ["uservisits", *(demo.TPCH if args.scale else ())]
        made = os.path.exists(self.parquet)
        os.makedirs(self.parquet, exist_ok=True)
        self.net, self.q = demo.make_network(self.args, self.parquet)
        self.master = self.q.master
        self.address = self.net.addresses[-1]
        try:
            if not made:
                self.make_files()
        except BaseException:
            self.close()
            raise

    def make_files(self):
        demo.make_data(self.args, self.folder)
        with contextlib.closing(Answers(self.master, IN_DUCKDB)) as db:
            for rank in range(self.args.workers):
                place = os.path.join(self.parquet, str(rank))
                for table in self.tables:
                    shutil.copy(os.path.join(self.folder, str(rank), table + ".schema"), place)
                    db.ask(f"COPY ({duckdb_query.reading(self.folder, [rank], table)}) TO '{place}/{table}.parquet' (FORMAT parquet)")

    def files(self, table):
        return f"{self.parquet}/*/{table}.parquet"

    def received(self):
        with self.master.entered(), open("/proc/thread-self/net/dev") as f:
            return int(next(line for line in f if "eth0:" in line).split(":")[1].split()[0])

    def close(self):
        self.q.close()
        self.net.agg.try_run(lab.FPISA, "unload")
        self.net.close()
        os.unlink(self.q.key)


class Answers:
    """A process of the interpreter in BUILD/doors that answers statements"""

    def __init__(self, space, program, *argv, **options):
        self.p = space.spawn(PYTHON, "-c", ANSWERING.format(program), *argv, stdin=subprocess.PIPE, **{"stderr": None, **options})

    def ask(self, statement):
        self.p.stdin.write(json.dumps(statement) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise postgres.Failed(f"no answer to {statement}")
        return [tuple(row) for row in json.loads(line)]

    def close(self):
        self.p.stdin.close()
        self.p.wait(START_S)


def plain(statement):
    """Return a statement for an engine without schemas, with its own sums."""
    return statement.replace("{0}.", "").replace("fpisa_", "")


# -- systems -----------------------------------------------------------------------
# A context of each system gives {way: function of a query's name}. The function returns the answer as texts, or None if the
# way does not have the query.

@contextlib.contextmanager
def query(case):
    def run(name, *options):
        if name not in COMMANDS or "--preaggregate" in options and name == "top_n":
            return None
        number, question, columns = COMMANDS[name]
        port = demo.PORT + number
        said = json.loads(case.master.run(*case.q.argv("--json", *question, *options, "--local-port", port, "--worker-port", port, "--timeout", 60,
                                                       table="uservisits", number=number)))
        names = [c["name"] if isinstance(c, dict) else c for c in said["columns"]]  # rows have types, too
        places = [names.index(c) for c in columns]
        return [tuple(str(row[i]) for i in places) for row in said["rows"]]

    ways = {"network": (), "network, preaggregate": ("--preaggregate",), "workers": ("--prune", "workers")}
    yield {f"query run, {way}": lambda name, options=options: run(name, *options) for way, options in ways.items()}


def remote_server(case, rank):
    """Start a server at a worker, and load the worker's rows."""
    with case.net.worker[rank].entered():
        server = postgres.Server(listen_addresses=case.net.addresses[rank], shared_buffers="512MB", work_mem="64MB", timezone="UTC", jit="off")
    with open(server.home + "/data/pg_hba.conf", "a") as f:
        f.write("host all all 10.99.0.0/16 trust\n")
    server.sql("SELECT pg_reload_conf(); CREATE SCHEMA near")
    for table in case.tables:
        columns = ", ".join(f"{c} {'real' if t == 'FLOAT' else t}" for c, t in duckdb_query.columns(case.folder, table).items())
        server.sql(f"CREATE UNLOGGED TABLE near.{table} ({columns})")
        demo.copy_rows(server, table, case.folder, rank)
    server.sql("VACUUM ANALYZE")
    return server


def add_parts(case, server, rank):
    """Make a worker's tables children of those in schema `parts`."""
    server.sql(f"""CREATE SERVER s{rank} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{case.net.addresses[rank]}', dbname 'postgres',
    fetch_size '10000', async_capable 'true', use_remote_estimate 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER s{rank} OPTIONS (user 'postgres')""")
    for table in case.tables:
        server.sql(f"CREATE FOREIGN TABLE parts.{table}_{rank} () INHERITS (parts.{table}) SERVER s{rank} "
                   f"OPTIONS (schema_name 'near', table_name '{table}')")


@contextlib.contextmanager
def postgresql(case):
    if postgres.lacking():
        raise Missing(postgres.lacking())
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(demo.make_server(case.args, case.net, case.q)))
        demo.load(server, case.tables, case.folder, case.args.workers)
        server.sql("CREATE EXTENSION postgres_fdw; CREATE SCHEMA parts")
        for table in case.tables:
            server.sql(f"CREATE TABLE parts.{table} (LIKE near.{table})")
        for rank in range(case.args.workers):
            stack.enter_context(contextlib.closing(remote_server(case, rank)))
            add_parts(case, server, rank)

        def run(name, settings, schema):
            statement = QUERIES[name].replace("{0}", schema)
            return server.sql(f"{settings} {statement if schema == 'far' else plain(statement)}")

        yield {**{f"wrapper, {way}": lambda name, settings=settings: run(name, settings, "far") for way, settings in WRAPPER.items()},
               "postgres_fdw": lambda name: run(name, "", "parts")}


@contextlib.contextmanager
def duckdb(case):
    with contextlib.closing(Answers(case.master, IN_DUCKDB)) as db:
        for table in case.tables:
            db.ask(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{case.files(table)}')")
        yield {"duckdb, one machine": lambda name: db.ask(plain(QUERIES[name]))}


def spark_home():
    """Return the folder of Spark in BUILD/doors."""
    found = glob.glob(os.path.join(DOORS, "lib", "python*", "site-packages", "pyspark"))
    if not found or not shutil.which("java"):
        raise Missing(f"pyspark is not installed in {DOORS}; run make doors" if not found else
                      "java is not installed; run apt install default-jre-headless")
    return found[0]


class Daemons:
    """Spark's master and workers, without the driver"""

    def __init__(self, case, home, place):
        self.case, self.started = case, []
        self.log = open(os.path.join(place, "log"), "w")
        self.env = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_DIRS": place, "PYSPARK_PYTHON": PYTHON}
        self.start(case.master, case.address, "master.Master", "--port", "7077")
        lab.wait_until("Spark's master", self.listens, timeout_s=START_S)
        for rank, address in enumerate(case.net.addresses[:-1]):
            self.start(case.net.worker[rank], address, "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir",
                       os.path.join(place, str(rank)), f"spark://{case.address}:7077")

    def start(self, space, address, what, *argv):
        self.started.append(space.spawn(os.path.join(self.env["SPARK_HOME"], "bin", "spark-class"), "org.apache.spark.deploy." + what, "--host",
                                        address, "--webui-port", "0", *argv, env={**self.env, "SPARK_LOCAL_IP": address}, stdout=self.log,
                                        stderr=self.log))

    def listens(self):
        with self.case.master.entered(), socket.socket() as s:
            return not s.connect_ex((self.case.address, 7077))

    def close(self):
        for p in self.started:
            p.terminate()
            p.wait(START_S)
        self.log.close()


@contextlib.contextmanager
def spark(case):
    place = tempfile.mkdtemp(prefix="spark-", dir=case.folder)
    with contextlib.closing(Daemons(case, spark_home(), place)) as daemons, \
            contextlib.closing(Answers(case.master, IN_SPARK, case.address, stderr=daemons.log,
                                       env={**daemons.env, "SPARK_LOCAL_IP": case.address})) as driver:
        for table in case.tables:
            driver.ask(f"CREATE TEMPORARY VIEW {table} USING parquet OPTIONS (path '{case.files(table)}')")
        yield {"spark": lambda name: driver.ask(plain(QUERIES[name]))}


SYSTEMS = {"query": query, "postgres": postgresql, "duckdb": duckdb, "spark": spark}


# -- figures -----------------------------------------------------------------------

def once(case, cpu, ask, name):
    """Run a query. Return its answer, and (CPU seconds, seconds, bytes)."""
    before = cpu.seconds(), time.monotonic(), case.received()
    answer = ask(name)
    return answer, (cpu.seconds() - before[0], time.monotonic() - before[1], case.received() - before[2])


def measure(case, cpu, system, runs, answers):
    """Yield a line for each way of the system and each query. `answers` has the first answer to each query."""
    with SYSTEMS[system](case) as ways:
        for way, ask in ways.items():
            for name in QUERIES:
                if name.startswith("tpch") and not case.args.scale:
                    continue
                figures = []
                for _ in range(1 + runs):
                    answer, taken = once(case, cpu, ask, name)
                    if answer is None:
                        break
                    if not duckdb_query.same(answers.setdefault(name, answer), answer, "ORDER BY" in QUERIES[name], NEAR):
                        raise postgres.Failed(f"{way}: {name}: the answer differs from the first one; please report this bug")
                    figures.append(taken)
                if figures:
                    first, cpu_s, seconds, received = figures[0], *(statistics.median(f) for f in zip(*figures[1:]))
                    yield {"way": way, "query": name, "workers": case.args.workers, "mbit": case.args.mbit, "rows": case.args.rows,
                           "scale": case.args.scale, "runs": runs, "cpu_s": round(cpu_s, 3), "seconds": round(seconds, 3),
                           "bytes": int(received), "first_cpu_s": round(first[0], 3), "first_s": round(first[1], 3)}


def table(lines, cell):
    """Return a Markdown table with a row for each way and a column for each query."""
    found = {(x["way"], x["query"]): cell(x) for x in lines}
    queries = [q for q in QUERIES if any(query == q for _, query in found)]
    out = [f"| way | {' | '.join(queries)} |", "|---" * (len(queries) + 1) + "|"]
    return "\n".join(out + [f"| {way} | " + " | ".join(found.get((way, q), "-") for q in queries) + " |" for way in dict.fromkeys(w for w, _ in found)])


def tables(results):
    """Return the tables of bench/README.md, or nothing if there are no results of this part."""
    lines, out = [x for x in results if x["bench"] == "engines"], []
    for workers, mbit in dict.fromkeys((x["workers"], x["mbit"]) for x in lines):
        case = [x for x in lines if (x["workers"], x["mbit"]) == (workers, mbit)]
        where = f"{workers} workers, {f'{mbit} Mbit/s' if mbit else 'links not shaped'}"
        out += [f"{where}: CPU time in s; time in s; MB that the master received", "",
                table(case, lambda x: f"{x['cpu_s']:.2f}; {x['seconds']:.2f}; {x['bytes'] / 1e6:.2f}"), "",
                f"{where}, the first run: CPU time in s; time in s", "",
                table(case, lambda x: f"{x['first_cpu_s']:.2f}; {x['first_s']:.2f}"), ""]
    return "\n".join([*out, ""]) if out else ""


def parse():
    p = argparse.ArgumentParser(prog="engines", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=3000000, help="rows of uservisits, over all workers")
    p.add_argument("--scale", default="0.1", help="scale of TPC-H; 0 leaves TPC-H out")
    p.add_argument("--workers", type=common.numbers, default=[2, 4])
    p.add_argument("--rates", type=common.numbers, default=[100, 1000, 0], help="Mbit/s of each link; 0 is not limited")
    p.add_argument("--runs", type=int, default=3, help="runs of each query after the first one")
    p.add_argument("--only", default=",".join(SYSTEMS), help="systems, separated by commas; default all")
    p.add_argument("--tables", metavar="RESULTS.jsonl", help="print the tables of bench/README.md of an earlier run's results")
    args = p.parse_args()
    args.scale = None if float(args.scale) == 0 else args.scale
    if not set(args.only.split(",")) <= set(SYSTEMS):
        p.error(f"--only: the systems are {', '.join(SYSTEMS)}")
    return args


def run(args, cpu, folder):
    for workers in args.workers:
        answers = {}
        for mbit in args.rates:
            with contextlib.closing(Case(args, folder, workers, mbit)) as case:
                for system in args.only.split(","):
                    try:
                        for line in measure(case, cpu, system, args.runs, answers):
                            print(json.dumps({"bench": "engines", **line}), flush=True)
                    except Missing as e:
                        print(f"engines: {system}: left out: {e}", file=sys.stderr)


def main():
    args = parse()
    if args.tables:
        with open(args.tables) as f:
            print(tables([json.loads(line) for line in f]), end="")
        return
    common.exit_on_signals()
    library = glob.glob(os.path.join(DOORS, "lib", "python*", "site-packages", "_duckdb*.so"))
    if not library:
        sys.exit(f"engines: duckdb is not installed in {DOORS}; run make doors")
    os.environ["FPISA_DRIVER"] = library[0]
    folder = tempfile.mkdtemp(prefix="fpisa-engines-")
    os.chmod(folder, 0o755)  # PostgreSQL's servers also read the files
    try:
        with contextlib.closing(Cpu()) as cpu:
            common.own_mounts()
            run(args, cpu, folder)
    except (AssertionError, postgres.Failed, subprocess.SubprocessError) as e:
        sys.exit(f"engines: {e}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
