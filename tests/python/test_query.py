# SPDX-License-Identifier: GPL-2.0-only
"""fpisa.query() over workers on the loopback interface"""
import datetime
import decimal
import errno
import fractions
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

import parquet
from conftest import BUILD, TOP
from foreign import Workers
from queries import double_sum

os.environ["FPISA_QUERY_LIBRARY"] = os.path.join(BUILD, "libfpisa-query.so")


@pytest.fixture(scope="module")
def workers():
    w = Workers(2)
    yield w
    w.close()


# Call fpisa.query() where pyarrow is, and write the answer's types and rows, or the error.
PROGRAM = """
import json, pickle, sys
import fpisa
options = json.loads(sys.argv[1])
try:
    table = fpisa.query(**options)
    said = [str(t) for t in table.schema.types], table.to_pylist()
except (fpisa.Error, ValueError) as e:
    said = type(e).__name__, str(e), getattr(e, "errno", None)
sys.stdout.buffer.write(pickle.dumps(said))"""
ENV = {**os.environ, "PYTHONPATH": os.path.join(TOP, "adapters", "python")}


@pytest.fixture
def ask(workers):
    """Return fpisa.query for these workers. It returns (types, rows) or (exception, message, errno)."""
    return lambda table, **options: parquet.with_pyarrow(PROGRAM, json.dumps({
        "table": table, "workers": workers.addresses.split(","), "key_file": workers.key_file, "prune": "none", **options}), env=ENV)


def test_answers(workers, ask, rng):
    rows = [(rng.randrange(7), rng.uniform(-1, 1) * 10.0 ** rng.randint(-12, 12)) for _ in range(30000)]
    workers.table("t", ["k int32 not null", "v double", "w double"], [(k, v, 1.5) for k, v in rows])
    types, got = ask("t", columns=["k", "v"])
    assert types == ["int32", "double"] and sorted((r["k"], r["v"]) for r in got) == sorted(rows)
    of = {k: [v for key, v in rows if key == k] for k in range(7)}
    for prune in "none", "workers", None:
        _, got = ask("t", by="k", value="v", prune=prune)
        assert {r["k"]: (r["count"], r["sum"], r["avg"]) for r in got} == {k: (len(vs), *double_sum(vs)) for k, vs in of.items()}
    _, got = ask("t", value="v", limit=3, prune="workers")
    assert [r["v"] for r in got] == sorted((v for _, v in rows), reverse=True)[:3]
    _, (got,) = ask("t", total=True, value=["v", "w"], where="k<3")
    assert ask("t", total=True, distinct="k", prune="workers")[1] == [{"count": 30000, "count(distinct k)": 7}]
    _, (beside,) = ask("t", total=True, value="w", distinct=["k", "w"])
    assert (beside["sum(w)"], beside["count(distinct k)"], beside["count(distinct w)"]) == (45000, 7, 1)
    exact = sum((fractions.Fraction(v) for k, v in rows if k < 3), fractions.Fraction(0))
    assert got["sum(v)"] == float(exact) and got["max(w)"] == 1.5 and got["count"] == sum(k < 3 for k, _ in rows)


def test_types(workers, ask):
    workers.table("r", ["x real"], [("0.1",), ("0.2",)])
    narrow, wide = (ask("r", total=True, value="x", double_sums=double) for double in (False, True))
    assert (narrow[0][1], wide[0][1]) == ("float", "double")
    assert wide[1][0]["sum"] == sum(struct.unpack("2f", struct.pack("2f", 0.1, 0.2))) != narrow[1][0]["sum"]
    workers.table("u", ["s text", "y date", "m decimal(5,2)"], [("Ω", "2024-02-29", "1.50"), (None, None, None)])
    types, got = ask("u")
    assert types == ["string", "date32[day]", "decimal128(5, 2)"]
    assert sorted(got, key=lambda r: r["s"] or "") == [{"s": None, "y": None, "m": None}, {"s": "Ω", "y": datetime.date(2024, 2, 29), "m": decimal.Decimal("1.50")}]


def test_errors(workers, ask):
    kind, says, number = ask("none")
    assert kind == "Error" and "none" in says and number == errno.ENOENT, says
    kind, says, number = ask("t", preaggregate=True)
    assert kind == "Error" and number == errno.EINVAL, says
    assert ask("t", prune="x") == ("ValueError", "prune is 'x'; it must be one of network, none, workers, auto", None)
    assert ask("t", limit=-1)[:2] == ("ValueError", f"limit is -1; it must be in 0..{2 ** 64 - 1}")
    workers.table("bytes", ["s text"], [])
    with open(f"{workers.directory(0)}/bytes.csv", "ab") as f:
        f.write(b"\xff\n")
    kind, says, number = ask("bytes")
    assert kind == "Error" and number == errno.EILSEQ and "column s: a text is not UTF-8" in says, says


def test_interrupt(workers):
    """Ctrl-C ends a query that waits for a worker that does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        program = f"import fpisa; fpisa.query('t', '127.0.0.1:{silent.getsockname()[1]}', key_file={workers.key_file!r}, prune='none')"
        p = subprocess.Popen([sys.executable, "-B", "-c", program], stderr=subprocess.PIPE, text=True,
                             env={**ENV, "PYTHONPATH": f"{ENV['PYTHONPATH']}:{parquet.pyarrow()}"})
        waiting, _ = silent.accept()
        threading.Timer(0.3, p.send_signal, [signal.SIGINT]).start()
        _, err = p.communicate(timeout=9)
        waiting.close()
        assert "KeyboardInterrupt" in err and p.returncode == -signal.SIGINT, err


def test_no_library():
    program = "import fpisa; fpisa.query('t', '127.0.0.1')"
    p = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, env={**ENV, "FPISA_QUERY_LIBRARY": "/nowhere.so"})
    assert p.returncode == 1 and "install the package libfpisa-query1, or set FPISA_QUERY_LIBRARY to the path of the library" in p.stderr
