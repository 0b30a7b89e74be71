# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Start the calls of groups and handles, and wait for them.

A group or handle has one lock for all its calls into the library, so no thread is inside the library when another thread
closes the object. wait() tests the request repeatedly and pauses between tests, so that a signal (Ctrl-C) can end the wait.
The library's own thread makes progress during the pauses.
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

SPIN_S = 100e-6      # a small call takes about this long, and the wait for it does not pause
LONGEST_PAUSE_S = 1e-3
EXIT_S = 1
PAUSE_SHARE = 1 / 16  # a pause is at most this share of the time waited so far

Self = TypeVar("Self", bound="Caller")


class Request:
    """A request that start() returns. The library uses the request's arrays until the request has ended."""

    def __init__(self, caller: Caller, array: Array) -> None:
        self._caller, self._pointer, self._array = caller, ctypes.c_void_p(), array
        self._ranks = (ctypes.c_uint64 * -(-caller.size // 64))()  # a bit for each rank
        self._key = object()
        self._result: Optional[Result] = None
        self._error: Optional[Error] = None

    def test(self) -> bool:
        """Return whether the request has ended. If the request failed, raise its error. Never wait for other ranks."""
        if not self._ended():
            with self._caller._entered():
                if not self._ended():
                    self._test()
        if self._error is not None:
            raise self._error
        return self._result is not None

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Wait for the result and return it. Raise TimeoutError after `timeout` seconds. After a TimeoutError wait() may be
        called again.
        """
        began = time.monotonic()
        while not self.test():
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"the all-reduce has not ended within {timeout} s, and continues; wait again")
            if waited > SPIN_S:
                time.sleep(min(waited * PAUSE_SHARE, LONGEST_PAUSE_S))
        assert self._result is not None
        return self._result

    @property
    def ranks(self) -> Tuple[int, ...]:
        """The ranks that contributed to every value of the result. Empty until the request has ended."""
        return ranks_of(sum(word << 64 * i for i, word in enumerate(self._ranks)))

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
    """Close when the interpreter exits, unless another thread is still inside test() or rejoin(). Such a thread continues until
    the process ends.
    """
    if os.getpid() != pid:  # a child process does not have the thread that held the lock
        close(*arguments)
    elif lock.acquire(timeout=EXIT_S):
        try:
            close(*arguments)
        finally:
            lock.release()


class Caller:
    """The methods that Group and Handle share."""

    size: int

    def _start(self, call: Call, request: ctypes.c_void_p) -> int:
        raise NotImplementedError

    def _eventfd(self) -> int:
        raise NotImplementedError

    def _missing(self) -> Tuple[int, ...]:
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
            raise Error(errno.ECHILD,
                        f"this {type(self).__name__} belongs to the process that created it, and this process is a child; create one here")
        with self._lock:
            if self.closed:
                raise Canceled(errno.ECANCELED, f"this {type(self).__name__} is closed; create another")
            yield

    def _check(self, rc: int) -> None:
        if rc:
            sentence = library().fpisa_error().decode(errors="replace")
            names_ranks = -rc in (errno.ETIMEDOUT, errno.ECONNRESET)
            raise error_of(rc, sentence, self._missing() if names_ranks else ())

    def start(self, array: Array, op: str = "sum", out: Optional[Array] = None, *, factor: float = 1.0, tag: int = 0,
              type: Optional[str] = None) -> Request:
        """Start an all-reduce, which continues while this thread computes. The arguments are the same as for allreduce().

        Do not access `array` or `out` until the request has ended. The arrays must not overlap arrays of other requests.
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
            # first, because a signal may interrupt this function
            self._arrays[request._key] = array, request._array, request._ranks
            try:
                self._check(start())
            except Error:
                del self._arrays[request._key]
                raise
        return request

    def allreduce(self, array: Array, op: str = "sum", out: Optional[Array] = None, *, factor: float = 1.0,
                  tag: int = 0, type: Optional[str] = None) -> Result:
        """Reduce `array` element by element over all ranks. All ranks make the same calls in the same order, with arrays of the
        same size and type.

        array   C-contiguous numpy array of float32, float64, float16 or int32, or of the ml_dtypes types bfloat16, float8_e4m3fn,
                float8_e5m2
        op      sum, min, max, avg, scale (the sum times `factor`) or norm (root of the sum of squares)
        out     array for the results, with the shape and type of `array`. May be `array` itself. The default is a new array
        tag     a number that must be the same on all ranks. Ranks with different tags do not match their calls
        type    type of the values if `array` holds their bits: "bfloat16" for uint16, or "e4m3" or "e5m2" for uint8

        Return Result(array, flags). Raise TypeError or ValueError before sending if the arrays cannot be reduced. Raise
        fpisa.Error if the call fails. After any error except Overflow, `out` contains only some of the results.
        """
        return self.start(array, op, out, factor=factor, tag=tag, type=type).wait()

    def fileno(self) -> int:
        """Return an eventfd(2) that is readable when requests have ended. Use it with select, selectors or an asyncio event
        loop.

        The descriptor counts the requests that end, including those of allreduce(). os.read(fd, 8) returns the count in the
        machine's byte order and resets it to zero. test() does not change the count. Each call returns the same descriptor,
        which is non-blocking. Remove the descriptor from selectors and event loops before close(), which closes it.
        """
        with self._entered():
            fd = self._eventfd()
            self._check(min(fd, 0))
            return fd

    def close(self) -> None:
        """Cancel requests in progress and close the handle. close() may be called more than once."""
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
