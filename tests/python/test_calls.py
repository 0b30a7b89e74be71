# SPDX-License-Identifier: GPL-2.0-only
"""Test requests, threads, forks and errors over `mem`, and compare the structs of ctypes with those of the header."""
import ctypes
import gc
import os
import selectors
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import fpisa
from conftest import TOP
from fpisa import _library, _query

ECHILD, ECANCELED = 10, 125


def ones(count=1000):
    return np.ones(count, "float32")


def test_many_requests():
    """Requests may be waited for in reverse order, and arrays without other references stay as long as they are needed."""
    def rank_of(handle):
        requests = [handle.start(np.full(5000, i + handle.rank, "float32")) for i in range(50)]
        gc.collect()
        for i, request in reversed(list(enumerate(requests))):
            assert (request.wait().array == 2 * i + 1).all()
            assert request.test() and request.wait().flags == 0
        assert not handle._arrays

    with fpisa.Mem(2) as mem:
        mem.run(rank_of)


def test_an_interrupt_after_a_start():
    """If a signal raises an exception between the library's start of a call and Python's record of it, the arrays stay until the library is
    closed."""
    with fpisa.Mem(1) as mem, mem.connect(0) as handle:
        begin = handle._start

        def interrupted(call, request):
            begin(call, request)
            raise KeyboardInterrupt

        handle._start = interrupted
        array = ones()
        with pytest.raises(KeyboardInterrupt):
            handle.start(array, out=array)
        handle._start = begin
        assert any(array is kept for pair in handle._arrays.values() for kept in pair)
        assert (handle.allreduce(ones()).array == 1).all()
        with pytest.raises(fpisa.InvalidCall):
            handle.start(array, "scale", factor=0)
        assert len(handle._arrays) == 1


def test_test_and_timeouts():
    """While a rank is late, test() of the other rank returns false and its wait() times out. Then both ranks get the sum."""
    late = threading.Event()

    def rank_of(handle):
        if handle.rank:
            assert late.wait(20)
            return handle.allreduce(ones()).array
        request = handle.start(ones())
        assert not request.test()
        with pytest.raises(TimeoutError, match="has not ended within 0.05 s, and continues"):
            request.wait(0.05)
        late.set()
        return request.wait().array

    with fpisa.Mem(2) as mem:
        assert all((out == 2).all() for out in mem.run(rank_of))


def test_an_array_that_is_left_half_summed():
    """An array that is left half summed in place, without restore, is refused until the program writes it again."""
    array = ones(10**7)
    with fpisa.Mem(1, elements=32, window=4) as mem, mem.connect(0, loss=0.5, seed=1, timeout=1) as handle:
        with pytest.raises(fpisa.TimedOut):
            handle.allreduce(array, "scale", array, factor=2.0)
    assert set(np.unique(array)) == {1, 2}
    with fpisa.Mem(1) as mem, mem.connect(0) as handle:
        for out in array, None:
            with pytest.raises(fpisa.Unclean, match="write the input again"):
                handle.allreduce(array, out=out)
        array[:] = 1
        assert (handle.allreduce(array).array == 1).all()


def test_descriptor():
    """The descriptor becomes readable when a request ends, not before, and counts requests."""
    def rank_of(handle):
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            if handle.rank == 1:
                late.wait(10)
            requests = [handle.start(ones()) for _ in range(3)]
            if handle.rank == 0:
                assert not selector.select(0.1) and not requests[0].test()
                late.set()
            ended = 0
            while ended < 3:
                assert selector.select(10)
                ended += int.from_bytes(os.read(handle.fileno(), 8), sys.byteorder)
            assert ended == 3 and all(r.test() for r in requests) and not selector.select(0)

    late = threading.Event()
    with fpisa.Mem(2) as mem:
        mem.run(rank_of)
    with fpisa.Mem(1) as mem:
        handle = mem.connect(0)
        assert handle.fileno() == handle.fileno()
        handle.close()
        with pytest.raises(fpisa.Canceled):
            handle.fileno()


def test_progress_while_python_computes():
    """While rank 0 computes, rank 1 gets its sum long before rank 0 ends."""
    ended = threading.Event()

    def rank_of(handle):
        request = handle.start(ones(100000))
        if handle.rank == 0:
            assert ended.wait(20)
        request.wait()
        ended.set()

    with fpisa.Mem(2) as mem:
        mem.run(rank_of)


