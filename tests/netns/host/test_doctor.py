# SPDX-License-Identifier: GPL-2.0-only
"""fpisa doctor: every fault is made on purpose, found, and gone once the printed command has run."""
import json
import os
import re
import shutil
import struct
import subprocess

import pytest

import lab as labs
from lab import (ADDRESS, BPFFS, BUILD, FPISA, IP_PIN, MNT_DETACH, OBJECT, PIN, PORT, libc, mount, read_answers,
                 unmount, wait_until)

ENV = {**os.environ, "PATH": BUILD + ":" + os.environ["PATH"]}

pytestmark = pytest.mark.skipif(not shutil.which("ethtool"), reason="ethtool is not installed")


def examine(ns, *argv, **options):
    """{(subject, check): finding} of `fpisa doctor`, whose exit status and counts agree with them."""
    status, out, err = ns.try_run(FPISA, "doctor", *argv, "--json", **options)
    report = json.loads(out)
    levels = [f["level"] for f in report["findings"]]
    assert all(levels.count(level) == report[level] for level in ("ok", "warn", "fault"))
    assert status == (1 if report["fault"] else 0), err
    found = {(f["subject"], f["check"]): f for f in report["findings"]}
    assert len(found) == len(levels) and not any(f["fix"] for f in found.values() if f["level"] == "ok")
    return found


def bad(found):
    return {key: f for key, f in found.items() if f["level"] != "ok"}


def fixes(ns, argv, subject, check, level="fault", says="", env=None, text=False):
    """The finding is there, as text too if asked; its command runs; the finding is gone. The command."""
    env = env or ENV
    f = examine(ns, *argv, env=env)[subject, check]
    assert f["level"] == level and says in f["text"], f
    if text:  # a further trial load, of which one is enough for each level
        out = ns.try_run(FPISA, "doctor", *argv, env=env)[1]
        line, = [x for x in out.splitlines() if f" {subject}: {check}: " in x]
        assert line == f"{level:5}  {subject}: {check}: {f['text']}; fix: {f['fix']}"
    ns.run("sh", "-ec", f["fix"], env=env)
    assert (subject, check) not in bad(examine(ns, *argv, env=env))
    return f["fix"]


def inhabited(net):
    """A process in each worker's namespace, by which others can see into it."""
    for w in net.worker:
        w.spawn("sleep", "600")
    return net


def ethtool_gro(ns, dev, value):
    ns.run("ethtool", "-K", dev, "gro", value)


def sums(net, job, timeout_ms=1500):
    """Do all ranks get the sum?"""
    procs = [net.start(r, job, {"count": 500, "kind": "integers"}, timeout_ms=timeout_ms)
             for r in range(len(net.worker))]
    return all([p.wait(labs.COMMAND_S) == 0 for p in procs])


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
               ("job 1", "routes"), ("job 1", "egress"), ("job 1", "members")}
    expect |= {(p, c) for p in net.ports for c in ("link", "xdp", "gro", "queues", "lro", "vlan")}
    assert found.keys() == expect
    out = net.fpisa("doctor")
    assert out.splitlines()[-1] == f"{len(expect)} ok, 0 warnings, 0 faults"
    for w in net.worker:
        assert bad(examine(w, "--worker", ADDRESS)) == {}
    net.check_sum(1)


def test_trial_leaves_nothing(lab):
    net = lab()
    before = net.agg.run("ip", "-o", "link")
    examine(net.agg, "p0", "p1")
    after = net.agg.run("ip", "-o", "link")
    assert after == before and [f for f in os.listdir(BPFFS) if "fpisa" in f] == []


@pytest.mark.parametrize("loaded", [False, True])
def test_gro_of_the_peer(lab, loaded):
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    ethtool_gro(net.worker[1], "eth0", "off")
    assert not sums(net, 1)
    if not loaded:
        net.fpisa("unload")
    fix = fixes(net.agg, ["p0", "p1"], "p1", "gro", says="eth0")
    assert fix.startswith("nsenter ")
    if not loaded:
        net.load()
        net.add_job(1)
    assert sums(net, 1, 20000)


