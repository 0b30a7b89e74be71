#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run PyTorch's own tests of torch.distributed with a backend. test_torch_upstream.py starts this program.

    BACKEND=NAME WORLD_SIZE=N [BROADCAST=fpisa] torch_upstream.py cpu|mapped [TEST...]

Print a JSON list for each test: its name, "passed", "skipped" or "failed", and the reason. Without names, run all tests. "mapped" also runs
the tests that need GPUs: each device of a GPU is the CPU.

The tests come from torch.testing of the installed PyTorch, which treats the backend fpisa as it treats Gloo.
"""
import contextlib
import json
import os
import sys
import types
import unittest

import torch
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed

import fpisa.torch

SOURCE = os.path.join(os.path.dirname(common_distributed.__file__), "distributed", "distributed_test.py")
# The tests' conditions for Gloo also apply to fpisa.
AS_GLOO = [('BACKEND != "gloo"', 'BACKEND not in ("gloo", "fpisa")'), ('BACKEND == "gloo"', 'BACKEND in ("gloo", "fpisa")'),
           ('require_backend_is_available({"gloo"})', 'require_backend_is_available({"gloo", "fpisa"})')]


def upstream():
    """Return PyTorch's module of tests."""
    for backends in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in backends:
            backends.add("fpisa")
    common_distributed.DistTestCases.backend_feature["plugin"].add("fpisa")
    with open(SOURCE) as f:
        text = f.read()
    for condition, ours in AS_GLOO:
        assert condition in text, condition
        text = text.replace(condition, ours)
    module = sys.modules["distributed_test"] = types.ModuleType("distributed_test")
    exec(compile(text, SOURCE, "exec"), module.__dict__)
    return module


# -- GPUs that are the CPU ----------------------------------------------------

def on_cpu(value):
    """Return the CPU for a device of a GPU, and other values as they are."""
    if isinstance(value, str):
        return "cpu" if value.startswith("cuda") else value
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value


class Mapped(TorchFunctionMode):
    """Make tensors of GPUs on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = {key: "cpu" if key == "device" and type(value) is int else on_cpu(value) for key, value in (kwargs or {}).items()}
        if function is torch.Tensor.cuda:
            return args[0]
        if function is torch.Tensor.to and type(args[1] if len(args) > 1 else None) is int:
            args = (args[0], "cpu", *args[2:])
        return function(*map(on_cpu, args), **kwargs)


class Nothing:
    """A stream or an event of a GPU"""

    def __init__(self, *args, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    def __getattr__(self, name):
        return lambda *args, **options: None


def map_devices():
    """Tell the tests that each rank has a GPU, and use the CPU."""
    size = int(os.environ["WORLD_SIZE"])
    for of in torch.cuda, torch.accelerator:
        of.is_available, of.device_count = (lambda: True), (lambda: size)
        of.synchronize = torch.cuda.set_device = torch.cuda.manual_seed = lambda *args, **options: None
        of.current_stream = Nothing
    torch.distributed.is_nccl_available = lambda: False  # it would ask for a GPU
    torch.cuda.current_device = torch.accelerator.current_device_index = lambda: 0
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    torch.cuda.Stream = torch.cuda.Event = torch.Stream = torch.Event = Nothing
    without(torch.nn.parallel.DistributedDataParallel, "device_ids", "output_device")
    without(torch.autograd.profiler.profile, "use_device", "use_cuda")
    Mapped().__enter__()


def without(cls, *names):
    """Ignore these options of a class."""
    made = cls.__init__

    def init(self, *args, **options):
        made(self, *args, **{key: value for key, value in options.items() if key not in names})
    cls.__init__ = init


# -- the run ------------------------------------------------------------------

def test_class(module, mapped):
    """Return the class of all tests. Ranks are forked, because an import of PyTorch takes longer than most tests."""
    class Upstream(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, *args, **options):
            if mapped:
                map_devices()
            super()._run(*args, **options)
    return Upstream


class Results(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def tell(self, test, result, why=""):
        print(json.dumps([test._testMethodName, result, why]), file=self.out, flush=True)

    def addSuccess(self, test):
        self.tell(test, "passed")

    def addSkip(self, test, reason):
        self.tell(test, "skipped", reason)

    def addFailure(self, test, err):
        self.tell(test, "failed", str(err[1])[-3000:])

    addError = addFailure


def main():
    mapped, tests = sys.argv[1] == "mapped", sys.argv[2:]
    torch.set_num_threads(1)
    fpisa.torch.configure(broadcast=os.environ.get("BROADCAST", "gloo"))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the tests
    cls = test_class(upstream(), mapped)
    for name in tests or unittest.defaultTestLoader.getTestCaseNames(cls):
        cls(name).run(Results(out))


if __name__ == "__main__":
    main()
