#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""An independent worker, written only from doc/wire.md in Python's standard library, without any code of this project. If this worker works
together with others, the page is sufficient. "section N" below refers to that page.

The worker reduces one vector of COUNT seeded random values over the ranks of a job, with one operation after the other. It prints a line of
JSON for each operation: rank, workers, count, retransmits and the SHA-256 of the result's bytes. The job's values are FP32. Value i is the
(i + 1)-th random.Random(SEED).uniform(-1, 1), rounded.

With --seeds, the seeds of all ranks, the job may have any format, and the values come from independent_numbers.py. Every element of every
result is then recomputed in the order that the result reports, and the line has the number of wrong elements.

With --keepers, one rank, no rank or every rank keeps the result of a chunk, in turns (section 6.4). The line then has the number of results
without payload, and the digest and the number of wrong elements are those of the other results.
"""

import argparse
import array
import hashlib
import json
import random
import secrets
import socket
import struct
import sys
import time

import independent_numbers as sums

HEADER = struct.Struct("<HBBBBBBIIIHHQQIHHQQQI")  # section 3
MAGIC, VERSION = 0x5046, 3
HELLO, WELCOME, ADD, RESULT, STATUS, ERROR = range(1, 7)
RETRANSMIT, PROBE, PENDING, CHALLENGE = 1, 2, 4, 16
FP32 = 1
NO_RANK = 0xffff
REASONS = {19: "format", 20: "op", 21: "not live", 22: "generation is over", 25: "ahead", 26: "calls differ", 31: "port",
           32: "not this life's cookie", 38: "programs are missing"}
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE, IP_MULTICAST_ALL = 10, 3, 49  # from linux/in.h; Python 3.11 has no names for them
IPV6_MTU_DISCOVER, IPV6_MULTICAST_ALL = 23, 29  # from linux/in6.h
M64 = 2**64 - 1


class Failure(Exception):
    pass


def checksum(header72, payload):
    """Return the checksum of section 4."""
    a_lo = a_hi = b_lo = b_hi = 0
    for lo, hi in struct.iter_unpack("<II", header72 + payload):
        a_lo += lo
        b_lo += a_lo
        a_hi += hi
        b_hi += a_hi
    x = (a_lo * 0x9e3779b97f4a7c15 + a_hi * 0xc2b2ae3d27d4eb4f +
         b_lo * 0x165667b19e3779f9 + b_hi * 0xd6e8feb86659fd93) & M64
    x ^= x >> 32
    return (x * 0xff51afd7ed558ccd & M64) >> 32


def siphash(key, words):
    """Return SipHash-2-4 of 64-bit words under a key of two words (section 4.1)."""
    a, b = key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d
    c, d = key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573
    for m in (*words, len(words) << 59 & M64, None):
        if m is None:
            c ^= 0xff
        else:
            d ^= m
        for _ in range(4 if m is None else 2):
            a = a + b & M64
            b = (b << 13 | b >> 51) & M64 ^ a
            c = c + d & M64
            d = (d << 16 | d >> 48) & M64 ^ c
            a = (a << 32 | a >> 32) & M64
            c = c + b & M64
            b = (b << 17 | b >> 47) & M64 ^ c
            c = (c << 32 | c >> 32) & M64
            a = a + d & M64
            d = (d << 21 | d >> 43) & M64 ^ a
        if m is not None:
            a ^= m
    return a ^ b ^ c ^ d


class Tags:
    """The keys of a job with a token, and tags of its frames (section 4.1)"""

    HELLO, RANK, RESULTS, NH = range(1, 5)

    def __init__(self, token):
        self.token = (token & M64, token >> 64)
        self.nh_key = [siphash(self.token, (i, self.NH << 32)) for i in range(8 + 3328 // 8 + 2)]
        self.halves = [half for k in self.nh_key for half in (k & 0xffffffff, k >> 32)]

    def key(self, use, rank=0, of=0):
        return tuple(siphash(self.token, (of, use << 32 | 2 * rank + half)) for half in (0, 1))

    def tag(self, key, first, data):
        k = self.halves
        z = [m + k[n] & 0xffffffff for n, (m,) in enumerate(struct.iter_unpack("<I", data), 2)]
        even, odd = z[::2], z[1::2]
        return siphash(key, (first, sum(x * y for x, y in zip(even, odd)) & M64,
                             sum(x * y for x, y in zip([k[1]] + odd, even + [k[len(z) + 2]])) & M64))

    def of_frame(self, key, first, datagram):
        return self.tag(key, first, datagram[:48] + datagram[56:72] + datagram[76:])

    def proof(self, datagram):
        first, = struct.unpack_from("<Q", datagram, 48)
        return self.tag(self.key(self.HELLO), first, datagram[:48] + datagram[56:72] + datagram[76:140] + datagram[148:])


class Header:
    NAMES = ("magic version type flags result_flags format op job generation slot rank count chunk digest call "
             "contributors reason secret bitmap aux checksum").split()

    def __init__(self, data=None, **fields):
        values = HEADER.unpack_from(data) if data else (MAGIC, VERSION) + (0,) * 19
        self.__dict__.update(zip(self.NAMES, values))
        self.__dict__.update(fields)

    def datagram(self, payload, checked=True):
        """Return a datagram with the checksum of section 4 if `checked`, else with 0."""
        head = HEADER.pack(*(getattr(self, n) for n in self.NAMES))[:72]
        return head + struct.pack("<I", checksum(head, payload) if checked else 0) + payload


def digest(before, op, fmt, factor, elements, tag):
    """Return the digest of section 6.2."""
    for word in (1 << 16 | fmt << 8 | op, factor, elements, tag):
        before = (before ^ word) * 0x9e3779b97f4a7c15 & M64
        before ^= before >> 32
    return before


def ranks(bitmap):
    return ", ".join(str(r) for r in range(64) if bitmap >> r & 1)


class Keepers:
    """The ranks that keep the result of chunk `c` (section 6.4)"""

    def __init__(self, c, workers):
        turn = c % (workers + 2)
        self.all = turn == workers + 1
        self.first, self.last = (turn, turn) if turn < workers else (1, 0)

    def __contains__(self, rank):
        return self.all or self.first <= rank <= self.last

    def in_add(self):
        return 0 if self.all else 0x8000 + 64 * self.last + self.first

    def in_result(self):
        return NO_RANK if self.all else self.in_add()


class Worker:
    def __init__(self, address, port, job, token, local_port, timeout, keepers=False):
        self.family, _, _, _, self.server = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        self.job, self.tags = job, Tags(token) if token else None
        self.deadline = time.monotonic() + timeout
        self.retransmits = 0
        self.keepers = keepers
        self.numbers = None  # set from WELCOME
        self.sock = socket.socket(self.family, socket.SOCK_DGRAM)
        if self.family == socket.AF_INET6:  # section 2, "IPv6"
            self.sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            self.sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
        else:
            self.sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            self.sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        self.sock.bind(("", local_port))

    def send(self, header, payload, port=0, checked=True):
        try:
            self.sock.sendto(header.datagram(payload, checked), (self.server[0], self.server[1] + port, *self.server[2:]))
        except (ConnectionRefusedError, BlockingIOError):
            pass  # treated as a lost frame

    def receive(self, until):
        """Return the next frame that passes section 7.1, as (header, payload), or None at time `until`."""
        while True:
            self.sock.settimeout(max(until - time.monotonic(), 1e-4))
            try:
                data, source = self.sock.recvfrom(65536)
            except socket.timeout:
                return None
            except ConnectionRefusedError:
                continue
            if source != self.server or len(data) < HEADER.size:
                continue
            h, payload = Header(data), data[HEADER.size:]
            if (h.magic, h.version, h.job) != (MAGIC, VERSION, self.job):
                continue
            if h.type == RESULT and not self.numbers:
                continue
            size = 80 if h.type == WELCOME else self.numbers.size(h.count) if h.type == RESULT else 0
            if len(payload) != size or len(payload) % 8 or not self.sealed(h, data):
                continue
            if h.type == WELCOME or h.type == ERROR and not h.generation:
                genuine = h.chunk == self.nonce
            else:
                genuine = self.tags or h.secret == (self.results if h.type == RESULT else self.cookie)
            if genuine:
                return h, payload

    def sealed(self, h, data):
        """Return whether checksum, proof and tag are correct (sections 4 and 4.1)."""
        if h.type == WELCOME or not self.tags:
            proof = self.tags.proof(data) if self.tags else 0
            return checksum(data[:72], data[76:]) == h.checksum and (
                h.type != WELCOME or struct.unpack_from("<Q", data, 140)[0] == proof)
        if h.type == RESULT:
            key = self.results_key
        else:
            key = self.rank_key if h.generation else self.tags.key(Tags.HELLO)
        return not h.checksum and h.secret == self.tags.of_frame(key, h.chunk, data)

    # -- section 5

    def hello(self, incarnation):
        h = Header(type=HELLO, job=self.job, rank=NO_RANK, chunk=self.nonce, secret=self.cookie, aux=incarnation)
        proof = self.tags.proof(h.datagram(bytes(80))) if self.tags else 0
        self.send(h, bytes(64) + struct.pack("<QQ", proof, 0))

    def join(self):
        incarnation, pause, missing = time.time_ns(), 0.002, None
        self.nonce, self.cookie, self.results = secrets.randbits(64), 0, 0
        send_at = 0
        while True:
            now = time.monotonic()
            if now >= self.deadline:
                raise Failure("ranks %s did not join" % ranks(missing) if missing else "no answer to HELLO")
            if now >= send_at:
                self.hello(incarnation)
                send_at, pause = now + pause, min(2 * pause, 0.05)
            frame = self.receive(min(send_at, self.deadline))
            if not frame:
                continue
            h, payload = frame
            if h.type == ERROR and not h.generation:
                raise Failure("refused: %s" % REASONS.get(h.reason, h.reason))
            if h.type != WELCOME:
                continue
            if h.flags & CHALLENGE:
                send_at = 0 if self.cookie != h.secret else send_at
                self.cookie = h.secret
            elif h.aux > incarnation:
                incarnation, send_at = h.aux + 1, 0
                self.nonce, self.cookie = secrets.randbits(64), 0
            elif h.flags & PENDING:
                missing = struct.unpack_from("<Q", payload, 24)[0] & ~h.bitmap
            else:
                return self.joined(h, payload)

    def joined(self, h, payload):
        self.generation = h.generation
        self.window, self.elements, self.workers, self.rank = struct.unpack_from("<IHHH", payload)
        self.results, = struct.unpack_from("<Q", payload, 72)
        if self.tags:
            self.rank_key = self.tags.key(Tags.RANK, self.rank, self.cookie)
            self.results_key = self.tags.key(Tags.RESULTS, 0, self.results)
        self.numbers = sums.Numbers(payload)
        group, self.ports = payload[16:20], payload[33] or 1
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.window * 8192)
        if any(group):
            self.join_multicast(group, payload[52:64])
        self.next_chunk, self.next_call, self.digest = 0, 0, 0

    def join_multicast(self, group, first_bytes):
        """Join the multicast address of the results on the interface that leads to the aggregator."""
        with socket.socket(self.family, socket.SOCK_DGRAM) as s:
            s.connect(self.server)
            local = s.getsockname()[0]
        if self.family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + socket.inet_aton(local))
            return
        with open("/proc/net/if_inet6") as f:
            index, = {int(line.split()[1], 16) for line in f if bytes.fromhex(line.split()[0]) == socket.inet_pton(self.family, local)}
        self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, first_bytes + group + struct.pack("@I", index))

    # -- sections 6 and 7

    def keep(self, c):
        """Return the keepers of the chunk in this call. All ranks keep it without --keepers."""
        return Keepers(c if self.keepers else self.workers + 1, self.workers)

    def allreduce(self, payloads, total, op, aux=0):
        """Return the RESULT of every chunk of a call, as (header, payload)."""
        chunks, form = len(payloads), self.numbers.format
        first, call = self.next_chunk, self.next_call
        self.digest = digest(self.digest, op, form, aux, total, int(self.keepers))
        results = [None] * chunks
        counts = [min(self.elements, (total - c * self.elements + 31) // 32 * 32) for c in range(chunks)]
        waiting = {}  # chunk -> [when to send again, timeout, copies sent]
        asked = [0, 0]  # the ranks that the last STATUS counts as live, and the ranks that have contributed

        def transmit(c):
            state = waiting.setdefault(c, [0, 0.02, 0])
            run = min(8, self.window // self.ports)
            flags = (RETRANSMIT if state[2] else 0) | (PROBE if state[2] > 1 else 0)
            h = Header(type=ADD, flags=flags, format=form, op=op, job=self.job, generation=self.generation,
                       slot=2 * (c % self.window) + c // self.window % 2, rank=self.rank,
                       count=counts[c - first], chunk=c, digest=self.digest, call=call, contributors=self.keep(c).in_add(),
                       secret=self.cookie, aux=aux)
            if self.tags:
                h.bitmap, h.secret, h.checksum = self.cookie, 0, 0
                h.secret = self.tags.of_frame(self.rank_key, c, h.datagram(payloads[c - first]))
            self.send(h, payloads[c - first], c % self.window // run % self.ports, checked=not self.tags)
            self.retransmits += state[2] > 0
            state[0] = time.monotonic() + state[1]
            state[1] = min(2 * state[1], 1.0)
            state[2] += 1

        for c in range(first, first + min(chunks, self.window)):
            transmit(c)
        while waiting:
            now = time.monotonic()
            if now >= self.deadline:
                missing = ranks(asked[0] & ~asked[1])
                raise Failure("chunk %d waits for ranks %s" % (min(waiting), missing) if asked[0] else
                              "no answer to chunk %d" % min(waiting))
            for c in [c for c, state in waiting.items() if state[0] <= now]:
                transmit(c)
            frame = self.receive(min(self.deadline, min(state[0] for state in waiting.values())))
            if not frame:
                continue
            h, payload = frame
            if h.generation != self.generation or h.chunk not in waiting:
                continue
            if h.type == ERROR:
                raise Failure("chunk %d refused: %s" % (h.chunk, REASONS.get(h.reason, h.reason)))
            if h.type == STATUS:
                asked = [h.aux, h.bitmap]
            if h.type != RESULT:
                continue
            c = h.chunk
            slot = 2 * (c % self.window) + c // self.window % 2
            keep = self.keep(c)
            expected = (slot, self.digest, call, op, form, keep.in_result())
            if (h.slot, h.digest, h.call, h.op, h.format, h.rank) != expected:
                continue
            if h.count != counts[c - first] and (h.count or self.rank in keep):
                continue
            if not h.bitmap >> self.rank & 1 or h.contributors != bin(h.bitmap).count("1"):
                continue
            del waiting[c]
            results[c - first] = h, payload
            if c + self.window < first + chunks:
                transmit(c + self.window)
        self.next_chunk, self.next_call = first + chunks, call + 1
        return results

    def reduce(self, op, factor, count, seed, seeds):
        """Make one call. Return the object that main() prints."""
        n = self.numbers
        if seeds:
            vectors = {r: n.random_values(s, count) for r, s in enumerate(seeds)}
        else:
            rng = random.Random(seed)
            floats = array.array("f", (rng.uniform(-1, 1) for _ in range(count)))
            vectors = {self.rank: list(array.array("I", floats.tobytes()))}
        payloads = {r: list(n.cut(v, self.elements)) for r, v in vectors.items()}
        total = len(vectors[self.rank]) * (32 if n.format == sums.MXINT8 else 1)
        aux = struct.unpack("<Q", struct.pack("<d", factor))[0] if op == "scale" else 0
        results = self.allreduce(payloads[self.rank], total, sums.OPS[op], aux)
        data = b"".join(payload for _, payload in results)
        if n.format != sums.MXINT8:
            data = data[:total * n.bytes]
        said = {"rank": self.rank, "workers": self.workers, "count": total, "op": op, "retransmits": self.retransmits,
                "sha256": hashlib.sha256(data).hexdigest()}
        if self.keepers:
            said["bare"] = sum(not payload for _, payload in results)
        if seeds:
            said["wrong"] = 0
            for c, (h, payload) in enumerate(results):
                if not payload:
                    continue
                order = sorted((r for r in range(self.workers) if h.bitmap >> r & 1), key=lambda r: h.aux >> 4 * r & 15)
                said["wrong"] += n.wrong(sums.OPS[op], factor, [payloads[r][c] for r in order], payload)
        return said


def main():
    p = argparse.ArgumentParser(description="all-reduce one seeded random FP32 vector; a client by doc/wire.md")
    p.add_argument("address", metavar="AGG_IP")
    p.add_argument("job", type=int, metavar="JOB")
    p.add_argument("--port", type=int, default=18000, help="UDP port of the aggregator")
    p.add_argument("--local-port", type=int, default=18000, help="UDP port that the job lists for this worker")
    p.add_argument("--token", type=lambda s: int(s, 16), default=0, metavar="HEX")
    p.add_argument("--count", type=int, default=10000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seeds", type=lambda s: s.split(","), metavar="SEED,...", help="of all ranks, instead of --seed")
    p.add_argument("--op", type=lambda s: s.split(","), default=["sum"], metavar="OP,...", help="of %s" % ", ".join(sums.OPS))
    p.add_argument("--factor", type=float, default=1.0, metavar="X", help="of scale")
    p.add_argument("--keepers", action="store_true", help="send results only to the ranks that keep them")
    p.add_argument("--timeout", type=float, default=10, metavar="S")
    a = p.parse_args()
    if sys.byteorder != "little":
        print("independent_client: needs a little-endian host", file=sys.stderr)
        return 2
    try:
        w = Worker(a.address, a.port, a.job, a.token, a.local_port, a.timeout, a.keepers)
        w.join()
        if w.numbers.format != FP32 and not a.seeds:
            raise Failure("the job's number format is %d, not FP32; give --seeds" % w.numbers.format)
        for op in a.op:
            print(json.dumps(w.reduce(op, a.factor, a.count, a.seed, a.seeds)))
    except (Failure, OSError, ValueError) as e:
        print("independent_client: %s:%d: job %d: %s" % (a.address, a.port, a.job, e), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
