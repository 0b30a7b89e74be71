# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa unload` removes its own objects. It leaves objects that other namespaces use or other tools made, and handles the remains of an
interface that vanished."""
import fcntl
import os
import random
import re

import pytest

from lab import ADDRESS, BPFFS, COMMAND_S, FPISA, PIN, draw_seed, wait_until, waiters
from preload import SCARCE, library
from refusals import refused
from shared import copy_pin


def test_unload_refusals(lab):
    net = lab()
    refused(net, ["unload"], "no datapath is loaded; to detach other programs, run ip link set")
    refused(net, ["unload", "p0"], "no datapath is loaded")
    refused(net, ["unload", "--pin", BPFFS + "/other"], "/other: no datapath is loaded")
    os.mkdir(BPFFS + "/other")  # an empty directory that belongs to another owner
    refused(net, ["unload", "--pin", BPFFS + "/other"], "/other: no datapath is loaded")
    os.rmdir(BPFFS + "/other")
    net.fpisa("load", "p0")
    refused(net, ["unload", "p1"], "p1: this datapath is not loaded there")
    refused(net, ["unload", "p0", "p1"], "p1: this datapath is not loaded there")
    refused(net, ["unload", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["unload", "p0"], "no privilege; run as root", uid=65534)
    assert net.fpisa("unload", "p0") == "the last interface is detached, and the datapath and its jobs are removed\n"
    refused(net, ["unload"], "no datapath is loaded")


def another(net):
    """Create a network namespace with an interface, e0, and a process through which others can find the namespace."""
    ns = net.netns()
    ns.ip("link add e0 type veth peer name e1", "link set e0 up", "link set e1 up")
    return ns, ns.spawn("sleep", "600")


@pytest.mark.alone  # the fpisa of another test enters every namespace, and counts as a process in it meanwhile
def test_unload_while_another_namespace_runs_it(lab):
    """Pins belong to a BPF filesystem, and interfaces belong to a namespace. An unload in one namespace does not touch the datapath of
    another, and prints how to unload there."""
    net = lab()
    other, keeper = another(net)
    net.fpisa("load", *net.ports)
    net.add_job(1)
    other.run(FPISA, "load", "e0")
    there = rf"nsenter -t {keeper.pid} -n fpisa unload"
    said = rf"detached in this network namespace; the datapath and its jobs stay, because they run on e0 of another; run {there}\n"
    assert net.fpisa("unload", "p0") == ""
    assert re.fullmatch(said, net.fpisa("unload", "p1"))
    assert [j["job"] for j in net.json("job", "list")] == [1]
    net.fpisa("load", *net.ports)
    net.check_sum(1)
    assert re.fullmatch(said, net.fpisa("unload"))
    refused(net, ["unload"], rf"{PIN}: the datapath is not attached in this network namespace, but on e0 of another; run {there}")
    _, out, _ = net.agg.try_run(FPISA, "doctor")
    line, = [x for x in out.splitlines() if " datapath: " in x]
    assert re.fullmatch(rf"ok     datapath: attached: the datapath pinned in {PIN} runs on no interface of this network namespace, but on e0 of "
                        rf"another; run nsenter -t {keeper.pid} -n fpisa doctor", line)
    assert net.agg.run("sh", "-ec", there.replace(" fpisa", " " + FPISA)) == "" and not os.path.exists(PIN)
    assert "xdp" not in other.run("ip", "link", "show", "e0")
    # Load on p0 first, then unload in the other namespace.
    keeper = net.agg.spawn("sleep", "600")
    net.fpisa("load", "p0")
    other.run(FPISA, "load", "e0")
    assert f"run on p0 of another; run nsenter -t {keeper.pid} -n fpisa unload" in other.run(FPISA, "unload")
    # Only a descriptor of this process leads to the first namespace.
    keeper.kill()
    keeper.wait()
    other.run(FPISA, "load", "e0")
    out = other.run(FPISA, "unload", "e0")
    assert re.search(r"run on p0 of another; run nsenter --net=/proc/\d+/fd/\d+ fpisa unload", out), out
    net.fpisa("unload")
    assert not os.path.exists(PIN)


def test_unload_before_a_command_that_waits(lab):
    """A command that waits for the lock says so if the datapath is gone when its turn comes."""
    net = lab(workers=1)
    net.fpisa("load", "p0")
    pins = os.open(PIN, os.O_RDONLY)
    try:
        fcntl.flock(pins, fcntl.LOCK_EX)
        p = net.agg.spawn(FPISA, "job", "add", 1, "--workers", net.addresses[0], "--address", net.address)
        wait_until("the wait for the lock", lambda: waiters(pins) == 1)
        net.agg.ip("link set p0 xdp off")
        for name in os.listdir(PIN):
            os.unlink(f"{PIN}/{name}")
        os.rmdir(PIN)
    finally:
        os.close(pins)
    assert (p.wait(COMMAND_S), p.stderr.read()) == (1, f"fpisa: {PIN}: the datapath was unloaded meanwhile; try again\n")


@pytest.mark.alone  # for the same reason as above
def test_unload_of_a_named_pin_that_runs_elsewhere(lab):
    """The command for the other namespace includes --pin."""
    net, pin = lab(workers=1), BPFFS + "/mine"
    other, keeper = another(net)
    net.fpisa("load", "p0", "--pin", pin)
    other.run(FPISA, "load", "e0", "--pin", pin)
    there = f"on e0 of another; run nsenter -t {keeper.pid} -n fpisa unload --pin {pin}"
    assert net.fpisa("unload", "--pin", pin).endswith(f"run {there}\n")
    refused(net, ["unload", "--pin", pin], there + "$")
    net.agg.run("sh", "-ec", there.split("; run ")[1].replace(" fpisa ", f" {FPISA} "))
    assert not os.path.exists(pin)


def test_unload_that_may_not_look_into_processes(lab):
    """Without CAP_SYS_PTRACE the network namespaces of other processes are unknown, so pins that they may use stay."""
    net = lab(workers=1)
    other, keeper = another(net)
    net.load()
    other.run(FPISA, "load", "e0")
    caps = "-all,+net_admin,+sys_admin"
    unload = ["setpriv", "--bounding-set", caps, "--inh-caps", caps, FPISA, "unload"]
    assert re.fullmatch("detached in this network namespace; the datapath and its jobs stay, because .*; with CAP_SYS_PTRACE, run fpisa unload\n",
                        net.agg.run(*unload))
    assert os.path.exists(PIN)
    status, _, err = net.agg.try_run(*unload)
    assert status == 1 and re.search(f"{PIN}: .*; with CAP_SYS_PTRACE, run fpisa unload$", err), err
    assert "nsenter" in net.agg.try_run(FPISA, "unload")[2]
    keeper.kill()
    other.run(FPISA, "unload")
    assert not os.path.exists(PIN)


@pytest.mark.parametrize("scarce, said", [
    ({"SCARCE_PIN": "fpisa_jobs"}, r"Too many open files in system"), ({"SCARCE_LINK": "p0"}, r"p0: cannot look up its XDP program: .*memory"),
    ({"SCARCE_LINK": "p0", "named": "p0"}, r"p0: cannot look up its XDP program: .*memory")])
def test_unload_that_cannot_tell(lab, tmp_path, scarce, said):
    """An interface or a pin that cannot be examined may have a datapath, so running datapaths keep their pins and jobs."""
    net = lab(workers=1)
    net.load()
    net.add_job(1)
    env = {**os.environ, **scarce, "LD_PRELOAD": library(SCARCE, tmp_path)}
    status, out, err = net.agg.try_run(FPISA, "unload", *filter(None, [env.pop("named", "")]), env=env)
    assert (status, out) == (1, "") and re.search(said, err), err
    net.check_sum(1)
    assert net.fpisa("unload") == "the last interface is detached, and the datapath and its jobs are removed\n" or not os.path.exists(PIN)


def test_stamp_that_cannot_be_read(lab, tmp_path):
    """A version stamp that cannot be opened does not count as a stamp of another version."""
    net = lab(workers=1)
    net.load()
    status, _, err = net.agg.try_run(FPISA, "job", "list", env={**os.environ, "SCARCE_PIN": "fpisa_abi", "LD_PRELOAD": library(SCARCE, tmp_path)})
    assert status == 1 and "fpisa_abi: cannot open: Too many open files in system" in err and "version" not in err, err


def pin_map(net, path, name):
    net.agg.run("bpftool", "map", "create", path, "type", "array", "key", 4, "value", 4, "entries", 1, "name", name)


def test_many_pins(lab):
    """Jobs of many network namespaces have separate maps of ports. All maps get the Unix group of the pins, and all are removed."""
    net = lab(workers=1)
    net.fpisa("load", "p0", "--group", 64321)
    net.add_job(0)
    ports, = (f"{PIN}/{name}" for name in os.listdir(PIN) if name.startswith("fpisa_ports_"))
    for i in range(100):
        copy_pin(ports, f"{PIN}/fpisa_ports_{i}")
    net.add_job(1)
    assert {os.stat(f"{PIN}/fpisa_ports_{i}").st_gid for i in range(100)} == {64321}
    # A failed load removes only the objects that it made.
    refused(net, ["load", "p0"], "p0 is loaded already")
    assert net.fpisa("unload") == ""
    assert not os.path.exists(PIN)


def test_pins_of_others(lab):
    """A pin stays if it has a name of fpisa but its object has another name. Its directory stays too."""
    net, mine = lab(workers=1), BPFFS + "/fpisa_mine"
    pin_map(net, mine, "mine")
    refused(net, ["unload"], "no datapath is loaded; to detach other programs, run ip link set")
    net.load()
    pin_map(net, PIN + "/fpisa_mine", "mine")
    net.fpisa("unload")
    assert os.path.exists(mine) and os.listdir(PIN) == ["fpisa_mine"]
    refused(net, ["unload"], "no datapath is loaded; to detach other programs, run ip link set")


def test_unload_beside_remains(lab):
    """The remains of a killed load are removed together with a datapath that is pinned elsewhere."""
    net = lab(workers=1)
    net.ip_link()
    os.mkdir(PIN, 0o700)
    pin_map(net, PIN + "/fpisa_abi", "fpisa_abi")
    net.fpisa("unload")
    assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "link", "show", "p0")
    refused(net, ["unload"], "no datapath is loaded; to detach other programs, run ip link set")


@pytest.mark.parametrize("left", [[], ["fpisa_abi"], ["fpisa_abi", "fpisa_histogram", "fpisa_counters"], ["fpisa_lpm"]])
def test_unload_of_what_a_killed_one_left(lab, left):
    """Unload removes pins that lack fpisa_jobs, which a killed load or unload can leave. It also removes an empty directory."""
    net = lab(workers=1)
    net.load()
    net.agg.ip("link set p0 xdp off")
    for name in set(os.listdir(PIN)) - set(left):
        os.unlink(f"{PIN}/{name}")
    if left:
        assert net.fpisa("unload") == ""
    else:
        assert "no datapath is loaded; to detach other programs, run ip link set" in net.agg.try_run(FPISA, "unload")[2]
    assert not os.path.exists(PIN)
    # An interface that runs the datapath is found through any remaining map.
    for is_lost in (lambda name: name == "fpisa_jobs", lambda name: name != "fpisa_stages"):
        net.fpisa("load", "p0")
        for name in filter(is_lost, os.listdir(PIN)):
            os.unlink(f"{PIN}/{name}")
        net.fpisa("unload")
        assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "link", "show", "p0")


def test_interface_vanishes(lab):
    """If a port disappears, its attachment ends too. The other ports can be unloaded."""
    net = lab(workers=3)
    net.load()
    net.add_job(1, workers=net.addresses[:2])
    net.agg.ip("link del p2")
    assert [i["name"] for i in net.json("status")["interfaces"]] == ["p0", "p1"]
    net.check_sum(1, ranks=[0, 1])
    net.fpisa("unload")
    assert not os.path.exists(PIN)


def test_unload_of_both_of_a_stack(lab):
    """The kernel does not detach a program below an interface that has one, so unload begins at the top interface."""
    net = lab(bridge=True)

    def load_both():
        net.fpisa("load", "p0")
        net.agg.run("bpftool", "net", "attach", "xdpgeneric", "pinned", PIN + "/fpisa", "dev", "br9")

    net.agg.ip("link add br9 type bridge", "link set p0 master br9")
    load_both()
    refused(net, ["unload", "p0"], r"p0: cannot detach XDP: br9, above it, has a program \(fpisa, id \d+\); first run fpisa unload br9")
    net.fpisa("unload", "p0", "br9")
    assert not os.path.exists(PIN)
    load_both()
    net.fpisa("unload")
    assert not os.path.exists(PIN) and "xdp" not in net.agg.run("ip", "-d", "link")


def settings(net):
    """Return the settings of lo that a job of a rank on this host and a remote rank needs: forwarding and accept_local."""
    return [int(net.agg.run("cat", f"/proc/sys/net/ipv4/conf/lo/{name}")) for name in ("forwarding", "accept_local")]


def set_lo(net, before):
    for name, on in zip(("forwarding", "accept_local"), before):
        net.agg.run("sysctl", "-qw", f"net.ipv4.conf.lo.{name}={on}")


def forward(net):
    net.agg.run("sysctl", "-qw", "net.ipv4.ip_forward=1")


def load_another(net):
    net.agg.run(FPISA, "load", "p1", "--pin", BPFFS + "/other")


# Events while the job runs, each with the settings that unload leaves afterwards
MEANWHILE = {"nothing": (lambda net: None, lambda before: before), "switched off": (lambda net: set_lo(net, [0, 0]), lambda before: [0, 0]),
             "ip_forward": (forward, lambda before: [1, before[1]]), "another datapath": (load_another, lambda before: [1, 1])}


@pytest.mark.cold
def test_settings_of_lo(lab):
    """A job switches on the settings of lo that it needs. Unload restores the old settings, unless another program has changed them or may
    need them."""
    net, rng = lab(), random.Random(draw_seed())
    cases = [(event, [rng.randint(0, 1), rng.randint(0, 1)]) for event in MEANWHILE] + [("nothing", [0, 0])]
    for event, before in cases:
        happen, after = MEANWHILE[event]
        net.agg.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
        set_lo(net, before)
        net.fpisa("load", "p0", "lo", "--mode", "skb")
        net.add_job(1, "--fanout", "unicast", workers=[net.addresses[0], f"{ADDRESS}:18001"])
        assert settings(net) == [1, 1]
        happen(net)
        net.fpisa("unload")
        assert settings(net) == after(before), (event, before)
        if event == "another datapath":
            net.fpisa("unload", "--pin", BPFFS + "/other")


def test_settings_of_lo_from_another_namespace(lab):
    """Settings are restored in the namespace of the job, wherever the last unload runs."""
    net = lab()
    other, _ = another(net)
    set_lo(net, [0, 0])
    net.load()
    net.add_job(1)
    assert settings(net) == [1, 0]
    other.run(FPISA, "load", "e0")
    net.agg.run("ip", "link", "set", "p0", "xdp", "off")
    net.agg.run("ip", "link", "set", "p1", "xdp", "off")
    other.run(FPISA, "unload")
    assert not os.path.exists(PIN) and settings(net) == [0, 0]
