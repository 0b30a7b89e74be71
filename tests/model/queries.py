# SPDX-License-Identifier: GPL-2.0-only
"""Model queries with every order of loss, copies and delays, over the C rules through query.c.

A sent frame may arrive at any time, any number of times, or never. The same holds for a forwarded frame and for an acknowledgement. Frame s
of worker w has the rows ROWS[w][s - 1]. The last frame of a worker is sent once all its other frames are acknowledged, and always goes to
the master.
"""

import ctypes
import functools
from collections import Counter

import rules
from explore import Violation

TOPN, TABLE, JOIN = 16, 17, 18
BITMAP, OPEN = 4, 3
GROUPS = 4

u8, u32, u64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64


@functools.cache
def load():
    """Load query.c, with the types of its functions."""
    lib = rules.build("query.c")
    lib.query_seal.restype = lib.query_floor.restype = u64
    lib.query_seal.argtypes = [ctypes.POINTER(u64), u32, u32, u64, u32]
    lib.query_floor.argtypes = [u64, ctypes.c_int]
    lib.query_key.restype = u32
    lib.query_rows.argtypes = [ctypes.POINTER(u64), u32, u32, u32, u32, u32, u32, u64, ctypes.POINTER(u32),
                               ctypes.POINTER(u32), u32, ctypes.POINTER(u8), ctypes.POINTER(u32)]
    lib.query_keys.argtypes = [ctypes.POINTER(u64), u32, u32, u32, u32, u32, ctypes.POINTER(u32), u32, ctypes.c_int,
                               ctypes.POINTER(u64), ctypes.POINTER(u32)]
    return lib


EPOCH, USED, SEALED, BAR, HIGH, TAKEN, FILTER, BUILT, BEYOND, WORD, HELD, END = 0, 1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 16
NOTHING = (0,) * END


class Rules:
    """The rules of the datapath. Each distinct call is made once."""

    def __init__(self, lib, kind, limit, width=64, flags=0):
        self.lib, self.kind, self.limit, self.width, self.flags = lib, kind, limit, width, flags
        self.known = {}

    def call(self, state, limit, epoch, w, s, rows):
        key = (state, limit, epoch, w, s, rows)
        hit = self.known.get(key)
        if hit is None:
            p, n = (u64 * END)(*state), len(rows)
            keep, added = (u8 * n)(), (u32 * GROUPS)()
            code = self.lib.query_rows(p, self.kind, limit, self.flags, self.width, epoch, w, s, (u32 * n)(*[r[0] for r in rows]),
                                       (u32 * n)(*[r[1] for r in rows]), n, keep, added)
            hit = self.known[key] = code, tuple(p), tuple(keep), tuple(added)
        return hit

    def rows(self, state, epoch, w, s, rows):
        """Return (0 or a negative verdict, the state after the frame, remaining rows, rows added to each group)."""
        return self.call(state, self.limit, epoch, w, s, rows)

    def seal(self, state, epoch, last, workers):
        p = (u64 * END)(*state)
        missing = self.lib.query_seal(p, self.width, epoch, last, workers)
        return missing, tuple(p)

    def keys(self, state, epoch, w, keys, last):
        """Return (0 or a negative verdict, the state after the frame, workers whose keys are missing, state of the filter)."""
        p, missing, filter_state = (u64 * END)(*state), u64(), u32()
        code = self.lib.query_keys(p, self.kind, self.flags, self.width, epoch, w, (u32 * len(keys))(*keys), len(keys), last,
                                   ctypes.byref(missing), ctypes.byref(filter_state))
        return code, tuple(p), missing.value, filter_state.value

    def floor(self, bar, counts):
        return self.lib.query_floor(bar, counts)

    def key(self, value):
        return self.lib.query_key(value)


class WindowIgnored(Rules):
    """This broken rule adds every copy of a frame."""

    def rows(self, state, epoch, w, s, rows):
        high, taken = state[HIGH + w], state[TAKEN + w]
        if state[EPOCH] == epoch and s <= high and high - s < self.width:
            taken &= ~(1 << high - s)
            state = state[:TAKEN + w] + (taken,) + state[TAKEN + w + 1:]
        return super().rows(state, epoch, w, s, rows)


