#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make TPC-H's tables as files of workers.

	tpch.py DIR [--scale S] [--workers N] [--tool DIR]

DIR gets a directory 0, 1, ... for each worker, and in it TABLE.tbl and
TABLE.schema of the eight tables. Each worker has a run of the keys: one
worker's files after the other are the table. Decimals are read as FP32.

The rows are those of TPC-H's dbgen, by tpchgen-cli, which pip installs from
PyPI into the directory of --tool, build/tpch, in the version and with the
checksum of tpch.txt.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "4.0.0"
TABLES = {
    "region": "r_regionkey int32, r_name text, r_comment text",
    "nation": "n_nationkey int32, n_name text, n_regionkey int32, n_comment text",
    "supplier": "s_suppkey int32, s_name text, s_address text, s_nationkey int32, s_phone text, s_acctbal real, s_comment text",
    "customer": "c_custkey int32, c_name text, c_address text, c_nationkey int32, c_phone text, c_acctbal real, "
                "c_mktsegment text, c_comment text",
    "part": "p_partkey int32, p_name text, p_mfgr text, p_brand text, p_type text, p_size int32, p_container text, "
            "p_retailprice real, p_comment text",
    "partsupp": "ps_partkey int32, ps_suppkey int32, ps_availqty int32, ps_supplycost real, ps_comment text",
    "orders": "o_orderkey int64, o_custkey int32, o_orderstatus text, o_totalprice real, o_orderdate date, "
              "o_orderpriority text, o_clerk text, o_shippriority int32, o_comment text",
    "lineitem": "l_orderkey int64, l_partkey int32, l_suppkey int32, l_linenumber int32, l_quantity real, "
                "l_extendedprice real, l_discount real, l_tax real, l_returnflag text, l_linestatus text, l_shipdate date, "
                "l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, l_comment text",
}


def run(argv, what):
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if p.returncode:
        said = p.stdout.strip().splitlines() or [f"status {p.returncode}"]
        sys.exit(f"tpch.py: {what}: {next((line for line in said if line.startswith('ERROR')), said[-1])}")
    return p.stdout


def installed(directory):
    """Return the path of tpchgen-cli, in the version that tpch.txt requires. Install it if needed."""
    program = os.path.join(directory, "bin", "tpchgen-cli")
    if not os.path.exists(program) or run([program, "--version"], program).split()[-1] != VERSION:
        shutil.rmtree(directory, ignore_errors=True)
        run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
             "--require-hashes", "--target", directory, "-r", os.path.join(HERE, "tpch.txt")], "install tpchgen-cli from PyPI")
    return program


def make_worker(program, args, worker):
    place = os.path.join(args.directory, str(worker))
    os.makedirs(place, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tpch-", dir=place) as files:
        run([program, "--scale-factor", args.scale, "--parts", str(args.workers), "--part", str(worker + 1), "--output-dir", files,
             "--quiet"], "tpchgen-cli")
        for table, columns in TABLES.items():
            made = os.path.join(files, table, f"{table}.{worker + 1}.tbl")
            os.makedirs(os.path.dirname(made), exist_ok=True)
            with open(made, "a"):  # the first worker has all rows of nation and region
                pass
            with open(os.path.join(place, f"{table}.schema"), "w") as f:
                f.writelines(f"{column} not null\n" for column in columns.split(", "))
            os.rename(made, os.path.join(place, f"{table}.tbl"))


def main():
    p = argparse.ArgumentParser(prog="tpch.py", description=__doc__.splitlines()[0])
    p.add_argument("directory", metavar="DIR")
    p.add_argument("--scale", default="0.1", help="1 is a gigabyte; default 0.1")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--tool", metavar="DIR", default=os.path.join(HERE, "..", "build", "tpch"))
    args = p.parse_args()
    try:
        if not 0 < float(args.scale) <= 1000 or not 1 <= args.workers <= 1024:
            raise ValueError
    except ValueError:
        p.error("--scale must be a number up to 1000, and --workers a number from 1 to 1024")
    for worker in range(args.workers):
        for table in TABLES:
            path = os.path.join(args.directory, str(worker), f"{table}.tbl")
            if os.path.exists(path):
                sys.exit(f"tpch.py: {path} already exists; remove it, or name another directory")
    program = installed(os.path.abspath(args.tool))
    for worker in range(args.workers):
        make_worker(program, args, worker)
    print(f"{args.directory}: TPC-H of scale {args.scale}, over {args.workers} workers")


if __name__ == "__main__":
    main()
