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


def table(folder, workers, name):
    """Return a statement that creates near.name from the workers' files."""
    with open(os.path.join(folder, "0", name + ".schema")) as f:
        columns = {line.split()[0].lower(): TYPES[line.split()[1]] for line in f if line.strip()}
    csv = os.path.exists(os.path.join(folder, "0", name + ".csv"))
    files = [os.path.join(folder, str(w), f"{name}.{'csv' if csv else 'tbl'}") for w in range(workers)]
    files = [f for f in files if os.path.getsize(f)]
    read = {**columns, **({} if csv else {"behind": "VARCHAR"})}
    form = """delim = ',', header = true, quote = '"'""" if csv else "delim = '|', header = false, quote = ''"
    return f"CREATE VIEW near.{name} AS SELECT {', '.join(columns)} FROM read_csv({files!r}, columns = {read!r}, " \
           f"auto_detect = false, {form})"


def agrees(folder, workers, tables, query, rows, ordered):
    """Return whether DuckDB's answer has these rows of texts. Numbers are compared approximately."""
    asked = {"tables": [table(folder, workers, t) for t in tables], "query": query}
    p = subprocess.run([PYTHON, "-c", ASKING, PLACE], input=json.dumps(asked), capture_output=True, text=True)
    if p.returncode:
        raise postgres.Failed(f"duckdb: {p.stderr.strip().splitlines()[-1]}")
    theirs = [tuple("" if v is None else v for v in row) for row in json.loads(p.stdout.splitlines()[-1])]
    if not ordered:
        rows, theirs = sorted(rows), sorted(theirs)
    return len(rows) == len(theirs) and all(len(a) == len(b) and all(map(near, a, b)) for a, b in zip(rows, theirs))


def near(a, b):
    try:
        return math.isclose(float(a), float(b), rel_tol=NEAR)
    except ValueError:
        return a == b
