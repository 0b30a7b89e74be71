#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A member of a query, written only from doc/query-wire.md, with the parts of doc/wire.md in independent_client.py. "section N" below
refers to doc/query-wire.md.

    independent_query.py AGG_IP QUERY worker --seed S --rows N --keys K [--join EVERY]
    independent_query.py AGG_IP QUERY master

rows() makes row i of seed S. The master prints the answer as a line of JSON. The line has the first N values as bits for topn, a list of
[key, count, least, greatest, sum x 2^149, specials] for table, and the rows of the join for join. The small table of a query with a filter
has the keys that --join divides. Worker and master both drop the share --loss of the frames that they send and receive.
"""

import argparse
import json
import random
import struct
import sys
import time

from independent_client import ERROR, HEADER, MAGIC, STATUS, VERSION, WELCOME, Failure, Header, Tags, Worker

ROWS, ACK, SEAL, READ, GROUPS, KEYS, KEYS_ACK = range(16, 23)
LAST = 0x20
TOPN, TABLE, JOIN = 16, 17, 18
FP32, FRAME_ROWS, FRAME_KEYS = 1, 50, 10
WINDOW = 16  # the largest allowed value is 64
LINGER_S = 10  # longer than a worker's interval between retransmissions
HARD = [0x00000000, 0x80000000, 0x00000001, 0x7f7fffff, 0xff7fffff, 0x7149f2ca, 0xf149f2ca, 0x3f800000, 0x7f800000]


def rows(seed, count, keys):
    """Return (key, bits of the value) of each row. Every call returns the same rows."""
    rng = random.Random(seed)
    return [(rng.randrange(keys), rng.choice(HARD) if rng.random() < 0.3 else rng.randrange(0x3e000000, 0x43000000)
             | rng.randrange(2) << 31) for _ in range(count)]


def place(bits):
    """Return the position of a value in the order of section 7."""
    if bits & 0x7fffffff > 0x7f800000:
        return 2**32 - 1
    if not bits & 0x7fffffff:
        return 2**31
    return bits + 2**31 if bits < 2**31 else 2**32 - 1 - bits


def value(p):
    """Return the bits of the value at a position."""
    return p - 2**31 if p >= 2**31 else 2**32 - 1 - p


def units(bits):
    """Return a finite value as a multiple of 2^-149."""
    e, m = bits >> 23 & 255, bits & 0x7fffff
    m = (m | 1 << 23) << e - 1 if e else m
    return -m if bits >> 31 else m


def special(bits):
    if bits & 0x7fffffff < 0x7f800000:
        return 0
    return 1 if bits & 0x7fffff else 4 if bits >> 31 else 2


class Member(Worker):
    def __init__(self, *args, loss):
        super().__init__(*args)
        self.loss, self.rng = loss, random.Random()
        self.epoch = None  # other members may have joined, and may send, before this member learns that it has joined

    def joined(self, h, payload):
        """Handle WELCOME (section 1)."""
        self.epoch = h.generation
        none, elements, members, self.rank, self.kind, self.key_bytes, form = struct.unpack_from("<IHHHBBB", payload)
        self.join_bytes, self.order = struct.unpack_from("<BB", payload, 13)
        self.filter = bool(self.order & 12)
        if self.filter and self.join_bytes != 4:
            raise Failure("join keys have %d bytes" % self.join_bytes)
        self.limit, = struct.unpack_from("<I", payload, 16)
        if self.tags:
            self.rank_key = self.tags.key(Tags.RANK, self.rank, self.cookie)
        if elements or form != FP32 or self.key_bytes != 4:
            raise Failure("this is not a query with keys of 4 bytes")
        self.workers = members - 1

    def receive(self, until):
        while True:
            self.sock.settimeout(max(until - time.monotonic(), 1e-4))
            try:
                data, source = self.sock.recvfrom(65536)
            except TimeoutError:
                return None
            except ConnectionRefusedError:
                continue
            if source != self.server or len(data) < HEADER.size or self.rng.random() < self.loss:
                continue
            h, payload = Header(data), data[HEADER.size:]
            if (h.magic, h.version, h.job) != (MAGIC, VERSION, self.job) or len(payload) % 8:
                continue
            if h.type != WELCOME and self.epoch is None or not self.sealed(h, data):
                continue
            if h.type == WELCOME:
                if h.chunk != self.nonce or len(payload) != 80:
                    continue
            elif not self.tags and h.secret != self.cookie or h.generation != self.epoch:
                continue
            if h.type == ERROR:
                raise Failure("refused: reason %d" % h.reason)
            return h, payload

    def say(self, kind, payload=b"", **fields):
        if self.rng.random() < self.loss:
            return
        payload += bytes(-len(payload) % 32)
        h = Header(type=kind, format=FP32, job=self.job, generation=self.epoch, rank=self.rank, secret=self.cookie, **fields)
        if self.tags:
            h.bitmap, h.secret = self.cookie, 0
            h.secret = self.tags.of_frame(self.rank_key, h.chunk, h.datagram(payload))
        self.send(h, payload, checked=not self.tags)

    def in_time(self):
        if time.monotonic() > self.deadline:
            raise Failure("the deadline has passed: " + self.doing)

    def until(self, wait=0.02):
        self.in_time()
        return self.receive(time.monotonic() + wait)

    # -- section 11

    def build(self, keys):
        """Send the join keys, then wait until the aggregator has the keys of all workers."""
        frames = [keys[i:i + FRAME_KEYS] for i in range(0, len(keys), FRAME_KEYS)] + [[]]
        acked = set()
        while True:
            left = [i for i in range(len(frames) - 1) if i not in acked] or [len(frames) - 1]
            for i in left:
                self.say(KEYS, b"".join(struct.pack("<I", k) for k in frames[i]), chunk=i, count=len(frames[i]),
                         flags=LAST if i == len(frames) - 1 else 0)
            self.doing = "%d of %d frames of keys are acknowledged" % (len(acked), len(frames))
            frame = self.until()
            while frame:
                h, _ = frame
                if h.type == KEYS_ACK:
                    acked.add(h.chunk)
                    if h.chunk == len(frames) - 1 and not h.bitmap:
                        return h.aux
                frame = self.until()

    # -- section 5

    def work(self, mine):
        frames = [mine[i:i + FRAME_ROWS] for i in range(0, len(mine), FRAME_ROWS)] + [[]]
        acked, due, pause, copies = set(), {}, {}, {}
        low = 1
        while len(acked) < len(frames):
            now = time.monotonic()
            for s in range(low, min(low + WINDOW, len(frames) + 1)):
                if s in acked or due.get(s, 0) > now or s == len(frames) and len(acked) < s - 1:
                    continue
                pause[s] = min(2 * pause.get(s, 0.025), 4)
                due[s] = now + pause[s]
                copies[s] = copies.get(s, 0) + 1
                self.say(ROWS, b"".join(struct.pack("<II", *r) for r in frames[s - 1]), chunk=s, count=len(frames[s - 1]), aux=copies[s],
                         flags=LAST if s == len(frames) else 0)
            self.doing = "%d of %d frames are acknowledged, the first without is %d" % (len(acked), len(frames), low)
            frame = self.until()
            if frame and frame[0].type == ACK:
                assert 0 < frame[0].aux <= copies[frame[0].chunk]
                acked.add(frame[0].chunk)
            while low in acked:
                low += 1
        return {"rank": self.rank, "frames": len(frames)}

    # -- section 6

    def take(self, frame, had, last):
        h, payload = frame
        if h.type != ROWS:
            return
        if (h.rank, h.chunk) not in had:
            had[h.rank, h.chunk] = [struct.unpack_from("<II", payload, 8 * i) for i in range(h.count)]
        if h.flags & LAST:
            last[h.rank] = h.chunk
        self.say(ACK, chunk=h.chunk, slot=h.rank, aux=h.aux)

    def ask(self, kind, answer, payload, had, last, **fields):
        """Ask until the answer comes. Workers may retransmit meanwhile."""
        self.doing = "no answer to a frame of type %d" % kind
        while True:
            self.say(kind, payload, **fields)
            frame = self.until(0.05)
            while frame:
                if frame[0].type == answer and frame[0].chunk == fields.get("chunk", 0):
                    return frame
                self.take(frame, had, last)
                frame = self.until()

    def master(self, every):
        had, last = {}, {}
        while len(last) < self.workers:
            self.doing = "%d frames of all workers, and the last of %s" % (len(had), sorted(last))
            frame = self.until()
            if frame:
                self.take(frame, had, last)
        got = [r for part in had.values() for r in part]
        received = len(got)
        if self.filter:
            got = [r for r in got if not r[0] % every]
        words = struct.pack("<%dQ" % self.workers, *(last[r] for r in range(self.workers)))
        while True:
            h, _ = self.ask(SEAL, STATUS, words, had, last, count=self.workers)
            if not h.bitmap:
                break
        if self.kind == JOIN:
            answer = sorted(got)
        elif self.kind == TOPN:
            flip = (2**32 - 1) * (self.order & 1)
            places = sorted((place(v) ^ flip for _, v in got), reverse=True)[:self.limit]
            if h.aux and (len(places) < self.limit or places[-1] + 1 < h.aux):
                raise Failure("the rows do not match the certificate")
            answer = [p ^ flip for p in places]
        else:
            answer = [g for g in self.groups(h.aux, got, had, last) if not self.filter or not g[0] % every]
        # A worker whose last ACK was lost asks again.
        quiet = time.monotonic() + LINGER_S
        while time.monotonic() < quiet:
            frame = self.until()
            if frame:
                self.take(frame, had, last)
                quiet = time.monotonic() + LINGER_S
        return {"received": received, "frames": {r: n for r, n in sorted(last.items())}, "answer": answer}

    def groups(self, all_of_them, got, had, last):
        found = {}
        read = 0
        while read < all_of_them:
            h, payload = self.ask(READ, GROUPS, bytes(128 * 8), had, last, chunk=read, count=8)
            for i in range(h.count):
                key, count, least, greatest, specials = struct.unpack_from("<I28xQIII", payload, 128 * i)
                limbs = struct.unpack_from("<9q", payload, 128 * i + 56)
                found[key] = [count, least, greatest, sum(w << 32 * k for k, w in enumerate(limbs)), specials]
            read += h.count
        left = {}
        for key, bits in got:
            if key in found:
                raise Failure("key %d is both in the table and at the master" % key)
            g = left.setdefault(key, [0, 2**32 - 1, 0, 0, 0])
            g[0] += 1
            g[1], g[2] = min(g[1], place(bits)), max(g[2], place(bits))
            g[3] += 0 if special(bits) else units(bits)
            g[4] |= special(bits)
        return [[key, *g] for key, g in sorted({**found, **left}.items())]


def main():
    p = argparse.ArgumentParser(description="a member of a query; a client by doc/query-wire.md")
    p.add_argument("address", metavar="AGG_IP")
    p.add_argument("query", type=int, metavar="QUERY")
    p.add_argument("role", choices=["worker", "master"])
    p.add_argument("--local-port", type=int, default=18000)
    p.add_argument("--token", type=lambda s: int(s, 16), default=0, metavar="HEX")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rows", type=int, default=5000)
    p.add_argument("--keys", type=int, default=100)
    p.add_argument("--join", type=int, default=1, metavar="EVERY")
    p.add_argument("--loss", type=float, default=0.0)
    p.add_argument("--timeout", type=float, default=30, metavar="S")
    a = p.parse_args()
    try:
        m = Member(a.address, 18000, a.query, a.token, a.local_port, a.timeout, loss=a.loss)
        m.join()
        if a.role == "master":
            print(json.dumps(m.master(a.join)))
            return 0
        used = m.build([k for k in range(a.keys) if not k % a.join and k % m.workers == m.rank]) if m.filter else None
        print(json.dumps({**m.work(rows(a.seed, a.rows, a.keys)), "filter": used}))
    except (Failure, OSError, ValueError) as e:
        print("independent_query: %s: query %d: %s" % (a.address, a.query, e), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
