# SPDX-License-Identifier: GPL-2.0-only
"""How the datapath finds the way to a rank: by the kernel's routes and neighbours, whatever else the host does."""
import shutil

import pytest

from lab import ADDRESS, FPISA, PIN
from test_doctor import mends


def neighbours(net):
    """{address: what `ip neigh` says of it} at the aggregator."""
    return {line.split()[0]: line for line in net.agg.run("ip", "neigh").splitlines()}


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed; make deps")
def test_firewall_that_drops(lab):
    """What is passed to the stack ends there: neighbours are found all the same, by whoever asks for none himself."""
    net = lab(workers=2)
    net.load()
    net.add_job(2)
    net.check_sum(2)  # now the workers know the aggregator, and ask no more
    net.agg.run("nft", "add table inet f; add chain inet f in { type filter hook input priority 0; policy drop; }; "
                       "add rule inet f in ct state established accept")
    net.agg.run("ip", "neigh", "flush", "all")
    net.add_job(1)
    net.check_sum(1, 1000, timeout_ms=3000)


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
    """net.ipv4.ip_forward takes it from lo too: the counter, the doctor and its command say so."""
    net = lab(workers=2)
    net.load()
    net.add_job(1)
    net.agg.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    net.agg.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
    net.start(0, 1, timeout_ms=300).wait()
    assert net.counters(1, PIN)["v_forwarding"] > 0
    mends(net.agg, (), "job 1", "routes")
    net.check_sum(1, 1000)


def test_read_only_sysctl(lab):
    """Forwarding of lo is on already, and nobody may write it, as in a container."""
    net = lab(workers=1)
    net.load()
    read_only = ["unshare", "--mount", "sh", "-ec", "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; "
                 "exec \"$@\"", "sh", FPISA, "job", "add", "--workers", net.addresses[0], "--address", ADDRESS]
    net.agg.run("sysctl", "-qw", "net.ipv4.conf.lo.forwarding=0")
    status, _, err = net.agg.try_run(*read_only, 1)
    assert status == 1 and "lo/forwarding: Read-only file system; mount /proc/sys writable, or name" in err
    net.agg.run("sysctl", "-qw", "net.ipv4.conf.lo.forwarding=1")
    net.agg.run(*read_only, 1)
    net.check_sum(1, 1000)
