# SPDX-License-Identifier: GPL-2.0-only
"""For `fpisa query run` over tables of `fpisa query worker`, every answer is the exact answer, or an error."""
import concurrent.futures
import json
import os
import random
import re
import socket
import sys
import time

import pytest

import parquet
import queries
from lab import FPISA, HERE, QUERY_LIBRARY, children, draw_seed, end, endpoint, wait_until
from queries import hear, read_whole, stopped_in_time

# cold: these tests put more programs into the program array than a load does
pytestmark = [pytest.mark.cold, pytest.mark.families(spread=True)]

PRUNING = {"network": (), "none": ("--prune", "none"), "workers": ("--prune", "workers"), "preaggregate": ("--preaggregate",)}
ASKING = os.path.join(HERE, "query_client.py")
LANES = 8
CHAOS = tuple(f"drop={loss},duplicate=0.1,reorder=0.1,delay=0.05,corrupt=0.05" for loss in (0.2, 0.3, 0.4))


# -- answers ----------------------------------------------------------------------

def test_groups(asked):
    """With room for half of the groups, every way to prune gives the same answer. The answer equals the answer in rational numbers."""
    rng = random.Random(draw_seed())
    q = asked(3)
    kinds = "random", "ascending", "equal", "cancelling", "hard", "nulls"
    rows = {kind: [r for w in range(3) for r in q.table(w, queries.adversarial(rng, kind, 3000, 200), name=kind)]
            for kind in kinds}
    q.serve()
    q.add("table", 100, "--key-bytes", 8)
    for kind in kinds:
        for way, options in PRUNING.items():
            counts = q.check_groups(rows[kind], *options, table=kind)
            assert counts["table"] == len(rows[kind])
            assert (counts["absorbed"] > 0) == (way in ("network", "preaggregate"))
            # The aggregator's table is full, and the groups that found no place came to the master.
            assert 0 < counts["values_received"] or kind == "nulls"


def test_topn(asked):
    rng = random.Random(draw_seed())
    q = asked(2)
    kinds = "random", "ascending", "equal", "hard", "nulls"
    rows = {kind: [r for w in range(2) for r in q.table(w, queries.adversarial(rng, kind, 3000, 10 ** 6), name=kind)]
            for kind in kinds}
    q.serve()
    for order in ((), ("--ascending",)):
        q.add("topn", 200, "--key-bytes", 8, *order)
        for kind in kinds:
            for way in "network", "none", "workers":
                nulls = ("--nulls-first",) if kind == "nulls" and way != "none" else ()
                counts = q.check_top(rows[kind], 150, *PRUNING[way], *order, *nulls, table=kind)
                assert counts["certified"] == (way == "network")
                assert counts["pruned"] > 0 if (way, kind) == ("network", "random") else way == "network" or not counts["pruned"]
        q.remove()
    # Ask for more rows than there are.
    q.table(0, [(1, 2.0)], name="few")
    q.table(1, [], name="few")
    q.add("topn", 200, "--key-bytes", 16)
    assert q.run("--value", "v", "--limit", 150, table="few")[0] == [[1, 2.0]]


