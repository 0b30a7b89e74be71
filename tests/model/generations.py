# SPDX-License-Identifier: GPL-2.0-only
"""Model many generations with window 1: workers that restart or give up, HELLO and WELCOME, and contributions of every generation still in
flight.

As in chunks.py, a sent message may arrive at any later time. `net` is the set of all messages ever sent. A worker is (incarnation,
generation, received, life). Its generation is 0 while it waits for a WELCOME, and `life` counts its restarts. A worker accepts a WELCOME
that names the worker's incarnation and is not pending. If the aggregator holds a newer incarnation, because the worker's clock went back,
the worker continues with the next higher incarnation. Only then may a delayed HELLO from before the restart end a generation too early.
Such an end costs time and another generation, but never gives a wrong sum.

A worker may restart at any time, a limited number of times in a run. A worker whose generation cannot continue, because another rank has
left it, may always give up at its deadline and send HELLO again.

State: (workers, session, next generation, begun, live, slots, net, restarts left). begun holds the incarnations of each generation that
ever began.
"""

import itertools

from chunks import SHRINK_TEXT
from explore import Violation
from rules import BITMAP, EMITS, EMPTY, REGS

FIRST_GENERATION = 5
FIRST_INCARNATION = 10


class Generations:
    def __init__(self, rules, chunks, restarts, shrink=0, back=False, welcome_any=False, echo_any=False):
        """back: the clock of a restarted worker is behind. welcome_any: workers do not compare the incarnation of a WELCOME. echo_any: a
        worker whose clock went back accepts WELCOMEs that answer a HELLO from before the restart.
        """
        self.rules, self.chunks, self.restarts, self.shrink = rules, chunks, restarts, shrink
        self.back, self.welcome_any, self.echo_any = back, welcome_any, echo_any
        self.n = rules.workers
        self.full = (1 << self.n) - 1
        self.all_chunks = (1 << chunks) - 1

    def initial(self):
        workers = ((FIRST_INCARNATION, 0, 0, 1),) * self.n
        net = frozenset(("hello", k, FIRST_INCARNATION) for k in range(self.n))
        session = (0, 0, (0,) * self.n, 0)
        return (workers, session, FIRST_GENERATION, (), self.full, (EMPTY,) * 2, net, self.restarts)

    def finished(self, s):
        workers, session, live = s[0], s[1], s[4]
        return all(workers[k][1] == session[1] and workers[k][2] == self.all_chunks
                   for k in range(self.n) if live >> k & 1)

    def steps(self, s):
        live, left = s[4], s[7]
        out = []
        for m in sorted(s[6]):
            for label in [m + (k,) for k in range(self.n)] if m[0] == "result" else [m]:
                after = self.deliver(s, label)
                if after != s:
                    out.append((label, after))
        for k in range(self.n):
            if left and live >> k & 1:
                out.append((("restart", k), self.restart(s, k, self.back)[:7] + (left - 1,)))
            if self.abandoned(s, k):
                out.append((("deadline", k), self.restart(s, k, False)))
            if live >> k & 1 and live != 1 << k and self.n - bin(live).count("1") < self.shrink:
                out.append((("shrink", k), s[:4] + (live & ~(1 << k),) + s[5:]))
        return out

    def check_start(self, s):
        """When all ranks begin again and no frame is lost, all ranks join and none gives up. The order of the ranks does not matter. Frames
        from before their restarts do not matter either.
        """
        workers, session, live = s[0], s[1], s[4]
        ranks = [k for k in range(self.n) if live >> k & 1]
        if any(workers[k][1] or workers[k][0] <= session[2][k] for k in ranks):
            return
        for order in itertools.permutations(ranks):
            t = s
            for k in order * 3:
                if not t[0][k][1]:
                    t, reply = self.aggregate(t, ("hello", k, t[0][k][0]))
                    t = self.deliver(t, reply) if reply else t
            if any(t[0][k][1] != t[1][1] for k in ranks):
                raise Violation("all workers start again, but do not reach one generation", ("order", order))

    def fair(self, s):
        self.check_start(s)
        live = s[4]
        for k in range(self.n):
            if not live >> k & 1:
                continue
            inc, gen, received, life = s[0][k]
            if gen:
                chunk = next((c for c in range(self.chunks) if not received >> c & 1), None)
                if chunk is None or self.outlived(s, k):
                    continue
                after, reply = self.aggregate(s, ("add", k, life, gen, chunk))
            else:
                after, reply = self.aggregate(s, ("hello", k, inc))
            if reply:
                after = self.deliver(after, reply + (k,) if gen else reply)
            if after != s:
                return after
        for k in range(self.n):
            if self.abandoned(s, k):
                return self.restart(s, k, False)
        return None

    def abandoned(self, s, k):
        """Return whether worker k is in a generation that has ended or that another live rank has left."""
        workers, session, live = s[0], s[1], s[4]
        gen = workers[k][1]
        if not gen or not live >> k & 1:
            return False
        members = s[3][gen - FIRST_GENERATION]
        return session[1] != gen or any(live >> j & 1 and (workers[j][0] != members[j] or session[2][j] != members[j])
                                        for j in range(self.n))

    def outlived(self, s, k):
        """Return whether worker k's contributions are refused because they carry the cookie of an earlier incarnation. steps() does without
        this check, because contributions that passed it earlier may still arrive. A refusal is therefore one more loss.
        """
        return s[1][2][k] != s[3][s[0][k][1] - FIRST_GENERATION][k]

    def restart(self, s, k, back):
        used = [m[2] for m in s[6] if m[0] == "hello" and m[1] == k]
        inc = min(used) - 1 if back else max(used) + 1
        return self.become(s, k, (inc, 0, 0, s[0][k][3] + 1), {("hello", k, inc)})

    def become(self, s, k, worker, messages=frozenset()):
        workers = s[0][:k] + (worker,) + s[0][k + 1:]
        return (workers,) + s[1:6] + (s[6] | messages,) + s[7:]

    def deliver(self, s, label):
        if label[0] in ("hello", "add"):
            return self.aggregate(s, label)[0]
        return getattr(self, label[0])(s, label, *label[1:])

    def aggregate(self, s, label):
        """Deliver a frame to the aggregator. Return the state after it and the answer, which is also in net."""
        after, reply = getattr(self, label[0])(s, label, *label[1:])
        if reply:
            after = after[:6] + (after[6] | {reply},) + after[7:]
        return after, reply

    def hello(self, s, label, k, inc):
        workers, session, nxt, begun, live, slots, net, left = s
        if not live >> k & 1:
            return s, None
        joined, after, nxt = self.rules.join(session, nxt, k, inc, live)
        if after[1] != session[1]:
            for j in range(self.n):
                if live >> j & 1 and begun and not self.back and after[2][j] == begun[-1][j]:
                    raise Violation("generation %d ends under worker %d, which is in it" % (session[1], j),
                                    label)
            begun += (after[2],)
            if after[1] != FIRST_GENERATION + len(begun) - 1:
                raise Violation("generation %d follows %d" % (after[1], session[1]), label)
        reply = ("welcome", k, inc, after[2][k], after[1] if joined else 0)
        if not joined and after[2][k] <= inc:
            reply = None
        return (workers, after, nxt, begun, live, slots, net, left), reply

    def welcome(self, s, label, k, asked, held, gen):
        inc, mine, received, life = s[0][k]
        if mine:
            return s
        if gen and (held == inc or self.welcome_any):
            for m in s[6]:
                if m[0] == "add" and m[1] == k and m[2] != life and m[3] == gen:
                    raise Violation("worker %d enters generation %d, in which its life %d took part"
                                    % (k, gen, m[2]), label)
            return self.become(s, k, (inc, gen, 0, life), {("add", k, life, gen, 0)})
        if held > inc and (asked == inc or self.echo_any):
            return self.become(s, k, (held + 1, 0, 0, life), {("hello", k, held + 1)})
        return s

    def add(self, s, label, k, life, gen, c):
        workers, session, nxt, begun, live, slots, net, left = s
        code, i, after = self.rules.frame(slots, k, c, gen, (k, life, gen, c), live, live, session[1])
        if code < 0:
            verdict = self.rules.verdict(code)
            if live >> k & 1 and workers[k][1] == gen and workers[k][3] == life \
                    and not workers[k][2] >> c & 1 and not self.abandoned(s, k) and not self.back:
                raise Violation("a worker that keeps the rules is refused: %s" % verdict, label)
            return s, None
        reply = ("result", gen, c, after[i][BITMAP], after[i][REGS]) if code & EMITS else None
        return (workers, session, nxt, begun, live, after, net, left), reply

    def result(self, s, label, gen, c, bitmap, regs, k):
        inc, mine, received, life = s[0][k]
        if mine != gen or received >> c & 1 or c and not received >> (c - 1) & 1:
            return s
        wanted = [(j, gen, c) for j in range(self.n) if bitmap >> j & 1]
        if sorted((t[0],) + t[2:] for t in regs) != wanted:
            raise Violation("worker %d takes a sum for chunk %d of generation %d that holds %s"
                            % (k, c, gen, sum_text(regs)), label)
        if s[4] >> k & 1 and (k, life, gen, c) not in regs:
            raise Violation("worker %d takes a sum without its own contribution: %s" % (k, sum_text(regs)),
                            label)
        messages = {("add", k, life, gen, c + 1)} if c + 1 < self.chunks else frozenset()
        return self.become(s, k, (inc, gen, received | 1 << c, life), messages)


def sum_text(regs):
    return " + ".join("(rank %d, life %d, generation %d, chunk %d)" % t for t in regs)


def text(m):
    if m[0] == "welcome":
        return "WELCOME reaches worker %d: asked by incarnation %d, held %d, %s" % (
            m[1:4] + ("generation %d" % m[4] if m[4] else "pending",))
    if m[0] == "add":
        return "ADD of worker %d, life %d, generation %d, chunk %d, reaches the aggregator" % m[1:]
    if m[0] == "result":
        return "RESULT of generation %d, chunk %d, reaches worker %d" % (m[1], m[2], m[5])
    return {"hello": "HELLO of worker %d, incarnation %d, reaches the aggregator",
            "restart": "worker %d restarts",
            "deadline": "worker %d gives up at its deadline",
            "order": "now HELLO from ranks %s in turns",
            "shrink": SHRINK_TEXT}[m[0]] % m[1:]