def test_gro_warned_of(lab):
    """Who loads, or makes a job, is told of a peer to which results vanish, with the command; not in mode skb, whose
    results arrive. One whose namespace cannot be seen is told of where the kernel tells of it."""
    net = lab()
    # One process sees the peer, the other does not.
    keeper = net.worker[1].spawn("sleep", "600")
    for w in net.worker:
        ethtool_gro(w, "eth0", "off")
    argv = ["job", "add", 1, "--workers", ",".join(net.addresses), "--address", ADDRESS]
    seen = rf"fpisa: warning: p1: GRO is off on its peer eth0: results sent to it vanish; " \
           rf"nsenter -t {keeper.pid} -n ethtool -K eth0 gro on"
    for command in (["load", *net.ports], argv):
        status, out, err = net.agg.try_run(FPISA, *command)
        lines = err.splitlines()
        assert status == 0 and seen in lines, err
        unseen = [x for x in lines if x != seen]
        assert len(unseen) <= 1 and all(re.match("fpisa: warning: p0: GRO is off on its peer, interface \\d+ of a network "
                                                 "namespace that cannot be seen from here: ", x) for x in unseen), err
    net.agg.run("sh", "-ec", seen.split("; ")[1])
    ethtool_gro(net.worker[0], "eth0", "on")
    assert sums(net, 1, 20000)
    net.fpisa("unload")
    for command in (["load", *net.ports], argv):
        assert net.agg.try_run(FPISA, *command)[::2] == (0, "")
    net.fpisa("unload")
    ethtool_gro(net.worker[1], "eth0", "off")
    for command in (["load", *net.ports, "--mode", "skb"], argv):
        assert net.agg.try_run(FPISA, *command)[::2] == (0, "")
    assert sums(net, 1, 20000)


def test_gro_behind_a_bridge(lab):
    """A bridge sends by the stack: its port's other end may have GRO off, and workers sum. Doctor says so, or what it
    cannot see."""
    net = lab(bridge=True)
    net.load()
    net.add_job(1)
    for w in net.worker:
        ethtool_gro(w, "eth0", "off")
    assert sums(net, 1, 20000)
    f = examine(net.worker[0], "--worker", ADDRESS)["eth0", "gro"]
    assert f["level"] == "warn" and "unless it is a bridge's port" in f["text"]
    net.spaces[-1].spawn("sleep", "600")
    found = examine(net.worker[0], "--worker", ADDRESS)
    assert bad(found) == {} and "off, but its peer p0 is the port of a bridge" in found["eth0", "gro"]["text"]


def test_gro_of_a_peer_in_a_named_namespace(lab):
    net = lab(workers=1)
    net.agg.run("ip", "netns", "add", "doctor0")
    try:
        net.agg.ip("link add q0 type veth peer name q1 netns doctor0", "link set q0 up",
                   "netns exec doctor0 ip link set q1 up")
        assert fixes(net.agg, ["q0"], "q0", "gro") == "nsenter --net=/run/netns/doctor0 ethtool -K q1 gro on"
    finally:
        net.agg.run("ip", "netns", "del", "doctor0")


def test_gro_of_a_peer_that_cannot_be_seen(lab):
    net = lab(workers=1)
    ethtool_gro(net.worker[0], "eth0", "off")
    f = examine(net.agg, "p0").get(("p0", "gro"))
    assert f["level"] == "fault" and f["fix"] is None or "cannot be seen" in f["text"]


def test_gro_seen_by_the_worker(lab):
    net = lab(workers=1)
    net.agg.spawn("sleep", "600")
    ethtool_gro(net.worker[0], "eth0", "off")
    assert fixes(net.worker[0], ["--worker", ADDRESS], "eth0", "gro") == "ethtool -K eth0 gro on"


def test_links_that_are_down(lab):
    net = inhabited(lab())
    net.agg.ip("link set p0 down")
    fixes(net.agg, ["p0", "p1"], "p0", "link", says="is down", text=True)
    net.worker[1].ip("link set eth0 down")
    fixes(net.agg, ["p0", "p1"], "p1", "link", says="its peer eth0 is down")
    net.worker[1].ip("link set eth0 down", "route flush table main")
    net.worker[1].ip("link set eth0 up", f"route add {ADDRESS} via 10.99.2.1", "link set eth0 down")
    f = examine(net.worker[1], "eth0", "--worker", ADDRESS)["eth0", "route"]
    assert f["level"] == "fault" and "no route" in f["text"]
    net.worker[1].ip("link set eth0 up")
    fixes(net.worker[1], ["eth0", "--worker", ADDRESS], "eth0", "route", says="no route")


def test_mtu(lab):
    net = inhabited(lab(mtu=9000))
    assert net.agg.try_run(FPISA, "load", "p0")[0] == 1
    fixes(net.agg, ["p0"], "p0", "mtu", says="9000")
    fixes(net.agg, ["p1"], "p1", "mtu")
    net.load()
    net.add_job(1, "--elements", "832")
    assert sums(net, 1, 20000)


