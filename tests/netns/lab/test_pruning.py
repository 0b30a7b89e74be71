# SPDX-License-Identifier: GPL-2.0-only
"""In bench/pruning.py every way to prune gives the same answer, over shaped links."""
import json
import os
import subprocess
import sys

import pytest

from lab import BUILD, TOP


@pytest.mark.long
def test_every_way():
    p = subprocess.run([sys.executable, "-B", os.path.join(TOP, "bench", "pruning.py"), "--workers", "2", "--rows", "200000", "--rounds", "1"],
                       text=True, capture_output=True, timeout=600, env={**os.environ, "FPISA_BUILD": BUILD})
    assert p.returncode == 0, p.stdout + p.stderr
    lines = {line["question"]: line for line in map(json.loads, p.stdout.splitlines())}
    assert set(lines) == {"topn", "groups"}
    for line in lines.values():
        # This number of 16-byte rows takes half a second at 100 Mbit/s. If the time is shorter, the link was not shaped.
        assert line["none"] > 400000 * 16 * 8 / 1e8 and line["rows"] == 400000 == line["received"]["none"]
        assert line["received"]["network"] < 8000 and line["speedup"] > 0
