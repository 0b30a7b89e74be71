# SPDX-License-Identifier: GPL-2.0-only
"""The program of doc/python.md for queries, and `--format arrow`, at a master whose rows pass through the aggregator"""
import os
import re

import parquet
from lab import BUILD, TOP
from queries import groups_of


def program(q):
    """Return the page's program for the lab of `q`. It writes the rows of its answer."""
    with open(os.path.join(TOP, "doc", "python.md"), encoding="utf-8") as f:
        text, = re.findall(r"^```python\n(import fpisa\n\ndef revenue_by_shop.*?)^```", f.read(), re.M | re.S)
    for old, new in (("10.0.0.11", q.addresses[0]), ("10.0.0.12", q.addresses[1]), ('"10.0.0.1"', repr(q.net.address))):
        assert old in text
        text = text.replace(old, new)
    return f"{text}\nimport pickle, sys\nsys.stdout.buffer.write(pickle.dumps(revenue_by_shop({q.key!r}).to_pylist()))"


def test_page(asked, tmp_path):
    q, rows = asked(2), []
    days = "2024-05-01", "2024-05-02", "2024-04-30"
    for rank in range(2):
        mine = [(i % 3, days[i % 7 % 3], (1e30, 1.0, -1e30, 0.5)[i % 4]) for i in range(rank, 999)]
        rows += q.table(rank, mine, ("shop int32 not null", "day date", "price real"), "sales")
    q.serve()
    q.add("table", 1000, "--key-bytes", 8)
    want = groups_of([(shop, price) for shop, day, price in rows if day >= "2024-05-01"])
    env = {**os.environ, "PYTHONPATH": f"{TOP}/adapters/python", "FPISA_QUERY_LIBRARY": f"{BUILD}/libfpisa-query.so"}
    with q.master.entered():
        got = parquet.with_pyarrow(program(q), env=env)
    assert {r["shop"]: tuple(r[c] for c in ("count", "sum", "min", "max", "avg")) for r in got} == want
    argv = q.argv("--by", "shop", "--value", "price", "--where", "day>=2024-05-01", "--format", "arrow", table="sales")
    with open(tmp_path / "answer", "wb") as f:
        status, _, err = q.master.try_run(*argv, stdout=f)
    assert status == 0 and "absorbed 0 " not in err, err
    _, again = parquet.arrow_table((tmp_path / "answer").read_bytes(), "arrow")
    assert sorted(again, key=str) == sorted(got, key=str)