def test_another_program(lab):
    net = lab()
    for mode in ("native", "skb"):
        net.fpisa("load", "p0", "--mode", mode, "--pin", BPFFS + "/other")
        status, _, err = net.agg.try_run(FPISA, "load", "p0")
        assert status == 1 and f"give --pin {BPFFS}/other, or fpisa unload p0 --pin {BPFFS}/other first" in err
        f = examine(net.agg, "p0")["p0", "xdp"]
        assert f["level"] == "ok" and f["text"] == \
            f"runs the datapath that is pinned in {BPFFS}/other; fpisa doctor --pin {BPFFS}/other looks at that"
        assert bad(examine(net.agg, "p0", "--pin", BPFFS + "/other")).keys() <= {("p0", "gro"), ("p0", "xdp")}
        shutil.rmtree(BPFFS + "/other")
        fixes(net.agg, ["p0"], "p0", "xdp", says="a datapath's program is attached, fpisa, ")
        net.fpisa("load", "p0")
        net.fpisa("unload")


def test_program_that_is_not_the_entry(lab):
    """Stages use the maps too; no frame may come in by them."""
    net = lab(workers=1)
    net.agg.run("bpftool", "prog", "loadall", OBJECT, PIN, "type", "xdp", "pinmaps", BPFFS)
    net.agg.run("bpftool", "net", "attach", "xdpdrv", "pinned", PIN + "/fpisa_mau0", "dev", "p0")
    assert re.search("p0 .*program fpisa_mau0, id \\d+: the wrong one", net.fpisa("status"))
    _, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", net.addresses[0], "--address", ADDRESS)
    assert "fpisa: warning: p0: the wrong program is attached, fpisa_mau0, so job 1 hears no worker there; ip link" in err
    assert fixes(net.agg, ["p0"], "p0", "xdp", says="the wrong program is attached: fpisa_mau0") == \
        "ip link set dev p0 xdpdrv off"
    net.agg.run("bpftool", "net", "attach", "xdpdrv", "pinned", PIN + "/fpisa", "dev", "p0")
    net.check_sum(1)


def test_mends_that_keep_jobs(lab):
    """What runs or is pinned is whole: no fix removes it."""
    net = inhabited(lab(workers=1))
    net.load()
    net.add_job(1)
    # The program taken off by hand.
    net.agg.ip("link set p0 xdp off")
    assert fixes(net.agg, [], "datapath", "attached", "warn") == "fpisa load p0"
    net.check_sum(1)
    # A directory that others may write.
    os.chmod(PIN, 0o777)
    assert examine(net.agg)["p0", "xdp"]["text"] == f"the datapath that is pinned in {PIN} is attached"
    assert fixes(net.agg, [], "datapath", "pins") == f"chmod go-w {PIN}"
    net.check_sum(1)
    # A program of no pin beside what is pinned.
    net.fpisa("job", "del", 1)
    net.agg.ip("link set p0 xdp off", "link add q0 type veth peer name q1", "link set q0 up", "link set q1 up")
    net.fpisa("load", "q0", "--pin", BPFFS + "/gone")
    shutil.rmtree(BPFFS + "/gone")
    assert examine(net.agg)["datapath", "attached"]["fix"] == "fpisa unload"
    assert fixes(net.agg, [], "q0", "xdp") == "ip link set dev q0 xdpdrv off"


def test_load_again(lab):
    """What was taken off by hand comes back to the datapath that was named, for live ranks alone."""
    net, other = inhabited(lab()), BPFFS + "/other"
    net.fpisa("load", *net.ports, "--pin", other)
    net.add_job(1, "--pin", other)
    net.fpisa("job", "shrink", 1, 1, "--pin", other)
    net.agg.ip(*(f"link set {p} xdp off" for p in net.ports))
    assert fixes(net.agg, ["--pin", other], "datapath", "attached", "warn") == f"fpisa load p0 --pin {other}"
    net.check_sum(1, ranks=[0])


def test_where_it_is_pinned(lab):
    """Found where iproute2 pins, and deep in a directory that was named."""
    net = lab()
    net.ip_link(["p0"])
    says = f"runs the datapath that is pinned in {IP_PIN}"
    _, _, err = net.agg.try_run(FPISA, "load", "p0", "--pin", BPFFS + "/mine")
    assert says + f": give --pin {IP_PIN}, or fpisa unload p0 --pin {IP_PIN} first" in err
    assert examine(net.agg, "p0", "--pin", BPFFS + "/mine")["p0", "xdp"]["text"].startswith(says)
    deep = BPFFS + "/a/b"
    os.mkdir(BPFFS + "/a", 0o755)
    net.fpisa("load", "p1", "--pin", deep)
    for argv in ([], ["p1"]):
        assert examine(net.agg, *argv)["p1", "xdp"]["text"].startswith(f"runs the datapath that is pinned in {deep}; ")
    assert f"give --pin {deep}, or " in net.agg.try_run(FPISA, "load", "p1", "--pin", BPFFS + "/mine")[2]
    os.chmod(deep, 0o777)
    assert examine(net.agg, "--pin", deep)["p1", "xdp"]["text"] == f"the datapath that is pinned in {deep} is attached"
    assert fixes(net.agg, ["--pin", deep], "datapath", "pins") == f"chmod go-w {deep}"


