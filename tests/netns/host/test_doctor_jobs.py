# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa doctor of jobs: their MTU, ports, routes and address, missing ranks, and jobs of another namespace."""
import json
import socket
import time

import pytest

from doctor import bad, examine, fixes, inhabited, needs_ethtool, sums
from lab import ADDRESS, COMMAND_S, FPISA, MTU, PIN, read_answers, wait_until

pytestmark = needs_ethtool


def test_job_and_mtu(lab):
    """An MTU that is smaller than the frames of a job is found."""
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    net.agg.ip("link set p0 mtu 1000", "link set p1 mtu 1000")
    says = "frames of 1128 bytes do not fit the MTU: p0 has 1000, p1 has 1000"
    assert fixes(net.agg, [], "job 1", "mtu", says=says) == "ip link set dev p0 mtu 1128 && ip link set dev p1 mtu 1128"
    net.check_sum(1)
    # A removed rank does not count.
    net.agg.ip("link set p0 mtu 1000", "link set p1 mtu 1000")
    net.fpisa("job", "shrink", 1, 1)
    assert fixes(net.agg, [], "job 1", "mtu") == "ip link set dev p0 mtu 1128"


@pytest.mark.parametrize("mtu, elements, says", [
    (1500, 256, "frames have 256 values; the MTU of 1500 allows 320: with --elements 320 a vector takes 20% fewer frames"),
    (1512, 352, "frames have 352 values, the most that the MTU of 1512 allows")])
def test_values_that_the_mtu_holds(lab, mtu, elements, says):
    net = inhabited(lab(mtu=mtu))
    net.load()
    net.add_job(1, "--elements", elements)
    f = examine(net.agg)["job 1", "mtu"]
    assert (f["level"], f["text"]) == ("ok", says)


def test_job_and_mtu_of_a_shared_port(lab):
    """A port that several ranks share is named once."""
    net = lab(bridge=True)
    net.load()
    net.add_job(1)
    net.agg.ip("link set p0 mtu 1000")
    says = "frames of 1128 bytes do not fit the MTU: p0 has 1000"
    assert fixes(net.agg, [], "job 1", "mtu", says=says) == "ip link set dev p0 mtu 1128"


def test_port_without_datapath(lab):
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    net.fpisa("unload", "p1")
    assert not sums(net, 1)
    fixes(net.agg, [], "job 1", "port", says="rank 1 is behind p1")
    assert sums(net, 1, 20000)


def test_port_of_a_bridge(lab):
    """Doctor finds a datapath on a port of a bridge if the routes lead to the bridge, and a datapath on the bridge if they lead to the
    port. It also finds the same datapath on both."""
    net = inhabited(lab(bridge=True))
    net.agg.ip("link add br9 type bridge", "addr del 10.99.1.1/24 dev p0", "link set p0 master br9", "link set br9 up",
               "addr add 10.99.1.1/24 dev br9")

    def add(*workers):
        status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", ",".join(workers), "--address", ADDRESS)
        assert status == 0
        return err

    net.fpisa("load", "p0")
    assert add(*net.addresses) == "fpisa: warning: br9: this datapath is on p0, below it, so job 1 does not receive frames there; " \
        "give that interface for each worker behind it, ADDR@p0\n"
    fix = fixes(net.agg, [], "job 1", "port", says="ranks 0,1 are behind br9: this datapath is on p0, below it")
    assert f"{net.addresses[0]}:18000@p0,{net.addresses[1]}:18000@p0 " in fix
    assert sums(net, 1, 20000)
    net.agg.run("bpftool", "net", "attach", "xdpgeneric", "pinned", PIN + "/fpisa", "dev", "br9")
    assert fixes(net.agg, [], "p0", "stack", says="a datapath is on this interface and on br9 above: with both, workers cannot join") == "fpisa unload br9"
    assert sums(net, 1, 20000)
    net.fpisa("unload")
    net.fpisa("load", "br9", "--mode", "skb")
    assert "this datapath is on br9, above it, so job 1 does not receive frames there; leave @p0 out" in add(*(a + "@p0" for a in net.addresses))
    assert "@" not in fixes(net.agg, [], "job 1", "port", says="ranks 0,1 are behind p0: this datapath is on br9, above it")
    assert sums(net, 1, 20000)
    net.fpisa("job", "del", 1)
    net.fpisa("unload", "br9")
    net.agg.ip("link add ve0 type veth peer name ve1", "link set ve0 up", "link set ve1 up")
    net.fpisa("load", "ve0")
    assert "this datapath is not loaded on it, so job 1 does not receive frames there; run fpisa load br9 --mode skb" in add(*net.addresses)
    assert fixes(net.agg, [], "job 1", "port", says="ranks 0,1 are behind br9: this datapath is not loaded on it") == "fpisa load br9 --mode skb"
    assert sums(net, 1, 20000)


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("filters", [False, True])
def test_ports_of_a_bridge(lab, filters):
    """If several ports of a bridge have the datapath, job add and doctor name the port of each worker, or say that it is not known."""
    net = inhabited(lab(workers=3))
    net.agg.ip("link add br9 type bridge forward_delay 0", "link set br9 up")
    if filters and net.agg.try_run("ip", "link", "set", "br9", "type", "bridge", "vlan_filtering", "1")[0]:
        pytest.skip("bridges of this kernel do not filter VLANs")
    for p in net.ports:
        net.agg.ip(f"addr flush dev {p}", f"link set {p} master br9")
    net.agg.ip(f"addr add {net.network(1, 1)} dev br9")
    net.addresses, net.address = [net.host(1, r + 2) for r in range(3)], net.host(1, 1)
    for r, w in enumerate(net.worker):
        w.ip("addr flush dev eth0", f"addr add {net.network(1, r + 2)} dev eth0")
    net.load()

    def add(*workers):
        status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", ",".join(workers), "--address", net.address)
        assert status == 0, err
        return err

    def named(*ports):
        return ",".join(f"[{a}]:18000@{p}" if net.ipv6 else f"{a}:18000@{p}" for a, p in zip(net.addresses, ports))

    silent = add(*net.addresses)
    assert f"give each worker its own port: {named('PORT', 'PORT', 'PORT')}; PORT is the port towards that worker\n" in silent
    net.fpisa("job", "del", 1)
    for w in net.worker:
        with w.entered(), socket.socket(socket.AF_INET6 if net.ipv6 else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"", (net.address, 9))
    wait_until("the workers to be neighbours", lambda: len(set(net.agg.run("ip", "neigh", "show", "dev", "br9", "nud", "all").split()) & set(net.addresses)) == 3)
    assert f"so job 1 does not receive frames there; give each worker its own port: {named(*net.ports)}\n" in add(*net.addresses)
    assert named(*net.ports) in fixes(net.agg, [], "job 1", "port", says="ranks 0-2 are behind br9")
    assert sums(net, 1, 20000)
    net.fpisa("job", "del", 1)
    assert add(*(a + "@p0" for a in net.addresses)) == ""
    assert not sums(net, 1)
    assert "ranks 1,2, which cannot join; see the fault above" in examine(net.agg)["job 1", "members"]["text"]
    assert named(*net.ports) in fixes(net.agg, [], "job 1", "arrival", says="frames of ranks 1,2 arrive at other ports than the job's (counter route)")
    assert sums(net, 1, 20000)


