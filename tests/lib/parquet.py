# SPDX-License-Identifier: GPL-2.0-only
"""Parquet for tests: a driver in place of DuckDB, and DuckDB from PyPI. DuckDB writes the tests' Parquet files, reads them for workers, and
answers the same statements."""
import fcntl
import glob
import importlib
import os
import subprocess
import sys

import pytest

from postgres import BUILD

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PLACE = os.path.join(BUILD, "duckdb-driver")


def install():
    """Install DuckDB into the build folder, once. Skip the test if that fails."""
    os.makedirs(BUILD, exist_ok=True)
    with open(PLACE + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(PLACE):
            p = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--only-binary",
                                ":all:", "--target", PLACE + ".new", "duckdb"], capture_output=True, text=True)
            if p.returncode:
                pytest.skip("pip could not fetch duckdb: " + (p.stderr.strip().splitlines() or [""])[-1])
            os.rename(PLACE + ".new", PLACE)


def engine():
    """Return the module duckdb and the environment in which a worker finds its library. Skip the test if DuckDB is missing."""
    install()
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