def test_pinned_in_another_bpf_filesystem(lab, tmp_path):
    """One of its own name, and one that is mounted elsewhere: with jobs there, no fix takes the program off."""
    net, place = inhabited(lab()), tmp_path / "a b"
    place.mkdir()
    net.agg.run("mount", "-t", "bpf", "-o", "mode=0755", "bpf", place)
    pin = ["--pin", f"{place}/c"]
    net.fpisa("load", *net.ports, *pin)
    net.add_job(1, *pin)
    assert examine(net.agg)["p0", "xdp"]["text"].startswith(f"runs the datapath that is pinned in {place}/c; ")
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


def test_pin_that_is_no_bpf_filesystem(lab, tmp_path):
    """A mount would hide what is there."""
    net = lab(workers=1)
    (tmp_path / "file").write_text("")
    f = examine(net.agg, "p0", "--pin", str(tmp_path))["kernel", "bpffs"]
    assert f["level"] == "fault" and f["fix"] == f"fpisa doctor --pin {PIN}"
    assert f["text"].endswith("name a directory of a BPF filesystem")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert fixes(net.agg, ["p0", "--pin", str(empty)], "kernel", "bpffs") == f"mount -t bpf bpf {empty}"
    net.agg.run("umount", empty)


def test_job_and_mtu(lab):
    """An MTU that was made smaller than the frames of a job."""
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    net.agg.ip("link set p0 mtu 1000", "link set p1 mtu 1000")
    says = "frames of 1128 bytes do not fit the MTU: p0 has 1000, p1 has 1000"
    assert fixes(net.agg, [], "job 1", "mtu", says=says) == "ip link set dev p0 mtu 1128 && ip link set dev p1 mtu 1128"
    net.check_sum(1)
    # A rank that was taken out has no say.
    net.agg.ip("link set p0 mtu 1000", "link set p1 mtu 1000")
    net.fpisa("job", "shrink", 1, 1)
    assert fixes(net.agg, [], "job 1", "mtu") == "ip link set dev p0 mtu 1128"


def test_job_and_mtu_of_a_shared_port(lab):
    """It is named once, whoever is behind it."""
    net = lab(bridge=True)
    net.load()
    net.add_job(1)
    net.agg.ip("link set p0 mtu 1000")
    says = "frames of 1128 bytes do not fit the MTU: p0 has 1000"
    assert fixes(net.agg, [], "job 1", "mtu", says=says) == "ip link set dev p0 mtu 1128"


def test_generic_although_native(lab):
    """The job survives the fix."""
    net = inhabited(lab())
    net.load("--mode", "skb")
    net.add_job(1)
    net.check_sum(1)
    f = examine(net.agg)["p0", "xdp"]
    if f["level"] == "ok":
        pytest.skip("this kernel does not tell what a driver can do without a trial")
    fixes(net.agg, [], "p0", "xdp", "warn", says="veth has native XDP")
    fixes(net.agg, [], "p1", "xdp", "warn")
    assert {i["mode"] for i in net.json("status")["interfaces"]} == {"native"}
    net.check_sum(1)


def test_driver_without_native_xdp(lab):
    net = lab(workers=1)
    net.agg.ip("link add br9 type bridge", "link set br9 up")
    assert fixes(net.agg, ["br9"], "br9", "xdp", "warn", says="no native XDP") == "fpisa load br9 --mode skb"
    assert net.json("status")["interfaces"][0]["name"] == "br9"


def test_queues(lab):
    net = lab(workers=1)
    net.agg.ip("link add q0 numrxqueues 2 numtxqueues 2 type veth peer name q1 numrxqueues 4 numtxqueues 4",
               "link set q0 up", "link set q1 up")
    ethtool_gro(net.agg, "q1", "on")
    assert fixes(net.agg, ["q0"], "q0", "queues", says="q1 has 4") == "ethtool -L q1 tx 2"
    net.agg.run("ethtool", "-L", "q0", "rx", "1")
    assert fixes(net.agg, ["q0"], "q0", "queues") == "ethtool -L q0 rx 2"


def test_offloads(lab):
    """Where the kernel has a device with LRO, and VLANs."""
    net = lab(workers=1)
    made = 0
    if not net.agg.try_run("ip", "link", "add", "bond9", "type", "bond")[0]:
        net.agg.run("ethtool", "-K", "bond9", "lro", "on")
        fixes(net.agg, ["bond9"], "bond9", "lro")
        made += 1
    if not net.agg.try_run("ip", "link", "add", "link", "p0", "name", "p0.5", "type", "vlan", "id", "5")[0]:
        fixes(net.agg, ["p0"], "p0", "vlan", "warn", says="those of p0.5")
        made += 1
    if not made:
        pytest.skip("this kernel has neither bonding nor VLAN interfaces")


