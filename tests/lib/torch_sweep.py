#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check that backend "fpisa" does what torch.distributed specifies for all-reduce. Each check is a function below, and is named in
doc/torch.md. The program is a rank of three. test_torch.py starts the ranks, with RANK and WORLD_SIZE as torchrun sets them.

    torch_sweep.py

Expected values are computed, in float64 or integers, from the contributions of all ranks. Each rank can draw these contributions.
"""
import atexit
import datetime
import itertools
import logging
import math
import os
import signal
import sys
import threading
import time
import traceback

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

import fpisa
import fpisa.torch
from torch_checks import CHECKS, MODERN, OPS, RANK, SIZE, TYPES, check, close, draw, expected, raises, same_everywhere


@check
def types_and_operations():
    seed = 0
    for dtype in TYPES:
        for op in OPS:
            for shape in (), (1,), (1000,), (3, 5, 70):
                seed += 1
                t = draw(seed, shape, dtype, RANK)
                assert dist.all_reduce(t, op) is None
                close(t, expected(seed, shape, dtype, op), dtype)
            same_everywhere(t)


@check
def large():
    t = draw(1, (300000,), torch.float32, RANK)
    dist.all_reduce(t)
    close(t, expected(1, (300000,), torch.float32), torch.float32)
    same_everywhere(t)


@check
def correctly_rounded():
    for dtype in TYPES:
        values = [torch.randn(2000, generator=torch.Generator().manual_seed(r), dtype=torch.float64).to(dtype) for r in range(SIZE)]
        t = values[RANK].clone()
        dist.all_reduce(t)
        right = torch.tensor([math.fsum(x) for x in zip(*(v.tolist() for v in values))], dtype=torch.float64).to(dtype)
        assert (t != right).sum() <= (5 if dtype == torch.float64 else 0), dtype


@check
def exact():
    """In mode exact the sum of x, -x and 1 is 1 in every order of the ranks, for each part of a complex number."""
    orders = list(itertools.permutations((math.pi * 1e30, -math.pi * 1e30, 1, *[0] * (SIZE - 3))))
    fpisa.torch.configure(mode="exact")
    group = dist.new_group()
    fpisa.torch.configure()
    for dtype in torch.float32, torch.float64, torch.complex64, torch.complex128:
        parts = [complex(order[RANK], -order[RANK]) if dtype.is_complex else order[RANK] for order in orders]
        t = torch.tensor(parts, dtype=dtype)
        dist.all_reduce(t, group=group)
        assert (t == (1 - 1j if dtype.is_complex else 1)).all(), (dtype, t)


@check
def empty():
    for dtype in TYPES:
        t = torch.empty(0, 3, dtype=dtype)
        work = dist.all_reduce(t, async_op=True)
        assert work.wait() and work.is_completed() and work.get_future().wait()[0].shape == (0, 3)


@check
def not_contiguous():
    for seed, view in enumerate([lambda t: t[:, ::2], lambda t: t.t(), lambda t: t[1:, 3], lambda t: t.narrow(1, 2, 3)]):
        base = draw(seed, (40, 50), torch.float32, RANK)
        before = base.clone()
        t = view(base)
        dist.all_reduce(t)
        close(t, view(expected(seed, (40, 50), torch.float32)), torch.float32)
        mask = torch.ones_like(base, dtype=torch.bool)
        view(mask).zero_()
        assert torch.equal(base[mask], before[mask])


@check
def inference():
    """Tensors of inference_mode() are summed inside the mode and after it. They may be contiguous, strided, transposed, several at once, or
    together with other tensors."""
    views = [lambda t: t, lambda t: t[:, ::2], lambda t: t.t(), lambda t: t[1:, 3]]
    with torch.inference_mode():
        bases = [draw(seed, (40, 50), torch.float32, RANK) for seed in range(len(views))]
        for seed, (view, base) in enumerate(zip(views, bases)):
            dist.all_reduce(view(base))
            close(view(base), view(expected(seed, (40, 50), torch.float32)), torch.float32)
        t = torch.ones(3, requires_grad=False)[::2]
    dist.all_reduce(t)
    works = [dist.all_reduce(view(base), async_op=True) for view, base in zip(views, bases)]
    assert all(w.wait() for w in works) and t.tolist() == [SIZE] * 2
    tensors = [torch.ones(4, 4)[:, ::2], torch.ones(5)]
    with torch.inference_mode():
        tensors.append(torch.ones(3, 3).t())
        dist.all_reduce_coalesced(tensors)
        dist.all_reduce(torch.view_as_real(torch.ones(4, dtype=torch.complex64))[:, 0])
    assert all((t == SIZE).all() for t in tensors)


@check
def asynchronous():
    """Many calls of several types may be in progress, and the program may wait for them in any order."""
    shapes = [(n,) for n in (1, 5000, 33, 0, 20000, 800)] * 4
    types = list(TYPES)
    tensors = [draw(i, s, types[i % 4], RANK) for i, s in enumerate(shapes)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for i in reversed(range(len(works))):
        assert works[i].wait(datetime.timedelta(seconds=60)) and works[i].is_completed() and works[i].is_success()
        close(tensors[i], expected(i, shapes[i], types[i % 4]), types[i % 4])
        assert works[i].result()[0] is tensors[i] or torch.equal(works[i].result()[0], tensors[i])


@check
def progress():
    """A call ends even if the program neither tests it nor waits for it."""
    dist.barrier()
    work = dist.all_reduce(torch.ones(100000), async_op=True)
    deadline = time.monotonic() + 60
    while not work.is_completed():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@check
def futures():
    """Callbacks may start calls and wait for them."""
    t = torch.full((1000,), float(RANK))

    def again(future):
        value = future.value()[0]
        assert value.data_ptr() == t.data_ptr()
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return value + 1

    future = dist.all_reduce(t, async_op=True).get_future().then(again)
    assert (future.wait() == sum(range(SIZE)) + 1).all()

    def deeper(depth):
        def callback(future):
            value = future.value()[0]
            if depth:
                later = dist.all_reduce(value, async_op=True).get_future()
                return later.then(deeper(depth - 1)).wait() if depth % 2 else later.wait()[0]
            return value
        return callback

    for depth in range(4):
        future = dist.all_reduce(torch.ones(1000), async_op=True).get_future().then(deeper(depth))
        assert (future.wait() == SIZE ** (depth + 1 if depth < 2 else 2 if depth == 2 else 3)).all(), depth

    # A future is done when wait() returns, even while the callback of an earlier call continues.
    waited = threading.Event()
    main = threading.current_thread()  # runs the callback if the call has ended before then()
    earlier = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _: threading.current_thread() is main or waited.wait(60))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    seen = work.get_future().then(lambda future: dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0].item())
    work.wait()
    done = work.get_future().done()
    waited.set()
    assert done and earlier.wait() and seen.wait() == SIZE ** 2


@check
def communication_hooks():
    """PyTorch's own hooks, which start calls in callbacks, work. PowerSGD gives the same weights as over Gloo, and the float16 hook gives
    nearly the same."""
    weights = {}
    for group in None, dist.new_group(backend="gloo"):
        for name, hook, state in (("half", default_hooks.fp16_compress_hook, group),
                                  ("power", powerSGD_hook.powerSGD_hook,
                                   powerSGD_hook.PowerSGDState(group, 1, start_powerSGD_iter=2, random_seed=5))):
            torch.manual_seed(1)
            net = torch.nn.Sequential(torch.nn.Linear(30, 50), torch.nn.Tanh(), torch.nn.Linear(50, 3))
            model = torch.nn.parallel.DistributedDataParallel(net, process_group=group)
            model.register_comm_hook(state, hook)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(5):
                optimizer.zero_grad()
                model(draw(step, (8, 30), torch.float32, RANK)).pow(2).mean().backward()
                optimizer.step()
            weights[group, name] = torch.cat([p.detach().view(-1) for p in net.parameters()])
            same_everywhere(weights[group, name])
    for name in "half", "power":
        ours, theirs = (w for (_, n), w in weights.items() if n == name)
        assert (ours - theirs).abs().max() < 1e-3, name


class Halt(torch.autograd.Function):
    """A function whose backward() waits for all sums that were started earlier"""

    asked, ended = [], []

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        deadline = time.monotonic() + 60
        while not all(future.done() for future in Halt.asked):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        Halt.ended.append(len(Halt.asked))
        return gradient


@check
def overlap():
    """The buckets of DistributedDataParallel are summed while backward() continues. The test's backward() waits until the earlier sums are
    done."""
    def ask(_, bucket):
        Halt.asked.append(dist.all_reduce(bucket.buffer().div_(SIZE), async_op=True).get_future())
        return Halt.asked[-1].then(lambda future: future.value()[0])

    last, first = torch.nn.Linear(600, 600, bias=False), torch.nn.Linear(600, 600, bias=False)
    net = torch.nn.ModuleList([first, last])
    net.forward = lambda x: last(Halt.apply(first(x)))
    model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
    model.register_comm_hook(None, ask)
    for step in range(3):
        Halt.asked.clear()
        model(draw(step, (4, 600), torch.float32, RANK)).sum().backward()
        # The first step determines the order of gradients and has one bucket.
        assert (len(Halt.asked), Halt.ended[-1]) == ((2, 1) if step else (1, 0))
        same_everywhere(first.weight.grad)


@check
def gradients():
    """A leaf tensor that requires a gradient can be summed."""
    for view in lambda t: t, lambda t: t[:, ::2]:
        leaf = torch.ones(4, 6, requires_grad=True)
        with torch.no_grad():
            t = view(leaf)
            dist.all_reduce(t)
        assert (t == SIZE).all() and leaf.is_leaf


@check
def complex_numbers():
    for dtype in torch.complex64, torch.complex128:
        t = torch.full((10,), complex(1, RANK), dtype=dtype)
        dist.all_reduce(t)
        assert (t == complex(SIZE, sum(range(SIZE)))).all() and t.dtype == dtype
        raises((RuntimeError, ValueError), "", dist.all_reduce, t, dist.ReduceOp.MAX)


@check
def negated_and_conjugated():
    """Views with a negative or conjugate bit, whose memory does not hold their values, are summed right, on one rank alone or on all
    ranks."""
    everywhere, here = range(SIZE), [r for r in range(SIZE) if r == 1]
    for seed, negated in enumerate((everywhere, here)):
        for dtype in TYPES:
            t = torch._neg_view(-draw(seed, (500,), dtype, RANK)) if RANK in negated else draw(seed, (500,), dtype, RANK)
            for op in OPS:
                dist.all_reduce(t, op)
                if op == dist.ReduceOp.SUM:
                    close(t.resolve_neg(), expected(seed, (500,), dtype), dtype)
            assert t.is_neg() == (RANK in negated)
            same_everywhere(t.resolve_neg())
    for imag in lambda z: z.conj().imag, lambda z: z.conj().imag[:1], lambda z: z.conj().imag.view(2, 2).t():
        z = torch.full((4,), complex(RANK, 1 + RANK))
        dist.all_reduce(imag(z))
        assert (imag(z) == -sum(range(SIZE + 1))).all() and (z.real == RANK).all()
    view = torch.full((4,), complex(1, RANK)).conj()
    raises(RuntimeError, "conj", dist.all_reduce, view)
    # The call has the same form as the call of DistributedDataParallel's reducer.
    dist.distributed_c10d._get_default_group().allreduce([view]).wait()
    assert (view == complex(SIZE, -sum(range(SIZE)))).all()
    integers = torch._neg_view(torch.ones(3, dtype=torch.int32))
    raises(RuntimeError, "resolve_neg()", dist.all_reduce, integers)


@check
def layouts():
    """Gloo sums sparse tensors. Other layouts are refused with an error message."""
    t = torch.tensor([0.0, 1.0 + RANK, 0.0]).to_sparse()
    dist.all_reduce(t)
    assert t.to_dense().tolist() == [0, sum(range(SIZE + 1)), 0]
    for t in (torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.quint8), torch.ones(3).to_mkldnn(),
              torch.eye(3).to_sparse_csr(), torch._efficientzerotensor(3)):
        raises(RuntimeError, "", dist.all_reduce, t)
    x = torch.arange(10.0) * (RANK + 1)
    dist.all_reduce(x.as_strided((8, 3), (1, 1)))  # the values overlap
    assert torch.equal(x, torch.arange(10.0) * sum(range(SIZE + 1)))


@check
def special_values():
    fpisa.torch.flags()
    t = torch.tensor([float("inf"), float("nan"), 1.0] if RANK == 1 else [1.0, 1.0, 1.0])
    dist.all_reduce(t)
    assert t[0] == float("inf") and t[1].isnan() and t[2] == SIZE
    assert {fpisa.Flags.NAN, fpisa.Flags.INF} <= set(fpisa.Flags) and fpisa.torch.flags() & fpisa.Flags.NAN
    t = torch.full((10,), 60000.0, dtype=torch.float16)
    dist.all_reduce(t)  # this call gives no error
    assert t.isinf().all()
    assert fpisa.torch.flags() & fpisa.Flags.OVERFLOW and fpisa.torch.flags() == 0


@check
def coalesced():
    tensors = [draw(i, s, torch.float32, RANK) for i, s in enumerate([(7,), (30, 40), (0,), (1,)])]
    tensors.append(draw(9, (20, 30), torch.float32, RANK).t())
    dist.all_reduce_coalesced(tensors)
    for i, t in enumerate(tensors[:-1]):
        close(t, expected(i, t.shape, torch.float32), torch.float32)
    close(tensors[-1], expected(9, (20, 30), torch.float32).t(), torch.float32)


@check
def subgroups():
    pair, alone = dist.new_group([0, 2]), dist.new_group([1])
    everyone = dist.new_group()
    for group, ranks in (pair, [0, 2]), (alone, [1]), (everyone, range(SIZE)):
        if RANK in ranks:
            for op in OPS:
                t = draw(3, (500,), torch.float32, RANK)
                dist.all_reduce(t, op, group=group)
                close(t, expected(3, (500,), torch.float32, op, ranks), torch.float32)
    t = torch.ones(10)
    dist.all_reduce(t)
    assert (t == SIZE).all()

    def many(group):
        for i in range(20):
            t = torch.full((3000,), float(i))
            dist.all_reduce(t, group=group)
            assert (t == SIZE * i).all()

    # Two threads call at the same time, each in its own group.
    thread = threading.Thread(target=many, args=(everyone,))
    thread.start()
    many(None)
    thread.join()


@check
def first_calls():
    """The first call of a group does not wait for other ranks. So ranks may use groups in different orders, and may send messages between a
    call and its wait(). Calls that wait still time out."""
    twenty = datetime.timedelta(seconds=20)
    groups = [dist.new_group(timeout=twenty) for _ in range(3)]
    values = [torch.full((4,), 10.0 ** i * (RANK + 1)) for i in range(3)]
    for i in (0, 1) if RANK else (1, 0):
        values[i] = values[i], dist.all_reduce(values[i], group=groups[i], async_op=True)
    for i in 0, 1:
        values[i][1].wait()
        assert (values[i][0] == 10.0 ** i * SIZE * (SIZE + 1) / 2).all()
    message = torch.ones(2)
    if RANK == 1:
        dist.recv(message, 0)
    work = dist.all_reduce(values[2], group=groups[2], async_op=True)
    if RANK == 0:
        dist.send(message, 1)
    work.wait()
    assert (values[2] == 100.0 * SIZE * (SIZE + 1) / 2).all()
    hasty = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if RANK:
        raises(RuntimeError, "no job in 1000 ms", dist.all_reduce, torch.ones(10), group=hasty)
    dist.barrier()


@check
def pipelines():
    """Each rank starts a first call, and sends to the next rank only after it has received from the previous rank."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=20))
    t, message = torch.full((4,), RANK + 1.0), torch.zeros(1)
    if RANK:
        dist.recv(message, RANK - 1)
    work = dist.all_reduce(t, group=group, async_op=True)
    if RANK + 1 < SIZE:
        dist.send(message + 1, RANK + 1)
    work.wait()
    assert message.item() == RANK and (t == SIZE * (SIZE + 1) / 2).all()


