# SPDX-License-Identifier: GPL-2.0-only
"""Random valid MPI programs over overlapping communicators end, and each rank has the same results as without the adapter."""
import os
import random

import pytest

from lab import draw_seed

RANKS = 4
CALLS = 40
TYPES, OPERATORS, LONGEST = 3, 3, 3000


def communicators(rng):
    """Return the ranks of each communicator. Every communicator overlaps with others."""
    return [list(range(RANKS))] + [sorted(rng.sample(range(RANKS), rng.randint(2, RANKS))) for _ in range(4)]


def begins(rng, comms, calls):
    """Return each rank's clock at the start of each request, and the latest of these clocks over all ranks. A clock is not before the
    number of its call. Clocks keep the order of the calls on their communicator."""
    at, latest = {}, {}
    for c, ranks in enumerate(comms):
        mine = [k for k, call in enumerate(calls) if call[1] == c]
        for place, k in enumerate(mine):
            blocking = [j for j in mine[place:] if calls[j][0] != "start"]
            latest[k] = min([k + rng.choice((0, 2, 8))] + blocking[:1])
        for r in ranks:
            before = 0
            for k in mine:
                before = at[r, k] = k if calls[k][0] != "start" else rng.uniform(max(k, before), max(latest[k], before))
        for k in mine:
            latest[k] = max(at[r, k] for r in ranks)
    return at, latest


def schedule(rng):
    """Return lines of schedule.c. The calls of each rank have clocks, and an order within one clock. A blocking call has the same clock on
    all its ranks. On each rank, the wait for a request has a later clock than the start of the request. Therefore a wait at a clock waits
    only for calls at that clock or before, and no rank waits forever. Requests of different communicators are started in any order, in
    cycles too.
    """
    comms = communicators(rng)
    calls = [(rng.choices(("start", "call", "barrier"), (8, 1, 1))[0], rng.randrange(len(comms))) for _ in range(CALLS)]
    at, latest = begins(rng, comms, calls)
    events = []
    for k, (verb, c) in enumerate(calls):
        what = f"{verb} {c}" if verb == "barrier" else \
            f"{verb} {k} {c} {rng.randrange(TYPES)} {rng.randrange(OPERATORS)} {rng.choice((1, 50, LONGEST))}"
        for r in comms[c]:
            events.append((at[r, k], k, r, what))
            if verb == "start":
                events.append((latest[k] + rng.choice((0.001, 3, CALLS)), k, r, f"wait {k}"))
    for _ in range(CALLS // 4):
        clock = rng.uniform(0, CALLS)
        a, b = rng.sample(range(RANKS), 2)
        events += [(clock, 0, a, f"send {b}"), (clock, 0, b, f"recv {a}"),
                   (rng.uniform(0, CALLS), 0, a, f"pause {rng.randrange(3000)}")]
    lines = [f"-1 comm {' '.join(map(str, ranks))}" for ranks in comms]
    return lines + [f"{r} {what}" for _, _, r, what in sorted(events)]


def check(c, rounds):
    seed = draw_seed()
    rng = random.Random(seed)
    path = os.path.join(c.folder, "schedule")
    before = c.sent()
    for n in range(rounds):
        with open(path, "w") as f:
            f.write("\n".join(schedule(rng)) + "\n")
        plain, _ = c.run(RANKS, "schedule.c", path, preload=False)
        assert len(plain.split()) == RANKS
        ours, err = c.run(RANKS, "schedule.c", path)
        assert ours == plain and "fpisa: " not in err, (n, ours, plain, err)
    assert c.sent() - before > 50 * rounds
    c.groups.empty()


def test_schedules(cluster):
    check(cluster(), 2)


@pytest.mark.long
def test_many_schedules(cluster):
    check(cluster(), 60)
