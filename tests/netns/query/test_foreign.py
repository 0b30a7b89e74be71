# SPDX-License-Identifier: GPL-2.0-only
"""Test foreign tables of a PostgreSQL server on the master's host, with rows pruned and added by the aggregator."""
import json
import os
import random
import re
import socket
import subprocess
import threading

import pytest

import foreign_random
import postgres
import queries
from lab import FPISA, TOP, draw_seed, endpoint, wait_until

pytestmark = pytest.mark.cold  # these tests put more programs into the program array than a load does

QUERIES = "topn 1 limit 500, topn 2 limit 500 ascending, table 3 limit 100 key-bytes 32, table 4 limit 50 key-bytes 4 " \
    "local-port 18002 worker-port 18003"


@pytest.fixture
def far(master):
    """Create a server with queries of both kinds."""
    master.serve()
    master.add("topn", 500, "--key-bytes", 8, number=1)
    master.add("topn", 500, "--key-bytes", 8, "--ascending", number=2)
    master.add("table", 100, "--key-bytes", 32, number=3)
    addresses = master.net.addresses
    master.net.fpisa("query", "add", 4, "--kind", "table", "--limit", 50, "--key-bytes", 4, "--address", master.net.address, "--workers",
                     ",".join(endpoint(a, 18003) for a in addresses[:-1]), "--master", endpoint(addresses[-1], 18002))
    master.create_server(QUERIES)
    return master


def explained(q, query, settings=""):
    """Return {counter: value} of the foreign scan that ran."""
    lines = [r[0].strip() for r in q.sql(f"{settings} EXPLAIN (ANALYZE, VERBOSE, COSTS OFF) {query}")]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


@pytest.mark.families(spread=True)
def test_pruned_by_the_network(far):
    """First rows and groups are correct, even with lost frames, and the aggregator pruned and absorbed rows."""
    rng = random.Random(draw_seed())
    rows = [(i % 40, float(rng.randrange(10 ** 6))) for i in range(20000)]
    far.deal("t", ("k int32 not null", "x real not null"), rows)
    far.sql("IMPORT FOREIGN SCHEMA x FROM SERVER far INTO public")
    want = queries.groups_of(rows)
    top = sorted((x for _, x in rows), reverse=True)
    for settings in "", "SET fpisa.debug_loss = 0.05; ":
        said = explained(far, "SELECT * FROM t ORDER BY x DESC LIMIT 100", settings)
        assert said["Pruned By"] == f"network: query 1 at {far.net.address}" and int(said["Rows Pruned"]) > 10000
        assert int(said["Rows Sent"]) == 20000 == int(said["Rows Pruned"]) + int(said["Rows Received"])
        said = explained(far, "SELECT k, max(x) FROM t GROUP BY k", settings)
        assert said["Pruned By"] == f"network: query 4 at {far.net.address}" and int(said["Rows Absorbed"]) > 18000  # 500 rows a key
        assert [float(r[0]) for r in far.sql(settings + "SELECT x FROM t ORDER BY x DESC LIMIT 100 OFFSET 7")] == top[7:107]
        assert [float(r[0]) for r in far.sql(settings + "SELECT x FROM t ORDER BY x LIMIT 9")] == top[:-10:-1]
        got = far.sql(settings + "SELECT k, count(*), fpisa_sum(x), min(x), max(x), fpisa_avg(x) FROM t GROUP BY k")
        assert {int(r[0]): (int(r[1]), *map(queries.number, r[2:5]), float(r[5])) for r in got} == want


def test_random_tables(far):
    rng = random.Random(draw_seed())
    for i in range(15):
        table = foreign_random.Table(rng)
        far.deal("random", table.schema, table.rows)
        ways = "", "SET fpisa.pruning = auto;", "SET fpisa.preaggregate = on;", "SET fpisa.debug_loss = 0.1;"
        wrong = foreign_random.ask(far, table, "near", "far", "far", "random", rng.choice(ways), 4)
        assert not wrong, wrong[0]