TAG = """#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("classifier") int tag(struct __sk_buff *skb) { bpf_skb_vlan_push(skb, 0x0081, 5); return 0; }
char _license[] SEC("license") = "GPL";
"""


def test_tags_taken_off(lab, tmp_path):
    """What XDP cannot see, until the offload that doctor names is off."""
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    (tmp_path / "tag.c").write_text(TAG)
    subprocess.run(["clang-19", "-O2", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu", "-c", tmp_path / "tag.c",
                    "-o", tmp_path / "tag.o"], check=True)
    w = net.worker[0]
    w.run("tc", "qdisc", "add", "dev", "eth0", "clsact")
    with w.socket() as s:
        s.sendto(b"FP" + bytes(20), (ADDRESS, PORT))  # ARP is done
        wait_until("an untagged frame", lambda: net.counters(64, PIN)["v_truncated"] == 1)
        w.run("tc", "filter", "add", "dev", "eth0", "egress", "bpf", "da", "obj", tmp_path / "tag.o", "sec", "classifier")
        s.sendto(b"FP" + bytes(20), (ADDRESS, PORT))
        wait_until("a tagged frame that counts as ours", lambda: net.counters(64, PIN)["v_truncated"] == 2)
        text = examine(net.agg, "p0")["p0", "vlan"]["text"]
        assert "frames of every VLAN that arrives are taken as untagged" in text
        net.agg.run("sh", "-ec", re.search(r"if any do, (.*ethtool -K eth0 txvlan off)$", text).group(1))
        before = net.counters(64, PIN)["v_not_ours"]
        s.sendto(b"FP" + bytes(20), (ADDRESS, PORT))
        wait_until("one that passes", lambda: net.counters(64, PIN)["v_not_ours"] > before)
    assert net.counters(64, PIN)["v_truncated"] == 2
    assert "tags stay on" in examine(net.agg, "p0")["p0", "vlan"]["text"]
    w.run("tc", "filter", "del", "dev", "eth0", "egress")
    net.check_sum(1)


def test_bpffs(lab):
    net = lab(workers=1)
    while not libc.umount2(BPFFS.encode(), MNT_DETACH):
        pass
    assert fixes(net.agg, ["p0"], "kernel", "bpffs") == f"mount -t bpf bpf {BPFFS}"
    net.fpisa("load", "p0")
    net.fpisa("unload")


def test_reverse_path_filter(lab):
    """Results that come in elsewhere than where the route leads."""
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


def test_worker_at_the_aggregator(lab):
    """No command mends a wrong address; what to do is said."""
    net = lab(workers=1)
    f = examine(net.agg, "p0", "--worker", ADDRESS)["p0", "route"]
    assert f["level"] == "fault" and f["fix"] is None
    assert f["text"] == f"{ADDRESS} is an address of this machine: name the aggregator's, or leave --worker out where this is it"


def test_multicast_off(lab):
    net = lab(workers=1)
    net.worker[0].ip("link set eth0 multicast off")
    fixes(net.worker[0], ["--worker", ADDRESS], "eth0", "multicast")


def test_port_without_datapath(lab):
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    net.fpisa("unload", "p1")
    assert not sums(net, 1)
    fixes(net.agg, [], "job 1", "port", says="rank 1 is behind p1")
    assert sums(net, 1, 20000)


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_port_that_was_replaced(lab, fanout):
    """The interface of rank 1 goes and comes again: another index, no program, no entry."""
    net = inhabited(lab())
    net.load()
    net.add_job(1, "--fanout", fanout, "--mode", "fpisa64", "--token", "5a", "--window", "16", "--ports", "2",
                "--no-statistics")
    net.add_job(2, "--fanout", fanout, "--big-endian", "--reciprocal", "--histogram",
                "--debug-faults", "drop=0.1,corrupt=0.3,seed=7")
    before = [net.json("job", "show", job) for job in (1, 2)]
    assert sums_with_token(net)
    net.agg.ip("link del p1")
    net.connect(1, net.worker[1], net.agg, labs.MTU, False)
    assert not sums_with_token(net, 1500)
    net.fpisa("load", "p1")
    fixes(net.agg, [], "job 1", "egress", says="no way to ranks 1: their interface is gone")
    fixes(net.agg, [], "job 2", "egress")
    for job, then in zip((1, 2), before):
        now = net.json("job", "show", job)
        same = then.keys() - {"generation", "members", "joined", "slot_base"}
        assert {k: now[k] for k in same} == {k: then[k] for k in same}
    assert sums_with_token(net)


