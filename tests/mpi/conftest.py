# SPDX-License-Identifier: GPL-2.0-only
"""Configuration for MPI: a manager and MPI programs in network namespaces"""
import json
import os
import sys

import pytest

sys.dont_write_bytecode = True
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "lib"))

import mpi as mpis  # noqa: E402
from fixtures import bpffs, family, lab, mounts, shared  # noqa: E402, F401
from groups import Groups  # noqa: E402
from lab import ADDRESS  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a part of `make test-long`")


class Cluster:
    """The manager, and one or several hosts that run all ranks of an MPI's programs"""

    def __init__(self, net, mpi, folder, config, ranks_each):
        self.net, self.mpi, self.folder = net, mpi, folder
        self.hosts = mpis.Hosts(net, folder, ranks_each) if len(net.worker) > 1 else None
        self.host = self.hosts.space if self.hosts else net.worker[0]
        net.load()
        self.groups = Groups(net, folder, "without-key = yes", *config)
        self.groups.serve()

    def run(self, ranks, source, *argv, **env):
        """Run a program of this folder to its end. Return (stdout, stderr)."""
        return mpis.run(self.host, self.mpi, ranks, self.folder, self.compiled(source), *argv,
                        **{"FPISA_MANAGER": ADDRESS, "FPISA_MIN_BYTES": 0, "hosts": self.hosts, **env})

    def sent(self):
        """Return the number of frames that the host has sent to the aggregator."""
        return json.loads(self.net.worker[0].run("ip", "-j", "-s", "link", "show", "eth0"))[0]["stats64"]["tx"]["packets"]

    def start(self, ranks, source, *argv, **more):
        argv, env = mpis.command(self.mpi, ranks, self.folder, self.compiled(source), *argv, FPISA_MANAGER=ADDRESS,
                                 FPISA_MIN_BYTES=0, hosts=self.hosts, **more)
        return self.host.spawn(*argv, env=env)

    def compiled(self, source):
        """Compile a source of this folder or elsewhere. A program is returned unchanged."""
        if not os.path.splitext(source)[1] in mpis.COMPILER:
            return source
        return mpis.compiled(self.mpi, os.path.join(HERE, source), self.folder)


@pytest.fixture(params=mpis.MPIS)
def cluster(lab, tmp_path, request):
    """Yield cluster(*config), which takes lines of the manager's configuration. Skip the test if the MPI is not installed."""
    made = []

    def make(*config, fortran=False, hosts=1, ranks_each=1):
        why = mpis.lacking(request.param, fortran)
        if why:
            pytest.skip(why)
        net = lab(workers=hosts, bridge=hosts > 1)
        made.append(Cluster(net, request.param, str(tmp_path), config, ranks_each))
        return made[-1]

    yield make
    for c in made:
        c.groups.close()
