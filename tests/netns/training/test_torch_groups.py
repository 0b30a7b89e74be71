# SPDX-License-Identifier: GPL-2.0-only
"""Measure what process groups cost, with a version of PyTorch from PyPI. tests/torch/test_versions.py sets FPISA_TORCH and runs this test."""
import json
import os
import subprocess

import pytest

from lab import HERE, PORT
from training import Training, outputs

FOLDER = os.environ.get("FPISA_TORCH", "")
GROUPS = 10  # of each kind
pytestmark = [pytest.mark.long, pytest.mark.skipif(not FOLDER, reason="a part of torch-long: FPISA_TORCH is not set")]


def connections(net):
    return len(net.agg.run("ss", "-Htn", "state", "established", "sport", "=", f":{PORT}").splitlines())


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("backend, keyed", [("gloo", False), ("fpisa", False), ("fpisa", True)])
def test_cost_of_a_group(lab, tmp_path, ranks, backend, keyed):
    """Each rank has one connection to the manager for all of its groups."""
    net = lab(workers=ranks, bridge=True)
    net.load()
    t = Training(net, str(tmp_path), FOLDER, os.path.join(FOLDER, "env", "bin", "python"), keyed)
    try:
        started = [w.spawn(t.python, "-B", os.path.join(HERE, "torch_groups.py"), backend, GROUPS, env=t.environment(r), stdin=subprocess.PIPE)
                   for r, w in enumerate(net.worker)]
        found = json.loads(started[0].stdout.readline())
        open_now = connections(net)
        outputs(started)
        print(f"table: {backend}, {ranks} ranks, {'with' if keyed else 'without'} a key: {open_now} connections, ms: {found}")
        assert open_now == (0 if backend == "gloo" else ranks)
        t.settle()
    finally:
        t.close()
