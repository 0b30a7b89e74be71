# SPDX-License-Identifier: GPL-2.0-only
"""If workers have a key and lie (lying_worker.c), a statement fails with a message that says so, and no session dies."""
import os
import re
import shutil
import struct
import subprocess

import pytest

import foreign
import postgres
from foreign import fails

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lying_worker.c")
READY, WORKING, LOST, DONE, RECORDS, FAILED = range(17, 23)
REAL, DOUBLE, INT32, INT64, TEXT, DATE, DECIMAL = range(1, 8)
TABLE = "a int, b text, c int, d int, e int, f bigint, g int, h date, v real"
OTHERS = "the worker sent columns other than those requested; run one release on all hosts"


def column(name, kind, not_null=0, precision=0):
    return struct.pack("<64s4B", name.encode(), kind, not_null, precision, 0)


def ready(columns=(), keys=(), port=9, may_be_null=0, value=0, precision=0):
    values = [("v", value, not may_be_null, precision)] if value else []
    return "OPEN", READY, struct.pack("<IIIHHQQ", len(keys), len(columns), len(values), port, 0, 0, 0) + b"".join(
        column(*c) for c in (*keys, *columns, *values))


def records(*rows, on="START"):
    def field(x):
        return struct.pack("<I", 0xffffffff) if x is None else struct.pack("<I", len(x)) + x
    return on, RECORDS, b"".join(field(x) for row in rows for x in row)


def done(rows=0, sent=None, rank=0, nulls=0, places=()):
    return "START", DONE, struct.pack("<II7QII", 0, rank, rows, nulls, rows if sent is None else sent, 0, 0, 0, 0, 0, 0) + struct.pack(
        f"<{len(places)}Q", *places)


A, B, V, W, NAME = ("a", INT32, 1), ("b", TEXT), ("v", REAL, 1), ("v", REAL), ("name", TEXT, 1)
SCAN, TOP, GROUPS = "SELECT a, b FROM t", "SELECT a FROM t ORDER BY v LIMIT 2", "SELECT f, max(v), fpisa_sum(v) FROM t GROUP BY f"
IMPORT = "IMPORT FOREIGN SCHEMA x FROM SERVER {server} INTO {server}"

