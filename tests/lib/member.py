#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A rank of a group as a user would write it, with libfpisa through ctypes and without privilege

    member.py LIBRARY HOST NAME RANK SIZE [PLAN]

PLAN is JSON with "options" of the group and "steps". The program prints one line of JSON for each step. The first line is the answer of the
join. Its "gnutls" says whether the library was loaded before the join and after.

    {"sum": TYPE, "count": N}    all-reduce N values rank + 1 of "float32", "float64" or "int32"; the answer has the first value
    {"times": N, "pause": SECONDS, ...}  make N such sums with pauses between them; "calls" is the number of successful calls
    {"compute": SECONDS, ...}    start a sum, keep a CPU busy for this time, then wait; "waited" is the wait in seconds; "timeout_ms" is the
                                 deadline of the sum
    {"late": SECONDS, ...}       begin the sum this late
    {"poll": true, "times": N, ...}      make N such sums in place, each started and tested until it is done
    {"told": N}                  make N sums of one "float32", each started by on_done of the previous sum, without requests;
                                 "calls" is the number of successful calls, "rc" the result of the last call
    {"check": TYPE, "times": N, "seed": S, "pause": SECONDS}
                                 make N sums of random length, including "float16" and "bfloat16"; "wrong" counts wrong sums
    {"broadcast": [BYTES, ...], "times": N, "seed": S}
                                 broadcast random bytes, and words that arithmetic would change, from each rank in turn,
                                 or from "root"; "wrong" counts results that differ, or were written beyond their end. With "tag",
                                 give the calls this tag and the deadline "timeout_ms"
    {"threads": [TYPE, ...], "times": N}         run one thread for each type. Each makes a call that waits, then starts N calls, in turn
                                 with the other threads. "told" is the number of ends that the eventfd reports, "done" the
                                 number of calls that fpisa_test() then reports as done, "wrong" the number of wrong sums
    {"queue": [TYPE, ...], ...}  start a sum of each type, one after the other, with "pause" between the starts, then wait for
                                 them in that order; the answer has the times of the starts in "started", "rcs" and "errors"
    {"descriptors": N}           allow at most N open descriptors from here on, no answer
    {"within": TYPE}             start calls in on_done of a "float32"; "rcs" are the results of another such call, of a call of
                                 TYPE, and of a call that waits
    {"callback": SECONDS}        start a sum of a "float32" whose on_done takes this time; continue when on_done has begun
    {"words": HEX, "type": NUMBER, "op": NUMBER, "count": N, "factor": X}
                                 all-reduce these bytes of any type by any operation; "result" is HEX
    {"scatter": HEX, "type": NUMBER, "op": NUMBER, "counts": [N, ...], "factor": X}
                                 reduce-scatter these bytes; "result" is the rank's part, "sent" the array after the call. With
                                 "null", pass no counts; with "place", work in place; with "start", use the call that starts;
                                 with "count", pass another sum of the counts
    {"parts": COUNT, "times": N} reduce-scatter COUNT floats N times in equal parts; "wrong" counts wrong values
    {"barrier": true}            make a barrier
    {"sleep": SECONDS}           do nothing, no answer
    {"storm": N, "threads": T, "taken": NAME}    let T threads join a group of their own, sum and leave N times. With "taken", every second
                                 thread joins NAME instead, which must be refused. "errors" are the unexpected ones
    {"until": PATH}              do nothing until this file exists, no answer
    {"fork": true}               leave a child behind that does nothing, no answer
    {"leave": true}              leave the group
    {"join": NAME, "rank": RANK, "size": SIZE}   join another group with the same options
    {"in": NAME, ...}            make this step in that group

