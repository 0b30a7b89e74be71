# SPDX-License-Identifier: GPL-2.0-only
"""
One generation in which worker 0 makes other calls than the rest from some
chunk on: same lengths, another digest. No sum may mix them, and every worker
has to be told, though a worker sends only its oldest chunk again once it
waits (user/lib/window.c holds the others).

The network forgets nothing, as in chunks.py.

State: (received, told, broken, slots). received holds a bitmap of chunks a
worker, told a bitmap of workers; broken: the aggregator has seen it.
"""

from explore import Violation
from rules import BREAKS, EMITS, EMPTY, REGS, SAME

GENERATION = 1
OTHER = 2  # the digest of worker 0's calls


class Calls:
    def __init__(self, rules, chunks, differ, broken_ignored=False):
        """differ: the first chunk of the calls that differ. broken_ignored: a mismatch is its round's alone."""
        self.rules, self.chunks, self.differ, self.broken_ignored = rules, chunks, differ, broken_ignored
        self.n, self.w = rules.workers, rules.window
        self.live = (1 << self.n) - 1

    def initial(self):
        return ((0,) * self.n, 0, 0, (EMPTY,) * (2 * self.w))

    def sent(self, chunk, received):
        return chunk < self.w or received >> (chunk - self.w) & 1

    def finished(self, s):
        return s[1] == self.live

    def steps(self, s):
        return [(("add", k, c), after) for k in range(self.n) for c in range(self.chunks)
                if self.sent(c, s[0][k]) and (after := self.add(s, k, c)) != s]

    def fair(self, s):
        for k in range(self.n):
            c = next(c for c in range(self.chunks + 1) if not s[0][k] >> c & 1)
            if c < self.chunks and not s[1] >> k & 1 and (after := self.add(s, k, c)) != s:
                return after
        return None

    def add(self, s, k, c):
        """ADD of worker k for chunk c arrives; what is answered arrives at k, a new result at all."""
        received, told, broken, slots = s
        digest = OTHER if k == 0 and c >= self.differ else SAME
        code, i, after = self.rules.frame(slots, k, c, GENERATION, (k, c, digest), self.live, self.live, GENERATION,
                                          digest, broken and not self.broken_ignored)
        if code < 0:
            if self.rules.verdict(code) == "mismatch":
                told |= 1 << k
            broken |= bool(-code & BREAKS)
            return received, told, broken, slots
        if code & EMITS:
            if len({tag[2] for tag in after[i][REGS]}) > 1:
                raise Violation("a sum of calls that differ: %s" % (after[i][REGS],), ("add", k, c))
            received = received[:k] + (received[k] | 1 << c,) + received[k + 1:]
        return received, told, broken, after


def text(label):
    return "ADD of worker %d, chunk %d, reaches the aggregator" % label[1:]
