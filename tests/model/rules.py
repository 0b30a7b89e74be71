# SPDX-License-Identifier: GPL-2.0-only
"""The rules that the models run: the C functions of include/fpisa/frame.h and slot.h through rules.c, and deliberately broken variants of
the rules

A version of a slot is a tuple (generation, chunk, bitmap, order, arrivals, done, digest, keepers, regs). It has the fields of struct fpisa_slot, and
the tags of the contributions in the registers, in the order in which they were added. A tag names the rank and the chunk of a contribution.
C never sees a tag.
"""

import ctypes
import os
import shlex
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "..", "..", "include")
USER = os.path.join(HERE, "..", "..", "user")

SET, ADD, WAIT, FINISH, RESEND = range(5)  # enum fpisa_step
EMITS = BREAKS = 0x100  # from rules.c
HALF = 0x200

GEN, CHUNK, BITMAP, ORDER, ARRIVALS, DONE, DIGEST, KEEPERS, REGS = range(9)
EMPTY = (0, 0, 0, 0, 0, 0, 0, 0, ())
SAME = 1  # digest of ranks that make the same calls

u32, u64 = ctypes.c_uint32, ctypes.c_uint64


def build(source="rules.c"):
    """Compile a file of this directory into a temporary file and load it."""
    with tempfile.TemporaryDirectory(prefix="fpisa-model-") as tmp:
        so = os.path.join(tmp, "model.so")
        cc = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run(cc + ["-std=gnu11", "-O2", "-shared", "-fPIC", "-I", INCLUDE, "-I", USER,
                             os.path.join(HERE, source), "-o", so], check=True)
        return ctypes.CDLL(so)


def load():
    """Load rules.c, with the types of its functions."""
    lib = build()
    lib.rules_add.argtypes = [ctypes.POINTER(u64), u32, u32, u32, u64, u32, u64, u64, u32, u64, u32, u32, u32]
    lib.rules_part.argtypes = [ctypes.POINTER(u64)] * 2 + [u32, u32, u32, u64, u32, u32, u32, u64, u64, u32]
    lib.rules_lost.restype = u64
    lib.rules_lost.argtypes = [ctypes.POINTER(u64), u32, u64, u32, u64]
    lib.rules_verdict.restype = ctypes.c_char_p
    lib.rules_keepers.restype = u32
    lib.rules_keepers.argtypes = [u32, u32]
    lib.rules_kept_by.restype = u64
    lib.rules_kept_by.argtypes = [u32, u32]
    lib.rules_slot_of.restype = u32
    lib.rules_slot_of.argtypes = [u64, u32]
    return lib


class Rules:
    """The aggregator's rules as the datapath has them."""

    def __init__(self, lib, workers, window):
        self.lib, self.workers, self.window = lib, workers, window
        self.known = {}
        names = []
        while lib.rules_verdict(len(names)):
            names.append(lib.rules_verdict(len(names)).decode())
        self.names = names

    def verdict(self, code):
        """Return the name of a drop's verdict."""
        return self.names[-code & 0xff]

    def add(self, slot, rank, chunk, gen, door, live, current, digest=SAME, broken=0, lost=0, keepers=0):
        """Return (code, fields of the slot after the frame). The code is that of rules_add()."""
        key = (slot[:REGS], rank, chunk, gen, door, live, current, digest, broken, lost, keepers)
        hit = self.known.get(key)
        if hit is None:
            r = (u64 * REGS)(*slot[:REGS])
            code = self.lib.rules_add(r, self.workers, self.window, rank, chunk, gen, door, live, current, digest, broken,
                                      lost, keepers)
            hit = self.known[key] = (code, tuple(r))
        return hit

    def frame(self, slots, rank, chunk, gen, tag, door, live, current, *calls):
        """Deliver one ADD. `calls` is digest, broken, lost and keepers. Return (code, index, slots after the ADD)."""
        i = self.lib.rules_slot_of(chunk, self.window)
        code, fields = self.add(slots[i], rank, chunk, gen, door, live, current, *calls)
        regs = slots[i][REGS]
        if code < 0:
            return code, i, slots[:i] + (fields + (regs + (tag,),),) + slots[i + 1:] if -code & HALF else slots
        if code & 0xff == SET:
            regs = (tag,)
        elif code & 0xff == ADD:
            regs += (tag,)
        return code, i, slots[:i] + (fields + (regs,),) + slots[i + 1:]

    def keepers(self, first, last):
        """Return the field of an ADD that names the ranks from first to last."""
        return self.lib.rules_keepers(first, last)

    def kept_by(self, keepers):
        """Return the bitmap of the ranks that get the payload of a result of a slot with these keepers."""
        return self.lib.rules_kept_by(keepers, self.workers)

    def lost(self, slots, chunk, gen, live):
        """Return the bitmap of the ranks that the result of `chunk` names as lost in the previous chunk."""
        before = slots[self.lib.rules_slot_of(max(chunk - 1, 0), self.window)][:REGS]
        key = (before, chunk, gen, live)
        if key not in self.known:
            self.known[key] = self.lib.rules_lost((u64 * REGS)(*before), self.workers, chunk, gen, live)
        return self.known[key]

    def join(self, session, next_gen, rank, inc, live):
        """Deliver one HELLO. session is (joining, generation, incarnations, members). Return (joined, session,
        next_gen).
        """
        key = (session, next_gen, rank, inc, live)
        hit = self.known.get(key)
        if hit is None:
            joining, members, gen, nxt = u64(session[0]), u64(session[3]), u32(session[1]), u32(next_gen)
            incs = (u64 * len(session[2]))(*session[2])
            joined = self.lib.rules_join(ctypes.byref(joining), ctypes.byref(members), ctypes.byref(gen),
                                         ctypes.byref(nxt), incs, len(incs), u32(rank), u64(inc), u64(live))
            after = joining.value, gen.value, tuple(incs), members.value
            hit = self.known[key] = (joined, after, nxt.value)
        return hit


