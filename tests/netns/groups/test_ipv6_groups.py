# SPDX-License-Identifier: GPL-2.0-only
"""Test what differs between groups over IPv6 and over IPv4. The tests of the other files run over IPv6 too."""
import os
import re
import socket
import sys

import pytest

import job_requests
from doctor import examine
from groups import sees
from lab import ADDRESS, ADDRESS6, FPISA, HERE, PORT, TOP

EACCES = 13
SUM = {"sum": "float32"}

pytestmark = pytest.mark.families("ipv6")


def right(ranks, *hosts):
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["first"] == answer["last"] == len(ranks) * (len(ranks) + 1) / 2, answer


def test_addresses_of_jobs(groups):
    """Ranks give the address in three forms. The job has the addresses of the connections, and the manager chooses a multicast address."""
    g = groups(3)
    address = g.net.address
    ranks = [g.start(r, "train", r, 3, SUM, hold=True, address=a) for r, a in enumerate((address, f"[{address}]", f"[{address}]:{PORT}"))]
    for rank in ranks:
        assert rank.line()["rc"] == 0
    right(ranks)
    job, = g.jobs()
    shown = g.net.json("job", "show", job["job"])
    assert shown["address"] == address and shown["group"] == f"ff15::ff46:5{job['job']:03x}"
    assert g.net.json("group", "show", "train")[0]["members"] == g.net.addresses
    text = g.net.fpisa("group", "show", "train")
    assert f"\naddress     {address}\n" in text and all(f"{r}  {a}" in text for r, a in enumerate(g.net.addresses))


def test_both_families_at_one_manager(groups):
    """A group of IPv4 ranks and a group of IPv6 ranks exist at the same time. One listening socket serves both."""
    g = groups(2)
    g.net.agg.ip(f"addr add {ADDRESS}/32 dev lo")
    for r, w in enumerate(g.net.worker):
        g.net.agg.ip(f"addr add 10.99.{r + 1}.1/24 dev p{r}")
        w.ip(f"addr add 10.99.{r + 1}.2/24 dev eth0", f"route add {ADDRESS} via 10.99.{r + 1}.1")
    six = g.group("six", range(2), SUM, hold=True)
    four = g.group("four", range(2), SUM, hold=True, address=ADDRESS)
    right(six)
    right(four)
    assert {job["address"] for job in (g.net.json("job", "show", j["job"]) for j in g.jobs())} == {ADDRESS, g.net.address}
    # The ranks ask for multicast, which they get where it is possible.
    mixed = [g.start(r, "mixed", r, 2, SUM, hold=True, fanout=1, address=a) for r, a in enumerate((None, ADDRESS))]
    assert [rank.line()["rc"] for rank in mixed] == [0, 0]
    right(mixed)
    job, = [j for j in (g.net.json("job", "show", j["job"]) for j in g.jobs()) if "," in j["address"]]
    assert (job["address"], job["fanout"]) == (f"{g.net.address},{ADDRESS}", "unicast")
    assert [fault for fault in examine(g.net.agg).values() if fault["level"] == "fault"] == []


def test_long_address_in_an_error(groups):
    """An error names the whole address of the manager and its port, however long they are."""
    host = "[2001:db8:1234:5678:9abc:def0:1234:5678]:18001"
    answer = groups(1).start(0, "train", 0, 1, address=host).line()
    assert answer["error"].startswith(f"{host}: group train: cannot connect: "), answer


@pytest.mark.parametrize("first", [None, "10.99.9.9", "10.99.0.9"], ids=["alone", "no-route", "silent"])
def test_name_with_an_address_that_works(groups, tmp_path, first):
    """Ranks join by a name that has an IPv6 address alone, or beside an IPv4 address without a route or a host, which they try first."""
    g = groups(2)
    if first == "10.99.0.9":
        for w in g.net.worker:
            w.ip("addr add 10.99.0.2/24 dev eth0")
    hosts = "".join(f"{a} aggregator\n" for a in (first, g.net.address) if a)
    g.member = sees(tmp_path, hosts=hosts, nsswitch_conf="hosts: files\n", gai_conf="precedence ::ffff:0:0/96 100\n")
    ranks = [g.start(r, "train", r, 2, SUM, hold=True, address=a) for r, a in enumerate(("aggregator", f"aggregator:{PORT}"))]
    for rank in ranks:
        assert rank.line()["rc"] == 0
    right(ranks)


