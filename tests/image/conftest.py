# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for containers: private mounts, a BPF filesystem, networks"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from fixtures import bpffs, family, lab, mounts, shared  # noqa: E402, F401