def test_threads_share_a_handle():
    """Threads may start calls in any order, because tags distinguish the calls."""
    def rank_of(handle):
        out, order = {}, threading.Lock()
        turns = iter(range(8))

        def call():
            for _ in range(10):
                with order:  # ranks must agree on the order of starts, but not on the threads
                    k = next(turns, None)
                    request = None if k is None else handle.start(np.full(3000, k, "float32"), tag=k + 1)
                if request is None:
                    return
                out[k] = request.wait().array

        threads = [threading.Thread(target=call) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return [out[k][-1] for k in range(8)]

    with fpisa.Mem(2) as mem:
        assert mem.run(rank_of) == [[2.0 * k for k in range(8)]] * 2


def test_missing_ranks_are_named():
    with fpisa.Mem(3) as mem:
        with pytest.raises(fpisa.TimedOut) as e:
            mem.connect(0, timeout=0.2)
        assert "rank 1, rank 2 did not join" in str(e.value) and e.value.ranks == (1, 2)

    def rank_of(handle):
        if handle.rank == 2:
            return
        with pytest.raises(fpisa.TimedOut) as e:
            handle.allreduce(ones())
        assert e.value.ranks == (2,) and isinstance(e.value, TimeoutError) and e.value.errno == 110, e.value

    with fpisa.Mem(3) as mem:
        mem.run(rank_of, timeout=2)


def test_calls_that_differ_and_rejoin():
    def rank_of(handle):
        with pytest.raises(fpisa.CallsDiffer):
            handle.allreduce(ones(10 + handle.rank))
        handle.rejoin()
        with pytest.raises(fpisa.CallsDiffer):  # the arrays have equally many real numbers, but not the same type
            handle.allreduce(ones(10).view("complex64") if handle.rank else ones(10))
        with pytest.raises(fpisa.CallsDiffer):
            handle.start(ones())
        handle.rejoin()
        return handle.allreduce(ones()).array

    with fpisa.Mem(2) as mem:
        assert all((out == 2).all() for out in mem.run(rank_of))


def test_close():
    """close() ends all calls in progress, also calls that another thread waits for, and may be called twice."""
    def rank_of(handle):
        if handle.rank:
            return
        request = handle.start(ones())
        threading.Timer(0.1, handle.close).start()
        for act in request.wait, request.test, lambda: handle.allreduce(ones()), lambda: handle.info:
            with pytest.raises(fpisa.Canceled) as e:
                act()
            assert e.value.errno == ECANCELED
        handle.close()
        assert handle.closed and "closed" in repr(handle)

    with fpisa.Mem(2) as mem:
        mem.run(rank_of)


def test_collected_without_close():
    """A cycle of all objects, with a request in progress, is collected."""
    before = threading.active_count()
    for _ in range(5):
        mem = fpisa.Mem(1)
        handle = mem.connect(0)
        handle.self, handle.request = handle, handle.start(ones(10**4))
        del mem, handle
        gc.collect()
    assert threading.active_count() == before


def test_fork():
    """A child cannot use the handle, although a thread was in a call at the fork. The parent continues."""
    with fpisa.Mem(1) as mem, mem.connect(0) as handle:
        request = handle.start(ones())
        inside, forked = threading.Event(), threading.Event()

        def call():
            with handle._entered():
                inside.set()
                forked.wait(60)

        thread = threading.Thread(target=call)
        thread.start()
        inside.wait()
        child = os.fork()
        if child:
            forked.set()
            thread.join()
        else:
            status = 1
            try:
                signal.alarm(20)
                said = []
                for act in request.wait, lambda: handle.allreduce(ones()), handle.rejoin:
                    try:
                        act()
                    except fpisa.Error as e:
                        said.append(e.errno == ECHILD and "belongs to the process that created it" in str(e))
                handle.close()
                status = 0 if said == [True] * 3 and handle.closed else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (request.wait().array == 1).all() and (handle.allreduce(ones()).array == 1).all()


def test_a_signal_ends_a_wait():
    """Ctrl-C ends a wait for a call that would never end."""
    program = """
import fpisa, numpy, threading
mem = fpisa.Mem(2)
other = threading.Thread(target=lambda: globals().update(h1=mem.connect(1)))
other.start()
h0 = mem.connect(0, timeout=None)
other.join()
print("joined", flush=True)
try:
    h0.allreduce(numpy.ones(5, "float32"))
except KeyboardInterrupt:
    print("interrupted")
"""
    p = subprocess.Popen([sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "PYTHONPATH": os.path.join(TOP, "adapters", "python")})
    try:
        assert p.stdout.readline() == "joined\n"
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        assert p.communicate(timeout=30)[0] == "interrupted\n" and p.returncode == 0
    finally:
        p.kill()


@pytest.mark.parametrize("faults", [{"loss": 0.1}, {"duplicate": 0.2, "reorder": 0.2, "corrupt": 0.05}])
def test_faults(faults):
    with fpisa.Mem(2) as mem:
        for out, _ in mem.run(lambda h: h.allreduce(ones(20000)), seed=7, **faults):
            assert (out == 2).all()
        with pytest.raises(TypeError, match="unknown option los"):
            mem.run(lambda h: None, los=0.1)


def test_no_library():
    def said(library):
        p = subprocess.run([sys.executable, "-B", "-c", "import fpisa; fpisa.Mem(1)"], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": os.path.join(TOP, "adapters", "python"), "FPISA_LIBRARY": library})
        assert p.returncode == 1
        return p.stderr

    assert "install the package libfpisa1, or set FPISA_LIBRARY to the path of the library" in said("/nowhere/libfpisa.so.1")
    assert "has no fpisa_connect(): the library is older than 0.3.0" in said("libc.so.6")


STRUCTS = {"fpisa_options": _library.Options, "fpisa_info": _library.InfoStruct, "fpisa_call": _library.Call,
           "fpisa_group_options": _library.GroupOptions, "fpisa_mem_options": _library.MemOptions,
           "fpisa_query_options": _query.QueryOptions}


def test_structs_of_the_header(tmp_path):
    """Every member has the offset that the compiler gives it, and no member is missing."""
    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(struct)}, "{name}");')
        lines += [f'_Static_assert(offsetof(struct {name}, {member}) == {getattr(struct, member).offset} && '
                  f'sizeof(((struct {name} *)0)->{member}) == {getattr(struct, member).size}, "{name}.{member}");'
                  for member, _ in struct._fields_]
    for prefix, names in (("FPISA_", _library.OPERATIONS), ("FPISA_", _library.TYPES),
                          ("FPISA_TRANSPORT_", _library.TRANSPORTS), ("FPISA_OVERFLOW_", _library.OVERFLOWS)):
        lines += [f'_Static_assert({prefix}{n.upper()} == {number}, "{n}");' for n, number in names.items()]
    lines += [f'_Static_assert(FPISA_RESULT_{f.name} == {int(f)}u, "{f.name}");' for f in fpisa.Flags]
    subprocess.run(["gcc", "-fsyntax-only", "-I", os.path.join(TOP, "include"), "-x", "c", "-"], check=True, text=True,
                   input="#include <fpisa.h>\n#include <fpisa-query.h>\n" + "\n".join(lines))