def sums_with_token(net, timeout_ms=20000):
    procs = [net.start(r, 1, {"count": 500, "kind": "integers"}, timeout_ms=timeout_ms, token=0x5a)
             for r in range(2)]
    return all([p.wait(labs.COMMAND_S) == 0 for p in procs])


def test_lost_egress_program(lab):
    """An entry of a unicast fan-out without the program that addresses copies."""
    net = inhabited(lab())
    net.load()
    net.add_job(1, "--fanout", "unicast")
    entry, = net.bpftool("map", "dump", "pinned", PIN + "/fpisa_fanout")
    assert int(entry["key"][0], 16) == 1
    inner = int.from_bytes(bytes(int(b, 16) for b in entry["value"]), "little")
    index = int(net.agg.run("ip", "-o", "link", "show", "p1").split(":")[0])
    value = [str(b) for b in index.to_bytes(4, "little") + b"\xff\xff\xff\xff"]
    net.agg.run("bpftool", "map", "update", "id", inner, "key", "1", "0", "0", "0", "value", *value)
    fixes(net.agg, [], "job 1", "egress", says="no way to ranks 1: no entry")
    assert sums(net, 1, 20000)


def test_address_that_is_nobody_s(lab):
    net = lab(workers=1)
    net.load()
    net.fpisa("job", "add", 1, "--workers", net.addresses[0] + "@p0", "--address", "10.99.1.77", "--foreign-address")
    net.worker[0].ip("route add 10.99.1.77 dev eth0")
    assert not net.start(0, 1, timeout_ms=1500, address="10.99.1.77").wait(labs.COMMAND_S) == 0
    fix = fixes(net.agg, [], "job 1", "address", "warn", says="10.99.1.77 is no address of this machine")
    assert fix == "ip address add 10.99.1.77/32 dev lo"
    assert net.start(0, 1, {"count": 500, "kind": "integers"}, timeout_ms=20000,
                     address="10.99.1.77").wait(labs.COMMAND_S) == 0


def test_missing_rank(lab):
    net = inhabited(lab(workers=3))
    net.load()
    net.add_job(1)
    # In an emulated guest a look takes seconds.
    workers = [net.start(r, 1, {"count": 3000, "kind": "integers"}, timeout_ms=50000) for r in (0, 1)]

    def seen():
        f = examine(net.agg)["job 1", "members"]
        return f["level"] == "warn" and "ranks 2:" in f["text"]
    wait_until("two ranks to ask", seen, 40)
    assert fixes(net.agg, [], "job 1", "members", "warn", says="waits for ranks 2") == "fpisa job shrink 1 2"
    for p in workers:
        read_answers(p)


def test_another_version(lab):
    """A map whose structure is not this build's."""
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
    old = os.path.join(BUILD, "clang-14", "fpisa.o")
    if not os.path.exists(old):
        pytest.skip("fpisa.o of another compiler is not built")
    net = inhabited(lab())
    for dev in net.ports:
        net.agg.ip(f"link set dev {dev} xdp obj {old}")
    assert os.path.exists(IP_PIN + "/fpisa_jobs")
    net.add_job(1)
    fix = fixes(net.agg, [], "datapath", "build", "warn", says="on 2 of 2 interfaces")
    assert fix == "fpisa upgrade"
    net.check_sum(1)


def test_pinned_but_nowhere_attached(lab):
    net = inhabited(lab())
    net.load()
    net.agg.ip("link set p0 xdp off", "link set p1 xdp off")
    assert fixes(net.agg, [], "datapath", "attached", "warn", text=True) == "fpisa unload"


def test_tools(lab, tmp_path):
    """iproute2 without libbpf, and none; these mends install packages, so only what they say is checked."""
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


def test_usage(lab):
    net = lab(workers=1)
    for argv, status, says in ((["nosuch0"], 1, "nosuch0: no such interface; see ip link"),
                               (["--worker", "10.1"], 2, "--worker: '10.1' is not an IPv4 address"),
                               (["--frob"], 2, "usage: fpisa doctor")):
        got, out, err = net.agg.try_run(FPISA, "doctor", *argv)
        assert got == status and out == "" and says in err


# -- what this kernel may lack: a card with queues and offloads, a kernel without its JIT (machine.c) ---------

FLAG_LRO = 1 << 15		    # ETH_FLAG_LRO
RXH_IP, RXH_PORTS = 3 << 4, 3 << 6  # source and destination