class WindowSlides(Rules):
    """With this broken rule, a number beyond the window moves the window, even if the window then leaves some numbers uncovered."""

    def rows(self, state, epoch, w, s, rows):
        if state[EPOCH] == epoch and s > state[HIGH + w]:
            state = state[:HIGH + w] + (s - 1,) + state[HIGH + w + 1:]
            state = state[:TAKEN + w] + ((1 << self.width) - 1,) + state[TAKEN + w + 1:]
        return super().rows(state, epoch, w, s, rows)


class PlaceLater(Rules):
    """With this broken rule, a key that found no place when its row first arrived finds a place when a later copy arrives."""

    def rows(self, state, epoch, w, s, rows):
        first = state[EPOCH] != epoch or s > state[HIGH + w]
        used = state[USED] if state[EPOCH] == epoch else 0
        return self.call(state, used if first else self.limit, epoch, w, s, rows)


class PlaceLost(Rules):
    """This broken rule replaces a group if a key finds the table full."""

    def rows(self, state, epoch, w, s, rows):
        held = state[HELD:HELD + state[USED]]
        if state[EPOCH] == epoch and state[USED] == self.limit and all(k not in held for k, _ in rows):
            state = state[:USED] + (state[USED] - 1,) + state[USED + 1:]
        return super().rows(state, epoch, w, s, rows)


class SealUnchecked(Rules):
    """With this broken rule, SEAL succeeds whenever the master asks."""

    def seal(self, state, epoch, last, workers):
        return 0, state[:SEALED] + (1,) + state[BAR:]


class CountsAlways(Rules):
    """This broken rule counts every copy of a frame in top-N."""

    def rows(self, state, epoch, w, s, rows):
        return super().rows(state[:HIGH + w] + (0,) + state[HIGH + w + 1:], epoch, w, s, rows)


class TiesOfCopies(Rules):
    """This broken rule of top-N prunes rows equal to T from every copy."""

    def rows(self, state, epoch, w, s, rows):
        code, after, keep, added = super().rows(state, epoch, w, s, rows)
        if s <= state[HIGH + w] and state[BAR]:
            keep = tuple(int(k and self.key(r[1]) >= state[BAR]) for k, r in zip(keep, rows))
        return code, after, keep, added