@check
def meshes():
    """Ranks may use the groups of a 2-D mesh in different orders."""
    if not MODERN:
        return
    for shape in (SIZE, 1), (1, SIZE):
        mesh = dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("a", "b"))
        groups = [mesh.get_group(name) for name in "ab"]
        values = [torch.ones(7) for _ in groups]
        order = (0, 1) if RANK % 2 else (1, 0)
        works = [dist.all_reduce(values[i], group=groups[i], async_op=True) for i in order]
        assert all(w.wait() for w in works)
        assert [v[0].item() for v in values] == list(shape)


ABOVE_ONE = 1 + 2.0 ** -23


def near_a_tie():
    """Return values whose sum is ABOVE_ONE if the sum is exact, and 1 if the smallest value is lost, as in mode fpisa64."""
    return torch.tensor([1.0, 2.0 ** -24, 2.0 ** -80][RANK % 3])


@check
def own_options():
    """The pg_options of a group add to the settings of configure()."""
    exact = dist.new_group(pg_options={"mode": "exact"})
    for group, right in (exact, ABOVE_ONE), (None, 1):
        t = near_a_tie()
        dist.all_reduce(t, group=group)
        assert t.item() == right
    fpisa.torch.configure(mode="default")  # this rounds to nearest, as without configure()
    t = torch.tensor([1.0, 0.75 * 2.0 ** -23, 0.0][RANK % 3])
    dist.all_reduce(t, group=dist.new_group(pg_options={"mode": "default"}))
    assert t.item() == ABOVE_ONE


