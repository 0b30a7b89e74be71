# SPDX-License-Identifier: GPL-2.0-only
"""Every public function of both libraries refuses NULL for a pointer that it needs."""
import os
import sys

import pytest

from lab import BUILD, HERE, LIBRARY

pytestmark = pytest.mark.families(spread=True)


def test_null_for_each_pointer(groups):
    g = groups(1)
    rc, out, err = g.net.worker[0].try_run(sys.executable, "-B", os.path.join(HERE, "nulls.py"), LIBRARY, os.path.join(BUILD, "libfpisa-query.so"),
                                           g.net.address, g.key)
    assert rc == 0 and out.splitlines()[-1].startswith("right "), (rc, out[-300:], err)
    assert int(out.splitlines()[-1].split()[1]) > 30
