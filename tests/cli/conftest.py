# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for the command line's tests: the paths of shared parts, and the table of verbs from which the manual is made."""
import os
import sys

sys.dont_write_bytecode = True
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(TOP, part) for part in ("tests/lib", "doc/man")]
