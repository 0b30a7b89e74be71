# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa doctor of the datapath: the attached program, its pin, build and version."""
import os
import re
import shutil

import pytest

from doctor import bad, examine, fixes, inhabited, needs_ethtool
from lab import ADDRESS, BPFFS, BUILD, FPISA, IP_PIN, OBJECT, PIN

pytestmark = needs_ethtool


def test_another_program(lab):
    net = lab()
    for mode in ("native", "skb"):
        net.fpisa("load", "p0", "--mode", mode, "--pin", BPFFS + "/other")
        status, _, err = net.agg.try_run(FPISA, "load", "p0")
        assert status == 1 and f"give --pin {BPFFS}/other, or first run fpisa unload p0 --pin {BPFFS}/other" in err
        f = examine(net.agg, "p0")["p0", "xdp"]
        assert f["level"] == "ok" and f["text"] == \
            f"the interface runs the datapath that is pinned in {BPFFS}/other; check that datapath with fpisa doctor --pin {BPFFS}/other"
        assert bad(examine(net.agg, "p0", "--pin", BPFFS + "/other")).keys() <= {("p0", "gro"), ("p0", "xdp")}
        shutil.rmtree(BPFFS + "/other")
        fixes(net.agg, ["p0"], "p0", "xdp", says="a datapath's program is attached, fpisa, ")
        net.fpisa("load", "p0")
        net.fpisa("unload")


def test_program_that_is_not_the_entry(lab):
    """An attached stage program is a fault. Stages use the maps too, but a frame must not enter through them."""
    net = lab(workers=1)
    net.agg.run("bpftool", "prog", "loadall", OBJECT, PIN, "type", "xdp", "pinmaps", BPFFS)
    net.agg.run("bpftool", "net", "attach", "xdpdrv", "pinned", PIN + "/fpisa_mau0", "dev", "p0")
    assert re.search("p0 .*program fpisa_mau0, id \\d+: the wrong program", net.fpisa("status"))
    _, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", net.addresses[0], "--address", ADDRESS)
    assert "fpisa: warning: p0: the wrong program is attached, fpisa_mau0, so job 1 does not receive frames there; run ip link" in err
    assert fixes(net.agg, ["p0"], "p0", "xdp", says="the wrong program is attached: fpisa_mau0") == \
        "ip link set dev p0 xdpdrv off"
    net.agg.run("bpftool", "net", "attach", "xdpdrv", "pinned", PIN + "/fpisa", "dev", "p0")
    net.check_sum(1)


def test_pinned_but_nowhere_attached(lab):
    net = inhabited(lab())
    net.load()
    net.agg.ip("link set p0 xdp off", "link set p1 xdp off")
    assert fixes(net.agg, [], "datapath", "attached", "warn", text=True) == "fpisa unload"


def test_mends_that_keep_jobs(lab):
    """No fix removes an intact program or an intact pin."""
    net = inhabited(lab(workers=1))
    net.load()
    net.add_job(1)
    # The program was detached by hand.
    net.agg.ip("link set p0 xdp off")
    assert fixes(net.agg, [], "datapath", "attached", "warn") == "fpisa load p0"
    net.check_sum(1)
    # Use a directory that others may write to.
    os.chmod(PIN, 0o777)
    assert examine(net.agg)["p0", "xdp"]["text"] == f"the datapath that is pinned in {PIN} is attached"
    assert fixes(net.agg, [], "datapath", "pins") == f"chmod go-w {PIN}"
    net.check_sum(1)
    # Attach a program without a pin, in addition to the pinned programs.
    net.fpisa("job", "del", 1)
    net.agg.ip("link set p0 xdp off", "link add q0 type veth peer name q1", "link set q0 up", "link set q1 up")
    net.fpisa("load", "q0", "--pin", BPFFS + "/gone")
    shutil.rmtree(BPFFS + "/gone")
    assert examine(net.agg)["datapath", "attached"]["fix"] == "fpisa unload"
    assert fixes(net.agg, [], "q0", "xdp") == "ip link set dev q0 xdpdrv off"


def test_load_again(lab):
    """If a port was detached by hand, the fix attaches it again to the named datapath. Only live ranks count."""
    net, other = inhabited(lab()), BPFFS + "/other"
    net.fpisa("load", *net.ports, "--pin", other)
    net.add_job(1, "--pin", other)
    net.fpisa("job", "shrink", 1, 1, "--pin", other)
    net.agg.ip(*(f"link set {p} xdp off" for p in net.ports))
    assert fixes(net.agg, ["--pin", other], "datapath", "attached", "warn") == f"fpisa load p0 --pin {other}"
    net.check_sum(1, ranks=[0])