@check
def split():
    """split_group() creates groups with the options of their parent."""
    if not hasattr(dist.group.WORLD, "split_group"):
        return
    exact = dist.new_group(pg_options={"mode": "exact"})
    assert exact._get_backend(torch.device("cpu")).options.backend == "fpisa"
    part = dist.split_group(exact, [list(range(SIZE))])
    t = near_a_tie()
    dist.all_reduce(t, group=part)
    assert t.item() == ABOVE_ONE
    pair = dist.split_group(None, [[0, 2], [1]])
    t = torch.full((5,), RANK + 1.0)
    dist.all_reduce(t, group=pair)
    assert (t == (2 if RANK == 1 else 4)).all()


@check
def premultiplied():
    """PREMUL_SUM multiplies by a number before the sum."""
    if not hasattr(dist, "_make_nccl_premul_sum"):
        return
    t = torch.full((6,), RANK + 1.0)
    dist.all_reduce(t, dist._make_nccl_premul_sum(0.5))
    assert (t == SIZE * (SIZE + 1) / 4).all()


@check
def coalescing_manager():
    """The coalescing manager turns its calls into one call. With a device, it also works between sends."""
    if not MODERN:
        return
    for device in None, torch.device("cpu"):
        tensors = [torch.full((n,), RANK + 1.0) for n in (3, 50)]
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            for t in tensors:
                dist.all_reduce(t)
        manager.wait()
        assert all((t == SIZE * (SIZE + 1) / 2).all() for t in tensors)


