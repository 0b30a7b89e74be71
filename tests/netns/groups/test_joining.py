# SPDX-License-Identifier: GPL-2.0-only
"""Test joining a group by a host's name, in TLS 1.3 with a shared key. Each job has a fresh secret, and the manager enforces its limits."""
import contextlib
import select
import socket
import struct
import threading
import time

import pytest

from groups import sees
from lab import FPISA, PORT, SLOW, endpoint, listener, once_within, wait_until

pytestmark = pytest.mark.families(spread=True)

EAGAIN, EACCES, EINVAL, ENOSPC, ENETUNREACH, ETIMEDOUT, ECONNREFUSED = 11, 13, 22, 28, 101, 110, 111
CLIENT_HELLO, SERVER_HELLO = 1, 2
PRE_SHARED_KEY, SUPPORTED_VERSIONS, PSK_MODES, KEY_SHARE = 41, 43, 45, 51
PSK_DHE, X25519, SECP256R1 = 1, 29, 23


def right(ranks):
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer.get("wrong", 0) == 0, answer


def test_by_name(groups, tmp_path):
    """A host's name works with a port and without. An unknown name, a failed lookup and an invalid name are errors."""
    g = groups(2)
    g.member = sees(tmp_path, hosts=f"127.0.0.1 localhost\n{g.net.address} aggregator.example aggregator\n", nsswitch_conf="hosts: files\n")
    ranks = [g.start(0, "names", 0, 2, {"sum": "float32"}, {"leave": True}, address="aggregator"),
             g.start(1, "names", 1, 2, {"sum": "float32"}, {"leave": True}, address=f"aggregator.example:{PORT}")]
    for _ in range(3):
        right(ranks)

    def refused(rc, text, address):
        answer = g.start(0, "names", 0, 1, address=address).line()
        assert answer["rc"] == -rc and text in answer["error"], answer

    refused(EINVAL, "'aggregatr' is not a known host: ", "aggregatr")
    refused(EINVAL, "'aggregatr' is not a known host: ", f"aggregatr:{PORT}")
    for wrong in ":18000", "aggregator:", "aggregator:0", "aggregator:65536", "aggregator:18000x", "a" * 300, "[2001:db8::1", "[]:18000", "2001:db8::g", "[10.0.0.1]":
        refused(EINVAL, "is not a host with an optional port, such as aggregator:18000 or [2001:db8::1]:18000", wrong)
    for wrong in "fe80::1%lo", "fe80::1", f"[fe80::1%lo]:{PORT}":
        refused(EINVAL, f"'{wrong}' is a link-local address, which is valid on one link only", wrong)
    g.member = sees(tmp_path, nsswitch_conf="hosts: dns\n", resolv_conf="nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    refused(EAGAIN, "'aggregator' is not a known host: ", "aggregator")


def test_name_server_that_never_answers(groups, tmp_path):
    """resolv.conf lets the resolver wait for 30 s, but a join ends after 6 s, or after join_timeout_ms. `fpisa doctor` does not wait for
    the resolver either."""
    g = groups(2)
    seen = sees(tmp_path, nsswitch_conf="hosts: dns\n", resolv_conf=f"nameserver {g.net.address}\noptions timeout:10 attempts:3\n")
    g.member = seen
    with g.net.agg.socket(g.net.ipv6) as silent:
        silent.bind((g.net.address, 53))
        for limit, least in (700, 0.7), (0, 6):
            def late(limit=limit, least=least):
                answer = g.start(0, "names", 0, 1, address="aggregator", join_timeout_ms=limit).line()
                assert answer["rc"] == -ETIMEDOUT and "no name server has answered; see /etc/resolv.conf" in answer["error"], answer
                assert least <= answer["s"], answer
                return answer["s"] - least

            once_within(2, late)


def more_address(net, number):
    """Give the aggregator another address. Return the address."""
    address = f"2001:db8:99::{number}" if net.ipv6 else f"10.99.0.{number}"
    net.agg.ip(f"addr add {address}/{128 if net.ipv6 else 32} dev lo")
    for r, w in enumerate(net.worker):
        w.ip(f"route add {address}/{128 if net.ipv6 else 32} via {net.host(r + 1, 1)}")
    return address


def drop(net, address):
    """Let the aggregator drop all packets to one of its addresses."""
    net.agg.run("nft", f"table inet cut {{ chain in {{ type filter hook input priority 0; {'ip6' if net.ipv6 else 'ip'} daddr {address} drop; }}; }}")


def test_name_with_several_addresses(groups, tmp_path):
    """The rank tries each address of the name. The first address refuses, the second drops packets, and the third belongs to the manager.
    If all addresses refuse, the join fails at once."""
    g = groups(2)
    right_one, dead, silent = g.net.address, *(more_address(g.net, n) for n in (2, 3))
    drop(g.net, silent)
    local, other = ("::1", "10.77.0.1") if g.net.ipv6 else ("127.0.0.1", "fd00::1")
    g.kill()
    with open(g.config, "a") as f:
        f.write(f"listen = {right_one}\n")
    g.serve()
    g.member = sees(tmp_path, nsswitch_conf="hosts: files\n", hosts="".join(
        f"{address} {name}\n" for address, name in (
            (dead, "two"), (right_one, "two"), (silent, "three"), (dead, "three"), (right_one, "three"), (dead, "none"),
            (local, "none"), (other, "other"), (other, "both"), (right_one, "both"))))
    for name in "two", "three", "both":
        ranks = [g.start(h, name, h, 2, {"sum": "float32"}, {"leave": True}, address=name) for h in range(2)]
        for _ in range(3):
            right(ranks)
        said = g.net.worker[0].try_run(*g.member[:-4], FPISA, "doctor", "--worker", right_one, env={**g.env, "FPISA_MANAGER": name, "FPISA_KEY": g.key})
        assert f"ok     groups: manager: {name} answers in" in said[1], said
    answer = g.start(0, "none", 0, 2, address="none").line()
    assert answer["rc"] == -ECONNREFUSED and any(f"cannot connect to {a}: " in answer["error"] for a in (local, dead)), answer
    answer = g.start(0, "other", 0, 2, address="other").line()
    assert answer["rc"] == -ENETUNREACH and "cannot connect: Network is unreachable" in answer["error"], answer


def failed_connects(worker):
    """Return how many TCP connections of the worker's host have failed with an error."""
    with worker.entered(), open("/proc/thread-self/net/snmp") as f:
        names, values = [line.split() for line in f if line.startswith("Tcp:")]
    return int(values[names.index("AttemptFails")])


def test_manager_that_cannot_be_resolved(groups):
    """While the link layer does not answer for the manager's address, connections fail with EHOSTUNREACH. A rank tries again for as long as
    with a manager that does not answer, and joins when the link is back."""
    g = groups(1)
    w, family = g.net.worker[0], "ipv6" if g.net.ipv6 else "ipv4"
    w.sysctl("neigh/eth0/retrans_time_ms", 100, family=family)	# resolving fails within one attempt to connect
    g.net.agg.sysctl("conf/p0/keep_addr_on_down", 1, family="ipv6")
    g.net.agg.ip("link set p0 down")
    answer = g.start(0, "alone", 0, 1).line()
    assert answer["rc"] == -ETIMEDOUT and "the manager has not answered for 6 s: No route to host" in answer["error"], answer
    before = failed_connects(w)
    rank = g.start(0, "alone", 0, 1, {"sum": "float32"})
    wait_until("a failed connection", lambda: failed_connects(w) > before)
    g.net.agg.ip("link set p0 up")
    for _ in range(2):
        right([rank])


class Relay(threading.Thread):
    """A relay on a worker, at its loopback address, that connects to the manager and keeps the bytes of each side"""

    def __init__(self, worker, manager):
        super().__init__(daemon=True)
        self.said, self.address = (b"", b""), "::1" if ":" in manager else "127.0.0.1"
        with worker.entered():
            self.listener = listener(self.address, PORT)
            self.on = socket.create_connection((manager, PORT), 10 * SLOW)
        self.start()

    def run(self):
        client, _ = self.listener.accept()
        ends, said = (client, self.on), [b"", b""]
        while True:
            for s in select.select(ends, [], [])[0]:
                i = ends.index(s)
                data = s.recv(65536)
                said[i] += data
                self.said = tuple(said)
                if not data:
                    for end in ends:
                        end.close()
                    return
                ends[1 - i].sendall(data)


def hello(said, kind):
    """Return the extensions of the first handshake message as {number: content}."""
    record, message = struct.unpack_from(">BHH", said), said[5:]
    assert record[0] == 22 and message[0] == kind
    at = 4 + 2 + 32
    at += 1 + message[at]
    at += 3 if kind == SERVER_HELLO else 2 + struct.unpack_from(">H", message, at)[0]
    at += 0 if kind == SERVER_HELLO else 1 + message[at]
    end = at + 2 + struct.unpack_from(">H", message, at)[0]
    at, found = at + 2, {}
    while at < end:
        number, n = struct.unpack_from(">HH", message, at)
        found[number] = message[at + 4:at + 4 + n]
        at += 4 + n
    return found


def test_connection(groups):
    """The connection is TLS 1.3 with the shared key and a fresh key exchange. The TLS library is loaded only when needed, and no message is
    sent unencrypted."""
    g = groups(2)
    relay = Relay(g.net.worker[0], g.net.address)
    ranks = [g.start(0, "secrecy", 0, 2, {"sum": "float32"}, hold=True, address=relay.address),
             g.start(1, "secrecy", 1, 2, {"sum": "float32"}, hold=True)]
    for rank in ranks:
        answer = rank.line()
        assert answer["rc"] == 0 and answer["gnutls"] == [False, True], answer
    right(ranks)
    asked, answered = hello(relay.said[0], CLIENT_HELLO), hello(relay.said[1], SERVER_HELLO)
    assert asked[SUPPORTED_VERSIONS] == b"\x02\x03\x04" and asked[PSK_MODES] == bytes([1, PSK_DHE])
    assert answered[SUPPORTED_VERSIONS] == b"\x03\x04" and answered[PRE_SHARED_KEY] == b"\0\0"
    assert struct.unpack_from(">H", answered[KEY_SHARE])[0] in (X25519, SECP256R1)
    token = bytes.fromhex(g.net.json("job", "show", g.jobs()[0]["job"])["token"])[::-1]
    for said in relay.said:
        assert len(said) > 1000 and b"secrecy" not in said and token not in said and b"FMPG" not in said


def test_no_library_without_a_key(groups):
    g = groups(2, "without-key = yes")
    answers = [rank.line() for rank in [g.start(h, "plain", h, 2, hold=True) for h in range(2)]]
    assert [(a["rc"], a["gnutls"]) for a in answers] == [(0, [False, False])] * 2, answers


def test_secrets_are_fresh(groups):
    """Each job has a new secret, even if a later group has the same name."""
    g, seen = groups(2), set()
    for _ in range(3):
        ranks = g.group("train", range(2), {"sum": "float32"}, {"sum": "float64"}, {"sum": "int32"}, hold=True)
        for _ in range(3):
            right(ranks)
        tokens = [g.net.json("job", "show", j["job"])["token"] for j in g.jobs()]
        assert len(tokens) == 3 and all(len(t) == 16 and int(t, 16) for t in tokens), tokens
        seen.update(tokens)
        for rank in ranks:
            rank.kill()
        g.empty()
    assert len(seen) == 9, seen


def test_limits(groups):
    """Forbidden modes and formats are refused. If slots run out, windows shrink down to 8, and then the refusal names the limit."""
    g = groups(2, "formats = fp32,fp16,bf16,int32", "modes = fpisa,exact", "slots = 36")

    def refused(rc, text, step, **options):
        ranks = g.group("wrong", range(2), step, hold=True, **options)
        for rank in ranks:
            answer = rank.line()
            assert answer["rc"] == -rc and text in answer["error"], answer
            rank.kill()
        wait_until("its end", lambda: "wrong" not in [r["name"] for r in g.net.json("group", "list")])

    refused(EACCES, "group wrong: the manager does not offer format fp64; add the format to formats in [manager]", {"sum": "float64"})
    refused(EACCES, "group wrong: the manager does not offer mode fpisa64; add the mode to modes in [manager]", {"sum": "float32"}, mode=3)
    assert g.jobs() == []
    checks = [{"check": t, "times": 1, "seed": 0} for t in ("float16", "bfloat16")]
    ranks = g.group("train", range(2), {"sum": "float32"}, {"sum": "int32"}, *checks, hold=True)
    for _ in range(4):
        right(ranks)
    assert [j["window"] for j in g.jobs()] == [8] * 4
    refused(ENOSPC, "group wrong: the manager has given 32 of its 36 slots, which leaves too few for a window of 8; raise slots", {"sum": "float32"})
    for rank in ranks:
        assert rank.process.poll() is None
        rank.kill()
    g.empty()


def check_limits_of_joins(g, limits, **options):
    """Check that each join ends at its limit."""
    for limit in limits:
        def late(limit=limit):
            answer = g.start(0, "late", 0, 2, join_timeout_ms=limit, **options).line()
            assert answer["rc"] == -ETIMEDOUT and f" in {limit} ms" in answer["error"], answer
            return answer["s"] - limit / 1000

        once_within(0.15, late)


def test_limit_of_a_join(groups):
    """A join ends at join_timeout_ms, whatever it waits for: a manager that accepts and is silent, with a key or without, a host that drops
    packets, or another rank."""
    g = groups(2)
    dropping, limits = more_address(g.net, 3), (200, 700, 1100)
    check_limits_of_joins(g, limits)
    with g.net.agg.entered(), listener(g.net.address, PORT + 1, backlog=64):
        for key in g.key, "":
            check_limits_of_joins(g, limits, address=endpoint(g.net.address, PORT + 1), key_file=key)
    drop(g.net, dropping)
    check_limits_of_joins(g, limits, address=dropping)


def test_limit_of_a_join_by_name(groups, tmp_path):
    """The time of the lookup counts towards the limit. Here the lookup takes 0.8 s and leads to a silent manager."""
    g = groups(1)
    seen = sees(tmp_path, nsswitch_conf="hosts: dns\n", resolv_conf=f"nameserver {g.net.address}\noptions timeout:10\n")
    g.member = seen
    kind = 28 if g.net.ipv6 else 1  # AAAA or A
    address = socket.inet_pton(socket.AF_INET6 if g.net.ipv6 else socket.AF_INET, g.net.address)

    def answer_late(s):
        with contextlib.suppress(OSError):
            while True:
                query, client = s.recvfrom(512)
                time.sleep(0.8 if query[-3] == kind else 0)
                end = query.index(b"\0", 12) + 5
                found = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(address)) + address if query[end - 3] == kind else b""
                s.sendto(query[:2] + b"\x81\x80\0\1" + bytes([0, bool(found)]) + b"\0\0\0\0" + query[12:end] + found, client)

    with g.net.agg.entered(), listener(g.net.address, PORT + 1, backlog=64), g.net.agg.socket(g.net.ipv6) as server:
        server.bind((g.net.address, 53))
        threading.Thread(target=answer_late, args=(server,), daemon=True).start()
        check_limits_of_joins(g, (1300,), address=f"aggregator.example:{PORT + 1}")
