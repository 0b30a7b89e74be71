# SPDX-License-Identifier: GPL-2.0-only
"""Who may speak (doc/protocol.md, section 6): a host that is no member, writes any source address, knows job and
members and hears multicast, while two members sum. It reads no secret, ends no generation, locks nobody out, moves
no result and has nothing added."""
import array
import random
import socket
import struct
import sys
import threading
import time

import pytest

from independent_client import ADD, ERROR, FP32, HELLO, NO_RANK, RESULT, Header
from lab import ADDRESS, COMMAND_S, INDEPENDENT_CLIENT, PIN, PORT, draw_seed, wait_until

ETH_P_IP = 0x0800
SECRET = 32  # the reason
SUM = 1


def inet_sum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


class Adversary(threading.Thread):
    """On a host's eth0, with a raw socket: sends what it is given again and again, and keeps what it hears."""

    def __init__(self, host, gateway_mac):
        super().__init__(daemon=True)
        with host.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
            self.socket.bind(("eth0", 0))
        self.mac = self.socket.getsockname()[4]
        self.gateway_mac = gateway_mac
        self.heard, self.frames, self.done = [], [], threading.Event()

    @staticmethod
    def ip(source, destination, protocol, payload):
        header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0,
                             socket.inet_aton(source), socket.inet_aton(destination))
        return header[:10] + struct.pack(">H", inet_sum(header)) + header[12:] + payload

    def frame(self, source, header, payload):
        """One whose source address is `source`, which is not ours."""
        datagram = header.datagram(payload)
        udp = struct.pack(">HHHH", PORT, PORT, 8 + len(datagram), 0)
        return (self.gateway_mac + self.mac + struct.pack(">H", ETH_P_IP) +
                self.ip(source, ADDRESS, socket.IPPROTO_UDP, udp + datagram))

    def run(self):
        self.socket.settimeout(0.01)
        while not self.done.is_set():
            for f in self.frames:
                self.socket.send(f)
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                try:
                    f = self.socket.recv(65536)
                except TimeoutError:
                    continue
                if f[:6] != self.gateway_mac and f[42:44] == b"FP":
                    self.heard.append(f)

    def stop(self):
        self.done.set()
        self.join()
        self.socket.close()


def hellos(adversary, victim, job, rng):
    now = time.time_ns()
    for incarnation in (1, now, now + 10**15, 2**63 - 1, 2**63, 2**64 - 1):
        for cookie in (0, rng.getrandbits(64)):
            yield adversary.frame(victim, Header(type=HELLO, job=job, rank=NO_RANK, chunk=rng.getrandbits(64),
                                                 secret=cookie, aux=incarnation), bytes(80))


def adds(adversary, victims, job, generation, chunks, secrets):
    """Contributions of -1 to what may be under way."""
    payload = array.array("f", [-1.0] * 256).tobytes()
    for rank, victim in enumerate(victims):
        for c in chunks:
            for secret in secrets:
                yield adversary.frame(victim, Header(type=ADD, format=FP32, op=SUM, job=job, generation=generation,
                                                     slot=2 * (c % 64) + c // 64 % 2, rank=rank, count=256, chunk=c,
                                                     secret=secret), payload)


@pytest.mark.parametrize("fanout, bridge", [("unicast", False), ("multicast", False), ("multicast", True),
                                            ("unicast", True)])
