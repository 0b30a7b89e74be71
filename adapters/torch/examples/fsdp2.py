#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Train with fully_shard() (FSDP2, PyTorch 2.6 or later) and the backend fpisa. Run it with torchrun on each host:

    FPISA_MANAGER=AGGREGATOR torchrun --nnodes=HOSTS --node_rank=R --master_addr=HOST0 fsdp2.py

An MLP of a million parameters learns to tell clusters of points apart. Each rank keeps a part of the parameters. With
--replicas 2 there are two copies of the parameters, and each copy is sharded (HSDP).
"""
import argparse
import hashlib
import sys

import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

import fpisa.torch

FEATURES, CLASSES, BATCH = 64, 10, 16


def make_net(replicas: int) -> torch.nn.Module:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(FEATURES, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024),
                              torch.nn.ReLU(), torch.nn.Linear(1024, CLASSES))
    size = torch.distributed.get_world_size()
    if replicas == 1:
        mesh = init_device_mesh("cpu", (size,))
    else:
        mesh = init_device_mesh("cpu", (replicas, size // replicas), mesh_dim_names=("replicate", "shard"))
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def digest(net: torch.nn.Module) -> str:
    whole = [p.full_tensor().detach().clone().numpy().tobytes() for p in net.parameters()]
    return hashlib.sha256(b"".join(whole)).hexdigest()[:16]


def train(steps: int, replicas: int) -> None:
    rank = torch.distributed.get_rank()
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(2))
    draw = torch.Generator().manual_seed(100 + rank)
    net = make_net(replicas)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        y = torch.randint(0, CLASSES, (BATCH,), generator=draw)
        x = centres[y] + torch.randn(BATCH, FEATURES, generator=draw)
        loss = cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"rank {rank}: loss {losses[0]:.2f} -> {losses[-1]:.2f}, weights {digest(net)}, "
          f"flags {fpisa.torch.flags()!r}", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--mode", default="fpisa64", help="of the sums: fpisa, fpisa64 or exact")
    p.add_argument("--replicas", type=int, default=1)
    args = p.parse_args()
    torch.set_num_threads(1)
    fpisa.torch.configure(mode=args.mode)
    torch.distributed.init_process_group("fpisa")
    try:
        train(args.steps, args.replicas)
    except RuntimeError as e:
        sys.exit(f"rank {torch.distributed.get_rank()}: {e}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
