# SPDX-License-Identifier: GPL-2.0-only
"""Model a tree of two levels in one generation: ranks, leaves and a root.

The leaves run the rules of chunks.py. When the round of a leaf is complete, the leaf sends its partial sum to the root in several parts,
each in its own frame. As in chunks.py, a sent frame may arrive at any time, any number of times, or never.

State: (live of each leaf, live of the root, received of each rank, slots of each leaf, slots of the root, ups, results, broken). A slot of
the root is (slot as in rules.py, torn, contributors, planes of each leaf that have been added). ups holds the partial sum that each leaf
has sent for each chunk, (bitmap, tags). results is as in chunks.py.
"""

from explore import Violation
from rules import BITMAP, BREAKS, CHUNK, DONE, EMITS, EMPTY, FINISH, ORDER, REGS, RESEND, SET, Rules, u64

GENERATION = 1


class Root:
    """The rules of the root as the datapath has them, for parts of partial sums"""

    def __init__(self, lib, workers, window, parts):
        self.lib, self.workers, self.window, self.parts = lib, workers, window, parts
        self.known = {}
        self.names = Rules(lib, workers, window).names
        self.empty = (EMPTY, 0, 0, (0,) * workers)

    def verdict(self, code):
        return self.names[-code & 0xff]

    def part(self, slot, rank, chunk, plane, contributors, door, live, broken):
        """Return (code, the slot after the part, without its tags)."""
        fields, torn, total, planes = slot
        key = (fields[:REGS], torn, total, planes, rank, chunk, plane, contributors, door, live, broken)
        if key not in self.known:
            r, x = (u64 * REGS)(*fields[:REGS]), (u64 * (2 + self.workers))(torn, total, *planes)
            code = self.lib.rules_part(r, x, self.workers, self.window, rank, chunk, plane, self.parts, contributors, door,
                                       live, broken)
            self.known[key] = code, tuple(r), x[0], x[1], tuple(x[2:])
        return self.known[key]

    def frame(self, slots, rank, chunk, plane, content, door, live, broken):
        """Deliver one part. Return (code, index, slots after the part)."""
        i = self.lib.rules_slot_of(chunk, self.window)
        code, fields, torn, total, planes = self.part(slots[i], rank, chunk, plane, len(content[1]), door, live, broken)
        regs = slots[i][0][REGS]
        if code < 0:
            return code, i, slots
        if code & 0xff == SET:
            regs = ((rank, chunk, plane, content),)
        elif code & 0xff == SET + 1:
            regs = tuple(sorted(regs + ((rank, chunk, plane, content),)))
        fields = fields[:ORDER] + (0,) + fields[ORDER + 1:]
        return code, i, slots[:i] + ((fields + (regs,), torn, total, planes),) + slots[i + 1:]


class PartCounts(Root):
    """With this broken rule, a leaf is in the bitmap as soon as one of its parts is in the registers."""

    def frame(self, slots, rank, chunk, plane, content, door, live, broken):
        whole, self.parts = self.parts, 1
        answer = super().frame(slots, rank, chunk, plane, content, door, live, broken)
        self.parts = whole
        return answer


class PartTwice(Root):
    """This broken rule does not record the planes that are in the registers, so a copy of a part is added again."""

    def part(self, slot, rank, chunk, plane, *rest):
        fields, torn, total, planes = slot
        if planes[rank] == 1 << plane:  # record the other plane instead
            slot = (fields, torn, total, planes[:rank] + (1 << (plane ^ 1),) + planes[rank + 1:])
            code, fields, torn, total, after = super().part(slot, rank, chunk, plane, *rest)
            return code, fields, torn, total, after
        return super().part(slot, rank, chunk, plane, *rest)


class TornCounted(Root):
    """With this broken rule, a round goes on although the partial sum of a removed leaf is half added."""

    def part(self, slot, *rest):
        found = super().part(slot, *rest)
        if found[0] < 0 and -found[0] & BREAKS:
            fields = slot[0][:DONE] + (1,) + slot[0][DONE + 1:REGS]
            return FINISH | EMITS, fields, slot[1], slot[2], slot[3]
        return found


