# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures for packages: private mounts, a BPF filesystem, networks, and the interfaces for other programs by version"""
import os
import sys

sys.dont_write_bytecode = True
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, part) for part in ("lib", "tree")]

from fixtures import bpffs, family, lab, mounts, shared  # noqa: E402, F401
