#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Train a small CNN on several workers and dump their gradients.

	train.py [--out DIR] [--seed N] [--epochs 1,20,40] [--step N]

The program needs PyTorch and scikit-learn (pip install torch scikit-learn), but
no download and no GPU. For each requested epoch it writes DIR/epochNN.f32 with
the gradients of eight workers in one step of that epoch: little-endian FP32,
row-major [8][38282], in the order of the network's parameters within a row. Values depend
on the versions of both packages and on the CPU.
"""
import argparse
import os
import sys

try:
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
except ImportError as e:
    sys.exit(f"train.py: {e}; try: pip install torch scikit-learn")

WORKERS, BATCH = 8, 16
PARAMETERS = 38282


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )


def gradient(model, images, labels):
    """Return the flat gradient of one worker's batch."""
    model.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


def apply(model, optimizer, flat):
    at = 0
    for p in model.parameters():
        p.grad = flat[at:at + p.numel()].reshape(p.shape).clone()
        at += p.numel()
    optimizer.step()


def dump(path, gradients):
    with open(path, "wb") as f:
        f.write(torch.stack(gradients).numpy().astype("<f4").tobytes())
    print(path)


def train(out, seed, epochs, step):
    torch.manual_seed(seed)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    steps = len(labels) // (WORKERS * BATCH)
    if not 0 <= step < steps:
        sys.exit(f"train.py: --step: an epoch has steps 0 to {steps - 1}")
    model = network()
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0005)
    os.makedirs(out, exist_ok=True)
    for epoch in range(1, max(epochs) + 1):
        order = torch.randperm(len(labels))
        for s in range(steps):
            batches = order[s * WORKERS * BATCH:(s + 1) * WORKERS * BATCH].reshape(WORKERS, BATCH)
            gradients = [gradient(model, images[b], labels[b]) for b in batches]
            if s == step and epoch in epochs:
                dump(os.path.join(out, f"epoch{epoch:02}.f32"), gradients)
            apply(model, optimizer, torch.stack(gradients).mean(0))


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", default="gradients")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--epochs", type=lambda s: [int(e) for e in s.split(",")], default=[1, 20, 40])
    p.add_argument("--step", type=int, default=0, help="which step of the epoch is dumped; default 0")
    a = p.parse_args()
    train(a.out, a.seed, a.epochs, a.step)
