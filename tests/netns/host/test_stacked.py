# SPDX-License-Identifier: GPL-2.0-only
"""Test the aggregator's card below a VLAN device, a bond or a macvlan, or in a VRF, if this kernel has them. Follow the advice of job add
and doctor, then sum. test_doctor_jobs.py tests a bridge, and tests/unit/test_stack.c the detection alone."""
import pytest

from doctor import ENV, bad, examine, fixes, inhabited
from lab import ADDRESS, FPISA
from refusals import refused

MAKES = {"vlan": "link add link p0 name up0 type vlan id 5", "bond": "link add up0 type bond mode active-backup",
         "macvlan": "link add link p0 name up0 type macvlan mode bridge", "vrf": "link add up0 type vrf table 10"}


@pytest.fixture
def made(lab):
    """Make two workers behind p0, and a device `up0` of that kind above p0."""
    def make(kind):
        net = inhabited(lab(bridge=True))
        status, _, err = net.agg.try_run("ip", *MAKES[kind].split())
        if status:
            pytest.skip(f"this kernel has no {kind} devices: {err.strip()}")
        if kind == "bond":
            net.fpisa("load", "p0")  # load p0 first, because a port of a bond is refused
        if kind in ("bond", "vrf"):
            net.agg.ip("link set p0 down", "link set p0 master up0", "link set p0 up")
        net.agg.ip("link set up0 up")
        if kind != "vrf":
            net.agg.ip("addr del 10.99.1.1/24 dev p0", "addr add 10.99.1.1/24 dev up0")
        return net
    return make


def add(net, *workers, address=ADDRESS):
    status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", ",".join(workers), "--address", address)
    assert status == 0, err
    return err


def leaf(worker, address=ADDRESS):
    return ["job", "add", 2, "--workers", worker, "--address", address, "--mode", "exact", "--parent", "192.0.2.1/0"]


def moves(net, fix):
    """Check that the advice moves the datapath from p0 to up0, and that the job goes on."""
    net.agg.try_run(FPISA, "load", "p0")  # a port of a bond is refused here, but was loaded before
    assert add(net, *net.addresses) == f"fpisa: warning: up0: this datapath is on p0, below it, so job 1 does not receive frames there; run {fix}\n"
    refused(net, ["load", "up0", "--mode", "skb"], "up0: a datapath is on p0, below it, and workers cannot join with both; first run fpisa unload p0")
    f = examine(net.agg)["job 1", "port"]
    assert f["fix"] == fix and "ranks 0,1 are behind up0: this datapath is on p0, below it" in f["text"]
    before = net.json("job", "list")
    net.agg.run("sh", "-ec", fix, env=ENV)
    assert net.json("job", "list") == before
    refused(net, ["load", "p0"], "p0: cannot attach XDP: up0, above it, has a program")
    net.check_sum(1)
    assert not [key for key in bad(examine(net.agg)) if key[1] in ("port", "stack", "xdp")]


def test_vlan(made):
    net = made("vlan")
    for w, address in zip(net.worker, net.addresses):
        w.ip("link add link eth0 name tagged type vlan id 5", f"addr del {address}/24 dev eth0", f"addr add {address}/24 dev tagged",
             "link set tagged up", f"route add {ADDRESS} via 10.99.1.1")
    net.fpisa("load", "up0", "--mode", "skb")  # test_vlan.py tests native mode, on p0
    assert add(net, *net.addresses) == ""
    net.check_sum(1)
    net.agg.ip("link add link p0 name up1 type vlan id 6", "link set up1 up", "route add 192.0.2.1 dev up1")
    refused(net, leaf(f"{net.addresses[0]}@up0"), "job 2: the parent 192.0.2.1 is reached through up1, in VLAN 6, .*; run fpisa load up1 --mode skb")


def test_bond(made):
    moves(made("bond"), "ip link set dev p0 xdpdrv off && fpisa load up0")


def test_macvlan(made):
    net = made("macvlan")
    net.fpisa("load", "p0")
    assert "up0: this datapath is on p0, below it, so job 1 does not receive frames there; give that interface for each worker behind it, ADDR@p0" in \
        add(net, *net.addresses)
    assert "@p0" in fixes(net.agg, [], "job 1", "port", says="ranks 0,1 are behind up0: this datapath is on p0, below it")
    net.check_sum(1)


def test_vrf(made):
    """The VRF's address belongs to this machine, and the ports of workers are named."""
    net = made("vrf")
    refused(net, ["load", "up0", "--mode", "skb"], "up0 is a VRF, which receives no frames itself; load the datapath on its ports")
    net.fpisa("load", "p0")
    refused(net, ["job", "add", 1, "--workers", net.addresses[0], "--address", "10.99.1.1"],
            "job 1: the datapath does not look for worker 10.99.1.2 in a VRF; name its interface, ADDR@DEV, a port of the VRF that 10.99.1.1 is in")
    refused(net, leaf(f"{net.addresses[0]}@p0", address="10.99.1.1"), "job 2: .*from 10.99.1.1 to the parent; a leaf's address must be an address of this machine, on an interface outside any VRF")
    assert add(net, *(a + "@p0" for a in net.addresses), address="10.99.1.1") == ""
    net.check_sum(1, address="10.99.1.1")
    assert not [key for key in bad(examine(net.agg)) if key[0] == "job 1"]
