# SPDX-License-Identifier: GPL-2.0-only
"""Test the backend with PyTorch from PyPI, in the newest and the oldest supported version, and with Debian's. `make test-long` runs this
test."""
import os
import re
import subprocess
import sys

import pytest

from conftest import BUILD, TOP

NEWEST = subprocess.check_output(["make", "-s", "--no-print-directory", "-C", TOP, "print-TORCH_NEWEST"], text=True).strip()  # as in `make test`
OLDEST, DEBIAN = "2.4.1", ""
FRAMEWORKS = ["accelerate==1.15.0", "lightning==2.6.6"]
THEIR_NEEDS = ["huggingface_hub", "lightning-utilities", "packaging", "psutil", "pyyaml", "safetensors", "torchmetrics", "tqdm"]
TESTS = os.path.join(TOP, "tests", "netns", "training")
pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]


def built(version):
    """Return the directories of the package and of the environment for a version."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    p = subprocess.run(["make", "-C", TOP, f"B={BUILD}", f"TORCH={version}", "torch"], text=True, capture_output=True, env=env)
    if "pip could not install" in p.stderr:
        pytest.skip(f"no network, or torch {version} has no wheel for this Python: {p.stderr[-300:]}")
    if "the headers of PyTorch are not installed" in p.stderr:
        pytest.skip(p.stderr.strip())
    assert p.returncode == 0, p.stdout + p.stderr
    return os.path.join(BUILD, f"torch-{version}" if version else "torch")


def install(version, *packages):
    """Install packages into the environment, without the libraries of CUDA that PyTorch requires."""
    p = subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python",
                        os.path.join(built(version), "env", "bin", "python"), "install", "--no-deps", *packages], text=True, capture_output=True)
    if p.returncode:
        pytest.skip("no network: pip could not install " + ", ".join(packages))


def run(version, test, passed):
    """Run a file of tests with this version."""
    p = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider",
                        os.path.join(TESTS, test)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env={**os.environ, "FPISA_TORCH": built(version), "PYTEST_ADDOPTS": "", "FPISA_BUILD": BUILD})
    assert p.returncode == 0 and re.search(rf"^{passed} passed", p.stdout, re.M), p.stdout[-5000:]
    print("".join(re.findall("^table: .*\n", p.stdout, re.M)))


@pytest.mark.parametrize("version", [NEWEST, OLDEST, DEBIAN])
def test_backend(version):
    """The tests of the backend over the network pass."""
    run(version, "test_torch.py", 5)


def test_who_performs_a_call():
    run(NEWEST, "test_torch_calls.py", 1)


def test_digests():
    run(NEWEST, "test_torch_digests.py", 2)


def test_cost_of_a_group():
    run(NEWEST, "test_torch_groups.py", 9)


def test_wheels():
    run(NEWEST, "test_torch_wheels.py", 1)


def test_frameworks():
    install(NEWEST, *FRAMEWORKS, *THEIR_NEEDS)
    run(NEWEST, "test_torch_frameworks.py", 3)


def test_suite_of_pytorch():
    install(NEWEST, "expecttest")
    run(NEWEST, "test_torch_upstream.py", 1)