def test_types(asked):
    """Answers are correct for keys of several columns of every type, with NULLs, .tbl files, plain rows, having and a small MTU."""
    rng = random.Random(draw_seed())
    q = asked(2, mtu=640)
    schema = ("d date", "s text", "i int64 not null", "x real not null")
    days = ["1970-01-01", "1999-12-31", "0001-01-01", None]
    rows = []
    for w, form in enumerate(("csv", "tbl")):
        part = [(rng.choice(days), rng.choice(["", "é", "a b", "long enough"]) if form == "csv" else rng.choice(["a b", None]),
                 rng.choice([-2 ** 63, 2 ** 63 - 1]), float(rng.randrange(100))) for _ in range(500)]
        rows += q.table(w, part, schema, form=form)
    q.serve()
    q.add("table", 10, "--key-bytes", 32)
    want = queries.groups_of([(r[:3], r[3]) for r in rows])
    for options in PRUNING.values():
        got, _ = q.run("--by", "d,s,i", "--value", "x", *options)
        assert {tuple(r[:3]): (r[3], r[4]) for r in got} == {k: v[:2] for k, v in want.items()}
    got, _ = q.run("--by", "d,s,i", "--value", "x", "--having", "count>20")
    assert {tuple(r[:3]) for r in got} == {k for k, v in want.items() if v[0] > 20}
    for options in PRUNING.values():
        whole, least, most = ([r[3] for r in rows], min(r[3] for r in rows), max(r[3] for r in rows))
        assert q.run("--total", "--value", "x", *options)[0] == [[1000, sum(whole), least, most, sum(whole) / 1000]]
        assert q.run("--total", "--where", "x<0", *options)[0] == [[0]]
    counted, _ = q.run("--by", "d,s,i")
    assert {tuple(r[:3]): r[3] for r in counted} == {k: v[0] for k, v in want.items()}
    for pruning in ("--preaggregate",), ("--prune", "workers"):
        assert sorted(q.run("--by", "d,s,i", *pruning)[0], key=repr) == sorted(counted, key=repr)
    # Ask for fewer rows than there are.
    for where, holds in (("d=1999-12-31", lambda r: r[0] == "1999-12-31"), ("s not null, s<>'a b'", lambda r: r[1] not in (None, "a b")),
                         ("x>=50.5,x<1e2,i int64 < 0", lambda r: r[3] >= 50.5 and r[2] < 0), ("d null", lambda r: r[0] is None),
                         ("s<'b', s>''", lambda r: r[1] is not None and b"" < r[1].encode() < b"b"),
                         ("s text >= 'é'", lambda r: r[1] is not None and r[1].encode() >= "é".encode())):
        want = queries.groups_of([(r[:3], r[3]) for r in rows if holds(r)])
        for options in PRUNING.values():
            got, _ = q.run("--by", "d,s,i", "--value", "x", "--where", where, *options)
            assert {tuple(r[:3]): (r[3], r[4]) for r in got} == {k: v[:2] for k, v in want.items()}, where
        assert len(q.run("--where", where, network=False)[0]) == sum(map(holds, rows))
    # ask for all rows, over TCP
    scanned, counts = q.run(network=False)
    assert sorted(map(repr, map(tuple, scanned))) == sorted(map(repr, rows)) and counts["received"] == len(rows)
    assert sorted(r[0] for r in q.run("--columns", "x", network=False)[0]) == sorted(r[3] for r in rows)
    assert "1000 in the table, sent 1000 = pruned 0 + absorbed 0 + received 1000" in \
        q.master.try_run(*q.argv(network=False))[2]


def test_parquet(asked):
    """Parquet files give the same answers as text files with the same rows, in every way to prune: groups, first rows, and rows of a
    join."""
    duckdb, env = parquet.engine()
    q, rng = asked(2), random.Random(draw_seed())
    schema = "k int32 not null", "v real"
    rows = []
    for rank in range(2):
        rows += q.table(rank, [(rng.randrange(400), rng.choice([*queries.HARD, None, 0.1, -7.25])) for _ in range(5000)], schema)
        q.table(rank, [(k,) for k in range(rank, 400, 7)], ("n int32 not null",), "small")
        for name, types in ("t", {"k": "INTEGER", "v": "FLOAT"}), ("small", {"n": "INTEGER"}):
            csv = os.path.join(q.directory(rank), f"{name}.csv")
            duckdb.sql(f"COPY (FROM read_csv('{csv}', columns={types})) TO '{csv[:-3]}parquet' (ROW_GROUP_SIZE 2048)")
            os.unlink(csv)
    q.serve(env=env)
    q.add("table", 500, "--key-bytes", 8)
    q.add("topn", 100, "--key-bytes", 8, number=6)
    q.add("join", None, "--key-bytes", 16, "--filter", "bitmap", "--filter-keys", 400, "--filter-bytes", 4, number=7)
    for options in PRUNING.values():
        q.check_groups(rows, *options)
        if options != ("--preaggregate",):
            q.check_top(rows, 100, *options, number=6)
    there = {k for rank in range(2) for k in range(rank, 400, 7)}
    got, _ = q.run("--join", "small", "--on", "k=n", number=7)
    want = [r for r in rows if r[0] in there]
    assert sorted(repr((k, queries.number(v))) for k, v in got) == sorted(map(repr, want))


