#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""One rank of a training with DistributedDataParallel and the all-reduce of every contender. training.py starts this program.

    rank.py SOCKET PLAN

The program connects to SOCKET, sends its rank, and answers each line of JSON with one line. {"do": "train", "contender",
"model", "format", "steps"} trains for this number of steps. The answer has the times of start and end, and the CPU time of
this process in between. {"do": "algorithm", "number", "count"} makes Open MPI use this algorithm. If count is not 0, the
answer has the times of one sum of `count` float32 values. The answer to a failed order has an "error". The process ends when
the socket closes.
"""
import concurrent.futures
import copy
import ctypes
import json
import os
import queue
import resource
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import numpy  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import fpisa  # noqa: E402
import fpisa.torch  # noqa: E402
import fpisa.torch_hook  # noqa: E402

GROUPS = {"fpisa": {}, "fpisa-exact": {"mode": "exact"}}
BUCKET_MB, CHUNK = 1, 256
HOST_ORDER = 1  # jobs of groups are little-endian
RATE = 0.01


def mlp(width=1024):
    """Return a model that waits for the network, with 1.1 million parameters, and little computation for each."""
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(),
                               torch.nn.Linear(width, 10)), (16, 64)


def mlp_10m():
    """Return an mlp of 10 million parameters."""
    return mlp(3125)


def mlp_100m():
    """Return an mlp of 100 million parameters."""
    return mlp(9963)


def cnn():
    """Return a model with much computation. Most of its 56 thousand parameters are used at 256 places of each of 64 pictures."""
    conv, relu = torch.nn.Conv2d, torch.nn.ReLU
    return torch.nn.Sequential(conv(1, 32, 3, padding=1), relu(), conv(32, 64, 3, padding=1), relu(), torch.nn.MaxPool2d(2),
                               conv(64, 64, 3, padding=1), relu(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               torch.nn.Linear(64, 10)), (64, 1, 16, 16)


MODELS = {"mlp": mlp, "mlp-10m": mlp_10m, "mlp-100m": mlp_100m, "cnn": cnn}


class InOrder:
    """A thread that runs its tasks one after the other. The future of a task gets the exception if the task fails."""

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def submit(self, future, function, *args):
        def run():
            try:
                function(*args)
            except BaseException as e:  # backward() waits for the future
                future.set_exception(e)
        self.pool.submit(run)


class OpenMpi:
    """Average with MPI_Allreduce in a separate thread, with the chosen algorithm."""

    def __init__(self, plan):
        sys.path.insert(0, os.path.join(HERE, "..", "collective"))
        import rank

        self.mpi = rank.OpenMpi({"algorithms": plan["algorithms"], "workers": [plan["world"]]})
        self.workers, self.algorithm, self.thread = plan["world"], 0, InOrder()

    def sum(self, values):
        self.mpi.run("allreduce", self.workers, values, self.algorithm)

    def hook(self, _, bucket):
        future, tensor = torch.futures.Future(), bucket.buffer()

        def average():
            self.sum(tensor.numpy())
            future.set_result(tensor.div_(self.workers))

        self.thread.submit(future, average)
        return future


class SwitchMl:
    """Average like a SwitchML worker. Find the largest exponent of each chunk over all ranks, and then sum int32."""

    def __init__(self, plan):
        self.lib, self.workers = ctypes.CDLL(plan["quantise"]), plan["world"]
        options = {"elements": plan["elements"]}
        self.exponents = fpisa.Group(None, "exponents", plan["rank"], self.workers, **options)
        self.sums = fpisa.Group(None, "sums", plan["rank"], self.workers, **options)
        self.scaling, self.waiting = InOrder(), InOrder()

    def scaled(self, function, *arrays_and_numbers):
        """Call a function of vector.h."""
        getattr(self.lib, function)(*(ctypes.c_void_p(a.ctypes.data) if isinstance(a, numpy.ndarray) else ctypes.c_size_t(a)
                                      for a in arrays_and_numbers))

    def hook(self, _, bucket):
        future, tensor = torch.futures.Future(), bucket.buffer()
        chunks = -(-tensor.numel() // CHUNK)
        values = numpy.zeros(chunks * CHUNK, numpy.float32)
        values[:tensor.numel()] = tensor.numpy()
        exponents, words = numpy.empty(chunks, numpy.int32), numpy.empty(values.size, numpy.int32)
        self.scaled("quantise_exponents", exponents, values, chunks, CHUNK)
        largest = self.exponents.start(exponents, "max", exponents)

        def scale():
            largest.wait()
            self.scaled("quantise_vector", words, values, exponents, chunks, CHUNK, self.workers, HOST_ORDER)
            self.waiting.submit(future, average, self.sums.start(words, "sum", words))

        def average(request):
            request.wait()
            self.scaled("dequantise_vector", values, words, exponents, chunks, CHUNK, self.workers, HOST_ORDER, self.workers)
            tensor.copy_(torch.from_numpy(values[:tensor.numel()]))
            future.set_result(tensor)

        self.scaling.submit(future, scale)
        return future


class Trainings:
    """A model and an optimizer for each contender, model and format."""

    def __init__(self, plan):
        fpisa.torch.configure(elements=plan["elements"])
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=plan["meeting"], rank=plan["rank"], world_size=plan["world"])
        self.plan, self.trained = plan, {}
        contenders = plan["contenders"]
        self.groups = {name: dist.new_group(backend="fpisa", pg_options=options) for name, options in GROUPS.items() if name in contenders}
        self.hooks = (fpisa.Group(None, "hook", plan["rank"], plan["world"], elements=plan["elements"])
                      if "fpisa-hook" in contenders else None)
        self.openmpi = OpenMpi(plan) if "openmpi" in contenders else None
        self.switchml = SwitchMl(plan) if "switchml" in contenders else None
        for model in plan["models"]:
            torch.manual_seed(1)
            net, shape = MODELS[model]()
            batch = torch.rand(*shape), torch.randint(0, 10, shape[:1])
            for format, names in plan["points"].items():
                for name in names:
                    ddp = self.wrap(name, copy.deepcopy(net), format)
                    self.trained[name, model, format] = ddp, torch.optim.SGD(ddp.parameters(), lr=RATE), batch

    def wrap(self, name, net, format):
        group = self.groups.get(name)
        ddp = DistributedDataParallel(net, bucket_cap_mb=BUCKET_MB, process_group=group)
        if name == "fpisa-hook":
            hook = fpisa.torch_hook.Hook(self.hooks, torch.float16 if format == "fp16" else None)
            ddp.register_comm_hook(hook, fpisa.torch_hook.average)
        elif name in ("openmpi", "switchml"):
            ddp.register_comm_hook(None, getattr(self, name).hook)
        elif format == "fp16":
            ddp.register_comm_hook(group, fp16_compress_hook)
        return ddp

    def train(self, order):
        ddp, optimizer, (x, y) = self.trained[order["contender"], order["model"], order["format"]]
        dist.barrier()
        used, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic_ns()
        for _ in range(order["steps"]):
            optimizer.zero_grad()
            cross_entropy(ddp(x), y).backward()
            optimizer.step()
        end, used_then = time.monotonic_ns(), resource.getrusage(resource.RUSAGE_SELF)
        return {"start_ns": start, "end_ns": end,
                "cpu_s": used_then.ru_utime + used_then.ru_stime - used.ru_utime - used.ru_stime,
                "first": next(ddp.parameters()).view(-1)[0].item()}

    def algorithm(self, order):
        self.openmpi.algorithm = order["number"]
        dist.barrier()
        start = time.monotonic_ns()
        if order["count"]:
            self.openmpi.sum(numpy.ones(order["count"], numpy.float32))
        return {"start_ns": start, "end_ns": time.monotonic_ns()}


def listen(control, orders):
    """Queue orders as they arrive. If the connection ends, exit immediately, even within a step."""
    for line in control:
        orders.put(json.loads(line))
    os._exit(1)


def main():
    path, plan = sys.argv[1], json.loads(sys.argv[2])
    plan["rank"] = int(os.environ.get("OMPI_COMM_WORLD_RANK", plan["rank"]))
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    control, orders = s.makefile("rw"), queue.Queue()
    threading.Thread(target=listen, args=(control, orders), daemon=True).start()

    def answer(a):
        control.write(json.dumps(a) + "\n")
        control.flush()

    try:
        answer({"rank": plan["rank"]})
        trainings = Trainings(plan)
        answer({})
        while True:
            order = orders.get()
            answer(getattr(trainings, order["do"])(order))
    except Exception as e:
        answer({"error": f"{type(e).__name__}: {e}"})


if __name__ == "__main__":
    main()
