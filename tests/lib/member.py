#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A rank of a group as its user writes it: libfpisa through ctypes, no privilege.

    member.py LIBRARY HOST NAME RANK SIZE [PLAN]

PLAN, JSON, has "options" of the group and "steps", each of which answers with
one line of JSON on stdout; the first line is the answer of the join:

    {"sum": TYPE, "count": N}	 all-reduce N values rank + 1 of "float32", "float64" or "int32"; answers with the first
    {"times": N, "pause": SECONDS, ...}	 N such sums, and pauses between; "calls" says how many went well
    {"barrier": true}		 a barrier
    {"sleep": SECONDS}		 do nothing, no answer
    {"fork": true}		 leave a child behind that does nothing, no answer
    {"leave": true}		 leave the group

It stops at the first error, and holds the group until it is killed if the plan says "hold".
"""
import ctypes
import json
import os
import signal
import sys
import time

TYPES = {"float32": (1, ctypes.c_float), "float64": (4, ctypes.c_double), "int32": (7, ctypes.c_int32)}
SUM = 1
PR_SET_PDEATHSIG = 1


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("key_file", ctypes.c_char_p), ("join_timeout_ms", ctypes.c_uint32),
                ("timeout_ms", ctypes.c_uint32), ("window", ctypes.c_uint32), ("elements", ctypes.c_uint16),
                ("mode", ctypes.c_uint8), ("pipeline", ctypes.c_uint8), ("overflow", ctypes.c_uint32),
                ("transport", ctypes.c_uint32), ("restore", ctypes.c_uint64)]


class Member:
    def __init__(self, library):
        self.lib = lib = ctypes.CDLL(library)
        lib.fpisa_error.restype = ctypes.c_char_p
        lib.fpisa_group_missing.restype = ctypes.c_uint64
        lib.fpisa_group_missing.argtypes = lib.fpisa_group_barrier.argtypes = lib.fpisa_group_leave.argtypes = [
            ctypes.c_void_p]
        lib.fpisa_group_join.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32,
                                         ctypes.c_uint32, ctypes.c_void_p]
        lib.fpisa_group_allreduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                              ctypes.c_int, ctypes.c_int, ctypes.c_double, ctypes.c_void_p]
        self.group = ctypes.c_void_p()

    def answer(self, rc, began, **more):
        out = {"rc": rc, "error": self.lib.fpisa_error().decode() if rc else "", "s": time.monotonic() - began, **more}
        if rc and self.group:
            out["missing"] = self.lib.fpisa_group_missing(self.group)
        out["ended"] = time.monotonic()
        print(json.dumps(out), flush=True)
        return rc

    def join(self, host, name, rank, size, options):
        began = time.monotonic()
        options = {k: v.encode() if isinstance(v, str) else v for k, v in options.items()}
        o = Options(size=ctypes.sizeof(Options), **options)
        self.rank = rank
        rc = self.lib.fpisa_group_join(ctypes.byref(self.group), host.encode() if host else None, name.encode(), rank,
                                       size, ctypes.byref(o))
        return self.answer(rc, began, pid=os.getpid())

    def sum(self, step):
        number, kind = TYPES[step["sum"]]
        count = step.get("count", 1000)
        values = (kind * count)(*([self.rank + 1] * count))
        out = (kind * count)()
        began, calls, rc = time.monotonic(), 0, 0
        while True:
            rc = self.lib.fpisa_group_allreduce(self.group, values, out, count, number, SUM, 1.0, None)
            calls += not rc
            if rc or calls == step.get("times", 1):
                return self.answer(rc, began, calls=calls, first=out[0], last=out[count - 1])
            time.sleep(step.get("pause", 0))

    def step(self, step):
        if "sum" in step:
            return self.sum(step)
        if "barrier" in step:
            return self.answer(self.lib.fpisa_group_barrier(self.group), time.monotonic())
        if "sleep" in step:
            time.sleep(step["sleep"])
        if "fork" in step and os.fork() == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)
            signal.alarm(120)
            os.closerange(0, 3)
            signal.pause()
        if "leave" in step:
            self.lib.fpisa_group_leave(self.group)
            self.group = ctypes.c_void_p()
            return self.answer(0, time.monotonic())
        return 0


def main():
    library, host, name, rank, size = sys.argv[1:6]
    plan = json.loads(sys.argv[6]) if len(sys.argv) > 6 else {}
    m = Member(library)
    if m.join(host, name, int(rank), int(size), plan.get("options", {})):
        return 1
    for step in plan.get("steps", []):
        if m.step(step):
            if plan.get("hold"):
                signal.pause()
            return 1
    if plan.get("hold"):
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
