# SPDX-License-Identifier: GPL-2.0-only
"""Compare trained parameters in mode exact, with a version of PyTorch from PyPI. tests/torch/test_versions.py sets FPISA_TORCH and runs
this test."""
import json
import os

import pytest

from lab import HERE, TOP
from test_torch import digest
from training import Training, outputs

FOLDER = os.environ.get("FPISA_TORCH", "")
FSDP2 = os.path.join(TOP, "adapters", "torch", "examples", "fsdp2.py")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not FOLDER, reason="a part of torch-long: FPISA_TORCH is not set")]


@pytest.fixture
def training(lab, tmp_path):
    net = lab(workers=4, bridge=True)
    net.load()
    t = Training(net, str(tmp_path), FOLDER, os.path.join(FOLDER, "env", "bin", "python"))
    yield t
    t.close()


def test_digests(training):
    """Each way of training has one digest over equal runs, orders of the ranks, divisions into calls and layouts. Gloo's digests differ, so
    the digests can show a difference."""
    found = {b: json.loads(outputs(training.start_ranks(os.path.join(HERE, "torch_digests.py"), b))[0]) for b in ("fpisa", "gloo")}
    for way, digests in found["fpisa"].items():
        print(f"table: {way}: {len(digests)} runs, digests in exact {len(set(digests))}, Gloo {len(set(found['gloo'][way]))}")
    assert all(len(set(digests)) == 1 for digests in found["fpisa"].values()), found["fpisa"]
    assert all(len(set(found["gloo"][way])) > 1 for way in ("ddp", "fsdp", "fsdp2")), found["gloo"]
    assert len({found["fpisa"][way][0] for way in ("ddp", "fsdp", "fsdp2")}) == 1, found["fpisa"]
    training.empty()


def test_example(training):
    """The example trains, and two runs have the same bits. Parameters are sharded over four ranks, or kept as two copies over two ranks
    each."""
    for replicas in 1, 2:
        runs = [digest(outputs(training.start_ranks(FSDP2, "--steps", 8, "--mode", "exact", "--replicas", replicas))) for _ in range(2)]
        assert len(set(runs)) == 1, runs
    training.empty()
