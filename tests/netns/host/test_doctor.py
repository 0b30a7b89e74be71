# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa doctor as a whole on a machine without faults, without the tools, without privilege, and without a BPF filesystem."""
import os
import subprocess

from doctor import bad, examine, fixes, inhabited, needs_ethtool
from lab import ADDRESS, BPFFS, FPISA, MNT_DETACH, PIN, libc
from refusals import state

pytestmark = needs_ethtool


def test_healthy(lab):
    net = inhabited(lab())
    assert bad(examine(net.agg, *net.ports)) == {}
    assert bad(examine(net.agg)) == {}
    net.load()
    net.add_job(1)
    net.check_sum(1)
    found = examine(net.agg)
    assert bad(found) == {}
    expect = {("kernel", c) for c in ("privilege", "features", "jit", "memlock", "verifier", "bpffs")}
    expect |= {("tools", "iproute2"), ("tools", "ethtool"), ("datapath", "build"), ("job 1", "address"),
               ("job 1", "routes"), ("job 1", "egress"), ("job 1", "mtu"), ("job 1", "members")}
    expect |= {(p, c) for p in net.ports for c in ("link", "xdp", "gro", "queues", "lro", "vlan")}
    assert found.keys() == expect
    out = net.fpisa("doctor")
    assert out.splitlines()[-1] == f"{len(expect)} ok, 0 warnings, 0 faults"
    for w in net.worker:
        assert bad(examine(w, "--worker", ADDRESS)) == {}
    net.check_sum(1)


def test_trial_leaves_nothing(lab):
    net = lab()
    before = state(net)
    examine(net.agg, "p0", "p1")
    assert state(net) == before and [f for f in os.listdir(BPFFS) if "fpisa" in f] == []


def test_pin_that_is_no_bpf_filesystem(lab, tmp_path):
    """A pin path outside a BPF filesystem is reported. A mount would hide the contents of the directory."""
    net = lab(workers=1)
    (tmp_path / "file").write_text("")
    f = examine(net.agg, "p0", "--pin", str(tmp_path))["kernel", "bpffs"]
    assert f["level"] == "fault" and f["fix"] == f"fpisa doctor --pin {PIN}"
    assert f["text"].endswith("give a directory of a BPF filesystem")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert fixes(net.agg, ["p0", "--pin", str(empty)], "kernel", "bpffs") == f"mount -t bpf bpf {empty}"
    net.agg.run("umount", empty)


def test_bpffs(lab):
    net = lab(workers=1)
    while not libc.umount2(BPFFS.encode(), MNT_DETACH):
        pass
    assert fixes(net.agg, ["p0"], "kernel", "bpffs") == f"mount -t bpf bpf {BPFFS}"
    net.fpisa("load", "p0")
    net.fpisa("unload")


def test_tools(lab, tmp_path):
    """Missing iproute2, and iproute2 without libbpf, are reported. The fixes install packages, so the test checks only their text."""
    net = lab(workers=1)
    ip = tmp_path / "ip"
    ip.write_text("#!/bin/sh\necho ip utility, iproute2-5.10.0\n")
    ip.chmod(0o755)
    path = f"{tmp_path}:/usr/sbin:/usr/bin:/bin"
    f = examine(net.agg, env={**os.environ, "PATH": path})["tools", "iproute2"]
    assert f["level"] == "warn" and "without libbpf" in f["text"] and f["fix"].startswith("apt-get install")
    ip.unlink()
    found = examine(net.agg, env={**os.environ, "PATH": str(tmp_path)})
    assert found["tools", "iproute2"]["level"] == found["tools", "ethtool"]["level"] == "warn"


def test_without_privilege(lab):
    net = lab(workers=1)
    found = examine(net.agg, uid=65534)
    assert list(bad(found)) == [("kernel", "privilege")] and "sudo" in found["kernel", "privilege"]["fix"]


def test_privilege_that_suffices(lab):
    """Privilege that suffices only to load is not a fault, and doctor does not report parts that it cannot read as wrong."""
    net = lab(workers=1)
    caps = ["setpriv", "--bounding-set=-all,+net_admin,+bpf,+perfmon", "--inh-caps=-all,+net_admin,+bpf,+perfmon", FPISA]
    net.agg.run(*caps, "load", "p0")
    net.agg.run(*caps, "job", "add", 1, "--workers", net.addresses[0], "--address", ADDRESS)
    status, out, err = net.agg.try_run(*caps, "doctor", "p0")
    assert status == 0 and "privilege: CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON suffice; without CAP_SYS_ADMIN" in out, (out, err)
    assert "p0: xdp: the datapath is attached, native" in out and "verifier: the datapath's programs are accepted" in out
    status, out, err = net.agg.try_run(*caps, "doctor", "p0", "--pin", BPFFS + "/other")
    assert status == 0 and "identifying it requires CAP_SYS_ADMIN" in out, (out, err)


def test_read_only_bpffs(lab):
    net = lab(workers=1)
    subprocess.run(["mount", "-o", "remount,ro", BPFFS], check=True)
    try:
        assert fixes(net.agg, [], "kernel", "bpffs", says=f"{BPFFS} is read-only") == f"mount -o remount,rw {BPFFS}"
    finally:
        subprocess.run(["mount", "-o", "remount,rw", BPFFS], check=True)


def test_usage(lab):
    net = lab(workers=1)
    for argv, status, says in ((["nosuch0"], 1, "nosuch0: no such interface; see ip link"),
                               (["--worker", "10.1"], 2, "--worker: '10.1' is not an IPv4 or IPv6 address"),
                               (["--frob"], 2, "usage: fpisa doctor")):
        got, out, err = net.agg.try_run(FPISA, "doctor", *argv)
        assert got == status and out == "" and says in err
