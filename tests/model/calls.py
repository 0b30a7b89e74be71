# SPDX-License-Identifier: GPL-2.0-only
"""Model one generation that breaks. From some chunk on, worker 0 makes other calls than the rest (same lengths, another digest), or the
programs of the pipeline are missing. No sum may mix calls or hold half a contribution. Every worker must get an error, although a waiting
worker sends only its oldest chunk again (user/lib/window.c holds the others).

As in chunks.py, a sent frame may arrive at any later time.

State: (received, told, broken, slots). received holds a bitmap of chunks for each worker, told is a bitmap of workers that have an error,
and broken is the verdict with which the generation broke, or 0.
"""

from explore import Violation
from rules import BREAKS, EMITS, EMPTY, REGS, SAME

GENERATION = 1
OTHER = 2  # digest of worker 0's calls
HALF = 3  # replaces the digest in the tag of a contribution that was lost between admission and the registers
NEVER = 1 << 30


class Calls:
    def __init__(self, rules, chunks, differ=NEVER, missing=NEVER, broken_ignored=False):
        """differ: the first chunk of the calls that differ. missing: the first chunk at which one contribution may be lost between
        admission and the registers. broken_ignored: a breach affects only its own round.
        """
        self.rules, self.chunks, self.differ, self.missing = rules, chunks, differ, missing
        self.broken_ignored = broken_ignored
        self.n, self.w = rules.workers, rules.window
        self.live = (1 << self.n) - 1

    def initial(self):
        return ((0,) * self.n, 0, 0, (EMPTY,) * (2 * self.w))

    def sent(self, chunk, received):
        return chunk < self.w or received >> (chunk - self.w) & 1

    def finished(self, s):
        """All workers get an error. If programs are missing, only the workers that lack a result get one."""
        done = 0 if self.missing == NEVER else sum(1 << k for k, r in enumerate(s[0]) if r == (1 << self.chunks) - 1)
        return s[1] | done == self.live

    def steps(self, s):
        return [(("lose" if lost else "add", k, c), after) for k in range(self.n) for c in range(self.chunks)
                for lost in range(1 + (c >= self.missing and not s[2]))
                if self.sent(c, s[0][k]) and (after := self.add(s, k, c, lost)) != s]

    def fair(self, s):
        for k in range(self.n):
            c = next(c for c in range(self.chunks + 1) if not s[0][k] >> c & 1)
            if c < self.chunks and not s[1] >> k & 1 and (after := self.add(s, k, c)) != s:
                return after
        return None

    def add(self, s, k, c, lost=0):
        """Deliver the ADD of worker k for chunk c. The answer arrives at k. A new result arrives at all workers."""
        received, told, broken, slots = s
        digest = OTHER if k == 0 and c >= self.differ else SAME
        code, i, after = self.rules.frame(slots, k, c, GENERATION, (k, c, HALF if lost else digest), self.live,
                                          self.live, GENERATION, digest, 0 if self.broken_ignored else broken, lost)
        if code < 0:
            if self.rules.verdict(code) in ("mismatch", "pipeline"):
                told |= 1 << k
            if -code & BREAKS:
                broken = -code & 0xff
            return received, told, broken, after
        if code & EMITS:
            if len({tag[2] for tag in after[i][REGS]}) > 1:
                raise Violation("a sum mixes different calls: %s" % (after[i][REGS],), ("add", k, c))
            received = received[:k] + (received[k] | 1 << c,) + received[k + 1:]
        return received, told, broken, after


def text(label):
    return ("ADD of worker %d, chunk %d, reaches the aggregator" % label[1:] +
            (", whose programs are missing halfway" if label[0] == "lose" else ""))
