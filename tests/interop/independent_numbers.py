# SPDX-License-Identifier: GPL-2.0-only
"""The numbers of independent_client.py: payloads of every format, and the bits that every operation gives. This program too is written only
from doc/wire.md, in Python's standard library, without any code of this project. "section N" below refers to that page.

Values and registers are exact fractions in units of the smallest subnormal, and Fraction rounds. The method deliberately differs from the
page's own text.
"""

import math
import random
import struct
from fractions import Fraction

FP64, E4M3, INT32, MXINT8 = 4, 5, 7, 8
FORMATS = {  # section 3: exponent bits, fraction bits, bytes
    1: (8, 23, 4), 2: (5, 10, 2), 3: (8, 7, 2), FP64: (11, 52, 8), E4M3: (4, 3, 1), 6: (5, 2, 1), INT32: (0, 31, 4),
    MXINT8: (8, 6, 1)}
OPS = {"sum": 1, "min": 2, "max": 3, "avg": 4, "scale": 5, "norm": 6}  # section 6.1
FPISA, FPISA_A, FPISA64, EXACT = range(1, 5)  # section 5
DOWN, NEAREST = 1, 2
BIG_ENDIAN, RECIPROCAL = 1, 2  # flags of section 5
NAN = "nan"


class Numbers:
    """The numbers of a job, from the payload of its WELCOME (section 5)"""

    def __init__(self, welcome):
        _, _, self.workers, _, self.mode, self.rounding, self.format = struct.unpack_from("<IHHHBBB", welcome)
        if self.format not in FORMATS:
            raise ValueError("the job's number format is %d, not one of section 3" % self.format)
        self.ebits, self.mbits, self.bytes = FORMATS[self.format]
        self.reciprocal = bool(welcome[32] & RECIPROCAL)
        self.code = (">" if welcome[32] & BIG_ENDIAN else "<") + "%d" + {1: "B", 2: "H", 4: "I", 8: "Q"}[self.bytes]
        self.natural = 64 if self.format == FP64 else 32

    # -- payloads (section 3)

    def size(self, count):
        return count * self.bytes + (32 if self.format == MXINT8 else 0)

    def cut(self, values, elements):
        """Return the payloads of a vector. Values are packed words. In mxint8 they are blocks (scale, 32 elements)."""
        if self.format == MXINT8:
            step = elements // 32
            for i in range(0, len(values), step):
                part = values[i:i + step]
                yield (bytes(scale for scale, _ in part).ljust(32, b"\0") +
                       b"".join(struct.pack("32b", *k) for _, k in part))
            return
        for i in range(0, len(values), elements):
            part = values[i:i + elements]
            part = part + [0] * (-len(part) % 32)
            yield struct.pack(self.code % len(part), *part)

    def values(self, payload):
        if self.format != MXINT8:
            return struct.unpack(self.code % (len(payload) // self.bytes), payload)
        return [(payload[b], struct.unpack_from("32b", payload, 32 * (b + 1))) for b in range(len(payload) // 32 - 1)]

    def random_values(self, seed, count):
        """Return values of any kind, most of them near 1. The same seed gives the same values."""
        rng = random.Random(seed)
        if self.format == MXINT8:
            return [(255 if rng.random() < 0.01 else rng.randrange(120, 135),
                     [0] * 32 if rng.random() < 0.1 else [rng.randrange(-128, 128) for _ in range(32)])
                    for _ in range(count // 32)]
        if self.format == INT32:
            return [rng.getrandbits(32) >> rng.choice([0, 0, 8]) for _ in range(count)]
        bias, words = 2 ** (self.ebits - 1) - 1, []
        for _ in range(count):
            word = rng.getrandbits(8 * self.bytes)
            if rng.random() < 0.9:
                e = bias + rng.randrange(-5, 6)
                word = word >> self.ebits + self.mbits << self.ebits | e
                word = word << self.mbits | rng.getrandbits(self.mbits)
            words.append(word)
        return words

    # -- one element (section 7.3)

    def decode(self, word):
        """Decode a packed value. Return NAN, an infinity, or its sign and (exponent, integer)."""
        field, fraction = word >> self.mbits & 2 ** self.ebits - 1, word & 2 ** self.mbits - 1
        sign = -1 if word >> self.ebits + self.mbits else 1
        if field == 2 ** self.ebits - 1:
            if self.format == E4M3:
                if fraction == 7:
                    return NAN
            else:
                return NAN if fraction else sign * math.inf
        if field == 0:
            return sign, 1, fraction
        return sign, field, fraction + 2 ** self.mbits

    def special(self, value):
        infinity = 2 ** self.ebits - 1 << self.mbits
        if self.format == E4M3:
            return infinity + 7
        if value == NAN:
            return infinity + 2 ** (self.mbits - 1)
        return infinity + (2 ** (self.ebits + self.mbits) if value < 0 else 0)

    def accumulate(self, entries):
        """Add signed integers n of exponents e, in order. Return n and e of the register, and the exponent of the register's last bit."""
        wide, spare = self.natural, 0
        if self.mode == EXACT:
            return sum(n * 2 ** (e - 1) for e, n in entries), 1
        if self.mode == FPISA64:
            wide, spare = 64, 63 - (self.mbits + 1) - math.ceil(math.log2(self.workers))
        headroom = wide - 1 - (self.mbits + 1) - spare
        register, at = None, 0
        for e, n in entries:
            n = math.floor(n * Fraction(2) ** spare)
            if register is None:
                register, at = n, e
                continue
            if e <= at:
                n //= 2 ** min(at - e, wide)
            elif self.mode != FPISA_A:
                register, at = register // 2 ** min(e - at, wide), e
            elif e - at <= headroom:
                n *= 2 ** (e - at)
            else:
                register, at = 0, e
            register += n
            if register >= 2 ** (wide - 1):
                register = 2 ** (wide - 1) - 1
            elif register < -2 ** (wide - 1):
                register = -2 ** (wide - 1)
        return register, at - spare

    def finish(self, op, factor, n, register, at):
        """Return the operation's result for a sum, in units of the smallest subnormal."""
        if op == OPS["norm"]:
            # The exponent of a square is doubled, with a factor 2^(1 - M). Compute the root with more bits than any rounding needs, and
            # append a sticky bit.
            square = register * Fraction(2) ** (at - 2 + 1 - self.mbits + 2 * self.mbits) * 4 ** 200
            root = math.isqrt(math.floor(square))
            return Fraction(2 * root + (root * root != square), 2 ** 201)
        value = register * Fraction(2) ** (at - 1)
        if op == OPS["scale"]:
            return value * Fraction(factor)
        if op == OPS["avg"] and self.reciprocal:
            unit = Fraction(2) ** ((53 if self.format == FP64 else 24) - 1 + math.ceil(math.log2(n)))
            return value * round(unit / n) / unit
        return value / n if op == OPS["avg"] else value

    def round(self, value):
        return round(value) if self.rounding == NEAREST else math.floor(value)

    def encode(self, value):
        unit = max(math.floor(abs(value)).bit_length() - self.mbits - 1, 0)  # exponent of the result's last place
        n = self.round(value / 2 ** unit)
        word = unit * 2 ** self.mbits + abs(n)
        if word >= self.special(math.inf):
            return self.special(math.inf if n > 0 else -math.inf)
        return word + (2 ** (self.ebits + self.mbits) if n < 0 else 0)

    def extreme(self, op, words):
        pick = min if op == OPS["min"] else max

        def order(word):
            value = self.decode(word)
            if value == NAN:
                return math.inf, 1
            if isinstance(value, float):
                return value, 0
            sign, e, n = value
            return sign * n * 2 ** (e - 1), 0

        best = pick(words, key=order)
        if order(best) == (math.inf, 1):
            return self.special(NAN)
        return best if order(best)[0] else 0

    def element(self, op, factor, words):
        """Return the packed result for packed words in the order of arrival."""
        if self.format == INT32:
            signed = [w - 2 ** 32 if w >= 2 ** 31 else w for w in words]
            total = signed[0]
            for w in signed[1:]:
                total = min(max(total + w, -2 ** 31), 2 ** 31 - 1)
            return {1: total, 2: min(signed), 3: max(signed)}[op] % 2 ** 32
        if op in (OPS["min"], OPS["max"]):
            return self.extreme(op, words)
        specials, entries = set(), []
        for value in map(self.decode, words):
            if value == NAN or isinstance(value, float):
                specials.add(value)  # a special decides the result, whatever the other values are
            elif op == OPS["norm"]:
                _, e, n = value
                entries.append((2 * e, Fraction(n * n, 2 ** (self.mbits + 1))))
            else:
                sign, e, n = value
                entries.append((e, sign * n))
        if op == OPS["norm"]:
            specials = {abs(s) if isinstance(s, float) else s for s in specials}
        if op == OPS["scale"] and factor < 0:
            specials = {-s if isinstance(s, float) else s for s in specials}
        if specials:
            return self.special(specials.pop() if len(specials) == 1 else NAN)
        return self.encode(self.finish(op, factor, len(words), *self.accumulate(entries)))

    def block(self, op, factor, blocks):
        """Return the result for a block of mxint8."""
        if any(scale == 255 for scale, _ in blocks):
            return 255, (0,) * 32
        exponents = [scale + 1 if any(k) else 1 for scale, k in blocks]
        sums = [self.finish(op, factor, len(blocks), *self.accumulate(list(zip(exponents, lane))))
                for lane in zip(*(k for _, k in blocks))]
        largest = math.floor(max(map(abs, sums)))
        for scale in range(255):
            if largest >= 128 * 2 ** scale:
                continue
            k = tuple(self.round(x / 2 ** scale) for x in sums)
            if max(map(abs, k)) <= 127:
                return scale, k
        return 255, (0,) * 32

    def wrong(self, op, factor, contributions, result):
        """Count the elements (blocks) of a RESULT's payload that differ from the sum in the order of arrival."""
        one = self.block if self.format == MXINT8 else self.element
        columns = zip(*map(self.values, contributions))
        return sum(one(op, factor, words) != got for words, got in zip(columns, self.values(result)))
