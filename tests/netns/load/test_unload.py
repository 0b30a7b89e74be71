# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa unload`: the objects that it removes, those that it leaves because other namespaces use them or other tools made
them, and the remains of an interface that vanishes"""
import os
import re

import pytest

from lab import BPFFS, FPISA, PIN
from refusals import refused
from shared import copy_pin


def test_unload_refusals(lab):
    net = lab()
    refused(net, ["unload"], "nothing is loaded, nothing to unload")
    refused(net, ["unload", "p0"], "nothing is loaded")
    refused(net, ["unload", "--pin", BPFFS + "/other"], "/other: nothing is loaded")
    os.mkdir(BPFFS + "/other")  # empty, and another owner's
    refused(net, ["unload", "--pin", BPFFS + "/other"], "/other: nothing is loaded")
    os.rmdir(BPFFS + "/other")
    net.fpisa("load", "p0")
    refused(net, ["unload", "p1"], "p1: this datapath is not loaded on it")
    refused(net, ["unload", "p0", "p1"], "p1: this datapath is not loaded on it")
    refused(net, ["unload", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["unload", "p0"], "no privilege: run as root", uid=65534)
    assert net.fpisa("unload", "p0") == "last interface detached: datapath and its jobs removed\n"
    refused(net, ["unload"], "nothing is loaded")


def another(net):
    """Make a network namespace with an interface, e0, and the process by which it is found."""
    ns = net.netns()
    ns.ip("link add e0 type veth peer name e1", "link set e0 up", "link set e1 up")
    return ns, ns.spawn("sleep", "600")


@pytest.mark.alone  # another test's fpisa enters every namespace, and is a process in it meanwhile
def test_unload_while_another_namespace_runs_it(lab):
    """Pins belong to the BPF filesystem, interfaces to their namespace: an unload in one namespace leaves what runs in another, and
    says how to get there."""
    net = lab()
    other, keeper = another(net)
    net.fpisa("load", *net.ports)
    net.add_job(1)
    other.run(FPISA, "load", "e0")
    there = rf"nsenter -t {keeper.pid} -n fpisa unload"
    said = rf"detached in this network namespace; datapath and jobs stay, for they run on e0 of another; {there}\n"
    assert net.fpisa("unload", "p0") == ""
    assert re.fullmatch(said, net.fpisa("unload", "p1"))
    assert [j["job"] for j in net.json("job", "list")] == [1]
    net.fpisa("load", *net.ports)
    net.check_sum(1)
    assert re.fullmatch(said, net.fpisa("unload"))
    refused(net, ["unload"], rf"{PIN}: runs on no interface of this network namespace, but on e0 of another; {there}")
    _, out, _ = net.agg.try_run(FPISA, "doctor")
    line, = [x for x in out.splitlines() if " datapath: " in x]
    assert re.fullmatch(rf"ok     datapath: attached: pinned in {PIN}, on no interface of this network namespace, but on e0 of "
                        rf"another; nsenter -t {keeper.pid} -n fpisa doctor looks there", line)
    assert net.agg.run("sh", "-ec", there.replace(" fpisa", " " + FPISA)) == "" and not os.path.exists(PIN)
    assert "xdp" not in other.run("ip", "link", "show", "e0")
    # Likewise the other way round
    keeper = net.agg.spawn("sleep", "600")
    net.fpisa("load", "p0")
    other.run(FPISA, "load", "e0")
    assert f"run on p0 of another; nsenter -t {keeper.pid} -n fpisa unload" in other.run(FPISA, "unload")
    # Only a descriptor of this process leads to the first.
    keeper.kill()
    keeper.wait()
    other.run(FPISA, "load", "e0")
    out = other.run(FPISA, "unload", "e0")
    assert re.search(r"run on p0 of another; nsenter --net=/proc/\d+/fd/\d+ fpisa unload", out), out
    net.fpisa("unload")
    assert not os.path.exists(PIN)


def test_unload_of_a_named_pin_that_runs_elsewhere(lab):
    """The command for the other namespace includes the --pin."""
    net, pin = lab(workers=1), BPFFS + "/mine"
    other, keeper = another(net)
    net.fpisa("load", "p0", "--pin", pin)
    other.run(FPISA, "load", "e0", "--pin", pin)
    there = f"on e0 of another; nsenter -t {keeper.pid} -n fpisa unload --pin {pin}"
    assert net.fpisa("unload", "--pin", pin).endswith(f"run {there}\n")
    refused(net, ["unload", "--pin", pin], there + "$")
    net.agg.run("sh", "-ec", there.split("; ")[1].replace(" fpisa ", f" {FPISA} "))
    assert not os.path.exists(pin)


def test_unload_that_may_not_look_into_processes(lab):
    """Without CAP_SYS_PTRACE the network namespaces of other processes are unknown: pins that may be in use there stay."""
    net = lab(workers=1)
    other, keeper = another(net)
    net.load()
    other.run(FPISA, "load", "e0")
    caps = "-all,+net_admin,+sys_admin"
    unload = ["setpriv", "--bounding-set", caps, "--inh-caps", caps, FPISA, "unload"]
    assert re.fullmatch("detached in this network namespace; datapath and jobs stay, for .*; run fpisa unload with CAP_SYS_PTRACE\n",
                        net.agg.run(*unload))
    assert os.path.exists(PIN)
    status, _, err = net.agg.try_run(*unload)
    assert status == 1 and re.search(f"{PIN}: .*; run fpisa unload with CAP_SYS_PTRACE$", err), err
    assert "nsenter" in net.agg.try_run(FPISA, "unload")[2]
    keeper.kill()
    other.run(FPISA, "unload")
    assert not os.path.exists(PIN)


def pin_map(net, path, name):
    net.agg.run("bpftool", "map", "create", path, "type", "array", "key", 4, "value", 4, "entries", 1, "name", name)


def test_many_pins(lab):
    """Jobs of many network namespaces have a map of ports each: all maps are given to the group, and removed."""
    net = lab(workers=1)
    net.fpisa("load", "p0", "--group", 64321)
    net.add_job(0)
    ports, = (f"{PIN}/{name}" for name in os.listdir(PIN) if name.startswith("fpisa_ports_"))
    for i in range(100):
        copy_pin(ports, f"{PIN}/fpisa_ports_{i}")
    net.add_job(1)
    assert {os.stat(f"{PIN}/fpisa_ports_{i}").st_gid for i in range(100)} == {64321}
    # A failed load removes only what it made.
    refused(net, ["load", "p0"], "p0: is loaded already")
    assert net.fpisa("unload") == ""
    assert not os.path.exists(PIN)


def test_pins_of_others(lab):
    """A pin with one of fpisa's names that was made under another name stays, in every directory; so does its directory."""
    net, mine = lab(workers=1), BPFFS + "/fpisa_mine"
    pin_map(net, mine, "mine")
    refused(net, ["unload"], "nothing is loaded, nothing to unload")
    net.load()
    pin_map(net, PIN + "/fpisa_mine", "mine")
    net.fpisa("unload")
    assert os.path.exists(mine) and os.listdir(PIN) == ["fpisa_mine"]
    refused(net, ["unload"], "nothing is loaded, nothing to unload")


