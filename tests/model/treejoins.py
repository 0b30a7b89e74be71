# SPDX-License-Identifier: GPL-2.0-only
"""Model many generations of a tree with window 1: ranks that restart or give up, leaves and a root that lose their state.

As in generations.py, a sent message may arrive at any later time. `net` is the set of all messages ever sent. A rank is (incarnation,
generation, received, life). A leaf is (joining, generation, incarnations, members, attempt, offered) and its slots. The root is a session
as in rules.py, the next generation, and its slots. Partial sums have one part in this model. trees.py models several parts.

State: (ranks, leaves, root, members of each begun generation, net, (restarts, losses of a leaf, losses of the root) left).
"""

import ctypes

from explore import Violation
from rules import EMITS, EMPTY, ORDER, REGS, Rules, u32, u64

FIRST_GENERATION, FIRST_INCARNATION, FIRST_ATTEMPT = 5, 10, 100
OLD, JOINED, WAITS, ALL_WAIT = range(4)  # enum fpisa_waiting


class Leaf:
    """The rules of a leaf's session as the datapath has them"""

    def __init__(self, lib, workers):
        self.lib, self.full = lib, (1 << workers) - 1

    def join(self, session, rank, inc):
        joining, gen, incs, members, attempt, offered = session
        j, m, a, o = u64(joining), u64(members), u64(attempt), u64(offered)
        array = (u64 * len(incs))(*incs)
        waiting = self.lib.rules_leaf_join(ctypes.byref(j), ctypes.byref(m), ctypes.byref(a), ctypes.byref(o), array,
                                           len(incs), rank, u64(inc), u64(self.full))
        return waiting, (j.value, gen, tuple(array), m.value, a.value, o.value)

    def welcome(self, session, asked, generation):
        joining, gen, incs, members, attempt, offered = session
        j, m, g, o = u64(joining), u64(members), u32(gen), u64(offered)
        self.lib.rules_leaf_welcome(ctypes.byref(j), ctypes.byref(m), ctypes.byref(g), u64(attempt), ctypes.byref(o),
                                    u64(asked), u32(generation), u64(self.full))
        return j.value, g.value, incs, m.value, attempt, o.value


class OneAttempt(Leaf):
    """With this broken rule, a newcomer does not begin another attempt."""

    def join(self, session, rank, inc):
        waiting, after = super().join(session, rank, inc)
        return waiting, after[:4] + (session[4], after[5])


class JoinsRunning(Leaf):
    """With this broken rule, a rank that restarts joins the current generation of the leaf."""

    def join(self, session, rank, inc):
        waiting, after = super().join(session, rank, inc)
        if after[1] and inc > session[2][rank]:
            return JOINED, after[:3] + (after[3] | 1 << rank,) + after[4:]
        return waiting, after


class SecondGeneration(Leaf):
    """With this broken rule, an attempt may enter any generation whose WELCOME names the attempt, one after the other."""

    def welcome(self, session, asked, generation):
        if session[1] and session[1] != generation:
            session = session[:5] + (self.full,)
        return super().welcome(session, asked, generation)


