#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks of backend "fpisa" with tensors on an accelerator. Ranks are threads of this process (torch_threads.py).

    torch_staged.py cuda|ACCELERATOR [NAME...]
    torch_staged.py cuda RANK/SIZE PORT NAME...

The second form is one rank of several processes, which soft_server at that port serves. NCCL is inside. ACCELERATOR is a build of accelerator.cpp, which imitates a device. Without names all checks run that the device allows.
Expected values are computed in float64 from all ranks' contributions, which each rank can draw.
"""
import gc
import importlib.util
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import fpisa.torch
from torch_threads import be_rank, run

STUB = None
lock = threading.Lock()
together = {size: threading.Barrier(size) for size in (2, 3)}
TYPES = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float64: 1e-12}
OPS = {dist.ReduceOp.SUM: lambda x: x.sum(0), dist.ReduceOp.AVG: lambda x: x.mean(0),
       dist.ReduceOp.MIN: lambda x: x.min(0)[0], dist.ReduceOp.MAX: lambda x: x.max(0)[0]}
CHECKS, GPU_CHECKS = [], []
LARGE = 3 * (1 << 20) + 77  # values: several chunks, the last of them short


def check(function):
    CHECKS.append(function)
    return function


def gpu_check(function):
    GPU_CHECKS.append(function)
    return function


def use(argument):
    """Set DEVICE to "cuda", or to the device of the accelerator module in this file."""
    global STUB, DEVICE
    if argument == "cuda":
        DEVICE = "cuda"
        return
    spec = importlib.util.spec_from_file_location("accelerator", argument)
    STUB = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(STUB)
    STUB.is_available, STUB.device_count, STUB.is_initialized, STUB._is_in_bad_fork = (lambda: True), (lambda: 2), (lambda: True), (lambda: False)
    torch.utils.rename_privateuse1_backend("stub")
    torch._register_device_module("stub", STUB)
    dist.Backend.backend_capability["fpisa"] = ["cpu", "stub"]
    DEVICE = "stub"


def device(index=0):
    return torch.device(DEVICE, index)


def draw(seed, shape, dtype, rank):
    """Draw the contribution of a rank, on the CPU."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 * seed + rank), dtype=torch.float64).to(dtype)


def expected(seed, shape, dtype, size, op=dist.ReduceOp.SUM):
    return OPS[op](torch.stack([draw(seed, shape, dtype, r).double() for r in range(size)]))


def close(got, want, dtype):
    got = got.cpu()
    assert got.dtype == dtype and got.shape == want.shape, (got.dtype, got.shape)
    error = (got.double() - want).abs().max().item() if want.numel() else 0
    assert error <= TYPES[dtype] * max(1, want.abs().max().item() if want.numel() else 1), (error, got, want)


def raises(kind, text, function, *args, **options):
    try:
        function(*args, **options)
    except kind as e:
        assert text in str(e), str(e)
        return
    raise AssertionError(f"{function} raised nothing")


@check
def types_and_operations(rank, size):
    seed = 0
    for dtype in TYPES:
        for op in OPS:
            for shape in (), (1,), (1001,), (3, 5, 70), (0, 3):
                seed += 1
                t = draw(seed, shape, dtype, rank).to(device())
                dist.all_reduce(t, op)
                close(t, expected(seed, shape, dtype, size, op), dtype)


@check
def large(rank, size):
    for dtype in torch.float32, torch.bfloat16:
        t = draw(1, (LARGE,), dtype, rank).to(device())
        dist.all_reduce(t)
        close(t, expected(1, (LARGE,), dtype, size), dtype)


@gpu_check
def complex_numbers(rank, size):
    t = torch.complex(draw(1, (5000,), torch.float32, rank), draw(2, (5000,), torch.float32, rank)).to(device())
    dist.all_reduce(t)
    close(torch.view_as_real(t.cpu())[:, 1].contiguous(), expected(2, (5000,), torch.float32, size), torch.float32)


