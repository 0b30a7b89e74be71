# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa doctor of a device, alone or with its peer: link, MTU, GRO, XDP mode, queues, offloads, VLAN tags. The test causes each fault,
checks that it is found, and that the printed command removes it. test_doctor_card.py tests a card with more queues."""
import os
import re
import subprocess

import pytest

from doctor import bad, ethtool_gro, examine, fixes, inhabited, needs_ethtool, sums
from lab import ADDRESS, FPISA, PIN, PORT, setting, wait_until

pytestmark = needs_ethtool


@pytest.mark.parametrize("loaded", [False, True])
def test_gro_of_the_peer(lab, loaded):
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    ethtool_gro(net.worker[1], "eth0", "off")
    assert not sums(net, 1)
    if not loaded:
        net.fpisa("unload")
    fix = fixes(net.agg, ["p0", "p1"], "p1", "gro", "fault" if loaded else "warn", says="the peer eth0: in native mode")
    assert fix.startswith("nsenter ")
    if not loaded:
        net.load()
        net.add_job(1)
    assert sums(net, 1, 20000)


@pytest.mark.alone  # the fpisa of another test briefly enters every namespace, which makes the namespace visible
def test_gro_warned_of(lab):
    """load and job add warn about a peer that loses results, and print the command. In mode skb they do not warn, because results arrive.
    If the namespace of the peer cannot be seen, the warning says in which namespace the kernel reports it."""
    net = lab()
    # One peer is visible through a process. The other is not visible.
    keeper = net.worker[1].spawn("sleep", "600")
    for w in net.worker:
        ethtool_gro(w, "eth0", "off")
    argv = ["job", "add", 1, "--workers", ",".join(net.addresses), "--address", ADDRESS]
    seen = rf"fpisa: warning: p1: GRO is off on its peer eth0, so results sent to it vanish; " \
           rf"run nsenter -t {keeper.pid} -n ethtool -K eth0 gro on"
    for command in (["load", *net.ports], argv):
        status, out, err = net.agg.try_run(FPISA, *command)
        lines = err.splitlines()
        assert status == 0 and seen in lines, err
        unseen = [x for x in lines if x != seen]
        assert len(unseen) <= 1 and all(re.match("fpisa: warning: p0: GRO is off on its peer, interface \\d+ of a network "
                                                 "namespace that cannot be seen from here, ", x) for x in unseen), err
    net.agg.run("sh", "-ec", seen.split("; run ")[1])
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
    """A bridge sends through the stack, so GRO may be off at the peer of its port, and workers still sum. Doctor then finds no fault, or
    says what it cannot read."""
    net = lab(bridge=True)
    net.load()
    net.add_job(1)
    for w in net.worker:
        ethtool_gro(w, "eth0", "off")
    assert sums(net, 1, 20000)
    f = examine(net.worker[0], "--worker", ADDRESS)["eth0", "gro"]
    assert f["level"] == "warn" and "unless that is a bridge port" in f["text"]
    net.spaces[-1].spawn("sleep", "600")
    found = examine(net.worker[0], "--worker", ADDRESS)
    assert bad(found) == {} and "GRO is off, but the peer p0 is a bridge port" in found["eth0", "gro"]["text"]


def test_gro_at_a_bridge_port_with_a_datapath(lab):
    """A native datapath on the bridge's port redirects results past the bridge, so the worker and the aggregator both find GRO off."""
    net = inhabited(lab())
    net.agg.ip("link add br9 type bridge", f"addr del {net.network(1, 1)} dev p0", "link set p0 master br9", "link set br9 up",
               f"addr add {net.network(1, 1)} dev br9")
    net.load()
    net.agg.spawn("sleep", "600")
    ethtool_gro(net.worker[0], "eth0", "off")
    found = examine(net.worker[0], "--worker", ADDRESS)["eth0", "gro"]
    assert (found["level"], found["fix"]) == ("fault", "ethtool -K eth0 gro on")
    assert examine(net.agg, "p0")["p0", "gro"]["level"] == "fault"
    net.fpisa("unload")
    net.load("--mode", "skb")
    assert examine(net.worker[0], "--worker", ADDRESS)["eth0", "gro"]["level"] == "ok"


def test_results_at_a_bridge(lab):
    """Results are merged at the port through which they enter the bridge."""
    net = inhabited(lab(bridge=True))
    net.spaces[-1].spawn("sleep", "600")
    fix = fixes(net.agg, ["p0"], "p0", "udp-gro", "warn", says="the peer uplink is a bridge port")
    assert fix.endswith(" ethtool -K uplink rx-udp-gro-forwarding on")
    assert examine(net.agg, "p0")["p0", "udp-gro"]["text"] == "the peer uplink, a bridge port, merges results"
    text = examine(net.worker[0], "--worker", ADDRESS)["eth0", "udp-gro"]["text"]
    assert "unless rx-udp-gro-forwarding is on at the bridge port towards the aggregator" in text
    net.worker[0].run("sh", "-ec", text.rsplit(": ", 1)[1])
    assert examine(net.worker[0], "--worker", ADDRESS)["eth0", "udp-gro"]["text"] == "results are merged"


