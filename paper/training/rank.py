#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""One worker in a separate process. It is a rank of a job of the aggregator, and has its own replica of the network.

    rank.py ADDRESS JOB RANK PLAN

PLAN is JSON with settings (see plan.py), workers, steps, data and downloads. The arm is the mode of the job. The output is
JSON with the bits of all parameters after the steps, the flags that were raised, and the number of frames that were sent
again.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "adapters", "python"))

import data  # noqa: E402
import fpisa  # noqa: E402
import replica  # noqa: E402
from plan import Settings  # noqa: E402

JOIN_S = 120  # long, because other processes load torch at the same time


def main():
    address, job, rank, plan = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    settings = Settings(**plan["settings"])
    r = replica.Replica(settings.model, data.load(plan["data"], plan["downloads"]), settings.format, settings.seed,
                        plan["workers"])
    flags = fpisa.Flags(0)
    with fpisa.Handle(address, job, timeout=JOIN_S, overflow="flag") as handle:
        if handle.rank != rank:
            sys.exit(f"rank.py: the job has this host as rank {handle.rank}, not {rank}")
        for step in range(plan["steps"]):
            total, raised = handle.allreduce(r.gradient(r.batches(step // r.steps)[step % r.steps][rank]))
            flags |= raised
            r.update(total)
        retransmits = handle.info.retransmits
    print(json.dumps({"weights": r.digest(), "flags": [f.name for f in fpisa.Flags if f & flags], "retransmits": retransmits}))


if __name__ == "__main__":
    sys.exit(main())