@check
def aborted():
    """abort() ends calls in progress with an error at once, on this rank and on the other ranks."""
    group = dist.new_group()
    t = torch.ones(10)
    dist.all_reduce(t, group=group)
    if not hasattr(group, "abort"):
        return
    if not RANK:
        group.abort()
        raises(RuntimeError, "fpisa: ", dist.all_reduce, t, group=group)
    else:
        raises(RuntimeError, "fpisa: ", dist.all_reduce, t, group=group)


@check
def parts():
    """After reduce_scatter, in all forms that torch offers, and after reduce, each rank's part has the bits of all_reduce. Nothing else is
    written."""
    for seed, (dtype, (op, _)) in enumerate((t, o) for t in TYPES for o in OPS.items()):
        for n in 0, 1, 257, 5000:
            whole = draw(seed, (SIZE * n,), dtype, RANK)
            right, before = whole.clone(), whole.clone()
            dist.all_reduce(right, op)
            right = right[RANK * n:][:n]
            out = torch.empty(n, dtype=dtype)
            dist.reduce_scatter_tensor(out, whole, op)
            close(out, right.double(), dtype)
            listed = torch.empty(2 * n, dtype=dtype)[::2]
            dist.reduce_scatter(listed, list(before.view(SIZE, n)), op)
            close(listed, right.double(), dtype)
            assert torch.equal(whole, before)
            work = dist.reduce_scatter_tensor(whole[RANK * n:][:n], whole, op, async_op=True)
            assert work.wait() and work.is_completed()
            close(whole[RANK * n:][:n], right.double(), dtype)
            whole[RANK * n:][:n] = before[RANK * n:][:n]
            assert torch.equal(whole, before)
            root = before.clone()
            dist.reduce(root, SIZE - 1, op)
            close(root, expected(seed, (SIZE * n,), dtype, op) if RANK == SIZE - 1 else before.double(), dtype)
    unequal = [draw(5, (r,), torch.float32, RANK) for r in range(SIZE)]
    out = torch.empty(RANK)
    dist.reduce_scatter(out, unequal)
    close(out, expected(5, (RANK,), torch.float32), torch.float32)
    overlapping = draw(6, (4 * SIZE,), torch.float32, RANK)
    dist.reduce_scatter_tensor(overlapping[1:5], overlapping.clone())
    close(overlapping[1:5], expected(6, (4 * SIZE,), torch.float32)[4 * RANK:][:4], torch.float32)
    t = draw(6, (4 * SIZE,), torch.float32, RANK)
    dist.reduce_scatter_tensor(t[1:5], t)
    close(t[1:5], expected(6, (4 * SIZE,), torch.float32)[4 * RANK:][:4], torch.float32)
    raises(RuntimeError, "for each of 3 ranks", dist.reduce_scatter_tensor, torch.empty(2), torch.ones(7))


