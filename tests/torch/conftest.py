# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for torch: marks, and the paths of shared parts"""
import os

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build")))


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a part of `make test-long`")
