#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run the paper's five queries in PostgreSQL over workers whose rows pass an aggregator.

The network consists of namespaces for the workers, for an aggregator with the datapath, and for a master with a PostgreSQL
server. The server's foreign tables (doc/fdw.md) are the workers' rows of the Big Data benchmark and of TPC-H. Each query
runs with pruning by the network, without pruning, and with pruning by each worker. PostgreSQL also runs each query alone
over the same rows, which it has loaded. All four answers are compared. The program removes all of its objects at the end,
and needs root.
"""
import argparse
import json
import os
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

VISITS_OF_A_PAGE = 5 / 3
NOW = "SELECT extract(epoch FROM clock_timestamp())"
WAYS = {"on": "SET fpisa.pruning = network;", "off": "SET fpisa.pruning = none;", "workers": "SET fpisa.pruning = workers;"}
TPCH = "customer", "orders", "lineitem", "part", "partsupp", "supplier", "nation"
# Text columns in keys, and the maximum size in bytes of their values.
TEXTS = {"uservisits": {"useragent": 31, "languagecode": 31}}
# Upper bounds of join keys at TPC-H scale 1, which are sizes of bitmaps. Q3 uses orders for its lines and customers for its
# orders. Q20 uses parts for its groups.
ORDERS, CUSTOMERS, PARTS = 6000001, 150001, 200001
PORT = 18000  # UDP port, to which the query's number is added, because a statement may run several queries at the same time

Q20 = """SELECT s_name, s_address FROM {0}.supplier, {0}.nation WHERE s_suppkey IN (
    SELECT ps_suppkey FROM {0}.partsupp, {0}.part,
        (SELECT l_partkey, l_suppkey, fpisa_sum({1}) AS total FROM {0}.lineitem
         WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-01' + interval '1 year' GROUP BY l_partkey, l_suppkey) sent
    WHERE ps_partkey = p_partkey AND p_name LIKE 'forest%' AND l_partkey = ps_partkey AND l_suppkey = ps_suppkey
        AND ps_availqty > {2} * total)
AND s_nationkey = n_nationkey AND n_name = 'CANADA' ORDER BY s_name"""
# name: (description, statement, whether the order of the answer's rows is compared)
QUERIES = {
    "top_n": ("the first 250 visits by revenue", "SELECT adrevenue FROM {0}.uservisits ORDER BY adrevenue DESC LIMIT 250"),
    "group_by_having": ("agents by their greatest and least revenue",
                        "SELECT useragent, max(adrevenue), min(adrevenue) FROM {0}.uservisits GROUP BY useragent "
                        "HAVING max(adrevenue) > 0.5"),
    "group_by_sum": ("revenue of each language", "SELECT languagecode, fpisa_sum(adrevenue) FROM {0}.uservisits GROUP BY languagecode"),
    "tpch_q3": ("TPC-H 3, unshipped orders", """SELECT l_orderkey, fpisa_sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
    FROM {0}.customer, {0}.orders, {0}.lineitem
    WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-15'
        AND l_shipdate > date '1995-03-15'
    GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10"""),
    "tpch_q20": ("TPC-H 20, suppliers with much in stock: by l_quantity", Q20.replace("{1}", "l_quantity").replace("{2}", "0.5")),
    "tpch_q20_price": ("the same by l_extendedprice, which the paper converts",
                       Q20.replace("{1}", "l_extendedprice").replace("{2}", "0.0005")),
}


# -- data ------------------------------------------------------------------------

def make_data(args, folder):
    """Make the directories 0, 1, ... of workers in `folder`. Return the tables."""
    def must(*argv):
        subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.DEVNULL)

    must(lab.FPISA, "query", "data", folder, "--pages", max(100, int(args.rows / VISITS_OF_A_PAGE)), "--visits", args.rows,
         "--workers", args.workers, "--seed", args.seed)
    if not args.scale:
        return ["uservisits"]
    must("/usr/bin/python3", os.path.join(postgres.TOP, "data", "tpch.py"), folder, "--scale", args.scale, "--workers", args.workers)
    return ["uservisits", *TPCH]


def copy_rows(server, table, folder, rank):
    """Load the rows of a worker's file into the table in schema `near`."""
    csv = os.path.join(folder, str(rank), table + ".csv")
    if os.path.exists(csv):
        server.sql(f"COPY near.{table} FROM '{csv}' (FORMAT csv, HEADER)")
    else:
        server.sql(f"COPY near.{table} FROM PROGRAM 'sed ''s/|$//'' {csv[:-4]}.tbl' (DELIMITER '|')")


def load(server, tables, folder, workers):
    """Create foreign tables in schema `far`, and load their rows from the workers' files into schema `near`."""
    server.sql("CREATE SCHEMA far; CREATE SCHEMA near; IMPORT FOREIGN SCHEMA tables LIMIT TO (" + ", ".join(tables) +
               ") FROM SERVER workers INTO far")
    for table in tables:
        for column, most in TEXTS.get(table, {}).items():
            server.sql(f"ALTER FOREIGN TABLE far.{table} ALTER {column} OPTIONS (ADD bytes '{most}')")
        server.sql(f"CREATE UNLOGGED TABLE near.{table} (LIKE far.{table})")
        for rank in range(workers):
            copy_rows(server, table, folder, rank)
        (rows,), = server.sql(f"SELECT greatest(1, count(*)) FROM near.{table}")
        server.sql(f"ALTER FOREIGN TABLE far.{table} OPTIONS (ADD rows '{rows}')")
    server.sql("ANALYZE")


# -- a query -----------------------------------------------------------------------

def foreign_scans(plan):
    if plan["Node Type"] == "Foreign Scan":
        yield plan
    for below in plan.get("Plans", ()):
        yield from foreign_scans(below)


def counts_of(server, settings, statement):
    """Return the counts of the rows that workers sent, over all foreign scans of the plan."""
    rows = server.sql(f"{settings} EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}")
    scans = list(foreign_scans(json.loads("".join("|".join(r) for r in rows))[0]["Plan"]))
    return {name: sum(s.get("Rows " + what, 0) for s in scans)
            for name, what in (("rows", "Sent"), ("forwarded", "Received"), ("pruned", "Pruned"), ("absorbed", "Absorbed"))}


def timed(server, settings, statement, runs):
    """Run a query several times. Return the answer and the median time in seconds."""
    seconds = []
    for _ in range(runs):
        # Do not count the time of the connection.
        rows = server.sql(f"{settings} {NOW}; {statement}; {NOW};")
        seconds.append(float(rows[-1][0]) - float(rows[0][0]))
    return rows[1:-1], statistics.median(seconds)


def measure(server, args, name):
    what, statement = QUERIES[name]
    loss = f"SET fpisa.debug_loss = {args.loss}; " if args.loss else ""
    far, near = statement.replace("{0}", "far"), statement.replace("{0}", "near")
    answers, seconds = {}, {}
    for way, settings in WAYS.items():
        answers[way], seconds[way] = timed(server, loss + settings, far, args.runs)
    answers["alone"], seconds["alone"] = timed(server, "", near, args.runs)
    counts = counts_of(server, loss + WAYS["on"], far)
    assert counts["rows"] == counts["forwarded"] + counts["pruned"] + counts["absorbed"], counts
    ordered = [a if "ORDER BY" in statement else sorted(a) for a in answers.values()]
    equal = all(a == ordered[-1] for a in ordered)
    if name == "top_n":
        # Several visits may have the same revenue, and any of them may be the last row. Compare these rows with the table.
        whole = "SELECT * FROM {0}.uservisits ORDER BY adrevenue DESC LIMIT 250"
        equal &= server.sql(f"SELECT count(*) FROM (({whole.format('far')}) EXCEPT ALL SELECT * FROM near.uservisits) s") == [("0",)]
    opinion = {}
    if args.duckdb:
        opinion["duckdb_equal"] = duckdb_query.agrees(args.folder, args.workers, args.tables, near, answers["on"], "ORDER BY" in statement)
    return {"name": name, **counts, **{"seconds_" + way: round(seconds[way], 4) for way in seconds},
            "speedup": round(seconds["off"] / seconds["on"], 3), "answer_rows": len(answers["on"]), "answers_equal": equal, **opinion}


# -- the network ---------------------------------------------------------------------

def queries_of(args):
    """Return (kind, number, options) for each query at the aggregator."""
    scale = float(args.scale or 0)

    def bitmap(keys, key_bytes):
        return {"filter": "bitmap", "filter-keys": min(int(keys * scale) + 1, 1 << 28), "filter-bytes": key_bytes}

    return [("topn", 1, {"limit": 1000, "key-bytes": 8}),
            ("table", 2, {"limit": 4096, "key-bytes": 32}),
            ("table", 3, {"limit": 262144, "key-bytes": 8, **bitmap(PARTS, 4)}),
            ("join", 4, {"key-bytes": 16, **bitmap(ORDERS, 8)}),
            ("join", 5, {"key-bytes": 16, **bitmap(CUSTOMERS, 4)})]


def queries_option(args):
    """Return the queries in the format of the option of the server."""
    return ", ".join(" ".join(map(str, [kind, number, *(v for o in options.items() for v in o), "local-port", PORT + number,
                                        "worker-port", PORT + number])) for kind, number, options in queries_of(args))


def make_network(args, folder):
    net = lab.Lab(workers=args.workers + 1)
    net.load()
    q = Queries(net, folder)
    q.directory = lambda rank: os.path.join(folder, str(rank))
    if args.mbit:
        net.slow(args.mbit)
        for port in net.ports:
            net.agg.run("tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", f"{args.mbit}mbit", "burst", "64kb", "latency", "1s")
    q.serve()
    for kind, number, options in queries_of(args):
        q.add(kind, options.pop("limit", None), *(v for name, value in options.items() for v in ("--" + name, value)), number=number,
              port=PORT + number)
    return net, q


def make_server(args, net, q):
    with q.master.entered():
        server = postgres.Server(shared_buffers="512MB", work_mem="256MB", timezone="UTC", jit="off")
    with open(q.key) as f:
        key = [line for line in f.read().splitlines() if line and line[0] != "#"][-1]
    server.sql(f"""CREATE EXTENSION fpisa;
CREATE SERVER workers FOREIGN DATA WRAPPER fpisa OPTIONS (workers '{",".join(net.addresses[:-1])}', aggregator '{lab.ADDRESS}',
    queries '{queries_option(args)}', timeout '60');
CREATE USER MAPPING FOR CURRENT_USER SERVER workers OPTIONS (key '{key}')""")
    return server


# -- output ------------------------------------------------------------------------

HEAD = f"{'query':<16} {'rows':>9} {'forwarded':>9} {'pruned':>9} {'absorbed':>9} {'on s':>8} {'off s':>8} {'workers s':>9} " \
    f"{'alone s':>8} {'off:on':>7}  equal"


def print_line(r):
    print(f"{r['name']:<16} {r['rows']:>9} {r['forwarded']:>9} {r['pruned']:>9} {r['absorbed']:>9} {r['seconds_on']:>8.3f} "
          f"{r['seconds_off']:>8.3f} {r['seconds_workers']:>9.3f} {r['seconds_alone']:>8.3f} {r['speedup']:>7.2f}  "
          f"{'yes' if r['answers_equal'] and r.get('duckdb_equal', True) else 'NO'}", flush=True)


def plot(results, path):
    """Draw bars of times in seconds as SVG."""
    rows = "\n".join(f"{r['name']} {r['seconds_on']} {r['seconds_off']} {r['seconds_workers']} {r['seconds_alone']}" for r in results)
    script = f"""set terminal svg noenhanced size 900,420 background 'white'; set output '{path}'
$data << EOD
{rows}
EOD
set style data histograms; set style fill solid 0.8; set yrange [0:*]; set ylabel 'seconds'; set grid ytics; set key top left
plot $data using 2:xtic(1) title 'the network prunes', '' using 3 title 'nobody prunes', '' using 4 title 'workers prune', \\
    '' using 5 title 'PostgreSQL alone, rows loaded before'
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def parse():
    p = argparse.ArgumentParser(prog="fpisa query demo", description=__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=300000, help="rows of uservisits, over all workers; default 300000")
    p.add_argument("--scale", default="0.01", help="scale of TPC-H; 0 leaves TPC-H out, for machines without PyPI; default 0.01")
    p.add_argument("--workers", type=int, choices=(2, 4), default=2)
    p.add_argument("--loss", type=float, default=0, help="share of frames that members drop, to 0.9")
    p.add_argument("--mbit", type=int, default=0, help="rate of every link, Mbit/s; default unlimited")
    p.add_argument("--runs", type=int, default=1, help="runs of each query and way; the median counts")
    p.add_argument("--seed", type=int, default=1, help="seed of uservisits")
    p.add_argument("--duckdb", action="store_true", help="also run DuckDB, from PyPI")
    p.add_argument("--plot", metavar="FILE.svg", help="draw the seconds as bars, with gnuplot")
    p.add_argument("--json", action="store_true", help="print an array with an object for each query")
    args = p.parse_args()
    args.scale = None if float(args.scale) == 0 else args.scale
    if args.rows < 1 or not 0 <= args.loss <= 0.9 or args.runs < 1:
        p.error("--rows and --runs must be at least 1, and --loss must be 0 to 0.9")
    if os.geteuid():
        p.exit(1, "fpisa: query demo: network namespaces require root; run as root\n")
    why = postgres.lacking()
    if why:
        p.exit(1, f"fpisa: query demo: {why}\n")
    if args.plot and not os.access(os.path.dirname(os.path.abspath(args.plot)), os.W_OK):
        p.error(f"--plot {args.plot}: its directory does not exist or is not writable; name another")
    if args.plot and not shutil.which("gnuplot"):
        p.exit(1, "fpisa: query demo: --plot: gnuplot is not installed; run apt install gnuplot-nox\n")
    return args


def run(args, folder):
    os.chmod(folder, 0o755)  # the server also reads the files
    args.folder, args.tables = folder, make_data(args, folder)
    args.duckdb = args.duckdb and duckdb_query.installed() is not None
    common.own_mounts()
    net = q = server = None
    try:
        net, q = make_network(args, folder)
        server = make_server(args, net, q)
        load(server, args.tables, folder, args.workers)
        results = []
        if not args.json:
            print(HEAD)
        for name in QUERIES:
            if name.startswith("tpch") and not args.scale:
                continue
            results.append(measure(server, args, name))
            if not args.json:
                print_line(results[-1])
    finally:
        if server:
            server.close()
        if q:
            q.close()
        if net:
            net.close()
    return results


def main():
    args = parse()
    common.exit_on_signals()
    folder = tempfile.mkdtemp(prefix="fpisa-query-demo-")
    try:
        results = run(args, folder)
    except (AssertionError, postgres.Failed, subprocess.CalledProcessError) as e:
        sys.exit(f"fpisa: query demo: {e}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps(results, indent=2))
    if args.plot:
        plot(results, args.plot)
    if not all(r["answers_equal"] and r.get("duckdb_equal", True) for r in results):
        sys.exit("fpisa: query demo: answers to a query differ; --json shows which query")


if __name__ == "__main__":
    main()
