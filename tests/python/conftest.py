# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for Python: the package of these sources, over the library built from them"""
import os
import sys

sys.dont_write_bytecode = True
TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))
os.environ["FPISA_LIBRARY"] = os.path.join(BUILD, "libfpisa.so")
os.environ["FPISA_SUMS"] = os.path.join(BUILD, "python", "libsums.so")
sys.path[:0] = [os.path.join(TOP, part) for part in ("adapters/python", "tests/lib")]

from seeds import rng  # noqa: E402, F401
