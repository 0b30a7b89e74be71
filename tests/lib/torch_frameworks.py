#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Train a step with a framework as doc/torch.md says. The program is a rank. test_torch_frameworks.py starts the ranks, with the variables
of torchrun.

    torch_frameworks.py accelerate|lightning

Each rank compares the parameters with those of a step with the data of all ranks in one process, and prints their digest.
"""
import hashlib
import os
import sys

import torch

import fpisa.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def data(rank=RANK):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(rank))


def loss_of(model, batch):
    return model(batch).pow(2).mean()


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), 0.1)


def alone():
    """Return the net after the step in one process."""
    model = net()
    loss_of(model, torch.cat([data(r) for r in range(SIZE)])).backward()
    optimizer_of(model).step()
    return model


def accelerate():
    from accelerate import Accelerator
    torch.distributed.init_process_group("fpisa")
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == SIZE
    model = net()
    model, optimizer = accelerator.prepare(model, optimizer_of(model))
    accelerator.backward(loss_of(model, data()))
    optimizer.step()
    assert accelerator.reduce(torch.ones(3), "sum").tolist() == [SIZE] * 3
    return accelerator.unwrap_model(model)


def accelerate_refuses():
    from accelerate import Accelerator, InitProcessGroupKwargs
    try:
        Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(backend="fpisa")])
    except ValueError as e:
        print(e)


def lightning():
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.strategies import DDPStrategy

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch):
            return loss_of(self.net, batch)

        def configure_optimizers(self):
            return optimizer_of(self)

    module = Module()
    trainer = Trainer(strategy=DDPStrategy(process_group_backend="fpisa"), accelerator="cpu", num_nodes=SIZE, devices=1, max_steps=1,
                      use_distributed_sampler=False, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                      enable_model_summary=False)
    trainer.fit(module, torch.utils.data.DataLoader(data(), batch_size=4))
    assert trainer.world_size == SIZE
    return module.net


def parameters(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "accelerate_refuses":
        return accelerate_refuses()
    trained = parameters({"accelerate": accelerate, "lightning": lightning}[sys.argv[1]]())
    assert torch.allclose(trained, parameters(alone()), rtol=0, atol=1e-6)
    assert not torch.allclose(trained, parameters(net()), rtol=0, atol=1e-4)
    assert sum(row.bytes for row in fpisa.torch.report() if row.by == "fpisa") >= trained.numel() * 4
    print("digest", hashlib.sha256(trained.numpy().tobytes()).hexdigest()[:16])
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
