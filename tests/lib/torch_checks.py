# SPDX-License-Identifier: GPL-2.0-only
"""The contributions of ranks and the expected results, for all checks of torch"""
import os

import torch
import torch.distributed as dist

MODERN = torch.__version__ >= "2"
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TYPES = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float64: 1e-12}
OPS = {dist.ReduceOp.SUM: lambda x: x.sum(0), dist.ReduceOp.AVG: lambda x: x.mean(0),
       dist.ReduceOp.MIN: lambda x: x.min(0)[0], dist.ReduceOp.MAX: lambda x: x.max(0)[0]}
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def draw(seed, shape, dtype, rank):
    """Draw the contribution of a rank."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 * seed + rank), dtype=torch.float64).to(dtype)


def expected(seed, shape, dtype, op=dist.ReduceOp.SUM, ranks=range(SIZE)):
    return OPS[op](torch.stack([draw(seed, shape, dtype, r).double() for r in ranks]))


def close(got, want, dtype):
    assert got.dtype == dtype and got.shape == want.shape, (got.dtype, got.shape)
    error = (got.double() - want).abs().max().item() if want.numel() else 0
    assert error <= TYPES[dtype] * max(1, want.abs().max().item() if want.numel() else 1), (error, got, want)


def same_everywhere(tensor):
    """Check through Gloo that all ranks have the same bits."""
    bits = tensor.contiguous().view(-1).view(torch.uint8)
    all_bits = [torch.empty_like(bits) for _ in range(SIZE)]
    dist.all_gather(all_bits, bits)
    assert all(torch.equal(b, bits) for b in all_bits)


def raises(kind, text, function, *args, **options):
    try:
        function(*args, **options)
    except kind as e:
        assert text in str(e), str(e)
        return str(e)
    raise AssertionError(f"{function} raised nothing")
