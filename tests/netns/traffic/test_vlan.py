# SPDX-License-Identifier: GPL-2.0-only
"""Sum with workers in VLAN 7, through VLAN devices if this kernel has them, else through programs of tc that insert and remove the tag.
Tags are in the frames, or beside them, where a card that strips tags puts them. tests/prog/test_vlan.c tests each kind of answer and each
tag that passes."""
import os
import socket
import struct
import subprocess

import pytest

from doctor import bad, examine, fixes, inhabited
from lab import FPISA, PIN, PORT, endpoint, setting, wait_until
from refusals import refused

PROGRAMS = """#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
SEC("tc/push") int push_tag(struct __sk_buff *skb) { bpf_skb_vlan_push(skb, bpf_htons(0x8100), 7); return 0; }
SEC("tc/rare") int push_rarely(struct __sk_buff *skb) { return bpf_get_prandom_u32() & 7 ? 0 : push_tag(skb); }
SEC("tc/pop") int pop_tag(struct __sk_buff *skb)
{
	if (skb->vlan_present && (skb->vlan_tci & 0xfff) == 7)
		bpf_skb_vlan_pop(skb);
	return 0;
}
char _license[] SEC("license") = "GPL";
"""


def in_frames(ns, dev="eth0"):
    """Make this end of a veth put tags into frames, as they are on a wire."""
    ns.run("ethtool", "-K", dev, "txvlan", "off")


@pytest.fixture
def tagged(lab, tmp_path):
    """Yield tagged(stripped=False, ...), which makes workers and an aggregator that send and receive with tag 7."""
    def make(stripped=False, **kwargs):
        net = inhabited(lab(**kwargs))
        (tmp_path / "tag.c").write_text(PROGRAMS)
        subprocess.run([setting("BPF_CLANG"), "-O2", "-target", "bpf", f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c", tmp_path / "tag.c",
                        "-o", tmp_path / "tag.o"], check=True)
        for ns, dev in [(net.agg, p) for p in net.ports] + [(w, "eth0") for w in net.worker]:
            ns.run("tc", "qdisc", "add", "dev", dev, "clsact")
            for way, section in ("egress", "tc/push"), ("ingress", "tc/pop"):
                ns.run("tc", "filter", "add", "dev", dev, way, "bpf", "da", "obj", tmp_path / "tag.o", "sec", section)
        for w in net.worker if not stripped else []:
            in_frames(w)
        if kwargs.get("bridge"):
            in_frames(net.spaces[-1], "uplink")
        return net
    return make


def add(net, *options, job=1):
    status, _, err = net.agg.try_run(FPISA, "job", "add", job, "--workers", ",".join(net.addresses), "--address", net.address, "--vlan", 7, *options)
    assert status == 0, err
    return err


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
@pytest.mark.parametrize("mode", ["native", "skb", "native-stripped"])
def test_sums(tagged, mode, fanout):
    net = tagged(stripped=mode == "native-stripped", workers=3)
    net.load("--mode", mode.split("-")[0])
    warned = add(net, "--fanout", fanout)
    assert ("p0: VLAN tags are removed before XDP, so the job accepts untagged frames of every VLAN there" in warned) == (mode == "native-stripped")
    net.check_sum(1, 50000)
    c = net.counters(1, PIN)
    assert c["v_result"] == 196 and c["v_vlan"] == c["v_internal"] == c["v_fanout"] == 0
    assert net.json("job", "show", 1)["vlan"] == 7 and "\nvlan        7" in net.fpisa("job", "show", 1)
    assert not [key for key in bad(examine(net.agg)) if key[0] == "job 1"]


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_loss(tagged, fanout):
    """Stored results, STATUS and ERROR have the tag too, so sums are correct if one frame in ten is lost in each direction."""
    net = tagged(workers=3)
    net.load()
    add(net, "--fanout", fanout, "--window", 16)
    answers = net.check_sum(1, 60000, loss=0.1, seed=7, timeout_ms=60000)
    assert min(a["retransmits"] for a in answers) > 0 and net.counters(1, PIN)["v_resent"] > 0


@pytest.mark.families()
def test_shared_port(tagged):
    """Copies for several ranks behind one port are addressed individually, behind their tags."""
    net = tagged(workers=3, bridge=True)
    net.load()
    add(net, "--fanout", "unicast")
    net.check_sum(1, 50000)
    assert net.counters(1, PIN)["unaddressed"] == 0


@pytest.mark.families()
def test_cpus(tagged):
    """Steering finds the slot of a frame behind its tag."""
    net = tagged()
    net.load("--cpus", "0")
    add(net)
    net.check_sum(1, 50000)
    assert net.counters(1, PIN)["v_result"] == 196


