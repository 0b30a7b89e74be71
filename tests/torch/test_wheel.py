# SPDX-License-Identifier: GPL-2.0-only
"""Make the wheels of adapters/python and adapters/torch with pip as doc/torch.md says, in a separate environment without a network. `make
test-long` runs this test, because it compiles the extension again."""
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, TOP

MODULES = {"torch": "python3-torch", "pip": "python3-pip", "setuptools": "python3-setuptools", "wheel": "python3-wheel"}
PROGRAM = """
import importlib.metadata, sys, torch.distributed as dist, fpisa, fpisa.torch
assert any(r.startswith("fpisa[network]") for r in importlib.metadata.requires("fpisa-torch"))  # numpy is an extra of fpisa
assert all(m.__file__.startswith(sys.prefix) for m in (fpisa, fpisa.torch, fpisa.torch._backend)), fpisa.torch.__file__
fpisa.torch.configure("127.0.0.1:9", key_file="")
try:
    dist.init_process_group("fpisa", init_method="file://" + sys.argv[1], rank=0, world_size=1)
except fpisa.Error as e:
    print(e)
"""


@pytest.mark.long
def test_wheels(tmp_path):
    """If both are installed, the backend loads and looks for a manager."""
    for module, package in MODULES.items():
        if not importlib.util.find_spec(module):
            pytest.skip(f"{package} is not installed; make test installs it")
    if not os.path.exists("/usr/include/torch/csrc/distributed/c10d/ProcessGroup.hpp"):
        pytest.skip("libtorch-dev is not installed; make test installs it")
    tree = tmp_path / "tree"  # the build writes files beside its sources
    for part in "adapters/python", "adapters/torch", "include":
        shutil.copytree(os.path.join(TOP, part), tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "FPISA_BUILD": BUILD, "FPISA_LIBRARY": os.path.join(BUILD, "libfpisa.so")}

    def run(*argv):
        return subprocess.run([str(a) for a in argv], check=True, text=True, stdout=subprocess.PIPE, env=env).stdout

    pip = "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "-q"
    for part in "python", "torch":
        run(sys.executable, *pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path, tree / "adapters" / part)
    wheels = sorted(tmp_path.glob("*.whl"))
    assert [w.name.split("-")[0] for w in wheels] == ["fpisa", "fpisa_torch"]
    run(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python3"
    run(python, *pip, "install", "--no-index", "--no-deps", *wheels)
    assert "127.0.0.1" in run(python, "-B", "-c", PROGRAM, tmp_path / "store")
