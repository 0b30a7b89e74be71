#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The promises of torch.distributed about all-reduce, by backend "fpisa". Each check is a function below, named in
doc/torch.md. The program is a rank of three; test_torch.py starts them, with RANK and WORLD_SIZE as torchrun sets them.

    torch_sweep.py

Expected values are computed, in float64 or integers, from all ranks' contributions, which each rank can draw.
"""
import atexit
import datetime
import math
import os
import sys
import threading
import time
import traceback

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

import fpisa
import fpisa.torch
from torch_checks import CHECKS, OPS, RANK, SIZE, TYPES, check, close, draw, expected, raises, same_everywhere


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
def asynchronous():
    """Many calls in progress, of several types, may be waited for in another order."""
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
    """A call ends without any look at it."""
    dist.barrier()
    work = dist.all_reduce(torch.ones(100000), async_op=True)
    deadline = time.monotonic() + 60
    while not work.is_completed():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@check
def futures():
    """Callbacks may start calls, and wait for them."""
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


@check
def communication_hooks():
    """PyTorch's own hooks, which start calls in callbacks, work: PowerSGD gives the same weights as over Gloo, and float16
    nearly."""
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
    """A function whose backward() waits for the sums that have been started so far"""

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
    """DistributedDataParallel's buckets are summed while backward() goes on: it waits there until the earlier sums are done."""
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
        # The first step finds out the order of gradients, and has one bucket.
        assert (len(Halt.asked), Halt.ended[-1]) == ((2, 1) if step else (1, 0))
        same_everywhere(first.weight.grad)


@check
def gradients():
    """A leaf that requires a gradient is summed."""
    for view in lambda t: t, lambda t: t[:, ::2]:
        leaf = torch.ones(4, 6, requires_grad=True)
        with torch.no_grad():
            t = view(leaf)
            dist.all_reduce(t)
        assert (t == SIZE).all() and leaf.is_leaf


@check
def complex_numbers():
    t = torch.full((10,), complex(1, RANK))
    dist.all_reduce(t)
    assert (t == complex(SIZE, sum(range(SIZE)))).all()
    raises(RuntimeError, "", dist.all_reduce, t, dist.ReduceOp.MAX)


@check
def negated_and_conjugated():
    """Views whose memory holds other values than they have are summed right, on one rank alone or on all."""
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
    # As reducers of DistributedDataParallel call it
    dist.distributed_c10d._get_default_group().allreduce([view]).wait()
    assert (view == complex(SIZE, -sum(range(SIZE)))).all()
    integers = torch._neg_view(torch.ones(3, dtype=torch.int32))
    raises(RuntimeError, "resolve_neg()", dist.all_reduce, integers)


@check
def layouts():
    """Gloo sums sparse tensors; other layouts are refused with a message."""
    t = torch.tensor([0.0, 1.0 + RANK, 0.0]).to_sparse()
    dist.all_reduce(t)
    assert t.to_dense().tolist() == [0, sum(range(SIZE + 1)), 0]
    for t in (torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.quint8), torch.ones(3).to_mkldnn(),
              torch.eye(3).to_sparse_csr(), torch._efficientzerotensor(3)):
        raises(RuntimeError, "", dist.all_reduce, t)
    t = torch.ones(10).as_strided((8, 3), (1, 1))  # each value three times
    dist.all_reduce(t)
    assert (t == SIZE).all()


@check
def special_values():
    fpisa.torch.flags()
    t = torch.tensor([float("inf"), float("nan"), 1.0] if RANK == 1 else [1.0, 1.0, 1.0])
    dist.all_reduce(t)
    assert t[0] == float("inf") and t[1].isnan() and t[2] == SIZE
    assert {fpisa.Flags.NAN, fpisa.Flags.INF} <= set(fpisa.Flags) and fpisa.torch.flags() & fpisa.Flags.NAN
    t = torch.full((10,), 60000.0, dtype=torch.float16)
    dist.all_reduce(t)  # no error
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

    # From two threads, each in a group of its own
    thread = threading.Thread(target=many, args=(everyone,))
    thread.start()
    many(None)
    thread.join()


