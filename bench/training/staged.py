#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Time an all-reduce of CUDA tensors by backend "fpisa" over transport `mem`: two ranks, threads that share a GPU.

    staged.py [MB]

The environment is that of tests/lib/torch_threads.py. The table has medians of three rounds, in ms: `copy`, both ranks copy the
tensor to pinned memory and back in chunks of 4 MB; `sum`, the all-reduce of a tensor of the CPU; `plain`, a copy of the whole
tensor to the CPU, its all-reduce, and a copy back; `staged`, the all-reduce of the CUDA tensor; and `staged` to the larger of
`copy` and `sum`.
"""
import os
import statistics
import sys
import threading
import time

import torch
import torch.distributed as dist

from torch_threads import run

ROUNDS, CHUNK = 3, 1 << 20
RANKS = 2
start = threading.Barrier(RANKS)


def copy(t, streams, buffers):
    """Copy chunks to the buffers and back. Copy each chunk back when it has arrived, which frees its buffer."""
    back = []
    for k, part in enumerate(t.split(CHUNK)):
        buffer = buffers[k % len(buffers)][:len(part)]
        with torch.cuda.stream(streams[0]):
            if k >= len(buffers):
                streams[0].wait_event(back[k - len(buffers)])
            buffer.copy_(part, non_blocking=True)
            out = streams[0].record_event()
        with torch.cuda.stream(streams[1]):
            streams[1].wait_event(out)
            part.copy_(buffer, non_blocking=True)
            back.append(streams[1].record_event())


def measure(mode, mb):
    result = {}

    def rank_of(rank, size):
        t = torch.randn(mb << 18, device="cuda")
        host = t.cpu()
        streams, buffers = [torch.cuda.Stream() for _ in range(2)], [torch.empty(CHUNK).pin_memory() for _ in range(8)]

        def plain():
            host.copy_(t)
            dist.all_reduce(host)
            t.copy_(host)

        ways = {"copy": lambda: copy(t, streams, buffers), "sum": lambda: dist.all_reduce(host), "plain": plain,
                "staged": lambda: dist.all_reduce(t)}
        for name, way in ways.items():
            for _ in range(ROUNDS + 1):
                torch.cuda.synchronize()
                start.wait()
                began = time.monotonic()
                way()
                torch.cuda.synchronize()
                start.wait()
                if rank == 0:
                    result.setdefault(name, []).append((time.monotonic() - began) * 1e3)

    run(RANKS, rank_of, mode=mode)
    return {name: statistics.median(times[1:]) for name, times in result.items()}


def main():
    mb = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    torch.set_num_threads(1)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {mb} MB of float32, {RANKS} ranks")
    for mode in "fpisa", "fpisa64", "exact":
        row = measure(mode, mb)
        print(mode, *(f"{name} {ms:.0f}" for name, ms in row.items()), f"ratio {row['staged'] / max(row['copy'], row['sum']):.2f}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
