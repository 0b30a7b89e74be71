#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""One rank of an all-reduce with the library of one contender. collective.py starts this program.

    rank.py CONTENDER SOCKET PLAN

The program connects to SOCKET, sends its rank, and answers each line of JSON with one line. {"do": "prepare", "operation":
O, "workers": N, "count": C} makes C values to sum with the ranks below N. {"do": "run", ..., "at_ns": T, "algorithm": A}
sums the values, starting at time T of CLOCK_MONOTONIC. The answer has the times of start and end, and whether the sum was
right. The answer to a failed order has an "error". The process ends when the socket closes.

Other operations also have C values. broadcast sends from rank 0, reduce sums to rank 0, allgather collects each rank's part,
and reduce_scatter gives each rank a part of the sum. For FPISA an all-reduce of values and zeros replaces the first three,
except the broadcast of a group.
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

import fpisa_h  # noqa: E402
import worker  # noqa: E402

TIMEOUT_MS = 60000
SUM = 1  # FPISA_SUM


GroupOptions = fpisa_h.structure("fpisa_group_options")


class Fpisa:
    """The library libfpisa, with a job, or a group if there is a manager, for each topology and number of workers."""

    def __init__(self, plan):
        self.rank, self.groups = plan["rank"], bool(plan["manager"])
        self.sides = {}
        for name, j in plan["jobs"].items():
            if self.rank < j["workers"]:
                side = self.sides[name] = worker.Worker(plan["library"])
                self.check(side, self.join(side, name, j, plan) if self.groups else self.connect(side, j, plan))

    def connect(self, side, j, plan):
        options = worker.Options(size=ctypes.sizeof(worker.Options), local_port=j["ports"][self.rank],
                                 timeout_ms=TIMEOUT_MS, transport=plan.get("transport", worker.UDP))
        return side.lib.fpisa_connect(ctypes.byref(side.handle), j["addresses"][self.rank].encode(), j["job"], ctypes.byref(options))

    def join(self, side, name, j, plan):
        """Join a group, and create its jobs by a first call of each type, which is not measured."""
        options = GroupOptions(size=ctypes.sizeof(GroupOptions), timeout_ms=TIMEOUT_MS, join_timeout_ms=TIMEOUT_MS, elements=plan["elements"],
                               window=plan["window"])
        value = ctypes.c_float()
        return side.lib.fpisa_group_join(ctypes.byref(side.handle), plan["manager"].encode(), name.replace("/", "-").encode(), self.rank,
                                         j["workers"], ctypes.byref(options)) or self.allreduce(
                                             side, ctypes.byref(value), 1) or self.broadcast(side, ctypes.byref(value), 4)

    def allreduce(self, side, p, count):
        if self.groups:
            return side.lib.fpisa_group_allreduce(side.handle, p, p, ctypes.c_size_t(count), worker.FLOAT32, SUM, ctypes.c_double(1), None)
        return side.lib.fpisa_allreduce(side.handle, p, p, ctypes.c_size_t(count), worker.FLOAT32, None)

    def broadcast(self, side, p, size):
        return side.lib.fpisa_group_broadcast(side.handle, p, ctypes.c_size_t(size), 0)

    @staticmethod
    def check(side, rc):
        if rc:
            raise RuntimeError(side.lib.fpisa_error().decode())

    def run(self, operation, workers, values, algorithm, side=None):
        """Run the operation. FPISA's operations need values from every rank, so ranks without a contribution contribute zeros."""
        if operation == "broadcast" and self.groups:
            self.check(self.sides[side], self.broadcast(self.sides[side], values.ctypes.data_as(ctypes.c_void_p), values.nbytes))
            return
        if operation == "broadcast" and self.rank:
            values.fill(0)
        if operation == "allgather":
            mine = part(workers, self.rank, values.size)
            values[:mine.start] = 0
            values[mine.stop:] = 0
        side, p = self.sides[side], values.ctypes.data_as(ctypes.c_void_p)
        if operation == "reduce_scatter":
            own = values[part(workers, self.rank, values.size)].ctypes.data_as(ctypes.c_void_p)
            call = side.lib.fpisa_group_reduce_scatter if self.groups else side.lib.fpisa_reduce_scatter
            self.check(side, call(side.handle, p, own, ctypes.c_size_t(values.size), None, worker.FLOAT32, SUM, ctypes.c_double(1), None))
            return
        self.check(side, self.allreduce(side, p, values.size))

    def counts(self, side):
        if self.groups:
            return {}
        info = worker.Info(size=ctypes.sizeof(worker.Info))
        self.sides[side].lib.fpisa_get_info(self.sides[side].handle, ctypes.byref(info))
        return {"retransmits": info.retransmits, "duplicates": info.duplicates}


class Gloo:
    """The Gloo library, as PyTorch provides it."""

    def __init__(self, plan):
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        self.torch, self.dist, self.rank = torch, torch.distributed, plan["rank"]
        self.dist.init_process_group("gloo", init_method=plan["meeting"], rank=self.rank,
                                     world_size=plan["world"])
        self.groups = {n: self.dist.new_group(list(range(n))) for n in plan["workers"]}

    def run(self, operation, workers, values, algorithm, side=None):
        whole, group = self.torch.from_numpy(values), self.groups[workers]
        if operation == "allreduce":
            self.dist.all_reduce(whole, group=group)
        elif operation == "broadcast":
            self.dist.broadcast(whole, 0, group=group)
        elif operation == "reduce":
            self.dist.reduce(whole, 0, group=group)
        elif operation == "allgather":
            parts = list(whole.chunk(workers))
            self.dist.all_gather(parts, parts[self.rank].clone(), group=group)
        else:
            self.dist.reduce_scatter_tensor(whole[part(workers, self.rank, values.size)], whole.clone(), group=group)

    def counts(self, side):
        return {}


