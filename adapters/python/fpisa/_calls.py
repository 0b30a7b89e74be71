# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""All-reduce for groups and handles: starting, requests, waiting.

Every call into the library for a group or a handle is made under one lock, so no thread is inside when another closes.
A wait is tests with pauses between, so that a signal (Ctrl-C) can end it. The library's own thread moves requests
meanwhile.
"""
from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, TypeVar

from ._arrays import COMPLEX, Array, Flags, Result, count_of, prepare
from ._errors import Canceled, Error, Overflow, error_of, ranks_of
from ._library import OPERATIONS, Call, in_range, library, number_of, real

SPIN_S = 100e-6      # duration of a small call, which is not paused
LONGEST_PAUSE_S = 1e-3
EXIT_S = 1
PAUSE_SHARE = 1 / 16  # share of the time waited so far by which a pause may prolong the wait

Self = TypeVar("Self", bound="Caller")


class Request:
    """An all-reduce in progress, from start(). The library uses its arrays until it has ended."""

    def __init__(self, caller: Caller, array: Array) -> None:
        self._caller, self._pointer, self._array = caller, ctypes.c_void_p(), array
        self._ranks = ctypes.c_uint64()
        self._key = object()
        self._result: Optional[Result] = None
        self._error: Optional[Error] = None

    def test(self) -> bool:
        """Return whether the request has ended. Raise its error, if it ended with one. Never blocks for other ranks."""
        if not self._ended():
            with self._caller._entered():
                if not self._ended():
                    self._test()
        if self._error is not None:
            raise self._error
        return self._result is not None

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Wait for the result and return it. Raise TimeoutError after `timeout` seconds; wait() may be called again then."""
        began = time.monotonic()
        while not self.test():
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"the all-reduce has not ended within {timeout} s, and continues")
            if waited > SPIN_S:
                time.sleep(min(waited * PAUSE_SHARE, LONGEST_PAUSE_S))
        assert self._result is not None
        return self._result

    @property
    def ranks(self) -> Tuple[int, ...]:
        """The ranks that are in every value of the result; () before the request has ended."""
        return ranks_of(self._ranks.value)

    def _ended(self) -> bool:
        return self._result is not None or self._error is not None

    def _test(self) -> None:
        done, flags = ctypes.c_int(), ctypes.c_uint32()
        rc = library().fpisa_test(ctypes.byref(self._pointer), ctypes.byref(done), ctypes.byref(flags))
        if not rc and not done:
            return
        try:
            self._caller._check(rc)
        except Overflow as e:
            e.result = Result(self._array, Flags(flags.value))
            self._error = e
        except Error as e:
            self._error = e
        else:
            self._result = Result(self._array, Flags(flags.value))
        if not self._pointer:
            self._caller._arrays.pop(self._key, None)


def _close(pid: int, lock: threading.RLock, close: Callable[..., None], *arguments: Any) -> None:
    """Close at the interpreter's end, unless threads are still in test(), or wait in rejoin(). These continue until the process ends."""
    if os.getpid() != pid:  # in a child, which does not have the thread that held the lock
        close(*arguments)
    elif lock.acquire(timeout=EXIT_S):
        try:
            close(*arguments)
        finally:
            lock.release()


class Caller:
    """The calls that Group and Handle share."""

    def _start(self, call: Call, request: ctypes.c_void_p) -> int:
        raise NotImplementedError

    def _eventfd(self) -> int:
        raise NotImplementedError

    def _missing(self) -> int:
        raise NotImplementedError

    def _big_endian(self) -> bool:
        return False

    def _open(self, pointer: ctypes.c_void_p, close: Callable[..., None], *more: Any) -> None:
        self._pointer, self._pid, self._lock = pointer, os.getpid(), threading.RLock()
        self._arrays: Dict[object, Tuple[Any, ...]] = {}  # arrays of requests in progress, which may outlive the request objects
        self._finalizer = weakref.finalize(self, _close, self._pid, self._lock, close, pointer, self._arrays, *more)

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        """Hold the lock, after checking that the object is open and belongs to this process."""
        if os.getpid() != self._pid:
            raise Error(errno.ECHILD, f"this {type(self).__name__} belongs to the process that made it, and this is a "
                        "child; make one here")
        with self._lock:
            if self.closed:
                raise Canceled(errno.ECANCELED, f"this {type(self).__name__} is closed")
            yield

    def _check(self, rc: int) -> None:
        if rc:
            sentence = library().fpisa_error().decode(errors="replace")
            names_ranks = -rc in (errno.ETIMEDOUT, errno.ECONNRESET)
            raise error_of(rc, sentence, self._missing() if names_ranks else 0)

    def start(self, array: Array, op: str = "sum", out: Optional[Array] = None, *, factor: float = 1.0, tag: int = 0,
              type: Optional[str] = None) -> Request:
        """Start an all-reduce, which continues while this thread computes. The arguments are those of allreduce().

        Neither `array` nor `out` may be touched until the request has ended, nor overlap arrays of other requests.
        """
        call = Call(op=number_of(OPERATIONS, op, "op"), factor=real(factor, "factor"), tag=in_range(tag, 64, "tag"))
        out, call.type = prepare(array, out, type, self._big_endian())
        call.send, call.recv, call.count = array.ctypes.data, out.ctypes.data, count_of(array, op)
        if array.dtype.kind == "c":
            call.tag ^= COMPLEX
        request = Request(self, out)
        call.ranks = ctypes.addressof(request._ranks)
        return self._begin(request, array, lambda: self._start(call, request._pointer))

    def _begin(self, request: Request, array: Array, start: Callable[[], int]) -> Request:
        with self._entered():
            self._arrays[request._key] = array, request._array, request._ranks  # first, in case a signal comes between
            try:
                self._check(start())
            except Error:
                del self._arrays[request._key]
                raise
        return request

    def allreduce(self, array: Array, op: str = "sum", out: Optional[Array] = None, *, factor: float = 1.0,
                  tag: int = 0, type: Optional[str] = None) -> Result:
        """Reduce `array` over all ranks, value by value. All ranks call it in the same order, with arrays of one size and type.

        array   C-contiguous numpy array of float32, float64, float16, int32, or of ml_dtypes: bfloat16, float8_e4m3fn,
                float8_e5m2
        op      sum, min, max, avg, scale (the sum times `factor`) or norm (root of the sum of squares)
        out     array for results, of array's shape and type; it may be `array` itself. None: a new array
        tag     the same on all ranks: distinguishes calls that are equal otherwise, so that ranks do not mix them up
        type    type of the values of an array of bits: "bfloat16" in uint16, "e4m3" or "e5m2" in uint8

        Return Result(array, flags). Raise TypeError or ValueError for arrays that cannot be reduced, before anything is
        sent, and fpisa.Error. After an error other than Overflow `out` has only some results.
        """
        return self.start(array, op, out, factor=factor, tag=tag, type=type).wait()

    def fileno(self) -> int:
        """Return an eventfd(2) that is readable when requests have ended: for select, selectors, and a loop of asyncio.

        Each request that ends adds 1, including that of an allreduce(). os.read(fd, 8) returns their number, in the machine's
        byte order, and clears it; test() of a request does not. The descriptor is the same at each call, non-blocking, and
        closed by close(): remove it from selectors and loops before.
        """
        with self._entered():
            fd = self._eventfd()
            self._check(min(fd, 0))
            return fd

    def close(self) -> None:
        """Give up requests in progress and close. May be called again."""
        if os.getpid() != self._pid:
            self._finalizer()
            return
        with self._lock:
            self._finalizer()

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
