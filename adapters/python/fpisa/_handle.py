# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Handles for the ranks of one job, whose aggregator is in the network or inside this process."""
from __future__ import annotations

import concurrent.futures
import ctypes
import threading
import weakref
from typing import Any, Callable, List, NamedTuple, Optional, Tuple, TypeVar

from ._calls import Caller
from ._library import (FOREVER, MODES, OVERFLOWS, PIPELINES, ROUNDINGS, TRANSPORTS, TYPES, Call, InfoStruct,
                       MemOptions, Options, check, check_join, in_range, library, milliseconds, missing, name_of,
                       number_of, real, text)

T = TypeVar("T")


class Info(NamedTuple):
    """Information about a handle: the parameters of its job, and counts of frames."""

    job: int
    rank: int
    workers: int
    elements: int
    window: int
    generation: int
    mode: str
    rounding: str
    type: str
    big_endian: bool
    sent: int
    received: int
    retransmits: int
    duplicates: int
    bad: int
    rtt_ns: int
    marked: int


class Handle(Caller):
    """A handle for one rank of job `job`, which `fpisa job add` created at the aggregator at `address`.

    The constructor returns when all ranks of the job have joined. All values have the job's type.

    address     "10.0.0.1" or "10.0.0.1:18000"
    local_port  UDP port that the job lists for this rank. 0 means 18000
    token       the job's secret, or 0 if the job does not have a secret
    timeout     seconds that the join and each call may take. None means no limit
    overflow, transport, restore   the same as for Group
    all_ranks   whether a sum raises RankLost after `fpisa job shrink` has removed a rank. If False, the result is the sum of the
                other ranks and has the flag FEWER_RANKS
    loss, duplicate, reorder, delay, corrupt, seed   shares of frames with a simulated fault, from 0 to 0.9, for tests
    """

    def __init__(self, address: str, job: int, *, local_port: int = 0, token: int = 0, timeout: Optional[float] = 10.0,
                 overflow: str = "default", transport: str = "udp", restore: bool = False, all_ranks: bool = False,
                 **faults: float) -> None:
        options = _options(timeout=timeout, overflow=overflow, restore=restore, faults=faults)
        options.all_ranks = bool(all_ranks)
        options.local_port = in_range(local_port, 16, "local_port")
        options.token = in_range(token, 64, "token")
        options.transport = number_of(TRANSPORTS, transport, "transport")
        pointer = ctypes.c_void_p()
        check_join(library().fpisa_connect(ctypes.byref(pointer), text(address, "address"), in_range(job, 32, "job"),
                                           ctypes.byref(options)))
        self._open(pointer, _close)
        self._learn()

    def rejoin(self) -> None:
        """Cancel calls in progress after an error, and join the job's next generation with all other ranks."""
        with self._entered():
            self._check(library().fpisa_rejoin(self._pointer))

    @property
    def info(self) -> Info:
        with self._entered():
            s = InfoStruct()
            self._check(library().fpisa_get_info(self._pointer, ctypes.byref(s)))
        return Info(s.job, s.rank, s.workers, s.elements, s.window, s.generation, name_of(MODES, s.mode),
                    name_of(ROUNDINGS, s.rounding), name_of(TYPES, s.format), bool(s.big_endian), s.sent, s.received,
                    s.retransmits, s.duplicates, s.bad, s.rtt_ns, s.marked)

    def _learn(self) -> None:
        info = self.info
        self.job, self.rank, self.size, self._big = info.job, info.rank, info.workers, info.big_endian

    def _big_endian(self) -> bool:
        return self._big

    def _start(self, call: Call, request: ctypes.c_void_p) -> int:
        return library().fpisa_start(self._pointer, ctypes.byref(call), ctypes.byref(request))

    def _eventfd(self) -> int:
        return library().fpisa_eventfd(self._pointer)

    def _missing(self) -> Tuple[int, ...]:
        return missing(self._pointer)

    def __repr__(self) -> str:
        return f"<fpisa.Handle job {self.job} rank {self.rank} of {self.size}{', closed' if self.closed else ''}>"


FAULTS = ("loss", "duplicate", "reorder", "delay", "corrupt")


def _options(*, timeout: Optional[float], overflow: str, restore: bool, faults: dict) -> Options:
    """Return options with a progress thread, because waits pause between tests (_calls.py)."""
    wrong = faults.keys() - {*FAULTS, "seed"}
    if wrong:
        raise TypeError(f"unknown option {', '.join(sorted(wrong))}; the fault options are {', '.join(FAULTS)} and seed")
    options = Options(timeout_ms=milliseconds(timeout, "timeout", FOREVER), progress=1, restore=bool(restore),
                      overflow=number_of(OVERFLOWS, overflow, "overflow"))
    options.seed = in_range(faults.pop("seed", 0), 64, "seed")  # type: ignore[arg-type]
    for name, share in faults.items():
        setattr(options, name, real(share, name))
    return options