def test_gro_of_a_peer_in_a_named_namespace(lab):
    net = lab(workers=1)
    net.agg.run("ip", "netns", "add", "doctor0")
    try:
        net.agg.ip("link add q0 type veth peer name q1 netns doctor0", "link set q0 up",
                   "netns exec doctor0 ip link set q1 up")
        assert fixes(net.agg, ["q0"], "q0", "gro", "warn") == "nsenter --net=/run/netns/doctor0 ethtool -K q1 gro on"
    finally:
        net.agg.run("ip", "netns", "del", "doctor0")


@pytest.mark.alone  # for the same reason as above
def test_gro_of_a_peer_that_cannot_be_seen(lab):
    net = lab(workers=1)
    ethtool_gro(net.worker[0], "eth0", "off")
    f = examine(net.agg, "p0").get(("p0", "gro"))
    assert f["level"] == "warn" and f["fix"] is None or "cannot be seen" in f["text"]


def test_links_that_are_down(lab):
    net = inhabited(lab())
    net.agg.ip("link set p0 down")
    assert "p0" not in {subject for subject, _ in examine(net.agg)}
    net.fpisa("load", "p1")
    net.agg.ip("link set p1 down")
    assert examine(net.agg)["p1", "link"]["text"] == "the interface is down"
    net.agg.ip("link set p1 up")
    net.fpisa("unload")
    fixes(net.agg, ["p0", "p1"], "p0", "link", says="the interface is down", text=True)
    net.worker[1].ip("link set eth0 down")
    fixes(net.agg, ["p0", "p1"], "p1", "link", says="the peer eth0 is down")
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


def test_generic_although_native(lab):
    """The job survives the fix, even if the peer has GRO off."""
    net = inhabited(lab())
    ethtool_gro(net.worker[1], "eth0", "off")
    net.load("--mode", "skb")
    net.add_job(1)
    net.check_sum(1)
    f = examine(net.agg)["p0", "xdp"]
    if f["level"] == "ok":
        pytest.skip("this kernel does not tell what a driver can do without a trial")
    fixes(net.agg, [], "p0", "xdp", "warn", says="veth has native XDP")
    assert "ethtool -K eth0 gro on && ip link " in fixes(net.agg, [], "p1", "xdp", "warn")
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
    """LRO and VLAN offloads are found if the kernel has a device that supports them."""
    net = lab(workers=1)
    made = 0
    if not net.agg.try_run("ip", "link", "add", "bond9", "type", "bond")[0]:
        net.agg.run("ethtool", "-K", "bond9", "lro", "on")
        fixes(net.agg, ["bond9"], "bond9", "lro")
        made += 1
    if not net.agg.try_run("ip", "link", "add", "link", "p0", "name", "p0.5", "type", "vlan", "id", "5")[0]:
        fixes(net.agg, ["p0"], "p0", "vlan", "warn", says="frames of p0.5")
        made += 1
    if not made:
        pytest.skip("this kernel has neither bonding nor VLAN interfaces")


TAG = """#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("classifier") int tag(struct __sk_buff *skb) { bpf_skb_vlan_push(skb, 0x0081, 5); return 0; }
char _license[] SEC("license") = "GPL";
"""


def test_tags_taken_off(lab, tmp_path):
    """XDP does not see tags until the offload that doctor names is off."""
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    (tmp_path / "tag.c").write_text(TAG)
    subprocess.run([setting("BPF_CLANG"), "-O2", "-target", "bpf", f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c", tmp_path / "tag.c",
                    "-o", tmp_path / "tag.o"], check=True)
    w = net.worker[0]
    w.run("tc", "qdisc", "add", "dev", "eth0", "clsact")
    with w.socket() as s:
        s.sendto(b"FP" + bytes(20), (ADDRESS, PORT))  # ARP has resolved the address
        wait_until("an untagged frame", lambda: net.counters(64, PIN)["v_truncated"] == 1)
        w.run("tc", "filter", "add", "dev", "eth0", "egress", "bpf", "da", "obj", tmp_path / "tag.o", "sec", "classifier")
        s.sendto(b"FP" + bytes(20), (ADDRESS, PORT))
        wait_until("a tagged frame that counts as ours", lambda: net.counters(64, PIN)["v_truncated"] == 2)
        text = examine(net.agg, "p0")["p0", "vlan"]["text"]
        assert "takes all frames as untagged" in text
        net.agg.run("sh", "-ec", re.search(r"if tagged frames arrive, (.*ethtool -K eth0 txvlan off)$", text).group(1))
        before = net.counters(64, PIN)["v_not_ours"]
        s.sendto(b"FP" + bytes(20), (ADDRESS, PORT))
        wait_until("one that passes", lambda: net.counters(64, PIN)["v_not_ours"] > before)
    assert net.counters(64, PIN)["v_truncated"] == 2
    assert "keep their VLAN tags" in examine(net.agg, "p0")["p0", "vlan"]["text"]
    w.run("tc", "filter", "del", "dev", "eth0", "egress")
    net.check_sum(1)
