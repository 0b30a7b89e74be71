# SPDX-License-Identifier: GPL-2.0-only
"""Test the communication hook under DistributedDataParallel. Ranks are threads over `mem`, and each rank gets the averages of its own
process group."""
import numpy as np
import pytest

import fpisa

torch = pytest.importorskip("torch", reason="python3-torch is not installed; run make bench")
torch_hook = pytest.importorskip("fpisa.torch_hook")


@pytest.fixture(scope="module")
def gloo(tmp_path_factory):
    """A process group of one rank, so that torch's own averages have no effect"""
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("store") / "file"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def gradients(net, x):
    net(x).pow(2).sum().backward()
    return [p.grad.clone() for p in net.parameters()]


def make_net(dtype=torch.float32):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3)).to(dtype)


@pytest.mark.parametrize("dtype,type_,as_type,close", [
    (torch.float32, "float32", None, 1e-5), (torch.float64, "float64", None, 1e-12),
    (torch.float32, "float16", torch.float16, 1e-2), (torch.float32, "bfloat16", torch.bfloat16, 5e-2)])
def test_average(gloo, dtype, type_, as_type, close):
    """With two ranks and several buckets, both ranks get the mean of the gradients that the ranks compute."""
    inputs = [torch.from_numpy(np.random.default_rng(r).uniform(-1, 1, (5, 30))).to(dtype) for r in range(2)]
    alone = [gradients(make_net(dtype), x) for x in inputs]
    models = [torch.nn.parallel.DistributedDataParallel(make_net(dtype), bucket_cap_mb=0.001) for _ in inputs]

    def rank_of(handle):
        hook = torch_hook.Hook(handle, as_type)
        models[handle.rank].register_comm_hook(hook, torch_hook.average)
        for _ in range(3):
            models[handle.rank].zero_grad()
            got = gradients(models[handle.rank], inputs[handle.rank])
        assert hook.error is None
        return got

    with fpisa.Mem(2, type_) as mem:
        results = mem.run(rank_of)
    for a, b, x, y in zip(*results, *alone):
        assert torch.equal(a, b) and (a - (x + y) / 2).abs().max() <= close * max(x.abs().max(), y.abs().max())
        assert not torch.equal(a, x)


def test_fewer_ranks(gloo):
    """If a rank was removed from the job, an error says that the average covers only the other ranks."""
    class Job:
        ranks = 0, 2

        def start(self, *_, **__):
            return self

        def wait(self):
            return fpisa.Result(None, fpisa.Flags.FEWER_RANKS)

    hook = torch_hook.Hook(Job())
    with pytest.warns(RuntimeWarning, match="averages over ranks 0, 2 only"):
        hook.start(torch.ones(4), 1).wait()
    assert hook.flags == fpisa.Flags.FEWER_RANKS


def test_an_error(gloo):
    """If a rank is gone, backward() ends, and the hook has the exception."""
    model = torch.nn.parallel.DistributedDataParallel(make_net())

    def rank_of(handle):
        if handle.rank:
            return
        hook = torch_hook.Hook(handle)
        model.register_comm_hook(hook, torch_hook.average)
        with pytest.raises(RuntimeError):
            gradients(model, torch.ones(5, 30))
        assert isinstance(hook.error, fpisa.TimedOut) and hook.error.ranks == (1,)

    with fpisa.Mem(2) as mem:
        mem.run(rank_of, timeout=1)


def test_views(gloo):
    """If a view that is not a bucket is passed to the hook itself, the average is correct, or an error says why the hook refuses it."""
    base = torch.tensor([1 + 2j, 3 - 4j])
    wrong = [(torch._neg_view(torch.ones(4)), ValueError), (base.conj(), ValueError), (base.conj().imag[:1], ValueError),
             (torch._neg_view(torch.ones(4, dtype=torch.bfloat16)), ValueError), (torch.ones(4, 4).t(), ValueError),
             (torch.ones(4).expand(2, 4), ValueError), (torch.ones(4).to_sparse(), TypeError),
             (torch.ones(4, dtype=torch.int32), TypeError), (torch.ones(4, device="meta"), TypeError),
             (torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.quint8), TypeError)]

    def rank_of(handle):
        hook = torch_hook.Hook(handle)
        for tensor, error in wrong:
            with pytest.raises(error, match="the gradients (are|have) "):
                hook.start(tensor, 1)
        assert hook.start(torch.empty(0, 3), 1).wait().shape == (0, 3)
        t = torch.tensor([complex(1, handle.rank), complex(handle.rank, -2)])
        assert hook.start(t, 1).wait() is t and t.tolist() == [1 + 0.5j, 0.5 - 2j]
        t = torch.full((2, 3), float(handle.rank), requires_grad=True)
        assert hook.start(t.t().contiguous(), 1).wait().tolist() == [[0.5, 0.5]] * 3
        with pytest.raises(TypeError, match="as_type"):
            torch_hook.Hook(handle, torch.int8)

    with fpisa.Mem(2) as mem:
        mem.run(rank_of)
