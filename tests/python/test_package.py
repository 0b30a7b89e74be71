# SPDX-License-Identifier: GPL-2.0-only
"""The wheel, built and installed without a network; what doc/python.md shows."""
import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import fpisa
from conftest import TOP

SOURCE = os.path.join(TOP, "adapters", "python")


def test_wheel(tmp_path):
    for module in "pip", "setuptools", "wheel":
        if not importlib.util.find_spec(module):
            pytest.skip(f"python3-{module} is not installed; make test installs it")
    tree = tmp_path / "python"  # a build writes beside its sources
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "-q"]
    subprocess.run([*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path, tree], check=True)
    wheel, = tmp_path.glob("*.whl")
    assert wheel.name == f"fpisa-{fpisa.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as z:
        names = {n for n in z.namelist() if n.startswith("fpisa/")}
        z.extractall(tmp_path / "root")
    assert names == {"fpisa/" + n for n in os.listdir(os.path.join(SOURCE, "fpisa")) if n != "__pycache__"}
    program = "import fpisa; m = fpisa.Mem(1); m.connect(0).close(); m.close(); print(fpisa.__file__)"
    out = subprocess.run([sys.executable, "-B", "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path / "root")},
                         check=True, text=True, capture_output=True).stdout
    assert out.startswith(str(tmp_path / "root"))


def test_version():
    with open(os.path.join(TOP, "Makefile")) as f:
        version = re.search(r"^VERSION := (.*)$", f.read(), re.M)[1]
    with open(os.path.join(SOURCE, "pyproject.toml")) as f:
        assert f'version = "{version}"' in f.read() and fpisa.__version__ == version
    with open(os.path.join(TOP, "adapters", "torch", "pyproject.toml")) as f:
        text = f.read()
    assert f'version = "{version}"' in text and f'"fpisa == {version}"' in text


async def many(reducer, handle):
    """Calls that are under way together."""
    r = reducer(handle)
    try:
        return await asyncio.wait_for(asyncio.gather(*(r.allreduce(np.full(1000 * i + 1, i, "f4")) for i in range(9))), 60)
    finally:
        r.close()


def test_page():
    """Its programs compile, those over mem run, and it has every name."""
    with open(os.path.join(TOP, "doc", "python.md")) as f:
        text = f.read()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(programs) >= 3
    for program in programs:
        compile(program, "doc/python.md", "exec")
        names = {}
        if "fpisa.Mem" in program or "asyncio" in program:
            exec(program, names)
        if "asyncio" in program:
            with fpisa.Mem(2) as mem:
                for results in mem.run(lambda handle: asyncio.run(many(names["Reducer"], handle))):
                    assert all((sums == 2 * i).all() for i, (sums, _) in enumerate(results))
    for name in fpisa.__all__:
        assert re.search(rf"(`|fpisa\.){name}\b", text), name
