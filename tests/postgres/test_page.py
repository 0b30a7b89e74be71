# SPDX-License-Identifier: GPL-2.0-only
"""Follow doc/postgres.md as its reader does. Its statements run in order and print the output that the page shows."""
import os
import re

import pytest

from postgres import TOP

PAGE = os.path.join(TOP, "doc", "postgres.md")
RUNS = 10
PARALLEL = "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0;\n"


def blocks():
    """Return (statements, the output that the page shows or None)."""
    with open(PAGE) as f:
        found = re.findall(r"^```(\w+)\n(.*?)^```$", f.read(), re.M | re.S)
    for (kind, text), (next_kind, next_text) in zip(found, found[1:] + [("", "")]):
        if kind == "sql":
            yield text, next_text if next_kind == "text" else None


@pytest.fixture
def database(server):
    server.sql("CREATE DATABASE page")
    yield "page"
    server.sql("DROP DATABASE page")


def test_statements(server, database):
    """Query 15 runs repeatedly, with parallel workers. With sum() it sometimes finds its row, with fpisa_sum() always."""
    found = {}
    for text, shown in blocks():
        rows = server.sql(text, database)
        if shown is not None:
            assert rows == [tuple(line.split("|")) for line in shown.splitlines()], text
        if "ORDER BY s_suppkey" in text:
            found["fpisa_sum" in text] = again = server.sql(PARALLEL + text.split("\n\n")[-1] * RUNS, database)
            if shown is not None:
                assert again == rows * RUNS
    print(f"rows of {RUNS} runs: with sum {len(found[False])}, with fpisa_sum {len(found[True])}")
    assert rows == [] and shown is None and len(found[True]) == RUNS
