# SPDX-License-Identifier: GPL-2.0-only
"""Test authentication (doc/protocol.md, section 6). While two members sum, a host outside the job forges any source address, knows the job
and its members, and receives multicast. The host learns no secret, ends no generation, keeps no rank from joining and changes no result,
and none of its frames is added."""
import array
import json
import random
import select
import socket
import struct
import sys
import threading
import time

import pytest

import queries
from groups import Groups
from independent_client import ADD, ERROR, FP32, HELLO, NO_RANK, RESULT, WELCOME, Header, digest
from independent_query import ACK, GROUPS, ROWS
from lab import ADDRESS, COMMAND_S, INDEPENDENT_CLIENT, PIN, PORT, draw_seed, go_on, wait_until
from queries import Queries

ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86dd
MISMATCH, SECRET = 26, 32  # reasons in ERROR frames
SUM = 1
COUNT, CHUNK = 4096, 256  # elements of the attacked call, and of its chunks


def inet_sum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


class Adversary(threading.Thread):
    """A host with a raw socket on eth0. It sends given frames repeatedly, and keeps the frames that it receives. It has no part in the job at
    `address`. Frames over IPv6 are kept without the last 20 bytes of their IPv6 header, so that all frames have the same offsets."""

    def __init__(self, host, gateway_mac, address=ADDRESS):
        super().__init__(daemon=True)
        self.address, self.ipv6 = address, ":" in address
        self.type = ETH_P_IPV6 if self.ipv6 else ETH_P_IP
        with host.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(self.type))
            self.socket.bind(("eth0", 0))
        self.mac = self.socket.getsockname()[4]
        self.gateway_mac = gateway_mac
        self.heard, self.frames, self.done, self.rounds = [], [], threading.Event(), 0

    @staticmethod
    def ip(source, destination, protocol, payload):
        header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0,
                             socket.inet_aton(source), socket.inet_aton(destination))
        return header[:10] + struct.pack(">H", inet_sum(header)) + header[12:] + payload

    @staticmethod
    def ip6(source, destination, protocol, payload):
        return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + \
            b"".join(socket.inet_pton(socket.AF_INET6, a) for a in (source, destination)) + payload

    def frame(self, source, header, payload, checked=True):
        """Make a frame whose source address is `source`, which is not the address of this host."""
        datagram = header.datagram(payload, checked)
        udp = struct.pack(">HHHH", PORT, PORT, 8 + len(datagram), 0)
        ip = self.ip6 if self.ipv6 else self.ip
        return self.gateway_mac + self.mac + struct.pack(">H", self.type) + ip(source, self.address, socket.IPPROTO_UDP, udp + datagram)

    def run(self):
        self.socket.settimeout(0.01)
        while not self.done.is_set():
            for f in self.frames:
                self.socket.send(f)
            self.rounds += 1
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                try:
                    f = self.socket.recv(65536)
                except TimeoutError:
                    continue
                f = f[:34] + f[54:] if self.ipv6 else f
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
    """Make contributions of -1 to chunks that may be in progress."""
    payload = array.array("f", [-1.0] * 256).tobytes()
    for rank, victim in enumerate(victims):
        for c in chunks:
            for secret in secrets:
                yield adversary.frame(victim, Header(type=ADD, format=FP32, op=SUM, job=job, generation=generation,
                                                     slot=2 * (c % 64) + c // 64 % 2, rank=rank, count=256, chunk=c,
                                                     secret=secret), payload)


@pytest.mark.families(spread=True)
@pytest.mark.parametrize("fanout, bridge", [("unicast", False), ("multicast", False), ("multicast", True),
                                            ("unicast", True)])