class OpenMpi:
    """The Open MPI library. A communicator always uses the algorithm that was forced when it was created. So there is a
    communicator for each number of workers and each algorithm of coll_tuned.
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
        """Force the algorithm through the tools interface (MPI_T), because the environment variable of the parameter is read only
        once.
        """
        index, handle, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        value = ctypes.c_int(algorithm)
        for rc in (self.lib.MPI_T_init_thread(0, ctypes.byref(ctypes.c_int())),
                   self.lib.MPI_T_cvar_get_index(self.CVAR, ctypes.byref(index)),
                   self.lib.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)),
                   self.lib.MPI_T_cvar_write(handle, ctypes.byref(value))):
            if rc:
                raise RuntimeError(f"Open MPI does not let {self.CVAR.decode()} be set: error {rc}")

    def run(self, operation, workers, values, algorithm, side=None):
        comm, in_place = self.groups[workers, algorithm], self.mpi.IN_PLACE
        if operation == "allreduce":
            comm.Allreduce(in_place, values, op=self.mpi.SUM)
        elif operation == "broadcast":
            comm.Bcast(values)
        elif operation == "reduce":
            comm.Reduce(values if self.rank else in_place, None if self.rank else values, op=self.mpi.SUM)
        elif operation == "allgather":
            comm.Allgather(in_place, values)
        else:
            own = numpy.empty(values.size // workers, numpy.float32)
            comm.Reduce_scatter(values, own, op=self.mpi.SUM)
            values[part(workers, self.rank, values.size)] = own

    def counts(self, side):
        return {}


class Mpich:
    """The MPICH library, which chooses its algorithm itself. mpi4py is built only for Open MPI, so this class calls the library
    directly. The constants are those of MPICH's ABI.
    """

    WORLD, FLOAT, SUM, IN_PLACE = 0x44000000, 0x4c00040a, 0x58000003, ctypes.c_void_p(-1)

    def __init__(self, plan):
        self.lib, rank = ctypes.CDLL("libmpich.so.12", ctypes.RTLD_GLOBAL), ctypes.c_int()
        self.check(self.lib.MPI_Init(None, None))
        self.check(self.lib.MPI_Comm_rank(self.WORLD, ctypes.byref(rank)))
        self.rank = rank.value
        self.groups = {n: self.split(n) for n in plan["workers"]}

    @staticmethod
    def check(error):
        if error:
            raise RuntimeError(f"MPICH: error {error:#x}")

    def split(self, n):
        comm = ctypes.c_int()
        self.check(self.lib.MPI_Comm_split(self.WORLD, int(self.rank >= n), self.rank, ctypes.byref(comm)))
        return comm.value

    def run(self, operation, workers, values, algorithm, side=None):
        if operation != "allreduce":
            raise RuntimeError("MPICH is measured only with all-reduce; leave this operation out")
        self.check(self.lib.MPI_Allreduce(self.IN_PLACE, values.ctypes.data_as(ctypes.c_void_p), values.size, self.FLOAT, self.SUM,
                                          self.groups[workers]))

    def counts(self, side):
        return {}


def part(workers, rank, count):
    """Return this rank's part of `count` values. `count` is a multiple of `workers`."""
    return slice(rank * count // workers, (rank + 1) * count // workers)


CONTENDERS = {"fpisa": Fpisa, "gloo": Gloo, "openmpi": OpenMpi, "openmpi-han": OpenMpi, "mpich": Mpich}


class Values:
    """This rank's contributions, and the sums, for the length that was prepared last."""

    def __init__(self, rank):
        self.rank, self.shape = rank, None

    def prepare(self, operation, workers, count):
        if self.shape != (operation, workers, count):
            self.send = self.of(self.rank, count)
            self.expect = self.expected(operation, workers, count)
            self.values = numpy.empty(count, numpy.float32)
            self.shape = operation, workers, count
        numpy.copyto(self.values, self.send)

    @staticmethod
    def of(rank, count):
        return numpy.frombuffer(worker.data("integers", rank, count), numpy.float32)

    def expected(self, operation, workers, count):
        """Return a list of (slice of the values, expected values)."""
        if operation == "broadcast":
            return [(slice(None), self.of(0, count))]
        if operation == "allgather":
            return [(part(workers, r, count), self.of(r, count)[part(workers, r, count)]) for r in range(workers)]
        total = numpy.frombuffer(worker.exact_sum("integers", workers, count), numpy.float32)
        if operation == "reduce" and self.rank:
            return []
        which = part(workers, self.rank, count) if operation == "reduce_scatter" else slice(None)
        return [(which, total[which])]

    def right(self):
        return all(numpy.array_equal(self.values[which], values) for which, values in self.expect)


def waited_ns():
    """Return for how long this thread could have run but did not have a CPU."""
    with open("/proc/thread-self/schedstat") as f:
        return int(f.read().split()[1])


def obey(side, values, order):
    """Execute an order. Return the answer."""
    operation, workers, count = order["operation"], order["workers"], order["count"]
    if order["do"] == "prepare":
        values.prepare(operation, workers, count)
        return {}
    before = side.counts(order["side"])
    time.sleep(max(0, order["at_ns"] - time.monotonic_ns()) / 1e9)
    waited, start = waited_ns(), time.monotonic_ns()
    side.run(operation, workers, values.values, order["algorithm"], order["side"])
    end = time.monotonic_ns()
    return {"start_ns": start, "end_ns": end, "right": values.right(), "waited_ns": waited_ns() - waited,
            **{name: n - before[name] for name, n in side.counts(order["side"]).items()}}


def listen(control, orders):
    """Queue orders as they arrive. If the connection ends, exit immediately, even within a call."""
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