# Each case has the worker's messages, the statement, and its outcome, which is a message or rows.
CASES = [
    ("honest", [ready([A, B]), records([b"1", None], [b"2", b"x"]), done(2)], SCAN, [("1", ""), ("2", "x")]),
    ("honest groups", [ready(keys=[("f", INT64)], value=REAL), done()], GROUPS, []),
    ("honest first rows", [ready([A, W], may_be_null=1, value=REAL), done(2, 0, 0, 1, [7]), records([b"1", None], on="FETCH")], TOP, [("1",)]),
    ("honest names", [ready([NAME]), done()], IMPORT, []),
    ("one column of eight", [ready([A]), records([b"1"]), done(1)], "SELECT a, b, c, d, e, f, g, h FROM t", OTHERS),
    ("one column of two", [ready([A]), records([b"1"], [b"2"]), done(2)], SCAN, OTHERS),
    ("too many", [ready([A, B, V]), records([b"1", b"x", b"1"]), done(1)], SCAN, OTHERS),
    ("the other way round", [ready([B, A]), records([b"1", b"x"]), done(1)], SCAN, OTHERS),
    ("no column", [ready(), done()], SCAN, OTHERS),
    ("no key", [ready(may_be_null=1, value=REAL), done()], GROUPS, OTHERS),
    ("two keys", [ready(keys=[("f", INT64), ("a", INT32)], value=REAL), done()], GROUPS, OTHERS),
    ("rows of groups", [ready([A], [("f", INT64)], value=REAL), done()], GROUPS, OTHERS),
    ("another type of key", [ready(keys=[("f", TEXT)], value=REAL), done()], GROUPS, 'column "f" is of type bigint here, but of type text at the workers'),
    ("another type of value", [ready(keys=[("f", INT64)], value=DOUBLE), done()], GROUPS,
     'column "v" is of type real here, but of type double precision at the workers'),
    ("values without a type", [ready(keys=[("f", INT64)]), done()], GROUPS, OTHERS),
    ("values that are no numbers", [ready(keys=[("f", INT64)], value=TEXT), done()], GROUPS, OTHERS),
    ("values with too many digits", [ready(keys=[("f", INT64)], value=DECIMAL, precision=39), done()], GROUPS, "not a message of this protocol"),
    ("first doubles", [ready([A, V], value=DOUBLE), done()], TOP, OTHERS),
    ("NULL", [ready([A, B]), records([None, b"x"]), done(1)], SCAN, "a row has NULL in column 'a int32 not null'"),
    ("no number", [ready([A, B]), records([b"1; DROP", b"x"]), done(1)], SCAN, "a row has another value in column 'a int32 not null'"),
    ("half a row", [ready([A, B]), ("START", RECORDS, records([b"1", b"x"])[2][:6])], SCAN, "not a message of this protocol"),
    ("beyond the end", [ready([A, B]), ("START", RECORDS, b"\xfe\xff\xff\xff1")], SCAN, "not a message of this protocol"),
    ("text with a 0", [ready([A, B]), records([b"1", b"x\0y"]), done(1)], SCAN, "a row has another value in column 'b text'"),
    ("no UTF-8 in a number's place", [ready([("a", TEXT), B]), records([b"\xff\xfe", b"x"]), done(1)], SCAN, 'invalid byte sequence for encoding "UTF8": 0xff'),
    ("no UTF-8", [ready([A, B]), records([b"1", b"\xff\xfe"]), done(1)], SCAN, "invalid byte sequence for encoding"),
    ("fewer than it says", [ready([A, B]), records([b"1", b"x"]), done(2)], SCAN, "sent 1 rows, but reported 2"),
    ("another's rank", [ready([A, B]), done(rank=1)], SCAN, "not a message of this protocol"),
    ("begins again", [ready([A, B]), records([b"1", b"x"]), ("START", LOST, struct.pack("<I", 1))], SCAN, "not a message of this protocol"),
    ("ready twice", [ready([A, B]), ready([A, B])], SCAN, "not a message of this protocol"),
    ("before START", [ready([A, B]), ("OPEN", *records([b"1", b"x"])[1:])], SCAN, "not a message of this protocol"),
    ("rows that nobody asked for", [ready([A, V], value=REAL), records([b"1", b"2"]), done()], TOP, "not a message of this protocol"),
    ("more rows than asked for", [ready([A, W], may_be_null=1, value=REAL), done(2, 0, 0, 1, [7]), records([b"1", None], [b"2", None], on="FETCH")],
     TOP, "not a message of this protocol"),
    ("NULLs that are none", [ready([A, V], value=REAL), done(2, 0, 0, 1, [7])], TOP, "not a message of this protocol"),
    ("a sentence of several lines", [("OPEN", FAILED, struct.pack("<i", -22) + b"no\n\x1b[2J\xffERROR: x\0")], SCAN, r"no\?\?\[2J\?ERROR: x"),
    ("names that are NULL", [ready([NAME]), records([None]), done(1)], IMPORT, "a row has NULL in column 'name text not null'"),
    ("names that may be NULL", [ready([("name", TEXT)]), records([None]), done(1)], IMPORT, "does not have the single column"),
    ("names that are numbers", [ready([("name", INT32, 1)]), records([b"1"]), done(1)], IMPORT, "does not have the single column"),
    ("two columns of names", [ready([NAME, A]), records([b"x", b"1"]), done(1)], IMPORT, "does not have the single column"),
    ("a name that is no UTF-8", [ready([NAME]), records([b"\xc3("]), done(1)], IMPORT, "invalid byte sequence for encoding"),
]