The program stops at the first error, except in a step with "anyway": true. If the plan has "hold", the program holds the group until it is
killed. If the plan has "again", a number, the program leaves, joins and begins again this many times first.
"""
import ctypes
import errno
import functools
import json
import os
import random
import resource
import select
import signal
import struct
import sys
import threading
import time

from fpisa_h import structure

TYPES = {"float32": (1, ctypes.c_float), "float64": (4, ctypes.c_double), "int32": (7, ctypes.c_int32)}
HALVES = {"float16": (2, lambda x: struct.unpack("<H", struct.pack("<e", x))[0]),
          "bfloat16": (3, lambda x: struct.unpack("<HH", struct.pack("<f", x))[1])}  # as 16 bits, because C has no name for this type
# Signalling NaN, -0, subnormals and the extremes, as words of float32. Two words make a float64.
SPECIALS = struct.pack("<12I", 1 << 31, 0x7f800001, 0xffbfffff, 1, 0x807fffff, 0x7fffffff, 2**32 - 1, 0, 1 << 31, 1, 0x7ff00000, 0xfff7ffff)
GUARD = b"guarded!"
SUM = 1
PR_SET_PDEATHSIG = 1


Options = structure("fpisa_group_options")
ON_DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
Call = structure("fpisa_call", on_done=ON_DONE)


def has_gnutls():
    with open("/proc/self/maps") as f:
        return "libgnutls" in f.read()


class Member:
    def __init__(self, library):
        self.lib = lib = ctypes.CDLL(library)
        lib.fpisa_error.restype = ctypes.c_char_p
        lib.fpisa_group_missing_ranks.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
        lib.fpisa_group_barrier.argtypes = lib.fpisa_group_leave.argtypes = [
            ctypes.c_void_p]
        lib.fpisa_group_join.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32,
                                         ctypes.c_uint32, ctypes.c_void_p]
        lib.fpisa_group_allreduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                              ctypes.c_int, ctypes.c_int, ctypes.c_double, ctypes.c_void_p]
        lib.fpisa_group_reduce_scatter.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_int,
                                                   ctypes.c_double, ctypes.c_void_p]
        lib.fpisa_group_reduce_scatter_start.argtypes = [ctypes.c_void_p] * 4
        lib.fpisa_group_broadcast.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32]
        lib.fpisa_group_broadcast_start.argtypes = [*lib.fpisa_group_broadcast.argtypes, ctypes.c_void_p]
        lib.fpisa_group_broadcast_call.argtypes = [*lib.fpisa_group_broadcast_start.argtypes, ctypes.c_void_p]
        self.library, self.group, self.others = library, ctypes.c_void_p(), {}

    def answer(self, rc, began, **more):
        out = {"rc": rc, "error": self.lib.fpisa_error().decode() if rc else "", "s": time.monotonic() - began, **more}
        if rc and self.group:
            ranks = (ctypes.c_uint32 * 4096)()
            out["missing"] = sum(1 << r for r in ranks[:self.lib.fpisa_group_missing_ranks(self.group, ranks, 4096)])
        out["ended"] = time.monotonic()
        print(json.dumps(out), flush=True)
        return rc

    def join(self, host, name, rank, size, options):
        began, self.at = time.monotonic(), (host, options)
        options = {k: v.encode() if isinstance(v, str) else v for k, v in options.items()}
        o = Options(size=ctypes.sizeof(Options), **options)
        self.rank, self.size, before = rank, size, has_gnutls()
        rc = self.lib.fpisa_group_join(ctypes.byref(self.group), host.encode() if host else None, name.encode(), rank,
                                       size, ctypes.byref(o))
        return self.answer(rc, began, pid=os.getpid(), gnutls=[before, has_gnutls()])

    @functools.lru_cache(maxsize=None)
    def kept(self, kind, count):
        return (kind * count)(*([self.rank + 1] * count)), (kind * count)()

    def arrays(self, kind, count):
        """Make arrays once. Python needs as long to make a large array as the group needs to sum it, and a rank must not be late for the
        sum."""
        values, out = self.kept(kind, count)
        out[0] = out[count - 1] = 0
        return values, out

    def sum(self, step):
        number, kind = TYPES[step["sum"]]
        count = step.get("count", 1000)
        if "poll" in step:
            return self.poll(step, kind, count, number)
        values, out = self.arrays(kind, count)
        if "compute" in step:
            return self.overlap(step, values, out, count, number)
        time.sleep(step.get("late", 0))
        began, calls, rc = time.monotonic(), 0, 0
        while True:
            rc = self.lib.fpisa_group_allreduce(self.group, values, out, count, number, SUM, 1.0, None)
            calls += not rc
            if rc or calls == step.get("times", 1):
                return self.answer(rc, began, calls=calls, first=out[0], last=out[count - 1])
            time.sleep(step.get("pause", 0))

    def overlap(self, step, values, out, count, number):
        began, request = time.monotonic(), ctypes.c_void_p()
        call = Call(size=ctypes.sizeof(Call), send=ctypes.addressof(values), recv=ctypes.addressof(out), count=count,
                    type=number, op=SUM, timeout_ms=step.get("timeout_ms", 0))
        rc = self.lib.fpisa_group_start(self.group, ctypes.byref(call), ctypes.byref(request))
        while time.monotonic() < began + step["compute"]:
            pass
        computed = time.monotonic()
        rc = rc or self.lib.fpisa_wait(ctypes.byref(request), None)
        return self.answer(rc, began, waited=time.monotonic() - computed, first=out[0], last=out[count - 1])

    def poll(self, step, kind, count, number):
        began, calls, rc = time.monotonic(), 0, 0
        while not rc and calls < step.get("times", 1):
            out, done, request = (kind * count)(*([self.rank + 1] * count)), ctypes.c_int(), ctypes.c_void_p()
            call = Call(size=ctypes.sizeof(Call), send=ctypes.addressof(out), recv=ctypes.addressof(out), count=count, type=number,
                        op=SUM)
            rc = self.lib.fpisa_group_start(self.group, ctypes.byref(call), ctypes.byref(request))
            while not rc and not done:
                rc = self.lib.fpisa_test(ctypes.byref(request), ctypes.byref(done), None)
            calls += not rc
        return self.answer(rc, began, calls=calls, first=out[0], last=out[count - 1])

    def told(self, n):
        values, out, ends, done = (ctypes.c_float * 1)(self.rank + 1), (ctypes.c_float * 1)(), [], threading.Event()

        def on_done(_, rc, flags):
            ends.append((rc, self.lib.fpisa_error().decode() if rc else ""))
            done.set()

        began, rc = time.monotonic(), 0
        call = Call(size=ctypes.sizeof(Call), send=ctypes.addressof(values), recv=ctypes.addressof(out), count=1, type=1,
                    op=SUM, on_done=ON_DONE(on_done))
        while not rc and len(ends) < n:
            done.clear()
            rc = self.lib.fpisa_group_start(self.group, ctypes.byref(call), None)
            if not rc:
                done.wait()
                rc = ends[-1][0]
        more = {"error": ends[-1][1]} if ends else {}
        return self.answer(rc, began, calls=ends.count((0, "")), first=out[0], last=out[0], **more)

    def check(self, step):
        number, kind, pack = *TYPES.get(step["check"], (0, ctypes.c_uint16)), lambda x: x
        if step["check"] in HALVES:
            number, pack = HALVES[step["check"]]
        began, calls, wrong = time.monotonic(), 0, 0
        for call in range(step["times"]):
            count = 1 + (call * 577 + step["seed"]) % 3000
            values = (kind * count)(*(pack(self.rank + 1 + (i + call) % 5) for i in range(count)))
            out = (kind * count)()
            rc = self.lib.fpisa_group_allreduce(self.group, values, out, count, number, SUM, 1.0, None)
            if rc:
                return self.answer(rc, began, calls=calls, wrong=wrong)
            all_ranks = self.size * (self.size + 1) // 2
            right = (kind * count)(*(pack(all_ranks + self.size * ((i + call) % 5)) for i in range(count)))
            wrong, calls = wrong + (bytes(out) != bytes(right)), calls + 1
            time.sleep(step.get("pause", 0))
        return self.answer(0, began, calls=calls, wrong=wrong)

    def broadcast(self, step):
        began, calls, wrong, request = time.monotonic(), 0, 0, ctypes.c_void_p()
        for i, size in enumerate(step["broadcast"] * step.get("times", 1)):
            root, rng = step.get("root", i % self.size), random.Random(step.get("seed", 0) + i)
            right = (SPECIALS + rng.randbytes(size))[:size] if i % 2 else rng.randbytes(size)
            # The array lies at an unaligned address. The array of rank `root` has the right values from the start.
            at = i % 8
            data = ctypes.create_string_buffer(bytes(at) + (right if root == self.rank else os.urandom(size)) + GUARD)
            place = ctypes.addressof(data) + at if size else None
            if "tag" in step:
                rc = self.broadcast_call(place, size, root, step, request)
            elif i % 3:
                rc = self.lib.fpisa_group_broadcast(self.group, place, size, root)
            else:
                rc = self.lib.fpisa_group_broadcast_start(self.group, place, size, root, ctypes.byref(request))
            if request:
                rc = self.lib.fpisa_wait(ctypes.byref(request), None)
            if rc:
                return self.answer(rc, began, calls=calls, wrong=wrong)
            calls, wrong = calls + 1, wrong + (data.raw[at:-1] != right + GUARD)
        return self.answer(0, began, calls=calls, wrong=wrong)

    def broadcast_call(self, place, size, root, step, request):
        call = Call(size=ctypes.sizeof(Call), tag=step["tag"], timeout_ms=step.get("timeout_ms", 0))
        return self.lib.fpisa_group_broadcast_call(self.group, place, size, root, ctypes.byref(call), ctypes.byref(request))

    def start(self, kind, number, values, out, request=None, on_done=None):
        call = Call(size=ctypes.sizeof(Call), send=ctypes.addressof(values), recv=ctypes.addressof(out), count=len(values), type=number,
                    op=SUM, **({"on_done": on_done} if on_done else {}))
        return self.lib.fpisa_group_start(self.group, ctypes.byref(call), ctypes.byref(request) if request is not None else None)

    def threads(self, step):
        began, types, times = time.monotonic(), step["threads"], step["times"]
        turn, rcs, started = threading.Condition(), [], []
        at = [0]

        def work(i):
            number, kind = TYPES[types[i]]
            values = (kind * 1000)(*([self.rank + 1] * 1000))
            for call in range(times + 1):
                request, out = ctypes.c_void_p(), (kind * 1000)()
                with turn:
                    turn.wait_for(lambda: at[0] == call * len(types) + i)
                    if call:
                        rcs.append(self.start(kind, number, values, out, request))
                        started.append((request, out, values))
                    else:
                        rcs.append(self.lib.fpisa_group_allreduce(self.group, values, out, 1000, number, SUM, 1.0, None))
                    at[0] += 1
                    turn.notify_all()

        fd, told = self.lib.fpisa_group_eventfd(self.group), 0
        workers = [threading.Thread(target=work, args=(i,)) for i in range(len(types))]
        for w in workers:
            w.start()
        while told < len(types) * times and select.select([fd], [], [], 60)[0]:
            told += struct.unpack("Q", os.read(fd, 8))[0]
        for w in workers:
            w.join()
        done, all_done, right = ctypes.c_int(), 0, self.size * (self.size + 1) // 2
        for request, out, _ in started:
            rcs.append(self.lib.fpisa_test(ctypes.byref(request), ctypes.byref(done), None))
            all_done += done.value
        wrong = sum(list(out) != [right] * 1000 for _, out, _ in started)
        same = fd == self.lib.fpisa_group_eventfd(self.group)
        return self.answer(min(rcs), began, told=told, done=all_done, wrong=wrong, same=same)

    def within(self, step):
        began, ends, rcs = time.monotonic(), threading.Event(), []
        values, out = (ctypes.c_float * 1)(self.rank + 1), [(ctypes.c_float * 1)() for _ in range(3)]
        number, kind = TYPES[step["within"]]
        other = (kind * 1)(), (kind * 1)(), ctypes.c_void_p()
        last = ON_DONE(lambda *_: ends.set())

        def on_done(*_):
            rcs.append(self.start(kind, number, other[0], other[1], other[2]))
            rcs.append(self.lib.fpisa_group_allreduce(self.group, values, out[2], 1, 1, SUM, 1.0, None))
            rcs.append(self.lib.fpisa_group_barrier(self.group))
            self.lib.fpisa_group_leave(self.group)
            rcs.append(self.start(ctypes.c_float, 1, values, out[1], on_done=last))

        first = ON_DONE(on_done)
        rc = self.start(ctypes.c_float, 1, values, out[0], on_done=first)
        ends.wait(60)
        rc = rc or self.lib.fpisa_wait(ctypes.byref(other[2]), None)
        return self.answer(rc, began, rcs=rcs, first=out[0][0], last=out[1][0])

    def callback(self, step):
        began, begun = time.monotonic(), threading.Event()

        def on_done(*_):
            begun.set()
            time.sleep(step["callback"])

        values, out = (ctypes.c_float * 1)(self.rank + 1), (ctypes.c_float * 1)()
        self.called = ON_DONE(on_done), values, out
        rc = self.start(ctypes.c_float, 1, values, out, on_done=self.called[0])
        return self.answer(rc if rc or begun.wait(60) else -errno.ETIMEDOUT, began)

    def queue(self, step):
        began, calls, rcs, errors, wrong = time.monotonic(), [], [], [], 0
        count = step.get("count", 1000)
        for name in step["queue"]:
            time.sleep(step.get("pause", 0) if calls else 0)
            number, kind = TYPES[name]
            values, out, request = (kind * count)(*([self.rank + 1] * count)), (kind * count)(), ctypes.c_void_p()
            rcs.append(self.start(kind, number, values, out, request))
            errors.append(self.lib.fpisa_error().decode() if rcs[-1] else "")
            calls.append((values, out, request))
        started, right = time.monotonic() - began, self.size * (self.size + 1) // 2
        for i, (_, out, request) in enumerate(calls):
            if rcs[i]:
                continue
            rcs[i] = self.lib.fpisa_wait(ctypes.byref(request), None)
            errors[i] = self.lib.fpisa_error().decode() if rcs[i] else ""
            wrong += not rcs[i] and list(out) != [right] * count
        return self.answer(min(rcs), began, started=started, rcs=rcs, errors=errors, wrong=wrong)

    def words(self, step):
        began, flags = time.monotonic(), ctypes.c_uint32()
        data = ctypes.create_string_buffer(bytes.fromhex(step["words"]), len(step["words"]) // 2)
        rc = self.lib.fpisa_group_allreduce(self.group, data, data, step["count"], step["type"], step["op"], step.get("factor", 1.0),
                                            ctypes.byref(flags))
        return self.answer(rc, began, result=data.raw.hex(), flags=flags.value)

    def scatter(self, step):
        began, flags, counts, request = time.monotonic(), ctypes.c_uint32(), step["counts"], ctypes.c_void_p()
        size = len(step["scatter"]) // 2
        data, whole = ctypes.create_string_buffer(bytes.fromhex(step["scatter"]), size), step.get("count", sum(counts))
        first, own = (size * n // whole if whole else 0 for n in (sum(counts[:self.rank]), counts[self.rank]))
        part = ctypes.create_string_buffer(own) if own else None
        place = ctypes.addressof(data) + (first if step.get("place") is True else 4) if step.get("place") else part
        array = None if step.get("null") else (ctypes.c_size_t * self.size)(*counts)
        if step.get("start"):
            call = Call(size=ctypes.sizeof(Call), send=ctypes.addressof(data), recv=ctypes.cast(place, ctypes.c_void_p).value, count=whole,
                        type=step["type"], op=step["op"], factor=step.get("factor", 1.0))
            rc = self.lib.fpisa_group_reduce_scatter_start(self.group, ctypes.byref(call), array, ctypes.byref(request))
            rc = rc or self.lib.fpisa_wait(ctypes.byref(request), ctypes.byref(flags))
        else:
            rc = self.lib.fpisa_group_reduce_scatter(self.group, data, place, whole, array, step["type"], step["op"],
                                                     step.get("factor", 1.0), ctypes.byref(flags))
        result = data.raw[first:first + own] if step.get("place") else part.raw if part else b""
        return self.answer(rc, began, result=result.hex(), sent=data.raw.hex(), flags=flags.value)

    def parts(self, step):
        count, own = step["parts"], step["parts"] // self.size
        ramp = [i % 1000 for i in range(count)]
        values, out = (ctypes.c_float * count)(*(self.rank + 1 + x for x in ramp)), (ctypes.c_float * own)()
        ranks, mine = self.size * (self.size + 1) // 2, ramp[own * self.rank:own * (self.rank + 1)]
        right = (ctypes.c_float * own)(*(ranks + self.size * x for x in mine))
        began, calls, wrong, rc = time.monotonic(), 0, 0, 0
        while not rc and calls < step.get("times", 1):
            ctypes.memset(out, 0, ctypes.sizeof(out))
            rc = self.lib.fpisa_group_reduce_scatter(self.group, values, out, count, None, 1, SUM, 1.0, None)
            calls += not rc
            wrong += not rc and bytes(out) != bytes(right)
        return self.answer(rc, began, calls=calls, wrong=wrong)

    def crowd(self, step):
        began, ranks, rcs, errors = time.monotonic(), step["crowd"], [], []
        options = {k: v.encode() if isinstance(v, str) else v for k, v in self.at[1].items()}
        o = Options(size=ctypes.sizeof(Options), **options)

        def join(i):
            other = self.others[f"crowd{i}"] = Member(self.library)
            rcs.append(self.lib.fpisa_group_join(ctypes.byref(other.group), self.at[0].encode(), f"crowd{i // 64}".encode(), i % 64, 64,
                                                 ctypes.byref(o)))
            errors.append(self.lib.fpisa_error().decode() if rcs[-1] else "")

        threads = [threading.Thread(target=join, args=(i,)) for i in range(ranks)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return self.answer(min(rcs), began, errors=sorted(set(errors)))

    def storm(self, step):
        began, errors = time.monotonic(), []
        options = {k: v.encode() if isinstance(v, str) else v for k, v in self.at[1].items()}

        def work(thread):
            pause, taken = random.Random(thread), "taken" in step and thread % 2
            o, group, out = Options(size=ctypes.sizeof(Options), **options), ctypes.c_void_p(), (ctypes.c_int32 * 1)()
            for i in range(step["storm"]):
                time.sleep(pause.uniform(0, 0.003))
                name = step["taken"] if taken else f"storm{thread}.{i}"
                rc = self.lib.fpisa_group_join(ctypes.byref(group), self.at[0].encode(), name.encode(), 0, 1, ctypes.byref(o))
                if rc != -errno.EEXIST * taken:
                    errors.append(f"join: {rc}: {self.lib.fpisa_error().decode()}")
                if rc:
                    continue
                values = (ctypes.c_int32 * 1)(thread)
                rc = self.lib.fpisa_group_allreduce(group, values, out, 1, TYPES["int32"][0], SUM, 1.0, None)
                if rc or out[0] != thread:
                    errors.append(f"sum: {rc}: {self.lib.fpisa_error().decode()}: {out[0]}")
                self.lib.fpisa_group_leave(group)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(step["threads"])]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return self.answer(0, began, errors=errors)

    def step(self, step):
        if "in" in step:
            return self.others[step.pop("in")].step(step)
        if "join" in step:
            other = self.others[step["join"]] = Member(self.library)
            return other.join(self.at[0], step["join"], step["rank"], step["size"], self.at[1])
        for name, does in (("crowd", self.crowd), ("storm", self.storm), ("check", self.check), ("parts", self.parts), ("sum", self.sum),
                           ("broadcast", self.broadcast), ("threads", self.threads),
                           ("within", self.within), ("callback", self.callback), ("words", self.words), ("scatter", self.scatter), ("queue", self.queue)):
            if name in step:
                return does(step)
        if "told" in step:
            return self.told(step["told"])
        if "barrier" in step:
            return self.answer(self.lib.fpisa_group_barrier(self.group), time.monotonic())
        if "sleep" in step:
            time.sleep(step["sleep"])
        while "until" in step and not os.path.exists(step["until"]):
            time.sleep(0.005)
        if "descriptors" in step:
            open_now = len(os.listdir("/proc/self/fd")) - 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + step["descriptors"],) * 2)
        if "fork" in step and os.fork() == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)
            signal.alarm(120)
            os.closerange(0, 3)
            signal.pause()
        if "leave" in step:
            self.leave()
            return self.answer(0, time.monotonic())
        return 0

    def leave(self):
        self.lib.fpisa_group_leave(self.group)
        self.group = ctypes.c_void_p()

    def run(self, host, name, rank, size, plan):
        """Run the plan. Return whether everything succeeded."""
        return not self.join(host, name, int(rank), int(size), plan.get("options", {})) and \
            not any(self.step(step) and "anyway" not in step for step in plan.get("steps", []))


def main():
    library, host, name, rank, size = sys.argv[1:6]
    plan = json.loads(sys.argv[6]) if len(sys.argv) > 6 else {}
    m = Member(library)
    well = m.run(host, name, rank, size, plan)
    for _ in range(plan.get("again", 0)):
        if well:
            break
        m.leave()
        time.sleep(0.05)
        well = m.run(host, name, rank, size, plan)
    if plan.get("hold") and (well or m.group):
        signal.pause()
    return not well


if __name__ == "__main__":
    sys.exit(main())
