# SPDX-License-Identifier: GPL-2.0-only
"""The manager and its helper continue to work if their output goes to pipes that are full or are not read."""
import fcntl
import signal
import time

import pytest

import job_requests
from groups import Groups
from lab import COMMAND_S, FPISA, SLOW

pytestmark = pytest.mark.families(spread=True)

F_SETPIPE_SZ, SMALL = 1031, 4096
INT32, EXACT = 7, 4  # int32 has no modes, so a job with both is refused


def test_nobody_reads(lab, tmp_path):
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        for pipe in g.manager.stdout, g.manager.stderr:
            fcntl.fcntl(pipe, F_SETPIPE_SZ, SMALL)
        # The manager writes a line to stderr for each job that cannot be made, and a line to stdout for each refusal.
        for n in range(16):
            group = job_requests.Group(net.worker[:1], f"wrong-{n}", net.address)
            for _ in range(job_requests.MOST):
                with pytest.raises(AssertionError, match="job"):
                    group.job(8, INT32, EXACT)
            group.leave()
        # Each signal makes the manager write a line, without a limit. Two signals at the same time count as one.
        for _ in range(200):
            g.manager.send_signal(signal.SIGHUP)
            time.sleep(0.01 * SLOW)
        group = job_requests.Group(net.worker, "right", net.address)
        assert group.job(8)[1] == 8
        group.leave()
        g.empty()
        g.manager.terminate()
        assert g.manager.wait(COMMAND_S) == 0
        said = g.manager.stderr.read()
        assert "int32 does not have modes" in said, said
    finally:
        g.close()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed(lab, tmp_path, closed):
    """If stdout and stderr are closed, no socket of the manager gets their descriptors, so no socket gets the manager's lines."""
    net = lab(workers=1)
    net.load()
    g = Groups(net, str(tmp_path))
    try:
        g.manager = net.agg.spawn("sh", "-c", f'exec "$0" serve "$1" {closed}', FPISA, g.config)
        g.group("alone", [0], {"sum": "float32"}, {"leave": True})
        g.manager.send_signal(signal.SIGHUP)
        g.group("again", [0], {"leave": True})
        g.manager.terminate()
        g.manager.wait(COMMAND_S)
    finally:
        g.close()