class Query:
    """State: (epoch, aggregator, rows of the groups, acknowledged, acknowledgements in flight, sent on, at the master, old). The four
    members after the groups have an entry per frame. `sent on` has the rows of each copy that was forwarded, and `at the master` the rows
    of the copy that the master took, or None. `old` says that frames of the first epoch are in flight.
    """

    def __init__(self, rules_, frames, restart=False, copies_taken=False, early_last=False, eager=False, ack_of_busy=False,
                 any_epoch=False, high_first=False, lockless=False):
        self.rules, self.frames, self.workers = rules_, frames, len(frames)
        self.n = len(frames[0])
        self.list = [(w, s) for w in range(self.workers) for s in range(1, self.n + 1)]
        self.restart, self.copies_taken, self.early_last, self.eager = restart, copies_taken, early_last, eager
        self.ack_of_busy, self.any_epoch = ack_of_busy, any_epoch
        self.high_first, self.lockless = high_first, lockless
        self.topn = rules_.kind != TABLE  # a top-N adds nothing

    def initial(self):
        z = len(self.list)
        return 1, NOTHING, ((),) * GROUPS, (0,) * z, (0,) * z, ((),) * z, (None,) * z, None

    def at(self, w, s):
        return w * self.n + s - 1

    def may_send(self, acked, w, s):
        mine = acked[w * self.n:(w + 1) * self.n]
        if s == self.n and not self.early_last:
            return all(mine[:-1])
        low = mine.index(0) + 1 if 0 in mine else self.n + 1
        return self.eager or s < low + self.rules.width

    def finished(self, s):
        return (self.topn or s[1][SEALED]) and s[1][EPOCH] == s[0] and all(
            s[6][self.at(w, self.n)] is not None for w in range(self.workers)) and self.judge(s)

    def wanted(self, r):
        """Return whether the answer contains this row."""
        return True

    def judge(self, s):
        """Check that the master has every worker's last frame and a right table."""
        epoch, agg, groups, acked, acks, on, master, pending = s
        want = [r for r in ((w, f, i) for w, f in self.list for i in range(len(self.frames[w][f - 1]))) if self.wanted(r)]
        at_master = [r for rows in master if rows for r in rows if self.wanted(r)]
        if self.rules.kind == JOIN:
            if sorted(at_master) != want:
                raise Violation("the master lacks rows of the join", "the result")
            return True
        if self.topn:
            value = lambda r: self.frames[r[0]][r[1] - 1][r[2]][1]
            n = self.rules.limit
            best = sorted(map(value, want), reverse=True)[:n]
            if sorted(map(value, at_master), reverse=True)[:n] != best:
                raise Violation("the first %d are %s, and the master has %s" % (n, best, sorted(map(value, at_master))),
                                "the result")
            if agg[BAR] and self.rules.key(best[-1]) + 1 < agg[BAR]:
                raise Violation("the certificate is above the last of the first %d" % n, "the result")
            return True
        have = Counter(at_master)
        for rows in groups:
            have.update(rows)
        for r in want:
            if have[r] != 1:
                raise Violation("row %d of frame %d of worker %d is counted %d times" % (r[2], r[1], r[0], have[r]),
                                "the result")
        return True

    def steps(self, s):
        epoch, agg, groups, acked, acks, on, master, pending = s
        out = []
        for i, (w, f) in enumerate(self.list):
            if self.may_send(acked, w, f) or on[i] or acked[i]:
                out += self.arrives(s, w, f)
            if acks[i] and not acked[i]:
                out.append((("ack", w, f), s[:3] + (put(acked, i, 1),) + s[4:]))
            for rows in set(on[i]):
                out.append((("master", w, f), self.taken(s, i, rows)))
        if not self.topn and all(master[self.at(w, self.n)] is not None for w in range(self.workers)):
            out.append((("seal", 0, 0), self.seal(s)))
        if self.restart and epoch == 1:
            z = Query.initial(self)
            out.append((("restart", 0, 0), (2, agg, groups) + z[3:]))
        return [(label, t) for label, t in out if t != s]

    def arrives(self, s, w, f):
        """Deliver the ROWS of worker w, frame f, to the aggregator, even from the first epoch if there was one."""
        epoch, pending = s[0], s[7]
        out = []
        if self.lockless:
            # A CPU reads without the lock, so another frame may arrive between its two loads.
            if pending is None:
                first = int(f > s[1][HIGH + w]) if self.high_first else s[1][BAR]
                out.append((("read", w, f), s[:7] + ((w, f, first),)))
            elif pending[:2] == (w, f):
                first = pending[2]
                bar, counts = (s[1][BAR], first) if self.high_first else (first, f > s[1][HIGH + w])
                out.append((("decide", w, f), self.rows(s[:7] + (None,), w, f, epoch, self.rules.floor(bar, counts))))
            out.append((("rows", w, f), self.rows(s, w, f, epoch)))
            return out
        out.append((("rows", w, f), self.rows(s, w, f, epoch)))
        if epoch == 2:
            out.append((("old rows", w, f), self.rows(s, w, f, 1)))
        if self.ack_of_busy:
            i = self.at(w, f)
            out.append((("busy", w, f), s[:4] + (put(s[4], i, 1),) + s[5:]))
        return out

    def rows(self, s, w, f, of_epoch, floor=0):
        epoch, agg, groups, acked, acks, on, master, pending = s
        i, label = self.at(w, f), ("rows", w, f)
        if of_epoch != epoch:
            # The datapath makes this check under the lock. Without the check, rows are added to the running table.
            if not self.any_epoch:
                return s
        known = [k for k, r in enumerate(self.frames[w][f - 1]) if not floor or self.rules.key(r[1]) >= floor]
        if known or not floor:
            frame = tuple(self.frames[w][f - 1][k] for k in known)
            code, after, keep, added = self.rules.rows(agg, epoch, w, f, frame)
            if code < 0:
                if not self.eager and of_epoch == epoch and not after[SEALED]:
                    raise Violation("a worker that keeps the rules is refused", label)
                return s
            if agg[EPOCH] != after[EPOCH]:
                groups = ((),) * GROUPS
            # A group that was given to another key has lost its rows.
            groups = tuple(rows if after[HELD + g] == agg[HELD + g] else () for g, rows in enumerate(groups))
            # A row of another epoch is a different row, even in a frame with the same number.
            tag = {k: (w, f, known[k] + (0 if of_epoch == epoch else 100)) for k in range(len(frame))}
            left = tuple(tag[k] for k, stays in enumerate(keep) if stays)
            if not self.topn and sum(added):
                held = after[HELD:HELD + after[USED]]
                groups = list(groups)
                for k, r in enumerate(frame):
                    # Otherwise a filter has pruned the row.
                    if not keep[k] and r[0] in held:
                        g = held.index(r[0])
                        groups[g] = tuple(sorted(groups[g] + (tag[k],)))
                groups = tuple(groups)
        else:
            after, left = agg, ()
        if len(set(sum(groups, ()))) != sum(map(len, groups)):
            raise Violation("a row is in the table twice", label)
        if on[i] and of_epoch == epoch and left not in on[i] and self.rules.kind != TOPN:
            raise Violation("two copies of a frame leave different rows", label)
        if left or f == self.n:
            if of_epoch == epoch and left not in on[i]:
                on = put(on, i, on[i] + (left,))
        else:
            acks = put(acks, i, 1)
        return epoch, after, groups, acked, acks, on, master, pending

    def taken(self, s, i, rows):
        """Deliver a forwarded frame to the master. The master acknowledges every copy, and takes one copy of each frame."""
        epoch, agg, groups, acked, acks, on, master, pending = s
        if master[i] is None:
            master = put(master, i, rows)
        elif self.copies_taken and rows and len(master[i]) < 2:
            master = put(master, i, master[i] + rows)
        return epoch, agg, groups, acked, put(acks, i, 1), on, master, pending

    def seal(self, s):
        missing, agg = self.rules.seal(s[1], s[0], self.n, self.workers)
        return s if missing else (s[0], agg) + s[2:]

    def fair(self, s):
        for i, (w, f) in enumerate(self.list):
            if s[3][i] or not self.may_send(s[3], w, f):
                continue
            t = s
            if not s[4][i]:
                t = self.rows(s[:7] + (None,), w, f, s[0])
                for rows in t[5][i][:1]:
                    t = self.taken(t, i, rows)
            return t[:3] + (put(t[3], i, 1),) + t[4:] if t[4][i] else None
        if not self.topn and not s[1][SEALED] and all(s[6][self.at(w, self.n)] is not None for w in range(self.workers)):
            t = self.seal(s)
            return t if t != s else None
        return None


