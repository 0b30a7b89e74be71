#!/usr/bin/python3
# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Run a linear regression by gradient descent. Each rank has a share of the samples.

    regression.py HOST NAME RANK SIZE

Ranks find each other by NAME at the manager on HOST (`fpisa serve`). FPISA_KEY names the key file.
"""
import sys

import numpy as np

import fpisa

FEATURES, SAMPLES, STEPS, RATE = 1000, 200, 50, 0.1


def main() -> None:
    host, name, rank, size = sys.argv[1:]
    truth = np.random.default_rng(0).standard_normal(FEATURES).astype("float32")
    draw = np.random.default_rng(1 + int(rank))
    x = draw.standard_normal((SAMPLES, FEATURES)).astype("float32")
    y = x @ truth
    weights = np.zeros(FEATURES, "float32")
    with fpisa.Group(host, name, int(rank), int(size)) as group:
        for _ in range(STEPS):
            gradient = x.T @ (x @ weights - y) / SAMPLES
            group.allreduce(gradient, op="avg", out=gradient)
            weights -= RATE * gradient
        # All ranks have the same weights, bit for bit, because they have added the same averages.
        low, high = group.allreduce(weights, op="min").array, group.allreduce(weights, op="max").array
        group.barrier()
    distance = np.linalg.norm(weights - truth) / np.linalg.norm(truth)
    print(f"rank {rank}: ranks agree: {np.array_equal(low, high)}, distance from the truth {distance:.3f}")


if __name__ == "__main__":
    try:
        main()
    except fpisa.Error as e:
        sys.exit(f"regression.py: {e}" + (f" (ranks {e.ranks})" if e.ranks else ""))
