#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compare fpisa_sum() with sum() in PostgreSQL, on the same values as real, double precision and numeric.

    sum.py [--rows N] [--rounds R] [--workers W] [--data uniform|wide] [--jit on|off]

A separate server has a table for each type in its buffers, with a value and two keys in each row. Each round runs each query
once in one process, and once with W parallel workers. The queries sum the whole table, or 1,000 or 1,000,000 groups. EXPLAIN
ANALYZE reports the total time and discards the rows. The output is a JSON line for each query:

    seconds	medians and quartiles
    ns_per_row	the same per row
    ratio	to sum(float8) in the same round: medians and quartiles
    memory_kb	size of the largest hash table of a process, for groups

With --data uniform, values are from 0 to 1000, like prices. With --data wide, values have either sign and span 60 powers of
ten.
"""
import argparse
import json
import statistics
import sys

sys.dont_write_bytecode = True

from common import exit_on_signals, quartiles  # noqa: E402

import postgres  # noqa: E402

AGGREGATES = {"sum(real)": "real", "sum(float8)": "float8", "sum(numeric)": "numeric", "fpisa_sum(real)": "real",
              "fpisa_sum(float8)": "float8"}
YARDSTICK = "sum(float8)"
GROUPS = {1: "", 1000: " GROUP BY g", 1000000: " GROUP BY h"}
DATA = {"uniform": "random() * 1000", "wide": "(random() - 0.5) * 10::float8 ^ (random() * 60 - 30)"}
PLAN_OF = """CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON, ANALYZE, TIMING off) ' || query INTO plan;
    RETURN translate(plan::text, E'\\n', '');
END $$;
"""


def fill(server, args):
    """Create and fill a table for each type, and load the tables into buffers."""
    server.sql(f"""CREATE EXTENSION fpisa; CREATE EXTENSION pg_prewarm; {PLAN_OF}
SELECT setseed(0.5);
CREATE UNLOGGED TABLE t_float8 AS SELECT x::real::float8 x, (random() * 999)::int g, (random() * 999999)::int h
    FROM (SELECT {DATA[args.data]} x FROM generate_series(1, {args.rows})) s;
CREATE UNLOGGED TABLE t_real AS SELECT x::real x, g, h FROM t_float8;
CREATE UNLOGGED TABLE t_numeric AS SELECT x::numeric x, g, h FROM t_float8;
VACUUM ANALYZE;
SELECT pg_prewarm(t::regclass) FROM (VALUES ('t_real'), ('t_float8'), ('t_numeric')) v(t);""")


def walk(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from walk(below)


def measure(server, args, aggregate, groups, workers):
    """Run a query. Return the time in seconds, the size of the largest hash table in KB, and the number of workers."""
    query = f"SELECT {aggregate.split('(')[0]}(x) FROM t_{AGGREGATES[aggregate]}{GROUPS[groups]}"
    plan = json.loads("|".join(server.sql(
        f"""SET work_mem = '1GB'; SET jit = {args.jit}; SET max_parallel_workers_per_gather = {workers};
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT plan_of('{query}');""")[0]))[0]
    nodes = list(walk(plan["Plan"]))
    return (plan["Execution Time"] / 1e3, max(n.get("Peak Memory Usage", 0) for n in nodes),
            max(n.get("Workers Launched", 0) for n in nodes))


def compare(server, args, groups, workers):
    rounds = []
    for i in range(args.rounds):
        order = list(AGGREGATES)[:: -1 if i % 2 else 1]
        rounds.append({a: measure(server, args, a, groups, workers) for a in order})
    for a in AGGREGATES:
        seconds = [r[a][0] for r in rounds]
        ratio = [r[a][0] / r[YARDSTICK][0] for r in rounds]
        line = {"bench": "sum", "aggregate": a, "groups": groups, "workers": max(r[a][2] for r in rounds), "rows": args.rows,
                "data": args.data, "jit": args.jit, "rounds": args.rounds, "memory_kb": max(r[a][1] for r in rounds)}
        for name, values, digits in (("seconds", seconds, 4), ("ns_per_row", [s * 1e9 / args.rows for s in seconds], 1),
                                     ("ratio", ratio, 3)):
            line[name] = round(statistics.median(values), digits)
            line[name + "_quartiles"] = [round(q, digits) for q in quartiles(values)]
        print(json.dumps(line), flush=True)


def main():
    p = argparse.ArgumentParser(prog="sum", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=10000000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--workers", type=int, default=2, help="workers of a parallel query, in addition to the leader")
    p.add_argument("--data", choices=DATA, default="uniform")
    p.add_argument("--jit", choices=("on", "off"), default="on", help="on is PostgreSQL's default")
    args = p.parse_args()
    exit_on_signals()
    why = postgres.lacking()
    if why:
        sys.exit(f"sum: {why}")
    server = postgres.Server(shared_buffers=f"{max(256, args.rows // 5000)}MB", max_parallel_workers=max(8, args.workers),
                             max_worker_processes=max(8, args.workers))
    try:
        fill(server, args)
        for groups in GROUPS:
            for workers in (0, args.workers):
                compare(server, args, groups, workers)
    finally:
        server.close()


if __name__ == "__main__":
    main()
