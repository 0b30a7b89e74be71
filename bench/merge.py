#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure the CPU time and the bytes at a master that merges partial sums of many workers.

    merge.py [--cases 8:100000,32:100000,8:1000000,32:1000000] [--rounds R]

A case is a number of workers and a number of groups. Each worker has a partial sum, of type real, for each group. The master
is a PostgreSQL server. The query returns the number of groups and the largest sum, so the answer is small. The contenders
take turns:

    fpisa	a foreign table (doc/fdw.md); the aggregator adds up all rows, and the master reads one row per group
    user	the same without pruning; the master's process adds up the partials in C
    postgres_fdw	foreign tables of aggregating views in a PostgreSQL on a worker's host, with 10,000 rows per fetch
    duckdb	DuckDB with one thread over the same partials, which were loaded before; no network

The output is a JSON line for each case and contender, with medians. `cpu_s` is the CPU time of the master's process, without
the time of its kernel in interrupts. `bytes` is what the master's host received. `ratio` is cpu_s divided by that of
postgres_fdw in the same round, with quartiles.
"""
import argparse
import array
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import common  # noqa: E402
import duckdb_query  # noqa: E402

import lab  # noqa: E402
import postgres  # noqa: E402
from queries import Queries  # noqa: E402

YARDSTICK = "postgres_fdw"
NOW = "SELECT extract(epoch FROM clock_timestamp()), split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)"
ASKED = "SELECT count(*), max(s) FROM (SELECT k, {}(x) AS s FROM {} GROUP BY k) q"
STEP = 7919  # prime, so that a worker's keys are in no particular order

IN_DUCKDB = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import duckdb, numpy
keys, values = (numpy.fromfile(sys.argv[2] + n, dtype=t) for n, t in (("/k", "<i4"), ("/x", "<f4")))
db = duckdb.connect(config={"threads": 1})
frame = {"k": keys, "x": values}
db.execute("CREATE TABLE t AS SELECT k, x FROM frame")
begun, cpu = time.monotonic(), time.process_time()
answer = db.execute("SELECT count(*), max(s) FROM (SELECT k, sum(x) AS s FROM t GROUP BY k) q").fetchone()
print(json.dumps([time.monotonic() - begun, time.process_time() - cpu, answer[0], answer[1]]))
"""


