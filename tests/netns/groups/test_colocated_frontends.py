# SPDX-License-Identifier: GPL-2.0-only
"""Programs of MPI and PyTorch run on four hosts without another machine. Each host has a rank and adds a quarter."""
import itertools
import os
import random
import re
import shlex
import shutil
import sys

import pytest

import mpi as mpis
from lab import BUILD, LIBRARY, TOP, draw_seed, once_within, wait_until
from bits import check_call
from rationals import EXACT, FPISA64
from aggregators import pins
from test_colocated_groups import HOSTS, PINS, Hosts
from training import kill_rank_1, outputs

SOURCES = os.path.join(TOP, "tests", "mpi")
EXAMPLES = os.path.join(TOP, "adapters", "mpi", "examples")
TORCH = os.path.join(BUILD, "torch")
DDP = os.path.join(TOP, "adapters", "torch", "examples", "ddp.py")
CALLS = "f1", "d1", "z7", "f1000", "d2048", "F4096", "D777", "Z500", "f65537", "d30000", "f3", "D1"
pytestmark = [pytest.mark.together, pytest.mark.families("ipv4", why="the pages' commands have IPv4 addresses; test_frontends.py has both families")]
needs_torch = pytest.mark.skipif(not os.path.exists(os.path.join(TORCH, "built")), reason="build/torch is not there; make test installs what it needs")


class Cluster:
    """The four hosts, in the form that the functions of tests/lib/mpi.py need. mpirun starts one rank on each host."""

    mpi = "openmpi"

    def __init__(self, net, folder):
        self.net, self.folder = net, folder
        self.hosts = mpis.Hosts(net, folder)

    def compiled(self, source):
        return mpis.compiled(self.mpi, os.path.join(SOURCES, source), self.folder)

    def env(self):
        return {"FPISA_MANAGER": self.net.address, "FPISA_KEY": self.net.key, "FPISA_MIN_BYTES": 0, "hosts": self.hosts}

    def start(self, ranks, *argv, **more):
        argv, env = mpis.command(self.mpi, ranks, self.folder, *argv, **self.env(), **more)
        return self.hosts.space.spawn(*argv, env=env)

    def run(self, source, *argv, **more):
        return mpis.run(self.hosts.space, self.mpi, HOSTS, self.folder, self.compiled(source), *argv, **self.env(), **more)


class Served(Hosts):
    """The hosts with `fpisa serve` on each, for all tests of the file"""

    def __init__(self, folder):
        super().__init__(folder)
        self.addresses = [f"10.98.0.{i + 11}" for i in range(HOSTS)]
        for i in range(HOSTS):
            assert self.serve(i).startswith("loaded on eth0 and lo")
        wait_until("all aggregators", lambda: len(self.registered()) == HOSTS - 1)

    def pin(self, i):
        return f"{PINS}/{i}"

    def registered(self):
        aggregators = self.json("status", "--pin", self.pin(0))["manager"]["aggregators"]
        return [a for a in aggregators if not a["gone"]]

    def settle(self):
        """Wait until all groups have ended."""
        wait_until("the end of all groups", lambda: not self.json("group", "list", "--pin", self.pin(0)))


@pytest.fixture(scope="module")
def served(mounts, tmp_path_factory):
    with pins(PINS):
        net = Served(str(tmp_path_factory.mktemp("served")))
        yield net
        net.close()


@pytest.fixture
def cluster(served, tmp_path):
    why = mpis.lacking("openmpi")
    if why:
        pytest.skip(why)
    return Cluster(served, str(tmp_path))


def count(net, name, jobs):
    """Return a counter of each host, summed over the latest jobs with these numbers."""
    return [sum(net.counters(job, net.pin(i))[name] for job in range(jobs)) for i in range(HOSTS)]


def check_quarters(net, jobs):
    """Check that each host has added a quarter, and that its own rank received the results without requesting them again."""
    chunks = count(net, "v_result", jobs)
    assert sum(chunks) > 100
    for chunk in chunks:
        assert chunk / sum(chunks) == pytest.approx(1 / HOSTS, abs=0.03), chunks
    assert sum(count(net, "v_resent", jobs)) < sum(chunks) / 2  # a rank that misses all results asks for each


