# SPDX-License-Identifier: GPL-2.0-only
"""Run groups of random formats, modes and sizes, in turn and at once. Some groups lose a rank. No sum is wrong, and no object leaks."""
import random

import pytest

from groups import Groups
from lab import SLOW, draw_seed, wait_until

pytestmark = pytest.mark.families(spread=True)

HOSTS = 3
ECONNRESET = 104
TYPES = "float32", "float16", "bfloat16", "float64", "int32"
MODES = 0, 1, 3	 # the default mode, fpisa, fpisa64
AT_ONCE = 24


class Group:
    """A running group"""

    def __init__(self, g, name, rng, lives_s):
        """Start the group. Its sums take this number of seconds in total."""
        self.types = rng.sample(TYPES, rng.randint(1, 2))
        hosts = rng.sample(range(HOSTS), rng.randint(2, HOSTS)) + rng.choices(range(HOSTS), k=rng.randint(0, 2))
        times = rng.randint(5, 40)
        steps = [{"check": t, "times": times, "seed": rng.randrange(1000), "pause": lives_s / times / len(self.types)}
                 for t in self.types]
        options = {"mode": rng.choice(MODES), "window": rng.choice([8, 16]), "join_timeout_ms": int(60000 * SLOW)}
        self.victim = rng.randrange(len(hosts)) if rng.random() < 0.25 else None
        self.ranks = []
        for r, h in enumerate(hosts):
            # One rank holds the group until it is killed. The other ranks then get the error in their last step.
            last = {"barrier": True} if self.victim is not None else {"leave": True}
            mine = [*steps, last] if r != self.victim else steps
            self.ranks.append(g.start(h, name, r, len(hosts), *mine, hold=r == self.victim, **options))

    def check(self):
        """Check all output of the ranks, to the end. Return the number of sums."""
        calls = 0
        for r, rank in enumerate(self.ranks):
            answers = [rank.line() for _ in range(1 + len(self.types))]
            assert all(a["rc"] == 0 for a in answers), (r, answers)
            assert all(a["wrong"] == 0 for a in answers[1:]), (r, answers)
            calls += sum(a["calls"] for a in answers[1:])
        if self.victim is not None:
            self.ranks[self.victim].kill()
        for r, rank in enumerate(self.ranks):
            if r != self.victim:
                answer = rank.line()
                assert answer["rc"] == (0 if self.victim is None else -ECONNRESET), (r, answer)
                assert self.victim is None or answer["missing"] == 1 << self.victim, (r, answer)
            rank.end()
        return calls


@pytest.mark.early
@pytest.mark.parametrize("groups, lives_s", [(20, 6), pytest.param(200, 40, marks=pytest.mark.long)])
def test_in_turn(lab, tmp_path, groups, lives_s):
    net, rng = lab(workers=HOSTS), random.Random(draw_seed())
    net.load()
    g = Groups(net, str(tmp_path))
    try:
        g.serve()
        # Programs and maps of a format's family are loaded for its first job, and stay.
        for mode in MODES:
            steps = [{"check": t, "times": 1, "seed": 0} for t in TYPES]
            ranks = g.group("first", range(2), *steps, {"leave": True}, mode=mode, window=8)
            assert all(rank.line()["rc"] == 0 for rank in ranks for _ in range(len(steps) + 1))
            g.empty()
        before, calls, live, at_once = g.settle(), 0, [], []

        def many():
            at_once.append(len(net.json("group", "list")))
            return max(at_once) > min(groups, AT_ONCE) / 4

        for n in range(groups):
            if len(live) == AT_ONCE:
                calls += live.pop(rng.randrange(AT_ONCE)).check()
            live.append(Group(g, f"group-{n}", rng, lives_s))
            many()
        wait_until("many groups at once", many)  # ranks start faster than they join
        for group in live:
            calls += group.check()
        assert g.settle() == before
        print(f"{groups} groups, {calls} sums, most complete groups at once: {max(at_once)}")
        assert calls > 5 * groups
    finally:
        g.close()