@pytest.mark.families(spread=True)
def test_queries_are_taken(far):
    """A query at the aggregator has one master at a time. Further scans, of the same session, another session or another program, run
    without the aggregator."""
    far.deal("t", ("k int32 not null", "x real not null"), [(i % 7, float(i)) for i in range(1000)])
    far.sql("IMPORT FOREIGN SCHEMA x FROM SERVER far INTO public")
    top = "SELECT x FROM t ORDER BY x DESC LIMIT 2"
    first = subprocess.Popen([postgres.where("bindir") + "/psql", "-XqAt"], env=far.server.env(), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    first.stdin.write("BEGIN; DECLARE a CURSOR FOR SELECT k, max(x) FROM t GROUP BY k; FETCH 1 FROM a; SELECT 'held';\n")
    first.stdin.flush()
    while first.stdout.readline() != "held\n":
        pass
    groups = "SELECT k, max(x) FROM t GROUP BY k ORDER BY 1 LIMIT 1"
    assert explained(far, groups)["Pruned By"] == f"network: query 3 at {far.net.address}"
    assert "Pruned By: none: query 4 is in use by another scan; query 3 is in use by another scan" in "".join(
        r[0] for r in far.sql("BEGIN; DECLARE b CURSOR FOR SELECT k, max(x) FROM t GROUP BY k; FETCH 1 FROM b; EXPLAIN " + groups))
    assert far.sql(f"BEGIN; DECLARE b CURSOR FOR SELECT k, max(x) FROM t GROUP BY k; FETCH 1 FROM b; {groups}")[1:] == [("0", "994")]
    assert explained(far, top)["Pruned By"] == f"network: query 1 at {far.net.address}"
    first.stdin.close()
    first.wait()
    alone = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    wait_until("the end of its session", lambda: far.sql(alone) == [("1",)])
    assert explained(far, groups)["Pruned By"] == f"network: query 4 at {far.net.address}"
    with far.master.entered():
        taken = socket.socket(socket.AF_INET6 if far.net.ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
    with taken:
        taken.bind(("", 18002))
        said = explained(far, groups)
        assert said["Pruned By"] == f"network: query 3 at {far.net.address}"
        far.sql("ALTER SERVER far OPTIONS (SET queries 'table 4 limit 50 local-port 18002 worker-port 18003')")
        said = explained(far, groups)
        assert said["Pruned By"].startswith("none: query 4 is not free: ") and "18002" in said["Pruned By"], said
        far.sql(f"ALTER SERVER far OPTIONS (SET queries '{QUERIES}')")
    # Run many sessions at the same time.
    wrong = []

    def ask(n):
        for _ in range(3):
            rows = far.sql(f"SELECT x FROM t ORDER BY x LIMIT {n}; SELECT k, max(x) FROM t GROUP BY k HAVING max(x) >= {993 + n}")
            if [float(r[0]) for r in rows[:n]] != [float(i) for i in range(n)] or len(rows) != n + 7 - n:
                wrong.append(rows)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]


@pytest.mark.families(spread=True)
def test_no_aggregator(far):
    """If the query is missing, the error says what to do."""
    far.deal("t", ("k int32 not null", "x real not null"), [(1, 1.0)])
    far.sql("IMPORT FOREIGN SCHEMA x FROM SERVER far INTO public; ALTER SERVER far OPTIONS (SET queries 'topn 9 limit 10', SET timeout '1')")
    with pytest.raises(postgres.Failed, match=f"query 9: the aggregator at {far.net.address} has not answered for 1000 ms"):
        far.sql("SELECT x FROM t ORDER BY x DESC LIMIT 1")
    assert far.sql("SET fpisa.pruning = none; SELECT x FROM t ORDER BY x DESC LIMIT 1") == [("1",)]


def test_page(master):
    """The statements and commands of doc/fdw.md run in order, on the machines of doc/query.md."""
    with open(os.path.join(TOP, "doc", "fdw.md")) as f:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", f.read(), re.M | re.S)
    q, net = master, master.net
    for rank in range(2):
        q.table(rank, [(1, "2024-05-01", 9.99), (2, "2024-05-01", 1e30), (1, "2024-05-02", -0.5), (2, None, -1e30), (2, "2024-05-03", 1.0)],
                ("shop int32 not null", "day date", "price real"), "sales")
    q.serve()
    q.add("table", 100000, "--key-bytes", 8, number=5)
    q.add("topn", 1000, "--key-bytes", 8, number=6)
    for (kind, text), shown in zip(blocks, blocks[1:] + [("", "")]):
        for old, new in (("10.0.0.11", net.addresses[0]), ("10.0.0.12", net.addresses[1]), ("10.0.0.13", net.addresses[2]),
                         ("'10.0.0.1'", f"'{net.address}'"), ("KEY", q.secret), ("--kind", f"--address {net.address} --kind")):
            text = text.replace(old, new)
        if kind == "sh" and "/srv/tables" in text:
            for rank, row in enumerate(("1,Delft", "2,Gouda")):
                net.worker[rank].run("sh", "-ec", text.replace("1,Delft", row).replace("/srv/tables", q.directory(rank)))
        elif kind == "sh":
            for command in text.splitlines():
                net.fpisa(*command.split()[1:])
        elif kind == "sql":
            rows, asked = ["|".join(r).replace(net.address, "10.0.0.1") for r in q.sql(text)], text
            assert shown[0] != "text" or rows == shown[1].splitlines(), rows
    plan = [r[0].strip().replace(net.address, "10.0.0.1") for r in q.sql("EXPLAIN (COSTS OFF) " + asked[asked.rindex("SELECT"):])]
    assert len(text.splitlines()) == 4 and all(line.strip() in plan for line in text.splitlines()), plan


def test_demo(possible):
    """Five queries in the form of TPC-H's queries, whose real data need PyPI, are correct with lost frames."""
    p = subprocess.run([FPISA, "query", "demo", "--rows", "20000", "--scale", "0", "--loss", "0.02", "--json"], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    results = {r["name"]: r for r in json.loads(p.stdout)}
    assert list(results) == ["top_n", "group_by_having", "group_by_sum"]
    for r in results.values():
        assert r["answers_equal"] and r["rows"] == 20000 == r["forwarded"] + r["pruned"] + r["absorbed"], r
    assert results["top_n"]["pruned"] > 10000 and results["group_by_sum"]["absorbed"] == 20000
    p = subprocess.run([FPISA, "query", "demo", "--workers", "3"], capture_output=True, text=True)
    assert p.returncode == 2 and "3 workers are not supported; give 2 or 4" in p.stderr


@pytest.mark.long
def test_demo_tpch(possible):
    """TPC-H's queries 3 and 20, whose rows and groups filters prune, are correct with lost frames."""
    p = subprocess.run([FPISA, "query", "demo", "--rows", "1000", "--scale", "0.01", "--loss", "0.02", "--json"], capture_output=True, text=True)
    if "from PyPI" in p.stderr:
        pytest.skip(p.stderr.strip())
    assert p.returncode == 0, p.stderr
    for r in json.loads(p.stdout)[3:]:
        assert r["name"].startswith("tpch") and r["answers_equal"] and r["rows"] == r["forwarded"] + r["pruned"] + r["absorbed"], r
        assert r["pruned"] > r["rows"] * 0.8 and r["answer_rows"], r