@check
def not_contiguous(rank, size):
    for seed, view in enumerate([lambda t: t[:, ::3], lambda t: t.t(), lambda t: t[5:50, 7:9]], 1):
        whole = draw(seed, (60, 400), torch.float32, rank).to(device())
        kept = whole.cpu()
        dist.all_reduce(view(whole))
        sums = expected(seed, (60, 400), torch.float32, size)
        close(view(whole), view(sums), torch.float32)
        view(kept).copy_(view(whole).cpu())
        assert torch.equal(whole.cpu(), kept)


@check
def asynchronous(rank, size):
    """Calls of several types and devices may be in progress, and the program may wait for them in any order."""
    calls = []
    for seed in range(12):
        dtype = list(TYPES)[seed % 3]
        t = draw(seed, (7 * 10 ** (seed % 6 + 1),), dtype, rank).to(device() if seed % 4 else "cpu")
        calls.append((seed, t, dist.all_reduce(t, async_op=True)))
    for seed, t, work in sorted(calls, key=lambda call: call[0] * 5 % 12):
        work.wait()
        close(t, expected(seed, tuple(t.shape), t.dtype, size), t.dtype)
        assert work.is_completed()


@check
def streams(rank, size):
    """A call takes the values that its stream will have computed, and another stream sees the result after wait()."""
    values = draw(1, (300000,), torch.float32, rank)
    t = torch.zeros(300000, device=device())
    with late_stream():
        t.copy_(values.pin_memory() if DEVICE == "cuda" else values, non_blocking=True)
        work = dist.all_reduce(t, async_op=True)
    work.wait()
    close(t.clone(), expected(1, (300000,), torch.float32, size), torch.float32)


class late_stream:
    """A stream of this thread whose work begins later."""

    def __enter__(self):
        if STUB:
            STUB.set_stream(5)
            for _ in range(30):  # each takes the delay
                torch.empty(1, device=device()).copy_(torch.ones(1), non_blocking=True)
            return
        self.context = torch.cuda.stream(torch.cuda.Stream())
        self.context.__enter__()
        torch.cuda._sleep(100_000_000)

    def __exit__(self, *error):
        if STUB:
            STUB.set_stream(0)
        else:
            self.context.__exit__(*error)


@check
def freed(rank, size):
    """If the program drops tensors during or after a call, memory that copies still use is not freed."""
    for seed in range(1, 6):
        t = draw(seed, (400000,), torch.float32, rank).to(device())
        work = dist.all_reduce(t[::2] if seed % 2 else t, async_op=True)
        del t
        noise = [torch.full((400000,), 1e30, device=device()) for _ in range(3)]
        result, = work.result()
        work.wait()
        close(result, expected(seed, (400000,), torch.float32, size)[::2 if seed % 2 else 1], torch.float32)
        del noise
    for _ in range(10):  # the copy to the device is the last user of these tensors
        dist.all_reduce(torch.ones(400000, device=device()), async_op=True)
    t = torch.ones(10, device=device())
    dist.all_reduce(t)
    assert (t == size).all()