def _close(pointer: ctypes.c_void_p, arrays: dict, mem: Optional[_Aggregator] = None) -> None:
    library().fpisa_close(pointer)
    arrays.clear()
    if mem is not None:
        mem.disconnected()


class _Aggregator:
    """An aggregator of the library. It ends after close() and after its last handle is closed. The garbage collector may
    collect these objects in any order.
    """

    def __init__(self, pointer: ctypes.c_void_p) -> None:
        self.pointer, self.lock, self.handles, self.wanted = pointer, threading.Lock(), 0, True

    def connected(self) -> None:
        with self.lock:
            if not self.wanted:
                raise ValueError("this Mem is closed; create another")
            self.handles += 1

    def disconnected(self) -> None:
        with self.lock:
            self.handles -= 1
            self._end()

    def close(self) -> None:
        with self.lock:
            if self.wanted:
                self.wanted = False
                self._end()

    def _end(self) -> None:
        if not self.wanted and not self.handles:
            library().fpisa_mem_destroy(self.pointer)


class Mem:
    """An aggregator inside this process, for tests without privileges. Its arithmetic and protocol are those of an aggregator
    in the network. Ranks are threads. Each thread gets a handle from connect(), or run() starts all threads.

        with fpisa.Mem(3) as mem:
            sums = mem.run(lambda handle: handle.allreduce(numpy.ones(10, "float32")).array)

    The arguments are parameters of the job. With reciprocal an average is the sum times 1/n, instead of the sum divided by
    n.
    """

    def __init__(self, workers: int, type: str = "float32", *, mode: str = "default", rounding: str = "default",
                 pipeline: str = "default", elements: int = 0, window: int = 0, big_endian: bool = False,
                 reciprocal: bool = False, statistics: bool = True) -> None:
        options = MemOptions(
            workers=in_range(workers, 32, "workers"), elements=in_range(elements, 32, "elements"),
            window=in_range(window, 32, "window"), mode=number_of(MODES, mode, "mode"),
            rounding=number_of(ROUNDINGS, rounding, "rounding"), pipeline=number_of(PIPELINES, pipeline, "pipeline"),
            format=number_of(TYPES, type, "type"),
            flags=0x01 * bool(big_endian) | 0x02 * bool(reciprocal) | 0x08 * (not statistics))
        pointer = ctypes.c_void_p()
        check(library().fpisa_mem_create(ctypes.byref(pointer), ctypes.byref(options)))
        self.workers = workers
        self._aggregator = _Aggregator(pointer)
        self._finalizer = weakref.finalize(self, self._aggregator.close)

    def connect(self, rank: int, *, timeout: Optional[float] = 10.0, overflow: str = "default", restore: bool = False,
                **faults: float) -> Handle:
        """Return a handle for `rank` when all ranks have connected. Each rank must call connect() in its own thread. The
        options are the same as for Handle.
        """
        options = _options(timeout=timeout, overflow=overflow, restore=restore, faults=faults)
        handle, pointer = Handle.__new__(Handle), ctypes.c_void_p()
        self._aggregator.connected()
        try:
            check_join(library().fpisa_mem_connect(ctypes.byref(pointer), self._aggregator.pointer,
                                                   in_range(rank, 32, "rank"), ctypes.byref(options)))
        except BaseException:
            self._aggregator.disconnected()
            raise
        handle._open(pointer, _close, self._aggregator)
        handle._learn()
        return handle

    def run(self, function: Callable[[Handle], T], **options: Any) -> List[T]:
        """Run `function` for all ranks, with a thread and a handle for each rank. Return the results in the order of ranks.

        If a call of `function` raises an exception, cancel the calls of the other ranks and raise the same exception.
        """
        lock = threading.Lock()
        handles: List[Handle] = []
        raised: List[BaseException] = []

        def rank_of(rank: int) -> T:
            try:
                with self.connect(rank, **options) as handle:
                    with lock:
                        handles.append(handle)
                    return function(handle)
            except BaseException as e:
                with lock:
                    raised.append(e)
                    others = handles[:]
                for other in others:
                    other.close()
                raise

        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(rank_of, r) for r in range(self.workers)]
        if raised:
            raise raised[0]
        return [f.result() for f in futures]

    def close(self) -> None:
        """Close the aggregator. The aggregator continues until its handles are closed."""
        self._finalizer()

    def __enter__(self) -> Mem:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
