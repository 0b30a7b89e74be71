# SPDX-License-Identifier: GPL-2.0-only
"""Networks with several aggregators of one job. Each aggregator is a host whose eth0 is on the same bridge."""
import contextlib
import os

import lab
from lab import Lab


class Switched(Lab):
    """Hosts behind a switch. A subclass sets self.worker and self.agg with host()."""

    def __init__(self):
        self.spaces = []
        self.switch = self.netns()
        self.switch.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0", "link set br0 up")

    def host(self, address, port):
        host = self.netns()
        host.sysctl("conf/all/accept_dad", 0, family="ipv6")  # an IPv6 address can be used at once
        host.sysctl("conf/default/accept_dad", 0, family="ipv6")
        self.switch.ip(f"link add {port} type veth peer name eth0 netns {host.path}", f"link set {port} master br0 up")
        host.ip(f"addr add {address}/{64 if ':' in address else 24} dev eth0", "link set eth0 up")
        host.gro_on("eth0")
        self.switch.gro_on(port)
        return host

    def slow_down(self):
        for w in self.worker:
            w.run("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "32kb", "latency", "1s")

    def sent_again(self, count, **options):
        """Sum at 20 Mbit/s. Return the number of frames that the ranks sent again, as a share of their frames."""
        self.slow_down()
        try:
            answers = self.check_answers(self.begin(count, **options), len(self.worker), count)
        finally:
            self.at_full_rate()
        return sum(a["retransmits"] for a in answers) / (len(self.worker) * count / 256)

    def at_full_rate(self):
        for w in self.worker:
            w.run("tc", "qdisc", "del", "dev", "eth0", "root")


@contextlib.contextmanager
def pins(folder):
    """Mount a BPF filesystem for a test, for datapaths that may not share one."""
    os.mkdir(folder)
    lab.mount(b"bpf", folder, b"bpf")
    yield
    lab.unmount(folder)
    os.rmdir(folder)


@contextlib.contextmanager
def loaded(folder, make, count):
    """Yield the network that `make` returns, with the pins of its datapaths in `folder`. At the end unload its `count` datapaths."""
    with pins(folder):
        net = make()
        yield net
        for i in range(count):
            net.fpisa_at(i, "unload")
        net.close()


def check_shares(chunks, weights, count, elements=256):
    """Check that each aggregator has served its share of the chunks of a call with `count` values and `elements` values per chunk."""
    assert sum(chunks) == -(-count // elements)
    for chunk, weight in zip(chunks, weights):
        assert abs(chunk - sum(chunks) * weight / sum(weights)) < 2, (chunks, weights)