@check
def completed(rank, size):
    """is_completed() is not true before the sums are in the tensor."""
    t = torch.ones(LARGE, device=device())
    if STUB:
        STUB.delay(0.3)
    work = dist.all_reduce(t, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    if STUB:
        STUB.delay(0)  # the copies of the next line are not delayed
    assert (t == size).all(), (t != size).sum()
    if STUB:
        STUB.delay(0.002)


@check
def coalesced(rank, size):
    shapes = (10,), (3, 400), (200000,)
    tensors = [draw(i, shape, torch.float32, rank).to(device()) for i, shape in enumerate(shapes)]
    dist.all_reduce_coalesced(tensors)
    for i, t in enumerate(tensors):
        close(t, expected(i, shapes[i], torch.float32, size), torch.float32)


@check
def futures(rank, size):
    t = draw(1, (300000,), torch.float32, rank).to(device())
    double = dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    close(double.wait(), 2 * expected(1, (300000,), torch.float32, size), torch.float32)


@check
def parts(rank, size):
    n = 700001
    whole = expected(1, (size * n,), torch.float32, size)
    t = draw(1, (size * n,), torch.float32, rank).to(device())
    out = torch.zeros(n, device=device())
    dist.reduce_scatter_tensor(out, t)
    close(out, whole[rank * n:(rank + 1) * n], torch.float32)
    own = t[rank * n:(rank + 1) * n]
    rest = t.clone().cpu()
    dist.reduce_scatter_tensor(own, t, dist.ReduceOp.AVG)
    close(own, whole[rank * n:(rank + 1) * n] / size, torch.float32)
    rest[rank * n:(rank + 1) * n] = own.cpu()
    assert torch.equal(rest, t.cpu())
    lengths = [1000 * (r + 1) for r in range(size)]
    pieces = [draw(10 + r, (length,), torch.float16, rank).to(device()) for r, length in enumerate(lengths)]
    out = torch.zeros(lengths[rank], dtype=torch.float16, device=device())
    dist.reduce_scatter(out, pieces)
    close(out, expected(10 + rank, (lengths[rank],), torch.float16, size), torch.float16)
    t = draw(2, (n,), torch.float64, rank).to(device())
    before = t.cpu()
    dist.reduce(t, size - 1)
    if rank == size - 1:
        close(t, expected(2, (n,), torch.float64, size), torch.float64)
    else:
        assert torch.equal(t.cpu(), before)


@check
def premultiplied(rank, size):
    t = draw(1, (5000,), torch.float32, rank).to(device())
    dist.all_reduce(t, dist._make_nccl_premul_sum(0.25))
    close(t, expected(1, (5000,), torch.float32, size) / 4, torch.float32)


@check
def inference(rank, size):
    with torch.inference_mode():
        t = draw(1, (60, 40), torch.float32, rank).to(device())
        dist.all_reduce(t)
        dist.all_reduce(t[:, ::2])
        t = t[:, 1::2].clone()
    close(t.clone(), expected(1, (60, 40), torch.float32, size)[:, 1::2], torch.float32)


@check
def reports(rank, size):
    dist.all_reduce(torch.ones(10, device=device()))
    entry, = fpisa.torch.report()
    assert entry == ("all_reduce", "fpisa", 1, 40, ""), entry


@check
def refusals(rank, size):
    t = torch.ones(10, device=device())
    group = dist.distributed_c10d._get_default_group()
    raises(RuntimeError, f"the tensors are on cpu and on {DEVICE}:0", dist.reduce_scatter_tensor, torch.ones(10 // size), t)
    raises(RuntimeError, f"the tensors are on {DEVICE}:0 and on cpu", group.allreduce_coalesced, [t, torch.ones(10)])


@check
def destroyed(rank, size):
    """destroy_process_group() ends the calls that are in progress, and those that wait for their turn."""
    if rank:
        return time.sleep(0.5)
    works = [dist.all_reduce(torch.ones(LARGE, device=device()), async_op=True) for _ in range(4)]
    works.append(dist.all_reduce(torch.ones(10), async_op=True))
    dist.destroy_process_group()
    for work in works:
        raises(RuntimeError, "fpisa: ", work.wait)
    dist.init_process_group("fpisa", store=dist.HashStore(), rank=0, world_size=1)


def half_summed(size):
    """Return a tensor of which a failed call has summed a part. Return after the call's error. All ranks make the same call."""
    t = torch.ones(LARGE if STUB else 20 * LARGE, device=device())
    if STUB:
        STUB.delay(0.3)  # for each chunk
    work = dist.all_reduce(t, async_op=True)
    while t[:1].cpu() == 1:
        time.sleep(0.01)
    together[size].wait()
    dist.destroy_process_group()
    raises(RuntimeError, "fpisa: ", work.wait)
    if STUB:
        STUB.delay(0)  # later copies are not delayed
    return t


def second_device(rank, size):
    """A rank of device 1 does not use device 0, where CUDA would create a context."""
    gc.collect()  # memory that other checks have left on device 0
    STUB.set_device(1)
    t = torch.ones(LARGE, device=device(1))
    before = STUB.counts()
    for _ in range(3):
        work = dist.all_reduce(t, async_op=True)
        doubled = work.get_future().then(lambda f: f.value()[0])
        work.wait()
        doubled.wait()
    del work, doubled
    assert (t == size ** 3).all()
    after = STUB.counts()
    assert after.get("uses of device 0") == before.get("uses of device 0"), (before, after)
    assert after["uses of device 1"] > before["uses of device 1"]


@check
def written_after_an_error(rank, size):
    """Values that the program writes after a call's error are not overwritten, although sums of the call were in flight."""
    t = half_summed(size)
    t.zero_()
    time.sleep(0.3)
    if STUB:
        STUB.delay(0.002)
    assert (t == 0).all(), (t != 0).sum()
    dist.init_process_group("fpisa", store=dist.HashStore(), rank=0, world_size=1)


@check
def half_summed_is_no_input(rank, size):
    """A tensor that contains sums of a failed call is refused until the program writes it. Other tensors are accepted."""
    t = half_summed(size)
    if STUB:
        STUB.delay(0.002)
    dist.init_process_group("fpisa", store=dist.HashStore(), rank=0, world_size=1)
    for _ in range(2):
        raises(RuntimeError, "sums of a failed in-place call", dist.all_reduce, t)
        raises(RuntimeError, "sums of a failed in-place call", dist.all_reduce, t[1000:2000])
    other = torch.ones_like(t)
    dist.all_reduce(other)
    t.copy_(other)
    dist.all_reduce(t)
    assert (t == 1).all() and (other == 1).all()


@check
def aborted(rank, size):
    """abort() and shutdown() leave the group, where PyTorch's process groups have them. A call in progress ends with an error."""
    group = dist.distributed_c10d._get_default_group()
    leave = getattr(group, ["abort", "shutdown"][rank], None)
    if not leave:
        return
    work = dist.all_reduce(torch.ones(10, device=device()), async_op=True) if rank else None
    time.sleep(0 if rank else 0.3)
    leave()
    raises(RuntimeError, "this process group is destroyed", dist.all_reduce, torch.ones(10))
    if work:
        raises(RuntimeError, "fpisa: ", work.wait)


@check
def left_in_a_callback(rank, size):
    """A callback may start a call while another thread leaves the group. The call is an error."""
    group, entered, errors = dist.distributed_c10d._get_default_group(), threading.Event(), []

    def callback(_):
        entered.set()
        time.sleep(0.3)
        for where in "cpu", device():
            try:
                group.allreduce([torch.ones(5, device=where)])
            except RuntimeError as e:
                errors.append(str(e))

    if rank:
        time.sleep(0.3)
        return dist.all_reduce(torch.ones(10))
    future = dist.all_reduce(torch.ones(10), async_op=True).get_future().then(callback)
    entered.wait()
    leaving = [threading.Thread(target=fpisa.torch._backend.leave_all), threading.Thread(target=fpisa.torch._backend.leave_all)]
    for thread in leaving:
        thread.start()
    for thread in leaving:
        thread.join()
    future.wait()
    assert len(errors) == 2 and all("this process group is destroyed" in e for e in errors), errors


@check
def forked(rank, size):
    """A call in a child after fork() is an error. Python destroys the process groups of the other threads in the child."""
    tensors = [torch.ones(10, device=device()), torch.ones(10)]
    for t in tensors:
        dist.all_reduce(t)
    together[size].wait()
    if rank == 0:
        assert os.waitpid(child_with(tensors), 0)[1] == 0
    together[size].wait()


def child_with(tensors):
    """Return a child process, in which calls of the tensors are errors."""
    child = os.fork()
    if child:
        return child
    signal.alarm(10)  # ends a child that hangs
    try:
        for t in tensors:
            # PyTorch 2.4's dist.all_reduce() prints a tensor after an error, for which a child has no device.
            raises(RuntimeError, "this process is a child", lambda: dist.distributed_c10d._get_default_group().allreduce([t]).wait())
    finally:
        os._exit(sys.exc_info()[0] is not None)


def deadline(rank, size):
    if rank == 0:
        began = time.monotonic()
        work = dist.all_reduce(torch.ones(LARGE, device=device()), async_op=True)
        raises(RuntimeError, "rank 1", work.wait)
        assert 1 < time.monotonic() - began < 20
    else:
        time.sleep(4)


def inner_missing(rank, size):
    """If fpisa does not support a call and has no backend that does, the error names what is missing."""
    raises(RuntimeError, f"broadcast: the tensor is on {DEVICE}:0; fpisa leaves this call to NCCL", dist.broadcast, torch.ones(3, device=device()), 0)


@gpu_check
def returns_at_once(rank, size):
    """The start of a call does not wait for the values, and wait() does not wait for the copy to the device, which is on the stream."""
    t = torch.ones(LARGE, device=device())
    dist.all_reduce(t)
    torch.cuda.synchronize()
    with late_stream():
        began = time.monotonic()
        work = dist.all_reduce(t, async_op=True)
        took = time.monotonic() - began
        late = not torch.cuda.current_stream().query()
    assert took < 0.01 and late, (took, late)
    work.wait()
    assert (t == size ** 2).all()


@gpu_check
def data_parallel(rank, size):
    """DistributedDataParallel gives the parameters of a training on the whole batch."""
    shared, alone = (make_net().to(device()) for _ in range(2))
    model = torch.nn.parallel.DistributedDataParallel(shared, bucket_cap_mb=0.5)
    train(model, shared, rank, size)
    train(alone, alone, None, size)
    for a, b in zip(shared.parameters(), alone.parameters()):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5), (a - b).abs().max()
    assert {(e.by, e.operation) for e in fpisa.torch.report()} >= {("fpisa", "all_reduce")}


def fully_sharded(rank, size):
    """fully_shard() gives the parameters of a training on the whole batch. Gloo's all_gather of CUDA tensors would crash."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    shared, alone = (make_net().to(device()) for _ in range(2))
    mesh = init_device_mesh(DEVICE, (size,))
    for layer in shared:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(shared, mesh=mesh)
    train(shared, shared, rank, size)
    train(alone, alone, None, size)
    for a, b in zip(shared.parameters(), alone.parameters()):
        assert torch.allclose(a.full_tensor(), b, rtol=1e-4, atol=1e-5), (a.full_tensor() - b).abs().max()
    assert size == 1 or ("fpisa", "reduce_scatter_tensor") in {(e.by, e.operation) for e in fpisa.torch.report()}


def make_net():
    with lock:  # all threads draw from one generator
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))


def train(model, net, rank, size):
    """Take five steps on this rank's part of the data, or on all of them."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(16 * size, 64, generator=generator), torch.randint(0, 10, (16 * size,), generator=generator)
        part = slice(16 * rank, 16 * rank + 16) if rank is not None else slice(None)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[part].to(device())), y[part].to(device())).backward()
        optimizer.step()


