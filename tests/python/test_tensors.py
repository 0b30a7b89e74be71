# SPDX-License-Identifier: GPL-2.0-only
"""Exact sums of torch's tensors and of their scalars use the values that torch itself prints."""
import struct

import numpy as np
import pytest

import fpisa

torch = pytest.importorskip("torch", reason="python3-torch is not installed; run make bench")


def views():
    """Return tensors whose memory differs from their values, with their exact sums."""
    c = torch.tensor([1 + 2j, 3 + 4j])
    yield c.conj(), 4 - 6j
    yield c.conj().imag, -6
    yield torch.tensor([1., 2.], dtype=torch.bfloat16)._neg_view(), -3
    yield torch._efficientzerotensor(3), 0
    yield torch.tensor([1., 2.], requires_grad=True), 3
    yield torch.tensor([1., 2.], dtype=torch.bfloat16, requires_grad=True), 3
    yield torch.tensor([2, 0, 255], dtype=torch.uint8).view(torch.bool), 2


@pytest.mark.parametrize("tensor, total", views())
def test_views(tensor, total):
    assert fpisa.sum(tensor) == fpisa.sum(list(tensor)) == total
    assert fpisa.sum(tensor, by=[7] * len(tensor)).values.tolist() == [total]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int8, torch.int64, torch.bool])
def test_keys(dtype):
    """Keys may be a tensor of any type, with any strides, with or without a gradient."""
    for by in torch.tensor([1, 0, 1]), torch.tensor([1, 7, 0, 7, 1, 7])[::2]:
        by = by.to(dtype)
        by = by.requires_grad_() if dtype.is_floating_point else by
        for call, want in (fpisa.sum, [4, 6]), (fpisa.norm2, [4, 20 ** 0.5]):
            got = call([2.0, 4.0, 4.0], by=by)
            assert list(got.keys) == [0, 1] and got.values.tolist() == want
    got = fpisa.sum([1.0, 2.0, 4.0], by=torch.tensor([1., 3., 1.])._neg_view())
    assert list(got.keys) == [-3, -1] and got.values.tolist() == [2, 5]
    truth = torch.tensor([2, 0, 255], dtype=torch.uint8).view(torch.bool)
    got = fpisa.sum([1.0, 2.0, 4.0], by=truth)
    assert list(got.keys) == [False, True] and got.values.tolist() == [2, 5]


def test_flushing_thread():
    """set_flush_denormal() does not change a value, a key or a factor."""
    least = 2.0 ** -149
    values = [torch.tensor(least), torch.tensor(2.0 ** -133, dtype=torch.bfloat16), torch.tensor(complex(0, least), dtype=torch.complex64)]
    keys = [np.array([least, 0], "f4"), torch.tensor([least, 0]), torch.tensor([2.0 ** -133, 0], dtype=torch.bfloat16), [5e-324, 0.0],
            [np.float32(least), np.float32(0)], (k for k in (5e-324, 0.0)), np.array([complex(0, 5e-324), 0])]
    factors, taken = [torch.tensor(least), np.float32(least), torch.tensor(2.0 ** -133, dtype=torch.bfloat16), 5e-324], []

    class Stopped(Exception):
        pass

    def stop(call, request):
        taken.append(call.factor)
        raise Stopped

    def bits(x):
        return struct.pack("dd", complex(x).real, complex(x).imag)

    with fpisa.Mem(1) as mem, mem.connect(0) as handle:
        handle._start = stop
        torch.set_flush_denormal(True)
        try:
            flushed = float("5e-324") * float("1")
            sums = [bits(fpisa.sum([v])) for v in values]
            groups = [fpisa.sum([1.0, 2.0], by=by).values.tolist() for by in keys]
            for factor in factors:
                with pytest.raises(Stopped):
                    handle.start(np.ones(1, "float32"), "scale", factor=factor)
            still = float("5e-324") * float("1")
        finally:
            torch.set_flush_denormal(False)
    assert flushed == still == 0
    assert sums == [struct.pack("dd", *x) for x in ((least, 0), (2.0 ** -133, 0), (0, least))]
    assert groups == [[2, 1]] * len(keys)
    assert [bits(f) for f in taken] == [struct.pack("dd", x, 0) for x in (least, least, 2.0 ** -133, 5e-324)]
