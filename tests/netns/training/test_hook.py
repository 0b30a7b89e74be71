# SPDX-License-Identifier: GPL-2.0-only
"""Test the communication hook of adapters/python under DistributedDataParallel, over the network."""
import importlib.util
import os
import re

import pytest

from lab import HERE, TOP
from training import Training, outputs

PACKAGE = os.path.join(TOP, "adapters", "python")
HOOKS = os.path.join(HERE, "torch_hooks.py")

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"),
                                reason="python3-torch is not installed; make test installs it")


def test_hook(lab, tmp_path):
    """With several ranks and buckets, all ranks have the same weights, equal to the weights from Gloo's averages."""
    net = lab(workers=3, bridge=True)
    net.load()
    training = Training(net, str(tmp_path), PACKAGE)
    outs = outputs(training.start_ranks(HOOKS))
    assert len(set(outs)) == 1 and re.fullmatch(r"(float\d\d \w+ \w+ right\n){3}", outs[0]), outs
    training.empty()