def test_no_member(lab, fanout, bridge):
    """A host outside the job cannot attack a job without a token, although such a job has weaker protection."""
    net = lab(workers=3, bridge=bridge)
    rng = random.Random(draw_seed())
    net.load()
    victims = net.addresses[:2]
    net.add_job(1, "--fanout", fanout, workers=victims)
    count = 100000
    net.slow(40)
    step = {"count": count, "kind": "integers"}
    procs = [net.start(r, 1, {"go": True}, step, {"go": True}, step, timeout_ms=20000) for r in range(2)]
    generation = wait_until("a generation", lambda: net.json("job", "show", 1)["generation"])
    adversary = Adversary(net.worker[2], net.agg.mac("p0" if bridge else "p2"), net.address)
    adversary.frames = [f for v in victims for f in hellos(adversary, v, 1, rng)]
    adversary.frames += adds(adversary, victims, 1, generation, range(0, 800, 97), (0, rng.getrandbits(64)))
    adversary.start()

    def attacked():
        counters = net.counters(1, PIN)
        return min(counters[name] for name in ("v_challenge", "v_secret", "v_incarnation")) > 10

    wait_until("the attack", attacked)
    go_on(*procs)
    for p in procs:
        assert [json.loads(p.stdout.readline())["rc"] for _ in range(2)] == [0, 0]  # the connection and the first call
    if bridge and fanout == "multicast":
        # The attacker copies the generation's secret from the multicast frames. Frames with that secret are still not added.
        wait_until("results", lambda: [f for f in adversary.heard if f[45] == RESULT])
        known = {struct.unpack_from("<Q", f, 42 + 48)[0] for f in adversary.heard if f[45] == RESULT}
        adversary.frames += adds(adversary, victims, 1, generation, range(0, 800, 53), known)
    go_on(*procs)
    answers = net.check_answers(procs, 2, count)
    adversary.stop()
    assert net.counters(1, PIN)["v_mismatch"] == 0
    assert max(a["retransmits"] for a in answers) < 400
    assert net.json("job", "show", 1)["generation"] == generation
    # The attacker received no answer to a HELLO. It received the results, and the error that its secret is wrong.
    told = {(f[45], struct.unpack_from("<H", f, 42 + 46)[0]) for f in adversary.heard}
    assert told <= {(ERROR, SECRET)} | ({(RESULT, 0)} if bridge and fanout == "multicast" else set()), told
    # Both ranks can then join again.
    net.check_sum(1, 1000, ranks=[0, 1])