@pytest.mark.families(spread=True)
def test_other_tags_pass(tagged):
    """A job without --vlan, or with another VLAN, does not accept tagged frames. Frames with two tags pass. Each case has a counter."""
    net = tagged()
    net.load()
    net.add_job(1)
    net.start(0, 1, timeout_ms=300).wait()
    assert net.counters(1, PIN)["v_vlan"] > 0 and net.counters(1, PIN)["packets"] == 0
    frame = net.agg.mac("p0") + net.worker[0].mac("eth0") + struct.pack("!HHHH", 0x88a8, 5, 0x8100, 7) + bytes(60)
    with net.worker[0].entered(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind(("eth0", 0))
        s.send(frame)
    wait_until("a frame with two tags", lambda: net.counters(64, PIN)["v_qinq"] > 0)
    assert "two VLAN tags" in net.fpisa("stats")


def sends(net, rank, tmp_path, section):
    """Let the frames of this rank pass another program of tc, or none if `section` is None."""
    w = net.worker[rank]
    w.run("tc", "filter", "del", "dev", "eth0", "egress")
    if section:
        w.run("tc", "filter", "add", "dev", "eth0", "egress", "bpf", "da", "obj", tmp_path / "tag.o", "sec", section)


@pytest.mark.families(spread=True)
def test_rank_that_loses_its_tag(tagged, tmp_path):
    """Doctor finds frames without the job's tag also if the ranks have joined, while such frames come and not later."""
    net = tagged()
    net.load()
    add(net)
    sends(net, 1, tmp_path, "tc/rare")
    procs = [net.start(r, 1, {"count": 10**6, "kind": "integers"}, timeout_ms=120000) for r in range(2)]
    wait_until("both ranks to join", lambda: net.json("job", "show", 1)["joined"] == [0, 1])
    f = examine(net.agg)["job 1", "vlan"]
    assert f["level"] == "warn" and "came within 2 s with another VLAN tag than the job, which has VLAN 7 (counter vlan)" in f["text"], f
    sends(net, 1, tmp_path, None)

    def silent():
        found = bad(examine(net.agg))
        return {("job 1", "vlan"), ("job 1", "members")} <= found.keys() and found["job 1", "members"]
    f = wait_until("rank 1 to be silent", silent)
    assert "waits for ranks 1; rank 1 silent for " in f["text"] and f["text"].endswith(" s; see the warning above") and not f["fix"], f
    sends(net, 1, tmp_path, "tc/push")
    net.check_answers(procs, 2, 10**6)
    assert net.counters(1, PIN)["v_vlan"] > 0
    assert not [key for key in bad(examine(net.agg)) if key[0] == "job 1"]


@pytest.mark.families()
def test_stripped_in_the_stack(tagged):
    """The kernel would put the tag that it removed back into replies, so such a job is refused."""
    net = tagged(stripped=True)
    net.load("--mode", "skb")
    refused(net, ["job", "add", 1, "--workers", ",".join(net.addresses), "--address", net.address, "--vlan", 7],
            "job 1: p0: VLAN tags are removed before the datapath, which runs in the stack there; .*ethtool -K eth0 txvlan off$")
    for w in net.worker:
        in_frames(w)
    add(net)
    net.check_sum(1)


@pytest.fixture
def bridged(lab):
    """Two workers in VLAN 7, each behind its own port of br0. The aggregator's address is on br0.7."""
    net = inhabited(lab(workers=2))
    net.agg.ip("link add br0 type bridge forward_delay 0", "link set br0 up")
    for p in net.ports:
        net.agg.ip(f"addr flush dev {p}", f"link set {p} master br0")
    status, _, err = net.agg.try_run("ip", "link", "add", "link", "br0", "name", "br0.7", "type", "vlan", "id", "7")
    if status:
        pytest.skip(f"this kernel has no VLAN devices: {err.strip()}")
    net.agg.ip("link set br0.7 up", f"addr add {net.network(1, 1)} dev br0.7")
    net.addresses = [net.host(1, r + 2) for r in range(2)]
    for r, w in enumerate(net.worker):
        w.ip("link add link eth0 name tagged type vlan id 7", "addr flush dev eth0", f"addr add {net.network(1, r + 2)} dev tagged",
             "link set tagged up")
        in_frames(w)
    net.address = net.host(1, 1)
    return net


def makes(net, dev, *options):
    """Create job 1 with each worker's port, or with the routes' interface if `dev` is false. Return the warnings."""
    workers = ",".join(a + f"@{p}" * dev for a, p in zip(net.addresses, net.ports))
    status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", workers, "--address", net.address, *options)
    assert status == 0, err
    return err


@pytest.mark.families(spread=True)
def test_ports_below_a_vlan_device_on_a_bridge(bridged):
    """The VLAN of workers at named ports follows from the route, unless the bridge filters VLANs. Doctor finds another VLAN's drops."""
    net = bridged
    net.load()
    assert makes(net, True) == "" and net.json("job", "show", 1)["vlan"] == 7
    net.check_sum(1, 50000)
    net.fpisa("job", "del", 1)
    makes(net, True, "--vlan", 8)
    assert not [key for key in bad(examine(net.agg)) if key == ("job 1", "vlan")]
    net.start(0, 1, timeout_ms=300).wait()
    assert "--vlan" not in fixes(net.agg, [], "job 1", "vlan", says="had another VLAN tag than the job, which has VLAN 8 (counter vlan), so ranks cannot join")
    net.check_sum(1, 50000)
    net.fpisa("job", "del", 1)
    net.agg.ip("link set br0 type bridge vlan_filtering 1")
    makes(net, True)
    assert not net.json("job", "show", 1).get("vlan")


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("access", [False, True])
def test_ports_of_a_bridge_that_filters_vlans(bridged, access):
    """job add and doctor name the port of each worker. The job has the VLAN of the route if the port leaves the tag in frames."""
    net = bridged
    net.load()
    net.agg.ip("link set br0 type bridge vlan_filtering 1 fdb_flush")
    net.agg.run("bridge", "vlan", "add", "dev", "br0", "vid", "7", "self")
    for r, (p, w) in enumerate(zip(net.ports, net.worker)):
        net.agg.run("bridge", "vlan", "add", "dev", p, "vid", "7", *["pvid", "untagged"] * access)
        if access:
            w.ip("link del tagged", f"addr add {net.network(1, r + 2)} dev eth0")
        with w.entered(), socket.socket(socket.AF_INET6 if net.ipv6 else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"", (net.address, 9))
    wait_until("the workers to be neighbours", lambda: set(net.addresses) <= set(net.agg.run("ip", "neigh", "show", "dev", "br0.7", "nud", "all").split()))
    named = ",".join(f"{endpoint(a, PORT)}@{p}" for a, p in zip(net.addresses, net.ports))
    assert f"give each worker its own port: {named}\n" in makes(net, False)
    assert named in fixes(net.agg, [], "job 1", "port", says="ranks 0,1 are behind br0")
    assert (net.json("job", "show", 1).get("vlan") or 0) == (0 if access else 7)
    net.check_sum(1, 50000)


@pytest.mark.families(spread=True)
def test_vlan_device_on_a_bridge(bridged):
    """A bridge removes tags before its own datapath, so job add and doctor name the VLAN device."""
    net = bridged
    refused(net, ["load", "br0.7"], "br0.7 is a VLAN device, which has no native XDP; run fpisa load br0.7 --mode skb$")
    assert "fpisa load br0.7 --mode skb" in net.fpisa("load", "br0", "--mode", "skb") + makes(net, False)
    refused(net, ["job", "add", 2, "--workers", ",".join(a + "@br0" for a in net.addresses), "--address", net.address, "--vlan", 7],
            "job 2: br0: a bridge removes VLAN tags before its own datapath; run ip link set dev br0 xdpgeneric off && fpisa load br0.7 --mode skb, or load the bridge's ports")
    assert "for jobs in the VLAN of br0.7, run fpisa load --mode skb on that device" in examine(net.agg)["br0", "vlan"]["text"]
    before = net.json("job", "list")
    assert fixes(net.agg, [], "job 1", "port") == "ip link set dev br0 xdpgeneric off && fpisa load br0.7 --mode skb"
    assert net.json("job", "list") == before
    net.check_sum(1, 50000)


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("stripped", [False, True])
def test_vlan_devices(lab, stripped, given):
    """`fpisa load p0.7` attaches to p0 and says so. The VLAN of the job follows from the routes."""
    net = inhabited(lab(workers=2, bridge=True))
    if not stripped:
        in_frames(net.spaces[-1], "uplink")
    status, _, err = net.agg.try_run("ip", "link", "add", "link", "p0", "name", "p0.7", "type", "vlan", "id", "7")
    if status:
        pytest.skip(f"this kernel has no VLAN devices: {err.strip()}")
    net.agg.ip(f"addr del {net.network(1, 1)} dev p0", f"addr add {net.network(1, 1)} dev p0.7", "link set p0.7 up")
    for r, w in enumerate(net.worker):
        w.ip("link add link eth0 name tagged type vlan id 7", f"addr del {net.network(1, r + 2)} dev eth0", f"addr add {net.network(1, r + 2)} dev tagged",
             "link set tagged up", f"route replace {net.address} via {net.host(1, 1)}")
        if not stripped:
            in_frames(w)
    out = net.agg.run(FPISA, "load", "p0.7")
    assert out == "p0.7: loaded on p0, below it, which takes the frames of its VLAN\n"
    net.fpisa("job", "add", 1, "--workers", ",".join(a + "@p0.7" * given for a in net.addresses), "--address", net.address)
    assert net.json("job", "show", 1)["vlan"] == 7 and net.json("job", "show", 1)["members"][0]["dev"] == "p0"
    net.check_sum(1, 50000)
    assert not [key for key in bad(examine(net.agg)) if key[0] == "job 1"]
    other = "2001:db8:99::9" if net.ipv6 else "10.99.0.9"
    refused(net, ["job", "add", 2, "--workers", f"{net.addresses[0]},{other}@p0", "--address", net.address],
            f"job 2: worker {other} is reached through p0, which has no VLAN, but other workers are in VLAN 7")
    refused(net, ["job", "add", 2, "--workers", net.addresses[0], "--address", net.address, "--vlan", 8],
            r"job 2: worker \S+ is reached through p0.7, in VLAN 7, but the job's frames have VLAN 8")
    refused(net, ["unload", "p0.7"], "p0.7: the datapath is not there, but may be on p0, below it; run fpisa unload p0")
    net.fpisa("unload")