def test_no_member(lab, fanout, bridge):
    """Without a token, which is the weaker case."""
    net = lab(workers=3, bridge=bridge)
    rng = random.Random(draw_seed())
    net.load()
    victims = net.addresses[:2]
    net.add_job(1, "--fanout", fanout, workers=victims)
    count = 100000
    net.slow(40)
    step = {"count": count, "kind": "integers"}
    procs = [net.start(r, 1, {"sleep": 0.5}, step, step, timeout_ms=20000) for r in range(2)]  # the attack is there before
    generation = wait_until("a generation", lambda: net.json("job", "show", 1)["generation"])
    adversary = Adversary(net.worker[2], net.agg.mac("p0" if bridge else "p2"))
    adversary.frames = [f for v in victims for f in hellos(adversary, v, 1, rng)]
    adversary.frames += adds(adversary, victims, 1, generation, range(0, 800, 97), (0, rng.getrandbits(64)))
    adversary.start()
    if bridge and fanout == "multicast":
        # What it hears tells it the generation's secret. With that nothing is added.
        wait_until("results", lambda: [f for f in adversary.heard if f[45] == RESULT])
        known = {struct.unpack_from("<Q", f, 42 + 48)[0] for f in adversary.heard if f[45] == RESULT}
        adversary.frames += adds(adversary, victims, 1, generation, range(0, 800, 53), known)
    answers = net.check_answers(procs, 2, count)
    adversary.stop()
    counters = net.counters(1, PIN)
    assert counters["v_challenge"] > 10 and counters["v_secret"] > 10 and counters["v_incarnation"] > 10
    assert counters["v_mismatch"] == 0
    assert max(a["retransmits"] for a in answers) < 400
    assert net.json("job", "show", 1)["generation"] == generation
    # No HELLO's answer came to who wrote it. It hears what the group hears, and that its secret is wrong.
    told = {(f[45], struct.unpack_from("<H", f, 42 + 46)[0]) for f in adversary.heard}
    assert told <= {(ERROR, SECRET)} | ({(RESULT, 0)} if bridge and fanout == "multicast" else set()), told
    # Nobody is locked out: both come back.
    net.check_sum(1, 1000, ranks=[0, 1])


def test_tokens_are_not_told(lab):
    """Neither token nor cookie is in what a group hears."""
    net = lab(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--token", "5eadbeefcafe0001", workers=net.addresses[:2])
    adversary = Adversary(net.worker[2], net.agg.mac("p0"))
    adversary.start()
    net.check_sum(1, 30000, ranks=[0, 1], token=0x5eadbeefcafe0001)
    wait_until("results", lambda: adversary.heard)
    adversary.stop()
    assert all(bytes.fromhex("5eadbeefcafe0001")[::-1] not in f for f in adversary.heard)
    assert len({f[42 + 48:42 + 56] for f in adversary.heard}) == 1


def too_large(adversary, victim):
    """ICMP "fragmentation needed, next hop's MTU 552" to a worker's host, about its frames to the aggregator."""
    host, victim_mac = victim
    quoted = adversary.ip(host, ADDRESS, socket.IPPROTO_UDP, struct.pack(">HHHH", PORT, PORT, 1096, 0))
    body = struct.pack(">BBHHH", 3, 4, 0, 0, 552) + quoted
    body = body[:2] + struct.pack(">H", inet_sum(body)) + body[4:]
    return victim_mac + adversary.mac + struct.pack(">H", ETH_P_IP) + adversary.ip(ADDRESS, host, socket.IPPROTO_ICMP, body)


def test_forged_path_mtu(lab):
    """One ICMP frame tells a worker's host that the way to the aggregator is narrow. The kernel believes it for 10
    minutes; no worker there does, neither one that is running nor the next."""
    net = lab(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--fanout", "unicast", "--token", "abc", workers=net.addresses[:2])
    step = {"count": 3000, "kind": "integers"}
    procs = [net.start(r, 1, {"sleep": 2}, step, token=0xabc) for r in range(2)]
    wait_until("a generation", lambda: net.json("job", "show", 1)["generation"])
    adversary = Adversary(net.worker[2], net.agg.mac("p0"))
    for r in range(2):
        adversary.socket.send(too_large(adversary, (net.addresses[r], net.worker[r].mac("eth0"))))
        wait_until("the path's MTU", lambda: "mtu 552" in net.worker[r].run("ip", "route", "get", ADDRESS))
    net.check_answers(procs, 2, 3000)
    net.check_sum(1, 3000, ranks=[0, 1], token=0xabc)
    clients = [net.worker[r].spawn(sys.executable, "-B", INDEPENDENT_CLIENT, ADDRESS, 1, "--token", "abc")
               for r in range(2)]
    for p in clients:
        out, err = p.communicate(timeout=COMMAND_S)
        assert p.returncode == 0, (out, err)
    adversary.socket.close()