def bits(seed, n, dtype):
    """Return n values of random bits, among them NaN with payloads, -0 and subnormals."""
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (n * torch.empty(0, dtype=dtype).element_size(),), dtype=torch.uint8,
                        generator=torch.Generator().manual_seed(seed))
    if not dtype.is_complex:
        return raw.view(dtype)
    return torch.view_as_complex(raw.view(torch.empty(0, dtype=dtype).real.dtype).view(-1, 2))


def raw(tensor):
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).contiguous().view(-1).view(torch.uint8)


OURS = {"broadcast": "fpisa"}


@check
def broadcasts():
    """With the option, every rank has the root's bits, whatever the type, the size and the strides, and nothing else is written."""
    group = dist.new_group(pg_options=OURS)
    types = [d for d in (getattr(torch, n, None) for n in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
                                                           "float64", "complex64", "complex128", "float8_e4m3fn", "uint16")) if d]
    for seed, (dtype, n) in enumerate(itertools.product(types, (0, 1, 3, 5, 257, 4099))):
        root = seed % SIZE
        t = bits(seed if RANK == root else 1000 + RANK, n, dtype)
        assert dist.broadcast(t, root, group=group) is None and torch.equal(raw(t), raw(bits(seed, n, dtype))), (dtype, n)
    views = [lambda t: t[:, ::2], lambda t: t.t(), lambda t: t[1:, 3], lambda t: t.narrow(1, 2, 3)]
    for seed, view in enumerate(views):
        base = bits(seed if RANK == 1 else 1000 + RANK, 2000, torch.float64).view(40, 50)
        right = base.clone()
        view(right).copy_(view(bits(seed, 2000, torch.float64).view(40, 50)))
        dist.broadcast(view(base), 1, group=group)
        assert torch.equal(raw(base), raw(right)), seed
    z = torch.full((4,), complex(RANK, 1 + RANK))
    dist.broadcast(z.conj().imag, 2, group=group)
    assert (z.imag == 3).all() and (z.real == RANK).all()
    with torch.inference_mode():
        t = torch.full((9, 2), float(RANK))
    leaf = torch.full((7,), float(RANK), requires_grad=True)
    works = [dist.broadcast(x, 1, group=group, async_op=True) for x in (t[:, 1], leaf.detach(), torch.ones(100000))]
    summed = torch.ones(5)
    dist.all_reduce(summed, group=group)
    future = works[2].get_future().then(lambda f: f.value()[0].sum().item())
    assert all(w.wait() and w.is_completed() for w in works) and future.wait() == 100000 and (summed == SIZE).all()
    assert (t[:, 1] == 1).all() and (t[:, 0] == RANK).all() and (leaf == 1).all()
    assert {r.by for r in fpisa.torch.report(group)} == {"fpisa"}
    pair = dist.new_group([0, 2], pg_options=OURS)
    if RANK != 1:
        t = torch.full((3,), RANK)
        dist.broadcast(t, 2, group=pair)
        assert (t == 2).all()


