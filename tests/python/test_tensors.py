# SPDX-License-Identifier: GPL-2.0-only
"""Exact sums of torch's tensors and their scalars, whose values are what torch itself prints."""
import pytest

import fpisa

torch = pytest.importorskip("torch", reason="python3-torch is not installed; `make bench` installs it")


def views():
    """Tensors whose memory is not their values, and their exact sums."""
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
