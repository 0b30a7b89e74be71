# SPDX-License-Identifier: GPL-2.0-only
"""If the aggregator's links are slower than the links of all workers together, `job add` and `doctor` state the limit and the remedy."""
import re

import pytest

from doctor import examine, needs_ethtool
from lab import FPISA

WORKERS = 4
SAYS = "{} workers of {} Gbit/s send to 1 aggregator, whose links let each use {}% of its own: a sum takes {} times as long as by a ring; unless the job " \
    "has further aggregators, add some, or make each worker's host an aggregator; see fpisa plan --workers {} --rate {}M --colocated"


def add(net, *options):
    """Add a job and return the warnings. Then remove the job."""
    workers = ",".join(net.addresses)
    status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", workers, *options)
    assert status == 0, err
    return err


@pytest.fixture
def behind_one(lab):
    """Put all workers behind one port, a veth with an unknown rate."""
    net = lab(workers=WORKERS, bridge=True)
    net.load()
    yield net


@needs_ethtool
def test_one_port(behind_one, tmp_path):
    net, rate, gbits = behind_one, "25G", "25"
    said = SAYS.format(WORKERS, gbits, 25, 2.7, WORKERS, f"{gbits}000")
    assert add(net, "--rate", rate) == f"fpisa: warning: job 1: {said}\n"
    config = tmp_path / "f.conf"
    config.write_text(f"[interface p0]\n[job 2]\nworkers = {','.join(a + ':18002' for a in net.addresses)}\nrate = {rate}\n")
    assert f"job 2: {said}" in net.agg.try_run(FPISA, "config", "apply", config)[2]
    net.fpisa("job", "del", 2)
    f = examine(net.agg, "--rate", rate)["job 1", "links"]
    assert (f["level"], f["text"]) == ("warn", said)
    # The printed command runs, and reports that the ring is then not faster.
    plan = net.agg.run("sh", "-c", re.search("fpisa (plan .*)", said)[1].join((FPISA + " ", "")))
    assert float(re.search(r"a ring of the workers takes [0-9.]+ ms, ([0-9.]+) times that$", plan, re.M)[1]) > 0.85
    # A removed rank does not count. A rank alone at its port has the whole link of the port.
    net.fpisa("job", "shrink", 1, 2, 3)
    assert SAYS.format(2, gbits, 50, 2, 2, f"{gbits}000") == examine(net.agg, "--rate", rate)["job 1", "links"]["text"]
    net.fpisa("job", "shrink", 1, 1)
    assert ("job 1", "links") not in examine(net.agg, "--rate", rate)


def test_rate_is_unknown(behind_one):
    """The rate of a veth is not the rate of a wire. So there is no warning unless a rate is stated."""
    net = behind_one
    assert add(net) == ""
    assert ("job 1", "links") not in examine(net.agg)


def test_a_port_for_each(lab):
    """If the aggregator is the workers' switch, the warning uses the rate of each worker's link."""
    net = lab(workers=WORKERS)
    net.load()
    assert "a ring" not in add(net, "--rate", "10G")
    assert ("job 1", "links") not in examine(net.agg, "--rate", "10G")
