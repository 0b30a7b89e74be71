#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""One rank of an all-reduce, by one contender's library; collective.py starts it.

    rank.py CONTENDER SOCKET PLAN

It connects to SOCKET, says its rank, and answers each line of JSON there with
one: {"do": "prepare", "workers": N, "count": C} makes C values to sum with
the ranks below N, {"do": "run", ..., "at_ns": T, "algorithm": A} sums them,
starting at T of CLOCK_MONOTONIC, and answers with the times of start and end
and whether the sum was right. A failure's answer has an "error". The process
ends when the socket does.
"""
import ctypes
import json
import os
import queue
import socket
import sys
import threading
import time

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "lib"))

import worker  # noqa: E402

TIMEOUT_MS = 60000


class Fpisa:
    """libfpisa, transport udp; a job for each number of workers."""

    def __init__(self, plan):
        self.rank = plan["rank"]
        self.sides = {}
        for n, job in plan["jobs"].items():
            if self.rank < int(n):
                side = self.sides[int(n)] = worker.Worker(plan["library"])
                options = worker.Options(size=ctypes.sizeof(worker.Options), local_port=plan["port"] + job,
                                         timeout_ms=TIMEOUT_MS)
                rc = side.lib.fpisa_connect(ctypes.byref(side.handle), plan["address"].encode(), job,
                                            ctypes.byref(options))
                self.check(side, rc)

    @staticmethod
    def check(side, rc):
        if rc:
            raise RuntimeError(side.lib.fpisa_error().decode())

    def allreduce(self, workers, values, algorithm):
        side, p = self.sides[workers], values.ctypes.data_as(ctypes.c_void_p)
        self.check(side, side.lib.fpisa_allreduce(side.handle, p, p, values.size, worker.FLOAT32, None))

    def counts(self, workers):
        info = worker.Info(size=ctypes.sizeof(worker.Info))
        self.sides[workers].lib.fpisa_get_info(self.sides[workers].handle, ctypes.byref(info))
        return {"retransmits": info.retransmits}


class Gloo:
    """Gloo as PyTorch offers it."""

    def __init__(self, plan):
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        self.torch, self.dist, self.rank = torch, torch.distributed, plan["rank"]
        self.dist.init_process_group("gloo", init_method=plan["meeting"], rank=self.rank,
                                     world_size=plan["world"])
        self.groups = {n: self.dist.new_group(list(range(n))) for n in plan["workers"]}

    def allreduce(self, workers, values, algorithm):
        self.dist.all_reduce(self.torch.from_numpy(values), group=self.groups[workers])

    def counts(self, workers):
        return {}


class OpenMpi:
    """
    Open MPI. A communicator keeps the algorithm that was forced when it was
    made: one for each number of workers and algorithm of coll_tuned.
    """

    CVAR = b"coll_tuned_allreduce_algorithm"

    def __init__(self, plan):
        from mpi4py import MPI

        self.mpi, self.rank = MPI, MPI.COMM_WORLD.Get_rank()
        self.lib = ctypes.CDLL("libmpi.so.40")
        self.groups = {}
        for algorithm in plan["algorithms"]:
            self.force(algorithm)
            for n in plan["workers"]:
                self.groups[n, algorithm] = MPI.COMM_WORLD.Split(int(self.rank >= n), self.rank)

    def force(self, algorithm):
        """By the interface for tools, as the parameter's environment variable is read only once."""
        index, handle, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        value = ctypes.c_int(algorithm)
        for rc in (self.lib.MPI_T_init_thread(0, ctypes.byref(ctypes.c_int())),
                   self.lib.MPI_T_cvar_get_index(self.CVAR, ctypes.byref(index)),
                   self.lib.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)),
                   self.lib.MPI_T_cvar_write(handle, ctypes.byref(value))):
            if rc:
                raise RuntimeError(f"Open MPI does not let {self.CVAR.decode()} be set: error {rc}")

    def allreduce(self, workers, values, algorithm):
        self.groups[workers, algorithm].Allreduce(self.mpi.IN_PLACE, values, op=self.mpi.SUM)

    def counts(self, workers):
        return {}


CONTENDERS = {"fpisa": Fpisa, "gloo": Gloo, "openmpi": OpenMpi}


class Values:
    """This rank's contributions and the sums, of the length last asked for."""

    def __init__(self, rank):
        self.rank, self.shape = rank, None

    def prepare(self, workers, count):
        if self.shape != (workers, count):
            self.send = numpy.frombuffer(worker.data("integers", self.rank, count), numpy.float32)
            self.sum = numpy.frombuffer(worker.exact_sum("integers", workers, count), numpy.float32)
            self.values = numpy.empty(count, numpy.float32)
            self.shape = workers, count
        numpy.copyto(self.values, self.send)


def obey(side, values, order):
    """An order's answer."""
    workers, count = order["workers"], order["count"]
    if order["do"] == "prepare":
        values.prepare(workers, count)
        return {}
    before = side.counts(workers)
    time.sleep(max(0, order["at_ns"] - time.monotonic_ns()) / 1e9)
    start = time.monotonic_ns()
    side.allreduce(workers, values.values, order["algorithm"])
    end = time.monotonic_ns()
    return {"start_ns": start, "end_ns": end, "right": bool(numpy.array_equal(values.values, values.sum)),
            **{name: n - before[name] for name, n in side.counts(workers).items()}}


def listen(control, orders):
    """Orders as they come; without an orchestrator there is nothing left to do, even within a call."""
    for line in control:
        orders.put(json.loads(line))
    os._exit(1)


def main():
    contender, path, plan = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    side = CONTENDERS[contender](plan)
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    control, orders, values = s.makefile("rw"), queue.Queue(), Values(side.rank)

    def answer(a):
        control.write(json.dumps(a) + "\n")
        control.flush()

    answer({"contender": contender, "rank": side.rank})
    threading.Thread(target=listen, args=(control, orders), daemon=True).start()
    while True:
        try:
            answer(obey(side, values, orders.get()))
        except Exception as e:
            answer({"error": f"{type(e).__name__}: {e}"})


if __name__ == "__main__":
    main()
