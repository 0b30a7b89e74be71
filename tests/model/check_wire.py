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
CASES = 40000


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


def random_words(rng):
    """A few FP32 words whose exponents are near each other, or not, or special."""
    base = rng.randrange(256)
    words = []
    for _ in range(rng.randrange(1, 9)):
        e = rng.choice([0, 1, 254, 255]) if rng.random() < 0.05 else (base + rng.randrange(-12, 13)) % 256
        fraction = rng.choice([0, 1, 0x7fffff, rng.getrandbits(23), rng.getrandbits(23)])
        words.append(rng.getrandbits(1) << 31 | e << 23 | fraction)
    return words


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
    lib.wire_checksum.restype = lib.wire_sum.restype = ctypes.c_uint32
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
    for _ in range(CASES):
        words, mode, rounding = random_words(rng), rng.randrange(1, 3), rng.randrange(1, 3)
        c = lib.wire_sum((ctypes.c_uint32 * len(words))(*words), len(words), mode, rounding)
        if page["recompute"](words, mode, rounding) != c:
            bad.append("sum of %s, mode %d, rounding %d: %08x" % (["%08x" % w for w in words], mode, rounding, c))
    for line in bad[:10]:
        print("check_wire: " + line, file=sys.stderr)
    print("check_wire: %d sums, 200 checksums, %d wrong" % (CASES, len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
