#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Train with DistributedDataParallel and fpisa.torch_hook, and with Gloo alone. test_hook.py starts the ranks.

torch_hooks.py"""
import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fpisa
import fpisa.torch_hook

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def train(dtype, hook):
    """Return the model's weights after some steps."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(30, 200), torch.nn.Tanh(), torch.nn.Linear(200, 200), torch.nn.Tanh(),
                              torch.nn.Linear(200, 3)).to(dtype)
    model = DistributedDataParallel(net, bucket_cap_mb=0.01)
    if hook:
        model.register_comm_hook(hook, fpisa.torch_hook.average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(20, 30, generator=torch.Generator().manual_seed(RANK), dtype=torch.float64).to(dtype)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    return torch.cat([p.detach().view(-1) for p in net.parameters()])


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with fpisa.Group(None, "hook", RANK, SIZE, join_timeout=60) as group:
        for dtype, as_type, most in (torch.float32, None, 1e-5), (torch.float64, None, 1e-12), (torch.float32, torch.float16, 1e-3):
            hook = fpisa.torch_hook.Hook(group, as_type)
            ours, theirs = train(dtype, hook), train(dtype, None)
            assert hook.error is None
            error = (ours - theirs).abs().max().item()
            assert error <= most, (dtype, as_type, error)
            assert error > 0 or as_type is None  # float16 must make a difference
            print(str(dtype).split(".")[1], str(as_type).split(".")[-1], hashlib.sha256(ours.numpy().tobytes()).hexdigest()[:16],
                  "right", flush=True)
        group.barrier()


if __name__ == "__main__":
    main()
