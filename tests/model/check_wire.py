#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check doc/wire.md against the code. The page's Python functions and example frame are compared with the C headers (wire.c), and the
example with the text around it.

    check_wire.py [SEED]    check; exit with an error if something differs
    check_wire.py --dump    print the example frame as the page shows it
"""

import ctypes
import os
import random
import re
import struct
import sys

import rules

PAGE = os.path.join(rules.HERE, "..", "..", "doc", "wire.md")
ROUNDS = 12  # rounds of 32 elements, for each format, mode and operation
REASON = re.compile(r"^\| (\d+) \| (\w+) \| [^|]+ \| [^|]*\|$", re.M)
FORMAT = re.compile(r"^\| (\d) \| (\w+) \| (?:(\d+) )?\| (?:(\d+) )?\| (\d) \| \d+ \|", re.M)


def page_functions(text):
    """Return all functions of the page in one namespace, as a client would define them."""
    space = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, space)
    return space


def ip_checksum(header):
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


def example(checksum, calls):
    """Return the frame that section 4 of the page describes."""
    payload = struct.pack("<32f", *[0.5 * (i + 1) for i in range(20)], *[0.0] * 12)
    chunk, window = 70, 64
    slot = 2 * (chunk % window) + chunk // window % 2
    h = struct.pack("<HBBBBBBIIIHHQQIHHQQQ", 0x5046, 3, 3, 0, 0, 1, 1, 7, 5, slot, 1, 32, chunk, calls, 0, 0, 0,
                    0x1122334455667788, 0, 0)
    datagram = h + struct.pack("<I", checksum(h + bytes(4) + payload)) + payload
    udp = struct.pack(">HHHH", 18000, 18000, 8 + len(datagram), 0)
    ip = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 28 + len(datagram), 0, 0x4000, 64, 17, 0, 10, 0, 0, 3, 10, 0, 0, 1)
    ip = ip[:10] + struct.pack(">H", ip_checksum(ip)) + ip[12:]
    ether = bytes.fromhex("020000000001" "020000000003" "0800")
    return ether + ip + udp + datagram


def dump(frame):
    return "\n".join("%04x  %s" % (i, frame[i:i + 16].hex(" ")) for i in range(0, len(frame), 16))


def random_words(rng, n, e_bits, m_bits):
    """Return the packed words of one element. They have near or distant exponents, specials, cancellation, or few bits set."""
    top, base = (1 << e_bits) - 1, rng.randrange(1 << e_bits)
    reach = rng.choice([0, m_bits // 2 + 1, 2 * m_bits, top])
    words = []
    for _ in range(n):
        e = rng.choice([0, 1, top - 1, top]) if rng.random() < 0.05 else base + rng.randrange(-reach, reach + 1)
        fraction = rng.choice([0, 1, (1 << m_bits) - 1, rng.getrandbits(m_bits), rng.getrandbits(m_bits)])
        words.append(rng.getrandbits(1) << e_bits + m_bits | (e & top) << m_bits | fraction)
        if len(words) > 1 and rng.random() < 0.2:
            words[-1] = words[-2] ^ 1 << e_bits + m_bits
    return words


def random_block(rng, n):
    """Return scales and elements of one block of mxint8."""
    base, reach, size = rng.randrange(256), rng.choice([0, 4, 40]), rng.choice([1, 15, 127, 127])
    for _ in range(n):
        scale = 255 if rng.random() < 0.02 else min(max(base + rng.randrange(-reach, reach + 1), 0), 254)
        most = 0 if rng.random() < 0.1 else size
        yield scale, [rng.choice([-128, 127]) if most and rng.random() < 0.1 else rng.randrange(-most, most + 1)
                      for _ in range(32)]


def random_payloads(rng, n, name, e, m, size, order):
    if name == "mxint8":
        return [bytes([scale]) + bytes(31) + struct.pack("32b", *k) for scale, k in random_block(rng, n)]
    if name == "int32":
        columns = [[rng.choice([rng.getrandbits(32), rng.getrandbits(16), 2**31 - 1, 2**31]) for _ in range(n)]
                   for _ in range(32)]
    else:
        columns = [random_words(rng, n, e, m) for _ in range(32)]
    return [struct.pack(order + "32" + {1: "B", 2: "H", 4: "I", 8: "Q"}[size], *row) for row in zip(*columns)]


def random_factor(rng, name):
    factor = rng.choice([-1, 1]) * rng.choice([1, 1 / 3, rng.uniform(1, 2)]) * 2.0 ** rng.randrange(-90, 90)
    return factor if name == "fp64" else struct.unpack("f", struct.pack("f", factor))[0]


def check_round(rng, page, lib, row, mode, op):
    """Compute 32 random elements with the functions of the page and with the code. Return a complaint if the results differ."""
    number, name, e, m, size = row
    n, workers = rng.choice([1, 2, 3, 8]), rng.choice([8, 9, 16, 64])
    rounding, reciprocal, big = rng.randrange(1, 3), op == 4 and rng.random() < 0.5, size > 1 and rng.random() < 0.25
    factor = random_factor(rng, name)
    payloads = random_payloads(rng, n, name, e, m, size, "<>"[big])
    out = ctypes.create_string_buffer(lib.wire_bytes(number, 1))
    lib.wire_round(ctypes.create_string_buffer(b"".join(payloads)), n, 1, number, mode, rounding, workers, big | reciprocal << 1, op,
                   ctypes.c_double(factor), out)
    got = page["recompute"](payloads, number, op, mode, rounding, workers, factor, reciprocal, big)
    if got == out.raw:
        return None
    at = next(i for i in range(len(got)) if got[i] != out.raw[i]) // size * size
    return "%s of %s, mode %d, rounding %d, %d of %d workers%s%s, factor %r, at byte %d: %s: page %s, code %s" % (
        name, ("", "sum", "min", "max", "avg", "scale", "norm")[op], mode, rounding, n, workers,
        ", reciprocal" * reciprocal, ", big-endian" * big, factor, at,
        " ".join(p[at:at + size].hex() for p in payloads), got[at:at + size].hex(), out.raw[at:at + size].hex())


def tag_of_example(page, frame):
    """Return the tag of the frame of section 4 in a job with the token of section 4.1."""
    token, cookie, chunk = [0x0123456789abcdef, 0], *struct.unpack_from("<Q", frame, 42 + 48), 70
    data = frame[42:42 + 48] + struct.pack("<QQ", cookie, 0) + frame[118:]
    return page["tag"](page["derive"](token, 2, 1, cookie), page["nh_key"](token, len(data) // 8 + 2), chunk, data)


def check_tags(rng, page, lib):
    """Compare the tags of random words under keys of every use."""
    bad = []
    for _ in range(40):
        token = [rng.getrandbits(64) for _ in range(2)]
        use, rank, of, first = rng.randint(1, 3), rng.randrange(64), rng.getrandbits(64), rng.getrandbits(64)
        data = rng.randbytes(8 * rng.randint(1, 40))
        words = len(data) // 8
        mine = page["tag"](page["derive"](token, use, rank, of), page["nh_key"](token, words + 2), first, data)
        theirs = lib.wire_tag(ctypes.c_uint64(token[0]), ctypes.c_uint64(token[1]), use, rank, ctypes.c_uint64(of),
                              ctypes.c_uint64(first), data, words)
        if mine != theirs:
            bad.append("tag of %d words: page %x, code %x" % (words, mine, theirs))
    return bad


def check_digests(rng, page, lib):
    """Compare random histories of calls between the page and the code."""
    bad = []
    for _ in range(200):
        mine = theirs = 0
        for _ in range(rng.randrange(1, 5)):
            call = (rng.randrange(1, 7), rng.randrange(1, 9), rng.choice([0, rng.getrandbits(64)]), rng.getrandbits(40),
                    rng.choice([0, rng.getrandbits(64)]))
            mine = page["digest"](mine, *call)
            theirs = lib.wire_digest(*(ctypes.c_uint64(x) for x in (theirs,) + call))
        if mine != theirs:
            bad.append("digest after %s: page %x, code %x" % (call, mine, theirs))
    return bad


def check_reasons(text):
    """Check that the page gives the reasons of ERROR the numbers of verdict.h."""
    verdicts = rules.load()
    shown = [(int(n), name) for n, name in REASON.findall(text[text.index("\n## 8."):])]
    bad = ["reason %d is %s in the page, %s in the code" % (n, name, verdicts.rules_verdict(n).decode())
           for n, name in shown if verdicts.rules_verdict(n) != name.encode()]
    return bad if shown else ["the page has no reasons"]


def main():
    text = open(PAGE, encoding="utf-8").read()
    page = page_functions(text)
    frame = example(page["checksum"], page["digest"](0, 1, 1, 0, 2260, 0))
    if sys.argv[1:] == ["--dump"]:
        print(dump(frame))
        return 0
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(2**32)
    print("check_wire: seed %d" % seed)
    rng = random.Random(seed)
    lib = rules.build("wire.c")
    lib.wire_checksum.restype = ctypes.c_uint32
    lib.wire_digest.restype = lib.wire_tag.restype = ctypes.c_uint64
    formats = [tuple(int(x) if x.isdigit() else x for x in row) for row in FORMAT.findall(text)]
    chosen = [(row, mode, op) for row in formats for mode in range(1, 5) for op in range(1, 7)
              if lib.wire_offered(row[0], mode, op)]
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
    if "0x%016x" % tag_of_example(page, frame) not in text:
        bad.append("the example's tag is 0x%016x" % tag_of_example(page, frame))
    bad += check_tags(rng, page, lib) + check_digests(rng, page, lib) + check_reasons(text)
    bad += filter(None, (check_round(rng, page, lib, *c) for c in chosen for _ in range(ROUNDS)))
    for line in bad[:10]:
        print("check_wire: " + line, file=sys.stderr)
    print("check_wire: %d combinations of %d formats with modes and operations, %d elements of each, 200 checksums, "
          "%d wrong" % (len(chosen), len(formats), 32 * ROUNDS, len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
