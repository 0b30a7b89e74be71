#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Test exact sums and queries in the engines of PyPI: tests/doors/run.py BUILD [--install | PYTEST ARGUMENT...]. Install the engines into
BUILD/doors once. With --install do no more. Without PyPI the exit status is 77."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# packages that need other versions of the engines or of their parts, each in a folder
APART = {"extension": ["duckdb-extensions", "duckdb-extension-postgres-scanner"], "dbt": ["dbt-core", "dbt-postgres"]}
ENGINES = ["pandas", "polars", "pyarrow", "duckdb", "datafusion", "dask[dataframe]", "ray", "pyspark", "hypothesis", "pytest", "xsum", "ml_dtypes", "adbc-driver-postgresql"]


def environment(build):
    """Return the interpreter of an environment that has all engines, or None."""
    place = os.path.join(build, "doors")
    python, whole = os.path.join(place, "bin", "python3"), os.path.join(place, "whole")
    if os.path.exists(whole):
        with open(whole) as f:
            if f.read().split() == [*ENGINES, *APART]:
                return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", place], check=True)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", python, "install", "--retries", "1"]
    if subprocess.run([*pip, "numpy"]).returncode:
        return None
    for engine in ENGINES:  # the test skips an engine that has no wheel for this Python
        subprocess.run([*pip, engine])
    for name, packages in APART.items():
        subprocess.run([*pip, "--only-binary", ":all:", "--target", os.path.join(place, name), *packages])
    with open(whole, "w") as f:
        print(*ENGINES, *APART, file=f)
    return python


def main():
    build = os.path.abspath(sys.argv[1])
    python = environment(build)
    if not python:
        print("skip: PyPI cannot be reached", file=sys.stderr)
        return 77
    if sys.argv[2:] == ["--install"]:
        return 0
    argv = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[2:], HERE]
    return subprocess.run(argv, env={**os.environ, "FPISA_BUILD": build}).returncode


if __name__ == "__main__":
    sys.exit(main())