class Trees:
    def __init__(self, leaf, root, chunks, ranks=2, shrink_rank=0, shrink_leaf=0, absorbs=False, early=False):
        """absorbs: a leaf never sends a partial sum again. early: the timer of a leaf seals rounds that are not complete."""
        self.leaf, self.root, self.chunks, self.ranks = leaf, root, chunks, ranks
        self.leaves, self.shrink_rank, self.shrink_leaf = root.workers, shrink_rank, shrink_leaf
        self.absorbs, self.early = absorbs, early
        self.all_ranks, self.all_leaves, self.all_chunks = (1 << ranks) - 1, (1 << self.leaves) - 1, (1 << chunks) - 1

    def initial(self):
        return ((self.all_ranks,) * self.leaves, self.all_leaves, (0,) * (self.leaves * self.ranks),
                ((EMPTY,) * (2 * self.leaf.window),) * self.leaves, (self.root.empty,) * (2 * self.root.window),
                ((None,) * self.chunks,) * self.leaves, (None,) * self.chunks, 0)

    def is_live(self, s, k):
        leaf, rank = divmod(k, self.ranks)
        return s[1] >> leaf & 1 and s[0][leaf] >> rank & 1

    def sent(self, chunk, received):
        return chunk < self.leaf.window or received >> (chunk - self.leaf.window) & 1

    def finished(self, s):
        return bool(s[7]) or all(s[2][k] == self.all_chunks for k in range(self.leaves * self.ranks) if self.is_live(s, k))

    def steps(self, s):
        out = []

        def put(label, after):
            if after != s:
                out.append((label, after))

        if s[7]:
            return out
        for k in range(self.leaves * self.ranks):
            for c in range(self.chunks):
                if self.sent(c, s[2][k]):
                    for door in {s[0][k // self.ranks], self.all_ranks}:
                        put(("add", k, c), self.add(s, k, c, door)[0])
                if s[6][c] is not None:
                    put(("result", k, c), self.accept(s, k, c))
        for leaf in range(self.leaves):
            for c in range(self.chunks):
                for plane in range(self.root.parts if s[5][leaf][c] is not None else 0):
                    for door in {s[1], self.all_leaves}:
                        put(("part", leaf, c, plane), self.part(s, leaf, c, plane, door)[0])
            if self.shrink_rank > sum(self.ranks - bin(x).count("1") for x in s[0]):
                for rank in range(self.ranks):
                    rest = s[0][leaf] & ~(1 << rank)
                    if rest:
                        put(("shrink", leaf, rank), (s[0][:leaf] + (rest,) + s[0][leaf + 1:],) + s[1:])
            if self.shrink_leaf > self.leaves - bin(s[1]).count("1") and s[1] & ~(1 << leaf):
                put(("shrink leaf", leaf), (s[0], s[1] & ~(1 << leaf)) + s[2:])
        return out

    def fair(self, s):
        for k in range(self.leaves * self.ranks):
            if not self.is_live(s, k):
                continue
            leaf = k // self.ranks
            for c in range(self.chunks):
                if s[2][k] >> c & 1 or not self.sent(c, s[2][k]):
                    continue
                after, goes_up = self.add(s, k, c, s[0][leaf])
                for plane in range(self.root.parts if goes_up else 0):
                    after, comes = self.part(after, leaf, c, plane, after[1])
                    if comes:
                        after = self.accept(after, k, c)
                if after != s:
                    return after
        return None

    def add(self, s, k, c, door):
        """Deliver the ADD of rank k to its leaf. Return the state after it, and whether the leaf sends the partial sum to the root."""
        live, top, received, slots, roots, ups, results, broken = s
        leaf, rank = divmod(k, self.ranks)
        label = ("add", k, c)
        code, i, after = self.leaf.frame(slots[leaf], rank, c, GENERATION, (rank, c), door, live[leaf], GENERATION)
        if code < 0:
            if door == live[leaf] and self.is_live(s, k) and not received[k] >> c & 1:
                raise Violation("a leaf refuses a rank that keeps the rules: %s" % self.leaf.verdict(code), label)
            return s, False
        old, new = slots[leaf][i], after[i]
        self.check_overwritten(s, old, new, code, c, label, range(leaf * self.ranks, (leaf + 1) * self.ranks))
        new = new[:ORDER] + (0,) + new[ORDER + 1:REGS] + (tuple(sorted(new[REGS])),)
        after = after[:i] + (new,) + after[i + 1:]
        goes_up = code & EMITS or (self.early and code & 0xff in (SET, SET + 1))
        if code & 0xff == RESEND and self.absorbs:
            goes_up = 0
        if goes_up:
            up = (new[BITMAP], new[REGS])
            before = ups[leaf][c]
            if before is not None and before != up:
                raise Violation("leaf %d sends two partial sums of chunk %d: %s, then %s" % (leaf, c, before[1], up[1]), label)
            ups = ups[:leaf] + (ups[leaf][:c] + (up,) + ups[leaf][c + 1:],) + ups[leaf + 1:]
        return (live, top, received, slots[:leaf] + (after,) + slots[leaf + 1:], roots, ups, results, broken), bool(goes_up)

    def part(self, s, leaf, c, plane, door):
        """Deliver a part of a partial sum to the root. Return the state after it, and whether the root answers with a result."""
        live, top, received, slots, roots, ups, results, broken = s
        label = ("part", leaf, c, plane)
        if broken:
            return s, False
        code, i, after = self.root.frame(roots, leaf, c, plane, ups[leaf][c], door, top, broken)
        if code < 0:
            if -code & BREAKS:
                return s[:7] + (-code & 0xff,), False
            needed = any(self.is_live(s, k) and not received[k] >> c & 1
                         for k in range(leaf * self.ranks, (leaf + 1) * self.ranks))
            if door == top and top >> leaf & 1 and needed:
                raise Violation("the root refuses a leaf that keeps the rules: %s" % self.root.verdict(code), label)
            return s, False
        old, new = roots[i][0], after[i][0]
        if len(set(new[REGS])) != len(new[REGS]):
            raise Violation("a part is in the root's registers twice", label)
        self.check_overwritten(s, old, new, code, c, label, range(self.leaves * self.ranks))
        if code & EMITS:
            result = self.check_result(s, c, new, after[i][2], label)
            if results[c] is None:
                results = results[:c] + (result,) + results[c + 1:]
        return (live, top, received, slots, after, ups, results, broken), bool(code & EMITS)

    def accept(self, s, k, c):
        mine = s[2][k]
        if mine >> c & 1 or not self.sent(c, mine):
            return s
        return s[:2] + (s[2][:k] + (mine | 1 << c,) + s[2][k + 1:],) + s[3:]

    def check_overwritten(self, s, old, new, code, c, label, ranks):
        if code & 0xff != SET or not old[REGS]:
            return
        lost = old[CHUNK]
        if lost == c:
            raise Violation("the registers of the open round of chunk %d are set again" % lost, label)
        if not old[DONE]:
            raise Violation("the round of chunk %d is abandoned before it is done" % lost, label)
        for k in ranks:
            if self.is_live(s, k) and not s[2][k] >> lost & 1:
                raise Violation("the slot of chunk %d is overwritten while rank %d still needs it" % (lost, k), label)

    def check_result(self, s, c, slot, contributors, label):
        """Check that the registers hold all parts of each leaf in the bitmap and nothing else, and that the parts of a leaf belong to one
        partial sum."""
        bitmap, regs = slot[BITMAP], slot[REGS]
        wanted = [(leaf, c, plane, s[5][leaf][c]) for leaf in range(self.leaves) if bitmap >> leaf & 1
                  for plane in range(self.root.parts)]
        if list(regs) != wanted:
            raise Violation("the result of chunk %d names leaves %x, but holds %s" % (c, bitmap, regs), label)
        ranks = 0
        for leaf in range(self.leaves):
            if not bitmap >> leaf & 1:
                continue
            there, tags = s[5][leaf][c]
            ranks += len(tags)
            if list(tags) != [(rank, c) for rank in range(self.ranks) if there >> rank & 1]:
                raise Violation("the partial sum of leaf %d names ranks %x, but holds %s" % (leaf, there, tags), label)
            if s[6][c] is None and s[1] >> leaf & 1 and there & s[0][leaf] != s[0][leaf]:
                raise Violation("the result of chunk %d lacks a live rank of leaf %d" % (c, leaf), label)
        if ranks != contributors:
            raise Violation("the result of chunk %d counts %d ranks, but has the values of %d" % (c, contributors, ranks), label)
        result = (bitmap, regs)
        if s[6][c] is not None and s[6][c] != result:
            raise Violation("two different results of chunk %d are sent" % c, label)
        if s[6][c] is None and bitmap & s[1] != s[1]:
            raise Violation("the result of chunk %d lacks a live leaf" % c, label)
        return result


def text(m):
    return {"add": "ADD of rank %d, chunk %d, reaches its leaf",
            "part": "the partial sum of leaf %d, chunk %d, part %d, reaches the root",
            "result": "RESULT reaches rank %d: chunk %d",
            "shrink": "leaf %d: rank %d is removed",
            "shrink leaf": "leaf %d is removed at the root"}[m[0]] % m[1:]
