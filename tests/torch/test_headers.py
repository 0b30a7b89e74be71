# SPDX-License-Identifier: GPL-2.0-only
"""Compile adapters/torch against the headers of the newest PyTorch, from its wheel. `make test-long` runs this test."""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# All platforms have the same headers. Use a wheel without CUDA, because wheels for Linux contain CUDA and are several times larger.
PLATFORM = ["--platform", "macosx_14_0_arm64", "--platform", "macosx_11_0_arm64", "--python-version", "3.11"]


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """Return the folder torch/include of the newest wheel."""
    if not importlib.util.find_spec("pip"):
        pytest.skip("python3-pip is not installed; make test installs it")
    folder = tmp_path_factory.mktemp("wheel")
    p = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "download", "-q", "--no-deps",
                        "--only-binary=:all:", *PLATFORM, "-d", folder, "torch"], text=True, capture_output=True)
    if p.returncode:
        pytest.skip("no network: pip could not fetch a wheel of torch: " + (p.stderr.strip().splitlines() or [""])[-1])
    wheel, = glob.glob(f"{folder}/*.whl")
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder, [n for n in z.namelist() if n.startswith("torch/include/")])
    os.remove(wheel)
    print(os.path.basename(wheel))
    yield os.path.join(folder, "torch", "include")
    shutil.rmtree(folder)


def compiles(headers, source):
    """Return the errors of the compiler. A method that should override another and does not is an error."""
    python = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(python, "Python.h")):
        pytest.skip("python3-dev is not installed; make test installs it")
    p = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DTORCH_EXTENSION_NAME=_backend",
                        f"-I{TOP}/include", f"-I{TOP}/adapters/torch", "-isystem", headers, "-isystem",
                        f"{headers}/torch/csrc/api/include", "-isystem", python, source],
                       text=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    return p.stderr if p.returncode else ""


@pytest.mark.long
def test_backend_of_the_newest(headers, tmp_path):
    source = os.path.join(TOP, "adapters", "torch", "backend.cpp")
    assert not compiles(headers, source)
    with open(source) as f:
        text = f.read()
    other = text.replace("Pending barrier(const", "Pending barrier_of(const")
    assert other != text
    (tmp_path / "other.cpp").write_text(other)
    assert "marked 'override', but does not override" in compiles(headers, tmp_path / "other.cpp")
