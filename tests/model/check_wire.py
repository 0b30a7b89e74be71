#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Holds doc/wire.md to the code: its Python functions and its example frame
against the C headers (wire.c), and the example against the text around it.

	check_wire.py [SEED]	check; exits nonzero if something differs
	check_wire.py --dump	print the example frame as the page shows it
"""

import ctypes
import os
import random
import re
import struct
import sys

import rules

PAGE = os.path.join(rules.HERE, "..", "..", "doc", "wire.md")
CASES = 60000
FORMAT = re.compile(r"^\| (\d) \| (\w+) \| (\d+) \| (\d+) \| (\d) \| (\d+) \|", re.M)


def page_functions(text):
    space = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, space)
    return space


def ip_checksum(header):
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


def example(checksum):
    """The frame that section 4 of the page describes."""
    payload = struct.pack("<32f", *[0.5 * (i + 1) for i in range(20)], *[0.0] * 12)
    chunk, window = 70, 64
    slot = 2 * (chunk % window) + chunk // window % 2
    h = struct.pack("<HBBBBBBIIIHHQQIHHQQQ", 0x5046, 1, 3, 0, 0, 1, 1, 7, 5, slot, 1, 32, chunk, 2260, 0, 0, 0,
                    0x1122334455667788, 0, 0)
    datagram = h + struct.pack("<I", checksum(h + bytes(4) + payload)) + payload
    udp = struct.pack(">HHHH", 18000, 18000, 8 + len(datagram), 0)
    ip = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 28 + len(datagram), 0, 0x4000, 64, 17, 0, 10, 0, 0, 3, 10, 0, 0, 1)
    ip = ip[:10] + struct.pack(">H", ip_checksum(ip)) + ip[12:]
    ether = bytes.fromhex("020000000001" "020000000003" "0800")
    return ether + ip + udp + datagram


def dump(frame):
    return "\n".join("%04x  %s" % (i, frame[i:i + 16].hex(" ")) for i in range(0, len(frame), 16))


def random_words(rng, e_bits, m_bits):
    """A few packed words whose exponents are near each other, or not, or special."""
    top, base = (1 << e_bits) - 1, rng.randrange(1 << e_bits)
    reach = rng.choice([m_bits // 2 + 1, 2 * m_bits, top])
    words = []
    for _ in range(rng.randrange(1, 9)):
        e = rng.choice([0, 1, top - 1, top]) if rng.random() < 0.05 else base + rng.randrange(-reach, reach + 1)
        fraction = rng.choice([0, 1, (1 << m_bits) - 1, rng.getrandbits(m_bits), rng.getrandbits(m_bits)])
        words.append(rng.getrandbits(1) << e_bits + m_bits | (e & top) << m_bits | fraction)
    return words


def check_sum(rng, page, lib, formats):
    """One random sum by the page and by the code; a complaint if they differ."""
    number, name, e, m, size, r = rng.choice(formats)
    mode, rounding, workers = rng.randrange(1, 4 if name == "fp64" else 5), rng.randrange(1, 3), rng.choice([1, 2, 3, 8, 16])
    g = 0
    if mode == 3:
        r, g = 64, 63 - (m + 1) - (workers - 1).bit_length()
    words = random_words(rng, e, m)[:workers]
    want = lib.wire_sum((ctypes.c_uint64 * len(words))(*words), len(words), number, mode, rounding, workers)
    got = page["recompute"](words, mode, rounding, e, m, r, g, name == "e4m3")
    if got == want:
        return None
    return "%s sum of %s, mode %d, rounding %d, %d workers: page %x, code %x" % (
        name, ["%x" % w for w in words], mode, rounding, workers, got, want)


def main():
    text = open(PAGE, encoding="utf-8").read()
    page = page_functions(text)
    frame = example(page["checksum"])
    if sys.argv[1:] == ["--dump"]:
        print(dump(frame))
        return 0
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(2**32)
    print("check_wire: seed %d" % seed)
    rng = random.Random(seed)
    lib = rules.build("wire.c")
    lib.wire_checksum.restype = ctypes.c_uint32
    lib.wire_sum.restype = ctypes.c_uint64
    formats = [tuple(int(x) if x.isdigit() else x for x in row) for row in FORMAT.findall(text)]
    bad = []

    shown = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} ?)+)$", text, re.M)
    if bytes.fromhex("".join(shown)) != frame:
        bad.append("the frame that the page shows is not the one that it describes; see --dump")
    for _ in range(200):
        d = rng.randbytes(76 + 8 * rng.randrange(0, 417))
        if page["checksum"](d) != lib.wire_checksum(d, (len(d) - 76) // 8):
            bad.append("checksum of %d random bytes" % len(d))
    value = page["checksum"](frame[42:])
    if struct.unpack_from("<I", frame, 114)[0] != value or "0x%08x" % value not in text:
        bad.append("the example's checksum is 0x%08x" % value)
    bad += filter(None, (check_sum(rng, page, lib, formats) for _ in range(CASES)))
    for line in bad[:10]:
        print("check_wire: " + line, file=sys.stderr)
    print("check_wire: %d sums in %d formats, 200 checksums, %d wrong" % (CASES, len(formats), len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
