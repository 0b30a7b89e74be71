# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for the tree: paths of shared parts, and the scripts that write the tested files"""
import os
import sys

sys.dont_write_bytecode = True
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(TOP, part) for part in ("tests/lib", "bench", "bench/report", "bench/collective", "doc/man", "paper/training")]
