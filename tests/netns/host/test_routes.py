# SPDX-License-Identifier: GPL-2.0-only
"""The datapath's route to a rank follows the routes and neighbours of the kernel, whatever else the host does."""
import re
import shutil

import pytest

from doctor import examine, fixes
from lab import ADDRESS, FPISA, PIN, read_all, wait_until


def neighbours(net):
    """Return {address: its line in `ip neigh`} at the aggregator."""
    return {line.split()[0]: line for line in net.agg.run("ip", "neigh").splitlines()}


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make test installs it")
def test_firewall_that_drops(lab):
    """The firewall drops frames that are passed to the stack. Neighbours are still found, because the kernel keeps them resolved."""
    net = lab(workers=2)
    net.load()
    net.add_job(2)
    net.check_sum(2)  # the workers now know the aggregator's address, and send no more ARP requests
    net.agg.run("nft", "add table inet f; add chain inet f in { type filter hook input priority 0; policy drop; }; "
                       "add rule inet f in ct state established accept")
    net.agg.run("ip", "neigh", "flush", "all")
    net.add_job(1)
    net.check_sum(1, 1000, timeout_ms=20000)


def test_neighbours_are_managed_while_jobs_need_them(lab):
    net = lab(workers=3)
    net.load()
    a, b, c = net.addresses
    net.agg.run("ip", "neigh", "replace", c, "lladdr", net.worker[2].mac("eth0").hex(":"),
                "dev", "p2", "nud", "permanent")
    net.add_job(1, workers=[a, b])
    net.add_job(2, workers=[b, c])
    managed = lambda: {n for n, line in neighbours(net).items() if "managed" in line}  # noqa: E731
    assert managed() == {a, b}
    assert "PERMANENT" in neighbours(net)[c]
    net.check_sum(2, 1000, ranks=[1, 2])
    net.agg.run(FPISA, "job", "del", 1)
    assert managed() == {b}
    net.agg.run(FPISA, "unload")
    assert managed() == set() and "PERMANENT" in neighbours(net)[c]