@gpu_check
def captured(rank, size):
    """A call is refused while a CUDA graph is captured."""
    if rank == 0:
        t = torch.ones(10, device=device())
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            raises(RuntimeError, "all_reduce: the stream is captured for a CUDA graph", dist.all_reduce, t)


@gpu_check
def beside_a_capture(rank, size):
    """A call in progress and another thread's capture of a CUDA graph in the default mode do not disturb each other."""
    t = torch.ones(20 * LARGE, device=device())
    x = torch.zeros(1000, device=device()).add_(1)  # loads the kernel
    graph = torch.cuda.CUDAGraph()
    work = dist.all_reduce(t, async_op=True)
    together[size].wait()  # the other rank's thread makes no call of CUDA until the sums have arrived
    if rank == 0:
        with torch.cuda.graph(graph):
            for _ in range(300):
                x.add_(1)
                time.sleep(0.001)
        assert not work.is_completed()
        graph.replay()
        assert (x == 301).all()
    work.wait()
    assert (t == size).all()


def call_of_nccl(rank, size):
    """Start a call of NCCL that rank 1 does not make. Rank 1 returns much later."""
    t = torch.arange(10, device=device())
    dist.all_reduce(t)
    torch.cuda.synchronize()
    if rank:
        time.sleep(10)
    else:
        dist.all_reduce(t, async_op=True)