class Bitmap(Rules):
    """SwitchML's rule has a bitmap and a counter per version, and neither a chunk number nor `done`."""

    def frame(self, slots, rank, chunk, gen, tag, door, live, current):
        i = self.lib.rules_slot_of(chunk, self.window)
        bit, mine, other = 1 << rank, slots[i], slots[i ^ 1]
        count, regs = mine[ARRIVALS], mine[REGS]
        if mine[BITMAP] & bit:
            return (RESEND | EMITS if count == 0 else WAIT), i, slots
        count = (count + 1) % self.workers
        regs = (tag,) if count == 1 else regs + (tag,)
        new = list(slots)
        order = sum(n << 4 * t[0] for n, t in enumerate(regs))
        new[i] = (gen, 0, mine[BITMAP] | bit, order, count, 0, SAME, 0, regs)
        new[i ^ 1] = other[:BITMAP] + (other[BITMAP] & ~bit,) + other[ORDER:]
        return (SET if len(regs) == 1 else ADD) | (0 if count else EMITS), i, tuple(new)


class DoneUnchecked(Rules):
    """With this broken rule, a round starts 2W further on even if the previous round is not done."""

    def add(self, slot, rank, chunk, *rest):
        if chunk == slot[CHUNK] + 2 * self.window:
            slot = slot[:DONE] + (1,) + slot[DIGEST:]
        return super().add(slot, rank, chunk, *rest)


class AddAfterDone(Rules):
    """Broken rule: if the round is done but the rank is not in the bitmap, add the contribution anyway."""

    def add(self, slot, rank, chunk, *rest):
        if chunk == slot[CHUNK] and not slot[BITMAP] >> rank & 1:
            slot = slot[:DONE] + (0,) + slot[DIGEST:]
        return super().add(slot, rank, chunk, *rest)


class OneVersion(Rules):
    """With this broken rule, each slot has one version. Chunk c + W starts its round in the place that keeps the result of chunk c."""

    def frame(self, slots, rank, chunk, gen, tag, door, live, current):
        i, w = 2 * (chunk % self.window), self.window
        slot, claim = slots[i], chunk
        if slot[GEN] == gen and chunk > slot[CHUNK]:
            claim = slot[CHUNK] + 2 * w if chunk == slot[CHUNK] + w else slot[CHUNK] + 4 * w
        code, f = self.add(slot, rank, claim, gen, door, live, current)
        if code < 0:
            return code, i, slots
        regs = {SET: (tag,), ADD: slot[REGS] + (tag,)}.get(code & 0xff, slot[REGS])
        return code, i, slots[:i] + ((f[0], chunk) + f[2:] + (regs,),) + slots[i + 1:]


class DuplicateAdded(Rules):
    """This broken rule does not check the bitmap, so a second copy is added again."""

    def add(self, slot, rank, chunk, *rest):
        other = 1 << 63  # this bit keeps the bitmap from being empty
        if chunk != slot[CHUNK] or slot[DONE] or not slot[BITMAP] >> rank & 1:
            return super().add(slot, rank, chunk, *rest)
        slot = slot[:BITMAP] + (slot[BITMAP] & ~(1 << rank) | other,) + slot[ORDER:]
        code, f = super().add(slot, rank, chunk, *rest)
        return code, f[:BITMAP] + (f[BITMAP] & ~other,) + f[ORDER:]


