# SPDX-License-Identifier: GPL-2.0-only
"""Check the page's table of the backend that performs each call, with a version of PyTorch from PyPI. tests/torch/test_versions.py sets
FPISA_TORCH and runs this test."""
import os
import re

import pytest

from lab import HERE, TOP
from training import Training, outputs

FOLDER = os.environ.get("FPISA_TORCH", "")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not FOLDER, reason="a part of torch-long: FPISA_TORCH is not set")]


def test_table(lab, tmp_path):
    """Each row of the table agrees with the profiler's events, and each call has a row."""
    with open(os.path.join(TOP, "doc", "torch.md")) as f:
        section = f.read().split("## Who performs a call")[1].split("\n## ")[0]
    rows = [tuple(m) for m in re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.M)[1:]]
    net = lab(workers=2, bridge=True)
    net.load()
    training = Training(net, str(tmp_path), FOLDER, os.path.join(FOLDER, "env", "bin", "python"))
    out = outputs(training.start_ranks(os.path.join(HERE, "torch_calls.py")))[0]
    training.close()
    print(out)
    assert re.findall(r"^(.+): (fpisa|Gloo|fpisa, Gloo|ran|error: \w+)(?: \(.*\))?$", out, re.M) == rows
