# SPDX-License-Identifier: GPL-2.0-only
"""data/tpch.py makes the same TPC-H rows for any number of workers, readable with its schemas, from the pinned version."""
import datetime
import hashlib
import os
import re
import struct
import subprocess
import sys

import pytest

from lab import TOP

SCRIPT = os.path.join(TOP, "data", "tpch.py")
TOOL = os.path.join(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")), "tpch")
# The rows of scale 0.01 by the standard, and lineitem's rows as dbgen makes them
ROWS = {"region": 5, "nation": 25, "supplier": 100, "customer": 1500, "part": 2000, "partsupp": 8000, "orders": 15000,
        "lineitem": 60175}
CONTENT = "61feac9546397fd0298b420291d5300046b4725ad722b09472067b94a5cda905"
TYPES = {"text": str, "date": datetime.date.fromisoformat, "real": lambda text: struct.pack("f", float(text)),
         "int32": lambda text: struct.pack("i", int(text)), "int64": lambda text: struct.pack("q", int(text))}


def tpch(directory, *argv, tool=TOOL):
    return subprocess.run([sys.executable, "-B", SCRIPT, str(directory), "--scale", "0.01", "--tool", tool, *argv], text=True,
                          capture_output=True, timeout=1200)


def made(directory, workers):
    p = tpch(directory, "--workers", str(workers))
    if "from PyPI" in p.stderr:
        pytest.skip(f"tpchgen-cli is not here: {p.stderr.strip()}")
    assert p.returncode == 0 and not p.stderr, p.stderr
    assert sorted(os.listdir(directory)) == [str(w) for w in range(workers)]
    return [{name: (directory / str(w) / name).read_text() for name in sorted(os.listdir(directory / str(w)))} for w in range(workers)]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tpch"), 3)


def test_rows(three):
    whole = hashlib.sha256()
    for worker in three:
        assert sorted(worker) == sorted(f"{table}.{end}" for table in ROWS for end in ("schema", "tbl"))
    for table, rows in ROWS.items():
        content = "".join(worker[f"{table}.tbl"] for worker in three)
        assert content.count("\n") == rows
        whole.update(content.encode())
    assert whole.hexdigest() == CONTENT
    assert all(len(worker["lineitem.tbl"]) > 1 << 20 for worker in three)


def test_schemas(three):
    """A schema has as many columns as rows have fields, and each field is a value of its type."""
    for worker in three:
        for table in ROWS:
            columns = re.findall(r"^([a-z_]+) (\w+) not null$", worker[f"{table}.schema"], re.M)
            assert len(columns) == worker[f"{table}.schema"].count("\n") and len(dict(columns)) == len(columns)
            for row in worker[f"{table}.tbl"].splitlines()[::50]:
                *fields, behind = row.split("|")
                assert len(fields) == len(columns) and not behind
                for (name, kind), field in zip(columns, fields):
                    assert field and TYPES[kind](field), (name, field)


def test_workers(three, tmp_path):
    one, = made(tmp_path, 1)
    for name, content in one.items():
        assert content == (three[0][name] if name.endswith("schema") else "".join(worker[name] for worker in three))


def test_refusals(three, tmp_path):
    assert made(tmp_path / "a", 2)
    p = tpch(tmp_path / "a")
    assert p.returncode == 1 and "a/0/region.tbl already exists" in p.stderr
    for argv in (["--workers", "0"], ["--scale", "x"], ["--scale", "nan"]):
        p = tpch(tmp_path / "b", *argv)
        assert p.returncode == 2 and "--scale must be a number" in p.stderr and not os.path.exists(tmp_path / "b")


def test_another_file_is_not_installed(three, tmp_path):
    for name in ("tpch.py", "tpch.txt"):
        with open(os.path.join(TOP, "data", name), encoding="utf-8") as f:
            (tmp_path / name).write_text(re.sub("sha256:....", "sha256:0000", f.read()))
    p = subprocess.run([sys.executable, "-B", tmp_path / "tpch.py", tmp_path / "out", "--tool", tmp_path / "tool"], text=True,
                       capture_output=True)
    if "hash" not in p.stderr.lower():
        pytest.skip(f"PyPI is out of reach: {p.stderr.strip()}")
    assert p.returncode == 1 and not os.path.exists(tmp_path / "out") and not os.path.exists(tmp_path / "tool" / "bin")


def test_version():
    """The script looks for the same version that it asks pip for, and gives pip a checksum."""
    with open(os.path.join(TOP, "data", "tpch.txt"), encoding="utf-8") as f:
        version, = re.findall(r"^tpchgen-cli==(\S+) --hash=sha256:[0-9a-f]{64}$", f.read(), re.M)
    with open(SCRIPT, encoding="utf-8") as f:
        assert re.findall(r'^VERSION = "(.*)"$', f.read(), re.M) == [version]