@check
def first_calls():
    """First calls do not wait for other ranks: ranks may use groups in another order, and send between a call and its wait(). Their timeout
    holds."""
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
def by_gloo():
    """Gloo does all-reduces of other types and operations, and all other collectives."""
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
    t = torch.full((5,), float(RANK))
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
    raises(RuntimeError, "", dist.all_reduce, torch.ones(3, device="meta"))
    raises(RuntimeError, "Invalid function argument", dist.all_reduce, "no tensor")
    raises(ValueError, "mode", fpisa.torch.configure, mode="none")
    raises(TypeError, "gloo", fpisa.torch.flags, dist.new_group(backend="gloo"))


@check
def calls_that_differ():
    """Calls that differ are an error. They use a group of their own, since the group cannot be used after that."""
    group = dist.new_group()
    t = torch.ones(10)
    dist.all_reduce(t, group=group)
    raises(RuntimeError, "fpisa: ", dist.all_reduce, torch.ones(100 + RANK), group=group)
    dist.all_reduce(t)
    assert (t == SIZE * SIZE).all()
    group = dist.new_group()
    said = raises(RuntimeError, "asks for another job", dist.all_reduce, torch.ones(10, dtype=(torch.float32, torch.float64)[RANK == 0]),
                  group=group)
    assert said.count("group ") == 1, said
    group = dist.new_group()
    dist.all_reduce(t, group=group)
    raises(RuntimeError, "different calls", dist.all_reduce_coalesced, [torch.ones(n) for n in ((3, 2), (2, 3))[RANK > 0]], group=group)
    group = dist.new_group()  # a call without values waits for no rank, and is one of the calls
    dist.all_reduce(t, group=group)
    if not RANK:
        dist.all_reduce(torch.empty(0), group=group)
    raises(RuntimeError, "different calls", dist.all_reduce, torch.ones(5), group=group)


@check
def timeouts():
    """The group sets the timeout of a call; a wait has its own, after which the call goes on."""
    group, hasty = dist.new_group(), dist.new_group(timeout=datetime.timedelta(seconds=1))
    for g in group, hasty:
        dist.all_reduce(torch.ones(10), group=g)
    t = torch.ones(10)
    if RANK:
        work = dist.all_reduce(t, group=group, async_op=True)
        raises(RuntimeError, "", work.wait, datetime.timedelta(milliseconds=50))
        assert not work.is_completed()
        raises(RuntimeError, "rank 0 sent nothing", dist.all_reduce, torch.ones(10), group=hasty)
    dist.barrier()
    if RANK:
        work.wait()
    else:
        dist.all_reduce(t, group=group)
    assert (t == SIZE).all()


@check
def destroyed_while_under_way():
    """Works and futures of calls that the others will never make end with an error."""
    group, works = dist.new_group(), []
    dist.all_reduce(torch.ones(10), group=group)
    if RANK:
        works = [dist.all_reduce(torch.ones(100000), group=group, async_op=True) for _ in range(3)]
    dist.barrier()
    dist.destroy_process_group(group)
    del group
    for work in works:
        raises(RuntimeError, "fpisa: ", work.wait)
        raises(RuntimeError, "fpisa: ", work.get_future().wait)


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((4,), float(i))


@check
def forks():
    """A child has no process group, and its end changes nothing, so a DataLoader may have workers."""
    child = os.fork()
    if not child:
        try:
            raises(RuntimeError, "this is a child", dist.all_reduce, torch.ones(5))
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
    dist.barrier()
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)  # so that ranks do not find the store that is ending
    dist.init_process_group("fpisa")
    t = torch.ones(10)
    dist.all_reduce(t)
    assert (t == SIZE).all()


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
    # Without destroy_process_group() the others' last calls still end.
    dist.all_reduce(torch.ones(100000))


if __name__ == "__main__":
    main()