class TreeJoins:
    def __init__(self, lib, ranks, chunks, restarts=0, leaf_losses=0, root_losses=0, leaf=Leaf, same_attempt=False,
                 keeps_session=False):
        """ranks: the number of ranks of each leaf. same_attempt: a leaf that lost its state begins with the same attempt. keeps_session:
        the leaf lost only its slots."""
        self.chunks, self.left = chunks, (restarts, leaf_losses, root_losses)
        self.same_attempt, self.keeps_session = same_attempt, keeps_session
        self.broken = leaf is not Leaf or same_attempt or keeps_session
        self.where = [(leaf_, rank) for leaf_, n in enumerate(ranks) for rank in range(n)]
        self.ranks, self.n = ranks, sum(ranks)
        self.leaf = [leaf(lib, n) for n in ranks]
        self.slots = [Rules(lib, n, 1) for n in ranks]
        self.root = Rules(lib, len(ranks), 1)
        self.all_chunks, self.all_leaves = (1 << chunks) - 1, (1 << len(ranks)) - 1

    def initial(self):
        return (((FIRST_INCARNATION, 0, 0, 1),) * self.n,
                tuple(((0, 0, (0,) * n, 0, FIRST_ATTEMPT, 0), (EMPTY,) * 2) for n in self.ranks),
                ((0, 0, (0,) * len(self.ranks), 0), FIRST_GENERATION, (EMPTY,) * 2), (),
                frozenset(("hello", k, FIRST_INCARNATION) for k in range(self.n)), self.left)

    def finished(self, s):
        return all(rank[1] == s[2][0][1] and rank[2] == self.all_chunks for rank in s[0])

    def steps(self, s):
        out = []
        for m in sorted(s[4]):
            for label in [m + (k,) for k in range(self.n)] if m[0] == "result" else [m]:
                after = getattr(self, label[0].replace(" ", "_"))(s, *label[1:])[0]
                if after != s:
                    out.append((label, after))
        restarts, leaf_losses, root_losses = s[5]
        for k in range(self.n):
            if restarts:
                out.append((("restart", k), self.restart(s, k)[:5] + ((restarts - 1, leaf_losses, root_losses),)))
            if self.abandoned(s, k):
                out.append((("deadline", k), self.restart(s, k)))
        for leaf in range(len(self.ranks) if leaf_losses else 0):
            session = s[1][leaf][0]
            if not self.keeps_session:
                session = (0, 0, (0,) * self.ranks[leaf], 0, session[4] + (0 if self.same_attempt else 10), 0)
            after = self.set_leaf(s, leaf, session, (EMPTY,) * 2)
            out.append((("leaf lost", leaf), after[:5] + ((restarts, leaf_losses - 1, root_losses),)))
        if root_losses:
            root = ((0, 0, (0,) * len(self.ranks), 0), s[2][1], (EMPTY,) * 2)
            out.append((("root lost",), s[:2] + (root,) + s[3:5] + ((restarts, leaf_losses, root_losses - 1),)))
        return out

    def abandoned(self, s, k):
        """Return whether rank k is in a generation that has ended, that a rank has left, or that a leaf no longer has."""
        gen = s[0][k][1]
        if not gen:
            return False
        if s[2][0][1] != gen:
            return True
        members = dict(s[3]).get(gen)
        if any(s[0][j][0] != members[j] for j in range(self.n)):
            return True
        session = s[2][0]
        return any(leaf[0][1] != gen and not (session[3] >> i & 1 and session[2][i] == leaf[0][4])
                   for i, leaf in enumerate(s[1]))

    def restart(self, s, k):
        inc = max(m[2] for m in s[4] if m[0] == "hello" and m[1] == k) + 1
        return self.become(s, k, (inc, 0, 0, s[0][k][3] + 1), ("hello", k, inc))

    def become(self, s, k, rank, *messages):
        return (s[0][:k] + (rank,) + s[0][k + 1:],) + s[1:4] + (s[4] | frozenset(messages),) + s[5:]

    def say(self, s, message):
        return s[:4] + (s[4] | {message},) + s[5:], message

    def set_leaf(self, s, leaf, session, slots=None):
        return (s[0], s[1][:leaf] + ((session, s[1][leaf][1] if slots is None else slots),) + s[1][leaf + 1:]) + s[2:]

    def hello(self, s, k, inc):
        leaf, rank = self.where[k]
        waiting, session = self.leaf[leaf].join(s[1][leaf][0], rank, inc)
        after = self.set_leaf(s, leaf, session)
        if waiting == JOINED:
            return self.say(after, ("welcome", k, inc, session[1]))
        if waiting == ALL_WAIT:
            return self.say(after, ("hello up", leaf, session[4], session[2]))
        return after, None

    def hello_up(self, s, leaf, attempt, incarnations):
        session, nxt, slots = s[2]
        joined, after, nxt = self.root.join(session, nxt, leaf, attempt, self.all_leaves)
        begun = s[3]
        if after[1] != session[1]:
            begun += ((after[1], self.members(s, after[2])),)
            for k in range(self.n):
                if s[0][k][1] == session[1] and session[1] and not self.abandoned(s, k):
                    raise Violation("generation %d ends under rank %d, which is in it" % (session[1], k),
                                    ("hello up", leaf, attempt, incarnations))
        t = s[:2] + ((after, nxt, slots), begun) + s[4:]
        return self.say(t, ("welcome down", leaf, attempt, after[1])) if joined else (t, None)

    def members(self, s, attempts):
        """Return the incarnations of all ranks in a generation of these attempts of the leaves."""
        by = {}
        for m in s[4]:
            if m[0] == "hello up" and m[2] == attempts[m[1]]:
                by.setdefault(m[1], set()).add(m[3])
        if any(len(sets) != 1 for sets in by.values()) and not self.broken:
            raise Violation("an attempt of a leaf has two sets of incarnations: %s" % by)
        return sum((sorted(by[leaf])[-1] for leaf in range(len(self.ranks))), ())

    def welcome_down(self, s, leaf, attempt, generation):
        return self.set_leaf(s, leaf, self.leaf[leaf].welcome(s[1][leaf][0], attempt, generation)), None

    def welcome(self, s, k, inc, generation):
        mine, current, _, life = s[0][k]
        label = ("welcome", k, inc, generation)
        if current or inc != mine:
            return s, None
        for m in s[4]:
            if m[0] == "add" and m[1] == k and m[2] != life and m[3] == generation:
                raise Violation("rank %d enters generation %d, in which its life %d took part" % (k, generation, m[2]), label)
        if dict(s[3])[generation][k] != inc and not self.left[1] and not self.broken:
            raise Violation("rank %d is told generation %d, which began without it" % (k, generation), label)
        return self.become(s, k, (mine, generation, 0, life), ("add", k, life, generation, 0)), None

    def frame(self, rules, slots, rank, chunk, generation, tag, full, current):
        """Deliver a contribution, in any order of arrival. Return (code, slots after the contribution, tags of its slot)."""
        code, i, after = rules.frame(slots, rank, chunk, generation, tag, full, full, current)
        if code < 0:
            return code, slots, ()
        slot = after[i][:ORDER] + (0,) + after[i][ORDER + 1:REGS] + (tuple(sorted(after[i][REGS])),)
        return code, after[:i] + (slot,) + after[i + 1:], slot[REGS]

    def add(self, s, k, life, generation, c):
        leaf, rank = self.where[k]
        session, slots = s[1][leaf]
        code, after, regs = self.frame(self.slots[leaf], slots, rank, c, generation, (k, life, generation, c),
                                       self.leaf[leaf].full, session[1])
        if code < 0:
            return s, None
        t = self.set_leaf(s, leaf, session, after)
        if not code & EMITS:
            return t, None
        up = ("up", leaf, generation, c, regs)
        if any(m[:4] == up[:4] and m != up for m in s[4]):
            raise Violation("leaf %d sends two partial sums of generation %d, chunk %d" % (leaf, generation, c),
                            ("add", k, life, generation, c))
        return self.say(t, up)

    def up(self, s, leaf, generation, c, regs):
        session, nxt, slots = s[2]
        code, after, tags = self.frame(self.root, slots, leaf, c, generation, (leaf, regs), self.all_leaves, session[1])
        if code < 0:
            return s, None
        t = s[:2] + ((session, nxt, after),) + s[3:]
        return self.say(t, ("result", generation, c, sum((x[1] for x in tags), ()))) if code & EMITS else (t, None)

    def result(self, s, generation, c, regs, k):
        inc, mine, received, life = s[0][k]
        if mine != generation or received >> c & 1 or c and not received >> (c - 1) & 1:
            return s, None
        if sorted((x[0], x[2], x[3]) for x in regs) != [(j, generation, c) for j in range(self.n)] or \
                (k, life, generation, c) not in regs:
            raise Violation("rank %d, life %d, takes a sum for generation %d, chunk %d that holds %s"
                            % (k, life, generation, c, regs), ("result", generation, c, regs, k))
        messages = [("add", k, life, generation, c + 1)] if c + 1 < self.chunks else []
        return self.become(s, k, (inc, generation, received | 1 << c, life), *messages), None

    def fair(self, s):
        """Let all ranks retransmit once, in turn."""
        t = s
        for k in range(self.n):
            t = self.turn(t, k)
        return t

    def follow(self, s, m, k):
        """Deliver a message and its answers."""
        while m:
            m = m + (k,) if m[0] == "result" else m
            s, m = getattr(self, m[0].replace(" ", "_"))(s, *m[1:])
        return s

    def turn(self, s, k):
        inc, generation, received, life = s[0][k]
        if not generation:
            return self.follow(s, ("hello", k, inc), k)
        c = next((c for c in range(self.chunks) if not received >> c & 1), None)
        if c is not None:
            s = self.follow(s, ("add", k, life, generation, c), k)
        gave_up = c is None or s[0][k] == (inc, generation, received, life)
        return self.restart(s, k) if gave_up and self.abandoned(s, k) and not self.finished(s) else s


def text(m):
    if m[0] in ("up", "hello up"):
        return {"up": "the partial sum of leaf %d, generation %d, chunk %d, reaches the root",
                "hello up": "HELLO of leaf %d, attempt %d, reaches the root"}[m[0]] % m[1:-1]
    if m[0] == "result":
        return "RESULT of generation %d, chunk %d, reaches rank %d" % (m[1], m[2], m[4])
    return {"hello": "HELLO of rank %d, incarnation %d, reaches its leaf",
            "welcome": "WELCOME reaches rank %d, incarnation %d: generation %d",
            "welcome down": "WELCOME reaches leaf %d, attempt %d: generation %d",
            "add": "ADD of rank %d, life %d, generation %d, chunk %d, reaches its leaf",
            "restart": "rank %d restarts", "deadline": "rank %d gives up at its deadline",
            "leaf lost": "leaf %d loses its state", "root lost": "the root loses its state"}[m[0]] % m[1:]
