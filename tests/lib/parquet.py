# SPDX-License-Identifier: GPL-2.0-only
"""Parquet and Arrow for tests: a driver in place of DuckDB, and DuckDB and PyArrow from PyPI. DuckDB writes the tests' Parquet files, reads them
for workers, and answers the same statements."""
import fcntl
import glob
import importlib
import os
import pickle
import subprocess
import sys

import pytest

from postgres import BUILD

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PLACE = os.path.join(BUILD, "duckdb-driver")
PYARROW = os.path.join(BUILD, "pyarrow")


def install(place, *packages):
    """Install packages from PyPI into a directory of the build folder, once. Skip the test if that fails."""
    os.makedirs(BUILD, exist_ok=True)
    with open(place + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(place):
            p = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--only-binary",
                                ":all:", "--target", place + ".new", *packages], capture_output=True, text=True)
            if p.returncode:
                pytest.skip(f"pip could not fetch {packages[0]}: " + (p.stderr.strip().splitlines() or [""])[-1])
            os.rename(place + ".new", place)


def pyarrow():
    """Return the folder that has pyarrow. Skip the test if pyarrow is missing."""
    install(PYARROW, "pyarrow", "numpy")
    return PYARROW


def with_pyarrow(program, *argv, env=None, **options):
    """Run a Python program that finds pyarrow, and its numpy in place of the system's. Return its pickled output."""
    env = {**os.environ, **(env or {})}
    env["PYTHONPATH"] = ":".join(filter(None, (pyarrow(), env.get("PYTHONPATH"))))
    return pickle.loads(subprocess.run([sys.executable, "-B", "-c", program, *argv], stdout=subprocess.PIPE, env=env, check=True, **options).stdout)


def arrow_table(data, form):
    """Return ([(name, type, nullable)], rows as dictionaries) of a stream of Arrow's IPC ("arrow") or a Parquet file."""
    return with_pyarrow("""
import pickle, sys, pyarrow.ipc, pyarrow.parquet
stream = pyarrow.BufferReader(sys.stdin.buffer.read())
table = pyarrow.ipc.open_stream(stream).read_all() if sys.argv[1] == "arrow" else pyarrow.parquet.read_table(stream)
table.validate(full=True)
sys.stdout.buffer.write(pickle.dumps(([(f.name, str(f.type), f.nullable) for f in table.schema], table.to_pylist())))""", form, input=data)


def engine():
    """Return the module duckdb and the environment in which a worker finds its library. Skip the test if DuckDB is missing."""
    install(PLACE, "duckdb")
    sys.path.insert(0, PLACE)
    try:
        duckdb = importlib.import_module("duckdb")
    finally:
        sys.path.remove(PLACE)
    library = glob.glob(os.path.join(PLACE, "_duckdb*.so"))[0]
    python = f"libpython3.{sys.version_info.minor}.so.1.0"
    p = subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({python!r})"], capture_output=True)
    if p.returncode:
        pytest.skip(f"{python} is not installed")
    return duckdb, {**os.environ, "FPISA_DRIVER": library}


def driver(folder, name="driver.so", *options):
    """Compile driver.c into the folder, once, and return its path. Give gcc these options too."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", f"-I{TOP}/user", *options, "-o", path,
                        os.path.join(TOP, "tests", "lib", "driver.c")], check=True)
    return path