@pytest.mark.parametrize("mode", ["exact", None])
def test_mpi(cluster, mode):
    """All-reduces and reduces of several types and sizes have the oracle's bits, and the same bits on all ranks."""
    c, path, seed = cluster, os.path.join(cluster.folder, "bits"), draw_seed()
    rng = random.Random(seed)
    _, err = c.run("bits.c", path, seed, *CALLS, **({"FPISA_MODE": mode} if mode else {}))
    assert "fpisa: " not in err, err
    files = [open(f"{path}.{r}", "rb") for r in range(HOSTS)]
    for call in CALLS:
        if mode or call[0].islower():
            check_call(files, call, EXACT if mode else FPISA64, rng)
        else:  # MPI performs these calls, which another test checks
            n = int(call[1:]) * (2 if call[0] == "Z" else 1)
            for r, f in enumerate(files):
                f.seek(n * (4 if call[0] == "F" else 8) * (1 + (r == int(call[1:]) % HOSTS)), os.SEEK_CUR)
    assert not any(f.read() for f in files)
    check_quarters(c.net, 2)
    c.net.settle()


def substituted(page, command):
    """Return the command line of the page, with this test's hosts, key and library."""
    with open(os.path.join(TOP, "doc", page)) as f:
        line, = re.findall(rf"^ *({command}(?=.*10\.0\.0\.11)(?:.*\\\n)*.*)", f.read(), re.M)
    return line.replace("\\\n", " ").replace("10.0.0.", "10.98.0.")


@pytest.mark.alone
def test_mpi_rank_killed(cluster):
    """The other ranks name the dead rank within a second."""
    once_within(1, lambda: mpis.kill_one(cluster, HOSTS, "call", 2))
    cluster.net.settle()


def test_mpi_page(cluster):
    """The command of the page runs the example, and the hosts add its two sums."""
    c = cluster
    shutil.copy(mpis.compiled("openmpi", os.path.join(EXAMPLES, "norm.c"), c.folder), os.path.join(c.folder, "norm"))
    line = substituted("mpi.md", "mpirun.openmpi").replace("/usr/lib/x86_64-linux-gnu/fpisa/openmpi/libfpisa-mpi.so", mpis.adapter("openmpi"))
    argv = shlex.split(line.replace("$HOME/keys", c.net.key))
    _, env = mpis.command("openmpi", HOSTS, c.folder, "norm")
    status, out, err = c.hosts.space.try_run(*argv[:1], *c.hosts.options("openmpi", c.folder)[2:], *argv[1:], env=env, cwd=c.folder)
    assert status == 0 and "fpisa: " not in err, (out, err)
    assert out == "length 84.853, largest 4.0\n" and 2 <= sum(count(c.net, "v_result", 1)) < 10
    c.net.settle()


def start_training(net, *options):
    env = {**os.environ, "PYTHONPATH": TORCH, "FPISA_LIBRARY": LIBRARY, "FPISA_MANAGER": net.address, "FPISA_KEY": net.key, "WORLD_SIZE": str(HOSTS),
           "MASTER_ADDR": net.address, "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    return [w.spawn(sys.executable, "-B", DDP, *options, env={**env, "RANK": str(r)}) for r, w in enumerate(net.worker)]


def weights(outs):
    """Return the digest of the weights, after checking that all ranks have the same."""
    digest, = {re.search(r"rank \d: loss \S+ -> \S+, weights (\w+)", out)[1] for out in outs}
    return digest


@needs_torch
@pytest.mark.long
def test_torch(served):
    """All ranks have the same weights, bit for bit, in mode exact and in the default mode."""
    weights(outputs(start_training(served, "--steps", 2, "--mode", "exact")))
    check_quarters(served, 1)
    served.settle()
    weights(outputs(start_training(served, "--steps", 2)))
    served.settle()


@needs_torch
@pytest.mark.alone
def test_torch_rank_killed(served):
    """On the other ranks, backward() ends within a second, with an error that names the dead rank."""
    def kill():
        took = kill_rank_1(start_training(served, "--steps", 100000))
        served.settle()
        return took

    once_within(1, kill)


@needs_torch
def test_torch_page(served, tmp_path):
    """The command of the page trains on all hosts."""
    line = substituted("torch.md", "FPISA_MANAGER").replace("$HOME/keys", served.key).replace("ddp.py", DDP + " --steps 2")
    words = shlex.split(line)
    given = dict(w.split("=", 1) for w in itertools.takewhile(lambda w: re.match(r"[A-Z_]+=", w), words))
    argv = words[len(given):]
    env = {**os.environ, "PYTHONPATH": TORCH, "FPISA_LIBRARY": LIBRARY, "OMP_NUM_THREADS": "1", **given}
    assert argv[0] == "torchrun"
    ranks = [w.spawn(sys.executable, "-B", "-m", "torch.distributed.run", f"--log_dir={tmp_path}/{r}",
                     *(a.replace("$RANK", str(r)) for a in argv[1:]), env=env) for r, w in enumerate(served.worker)]
    weights(outputs(ranks))
    served.settle()
