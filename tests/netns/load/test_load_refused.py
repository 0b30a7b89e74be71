# SPDX-License-Identifier: GPL-2.0-only
"""A refused load says why and what to try, and nothing is attached or pinned."""
import contextlib
import os
import re
import subprocess
import tempfile

import pytest

from doctor import examine
from lab import BPFFS, FPISA, PIN
from refusals import refused


def test_load_refusals(lab):
    net = lab()
    refused(net, ["load", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["load", "p0", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["load", "p0", "p0"], "p0 is named twice")
    refused(net, ["load"], "load requires at least one interface", status=2, usage=True)
    refused(net, ["load", "p0", "--mode", "hw"], "--mode: 'hw' is not native or skb", 2, usage=True)
    refused(net, ["load", "p0", "--port", "70000"], "--port: '70000' is not a number", 2, usage=True)
    refused(net, ["load", "p0", "--pin", "/dev/shm/fpisa"], "not on a BPF filesystem; run mount -t bpf")
    assert not os.path.exists("/dev/shm/fpisa")
    refused(net, ["load", "p0", "--pin", BPFFS + "/no/such"], "/no: No such file or directory; create it with")
    refused(net, ["load", "p0"], "no privilege; run as root", uid=65534)


def on_a_bridge(net):
    """Make the aggregator's card a port of a bridge, and move the card's address to the bridge."""
    net.agg.ip("link add br9 type bridge", "addr del 10.99.1.1/24 dev p0", "link set p0 master br9", "link set br9 up",
               "addr add 10.99.1.1/24 dev br9")
    return net


def test_load_above_and_below(lab):
    """With a datapath on both a bridge and its port no worker could join, so the second load is refused."""
    net = on_a_bridge(lab(bridge=True))
    refused(net, ["load", "p0", "br9", "--mode", "skb"], "p0 is below br9; load the datapath on only one of them")
    net.fpisa("load", "p0")
    for mode in "native", "skb":
        refused(net, ["load", "br9", "--mode", mode],
                "br9: a datapath is on p0, below it, and workers cannot join with both; give that interface for the workers, ADDR@p0, or first run fpisa unload p0")
    refused(net, ["load", "br9", "--mode", "skb", "--pin", BPFFS + "/other"], "br9: a datapath is on p0, below it")
    net.fpisa("unload")
    net.fpisa("load", "br9", "--mode", "skb")
    refused(net, ["load", "p0"], r"p0: cannot attach XDP: br9, above it, has a program \(fpisa, id \d+\); first run fpisa unload br9")
    net.add_job(1)
    net.check_sum(1)
    net.fpisa("unload")
    net.agg.ip("link add ve0 type veth peer name ve1", "link set ve0 up", "link set ve1 up")
    net.fpisa("load", "ve0")
    net.agg.run("bpftool", "net", "attach", "xdpgeneric", "pinned", PIN + "/fpisa_mau0", "dev", "br9")
    refused(net, ["load", "p0"], r"p0: cannot attach XDP: br9, above it, has a program \(fpisa_mau0, id \d+\); first run ip link set dev br9 xdpgeneric off")
    net.agg.ip("link set dev br9 xdpgeneric off")
    net.fpisa("load", "p0")


def test_load_without_ethernet_headers(lab):
    net = lab(workers=1)
    net.agg.ip("tuntap add tun0 mode tun", "link set tun0 up", "addr add 10.77.0.1/24 dev tun0")
    refused(net, ["load", "tun0", "--mode", "skb"], "tun0 has frames without Ethernet headers, which the datapath needs")
    assert not os.path.exists(PIN)
    net.load()
    _, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", "10.77.0.2")
    assert "tun0: its frames have no Ethernet headers, so that no datapath can be loaded on it, so job 1 does not receive frames there" in err
    found = examine(net.agg, "tun0")
    assert found["tun0", "link"]["level"] == found["job 1", "port"]["level"] == "fault"
    assert "no Ethernet headers" in found["job 1", "port"]["text"] and found["job 1", "port"]["fix"] is None
    assert examine(net.agg)["tun0", "link"]["level"] == "ok"  # no test asked about this device


def test_load_without_descriptors(lab):
    net = lab(workers=1)
    status, _, err = net.agg.try_run("prlimit", "--nofile=24", FPISA, "load", "p0")
    assert status == 1 and "Too many open files" in err and err.endswith("; raise the limit, ulimit -n 1024\n"), err


@pytest.mark.parametrize("most", [5, 16, 40])
def test_verbs_without_descriptors(lab, most):
    """If descriptors run out, objects that cannot be examined do not count as missing, and nothing is removed."""
    net = lab()
    net.load()
    net.add_job(3)
    for argv in (["unload"], ["unload", "p0"], ["job", "del", "3"], ["job", "add", "4"], ["status"], ["query", "del", "5"], ["doctor"], ["load", "p0"]):
        status, _, err = net.agg.try_run("prlimit", f"--nofile={most}", FPISA, *argv)
        assert (status, err) == (1, "fpisa: cannot open 100 descriptors: Too many open files; raise the limit, ulimit -n 1024\n"), argv
    assert [job["job"] for job in net.json("job", "list")] == [3]
    assert net.agg.try_run("prlimit", "--nofile=40:110", FPISA, "job", "del", "3")[0] == 0


def test_load_twice(lab):
    net = lab()
    net.load()
    refused(net, ["load", "p0"], r"p0 is loaded already \(native, pinned in .*\); to detach it, run fpisa unload p0")
    refused(net, ["load", "p0", "--mode", "skb"], "p0 is loaded already")
    refused(net, ["load", "p0", "--pin", BPFFS + "/other"], f"p0 runs the datapath that is pinned in {PIN}; give --pin {PIN}, or ")
    net.fpisa("unload", "p1")
    refused(net, ["load", "p1", "p0"], "p0 is loaded already")
    refused(net, ["load", "p1", "--port", "99"], "a datapath with port 18000 is loaded")
    net.fpisa("load", "p1")
    net.add_job(1)
    net.check_sum(1)


def test_load_fails_on_the_second_interface(lab):
    """The second interface fails because its frames exceed an XDP buffer. The program of the first interface is then removed."""
    net = lab()
    net.worker[1].ip("link set eth0 mtu 9000")
    net.agg.ip("link set p1 mtu 9000")
    refused(net, ["load", "p0", "p1"], "p1: cannot attach native XDP: .*; try --mode skb")


@pytest.mark.parametrize("way", ["read-only", "no directory", "no bpffs"])
def test_load_that_cannot_pin(lab, way):
    """A load that cannot pin is refused before anything is attached."""
    net = lab()
    with contextlib.ExitStack() as stack:
        pin = PIN
        if way == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", BPFFS], check=True)
            stack.callback(subprocess.run, ["mount", "-o", "remount,rw", BPFFS], check=True)
        elif way == "no directory":
            pin = BPFFS + "/a/b"
        else:
            pin = stack.enter_context(tempfile.TemporaryDirectory())
        status, _, err = net.agg.try_run(FPISA, "load", "p0", "--pin", pin)
    assert status == 1 and re.fullmatch(r"fpisa: [^\n]+\n", err), err
    assert "xdp" not in net.agg.run("ip", "link", "show", "p0") and not os.path.exists(PIN)
