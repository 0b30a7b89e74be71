# SPDX-License-Identifier: GPL-2.0-only
"""The aggregator adds TPC-H's money as decimals. Queries 1, 3, 6 and 20 equal PostgreSQL's numeric to the last digit."""
import decimal
import os
import subprocess
import sys

import pytest

from lab import TOP, endpoint

pytestmark = pytest.mark.cold  # queries add programs to the program array

SCRIPT = os.path.join(TOP, "data", "tpch.py")
TOOL = os.path.join(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")), "tpch")
QUERIES = "table 3 limit 50000 key-bytes 16 values int64, table 4 limit 50000 key-bytes 32 values int128 local-port 18002 worker-port 18003"

# The columns of lineitem that the queries use, and the terms of their sums, which have more digits
COLUMNS = {"orderkey": 0, "partkey": 1, "suppkey": 2, "quantity": 4, "extendedprice": 5, "discount": 6, "tax": 7, "returnflag": 8,
           "linestatus": 9, "shipdate": 10, "shipmode": 14}
SCHEMA = ("orderkey int64 not null", "partkey int32 not null", "suppkey int32 not null", "quantity decimal(15,2) not null",
          "extendedprice decimal(15,2) not null", "discount decimal(15,2) not null", "tax decimal(15,2) not null",
          "returnflag text not null", "linestatus text not null", "shipdate date not null", "shipmode text not null",
          "discounted decimal(18,4) not null", "reduction decimal(18,4) not null", "charge decimal(30,6) not null")
LOCAL = """CREATE TABLE near (orderkey bigint, partkey int, suppkey int, quantity numeric(15,2), extendedprice numeric(15,2),
    discount numeric(15,2), tax numeric(15,2), returnflag text, linestatus text, shipdate date, shipmode text, discounted numeric(18,4),
    reduction numeric(18,4), charge numeric(30,6))"""

Q1 = "SELECT returnflag, linestatus, sum({0}), avg({0}), count(*) FROM {1} WHERE shipdate <= date '1998-09-02' GROUP BY 1, 2 ORDER BY 1, 2"
Q3 = """SELECT orderkey, sum(discounted) AS revenue FROM {1} WHERE shipdate > date '1995-03-15' GROUP BY orderkey
    ORDER BY revenue DESC, orderkey LIMIT 10"""
Q6 = """SELECT sum(s) FROM (SELECT shipmode, sum(reduction) AS s FROM {1} WHERE shipdate >= date '1994-01-01'
    AND shipdate < date '1995-01-01' AND discount >= 0.05 AND discount <= 0.07 AND quantity < 24 GROUP BY shipmode) m"""
Q20 = """SELECT partkey, suppkey, 0.5 * sum(quantity) FROM {1} WHERE shipdate >= date '1994-01-01' AND shipdate < date '1995-01-01'
    GROUP BY partkey, suppkey ORDER BY 1, 2"""
# The planner would fetch the few rows of query 6 and add them in PostgreSQL. These settings make that plan too expensive.
FORCE = "SET enable_sort = off; SET enable_hashagg = off; "
ALL = [Q1.format(c, "{1}") for c in ("quantity", "extendedprice", "discount", "discounted", "charge")] + [Q3, Q6, Q20]


def lineitem(directory):
    """Return the rows of lineitem, with their terms computed in Python."""
    p = subprocess.run([sys.executable, "-B", SCRIPT, str(directory), "--scale", "0.01", "--workers", "2", "--tool", TOOL], text=True,
                       capture_output=True, timeout=600)
    if "from PyPI" in p.stderr:
        pytest.skip(f"tpchgen-cli is not here: {p.stderr.strip()}")
    assert p.returncode == 0, p.stderr
    parts = []
    for worker in range(2):
        rows = []
        with open(directory / str(worker) / "lineitem.tbl") as f:
            for line in f:
                field = line.split("|")
                price, discount, tax = (decimal.Decimal(field[COLUMNS[c]]) for c in ("extendedprice", "discount", "tax"))
                rows.append((*(field[i] for i in COLUMNS.values()), price * (1 - discount), price * discount, price * (1 - discount) * (1 + tax)))
        parts.append(rows)
    return parts


def test_tpch(master, tmp_path):
    parts = lineitem(tmp_path / "tpch")
    master.serve()
    for rank, rows in enumerate(parts):
        with open(os.path.join(master.directory(rank), "far.schema"), "w") as f:
            f.write("\n".join(SCHEMA))
        with open(os.path.join(master.directory(rank), "far.tbl"), "w") as f:
            f.writelines("".join(f"{v}|" for v in r) + "\n" for r in rows)
    addresses = master.net.addresses
    master.add("table", 50000, "--key-bytes", 16, "--values", "int64", number=3)
    master.net.fpisa("query", "add", 4, "--kind", "table", "--limit", 50000, "--key-bytes", 32, "--values", "int128", "--address", master.net.address,
                     "--workers", ",".join(endpoint(a, 18003) for a in addresses[:-1]), "--master", endpoint(addresses[-1], 18002))
    master.create_server(QUERIES)
    master.sql("IMPORT FOREIGN SCHEMA x FROM SERVER far INTO public")
    for column, n in ("returnflag", 1), ("linestatus", 1), ("shipmode", 10):
        master.sql(f"ALTER FOREIGN TABLE far ALTER COLUMN {column} OPTIONS (bytes '{n}')")
    master.sql(LOCAL)
    copied = tmp_path / "near.csv"
    copied.write_text("".join(",".join(map(str, r)) + "\n" for rows in parts for r in rows))
    os.chmod(tmp_path, 0o755)
    master.sql(f"\\copy near FROM '{copied}' CSV")
    for query in ALL:
        far, near = query.replace("{1}", "far"), query.replace("{1}", "near")
        assert master.sql(FORCE + far) == master.sql(near), query
        said = "\n".join(r[0] for r in master.sql(FORCE + "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) " + far))
        assert "Pruned By: network: query" in said and "Rows Absorbed: " in said, said
    assert len(master.sql(Q20.replace("{1}", "near"))) > 1000
