# SPDX-License-Identifier: GPL-2.0-only
"""Arms of the experiment, which are ways of adding gradients. The arms are torch's own addition, torch's addition in reversed
order, and the modes of an aggregator.
"""
import concurrent.futures

import numpy as np
import torch

import fpisa

from plan import PLAIN

ELEMENTS, WINDOW = 832, 256  # number of values in a frame, and maximum number of frames of a rank in flight
TYPES = {"fp32": "float32", "fp16": "float16"}
TIMEOUT_S = 300  # long, because a busy machine is not an error


class Plain:
    """Add one gradient after another in the gradients' own type, with rank 0 first or last."""

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

    Before start() of a rank returns, the aggregator has added as much as fits into the window. So calls that fit into the
    window are added in rank order, independently of threads, and a second run has the same bits.
    """

    def __init__(self, mode, format, workers):
        self.mem = fpisa.Mem(workers, TYPES[format], mode=mode, elements=ELEMENTS, window=WINDOW)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:  # a rank has joined only when all ranks have joined
            self.handles = list(pool.map(lambda r: self.mem.connect(r, timeout=TIMEOUT_S, overflow="flag"), range(workers)))

    def total(self, gradients):
        total, flags = np.empty_like(gradients[0]), fpisa.Flags(0)
        for at in range(0, len(total), ELEMENTS * WINDOW):
            part = slice(at, at + ELEMENTS * WINDOW)
            requests = [h.start(g[part]) for h, g in zip(self.handles, gradients)]
            under_way = requests
            while under_way:  # sums exist when the last start() returns, and each test() receives some of them
                under_way = [r for r in under_way if not r.test()]
            total[part], raised = requests[0].wait()
            flags |= raised
        return total, flags

    def close(self):
        for h in self.handles:
            h.close()
        self.mem.close()


def make(arm, format, workers):
    """Return an object with the methods total(gradients) and close(). total() returns the sum of the gradients and its
    fpisa.Flags.
    """
    return Plain(arm == "reversed") if arm in PLAIN else Aggregated(arm, format, workers)
