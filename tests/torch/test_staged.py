# SPDX-License-Identifier: GPL-2.0-only
"""Test the backend with tensors on an accelerator. An imitated device (accelerator.cpp) shows that copies wait for the values that they
need. tests/lib/torch_staged.py describes each check. With a GPU, run it by hand as doc/torch.md says. `make test-long` runs this test."""
import os
import subprocess

import pytest

from conftest import BUILD, TOP
from test_versions import NEWEST, OLDEST, built

LIB = os.path.join(TOP, "tests", "lib")
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
setup(name="accelerator", ext_modules=[CppExtension("accelerator", ["accelerator.cpp"], extra_compile_args=["-O1", "-g0"])],
      cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
"""
CHECKS = """types_and_operations large not_contiguous asynchronous streams freed completed coalesced futures parts premultiplied inference
reports refusals destroyed written_after_an_error half_summed_is_no_input aborted left_in_a_callback forked deadline second_device inner_missing""".split()
pytestmark = pytest.mark.long


def compiled(python, folder):
    """Build the imitated device for this PyTorch. Return its path."""
    os.symlink(os.path.join(LIB, "accelerator.cpp"), folder / "accelerator.cpp")
    p = subprocess.run([python, "-B", "-c", SETUP, "-q", "build_ext", "--build-lib", ".", "--build-temp", "obj"], cwd=folder, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert p.returncode == 0, p.stdout[-5000:]
    path, = folder.glob("accelerator*.so")
    return path


@pytest.mark.parametrize("version", [NEWEST, OLDEST])
def test_imitated_device(version, tmp_path):
    package = built(version)
    python = os.path.join(package, "env", "bin", "python")
    groups = tmp_path / "mem_group.so"
    subprocess.run(["gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", f"-I{TOP}/include", "-o", groups, f"{LIB}/mem_group.c", f"-L{BUILD}",
                    "-lfpisa"], check=True)
    p = subprocess.run([python, "-B", os.path.join(LIB, "torch_staged.py"), compiled(python, tmp_path)], text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=600,
                       env={**os.environ, "LD_PRELOAD": str(groups), "LD_LIBRARY_PATH": BUILD, "FPISA_LIBRARY": f"{BUILD}/libfpisa.so.1",
                            "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join([package, LIB])})
    passed = [line.split()[0] for line in p.stdout.splitlines() if " passed" in line]
    assert p.returncode == 0 and passed == CHECKS, p.stdout[-5000:]