class UsedEarly(Rules):
    """This broken rule uses the filter from the first rows on, although keys are missing."""

    def rows(self, state, epoch, w, s, rows):
        return super().rows(state[:BUILT] + (3,) + state[BEYOND:], epoch, w, s, rows)


class Undecided(Rules):
    """With this broken rule, rows pass until the filter is complete."""

    def rows(self, state, epoch, w, s, rows):
        code, after, keep, added = super().rows(state, epoch, w, s, rows)
        if after[FILTER] & 0xffffffff == OPEN:
            after = after[:FILTER] + (0,) + after[BUILT:]
        return code, after, keep, added


class CountsUnsure(Rules):
    """This broken rule of top-N counts a row that may not be in the join."""

    def rows(self, state, epoch, w, s, rows):
        if state[FILTER] != epoch << 32 | OPEN:
            return super().rows(state, epoch, w, s, rows)
        return Rules(self.lib, self.kind, self.limit, self.width).rows(state, epoch, w, s, rows)


class Joined(Query):
    """Queries with a filter. Worker w sends the keys KEYS[w], one in each frame, then its rows. The worker sends its last keys when its
    other keys are acknowledged. It sends rows once it learns that no keys are missing, or, if workers do not wait, once its own keys are
    acknowledged.

    State: (state of Query, acknowledged keys, acknowledgements in flight). Acknowledgement 2 also says that no worker's keys are missing.
    """

    def __init__(self, rules_, keys, frames, impatient=False, last_early=False, untaken=False, late=False, **options):
        super().__init__(rules_, frames, **options)
        self.keys, self.m = keys, len(keys[0])
        self.key_frames = [(w, f) for w in range(self.workers) for f in range(self.m)]
        self.join = {k for mine in keys for frame in mine for k in frame}
        self.impatient, self.last_early, self.untaken, self.late = impatient, last_early, untaken, late

    def initial(self):
        none = (0,) * len(self.key_frames)
        return super().initial(), none, none

    def wanted(self, r):
        return self.frames[r[0]][r[1] - 1][r[2] % 100][0] in self.join

    def begin(self, acked):
        """Choose which workers send rows."""
        mine = [acked[w * self.m:(w + 1) * self.m] for w in range(self.workers)]
        self.sends_rows = [all(a) and (self.impatient or 2 in a) for a in mine]

    def may_send(self, acked, w, s):
        return self.sends_rows[w] and super().may_send(acked, w, s)

    def may_send_keys(self, acked, w, f):
        return f < self.m - 1 or self.last_early or all(acked[w * self.m:w * self.m + f])

    def finished(self, t):
        return super().finished(t[0])

    def steps(self, t):
        s, acked, acks = t
        self.begin(acked)
        out = []
        for label, after in super().steps(s):
            out.append((label, (after, *self.initial()[1:]) if label[0] == "restart" else (after, acked, acks)))
        for i, (w, f) in enumerate(self.key_frames):
            if self.may_send_keys(acked, w, f):
                out.append((("keys", w, f + 1), self.arrive(t, i, s[0])))
                if self.untaken:
                    out.append((("untaken keys", w, f + 1), (s, acked, put(acks, i, max(acks[i], 1)))))
            if s[0] == 2 and self.any_epoch:
                out.append((("old keys", w, f + 1), self.arrive(t, i, 1)))
            if acks[i] > acked[i]:
                out.append((("keys ack", w, f + 1), (s, put(acked, i, acks[i]), acks)))
        return [(label, after) for label, after in out if after != t]

    def arrive(self, t, i, of_epoch):
        """Deliver KEYS to the aggregator, which can tell the keys of the first epoch from those of the second."""
        s, acked, acks = t
        w, f = self.key_frames[i]
        code, agg, missing, state = self.rules.keys(s[1], s[0], w, self.keys[w][f], f == self.m - 1)
        if code < 0 and not self.late:
            raise Violation("a worker that keeps the rules is refused", ("keys", w, f + 1))
        groups = s[2] if agg[EPOCH] == s[1][EPOCH] else ((),) * GROUPS
        if of_epoch == s[0]:
            acks = put(acks, i, max(acks[i], 2 if f == self.m - 1 and (state or not missing) else 1))
        return (s[0], agg, groups) + s[3:], acked, acks

    def fair(self, t):
        s, acked, acks = t
        for i, (w, f) in enumerate(self.key_frames):
            if acked[i] < (2 if f == self.m - 1 else 1) and self.may_send_keys(acked, w, f):
                after = self.arrive(t, i, s[0])
                after = (after[0], put(acked, i, after[2][i]), after[2])
                if after != t:
                    return after
        self.begin(acked)
        after = super().fair(s)
        return after and (after, acked, acks)


