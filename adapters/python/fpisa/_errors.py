# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Exceptions. There is one class for each way to handle an error."""
from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Tuple, Type

if TYPE_CHECKING:
    from ._arrays import Result


class Error(OSError):
    """An error of libfpisa. `errno` is the error number, `strerror` is the message, and `ranks` lists the ranks that caused the
    error.
    """

    def __init__(self, number: int, sentence: str, ranks: Tuple[int, ...] = ()) -> None:
        super().__init__(number, sentence)
        self.ranks = ranks

    def __str__(self) -> str:
        return str(self.strerror)


class InvalidCall(Error, ValueError):
    """The arguments are not valid for any call (EINVAL). Nothing was sent."""


class TimedOut(Error, TimeoutError):
    """A deadline passed (ETIMEDOUT). `ranks` lists the missing ranks."""


class RankLost(Error, ConnectionResetError):
    """Some ranks died, left, or were removed from the job (ECONNRESET). `ranks` lists these ranks. Close the group and join
    again.
    """


class CallsDiffer(Error):
    """The ranks made different calls (EPROTO). None of these calls returns a sum."""


class Stale(Error):
    """The job was created again, or this rank was replaced (ESTALE). Continue with Handle.rejoin()."""


class Canceled(Error):
    """Handle.rejoin() or close() canceled the request (ECANCELED)."""


class Unclean(Error, ValueError):
    """After a failed in-place call, the array contains sums and not input (EUCLEAN). Write the input again, or set `restore`."""


class Overflow(Error, OverflowError):
    """Some sums overflowed (ERANGE). `result` contains all sums and their flags. Further calls are possible."""

    result: Result


class LibraryMissing(ImportError):
    """The library libfpisa.so.1 is missing or too old."""


_CLASSES = {errno.EINVAL: InvalidCall, errno.ETIMEDOUT: TimedOut, errno.ECONNRESET: RankLost,
            errno.EPROTO: CallsDiffer, errno.ESTALE: Stale, errno.ECANCELED: Canceled, errno.ERANGE: Overflow,
            errno.EUCLEAN: Unclean}


def ranks_of(bitmap: int) -> Tuple[int, ...]:
    return tuple(r for r in range(bitmap.bit_length()) if bitmap >> r & 1)


def error_of(rc: int, sentence: str, missing: Tuple[int, ...]) -> Error:
    """Return the exception for a function's return code. `missing` lists the ranks that the error names."""
    kind: Type[Error] = _CLASSES.get(-rc, Error)
    return kind(-rc, sentence, missing)