class Card:
    """Interface nic0, whose driver is machine.c."""

    def __init__(self, net, tmp_path):
        library = tmp_path / "machine.so"
        subprocess.run(["gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", library,
                        os.path.join(os.path.dirname(__file__), "machine.c"), "-ldl"], check=True)
        self.state, self.jit = tmp_path / "state", tmp_path / "jit"
        self.env = {"LD_PRELOAD": str(library), "MACHINE_NIC": "nic0", "MACHINE_STATE": str(self.state),
                    "MACHINE_JIT": str(self.jit)}
        self.jit.write_text("1\n")
        net.agg.ip("link add nic0 type bridge", "link set nic0 up")
        self.set()

    def set(self, flags=0, combined=8, udp_hash=RXH_IP, no_rules=False):
        self.state.write_bytes(struct.pack("IIQI", flags, combined, udp_hash, no_rules) + bytes(16384))

    def get(self):
        return struct.unpack_from("IIQ", self.state.read_bytes())


@pytest.fixture
def card(lab, tmp_path):
    net = lab(workers=1)
    c = Card(net, tmp_path)
    c.ns = net.agg
    return c


def card_mends(card, subject, check, level, says):
    return fixes(card.ns, ["nic0"], subject, check, level, says, env={**ENV, **card.env})


def test_lro_of_a_card(card):
    card.set(flags=FLAG_LRO)
    assert card_mends(card, "nic0", "lro", "fault", "LRO joins received frames") == "ethtool -K nic0 lro off"
    assert card.get()[0] == 0


def test_queues_of_a_card(card):
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    if cpus == 1:
        pytest.skip("one queue is enough for one CPU")
    card.set(combined=1)
    want = min(cpus, 8)
    says = f"1 of 8 receive queues for {cpus} CPUs"
    assert card_mends(card, "nic0", "queues", "warn", says) == f"ethtool -L nic0 combined {want}"
    assert card.get()[1] == want


def test_steering_of_a_card(card):
    card.set(udp_hash=0)
    says = "8 receive queues, but all UDP comes to one of them"
    assert card_mends(card, "nic0", "queues", "warn", says) == "ethtool -N nic0 rx-flow-hash udp4 sd"
    assert card.get()[2] == RXH_IP
    for fields, by in ((RXH_IP, "addresses"), (RXH_IP | RXH_PORTS, "addresses and ports")):
        card.set(udp_hash=fields)
        f = examine(card.ns, "nic0", env={**ENV, **card.env})["nic0", "queues"]
        assert f["level"] == "ok" and f["text"] == f"8 of 8 receive queues, UDP spread by {by}"


def ports_finding(card):
    return examine(card.ns, "nic0", env={**ENV, **card.env})["nic0", "ports"]


def job_behind_card(card, *options):
    """A job with four ports whose worker is behind nic0."""
    card.ns.ip("addr add 10.97.0.1/24 dev nic0")
    card.ns.run(FPISA, "load", "nic0", "--mode", "skb", *options)
    card.ns.run(FPISA, "job", "add", 1, "--workers", "10.97.0.2", "--address", "10.97.0.1")
    assert ("nic0", "ports") not in examine(card.ns, "nic0", env={**ENV, **card.env})
    card.ns.run(FPISA, "job", "add", 2, "--workers", "10.97.0.2", "--address", "10.97.0.1", "--ports", 4)


def test_ports_of_a_job_by_rules(card):
    """A rule for each port; one that is lost; all for one queue."""
    job_behind_card(card, "--port", "19000")
    fix = card_mends(card, "nic0", "ports", "warn", "4 of 4 ports of job 2 have no rule")
    add = [f"ethtool -N nic0 flow-type udp4 dst-port {19000 + i} action {i}" for i in range(4)]
    assert fix == " && ".join(["ethtool -K nic0 ntuple on", *add])
    assert ports_finding(card)["text"] == "each of 4 ports of job 2 has a queue by rule"
    env = {**ENV, **card.env}
    card.ns.run("ethtool", "-N", "nic0", "delete", "2", env=env)
    fix = card_mends(card, "nic0", "ports", "warn", "1 of 4 ports of job 2 have no rule")
    assert fix == " && ".join([f"ethtool -N nic0 delete {i}" for i in (0, 1, 3)] + add)
    for i in range(4):
        card.ns.run("ethtool", "-N", "nic0", "delete", str(i), env=env)
    for i in range(4):
        card.ns.run("ethtool", "-N", "nic0", "flow-type", "udp4", "dst-port", str(19000 + i), "action", "3", env=env)
    card_mends(card, "nic0", "ports", "warn", "all 4 ports of job 2 have rules for one queue")
    # One that looks at the source too leaves a rank's frames to others.
    card.ns.run("ethtool", "-N", "nic0", "delete", "0", env=env)
    card.ns.run("ethtool", "-N", "nic0", "flow-type", "udp4", "src-ip", "10.97.0.2", "dst-port", "19000", "action", "0",
                env=env)
    assert ports_finding(card)["text"].startswith("1 of 4 ports of job 2 have no rule")