def aborted_while_nccl_waits(rank, size):
    """abort() ends a call of NCCL that another rank has not made."""
    call_of_nccl(rank, size)
    began = time.monotonic()
    dist.distributed_c10d._get_default_group().abort()
    torch.cuda.synchronize()
    assert time.monotonic() - began < 5, time.monotonic() - began


def ended_while_nccl_waits(rank, size):
    """A process that does not destroy its group ends, although a call of NCCL waits for another rank."""
    call_of_nccl(rank, size)
    sys.exit()


def nccl_inside(rank, size):
    """Calls that fpisa does not make go to NCCL, which one rank can use on one GPU."""
    t = torch.arange(10, device=device())
    dist.all_reduce(t)
    dist.broadcast(t, 0)
    out = torch.zeros(10, dtype=t.dtype, device=device())
    dist.all_gather_into_tensor(out, t)
    dist.all_to_all_single(out, t)
    floats = torch.ones(10, device=device())
    dist.all_reduce(floats)
    dist.barrier()
    assert torch.equal(out.cpu(), torch.arange(10)) and (floats == 1).all()
    who = {(e.operation, e.by) for e in fpisa.torch.report()}
    assert who == {("all_reduce", "nccl"), ("broadcast", "nccl"), ("all_gather_into_tensor", "nccl"), ("all_to_all_single", "nccl"),
                   ("all_reduce", "fpisa"), ("barrier", "gloo")}, who


