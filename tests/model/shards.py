# SPDX-License-Identifier: GPL-2.0-only
"""Model several aggregators: one call whose chunks are spread over them, one chunk at each, with window 1. Workers may restart, and an
aggregator may lose its state, at any time, a limited number of times in a run.

As in generations.py, a sent message may arrive at any later time. A worker is (life, incarnations, generations, taken). The last three have
an entry for each aggregator. A generation is 0 while the worker waits for a WELCOME of the aggregator. taken is None, or the contributions
in the aggregator's sum. Each attempt to join is another life, with the next higher incarnation at all aggregators. A worker contributes
when it has joined at all aggregators.

An operator may remove a rank from the job, at one aggregator after the other, in a call or between calls.

Two properties must hold. A call that a worker completes has from each rank the contribution of one life, at every aggregator. The call has
no contribution of a rank that had been removed at one aggregator before the worker's generation there began. From every state, when no more
frames are lost, all remaining workers complete a call together.

Two workers that give up in turn can continue forever, because each new attempt of one worker ends the generation of the other. Therefore
workers give up a limited number of times before losses end.

State: (workers, aggregators, next generation, net, restarts, losses of state, deadlines, shrinks left). An aggregator is (session, slot
versions, the incarnations of the ranks of its generation, the number of its state losses, the ranks that are left). The incarnation of a
rank outside the generation is 0. A HELLO carries a cookie that is valid until the next loss of state. Messages that can no longer change
anything are left out of the state.
"""

from explore import Violation
from rules import EMITS, EMPTY, REGS

FIRST_GENERATION = 5
NOBODY = ()