class Case:
    """The network, the workers' files, and both servers."""

    def __init__(self, workers, groups):
        self.workers, self.groups = workers, groups
        self.folder = tempfile.mkdtemp(prefix="fpisa-merge-")
        os.chmod(self.folder, 0o755)
        self.net = self.q = self.master = self.remote = None
        try:
            self.write()
            self.net = lab.Lab(workers=workers + 1)
            self.net.load()
            self.q = Queries(self.net, self.folder)
            self.q.directory = lambda rank: os.path.join(self.folder, str(rank))
            self.q.serve()
            self.q.add("table", 1 << (groups - 1).bit_length(), "--key-bytes", 4, number=1)
            with self.q.master.entered():
                self.master = postgres.Server(work_mem="1GB", hash_mem_multiplier="4", jit="off")
            self.foreign()
            with self.net.worker[0].entered():
                self.remote = postgres.Server(listen_addresses=self.net.addresses[0], work_mem="64MB", shared_buffers="512MB",
                                              max_connections="64", jit="off")
            self.views()
        except BaseException:
            self.close()
            raise

    def write(self):
        """Write a directory for each worker, and keep all values as two arrays."""
        rng = random.Random(1)
        all_keys, all_values = array.array("i"), array.array("f")
        for rank in range(self.workers):
            keys = array.array("i", (i * STEP % self.groups for i in range(rank, rank + self.groups)))
            values = array.array("f", (rng.random() for _ in keys))
            os.mkdir(os.path.join(self.folder, str(rank)))
            with open(os.path.join(self.folder, str(rank), "partials.schema"), "w") as f:
                f.write("k int32 not null\nx real not null\n")
            with open(os.path.join(self.folder, str(rank), "partials.tbl"), "w") as f:
                f.writelines(f"{k}|{x!r}|\n" for k, x in zip(keys, values))
            all_keys.extend(keys)
            all_values.extend(values)
        for name, values in (("k", all_keys), ("x", all_values)):
            with open(os.path.join(self.folder, name), "wb") as f:
                values.tofile(f)

    def foreign(self):
        with open(self.q.key) as f:
            key = [line for line in f.read().splitlines() if line and line[0] != "#"][-1]
        self.master.sql(f"""CREATE EXTENSION fpisa;
CREATE SERVER workers FOREIGN DATA WRAPPER fpisa OPTIONS (workers '{",".join(self.net.addresses[:-1])}', aggregator '{lab.ADDRESS}',
    queries 'table 1 limit 1048576 key-bytes 4', timeout '120');
CREATE USER MAPPING FOR CURRENT_USER SERVER workers OPTIONS (key '{key}');
IMPORT FOREIGN SCHEMA tables LIMIT TO (partials) FROM SERVER workers INTO public""")

    def views(self):
        """Load the rows of all workers into one server, because only the master is measured."""
        with open(self.remote.home + "/data/pg_hba.conf", "a") as f:
            f.write("host all all 10.99.0.0/16 trust\n")
        self.remote.sql("SELECT pg_reload_conf()")
        self.master.sql("CREATE EXTENSION postgres_fdw; CREATE TABLE parts (k integer NOT NULL, x real NOT NULL)")
        for rank in range(self.workers):
            self.remote.sql(f"""CREATE UNLOGGED TABLE t{rank} (k integer NOT NULL, x real NOT NULL);
COPY t{rank} FROM PROGRAM 'sed ''s/|$//'' {self.folder}/{rank}/partials.tbl' (DELIMITER '|');
CREATE VIEW v{rank} AS SELECT k, sum(x) AS x FROM t{rank} GROUP BY k""")
            self.master.sql(f"""CREATE SERVER s{rank} FOREIGN DATA WRAPPER postgres_fdw
    OPTIONS (host '{self.net.addresses[0]}', dbname 'postgres', fetch_size '10000', async_capable 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER s{rank} OPTIONS (user 'postgres');
CREATE FOREIGN TABLE p{rank} () INHERITS (parts) SERVER s{rank} OPTIONS (table_name 'v{rank}')""")
        self.remote.sql("VACUUM ANALYZE")

    def received(self):
        lines = self.q.master.run("cat", "/proc/net/dev").splitlines()
        return int(next(line for line in lines if "eth0:" in line).split(":")[1].split()[0])

    def ask(self, settings, aggregate, table):
        """Run a query. Return the time in seconds, the CPU time in seconds, and the number of bytes."""
        before = self.received()
        begun, *answer, ended = self.master.sql(f"{settings} SET enable_sort = off; {NOW}; {ASKED.format(aggregate, table)}; {NOW}")
        if int(answer[0][0]) != self.groups:
            raise postgres.Failed(f"the answer has {answer[0][0]} keys instead of {self.groups}; please report this bug")
        return float(ended[0]) - float(begun[0]), (int(ended[1]) - int(begun[1])) / 1e9, self.received() - before

    def duckdb(self, place):
        said = subprocess.run(["/usr/bin/python3", "-c", IN_DUCKDB, place, self.folder], capture_output=True, text=True, check=True)
        seconds, cpu, groups, _ = json.loads(said.stdout)
        if groups != self.groups:
            raise postgres.Failed(f"duckdb: the answer has {groups} keys instead of {self.groups}; please report this bug")
        return seconds, cpu, 0

    def close(self):
        if self.net:
            self.net.agg.try_run(lab.FPISA, "unload")
        for what in (self.master, self.remote, self.q, self.net):
            if what:
                what.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(case, rounds, duckdb):
    ways = {"fpisa": lambda: case.ask("SET fpisa.pruning = network;", "fpisa_sum", "partials"),
            "user": lambda: case.ask("SET fpisa.pruning = none;", "fpisa_sum", "partials"),
            YARDSTICK: lambda: case.ask("", "sum", "parts")}
    if duckdb:
        ways["duckdb"] = lambda: case.duckdb(duckdb)
    found = []
    for i in range(rounds):
        found.append({way: ways[way]() for way in list(ways)[:: -1 if i % 2 else 1]})
    for way in ways:
        line = {"bench": "merge", "contender": way, "workers": case.workers, "groups": case.groups, "rounds": rounds}
        for n, name in enumerate(("seconds", "cpu_s", "bytes")):
            line[name] = round(statistics.median(f[way][n] for f in found), 4)
        ratio = [f[way][1] / f[YARDSTICK][1] for f in found]
        line["ratio"] = round(statistics.median(ratio), 4)
        line["ratio_quartiles"] = [round(q, 4) for q in common.quartiles(ratio)]
        print(json.dumps(line), flush=True)


def main():
    p = argparse.ArgumentParser(prog="merge", description=__doc__.splitlines()[0])
    p.add_argument("--cases", default="8:100000,32:100000,8:1000000,32:1000000", metavar="WORKERS:GROUPS,...")
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    common.exit_on_signals()
    why = postgres.lacking()
    if why:
        sys.exit(f"merge: {why}")
    common.own_mounts()
    duckdb = duckdb_query.installed()
    for workers, groups in (map(int, case.split(":")) for case in args.cases.split(",")):
        case = Case(workers, groups)
        try:
            measure(case, args.rounds, duckdb)
        finally:
            case.close()


if __name__ == "__main__":
    main()