PAIRS = destroyed, written_after_an_error, half_summed_is_no_input, aborted, left_in_a_callback, beside_a_capture


def run_all(names):
    for function in CHECKS + (GPU_CHECKS if DEVICE == "cuda" else []):
        if not names or function.__name__ in names:
            began = time.monotonic()
            run(2 if function in PAIRS else 3, function)
            print(f"{function.__name__} passed in {time.monotonic() - began:.2f} s", flush=True)
    if not names or "deadline" in names:
        run(2, deadline, timeout=1.5)
        print("deadline passed", flush=True)
    if not STUB and (not names or "nccl_inside" in names):
        for function in nccl_inside, data_parallel, fully_sharded:
            run(1, function, gpus=True)
        print("nccl_inside passed", flush=True)
    if STUB and (not names or "second_device" in names):
        run(2, second_device)
        print("second_device passed", flush=True)
    if STUB and (not names or "inner_missing" in names):
        run(2, inner_missing, gpus=True)
        print("inner_missing passed", flush=True)


def run_rank(rank, size, port, names):
    be_rank(rank, size, port)
    for name in names:
        globals()[name](rank, size)
        print(f"rank {rank}: {name} passed", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


def main():
    use(sys.argv[1])
    if STUB:
        STUB.delay(0.002)
    torch.set_num_threads(1)
    if len(sys.argv) > 2 and "/" in sys.argv[2]:
        run_rank(*map(int, sys.argv[2].split("/")), int(sys.argv[3]), sys.argv[4:])
    else:
        run_all(sys.argv[2:])
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
