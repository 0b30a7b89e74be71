# SPDX-License-Identifier: GPL-2.0-only
"""Test all ways to attach, native and generic: fpisa load, bpftool, xdp-loader."""
import json
import os
import shutil
import subprocess

import pytest

from lab import BPFFS, FPISA, OBJECT, PIN

pytestmark = pytest.mark.cold

STAGED = ("--pipeline", "staged", "--clz", "lpm")
FUSED = ("--pipeline", "fused", "--clz", "bits")


def check_both_pipelines(net, pin, *options):
    """Sum with two jobs at the same time, one of them in the nine stages."""
    net.add_job(1, *STAGED, *options)
    net.add_job(2, *FUSED, "--mode", "fpisa-a", *options)
    net.check_sum(1, 10000)
    net.check_sum(2, 10000, kind="even")
    n = len(net.worker)
    staged, fused = net.counters(1, pin), net.counters(2, pin)
    assert staged["v_result"] == fused["v_result"] == 40
    assert staged["mau0"] == staged["mau4"] == fused["fused"] == 40 * n
    assert staged["mau5"] == staged["mau8"] == 40 + staged["v_resent"] and fused["mau0"] == 0
    assert staged["missed_tail_calls"] == fused["missed_tail_calls"] == 0


@pytest.mark.parametrize("mode", ["native", "skb"])
def test_load(lab, mode):
    net = lab(workers=3)
    net.load("--mode", mode)
    status = net.json("status")
    assert {(i["name"], i["mode"]) for i in status["interfaces"]} == {(p, mode) for p in net.ports}
    assert all(b["stage_programs"] for b in status["banks"]) and status["trie_entries"] == 32
    link = net.agg.run("ip", "link", "show", "p0")
    assert ("xdpgeneric" in link) == (mode == "skb") and "xdp" in link
    check_both_pipelines(net, PIN)


def test_load_outlives_and_joins(lab):
    """A second load, of other interfaces, uses the loaded datapath."""
    net = lab(workers=3)
    net.fpisa("load", "p0", "p1")
    net.add_job(7, *FUSED, workers=net.addresses[:2])
    net.fpisa("load", "p2")
    net.add_job(1, *STAGED)
    net.check_sum(1, 5000)
    net.check_sum(7, 5000, workers=2, ranks=[0, 1])
    net.fpisa("unload", "p2")
    net.check_sum(7, 5000, workers=2, ranks=[0, 1])


def test_other_port(lab):
    net = lab()
    net.load("--port", "4242")
    net.add_job(1)
    net.check_sum(1, address="10.99.0.1:4242")


@pytest.mark.parametrize("pinmaps", [(), ("pinmaps", BPFFS)])
def test_bpftool(lab, pinmaps):
    """Pins by name go to the root of the BPF filesystem, and the CLI looks there too."""
    net = lab(workers=3)
    net.agg.run("bpftool", "prog", "loadall", OBJECT, PIN, "type", "xdp", *pinmaps)
    for dev in net.ports:
        net.agg.run("bpftool", "net", "attach", "xdpdrv", "pinned", PIN + "/fpisa", "dev", dev)
    assert net.json("status")["pinned"] == BPFFS
    check_both_pipelines(net, BPFFS)


# The dispatcher of libxdp 1.3 declares that it leaves packets unchanged. Kernels since 6.12 (and 6.1.192) then refuse a program under the
# dispatcher that resizes packets. The datapath resizes every reply.
LOADER = ("env", "LIBXDP_SKIP_DISPATCHER=1", "xdp-loader")


def test_xdp_loader(lab):
    """The option -p gives the directory for the pins of the maps. The option -n names the program, because the object has several."""
    if not shutil.which("xdp-loader"):
        pytest.skip("xdp-loader is not installed")
    net = lab(workers=3)
    for dev in net.ports:
        net.agg.run(*LOADER, "load", "-p", PIN, "-n", "fpisa", dev, OBJECT)
    assert net.json("status")["pinned"] == PIN
    check_both_pipelines(net, PIN)
    for dev in net.ports:
        net.agg.run("xdp-loader", "unload", dev, "--all")
    assert net.json("status")["interfaces"] == []


def test_xdp_loader_skb(lab):
    if not shutil.which("xdp-loader"):
        pytest.skip("xdp-loader is not installed")
    net = lab()
    for dev in net.ports:
        net.agg.run(*LOADER, "load", "-m", "skb", "-p", PIN, "-n", "fpisa", dev, OBJECT)
    check_both_pipelines(net, PIN)


def test_unload_leaves_nothing(lab):
    net = lab()
    before = ids(net)
    net.load()
    net.add_job(1, "--fanout", "unicast")
    net.check_sum(1)
    assert ids(net) != before
    net.fpisa("unload")
    assert not os.path.exists(PIN)
    assert all("xdp" not in net.agg.run("ip", "link", "show", p) for p in net.ports)
    assert ids(net) == before


def ids(net):
    """Return this build's programs and maps that have a pin in this BPF filesystem, or a link in this namespace."""
    pins = sorted(os.path.join(d, f) for d, _, files in os.walk(BPFFS) for f in files if "fpisa" in d + f)
    return pins, [i for dev in net.bpftool("net", "show") for i in dev["xdp"]]


def test_name_that_is_not_utf8(lab):
    """The kernel lets names of interfaces have any bytes. JSON has '?' in place of those that are not UTF-8."""
    net = lab(workers=1)
    net.agg.ip("link add odd type veth peer name even")
    with net.agg.entered():
        subprocess.run([b"ip", b"link", b"set", b"odd", b"name", b"\xffd\xc3"], check=True)
        for verb in ([b"load", b"\xffd\xc3"], [b"status"], [b"doctor"]):
            out = json.loads(subprocess.run([FPISA, *verb, "--json"], stdout=subprocess.PIPE).stdout.decode())
            assert "?d?" in json.dumps(out), out
    net.fpisa("unload")
