#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""
A worker by a stranger: written from doc/wire.md alone, in Python's standard
library, with nothing of this project. If it works beside other workers, the
page suffices. "section N" below means that page.

Sums one vector of COUNT seeded random FP32 values over the ranks of a job and
prints one line of JSON: rank, workers, count, retransmits and the SHA-256 of
the sum's bytes. Value i is the (i + 1)-th random.Random(SEED).uniform(-1, 1),
rounded to FP32.
"""

import argparse
import array
import hashlib
import json
import random
import socket
import struct
import sys
import time

HEADER = struct.Struct("<HBBBBBBIIIHHQQIHHQQQI")  # section 3
MAGIC, VERSION = 0x5046, 1
HELLO, WELCOME, ADD, RESULT, STATUS, ERROR = range(1, 7)
RETRANSMIT, PROBE, PENDING = 1, 2, 4
FP32, SUM = 1, 1
NO_RANK = 0xffff
REASONS = {19: "format", 20: "op", 21: "not live", 22: "generation is over", 25: "ahead", 26: "calls differ", 31: "port"}
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MULTICAST_ALL = 10, 2, 49  # linux/in.h; Python 3.11 does not name them
M64 = 2**64 - 1


class Failure(Exception):
    pass


def checksum(header72, payload):
    """Section 4."""
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


class Header:
    NAMES = ("magic version type flags result_flags format op job generation slot rank count chunk total call "
             "contributors reason token bitmap aux checksum").split()

    def __init__(self, data=None, **fields):
        values = HEADER.unpack_from(data) if data else (MAGIC, VERSION) + (0,) * 19
        self.__dict__.update(zip(self.NAMES, values))
        self.__dict__.update(fields)

    def datagram(self, payload):
        head = HEADER.pack(*(getattr(self, n) for n in self.NAMES))[:72]
        return head + struct.pack("<I", checksum(head, payload)) + payload


def ranks(bitmap):
    return ", ".join(str(r) for r in range(64) if bitmap >> r & 1)


class Worker:
    def __init__(self, address, port, job, token, local_port, timeout):
        self.server = (socket.gethostbyname(address), port)
        self.job, self.token = job, token
        self.deadline = time.monotonic() + timeout
        self.retransmits = 0
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        self.sock.bind(("", local_port))

    def send(self, header, payload, port=0):
        try:
            self.sock.sendto(header.datagram(payload), (self.server[0], self.server[1] + port))
        except (ConnectionRefusedError, BlockingIOError):
            pass  # as good as lost

    def receive(self, until):
        """The next frame that passes section 7.1, as (header, payload), or None at time `until`."""
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
            size = {WELCOME: 64, RESULT: 4 * h.count}.get(h.type, 0)
            if (h.magic, h.version, h.job, h.token) != (MAGIC, VERSION, self.job, self.token):
                continue
            if len(payload) != size or len(payload) % 8 or checksum(data[:72], payload) != h.checksum:
                continue
            return h, payload

    # -- section 5

    def join(self):
        incarnation, pause, missing = time.time_ns(), 0.002, None
        send_at = 0
        while True:
            now = time.monotonic()
            if now >= self.deadline:
                raise Failure("ranks %s did not join" % ranks(missing) if missing else "no answer to HELLO")
            if now >= send_at:
                self.send(Header(type=HELLO, job=self.job, rank=NO_RANK, chunk=incarnation, token=self.token,
                                 aux=incarnation), bytes(64))
                send_at, pause = now + pause, min(2 * pause, 0.05)
            frame = self.receive(min(send_at, self.deadline))
            if not frame:
                continue
            h, payload = frame
            if h.type == ERROR and not h.generation and h.aux == incarnation:
                raise Failure("refused: %s" % REASONS.get(h.reason, h.reason))
            if h.type != WELCOME or h.chunk != incarnation:
                continue
            if h.aux > incarnation:
                incarnation, send_at = h.aux + 1, 0
            elif h.flags & PENDING:
                missing = struct.unpack_from("<Q", payload, 24)[0] & ~h.bitmap
            else:
                return self.joined(h, payload)

    def joined(self, h, payload):
        self.generation = h.generation
        self.window, self.elements, self.workers, self.rank = struct.unpack_from("<IHHH", payload)
        self.format = payload[12]
        group, self.ports = payload[16:20], payload[33] or 1
        if self.format != FP32:
            raise Failure("the job's number format is %d, not FP32" % self.format)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.window * 8192)
        if any(group):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.connect(self.server)
                local = socket.inet_aton(s.getsockname()[0])
            self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + local)
        self.next_chunk, self.next_call = 0, 0

    # -- sections 6 and 7

    def allreduce(self, values):
        """The sum over all ranks of an array('f')."""
        total, size = len(values), self.elements
        first, call = self.next_chunk, self.next_call
        chunks = -(-total // size)
        result = array.array("f", bytes(4 * total))
        waiting = {}  # chunk -> [when to send again, timeout, copies sent]
        asked = [0, 0]  # ranks that the last STATUS counts on, and those that are in

        def payload_of(c):
            part = values[(c - first) * size:(c - first + 1) * size].tobytes()
            return part + bytes(-len(part) % 128)

        def transmit(c):
            payload, state = payload_of(c), waiting.setdefault(c, [0, 0.02, 0])
            run = min(8, self.window // self.ports)
            flags = (RETRANSMIT if state[2] else 0) | (PROBE if state[2] > 1 else 0)
            self.send(Header(type=ADD, flags=flags, format=FP32, op=SUM, job=self.job, generation=self.generation,
                             slot=2 * (c % self.window) + c // self.window % 2, rank=self.rank,
                             count=len(payload) // 4, chunk=c, total=total, call=call, token=self.token), payload,
                      c % self.window // run % self.ports)
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
            expected = (slot, len(payload_of(c)) // 4, total, call, SUM, FP32)
            if (h.slot, h.count, h.total, h.call, h.op, h.format) != expected:
                continue
            if not h.bitmap >> self.rank & 1 or h.contributors != bin(h.bitmap).count("1"):
                continue
            del waiting[c]
            at = (c - first) * size
            got = array.array("f", payload)[:total - at]
            result[at:at + len(got)] = got
            if c + self.window < first + chunks:
                transmit(c + self.window)
        self.next_chunk, self.next_call = first + chunks, call + 1
        return result


def main():
    p = argparse.ArgumentParser(description="all-reduce one seeded random FP32 vector; a client by doc/wire.md")
    p.add_argument("address", metavar="AGG_IP")
    p.add_argument("job", type=int, metavar="JOB")
    p.add_argument("--port", type=int, default=18000, help="UDP port of the aggregator")
    p.add_argument("--local-port", type=int, default=18000, help="UDP port that the job lists for this worker")
    p.add_argument("--token", type=lambda s: int(s, 16), default=0, metavar="HEX")
    p.add_argument("--count", type=int, default=10000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--timeout", type=float, default=10, metavar="S")
    a = p.parse_args()
    if sys.byteorder != "little":
        print("stranger_client: needs a little-endian host", file=sys.stderr)
        return 2
    rng = random.Random(a.seed)
    values = array.array("f", (rng.uniform(-1, 1) for _ in range(a.count)))
    try:
        w = Worker(a.address, a.port, a.job, a.token, a.local_port, a.timeout)
        w.join()
        total = w.allreduce(values)
    except (Failure, OSError) as e:
        print("stranger_client: %s:%d: job %d: %s" % (a.address, a.port, a.job, e), file=sys.stderr)
        return 1
    print(json.dumps({"rank": w.rank, "workers": w.workers, "count": a.count, "retransmits": w.retransmits,
                      "sha256": hashlib.sha256(total.tobytes()).hexdigest()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
