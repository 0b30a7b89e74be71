# SPDX-License-Identifier: GPL-2.0-only
"""Output of the manager and its helper goes to pipes that are not read, or are full: both go on all the same"""
import fcntl
import signal
import time

import pytest

import asker
from groups import Groups
from lab import COMMAND_S, FPISA, SLOW

F_SETPIPE_SZ, SMALL = 1031, 4096
INT32, EXACT = 7, 4  # integers have no modes


def test_nobody_reads(lab, tmp_path):
    net = lab(workers=2)
    net.load()
    g = Groups(net, str(tmp_path), "without-key = yes")
    try:
        g.serve()
        for pipe in g.manager.stdout, g.manager.stderr:
            fcntl.fcntl(pipe, F_SETPIPE_SZ, SMALL)
        # A line on stderr for each job that cannot be made, a line on stdout for each refusal
        for n in range(16):
            group = asker.Group(net.worker[:1], f"wrong-{n}")
            for _ in range(asker.MOST):
                with pytest.raises(AssertionError, match="job"):
                    group.job(8, INT32, EXACT)
            group.leave()
        # And a line for each of these, without a limit; two that come at once are one signal
        for _ in range(200):
            g.manager.send_signal(signal.SIGHUP)
            time.sleep(0.01 * SLOW)
        group = asker.Group(net.worker, "right")
        assert group.job(8)[1] == 8
        group.leave()
        g.empty()
        g.manager.terminate()
        assert g.manager.wait(COMMAND_S) == 0
        said = g.manager.stderr.read()
        assert "integers have no modes" in said, said
    finally:
        g.close()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed(lab, tmp_path, closed):
    """If stdout and stderr are closed, no socket of the manager takes their place and its lines."""
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