class Shards:
    def __init__(self, rules, aggregators, restarts, losses, deadlines, shrinks=0, joined=True, early=False, alone=False, everywhere=True):
        """joined: a worker begins when all ranks have joined, else with its first HELLO. early: a worker contributes at the aggregators
        where it has joined, although it has not joined at all aggregators. alone: a worker joins again only where necessary. everywhere: a
        rank that is removed at one aggregator is removed at all.
        """
        self.joined = joined
        self.rules, self.k, self.left = rules, aggregators, (restarts, losses, deadlines, shrinks)
        self.early, self.alone, self.everywhere = early, alone, everywhere
        self.n = rules.workers
        self.live = (1 << self.n) - 1

    def initial(self):
        if not self.joined:
            workers = ((1, (1,) * self.k, (0,) * self.k, (None,) * self.k),) * self.n
            net = frozenset(("hello", r, a, 1, 0) for r in range(self.n) for a in range(self.k))
            return (workers, (self.fresh(0, self.live),) * self.k, FIRST_GENERATION, net) + self.left
        gens, incs = tuple(FIRST_GENERATION + a for a in range(self.k)), (1,) * self.n
        aggregators = tuple(((0, gen, incs, self.live), (EMPTY,) * 2, incs, 0, self.live) for gen in gens)
        net = frozenset(("add", r, a, 1, gens[a]) for r in range(self.n) for a in range(self.k))
        workers = ((1, (1,) * self.k, gens, (None,) * self.k),) * self.n
        return (workers, aggregators, FIRST_GENERATION + self.k, net) + self.left

    def fresh(self, lost, live):
        return ((0, 0, (0,) * self.n, 0), (EMPTY,) * 2, NOBODY, lost, live)

    def stays(self, s, r):
        """Return whether no aggregator has removed the rank."""
        return all(s[1][a][4] >> r & 1 for a in range(self.k))

    def finished(self, s):
        return all(None not in w[3] and all(w[2][a] == s[1][a][0][1] for a in range(self.k))
                   for r, w in enumerate(s[0]) if self.stays(s, r))

    def steps(self, s):
        out = []
        for m in sorted(s[3], key=repr):
            for label in [m + (r,) for r in range(self.n)] if m[0] == "result" else [m]:
                after = self.deliver(s, label)
                if after != s:
                    out.append((label, after))
        for r in range(self.n):
            if s[4]:
                out.append((("restart", r), self.restart(s, r)[:4] + (s[4] - 1,) + s[5:]))
            if s[6]:
                out += [(("deadline", r), after[:6] + (s[6] - 1,) + s[7:]) for after in self.give_up(s, r)]
            out += [(("shrink", r, a), self.shrink(s, r, a)) for a in range(self.k) if self.may_shrink(s, r, a)]
        for a in range(self.k):
            if s[5] and s[1][a][0][2] != (0,) * self.n:
                out.append((("loses", a), self.lose(s, a)[:5] + (s[5] - 1,) + s[6:]))
        if not self.finished(s):
            after = self.lossless(s)
            out += [(("goes on",), after)] if after else []
        return [(label, self.tidy(after)) for label, after in out]

    def may_shrink(self, s, r, a):
        """Ranks are interchangeable, and so are aggregators. Therefore remove only rank 0, first at the last aggregator, then at all
        aggregators."""
        if r or not s[1][a][4] & 1:
            return False
        return s[7] and a == self.k - 1 if self.stays(s, r) else self.everywhere

    def shrink(self, s, r, a):
        aggregator = s[1][a][:4] + (s[1][a][4] & ~(1 << r),)
        return (s[0], put(s[1], a, aggregator)) + s[2:7] + (s[7] - self.stays(s, r),)

    def lose(self, s, a):
        """Lose the state of aggregator a. A rank that waits at a is challenged again, and repeats its HELLO with another cookie."""
        lost = s[1][a][3] + 1
        hellos = {("hello", r, a, w[1][a], lost) for r, w in enumerate(s[0]) if not w[2][a]}
        return (s[0], put(s[1], a, self.fresh(lost, s[1][a][4])), s[2], s[3] | hellos) + s[4:]

    def tidy(self, s):
        """Return the state without messages that can no longer change anything."""
        welcomes = {m for m in s[3] if m[0] == "welcome" and s[0][m[1]][1][m[2]] == m[3] and not s[0][m[1]][2][m[2]]}
        coming = {(m[2], m[4]) for m in welcomes}

        def matters(m):
            if m[0] == "hello":
                (_, _, known, members), lost = s[1][m[2]][0], s[1][m[2]][3]
                waits = s[0][m[1]][1][m[2]] == m[3] and not s[0][m[1]][2][m[2]]
                return s[1][m[2]][4] >> m[1] & 1 and m[4] == lost and m[3] >= known[m[1]] and \
                    (waits or m[3] > known[m[1]] or not members >> m[1] & 1)
            if m[0] == "add":
                return s[1][m[2]][0][1] == m[4]
            if m[0] == "result":
                a, gen = m[1:3]
                return s[1][a][0][1] == gen or (a, gen) in coming or any(w[2][a] == gen and w[3][a] is None for w in s[0])
            return m in welcomes

        return s[:3] + (frozenset(m for m in s[3] if matters(m)),) + s[4:]

    def fair(self, s):
        after = self.lossless(s)
        return after and self.tidy(after)

    def lossless(self, s):
        stay = [r for r in range(self.n) if self.stays(s, r)]
        for r in stay:
            for a in range(self.k):
                life, incs, gens, taken = s[0][r]
                if not gens[a]:
                    after, reply = self.aggregate(s, ("hello", r, a, incs[a], s[1][a][3]))
                elif taken[a] is None and self.may_add(gens) and not self.outlived(s, r, a):
                    after, reply = self.aggregate(s, ("add", r, a, life, gens[a]))
                    reply = reply and reply + (r,)
                else:
                    continue
                if reply:
                    after = self.deliver(after, reply)
                if after != s:
                    return after
        for r in stay:
            for after in self.give_up(s, r):
                return after
        for r in range(self.n):
            for a in range(self.k):
                if r not in stay and self.may_shrink(s, r, a):
                    return self.shrink(s, r, a)
        return None

    def may_add(self, gens):
        return self.early or 0 not in gens

    def outlived(self, s, r, a):
        """Return whether the rank's contributions at aggregator a carry the cookie of an earlier session."""
        return s[1][a][0][2][r] != s[0][r][1][a]

    def over(self, s, r, a):
        """Return whether worker r is in a generation at aggregator a that has ended, or that another rank has left."""
        session, _, members, _, live = s[1][a]
        gen = s[0][r][2][a]
        return gen and (session[1] != gen or any(live >> j & 1 and (s[0][j][1][a] != members[j] or session[2][j] != members[j])
                                                 for j in range(self.n)))

    def restart(self, s, r, where=None):
        life, incs, gens, taken = s[0][r]
        where = range(self.k) if where is None else where
        newest = max(incs) + 1
        for a in where:
            incs, gens, taken = put(incs, a, newest), put(gens, a, 0), put(taken, a, None)
        worker = (life + (len(where) == self.k), incs, gens, taken)
        return self.become(s, r, worker, {("hello", r, a, newest, s[1][a][3]) for a in where})

    def give_up(self, s, r):
        """Return the states after worker r has found that its generation has ended. If `alone`, the worker joins again only at the
        aggregator of this generation, and waits there."""
        over = [a for a in range(self.k) if self.over(s, r, a)]
        if self.alone:
            return [self.restart(s, r, [a]) for a in over if s[0][r][3][a] is None]
        return [self.restart(s, r)] if over else []

    def become(self, s, r, worker, messages):
        return (put(s[0], r, worker),) + s[1:3] + (s[3] | messages,) + s[4:]

    def deliver(self, s, label):
        if label[0] in ("hello", "add"):
            return self.aggregate(s, label)[0]
        return getattr(self, label[0])(s, label, *label[1:])

    def aggregate(self, s, label):
        """Deliver a frame to an aggregator. Return the state after it and the answer, which is also in net."""
        after, reply = getattr(self, label[0])(s, label, *label[1:])
        return (after[:3] + (after[3] | {reply},) + after[4:] if reply else after), reply

    def hello(self, s, label, r, a, inc, cookie):
        session, slots, members, lost, live = s[1][a]
        if cookie != lost or not live >> r & 1:
            return s, None
        joined, after, nxt = self.rules.join(session, s[2], r, inc, live)
        if after[1] != session[1]:
            members = tuple(known if live >> j & 1 else 0 for j, known in enumerate(after[2]))
        reply = ("welcome", r, a, inc, after[1]) if joined and after[2][r] == inc else None
        return (s[0], put(s[1], a, (after, slots, members, lost, live)), nxt) + s[3:], reply

    def welcome(self, s, label, r, a, inc, gen):
        life, incs, gens, taken = s[0][r]
        if gens[a] or incs[a] != inc:
            return s
        before, gens = gens, put(gens, a, gen)
        if not self.may_add(gens):
            return self.become(s, r, (life, incs, gens, taken), frozenset())
        adds = {("add", r, b, life, gens[b]) for b in range(self.k) if gens[b] and (b == a or not self.may_add(before))}
        return self.become(s, r, (life, incs, gens, taken), adds)

    def add(self, s, label, r, a, life, gen):
        session, slots, members, lost, live = s[1][a]
        code, i, after = self.rules.frame(slots, r, 0, gen, (r, life), live, live, session[1])
        if code < 0:
            return s, None
        reply = ("result", a, gen, (tuple(sorted(after[i][REGS])), tuple(map(bool, members)))) if code & EMITS else None
        return (s[0], put(s[1], a, (session, after, members, lost, live))) + s[2:], reply

    def result(self, s, label, a, gen, result, r):
        life, incs, gens, taken = s[0][r]
        if gens[a] != gen or taken[a] is not None:
            return s
        taken = put(taken, a, result)
        if None not in taken:
            self.check_call(r, taken, label)
        return self.become(s, r, (life, incs, gens, taken), frozenset())

    def check_call(self, r, taken, label):
        """Check that each rank has one life. A rank that is missing at one aggregator must have been removed during the generation, not
        before it."""
        call = set().union(*(regs for regs, _ in taken))
        if len({rank for rank, _ in call}) < len(call):
            raise Violation("worker %d completes a call that mixes incarnations of a rank: %s" % (r, call_text(taken)), label)
        for rank, _ in call:
            if not all(members[rank] for _, members in taken):
                raise Violation("worker %d completes a call with rank %d, which was removed at one aggregator before: %s"
                                % (r, rank, call_text(taken)), label)


def put(items, i, item):
    return items[:i] + (item,) + items[i + 1:]


def sum_text(regs):
    return " + ".join("(rank %d, life %d)" % t for t in regs)


def call_text(taken):
    return "; ".join(sum_text(regs) for regs, _ in taken)


def text(m):
    if m[0] == "result":
        return "RESULT of aggregator %d, generation %d, reaches worker %d: %s" % (m[1], m[2], m[4], sum_text(m[3][0]))
    return {"hello": "HELLO of worker %d reaches aggregator %d, incarnation %d, which has lost its state %d times",
            "welcome": "WELCOME reaches worker %d from aggregator %d: incarnation %d, generation %d",
            "add": "ADD of worker %d reaches aggregator %d: life %d, generation %d",
            "restart": "worker %d restarts",
            "deadline": "worker %d gives up at its deadline",
            "shrink": "rank %d is removed at aggregator %d",
            "loses": "aggregator %d loses its state",
            "goes on": "what comes next when nothing is lost"}[m[0]] % m[1:]