@pytest.mark.families()
def test_tokens_are_not_told(lab):
    """Multicast frames do not contain the token or cookies, and no two frames have the same tag."""
    net = lab(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--token", "5eadbeefcafe0001", workers=net.addresses[:2])
    adversary = Adversary(net.worker[2], net.agg.mac("p0"), net.address)
    adversary.start()
    net.check_sum(1, 30000, ranks=[0, 1], token=0x5eadbeefcafe0001)
    wait_until("results", lambda: sum(f[45] == RESULT for f in adversary.heard) > 50)
    adversary.stop()
    assert all(bytes.fromhex("5eadbeefcafe0001")[::-1] not in f for f in adversary.heard)
    results = {f[42 + 24:42 + 32]: f[42 + 48:42 + 56] for f in adversary.heard if f[45] == RESULT}
    assert len(set(results.values())) == len(results) > 50


class Ears(threading.Thread):
    """A tap on the eth0 of a worker. It captures all frames that the worker sends and receives."""

    def __init__(self, host):
        super().__init__(daemon=True)
        with host.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
            self.socket.bind(("eth0", 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        self.socket.settimeout(0.1)
        self.heard, self.done = [], threading.Event()

    def run(self):
        while not self.done.is_set():
            try:
                f = self.socket.recv(65536)
            except TimeoutError:
                continue
            # A host's own tap shows frames before the network card splits them (GSO), and after the card merges them (GRO).
            outer, data = f[:42], f[42:]
            while data[:2] == b"FP":
                n = 76 + {HELLO: 80, WELCOME: 80, ADD: 4 * CHUNK, RESULT: 4 * CHUNK}.get(data[3], 0)
                self.heard.append(outer + data[:n])
                data = data[n:]

    def stop(self):
        self.done.set()
        self.join()
        self.socket.close()


def forged(frame, **fields):
    """Return a captured frame with other fields and a payload of 666, but with its original tag."""
    h, payload = Header(frame[42:]), frame[42 + 76:]
    h.__dict__.update(fields)
    size = len(payload) // 4 if h.type in (ADD, RESULT) else 0
    return h, array.array("f", [666.0] * size).tobytes() if size else payload


def to_worker(adversary, address, mac, port, header, payload, checked):
    """Make a frame that seems to come from the aggregator."""
    datagram = header.datagram(payload, checked)
    udp = struct.pack(">HHHH", PORT, port, 8 + len(datagram), 0)
    return mac + adversary.mac + struct.pack(">H", ETH_P_IP) + adversary.ip(ADDRESS, address, socket.IPPROTO_UDP, udp + datagram)


def next_chunks(f, ahead):
    """Make frames for the first chunks of the next call from captured frames of the last chunks of a call."""
    h = Header(f[42:])
    d = digest(h.digest, SUM, FP32, 0, COUNT, 0)
    for chunk in range(COUNT // CHUNK, COUNT // CHUNK + ahead):
        yield forged(f, chunk=chunk, slot=2 * (chunk % 64) + chunk // 64 % 2, call=1, digest=d)


def forgeries(adversary, heard, victims, ahead=3):
    """Return the frames of the first call, unchanged, and frames for the next call that are made from them."""
    def to_victims(h, payload, checked):
        return [to_worker(adversary, *v, h, payload, checked) for v in victims]

    for f in heard:
        h, kind = Header(f[42:]), f[45]
        if kind == WELCOME:
            yield from to_victims(h, f[42 + 76:], True)
        if kind in (ADD, HELLO):
            yield adversary.frame(socket.inet_ntoa(f[26:30]), h, f[42 + 76:], checked=kind == HELLO)
        if h.chunk < COUNT // CHUNK - 2 or kind not in (ADD, RESULT):
            continue
        for g, payload in next_chunks(f, ahead):
            if kind == ADD:
                yield adversary.frame(socket.inet_ntoa(f[26:30]), g, payload, checked=False)
                continue
            yield from to_victims(g, payload, False)
            yield from to_victims(g, payload, True)
            yield from to_victims(Header(type=ERROR, job=h.job, generation=h.generation, chunk=g.chunk, slot=g.slot,
                                         reason=MISMATCH, secret=h.secret), b"", False)


class Attack:
    """The third host, which captures the segment, or every cable. begin() returns when all ranks have finished the first call, rank 1
    computes, and all forged frames have been sent."""

    def __init__(self, net, everything):
        self.net, self.adversary = net, Adversary(net.worker[2], net.agg.mac("p0"))
        self.ears = [Ears(net.worker[r]) for r in (range(3) if everything else [2])]
        for e in self.ears:
            e.start()

    def begin(self):
        def heard():
            return [f for e in self.ears for f in e.heard]

        wait_until("results", lambda: len({f[66:74] for f in heard() if f[45] == RESULT}) == COUNT // CHUNK)
        time.sleep(0.3)
        ports = {int.from_bytes(f[36:38], "big") for f in heard() if f[45] == RESULT}
        victims = [(self.net.addresses[r], self.net.worker[r].mac("eth0"), port) for r in range(2) for port in ports]
        self.adversary.frames = list(forgeries(self.adversary, heard(), victims))
        assert len(self.adversary.frames) > 30
        self.adversary.start()
        wait_until("the attack", lambda: self.adversary.rounds > 2)

    def end(self):
        for thread in (self.adversary, *self.ears):
            thread.stop()


@pytest.mark.families("ipv4", why="a tag does not depend on the family; test_no_member forges frames over both")
def test_forged_results_of_a_group(lab, tmp_path):
    """A host of the segment that is not in the group and has no key captures the group's results. It cannot forge the results of the next
    call."""
    net = lab(workers=3, bridge=True)
    net.load()
    g = Groups(net, str(tmp_path))
    g.serve()
    attack = Attack(net, False)
    one, attacked = {"sum": "float32", "count": COUNT}, str(tmp_path / "attacked")
    ranks = [g.start(0, "t", 0, 2, one, one, hold=True), g.start(1, "t", 1, 2, one, {"until": attacked}, one, hold=True)]
    try:
        attack.begin()
        open(attacked, "w").close()
        answers = [rank.line() for rank in ranks for _ in range(3)]
        assert all(a["rc"] == 0 for a in answers), answers
        assert all(a["first"] == a["last"] == 3.0 for a in answers if "first" in a), answers
    finally:
        attack.end()
        g.close()


@pytest.mark.families("ipv4", why="a tag does not depend on the family; test_no_member forges frames over both")
@pytest.mark.parametrize("fanout", ["unicast", "multicast"])
def test_who_hears_everything(lab, fanout):
    """If all cables are tapped but the token is not known, no forged frame is added or accepted, and none ends a generation."""
    net = lab(workers=3, bridge=True)
    net.load()
    net.add_job(1, "--fanout", fanout, "--token", "5eadbeefcafe0001", workers=net.addresses[:2])
    attack = Attack(net, True)
    step, token = {"count": COUNT, "kind": "integers"}, 0x5eadbeefcafe0001
    procs = [net.start(0, 1, step, step, token=token, timeout_ms=20000),
             net.start(1, 1, step, {"go": True}, step, token=token, timeout_ms=20000)]
    attack.begin()
    go_on(procs[1])
    net.check_answers(procs, 2, COUNT)
    attack.end()
    counters = net.counters(1, PIN)
    assert counters["v_tag"] > 10 and counters["v_mismatch"] == 0
    net.check_sum(1, 1000, ranks=[0, 1], token=token)  # every rank can join again


class Forger(threading.Thread):
    """The last host, which captures every cable while a query runs. It immediately sends each frame again with other rows and with the next
    numbers. To the aggregator it sends as if from a worker. To workers and master it sends as if from the aggregator."""

    def __init__(self, net):
        super().__init__(daemon=True)
        self.net, self.adversary = net, Adversary(net.worker[3], net.agg.mac("p0"))
        self.ears = [Ears(net.worker[r]) for r in range(3)]
        self.at = {socket.inet_aton(a): w.mac("eth0") for a, w in zip(net.addresses[:3], net.worker)}
        self.sent, self.done = 0, threading.Event()

    def forge(self, f):
        h, payload = Header(f[42:]), f[42 + 76:42 + int.from_bytes(f[38:40], "big") - 8]
        if h.type not in (ROWS, ACK, GROUPS):
            return
        row = struct.pack("<QfI", 1, 666.0, 1)
        payload = (row * (len(payload) // len(row) + 1))[:len(payload)]
        for ahead in range(4):
            h.chunk += ahead > 0
            for checked in (False, True):
                if f[26:30] in self.at:
                    frame = self.adversary.frame(socket.inet_ntoa(f[26:30]), h, payload, checked)
                else:
                    frame = to_worker(self.adversary, socket.inet_ntoa(f[30:34]), self.at[f[30:34]], PORT, h, payload, checked)
                self.adversary.socket.send(frame)
                self.sent += 1

    def run(self):
        sockets = [e.socket for e in self.ears]
        while not self.done.is_set():
            for s in select.select(sockets, [], [], 0.05)[0]:
                f = s.recv(65536)
                if f[42:44] == b"FP" and f[6:12] != self.adversary.mac:
                    self.forge(f)

    def stop(self):
        self.done.set()
        self.join()
        for s in [self.adversary.socket, *(e.socket for e in self.ears)]:
            s.close()


@pytest.mark.families("ipv4", why="a tag does not depend on the family; test_no_member forges frames over both")
def test_query_under_forgery(lab, tmp_path):
    """A host that captures all rows, groups and acknowledgements of a query with a token cannot add or hide rows, or acknowledge frames."""
    net = lab(workers=4, bridge=True)
    net.load()
    q = Queries(net, str(tmp_path), hosts=3)
    rng = random.Random(draw_seed())
    rows = [r for w in range(2) for r in q.table(w, queries.adversarial(rng, "random", 20000, 200))]
    q.serve([0, 1])
    q.add("table", 100, "--key-bytes", 8, "--token", "5eadbeefcafe0001")
    forger = Forger(net)
    forger.start()
    try:
        q.check_groups(rows, "--token", "5eadbeefcafe0001")
    finally:
        forger.stop()
        q.close()
    assert forger.sent > 100
    assert net.counters(5, PIN)["v_tag"] > 50


def too_large(adversary, victim, mtu):
    """Make an ICMP message "fragmentation needed" or "packet too big", with that MTU of the next hop, to the host of a worker. The message quotes
    the worker's frames to the aggregator."""
    host, victim_mac = victim
    kind, code, protocol, ip = (2, 0, socket.IPPROTO_ICMPV6, adversary.ip6) if adversary.ipv6 else (3, 4, socket.IPPROTO_ICMP, adversary.ip)
    body = struct.pack(">BBHI", kind, code, 0, mtu) + ip(host, adversary.address, socket.IPPROTO_UDP, struct.pack(">HHHH", PORT, PORT, 1096, 0))
    pseudo = b"".join(socket.inet_pton(socket.AF_INET6, a) for a in (adversary.address, host)) + struct.pack(">II", len(body), protocol) \
        if adversary.ipv6 else b""
    body = body[:2] + struct.pack(">H", inet_sum(pseudo + body)) + body[4:]
    return victim_mac + adversary.mac + struct.pack(">H", adversary.type) + ip(adversary.address, host, protocol, body)


@pytest.mark.families(spread=True)
def test_forged_path_mtu(lab):
    """One ICMP frame tells the host of a worker that the path to the aggregator has a small MTU. The kernel applies the MTU for 10 minutes,
    but a running worker and later workers ignore it."""
    net = lab(workers=3, bridge=True)
    net.load()
    mtu = 1280 if net.ipv6 else 552
    net.add_job(1, "--fanout", "unicast", "--token", "abc", "--elements", 320, workers=net.addresses[:2])
    step = {"count": 3000, "kind": "integers"}
    procs = [net.start(r, 1, {"go": True}, step, token=0xabc) for r in range(2)]
    wait_until("a generation", lambda: net.json("job", "show", 1)["generation"])
    adversary = Adversary(net.worker[2], net.agg.mac("p0"), net.address)
    for r in range(2):
        adversary.socket.send(too_large(adversary, (net.addresses[r], net.worker[r].mac("eth0")), mtu))
        wait_until("the path's MTU", lambda: f"mtu {mtu}" in net.worker[r].run("ip", "route", "get", net.address))
    go_on(*procs)
    net.check_answers(procs, 2, 3000)
    net.check_sum(1, 3000, ranks=[0, 1], token=0xabc)
    clients = [net.worker[r].spawn(sys.executable, "-B", INDEPENDENT_CLIENT, net.address, 1, "--token", "abc")
               for r in range(2)]
    for p in clients:
        out, err = p.communicate(timeout=COMMAND_S)
        assert p.returncode == 0, (out, err)
    adversary.socket.close()
