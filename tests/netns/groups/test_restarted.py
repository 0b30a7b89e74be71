# SPDX-License-Identifier: GPL-2.0-only
"""A manager that is killed while the process beside it has much to do: what it had asked for is done, and the next one knows it."""
import os
import signal
import time

import pytest

from groups import Groups
from lab import ADDRESS, SLOW, children

ETIMEDOUT = 110


def test_what_it_had_asked_for(lab, tmp_path):
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        helper, = children(g.manager.pid)
        os.kill(helper, signal.SIGSTOP)
        time.sleep(1.5 * SLOW)  # what comes first is a question, whose answer nobody will hear
        ranks = g.group("train", range(2), {"sum": "float32", "times": 20}, {"leave": True})
        time.sleep(0.5 * SLOW)  # they ask for a job
        g.kill()
        os.kill(helper, signal.SIGCONT)
        assert "groups found: 1" in g.serve()
        for rank in ranks:
            assert [rank.line()["rc"] for _ in range(2)] == [0, 0]
        g.empty()
    finally:
        g.close()


@pytest.mark.long
def test_a_manager_that_does_not_come_back(lab, tmp_path):
    """Who asks for a job then is told, by name; who has its jobs goes on."""
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        ranks = g.group("train", range(2), {"sum": "float32"}, {"sleep": 1}, {"sum": "float32", "times": 340, "pause": 0.1}, {"sum": "int32"})
        for rank in ranks:
            assert rank.line()["rc"] == 0
        g.kill()
        for rank in ranks:
            assert rank.line()["rc"] == 0
        killed = time.monotonic()
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == -ETIMEDOUT and answer["ended"] - killed < 12 * SLOW, answer
            assert f"{ADDRESS}: group train: the manager has not answered for 30 s" in answer["error"], answer
    finally:
        g.close()