def put(t, i, v):
    return t if t[i] == v else t[:i] + (v,) + t[i + 1:]


def text(label):
    kind, w, f = label
    frame = "frame %d of worker %d" % (f, w)
    return {"rows": frame + " reaches the aggregator", "ack": "its acknowledgement reaches the worker: " + frame,
            "old rows": frame + ", of the first epoch, reaches the aggregator", "master": frame + " reaches the master",
            "busy": frame + " is dropped, for the lock is taken", "read": "a CPU reads without the lock for " + frame,
            "decide": "that CPU decides on " + frame, "seal": "SEAL", "restart": "all join anew",
            "keys": "keys of " + frame + " reach the aggregator", "keys ack": "their acknowledgement reaches the worker: " + frame,
            "old keys": "keys of " + frame + ", of the first epoch, reach the aggregator",
            "untaken keys": "keys of " + frame + " are acknowledged, and dropped"}[kind]


# Rows are (key, value). There are three keys and two places, so one key finds no place.
ONE = [[((0, 1), (1, 1)), ((2, 1), (0, 1)), ((1, 1), (2, 1)), ((2, 1),)]]
TWO = [[((0, 1), (1, 1)), ((2, 1), (0, 1))], [((1, 1), (2, 1)), ((0, 1),)]]
THREE = [[((0, 1),), ((1, 1),), ((2, 1),)], [((2, 1),), ((0, 1),), ((1, 1),)]]
# The keys of a join, without key 2
SOME = [[(0,), ()], [(), (1,)]]
ANEW = [[(1,), (0,)], [(), ()]]
BOTH = [[((2, 1), (0, 1)), ((1, 1), (2, 1))], [((0, 1), (2, 1)), ((1, 1),)]]
FEW = [[((2, 3), (0, 1)), ((1, 2),)], [((2, 4),), ((0, 2), (1, 1))]]
# Values with ties, both at T and above T
FIRST = [[((0, 2), (1, 1)), ((2, 2), (3, 3))], [((4, 3), (5, 2)), ((6, 1), (7, 3))]]
TIES = [[((0, 1), (1, 1)), ((2, 2),)], [((4, 2),), ((6, 2), (7, 1))]]


