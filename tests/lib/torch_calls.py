#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print which backend performs each call that programs make today: fpisa or Gloo, or the call's error. The program is a rank of two.
test_torch_calls.py starts the ranks.

    torch_calls.py

Rank 0 prints a line for each call, "NAME: fpisa", "NAME: Gloo", "NAME: fpisa, Gloo" or "NAME: error: TYPE". The names of the profiler's
events say which backend performed a call. A call without an event is printed as "ran".
"""
import datetime
import io
import os
import pickle
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import fpisa.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CPU = torch.device("cpu")
CALLS = []


def call(name):
    def note(function):
        CALLS.append((name, function))
        return function
    return note


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape or (SIZE * 4,), dtype=dtype)


for dtype in torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.int64, torch.bool, torch.float8_e4m3fn:
    call(f"all_reduce of {str(dtype)[6:]}")(lambda dtype=dtype: dist.all_reduce(
        ones(dtype=torch.uint8).to(dtype), dist.ReduceOp.MAX if dtype == torch.bool else dist.ReduceOp.SUM))
for op in "AVG", "MIN", "MAX", "PRODUCT", "BOR":
    call(f"all_reduce by {op}")(lambda op=op: dist.all_reduce(ones(dtype=torch.int64 if op == "BOR" else torch.float32), getattr(dist.ReduceOp, op)))
call("all_reduce by PREMUL_SUM")(lambda: dist.all_reduce(ones(), dist._make_nccl_premul_sum(0.5)))
call("all_reduce of a sparse tensor")(lambda: dist.all_reduce(ones().to_sparse()))
call("all_reduce, async_op=True")(lambda: dist.all_reduce(ones(), async_op=True).wait())
call("all_reduce, a future's then()")(lambda: dist.all_reduce(ones(), async_op=True).get_future().then(lambda f: f.value()).wait())
call("all_reduce_coalesced")(lambda: dist.all_reduce_coalesced([ones(), ones(3)]))
call("reduce")(lambda: dist.reduce(ones(), 0))
call("broadcast")(lambda: dist.broadcast(ones(), 0))
call("all_gather")(lambda: dist.all_gather([ones() for _ in range(SIZE)], ones()))
call("all_gather_into_tensor")(lambda: dist.all_gather_into_tensor(ones(SIZE * 4), ones(4)))
call("reduce_scatter")(lambda: dist.reduce_scatter(ones(4), [ones(4) for _ in range(SIZE)]))
call("reduce_scatter_tensor")(lambda: dist.reduce_scatter_tensor(ones(4), ones(SIZE * 4)))
call("gather")(lambda: dist.gather(ones(), [ones() for _ in range(SIZE)] if RANK == 0 else None))
call("scatter")(lambda: dist.scatter(ones(), [ones() for _ in range(SIZE)] if RANK == 0 else None))
call("all_to_all_single")(lambda: dist.all_to_all_single(ones(), ones()))
call("all_to_all")(lambda: dist.all_to_all([ones(2) for _ in range(SIZE)], [ones(2) for _ in range(SIZE)]))
call("barrier")(dist.barrier)
call("monitored_barrier")(lambda: dist.monitored_barrier())
call("all_gather_object")(lambda: dist.all_gather_object([None] * SIZE, RANK))
call("broadcast_object_list")(lambda: dist.broadcast_object_list([RANK], 0))
call("send and recv")(lambda: dist.send(ones(), 1) if RANK == 0 else dist.recv(ones(), 0))
call("batch_isend_irecv")(lambda: [w.wait() for w in dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, ones(), 1 - RANK), dist.P2POp(dist.irecv, ones(), 1 - RANK)])])


def coalesce(device):
    with dist._coalescing_manager(device=device):
        dist.all_reduce(ones())
        dist.all_reduce(ones(3))


call("_coalescing_manager")(lambda: coalesce(None))
call("_coalescing_manager(device=cpu)")(lambda: coalesce(CPU))


@call("new_group")
def _():
    dist.all_reduce(ones(), group=dist.new_group())


@call("new_group(pg_options={'mode': 'exact'})")
def _():
    dist.all_reduce(ones(), group=dist.new_group(pg_options={"mode": "exact"}))


@call("new_group(pg_options={'broadcast': 'fpisa'}), broadcast")
def _():
    dist.broadcast(ones(), 0, group=dist.new_group(pg_options={"broadcast": "fpisa"}))


@call("new_subgroups")
def _():
    dist.all_reduce(ones(), group=dist.new_subgroups(SIZE)[0])


@call("split_group")
def _():
    dist.all_reduce(ones(), group=dist.split_group(None, [list(range(SIZE))]))


@call("set_timeout")
def _():
    dist.set_timeout(datetime.timedelta(seconds=60), dist.new_group())


@call("abort")
def _():
    group = dist.new_group()
    dist.all_reduce(ones(), group=group)
    dist.barrier()
    group.abort()


@call("shutdown")
def _():
    group = dist.new_group()
    group.shutdown()


call("backend options")(lambda: dist.group.WORLD._get_backend(CPU).options.backend)
call("fpisa.torch.flags")(fpisa.torch.flags)


@call("flight recorder")
def _():
    dist.all_reduce(ones())
    entries = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())["entries"]
    if not any("all_reduce" in e["profiling_name"] for e in entries):
        raise LookupError("all_reduce")


def train(wrap, optimizer=None, dtype=torch.float32):
    """Train a step of a net that `wrap` has made parallel."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to(dtype)
    net = wrap(net) or net
    made = optimizer(net) if optimizer else torch.optim.SGD(net.parameters(), 0.1)
    net(torch.ones(2, 8, dtype=dtype)).sum().backward()
    made.step()
    return net


