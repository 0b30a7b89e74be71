#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print digests of trained parameters, in mode exact or with Gloo. The program is a rank of four. test_torch_digests.py starts the ranks.

    torch_digests.py fpisa|gloo

Rank 0 prints a line of JSON with the digests of the runs for each way of training. The runs of DistributedDataParallel, FSDP and FSDP2
differ in the order of the ranks' data, and in how gradients are divided into calls. The runs of HSDP put the same two ranks' data in a
pair. In "layouts", gradients are small integers, so that every sum is exact and the layouts 4 x 1 and 2 x 2 compute the same values.
"""
import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

RANK, SIZE, STEPS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 5
SAME, BACK, TURNED = (0, 1, 2, 3), (3, 2, 1, 0), (1, 2, 3, 0)
IN_PAIRS = (1, 0, 3, 2), (2, 3, 0, 1)


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 5))


def make_linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 5))


def ddp(net, bucket_mb=25):
    return DistributedDataParallel(net, bucket_cap_mb=bucket_mb)


def fsdp(net, wrap=False):
    if wrap:
        for i in 0, 2, 4:
            net[i] = FullyShardedDataParallel(net[i], device_id=torch.device("cpu"))
    return FullyShardedDataParallel(net, device_id=torch.device("cpu"))


def fsdp2(net, layers=(0, 2, 4), mesh=None):
    for i in layers:
        fully_shard(net[i], mesh=mesh)
    return fully_shard(net, mesh=mesh)


def parameters(net):
    """Return the whole parameters of the trained network as bytes."""
    if isinstance(net, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(net):
            return b"".join(p.detach().clone().numpy().tobytes() for p in net.parameters())
    whole = (p.full_tensor() if hasattr(p, "full_tensor") else p for p in net.parameters())
    return b"".join(p.detach().clone().numpy().tobytes() for p in whole)


def loss_of_noise(net, draw):
    return ((net(torch.randn(16, 24, generator=draw)) - torch.randn(16, 5, generator=draw)) ** 2).mean()


def loss_of_integers(net, draw):
    """Return a loss that is linear in the parameters, so that its gradients are integers."""
    return (net(torch.randint(-8, 9, (16, 24), generator=draw).float()) * torch.randint(-8, 9, (16, 5), generator=draw)).sum()


def train(net, order, loss=loss_of_noise):
    """Return the digest of the parameters after some steps. Rank r has the data of order[r]."""
    optimizer = torch.optim.SGD(net.parameters(), lr=2**-5, momentum=0.5)
    draw = torch.Generator().manual_seed(100 + order[RANK])
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(net, draw).backward()
        optimizer.step()
    return hashlib.sha256(parameters(net)).hexdigest()[:12]


def digests():
    pairs = init_device_mesh("cpu", (2, SIZE // 2), mesh_dim_names=("replicate", "shard"))
    orders = SAME, SAME, BACK, TURNED
    yield "ddp", [train(ddp(make_net()), order) for order in orders] + [train(ddp(make_net(), size), SAME) for size in (0.002, 0.01)]
    yield "fsdp", [train(fsdp(make_net()), order) for order in orders] + [train(fsdp(make_net(), wrap=True), SAME)]
    yield "fsdp2", [train(fsdp2(make_net()), order) for order in orders] + [train(fsdp2(make_net(), layers), SAME) for layers in ((), (2,))]
    yield "hsdp", [train(fsdp2(make_net(), mesh=pairs), order) for order in (SAME, SAME, *IN_PAIRS)]
    yield "layouts", [train(wrapped, SAME, loss_of_integers) for wrapped in
                      (ddp(make_linear()), fsdp2(make_linear(), (0,)), fsdp2(make_linear(), (0,), pairs))]


def main():
    backend, = sys.argv[1:]
    if backend == "fpisa":
        import fpisa.torch
        fpisa.torch.configure(mode="exact")
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    found = dict(digests())
    if RANK == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