@check
def broadcasts_that_fail():
    """Ranks that disagree, a root that does not call, and wrong arguments give errors."""
    group = dist.new_group(pg_options=OURS)
    wrong = dist.BroadcastOptions()
    wrong.rootRank, wrong.rootTensor = SIZE, 0
    raises((RuntimeError, ValueError), "", group.broadcast, [torch.ones(3)], wrong)
    raises(RuntimeError, "share memory", dist.broadcast, torch.ones(1).expand(10), 0, group=group)
    raises(RuntimeError, "", dist.broadcast, torch.ones(3).to_sparse(), 0, group=group)
    for t, root in ((torch.ones(10 + RANK), 0), (torch.ones(8, dtype=(torch.float32, torch.int32)[RANK == 0]), 0), (torch.ones(8), RANK % 2)):
        group = dist.new_group(pg_options=OURS)
        dist.broadcast(torch.ones(1), 0, group=group)
        raises(RuntimeError, "different calls", dist.broadcast, t, root, group=group)
    group = dist.new_group(pg_options=OURS)
    dist.broadcast(torch.ones(1), 0, group=group)
    dist.all_reduce(torch.ones(1), group=group)
    raises(RuntimeError, "fpisa: ", *((dist.all_reduce, torch.ones(8)) if RANK == 1 else (dist.broadcast, torch.ones(8), 1)), group=group)
    hasty = dist.new_group(timeout=datetime.timedelta(seconds=1), pg_options=OURS)
    dist.broadcast(torch.ones(1), 0, group=hasty)
    if RANK:
        raises(RuntimeError, "rank 0 sent nothing", dist.broadcast, torch.ones(10), 0, group=hasty)
    dist.barrier()


