# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for root directories of other releases. tests/lib has the parts that tests share. The table of all counts is printed at the
end."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import table  # noqa: E402 - it needs tests/lib


def pytest_terminal_summary(terminalreporter):
    for line in table.lines():
        terminalreporter.write_line(line)
