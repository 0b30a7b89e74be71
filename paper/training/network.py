#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Train for a few steps over XDP, and compare the parameters with those of the same run inside one process.

    network.py BUILD [--steps 3] [--models vgg,...] [--arms exact,...] [--formats fp32,fp16] [--data mnist] [--record FILE]

Eight workers are processes in network namespaces with a replica each, and an aggregator in XDP connects them. The output is
a line of JSON for the machine and a line for each run. `exact` does not depend on the order of addition. So its parameters
must have the same bits as with transport `mem`, or else the exit status is 1. `fpisa` and `fpisa-a` depend on the order, and
frames arrive in any order. So for these modes the program only reports the result. It needs root.
"""
import argparse
import datetime
import json
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(TOP, part) for part in ("adapters/python", "bench", "tests/lib")]

import plan  # noqa: E402
from sweep import machine, words, write  # noqa: E402

JOB = 1
WAIT_S = 300  # long, because eight processes load torch


def over_the_network(net, settings, steps, data, downloads):
    """Run with the datapath that `net` (lab.Lab) has loaded. Return the answers of the ranks."""
    from lab import ADDRESS, LIBRARY, SLOW, end
    net.add_job(JOB, "--mode", settings.arm, "--format", settings.format)
    order = json.dumps({"settings": settings._asdict(), "workers": len(net.worker), "steps": steps, "data": data,
                        "downloads": downloads})
    ranks = [w.spawn(sys.executable, "-B", os.path.join(HERE, "rank.py"), ADDRESS, JOB, r, order,
                     env={**os.environ, "FPISA_LIBRARY": LIBRARY}) for r, w in enumerate(net.worker)]
    try:
        said = [(p, *p.communicate(timeout=WAIT_S * SLOW)) for p in ranks]
    finally:
        for p in ranks:
            end(p)
        net.fpisa("job", "del", JOB)
    failed = [f"rank {r} ended with status {p.returncode}: {err.strip()}" for r, (p, _, err) in enumerate(said) if p.returncode]
    if failed:
        raise RuntimeError("\n".join(failed))
    return [json.loads(out) for _, out, _ in said]


def in_the_process(settings, steps, data, downloads, workers):
    """Do the same run with transport `mem`. Return the bits of the parameters."""
    import arms
    import data as images
    import replica
    r = replica.Replica(settings.model, images.load(data, downloads), settings.format, settings.seed, workers)
    adder = arms.make(settings.arm, settings.format, workers)
    try:
        for step in range(steps):
            r.update(adder.total([r.gradient(b) for b in r.batches(step // r.steps)[step % r.steps]])[0])
    finally:
        adder.close()
    return r.digest()


def compare(net, settings, steps, data, downloads):
    """Do the run in both ways. Return the comparison."""
    ranks = over_the_network(net, settings, steps, data, downloads)
    weights = {r["weights"] for r in ranks}
    mem = in_the_process(settings, steps, data, downloads, len(net.worker))
    return {"model": settings.model, "format": settings.format, "arm": settings.arm, "seed": settings.seed,
            "workers": len(ranks), "steps": steps, "ranks_agree": len(weights) == 1, "same_bits_as_mem": weights == {mem},
            "flags": sorted({f for r in ranks for f in r["flags"]}), "retransmits": sum(r["retransmits"] for r in ranks)}


def main():
    p = argparse.ArgumentParser(prog="paper/training/network.py", description=__doc__.splitlines()[0])
    p.add_argument("build", metavar="BUILD", type=os.path.abspath)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--data", default="mnist")
    for name, known, default in (("models", tuple(plan.NETWORKS), list(plan.NETWORKS)), ("arms", plan.MODES, ["exact"]),
                                 ("formats", plan.FORMATS, list(plan.FORMATS))):
        p.add_argument(f"--{name}", type=words(known), default=default)
    p.add_argument("--record", metavar="FILE", help="file to which the lines are also written, in place of its contents")
    args = p.parse_args()
    if os.geteuid():
        p.error("network namespaces and XDP require root; run as root")
    os.environ["FPISA_BUILD"] = args.build
    os.environ["FPISA_LIBRARY"] = os.path.join(args.build, "libfpisa.so")
    import data as images
    from common import labs, own_mounts
    own_mounts()
    downloads = os.path.join(args.build, "training")
    images.load(args.data, downloads)  # before the namespaces are entered, because they do not have a route
    lines, good = [{**machine(), "date": datetime.date.today().isoformat()}], True
    print(json.dumps(lines[0]), flush=True)
    net = labs.Lab(plan.WORKERS)
    try:
        net.load()
        for model in args.models:
            for format in args.formats:
                for arm in args.arms:
                    settings = plan.Settings(args.data.partition(":")[0], model, format, arm, plan.SEEDS[0], plan.EPOCHS)
                    found = compare(net, settings, args.steps, args.data, downloads)
                    lines.append(found)
                    print(json.dumps(found), flush=True)
                    good &= found["ranks_agree"] and (found["same_bits_as_mem"] or arm != "exact")
    finally:
        net.close()
    if args.record:
        write(args.record, lines)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