class Liars:
    """A process with a worker for each case"""

    def __init__(self, folder):
        self.folder, program = str(folder), str(folder / "lying_worker")
        subprocess.run(["gcc", "-Wall", "-Werror", "-O1", "-D_GNU_SOURCE", *(f"-I{postgres.TOP}/{d}" for d in ("include", "user")), "-o",
                        program, SOURCE, *(os.path.join(postgres.BUILD, f"lib{name}.a") for name in ("fpisa-query", "fpisa")), "-ldl", "-lpthread", "-lm"], check=True)
        self.key_file = str(folder / "keys")
        subprocess.run([foreign.FPISA, "key", "new", "queries", self.key_file], check=True, stdout=subprocess.DEVNULL)
        self.key = foreign.last_key(self.key_file)
        self.ports = foreign.free_ports(len(CASES))
        for port, (_, said, _, _) in zip(self.ports, CASES):
            (folder / str(port)).write_text("".join(f"{on} {kind} {content.hex()}\n" for on, kind, content in said))
        self.process = subprocess.Popen([program, self.key_file, self.folder, *map(str, self.ports)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "serving\n"

    def setup(self):
        """Return the SQL that creates the servers, each with its own table and schema."""
        return "".join(f"""CREATE SERVER liar{i} FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1:{port}', timeout '5');
CREATE USER MAPPING FOR CURRENT_USER SERVER liar{i} OPTIONS (key '{self.key}'); CREATE SCHEMA liar{i};
CREATE FOREIGN TABLE liar{i}.t ({TABLE}) SERVER liar{i};\n""" for i, port in enumerate(self.ports))

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def statement(i, text):
    return f"SET search_path = liar{i}, public; SET fpisa.pruning = none; {text.format(server=f'liar{i}')}"


@pytest.fixture
def liars(tmp_path):
    why = postgres.lacking()
    if why:
        pytest.skip(why)
    w = Liars(tmp_path)
    yield w
    w.close()


def test_lies(server, liars):
    """Each lie, in its own session, makes the statement fail with the right error. An earlier session continues."""
    server.sql("CREATE DATABASE lies")
    try:
        server.sql(f"CREATE EXTENSION fpisa; {liars.setup()}", "lies")
        began = server.sql("SELECT pg_postmaster_start_time(), (SELECT min(backend_start) FROM pg_stat_activity)")
        for i, (what, _, text, answer) in enumerate(CASES):
            if isinstance(answer, list):
                assert server.sql(statement(i, text), "lies") == answer, what
            else:
                said = fails(server, statement(i, text), "lies")
                assert re.search(answer, said), (what, said)
        assert server.sql("SELECT pg_postmaster_start_time(), (SELECT min(backend_start) FROM pg_stat_activity)") == began
    finally:
        server.sql("DROP DATABASE lies WITH (FORCE)")


@pytest.mark.long
def test_lies_under_valgrind(liars):
    """With such answers the wrapper and libfpisa make no invalid memory access."""
    why = None if shutil.which("valgrind") else "valgrind is not installed; make test installs it"
    if why:
        pytest.skip(why)
    s = postgres.Server()
    try:
        s.sql(f"CREATE EXTENSION fpisa; {liars.setup()}")
        s.stop()
        log = os.path.join(s.home, "valgrind")
        lines = [line for i, (_, _, text, _) in enumerate(CASES) for line in statement(i, text).split("; ")]
        p = subprocess.run(["valgrind", "--quiet", "--num-callers=30", f"--log-file={log}", os.path.join(s.place("bindir"), "postgres"),
                            "--single", "-D", s.home + "/data", "postgres"], input="\n".join(lines) + "\n", text=True, errors="replace",
                           capture_output=True, cwd=s.home, **postgres.user())
        with open(log) as f:
            found = [error for error in f.read().split("\n\n") if "fpisa" in error]
        assert p.returncode == 0 and p.stderr.count("ERROR") > 20 and not found, p.stderr[-2000:] + "\n".join(found)
    finally:
        s.close()
