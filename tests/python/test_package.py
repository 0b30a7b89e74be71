# SPDX-License-Identifier: GPL-2.0-only
"""Build and install the wheel without a network, and run the programs of doc/python.md."""
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


TWO = "assert fpisa.sum([1e100, 1, -1e100]) == 1 and fpisa.Accumulator([0.5]).merge(fpisa.Accumulator([1]).to_bytes()).value() == 1.5"


def pip(*argv):
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "-q", *map(str, argv)], check=True)


def test_wheel(tmp_path):
    """The wheel is made only from a source distribution. In an environment without other packages sums work, and groups report that numpy
    is missing."""
    for module in "pip", "setuptools", "wheel":
        if not importlib.util.find_spec(module):
            pytest.skip(f"python3-{module} is not installed; make test installs it")
    tree = tmp_path / "tree"  # the build writes files beside its sources
    for part in "adapters/python", "include/fpisa":
        shutil.copytree(os.path.join(TOP, part), tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-B", "setup.py", "-q", "sdist", "-d", tmp_path], cwd=tree / "adapters/python", check=True)
    source, = tmp_path.glob("*.tar.gz")
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path, source)
    wheel, = tmp_path.glob("*.whl")
    assert wheel.name == f"fpisa-{fpisa.__version__}-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as z:
        names = {n for n in z.namelist() if n.startswith("fpisa/")}
        z.extractall(tmp_path / "root")
    assert names == {"fpisa/" + n for n in os.listdir(os.path.join(SOURCE, "fpisa")) if n != "__pycache__"} | {"fpisa/libsums.so"}
    program = "import fpisa; m = fpisa.Mem(1); m.connect(0).close(); m.close(); print(fpisa.__file__)"
    env = {k: v for k, v in os.environ.items() if k != "FPISA_SUMS"}
    out = subprocess.run([sys.executable, "-B", "-c", program], env={**env, "PYTHONPATH": str(tmp_path / "root")},
                         check=True, text=True, capture_output=True).stdout
    assert out.startswith(str(tmp_path / "root"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python3"
    pip("--python", python, "install", "--no-index", "--no-deps", wheel)
    subprocess.run([python, "-c", f"import fpisa; {TWO}"], env=env, check=True)
    p = subprocess.run([python, "-c", "import fpisa; fpisa.Group"], env=env, text=True, capture_output=True)
    assert p.returncode == 1 and "numpy" in p.stderr


async def many(reducer, handle):
    """Make calls that are in progress at the same time."""
    r = reducer(handle)
    try:
        return await asyncio.wait_for(asyncio.gather(*(r.allreduce(np.full(1000 * i + 1, i, "f4")) for i in range(9))), 60)
    finally:
        r.close()


def test_page():
    """The page's programs compile, and those over mem run. The page has every name that doc/sums.md lacks."""
    with open(os.path.join(TOP, "doc", "python.md")) as f:
        text = f.read()
    with open(os.path.join(TOP, "doc", "sums.md")) as f:
        sums = f.read()
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
        assert re.search(rf"(`|fpisa\.){name}\b", text + sums), name