def table(frames, limit, width, cls=Rules, **options):
    return lambda _: (Query(cls(load(), TABLE, limit, width), frames, **options), text)


def topn(frames, limit, cls=Rules, **options):
    return lambda _: (Query(cls(load(), TOPN, limit), frames, **options), text)


def joined(kind, keys, frames, limit, cls=Rules, **options):
    return lambda _: (Joined(cls(load(), kind, limit, 2, BITMAP), keys, frames, **options), text)


CONFIGURATIONS = {
    "query table: 1 worker, 4 frames, window 2, room for 2 of 3 keys": table(ONE, 2, 2),
    "query table: 2 workers, 2 frames, window 2, room for 2 of 3 keys": table(TWO, 2, 2),
    "query table: 2 workers, 3 frames, window 2, room for 1 of 3 keys": table(THREE, 1, 2),
    "query table: 2 workers, 2 frames, window 1, room for all": table(TWO, 3, 1),
    "query table: 1 worker, 2 frames, all join anew": table([ONE[0][:2]], 2, 2, restart=True),
    "query table: 1 worker, 4 frames, window 2, worker ignores it": table(ONE, 2, 2, eager=True),
    "query topn: 2 workers, 2 frames, N 2, ties": topn(FIRST, 2),
    "query topn: 2 workers, 2 frames, N 3, ties": topn(TIES, 3),
    "query topn: 2 workers, 2 frames, N 1, read without the lock": topn(TIES, 1, lockless=True),
    "query topn: 2 workers, 2 frames, N 2, read without the lock": topn(TIES, 2, lockless=True),
    "query join: 2 workers, 2 frames of keys, 2 of rows": joined(JOIN, SOME, BOTH, 0),
    "query join: 2 workers, 2 frames of keys, 2 of rows, which do not wait": joined(JOIN, SOME, BOTH, 0, impatient=True),
    "query join: 2 workers, 2 frames of keys, 1 of rows, all join anew": joined(JOIN, ANEW, [mine[1:] for mine in BOTH], 0, restart=True),
    "query table of a join: 2 workers, room for 1 of 3 keys": joined(TABLE, SOME, BOTH, 1),
    "query table of a join: 2 workers, room for 1 of 3 keys, rows do not wait": joined(TABLE, SOME, BOTH, 1, impatient=True),
    "query topn of a join: 2 workers, N 1": joined(TOPN, SOME, FEW, 1),
    "query topn of a join: 2 workers, N 1, rows do not wait": joined(TOPN, SOME, FEW, 1, impatient=True),
}

MUTATIONS = {
    "query-window-ignored": table(ONE, 2, 2, WindowIgnored),
    "query-window-slides": table(ONE, 2, 2, WindowSlides, eager=True),
    "query-place-later": table(TWO, 2, 2, PlaceLater),
    "query-place-lost": table(TWO, 2, 2, PlaceLost),
    "query-seal-unchecked": table(TWO, 2, 2, SealUnchecked, ack_of_busy=True),
    "query-ack-before-adds": table(TWO, 2, 2, ack_of_busy=True),
    "query-master-takes-copies": table(TWO, 2, 2, copies_taken=True),
    "query-last-early": table(TWO, 2, 2, early_last=True),
    "query-epoch-ignored": table([ONE[0][:2]], 2, 2, restart=True, any_epoch=True),
    "query-counts-every-copy": topn(FIRST, 2, CountsAlways),
    "query-ties-of-a-copy": topn(TIES, 3, TiesOfCopies),
    "query-reads-high-first": topn(TIES, 1, lockless=True, high_first=True),
    "query-filter-used-early": joined(JOIN, SOME, BOTH, 0, UsedEarly, impatient=True, late=True),
    "query-filter-undecided": joined(TABLE, SOME, BOTH, 1, Undecided, impatient=True),
    "query-filter-counts-unsure": joined(TOPN, SOME, FEW, 1, CountsUnsure, impatient=True),
    "query-keys-last-early": joined(JOIN, SOME, BOTH, 0, last_early=True, late=True),
    "query-keys-not-taken": joined(JOIN, SOME, BOTH, 0, untaken=True, late=True),
    "query-keys-of-old-epoch": joined(JOIN, ANEW, [mine[1:] for mine in BOTH], 0, restart=True, any_epoch=True,
                                      late=True),
}
