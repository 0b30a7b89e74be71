# SPDX-License-Identifier: GPL-2.0-only
"""Run paper/training with the library that was built, on random images, so that nothing is downloaded."""
import os
import subprocess
import sys

import pytest

sys.dont_write_bytecode = True
TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
os.environ["FPISA_LIBRARY"] = os.path.join(BUILD, "libfpisa.so")
sys.path[:0] = [os.path.join(TOP, part) for part in ("paper/training", "adapters/python", "tests/lib")]

from seeds import rng  # noqa: E402, F401


@pytest.fixture
def sweep():
    """Yield sweep(records, ...), which runs paper/training/sweep.py on noise, one step of VGG in fp32, and returns its output."""
    def run(records, *options, status=0):
        p = subprocess.run([sys.executable, "-B", os.path.join(TOP, "paper", "training", "sweep.py"), BUILD, "--records", records,
                            "--data", "noise:320", "--epochs", "1", "--models", "vgg", "--formats", "fp32", "--processes", "1", *options],
                           text=True, capture_output=True, timeout=300)
        assert p.returncode == status, p.stdout + p.stderr
        return p.stdout + p.stderr

    return run
