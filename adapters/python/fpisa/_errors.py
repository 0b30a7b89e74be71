# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Exceptions: one for each way to handle an error."""
from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Tuple, Type

if TYPE_CHECKING:
    from ._arrays import Result


class Error(OSError):
    """An error of libfpisa. `errno` is its number, `strerror` its sentence, `ranks` the ranks that it is about."""

    def __init__(self, number: int, sentence: str, ranks: Tuple[int, ...] = ()) -> None:
        super().__init__(number, sentence)
        self.ranks = ranks

    def __str__(self) -> str:
        return str(self.strerror)


class InvalidCall(Error, ValueError):
    """Arguments that are not valid for any call (EINVAL). Nothing was sent."""


class TimedOut(Error, TimeoutError):
    """A deadline passed (ETIMEDOUT); `ranks` are the missing ranks."""


class RankLost(Error, ConnectionResetError):
    """Ranks are dead, have left, or were removed from the job (ECONNRESET); `ranks` says which. Close the group and join again."""


class CallsDiffer(Error):
    """The ranks made different calls (EPROTO). None of the calls has a sum."""


class Stale(Error):
    """The job was created again, or this rank was replaced (ESTALE). Continue with Handle.rejoin()."""


class Canceled(Error):
    """Handle.rejoin() or close() gave the request up (ECANCELED)."""


class Unclean(Error, ValueError):
    """The array contains sums of a failed call in place, not input (EUCLEAN). Write it again, or set restore."""


class Overflow(Error, OverflowError):
    """Some sums overflowed (ERANGE). `result` has all sums and their flags. The next call may be made."""

    result: Result


class LibraryMissing(ImportError):
    """libfpisa.so.1 is missing or too old."""


_CLASSES = {errno.EINVAL: InvalidCall, errno.ETIMEDOUT: TimedOut, errno.ECONNRESET: RankLost,
            errno.EPROTO: CallsDiffer, errno.ESTALE: Stale, errno.ECANCELED: Canceled, errno.ERANGE: Overflow,
            errno.EUCLEAN: Unclean}


def ranks_of(bitmap: int) -> Tuple[int, ...]:
    return tuple(r for r in range(64) if bitmap >> r & 1)


def error_of(rc: int, sentence: str, missing: int) -> Error:
    """Return the exception for a function's return code; `missing` is a bitmap of ranks."""
    kind: Type[Error] = _CLASSES.get(-rc, Error)
    return kind(-rc, sentence, ranks_of(missing))
