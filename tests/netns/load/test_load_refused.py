# SPDX-License-Identifier: GPL-2.0-only
"""Loads that are refused: why, what to try, and nothing is attached or pinned."""
import contextlib
import os
import re
import subprocess
import tempfile

import pytest

from lab import BPFFS, FPISA, PIN
from refusals import refused


def test_load_refusals(lab):
    net = lab()
    refused(net, ["load", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["load", "p0", "nosuch0"], "nosuch0: no such interface")
    refused(net, ["load", "p0", "p0"], "p0: named twice")
    refused(net, ["load"], "name at least one interface", status=2, usage=True)
    refused(net, ["load", "p0", "--mode", "hw"], "--mode: 'hw' is not native or skb", 2, usage=True)
    refused(net, ["load", "p0", "--port", "70000"], "--port: '70000' is not a number", 2, usage=True)
    refused(net, ["load", "p0", "--pin", "/dev/shm/fpisa"], "not on a BPF filesystem; mount -t bpf")
    assert not os.path.exists("/dev/shm/fpisa")
    refused(net, ["load", "p0", "--pin", BPFFS + "/no/such"], "/no: No such file or directory; make it with")
    refused(net, ["load", "p0"], "no privilege: run as root", uid=65534)


def test_load_twice(lab):
    net = lab()
    net.load()
    refused(net, ["load", "p0"], "p0: is loaded already, native, pinned in .*; fpisa unload p0")
    refused(net, ["load", "p0", "--mode", "skb"], "p0: is loaded already")
    refused(net, ["load", "p0", "--pin", BPFFS + "/other"], f"p0: runs the datapath that is pinned in {PIN}: give --pin {PIN}, or ")
    net.fpisa("unload", "p1")
    refused(net, ["load", "p1", "p0"], "p0: is loaded already")
    refused(net, ["load", "p1", "--port", "99"], "a datapath with port 18000 is loaded")
    net.fpisa("load", "p1")
    net.add_job(1)
    net.check_sum(1)


def test_load_fails_on_the_second_interface(lab):
    """A frame that no XDP buffer holds: what the first interface got is taken back."""
    net = lab()
    net.worker[1].ip("link set eth0 mtu 9000")
    net.agg.ip("link set p1 mtu 9000")
    refused(net, ["load", "p0", "p1"], "p1: attach native XDP: .*; try --mode skb")


@pytest.mark.parametrize("way", ["read-only", "no directory", "no bpffs"])
def test_load_that_cannot_pin(lab, way):
    """Refused before anything is attached."""
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
