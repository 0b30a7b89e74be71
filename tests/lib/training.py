# SPDX-License-Identifier: GPL-2.0-only
"""Ranks of torch.distributed in a Lab, each on its own worker, with a manager of groups"""
import os
import signal
import subprocess
import sys
import time

from groups import Groups
from lab import ADDRESS, LIBRARY, SLOW

RANK_S = 180 * SLOW
STORE_PORT = 29500


class Training(Groups):
    """Run torch on the workers of `net`. One switch connects the workers, because Gloo connects them to each other. `package` is the folder
    of fpisa. `python` is an interpreter that has torch. The manager has a key if `keyed` is set."""

    def __init__(self, net, folder, package, python=sys.executable, keyed=False):
        super().__init__(net, folder, *([] if keyed else ["without-key = yes"]))
        self.package, self.python = package, python
        self.serve()

    def environment(self, rank):
        """Return the environment that torchrun sets, with further variables for FPISA and Gloo."""
        return {**os.environ, "PYTHONPATH": self.package, "FPISA_LIBRARY": LIBRARY, "FPISA_MANAGER": ADDRESS,
                "FPISA_KEY": self.key, "RANK": str(rank), "WORLD_SIZE": str(len(self.net.worker)), "MASTER_ADDR": self.net.addresses[0],
                "MASTER_PORT": str(STORE_PORT), "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}

    def start_ranks(self, *argv):
        """Start a Python program on each worker."""
        return [w.spawn(self.python, "-B", *argv, env=self.environment(r)) for r, w in enumerate(self.net.worker)]


def outputs(ranks):
    """Return the output of the ranks. All ranks must succeed."""
    out = []
    for r, rank in enumerate(ranks):
        try:
            text, err = rank.communicate(timeout=RANK_S)
        except subprocess.TimeoutExpired:
            rank.send_signal(signal.SIGABRT)
            raise AssertionError(f"rank {r}: not within {RANK_S} s: {rank.communicate()}") from None
        assert rank.returncode == 0, f"rank {r}: status {rank.returncode}\n{text}{err}"
        out.append(text)
    return out


def kill_rank_1(ranks):
    """Kill rank 1 while the ranks run the example. Return the seconds until all other ranks have reported its name."""
    others = {r: rank for r, rank in enumerate(ranks) if r != 1}
    for r, rank in enumerate(ranks):
        assert rank.stdout.readline() == f"rank {r}: training\n", rank.stderr.read()
    time.sleep(0.5)
    began = time.monotonic()
    ranks[1].send_signal(signal.SIGKILL)
    for r, rank in others.items():
        said = ""
        while f"rank {r}: " not in said:
            said = rank.stderr.readline()
            assert said
        assert "rank 1 is gone: its process ended" in said
    took = time.monotonic() - began
    for rank in others.values():
        rank.wait(RANK_S)
        assert rank.returncode == 1
    return took