LISTS = {"MODE": _library.MODES, "ROUND": _library.ROUNDINGS, "FANOUT": _library.FANOUTS, "PIPELINE": _library.PIPELINES,
         "TRANSPORT": _library.TRANSPORTS, "OP": _library.OPERATIONS, "PRUNING": _query.PRUNINGS}


def test_names_of_the_tree(tmp_path):
    """Names of types are those of fpisa/names.h, except mxint8, because its arrays end with scales."""
    source = ["#include <stdio.h>", "#include <fpisa.h>", "#include <fpisa-query.h>", "#include <fpisa/format.h>", "#include <fpisa/names.h>"]
    calls = [f'#define {p}(id, name) printf("{p} %s %d\\n", name, FPISA_{p}_##id);\nFPISA_{p}_NAMES({p}, )' for p in LISTS]
    calls.append('#define TYPE(id, name, type) printf("TYPE %s %d\\n", type, FPISA_FORMAT_##id);\nFPISA_FORMAT_NAMES(TYPE, )')
    program = tmp_path / "names"
    subprocess.run(["gcc", "-I", os.path.join(TOP, "include"), "-x", "c", "-", "-o", program], check=True, text=True,
                   input="\n".join([*source, "int main(void)\n{", *calls, "}\n"]))
    found = {p: {} for p in [*LISTS, "TYPE"]}
    for list_, name, number in map(str.split, subprocess.check_output([program], text=True).splitlines()):
        found[list_][name] = int(number)
    assert found["TYPE"] == {**_library.TYPES, "mxint8": 8}
    assert {p: found[p] for p in LISTS} == {p: {n: i for n, i in names.items() if n != "default"} for p, names in LISTS.items()}


def test_end_of_the_interpreter():
    """Threads that poll when the interpreter ends do not use a closed handle."""
    program = """
import threading, time, numpy, fpisa
mem = fpisa.Mem(2, "float32")
handles = [None, None]
def join(rank):
    handles[rank] = mem.connect(rank, timeout=None)
joining = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
[t.start() for t in joining], [t.join() for t in joining]
def poll(request):
    try:
        while True:
            request.test()
    except Exception:
        pass  # the handle is closed; a traceback of a daemon thread at this time ends the interpreter with an abort
for request in [handles[0].start(numpy.ones(1000, "float32")) for _ in range(8)]:
    threading.Thread(target=poll, args=(request,), daemon=True).start()
time.sleep(0.05)
"""
    for _ in range(12):
        ended = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
