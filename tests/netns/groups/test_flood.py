# SPDX-License-Identifier: GPL-2.0-only
"""While a host without a key makes connections as fast as it can, no rank of a group waits for more than a few of these connections."""
import os
import subprocess
import time

import pytest

from groups import Groups
from lab import PORT, children, end, once_within

SOURCE = os.path.join(os.path.dirname(__file__), "flood.c")
FLOODERS = 3
NOTICED_S = 1
EARLIER, LATER = ("nice", "-n", "-10"), 9  # the manager is 19 below the others; other work on the machine is between


@pytest.mark.alone
@pytest.mark.families(spread=True)
@pytest.mark.parametrize("says", ["G", "\x16\x03\x01\x02\x01", ""], ids=["garbage", "handshakes", "silence"])
def test_a_death_is_named(lab, tmp_path, says):
    """A dead rank is named although the flooding processes get more CPU time than the manager, and connect faster than the manager
    accepts."""
    net = lab(workers=3)
    net.load()
    subprocess.run(["gcc", "-Wall", "-Werror", "-O1", "-o", tmp_path / "flood", SOURCE], check=True)
    g = Groups(net, str(tmp_path))
    g.member = [*EARLIER, *g.member]

    def yield_by(steps):
        """Set the priority of the manager, this many steps below the test's."""
        for pid in (g.manager.pid, *children(g.manager.pid)):
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + steps)

    def kill():
        forever = {"sum": "float32", "count": 1000, "times": 10**6, "pause": 0.01}
        ranks = g.group("old", range(2), forever)
        yield_by(LATER)
        flooders = [net.worker[2].spawn(*EARLIER, tmp_path / "flood", net.address, PORT, says) for _ in range(FLOODERS)]
        time.sleep(2)
        killed = time.monotonic()
        ranks[1].kill()
        answer = ranks[0].line()
        assert "group old: rank 1 is gone: its process ended" in answer["error"], answer
        for f in flooders:
            end(f)
        yield_by(0)  # joins wait until the manager has accepted the last 4096 connections
        g.empty()
        return answer["ended"] - killed

    try:
        g.serve()
        once_within(NOTICED_S, kill)
        g.group("new", range(2), {"leave": True})
    finally:
        g.close()
