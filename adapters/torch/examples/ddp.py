#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Train with DistributedDataParallel; an FPISA aggregator sums the gradients. Run it with torchrun on each host:

    FPISA_MANAGER=AGGREGATOR torchrun --nnodes=HOSTS --node_rank=R --master_addr=HOST0 ddp.py

An MLP of a million parameters learns to tell clusters of points apart. With --mode exact, sums are exact and rounded once.
So every run ends with the same weights, whatever buckets the gradients travel in.
"""
import argparse
import hashlib
import sys

import torch
import torch.distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import fpisa.torch

FEATURES, CLASSES, BATCH = 64, 10, 16


def make_net() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024),
                               torch.nn.ReLU(), torch.nn.Linear(1024, CLASSES))


def digest(net: torch.nn.Module) -> str:
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()[:16]


def train(steps: int, bucket_mb: float) -> None:
    rank = torch.distributed.get_rank()
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(2))
    draw = torch.Generator().manual_seed(100 + rank)
    net = make_net()
    model = DistributedDataParallel(net, bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        y = torch.randint(0, CLASSES, (BATCH,), generator=draw)
        x = centres[y] + torch.randn(BATCH, FEATURES, generator=draw)
        loss = cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == 1:
            print(f"rank {rank}: training", flush=True)
    print(f"rank {rank}: loss {losses[0]:.2f} -> {losses[-1]:.2f}, weights {digest(net)}, "
          f"flags {fpisa.torch.flags()!r}", flush=True)
    if not rank:
        print(*(f"{e.operation} by {e.by}: {e.calls} calls, {e.bytes} bytes" for e in fpisa.torch.report()), sep="\n", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--mode", default="default", help="of the sums: fpisa, fpisa64 or exact")
    p.add_argument("--bucket-mb", type=float, default=1)
    args = p.parse_args()
    torch.set_num_threads(1)
    fpisa.torch.configure(mode=args.mode)
    torch.distributed.init_process_group("fpisa")
    try:
        train(args.steps, args.bucket_mb)
    except RuntimeError as e:
        sys.exit(f"rank {torch.distributed.get_rank()}: {e}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