call("DistributedDataParallel")(lambda: train(DistributedDataParallel))
call("DistributedDataParallel of float64")(lambda: train(DistributedDataParallel, dtype=torch.float64))
call("DDP, gradient_as_bucket_view")(lambda: train(lambda n: DistributedDataParallel(n, gradient_as_bucket_view=True)))
call("DDP, static_graph")(lambda: train(lambda n: DistributedDataParallel(n, static_graph=True)))
call("DDP, find_unused_parameters")(lambda: train(lambda n: DistributedDataParallel(n, find_unused_parameters=True)))


@call("DDP, join()")
def _():
    model = DistributedDataParallel(nn.Linear(4, 4))
    with model.join():
        for _ in range(1 + RANK):
            model(torch.ones(1, 4)).sum().backward()


@call("DDP, a hook of float16")
def _():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    def wrap(net):
        model = DistributedDataParallel(net)
        model.register_comm_hook(None, fp16_compress_hook)
        return model
    train(wrap)


call("ZeroRedundancyOptimizer")(lambda: train(
    DistributedDataParallel, lambda n: ZeroRedundancyOptimizer(n.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)))
call("FullyShardedDataParallel")(lambda: train(lambda n: FullyShardedDataParallel(n, device_id=CPU)))


@call("fully_shard (FSDP2)")
def _():
    from torch.distributed.fsdp import fully_shard
    train(lambda net: fully_shard(net, mesh=init_device_mesh("cpu", (SIZE,))) and None)


@call("fully_shard over a 2-D mesh (HSDP)")
def _():
    from torch.distributed.fsdp import fully_shard
    train(lambda net: fully_shard(net, mesh=init_device_mesh("cpu", (SIZE, 1), mesh_dim_names=("replicate", "shard"))) and None)


@call("replicate")
def _():
    from torch.distributed._composable.replicate import replicate
    train(lambda net: replicate(net) and None)


@call("DTensor, Partial to Replicate")
def _():
    mesh = init_device_mesh("cpu", (SIZE,))
    DTensor.from_local(ones(), mesh, [Partial()]).redistribute(mesh, [Replicate()]).to_local()


@call("DTensor, Partial to Shard")
def _():
    mesh = init_device_mesh("cpu", (SIZE,))
    DTensor.from_local(ones(), mesh, [Partial()]).redistribute(mesh, [Shard(0)]).to_local()


@call("DTensor, Shard to Replicate")
def _():
    mesh = init_device_mesh("cpu", (SIZE,))
    distribute_tensor(ones(), mesh, [Shard(0)]).full_tensor()


@call("tensor parallel")
def _():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (SIZE,))
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})(torch.ones(2, 8)).sum().backward()


@call("functional all_reduce")
def _():
    functional.wait_tensor(functional.all_reduce(ones(), "sum", dist.group.WORLD))


@call("functional reduce_scatter_tensor")
def _():
    functional.wait_tensor(functional.reduce_scatter_tensor(ones(), "sum", 0, dist.group.WORLD))


@call("functional all_gather_tensor")
def _():
    functional.wait_tensor(functional.all_gather_tensor(ones(), 0, dist.group.WORLD))


@call("nn.functional.all_reduce")
def _():
    from torch.distributed.nn.functional import all_reduce
    all_reduce(ones().requires_grad_()).sum().backward()


@call("clip_grad_norm_ of FSDP2")
def _():
    from torch.distributed.fsdp import fully_shard
    net = train(lambda net: fully_shard(net, mesh=init_device_mesh("cpu", (SIZE,))) and None)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0).full_tensor()


@call("distributed.checkpoint")
def _():
    from torch.distributed import checkpoint
    where = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(where, 0)
    checkpoint.save({"x": ones()}, checkpoint_id=where[0])


@call("consume_prefix, state_dict, torch.save")
def _():
    torch.save(train(DistributedDataParallel).state_dict(), io.BytesIO())


def performed_by(function):
    """Return which backend performed a call, by the names of the profiler's events."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        try:
            function()
        except Exception as e:
            return f"error: {type(e).__name__}", str(e).splitlines()[0] if str(e) else ""
    names = {e.name.split(":")[0] for e in profiler.events() if e.name.startswith(("fpisa:", "gloo:"))}
    return ", ".join({"fpisa": "fpisa", "gloo": "Gloo"}[n] for n in sorted(names)) or "ran", ""


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("fpisa", timeout=datetime.timedelta(seconds=60))
    dist.all_reduce(ones())
    for name, function in CALLS:
        by, said = performed_by(function)
        dist.barrier()
        if RANK == 0:
            print(f"{name}: {by}" + (f" ({said})" if said else ""), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