# -- faults -----------------------------------------------------------------------

def chaos_rows(q, rng, kind, table):
    """Write rows whose values are hard to add and to order, and return them. None is NULL."""
    if kind is queries.REAL:
        values = rng.choice(("random", "hard", "nulls"))
        return [r for w in range(2) for r in q.table(w, queries.adversarial(rng, values, 500, 60), name=table)]
    most = 10 ** 38 - 1
    near = [1e9 + i * 2 ** -20 for i in range(20)] if kind is queries.DOUBLE else [2 ** 70 + i for i in range(20)]
    hard = [*queries.HARD, 5e-324, 1e300, -1e300] if kind is queries.DOUBLE else [most, -most, 0, 1, -1]
    rows = [(rng.randrange(60), rng.choice([rng.choice(near), rng.choice(hard), None])) for _ in range(1000)]
    for w in range(2):
        queries.write_table(q.directory(w), table, ("k int32 not null", f"v {kind.column}"), rows[w::2])
    return rows


def chaos(q, lane, rounds, rng):
    """Lose, duplicate, delay, reorder and damage frames at every member, with two runs in each round. Each eight rounds have one kind of
    values."""
    repeated, port, table = 0, 18100 + lane, f"t{lane}"
    groups, first = {"number": 2 * lane, "table": table}, {"number": 2 * lane + 1, "table": table}
    ports = "--worker-port", port, "--local-port", port
    for i in range(rounds):
        seed = rng.randrange(1 << 30)
        print("lane", lane, "round", i, "seed", seed)
        # At 40% loss one copy in three is acknowledged, and on a loaded machine a second passes between two copies.
        faults = "--timeout", 60, "--debug-faults", f"{rng.choice(CHAOS)},seed={seed}"
        if i % 8 == 0:
            for query in (groups, first) if i else ():
                q.remove(query["number"])
            kind = rng.choice((queries.REAL, queries.DOUBLE, queries.INTEGER))
            of = "--key-bytes", 8, "--values", kind.form
            q.add("table", rng.choice([1, 20, 100]), *of, number=groups["number"], port=port)
            q.add("topn", 100, *of, number=first["number"], port=port)
        rows = chaos_rows(q, rng, kind, table)
        way = rng.choice([(), ("--preaggregate",), ("--prune", "none")])
        repeated += q.check_groups(rows, *ports, *faults, *way, kind=kind, **groups)["repeated"]
        repeated += q.check_top(rows, rng.choice([1, 100]), *ports, *faults, kind=kind, **first)["repeated"]
    assert repeated > rounds


