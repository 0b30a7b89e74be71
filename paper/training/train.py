# SPDX-License-Identifier: GPL-2.0-only
"""Train a network with a format, an arm and a seed by 8 workers in one process. sweep.py does many such runs."""
import datetime
import time

import fpisa

import arms
import errors
import replica
from plan import EXPERIMENT


def sampled(epochs):
    """Return the first, the middle and the last epoch. As in the paper, the middle step of each is sampled."""
    return sorted({0, epochs // 2, epochs - 1})


def run(settings, data, program, after_epoch=lambda done: None):
    """Do a run and return its record. `program` is the path of `fpisa`. after_epoch(number of completed epochs) is called after
    each epoch.
    """
    began, cpu = time.monotonic(), time.process_time()
    r = replica.Replica(settings.model, data, settings.format, settings.seed)
    adder = arms.make(settings.arm, settings.format, r.workers)
    accuracy, loss, samples, flags, steps = [], [], [], {f.name: 0 for f in fpisa.Flags}, 0
    try:
        for epoch in range(settings.epochs):
            batches = r.batches(epoch)
            for step, of_workers in enumerate(batches):
                gradients = [r.gradient(b) for b in of_workers]
                total, raised = adder.total(gradients)
                if epoch in sampled(settings.epochs) and step == len(batches) // 2:
                    samples.append({"epoch": epoch + 1,
                                    **errors.of(gradients, total, settings.arm, settings.format, program)})
                for f in fpisa.Flags:
                    flags[f.name] += bool(raised & f)
                r.update(total)
                steps += 1
            right, mean = r.accuracy()
            accuracy.append(right)
            loss.append(mean)
            after_epoch(epoch + 1)
    finally:
        adder.close()
    return {"experiment": EXPERIMENT, **settings._asdict(), "parameters": r.size, "steps": steps, "accuracy": accuracy,
            "loss": loss, "flags": {k: n for k, n in flags.items() if n}, "samples": samples, "weights": r.digest(),
            "date": datetime.date.today().isoformat(),
            "seconds": round(time.monotonic() - began, 6),  # precise enough to distinguish the records of different runs
            "cpu_s": round(time.process_time() - cpu, 1)}
