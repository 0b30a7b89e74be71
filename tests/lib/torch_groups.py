#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure the creation of process groups. test_torch_groups.py starts the ranks.

    torch_groups.py BACKEND GROUPS

Each rank creates GROUPS groups of all ranks by new_group(), and as many by split_group(). Rank 0 prints a line of JSON with medians in ms:
`nothing` between two barriers, `new_group` and `split_group` until the last rank has the group, `join` at the manager and `gloo`, which are
parts of the creation at rank 0, and the `first` and `second` all-reduce of a group. It then waits for a line, with all groups open.
"""
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

import fpisa.torch

parts = {"join": [], "gloo": []}


def timed(name, function):
    def run(*args, **options):
        began = time.monotonic()
        result = function(*args, **options)
        parts[name].append((time.monotonic() - began) * 1e3)
        return result

    return run


def until_all(function):
    """Return the result, and the ms until the last rank has its own. All ranks begin together."""
    dist.barrier()
    began = time.monotonic()
    result = function()
    dist.barrier()
    return result, (time.monotonic() - began) * 1e3


def main():
    backend, number = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    everyone = list(range(dist.get_world_size()))
    fpisa.torch.join, dist.ProcessGroupGloo = timed("join", fpisa.torch.join), timed("gloo", dist.ProcessGroupGloo)
    ways = {"new_group": lambda: dist.new_group(everyone)}
    if hasattr(dist.group.WORLD, "split_group"):
        ways["split_group"] = lambda: dist.split_group(None, [everyone])
    dist.all_reduce(torch.ones(1))
    times = {"nothing": [until_all(lambda: None)[1] for _ in range(number)]}
    groups = []
    for way, create in ways.items():
        made = [until_all(create) for _ in range(number)]
        groups += [group for group, _ in made]
        times[way] = [ms for _, ms in made]
    for call in "first", "second":
        times[call] = [until_all(lambda: dist.all_reduce(torch.ones(1), group=group))[1] for group in groups]
    if dist.get_rank() == 0:
        print(json.dumps({name: round(statistics.median(ms), 2) for name, ms in {**times, **parts}.items() if ms}), flush=True)
        sys.stdin.readline()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
