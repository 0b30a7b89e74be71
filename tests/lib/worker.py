#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A worker as a user would write it, with libfpisa through ctypes and without privilege

    worker.py LIBRARY ADDRESS JOB [PLAN]

lab.py starts the program in the namespace of a worker. ADDRESS is the address of the aggregator. PLAN is JSON with further "options" of the
connection, and with "steps". The program prints one line of JSON for each step.

    {"count": N, "kind": K, "seed": S}   all-reduce N values of data(K, rank, N, S)
    {..., "poll": true}                  end the sum with fpisa_test() alone
    {..., "compute": SECONDS}            start, keep a CPU busy for this time, wait; with "idle": true, sleep instead
    {"sleep": SECONDS}                   do nothing, no answer
    {"go": true}                         do nothing until SIGUSR1 comes (lab.go_on()), no answer
    {"rejoin": true}                     join the next generation
    {"fork": true}                       leave a child behind that does nothing, no answer
    {"spawn": true}                      leave a program behind that does nothing, no answer
    {"reconnect": true}                  close, and connect as before
    {"nobody": true}                     become an ordinary user, no answer

"cpu" in the plan is the CPU to run on. The first line is the answer of the connection. The program stops at the first error.
"""
import array
import ctypes
import hashlib
import json
import math
import os
import random
import signal
import sys
import time
import zlib

from fpisa_h import structure

NOBODY = 65534
PERIOD = 4099  # a prime, so that a chunk at a wrong position differs
PR_SET_PDEATHSIG = 1
FLOAT32, FLOAT64 = 1, 4  # enum fpisa_dtype
MIXED_RANKS, FEWER_RANKS = 0x100, 0x200  # FPISA_RESULT_* of fpisa.h
UDP, XSK = 0, 1  # enum fpisa_transport_name; XSK needs root


Chunk = structure("fpisa_chunk")
ON_CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Chunk))
Options = structure("fpisa_options", on_chunk=ON_CHUNK)
Info = structure("fpisa_info")


def repeat(pattern, count):
    """Return `count` values of a repeated pattern, as bytes."""
    return (pattern * (count // (len(pattern) // 4) + 1))[: 4 * count]


def integer(rank, i):
    """Return whole numbers. The sum of 64 of them is exact in mode fpisa, in any order."""
    return (i * 7919 + rank * 104729) % 2003 - 1001


def even(rank, i):
    """Return whole numbers with one exponent. Their sum is exact in mode fpisa-a too."""
    v = 1024 + (i * 811 + rank * 613) % 1024
    return -v if (i + rank) % 3 == 0 else v


EXACT = {"integers": integer, "even": even}
DOUBLES = "doubles"


def doubles(rank, count, seed):
    """Return doubles of random bits over 200 exponents. In every third element rank 1 subtracts what rank 0 adds."""
    words = array.array("Q")
    rngs = random.Random(seed * 1000), random.Random(seed * 1000 + rank)
    for i in range(count):
        first, mine = (r.getrandbits(1) << 63 | r.randrange(923, 1123) << 52 | r.getrandbits(52) for r in rngs)
        words.append(first ^ 1 << 63 if rank == 1 and i % 3 == 0 else mine)
    return array.array("d", words.tobytes())


def rounded_sum(workers, count, seed):
    """Return the correctly rounded sums of doubles(), as bytes."""
    return array.array("d", map(math.fsum, zip(*(doubles(rank, count, seed) for rank in range(workers))))).tobytes()


def data(kind, rank, count, seed=0):
    """Return the contribution of `rank`, as bytes of FP32, or of FP64 for the kind `doubles`."""
    if kind == DOUBLES:
        return doubles(rank, count, seed).tobytes()
    if kind in EXACT:
        values = [EXACT[kind](rank, i) for i in range(min(count, PERIOD))]
        return repeat(array.array("f", values).tobytes(), count)
    rng = random.Random(seed * 1000 + rank)
    sign_and_fraction = (rng.getrandbits(32) & 0x807FFFFF for _ in range(count))
    return array.array("I", [w | rng.randrange(120, 140) << 23 for w in sign_and_fraction]).tobytes()


def exact_sum(kind, workers, count):
    """Return the sum of the contributions of ranks 0..workers-1, as bytes, for the kinds in EXACT."""
    f = EXACT[kind]
    values = [sum(f(rank, i) for rank in range(workers)) for i in range(min(count, PERIOD))]
    return repeat(array.array("f", values).tobytes(), count)


class Worker:
    def __init__(self, library):
        self.lib = lib = ctypes.CDLL(library)
        lib.fpisa_error.restype = ctypes.c_char_p
        lib.fpisa_missing.restype = ctypes.c_uint64
        lib.fpisa_missing.argtypes = [ctypes.c_void_p]
        lib.fpisa_connect.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_void_p]
        lib.fpisa_allreduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                        ctypes.c_int, ctypes.c_void_p]
        lib.fpisa_rejoin.argtypes = lib.fpisa_close.argtypes = [ctypes.c_void_p]
        lib.fpisa_get_info.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        lib.fpisa_allreduce_start.argtypes = lib.fpisa_allreduce.argtypes
        lib.fpisa_test.argtypes = [ctypes.c_void_p] * 3
        lib.fpisa_wait.argtypes = [ctypes.c_void_p] * 2
        self.handle = ctypes.c_void_p()
        self.chunks = []
        self.keep = ON_CHUNK(self.on_chunk)

    def on_chunk(self, _, chunk):
        c = chunk.contents
        self.chunks.append([c.offset, c.count, c.flags, c.ranks, c.order])

    def answer(self, rc, **more):
        """Print one line as the answer. If there is a handle, the line has its statistics."""
        out = {"rc": rc, "error": self.lib.fpisa_error().decode() if rc else "", **more}
        if self.handle:
            info = Info(size=ctypes.sizeof(Info))
            self.lib.fpisa_get_info(self.handle, ctypes.byref(info))
            out.update((name, getattr(info, name)) for name, _ in Info._fields_)
            out["missing"] = self.lib.fpisa_missing(self.handle)
        print(json.dumps(out), flush=True)
        return rc

    def connect(self, address, job, options):
        self.how = address, job, dict(options)
        on_chunk = self.keep if options.pop("order", False) else ON_CHUNK()
        o = Options(size=ctypes.sizeof(Options), on_chunk=on_chunk, **options)
        rc = self.lib.fpisa_connect(ctypes.byref(self.handle), address.encode(), job, ctypes.byref(o))
        return self.answer(rc, uid=os.geteuid())

    def poll(self, send, recv, count, dtype, flags):
        request, done = ctypes.c_void_p(), ctypes.c_int()
        rc = self.lib.fpisa_allreduce_start(self.handle, send, recv, count, dtype, ctypes.byref(request))
        while not rc and not done:
            rc = self.lib.fpisa_test(ctypes.byref(request), ctypes.byref(done), flags)
        return rc

    def overlap(self, send, recv, count, dtype, flags, seconds, idle):
        """Return rc and the duration of the wait."""
        request, until = ctypes.c_void_p(), time.monotonic() + seconds
        rc = self.lib.fpisa_allreduce_start(self.handle, send, recv, count, dtype, ctypes.byref(request))
        if idle:
            time.sleep(seconds)
        while time.monotonic() < until:
            pass
        t0 = time.monotonic()
        return rc or self.lib.fpisa_wait(ctypes.byref(request), flags), time.monotonic() - t0

    def allreduce(self, count, kind, seed=0, values=False, in_place=False, poll=False, compute=None, idle=False):
        info = Info(size=ctypes.sizeof(Info))
        self.lib.fpisa_get_info(self.handle, ctypes.byref(info))
        width, dtype = (8, FLOAT64) if kind == DOUBLES else (4, FLOAT32)
        send = ctypes.create_string_buffer(data(kind, info.rank, count, seed), width * count)
        recv = send if in_place else ctypes.create_string_buffer(width * count)
        flags = ctypes.c_uint32()
        self.chunks = []
        t0, waited = time.monotonic(), None
        if compute is not None:
            rc, waited = self.overlap(send, recv, count, dtype, ctypes.byref(flags), compute, idle)
        elif poll:
            rc = self.poll(send, recv, count, dtype, ctypes.byref(flags))
        else:
            rc = self.lib.fpisa_allreduce(self.handle, send, recv, count, dtype, ctypes.byref(flags))
        seconds = time.monotonic() - t0
        return self.answer(rc, flags=flags.value, seconds=seconds, waited=waited, chunks=self.chunks,
                           digest=hashlib.sha256(recv).hexdigest(),
                           values=zlib.compress(recv.raw).hex() if values else None)

    def step(self, step):
        if "sleep" in step:
            time.sleep(step["sleep"])
            return 0
        if "go" in step:
            signal.sigwait({signal.SIGUSR1})
            return 0
        if "fork" in step:
            return leave_child()
        if "spawn" in step:
            return leave_program()
        if "nobody" in step:
            become_nobody()
            return 0
        if "reconnect" in step:
            self.lib.fpisa_close(self.handle)
            return self.connect(*self.how)
        if "rejoin" in step:
            return self.answer(self.lib.fpisa_rejoin(self.handle))
        return self.allreduce(**step)


def leave_child():
    """Leave a child that keeps the inherited descriptors until this process ends."""
    parent = os.getpid()
    if os.fork():
        return 0
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def leave_program():
    """Leave a program that runs some seconds longer than the handle is open. The program inherits all descriptors that are not closed on
    exec."""
    os.posix_spawn("/bin/sleep", ["sleep", "5"], os.environ)
    return 0


def become_nobody():
    """Become an ordinary user. Root started the program, but all later steps must work without root. In a container it is one already."""
    if os.geteuid() == NOBODY:
        return
    parent = os.getppid()
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # setuid() has cleared this setting
    if os.getppid() != parent:
        sys.exit(1)


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # it may come before the step that waits for it
    library, address, job = sys.argv[1:4]
    plan = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
    w = Worker(library)
    if plan.get("options", {}).get("transport") != XSK:
        become_nobody()
    if "cpu" in plan:
        os.sched_setaffinity(0, {plan["cpu"]})
    rc = w.connect(address, int(job), plan.get("options", {}))
    for step in plan.get("steps", []):
        rc = rc or w.step(step)
    w.lib.fpisa_close(w.handle)
    return 1 if rc else 0


if __name__ == "__main__":
    sys.exit(main())
