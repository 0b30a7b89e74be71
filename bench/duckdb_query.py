# SPDX-License-Identifier: GPL-2.0-only
"""DuckDB from PyPI. It is a contender in merge.py, and answers the queries of query_demo.py for comparison."""
import json
import math
import os
import shutil
import subprocess
import sys

import postgres

PLACE = os.path.join(postgres.BUILD, "duckdb")
REQUIRED = "duckdb==1.1.3"
PYTHON = "/usr/bin/python3"
TYPES = {"int32": "INTEGER", "int64": "BIGINT", "real": "FLOAT", "double": "DOUBLE", "date": "DATE", "text": "VARCHAR"}
NEAR = 1e-5  # DuckDB rounds sums at each row

ASKING = """
import json, sys
sys.path.insert(0, sys.argv[1])
import duckdb
asked = json.load(sys.stdin)
db = duckdb.connect(config={"threads": 2})
db.execute("SET enable_progress_bar = false; CREATE SCHEMA near; CREATE MACRO fpisa_sum(x) AS sum(x)")
for statement in asked["tables"]:
    db.execute(statement)
print(json.dumps([[None if v is None else str(v) for v in row] for row in db.execute(asked["query"]).fetchall()]))
"""


def installed():
    """Install DuckDB if necessary. Return the path of the installation, or None after reporting the reason."""
    if not os.path.exists(PLACE):
        p = subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", "--target", PLACE,
                            REQUIRED], capture_output=True, text=True)
        if p.returncode:
            shutil.rmtree(PLACE, ignore_errors=True)
            print(f"{os.path.basename(sys.argv[0])}: without DuckDB: {' '.join(p.stderr.split()[-20:])}", file=sys.stderr)
            return None
    return PLACE


def columns(folder, name):
    """Return {column: type in DuckDB} of a table from its schema."""
    with open(os.path.join(folder, "0", name + ".schema")) as f:
        return {line.split()[0]: TYPES[line.split()[1]] for line in f if line.strip()}


def reading(folder, ranks, name):
    """Return a query for the rows of a table in the files of these workers."""
    csv = os.path.exists(os.path.join(folder, "0", name + ".csv"))
    files = [os.path.join(folder, str(w), f"{name}.{'csv' if csv else 'tbl'}") for w in ranks]
    files = [f for f in files if os.path.getsize(f)] or files
    read = {**columns(folder, name), **({} if csv else {"behind": "VARCHAR"})}
    form = """delim = ',', header = true, quote = '"'""" if csv else "delim = '|', header = false, quote = ''"
    return f"SELECT {', '.join(columns(folder, name))} FROM read_csv({files!r}, columns = {read!r}, auto_detect = false, {form})"


def agrees(folder, workers, tables, query, rows, ordered):
    """Return whether DuckDB's answer has these rows of texts. Numbers are compared approximately."""
    views = [f"CREATE VIEW near.{t} AS {reading(folder, range(workers), t)}" for t in tables]
    asked = {"tables": views, "query": query}
    p = subprocess.run([PYTHON, "-c", ASKING, PLACE], input=json.dumps(asked), capture_output=True, text=True)
    if p.returncode:
        raise postgres.Failed(f"duckdb: {p.stderr.strip().splitlines()[-1]}")
    return same([tuple("" if v is None else v for v in row) for row in json.loads(p.stdout.splitlines()[-1])], rows, ordered)


def same(rows, theirs, ordered, tolerance=NEAR):
    """Return whether two answers of texts are equal, numbers up to this relative difference."""
    if not ordered:
        rows, theirs = sorted(rows), sorted(theirs)
    return len(rows) == len(theirs) and all(len(a) == len(b) and all(near(*pair, tolerance) for pair in zip(a, b)) for a, b in zip(rows, theirs))


def near(a, b, tolerance):
    try:
        return math.isclose(float(a), float(b), rel_tol=tolerance)
    except ValueError:
        return a == b
