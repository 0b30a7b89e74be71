# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for arm64. The parts that tests share are in tests/lib."""
import os
import sys

sys.dont_write_bytecode = True
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, part) for part in ("lib", "package")]


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes under emulation: make test-long")