def test_forwarding_switched_off(lab):
    """A change of net.ipv4.ip_forward to 0 also switches off forwarding for lo. A counter shows this, and the command of doctor repairs
    it."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    net.agg.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    net.agg.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
    net.start(0, 1, timeout_ms=300).wait()
    assert net.counters(1, PIN)["v_forwarding"] > 0
    fixes(net.agg, (), "job 1", "routes")
    net.check_sum(1, 1000)


def test_read_only_sysctl(lab):
    """A read-only sysctl, as in a container, is not an error if forwarding is already on for lo."""
    net = lab(workers=1)
    net.load()
    read_only = ["unshare", "--mount", "sh", "-ec", "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; "
                 "exec \"$@\"", "sh", FPISA, "job", "add", "--workers", net.addresses[0], "--address", ADDRESS]
    net.agg.run("sysctl", "-qw", "net.ipv4.conf.lo.forwarding=0")
    status, _, err = net.agg.try_run(*read_only, 1)
    assert status == 1 and "lo/forwarding: Read-only file system; mount /proc/sys writable, or name the workers' interfaces" in err
    net.agg.run("sysctl", "-qw", "net.ipv4.conf.lo.forwarding=1")
    net.agg.run(*read_only, 1)
    net.check_sum(1, 1000)


def managed(ns):
    return {line.split()[0] for line in ns.run("ip", "neigh").splitlines() + ns.run("ip", "-6", "neigh").splitlines()
            if "managed" in line}


def behind_routers(net, n):
    """Put the last worker behind each of the first `n` workers, which act as routers. Reverse-path filters are off."""
    routers, host = net.worker[:n], net.worker[-1]
    host.ip("link set eth0 down")
    host.sysctl("conf/all/rp_filter", 0)
    for i, r in enumerate(routers):
        r.ip(f"link add c{i} type veth peer name u{i} netns {host.path}", f"addr add 10.60.{i}.1/24 dev c{i}", f"link set c{i} up")
        r.gro_on(f"c{i}")
        r.sysctl("ip_forward", 1)
        for dev in "all", "eth0", f"c{i}":
            r.sysctl(f"conf/{dev}/rp_filter", 0)
        host.ip(f"addr add 10.60.{i}.2/24 dev u{i}", f"link set u{i} up")
        host.gro_on(f"u{i}")
        host.sysctl(f"conf/u{i}/rp_filter", 0)
        r.ip(f"route add 10.50.0.0/16 via 10.60.{i}.2")
    return routers, host


def sums(net, rank, worker):
    """Return whether that worker, at one address, joins and sums alone."""
    net.worker[rank].ip(f"route replace {ADDRESS} via 10.60.0.1 src {worker}")
    return not read_all(net.start(rank, 1, {"count": 1000, "kind": "integers"}, timeout_ms=2000))[0][-1]["rc"]


@pytest.mark.parametrize("policy", [0, 1])
def test_two_nexthops(lab, policy):
    """job add takes the interface that the datapath finds for the addresses of the job and of the worker."""
    net = lab(workers=3)
    _, host = behind_routers(net, 2)
    workers = [f"10.50.0.{7 + i}" for i in range(8)]
    for w in workers:
        host.ip(f"addr add {w}/32 dev lo")
    net.load()
    net.agg.sysctl("fib_multipath_hash_policy", policy)
    net.agg.ip(f"route add 10.50.0.0/24 nexthop via {net.addresses[0]} dev p0 nexthop via {net.addresses[1]} dev p1")
    cannot = []
    for w in workers:
        net.add_job(1, "--fanout", "unicast", workers=[w])
        assert examine(net.agg)["job 1", "routes"]["level"] == "ok"
        if not sums(net, 2, w):
            cannot.append(w)
        net.agg.run(FPISA, "job", "del", 1)
    assert not cannot


def test_route_by_source_address(lab):
    """The kernel manages the neighbour that routes frames from the job's address."""
    net = lab(workers=3, bridge=True)
    behind_routers(net, 1)
    r1, r2 = net.addresses[:2]
    net.worker[2].ip("addr add 10.50.0.7/32 dev lo")
    net.load()
    net.agg.ip(f"route add 10.50.0.0/24 via {r1}", f"route add 10.50.0.0/24 via {r2} table 100",
               f"rule add from {ADDRESS} lookup 100")
    net.add_job(1, workers=["10.50.0.7"])
    assert managed(net.agg) == {r2}
    # If the route changes while the job runs, the managed neighbour of the job is still removed with the job.
    net.agg.ip(f"route replace 10.50.0.0/24 via {r1} table 100")
    net.agg.run(FPISA, "job", "del", 1)
    assert managed(net.agg) == set()


def test_router_by_its_ipv6_address(lab):
    net = lab(workers=2)
    behind_routers(net, 1)
    net.worker[1].ip("addr add 10.50.0.7/32 dev lo")
    net.load()
    router = wait_until("address", lambda: re.search(r"inet6 (fe80\S+)/64 scope link *$", net.worker[0].run(
        "ip", "-6", "addr", "show", "dev", "eth0"), re.M))[1]
    net.agg.ip(f"route add 10.50.0.0/24 via inet6 {router} dev p0")
    net.add_job(1, workers=["10.50.0.7"])
    assert managed(net.agg) == {router}
    assert sums(net, 1, "10.50.0.7")
    net.agg.run(FPISA, "job", "del", 1)
    assert managed(net.agg) == set()


def test_a_job_that_is_refused_manages_nothing(lab):
    net = lab(workers=2)
    net.load()
    net.add_job(1, "--window", 512, workers=net.addresses[:1])
    status, _, err = net.agg.try_run(FPISA, "job", "add", 2, "--workers", net.addresses[1], "--address", ADDRESS, "--window", 1024)
    assert status == 1 and "slot entries" in err
    assert managed(net.agg) == {net.addresses[0]}