def test_unload_beside_remains(lab):
    """The remains of a killed load are removed with a datapath that is pinned elsewhere."""
    net = lab(workers=1)
    net.ip_link()
    os.mkdir(PIN, 0o700)
    pin_map(net, PIN + "/fpisa_abi", "fpisa_abi")
    net.fpisa("unload")
    assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "link", "show", "p0")
    refused(net, ["unload"], "nothing is loaded, nothing to unload")


@pytest.mark.parametrize("left", [[], ["fpisa_abi"], ["fpisa_abi", "fpisa_histogram", "fpisa_counters"], ["fpisa_lpm"]])
def test_unload_of_what_a_killed_one_left(lab, left):
    """Unload removes pins without fpisa_jobs, as a killed load or unload leaves them, or the directory alone."""
    net = lab(workers=1)
    net.load()
    net.agg.ip("link set p0 xdp off")
    for name in set(os.listdir(PIN)) - set(left):
        os.unlink(f"{PIN}/{name}")
    if left:
        assert net.fpisa("unload") == ""
    else:
        assert "nothing is loaded, nothing to unload" in net.agg.try_run(FPISA, "unload")[2]
    assert not os.path.exists(PIN)
    # An interface that runs it is found by any remaining map.
    for is_lost in (lambda name: name == "fpisa_jobs", lambda name: name != "fpisa_stages"):
        net.fpisa("load", "p0")
        for name in filter(is_lost, os.listdir(PIN)):
            os.unlink(f"{PIN}/{name}")
        net.fpisa("unload")
        assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "link", "show", "p0")


def test_interface_vanishes(lab):
    """A port that disappears takes its attachment along; the rest can be unloaded."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, workers=net.addresses[:2])
    net.agg.ip("link del p2")
    assert [i["name"] for i in net.json("status")["interfaces"]] == ["p0", "p1"]
    net.check_sum(1, ranks=[0, 1])
    net.fpisa("unload")
    assert not os.path.exists(PIN)


def test_unload_of_both_of_a_stack(lab):
    """The kernel takes no program off below an interface that has one: unload begins at the top."""
    net = lab(bridge=True)

    def load_both():
        net.fpisa("load", "p0")
        net.agg.run("bpftool", "net", "attach", "xdpgeneric", "pinned", PIN + "/fpisa", "dev", "br9")

    net.agg.ip("link add br9 type bridge", "link set p0 master br9")
    load_both()
    refused(net, ["unload", "p0"], r"p0: detach XDP: not while br9, above it, has a program \(fpisa, id \d+\); fpisa unload br9 first")
    net.fpisa("unload", "p0", "br9")
    assert not os.path.exists(PIN)
    load_both()
    net.fpisa("unload")
    assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "-d", "link")
