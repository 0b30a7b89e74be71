# SPDX-License-Identifier: GPL-2.0-only
"""Test fpisa doctor with hardware that this kernel may lack: a card with queues, offloads and rules, and a kernel without its JIT
(machine.c)."""
import os
import struct

import pytest

from doctor import ENV, examine, fixes, needs_ethtool
from lab import FPISA, MS_BIND, Netns, mount, unmount
from preload import library

pytestmark = needs_ethtool

MACHINE = os.path.join(os.path.dirname(__file__), "machine.c")

FLAG_LRO = 1 << 15		    # ETH_FLAG_LRO
RXH_IP, RXH_PORTS = 3 << 4, 3 << 6  # hash of source and destination


class Card:
    """The interface nic0, which machine.c simulates"""

    def __init__(self, net, tmp_path):
        self.state, self.jit = tmp_path / "state", tmp_path / "jit"
        self.env = {"LD_PRELOAD": library(MACHINE, tmp_path), "MACHINE_NIC": "nic0", "MACHINE_STATE": str(self.state),
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
    assert card_mends(card, "nic0", "lro", "fault", "LRO merges received frames") == "ethtool -K nic0 lro off"
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
    says = "8 receive queues, but all UDP arrives at one of them"
    assert card_mends(card, "nic0", "queues", "warn", says) == "ethtool -N nic0 rx-flow-hash udp4 sd"
    assert card.get()[2] == RXH_IP
    for fields, by in ((RXH_IP, "addresses"), (RXH_IP | RXH_PORTS, "addresses and ports")):
        card.set(udp_hash=fields)
        f = examine(card.ns, "nic0", env={**ENV, **card.env})["nic0", "queues"]
        assert f["level"] == "ok" and f["text"] == f"8 of 8 receive queues, UDP spread by {by}"


def ports_finding(card):
    return examine(card.ns, "nic0", env={**ENV, **card.env})["nic0", "ports"]


def job_behind_card(card, *options):
    """Create a job with four ports whose worker is behind nic0."""
    card.ns.ip("addr add 10.97.0.1/24 dev nic0")
    card.ns.run(FPISA, "load", "nic0", "--mode", "skb", *options)
    card.ns.run(FPISA, "job", "add", 1, "--workers", "10.97.0.2", "--address", "10.97.0.1")
    assert ("nic0", "ports") not in examine(card.ns, "nic0", env={**ENV, **card.env})
    card.ns.run(FPISA, "job", "add", 2, "--workers", "10.97.0.2", "--address", "10.97.0.1", "--ports", 4)


def test_ports_of_a_job_by_rules(card):
    """Doctor checks the rule of each port. It finds a lost rule, and rules that all choose one queue."""
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
    # If a rule also matches the source, a rank's frames go to other queues.
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
    assert f["level"] == "ok" and "reports neither rules nor hash" in f["text"]
    card.set(combined=1, no_rules=True)
    assert ("nic0", "ports") not in examine(card.ns, "nic0", env={**ENV, **card.env})


class Home(Netns):
    """The network namespace in which the tests were started, only for reading"""

    def __init__(self):
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.started = []


def test_jit(card):
    """A disabled JIT is found. The test bind-mounts its own file over the kernel's, because bpf_jit_enable does not exist in other network
    namespaces."""
    proc = "/proc/sys/net/core/bpf_jit_enable"
    if not os.path.exists(proc):
        pytest.skip("this kernel has no bpf_jit_enable")
    card.jit.write_text("0\n")
    home = Home()
    mount(str(card.jit).encode(), proc, None, MS_BIND)
    try:
        f = examine(card.ns, env={**ENV, **card.env})["kernel", "jit"]
        assert f["level"] == "warn" and f["fix"] == "nsenter -t 1 -n sysctl -w net.core.bpf_jit_enable=1"
        fix = fixes(home, [], "kernel", "jit", "warn", "BPF programs are interpreted", {**ENV, **card.env})
    finally:
        home.close()
        unmount(proc)
    assert fix == "sysctl -w net.core.bpf_jit_enable=1" and card.jit.read_text() == "1\n"