def test_neighbours_of_others(lab):
    """Entries of a routing daemon, and managed entries of another program, stay."""
    net = lab(workers=2)
    a, b = net.addresses
    net.load()
    net.agg.ip(f"neigh replace {a} lladdr {net.worker[0].mac('eth0').hex(':')} dev p0 nud reachable extern_learn",
               f"neigh replace {b} dev p1 managed")
    for _ in range(2):
        net.add_job(1)
        assert managed(net.agg) == {b} and "extern_learn" in neighbours(net)[a]
        net.check_sum(1, 1000)
        net.agg.run(FPISA, "job", "del", 1)
    assert managed(net.agg) == {b} and "extern_learn" in neighbours(net)[a]


def test_neighbours_in_two_namespaces(lab):
    """The last unload removes the managed neighbours of another namespace. `job del` does the same for a job of that namespace."""
    net = lab(workers=1)
    other = net.netns()
    other.ip("link add e0 type veth peer name e1", "addr add 10.66.0.1/24 dev e0", "link set e0 up", "link set e1 up")
    net.load()
    other.run(FPISA, "load", "e0")
    keepers = [ns.spawn("sleep", "600") for ns in (net.agg, other)]
    add = ["job", "add", "--workers", "10.66.0.2", "--address", "10.66.0.1"]
    other.run(FPISA, *add, 2)
    other.run(FPISA, *add, 3)
    net.add_job(1)
    net.agg.run(FPISA, "job", "del", 2)
    assert managed(other) == {"10.66.0.2"}
    net.agg.run(FPISA, "job", "del", 3)
    assert managed(net.agg) == set(net.addresses) and managed(other) == set()
    other.run(FPISA, *add, 2)
    net.agg.run(FPISA, "unload")
    other.run(FPISA, "unload")
    assert managed(net.agg) == managed(other) == set()
    assert len(keepers) == 2


def test_neighbour_that_the_kernel_does_not_take(lab):
    """If the kernel does not accept a neighbour, for example because the table is full, the job is created, and a warning states the
    consequence."""
    net = lab(workers=2)
    net.load()
    net.agg.ip("route add 10.50.0.0/24 via inet6 fe80::1 dev p0", "link set p0 mtu 1200")  # this MTU is too small for IPv6, so the kernel refuses the neighbour
    status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", f"10.50.0.7,10.50.0.8,{net.addresses[1]}", "--address", ADDRESS)
    assert status == 0 and re.fullmatch("fpisa: warning: job 1: the kernel refused the neighbour entries of 2 ranks: .*\n", err), err
    assert managed(net.agg) == {net.addresses[1]}


def test_parent_that_the_kernel_does_not_take(lab):
    """For a leaf's parent the consequence differs, because no HELLO makes the kernel ask for the parent's address."""
    net = lab(workers=2)
    net.load()
    net.agg.ip("route add 10.50.0.0/24 via inet6 fe80::1 dev p0", "link set p0 mtu 1200")
    status, _, err = net.agg.try_run(FPISA, "job", "add", 1, "--workers", net.addresses[1], "--address", ADDRESS, "--mode", "exact",
                                     "--parent", "10.50.0.7/0")
    assert status == 0 and re.fullmatch("fpisa: warning: job 1: the kernel refused the neighbour entry of the next hop to the parent: .*; "
                                        "if the counter unresolved_parent rises, ping the parent from this machine\n", err), err


def test_route_that_changed(lab):
    """After a route change, doctor names the ranks whose interface differs from the job's interface, and its command recreates
    the job."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    net.agg.ip(f"route add {net.addresses[1]}/32 via {net.addresses[0]} dev p0")
    fixes(net.agg, (), "job 1", "routes", says="routes to ranks 1 lead to other interfaces")


def test_neighbours_without_the_capability(lab):
    """`job del` needs no capability. Without one the managed neighbours stay, with a warning."""
    net = lab(workers=1)
    net.load()
    net.add_job(1)
    status, _, err = net.agg.try_run("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", FPISA, "job", "del", 1)
    assert status == 0 and "fpisa: warning: job 1: cannot release managed neighbours, see ip neigh: " in err and "CAP_NET_ADMIN" in err, err
    assert managed(net.agg) == set(net.addresses)
