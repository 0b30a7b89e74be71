# SPDX-License-Identifier: GPL-2.0-only
"""Test the backend of adapters/torch over the network: the specification of torch.distributed for all-reduce, training with
DistributedDataParallel, torchrun, and a rank that is killed."""
import os
import re
import sys

import pytest

from lab import BUILD, HERE, TOP, once_within
from training import Training, kill_rank_1, outputs

# `make test` names the folder of `make torch TORCH=VERSION`. Its env/ has that version.
PACKAGE = os.environ.get("FPISA_TORCH", os.path.join(BUILD, "torch"))
PYTHON = next(filter(os.path.exists, [os.path.join(PACKAGE, "env", "bin", "python")]), sys.executable)
EXAMPLE = os.path.join(TOP, "adapters", "torch", "examples", "ddp.py")
SWEEP = os.path.join(HERE, "torch_sweep.py")
PAGE = os.path.join(TOP, "doc", "torch.md")

pytestmark = pytest.mark.skipif(not os.path.exists(os.path.join(PACKAGE, "built")),
                                reason=f"{os.path.relpath(PACKAGE, TOP)} is not there: pip could not install this PyTorch; is PyPI reachable?" if "FPISA_TORCH" in os.environ else
                                "build/torch is not there: python3-torch, libtorch-dev or pybind11-dev is not installed; "
                                "make test-long installs them")


@pytest.fixture
def training(lab, tmp_path):
    """Yield training(workers)."""
    made = []

    def make(workers):
        net = lab(workers=workers, bridge=True)
        net.load()
        made.append(Training(net, str(tmp_path), PACKAGE, PYTHON))
        return made[-1]

    yield make
    for t in made:
        t.close()


def digest(outs):
    """Check that the loss has fallen. Return the digest of the weights, which all ranks must share."""
    found = [re.search(r"rank \d: loss ([0-9.]+) -> ([0-9.]+), weights (\w+), flags", out) for out in outs]
    assert all(found), outs
    assert all(float(m[2]) < 0.9 * float(m[1]) for m in found), outs
    assert len({m[3] for m in found}) == 1, outs
    return found[0][3]


def test_sweep(training):
    """Each check has a line in the page, and passes."""
    t = training(3)
    outs = outputs(t.start_ranks(SWEEP))
    names = [[line.split()[0] for line in out.splitlines()] for out in outs]
    with open(PAGE) as f:
        listed = re.findall(r"^\| `(\w+_\w+|[a-z]+)` \| ", f.read().split("## What holds")[1].split("\n## ")[0], re.M)
    assert names[0] == names[1] == names[2] == listed
    t.empty()


def test_exact_training_is_reproducible(training):
    """Four ranks with a million parameters have one digest over ranks, runs and sizes of buckets."""
    t, digests = training(4), set()
    for bucket in 1, 1, 0.2:
        digests.add(digest(outputs(t.start_ranks(EXAMPLE, "--steps", 8, "--mode", "exact", "--bucket-mb", bucket))))
        t.empty()
    assert len(digests) == 1


@pytest.mark.long
def test_torchrun(training):
    """The example runs under torchrun as the page says."""
    t = training(2)
    with open(PAGE) as f:
        options = re.search(r" torchrun (-r 1 -t 1) --nnodes=4 ", f.read())[1].split()
    digest(outputs([w.spawn(PYTHON, "-B", "-m", "torch.distributed.run", *options, "--nnodes=2", f"--node_rank={r}",
                            f"--master_addr={t.net.addresses[0]}", f"--log_dir={t.folder}", EXAMPLE, "--steps", 8, env=t.environment(r))
                    for r, w in enumerate(t.net.worker)]))
    t.empty()


def kill_and_settle(training):
    took = kill_rank_1(training.start_ranks(EXAMPLE, "--steps", 100000))
    training.empty()
    return took


BROADCASTS = """
import os, sys, torch, torch.distributed as dist, fpisa.torch
fpisa.torch.configure(broadcast="fpisa")
dist.init_process_group("fpisa")
t = torch.zeros(30000)
dist.broadcast(t, 1)
print(f"rank {os.environ['RANK']}: training", flush=True)
try:
    while True:
        dist.broadcast(t, 1)
except RuntimeError as e:
    sys.exit(f"rank {os.environ['RANK']}: {e}")
"""


def test_root_that_is_killed(training):
    """After the root of broadcasts is killed, the other ranks get an error that names it."""
    t = training(3)
    kill_rank_1(t.start_ranks("-c", BROADCASTS))
    t.empty()


@pytest.mark.alone
def test_rank_that_is_killed(training):
    """After a rank is killed, backward() of the other ranks ends within a second, with an error that names the rank."""
    t = training(4)
    once_within(1, lambda: kill_and_settle(t))
