# SPDX-License-Identifier: GPL-2.0-only
"""Model one generation: chunks, slots, and the removal of ranks.

A sent message may arrive at any time, any number of times, in any order, or never. Therefore the model needs no queue of frames. The ADDs
in flight follow from the results that the workers have received, because a worker may send an ADD at any time once the window allows it.
The RESULTs in flight are all results that were ever sent.

State: (live, received, slots, results). received holds a bitmap of chunks for each worker. results holds the result that was sent for each
chunk, (bitmap, order, regs), or None.
"""

from explore import Violation
from rules import BITMAP, DONE, EMITS, EMPTY, ORDER, REGS, RESEND, SET

GENERATION = 1
SHRINK_TEXT = "rank %d is removed from the job"


class Chunks:
    def __init__(self, rules, chunks, shrink=0, eager=0, ordered=True, accept_any=False,
                 strict=False, silent=0):
        """shrink: how many ranks may be removed. eager: bitmap of workers that ignore the self clock. ordered: distinguish states by the
        order of arrival. accept_any: workers compare the slot and version of a result, not its chunk. strict: require all properties even
        if some workers ignore the self clock. silent: bitmap of workers that send each contribution once, and never ask. If nothing else helps,
        such a rank is removed.
        """
        self.rules, self.chunks, self.shrink = rules, chunks, shrink
        self.eager, self.ordered, self.accept_any, self.strict, self.silent = eager, ordered, accept_any, strict, silent
        self.n, self.w = rules.workers, rules.window
        self.full = (1 << self.n) - 1
        self.all_chunks = (1 << chunks) - 1

    def initial(self):
        return (self.full, (0,) * self.n, (EMPTY,) * (2 * self.w), (None,) * self.chunks)

    def sent(self, worker, chunk, received):
        return chunk < self.w or received >> (chunk - self.w) & 1 or self.eager >> worker & 1

    def finished(self, s):
        live, received = s[0], s[1]
        return all(received[k] == self.all_chunks for k in range(self.n)
                   if live >> k & 1 and not (self.eager | self.silent) >> k & 1) or bool(self.eager)

    def steps(self, s):
        live, received, slots, results = s
        out = []
        for k in range(self.n):
            for c in range(self.chunks):
                if not self.sent(k, c, received[k]):
                    continue
                for door in {live, self.full}:
                    after = self.add(s, k, c, door)
                    if after is not s:
                        out.append((("add", k, c), after))
            for c in range(self.chunks):
                if results[c] is not None:
                    after = self.accept(s, k, c)
                    if after is not s:
                        out.append((("result", k, c), after))
        if self.n - bin(live).count("1") < self.shrink:
            for k in range(self.n):
                rest = live & ~(1 << k)
                if rest and rest != live:
                    out.append((("shrink", k, 0), (rest,) + s[1:]))
        return out

    def fair(self, s):
        live, received = s[0], s[1]
        for k in range(self.n):
            if not (live & ~self.silent) >> k & 1:
                continue
            for c in range(self.chunks):
                if received[k] >> c & 1 or not self.sent(k, c, received[k]):
                    continue
                after = self.add(s, k, c, live, reply=True)
                if after != s:
                    return after
        return (live & ~self.silent,) + s[1:] if live & self.silent else None

    def add(self, s, k, c, door, reply=False):
        """Deliver the ADD of worker k for chunk c. If `reply`, the answer arrives too."""
        live, received, slots, results = s
        code, i, after = self.rules.frame(slots, k, c, GENERATION, (k, c), door, live, GENERATION, *self.calls(k, c))
        label = ("add", k, c)
        if code < 0:
            if door == live and live >> k & 1 and not received[k] >> c & 1 and not self.eager:
                raise Violation("a worker that keeps the rules is refused: %s" % self.rules.verdict(code),
                                label)
            return s
        self.check_slot(s, slots[i], after[i], code, label)
        if not self.ordered:
            slot = after[i]
            after = after[:i] + (slot[:ORDER] + (0,) + slot[ORDER + 1:REGS] + (tuple(sorted(slot[REGS])),),
                                 ) + after[i + 1:]
        if code & EMITS:
            slot = after[i]
            result = (slot[BITMAP], slot[ORDER], slot[REGS])
            self.check_result(c, result, results[c], live, label)
            if code & 0xff != RESEND:
                self.check_lost(c, after, live, label)
            sent = self.copies(results[c], result, k, code, after[i])
            if sent != results[c]:
                results = results[:c] + (sent,) + results[c + 1:]
        if slots == after and results is s[3]:
            t = s
        else:
            t = (live, received, after, results)
        return self.answer(t, k, c, code, after[i]) if reply and code & EMITS else t

    def calls(self, k, c):
        """Return the arguments for Rules.frame() that depend on the calls of worker k."""
        return ()

    def copies(self, before, result, k, code, slot):
        """Return the new results[c], when the aggregator sends a result because of worker k."""
        return before or result

    def answer(self, s, k, c, code, slot):
        """Deliver the RESULT that answers an ADD of worker k."""
        return self.accept(s, k, c)

    def accept(self, s, k, c):
        """Deliver the RESULT of chunk c to worker k."""
        live, received, slots, results = s
        mine = received[k]
        if self.accept_any:
            step = 2 * self.w
            for awaited in range(c % step, self.chunks, step):
                if not mine >> awaited & 1 and self.sent(k, awaited, mine):
                    if awaited != c:
                        raise Violation("worker %d takes the result of chunk %d for chunk %d"
                                        % (k, c, awaited), ("result", k, c))
        if mine >> c & 1 or not self.sent(k, c, mine):
            return s
        received = received[:k] + (mine | 1 << c,) + received[k + 1:]
        return live, received, slots, results

    def check_slot(self, s, old, new, code, label):
        live, received = s[0], s[1]
        if len(set(new[REGS])) != len(new[REGS]):
            raise Violation("a contribution is in the registers twice: %s" % sum_text(new[REGS]), label)
        if code & 0xff != SET or not old[REGS]:
            return
        lost = old[REGS][0][1]
        if lost == label[2]:
            raise Violation("the registers of the open round of chunk %d are set again" % lost, label)
        if not old[DONE]:
            raise Violation("the round of chunk %d is abandoned before it is done" % lost, label)
        for k in range(self.n):
            if live >> k & 1 and not received[k] >> lost & 1 and (self.strict or not self.eager):
                raise Violation("the slot of chunk %d is overwritten while worker %d still needs it"
                                % (lost, k), label)

    def check_result(self, c, result, before, live, label):
        bitmap, order, regs = result
        wanted = {(k, c) for k in range(self.n) if bitmap >> k & 1}
        if set(regs) != wanted or len(regs) != len(wanted):
            raise Violation("the result of chunk %d names ranks %s, but holds %s"
                            % (c, [k for k in range(self.n) if bitmap >> k & 1], sum_text(regs)), label)
        if before is not None and before[:3] != result:
            raise Violation("two different results of chunk %d are sent: %s, then %s"
                            % (c, sum_text(before[2]), sum_text(regs)), label)
        if before is None and bitmap & live != live:
            raise Violation("the result of chunk %d lacks a live rank" % c, label)
        if self.ordered and order != sum(i << 4 * tag[0] for i, tag in enumerate(regs)):
            raise Violation("the order of arrival %x does not match %s" % (order, sum_text(regs)), label)

    def check_lost(self, c, slots, live, label):
        """Check that the result of chunk c names the live ranks that the open round of the previous chunk lacks, if that round has
        contributions of other ranks."""
        there = [{tag[0] for tag in slot[REGS]} for slot in slots if slot[REGS] and slot[REGS][0][1] == c - 1 and not slot[DONE]]
        wanted = [k for ranks in there for k in range(self.n) if live >> k & 1 and k not in ranks]
        told = self.rules.lost(slots, c, GENERATION, live)
        if told != sum(1 << k for k in wanted):
            raise Violation("the result of chunk %d names ranks %s as lost, but chunk %d lacks %s"
                            % (c, [k for k in range(64) if told >> k & 1], c - 1, wanted), label)


def sum_text(regs):
    return " + ".join("(rank %d, chunk %d)" % tag for tag in regs) or "nothing"


def text(label):
    kind, k, c = label
    return {"add": "ADD of worker %d, chunk %d, reaches the aggregator" % (k, c),
            "result": "RESULT of chunk %d reaches worker %d" % (c, k),
            "shrink": SHRINK_TEXT % k}[kind]