def test_where_it_is_pinned(lab):
    """A datapath is found where iproute2 pins it, and in a nested directory that is named."""
    net = lab()
    net.ip_link(["p0"])
    says = f"runs the datapath that is pinned in {IP_PIN}"
    _, _, err = net.agg.try_run(FPISA, "load", "p0", "--pin", BPFFS + "/mine")
    assert says + f"; give --pin {IP_PIN}, or first run fpisa unload p0 --pin {IP_PIN}" in err
    assert examine(net.agg, "p0", "--pin", BPFFS + "/mine")["p0", "xdp"]["text"].startswith("the interface " + says)
    deep = BPFFS + "/a/b"
    os.mkdir(BPFFS + "/a", 0o755)
    net.fpisa("load", "p1", "--pin", deep)
    for argv in ([], ["p1"]):
        assert examine(net.agg, *argv)["p1", "xdp"]["text"].startswith(f"the interface runs the datapath that is pinned in {deep}; ")
    assert f"give --pin {deep}, or " in net.agg.try_run(FPISA, "load", "p1", "--pin", BPFFS + "/mine")[2]
    os.chmod(deep, 0o777)
    assert examine(net.agg, "--pin", deep)["p1", "xdp"]["text"] == f"the datapath that is pinned in {deep} is attached"
    assert fixes(net.agg, ["--pin", deep], "datapath", "pins") == f"chmod go-w {deep}"


def test_pinned_in_another_bpf_filesystem(lab, tmp_path):
    """If the BPF filesystem has an unusual name, or is mounted elsewhere, no fix detaches a program whose jobs are pinned there."""
    net, place = inhabited(lab()), tmp_path / "a b"
    place.mkdir()
    net.agg.run("mount", "-t", "bpf", "-o", "mode=0755", "bpf", place)
    pin = ["--pin", f"{place}/c"]
    net.fpisa("load", *net.ports, *pin)
    net.add_job(1, *pin)
    assert examine(net.agg)["p0", "xdp"]["text"].startswith(f"the interface runs the datapath that is pinned in {place}/c; ")
    os.rename(place / "c", place / "d")
    net.agg.run("mount", "-t", "tmpfs", "tmpfs", place)
    f = examine(net.agg, "p0")["p0", "xdp"]
    assert f["level"] == "fault" and f["fix"] is None and f["text"].endswith("ip link set dev p0 xdpdrv off ends its jobs")
    assert net.agg.try_run(FPISA, "load", "p0")[2].endswith("ip link set dev p0 xdp off, which ends its jobs, 1\n")
    net.check_sum(1)
    net.agg.run("umount", place)
    net.fpisa("job", "del", 1, "--pin", f"{place}/d")
    net.agg.run("mount", "-t", "tmpfs", "tmpfs", place)
    assert fixes(net.agg, ["p0"], "p0", "xdp", says="a datapath's program is attached, fpisa, ") == \
        "ip link set dev p0 xdpdrv off"
    net.agg.run("umount", place)
    net.fpisa("unload", "--pin", f"{place}/d")
    net.agg.run("umount", place)


def test_another_version(lab):
    """A map whose structure differs from this build is found."""
    net = inhabited(lab())
    net.load()
    path = PIN + "/fpisa_counters"
    os.unlink(path)
    net.bpftool("map", "create", path, "type", "array", "key", 4, "value", 8, "entries", 65,
                "name", "fpisa_counters")
    fix = fixes(net.agg, [], "datapath", "version", says="another version")
    assert fix == "fpisa unload && fpisa load p0 p1"
    net.add_job(1)
    net.check_sum(1)


def test_another_build(lab):
    old = os.path.join(BUILD, "old-clang", "fpisa.o")
    if not os.path.exists(old):
        pytest.skip("fpisa.o of another compiler is not built")
    net = inhabited(lab())
    for dev in net.ports:
        net.agg.ip(f"link set dev {dev} xdp obj {old}")
    assert os.path.exists(IP_PIN + "/fpisa_jobs")
    net.add_job(1)
    fix = fixes(net.agg, [], "datapath", "build", "warn", says="2 of 2 interfaces")
    assert fix == "fpisa upgrade"
    net.check_sum(1)