def test_ports_of_a_job_by_hash(card):
    job_behind_card(card)
    card.set(no_rules=True)
    says = "UDP is not spread by destination port alone"
    assert card_mends(card, "nic0", "ports", "warn", says) == "ethtool -N nic0 rx-flow-hash udp4 n"
    assert "by destination port: each slot of job 2" in ports_finding(card)["text"]
    card.set(udp_hash=RXH_IP | RXH_PORTS, no_rules=True)
    assert ports_finding(card)["level"] == "warn"
    card.set(udp_hash=2**64 - 1, no_rules=True)
    f = ports_finding(card)
    assert f["level"] == "ok" and "tells neither rules nor hash" in f["text"]
    card.set(combined=1, no_rules=True)
    assert ("nic0", "ports") not in examine(card.ns, "nic0", env={**ENV, **card.env})


class Home(labs.Netns):
    """The network namespace that the tests were started in; for looking only."""

    def __init__(self):
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.started = []


def test_jit(card):
    """sysctl writes a file of the test's, bound over the kernel's, which other network namespaces do not show."""
    proc = "/proc/sys/net/core/bpf_jit_enable"
    if not os.path.exists(proc):
        pytest.skip("this kernel has no bpf_jit_enable")
    card.jit.write_text("0\n")
    home = Home()
    mount(str(card.jit).encode(), proc, None, labs.MS_BIND)
    try:
        f = examine(card.ns, env={**ENV, **card.env})["kernel", "jit"]
        assert f["level"] == "warn" and f["fix"] == "nsenter -t 1 -n sysctl -w net.core.bpf_jit_enable=1"
        fix = fixes(home, [], "kernel", "jit", "warn", "BPF programs are interpreted", {**ENV, **card.env})
    finally:
        home.close()
        unmount(proc)
    assert fix == "sysctl -w net.core.bpf_jit_enable=1" and card.jit.read_text() == "1\n"


def test_jobs_of_another_namespace(lab):
    """Interfaces of two namespaces share a datapath, and interface numbers are each one's own: in neither is the other's
    job held against routes, addresses and interfaces that are not its."""
    net = inhabited(lab(workers=1))
    other, w = net.netns(), net.netns()
    other.ip(f"link add e9 index 77 mtu 1500 type veth peer name eth0 mtu 1500 netns {w.path}",
             "addr add 10.77.0.1/24 dev e9", "link set e9 up", "addr add 10.77.7.7/32 dev lo")
    w.ip("addr add 10.77.0.2/24 dev eth0", "link set eth0 up", "route add 10.77.7.7 via 10.77.0.1")
    for ns, dev in ((other, "e9"), (w, "eth0")):
        ns.gro_on(dev)
        ns.spawn("sleep", "600")
    net.agg.ip("link add x77 index 77 mtu 1000 type veth peer name y77 mtu 1000")
    other.run(FPISA, "load", "e9")
    other.run(FPISA, "job", "add", 2, "--workers", "10.77.0.2", "--address", "10.77.7.7", "--ports", 4)
    net.worker.append(w)
    p = net.start(1, 2, {"count": 500, "kind": "integers"}, address="10.77.7.7", timeout_ms=20000)
    assert p.wait(labs.COMMAND_S) == 0

    def there(job, alone):
        found = examine(net.agg)
        assert bad(found) == {} and {c for s, c in found if s == job} == {"namespace"}
        assert found[job, "namespace"]["text"] == "of another network namespace; fpisa doctor there looks at it"
        assert ("e9 of another; " if alone else "on 1 interfaces") in \
            found["datapath", "attached" if alone else "build"]["text"]

    there("job 2", True)
    net.fpisa("load", "p0")
    net.add_job(1, workers=net.addresses[:1])
    there("job 2", False)
    assert bad(examine(other)) == {}
    # Nothing to be seen of where the job runs: no fix that ends it.
    net.fpisa("job", "del", 1)
    other.ip("link set e9 xdp off")
    net.agg.ip("link set p0 xdp off")
    f = examine(net.agg)["datapath", "attached"]
    assert f["level"] == "ok" and "with jobs of another" in f["text"]
    assert fixes(other, [], "datapath", "attached", "warn") == "fpisa load e9"
    # Names are each namespace's own, too.
    assert net.json("job", "show", 2)["members"][0]["dev"] == "if77"
    out = net.fpisa("job", "show", 2)
    assert "\nnetwork     another network namespace's, its interfaces by number\n" in out and " if77 " in out
    out = other.run(FPISA, "job", "show", 2)
    assert "\nnetwork " not in out and " e9 " in out
