#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A worker of cost.py, which trains by each contender in turn and reports the times.

    cost_rank.py ADDRESS RANK PLAN

Orders and answers are lines of JSON. An order is {"contender", "steps"}. An answer is {"began_ns", "ended_ns", "gradient_s",
"sum_s"}, where gradient_s and sum_s are CPU times of this process. Contender none does not sum gradients. fpisa sums
gradients as they are with job 1. switchml works like a SwitchML worker with jobs 2 and 3. This contender finds the largest
exponent of each chunk over all ranks, scales values to integers in network byte order, and converts the sums back to floats.
"""
import ctypes
import json
import os
import sys
import time

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "adapters", "python"))

import data  # noqa: E402
import fpisa  # noqa: E402
import replica  # noqa: E402

TIMEOUT_S = 300  # long, because other processes load torch at the same time


class Contenders:
    def __init__(self, address, plan, size):
        self.workers, self.size, self.chunk = plan["workers"], size, plan["chunk"]
        self.floats, self.integers, self.exponents = (
            fpisa.Handle(address, job, local_port=port, timeout=TIMEOUT_S, overflow="flag") for job, port in plan["jobs"])
        self.library = ctypes.CDLL(plan["library"])
        self.chunks = -(-size // self.chunk)
        self.summed = np.zeros(size, np.float32)
        self.values = np.zeros(self.chunks * self.chunk, np.float32)
        self.quantised = np.zeros(self.chunks * self.chunk, ">i4")
        self.exponent = np.zeros(self.chunks, np.int32)

    def none(self, gradient):
        return gradient

    def fpisa(self, gradient):
        return self.floats.allreduce(gradient, out=self.summed).array

    def switchml(self, gradient):
        self.values[:self.size] = gradient
        chunks, chunk = ctypes.c_size_t(self.chunks), ctypes.c_size_t(self.chunk)
        values, exponent, quantised = (ctypes.c_void_p(a.ctypes.data) for a in (self.values, self.exponent, self.quantised))
        self.library.quantise_exponents(exponent, values, chunks, chunk)
        self.exponents.allreduce(self.exponent, op="max", out=self.exponent)
        self.library.quantise_vector(quantised, values, exponent, chunks, chunk, self.workers, 0)
        self.integers.allreduce(self.quantised, out=self.quantised)
        self.library.dequantise_vector(values, quantised, exponent, chunks, chunk, self.workers, 0, 1)
        return self.values[:self.size]


def train(r, rank, total, steps):
    """Train for a number of steps. Return the times of the steps."""
    gradient_s = sum_s = 0.0
    batches = r.batches(0)
    began_ns = time.monotonic_ns()
    for step in range(steps):
        at = time.process_time()
        gradient = r.gradient(batches[step % r.steps][rank])
        then = time.process_time()
        summed = total(gradient)
        now = time.process_time()
        r.update(summed)
        gradient_s += then - at + time.process_time() - now
        sum_s += now - then
    return {"began_ns": began_ns, "ended_ns": time.monotonic_ns(), "gradient_s": gradient_s, "sum_s": sum_s}


def main():
    address, rank, plan = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    r = replica.Replica(plan["model"], data.load(plan["data"], plan["downloads"]), "fp32", 1, plan["workers"])
    contenders = Contenders(address, plan, r.size)
    # Check that the sums of all contenders are equal except for rounding. Otherwise the figures would not be comparable.
    gradient = r.gradient(r.batches(0)[0][rank])
    ours, theirs = contenders.fpisa(gradient), contenders.switchml(gradient)
    if not np.allclose(ours, theirs, rtol=1e-3, atol=1e-6 * np.abs(ours).max()):
        sys.exit("cost_rank.py: contenders' sums differ")
    print(json.dumps({"parameters": r.size}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer = train(r, rank, getattr(contenders, order["contender"]), order["steps"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
