# SPDX-License-Identifier: GPL-2.0-only
"""Model a reduce-scatter in one generation. A result has its payload only for the ranks that keep it, and a rank that keeps it does not take
a result without payload. Some workers may name no keepers, because their library does not know them. They need every payload.

The state is that of chunks.py. results also holds, for each chunk, the bitmaps of the workers to which a result with payload was sent, and
one without payload.
"""

from chunks import Chunks
from explore import Violation
from rules import KEEPERS, RESEND, SAME

# The first and last keeper of chunk 0, 1, 2 and so on. No rank keeps the last of them.
PARTS = (0, 0), (1, 1), (0, 1), (1, 0)


class Keepers(Chunks):
    def __init__(self, rules, chunks, old=0, takes_any=False, resends_bare=False, to_keepers_only=False, **options):
        """old: bitmap of workers that do not know keepers. takes_any: workers take results
        without payload as any other. resends_bare: a kept result has no payload. to_keepers_only: other ranks get no result.
        """
        super().__init__(rules, chunks, **options)
        self.old, self.takes_any, self.resends_bare, self.to_keepers_only = old, takes_any, resends_bare, to_keepers_only

    def keeps(self, k, c):
        first, last = PARTS[c % len(PARTS)]
        return bool(self.old >> k & 1) or first <= k <= last

    def calls(self, k, c):
        return SAME, 0, 0, 0 if self.old >> k & 1 else self.rules.keepers(*PARTS[c % len(PARTS)])

    def sends(self, k, code, slot):
        """Return the workers that get a result with payload, and without, when the aggregator sends a result because of worker k."""
        resent = code & 0xff == RESEND
        to, kept = 1 << k if resent else self.full, self.rules.kept_by(slot[KEEPERS])
        whole = 0 if resent and self.resends_bare else to & kept
        return whole, 0 if self.to_keepers_only else to & ~whole

    def copies(self, before, result, k, code, slot):
        whole, bare = before[3:] if before else (0, 0)
        more_whole, more_bare = self.sends(k, code, slot)
        return result + (whole | more_whole, bare | more_bare)

    def answer(self, s, k, c, code, slot):
        return self.take(s, k, c, *self.sends(k, code, slot))

    def accept(self, s, k, c):
        return self.take(s, k, c, *s[3][c][3:])

    def take(self, s, k, c, whole, bare):
        """Deliver one of these results to worker k, if it gets one that it takes."""
        if whole >> k & 1 or (bare >> k & 1 and not self.keeps(k, c)):
            return super().accept(s, k, c)
        if bare >> k & 1 and self.takes_any and self.sent(k, c, s[1][k]):
            raise Violation("worker %d keeps chunk %d and takes its result without payload" % (k, c), ("result", k, c))
        return s
