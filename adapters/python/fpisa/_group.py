# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Groups, whose ranks find each other by a name."""
from __future__ import annotations

import ctypes
import errno
import os
import time
from typing import Optional, Tuple, Union

from ._arrays import Array, check_memory
from ._calls import LONGEST_PAUSE_S, Caller, Request
from ._errors import Error
from ._library import (FANOUTS, MODES, OVERFLOWS, PIPELINES, ROUNDINGS, TRANSPORTS, Call, GroupOptions, check_join, group_missing, in_range,
                       library, milliseconds, number_of, text)


def group_options(*, key_file: Union[str, os.PathLike[str], None] = None, join_timeout: float = 10.0,
                  timeout: Optional[float] = None, window: int = 0, elements: int = 0, mode: str = "default",
                  pipeline: str = "default", overflow: str = "default", transport: str = "udp",
                  restore: bool = False, rounding: str = "default", fanout: str = "default",
                  share: bool = False) -> GroupOptions:
    """Return the library's options for the options of Group."""
    return GroupOptions(
        key_file=text(None if key_file is None else os.fsencode(key_file), "key_file"),
        join_timeout_ms=milliseconds(join_timeout, "join_timeout", 0), timeout_ms=milliseconds(timeout, "timeout", 0),
        window=in_range(window, 32, "window"), elements=in_range(elements, 16, "elements"),
        mode=number_of(MODES, mode, "mode"), pipeline=number_of(PIPELINES, pipeline, "pipeline"),
        overflow=number_of(OVERFLOWS, overflow, "overflow"), transport=number_of(TRANSPORTS, transport, "transport"),
        restore=bool(restore), rounding=number_of(ROUNDINGS, rounding, "rounding"),
        fanout=number_of(FANOUTS, fanout, "fanout"), share=bool(share))


def join(host: Optional[str], name: str, rank: int, size: int, options: GroupOptions) -> ctypes.c_void_p:
    """Join a group. Return the library's group after all ranks have joined."""
    pointer = ctypes.c_void_p()
    check_join(library().fpisa_group_join(ctypes.byref(pointer), text(host, "host"), text(name, "name"),
                                          in_range(rank, 32, "rank"), in_range(size, 32, "size"), ctypes.byref(options)))
    return pointer


class Group(Caller):
    """A group of ranks that find each other by `name` at the manager (`fpisa serve`) of an aggregator.

    The constructor returns when all `size` ranks have joined. Each rank has a unique `rank` below `size`. A group does not
    need privileges. A rank may compute for any length of time between calls. If a rank dies, the calls of the other ranks
    raise RankLost immediately.

    host          the aggregator's name or IPv4 address, with a port if the port is not 18000. The default is the value of
                  FPISA_MANAGER
    key_file      the key file, whose last key is used. The default is the file that FPISA_KEY names. "" means no key
    join_timeout  seconds within which all ranks must join
    timeout       seconds that a call may take. By default a call waits as long as all ranks live
    window, elements, mode, rounding, pipeline   options of the group's jobs, as for `fpisa job add`
    overflow      what to do on overflow: "error", "flag", or "default". The default is "flag" in mode fpisa-a, else "error"
    transport     "udp", or "xsk", which needs privileges
    fanout        "multicast", which is used only if possible, or "unicast", which other hosts cannot receive. By default the
                  manager chooses
    restore       whether a failed in-place call restores the array
    share         whether the group shares its connection to the manager with all groups of this process that share it

    All ranks must make the same calls in the same order. Threads may share a group if their calls have different tags. A
    `with` statement closes the group.
    """

    def __init__(self, host: Optional[str], name: str, rank: int, size: int, *,
                 key_file: Union[str, os.PathLike[str], None] = None, join_timeout: float = 10.0,
                 timeout: Optional[float] = None, window: int = 0, elements: int = 0, mode: str = "default",
                 pipeline: str = "default", overflow: str = "default", transport: str = "udp",
                 restore: bool = False, rounding: str = "default", fanout: str = "default",
                 share: bool = False) -> None:
        pointer = join(host, name, rank, size, group_options(
            key_file=key_file, join_timeout=join_timeout, timeout=timeout, window=window, elements=elements, mode=mode,
            pipeline=pipeline, overflow=overflow, transport=transport, restore=restore, rounding=rounding,
            fanout=fanout, share=share))
        self.name, self.rank, self.size = name, rank, size
        self._open(pointer, _leave)

    def barrier(self) -> None:
        """Wait until all ranks have called barrier()."""
        request = None
        while request is None:
            request = self._start_barrier()
        request.wait()

    def _start_barrier(self) -> Optional[Request]:
        """Start a barrier. While the group's first job is being created, pause and return None."""
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
        """Copy the array of rank `root` to the arrays of all ranks, bit for bit, and return `array`. All ranks must pass the
        same root and the same number of bytes.

        array  a C-contiguous numpy array of any shape and any type except objects. The array of rank `root` is not written
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

    def _missing(self) -> Tuple[int, ...]:
        return group_missing(self._pointer)

    def __repr__(self) -> str:
        return f"<fpisa.Group {self.name!r} rank {self.rank} of {self.size}{', closed' if self.closed else ''}>"


def _leave(pointer: ctypes.c_void_p, arrays: dict) -> None:
    library().fpisa_group_leave(pointer)
    arrays.clear()
