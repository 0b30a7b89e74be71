# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Groups: ranks that find each other by a name."""
from __future__ import annotations

import ctypes
import errno
import os
import time
from typing import Optional, Union

from ._arrays import Array, check_memory
from ._calls import LONGEST_PAUSE_S, Caller, Request
from ._errors import Error
from ._library import (FANOUTS, MODES, OVERFLOWS, PIPELINES, ROUNDINGS, TRANSPORTS, Call, GroupOptions, check_join, in_range, library,
                       milliseconds, number_of, text)


def group_options(*, key_file: Union[str, os.PathLike[str], None] = None, join_timeout: float = 10.0,
                  timeout: Optional[float] = None, window: int = 0, elements: int = 0, mode: str = "default",
                  pipeline: str = "default", overflow: str = "default", transport: str = "udp",
                  restore: bool = False, rounding: str = "default", fanout: str = "default") -> GroupOptions:
    """Return the library's options for those of Group."""
    return GroupOptions(
        key_file=text(None if key_file is None else os.fsencode(key_file), "key_file"),
        join_timeout_ms=milliseconds(join_timeout, "join_timeout", 0), timeout_ms=milliseconds(timeout, "timeout", 0),
        window=in_range(window, 32, "window"), elements=in_range(elements, 16, "elements"),
        mode=number_of(MODES, mode, "mode"), pipeline=number_of(PIPELINES, pipeline, "pipeline"),
        overflow=number_of(OVERFLOWS, overflow, "overflow"), transport=number_of(TRANSPORTS, transport, "transport"),
        restore=bool(restore), rounding=number_of(ROUNDINGS, rounding, "rounding"),
        fanout=number_of(FANOUTS, fanout, "fanout"))


def join(host: Optional[str], name: str, rank: int, size: int, options: GroupOptions) -> ctypes.c_void_p:
    """Return the library's group, after all ranks have joined."""
    pointer = ctypes.c_void_p()
    check_join(library().fpisa_group_join(ctypes.byref(pointer), text(host, "host"), text(name, "name"),
                                          in_range(rank, 32, "rank"), in_range(size, 32, "size"), ctypes.byref(options)))
    return pointer


class Group(Caller):
    """Ranks that have found each other by `name` at the manager (`fpisa serve`) of an aggregator.

    Created when all `size` ranks have joined, each with a unique `rank` below size. Does not need privileges. A rank may
    compute as long as it likes. When a rank dies the calls of the others raise RankLost at once.

    host          the aggregator's name or IPv4 address, with a port if it is not 18000; None: the value of FPISA_MANAGER
    key_file      the file whose last key is used; None: the file that FPISA_KEY names, if it is set; "": no key
    join_timeout  seconds until all ranks must have joined
    timeout       seconds that a call may take; None: as long as all ranks live
    window, elements, mode, rounding, pipeline   of its jobs, like options of `fpisa job add`; 0 and "default": its defaults
    overflow      handling of an overflow: "error", "flag", or "default", which is "flag" only in mode fpisa-a
    transport     "udp", or "xsk", which needs privilege
    fanout        "multicast" if possible, or "unicast", which no other host receives; "default" is the manager's choice
    restore       failed calls in place leave the array as it was

    All ranks make the same calls in the same order. Threads may share a group, with tags; `with` closes it.
    """

    def __init__(self, host: Optional[str], name: str, rank: int, size: int, *,
                 key_file: Union[str, os.PathLike[str], None] = None, join_timeout: float = 10.0,
                 timeout: Optional[float] = None, window: int = 0, elements: int = 0, mode: str = "default",
                 pipeline: str = "default", overflow: str = "default", transport: str = "udp",
                 restore: bool = False, rounding: str = "default", fanout: str = "default") -> None:
        pointer = join(host, name, rank, size, group_options(
            key_file=key_file, join_timeout=join_timeout, timeout=timeout, window=window, elements=elements, mode=mode,
            pipeline=pipeline, overflow=overflow, transport=transport, restore=restore, rounding=rounding,
            fanout=fanout))
        self.name, self.rank, self.size = name, rank, size
        self._open(pointer, _leave)

    def barrier(self) -> None:
        """Return when all ranks have called barrier()."""
        request = None
        while request is None:
            request = self._start_barrier()
        request.wait()

    def _start_barrier(self) -> Optional[Request]:
        """Start a barrier. Return None, after a pause, while the group's first job is being created."""
        request = Request(self, None)
        try:
            return self._begin(request, None, lambda: library().fpisa_group_barrier_start(
                self._pointer, ctypes.byref(request._pointer)))
        except Error as e:
            if e.errno != errno.EAGAIN:
                raise
        time.sleep(LONGEST_PAUSE_S)
        return None

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Copy `array` of rank `root` into that of all ranks, bit for bit, and return it. All ranks give the same root and bytes.

        array  a C-contiguous numpy array of any type and shape without objects; that of root is only read
        """
        in_range(root, 32, "root")
        check_memory(array, root != self.rank)
        request = Request(self, array)
        self._begin(request, array, lambda: library().fpisa_group_broadcast_start(
            self._pointer, array.ctypes.data, array.nbytes, root, ctypes.byref(request._pointer))).wait()
        return array

    def _start(self, call: Call, request: ctypes.c_void_p) -> int:
        return library().fpisa_group_start(self._pointer, ctypes.byref(call), ctypes.byref(request))

    def _eventfd(self) -> int:
        return library().fpisa_group_eventfd(self._pointer)

    def _missing(self) -> int:
        return library().fpisa_group_missing(self._pointer)

    def __repr__(self) -> str:
        return f"<fpisa.Group {self.name!r} rank {self.rank} of {self.size}{', closed' if self.closed else ''}>"


def _leave(pointer: ctypes.c_void_p, arrays: dict) -> None:
    library().fpisa_group_leave(pointer)
    arrays.clear()
