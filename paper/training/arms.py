# SPDX-License-Identifier: GPL-2.0-only
"""Ways of adding gradients: torch's own way, the same in reversed order, and the modes of an aggregator."""
import concurrent.futures

import numpy as np
import torch

import fpisa

from plan import PLAIN

ELEMENTS, WINDOW = 832, 256  # values of a frame, and the most frames of a rank in flight
TYPES = {"fp32": "float32", "fp16": "float16"}
TIMEOUT_S = 300  # a busy machine is not an error


class Plain:
    """One addition after another in the gradients' own type, with rank 0 first, or last."""

    def __init__(self, reverse):
        self.reverse = reverse

    def total(self, gradients):
        first, *others = map(torch.from_numpy, reversed(gradients) if self.reverse else gradients)
        total = first.clone()
        for g in others:
            total += g
        return total.numpy(), fpisa.Flags(0)

    def close(self):
        pass


class Aggregated:
    """Ranks of an aggregator inside this process.

    start() of a rank sends as much as fits the window before it returns, and the aggregator adds it. So calls that fit the
    window are added in the order of the ranks, independent of threads, and a second run has the same bits.
    """

    def __init__(self, mode, format, workers):
        self.mem = fpisa.Mem(workers, TYPES[format], mode=mode, elements=ELEMENTS, window=WINDOW)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:  # a rank joins when all have joined
            self.handles = list(pool.map(lambda r: self.mem.connect(r, timeout=TIMEOUT_S, overflow="flag"), range(workers)))

    def total(self, gradients):
        total, flags = np.empty_like(gradients[0]), fpisa.Flags(0)
        for at in range(0, len(total), ELEMENTS * WINDOW):
            part = slice(at, at + ELEMENTS * WINDOW)
            requests = [h.start(g[part]) for h, g in zip(self.handles, gradients)]
            under_way = requests
            while under_way:  # sums exist when the last start() returns: every test() takes some in
                under_way = [r for r in under_way if not r.test()]
            total[part], raised = requests[0].wait()
            flags |= raised
        return total, flags

    def close(self):
        for h in self.handles:
            h.close()
        self.mem.close()


def make(arm, format, workers):
    """Return an object with total(gradients), which returns their sum and its fpisa.Flags, and close()."""
    return Plain(arm == "reversed") if arm in PLAIN else Aggregated(arm, format, workers)
