# SPDX-License-Identifier: GPL-2.0-only
"""accelerate and Lightning with the backend, as the page says. tests/torch/test_versions.py sets FPISA_TORCH and runs this."""
import os
import re
import subprocess

import pytest

from lab import HERE, TOP
from training import Training, outputs

FOLDER = os.environ.get("FPISA_TORCH", "")
PYTHON = os.path.join(FOLDER, "env", "bin", "python")
PROGRAM = os.path.join(HERE, "torch_frameworks.py")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not FOLDER, reason="a part of torch-long: FPISA_TORCH is not set")]


class ByTorchrun(Training):
    def environment(self, rank):
        """Return torchrun's variables too, from which frameworks find the ranks."""
        return {**super().environment(rank), "LOCAL_RANK": "0", "GROUP_RANK": str(rank), "LOCAL_WORLD_SIZE": "1",
                "TORCHELASTIC_RUN_ID": "test", "HOME": self.folder}


@pytest.fixture
def training(lab, tmp_path):
    net = lab(workers=2, bridge=True)
    net.load()
    t = ByTorchrun(net, str(tmp_path), FOLDER, PYTHON)
    yield t
    t.close()


def said(framework):
    """Return what the page says about a framework, after checking that the framework is installed."""
    if subprocess.run([PYTHON, "-c", f"import {framework.lower()}"], capture_output=True).returncode:
        pytest.skip(f"{framework} is not installed in the environment of PyTorch")
    with open(os.path.join(TOP, "doc", "torch.md")) as f:
        return re.search(rf"^\| {framework} \| (.*) \|$", f.read(), re.M)[1]


@pytest.mark.parametrize("framework", ["accelerate", "Lightning"])
def test_training(training, framework):
    """A step with the page's own line of code has the same bits on all ranks."""
    line = re.search("`(.*?)`", said(framework))[1]
    with open(PROGRAM) as f:
        assert line in f.read()
    outs = outputs(training.start_ranks(PROGRAM, framework.lower()))
    digests = [re.search(r"^digest (\w+)$", out, re.M)[1] for out in outs]
    assert len(set(digests)) == 1, outs
    training.empty()


def test_accelerate_refuses_the_name(training):
    """accelerate itself does not make process groups of other backends on a CPU, as the page says."""
    assert 'refuses `InitProcessGroupKwargs(backend="fpisa")`' in said("accelerate")
    for out in outputs(training.start_ranks(PROGRAM, "accelerate_refuses")):
        assert "backend fpisa is not available" in out