@pytest.mark.families()
def test_bridge_that_floods(lab):
    """Doctor finds a bridge that sends multicast results to ports without ranks. After its command, the bridge does not."""
    net = inhabited(lab(bridge=True))
    net.agg.ip("link add br9 type bridge mcast_snooping 0 forward_delay 0", f"addr del {net.network(1, 1)} dev p0", "link set p0 master br9",
               "link set br9 up", f"addr add {net.network(1, 1)} dev br9")
    for i in range(2):
        net.agg.ip(f"link add x{i} type veth peer name y{i}", f"link set x{i} master br9 up", f"link set y{i} up")
    net.fpisa("load", "br9", "--mode", "skb")
    net.add_job(1)

    def sent():
        """Sum. Return the number of packets that have left through a port without ranks."""
        def packets():
            return json.loads(net.agg.run("ip", "-j", "-s", "link", "show", "x0"))[0]["stats64"]["tx"]["packets"]

        before = packets()
        net.check_sum(1, 50000)
        return packets() - before

    chunks = -(-50000 // 256)
    assert sent() >= chunks
    net.agg.ip("link set x1 nomaster")
    assert ("job 1", "flooding") not in examine(net.agg)
    net.agg.ip("link set x1 master br9", "link set br9 type bridge mcast_query_response_interval 20")
    protocol = "MLD" if net.ipv6 else "IGMP"
    fixes(net.agg, [], "job 1", "flooding", "warn", f"br9 sends results to all of its 3 ports, because it does not snoop or has no {protocol} querier, "
          "but at most 2 of them lead to ranks")
    time.sleep(1)  # the bridge sends multicast to all ports until the hosts have had time to answer its first query
    assert sent() < chunks / 2
    net.fpisa("job", "del", 1)
    net.agg.ip("link set br9 type bridge mcast_snooping 0")
    net.add_job(1, "--fanout", "unicast")
    assert ("job 1", "flooding") not in examine(net.agg)


@pytest.mark.parametrize("fanout", ["multicast", "unicast"])
def test_port_that_was_replaced(lab, fanout):
    """If the interface of rank 1 is removed and added again, it has another index, no program, and no entry. Doctor finds this state."""
    net = inhabited(lab())
    net.load()
    net.add_job(1, "--fanout", fanout, "--mode", "fpisa64", "--token", "5a", "--window", "16", "--ports", "2",
                "--no-statistics")
    net.add_job(2, "--fanout", fanout, "--big-endian", "--reciprocal", "--histogram",
                "--debug-faults", "drop=0.1,corrupt=0.3,seed=7")
    before = [net.json("job", "show", job) for job in (1, 2)]
    assert sums(net, 1, 20000, token=0x5a)
    net.agg.ip("link del p1")
    net.connect(1, net.worker[1], net.agg, MTU, False)
    assert not sums(net, 1, token=0x5a)
    net.fpisa("load", "p1")
    fixes(net.agg, [], "job 1", "egress", says="cannot reach ranks 1: their interface is gone")
    fixes(net.agg, [], "job 2", "egress")
    for job, then in zip((1, 2), before):
        now = net.json("job", "show", job)
        same = then.keys() - {"generation", "members", "joined", "slot_base"}
        assert {k: now[k] for k in same} == {k: then[k] for k in same}
    assert sums(net, 1, 20000, token=0x5a)


def test_all_ports_gone(lab):
    """If no interface of a job is left, the command unloads the datapath, and the finding says that the job ends."""
    net = inhabited(lab())
    net.load()
    net.add_job(1)
    net.agg.ip(*(f"link del {p}" for p in net.ports))
    assert fixes(net.agg, [], "datapath", "attached", "warn", "; unloading it ends its jobs, whose interfaces are gone") == "fpisa unload"


def test_lost_egress_program(lab):
    """An entry of a unicast fan-out is found if it lacks the program that addresses copies."""
    net = inhabited(lab())
    net.load()
    net.add_job(1, "--fanout", "unicast")
    entry, = (e for e in net.bpftool("map", "dump", "pinned", PIN + "/fpisa_fanout") if int(e["key"][0], 16) == 1)
    inner = int.from_bytes(bytes(int(b, 16) for b in entry["value"]), "little")
    index = int(net.agg.run("ip", "-o", "link", "show", "p1").split(":")[0])
    value = [str(b) for b in index.to_bytes(4, "little") + b"\xff\xff\xff\xff"]
    net.agg.run("bpftool", "map", "update", "id", inner, "key", "1", "0", "0", "0", "value", *value)
    fixes(net.agg, [], "job 1", "egress", says="cannot reach ranks 1: no entry")
    assert sums(net, 1, 20000)


def test_address_that_is_nobody_s(lab):
    net = lab(workers=1)
    net.load()
    net.fpisa("job", "add", 1, "--workers", net.addresses[0] + "@p0", "--address", "10.99.1.77", "--foreign-address")
    net.worker[0].ip("route add 10.99.1.77 dev eth0")
    assert not net.start(0, 1, timeout_ms=1500, address="10.99.1.77").wait(COMMAND_S) == 0
    fix = fixes(net.agg, [], "job 1", "address", "warn", says="10.99.1.77 is not an address of this machine")
    assert fix == "ip address add 10.99.1.77/32 dev lo"
    assert net.start(0, 1, {"count": 500, "kind": "integers"}, timeout_ms=20000,
                     address="10.99.1.77").wait(COMMAND_S) == 0


def test_missing_rank(lab):
    net = inhabited(lab(workers=3))
    net.load()
    net.add_job(1)
    # In an emulated guest, one run of doctor takes seconds.
    workers = [net.start(r, 1, {"count": 3000, "kind": "integers"}, timeout_ms=50000) for r in (0, 1)]

    def seen():
        f = examine(net.agg)["job 1", "members"]
        return f["level"] == "warn" and "ranks 2:" in f["text"]
    wait_until("two ranks to ask", seen, 40)
    assert fixes(net.agg, [], "job 1", "members", "warn", says="the job waits for ranks 2") == "fpisa job shrink 1 2"
    for p in workers:
        read_answers(p)


def test_jobs_of_another_namespace(lab):
    """Interfaces of two namespaces may share a datapath, and interface numbers belong to a namespace. Doctor in one namespace does not
    compare a job of the other with its own routes, addresses and interfaces."""
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
    assert p.wait(COMMAND_S) == 0

    def there(job, alone):
        found = examine(net.agg)
        assert bad(found) == {} and {c for s, c in found if s == job} == {"namespace"}
        assert found[job, "namespace"]["text"] == "the job belongs to another network namespace; there, run fpisa doctor"
        assert ("e9 of another; " if alone else "on 1 interfaces") in \
            found["datapath", "attached" if alone else "build"]["text"]

    there("job 2", True)
    net.fpisa("load", "p0")
    net.add_job(1, workers=net.addresses[:1])
    there("job 2", False)
    assert bad(examine(other)) == {}
    # If doctor cannot see the namespace of the job, it prints no fix that ends the job.
    net.fpisa("job", "del", 1)
    other.ip("link set e9 xdp off")
    net.agg.ip("link set p0 xdp off")
    f = examine(net.agg)["datapath", "attached"]
    assert f["level"] == "ok" and "but has jobs of another" in f["text"]
    assert fixes(other, [], "datapath", "attached", "warn") == "fpisa load e9"
    # Names of interfaces belong to a namespace too.
    assert net.json("job", "show", 2)["members"][0]["dev"] == "if77"
    out = net.fpisa("job", "show", 2)
    assert "\nnetwork     another network namespace's, its interfaces by number\n" in out and " if77 " in out
    out = other.run(FPISA, "job", "show", 2)
    assert "\nnetwork " not in out and " e9 " in out
