# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa doctor on a worker, for the device that leads to the aggregator: GRO, reverse-path filter, multicast, route."""
import pytest

from doctor import bad, ethtool_gro, examine, fixes, needs_ethtool
from lab import ADDRESS

pytestmark = needs_ethtool


@pytest.mark.families()
def test_gro_seen_by_the_worker(lab):
    net = lab(workers=1)
    net.agg.spawn("sleep", "600")
    ethtool_gro(net.worker[0], "eth0", "off")
    assert fixes(net.worker[0], ["--worker", net.address], "eth0", "gro") == "ethtool -K eth0 gro on"


def test_gro_of_what_is_no_veth(lab):
    net = lab(workers=1)
    w = net.worker[0]
    w.ip("link add br0 type bridge", "link set br0 up", "link set eth0 master br0", f"addr add {net.addresses[0]}/24 dev br0",
         f"route replace {ADDRESS} via 10.99.1.1 dev br0")
    ethtool_gro(w, "br0", "off")
    assert fixes(w, ["--worker", ADDRESS], "br0", "gro", "warn", says="one by one") == "ethtool -K br0 gro on"


def test_reverse_path_filter(lab):
    """Doctor finds results that arrive on another interface than the interface of the route."""
    net = lab(workers=1)
    w = net.worker[0]
    w.ip("link add eth1 type veth peer name far1", "link set eth1 up", "link set far1 up")
    w.sysctl("conf/eth1/rp_filter", 1)
    ethtool_gro(w, "eth1", "on")
    says = f"the route to {ADDRESS} goes through eth0"
    assert fixes(w, ["eth1", "--worker", ADDRESS], "eth1", "rp_filter", says=says) == \
        "sysctl -w net.ipv4.conf.eth1.rp_filter=2"
    w.sysctl("conf/all/rp_filter", 1)
    w.sysctl("conf/eth1/rp_filter", 0)
    fixes(w, ["eth1", "--worker", ADDRESS], "eth1", "rp_filter", says=says)
    assert bad(examine(w, "--worker", ADDRESS)) == {}


@pytest.mark.families()
def test_worker_at_the_aggregator(lab):
    """No command can fix a wrong address, so doctor says what to do."""
    net = lab(workers=1)
    f = examine(net.agg, "p0", "--worker", net.address)["p0", "route"]
    assert f["level"] == "fault" and f["fix"] is None
    assert f["text"] == f"{net.address} is an address of this machine: give the aggregator's, or leave --worker out if this is the aggregator"


@pytest.mark.families()
def test_multicast_off(lab):
    net = lab(workers=1)
    net.worker[0].ip("link set eth0 multicast off")
    fixes(net.worker[0], ["--worker", net.address], "eth0", "multicast")