class NoFinish(Rules):
    """With this broken rule, a duplicate never completes a round, not even after a rank was removed."""

    def add(self, slot, *rest):
        code, fields = super().add(slot, *rest)
        return (WAIT, slot[:REGS]) if code == FINISH | EMITS else (code, fields)


class NoResend(Rules):
    """With this broken rule, a finished round sends no answers."""

    def add(self, slot, *rest):
        code, fields = super().add(slot, *rest)
        return (WAIT, fields) if code == RESEND | EMITS else (code, fields)


class LostOfNextChunk(Rules):
    """With this broken rule, a result names the ranks whose contributions to the next chunk are missing, although these may still
    arrive."""

    def lost(self, slots, chunk, gen, live):
        return super().lost(slots, chunk + 2, gen, live)


class LostOfTakenOut(Rules):
    """With this broken rule, a result names ranks that were removed from the job, although no worker waits for them."""

    def lost(self, slots, chunk, gen, live):
        return super().lost(slots, chunk, gen, (1 << self.workers) - 1)


class KeepersOfTheFirst(Rules):
    """With this broken rule, a round has the keepers that its first contribution names, also if others name different ones."""

    def add(self, slot, rank, chunk, *rest):
        code, f = super().add(slot, rank, chunk, *rest)
        same = code >= 0 and slot[GEN] and slot[CHUNK] == chunk
        return code, f[:KEEPERS] + (slot[KEEPERS],) if same else f


class KeepersOfTheLastRound(Rules):
    """With this broken rule, a round keeps the keepers of the previous round in its slot."""

    def add(self, slot, rank, chunk, *rest):
        code, f = super().add(slot, rank, chunk, *rest)
        return code, f[:KEEPERS] + (slot[KEEPERS],) if code >= 0 and slot[KEEPERS] else f


class GenerationIgnored(Rules):
    """This broken rule adds a contribution to the slot's round in any generation."""

    def add(self, slot, rank, chunk, gen, door, live, current):
        return super().add(slot, rank, chunk, slot[GEN] or current, door, live, slot[GEN] or current)


class GenerationEarly(Rules):
    """This broken rule compares the generation before it takes the lock, so contributions of any earlier generation may pass."""

    def add(self, slot, rank, chunk, gen, door, live, current):
        return super().add(slot, rank, chunk, gen, door, live, gen if gen < current else current)


class DigestIgnored(Rules):
    """This broken rule treats calls of equal length as equal calls."""

    def add(self, slot, rank, chunk, gen, door, live, current, digest=SAME, broken=0, lost=0):
        return super().add(slot, rank, chunk, gen, door, live, current, SAME, broken, lost)


class JoinAny(Rules):
    """With this broken rule, any HELLO joins, also a copy of a HELLO that was answered."""

    def join(self, session, next_gen, rank, inc, live):
        known = session[2]
        if inc == known[rank] and session[3] >> rank & 1:
            session = session[:2] + (known[:rank] + (inc - 1,) + known[rank + 1:], session[3])
        return super().join(session, next_gen, rank, inc, live)


class JoinStale(Rules):
    """This broken rule does not compare the incarnation, so an older HELLO joins."""

    def join(self, session, next_gen, rank, inc, live):
        known = session[2]
        if inc < known[rank]:
            session = session[:2] + (known[:rank] + (inc - 1,) + known[rank + 1:], session[3])
        return super().join(session, next_gen, rank, inc, live)


class JoinRunning(Rules):
    """With this broken rule, a worker that restarts joins the running generation."""

    def join(self, session, next_gen, rank, inc, live):
        joining, gen, known, members = session
        if gen and inc > known[rank]:
            return 1, (joining, gen, known[:rank] + (inc,) + known[rank + 1:], members), next_gen
        return super().join(session, next_gen, rank, inc, live)


class JoinOnce(Rules):
    """With this broken rule, a HELLO counts until a generation begins, even if its sender has died in the meantime."""

    def join(self, session, next_gen, rank, inc, live):
        joining, gen, known, members = session
        if inc < known[rank]:
            return 0, session, next_gen
        if inc > known[rank]:
            joining |= 1 << rank
            known = known[:rank] + (inc,) + known[rank + 1:]
        if not joining >> rank & 1:
            return 1, session, next_gen
        if joining & live != live:
            return 0, (joining, gen, known, members), next_gen
        return 1, (0, next_gen, known, members), next_gen + 1
