# SPDX-License-Identifier: GPL-2.0-only
"""The network of a worker, which returns gradients and takes sums.

The network does not depend on how sums are made. Parameters depend only on the seed and the sums, so all replicas of a run
are equal. If one process runs all workers, it therefore has only one replica. In this case the running statistics of the
normalisations, which only accuracy() uses, are those of all workers' batches in order.
"""
import hashlib

import torch
import torch.nn.functional as F

import models
from plan import WORKERS

BATCH = 16
RATE, MOMENTUM, DECAY = 0.1, 0.9, 5e-4  # the paper's values
EVALUATED = 100  # number of images that are processed together, which fit into a cache
TYPES = {"fp32": torch.float32, "fp16": torch.float16}


class Replica:
    """`format` is the type of gradients, and of parameters between steps. All other computation is in fp32."""

    def __init__(self, model, data, format, seed, workers=WORKERS):
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(seed)
        self.data, self.workers, self.type, self.seed = data, workers, TYPES[format], seed
        self.net = models.make(model, data.images.shape[1])
        self.parameters = list(self.net.parameters())
        self.size = sum(p.numel() for p in self.parameters)
        self.optimizer = torch.optim.SGD(self.parameters, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
        self.steps = len(data.images) // (workers * BATCH)  # number of steps in an epoch
        self.round()

    def batches(self, epoch):
        """Return the images of each step and each worker."""
        generator = torch.Generator().manual_seed(self.seed * 1000 + epoch)
        order = torch.randperm(len(self.data.images), generator=generator)
        return order[:self.steps * self.workers * BATCH].view(self.steps, self.workers, BATCH)

    def gradient(self, batch):
        """Return the gradient of the mean loss over one worker's batch as a flat tensor."""
        for p in self.parameters:
            p.grad = None
        F.cross_entropy(self.net(self.data.images[batch]), self.data.labels[batch]).backward()
        return torch.cat([p.grad.reshape(-1) for p in self.parameters]).to(self.type).numpy()

    def update(self, total):
        """Make a step with the sum of all workers' gradients."""
        mean = torch.from_numpy(total).float() / self.workers
        at = 0
        for p in self.parameters:
            p.grad = mean[at:at + p.numel()].view_as(p)
            at += p.numel()
        self.optimizer.step()
        self.round()

    def round(self):
        if self.type == torch.float16:
            with torch.no_grad():
                for p in self.parameters:
                    p.copy_(p.half().float())

    def accuracy(self):
        """Return the percentage of correct answers and the mean loss on the held-out images."""
        self.net.eval()
        with torch.no_grad():
            out = torch.cat([self.net(part) for part in self.data.test_images.split(EVALUATED)])
            right = (out.argmax(1) == self.data.test_labels).float().mean().item()
            self.net.train()
            return round(100 * right, 4), round(F.cross_entropy(out, self.data.test_labels).item(), 4)

    def digest(self):
        """Return a digest of the bits of all parameters."""
        return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in self.parameters)).hexdigest()
