# SPDX-License-Identifier: GPL-2.0-only
"""Marks."""


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a part of `make test-long`")
