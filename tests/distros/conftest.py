# SPDX-License-Identifier: GPL-2.0-only
"""For roots of other releases: what tests share is in tests/lib."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