@pytest.mark.parametrize("runs", [6, pytest.param(2000, marks=pytest.mark.long)])
def test_chaos(asked, runs):
    """Several masters at the same time get right answers. Most of the time all of them wait for lost frames."""
    lanes = min(LANES, runs // 2)
    q = asked(2, mtu=640)
    for lane in range(lanes):
        for w in range(2):
            q.table(w, [], name=f"t{lane}")
    q.serve()
    rngs = [random.Random(f"{draw_seed()} {lane}") for lane in range(lanes)]
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        for done in [pool.submit(chaos, q, lane, runs // 2 // lanes, rng) for lane, rng in enumerate(rngs)]:
            done.result()


def started(q, *options):
    """Return the stopped process of a query. Some of its rows have reached the aggregator, and others cannot be acknowledged."""
    return stopped_in_time(lambda: q.master.spawn(*q.argv("--json", "--by", "k", "--value", "v", "--debug-faults", "drop=0.3,seed=1", *options)),
                           lambda: q.net.json("query", "show", 5)["rows"]["rows"], 500)


def test_interrupted(asked):
    """If the datapath's state is lost, a worker dies or a master stops reading, another attempt or an error follows. A wrong answer never
    follows."""
    rng = random.Random(draw_seed())
    q = asked(2)
    rows = [r for w in range(2) for r in q.table(w, queries.adversarial(rng, "random", 60000, 300))]
    q.serve()
    q.add("table", 100, "--key-bytes", 8)

    # The query is recreated, so the run begins again.
    p = started(q)
    q.remove()
    q.add("table", 200, "--key-bytes", 8)
    answers, status, err = read_whole(p)
    assert status == 0, err
    want = queries.groups_of(rows)
    assert {r[0]: (r[1], queries.number(r[2])) for r in answers["rows"]} == {k: v[:2] for k, v in want.items()}
    assert answers["counts"]["restarts"] > 0

    # The query is removed and not recreated, so the run ends with an error.
    p = started(q, "--timeout", 2)
    q.remove()
    _, status, err = read_whole(p)
    assert status == 1 and "query 5" in err and q.net.address in err, err
    q.add("table", 100, "--key-bytes", 8)

    # If a master stops, its worker gives up and serves the next master.
    p = started(q, "--timeout", 2)
    wait_until("the end of its session", lambda: not children(q.workers[0].pid))
    hear(q.workers[0], f"query worker: master at {re.escape(q.net.addresses[-1])}: query 5: frame .*not acknowledged in 2000 ms")
    end(p)
    wait_until("port", lambda: q.master.try_run(*q.argv("--by", "k", "--value", "v"))[0] == 0)

    # Kill a worker.
    p = started(q)
    q.workers[1].kill()
    _, status, err = read_whole(p)
    assert status == 1 and f"worker {endpoint(q.net.addresses[1], 18001)}: the peer closed the connection" in err, err
    says = q.fails("--by", "k", "--value", "v")
    assert f"worker {endpoint(q.net.addresses[1], 18001)}: cannot connect: Connection refused; is fpisa query worker running there?" in says


def write_private(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(text)


def test_refusals(asked, tmp_path):
    """An impossible query is refused in one sentence that names the program that refused it and the reason. Queries before and after it get
    their answers."""
    q = asked(2)
    good = [r for w in range(2) for r in q.table(w, [(w, 1.0), (7, 2.0)])]
    q.serve()
    q.add("table", 100)
    q.add("topn", 100, number=6)
    q.add("table", 100, "--key-bytes", 8, number=7)
    groups = "--by", "k", "--value", "v"

    q.table(0, [(1, 1.0)], name="bad")
    q.table(1, [(1, 1.0), (2, 2.0), ("x", 3.0)], name="bad")
    for w in range(2):
        q.table(w, [(1, 2, None, "a"), (1, 2, None, "a" * 29)], ("k int32 not null", "l int32 not null", "d date", "s text"), name="wide")
    for options, where, says in (
            (groups, {"table": "bad", "number": 7}, "bad.csv:4: column k: 'x' is not a valid int32"),
            (groups, {"table": "none"}, "table none does not exist on this worker: file none.schema is missing"),
            (groups, {"table": "../t"}, "'../t' is not a table name"),
            (groups, {"table": "/etc/passwd"}, "'/etc/passwd' is not a table name"),
            (("--by", "z"), {}, "t.csv: the schema has no column 'z'"),
            (("--where", "z=1"), {}, "t.csv: the schema has no column 'z'"),
            (("--where", "k"), {}, "t.csv: 'k' is not a list of conditions; write COLUMN OP VALUE"),
            (("--where", "k=1,v='2"), {}, "t.csv: 'v='2' is not a list of conditions"),
            (("--where", "k=1.5"), {}, "t.csv: column k is int32: '1.5' is not a value of that type"),
            (("--where", "v real=1,k real=1"), {}, "t.csv: column k is int32, not real"),
            (("--by", "v", "--value", "k"), {}, "column k is int32 and needs --values int64"),
            (groups, {"number": 6}, "query 6 at the aggregator "),
            (groups, {"workers": q.net.addresses[0] + "," + q.net.addresses[0]}, f"worker {endpoint(q.net.addresses[0], 18001)} is given twice"),
            ((*groups, "--local-port", 18055), {"taken": 18000}, "UDP port 18000 is in use by another query or program; two queries "
                                                                 "at once need two ports (--worker-port)"),
            (groups, {"number": 9}, f"query 9: the aggregator at {q.net.address} has not answered"),
            (groups, {"workers": q.net.addresses[0]}, "query 5: rank 1 of the aggregator's list did not join in 2000 ms"),
            (("--value", "v", "--limit", 5), {"number": 6}, "query 6 has keys of 4 bytes; places of rows need --key-bytes 8"),
            (groups, {}, "a column that may be NULL requires a count, and rows with 4-byte keys have none; create the query with --key-bytes 8"),
            (("--by", "k,v", "--value", "v"), {"number": 7}, "t.csv:2: the key needs 9 bytes (k 4, v 5), but the query's keys have 8: create the "
                                                                  "query with more --key-bytes"),
            (("--by", "s,d"), {"table": "wide", "number": 7}, "wide.csv:3: the key needs 36 bytes (s 31, d 5), but the query's keys have 8: "
                                                              "the limit is 32; use fewer or shorter columns"),
            (("--by", "k,l"), {"table": "wide"}, "wide.csv:2: the key needs 8 bytes (k 4, l 4), but the query's keys have 4: "),
            (("--by", "k", "--value", "s"), {"table": "wide", "number": 7}, "wide.csv: column s is text; --value requires a number, a date or a timestamp\n"),
    ):
        options = (*options, *(("--timeout", 2) if where.get("number") == 9 or "workers" in where else ()))
        taken = where.pop("taken", None)
        with q.net.worker[0].socket(q.net.ipv6) as s:
            s.bind(("", taken or 0))
            err = q.fails(*options, **where)
        assert err.startswith("fpisa: query run: ") and says in err and err.count("\n") == 1, err

    first, second = (f"worker {endpoint(a, 18001)}" for a in q.net.addresses[:2])
    q.table(0, [(1, 1.0)], name="other")
    for schema, options, has, where in (
            (("k int64 not null", "v real"), groups, "'k int64 not null'", "'k int32 not null'"),
            (("k int32 not null", "v real not null"), groups, "'v real not null'", "'v real'"),
            (("k int32 not null", "w real"), (), "'w real'", "'v real'"),
            (("k int32 not null",), (), "no further column", "'v real'"),
            (("k int32 not null", "v real", "w date"), (), "'w date'", "no further column")):
        q.table(1, [(1,) * len(schema)], schema, name="other")
        assert f"table other does not have the schema of {first} everywhere: {second} has {has} instead of {where}\n" in \
            q.fails(*options, table="other", network=bool(options))
    # An error of a master is one line in the log of the worker. An error of a worker is one line at the master.
    assert "'t?y'" in q.fails(*groups, table="t\ny", workers=q.net.addresses[0])
    hear(q.workers[0], r"'t\?y' is not a table name")
    with q.net.worker[-1].socket(q.net.ipv6) as s:
        s.bind(("", 18000))
        assert "run: UDP port 18000 is in use by another query or program; two queries at once need two ports (--local-port, " in q.fails(*groups)
    # Use a port that another query will release.
    with q.net.worker[0].socket(q.net.ipv6) as s:
        s.bind(("", 18000))
        p = q.master.spawn(*q.argv("--json", *groups, number=7))
        time.sleep(0.5)
        s.close()
    _, status, err = read_whole(p)
    assert status == 0, err
    # Make a link that leads out of the directory.
    q.table(0, [(1, 1.0)], name="link")
    q.table(1, [(1, 1.0)], name="link")
    os.unlink(os.path.join(q.directory(0), "link.csv"))
    os.symlink("/etc/passwd", os.path.join(q.directory(0), "link.csv"))
    assert "link.csv: the path leads out of the worker's directory" in q.fails(*groups, table="link")

    # Try invalid keys.
    other = str(tmp_path / "other-keys")
    q.net.fpisa("key", "new", "queries", other)
    says = q.fails(*groups, key=other, workers=q.net.addresses[0])
    assert f"{first} refuses key queries:" in says and f", the last of the master's file {other}; that line must be " in says
    assert "no key in common" in says
    hear(q.workers[0], re.escape(f"the master's key is not in the worker's file {q.key}; "))
    for make, why in (
            (lambda: os.chmod(other, 0o644), "users other than its owner may use it"), (lambda: os.unlink(other), "No such file or directory"),
            (lambda: write_private(other, "queries:0123456789abcdef:0123\n"), "the line is not a key NAME:ID:SECRET")):
        make()
        assert re.search(f"run: cannot read the master's key file: {other}(:1)?: {why}", q.fails(*groups, key=other))
        status, _, err = q.master.try_run(FPISA, "query", "worker", q.directory(0), "--key", other)
        assert status == 1 and re.search(f"worker: the worker's key file: {other}(:1)?: {why}", err), err
    # These peers are not masters. They send unencrypted text and random bytes.
    for noise in b"FPQC" + bytes(252), os.urandom(300).replace(b"F", b"G").replace(b"\x16", b"G"):
        with q.master.entered(), socket.create_connection((q.net.addresses[0], 18001), timeout=10) as s:
            s.sendall(noise)
            assert s.recv(4096)[:4] == b"FMPG"

    q.check_groups(good, number=7)


# -- programs ---------------------------------------------------------------------

@pytest.mark.parametrize("table_rows", [200, 400000])
def test_library(asked, table_rows):
    """Through the functions of fpisa-query.h a program can cancel and poll queries, for groups, first rows and all rows. Polling takes few
    turns."""
    q = asked(1)
    rows = q.table(0, [(i % 7, float(i)) for i in range(table_rows)])
    q.serve()
    q.add("table", 10, "--key-bytes", 8)
    options = {"workers": q.net.addresses[0], "key_file": q.key, "table": "t"}
    there = {"aggregator": q.net.address, "query": 5}
    for more in ({"by": "k", "value": "v", **there}, {"value": "v", "limit": 3, "pruning": 2}, {}):
        said, status, err = read_whole(q.master.spawn(sys.executable, "-B", ASKING, QUERY_LIBRARY, json.dumps({**options, **more})))
        assert status == 0, err
        if "by" in more:
            assert said["columns"] == ["k", "count", "sum", "min", "max", "avg"]
            assert {int(r[0]): int(r[1]) for r in said["rows"]} == {k: v[0] for k, v in queries.groups_of(rows).items()}
        elif "limit" in more:
            assert [float(r[1]) for r in said["rows"]] == sorted((r[1] for r in rows), reverse=True)[:3]
        else:
            assert [(int(r[0]), float(r[1])) for r in said["rows"]] == rows
        assert said["counts"]["rows"] == table_rows
        assert said["turns"] < 500 + table_rows / 100, said["turns"]


def test_key_itself(asked, tmp_path):
    """A caller may pass the key itself, as a line of a key file, instead of the file."""
    q, other = asked(1), str(tmp_path / "other-keys")
    q.net.fpisa("key", "new", "queries", other)
    q.table(0, [(1, 2.0)])
    q.serve()

    def ask(**options):
        return read_whole(q.master.spawn(sys.executable, "-B", ASKING, QUERY_LIBRARY,
                                         json.dumps({"workers": q.net.addresses[0], "table": "t", **options})))

    assert ask(key=queries.last_key(q.key))[0]["rows"] == [["1", "2.0"]]
    key = queries.last_key(other)
    _, status, err = ask(key=key)
    assert status == 1 and f"refuses key {key.rsplit(':', 1)[0]}; that line must be in the worker's key file" in err and key not in err, err
    for wrong in "", "queries", key + "0", key + "\n", key.upper():
        assert ask(key=wrong)[1:] == (1, "-22: options.key is not a key NAME:ID:SECRET; create one with fpisa key new\n")
    assert ask(key=key, key_file=other)[2] == "-22: options.key and options.key_file exclude each other; set one of them\n"