def test_networks(groups):
    """`networks` in [manager] accepts IPv6 networks with a prefix of any length. The network ::/0 does not contain IPv4 addresses."""
    g = groups(2, "networks = 2001:db8:99:1::/64")
    g.start(0, "train", 0, 1, SUM).line()
    answer = g.start(1, "train", 0, 1, SUM).line()
    assert answer["rc"] == -EACCES and answer["error"].endswith(
        f"{g.net.addresses[1]} is not in a network that may ask for groups; add the network to networks in [manager]"), answer
    assert g.manager.stdout.readline().startswith(f"refused {g.net.addresses[1]}, without a key (network): ")
    for network, four, six in (("::/0", False, True), ("0.0.0.0/0", True, False), ("2001:db8:98::/47", False, True), ("2001:db8:98::/48", False, False)):
        with open(g.config) as f:
            text = f.read()
        with open(g.config, "w") as f:
            f.write("".join(f"networks = {network}\n" if line.startswith("networks") else line for line in text.splitlines(True)))
        assert "configuration read again" in g.read_again()
        assert (g.start(0, network[:1] + "n", 0, 1).line()["rc"] == 0) == six, network
        if network.endswith("/0"):
            with g.net.agg.entered(), socket.create_connection(("127.0.0.1", PORT)) as s:
                s.settimeout(1 if four else 30)
                try:
                    refused = s.recv(256)
                except TimeoutError:
                    refused = b""
                assert bool(refused) != four, network


def test_doctor(groups):
    """doctor finds the listener for both families, and for one address. On a worker it asks the manager at an IPv6 address."""
    g = groups(1)
    env = {**g.env, "FPISA_MANAGER": f"[{g.net.address}]:{PORT}", "FPISA_KEY": g.key}
    said = g.net.worker[0].try_run(FPISA, "doctor", "--worker", g.net.address, env=env)[1]
    assert f"ok     groups: manager: [{g.net.address}]:{PORT} answers in" in said and f"the route to {g.net.address} goes through eth0" in said, said
    assert "rp_filter" not in said
    g.kill()
    with open(g.config, "a") as f:
        f.write(f"listen = {g.net.address}\n")
    assert g.serve().startswith(f"serving groups at [{g.net.address}]:{PORT};")
    said = g.net.agg.try_run(FPISA, "doctor", "--config", g.config)[1]
    assert f"the manager listens at TCP [{g.net.address}]:{PORT}" in said, said


def test_connections_of_one_network(groups):
    """All addresses of an IPv6 /64 count as one host. Silent connections from 4,140 of them displace only each other, not an older
    connection from another network."""
    g = groups(2)
    half = "2001:db8:99:1:8000::"
    g.net.worker[0].sysctl("ip_nonlocal_bind", 1, family="ipv6")
    g.net.worker[0].ip("link set lo up", f"-6 route add local {half}/65 dev lo")
    g.net.agg.ip(f"-6 route add {half}/65 via {g.net.addresses[0]}")
    with g.net.worker[1].entered():
        patient = socket.create_connection((g.net.address, PORT))
    with g.net.worker[0].entered():
        silent = job_requests.crowd(lambda i: socket.create_connection((g.net.address, PORT), source_address=(f"{half}{i + 1:x}", 0)))
    with patient:
        patient.setblocking(False)
        with pytest.raises(BlockingIOError):
            patient.recv(1)
        assert b"too many connections" in silent[0].recv(256)
    for s in silent:
        s.close()


@pytest.mark.parametrize("config", [(), (f"listen = {ADDRESS6}",)], ids=["everywhere", "there"])
def test_unit_has_the_address_families_it_needs(groups, config):
    """The manager also listens on IPv6, and reaches ranks there, in the address families that its unit permits."""
    with open(os.path.join(TOP, "user", "system", "fpisa-manager.service.in")) as f:
        families, = re.findall("^RestrictAddressFamilies=(.*)$", f.read(), re.M)
    g = groups(2, *config, serve=False)
    g.serve(sys.executable, os.path.join(HERE, "socket_filter.py"), families)
    right(g.group("train", range(2), SUM, hold=True))