@check
def reports():
    """report() says which backend performed the calls of a group, and the logger reports the first calls that Gloo performs."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    logger = logging.getLogger("fpisa.torch")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    group = dist.new_group()
    for _ in range(2):
        dist.all_reduce(torch.ones(10), group=group)
        dist.broadcast(torch.ones(5), 0, group=group)
        dist.all_reduce(torch.ones(3), dist.ReduceOp.PRODUCT, group=group)
    dist.all_reduce(torch.ones(4, dtype=torch.int64), group=group)
    logger.removeHandler(handler)
    rows = {row[:4]: row.why for row in fpisa.torch.report(group) if row.operation != "barrier"}
    assert set(rows) == {("all_reduce", "fpisa", 2, 80), ("broadcast", "gloo", 2, 40), ("all_reduce", "gloo", 2, 24), ("all_reduce", "gloo", 1, 32)}
    assert rows["all_reduce", "fpisa", 2, 80] == "" and "type" in rows["all_reduce", "gloo", 1, 32]
    assert "operation" in rows["all_reduce", "gloo", 2, 24], rows
    assert sorted(level for level, _ in lines) == ["INFO", "WARNING"] and "all_reduce by Gloo" in dict(lines)["WARNING"], lines


@check
def by_gloo():
    """Gloo performs all-reduces of other types and operations, and all other collectives."""
    for dtype in torch.int64, torch.int32, torch.uint8:
        t = torch.full((9,), RANK + 1).to(dtype)
        dist.all_reduce(t)
        assert (t == sum(range(SIZE + 1))).all()
    t = torch.tensor([2.0])
    dist.all_reduce(t, dist.ReduceOp.PRODUCT)
    assert t.item() == 2.0 ** SIZE
    t = torch.tensor([1 << RANK])
    dist.all_reduce(t, dist.ReduceOp.BOR)
    assert t.item() == (1 << SIZE) - 1
    t = torch.full((5,), float(RANK))
    dist.broadcast(t, 1)
    assert (t == 1).all()
    raises(RuntimeError, "resolve_neg()", dist.broadcast, torch._neg_view(t), 1)
    t = torch.full((5,), RANK)
    dist.reduce(t, 2)
    assert RANK != 2 or (t == sum(range(SIZE))).all()
    parts = [torch.empty(2) for _ in range(SIZE)]
    dist.all_gather(parts, torch.full((2,), float(RANK)))
    assert torch.stack(parts).sum(1).tolist() == [2.0 * r for r in range(SIZE)]
    dist.gather(torch.tensor([RANK]), [torch.empty(1, dtype=torch.int64) for _ in range(SIZE)] if RANK == 0 else None)
    t = torch.empty(1)
    dist.scatter(t, [torch.tensor([10.0 + r]) for r in range(SIZE)] if RANK == 0 else None)
    assert t.item() == 10 + RANK
    out = torch.empty(SIZE)
    dist.all_to_all_single(out, torch.arange(float(SIZE)))
    assert (out == RANK).all()
    to, whence = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    sending = dist.isend(torch.tensor([RANK]), to, tag=5)
    t = torch.empty(1, dtype=torch.int64)
    dist.recv(t, whence, tag=5)
    sending.wait()
    assert t.item() == whence
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    assert [o["rank"] for o in objects] == list(range(SIZE))
    dist.barrier()


@check
def refusals():
    raises(RuntimeError, "share memory", dist.all_reduce, torch.ones(1).expand(10))
    if MODERN:
        raises(RuntimeError, "pass tensor.to(torch.bfloat16)", dist.all_reduce, torch.ones(3).to(torch.float8_e4m3fn))
        raises(TypeError, "must be a dict", dist.new_group, pg_options="exact")
        raises(ValueError, "mode", dist.new_group, pg_options={"mode": "none"})
        raises(ValueError, "broadcast is 'mpi'", dist.new_group, pg_options={"broadcast": "mpi"})
    else:
        raises(RuntimeError, "", dist.all_reduce, torch.ones(3, device="meta"))
    raises((RuntimeError, TypeError), "Invalid function argument", dist.all_reduce, "no tensor")
    raises(ValueError, "mode", fpisa.torch.configure, mode="none")
    raises(TypeError, "gloo", fpisa.torch.flags, dist.new_group(backend="gloo"))


@check
def calls_that_differ():
    """Different calls on the ranks give an error. The check uses its own group, because a group cannot be used after the error."""
    group = dist.new_group()
    t = torch.ones(10)
    dist.all_reduce(t, group=group)
    raises(RuntimeError, "fpisa: ", dist.all_reduce, torch.ones(100 + RANK), group=group)
    dist.all_reduce(t)
    assert (t == SIZE * SIZE).all()
    group = dist.new_group()
    said = raises(RuntimeError, "asks for a different job", dist.all_reduce, torch.ones(10, dtype=(torch.float32, torch.float64)[RANK == 0]),
                  group=group)
    assert said.count("group ") == 1, said
    group = dist.new_group()
    dist.all_reduce(t, group=group)
    raises(RuntimeError, "different calls", dist.all_reduce_coalesced, [torch.ones(n) for n in ((3, 2), (2, 3))[RANK > 0]], group=group)
    group = dist.new_group()  # a call without values does not wait for other ranks, but counts as a call
    dist.all_reduce(t, group=group)
    if not RANK:
        dist.all_reduce(torch.empty(0), group=group)
    raises(RuntimeError, "different calls", dist.all_reduce, torch.ones(5), group=group)


@check
def timeouts():
    """The group sets the timeout of a call, and set_timeout() changes it. A wait has its own timeout, and the call continues after a wait
    has timed out."""
    group, hasty, changed = dist.new_group(), dist.new_group(timeout=datetime.timedelta(seconds=3)), dist.new_group()
    patient = dist.new_group(timeout=datetime.timedelta(days=365))
    for g in group, hasty, changed, patient:
        dist.all_reduce(torch.ones(10), group=g)
    t = torch.ones(10)
    if RANK:
        work = dist.all_reduce(t, group=group, async_op=True)
        raises(RuntimeError, "", work.wait, datetime.timedelta(milliseconds=50))
        assert not work.is_completed()
        raises(RuntimeError, "rank 0 sent nothing", dist.all_reduce, torch.ones(10), group=hasty)
        if hasattr(dist, "set_timeout"):
            dist.set_timeout(datetime.timedelta(milliseconds=2500), changed)
            raises(RuntimeError, "rank 0 sent nothing for chunk 0 of call 1 in 2500 ms", dist.all_reduce, torch.ones(10), group=changed)
    dist.barrier()
    if RANK:
        work.wait()
    else:
        dist.all_reduce(t, group=group)
    assert (t == SIZE).all()


@check
def destroyed_while_under_way():
    """If the other ranks never make a call, its work object and its future end with an error."""
    group, works = dist.new_group(), []
    dist.all_reduce(torch.ones(10), group=group)
    if RANK:
        works = [dist.all_reduce(torch.ones(100000), group=group, async_op=True) for _ in range(3)]
    dist.barrier()
    dist.destroy_process_group(group)
    del group
    for work in works:
        raises(RuntimeError, "fpisa: ", work.wait)
        assert work.get_future().done()
        raises(RuntimeError, "fpisa: ", work.get_future().wait)


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((4,), float(i))


@check
def forks():
    """A forked child has no process group, and its end changes nothing, so a DataLoader may have workers."""
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a child that hangs
        try:
            for call, *args in ((dist.all_reduce, torch.ones(5)), (dist.all_reduce, torch.ones(5, dtype=torch.int64)),
                                (dist.broadcast, torch.ones(5), 0), (dist.send, torch.ones(5), (RANK + 1) % SIZE), (dist.barrier,)):
                raises(RuntimeError, "this process is a child", call, *args)
            atexit._run_exitfuncs()
        finally:
            os._exit(sys.exc_info()[0] is not None)
    assert os.waitpid(child, 0)[1] == 0
    for batch in torch.utils.data.DataLoader(Images(), batch_size=4, num_workers=1):
        t = batch.sum().view(1)
        dist.all_reduce(t)
        assert t.item() == SIZE * batch.sum().item()


@check
def destroyed_and_made_again():
    """Process groups can be created again after a destroy, even with one store that still has the keys of the first group. PyTorch 1.13 itself
    waits forever in that case."""
    dist.barrier()
    dist.destroy_process_group()
    # Use another port, so that ranks do not find the store of the group that is ending.
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1, SIZE, RANK == 0)
    for again in (True, False) if MODERN else (False,):
        dist.init_process_group("fpisa", store=store, rank=RANK, world_size=SIZE)
        t = torch.ones(10)
        dist.all_reduce(t)
        assert (t == SIZE).all()
        if again:
            dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("fpisa")
    assert dist.get_backend() == "fpisa"
    for function in CHECKS:
        began = time.monotonic()
        try:
            function()
        except BaseException:
            traceback.print_exc()
            sys.exit(f"rank {RANK}: {function.__name__}")
        print(f"{function.__name__} {time.monotonic() - began:.2f}", flush=True)
    # If a rank ends without destroy_process_group(), the last calls of the other ranks still end.
    dist.all_reduce(torch.ones(100000))


if __name__ == "__main__":
    main()
