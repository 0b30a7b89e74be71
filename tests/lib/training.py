# SPDX-License-Identifier: GPL-2.0-only
"""Ranks of torch.distributed in a Lab, each on a worker of its own, with a manager of groups"""
import os
import signal
import subprocess
import sys

from groups import Groups
from lab import ADDRESS, LIBRARY, SLOW

RANK_S = 60 * SLOW
STORE_PORT = 29500


class Training(Groups):
    """Workers of `net` behind one switch, because Gloo connects them to each other; `package` has fpisa"""

    def __init__(self, net, folder, package):
        super().__init__(net, folder, "without-key = yes")
        self.package = package
        self.serve()

    def environment(self, rank):
        """Return the environment that torchrun sets, with variables of FPISA and Gloo."""
        return {**os.environ, "PYTHONPATH": self.package, "FPISA_LIBRARY": LIBRARY, "FPISA_MANAGER": ADDRESS,
                "RANK": str(rank), "WORLD_SIZE": str(len(self.net.worker)), "MASTER_ADDR": self.net.addresses[0],
                "MASTER_PORT": str(STORE_PORT), "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}

    def start_ranks(self, *argv):
        """Start a Python program on each worker."""
        return [w.spawn(sys.executable, "-B", *argv, env=self.environment(r)) for r, w in enumerate(self.net.worker)]


def outputs(ranks):
    """Return the output of ranks, which must succeed."""
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
